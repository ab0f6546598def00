//! `sheen bench engine --log`: both logs are measured by turns, beside bare transactions of three
//! etcd that the run starts itself; and nothing of it is left. Skips, and says so, where etcd is
//! not installed.

#[path = "../../etcd/tests/members/mod.rs"]
mod members;

use etcd::client::Etcd;
use members::{Members, find, or_skip};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use store::kv::{Kv, KvError};

/// Longest start of the targets.
const PATIENCE: Duration = Duration::from_secs(60);

fn command(dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sheen-bench"));
    command.arg("engine").arg(dir).args(words).stdin(Stdio::null());
    command
}

fn bench(dir: &Path, words: &[&str]) -> Output {
    command(dir, words).output().expect("start sheen-bench")
}

fn is_empty(dir: &Path) {
    let left: Vec<_> = fs::read_dir(dir).expect("list").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn both_logs_stand_beside_a_bare_transaction_and_nothing_is_left() {
    if find("etcd").is_none() {
        return eprintln!("SKIPPED: etcd is not installed; `./run deps test` installs it");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let json = dir.path().join("report.json");
    let work = dir.path().join("work");
    fs::create_dir(&work).expect("a folder");
    let words = ["--log", "own", "--operations", "200", "--fsyncs", "3", "--repeats", "2"];
    let output = bench(&work, &[&words[..], &["--json", json.to_str().expect("text")]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(&json).expect("the report")).expect("JSON");
    let figures = report["figures"].as_array().expect("figures");
    let whats: Vec<&str> = figures.iter().filter_map(|figure| figure["what"].as_str()).collect();
    assert_eq!(whats.len(), 3, "{whats:?}");
    assert!(whats.iter().any(|what| what.starts_with("fsync")), "{whats:?}");
    assert!(report["settings"]["engine"]["bytes_of_an_entry"].as_u64() > Some(100));
    for figure in figures {
        let results = figure["results"].as_array().expect("results");
        let of = |place: &str| {
            let found = results.iter().find(|result| result["place"] == place);
            found.unwrap_or_else(|| panic!("no {place} in {figure}"))
        };
        let median = |place: &str| of(place)["value"]["median"].as_f64();
        assert!(median("log in etcd") > Some(0.0) && median("log in the folder") > Some(0.0));
        assert!(of("log in the folder")["ratio"].as_f64() > Some(0.0), "{figure}");
        let is_fsync = figure["what"].as_str().is_some_and(|what| what.starts_with("fsync"));
        assert_eq!(median("etcd transaction").is_some(), is_fsync, "{figure}");
    }
    is_empty(&work);
}

#[test]
fn nothing_is_left_in_an_etcd_of_others_when_the_run_is_interrupted() {
    let Some(members) = or_skip(Members::start()) else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let etcd = Etcd::new(members.url().parse().expect("an address"), Etcd::DEADLINE);
    let etcd = etcd.expect("a connection");
    let began = Instant::now();
    let keys = || loop {
        match etcd.range("/sheen/", "/sheen0", 10_000) {
            Ok(found) => break found.into_iter().map(|(key, _)| key).collect::<Vec<_>>(),
            // Busy disks: it may choose a leader.
            Err(KvError::NoAnswer(_)) if began.elapsed() < PATIENCE => {}
            Err(error) => panic!("{error}"),
        }
    };
    let mut command = command(dir.path(), &["--log", &members.url()]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("start");
    while !keys().iter().any(|key| key.contains("/sheen-MDT0000/log/")) {
        assert!(began.elapsed() < PATIENCE, "the MDT writes no log: {:?}", keys());
        thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&child), Signal::INT).expect("a signal");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("interrupted"), "{said}");
    assert_eq!(keys(), [""; 0], "{said}");
    is_empty(dir.path());
}

#[test]
fn an_address_that_is_none_or_has_a_name_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    for (log, words) in [
        ("etc", "names no etcd"),
        ("etcd://h/site", "a name of the run"),
        ("etcd://h,s3://b?endpoint=http://h&key-file=/k", "blobs"),
    ] {
        let output = bench(dir.path(), &["--log", log]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(words), "{log}: {said}");
    }
}
