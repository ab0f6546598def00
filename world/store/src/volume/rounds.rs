//! A round makes what changed durable: it freezes the regions that changed, syncs the device once,
//! and puts their records. They are durable with the next commit of the store, and the places that
//! they no longer name are free then. A round for one object that has little to sync leaves the
//! device alone, and puts the bytes themselves ([`super::logged`]).
//!
//! A thread that waits for a round while another is under way finds in the next one what the others
//! changed meanwhile: one sync serves all of them.

use super::inner::Volume;
use super::map::{Changed, Region};
use crate::error::StoreError;
use disk::volume::{encode_units, object_key, units_key};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use types::object::ObjectId;

/// Bytes of records after which a transaction ends, between two objects.
const TRANSACTION_BYTES: usize = 1 << 20;

impl Volume {
    pub(super) fn sync_object(&self, id: ObjectId) -> Result<(), StoreError> {
        self.check()?;
        let is_clean = || {
            let shard = self.shard(id).read();
            shard.get(&id).is_none_or(|entry| entry.is_clean() && entry.frozen_record.is_none())
        };
        if is_clean() {
            return Ok(());
        }
        let _turn = self.turn.lock();
        // Another round may have been for it.
        if is_clean() { self.check() } else { self.round_of(true) }
    }

    pub(super) fn sync_everything(&self) -> Result<(), StoreError> {
        let _turn = self.turn.lock();
        self.round()
    }

    /// A round that syncs the device. The caller has the turn.
    pub(super) fn round(&self) -> Result<(), StoreError> {
        self.round_of(false)
    }

    /// See the module. `may_log`: little may go to the store instead. The caller has the turn.
    fn round_of(&self, may_log: bool) -> Result<(), StoreError> {
        self.check()?;
        let mut frozen: Vec<Vec<ObjectId>> = Vec::with_capacity(self.shards.len());
        for shard in &self.shards {
            let mut shard = shard.write();
            let mut ids = Vec::new();
            shard.retain(|id, entry| {
                if entry.is_clean() {
                    return false;
                }
                entry.freeze();
                ids.push(*id);
                true
            });
            frozen.push(ids);
        }
        // What is frozen was written before.
        let mut blocks = match may_log {
            true => self.to_log(&frozen).map_err(|error| self.fail(error))?,
            false => None,
        };
        if blocks.is_none() {
            self.sync_device()?;
        }
        for (shard, ids) in self.shards.iter().zip(frozen) {
            let mut ids = ids.into_iter().peekable();
            while ids.peek().is_some() {
                let mut shard = shard.write();
                let (mut freed, mut bytes, mut regions) = (Vec::new(), 0, 0);
                let mut tx = self.store.begin();
                for id in ids.by_ref() {
                    // Without an entry, it was removed.
                    let Some(entry) = shard.get_mut(&id) else { continue };
                    regions += entry.frozen.len();
                    let logged = blocks.as_mut().and_then(|blocks| blocks.remove(&id));
                    bytes += self.log(&mut tx, logged.unwrap_or_default());
                    bytes += put(&mut tx, id, entry, &mut freed);
                    if entry.is_clean() {
                        shard.remove(&id);
                    }
                    if bytes >= TRANSACTION_BYTES {
                        break;
                    }
                }
                let transno = tx.finish();
                self.regions.fetch_sub(regions, Ordering::Relaxed);
                freed.sort_unstable();
                let mut space = self.space.lock();
                space.unsupersede(freed.len() as u64);
                space.free_after(transno, freed.into_iter());
            }
        }
        let mut space = self.space.lock();
        space.committed(self.store.last_committed());
        Ok(())
    }

    /// Syncs the device. What is logged is on it then.
    fn sync_device(&self) -> Result<(), StoreError> {
        if self.written.swap(false, Ordering::AcqRel) {
            let synced = self.device.sync_data();
            synced.map_err(|error| self.fail(StoreError::io("sync", &self.path)(error)))?;
        }
        self.forget_logged();
        Ok(())
    }
}

/// Puts what is frozen of an object; returns the bytes of its records.
fn put(
    tx: &mut crate::tx::Tx<'_>,
    id: ObjectId,
    entry: &mut Changed,
    freed: &mut Vec<u32>,
) -> usize {
    let mut bytes = 0;
    let frozen: BTreeMap<u64, Box<Region>> = std::mem::take(&mut entry.frozen);
    for (number, region) in frozen {
        let (key, units) = (units_key(id, number), region.content());
        match units.iter().all(Option::is_none) {
            true => tx.delete(&key),
            false => {
                let record = encode_units(&units);
                bytes += key.len() + record.len();
                tx.put(&key, &record);
            }
        }
        freed.extend(region.superseded);
    }
    if let Some(record) = entry.frozen_record.take() {
        tx.put(&object_key(id), &record.encode());
    }
    bytes
}
