//! Questions about, and changes of, inodes that live on here only ([`crate::removed`]).

use crate::caller::Stat;
use crate::client::Client;
use bytes::Bytes;
use data::node::Shown;
use session::error::ClientError;
use std::time::Duration;
use types::attr::{Attr, FileType, SetAttr};
use types::errno::Errno;
use types::fid::Fid;
use wire::mds::SetxattrFlags;

impl Client {
    /// A requested inode does not exist: returns it if it lives on here.
    ///
    /// # Errors
    /// `error`, if not.
    pub(crate) fn lives_on(&self, fid: Fid, error: ClientError) -> Result<(), ClientError> {
        if error.errno() != Errno::ESTALE {
            return Err(error);
        }
        let Some(shown) = self.nodes.shown(fid) else { return self.note_stale(Err(error)) };
        self.removed.note(shown, self.session.env.clock.wall());
        if self.nodes.node(fid).is_none() {
            // It was forgotten in between.
            self.removed.forget(fid);
        }
        Ok(())
    }

    /// True if it is known to be removed.
    pub(crate) fn is_removed(&self, fid: Fid) -> bool {
        self.removed.with(fid, |_| ()).is_some()
    }

    /// Attributes of a removed inode.
    pub(crate) fn removed_stat(&self, fid: Fid) -> Option<Stat> {
        let attr = self.removed.with(fid, |left| left.attr)?;
        Some(Stat { attr, ino: fid.ino(), attr_valid: Duration::ZERO })
    }

    /// Changes attributes of a removed inode.
    pub(crate) fn change_removed(&self, fid: Fid, set: &SetAttr) -> Option<Stat> {
        let now = self.session.env.clock.wall();
        self.removed.with(fid, |left| left.change(set, now))?;
        self.removed_stat(fid)
    }

    /// An extended attribute of a removed inode; ENODATA: it has none of that name, ESTALE: that is
    /// not known here.
    pub(crate) fn removed_xattr(&self, fid: Fid, name: &[u8]) -> Option<Result<Bytes, Errno>> {
        let before = self.is_removed(fid).then(|| self.locks.xattr(fid, name)).flatten();
        self.removed.with(fid, |left| left.xattr(name, before))
    }

    /// All names of extended attributes of a removed inode; ESTALE: they are not known here.
    pub(crate) fn removed_xattrs(&self, fid: Fid) -> Option<Result<Bytes, Errno>> {
        let before = self.is_removed(fid).then(|| self.locks.xattr_list(fid)).flatten();
        self.removed.with(fid, |left| left.list(before))
    }

    /// Sets an extended attribute of a removed inode, or removes it (`None`).
    pub(crate) fn set_removed_xattr(
        &self,
        fid: Fid,
        name: Bytes,
        value: Option<Bytes>,
        flags: SetxattrFlags,
    ) -> Option<Result<(), Errno>> {
        let now = self.session.env.clock.wall();
        let before = self.is_removed(fid).then(|| self.locks.xattr(fid, &name)).flatten();
        self.removed.with(fid, |left| left.set_xattr(name, value, flags, before, now))
    }

    /// The kernel is shown attributes of an inode that it may use without opening it here.
    pub(crate) fn note_shown(&self, attr: &Attr) {
        if attr.file_type() != FileType::Regular {
            let has_xattr = self.locks.table.lock().has_xattr(attr.fid);
            self.nodes.show(Shown { attr: *attr, has_xattr });
        }
    }
}
