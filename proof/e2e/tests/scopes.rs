//! Persistent parameters for some nodes only: two clients on hosts of their own.

use e2e::cluster::Cluster;
use e2e::lustre::{lctl, lctl_says, soon};
use e2e::process::text;
use std::process::Command;

const PARAM: &str = "llite.*.statahead_max";

/// Sets or, without a value, forgets it for a scope.
fn keep(cluster: &Cluster, scope: &[&str], value: Option<&str>) {
    let setting = value.map_or(PARAM.to_owned(), |value| format!("{PARAM}={value}"));
    let delete: &[&str] = if value.is_some() { &[] } else { &["-d"] };
    let words = [&["set_param", "-P"], delete, scope, &[&setting]].concat();
    assert_eq!(lctl_says(cluster, &words), "", "{words:?}");
}

/// Waits until the mounts have these values, in any order.
fn have(cluster: &Cluster, expected: [&str; 2]) {
    let mut expected = expected.map(str::to_owned).to_vec();
    expected.sort_unstable();
    soon(&expected, || {
        let shown = lctl(cluster, &["get_param", "-n", PARAM]);
        let mut values: Vec<String> = shown.lines().map(str::to_owned).collect();
        values.sort_unstable();
        values
    });
}

/// What is kept of the parameter, with its origin.
fn kept(cluster: &Cluster) -> Vec<String> {
    let listed = lctl(cluster, &["get_param", "-P", "llite.*.statahead"]);
    listed.lines().map(|line| line.replace(PARAM, "P")).collect()
}

#[test]
fn the_narrower_scope_counts() {
    if !e2e::can_mount() {
        return;
    }
    let Some(mut cluster) = Cluster::with_clients("1", &["", ""]) else { return };
    let nid = |n: usize| format!("{}@tcp", cluster.many().client_address(n));
    let (first, second) = (nid(0), nid(1));
    let host = String::from_utf8(Command::new("uname").arg("-n").output().expect("uname").stdout)
        .expect("a name");
    let host = host.trim();

    // In the wrong order, so that it is not the order that decides.
    keep(&cluster, &["--nid", &first], Some("40"));
    have(&cluster, ["40", "16384"]);
    keep(&cluster, &["--nid", "*@tcp"], Some("30"));
    have(&cluster, ["40", "30"]);
    keep(&cluster, &[], Some("10"));
    keep(&cluster, &["--nid", "*@tcp"], None);
    have(&cluster, ["40", "10"]);

    // A nodemap, only while nodemaps are active.
    for words in [
        &["nodemap_add", "physics"][..],
        &["nodemap_add_range", "--name", "physics", "--range", &second],
        &["nodemap_modify", "--name", "default", "--property", "admin", "--value", "1"],
        &["nodemap_modify", "--name", "default", "--property", "trusted", "--value", "1"],
    ] {
        assert_eq!(lctl_says(&cluster, words), "");
    }
    keep(&cluster, &["--nodemap", "physics"], Some("20"));
    have(&cluster, ["40", "10"]);
    assert_eq!(lctl_says(&cluster, &["nodemap_activate", "1"]), "");
    have(&cluster, ["40", "20"]);
    let listed = ["all P=10".to_owned(), "nodemap:physics P=20".to_owned()];
    let first_of = format!("nid:{first} P=40");
    assert_eq!(kept(&cluster), [&listed[..], &[first_of]].concat());
    assert_eq!(lctl(&cluster, &["get_param", "-P", "-n", "llite.*.stata"]), "10\n20\n40\n");

    // All processes of the cluster are on one host, as far as they know.
    keep(&cluster, &["--host", host], Some("50"));
    have(&cluster, ["50", "50"]);
    keep(&cluster, &["--host", host], None);
    have(&cluster, ["40", "20"]);

    // It is durable, and a node has it as soon as it is there.
    cluster.stop();
    cluster.start();
    have(&cluster, ["40", "20"]);
    keep(&cluster, &["--nodemap", "physics"], None);
    keep(&cluster, &["--nid", &first], None);
    have(&cluster, ["10", "10"]);
    assert_eq!(kept(&cluster), ["all P=10"]);

    refuses(&cluster);
}

fn refuses(cluster: &Cluster) {
    let set = |scope: &str, of: &str, setting: &str| {
        cluster.lctl(&["set_param", "-P", scope, of, setting])
    };
    for (scope, of, setting, said) in [
        ("--nodemap", "a-b", "llite.*.statahead_max=1", "no name of a nodemap"),
        ("--nid", "10.0.0.1", "llite.*.statahead_max=1", "write ADDRESS@tcp"),
        ("--host", "a/b", "llite.*.statahead_max=1", "no name of a host"),
        ("--host", "a", "llite.*.no_such=1", "there is no such parameter"),
        ("--host", "a", "mdt.*.root_squash=99:99", "Operation not supported"),
    ] {
        let output = set(scope, of, setting);
        let told = text(&output);
        assert!(!output.status.success() && told.contains(said), "{scope} {of} {setting}: {told}");
    }
    let both = ["set_param", "-P", "--host", "a", "--nid", "*@tcp", "llite.*.statahead_max=1"];
    assert_eq!(cluster.lctl(&both).status.code(), Some(22));
    let output = set("--host", "a", "fault=mds_reint_net=crash");
    assert_eq!(output.status.code(), Some(95));
    assert!(text(&output).contains("does something at this moment"), "{}", text(&output));
}
