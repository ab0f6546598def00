//! Values of parameters as an administrator writes them.

use types::errno::Errno;

/// A number or a word of a value that is set.
///
/// # Errors
/// EINVAL.
pub(super) fn number<T: std::str::FromStr>(text: &str) -> Result<T, Errno> {
    text.trim().parse().map_err(|_| Errno::EINVAL)
}

/// 0 or 1.
pub(super) fn switch(text: &str) -> Result<bool, Errno> {
    match number::<u64>(text)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Errno::ERANGE),
    }
}

/// MiB with a fraction, or with a unit (`64M`, `512K`, `1G`), as KiB.
pub(super) fn mebibytes(text: &str, most: u64) -> Result<u64, Errno> {
    let text = text.trim();
    let (digits, kb) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 1.0),
        Some('m' | 'M') => (&text[..text.len() - 1], 1024.0),
        Some('g' | 'G') => (&text[..text.len() - 1], 1024.0 * 1024.0),
        _ => (text, 1024.0),
    };
    if !digits.bytes().all(|digit| digit.is_ascii_digit() || digit == b'.') {
        return Err(Errno::EINVAL);
    }
    let size: f64 = number(digits)?;
    let kb = size * kb;
    if kb > (most << 10) as f64 { Err(Errno::ERANGE) } else { Ok(kb as u64) }
}

/// KiB as MiB.
pub(super) fn mebibytes_text(kb: u64) -> String {
    if kb.is_multiple_of(1024) { (kb >> 10).to_string() } else { format!("{}", kb as f64 / 1024.0) }
}

/// Bytes, with a unit if there is one: `4M`.
pub(super) fn bytes(text: &str) -> Result<u64, Errno> {
    let text = text.trim();
    let (digits, shift) = match text.find(|c: char| !c.is_ascii_digit()) {
        None => (text, 0),
        Some(at) => match &text[at..] {
            "k" | "K" => (&text[..at], 10),
            "m" | "M" => (&text[..at], 20),
            "g" | "G" => (&text[..at], 30),
            _ => return Err(Errno::EINVAL),
        },
    };
    number::<u64>(digits)?.checked_mul(1 << shift).ok_or(Errno(libc::ERANGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_mebibytes_may_have_fractions_and_units() {
        let kb = |text| mebibytes(text, 1024);
        assert_eq!(
            ["0", "4", "0.5", "64M\n", "128K", "1G"].map(kb),
            [Ok(0), Ok(4096), Ok(512), Ok(65_536), Ok(128), Ok(1 << 20)]
        );
        assert_eq!(["", "x", "-1", "1e3", "nan", "inf"].map(kb), [Err(Errno::EINVAL); 6]);
        assert_eq!(["1025", "2G"].map(kb), [Err(Errno::ERANGE); 2]);
        assert_eq!([0, 128, 4096].map(mebibytes_text), ["0", "0.125", "4"]);
    }

    #[test]
    fn a_switch_is_0_or_1() {
        assert_eq!(
            ["0", "1\n", "2", "on"].map(switch),
            [Ok(false), Ok(true), Err(Errno::ERANGE), Err(Errno::EINVAL)]
        );
    }

    #[test]
    fn sizes_may_have_units() {
        assert_eq!(
            ["65536", "64K", " 4M\n", "1g"].map(bytes),
            [Ok(65536), Ok(65536), Ok(4 << 20), Ok(1 << 30)]
        );
        assert_eq!(
            ["", "x", "4Q", "-1", "99999999999999999999"].map(bytes),
            [Err(Errno::EINVAL); 5]
        );
        assert_eq!(bytes("18446744073709551615K"), Err(Errno(libc::ERANGE)));
    }
}
