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

use bytes::Bytes;
use data::node::Shown;
use foldhash::HashMap;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use types::attr::{Attr, S_IFMT, SetAttr, SetTime};
use types::errno::Errno;
use types::fid::Fid;
use types::time::Timestamp;
use wire::mds::SetxattrFlags;

/// Remains of an inode.
pub(crate) struct Left {
    pub(crate) attr: Attr,
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
    pub(crate) fn with<R>(&self, fid: Fid, work: impl FnOnce(&mut Left) -> R) -> Option<R> {
        // Usually there is none.
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.inodes.lock().get_mut(&fid).map(work)
    }

    /// An inode turned out to be removed. It may be known already.
    pub(crate) fn note(&self, Shown { attr, has_xattr }: Shown, now: Timestamp) {
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
    pub(crate) fn change(&mut self, set: &SetAttr, now: Timestamp) {
        let time = |time| match time {
            SetTime::Now => now,
            SetTime::At(time) => time,
        };
        let attr = &mut self.attr;
        attr.mode = set.mode.map_or(attr.mode, |mode| attr.mode & S_IFMT | mode & !S_IFMT);
        (attr.uid, attr.gid) = (set.uid.unwrap_or(attr.uid), set.gid.unwrap_or(attr.gid));
        (attr.atime, attr.mtime) =
            (set.atime.map_or(attr.atime, time), set.mtime.map_or(attr.mtime, time));
        attr.ctime = now;
    }

    pub(crate) fn xattr(&self, name: &[u8], before: Option<Option<Bytes>>) -> Result<Bytes, Errno> {
        match self.xattrs.get(name).cloned().or(before) {
            Some(value) => value.ok_or(Errno::ENODATA),
            // The mode is all that is known of the permissions.
            None if self.had_none || name.starts_with(b"system.posix_acl_") => Err(Errno::ENODATA),
            None => Err(Errno::ESTALE),
        }
    }

    pub(crate) fn set_xattr(
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

    pub(crate) fn list(&self, before: Option<Bytes>) -> Result<Bytes, Errno> {
        let before = before.or(self.had_none.then(Bytes::new)).ok_or(Errno::ESTALE)?;
        let had = before
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty() && !self.xattrs.contains_key(*name));
        let set =
            self.xattrs.iter().filter(|(_, value)| value.is_some()).map(|(name, _)| &name[..]);
        Ok(had.chain(set).flat_map(|name| [name, &[0][..]]).flatten().copied().collect())
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
        let set = SetAttr {
            mode: Some(0o2700),
            gid: Some(9),
            mtime: Some(SetTime::At(at(3))),
            ..SetAttr::default()
        };
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
            assert_eq!(
                left.xattr(b"user.a", Some(Some(name("1")))),
                Ok(name("1")),
                "covered by a lock"
            );
            assert_eq!(left.list(None), Err(Errno::ESTALE));
            assert_eq!(left.list(Some(name("user.a\0"))), Ok(name("user.a\0")));
        });
        let none = removed(Some(false));
        none.with(DIR, |left| {
            assert_eq!(
                (left.xattr(b"user.a", None), left.list(None)),
                (Err(Errno::ENODATA), Ok(Bytes::new()))
            );
            let replace = SetxattrFlags { replace: true, ..flags() };
            assert_eq!(
                left.set_xattr(name("user.a"), Some(name("1")), replace, None, at(1)),
                Err(Errno::ENODATA)
            );
            assert_eq!(
                left.set_xattr(name("user.a"), Some(name("1")), flags(), None, at(1)),
                Ok(())
            );
            let create = SetxattrFlags { create: true, ..flags() };
            assert_eq!(
                left.set_xattr(name("user.a"), Some(name("2")), create, None, at(1)),
                Err(Errno::EEXIST)
            );
            assert_eq!(
                (left.xattr(b"user.a", None), left.list(None)),
                (Ok(name("1")), Ok(name("user.a\0")))
            );
            assert_eq!(left.set_xattr(name("user.a"), None, flags(), None, at(1)), Ok(()));
            assert_eq!(
                left.set_xattr(name("user.a"), None, flags(), None, at(1)),
                Err(Errno::ENODATA)
            );
            assert_eq!(left.list(None), Ok(Bytes::new()));
        });
    }
}
