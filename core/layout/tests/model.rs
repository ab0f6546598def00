//! Any layout, any sequence of writes, cuts and holes: the same bytes as an ordinary file, and
//! every byte in the object that the layout says.
//!
//! The objects are maps from offset to byte, held by "OSTs" that know nothing of layouts. The file
//! is driven as a client drives it. A write instantiates what it touches and goes to the pieces. A
//! cut cuts the objects that reach beyond it. A hole is punched object by object. A read asks the
//! pieces. The reference is a plain vector. OSTs are small: a self-extending component goes on
//! elsewhere when they are full, and no byte ever moves.

use layout::check::verify;
use layout::extend::{Osts, extend};
use layout::layout::{ALL_OSTS, Component, EOF, Layout, Pattern};
use layout::map::{Place, object_ranges, pieces};
use layout::placement::{OstSpace, Rotor, Want, choose};
use layout::size::{cuts, file_size};
use layout::stripe_spec::{Defaults, complete};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use types::fid::Fid;
use types::object::{FileOffset, ObjectId};
use types::target::TargetIndex;

const FID: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 7, ver: 0 };
const KIB64: u64 = 64 << 10;
/// Offsets that the sequences reach.
const REACH: u64 = 24 * KIB64;
const OSTS: u16 = 5;

/// An operation on the file.
#[derive(Clone, Debug)]
enum Act {
    Write { at: u64, len: u64, byte: u8 },
    Truncate { size: u64 },
    Punch { at: u64, len: u64 },
}

/// Bytes that an OST holds before a component that extends itself goes on elsewhere.
const OST_BYTES: u64 = 5 * KIB64;

/// One component as it is asked for: length in 64 KiB, stripe size in 64 KiB, stripes, overstriped,
/// stripes taken from an extension at a time.
type Shape = (u64, u32, u16, bool, Option<u64>);

fn layout_of(dom: bool, shapes: &[Shape], open_end: bool) -> Layout {
    let (mut start, mut components) = (0, Vec::new());
    for (i, (len, stripe, count, overstriped, extension)) in shapes.iter().enumerate() {
        let last = i + 1 == shapes.len();
        let end = if last && !open_end { EOF } else { start + len * KIB64 };
        let on_mdt = dom && i == 0 && end != EOF;
        components.push(Component {
            id: 10 + i as u32,
            start,
            end,
            pattern: if on_mdt { Pattern::Mdt } else { Pattern::Raid0 },
            stripe_size: stripe << 16,
            stripe_count: *count,
            overstriped: *overstriped,
            pool: None,
            stripes: Vec::new(),
            wanted: Vec::new(),
        });
        if let (Some(stripes), false) = (extension, on_mdt) {
            let size = stripes * (u64::from(*stripe) << 16);
            components.last_mut().expect("just added").end = start;
            components.extend(Component::extension(50 + i as u32, start, end, size));
        }
        start = end;
    }
    complete(Layout { components, ..Layout::default() }, &Defaults::default())
        .expect("a layout that may be")
}

/// The file as a client keeps it.
struct Striped {
    layout: Layout,
    rotor: Rotor,
    size: u64,
    /// Bytes on the MDT.
    mdt: BTreeMap<u64, u8>,
    /// Bytes of each object, and the OST that has it.
    objects: HashMap<ObjectId, (TargetIndex, BTreeMap<u64, u8>)>,
}

impl Striped {
    fn new(layout: Layout) -> Striped {
        Striped { layout, rotor: Rotor(3), size: 0, mdt: BTreeMap::new(), objects: HashMap::new() }
    }

    /// Works as an MDT: each component gets its OSTs when it is first written, and keeps them.
    fn instantiate(&mut self, start: u64, end: u64) {
        let used = |n| {
            self.objects
                .values()
                .filter(|(ost, _)| ost.0 == n)
                .map(|(_, bytes)| bytes.len() as u64)
                .sum()
        };
        // A component that does not extend itself may use what is left.
        let space = |n| OstSpace {
            index: TargetIndex(n),
            free: OST_BYTES.saturating_sub(used(n)),
            total: 0,
            active: true,
        };
        let mut osts: Vec<OstSpace> = (0..OSTS).map(space).collect();
        let before = self.layout.clone();
        extend(
            &mut self.layout,
            start,
            end,
            &Osts { spaces: &osts, pool: &|_| None },
            &mut self.rotor,
        );
        assert_eq!(verify(&self.layout), Ok(()));
        osts.iter_mut().for_each(|ost| ost.free = 1 << 40);
        for c in &mut self.layout.components {
            if c.start < end && start < c.end && !c.is_instantiated() {
                let want = Want {
                    count: c.stripe_count,
                    overstriped: c.overstriped,
                    pool: None,
                    wanted: &c.wanted,
                };
                c.stripes = choose(&osts, &want, &mut self.rotor).expect("there is room");
                c.stripe_count = c.stripes.len() as u16;
            }
        }
        assert_eq!(verify(&self.layout), Ok(()));
        // Bytes that had a place keep it.
        for piece in pieces(&before, FID, FileOffset(0), FileOffset(2 * REACH)) {
            let (Place::Object { object, ost, offset, .. }, last) = (piece.place, piece.len - 1)
            else {
                continue;
            };
            for probe in [0, last] {
                let at = FileOffset(piece.file.0 + probe);
                let now = pieces(&self.layout, FID, at, FileOffset(at.0 + 1))
                    .next()
                    .map(|piece| piece.place);
                let Some(Place::Object { object: o, ost: t, offset: p, .. }) = now else {
                    panic!("{at:?}: {now:?}")
                };
                assert_eq!((o, t, p.0), (object, ost, offset.0 + probe));
            }
        }
    }

    /// Writes what the layout covers; how many bytes that were.
    fn write(&mut self, at: u64, len: u64, byte: u8) -> u64 {
        let reach = self.layout.components.last().map_or(0, |c| c.end);
        let end = (at + len).min(reach);
        if at >= end {
            return 0;
        }
        self.instantiate(at, end);
        for piece in pieces(&self.layout, FID, FileOffset(at), FileOffset(end)) {
            match piece.place {
                Place::Mdt { .. } => {
                    self.mdt.extend((0..piece.len).map(|i| (piece.file.0 + i, byte)))
                }
                Place::Object { ost, object, offset, .. } => {
                    let (home, bytes) =
                        self.objects.entry(object).or_insert((ost, BTreeMap::new()));
                    assert_eq!(*home, ost, "an object does not move");
                    bytes.extend((0..piece.len).map(|i| (offset.0 + i, byte)));
                }
                Place::Absent { .. } => panic!("written but not instantiated: {piece:?}"),
            }
        }
        self.size = self.size.max(end);
        end - at
    }

    fn truncate(&mut self, size: u64) {
        if size < self.size {
            self.mdt.split_off(&size);
            for cut in cuts(&self.layout, FID, FileOffset(size)) {
                if let Some((home, bytes)) = self.objects.get_mut(&cut.object) {
                    assert_eq!(*home, cut.ost);
                    bytes.split_off(&cut.at.0);
                }
            }
        }
        self.size = size;
    }

    fn punch(&mut self, at: u64, end: u64) {
        let gone: Vec<u64> = self.mdt.range(at..end).map(|(at, _)| *at).collect();
        for at in gone {
            self.mdt.remove(&at);
        }
        for range in object_ranges(&self.layout, FID, FileOffset(at), FileOffset(end)) {
            if let Some((home, bytes)) = self.objects.get_mut(&range.object) {
                assert_eq!(*home, range.ost);
                let gone: Vec<u64> =
                    bytes.range(range.start.0..range.end.0).map(|(at, _)| *at).collect();
                for at in gone {
                    bytes.remove(&at);
                }
            }
        }
    }

    fn read(&self, at: u64, end: u64) -> Vec<u8> {
        let mut found = Vec::new();
        for piece in pieces(&self.layout, FID, FileOffset(at), FileOffset(end.min(self.size))) {
            assert_eq!(piece.file.0, at + found.len() as u64, "pieces follow each other");
            let byte = |i: u64| match piece.place {
                Place::Mdt { .. } => self.mdt.get(&(piece.file.0 + i)).copied(),
                Place::Object { object, offset, .. } => {
                    self.objects.get(&object)?.1.get(&(offset.0 + i)).copied()
                }
                Place::Absent { .. } => None,
            };
            found.extend((0..piece.len).map(|i| byte(i).unwrap_or(0)));
        }
        found
    }

    /// The place of byte `at` by Lustre's arithmetic.
    fn expected_place(&self, at: u64) -> Option<(ObjectId, u64)> {
        let c = self.layout.components.iter().find(|c| c.covers(at))?;
        let (size, count) = (u64::from(c.stripe_size), c.stripes.len() as u64);
        if c.pattern == Pattern::Mdt || count == 0 {
            return None;
        }
        let stripe = (at / size % count) as u32;
        Some((
            ObjectId { fid: FID, instance: c.id, stripe },
            at / (size * count) * size + at % size,
        ))
    }
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    // Sizes near borders matter as much as any.
    let at = prop_oneof![
        0..REACH,
        (0..24u64, 0..3u64).prop_map(|(n, off)| (n * KIB64 + off).saturating_sub(1))
    ];
    let len = prop_oneof![1..200u64, (KIB64 - 2)..(2 * KIB64)];
    let act = prop_oneof![
        3 => (at.clone(), len.clone(), 1..=255u8).prop_map(|(at, len, byte)| Act::Write { at, len, byte }),
        1 => at.clone().prop_map(|size| Act::Truncate { size }),
        1 => (at, len).prop_map(|(at, len)| Act::Punch { at, len }),
    ];
    proptest::collection::vec(act, 1..12)
}

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let count = prop_oneof![4 => 1..7u16, 1 => Just(ALL_OSTS)];
    let extension = proptest::option::of(1..4u64);
    proptest::collection::vec((1..6u64, 1..4u32, count, any::<bool>(), extension), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn a_striped_file_is_a_file(dom: bool, open_end: bool, shapes in shapes(), acts in acts()) {
        let mut striped = Striped::new(layout_of(dom, &shapes, open_end));
        let mut plain: Vec<u8> = Vec::new();
        for act in acts {
            match act {
                Act::Write { at, len, byte } => {
                    let done = striped.write(at, len, byte) as usize;
                    if done > 0 {
                        plain.resize(plain.len().max(at as usize + done), 0);
                        plain[at as usize..at as usize + done].fill(byte);
                    }
                }
                Act::Truncate { size } => {
                    // Beyond the layout a file cannot reach.
                    let size = size.min(striped.layout.components.last().map_or(0, |c| c.end));
                    striped.truncate(size);
                    plain.resize(size as usize, 0);
                }
                Act::Punch { at, len } => {
                    let end = (at + len).min(plain.len() as u64);
                    if at < end {
                        striped.punch(at, end);
                        plain[at as usize..end as usize].fill(0);
                    }
                }
            }
            prop_assert_eq!(striped.size, plain.len() as u64);
            prop_assert_eq!(striped.read(0, striped.size), &plain[..]);
        }
        // Each byte that is not zero is in the very object that the layout says, and no object has
        // a byte too many.
        let mut held = 0;
        for (at, byte) in plain.iter().enumerate().filter(|(_, byte)| **byte != 0) {
            match striped.expected_place(at as u64) {
                Some((object, offset)) => {
                    prop_assert_eq!(striped.objects.get(&object).and_then(|(_, bytes)| bytes.get(&offset)), Some(byte));
                    held += 1;
                }
                None => prop_assert_eq!(striped.mdt.get(&(at as u64)), Some(byte)),
            }
        }
        let all: usize = striped.objects.values().map(|(_, bytes)| bytes.len()).sum();
        prop_assert_eq!(all, held, "bytes that belong to nobody");
        // And the objects alone tell how far the data reaches, as is asked when a writer died.
        let size = file_size(&striped.layout, FID, |_, object| {
            striped.objects.get(&object).and_then(|(_, bytes)| bytes.last_key_value()).map_or(0, |(at, _)| at + 1)
        });
        let mdt_end = striped.mdt.last_key_value().map_or(0, |(at, _)| at + 1);
        prop_assert_eq!(size.max(mdt_end), plain.iter().rposition(|byte| *byte != 0).map_or(0, |at| at as u64 + 1));
    }
}
