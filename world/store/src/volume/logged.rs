//! Small syncs: blocks whose bytes are in the store until the device is synced.
//!
//! A round for a few blocks would sync the device, and the store's commit would sync its log: two
//! waits for disks. So it puts the blocks themselves beside the records that name them, and the
//! commit makes both durable. They are written to the device as well, without a sync. The next sync
//! of the device, whatever it is for, makes the logged ones needless, and the same round deletes
//! them. A start finds those that were left, and writes them to their places before anything is
//! read.
//!
//! Why no logged block overwrites a newer one at a start: records name a place only together with
//! its block, logged anew in the same transaction, or after a sync of the device, whose round
//! deletes all logged blocks first. So in any prefix of the transactions, what a record names is
//! the logged block, if there is one.

use super::inner::{BLOCK, Shard, Volume};
use crate::error::StoreError;
use crate::store::Store;
use crate::tx::Tx;
use disk::logged_block::{
    BlockPlace, LOGGED_END, LOGGED_PREFIX, decode_logged, encode_logged, logged_key, logged_of,
};
use disk::volume::{FIRST_UNIT, REGION_BYTES, UNIT_BLOCKS, UNIT_BYTES};
use env::disk::File;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use types::object::ObjectId;

/// Blocks of one round beyond which it syncs the device: 64 KiB. More costs the log of the store
/// about as much as the device.
const ROUND_BLOCKS_MAX: usize = 16;
/// Logged blocks beyond which a round syncs the device: 4 MiB that a start writes again.
const LOGGED_MAX: usize = 1024;

/// Blocks of an object that a round logs: places and records.
pub(super) type Blocks = Vec<(BlockPlace, Vec<u8>)>;

impl Volume {
    /// The blocks that a round for these objects, which are frozen, has to log; `None`: there are
    /// too many, and the device is to be synced. The caller has the turn.
    pub(super) fn to_log(
        &self,
        frozen: &[Vec<ObjectId>],
    ) -> Result<Option<BTreeMap<ObjectId, Blocks>>, StoreError> {
        let mut left = ROUND_BLOCKS_MAX.min(LOGGED_MAX.saturating_sub(self.logged.lock().len()));
        let mut blocks = BTreeMap::new();
        for (shard, ids) in self.shards.iter().zip(frozen) {
            if ids.is_empty() {
                continue;
            }
            let shard = shard.read();
            for id in ids {
                let Some(count) = count_of(&shard, *id).filter(|count| *count <= left) else {
                    return Ok(None);
                };
                left -= count;
                if count > 0 {
                    blocks.insert(*id, self.blocks_of(&shard, *id)?);
                }
            }
        }
        Ok(Some(blocks))
    }

    /// Reads the blocks of an object that no record names yet.
    fn blocks_of(&self, shard: &Shard, id: ObjectId) -> Result<Blocks, StoreError> {
        let mut blocks = Vec::new();
        for (number, region) in shard.get(&id).into_iter().flat_map(|entry| &entry.frozen) {
            for (index, unit, written) in region.written() {
                let at = number * REGION_BYTES + index as u64 * UNIT_BYTES;
                for block in (0..UNIT_BLOCKS).filter(|block| written & 1 << block != 0) {
                    let mut bytes = [0; BLOCK];
                    self.read_blocks((id, at), unit, block, written, &mut bytes)?;
                    let place = BlockPlace { unit: unit.place, block: block as u8 };
                    blocks.push((place, encode_logged(&bytes)));
                }
            }
        }
        Ok(blocks)
    }

    /// Puts blocks; returns their bytes.
    pub(super) fn log(&self, tx: &mut Tx<'_>, blocks: Blocks) -> usize {
        let mut logged = self.logged.lock();
        let mut bytes = 0;
        for (place, record) in blocks {
            tx.put(&logged_key(place), &record);
            logged.insert(place);
            bytes += record.len();
        }
        bytes
    }

    /// The device was synced: deletes all logged blocks.
    pub(super) fn forget_logged(&self) {
        let logged = std::mem::take(&mut *self.logged.lock());
        if !logged.is_empty() {
            let mut tx = self.store.begin();
            logged.into_iter().for_each(|place| tx.delete(&logged_key(place)));
            tx.finish();
        }
    }
}

/// Blocks of a frozen object that no record names yet; `None`: more than memory has to count.
fn count_of(shard: &Shard, id: ObjectId) -> Option<usize> {
    // Without an entry, it was removed.
    let Some(entry) = shard.get(&id) else { return Some(0) };
    let units = entry.frozen.values().flat_map(|region| region.written());
    units.map(|(_, _, blocks)| blocks.count_ones() as usize).try_fold(0, |all: usize, some| {
        all.checked_add(some).filter(|all| *all <= ROUND_BLOCKS_MAX)
    })
}

/// Writes what was logged when the last process ended to its places, syncs the device, and deletes
/// it. Nothing was read or written before.
///
/// # Errors
/// The disk refuses.
pub(super) fn bring_back(
    device: &dyn File,
    path: &Path,
    units: u32,
    store: &Store,
) -> Result<usize, StoreError> {
    let (mut keys, mut refused) = (BTreeSet::new(), None);
    let tx = store.begin();
    let scanned = tx.scan(LOGGED_PREFIX, LOGGED_END, |key, value| {
        keys.insert(key.to_vec());
        let place = logged_of(key).filter(|at| (FIRST_UNIT..units).contains(&at.unit));
        match (place, decode_logged(value)) {
            (Some(at), Ok(bytes)) => {
                let offset = u64::from(at.unit) * UNIT_BYTES + u64::from(at.block) * BLOCK as u64;
                if let Err(error) = device.write_all_at(bytes, offset) {
                    refused = Some(StoreError::io("write", path)(error));
                    return ControlFlow::Break(());
                }
            }
            // What it was for has another checksum, and is EIO there.
            (place, bad) => {
                let bad = bad.err();
                tracing::error!(?place, ?bad, "a logged block of the volume is damaged");
            }
        }
        ControlFlow::Continue(())
    });
    tx.finish();
    scanned?;
    if let Some(error) = refused {
        return Err(error);
    }
    if !keys.is_empty() {
        device.sync_data().map_err(StoreError::io("sync", path))?;
        let mut tx = store.begin();
        keys.iter().for_each(|key| tx.delete(key));
        tx.finish();
    }
    Ok(keys.len())
}
