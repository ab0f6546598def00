//! A name space in memory, for the tests of this crate.

use namespace::context::Context;
use namespace::inode::{Dirent, Inode, InodeFlags, Tail};
use namespace::view::{EachEntry, EachName, View};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::time::Timestamp;

/// Records in ordered maps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    pub inodes: BTreeMap<Fid, Inode>,
    pub dirents: BTreeMap<(Fid, Vec<u8>), Dirent>,
    pub xattrs: BTreeMap<(Fid, Vec<u8>), Vec<u8>>,
    /// Held open: kept when their last name goes.
    pub open: BTreeSet<Fid>,
}

impl Memory {
    /// With a root directory.
    pub fn new() -> Memory {
        let mut memory = Memory::default();
        memory.put_inode(&namespace::create::root(&context(&Credentials::root(), 0)));
        memory
    }
}

impl View for Memory {
    fn inode(&self, fid: Fid) -> Result<Option<Inode>, Errno> {
        Ok(self.inodes.get(&fid).cloned())
    }

    fn dirent(&self, parent: Fid, name: &[u8]) -> Result<Option<Dirent>, Errno> {
        Ok(self.dirents.get(&(parent, name.to_vec())).copied())
    }

    fn entries(
        &self,
        dir: Fid,
        after: Option<&[u8]>,
        each: &mut EachEntry<'_>,
    ) -> Result<(), Errno> {
        let start = match after {
            Some(name) => Bound::Excluded((dir, name.to_vec())),
            None => Bound::Included((dir, Vec::new())),
        };
        for ((parent, name), dirent) in self.dirents.range((start, Bound::Unbounded)) {
            if *parent != dir || each(name, *dirent).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn xattr(&self, fid: Fid, name: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
        Ok(self.xattrs.get(&(fid, name.to_vec())).cloned())
    }

    fn xattr_names(&self, fid: Fid, each: &mut EachName<'_>) -> Result<(), Errno> {
        for (of, name) in self.xattrs.keys() {
            if *of == fid && each(name).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn project(&self, inode: &Inode) -> Result<u32, Errno> {
        let bytes = inode.tail[..].try_into().map_err(|_| Errno::EIO)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn set_project(&self, inode: &mut Inode, project: u32) -> Result<(), Errno> {
        inode.tail.clear();
        if project != 0 {
            inode.tail.extend_from_slice(&project.to_le_bytes());
        }
        Ok(())
    }

    fn put_inode(&mut self, inode: &Inode) {
        self.inodes.insert(inode.fid(), inode.clone());
    }

    fn last_name_gone(&mut self, inode: &Inode) {
        if self.open.contains(&inode.fid()) {
            self.put_inode(inode);
        } else {
            self.inodes.remove(&inode.fid());
            self.xattrs.retain(|(fid, _), _| *fid != inode.fid());
        }
    }

    fn put_dirent(&mut self, parent: Fid, name: &[u8], dirent: Dirent) {
        self.dirents.insert((parent, name.to_vec()), dirent);
    }

    fn delete_dirent(&mut self, parent: Fid, name: &[u8]) {
        self.dirents.remove(&(parent, name.to_vec()));
    }

    fn put_xattr(&mut self, fid: Fid, name: &[u8], value: &[u8]) {
        self.xattrs.insert((fid, name.to_vec()), value.to_vec());
    }

    fn delete_xattr(&mut self, fid: Fid, name: &[u8]) {
        self.xattrs.remove(&(fid, name.to_vec()));
    }
}

/// The `n`th change.
pub fn context(credentials: &Credentials, n: u64) -> Context<'_> {
    Context { credentials, now: Timestamp { sec: n as i64, nsec: 0 }, version: n }
}

/// The `n`th FID.
pub fn fid(n: u32) -> Fid {
    Fid { seq: Fid::SEQ_NORMAL, oid: n, ver: 0 }
}

/// No tail, no flags.
pub fn plain(_: &Inode) -> Result<(Tail, InodeFlags), Errno> {
    Ok((Tail::new(), InodeFlags::empty()))
}
