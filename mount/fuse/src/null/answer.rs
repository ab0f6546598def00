//! Request in, answer out.

use super::NullConfig;
use super::tree::{Body, Directory, Tree};
use crate::decode::{Operation, Request};
use crate::directory::{Listing, dot_entry};
use crate::reply::{Entry, Opened, Reply, Stat};
use bytes::Bytes;
use types::attr::{Attr, FileType, SetAttr, SetTime, Statfs};
use types::errno::Errno;
use types::time::Timestamp;

type Result<T> = std::result::Result<T, Errno>;

/// The totals that `statfs` shows: large enough for any benchmark.
const TOTALS: Statfs = Statfs {
    bytes_total: 1 << 50,
    bytes_free: 1 << 50,
    bytes_available: 1 << 50,
    files_total: 1 << 32,
    files_free: 1 << 32,
};

pub(super) fn answer(
    tree: &mut Tree,
    config: &NullConfig,
    now: Timestamp,
    request: &Request<'_>,
) -> Result<Reply> {
    let node = request.header.nodeid;
    let mut answers = Answers { tree, config, now, request };
    match request.operation {
        Operation::Lookup { name } => answers.lookup(node, name),
        Operation::Forget { lookups } => {
            answers.tree.forget(node, lookups);
            Ok(Reply::Nothing)
        }
        Operation::BatchForget { nodes } => {
            nodes.iter().for_each(|(node, lookups)| answers.tree.forget(node, lookups));
            Ok(Reply::Nothing)
        }
        Operation::Getattr { .. } => Ok(Reply::Attr(answers.stat(node)?)),
        Operation::Statx { .. } => Ok(Reply::Statx(answers.stat(node)?)),
        Operation::Setattr { set, .. } => answers.set_attr(node, &set),
        Operation::Readlink => match &answers.tree.get(node)?.body {
            Body::Symlink(target) => Ok(Reply::Data(target.clone())),
            _ => Err(Errno::EINVAL),
        },
        Operation::Symlink { name, target } => {
            let body = Body::Symlink(Bytes::copy_from_slice(target));
            Ok(Reply::Entry(answers.make(node, name, libc::S_IFLNK | 0o777, 0, body)?))
        }
        Operation::Mknod { name, mode, rdev, umask } => {
            let regular = FileType::from_mode(mode) == Some(FileType::Regular);
            let body = if regular { Body::File(Vec::new()) } else { Body::Special };
            Ok(Reply::Entry(answers.make(node, name, mode & !umask, rdev, body)?))
        }
        Operation::Mkdir { name, mode, umask } => {
            let body = Tree::new_directory(node);
            Ok(Reply::Entry(answers.make(node, name, libc::S_IFDIR | (mode & !umask), 0, body)?))
        }
        Operation::Create { name, mode, umask, .. } => {
            let mode = libc::S_IFREG | (mode & !umask & !libc::S_IFMT);
            let entry = answers.make(node, name, mode, 0, Body::File(Vec::new()))?;
            Ok(Reply::Created(entry, Opened { handle: entry.node, flags: 0 }))
        }
        Operation::Unlink { name } => {
            answers.tree.leave(node, name, false, now).map(|()| Reply::Done)
        }
        Operation::Rmdir { name } => {
            answers.tree.leave(node, name, true, now).map(|()| Reply::Done)
        }
        Operation::Rename { name, new_parent, new_name, flags } => {
            answers.rename(node, name, new_parent, new_name, flags).map(|()| Reply::Done)
        }
        Operation::Link { node: linked, new_name } => {
            answers.tree.get_mut(linked)?.attr.nlink += 1;
            answers.tree.enter(node, new_name, linked, now)?;
            Ok(Reply::Entry(answers.found(linked)?))
        }
        Operation::Open { .. } | Operation::Opendir { .. } => {
            Ok(Reply::Opened(Opened { handle: node, flags: 0 }))
        }
        Operation::Read { offset, size, .. } => {
            answers.tree.read(node, offset, size).map(Reply::Data)
        }
        Operation::Write { offset, data, .. } => {
            let bytes = answers.tree.write(node, offset, data, now)?;
            Ok(Reply::Written { bytes, then: None })
        }
        Operation::Readdir { offset, size, .. } => answers.list(node, offset, size, false),
        Operation::Readdirplus { offset, size, .. } => answers.list(node, offset, size, true),
        Operation::Statfs => Ok(Reply::Statfs(TOTALS)),
        Operation::Setxattr { name, value, .. } => {
            answers.tree.get_mut(node)?.xattrs.insert(name.to_vec(), Bytes::copy_from_slice(value));
            Ok(Reply::Done)
        }
        Operation::Getxattr { name, size } => {
            let value = answers.tree.get(node)?.xattrs.get(name).cloned().ok_or(Errno::ENODATA)?;
            Reply::sized(value, size)
        }
        Operation::Listxattr { size } => {
            let names = answers
                .tree
                .get(node)?
                .xattrs
                .keys()
                .flat_map(|name| name.iter().chain(&[0]))
                .copied();
            Reply::sized(names.collect::<Vec<u8>>().into(), size)
        }
        Operation::Removexattr { name } => answers
            .tree
            .get_mut(node)?
            .xattrs
            .remove(name)
            .map(|_| Reply::Done)
            .ok_or(Errno::ENODATA),
        // Locks between processes of one machine would be the kernel's own; here every caller gets
        // them.
        Operation::Getlk { .. } => Ok(Reply::Lock(None)),
        Operation::Setlk { .. }
        | Operation::Flush { .. }
        | Operation::Release { .. }
        | Operation::Releasedir { .. }
        | Operation::Fsync { .. }
        | Operation::Fsyncdir { .. }
        | Operation::Syncfs
        | Operation::Access { .. } => Ok(Reply::Done),
        Operation::Ioctl { .. } => Err(Errno::ENOTTY),
        Operation::Tmpfile { .. } => Err(Errno::EOPNOTSUPP),
        Operation::Bmap { .. }
        | Operation::Poll { .. }
        | Operation::Fallocate { .. }
        | Operation::Lseek { .. }
        | Operation::CopyFileRange { .. }
        | Operation::Interrupt { .. }
        | Operation::Init { .. }
        | Operation::Destroy
        | Operation::Unsupported => Err(Errno::ENOSYS),
    }
}

struct Answers<'a> {
    tree: &'a mut Tree,
    config: &'a NullConfig,
    now: Timestamp,
    request: &'a Request<'a>,
}

impl Answers<'_> {
    fn lookup(&mut self, parent: u64, name: &[u8]) -> Result<Reply> {
        match self.tree.directory(parent)?.0.get(name) {
            Some(node) => Ok(Reply::Entry(self.found(node)?)),
            None if self.config.valid.is_zero() => Err(Errno::ENOENT),
            // The kernel may remember that there is no such name.
            None => Ok(Reply::Entry(Entry { entry_valid: self.config.valid, ..dot_entry() })),
        }
    }

    /// An entry for the kernel, which counts a reference.
    fn found(&mut self, node: u64) -> Result<Entry> {
        let found = self.tree.get_mut(node)?;
        found.lookups += 1;
        let attr = Some(found.attr);
        let valid = self.config.valid;
        Ok(Entry { node, generation: 0, ino: node, attr, entry_valid: valid, attr_valid: valid })
    }

    fn stat(&self, node: u64) -> Result<Stat> {
        Ok(Stat { attr: self.tree.get(node)?.attr, ino: node, valid: self.config.valid })
    }

    fn set_attr(&mut self, node: u64, set: &SetAttr) -> Result<Reply> {
        if let Some(size) = set.size {
            self.tree.truncate(node, size, self.now)?;
        }
        let now = self.now;
        change(&mut self.tree.get_mut(node)?.attr, set, now);
        Ok(Reply::Attr(self.stat(node)?))
    }

    fn make(
        &mut self,
        parent: u64,
        name: &[u8],
        mode: u32,
        rdev: u32,
        body: Body,
    ) -> Result<Entry> {
        if self.tree.directory(parent)?.0.get(name).is_some() {
            return Err(Errno::EEXIST);
        }
        let header = &self.request.header;
        let node = self.tree.add(mode, (header.uid, header.gid), rdev, body, self.now);
        self.tree.enter(parent, name, node, self.now)?;
        self.found(node)
    }

    fn rename(
        &mut self,
        parent: u64,
        name: &[u8],
        new_parent: u64,
        new_name: &[u8],
        flags: u32,
    ) -> Result<()> {
        if flags & !libc::RENAME_NOREPLACE != 0 {
            return Err(Errno::EINVAL);
        }
        let moved = self.tree.directory(parent)?.0.get(name).ok_or(Errno::ENOENT)?;
        match self.tree.directory(new_parent)?.0.get(new_name) {
            Some(_) if flags & libc::RENAME_NOREPLACE != 0 => return Err(Errno::EEXIST),
            Some(same) if same == moved => return Ok(()),
            Some(old) => {
                let is_dir = self.tree.get(old)?.attr.is_dir();
                self.tree.leave(new_parent, new_name, is_dir, self.now)?;
            }
            None => {}
        }
        let is_dir = self.tree.get(moved)?.attr.is_dir();
        let (directory, attr) = self.tree.directory(parent)?;
        directory.remove(name);
        (attr.mtime, attr.ctime) = (self.now, self.now);
        attr.nlink -= u32::from(is_dir);
        if is_dir {
            self.tree.directory(moved)?.0.parent = new_parent;
        }
        self.tree.enter(new_parent, new_name, moved, self.now)
    }

    fn list(&mut self, node: u64, position: u64, size: u32, plus: bool) -> Result<Reply> {
        let mut listing = Listing::new(size);
        let parent = self.tree.directory(node)?.0.parent;
        let mut add = |tree: &mut Tree, next: u64, name: &[u8], child: u64| {
            let kind = tree.kind(child);
            if !plus {
                return listing.push(child, next, kind, name);
            }
            if next < Directory::FIRST {
                return listing.push_plus(&dot_entry(), child, next, kind, name);
            }
            let Ok(found) = tree.get_mut(child) else { return true };
            let valid = self.config.valid;
            let attr = Some(found.attr);
            let entry = Entry {
                node: child,
                generation: 0,
                ino: child,
                attr,
                entry_valid: valid,
                attr_valid: valid,
            };
            let added = listing.push_plus(&entry, child, next, kind, name);
            found.lookups += u64::from(added);
            added
        };
        if position < 1 && !add(self.tree, 1, b".", node)
            || position < 2 && !add(self.tree, 2, b"..", parent)
        {
            return Ok(Reply::Data(listing.into_bytes()));
        }
        // At most one listing's worth of names is copied: the smallest record has 32 bytes.
        let names: Vec<(u64, Box<[u8]>, u64)> = {
            let directory = &*self.tree.directory(node)?.0;
            let after = position.max(Directory::FIRST - 1);
            directory
                .from(after)
                .take(size as usize / 32 + 1)
                .map(|(at, name, id)| (at, name.into(), id))
                .collect()
        };
        for (next, name, child) in names {
            if !add(self.tree, next, &name, child) {
                break;
            }
        }
        Ok(Reply::Data(listing.into_bytes()))
    }
}

fn change(attr: &mut Attr, set: &SetAttr, now: Timestamp) {
    let time = |set: Option<SetTime>, old: Timestamp| match set {
        Some(SetTime::Now) => now,
        Some(SetTime::At(time)) => time,
        None => old,
    };
    attr.mode =
        set.mode.map_or(attr.mode, |mode| (attr.mode & libc::S_IFMT) | (mode & !libc::S_IFMT));
    attr.uid = set.uid.unwrap_or(attr.uid);
    attr.gid = set.gid.unwrap_or(attr.gid);
    attr.atime = time(set.atime, attr.atime);
    attr.mtime = time(set.mtime, attr.mtime);
    attr.ctime = now;
}
