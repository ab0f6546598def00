//! Changes that wait until one more can be kept.

use super::*;
use replay::import::KEPT_BYTES_MAX;
use std::sync::mpsc;
use std::time::Instant;
use types::name::Name;
use wire::mds::Unlink;

/// Answers that fill what may be kept.
const ANSWERS: usize = 4;

/// A change that a program waits for. The MDT does no such thing, which is an answer, too.
async fn change(import: Arc<Import>) {
    let name = Name::new(b"name").unwrap();
    let unlink = Op::Mds(MdsOp::Unlink(Unlink { parent: Fid::ROOT, name }));
    let root = Credentials::root();
    let answer = observe::cause::follow(7, import.one(&root, unlink)).await;
    assert_eq!(answer.err(), Some(RpcError::Errno(Errno::EOPNOTSUPP)));
}

/// An MDT that makes nothing durable, and a client that keeps as much as it may.
fn full() -> (Pair, Arc<Import>) {
    let pair = pair_of(TargetName::mdt(FsName::default(), 0));
    let import = pair.import();
    pair.ost.redo_bytes.store(KEPT_BYTES_MAX / ANSWERS, Ordering::SeqCst);
    for _ in 0..ANSWERS {
        run(&pair.env, change(import.clone()));
    }
    assert!(import.kept_bytes() >= KEPT_BYTES_MAX);
    (pair, import)
}

fn begin(pair: &Pair, what: impl Future<Output = ()> + Send + 'static) -> mpsc::Receiver<()> {
    let (send, receive) = mpsc::channel();
    let work = async move {
        what.await;
        send.send(()).unwrap();
    };
    pair.env.tasks.spawn("work", Box::pin(work));
    receive
}

#[test]
fn all_changes_that_wait_for_room_ask_together() {
    let (pair, import) = full();
    let asked = || pair.ost.pings.load(Ordering::SeqCst);
    let (before, began) = (asked(), Instant::now());
    let changes: Vec<_> = (0..100).map(|_| begin(&pair, change(import.clone()))).collect();
    eventually("they ask again and again", || asked() >= before + 10);
    let count = asked() - before;
    // A question, and 5 ms of pause, however many wait.
    let at_most = began.elapsed().as_millis() / 5 + 1;
    assert!(count as u128 <= at_most, "{count} questions, not {at_most}");
    assert!(changes.iter().all(|change| change.try_recv().is_err()), "no change is done");
    pair.ost.redo_bytes.store(0, Ordering::SeqCst);
    changes.iter().for_each(|change| change.recv_timeout(SOON).unwrap());
    assert_eq!(import.kept_bytes(), 0);
    pair.end();
}

#[test]
fn a_change_waits_for_no_question_of_the_background() {
    let (pair, import) = full();
    // The background has all of its part of the window.
    let sync = |import: Arc<Import>| async move {
        simple(&import, OstOp::Sync(ObjectSync { objects: vec![] })).await.unwrap();
    };
    let syncs: Vec<_> = (0..300).map(|_| begin(&pair, sync(import.clone()))).collect();
    let at_work = || pair.ost.at_work.load(Ordering::SeqCst);
    eventually("it has", || at_work() >= REQUESTS_IN_FLIGHT_INITIAL);
    let asks = import.clone();
    let asked = begin(&pair, async move { asks.ask_durable().await.unwrap() });
    std::thread::sleep(Duration::from_millis(20));
    assert!(asked.try_recv().is_err(), "it waits for room in the window");
    let before = pair.ost.pings.load(Ordering::SeqCst);
    let changed = begin(&pair, change(import.clone()));
    // More often than an idle session is pinged.
    eventually("the change asks", || pair.ost.pings.load(Ordering::SeqCst) >= before + 10);
    pair.ost.gate.send_replace(true);
    pair.ost.redo_bytes.store(0, Ordering::SeqCst);
    for done in syncs.iter().chain([&asked, &changed]) {
        done.recv_timeout(SOON).unwrap();
    }
    pair.end();
}
