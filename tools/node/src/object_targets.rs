//! Gives the MDTs of this process their OSTs, and follows the MGS's configuration for them.
//!
//! Owner of one task per file system: it asks the MGS for a newer configuration, which the MGS keeps waiting until
//! there is one. Ends with [`Followed::stop`].

use crate::error::NodeError;
use crate::parts::Parts;
use mds::object_targets::OscSet;
use rpc::import::Import;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use stubs::mgc::Mgc;
use stubs::osc::Osc;
use tokio::sync::watch;
use types::nid::Nid;
use types::target::{FsName, TargetIndex, TargetKind, TargetName};
use wire::mgs::FsConfig;

/// How long the MGS may keep a question waiting, ms.
const WAIT_MS: u32 = 30_000;
/// Pause after the MGS did not answer.
const PAUSE: Duration = Duration::from_secs(2);

/// OSTs of one file system, kept up to date.
pub struct Followed {
    /// For the MDTs.
    pub osts: Arc<OscSet>,
    stop: watch::Sender<bool>,
}

impl Followed {
    /// Learns the OSTs of today, then follows.
    ///
    /// # Errors
    /// The MGS does not answer.
    pub async fn start(parts: &Parts, fsname: FsName) -> Result<Followed, NodeError> {
        let osts = Arc::new(OscSet::new());
        let mgc = parts.mgc();
        let config = mgc.config(fsname.to_string(), 0, 0).await;
        let config = config.map_err(|source| NodeError::Config { mgs: parts.mgs.clone(), source })?;
        let mut follower = Follower { parts: parts.clone(), fsname, osts: osts.clone(), known: HashMap::new() };
        follower.apply(&config);
        let (stop, ear) = watch::channel(false);
        parts.env.tasks.spawn("mdt follows configuration", Box::pin(follower.follow(mgc, config.version, ear)));
        Ok(Followed { osts, stop })
    }

    /// Ends the task.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

struct Follower {
    parts: Parts,
    fsname: FsName,
    osts: Arc<OscSet>,
    known: HashMap<TargetIndex, (Vec<Nid>, Arc<Import>)>,
}

impl Follower {
    async fn follow(mut self, mgc: Mgc, mut version: u64, mut stop: watch::Receiver<bool>) {
        loop {
            let answer = tokio::select! {
                answer = mgc.config(self.fsname.to_string(), version, WAIT_MS) => answer,
                _ = stop.changed() => return,
            };
            match answer {
                Ok(config) if config.version > version => {
                    version = config.version;
                    self.apply(&config);
                    tracing::debug!(version, fsname = %self.fsname, "new configuration");
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "no configuration from the MGS; going on with the known one");
                    tokio::select! {
                        () = self.parts.env.clock.sleep(PAUSE) => {}
                        _ = stop.changed() => return,
                    }
                }
            }
        }
    }

    /// Adds new OSTs, moves those that moved. None ever leaves: objects may still be there.
    fn apply(&mut self, config: &FsConfig) {
        for info in &config.targets {
            let Ok(name) = info.name.parse::<TargetName>() else {
                tracing::warn!(name = info.name, "the MGS names a target that this version cannot");
                continue;
            };
            let nids: Vec<Nid> = info.nids.iter().filter_map(|nid| nid.parse().ok()).collect();
            if name.kind != TargetKind::Ost || name.fsname != self.fsname || nids.is_empty() {
                continue;
            }
            match self.known.get_mut(&name.index) {
                Some((known, _)) if *known == nids => {}
                Some((known, import)) => {
                    tracing::info!(%name, ?nids, "moved");
                    import.set_nids(nids.clone());
                    *known = nids;
                }
                None => {
                    let import = self.parts.import(name, nids.clone());
                    self.osts.set(name.index, Osc::new(import.clone()));
                    self.known.insert(name.index, (nids, import));
                }
            }
        }
    }
}
