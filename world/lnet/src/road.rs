//! How a connection to a NID is made: directly, or through a router.
//!
//! A part of a way through a router is watched: when its other end is silent (its host hangs, or a
//! cable is cut), the circuit ends within seconds, and the node makes another one through another
//! router. Node to node, where nothing may stand in, patience is half a minute.

use crate::error::LinkError;
use crate::greet::{receive, send};
use crate::nets::{Nets, Way, no_way};
use crate::rails::Path;
use crate::seal::{Read, Write};
use crate::shared::Shared;
use env::clock::Clock;
use env::net::Watcher;
use futures_util::future::{Either, select};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use types::nid::Nid;
use wire::frame::FrameKind;
use wire::route::{Route, Routed};

/// A gateway that has not made a way after this time is left, if there is another one.
const PATIENCE: Duration = Duration::from_secs(2);

/// A connection on which nothing was said yet.
pub(crate) struct Road {
    pub(crate) read: Read,
    pub(crate) write: Write,
    /// The router that it leads through first; `None`: it is direct.
    pub(crate) gateway: Option<Nid>,
    /// NID of this end.
    pub(crate) source: Nid,
    /// Of the line to the node or to the first router; `None`: unknown.
    pub(crate) round_trip: Option<Duration>,
    /// Watches it from now on.
    pub(crate) watcher: Watcher,
}

/// Connects over a path, through at most so many routers. `watched`: it is part of a way through a
/// router, even if no further one follows. It has no time limit of its own. A router that says that
/// there is a way is not believed yet ([`Nets::answered`]).
pub(crate) async fn open(
    shared: &Shared,
    path: Path,
    hops: u16,
    watched: bool,
) -> Result<Road, LinkError> {
    let nid = path.to;
    let gateways = match shared.nets.way(nid, shared.env.clock.now()) {
        Way::Direct => return direct(shared, path, watched).await,
        Way::None => return Err(no_way(nid)),
        Way::Through(_) if hops == 0 => return Err(refused(nid, nid, Routed::TooFar)),
        Way::Through(gateways) => gateways,
    };
    let mut error = no_way(nid);
    let silent = |gateway| LinkError::Connect {
        nid,
        reason: format!("the router {gateway} does not answer"),
    };
    let mut rest = gateways.into_iter().peekable();
    while let Some(gateway) = rest.next() {
        let way = through(shared, gateway, nid, hops);
        let made = match rest.peek() {
            None => way.await,
            Some(_) => match select(pin!(way), shared.env.clock.sleep(PATIENCE)).await {
                Either::Left((made, _)) => made,
                Either::Right(_) => Err(NoRoad { error: silent(gateway), blamed: true }),
            },
        };
        match made {
            Ok(road) => return Ok(road),
            Err(NoRoad { error: this, blamed }) => {
                tracing::debug!(%nid, %gateway, error = %this, "no way through this router");
                if blamed {
                    shared.nets.failed(gateway, shared.env.clock.now());
                }
                error = this;
            }
        }
    }
    Err(error)
}

async fn direct(shared: &Shared, path: Path, watched: bool) -> Result<Road, LinkError> {
    let Path { from, to: nid } = path;
    let cannot = |error: std::io::Error| LinkError::Connect { nid, reason: error.to_string() };
    let (Some(address), Some(net)) = (nid.address(), nid.net()) else { return Err(no_way(nid)) };
    let connect = match from {
        None => shared.env.net.connect(address),
        Some(from) => shared.env.net.connect_from(from, address),
    };
    let mut stream = connect.await.map_err(cannot)?;
    if watched {
        stream.watch();
    }
    let watcher = stream.watcher();
    let source = Nid::new(net, stream.local_addr().map_err(cannot)?);
    let round_trip = stream.round_trip();
    let (read, write) = stream.split();
    Ok(Road { read, write, gateway: None, source, round_trip, watcher })
}

/// Why a router made no way.
struct NoRoad {
    error: LinkError,
    /// The router itself failed, and not what is behind it.
    blamed: bool,
}

async fn through(shared: &Shared, gateway: Nid, nid: Nid, hops: u16) -> Result<Road, NoRoad> {
    let blame = |error| NoRoad { error, blamed: true };
    let mut road = direct(shared, Path::any(gateway), true).await.map_err(blame)?;
    let (cluster, source) = (shared.cluster(), road.source);
    let body = Route { hops }.encode();
    let sent = send(FrameKind::Route, &body, cluster, source, nid, &mut road.write).await;
    sent.map_err(blame)?;
    let answer = receive(FrameKind::Routed, gateway, None, &mut road.read).await;
    let (_, body) = answer.map_err(blame)?;
    match Routed::decode(&body) {
        Ok(Routed::Yes) => {
            let (nets, clock) = (shared.nets.clone(), shared.env.clock.clone());
            road.read = Box::new(FromGateway { read: road.read, gateway, nets, clock });
            road.gateway = Some(gateway);
            Ok(road)
        }
        Ok(why) => {
            let blamed = !matches!(why, Routed::NoAnswer | Routed::TooFar);
            Err(NoRoad { error: refused(nid, gateway, why), blamed })
        }
        Err(short) => Err(blame(LinkError::Protocol { nid: gateway, reason: short.to_string() })),
    }
}

/// Notes that a gateway is silent, so that the next circuit goes through another one.
struct FromGateway {
    read: Read,
    gateway: Nid,
    nets: Arc<Nets>,
    clock: Arc<dyn Clock>,
}

impl AsyncRead for FromGateway {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let read = Pin::new(&mut this.read).poll_read(cx, buf);
        if let Poll::Ready(Err(error)) = &read
            && error.kind() == io::ErrorKind::TimedOut
        {
            tracing::info!(gateway = %this.gateway, "the router is silent");
            this.nets.failed(this.gateway, this.clock.now());
        }
        read
    }
}

fn refused(nid: Nid, gateway: Nid, why: Routed) -> LinkError {
    LinkError::Connect { nid, reason: format!("the router {gateway} says: {why}") }
}
