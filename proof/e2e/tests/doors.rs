//! Attacks of a process that has no business here: each is refused, and what it attacked is as it
//! was (docs/security.md).

use e2e::can_mount;
use e2e::cluster::{Cluster, RUN_DIR};
use e2e::http::get;
use e2e::lustre::{lctl, lctl_says, soon};
use e2e::process::{detach, text};
use e2e::sheen;
use e2e::stranger::{Stranger, make_directory};
use rustix::fs::Uid;
use rustix::thread::set_thread_res_uid;
use std::cell::RefCell;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use types::errno::Errno;
use types::fid::Fid;
use types::object::ObjectId;
use types::proof::{Proof, ServerKey};
use types::session::{ClientUuid, Pairing};
use types::target::{FsName, TargetName};
use wire::client::ClientOp;
use wire::envelope::Refusal;
use wire::hello::Welcome;
use wire::mds::{MdsOp, Mend, Scan};
use wire::message::{Op, OpReply};
use wire::mgs::{MgsOp, MgsReply, PoolChange};
use wire::ost::{ObjectDestroy, ObjectList, OstOp, OstReply};

/// Another address of this host than the one that its own clients call from.
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 99));
/// A user that has nothing here.
const NOBODY: u32 = 65534;
const VICTIM: ClientUuid = ClientUuid(0xabc);
const ATTACKER: ClientUuid = ClientUuid(0xbad);
const REFUSED: Errno = Errno::EACCES;

fn mdt() -> TargetName {
    TargetName::mdt(FsName::default(), 0)
}

fn ost() -> TargetName {
    TargetName::ost(FsName::default(), 0)
}

/// A session of a stranger with a target.
fn session(listen: &str, pairing: u128, client: ClientUuid, target: TargetName) -> Stranger {
    let mut stranger = Stranger::greet(ELSEWHERE, listen, pairing);
    assert_eq!(stranger.session(client, target).expect("an answer"), None);
    stranger
}

/// A session that shows the key of the servers: what it may send shows that the same request is
/// refused without the key for this reason alone.
fn session_of_server(
    cluster: &Cluster,
    pairing: u128,
    client: ClientUuid,
    target: TargetName,
) -> Stranger {
    let mut stranger = Stranger::greet(ELSEWHERE, &cluster.listens_at(), pairing);
    let key = ServerKey(superblock(cluster, "mgt").key);
    stranger.server = key.proof(Pairing(pairing), client, target);
    assert_eq!(stranger.session(client, target).expect("an answer"), None);
    stranger
}

/// The secrets of a target, from its disk.
struct Secrets {
    store: u128,
    key: u128,
}

fn superblock(cluster: &Cluster, target: &str) -> Secrets {
    let bytes = fs::read(cluster.dir().join(target).join("superblock")).expect("a superblock");
    let number = |at: usize| u128::from_le_bytes(bytes[at..at + 16].try_into().expect("16 bytes"));
    Secrets { store: number(32), key: number(68) }
}

/// A number as the messages of the MGS write it: seven bits to a byte, the lowest first.
fn varint(mut number: u128) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn contains(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}

fn mgs(op: MgsOp) -> Op {
    Op::Mgs(op)
}

fn config_of(stranger: &mut Stranger, client: ClientUuid) -> (Vec<String>, u64, Vec<u8>) {
    let op = mgs(MgsOp::Config { fsname: "sheen".to_owned(), known: 0, wait_ms: 0 });
    let (result, bytes) = stranger.result(client, TargetName::mgs(), op);
    let Ok(OpReply::Mgs(MgsReply::Config(config))) = result else { panic!("{result:?}") };
    let nids = config.targets.iter().flat_map(|target| target.nids.clone()).collect();
    (nids, config.version, bytes)
}

fn still_works(cluster: &Cluster) {
    fs::write(cluster.mount().join("file"), "still here").expect("the mount works");
    assert_eq!(fs::read_to_string(cluster.mount().join("file")).expect("read"), "still here");
}

/// A command beside the daemons of this cluster.
fn beside(cluster: &Cluster, name: &str, args: &[&str]) -> Output {
    let mut command = Command::new(sheen());
    command.arg0(name).args(args).env(RUN_DIR, cluster.run_dir()).stdin(Stdio::null());
    command.output().expect("sheen runs")
}

/// Runs on this thread as another user.
fn as_user<T>(uid: u32, work: impl FnOnce() -> T) -> T {
    let switch = |uid| set_thread_res_uid(Uid::ROOT, uid, Uid::ROOT).expect("root may be any user");
    switch(Uid::from_raw(uid));
    let result = work();
    switch(Uid::ROOT);
    result
}

#[test]
fn other_users_of_the_host_are_not_let_in() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let listen = cluster.listens_at();
    for from in [Ipv4Addr::LOCALHOST.into(), ELSEWHERE] {
        let (mut stranger, welcome) = as_user(NOBODY, || Stranger::try_greet(from, &listen, 1));
        assert_eq!(welcome, Welcome::OtherUser, "from {from}");
        assert!(stranger.session(ATTACKER, mdt()).is_err(), "the connection is closed");
        // The same from root.
        assert_eq!(
            session(&listen, 2, VICTIM, mdt()).session(VICTIM, mdt()).expect("an answer"),
            None
        );
    }
    let said =
        format!("belongs to user {NOBODY}; only root and the user of this daemon may connect");
    assert!(cluster.log().contains(&said), "{}", cluster.log());
    still_works(&cluster);
}

/// A15: the page and the metrics are read by every user of the host.
#[test]
fn other_users_of_the_host_read_the_page_and_the_metrics_only_with_the_token() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "1"]);
    let told = |args: &[&str]| String::from_utf8(cluster.command(args).stdout).expect("text");
    let status = || told(&["status", "--json"]);
    let addr = serde_json::from_str::<serde_json::Value>(&status()).expect("JSON")["http"].clone();
    let addr = addr.as_str().expect("an address");
    for path in ["/", "/page.js", "/api/cluster", "/api/detail?of=all", "/metrics"] {
        assert_eq!(get(addr, path, "").0, 200, "root reads {path}");
        let (code, said) = as_user(NOBODY, || get(addr, path, ""));
        assert_eq!(code, 401, "{path}: {said}");
        assert!(
            said.contains("open the address that `sheen dash` prints") && said.lines().count() == 1,
            "{said}"
        );
    }

    let url = told(&["dash"]);
    let token = url
        .trim()
        .strip_prefix(&format!("http://{addr}/?token="))
        .expect("an address with the token");
    let with = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let as_nobody = |path: &str, header: &str| as_user(NOBODY, || get(addr, path, header).0);
    assert_eq!(as_nobody("/metrics", &with(token)), 200);
    assert_eq!(as_nobody(&format!("/?token={token}"), ""), 303, "a browser gets the cookie");
    assert_eq!(as_nobody("/", &format!("Cookie: sheen_token={token}\r\n")), 200);
    let (most, last) = token.split_at(token.len() - 1);
    let wrong = format!("{most}{}", if last == "0" { "1" } else { "0" });
    assert_eq!(as_nobody("/metrics", &with(&wrong)), 401);
    assert_eq!(get(addr, "/metrics", &with(&wrong)).0, 200, "root needs none");
    assert!(
        !status().contains(token) && !cluster.log().contains(token),
        "only `sheen dash` tells it"
    );
}

/// A1: objects are listed and destroyed by each process that asks.
#[test]
fn objects_are_listed_and_destroyed_by_servers_only() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "1"]);
    let file = cluster.mount().join("precious");
    fs::write(&file, vec![7; 300_000]).expect("write");
    assert_eq!(e2e::programs::sh(&cluster.mount(), "sync precious"), "");

    let listed = |stranger: &mut Stranger, client| {
        let op = Op::Ost(OstOp::List(ObjectList { after: None, limit: 100 }));
        match stranger.result(client, ost(), op).0 {
            Ok(OpReply::Ost(OstReply::Objects { objects, .. })) => Ok(objects),
            Err(errno) => Err(errno),
            other => panic!("{other:?}"),
        }
    };
    let mut attacker = session(&cluster.listens_at(), 7, ATTACKER, ost());
    assert_eq!(listed(&mut attacker, ATTACKER), Err(REFUSED));
    // A key that is not the cluster's.
    let mut liar = Stranger::greet(ELSEWHERE, &cluster.listens_at(), 8);
    liar.server = Proof(0x1234);
    assert_eq!(liar.session(VICTIM, ost()).expect("an answer"), None);
    assert_eq!(listed(&mut liar, VICTIM), Err(REFUSED));

    // The name of an object can be guessed: it is made of the file's FID.
    let mut server = session_of_server(&cluster, 9, ClientUuid(1), ost());
    let objects = listed(&mut server, ClientUuid(1)).expect("a server may");
    let victims: Vec<ObjectId> = objects.iter().map(|(object, ..)| *object).collect();
    assert!(!victims.is_empty());
    let destroy = || Op::Ost(OstOp::Destroy(ObjectDestroy { objects: victims.clone() }));
    assert_eq!(attacker.result(ATTACKER, ost(), destroy()).0, Err(REFUSED));
    assert_eq!(
        listed(&mut server, ClientUuid(1)).expect("a server may"),
        objects,
        "all are still there"
    );
    assert!(fs::read(&file).expect("read") == vec![7; 300_000]);
    assert_eq!(
        server.result(ClientUuid(1), ost(), destroy()).0,
        Ok(OpReply::Ost(OstReply::Done)),
        "a server may"
    );
    assert_eq!(listed(&mut server, ClientUuid(1)), Ok(Vec::new()));
}

/// A3: raw records of an MDT are read and written with a claim to be root.
#[test]
fn records_are_shown_to_servers_only_and_fsck_runs_on_their_hosts() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "1"]);
    fs::write(cluster.mount().join("a name of mine"), "x").expect("write");
    let scan = || {
        Op::Mds(MdsOp::Scan(Scan {
            start: vec![0].into(),
            end: vec![0xff].into(),
            bytes_max: 1 << 20,
        }))
    };
    let mend = || Op::Mds(MdsOp::Mend(Mend { expect: Vec::new(), put: Vec::new() }));
    let mut attacker = session(&cluster.listens_at(), 7, ATTACKER, mdt());
    let (result, bytes) = attacker.result(ATTACKER, mdt(), scan());
    assert_eq!(result, Err(REFUSED));
    assert!(!contains(&bytes, b"a name of mine"));
    assert_eq!(attacker.result(ATTACKER, mdt(), mend()).0, Err(REFUSED));
    let mut server = session_of_server(&cluster, 8, ClientUuid(1), mdt());
    let (result, bytes) = server.result(ClientUuid(1), mdt(), scan());
    assert!(result.is_ok() && contains(&bytes, b"a name of mine"), "a server may");

    let mgs = format!("{}@tcp", cluster.listens_at());
    let checked = beside(&cluster, "sheen", &["fsck", &mgs]);
    assert!(checked.status.success(), "{}", text(&checked));
    // The same command where no daemon of the cluster can be asked.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(sheen());
    let refused =
        command.args(["fsck", &mgs]).env(RUN_DIR, elsewhere.path()).output().expect("sheen runs");
    assert_eq!(refused.status.code(), Some(8), "{}", text(&refused));
    let said = text(&refused);
    assert!(
        said.contains("run this as root on a host that serves a target of the cluster"),
        "{said}"
    );
    still_works(&cluster);
}

/// A5, A6: a target is moved to an own address, or stopped, with the UUID of its store, which the
/// configuration told.
#[test]
fn nobody_is_told_the_uuid_of_a_store_and_without_it_no_target_is_moved_or_stopped() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "1"]);
    let listen = cluster.listens_at();
    let store = superblock(&cluster, "ost0000").store;
    let mut attacker = session(&listen, 7, ATTACKER, TargetName::mgs());
    let (nids, version, mut told) = config_of(&mut attacker, ATTACKER);
    told.extend(attacker.result(ATTACKER, TargetName::mgs(), mgs(MgsOp::Reports)).1);
    let is_told = contains(&told, &varint(store)) || contains(&told, &store.to_le_bytes());
    let stolen = if is_told { store } else { store ^ 1 };

    let mine = || vec!["127.0.0.99:9988@tcp".to_owned()];
    let register = |store| {
        mgs(MgsOp::Register {
            name: "sheen-OST0000".to_owned(),
            store,
            nids: mine(),
            boot: 1 << 20,
            shared: false,
        })
    };
    let unregister = |store| mgs(MgsOp::Unregister { name: "sheen-OST0000".to_owned(), store });
    assert_eq!(
        attacker.result(ATTACKER, TargetName::mgs(), register(stolen)).0,
        Err(Errno::EEXIST)
    );
    assert_eq!(
        attacker.result(ATTACKER, TargetName::mgs(), unregister(stolen)).0,
        Err(Errno::EEXIST)
    );
    assert!(!is_told, "the UUID of a store is told to everybody");
    let (now, same_version, _) = config_of(&mut attacker, ATTACKER);
    assert_eq!((now, same_version), (nids, version), "nothing moved");
    still_works(&cluster);

    // With it, which only the target has, both are done.
    let own = attacker.result(ATTACKER, TargetName::mgs(), unregister(store)).0;
    assert_eq!(own, Ok(OpReply::Mgs(MgsReply::Done)), "the owner may");
}

/// A7: anybody sets parameters of every daemon, for ever, and changes pools and targets.
#[test]
fn parameters_pools_and_targets_are_changed_from_servers_only() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "2"]);
    let listen = cluster.listens_at();
    let mut attacker = session(&listen, 7, ATTACKER, TargetName::mgs());
    let (_, version, _) = config_of(&mut attacker, ATTACKER);
    let sheen = || "sheen".to_owned();
    let crash = ("fault".to_owned(), Some("mds_reint_net=crash".to_owned()));
    let attacks = [
        MgsOp::SetParam { fsname: "*".to_owned(), name: crash.0, value: crash.1 },
        MgsOp::Pool { fsname: sheen(), pool: "mine".to_owned(), change: PoolChange::New },
        MgsOp::Remove { name: "sheen-OST0001".to_owned(), force: true, dry_run: false },
        MgsOp::Clients,
    ];
    for attack in attacks {
        assert_eq!(
            attacker.result(ATTACKER, TargetName::mgs(), mgs(attack.clone())).0,
            Err(REFUSED),
            "{attack:?}"
        );
    }
    assert_eq!(config_of(&mut attacker, ATTACKER).1, version, "nothing was changed");
    still_works(&cluster);

    // Not even a server has something kept that does harm in every process, at every start.
    let mut server = session_of_server(&cluster, 8, ClientUuid(1), TargetName::mgs());
    for (name, value) in [
        ("fault", "mds.reint.request=crash"),
        ("osd-lmdb.*.notransno", "1"),
        ("mdt.*.evict_client", "x"),
    ] {
        let op = MgsOp::SetParam {
            fsname: "*".to_owned(),
            name: name.to_owned(),
            value: Some(value.to_owned()),
        };
        assert_eq!(
            server.result(ClientUuid(1), TargetName::mgs(), mgs(op)).0,
            Err(Errno::EOPNOTSUPP),
            "{name}"
        );
        let said = "cannot be kept for later ones: set it without -P, where it is to be done";
        let output = cluster.lctl(&["set_param", "-P", &format!("{name}={value}")]);
        assert_eq!(output.status.code(), Some(Errno::EOPNOTSUPP.0), "{}", text(&output));
        assert!(text(&output).contains(said), "{}", text(&output));
    }
    assert_eq!(config_of(&mut attacker, ATTACKER).1, version, "nothing was kept");

    // Root on the host of a server may, through that server.
    lctl_says(&cluster, &["set_param", "-P", "lod.*.stripesize=2M"]);
    let sizes = || lctl(&cluster, &["get_param", "-n", "lod.*.stripesize"]);
    soon(&"2097152\n".to_owned(), sizes);
    assert_eq!(lctl_says(&cluster, &["pool_new", "sheen.mine"]), "Pool sheen.mine created\n");
}

/// A7: what an earlier version kept at the MGS, or what a file of the host says.
#[test]
fn a7_a_daemon_does_not_do_at_its_start_what_is_an_action() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "1"]);
    let elsewhere = tempfile::tempdir().expect("a folder");
    let [mount, run, config, log] =
        ["mnt", "run", "client.toml", "log"].map(|name| elsewhere.path().join(name));
    fs::create_dir(&mount).expect("mkdir");
    let params = "[params]\n\"fault\" = \"client.callback=drop\"\n\"fail_loc\" = 0x305\n\"llite.*.xattr_cache\" = 0\n";
    fs::write(&config, params).expect("write");
    let there = |name: &str, args: &[&str]| {
        let mut command = Command::new(sheen());
        command.arg0(name).args(args).env(RUN_DIR, &run).stdin(Stdio::null());
        command.output().expect("sheen runs")
    };
    let source = format!("{}@tcp:/sheen", cluster.listens_at());
    let options = format!("log={},config={}", log.display(), config.display());
    let mounted = there("mount.sheen", &[&source, mount.to_str().expect("text"), "-o", &options]);
    let test = || {
        assert!(mounted.status.success(), "{}", text(&mounted));
        let shown = |name| {
            String::from_utf8_lossy(&there("lctl", &["get_param", "-n", name]).stdout).into_owned()
        };
        assert_eq!(shown("llite.*.xattr_cache").trim(), "0", "the file was read");
        assert_eq!((shown("fault").trim(), shown("fail_loc").trim()), ("", "0"));
        let log = fs::read_to_string(&log).expect("the log");
        assert!(
            log.contains("persistent parameter is refused") && log.contains("cannot be kept"),
            "{log}"
        );
    };
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
    detach(&mount);
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

/// The same three on a host that only mounts: each says where to run it.
#[test]
fn a_host_that_only_mounts_says_where_to_run_what_changes_the_cluster() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "2"]);
    let elsewhere = tempfile::tempdir().expect("a folder");
    let (mount, run) = (elsewhere.path().join("mnt"), elsewhere.path().join("run"));
    fs::create_dir(&mount).expect("mkdir");
    let source = format!("{}@tcp:/sheen", cluster.listens_at());
    let there = |name: &str, args: &[&str]| {
        let mut command = Command::new(sheen());
        command.arg0(name).args(args).env(RUN_DIR, &run).stdin(Stdio::null());
        command.output().expect("sheen runs")
    };
    let log = format!("log={}", elsewhere.path().join("log").display());
    let mounted = there("mount.sheen", &[&source, mount.to_str().expect("text"), "-o", &log]);
    assert!(mounted.status.success(), "{}", text(&mounted));
    let where_to = "run it on a host that serves a target of the file system";
    let test = || {
        let commands: [&[&str]; 5] = [
            &["set_param", "-P", "lod.*.stripesize=2M"],
            &["conf_param", "sheen-OST0001.osc.checksums=0"],
            &["pool_new", "sheen.mine"],
            &["del_ost", "-t", "sheen-OST0001"],
            &["del_ost", "-n", "-t", "sheen-OST0001"],
        ];
        for args in commands {
            let output = there("lctl", args);
            assert_eq!(output.status.code(), Some(13), "{args:?}: {}", text(&output));
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains(where_to) && said.lines().count() == 1, "{args:?}: {said}");
        }
        fs::write(mount.join("file"), "works").expect("the mount works");
        // On a host with both daemons the server is heard, in whichever order they are asked. This
        // entry is before every process.
        symlink(cluster.dir(), run.join("1")).expect("a link");
        for last in [false, true] {
            let made = there("lctl", &["pool_new", "sheen.mine"]);
            assert!(made.status.success(), "{}", text(&made));
            let gone = there("lctl", &["pool_destroy", "sheen.mine"]);
            assert!(gone.status.success(), "{}", text(&gone));
            let kept = there("lctl", &["set_param", "-P", "lod.*.stripesize=2M"]);
            assert!(kept.status.success(), "{}", text(&kept));
            if !last {
                // Behind every process.
                fs::rename(run.join("1"), run.join("9999999")).expect("move");
            }
        }
    };
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
    detach(&mount);
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

/// A8: a process that knows the UUID of a client evicts it, takes its session, or answers for it.
#[test]
fn a_session_is_that_of_its_process_also_after_a_restart() {
    if !can_mount() {
        return;
    }
    let mut cluster = Cluster::up(&["--osts", "1"]);
    let listen = cluster.listens_at();
    let mut victim = session(&listen, 7, VICTIM, mdt());
    let mkdir = make_directory("made");
    // From now on a restarted MDT waits for it.
    assert_eq!(victim.ask(VICTIM, mdt(), mkdir).expect("an answer"), None);
    let statfs = || Op::Mds(MdsOp::Statfs);
    let takes = |listen: &str| {
        let mut attacker = Stranger::greet(ELSEWHERE, listen, 8);
        for proof in [8, 0] {
            // Its own proof, and none.
            attacker.proof = Proof(proof);
            assert_eq!(
                attacker.session(VICTIM, mdt()).expect("an answer"),
                Some(Refusal::OtherProcess)
            );
        }
        attacker
    };
    let mut attacker = takes(&listen);
    for op in [statfs(), Op::Ping, Op::Disconnect] {
        assert_eq!(
            attacker.ask(VICTIM, mdt(), op).expect("an answer"),
            Some(Refusal::OtherProcess)
        );
    }
    assert_eq!(
        victim.ask(VICTIM, mdt(), statfs()).expect("an answer"),
        None,
        "the victim noticed nothing"
    );
    // A further connection of its process.
    let mut bulk = Stranger::greet(ELSEWHERE, &listen, 7);
    assert_eq!(bulk.ask(VICTIM, mdt(), statfs()).expect("an answer"), None);

    // The victim knows its MDT again before the MDT is in service: it waits for the victim.
    cluster.kill();
    detach(&cluster.mount());
    let mut up = Command::new(sheen());
    let up = up.arg("up").arg(cluster.dir()).env(RUN_DIR, cluster.run_dir()).stdin(Stdio::null());
    let mut up = up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sheen runs");
    let listen = loop {
        let nids = cluster.lctl(&["list_nids"]);
        let nids = String::from_utf8_lossy(&nids.stdout).into_owned();
        if let Some(nid) = nids.lines().find_map(|nid| nid.strip_suffix("@tcp")) {
            break nid.to_owned();
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    // It may not know its cluster, or have its MDT, yet.
    let first = loop {
        let mut first = Stranger::greet(ELSEWHERE, &listen, 11);
        match first.session(VICTIM, mdt()).expect("an answer") {
            Some(Refusal::NoTarget | Refusal::Cluster) => {
                std::thread::sleep(Duration::from_millis(10))
            }
            answer => break answer,
        }
    };
    assert_eq!(first, Some(Refusal::OtherProcess));
    takes(&listen);
    // It comes back over connections that show another pairing, with the same proof.
    let mut again = Stranger::greet(ELSEWHERE, &listen, 10);
    again.proof = Proof(7);
    assert_eq!(again.session(VICTIM, mdt()).expect("an answer"), None, "the victim may");
    for op in [Op::Replayed, Op::Restored, statfs()] {
        assert_eq!(again.ask(VICTIM, mdt(), op).expect("an answer"), None);
    }
    takes(&listen);
    assert!(up.wait().expect("sheen up ends").success(), "{}", cluster.log());
    assert!(cluster.mount().join("made").is_dir());
    still_works(&cluster);
}

/// A8: the UUIDs of clients are told, and callbacks in the name of a server are answered.
#[test]
fn uuids_of_clients_are_not_told_and_callbacks_of_strangers_are_not_heard() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "1"]);
    let listen = cluster.listens_at();
    still_works(&cluster);
    let uuid = lctl(&cluster, &["get_param", "-n", "llite.*.uuid"]).trim().to_owned();
    assert_eq!(uuid.len(), 36, "{uuid}");
    let client = ClientUuid(u128::from_str_radix(&uuid.replace('-', ""), 16).expect("hexadecimal"));

    let attacker = session(&listen, 7, ATTACKER, TargetName::mgs());
    let attacker = RefCell::new(attacker);
    let reports =
        || attacker.borrow_mut().result(ATTACKER, TargetName::mgs(), mgs(MgsOp::Reports)).1;
    let at = cluster.mount().display().to_string();
    // The first report comes within a second.
    soon(&true, || contains(&reports(), at.as_bytes()));
    let bytes = reports();
    assert!(!contains(&bytes, uuid.as_bytes()) && !contains(&bytes, &client.0.to_le_bytes()));

    let revoke = Op::Client(ClientOp::Glimpse { fids: vec![Fid::ROOT], store: false });
    let mut caller = Stranger::greet(ELSEWHERE, &listen, 8);
    assert_eq!(caller.ask(client, mdt(), revoke).expect("an answer"), Some(Refusal::OtherProcess));
    still_works(&cluster);
    let log = fs::read_to_string(cluster.dir().join("log/node.log")).expect("the log");
    assert!(!log.contains(&uuid));
}
