//! Opening and closing files.

use super::inodes::name;
use super::squash::passed;
use super::{ClientFs, answer, done, entry, is_access, node};
use crate::abi::flags::open;
use crate::decode::Request;
use crate::filesystem::Answer;
use crate::reply::{Opened, Reply};
use client::caller::Found;
use client::client::Client;
use client::open::{FileHandle, OpenMode};
use client::{AccessMask, PageCache};
use types::name::Name;

/// The kernel's flag for an open that will execute the file (`__FMODE_EXEC`).
const FMODE_EXEC: u32 = 0x20;

fn mode_of(flags: u32) -> OpenMode {
    OpenMode::from_libc(flags as i32, flags & FMODE_EXEC != 0)
}

fn opened(client: &Client, handle: FileHandle) -> Opened {
    let flags = match client.page_cache(handle) {
        PageCache::Bypassed => open::DIRECT_IO,
        PageCache::Fresh => 0,
        PageCache::Kept => open::KEEP_CACHE,
    };
    Opened { handle: handle.0, flags }
}

fn created(client: &Client, (found, handle): (Found, FileHandle)) -> Reply {
    Reply::Created(entry(found), opened(client, handle))
}

impl ClientFs {
    pub(super) fn open(&self, request: &Request<'_>, flags: u32) -> Answer {
        let (node, mode) = (node(request), mode_of(flags));
        // Of what is read from pages that the kernel has nothing is heard.
        let may_read = flags as i32 & libc::O_ACCMODE == libc::O_RDONLY && is_access(flags);
        let asked =
            AccessMask { read: mode.flags.read, write: mode.flags.write, exec: mode.flags.exec };
        let check = self.check(request, asked);
        let known = match check {
            None => self.client.open_known(&self.holder(request).credentials, node, mode),
            Some(_) => None,
        };
        if let Some(handle) = known {
            if !may_read || !self.client.opened_to_read(node) {
                return Ok(Reply::Opened(opened(&self.client, handle))).into();
            }
            let (shower, client) = (self.client(), self.client());
            let call = async move {
                shower.access_shown(node).await;
                Ok(handle)
            };
            return answer(call, move |handle| Reply::Opened(opened(&client, handle)));
        }
        let (opener, client) = (self.client(), self.client());
        let caller = self.caller(request, 0);
        let call = async move {
            passed(check).await?;
            let handle = opener.clone().open(caller, node, mode).await?;
            if may_read && opener.opened_to_read(node) {
                opener.access_shown(node).await;
            }
            Ok(handle)
        };
        answer(call, move |handle| Reply::Opened(opened(&client, handle)))
    }

    pub(super) fn create(
        &self,
        request: &Request<'_>,
        name: &[u8],
        flags: u32,
        mode: u32,
        umask: u32,
    ) -> Answer {
        let caller = self.caller(request, umask);
        let client = self.client();
        let call = self.client().create(caller, node(request), name!(name), mode, mode_of(flags));
        self.told(call, move |made| created(&client, made))
    }

    pub(super) fn tmpfile(
        &self,
        request: &Request<'_>,
        flags: u32,
        mode: u32,
        umask: u32,
    ) -> Answer {
        let caller = self.caller(request, umask);
        let client = self.client();
        answer(self.client().tmpfile(caller, node(request), mode, mode_of(flags)), move |made| {
            created(&client, made)
        })
    }

    pub(super) fn flush(&self, request: &Request<'_>, handle: u64, lock_owner: u64) -> Answer {
        done(self.client().flush(self.holder(request), FileHandle(handle), lock_owner))
    }

    pub(super) fn release(&self, request: &Request<'_>, handle: u64) -> Answer {
        done(self.client().release(self.holder(request), FileHandle(handle)))
    }

    pub(super) fn fsync(&self, request: &Request<'_>, handle: u64, data_only: bool) -> Answer {
        let (client, caller, file) =
            (self.client(), self.holder(request), self.file(request, handle, true));
        done(async move { client.fsync(caller, file.await?, data_only).await })
    }
}
