//! Jobs: what a program does is counted by its job at the targets, as `lctl` and `/metrics` show
//! it.

use e2e::cluster::Cluster;
use e2e::http::get;
use e2e::process::text;
use e2e::programs::sh;
use observe::openmetrics::read::read;
use std::collections::BTreeMap;

fn lctl(cluster: &Cluster, args: &[&str]) -> String {
    let output = cluster.lctl(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output));
    String::from_utf8(output.stdout).expect("text")
}

/// (samples, sum) of each operation of each job, over all targets.
fn jobs(cluster: &Cluster, pattern: &str) -> BTreeMap<String, BTreeMap<String, (u64, u64)>> {
    let mut all: BTreeMap<String, BTreeMap<String, (u64, u64)>> = BTreeMap::new();
    let mut job = String::new();
    for line in lctl(cluster, &["get_param", "-n", pattern]).lines() {
        if let Some(name) = line.strip_prefix("- job_id:") {
            job = name.trim().to_owned();
            all.entry(job.clone()).or_default();
        } else if let Some((name, values)) = line.split_once('{') {
            let value = |key: &str| {
                let (_, rest) = values.split_once(key).expect("the key");
                let end = rest.find([',', '}']).expect("an end");
                rest[..end].trim().parse::<u64>().expect("a number")
            };
            let operation = name.trim().trim_end_matches(':').to_owned();
            let (samples, sum) = all.entry(job.clone()).or_default().entry(operation).or_default();
            *samples += value("samples:");
            *sum += value("sum:");
        }
    }
    all
}

#[test]
fn what_a_program_does_is_counted_by_its_job() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "2", "--dom-size", "0"]);
    let mnt = cluster.mount();
    sh(&mnt, "dd if=/dev/zero of=before bs=64k count=1 2> /dev/null");
    assert!(jobs(&cluster, "*.*.job_stats").is_empty(), "no job is named unless it is wanted");
    assert_eq!(lctl(&cluster, &["get_param", "-n", "jobid_var"]).trim(), "disable");

    lctl(&cluster, &["set_param", "jobid_var=procname_uid"]);
    sh(
        &mnt,
        "dd if=/dev/zero of=one bs=64k count=16 conv=fsync 2> /dev/null; mkdir d; cp one d/two",
    );
    // The writes of cp are stored in the background, once the MDT has committed the new file.
    let mut data = jobs(&cluster, "obdfilter.*.job_stats");
    for _ in 0..200 {
        if data.get("cp.0").is_some_and(|job| job.contains_key("write_bytes")) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        data = jobs(&cluster, "obdfilter.*.job_stats");
    }
    let names = jobs(&cluster, "mdt.*.job_stats");
    assert_eq!(data["dd.0"]["write_bytes"].1, 16 * 65536, "{data:?}");
    assert_eq!(data["cp.0"]["write_bytes"].1, 16 * 65536, "{data:?}");
    assert!(names["dd.0"].contains_key("open") && names["mkdir.0"]["mkdir"].0 == 1, "{names:?}");
    assert!(!names.contains_key("cat.0") && !data.contains_key("mkdir.0"), "{names:?} {data:?}");

    // A variable of the environment, as schedulers set it; a process without it is named by
    // jobid_name.
    lctl(&cluster, &["set_param", "jobid_var=BATCH_JOB_ID"]);
    lctl(&cluster, &["set_param", "jobid_name=%u.no-job"]);
    lctl(&cluster, &["set_param", "*.*.job_stats=clear"]);
    sh(
        &mnt,
        "BATCH_JOB_ID='4711 a' dd if=/dev/zero of=three bs=1k count=3 conv=fsync 2> /dev/null; rm before",
    );
    let (names, data) =
        (jobs(&cluster, "mdt.*.job_stats"), jobs(&cluster, "obdfilter.*.job_stats"));
    assert_eq!(data["4711_a"]["write_bytes"].1, 3 * 1024, "{data:?}");
    assert!(names["0.no-job"].contains_key("unlink") && !names.contains_key("dd.0"), "{names:?}");

    // execve(2) closes a file for a thread that has not been seen yet. It holds a lock then, which
    // readers of the thread's environment wait for.
    sh(
        &mnt,
        "timeout -s KILL 60 python3 -c 'import subprocess; f = open(\"four\", \"w\"); \
         subprocess.check_call([\"true\"], close_fds=False)'",
    );

    // The same numbers for Prometheus.
    let status: serde_json::Value =
        serde_json::from_slice(&cluster.command(&["status", "--json"]).stdout).expect("JSON");
    let (_, body) = get(status["http"].as_str().expect("an address"), "/metrics", "");
    read(&body).unwrap_or_else(|error| panic!("{error}\n{body}"));
    let of_job =
        |line: &&str| line.starts_with("sheen_job_bytes_total{") && line.contains("job=\"4711_a\"");
    let counted: u64 = body
        .lines()
        .filter(of_job)
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(counted, 3 * 1024, "{body}");

    for bad in [
        "jobid_var=a=b",
        "jobid_var=session",
        "jobid_name=%x",
        "obdfilter.*.job_stats=nobody",
        "mdt.*.job_cleanup_interval=x",
    ] {
        assert!(!cluster.lctl(&["set_param", bad]).status.success(), "{bad}");
    }
    // Only one of the OSTs has the job: the other one says so.
    cluster.lctl(&["set_param", "obdfilter.*.job_stats=4711_a"]);
    assert!(jobs(&cluster, "obdfilter.*.job_stats").is_empty());
}
