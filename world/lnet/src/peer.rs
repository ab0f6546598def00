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
//! If one of the links is lost, all are closed, and their waiting requests fail: the next user
//! makes a new peer.

use crate::error::LinkError;
use crate::link::Link;
use crate::links::Links;
use crate::payload::{Frame, Payload};
use crate::window::Window;
use env::clock::Monotonic;
use env::net::LONG_LINE;
use env::watch;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use types::limits::{LINKS_PER_PEER, LINKS_PER_PEER_MAX, MESSAGE_BYTES_MAX};
use types::nid::Nid;
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

/// Bulk links that every peer has once there is need for one.
const BULK_LINKS_MIN: usize = LINKS_PER_PEER - 1;
/// Data on its way for which a long line has one more bulk link.
const BYTES_PER_LINK: usize = 4 << 20;
/// Links that were not needed for this long are closed.
const LINKS_IDLE: Duration = Duration::from_secs(60);
/// Pause after a link could not be made, before another is tried.
const LINK_PAUSE: Duration = Duration::from_secs(10);

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
    bulk: Mutex<Bulk>,
    window: Window,
    closed: watch::Sender<bool>,
}

#[derive(Default)]
struct Bulk {
    links: Vec<Arc<BulkLink>>,
    /// Links that are being made.
    opening: usize,
    /// Number of the next link.
    next: u64,
    /// No link is made before this time.
    not_before: Monotonic,
    /// When more than the first links were needed.
    needed_at: Monotonic,
    /// A task will close those that are needed no more.
    shrinking: bool,
    closed: bool,
}

struct BulkLink {
    number: u64,
    link: Arc<Link>,
    /// Data of the requests that it carries, there and back.
    bytes: AtomicUsize,
}

/// Data of a request on its link, while the request lasts.
struct Load(Arc<BulkLink>, usize);

impl Drop for Load {
    fn drop(&mut self) {
        self.0.bytes.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl Bulk {
    /// Links that are wanted for one more request with so much data, `max` at most.
    fn wanted(&self, bytes: usize, max: usize) -> usize {
        let load: usize = self.links.iter().map(|link| link.bytes.load(Ordering::Relaxed)).sum();
        (load + bytes).div_ceil(BYTES_PER_LINK).clamp(BULK_LINKS_MIN, max)
    }

    /// How many links are to be made now, if so many are wanted.
    fn missing(&self, wanted: usize, now: Monotonic) -> usize {
        match self.closed || now < self.not_before {
            true => 0,
            false => wanted.saturating_sub(self.links.len() + self.opening),
        }
    }

    /// Of the first links, as many as are wanted, the one with the least data. Others lie idle: few
    /// requests spread over many connections would find none of them at speed.
    fn lightest(&self, wanted: usize) -> Option<Arc<BulkLink>> {
        let used = &self.links[..wanted.min(self.links.len())];
        used.iter().min_by_key(|link| link.bytes.load(Ordering::Relaxed)).cloned()
    }

    /// Takes out idle links that are not needed any more.
    fn idle(&mut self, now: Monotonic) -> Vec<Arc<BulkLink>> {
        let mut idle = Vec::new();
        if now.saturating_sub(self.needed_at) < LINKS_IDLE {
            return idle;
        }
        let mut spare = self.links.len().saturating_sub(BULK_LINKS_MIN);
        self.links.retain(|link| {
            let goes = spare > 0 && link.bytes.load(Ordering::Relaxed) == 0;
            if goes {
                spare -= 1;
                idle.push(link.clone());
            }
            !goes
        });
        idle
    }
}

impl Peer {
    pub(crate) async fn connect(links: Arc<Links>, nid: Nid) -> Result<Arc<Peer>, LinkError> {
        let end = Arc::new(Mutex::new(Weak::<Peer>::new()));
        let control = links.open(nid, Purpose::Control, close_of(end.clone())).await?;
        let peer = Arc::new_cyclic(|me| Peer {
            links,
            me: me.clone(),
            control,
            bulk: Mutex::default(),
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
        self.bulk.lock().links.len()
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
        let link = load.as_ref().map_or(&self.control, |load| &load.0.link);
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
        let links = {
            let mut bulk = self.bulk.lock();
            bulk.closed = true;
            std::mem::take(&mut bulk.links)
        };
        links.iter().for_each(|bulk| bulk.link.close(why.clone()));
        self.control.close(why.clone());
        self.closed.send_replace(true);
    }

    /// A bulk link for so much data, and as many new ones as it calls for; `None`: none stands yet.
    fn bulk_link(&self, bytes: usize) -> Option<Load> {
        let mut bulk = self.bulk.lock();
        let wanted = self.open_missing(&mut bulk, bytes);
        let link = bulk.lightest(wanted)?;
        link.bytes.fetch_add(bytes, Ordering::Relaxed);
        Some(Load(link, bytes))
    }

    /// Makes the links that are wanted for one more request with so much data; their number.
    fn open_missing(&self, bulk: &mut Bulk, bytes: usize) -> usize {
        let now = self.links.shared.env.clock.now();
        let wanted = bulk.wanted(bytes, bulk_links_max(self.round_trip()));
        let missing = bulk.missing(wanted, now);
        bulk.opening += missing;
        for _ in 0..missing {
            bulk.next += 1;
            self.open_bulk(bulk.next);
        }
        if wanted > BULK_LINKS_MIN {
            bulk.needed_at = now;
            if !std::mem::replace(&mut bulk.shrinking, true) {
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
        }
        wanted
    }

    /// Closes links that are needed no more; true once there is nothing left to do.
    fn shrink(&self) -> bool {
        let (idle, done) = {
            let mut bulk = self.bulk.lock();
            let idle = bulk.idle(self.links.shared.env.clock.now());
            let done = bulk.closed || bulk.links.len() + bulk.opening <= BULK_LINKS_MIN;
            bulk.shrinking = !done;
            (idle, done)
        };
        let why = LinkError::Lost { nid: self.nid(), reason: "not needed any more".to_owned() };
        idle.iter().for_each(|bulk| bulk.link.close(why.clone()));
        done
    }

    fn open_bulk(&self, number: u64) {
        let (me, all, nid) = (self.me.clone(), self.links.clone(), self.nid());
        let open = async move {
            let ended = me.clone();
            let on_end = Box::new(move |why| {
                if let Some(peer) = ended.upgrade() {
                    peer.lost_bulk(number, &why);
                }
            });
            let made = all.open(nid, Purpose::Bulk, on_end).await;
            let unused = match (me.upgrade(), made) {
                (Some(peer), made) => peer.take_bulk(number, made),
                (None, made) => made.ok(),
            };
            if let Some(link) = unused {
                link.close(LinkError::Lost { nid, reason: "not needed".to_owned() });
            }
        };
        self.links.shared.env.tasks.spawn("open a bulk link", Box::pin(open));
    }

    /// Puts a new link into service; returns one that came too late.
    fn take_bulk(&self, number: u64, made: Result<Arc<Link>, LinkError>) -> Option<Arc<Link>> {
        let mut bulk = self.bulk.lock();
        bulk.opening -= 1;
        match made {
            Ok(link) if link.is_open() && !bulk.closed => {
                bulk.links.push(Arc::new(BulkLink { number, link, bytes: AtomicUsize::new(0) }));
                None
            }
            Ok(link) => Some(link),
            Err(error) => {
                bulk.not_before = self.links.shared.env.clock.now() + LINK_PAUSE;
                drop(bulk);
                tracing::warn!(nid = %self.nid(), %error, "no further bulk link");
                None
            }
        }
    }

    /// A bulk link ended. Unless it was of no use any more, the peer is lost with it.
    fn lost_bulk(&self, number: u64, why: &LinkError) {
        let in_use = self.bulk.lock().links.iter().any(|bulk| bulk.number == number);
        if in_use {
            self.close(why);
        }
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

    #[test]
    fn links_are_made_by_need_within_bounds() {
        let (now, mut bulk) = (Duration::from_secs(1), Bulk::default());
        assert_eq!(bulk.wanted(100 << 10, 16), 2, "the first ones");
        assert_eq!(bulk.wanted(64 << 20, 2), 2, "a short line has no more");
        assert_eq!([8 << 20, 20 << 20, 256 << 20].map(|bytes| bulk.wanted(bytes, 16)), [2, 5, 16]);
        assert_eq!(bulk.missing(5, now), 5);
        bulk.opening = 4;
        assert_eq!(bulk.missing(5, now), 1);
        bulk.not_before = 2 * now;
        assert_eq!(
            (bulk.missing(5, now), bulk.missing(5, 2 * now)),
            (0, 1),
            "one could not be made a moment ago"
        );
        bulk.closed = true;
        assert_eq!(bulk.missing(5, 2 * now), 0);
    }
}
