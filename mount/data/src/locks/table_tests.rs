//! What is kept under which lock, and what goes with it.

#[path = "table_tests/own_changes.rs"]
mod own_changes;

use super::unlinked::Believed;
use super::*;
use crate::kernel_view::invalidations::{NAMES_SENT_ONE_BY_ONE, StaleName};
use crate::kernel_view::recent::{Asked, ShownName};
use crate::kernel_view::timers::REVOKED_TICKS;
use crate::locks::gate::Ticket;
use crate::locks::learn::learn;
use types::time::Timestamp;
use wire::mds::{
    Create, CreateKind, Getxattr, Lookup, MdsOp, MdsReply, Removed, Rename, RenameFlags, Setattr,
    Unlink,
};
use wire::message::Grant;

const DIR: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };
const OTHER: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 2, ver: 0 };
const FILE: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 3, ver: 0 };
const BOTH: InodeBits = LOOKUP.union(UPDATE);

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn entry(fid: Fid, version: u64) -> Entry {
    let now = Timestamp::default();
    let attr = Attr {
        fid,
        mode: 0o100644,
        uid: 0,
        gid: 0,
        nlink: 1,
        rdev: 0,
        size: version,
        blocks: 0,
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        version,
    };
    Entry { attr, has_xattr: false, noatime: false, striped: 0 }
}

fn stale(dir: Fid, text: &str) -> StaleName {
    StaleName { dir, name: name(text), settling: false }
}

/// A table and its only MDT.
#[derive(Default)]
struct Rig(Table);

impl Rig {
    fn send(&mut self) -> Ticket {
        self.0.gate(DIR.mdt()).send()
    }

    fn reply(
        &mut self,
        ticket: Ticket,
        op: &MdsOp,
        result: Result<MdsReply, types::errno::Errno>,
        grants: &[(Fid, InodeBits)],
        touched: &[Entry],
    ) {
        let grants: Vec<Grant> =
            grants.iter().map(|(fid, bits)| Grant { fid: *fid, bits: *bits }).collect();
        let held = self.0.arrived(DIR.mdt(), ticket, &grants);
        learn(&mut self.0, op, result.as_ref().map_err(|errno| *errno), touched, &held);
        touched.iter().for_each(|entry| self.0.learn_entry(entry, bits_of(&held, entry.attr.fid)));
        self.0.gate(DIR.mdt()).came_back(ticket);
    }

    fn lookup(&mut self, text: &str, to: Option<Entry>, grants: &[(Fid, InodeBits)]) {
        let ticket = self.send();
        let result = to.map(|e| MdsReply::Entry(Box::new(e))).ok_or(types::errno::Errno::ENOENT);
        self.reply(
            ticket,
            &MdsOp::Lookup(Lookup { parent: DIR, name: name(text) }),
            result,
            grants,
            &[],
        );
    }

    fn knows(&mut self, text: &str) -> Known {
        self.0.name(DIR, &name(text))
    }

    fn revoke(&mut self, fid: Fid, bits: InodeBits) -> Invalidations {
        let mut invalidations = Invalidations::default();
        self.0.gate(DIR.mdt()).note(fid, bits);
        self.0.take(fid, bits, &mut invalidations);
        invalidations
    }
}

#[test]
fn without_a_grant_nothing_is_kept() {
    let mut rig = Rig::default();
    rig.lookup("a", Some(entry(FILE, 1)), &[]);
    assert_eq!((rig.knows("a"), rig.0.attr(FILE)), (Known::Nothing, None));
    assert_eq!(rig.0.size(), (0, 0));
}

#[test]
fn a_name_is_covered_by_its_directory_or_by_what_it_leads_to() {
    for grants in [vec![(DIR, UPDATE)], vec![(FILE, LOOKUP)], vec![(DIR, UPDATE), (FILE, LOOKUP)]] {
        let mut rig = Rig::default();
        rig.lookup("a", Some(entry(FILE, 1)), &grants);
        assert_eq!(rig.knows("a"), Known::To(FILE), "{grants:?}");
        assert_eq!(rig.0.attr(FILE), None, "attributes need UPDATE of the inode");
        let both = grants.len() == 2;
        rig.revoke(DIR, UPDATE);
        assert_eq!(rig.knows("a") == Known::To(FILE), both || grants[0].0 == FILE, "{grants:?}");
        rig.revoke(FILE, LOOKUP);
        assert_eq!(rig.knows("a"), Known::Nothing, "{grants:?}");
        assert_eq!(rig.0.size().0, 0, "and no slot is left");
    }
}

#[test]
fn an_absent_name_needs_its_directory() {
    let mut rig = Rig::default();
    rig.lookup("a", None, &[(DIR, LOOKUP)]);
    assert_eq!(rig.knows("a"), Known::Nothing);
    rig.lookup("a", None, &[(DIR, UPDATE)]);
    assert_eq!(rig.knows("a"), Known::Absent);
    assert!(rig.0.trust_name(DIR, &name("a"), None, Asked::First));
    assert!(
        !rig.0.trust_name(DIR, &name("a"), Some(FILE), Asked::First),
        "that is not what is known"
    );
    let invalidations = rig.revoke(DIR, UPDATE);
    assert_eq!(invalidations.names, [stale(DIR, "a")]);
    assert_eq!(rig.knows("a"), Known::Nothing);
}

#[test]
fn the_kernel_forgets_only_what_it_was_shown() {
    let mut rig = Rig::default();
    rig.lookup("told", None, &[(DIR, UPDATE)]);
    rig.lookup("not", None, &[(DIR, UPDATE)]);
    rig.lookup("file", Some(entry(FILE, 1)), &[(DIR, UPDATE), (FILE, BOTH)]);
    assert!(rig.0.trust_name(DIR, &name("told"), None, Asked::First));
    assert_eq!(rig.0.attr_for_kernel(&entry(FILE, 1).attr), (entry(FILE, 1).attr, true));
    let invalidations = rig.revoke(FILE, UPDATE);
    assert_eq!((invalidations.attrs, invalidations.names), (vec![FILE], vec![]));
    let invalidations = rig.revoke(DIR, UPDATE);
    assert_eq!((invalidations.attrs, invalidations.names), (vec![], vec![stale(DIR, "told")]));
    assert_eq!(rig.knows("file"), Known::To(FILE), "covered by LOOKUP of the file");
    assert!(rig.0.trust_name(DIR, &name("file"), Some(FILE), Asked::First));
    assert_eq!(rig.revoke(FILE, LOOKUP).names, [stale(DIR, "file")]);
}

#[test]
fn many_names_are_one_epoch() {
    let mut rig = Rig::default();
    for n in 0..=NAMES_SENT_ONE_BY_ONE {
        rig.lookup(&format!("n{n}"), None, &[(DIR, UPDATE)]);
        assert!(rig.0.trust_name(DIR, &name(&format!("n{n}")), None, Asked::First));
    }
    let invalidations = rig.revoke(DIR, UPDATE);
    assert!(invalidations.all_names && invalidations.names.is_empty());
}

#[test]
fn a_callback_that_overtakes_a_reply_keeps_it_out() {
    let mut rig = Rig::default();
    let ticket = rig.send();
    rig.revoke(FILE, UPDATE);
    let op = MdsOp::Lookup(Lookup { parent: DIR, name: name("a") });
    let result = Ok(MdsReply::Entry(Box::new(entry(FILE, 1))));
    rig.reply(ticket, &op, result, &[(DIR, UPDATE), (FILE, BOTH)], &[]);
    assert_eq!(rig.knows("a"), Known::To(FILE));
    assert_eq!((rig.0.attr(FILE), rig.0.bits(FILE)), (None, LOOKUP));
}

#[test]
fn changed_names_go_and_the_rest_stays() {
    let mut rig = Rig::default();
    rig.lookup("a", None, &[(DIR, UPDATE)]);
    rig.lookup("b", None, &[(DIR, UPDATE)]);
    let mut invalidations = Invalidations::default();
    assert!(rig.0.changing(DIR, &[name("a")], &mut invalidations));
    assert_eq!((rig.knows("a"), rig.knows("b")), (Known::Nothing, Known::Absent));
    assert!(
        !rig.0.changing(OTHER, &[name("a")], &mut invalidations),
        "nothing is held of that one"
    );
}

#[test]
fn a_directory_that_nobody_uses_is_given_up_after_many_changes() {
    let mut rig = Rig::default();
    rig.lookup("x", None, &[(DIR, UPDATE)]);
    let changes = |rig: &mut Rig, count: u8| {
        (0..count)
            .filter(|_| rig.0.changing(DIR, &[name("y")], &mut Invalidations::default()))
            .count()
    };
    assert_eq!(changes(&mut rig, IDLE_CHANGES_MAX - 1), usize::from(IDLE_CHANGES_MAX) - 1);
    assert_eq!(rig.knows("x"), Known::Absent, "used: the count starts again");
    assert_eq!(
        changes(&mut rig, IDLE_CHANGES_MAX),
        usize::from(IDLE_CHANGES_MAX) - 1,
        "the last one drops it"
    );
    assert_eq!((rig.0.bits(DIR), rig.knows("x")), (InodeBits::NONE, Known::Nothing));
}

#[test]
fn xattrs_are_kept_with_their_absence_until_one_changes() {
    let mut rig = Rig::default();
    let ask = |rig: &mut Rig, name: &'static str, result| {
        let ticket = rig.send();
        let op = MdsOp::Getxattr(Getxattr { fid: FILE, name: Bytes::from_static(name.as_bytes()) });
        rig.reply(ticket, &op, result, &[(FILE, XATTR)], &[]);
    };
    ask(&mut rig, "user.a", Ok(MdsReply::Bytes(Bytes::from_static(b"1"))));
    ask(&mut rig, "security.capability", Err(types::errno::Errno::ENODATA));
    assert_eq!(rig.0.xattr(FILE, b"user.a"), Some(Some(Bytes::from_static(b"1"))));
    assert_eq!(rig.0.xattr(FILE, b"security.capability"), Some(None));
    assert_eq!(rig.0.xattr(FILE, b"user.b"), None);
    rig.revoke(FILE, XATTR);
    assert_eq!(rig.0.xattr(FILE, b"user.a"), None);
}

#[test]
fn who_is_shown_that_there_are_none_knows_that_each_is_absent() {
    let mut rig = Rig::default();
    rig.lookup("a", Some(entry(FILE, 1)), &[(DIR, UPDATE), (FILE, BOTH)]);
    for name in ["security.selinux", "system.posix_acl_access", "user.a"] {
        assert_eq!(rig.0.xattr(FILE, name.as_bytes()), Some(None), "{name}");
    }
    assert_eq!(rig.0.xattr(FILE, b"lustre.lov"), None, "it has one, though nobody set it");
    assert_eq!(rig.0.xattr(FILE, b"trusted.lov"), None);
    rig.revoke(FILE, UPDATE);
    assert_eq!(rig.0.xattr(FILE, b"user.a"), None);
    rig.lookup(
        "a",
        Some(Entry { has_xattr: true, ..entry(FILE, 2) }),
        &[(DIR, UPDATE), (FILE, BOTH)],
    );
    assert_eq!(rig.0.xattr(FILE, b"user.a"), None, "it has some");
}

#[test]
fn a_lost_mdt_takes_everything_of_it() {
    let mut rig = Rig::default();
    rig.lookup("a", Some(entry(FILE, 1)), &[(DIR, UPDATE), (FILE, BOTH)]);
    assert!(rig.0.attr_for_kernel(&entry(FILE, 1).attr).1);
    let under_way = rig.send();
    let invalidations = rig.0.lose(DIR.mdt());
    assert!(invalidations.all_names);
    assert_eq!((invalidations.attrs, rig.0.size()), (vec![FILE], (0, 0)));
    let op = MdsOp::Getattr(wire::mds::Getattr::of(FILE));
    rig.reply(
        under_way,
        &op,
        Ok(MdsReply::Entry(Box::new(entry(FILE, 1)))),
        &[(FILE, UPDATE)],
        &[],
    );
    assert_eq!(rig.0.attr(FILE), None, "granted by the session that is gone");
}

#[test]
fn the_oldest_unused_go_first_and_the_kernels_forgotten_before_them() {
    let mut rig = Rig::default();
    let fid = |oid| Fid { oid, ..DIR };
    let count = LOCKS_MAX as u32 + 3;
    for oid in 0..count {
        let ticket = rig.send();
        let op = MdsOp::Getattr(wire::mds::Getattr::of(fid(oid + 10)));
        let result = Ok(MdsReply::Entry(Box::new(entry(fid(oid + 10), 1))));
        rig.reply(ticket, &op, result, &[(fid(oid + 10), UPDATE)], &[]);
    }
    rig.0.kernel_forgot(fid(500));
    let victims = rig.0.victims(10, |pinned| pinned == fid(10));
    assert_eq!(victims.first(), Some(&fid(500)));
    assert_eq!(victims.len(), 3, "as many as there are too many");
    assert!(!victims.contains(&fid(10)));
    for victim in victims {
        let bits = rig.0.give(victim, &mut Invalidations::default());
        assert_eq!(bits, UPDATE);
    }
    assert!(rig.0.victims(10, |_| false).is_empty());
}

#[test]
fn a_directory_that_is_being_listed_goes_last() {
    let mut rig = Rig::default();
    let fid = |oid| Fid { oid, ..DIR };
    let many = MANY_NAMES as u32;
    for n in 0..many {
        let file = fid(n + 10);
        rig.lookup(&n.to_string(), Some(entry(file, 1)), &[(DIR, UPDATE), (file, BOTH)]);
    }
    assert_eq!(rig.knows("0"), Known::To(fid(10)));
    // All were used once, the directory first.
    rig.0.set_bounds(Bounds { locks: 1, ..Bounds::default() });
    let victims = rig.0.victims(3, |_| false);
    assert_eq!(victims, [10, 11, 12].map(fid));
    // Also if no program has looked at a name since.
    assert!(!rig.0.victims(many as usize, |_| false).contains(&DIR));
    victims.into_iter().for_each(|victim| rig.0.stays(victim));
    assert_eq!(rig.0.victims(9, |victim| victim != DIR), [DIR], "nothing else can go");
    rig.0.stays(DIR);
    rig.0.set_now(LISTED_SECONDS);
    assert!(rig.0.victims(9, |_| false).contains(&DIR), "it is not listed any more");
}

#[test]
fn what_a_reply_shows_again_is_as_good_as_new() {
    let mut rig = Rig::default();
    let files = [10, 11, 12, 13].map(|oid| Fid { oid, ..DIR });
    let show = |rig: &mut Rig, file: Fid| {
        let text = file.oid.to_string();
        rig.lookup(&text, Some(entry(file, 1)), &[(DIR, UPDATE), (file, BOTH)]);
    };
    files[..3].iter().for_each(|file| show(&mut rig, *file));
    rig.0.set_bounds(Bounds { locks: 3, ..Bounds::default() });
    assert_eq!(rig.0.victims(1, |pinned| pinned == DIR), [files[0]]);
    rig.0.give(files[0], &mut Invalidations::default());
    // The next in turn comes again with a listing, and with it others for which there is no room.
    show(&mut rig, files[1]);
    show(&mut rig, files[3]);
    assert_eq!(rig.0.victims(1, |pinned| pinned == DIR), [files[2]]);
}

/// Two own changes of one name, served in one order and answered in the other.
#[test]
fn a_late_answer_of_a_create_does_not_bring_back_what_was_unlinked() {
    let mut rig = Rig::default();
    let (create, unlink) = (rig.send(), rig.send());
    let op = MdsOp::Unlink(Unlink { parent: DIR, name: name("b") });
    let removed = Ok(MdsReply::Removed(Removed { fid: FILE, nlink: 0 }));
    rig.reply(unlink, &op, removed, &[(DIR, UPDATE)], &[entry(DIR, 9)]);
    let kind = CreateKind::Directory { mdt: None };
    let op = MdsOp::Create(Create {
        parent: DIR,
        name: name("b"),
        kind,
        mode: 0o755,
        umask: 0,
        exclusive: true,
    });
    let handle = types::session::OpenHandle(0);
    let made =
        MdsReply::Opened { entry: Box::new(entry(FILE, 8)), created: true, handle, layout: None };
    rig.reply(create, &op, Ok(made), &[(DIR, UPDATE), (FILE, BOTH)], &[entry(DIR, 8)]);
    assert_ne!(rig.knows("b"), Known::To(FILE));
}

/// The kernel learns of an own unlink only when it has read the answer.
#[test]
fn a_callback_right_after_an_own_change_takes_the_old_name_from_the_kernel() {
    for asked in [DIR, FILE] {
        let mut rig = Rig::default();
        rig.lookup("a", Some(entry(FILE, 1)), &[(DIR, UPDATE), (FILE, BOTH)]);
        assert!(rig.0.trust_name(DIR, &name("a"), Some(FILE), Asked::First));
        let ticket = rig.send();
        let op = MdsOp::Unlink(Unlink { parent: DIR, name: name("a") });
        let removed = Ok(MdsReply::Removed(Removed { fid: FILE, nlink: 1 }));
        rig.reply(ticket, &op, removed, &[(DIR, UPDATE)], &[entry(DIR, 9)]);
        assert_eq!(rig.revoke(asked, BOTH).names, [stale(DIR, "a")]);
        assert_eq!(rig.revoke(asked, BOTH).names, [], "once");
    }
}

#[test]
fn what_an_uncovered_reply_shows_to_be_old_is_owed_to_the_kernel() {
    let mut rig = Rig::default();
    rig.lookup("a", Some(entry(FILE, 1)), &[(DIR, UPDATE)]);
    assert!(rig.0.trust_name(DIR, &name("a"), Some(FILE), Asked::First));
    rig.lookup("a", None, &[]);
    assert_eq!(rig.knows("a"), Known::Nothing);
    assert_eq!(rig.0.outdated().names, [stale(DIR, "a")]);
    assert!(rig.0.outdated().is_empty());
}

#[test]
fn what_the_kernel_asked_again_long_ago_is_settled() {
    for ticks in [0, 2] {
        let mut rig = Rig::default();
        rig.lookup("a", Some(entry(FILE, 1)), &[(DIR, UPDATE)]);
        assert!(rig.0.trust_name(DIR, &name("a"), Some(FILE), Asked::Again));
        (0..ticks).for_each(|_| rig.0.tick());
        assert_eq!(
            rig.revoke(DIR, UPDATE).names,
            [StaleName { settling: ticks == 0, ..stale(DIR, "a") }]
        );
    }
}

#[test]
fn counts_that_the_kernel_may_count_down_are_not_trusted_for_a_while() {
    let (unlinked, last) = (Removed { fid: FILE, nlink: 1 }, Removed { fid: FILE, nlink: 0 });
    let none = Removed { fid: Fid::NONE, nlink: 0 };
    let known = |known| Believed { known, shown: ShownName::Nowhere };
    let shown = |shown| Believed { known: Known::Nothing, shown };
    for (before, removed, distrusted) in [
        (known(Known::To(FILE)), unlinked, true),
        (known(Known::To(FILE)), last, false),
        (known(Known::To(FILE)), none, true),
        (known(Known::Nothing), last, true),
        (known(Known::To(DIR)), last, true),
        (known(Known::To(DIR)), none, false),
        (shown(ShownName::To(FILE)), last, false),
        (shown(ShownName::To(FILE)), none, true),
        (shown(ShownName::To(DIR)), last, true),
        (shown(ShownName::Anywhere), none, true),
        (Believed { known: Known::Absent, shown: ShownName::To(FILE) }, none, true),
    ] {
        let mut table = Table::default();
        let ticket = table.gate(0).send();
        table.arrived(0, ticket, &[Grant { fid: FILE, bits: BOTH }]);
        table.learn_entry(&entry(FILE, 1), BOTH);
        assert!(table.attr_for_kernel(&entry(FILE, 1).attr).1);
        table.counted_down(before, removed);
        let pending = table.take_pending();
        let forgets = pending.attrs.contains(&FILE) || before.shown == ShownName::Anywhere;
        assert_eq!(forgets, distrusted, "{before:?} {removed:?}");
        table.learn_entry(&entry(FILE, 2), BOTH);
        assert_eq!(table.attr_for_kernel(&entry(FILE, 2).attr), (entry(FILE, 2).attr, !distrusted));
        (0..2).for_each(|_| table.tick());
        assert!(
            table.attr_for_kernel(&entry(FILE, 2).attr).1,
            "the kernel has read the answer long ago"
        );
    }
}

/// R12: what the kernel learns with a name has the count of links, too.
#[test]
fn names_of_inodes_that_the_kernel_may_count_down_are_not_trusted_for_a_while() {
    let mut rig = Rig::default();
    let ticket = rig.send();
    let lookup = MdsOp::Lookup(Lookup { parent: DIR, name: name("b") });
    let found = MdsReply::Entry(Box::new(entry(FILE, 1)));
    rig.reply(ticket, &lookup, Ok(found), &[(DIR, BOTH), (FILE, BOTH)], &[]);
    let trusted = |rig: &mut Rig| rig.0.trust_name(DIR, &name("b"), Some(FILE), Asked::First);
    assert!(trusted(&mut rig));
    let believed = Believed { known: Known::To(FILE), shown: ShownName::Nowhere };
    rig.0.counted_down(believed, Removed { fid: FILE, nlink: 1 });
    assert!(!trusted(&mut rig));
    (0..2).for_each(|_| rig.0.tick());
    assert!(trusted(&mut rig));
}

/// R4: the callback itself begins the time without trust.
#[test]
fn names_of_directories_are_not_trusted_again_soon_after_a_callback_of_either() {
    for (called, bit) in [(DIR, UPDATE), (OTHER, LOOKUP)] {
        let mut rig = Rig::default();
        let look_up = |rig: &mut Rig| {
            let ticket = rig.send();
            let lookup = MdsOp::Lookup(Lookup { parent: DIR, name: name("d") });
            let found = MdsReply::Entry(Box::new(entry(OTHER, 1)));
            rig.reply(ticket, &lookup, Ok(found), &[(DIR, BOTH), (OTHER, BOTH)], &[]);
            rig.0.trust_name(DIR, &name("d"), Some(OTHER), Asked::DirectoryAgain)
        };
        assert!(look_up(&mut rig));
        rig.0.take(called, bit, &mut Invalidations::default());
        assert!(!look_up(&mut rig), "{called} {bit:?}");
        (0..REVOKED_TICKS).for_each(|_| rig.0.tick());
        assert!(look_up(&mut rig));
    }
}

/// R12: the kernel finds a name, a callback takes it, then the kernel asks to rename over it.
#[test]
fn a_name_that_a_callback_took_before_a_rename_is_what_the_kernel_counts_down() {
    let none = Removed { fid: Fid::NONE, nlink: 0 };
    for covered in [true, false] {
        let mut table = Table::default();
        let ticket = table.gate(0).send();
        let mut grants = vec![Grant { fid: FILE, bits: BOTH }];
        grants.extend(covered.then_some(Grant { fid: DIR, bits: BOTH }));
        let held = table.arrived(0, ticket, &grants);
        let held = if covered { held } else { Held::default() };
        table.learn_entry(&entry(FILE, 1), BOTH);
        table.learn_name(DIR, &name("b"), Some(FILE), &held);
        assert_eq!(table.trust_name(DIR, &name("b"), Some(FILE), Asked::First), covered);
        table.changing(DIR, &[name("b")], &mut Invalidations::default());
        let before = table.believed(DIR, &name("b"));
        assert_eq!(before.shown, ShownName::To(FILE));
        table.counted_down(before, none);
        // A new lock of the inode changes nothing: the kernel has yet to count.
        assert!(!table.attr_for_kernel(&entry(FILE, 1).attr).1);
        assert!(!table.trust_name(DIR, &name("c"), Some(FILE), Asked::First));
        assert!(table.take_pending().all_names, "link(2) of another name must look");
        (0..2).for_each(|_| table.tick());
        assert!(table.attr_for_kernel(&entry(FILE, 1).attr).1);
        assert_eq!(table.believed(DIR, &name("b")).shown, ShownName::Nowhere);
    }
}

#[test]
fn permissions_are_known_while_names_change() {
    let mut rig = Rig::default();
    let getattr = |rig: &mut Rig, version: u64, bits: InodeBits| {
        let ticket = rig.send();
        let shown = MdsReply::Entry(Box::new(entry(DIR, version)));
        rig.reply(
            ticket,
            &MdsOp::Getattr(wire::mds::Getattr::of(DIR)),
            Ok(shown),
            &[(DIR, bits)],
            &[],
        );
    };
    let known = |rig: &mut Rig| rig.0.permissions(DIR).map(|attr| attr.version);
    getattr(&mut rig, 1, BOTH);
    assert_eq!(known(&mut rig), None, "not granted");
    getattr(&mut rig, 2, BOTH.union(PERM));
    rig.revoke(DIR, UPDATE);
    assert_eq!((known(&mut rig), rig.0.attr(DIR)), (Some(2), None));
    assert_eq!(rig.0.xattr(DIR, b"system.posix_acl_access"), Some(None), "there is no ACL");
    getattr(&mut rig, 3, PERM);
    getattr(&mut rig, 1, PERM);
    assert_eq!((known(&mut rig), rig.0.attr(DIR)), (Some(3), None), "times are not covered");
    rig.revoke(DIR, PERM);
    assert_eq!(known(&mut rig), None);
    assert_eq!(rig.0.xattr(DIR, b"system.posix_acl_access"), None);
}

#[test]
fn an_own_chmod_ends_what_was_known_of_permissions_and_what_is_under_way() {
    let mut rig = Rig::default();
    let shown = |version| Ok(MdsReply::Entry(Box::new(entry(DIR, version))));
    let (first, late) = (rig.send(), rig.send());
    rig.reply(first, &MdsOp::Getattr(wire::mds::Getattr::of(DIR)), shown(1), &[(DIR, PERM)], &[]);
    let chmod = rig.send();
    let op = MdsOp::Setattr(Setattr { fid: DIR, set: types::attr::SetAttr::default() });
    rig.reply(chmod, &op, shown(2), &[(DIR, UPDATE)], &[]);
    assert_eq!(rig.0.permissions(DIR), None);
    rig.reply(late, &MdsOp::Getattr(wire::mds::Getattr::of(DIR)), shown(1), &[(DIR, PERM)], &[]);
    assert_eq!(rig.0.permissions(DIR), None, "it may show the mode before");
}

#[test]
fn a_name_changes_as_long_as_one_request_may_change_it() {
    let mut table = Table::default();
    table.begin_change(DIR, &name("a"));
    table.begin_change(DIR, &name("a"));
    table.end_change(DIR, &name("a"));
    assert!(table.is_changing(DIR, &name("a")), "another does");
    assert!(!table.is_changing(DIR, &name("b")) && !table.is_changing(OTHER, &name("a")));
    table.end_change(DIR, &name("a"));
    assert!(!table.is_changing(DIR, &name("a")) && table.changing.is_empty());
    table.end_change(DIR, &name("a"));
}

#[test]
fn locks_of_a_removed_inode_end_with_it() {
    let mut rig = Rig::default();
    rig.lookup("f", Some(entry(FILE, 1)), &[(DIR, BOTH), (FILE, BOTH)]);
    let late = rig.send();
    let unlink = MdsOp::Unlink(Unlink { parent: DIR, name: name("f") });
    let removed = |nlink| Ok(MdsReply::Removed(Removed { fid: FILE, nlink }));
    let ticket = rig.send();
    rig.reply(ticket, &unlink, removed(1), &[], &[]);
    assert!(!rig.0.is_removed(FILE), "it has another name");
    let ticket = rig.send();
    rig.reply(ticket, &unlink, removed(0), &[], &[]);
    assert_eq!(
        (rig.0.removed(), rig.0.count()),
        (vec![FILE], 2),
        "programs may still have it open"
    );
    rig.0.bury(FILE);
    assert_eq!((rig.0.removed(), rig.0.count()), (vec![], 1));
    // An answer of the time before does not bring it back.
    let getattr = MdsOp::Getattr(wire::mds::Getattr::of(FILE));
    rig.reply(late, &getattr, Ok(MdsReply::Entry(Box::new(entry(FILE, 1)))), &[(FILE, BOTH)], &[]);
    assert_eq!(rig.0.count(), 1);
    rig.0.lost_last_name(FILE);
    assert!(!rig.0.is_removed(FILE), "of what is not held nothing is remembered");
}

#[test]
fn what_is_idle_for_too_long_is_old_and_what_is_too_much_leaves() {
    let mut rig = Rig::default();
    rig.lookup("f", Some(entry(FILE, 1)), &[(DIR, BOTH), (FILE, BOTH)]);
    rig.0.set_now(100);
    assert_eq!(rig.0.aged(9, |_| false), [], "no age, no end");
    rig.0.set_bounds(Bounds { age_ms: 10_000, ..Bounds::default() });
    assert_eq!(rig.0.aged(9, |_| false), [DIR, FILE]);
    assert_eq!(rig.0.aged(1, |_| false), [DIR], "some at a time");
    assert_eq!(rig.0.aged(9, |fid| fid == DIR), [FILE]);
    rig.0.attr(FILE);
    assert_eq!(rig.0.aged(9, |_| false), [DIR], "the other one was used");
    rig.0.set_now(110);
    assert_eq!(rig.0.aged(9, |_| false), [DIR, FILE]);

    assert!(!rig.0.is_too_much());
    rig.0.set_bounds(Bounds { locks: 1, ..Bounds::default() });
    assert!(rig.0.is_too_much());
    assert_eq!(rig.0.victims(9, |_| false).len(), 1);
}

#[test]
fn an_inode_without_its_name_is_remembered_until_it_has_one() {
    let mut rig = Rig::default();
    let all = BOTH.union(XATTR);
    rig.lookup("f", Some(entry(FILE, 1)), &[(DIR, BOTH), (FILE, all)]);
    assert_eq!(rig.0.nameless(), []);
    rig.revoke(FILE, BOTH);
    assert_eq!(
        (rig.0.nameless(), rig.0.count()),
        (vec![FILE], 2),
        "another client took its name; XATTR is left"
    );
    rig.lookup("g", Some(entry(FILE, 2)), &[(FILE, BOTH)]);
    assert_eq!(rig.0.nameless(), [], "it was renamed");
    rig.revoke(FILE, BOTH);
    rig.0.give(FILE, &mut Invalidations::default());
    assert_eq!((rig.0.nameless(), rig.0.count()), (vec![], 1));
    rig.revoke(DIR, BOTH);
    assert_eq!(
        (rig.0.nameless(), rig.0.count()),
        (vec![], 0),
        "of what is not held nothing is remembered"
    );
}

#[test]
fn what_the_kernel_has_under_a_name_is_what_it_was_told_last() {
    let (a, first, again) = (name("a"), Asked::First, Asked::Again);
    let mut rig = Rig::default();
    let expected = |rig: &Rig| rig.0.expected(DIR, &a);
    rig.lookup("a", Some(entry(FILE, 1)), &[(DIR, UPDATE)]);
    assert_eq!(expected(&rig), None, "the kernel was told nothing");
    assert!(rig.0.trust_name(DIR, &a, Some(FILE), first));
    assert_eq!(expected(&rig), Some(FILE));
    rig.revoke(DIR, UPDATE);
    assert_eq!(expected(&rig), Some(FILE), "it may still use it, and looks at it again");
    rig.lookup("a", Some(entry(OTHER, 1)), &[(DIR, UPDATE)]);
    assert_eq!(expected(&rig), Some(FILE), "this mount knows better, its kernel does not");
    assert!(rig.0.trust_name(DIR, &a, Some(OTHER), again));
    assert_eq!(expected(&rig), Some(OTHER));
    rig.revoke(DIR, UPDATE);
    rig.lookup("a", None, &[(DIR, UPDATE)]);
    assert!(rig.0.trust_name(DIR, &a, None, first));
    assert_eq!(expected(&rig), None, "it knows that there is none");
    // Without a lock.
    rig.revoke(DIR, UPDATE);
    assert!(!rig.0.trust_name(DIR, &a, Some(FILE), first));
    assert_eq!(expected(&rig), Some(FILE));
    let ticket = rig.send();
    let op = MdsOp::Unlink(Unlink { parent: DIR, name: a.clone() });
    rig.reply(ticket, &op, Ok(MdsReply::Removed(Removed { fid: FILE, nlink: 0 })), &[], &[]);
    assert_eq!(expected(&rig), None, "it removed the name itself");
}
