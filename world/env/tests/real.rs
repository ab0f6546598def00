//! The real doors: reactors, clock, sockets, files.

use env::disk::Open;
use env::real::{RealConfig, RealEnv};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const CONFIG: RealConfig = RealConfig { reactors: 2, blocking_threads: 3 };
const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_sleep_polled_outside_first_still_wakes_its_task() {
    let (env, _guard) = RealEnv::start(CONFIG).unwrap();
    let mut sleep = env.clock.sleep(Duration::from_millis(50));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let (done, waited) = mpsc::channel();
    env.tasks.spawn(
        "sleeper",
        Box::pin(async move {
            sleep.await;
            done.send(()).unwrap();
        }),
    );
    waited.recv_timeout(SOON).unwrap();
    let mut over = env.clock.sleep(Duration::ZERO);
    assert_eq!(over.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
}

#[test]
fn tasks_stay_on_the_reactor_that_spawned_them() {
    let (env, _guard) = RealEnv::start(CONFIG).unwrap();
    assert!(!env.tasks.on_reactor());
    let (send, receive) = mpsc::channel();
    let inner = env.clone();
    env.tasks.spawn(
        "outer",
        Box::pin(async move {
            assert!(inner.tasks.on_reactor());
            let here = std::thread::current().id();
            for _ in 0..10 {
                let send = send.clone();
                let sleep = inner.clock.sleep(Duration::from_millis(1));
                inner.tasks.spawn(
                    "inner",
                    Box::pin(async move {
                        sleep.await;
                        send.send(std::thread::current().id() == here).unwrap();
                    }),
                );
            }
        }),
    );
    assert!((0..10).all(|_| receive.recv_timeout(SOON).unwrap()));
}

#[test]
fn a_panicking_task_or_work_harms_no_other() {
    let (env, _guard) = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
    env.tasks.spawn("bad", Box::pin(async { panic!("on purpose") }));
    env.tasks.spawn_blocking("bad", Box::new(|| panic!("on purpose")));
    let (send, receive) = mpsc::channel();
    let again = send.clone();
    env.tasks.spawn("good", Box::pin(async move { again.send(()).unwrap() }));
    env.tasks.spawn_blocking("good", Box::new(move || send.send(()).unwrap()));
    receive.recv_timeout(SOON).unwrap();
    receive.recv_timeout(SOON).unwrap();
}

#[test]
fn blocking_work_runs_on_a_bounded_number_of_threads() {
    let (env, _guard) = RealEnv::start(CONFIG).unwrap();
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (send, receive) = mpsc::channel();
    for _ in 0..24 {
        let (running, most, send, inner) =
            (running.clone(), most.clone(), send.clone(), env.clone());
        env.tasks.spawn_blocking(
            "work",
            Box::new(move || {
                assert!(!inner.tasks.on_reactor());
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
                running.fetch_sub(1, Ordering::SeqCst);
                send.send(()).unwrap();
            }),
        );
    }
    (0..24).for_each(|_| receive.recv_timeout(SOON).unwrap());
    assert!((2..=CONFIG.blocking_threads).contains(&most.load(Ordering::SeqCst)));
}

#[test]
fn dropping_the_guard_drops_tasks_and_joins_threads() {
    struct Tell(mpsc::Sender<&'static str>);
    impl Drop for Tell {
        fn drop(&mut self) {
            self.0.send("dropped").unwrap();
        }
    }
    let (env, guard) = RealEnv::start(CONFIG).unwrap();
    let (send, receive) = mpsc::channel();
    let tell = Tell(send.clone());
    env.tasks.spawn(
        "endless",
        Box::pin(async move {
            let _tell = tell;
            std::future::pending::<()>().await;
        }),
    );
    let finished = Arc::new(AtomicUsize::new(0));
    let counter = finished.clone();
    env.tasks.spawn_thread(
        "loop",
        Box::new(move || {
            std::thread::sleep(Duration::from_millis(50));
            counter.fetch_add(1, Ordering::SeqCst);
        }),
    );
    let begin = Instant::now();
    drop(guard);
    assert_eq!(receive.recv_timeout(SOON).unwrap(), "dropped");
    assert_eq!(finished.load(Ordering::SeqCst), 1, "the thread was joined");
    assert!(begin.elapsed() < Duration::from_secs(8));
}

#[test]
fn sockets_work_from_any_thread() {
    let (env, _guard) = RealEnv::start(CONFIG).unwrap();
    let (send, receive) = mpsc::channel();
    let mut listening = env.net.listen(SocketAddr::from(([127, 0, 0, 1], 0)));
    let Poll::Ready(Ok(listener)) =
        listening.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    else {
        panic!("listening needs no waiting")
    };
    let addr = listener.local_addr().unwrap();
    let server = env.clone();
    env.tasks.spawn(
        "server",
        Box::pin(async move {
            let (stream, _) = listener.accept().await.unwrap();
            server.tasks.spawn_apart(
                "echo",
                Box::pin(async move {
                    let (mut read, mut write) = stream.split();
                    let mut bytes = [0; 5];
                    read.read_exact(&mut bytes).await.unwrap();
                    write.write_all(&bytes).await.unwrap();
                }),
            );
        }),
    );
    // First poll outside, as a FUSE thread does it.
    let mut connecting = env.net.connect(addr);
    let first = connecting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    env.tasks.spawn(
        "client",
        Box::pin(async move {
            let mut stream = match first {
                Poll::Ready(done) => done.unwrap(),
                Poll::Pending => connecting.await.unwrap(),
            };
            assert_eq!(stream.peer_addr().unwrap(), addr);
            stream.write_all(b"hello").await.unwrap();
            let mut bytes = [0; 5];
            stream.read_exact(&mut bytes).await.unwrap();
            send.send(bytes).unwrap();
        }),
    );
    assert_eq!(&receive.recv_timeout(SOON).unwrap(), b"hello");
}

#[test]
fn files_read_write_punch_allocate_and_seek() {
    let dir = tempfile::tempdir().unwrap();
    let (env, _guard) = RealEnv::start(CONFIG).unwrap();
    let disk = &env.disk;
    let sub = dir.path().join("a/b");
    disk.create_dirs(&sub).unwrap();
    disk.create_dirs(&sub).unwrap();
    let path = sub.join("file");
    assert_eq!(
        disk.open(&path, Open::Existing).err().unwrap().kind(),
        std::io::ErrorKind::NotFound
    );
    let file = disk.open(&path, Open::CreateNew).unwrap();
    assert_eq!(
        disk.open(&path, Open::CreateNew).err().unwrap().kind(),
        std::io::ErrorKind::AlreadyExists
    );

    let mut content = vec![0u8; 512 << 10];
    for (i, byte) in content.iter_mut().enumerate() {
        *byte = (i % 251) as u8 + 1;
    }
    file.write_all_at(&content, 0).unwrap();
    file.start_write_back(4096, 256 << 10).unwrap();
    assert!(file.start_write_back(u64::MAX, 2).is_err());
    file.punch(64 << 10, 64 << 10).unwrap();
    content[64 << 10..128 << 10].fill(0);
    file.allocate(256 << 10, 10_000, true).unwrap();
    content[256 << 10..(256 << 10) + 10_000].fill(0);
    file.allocate(500 << 10, 100 << 10, false).unwrap();
    content.resize(600 << 10, 0);
    file.sync_data().unwrap();
    let (size, blocks) = file.size_and_blocks().unwrap();
    assert_eq!(size, 600 << 10);
    assert!(blocks > 0);
    let mut back = vec![1u8; 700 << 10];
    let mut have = 0;
    loop {
        match file.read_at(&mut back[have..], have as u64).unwrap() {
            0 => break,
            n => have += n,
        }
    }
    assert!(back[..have] == content, "bytes differ");
    assert_eq!(file.seek(0, true).unwrap(), Some(64 << 10));
    assert_eq!(file.seek(64 << 10, false).unwrap(), Some(128 << 10));
    assert_eq!(file.seek(600 << 10, false).unwrap(), None);
    assert!(file.punch(u64::MAX - 1, 5).is_err(), "no wrap around");

    file.set_len(10).unwrap();
    disk.rename(&path, &sub.join("other")).unwrap();
    disk.sync_dir(&sub).unwrap();
    disk.sync_volume(&sub).unwrap();
    assert_eq!(disk.list(&sub).unwrap(), ["other"]);
    let space = disk.space(&sub).unwrap();
    assert!(space.bytes_total >= space.bytes_free && space.bytes_total > 0);
    let held = disk.lock(&sub.join("lock")).unwrap();
    assert!(held.is_some());
    assert!(disk.lock(&sub.join("lock")).unwrap().is_none());
    drop(held);
    assert!(disk.lock(&sub.join("lock")).unwrap().is_some());
    disk.remove(&sub.join("other")).unwrap();
}

#[test]
fn wall_time_and_random_numbers_are_plausible() {
    let (env, _guard) = RealEnv::start(CONFIG).unwrap();
    assert!(env.clock.wall().sec > 1_700_000_000);
    let before = env.clock.now();
    assert!(env.clock.now() >= before);
    let drawn: std::collections::HashSet<u64> = (0..1000).map(|_| env.random.next_u64()).collect();
    assert_eq!(drawn.len(), 1000);
    assert_ne!(env.random.next_u128(), env.random.next_u128());
}

#[test]
fn processes_of_this_host_talk_over_a_socket_with_more_bytes_than_it_holds() {
    const BYTES: usize = 16 << 20;
    let (env, _guard) = RealEnv::start(CONFIG).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("local");
    let listener = env.net.listen_local(&folder, "a").unwrap();
    let (heard, hears) = mpsc::channel();
    let (clock, tasks) = (env.clock.clone(), env.tasks.clone());
    let echo = async move {
        let stream = listener.accept().await.unwrap();
        assert_eq!(stream.peer_owner().unwrap(), env::net::PeerOwner::Trusted);
        let (mut read, mut write) = stream.split();
        // The writer is to find no room.
        clock.sleep(Duration::from_millis(50)).await;
        let mut all = vec![0; BYTES];
        read.read_exact(&mut all).await.unwrap();
        assert_eq!(read.read(&mut [0; 8]).await.unwrap(), 0, "the other end has said everything");
        write.write_all(&all).await.unwrap();
        drop(write);
        heard.send(()).unwrap();
        std::future::pending::<()>().await;
    };
    env.tasks.spawn("echo", Box::pin(echo));
    let stream = env.net.connect_local(&folder, "a").unwrap();
    let (mut read, mut write) = stream.split();
    let data: Vec<u8> = (0..BYTES).map(|at| (at * 7) as u8).collect();
    let (sent, wanted) = (data.clone(), data);
    tasks.spawn(
        "write",
        Box::pin(async move {
            write.write_all(&sent).await.unwrap();
            // Dropped: that is the end.
        }),
    );
    let (done, ends) = mpsc::channel();
    tasks.spawn(
        "read",
        Box::pin(async move {
            let mut back = vec![0; BYTES];
            read.read_exact(&mut back).await.unwrap();
            assert!(back == wanted);
            done.send(read.read(&mut [0; 8]).await.unwrap()).unwrap();
        }),
    );
    assert_eq!(ends.recv_timeout(SOON), Ok(0));
    hears.recv_timeout(SOON).unwrap();
}
