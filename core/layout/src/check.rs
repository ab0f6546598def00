//! The rules that every stored layout obeys, so that no other code has to check them again.
//!
//! Decoders call [`verify`] on what they read, and the maker of a layout calls it before the layout
//! is stored. After that, mapping cannot divide by zero, loop without progress or leave its bounds.

use crate::layout::{EOF, Layout, Pattern, PoolName};
use types::limits;

/// A layout that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLayout {
    /// More than `COMPONENTS_MAX`.
    #[error("{0} components; at most {max} are possible", max = limits::COMPONENTS_MAX)]
    Components(usize),
    /// More than `STRIPES_MAX` in one component.
    #[error("component {id} has {stripes} stripes; at most {max} are possible", max = limits::STRIPES_MAX)]
    Stripes {
        /// Number of the component.
        id: u32,
        /// Stripes that it has.
        stripes: usize,
    },
    /// Larger than `LAYOUT_BYTES_MAX` when encoded.
    #[error("the layout takes {0} bytes; at most {max} are possible", max = limits::LAYOUT_BYTES_MAX)]
    Bytes(usize),
    /// `start >= end`.
    #[error("component {id} is empty: [{start}, {end})")]
    Empty {
        /// Number of the component.
        id: u32,
        /// Its first byte.
        start: u64,
        /// Byte behind its last.
        end: u64,
    },
    /// OSTs are named that it cannot get: it has its OSTs already, has none ever, or has another
    /// number of stripes.
    #[error("component {id} names OSTs that it cannot get")]
    Wanted {
        /// Number of the component.
        id: u32,
    },
    /// The component does not begin where the one before it ends (the first one: at 0).
    #[error("component {id} starts at {start}, but must start at {expected}")]
    Gap {
        /// Number of the component.
        id: u32,
        /// Its first byte.
        start: u64,
        /// Where the component before it ends, bytes.
        expected: u64,
    },
    /// Stripe size is not a multiple of 64 KiB in range.
    #[error("stripe size {size} of component {id} is not a multiple of 65536 from 65536 to {max}", max = limits::STRIPE_BYTES_MAX)]
    StripeSize {
        /// Number of the component.
        id: u32,
        /// Its stripe size, bytes.
        size: u64,
    },
    /// Number of stripes differs from the stripe count.
    #[error("component {id} has {stripes} stripes, but its stripe count is {count}")]
    StripeCount {
        /// Number of the component.
        id: u32,
        /// Stripes that it has.
        stripes: usize,
        /// Its stripe count.
        count: u16,
    },
    /// A component on the MDT has OSTs, or does not come first.
    #[error("component {id} on the MDT must come first, end somewhere and have no OSTs")]
    Mdt {
        /// Number of the component.
        id: u32,
    },
    /// An extension has OSTs, a count or a pool, does not follow a striped component, or its size
    /// is not a multiple of 64 KiB.
    #[error("component {id} is no extension of the one before it")]
    Extension {
        /// Number of the component.
        id: u32,
    },
    /// Two components with one instance number, or number 0.
    #[error("component number {id} is zero or used twice")]
    Instance {
        /// Number of the component.
        id: u32,
    },
    /// The name is not made of 1 to 15 letters, digits, `_` and `-`.
    #[error("{0:?} is no pool name; use 1 to 15 letters, digits, '_' or '-'")]
    Pool(String),
}

/// Checks everything that [`BadLayout`] names. A layout without components is valid: it says
/// nothing.
pub fn verify(layout: &Layout) -> Result<(), BadLayout> {
    if layout.components.len() > limits::COMPONENTS_MAX {
        return Err(BadLayout::Components(layout.components.len()));
    }
    let mut expected = 0;
    for (index, c) in layout.components.iter().enumerate() {
        let id = c.id;
        if id == 0 || layout.components[..index].iter().any(|other| other.id == id) {
            return Err(BadLayout::Instance { id });
        }
        let grows =
            layout.components.get(index + 1).is_some_and(|next| next.pattern == Pattern::Extension);
        let may_be_empty = c.pattern == Pattern::Raid0 && grows && !c.is_instantiated();
        if c.start > c.end || c.is_empty() && !may_be_empty {
            return Err(BadLayout::Empty { id, start: c.start, end: c.end });
        }
        if c.start != expected {
            return Err(BadLayout::Gap { id, start: c.start, expected });
        }
        expected = c.end;
        if let Some(PoolName(name)) = &c.pool
            && PoolName::new(name).is_none()
        {
            return Err(BadLayout::Pool(name.clone()));
        }
        match c.pattern {
            Pattern::Mdt if index > 0 || !c.stripes.is_empty() || c.end == EOF => {
                return Err(BadLayout::Mdt { id });
            }
            Pattern::Mdt if !c.wanted.is_empty() => return Err(BadLayout::Wanted { id }),
            Pattern::Mdt => {}
            Pattern::Extension => {
                let follows = index > 0 && layout.components[index - 1].pattern == Pattern::Raid0;
                let bare = c.stripes.is_empty()
                    && c.wanted.is_empty()
                    && c.stripe_count == 0
                    && !c.overstriped
                    && c.pool.is_none();
                let size = c.extension_size().unwrap_or(0);
                if !follows || !bare || size == 0 || !size.is_multiple_of(limits::STRIPE_BYTES_MIN)
                {
                    return Err(BadLayout::Extension { id });
                }
            }
            Pattern::Raid0 => {
                let size = u64::from(c.stripe_size);
                if !(limits::STRIPE_BYTES_MIN..=limits::STRIPE_BYTES_MAX).contains(&size)
                    || !size.is_multiple_of(limits::STRIPE_BYTES_MIN)
                {
                    return Err(BadLayout::StripeSize { id, size });
                }
                let stripes = c.stripes.len();
                if stripes > limits::STRIPES_MAX {
                    return Err(BadLayout::Stripes { id, stripes });
                }
                if stripes > 0 && stripes != usize::from(c.stripe_count) {
                    return Err(BadLayout::StripeCount { id, stripes, count: c.stripe_count });
                }
                let wanted = c.wanted.len();
                let fits = wanted <= 1
                    || wanted == usize::from(c.stripe_count) && wanted <= limits::STRIPES_MAX;
                if !fits || stripes > 0 && wanted > 0 {
                    return Err(BadLayout::Wanted { id });
                }
            }
        }
    }
    match crate::codec::encoded_len(layout) {
        bytes if bytes > limits::LAYOUT_BYTES_MAX => Err(BadLayout::Bytes(bytes)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{pfl, plain};
    use types::target::TargetIndex;

    #[test]
    fn each_fault_has_its_name() {
        assert_eq!(verify(&Layout::default()), Ok(()));
        assert_eq!(verify(&pfl()), Ok(()));
        let broken = |change: &dyn Fn(&mut Layout)| {
            let mut l = pfl();
            change(&mut l);
            verify(&l).unwrap_err()
        };
        assert!(matches!(broken(&|l| l.components[1].id = 1), BadLayout::Instance { id: 1 }));
        assert!(matches!(broken(&|l| l.components[1].id = 0), BadLayout::Instance { id: 0 }));
        assert!(matches!(broken(&|l| l.components[1].start += 65536), BadLayout::Gap { .. }));
        assert!(matches!(
            broken(&|l| l.components[1].end = l.components[1].start),
            BadLayout::Empty { .. }
        ));
        assert!(matches!(
            broken(&|l| l.components[1].stripe_size = 0),
            BadLayout::StripeSize { .. }
        ));
        assert!(matches!(
            broken(&|l| l.components[1].stripe_size = 65537),
            BadLayout::StripeSize { .. }
        ));
        assert!(matches!(
            broken(&|l| l.components[1].stripes.push(TargetIndex(1))),
            BadLayout::StripeCount { .. }
        ));
        assert!(matches!(
            broken(&|l| l.components[0].stripes.push(TargetIndex(1))),
            BadLayout::Mdt { .. }
        ));
        assert!(matches!(
            broken(&|l| l.components[1].pattern = Pattern::Mdt),
            BadLayout::Mdt { .. }
        ));
        assert!(matches!(
            broken(&|l| l.components[1].pool = Some(PoolName("a b".into()))),
            BadLayout::Pool(_)
        ));
        let osts = [TargetIndex(3), TargetIndex(1)];
        assert!(
            matches!(
                broken(&|l| l.components[1].wanted = vec![osts[0]]),
                BadLayout::Wanted { id: 2 }
            ),
            "it has its OSTs"
        );
        assert!(
            matches!(
                broken(&|l| l.components[3].wanted = osts.to_vec()),
                BadLayout::Wanted { id: 4 }
            ),
            "8 stripes"
        );
        assert!(
            matches!(
                broken(&|l| l.components[0].wanted = vec![osts[0]]),
                BadLayout::Wanted { id: 1 }
            ),
            "on the MDT"
        );
        let mut named = pfl();
        named.components[3].wanted = vec![osts[0]];
        assert_eq!(verify(&named), Ok(()));
        (named.components[3].wanted, named.components[3].stripe_count) = (osts.to_vec(), 2);
        assert_eq!(verify(&named), Ok(()));
        let mut wide = plain(&[0; 2000]);
        assert_eq!(verify(&wide), Ok(()));
        wide.components[0].stripes.push(TargetIndex(0));
        assert!(matches!(verify(&wide), Err(BadLayout::Stripes { .. })));
        let mut many = Layout::default();
        for n in 0..65u64 {
            let mut c = plain(&[0]).components.remove(0);
            (c.id, c.start, c.end) = (n as u32 + 1, n << 20, (n + 1) << 20);
            many.components.push(c);
        }
        assert!(matches!(verify(&many), Err(BadLayout::Components(65))));
        many.components.truncate(40);
        for c in &mut many.components {
            (c.stripe_count, c.stripes) = (1000, vec![TargetIndex(0); 1000]);
        }
        assert!(matches!(verify(&many), Err(BadLayout::Bytes(_))));
    }
}
