//! Conversations over TCP.

mod room_to_keep;
mod strangers;

use crate::support::*;
use bytes::Bytes;
use futures_util::future::join_all;
use rpc::deadline;
use rpc::error::RpcError;
use rpc::import::{Import, ImportState};
use rpc::service::Gone;
use rpc::{Rpc, RpcConfig, Timings};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use types::credentials::{Callers, Credentials, Ids, Squash, SquashNews};
use types::errno::Errno;
use types::fid::Fid;
use types::limits::{MESSAGE_BYTES_MAX, REQUESTS_IN_FLIGHT_INITIAL};
use types::lock::{Flock, FlockFlavor, FlockKind};
use types::nid::Nid;
use types::session::{ClientUuid, ClusterId, Pairing};
use types::target::{FsName, TargetName};
use wire::checksum::crc32c;
use wire::client::{ClientOp, ClientReply};
use wire::frame::{FrameKind, HEADER_BYTES};
use wire::hello::{HelloReply, Welcome};
use wire::mds::{FlockSet, MdsOp};
use wire::message::{Op, VERSION_MAX, VERSION_MIN};
use wire::ost::{ObjectGetattr, ObjectSync, OstOp};

struct Pair {
    env: env::Env,
    server: Arc<Rpc>,
    client: Arc<Rpc>,
    ost: Arc<Ost>,
    addr: SocketAddr,
    _guard: env::real::RealGuard,
}

/// A server process and a client process (they share the machine, nothing else).
fn pair() -> Pair {
    pair_of(ost(0))
}

fn pair_of(target: TargetName) -> Pair {
    let (env, guard) = machine();
    let (server, client) = (process(&env), process(&env));
    let ost = Ost::new(target, 1);
    server.add_service(ost.clone());
    let addr = listen(&env, &server);
    Pair { env, server, client, ost, addr, _guard: guard }
}

impl Pair {
    fn import(&self) -> Arc<Import> {
        client_of(&self.client, self.ost.target, vec![Nid::Tcp(self.addr)], None)
    }

    fn end(self) {
        shutdown(&self.env, &self.client);
        shutdown(&self.env, &self.server);
        assert_eq!((self.client.tasks(), self.server.tasks()), (0, 0), "every task ended");
    }
}

#[test]
fn many_calls_at_once_each_get_their_own_answer() {
    let p = pair();
    let import = p.import();
    run(&p.env, {
        let import = import.clone();
        async move {
            join_all((0..500u32).map(|n| {
                let import = &import;
                async move {
                    for round in 0..5u64 {
                        let data = pattern(u64::from(n) * 100 + round, 100 + n as usize);
                        write(import, n, 0, data.clone()).await.unwrap();
                        assert_eq!(read(import, n, 0, 100_000).await.unwrap(), data);
                    }
                }
            }))
            .await;
        }
    });
    assert_eq!(p.ost.writes.load(Ordering::SeqCst), 2500);
    assert_eq!(p.ost.connects.load(Ordering::SeqCst), 1);
    assert_eq!(import.state(), ImportState::Full);
    assert!(import.last_committed().0 >= 4900, "{:?}", import.last_committed());
    p.end();
}

#[test]
fn what_comes_after_its_limit_is_not_begun() {
    let p = pair();
    let import = p.import();
    let writes = || p.ost.writes.load(Ordering::SeqCst);
    let (clock, written) = (p.env.clock.clone(), import.clone());
    let bounded = move |until: Duration| {
        let mut work = Box::pin({
            let import = written.clone();
            async move { write(&import, 1, 0, pattern(1, 100)).await }
        });
        std::future::poll_fn(move |context| {
            deadline::within(Some(until), || work.as_mut().poll(context))
        })
    };
    let now = clock.now();
    run(&p.env, {
        let (import, in_time) = (import.clone(), bounded(now + Duration::from_secs(60)));
        async move {
            // The first reply shows the server's clock.
            write(&import, 1, 0, pattern(1, 100)).await.unwrap();
            in_time.await.unwrap();
        }
    });
    assert_eq!(writes(), 2);
    std::thread::sleep(Duration::from_millis(20));
    let late = bounded(now);
    let error = run(&p.env, late).unwrap_err();
    assert_eq!((error, writes()), (RpcError::Late { target: ost(0) }, 2));
    run(&p.env, async move { write(&import, 1, 0, pattern(1, 100)).await }).unwrap();
    assert_eq!(writes(), 3, "the session goes on");
    p.end();
}

#[test]
fn a_fenced_client_gets_nothing_done_until_it_is_let_in_again() {
    let p = pair();
    let import = p.import();
    import.wait_for_ever();
    p.ost.fenced.store(true, Ordering::SeqCst);
    let once = import.clone();
    let error = run(&p.env, async move { write(&once, 1, 0, pattern(1, 100)).await }).unwrap_err();
    assert_eq!(error, RpcError::Late { target: ost(0) });
    let (send, answered) = std::sync::mpsc::channel();
    let awaited = observe::cause::follow(7, async move {
        send.send(write(&import, 1, 0, pattern(1, 100)).await).unwrap()
    });
    p.env.tasks.spawn("a program waits", Box::pin(awaited));
    eventually("it is refused more than once", || p.ost.refused.load(Ordering::SeqCst) > 2);
    assert!(answered.try_recv().is_err());
    assert_eq!(p.ost.writes.load(Ordering::SeqCst), 0);
    p.ost.fenced.store(false, Ordering::SeqCst);
    answered.recv_timeout(SOON).expect("it goes on").unwrap();
    assert_eq!(p.ost.writes.load(Ordering::SeqCst), 1);
    p.end();
}

#[test]
fn threads_that_are_no_reactors_may_call() {
    let p = pair();
    let import = p.import();
    let threads: Vec<_> = (0..4u32)
        .map(|n| {
            let (import, env) = (import.clone(), p.env.clone());
            std::thread::spawn(move || {
                for round in 0..50u64 {
                    // Polled here once, and handed over if it must wait.
                    let import = import.clone();
                    let mut call = Box::pin(async move {
                        let data = pattern(round, 1000);
                        write(&import, n, round * 1000, data.clone()).await.unwrap();
                        assert_eq!(read(&import, n, round * 1000, 1000).await.unwrap(), data);
                    });
                    if futures_util::FutureExt::now_or_never(&mut call).is_none() {
                        run(&env, call);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(p.ost.writes.load(Ordering::SeqCst), 200);
    p.end();
}

#[test]
fn bulk_data_arrives_whole() {
    for checksums in [true, false] {
        let (env, _guard) = machine();
        let config = RpcConfig { cluster: CLUSTER, checksums };
        let (server, client) =
            (Rpc::new(env.clone(), config.clone()), Rpc::new(env.clone(), config));
        server.add_service(Ost::new(ost(0), 1));
        let addr = listen(&env, &server);
        let import = client_of(&client, ost(0), vec![Nid::Tcp(addr)], None);
        run(&env, async move {
            for len in [1, 4095, 65_537, 1 << 20, 16 << 20] {
                let data = pattern(len as u64, len);
                write(&import, 0, 0, data.clone()).await.unwrap();
                assert!(
                    read(&import, 0, 0, len as u32).await.unwrap() == data,
                    "{len} bytes differ"
                );
            }
            join_all((1..20u32).map(|n| {
                let import = &import;
                async move {
                    let data = pattern(u64::from(n), 1 << 20);
                    for _ in 0..3 {
                        write(import, n, 0, data.clone()).await.unwrap();
                        assert!(
                            read(import, n, 0, 1 << 20).await.unwrap() == data,
                            "object {n} differs"
                        );
                    }
                }
            }))
            .await;
        });
        assert_eq!(server.tasks(), 2 + 3, "a listener, a sweeper and three links");
        shutdown(&env, &client);
        shutdown(&env, &server);
    }
}

#[test]
fn what_is_longer_than_a_message_is_refused_once_and_the_connection_lives() {
    let p = pair();
    let import = p.import();
    run(&p.env, async move {
        let long = Bytes::from(vec![3; MESSAGE_BYTES_MAX]);
        assert_eq!(write(&import, 1, 0, long).await.err(), Some(RpcError::Errno(Errno::EMSGSIZE)));
        write(&import, 1, 0, pattern(4, 10)).await.unwrap();
    });
}

#[test]
fn waiting_requests_hold_nobody_up_and_the_window_is_kept() {
    let p = pair();
    let import = p.import();
    let (send, receive) = std::sync::mpsc::channel();
    for _ in 0..300 {
        let (import, send) = (import.clone(), send.clone());
        let call = async move {
            send.send(simple(&import, OstOp::Sync(ObjectSync { objects: vec![] })).await).unwrap()
        };
        p.env.tasks.spawn("sync", Box::pin(call));
    }
    eventually("the window is full", || {
        p.ost.at_work.load(Ordering::SeqCst) == REQUESTS_IN_FLIGHT_INITIAL
    });
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(
        p.ost.at_work.load(Ordering::SeqCst),
        REQUESTS_IN_FLIGHT_INITIAL,
        "no more than the window"
    );
    // Lock waits do not count, however many they are.
    for _ in 0..200 {
        let (import, send) = (import.clone(), send.clone());
        let (flavor, kind) = (FlockFlavor::Bsd, FlockKind::Write);
        let lock = Flock { flavor, kind, owner: 1, pid: 1, start: 0, end: u64::MAX };
        let op = Op::Mds(MdsOp::FlockSet(FlockSet { fid: Fid::ROOT, lock, wait: true }));
        let call = async move { send.send(import.one(&Credentials::root(), op).await).unwrap() };
        p.env.tasks.spawn("flock", Box::pin(call));
    }
    eventually("locks wait, too", || {
        p.ost.at_work.load(Ordering::SeqCst) == REQUESTS_IN_FLIGHT_INITIAL + 200
    });
    p.ost.gate.send_replace(true);
    for _ in 0..500 {
        receive.recv_timeout(SOON).unwrap().unwrap();
    }
    p.end();
}

#[test]
fn a_request_sent_again_is_done_once() {
    let p = pair();
    let cable = Cable::new(&p.env, p.addr);
    let import = client_of(&p.client, ost(0), vec![Nid::Tcp(cable.addr)], None);
    let first = import.clone();
    run(&p.env, async move { write(&first, 1, 0, Bytes::from_static(b"one")).await.unwrap() });

    // Done, but the answers are lost.
    cable.swallow(true);
    let (send, receive) = std::sync::mpsc::channel();
    for n in 0..20u32 {
        let (import, send) = (import.clone(), send.clone());
        let call = async move {
            send.send(write(&import, 2 + n, 0, pattern(n.into(), 100)).await).unwrap()
        };
        p.env.tasks.spawn("write", Box::pin(call));
    }
    eventually("all were done", || p.ost.writes.load(Ordering::SeqCst) == 21);
    // Under way when the line goes.
    let (waiting, send_again) = (import.clone(), send.clone());
    let call = async move {
        send_again
            .send(simple(&waiting, OstOp::Sync(ObjectSync { objects: vec![] })).await)
            .unwrap()
    };
    p.env.tasks.spawn("sync", Box::pin(call));
    eventually("it waits", || p.ost.at_work.load(Ordering::SeqCst) == 1);
    assert!(receive.try_recv().is_err(), "nobody was answered");

    cable.swallow(false);
    cable.cut();
    for _ in 0..20 {
        receive.recv_timeout(SOON).unwrap().unwrap();
    }
    assert_eq!(p.ost.writes.load(Ordering::SeqCst), 21, "none was done twice");
    eventually("the reader came again", || p.ost.resent.load(Ordering::SeqCst) == 1);
    p.ost.gate.send_replace(true);
    receive.recv_timeout(SOON).unwrap().unwrap();
    assert_eq!(p.ost.connects.load(Ordering::SeqCst), 2);
    p.end();
}

#[test]
fn what_a_connection_that_was_given_up_delivers_late_is_not_done_again() {
    let p = pair();
    p.ost.gate.send_replace(true);
    let cable = Cable::new(&p.env, p.addr);
    let import = client_of(&p.client, ost(0), vec![Nid::Tcp(cable.addr)], None);
    let done = || (p.ost.writes.load(Ordering::SeqCst), p.ost.locks.load(Ordering::SeqCst));
    let says = |text: &'static [u8]| {
        let import = import.clone();
        run(&p.env, async move { write(&import, 1, 0, Bytes::from_static(text)).await.unwrap() })
    };
    says(b"first");
    cable.keep(true);
    let (send, receive) = std::sync::mpsc::channel();
    let (flavor, kind) = (FlockFlavor::Bsd, FlockKind::Write);
    let lock = Flock { flavor, kind, owner: 1, pid: 1, start: 0, end: u64::MAX };
    let wait = Op::Mds(MdsOp::FlockSet(FlockSet { fid: Fid::ROOT, lock, wait: true }));
    let (writes, locks, send_again) = (import.clone(), import.clone(), send.clone());
    let call = async move { send.send(write(&writes, 1, 0, "old".into()).await).unwrap() };
    p.env.tasks.spawn("write", Box::pin(call));
    let call = async move { send_again.send(locks.one(&Credentials::root(), wait).await).unwrap() };
    p.env.tasks.spawn("flock", Box::pin(call));
    eventually("both are on their way", || cable.kept() == 2);
    cable.keep(false);
    cable.cut();
    for _ in 0..2 {
        receive.recv_timeout(SOON).unwrap().unwrap();
    }
    assert_eq!(done(), (2, 1), "sent again, and done");
    says(b"new");
    cable.deliver();
    let read = run(&p.env, async move { read(&import, 1, 0, 100).await.unwrap() });
    assert_eq!((&read[..], done()), (&b"newst"[..], (3, 1)));
    p.end();
}

#[test]
fn a_restarted_server_is_found_again_and_the_owner_is_told() {
    let p = pair();
    // Two addresses: the first never answers.
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let cable = Cable::new(&p.env, p.addr);
    let nids = vec![Nid::Tcp(nobody), Nid::Tcp(cable.addr)];
    let import = client_of(&p.client, ost(0), nids, None);
    let boots = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let told = boots.clone();
    import.on_restart(Arc::new(move |boot| told.lock().push(boot)));
    let first = import.clone();
    run(&p.env, async move { simple(&first, OstOp::Statfs).await.unwrap() });

    shutdown(&p.env, &p.server);
    assert_eq!(p.ost.gone.lock().pop().unwrap().1, Gone::Stopped);
    let (send, receive) = std::sync::mpsc::channel();
    let waiting = import.clone();
    let call =
        async move { send.send(write(&waiting, 1, 0, Bytes::from_static(b"late")).await).unwrap() };
    p.env.tasks.spawn("write", Box::pin(call));
    std::thread::sleep(Duration::from_millis(200));
    assert!(receive.try_recv().is_err(), "it waits for the server");

    let again = process(&p.env);
    let second = Ost::new(ost(0), 2);
    again.add_service(second.clone());
    let rpc = again.clone();
    let addr = p.addr;
    run(&p.env, async move { rpc.listen(addr).await.unwrap() });
    receive.recv_timeout(SOON).unwrap().unwrap();
    assert_eq!(second.writes.load(Ordering::SeqCst), 1);
    assert_eq!(*boots.lock(), [2]);
    assert_eq!(import.boot(), 2);
    shutdown(&p.env, &p.client);
    shutdown(&p.env, &again);
}

#[test]
fn nobody_there_is_said_at_once() {
    let p = pair();
    let nobody = Nid::Tcp(SocketAddr::from(([127, 0, 0, 1], 1)));
    let import = client_of(&p.client, ost(0), vec![nobody], None);
    let error = run(&p.env, async move { simple(&import, OstOp::Statfs).await.unwrap_err() });
    assert!(matches!(&error, RpcError::Unreachable { nids, .. } if *nids == [nobody]), "{error}");
    let other = client_of(&p.client, ost(9), vec![Nid::Tcp(p.addr)], None);
    let error = run(&p.env, async move { simple(&other, OstOp::Statfs).await.unwrap_err() });
    assert_eq!(error, RpcError::NoTarget { nid: Nid::Tcp(p.addr), target: ost(9) });
    let (busy, rpc) = (p.addr, p.client.clone());
    let error = run(&p.env, async move { rpc.listen(busy).await.unwrap_err() });
    assert!(matches!(error, RpcError::Listen { addr, .. } if addr == busy));
    p.end();
}

#[test]
fn callbacks_travel_on_the_clients_own_connection() {
    let p = pair();
    let cable = Cable::new(&p.env, p.addr);
    let answers = Arc::new(Answers::default());
    let import = client_of(&p.client, ost(0), vec![Nid::Tcp(cable.addr)], Some(answers.clone()));
    let first = import.clone();
    run(&p.env, async move {
        simple(&first, OstOp::Getattr(ObjectGetattr { object: object(1) })).await.unwrap()
    });
    assert_eq!(answers.count.load(Ordering::SeqCst), 1);

    // The question is lost on its way; it comes again over the next connection.
    cable.swallow(true);
    let waiting = import.clone();
    let (send, receive) = std::sync::mpsc::channel();
    let call = async move {
        send.send(simple(&waiting, OstOp::Getattr(ObjectGetattr { object: object(1) })).await)
            .unwrap()
    };
    p.env.tasks.spawn("getattr", Box::pin(call));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(answers.count.load(Ordering::SeqCst), 1);
    cable.swallow(false);
    cable.cut();
    receive.recv_timeout(SOON).unwrap().unwrap();
    assert!(answers.count.load(Ordering::SeqCst) >= 2);
    p.end();
}

#[test]
fn of_two_words_about_squash_the_newer_one_counts() {
    let p = pair();
    let import = p.import();
    assert_eq!(import.callers(), Callers::default());
    let told = Arc::new(AtomicUsize::new(0));
    let counted = told.clone();
    import.on_squash(Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    }));
    let first = import.clone();
    run(&p.env, async move { write(&first, 1, 0, pattern(1, 8)).await.unwrap() });
    let export = p.server.exports(ost(0)).remove(0);
    let squash = |uid| Squash { root: Some(Ids { uid, gid: 7 }), others: None };
    let say = |changes, squash| {
        let export = export.clone();
        let callers = Callers { squash, known: None };
        let news = ClientOp::Squash(SquashNews::new(1, changes, callers));
        assert_eq!(
            run(&p.env, async move { export.callback(news).await.unwrap() }),
            ClientReply::Done
        );
        (import.callers().squash, told.load(Ordering::SeqCst))
    };
    assert_eq!(say(2, squash(99)), (squash(99), 1));
    assert_eq!(say(1, squash(5)), (squash(99), 1), "it was on its way for longer");
    assert_eq!(say(3, squash(99)), (squash(99), 1), "nothing new");
    assert_eq!(say(4, Squash::OFF), (Squash::OFF, 2));
    p.end();
}

#[test]
fn what_is_answered_while_a_question_is_open_proves_less() {
    let p = pair();
    let late = Arc::new(Late {
        asked: AtomicUsize::new(0),
        answer: tokio::sync::watch::Sender::new(false),
    });
    let import = client_of(&p.client, ost(0), vec![Nid::Tcp(p.addr)], Some(late.clone()));
    let ask = |op| {
        let import = import.clone();
        run(&p.env, async move { simple(&import, op).await.unwrap() });
    };
    ask(OstOp::Statfs);
    let before = import.proved_at().unwrap();
    let waiting = import.clone();
    let (send, receive) = std::sync::mpsc::channel();
    let call = async move {
        send.send(simple(&waiting, OstOp::Getattr(ObjectGetattr { object: object(1) })).await)
            .unwrap()
    };
    p.env.tasks.spawn("getattr", Box::pin(call));
    eventually("it is asked", || late.asked.load(Ordering::SeqCst) == 1);
    ask(OstOp::Statfs);
    assert_eq!(import.proved_at(), Some(before), "the question is older than that");
    late.answer.send_replace(true);
    receive.recv_timeout(SOON).unwrap().unwrap();
    ask(OstOp::Statfs);
    assert!(import.proved_at() > Some(before));
    p.end();
}

#[test]
fn a_silent_client_is_evicted_and_told_so() {
    let (env, _guard) = machine();
    let ms = Duration::from_millis;
    let server = hasty(&env, ms(50), ms(400));
    let lively = hasty(&env, ms(50), ms(400));
    let silent = process(&env); // pings each 5 s
    let ost0 = Ost::new(ost(0), 1);
    server.add_service(ost0.clone());
    let addr = listen(&env, &server);
    let a = client_of(&lively, ost(0), vec![Nid::Tcp(addr)], None);
    let b = client_of(&silent, ost(0), vec![Nid::Tcp(addr)], None);
    let boots = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let told = boots.clone();
    b.on_restart(Arc::new(move |boot| told.lock().push(boot)));
    for import in [a.clone(), b.clone()] {
        run(&env, async move { simple(&import, OstOp::Statfs).await.unwrap() });
    }
    eventually("one is evicted", || !ost0.gone.lock().is_empty());
    std::thread::sleep(ms(600));
    assert_eq!(ost0.gone.lock().len(), 1, "the one that pings stays");
    assert_eq!(ost0.gone.lock()[0].1, Gone::Evicted);
    let late = b.clone();
    let (flavor, kind) = (FlockFlavor::Bsd, FlockKind::Write);
    let lock = Flock { flavor, kind, owner: 1, pid: 1, start: 0, end: u64::MAX };
    let wait = Op::Mds(MdsOp::FlockSet(FlockSet { fid: Fid::ROOT, lock, wait: true }));
    let error = run(&env, async move { late.one(&Credentials::root(), wait).await.unwrap_err() });
    assert_eq!(error, RpcError::Evicted { target: ost(0) }, "nobody knows what became of it");
    assert_eq!(*boots.lock(), [1], "the same boot, but a new session");
    run(&env, async move { simple(&b, OstOp::Statfs).await.unwrap() });
    run(&env, async move { simple(&a, OstOp::Statfs).await.unwrap() });
    for rpc in [lively, silent, server] {
        shutdown(&env, &rpc);
    }
}

#[test]
fn an_eviction_is_told_also_if_the_answer_that_told_it_was_lost() {
    let (env, _guard) = machine();
    let ms = Duration::from_millis;
    let server = hasty(&env, ms(50), ms(1000));
    let silent = process(&env); // pings each 5 s
    let ost0 = Ost::new(ost(0), 1);
    server.add_service(ost0.clone());
    let cable = Cable::new(&env, listen(&env, &server));
    let import = client_of(&silent, ost(0), vec![Nid::Tcp(cable.addr)], None);
    let first = import.clone();
    run(&env, async move { simple(&first, OstOp::Statfs).await.unwrap() });
    eventually("it is evicted", || !ost0.gone.lock().is_empty());
    cable.swallow(true);
    let (late, (answer, answered)) = (import.clone(), std::sync::mpsc::channel());
    let call = async move { answer.send(simple(&late, OstOp::Statfs).await).unwrap() };
    env.tasks.spawn("late", Box::pin(call));
    // A request made after the eviction is known has nothing to learn of it.
    eventually("it was asked in the session of before", || !silent.under_way().is_empty());
    cable.cut();
    eventually("it has a session again, and does not know", || {
        ost0.connects.load(Ordering::SeqCst) >= 2
    });
    std::thread::sleep(ms(20)); // The answer is lost.
    cable.swallow(false);
    cable.cut();
    // An OST may be asked again.
    answered.recv_timeout(SOON).unwrap().unwrap();
    assert_eq!(import.evictions(), 1);
    shutdown(&env, &silent);
    shutdown(&env, &server);
}

#[test]
fn a_mute_peer_is_given_up_after_pings() {
    let (env, _guard) = machine();
    let ms = Duration::from_millis;
    let (server, client) = (process(&env), hasty(&env, ms(50), ms(30_000)));
    let ost0 = Ost::new(ost(0), 1);
    server.add_service(ost0.clone());
    let cable = Cable::new(&env, listen(&env, &server));
    let import = client_of(&client, ost(0), vec![Nid::Tcp(cable.addr)], None);
    let first = import.clone();
    run(&env, async move { simple(&first, OstOp::Statfs).await.unwrap() });
    cable.swallow(true);
    eventually("the session is given up", || import.state() != ImportState::Full);
    cable.swallow(false);
    eventually("and made again in the background", || import.state() == ImportState::Full);
    assert!(ost0.connects.load(Ordering::SeqCst) >= 2);
    shutdown(&env, &client);
    shutdown(&env, &server);
}

#[test]
fn of_all_who_ask_what_is_durable_one_question_is_on_its_way() {
    const CALLERS: usize = 200;
    let (env, _guard) = machine();
    let (server, client) = (process(&env), process(&env));
    let ost0 = Ost::new(ost(0), 1);
    server.add_service(ost0.clone());
    let cable = Cable::new(&env, listen(&env, &server));
    let import = client_of(&client, ost(0), vec![Nid::Tcp(cable.addr)], None);
    let first = import.clone();
    run(&env, async move { simple(&first, OstOp::Statfs).await.unwrap() });
    // From here on the target says nothing, for it hears nothing.
    cable.keep(true);
    let (send, receive) = std::sync::mpsc::channel();
    let ask = |import: &Arc<Import>| {
        let (import, send) = (import.clone(), send.clone());
        let ask = async move { send.send(import.ask_durable().await).unwrap() };
        env.tasks.spawn("ask", Box::pin(ask));
    };
    (0..CALLERS).for_each(|_| ask(&import));
    eventually("one is asking", || cable.kept() == 1);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!((cable.kept(), import.report().in_flight), (1, 1), "the others wait for it");
    cable.keep(false);
    cable.cut();
    for _ in 0..CALLERS {
        receive.recv_timeout(SOON).unwrap().unwrap();
    }
    // And the next one asks anew.
    assert_eq!(import.report().in_flight, 0);
    ask(&import);
    receive.recv_timeout(SOON).unwrap().unwrap();
    cable.deliver();
    shutdown(&env, &client);
    shutdown(&env, &server);
}

#[test]
fn a_program_waits_as_long_as_it_takes_and_what_runs_in_the_background_does_not() {
    let (env, _guard) = machine();
    let ms = Duration::from_millis;
    let timings = Timings { request_timeout: ms(300), ..Timings::default() };
    let client =
        Rpc::with_timings(env.clone(), RpcConfig { cluster: CLUSTER, checksums: true }, timings);
    let server = process(&env);
    server.add_service(Ost::new(ost(0), 1));
    let cable = Cable::new(&env, listen(&env, &server));
    let import = client_of(&client, ost(0), vec![Nid::Tcp(cable.addr)], None);
    import.wait_for_ever();
    let first = import.clone();
    run(&env, async move { simple(&first, OstOp::Statfs).await.unwrap() });
    cable.swallow(true);
    let (answer, answers) = std::sync::mpsc::channel();
    for cause in [0, 7, 8] {
        let (import, answer) = (import.clone(), answer.clone());
        let ask = async move { simple(&import, OstOp::Statfs).await };
        let ask = async move {
            let asked = match cause {
                8 => observe::cause::follow(cause, rpc::patience::bounded(ask)).await,
                cause => observe::cause::follow(cause, ask).await,
            };
            answer.send((cause, asked)).unwrap();
        };
        env.tasks.spawn("ask", Box::pin(ask));
    }
    let late = [answers.recv_timeout(SOON).unwrap(), answers.recv_timeout(SOON).unwrap()];
    for (cause, asked) in late {
        assert!(cause != 7 && matches!(asked, Err(RpcError::Timeout { .. })), "{cause}: {asked:?}");
    }
    std::thread::sleep(ms(400));
    assert!(answers.try_recv().is_err(), "a program waits");
    cable.swallow(false);
    cable.cut();
    let (cause, asked) = answers.recv_timeout(SOON).unwrap();
    assert!(cause == 7 && asked.is_ok(), "{cause}: {asked:?}");
    shutdown(&env, &client);
    shutdown(&env, &server);
}

#[test]
fn fault_rules_delay_and_lose_frames() {
    use lnet::fault::{Fault, Rule};
    use types::nid::NidPattern;
    let p = pair();
    let import = p.import();
    let target = NidPattern::Exact(types::net::Net::TCP, p.addr);
    let call = |import: &Arc<Import>| {
        let import = import.clone();
        let begin = std::time::Instant::now();
        run(&p.env, async move { simple(&import, OstOp::Statfs).await.unwrap() });
        begin.elapsed()
    };
    call(&import);
    assert!(p.client.faults().add(Rule::to(target, Fault::Delay(Duration::from_millis(150)))));
    assert!(call(&import) >= Duration::from_millis(150));
    p.client.faults().clear();
    assert!(p.client.faults().add(Rule::to(target, Fault::Drop)));
    let (lost, before) = (import.clone(), p.ost.writes.load(Ordering::SeqCst));
    let call_lost = async move { drop(write(&lost, 1, 0, Bytes::from_static(b"x")).await) };
    p.env.tasks.spawn("lost", Box::pin(call_lost));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(p.ost.writes.load(Ordering::SeqCst), before, "it never arrived");
    p.client.faults().clear();
    call(&import);
    p.end();
}
