//! Changes whose answers their clients may not have seen: no other client may be told of them yet.
//!
//! After a crash, a client brings back the changes that it was told of. A change that was applied
//! but neither committed nor surely answered may be lost with the crash, because no client can
//! bring it back. So an answer that shows such a change of another client brings it along, with
//! everything it rests on that others may not have seen: then its reader can bring it back, too. If
//! that is too much, or the reader keeps nothing, the answer waits until the change is committed,
//! or until its author's next request says that it has the answer (`xid_known`).
//!
//! A client's own change counts only until its answer has been handed to the connection: answers on
//! one connection arrive in order, or not at all. The changes of one request are answered together,
//! and a client in this process ends with the MDT, so these do not count for themselves.
//!
//! That order ends with the connection. An answer that was handed to a lost connection comes again
//! over the next one, maybe after others. So a client's changes are durable before its next
//! connection is answered. A change that is applied later for a request of an earlier connection
//! counts until it is durable or known.
//!
//! Owner: the MDT's state. Bound: the changes that are not committed. Empty as long as all clients
//! are in this process, because they end with the MDT.

use bytes::Bytes;
use foldhash::HashMap;
use observe::mutant::{Mutant, is_mutant};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::fid::Fid;
use types::limits::{REDO_OF_OTHERS_BYTES_MAX, REDO_OF_OTHERS_MAX};
use types::session::{ClientUuid, Transno, Xid};
use wire::message::Redo;

/// A change that was applied.
pub struct Applied {
    /// Number of the change.
    pub transno: Transno,
    /// Its author. The MDT's own changes have no client and are seen when they are durable.
    pub client: ClientUuid,
    /// The request; `None`: its client is in this process.
    pub xid: Option<Xid>,
    /// Redo of the change; `None`: no client keeps it.
    pub redo: Option<Bytes>,
    /// Changes that its operation looked at and that concern its author.
    pub rests_on: SmallVec<[Transno; 4]>,
}

struct Change {
    client: ClientUuid,
    xid: Xid,
    /// Its answer is not on its way yet.
    held: bool,
    redo: Option<Bytes>,
    /// Changes that must come before it, among them the previous one of the same client.
    rests_on: SmallVec<[Transno; 4]>,
}

/// See the module.
#[derive(Default)]
pub struct VolatileChanges {
    /// A client came over the network.
    watched: bool,
    changes: BTreeMap<Transno, Change>,
    by_client: HashMap<ClientUuid, BTreeMap<Xid, BTreeSet<Transno>>>,
    /// Number of connections that each client made.
    connections: HashMap<ClientUuid, u64>,
    /// The change that destroyed an inode, as long as it is not durable: nothing else is left to
    /// show it.
    destroyed: HashMap<Fid, Transno>,
    /// The same, oldest first.
    destroyed_in: VecDeque<(Transno, Fid)>,
}

impl VolatileChanges {
    /// From now on changes are watched.
    pub fn watch(&mut self) {
        self.watched = true;
    }

    /// A change was applied.
    pub fn applied(&mut self, applied: Applied, last_committed: Transno) {
        self.committed(last_committed);
        let Applied { transno, client, xid, redo, mut rests_on } = applied;
        if self.watched && transno > last_committed {
            let (held, xid) = (xid.is_some(), xid.unwrap_or(Xid(0)));
            let xids = self.by_client.entry(client).or_default();
            rests_on.extend(newest(xids));
            self.changes.insert(transno, Change { client, xid, held, redo, rests_on });
            xids.entry(xid).or_default().insert(transno);
        }
    }

    /// The present change destroys an inode.
    pub fn destroys(&mut self, transno: Transno, fid: Fid) {
        if self.watched {
            self.destroyed.insert(fid, transno);
            self.destroyed_in.push_back((transno, fid));
        }
    }

    /// The change that destroyed this inode; `None`: that is durable, or it never was.
    pub fn destroyed_by(&self, fid: Fid) -> Option<Transno> {
        self.destroyed.get(&fid).copied()
    }

    /// A client connected, or did so again.
    pub fn connected(&mut self, client: ClientUuid) {
        *self.connections.entry(client).or_default() += 1;
    }

    /// Number of a client's newest connection.
    pub fn connection(&self, client: ClientUuid) -> u64 {
        self.connections.get(&client).copied().unwrap_or_default()
    }

    /// A session is over.
    pub fn gone(&mut self, client: ClientUuid) {
        self.connections.remove(&client);
    }

    /// The newest change of this client in the table; 0: none.
    pub fn newest(&self, client: ClientUuid) -> Transno {
        self.by_client.get(&client).and_then(newest).unwrap_or_default()
    }

    /// The answer of this request is on its way, over this connection; `true`: a waiting answer may
    /// depend on it.
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

    /// A client has the answers of all its requests below this one; `true`: a waiting answer may
    /// depend on it.
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
                transnos.remove(&transno);
                if transnos.is_empty() {
                    xids.remove(&xid);
                }
            }
            if xids.is_empty() {
                self.by_client.remove(&client);
            }
        }
    }

    /// True if the answer to this request, which shows this change, must wait.
    pub fn concerns(&self, transno: Transno, (client, xid): (ClientUuid, Xid)) -> bool {
        let concerns = |change: &Change| change.client != client || change.held && change.xid != xid;
        self.changes.get(&transno).is_some_and(concerns)
    }

    /// The changes that the client must keep if it is told of these: all of them that concern it
    /// and what they rest on, oldest first. `None`: it is too much, or no client can bring it back.
    pub fn to_keep(&self, depends: &[Transno], asks: (ClientUuid, Xid)) -> Option<Vec<Redo>> {
        let mut all = BTreeMap::new();
        let mut bytes = 0;
        let mut next: BTreeSet<Transno> = depends.iter().copied().collect();
        while let Some(transno) = next.pop_last() {
            if !self.concerns(transno, asks) {
                continue;
            }
            let Change { redo, rests_on, .. } = self.changes.get(&transno)?;
            let redo = redo.clone()?;
            bytes += redo.len();
            all.insert(transno, redo);
            if all.len() > REDO_OF_OTHERS_MAX || bytes > REDO_OF_OTHERS_BYTES_MAX {
                return None;
            }
            if !is_mutant(Mutant::RedoAlone) {
                next.extend(rests_on);
            }
        }
        Some(all.into_iter().map(|(transno, bytes)| Redo { transno, bytes }).collect())
    }

    /// True if no answer has to wait, whatever it shows.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// The newest of a client's changes; a later request may have been applied before an earlier one.
fn newest(xids: &BTreeMap<Xid, BTreeSet<Transno>>) -> Option<Transno> {
    xids.values().filter_map(|transnos| transnos.last().copied()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientUuid = ClientUuid(1);
    const B: ClientUuid = ClientUuid(2);
    /// The next request of each.
    const A_NEXT: (ClientUuid, Xid) = (A, Xid(52));
    const B_NEXT: (ClientUuid, Xid) = (B, Xid(71));

    fn change(transno: u64, client: ClientUuid, xid: Option<u64>, rests_on: &[u64]) -> Applied {
        let redo = xid.map(|_| Bytes::from(format!("change {transno}")));
        let rests_on = rests_on.iter().map(|on| Transno(*on)).collect();
        Applied { transno: Transno(transno), client, xid: xid.map(Xid), redo, rests_on }
    }

    fn volatile_changes() -> VolatileChanges {
        let mut volatile_changes = VolatileChanges::default();
        volatile_changes.watch();
        volatile_changes.applied(change(5, A, Some(50), &[]), Transno(4));
        volatile_changes.applied(change(6, A, Some(50), &[]), Transno(4));
        volatile_changes.applied(change(7, B, Some(70), &[]), Transno(4));
        volatile_changes
    }

    fn kept(volatile_changes: &VolatileChanges, depends: &[u64], asks: (ClientUuid, Xid)) -> Option<Vec<u64>> {
        let depends: Vec<Transno> = depends.iter().map(|on| Transno(*on)).collect();
        let redo = volatile_changes.to_keep(&depends, asks)?;
        assert!(redo.iter().all(|redo| redo.bytes == format!("change {}", redo.transno.0)));
        Some(redo.iter().map(|redo| redo.transno.0).collect())
    }

    #[test]
    fn an_own_change_counts_until_its_answer_is_sent_anothers_until_it_is_known() {
        let mut volatile_changes = volatile_changes();
        assert!(volatile_changes.concerns(Transno(5), A_NEXT) && volatile_changes.concerns(Transno(5), B_NEXT));
        assert!(volatile_changes.sent(A, Xid(50), 0) && !volatile_changes.sent(A, Xid(51), 0));
        assert!(!volatile_changes.concerns(Transno(6), A_NEXT) && volatile_changes.concerns(Transno(6), B_NEXT));
        assert!(!volatile_changes.known(A, Xid(50)), "below, not up to");
        assert!(volatile_changes.known(A, Xid(51)) && !volatile_changes.known(A, Xid(52)));
        assert!(!volatile_changes.concerns(Transno(5), B_NEXT) && !volatile_changes.concerns(Transno(6), B_NEXT));
        assert!(volatile_changes.concerns(Transno(7), A_NEXT));
    }

    #[test]
    fn who_is_told_of_a_change_keeps_it_and_what_it_rests_on() {
        let (mut volatile_changes, c_next) = (volatile_changes(), (ClientUuid(3), Xid(9)));
        assert_eq!(kept(&volatile_changes, &[6], c_next), Some(vec![5, 6]), "its author made another before it");
        assert_eq!(kept(&volatile_changes, &[7, 4], c_next), Some(vec![7]));
        volatile_changes.applied(change(8, B, Some(71), &[6]), Transno(4));
        assert_eq!(kept(&volatile_changes, &[8], c_next), Some(vec![5, 6, 7, 8]));
        assert_eq!(kept(&volatile_changes, &[8], (A, Xid(50))), Some(vec![7, 8]), "answered together with its own");
        volatile_changes.sent(A, Xid(50), 0);
        assert_eq!(kept(&volatile_changes, &[8], A_NEXT), Some(vec![7, 8]), "its own are on their way");
        volatile_changes.known(B, Xid(71));
        assert_eq!(kept(&volatile_changes, &[8], A_NEXT), Some(vec![8]), "B brings the rest");
        volatile_changes.committed(Transno(8));
        assert_eq!(kept(&volatile_changes, &[8], c_next), Some(vec![]));
    }

    #[test]
    fn what_nobody_can_bring_back_and_what_is_too_much_is_waited_for() {
        let mut volatile_changes = volatile_changes();
        volatile_changes.applied(change(8, ClientUuid(3), None, &[7]), Transno(4));
        volatile_changes.applied(change(9, B, Some(71), &[8]), Transno(4));
        assert_eq!(kept(&volatile_changes, &[9], A_NEXT), None);
        for n in 0..=REDO_OF_OTHERS_MAX as u64 {
            let rests_on: &[u64] = if n == 0 { &[] } else { &[9 + n] };
            volatile_changes.applied(change(10 + n, ClientUuid(100 + u128::from(n)), Some(1), rests_on), Transno(4));
        }
        let newest = 10 + REDO_OF_OTHERS_MAX as u64;
        assert_eq!(kept(&volatile_changes, &[newest - 1], B_NEXT).map(|all| all.len()), Some(REDO_OF_OTHERS_MAX));
        assert_eq!(kept(&volatile_changes, &[newest], B_NEXT), None);
        let large =
            Applied { redo: Some(vec![0; REDO_OF_OTHERS_BYTES_MAX + 1].into()), ..change(99, B, Some(72), &[]) };
        volatile_changes.applied(large, Transno(98));
        assert_eq!(volatile_changes.to_keep(&[Transno(99)], A_NEXT), None);
    }

    #[test]
    fn an_answer_that_was_handed_to_an_earlier_connection_may_not_have_come() {
        let mut volatile_changes = volatile_changes();
        volatile_changes.connected(A);
        assert_eq!((volatile_changes.newest(A), volatile_changes.newest(ClientUuid(3))), (Transno(6), Transno(0)));
        assert!(!volatile_changes.sent(A, Xid(50), 0));
        assert!(volatile_changes.concerns(Transno(6), A_NEXT));
        assert!(volatile_changes.sent(A, Xid(50), volatile_changes.connection(A)));
        assert!(!volatile_changes.concerns(Transno(6), A_NEXT));
        volatile_changes.gone(A);
        assert_eq!(volatile_changes.connection(A), 0);
    }

    #[test]
    fn what_is_answered_together_and_what_ends_together_does_not_wait_for_itself() {
        let mut volatile_changes = volatile_changes();
        assert!(!volatile_changes.concerns(Transno(5), (A, Xid(50))), "another part of the same request");
        assert!(
            volatile_changes.concerns(Transno(5), (A, Xid(51))) && volatile_changes.concerns(Transno(5), (B, Xid(50)))
        );
        volatile_changes.applied(change(8, B, None, &[]), Transno(4));
        assert!(!volatile_changes.concerns(Transno(8), B_NEXT), "it ends with this process");
        assert!(volatile_changes.concerns(Transno(8), A_NEXT));
    }

    #[test]
    fn what_is_durable_concerns_nobody() {
        let mut volatile_changes = volatile_changes();
        volatile_changes.committed(Transno(5));
        assert!(!volatile_changes.concerns(Transno(5), B_NEXT) && volatile_changes.concerns(Transno(6), B_NEXT));
        volatile_changes.committed(Transno(9));
        assert!(volatile_changes.is_empty() && volatile_changes.by_client.is_empty());
        assert!(!volatile_changes.known(A, Xid(99)));
    }

    #[test]
    fn who_destroyed_an_inode_is_known_until_that_is_durable() {
        let (mut volatile_changes, fid) = (volatile_changes(), Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 });
        assert_eq!(volatile_changes.destroyed_by(fid), None);
        volatile_changes.destroys(Transno(8), fid);
        volatile_changes.applied(change(8, A, Some(51), &[]), Transno(4));
        assert!(volatile_changes.destroyed_by(fid).is_some_and(|by| volatile_changes.concerns(by, B_NEXT)));
        volatile_changes.committed(Transno(7));
        assert_eq!(volatile_changes.destroyed_by(fid), Some(Transno(8)));
        volatile_changes.committed(Transno(8));
        assert_eq!((volatile_changes.destroyed_by(fid), volatile_changes.destroyed_in.len()), (None, 0));
    }

    #[test]
    fn without_clients_on_the_network_nothing_is_watched() {
        let mut volatile_changes = VolatileChanges::default();
        volatile_changes.applied(change(5, A, Some(50), &[]), Transno(4));
        assert!(volatile_changes.is_empty());
        volatile_changes.watch();
        volatile_changes.applied(change(6, A, Some(50), &[]), Transno(6));
        assert!(volatile_changes.is_empty(), "durable already");
    }
}
