//! Tells an OST which clients must show tickets (docs/security.md, "Object tickets"): nodemaps, and
//! squash as the MGS keeps it for the MDTs of the file system.
//!
//! Owner of two tasks per OST: each asks the MGS for news, which the MGS keeps waiting until there
//! are some. They end with [`Restricted::stop`].

use crate::error::NodeError;
use crate::manage::persistent::values_of;
use crate::role::parts::Parts;
use crate::role::registration::patiently;
use env::watch;
use idmap::ids;
use idmap::rules::{Rules, parse_spared};
use observe::catalog::{MDT_ALL_SQUASH, MDT_NOSQUASH_NIDS, MDT_ROOT_SQUASH};
use observe::tree::Tree;
use oss::ost::Ost;
use rpc::error::RpcError;
use std::sync::{Arc, Weak};
use std::time::Duration;
use stubs::mgc::Mgc;
use types::target::{FsName, TargetKind, TargetName};
use wire::mgs::FsConfig;

/// How long the MGS may keep a request waiting, ms.
const WAIT_MS: u32 = 30_000;
/// Pause after the MGS did not answer.
const PAUSE: Duration = Duration::from_secs(2);

/// See the module.
pub struct Restricted {
    stop: watch::Sender<bool>,
}

impl Restricted {
    /// Tells an OST that is not in service yet, then follows. Waits for an MGS that does not
    /// answer: otherwise a restart of the OST would let every client do everything for a moment.
    ///
    /// # Errors
    /// The MGS refuses.
    pub async fn start(
        parts: &Parts,
        mgc: &Mgc,
        fsname: FsName,
        ost: &Arc<Ost>,
    ) -> Result<Restricted, NodeError> {
        let refused = |error| NodeError::Config { mgs: parts.mgs.clone(), source: Box::new(error) };
        let nodemaps = patiently(parts, || mgc.nodemaps(None, 0)).await.map_err(refused)?;
        let version = nodemaps.version;
        ost.set_nodemaps(Arc::new(nodemaps));
        let config = patiently(parts, || mgc.config(fsname.to_string(), 0, 0)).await;
        let config = config.map_err(refused)?;
        ost.set_squash(squash_of(fsname, &config));
        let (stop, _) = watch::channel(false);
        let me = Arc::downgrade(ost);
        let nodemaps = follow_nodemaps(parts.clone(), me.clone(), version, stop.subscribe());
        parts.env.tasks.spawn("ost follows nodemaps", Box::pin(nodemaps));
        let known = (fsname, config.version);
        let squash = follow_squash(parts.clone(), me, known, stop.subscribe());
        parts.env.tasks.spawn("ost follows squash", Box::pin(squash));
        Ok(Restricted { stop })
    }

    /// Ends the tasks.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

/// The rules by which the MDTs of a file system squash, as far as the MGS keeps them.
fn squash_of(fsname: FsName, config: &FsConfig) -> Vec<Rules> {
    let names = config.targets.iter().filter_map(|info| info.name.parse::<TargetName>().ok());
    let mdts = names.filter(|name| name.kind == TargetKind::Mdt && name.fsname == fsname);
    let mdts: Vec<String> = mdts.map(|name| name.to_string()).collect();
    let mut tree = Tree::new();
    for mdt in &mdts {
        for param in [&MDT_ROOT_SQUASH, &MDT_ALL_SQUASH, &MDT_NOSQUASH_NIDS] {
            tree.shows(param, &[mdt], || Ok(String::new()));
        }
    }
    let values = values_of(&tree, config.params.clone());
    let rules = |mdt: &String| {
        let value = |name: &str| values.get(&format!("mdt/{mdt}/{name}")).map(String::as_str);
        // What the MDT refuses changes nothing there.
        let ids = |name| value(name).and_then(|text| ids::parse(text).ok()).flatten();
        let spared = value("nosquash_nids").and_then(|text| parse_spared(text).ok());
        Rules {
            root: ids("root_squash"),
            all: ids("all_squash"),
            spared: spared.unwrap_or_default(),
        }
    };
    mdts.iter().map(rules).collect()
}

async fn follow_nodemaps(
    parts: Parts,
    ost: Weak<Ost>,
    mut version: u64,
    mut stop: watch::Receiver<bool>,
) {
    let mgc = parts.mgc();
    loop {
        let answer = tokio::select! {
            biased;
            answer = mgc.nodemaps(Some(version), WAIT_MS) => answer,
            _ = stop.changed() => return,
        };
        let Some(ost) = ost.upgrade() else { return };
        match answer {
            Ok(nodemaps) => {
                if nodemaps.version != version {
                    version = nodemaps.version;
                    ost.set_nodemaps(Arc::new(nodemaps));
                }
            }
            Err(error) => {
                drop(ost);
                if pause(&parts, &error, &mut stop).await {
                    return;
                }
            }
        }
    }
}

async fn follow_squash(
    parts: Parts,
    ost: Weak<Ost>,
    (fsname, mut version): (FsName, u64),
    mut stop: watch::Receiver<bool>,
) {
    let mgc = parts.mgc();
    loop {
        let answer = tokio::select! {
            biased;
            answer = mgc.config(fsname.to_string(), version, WAIT_MS) => answer,
            _ = stop.changed() => return,
        };
        let Some(ost) = ost.upgrade() else { return };
        match answer {
            Ok(config) => {
                if config.version > version {
                    version = config.version;
                    ost.set_squash(squash_of(fsname, &config));
                }
            }
            Err(error) => {
                drop(ost);
                if pause(&parts, &error, &mut stop).await {
                    return;
                }
            }
        }
    }
}

/// Waits before the MGS is asked again; `true`: the tasks end.
async fn pause(parts: &Parts, error: &RpcError, stop: &mut watch::Receiver<bool>) -> bool {
    tracing::debug!(%error, "no news from the MGS; going on with what is known");
    tokio::select! {
        biased;
        () = parts.env.clock.sleep(PAUSE) => false,
        _ = stop.changed() => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::credentials::Ids;
    use wire::mgs::TargetInfo;

    #[test]
    fn squash_is_what_the_mgs_keeps_for_each_mdt() {
        let fsname: FsName = "sheen".parse().unwrap();
        let target =
            |name: &str| TargetInfo { name: name.to_owned(), nids: Vec::new(), boot: 1, up: true };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let config = FsConfig {
            targets: ["sheen-MDT0000", "sheen-MDT0001", "sheen-OST0000", "other-MDT0000"]
                .map(target)
                .to_vec(),
            params: vec![
                pair("mdt.*.root_squash", "99:98"),
                pair("mdt.sheen-MDT0001.root_squash", "0:0"),
                pair("mdt.*.nosquash_nids", "10.0.0.[1-2]@tcp"),
                pair("mdt.*.all_squash", "nonsense"),
            ],
            ..FsConfig::default()
        };
        let rules = squash_of(fsname, &config);
        let spared = parse_spared("10.0.0.[1-2]@tcp").unwrap();
        let root = Some(Ids { uid: 99, gid: 98 });
        let of = |root| Rules { root, all: None, spared: spared.clone() };
        assert_eq!(rules, [of(root), of(None)]);
    }
}
