//! Servers are killed (SIGKILL) and started again, in random order, while two clients on hosts of
//! their own work. No program sees an error, nothing that was answered is missing, and the checker
//! finds nothing (docs/recovery.md).
//!
//! `KILLS` sets the number (20), `KILLS_SEED` repeats an order, `KILLS_REPORT` names a file for the
//! figures, which are printed as well:
//! `KILLS=1000 cargo test -p e2e --test kill_servers -- --nocapture`.

use e2e::callers::Callers;
use e2e::kills::Kills;
use e2e::load::LOADS;
use e2e::process::is_clean;
use e2e::stalls::{Kill, Spans, Stall, histogram, longest_operations, next_answers};
use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant};

/// Longest stall that is tolerated for any single kill: a restart, and two clients that come back.
const STALL_MAX: Duration = Duration::from_secs(20);
/// Pause between a restart and the next kill, milliseconds.
const PAUSE_MS: std::ops::Range<u64> = 200..1500;

/// The figures of a run.
fn report(kills: &[Kill], took: Duration, callers: &[(String, Spans)]) -> (String, Option<Stall>) {
    let mut servers: Vec<&'static str> = kills.iter().map(|kill| kill.server).collect();
    servers.sort_unstable();
    servers.dedup();
    let next: Vec<Stall> =
        callers.iter().flat_map(|(_, spans)| next_answers(kills, spans)).collect();
    let longest: Vec<Stall> =
        callers.iter().flat_map(|(_, spans)| longest_operations(kills, spans)).collect();
    let mut text = histogram("from a kill to a caller's next answer", &next, &servers);
    text += &histogram("a caller's longest operation after a kill", &longest, &servers);
    let (count, operations) =
        (kills.len(), callers.iter().map(|(_, spans)| spans.len()).sum::<usize>());
    let restarts: Vec<Stall> =
        kills.iter().map(|kill| Stall { time: kill.restart, server: kill.server }).collect();
    text += &histogram("from a kill until the new process listens", &restarts, &servers);
    let each = took.as_secs_f64() / count as f64;
    writeln!(
        text,
        "{count} kills in {took:.0?}: {each:.2} s each, so {:.0} in half an hour; {operations} timed operations",
        1800.0 / each
    )
    .expect("a string takes everything");
    (text, next.into_iter().max())
}

#[test]
fn nobody_sees_that_servers_are_killed() {
    let Some(Kills { count: kills, mut rng, mounts, dir, mut many, .. }) = Kills::up(20) else {
        return;
    };

    let callers = Callers::begin(mounts.into(), &dir.path().join("outside"), &LOADS, &mut rng);
    thread::sleep(Duration::from_secs(1));
    let (mut killed, began) = (Vec::new(), Instant::now());
    for n in 0..kills {
        // One of them may have failed; its message comes with its join.
        if callers.has_ended() {
            println!("a caller has ended after {n} kills");
            break;
        }
        let server = rng.usize(0..many.server_count());
        let at = Instant::now();
        many.kill_server(server);
        many.start_server_again(server);
        killed.push(Kill { at, restart: at.elapsed(), server: many.server_name(server) });
        thread::sleep(Duration::from_millis(rng.u64(PAUSE_MS)));
    }
    let took = began.elapsed();
    thread::sleep(Duration::from_secs(2));
    let ended = callers.end(|| many.logs());
    let (text, worst) = report(&killed, took, &ended.spans);
    Kills::report(&text);
    let worst = worst.expect("a kill");
    assert!(
        worst.time < STALL_MAX,
        "{:?} without an answer after {} was killed",
        worst.time,
        worst.server
    );
    ended.check();
    is_clean(&many.fsck(&[]), "at work");
    many.stop();
    is_clean(&many.fsck_at_rest(&[]), "at rest");
    // Nothing of it was only in the clients' memory.
    many.start();
    ended.check();
    many.stop();
}
