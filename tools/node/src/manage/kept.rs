//! Changes that `lctl` makes at the MGS through a daemon: persistent parameters, pools,
//! nodemaps.

use crate::manage::control::Answer;
use crate::manage::flavor;
use crate::watch::view::View;
use idmap::scope::Scope;
use idmap::set::NodemapChange;
use rpc::error::RpcError;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use types::errno::Errno;
use wire::mgs::PoolChange;

/// The MGS answers within this time, or the command fails.
const ASK_TIMEOUT: Duration = Duration::from_secs(8);
/// Every file system of the MGS (`mgs::registry::EVERY_FILE_SYSTEM`).
const EVERY_FILE_SYSTEM: &str = "*";

/// Origin of what is kept for all processes.
const OF_ALL: &str = "all";

/// A parameter that the MGS keeps, as the control socket tells it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeptParam {
    /// For which processes: `all`, or a scope.
    pub origin: String,
    /// Its name, or a pattern.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A pool, as the control socket tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolAnswer {
    /// Name of the pool.
    pub name: String,
    /// OSTs of the pool.
    pub osts: Vec<u16>,
}

/// A change of a pool, in the control socket's form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PoolAsked {
    /// Makes it.
    New,
    /// OSTs come in.
    Add(Vec<u16>),
    /// OSTs go out.
    Remove(Vec<u16>),
    /// Destroys it.
    Destroy,
}

/// Whether a value can be kept, where this process can tell.
fn fits(view: &View, name: &str, value: Option<&str>) -> Result<(), (Errno, String)> {
    match value {
        Some(value) if name.starts_with(flavor::PREFIX) => {
            flavor::check(name, value, view.parts().keys.is_some())
        }
        _ => Ok(()),
    }
}

/// Keeps a parameter of every file system, or with `None` forgets it.
pub async fn set(view: &Arc<View>, name: String, value: Option<String>) -> Answer {
    if let Err((errno, reason)) = fits(view, &name, value.as_deref()) {
        return Answer::Failed { errno: errno.0, reason };
    }
    let mgc = view.parts().mgc();
    answered(
        in_time(view, mgc.set_param(EVERY_FILE_SYSTEM.to_owned(), name, value))
            .await
            .map(|()| Answer::Done),
    )
}

/// Keeps a parameter for a scope, or with `None` forgets it.
pub async fn set_scoped(
    view: &Arc<View>,
    scope: Scope,
    name: String,
    value: Option<String>,
) -> Answer {
    if let Err((errno, reason)) = fits(view, &name, value.as_deref()) {
        return Answer::Failed { errno: errno.0, reason };
    }
    let mgc = view.parts().mgc();
    answered(in_time(view, mgc.set_scoped(scope, name, value)).await.map(|()| Answer::Done))
}

/// What is kept, from the widest scope to the narrowest: all of it if the MGS tells this process,
/// else what is kept for all and for the scopes in which this process is.
pub async fn list(view: &Arc<View>) -> Answer {
    answered(kept(view).await.map(|params| Answer::Kept { params }))
}

async fn kept(view: &Arc<View>) -> Result<Vec<KeptParam>, Errno> {
    let (mgc, host) = (view.parts().mgc(), view.parts().host.clone());
    let mut params: Vec<KeptParam> = Vec::new();
    let mut fsnames = view.fsnames();
    fsnames.sort();
    fsnames.dedup();
    for fsname in fsnames {
        for (name, value) in in_time(view, mgc.config(fsname, 0, 0)).await?.params {
            let param = KeptParam { origin: OF_ALL.to_owned(), name, value };
            if !params.contains(&param) {
                params.push(param);
            }
        }
    }
    let scoped = match in_time(view, mgc.scoped((host.clone(), true), None, 0)).await {
        Err(Errno::EACCES) => in_time(view, mgc.scoped((host, false), None, 0)).await,
        answer => answer,
    };
    let (_, scoped) = match scoped {
        // It is of an earlier version.
        Err(Errno::EPROTO) => return Ok(params),
        scoped => scoped?,
    };
    params.extend(scoped.into_iter().map(|param| KeptParam {
        origin: param.scope.to_string(),
        name: param.name,
        value: param.value,
    }));
    Ok(params)
}

/// Changes a pool.
pub async fn change_pool(
    view: &Arc<View>,
    fsname: String,
    pool: String,
    change: PoolAsked,
) -> Answer {
    let change = match change {
        PoolAsked::New => PoolChange::New,
        PoolAsked::Add(osts) => PoolChange::Add(osts),
        PoolAsked::Remove(osts) => PoolChange::Remove(osts),
        PoolAsked::Destroy => PoolChange::Destroy,
    };
    let mgc = view.parts().mgc();
    answered(in_time(view, mgc.pool(fsname, pool, change)).await.map(|()| Answer::Done))
}

/// Removes a target from its file system.
pub async fn remove(view: &Arc<View>, target: String, force: bool, dry_run: bool) -> Answer {
    let mgc = view.parts().mgc();
    let removed = match dry_run {
        true => in_time(view, mgc.can_remove(target, force)).await,
        false => in_time(view, mgc.remove(target, force)).await,
    };
    answered(removed.map(|()| Answer::Done))
}

/// Tells the MGS other NIDs of a target.
pub async fn replace_nids(view: &Arc<View>, target: String, nids: Vec<String>) -> Answer {
    let mgc = view.parts().mgc();
    answered(in_time(view, mgc.replace_nids(target, nids)).await.map(|()| Answer::Done))
}

/// Pools and OSTs of a file system. ENOENT: its MGS does not know it.
pub async fn pools(view: &Arc<View>, fsname: String) -> Answer {
    let mgc = view.parts().mgc();
    let config = in_time(view, mgc.config(fsname, 0, 0)).await;
    answered(config.and_then(|config| match config.version {
        0 => Err(Errno::ENOENT),
        _ => {
            let pool = |p: wire::mgs::PoolInfo| PoolAnswer { name: p.name, osts: p.osts };
            Ok(Answer::Pools { pools: config.pools.into_iter().map(pool).collect() })
        }
    }))
}

/// All nodemaps.
pub async fn nodemaps(view: &Arc<View>) -> Answer {
    let mgc = view.parts().mgc();
    let nodemaps = in_time(view, mgc.nodemaps(None, 0)).await;
    answered(nodemaps.map(|nodemaps| Answer::Nodemaps { nodemaps: Box::new(nodemaps) }))
}

/// Changes nodemaps.
pub async fn change_nodemaps(view: &Arc<View>, change: NodemapChange) -> Answer {
    let mgc = view.parts().mgc();
    answered(in_time(view, mgc.change_nodemaps(change)).await.map(|()| Answer::Done))
}

async fn in_time<T>(
    view: &Arc<View>,
    ask: impl Future<Output = Result<T, RpcError>>,
) -> Result<T, Errno> {
    tokio::select! {
        biased;
        answer = ask => answer.map_err(|error| error.errno()),
        () = view.parts().env.clock.sleep(ASK_TIMEOUT) => Err(Errno::ETIMEDOUT),
    }
}

fn answered(result: Result<Answer, Errno>) -> Answer {
    result.unwrap_or_else(|errno| Answer::Failed {
        errno: errno.0,
        reason: "the MGS refuses".to_owned(),
    })
}
