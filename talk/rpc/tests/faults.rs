//! Fault points at the door. One test in a process of its own, because rules belong to the process.

#[path = "integration/support/mod.rs"]
mod support;

use observe::fault;
use rpc::error::RpcError;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use support::*;
use types::errno::Errno;
use types::nid::Nid;
use wire::ost::OstOp;

/// How often a fault happened at a point.
fn fired(name: &str) -> u64 {
    fault::counts().into_iter().find(|(point, ..)| *point == name).map_or(0, |(.., fired)| fired)
}

#[test]
fn lost_messages_are_sent_again_and_done_once_and_late_ones_come_late() {
    let (env, _guard) = machine();
    let (server, client) = (process(&env), process(&env));
    let ost = Ost::new(ost(0), 1);
    server.add_service(ost.clone());
    let import = client_of(&client, ost.target, vec![Nid::Tcp(listen(&env, &server))], None);
    let put = |n: u32| {
        let import = import.clone();
        run(&env, async move { write(&import, n, 0, pattern(n.into(), 100)).await })
    };
    put(1).unwrap();

    fault::arm("ost.write.reply,times=1").unwrap();
    put(2).unwrap();
    let counts = (
        ost.writes.load(Ordering::SeqCst),
        ost.connects.load(Ordering::SeqCst),
        fired("ost.write.reply"),
    );
    assert_eq!(
        counts,
        (2, 2, 1),
        "it was done once, though its answer was lost with the connection"
    );

    fault::arm("ost.write.request,times=2").unwrap();
    put(3).unwrap();
    let counts = (
        ost.writes.load(Ordering::SeqCst),
        ost.connects.load(Ordering::SeqCst),
        fired("ost.write.request"),
    );
    assert_eq!(counts, (3, 4, 2), "it came at the third attempt");

    fault::arm("ost.write.request=fail:28,times=1").unwrap();
    let refused = put(4).expect_err("refused at the door");
    assert!(matches!(refused, RpcError::Errno(Errno(28))), "{refused}");
    put(4).unwrap();

    fault::arm("rpc.request=delay:0.3,times=1").unwrap();
    let begun = Instant::now();
    let late = import.clone();
    run(&env, async move { simple(&late, OstOp::Statfs).await.unwrap() });
    assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());

    fault::arm("clear").unwrap();
    put(5).unwrap();
    assert_eq!(ost.connects.load(Ordering::SeqCst), 4, "nothing goes wrong any more");
    let read_back: Arc<_> = import.clone();
    let bytes = run(&env, async move { read(&read_back, 2, 0, 1000).await.unwrap() });
    assert_eq!(bytes, pattern(2, 100));
    shutdown(&env, &client);
    shutdown(&env, &server);
}
