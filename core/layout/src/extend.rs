//! Layouts that extend themselves: a component grows into the extension after it, bit by bit, as
//! long as its OSTs have room.
//!
//! A pair of components covers the range: one with OSTs that covers what was written, and an
//! *extension* without OSTs that covers the rest. A write that reaches into the extension takes
//! whole extension sizes from it. They go to:
//!
//! 1. the component before it, if all its OSTs have room for them (*extend*);
//! 2. else the component after it, if there is one and it finds room: it then begins earlier, and
//!    the extension is gone (*spill over*);
//! 3. else, if nothing is after it, a new component of the same shape on OSTs that have room
//!    (*repeat*);
//! 4. else the component before it all the same, because less than a whole extension may still fit
//!    (*forced*).
//!
//! No byte ever moves. An object keeps its bytes, because offsets count from byte 0 of the file
//! whatever a component covers, and only ranges that no object had are given out. So an old layout
//! is never wrong about a place; it only knows fewer of them.
//!
//! Pure: everything that is known of OSTs comes in.

use crate::check::verify;
use crate::layout::{ALL_OSTS, Component, Layout, Pattern, PoolName};
use crate::lov_ea::bytes_at_most;
use crate::placement::{FULL_PART, OstSpace, Rotor, Want, choose};
use std::sync::Arc;
use types::limits::XATTR_VALUE_BYTES_MAX;
use types::target::TargetIndex;

/// What the caller knows of the OSTs.
pub struct Osts<'a> {
    /// Space of all, ordered by index.
    pub spaces: &'a [OstSpace],
    /// Members of a pool. `None` if there is no such pool; its name then restricts nothing.
    pub pool: &'a dyn Fn(&PoolName) -> Option<Arc<[TargetIndex]>>,
}

/// True if a byte of `[start, end)` is in an extension.
pub fn is_needed(layout: &Layout, start: u64, end: u64) -> bool {
    extension_at(layout, start, end).is_some()
}

fn extension_at(layout: &Layout, start: u64, end: u64) -> Option<usize> {
    layout
        .components
        .iter()
        .position(|c| c.pattern == Pattern::Extension && c.start < end && start < c.end)
}

/// Takes `[start, end)` out of all extensions; returns whether there was anything to take.
/// Components without OSTs must then be instantiated as any others. The caller sets the generation.
pub fn extend(
    layout: &mut Layout,
    start: u64,
    end: u64,
    osts: &Osts<'_>,
    rotor: &mut Rotor,
) -> bool {
    let mut changed = false;
    // Each turn takes an extension away or clears it of the range: it ends.
    while let Some(at) = extension_at(layout, start, end) {
        changed = true;
        let reach = Reach::of(&layout.components[at], start, end);
        if grow_with_room(layout, at, reach, osts, rotor)
            || spill_over(layout, at, reach, osts, *rotor)
            || repeat(layout, at, reach, osts, rotor)
        {
            continue;
        }
        grow(layout, at, reach);
    }
    changed
}

/// The range that is taken from an extension.
#[derive(Clone, Copy)]
struct Reach {
    /// New start of the extension.
    to: u64,
    /// Bytes that must find room: the written ones, in whole extension sizes. Less than the growth
    /// where a file has a hole.
    bytes: u64,
}

impl Reach {
    fn of(extension: &Component, start: u64, end: u64) -> Reach {
        let size = extension.extension_size().unwrap_or(1).max(1);
        let whole = |bytes: u64| bytes.div_ceil(size).saturating_mul(size);
        let (from, until) = (extension.start.max(start), extension.end.min(end));
        let to = extension.start.saturating_add(whole(until - extension.start)).min(extension.end);
        Reach { to, bytes: whole(until - from).min(to - extension.start) }
    }
}

impl Osts<'_> {
    /// True if these OSTs together have room for `bytes` more.
    fn have_room(&self, stripes: &[TargetIndex], bytes: u64) -> bool {
        let each = bytes.div_ceil(stripes.len().max(1) as u64);
        stripes.iter().all(|ost| {
            // With overstriping an OST takes several shares.
            let shares = stripes.iter().filter(|other| *other == ost).count() as u64;
            self.spaces
                .iter()
                .any(|space| space.index == *ost && has_room(space, each.saturating_mul(shares)))
        })
    }

    /// OSTs with room for `bytes` together, for a component of this shape.
    fn with_room(&self, c: &Component, bytes: u64, rotor: &mut Rotor) -> Option<Vec<TargetIndex>> {
        let pool = c.pool.as_ref().and_then(|name| (self.pool)(name));
        let (pool, active) = (pool.as_deref(), self.spaces.iter().filter(|ost| ost.active));
        let active = active.filter(|ost| pool.is_none_or(|pool| pool.contains(&ost.index))).count();
        let wide = if c.stripe_count == ALL_OSTS {
            active
        } else {
            usize::from(c.stripe_count).min(active)
        };
        let each = bytes.div_ceil(wide.max(1) as u64);
        let roomy: Vec<OstSpace> =
            self.spaces.iter().copied().filter(|ost| has_room(ost, each)).collect();
        let want =
            Want { count: c.stripe_count, overstriped: c.overstriped, pool, wanted: &c.wanted };
        // With fewer OSTs than wanted, each must take more.
        choose(&roomy, &want, rotor).ok().filter(|chosen| self.have_room(chosen, bytes))
    }
}

fn has_room(ost: &OstSpace, bytes: u64) -> bool {
    ost.active && ost.free > ost.total / FULL_PART && ost.free - ost.total / FULL_PART >= bytes
}

fn grow_with_room(
    layout: &mut Layout,
    at: usize,
    reach: Reach,
    osts: &Osts<'_>,
    rotor: &mut Rotor,
) -> bool {
    let c = &mut layout.components[at - 1];
    if c.stripes.is_empty() {
        let bytes = reach.bytes.saturating_add(c.end - c.start);
        let Some(chosen) = osts.with_room(c, bytes, rotor) else { return false };
        c.instantiate(chosen);
    } else if !osts.have_room(&c.stripes, reach.bytes) {
        return false;
    }
    grow(layout, at, reach);
    true
}

fn grow(layout: &mut Layout, at: usize, reach: Reach) {
    layout.components[at - 1].end = reach.to;
    shrink(layout, at, reach.to);
}

fn shrink(layout: &mut Layout, at: usize, start: u64) {
    let extension = &mut layout.components[at];
    extension.start = start;
    if extension.is_empty() {
        layout.components.remove(at);
    }
}

fn spill_over(
    layout: &mut Layout,
    at: usize,
    reach: Reach,
    osts: &Osts<'_>,
    mut rotor: Rotor,
) -> bool {
    let start = layout.components[at].start;
    let Some(next) = layout.components.get(at + 1) else { return false };
    let there = match next.stripes.is_empty() {
        true => osts.with_room(next, reach.bytes, &mut rotor).is_some(),
        false => osts.have_room(&next.stripes, reach.bytes),
    };
    if !there {
        return false;
    }
    let next_extends =
        layout.components.get(at + 2).is_some_and(|c| c.pattern == Pattern::Extension);
    let next = &mut layout.components[at + 1];
    if next.is_empty() && next_extends {
        // The next component grows from here on.
        next.end = start;
        layout.components[at + 2].start = start;
    }
    layout.components[at + 1].start = start;
    layout.components.remove(at);
    if layout.components[at - 1].is_empty() {
        layout.components.remove(at - 1);
    }
    true
}

fn repeat(
    layout: &mut Layout,
    at: usize,
    reach: Reach,
    osts: &Osts<'_>,
    rotor: &mut Rotor,
) -> bool {
    let (before, last) = (&layout.components[at - 1], at + 1 == layout.components.len());
    if !last || before.stripes.is_empty() || before.is_empty() {
        return false;
    }
    let mut next = *rotor;
    let Some(chosen) = osts.with_room(before, reach.bytes, &mut next) else { return false };
    let (id, start, end) = (layout.next_instance(), layout.components[at].start, reach.to);
    let mut again = Component { id, start, end, ..before.clone() };
    again.instantiate(chosen);
    let mut longer = layout.clone();
    longer.components.insert(at, again);
    shrink(&mut longer, at + 1, end);
    // As long as the layout stays within the limits for storing and for showing it.
    if verify(&longer).is_err() || bytes_at_most(&longer, osts.spaces.len()) > XATTR_VALUE_BYTES_MAX
    {
        return false;
    }
    (*layout, *rotor) = (longer, next);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::EOF;
    use crate::samples::{plain, raid0};

    const MIB: u64 = 1 << 20;
    const SIZE: u64 = 64 * MIB;

    fn spaces(free: &[u64]) -> Vec<OstSpace> {
        let space = |(n, free): (u16, &u64)| OstSpace {
            index: TargetIndex(n),
            free: free * MIB,
            total: 1000 * MIB,
            active: true,
        };
        (0..).zip(free).map(space).collect()
    }

    fn extended(layout: &Layout, start: u64, end: u64, free: &[u64]) -> Layout {
        let (mut layout, before) = (layout.clone(), layout.clone());
        let (spaces, small) = (spaces(free), PoolName::new("small").unwrap());
        let pool = |name: &PoolName| (*name == small).then(|| Arc::from([TargetIndex(0)]));
        let osts = Osts { spaces: &spaces, pool: &pool };
        assert_eq!(
            is_needed(&before, start, end),
            extend(&mut layout, start, end, &osts, &mut Rotor(0))
        );
        assert_eq!(verify(&layout), Ok(()), "{layout:?}");
        assert!(!is_needed(&layout, start, end));
        layout
    }

    /// (start, end, OSTs, extension) in MiB; 0 as end: the end of the file.
    fn shape(layout: &Layout) -> Vec<(u64, u64, Vec<u16>, bool)> {
        let mib = |at: u64| if at == EOF { 0 } else { at / MIB };
        let osts = |c: &Component| c.stripes.iter().map(|ost| ost.0).collect();
        let row =
            |c: &Component| (mib(c.start), mib(c.end), osts(c), c.pattern == Pattern::Extension);
        layout.components.iter().map(row).collect()
    }

    fn extension(id: u32, start: u64, end: u64) -> Component {
        Component::extension(id, start, end, SIZE).unwrap()
    }

    /// One stripe on OST 0, then an extension to the end.
    fn one() -> Layout {
        let components = vec![raid0(1, 0, SIZE, 1 << 20, &[0]), extension(2, SIZE, EOF)];
        Layout { components, ..plain(&[]) }
    }

    /// As [`one`] up to 1 GiB, then two stripes.
    fn two_tiers(second_extends: bool) -> Layout {
        let mut layout = one();
        layout.components[1].end = 1024 * MIB;
        let mut next = raid0(3, 1024 * MIB, EOF, 1 << 20, &[]);
        next.stripe_count = 2;
        layout.components.push(next);
        if second_extends {
            layout.components[2].end = 1024 * MIB;
            layout.components.push(extension(4, 1024 * MIB, EOF));
        }
        layout
    }

    #[test]
    fn a_component_grows_while_its_osts_have_room() {
        let grown = extended(&one(), SIZE, SIZE + 1, &[500, 500]);
        assert_eq!(shape(&grown), [(0, 128, vec![0], false), (128, 0, vec![], true)]);
        // It grows as far as the write goes, in whole sizes; a hole needs no room.
        let grown = extended(&grown, 300 * MIB, 330 * MIB, &[100, 500]);
        assert_eq!(shape(&grown), [(0, 384, vec![0], false), (384, 0, vec![], true)]);
        assert_eq!(extended(&grown, 0, 384 * MIB, &[0, 0]), grown, "nothing to do");
        // To the end, where the extension is used up.
        let mut short = one();
        short.components[1].end = 100 * MIB;
        let grown = extended(&short, 99 * MIB, 101 * MIB, &[500]);
        assert_eq!(shape(&grown), [(0, 100, vec![0], false)]);
    }

    #[test]
    fn without_room_it_goes_on_in_the_next_component() {
        let spilt = extended(&two_tiers(false), SIZE, SIZE + 1, &[60, 500, 500]);
        assert_eq!(shape(&spilt), [(0, 64, vec![0], false), (64, 0, vec![], false)]);
        assert_eq!(spilt.components[1].id, 3);
        // A component that extends itself grows from there by its own size.
        let spilt = extended(&two_tiers(true), SIZE, SIZE + 1, &[20, 500, 500]);
        assert_eq!(
            shape(&spilt),
            [(0, 64, vec![0], false), (64, 128, vec![1, 2], false), (128, 0, vec![], true)]
        );
        // Into a component that has its OSTs already, if these have room.
        let mut written = two_tiers(false);
        written.components[2].instantiate(vec![TargetIndex(1), TargetIndex(2)]);
        let spilt = extended(&written, SIZE, SIZE + 1, &[60, 500, 500]);
        assert_eq!(shape(&spilt), [(0, 64, vec![0], false), (64, 0, vec![1, 2], false)]);
        let forced = extended(&written, SIZE, SIZE + 1, &[60, 500, 20]);
        assert_eq!(shape(&forced)[..2], [(0, 128, vec![0], false), (128, 1024, vec![], true)]);
    }

    #[test]
    fn one_that_was_never_written_is_passed_over() {
        let mut layout = two_tiers(false);
        layout.components.insert(0, raid0(9, 0, SIZE, 1 << 20, &[1]));
        let pool = PoolName::new("small");
        let first = &mut layout.components[1];
        (first.start, first.pool, first.stripe_count) = (SIZE, pool, 1);
        first.stripes.clear();
        let spilt = extended(&layout, SIZE, SIZE + 1, &[1, 500, 500]);
        assert_eq!(shape(&spilt), [(0, 64, vec![1], false), (64, 0, vec![], false)]);
        // If its OST has room, the component gets it, in its pool.
        let grown = extended(&layout, SIZE, SIZE + 1, &[70, 500, 500]);
        assert_eq!(shape(&grown)[1], (64, 128, vec![0], false));
    }

    #[test]
    fn the_last_one_is_repeated_on_other_osts() {
        let again = extended(&one(), SIZE, SIZE + 1, &[60, 10, 500]);
        assert_eq!(
            shape(&again),
            [(0, 64, vec![0], false), (64, 128, vec![2], false), (128, 0, vec![], true)]
        );
        assert_eq!(again.components[1].id, 3, "a number of its own");
        // Also in its turn, and only there.
        let third = extended(&again, 130 * MIB, 131 * MIB, &[60, 500, 20]);
        assert_eq!(shape(&third)[2..], [(128, 192, vec![1], false), (192, 0, vec![], true)]);
        // An OST outside its pool is none.
        let mut pooled = one();
        pooled.components[0].pool = PoolName::new("small");
        let forced = extended(&pooled, SIZE, SIZE + 1, &[60, 500, 500]);
        assert_eq!(shape(&forced), [(0, 128, vec![0], false), (128, 0, vec![], true)]);
    }

    #[test]
    fn where_nobody_has_room_it_grows_all_the_same() {
        let forced = extended(&one(), SIZE, SIZE + 1, &[60, 10]);
        assert_eq!(shape(&forced), [(0, 128, vec![0], false), (128, 0, vec![], true)]);
        // A component without OSTs stays without.
        let mut fresh = one();
        fresh.components[0].stripes.clear();
        fresh.components[0].stripe_count = 1;
        let forced = extended(&fresh, SIZE, SIZE + 1, &[]);
        assert_eq!(shape(&forced), [(0, 128, vec![], false), (128, 0, vec![], true)]);
    }

    #[test]
    fn a_layout_is_repeated_only_as_far_as_it_may_be_long() {
        let mut layout = one();
        for turn in 1..100u64 {
            // The OST of the newest is always full.
            let newest = layout.components[layout.components.len() - 2].stripes[0].0;
            let free = if newest == 0 { [10, 500] } else { [500, 10] };
            layout = extended(&layout, turn * SIZE, turn * SIZE + 1, &free);
        }
        assert_eq!(layout.components.len(), types::limits::COMPONENTS_MAX);
        assert_eq!(shape(&layout)[62].1, 6400, "from then on by force");
    }

    #[test]
    fn with_overstriping_an_ost_has_room_for_all_its_shares() {
        let mut wide = one();
        let c = &mut wide.components[0];
        (c.overstriped, c.stripe_count) = (true, 4);
        c.stripes = [0, 1, 0, 1].map(TargetIndex).to_vec();
        assert_eq!(shape(&extended(&wide, SIZE, SIZE + 1, &[34, 34]))[0].1, 128);
        let again = extended(&wide, SIZE, SIZE + 1, &[20, 34, 90]);
        assert_eq!(shape(&again)[1], (64, 128, vec![2, 1, 2, 1], false));
    }
}
