//! The client's side of a node: a control link, bulk links beside it, one window for all.
//!
//! Two bulk links are made when the first large request comes; over a long line at once, because
//! making them takes two round trips. Until they stand, large requests take the control link. One
//! connection carries no more than a window per round trip, and begins with 10 segments. So over a
//! long line there are more links while there is data for them: one for each [`BYTES_PER_LINK`] on
//! their way, at most as many as the delay calls for. A minute after the need, those beyond the
//! first two are closed again. Of as many links as the present need calls for, a large request
//! takes the one that has least to carry.
//!
//! A peer that tells several NIDs, or to which several interfaces lead, has bulk links on each path
//! ([`rails`](crate::rails)), and one that fails is left for a while ([`bulk`](crate::bulk)). Its
//! waiting requests fail, and are sent again by the layer above. If the control link is lost, or
//! one of the bulk links of a peer with a single path, all are closed: the next user makes a new
//! peer.

use crate::bulk::{BULK_LINKS_MIN, Bulk, Ended, LINKS_IDLE, Load, Order};
use crate::error::LinkError;
use crate::link::Link;
use crate::links::{Call, Links};
use crate::nets::no_way;
use crate::payload::{Frame, Payload};
use crate::seal::Protection;
use crate::traffic::Traffic;
use crate::window::Window;
use env::net::LONG_LINE;
use env::watch;
use futures_util::future::{Either, select};
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;
use types::limits::{LINKS_PER_PEER_MAX, MESSAGE_BYTES_MAX};
use types::nid::Nid;
use types::principal::Principal;
use types::session::{ClientUuid, Pairing};
use wire::hello::Purpose;

/// Requests or replies with more data than this travel on the bulk links.
pub const CONTROL_DATA_MAX: usize = 64 << 10;

/// How a request is to be treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Bulk data to expect with the reply, bytes.
    pub reply_bulk: usize,
    /// Longest wait for the reply; `None`: as long as the link lives.
    pub limit: Option<Duration>,
    /// The request does not count in the window: it may wait for other clients, or must get through
    /// when the window is full.
    pub outside_window: bool,
    /// No program waits for it: what programs wait for goes first.
    pub background: bool,
}

/// A path that has not made a control link after this time is left, if there is another one.
const PATIENCE: Duration = Duration::from_secs(1);
/// A bulk link on a path that failed is made within this time, or not at all.
const PROBE: Duration = Duration::from_secs(2);

/// Bulk links that a line of this round trip may have.
fn bulk_links_max(round_trip: Option<Duration>) -> usize {
    match round_trip.unwrap_or_default().as_millis() {
        0 => BULK_LINKS_MIN,
        1..10 => 2 * BULK_LINKS_MIN,
        10..50 => 4 * BULK_LINKS_MIN,
        _ => LINKS_PER_PEER_MAX - 1,
    }
}

/// A node that this process connected to.
pub struct Peer {
    links: Arc<Links>,
    me: Weak<Peer>,
    control: Arc<Link>,
    bulk: Mutex<Bulk<Arc<Link>>>,
    window: Window,
    closed: watch::Sender<bool>,
}

/// A NID of a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerNid {
    /// The NID.
    pub nid: Nid,
    /// It takes links.
    pub up: bool,
    /// Links that stand.
    pub links: usize,
    /// Of them, those that lead through the kernel of this host only.
    pub local: usize,
    /// What went over them.
    pub traffic: Traffic,
}

impl Peer {
    pub(crate) async fn connect(links: Arc<Links>, nid: Nid) -> Result<Arc<Peer>, LinkError> {
        let end = Arc::new(Mutex::new(Weak::<Peer>::new()));
        let control = control_link(&links, nid, &end).await?;
        let bulk = Mutex::new(Bulk::new(control.paths().to_vec()));
        let peer = Arc::new_cyclic(|me| Peer {
            links,
            me: me.clone(),
            control,
            bulk,
            window: Window::new(),
            closed: watch::Sender::new(false),
        });
        *end.lock() = Arc::downgrade(&peer);
        if peer.is_far() {
            peer.open_missing(&mut peer.bulk.lock(), 0);
        }
        Ok(peer)
    }

    /// Address of the peer.
    pub fn nid(&self) -> Nid {
        self.control.nid()
    }

    /// Process of the peer; another one after a restart.
    pub fn process(&self) -> ClientUuid {
        self.control.process()
    }

    /// Whose its key is, and how the connections to it are sealed; `None`: they are plain.
    pub fn sealed(&self) -> Option<(Arc<Principal>, Protection)> {
        Some((self.control.principal()?.clone(), self.control.protection()?))
    }

    /// Number that all connections to it show.
    pub fn pairing(&self) -> Pairing {
        self.control.pairing()
    }

    /// Round trip of the line when it was connected; `None`: unknown.
    pub fn round_trip(&self) -> Option<Duration> {
        self.control.round_trip()
    }

    fn is_far(&self) -> bool {
        self.round_trip().is_some_and(|time| time >= LONG_LINE)
    }

    /// Bulk links that stand.
    pub fn bulk_links(&self) -> usize {
        self.bulk.lock().len()
    }

    /// Paths to it.
    pub fn paths(&self) -> usize {
        self.bulk.lock().uses().len()
    }

    /// NIDs at which it is reached, the one of its control link first.
    pub fn nids(&self) -> Vec<PeerNid> {
        let bulk = self.bulk.lock();
        let mut all: Vec<PeerNid> = vec![PeerNid {
            nid: self.nid(),
            up: self.is_open(),
            links: 1,
            local: usize::from(self.control.is_local()),
            traffic: self.control.meter.traffic(),
        }];
        for one in bulk.uses() {
            match all.iter_mut().find(|known| known.nid == one.path.to) {
                Some(known) => known.links += one.links,
                None => {
                    let (nid, up, links) = (one.path.to, one.up, one.links);
                    let (local, traffic) = (0, Traffic::default());
                    all.push(PeerNid { nid, up, links, local, traffic });
                }
            }
        }
        for link in bulk.links() {
            if let Some(known) = all.iter_mut().find(|known| known.nid == link.nid()) {
                known.local += usize::from(link.is_local());
                known.traffic += link.meter.traffic();
            }
        }
        all
    }

    /// True if it can take requests.
    pub fn is_open(&self) -> bool {
        self.control.is_open()
    }

    /// Ready once it takes no more requests. Does not keep the peer.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut closed = self.closed.subscribe();
        async move {
            // An error means that it is gone: closed as well.
            let _ = closed.wait_for(|closed| *closed).await;
        }
    }

    /// Requests allowed in flight now.
    pub fn window(&self) -> usize {
        self.window.limit()
    }

    /// Sends a request, when the window has room, and waits for the reply.
    ///
    /// # Errors
    /// The peer is lost, or the time is up (counted from the sending).
    pub async fn request(&self, payload: Payload, ask: Ask) -> Result<Frame, LinkError> {
        let bytes = payload.total_len();
        if bytes > MESSAGE_BYTES_MAX {
            return Err(LinkError::TooLong { nid: self.nid(), bytes });
        }
        let data = payload.bulk_len().max(ask.reply_bulk);
        let large = data > CONTROL_DATA_MAX;
        let bulk = if large { data } else { 0 };
        let _room = if ask.outside_window {
            None
        } else {
            Some(self.window.enter(bulk, ask.background).await)
        };
        let load = if large { self.bulk_link(data) } else { None };
        let link = load.as_ref().map_or(&self.control, Load::link);
        let sent = self.links.shared.env.clock.now();
        let frame = link.request(payload, ask.limit).await?;
        if !large && !ask.outside_window {
            let now = self.links.shared.env.clock.now();
            self.window.answered(now, now.saturating_sub(sent));
        }
        Ok(frame)
    }

    /// Closes all links.
    pub fn close(&self, why: &LinkError) {
        let links = self.bulk.lock().close();
        links.iter().for_each(|bulk| bulk.link.close(why.clone()));
        self.control.close(why.clone());
        self.closed.send_replace(true);
    }

    /// A bulk link for so much data, and as many new ones as it calls for; `None`: none stands yet.
    fn bulk_link(&self, bytes: usize) -> Option<Load<Arc<Link>>> {
        let mut bulk = self.bulk.lock();
        let wanted = self.open_missing(&mut bulk, bytes);
        bulk.take(bytes, wanted)
    }

    /// Makes the links that are wanted for one more request with so much data; how many each path
    /// is to have.
    fn open_missing(&self, bulk: &mut Bulk<Arc<Link>>, bytes: usize) -> usize {
        let now = self.links.shared.env.clock.now();
        let (orders, wanted) = bulk.order(bytes, bulk_links_max(self.round_trip()), now);
        orders.into_iter().for_each(|order| self.open_bulk(order));
        if wanted > BULK_LINKS_MIN && !std::mem::replace(&mut bulk.shrinking, true) {
            let (me, clock) = (self.me.clone(), self.links.shared.env.clock.clone());
            let shrink = async move {
                loop {
                    clock.sleep(LINKS_IDLE).await;
                    let Some(peer) = me.upgrade() else { return };
                    if peer.shrink() {
                        return;
                    }
                }
            };
            self.links.shared.env.tasks.spawn("close idle bulk links", Box::pin(shrink));
        }
        wanted
    }

    /// Closes links that are needed no more; true once there is nothing left to do.
    fn shrink(&self) -> bool {
        let now = self.links.shared.env.clock.now();
        let (idle, done) = self.bulk.lock().shrink(now);
        let why = LinkError::Lost { nid: self.nid(), reason: "not needed any more".to_owned() };
        idle.iter().for_each(|bulk| bulk.link.close(why.clone()));
        done
    }

    fn open_bulk(&self, order: Order) {
        let (me, all, nid) = (self.me.clone(), self.links.clone(), order.path.to);
        let call = Call { path: order.path, purpose: Purpose::Bulk, pairing: self.pairing() };
        let open = async move {
            let ended = me.clone();
            let on_end = Box::new(move |why| {
                if let Some(peer) = ended.upgrade() {
                    peer.lost_bulk(order, &why);
                }
            });
            let made = match order.is_probe {
                false => all.open(call, on_end).await,
                true => within(&all, PROBE, nid, all.open(call, on_end)).await,
            };
            let unused = match (me.upgrade(), made) {
                (Some(peer), made) => peer.take_bulk(order, made),
                (None, made) => made.ok(),
            };
            if let Some(link) = unused {
                link.close(LinkError::Lost { nid, reason: "not needed".to_owned() });
            }
        };
        self.links.shared.env.tasks.spawn("open a bulk link", Box::pin(open));
    }

    /// Puts a new link into service; returns one that came too late, or from another process.
    fn take_bulk(&self, order: Order, made: Result<Arc<Link>, LinkError>) -> Option<Arc<Link>> {
        let now = self.links.shared.env.clock.now();
        let other = |nid| LinkError::Protocol {
            nid,
            reason: format!("another process than that of {} answers here", self.nid()),
        };
        let same = |link: &Arc<Link>| {
            let owner = match (link.principal(), self.control.principal()) {
                (Some(one), Some(other)) => one.is_same_owner(other),
                (one, other) => one.is_none() && other.is_none(),
            };
            owner && link.process() == self.process()
        };
        let mut bulk = self.bulk.lock();
        let (unused, error) = match made {
            Ok(link) if !link.is_open() => (Some(link), None),
            Ok(link) if !same(&link) => {
                let error = other(link.nid());
                (Some(link), Some(error))
            }
            Ok(link) => return bulk.made(order, link).err(),
            Err(error) => (None, Some(error)),
        };
        let news = bulk.not_made(order, now);
        drop(bulk);
        if let Some(error) = error.filter(|_| news) {
            tracing::warn!(nid = %self.nid(), at = %order.path.to, %error, "no further bulk link");
        }
        unused
    }

    /// A bulk link ended. Unless it was of no use any more, its path failed; without another one
    /// the peer is lost with it.
    fn lost_bulk(&self, order: Order, why: &LinkError) {
        let now = self.links.shared.env.clock.now();
        let ended = self.bulk.lock().ended(order, now);
        match ended {
            Ended::Nothing => {}
            Ended::Path => {
                tracing::info!(nid = %self.nid(), at = %order.path.to, %why, "other paths go on");
            }
            Ended::Peer => self.close(why),
        }
    }
}

/// Over the first path that answers.
async fn control_link(
    links: &Arc<Links>,
    nid: Nid,
    end: &Arc<Mutex<Weak<Peer>>>,
) -> Result<Arc<Link>, LinkError> {
    let shared = &links.shared;
    let pairing = shared.secret.pairing(nid);
    let mut paths = shared.nets.paths(nid, &[]).into_iter().peekable();
    loop {
        let Some(path) = paths.next() else { return Err(no_way(nid)) };
        let call = Call { path, purpose: Purpose::Control, pairing };
        let made = links.open(call, close_of(end.clone()));
        let Some(next) = paths.peek() else { return made.await };
        match within(links, PATIENCE, nid, made).await {
            // What it says, it says over each path.
            Err(error @ (LinkError::Connect { .. } | LinkError::NoAnswer { .. })) => {
                tracing::debug!(%nid, ?path, ?next, %error, "the next path");
            }
            made => return made,
        }
    }
}

async fn within<T>(
    links: &Links,
    time: Duration,
    nid: Nid,
    made: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    match select(pin!(made), links.shared.env.clock.sleep(time)).await {
        Either::Left((made, _)) => made,
        Either::Right(_) => Err(LinkError::NoAnswer { nid, seconds: time.as_secs() }),
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let nid = self.control.nid();
        self.close(&LinkError::Lost { nid, reason: "no longer needed".to_owned() });
    }
}

/// Closes the peer when one of its links ends.
fn close_of(peer: Arc<Mutex<Weak<Peer>>>) -> Box<dyn FnOnce(LinkError) + Send> {
    Box::new(move |why| {
        let peer = peer.lock().upgrade();
        if let Some(peer) = peer {
            peer.close(&why);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_the_line_the_more_links_it_may_have() {
        let links = |us| bulk_links_max(Some(Duration::from_micros(us)));
        assert_eq!([20, 999, 1000, 2500, 32_500, 210_000].map(links), [2, 2, 4, 4, 8, 16]);
        assert_eq!(bulk_links_max(None), 2);
    }
}
