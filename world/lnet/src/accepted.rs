//! Accepted connections: those without a session are few and do not last, and those of one process
//! are few.
//!
//! Connections whose greetings show the same pairing number are a *group*. When one of them gets a
//! session, all have one, as long as one of them lives. Where a bound is reached, the oldest
//! connection is closed, not the new one. A client gets its session within milliseconds, so idle
//! connections without a session cannot keep it out.

use crate::error::LinkError;
use crate::link::Link;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use tokio::sync::oneshot;
use types::limits::{
    LINKS_ACCEPTED_MAX, LINKS_BEFORE_SESSION_MAX, LINKS_BEFORE_SESSION_PER_ADDRESS_MAX,
    LINKS_PER_PROCESS_MAX,
};
use types::nid::Nid;
use types::session::Pairing;

/// All accepted connections of a process.
pub(crate) struct Accepted {
    /// Connections that are accepted at once.
    max: AtomicUsize,
    strangers: Mutex<Strangers>,
    groups: Mutex<BTreeMap<Pairing, Weak<Group>>>,
}

/// Connections without a session.
#[derive(Default)]
struct Strangers {
    next: u64,
    /// In the order of their arrival.
    all: VecDeque<Stranger>,
}

struct Stranger {
    number: u64,
    address: IpAddr,
    end: End,
}

/// How a connection is ended.
enum End {
    /// Its greeting is under way: it ends when this is dropped.
    Greeting {
        _until: oneshot::Sender<()>,
    },
    Link(Weak<Link>),
}

/// A place among the connections without a session; given back when dropped.
pub(crate) struct Place {
    accepted: Arc<Accepted>,
    number: u64,
}

/// Connections of one process.
#[derive(Default)]
pub(crate) struct Group {
    has_session: AtomicBool,
    links: Mutex<VecDeque<Weak<Link>>>,
}

impl Default for Accepted {
    fn default() -> Accepted {
        Accepted {
            max: AtomicUsize::new(LINKS_ACCEPTED_MAX),
            strangers: Mutex::default(),
            groups: Mutex::default(),
        }
    }
}

impl Accepted {
    /// Connections that are accepted at once.
    pub(crate) fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// Sets that, below LINKS_ACCEPTED_MAX.
    pub(crate) fn allow(&self, links: usize) {
        self.max.store(links.min(LINKS_ACCEPTED_MAX), Ordering::Relaxed);
    }

    /// A connection came. The receiver ends when its place is taken by a later one before it was
    /// greeted.
    pub(crate) fn arrive(self: &Arc<Self>, address: IpAddr) -> (Place, oneshot::Receiver<()>) {
        let (until, ended) = oneshot::channel();
        let mut strangers = self.strangers.lock();
        let Strangers { next, all } = &mut *strangers;
        *next += 1;
        let number = *next;
        let same = all.iter().filter(|other| other.address == address).count();
        let oldest = if same >= LINKS_BEFORE_SESSION_PER_ADDRESS_MAX {
            all.iter().position(|other| other.address == address)
        } else {
            (all.len() >= LINKS_BEFORE_SESSION_MAX).then_some(0)
        };
        let oldest = oldest.and_then(|at| all.remove(at));
        all.push_back(Stranger { number, address, end: End::Greeting { _until: until } });
        drop(strangers);
        if let Some(Stranger { end: End::Link(link), .. }) = oldest
            && let Some(link) = link.upgrade()
        {
            let reason = "too many connections have no session".to_owned();
            link.close(LinkError::Protocol { nid: link.nid(), reason });
        }
        (Place { accepted: self.clone(), number }, ended)
    }

    /// The connections that show this pairing number; a connection that shows none is alone.
    pub(crate) fn group(&self, pairing: Pairing) -> Arc<Group> {
        if pairing == Pairing(0) {
            return Arc::default();
        }
        let mut groups = self.groups.lock();
        if let Some(group) = groups.get(&pairing).and_then(Weak::upgrade) {
            return group;
        }
        groups.retain(|_, group| group.strong_count() > 0);
        let group = Arc::<Group>::default();
        groups.insert(pairing, Arc::downgrade(&group));
        group
    }
}

impl Place {
    /// The greeting is over.
    pub(crate) fn is_of(&self, link: &Arc<Link>) {
        let mut strangers = self.accepted.strangers.lock();
        match strangers.all.iter_mut().find(|stranger| stranger.number == self.number) {
            Some(stranger) => stranger.end = End::Link(Arc::downgrade(link)),
            // Its place was just taken from it.
            None => {
                let reason = "too many connections have no session".to_owned();
                link.close(LinkError::Protocol { nid: link.nid(), reason });
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.accepted.strangers.lock().all.retain(|stranger| stranger.number != self.number);
    }
}

impl Group {
    /// True if one of its connections has a session.
    pub(crate) fn has_session(&self) -> bool {
        self.has_session.load(Ordering::Acquire)
    }

    /// One of its connections got a session.
    pub(crate) fn get_session(&self) {
        if !self.has_session.swap(true, Ordering::AcqRel) {
            self.links.lock().iter().filter_map(Weak::upgrade).for_each(|link| link.leave_place());
        }
    }

    /// Adds a connection. The oldest one beyond the bound is closed.
    pub(crate) fn join(&self, link: &Arc<Link>) {
        let oldest = {
            let mut links = self.links.lock();
            links.retain(|link| link.upgrade().is_some_and(|link| link.is_open()));
            links.push_back(Arc::downgrade(link));
            if links.len() > LINKS_PER_PROCESS_MAX {
                links.pop_front().and_then(|link| link.upgrade())
            } else {
                None
            }
        };
        // A session that came since the greeting found the link listed, or is seen here.
        if self.has_session() {
            link.leave_place();
        }
        if let Some(link) = oldest {
            let reason = format!("its process has more than {LINKS_PER_PROCESS_MAX} connections");
            link.close(LinkError::Protocol { nid: link.nid(), reason });
        }
    }
}

/// The address of a peer on the network.
pub(crate) fn address_of(nid: Nid) -> IpAddr {
    nid.address()
        .map_or(std::net::Ipv4Addr::LOCALHOST.into(), |address| address.ip().to_canonical())
}
