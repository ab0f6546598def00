//! The configuration: asked for at the MGS once, then followed with a long poll, as long as the
//! mount lives.

use crate::error::ClientError;
use crate::session::Session;
use crate::targets::Identity;
use env::watch;
use rpc::Rpc;
use std::sync::{Arc, Weak};
use std::time::Duration;
use stubs::mgc::Mgc;
use types::nid::Nid;
use types::session::ClusterId;
use types::target::TargetName;
use wire::mgs::FsConfig;

/// How long the MGS may keep a request open, milliseconds. Well below the request time-out.
const POLL_MS: u32 = 30_000;
/// Pause after an error, so that a dead MGS is not asked in a loop.
const PAUSE: Duration = Duration::from_secs(2);

/// Asks the MGS at `mgs` (best first) for the configuration. 2 round trips.
///
/// # Errors
/// The MGS does not answer, or there is no such file system.
pub async fn ask(
    rpc: &Arc<Rpc>,
    mgs: &[Nid],
    identity: &Identity,
) -> Result<(Mgc, FsConfig), ClientError> {
    let Identity { fsname, uuid, description, .. } = identity;
    let mgc =
        Mgc::new(rpc.import(TargetName::mgs(), mgs.to_vec(), *uuid, description.clone(), None));
    let config = mgc.config(fsname.to_string(), 0, 0).await?;
    let root = TargetName::mdt(*fsname, 0).to_string();
    if !config.targets.iter().any(|target| target.name == root) {
        // A caller that tries again and again must not leave a session behind each time.
        mgc.import().disconnect().await;
        return Err(ClientError::NoFileSystem { fsname: fsname.to_string(), mgs: mgs.to_vec() });
    }
    rpc.set_cluster(ClusterId(config.cluster));
    Ok((mgc, config))
}

/// Applies every new configuration until `stop` changes or the session is gone.
pub(crate) async fn follow(
    session: Weak<Session>,
    mut known: u64,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let Some(strong) = session.upgrade() else { return };
        let (mgc, fsname, clock) =
            (strong.mgc().clone(), strong.fsname().to_string(), strong.env.clock.clone());
        drop(strong);
        let answer = tokio::select! {
            biased;
            answer = mgc.config(fsname, known, POLL_MS) => answer,
            _ = stop.changed() => return,
        };
        let pause = match answer {
            Ok(config) if config.version > known => {
                let Some(strong) = session.upgrade() else { return };
                known = config.version;
                match strong.apply(&config) {
                    Ok(()) => tracing::info!(version = known, "new configuration"),
                    Err(error) => {
                        tracing::error!(%error, version = known, "configuration from the MGS")
                    }
                }
                false
            }
            Ok(_) => false,
            Err(error) => {
                tracing::warn!(%error, "no configuration from the MGS; going on with the known one");
                true
            }
        };
        if pause {
            tokio::select! {
                biased;
                () = clock.sleep(PAUSE) => {}
                _ = stop.changed() => return,
            }
        }
    }
}
