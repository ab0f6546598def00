//! Checksums of data at rest (`docs/scrub.md`): recorded once data is synced and has not changed
//! since, compared when it is read.
//!
//! An object that changes has a durable marker, and its changed regions are noted here. The sums of
//! such a region do not count until they are recorded again: the OST reads the object after a sync,
//! and puts the sums if the region has not changed since before that sync. When no region of an
//! object is left to record, its marker goes.
//!
//! As long as checksums were never switched on and the store has none, changes are only counted;
//! nothing is read from the store or put there.
//!
//! Order of locks: [`Sums::turn`], a gate, [`Sums::state`], the store. No lock is held across a
//! wait.

use disk::sums::{
    BLOCK_BYTES, CHANGING_END, CHANGING_PREFIX, REGION_BYTES, SUMS_END, SUMS_PREFIX, block_sum,
    changing_key, changing_of, decode, encode, encode_changing, sums, sums_key, sums_of,
    sums_range,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::error::StoreError;
use store::object_store::ObjectStore;
use store::store::Store;
use types::errno::Errno;
use types::object::ObjectId;
use types::session::Transno;
use wire::ost::{ObjectPunch, ObjectWrite, OstOp, PunchKind};

/// Noted objects. Beyond it quiet ones are left with their marker: they count as unchecked until
/// they are changed or scrubbed, or the OST starts again.
const OBJECTS_MAX: usize = 1 << 16;
/// Regions of one object that are noted apart; beyond it the whole object is.
const REGIONS_MAX: usize = 4096;
/// Objects up to this size, in bytes, are read whole when the OST stops, if need be; larger ones
/// keep their marker.
const WHOLE_AT_STOP_MAX: u64 = 64 << 20;
/// Regions that are recorded in one transaction.
const REGIONS_PER_TRANSACTION: usize = 64;

/// A part of an object that was changed.
#[derive(Clone, Copy, Default)]
struct Part {
    /// Changes of it that are under way.
    under_way: u32,
    /// Number of the last change that began or ended.
    number: u64,
}

impl Part {
    fn is_quiet(&self, upto: u64) -> bool {
        self.under_way == 0 && self.number <= upto
    }
}

/// An object of which not all sums count.
struct Changing {
    /// When the store has committed this, the marker is durable.
    marker: Transno,
    /// Sums were recorded when the marker was put: it must be durable before anything is changed.
    had_sums: bool,
    /// The object has a marker. Without one it has no sums, and gets none.
    marked: bool,
    whole: Option<Part>,
    regions: BTreeMap<u64, Part>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<ObjectId, Changing>,
    number: u64,
    /// The store has sums or markers, or they were switched on: changes are noted.
    used: bool,
    /// Changes under way that began before that.
    unnoted: u64,
}

/// The part that a change concerns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Span {
    /// These regions, both included.
    Regions(u64, u64),
    /// Everything, for example where the object ends.
    Whole,
}

impl Span {
    /// Of an operation that changes an object.
    pub(crate) fn of(op: &OstOp) -> Option<(ObjectId, Span)> {
        let between = |start: u64, len: u64| {
            let (first, last) =
                (start / REGION_BYTES, start.saturating_add(len.max(1) - 1) / REGION_BYTES);
            if last - first < REGIONS_MAX as u64 { Span::Regions(first, last) } else { Span::Whole }
        };
        match op {
            OstOp::Write(ObjectWrite { object, offset, data, .. }) => {
                Some((*object, between(offset.0, data.len() as u64)))
            }
            OstOp::Punch(ObjectPunch { object, kind: PunchKind::Truncate, .. }) => {
                Some((*object, Span::Whole))
            }
            OstOp::Punch(ObjectPunch { object, start, end, .. }) => {
                Some((*object, between(start.0, end.0.saturating_sub(start.0))))
            }
            _ => None,
        }
    }
}

/// See the module.
pub(crate) struct Sums {
    state: Mutex<State>,
    on: AtomicBool,
    /// Held by the one task that records.
    turn: Mutex<()>,
    /// The OST stops: what is being recorded is left.
    ending: AtomicBool,
}

/// A change is under way until this is dropped.
pub(crate) struct Begun {
    sums: Arc<Sums>,
    object: ObjectId,
    /// `None`: it is only counted.
    span: Option<Span>,
}

impl Drop for Begun {
    fn drop(&mut self) {
        let state = &mut *self.sums.state.lock();
        state.number += 1;
        let number = state.number;
        let Some(span) = self.span else {
            state.unnoted -= 1;
            return;
        };
        // Without an entry, the object was destroyed.
        let Some(changing) = state.objects.get_mut(&self.object) else { return };
        changing.parts(span, |part| {
            *part = Part { under_way: part.under_way.saturating_sub(1), number }
        });
    }
}

impl Changing {
    fn parts(&mut self, span: Span, mut f: impl FnMut(&mut Part)) {
        match span {
            Span::Whole => f(self.whole.get_or_insert_default()),
            Span::Regions(first, last) => {
                (first..=last).for_each(|region| f(self.regions.entry(region).or_default()));
            }
        }
    }

    fn is_quiet(&self) -> bool {
        self.whole.iter().chain(self.regions.values()).all(|part| part.under_way == 0)
    }
}

impl Sums {
    /// Reads from the store which objects were being changed when the previous life ended.
    pub(crate) fn new(store: &Store) -> Result<Sums, StoreError> {
        let mut state = State::default();
        let tx = store.begin();
        tx.scan(CHANGING_PREFIX, CHANGING_END, |key, _| {
            if let Some(object) = changing_of(key).filter(|_| state.objects.len() < OBJECTS_MAX) {
                let (whole, regions) = (Some(Part::default()), BTreeMap::new());
                let (marker, had_sums, marked) = (Transno(0), false, true);
                state.objects.insert(object, Changing { marker, had_sums, marked, whole, regions });
            }
            ControlFlow::Continue(())
        })?;
        state.used = !state.objects.is_empty();
        tx.scan(SUMS_PREFIX, SUMS_END, |_, _| {
            state.used = true;
            ControlFlow::Break(())
        })?;
        tx.finish();
        let (on, ending) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Sums { state: Mutex::new(state), on, turn: Mutex::new(()), ending })
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    pub(crate) fn set_on(&self, on: bool) {
        let state = &mut *self.state.lock();
        state.used |= on;
        self.on.store(on, Ordering::Relaxed);
    }

    /// Makes a recording that is under way stop soon.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// True if the store must be asked before these change.
    pub(crate) fn asks(&self, spans: &[(ObjectId, Span)]) -> bool {
        let state = &*self.state.lock();
        state.used && spans.iter().any(|(object, _)| !state.objects.contains_key(object))
    }

    /// True if there is nothing to record.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.lock().objects.is_empty()
    }

    /// Number of the newest change that began or ended. `None`: nothing may be recorded after the
    /// next sync, because something changes that is not noted.
    pub(crate) fn number(&self) -> Option<u64> {
        let state = &*self.state.lock();
        (state.used && state.unnoted == 0).then_some(state.number)
    }

    /// A change is about to begin; returns what the store must have committed before, if anything.
    pub(crate) fn begin(
        self: &Arc<Sums>,
        store: &Store,
        object: ObjectId,
        span: Span,
    ) -> Result<(Begun, Option<Transno>), StoreError> {
        let state = &mut *self.state.lock();
        state.number += 1;
        let number = state.number;
        if !state.used {
            state.unnoted += 1;
            return Ok((Begun { sums: self.clone(), object, span: None }, None));
        }
        if !state.objects.contains_key(&object) {
            // A marker that is there may not be committed either.
            let assigned = store.last_assigned();
            let mut tx = store.begin();
            let marked = tx.get(&changing_key(object), |_| ())?.is_some();
            let mut had_sums = false;
            let (start, end) = sums_range(object, 0);
            tx.scan(&start, &end, |_, _| {
                had_sums = true;
                ControlFlow::Break(())
            })?;
            let puts = !marked && (had_sums || self.is_on());
            if puts {
                tx.put(&changing_key(object), &encode_changing());
            }
            let finished = tx.finish();
            let marker = if puts { finished } else { assigned };
            if state.objects.len() >= OBJECTS_MAX
                && let Some(quiet) = state
                    .objects
                    .iter()
                    .find(|(_, changing)| changing.is_quiet())
                    .map(|(id, _)| *id)
            {
                state.objects.remove(&quiet);
            }
            let whole = marked.then_some(Part { under_way: 0, number });
            let (marked, regions) = (marked || puts, BTreeMap::new());
            state.objects.insert(object, Changing { marker, had_sums, marked, whole, regions });
        }
        let changing = state.objects.get_mut(&object).expect("it was just put there");
        if changing.regions.len() > REGIONS_MAX {
            changing.regions.retain(|_, part| part.under_way > 0);
            changing.whole.get_or_insert_default().number = number;
        }
        changing.parts(span, |part| *part = Part { under_way: part.under_way + 1, number });
        let waits = changing.had_sums && store.last_committed() < changing.marker;
        let waits = waits.then_some(changing.marker);
        Ok((Begun { sums: self.clone(), object, span: Some(span) }, waits))
    }

    /// True if it is noted as being changed.
    pub(crate) fn is_noted(&self, object: ObjectId) -> bool {
        self.state.lock().objects.contains_key(&object)
    }

    /// The object was destroyed.
    pub(crate) fn forget(&self, store: &Store, object: ObjectId) -> Result<(), StoreError> {
        let state = &mut *self.state.lock();
        state.objects.remove(&object);
        if !state.used {
            return Ok(());
        }
        let mut tx = store.begin();
        for key in keys_from(&tx, object, 0)? {
            tx.delete(&key);
        }
        if tx.get(&changing_key(object), |_| ())?.is_some() {
            tx.delete(&changing_key(object));
        }
        tx.finish();
        Ok(())
    }

    /// The sums of a region, if they count.
    pub(crate) fn of(
        &self,
        store: &Store,
        object: ObjectId,
        region: u64,
    ) -> Result<Option<Vec<u32>>, Errno> {
        {
            let state = self.state.lock();
            if let Some(changing) = state.objects.get(&object)
                && (changing.whole.is_some() || changing.regions.contains_key(&region))
            {
                return Ok(None);
            }
            if !state.objects.contains_key(&object) && is_changing(store, object)? {
                return Ok(None);
            }
        }
        recorded(store, object, region)
    }

    /// Records the sums of regions that did not change since `upto`; everything up to there is
    /// synced. An object that cannot be read keeps its marker. Blocks. While another call records,
    /// this one returns at once, unless it `waits`.
    pub(crate) fn record(&self, store: &Store, objects: &dyn ObjectStore, upto: u64, waits: bool) {
        let Some(_turn) = (if waits { Some(self.turn.lock()) } else { self.turn.try_lock() })
        else {
            return;
        };
        self.record_all(store, objects, upto, false);
    }

    /// Records everything, when nothing changes any more and all is synced. Large objects that must
    /// be read whole keep their marker.
    pub(crate) fn record_last(&self, store: &Store, objects: &dyn ObjectStore) {
        let _turn = self.turn.lock();
        if self.number().is_some() {
            self.record_all(store, objects, u64::MAX, true);
        }
    }

    fn record_all(&self, store: &Store, objects: &dyn ObjectStore, upto: u64, last: bool) {
        let ready: Vec<ObjectId> = self.state.lock().objects.keys().copied().collect();
        let mut buffer = Vec::new();
        for object in ready {
            if self.is_ended(last) {
                return;
            }
            if self.is_on() {
                if let Err(error) =
                    self.record_object(store, objects, object, (upto, last), &mut buffer)
                {
                    tracing::warn!(?object, %error, "no checksums for an object");
                }
            } else {
                // The marker stays: none of the object's sums counts.
                let state = &mut *self.state.lock();
                if state.objects.get(&object).is_some_and(|changing| changing.is_quiet()) {
                    state.objects.remove(&object);
                }
            }
        }
    }

    fn is_ended(&self, last: bool) -> bool {
        !last && self.ending.load(Ordering::Relaxed)
    }

    fn record_object(
        &self,
        store: &Store,
        objects: &dyn ObjectStore,
        object: ObjectId,
        (upto, last): (u64, bool),
        buffer: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let (whole, quiet) = {
            let state = &mut *self.state.lock();
            let Some(changing) = state.objects.get(&object) else { return Ok(()) };
            if !changing.marked {
                // Its changes began while no sums were recorded.
                if changing.is_quiet() {
                    state.objects.remove(&object);
                }
                return Ok(());
            }
            let quiet = changing.regions.iter().filter(|(_, part)| part.is_quiet(upto));
            let quiet: Vec<(u64, u64)> =
                quiet.map(|(region, part)| (*region, part.number)).collect();
            match changing.whole {
                Some(whole) if !whole.is_quiet(upto) => return Ok(()),
                Some(whole) => (Some(whole.number), Vec::new()),
                None => (None, quiet),
            }
        };
        let size = objects.size_and_blocks(object)?.map_or(0, |(size, _)| size);
        let end = size.div_ceil(REGION_BYTES);
        if whole.is_some() && last && size > WHOLE_AT_STOP_MAX {
            return Ok(());
        }
        match whole {
            None => {
                for some in quiet.chunks(REGIONS_PER_TRANSACTION) {
                    if self.is_ended(last) {
                        return Ok(());
                    }
                    let found =
                        read_sums(objects, object, some.iter().map(|(region, _)| *region), buffer)?;
                    let state = &mut *self.state.lock();
                    let Some(changing) = state.objects.get_mut(&object) else { return Ok(()) };
                    let mut tx = store.begin();
                    for ((region, number), found) in some.iter().zip(found) {
                        let same = |part: &Part| part.under_way == 0 && part.number == *number;
                        if changing.regions.get(region).is_some_and(same) {
                            changing.regions.remove(region);
                            put(&mut tx, object, *region, &found);
                        }
                    }
                    tx.finish();
                }
            }
            Some(_) => {
                // The marker and `whole` say that none of these counts yet.
                let regions: Vec<u64> = (0..end).collect();
                for some in regions.chunks(REGIONS_PER_TRANSACTION) {
                    if self.is_ended(last) {
                        return Ok(());
                    }
                    let found = read_sums(objects, object, some.iter().copied(), buffer)?;
                    let state = self.state.lock();
                    if !state.objects.contains_key(&object) {
                        return Ok(());
                    }
                    let mut tx = store.begin();
                    some.iter()
                        .zip(found)
                        .for_each(|(region, found)| put(&mut tx, object, *region, &found));
                    tx.finish();
                }
            }
        }
        let state = &mut *self.state.lock();
        let Some(changing) = state.objects.get_mut(&object) else { return Ok(()) };
        let mut tx = store.begin();
        if let Some(number) = whole
            && changing.whole.is_some_and(|part| part.under_way == 0 && part.number == number)
        {
            for key in keys_from(&tx, object, end)? {
                tx.delete(&key);
            }
            changing.whole = None;
            // Regions that were changed before that began are as they were read.
            changing.regions.retain(|_, part| part.under_way > 0 || part.number > upto);
        }
        if changing.whole.is_none() && changing.regions.is_empty() {
            tx.delete(&changing_key(object));
            state.objects.remove(&object);
        }
        tx.finish();
        Ok(())
    }
}

fn is_changing(store: &Store, object: ObjectId) -> Result<bool, StoreError> {
    let tx = store.begin();
    let found = tx.get(&changing_key(object), |_| ())?.is_some();
    tx.finish();
    Ok(found)
}

fn keys_from(
    tx: &store::tx::Tx<'_>,
    object: ObjectId,
    region: u64,
) -> Result<Vec<Vec<u8>>, StoreError> {
    let (start, end) = sums_range(object, region);
    let mut keys = Vec::new();
    tx.scan(&start, &end, |key, _| {
        keys.push(key.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(keys)
}

fn put(tx: &mut store::tx::Tx<'_>, object: ObjectId, region: u64, found: &[u32]) {
    match found {
        [] => tx.delete(&sums_key(object, region)),
        found => tx.put(&sums_key(object, region), &encode(found)),
    }
}

fn read_sums(
    objects: &dyn ObjectStore,
    object: ObjectId,
    regions: impl Iterator<Item = u64>,
    buffer: &mut Vec<u8>,
) -> Result<Vec<Vec<u32>>, StoreError> {
    buffer.resize(REGION_BYTES as usize, 0);
    let sums_of = |region: u64| {
        let read = objects.read(object, buffer, region * REGION_BYTES)?.unwrap_or(0);
        Ok(sums(&buffer[..read]))
    };
    regions.map(sums_of).collect()
}

/// The sums that are recorded of a region, whether they count or not.
///
/// # Errors
/// EIO: the record is damaged; the store cannot be read.
pub(crate) fn recorded(
    store: &Store,
    object: ObjectId,
    region: u64,
) -> Result<Option<Vec<u32>>, Errno> {
    let tx = store.begin();
    let found = tx.get(&sums_key(object, region), decode);
    tx.finish();
    found?.transpose().map_err(|error| {
        tracing::error!(?object, region, %error, "checksums of data are damaged");
        Errno::EIO
    })
}

/// Regions from this one on of which sums are recorded.
pub(crate) fn regions_from(
    store: &Store,
    object: ObjectId,
    region: u64,
) -> Result<Vec<u64>, StoreError> {
    let tx = store.begin();
    let keys = keys_from(&tx, object, region);
    tx.finish();
    Ok(keys?.iter().filter_map(|key| sums_of(key)).map(|(_, region)| region).collect())
}

/// Offsets of the blocks in `[start, end)` that are not what `sums` says, and how many blocks were
/// compared. `data` is what the object has from `start` on, a multiple of a block.
pub(crate) fn compare(
    region: u64,
    sums: &[u32],
    start: u64,
    end: u64,
    data: &[u8],
) -> (Vec<u64>, u64) {
    let (mut bad, mut compared) = (Vec::new(), 0);
    for (block, sum) in sums.iter().enumerate() {
        let at = region * REGION_BYTES + (block * BLOCK_BYTES) as u64;
        if at < start || at >= end {
            continue;
        }
        let from = ((at - start) as usize).min(data.len());
        let to = (from + BLOCK_BYTES).min(data.len());
        compared += 1;
        if block_sum(&data[from..to]) != *sum {
            bad.push(at);
        }
    }
    (bad, compared)
}
