//! The router's side: circuits.
//!
//! A node connects and sends `Route`; this process connects to what that names, or to the next
//! router, and from then on copies bytes both ways. Where keys are asked for, they are sealed from
//! end to end. Where none are, it sees to it that the greeting names the node that it comes from.
//!
//! Bounds: CIRCUITS_MAX circuits, CIRCUITS_PER_ADDRESS_MAX from one address, a buffer of
//! [`BUFFER_BYTES`] for each direction of each. A direction waits only for its own receiver, and no
//! more is read until that has taken what was read: so TCP holds the sender back, no circuit waits
//! for another one, and no memory runs out. When one end of a circuit is gone, the other one has
//! [`FAREWELL`] at most. The circuit keeps its place in the table until then: as long as it has
//! sockets and a buffer, it counts.

use crate::accepted::address_of;
use crate::error::LinkError;
use crate::greet::{linger, may_connect, receive, send};
use crate::nets::Way;
use crate::rails::Path;
use crate::relay::CircuitPlace;
use crate::road::{self, Road};
use crate::seal::{Read, START_BYTES, Write, is_plain};
use crate::shared::Shared;
use env::net::PeerOwner;
use futures_util::future::{Either, select};
use std::io;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use types::nid::Nid;
use wire::frame::{FrameKind, HEADER_BYTES, Header};
use wire::route::{Route, Routed};

/// Bytes that one direction of a circuit has read and not written, at most.
const BUFFER_BYTES: usize = 64 << 10;
/// What a circuit leads to answers within this time, or there is no circuit. It is less than the
/// patience of a node that waits for it.
const PATIENCE: Duration = Duration::from_millis(1500);
/// After one direction has ended, the other one has so long to end.
const FAREWELL: Duration = Duration::from_secs(5);

/// Two connections that are to be joined.
pub(crate) struct Circuit {
    place: CircuitPlace,
    /// Where the first one came from.
    nid: Nid,
    near: (Read, Write),
    far: (Read, Write),
}

/// Reads what a node wants that sent `Route` (its header was read), and makes the second half of
/// the circuit, or refuses.
pub(crate) async fn answer(
    shared: &Shared,
    (source, nid): (Nid, Nid),
    owner: io::Result<PeerOwner>,
    header: [u8; HEADER_BYTES],
    (mut read, mut write): (Read, Write),
) -> Result<Circuit, LinkError> {
    let (header, body) = receive(FrameKind::Route, nid, Some(header), &mut read).await?;
    let route = Route::decode(&body)
        .map_err(|short| LinkError::Protocol { nid, reason: short.to_string() })?;
    // To a server on this host, what comes through here comes from this process.
    may_connect(nid, owner)?;
    let made = open(shared, nid, header.target, route.hops).await;
    let answer = made.as_ref().map_or_else(|why| *why, |_| Routed::Yes);
    let cluster = shared.cluster();
    send(FrameKind::Routed, &answer.encode(), cluster, source, nid, &mut write).await?;
    match made {
        Ok((place, far)) => {
            shared.relay.made.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%nid, target = %header.target, "circuit");
            Ok(Circuit { place, nid, near: (read, write), far: (far.read, far.write) })
        }
        Err(why) => {
            shared.relay.refused.fetch_add(1, Ordering::Relaxed);
            linger(shared, &mut read).await;
            let reason = format!("wants a way to {}: {why}", header.target);
            Err(LinkError::Protocol { nid, reason })
        }
    }
}

async fn open(
    shared: &Shared,
    from: Nid,
    target: Nid,
    hops: u16,
) -> Result<(CircuitPlace, Road), Routed> {
    let relay = &shared.relay;
    if !relay.forwards() {
        return Err(Routed::NoRouter);
    }
    if !relay.may_reach(target) {
        return Err(Routed::NotAllowed);
    }
    let left = hops.checked_sub(1).ok_or(Routed::TooFar)?;
    match shared.nets.way(target, shared.env.clock.now()) {
        Way::None => return Err(Routed::NoWay),
        Way::Through(_) if left == 0 => return Err(Routed::TooFar),
        Way::Through(_) | Way::Direct => {}
    }
    let place = relay.place(address_of(from)).ok_or(Routed::NoRoom)?;
    let far = road::open(shared, Path::any(target), left, true);
    match select(pin!(far), shared.env.clock.sleep(PATIENCE)).await {
        Either::Left((Ok(road), _)) => {
            if let Some(gateway) = road.gateway {
                shared.nets.answered(gateway);
            }
            Ok((place, road))
        }
        Either::Left((Err(error), _)) => {
            tracing::debug!(%target, %error, "no second half of a circuit");
            Err(Routed::NoAnswer)
        }
        Either::Right(_) => Err(Routed::NoAnswer),
    }
}

/// Copies both ways until one end is gone, or this process stops.
pub(crate) async fn run(shared: &Shared, circuit: Circuit) {
    let Circuit { place: _place, nid, near, far } = circuit;
    let mut there = pin!(copy(shared, Some(nid), near.0, far.1));
    let mut back = pin!(copy(shared, None, far.0, near.1));
    let both = async {
        let (first, rest) = match select(there.as_mut(), back.as_mut()).await {
            Either::Left((first, rest)) | Either::Right((first, rest)) => (first, rest),
        };
        if first.is_ok() {
            select(rest, shared.env.clock.sleep(FAREWELL)).await;
        }
    };
    select(pin!(both), pin!(shared.stopped())).await;
}

/// Forwards the start of what a node sends. Where no keys are asked for, it is a greeting, and its
/// header names the NID of the node: a server that knows this router believes it. So it is put
/// right, unless the node is at that address, or the greeting comes from another router that leads
/// to its network, and has seen to it.
async fn vouch(shared: &Shared, nid: Nid, from: &mut Read, to: &mut Write) -> io::Result<()> {
    let mut start = [0; START_BYTES];
    from.read_exact(&mut start).await?;
    let mut bytes = start.to_vec();
    if is_plain(&start) {
        let mut whole = [0; HEADER_BYTES];
        let (first, rest) = whole.split_at_mut(START_BYTES);
        first.copy_from_slice(&start);
        from.read_exact(rest).await?;
        bytes = whole.to_vec();
        // What is no header is the server's to refuse.
        if let Ok(header) = Header::decode(&whole)
            && header.kind == FrameKind::Hello
            && !is_at(header.source, nid)
            && !shared.nets.is_gateway(nid, header.source)
        {
            bytes = Header { source: nid, ..header }.encode().to_vec();
        }
    }
    to.write_all(&bytes).await?;
    to.flush().await?;
    shared.relay.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    Ok(())
}

/// True if both are one address on one network; ports may differ.
fn is_at(one: Nid, other: Nid) -> bool {
    let address = |nid: Nid| nid.address().map(|at| at.ip().to_canonical());
    one.net() == other.net() && address(one) == address(other)
}

/// Copies to the end of what is read, and ends what is written. `node`: where it comes from, if it
/// begins with a greeting.
async fn copy(shared: &Shared, node: Option<Nid>, mut from: Read, mut to: Write) -> io::Result<()> {
    if let Some(node) = node {
        vouch(shared, node, &mut from, &mut to).await?;
    }
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match from.read(&mut buffer).await? {
            0 => return to.shutdown().await,
            bytes => {
                to.write_all(&buffer[..bytes]).await?;
                to.flush().await?;
                shared.relay.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        }
    }
}
