//! Components of a layout: from one to the next, more, fewer; and what holds for all of them.

use crate::door::{Answer, EINVAL, EOPNOTSUPP, Failure, Owned, Place, minus_one, plain};
use crate::layout_value::{Fault, Layout, MDT};
use layout::lov_ea::LCME_FL_INIT;
use std::ffi::{c_char, c_int, c_void};
use types::errno::Errno;

/// Called for each component.
pub type Visitor = Option<extern "C" fn(Owned<Layout>, *mut c_void) -> c_int>;

/// Adds a component behind the last.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_comp_add(mut layout: Owned<Layout>) -> c_int {
    minus_one(|| layout.get_mut()?.add().map(|()| 0))
}

/// Takes the last component away.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_comp_del(mut layout: Owned<Layout>) -> c_int {
    minus_one(|| layout.get_mut()?.remove().map(|()| 0))
}

/// Goes to another component: 1 first, 2 last, 3 next, 4 the one before.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_comp_use(mut layout: Owned<Layout>, pos: u32) -> c_int {
    minus_one(|| {
        let layout = layout.get_mut()?;
        let last = layout.parts.len() - 1;
        let wanted = match pos {
            1 => Some(0),
            2 => Some(last),
            3 => (layout.current < last).then(|| layout.current + 1),
            4 => layout.current.checked_sub(1),
            _ => return Err(EINVAL),
        };
        let Some(wanted) = wanted else { return Ok(1) };
        layout.current = wanted;
        Ok(0)
    })
}

/// Goes to the component of this number. ENOENT: there is none.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_comp_use_id(mut layout: Owned<Layout>, id: u32) -> c_int {
    minus_one(|| {
        let layout = layout.get_mut()?;
        if id == 0 {
            return Err(EINVAL);
        }
        layout.current =
            layout.parts.iter().position(|part| part.id == id).ok_or(Failure(Errno::ENOENT))?;
        Ok(0)
    })
}

/// Calls `visit` with each component as the current one, until it answers other than 0.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_comp_iterate(
    mut layout: Owned<Layout>,
    visit: Visitor,
    data: *mut c_void,
) -> c_int {
    minus_one(|| {
        let visit = visit.ok_or(EINVAL)?;
        let mut next = 0;
        // The visitor may change the layout, so it is looked at afresh each time.
        while next < layout.get()?.parts.len() {
            layout.get_mut()?.current = next;
            match visit(layout, data) {
                0 => next = layout.get()?.current + 1,
                stop => return Ok(stop),
            }
        }
        Ok(0)
    })
}

/// True if it has components.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_is_composite(layout: Owned<Layout>) -> bool {
    plain(false, || layout.get().is_ok_and(|layout| layout.composite))
}

/// Flags of the whole layout: none.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_flags_get(layout: Owned<Layout>, flags: Place<u32>) -> c_int {
    minus_one(|| layout.get().and_then(|_| flags.put(0)).map(|()| 0))
}

/// EOPNOTSUPP: a flag.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_flags_set(layout: Owned<Layout>, flags: u32) -> c_int {
    minus_one(|| only(layout, flags == 0))
}

/// Mirrors: 1, the file itself.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_mirror_count_get(layout: Owned<Layout>, count: Place<u16>) -> c_int {
    minus_one(|| layout.get().and_then(|_| count.put(1)).map(|()| 0))
}

/// EOPNOTSUPP: other than 1.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_mirror_count_set(layout: Owned<Layout>, count: u16) -> c_int {
    minus_one(|| only(layout, count == 1))
}

fn only(layout: Owned<Layout>, possible: bool) -> Answer<c_int> {
    layout.get()?;
    if possible { Ok(0) } else { Err(EOPNOTSUPP) }
}

/// Number of the mirror that the component belongs to: 0.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_mirror_id_get(layout: Owned<Layout>, id: Place<u32>) -> c_int {
    minus_one(|| layout.get().and_then(|_| id.put(0)).map(|()| 0))
}

/// Goes to the last component that has objects. ENOENT: none has.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_get_last_init_comp(mut layout: Owned<Layout>) -> c_int {
    minus_one(|| {
        let layout = layout.get_mut()?;
        let last = layout.parts.iter().rposition(|part| part.flags & LCME_FL_INIT != 0);
        layout.current = last.ok_or(Failure(Errno::ENOENT))?;
        Ok(0)
    })
}

/// Bytes of the part on the MDT.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_dom_size(layout: Owned<Layout>, size: Place<u64>) -> c_int {
    minus_one(|| {
        let first = layout.get()?.parts.first();
        size.put(first.filter(|part| part.pattern == MDT).map_or(0, |part| part.end))?;
        Ok(0)
    })
}

/// Reports what is wrong with it.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_sanity(
    layout: Owned<Layout>,
    incomplete: bool,
    _flr: bool,
    _fsname: Place<c_char>,
) -> c_int {
    minus_one(|| Ok(layout.get()?.fault(incomplete).map_or(0, |fault| fault as c_int)))
}

/// Says it on standard error.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_sanity_perror(error: c_int) {
    plain((), || eprintln!("{}", sentence(error)));
}

fn sentence(fault: c_int) -> &'static str {
    let known = [
        (Fault::Flags, "components cannot keep flags"),
        (Fault::DomFirst, "only the first component can be on the MDT"),
        (Fault::Start, "the first component must begin at 0"),
        (Fault::EndNotGreater, "a component must end behind its start"),
        (Fault::NotAdjacent, "a component must begin where the one before it ends"),
        (Fault::AlignEnd, "the end of a component must be a multiple of 65536"),
        (Fault::Other, "the layout is none that a file can have"),
    ];
    match known.iter().find(|(known, _)| *known as c_int == fault) {
        Some((_, sentence)) => sentence,
        None if fault == 0 => "nothing is wrong with the layout",
        None => "the layout could not be looked at",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::testing::{errno, nothing, null, place};
    use crate::layout_attributes::{
        llapi_layout_alloc, llapi_layout_comp_extent_set, llapi_layout_free,
    };

    fn three() -> Owned<Layout> {
        let layout = llapi_layout_alloc();
        for (start, end) in [(0, 1 << 20), (1 << 20, 1 << 30), (1 << 30, u64::MAX)] {
            if start > 0 {
                assert_eq!(llapi_layout_comp_add(layout), 0);
            }
            assert_eq!(llapi_layout_comp_extent_set(layout, start, end), 0);
        }
        layout
    }

    extern "C" fn count(layout: Owned<Layout>, data: *mut c_void) -> c_int {
        let start = layout.get().unwrap().part().start;
        // SAFETY: the tests pass a vector.
        let starts = unsafe { &mut *data.cast::<Vec<u64>>() };
        starts.push(start);
        c_int::from(starts.len() == 9)
    }

    #[test]
    fn one_goes_from_component_to_component() {
        let layout = three();
        let at = |pos| (llapi_layout_comp_use(layout, pos), layout.get().unwrap().current);
        assert_eq!([at(1), at(3), at(3), at(3)], [(0, 0), (0, 1), (0, 2), (1, 2)]);
        assert_eq!([at(4), at(4), at(4), at(2)], [(0, 1), (0, 0), (1, 0), (0, 2)]);
        assert_eq!((at(5).0, errno()), (-1, libc::EINVAL));
        assert_eq!((llapi_layout_comp_use_id(layout, 4), errno()), (-1, libc::ENOENT));
        let mut starts: Vec<u64> = Vec::new();
        let data = (&raw mut starts).cast();
        assert_eq!(llapi_layout_comp_iterate(layout, Some(count), data), 0);
        assert_eq!(starts, [0, 1 << 20, 1 << 30]);
        starts.resize(7, 0);
        assert_eq!(llapi_layout_comp_iterate(layout, Some(count), data), 1);
        assert_eq!(starts.len(), 9);
        assert_eq!(llapi_layout_comp_iterate(layout, None, data), -1);
        assert!(llapi_layout_is_composite(layout) && !llapi_layout_is_composite(nothing()));
        assert_eq!((llapi_layout_comp_del(layout), layout.get().unwrap().parts.len()), (-1, 3));
        llapi_layout_free(layout);
    }

    #[test]
    fn what_holds_for_the_whole_is_told_and_what_cannot_be_is_refused() {
        let layout = three();
        let (mut mirrors, mut flags, mut size) = (0, 1, 9);
        assert_eq!((llapi_layout_mirror_count_get(layout, place(&mut mirrors)), mirrors), (0, 1));
        assert_eq!(
            (llapi_layout_mirror_count_set(layout, 1), llapi_layout_mirror_count_set(layout, 2)),
            (0, -1)
        );
        assert_eq!(errno(), libc::EOPNOTSUPP);
        assert_eq!((llapi_layout_flags_get(layout, place(&mut flags)), flags), (0, 0));
        assert_eq!((llapi_layout_dom_size(layout, place(&mut size)), size), (0, 0));
        assert_eq!((llapi_layout_get_last_init_comp(layout), errno()), (-1, libc::ENOENT));
        assert_eq!(llapi_layout_sanity(layout, false, false, null()), 0);
        assert_eq!(llapi_layout_sanity(nothing(), false, false, null()), -1);
        for fault in 0..=7 {
            assert!(!sentence(fault).contains("could not"), "{fault}");
        }
        llapi_layout_free(layout);
    }
}
