//! Ranges of names that are not there, in directories in which several clients make names at once.

use crate::rig::holder::*;
use crate::rig::*;
use std::sync::atomic::Ordering;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use wire::mds::{Create, CreateKind, Lookup, MdsOp, Rename, RenameFlags, Unlink};

const UPDATE: InodeBits = InodeBits::UPDATE;
const GAP: InodeBits = InodeBits::GAP;

fn lookup(name: &str) -> MdsOp {
    MdsOp::Lookup(Lookup { parent: Fid::ROOT, name: n(name) })
}

fn create(name: &str) -> MdsOp {
    let kind = CreateKind::Regular(None);
    MdsOp::Create(Create {
        parent: Fid::ROOT,
        name: n(name),
        kind,
        mode: 0o644,
        umask: 0,
        exclusive: true,
    })
}

/// Two clients, in a directory that both changed just now. It has the names `m1` and `m2`.
fn busy(rig: &Rig) -> (Holder, Holder) {
    let (a, b) = (rig.holder(10), rig.holder(11));
    rig.warm(&a, lookup("m1"));
    rig.warm(&a, create("m1"));
    rig.warm(&b, create("m2"));
    assert_eq!(a.revoked(), [(Fid::ROOT, UPDATE)]);
    (a, b)
}

/// The gap that comes with the answer that there is no such name.
fn gap(rig: &Rig, holder: &Holder, name: &str) -> Option<(String, String)> {
    let reply = rig.reply(holder, vec![lookup(name)]);
    assert_eq!(reply.results, [Err(Errno::ENOENT)]);
    assert!(reply.grants.iter().all(|grant| !grant.bits.contains(GAP)));
    let text = |bound: &[u8]| String::from_utf8_lossy(bound).into_owned();
    reply.gap.map(|gap| {
        assert_eq!(gap.dir, Fid::ROOT);
        (text(gap.names.start()), text(gap.names.end()))
    })
}

fn between(start: &str, end: &str) -> Option<(String, String)> {
    Some((start.to_owned(), end.to_owned()))
}

#[test]
fn only_who_cannot_have_the_directory_is_granted_a_gap() {
    let rig = Rig::new();
    let quiet = rig.holder(9);
    assert_eq!(gap(&rig, &quiet, "k"), None, "it has UPDATE");
    assert_eq!(rig.warm(&quiet, lookup("k")), [(Fid::ROOT, UPDATE)]);
    rig.gone(quiet.client);
    let (a, _) = busy(&rig);
    assert_eq!(gap(&rig, &a, "k"), between("k", "m1"));
    assert_eq!(gap(&rig, &a, "m11"), between("m11", "m2"));
    assert_eq!(gap(&rig, &a, "m3"), between("m3", ""));
    let mut request = rig.request(1000, &CREDENTIALS, vec![lookup("k")]);
    request.locks = InodeBits::ALL.difference(GAP);
    assert_eq!(wait(rig.mds.serve(&a.export, &mut request)).gap, None, "who cannot keep it");
    let found = rig.reply(&a, vec![lookup("m1")]);
    assert!(found.results[0].is_ok() && found.gap.is_none());
    a.at_rest();
}

#[test]
fn a_gap_is_called_back_for_foreign_names_in_it_only() {
    let rig = Rig::new();
    let (a, b) = busy(&rig);
    assert_eq!(gap(&rig, &a, "k"), between("k", "m1"));
    rig.warm(&b, create("j"));
    rig.warm(&b, create("n"));
    a.at_rest();
    // Nothing is made before the holder has answered.
    a.answers(Answer::Later);
    let made = rig.start(&b, create("l"));
    assert_eq!(a.revoked(), [(Fid::ROOT, GAP)]);
    assert_eq!(gap(&rig, &a, "k"), None, "it has not answered yet");
    assert!(!made.is_finished());
    a.answers(Answer::Done);
    assert!(made.join().unwrap().results[0].is_ok());
    assert_eq!(gap(&rig, &a, "k"), between("k", "l"));
    // Own names cut it; others may make what is below.
    assert_eq!(gap(&rig, &a, "o"), between("o", "p"), "they met once, at the first letter");
    rig.warm(&a, create("o5"));
    rig.warm(&b, create("o4"));
    a.at_rest();
    let flags = RenameFlags::default();
    let to = |name| {
        MdsOp::Rename(Rename {
            parent: Fid::ROOT,
            name: n("o4"),
            new_parent: Fid::ROOT,
            new_name: n(name),
            flags,
        })
    };
    rig.warm(&b, to("o6"));
    assert_eq!(a.revoked(), [(Fid::ROOT, GAP)]);
    // A client that is gone is in no other's way.
    assert_eq!(gap(&rig, &a, "xx"), between("xx", "xy"));
    rig.gone(a.client);
    rig.warm(&b, create("xx1"));
    a.at_rest();
}

#[test]
fn clients_with_names_of_their_own_meet_once() {
    let rig = Rig::new();
    let (a, b) = busy(&rig);
    for round in 0..20 {
        for (client, holder) in [("c1", &a), ("c2", &b)] {
            let name = format!("{client}.{round:03}");
            if round < 2 {
                gap(&rig, holder, &name);
            }
            rig.warm(holder, create(&name));
        }
    }
    // `c2.000` was made in the gap of `c1.000`, and `c1.001` in none any more.
    assert_eq!(a.revoked(), [(Fid::ROOT, GAP)]);
    a.at_rest();
    b.at_rest();
}

#[test]
fn a_gap_does_not_tell_of_a_removal_that_its_author_may_not_know() {
    let rig = Rig::new();
    let (a, b) = busy(&rig);
    rig.warm(&a, create("f"));
    rig.unheard.store(true, Ordering::Relaxed);
    rig.warm(&a, MdsOp::Unlink(Unlink { parent: Fid::ROOT, name: n("f") }));
    assert_eq!(gap(&rig, &b, "e"), between("e", "f"));
    a.at_rest();
    assert_eq!(gap(&rig, &b, "f"), None);
    assert!(!a.revoked().is_empty(), "who asks for that name waits for the author");
    assert_eq!(gap(&rig, &b, "e"), between("e", "m1"));
}
