//! The door to the records that operations read and change.
//!
//! Reading may fail (a damaged record is EIO), changing never. So operations read everything they
//! need before the first change, and are atomic without a way back. A view sees its own changes at
//! once.

use crate::context::Context;
use crate::inode::{Dirent, Inode, InodeFlags};
use std::ops::ControlFlow;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;

/// Receives entries in byte order of their names; `Break` ends the scan.
pub type EachEntry<'a> = dyn FnMut(&[u8], Dirent) -> ControlFlow<()> + 'a;
/// Receives xattr names in byte order; `Break` ends the scan.
pub type EachName<'a> = dyn FnMut(&[u8]) -> ControlFlow<()> + 'a;

/// What an operation is about to change of one inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change<'a> {
    /// The inode.
    pub fid: Fid,
    /// The lock bits of other clients that cover the change.
    pub bits: InodeBits,
    /// Of a directory: these names, and so its attributes.
    pub names: [Option<&'a [u8]>; 2],
    /// What the client that makes the change shows of it already.
    pub shown: Shown,
}

/// What the author of a change shows of it before that is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// Nothing: its mount may hide the change until its kernel has read the answer.
    Nothing,
    /// The data that it wrote, but not all attributes.
    Data,
    /// All of it.
    All,
}

impl<'a> Change<'a> {
    /// Of an inode as a whole.
    pub const fn of(fid: Fid, bits: InodeBits) -> Change<'a> {
        Change { fid, bits, names: [None, None], shown: Shown::Nothing }
    }

    /// One name of a directory.
    pub const fn name(dir: Fid, name: &'a [u8]) -> Change<'a> {
        Change {
            fid: dir,
            bits: InodeBits::UPDATE,
            names: [Some(name), None],
            shown: Shown::Nothing,
        }
    }

    /// An inode loses, gets or moves a name; `last`: it loses its last one.
    pub const fn named(fid: Fid, last: bool) -> Change<'a> {
        let bits = InodeBits::LOOKUP.union(InodeBits::UPDATE);
        Change::of(
            fid,
            if last { bits.union(InodeBits::OPEN).union(InodeBits::PERM) } else { bits },
        )
    }
}

/// Records of one name space.
pub trait View {
    /// An inode; `None` if there is none.
    fn inode(&self, fid: Fid) -> Result<Option<Inode>, Errno>;
    /// The inode that a name leads to. `None` if the directory has no such name, or `parent` is no
    /// directory.
    fn dirent(&self, parent: Fid, name: &[u8]) -> Result<Option<Dirent>, Errno>;
    /// Entries of a directory behind `after` (`None`: all).
    fn entries(
        &self,
        dir: Fid,
        after: Option<&[u8]>,
        each: &mut EachEntry<'_>,
    ) -> Result<(), Errno>;
    /// Value of an extended attribute.
    fn xattr(&self, fid: Fid, name: &[u8]) -> Result<Option<Vec<u8>>, Errno>;
    /// Names of all extended attributes.
    fn xattr_names(&self, fid: Fid, each: &mut EachName<'_>) -> Result<(), Errno>;

    /// Everything is checked, and exactly this is going to change. The view may refuse for now:
    /// then nothing is changed, and the operation must be run again.
    fn before(&mut self, changes: &[Change<'_>]) -> Result<(), Errno> {
        let _ = changes;
        Ok(())
    }

    /// True if the view has the inodes of this MDT, too, that a directory leads to. One MDT has its
    /// own only.
    fn reaches(&self, dir: Fid, fid: Fid) -> bool {
        fid.mdt() == dir.mdt()
    }

    /// The stripes of a directory, itself first; `dir` is one of them, and has
    /// [`InodeFlags::STRIPED`].
    ///
    /// # Errors
    /// EIO: its record is damaged.
    fn stripes(&self, dir: &Inode) -> Result<Vec<Fid>, Errno> {
        Ok(vec![dir.fid()])
    }

    /// The stripe that has, or would have, this name. As [`View::stripes`].
    ///
    /// # Errors
    /// EIO: its record is damaged.
    fn place(&self, dir: &Inode, name: &[u8]) -> Result<Fid, Errno> {
        let _ = name;
        Ok(dir.fid())
    }

    /// The directory that the inode of a name records as its own: [`whole`], unless the directory
    /// goes to another inode and this name has not passed. As [`View::stripes`].
    ///
    /// # Errors
    /// EIO: its record is damaged.
    fn home_of(&self, dir: &Inode, name: &[u8]) -> Result<Fid, Errno> {
        let _ = name;
        self.stripes(dir)?.first().copied().ok_or(Errno::EIO)
    }

    /// The project of an inode that has [`InodeFlags::HAS_PROJECT`].
    ///
    /// # Errors
    /// EIO: its record is damaged.
    fn project(&self, inode: &Inode) -> Result<u32, Errno> {
        let _ = inode;
        Err(Errno::EIO)
    }

    /// The inode, which is put next, is of this project; 0: of none. [`InodeFlags::HAS_PROJECT`] is
    /// set by the caller.
    ///
    /// # Errors
    /// EIO: its record is damaged.
    fn set_project(&self, inode: &mut Inode, project: u32) -> Result<(), Errno> {
        let _ = (inode, project);
        Err(Errno::EIO)
    }

    /// The directory above a directory, on the way upward from a place to which a directory is
    /// moved. The view may refuse for now, as in [`View::before`].
    ///
    /// # Errors
    /// EIO: there is no such directory.
    fn above(&mut self, fid: Fid) -> Result<Fid, Errno> {
        Ok(self.inode(fid)?.ok_or(Errno::EIO)?.parent)
    }

    /// The inode, which is put next, gets a name. A view that remembers names of inodes notes it in
    /// the inode's tail.
    fn named(&self, inode: &mut Inode, parent: Fid, name: &[u8]) {
        let _ = (inode, parent, name);
    }

    /// The inode, which is put next, loses a name.
    fn unnamed(&self, inode: &mut Inode, parent: Fid, name: &[u8]) {
        let _ = (inode, parent, name);
    }

    /// Makes or replaces an inode.
    fn put_inode(&mut self, inode: &Inode);
    /// Replaces an inode whose `mtime` was set, perhaps to what it is. A view that keeps the
    /// changes of a directory apart from each other must keep the time with this one.
    fn put_inode_with_mtime(&mut self, inode: &Inode) {
        self.put_inode(inode);
    }
    /// Puts a directory of which names came or went at the time of its `mtime` and `ctime`, and
    /// `nlink` sub-directories came (or, negative, went). Nothing else of it has changed. So a view
    /// may let such changes of one directory stand apart from each other.
    fn put_names_changed(&mut self, dir: &Inode, nlink: i32) {
        let _ = nlink;
        self.put_inode(dir);
    }
    /// An inode lost its last name (`nlink` is 0). The view keeps it while a client has it open.
    /// After that it destroys it, with its extended attributes and data.
    fn last_name_gone(&mut self, inode: &Inode);
    /// An inode that was created without a name, and is kept because it is open, is about to get
    /// one: it is kept for that.
    fn first_name(&mut self, fid: Fid) {
        let _ = fid;
    }
    /// Makes or replaces a name.
    fn put_dirent(&mut self, parent: Fid, name: &[u8], dirent: Dirent);
    /// Removes a name.
    fn delete_dirent(&mut self, parent: Fid, name: &[u8]);
    /// Makes or replaces an extended attribute.
    fn put_xattr(&mut self, fid: Fid, name: &[u8], value: &[u8]);
    /// Removes one.
    fn delete_xattr(&mut self, fid: Fid, name: &[u8]);
}

/// A live directory that names can be looked up in and added to.
///
/// # Errors
/// ENOENT if it does not exist or was removed (and is only held open), ENOTDIR.
pub fn directory(view: &impl View, fid: Fid) -> Result<Inode, Errno> {
    let inode = view.inode(fid)?.ok_or(Errno::ENOENT)?;
    if !inode.is_dir() {
        return Err(Errno::ENOTDIR);
    }
    if inode.attr.nlink == 0 {
        return Err(Errno::ENOENT);
    }
    Ok(inode)
}

/// A live directory in which a name is, or may come to be.
///
/// # Errors
/// As [`directory`]; EREMCHG: another stripe of the directory has names like this, or `fid` does
/// not exist: it may have been a stripe.
pub fn directory_of(view: &impl View, fid: Fid, name: &[u8]) -> Result<Inode, Errno> {
    let dir = view.inode(fid)?.ok_or(Errno::EREMCHG)?;
    if !dir.is_dir() {
        return Err(Errno::ENOTDIR);
    }
    let striped = dir.flags.contains(InodeFlags::STRIPED);
    if dir.attr.nlink == 0 {
        // One stripe may go before the others do.
        let shard = striped && view.stripes(&dir)?.first() != Some(&fid);
        return Err(if shard { Errno::EREMCHG } else { Errno::ENOENT });
    }
    if striped && view.place(&dir, name)? != fid {
        return Err(Errno::EREMCHG);
    }
    Ok(dir)
}

/// The directory that programs see: of a stripe, the one whose stripe it is. Inodes record it as
/// what is above them, so that names may pass from one stripe to another.
///
/// # Errors
/// EIO: its record is damaged.
pub fn whole(view: &impl View, dir: &Inode) -> Result<Fid, Errno> {
    match dir.flags.contains(InodeFlags::STRIPED) {
        true => view.stripes(dir)?.first().copied().ok_or(Errno::EIO),
        false => Ok(dir.fid()),
    }
}

/// The directory that the inode of a name in `dir` records as its own ([`View::home_of`]).
///
/// # Errors
/// EIO: its record is damaged.
pub fn home(view: &impl View, dir: &Inode, name: &[u8]) -> Result<Fid, Errno> {
    match dir.flags.contains(InodeFlags::STRIPED) {
        true => view.home_of(dir, name),
        false => Ok(dir.fid()),
    }
}

/// Names of `dir` came or went, `nlink` of them of sub-directories.
pub(crate) fn names_changed(view: &mut impl View, ctx: &Context<'_>, dir: &mut Inode, nlink: i32) {
    dir.attr.nlink = dir.attr.nlink.saturating_add_signed(nlink);
    dir.modified(ctx);
    view.put_names_changed(dir, nlink);
}

/// The inode of a name that was found in `dir`. A name without an inode is damage, unless another
/// MDT has the inode.
///
/// # Errors
/// EREMOTE: another MDT has it, which the view does not reach. EIO.
pub(crate) fn target(view: &impl View, dir: Fid, dirent: Dirent) -> Result<Inode, Errno> {
    if !view.reaches(dir, dirent.fid) {
        return Err(Errno::EREMOTE);
    }
    view.inode(dirent.fid)?.ok_or(Errno::EIO)
}

/// True if not the MDT of `dir`, but another one has this inode, which is in `dir` or above it.
pub fn is_elsewhere(dir: Fid, fid: Fid) -> bool {
    fid.mdt() != dir.mdt()
}

/// True if the directory has no entry, in any of its stripes.
///
/// # Errors
/// EREMOTE: the view does not reach a stripe. EIO.
pub(crate) fn is_empty(view: &impl View, dir: &Inode) -> Result<bool, Errno> {
    if !dir.flags.contains(InodeFlags::STRIPED) {
        return has_no_entry(view, dir.fid());
    }
    let mut elsewhere = false;
    for stripe in view.stripes(dir)? {
        if !view.reaches(dir.fid(), stripe) {
            elsewhere = true;
        } else if !has_no_entry(view, stripe)? {
            return Ok(false);
        }
    }
    if elsewhere { Err(Errno::EREMOTE) } else { Ok(true) }
}

fn has_no_entry(view: &impl View, dir: Fid) -> Result<bool, Errno> {
    let mut empty = true;
    view.entries(dir, None, &mut |_, _| {
        empty = false;
        ControlFlow::Break(())
    })?;
    Ok(empty)
}
