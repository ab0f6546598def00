//! ioctl(2): those of Lustre that can be passed through FUSE.
//!
//! The kernel copies exactly as many bytes as the command's number says, in the directions that it
//! says. Most of Lustre's commands say `long` but mean a pointer to more, or a number in the place
//! of the pointer. Their work goes through extended attributes (docs/lfs.md), which `liblustreapi`
//! uses by itself. The others are here.

use super::{ClientFs, answer, node};
use crate::abi::flags::misc;
use crate::decode::Request;
use crate::filesystem::Answer;
use crate::reply::Reply;
use bytes::Bytes;
use client::open::DirHandle;
use client::open::FileHandle;
use types::errno::Errno;
use types::lock::LeaseMode;
use types::mkdir_at::{MKDIR_AT, MkdirAt};
use types::project::Project;
use wire::codec::dir_scan::{DIR_SCAN, Piece, Question};
use wire::mds::DirEntry;

const READS: u32 = 2;
const WRITES: u32 = 1;

/// A command's number, as `asm-generic/ioctl.h` makes it: directions as the program sees them,
/// bytes, number of type 'f'.
const fn command(directions: u32, bytes: u32, number: u32) -> u32 {
    directions << 30 | bytes << 16 | (b'f' as u32) << 8 | number
}

/// `LL_IOC_GROUP_LOCK`, with a pointer to the number of the group.
pub const GROUP_LOCK: u32 = command(WRITES, 8, 158);
/// The same, that does not wait (EAGAIN): behind the number of the group is another one, which is
/// not looked at.
pub const GROUP_TRY_LOCK: u32 = command(WRITES, 16, 158);
/// `LL_IOC_GROUP_UNLOCK`, with a pointer to the number of the group.
pub const GROUP_UNLOCK: u32 = command(WRITES, 8, 159);
/// `LL_IOC_SET_LEASE`, with a `struct ll_ioc_lease`: the mode of a lease that is wanted, or
/// [`UNLOCK`], which answers the mode that was held.
pub const SET_LEASE: u32 = command(READS | WRITES, 12, 243);
/// `LL_IOC_GET_LEASE`: answers the mode that is held.
pub const GET_LEASE: u32 = command(0, 0, 244);
/// `LL_LEASE_UNLCK`.
const UNLOCK: u32 = 4;
/// `LL_IOC_GET_MDTIDX`: index of the MDT of this inode, an `int`.
const GET_MDTIDX: u32 = command(READS, 4, 175);
/// `LL_IOC_DATA_VERSION`: a `struct ioc_data_version`, the first half of which is the version.
/// Nothing comes in, so there are no flags.
const DATA_VERSION: u32 = command(READS, 16, 218);

/// `FS_IOC_GETFLAGS` and `FS_IOC_SETFLAGS`: an `int`, though their numbers say `long`.
const GET_FLAGS: u32 = READS << 30 | 8 << 16 | (b'f' as u32) << 8 | 1;
const SET_FLAGS: u32 = WRITES << 30 | 8 << 16 | (b'f' as u32) << 8 | 2;
/// `FS_IOC_FSGETXATTR` and `FS_IOC_FSSETXATTR`: a `struct fsxattr`.
const GET_FSXATTR: u32 = READS << 30 | (FSXATTR_BYTES as u32) << 16 | (b'X' as u32) << 8 | 31;
const SET_FSXATTR: u32 = WRITES << 30 | (FSXATTR_BYTES as u32) << 16 | (b'X' as u32) << 8 | 32;
const FSXATTR_BYTES: usize = 28;
/// `FS_*_FL` and `FS_XFLAG_*` of the flags that exist here: immutable, append-only, no dump, no
/// access time.
const XFLAGS: [(u32, u32); 4] = [(0x10, 0x8), (0x20, 0x10), (0x40, 0x80), (0x80, 0x40)];

/// `FS_XFLAG_PROJINHERIT`: a directory hands its project on.
const PROJINHERIT: u32 = 0x200;

/// A `struct fsxattr` with these flags and this project, and nothing else.
fn fsxattr(flags: u32, project: Project) -> [u8; FSXATTR_BYTES] {
    let xflags =
        XFLAGS.iter().filter(|(flag, _)| flags & flag != 0).fold(0, |all, (_, xflag)| all | xflag);
    let inherit = if project.inherit { PROJINHERIT } else { 0 };
    let mut bytes = [0; FSXATTR_BYTES];
    bytes[..4].copy_from_slice(&u32::to_ne_bytes(xflags | inherit));
    bytes[12..16].copy_from_slice(&u32::to_ne_bytes(project.id));
    bytes
}

/// The flags and the project in a `struct fsxattr`; `None`: it asks for what does not exist here
/// (extent sizes).
fn flags_of(bytes: &[u8; FSXATTR_BYTES]) -> Option<(u32, Project)> {
    let word = |n: usize| bytes[4 * n..].first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
    // The words are: flags, extent size, number of extents (read only), project, extent size of
    // copies; the rest is zero.
    let rest = XFLAGS.iter().fold(word(0) & !PROJINHERIT, |rest, (_, xflag)| rest & !xflag);
    let plain = rest == 0 && [1, 4, 5, 6].into_iter().all(|n| word(n) == 0);
    let set = XFLAGS.iter().filter(|(_, xflag)| word(0) & xflag != 0);
    let project = Project { id: word(3), inherit: word(0) & PROJINHERIT != 0 };
    plain.then(|| (set.fold(0, |all, (flag, _)| all | flag), project))
}

impl ClientFs {
    pub(super) fn ioctl(
        &self,
        request: &Request<'_>,
        handle: u64,
        flags: u32,
        command: u32,
        input: &[u8],
    ) -> Answer {
        match command {
            // The handle is one of a directory.
            _ if flags & misc::IOCTL_DIR != 0 && is_of_open_files(command) => {
                Err(Errno::ENOTTY).into()
            }
            GROUP_LOCK | GROUP_TRY_LOCK => {
                self.group_lock(request, handle, number(input), command == GROUP_LOCK)
            }
            GROUP_UNLOCK => {
                let call = self.client().group_unlock(
                    self.holder(request),
                    FileHandle(handle),
                    number(input),
                );
                answer(call, |()| told(Bytes::new()))
            }
            SET_LEASE => self.set_lease(request, FileHandle(handle), input),
            GET_LEASE => {
                let check = self.client().lease_check(self.holder(request), FileHandle(handle));
                answer(check, |mode| says(mode.map_or(0, |mode| mode as i32)))
            }
            GET_MDTIDX => {
                let index =
                    self.client().mdt_of(node(request)).map(|index| i32::from(index).to_ne_bytes());
                index
                    .map(|bytes| told(Bytes::copy_from_slice(&bytes)))
                    .map_err(|error| error.errno())
                    .into()
            }
            DATA_VERSION => {
                let call = self.client().data_version_of(self.caller(request, 0), node(request));
                answer(call, |version| told([version.to_ne_bytes(), [0; 8]].concat().into()))
            }
            GET_FLAGS => {
                let call = self.client().inode_flags(self.holder(request), node(request));
                answer(call, |flags| told(Bytes::copy_from_slice(&flags.to_ne_bytes())))
            }
            GET_FSXATTR => {
                let (client, caller, node) = (self.client(), self.holder(request), node(request));
                let call = async move {
                    let flags = client.clone().inode_flags(caller.clone(), node).await?;
                    Ok(fsxattr(flags, client.inode_project(caller, node).await?))
                };
                answer(call, |bytes| told(Bytes::copy_from_slice(&bytes)))
            }
            SET_FLAGS => match input.first_chunk() {
                Some(flags) => self.set_flags(request, u32::from_ne_bytes(*flags)),
                None => Err(Errno::EINVAL).into(),
            },
            SET_FSXATTR => match input.first_chunk().map(flags_of) {
                Some(Some((flags, project))) => self.set_fsxattr(request, flags, project),
                Some(None) => Err(Errno::EOPNOTSUPP).into(),
                None => Err(Errno::EINVAL).into(),
            },
            DIR_SCAN if flags & misc::IOCTL_DIR != 0 => self.dir_scan(request, handle, input),
            MKDIR_AT if flags & misc::IOCTL_DIR != 0 => match MkdirAt::decode(input) {
                Ok(question) => {
                    let call = self.client().mkdir_unseen(
                        self.caller(request, 0),
                        node(request),
                        question,
                    );
                    answer(call, |()| told(Bytes::new()))
                }
                Err(_) => Err(Errno::EINVAL).into(),
            },
            _ => Err(Errno::ENOTTY).into(),
        }
    }

    /// A piece of a directory, with all that is known of what is in it.
    fn dir_scan(&self, request: &Request<'_>, handle: u64, input: &[u8]) -> Answer {
        let Ok(question) = Question::decode(input) else { return Err(Errno::EINVAL).into() };
        let (client, caller, node, dir) =
            (self.client(), self.caller(request, 0), node(request), DirHandle(handle));
        let Question { position, with_layout } = question;
        let call = async move {
            let mut piece = Piece::new(question);
            let take = |next, entry: &DirEntry| piece.push(next, entry);
            client.dir_scan(caller, node, dir, (position, with_layout), take).await?;
            Ok(piece.finish())
        };
        answer(call, |bytes| told(bytes.into()))
    }

    fn set_flags(&self, request: &Request<'_>, flags: u32) -> Answer {
        let call = self.client().set_inode_flags(self.caller(request, 0), node(request), flags);
        answer(call, |()| told(Bytes::new()))
    }

    /// A project that stays as it is anyone may set. That a file hands it on is passed over.
    fn set_fsxattr(&self, request: &Request<'_>, flags: u32, project: Project) -> Answer {
        let (client, caller, node) = (self.client(), self.caller(request, 0), node(request));
        let call = async move {
            let known = client.clone().inode_project(caller.clone(), node).await?;
            if project != known {
                client.clone().set_inode_project(caller.clone(), node, project).await?;
            }
            if client.clone().inode_flags(caller.clone(), node).await? != flags {
                client.set_inode_flags(caller, node, flags).await?;
            }
            Ok(())
        };
        answer(call, |()| told(Bytes::new()))
    }

    /// Flags and numbers behind the mode are about mirrors.
    fn set_lease(&self, request: &Request<'_>, handle: FileHandle, input: &[u8]) -> Answer {
        let [mode, flags, count] = [0, 4, 8].map(|at| {
            let bytes = input.get(at..).and_then(<[u8]>::first_chunk);
            bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
        });
        if flags != 0 || count != 0 {
            return Err(Errno::EOPNOTSUPP).into();
        }
        if mode == UNLOCK {
            return answer(self.client().lease_release(handle), |mode| {
                says(mode.map_or(0, |mode| mode as i32))
            });
        }
        match u8::try_from(mode).ok().and_then(LeaseMode::from_number) {
            None => Err(Errno::EINVAL).into(),
            Some(mode) => {
                answer(self.client().lease_acquire(self.holder(request), handle, mode), |()| {
                    says(0)
                })
            }
        }
    }

    fn group_lock(&self, request: &Request<'_>, handle: u64, group: u64, wait: bool) -> Answer {
        let (caller, handle) = (self.holder(request), FileHandle(handle));
        let lock = self.client().group_lock(caller, handle, group, wait);
        let cancel = self.client().cancel_group_lock(handle);
        Answer::Cancellable {
            wait: Box::pin(async move {
                lock.await.map(|()| told(Bytes::new())).map_err(|error| error.errno())
            }),
            cancel: Box::pin(async move {
                if let Err(error) = cancel.await {
                    tracing::warn!(%error, "give up waiting for a group lock");
                }
            }),
        }
    }
}

fn told(data: Bytes) -> Reply {
    Reply::Ioctl { result: 0, data }
}

/// Reply with the result of ioctl(2).
fn says(result: i32) -> Reply {
    Reply::Ioctl { result, data: Bytes::new() }
}

/// True if it is about group locks or leases, which belong to open files.
pub(super) fn is_of_open_files(command: u32) -> bool {
    matches!(command, GROUP_LOCK | GROUP_TRY_LOCK | GROUP_UNLOCK | SET_LEASE | GET_LEASE)
}

/// The first number of what came in; the kernel brings as many bytes as the command says, a forged
/// request maybe fewer.
fn number(input: &[u8]) -> u64 {
    input.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_two_forms() {
        let project = |id, inherit| Project { id, inherit };
        for flags in [0, 0x10, 0x20, 0x40, 0x80, 0xf0] {
            for project in [project(0, false), project(7, true), project(u32::MAX, false)] {
                assert_eq!(flags_of(&fsxattr(flags, project)), Some((flags, project)));
            }
        }
        assert_eq!(fsxattr(0x30, project(7, true))[..4], 0x218_u32.to_ne_bytes());
        let with = |at: usize, byte| {
            let mut bytes = fsxattr(0x10, project(0, false));
            bytes[at] = byte;
            flags_of(&bytes)
        };
        let told = Some((0x10, project(0, false)));
        assert_eq!(with(8, 3), told, "the number of extents is only told");
        assert_eq!(with(12, 5), Some((0x10, project(5, false))));
        assert_eq!([with(1, 1), with(4, 1), with(16, 1), with(27, 1)], [None; 4]);
    }

    #[test]
    fn commands_have_the_numbers_of_the_headers() {
        assert_eq!((GROUP_LOCK, GROUP_UNLOCK), (0x4008_669e, 0x4008_669f));
        assert_eq!((SET_LEASE, GET_LEASE), (0xc00c_66f3, 0x66f4));
        assert_eq!((GET_MDTIDX, DATA_VERSION), (0x8004_66af, 0x8010_66da));
        assert_eq!((GET_FLAGS, SET_FLAGS), (0x8008_6601, 0x4008_6602));
        assert_eq!((GET_FSXATTR, SET_FSXATTR), (0x801c_581f, 0x401c_5820));
        assert_eq!((number(&7u64.to_ne_bytes()), number(&[1, 2])), (7, 0));
    }
}
