//! Mounts on which the kernel opens files without telling: OPEN and FLUSH are refused once, and
//! from then on requests name a node and no handle. Directories are opened as on other mounts, so
//! that each program has a place of its own in the listing.

use super::inodes::name;
use super::ioctls::is_of_open_files;
use super::{ClientFs, answer, entry, node, teach};
use crate::decode::{Operation, Request};
use crate::filesystem::Answer;
use crate::ops::Style;
use crate::reply::{Opened, Reply};
use client::error::ClientError;
use client::node::NodeId;
use client::open::{FileHandle, OpenMode};
use types::errno::Errno;
use types::name::Name;
use wire::mds::OpenFlags;

/// The mode in which such a mount opens a file that a program creates: the handle stays until the
/// kernel forgets the node.
fn lasting(flags: u32) -> OpenMode {
    let mode = OpenMode::from_libc(flags as i32, false);
    OpenMode { flags: OpenFlags { lasting: true, ..mode.flags }, ..mode }
}

impl ClientFs {
    /// The requests that are answered differently than on mounts that report opens.
    pub(super) fn without_opens(&self, request: &Request<'_>) -> Option<Answer> {
        let lesson = request.header.nodeid == teach::NODE;
        Some(match request.operation {
            Operation::Open { .. } | Operation::Flush { .. } => Err(Errno::ENOSYS).into(),
            Operation::Release { .. } => Ok(Reply::Done).into(),
            Operation::Lookup { name } if self.lesson.is(request.header.nodeid, name) => {
                Ok(self.lesson.entry()).into()
            }
            Operation::Getattr { .. } if lesson => Ok(Reply::Attr(self.lesson.stat())).into(),
            Operation::Statx { .. } if lesson => Ok(Reply::Statx(self.lesson.stat())).into(),
            Operation::Getattr { .. } => self.getattr(request, None),
            Operation::Statx { .. } => self.statx(request, None),
            Operation::Setattr { set, .. } => self.setattr(request, set, None),
            Operation::Create { name, flags, mode, umask, .. } => {
                self.create_no_open(request, name, flags, mode, umask)
            }
            Operation::Tmpfile { flags, mode, umask } => {
                self.tmpfile_no_open(request, flags, mode, umask)
            }
            Operation::Getlk { .. } | Operation::Setlk { .. } if self.style == Style::NoFlock => {
                Err(Errno::ENOSYS).into()
            }
            Operation::Ioctl { command, .. } if is_of_open_files(command) => {
                Err(Errno::EOPNOTSUPP).into()
            }
            _ => return None,
        })
    }

    /// CREATE: the kernel gets a handle that it will never release; the client's stays until the
    /// kernel forgets the node.
    fn create_no_open(
        &self,
        request: &Request<'_>,
        name: &[u8],
        flags: u32,
        mode: u32,
        umask: u32,
    ) -> Answer {
        let caller = self.caller(request, umask);
        let open = lasting(flags);
        let (client, keeper) = (self.client(), self.client());
        self.told(
            client.create(caller, node(request), name!(name), mode, open),
            move |(found, handle)| {
                keeper.no_open_created(found.node, handle);
                Reply::Created(entry(found), Opened { handle: 0, flags: 0 })
            },
        )
    }

    /// TMPFILE: as CREATE.
    fn tmpfile_no_open(&self, request: &Request<'_>, flags: u32, mode: u32, umask: u32) -> Answer {
        let caller = self.caller(request, umask);
        let (client, keeper) = (self.client(), self.client());
        answer(
            client.tmpfile(caller, node(request), mode, lasting(flags)),
            move |(found, handle)| {
                keeper.no_open_created(found.node, handle);
                Reply::Created(entry(found), Opened { handle: 0, flags: 0 })
            },
        )
    }
}

impl ClientFs {
    /// The file that a request names by this handle, or else by its node.
    pub(super) fn file(
        &self,
        request: &Request<'_>,
        handle: u64,
        write: bool,
    ) -> impl Future<Output = Result<FileHandle, ClientError>> + Send + use<> {
        self.file_at(request.header.nodeid, handle, write)
    }

    /// As [`ClientFs::file`], of another node.
    pub(super) fn file_at(
        &self,
        node: u64,
        handle: u64,
        write: bool,
    ) -> impl Future<Output = Result<FileHandle, ClientError>> + Send + use<> {
        let (client, told) = (self.client(), self.style.opens());
        async move {
            if told {
                Ok(FileHandle(handle))
            } else {
                client.no_open_file(NodeId(node), write).await
            }
        }
    }
}
