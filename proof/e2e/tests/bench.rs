//! `sheen bench` on a real mount beside references: every item small, its JSON read by a parser,
//! and nothing left behind, neither at the end nor after Ctrl-C.

use e2e::cluster::{Cluster, RUN_DIR};
use e2e::process::text;
use e2e::sheen;
use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// An operation that still waits after this time hangs.
const WATCHDOG: Duration = Duration::from_secs(120);

fn bench(cluster: &Cluster, item: &str) -> Command {
    let mut command = Command::new(sheen());
    command
        .arg0("sheen")
        .args(["bench", item])
        .env(RUN_DIR, cluster.run_dir())
        .stdin(Stdio::null());
    command
}

/// Folders and mounts of a benchmark that are still there.
fn left_behind(dirs: &[&Path]) -> Vec<PathBuf> {
    let entries = dirs.iter().flat_map(|dir| fs::read_dir(dir).expect("list"));
    let mut left: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let here = std::process::id().to_string();
    left.retain(|path| path.to_string_lossy().contains("sheen-bench"));
    // Other tests' benchmarks may run now. Only those count whose folders, given by TMPDIR, are
    // below this test's.
    let ours = |line: &&str| dirs.iter().any(|dir| line.contains(&*dir.to_string_lossy()));
    let of_benchmarks = mounts.lines().filter(|line| line.contains(&format!("bench-e2e-{here}")));
    left.extend(of_benchmarks.filter(ours).map(PathBuf::from));
    left
}

/// Runs an item to its end; its JSON.
fn figures(cluster: &Cluster, item: &str, args: &[&str]) -> Value {
    let (mount, outside) = (cluster.mount(), cluster.outside());
    let (json, html) = (outside.join(format!("{item}.json")), outside.join(format!("{item}.html")));
    let caches = e2e::caches::mine();
    let output: Output = bench(cluster, item)
        .args(args)
        .args(["--repeats", "2", "--seed", "7", "--json"])
        .arg(&json)
        .arg("--html")
        .arg(&html)
        .output()
        .expect("sheen runs");
    drop(caches);
    assert!(output.status.success(), "{item}: {}", text(&output));
    assert!(
        String::from_utf8_lossy(&output.stdout).contains(item),
        "a table comes: {}",
        text(&output)
    );
    assert!(fs::read_to_string(&html).expect("the page").trim_end().ends_with("</html>"));
    let left = left_behind(&[&mount, &outside]);
    assert!(left.is_empty(), "{item} left behind: {left:?}");
    serde_json::from_slice(&fs::read(&json).expect("the JSON file")).expect("JSON")
}

/// Figures of a report: (what, results).
fn each(report: &Value) -> Vec<(&str, &Vec<Value>)> {
    let figures = report["figures"].as_array().expect("figures");
    figures
        .iter()
        .map(|f| (f["what"].as_str().expect("text"), f["results"].as_array().expect("results")))
        .collect()
}

fn median(result: &Value) -> Option<f64> {
    result["value"]["median"].as_f64()
}

fn fewest(result: &Value) -> Option<f64> {
    result["value"]["samples"].as_array()?.iter().filter_map(Value::as_f64).min_by(f64::total_cmp)
}

/// Every row of `rtt`: no more round trips than the design allows, background requests shown, and
/// times beside those of others.
fn keeps_to_the_table_of_round_trips(report: &Value) {
    let rows = report["figures"].as_array().expect("figures");
    let (counts, times): (Vec<&Value>, Vec<&Value>) =
        rows.iter().partition(|row| row["unit"] == "requests");
    assert_eq!((counts.len(), times.len()), (20, 20));
    for row in counts {
        let (what, results) = (&row["what"], row["results"].as_array().expect("results"));
        let (value, most) =
            (fewest(&results[0]).expect("a sample"), row["goal"].as_f64().expect("a goal"));
        // One in twenty may cost one more, as the table of the item has it; where none is allowed,
        // none. The best round counts: another test that drops the machine's caches makes a round
        // cold.
        assert!(value <= most * 1.05, "{what}: {value} round trips where {most} are allowed");
        let (all, behind) =
            (results[0]["requests"].as_f64().expect("all"), results[0]["background"].as_f64());
        // Each figure is a quotient, so their sum may miss the whole by a rounding error.
        let fits = behind.is_some_and(|behind| value + behind <= all + 1e-9);
        assert!(fits, "{what}: {value} and {behind:?} of {all}");
        assert!(
            results[1..].iter().all(|result| result["skipped"].is_string()),
            "{what}: others count no requests"
        );
    }
    let behind = |what: &str| {
        let row = rows.iter().find(|row| row["what"] == what).expect("a row");
        row["results"][0]["background"].as_f64().expect("requests behind")
    };
    // Requests that no program waits for are shown: a close, and a store with the report before it.
    assert!(behind("create and close") >= 1.0 && behind("create, write 4 KiB and close") >= 2.0);
    for row in times {
        let results = row["results"].as_array().expect("results");
        assert!(median(&results[0]) > Some(0.0), "{row}");
        assert!(results[1]["ratio"].as_f64() > Some(0.0), "{row}");
        assert!(
            results[2]["ratio"].as_f64() > Some(0.0) || results[2]["skipped"].is_string(),
            "{row}"
        );
    }
}

#[test]
fn every_item_runs_beside_references_and_leaves_nothing() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let (mount, outside) = (cluster.mount(), cluster.outside());
    let (mount, outside) = (mount.to_str().expect("a path"), outside.to_str().expect("a path"));

    let report = figures(
        &cluster,
        "mdtest",
        &[
            mount,
            "--reference",
            outside,
            "--reference",
            "null",
            "--files",
            "12",
            "--sizes",
            "0,3901",
        ],
    );
    assert_eq!((&report["seed"], &report["repeats"]), (&Value::from(7), &Value::from(2)));
    for key in ["commit", "version", "machine", "settings", "places", "command"] {
        assert!(!report[key].is_null(), "{key}");
    }
    assert_eq!(each(&report).len(), 2 * (2 * 4 + 3));
    for (what, results) in each(&report) {
        assert_eq!(results.len(), 3, "{what}: the target and two references");
        for result in results {
            let value = &result["value"];
            let (low, high) = (
                value["spread"][0].as_f64().expect("a number"),
                value["spread"][1].as_f64().expect("one"),
            );
            let middle = median(result).expect("a median");
            assert!(low > 0.0 && low <= middle && middle <= high, "{what}: {value}");
            assert_eq!(value["samples"].as_array().expect("samples").len(), 2);
            assert!(result["cpu_us_program"].as_f64().expect("CPU") > 0.0);
        }
        let daemons = results[0]["cpu_us_daemons"].as_object().expect("daemons");
        assert_eq!(daemons.len(), 1, "{what}: one process plays all roles: {daemons:?}");
        assert!(
            daemons.keys().all(|name| name.contains("MDT0000") && name.starts_with("mount")),
            "{daemons:?}"
        );
        assert!(
            results[0]["resident_bytes"]
                .as_object()
                .expect("memory")
                .values()
                .all(|b| b.as_u64() > Some(1 << 20))
        );
        let (ours, theirs) =
            (median(&results[0]).expect("ours"), median(&results[1]).expect("theirs"));
        let ratio = results[1]["ratio"].as_f64().expect("a ratio");
        assert!((ratio - ours / theirs).abs() < 1e-9, "{what}: {ratio}");
    }

    let report = figures(
        &cluster,
        "io",
        &[
            mount,
            "--reference",
            outside,
            "--size",
            "2M",
            "--threads",
            "2",
            "--random",
            "20",
            "--many-files",
            "3",
            "--many-size",
            "1M",
        ],
    );
    let whats: Vec<&str> = each(&report).into_iter().map(|(what, _)| what).collect();
    for wanted in [
        "sequential write+fsync",
        "random cold read",
        "O_DIRECT",
        "47,008 B interleaved",
        "many files",
    ] {
        assert!(whats.iter().any(|what| what.contains(wanted)), "{wanted} in {whats:?}");
    }
    let many =
        each(&report).into_iter().find(|(what, _)| what.contains("many files")).expect("it").1;
    assert!(many[0]["over_time"].as_array().expect("a curve").len() > 3);

    let report = figures(
        &cluster,
        "ls",
        &[mount, "--reference", outside, "--entries", "50", "--stripes", "0,2"],
    );
    assert_eq!(each(&report).len(), 2 * 4 * 2);

    let report = figures(
        &cluster,
        "find",
        &[mount, "--reference", outside, "--files", "60", "--per-directory", "25"],
    );
    for (what, results) in each(&report) {
        assert!(median(&results[0]).is_some_and(|rate| rate > 0.0), "{what}");
        assert_eq!(median(&results[1]).is_some(), !what.starts_with("lfs"), "{what}");
    }
    assert_eq!(each(&report).len(), 6 * 2);

    let report = figures(
        &cluster,
        "rtt",
        &[mount, "--reference", outside, "--reference", "null", "--files", "20"],
    );
    keeps_to_the_table_of_round_trips(&report);

    let report = figures(&cluster, "warm", &[mount, "--reference", outside, "--files", "60"]);
    let asked = each(&report)
        .into_iter()
        .find(|(what, _)| *what == "stat: requests to servers")
        .expect("it")
        .1;
    assert_eq!(median(&asked[0]), Some(0.0), "what is warm costs nothing");

    let report = figures(&cluster, "watched", &[mount, "--slice", "1s", "--threads", "1"]);
    for (what, results) in each(&report) {
        assert_eq!(results.len(), 2, "{what}: unwatched and watched");
        assert!(
            results.iter().all(|result| median(result).is_some_and(|rate| rate > 0.0)),
            "{what}"
        );
        assert!(
            results[1]["place"].as_str().is_some_and(|name| name.ends_with(" watched")),
            "{what}"
        );
        assert!(results[1]["pairs"].is_null(), "{what}: nothing can be said after two rounds");
    }

    let report = figures(
        &cluster,
        "build",
        &[mount, "--reference", outside, "--sources", "8", "--jobs", "2"],
    );
    assert_eq!(each(&report).len(), 8);

    let report = figures(&cluster, "memory", &[mount, "--reference", outside, "--files", "30"]);
    assert!(median(&each(&report)[2].1[0]).expect("memory") > 1.0);

    let report = figures(&cluster, "net", &["--pings", "50", "--size", "2M"]);
    let places = ["LNet", "LNet, with keys", "LNet, local", "LNet, local, with keys", "raw TCP"];
    for (_, results) in each(&report) {
        assert!(results.iter().map(|result| &result["place"]).eq(places), "{results:?}");
        assert!(results.iter().all(|result| median(result) > Some(0.0)), "{results:?}");
    }

    let report = figures(&cluster, "engine", &[outside, "--operations", "200"]);
    assert!(each(&report).len() >= 10);
}

#[test]
fn long_links_are_made_measured_and_removed() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let outside = cluster.outside();
    let hosts = || {
        let names = fs::read_dir("/run/netns")
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name());
        names
            .filter(|name| name.to_string_lossy().starts_with("sb"))
            .collect::<std::collections::BTreeSet<_>>()
    };
    let before = hosts();
    // Without delay and rate neither a program nor netem is needed.
    let args = [
        "--delays",
        "0ms",
        "--rate",
        "0",
        "--items",
        "line,reads,ls,mdtest,rtt",
        "--size",
        "4M",
        "--read-files",
        "4",
        "--files",
        "20",
        "--osts",
        "2",
    ];
    let all: Vec<&str> = [outside.to_str().expect("a path")]
        .into_iter()
        .chain(args)
        .chain(["--stripes", "2"])
        .collect();
    let report = figures(&cluster, "wan", &all);
    let percent =
        each(&report).into_iter().find(|(what, _)| what.contains("of the line")).expect("it").1;
    assert!(median(&percent[0]).is_some_and(|percent| percent > 0.0 && percent < 1000.0));
    assert_eq!(hosts(), before, "hosts are left behind");
}

#[test]
fn ranks_are_threads_processes_and_native_clients() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let mount = cluster.mount();
    let mount = mount.to_str().expect("a path");
    let status = cluster.command(&["status"]);
    let shown = String::from_utf8_lossy(&status.stdout).into_owned();
    let nid = shown
        .split_whitespace()
        .find(|word| word.starts_with("127.0.0.1:"))
        .expect("it listens")
        .to_owned();
    let native = format!("{nid}:/sheen");
    let args = ["--files", "5", "--ranks", "3", "--sizes", "100", "--native", &native];
    for extra in [&[][..], &["--processes"]] {
        let all: Vec<&str> = [mount].into_iter().chain(args).chain(extra.iter().copied()).collect();
        let report = figures(&cluster, "mdtest", &all);
        for (what, results) in each(&report) {
            assert_eq!(results[1]["role"], "native");
            assert!(
                results.iter().all(|r| median(r).is_some_and(|rate| rate > 0.0)),
                "{what}: {results:?}"
            );
        }
    }
}

/// Starts a benchmark and interrupts it when it has begun; what it said on standard error.
fn interrupted(item: &str, mut command: Command, begun: impl Fn(u32) -> bool) -> String {
    let _caches = e2e::caches::mine();
    command.stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().expect("sheen runs");
    let (start, id) = (Instant::now(), child.id());
    while !begun(id) {
        assert!(start.elapsed() < WATCHDOG, "{item} does not begin");
        assert!(child.try_wait().expect("wait").is_none(), "{item} ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    // As the terminal does: to the whole group. SAFETY: kill has no preconditions; the group is
    // that of the test's own child.
    let sent = unsafe { libc::kill(-(id as i32), libc::SIGINT) };
    assert_eq!(sent, 0);
    let ended = child.wait_with_output().expect("wait");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(2), "{item}: {said}");
    assert!(said.contains("interrupted"), "{item}: {said}");
    said
}

#[test]
fn an_interrupted_long_link_leaves_no_hosts() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let outside = cluster.outside();
    let ours = |id: u32| {
        let names = fs::read_dir("/run/netns")
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name());
        names
            .filter(|name| name.to_string_lossy().starts_with(&format!("sb{}", id % 100_000)))
            .count()
    };
    let processes = || {
        let lines = Command::new("pgrep")
            .args(["-af", &outside.display().to_string()])
            .output()
            .expect("pgrep runs");
        String::from_utf8_lossy(&lines.stdout).into_owned()
    };
    let id = std::cell::Cell::new(0);
    let mut command = bench(&cluster, "wan");
    command.arg(&outside).args(["--delays", "0ms", "--rate", "0", "--size", "4G"]);
    let said = interrupted("wan", command, |child| {
        id.set(child);
        ours(child) > 0 && processes().lines().count() > 1
    });
    assert_eq!(ours(id.get()), 0, "hosts are left behind; it said {said}");
    assert_eq!(processes(), "", "processes are left behind; it said {said}");
    assert!(left_behind(&[&outside]).is_empty(), "it said {said}");
}

#[test]
fn an_interrupted_benchmark_leaves_nothing_behind() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let (mount, outside) = (cluster.mount(), cluster.outside());
    let temporary = outside.join(format!("bench-e2e-{}", std::process::id()));
    fs::create_dir(&temporary).expect("mkdir");
    for (item, args) in [
        ("mdtest", &["--files", "100000", "--processes", "--reference", "null"][..]),
        ("io", &["--size", "64G"]),
        ("ls", &["--entries", "1000000"]),
        ("build", &["--sources", "2000"]),
        ("find", &["--files", "1000000"]),
        ("watched", &["--slice", "5s"]),
    ] {
        let mut command = bench(&cluster, item);
        command.arg(&mount).args(args).env("TMPDIR", &temporary);
        if item != "watched" {
            command.arg("--reference").arg(&outside);
        }
        let folder = |id: u32| mount.join(format!("sheen-bench.{id}"));
        let said = interrupted(item, command, |id| {
            fs::read_dir(folder(id)).is_ok_and(|mut entries| entries.next().is_some())
        });
        let left = left_behind(&[&mount, &outside, &temporary]);
        assert!(left.is_empty(), "{item} left behind: {left:?}; it said {said}");
    }
}

#[test]
fn wrong_calls_are_told_in_one_sentence() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let (mount, outside) = (cluster.mount(), cluster.outside());
    let (mount, outside) = (mount.to_str().expect("a path"), outside.to_str().expect("a path"));
    for (args, code, words) in [
        (&["mdtest", "/nowhere/at/all"][..], 2, "/nowhere/at/all"),
        (&["mdtest", mount, outside], 64, "--reference"),
        (&["mdtest", mount, "--json", "/nowhere/f.json"], 64, "/nowhere"),
        (&["mdtest", mount, "--native", "127.0.0.1:1@tcp:/sheen"], 2, "127.0.0.1:1"),
        (&["build", mount, "--tree", "/nowhere", "--repeats", "1"], 2, "/nowhere"),
        (
            &[
                "build",
                mount,
                "--sources",
                "3",
                "--command",
                "echo it is broken >&2; false",
                "--repeats",
                "1",
            ],
            2,
            "it is broken",
        ),
    ] {
        let output = bench(&cluster, args[0]).args(&args[1..]).output().expect("sheen runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(words) && said.trim_end().lines().count() == 1, "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}: no table of what failed");
        let left = left_behind(&[Path::new(mount), Path::new(outside)]);
        assert!(left.is_empty(), "{args:?} left behind: {left:?}");
    }
}
