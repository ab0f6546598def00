//! Opens of an earlier life whose answers may never have reached their clients.
//!
//! A client brings back the opens that it knows. It does not know an open whose answer was lost: it
//! will send the request again, and the kept reply names the inode. Until then that inode counts as
//! open: if it has no name, or loses it meanwhile, it stays as an orphan.
//!
//! The doubt is over when the client says that it has the answer: then the inode was opened again
//! (`Mds::open_again`), or had been closed long ago. It is also over when the client's session
//! ends.
//!
//! Bound: the kept replies. Empty unless the MDT has just recovered.

use foldhash::HashMap;
use types::fid::Fid;

/// Inodes, with the number of lost answers that opened them.
#[derive(Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct UnconfirmedOpens(HashMap<Fid, u32>);

impl UnconfirmedOpens {
    /// A request of an earlier life opened the inode.
    pub(super) fn add(&mut self, fid: Fid) {
        *self.0.entry(fid).or_default() += 1;
    }

    /// True if a client may believe that it has the inode open.
    pub(super) fn contains(&self, fid: Fid) -> bool {
        !self.0.is_empty() && self.0.contains_key(&fid)
    }

    /// One of those requests is over. `true`: it was the last one that opened the inode.
    pub(super) fn remove(&mut self, fid: Fid) -> bool {
        let Some(count) = self.0.get_mut(&fid) else { return false };
        *count -= 1;
        let last = *count == 0;
        if last {
            self.0.remove(&fid);
        }
        last
    }

    /// Number of inodes.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
