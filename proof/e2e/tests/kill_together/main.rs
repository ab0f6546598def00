//! Clients and servers are killed (SIGKILL) in the same instant, again and again, while both
//! clients write. Everything they had synced is there afterwards, and the checker finds nothing to
//! repair, at work and at rest (docs/recovery.md).
//!
//! `KILLS` sets the number of rounds (4), `KILLS_SEED` repeats the choices, `KILLS_REPORT` names a
//! file for the figures, which are printed as well:
//! `KILLS=200 cargo test -p e2e --test kill_together -- --nocapture`.

mod writer;

use e2e::kills::Kills;
use e2e::process::text;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};
use writer::{Kept, Writer};

/// Callers per client.
const WRITERS: usize = 4;
/// How long callers work before the kill, milliseconds.
const WORK_MS: std::ops::Range<u64> = 100..1200;
/// The servers, in the order of [`Many`].
const MDS: usize = 1;

/// The processes that die together.
#[derive(Clone, Copy, Debug)]
struct Victims {
    name: &'static str,
    servers: &'static [usize],
    clients: &'static [usize],
}

/// Every kind of kill. The MDS dies with all clients in most of them: then no client can bring back
/// what it had not recorded.
const KINDS: [Victims; 6] = [
    Victims { name: "MDS and both clients", servers: &[MDS], clients: &[0, 1] },
    Victims { name: "everything", servers: &[0, MDS, 2, 3], clients: &[0, 1] },
    Victims { name: "MDS and one client", servers: &[MDS], clients: &[0] },
    Victims { name: "MDS, an OSS and both clients", servers: &[MDS, 2], clients: &[0, 1] },
    Victims { name: "both clients", servers: &[], clients: &[0, 1] },
    Victims { name: "an OSS and one client", servers: &[3], clients: &[1] },
];

#[test]
fn the_checker_finds_nothing_after_any_kill() {
    let Some(Kills { count: rounds, seed, mut rng, mounts, dir: _dir, mut many }) = Kills::up(4)
    else {
        return;
    };

    let began = Instant::now();
    let (mut killed, mut findings, mut operations) = ([0u64; KINDS.len()], Vec::new(), 0);
    for round in 0..rounds {
        // The first rounds have one of each kind, then chance decides.
        let kind =
            if round < KINDS.len() as u64 { round as usize } else { rng.usize(0..KINDS.len()) };
        let victims = KINDS[kind];
        let mut writers = Vec::new();
        for (n, mount) in mounts.iter().enumerate() {
            for caller in 0..WRITERS {
                let writer = Writer::new(mount.join(format!("r{round}-c{n}-{caller}")), rng.fork());
                writers.push((n, writer.stopper(), thread::spawn(move || writer.work())));
            }
        }
        thread::sleep(Duration::from_millis(rng.u64(WORK_MS)));
        many.kill_together(victims.servers, victims.clients);
        killed[kind] += 1;
        let at_rest =
            (victims.servers.len() == many.server_count()).then(|| many.fsck_at_rest(&[]));
        victims.servers.iter().for_each(|at| many.start_server_again(*at));
        // Only living clients are worth waiting for.
        if victims.servers.contains(&MDS) && victims.clients.len() == mounts.len() {
            many.abort_recovery();
        }
        victims.clients.iter().for_each(|n| many.mount_client(*n));
        writers.iter().for_each(|(_, stop, _)| stop.stop());
        for (n, _, thread) in writers {
            let (kept, count) = thread.join().expect("a caller does not panic");
            operations += count;
            check_synced(&kept, victims.clients.contains(&n));
        }
        for (place, checked) in
            at_rest.iter().map(|at| ("at rest", at)).chain([("at work", &many.fsck(&[]))])
        {
            println!("round {round}, {} killed, {place}: {}", victims.name, one_line(checked));
            if !checked.status.success() {
                findings.push(format!(
                    "round {round}, {} killed, {place}: {}",
                    victims.name,
                    text(checked)
                ));
            }
        }
        tidy(&mut rng, &mounts[0]);
    }
    many.stop();
    let at_rest = many.fsck_at_rest(&[]);
    if !at_rest.status.success() {
        findings.push(format!("at rest in the end: {}", text(&at_rest)));
    }
    let mut report = format!(
        "{rounds} rounds, KILLS_SEED={seed}, in {:.0?}; {operations} operations\n",
        began.elapsed()
    );
    for (kind, count) in KINDS.iter().zip(killed) {
        writeln!(report, "  {count:>4} times {} killed", kind.name)
            .expect("a string takes everything");
    }
    writeln!(report, "{} checks were not clean", findings.len())
        .expect("a string takes everything");
    Kills::report(&report);
    assert!(findings.is_empty(), "{}\n{report}", findings.join("\n"));
}

/// Everything synced and not touched since is there. If the client lived on, all of it is.
fn check_synced(kept: &Kept, died: bool) {
    for (path, synced) in &kept.synced {
        let read = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(
            read.starts_with(synced),
            "{}: synced bytes are missing ({} of {})",
            path.display(),
            read.len(),
            synced.len()
        );
    }
    assert!(died || kept.failed.is_none(), "a client that lived saw {:?}", kept.failed);
}

/// A round in three removes everything, so that the checks stay short and removals are among what
/// is interrupted.
fn tidy(rng: &mut fastrand::Rng, mount: &Path) {
    if rng.u32(0..3) == 0 {
        for entry in fs::read_dir(mount).expect("list").flatten() {
            fs::remove_dir_all(entry.path()).expect("remove a folder");
        }
    }
}

fn one_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim_end().replace('\n', "; ")
}
