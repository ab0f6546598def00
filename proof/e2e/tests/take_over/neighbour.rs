//! Two clusters whose administrators name the same etcd without a name behind it. The second one
//! gets nothing of the first, changes nothing there, and says what to do.

use crate::fixture::{Fixture, nid, unmount, until};
use crate::keys::Keys;
use crate::members::{Members, free_ports, or_skip};
use e2e::process::text;
use e2e::programs::write_and_sync;
use std::fs;
use std::thread;
use std::time::Duration;

/// More than ten attempts of a host to stand by.
const A_WHILE: Duration = Duration::from_secs(12);

#[test]
fn a_cluster_leaves_the_log_of_another_alone() {
    if !e2e::can_mount() {
        return;
    }
    let Some(members) = or_skip(Members::start()) else { return };
    let Some(keys) = Keys::of(&members) else { return };
    let (mut first, first_mgs, [one]) = Fixture::with_mdt(&members.url(), ["one"]);
    let mut second = Fixture::new();
    let [mgs, two] = free_ports(2)[..] else { unreachable!("two were asked for") };
    let (second_mgs, nodes) = (nid(mgs), nid(two));
    second.run(&["mkfs", "--mgs", "mgt"]);
    second.run(&["mkfs", "--ost", "--index", "0", "--mgsnode", &second_mgs, "ost"]);
    second.serve("mgs", mgs, &["mgt", "ost"]);
    let mkfs = ["mkfs", "--mdt", "--index", "0", "--servicenode", &nodes, "--log"];

    // An MGS elsewhere shows when the target is made.
    let output =
        second.output(&[&mkfs[..], &[&members.url(), "--mgsnode", &second_mgs, "two"]].concat());
    let said = text(&output);
    assert!(!output.status.success() && said.contains("is the log of another cluster"), "{said}");
    assert!(said.contains(&first_mgs) && said.contains(&second_mgs), "{said}");
    assert!(said.contains("--log=etcd://HOST,HOST,HOST/NAME"), "{said}");
    fs::remove_dir_all(second.path("two")).expect("remove what was begun");

    // One that is not named then: before the log is used.
    second.run(&[&mkfs[..], &[&members.url(), "two"]].concat());
    first.serve("one", one, &["one"]);
    let mnt = first.mount("mnt", &first_mgs);
    write_and_sync(&mnt.join("kept"), b"of the first cluster").expect("write");
    first.kill("one");
    until("nobody owns it", || !keys.has("owner"));
    let before = keys.all();
    second.serve("two", two, &["two", "--mgsnode", &second_mgs]);
    until("it refuses", || second.log_has("two", "is the log of another cluster"));
    thread::sleep(A_WHILE);
    assert_eq!(second.log_count("two", "is the log of another cluster"), 1, "it is said once");
    assert!(!second.log_has("two", "taken over"));
    assert_eq!(keys.all(), before, "nothing was changed");
    let status = text(&second.output(&["status", "two"]));
    assert!(status.contains("is the log of another cluster"), "{status}");

    first.serve("one", one, &["one"]);
    assert_eq!(fs::read(mnt.join("kept")).expect("read"), b"of the first cluster");
    unmount(&mnt);
    second.kill("two");

    // It does as it was told.
    let named = format!("{}/second", members.url());
    second.run(&[&mkfs[..], &[&named, "--mgsnode", &second_mgs, "--replace", "two"]].concat());
    second.serve("two", two, &["two"]);
    let mnt = second.mount("mnt", &second_mgs);
    fs::write(mnt.join("own"), b"of the second").expect("write");
    assert!(!mnt.join("kept").exists());
    unmount(&mnt);
}

#[test]
fn an_mgs_leaves_the_log_of_another_alone() {
    let Some(members) = or_skip(Members::start()) else { return };
    let cluster = Fixture::new();
    let mkfs = |nodes: &str, log: &str, dir: &str| {
        cluster.output(&["mkfs", "--mgs", "--servicenode", nodes, "--log", log, dir])
    };
    let (ours, theirs) = ([nid(1), nid(2)].join(","), [nid(3), nid(4)].join(","));
    assert!(mkfs(&ours, &members.url(), "one").status.success());
    let output = mkfs(&theirs, &members.url(), "other");
    let said = text(&output);
    assert!(!output.status.success() && said.contains("is the log of another cluster"), "{said}");
    assert!(said.contains(&nid(1)) && said.contains(&nid(3)), "{said}");
    let named = format!("{}/other", members.url());
    for (nodes, log, dir) in [(&ours, members.url(), "two"), (&theirs, named, "three")] {
        let output = mkfs(nodes, &log, dir);
        assert!(output.status.success(), "{}", text(&output));
    }
}
