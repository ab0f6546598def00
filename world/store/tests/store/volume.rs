//! Objects on a volume: against a model, full, with flipped bits, on devices that will not do.

use crate::support::{quiet, real_env};
use disk::volume::{ObjectRecord, RegionUnits, Unit, encode_units, object_key, units_key};
use env::Env;
use env::disk::Open;
use env::real::RealGuard;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::error::{DeviceFault, StoreError};
use store::memory::Memory;
use store::object_store::ObjectStore;
use store::store::Store;
use store::volume::Volume;
use store::volume::check::{Checked, Wrong, check, repair};
use store::volume::device::{VolumeSpec, examine, make};
use types::errno::Errno;
use types::fid::Fid;
use types::object::ObjectId;

const UUID: u128 = 0x77;
const UNIT: u64 = 64 << 10;
const BYTES: u64 = 64 << 20;

fn id(oid: u32) -> ObjectId {
    ObjectId { fid: Fid { seq: Fid::SEQ_NORMAL, oid, ver: 0 }, instance: 1, stripe: 2 }
}

struct Rig {
    env: Env,
    store: Arc<Store>,
    volume: Option<Arc<Volume>>,
    device: PathBuf,
    _dir: tempfile::TempDir,
    _guard: RealGuard,
}

fn spec(device: &Path) -> VolumeSpec {
    VolumeSpec { device: device.to_owned(), bytes: Some(BYTES), reformat: false }
}

impl Rig {
    fn new() -> Rig {
        let (env, guard) = real_env();
        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().join("device");
        let suits = examine(&env, &spec(&device)).unwrap();
        make(&env, &spec(&device), suits, UUID).unwrap();
        let store = Store::open(Memory::new(1 << 30), env.clone(), quiet()).unwrap();
        let mut rig = Rig { env, store, volume: None, device, _dir: dir, _guard: guard };
        rig.reopen();
        rig
    }

    fn reopen(&mut self) {
        // The lock of the one before goes first.
        self.volume = None;
        let opened = Volume::open(&self.env, &self.device, (UUID, &self.store));
        self.volume = Some(opened.unwrap());
    }

    fn volume(&self) -> &Volume {
        self.volume.as_ref().unwrap()
    }

    fn settle(&self) -> Checked {
        self.volume().sync_all().unwrap();
        self.store.commit_blocking().unwrap();
        check(&self.store, (BYTES / UNIT) as u32).unwrap()
    }

    fn content(&self, oid: u32) -> Option<Vec<u8>> {
        let (size, _) = self.volume().size_and_blocks(id(oid)).unwrap()?;
        let mut bytes = vec![0xee; size as usize + 10];
        let read = self.volume().read(id(oid), &mut bytes, 0).unwrap().unwrap();
        assert_eq!(read as u64, size);
        bytes.truncate(read);
        Some(bytes)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(u32, u64, usize, u8),
    Truncate(u32, u64),
    Punch(u32, u64, u64),
    Allocate(u32, u64, u64, bool),
    Destroy(u32),
    Sync(u32),
    SyncAll,
    Commit,
    Reopen,
}

/// Positions near the ends of blocks, units and regions as often as elsewhere.
fn position() -> impl Strategy<Value = u64> {
    let near = (0u64..40, prop_oneof![Just(4096u64), Just(UNIT), Just(1 << 20)], 0u64..6);
    prop_oneof![
        0u64..(3 << 20),
        near.prop_map(|(n, unit, off)| (n * unit + off).saturating_sub(3).min(3 << 20)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let oid = 0u32..3;
    let len = prop_oneof![1u64..9000, 1u64..300_000, Just(4096u64), Just(UNIT)];
    prop_oneof![
        8 => (oid.clone(), position(), len.clone(), any::<u8>())
            .prop_map(|(o, at, len, byte)| Step::Write(o, at, len as usize, byte)),
        2 => (oid.clone(), position()).prop_map(|(o, at)| Step::Truncate(o, at)),
        2 => (oid.clone(), position(), len.clone()).prop_map(|(o, at, len)| Step::Punch(o, at, len)),
        1 => (oid.clone(), position(), len, any::<bool>())
            .prop_map(|(o, at, len, zero)| Step::Allocate(o, at, len, zero)),
        1 => oid.clone().prop_map(Step::Destroy),
        2 => oid.prop_map(Step::Sync),
        1 => Just(Step::SyncAll),
        1 => Just(Step::Commit),
        1 => Just(Step::Reopen),
    ]
}

/// Bytes that differ from block to block.
fn pattern(at: u64, len: usize, byte: u8) -> Vec<u8> {
    (0..len as u64).map(|n| byte ^ ((at + n) / 509) as u8 | 1).collect()
}

type Model = BTreeMap<u32, Vec<u8>>;

fn reach(content: &mut Vec<u8>, end: u64) {
    let len = content.len().max(end as usize);
    content.resize(len, 0);
}

fn apply(rig: &mut Rig, model: &mut Model, step: &Step) {
    let volume = rig.volume.clone().unwrap();
    match *step {
        Step::Write(oid, at, len, byte) => {
            let bytes = pattern(at, len, byte);
            volume.write(id(oid), &bytes, at).unwrap();
            let content = model.entry(oid).or_default();
            reach(content, at + len as u64);
            content[at as usize..at as usize + len].copy_from_slice(&bytes);
        }
        Step::Truncate(oid, len) => {
            volume.truncate(id(oid), len).unwrap();
            model.entry(oid).or_default().resize(len as usize, 0);
        }
        Step::Punch(oid, at, len) => {
            volume.punch(id(oid), at, len).unwrap();
            if let Some(content) = model.get_mut(&oid) {
                let end = (at + len).min(content.len() as u64);
                if at < end {
                    content[at as usize..end as usize].fill(0);
                }
            }
        }
        Step::Allocate(oid, at, len, zero) => {
            volume.allocate(id(oid), at, len, zero).unwrap();
            let content = model.entry(oid).or_default();
            reach(content, at + len);
            if zero {
                content[at as usize..(at + len) as usize].fill(0);
            }
            assert_eq!(volume.takes(id(oid), at, len).unwrap(), 0, "it has its space");
        }
        Step::Destroy(oid) => {
            assert_eq!(volume.destroy(id(oid)).unwrap(), model.remove(&oid).is_some());
        }
        Step::Sync(oid) => volume.sync(id(oid)).unwrap(),
        Step::SyncAll => volume.sync_all().unwrap(),
        Step::Commit => drop(rig.store.commit_blocking().unwrap()),
        Step::Reopen => {
            volume.sync_all().unwrap();
            drop(volume);
            rig.reopen();
        }
    }
}

fn compare(rig: &Rig, model: &Model) {
    let volume = rig.volume();
    let (mut blocks, mut listed) = (0, Vec::new());
    for oid in 0..3 {
        let content = rig.content(oid);
        assert!(content.as_ref() == model.get(&oid), "object {oid} differs");
        let Some(content) = content else { continue };
        listed.push(oid);
        blocks += volume.size_and_blocks(id(oid)).unwrap().unwrap().1;
        // What lies between the data is zeros.
        let mut at = 0;
        while let Some(data) = volume.seek(id(oid), at, false).unwrap() {
            assert!(content[at as usize..data as usize].iter().all(|byte| *byte == 0));
            at = volume.seek(id(oid), data, true).unwrap().unwrap();
            assert!(at > data && at <= content.len() as u64);
        }
        assert!(content[at.min(content.len() as u64) as usize..].iter().all(|byte| *byte == 0));
        let compared = volume.compare(id(oid), 0, 4 << 20).unwrap().unwrap();
        assert_eq!(compared.bad, []);
    }
    assert_eq!(volume.used().unwrap(), (blocks * 512, listed.len() as u64));
    let mut found = Vec::new();
    let mut after = None;
    while let [page, ..] = &volume.list(after, 1).unwrap()[..] {
        (after, _) = (Some(page.0), found.push(page.0.fid.oid));
    }
    assert_eq!(found, listed);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_volume_has_what_the_model_has(steps in proptest::collection::vec(step(), 1..40)) {
        let mut rig = Rig::new();
        let mut model = Model::new();
        for step in &steps {
            apply(&mut rig, &mut model, step);
            compare(&rig, &model);
        }
        let checked = rig.settle();
        prop_assert_eq!(&checked.wrong, &[]);
        let used = rig.volume().used().unwrap();
        prop_assert_eq!((checked.units * UNIT, checked.objects), used);
        rig.reopen();
        prop_assert_eq!(rig.volume().used().unwrap(), used, "nothing leaked");
        compare(&rig, &model);
    }
}

#[test]
fn an_append_stays_in_its_unit_and_an_overwrite_moves() {
    let rig = Rig::new();
    let free = || rig.volume().space().unwrap().free;
    let before = free();
    rig.volume().write(id(1), &[1; 4096], 0).unwrap();
    assert_eq!(before - free(), UNIT);
    for n in 1..16 {
        rig.settle();
        rig.volume().write(id(1), &[n; 4096], u64::from(n) * 4096).unwrap();
    }
    assert_eq!(before - free(), UNIT, "16 blocks, 16 rounds, one unit");
    rig.settle();
    rig.volume().write(id(1), &[99; 10], 5000).unwrap();
    assert_eq!(before - free(), UNIT, "the one before is as good as free");
    rig.settle();
    let content = rig.content(1).unwrap();
    assert!((0..16).all(|n| content[n * 4096] == n.max(1) as u8 && content.len() == 65536));
    assert_eq!((content[4999], content[5000], content[5009], content[5010]), (1, 99, 99, 1));
}

#[test]
fn a_full_volume_refuses_what_is_new_and_takes_what_is_not() {
    let rig = Rig::new();
    let volume = rig.volume();
    let piece = vec![7; 1 << 20];
    let mut at = 0;
    let full = loop {
        match volume.write(id(1), &piece, at) {
            Ok(()) => at += 1 << 20,
            Err(error) => break error,
        }
    };
    assert_eq!(full.errno(), Errno::ENOSPC);
    assert_eq!(rig.content(1).unwrap().len() as u64, at, "nothing of the refused one is there");
    assert_eq!(volume.write(id(2), &piece, 0).unwrap_err().errno(), Errno::ENOSPC);
    // Ten times over, with never more room than for a part of it.
    for n in 0..10u8 {
        for place in (0..at).step_by(1 << 20) {
            volume.write(id(1), &vec![n; 1 << 20], place).unwrap();
        }
    }
    assert_eq!(rig.content(1).unwrap(), vec![9; at as usize]);
    // What is given up can be used at once.
    volume.truncate(id(1), 0).unwrap();
    volume.write(id(2), &vec![3; at as usize], 0).unwrap();
    assert_eq!(rig.settle().wrong, []);
    assert!(volume.destroy(id(2)).unwrap());
    volume.write(id(3), &vec![4; at as usize], 0).unwrap();
    assert_eq!(rig.content(3).unwrap(), vec![4; at as usize]);
    assert_eq!(volume.allocate(id(4), 0, 1 << 40, false).unwrap_err().errno(), Errno::ENOSPC);
    assert_eq!(volume.size_and_blocks(id(4)).unwrap(), None, "refused before anything was made");
}

#[test]
fn a_promise_is_kept_in_the_smallest_pieces() {
    // Blocks of 4 KiB, each in a unit of its own, as many as there are units free.
    let rig = Rig::new();
    let units = rig.volume().space().unwrap().free / UNIT;
    for n in 0..units {
        rig.volume().write(id(1), &[1; 4096], n * UNIT).unwrap();
    }
    assert_eq!(rig.volume().space().unwrap().free, 0);
}

#[test]
fn a_large_object_goes_in_steps() {
    let rig = Rig::new();
    // 2,000 regions with a unit in some of them.
    for n in 0..400u64 {
        rig.volume().write(id(1), &[n as u8 | 1; 100], n * (5 << 20)).unwrap();
    }
    rig.settle();
    rig.volume().write(id(1), &[9; 100], 700 << 20).unwrap();
    rig.volume().punch(id(1), 100, 1500 << 20).unwrap();
    let mut byte = [0];
    assert_eq!(rig.volume().read(id(1), &mut byte, 700 << 20).unwrap(), Some(1));
    assert_eq!(byte, [0]);
    assert_eq!(rig.volume().used().unwrap().0, 101 * UNIT);
    assert_eq!(rig.settle().wrong, []);
    rig.volume().truncate(id(1), 50).unwrap();
    assert_eq!(rig.settle().wrong, []);
    assert_eq!(rig.content(1).unwrap(), vec![1; 50]);
    assert!(rig.volume().destroy(id(1)).unwrap() && !rig.volume().destroy(id(1)).unwrap());
    let checked = rig.settle();
    assert_eq!((checked.units, checked.objects, rig.volume().used()), (0, 0, Some((0, 0))));
}

/// Where bits are flipped: from the seed `VOLUME_SEED`, or always the same.
fn flips() -> TestRng {
    match std::env::var("VOLUME_SEED") {
        Err(_) => TestRng::deterministic_rng(RngAlgorithm::ChaCha),
        Ok(text) => {
            println!("VOLUME_SEED={text}");
            let seed: u64 = text.parse().expect("VOLUME_SEED is a number");
            TestRng::from_seed(RngAlgorithm::ChaCha, &seed.to_le_bytes().repeat(4))
        }
    }
}

#[test]
fn no_flipped_bit_is_ever_returned() {
    let rig = Rig::new();
    let mut rng = flips();
    let mut contents = Vec::new();
    for oid in 0..4u32 {
        let bytes = pattern(u64::from(oid) * 77, 9_000 + oid as usize * 30_000, oid as u8 + 1);
        rig.volume().write(id(oid), &bytes, 0).unwrap();
        contents.push(bytes);
    }
    rig.settle();
    let device = std::fs::OpenOptions::new().read(true).write(true).open(&rig.device).unwrap();
    let units = rig.volume().used().unwrap().0 / UNIT;
    let (mut refused, mut harmless) = (0, 0);
    for _ in 0..10_000 {
        let at = 16 * UNIT + rng.next_u64() % (units * UNIT);
        let mut byte = [0];
        device.read_exact_at(&mut byte, at).unwrap();
        device.write_all_at(&[byte[0] ^ 1 << (rng.next_u32() % 8)], at).unwrap();
        let mut bad = 0;
        for (oid, content) in contents.iter().enumerate() {
            let mut read = vec![0; content.len()];
            match rig.volume().read(id(oid as u32), &mut read, 0) {
                Ok(_) => assert!(read == *content, "a flipped bit was returned"),
                Err(error) => {
                    bad += 1;
                    assert_eq!(error.errno(), Errno::EIO);
                }
            }
            // Overwriting a part of the block must not bless the rest.
        }
        assert!(bad <= 1);
        (refused, harmless) = (refused + bad, harmless + 1 - bad);
        device.write_all_at(&byte, at).unwrap();
    }
    assert!(refused > 4000 && harmless > 100, "{refused} refused, {harmless} where nothing is");
    assert_eq!(rig.volume().bad_blocks(), refused);
}

#[test]
fn a_part_of_a_bad_block_is_not_overwritten() {
    let rig = Rig::new();
    rig.volume().write(id(1), &[1; 20_000], 0).unwrap();
    rig.settle();
    let device = std::fs::OpenOptions::new().write(true).open(&rig.device).unwrap();
    device.write_all_at(b"rot", 16 * UNIT + 100).unwrap();
    let refused = rig.volume().write(id(1), &[2; 10], 0).unwrap_err();
    assert_eq!(refused.errno(), Errno::EIO);
    let moved = rig.volume().write(id(1), &[2; 4096], 8192).unwrap_err();
    assert_eq!(moved.errno(), Errno::EIO, "the unit cannot move with a bad block");
    let compared = rig.volume().compare(id(1), 0, 1 << 20).unwrap().unwrap();
    assert_eq!((compared.blocks, &compared.bad[..]), (5, &[0][..]));
    // The whole block anew, with its neighbours.
    rig.volume().write(id(1), &[3; 20_480], 0).unwrap();
    assert_eq!(rig.content(1).unwrap(), vec![3; 20_480]);
    assert_eq!(rig.settle().wrong, []);
    assert_eq!(rig.volume().space().unwrap().free + UNIT, {
        rig.volume().destroy(id(1)).unwrap();
        rig.volume().space().unwrap().free
    });
}

#[test]
fn records_that_do_not_fit_are_found_and_mended() {
    let mut rig = Rig::new();
    for oid in 1..3 {
        rig.volume().write(id(oid), &pattern(0, 100_000, oid as u8), 0).unwrap();
    }
    assert_eq!(rig.settle().wrong, []);
    let mut tx = rig.store.begin();
    let units = tx.get(&units_key(id(2), 0), <[u8]>::to_vec).unwrap().unwrap();
    let object = |units| ObjectRecord { size: 100_000, units }.encode();
    tx.put(&units_key(id(3), 0), &units);
    tx.put(&object_key(id(3)), &object(2));
    tx.put(
        &units_key(id(4), 7),
        &encode_units(&{
            let mut region = RegionUnits::default();
            region[0] = Some(Unit { place: 900, ..Unit::default() });
            region
        }),
    );
    tx.put(&object_key(id(1)), &object(9));
    tx.put(&object_key(id(5)), b"no record");
    tx.finish();
    let all = (BYTES / UNIT) as u32;
    let found = check(&rig.store, all).unwrap().wrong;
    let kinds = |wrong: &[Wrong]| {
        let count = |is: fn(&Wrong) -> bool| wrong.iter().filter(|wrong| is(wrong)).count();
        [
            count(|wrong| matches!(wrong, Wrong::Leaked { units: 1, region: 7, .. })),
            count(|wrong| matches!(wrong, Wrong::Count { recorded: 9, found: 2, .. })),
            count(|wrong| matches!(wrong, Wrong::Twice { .. })),
            count(|wrong| matches!(wrong, Wrong::Damaged { region: None, .. })),
            wrong.len(),
        ]
    };
    assert_eq!(kinds(&found), [1, 1, 2, 1, 5], "{found:?}");
    let mended = found.iter().filter_map(|wrong| repair(&rig.store, wrong).unwrap()).count();
    assert_eq!(mended, 2);
    assert_eq!(kinds(&check(&rig.store, all).unwrap().wrong), [0, 0, 2, 1, 3]);
    // No object gets a unit that has two owners, whichever of them goes.
    rig.reopen();
    let volume = rig.volume.clone().unwrap();
    assert!(volume.destroy(id(3)).unwrap());
    rig.settle();
    for at in (0..).step_by(1 << 20) {
        if volume.write(id(6), &vec![6; 1 << 20], at).is_err() {
            break;
        }
    }
    assert!(rig.content(2).unwrap() == pattern(0, 100_000, 2));
    assert_eq!(volume.size_and_blocks(id(5)).unwrap_err().errno(), Errno::EIO);
}

#[test]
fn a_device_that_will_not_do_is_left_alone() {
    let (env, _guard) = real_env();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("device");
    let fault = |spec: &VolumeSpec| match examine(&env, spec).unwrap_err() {
        StoreError::Device { device, fault } if device == spec.device => fault,
        other => panic!("{other}"),
    };
    let with = |bytes| VolumeSpec { bytes, ..spec(&path) };
    assert_eq!(fault(&with(None)), DeviceFault::Missing);
    assert!(matches!(fault(&with(Some(1 << 20))), DeviceFault::TooSmall { .. }));
    let large = fault(&with(Some((64 << 40) + UNIT))).to_string();
    assert!(large.contains("64 TiB"), "{large}");
    assert!(!path.exists(), "refused before anything was made");
    let mut mark = vec![0; 4096];
    mark[1080..1082].copy_from_slice(&[0x53, 0xef]);
    std::fs::write(&path, &mark).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(BYTES).unwrap();
    assert!(fault(&with(None)).to_string().contains("ext4"));
    assert!(matches!(fault(&with(Some(BYTES * 2))), DeviceFault::Smaller { .. }));
    let anew = VolumeSpec { reformat: true, ..with(None) };
    make(&env, &anew, examine(&env, &anew).unwrap(), UUID).unwrap();
    assert!(fault(&with(None)).to_string().contains("--reformat"), "it is a volume now");
    let store = Store::open(Memory::new(1 << 30), env.clone(), quiet()).unwrap();
    let open = |uuid| Volume::open(&env, &path, (uuid, &store)).map(|_| ());
    assert!(matches!(
        open(UUID + 1),
        Err(StoreError::Device { fault: DeviceFault::Another { .. }, .. })
    ));
    let volume = Volume::open(&env, &path, (UUID, &store)).unwrap();
    assert!(matches!(open(UUID), Err(StoreError::Device { fault: DeviceFault::InUse, .. })));
    drop(volume);
    // The first head is damaged: there is a second one.
    file.write_all_at(&[1], 100).unwrap();
    open(UUID).unwrap();
    file.set_len(BYTES - UNIT).unwrap();
    assert!(matches!(open(UUID), Err(StoreError::Device { fault: DeviceFault::Head(_), .. })));
    env.disk.open(&path, Open::Sole).unwrap();
}

#[test]
fn what_was_not_synced_goes_with_the_process() {
    let rig = Rig::new();
    rig.volume().write(id(1), &[1; 100], 0).unwrap();
    rig.settle();
    // What was not synced is not there after the process.
    rig.volume().write(id(1), &[2; 100], 0).unwrap();
    let mut rig = rig;
    rig.reopen();
    assert_eq!(rig.content(1).unwrap(), vec![1; 100]);
}
