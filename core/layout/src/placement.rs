//! Choice of the OSTs that a component gets.
//!
//! OSTs are taken round robin while the free space of all candidates is within 17 % of each other
//! (Lustre's `qos_threshold_rr`). Otherwise they are drawn by free space, so that empty OSTs fill
//! faster. The choice is deterministic: all randomness is in the [`Rotor`], which the caller seeds
//! once and keeps. OSTs that are inactive, full or outside the pool are never chosen.

use types::target::TargetIndex;

/// Difference in free space, percent of the largest, above which free space decides.
pub const THRESHOLD_RR_PERCENT: u64 = 17;
/// An OST is full with less than one part in this many of its space free.
pub const FULL_PART: u64 = 1000;

/// What the caller knows of one OST.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OstSpace {
    /// Index of the OST.
    pub index: TargetIndex,
    /// Bytes free.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
    /// In service, and not set aside by an administrator.
    pub active: bool,
}

/// What the component asks for.
#[derive(Clone, Copy, Debug)]
pub struct Want<'a> {
    /// Stripes, from 1; [`crate::layout::ALL_OSTS`] = one on each OST.
    pub count: u16,
    /// More stripes than OSTs allowed: they go round again.
    pub overstriped: bool,
    /// Only these; `None` = any.
    pub pool: Option<&'a [TargetIndex]>,
    /// One: the first stripe goes there, the next ones to the OSTs after it (`lfs setstripe -i`).
    /// More: the OST of each stripe, whatever `count` says (`lfs setstripe -o`). Empty: any OSTs.
    pub wanted: &'a [TargetIndex],
}

/// Memory of the allocator: how many stripes it has placed. Start it at a random number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rotor(pub u64);

/// No OSTs fit the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoSpace {
    /// No OST is left after all exclusions.
    #[error(
        "no OST can take an object: {full} full, {inactive} inactive, {outside} outside the pool"
    )]
    Nowhere {
        /// OSTs without room.
        full: usize,
        /// OSTs that are down, or take no new objects.
        inactive: usize,
        /// OSTs that are not in the pool.
        outside: usize,
    },
    /// The OST asked for is not among those that can.
    #[error("OST{:04x} cannot take an object", .0.0)]
    First(TargetIndex),
}

/// Chooses an OST for each stripe. `osts` must be ordered by index. Without overstriping fewer than
/// `want.count` come back if there are fewer OSTs; never none, never more than `STRIPES_MAX`.
///
/// # Errors
/// [`NoSpace`].
pub fn choose(
    osts: &[OstSpace],
    want: &Want<'_>,
    rotor: &mut Rotor,
) -> Result<Vec<TargetIndex>, NoSpace> {
    let usable = candidates(osts, want.pool)?;
    let n = usable.len();
    let wanted = match want.count {
        crate::layout::ALL_OSTS => n,
        count if want.overstriped => usize::from(count.max(1)),
        count => usize::from(count.max(1)).min(n),
    }
    .min(types::limits::STRIPES_MAX);
    let distinct = wanted.min(n);
    let at = |wanted: &TargetIndex| {
        usable.iter().position(|o| o.index == *wanted).ok_or(NoSpace::First(*wanted))
    };
    let mut chosen = match want.wanted {
        [_, _, ..] => {
            want.wanted.iter().try_for_each(|ost| at(ost).map(|_| ()))?;
            rotor.0 = rotor.0.wrapping_add(want.wanted.len() as u64);
            return Ok(want.wanted.to_vec());
        }
        [first] => {
            let at = at(first)?;
            (0..distinct).map(|i| usable[(at + i) % n].index).collect()
        }
        [] if balanced(&usable) => {
            let at = round_robin_start(rotor.0, distinct as u64, n as u64);
            (0..distinct).map(|i| usable[(at + i) % n].index).collect()
        }
        [] => by_free_space(usable, distinct, rotor.0),
    };
    while chosen.len() < wanted {
        chosen.push(chosen[chosen.len() - distinct]);
    }
    rotor.0 = rotor.0.wrapping_add(wanted as u64);
    Ok(chosen)
}

fn candidates(osts: &[OstSpace], pool: Option<&[TargetIndex]>) -> Result<Vec<OstSpace>, NoSpace> {
    let (mut usable, mut full, mut inactive, mut outside) = (Vec::new(), 0, 0, 0);
    for ost in osts {
        if pool.is_some_and(|pool| !pool.contains(&ost.index)) {
            outside += 1;
        } else if !ost.active {
            inactive += 1;
        } else if ost.free <= ost.total / FULL_PART {
            full += 1;
        } else {
            usable.push(*ost);
        }
    }
    if usable.is_empty() { Err(NoSpace::Nowhere { full, inactive, outside }) } else { Ok(usable) }
}

fn balanced(osts: &[OstSpace]) -> bool {
    let most = osts.iter().map(|o| o.free).max().unwrap_or(0);
    let least = osts.iter().map(|o| o.free).min().unwrap_or(0);
    u128::from(most) * u128::from(100 - THRESHOLD_RR_PERCENT) <= u128::from(least) * 100
}

/// After every whole round the start moves on by one. Otherwise, with 2 stripes on 4 OSTs, first
/// stripes (and with them all small files) would land on only two of them.
fn round_robin_start(placed: u64, count: u64, n: u64) -> usize {
    let (mut a, mut b) = (count, n);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    let round = count / a * n;
    ((placed % n + (placed / round) % n) % n) as usize
}

/// Draws without putting back, each OST as likely as its free space says (counted in 64 KiB, so
/// that sums fit).
fn by_free_space(mut osts: Vec<OstSpace>, count: usize, seed: u64) -> Vec<TargetIndex> {
    let weight = |o: &OstSpace| (o.free >> 16) + 1;
    let mut chosen = Vec::with_capacity(count);
    let mut random = seed;
    for _ in 0..count {
        let sum: u64 = osts.iter().map(weight).sum();
        random = mix(random);
        let mut at = ((u128::from(random) * u128::from(sum)) >> 64) as u64;
        let mut index = 0;
        while at >= weight(&osts[index]) {
            at -= weight(&osts[index]);
            index += 1;
        }
        chosen.push(osts.remove(index).index);
    }
    chosen
}

/// SplitMix64: one step of a well-mixed sequence.
fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::ALL_OSTS;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;
    const ONE: Want<'_> = Want { count: 1, overstriped: false, pool: None, wanted: &[] };

    fn osts(free: &[u64]) -> Vec<OstSpace> {
        let ost = |(i, free): (u16, &u64)| OstSpace {
            index: TargetIndex(i),
            free: *free,
            total: 100 * GIB,
            active: true,
        };
        (0..).zip(free).map(ost).collect()
    }

    fn counts(osts: &[OstSpace], want: &Want<'_>, files: usize) -> (Vec<usize>, Vec<usize>) {
        let (mut rotor, mut all, mut first) = (Rotor(0), vec![0; osts.len()], vec![0; osts.len()]);
        for _ in 0..files {
            let chosen = choose(osts, want, &mut rotor).unwrap();
            first[usize::from(chosen[0].0)] += 1;
            chosen.iter().for_each(|o| all[usize::from(o.0)] += 1);
        }
        (all, first)
    }

    #[test]
    fn equal_osts_get_equal_shares_of_stripes_and_of_first_stripes() {
        for count in 1..=4 {
            let (all, first) = counts(
                &osts(&[50 * GIB, 45 * GIB, 50 * GIB, 42 * GIB]),
                &Want { count, ..ONE },
                48,
            );
            assert_eq!(all, [12 * usize::from(count); 4], "count {count}");
            assert_eq!(first, [12; 4], "count {count}");
        }
    }

    #[test]
    fn unequal_osts_fill_by_free_space() {
        let (all, _) = counts(&osts(&[10 * GIB, 60 * GIB, 30 * GIB]), &ONE, 10_000);
        assert!((800..1200).contains(&all[0]), "{all:?}");
        assert!((5600..6400).contains(&all[1]), "{all:?}");
    }

    #[test]
    fn seventeen_percent_is_the_border() {
        assert!(balanced(&osts(&[100 * GIB, 83 * GIB])));
        assert!(!balanced(&osts(&[100 * GIB, 82 * GIB])));
    }

    #[test]
    fn the_excluded_are_never_chosen_and_counted_in_the_error() {
        let mut osts = osts(&[50 * GIB, 50 * GIB, 50 * GIB, GIB / 20]);
        osts[0].active = false;
        let pool = [TargetIndex(0), TargetIndex(2), TargetIndex(3)];
        let want = Want { count: ALL_OSTS, pool: Some(&pool), ..ONE };
        assert_eq!(choose(&osts, &want, &mut Rotor(0)), Ok(vec![TargetIndex(2)]));
        osts[2].free = 0;
        let none = NoSpace::Nowhere { full: 2, inactive: 1, outside: 1 };
        assert_eq!(choose(&osts, &want, &mut Rotor(0)), Err(none));
        assert_eq!(
            choose(&[], &ONE, &mut Rotor(0)).unwrap_err(),
            NoSpace::Nowhere { full: 0, inactive: 0, outside: 0 }
        );
    }

    #[test]
    fn osts_that_are_named_one_by_one_are_taken_or_refused() {
        let all = osts(&[GIB, 0, 5 * GIB, GIB]);
        let named = [TargetIndex(3), TargetIndex(0)];
        let want = Want { count: 2, wanted: &named, ..ONE };
        assert_eq!(choose(&all, &want, &mut Rotor(9)), Ok(named.to_vec()));
        let full = [TargetIndex(3), TargetIndex(1)];
        let refused = choose(&all, &Want { wanted: &full, ..want }, &mut Rotor(9));
        assert_eq!(refused, Err(NoSpace::First(TargetIndex(1))));
    }

    #[test]
    fn a_first_ost_is_obeyed_or_refused() {
        let osts = osts(&[50 * GIB, 9 * GIB, 0]);
        let want = Want { count: 2, wanted: &[TargetIndex(1)], ..ONE };
        assert_eq!(choose(&osts, &want, &mut Rotor(5)), Ok(vec![TargetIndex(1), TargetIndex(0)]));
        let want = Want { wanted: &[TargetIndex(2)], ..ONE };
        assert_eq!(choose(&osts, &want, &mut Rotor(5)), Err(NoSpace::First(TargetIndex(2))));
    }

    #[test]
    fn overstripes_go_round_again() {
        let want = Want { count: 5, overstriped: true, ..ONE };
        let chosen = choose(&osts(&[GIB, GIB]), &want, &mut Rotor(0)).unwrap();
        assert_eq!(chosen.iter().map(|o| o.0).collect::<Vec<_>>(), [0, 1, 0, 1, 0]);
        assert_eq!(
            choose(&osts(&[GIB, GIB]), &Want { count: 5, ..ONE }, &mut Rotor(0)).unwrap().len(),
            2
        );
    }

    proptest! {
        #[test]
        fn always_good_and_the_same_again(
            free in proptest::collection::vec(any::<u64>(), 1..40), count in 1u16..60, overstriped: bool, seed: u64,
        ) {
            let osts: Vec<_> = osts(&free).into_iter().map(|o| OstSpace { total: 0, ..o }).collect();
            let want = Want { count, overstriped, ..ONE };
            let (mut a, mut b) = (Rotor(seed), Rotor(seed));
            let chosen = choose(&osts, &want, &mut a);
            prop_assert_eq!(&chosen, &choose(&osts, &want, &mut b));
            prop_assert_eq!(a, b);
            let usable = free.iter().filter(|f| **f > 0).count();
            let Ok(chosen) = chosen else { prop_assert_eq!(usable, 0); return Ok(()) };
            let expected = if overstriped { usize::from(count) } else { usize::from(count).min(usable) };
            prop_assert_eq!(chosen.len(), expected);
            let mut distinct = chosen.clone();
            distinct.sort();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), expected.min(usable), "no OST twice before all have one");
            prop_assert!(chosen.iter().all(|o| free[usize::from(o.0)] > 0));
        }
    }
}
