//! An MDT.

use crate::error::NodeError;
use crate::manage::params::add_squash;
use crate::manage::persistent;
use crate::role::object_targets::Followed;
use crate::role::parts::Parts;
use crate::role::registration;
use mds::mds::Mds;
use mds::peers::Peers;
use mds::settings::MdsSettings;
use observe::tree::Tree;
use rpc::service::Ownership;
use std::sync::Arc;
use std::time::Duration;
use stubs::mgc::Mgc;
use target::Target;
use types::target::TargetName;

/// How long the first MDT start waits for OSTs that are being started elsewhere.
const SPACES_WAIT: Duration = Duration::from_secs(2);

/// One MDT in service.
pub struct MdtRole {
    name: TargetName,
    target: Arc<Target>,
    mds: Arc<Mds>,
}

impl MdtRole {
    /// Registers the target and takes it into service.
    ///
    /// # Errors
    /// The MGS refuses it, or its store is damaged.
    pub async fn start(
        parts: &Parts,
        mgc: &Mgc,
        target: Arc<Target>,
        followed: &Followed,
        settings: MdsSettings,
    ) -> Result<MdtRole, NodeError> {
        MdtRole::start_owned(parts, mgc, target, followed, settings, None).await
    }

    /// As [`MdtRole::start`]; with an `ownership` it is a target that other hosts can take over.
    ///
    /// # Errors
    /// As [`MdtRole::start`].
    pub async fn start_owned(
        parts: &Parts,
        mgc: &Mgc,
        target: Arc<Target>,
        followed: &Followed,
        settings: MdsSettings,
        ownership: Option<Arc<dyn Ownership>>,
    ) -> Result<MdtRole, NodeError> {
        let name = registration::name(parts, mgc, &target).await?;
        let peers = Peers::of(&parts.rpc, name, &target);
        followed.tell_peers(&peers);
        let mds = Mds::start(&target, followed.osts.clone(), peers, settings).await;
        let mds = mds.map_err(|e| NodeError::Serve {
            dir: target.dir().to_owned(),
            reason: e.to_string(),
        })?;
        mds.count_in(parts.rpc.metrics());
        if let Some(audit) = &parts.audit {
            mds.audit_to(audit.clone());
        }
        // Before the first request: no client is more for a moment than it is later.
        let mut tree = Tree::new();
        add_squash(&mut tree, &mds);
        persistent::apply_to(&tree, followed.kept_params()).await;
        let nodemaps = registration::patiently(parts, || mgc.nodemaps(None, 0)).await;
        let nodemaps = nodemaps.map_err(|error| NodeError::Config {
            mgs: parts.mgs.clone(),
            source: Box::new(error),
        })?;
        mds.set_nodemaps(Arc::new(nodemaps));
        followed.tell(&mds);
        // Before the first create: without it no OST has room.
        tokio::select! {
            biased;
            () = mds.refresh_spaces() => {}
            () = parts.env.clock.sleep(SPACES_WAIT) => tracing::warn!(%name, "not all OSTs told their space in time"),
        }
        match ownership {
            None => parts.rpc.add_service(mds.clone()),
            Some(ownership) => parts.rpc.add_owned_service(mds.clone(), ownership),
        }
        let role = MdtRole { name, target, mds };
        match registration::register(parts, mgc, &role.target).await {
            Ok(_) => {
                // An MGS that was made anew has another one.
                role.mds.set_server_key(role.target.server_key());
                Ok(role)
            }
            Err(error) => {
                role.withdraw(parts).await?;
                Err(error)
            }
        }
    }

    /// Name of the target.
    pub fn name(&self) -> TargetName {
        self.name
    }

    /// The service.
    pub fn mds(&self) -> &Arc<Mds> {
        &self.mds
    }

    /// The target.
    pub fn target(&self) -> &Arc<Target> {
        &self.target
    }

    /// Ends the service; everything is durable.
    ///
    /// # Errors
    /// Something could not be made durable.
    pub async fn stop(self, parts: &Parts, mgc: &Mgc) -> Result<(), NodeError> {
        let (name, store) = (self.name, self.target.store_uuid());
        let withdrawn = self.withdraw(parts).await;
        registration::unregister(parts, mgc, name, store).await;
        withdrawn
    }

    /// Ends the service without a word to the MGS.
    ///
    /// # Errors
    /// Something could not be made durable.
    pub async fn withdraw(self, parts: &Parts) -> Result<(), NodeError> {
        parts.rpc.remove_service(self.name);
        self.mds.stop().await;
        Ok(self.target.close().await?)
    }
}
