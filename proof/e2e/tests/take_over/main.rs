//! The MGS and an MDT whose logs are in etcd move to another host: their server is killed and its
//! folders removed, and no program sees more than a pause. Skips, and says so, where etcd is not
//! installed (`./run deps test` installs it).

#[path = "../../../../tools/etcd/tests/members/mod.rs"]
mod members;
#[path = "../../../../tools/etcd/tests/weed/mod.rs"]
mod weed;

mod bad_log;
mod by_hand;
mod fixture;
mod keys;
mod majority;
mod neighbour;

use e2e::process::text;
use e2e::programs::write_and_sync;
use fixture::{Fixture, Work, nid, unmount, until};
use members::{Members, free_ports, or_skip};
use std::fs;

#[test]
fn an_mdt_moves_to_another_host_when_its_own_is_lost() {
    if !e2e::can_mount() {
        return;
    }
    let Some(members) = or_skip(Members::start()) else { return };
    let (mut cluster, mgs_nid, [one, two]) = Fixture::with_mdt(&members.url(), ["one", "two"]);
    cluster.serve("one", one, &["one"]);
    until("the first host takes it over", || cluster.log_has("one", "taken over"));
    cluster.serve("two", two, &["two"]);
    until("the second host follows", || cluster.log_has("two", "following the log"));
    let mnt = cluster.mount("mnt", &mgs_nid);
    let work = Work::begin(&mnt);
    cluster.kill("one");
    fs::remove_dir_all(cluster.path("one")).expect("remove the folder");
    work.goes_on();
    assert!(cluster.log_has("two", "taken over"), "{}", cluster.logs());
    work.end(&cluster);
}

#[test]
fn the_mgs_moves_together_with_an_mdt() {
    if !e2e::can_mount() {
        return;
    }
    let Some(members) = or_skip(Members::start()) else { return };
    let mut cluster = Fixture::new();
    let [data, one, two] = free_ports(3)[..] else { unreachable!("three were asked for") };
    let (nodes, log) = (format!("{},{}", nid(one), nid(two)), members.url());
    for host in ["one", "two"] {
        cluster.mkfs_both(host, &nodes, &log);
    }
    cluster.run(&["mkfs", "--ost", "--index", "0", "--mgsnode", &nodes, "ost"]);
    // In any order: what needs the MGS waits for it.
    cluster.serve("data", data, &["ost"]);
    cluster.serve("one", one, &["one/mgt", "one/mdt"]);
    until("the first host has both", || cluster.log_count("one", "taken over") == 2);
    cluster.serve("two", two, &["two/mgt", "two/mdt"]);
    until("the second follows both", || cluster.log_count("two", "following the log") == 2);
    // As in fstab: with a colon between the hosts.
    let hosts = format!("{}:{}", nid(one), nid(two));
    let mnt = cluster.mount("mnt", &hosts);
    cluster.run(&["lctl", "pool_new", "sheen.before"]);
    let work = Work::begin(&mnt);
    cluster.kill("one");
    fs::remove_dir_all(cluster.path("one")).expect("remove the folders");
    work.goes_on();
    until("the second host has both", || cluster.log_count("two", "taken over") == 2);
    // The configuration is there, and goes on.
    cluster.run(&["lctl", "pool_new", "sheen.after"]);
    let pools = text(&cluster.output(&["lctl", "pool_list", "sheen"]));
    assert!(pools.contains("sheen.before") && pools.contains("sheen.after"), "{pools}");
    let second = cluster.mount("second", &hosts);
    assert_eq!(fs::read(second.join("kept")).expect("read"), b"not synced, but told");
    unmount(&second);

    // The lost host comes back without its folders, and the logs do not reach back to its time.
    let lost = |kind: &str| {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        format!("{host}:{}", cluster.path(&format!("one/{kind}")).display())
    };
    for (target, kind) in [("MGS", "mgt"), ("sheen-MDT0000", "mdt")] {
        cluster.run(&["lctl", "del_replica", target, &lost(kind)]);
    }
    until("the logs are trimmed", || {
        let status = cluster.output(&["status", "--json", "two/mgt"]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
        let logs = status["logs"].as_array().expect("two logs");
        logs.len() == 2 && logs.iter().all(|log| log["first"].as_u64() > Some(1))
    });
    cluster.mkfs_both("one", &nodes, &log);
    cluster.serve("one", one, &["one/mgt", "one/mdt"]);
    until("it has the trees", || cluster.log_count("one", "the tree is copied") == 2);
    until("it follows both", || cluster.log_count("one", "following the log") == 4);
    cluster.kill("two");
    work.goes_on();
    until("the first host has both again", || cluster.log_count("one", "taken over") == 4);
    let pools = text(&cluster.output(&["lctl", "pool_list", "sheen"]));
    assert!(pools.contains("sheen.before") && pools.contains("sheen.after"), "{pools}");
    work.end(&cluster);
}

/// State of the log of the MDT, as the server in this folder tells it.
fn log_of_mdt(cluster: &Fixture, dir: &str) -> serde_json::Value {
    let output = cluster.output(&["status", dir, "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    status["logs"][0].clone()
}

#[test]
fn an_mdt_outlives_all_its_hosts_with_checkpoints_in_s3() {
    if !e2e::can_mount() {
        return;
    }
    let Some(members) = or_skip(Members::start()) else { return };
    let Some(mut weed) = weed::or_skip(weed::Weed::start()) else { return };
    let mut cluster = Fixture::new();
    let [mgs, one, two] = free_ports(3)[..] else { unreachable!("three were asked for") };
    let (mgs_nid, nodes) = (nid(mgs), format!("{},{}", nid(one), nid(two)));
    let log = format!("{},{}", members.url(), weed.url("site"));
    cluster.run(&["mkfs", "--mgs", "mgt"]);
    cluster.run(&["mkfs", "--ost", "--index", "0", "--mgsnode", &mgs_nid, "ost"]);
    cluster.mkfs_mdt(&mgs_nid, &nodes, &log, "one");
    cluster.serve("mgs", mgs, &["mgt", "ost"]);
    cluster.serve("one", one, &["one"]);
    until("the first host takes it over", || cluster.log_has("one", "taken over"));
    let mnt = cluster.mount("mnt", &mgs_nid);
    let work = Work::begin(&mnt);
    // Files on the MDT: much more than the log keeps behind a checkpoint.
    fs::create_dir(mnt.join("large")).expect("mkdir");
    cluster.run(&["lfs", "setstripe", "-E", "64K", "-L", "mdt", "-E", "-1", &{
        mnt.join("large").display().to_string()
    }]);
    // Of which nothing is saved by compressing them.
    let bytes = |number: u32| {
        let mut rng = fastrand::Rng::with_seed(number.into());
        (0..60_000).map(|_| rng.u8(..)).collect::<Vec<u8>>()
    };
    let checkpoint = |cluster: &Fixture| log_of_mdt(cluster, "one")["checkpoint"].as_u64();
    let mut number = 0;
    let mut write_some = || {
        for _ in 0..20 {
            fs::write(mnt.join(format!("large/{number}")), bytes(number)).expect("write");
            number += 1;
        }
        write_and_sync(&mnt.join(format!("large/{number}")), &bytes(number)).expect("write");
        number += 1;
        number
    };
    let mut next_checkpoint = |before: Option<u64>| {
        let (mut now, mut number) = (None, 0);
        until("a checkpoint is made", || {
            number = write_some();
            now = checkpoint(&cluster);
            now > before
        });
        (now, number)
    };
    let first = next_checkpoint(None).0;
    let second = next_checkpoint(first).0;
    let status = log_of_mdt(&cluster, "one");
    assert!(status["blobs"].as_str().is_some_and(|place| place == "s3://logs/site"), "{status}");
    // Without the store of blobs the log goes on, and says so.
    weed.kill();
    let trouble = || {
        let status = log_of_mdt(&cluster, "one");
        status["trouble"].as_str().is_some_and(|text| text.contains("s3://logs/site"))
    };
    write_and_sync(&mnt.join("while there is no store of blobs"), b"text").expect("write");
    until("the trouble is told", || {
        fs::write(mnt.join("large/again"), bytes(0)).expect("write");
        write_and_sync(&mnt.join("large/again"), &bytes(1)).expect("write");
        trouble()
    });
    weed.start_again();
    let number = next_checkpoint(second).1;
    until("the trouble is over", || !trouble());
    // The only host that ever had the tree is lost, and only then there is another one.
    cluster.kill("one");
    fs::remove_dir_all(cluster.path("one")).expect("remove the folder");
    cluster.mkfs_mdt(&mgs_nid, &nodes, &log, "two");
    cluster.serve("two", two, &["two"]);
    work.goes_on();
    assert!(cluster.log_has("two", "the tree is that of the checkpoint"), "{}", cluster.logs());
    assert!(cluster.log_has("two", "taken over"), "{}", cluster.logs());
    for number in 0..number {
        let found = fs::read(mnt.join(format!("large/{number}"))).expect("read");
        assert_eq!(found, bytes(number), "file {number}");
    }
    work.end(&cluster);
}

#[test]
fn nothing_is_made_where_blobs_cannot_be_kept() {
    let Some(members) = or_skip(Members::start()) else { return };
    let Some(weed) = weed::or_skip(weed::Weed::start()) else { return };
    let cluster = Fixture::new();
    let mkfs = |log: &str, dir: &str| {
        let nodes = [nid(1), nid(2)].join(",");
        let output = cluster.output(&["mkfs", "--mgs", "--servicenode", &nodes, "--log", log, dir]);
        (output.status.success(), text(&output))
    };
    let with = |blobs: &str| format!("{},{blobs}", members.url());
    let (made, said) = mkfs(&with(&weed.url_of("nothing", "p")), "mgt");
    assert!(!made && said.contains("s3://nothing/p"), "{said}");
    let (made, said) = mkfs(&with("s3://logs?endpoint=http://127.0.0.1:1&key-file=/none"), "mgt");
    assert!(!made && said.contains("/none"), "{said}");
    let key = fs::read(weed.key_file()).expect("read the key");
    fs::write(weed.key_file(), "sheen\nanother secret\n").expect("write a key");
    let (made, said) = mkfs(&with(&weed.url("p")), "mgt");
    assert!(!made && said.contains("SignatureDoesNotMatch"), "{said}");
    assert!(!said.contains("another secret"), "{said}");
    fs::write(weed.key_file(), key).expect("write the key");
    let (made, said) = mkfs(&with(&weed.url("p")), "mgt");
    assert!(made, "{said}");
    for (log, words) in [(members.url(), "names no store"), (with(&weed.url("q")), "s3://logs/q")] {
        let (made, said) = mkfs(&log, "another");
        assert!(!made && said.contains("s3://logs/p") && said.contains(words), "{said}");
    }
}
