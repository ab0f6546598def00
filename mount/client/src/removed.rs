//! Inodes that were removed, and that programs of this mount still use without having opened them
//! here.
//!
//! The MDT keeps a removed file while a client has it open. Directories, device files, FIFOs,
//! sockets and symbolic links are never opened there: the kernel opens them by itself, and does not
//! report working directories at all. So the MDT destroys such an inode with its last name, and its
//! remains are here: a directory without entries or any other inode without content, with the
//! attributes that the kernel was last shown, and no links. Programs may go on asking for these and
//! changing them until the kernel forgets the inode.
//!
//! An inode is found to be removed when its MDT answers ESTALE; until then nothing is noted, and a
//! removal costs nothing. FIDs are not used again, so it stays removed. Bound: what the kernel
//! remembers.

use crate::caller::Stat;
use crate::client::Client;
use crate::node::Shown;
use bytes::Bytes;
use foldhash::HashMap;
use parking_lot::Mutex;
use session::error::ClientError;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use types::attr::{Attr, FileType, S_IFMT, SetAttr, SetTime};
use types::errno::Errno;
use types::fid::Fid;
use types::time::Timestamp;
use wire::mds::SetxattrFlags;

/// Remains of an inode.
struct Left {
    attr: Attr,
    /// Extended attributes that were set since, or removed (`None`).
    xattrs: BTreeMap<Bytes, Option<Bytes>>,
    /// It had no extended attributes before.
    had_none: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Removed {
    count: AtomicUsize,
    inodes: Mutex<HashMap<Fid, Left>>,
}

impl Removed {
    /// Works on the remains of an inode, if it is known to be removed.
    fn with<R>(&self, fid: Fid, work: impl FnOnce(&mut Left) -> R) -> Option<R> {
        // Usually there is none.
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.inodes.lock().get_mut(&fid).map(work)
    }

    /// An inode turned out to be removed. It may be known already.
    fn note(&self, Shown { attr, has_xattr }: Shown, now: Timestamp) {
        let mut inodes = self.inodes.lock();
        inodes.entry(attr.fid).or_insert_with(|| Left {
            attr: Attr { nlink: 0, ctime: now.max(attr.ctime), ..attr },
            xattrs: BTreeMap::new(),
            had_none: has_xattr == Some(false),
        });
        self.count.store(inodes.len(), Ordering::Release);
    }

    /// The kernel forgot an inode.
    pub(crate) fn forget(&self, fid: Fid) {
        if self.count.load(Ordering::Acquire) > 0 {
            let mut inodes = self.inodes.lock();
            inodes.remove(&fid);
            self.count.store(inodes.len(), Ordering::Release);
        }
    }
}

impl Left {
    /// chmod, chown, utimensat. The kernel has checked the permission.
    fn change(&mut self, set: &SetAttr, now: Timestamp) {
        let time = |time| match time {
            SetTime::Now => now,
            SetTime::At(time) => time,
        };
        let attr = &mut self.attr;
        attr.mode = set.mode.map_or(attr.mode, |mode| attr.mode & S_IFMT | mode & !S_IFMT);
        (attr.uid, attr.gid) = (set.uid.unwrap_or(attr.uid), set.gid.unwrap_or(attr.gid));
        (attr.atime, attr.mtime) = (set.atime.map_or(attr.atime, time), set.mtime.map_or(attr.mtime, time));
        attr.ctime = now;
    }

    fn xattr(&self, name: &[u8], before: Option<Option<Bytes>>) -> Result<Bytes, Errno> {
        match self.xattrs.get(name).cloned().or(before) {
            Some(value) => value.ok_or(Errno::ENODATA),
            // The mode is all that is known of the permissions.
            None if self.had_none || name.starts_with(b"system.posix_acl_") => Err(Errno::ENODATA),
            None => Err(Errno::ESTALE),
        }
    }

    fn set_xattr(
        &mut self,
        name: Bytes,
        value: Option<Bytes>,
        flags: SetxattrFlags,
        before: Option<Option<Bytes>>,
        now: Timestamp,
    ) -> Result<(), Errno> {
        let there = match self.xattr(&name, before) {
            Ok(_) => Some(true),
            Err(Errno::ENODATA) => Some(false),
            Err(_) => None,
        };
        if (value.is_none() || flags.replace) && there == Some(false) {
            return Err(Errno::ENODATA);
        }
        if flags.create && there == Some(true) {
            return Err(Errno::EEXIST);
        }
        self.xattrs.insert(name, value);
        self.attr.ctime = now;
        Ok(())
    }

    fn list(&self, before: Option<Bytes>) -> Result<Bytes, Errno> {
        let before = before.or(self.had_none.then(Bytes::new)).ok_or(Errno::ESTALE)?;
        let had = before.split(|byte| *byte == 0).filter(|name| !name.is_empty() && !self.xattrs.contains_key(*name));
        let set = self.xattrs.iter().filter(|(_, value)| value.is_some()).map(|(name, _)| &name[..]);
        Ok(had.chain(set).flat_map(|name| [name, &[0][..]]).flatten().copied().collect())
    }
}

impl Client {
    /// A requested inode does not exist: returns it if it lives on here.
    ///
    /// # Errors
    /// `error`, if not.
    pub(crate) fn lives_on(&self, fid: Fid, error: ClientError) -> Result<(), ClientError> {
        if error.errno() != Errno::ESTALE {
            return Err(error);
        }
        let shown = self.nodes.shown(fid).ok_or(error)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 7, ver: 0 };

    fn at(sec: i64) -> Timestamp {
        Timestamp { sec, nsec: 0 }
    }

    fn removed(has_xattr: Option<bool>) -> Removed {
        let attr = Attr {
            fid: DIR,
            mode: libc::S_IFDIR | 0o755,
            uid: 1,
            gid: 2,
            nlink: 2,
            rdev: 0,
            size: 4096,
            blocks: 8,
            atime: at(1),
            mtime: at(1),
            ctime: at(1),
            btime: at(1),
            version: 5,
        };
        let removed = Removed::default();
        removed.note(Shown { attr, has_xattr }, at(10));
        removed
    }

    #[test]
    fn a_removed_inode_has_no_links_and_can_be_changed() {
        let removed = removed(None);
        let set = SetAttr { mode: Some(0o2700), gid: Some(9), mtime: Some(SetTime::At(at(3))), ..SetAttr::default() };
        let attr = removed.with(DIR, |left| {
            assert_eq!((left.attr.nlink, left.attr.ctime), (0, at(10)));
            left.change(&set, at(20));
            left.attr
        });
        let attr = attr.expect("it is there");
        assert_eq!((attr.mode, attr.uid, attr.gid), (libc::S_IFDIR | 0o2700, 1, 9));
        assert_eq!((attr.atime, attr.mtime, attr.ctime, attr.nlink), (at(1), at(3), at(20), 0));
        removed.forget(DIR);
        assert!(removed.with(DIR, |_| ()).is_none());
    }

    #[test]
    fn what_is_not_known_of_its_xattrs_is_not_made_up() {
        let flags = SetxattrFlags::default;
        let name = |text: &'static str| Bytes::from_static(text.as_bytes());
        let unknown = removed(Some(true));
        unknown.with(DIR, |left| {
            assert_eq!(left.xattr(b"user.a", None), Err(Errno::ESTALE));
            assert_eq!(left.xattr(b"system.posix_acl_access", None), Err(Errno::ENODATA));
            assert_eq!(left.xattr(b"user.a", Some(Some(name("1")))), Ok(name("1")), "covered by a lock");
            assert_eq!(left.list(None), Err(Errno::ESTALE));
            assert_eq!(left.list(Some(name("user.a\0"))), Ok(name("user.a\0")));
        });
        let none = removed(Some(false));
        none.with(DIR, |left| {
            assert_eq!((left.xattr(b"user.a", None), left.list(None)), (Err(Errno::ENODATA), Ok(Bytes::new())));
            let replace = SetxattrFlags { replace: true, ..flags() };
            assert_eq!(left.set_xattr(name("user.a"), Some(name("1")), replace, None, at(1)), Err(Errno::ENODATA));
            assert_eq!(left.set_xattr(name("user.a"), Some(name("1")), flags(), None, at(1)), Ok(()));
            let create = SetxattrFlags { create: true, ..flags() };
            assert_eq!(left.set_xattr(name("user.a"), Some(name("2")), create, None, at(1)), Err(Errno::EEXIST));
            assert_eq!((left.xattr(b"user.a", None), left.list(None)), (Ok(name("1")), Ok(name("user.a\0"))));
            assert_eq!(left.set_xattr(name("user.a"), None, flags(), None, at(1)), Ok(()));
            assert_eq!(left.set_xattr(name("user.a"), None, flags(), None, at(1)), Err(Errno::ENODATA));
            assert_eq!(left.list(None), Ok(Bytes::new()));
        });
    }
}
