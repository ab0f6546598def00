//! `lctl` on real daemons: one process with all roles, and a process for each role.

use e2e::cluster::{Cluster, everywhere};
use e2e::process::text;
use e2e::programs::sh;
use std::fs;

fn lctl(cluster: &Cluster, args: &[&str]) -> String {
    let output = cluster.lctl(args);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "lctl {args:?}: {}",
        text(&output)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// Samples of an operation, over all devices.
fn samples(stats: &str, operation: &str) -> u64 {
    let of = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next() == Some(operation))
            .then(|| words.next().and_then(|n| n.parse::<u64>().ok()))?
    };
    stats.lines().filter_map(of).sum()
}

/// Names with the numbers of this run taken out.
fn masked(text: &str) -> String {
    let digit = |c: char| c.is_ascii_hexdigit();
    let mut lines = Vec::new();
    for line in text.lines() {
        let words = line.split(['.', '=', ' ']).map(|word| match word.rsplit_once('-') {
            Some((before, id)) if id.len() == 16 && id.chars().all(digit) => format!("{before}-ID"),
            _ => word.to_owned(),
        });
        lines.push(words.collect::<Vec<_>>().join("."));
    }
    lines.join("\n")
}

#[test]
fn one_tree_over_all_daemons() {
    everywhere(|cluster| {
        let mnt = cluster.mount();
        for n in 0..8 {
            fs::write(mnt.join(format!("f{n}")), vec![7; 100_000]).expect("write");
        }
        fs::create_dir(mnt.join("d")).expect("a folder");
        let caches = e2e::caches::mine();
        sh(
            &mnt,
            "sync f*; echo 3 > /proc/sys/vm/drop_caches; cat f* > /dev/null; ls -l > /dev/null",
        );
        drop(caches);

        // lfs asks the same daemons for their sessions with the MGS.
        let mut check = std::process::Command::new(e2e::sheen());
        let output = check
            .args(["lfs", "check", "mgts"])
            .env(e2e::cluster::RUN_DIR, cluster.run_dir())
            .output();
        let output = output.expect("lfs runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let session = |line: &str| line.starts_with("MGC") && line.ends_with(" active.");
        assert!(
            output.status.success() && !said.is_empty() && said.lines().all(session),
            "{output:?}"
        );

        // Everything in its place, seen as one tree whichever process has it.
        let levels = lctl(cluster, &["list_param", "-F", "*"]);
        for level in [
            "llite/",
            "lov/",
            "lmv/",
            "mdc/",
            "osc/",
            "mdt/",
            "lod/",
            "osp/",
            "obdfilter/",
            "osd-lmdb/",
            "mgs/",
            "version",
        ] {
            assert!(levels.lines().any(|line| line == level), "{level}: {levels}");
        }
        let osts = masked(&lctl(cluster, &["list_param", "osc.*"]));
        let expected: Vec<String> = (0..4).map(|n| format!("osc.sheen-OST000{n}-osc-ID")).collect();
        assert_eq!(osts.lines().collect::<Vec<_>>(), expected);
        assert_eq!(
            lctl(cluster, &["get_param", "-N", "obdfilter.*.{stats,uuid}"]).lines().count(),
            8
        );

        // The servers served what the client asked for.
        let client = lctl(cluster, &["get_param", "osc.*.stats"]);
        let server = lctl(cluster, &["get_param", "obdfilter.*.stats"]);
        assert!(samples(&client, "ost_write") >= 8, "{client}");
        assert_eq!(samples(&client, "ost_write"), samples(&server, "write"), "{client}\n{server}");
        assert_eq!(
            samples(&client, "write_bytes"),
            samples(&server, "write_bytes"),
            "{client}\n{server}"
        );
        let md = lctl(cluster, &["get_param", "-n", "mdt.sheen-MDT0000.md_stats"]);
        assert_eq!(samples(&md, "mkdir"), 1, "{md}");
        assert!(samples(&md, "open") >= 8, "{md}");
        for (line, unit) in [
            ("snapshot_time ", "secs.nsecs"),
            ("start_time ", "secs.nsecs"),
            ("mkdir ", "1 samples [usecs] "),
        ] {
            assert!(md.lines().any(|l| l.starts_with(line) && l.contains(unit)), "{line}: {md}");
        }
        let llite = lctl(cluster, &["get_param", "llite.*.stats"]);
        assert_eq!(samples(&llite, "mkdir"), 1, "{llite}");
        let commits = lctl(cluster, &["get_param", "osd-lmdb.sheen-MDT0000.stats"]);
        assert!(samples(&commits, "commit") >= 1, "{commits}");

        // Anything written clears.
        lctl(cluster, &["set_param", "-n", "mdt.*.md_stats=clear", "llite.*.stats=0"]);
        assert_eq!(
            samples(&lctl(cluster, &["get_param", "mdt.*.md_stats", "llite.*.stats"]), "mkdir"),
            0
        );

        // Bodies that scripts read. A client connects to an OST when it first needs it, and the
        // files above need not be on all of them: `lfs df` asks each.
        sh(&mnt, &format!("{} lfs df .", e2e::sheen().display()));
        let import = lctl(cluster, &["get_param", "-n", "osc.*OST0002*.import"]);
        for line in [
            "import:",
            "    target: sheen-OST0002_UUID",
            "    state: FULL",
            "    connection:",
            "    rpcs:",
            "    transactions:",
        ] {
            assert!(import.lines().any(|l| l == line), "{line}: {import}");
        }
        let rpcs = lctl(cluster, &["get_param", "osc.*OST0000*.rpc_stats"]);
        assert!(rpcs.contains("\n\t\t\tread\t\t\twrite\npages per rpc "), "{rpcs}");
        assert_eq!(
            lctl(cluster, &["get_param", "-n", "lov.*.target_obd"]).lines().nth(1),
            Some("1: sheen-OST0001_UUID ACTIVE")
        );
        assert_eq!(lctl(cluster, &["get_param", "health_check"]), "health_check=healthy\n");

        // Devices, numbered over all processes.
        let devices = lctl(cluster, &["dl"]);
        for (number, line) in devices.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(
                (words.len(), words[0], words[1]),
                (6, number.to_string().as_str(), "UP"),
                "{line}"
            );
        }
        for kind in ["mgs", "mgc", "mdt", "lod", "osp", "obdfilter", "lov", "lmv", "mdc", "osc"] {
            assert!(devices.contains(&format!(" UP {kind} ")), "{kind}: {devices}");
        }
        let nids = lctl(cluster, &["list_nids"]);
        for nid in nids.lines() {
            assert!(nid.ends_with("@tcp"), "{nids}");
        }
        let first = nids.lines().next().expect("a NID");
        assert_eq!(
            lctl(cluster, &["ping", first]).lines().collect::<Vec<_>>(),
            ["12345-0@lo".to_owned(), format!("12345-{first}")]
        );
    });
}

#[test]
fn what_is_set_acts() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "2", "--dom-size", "0"]);
    let mnt = cluster.mount();
    let stripes = |file: &str, option: &str| {
        fs::write(mnt.join(file), "x").expect("write");
        let mut command = std::process::Command::new(e2e::sheen());
        let output = command
            .args(["lfs", "getstripe", option])
            .arg(mnt.join(file))
            .output()
            .expect("lfs runs");
        text(&output).lines().nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(stripes("one", "-c"), "1");
    assert_eq!(
        lctl(&cluster, &["set_param", "lod.*.stripecount=2"]),
        "lod.sheen-MDT0000-mdtlov.stripecount=2\n"
    );
    assert_eq!(stripes("two", "-c"), "2");
    lctl(&cluster, &["set_param", "-n", "lod.*.stripecount=1", "lod.*.stripesize=1M"]);
    assert_eq!(stripes("size", "-S"), "1048576");

    // An OST that is set aside gets nothing new.
    lctl(&cluster, &["--device", "sheen-OST0001-osc-MDT0000", "deactivate"]);
    assert_eq!(lctl(&cluster, &["get_param", "-n", "lod.*.activeobd"]), "1\n");
    for n in 0..6 {
        assert_eq!(stripes(&format!("aside{n}"), "-i"), "0");
    }
    lctl(&cluster, &["set_param", "osp.*OST0001*.active=1"]);
    let both: std::collections::BTreeSet<String> =
        (0..6).map(|n| stripes(&format!("back{n}"), "-i")).collect();
    assert_eq!(both.len(), 2, "{both:?}");

    // Refusals: one line, Lustre's words, errno.
    for (args, status, said) in [
        (
            &["get_param", "foo.bar"][..],
            2,
            "error: get_param: param_path 'foo/bar': No such file or directory\n",
        ),
        (
            &["set_param", "lod.*.stripecount=x"],
            22,
            "error: set_param: setting lod.sheen-MDT0000-mdtlov.stripecount=x: Invalid argument\n",
        ),
        (
            &["set_param", "lod.*.stripesize=5"],
            34,
            "error: set_param: setting lod.sheen-MDT0000-mdtlov.stripesize=5: Numerical result out of range\n",
        ),
        (
            &["set_param", "version=2"],
            13,
            "error: set_param: setting version=2: Permission denied\n",
        ),
        (&["get_param", "a.["], 22, "error: get_param: \"a.[\" is no pattern of parameters\n"),
        (&["ping", "127.0.0.1:1@tcp"], 5, "failed to ping 127.0.0.1:1@tcp: Input/output error\n"),
        (&["nothing"], 22, ""),
    ] {
        let output = cluster.lctl(args);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {stderr}");
        assert!(stderr.starts_with(said), "{args:?}: {stderr}");
    }

    // Evicted, the mount comes back and works on.
    let uuid = lctl(&cluster, &["get_param", "-n", "llite.*.uuid"]);
    lctl(
        &cluster,
        &["set_param", "-n", &format!("obdfilter.sheen-OST0000.evict_client={}", uuid.trim())],
    );
    assert_eq!(stripes("after", "-c"), "1");
}
