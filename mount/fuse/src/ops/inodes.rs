//! Names, attributes, totals.

use super::squash::passed;
use super::{ClientFs, answer, done, entry_reply, looked, node, stat};
use crate::decode::{Forgets, Request};
use crate::filesystem::Answer;
use crate::reply::Reply;
use client::AccessMask;
use client::node::NodeId;
use client::open::FileHandle;
use types::attr::SetAttr;
use types::errno::Errno;
use types::name::Name;
use wire::mds::RenameFlags;

/// A name of the kernel; what no name can be is answered at once.
macro_rules! name {
    ($bytes:expr) => {
        match Name::new($bytes) {
            Ok(name) => name,
            Err(errno) => return Err(errno).into(),
        }
    };
}
pub(super) use name;

impl ClientFs {
    pub(super) fn lookup(&self, request: &Request<'_>, name: &[u8]) -> Answer {
        let parent = node(request);
        match name {
            b"." => {
                self.told(self.client().lookup_self(self.caller(request, 0), parent), entry_reply)
            }
            b".." => {
                self.told(self.client().lookup_parent(self.caller(request, 0), parent), entry_reply)
            }
            name => {
                let name = name!(name);
                if let Some(check) = self.check(request, AccessMask::EXECUTE) {
                    let call = self.client().lookup_name(self.caller(request, 0), parent, name);
                    let call = async move {
                        check.await?;
                        call.await
                    };
                    return self.told(call, looked);
                }
                if let Some(known) = self
                    .known(|client| client.lookup_known(request.header.pid, parent, &name), looked)
                {
                    return known;
                }
                self.told(self.client().lookup_name(self.caller(request, 0), parent, name), looked)
            }
        }
    }

    pub(super) fn forget(&self, request: &Request<'_>, lookups: u64) -> Answer {
        self.client.forget(node(request), lookups);
        Ok(Reply::Nothing).into()
    }

    pub(super) fn batch_forget(&self, nodes: Forgets<'_>) -> Answer {
        nodes.iter().for_each(|(node, lookups)| self.client.forget(NodeId(node), lookups));
        Ok(Reply::Nothing).into()
    }

    pub(super) fn getattr(&self, request: &Request<'_>, handle: Option<u64>) -> Answer {
        self.attributes(request, handle, |found| Reply::Attr(stat(found)))
    }

    pub(super) fn statx(&self, request: &Request<'_>, handle: Option<u64>) -> Answer {
        self.attributes(request, handle, |found| Reply::Statx(stat(found)))
    }

    fn attributes(
        &self,
        request: &Request<'_>,
        handle: Option<u64>,
        reply: impl FnOnce(client::caller::Stat) -> Reply + Copy + Send + 'static,
    ) -> Answer {
        let (node, handle) = (node(request), handle.map(FileHandle));
        if let Some(known) = self.known(|client| client.getattr_known(node, handle), reply) {
            return known;
        }
        // In a directory that several clients change the kernel must trust no attributes. Before
        // each step of a path it asks for them nevertheless, and looks at mode and owner only.
        let only_walks = || handle.is_none() && self.processes.only_walks(request.header.pid);
        if let Some(known) = self.client.permissions_known(node, only_walks) {
            return Ok(reply(known)).into();
        }
        self.told(self.client().getattr(self.holder(request), node, handle), reply)
    }

    pub(super) fn setattr(
        &self,
        request: &Request<'_>,
        set: SetAttr,
        handle: Option<u64>,
    ) -> Answer {
        // An open file was checked when it was opened; all but the size is checked by the MDT.
        let check = match (handle, set.size) {
            (None, Some(_)) => self.check(request, AccessMask::WRITE),
            _ => None,
        };
        let kill_suidgid = set.kill_suidgid || set.size.is_some() && self.is_squashed(request);
        let set = SetAttr { kill_suidgid, ..set };
        let call = self.client().setattr(
            self.caller(request, 0),
            node(request),
            handle.map(FileHandle),
            set,
        );
        let call = async move {
            passed(check).await?;
            call.await
        };
        self.told(call, |changed| Reply::Attr(stat(changed)))
    }

    pub(super) fn access(&self, request: &Request<'_>, mask: u32) -> Answer {
        let has = |bit: i32| mask & bit as u32 != 0;
        let mask =
            AccessMask { read: has(libc::R_OK), write: has(libc::W_OK), exec: has(libc::X_OK) };
        done(self.client().access(self.caller(request, 0), node(request), mask))
    }

    pub(super) fn readlink(&self, request: &Request<'_>) -> Answer {
        let (client, caller, node) = (self.client(), self.holder(request), node(request));
        let call = async move {
            let target = client.clone().readlink(caller, node).await?;
            client.read_node(node);
            Ok(target)
        };
        answer(call, Reply::Data)
    }

    pub(super) fn symlink(&self, request: &Request<'_>, name: &[u8], target: &[u8]) -> Answer {
        let (caller, target) = (self.caller(request, 0), request.to_bytes(target));
        self.told(self.client().symlink(caller, node(request), name!(name), target), entry_reply)
    }

    pub(super) fn mknod(
        &self,
        request: &Request<'_>,
        name: &[u8],
        mode: u32,
        rdev: u32,
        umask: u32,
    ) -> Answer {
        let caller = self.caller(request, umask);
        let check = self.check_device(request, mode, rdev);
        let call = self.client().mknod(caller, node(request), name!(name), mode, rdev);
        let call = async move {
            passed(check).await?;
            call.await
        };
        self.told(call, entry_reply)
    }

    pub(super) fn mkdir(
        &self,
        request: &Request<'_>,
        name: &[u8],
        mode: u32,
        umask: u32,
    ) -> Answer {
        let caller = self.caller(request, umask);
        self.told(self.client().mkdir(caller, node(request), name!(name), mode), entry_reply)
    }

    pub(super) fn unlink(&self, request: &Request<'_>, name: &[u8]) -> Answer {
        done(self.client().unlink(self.caller(request, 0), node(request), name!(name)))
    }

    pub(super) fn rmdir(&self, request: &Request<'_>, name: &[u8]) -> Answer {
        done(self.client().rmdir(self.caller(request, 0), node(request), name!(name)))
    }

    pub(super) fn rename(
        &self,
        request: &Request<'_>,
        name: &[u8],
        new_parent: u64,
        new_name: &[u8],
        flags: u32,
    ) -> Answer {
        if flags & !(libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE) != 0 {
            return Err(Errno::EINVAL).into();
        }
        let flags = RenameFlags {
            no_replace: flags & libc::RENAME_NOREPLACE != 0,
            exchange: flags & libc::RENAME_EXCHANGE != 0,
        };
        let (caller, new_parent) = (self.caller(request, 0), NodeId(new_parent));
        done(self.client().rename(
            caller,
            (node(request), name!(name)),
            (new_parent, name!(new_name)),
            flags,
        ))
    }

    pub(super) fn link(&self, request: &Request<'_>, linked: u64, new_name: &[u8]) -> Answer {
        let caller = self.caller(request, 0);
        self.told(
            self.client().link(caller, NodeId(linked), node(request), name!(new_name)),
            entry_reply,
        )
    }

    pub(super) fn statfs(&self, request: &Request<'_>) -> Answer {
        answer(self.client().statfs(self.holder(request)), Reply::Statfs)
    }

    pub(super) fn syncfs(&self, request: &Request<'_>) -> Answer {
        done(self.client().syncfs(self.holder(request)))
    }
}
