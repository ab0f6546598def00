//! `lnetctl` and `lshowmount` on real daemons: one process with all roles, and a process for each
//! role.

use e2e::cluster::{Cluster, everywhere};
use e2e::process::{is_mounted, text};
use e2e::programs::{sh, try_sh};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn called(cluster: &Cluster, name: &str, args: &[&str]) -> String {
    let output = cluster.called(name, args);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{name} {args:?}: {}",
        text(&output)
    );
    String::from_utf8(output.stdout).expect("text")
}

fn lnetctl(cluster: &Cluster, args: &[&str]) -> String {
    called(cluster, "lnetctl", args)
}

/// Fails with this errno and these words.
fn refused(cluster: &Cluster, args: &[&str], errno: i32, words: &str) {
    let output = cluster.called("lnetctl", args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(errno), "{args:?}: {}", text(&output));
    assert!(said.starts_with("error: ") && said.contains(words), "{args:?}: {said}");
}

/// NIDs in a list of YAML.
fn nids(yaml: &str) -> Vec<String> {
    let nid = |line: &str| line.trim().strip_prefix("- nid: ").map(str::to_owned);
    yaml.lines().filter_map(nid).collect()
}

#[test]
fn every_daemon_is_shown_as_one_host() {
    everywhere(|cluster| {
        fs::write(cluster.mount().join("f"), vec![7; 1 << 20]).expect("write");
        sh(&cluster.mount(), "sync f");
        let shown = lnetctl(cluster, &["net", "show"]);
        assert!(
            shown
                .starts_with("net:\n    - net type: lo\n      local NI(s):\n        - nid: 0@lo\n"),
            "{shown}"
        );
        let listed = called(cluster, "lctl", &["list_nids"]);
        let within = ["0@lo", "0@local"];
        let told: Vec<String> =
            nids(&shown).into_iter().filter(|nid| !within.contains(&nid.as_str())).collect();
        let mut listed: Vec<&str> = listed.lines().collect();
        listed.sort_unstable();
        assert_eq!(told, listed, "{shown}");
        let of_lo = lnetctl(cluster, &["net", "show", "--net", "lo"]);
        assert_eq!(nids(&of_lo), ["0@lo"]);
        let more = lnetctl(cluster, &["net", "show", "-v"]);
        assert!(more.contains("accepts connections: yes"), "{more}");
        refused(cluster, &["net", "show", "--net", "tcp9"], 2, "nothing fits");
        refused(cluster, &["net", "add", "--net", "tcp", "--if", "nosuch0"], 19, "nosuch0");
        refused(cluster, &["fault"], 95, "net_drop_add");
        refused(cluster, &["nonsense"], 22, "unrecognized subcommand");

        // What it prints is YAML to others, too.
        let script = "python3 -c 'import yaml' 2>/dev/null || exit 0; python3 -c 'import sys, yaml; yaml.safe_load(sys.stdin)'";
        let mut check = Command::new("bash")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .spawn()
            .expect("bash runs");
        let export = lnetctl(cluster, &["export"]);
        std::io::Write::write_all(&mut check.stdin.take().expect("piped"), export.as_bytes())
            .expect("it reads");
        assert!(check.wait().expect("it ends").success(), "{export}");

        // To import what was exported changes nothing.
        let file = cluster.outside().join("lnet.yaml");
        let path = file.to_str().expect("text");
        let backup = lnetctl(cluster, &["export", "--backup"]);
        lnetctl(cluster, &["export", "--backup", path]);
        assert_eq!(fs::read_to_string(&file).expect("it was written"), backup);
        assert_eq!(lnetctl(cluster, &["import", path]), "");
        assert_eq!(lnetctl(cluster, &["export", "--backup"]), backup);
        fs::write(&file, "net: [").expect("write");
        refused(cluster, &["import", path], 22, "lnet.yaml");
        refused(cluster, &["import", "/nonexistent"], 2, "can't read");

        // The clients of the targets.
        let clients = called(cluster, "lshowmount", &[]);
        assert!(!clients.is_empty() && clients.lines().all(|line| line.contains('@')), "{clients}");
        let by_target = called(cluster, "lshowmount", &["-v"]);
        let targets: Vec<&str> = by_target.lines().filter(|line| !line.starts_with(' ')).collect();
        for target in ["MGS:", "sheen-MDT0000:", "sheen-OST0000:", "sheen-OST0003:"] {
            assert!(targets.contains(&target), "{target}: {by_target}");
        }
        let each = called(cluster, "lshowmount", &["-e"]);
        assert!(each.lines().count() >= clients.lines().count(), "{each}");
        assert!(!each.contains('['), "{each}");
    });
}

#[test]
fn peers_are_shown_pinged_and_hung_up() {
    let Some(cluster) = Cluster::on_hosts("4") else { return };
    let mnt = cluster.mount();
    fs::write(mnt.join("f"), vec![7; 4 << 20]).expect("write");
    sh(&mnt, "sync f");
    let nids_of_all: Vec<String> =
        called(&cluster, "lctl", &["list_nids"]).lines().map(str::to_owned).collect();
    let shown = lnetctl(&cluster, &["peer", "show", "-v"]);
    for nid in &nids_of_all {
        let of_nid = lnetctl(&cluster, &["peer", "show", "--nid", nid]);
        assert!(
            of_nid.contains(&format!("primary nid: {nid}")) && of_nid.contains("state: up"),
            "{shown}"
        );
        let pinged = lnetctl(&cluster, &["ping", nid]);
        assert!(
            pinged.starts_with("ping:\n    - primary nid: ") && nids(&pinged).contains(nid),
            "{pinged}"
        );
        assert_eq!(called(&cluster, "lctl", &["which_nid", nid]).trim_end(), nid);
        assert!(called(&cluster, "lctl", &["ping", nid]).contains(nid.as_str()));
    }
    let clients = called(&cluster, "lshowmount", &["-v"]);
    let client = format!("{}@tcp", cluster.many().client_address(0));
    assert!(
        called(&cluster, "lshowmount", &["-e"]).lines().any(|line| line == client),
        "{clients}"
    );
    // Another address of the test's network, where no host is.
    let nobody = client.replace(".5@", ".77@");
    let output = cluster.called("lnetctl", &["ping", &nobody]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("failed to ping"), "{}", text(&output));
    refused(&cluster, &["peer", "del", "--prim_nid", &nobody], 2, "no connection");

    // Daemons connect again by themselves.
    for nid in &nids_of_all {
        lnetctl(&cluster, &["peer", "del", "--prim_nid", nid]);
    }
    fs::write(mnt.join("g"), vec![8; 4 << 20]).expect("write");
    sh(&mnt, "sync g; cmp f f; test $(stat -c %s g) = 4194304");
    lnetctl(&cluster, &["peer", "add", "--prim_nid", &nids_of_all[0]]);
}

#[test]
fn a_daemon_joins_further_interfaces_and_leaves_them() {
    let cluster = Cluster::up(&[]);
    let listed = called(&cluster, "lctl", &["list_nids"]);
    let first = listed.trim_end();
    let port = first.split([':', '@']).nth(1).expect("a port").to_owned();
    let second = format!("127.0.0.2:{port}@tcp");

    refused(&cluster, &["net", "add", "--net", "tcp", "--if", "10.9.9.9"], 13, "--listen");
    refused(&cluster, &["net", "del", "--net", "tcp"], 16, "targets");
    lnetctl(&cluster, &["net", "add", "--net", "tcp", "--if", "127.0.0.2"]);
    let mut all: Vec<String> = vec![first.to_owned(), second.clone()];
    all.sort_unstable();
    let shown = lnetctl(&cluster, &["net", "show", "--net", "tcp"]);
    assert_eq!(nids(&shown), all, "{shown}");
    // Again changes nothing.
    lnetctl(&cluster, &["net", "add", "--net", "tcp", "--if", "127.0.0.2"]);

    // The MGS tells it others: a mount that knows only the second NID works with all targets.
    let other = cluster.outside().join("mnt");
    fs::create_dir(&other).expect("a folder");
    let log = cluster.outside().join("mount.log");
    let mount = |source: &str| {
        let mut command = Command::new(e2e::sheen());
        command.arg("mount").arg("-o").arg(format!("log={}", log.display()));
        command.arg(source).arg(&other).env(e2e::cluster::RUN_DIR, cluster.run_dir());
        command.stdin(Stdio::null()).output().expect("sheen runs")
    };
    let output = mount(&format!("{second}:/sheen"));
    assert!(output.status.success() && is_mounted(&other), "{}", text(&output));
    fs::write(other.join("f"), b"by the second NID").expect("write");
    assert_eq!(fs::read(cluster.mount().join("f")).expect("read"), b"by the second NID");
    sh(Path::new("/"), &format!("umount {}", other.display()));

    lnetctl(&cluster, &["net", "del", "--net", "tcp", "--if", "127.0.0.2"]);
    assert_eq!(nids(&lnetctl(&cluster, &["net", "show", "--net", "tcp"])), [first]);
    refused(
        &cluster,
        &["net", "del", "--net", "tcp", "--if", "127.0.0.2"],
        2,
        "no connections there",
    );
    let closed = try_sh(Path::new("/"), &format!("exec 3<>/dev/tcp/127.0.0.2/{port}"));
    assert!(!closed.status.success(), "it still accepts connections at 127.0.0.2:{port}");
}
