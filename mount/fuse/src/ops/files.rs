//! Opening and closing files.

use super::inodes::name;
use super::{ClientFs, answer, done, entry, node};
use crate::decode::Request;
use crate::filesystem::Answer;
use crate::reply::{Opened, Reply};
use client::caller::Found;
use client::open::{FileHandle, OpenMode};
use types::name::Name;

/// The kernel's flag for an open that will execute the file (`__FMODE_EXEC`).
const FMODE_EXEC: u32 = 0x20;

fn mode_of(flags: u32) -> OpenMode {
    OpenMode::from_libc(flags as i32, flags & FMODE_EXEC != 0)
}

/// No KEEP_CACHE: without a lock on the data, pages from before this open may be old.
fn opened(handle: FileHandle) -> Opened {
    Opened { handle: handle.0, flags: 0 }
}

fn created((found, handle): (Found, FileHandle)) -> Reply {
    Reply::Created(entry(found), opened(handle))
}

impl ClientFs {
    pub(super) fn open(&self, request: &Request<'_>, flags: u32) -> Answer {
        let (node, mode) = (node(request), mode_of(flags));
        if let Some(handle) = self.client.open_known(&self.holder(request).credentials, node, mode) {
            return Ok(Reply::Opened(opened(handle))).into();
        }
        let call = self.client().open(self.caller(request, 0), node, mode);
        answer(call, |handle| Reply::Opened(opened(handle)))
    }

    pub(super) fn create(&self, request: &Request<'_>, name: &[u8], flags: u32, mode: u32, umask: u32) -> Answer {
        let caller = self.caller(request, umask);
        self.told(self.client().create(caller, node(request), name!(name), mode, mode_of(flags)), created)
    }

    pub(super) fn tmpfile(&self, request: &Request<'_>, flags: u32, mode: u32, umask: u32) -> Answer {
        let caller = self.caller(request, umask);
        answer(self.client().tmpfile(caller, node(request), mode, mode_of(flags)), created)
    }

    pub(super) fn flush(&self, request: &Request<'_>, handle: u64, lock_owner: u64) -> Answer {
        done(self.client().flush(self.holder(request), FileHandle(handle), lock_owner))
    }

    pub(super) fn release(&self, request: &Request<'_>, handle: u64, flock_owner: Option<u64>) -> Answer {
        done(self.client().release(self.holder(request), FileHandle(handle), flock_owner))
    }

    pub(super) fn fsync(&self, request: &Request<'_>, handle: u64, data_only: bool) -> Answer {
        let (client, caller, file) = (self.client(), self.holder(request), self.file(request, handle, true));
        done(async move { client.fsync(caller, file.await?, data_only).await })
    }
}
