//! Squash: what an administrator reads and sets, what becomes of a request, how clients hear of it.
//!
//! The MDT decides with each request, by what holds when it comes. A client is told so that its
//! kernel's caches and its own do not show its root more than the MDT would: with the answer to its
//! connect, and with a callback when it changes. Until it has heard of it, only what it has cached
//! is shown to its users as before.

use crate::mds::{Mds, RequestContext};
use futures_util::future::join_all;
use idmap::ids;
use idmap::rules::{Rules, parse_spared, spared_text};
use namespace::access::permission;
use namespace::context::Context;
use rpc::error::RpcError;
use rpc::service::Export;
use std::fmt::Display;
use std::sync::Arc;
use types::credentials::{Credentials, Squash, SquashNews};
use types::errno::Errno;
use types::fid::Fid;
use types::principal::Role;
use wire::client::ClientOp;

impl Mds {
    /// `root_squash`: the ids as which root acts, `UID:GID`; `0:0`: its own.
    pub fn root_squash(&self) -> String {
        ids::text(self.tunables.squash.now().0.root)
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
        ids::text(self.tunables.squash.now().0.all)
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
        spared_text(&self.tunables.squash.now().0.spared)
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

    fn change_squash(&self, change: impl FnOnce(&mut Rules)) {
        let Some(before) = self.tunables.squash.change(change) else { return };
        let now = self.tunables.squash.now().0;
        let [root, all] = [now.root, now.all].map(ids::text);
        tracing::info!(target = %self.name, root, all, spared = spared_text(&now.spared), "squash");
        let mut concerned: Vec<Arc<Export>> = {
            let exports = &self.state.lock().locks.exports;
            exports
                .values()
                .filter(|export| of(&before, export) != of(&now, export))
                .cloned()
                .collect()
        };
        concerned.sort_unstable_by_key(|export| export.client());
        if concerned.is_empty() {
            return;
        }
        let Some(mds) = self.me.upgrade() else { return };
        let tell = async move {
            join_all(concerned.iter().map(|export| mds.tell_squash(export))).await;
        };
        self.env.tasks.spawn("tell of squash", Box::pin(tell));
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
        let (rules, changes) = self.tunables.squash.now();
        SquashNews::new(self.boot, changes, of(&rules, export))
    }

    /// Makes the caller of a request the one that it acts as. `true`: it is another than the client
    /// says, or all are; then its own kernel made sure of nothing ([`Mds::permit`]).
    pub(crate) fn squash(&self, export: &Export, caller: &mut Credentials) -> bool {
        self.tunables.squash.in_use().is_some_and(|rules| of(&rules, export).apply(caller))
    }

    /// Succeeds if a caller that is squashed may do all of `want` with an inode. The others' own
    /// kernel has made sure.
    ///
    /// # Errors
    /// EACCES, EPERM; ESTALE: there is no such inode.
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
        self.read(|records| permission(records, &ctx, &records.there(fid)?, want))
    }
}

fn of(rules: &Rules, export: &Export) -> Squash {
    rules.of(export.nid(), export.role() == Role::Server)
}
