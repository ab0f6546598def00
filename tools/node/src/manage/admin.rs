//! The answers to `lctl` beyond the status of a daemon.

use crate::manage::control::{Answer, ClusterAnswer, Request};
use crate::manage::devices::Device;
use crate::manage::{devices, faults, kept, network, params, scrubs};
use crate::role::parts::blocking;
use crate::watch::logs::Unremoved;
use crate::watch::recent::RECENT;
use crate::watch::reporter;
use crate::watch::view::View;
use ask::params::ParamAnswer;
use observe::tree::BadPattern;
use std::sync::Arc;
use std::time::Duration;
use types::errno::Errno;
use types::nid::Nid;
use types::session::ClusterId;

/// A node that is pinged answers within this time, or not at all.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Answers a request.
pub async fn answer(view: &Arc<View>, request: Request) -> Answer {
    match request {
        Request::Get { patterns, recursive, values } => {
            params_answer(params::get(view, &patterns, recursive, values).await)
        }
        Request::Set { pattern, value } => params_answer(params::set(view, &pattern, &value).await),
        Request::Devices => Answer::Devices { devices: devices::list(view) },
        Request::Nids => {
            Answer::Nids { nids: view.parts().rpc.nids().iter().map(Nid::to_string).collect() }
        }
        Request::Persist { name, value } => kept::set(view, name, value).await,
        Request::PersistFor { scope, name, value } => {
            kept::set_scoped(view, scope, name, value).await
        }
        Request::Kept => kept::list(view).await,
        Request::Cluster => Answer::Cluster { cluster: cluster(view) },
        Request::Remove { target, force, dry_run } => {
            kept::remove(view, target, force, dry_run).await
        }
        Request::DelReplica { target, host } => del_replica(view, &target, host).await,
        Request::ReplaceNids { target, nids } => kept::replace_nids(view, target, nids).await,
        Request::Mark { text } => {
            tracing::warn!("DEBUG MARKER: {}", text.escape_debug());
            Answer::Done
        }
        Request::Recent { show } => {
            let (lines, dropped) = RECENT.take();
            Answer::Recent { lines: if show { lines } else { Vec::new() }, dropped }
        }
        Request::Pools { fsname } => kept::pools(view, fsname).await,
        Request::Pool { fsname, pool, change } => {
            kept::change_pool(view, fsname, pool, change).await
        }
        Request::Nodemaps => kept::nodemaps(view).await,
        Request::Nodemap { change } => kept::change_nodemaps(view, *change).await,
        Request::Reports { own } => {
            let (reports, whole) = reporter::reports(view, own).await;
            Answer::Reports { reports, whole }
        }
        Request::Fault { fault } => faults::answer(view, fault),
        Request::Scrub { begin } => Answer::Scrub { targets: scrubs::answer(view, begin) },
        Request::Lnet { lnet } => network::answer(view, lnet).await,
        Request::Ping { nid } => ping(view, &nid).await,
        Request::Page => Answer::Page { address: view.page() },
        Request::ServerKey => server_key(view),
        Request::Status | Request::Settings => {
            Answer::Error { reason: "asked at the wrong place".to_owned() }
        }
    }
}

/// Answers a request of any user of the host. Names of clients are shown, their UUIDs are not:
/// these open sessions.
pub async fn answer_public(view: &Arc<View>, request: Request) -> Answer {
    if !request.is_for_everybody() {
        return failed(Errno::EACCES, &"only the owner of the daemon may ask that");
    }
    match answer(view, request).await {
        Answer::Devices { mut devices } => {
            let of_client =
                |device: &&mut Device| !device.uuid.ends_with("_UUID") && device.kind != "mgs";
            devices.iter_mut().filter(of_client).for_each(|device| device.uuid = "-".to_owned());
            Answer::Devices { devices }
        }
        answer => answer,
    }
}

fn cluster(view: &Arc<View>) -> ClusterAnswer {
    let parts = view.parts();
    let uuid = parts.rpc.cluster();
    let mut fsnames = view.fsnames();
    fsnames.sort();
    fsnames.dedup();
    let nids = parts.rpc.nids();
    // The MGS of this process is where this process is.
    let mgs = if parts.mgs.contains(&Nid::Loopback) { &nids } else { &parts.mgs };
    ClusterAnswer {
        uuid: (uuid != ClusterId(0)).then(|| uuid.to_string()),
        fsnames,
        mgs: mgs.iter().map(Nid::to_string).collect(),
    }
}

fn server_key(view: &Arc<View>) -> Answer {
    let rpc = &view.parts().rpc;
    match rpc.server_key() {
        key if key.is_known() => {
            Answer::ServerKey { cluster: rpc.cluster().to_string(), key: format!("{:032x}", key.0) }
        }
        _ => failed(Errno::EACCES, &"this daemon serves no target"),
    }
}

async fn del_replica(view: &Arc<View>, target: &str, host: String) -> Answer {
    let logs = view.logs();
    let Some(log) = logs.into_iter().find(|log| log.target().to_string() == target) else {
        return failed(
            Errno::ENOENT,
            &"this daemon does not serve, or stand by for, that target on a shared log",
        );
    };
    let remove = move || log.remove_replica(&host);
    match blocking(&view.parts().env, "removed a host from a log", remove).await {
        Ok(Ok(())) => Answer::Done,
        Ok(Err(error @ Unremoved::Owner(_))) => failed(Errno::EBUSY, &error),
        Ok(Err(error @ Unremoved::Unknown(_))) => failed(Errno::ENOENT, &error),
        Ok(Err(error)) => failed(Errno::EIO, &error),
        Err(error) => failed(Errno::EIO, &error),
    }
}

fn params_answer(params: Result<Vec<ParamAnswer>, BadPattern>) -> Answer {
    match params {
        Ok(params) => Answer::Params { params },
        Err(bad) => failed(Errno::EINVAL, &bad),
    }
}

fn failed(errno: Errno, reason: &dyn std::fmt::Display) -> Answer {
    Answer::Failed { errno: errno.0, reason: reason.to_string() }
}

/// A connection proves that a SheenFS node is there.
async fn ping(view: &Arc<View>, nid: &str) -> Answer {
    let nid: Nid = match nid.parse() {
        Ok(nid) => nid,
        Err(bad) => return failed(Errno::EINVAL, &bad),
    };
    let rpc = &view.parts().rpc;
    if rpc.nids().contains(&nid) {
        return Answer::Nids { nids: rpc.nids().iter().map(Nid::to_string).collect() };
    }
    tokio::select! {
        reached = rpc.reach(nid) => match reached {
            Ok(()) => Answer::Nids { nids: vec![Nid::Loopback.to_string(), nid.to_string()] },
            Err(error) => failed(Errno::EIO, &error),
        },
        () = view.parts().env.clock.sleep(PING_TIMEOUT) => failed(Errno::ETIMEDOUT, &"no answer"),
    }
}
