//! Each kernel request becomes one client call, its result one reply, its error one errno. No
//! logic.
//!
//! Only three things are done here, because only here they can be. The caller's groups are looked
//! up for requests that the servers check (an open file was checked when it was opened). A caller
//! that the MDTs squash becomes the one that it acts as, and then permission is checked here, where
//! the kernel checked that of root ([`squash`]). And after an append that did not land where the
//! kernel expected it, the kernel is told to drop its cached pages.

mod data;
mod directories;
mod files;
mod inodes;
mod ioctls;
pub mod kernel;
mod locks;
mod no_open;
mod squash;
pub mod teach;
mod xattrs;

use crate::decode::{Operation, Request};
use crate::filesystem::{Answer, FileSystem};
use crate::ops::teach::Lesson;
use crate::process::Processes;
use crate::reply::{Entry, Reply, Stat};
use client::Looked;
use client::caller::{Caller, Found};
use client::client::Client;
use client::error::ClientError;
use client::node::NodeId;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use types::credentials::{ActsAs, Ids};
use types::errno::Errno;

/// The file system that a [`Client`] is.
pub struct ClientFs {
    client: Arc<Client>,
    processes: Arc<Processes>,
    style: Style,
    lesson: Lesson,
}

/// How programs' opens and locks reach this file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Style {
    /// The kernel reports opens; flock and fcntl locks hold between all clients.
    #[default]
    Flock,
    /// The kernel reports no opens; locks hold within this host.
    LocalFlock,
    /// The kernel reports no opens; there are no locks.
    NoFlock,
}

impl Style {
    /// True if the kernel reports opens and closes.
    pub fn opens(self) -> bool {
        self == Style::Flock
    }
}

impl ClientFs {
    /// `processes` is the one that the session is given too.
    pub fn new(client: Arc<Client>, processes: Arc<Processes>, style: Style) -> ClientFs {
        ClientFs { client, processes, style, lesson: Lesson::default() }
    }

    /// The caller with its groups, for requests that servers check.
    fn caller(&self, request: &Request<'_>, umask: u32) -> Caller {
        let header = &request.header;
        let credentials = match self.client.acts_as(header.uid) {
            ActsAs::Ids(ids) => ids.into(),
            ActsAs::Itself | ActsAs::Nobody => {
                self.processes.credentials(header.uid, header.gid, header.pid, request.extra_group)
            }
        };
        Caller { credentials, pid: header.pid, umask }
    }

    /// The caller without groups, for work on files that are open already.
    fn holder(&self, request: &Request<'_>) -> Caller {
        let header = &request.header;
        let own = Ids { uid: header.uid, gid: header.gid };
        let credentials = match self.client.acts_as(header.uid) {
            ActsAs::Ids(ids) => ids.into(),
            ActsAs::Itself | ActsAs::Nobody => own.into(),
        };
        Caller { credentials, pid: header.pid, umask: 0 }
    }

    fn client(&self) -> Arc<Client> {
        self.client.clone()
    }

    /// A client call whose answer the kernel may trust.
    fn told<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, ClientError>> + Send + 'static,
        reply: impl FnOnce(T) -> Reply + Send + 'static,
    ) -> Answer {
        let call = Box::pin(async move { call.await.map(reply).map_err(|error| error.errno()) });
        Answer::Pending(Box::pin(Telling { client: self.client(), call }))
    }

    /// The answer, if it is known without a request.
    fn known<T>(
        &self,
        ask: impl FnOnce(&Arc<Client>) -> Option<T>,
        reply: impl FnOnce(T) -> Reply,
    ) -> Option<Answer> {
        let token = self.client.token();
        let reply = reply(ask(&self.client)?);
        Some(Answer::Inline(Ok(Reply::Told(Box::new(reply), Arc::new(token)))))
    }
}

impl FileSystem for ClientFs {
    fn call(&self, request: &Request<'_>) -> Answer {
        if self.denies(request) {
            return Answer::Inline(Err(Errno::EACCES));
        }
        if !self.style.opens()
            && let Some(answer) = self.without_opens(request)
        {
            return answer;
        }
        match request.operation {
            Operation::Lookup { name } => self.lookup(request, name),
            Operation::Forget { lookups } => self.forget(request, lookups),
            Operation::BatchForget { nodes } => self.batch_forget(nodes),
            Operation::Getattr { handle } => self.getattr(request, handle),
            Operation::Statx { handle, mask: _ } => self.statx(request, handle),
            Operation::Setattr { set, handle, lock_owner: _ } => self.setattr(request, set, handle),
            Operation::Access { mask } => self.access(request, mask),
            Operation::Readlink => self.readlink(request),
            Operation::Symlink { name, target } => self.symlink(request, name, target),
            Operation::Mknod { name, mode, rdev, umask } => {
                self.mknod(request, name, mode, rdev, umask)
            }
            Operation::Mkdir { name, mode, umask } => self.mkdir(request, name, mode, umask),
            Operation::Unlink { name } => self.unlink(request, name),
            Operation::Rmdir { name } => self.rmdir(request, name),
            Operation::Rename { name, new_parent, new_name, flags } => {
                self.rename(request, name, new_parent, new_name, flags)
            }
            Operation::Link { node, new_name } => self.link(request, node, new_name),
            Operation::Statfs => self.statfs(request),
            Operation::Syncfs => self.syncfs(request),

            Operation::Open { flags, kill_suidgid: _ } => self.open(request, flags),
            Operation::Create { name, flags, mode, umask, kill_suidgid: _ } => {
                self.create(request, name, flags, mode, umask)
            }
            Operation::Tmpfile { flags, mode, umask } => self.tmpfile(request, flags, mode, umask),
            Operation::Flush { handle, lock_owner } => self.flush(request, handle, lock_owner),
            Operation::Release { handle, .. } => self.release(request, handle),
            Operation::Fsync { handle, data_only } => self.fsync(request, handle, data_only),

            Operation::Read { handle, offset, size, flags, from_page_cache } => {
                self.read(request, handle, (offset, size), flags, from_page_cache)
            }
            Operation::Write { handle, offset, data, flags, from_page_cache, kill_suidgid } => self
                .write(
                    request,
                    handle,
                    offset,
                    data,
                    data::How { flags, from_page_cache, kill_suidgid },
                ),
            Operation::Fallocate { handle, offset, length, mode } => {
                self.fallocate(request, handle, offset, length, mode)
            }
            Operation::Lseek { handle, offset, whence } => {
                self.lseek(request, handle, offset, whence)
            }
            Operation::CopyFileRange { from, to, length, flags, wide } => {
                self.copy_file_range(request, (from, to), length, flags, wide)
            }

            Operation::Opendir { flags: _ } => self.opendir(request),
            Operation::Readdir { handle, offset, size, flags } => {
                self.readdir(request, handle, offset, size, flags)
            }
            Operation::Readdirplus { handle, offset, size, flags } => {
                self.readdirplus(request, handle, offset, size, flags)
            }
            Operation::Releasedir { handle } => self.releasedir(handle),
            Operation::Fsyncdir { handle, data_only: _ } => self.fsyncdir(request, handle),

            Operation::Setxattr { name, value, flags, kill_sgid } => {
                self.setxattr(request, name, value, flags, kill_sgid)
            }
            Operation::Getxattr { name, size } => self.getxattr(request, name, size),
            Operation::Listxattr { size } => self.listxattr(request, size),
            Operation::Removexattr { name } => self.removexattr(request, name),
            Operation::Ioctl { handle, flags, command, input, .. } => {
                self.ioctl(request, handle, flags, command, input)
            }

            Operation::Getlk { handle, lock } => self.getlk(request, handle, lock),
            Operation::Setlk { handle, lock, wait: false } => self.setlk(request, handle, lock),
            Operation::Setlk { handle, lock, wait: true } => self.setlkw(request, handle, lock),

            // No file blocks on a device, and regular files are always ready. The kernel remembers
            // ENOSYS and stops asking.
            Operation::Bmap { .. } | Operation::Poll { .. } => Err(Errno::ENOSYS).into(),
            Operation::Interrupt { .. }
            | Operation::Init { .. }
            | Operation::Destroy
            | Operation::Unsupported => Err(Errno::ENOSYS).into(),
        }
    }
}

/// A call whose answer the kernel may trust. Whether it may is decided in the poll in which the
/// call ends. So that poll runs under a token, which goes with the reply until the kernel has it.
struct Telling<F> {
    client: Arc<Client>,
    call: Pin<Box<F>>,
}

impl<F: Future<Output = Result<Reply, Errno>>> Future for Telling<F> {
    type Output = Result<Reply, Errno>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let token = self.client.token();
        let told = |reply| Reply::Told(Box::new(reply), Arc::new(token));
        self.call.as_mut().poll(cx).map(|result| result.map(told))
    }
}

/// A client call as an answer.
fn answer<T: Send + 'static>(
    call: impl Future<Output = Result<T, ClientError>> + Send + 'static,
    reply: impl FnOnce(T) -> Reply + Send + 'static,
) -> Answer {
    Answer::Pending(Box::pin(async move { call.await.map(reply).map_err(|error| error.errno()) }))
}

/// Does reading through a descriptor with these flags of open(2) count as an access?
fn is_access(flags: u32) -> bool {
    flags & libc::O_NOATIME as u32 == 0
}

/// A client call that answers nothing but success.
fn done(call: impl Future<Output = Result<(), ClientError>> + Send + 'static) -> Answer {
    answer(call, |()| Reply::Done)
}

fn node(request: &Request<'_>) -> NodeId {
    NodeId(request.header.nodeid)
}

fn entry(found: Found) -> Entry {
    Entry {
        node: found.node.0,
        generation: found.generation,
        ino: found.ino,
        attr: Some(found.attr),
        entry_valid: found.entry_valid,
        attr_valid: found.attr_valid,
    }
}

fn entry_reply(found: Found) -> Reply {
    Reply::Entry(entry(found))
}

fn looked(looked: Looked) -> Reply {
    match looked {
        Looked::Found(found) => entry_reply(found),
        // Without trust the answer is a plain error; with it, the kernel remembers that the name is
        // absent.
        Looked::Absent(valid) => Reply::Entry(Entry {
            node: 0,
            generation: 0,
            ino: 0,
            attr: None,
            entry_valid: valid,
            attr_valid: Duration::ZERO,
        }),
    }
}

fn stat(stat: client::caller::Stat) -> Stat {
    Stat { attr: stat.attr, ino: stat.ino, valid: stat.attr_valid }
}
