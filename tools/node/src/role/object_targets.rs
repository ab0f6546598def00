//! Gives the MDTs of this process their OSTs and their peers, the other MDTs, and follows the MGS's
//! configuration for them.
//!
//! Owner of one task per file system: it asks the MGS for a newer configuration, which the MGS
//! keeps waiting until there is one. Ends with [`Followed::stop`].

use crate::error::NodeError;
use crate::role::parts::Parts;
use crate::role::registration;
use env::watch;
use mds::mds::Mds;
use mds::object_targets::OscSet;
use mds::peers::Peers;
use parking_lot::Mutex;
use rpc::import::Import;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;
use stubs::mgc::Mgc;
use stubs::osc::Osc;
use types::nid::Nid;
use types::session::ClusterId;
use types::target::{FsName, TargetIndex, TargetKind, TargetName};
use wire::mgs::{FsConfig, PoolInfo};

/// How long the MGS may keep a request waiting, ms.
const WAIT_MS: u32 = 30_000;
/// Pause after the MGS did not answer.
const PAUSE: Duration = Duration::from_secs(2);

/// OSTs and MDTs of one file system, kept up to date.
pub struct Followed {
    /// For the MDTs.
    pub osts: Arc<OscSet>,
    cluster: ClusterId,
    mdts: Arc<Mutex<Vec<Weak<Mds>>>>,
    named: Arc<Mutex<NamedMdts>>,
    kept: Arc<Mutex<Vec<(String, String)>>>,
    stop: watch::Sender<bool>,
}

impl Followed {
    /// Learns the OSTs of today, then follows. Waits for an MGS that does not answer.
    ///
    /// # Errors
    /// The MGS refuses.
    pub async fn start(parts: &Parts, fsname: FsName) -> Result<Followed, NodeError> {
        let osts = Arc::new(OscSet::new());
        let mgc = parts.mgc();
        let config = registration::patiently(parts, || mgc.config(fsname.to_string(), 0, 0)).await;
        let config = config
            .map_err(|e| NodeError::Config { mgs: parts.mgs.clone(), source: Box::new(e) })?;
        let (mdts, named, kept) = (Arc::default(), Arc::default(), Arc::default());
        let mut follower = Follower {
            parts: parts.clone(),
            fsname,
            osts: osts.clone(),
            mdts: Arc::clone(&mdts),
            named: Arc::clone(&named),
            kept: Arc::clone(&kept),
            known: HashMap::new(),
        };
        follower.apply(&config);
        let (stop, ear) = watch::channel(false);
        parts.env.tasks.spawn(
            "mdt follows configuration",
            Box::pin(follower.follow(mgc, config.version, ear)),
        );
        let nodemaps = follow_nodemaps(parts.clone(), Arc::clone(&mdts), stop.subscribe());
        parts.env.tasks.spawn("mdt follows nodemaps", Box::pin(nodemaps));
        let cluster = ClusterId(config.cluster);
        Ok(Followed { osts, cluster, mdts, named, kept, stop })
    }

    /// The cluster of the MGS.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// The parameters that the MGS keeps of this file system, as of now.
    pub fn kept_params(&self) -> Vec<(String, String)> {
        self.kept.lock().clone()
    }

    /// Registers an MDT for changes: an OST that came back gets new files and outstanding work at
    /// once.
    pub fn tell(&self, mdt: &Arc<Mds>) {
        self.mdts.lock().push(Arc::downgrade(mdt));
    }

    /// Tells an MDT its peers: those of today at once, those to come when they are named.
    pub fn tell_peers(&self, peers: &Arc<Peers>) {
        let mut named = self.named.lock();
        // It knows no peer yet, so none was removed.
        peers.follow(&named.mdts);
        named.told.retain(|told| told.strong_count() > 0);
        named.told.push(Arc::downgrade(peers));
    }

    /// Ends the task.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

/// Tells MDTs each change of nodemaps. One in service had them when it started.
async fn follow_nodemaps(
    parts: Parts,
    mdts: Arc<Mutex<Vec<Weak<Mds>>>>,
    mut stop: watch::Receiver<bool>,
) {
    let (mgc, mut version) = (parts.mgc(), None);
    loop {
        let answer = tokio::select! {
            biased;
            answer = mgc.nodemaps(version, WAIT_MS) => answer,
            _ = stop.changed() => return,
        };
        match answer {
            Ok(nodemaps) => {
                version = Some(nodemaps.version);
                let nodemaps = Arc::new(nodemaps);
                let mdts: Vec<Arc<Mds>> = mdts.lock().iter().filter_map(Weak::upgrade).collect();
                mdts.iter().for_each(|mdt| mdt.set_nodemaps(nodemaps.clone()));
            }
            Err(error) => {
                // Also that a new target is not believed to be a server before it registered.
                tracing::debug!(%error, "no nodemaps from the MGS; going on with the known ones");
                tokio::select! {
                    biased;
                    () = parts.env.clock.sleep(PAUSE) => {}
                    _ = stop.changed() => return,
                }
            }
        }
    }
}

/// MDTs of the configuration, and the peers that are told of changes.
#[derive(Default)]
struct NamedMdts {
    mdts: BTreeMap<TargetIndex, Vec<Nid>>,
    told: Vec<Weak<Peers>>,
}

struct Follower {
    parts: Parts,
    fsname: FsName,
    osts: Arc<OscSet>,
    mdts: Arc<Mutex<Vec<Weak<Mds>>>>,
    named: Arc<Mutex<NamedMdts>>,
    kept: Arc<Mutex<Vec<(String, String)>>>,
    known: HashMap<TargetIndex, (Vec<Nid>, Arc<Import>)>,
}

impl Follower {
    async fn follow(mut self, mgc: Mgc, mut version: u64, mut stop: watch::Receiver<bool>) {
        loop {
            let answer = tokio::select! {
                biased;
                answer = mgc.config(self.fsname.to_string(), version, WAIT_MS) => answer,
                _ = stop.changed() => return,
            };
            match answer {
                Ok(config) if config.version > version => {
                    version = config.version;
                    self.apply(&config);
                    for mdt in self.mdts.lock().iter().filter_map(Weak::upgrade) {
                        mdt.osts_changed();
                    }
                    tracing::debug!(version, fsname = %self.fsname, "new configuration");
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "no configuration from the MGS; going on with the known one");
                    tokio::select! {
                        biased;
                        () = self.parts.env.clock.sleep(PAUSE) => {}
                        _ = stop.changed() => return,
                    }
                }
            }
        }
    }

    /// Takes the pools; adds new OSTs, moves those that moved, lets go of those that were removed.
    fn apply(&mut self, config: &FsConfig) {
        self.kept.lock().clone_from(&config.params);
        let osts = |pool: &PoolInfo| pool.osts.iter().copied().map(TargetIndex).collect();
        self.osts
            .set_pools(config.pools.iter().map(|pool| (pool.name.clone(), osts(pool))).collect());
        let named = |index: &TargetIndex| {
            let name = TargetName::ost(self.fsname, index.0).to_string();
            config.targets.iter().any(|info| info.name == name)
        };
        let removed: Vec<TargetIndex> =
            self.known.keys().filter(|index| !named(index)).copied().collect();
        for index in removed {
            tracing::warn!(ost = ?index, "removed from the file system");
            self.osts.remove(index);
            if let Some((_, import)) = self.known.remove(&index) {
                import.remove();
                self.leave(import);
            }
        }
        let mut mdts = BTreeMap::new();
        for info in &config.targets {
            let Ok(name) = info.name.parse::<TargetName>() else {
                tracing::warn!(name = info.name, "the MGS names a target that this version cannot");
                continue;
            };
            let nids: Vec<Nid> = info.nids.iter().filter_map(|nid| nid.parse().ok()).collect();
            if name.fsname != self.fsname || nids.is_empty() {
                continue;
            }
            match name.kind {
                TargetKind::Ost => {}
                TargetKind::Mdt => {
                    mdts.insert(name.index, nids);
                    continue;
                }
                TargetKind::Mgt => continue,
            }
            match self.known.get_mut(&name.index) {
                Some((known, import)) => {
                    if *known != nids {
                        tracing::info!(%name, ?nids, "moved");
                        import.set_nids(nids.clone());
                        *known = nids;
                    }
                    import.heard_of(info.boot);
                }
                None => {
                    let import = self.parts.session(name, &nids);
                    // The import may have been made for another purpose, with other NIDs.
                    import.set_nids(nids.clone());
                    self.osts.set(name.index, Osc::new(import.clone()));
                    self.known.insert(name.index, (nids, import));
                }
            }
        }
        let mut named = self.named.lock();
        let told: Vec<Arc<Peers>> = named.told.iter().filter_map(Weak::upgrade).collect();
        for import in told.iter().flat_map(|peers| peers.follow(&mdts)) {
            tracing::warn!(mdt = %import.target(), "removed from the file system");
            self.leave(import);
        }
        named.mdts = mdts;
    }

    fn leave(&self, import: Arc<Import>) {
        let disconnect = async move { import.disconnect().await };
        self.parts.env.tasks.spawn("leave a removed target", Box::pin(disconnect));
    }
}
