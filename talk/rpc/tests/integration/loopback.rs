//! Conversations within one process.

use crate::support::*;
use futures_util::FutureExt;
use rpc::error::RpcError;
use rpc::import::ImportState;
use rpc::service::Gone;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use types::credentials::Credentials;
use types::errno::Errno;
use types::nid::Nid;
use types::object::ObjectOffset;
use types::session::{ClusterId, Transno};
use types::target::TargetName;
use wire::message::{Op, OpReply};
use wire::ost::{ObjectGetattr, ObjectRead, ObjectWrite, OstOp, OstReply};

#[test]
fn a_call_runs_in_the_callers_own_poll() {
    let (env, _guard) = machine();
    let rpc = process(&env);
    let ost0 = Ost::new(ost(0), 7);
    rpc.add_service(ost0.clone());
    let import = client_of(&rpc, ost(0), vec![Nid::Loopback], None);
    assert_eq!(import.state(), ImportState::Disconn);
    let data = pattern(1, 5000);
    let ops = vec![
        Op::Ost(OstOp::Write(ObjectWrite {
            object: object(1),
            offset: ObjectOffset(0),
            data: data.clone(),
            sync: false,
        })),
        Op::Ost(OstOp::Read(ObjectRead { object: object(2), offset: ObjectOffset(0), len: 1 })),
        Op::Ost(OstOp::Read(ObjectRead {
            object: object(1),
            offset: ObjectOffset(1000),
            len: 100,
        })),
    ];
    let results =
        import.call(&Credentials::root(), ops).now_or_never().expect("no waiting").unwrap();
    assert_eq!(results[0], Ok(OpReply::Ost(OstReply::Changed { blocks_delta: 5000 })));
    assert_eq!(results[1], Err(Errno::ENOENT));
    assert_eq!(results[2], Ok(OpReply::Ost(OstReply::Data(data.slice(1000..1100)))));
    assert_eq!((import.state(), import.boot()), (ImportState::Full, 7));
    assert_eq!(import.last_committed(), Transno(1));
    assert_eq!(rpc.tasks(), 0, "no task, no thread");
}

#[test]
fn callbacks_disconnect_and_restart() {
    let (env, _guard) = machine();
    let rpc = process(&env);
    let first = Ost::new(ost(0), 1);
    rpc.add_service(first.clone());
    let answers = Arc::new(Answers::default());
    let import = client_of(&rpc, ost(0), vec![], Some(answers.clone()));
    let boots = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let told = boots.clone();
    import.on_restart(Arc::new(move |boot| told.lock().push(boot)));

    let getattr = OstOp::Getattr(ObjectGetattr { object: object(1) });
    simple(&import, getattr.clone()).now_or_never().unwrap().unwrap();
    assert_eq!(answers.count.load(Ordering::SeqCst), 1);

    import.disconnect().now_or_never().unwrap();
    assert_eq!(first.gone.lock().pop().unwrap().1, Gone::Disconnected);
    simple(&import, OstOp::Statfs).now_or_never().unwrap().unwrap();
    assert!(boots.lock().is_empty(), "an orderly end is no restart");

    let second = Ost::new(ost(0), 2);
    rpc.add_service(second.clone());
    assert_eq!(first.gone.lock().pop().unwrap().1, Gone::Stopped);
    simple(&import, OstOp::Statfs).now_or_never().unwrap().unwrap();
    assert_eq!(*boots.lock(), [2]);

    drop(import);
    assert_eq!(second.gone.lock().pop().unwrap().1, Gone::Disconnected);
    shutdown(&env, &rpc);
}

#[test]
fn a_target_that_comes_later_is_waited_for_only_after_a_session() {
    let (env, _guard) = machine();
    let rpc = process(&env);
    let import = client_of(&rpc, ost(0), vec![Nid::Loopback], None);
    let stranger = import.clone();
    let error = run(&env, async move { simple(&stranger, OstOp::Statfs).await.unwrap_err() });
    assert_eq!(error, RpcError::NoTarget { nid: Nid::Loopback, target: ost(0) });

    rpc.add_service(Ost::new(ost(0), 1));
    simple(&import, OstOp::Statfs).now_or_never().unwrap().unwrap();
    rpc.remove_service(ost(0));
    // First poll outside, as a FUSE thread does it; then on a reactor.
    let waiting = import.clone();
    let mut call = Box::pin(async move { simple(&waiting, OstOp::Statfs).await });
    assert!((&mut call).now_or_never().is_none());
    let (send, receive) = std::sync::mpsc::channel();
    env.tasks.spawn("call", Box::pin(async move { send.send(call.await).unwrap() }));
    std::thread::sleep(std::time::Duration::from_millis(100));
    rpc.add_service(Ost::new(ost(0), 2));
    receive.recv_timeout(SOON).unwrap().unwrap();
    shutdown(&env, &rpc);
    assert_eq!(
        simple(&import, OstOp::Statfs).now_or_never().unwrap().unwrap_err(),
        RpcError::Shutdown
    );
}

#[test]
fn a_patient_import_waits_for_a_target_that_it_never_reached() {
    let (env, _guard) = machine();
    let rpc = process(&env);
    let import = client_of(&rpc, ost(0), vec![Nid::Loopback], None);
    import.be_patient();
    let (send, receive) = std::sync::mpsc::channel();
    env.tasks.spawn(
        "call",
        Box::pin(async move { send.send(simple(&import, OstOp::Statfs).await).unwrap() }),
    );
    assert!(receive.recv_timeout(std::time::Duration::from_millis(100)).is_err(), "it waits");
    rpc.add_service(Ost::new(ost(0), 1));
    receive.recv_timeout(SOON).unwrap().unwrap();
    shutdown(&env, &rpc);
}

#[test]
fn a_newcomer_may_ask_only_the_mgs() {
    let (env, _guard) = machine();
    let rpc = rpc::Rpc::new(env.clone(), rpc::RpcConfig { cluster: ClusterId(0), checksums: true });
    rpc.add_service(Ost::new(ost(0), 1));
    rpc.add_service(Ost::new(TargetName::mgs(), 1));
    let mgs = client_of(&rpc, TargetName::mgs(), vec![], None);
    let import = client_of(&rpc, ost(0), vec![], None);
    simple(&mgs, OstOp::Statfs).now_or_never().unwrap().unwrap();
    let error = simple(&import, OstOp::Statfs).now_or_never().unwrap().unwrap_err();
    assert_eq!(
        error,
        RpcError::Cluster { nid: Nid::Loopback, theirs: CLUSTER, ours: ClusterId(0) }
    );
    rpc.set_cluster(CLUSTER);
    simple(&import, OstOp::Statfs).now_or_never().unwrap().unwrap();
}
