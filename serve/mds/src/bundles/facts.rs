//! What the MDTs of an operation have found, as a name space of its own: the operation is planned
//! over it, by the same rules as on one MDT. Planning changes nothing.

use super::steps::inode_of;
use crate::realm::Realm;
use crate::records::tail;
use namespace::acl::ACL_ACCESS;
use namespace::inode::{Dirent, Inode, InodeFlags};
use namespace::view::{EachEntry, EachName, View};
use std::cell::RefCell;
use std::collections::BTreeMap;
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use wire::mds::{PeerFacts, PeerFind, PeerInode, PeerName};

struct Known {
    inode: Inode,
    acl: Vec<u8>,
    is_empty: bool,
}

/// See the module.
#[derive(Default)]
pub(super) struct Facts {
    /// `None`: there is no such inode.
    inodes: BTreeMap<Fid, Option<Known>>,
    names: BTreeMap<(Fid, Name), Option<Dirent>>,
    above: BTreeMap<Fid, Fid>,
    token: bool,
    /// What the client reaches that asks for the operation.
    pub(super) realm: Realm,
    /// What was asked for, and is not known. An operation that asks for it is refused with EREMOTE.
    missing: RefCell<Option<PeerFind>>,
}

impl Facts {
    /// An MDT has found this.
    ///
    /// # Errors
    /// EIO: a record is damaged.
    pub(super) fn learn(&mut self, facts: PeerFacts) -> Result<(), Errno> {
        let PeerFacts { inodes, names, above, looked: _ } = facts;
        for PeerInode { fid, record, acl, is_empty } in inodes {
            let known = match record.is_empty() {
                true => None,
                false => Some(Known { inode: inode_of(fid, &record)?, acl: acl.into(), is_empty }),
            };
            self.inodes.insert(fid, known);
        }
        for PeerName { dir, name, to } in names {
            let to = to.map(|(fid, file_type)| Dirent { fid, file_type });
            self.names.insert((dir, name), to);
        }
        self.above.extend(above);
        Ok(())
    }

    /// The token is held.
    pub(super) fn has_token(&mut self) {
        self.token = true;
    }

    /// Where a name leads, if that is known.
    pub(super) fn leads(&self, dir: Fid, name: &Name) -> Option<Dirent> {
        self.names.get(&(dir, name.clone())).copied().flatten()
    }

    /// True if it is known what this inode is, or that there is none.
    pub(super) fn has_inode(&self, fid: Fid) -> bool {
        self.inodes.contains_key(&fid)
    }

    /// The stripes of a directory that is known; none if it has none.
    ///
    /// # Errors
    /// EIO: its record is damaged.
    pub(super) fn stripes_of(&self, fid: Fid) -> Result<Vec<Fid>, Errno> {
        let known = self.inodes.get(&fid).and_then(Option::as_ref);
        match known.filter(|known| known.inode.flags.contains(InodeFlags::STRIPED)) {
            Some(known) => self.stripes(&known.inode),
            None => Ok(Vec::new()),
        }
    }

    /// The directory that the inode of a name records ([`namespace::view::home`]), of one that is
    /// known.
    ///
    /// # Errors
    /// EIO: its record is damaged, or nothing is known of it.
    pub(super) fn home(&self, dir: Fid, name: &Name) -> Result<Fid, Errno> {
        let known = self.inodes.get(&dir).and_then(Option::as_ref).ok_or(Errno::EIO)?;
        namespace::view::home(self, &known.inode, name)
    }

    /// What the last plan asked for in vain.
    pub(super) fn take_missing(&mut self) -> Option<PeerFind> {
        self.missing.get_mut().take()
    }

    fn lacks<T>(&self, find: PeerFind) -> Result<T, Errno> {
        *self.missing.borrow_mut() = Some(find);
        Err(Errno::EREMOTE)
    }
}

impl View for Facts {
    fn inode(&self, fid: Fid) -> Result<Option<Inode>, Errno> {
        match self.inodes.get(&fid) {
            Some(None) => Ok(None),
            Some(Some(Known { inode, .. })) => {
                self.realm.admits(fid, inode.flags.bits(), &inode.tail)?;
                Ok(Some(inode.clone()))
            }
            None => self.lacks(PeerFind::Inode { fid, loses: false }),
        }
    }

    fn dirent(&self, parent: Fid, name: &[u8]) -> Result<Option<Dirent>, Errno> {
        let name = Name::new(name)?;
        match self.names.get(&(parent, name.clone())) {
            Some(to) => Ok(*to),
            None => self.lacks(PeerFind::Name { dir: parent, name, loses: false }),
        }
    }

    fn entries(&self, dir: Fid, _: Option<&[u8]>, each: &mut EachEntry<'_>) -> Result<(), Errno> {
        let known = self.inodes.get(&dir).and_then(Option::as_ref).ok_or(Errno::EIO)?;
        if !known.is_empty {
            // Which ones there are does not matter to any operation.
            let _ = each(b"?", Dirent { fid: Fid::NONE, file_type: FileType::Regular });
        }
        Ok(())
    }

    fn xattr(&self, fid: Fid, name: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
        let known = self.inodes.get(&fid).and_then(Option::as_ref);
        Ok(known.filter(|known| name == ACL_ACCESS && !known.acl.is_empty()).map(|k| k.acl.clone()))
    }

    fn xattr_names(&self, _: Fid, _: &mut EachName<'_>) -> Result<(), Errno> {
        Err(Errno::EIO)
    }

    fn reaches(&self, _: Fid, _: Fid) -> bool {
        true
    }

    fn stripes(&self, dir: &Inode) -> Result<Vec<Fid>, Errno> {
        Ok(tail::stripes(dir)?.all().to_vec())
    }

    fn place(&self, dir: &Inode, name: &[u8]) -> Result<Fid, Errno> {
        Ok(tail::stripes(dir)?.place(name))
    }

    fn home_of(&self, dir: &Inode, name: &[u8]) -> Result<Fid, Errno> {
        Ok(tail::stripes(dir)?.home(name))
    }

    fn project(&self, inode: &Inode) -> Result<u32, Errno> {
        tail::project(inode.fid(), &inode.tail)
    }

    fn above(&mut self, fid: Fid) -> Result<Fid, Errno> {
        if !self.token {
            return self.lacks(PeerFind::Token);
        }
        match self.above.get(&fid) {
            Some(parent) => Ok(*parent),
            None => self.lacks(PeerFind::Above(fid)),
        }
    }

    fn put_inode(&mut self, _: &Inode) {}

    fn last_name_gone(&mut self, _: &Inode) {}

    fn put_dirent(&mut self, _: Fid, _: &[u8], _: Dirent) {}

    fn delete_dirent(&mut self, _: Fid, _: &[u8]) {}

    fn put_xattr(&mut self, _: Fid, _: &[u8], _: &[u8]) {}

    fn delete_xattr(&mut self, _: Fid, _: &[u8]) {}
}
