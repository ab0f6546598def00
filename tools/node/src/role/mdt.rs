//! An MDT.

use crate::error::NodeError;
use crate::parts::Parts;
use crate::registration;
use mds::mds::{Mds, Parts as MdsParts};
use mds::object_targets::ObjectTargets;
use mds::settings::MdsSettings;
use std::sync::Arc;
use stubs::mgc::Mgc;
use target::Target;
use types::target::TargetName;

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
        osts: Arc<dyn ObjectTargets>,
        settings: MdsSettings,
    ) -> Result<MdtRole, NodeError> {
        let name = registration::register(parts, mgc, &target).await?;
        let started = Mds::start(MdsParts {
            name,
            cluster: target.cluster(),
            boot: target.boot(),
            store: target.store().clone(),
            env: parts.env.clone(),
            targets: osts,
            settings,
        });
        let mds = started.await;
        let mds = mds.map_err(|e| NodeError::Serve { dir: target.dir().to_owned(), reason: e.to_string() })?;
        parts.rpc.add_service(mds.clone());
        Ok(MdtRole { name, target, mds })
    }

    /// Its name.
    pub fn name(&self) -> TargetName {
        self.name
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
        parts.rpc.remove_service(self.name);
        self.mds.stop().await;
        let closed = self.target.close().await;
        registration::unregister(parts, mgc, self.name, self.target.store_uuid()).await;
        Ok(closed?)
    }
}
