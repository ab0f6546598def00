//! Turns one message from /dev/fuse into one typed request.
//!
//! The kernel is trusted, but a decoder that checks costs nothing. Whatever the bytes are, the
//! answer is a request or a [`BadRequest`], never a panic, and nothing is allocated. Names and data
//! are borrowed from the message; large data can be kept without a copy ([`Request::to_bytes`]).

use crate::abi::flags::{misc, setattr};
use crate::abi::inbound::*;
use crate::abi::opcode::Opcode;
use crate::abi::{EXT_GROUPS, RECORD_ALIGN};
use bytes::Bytes;
use types::attr::{SetAttr, SetTime};
use types::lock::{Flock, FlockFlavor, FlockKind};
use types::time::Timestamp;
use zerocopy::{FromBytes, Immutable, KnownLayout};

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
    whole: Option<&'a Bytes>,
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
pub struct Forgets<'a>(&'a [u8]);

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

/// Decodes the header only: enough to answer an error to a message whose rest is wrong.
pub fn header(message: &[u8]) -> Result<InHeader, BadRequest> {
    let (header, _) = InHeader::read_from_prefix(message).map_err(|_| BadRequest::Length {
        said: size_of::<InHeader>() as u32,
        got: message.len(),
    })?;
    Ok(header)
}

/// Decodes one message.
///
/// # Errors
/// [`BadRequest`] describes the error; [`BadRequest::Opcode`] must be answered ENOSYS, the others
/// EIO.
pub fn request(message: &[u8], dialect: Dialect) -> Result<Request<'_>, BadRequest> {
    let header = header(message)?;
    let extensions_len = usize::from(header.total_extlen) * RECORD_ALIGN;
    let body_end =
        message.len().checked_sub(extensions_len).filter(|end| *end >= size_of::<InHeader>());
    let (Some(body_end), true) = (body_end, header.len as usize == message.len()) else {
        return Err(BadRequest::Length { said: header.len, got: message.len() });
    };
    let opcode = Opcode::from_number(header.opcode).ok_or(BadRequest::Opcode(header.opcode))?;
    let body = Body { rest: &message[size_of::<InHeader>()..body_end], opcode };
    let operation = operation(&header, opcode, dialect, body)?;
    let extra_group = extra_group(&message[body_end..]);
    Ok(Request { header, opcode, operation, extra_group, whole: None })
}

/// The unread rest of a message's body.
struct Body<'a> {
    rest: &'a [u8],
    opcode: Opcode,
}

impl<'a> Body<'a> {
    fn take<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Result<T, BadRequest> {
        let (value, rest) = T::read_from_prefix(self.rest)
            .map_err(|_| BadRequest::Truncated { opcode: self.opcode })?;
        self.rest = rest;
        Ok(value)
    }

    /// A NUL-terminated string that is not empty.
    fn name(&mut self) -> Result<&'a [u8], BadRequest> {
        let end = self
            .rest
            .iter()
            .position(|b| *b == 0)
            .ok_or(BadRequest::Name { opcode: self.opcode })?;
        let name = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        if name.is_empty() { Err(BadRequest::Name { opcode: self.opcode }) } else { Ok(name) }
    }

    fn bytes(&mut self, len: u64) -> Result<&'a [u8], BadRequest> {
        let len = usize::try_from(len).ok().filter(|len| *len <= self.rest.len());
        let (bytes, rest) =
            self.rest.split_at(len.ok_or(BadRequest::Truncated { opcode: self.opcode })?);
        self.rest = rest;
        Ok(bytes)
    }
}

fn operation<'a>(
    header: &InHeader,
    opcode: Opcode,
    dialect: Dialect,
    mut body: Body<'a>,
) -> Result<Operation<'a>, BadRequest> {
    Ok(match opcode {
        Opcode::Lookup => Operation::Lookup { name: body.name()? },
        Opcode::Forget => Operation::Forget { lookups: body.take::<ForgetIn>()?.nlookup },
        Opcode::BatchForget => {
            let count = u64::from(body.take::<BatchForgetIn>()?.count);
            Operation::BatchForget {
                nodes: Forgets(body.bytes(count * size_of::<ForgetOne>() as u64)?),
            }
        }
        Opcode::Getattr => {
            let asked = body.take::<GetattrIn>()?;
            Operation::Getattr {
                handle: (asked.getattr_flags & misc::GETATTR_FH != 0).then_some(asked.fh),
            }
        }
        Opcode::Statx => {
            let asked = body.take::<StatxIn>()?;
            let handle = (asked.getattr_flags & misc::GETATTR_FH != 0).then_some(asked.fh);
            Operation::Statx { handle, mask: asked.sx_mask }
        }
        Opcode::Setattr => {
            let asked = body.take::<SetattrIn>()?;
            Operation::Setattr {
                set: set_attr(&asked),
                handle: (asked.valid & setattr::FH != 0).then_some(asked.fh),
                lock_owner: (asked.valid & setattr::LOCKOWNER != 0).then_some(asked.lock_owner),
            }
        }
        Opcode::Readlink => Operation::Readlink,
        Opcode::Symlink => Operation::Symlink { name: body.name()?, target: body.name()? },
        Opcode::Mknod => {
            let asked = body.take::<MknodIn>()?;
            Operation::Mknod {
                name: body.name()?,
                mode: asked.mode,
                rdev: asked.rdev,
                umask: asked.umask,
            }
        }
        Opcode::Mkdir => {
            let asked = body.take::<MkdirIn>()?;
            Operation::Mkdir { name: body.name()?, mode: asked.mode, umask: asked.umask }
        }
        Opcode::Unlink => Operation::Unlink { name: body.name()? },
        Opcode::Rmdir => Operation::Rmdir { name: body.name()? },
        Opcode::Rename => {
            let new_parent = body.take::<RenameIn>()?.newdir;
            Operation::Rename { name: body.name()?, new_parent, new_name: body.name()?, flags: 0 }
        }
        Opcode::Rename2 => {
            let asked = body.take::<Rename2In>()?;
            let (new_parent, flags) = (asked.newdir, asked.flags);
            Operation::Rename { name: body.name()?, new_parent, new_name: body.name()?, flags }
        }
        Opcode::Link => {
            Operation::Link { node: body.take::<LinkIn>()?.oldnodeid, new_name: body.name()? }
        }
        Opcode::Open => {
            let asked = body.take::<OpenIn>()?;
            Operation::Open { flags: asked.flags, kill_suidgid: kills_suidgid(asked.open_flags) }
        }
        Opcode::Opendir => Operation::Opendir { flags: body.take::<OpenIn>()?.flags },
        Opcode::Create => {
            let asked = body.take::<CreateIn>()?;
            let kill_suidgid = kills_suidgid(asked.open_flags);
            let (flags, mode, umask) = (asked.flags, asked.mode, asked.umask);
            Operation::Create { name: body.name()?, flags, mode, umask, kill_suidgid }
        }
        Opcode::Tmpfile => {
            let asked = body.take::<CreateIn>()?;
            Operation::Tmpfile { flags: asked.flags, mode: asked.mode, umask: asked.umask }
        }
        Opcode::Read => {
            let asked = body.take::<ReadIn>()?;
            let from_page_cache = asked.read_flags & misc::READ_LOCKOWNER == 0;
            Operation::Read {
                handle: asked.fh,
                offset: asked.offset,
                size: asked.size,
                flags: asked.flags,
                from_page_cache,
            }
        }
        Opcode::Readdir => {
            let asked = body.take::<ReadIn>()?;
            Operation::Readdir {
                handle: asked.fh,
                offset: asked.offset,
                size: asked.size,
                flags: asked.flags,
            }
        }
        Opcode::Readdirplus => {
            let asked = body.take::<ReadIn>()?;
            Operation::Readdirplus {
                handle: asked.fh,
                offset: asked.offset,
                size: asked.size,
                flags: asked.flags,
            }
        }
        Opcode::Write => {
            let asked = body.take::<WriteIn>()?;
            Operation::Write {
                handle: asked.fh,
                offset: asked.offset,
                data: body.bytes(u64::from(asked.size))?,
                flags: asked.flags,
                from_page_cache: asked.write_flags & misc::WRITE_CACHE != 0,
                kill_suidgid: asked.write_flags & misc::WRITE_KILL_SUIDGID != 0,
            }
        }
        Opcode::Statfs => Operation::Statfs,
        Opcode::Flush => {
            let asked = body.take::<FlushIn>()?;
            Operation::Flush { handle: asked.fh, lock_owner: asked.lock_owner }
        }
        Opcode::Release => {
            let asked = body.take::<ReleaseIn>()?;
            Operation::Release {
                handle: asked.fh,
                flags: asked.flags,
                flock_owner: (asked.release_flags & misc::RELEASE_FLOCK_UNLOCK != 0)
                    .then_some(asked.lock_owner),
                lock_owner: asked.lock_owner,
            }
        }
        Opcode::Releasedir => Operation::Releasedir { handle: body.take::<ReleaseIn>()?.fh },
        Opcode::Fsync => {
            let asked = body.take::<FsyncIn>()?;
            Operation::Fsync {
                handle: asked.fh,
                data_only: asked.fsync_flags & misc::FSYNC_FDATASYNC != 0,
            }
        }
        Opcode::Fsyncdir => {
            let asked = body.take::<FsyncIn>()?;
            Operation::Fsyncdir {
                handle: asked.fh,
                data_only: asked.fsync_flags & misc::FSYNC_FDATASYNC != 0,
            }
        }
        Opcode::Setxattr => {
            let asked = body.take::<SetxattrIn>()?;
            let ext_flags =
                if dialect.setxattr_ext { body.take::<SetxattrExtIn>()?.setxattr_flags } else { 0 };
            let name = body.name()?;
            let value = body.bytes(u64::from(asked.size))?;
            let kill_sgid = ext_flags & misc::SETXATTR_ACL_KILL_SGID != 0;
            Operation::Setxattr { name, value, flags: asked.flags, kill_sgid }
        }
        Opcode::Getxattr => {
            let size = body.take::<GetxattrIn>()?.size;
            Operation::Getxattr { name: body.name()?, size }
        }
        Opcode::Listxattr => Operation::Listxattr { size: body.take::<GetxattrIn>()?.size },
        Opcode::Removexattr => Operation::Removexattr { name: body.name()? },
        Opcode::Getlk => {
            let asked = body.take::<LkIn>()?;
            Operation::Getlk { handle: asked.fh, lock: flock(opcode, &asked)? }
        }
        Opcode::Setlk | Opcode::Setlkw => {
            let asked = body.take::<LkIn>()?;
            Operation::Setlk {
                handle: asked.fh,
                lock: flock(opcode, &asked)?,
                wait: opcode == Opcode::Setlkw,
            }
        }
        Opcode::Access => Operation::Access { mask: body.take::<AccessIn>()?.mask },
        Opcode::Interrupt => Operation::Interrupt { unique: body.take::<InterruptIn>()?.unique },
        Opcode::Bmap => {
            let asked = body.take::<BmapIn>()?;
            Operation::Bmap { block: asked.block, block_size: asked.blocksize }
        }
        Opcode::Ioctl => {
            let asked = body.take::<IoctlIn>()?;
            Operation::Ioctl {
                handle: asked.fh,
                flags: asked.flags,
                command: asked.cmd,
                argument: asked.arg,
                input: body.bytes(u64::from(asked.in_size))?,
                output_size: asked.out_size,
            }
        }
        Opcode::Poll => {
            let asked = body.take::<PollIn>()?;
            let PollIn { fh: handle, kh: kernel_handle, flags, events } = asked;
            Operation::Poll { handle, kernel_handle, flags, events }
        }
        Opcode::Fallocate => {
            let FallocateIn { fh: handle, offset, length, mode, .. } =
                body.take::<FallocateIn>()?;
            Operation::Fallocate { handle, offset, length, mode }
        }
        Opcode::Lseek => {
            let LseekIn { fh: handle, offset, whence, .. } = body.take::<LseekIn>()?;
            Operation::Lseek { handle, offset, whence }
        }
        Opcode::CopyFileRange | Opcode::CopyFileRange64 => {
            let asked = body.take::<CopyFileRangeIn>()?;
            Operation::CopyFileRange {
                from: CopyEnd { node: header.nodeid, handle: asked.fh_in, offset: asked.off_in },
                to: CopyEnd { node: asked.nodeid_out, handle: asked.fh_out, offset: asked.off_out },
                length: asked.len,
                flags: asked.flags,
                wide: opcode == Opcode::CopyFileRange64,
            }
        }
        Opcode::Syncfs => {
            body.take::<SyncfsIn>()?;
            Operation::Syncfs
        }
        Opcode::Init => {
            let init = body.take::<InitIn>()?;
            // Old kernels stop here; the extension is meant only if INIT_EXT says so.
            let flags2 = body.take::<InitExtIn>().map_or(0, |ext| ext.flags2);
            Operation::Init { init, flags2 }
        }
        Opcode::Destroy => Operation::Destroy,
        Opcode::NotifyReply | Opcode::Setupmapping | Opcode::Removemapping => {
            Operation::Unsupported
        }
    })
}

fn kills_suidgid(open_flags: u32) -> bool {
    open_flags & crate::abi::flags::open::REQUEST_KILL_SUIDGID != 0
}

fn set_attr(asked: &SetattrIn) -> SetAttr {
    let has = |bit: u32| asked.valid & bit != 0;
    let time = |bit: u32, now: u32, sec: u64, nsec: u32| match (has(bit), has(now)) {
        (_, true) => Some(SetTime::Now),
        // Seconds before 1970 travel as two's complement. Nanoseconds out of range cannot come from
        // the kernel.
        (true, false) => {
            Some(SetTime::At(Timestamp { sec: sec as i64, nsec: nsec.min(999_999_999) }))
        }
        (false, false) => None,
    };
    SetAttr {
        mode: has(setattr::MODE).then_some(asked.mode),
        uid: has(setattr::UID).then_some(asked.uid),
        gid: has(setattr::GID).then_some(asked.gid),
        size: has(setattr::SIZE).then_some(asked.size),
        atime: time(setattr::ATIME, setattr::ATIME_NOW, asked.atime, asked.atimensec),
        mtime: time(setattr::MTIME, setattr::MTIME_NOW, asked.mtime, asked.mtimensec),
        kill_suidgid: has(setattr::KILL_SUIDGID),
    }
}

fn flock(opcode: Opcode, asked: &LkIn) -> Result<Flock, BadRequest> {
    let kind = match asked.lk.kind as i32 {
        libc::F_RDLCK => FlockKind::Read,
        libc::F_WRLCK => FlockKind::Write,
        libc::F_UNLCK => FlockKind::Unlock,
        _ => {
            return Err(BadRequest::Field {
                opcode,
                field: "lock type",
                value: u64::from(asked.lk.kind),
            });
        }
    };
    let flavor =
        if asked.lk_flags & misc::LK_FLOCK != 0 { FlockFlavor::Bsd } else { FlockFlavor::Posix };
    // The kernel's "to the end" is OFFSET_MAX; the client's is u64::MAX.
    let end = if asked.lk.end >= i64::MAX as u64 { u64::MAX } else { asked.lk.end };
    if asked.lk.start > end {
        return Err(BadRequest::Field { opcode, field: "lock start", value: asked.lk.start });
    }
    Ok(Flock { flavor, kind, owner: asked.owner, pid: asked.lk.pid, start: asked.lk.start, end })
}

/// The first group of a groups extension. Extensions that are damaged or unknown are skipped.
fn extra_group(mut extensions: &[u8]) -> Option<u32> {
    while let Ok((ext, rest)) = ExtHeader::read_from_prefix(extensions) {
        let body_len = (ext.size as usize)
            .checked_sub(size_of::<ExtHeader>())
            .filter(|len| *len <= rest.len())?;
        if ext.kind == EXT_GROUPS {
            let (count, groups) = u32::read_from_prefix(&rest[..body_len]).ok()?;
            return (count > 0)
                .then(|| u32::read_from_prefix(groups).ok())
                .flatten()
                .map(|(group, _)| group);
        }
        let padded = body_len.next_multiple_of(RECORD_ALIGN).min(rest.len());
        extensions = &rest[padded..];
    }
    None
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
