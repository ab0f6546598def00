//! How the pool commands name OSTs: `OST0001`, `sheen-OST0001_UUID`, `OST[0-7]`, `OST[0-a/2,f]`.
//! Hexadecimal.

use types::limits::TARGETS_MAX;

/// Indexes of the OSTs that a word names, in its order.
///
/// # Errors
/// One sentence: the word names no OST, or OSTs of another file system.
pub fn parse(word: &str, fsname: &str) -> Result<Vec<u16>, String> {
    let bad = || format!("{word:?} names no OST; write OST0001, {fsname}-OST0001 or OST[0-3]");
    let short = word.strip_suffix("_UUID").unwrap_or(word);
    let number = match short.rsplit_once("-OST") {
        Some((other, _)) if other != fsname => {
            return Err(format!("{word} is not of the file system {fsname}"));
        }
        Some((_, number)) => number,
        None => short.strip_prefix("OST").ok_or_else(bad)?,
    };
    // OST000[0-3] is OST[0-3].
    let Some(list) =
        number.trim_start_matches('0').strip_prefix('[').and_then(|n| n.strip_suffix(']'))
    else {
        return Ok(vec![index(number).ok_or_else(bad)?]);
    };
    let mut osts = Vec::new();
    for part in list.split(',') {
        let (range, step) =
            part.split_once('/').map_or((part, Some(1)), |(range, step)| (range, index(step)));
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let step = step.filter(|step| *step > 0).ok_or_else(bad)?;
        let (from, to) = (index(from).ok_or_else(bad)?, index(to).ok_or_else(bad)?);
        if from > to {
            return Err(bad());
        }
        osts.extend((from..=to).step_by(usize::from(step)));
        if osts.len() > TARGETS_MAX {
            return Err(bad());
        }
    }
    Ok(osts)
}

fn index(digits: &str) -> Option<u16> {
    let good = (1..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    good.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_to_name_osts() {
        let parsed = |word: &str| parse(word, "sheen").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(parsed("OST0001"), [1]);
        assert_eq!(parsed("sheen-OST000a"), [10]);
        assert_eq!(parsed("sheen-OST001f_UUID"), [31]);
        assert_eq!(parsed("sheen-OST[0-3]_UUID"), [0, 1, 2, 3]);
        assert_eq!(parsed("sheen-OST000[1-2]"), [1, 2]);
        assert_eq!(parsed("OST[0-8/4,b]"), [0, 4, 8, 11]);
        for bad in [
            "",
            "OST",
            "MDT0000",
            "other-OST0000",
            "OST[3-0]",
            "OST[0-3",
            "OST[0-3/0]",
            "OST10000",
            "OST-1",
        ] {
            assert!(parse(bad, "sheen").is_err(), "{bad}");
        }
    }
}
