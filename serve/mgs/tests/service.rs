//! The MGS as clients see it: in process, over a real store in a temporary folder.

use env::Env;
use env::real::{RealConfig, RealEnv, RealGuard};
use mgs::mgs::Mgs;
use rpc::service::{Export, Gone, Service};
use rpc::{Rpc, RpcConfig};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use target::{FormatSpec, Target, TargetOptions, format};
use types::credentials::Credentials;
use types::errno::Errno;
use types::nid::Nid;
use types::proof::{Proof, ServerKey};
use types::session::{ClientUuid, ClusterId, Transno, Xid};
use types::target::{FsName, TargetKind, TargetName};
use wire::message::{ConnectRequest, Op, OpReply, Reply, Request, VERSION_MAX, VERSION_MIN};
use wire::mgs::{FsConfig, MgsOp, MgsReply};
use wire::ost::OstOp;

struct Rig {
    mgs: Arc<Mgs>,
    target: Arc<Target>,
    env: Env,
    dir: tempfile::TempDir,
    _guard: RealGuard,
}

fn start(env: &Env, dir: &Path) -> (Arc<Target>, Arc<Mgs>) {
    let target = Target::open(env, dir, TargetOptions::default()).unwrap();
    let mgs = Mgs::start(target.clone(), env.clone()).unwrap();
    (target, mgs)
}

/// Copies a folder. No program does it: between fork and exec a child has the locks of all targets
/// of this process, so one that is closed just then could not be opened again.
fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

impl Rig {
    fn new() -> Rig {
        let (env, guard) = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 2 }).unwrap();
        let dir = tempfile::tempdir().unwrap();
        format(&env, dir.path(), &FormatSpec::new(FsName::default(), TargetKind::Mgt)).unwrap();
        let (target, mgs) = start(&env, dir.path());
        Rig { mgs, target, env, dir, _guard: guard }
    }

    /// Copies the folder as it is on disk now, as after a crash, and starts an MGS over the copy.
    fn crash(&self) -> (tempfile::TempDir, Arc<Target>, Arc<Mgs>) {
        let copy = tempfile::tempdir().unwrap();
        copy_all(self.dir.path(), &copy.path().join("t"));
        let (target, mgs) = start(&self.env, &copy.path().join("t"));
        (copy, target, mgs)
    }

    fn restart(&mut self) {
        wait(self.target.close()).unwrap();
        (self.target, self.mgs) = start(&self.env, self.dir.path());
    }

    fn one(&self, op: MgsOp) -> Result<MgsReply, Errno> {
        one(&self.mgs, &export(1), op)
    }

    fn register(&self, name: &str, store: u128) -> Result<(String, u64), Errno> {
        let nids = vec!["10.0.0.1:7988@tcp".to_owned()];
        match self.one(MgsOp::Register {
            name: name.into(),
            store,
            nids,
            boot: 1,
            shared: false,
        })? {
            MgsReply::Registered { name, cluster, boot, key } => {
                assert_eq!(ClusterId(cluster), self.target.cluster());
                assert_eq!(ServerKey(key), self.target.server_key());
                assert!(self.target.server_key().is_known());
                Ok((name, boot))
            }
            other => panic!("{other:?}"),
        }
    }
}

fn export(client: u128) -> Arc<Export> {
    Export::local(TargetName::mgs(), ClientUuid(client), format!("client {client}"), None)
}

fn wait<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn call(mgs: &Arc<Mgs>, export: &Arc<Export>, ops: Vec<Op>) -> Reply {
    let request = Request {
        target: TargetName::mgs(),
        xid: Xid(5),
        xid_known: Xid(0),
        resent: false,
        replay: Transno(0),
        slot: 0,
        locks: types::lock::InodeBits::NONE,
        credentials: Credentials::root(),
        job: types::job::JobId::NONE,
        ops,
    };
    wait(mgs.clone().handle(export.clone(), request))
}

fn one(mgs: &Arc<Mgs>, export: &Arc<Export>, op: MgsOp) -> Result<MgsReply, Errno> {
    match call(mgs, export, vec![Op::Mgs(op)]).results.remove(0)? {
        OpReply::Mgs(reply) => Ok(reply),
        other => panic!("{other:?}"),
    }
}

fn config(mgs: &Arc<Mgs>, export: &Arc<Export>, known: u64, wait_ms: u32) -> FsConfig {
    match one(mgs, export, MgsOp::Config { fsname: "sheen".into(), known, wait_ms }).unwrap() {
        MgsReply::Config(config) => config,
        other => panic!("{other:?}"),
    }
}

fn set(name: &str, value: &str) -> MgsOp {
    MgsOp::SetParam { fsname: "sheen".into(), name: name.into(), value: Some(value.into()) }
}

#[test]
fn a_registration_is_durable_when_it_is_answered() {
    let rig = Rig::new();
    assert_ne!(rig.target.cluster(), ClusterId(0), "a cluster is founded");
    for n in 0..20u128 {
        let name = format!("sheen-OST{n:04x}");
        assert_eq!(rig.register("sheen-OST", n + 1), Ok((name.clone(), 1)));
        let (_dir, target, mgs) = rig.crash();
        assert_eq!(target.cluster(), rig.target.cluster());
        let after = config(&mgs, &export(1), 0, 0);
        assert_eq!(after, config(&rig.mgs, &export(1), 0, 0));
        assert_eq!(after.targets.last().unwrap().name, name);
        wait(target.close()).unwrap();
    }
}

#[test]
fn a_restart_forgets_nothing() {
    let mut rig = Rig::new();
    rig.register("sheen-MDT", 1).unwrap();
    rig.register("sheen-OST", 2).unwrap();
    rig.register("other-MDT", 3).unwrap();
    rig.one(set("osc.*.max_dirty_mb", "64")).unwrap();
    rig.one(set("b", "1")).unwrap();
    rig.one(MgsOp::SetParam { fsname: "sheen".into(), name: "b".into(), value: None }).unwrap();
    rig.one(MgsOp::Unregister { name: "sheen-OST0000".into(), store: 2 }).unwrap();
    let before = rig.mgs.configs();
    assert_eq!(before.len(), 2);
    assert_eq!(before[&FsName::default()].version, 6);
    rig.restart();
    assert_eq!(rig.mgs.configs(), before);
    let seen = config(&rig.mgs, &export(1), 0, 0);
    assert_eq!(seen.params, [("osc.*.max_dirty_mb".to_owned(), "64".to_owned())]);
    assert_eq!(seen.targets.iter().map(|t| t.up).collect::<Vec<_>>(), [true, false]);
    assert_eq!(rig.register("sheen-OST", 2), Ok(("sheen-OST0000".into(), 1)));
}

#[test]
fn strangers_are_refused() {
    let rig = Rig::new();
    rig.register("sheen-OST0000", 1).unwrap();
    let before = rig.mgs.configs();
    assert_eq!(rig.register("sheen-OST0000", 2), Err(Errno::EEXIST));
    assert_eq!(
        rig.one(MgsOp::Unregister { name: "sheen-OST0000".into(), store: 2 }),
        Err(Errno::EEXIST)
    );
    assert_eq!(
        rig.one(MgsOp::Unregister { name: "sheen-OST0001".into(), store: 2 }),
        Err(Errno::ENOENT)
    );
    assert_eq!(
        rig.one(MgsOp::Config { fsname: "not a name".into(), known: 0, wait_ms: 0 }),
        Err(Errno::EINVAL)
    );
    assert_eq!(rig.mgs.configs(), before);
    let reply = call(&rig.mgs, &export(1), vec![Op::Ost(OstOp::Statfs), Op::Mgs(MgsOp::Clients)]);
    assert_eq!(reply.results, [Err(Errno::EPROTO), Err(Errno::ECANCELED)]);
}

#[test]
fn a_waiting_client_hears_of_a_change_at_once() {
    let rig = Rig::new();
    rig.register("sheen-MDT", 1).unwrap();
    std::thread::scope(|scope| {
        let polls: Vec<_> = (0..3)
            .map(|n| {
                let mgs = rig.mgs.clone();
                scope.spawn(move || (config(&mgs, &export(n), 1, 30_000), Instant::now()))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(100));
        assert!(polls.iter().all(|p| !p.is_finished()), "nothing to tell yet");
        // Another file system is no news.
        rig.register("other-MDT", 2).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert!(polls.iter().all(|p| !p.is_finished()), "nothing to tell yet");
        let changed = Instant::now();
        rig.register("sheen-OST", 3).unwrap();
        for poll in polls {
            let (config, heard) = poll.join().unwrap();
            assert_eq!((config.version, config.targets.len()), (2, 2));
            assert!(heard - changed < Duration::from_secs(10));
        }
    });
}

#[test]
fn a_poll_ends_in_time() {
    let rig = Rig::new();
    let began = Instant::now();
    assert_eq!(config(&rig.mgs, &export(1), 0, 150).version, 0, "nobody knows this file system");
    assert!(began.elapsed() >= Duration::from_millis(150));
    rig.register("sheen-MDT", 1).unwrap();
    let began = Instant::now();
    assert_eq!(config(&rig.mgs, &export(1), 1, 150).version, 1);
    assert!(began.elapsed() >= Duration::from_millis(150));
    let began = Instant::now();
    assert_eq!(config(&rig.mgs, &export(1), 0, 30_000).version, 1);
    assert!(began.elapsed() < Duration::from_secs(10), "older knowledge is answered at once");
}

#[test]
fn a_poll_ends_with_its_session() {
    let rig = Rig::new();
    let rpc =
        Rpc::new(rig.env.clone(), RpcConfig { cluster: rig.target.cluster(), checksums: true });
    rpc.add_service(rig.mgs.clone());
    let import = |n| {
        rpc.import(
            TargetName::mgs(),
            vec![Nid::Loopback],
            ClientUuid(n),
            format!("client {n}"),
            None,
        )
    };
    let (poller, other) = (import(1), import(2));
    let began = Instant::now();
    std::thread::scope(|scope| {
        let op = Op::Mgs(MgsOp::Config { fsname: "sheen".into(), known: 0, wait_ms: 40_000 });
        let poll = scope.spawn(|| wait(poller.one(&Credentials::root(), op)));
        let clients = || wait(other.one(&Credentials::root(), Op::Mgs(MgsOp::Clients))).unwrap();
        let there = |n| matches!(clients(), OpReply::Mgs(MgsReply::Clients(c)) if c.len() == n);
        while !there(2) {
            assert!(began.elapsed() < Duration::from_secs(20));
        }
        assert!(!poll.is_finished());
        wait(poller.disconnect());
        assert!(there(1));
        // Answered or failed, as the session's end and the answer may cross; but not hanging.
        let _ = poll.join().unwrap();
    });
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    wait(rpc.shutdown());
}

#[test]
fn clients_are_listed_while_they_are_there() {
    let rig = Rig::new();
    let hello = |client| ConnectRequest {
        version_min: VERSION_MIN,
        version_max: VERSION_MAX + 5,
        cluster: ClusterId(0),
        client: ClientUuid(client),
        description: String::new(),
        boot: 0,
        proof: Proof(client),
        server: Proof(0),
    };
    let (a, b) = (export(1), export(2));
    let reply = rig.mgs.connect(&a, &hello(1)).unwrap();
    assert_eq!((reply.version, reply.cluster, reply.boot), (VERSION_MAX, rig.target.cluster(), 1));
    rig.mgs.connect(&b, &hello(2)).unwrap();
    let list = |names: &[&str]| {
        Ok(MgsReply::Clients(names.iter().map(|n| (n.to_string(), "0@lo".into())).collect()))
    };
    assert_eq!(rig.one(MgsOp::Clients), list(&["client 1", "client 2"]));
    // The end of an old session does not take the new one away.
    let again = export(1);
    rig.mgs.connect(&again, &hello(1)).unwrap();
    rig.mgs.gone(&a, Gone::Evicted);
    assert_eq!(rig.one(MgsOp::Clients), list(&["client 1", "client 2"]));
    rig.mgs.gone(&again, Gone::Disconnected);
    assert_eq!(rig.one(MgsOp::Clients), list(&["client 2"]));
}

#[test]
fn a_damaged_record_is_named() {
    let mut rig = Rig::new();
    rig.register("sheen-MDT", 1).unwrap();
    let key = disk::config::ConfigKey::Fs(FsName::default()).encode();
    let mut tx = rig.target.store().begin();
    tx.put(&key, b"garbage");
    tx.finish();
    wait(rig.target.close()).unwrap();
    rig.target = Target::open(&rig.env, rig.dir.path(), TargetOptions::default()).unwrap();
    let error = Mgs::start(rig.target.clone(), rig.env.clone()).err().unwrap().to_string();
    assert!(error.contains("config/f/sheen") && error.contains("damaged"), "{error}");
}
