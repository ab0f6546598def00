//! A process that forwards between networks.
//!
//! It connects only to the MGS and to what the MGS names as servers of its file systems: it is no
//! door to anything else. One task per file system asks the MGS for news. While the MGS does not
//! answer, what was heard last holds.

use crate::manage::security;
use crate::role::parts::Parts;
use env::watch;
use std::time::Duration;
use types::nid::Nid;
use types::target::FsName;

/// How long the MGS may keep a request waiting, ms.
const WAIT_MS: u32 = 30_000;
/// Pause after the MGS did not answer, or told the same again.
const PAUSE: Duration = Duration::from_secs(1);

/// It forwards until this is dropped.
pub struct RouterRole {
    stop: watch::Sender<bool>,
}

impl RouterRole {
    /// Starts.
    pub fn start(parts: &Parts, fsnames: &[FsName]) -> RouterRole {
        let rpc = &parts.rpc;
        rpc.allow_forwarding("MGS", parts.mgs.clone());
        rpc.forward(true);
        let stop = watch::Sender::new(false);
        for fsname in fsnames {
            let work = follow(parts.clone(), *fsname, stop.subscribe());
            parts.env.tasks.spawn("router follows configuration", Box::pin(work));
        }
        RouterRole { stop }
    }

    /// Ends the tasks; nothing new is forwarded.
    pub fn stop(&self, parts: &Parts) {
        self.stop.send_replace(true);
        parts.rpc.forward(false);
    }
}

async fn follow(parts: Parts, fsname: FsName, mut stop: watch::Receiver<bool>) {
    let (mgc, mut version) = (parts.mgc(), 0);
    loop {
        let answer = tokio::select! {
            biased;
            _ = stop.changed() => return,
            answer = mgc.config(fsname.to_string(), version, WAIT_MS) => answer,
        };
        match answer {
            Ok(config) if config.version > version => {
                version = config.version;
                security::obey(&parts, &config.params);
                let all = config.targets.iter().flat_map(|target| &target.nids);
                let nids: Vec<Nid> = all.filter_map(|nid| nid.parse().ok()).collect();
                tracing::info!(%fsname, version, nids = nids.len(), "forwards to these");
                parts.rpc.allow_forwarding(fsname.as_str(), nids);
                continue;
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%fsname, %error, "the MGS tells a router nothing"),
        }
        tokio::select! {
            biased;
            _ = stop.changed() => return,
            () = parts.env.clock.sleep(PAUSE) => {}
        }
    }
}
