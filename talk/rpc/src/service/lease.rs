//! Leases: a client over the network that was not heard of for too long is evicted.
//!
//! One task per process, started with the first such client.

use crate::Rpc;
use crate::service::Gone;
use futures_util::future::{Either, select};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Rpc {
    /// Starts the task, if it does not run.
    pub(crate) fn watch_leases(self: &Arc<Self>) {
        if self.leases.swap(true, Ordering::AcqRel) {
            return;
        }
        let (rpc, env) = (Arc::downgrade(self), self.env().clone());
        let mut stopped = Box::pin(self.stopped());
        let lease = self.timings().lease;
        let watch = async move {
            while let Either::Left(_) = select(env.clock.sleep(lease / 6), &mut stopped).await {
                let Some(rpc) = rpc.upgrade() else { return };
                let now = env.clock.now();
                for served in rpc.served().all() {
                    for export in served.exports() {
                        if export.is_remote() && now.saturating_sub(export.heard_at()) > lease {
                            tracing::warn!(
                                target = %export.target(),
                                client = %export.client().brief(),
                                nid = %export.nid(),
                                description = export.description(),
                                "client evicted: not heard of for its lease"
                            );
                            served.end(&export, Gone::Evicted);
                        }
                    }
                }
            }
        };
        self.env().tasks.spawn("watch leases", Box::pin(watch));
    }
}
