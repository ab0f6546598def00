//! Inodes and names in memory.

use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use types::attr::{Attr, FileType};
use types::errno::Errno;
use types::fid::Fid;
use types::time::Timestamp;

/// Node id of the root.
pub(super) const ROOT: u64 = 1;
/// Largest file, as the kernel can say it.
const FILE_BYTES_MAX: u64 = types::limits::FILE_BYTES_MAX;

/// One inode.
pub(super) struct Node {
    pub(super) attr: Attr,
    pub(super) body: Body,
    /// References that the kernel holds.
    pub(super) lookups: u64,
    pub(super) xattrs: BTreeMap<Vec<u8>, Bytes>,
}

/// Content of an inode.
pub(super) enum Body {
    File(Vec<u8>),
    Directory(Directory),
    Symlink(Bytes),
    /// Devices, FIFOs, sockets.
    Special,
}

/// Names of a directory, by name and in the order of their making (which is what READDIR's
/// positions count).
pub(super) struct Directory {
    pub(super) parent: u64,
    by_name: HashMap<Box<[u8]>, (u64, u64)>,
    by_order: BTreeMap<u64, (Box<[u8]>, u64)>,
    next: u64,
}

impl Directory {
    /// Positions 1 and 2 are behind `.` and `..`.
    pub(super) const FIRST: u64 = 3;

    fn new(parent: u64) -> Directory {
        Directory { parent, by_name: HashMap::new(), by_order: BTreeMap::new(), next: Self::FIRST }
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<u64> {
        self.by_name.get(name).map(|(_, node)| *node)
    }

    pub(super) fn insert(&mut self, name: &[u8], node: u64) {
        self.by_name.insert(name.into(), (self.next, node));
        self.by_order.insert(self.next, (name.into(), node));
        self.next += 1;
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> Option<u64> {
        let (order, node) = self.by_name.remove(name)?;
        self.by_order.remove(&order);
        Some(node)
    }

    /// (position behind the entry, name, node) from a position on.
    pub(super) fn from(&self, position: u64) -> impl Iterator<Item = (u64, &[u8], u64)> {
        self.by_order.range(position + 1..).map(|(order, (name, node))| (*order, &**name, *node))
    }
}

/// All inodes.
pub(super) struct Tree {
    nodes: HashMap<u64, Node>,
    next: u64,
    kept_bytes_max: usize,
}

impl Tree {
    pub(super) fn new(now: Timestamp, kept_bytes_max: usize) -> Tree {
        let mut tree = Tree { nodes: HashMap::new(), next: ROOT, kept_bytes_max };
        let root =
            tree.add(libc::S_IFDIR | 0o755, (0, 0), 0, Body::Directory(Directory::new(ROOT)), now);
        debug_assert_eq!(root, ROOT);
        tree
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn get(&self, node: u64) -> Result<&Node, Errno> {
        self.nodes.get(&node).ok_or(Errno::ESTALE)
    }

    pub(super) fn get_mut(&mut self, node: u64) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&node).ok_or(Errno::ESTALE)
    }

    pub(super) fn directory(&mut self, node: u64) -> Result<(&mut Directory, &mut Attr), Errno> {
        match self.get_mut(node)? {
            Node { body: Body::Directory(directory), attr, .. } => Ok((directory, attr)),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub(super) fn file(&mut self, node: u64) -> Result<(&mut Vec<u8>, &mut Attr), Errno> {
        match self.get_mut(node)? {
            Node { body: Body::File(data), attr, .. } => Ok((data, attr)),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(super) fn new_directory(parent: u64) -> Body {
        Body::Directory(Directory::new(parent))
    }

    pub(super) fn add(
        &mut self,
        mode: u32,
        (uid, gid): (u32, u32),
        rdev: u32,
        body: Body,
        now: Timestamp,
    ) -> u64 {
        let node = self.next;
        self.next += 1;
        let size = match &body {
            Body::Symlink(target) => target.len() as u64,
            _ => 0,
        };
        let nlink = if matches!(body, Body::Directory(_)) { 2 } else { 1 };
        // The inode number that programs see is the node id; the FID is only there to be one.
        let attr = Attr {
            fid: Fid { seq: Fid::SEQ_NORMAL, oid: node as u32, ver: 0 },
            mode,
            uid,
            gid,
            nlink,
            rdev,
            size,
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            version: 0,
        };
        self.nodes.insert(node, Node { attr, body, lookups: 0, xattrs: BTreeMap::new() });
        node
    }

    /// Gives a new inode its name.
    pub(super) fn enter(
        &mut self,
        parent: u64,
        name: &[u8],
        node: u64,
        now: Timestamp,
    ) -> Result<(), Errno> {
        let is_dir = self.get(node)?.attr.is_dir();
        let (directory, attr) = self.directory(parent)?;
        directory.insert(name, node);
        (attr.mtime, attr.ctime) = (now, now);
        attr.nlink += u32::from(is_dir);
        Ok(())
    }

    /// Takes a name away and with the last one, if the kernel holds no reference, the inode.
    pub(super) fn leave(
        &mut self,
        parent: u64,
        name: &[u8],
        dir: bool,
        now: Timestamp,
    ) -> Result<(), Errno> {
        let node = self.directory(parent)?.0.get(name).ok_or(Errno::ENOENT)?;
        match (&self.get(node)?.body, dir) {
            (Body::Directory(inner), true) if !inner.by_name.is_empty() => {
                return Err(Errno::ENOTEMPTY);
            }
            (Body::Directory(_), true) => {}
            (Body::Directory(_), false) => return Err(Errno::EISDIR),
            (_, true) => return Err(Errno::ENOTDIR),
            (_, false) => {}
        }
        let (directory, attr) = self.directory(parent)?;
        directory.remove(name);
        (attr.mtime, attr.ctime) = (now, now);
        attr.nlink -= u32::from(dir);
        let gone = self.get_mut(node)?;
        gone.attr.nlink = if dir { 0 } else { gone.attr.nlink - 1 };
        gone.attr.ctime = now;
        self.reap(node);
        Ok(())
    }

    pub(super) fn forget(&mut self, node: u64, lookups: u64) {
        if let Some(known) = self.nodes.get_mut(&node) {
            known.lookups = known.lookups.saturating_sub(lookups);
            self.reap(node);
        }
    }

    fn reap(&mut self, node: u64) {
        if node != ROOT
            && self.nodes.get(&node).is_some_and(|n| n.attr.nlink == 0 && n.lookups == 0)
        {
            self.nodes.remove(&node);
        }
    }

    pub(super) fn write(
        &mut self,
        node: u64,
        offset: u64,
        data: &[u8],
        now: Timestamp,
    ) -> Result<u32, Errno> {
        let kept_max = self.kept_bytes_max as u64;
        let (kept, attr) = self.file(node)?;
        let end = offset
            .checked_add(data.len() as u64)
            .filter(|end| *end <= FILE_BYTES_MAX)
            .ok_or(Errno::EFBIG)?;
        // Both are at most kept_bytes_max, so they fit a usize.
        let (from, to) = (offset.min(kept_max) as usize, end.min(kept_max) as usize);
        if from < to {
            if kept.len() < to {
                kept.resize(to, 0);
            }
            kept[from..to].copy_from_slice(&data[..to - from]);
        }
        attr.size = attr.size.max(end);
        attr.blocks = attr.size.div_ceil(512);
        (attr.mtime, attr.ctime) = (now, now);
        Ok(data.len() as u32)
    }

    pub(super) fn read(&mut self, node: u64, offset: u64, size: u32) -> Result<Bytes, Errno> {
        let (kept, attr) = self.file(node)?;
        let end = offset.saturating_add(u64::from(size)).min(attr.size);
        let len = end.saturating_sub(offset) as usize;
        if len == 0 {
            return Ok(Bytes::new());
        }
        let known = kept.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
        if known.is_empty() && len <= ZEROS.len() {
            return Ok(Bytes::from_static(&ZEROS[..len]));
        }
        let mut data = known[..known.len().min(len)].to_vec();
        data.resize(len, 0);
        Ok(data.into())
    }

    pub(super) fn truncate(&mut self, node: u64, size: u64, now: Timestamp) -> Result<(), Errno> {
        let (kept, attr) = self.file(node)?;
        kept.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        attr.size = size;
        attr.blocks = size.div_ceil(512);
        (attr.mtime, attr.ctime) = (now, now);
        Ok(())
    }

    pub(super) fn kind(&self, node: u64) -> FileType {
        self.nodes.get(&node).map_or(FileType::Regular, |n| n.attr.file_type())
    }
}

/// Dropped data reads as this; as long as the largest READ.
static ZEROS: [u8; crate::init::MAX_WRITE as usize] = [0; crate::init::MAX_WRITE as usize];
