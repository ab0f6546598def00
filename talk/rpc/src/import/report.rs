//! The state of a session, for people.

use crate::import::{Import, ImportState, Session};
use lnet::seal::Protection;
use std::sync::Arc;
use types::nid::Nid;
use types::principal::Principal;

/// State of a session at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportReport {
    /// State of the session.
    pub state: ImportState,
    /// NIDs at which the target may be found.
    pub nids: Vec<Nid>,
    /// NID at which it was found; `None`: there is no session.
    pub current: Option<Nid>,
    /// Whose key that peer showed, how the connections are sealed, and how many stand; `None`: they
    /// are plain, or there are none.
    pub sealed: Option<(Arc<Principal>, Protection, usize)>,
    /// Requests that may be in flight to that peer now; `None`: there is no network between.
    pub window: Option<usize>,
    /// Attempts to connect over the network so far.
    pub attempts: u64,
    /// Boot number of the target at the newest session; 0 = never connected.
    pub boot: u64,
    /// How often the target forgot this client without a restart.
    pub evictions: u64,
    /// Requests without an answer.
    pub in_flight: usize,
    /// Those of them that read data.
    pub reads_in_flight: usize,
    /// Those of them that write data.
    pub writes_in_flight: usize,
    /// Those of them that change something else.
    pub changes_in_flight: usize,
    /// Requests that were not answered in time.
    pub timeouts: u64,
}

impl Import {
    /// State of the session, for people.
    pub fn report(&self) -> ImportReport {
        let link = self.link.lock();
        let (current, window, sealed) = match &link.session {
            Some(Session::Local(_)) => (Some(Nid::Loopback), None, None),
            Some(Session::Remote(remote)) => {
                let peer = &remote.peer;
                let links = 1 + peer.bulk_links();
                let sealed = peer.sealed().map(|(owner, how)| (owner, how, links));
                (Some(peer.nid()), Some(peer.window()), sealed)
            }
            None => (None, None, None),
        };
        let [in_flight, reads_in_flight, writes_in_flight, changes_in_flight] =
            self.stats.in_flight();
        ImportReport {
            state: link.machine.state(),
            nids: link.nids.clone(),
            current,
            sealed,
            window,
            attempts: *self.attempts.borrow(),
            boot: link.machine.boot(),
            evictions: self.evictions(),
            in_flight,
            reads_in_flight,
            writes_in_flight,
            changes_in_flight,
            timeouts: self.stats.timeouts(),
        }
    }
}
