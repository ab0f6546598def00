//! Numbers: sizes as people write them, and bounds of layouts.

use crate::door::{Answer, EINVAL, EOPNOTSUPP, Place, Text, minus_one, negative};
use layout::lov_ea::{LOV_PATTERN_MDT, LOV_PATTERN_OVERSTRIPING, LOV_PATTERN_RAID0};
use std::ffi::{c_int, c_ulonglong};
use types::limits::{STRIPE_BYTES_MAX, STRIPE_BYTES_MIN, STRIPES_MAX};

/// Checks the numbers of a plain layout.
///
/// # Errors
/// EINVAL: a number out of its bounds, or data on the MDT without an end; EOPNOTSUPP: another
/// pattern.
pub fn limits(size: u64, offset: c_int, count: c_int, pattern: c_int) -> Answer<()> {
    let size_fits = size <= STRIPE_BYTES_MAX && size.is_multiple_of(STRIPE_BYTES_MIN);
    let offset_fits = (-1..c_int::from(u16::MAX)).contains(&offset);
    let count_fits = (-1..=STRIPES_MAX as c_int).contains(&count);
    if !(size_fits && offset_fits && count_fits) {
        return Err(EINVAL);
    }
    match pattern as u32 & !LOV_PATTERN_OVERSTRIPING {
        0 | LOV_PATTERN_RAID0 => Ok(()),
        LOV_PATTERN_MDT => Err(EINVAL),
        _ => Err(EOPNOTSUPP),
    }
}

/// 0: such a plain layout can be.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_stripe_limit_check(
    stripe_size: c_ulonglong,
    stripe_offset: c_int,
    stripe_count: c_int,
    stripe_pattern: c_int,
) -> c_int {
    negative(|| limits(stripe_size, stripe_offset, stripe_count, stripe_pattern).map(|()| 0))
}

/// A number with a unit behind it. Without unit it counts `*size_units`; `*size_units` is the unit
/// afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_parse_size(
    optarg: Text,
    size: Place<c_ulonglong>,
    size_units: Place<c_ulonglong>,
    bytes_spec: c_int,
) -> c_int {
    minus_one(|| {
        let unit_before = size_units.get()?;
        let (bytes, unit) = parsed(optarg.str()?, unit_before, bytes_spec != 0).ok_or(EINVAL)?;
        size.put(bytes)?;
        size_units.put(unit)?;
        Ok(0)
    })
}

/// Bytes of the text, and those of its unit. `b` is a byte if `bytes_spec`, else a block of 512.
fn parsed(text: &str, unit_before: u64, bytes_spec: bool) -> Option<(u64, u64)> {
    let text = text.trim_start();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, letters) = text.split_at(digits);
    let unit = match letters.to_ascii_lowercase().as_str() {
        "" => unit_before,
        "b" if bytes_spec => 1,
        "b" => 512,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        "p" | "pb" | "pib" => 1 << 50,
        "e" | "eb" | "eib" => 1 << 60,
        _ => return None,
    };
    Some((number.parse::<u64>().ok()?.checked_mul(unit)?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::testing::{errno, place, text};

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(parsed("4", 1, false), Some((4, 1)));
        assert_eq!(parsed("4", 1024, false), Some((4096, 1024)));
        assert_eq!(parsed("4b", 1, false), Some((2048, 512)));
        assert_eq!(parsed("4b", 1, true), Some((4, 1)));
        assert_eq!(parsed(" 2M", 1, false), Some((2 << 20, 1 << 20)));
        assert_eq!(parsed("3GiB", 1, false), Some((3 << 30, 1 << 30)));
        for bad in ["", "M", "-1", "4x", "4 M", "16E", "99999999999999999999"] {
            assert_eq!(parsed(bad, 1, false), None, "{bad}");
        }
    }

    #[test]
    fn c_gets_the_size_or_an_error() {
        let (mut size, mut unit) = (0, 1);
        assert_eq!(llapi_parse_size(text(c"64k"), place(&mut size), place(&mut unit), 0), 0);
        assert_eq!((size, unit), (65_536, 1024));
        assert_eq!(
            (llapi_parse_size(text(c"?"), place(&mut size), place(&mut unit), 0), errno()),
            (-1, libc::EINVAL)
        );
    }

    #[test]
    fn plain_layouts_have_bounds() {
        assert_eq!(llapi_stripe_limit_check(0, -1, 0, 0), 0);
        assert_eq!(llapi_stripe_limit_check(1 << 20, 3, 2000, 1), 0);
        assert_eq!(llapi_stripe_limit_check(0, -1, -1, 0x201), 0);
        for (size, offset, count) in
            [(1, -1, 0), (4 << 30, -1, 0), (0, -2, 0), (0, 65_535, 0), (0, -1, -2), (0, -1, 2001)]
        {
            assert_eq!(
                llapi_stripe_limit_check(size, offset, count, 0),
                -libc::EINVAL,
                "{size} {offset} {count}"
            );
        }
        assert_eq!(llapi_stripe_limit_check(0, -1, 1, 0x100), -libc::EINVAL);
        assert_eq!(llapi_stripe_limit_check(0, -1, 1, 4), -libc::EOPNOTSUPP);
    }
}
