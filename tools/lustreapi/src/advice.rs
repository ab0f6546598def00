//! Advice about what will be read, or not again: handed to the kernel, and through it to the mount.

use crate::abi::{LUSTRE_EOF, Ladvise};
use crate::door::{Answer, EINVAL, EOPNOTSUPP, Place, negative, open_file};
use crate::whereabouts;
use rustix::fs::Advice;
use std::ffi::{c_int, c_ulonglong};
use std::num::NonZeroU64;

/// Advices of one call, at most (`LAH_COUNT_MAX`).
const COUNT_MAX: c_int = 1024;
/// `LF_ASYNC`: the caller never waits anyway.
const ASYNC: c_ulonglong = 1;

/// Gives advice on ranges of a file.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_ladvise(
    fd: c_int,
    flags: c_ulonglong,
    num_advise: c_int,
    ladvise: Place<Ladvise>,
) -> c_int {
    negative(|| {
        whereabouts::of_descriptor(fd)?;
        if flags & !ASYNC != 0 {
            return Err(EOPNOTSUPP);
        }
        if !(1..=COUNT_MAX).contains(&num_advise) {
            return Err(EINVAL);
        }
        let all = ladvise.get_all(num_advise as usize)?;
        // All are checked before the first is given.
        let meant = all.iter().map(meant).collect::<Answer<Vec<_>>>()?;
        for (advice, start, bytes) in meant {
            rustix::fs::fadvise(open_file(fd)?, start, bytes, advice)?;
        }
        Ok(0)
    })
}

/// The advice for the kernel: advice, start, number of bytes (`None`: all that follow).
fn meant(advise: &Ladvise) -> Answer<(Advice, u64, Option<NonZeroU64>)> {
    let advice = match advise.advice {
        1 => Advice::WillNeed,
        2 => Advice::DontNeed,
        3..=5 => return Err(EOPNOTSUPP),
        _ => return Err(EINVAL),
    };
    let (start, end) = (advise.start, advise.end);
    match end {
        LUSTRE_EOF => Ok((advice, start, None)),
        end if end <= start => Err(EINVAL),
        end => Ok((advice, start, NonZeroU64::new(end - start))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::testing::null;

    #[test]
    fn two_advices_are_understood() {
        let advise = |advice, start, end| Ladvise { advice, start, end, ..Ladvise::default() };
        let bytes = NonZeroU64::new(10);
        assert_eq!(meant(&advise(1, 5, 15)).map(|(_, start, n)| (start, n)), Ok((5, bytes)));
        assert_eq!(meant(&advise(2, 5, LUSTRE_EOF)).map(|(_, start, n)| (start, n)), Ok((5, None)));
        assert!((3..=5).all(|n| meant(&advise(n, 0, 1)) == Err(EOPNOTSUPP)));
        assert!([0, 6].iter().all(|n| meant(&advise(*n, 0, 1)) == Err(EINVAL)));
        assert_eq!(meant(&advise(1, 5, 5)), Err(EINVAL));
        assert_eq!(llapi_ladvise(-1, 0, 1, null()), -libc::EBADF);
    }
}
