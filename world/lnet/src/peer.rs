//! The client's side of a node: a control link, bulk links beside it, one window for all.
//!
//! The bulk links are made when the first large request comes. Until they stand, large requests
//! take the control link. If one of the links is lost, all are closed, and their waiting requests
//! fail: the next user makes a new peer.

use crate::error::LinkError;
use crate::link::Link;
use crate::links::Links;
use crate::payload::{Frame, Payload};
use crate::window::Window;
use env::watch;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use types::limits::{LINKS_PER_PEER, MESSAGE_BYTES_MAX};
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
}

/// A node that this process connected to.
pub struct Peer {
    links: Arc<Links>,
    me: Weak<Peer>,
    control: Arc<Link>,
    bulk: Mutex<Bulk>,
    turn: AtomicUsize,
    window: Window,
    closed: watch::Sender<bool>,
}

enum Bulk {
    /// Not needed so far, or could not be made.
    Absent,
    Opening,
    Open(Vec<Arc<Link>>),
    Closed,
}

impl Peer {
    pub(crate) async fn connect(links: Arc<Links>, nid: Nid) -> Result<Arc<Peer>, LinkError> {
        let end = Arc::new(Mutex::new(Weak::<Peer>::new()));
        let control = links.open(nid, Purpose::Control, close_of(end.clone())).await?;
        let peer = Arc::new_cyclic(|me| Peer {
            links,
            me: me.clone(),
            control,
            bulk: Mutex::new(Bulk::Absent),
            turn: AtomicUsize::new(0),
            window: Window::new(),
            closed: watch::Sender::new(false),
        });
        *end.lock() = Arc::downgrade(&peer);
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
        let _room = if ask.outside_window { None } else { Some(self.window.enter(if large { data } else { 0 }).await) };
        let link = if large { self.bulk_link() } else { self.control.clone() };
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
        let bulk = std::mem::replace(&mut *self.bulk.lock(), Bulk::Closed);
        if let Bulk::Open(links) = bulk {
            links.iter().for_each(|link| link.close(why.clone()));
        }
        self.control.close(why.clone());
        self.closed.send_replace(true);
    }

    fn bulk_link(&self) -> Arc<Link> {
        let mut bulk = self.bulk.lock();
        match &*bulk {
            Bulk::Open(links) => links[self.turn.fetch_add(1, Ordering::Relaxed) % links.len()].clone(),
            Bulk::Absent => {
                *bulk = Bulk::Opening;
                drop(bulk);
                self.open_bulk();
                self.control.clone()
            }
            Bulk::Opening | Bulk::Closed => self.control.clone(),
        }
    }

    fn open_bulk(&self) {
        let (me, all, nid) = (self.me.clone(), self.links.clone(), self.nid());
        let open = async move {
            let mut links = Vec::with_capacity(LINKS_PER_PEER - 1);
            for _ in 1..LINKS_PER_PEER {
                let end = Arc::new(Mutex::new(me.clone()));
                match all.open(nid, Purpose::Bulk, close_of(end)).await {
                    Ok(link) => links.push(link),
                    Err(error) => {
                        tracing::warn!(%nid, %error, "no further bulk link");
                        break;
                    }
                }
            }
            let unused = match me.upgrade() {
                Some(peer) => peer.take_bulk(links),
                None => links,
            };
            let nid = nid;
            unused.iter().for_each(|link| link.close(LinkError::Lost { nid, reason: "not needed".to_owned() }));
        };
        self.links.shared.env.tasks.spawn("open bulk links", Box::pin(open));
    }

    /// Puts new links into service; returns those that came too late.
    fn take_bulk(&self, links: Vec<Arc<Link>>) -> Vec<Arc<Link>> {
        let mut bulk = self.bulk.lock();
        match *bulk {
            Bulk::Opening if links.is_empty() => *bulk = Bulk::Absent,
            Bulk::Opening if links.iter().all(|link| link.is_open()) => *bulk = Bulk::Open(links),
            _ => return links,
        }
        Vec::new()
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
