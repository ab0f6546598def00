//! An OST that keeps checksums of data at rest is crashed at every step of its disk: no checksum
//! that counts may contradict what is left.

use bytes::Bytes;
use crash::images::{copy, images, make};
use crash::recorded::{RecordedDisk, Steps};
use crash::workload::{Recorded, scratch, wait};
use env::Env;
use env::real::{RealConfig, RealEnv};
use oss::ost::Ost;
use oss::scrub::{ScrubReport, at_rest};
use oss::settings::OstSettings;
use rpc::service::{Export, Service};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::engine::Fence;
use store::journalled::{Journalled, JournalledOptions};
use store::objects::{Objects, ObjectsOptions};
use store::store::{Committer, Store, StoreOptions};
use target::{FormatSpec, Target, TargetOptions, format, superblock};
use types::credentials::Credentials;
use types::fid::Fid;
use types::lock::InodeBits;
use types::object::{ObjectId, ObjectOffset};
use types::session::{ClientUuid, ClusterId, Transno, Xid};
use types::target::{FsName, TargetIndex, TargetKind};
use wire::message::{Op, Request};
use wire::ost::{ObjectPunch, ObjectWrite, OstOp, PunchKind};

/// The tree stays as it is: what is recorded is in the journal alone.
const NEVER: Duration = Duration::from_secs(3600);
/// Changes of one run.
const CHANGES: usize = 24;
/// Just below the boundary of two regions, bytes.
const NEAR_BOUNDARY: u64 = (1 << 20) - 6000;

fn engine() -> JournalledOptions {
    JournalledOptions {
        apply_interval: NEVER,
        apply_bytes: Some(u64::MAX),
        ..JournalledOptions::default()
    }
}

fn ask(ost: &Arc<Ost>, export: &Arc<Export>, op: OstOp) {
    let request = Request {
        target: ost.target(),
        xid: Xid(1),
        xid_known: Xid(0),
        resent: false,
        replay: Transno(0),
        slot: 0,
        locks: InodeBits::NONE,
        credentials: Credentials::root(),
        job: types::job::JobId::NONE,
        ops: vec![Op::Ost(op)],
    };
    let reply = wait(ost.clone().handle(export.clone(), request));
    assert!(matches!(reply.results[..], [Ok(_)]), "{:?}", reply.results);
}

/// Random changes of two objects, with flushes and commits between them.
fn run(seed: u64) -> Recorded {
    let mut rng = fastrand::Rng::with_seed(seed);
    let folder = scratch();
    let (base, live) = (folder.path().join("base"), folder.path().join("live"));
    let (real, _guard) = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 2 }).unwrap();
    std::fs::create_dir(&live).unwrap();
    let spec = FormatSpec {
        index: Some(TargetIndex(0)),
        cluster: ClusterId(7),
        journal_bytes: Some(1 << 20),
        ..FormatSpec::new(FsName::default(), TargetKind::Ost)
    };
    format(&real, &live, &spec).unwrap();
    let steps = Steps::default();
    let disk = Arc::new(RecordedDisk { inner: real.disk.clone(), steps: steps.clone() });
    let env = Env { disk, ..real };
    let mut options = TargetOptions { engine: engine(), ..TargetOptions::default() };
    options.store.commit_interval = NEVER;
    let target = Target::open(&env, &live, options).unwrap();
    let settings = OstSettings { flush_interval: NEVER, ..OstSettings::default() };
    let ost = Ost::start(target.clone(), env.clone(), settings, Arc::default()).unwrap();
    ost.set_checksum_at_rest(true);
    let export = Export::local(ost.target(), ClientUuid(1), "crash".into(), None);
    // Recovery is over with the first answer.
    ask(&ost, &export, OstOp::Statfs);
    // What a task in the background writes while the base is copied would be in neither.
    loop {
        wait(target.store().commit()).map(drop).unwrap();
        steps.lock().clear();
        copy(&live, &base);
        if steps.lock().is_empty() {
            break;
        }
        std::fs::remove_dir_all(&base).unwrap();
    }
    for _ in 0..CHANGES {
        let object = ObjectId { fid: Fid::ROOT, instance: 1, stripe: rng.u32(0..2) };
        match rng.u32(0..10) {
            0 => {
                let start = ObjectOffset(rng.u64(0..NEAR_BOUNDARY + 12_000));
                ask(
                    &ost,
                    &export,
                    OstOp::Punch(ObjectPunch {
                        object,
                        start,
                        end: start,
                        kind: PunchKind::Truncate,
                    }),
                );
            }
            1 | 2 => wait(target.store().commit()).map(drop).unwrap(),
            3..=5 => wait(ost.flush_all()).unwrap(),
            _ => {
                let offset =
                    ObjectOffset(rng.u64(0..9000) + if rng.bool() { NEAR_BOUNDARY } else { 0 });
                let data = Bytes::from(vec![rng.u8(1..=255); rng.usize(1..9000)]);
                ask(
                    &ost,
                    &export,
                    OstOp::Write(ObjectWrite { object, offset, data, sync: rng.u32(0..4) == 0 }),
                );
            }
        }
    }
    let recorded = steps.lock().clone();
    wait(ost.stop()).unwrap();
    wait(target.close()).unwrap();
    Recorded::of_steps(folder, base, live, recorded)
}

fn scrub(env: &Env, dir: &Path) -> ScrubReport {
    let block = superblock::read(env, dir).unwrap();
    let engine = Journalled::open(env, dir, block.store, engine()).unwrap();
    let options = StoreOptions {
        at_least: Fence(block.boot),
        committer: Committer::Caller,
        ..StoreOptions::default()
    };
    let store = Store::open(engine, env.clone(), options).unwrap();
    at_rest(&store, &*Objects::open(env, dir, ObjectsOptions::default()).unwrap()).unwrap()
}

#[test]
fn no_crash_leaves_a_checksum_that_contradicts_the_data() {
    let (env, _guard) = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
    let (mut count, mut checked) = (0, 0);
    for seed in 1..=4 {
        let recorded = run(seed);
        for (done, crash, image) in images(&recorded.steps) {
            count += 1;
            // A name of its own: LMDB's map of the one before may still be open for a moment.
            let into = recorded.base.with_file_name(format!("image{count}"));
            make(&recorded, &image, &into).unwrap();
            let report = scrub(&env, &into);
            let last = done
                .checked_sub(1)
                .map(|last| format!("{:.200}", format!("{:?}", recorded.steps[last])));
            assert!(
                report.bad.is_empty(),
                "seed {seed}, {crash:?} after {done} steps, the last {last:?}: {report:?}"
            );
            checked += report.checked;
            std::fs::remove_dir_all(&into).unwrap();
        }
    }
    assert!(
        count > 500 && checked > 500,
        "{count} images with {checked} blocks that had a checksum"
    );
}
