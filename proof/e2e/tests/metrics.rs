//! `/metrics` of a real process: a parser reads it, its numbers are those of `lctl`, its labels are
//! bounded.

use e2e::cluster::Cluster;
use e2e::http::get;
use e2e::process::text;
use e2e::programs::sh;
use observe::openmetrics::read::{Family, Kind, SampleLine, read};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Command;
use std::time::{Duration, Instant};

/// Address at which the process of this cluster answers HTTP.
fn http(cluster: &Cluster) -> String {
    let output = cluster.command(&["status", "--json"]);
    assert!(output.status.success(), "{}", text(&output));
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    status["http"].as_str().expect("an address").to_owned()
}

/// Count of operations of this kind, over all devices.
fn count(family: &Family, kind: &str, operation: &str) -> u64 {
    let is = |sample: &&SampleLine| {
        let label = |name: &str| sample.labels.get(name).map(String::as_str);
        sample.suffix == "_count"
            && label("kind") == Some(kind)
            && label("operation") == Some(operation)
    };
    family.samples.iter().filter(is).map(|sample| sample.value as u64).sum()
}

/// Samples of an operation in `stats`, over all devices.
fn samples(cluster: &Cluster, pattern: &str, operation: &str) -> u64 {
    let output = cluster.lctl(&["get_param", "-n", pattern]);
    assert!(output.status.success(), "{}", text(&output));
    let stats = String::from_utf8(output.stdout).expect("text");
    let of = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next() == Some(operation))
            .then(|| words.next().and_then(|n| n.parse::<u64>().ok()))?
    };
    stats.lines().filter_map(of).sum()
}

#[test]
fn numbers_are_those_of_the_parameters() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "2"]);
    let mnt = cluster.mount();
    for n in 0..8 {
        fs::write(mnt.join(format!("f{n}")), vec![7; 100_000]).expect("write");
    }
    let caches = e2e::caches::mine();
    sh(
        &mnt,
        "mkdir d; sync f*; echo 3 > /proc/sys/vm/drop_caches; cat f* > /dev/null; ls -l > /dev/null",
    );
    drop(caches);

    let addr = http(&cluster);
    let (status, body) = get(&addr, "/metrics", "");
    assert_eq!(status, 200);
    let families = read(&body).unwrap_or_else(|error| panic!("{error}\n{body}"));
    let durations = &families["sheen_operation_duration_seconds"];
    for (kind, operation, pattern) in [
        ("osc", "ost_write", "osc.*.stats"),
        ("obdfilter", "write", "obdfilter.*.stats"),
        ("mdt", "mkdir", "mdt.*.md_stats"),
        ("mdt", "open", "mdt.*.md_stats"),
        ("llite", "mkdir", "llite.*.stats"),
    ] {
        let counted = count(durations, kind, operation);
        assert!(counted > 0, "{kind} {operation}\n{body}");
        assert_eq!(counted, samples(&cluster, pattern, operation), "{kind} {operation}\n{body}");
    }
    // More files, no more series. Work in the background may count something for the first time
    // after a round or two.
    let series =
        || get(&addr, "/metrics", "").1.lines().filter(|line| !line.starts_with('#')).count();
    let round = |n: usize| {
        sh(
            &mnt,
            &format!(
                "for n in $(seq 200); do echo $n > g{n}-$n; done; cat g* > /dev/null; rm g*; ls > /dev/null"
            ),
        );
        series()
    };
    let rounds: Vec<usize> = (0..6).map(round).collect();
    assert!(
        rounds[1..].windows(2).any(|pair| pair[0] == pair[1]),
        "series come with files: {rounds:?}"
    );

    assert_eq!(get(&addr, "/etc/passwd", "").0, 404);
}

/// A gauge, over all devices.
fn gauge(body: &str, name: &str) -> u64 {
    let families = read(body).unwrap_or_else(|error| panic!("{error}\n{body}"));
    assert_eq!(families[name].kind, Kind::Gauge);
    families[name].samples.iter().map(|sample| sample.value as u64).sum()
}

#[test]
fn bytes_that_wait_and_grants_are_gauges() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "1"]);
    let addr = http(&cluster);
    // By HTTP: to start a program closes the file in the child, and what is closed is stored.
    let now = || get(&addr, "/metrics", "").1;
    let dirty = || gauge(&now(), "sheen_llite_cur_dirty_bytes");
    assert_eq!(dirty(), 0);
    // The first write has no grant yet. Later writes wait for a second, and show.
    let file = fs::File::create(cluster.mount().join("f")).expect("create");
    file.write_all_at(&[1; 2 << 20], 0).expect("write");
    let mut seen = 0;
    for n in 1..100 {
        file.write_all_at(&[2; 300_000], n * 1_000_000).expect("write");
        seen = dirty();
        if seen > 0 {
            break;
        }
    }
    assert!(seen >= 300_000 && seen.is_multiple_of(4096), "{seen} bytes wait");

    // Nothing waits after fsync. Then the mount has exactly what the OST granted: it is the only
    // client.
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        file.sync_all().expect("sync");
        let body = now();
        let [waits, held, granted] =
            ["llite_cur_dirty_bytes", "osc_cur_grant_bytes", "obdfilter_tot_granted"]
                .map(|name| gauge(&body, &format!("sheen_{name}")));
        if waits == 0 && held == granted && held > 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{waits} dirty, {held} held, {granted} granted");
        std::thread::sleep(Duration::from_millis(20));
    }
    let shown = cluster.lctl(&["get_param", "-n", "llite.*.cur_dirty_bytes"]);
    assert_eq!(String::from_utf8_lossy(&shown.stdout), "0\n", "{}", text(&shown));
}

#[test]
fn other_hosts_need_a_token() {
    if !e2e::can_mount() || e2e::need_program("curl").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    fs::write(&file, "0123456789abcdef\n").expect("write the token");
    let cluster =
        Cluster::up(&["--http", "0.0.0.0:0", "--http-token-file", file.to_str().expect("a text")]);
    let port = http(&cluster).rsplit(':').next().expect("a port").to_owned();
    // Over HTTPS, which is curl's here, with the certificate that the daemon made.
    let pem = cluster.dir().join("http.pem");
    assert_eq!(fs::metadata(&pem).expect("the certificate").mode() & 0o777, 0o600);
    let status = |headers: &[&str], scheme: &str| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--insecure", "--max-time", "20", "--output", "/dev/null"]);
        headers.iter().for_each(|header| {
            curl.args(["--header", header]);
        });
        curl.args(["--write-out", "%{http_code}", &format!("{scheme}://127.0.0.1:{port}/metrics")]);
        String::from_utf8(curl.output().expect("curl runs").stdout).expect("text")
    };
    let bearer = |token: &str| format!("Authorization: Bearer {token}");
    assert_eq!(status(&[], "https"), "401");
    assert_eq!(status(&[&bearer("0123456789abcdeX")], "https"), "401");
    assert_eq!(status(&[&bearer("0123456789abcdef")], "https"), "200");
    assert_eq!(status(&[&bearer("0123456789abcdef")], "http"), "000", "nothing in the clear");
    let said = cluster.command(&["status"]);
    assert!(
        text(&said).contains("metrics at https://") && text(&said).contains("fingerprint"),
        "{}",
        text(&said)
    );
}
