//! The lease of an owner: a thread renews it while the claim stands, and ends it when it does not.

use crate::host::shared_log::replica_of;
use crate::role::standby::{LOOK, Life, Taken};
use env::Env;
use etcd::client::Etcd;
use std::sync::Arc;
use std::time::Duration;
use store::error::StoreError;
use store::kv::Kv;
use store::lease::Lease;
use store::shared_log::{Claim, SharedLog};
use tokio::sync::oneshot;

/// How often an owner looks whether its claim stands.
const LOOK_AT_CLAIM: Duration = Duration::from_millis(250);

impl Life {
    /// Renews the lease until it ends.
    pub(super) fn keep_lease(&self, taken: &Taken) -> oneshot::Receiver<()> {
        let (env, members) = (self.parts.env.clone(), self.place.members.clone());
        let (name, replica) = (self.place.name.to_string(), replica_of(&self.place.dir));
        let (lease, ender) = (taken.lease.clone(), self.parts.leases.clone());
        let claim = Claim { fence: taken.target.store().fence(), lease: taken.id };
        let (done, ended) = oneshot::channel();
        let keep = move || {
            ender.add(claim.lease, &members);
            match Etcd::new(members.clone(), Etcd::DEADLINE / 3) {
                Ok(kv) => {
                    let kv = Arc::new(kv);
                    // No entry is read: of which store they are does not matter.
                    let keys = members.keys_of(&name);
                    let log = SharedLog::new(kv.clone(), &keys, 0, &replica, &replica);
                    keep(&env, &log, claim, &lease);
                    if let Err(error) = kv.revoke(claim.lease) {
                        tracing::debug!(%error, "the lease ends by itself");
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "the lease cannot be renewed");
                    lease.end();
                }
            }
            ender.remove(claim.lease);
            // The receiver waits for this, or is gone with its process.
            let _ = done.send(());
        };
        self.parts.env.tasks.spawn_thread("keep lease", Box::new(keep));
        ended
    }
}

fn keep(env: &Env, log: &SharedLog, claim: Claim, lease: &Lease) {
    let (mut next, mut renewal) = (env.clock.now(), env.clock.now());
    while !lease.is_ended() {
        let now = env.clock.now();
        if now < next {
            std::thread::sleep(LOOK);
            continue;
        }
        let is_due = now >= renewal;
        let done = match is_due {
            true => log.renew(claim, lease, now),
            false => log.look(claim, lease),
        };
        match done {
            Ok(true) => {
                next = now + LOOK_AT_CLAIM;
                if is_due {
                    renewal = now + lease.interval();
                }
            }
            Ok(false) => tracing::warn!("the claim has ended"),
            Err(error @ StoreError::NoAnswer { .. }) => {
                tracing::debug!(%error, "the lease is not renewed yet");
                std::thread::sleep(LOOK);
            }
            Err(error) => tracing::error!(%error, "the claim has ended"),
        }
    }
}
