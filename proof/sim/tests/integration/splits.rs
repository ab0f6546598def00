//! Directories that are split and merged over four MDTs while power fails: each name stays in one
//! stripe, and in the end in the right one.

use crate::by_hand::cuts::Hand;
use crate::by_hand::{Answer, FIRST_MDT, assert_at_rest, name, run, start};
use check::check::{Check, FIRST, THEN};
use disk::inode::{ItemTag, item};
use layout::dir_stripes::{DirStripes, RECORD_XATTR};
use layout::lmv_ea;
use sim::cluster::Cluster;
use simenv::machine::Kill;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;
use types::dir_stripes::{DirDefault, DirHash, DirSpec};
use types::errno::Errno;
use types::fid::Fid;
use types::target::TargetIndex;
use wire::mds::{
    Create, CreateKind, Getxattr, Lookup, MdsOp, MdsReply, Readdir, Setxattr, SetxattrFlags,
};

/// Names of the directory, some of them of directories.
const NAMES: u32 = 24;
/// Longer than a split takes if all MDTs are there.
pub(crate) const LONGEST: Duration = Duration::from_millis(120);
/// MDTs that lose power at once.
pub(crate) const VICTIMS: [&[usize]; 6] = [&[0], &[1], &[2], &[1, 2], &[0, 3], &[0, 1, 2, 3]];

fn create(parent: Fid, text: &str, kind: CreateKind) -> MdsOp {
    MdsOp::Create(Create { parent, name: name(text), kind, mode: 0o755, umask: 0, exclusive: true })
}

fn made(answer: Result<MdsReply, Errno>) -> Fid {
    match answer {
        Ok(MdsReply::Opened { entry, .. }) => entry.attr.fid,
        other => panic!("{other:?}"),
    }
}

/// From so many stripes to so many.
#[derive(Clone, Copy, Debug)]
struct Restripe {
    from: u16,
    to: u16,
}

impl Restripe {
    fn asked(self, dir: Fid) -> MdsOp {
        let default = DirDefault { count: self.to, ..DirDefault::default() };
        let value = lmv_ea::encode_default(&default).into();
        let (name, flags) = (b"lustre.lmv".as_slice().into(), SetxattrFlags::default());
        MdsOp::Setxattr(Setxattr { fid: dir, name, value, flags })
    }
}

pub(crate) type Names = BTreeMap<String, Fid>;

/// The directory on MDT 1, its name on MDT 0.
pub(crate) fn prepared(seed: u64, from: u16) -> (Cluster, Hand, Fid, Names) {
    let (cluster, client) = start(seed, 4);
    let hand = Hand::new(&cluster, client, 1);
    let mdts: Vec<TargetIndex> =
        [1, 0, 2, 3].into_iter().take(from.into()).map(TargetIndex).collect();
    let kind = match mdts[..] {
        [mdt] => CreateKind::Directory { mdt: Some(mdt) },
        _ => CreateKind::Placed(DirSpec { count: from, hash: DirHash::Crush, mdts, any: false }),
    };
    let dir = made(hand.asks(&cluster, 0, create(Fid::ROOT, "d", kind)));
    let stripes = hand.record(&cluster, dir);
    let mut names = Names::new();
    for n in 0..NAMES {
        let text = format!("name{n:02}");
        let at = stripes.as_ref().map_or(dir, |stripes| stripes.place(text.as_bytes()));
        let kind = match n % 6 {
            0 => CreateKind::Directory { mdt: None },
            _ => CreateKind::Regular(None),
        };
        let fid = made(hand.asks(&cluster, at.mdt(), create(at, &text, kind)));
        names.insert(text, fid);
    }
    (cluster, hand, dir, names)
}

impl Hand {
    /// The record of the stripes of a directory, if it has any.
    pub(crate) fn record(&self, cluster: &Cluster, fid: Fid) -> Option<DirStripes> {
        let ask = Getxattr { fid, name: RECORD_XATTR.into() };
        match self.asks(cluster, fid.mdt(), MdsOp::Getxattr(ask)) {
            Ok(MdsReply::Bytes(value)) => Some(DirStripes::decode(&value).expect("stripes")),
            Err(Errno::ENODATA) => None,
            other => panic!("{other:?}"),
        }
    }
}

/// The stripes that the records of a directory say, which must be the same at all of them.
fn recorded(cluster: &Cluster, dir: Fid, what: &str) -> Option<DirStripes> {
    let mut all: BTreeMap<Fid, DirStripes> = BTreeMap::new();
    for record in cluster.mdt_records() {
        let Some(fid) = disk::key::inode_of(&record.key) else { continue };
        let inode = disk::inode::decode(fid, &record.value).expect("an inode");
        if let Some(bytes) = item(inode.tail, ItemTag::Stripes).expect("a tail") {
            all.insert(fid, DirStripes::decode(bytes).expect("stripes"));
        }
    }
    let stripes = all.get(&dir).cloned();
    let named = stripes.as_ref().map_or(&[][..], DirStripes::all);
    let mut named = named.to_vec();
    named.sort_unstable();
    assert_eq!(all.keys().copied().collect::<Vec<_>>(), named, "{what}: half of the stripes");
    assert!(all.values().all(|other| Some(other) == stripes.as_ref()), "{what}: they differ");
    stripes
}

pub(crate) fn is_marked(cluster: &Cluster) -> bool {
    cluster.mdt_records().iter().any(|record| record.key[0] == b'M')
}

/// Everything has come to rest, each name is where it belongs, and `sheen fsck` finds nothing.
pub(crate) fn assert_whole(
    cluster: &Cluster,
    dir: Fid,
    names: &Names,
    what: &str,
) -> Option<DirStripes> {
    assert_at_rest(cluster, what);
    for _ in 0..100 {
        if !is_marked(cluster) {
            break;
        }
        run(cluster, Duration::from_millis(500));
    }
    assert_at_rest(cluster, what);
    assert!(!is_marked(cluster), "{what}: names move without end");
    let stripes = recorded(cluster, dir, what);
    assert!(stripes.as_ref().is_none_or(|all| all.moving().is_none()), "{what}: {stripes:?}");
    let records = cluster.mdt_records();
    let mut found = Names::new();
    for record in &records {
        let Some((at, text)) = disk::key::entry_of(&record.key) else { continue };
        if at == Fid::ROOT {
            continue;
        }
        let place = stripes.as_ref().map_or(dir, |stripes| stripes.place(text));
        let text = String::from_utf8(text.to_vec()).expect("text");
        assert_eq!(at, place, "{what}: {text} is in a wrong stripe");
        let (fid, _) = disk::dirent::decode(&record.value).expect("an entry");
        assert_eq!(found.insert(text, fid), None, "{what}: twice");
    }
    assert_eq!(&found, names, "{what}: the names");
    let mut check = Check::default();
    for tag in FIRST.into_iter().chain(THEN) {
        for record in records.iter().filter(|record| record.key[0] == tag as u8) {
            check.record(record.mdt.0, &record.key, &record.value).expect("few inodes");
        }
    }
    let (findings, _) = check.finish();
    assert_eq!(findings, [], "{what}");
    stripes
}

/// Each name is found, and listed, where the record says.
pub(crate) fn assert_served(cluster: &Cluster, hand: &Hand, dir: Fid, names: &Names, what: &str) {
    let stripes = hand.record(cluster, dir);
    let mut listed = Vec::new();
    for stripe in stripes.as_ref().map_or(vec![dir], |stripes| stripes.all().to_vec()) {
        let (limit, bytes_max) = (1000, 1 << 20);
        let list = Readdir {
            fid: stripe,
            after: None,
            limit,
            bytes_max,
            with_attr: false,
            with_layout: false,
        };
        match hand.asks(cluster, stripe.mdt(), MdsOp::Readdir(list)) {
            Ok(MdsReply::Entries { entries, more: false }) => listed.extend(entries),
            other => panic!("{what}: {other:?}"),
        }
    }
    let listed: Names = listed
        .into_iter()
        .map(|entry| (String::from_utf8_lossy(entry.name.as_bytes()).into_owned(), entry.fid))
        .collect();
    assert_eq!(&listed, names, "{what}");
    for (text, fid) in names {
        let at = stripes.as_ref().map_or(dir, |stripes| stripes.place(text.as_bytes()));
        let look = MdsOp::Lookup(Lookup { parent: at, name: name(text) });
        let found = match hand.asks(cluster, at.mdt(), look) {
            Ok(MdsReply::Entry(entry)) => entry.attr.fid,
            Ok(MdsReply::Remote { fid, .. }) => fid,
            other => panic!("{what}: {text}: {other:?}"),
        };
        assert_eq!(found, *fid, "{what}: {text}");
    }
}

fn answered(cluster: &Cluster, answer: &Answer, what: &str) {
    crate::by_hand::cuts::assert_answered(cluster, answer, what);
}

/// Cuts the power of some MDTs at a moment, and again while names go on passing. Returns whether
/// names were moving at the first cut.
fn cut(seed: u64, restripe: Restripe, victims: &[usize], after: Duration) -> bool {
    let (cluster, hand, dir, names) = prepared(seed, restripe.from);
    let what = format!("seed {seed}, {restripe:?}, {victims:?} after {after:?}");
    let answer = hand.clients[1].ask(restripe.asked(dir));
    let mut moved = Vec::new();
    for _ in 0..2 {
        run(&cluster, after);
        moved.push(is_marked(&cluster));
        let servers = victims.iter().map(|mdt| FIRST_MDT + mdt);
        servers.clone().for_each(|server| cluster.kill_server(server, Kill::Power));
        run(&cluster, Duration::from_millis(300));
        servers.for_each(|server| cluster.start_server(server));
    }
    answered(&cluster, &answer, &what);
    let stripes = assert_whole(&cluster, dir, &names, &what).expect("stripes");
    assert_eq!(stripes.count(), restripe.to, "{what}");
    assert_served(&cluster, &hand, dir, &names, &what);
    moved[0]
}

fn cut_at_each_millisecond(restripe: Restripe, mut seed: u64) {
    let mut moved = 0;
    for (n, after) in (0..LONGEST.as_millis() as u64).enumerate() {
        seed += 1;
        let victims = VICTIMS[n % VICTIMS.len()];
        moved += u32::from(cut(seed, restripe, victims, Duration::from_millis(after)));
    }
    println!("{restripe:?}: names were moving at {moved} cuts");
    assert!(moved >= 20, "names were moving at {moved} cuts only");
}

#[test]
fn a_directory_is_split_and_merged() {
    let (cluster, hand, dir, names) = prepared(1, 1);
    for to in [4, 1, 3, 2] {
        let what = format!("to {to}");
        let restripe = Restripe { from: 0, to };
        hand.asks(&cluster, 1, restripe.asked(dir)).expect("it begins");
        let stripes = assert_whole(&cluster, dir, &names, &what).expect("stripes");
        assert_eq!((stripes.count(), stripes.all().len(), stripes.master()), (to, 4, dir));
        assert_served(&cluster, &hand, dir, &names, &what);
    }
    let refused = |to, errno: Errno| {
        let op = Restripe { from: 0, to }.asked(dir);
        assert_eq!(hand.asks(&cluster, 1, op), Err(errno));
    };
    refused(5, Errno::E2BIG);
    let shard = hand.record(&cluster, dir).expect("stripes").all()[1];
    let op = Restripe { from: 0, to: 4 }.asked(shard);
    assert_eq!(hand.asks(&cluster, shard.mdt(), op), Err(Errno::EREMCHG));
}

fn at_each_mdt(cluster: &Cluster, set: impl Fn(&mds::mds::Mds)) {
    (0..4).for_each(|mdt| set(&cluster.mdt(TargetIndex(mdt)).expect("a served MDT")));
}

/// Makes files with these numbers, each at the MDT of its name.
fn more(cluster: &Cluster, hand: &Hand, dir: Fid, names: &mut Names, numbers: Range<usize>) {
    for n in numbers {
        let text = format!("more{n:02}");
        let mut made = Err(Errno::EREMCHG);
        while made == Err(Errno::EREMCHG) {
            let stripes = hand.record(cluster, dir);
            let at = stripes.map_or(dir, |stripes| stripes.place(text.as_bytes()));
            made = hand.asks(cluster, at.mdt(), create(at, &text, CreateKind::Regular(None)));
        }
        names.insert(text, self::made(made));
    }
}

/// A directory that has become large, and was split by itself.
fn grown(seed: u64) -> (Cluster, Hand, Fid, Names) {
    let (cluster, hand, dir, mut names) = prepared(seed, 1);
    at_each_mdt(&cluster, |mdt| mdt.set_split_count(40).expect("a count"));
    more(&cluster, &hand, dir, &mut names, 0..60);
    let stripes = assert_whole(&cluster, dir, &names, "large").expect("stripes");
    assert_eq!((stripes.count(), stripes.master(), stripes.is_by_itself()), (4, dir, true));
    (cluster, hand, dir, names)
}

#[test]
fn a_directory_that_becomes_large_is_split_by_itself() {
    let (cluster, hand, dir, mut names) = grown(3);
    assert_served(&cluster, &hand, dir, &names, "large");
    // By now each name has its stripe, and its file is made there.
    more(&cluster, &hand, dir, &mut names, 60..100);
    let by_mdt = |mdt| names.values().filter(|fid| fid.mdt() == mdt).count();
    assert!([0, 2, 3].map(by_mdt).into_iter().all(|n| n > 0), "files are made on all MDTs");
}

#[test]
fn a_directory_that_became_small_is_merged_by_itself() {
    let (cluster, hand, dir, names) = grown(4);
    let count = |what: &str| assert_whole(&cluster, dir, &names, what).expect("stripes").count();
    at_each_mdt(&cluster, |mdt| mdt.set_merge_idle(20));
    run(&cluster, Duration::from_secs(60));
    assert_eq!(count("has many names"), 4);
    // Now that is few.
    at_each_mdt(&cluster, |mdt| mdt.set_split_count(1000).expect("a count"));
    at_each_mdt(&cluster, |mdt| mdt.set_merge_idle(0));
    run(&cluster, Duration::from_secs(60));
    assert_eq!(count("is not to be merged"), 4);
    at_each_mdt(&cluster, |mdt| mdt.set_merge_idle(20));
    run(&cluster, Duration::from_secs(60));
    assert_eq!(count("was left alone"), 1);
    assert_served(&cluster, &hand, dir, &names, "merged");
    // What an administrator has split stays so.
    hand.asks(&cluster, 1, Restripe { from: 1, to: 3 }.asked(dir)).expect("it begins");
    run(&cluster, Duration::from_secs(60));
    assert_eq!(count("was asked for"), 3);
}

#[test]
fn a_directory_is_split_whatever_loses_power_when() {
    cut_at_each_millisecond(Restripe { from: 1, to: 4 }, 10_000);
}

#[test]
fn a_directory_is_merged_whatever_loses_power_when() {
    cut_at_each_millisecond(Restripe { from: 4, to: 1 }, 20_000);
}

#[test]
fn a_directory_gets_one_stripe_more_whatever_loses_power_when() {
    cut_at_each_millisecond(Restripe { from: 2, to: 3 }, 30_000);
}
