//! Following the configuration: a long poll at the MGS, as long as the mount lives.

use crate::client::Client;
use env::watch;
use std::sync::Weak;
use std::time::Duration;

/// How long the MGS may keep a question open, milliseconds. Well below the request time-out.
const POLL_MS: u32 = 30_000;
/// Pause after an error, so that a dead MGS is not asked in a loop.
const PAUSE: Duration = Duration::from_secs(2);

/// Applies every new configuration until `stop` changes or the client is gone.
pub async fn follow(client: Weak<Client>, mut known: u64, mut stop: watch::Receiver<bool>) {
    loop {
        let Some(strong) = client.upgrade() else { return };
        let (mgc, fsname, clock) = (strong.mgc.clone(), strong.fsname().to_string(), strong.env.clock.clone());
        drop(strong);
        let answer = tokio::select! {
            biased;
            answer = mgc.config(fsname, known, POLL_MS) => answer,
            _ = stop.changed() => return,
        };
        let pause = match answer {
            Ok(config) if config.version > known => {
                let Some(strong) = client.upgrade() else { return };
                known = config.version;
                match strong.apply(&config) {
                    Ok(()) => tracing::info!(version = known, "new configuration"),
                    Err(error) => tracing::error!(%error, version = known, "configuration from the MGS"),
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
