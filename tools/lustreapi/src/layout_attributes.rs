//! `llapi_layout_*_get` and `_set`: values of the current component.

use crate::abi::LUSTRE_EOF;
use crate::door::{EINVAL, EOPNOTSUPP, Owned, Place, Text, boxed, minus_one};
use crate::layout_value::{
    DEFAULT, Layout, MDT, OVERSTRIPING, RAID0, is_stripe_count, is_stripe_size,
};
use layout::layout::{Component, PoolName};
use layout::lov_ea::{LCME_FL_EXTENSION, LCME_FL_INIT};
use std::ffi::{c_char, c_int};
use types::errno::Errno;

/// `LCME_FL_NEG`: "all but these".
const NEGATED: u32 = 0x8000_0000;
/// All flags that components have in Lustre.
const FLAGS_KNOWN: u32 = 0x7ff;

/// A layout that is all DEFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_alloc() -> Owned<Layout> {
    boxed(|| Ok(Layout::default()))
}

/// Frees a layout.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_free(layout: Owned<Layout>) {
    layout.end();
}

/// Number of stripes, DEFAULT or WIDE.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_stripe_count_get(layout: Owned<Layout>, count: Place<u64>) -> c_int {
    minus_one(|| count.put(layout.get()?.part().stripe_count).map(|()| 0))
}

/// EINVAL: no number of stripes.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_stripe_count_set(mut layout: Owned<Layout>, count: u64) -> c_int {
    minus_one(|| {
        let layout = layout.get_mut()?;
        if !is_stripe_count(count) {
            return Err(EINVAL);
        }
        layout.part_mut().stripe_count = count;
        Ok(0)
    })
}

/// Bytes of a stripe, or DEFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_stripe_size_get(layout: Owned<Layout>, size: Place<u64>) -> c_int {
    minus_one(|| size.put(layout.get()?.part().stripe_size).map(|()| 0))
}

/// EINVAL: no multiple of 64 KiB, or too large.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_stripe_size_set(mut layout: Owned<Layout>, size: u64) -> c_int {
    minus_one(|| {
        let layout = layout.get_mut()?;
        if !is_stripe_size(size) {
            return Err(EINVAL);
        }
        layout.part_mut().stripe_size = size;
        Ok(0)
    })
}

/// How bytes are spread.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_pattern_get(layout: Owned<Layout>, pattern: Place<u64>) -> c_int {
    minus_one(|| pattern.put(layout.get()?.part().pattern).map(|()| 0))
}

/// EOPNOTSUPP: a pattern that SheenFS does not have.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_pattern_set(mut layout: Owned<Layout>, pattern: u64) -> c_int {
    minus_one(|| {
        let layout = layout.get_mut()?;
        if !matches!(pattern, DEFAULT | RAID0 | MDT | OVERSTRIPING) {
            return Err(EOPNOTSUPP);
        }
        layout.part_mut().pattern = pattern;
        Ok(0)
    })
}

/// OST of a stripe, or DEFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_ost_index_get(
    layout: Owned<Layout>,
    stripe_number: u64,
    index: Place<u64>,
) -> c_int {
    minus_one(|| index.put(layout.get()?.part().ost(stripe_number)?).map(|()| 0))
}

/// Wishes for an OST.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_ost_index_set(
    mut layout: Owned<Layout>,
    stripe_number: c_int,
    index: u64,
) -> c_int {
    minus_one(|| layout.get_mut()?.part_mut().set_ost(stripe_number, index).map(|()| 0))
}

/// Names no OSTs any more.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_ost_index_reset(mut layout: Owned<Layout>) -> c_int {
    minus_one(|| {
        let part = layout.get_mut()?.part_mut();
        (part.from_file, part.osts) = (false, Vec::new());
        Ok(0)
    })
}

/// Name of the pool; empty: none.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_pool_name_get(
    layout: Owned<Layout>,
    pool_name: Place<c_char>,
    pool_name_len: usize,
) -> c_int {
    minus_one(|| {
        pool_name.put_text(
            pool_name_len,
            layout.get()?.part().pool.as_bytes(),
            Errno::EOVERFLOW,
        )?;
        Ok(0)
    })
}

/// `FSNAME.POOL` or `POOL`; empty or NULL: none. EINVAL: no name of a pool.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_pool_name_set(mut layout: Owned<Layout>, pool_name: Text) -> c_int {
    minus_one(|| {
        let layout = layout.get_mut()?;
        let pool = match pool_name.bytes() {
            None | Some([]) => String::new(),
            Some(_) => {
                let word = pool_name.str()?;
                let word = word.rsplit_once('.').map_or(word, |(_, pool)| pool);
                PoolName::new(word).ok_or(EINVAL)?.0
            }
        };
        layout.part_mut().pool = pool;
        Ok(0)
    })
}

/// First byte and end of the component.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_comp_extent_get(
    layout: Owned<Layout>,
    start: Place<u64>,
    end: Place<u64>,
) -> c_int {
    minus_one(|| {
        let part = layout.get()?.part();
        start.put(part.start)?;
        end.put(part.end)?;
        Ok(0)
    })
}

/// EINVAL: empty, or not where the component before ends.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_comp_extent_set(
    mut layout: Owned<Layout>,
    start: u64,
    end: u64,
) -> c_int {
    minus_one(|| {
        let layout = layout.get_mut()?;
        let before = layout.current.checked_sub(1).map(|at| layout.parts[at].end);
        // A component that shall grow into the next one covers nothing yet; the check of the whole
        // layout finds out whether there is one.
        if end < start
            || end == start && before.is_none()
            || before.is_some_and(|before| before != start)
        {
            return Err(EINVAL);
        }
        let part = layout.part_mut();
        (part.start, part.end) = (start, end);
        // A layout with more than one component, or with an end, is composite.
        layout.composite |= start != 0 || end != LUSTRE_EOF;
        Ok(0)
    })
}

/// Flags of the component.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_comp_flags_get(layout: Owned<Layout>, flags: Place<u32>) -> c_int {
    minus_one(|| flags.put(layout.get()?.part().flags).map(|()| 0))
}

/// Adds flags; with LCME_FL_NEG takes them away. EINVAL: no flags. No file can be made with them:
/// EOPNOTSUPP then.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_comp_flags_set(mut layout: Owned<Layout>, flags: u32) -> c_int {
    minus_one(|| {
        let part = layout.get_mut()?.part_mut();
        if flags & !(FLAGS_KNOWN | NEGATED) != 0 {
            return Err(EINVAL);
        }
        if flags & NEGATED != 0 {
            part.flags &= !flags
        } else {
            part.flags |= flags
        }
        if part.flags & LCME_FL_EXTENSION == 0 {
            part.extension_size = 0;
        }
        Ok(0)
    })
}

/// Takes flags away, but "has objects".
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_comp_flags_clear(mut layout: Owned<Layout>, flags: u32) -> c_int {
    minus_one(|| {
        let part = layout.get_mut()?.part_mut();
        part.flags &= !flags | LCME_FL_INIT;
        if part.flags & LCME_FL_EXTENSION == 0 {
            part.extension_size = 0;
        }
        Ok(0)
    })
}

/// Bytes by which the component before it grows into it. EINVAL: it is none for another to grow
/// into.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_extension_size_get(
    layout: Owned<Layout>,
    size: Place<u64>,
) -> c_int {
    minus_one(|| match layout.get()?.part().extension_size {
        0 => Err(EINVAL),
        bytes => size.put(bytes).map(|()| 0),
    })
}

/// Makes it an extension that the component before it grows into, `size` bytes at a time. EINVAL:
/// no multiple of 64 KiB below 4 TiB, or the first component.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_extension_size_set(mut layout: Owned<Layout>, size: u64) -> c_int {
    minus_one(|| {
        let layout = layout.get_mut()?;
        if layout.current == 0 || Component::extension(1, 0, LUSTRE_EOF, size).is_none() {
            return Err(EINVAL);
        }
        let part = layout.part_mut();
        (part.extension_size, part.flags) = (size, part.flags | LCME_FL_EXTENSION);
        Ok(0)
    })
}

/// Number of the component; 0: it has none, as it is no file's yet.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_comp_id_get(layout: Owned<Layout>, id: Place<u32>) -> c_int {
    minus_one(|| {
        id.put(layout.get()?.part().id)?;
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::components::llapi_layout_comp_add;
    use crate::door::testing::{errno, nothing, null, null_text, place, places, text};

    #[test]
    fn values_are_kept_and_bad_ones_refused() {
        let layout = llapi_layout_alloc();
        let mut n = 0;
        for (set, get, good, bad, errno_of_bad) in [
            (
                llapi_layout_stripe_count_set as extern "C" fn(Owned<Layout>, u64) -> c_int,
                llapi_layout_stripe_count_get as extern "C" fn(Owned<Layout>, Place<u64>) -> c_int,
                4,
                2001,
                libc::EINVAL,
            ),
            (
                llapi_layout_stripe_size_set,
                llapi_layout_stripe_size_get,
                1 << 20,
                1000,
                libc::EINVAL,
            ),
            (llapi_layout_pattern_set, llapi_layout_pattern_get, OVERSTRIPING, 1, libc::EOPNOTSUPP),
        ] {
            assert_eq!((get(layout, place(&mut n)), n), (0, DEFAULT));
            assert_eq!(set(layout, good), 0);
            assert_eq!((set(layout, bad), errno()), (-1, errno_of_bad));
            assert_eq!((get(layout, place(&mut n)), n), (0, good));
            assert_eq!((set(nothing(), good), errno()), (-1, libc::EINVAL));
            assert_eq!((get(layout, null()), errno()), (-1, libc::EINVAL));
        }
        llapi_layout_free(layout);
        llapi_layout_free(nothing());
    }

    #[test]
    fn pools_have_names_with_or_without_the_file_system() {
        let layout = llapi_layout_alloc();
        let mut room = [1; 16];
        let name = places(&mut room);
        assert_eq!(llapi_layout_pool_name_set(layout, text(c"sheen.flash")), 0);
        assert_eq!((llapi_layout_pool_name_get(layout, name, 5), errno()), (-1, libc::EOVERFLOW));
        assert_eq!(llapi_layout_pool_name_get(layout, name, 6), 0);
        assert_eq!(room[..6].iter().map(|c| *c as u8).collect::<Vec<_>>(), b"flash\0");
        assert_eq!(llapi_layout_pool_name_set(layout, text(c"much-too-long-for-it")), -1);
        assert_eq!(llapi_layout_pool_name_set(layout, null_text()), 0);
        assert_eq!(layout.get().unwrap().part().pool, "");
        llapi_layout_free(layout);
    }

    #[test]
    fn a_component_grows_into_the_next() {
        let layout = llapi_layout_alloc();
        let mut size = 0;
        assert_eq!(
            (llapi_layout_extension_size_get(layout, place(&mut size)), errno()),
            (-1, libc::EINVAL)
        );
        assert_eq!(
            (llapi_layout_extension_size_set(layout, 1 << 26), errno()),
            (-1, libc::EINVAL),
            "the first"
        );
        assert_eq!(llapi_layout_comp_extent_set(layout, 0, 1 << 26), 0);
        assert_eq!(llapi_layout_comp_add(layout), 0);
        for bad in [0, 1000, 4 << 40] {
            assert_eq!(llapi_layout_extension_size_set(layout, bad), -1, "{bad}");
        }
        assert_eq!(llapi_layout_extension_size_set(layout, 1 << 26), 0);
        assert_eq!((llapi_layout_extension_size_get(layout, place(&mut size)), size), (0, 1 << 26));
        let wish = layout.get().unwrap().wish().unwrap();
        assert_eq!(wish.layout.components[1].extension_size(), Some(1 << 26));
        assert_eq!(Layout::of(&wish, true).parts[1].extension_size, 1 << 26);
        assert_eq!(llapi_layout_comp_flags_clear(layout, LCME_FL_EXTENSION), 0);
        assert_eq!(llapi_layout_extension_size_get(layout, place(&mut size)), -1);
        llapi_layout_free(layout);
    }

    #[test]
    fn extents_touch_each_other_and_flags_come_and_go() {
        let layout = llapi_layout_alloc();
        let (mut start, mut end, mut flags) = (0, 0, 0);
        assert_eq!(llapi_layout_comp_extent_get(layout, place(&mut start), place(&mut end)), 0);
        assert_eq!((start, end), (0, LUSTRE_EOF));
        assert_eq!(llapi_layout_comp_extent_set(layout, 5, 5), -1);
        assert_eq!(llapi_layout_comp_extent_set(layout, 0, 1 << 20), 0);
        assert!(layout.get().unwrap().composite);
        assert_eq!(llapi_layout_comp_flags_set(layout, 6), 0);
        assert_eq!(llapi_layout_comp_flags_set(layout, NEGATED | 2), 0);
        assert_eq!((llapi_layout_comp_flags_get(layout, place(&mut flags)), flags), (0, 4));
        assert_eq!(llapi_layout_comp_flags_clear(layout, 4), 0);
        assert_eq!(layout.get().unwrap().part().flags, 0);
        assert_eq!(llapi_layout_comp_flags_set(layout, 0x1000), -1);
        assert_eq!(llapi_layout_ost_index_set(layout, 0, 7), 0);
        assert_eq!((llapi_layout_ost_index_get(layout, 0, place(&mut end)), end), (0, 7));
        assert_eq!(llapi_layout_ost_index_reset(layout), 0);
        assert_eq!((llapi_layout_ost_index_get(layout, 0, place(&mut end)), end), (0, DEFAULT));
        llapi_layout_free(layout);
    }
}
