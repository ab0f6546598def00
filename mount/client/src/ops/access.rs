//! What programs read is noted, and told to the MDTs ([`crate::accessed`]).

use crate::client::Client;
use crate::node::NodeId;
use std::sync::Weak;
use std::time::Duration;
use types::attr::AccessTimes;
use types::credentials::Credentials;
use types::fid::Fid;
use types::time::Timestamp;
use wire::mds::{Accessed, MdsOp};

/// How long accesses are collected before the MDTs are told.
const DELAY: Duration = Duration::from_millis(500);
/// Accesses in one request.
const BATCH: usize = 256;

impl Client {
    /// A program listed a directory.
    pub fn listed_node(&self, node: NodeId) {
        if !self.accesses.nodiratime {
            self.read_node(node);
        }
    }

    /// A program read a file or a symbolic link.
    pub fn read_node(&self, node: NodeId) {
        if let Some(fid) = self.nodes.fid(node) {
            self.note_access(fid);
        }
    }

    /// A program opened a file to read only. If the kernel may have its pages, this counts as an
    /// access. `true`: it does, and the kernel is to be told ([`Client::access_shown`]) before the
    /// program goes on.
    pub fn opened_to_read(&self, node: NodeId) -> bool {
        let fid = self.nodes.fid(node).filter(|fid| self.writeback.has_pages(*fid));
        fid.is_some_and(|fid| self.note_access(fid))
    }

    /// The kernel asks for attributes at their next use, and so sees an access that was noted
    /// without a request to read.
    pub async fn access_shown(&self, node: NodeId) {
        if let Some(fid) = self.nodes.fid(node) {
            self.locks.hide_attr(fid).await;
        }
    }

    /// `true`: the access time moves, as far as is known.
    fn note_access(&self, fid: Fid) -> bool {
        let times = self.accesses.times;
        if times == AccessTimes::Off || fid.is_shown_only() {
            return false;
        }
        let now = self.session.env.clock.wall();
        let at = match self.locks.attr(fid) {
            // Whether the time moves shows with the attributes.
            None => now,
            Some(entry) if entry.noatime => return false,
            Some(entry) => {
                // The clock of this host may be behind that of the host which made the change.
                let at = now.max(entry.attr.ctime.next());
                if !entry.attr.takes_access(at, times) {
                    return false;
                }
                at
            }
        };
        if self.accesses.note(fid, at) {
            self.session.env.tasks.spawn("tell access times", Box::pin(tell(self.weak())));
        }
        true
    }

    /// Tells the MDTs what is noted. `false`: nothing was.
    pub(crate) async fn tell_all_accesses(&self) -> bool {
        let all = self.accesses.all();
        for some in all.values().flat_map(|of_mdt| of_mdt.chunks(BATCH)) {
            self.tell_accesses(some).await;
            self.accesses.told(some);
        }
        !all.is_empty()
    }

    /// Tells one MDT. If it does not answer, these accesses are not recorded.
    async fn tell_accesses(&self, some: &[(Fid, Timestamp)]) {
        let Some((first, _)) = some.first() else { return };
        let ops = some.iter().map(|(fid, at)| {
            // The MDT does not know yet when this mount wrote what it has not stored.
            let strict = self.accesses.times == AccessTimes::Strict || self.writeback.is_dirty(*fid);
            MdsOp::Accessed(Accessed { fid: *fid, at: *at, strict })
        });
        let told = match self.session.mdc(*first) {
            Ok(mdc) => mdc.ask(&Credentials::root(), ops.collect()).await.map_err(|error| error.errno()),
            Err(error) => Err(error.errno()),
        };
        let results = told.map(|results| results.into_iter().find_map(Result::err));
        if let Err(errno) | Ok(Some(errno)) = results {
            tracing::debug!(%first, count = some.len(), %errno, "access times are not recorded");
        }
    }
}

/// Tells the MDTs from time to time, as long as anything is noted.
async fn tell(client: Weak<Client>) {
    loop {
        let Some(clock) = client.upgrade().map(|client| client.session.env.clock.clone()) else { return };
        clock.sleep(DELAY).await;
        let Some(client) = client.upgrade().filter(|client| !client.session.is_ending()) else { return };
        if !client.tell_all_accesses().await {
            return;
        }
    }
}
