//! `sheen top` on a terminal: rates rise with the work, keys do what they say, and a small window
//! is enough. The terminal is as before when the program ends, however that comes.

use e2e::cluster::{Cluster, RUN_DIR};
use e2e::process::signal;
use e2e::sheen;
use e2e::terminal::Terminal;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The screen before the program.
const BEFORE: &str = "$ sheen top\r\n";

fn top(cluster: &Cluster) -> Terminal {
    let mut command = Command::new(sheen());
    command.args(["top", "--interval", "500ms"]).env(RUN_DIR, cluster.run_dir());
    Terminal::start(command, 40, 140, BEFORE)
}

/// Makes, writes and removes files until it is dropped.
struct Work(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Work {
    fn start(mnt: PathBuf) -> Work {
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let work = move || {
            while !stopped.load(Ordering::Relaxed) {
                for n in 0..8 {
                    let path = mnt.join(format!("f{n}"));
                    fs::write(&path, vec![7; 300_000]).expect("write");
                    fs::File::open(&path).and_then(|file| file.sync_all()).expect("sync");
                    fs::remove_file(&path).expect("remove");
                }
            }
        };
        Work(stop, Some(std::thread::spawn(work)))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let ended = self.1.take().map(JoinHandle::join);
        assert!(
            std::thread::panicking() || ended.is_none_or(|ended| ended.is_ok()),
            "the work failed"
        );
    }
}

/// Words of the row of a target or client.
fn row(lines: &[String], name: &str) -> Vec<String> {
    let line = lines
        .iter()
        .find(|line| line.split_whitespace().next().is_some_and(|word| word.ends_with(name)));
    line.map(|line| line.split_whitespace().map(str::to_owned).collect()).unwrap_or_default()
}

/// Requests per second of a row, which stand in this column; 0 for none.
fn rate(lines: &[String], name: &str, column: usize) -> f64 {
    row(lines, name).get(column).and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

#[test]
fn it_shows_the_work_obeys_keys_and_fits_a_small_window() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "2"]);
    let mnt = cluster.mount();
    let mut top = top(&cluster);
    let client = mnt.to_str().expect("text").to_owned();
    let calm = top.until("all targets are shown", |lines| {
        lines[0].starts_with("4 of 4 targets up, 1 clients, 0 waits; by name")
            && !row(lines, &client).is_empty()
    });
    assert_eq!(row(&calm, "sheen-MDT0000")[1], "up");
    assert_eq!(calm.last().map(String::as_str), Some("q ends  s sorts  h helps"));
    assert_eq!(top.is_taken(), (true, true));

    let work = Work::start(mnt);
    let busy = |lines: &[String]| {
        let osts = rate(lines, "sheen-OST0000", 3) + rate(lines, "sheen-OST0001", 3);
        rate(lines, "sheen-MDT0000", 3) > 20.0 && osts > 5.0 && rate(lines, &client, 2) > 25.0
    };
    let lines = top.until("rates rise", busy);
    assert!(lines.iter().any(|line| line.starts_with(" SLOWEST")), "{}", lines.join("\n"));

    // By name the MGS stands first; by requests the MDT, which has more of them.
    let first = |lines: &[String]| {
        let head = lines.iter().position(|line| line.starts_with(" TARGET")).unwrap_or(0);
        lines[head + 1].split_whitespace().next().unwrap_or_default().to_owned()
    };
    assert_eq!(first(&lines), "MGS");
    top.press("s");
    let wanted = |lines: &[String]| lines[0].ends_with("by requests") && first(lines) != "MGS";
    top.until("sorted by requests", wanted);
    for order in ["by data", "by mean time", "by name"] {
        top.press("s");
        top.until(order, |lines| lines[0].ends_with(order));
    }

    top.press("h");
    top.until("help", |lines| lines.iter().any(|line| line.contains("LOCK WAITS: operations")));
    top.press("?");
    top.until("no help", |lines| lines[0].contains("targets up"));

    // Lines that do not fit are cut, not wrapped; keys stay in the last line.
    top.resize(9, 30);
    let small = top.until("a small window", |lines| {
        lines.len() == 9 && lines[0].starts_with("4 of 4") && lines[8] == "q ends  s sorts  h helps"
    });
    assert!(small[2].starts_with(" TARGET") && small[3].starts_with(" MGS"), "{small:?}");
    assert!(small[4].starts_with(" sheen-MDT0000"), "{small:?}");
    top.resize(40, 140);
    top.until("a large window again", |lines| lines.len() == 40 && lines[39].starts_with("q ends"));

    drop(work);
    top.until("rates fall", |lines| {
        rate(lines, "sheen-MDT0000", 3) < 20.0 && rate(lines, &client, 2) < 20.0
    });
    top.press("q");
    assert_eq!(top.ended().code(), Some(0));
}

#[test]
fn the_terminal_is_as_before_however_it_ends() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    type End = fn(&mut Terminal);
    let ends: [(&str, End); 5] = [
        ("q", |top| top.press("q")),
        ("Esc", |top| top.press("\x1b")),
        ("Ctrl-C", |top| top.press("\x03")),
        ("SIGINT", |top| signal(top.pid(), libc::SIGINT)),
        ("SIGTERM", |top| signal(top.pid(), libc::SIGTERM)),
    ];
    for (name, end) in ends {
        let mut top = top(&cluster);
        let before = top.settings_before();
        top.until(name, |lines| lines[0].contains("targets up"));
        assert_eq!(top.is_taken(), (true, true), "{name}");
        assert_ne!(top.settings(), before, "{name}: it reads single keys");
        end(&mut top);
        assert_eq!(top.ended().code(), Some(0), "{name}");
        assert_eq!((top.settings(), top.is_taken()), (before, (false, false)), "{name}");
        assert_eq!(top.lines()[0], "$ sheen top", "{name}: what stood there is there again");
    }
}
