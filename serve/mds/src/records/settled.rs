//! What operations over several MDTs are about to change (docs/dne.md): it is neither shown nor
//! locked before they are over.

use crate::locks::context::Obstacle;
use crate::records::Records;
use namespace::inode::{Dirent, Inode, InodeFlags};
use namespace::view::View;
use observe::mutant::{Mutant, is_mutant};
use types::attr::FileType;
use types::bundle::BundleId;
use types::errno::Errno;
use types::fid::Fid;

impl Records<'_> {
    /// Succeeds if no operation over several MDTs is in the way; the operation is run again when
    /// this one is over.
    pub(crate) fn free_of(&mut self, bundle: Option<BundleId>) -> Result<(), Errno> {
        match bundle {
            None => Ok(()),
            Some(bundle) => {
                self.lock_context.outcome.obstacle = Some(Obstacle::Pinned(bundle));
                Err(Errno::EAGAIN)
            }
        }
    }

    /// Succeeds if an inode may be shown: no operation over several MDTs is changing it, or a name
    /// in it, of which a client may know from another MDT.
    ///
    /// # Errors
    /// EAGAIN: the operation is run again when that is over.
    pub(crate) fn settled(&mut self, fid: Fid) -> Result<(), Errno> {
        if is_mutant(Mutant::PinnedShown) {
            return Ok(());
        }
        self.free_of(self.state.bundles.pins.unsettled_inode(fid))
    }

    /// Succeeds if a client may be granted a lock that it asks for: no operation over several MDTs
    /// is about to change the inode. It would do so without asking the client.
    ///
    /// # Errors
    /// As [`Records::settled`].
    pub(crate) fn lockable(&mut self, fid: Fid) -> Result<(), Errno> {
        self.free_of(self.state.bundles.pins.changing_inode(None, fid))
    }

    /// As [`Records::settled`], of a name.
    ///
    /// # Errors
    /// As [`Records::settled`].
    pub(crate) fn settled_name(&mut self, dir: Fid, name: &[u8]) -> Result<(), Errno> {
        if is_mutant(Mutant::PinnedShown) {
            return Ok(());
        }
        self.free_of(self.state.bundles.pins.unsettled_name(dir, name))
    }

    /// Where a name leads, if that may be shown.
    ///
    /// # Errors
    /// As [`Records::settled`]; EIO.
    pub(crate) fn settled_dirent(
        &mut self,
        dir: Fid,
        name: &[u8],
    ) -> Result<Option<Dirent>, Errno> {
        self.settled_name(dir, name)?;
        self.dirent(dir, name)
    }

    /// Where the way to a directory goes on, and how many names that is further: the directory of
    /// this name, or the stripe of `dir` that has the name.
    ///
    /// # Errors
    /// ENOENT, ENOTDIR: there is no directory of this name; as [`Records::settled_dirent`].
    pub(crate) fn next_on_the_way(
        &mut self,
        dir: &Inode,
        name: &[u8],
    ) -> Result<(Fid, usize), Errno> {
        if dir.flags.contains(InodeFlags::STRIPED) {
            let stripe = self.place(dir, name)?;
            if stripe != dir.fid() {
                return Ok((stripe, 0));
            }
        }
        match self.settled_dirent(dir.fid(), name)?.ok_or(Errno::ENOENT)? {
            Dirent { fid, file_type: FileType::Directory } => Ok((fid, 1)),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// The directory above one, on the way upward from a place to which a directory is moved
    /// (docs/dne.md, "Circles").
    ///
    /// # Errors
    /// EAGAIN: it is itself being moved; EIO: there is none.
    pub(crate) fn parent_of(&mut self, fid: Fid) -> Result<Fid, Errno> {
        let own = self.lock_context.asked.bundle;
        self.free_of(self.state.bundles.pins.changing_inode(own, fid))?;
        // The way upward leads out of any realm; the client is not shown it.
        let found = self.anywhere(|records| records.inode(fid));
        Ok(found?.ok_or(Errno::EIO)?.parent)
    }
}
