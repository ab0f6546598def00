//! Directories over four MDTs: made, changed and removed whole, whichever of the MDTs die when, and
//! the client with them; and each name is in its stripe.

use crate::by_hand::cuts::{Hand, at_every_step, rename};
use crate::by_hand::{assert_at_rest, name, start};
use disk::inode::{ItemTag, item};
use layout::dir_stripes::{DirStripes, RECORD_XATTR, decode_default};
use layout::lmv_ea;
use sim::cluster::Cluster;
use std::time::Duration;
use types::attr::{Attr, SetAttr};
use types::dir_stripes::{DirDefault, DirHash, DirSpec, Levels};
use types::errno::Errno;
use types::fid::Fid;
use types::target::TargetIndex;
use wire::mds::{
    Create, CreateKind, Entry, Getattr, Getxattr, Lookup, MdsOp, MdsReply, Rmdir, Setattr,
    Setxattr, SetxattrFlags, Unlink,
};

/// No operation takes longer, if all are there and nothing has to be committed.
const OPERATION: Duration = Duration::from_millis(5);
/// The mode after [`Deed::Chmod`], and before.
const MODES: [u32; 2] = [0o2770, 0o755];

impl Hand {
    fn stripes(&self, cluster: &Cluster, fid: Fid) -> DirStripes {
        let ask = Getxattr { fid, name: RECORD_XATTR.into() };
        match self.asks(cluster, fid.mdt(), MdsOp::Getxattr(ask)) {
            Ok(MdsReply::Bytes(value)) => DirStripes::decode(&value).expect("stripes"),
            other => panic!("{other:?}"),
        }
    }
}

fn create(parent: Fid, text: &str, kind: CreateKind) -> MdsOp {
    let (mode, umask, exclusive) = (MODES[1], 0, true);
    MdsOp::Create(Create { parent, name: name(text), kind, mode, umask, exclusive })
}

/// The directory itself on MDT 1, its name on MDT 0.
fn mkdir(text: &str, mdts: &[u16]) -> MdsOp {
    let mdts: Vec<TargetIndex> = mdts.iter().copied().map(TargetIndex).collect();
    let spec = DirSpec { count: mdts.len() as u16, hash: DirHash::Crush, mdts, any: false };
    create(Fid::ROOT, text, CreateKind::Placed(spec))
}

fn made(answer: Result<MdsReply, Errno>) -> Fid {
    match answer {
        Ok(MdsReply::Opened { entry, .. }) => entry.attr.fid,
        other => panic!("{other:?}"),
    }
}

fn rmdir(text: &str) -> MdsOp {
    MdsOp::Rmdir(Rmdir { parent: Fid::ROOT, name: name(text) })
}

/// A name that belongs to this stripe.
fn name_in(stripes: &DirStripes, stripe: Fid, stem: &str) -> String {
    let mut names = (0..1000).map(|n| format!("{stem}{n}"));
    names.find(|name| stripes.place(name.as_bytes()) == stripe).expect("one of many")
}

/// What the records have: where the name leads, and of each stripe its FID, mode, and the stripes
/// that it names.
type Recorded = (Option<Fid>, Vec<(Fid, u32, DirStripes)>);

fn recorded(cluster: &Cluster) -> Recorded {
    let records = cluster.mdt_records();
    let key = disk::key::dirent(Fid::ROOT, b"d");
    let named = records
        .iter()
        .find(|record| record.key == key.as_bytes())
        .map(|record| disk::dirent::decode(&record.value).expect("an entry").0);
    let stripe = |record: &sim::cluster::MdtRecord| {
        let fid = disk::key::inode_of(&record.key)?;
        let inode = disk::inode::decode(fid, &record.value).expect("an inode");
        let bytes = item(inode.tail, ItemTag::Stripes).expect("a tail")?;
        Some((fid, inode.attr.mode & 0o7777, DirStripes::decode(bytes).expect("stripes")))
    };
    (named, records.iter().filter_map(stripe).collect())
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Deed {
    Make,
    Remove,
    Chmod,
}

impl Deed {
    fn asked(self, dir: Fid) -> (u16, MdsOp) {
        match self {
            Deed::Make => (0, mkdir("d", &[1, 0, 2, 3])),
            Deed::Remove => (0, rmdir("d")),
            Deed::Chmod => {
                let set = SetAttr { mode: Some(MODES[0]), ..SetAttr::default() };
                (1, MdsOp::Setattr(Setattr { fid: dir, set }))
            }
        }
    }

    /// Whether it was done, which the records of all MDTs must say in the same way.
    fn is_done(self, cluster: &Cluster, what: &str) -> bool {
        assert_at_rest(cluster, what);
        let (named, stripes) = recorded(cluster);
        let Some(dir) = named else {
            assert!(stripes.is_empty(), "{what}: half of it: {stripes:?}");
            assert_ne!(self, Deed::Chmod, "{what}: it is gone");
            return self == Deed::Remove;
        };
        assert_eq!(stripes.len(), 4, "{what}: half of it: {stripes:?}");
        let (_, mode, all) = &stripes[0];
        assert_eq!(all.master(), dir, "{what}");
        for (fid, its_mode, its_all) in &stripes {
            assert!(all.all().contains(fid) && its_all == all, "{what}: {stripes:?}");
            assert_eq!(its_mode, mode, "{what}: half of it");
        }
        match self {
            Deed::Make => true,
            Deed::Remove => false,
            Deed::Chmod => *mode == MODES[0],
        }
    }
}

fn prepared(seed: u64, deed: Deed) -> (Cluster, Hand, Fid) {
    let (cluster, client) = start(seed, 4);
    let hand = Hand::new(&cluster, client, 1);
    // The first one grants sequences.
    let dir = made(hand.asks(&cluster, 0, Deed::Make.asked(Fid::NONE).1));
    // A session with its MDT.
    assert_eq!(hand.nlink(&cluster, dir), Some(2));
    if deed == Deed::Make {
        hand.asks(&cluster, 0, rmdir("d")).expect("it is removed");
    }
    (cluster, hand, dir)
}

fn cut_at_every_step(deed: Deed, seed: u64) {
    at_every_step(OPERATION, seed, |cut| {
        let (cluster, hand, dir) = prepared(cut.seed, deed);
        let what = format!("seed {}, {deed:?}, {:?} after {:?}", cut.seed, cut.harm, cut.after);
        cut.harms(&cluster, &hand, deed.asked(dir), &what, |_| deed.is_done(&cluster, &what))
    });
}

#[test]
fn a_striped_directory_is_made_whole_after_a_power_cut_at_every_step() {
    cut_at_every_step(Deed::Make, 1000);
}

#[test]
fn a_striped_directory_is_removed_whole_after_a_power_cut_at_every_step() {
    cut_at_every_step(Deed::Remove, 2000);
}

#[test]
fn a_striped_directory_changes_as_a_whole_after_a_power_cut_at_every_step() {
    cut_at_every_step(Deed::Chmod, 3000);
}

#[test]
fn what_is_told_of_a_new_directory_is_what_its_mdt_has() {
    let (cluster, hand, _) = prepared(1, Deed::Make);
    // Its group and mode go to what is made in it.
    let above = made(hand.asks(
        &cluster,
        0,
        create(Fid::ROOT, "above", CreateKind::Directory { mdt: None }),
    ));
    let set = SetAttr { mode: Some(0o2755), gid: Some(7), ..SetAttr::default() };
    hand.asks(&cluster, 0, MdsOp::Setattr(Setattr { fid: above, set })).expect("it is changed");
    let elsewhere = CreateKind::Directory { mdt: Some(TargetIndex(1)) };
    let stripes = DirSpec { mdts: vec![TargetIndex(1), TargetIndex(0)], ..DirSpec::default() };
    let stripes = DirSpec { count: 2, ..stripes };
    for (text, kind) in [("plain", elsewhere), ("striped", CreateKind::Placed(stripes))] {
        let told = match hand.asks(&cluster, 0, create(above, text, kind)) {
            Ok(MdsReply::Opened { entry, created: true, layout: None, .. }) => *entry,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!((told.attr.gid, told.attr.mode & 0o7777, told.attr.fid.mdt()), (7, 0o2755, 1));
        assert_eq!(told.striped != 0, text == "striped");
        let ask = MdsOp::Getattr(Getattr::of(told.attr.fid));
        let Ok(MdsReply::Entry(has)) = hand.asks(&cluster, 1, ask) else { panic!("{text}") };
        let attr = Attr { version: told.attr.version, ..has.attr };
        assert_eq!(Entry { attr, ..*has }, told, "{text}: but for the version");
    }
}

#[test]
fn each_name_is_in_its_stripe() {
    let (cluster, hand, dir) = prepared(1, Deed::Chmod);
    assert_eq!(dir.mdt(), 1);
    let stripes = hand.stripes(&cluster, dir);
    assert_eq!(stripes.all().iter().map(|fid| fid.mdt()).collect::<Vec<_>>(), [1, 0, 2, 3]);
    let refused = |mdt, op, errno: Errno| assert_eq!(hand.asks(&cluster, mdt, op), Err(errno));
    let [a, b] = [stripes.all()[1], stripes.all()[2]];
    let (in_a, in_b) = (name_in(&stripes, a, "a"), name_in(&stripes, b, "b"));
    let file = |dir: Fid, text: &str| create(dir, text, CreateKind::Regular(None));
    for op in [
        file(a, &in_b),
        MdsOp::Lookup(Lookup { parent: a, name: name(&in_b) }),
        MdsOp::Unlink(Unlink { parent: a, name: name(&in_b) }),
        MdsOp::Rmdir(Rmdir { parent: a, name: name(&in_b) }),
        rename((a, &in_b), (a, &in_a)),
    ] {
        refused(a.mdt(), op, Errno::EREMCHG);
    }
    let fid = made(hand.asks(&cluster, a.mdt(), file(a, &in_a)));
    assert_eq!(fid.mdt(), a.mdt(), "a file is where its name is");
    refused(0, rmdir("d"), Errno::ENOTEMPTY);
    // To another stripe, and back: the inode stays where it is.
    hand.asks(&cluster, b.mdt(), rename((a, &in_a), (b, &in_b))).expect("it moves");
    refused(0, rmdir("d"), Errno::ENOTEMPTY);
    hand.asks(&cluster, a.mdt(), rename((b, &in_b), (a, &in_a))).expect("it moves back");
    // Subdirectories count in their stripe.
    let below = made(hand.asks(
        &cluster,
        a.mdt(),
        create(a, &name_in(&stripes, a, "s"), CreateKind::Directory { mdt: None }),
    ));
    assert_eq!(
        (below.mdt(), hand.nlink(&cluster, a), hand.nlink(&cluster, dir)),
        (a.mdt(), Some(3), Some(2))
    );
    // No directory moves below itself, by whatever stripe.
    let inner = name_in(&stripes, b, "x");
    refused(b.mdt(), rename((Fid::ROOT, "d"), (b, &inner)), Errno::EINVAL);
    refused(a.mdt(), rename((Fid::ROOT, "d"), (below, "x")), Errno::EINVAL);
    hand.asks(
        &cluster,
        a.mdt(),
        MdsOp::Rmdir(Rmdir { parent: a, name: name(&name_in(&stripes, a, "s")) }),
    )
    .expect("it goes");
    hand.asks(&cluster, a.mdt(), MdsOp::Unlink(Unlink { parent: a, name: name(&in_a) }))
        .expect("it goes");
    // An empty one is replaced with all of its stripes.
    hand.asks(&cluster, 0, create(Fid::ROOT, "plain", CreateKind::Directory { mdt: None }))
        .expect("made");
    hand.asks(&cluster, 0, rename((Fid::ROOT, "plain"), (Fid::ROOT, "d"))).expect("it is replaced");
    assert_at_rest(&cluster, "replaced");
    assert_eq!(recorded(&cluster).1, []);
}

#[test]
fn what_cannot_be_made_leaves_nothing() {
    let (cluster, client) = start(2, 3);
    let refused = |op, errno: Errno| assert_eq!(client.asks(&cluster, op), Err(errno));
    refused(mkdir("d", &[0, 7]), Errno::ERANGE);
    let spec = DirSpec { count: 4, ..DirSpec::default() };
    refused(create(Fid::ROOT, "d", CreateKind::Placed(spec)), Errno::E2BIG);
    let hand = made(client.asks(&cluster, mkdir("d", &[0, 1, 2])));
    refused(mkdir("d", &[0, 1, 2]), Errno::EEXIST);
    refused(mkdir("d", &[1]), Errno::EEXIST);
    assert_eq!(hand.mdt(), 0);
    assert_at_rest(&cluster, "after refusals");
    let (named, stripes) = recorded(&cluster);
    assert_eq!((named, stripes.len()), (Some(hand), 3));
    client.asks(&cluster, rmdir("d")).expect("it goes");
}

#[test]
fn directories_go_where_the_one_above_says() {
    let (cluster, client) = start(3, 3);
    let set = |fid: Fid, default: Option<&DirDefault>| {
        let value = default.map(lmv_ea::encode_default).unwrap_or_default().into();
        let name = b"lustre.dmv".as_slice().into();
        let set = Setxattr { fid, name, value, flags: SetxattrFlags::default() };
        client.asks(&cluster, MdsOp::Setxattr(set))
    };
    let make = |parent: Fid, text: &str| {
        made(client.asks(&cluster, create(parent, text, CreateKind::Directory { mdt: None })))
    };
    let top = make(Fid::ROOT, "top");
    let default = DirDefault {
        count: 2,
        hash: DirHash::Fnv1a64,
        mdt: Some(TargetIndex(0)),
        inherit: Levels::Some(2),
        by_turns: Levels::None,
    };
    let far = DirDefault { mdt: Some(TargetIndex(9)), ..default };
    assert_eq!(set(top, Some(&far)), Err(Errno::ERANGE));
    assert_eq!(set(top, Some(&DirDefault { count: 4, ..default })), Err(Errno::E2BIG));
    set(top, Some(&default)).expect("a default");
    let striped = |fid: Fid| -> (bool, Option<DirDefault>) {
        assert_at_rest(&cluster, "made");
        let record = cluster
            .mdt_records()
            .into_iter()
            .find(|record| disk::key::inode_of(&record.key) == Some(fid))
            .expect("its record");
        let inode = disk::inode::decode(fid, &record.value).expect("an inode");
        let default = item(inode.tail, ItemTag::DefaultStripes).expect("a tail");
        (
            item(inode.tail, ItemTag::Stripes).expect("a tail").is_some(),
            default.map(|bytes| decode_default(bytes).expect("a default")),
        )
    };
    let second = make(top, "second");
    let below = DirDefault { inherit: Levels::Some(1), ..default };
    assert_eq!((second.mdt(), striped(second)), (0, (true, Some(below))));
    let ask = Getxattr { fid: second, name: RECORD_XATTR.into() };
    let Ok(MdsReply::Bytes(value)) = client.asks(&cluster, MdsOp::Getxattr(ask)) else {
        panic!("stripes")
    };
    let stripes = DirStripes::decode(&value).expect("stripes");
    let third = make(second, &name_in(&stripes, second, "third"));
    assert_eq!(striped(third), (true, None), "the last level hands nothing on");
    // By turns: each round has each MDT once. It goes on where the last one ended.
    let turns = DirDefault { count: 1, mdt: None, by_turns: Levels::All, ..default };
    set(top, Some(&turns)).expect("another default");
    let at: Vec<u16> = (0..12).map(|n| make(top, &format!("t{n}")).mdt()).collect();
    let is_round = |round: &[u16]| (0..3).all(|mdt| round.contains(&mdt));
    let goes_round = |from: usize| at[from..].chunks_exact(3).all(is_round);
    assert!((0..3).any(goes_round), "{at:?}");
    set(top, None).expect("it goes");
    assert_eq!(make(top, "plain").mdt(), 0);
}
