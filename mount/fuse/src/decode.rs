//! Turns one message from /dev/fuse into one typed request.
//!
//! The kernel is trusted, but a decoder that checks costs nothing. Whatever the bytes are, the
//! answer is a request or a [`BadRequest`], never a panic, and nothing is allocated. Names and data
//! are borrowed from the message; large data can be kept without a copy ([`Request::to_bytes`]).

mod fields;
mod request;

pub use request::{BadRequest, CopyEnd, Dialect, Forgets, Operation, Request};

use crate::abi::RECORD_ALIGN;
use crate::abi::flags::{misc, setattr};
use crate::abi::inbound::*;
use crate::abi::opcode::Opcode;
use fields::{extra_group, flock, kills_suidgid, set_attr};
use zerocopy::{FromBytes, Immutable, KnownLayout};

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

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
