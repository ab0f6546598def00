//! A target that moves between hosts: NIDs are tried side by side, a session with an earlier life
//! ends, and an owner that may have lost its target says nothing.

use crate::support::*;
use env::Env;
use env::clock::Monotonic;
use rpc::error::RpcError;
use rpc::import::Import;
use rpc::service::Ownership;
use std::io::Read;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use types::nid::Nid;
use wire::ost::{ObjectSync, OstOp};

fn statfs(env: &Env, import: &Arc<Import>) -> Result<(), RpcError> {
    let import = import.clone();
    run(env, async move { simple(&import, OstOp::Statfs).await.map(drop) })
}

struct Owns(AtomicBool);

impl Ownership for Owns {
    fn holds(&self, _: Monotonic) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[test]
fn a_host_that_says_nothing_does_not_hold_up_the_next_one() {
    let (env, _guard) = machine();
    let (server, client) = (process(&env), process(&env));
    let service = Ost::new(ost(0), 1);
    server.add_service(service.clone());
    let addr = listen(&env, &server);
    // It takes connections, and answers none.
    let silent = TcpListener::bind(any_port()).unwrap();
    let nids = vec![Nid::Tcp(silent.local_addr().unwrap()), Nid::Tcp(addr)];
    let (given_up, connects) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = silent.accept().unwrap();
        let mut rest = Vec::new();
        // Until the client gives this host up, in whatever way.
        let _ = stream.read_to_end(&mut rest);
        given_up.send(service.connects.load(Ordering::SeqCst)).unwrap();
    });
    statfs(&env, &client_of(&client, ost(0), nids, None)).unwrap();
    shutdown(&env, &client);
    let before = connects.recv_timeout(SOON).unwrap();
    assert_eq!(before, 1, "the next host was asked before this one was given up");
    shutdown(&env, &server);
}

/// Owns its target from the moment it is told so; counts how often it was asked.
#[derive(Default)]
struct OwnsLater {
    owns: AtomicBool,
    asked: AtomicUsize,
}

impl Ownership for OwnsLater {
    fn holds(&self, _: Monotonic) -> bool {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.owns.load(Ordering::SeqCst)
    }
}

#[test]
fn a_host_that_takes_over_is_found_while_another_says_nothing() {
    let (env, _guard) = machine();
    let (server, client) = (process(&env), process(&env));
    let (service, owner) = (Ost::new(ost(0), 1), Arc::new(OwnsLater::default()));
    server.add_owned_service(service.clone(), owner.clone());
    let addr = listen(&env, &server);
    // The owner before: it takes connections, and answers none.
    let silent = TcpListener::bind(any_port()).unwrap();
    let nids = vec![Nid::Tcp(silent.local_addr().unwrap()), Nid::Tcp(addr)];
    let (given_up, connects) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = silent.accept().unwrap();
        let mut rest = Vec::new();
        // Until the client gives this host up, in whatever way.
        let _ = stream.read_to_end(&mut rest);
        given_up.send(service.connects.load(Ordering::SeqCst)).unwrap();
    });
    let import = client_of(&client, ost(0), nids, None);
    let (send, answer) = channel();
    let ask = async move { send.send(simple(&import, OstOp::Statfs).await.map(drop)).unwrap() };
    env.tasks.spawn("test", Box::pin(ask));
    eventually("the other host was asked", || owner.asked.load(Ordering::SeqCst) > 0);
    owner.owns.store(true, Ordering::SeqCst);
    answer.recv_timeout(SOON).unwrap().unwrap();
    shutdown(&env, &client);
    let before = connects.recv_timeout(SOON).unwrap();
    assert_eq!(before, 1, "the new owner was found before the other host was given up");
    shutdown(&env, &server);
}

#[test]
fn a_request_to_an_earlier_life_goes_to_the_newer_one() {
    let (env, _guard) = machine();
    let (old, new, client) = (process(&env), process(&env), process(&env));
    let (earlier, newer) = (Ost::new(ost(0), 1), Ost::new(ost(0), 2));
    old.add_service(earlier.clone());
    new.add_service(newer.clone());
    let (old_addr, new_addr) = (listen(&env, &old), listen(&env, &new));
    let import = client_of(&client, ost(0), vec![Nid::Tcp(old_addr)], None);
    let (send, answer) = channel();
    let waiting = import.clone();
    let ask = async move {
        send.send(simple(&waiting, OstOp::Sync(ObjectSync { objects: vec![] })).await).unwrap();
    };
    env.tasks.spawn("test", Box::pin(ask));
    eventually("the old owner works on it", || earlier.at_work.load(Ordering::SeqCst) == 1);
    // The old owner's connection stays as alive as ever.
    import.set_nids(vec![Nid::Tcp(new_addr), Nid::Tcp(old_addr)]);
    import.heard_of(2);
    eventually("the new owner works on it", || newer.at_work.load(Ordering::SeqCst) == 1);
    newer.gate.send_replace(true);
    answer.recv_timeout(SOON).unwrap().unwrap();
    assert_eq!(import.boot(), 2);

    // A client that finds only the old owner does without.
    let late = client_of(&client, ost(0), vec![Nid::Tcp(old_addr)], None);
    late.heard_of(2);
    assert!(matches!(statfs(&env, &late), Err(RpcError::NoTarget { .. })));
    late.set_nids(vec![Nid::Tcp(old_addr), Nid::Tcp(new_addr)]);
    statfs(&env, &late).unwrap();
    [&client, &old, &new].into_iter().for_each(|rpc| shutdown(&env, rpc));
}

#[test]
fn an_owner_that_may_have_lost_its_target_says_nothing() {
    let (env, _guard) = machine();
    let (old, new, client) = (process(&env), process(&env), process(&env));
    let (earlier, newer) = (Ost::new(ost(0), 1), Ost::new(ost(0), 2));
    let (owns, theirs) = (Arc::new(Owns(AtomicBool::new(true))), Owns(AtomicBool::new(false)));
    let theirs = Arc::new(theirs);
    old.add_owned_service(earlier.clone(), owns.clone());
    new.add_owned_service(newer.clone(), theirs.clone());
    let nids = vec![Nid::Tcp(listen(&env, &old)), Nid::Tcp(listen(&env, &new))];
    let import = client_of(&client, ost(0), nids.clone(), None);
    statfs(&env, &import).unwrap();
    // Its own process uses it over the network too: it must bring back what the target loses.
    let own = client_of(&old, ost(0), nids, None);
    statfs(&env, &own).unwrap();
    assert!(!own.is_local());
    let (send, answer) = channel();
    let waiting = import.clone();
    let ask = async move {
        send.send(simple(&waiting, OstOp::Sync(ObjectSync { objects: vec![] })).await).unwrap();
    };
    env.tasks.spawn("test", Box::pin(ask));
    eventually("it works on it", || earlier.at_work.load(Ordering::SeqCst) == 1);
    // The lease ends while the old owner works: its answer is worth nothing.
    owns.0.store(false, Ordering::SeqCst);
    theirs.0.store(true, Ordering::SeqCst);
    newer.gate.send_replace(true);
    earlier.gate.send_replace(true);
    answer.recv_timeout(SOON).unwrap().unwrap();
    assert_eq!((import.boot(), newer.connects.load(Ordering::SeqCst)), (2, 1));
    statfs(&env, &own).unwrap();
    assert_eq!(own.boot(), 2);
    [&client, &old, &new].into_iter().for_each(|rpc| shutdown(&env, rpc));
}

#[test]
fn a_silent_owner_is_left_and_a_slow_one_is_not() {
    let (env, _guard) = machine();
    let (old, new, client) = (process(&env), process(&env), process(&env));
    let (earlier, newer) = (Ost::new(ost(0), 1), Ost::new(ost(0), 2));
    let theirs = Arc::new(Owns(AtomicBool::new(false)));
    old.add_service(earlier.clone());
    new.add_owned_service(newer.clone(), theirs.clone());
    let cable = Cable::new(&env, listen(&env, &old));
    let nids = vec![Nid::Tcp(cable.addr), Nid::Tcp(listen(&env, &new))];
    let import = client_of(&client, ost(0), nids, None);
    statfs(&env, &import).unwrap();
    // Both say that they serve it; the session is with one that is there.
    theirs.0.store(true, Ordering::SeqCst);
    let (send, answer) = channel();
    let waiting = import.clone();
    let ask = async move {
        send.send(simple(&waiting, OstOp::Sync(ObjectSync { objects: vec![] })).await).unwrap();
    };
    env.tasks.spawn("test", Box::pin(ask));
    eventually("it works on it", || earlier.at_work.load(Ordering::SeqCst) == 1);
    assert!(answer.recv_timeout(Duration::from_millis(1500)).is_err());
    assert_eq!(newer.connects.load(Ordering::SeqCst), 0, "it only takes long");
    // Its connections stay, and nothing comes over them.
    cable.swallow(true);
    newer.gate.send_replace(true);
    answer.recv_timeout(SOON).unwrap().unwrap();
    assert_eq!((import.boot(), newer.connects.load(Ordering::SeqCst)), (2, 1));
    [&client, &old, &new].into_iter().for_each(|rpc| shutdown(&env, rpc));
}
