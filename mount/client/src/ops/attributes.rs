//! Attributes: stat, chmod, chown, utimes, access. Changes of the size are in `truncate`.

use crate::caller::{Caller, Stat};
use crate::client::Client;
use crate::counters::Operation;
use crate::open::FileHandle;
use crate::ops::names::by_fid::shown_stat;
use bytes::Bytes;
use data::finish::Finish;
use data::node::NodeId;
use namespace::acl::{ACL_ACCESS, Acl};
use session::error::ClientError;
use session::targets::misfit;
use std::sync::Arc;
use std::time::Duration;
use types::attr::{Attr, SetAttr};
use types::credentials::{ActsAs, Callers, Credentials};
use types::errno::Errno;
use types::fid::Fid;
use wire::mds::{Entry, MdsOp, MdsReply, Setattr};

/// What access(2) asks for, or what an operation needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccessMask {
    /// R_OK
    pub read: bool,
    /// W_OK
    pub write: bool,
    /// X_OK
    pub exec: bool,
}

impl AccessMask {
    /// To read.
    pub const READ: AccessMask = AccessMask { read: true, write: false, exec: false };
    /// To write.
    pub const WRITE: AccessMask = AccessMask { read: false, write: true, exec: false };
    /// To execute; of a directory, to look names up.
    pub const EXECUTE: AccessMask = AccessMask { read: false, write: false, exec: true };

    /// In the numbers of mode bits.
    fn bits(self) -> u32 {
        u32::from(self.read) << 2 | u32::from(self.write) << 1 | u32::from(self.exec)
    }
}

impl Client {
    /// Attributes of an inode. 1 round trip, none if they are covered.
    pub async fn getattr(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
        handle: Option<FileHandle>,
    ) -> Result<Stat, ClientError> {
        self.where_it_is(|| self.getattr_once(&caller.credentials, node, handle)).await
    }

    async fn getattr_once(
        &self,
        who: &Credentials,
        node: NodeId,
        handle: Option<FileHandle>,
    ) -> Result<Stat, ClientError> {
        let fid = self.fid_of(node, handle)?;
        if let Some(stat) = self.attr_known(fid) {
            return Ok(self.stat_of(node, stat));
        }
        let _timed = self.timed(Operation::Getattr);
        self.data.pages_gone(fid).await;
        // Apart, so that the future of the fast path stays small.
        Box::pin(self.stat_written(who, fid)).await;
        match self.attr_asked(who, fid).await {
            Ok(attr) => {
                self.data.show_eof(fid, self.locks.with_dirty(attr).size).await;
                Ok(self.stat_of(node, self.stat(&attr)))
            }
            Err(error) => {
                self.is_gone(fid, error).await?;
                self.removed_stat(fid).ok_or(Errno::ESTALE.into())
            }
        }
    }

    async fn attr_asked(&self, who: &Credentials, fid: Fid) -> Result<Attr, ClientError> {
        let attr = match self.locks.attr(fid).filter(|_| self.session.has_lease(fid)) {
            Some(entry) => entry.attr,
            None => self.session.mdc(fid)?.getattr(who, fid).await?.attr,
        };
        self.whole_attr(who, attr).await
    }

    /// An operation on the attributes of an inode failed: succeeds if it was removed, and lives on
    /// here.
    ///
    /// # Errors
    /// EREMCHG: the directory has another inode by now, which is known. Else the same error.
    async fn is_gone(&self, fid: Fid, error: ClientError) -> Result<(), ClientError> {
        if self.went(fid, error.errno()).await {
            return Err(Errno::EREMCHG.into());
        }
        self.lives_on(fid, error)
    }

    fn stat_of(&self, node: NodeId, stat: Stat) -> Stat {
        Stat { attr_valid: self.unless_mirror(node, stat.attr_valid), ..stat }
    }

    /// Attributes, if they are covered by locks: no request, no waiting.
    pub fn getattr_known(&self, node: NodeId, handle: Option<FileHandle>) -> Option<Stat> {
        Some(self.stat_of(node, self.attr_known(self.fid_of(node, handle).ok()?)?))
    }

    /// Attributes of a directory of which mode, owner and ACL are current; times and counts may be
    /// older. They must not be shown to programs, and the kernel must not trust them. So they are
    /// returned only if `only_walks` says that the kernel asks in order to check permissions. It is
    /// called only if they are known.
    pub fn permissions_known(
        &self,
        node: NodeId,
        only_walks: impl FnOnce() -> bool,
    ) -> Option<Stat> {
        let begun = self.session.env.clock.now();
        let fid = self.nodes.fid(node).filter(|fid| self.session.has_lease(*fid))?;
        let known = self.locks.table.lock().permissions(fid);
        let attr = known.filter(|_| only_walks())?;
        self.was_known([Operation::Getattr, Operation::GetattrHit], begun);
        Some(Stat { attr_valid: Duration::ZERO, ..self.stat(&attr) })
    }

    fn attr_known(&self, fid: Fid) -> Option<Stat> {
        let begun = self.session.env.clock.now();
        if fid.is_shown_only() {
            return Some(shown_stat(fid));
        }
        if let Some(stat) = self.removed_stat(fid) {
            return Some(stat);
        }
        let entry = self.locks.attr(fid).filter(|entry| {
            self.session.has_lease(fid) && self.data.may_show(fid, entry.attr.size)
        })?;
        let attr = self.whole_attr_known(entry.attr)?;
        self.was_known([Operation::Getattr, Operation::GetattrHit], begun);
        Some(self.stat(&attr))
    }

    /// Changes attributes. A new size also cuts the objects.
    pub async fn setattr(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
        handle: Option<FileHandle>,
        set: SetAttr,
    ) -> Result<Stat, ClientError> {
        self.where_it_is(|| self.clone().setattr_once(caller.clone(), node, handle, set)).await
    }

    async fn setattr_once(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
        handle: Option<FileHandle>,
        set: SetAttr,
    ) -> Result<Stat, ClientError> {
        let fid = self.fid_of(node, handle)?;
        if set.size.is_some() {
            self.leases.lock().used(fid, true, |holder| Some(*holder) == handle);
            let cut = self.clone().truncate(caller.credentials, fid, set).await;
            return self.note_stale(cut);
        }
        let _timed = self.timed(Operation::Setattr);
        if set.atime.is_some() {
            self.data.accesses.forget(fid);
        }
        if let Some(stat) = self.change_removed(fid, &set) {
            return Ok(stat);
        }
        let (me, who) = (self.clone(), caller.credentials.clone());
        let work = async move {
            me.data
                .ask_behind_time(&caller.credentials, fid, MdsOp::Setattr(Setattr { fid, set }))
                .await
        };
        let changed = match Finish::new("setattr", &self.session.env.tasks, work).await {
            Err(error) => {
                self.is_gone(fid, error).await?;
                return self.change_removed(fid, &set).ok_or(Errno::ESTALE.into());
            }
            Ok(changed) => changed,
        };
        match changed {
            MdsReply::Entry(entry) => {
                self.changed_in(node, None).await;
                match self.whole_attr(&who, entry.attr).await {
                    Ok(attr) => Ok(self.changed_stat(&attr)),
                    Err(error) => {
                        // It was removed behind the change.
                        self.is_gone(fid, error).await?;
                        self.change_removed(fid, &set).ok_or(Errno::ESTALE.into())
                    }
                }
            }
            other => Err(misfit(self.session.mdc(fid)?.import(), &other)),
        }
    }

    /// access(2) by mode bits and access ACL. The kernel asks only without `default_permissions`.
    pub async fn access(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
        mask: AccessMask,
    ) -> Result<(), ClientError> {
        let _timed = self.timed(Operation::Access);
        let who = &caller.credentials;
        self.where_it_is(|| async { self.permitted(who, self.fid(node)?, mask).await }).await
    }

    /// What becomes of a user of this host. Of one that acts as another the kernel has made sure of
    /// nothing: see [`Client::permit`].
    pub fn acts_as(&self, uid: u32) -> ActsAs {
        self.session.acts_as.of(uid)
    }

    /// The ids as which the users of this host act.
    pub fn callers(&self) -> Callers {
        self.session.acts_as.callers()
    }

    /// Succeeds if a caller may do this, by mode bits and access ACL. No request if these are
    /// covered.
    ///
    /// # Errors
    /// EACCES; those of the MDT.
    pub async fn permit(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
        mask: AccessMask,
    ) -> Result<(), ClientError> {
        let who = &caller.credentials;
        self.where_it_is(|| async { self.permitted(who, self.fid(node)?, mask).await }).await
    }

    async fn permitted(
        &self,
        who: &Credentials,
        fid: Fid,
        mask: AccessMask,
    ) -> Result<(), ClientError> {
        if fid.is_shown_only() {
            // All may look up and read what only clients show; changes of it are refused.
            return Ok(());
        }
        let removed = self.removed_stat(fid).map(|stat| Entry {
            attr: stat.attr,
            has_xattr: true,
            noatime: false,
            striped: 0,
        });
        let entry = match removed
            .or_else(|| self.locks.attr(fid).filter(|_| self.session.has_lease(fid)))
        {
            Some(entry) => entry,
            None => self.session.mdc(fid)?.getattr(who, fid).await?,
        };
        let acl = match asks_acl(&entry, who) {
            false => None,
            true => match self.xattr_of(who, fid, Bytes::from_static(ACL_ACCESS)).await {
                Ok(stored) => Some(Acl::parse(&stored)?),
                Err(error) if error.errno() == Errno::ENODATA => None,
                Err(error) => return Err(error),
            },
        };
        if permits(&entry, acl.as_ref(), who, mask.bits()) {
            Ok(())
        } else {
            Err(Errno::EACCES.into())
        }
    }

    /// The inode of a handle, if there is one, else of the node.
    fn fid_of(&self, node: NodeId, handle: Option<FileHandle>) -> Result<Fid, ClientError> {
        match handle {
            None => self.fid(node),
            Some(handle) => {
                let open = self.files_open.get(handle)?;
                open.check()?;
                Ok(open.file.fid)
            }
        }
    }
}

/// True if an ACL can matter: only that of another user's inode can.
fn asks_acl(entry: &Entry, who: &Credentials) -> bool {
    entry.has_xattr && who.uid != 0 && who.uid != entry.attr.uid
}

fn permits(entry: &Entry, acl: Option<&Acl>, who: &Credentials, want: u32) -> bool {
    let attr = &entry.attr;
    if who.uid == 0 {
        // Everything but executing a file without any execute bit.
        return want & 1 == 0 || attr.is_dir() || attr.mode & 0o111 != 0;
    }
    match acl {
        _ if who.uid == attr.uid => want & !(attr.mode >> 6) & 7 == 0,
        Some(acl) => acl.permits(who, attr.gid, want),
        None if who.in_group(attr.gid) => want & !(attr.mode >> 3) & 7 == 0,
        None => want & !attr.mode & 7 == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::attr::Attr;
    use types::time::Timestamp;

    fn entry(mode: u32) -> Entry {
        let now = Timestamp::default();
        let attr = Attr {
            fid: Fid::ROOT,
            mode: libc::S_IFREG | mode,
            uid: 1000,
            gid: 100,
            nlink: 1,
            rdev: 0,
            size: 0,
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            version: 1,
        };
        Entry { attr, has_xattr: false, noatime: false, striped: 0 }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let may = |mode, uid, gid, want| {
            let who = Credentials { uid, gid, ..Credentials::default() };
            permits(&entry(mode), None, &who, want)
        };
        assert!(may(0o400, 1000, 1, 4));
        assert!(!may(0o077, 1000, 100, 4), "the owner is not of the group");
        assert!(may(0o040, 7, 100, 4));
        assert!(!may(0o007, 7, 100, 4), "the group is not the others");
        assert!(may(0o005, 7, 7, 5));
        assert!(!may(0o005, 7, 7, 7));
        assert!(may(0o000, 0, 0, 6));
        assert!(!may(0o000, 0, 0, 1), "even root executes only what someone may execute");
    }
}
