//! Listing directories.

use super::squash::passed;
use super::{ClientFs, answer, done, entry, is_access, node};
use crate::abi::outbound::{Dirent, DirentPlus};
use crate::decode::Request;
use crate::directory::{Listing, dot_entry};
use crate::filesystem::Answer;
use crate::limits::LISTED_ON_BYTES_MAX;
use crate::reply::{Opened, Reply};
use client::open::DirHandle;
use client::{AccessMask, Budget, DirItem};

/// Bytes of an answer to READDIRPLUS from `offset` on, with room for `size`. The first one fills
/// it: a program may read all names before it looks at the inodes, and of the others the kernel
/// asks the names alone then.
fn answered(offset: u64, size: u32) -> u32 {
    if offset == 0 { size } else { size.min(LISTED_ON_BYTES_MAX) }
}

impl ClientFs {
    pub(super) fn opendir(&self, request: &Request<'_>) -> Answer {
        let check = self.check(request, AccessMask::READ);
        let call = self.client().opendir(self.caller(request, 0), node(request));
        let call = async move {
            passed(check).await?;
            call.await
        };
        answer(call, |handle| Reply::Opened(Opened { handle: handle.0, flags: 0 }))
    }

    pub(super) fn readdir(
        &self,
        request: &Request<'_>,
        handle: u64,
        offset: u64,
        size: u32,
        flags: u32,
    ) -> Answer {
        let budget = Budget { bytes: size as usize, per_entry: size_of::<Dirent>() };
        let (client, caller, dir) = (self.client(), self.holder(request), DirHandle(handle));
        let node = node(request);
        let call = async move {
            let items = client.clone().readdir(caller, dir, offset, budget, false).await?;
            if is_access(flags) {
                client.listed_node(node);
            }
            Ok(items)
        };
        answer(call, move |items: Vec<DirItem>| {
            let mut listing = Listing::new(size);
            // Items without room come again with the next request.
            let _ = items
                .iter()
                .all(|item| listing.push(item.ino, item.next, item.file_type, &item.name));
            Reply::Data(listing.into_bytes())
        })
    }

    pub(super) fn readdirplus(
        &self,
        request: &Request<'_>,
        handle: u64,
        offset: u64,
        size: u32,
        flags: u32,
    ) -> Answer {
        let size = answered(offset, size);
        let budget = Budget { bytes: size as usize, per_entry: size_of::<DirentPlus>() };
        let (reader, caller, dir) = (self.client(), self.holder(request), DirHandle(handle));
        let node = node(request);
        let call = async move {
            let items = reader.clone().readdir(caller, dir, offset, budget, true).await?;
            if is_access(flags) {
                reader.listed_node(node);
            }
            Ok(items)
        };
        let client = self.client();
        self.told(call, move |items: Vec<DirItem>| {
            let mut listing = Listing::new(size);
            let mut room = true;
            for item in &items {
                let found = item.found.map_or_else(dot_entry, entry);
                room = room
                    && listing.push_plus(&found, item.ino, item.next, item.file_type, &item.name);
                if let (false, Some(unseen)) = (room, item.found) {
                    // The kernel never hears of it, so it will not give its reference back.
                    client.forget(unseen.node, 1);
                }
            }
            Reply::Data(listing.into_bytes())
        })
    }

    pub(super) fn releasedir(&self, handle: u64) -> Answer {
        self.client.releasedir(DirHandle(handle));
        Ok(Reply::Done).into()
    }

    pub(super) fn fsyncdir(&self, request: &Request<'_>, handle: u64) -> Answer {
        let (client, caller, dir) = (self.client(), self.holder(request), DirHandle(handle));
        done(async move { client.fsyncdir(caller, dir).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_behind_the_first_one_is_small() {
        assert_eq!(answered(0, 1 << 20), 1 << 20);
        assert_eq!(answered(6000, 1 << 20), LISTED_ON_BYTES_MAX);
        assert_eq!(answered(6000, 4096), 4096);
    }
}
