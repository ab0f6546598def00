//! The typed requests, and what is wrong with bytes that are none.

use crate::abi::inbound::*;
use crate::abi::opcode::Opcode;
use bytes::Bytes;
use types::attr::SetAttr;
use types::lock::Flock;
use zerocopy::FromBytes;

/// The message is none the kernel may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// Shorter than its header, or than its header says.
    #[error("message of {got} bytes says that it has {said}")]
    Length {
        /// Length in the header, bytes.
        said: u32,
        /// Length of the message, bytes.
        got: usize,
    },
    /// The body ends before its fields do.
    #[error("{opcode:?}: body ends too early")]
    Truncated {
        /// The request.
        opcode: Opcode,
    },
    /// A name has no NUL, or is empty.
    #[error("{opcode:?}: bad name")]
    Name {
        /// The request.
        opcode: Opcode,
    },
    /// A field has a value that means nothing.
    #[error("{opcode:?}: {field} is {value}")]
    Field {
        /// The request.
        opcode: Opcode,
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// Unknown opcode.
    #[error("unknown opcode {0}")]
    Opcode(u32),
}

/// A request with its caller.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The header as it came.
    pub header: InHeader,
    /// Kind.
    pub opcode: Opcode,
    /// The operation that is asked for.
    pub operation: Operation<'a>,
    /// The caller's supplementary group that owns the parent directory, where the kernel sends it
    /// (creates).
    pub extra_group: Option<u32>,
    /// The whole message, if it may be shared instead of copied.
    pub(super) whole: Option<&'a Bytes>,
}

impl Request<'_> {
    /// An owned copy of a part of this message; large messages are shared, not copied.
    pub fn to_bytes(&self, part: &[u8]) -> Bytes {
        match self.whole {
            Some(whole) => whole.slice_ref(part),
            None => Bytes::copy_from_slice(part),
        }
    }

    /// Makes [`Request::to_bytes`] share `whole`, which must be the message that this request was
    /// decoded from.
    pub fn share<'b>(self, whole: &'b Bytes) -> Request<'b>
    where
        Self: 'b,
    {
        Request { whole: Some(whole), ..self }
    }
}

/// The operations of the kernel. Times and locks are already in the client's types.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the fields are those of the system calls")]
pub enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    Forget {
        lookups: u64,
    },
    BatchForget {
        nodes: Forgets<'a>,
    },
    Getattr {
        handle: Option<u64>,
    },
    Statx {
        handle: Option<u64>,
        mask: u32,
    },
    Setattr {
        set: SetAttr,
        handle: Option<u64>,
        lock_owner: Option<u64>,
    },
    Readlink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Mknod {
        name: &'a [u8],
        mode: u32,
        rdev: u32,
        umask: u32,
    },
    Mkdir {
        name: &'a [u8],
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: &'a [u8],
    },
    Rmdir {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        new_parent: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    Link {
        node: u64,
        new_name: &'a [u8],
    },
    Open {
        flags: u32,
        kill_suidgid: bool,
    },
    Create {
        name: &'a [u8],
        flags: u32,
        mode: u32,
        umask: u32,
        kill_suidgid: bool,
    },
    Tmpfile {
        flags: u32,
        mode: u32,
        umask: u32,
    },
    Read {
        handle: u64,
        offset: u64,
        size: u32,
        flags: u32,
        from_page_cache: bool,
    },
    Write {
        handle: u64,
        offset: u64,
        data: &'a [u8],
        flags: u32,
        from_page_cache: bool,
        kill_suidgid: bool,
    },
    Statfs,
    Flush {
        handle: u64,
        lock_owner: u64,
    },
    Release {
        handle: u64,
        flags: u32,
        flock_owner: Option<u64>,
        lock_owner: u64,
    },
    Fsync {
        handle: u64,
        data_only: bool,
    },
    Setxattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
        kill_sgid: bool,
    },
    Getxattr {
        name: &'a [u8],
        size: u32,
    },
    Listxattr {
        size: u32,
    },
    Removexattr {
        name: &'a [u8],
    },
    Opendir {
        flags: u32,
    },
    Readdir {
        handle: u64,
        offset: u64,
        size: u32,
        flags: u32,
    },
    Readdirplus {
        handle: u64,
        offset: u64,
        size: u32,
        flags: u32,
    },
    Releasedir {
        handle: u64,
    },
    Fsyncdir {
        handle: u64,
        data_only: bool,
    },
    Getlk {
        handle: u64,
        lock: Flock,
    },
    Setlk {
        handle: u64,
        lock: Flock,
        wait: bool,
    },
    Access {
        mask: u32,
    },
    Interrupt {
        unique: u64,
    },
    Bmap {
        block: u64,
        block_size: u32,
    },
    Ioctl {
        handle: u64,
        flags: u32,
        command: u32,
        argument: u64,
        input: &'a [u8],
        output_size: u32,
    },
    Poll {
        handle: u64,
        kernel_handle: u64,
        flags: u32,
        events: u32,
    },
    Fallocate {
        handle: u64,
        offset: u64,
        length: u64,
        mode: u32,
    },
    Lseek {
        handle: u64,
        offset: u64,
        whence: u32,
    },
    CopyFileRange {
        from: CopyEnd,
        to: CopyEnd,
        length: u64,
        flags: u64,
        wide: bool,
    },
    Syncfs,
    Init {
        init: InitIn,
        flags2: u32,
    },
    Destroy,
    /// Known by number only: answered ENOSYS.
    Unsupported,
}

/// One end of a copy_file_range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyEnd {
    /// Node id.
    pub node: u64,
    /// Open handle.
    pub handle: u64,
    /// First byte.
    pub offset: u64,
}

/// (node id, references to drop) pairs of a BATCH_FORGET.
#[derive(Debug, Clone, Copy)]
pub struct Forgets<'a>(pub(super) &'a [u8]);

impl<'a> Forgets<'a> {
    /// The pairs in order.
    pub fn iter(self) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.0.chunks_exact(size_of::<ForgetOne>()).filter_map(|one| {
            let one = ForgetOne::read_from_bytes(one).ok()?;
            Some((one.nodeid, one.nlookup))
        })
    }
}

/// What a decoder must know of the negotiation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dialect {
    /// SETXATTR has its long form.
    pub setxattr_ext: bool,
}
