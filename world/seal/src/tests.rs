//! Two ends, honest and not: what the tests of this crate share.

mod damaged_handshakes;
mod records;
mod whose;
mod within_a_host;

use crate::authority::{Authority, Subject};
use crate::credentials::Credentials;
use crate::keys::Keys;
use env::BoxFuture;
use env::clock::{Clock, Monotonic};
use lnet::error::LinkError;
use lnet::seal::{KeyRefused, Reach, Read, START_BYTES, Seal, Sealed, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use types::nid::Nid;
use types::principal::Role;
use types::session::ClusterId;
use types::time::Timestamp;

pub(crate) const NID: Nid = Nid::Loopback;
pub(crate) const NOW: i64 = 1_700_000_000;
pub(crate) const DAY: i64 = 86_400;

/// Wall time as set.
pub(crate) struct Set(pub(crate) AtomicI64);

impl Clock for Set {
    fn now(&self) -> Monotonic {
        Duration::ZERO
    }

    fn wall(&self) -> Timestamp {
        Timestamp { sec: self.0.load(Ordering::SeqCst), nsec: 0 }
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

pub(crate) fn clock(seconds: i64) -> Arc<dyn Clock> {
    Arc::new(Set(AtomicI64::new(seconds)))
}

pub(crate) fn authority() -> Authority {
    Authority::make(ClusterId(7), NOW).unwrap()
}

pub(crate) fn credentials(authority: &Authority, role: Role, name: &str) -> Credentials {
    let name = name.parse().unwrap();
    let subject = Subject { role, name: &name, nids: &[] };
    authority.issue_key(subject, Vec::new(), (NOW, DAY)).unwrap()
}

pub(crate) fn keys(credentials: &Credentials, seconds: i64) -> Arc<Keys> {
    Keys::new(credentials, clock(seconds)).unwrap()
}

pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(future)
}

pub(crate) fn split(stream: DuplexStream) -> (Read, Write) {
    let (read, write) = tokio::io::split(stream);
    (Box::new(read), Box::new(write))
}

pub(crate) async fn answered(
    keys: &Keys,
    stream: DuplexStream,
) -> Result<Option<Sealed>, LinkError> {
    answered_over(keys, stream, Reach::Network).await
}

async fn answered_over(
    keys: &Keys,
    stream: DuplexStream,
    reach: Reach,
) -> Result<Option<Sealed>, LinkError> {
    let (mut read, write) = split(stream);
    let mut start = [0; START_BYTES];
    read.read_exact(&mut start).await.unwrap();
    Seal::answer(keys, NID, start, read, write, reach).await
}

/// What the two make of each other.
pub(crate) async fn meet(
    client: &Keys,
    server: &Keys,
) -> (Result<Sealed, LinkError>, Result<Option<Sealed>, LinkError>) {
    meet_over(client, server, [Reach::Network; 2]).await
}

/// The same, each over what it takes the connection for.
async fn meet_over(
    client: &Keys,
    server: &Keys,
    reaches: [Reach; 2],
) -> (Result<Sealed, LinkError>, Result<Option<Sealed>, LinkError>) {
    meet_at(client, server, reaches, duplex(64 << 10)).await
}

/// The same, each at its end of a way.
async fn meet_at(
    client: &Keys,
    server: &Keys,
    [calls, answers]: [Reach; 2],
    (near, far): (DuplexStream, DuplexStream),
) -> (Result<Sealed, LinkError>, Result<Option<Sealed>, LinkError>) {
    let (read, write) = split(near);
    let call = async {
        let mut sealed = Seal::call(client, NID, read, write, calls).await?;
        // The server may refuse the key of the client only now.
        sealed.write.write_all(b"ping").await.ok();
        sealed.write.flush().await.ok();
        let mut pong = [0; 4];
        match sealed.read.read_exact(&mut pong).await {
            Ok(_) => Ok(sealed),
            Err(error) => {
                match error.get_ref().and_then(|inner| inner.downcast_ref::<KeyRefused>()) {
                    Some(KeyRefused(reason)) => {
                        Err(LinkError::Key { nid: NID, reason: reason.clone() })
                    }
                    None => Err(LinkError::Lost { nid: NID, reason: error.to_string() }),
                }
            }
        }
    };
    let answer = async {
        let mut sealed = answered_over(server, far, answers).await?;
        if let Some(sealed) = &mut sealed {
            // The client may not believe the server, and be gone.
            sealed.read.read_exact(&mut [0; 4]).await.ok();
            sealed.write.write_all(b"pong").await.ok();
            sealed.write.flush().await.ok();
        }
        Ok(sealed)
    };
    tokio::join!(call, answer)
}

pub(crate) fn reason(error: LinkError) -> String {
    match error {
        LinkError::Key { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

/// Keys of an owner: of the first authority, of the second in the overlap, and of the second after
/// it.
pub(crate) fn generations(
    role: Role,
    name: &str,
    first: &Authority,
    second: &Authority,
) -> [Credentials; 3] {
    let overlap = credentials(second, role, name);
    let after = overlap.without_the_authority_before();
    [credentials(first, role, name), overlap, after]
}
