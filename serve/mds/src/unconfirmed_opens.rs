//! Opens of an earlier life whose answers may never have reached their clients.
//!
//! A client brings back the opens that it knows. It does not know an open whose answer was lost: it
//! will send the request again, and the kept reply names the inode. Until then that inode counts as
//! open: if it has no name, or loses it meanwhile, it stays as an orphan.
//!
//! The doubt is over when the client says that it has the answer (`xid_known`): then the inode was
//! opened again (`Mds::open_again`), or had been closed long ago. It is also over when the client's
//! session ends.
//!
//! Owner: the MDT's state. Bound: the kept replies (`slots`). Empty unless the MDT has just
//! recovered.

use foldhash::HashMap;
use std::collections::BTreeMap;
use types::fid::Fid;
use types::session::{ClientUuid, Xid};

/// See the module.
#[derive(Default)]
pub(crate) struct UnconfirmedOpens {
    clients: HashMap<ClientUuid, BTreeMap<Xid, Vec<Fid>>>,
    inodes: HashMap<Fid, u32>,
}

impl UnconfirmedOpens {
    /// This request of an earlier life opened the inode.
    pub(crate) fn add(&mut self, client: ClientUuid, xid: Xid, fid: Fid) {
        self.clients.entry(client).or_default().entry(xid).or_default().push(fid);
        *self.inodes.entry(fid).or_default() += 1;
    }

    /// True if a client may believe that it has the inode open.
    pub(crate) fn contains(&self, fid: Fid) -> bool {
        !self.inodes.is_empty() && self.inodes.contains_key(&fid)
    }

    /// A client has the answers of all its requests below `known`. Returns the inodes that no
    /// client may believe open any more.
    pub(crate) fn known(&mut self, client: ClientUuid, known: Xid) -> Vec<Fid> {
        let Some(xids) = self.clients.get_mut(&client) else { return Vec::new() };
        let later = xids.split_off(&known);
        let settled = std::mem::replace(xids, later);
        if xids.is_empty() {
            self.clients.remove(&client);
        }
        self.drop_all(settled)
    }

    /// A session ended; as [`UnconfirmedOpens::known`].
    pub(crate) fn release_client(&mut self, client: ClientUuid) -> Vec<Fid> {
        let settled = self.clients.remove(&client).unwrap_or_default();
        self.drop_all(settled)
    }

    fn drop_all(&mut self, settled: BTreeMap<Xid, Vec<Fid>>) -> Vec<Fid> {
        let mut free = Vec::new();
        for fid in settled.into_values().flatten() {
            let Some(count) = self.inodes.get_mut(&fid) else { continue };
            *count -= 1;
            if *count == 0 {
                self.inodes.remove(&fid);
                free.push(fid);
            }
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientUuid = ClientUuid(1);
    const B: ClientUuid = ClientUuid(2);
    const F: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };
    const G: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 2, ver: 0 };

    #[test]
    fn an_open_is_in_doubt_until_all_who_asked_for_it_have_their_answers() {
        let mut unconfirmed_opens = UnconfirmedOpens::default();
        unconfirmed_opens.add(A, Xid(5), F);
        unconfirmed_opens.add(A, Xid(7), G);
        unconfirmed_opens.add(B, Xid(5), F);
        assert!(unconfirmed_opens.contains(F) && unconfirmed_opens.contains(G));
        assert_eq!(unconfirmed_opens.known(A, Xid(5)), [], "below, not up to");
        assert_eq!(unconfirmed_opens.known(A, Xid(6)), [], "B may have it");
        assert!(unconfirmed_opens.contains(F));
        assert_eq!(unconfirmed_opens.release_client(B), [F]);
        assert_eq!(unconfirmed_opens.known(A, Xid(8)), [G]);
        assert!(!unconfirmed_opens.contains(F) && !unconfirmed_opens.contains(G));
        assert!(unconfirmed_opens.clients.is_empty() && unconfirmed_opens.inodes.is_empty());
    }
}
