//! Squash: what an administrator reads and sets, what becomes of a request, how clients hear of it.
//!
//! The MDT decides with each request, by what holds when it comes. A client is told so that its
//! kernel's caches and its own do not show its root more than the MDT would: with the answer to its
//! connect, and with a callback when it changes. Until it has heard of it, only what it has cached
//! is shown to its users as before.

use crate::locks::When;
use crate::mds::{Mds, RequestContext};
use crate::settings::squash::Said;
use futures_util::future::join_all;
use idmap::acting::Acting;
use idmap::ids;
use idmap::rules::{Rules, parse_spared, spared_text};
use idmap::set::Nodemaps;
use namespace::access::permission;
use namespace::context::Context;
use namespace::view::View;
use rpc::error::RpcError;
use rpc::service::Export;
use std::fmt::Display;
use std::sync::Arc;
use types::credentials::SquashNews;
use types::errno::Errno;
use types::fid::Fid;
use wire::client::ClientOp;

impl Mds {
    /// `root_squash`: the ids as which root acts, `UID:GID`; `0:0`: its own.
    pub fn root_squash(&self) -> String {
        ids::text(self.tunables.squash.now().0.rules.root)
    }

    /// Sets it; holds for every request that comes from now on.
    ///
    /// # Errors
    /// EINVAL: not `UID:GID`, or one of them is 0 and the other is not.
    pub fn set_root_squash(&self, text: &str) -> Result<(), Errno> {
        let root = self.parsed("root_squash", text, ids::parse(text))?;
        self.change_squash(|rules| rules.root = root);
        Ok(())
    }

    /// `all_squash`: the ids as which all users act, `UID:GID`; `0:0`: their own.
    pub fn all_squash(&self) -> String {
        ids::text(self.tunables.squash.now().0.rules.all)
    }

    /// Sets it, as [`Mds::set_root_squash`].
    ///
    /// # Errors
    /// As there.
    pub fn set_all_squash(&self, text: &str) -> Result<(), Errno> {
        let all = self.parsed("all_squash", text, ids::parse(text))?;
        self.change_squash(|rules| rules.all = all);
        Ok(())
    }

    /// `nosquash_nids`: the clients that are spared; [`idmap::rules::NONE`]: no client is.
    pub fn nosquash_nids(&self) -> String {
        spared_text(&self.tunables.squash.now().0.rules.spared)
    }

    /// Sets it; [`idmap::rules::NONE`] and [`idmap::rules::CLEAR`]: no client is spared.
    ///
    /// # Errors
    /// EINVAL: no list of ranges of NIDs.
    pub fn set_nosquash_nids(&self, text: &str) -> Result<(), Errno> {
        let spared = self.parsed("nosquash_nids", text, parse_spared(text))?;
        self.change_squash(|rules| rules.spared = spared);
        Ok(())
    }

    fn parsed<T, E: Display>(
        &self,
        name: &str,
        text: &str,
        parsed: Result<T, E>,
    ) -> Result<T, Errno> {
        parsed.map_err(|error| {
            tracing::warn!(target = %self.name, name, text, %error, "value is refused");
            Errno::EINVAL
        })
    }

    /// The nodemaps hold from now on, for every request.
    pub fn set_nodemaps(&self, nodemaps: Arc<Nodemaps>) {
        let (version, active) = (nodemaps.version, nodemaps.active);
        if self.change_acting(|_, known| *known = nodemaps) {
            tracing::info!(target = %self.name, version, active, "nodemaps");
            self.realms.wake();
        }
    }

    /// The nodemaps that hold.
    pub fn nodemaps(&self) -> Arc<Nodemaps> {
        self.tunables.squash.now().0.nodemaps.clone()
    }

    fn change_squash(&self, change: impl FnOnce(&mut Rules)) {
        if self.change_acting(|rules, _| change(rules)) {
            let now = self.tunables.squash.now().0;
            let [root, all] = [now.rules.root, now.rules.all].map(ids::text);
            let spared = spared_text(&now.rules.spared);
            tracing::info!(target = %self.name, root, all, spared, "squash");
        }
    }

    /// `false`: nothing is different. Clients for whose callers something is are told, and those
    /// that see ids as others than before, or have another fileset, give back all locks, under
    /// which they keep what they saw.
    fn change_acting(&self, change: impl FnOnce(&mut Rules, &mut Arc<Nodemaps>)) -> bool {
        let Some(before) = self.tunables.squash.change(change) else { return false };
        let now = self.tunables.squash.now().0;
        let mut concerned: Vec<(Arc<Export>, Arc<Acting>, Arc<Acting>)> = {
            let exports = &self.state.lock().locks.exports;
            let each =
                exports.values().map(|export| (export.clone(), before.of(export), now.of(export)));
            each.filter(|(_, before, now)| before != now).collect()
        };
        concerned.sort_unstable_by_key(|(export, ..)| export.client());
        self.with_state(When::Later, |state| {
            let sees_other =
                |before: &Acting, now: &Acting| !now.shows_as(before) || !now.mounts_as(before);
            for (export, ..) in concerned.iter().filter(|(_, before, now)| sees_other(before, now))
            {
                state.locks.revoke_all(export.client());
            }
        });
        concerned.retain(|(_, before, now)| before.callers() != now.callers());
        let Some(mds) = self.me.upgrade().filter(|_| !concerned.is_empty()) else { return true };
        let tell = async move {
            join_all(concerned.iter().map(|(export, ..)| mds.tell_squash(export))).await;
        };
        self.env.tasks.spawn("tell of squash", Box::pin(tell));
        true
    }

    /// Tells a client. One that does not hear is told when it connects again.
    async fn tell_squash(&self, export: &Arc<Export>) {
        match export.callback(ClientOp::Squash(self.squash_news(export))).await {
            Ok(_) | Err(RpcError::Evicted { .. } | RpcError::Shutdown) => {}
            Err(error) => {
                let client = export.client().brief();
                tracing::warn!(target = %self.name, %client, %error, "a client does not know as whom it acts");
            }
        }
    }

    /// What a client is told of squash.
    pub(crate) fn squash_news(&self, export: &Export) -> SquashNews {
        let (said, changes) = self.tunables.squash.now();
        SquashNews::new(self.boot, changes, said.of(export).callers())
    }

    /// What becomes of the callers of a client; `None`: nothing.
    pub(crate) fn acting(&self, export: &Export) -> Option<Arc<Acting>> {
        self.tunables.squash.in_use().map(|said| Said::of(&said, export))
    }

    /// Succeeds if a caller that is squashed may do all of `want` with an inode. The others' own
    /// kernel has made sure. Also if there is no such inode: the operation itself says what that
    /// means, as a directory may have left it.
    ///
    /// # Errors
    /// EACCES, EPERM; EIO.
    pub(crate) fn permit(
        &self,
        request: &RequestContext<'_>,
        fid: Fid,
        want: u32,
    ) -> Result<(), Errno> {
        if !request.is_squashed {
            return Ok(());
        }
        let ctx = Context { credentials: request.credentials, now: Default::default(), version: 0 };
        self.read(|records| match records.inode(fid)? {
            Some(inode) => permission(records, &ctx, &inode, want),
            None => Ok(()),
        })
    }
}
