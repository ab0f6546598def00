//! Reading everything that an OST has and comparing it with its checksums (`docs/scrub.md`).

mod served;

use crate::sums::{Sums, compare, regions_from};
use disk::sums::{BLOCK_BYTES, REGION_BYTES};
use parking_lot::Mutex;
use store::error::StoreError;
use store::object_store::{BackEnd, ObjectStore};
use store::store::Store;
use types::object::ObjectId;

/// Bad blocks that are named; more are counted.
pub const BAD_MAX: usize = 10_000;
/// Objects that are listed at once.
const OBJECTS_AT_ONCE: usize = 1024;

/// A block that is not what was written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BadBlock {
    /// Of which object.
    pub object: ObjectId,
    /// Start of the run, bytes.
    pub offset: u64,
}

/// The bytes that were read, and the bad ones among them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScrubReport {
    /// Objects.
    pub objects: u64,
    /// Blocks that were compared with their checksums.
    pub checked: u64,
    /// Blocks without a valid checksum: being changed, or written while checksums were switched
    /// off.
    pub unchecked: u64,
    /// Bad blocks, at most [`BAD_MAX`].
    pub bad: Vec<BadBlock>,
    /// Further ones.
    pub bad_more: u64,
}

impl ScrubReport {
    fn bad(&mut self, object: ObjectId, offset: u64) {
        if self.bad.len() < BAD_MAX {
            self.bad.push(BadBlock { object, offset });
        } else {
            self.bad_more += 1;
        }
    }
}

/// State of a scrub of a served OST.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Scrubbing {
    /// No scrub was asked for.
    #[default]
    Never,
    /// Under way.
    Running,
    /// The newest one is done.
    Done(ScrubReport),
    /// The disk or the store refused.
    Failed(String),
}

/// Under way, or the newest result.
pub(crate) type ScrubState = Mutex<Scrubbing>;

/// Reads all objects of a target at rest. Blocks.
///
/// # Errors
/// The disk or the store refuses.
pub fn at_rest(store: &Store, objects: &dyn ObjectStore) -> Result<ScrubReport, StoreError> {
    let sums = Sums::new(store)?;
    scrub(store, objects, &sums, |_| (), |_, _| {})
}

/// `gate` keeps changes of an object away while its result lives. `without` is called for an object
/// with the number of its blocks that have no checksum.
fn scrub<G>(
    store: &Store,
    objects: &dyn ObjectStore,
    sums: &Sums,
    gate: impl Fn(ObjectId) -> G,
    mut without: impl FnMut(ObjectId, u64),
) -> Result<ScrubReport, StoreError> {
    let mut report = ScrubReport::default();
    let (mut after, mut buffer) = (None, vec![0; REGION_BYTES as usize]);
    loop {
        let listed = objects.list(after, OBJECTS_AT_ONCE)?;
        for (object, size, _) in &listed {
            report.objects += 1;
            if compare_volume(objects, *object, *size, &gate, &mut report)? {
                continue;
            }
            let unchecked = report.unchecked;
            let end = size.div_ceil(REGION_BYTES);
            let beyond = regions_from(store, *object, end)?;
            for region in (0..end).chain(beyond) {
                let _gate = gate(*object);
                let start = region * REGION_BYTES;
                let read = objects.read(*object, &mut buffer, start)?.unwrap_or(0);
                let there = read.div_ceil(BLOCK_BYTES) as u64;
                match sums.of(store, *object, region) {
                    Ok(None) => report.unchecked += there,
                    Ok(Some(known)) => {
                        let (bad, compared) =
                            compare(region, &known, start, start + REGION_BYTES, &buffer[..read]);
                        report.checked += compared;
                        report.unchecked += there.saturating_sub(compared);
                        bad.into_iter().for_each(|offset| report.bad(*object, offset));
                    }
                    // The log says why: the checksums themselves are damaged.
                    Err(_) => report.bad(*object, start),
                }
            }
            if report.unchecked > unchecked {
                without(*object, report.unchecked - unchecked);
            }
        }
        match listed.last() {
            Some((last, ..)) if listed.len() == OBJECTS_AT_ONCE => after = Some(*last),
            _ => return Ok(report),
        }
    }
}

/// Compares an object with the checksums of a volume; `false`: it is on none.
fn compare_volume<G>(
    objects: &dyn ObjectStore,
    object: ObjectId,
    size: u64,
    gate: &impl Fn(ObjectId) -> G,
    report: &mut ScrubReport,
) -> Result<bool, StoreError> {
    let mut start = 0;
    if objects.back_end() == BackEnd::Files {
        return Ok(false);
    }
    while start < size {
        // The next data: a sparse object has regions without any.
        let Some(data) = objects.seek(object, start, false)? else { break };
        start = data / REGION_BYTES * REGION_BYTES;
        let _gate = gate(object);
        match objects.compare(object, start, REGION_BYTES) {
            Ok(compared) => {
                let compared = compared.unwrap_or_default();
                report.checked += compared.blocks;
                compared.bad.into_iter().for_each(|offset| report.bad(object, offset));
            }
            // The log says why: the record of the region is damaged.
            Err(StoreError::Damaged { .. }) => report.bad(object, start),
            Err(error) => return Err(error),
        }
        start += REGION_BYTES;
    }
    Ok(true)
}
