//! Names and inodes of up to four MDTs that move, get and lose names: whole or not at all,
//! whichever of the MDTs die when, and the client with them.

use crate::by_hand::cuts::{Hand, at_every_step, rename};
use crate::by_hand::{Client, FIRST_MDT, assert_at_rest, name, run, start};
use sim::cluster::Cluster;
use sim::fault_profile::Commits;
use simenv::machine::Kill;
use std::time::Duration;
use types::errno::Errno;
use types::fid::Fid;
use types::target::TargetIndex;
use wire::mds::{
    Create, CreateKind, Getattr, Link, Lookup, MdsOp, MdsReply, Open, OpenFlags, Unlink,
};

/// No operation takes longer, if all are there and nothing has to be committed.
const OPERATION: Duration = Duration::from_millis(6);

impl Hand {
    fn mkdir(&self, cluster: &Cluster, parent: Fid, text: &str, at: u16) -> Fid {
        let create = Create {
            parent,
            name: name(text),
            kind: CreateKind::Directory { mdt: Some(TargetIndex(at)) },
            mode: 0o755,
            umask: 0,
            exclusive: true,
        };
        match self.asks(cluster, parent.mdt(), MdsOp::Create(create)) {
            Ok(MdsReply::Opened { entry, .. }) => entry.attr.fid,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn file(&self, cluster: &Cluster, parent: Fid, text: &str) -> Fid {
        let create = Create {
            parent,
            name: name(text),
            kind: CreateKind::Regular(None),
            mode: 0o644,
            umask: 0,
            exclusive: true,
        };
        match self.asks(cluster, parent.mdt(), MdsOp::Create(create)) {
            Ok(MdsReply::Opened { entry, .. }) => entry.attr.fid,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn leads(&self, cluster: &Cluster, parent: Fid, text: &str) -> Option<Fid> {
        let lookup = MdsOp::Lookup(Lookup { parent, name: name(text) });
        match self.asks(cluster, parent.mdt(), lookup) {
            Ok(MdsReply::Remote { fid, .. }) => Some(fid),
            Ok(MdsReply::Entry(entry)) => Some(entry.attr.fid),
            Err(Errno::ENOENT) => None,
            other => panic!("{text}: {other:?}"),
        }
    }
}

/// Directories `one` of MDT 1 and `two` of MDT 2; in the first one a directory `s` of MDT 3 and a
/// file `f`, in the second one an empty directory `r` of MDT 0.
struct Scene {
    one: Fid,
    two: Fid,
    s: Fid,
    r: Fid,
    f: Fid,
}

fn scene(cluster: &Cluster, hand: &Hand) -> Scene {
    let (one, two) =
        (hand.mkdir(cluster, Fid::ROOT, "one", 1), hand.mkdir(cluster, Fid::ROOT, "two", 2));
    let (s, r) = (hand.mkdir(cluster, one, "s", 3), hand.mkdir(cluster, two, "r", 0));
    let f = hand.file(cluster, one, "f");
    Scene { one, two, s, r, f }
}

/// The operations, the MDT that is asked for each, and whether it was done.
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// Over four MDTs: `one/s` replaces `two/r`.
    MoveDirectory,
    /// Over two: `one/f` becomes `two/f`.
    MoveFile,
    /// Over two: `one/f` gets the name `f` in the root.
    Link,
    /// Over two: `f` in the root goes.
    Unlink,
}

impl Deed {
    fn asked(self, scene: &Scene) -> (u16, MdsOp) {
        let Scene { one, two, f, .. } = *scene;
        match self {
            Deed::MoveDirectory => (2, rename((one, "s"), (two, "r"))),
            Deed::MoveFile => (2, rename((one, "f"), (two, "f"))),
            Deed::Link => {
                let (fid, new_parent, new_name) = (f, Fid::ROOT, name("f"));
                (0, MdsOp::Link(Link { fid, new_parent, new_name }))
            }
            Deed::Unlink => (0, MdsOp::Unlink(Unlink { parent: Fid::ROOT, name: name("f") })),
        }
    }

    /// Whether it was done, which all MDTs must tell in the same way.
    fn is_done(self, cluster: &Cluster, hand: &Hand, scene: &Scene, what: &str) -> bool {
        let Scene { one, two, s, r, f } = *scene;
        let leads = |dir, text: &str| hand.leads(cluster, dir, text);
        let nlink = |fid| hand.nlink(cluster, fid);
        let (found, before, after) = match self {
            Deed::MoveDirectory => (
                format!(
                    "{:?}",
                    (
                        leads(one, "s"),
                        leads(two, "r"),
                        nlink(r),
                        [nlink(one), nlink(two), nlink(s)]
                    )
                ),
                format!("{:?}", (Some(s), Some(r), Some(2), [Some(3), Some(3), Some(2)])),
                format!("{:?}", (None::<Fid>, Some(s), None::<u32>, [Some(2), Some(3), Some(2)])),
            ),
            Deed::MoveFile => (
                format!("{:?}", (leads(one, "f"), leads(two, "f"), nlink(f))),
                format!("{:?}", (Some(f), None::<Fid>, Some(1))),
                format!("{:?}", (None::<Fid>, Some(f), Some(1))),
            ),
            Deed::Link | Deed::Unlink => {
                let linked = format!("{:?}", (Some(f), Some(2)));
                let not = format!("{:?}", (None::<Fid>, Some(1)));
                let found = format!("{:?}", (leads(Fid::ROOT, "f"), nlink(f)));
                match self {
                    Deed::Link => (found, not, linked),
                    _ => (found, linked, not),
                }
            }
        };
        assert!(found == before || found == after, "{what}: half of it: {found}");
        if matches!(self, Deed::MoveDirectory) {
            let above = hand.asks(cluster, 3, MdsOp::GetParent(wire::mds::GetParent { fid: s }));
            let parent = if found == after { two } else { one };
            assert!(
                matches!(above, Ok(MdsReply::Remote { fid, .. }) if fid == parent),
                "{what}: {above:?}"
            );
        }
        found == after
    }
}

fn prepared(seed: u64, deed: Deed) -> (Cluster, Hand, Scene) {
    let (cluster, client) = start(seed, 4);
    let hand = Hand::new(&cluster, client, 1);
    let scene = scene(&cluster, &hand);
    if let Deed::Unlink = deed {
        let (mdt, link) = Deed::Link.asked(&scene);
        hand.asks(&cluster, mdt, link).expect("it is linked");
    }
    (cluster, hand, scene)
}

#[test]
fn names_move_over_four_mdts_and_inodes_get_and_lose_them() {
    let (cluster, hand, scene) = prepared(1, Deed::MoveDirectory);
    for deed in [Deed::MoveDirectory, Deed::Link, Deed::Unlink, Deed::MoveFile] {
        assert!(!deed.is_done(&cluster, &hand, &scene, "before"));
        let (mdt, op) = deed.asked(&scene);
        hand.asks(&cluster, mdt, op).unwrap_or_else(|errno| panic!("{deed:?}: {errno}"));
        assert!(deed.is_done(&cluster, &hand, &scene, "after"), "{deed:?}");
        assert_at_rest(&cluster, "after");
    }
}

#[test]
fn no_directory_moves_below_itself_over_mdts() {
    let (cluster, hand, scene) = prepared(2, Deed::MoveDirectory);
    let Scene { one, two, s, .. } = scene;
    let deep = hand.mkdir(&cluster, s, "deep", 0);
    let refused = |mdt, op, errno| assert_eq!(hand.asks(&cluster, mdt, op), Err(errno));
    refused(0, rename((Fid::ROOT, "one"), (deep, "x")), Errno::EINVAL);
    refused(3, rename((Fid::ROOT, "one"), (s, "x")), Errno::EINVAL);
    refused(0, rename((deep, "x"), (Fid::ROOT, "one")), Errno::ENOENT);
    // What is replaced must be empty.
    refused(1, rename((two, "r"), (one, "s")), Errno::ENOTEMPTY);
    let up = hand.asks(&cluster, 0, rename((s, "deep"), (Fid::ROOT, "deep")));
    up.expect("it may go up");
    assert_at_rest(&cluster, "after refusals");
}

fn cut_at_every_step(deed: Deed, seed: u64) {
    at_every_step(OPERATION, seed, |cut| {
        let (cluster, hand, scene) = prepared(cut.seed, deed);
        let what = format!("seed {}, {deed:?}, {:?} after {:?}", cut.seed, cut.harm, cut.after);
        cut.harms(&cluster, &hand, deed.asked(&scene), &what, |lives| {
            assert_at_rest(&cluster, &what);
            if lives {
                return deed.is_done(&cluster, &hand, &scene, &what);
            }
            let other = Hand::new(&cluster, Client::new(&cluster, 2, None), 2);
            deed.is_done(&cluster, &other, &scene, &what)
        })
    });
}

#[test]
fn a_move_of_a_directory_over_four_mdts_is_whole_after_a_power_cut_at_every_step() {
    cut_at_every_step(Deed::MoveDirectory, 1000);
}

#[test]
fn a_move_of_a_file_is_whole_after_a_power_cut_at_every_step() {
    cut_at_every_step(Deed::MoveFile, 2000);
}

#[test]
fn a_link_is_whole_after_a_power_cut_at_every_step() {
    cut_at_every_step(Deed::Link, 3000);
}

#[test]
fn an_unlink_is_whole_after_a_power_cut_at_every_step() {
    cut_at_every_step(Deed::Unlink, 4000);
}

/// An open for writing leaves the version of the file as it is. Another client has the file linked
/// by an operation over MDTs, which changes that version; then the MDT of the file loses power. It
/// does its part of the link before the first client, which lives, brings back the open.
#[test]
fn an_open_for_writing_is_not_lost_behind_a_link_over_mdts() {
    sim::log::start();
    let commits = Commits { interval: Duration::from_mins(10), pace_ms: (1, 5) };
    let cluster = Cluster::start(1, 4, commits, false);
    run(&cluster, Duration::from_secs(5));
    let [writer, other] =
        [1, 2].map(|number| Hand::new(&cluster, Client::new(&cluster, number, None), number));
    let one = writer.mkdir(&cluster, Fid::ROOT, "one", 1);
    let file = writer.file(&cluster, one, "f");
    // All this is durable, and both clients are known.
    for hand in [&writer, &other] {
        hand.asks(&cluster, 1, MdsOp::Sync).expect("it commits");
        assert_eq!(hand.nlink(&cluster, file), Some(1));
    }
    let flags = OpenFlags { write: true, ..OpenFlags::default() };
    writer.asks(&cluster, 1, MdsOp::Open(Open { fid: file, flags })).expect("it is opened");
    let link = Link { fid: file, new_parent: Fid::ROOT, new_name: name("l") };
    other.asks(&cluster, 0, MdsOp::Link(link)).expect("it has another name");
    cluster.kill_server(FIRST_MDT + 1, Kill::Power);
    // What waits for an answer is told if its client is evicted.
    let answer = writer.clients[1].ask(MdsOp::Getattr(Getattr::of(file)));
    run(&cluster, Duration::from_millis(300));
    cluster.start_server(FIRST_MDT + 1);
    run(&cluster, Duration::from_secs(10));
    match answer.lock().take() {
        Some(Ok(MdsReply::Entry(entry))) => assert_eq!(entry.attr.nlink, 2),
        answer => panic!("the writer is not served: {answer:?}"),
    }
}
