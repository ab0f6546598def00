//! Tests of `statahead`.

use super::*;
use crate::ahead::windows::testing::{DIR, at, fid, listing, name};
use crate::ahead::windows::{DIRECTORIES_MAX, TRIAL, USED_ONE_IN, WINDOW_FIRST, WINDOW_MAX};
use std::collections::BTreeSet;

/// Looks at entries in this order; the number of waits. A window is there at once.
fn waits(count: usize, order: impl Iterator<Item = usize>) -> usize {
    let (mut statahead, listing) = (Statahead::default(), listing(count));
    let (mut known, mut fetched) = (BTreeSet::new(), BTreeSet::new());
    let mut waits = 0;
    for n in order {
        if known.contains(&fid(n)) {
            _ = statahead.hit(DIR);
            continue;
        }
        waits += 1;
        match statahead.miss((DIR, &name(n)), Some(listing.clone()), WINDOW_MAX, |_| false, at(0)) {
            OnMiss::Ask => _ = known.insert(fid(n)),
            OnMiss::Fetch(window) => {
                assert!(window.fids.contains(&fid(n)) && window.fids.len() <= WINDOW_MAX);
                assert!(
                    window.fids.iter().all(|fid| fetched.insert(*fid)),
                    "nothing is fetched twice"
                );
                known.extend(window.fids);
            }
            OnMiss::Wait(_) => panic!("nothing is on its way"),
        }
    }
    waits
}

#[test]
fn a_large_directory_costs_few_waits_in_any_order() {
    let count = 100_000;
    assert!(waits(count, 0..count) <= 13, "{}", waits(count, 0..count));
    // By inode of a directory whose names say nothing about it: 7,919 is prime to the count.
    let hashed = (0..count).map(|n| n * 7_919 % count);
    assert!(waits(count, hashed.clone()) <= 13, "{}", waits(count, hashed));
    assert_eq!(waits(16, 0..16), 2);
}

/// Looks at all entries in order. Until this many waits an MDT without room grants nothing for
/// what is fetched. Returns waits, and entries that were fetched again.
fn waits_without_locks(count: usize, until: usize) -> (usize, u64) {
    let (mut statahead, listing) = (Statahead::default(), listing(count));
    let (mut known, mut fetched) = (BTreeSet::new(), BTreeSet::new());
    let mut waits = 0;
    for n in 0..count {
        if known.contains(&fid(n)) {
            _ = statahead.hit(DIR);
            continue;
        }
        waits += 1;
        let is_known = |fid: Fid| known.contains(&fid);
        let listing = Some(listing.clone());
        match statahead.miss((DIR, &name(n)), listing, WINDOW_MAX, is_known, at(0)) {
            OnMiss::Ask => _ = known.insert(fid(n)),
            // The lookup asks for itself then.
            OnMiss::Fetch(window) if waits <= until => {
                known.insert(fid(n));
                fetched.extend(window.fids);
            }
            OnMiss::Fetch(window) => {
                let is_lost = window.fids.iter().any(|fid| fetched.contains(fid));
                assert_eq!(window.again, is_lost, "what came without locks is paused");
                known.extend(window.fids);
            }
            OnMiss::Wait(_) => panic!("nothing is on its way"),
        }
    }
    (waits, statahead.directories.all[&DIR].again.fetched)
}

#[test]
fn what_came_without_locks_is_fetched_again_in_few_waits() {
    let count = 50_000;
    let (waits, again) = waits_without_locks(count, 40);
    assert!(waits <= 60 && again <= count as u64, "{waits} waits, {again} fetched again");
    // The MDT never has room.
    let (waits, again) = waits_without_locks(count, usize::MAX);
    assert!(waits == count && again <= 2 * count as u64, "{waits} waits, {again} in vain");
}

#[test]
fn looks_at_what_others_change_all_the_time_fetch_little_of_the_rest() {
    let (mut statahead, listing) = (Statahead::default(), listing(100_000));
    let looks = 1000;
    let mut fetched = 0;
    for look in 0..looks {
        let n = [7, 30_000, 60_000][look % 3];
        let listing = Some(listing.clone());
        let miss = statahead.miss((DIR, &name(n)), listing, WINDOW_MAX, |_| false, at(0));
        if let OnMiss::Fetch(window) = miss {
            fetched += window.fids.len();
        }
    }
    let once = fetched - statahead.directories.all[&DIR].again.fetched as usize;
    assert!(once <= 2 * WINDOW_MAX, "{once}");
    let most = TRIAL as usize + USED_ONE_IN as usize * looks;
    assert!(fetched - once <= most, "{fetched}");
}

#[test]
fn a_look_at_one_name_fetches_nothing_else() {
    let mut statahead = Statahead::default();
    let miss = |statahead: &mut Statahead, n, listing| {
        statahead.miss((DIR, &name(n)), listing, WINDOW_MAX, |_| false, at(0))
    };
    assert!(matches!(miss(&mut statahead, 3, Some(listing(10))), OnMiss::Ask));
    assert!(matches!(miss(&mut Statahead::default(), 3, None), OnMiss::Ask), "no listing is known");
    assert!(matches!(miss(&mut statahead, 99, None), OnMiss::Ask), "the listing has no such name");
    assert!(
        matches!(statahead.miss((DIR, &name(4)), None, 0, |_| false, at(0)), OnMiss::Ask),
        "switched off"
    );
    // The listing is remembered: a change of the directory does not end its use.
    assert!(matches!(miss(&mut statahead, 5, None), OnMiss::Fetch(_)));
}

#[test]
fn what_is_on_its_way_is_waited_for() {
    let (mut statahead, listing) = (Statahead::default(), listing(10));
    let mut miss =
        |n| statahead.miss((DIR, &name(n)), Some(listing.clone()), WINDOW_MAX, |_| false, at(0));
    assert!(matches!(miss(0), OnMiss::Ask));
    let OnMiss::Fetch(window) = miss(1) else { panic!("the second miss fetches") };
    assert_eq!(window.fids, (1..10).chain([0]).map(fid).collect::<Vec<_>>());
    assert!(matches!(miss(7), OnMiss::Wait(_)));
    drop(window);
    assert!(matches!(miss(7), OnMiss::Ask), "it was called back meanwhile");
}

#[test]
fn a_directory_that_is_fetched_in_vain_is_left_alone_for_a_while() {
    let mut statahead = Statahead::default();
    let fetches = |statahead: &mut Statahead, second| {
        let listing = listing(2 * WINDOW_MAX);
        let mut fetched = 0;
        for n in [0, 1, 10_000, 20_000, 30_000, 31_000] {
            let on_miss = statahead.miss(
                (DIR, &name(n)),
                Some(listing.clone()),
                WINDOW_MAX,
                |_| false,
                at(second),
            );
            fetched += usize::from(matches!(on_miss, OnMiss::Fetch(_)));
        }
        fetched
    };
    assert_eq!(fetches(&mut statahead, 0), 4);
    assert_eq!(fetches(&mut statahead, 1), 0, "nothing of it was looked at");
    assert_eq!(statahead.figures().wrong, 1);
    assert_eq!(fetches(&mut statahead, 30), 0);
    assert_eq!(fetches(&mut statahead, 31), 4);
    assert_eq!(fetches(&mut statahead, 40), 0);
    assert_eq!(fetches(&mut statahead, 40 + 59), 0, "twice as long");
    assert_eq!(fetches(&mut statahead, 40 + 60), 4);
    (0..500).for_each(|_| _ = statahead.hit(DIR));
    assert_eq!(fetches(&mut statahead, 40 + 61), 4);
}

#[test]
fn looks_at_the_first_page_fetch_the_rest_if_it_was_listed_without_attributes() {
    let (mut statahead, listing) = (Statahead::default(), listing(5000));
    let is_known = |known: Fid| (0..1024).any(|n| fid(n) == known);
    assert!((0..9).all(|_| !statahead.hit(DIR)), "its attributes came with it");
    statahead.named(DIR);
    assert!(!statahead.hit(DIR) && !statahead.hit(DIR) && statahead.hit(DIR));
    let rest = |statahead: &mut Statahead| {
        let listing = Some(listing.clone());
        statahead.rest((DIR, &name(2)), listing, WINDOW_MAX, is_known, at(0))
    };
    let window = rest(&mut statahead).expect("what it will look at");
    assert_eq!(window.fids, (1024..1024 + WINDOW_FIRST).map(fid).collect::<Vec<_>>());
    assert!(
        (1..WINDOW_FIRST / GOES_ON_AFTER as usize).all(|_| !statahead.hit(DIR)),
        "enough is on its way"
    );
    assert!(statahead.hit(DIR));
    let window = rest(&mut statahead).expect("the next window");
    assert_eq!(window.fids, (1024 + WINDOW_FIRST..5000).map(fid).collect::<Vec<_>>());
    assert!((0..5000).all(|_| !statahead.hit(DIR)), "that is all");
}

#[test]
fn a_directory_that_is_listed_from_memory_is_fetched_from_its_first_miss_on() {
    let mut statahead = Statahead::default();
    let listing = listing(10);
    let miss = |statahead: &mut Statahead, n, known: bool| {
        let listing = Some(listing.clone());
        statahead.miss((DIR, &name(n)), listing, WINDOW_MAX, |_| known, at(0))
    };
    // What was fetched for one listing is called back before the next one.
    for _ in 0..3 {
        assert!(statahead.listed_again(DIR, listing.clone(), at(0)));
        let OnMiss::Fetch(window) = miss(&mut statahead, 4, false) else { panic!("it waits") };
        assert_eq!(window.fids, (4..10).chain(0..4).map(fid).collect::<Vec<_>>());
    }
}

#[test]
fn a_directory_at_rest_is_not_listed_from_memory() {
    let (mut statahead, listing) = (Statahead::default(), listing(2 * WINDOW_MAX));
    let again = |statahead: &mut Statahead, at| statahead.listed_again(DIR, listing.clone(), at);
    assert!(again(&mut statahead, at(0)));
    for n in [0, 10_000, 20_000] {
        let listing = Some(listing.clone());
        _ = statahead.miss((DIR, &name(n)), listing, WINDOW_MAX, |_| false, at(0));
    }
    assert!(!again(&mut statahead, at(1)), "nothing of it was looked at");
    assert!(!again(&mut statahead, at(30)) && again(&mut statahead, at(31)));
}

#[test]
fn what_locks_cover_is_not_fetched() {
    let (mut statahead, listing) = (Statahead::default(), listing(100));
    let mut miss = |n| {
        let is_known = |fid: Fid| !fid.oid.is_multiple_of(10);
        statahead.miss((DIR, &name(n)), Some(listing.clone()), WINDOW_MAX, is_known, at(0))
    };
    assert!(matches!(miss(0), OnMiss::Ask));
    let OnMiss::Fetch(window) = miss(10) else { panic!("the second miss fetches") };
    assert_eq!(window.fids, (1..10).chain([0]).map(|n| fid(10 * n)).collect::<Vec<_>>());
}

#[test]
fn few_directories_are_watched() {
    let mut statahead = Statahead::default();
    for n in 0..2 * DIRECTORIES_MAX {
        statahead.miss((fid(n), &name(0)), Some(listing(1)), WINDOW_MAX, |_| false, at(0));
    }
    assert_eq!(statahead.directories.all.len(), DIRECTORIES_MAX);
    assert!(statahead.directories.all.contains_key(&fid(2 * DIRECTORIES_MAX - 1)));
}
