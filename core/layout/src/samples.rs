//! Layouts for the tests of this crate.

use crate::layout::{Component, EOF, Layout, Pattern, PoolName};
use proptest::prelude::*;
use types::fid::Fid;
use types::target::TargetIndex;

/// One component over the whole file, 64 KiB stripes, on these OSTs.
pub fn plain(osts: &[u16]) -> Layout {
    Layout {
        generation: 1,
        owner: Fid::NONE,
        spent: 0,
        components: vec![raid0(1, 0, EOF, 65536, osts)],
    }
}

/// A striped component.
pub fn raid0(id: u32, start: u64, end: u64, stripe_size: u32, osts: &[u16]) -> Component {
    Component {
        id,
        start,
        end,
        pattern: Pattern::Raid0,
        stripe_size,
        stripe_count: osts.len() as u16,
        overstriped: false,
        pool: None,
        stripes: osts.iter().copied().map(TargetIndex).collect(),
        wanted: Vec::new(),
    }
}

/// 64 KiB on the MDT, 1 stripe to 1 MiB, 3 stripes to 8 MiB in a pool, the rest not instantiated.
pub fn pfl() -> Layout {
    let mut dom = raid0(1, 0, 65536, 65536, &[]);
    dom.pattern = Pattern::Mdt;
    let mut third = raid0(3, 1 << 20, 8 << 20, 128 << 10, &[2, 0, 1]);
    third.pool = Some(PoolName("flash".into()));
    let mut last = raid0(4, 8 << 20, EOF, 1 << 20, &[]);
    (last.stripe_count, last.overstriped) = (8, true);
    let components = vec![dom, raid0(2, 65536, 1 << 20, 256 << 10, &[5]), third, last];
    Layout { generation: 7, owner: Fid::NONE, spent: 0, components }
}

/// Any good layout: 0 to 5 components, some of which extend themselves; ends need not be multiples
/// of anything.
pub fn any_layout() -> impl Strategy<Value = Layout> {
    let pool = proptest::option::of("[a-z0-9_-]{1,15}".prop_map(PoolName));
    let extension = proptest::option::of((0u64..3_000_000, 1u64..9));
    let osts = proptest::collection::vec(0u16..40, 0..8);
    let shape = (1u64..3_000_000, 1u32..20, osts, any::<(u16, bool)>(), pool, extension);
    let shapes = proptest::collection::vec(shape, 0..6);
    let owner = prop_oneof![
        Just(Fid::NONE),
        (1u64.., any::<u32>()).prop_map(|(seq, oid)| Fid { seq, oid, ver: 0 })
    ];
    let spent = prop_oneof![Just(0), 1u32..1000];
    (any::<u32>(), owner, shapes, any::<bool>(), any::<bool>(), 1u32..100, spent).prop_map(
        |(generation, owner, shapes, open_end, dom, id, spent)| {
            let (mut start, n) = (0, shapes.len());
            let mut components = Vec::new();
            for (i, (len, stripe, osts, (wanted, overstriped), pool, extension)) in
                shapes.into_iter().enumerate()
            {
                let end = if i + 1 == n && !open_end { EOF } else { start + len };
                let mut c = raid0(id + (n - i) as u32, start, end, stripe << 16, &osts);
                (c.overstriped, c.pool) = (overstriped, pool);
                if i == 0 && dom && end != EOF {
                    (c.pattern, c.stripes) = (Pattern::Mdt, Vec::new());
                }
                if c.stripes.is_empty() {
                    c.stripe_count = wanted;
                    if c.pattern == Pattern::Raid0 && (wanted == 1 || overstriped) {
                        c.wanted = vec![TargetIndex(wanted % 40)];
                    } else if c.pattern == Pattern::Raid0 && (2..40).contains(&(wanted % 64)) {
                        c.stripe_count = wanted % 64;
                        c.wanted = (0..c.stripe_count).map(TargetIndex).collect();
                    }
                }
                start = end;
                let at = extension
                    .map_or(end, |(grown, _)| grown.max(u64::from(c.is_instantiated())) + c.start);
                let size = extension.map_or(0, |(_, size)| size << 16);
                if c.pattern == Pattern::Mdt || at >= end {
                    components.push(c);
                    continue;
                }
                c.end = at;
                components.push(c);
                components.extend(Component::extension(id + 200 + i as u32, at, end, size));
            }
            Layout { generation, owner, spent, components }
        },
    )
}
