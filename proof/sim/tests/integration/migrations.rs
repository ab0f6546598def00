//! Directories that go to other MDTs while power fails: each name stays in one stripe, and in the
//! end all are at the new MDTs, and nothing is left of the old inodes.

use crate::by_hand::cuts::Hand;
use crate::by_hand::{FIRST_MDT, run};
use crate::splits::{LONGEST, Names, VICTIMS, assert_served, assert_whole, is_marked, prepared};
use layout::dir_stripes::{DirStripes, MDTS_XATTR};
use sim::cluster::Cluster;
use simenv::machine::Kill;
use std::time::Duration;
use types::dir_stripes::DirSpec;
use types::errno::Errno;
use types::fid::Fid;
use types::target::TargetIndex;
use wire::mds::{Link, Lookup, MdsOp, MdsReply, Setxattr, SetxattrFlags};

fn spec(mdts: &[u16]) -> DirSpec {
    let count = mdts.len() as u16;
    let mdts = mdts.iter().copied().map(TargetIndex).collect();
    DirSpec { count, mdts, ..DirSpec::default() }
}

fn asked(fid: Fid, spec: &DirSpec) -> MdsOp {
    let (name, value) = (MDTS_XATTR.into(), spec.encode().into());
    MdsOp::Setxattr(Setxattr { fid, name, value, flags: SetxattrFlags::default() })
}

/// The inode that the directory has by now.
fn directory(cluster: &Cluster, hand: &Hand) -> Fid {
    let look = MdsOp::Lookup(Lookup { parent: Fid::ROOT, name: crate::by_hand::name("d") });
    match hand.asks(cluster, 0, look) {
        Ok(MdsReply::Entry(entry)) => entry.attr.fid,
        Ok(MdsReply::Remote { fid, .. }) => fid,
        other => panic!("{other:?}"),
    }
}

/// All names are at these MDTs, in an inode that is not the one from before.
fn assert_went(
    cluster: &Cluster,
    hand: &Hand,
    (before, names): (Fid, &Names),
    mdts: &[u16],
    what: &str,
) -> Fid {
    let dir = directory(cluster, hand);
    assert_ne!(dir, before, "{what}");
    let stripes = assert_whole(cluster, dir, names, what).expect("stripes");
    let at: Vec<u16> = stripes.all().iter().map(|fid| fid.mdt()).collect();
    assert_eq!(at, mdts, "{what}");
    assert_served(cluster, hand, dir, names, what);
    assert!(
        cluster.mdt_records().iter().all(|record| {
            disk::key::fid_of(&record.key) != Some(before)
                && disk::key::entry_of(&record.key).is_none_or(|(fid, _)| fid != before)
        }),
        "{what}: something is left of {before}"
    );
    dir
}

#[test]
fn a_directory_goes_to_other_mdts() {
    let (cluster, hand, mut dir, names) = prepared(1, 1);
    for mdts in [&[2][..], &[0], &[0, 3], &[3, 1, 0], &[1, 3], &[2, 1], &[3]] {
        let what = format!("to {mdts:?}");
        hand.asks(&cluster, dir.mdt(), asked(dir, &spec(mdts))).expect("it begins");
        // Asked for twice.
        let now = directory(&cluster, &hand);
        hand.asks(&cluster, now.mdt(), asked(now, &spec(mdts))).expect("it is on its way");
        let other = asked(now, &spec(&[(mdts[0] + 1) % 4]));
        if hand.record(&cluster, now).is_some_and(|stripes| stripes.moving().is_some()) {
            assert_eq!(hand.asks(&cluster, now.mdt(), other), Err(Errno::EBUSY), "{what}");
        }
        dir = assert_went(&cluster, &hand, (dir, &names), mdts, &what);
        hand.asks(&cluster, dir.mdt(), asked(dir, &spec(mdts))).expect("it is there");
        assert_eq!(directory(&cluster, &hand), dir, "{what}: it stays");
    }
    let refused = |fid: Fid, spec: &DirSpec, errno: Errno| {
        assert_eq!(hand.asks(&cluster, fid.mdt(), asked(fid, spec)), Err(errno));
    };
    refused(dir, &spec(&[4]), Errno::ERANGE);
    refused(dir, &DirSpec { count: 5, ..spec(&[1]) }, Errno::E2BIG);
    refused(Fid::ROOT, &spec(&[1]), Errno::EBUSY);
}

/// Names of one file in two stripes are found in two attempts, of which the second meets what the
/// first one has pinned.
#[test]
fn a_file_with_names_in_two_stripes_goes_to_other_mdts() {
    let (cluster, hand, dir, names) = prepared(4, 2);
    let stripes = hand.record(&cluster, dir).expect("stripes");
    let place = |text: &str| stripes.place(text.as_bytes());
    let find = |text: &str| {
        let look = Lookup { parent: place(text), name: crate::by_hand::name(text) };
        match hand.asks(&cluster, place(text).mdt(), MdsOp::Lookup(look)) {
            Ok(MdsReply::Entry(entry)) => entry.attr.fid,
            Ok(MdsReply::Remote { fid, .. }) => fid,
            other => panic!("{text}: {other:?}"),
        }
    };
    for text in ["name01", "name02", "name03"] {
        let mut others = (0..).map(|n| format!("{text}-{n}"));
        let other = others.find(|other| place(other) != place(text)).expect("one of all");
        let (new_parent, new_name) = (place(&other), crate::by_hand::name(&other));
        let link = MdsOp::Link(Link { fid: names[text], new_parent, new_name });
        hand.asks(&cluster, new_parent.mdt(), link).expect("a second name");
        for mdt in [2, 1, 0] {
            let fid = find(text);
            hand.asks(&cluster, fid.mdt(), asked(fid, &spec(&[mdt]))).expect("it goes");
            let now = find(text);
            assert_eq!((now.mdt(), find(&other)), (mdt, now), "{text}");
            assert_eq!(hand.nlink(&cluster, now), Some(2), "{text}");
        }
    }
}

#[test]
fn an_mdt_that_is_away_is_no_place_to_go() {
    let (cluster, hand, dir, names) = prepared(2, 1);
    cluster.kill_server(FIRST_MDT + 3, Kill::Power);
    run(&cluster, Duration::from_secs(6));
    let refused = hand.asks(&cluster, 1, asked(dir, &spec(&[3])));
    assert_eq!(refused, Err(Errno::ETIMEDOUT));
    assert_eq!(directory(&cluster, &hand), dir);
    // One that restarts is waited for.
    cluster.start_server(FIRST_MDT + 3);
    hand.asks(&cluster, 1, asked(dir, &spec(&[3]))).expect("it is there again");
    run(&cluster, Duration::from_secs(10));
    assert_went(&cluster, &hand, (dir, &names), &[3], "it is there again");
}

/// Cuts the power of some MDTs at a moment, and again while names go on passing. Returns whether
/// names were moving at the first cut.
fn cut(seed: u64, from: u16, mdts: &[u16], victims: &[usize], after: Duration) -> bool {
    let (cluster, hand, dir, names) = prepared(seed, from);
    let what = format!("seed {seed}, {from} to {mdts:?}, {victims:?} after {after:?}");
    let answer = hand.clients[1].ask(asked(dir, &spec(mdts)));
    let mut moved = Vec::new();
    for _ in 0..2 {
        run(&cluster, after);
        moved.push(is_marked(&cluster));
        let servers = victims.iter().map(|mdt| FIRST_MDT + mdt);
        servers.clone().for_each(|server| cluster.kill_server(server, Kill::Power));
        run(&cluster, Duration::from_millis(300));
        servers.for_each(|server| cluster.start_server(server));
    }
    // It may have gone before the request came again: then the old inode is a shard, or gone.
    for _ in 0..600 {
        if answer.lock().is_some() {
            break;
        }
        run(&cluster, Duration::from_millis(100));
    }
    let told = answer.lock().take().map(|answer| answer.map(drop).map_err(|e| e.errno()));
    assert!(
        matches!(told, Some(Ok(()) | Err(Errno::EREMCHG | Errno::ESTALE | Errno::ENOENT))),
        "{what}: {told:?}"
    );
    assert_went(&cluster, &hand, (dir, &names), mdts, &what);
    moved[0]
}

fn cut_at_each_millisecond(from: u16, mdts: &[u16], mut seed: u64) {
    let mut moved = 0;
    for (n, after) in (0..LONGEST.as_millis() as u64).enumerate() {
        seed += 1;
        let victims = VICTIMS[n % VICTIMS.len()];
        moved += u32::from(cut(seed, from, mdts, victims, Duration::from_millis(after)));
    }
    println!("{from} to {mdts:?}: names were moving at {moved} cuts");
    assert!(moved >= 20, "names were moving at {moved} cuts only");
}

#[test]
fn a_directory_goes_whatever_loses_power_when() {
    cut_at_each_millisecond(1, &[2], 40_000);
}

#[test]
fn a_striped_directory_goes_whatever_loses_power_when() {
    cut_at_each_millisecond(2, &[3, 1], 50_000);
}

/// So that the record that is compared is one.
#[test]
fn a_record_says_what_a_directory_leaves() {
    let (cluster, hand, dir, _) = prepared(3, 1);
    hand.asks(&cluster, 1, asked(dir, &spec(&[2]))).expect("it begins");
    let now = directory(&cluster, &hand);
    let stripes: DirStripes = hand.record(&cluster, now).expect("stripes");
    assert_eq!((stripes.master(), stripes.leaves()), (now, &[dir][..]));
}
