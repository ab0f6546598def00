//! A power cut of an OST's machine: clients over TCP bring back what they were answered.
//!
//! The cut is made by hand: the OST is dropped as it is, object files become what the disk had, and
//! the kernel counts as another one.

use crate::rig::{self, Rig, object};
use oss::settings::OstSettings;
use rpc::import::Import;
use rpc::service::Service;
use rpc::{Rpc, RpcConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use types::credentials::Credentials;
use types::errno::Errno;
use types::nid::Nid;
use types::object::ObjectOffset;
use types::proof::ServerKey;
use types::session::{ClientUuid, ClusterId};
use wire::message::{Op, OpReply};
use wire::ost::{
    ObjectDestroy, ObjectPunch, ObjectRead, ObjectSync, ObjectWrite, OstOp, OstReply, PunchKind,
};

/// An OST on the network and its clients.
struct Net {
    rig: Rig,
    server: Option<Arc<Rpc>>,
    clients: Arc<Rpc>,
    addr: SocketAddr,
}

/// The clients of these tests are servers, so that they may destroy objects.
const KEY: ServerKey = ServerKey(9);

impl Net {
    fn new(window: Duration) -> Net {
        let settings = OstSettings {
            flush_interval: Duration::from_secs(3600),
            recovery_window: window,
            ..OstSettings::default()
        };
        let rig = Rig::with(None, settings);
        let config = || RpcConfig { cluster: ClusterId(7), checksums: true };
        let clients = Rpc::new(rig.env.clone(), config());
        clients.set_server_key(KEY);
        let mut net =
            Net { rig, server: None, clients, addr: SocketAddr::from(([127, 0, 0, 1], 0)) };
        net.serve();
        net
    }

    fn serve(&mut self) {
        let server =
            Rpc::new(self.rig.env.clone(), RpcConfig { cluster: ClusterId(7), checksums: true });
        server.set_server_key(KEY);
        server.add_service(self.rig.ost.clone());
        let (listening, addr) = (server.clone(), self.addr);
        self.addr = self.on_reactor(async move { listening.listen(addr).await.unwrap() });
        self.server = Some(server);
    }

    fn on_reactor<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let (send, receive) = std::sync::mpsc::channel();
        let task = async move { send.send(work.await).unwrap() };
        self.rig.env.tasks.spawn("test", Box::pin(task));
        receive.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    fn client(&self, number: u128) -> Arc<Import> {
        let nids = vec![Nid::Tcp(self.addr)];
        self.clients.import(
            self.rig.ost.target(),
            nids,
            ClientUuid(number),
            "test".to_owned(),
            None,
        )
    }

    fn ask(&self, client: &Arc<Import>, op: OstOp) -> Result<OstReply, Errno> {
        let client = client.clone();
        let answer =
            self.on_reactor(async move { client.one(&Credentials::root(), Op::Ost(op)).await });
        match answer.map_err(|error| error.errno())? {
            OpReply::Ost(reply) => Ok(reply),
            other => panic!("{other:?}"),
        }
    }

    fn write(&self, client: &Arc<Import>, stripe: u32, offset: u64, data: &'static [u8]) {
        let op = OstOp::Write(ObjectWrite {
            object: object(stripe),
            offset: ObjectOffset(offset),
            data: data.into(),
            sync: false,
        });
        assert!(matches!(self.ask(client, op), Ok(OstReply::Changed { .. })));
    }

    fn read(&self, client: &Arc<Import>, stripe: u32) -> Vec<u8> {
        let op =
            OstOp::Read(ObjectRead { object: object(stripe), offset: ObjectOffset(0), len: 100 });
        match self.ask(client, op) {
            Ok(OstReply::Data(data)) => data.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// The process dies; with `power` the machine, too, and of the objects there is what `disk`
    /// has.
    fn crash(&mut self, power: bool, disk: &[(u32, Option<&[u8]>)]) {
        let server = self.server.take().unwrap();
        self.on_reactor(async move { server.shutdown().await });
        let objects = self.rig.target.objects().unwrap().clone();
        for (stripe, content) in disk.iter().filter(|_| power) {
            objects.destroy(object(*stripe)).unwrap();
            if let Some(content) = content {
                objects.write(object(*stripe), content, 0).unwrap();
            }
        }
        drop(objects);
        if power {
            self.rig.watch.kernel_run.fetch_add(1, SeqCst);
        }
        self.rig.start_again();
        self.serve();
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // A failure is reported before this waits for anything.
        if std::thread::panicking() {
            return;
        }
        for rpc in self.server.take().into_iter().chain([self.clients.clone()]) {
            self.on_reactor(async move { rpc.shutdown().await });
        }
        rig::wait(self.rig.ost.stop()).unwrap();
        rig::wait(self.rig.target.close()).unwrap();
    }
}

fn soon(what: &str, so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_was_answered_and_not_synced_comes_back() {
    let mut net = Net::new(Duration::from_secs(20));
    let (a, b) = (net.client(1), net.client(2));
    net.write(&a, 0, 0, b"first of a");
    net.write(&b, 0, 0, b"then b");
    net.write(&a, 1, 0, b"longer than it will be");
    let cut = OstOp::Punch(ObjectPunch {
        object: object(1),
        start: ObjectOffset(6),
        end: ObjectOffset(6),
        kind: PunchKind::Truncate,
    });
    assert!(matches!(net.ask(&a, cut), Ok(OstReply::Changed { .. })));
    assert!(a.kept_bytes() > 0 && b.kept_bytes() > 0);
    net.crash(true, &[(0, None), (1, Some(b"longer than it"))]);
    assert_eq!((net.read(&b, 0), net.read(&a, 1)), (b"then bof a".to_vec(), b"longer".to_vec()));
    assert!(net.rig.ost.is_recovered());
    soon("all is committed", || a.kept_bytes() == 0 && b.kept_bytes() == 0);
    assert_eq!((a.evictions(), b.evictions()), (0, 0));
}

#[test]
fn a_killed_process_loses_nothing_and_waits_for_nobody() {
    let mut net = Net::new(Duration::from_secs(3600));
    let (a, b) = (net.client(1), net.client(2));
    net.write(&a, 0, 0, b"kept by the kernel");
    net.write(&b, 1, 0, b"this one, too");
    net.crash(false, &[]);
    assert!(net.rig.ost.is_recovered(), "at once");
    assert_eq!(net.read(&a, 0), b"kept by the kernel");
    soon("all is committed", || a.kept_bytes() == 0 && b.kept_bytes() == 0);
}

#[test]
fn what_was_synced_or_destroyed_is_not_undone() {
    let mut net = Net::new(Duration::from_secs(20));
    let (a, b) = (net.client(1), net.client(2));
    net.write(&a, 0, 0, b"older");
    net.write(&a, 1, 0, b"of a file that goes");
    net.write(&a, 2, 0, b"stays");
    net.write(&b, 0, 0, b"newer, and synced");
    assert_eq!(
        net.ask(&b, OstOp::Sync(ObjectSync { objects: vec![object(0)] })),
        Ok(OstReply::Done)
    );
    assert_eq!(
        net.ask(&b, OstOp::Destroy(ObjectDestroy { objects: vec![object(1)] })),
        Ok(OstReply::Done)
    );
    let gone = b.clone();
    net.on_reactor(async move { gone.disconnect().await });
    net.crash(true, &[(2, None)]);
    assert_eq!(net.read(&a, 2), b"stays");
    assert_eq!(net.read(&a, 0), b"newer, and synced");
    assert_eq!(net.rig.target.objects().unwrap().size_and_blocks(object(1)), Ok(None));
}

#[test]
fn what_was_synced_is_not_brought_back() {
    let mut net = Net::new(Duration::from_secs(20));
    let a = net.client(1);
    net.write(&a, 0, 0, b"older");
    net.write(&a, 1, 0, b"of another object");
    let both = a.kept_bytes();
    net.write(&a, 0, 0, b"newer");
    assert_eq!(
        net.ask(&a, OstOp::Sync(ObjectSync { objects: vec![object(0)] })),
        Ok(OstReply::Done)
    );
    let one = a.kept_bytes();
    assert!(one > 0 && one < both, "{one} {both}");
    let (object, data) = (object(1), b"and that".as_slice().into());
    let synced = OstOp::Write(ObjectWrite { object, offset: ObjectOffset(0), data, sync: true });
    assert!(matches!(net.ask(&a, synced), Ok(OstReply::Changed { .. })));
    assert_eq!(a.kept_bytes(), 0);
    net.write(&a, 0, 2, b"x");
    net.crash(true, &[(0, Some(b"newer"))]);
    assert_eq!(
        (net.read(&a, 0), net.read(&a, 1)),
        (b"nexer".to_vec(), b"and thater object".to_vec())
    );
}

#[test]
fn who_comes_too_late_is_told_what_is_lost() {
    let mut net = Net::new(Duration::from_millis(300));
    let (a, b) = (net.client(1), net.client(2));
    net.write(&a, 0, 0, b"of a");
    assert_eq!(net.read(&b, 1), b"", "it keeps nothing");
    let told = Arc::new(AtomicBool::new(false));
    let tell = told.clone();
    a.on_lost(Arc::new(move |ops| tell.store(ops.len() == 1, SeqCst)));
    // The client does not find the OST for a while.
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    a.set_nids(vec![Nid::Tcp(nowhere)]);
    net.crash(true, &[(0, None)]);
    soon("the window is over", || net.rig.ost.is_recovered());
    a.set_nids(vec![Nid::Tcp(net.addr)]);
    assert_eq!(net.read(&a, 0), b"");
    assert!(told.load(SeqCst));
    assert_eq!((a.evictions(), a.kept_bytes(), b.evictions()), (1, 0, 0));
    net.write(&a, 0, 0, b"again");
    assert_eq!(net.read(&b, 0), b"again");
}

#[test]
fn much_is_synced_before_its_time_and_committed() {
    let net = Net::new(Duration::from_secs(20));
    let a = net.client(1);
    let block: &'static [u8] = Box::leak(vec![7u8; 4 << 20].into_boxed_slice());
    for n in 0..12 {
        net.write(&a, 0, n << 22, block);
    }
    soon("the first 32 MiB are committed", || {
        net.write(&a, 1, 0, b"x");
        a.kept_bytes() < 20 << 20
    });
}
