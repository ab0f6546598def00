//! Names of existing inodes: unlink, rmdir, rename, link, readlink. The MDT takes care of the
//! objects of a removed file: its log destroys them.

use crate::caller::{Caller, Found};
use crate::client::Client;
use crate::counters::Operation;
use crate::expected::{Attempt, NameChange};
use bytes::Bytes;
use data::finish::Finish;
use data::node::NodeId;
use env::BoxFuture;
use session::error::ClientError;
use std::sync::Arc;
use types::fid::Fid;
use types::name::Name;
use wire::mds::{Entry, Link, MdsOp, Rename, RenameFlags, Rmdir, Unlink};

impl Client {
    /// Removes a name that is no directory.
    pub async fn unlink(
        self: Arc<Self>,
        caller: Caller,
        parent: NodeId,
        name: Name,
    ) -> Result<(), ClientError> {
        let _timed = self.timed(Operation::Unlink);
        let attempt = self.attempt(&caller, self.fid(parent)?, &name, NameChange::Unlink);
        let send = |[dir]: [Fid; 1]| {
            self.clone().unlink_sent(caller.clone(), attempt.clone(), dir, name.clone())
        };
        self.at_stripes(caller.pid, [parent], send).await?;
        self.changed_in(parent, Some(&name)).await;
        Ok(())
    }

    async fn unlink_sent(
        self: Arc<Self>,
        caller: Caller,
        attempt: Attempt,
        parent: Fid,
        name: Name,
    ) -> Result<(), ClientError> {
        let parent = self.place(parent, &name).await?;
        let (me, mdc, in_dir) =
            (self.clone(), self.session.mdc(parent)?, self.locks.enter_dir(parent));
        let before = self.locks.believed(parent, &name);
        let (sent, expected) = self.sends(attempt, [parent, parent]);
        let work = async move {
            let _in_dir = in_dir;
            me.data.flush_before_removal(parent, &name).await;
            let unlink = MdsOp::Unlink(Unlink { parent, name });
            let answer = mdc.take(&caller.credentials, expected, unlink).await;
            let removed = me.attempted(sent, answer.map_err(ClientError::from))?;
            me.locks.table.lock().counted_down(before, removed);
            me.locks.send_pending().await;
            me.let_go(removed).await;
            Ok::<(), ClientError>(())
        };
        Finish::new("unlink", &self.session.env.tasks, work).await
    }

    /// Removes an empty directory.
    pub async fn rmdir(
        self: Arc<Self>,
        caller: Caller,
        parent: NodeId,
        name: Name,
    ) -> Result<(), ClientError> {
        let _timed = self.timed(Operation::Rmdir);
        let attempt = self.attempt(&caller, self.fid(parent)?, &name, NameChange::Rmdir);
        let send = |[dir]: [Fid; 1]| {
            self.clone().rmdir_sent(caller.clone(), attempt.clone(), dir, name.clone())
        };
        self.at_stripes(caller.pid, [parent], send).await?;
        self.changed_in(parent, Some(&name)).await;
        Ok(())
    }

    async fn rmdir_sent(
        self: Arc<Self>,
        caller: Caller,
        attempt: Attempt,
        parent: Fid,
        name: Name,
    ) -> Result<(), ClientError> {
        let parent = self.place(parent, &name).await?;
        let (me, mdc, in_dir) =
            (self.clone(), self.session.mdc(parent)?, self.locks.enter_dir(parent));
        let (sent, expected) = self.sends(attempt, [parent, parent]);
        let work = async move {
            let _in_dir = in_dir;
            let rmdir = MdsOp::Rmdir(Rmdir { parent, name });
            let answer = mdc.take(&caller.credentials, expected, rmdir).await;
            me.attempted(sent, answer.map_err(ClientError::from)).map(drop)
        };
        Finish::new("rmdir", &self.session.env.tasks, work).await
    }

    /// Moves a name.
    pub async fn rename(
        self: Arc<Self>,
        caller: Caller,
        (parent, name): (NodeId, Name),
        (new_parent, new_name): (NodeId, Name),
        flags: RenameFlags,
    ) -> Result<(), ClientError> {
        let _timed = self.timed(Operation::Rename);
        let change = NameChange::Rename(self.fid(new_parent)?, new_name.clone(), flags);
        let attempt = self.attempt(&caller, self.fid(parent)?, &name, change);
        let send = |[old, new]: [Fid; 2]| {
            let places = [(old, name.clone()), (new, new_name.clone())];
            self.clone().rename_sent(caller.clone(), attempt.clone(), places, flags)
        };
        self.at_stripes(caller.pid, [parent, new_parent], send).await?;
        self.changed_in(parent, Some(&name)).await;
        self.changed_in(new_parent, Some(&new_name)).await;
        Ok(())
    }

    async fn rename_sent(
        self: Arc<Self>,
        caller: Caller,
        attempt: Attempt,
        [(parent, name), (new_parent, new_name)]: [(Fid, Name); 2],
        flags: RenameFlags,
    ) -> Result<(), ClientError> {
        let parent = self.place(parent, &name).await?;
        let new_parent = self.place(new_parent, &new_name).await?;
        // The MDT of the new name asks the others.
        let (me, mdc, locks) = (self.clone(), self.session.mdc(new_parent)?, self.locks.clone());
        let in_dirs = [locks.enter_dir(parent), locks.enter_dir(new_parent)];
        let abandoned = self.if_abandoned(new_parent, &new_name);
        let before = locks.believed(new_parent, &new_name);
        let (sent, expected) = self.sends(attempt, [parent, new_parent]);
        let work = async move {
            let _in_dirs = in_dirs;
            me.data.flush_before_removal(new_parent, &new_name).await;
            let rename = MdsOp::Rename(Rename { parent, name, new_parent, new_name, flags });
            let answer = mdc.take(&caller.credentials, expected, rename).await;
            let renamed = me.attempted(sent, answer.map_err(ClientError::from));
            if let Ok(removed) = renamed {
                locks.table.lock().counted_down(before, removed);
            }
            // The kernel moves its name with all the trust it had.
            locks.send_pending().await;
            me.let_go(renamed?).await;
            Ok::<(), ClientError>(())
        };
        Finish::new("rename", &self.session.env.tasks, work).or_else(abandoned).await
    }

    /// Gives an inode a second name.
    pub async fn link(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
        new_parent: NodeId,
        new_name: Name,
    ) -> Result<Found, ClientError> {
        let _timed = self.timed(Operation::Link);
        let fid = self.fid(node)?;
        let send = |[dir]: [Fid; 1]| self.link_sent(caller.clone(), fid, dir, new_name.clone());
        let (placed, entry) = self.at_stripes(caller.pid, [new_parent], send).await?;
        self.changed_in(new_parent, Some(&new_name)).await;
        Ok(self.found_in(new_parent, self.changed_found(placed, &new_name, &entry.attr)))
    }

    /// Also returns the stripe that has the new name.
    async fn link_sent(
        &self,
        caller: Caller,
        fid: Fid,
        new_parent: Fid,
        new_name: Name,
    ) -> Result<(Fid, Entry), ClientError> {
        let new_parent = self.place(new_parent, &new_name).await?;
        let (mdc, in_dir) = (self.session.mdc(new_parent)?, self.locks.enter_dir(new_parent));
        let link = Link { fid, new_parent, new_name: new_name.clone() };
        let work = async move {
            let _in_dir = in_dir;
            mdc.link(&caller.credentials, link).await.map_err(ClientError::from)
        };
        let linked = Finish::new("link", &self.session.env.tasks, work)
            .or_else(self.if_abandoned(new_parent, &new_name))
            .await;
        Ok((new_parent, self.note_stale(linked)?))
    }

    /// What to do when a change of this name ends whose caller no longer waits: the kernel, which
    /// may know that there is no such name, must ask again.
    pub(crate) fn if_abandoned<R>(
        &self,
        dir: Fid,
        name: &Name,
    ) -> impl FnOnce(R) -> BoxFuture<'static, ()> + Send + 'static + use<R> {
        let (locks, name) = (self.locks.clone(), name.clone());
        move |_| Box::pin(async move { locks.abandoned(dir, &name).await })
    }

    /// Target of a symbolic link.
    pub async fn readlink(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
    ) -> Result<Bytes, ClientError> {
        let _timed = self.timed(Operation::Readlink);
        let fid = self.fid(node)?;
        if let Some(target) = self.locks.target(fid) {
            return Ok(target);
        }
        Ok(self.session.mdc(fid)?.readlink(&caller.credentials, fid).await?)
    }
}
