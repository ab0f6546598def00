//! What fsck asks of the records of a volume: each unit belongs to one object, each record of units
//! to an object, and each object has as many units as it says.

use crate::error::StoreError;
use crate::store::Store;
use disk::volume::{
    FIRST_UNIT, OBJECT_END, OBJECT_PREFIX, ObjectRecord, REGION_BYTES, UNITS_END, UNITS_PREFIX,
    decode_units, object_key, object_of, units_key, units_of,
};
use std::ops::ControlFlow;
use types::object::ObjectId;

/// Findings that are kept; more are counted.
const FINDINGS_MAX: usize = 10_000;

/// Something that cannot be right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// A record cannot be read.
    Damaged {
        /// The object.
        object: ObjectId,
        /// Region, if it is a record of units.
        region: Option<u64>,
    },
    /// Units of an object that is not there, or beyond its end: they are taken for nothing.
    Leaked {
        /// The object.
        object: ObjectId,
        /// Region.
        region: u64,
        /// Units.
        units: u64,
    },
    /// A unit that another record names, too, or that lies outside the volume.
    Twice {
        /// The object.
        object: ObjectId,
        /// Region.
        region: u64,
        /// Place of the unit.
        place: u32,
    },
    /// The number of its units is another one.
    Count {
        /// The object.
        object: ObjectId,
        /// In its record.
        recorded: u64,
        /// That there are.
        found: u64,
    },
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    /// Objects.
    pub objects: u64,
    /// Units that they have.
    pub units: u64,
    /// What is wrong, at most 10,000.
    pub wrong: Vec<Wrong>,
    /// Further ones.
    pub more: u64,
}

impl Checked {
    fn wrong(&mut self, wrong: Wrong) {
        match self.wrong.len() < FINDINGS_MAX {
            true => self.wrong.push(wrong),
            false => self.more += 1,
        }
    }
}

/// Compares the records of a volume of `units` units with each other. The target is at rest.
///
/// # Errors
/// The store cannot be read.
pub fn check(store: &Store, units: u32) -> Result<Checked, StoreError> {
    let mut checked = Checked::default();
    let mut taken = vec![0u64; (units as usize).div_ceil(64)];
    // (object, its record, units found)
    let mut current: Option<(ObjectId, Option<ObjectRecord>, u64)> = None;
    let tx = store.begin();
    let mut record_of = Vec::new();
    tx.scan(OBJECT_PREFIX, OBJECT_END, |key, value| {
        checked.objects += 1;
        if let Some(object) = object_of(key)
            && ObjectRecord::decode(value).is_err()
        {
            checked.wrong(Wrong::Damaged { object, region: None });
        }
        ControlFlow::Continue(())
    })?;
    let mut from = UNITS_PREFIX.to_vec();
    loop {
        record_of.clear();
        // A page: the object's own record is read between two scans.
        tx.scan(&from, UNITS_END, |key, value| {
            record_of.push((key.to_vec(), decode_units(value)));
            if record_of.len() < 1024 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        for (key, decoded) in &record_of {
            let Some((object, region)) = units_of(key) else { continue };
            if current.as_ref().is_none_or(|(id, ..)| *id != object) {
                finish(&mut checked, current.take());
                let record = tx.get(&object_key(object), ObjectRecord::decode)?;
                current = Some((object, record.and_then(Result::ok), 0));
            }
            let Ok(decoded) = decoded else {
                checked.wrong(Wrong::Damaged { object, region: Some(region) });
                continue;
            };
            let found = decoded.iter().flatten().count() as u64;
            checked.units += found;
            if let Some((_, record, sum)) = &mut current {
                let beyond = |record: &ObjectRecord| region * REGION_BYTES >= record.size;
                if record.as_ref().is_none_or(beyond) {
                    checked.wrong(Wrong::Leaked { object, region, units: found });
                } else {
                    *sum += found;
                }
            }
            for unit in decoded.iter().flatten() {
                let (word, bit) = (unit.place as usize / 64, 1 << (unit.place % 64));
                let is_inside = (FIRST_UNIT..units.saturating_sub(1)).contains(&unit.place);
                match taken.get_mut(word).filter(|_| is_inside) {
                    Some(taken) if *taken & bit == 0 => *taken |= bit,
                    _ => checked.wrong(Wrong::Twice { object, region, place: unit.place }),
                }
            }
        }
        match record_of.last() {
            Some((last, _)) if record_of.len() == 1024 => {
                from = last.clone();
                from.push(0);
            }
            _ => break,
        }
    }
    finish(&mut checked, current.take());
    let mut bare = Vec::new();
    // Objects that say they have units, and have no record of any.
    tx.scan(OBJECT_PREFIX, OBJECT_END, |key, value| {
        if let (Some(object), Ok(record)) = (object_of(key), ObjectRecord::decode(value))
            && record.units > 0
            && bare.len() < FINDINGS_MAX
        {
            bare.push((object, record.units));
        }
        ControlFlow::Continue(())
    })?;
    for (object, recorded) in bare {
        let mut has = false;
        tx.scan(&units_key(object, 0), &units_key(object, u64::MAX), |_, _| {
            has = true;
            ControlFlow::Break(())
        })?;
        if !has {
            checked.wrong(Wrong::Count { object, recorded, found: 0 });
        }
    }
    tx.finish();
    Ok(checked)
}

/// Repairs the records, if nothing is lost by it; says how. The target is at rest, its volume not
/// open for changes.
///
/// # Errors
/// The store cannot be read.
pub fn repair(store: &Store, wrong: &Wrong) -> Result<Option<&'static str>, StoreError> {
    let mut tx = store.begin();
    let done = match *wrong {
        Wrong::Leaked { object, region, .. } => {
            tx.delete(&units_key(object, region));
            Some("freed")
        }
        Wrong::Count { object, found, .. } => {
            let record = tx.get(&object_key(object), ObjectRecord::decode);
            let Some(Ok(record)) = record? else {
                tx.finish();
                return Ok(None);
            };
            tx.put(&object_key(object), &ObjectRecord { units: found, ..record }.encode());
            Some("counted")
        }
        Wrong::Damaged { .. } | Wrong::Twice { .. } => None,
    };
    tx.finish();
    Ok(done)
}

fn finish(checked: &mut Checked, object: Option<(ObjectId, Option<ObjectRecord>, u64)>) {
    if let Some((object, Some(record), found)) = object
        && record.units != found
    {
        checked.wrong(Wrong::Count { object, recorded: record.units, found });
    }
}
