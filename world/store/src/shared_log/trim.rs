//! What a log need not keep any more.

use super::SharedLog;
use super::keys::{number, one, put};
use super::shown::HostTree;
use crate::error::StoreError;
use crate::kv::{Compare, KvError, Outcome, Txn};
use std::sync::atomic::Ordering;

/// Bytes under keys beyond which hosts and checkpoints that lack them no longer count: hosts get
/// the owner's tree when they come back.
pub(super) const BYTES_FOR_OTHERS_MAX: u64 = super::BYTES_MAX / 2;
/// The same for bytes in blobs.
const BLOB_BYTES_FOR_OTHERS_MAX: u64 = 4 << 30;

impl SharedLog {
    /// Notes how far the tree of this host durably is, and removes what neither a host nor the
    /// checkpoint needs.
    pub(super) fn trim_to(&self, own: u64) -> Result<(), StoreError> {
        let note = Txn { then: vec![put(self.replica_key(), number(own))], ..Txn::default() };
        let full = match self.kv.txn(&note) {
            // Removing is what makes room.
            Err(KvError::Full(_)) => true,
            noted => noted.map(|_| false).map_err(|e| self.error(e))?,
        };
        let replicas = self.replicas()?;
        let checkpoint = match &self.blobs {
            Some(_) => Some(self.checkpoint_now()?),
            None => None,
        };
        let covered =
            checkpoint.as_ref().map(|(_, found)| found.as_ref().map_or(0, |now| now.number));
        let others = || replicas.iter().filter(|replica| replica.host != self.host);
        let applied = others().map(|replica| replica.applied);
        let all = applied.chain(covered).min().unwrap_or(own).min(own);
        let kept = self.kept.lock().bytes(0);
        let owned = self.owned.load(Ordering::Acquire);
        let much =
            full || kept.keys > BYTES_FOR_OTHERS_MAX || kept.blobs > BLOB_BYTES_FOR_OTHERS_MAX;
        // The owner's tree has it all: hosts that lack what goes get that.
        let alone = owned != 0 && all < own && much;
        let through = if alone { own } else { all };
        if through <= self.trimmed.load(Ordering::Acquire) {
            return Ok(());
        }
        // From the beginning: an earlier owner may have left some.
        let mut gone = Txn { then: self.ranges(0..through + 1).to_vec(), ..Txn::default() };
        if alone {
            // Only an owner may: the tree of another host may be behind that of the owner.
            gone.compare.push(Compare::Is(self.key("epoch"), number(owned)));
            for HostTree { host, applied } in others().filter(|replica| replica.applied < own) {
                tracing::warn!(
                    log = self.name(),
                    host,
                    applied,
                    "trimmed without this host; it will get the tree anew"
                );
                gone.then.push(one(self.replica_key_of(host)));
            }
            if let Some((Some(value), Some(found))) = &checkpoint
                && found.number < own
            {
                tracing::warn!(
                    log = self.name(),
                    checkpoint = found.number,
                    "trimmed without the checkpoint; another one will be made"
                );
                let key = self.key("checkpoint");
                // One that was made meanwhile stays.
                gone.compare.push(Compare::Is(key.clone(), value.clone()));
                gone.then.push(one(key));
            }
        }
        if self.kv.txn(&gone).map_err(|e| self.error(e))? != Outcome::Done {
            return Ok(());
        }
        self.trimmed.store(through, Ordering::Release);
        self.kept.lock().trimmed(through);
        Ok(())
    }
}
