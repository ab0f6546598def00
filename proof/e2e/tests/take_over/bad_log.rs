//! Logs that a host must not use: with a hole, with an entry of another version, of another store.
//! The host says what is wrong and changes nothing; when the log is whole again, it goes on.

use crate::fixture::{Fixture, unmount, until};
use crate::keys::Keys;
use crate::members::{Members, or_skip};
use e2e::programs::write_and_sync;
use std::fs;

/// Files whose changes are in the log.
const FILES: u32 = 10;

#[test]
fn a_log_that_is_damaged_is_told_and_left_alone() {
    if !e2e::can_mount() {
        return;
    }
    let Some(members) = or_skip(Members::start()) else { return };
    let Some(keys) = Keys::of(&members) else { return };
    // The second host is there from the beginning, and is never started: all is kept for it.
    let (mut cluster, mgs_nid, [one, two]) = Fixture::with_mdt(&members.url(), ["one", "two"]);
    cluster.serve("one", one, &["one"]);
    let mnt = cluster.mount("mnt", &mgs_nid);
    for n in 0..FILES {
        write_and_sync(&mnt.join(n.to_string()), b"text").expect("write");
    }
    cluster.kill("one");
    fs::remove_dir_all(cluster.path("one")).expect("remove the folder");
    let (head, epoch) = (keys.head(), keys.epoch());
    let middle = format!("log/{:016x}", head / 2);
    let entry = keys.bytes(&middle);
    let store = keys.bytes("store");

    keys.delete(&middle);
    cluster.serve("two", two, &["two"]);
    let missing = format!("no longer has entry {}", head / 2);
    until("the hole is told", || cluster.log_has("two", &missing));

    let other = [&entry[..4], b"SLE9", &entry[8..]].concat();
    keys.put(&middle, other);
    let damaged = format!("entry {}: its head is damaged", head / 2);
    until("the entry is told", || cluster.log_has("two", &damaged));

    keys.put("store", format!("{:032x}", 5));
    until("the other store is told", || cluster.log_has("two", "it is the log of store"));
    assert!(!cluster.log_has("two", "taken over"), "{}", cluster.logs());
    assert_eq!((keys.head(), keys.epoch()), (head, epoch), "nothing was written");

    keys.put("store", store);
    keys.put(&middle, entry);
    until("it takes the target over", || cluster.log_has("two", "taken over"));
    for n in 0..FILES {
        assert_eq!(fs::read(mnt.join(n.to_string())).expect("read"), b"text");
    }
    unmount(&mnt);
}
