//! Targets make themselves known to the MGS: name, store, NIDs. A new target gets its number and
//! cluster here.

use crate::error::NodeError;
use crate::role::parts::{Parts, blocking};
use rpc::error::RpcError;
use std::sync::Arc;
use std::time::Duration;
use stubs::mgc::{Mgc, Registered};
use target::Target;
use types::errno::Errno;
use types::limits::LEASE;
use types::nid::Nid;
use types::session::ClusterId;
use types::target::TargetName;

/// Pauses between two attempts to reach an MGS that does not answer.
const PAUSE_MIN: Duration = Duration::from_millis(25);
const PAUSE: Duration = Duration::from_secs(1);
/// A target whose owner seems to live waits for the end of that process, as long as the lease of
/// its session may last.
const OTHER_OWNER_WAIT: Duration = Duration::from_secs(2 * LEASE.as_secs());
/// A target that stops tells the MGS so within this time, or not at all.
const UNREGISTER_TIMEOUT: Duration = Duration::from_secs(3);

/// The name of a target; one without number, cluster or key of the servers asks the MGS for them.
///
/// A target is announced (with [`register`]) only once it answers. The MGS tells the news to all
/// clients at once, and one that came too early would take the target for down.
///
/// # Errors
/// As [`register`]; the target belongs to another cluster than this process.
pub async fn name(parts: &Parts, mgc: &Mgc, target: &Arc<Target>) -> Result<TargetName, NodeError> {
    let (ours, theirs) = (parts.rpc.cluster(), target.cluster());
    match target.name() {
        // Before the MGS hears of it: otherwise the MGS would give a place to a target that cannot
        // be served.
        Some(_) if theirs != ClusterId(0) && ours != ClusterId(0) && theirs != ours => {
            Err(NodeError::OtherCluster { dir: target.dir().to_owned(), ours, theirs })
        }
        Some(name) if theirs != ClusterId(0) && target.server_key().is_known() => {
            parts.rpc.set_cluster(theirs);
            parts.rpc.set_server_key(target.server_key());
            Ok(name)
        }
        _ => register(parts, mgc, target).await,
    }
}

/// Tells the MGS that a target is served here. Waits for the MGS as long as it does not answer
/// (servers of a cluster may start in any order).
///
/// # Errors
/// The MGS refuses, or the target has another name or cluster.
pub async fn register(
    parts: &Parts,
    mgc: &Mgc,
    target: &Arc<Target>,
) -> Result<TargetName, NodeError> {
    let dir = target.dir().to_owned();
    // Without an index the MGS is asked for the next free one.
    let asked = target.name().map_or_else(
        || format!("{}-{}", target.fsname(), target.kind().word()),
        |name| name.to_string(),
    );
    let ask = || {
        mgc.register(
            asked.clone(),
            target.store_uuid(),
            nids_of(parts),
            (target.boot(), target.is_shared()),
        )
    };
    let give_up = parts.env.clock.now() + OTHER_OWNER_WAIT;
    let registered = loop {
        match patiently(parts, &ask).await {
            Err(RpcError::Errno(Errno::EBUSY)) if parts.env.clock.now() < give_up => {
                tracing::warn!(
                    name = asked,
                    "the MGS says that another process serves it; waiting for its end"
                );
                parts.env.clock.sleep(PAUSE).await;
            }
            answer => break answer,
        }
    };
    let registered = registered.map_err(|error| match error {
        RpcError::Errno(Errno::ESHUTDOWN) => {
            NodeError::Removed { dir: dir.clone(), name: asked.clone() }
        }
        RpcError::Errno(Errno::EBUSY) => {
            NodeError::Elsewhere { dir: dir.clone(), name: asked.clone() }
        }
        RpcError::Errno(Errno::EEXIST) => {
            NodeError::Impostor { dir: dir.clone(), name: asked.clone() }
        }
        error => {
            NodeError::Register { dir: dir.clone(), name: asked.clone(), source: Box::new(error) }
        }
    })?;
    let Registered { name, cluster, boot, key } = registered;
    let name: TargetName = name.parse().map_err(|_| NodeError::BadName { dir, name })?;
    let assigned = target.clone();
    blocking(&parts.env, "named a target", move || assigned.assign(name, cluster, key)).await??;
    parts.rpc.set_cluster(cluster);
    parts.rpc.set_server_key(key);
    tracing::info!(%name, %cluster, boot, "registered");
    Ok(name)
}

/// Asks the MGS, again and again as long as it does not answer.
///
/// # Errors
/// The error that it answers.
pub async fn patiently<T, F>(parts: &Parts, ask: impl Fn() -> F) -> Result<T, RpcError>
where
    F: Future<Output = Result<T, RpcError>>,
{
    let (mut complained, mut pause) = (false, PAUSE_MIN);
    loop {
        match ask().await {
            Err(
                error @ (RpcError::Unreachable { .. }
                | RpcError::Timeout { .. }
                | RpcError::NoTarget { .. }),
            ) => {
                if !std::mem::replace(&mut complained, true) {
                    tracing::warn!(%error, "waiting for the MGS");
                }
                parts.env.clock.sleep(pause).await;
                pause = (pause * 2).min(PAUSE);
            }
            answer => return answer,
        }
    }
}

/// Tells the MGS that a target is served no longer. An MGS that is gone is no obstacle.
pub async fn unregister(parts: &Parts, mgc: &Mgc, name: TargetName, store: u128) {
    let call = mgc.unregister(name.to_string(), store);
    let result = tokio::select! {
        biased;
        result = call => result,
        () = parts.env.clock.sleep(UNREGISTER_TIMEOUT) => {
            Err(RpcError::Timeout { target: TargetName::mgs(), seconds: UNREGISTER_TIMEOUT.as_secs() })
        }
    };
    if let Err(error) = result {
        tracing::warn!(%name, %error, "cannot tell the MGS that the target stops");
    }
}

/// NIDs by which others reach this process, then those of the other hosts that may serve its
/// targets.
fn nids_of(parts: &Parts) -> Vec<String> {
    let mut nids = reachable_nids(parts);
    let others = parts.service_nodes.iter().map(Nid::to_string);
    let fresh: Vec<String> = others.filter(|nid| !nids.contains(nid)).collect();
    nids.extend(fresh);
    nids
}

/// NIDs by which others reach this process; `0@lo` only if no other process can.
fn reachable_nids(parts: &Parts) -> Vec<String> {
    let nids = parts.rpc.nids();
    let network: Vec<String> =
        nids.iter().filter(|nid| **nid != Nid::Loopback).map(Nid::to_string).collect();
    if network.is_empty() { vec![Nid::Loopback.to_string()] } else { network }
}
