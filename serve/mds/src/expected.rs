//! What the operations of a request must find (`Expect`).
//!
//! It is looked at in the transaction of each such operation, so nothing comes in between.

use namespace::view::View;
use types::errno::Errno;
use types::fid::Fid;
use wire::mds::Expect;

/// Names of one request that are expected to lead somewhere. Bounded as its operations are.
#[derive(Clone, Default)]
pub(crate) struct Expected(Vec<Expect>);

impl Expected {
    /// From here on in the request.
    pub(crate) fn push(&mut self, expect: Expect) {
        self.0.push(expect);
    }

    /// True if nothing is expected.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Succeeds if a name that is about to be taken leads where it is expected to, or is not there:
    /// the operation says that.
    ///
    /// # Errors
    /// ESTALE: it leads elsewhere. EIO.
    pub(crate) fn taken(&self, records: &impl View, dir: Fid, name: &[u8]) -> Result<(), Errno> {
        let Some(wanted) = self.wanted(dir, name) else { return Ok(()) };
        match records.dirent(dir, name)? {
            Some(found) if found.fid != wanted => Err(Errno::ESTALE),
            _ => Ok(()),
        }
    }

    /// As [`Expected::taken`], of a name that is about to lead elsewhere: it must be there.
    ///
    /// # Errors
    /// As [`Expected::taken`].
    pub(crate) fn replaced(&self, records: &impl View, dir: Fid, name: &[u8]) -> Result<(), Errno> {
        let Some(wanted) = self.wanted(dir, name) else { return Ok(()) };
        let found = records.dirent(dir, name)?;
        if found.is_some_and(|found| found.fid == wanted) { Ok(()) } else { Err(Errno::ESTALE) }
    }

    fn wanted(&self, dir: Fid, name: &[u8]) -> Option<Fid> {
        self.0
            .iter()
            .find(|expect| expect.parent == dir && &expect.name[..] == name)
            .map(|expect| expect.inode)
    }
}
