//! Connections, and what can happen to them.

use env::Env;
use env::net::Stream;
use parking_lot::Mutex;
use simenv::machine::{Kill, MachineId, Process};
use simenv::network::Delays;
use simenv::world::World;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SECOND: Duration = Duration::from_secs(1);

struct Pair {
    world: World,
    server: (Env, Arc<Process>),
    client: (Env, Arc<Process>),
    addr: SocketAddr,
    /// (connection, bytes) in order of arrival, and how each connection ended.
    heard: Arc<Mutex<Vec<(u8, String)>>>,
}

impl Pair {
    fn machines(&self) -> (MachineId, MachineId) {
        (self.client.1.machine(), self.server.1.machine())
    }

    fn heard(&self) -> Vec<(u8, String)> {
        self.heard.lock().clone()
    }
}

/// A server that notes what it reads, and answers each byte with the same byte.
fn pair(seed: u64) -> Pair {
    let world = World::new(seed);
    let (server, client) = (world.machine(0), world.machine(0));
    let (server, client) = (world.start(server), world.start(client));
    let addr = SocketAddr::new(server.1.machine().ip(), 988);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (env, notes) = (server.0.clone(), heard.clone());
    let accept = async move {
        let listener = env.net.listen(addr).await.unwrap();
        assert_eq!(listener.local_addr().unwrap(), addr);
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let notes = notes.clone();
            let answer = async move {
                let mut name = 0;
                loop {
                    match stream.read_u8().await {
                        Ok(byte) => {
                            name = if name == 0 { byte } else { name };
                            notes.lock().push((name, char::from(byte).to_string()));
                            if stream.write_all(&[byte]).await.is_err() {
                                return;
                            }
                        }
                        Err(error) => return notes.lock().push((name, error.kind().to_string())),
                    }
                }
            };
            env.tasks.spawn("answer", Box::pin(answer));
        }
    };
    server.0.tasks.spawn("accept", Box::pin(accept));
    world.run_until(Duration::from_millis(1));
    Pair { world, server, client, addr, heard }
}

async fn connected(env: &Env, addr: SocketAddr) -> io::Result<Box<dyn Stream>> {
    env.net.connect(addr).await
}

fn connect(pair: &Pair) -> Box<dyn Stream> {
    let (env, addr) = (pair.client.0.clone(), pair.addr);
    pair.world.block_on(async move { connected(&env, addr).await }, 10 * SECOND).unwrap().unwrap()
}

#[test]
fn a_connection_keeps_order_and_connections_overtake_each_other() {
    let overtaken = (0..20).filter(|seed| {
        let pair = pair(*seed);
        pair.world.network().set_delays(Delays { min_us: 10, max_us: 5_000, ..Delays::default() });
        let (mut a, mut b) = (connect(&pair), connect(&pair));
        let talk = async move {
            for byte in b"abcdefgh" {
                a.write_all(&[*byte]).await.unwrap();
                b.write_all(&[byte.to_ascii_uppercase()]).await.unwrap();
            }
            let mut answer = [0; 8];
            a.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"abcdefgh");
            b.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"ABCDEFGH");
        };
        pair.world.block_on(talk, SECOND).unwrap();
        let of = |name| {
            pair.heard()
                .iter()
                .filter(|(n, _)| *n == name)
                .map(|(_, t)| t.clone())
                .collect::<String>()
        };
        assert_eq!(of(b'a')[..8], *"abcdefgh");
        assert_eq!(of(b'A')[..8], *"ABCDEFGH");
        // Sent a, A, b, B, ...: checks whether a capital letter comes before its small one.
        let first = pair.heard().iter().position(|(_, t)| t == "H").unwrap();
        let second = pair.heard().iter().position(|(_, t)| t == "h").unwrap();
        first < second
    });
    let count = overtaken.count();
    assert!((3..18).contains(&count), "{count} of 20");
}

#[test]
fn nobody_listens_and_nobody_is_there() {
    let pair = pair(1);
    let (env, mut addr) = (pair.client.0.clone(), pair.addr);
    addr.set_port(1);
    let refused = pair
        .world
        .block_on(async move { connected(&env, addr).await.err().unwrap().kind() }, SECOND);
    assert_eq!(refused, Ok(ErrorKind::ConnectionRefused));
    let (env, addr) = (pair.client.0.clone(), "192.168.0.1:1".parse().unwrap());
    let nowhere = pair
        .world
        .block_on(async move { connected(&env, addr).await.err().unwrap().kind() }, SECOND);
    assert_eq!(nowhere, Ok(ErrorKind::HostUnreachable));
}

#[test]
fn a_dropped_end_is_an_end_of_file_and_leaves_nothing() {
    let pair = pair(2);
    let mut stream = connect(&pair);
    pair.world.block_on(async move { stream.write_all(b"x").await.unwrap() }, SECOND).unwrap();
    pair.world.run_until(2 * SECOND);
    let ends: Vec<_> = pair.heard().iter().map(|(_, what)| what.clone()).collect();
    // The answer met a closed end: a reset, or the end came first.
    assert_eq!(ends[0], "x");
    assert_eq!(pair.world.network().connections(), 0);
}

#[test]
fn the_kernel_of_a_killed_process_tells_its_peers_and_a_power_cut_does_not() {
    for seed in 0..10 {
        let pair = pair(seed);
        let mut stream = connect(&pair);
        pair.world.kill(&pair.server.1, Kill::Process);
        let began = pair.world.now();
        let end = pair
            .world
            .block_on(async move { stream.read_u8().await.unwrap_err().kind() }, SECOND)
            .unwrap();
        assert!(matches!(end, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{end:?}");
        assert!(pair.world.now() - began < SECOND);
    }
    let pair = pair(11);
    let mut stream = connect(&pair);
    pair.world.kill(&pair.server.1, Kill::Power);
    let began = pair.world.now();
    let end = pair
        .world
        .block_on(async move { stream.read_u8().await.unwrap_err().kind() }, 100 * SECOND);
    assert_eq!(end, Ok(ErrorKind::ConnectionReset));
    assert!(pair.world.now() - began > 20 * SECOND, "only a time-out can tell");
    // Powered off it takes no connection; started again, but without a server, it refuses.
    let (env, addr) = (pair.client.0.clone(), pair.addr);
    let attempt = async move { connected(&env, addr).await.err().unwrap().kind() };
    let machine = pair.server.1.machine();
    let answer = Arc::new(Mutex::new(None));
    let slot = answer.clone();
    pair.world.spawn("attempt", Box::pin(async move { *slot.lock() = Some(attempt.await) }));
    pair.world.run_until(pair.world.now() + 60 * SECOND);
    assert_eq!(*answer.lock(), None);
    let _process = pair.world.start(machine);
    pair.world.run_until(pair.world.now() + 5 * SECOND);
    assert_eq!(*answer.lock(), Some(ErrorKind::ConnectionRefused));
}

#[test]
fn a_partition_holds_back_one_way_and_healing_brings_it_all() {
    let pair = pair(12);
    let mut stream = connect(&pair);
    let (client, server) = pair.machines();
    pair.world.network().cut(server, client);
    let sent = async move {
        stream.write_all(b"q").await.unwrap();
        stream
    };
    let mut stream = pair.world.block_on(sent, SECOND).unwrap();
    pair.world.run_until(pair.world.now() + 5 * SECOND);
    assert_eq!(pair.heard(), [(b'q', "q".to_owned())], "the way there is free");
    let answer = Arc::new(Mutex::new(None));
    let slot = answer.clone();
    pair.world.spawn(
        "reader",
        Box::pin(async move { *slot.lock() = Some(stream.read_u8().await.unwrap()) }),
    );
    pair.world.run_until(pair.world.now() + 5 * SECOND);
    assert_eq!(*answer.lock(), None, "the way back is not");
    pair.world.network().heal();
    pair.world.run_until(pair.world.now() + SECOND);
    assert_eq!(*answer.lock(), Some(b'q'));
}

#[test]
fn a_partition_that_lasts_ends_the_connection() {
    let pair = pair(13);
    let mut stream = connect(&pair);
    let (client, server) = pair.machines();
    pair.world.network().cut(client, server);
    pair.world.network().cut(server, client);
    let end = pair
        .world
        .block_on(async move { stream.read_u8().await.unwrap_err().kind() }, 100 * SECOND);
    assert_eq!(end, Ok(ErrorKind::ConnectionReset));
    pair.world.run_until(pair.world.now() + SECOND);
    assert_eq!(pair.heard(), [(0, ErrorKind::ConnectionReset.to_string())]);
}

#[test]
fn a_broken_connection_loses_what_is_under_way() {
    let pair = pair(14);
    let mut stream = connect(&pair);
    let (client, server) = pair.machines();
    let sent = async move {
        stream.write_all(b"lost").await.unwrap();
        stream
    };
    let mut stream = pair.world.block_on(sent, SECOND).unwrap();
    pair.world.network().break_connections(client, server);
    let end = pair
        .world
        .block_on(async move { stream.write_all(b"x").await.unwrap_err().kind() }, SECOND);
    assert_eq!(end, Ok(ErrorKind::ConnectionReset));
    pair.world.run_until(2 * SECOND);
    assert_eq!(pair.heard(), [(0, ErrorKind::ConnectionReset.to_string())]);
}

#[test]
fn what_was_sent_arrives_after_its_sender_gave_the_connection_up() {
    let pair = pair(14);
    let mut stream = connect(&pair);
    let (client, server) = pair.machines();
    let began = pair.world.now();
    pair.world.network().stall_connections(client, server, 5 * SECOND);
    let sent = async move {
        stream.write_all(b"a").await.unwrap();
        let error = stream.read_u8().await.unwrap_err().kind();
        (error, stream.write_all(b"x").await.unwrap_err().kind())
    };
    let ends = pair.world.block_on(sent, 2 * SECOND);
    assert_eq!(ends, Ok((ErrorKind::ConnectionReset, ErrorKind::BrokenPipe)));
    assert!(pair.world.now() < began + 2 * SECOND);
    let mut again = connect(&pair);
    let sent = async move { again.write_all(b"b").await.map(|()| again) };
    let again = pair.world.block_on(sent, SECOND).unwrap().unwrap();
    pair.world.run_until(began + 6 * SECOND);
    assert_eq!(pair.heard(), [(b'b', "b".to_owned())]);
    pair.world.run_until(began + 8 * SECOND);
    let heard = [(b'b', "b".to_owned()), (b'a', "a".to_owned())];
    assert_eq!(pair.heard()[..2], heard, "the older byte, behind the newer one");
    drop(again);
}

#[test]
fn a_writer_waits_for_a_reader() {
    let world = World::new(15);
    let (a, b) = (world.machine(0), world.machine(0));
    let ((server, _), (client, _)) = (world.start(a), world.start(b));
    let addr = SocketAddr::new(a.ip(), 5);
    let read = async move {
        let listener = server.net.listen(addr).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        server.clock.sleep(5 * SECOND).await;
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        all.len()
    };
    let done = Arc::new(Mutex::new(None));
    let slot = done.clone();
    world.spawn("reader", Box::pin(async move { *slot.lock() = Some(read.await) }));
    let write = async move {
        let mut stream = client.net.connect(addr).await.unwrap();
        stream.write_all(&vec![7; 3 << 20]).await.unwrap();
        stream.shutdown().await.unwrap();
        client.clock.now()
    };
    assert!(world.block_on(write, 20 * SECOND).unwrap() > 5 * SECOND);
    world.run_until(world.now() + SECOND);
    assert_eq!(*done.lock(), Some(3 << 20));
}

#[test]
fn processes_of_one_machine_meet_under_a_name_and_no_other_machine_finds_it() {
    let world = World::new(11);
    let (machine, other) = (world.machine(0), world.machine(0));
    let ((server, process), (client, _)) = (world.start(machine), world.start(machine));
    let (far, _) = world.start(other);
    let folder = std::path::Path::new("/run");
    let own = machine.ip();
    assert_eq!((client.net.local_source(own), far.net.local_source(own)), (Some(own), None));
    let refused = |env: &Env| env.net.connect_local(folder, "a").err().map(|e| e.kind());
    assert_eq!(refused(&client), Some(ErrorKind::NotFound));
    let listener = server.net.listen_local(folder, "a").unwrap();
    let answer = async move {
        let mut stream = listener.accept().await.unwrap();
        assert_eq!(stream.peer_owner().unwrap(), env::net::PeerOwner::Trusted);
        let byte = stream.read_u8().await.unwrap();
        stream.write_all(&[byte + 1]).await.unwrap();
        std::future::pending::<()>().await;
    };
    server.tasks.spawn("answer", Box::pin(answer));
    let mut stream = client.net.connect_local(folder, "a").unwrap();
    let asked = async move {
        stream.write_all(b"x").await.unwrap();
        stream.read_u8().await.unwrap()
    };
    assert_eq!(world.block_on(asked, SECOND).unwrap(), b'y');
    assert_eq!(refused(&far), Some(ErrorKind::NotFound), "another machine");
    world.kill(&process, Kill::Process);
    assert_eq!(refused(&client), Some(ErrorKind::ConnectionRefused), "its name stays");
    let (again, _) = world.start(machine);
    let _listener = again.net.listen_local(folder, "a").unwrap();
    assert_eq!(refused(&client), None, "the next one has it");
}
