//! The coordinator of an operation over several MDTs dies (SIGKILL) in a phase that a fault point
//! holds, and is kept down: another client uses all that the operation touched on the MDTs that
//! live, within 7 s. Or it is started again after 0.3 s: then within 1 s of its service. Later the
//! operation is there as a whole, once (docs/dne.md, sections 4 and 5).
//!
//! `KILLS` sets the number of kills, `KILLS_SEED` repeats their order, `KILLS_REPORT` names a file
//! for the figures.

use e2e::kills::Kills;
use e2e::lustre::lfs;
use e2e::many::Many;
use e2e::process::text;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const MDTS: usize = 4;
/// It coordinates: the new name is there.
const COORDINATOR: u16 = 1;
/// Others get on by then if it stays down: the lease is 5 s.
const KEPT_DOWN: Duration = Duration::from_secs(7);
/// Or so long after it serves again.
const OF_SERVICE: Duration = Duration::from_secs(1);
/// It is started again after this time.
const DOWN: Duration = Duration::from_millis(300);
/// Anything else, such as the start of an MDS.
const STALL_MAX: Duration = Duration::from_secs(60);

/// An operation that MDT0001 coordinates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// A file of MDT0002 gets its name on MDT0001.
    File,
    /// A name of MDT0002, of a file of MDT0003, goes to MDT0001.
    Name,
    /// A directory of MDT0002 goes to MDT0001; MDT0000 has the token.
    Directory,
}

/// The moment of the death.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// A Prepare was sent, no MDT has it.
    BeforePrepared,
    /// One has prepared, the coordinator does not know.
    Prepared,
    /// It is decided, no Apply has come.
    Decided,
    /// The MDT of the old name has applied it, the others have not got the Apply.
    HalfApplied,
    /// All that were asked have applied it, the coordinator does not know.
    Applied,
}

impl Phase {
    fn point(self) -> &'static str {
        match self {
            Phase::BeforePrepared => "mds.peer.prepare.request",
            Phase::Prepared => "mds.peer.prepare.reply",
            Phase::Decided | Phase::HalfApplied => "mds.peer.apply.request",
            Phase::Applied => "mds.peer.apply.reply",
        }
    }
}

/// Each operation in each phase that it has.
fn cases() -> Vec<(What, Phase)> {
    use Phase::{Applied, BeforePrepared, Decided, HalfApplied, Prepared};
    let mut all = Vec::new();
    for what in [What::File, What::Name, What::Directory] {
        for phase in [BeforePrepared, Prepared, Decided, HalfApplied, Applied] {
            // The file has no other MDT that could be without the Apply.
            if (what, phase) != (What::File, HalfApplied) {
                all.push((what, phase));
            }
        }
    }
    all
}

/// An operation of the second client: when it ended, and how.
struct Use {
    about: &'static str,
    ended: Receiver<(Instant, io::Result<()>)>,
}

fn begins(about: &'static str, work: impl FnOnce() -> io::Result<()> + Send + 'static) -> Use {
    let (tell, ended) = mpsc::channel();
    thread::spawn(move || {
        let result = work();
        // The test may have failed meanwhile.
        let _ = tell.send((Instant::now(), result));
    });
    Use { about, ended }
}

/// It is there or not: both are answers.
fn look(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What is in the tree for one kill.
struct Stage {
    old: PathBuf,
    new: PathBuf,
    /// Everything on MDTs that live that the operation touches, as the second client names it.
    keep: PathBuf,
    held: File,
}

/// `round`: makes its names its own.
fn set_up(mounts: &[PathBuf], what: What, round: u64) -> Stage {
    let name = format!("{what:?}{round}");
    let keep = match what {
        What::File | What::Directory => PathBuf::from(format!("on2/keep-{name}")),
        What::Name => PathBuf::from(format!("on3/keep-{name}")),
    };
    let old = PathBuf::from(format!("on2/{name}"));
    let at = |path: &Path| mounts[0].join(path);
    match what {
        What::File | What::Name => {
            fs::write(at(&keep), "data").expect("write");
            fs::hard_link(at(&keep), at(&old)).expect("link");
        }
        What::Directory => {
            fs::create_dir(at(&old)).expect("mkdir");
            fs::create_dir(at(&keep)).expect("mkdir");
        }
    }
    fs::create_dir(at(Path::new(&format!("on3/turn{round}")))).expect("mkdir");
    let other = match what {
        What::File | What::Name => &keep,
        What::Directory => &old,
    };
    let held = File::open(mounts[1].join(other)).expect("open");
    Stage { old, new: PathBuf::from(format!("on1/{name}")), keep, held }
}

/// The second client uses all of it.
fn use_all(mounts: &[PathBuf], stage: &Stage, what: What, round: u64) -> Vec<Use> {
    let at = |path: &Path| mounts[1].join(path);
    let (old, keep) = (at(&stage.old), at(&stage.keep));
    let fresh = |dir: &str| at(Path::new(&format!("{dir}/fresh{round}")));
    let (file, dir) = (fresh("on2"), fresh("on3"));
    let mut all = vec![
        begins("look at the old name", move || look(&old)),
        begins("create in the directory of the old name", move || fs::write(file, "fresh")),
        begins("mkdir on a third MDT", move || fs::create_dir(dir)),
    ];
    let held = stage.held.try_clone().expect("a descriptor");
    match what {
        What::File | What::Name => {
            all.push(begins("chmod of the file", {
                let held = held.try_clone().expect("a descriptor");
                move || Ok(rustix::fs::fchmod(&held, 0o640.into())?)
            }));
            all.push(begins("append to the file", move || {
                File::options().append(true).open(&keep)?.write_all(b"+")
            }));
        }
        What::Directory => {
            // The directory is reached by what is open, wherever its name is.
            all.push(begins("chmod of the directory", {
                let held = held.try_clone().expect("a descriptor");
                move || Ok(rustix::fs::fchmod(&held, 0o750.into())?)
            }));
            all.push(begins("create in the directory", move || {
                fs::write(format!("/proc/self/fd/{}/inside", held.as_raw_fd()), "inside")
            }));
            // It needs the token.
            let turn = PathBuf::from(format!("turn{round}"));
            let (from, to) = (at(&Path::new("on3").join(&turn)), keep.join(&turn));
            all.push(begins("give another directory a parent on another MDT", move || {
                fs::rename(from, to)
            }));
        }
    }
    all
}

/// Waits until one of these servers has shown the fault.
fn reached(many: &Many, at: &[usize], point: &str) {
    let began = Instant::now();
    loop {
        for at in at {
            let shown = text(&many.sheen_at(*at, &["lctl", "get_param", "-n", "fault_points"]));
            let line = shown.lines().find(|line| line.split_whitespace().any(|word| word == point));
            let fired = line.expect("a point").split_whitespace().nth(3).expect("a count");
            if fired.trim_end_matches(',').parse::<u64>().expect("a count") > 0 {
                return;
            }
        }
        assert!(began.elapsed() < STALL_MAX, "{point} is not reached\n{}", many.logs());
    }
}

fn arm(many: &Many, at: &[usize], rule: &str) {
    for at in at {
        let set = many.sheen_at(*at, &["lctl", "set_param", &format!("fault={rule}")]);
        assert!(set.status.success(), "{}", text(&set));
    }
}

/// Waits until the coordinator, which has been started again, serves. The time then.
fn serves(many: &Many) -> Instant {
    let (at, began) = (many.mds_of(COORDINATOR), Instant::now());
    let status = format!("mdt.*MDT000{COORDINATOR}.recovery_status");
    loop {
        let shown = text(&many.sheen_at(at, &["lctl", "get_param", "-n", &status]));
        if shown.contains("COMPLETE") || shown.contains("INACTIVE") {
            return Instant::now();
        }
        assert!(began.elapsed() < STALL_MAX, "{shown}\n{}", many.logs());
        thread::sleep(Duration::from_millis(20));
    }
}

/// All of it ends in order, by then. What takes longest from `from`, and how long.
fn all_end(many: &Many, uses: Vec<Use>, from: Instant, within: Duration, case: &str) -> String {
    let mut longest = (Duration::ZERO, "all were over before");
    for Use { about, ended } in uses {
        let left =
            (from + within + Duration::from_secs(5)).saturating_duration_since(Instant::now());
        match ended.recv_timeout(left) {
            Ok((at, result)) => {
                let took = at.saturating_duration_since(from);
                result.unwrap_or_else(|error| panic!("{case}: {about}: {error}\n{}", many.logs()));
                assert!(took <= within, "{case}: {about}: {took:?}\n{}", many.logs());
                longest = longest.max((took, about));
            }
            Err(_) => panic!(
                "{case}: {about}: still waits\n{}\n{}",
                text(&many.sheen(&["why"])),
                many.logs()
            ),
        }
    }
    let (took, about) = longest;
    format!("{:.2} s: {about}", took.as_secs_f64())
}

/// The rename is there, once.
fn is_moved(mounts: &[PathBuf], stage: &Stage, mover: JoinHandle<io::Result<()>>, case: &str) {
    let began = Instant::now();
    while !mover.is_finished() {
        assert!(began.elapsed() < STALL_MAX, "{case}: the rename does not end");
        thread::sleep(Duration::from_millis(10));
    }
    mover.join().expect("the thread ends").unwrap_or_else(|error| panic!("{case}: {error}"));
    for mount in mounts {
        assert!(!mount.join(&stage.old).exists(), "{case}: the old name is there");
        let meta = fs::metadata(mount.join(&stage.new)).expect("the new name");
        assert_eq!(meta.ino(), stage.held.metadata().expect("fstat").ino(), "{case}");
        let bits = if meta.is_dir() { 0o750 } else { 0o640 };
        assert_eq!(meta.mode() & 0o777, bits, "{case}: what the other client changed");
        if meta.is_dir() {
            assert!(mount.join(&stage.new).join("inside").exists(), "{case}");
        } else {
            assert_eq!(meta.nlink(), 2, "{case}");
            assert_eq!(fs::read_to_string(mount.join(&stage.keep)).expect("read"), "data+");
        }
    }
}

#[test]
fn others_get_on_without_the_coordinator() {
    let mut cases = cases();
    // Each kept down, and each started again at once.
    let usual = 2 * cases.len() as u64;
    let Some(kills) = Kills::<2>::up_with_clients(usual, MDTS) else { return };
    let Kills { count, seed, mut rng, mounts, dir: _dir, mut many } = kills;
    for mdt in 1..MDTS {
        lfs(&mounts[0], &["mkdir", "-i", &mdt.to_string(), &format!("on{mdt}")]);
    }
    let coordinator = many.mds_of(COORDINATOR);
    let others = [0, 2, 3].map(|mdt| many.mds_of(mdt));
    let mut figures = format!("KILLS_SEED={seed}, {count} kills\n");
    for round in 0..count {
        let at = (round % cases.len() as u64) as usize;
        if at == 0 {
            rng.shuffle(&mut cases);
        }
        let (what, phase) = cases[at];
        let kept_down = (round / cases.len() as u64).is_multiple_of(2);
        let case = format!("round {round}, {what:?}, {phase:?}, kept down: {kept_down}");
        let stage = set_up(&mounts, what, round);
        // The old name's MDT has the Apply.
        let skipped = phase == Phase::HalfApplied;
        let armed = if skipped { vec![others[0], others[2]] } else { others.to_vec() };
        let point = phase.point();
        arm(&many, &armed, &format!("{point}=drop"));
        let (old, new) = (mounts[0].join(&stage.old), mounts[0].join(&stage.new));
        let mover = thread::spawn(move || fs::rename(old, new));
        reached(&many, &armed, point);
        if skipped {
            // The other one has had its Apply for as long.
            thread::sleep(Duration::from_millis(100));
        }
        many.kill_server(coordinator);
        let killed = Instant::now();
        arm(&many, &armed, "clear");
        let uses = use_all(&mounts, &stage, what, round);
        let took = if kept_down {
            let took = all_end(&many, uses, killed, KEPT_DOWN, &case);
            many.start_server_again(coordinator);
            took
        } else {
            thread::sleep(DOWN.saturating_sub(killed.elapsed()));
            many.start_server_again(coordinator);
            let since = serves(&many);
            all_end(&many, uses, since, OF_SERVICE, &case)
        };
        println!("{case}: {took}");
        figures += &format!("{case}: {took}\n");
        is_moved(&mounts, &stage, mover, &case);
    }
    let checked = many.fsck(&[]);
    assert!(checked.status.success(), "{}", text(&checked));
    many.stop();
    let checked = many.fsck_at_rest(&[]);
    assert!(checked.status.success(), "{}", text(&checked));
    Kills::report(&figures);
}
