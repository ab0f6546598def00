//! One run: random steps of three hosts, then a healthy end.

use crate::host::{Host, LEASE, TARGET};
use crate::judge::Judge;
use simenv::rng::Rng;
use simenv::world::World;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::kv::{Change, Kv, Outcome, Txn};
use store::memory_blobs::MemoryBlobs;
use store::memory_kv::{Delivery, MemoryKv};

/// Steps of a run.
const STEPS: u64 = 400;
/// Steps within which a healthy target has an owner.
const HEALTHY_STEPS: u64 = 100;

/// What came of a run.
pub struct Report {
    /// What was wrong.
    pub wrong: Vec<String>,
    /// Epochs that began.
    pub epochs: u64,
    /// Entries of the log.
    pub entries: u64,
}

/// An administrator begins a newer epoch, or removes the owner.
fn change_by_hand(kv: &Arc<MemoryKv>, rng: &mut Rng, judge: &mut Judge) {
    let hand = kv.connect(|| Delivery::Whole);
    let key = |name: &str| format!("/sheen/{TARGET}/{name}");
    let found = hand.get(&[key("epoch"), key("owner")]).expect("no request of this line is lost");
    let [Some(epoch), Some(_)] = &found[..] else { return };
    let change = if rng.chance(500) {
        let epoch = str::from_utf8(epoch).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
        let value = format!("{:016x}", epoch.expect("a number") + 1).into_bytes();
        Change::Put { key: key("epoch"), value, lease: 0 }
    } else {
        Change::DeleteRange(key("owner"), key("owner0"))
    };
    judge.by_hand();
    let done = hand.txn(&Txn { then: vec![change], ..Txn::default() });
    assert_eq!(done, Ok(Outcome::Done), "no request of this line is lost");
}

/// Runs a seed.
pub fn run(seed: u64) -> Report {
    let world = World::with_trace(seed, false);
    let machine = world.machine(1 << 20);
    let (env, _process) = world.start(machine);
    let (kv, blobs) = (MemoryKv::new(), MemoryBlobs::new());
    let mut rng = Rng::new(seed, "take-over");
    let lossy = rng.chance(700);
    let mut hosts: Vec<Host> = (0..3).map(|n| Host::new(n, seed, (&kv, &blobs), lossy)).collect();
    let mut judge = Judge::default();
    while hosts[0].log().create("").is_err() {}
    let mut now = Duration::ZERO;
    for step in 0..STEPS {
        // A step takes some milliseconds; now and then everything stands still for longer.
        let pause = if rng.chance(15) { rng.between(100, 3000) } else { rng.between(1, 60) };
        now += Duration::from_millis(pause);
        kv.set_time(now);
        judge.look(&kv.all(), &blobs.names(), now);
        let host = rng.below(3) as usize;
        let host = &mut hosts[host];
        match rng.below(1000) {
            0..6 => host.kill(false),
            6..8 => host.kill(true),
            8..12 => change_by_hand(&kv, &mut rng, &mut judge),
            12..22 => {
                host.line.cut.fetch_xor(true, Ordering::Relaxed);
            }
            22..250 => host.answer(now, &mut judge),
            _ if host.owner.is_some() => host.work(&mut rng, now, step + 1, &mut judge),
            _ => host.stand_by(&env, now, &mut judge),
        }
        judge.look(&kv.all(), &blobs.names(), now);
    }
    // Everything heals: one of them becomes the owner, and has it all.
    hosts.iter().for_each(|host| host.line.cut.store(false, Ordering::Relaxed));
    hosts.iter_mut().for_each(|host| host.kill(false));
    now += LEASE + Duration::from_secs(1);
    kv.set_time(now);
    let mut left = HEALTHY_STEPS;
    while left > 0 && hosts.iter().all(|host| host.owner.is_none()) {
        left -= 1;
        hosts[(left % 3) as usize].stand_by(&env, now, &mut judge);
    }
    if left == 0 {
        judge.wrong.push("no host takes the target over, though everything is in order".into());
    }
    judge.look(&kv.all(), &blobs.names(), now);
    let shown = loop {
        match hosts[0].log().show() {
            Ok(shown) => break shown,
            Err(error) if left == 0 => {
                judge.wrong.push(format!("the log cannot be read: {error}"));
                return Report { wrong: judge.wrong, epochs: 0, entries: 0 };
            }
            Err(_) => left -= 1,
        }
    };
    Report { wrong: judge.wrong, epochs: shown.fence.0, entries: shown.head }
}
