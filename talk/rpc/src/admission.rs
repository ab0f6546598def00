//! Admission to a session: version and cluster rules, the same for clients in this process and over
//! the network.

use crate::error::RpcError;
use crate::service::Service;
use types::nid::Nid;
use types::session::ClusterId;
use types::target::TargetKind;
use wire::message::{ConnectRequest, VERSION_MAX, VERSION_MIN};

/// Why not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    Version,
    Cluster(ClusterId),
}

/// Checks a hello against a service.
pub(crate) fn admit(service: &dyn Service, hello: &ConnectRequest) -> Result<(), Refusal> {
    if hello.version_max < VERSION_MIN || hello.version_min > VERSION_MAX {
        return Err(Refusal::Version);
    }
    // A newcomer learns the cluster from the MGS, and only there.
    let newcomer = hello.cluster == ClusterId(0) && service.target().kind == TargetKind::Mgt;
    if hello.cluster != service.cluster() && !newcomer {
        return Err(Refusal::Cluster(service.cluster()));
    }
    Ok(())
}

impl Refusal {
    /// The refusal as the client sees it.
    pub(crate) fn error(self, nid: Nid, hello: &ConnectRequest) -> RpcError {
        match self {
            Refusal::Version => RpcError::Version {
                nid,
                theirs_min: VERSION_MIN,
                theirs_max: VERSION_MAX,
                ours_min: hello.version_min,
                ours_max: hello.version_max,
            },
            Refusal::Cluster(theirs) => RpcError::Cluster { nid, theirs, ours: hello.cluster },
        }
    }
}
