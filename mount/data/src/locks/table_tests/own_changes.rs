//! What a client knows after its own changes.

use super::*;

#[test]
fn an_own_create_is_known_at_once_with_its_directory() {
    let mut rig = Rig::default();
    rig.lookup("a", None, &[(DIR, UPDATE)]);
    let ticket = rig.send();
    let kind = CreateKind::Directory { mdt: None };
    let op = MdsOp::Create(Create {
        parent: DIR,
        name: name("a"),
        kind,
        mode: 0o755,
        umask: 0,
        exclusive: true,
    });
    let opened = MdsReply::Opened {
        entry: Box::new(entry(FILE, 7)),
        created: true,
        handle: types::session::OpenHandle(0),
        layout: None,
    };
    rig.reply(ticket, &op, Ok(opened), &[(DIR, UPDATE), (FILE, BOTH)], &[entry(DIR, 7)]);
    assert_eq!(rig.knows("a"), Known::To(FILE));
    assert_eq!(rig.0.attr(DIR), Some(entry(DIR, 7)), "no Getattr of the directory");
    assert_eq!(rig.0.attr(FILE), Some(entry(FILE, 7)));
}

#[test]
fn what_was_under_way_when_an_own_change_was_answered_is_old() {
    let mut rig = Rig::default();
    let listing = rig.send();
    let unlink = rig.send();
    let op = MdsOp::Unlink(Unlink { parent: DIR, name: name("a") });
    let removed = Ok(MdsReply::Removed(Removed { fid: FILE, nlink: 0 }));
    rig.reply(unlink, &op, removed, &[(DIR, UPDATE)], &[entry(DIR, 9)]);
    assert_eq!(rig.knows("a"), Known::Absent);
    // The page was made before the unlink, and comes after it.
    let op = MdsOp::Lookup(Lookup { parent: DIR, name: name("a") });
    let old = Ok(MdsReply::Entry(Box::new(entry(FILE, 1))));
    rig.reply(listing, &op, old, &[(DIR, UPDATE), (FILE, UPDATE)], &[]);
    assert_ne!(rig.knows("a"), Known::To(FILE));
    assert_eq!(rig.0.attr(FILE), None);
    assert_eq!(rig.0.attr(DIR).map(|e| e.attr.version), Some(9));
}

#[test]
fn an_own_change_without_a_grant_leaves_nothing_old() {
    let mut rig = Rig::default();
    rig.lookup("a", Some(entry(FILE, 1)), &[(DIR, UPDATE), (FILE, BOTH)]);
    let ticket = rig.send();
    let op = MdsOp::Unlink(Unlink { parent: DIR, name: name("a") });
    rig.reply(
        ticket,
        &op,
        Ok(MdsReply::Removed(Removed { fid: FILE, nlink: 1 })),
        &[],
        &[entry(DIR, 9)],
    );
    assert_eq!(rig.knows("a"), Known::Nothing);
    assert_eq!((rig.0.attr(DIR), rig.0.attr(FILE)), (None, None));
}

#[test]
fn older_attributes_never_replace_newer_ones() {
    let mut rig = Rig::default();
    rig.lookup("a", Some(entry(FILE, 5)), &[(FILE, BOTH)]);
    rig.lookup("a", Some(entry(FILE, 4)), &[(FILE, BOTH)]);
    assert_eq!(rig.0.attr(FILE), Some(entry(FILE, 5)));
    assert_eq!(rig.0.attr_for_kernel(&entry(FILE, 4).attr), (entry(FILE, 5).attr, true));
    // Newer ones without a grant: the known ones are old, and the new ones may not be kept.
    rig.lookup("a", Some(entry(FILE, 6)), &[]);
    assert_eq!(rig.0.attr(FILE), None);
}

#[test]
fn a_rename_takes_the_trust_of_the_kernel_along() {
    for (grants, epoch) in [(vec![(DIR, UPDATE), (OTHER, UPDATE)], false), (vec![], true)] {
        let mut rig = Rig::default();
        rig.lookup("a", Some(entry(FILE, 1)), &[(DIR, UPDATE), (FILE, BOTH)]);
        let ticket = rig.send();
        rig.reply(
            ticket,
            &MdsOp::Lookup(Lookup { parent: OTHER, name: name("b") }),
            Err(types::errno::Errno::ENOENT),
            &[(OTHER, UPDATE)],
            &[],
        );
        assert!(rig.0.trust_name(DIR, &name("a"), Some(FILE), Asked::First));
        let ticket = rig.send();
        let flags = RenameFlags::default();
        let op = MdsOp::Rename(Rename {
            parent: DIR,
            name: name("a"),
            new_parent: OTHER,
            new_name: name("b"),
            flags,
        });
        let removed = MdsReply::Removed(Removed { fid: Fid::NONE, nlink: 0 });
        rig.reply(ticket, &op, Ok(removed), &grants, &[]);
        assert_eq!(rig.0.take_pending().all_names, epoch);
        let known =
            if epoch { (Known::Nothing, Known::Nothing) } else { (Known::Absent, Known::To(FILE)) };
        assert_eq!((rig.knows("a"), rig.0.name(OTHER, &name("b"))), known);
        let mut invalidations = Invalidations::default();
        rig.0.take(OTHER, UPDATE, &mut invalidations);
        let names =
            if epoch { vec![] } else { vec![StaleName { settling: true, ..stale(OTHER, "b") }] };
        assert_eq!(invalidations.names, names, "the kernel trusts the new name");
    }
}

#[test]
fn a_rename_whose_outcome_its_reply_does_not_show_teaches_nothing() {
    let mut rig = Rig::default();
    rig.lookup("a", Some(entry(FILE, 1)), &[(DIR, UPDATE), (FILE, BOTH)]);
    let ticket = rig.send();
    // `b` is not known: it may be another name of the same inode, and then `a` stays.
    let op = MdsOp::Rename(Rename {
        parent: DIR,
        name: name("a"),
        new_parent: DIR,
        new_name: name("b"),
        flags: RenameFlags::default(),
    });
    let removed = MdsReply::Removed(Removed { fid: Fid::NONE, nlink: 0 });
    rig.reply(ticket, &op, Ok(removed), &[(DIR, UPDATE), (FILE, BOTH)], &[]);
    assert_eq!((rig.knows("a"), rig.knows("b")), (Known::Nothing, Known::Nothing));
}

#[test]
fn a_rename_in_a_busy_directory_teaches_the_new_name() {
    for (nlink, known) in [(1, Known::To(FILE)), (2, Known::Nothing)] {
        let mut rig = Rig::default();
        rig.lookup("a", Some(entry(FILE, 1)), &[(FILE, BOTH)]);
        let ticket = rig.send();
        let flags = RenameFlags::default();
        let op = MdsOp::Rename(Rename {
            parent: DIR,
            name: name("a"),
            new_parent: DIR,
            new_name: name("b"),
            flags,
        });
        let removed = MdsReply::Removed(Removed { fid: Fid::NONE, nlink: 0 });
        let mut moved = entry(FILE, 2);
        moved.attr.nlink = nlink;
        rig.reply(ticket, &op, Ok(removed), &[(FILE, BOTH)], &[moved]);
        assert_eq!((rig.knows("a"), rig.knows("b")), (Known::Nothing, known), "{nlink} names");
        assert_eq!(rig.0.take_pending().all_names, nlink == 2, "the kernel moved its trust along");
    }
}
