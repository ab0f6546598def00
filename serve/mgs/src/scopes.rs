//! What the MGS answers of parameters that are kept for scopes: to each process those of the scopes
//! in which it is.

use crate::mgs::Mgs;
use idmap::nodemap::NodemapName;
use idmap::scope::{Asker, Scoped};
use idmap::set::Nodemaps;
use rpc::service::Export;
use std::sync::Arc;
use std::time::Duration;
use types::errno::Errno;
use types::principal::Role;
use wire::mgs::{MgsReply, ScopesVersion};
use wire::opcode::Sender;

/// The durable parameters of scopes, and the nodemaps by which processes are in them.
type Now = (Arc<Scoped>, Arc<Nodemaps>);

fn version((scoped, nodemaps): &Now) -> ScopesVersion {
    ScopesVersion { params: scoped.version, nodemaps: nodemaps.version }
}

/// The nodemap of a process; `None`: it is in none.
fn nodemap_of<'a>(export: &Export, nodemaps: &'a Nodemaps) -> Option<&'a NodemapName> {
    let nid = export.nid();
    if !nodemaps.active || export.role() == Role::Server || nid.is_loopback() {
        return None;
    }
    let key = export.principal().map(|principal| principal.name.clone());
    Some(nodemaps.of(nid, key.as_ref()).0)
}

impl Mgs {
    /// The parameters of the scopes in which the sender is, or of all of them: at once if they are
    /// not those of `known`, else when they may have changed, or after `wait`.
    ///
    /// # Errors
    /// EACCES: only an administrator may see all of them.
    pub(crate) async fn scoped_for(
        &self,
        export: &Arc<Export>,
        (host, all): (&str, bool),
        known: Option<ScopesVersion>,
        wait: Duration,
    ) -> Result<MgsReply, Errno> {
        if all && !Sender::Admin.admits(export.role()) {
            return Err(Errno::EACCES);
        }
        let now = || (self.scoped(), self.nodemaps());
        let is_news = |now: &Now| known != Some(version(now));
        let now = self.newer(export, wait, now, is_news).await;
        let (scoped, nodemaps) = &now;
        let nodemap = nodemap_of(export, nodemaps);
        let params = match all {
            true => scoped.all(),
            false => scoped.of(&Asker { nid: export.nid(), nodemap, host }),
        };
        Ok(MgsReply::Scoped { version: version(&now), params })
    }
}
