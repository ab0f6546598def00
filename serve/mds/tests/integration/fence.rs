//! OSTs are told of an evicted client before others get what it held, and when it is back.

use crate::rig::holder::Answer;
use crate::rig::{Rig, until};
use rpc::import::Import;
use rpc::service::Service;
use rpc::{Rpc, RpcConfig};
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use types::credentials::Credentials;
use types::fid::Fid;
use types::lock::InodeBits;
use types::nid::Nid;
use types::session::ClientUuid;
use types::target::TargetIndex;
use wire::mds::{Getattr, Lock, MdsOp};
use wire::message::{Op, Reply};

const REMOTE: ClientUuid = ClientUuid(77);
const WRITE: InodeBits = InodeBits::WRITE.union(InodeBits::DATA).union(InodeBits::UPDATE);

/// A client that comes over the network.
struct Remote {
    rpc: Arc<Rpc>,
    server: Arc<Rpc>,
    import: Arc<Import>,
}

fn run<T: Send + 'static>(rig: &Rig, work: impl Future<Output = T> + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    let work = async move { send.send(work.await).unwrap() };
    rig.env().tasks.spawn("test", Box::pin(work));
    receive.recv_timeout(Duration::from_secs(60)).expect("it ends")
}

impl Remote {
    fn new(rig: &Rig) -> Remote {
        let config = || RpcConfig { cluster: rig.mds.cluster(), checksums: true };
        let (server, rpc) =
            (Rpc::new(rig.env().clone(), config()), Rpc::new(rig.env().clone(), config()));
        server.add_service(rig.mds.clone());
        let listening = server.clone();
        let port = SocketAddr::from(([127, 0, 0, 1], 0));
        let addr = run(rig, async move { listening.listen(port).await.unwrap() });
        let nids = vec![Nid::Tcp(addr)];
        let import = rpc.import(rig.mds.name(), nids, REMOTE, "remote".into(), None);
        Remote { rpc, server, import }
    }

    fn ask(&self, rig: &Rig, op: MdsOp) -> Reply {
        let import = self.import.clone();
        let ops = vec![Op::Mds(op)];
        run(
            rig,
            async move { import.ask(&Credentials::root(), ops, InodeBits::ALL).await.unwrap() },
        )
    }

    fn end(self, rig: &Rig) {
        let Remote { rpc, server, import } = self;
        drop(import);
        run(rig, async move {
            rpc.shutdown().await;
            server.shutdown().await;
        });
    }
}

fn refused(rig: &Rig, ost: u16) -> Vec<ClientUuid> {
    rig.osts.refused.lock().get(&TargetIndex(ost)).cloned().unwrap_or_default().1
}

#[test]
fn others_get_what_an_evicted_client_held_when_the_osts_refuse_it() {
    let rig = Rig::new();
    let remote = Remote::new(&rig);
    let file = rig.file("f");
    let lock = || MdsOp::Lock(Lock { fid: file, bits: WRITE, needs: None });
    assert!(remote.ask(&rig, lock()).results[0].is_ok());
    let b = rig.holder(10);
    b.answers(Answer::Done);
    rig.osts.away.lock().insert(TargetIndex(1));
    assert!(remote.server.evict(rig.mds.name(), REMOTE));
    let waiting = rig.start(&b, lock());
    until("the other OST is told", || refused(&rig, 0) == [REMOTE]);
    std::thread::sleep(Duration::from_millis(200));
    assert!(!waiting.is_finished(), "an OST takes what the evicted client sends");
    assert_eq!(refused(&rig, 1), []);
    rig.osts.away.lock().clear();
    assert!(waiting.join().unwrap().results[0].is_ok());
    assert_eq!(refused(&rig, 1), [REMOTE]);
    // It comes back by its own; this is sent in the next session, too.
    assert!(remote.ask(&rig, lock()).results[0].is_ok());
    until("it is let in again", || [0, 1].iter().all(|ost| refused(&rig, *ost).is_empty()));
    remote.end(&rig);
}

#[test]
fn a_restarted_mdt_learns_from_the_osts_whom_it_had_evicted() {
    let rig = Rig::new();
    let two = (1, vec![REMOTE, ClientUuid(78)]);
    rig.osts.refused.lock().insert(TargetIndex(1), two);
    let rig = rig.restart();
    until("all OSTs know both", || {
        let newest = (2, vec![REMOTE, ClientUuid(78)]);
        let refused = rig.osts.refused.lock();
        [0, 1].into_iter().all(|ost| refused.get(&TargetIndex(ost)) == Some(&newest))
    });
    let remote = Remote::new(&rig);
    remote.ask(&rig, MdsOp::Getattr(Getattr::of(Fid::ROOT)));
    until("one is let in again", || [0, 1].map(|ost| refused(&rig, ost)) == [[ClientUuid(78)]; 2]);
    remote.end(&rig);
}
