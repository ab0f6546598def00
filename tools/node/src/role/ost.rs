//! An OST.

use crate::error::NodeError;
use crate::role::parts::{Parts, blocking};
use crate::role::registration;
use crate::role::restricted::Restricted;
use oss::ost::Ost;
use oss::settings::OstSettings;
use std::sync::Arc;
use stubs::mgc::Mgc;
use target::Target;
use target::room::Room;
use types::target::TargetName;

/// One OST in service.
pub struct OstRole {
    name: TargetName,
    target: Arc<Target>,
    ost: Arc<Ost>,
    restricted: Restricted,
}

impl OstRole {
    /// Registers the target and takes it into service.
    ///
    /// # Errors
    /// The MGS refuses it, or its store is damaged.
    pub async fn start(
        parts: &Parts,
        mgc: &Mgc,
        target: Arc<Target>,
        settings: OstSettings,
        room: Arc<Room>,
    ) -> Result<OstRole, NodeError> {
        let name = registration::name(parts, mgc, &target).await?;
        let (opened, env) = (target.clone(), parts.env.clone());
        let ost =
            blocking(&parts.env, "started an OST", move || Ost::start(opened, env, settings, room))
                .await?;
        let ost = ost.map_err(|e| NodeError::Serve {
            dir: target.dir().to_owned(),
            reason: e.to_string(),
        })?;
        let restricted = Restricted::start(parts, mgc, name.fsname, &ost).await?;
        parts.rpc.add_service(ost.clone());
        let role = OstRole { name, target, ost, restricted };
        match registration::register(parts, mgc, &role.target).await {
            Ok(_) => Ok(role),
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
    pub fn ost(&self) -> &Arc<Ost> {
        &self.ost
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

    async fn withdraw(self, parts: &Parts) -> Result<(), NodeError> {
        self.restricted.stop();
        parts.rpc.remove_service(self.name);
        let stopped = self.ost.stop().await;
        // Also after a failure: what can be made durable shall be.
        let closed = self.target.close().await;
        stopped.map_err(|e| NodeError::Stop { name: self.name, reason: e.to_string() })?;
        Ok(closed?)
    }
}
