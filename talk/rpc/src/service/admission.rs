//! Admission to a session: rules of version, cluster and process, the same for clients in this
//! process and over the network.

use crate::error::RpcError;
use observe::mutant::{Mutant, is_mutant};
use types::nid::Nid;
use types::proof::Proof;
use types::session::ClusterId;
use types::target::{TargetKind, TargetName};
use wire::message::{ConnectRequest, VERSION_MAX, VERSION_MIN};

/// Why not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    Version,
    Cluster(ClusterId),
    /// It shows no proof, or the client's session is that of another process.
    OtherProcess,
}

/// Checks a hello to a target of a cluster. `known`: the proof that the client showed first.
pub(crate) fn admit(
    (target, cluster): (TargetName, ClusterId),
    hello: &ConnectRequest,
    known: Option<Proof>,
) -> Result<(), Refusal> {
    if hello.version_max < VERSION_MIN || hello.version_min > VERSION_MAX {
        return Err(Refusal::Version);
    }
    // A newcomer learns the cluster from the MGS, and only there.
    let newcomer = hello.cluster == ClusterId(0) && target.kind == TargetKind::Mgt;
    if hello.cluster != cluster && !newcomer {
        return Err(Refusal::Cluster(cluster));
    }
    let is_other = hello.proof == Proof(0) || known.is_some_and(|known| known != hello.proof);
    if is_other && !is_mutant(Mutant::AnySession) {
        return Err(Refusal::OtherProcess);
    }
    Ok(())
}

impl Refusal {
    /// The refusal as the client sees it.
    pub(crate) fn error(
        self,
        (nid, target): (Nid, TargetName),
        hello: &ConnectRequest,
    ) -> RpcError {
        match self {
            Refusal::Version => RpcError::Version {
                nid,
                theirs_min: VERSION_MIN,
                theirs_max: VERSION_MAX,
                ours_min: hello.version_min,
                ours_max: hello.version_max,
            },
            Refusal::Cluster(theirs) => RpcError::Cluster { nid, theirs, ours: hello.cluster },
            Refusal::OtherProcess => RpcError::OtherProcess { target },
        }
    }
}
