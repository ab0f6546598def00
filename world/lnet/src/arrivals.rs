//! Connections that come, over the network and within the host: from the listener to their end.

use crate::accepted::{Accepted, address_of};
use crate::circuit::{self, Circuit};
use crate::error::LinkError;
use crate::greet::{self, Greeted, Line};
use crate::link::Link;
use crate::links::Links;
use crate::local;
use crate::seal::{self, Reach, START_BYTES};
use crate::shared::Shared;
use env::net::{Listener, LocalListener, PeerOwner, Stream};
use futures_util::future::{Either, select};
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use types::net::Net;
use types::nid::Nid;
use wire::frame::FrameKind;

/// After a failed accept (no descriptors left), the next one waits.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where connections come from.
#[derive(Clone, Copy)]
pub(crate) enum Door<'a> {
    Network(&'a dyn Listener),
    Host(&'a dyn LocalListener),
}

impl Door<'_> {
    fn reach(self) -> Reach {
        match self {
            Door::Network(_) => Reach::Network,
            Door::Host(_) => Reach::Host,
        }
    }

    /// The next connection, with the NID of the node at its other end.
    async fn accept(self, shared: &Shared, source: Nid) -> io::Result<(Box<dyn Stream>, Nid)> {
        match self {
            Door::Network(listener) => {
                let (stream, address) = listener.accept().await?;
                // A node that comes to an address of a network is on that network.
                Ok((stream, Nid::new(source.net().unwrap_or(Net::TCP), address)))
            }
            Door::Host(listener) => {
                let stream = listener.accept().await?;
                Ok((stream, local::source_at(shared, source).unwrap_or(source)))
            }
        }
    }
}

/// Accepts connections of processes of this host, whenever the local transport is on. `listener`:
/// that of its present folder, which may not have worked.
pub(crate) async fn accept_local(
    links: &Arc<Links>,
    accepted: &Arc<Accepted>,
    mut listener: Option<(Option<Box<dyn LocalListener>>, PathBuf)>,
    source: Nid,
) {
    let shared = &links.shared;
    loop {
        let (listener, folder) = match listener.take() {
            Some(listener) => listener,
            None => {
                let folder = shared.local.on().await;
                (local::listen(shared, &folder, source), folder)
            }
        };
        let changed = shared.local.changed(&folder);
        match &listener {
            Some(listener) => {
                let accept = accept(links, accepted, Door::Host(&**listener), source);
                select(pin!(accept), pin!(changed)).await;
            }
            None => changed.await,
        }
    }
}

/// Accepts connections for ever.
pub(crate) async fn accept(
    links: &Arc<Links>,
    accepted: &Arc<Accepted>,
    door: Door<'_>,
    source: Nid,
) {
    let shared = &links.shared;
    let reach = door.reach();
    loop {
        match door.accept(shared, source).await {
            // Two tasks are no links: those that accept and sweep.
            Ok((stream, nid)) if links.tasks().saturating_sub(2) < accepted.max() => {
                let (links, accepted, task) = (links.clone(), accepted.clone(), links.task());
                let serve = async move {
                    serve(&links, &accepted, (stream, reach), source, nid).await;
                    drop(task);
                };
                shared.env.tasks.spawn_apart("link", Box::pin(serve));
            }
            Ok((_, nid)) => {
                let max = accepted.max();
                let reason = format!(
                    "more than {max} connections; a higher limit of descriptors allows more"
                );
                shared.refused(nid, &LinkError::Protocol { nid, reason });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                shared.env.clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// What an accepted connection turned out to be.
enum Arrived {
    Link(Box<Greeted>),
    /// It goes on to another node.
    Circuit(Circuit),
    /// It was for something else than messages, and is done with.
    Other,
}

/// An accepted connection, from its greeting to its end.
async fn serve(
    links: &Arc<Links>,
    accepted: &Arc<Accepted>,
    (stream, reach): (Box<dyn Stream>, Reach),
    source: Nid,
    nid: Nid,
) {
    let shared = &links.shared;
    let (place, ended) = accepted.arrive(address_of(nid));
    let owner = stream.peer_owner();
    let (mut read, write) = stream.split();
    let arrived = {
        let greeting = async {
            let owner = match (reach, owner) {
                (Reach::Network, owner) => owner,
                (Reach::Host, owner) => match local::believed(nid, owner) {
                    Ok(()) => Ok(PeerOwner::Trusted),
                    Err(error) => {
                        let refused = local::refuse(shared, (source, nid), error, (read, write));
                        return refused.await.map(|greeted| Arrived::Link(Box::new(greeted)));
                    }
                },
            };
            let mut start = [0; START_BYTES];
            read.read_exact(&mut start).await.map_err(|error| greet::lost(nid, &error))?;
            let line = match (seal::is_sealed(&start), shared.seal()) {
                (false, _) => {
                    let header = greet::header(nid, start, &mut read).await?;
                    let is_route = FrameKind::of_header(&header) == Some(FrameKind::Route);
                    if is_route && reach == Reach::Network {
                        let ends = (read, write);
                        let circuit = circuit::answer(shared, (source, nid), owner, header, ends);
                        return circuit.await.map(Arrived::Circuit);
                    }
                    Line::plain(Some(header), read, write, reach)
                }
                (true, None) => {
                    let refused = greet::refuse_sealed(shared, (source, nid), read, write);
                    return refused.await.map(|greeted| Arrived::Link(Box::new(greeted)));
                }
                (true, Some(seal)) => match seal.answer(nid, start, read, write, reach).await? {
                    Some(sealed) => Line::sealed(sealed, reach),
                    None => return Ok(Arrived::Other),
                },
            };
            let greeted = greet::answer(shared, accepted, (source, nid), owner, line).await?;
            Ok(Arrived::Link(Box::new(greeted)))
        };
        match select(pin!(greet::in_time(shared, nid, greeting)), ended).await {
            Either::Left((arrived, _)) => arrived,
            Either::Right(_) => {
                let reason = "too many connections have no session".to_owned();
                Err(LinkError::Protocol { nid, reason })
            }
        }
    };
    match arrived {
        Ok(Arrived::Link(greeted)) => {
            let Greeted { ends, read, write } = *greeted;
            links.run(Link::new(shared.clone(), ends, write, Some(place)), read).await;
        }
        Ok(Arrived::Circuit(circuit)) => {
            drop(place);
            circuit::run(shared, circuit).await;
        }
        Ok(Arrived::Other) => {}
        Err(error) => shared.refused(nid, &error),
    }
}
