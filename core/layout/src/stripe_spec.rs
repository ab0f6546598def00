//! Layouts that people ask for: defaults filled in, then checked.
//!
//! `lfs setstripe` and `setxattr("lustre.lov")` send unfinished layouts: a stripe size or count of
//! 0 means "default". [`complete`] turns one into a layout that [`crate::check::verify`] accepts,
//! or says in one sentence what is wrong.

use crate::check::{BadLayout, verify};
use crate::codec::encoded_len;
use crate::layout::{ALL_OSTS, Component, EOF, Layout, Pattern, PoolName};
use types::limits::{self, DOM_BYTES_MAX};
use types::target::TargetIndex;

/// Default stripe size, bytes (LOV_DESC_STRIPE_SIZE_DEFAULT).
pub const STRIPE_BYTES_DEFAULT: u32 = 4 << 20;
/// Default stripe count.
pub const STRIPE_COUNT_DEFAULT: u16 = 1;
/// Default size of the part of a file that lives on the MDT, bytes.
pub const DOM_BYTES_DEFAULT: u64 = 64 << 10;
/// From here on the default layout has 4 stripes.
pub const WIDE_START: u64 = 1 << 30;
/// Stripes beyond [`WIDE_START`].
pub const WIDE_STRIPE_COUNT: u16 = 4;

/// The file system's values for what a user leaves open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Defaults {
    /// Stripe size, bytes.
    pub stripe_size: u32,
    /// Stripe count.
    pub stripe_count: u16,
    /// Largest part on the MDT, bytes; 0 = none allowed.
    pub dom_bytes_max: u64,
}

impl Default for Defaults {
    fn default() -> Defaults {
        Defaults {
            stripe_size: STRIPE_BYTES_DEFAULT,
            stripe_count: STRIPE_COUNT_DEFAULT,
            dom_bytes_max: DOM_BYTES_MAX,
        }
    }
}

/// A layout that a person may not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSpec {
    /// The layout has no component.
    #[error("the layout has no component")]
    Nothing,
    /// A component ends where no stripe ends.
    #[error("component {id} ends at {end}, which is not a multiple of 65536")]
    End {
        /// Number of the component, from 1.
        id: u32,
        /// Byte behind its last.
        end: u64,
    },
    /// Too many stripes.
    #[error("stripe count {count} is too high; at most {max} are possible", max = limits::STRIPES_MAX)]
    StripeCount {
        /// The stripe count.
        count: u16,
    },
    /// Too much on the MDT.
    #[error("{bytes} bytes on the MDT are too many; at most {max} are allowed")]
    Dom {
        /// Bytes that were asked for.
        bytes: u64,
        /// Most bytes that a file may have on the MDT.
        max: u64,
    },
    /// A component that grows by parts of stripes.
    #[error(
        "extension size {size} is not a multiple of {stripe}, the stripe size of the component that it extends"
    )]
    Extension {
        /// Size of the extension, bytes.
        size: u64,
        /// Stripe size of the component that it extends, bytes.
        stripe: u32,
    },
    /// One OST is named twice without overstriping.
    #[error("OST{:04x} is named twice; use overstriping (-C) for that", .ost.0)]
    Twice {
        /// The OST.
        ost: TargetIndex,
    },
    /// Impossible in itself.
    #[error(transparent)]
    Layout(#[from] BadLayout),
}

/// Fills in defaults and checks. OSTs that are named stay; whether they exist is not known here.
///
/// # Errors
/// [`BadSpec`].
pub fn complete(mut layout: Layout, defaults: &Defaults) -> Result<Layout, BadSpec> {
    if layout.components.is_empty() {
        return Err(BadSpec::Nothing);
    }
    for c in &mut layout.components {
        complete_component(c, defaults)?;
    }
    verify(&layout)?;
    for pair in layout.components.windows(2) {
        let (stripe, size) = (pair[0].stripe_size, pair[1].extension_size());
        if let Some(size) = size.filter(|size| !size.is_multiple_of(stripe.into())) {
            return Err(BadSpec::Extension { size, stripe });
        }
    }
    // The layout must still fit once every component has its OSTs.
    let wanted = |c: &Component| match c.stripe_count {
        _ if !c.is_instantiated() && c.stripe_count != ALL_OSTS => usize::from(c.stripe_count),
        _ => 0,
    };
    match encoded_len(&layout) + 2 * layout.components.iter().map(wanted).sum::<usize>() {
        bytes if bytes > limits::LAYOUT_BYTES_MAX => Err(BadLayout::Bytes(bytes).into()),
        _ => Ok(layout),
    }
}

fn complete_component(c: &mut Component, defaults: &Defaults) -> Result<(), BadSpec> {
    if c.end != EOF && !c.end.is_multiple_of(limits::STRIPE_BYTES_MIN) {
        return Err(BadSpec::End { id: c.id, end: c.end });
    }
    if c.pattern == Pattern::Mdt {
        let bytes = c.end.saturating_sub(c.start);
        if bytes > defaults.dom_bytes_max {
            return Err(BadSpec::Dom { bytes, max: defaults.dom_bytes_max });
        }
        (c.stripe_count, c.stripe_size) = (0, bytes as u32);
        return Ok(());
    }
    if c.pattern == Pattern::Extension {
        return Ok(());
    }
    if c.stripe_size == 0 {
        c.stripe_size = defaults.stripe_size;
    }
    if c.stripe_count == 0 {
        c.stripe_count = match c.stripes.len().max(c.wanted.len()) {
            // A single wanted OST is that of the first stripe.
            1 if c.stripes.is_empty() => defaults.stripe_count,
            0 => defaults.stripe_count,
            named => named as u16,
        };
    }
    if c.stripe_count != ALL_OSTS && usize::from(c.stripe_count) > limits::STRIPES_MAX {
        return Err(BadSpec::StripeCount { count: c.stripe_count });
    }
    if !c.overstriped {
        let mut seen = [&c.stripes[..], &c.wanted].concat();
        seen.sort_unstable();
        if let Some(pair) = seen.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(BadSpec::Twice { ost: pair[0] });
        }
    }
    Ok(())
}

/// The layout with at most `bytes` of the file on the MDT; the next component takes what that
/// leaves over. With 0 no component is on the MDT; a layout that had no other becomes a plain one.
pub fn with_dom_at_most(mut layout: Layout, bytes: u64, defaults: &Defaults) -> Layout {
    if layout.mdt_bytes() <= bytes {
        return layout;
    }
    if bytes > 0 {
        let dom = &mut layout.components[0];
        (dom.end, dom.stripe_size) = (bytes, bytes as u32);
    } else {
        layout.components.remove(0);
    }
    match layout.components.get_mut(usize::from(bytes > 0)) {
        Some(next) => next.start = bytes,
        // Nothing may lie beyond the part on the MDT; without a part there, there is no reason for
        // an end.
        None if bytes == 0 => {
            layout.components = plain(defaults.stripe_count, defaults.stripe_size, None).components
        }
        None => {}
    }
    layout
}

/// One striped component over the whole file, OSTs open.
pub fn plain(stripe_count: u16, stripe_size: u32, pool: Option<PoolName>) -> Layout {
    let mut c = striped(1, 0, EOF, stripe_count);
    (c.stripe_size, c.pool) = (stripe_size, pool);
    Layout { components: vec![c], ..Layout::default() }
}

/// The layout of a new file if nothing else is given: [`new_file`] with the default stripes.
pub fn default_layout(dom_bytes: u64) -> Layout {
    new_file(dom_bytes, STRIPE_COUNT_DEFAULT, STRIPE_BYTES_DEFAULT)
}

/// The layout of a new file whose directory has none for it: its first `dom_bytes` on the MDT
/// (0: none), then these stripes, then [`WIDE_STRIPE_COUNT`] beyond [`WIDE_START`] if that is more.
pub fn new_file(dom_bytes: u64, stripe_count: u16, stripe_size: u32) -> Layout {
    let mut components = Vec::with_capacity(3);
    if dom_bytes > 0 {
        let mut dom = striped(1, 0, dom_bytes, 0);
        (dom.pattern, dom.stripe_size) = (Pattern::Mdt, dom_bytes as u32);
        components.push(dom);
    }
    let mut add = |start, end, stripe_count| {
        let mut next = striped(components.len() as u32 + 1, start, end, stripe_count);
        next.stripe_size = stripe_size;
        components.push(next);
    };
    if stripe_count < WIDE_STRIPE_COUNT {
        add(dom_bytes, WIDE_START, stripe_count);
        add(WIDE_START, EOF, WIDE_STRIPE_COUNT);
    } else {
        add(dom_bytes, EOF, stripe_count);
    }
    Layout { components, ..Layout::default() }
}

fn striped(id: u32, start: u64, end: u64, stripe_count: u16) -> Component {
    Component {
        id,
        start,
        end,
        pattern: Pattern::Raid0,
        stripe_size: STRIPE_BYTES_DEFAULT,
        stripe_count,
        overstriped: false,
        pool: None,
        stripes: Vec::new(),
        wanted: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{any_layout, pfl};
    use proptest::prelude::*;

    fn refused(change: impl FnOnce(&mut Layout)) -> BadSpec {
        let mut l = pfl();
        change(&mut l);
        complete(l, &Defaults::default()).unwrap_err()
    }

    #[test]
    fn open_values_get_defaults() {
        let done = complete(plain(0, 0, None), &Defaults::default()).unwrap();
        assert_eq!((done.components[0].stripe_size, done.components[0].stripe_count), (4 << 20, 1));
        let done = complete(plain(ALL_OSTS, 1 << 20, None), &Defaults::default()).unwrap();
        assert_eq!(
            (done.components[0].stripe_size, done.components[0].stripe_count),
            (1 << 20, ALL_OSTS)
        );
    }

    #[test]
    fn the_default_layouts_are_good() {
        for dom in [0, DOM_BYTES_DEFAULT] {
            for (count, size) in [(1, 4 << 20), (3, 65536), (4, 4 << 20), (ALL_OSTS, 1 << 20)] {
                let layout = new_file(dom, count, size);
                assert_eq!(complete(layout.clone(), &Defaults::default()), Ok(layout.clone()));
                let last = layout.components.last().unwrap();
                assert_eq!((last.end, last.stripe_count), (EOF, count.max(WIDE_STRIPE_COUNT)));
                assert_eq!(layout.mdt_bytes(), dom);
            }
        }
    }

    #[test]
    fn what_the_mdt_may_not_have_the_next_component_takes() {
        let defaults = Defaults::default();
        let shape = |layout: &Layout| {
            layout.components.iter().map(|c| (c.pattern, c.start, c.end)).collect::<Vec<_>>()
        };
        let whole = default_layout(512 << 10);
        assert_eq!(with_dom_at_most(whole.clone(), 512 << 10, &defaults), whole);
        let less = with_dom_at_most(whole.clone(), 64 << 10, &defaults);
        let expected = [
            (Pattern::Mdt, 0, 64 << 10),
            (Pattern::Raid0, 64 << 10, WIDE_START),
            (Pattern::Raid0, WIDE_START, EOF),
        ];
        assert_eq!(shape(&less), expected);
        let none = with_dom_at_most(whole.clone(), 0, &defaults);
        assert_eq!(
            shape(&none),
            [(Pattern::Raid0, 0, WIDE_START), (Pattern::Raid0, WIDE_START, EOF)]
        );
        let mut only = whole;
        only.components.truncate(1);
        let less = with_dom_at_most(only.clone(), 64 << 10, &defaults);
        assert_eq!(shape(&less), [(Pattern::Mdt, 0, 64 << 10)]);
        assert_eq!(shape(&with_dom_at_most(only, 0, &defaults)), [(Pattern::Raid0, 0, EOF)]);
        assert_eq!(with_dom_at_most(Layout::default(), 0, &defaults), Layout::default());
    }

    #[test]
    fn each_fault_is_named() {
        assert_eq!(complete(Layout::default(), &Defaults::default()), Err(BadSpec::Nothing));
        assert_eq!(
            refused(|l| l.components[1].end += 1),
            BadSpec::End { id: 2, end: (1 << 20) + 1 }
        );
        assert_eq!(
            refused(|l| l.components[3].stripe_count = 2001),
            BadSpec::StripeCount { count: 2001 }
        );
        assert_eq!(
            refused(|l| l.components[2].stripes[1] = TargetIndex(1)),
            BadSpec::Twice { ost: TargetIndex(1) }
        );
        assert!(matches!(refused(|l| l.components[0].end = 2 << 20), BadSpec::Dom { .. }));
        assert!(matches!(
            refused(|l| l.components[3].start = 1),
            BadSpec::Layout(BadLayout::Gap { .. })
        ));
        assert!(matches!(
            refused(|l| l.components[1].stripe_size = 4096),
            BadSpec::Layout(BadLayout::StripeSize { .. })
        ));
        let mut wide = Layout::default();
        for n in 0..40u64 {
            let mut c = striped(n as u32 + 1, n << 30, (n + 1) << 30, 1000);
            c.overstriped = true;
            wide.components.push(c);
        }
        assert!(matches!(
            complete(wide, &Defaults::default()),
            Err(BadSpec::Layout(BadLayout::Bytes(_)))
        ));
    }

    proptest! {
        #[test]
        fn what_is_completed_is_good(layout in any_layout(), dom in (0u64..=16).prop_map(|n| n << 16)) {
            if let Ok(layout) = complete(layout, &Defaults::default()) {
                prop_assert_eq!(verify(&layout), Ok(()));
                prop_assert_eq!(verify(&with_dom_at_most(layout, dom, &Defaults::default())), Ok(()));
            }
        }
    }
}
