//! What handshakes cost, with certificates and with a ticket: `cargo bench -p seal`. CPU of each
//! end, and the bytes that each sends until both can send messages.

use env::BoxFuture;
use env::clock::{Clock, Monotonic};
use env::random::Random;
use lnet::seal::{Reach, START_BYTES, Seal};
use rustix::time::{ClockId, clock_gettime};
use seal::authority::{Authority, Subject};
use seal::credentials::Credentials;
use seal::keys::Keys;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use types::nid::Nid;
use types::principal::Role;
use types::session::ClusterId;
use types::time::Timestamp;

const NOW: i64 = 1_700_000_000;
const RUNS: usize = 7;
const ROUNDS: usize = 500;

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Monotonic {
        Duration::ZERO
    }

    fn wall(&self) -> Timestamp {
        Timestamp { sec: NOW, nsec: 0 }
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

struct Count(AtomicU64);

impl Random for Count {
    fn next_u64(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Counts what is written.
struct Counted(DuplexStream, Arc<AtomicU64>);

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.0).poll_write(cx, buf);
        if let Poll::Ready(Ok(bytes)) = written {
            self.1.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The output of a future, with the CPU that its polls took.
async fn timed<T>(future: impl Future<Output = T>) -> (T, Duration) {
    let (mut future, mut spent) = (pin!(future), Duration::ZERO);
    std::future::poll_fn(|cx| {
        let began = cpu();
        let polled = future.as_mut().poll(cx);
        spent += cpu() - began;
        polled.map(|output| (output, spent))
    })
    .await
}

/// One end, as both see it.
#[derive(Default, Clone, Copy)]
struct Cost {
    cpu: Duration,
    bytes: u64,
}

/// One handshake; a message in each direction follows, so that the client has its ticket.
async fn meet(client: &Keys, server: &Keys) -> [Cost; 2] {
    let counts = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let (to_server, from_client) = duplex(64 << 10);
    let (to_client, from_server) = duplex(64 << 10);
    let [near, far] = [(to_server, &counts[0]), (to_client, &counts[1])]
        .map(|(stream, count)| Box::new(Counted(stream, count.clone())));
    let (mut read, nid) = (from_client, Nid::Loopback);
    let call = async {
        let mut sealed =
            Seal::call(client, nid, Box::new(from_server), near, Reach::Network).await.unwrap();
        sealed.write.write_all(b"ping").await.unwrap();
        sealed.read.read_exact(&mut [0; 4]).await.unwrap();
    };
    let answer = async {
        let mut start = [0; START_BYTES];
        read.read_exact(&mut start).await.unwrap();
        let sealed =
            Seal::answer(server, nid, start, Box::new(read), far, Reach::Network).await.unwrap();
        let mut sealed = sealed.unwrap();
        sealed.read.read_exact(&mut [0; 4]).await.unwrap();
        sealed.write.write_all(b"pong").await.unwrap();
    };
    let (((), near), ((), far)) = tokio::join!(timed(call), timed(answer));
    let bytes = counts.map(|count| count.load(Ordering::Relaxed));
    [Cost { cpu: near, bytes: bytes[0] }, Cost { cpu: far, bytes: bytes[1] }]
}

fn key(authority: &Authority, role: Role, name: &str) -> Credentials {
    let name = name.parse().unwrap();
    let subject = Subject { role, name: &name, nids: &[] };
    authority.issue_key(subject, Vec::new(), (NOW, 86_400)).unwrap()
}

fn keys(credentials: &Credentials) -> Arc<Keys> {
    let keys = Keys::new(credentials, Arc::new(Fixed)).unwrap();
    if let Some(due) = keys.ticket_keys_due(&Count(AtomicU64::new(1))) {
        keys.set_ticket_keys(due);
    }
    keys
}

fn main() {
    let authority = Authority::make(ClusterId(7), NOW).unwrap();
    let (client, server) =
        (key(&authority, Role::Client, "node7"), keys(&key(&authority, Role::Server, "oss1")));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let count = |keys: &Keys| keys.handshakes().resumed.load(Ordering::Relaxed);
    println!(
        "of {RUNS} runs of {ROUNDS} handshakes each: the least and the most CPU of a handshake"
    );
    for resumes in [false, true] {
        let mut runs = [const { Vec::new() }; 2];
        let mut bytes = [0; 2];
        for _ in 0..RUNS {
            let mut sums = [Duration::ZERO; 2];
            let one = keys(&client);
            runtime.block_on(meet(&one, &server));
            for _ in 0..ROUNDS {
                // Without tickets: a process that was not here before.
                let fresh = if resumes { one.clone() } else { keys(&client) };
                let before = count(&server);
                let costs = runtime.block_on(meet(&fresh, &server));
                assert_eq!(count(&server) - before, u64::from(resumes), "it is the other kind");
                for (n, cost) in costs.iter().enumerate() {
                    sums[n] += cost.cpu;
                    bytes[n] = cost.bytes;
                }
            }
            for (run, sum) in runs.iter_mut().zip(sums) {
                run.push(sum.as_nanos() as f64 / ROUNDS as f64 / 1_000.0);
            }
        }
        let what = if resumes { "with a ticket" } else { "with certificates" };
        for (n, end) in ["client", "server"].iter().enumerate() {
            runs[n].sort_by(f64::total_cmp);
            let (least, most) = (runs[n][0], runs[n][RUNS - 1]);
            println!("{what}, {end}: {least:.0} to {most:.0} us, {} bytes sent", bytes[n]);
        }
    }
}
