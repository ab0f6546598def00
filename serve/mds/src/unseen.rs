//! Changes whose answers their clients may not have seen: nobody else may be told of them yet.
//!
//! A client brings back, after a crash, the changes that it was told of. A change that was applied but neither
//! committed nor answered for certain may be lost with the crash, for nobody can bring it back. So an answer that shows
//! such a change of another client waits until the change is committed, or until its author's next request says that it
//! has the answer (`xid_known`); mostly that is a matter of microseconds. An own change counts only until its answer has
//! been handed to the connection: answers on one connection arrive in order, or not at all. What one request changed is answered
//! together, and a client in this process ends with the MDT: these do not count for themselves.
//!
//! That order ends with the connection: an answer that was handed to one that was lost comes again over the next, maybe behind
//! others. So what a client changed is durable before its next connection is answered, and what is applied later for a request
//! of an earlier connection counts until it is durable or known.
//!
//! Owner: the MDT's state. Bound: the changes that are not committed. Empty as long as all clients are in this process,
//! for they end with the MDT.

use foldhash::HashMap;
use std::collections::{BTreeMap, VecDeque};
use types::fid::Fid;
use types::session::{ClientUuid, Transno, Xid};

struct Change {
    client: ClientUuid,
    xid: Xid,
    /// Its answer is not on its way yet.
    held: bool,
}

/// See the module.
#[derive(Default)]
pub struct Unseen {
    /// A client came over the network.
    watched: bool,
    changes: BTreeMap<Transno, Change>,
    by_client: HashMap<ClientUuid, BTreeMap<Xid, Vec<Transno>>>,
    /// How often each client connected.
    connections: HashMap<ClientUuid, u64>,
    /// Which change destroyed an inode, as long as it is not durable: nothing else is left to show it.
    destroyed: HashMap<Fid, Transno>,
    /// The same, oldest first.
    destroyed_in: VecDeque<(Transno, Fid)>,
}

impl Unseen {
    /// From now on changes are watched.
    pub fn watch(&mut self) {
        self.watched = true;
    }

    /// A change was applied for this request; `None`: of a client in this process. The MDT's own changes have no client and are seen when they
    /// are durable.
    pub fn applied(&mut self, transno: Transno, client: ClientUuid, xid: Option<Xid>, last_committed: Transno) {
        self.committed(last_committed);
        if self.watched && transno > last_committed {
            let (held, xid) = (xid.is_some(), xid.unwrap_or(Xid(0)));
            self.changes.insert(transno, Change { client, xid, held });
            self.by_client.entry(client).or_default().entry(xid).or_default().push(transno);
        }
    }

    /// The change that is being made destroys an inode.
    pub fn destroys(&mut self, transno: Transno, fid: Fid) {
        if self.watched {
            self.destroyed.insert(fid, transno);
            self.destroyed_in.push_back((transno, fid));
        }
    }

    /// Which change destroyed this inode; `None`: that is durable, or it never was.
    pub fn destroyed_by(&self, fid: Fid) -> Option<Transno> {
        self.destroyed.get(&fid).copied()
    }

    /// A client connected, or did so again.
    pub fn connected(&mut self, client: ClientUuid) {
        *self.connections.entry(client).or_default() += 1;
    }

    /// Which connection of a client is its newest.
    pub fn connection(&self, client: ClientUuid) -> u64 {
        self.connections.get(&client).copied().unwrap_or_default()
    }

    /// A session is over.
    pub fn gone(&mut self, client: ClientUuid) {
        self.connections.remove(&client);
    }

    /// The newest change of a client that is here; 0: none is.
    pub fn newest(&self, client: ClientUuid) -> Transno {
        let all = self.by_client.get(&client).into_iter().flat_map(|xids| xids.values().flatten());
        all.max().copied().unwrap_or_default()
    }

    /// The answer of this request is on its way, over this connection; `true`: that may matter to somebody.
    pub fn sent(&mut self, client: ClientUuid, xid: Xid, connection: u64) -> bool {
        if connection != self.connection(client) {
            return false;
        }
        let Some(transnos) = self.by_client.get(&client).and_then(|xids| xids.get(&xid)) else { return false };
        for transno in transnos {
            if let Some(change) = self.changes.get_mut(transno) {
                change.held = false;
            }
        }
        true
    }

    /// A client has the answers of all its requests below this one; `true`: that may matter to somebody.
    pub fn known(&mut self, client: ClientUuid, known: Xid) -> bool {
        let Some(xids) = self.by_client.get_mut(&client) else { return false };
        let mut any = false;
        while let Some(first) = xids.first_entry().filter(|first| *first.key() < known) {
            for transno in first.remove() {
                self.changes.remove(&transno);
            }
            any = true;
        }
        if xids.is_empty() {
            self.by_client.remove(&client);
        }
        any
    }

    /// Everything up to here is durable.
    pub fn committed(&mut self, transno: Transno) {
        while let Some((_, fid)) = self.destroyed_in.front().filter(|(by, _)| *by <= transno) {
            self.destroyed.remove(fid);
            self.destroyed_in.pop_front();
        }
        while let Some(first) = self.changes.first_entry().filter(|first| *first.key() <= transno) {
            let (transno, Change { client, xid, .. }) = first.remove_entry();
            let Some(xids) = self.by_client.get_mut(&client) else { continue };
            if let Some(transnos) = xids.get_mut(&xid) {
                transnos.retain(|other| *other != transno);
                if transnos.is_empty() {
                    xids.remove(&xid);
                }
            }
            if xids.is_empty() {
                self.by_client.remove(&client);
            }
        }
    }

    /// Must the answer to this request of a client that shows this change wait?
    pub fn concerns(&self, transno: Transno, (client, xid): (ClientUuid, Xid)) -> bool {
        let concerns = |change: &Change| change.client != client || change.held && change.xid != xid;
        self.changes.get(&transno).is_some_and(concerns)
    }

    /// Nothing to wait for, whatever is shown?
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientUuid = ClientUuid(1);
    const B: ClientUuid = ClientUuid(2);
    /// The next request of each.
    const A_NEXT: (ClientUuid, Xid) = (A, Xid(52));
    const B_NEXT: (ClientUuid, Xid) = (B, Xid(71));

    fn unseen() -> Unseen {
        let mut unseen = Unseen::default();
        unseen.watch();
        unseen.applied(Transno(5), A, Some(Xid(50)), Transno(4));
        unseen.applied(Transno(6), A, Some(Xid(50)), Transno(4));
        unseen.applied(Transno(7), B, Some(Xid(70)), Transno(4));
        unseen
    }

    #[test]
    fn an_own_change_counts_until_its_answer_is_sent_anothers_until_it_is_known() {
        let mut unseen = unseen();
        assert!(unseen.concerns(Transno(5), A_NEXT) && unseen.concerns(Transno(5), B_NEXT));
        assert!(unseen.sent(A, Xid(50), 0) && !unseen.sent(A, Xid(51), 0));
        assert!(!unseen.concerns(Transno(6), A_NEXT) && unseen.concerns(Transno(6), B_NEXT));
        assert!(!unseen.known(A, Xid(50)), "below, not up to");
        assert!(unseen.known(A, Xid(51)) && !unseen.known(A, Xid(52)));
        assert!(!unseen.concerns(Transno(5), B_NEXT) && !unseen.concerns(Transno(6), B_NEXT));
        assert!(unseen.concerns(Transno(7), A_NEXT));
    }

    #[test]
    fn an_answer_that_was_handed_to_an_earlier_connection_may_not_have_come() {
        let mut unseen = unseen();
        unseen.connected(A);
        assert_eq!((unseen.newest(A), unseen.newest(ClientUuid(3))), (Transno(6), Transno(0)));
        assert!(!unseen.sent(A, Xid(50), 0));
        assert!(unseen.concerns(Transno(6), A_NEXT));
        assert!(unseen.sent(A, Xid(50), unseen.connection(A)));
        assert!(!unseen.concerns(Transno(6), A_NEXT));
        unseen.gone(A);
        assert_eq!(unseen.connection(A), 0);
    }

    #[test]
    fn what_is_answered_together_and_what_ends_together_does_not_wait_for_itself() {
        let mut unseen = unseen();
        assert!(!unseen.concerns(Transno(5), (A, Xid(50))), "another part of the same request");
        assert!(unseen.concerns(Transno(5), (A, Xid(51))) && unseen.concerns(Transno(5), (B, Xid(50))));
        unseen.applied(Transno(8), B, None, Transno(4));
        assert!(!unseen.concerns(Transno(8), B_NEXT), "it ends with this process");
        assert!(unseen.concerns(Transno(8), A_NEXT));
    }

    #[test]
    fn what_is_durable_concerns_nobody() {
        let mut unseen = unseen();
        unseen.committed(Transno(5));
        assert!(!unseen.concerns(Transno(5), B_NEXT) && unseen.concerns(Transno(6), B_NEXT));
        unseen.committed(Transno(9));
        assert!(unseen.is_empty() && unseen.by_client.is_empty());
        assert!(!unseen.known(A, Xid(99)));
    }

    #[test]
    fn who_destroyed_an_inode_is_known_until_that_is_durable() {
        let (mut unseen, fid) = (unseen(), Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 });
        assert_eq!(unseen.destroyed_by(fid), None);
        unseen.destroys(Transno(8), fid);
        unseen.applied(Transno(8), A, Some(Xid(51)), Transno(4));
        assert!(unseen.destroyed_by(fid).is_some_and(|by| unseen.concerns(by, B_NEXT)));
        unseen.committed(Transno(7));
        assert_eq!(unseen.destroyed_by(fid), Some(Transno(8)));
        unseen.committed(Transno(8));
        assert_eq!((unseen.destroyed_by(fid), unseen.destroyed_in.len()), (None, 0));
    }

    #[test]
    fn without_clients_on_the_network_nothing_is_watched() {
        let mut unseen = Unseen::default();
        unseen.applied(Transno(5), A, Some(Xid(50)), Transno(4));
        assert!(unseen.is_empty());
        unseen.watch();
        unseen.applied(Transno(6), A, Some(Xid(50)), Transno(6));
        assert!(unseen.is_empty(), "durable already");
    }
}
