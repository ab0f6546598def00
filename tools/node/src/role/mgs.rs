//! The MGS.

use crate::error::NodeError;
use crate::role::parts::{Parts, blocking};
use mgs::mgs::Mgs;
use rpc::service::Ownership;
use std::sync::Arc;
use target::Target;
use types::target::TargetName;

/// The MGS in service.
pub struct MgsRole {
    target: Arc<Target>,
    mgs: Arc<Mgs>,
}

impl MgsRole {
    /// Takes the MGT into service.
    ///
    /// # Errors
    /// The registry cannot be read.
    pub async fn start(parts: &Parts, target: Arc<Target>) -> Result<MgsRole, NodeError> {
        MgsRole::start_owned(parts, target, None).await
    }

    /// As [`MgsRole::start`]; with an `ownership` other hosts can take it over.
    ///
    /// # Errors
    /// As [`MgsRole::start`].
    pub async fn start_owned(
        parts: &Parts,
        target: Arc<Target>,
        ownership: Option<Arc<dyn Ownership>>,
    ) -> Result<MgsRole, NodeError> {
        let (opened, env) = (target.clone(), parts.env.clone());
        let mgs = blocking(&parts.env, "started the MGS", move || Mgs::start(opened, env)).await?;
        let mgs = mgs.map_err(|e| NodeError::Serve {
            dir: target.dir().to_owned(),
            reason: e.to_string(),
        })?;
        parts.rpc.set_cluster(target.cluster());
        parts.rpc.set_server_key(target.server_key());
        match ownership {
            None => parts.rpc.add_service(mgs.clone()),
            Some(ownership) => parts.rpc.add_owned_service(mgs.clone(), ownership),
        }
        Ok(MgsRole { target, mgs })
    }

    /// The service.
    pub fn mgs(&self) -> &Arc<Mgs> {
        &self.mgs
    }

    /// The target.
    pub fn target(&self) -> &Arc<Target> {
        &self.target
    }

    /// Ends the service; everything is durable.
    ///
    /// # Errors
    /// Something could not be made durable.
    pub async fn stop(self, parts: &Parts) -> Result<(), NodeError> {
        parts.rpc.remove_service(TargetName::mgs());
        Ok(self.target.close().await?)
    }
}
