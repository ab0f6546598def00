//! Complete directories, and what ends that state.

use super::*;
use crate::locks::learn::learn;
use crate::locks::table::{Invalidations, Known, LOOKUP};
use types::attr::{Attr, FileType};
use types::errno::Errno;
use types::lock::InodeBits;
use types::session::OpenHandle;
use types::time::Timestamp;
use wire::mds::{
    Create, CreateKind, Entry, GetParent, Getattr, Lookup, MdsOp, MdsReply, Readdir, Removed,
    Unlink,
};
use wire::message::Grant;

const PARENT: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };
const DIR: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 2, ver: 0 };
const FILE: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 3, ver: 0 };
const BOTH: InodeBits = LOOKUP.union(UPDATE);

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn entry(fid: Fid, mode: u32) -> Entry {
    let now = Timestamp::default();
    let (uid, gid, nlink, rdev, size, blocks, version) = (0, 0, 1, 0, 0, 0, 1);
    let (atime, mtime, ctime, btime) = (now, now, now, now);
    let attr = Attr {
        fid,
        mode,
        uid,
        gid,
        nlink,
        rdev,
        size,
        blocks,
        atime,
        mtime,
        ctime,
        btime,
        version,
    };
    Entry { attr, has_xattr: false, noatime: false, striped: 0 }
}

fn reply(
    table: &mut Table,
    op: &MdsOp,
    result: Result<MdsReply, Errno>,
    grants: &[(Fid, InodeBits)],
) {
    let ticket = table.gate(DIR.mdt()).send();
    let grants: Vec<Grant> =
        grants.iter().map(|(fid, bits)| Grant { fid: *fid, bits: *bits }).collect();
    let held = table.arrived(DIR.mdt(), ticket, &grants);
    learn(table, op, result.as_ref().map_err(|errno| *errno), &[], &held);
    table.gate(DIR.mdt()).came_back(ticket);
}

fn create(table: &mut Table, parent: Fid, text: &str, made: Entry, grants: &[(Fid, InodeBits)]) {
    let kind = if made.attr.is_dir() {
        CreateKind::Directory { mdt: None }
    } else {
        CreateKind::Regular(None)
    };
    let op = MdsOp::Create(Create {
        parent,
        name: name(text),
        kind,
        mode: 0o755,
        umask: 0,
        exclusive: true,
    });
    let opened = MdsReply::Opened {
        entry: Box::new(made),
        handle: OpenHandle(0),
        created: true,
        layout: None,
    };
    reply(table, &op, Ok(opened), grants);
}

fn mkdir(grants: InodeBits) -> Table {
    let mut table = Table::default();
    create(&mut table, PARENT, "dir", entry(DIR, 0o040755), &[(PARENT, UPDATE), (DIR, grants)]);
    table
}

/// A listing with one file.
fn list(table: &mut Table, more: bool, bits: InodeBits) {
    let listed = DirEntry {
        name: name("f"),
        fid: FILE,
        file_type: FileType::Regular,
        layout: None,
        entry: Some(entry(FILE, 0o100644)),
    };
    let readdir = MdsOp::Readdir(Readdir {
        fid: DIR,
        after: None,
        limit: 10,
        bytes_max: 1000,
        with_attr: true,
        with_layout: false,
    });
    let grants = [(DIR, bits), (FILE, BOTH)];
    let ticket = table.gate(DIR.mdt()).send();
    let held = table.arrived(DIR.mdt(), ticket, &grants.map(|(fid, bits)| Grant { fid, bits }));
    learn(table, &readdir, Ok(&MdsReply::Entries { entries: vec![listed], more }), &[], &held);
    let parent = MdsReply::Entry(Box::new(entry(PARENT, 0o040755)));
    learn(table, &MdsOp::GetParent(GetParent { fid: DIR }), Ok(&parent), &[], &held);
    table.gate(DIR.mdt()).came_back(ticket);
}

#[test]
fn a_directory_made_here_has_no_names_that_this_mount_did_not_give() {
    let mut table = mkdir(BOTH);
    assert_eq!(table.name(DIR, &name("f")), Known::Absent);
    create(&mut table, DIR, "f", entry(FILE, 0o100644), &[(DIR, UPDATE), (FILE, BOTH)]);
    assert_eq!(table.name(DIR, &name("f")), Known::To(FILE));
    assert_eq!(table.name(DIR, &name("g")), Known::Absent);
    let unlink = MdsOp::Unlink(Unlink { parent: DIR, name: name("f") });
    reply(
        &mut table,
        &unlink,
        Ok(MdsReply::Removed(Removed { fid: FILE, nlink: 0 })),
        &[(DIR, UPDATE)],
    );
    assert_eq!(table.name(DIR, &name("f")), Known::Absent);
    assert_eq!(table.name(DIR, &name("h")), Known::Absent);
}

#[test]
fn without_update_nothing_is_known_of_a_directory_made_here() {
    let mut table = mkdir(LOOKUP);
    assert_eq!(table.name(DIR, &name("f")), Known::Nothing);
}

#[test]
fn another_clients_change_a_lost_lock_and_an_uncovered_name_end_it() {
    let changing = |table: &mut Table| {
        assert!(table.changing(DIR, &[name("new")], &mut Invalidations::default()))
    };
    let revoked = |table: &mut Table| {
        table.take(DIR, UPDATE, &mut Invalidations::default());
        let again = MdsOp::Lookup(Lookup { parent: DIR, name: name("x") });
        reply(table, &again, Err(Errno::ENOENT), &[(DIR, UPDATE)]);
    };
    let uncovered = |table: &mut Table| {
        create(table, DIR, "new", entry(FILE, 0o100644), &[(DIR, InodeBits::NONE)])
    };
    let seen = |table: &mut Table| {
        let found = MdsReply::Entry(Box::new(entry(FILE, 0o100644)));
        reply(table, &MdsOp::Lookup(Lookup { parent: DIR, name: name("new") }), Ok(found), &[]);
    };
    let ends: [fn(&mut Table); 4] = [changing, revoked, uncovered, seen];
    for (n, end) in ends.into_iter().enumerate() {
        let mut table = mkdir(BOTH);
        list(&mut table, false, BOTH);
        assert!(table.listing(DIR, true).is_some());
        end(&mut table);
        assert_eq!(table.name(DIR, &name("new")), Known::Nothing, "{n}");
        assert!(table.listing(DIR, false).is_none(), "{n}");
    }
}

/// One page of a directory whose entries are files, and the grants that come with it.
fn page(
    after: Option<&str>,
    names: &[(&str, u32)],
    more: bool,
) -> (MdsOp, MdsReply, Vec<(Fid, InodeBits)>) {
    let fid = |oid| Fid { oid, ..DIR };
    let entries = names.iter().map(|(text, oid)| DirEntry {
        name: name(text),
        fid: fid(*oid),
        file_type: FileType::Regular,
        layout: None,
        entry: Some(entry(fid(*oid), 0o100644)),
    });
    let (entries, after) = (entries.collect(), after.map(name));
    let readdir = Readdir {
        fid: DIR,
        after,
        limit: 10,
        bytes_max: 1000,
        with_attr: true,
        with_layout: false,
    };
    let mut grants = vec![(DIR, UPDATE)];
    grants.extend(names.iter().map(|(_, oid)| (fid(*oid), BOTH)));
    (MdsOp::Readdir(readdir), MdsReply::Entries { entries, more }, grants)
}

fn list_page(table: &mut Table, after: Option<&str>, names: &[(&str, u32)], more: bool) {
    let (op, page, grants) = page(after, names, more);
    reply(table, &op, Ok(page), &grants);
}

fn show_parent(table: &mut Table) {
    let parent = MdsReply::Entry(Box::new(entry(PARENT, 0o040755)));
    reply(table, &MdsOp::GetParent(GetParent { fid: DIR }), Ok(parent), &[(DIR, UPDATE)]);
}

#[test]
fn pages_that_follow_each_other_are_a_whole_directory() {
    let mut table = Table::default();
    list_page(&mut table, None, &[("a", 10), ("b", 11)], true);
    show_parent(&mut table);
    let (_, weight) = table.size();
    list_page(&mut table, Some("b"), &[("c", 12)], true);
    assert!(table.listing(DIR, false).is_none() && !table.is_complete(DIR), "it goes on");
    list_page(&mut table, None, &[("a", 10), ("b", 11)], true);
    assert_eq!(table.size().1.max(weight), table.size().1, "it weighs what it did");
    show_parent(&mut table);
    list_page(&mut table, Some("a"), &[("b", 11)], true);
    list_page(&mut table, Some("b"), &[("c", 12)], false);
    let (entries, parent) = table.listing(DIR, true).expect("no page was missed");
    let names: Vec<&[u8]> = entries.iter().map(|entry| &*entry.name).collect();
    assert_eq!((names, parent), (vec![&b"a"[..], b"b", b"c"], PARENT));
    assert_eq!(table.name(DIR, &name("aa")), Known::Absent);
}

/// Teaches the table a page whose request took its ticket before `between` happened.
fn late_page(between: fn(&mut Table)) -> Table {
    let mut table = Table::default();
    list_page(&mut table, None, &[("a", 10)], true);
    show_parent(&mut table);
    let shown = MdsReply::Entry(Box::new(entry(DIR, 0o040755)));
    reply(&mut table, &MdsOp::Getattr(Getattr::of(DIR)), Ok(shown), &[(DIR, UPDATE)]);
    let ticket = table.gate(DIR.mdt()).send();
    between(&mut table);
    let (op, page, grants) = page(Some("a"), &[("b", 11)], false);
    let grants: Vec<Grant> = grants.into_iter().map(|(fid, bits)| Grant { fid, bits }).collect();
    let held = table.arrived(DIR.mdt(), ticket, &grants);
    learn(&mut table, &op, Ok(&page), &[], &held);
    table.gate(DIR.mdt()).came_back(ticket);
    table
}

#[test]
fn an_own_access_between_two_pages_ends_no_listing() {
    let read_at = Timestamp { sec: 5, nsec: 0 };
    let mut table = late_page(|table| {
        let read = entry(DIR, 0o040755);
        table.accessed(&Entry {
            attr: Attr { atime: Timestamp { sec: 5, nsec: 0 }, ..read.attr },
            ..read
        });
    });
    assert_eq!(table.listing(DIR, true).expect("it is complete").0.len(), 2);
    assert_eq!(table.name(DIR, &name("aa")), Known::Absent);
    // A reply that was under way shows the old access time.
    let older = MdsReply::Entry(Box::new(entry(DIR, 0o040755)));
    reply(&mut table, &MdsOp::Getattr(Getattr::of(DIR)), Ok(older), &[(DIR, UPDATE)]);
    assert_eq!(table.attr(DIR).expect("it is known").attr.atime, read_at);
}

#[test]
fn a_page_from_before_a_callback_goes_on_with_no_listing() {
    let mut table = late_page(|table| {
        table.gate(DIR.mdt()).note(DIR, UPDATE);
        table.take(DIR, UPDATE, &mut Invalidations::default());
        // Another program lists it from the start, and its first page ends at the same name.
        list_page(table, None, &[("a", 10)], true);
        show_parent(table);
    });
    assert!(table.listing(DIR, false).is_none() && !table.is_complete(DIR));
    assert_eq!(table.name(DIR, &name("aa")), Known::Nothing);
}

#[test]
fn a_change_between_two_pages_ends_a_listing() {
    let changed: fn(&mut Table) =
        |table| _ = table.changing(DIR, &[name("x")], &mut Invalidations::default());
    let revoked: fn(&mut Table) = |table| table.take(DIR, UPDATE, &mut Invalidations::default());
    let own: fn(&mut Table) =
        |table| create(table, DIR, "x", entry(FILE, 0o100644), &[(DIR, UPDATE), (FILE, BOTH)]);
    for end in [changed, revoked, own] {
        let mut table = Table::default();
        list_page(&mut table, None, &[("a", 10)], true);
        show_parent(&mut table);
        end(&mut table);
        list_page(&mut table, Some("a"), &[("c", 12)], false);
        assert!(table.listing(DIR, false).is_none() && !table.is_complete(DIR));
    }
}

#[test]
fn a_listing_is_kept_until_a_name_changes() {
    let mut table = Table::default();
    list(&mut table, true, BOTH);
    assert!(table.listing(DIR, false).is_none() && !table.is_complete(DIR), "it goes on");
    list(&mut table, false, LOOKUP);
    assert!(table.listing(DIR, false).is_none() && !table.is_complete(DIR), "nothing covers it");
    list(&mut table, false, BOTH);
    let (_, weight) = table.size();
    let (entries, parent) = table.listing(DIR, true).unwrap();
    assert_eq!((entries.len(), entries[0].entry.as_ref(), parent), (1, None, PARENT));
    assert_eq!(table.name(DIR, &name("g")), Known::Absent);
    assert!(table.listing(DIR, true).is_some(), "a question changes nothing");
    table.take(FILE, UPDATE, &mut Invalidations::default());
    assert!(
        table.listing(DIR, true).is_none() && table.listing(DIR, false).is_some(),
        "attributes would be asked one by one"
    );
    create(&mut table, DIR, "g", entry(PARENT, 0o100644), &[(DIR, UPDATE), (PARENT, BOTH)]);
    assert!(table.listing(DIR, false).is_none() && table.is_complete(DIR));
    list(&mut table, false, BOTH);
    table.renamed_inode(DIR);
    assert!(table.listing(DIR, false).is_none(), "its parent may be another one");
    assert!(table.size().1 < weight + 4096, "what is dropped weighs nothing");
}
