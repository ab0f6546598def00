//! Answers, in the client's words, and their bytes.
//!
//! A reply is a small head, built on the stack, and for data a `Bytes` that goes out with `writev`
//! uncopied.

use crate::abi::inbound::FileLock;
use crate::abi::outbound::*;
use crate::notification::Notification;
use bytes::Bytes;
use client::kernel::Token;
use std::sync::Arc;
use std::time::Duration;
use types::attr::{Attr, Statfs};
use types::errno::Errno;
use types::lock::{Flock, FlockKind};
use types::name::NAME_BYTES_MAX;
use types::time::Timestamp;
use zerocopy::{FromZeros, IntoBytes};

/// `st_blksize`. It sizes the buffers of stdio: 64 KiB makes a sixteenth of the WRITE requests of 4
/// KiB, and small files do not pay for a larger one.
pub const BLOCK_SIZE: u32 = 64 << 10;
/// `st_blksize` of directories. It sizes the buffers of getdents(2) in C libraries: 1 MiB, the most
/// that the kernel asks for at once, is one READDIR request for some 6,000 names.
pub const DIRECTORY_BLOCK_SIZE: u32 = 1 << 20;

/// Unit of statfs, bytes.
pub const STATFS_UNIT: u64 = 4096;

/// An inode that a name led to. Counts one reference at the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// Node id; 0 = there is no such name, which the kernel may remember for `entry_valid`.
    pub node: u64,
    /// Tells apart inodes that get the same node id one after the other.
    pub generation: u64,
    /// Inode number that programs see.
    pub ino: u64,
    /// Attributes; not meant if `node` is 0.
    pub attr: Option<Attr>,
    /// How long the name needs no LOOKUP.
    pub entry_valid: Duration,
    /// How long the attributes need no GETATTR.
    pub attr_valid: Duration,
}

/// Attributes, and how long they need no GETATTR.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stat {
    /// Attributes.
    pub attr: Attr,
    /// Inode number that programs see.
    pub ino: u64,
    /// How long the attributes need no GETATTR.
    pub valid: Duration,
}

/// An open file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Comes back with each request on it.
    pub handle: u64,
    /// `abi::flags::open`
    pub flags: u32,
}

/// The answer to a request.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "named for the requests they answer")]
pub enum Reply {
    /// Success, nothing more.
    Done,
    /// No message at all (FORGET).
    Nothing,
    Entry(Entry),
    Attr(Stat),
    Statx(Stat),
    Opened(Opened),
    Created(Entry, Opened),
    /// READ, READLINK, READDIR, xattr values and lists.
    Data(Bytes),
    /// READ, in pieces.
    Pieces(Vec<Bytes>),
    /// WRITE; the kernel is told `then` once it has this answer.
    Written {
        bytes: u32,
        then: Option<Notification>,
    },
    Statfs(Statfs),
    XattrSize {
        bytes: u32,
    },
    /// GETLK: the lock in the way, or none.
    Lock(Option<Flock>),
    Block(u64),
    Ioctl {
        result: i32,
        data: Bytes,
    },
    Poll {
        events: u32,
    },
    Offset(u64),
    Copied64(u64),
    /// An answer that the kernel may trust; the token is held until the kernel has it.
    Told(Box<Reply>, Arc<Token>),
}

impl Reply {
    /// An xattr value or list for a caller with `size` bytes of room; with 0 only how long it is.
    ///
    /// # Errors
    /// ERANGE: it does not fit.
    pub fn sized(value: Bytes, size: u32) -> Result<Reply, Errno> {
        match size {
            0 => Ok(Reply::XattrSize { bytes: value.len() as u32 }),
            size if value.len() > size as usize => Err(Errno::ERANGE),
            _ => Ok(Reply::Data(value)),
        }
    }
}

/// Longest head: header, entry, open.
const HEAD_BYTES_MAX: usize = size_of::<OutHeader>() + size_of::<StatxOut>();

/// Bytes of a reply: head (with header), then data.
#[derive(Debug)]
pub struct Encoded {
    head: [u8; HEAD_BYTES_MAX],
    head_len: usize,
    /// Goes behind the head.
    pub data: Data,
}

/// Data of a reply.
#[derive(Debug)]
pub enum Data {
    /// In one piece, or none.
    One(Bytes),
    /// In several.
    Pieces(Vec<Bytes>),
}

impl Data {
    /// All pieces in order.
    pub fn pieces(&self) -> &[Bytes] {
        match self {
            Data::One(bytes) => std::slice::from_ref(bytes),
            Data::Pieces(pieces) => pieces,
        }
    }

    fn len(&self) -> usize {
        self.pieces().iter().map(Bytes::len).sum()
    }
}

impl Encoded {
    /// Header and structs.
    pub fn head(&self) -> &[u8] {
        &self.head[..self.head_len]
    }

    fn new() -> Encoded {
        Encoded {
            head: [0; HEAD_BYTES_MAX],
            head_len: size_of::<OutHeader>(),
            data: Data::One(Bytes::new()),
        }
    }

    fn push(&mut self, part: &[u8]) {
        self.head[self.head_len..self.head_len + part.len()].copy_from_slice(part);
        self.head_len += part.len();
    }

    fn finish(mut self, unique: u64, error: i32) -> Encoded {
        let header = OutHeader { len: (self.head_len + self.data.len()) as u32, error, unique };
        self.head[..size_of::<OutHeader>()].copy_from_slice(header.as_bytes());
        self
    }
}

/// The answer to request `unique`; `None` if none is to be sent.
pub fn encode(unique: u64, result: Result<Reply, Errno>) -> Option<Encoded> {
    let mut out = Encoded::new();
    let reply = match result {
        Ok(reply) => reply,
        Err(errno) => return Some(out.finish(unique, -errno.0)),
    };
    match reply {
        Reply::Told(reply, _) => return encode(unique, Ok(*reply)),
        Reply::Nothing => return None,
        Reply::Done => {}
        Reply::Entry(entry) => out.push(entry_out(&entry).as_bytes()),
        Reply::Attr(stat) => out.push(attr_out(&stat).as_bytes()),
        Reply::Statx(stat) => out.push(statx_out(&stat).as_bytes()),
        Reply::Opened(opened) => out.push(open_out(opened).as_bytes()),
        Reply::Created(entry, opened) => {
            out.push(entry_out(&entry).as_bytes());
            out.push(open_out(opened).as_bytes());
        }
        Reply::Data(data) => out.data = Data::One(data),
        Reply::Pieces(pieces) => out.data = Data::Pieces(pieces),
        Reply::Written { bytes, then: _ } => {
            out.push(WriteOut { size: bytes, padding: 0 }.as_bytes())
        }
        Reply::Statfs(statfs) => out.push(statfs_out(&statfs).as_bytes()),
        Reply::XattrSize { bytes } => out.push(GetxattrOut { size: bytes, padding: 0 }.as_bytes()),
        Reply::Lock(lock) => out.push(lock_out(lock).as_bytes()),
        Reply::Block(block) => out.push(BmapOut { block }.as_bytes()),
        Reply::Ioctl { result, data } => {
            out.push(IoctlOut { result, flags: 0, in_iovs: 0, out_iovs: 0 }.as_bytes());
            out.data = Data::One(data);
        }
        Reply::Poll { events } => out.push(PollOut { revents: events, padding: 0 }.as_bytes()),
        Reply::Offset(offset) => out.push(LseekOut { offset }.as_bytes()),
        Reply::Copied64(bytes_copied) => out.push(CopyFileRangeOut { bytes_copied }.as_bytes()),
    }
    Some(out.finish(unique, 0))
}

/// An entry's bytes.
pub fn entry_out(entry: &Entry) -> EntryOut {
    EntryOut {
        nodeid: entry.node,
        generation: entry.generation,
        entry_valid: entry.entry_valid.as_secs(),
        attr_valid: entry.attr_valid.as_secs(),
        entry_valid_nsec: entry.entry_valid.subsec_nanos(),
        attr_valid_nsec: entry.attr_valid.subsec_nanos(),
        attr: entry
            .attr
            .as_ref()
            .map_or_else(AttrWire::new_zeroed, |attr| attr_wire(attr, entry.ino)),
    }
}

fn open_out(opened: Opened) -> OpenOut {
    OpenOut { fh: opened.handle, open_flags: opened.flags, backing_id: 0 }
}

fn attr_out(stat: &Stat) -> AttrOut {
    AttrOut {
        attr_valid: stat.valid.as_secs(),
        attr_valid_nsec: stat.valid.subsec_nanos(),
        dummy: 0,
        attr: attr_wire(&stat.attr, stat.ino),
    }
}

fn block_size(attr: &Attr) -> u32 {
    if attr.is_dir() { DIRECTORY_BLOCK_SIZE } else { BLOCK_SIZE }
}

fn attr_wire(attr: &Attr, ino: u64) -> AttrWire {
    AttrWire {
        ino,
        size: attr.size,
        blocks: attr.blocks,
        // Times before 1970 travel as two's complement.
        atime: attr.atime.sec as u64,
        mtime: attr.mtime.sec as u64,
        ctime: attr.ctime.sec as u64,
        atimensec: attr.atime.nsec,
        mtimensec: attr.mtime.nsec,
        ctimensec: attr.ctime.nsec,
        mode: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: block_size(attr),
        flags: 0,
    }
}

fn statx_out(answer: &Stat) -> StatxOut {
    let Stat { attr, ino, valid } = answer;
    let time = |t: Timestamp| StatxTime { sec: t.sec, nsec: t.nsec, reserved: 0 };
    let stat = StatxWire {
        mask: libc::STATX_BASIC_STATS | libc::STATX_BTIME,
        blksize: block_size(attr),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        mode: attr.mode as u16,
        ino: *ino,
        size: attr.size,
        blocks: attr.blocks,
        atime: time(attr.atime),
        btime: time(attr.btime),
        ctime: time(attr.ctime),
        mtime: time(attr.mtime),
        // The kernel's 32-bit form: minor 7..0 and 31..20, major 19..8.
        rdev_major: (attr.rdev >> 8) & 0xfff,
        rdev_minor: (attr.rdev & 0xff) | ((attr.rdev >> 12) & 0xfff00),
        ..StatxWire::new_zeroed()
    };
    StatxOut {
        attr_valid: valid.as_secs(),
        attr_valid_nsec: valid.subsec_nanos(),
        flags: 0,
        spare: [0; 2],
        stat,
    }
}

fn statfs_out(statfs: &Statfs) -> StatfsOut {
    StatfsOut {
        blocks: statfs.bytes_total / STATFS_UNIT,
        bfree: statfs.bytes_free / STATFS_UNIT,
        bavail: statfs.bytes_available / STATFS_UNIT,
        files: statfs.files_total,
        ffree: statfs.files_free,
        bsize: STATFS_UNIT as u32,
        namelen: NAME_BYTES_MAX as u32,
        frsize: STATFS_UNIT as u32,
        ..StatfsOut::new_zeroed()
    }
}

fn lock_out(lock: Option<Flock>) -> LkOut {
    let Some(lock) = lock else {
        return LkOut { lk: FileLock { start: 0, end: 0, kind: libc::F_UNLCK as u32, pid: 0 } };
    };
    let kind = match lock.kind {
        FlockKind::Read => libc::F_RDLCK,
        FlockKind::Write => libc::F_WRLCK,
        FlockKind::Unlock => libc::F_UNLCK,
    };
    // The kernel refuses positions above OFFSET_MAX.
    let end = lock.end.min(i64::MAX as u64);
    LkOut { lk: FileLock { start: lock.start, end, kind: kind as u32, pid: lock.pid } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::fid::Fid;
    use types::lock::FlockFlavor;
    use zerocopy::FromBytes;

    fn attr() -> Attr {
        let t = Timestamp { sec: -1, nsec: 5 };
        Attr {
            fid: Fid { seq: 0x2_0000_0400, oid: 3, ver: 0 },
            mode: 0o100644,
            uid: 10,
            gid: 11,
            nlink: 2,
            rdev: (0x12 << 8) | 0x34,
            size: 99,
            blocks: 8,
            atime: t,
            mtime: t,
            ctime: t,
            btime: t,
            version: 0,
        }
    }

    #[test]
    fn errors_are_a_bare_header() {
        let out = encode(6, Err(Errno::ENOENT)).unwrap();
        assert_eq!(out.head(), [16, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 6, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn values_fit_or_tell_their_size() {
        let value = Bytes::from_static(b"abc");
        assert!(matches!(Reply::sized(value.clone(), 0), Ok(Reply::XattrSize { bytes: 3 })));
        assert!(matches!(Reply::sized(value.clone(), 2), Err(Errno::ERANGE)));
        assert!(matches!(Reply::sized(value, 3), Ok(Reply::Data(data)) if data == "abc"));
    }

    #[test]
    fn data_is_counted_and_not_copied() {
        let data = Bytes::from(vec![1u8; 5000]);
        let out = encode(6, Ok(Reply::Data(data.clone()))).unwrap();
        assert_eq!(out.head()[..4], 5016u32.to_le_bytes());
        assert_eq!(out.data.pieces()[0].as_ptr(), data.as_ptr());
        let out = encode(6, Ok(Reply::Pieces(vec![data.clone(), data]))).unwrap();
        assert_eq!(out.head()[..4], 10016u32.to_le_bytes());
    }

    #[test]
    fn every_reply_has_the_length_it_says() {
        let entry = Entry {
            node: 2,
            generation: 0,
            ino: 77,
            attr: Some(attr()),
            entry_valid: Duration::from_millis(1500),
            attr_valid: Duration::MAX,
        };
        let stat = Stat { attr: attr(), ino: 77, valid: Duration::ZERO };
        let opened = Opened { handle: 4, flags: 2 };
        let flock = Flock {
            flavor: FlockFlavor::Posix,
            kind: FlockKind::Read,
            owner: 1,
            pid: 2,
            start: 3,
            end: u64::MAX,
        };
        let cases = [
            (Reply::Done, 0),
            (Reply::Entry(entry), 128),
            (Reply::Attr(stat), 104),
            (Reply::Statx(stat), 288),
            (Reply::Opened(opened), 16),
            (Reply::Created(entry, opened), 144),
            (Reply::Written { bytes: 7, then: None }, 8),
            (Reply::Statfs(Statfs::default()), 80),
            (Reply::XattrSize { bytes: 7 }, 8),
            (Reply::Lock(Some(flock)), 24),
            (Reply::Lock(None), 24),
            (Reply::Block(7), 8),
            (Reply::Ioctl { result: 0, data: Bytes::new() }, 16),
            (Reply::Poll { events: 0 }, 8),
            (Reply::Offset(7), 8),
            (Reply::Copied64(7), 8),
        ];
        for (reply, body) in cases {
            let text = format!("{reply:?}");
            let out = encode(1, Ok(reply)).unwrap();
            assert_eq!(out.head().len(), 16 + body, "{text}");
            assert_eq!(out.head()[..4], (16 + body as u32).to_le_bytes(), "{text}");
        }
        assert!(encode(1, Ok(Reply::Nothing)).is_none());
    }

    #[test]
    fn statx_splits_device_numbers_and_keeps_birth() {
        let out = encode(
            1,
            Ok(Reply::Statx(Stat { attr: attr(), ino: 77, valid: Duration::from_secs(3) })),
        )
        .unwrap();
        let statx = StatxOut::read_from_bytes(&out.head()[16..]).unwrap();
        assert_eq!(
            (statx.attr_valid, statx.stat.rdev_major, statx.stat.rdev_minor),
            (3, 0x12, 0x34)
        );
        assert_eq!((statx.stat.ino, statx.stat.btime.sec), (77, -1));
        assert_ne!(statx.stat.mask & libc::STATX_BTIME, 0);
    }
}
