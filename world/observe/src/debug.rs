//! `debug`: how much the process logs, in Lustre's words.
//!
//! Lustre has a mask with a bit for each kind of message; here lines have levels. A word of the
//! mask stands for the level at which its kind of line is written, and the most detailed word
//! counts. Errors and warnings are always logged.

use parking_lot::Mutex;
use std::sync::OnceLock;
use tracing::level_filters::LevelFilter;
use types::errno::Errno;

/// Lustre's words, the lowest bit first.
const WORDS: [&str; 32] = [
    "trace", "inode", "super", "iotrace", "malloc", "cache", "info", "ioctl", "neterror", "net",
    "warning", "buffs", "other", "dentry", "nettrace", "page", "dlmtrace", "error", "emerg", "ha",
    "rpctrace", "vfstrace", "reada", "mmap", "config", "console", "quota", "sec", "lfsck", "hsm",
    "snapshot", "layout",
];
/// Kinds that are always logged.
const ALWAYS: [&str; 3] = ["warning", "error", "emerg"];
/// Kinds that are logged at level info.
const INFO: [&str; 5] = ["info", "neterror", "ha", "config", "console"];
/// Kinds that are logged at level trace.
const TRACE: [&str; 7] = ["trace", "iotrace", "malloc", "net", "buffs", "nettrace", "page"];

type Follow = Box<dyn Fn(LevelFilter) -> Result<(), Errno> + Send + Sync>;

static FOLLOW: OnceLock<Follow> = OnceLock::new();
/// The mask that was set last; `None`: none was set, so the level decides.
static SET: Mutex<Option<u32>> = Mutex::new(None);

/// The process' log follows the mask by this from now on. A second call (tests) leaves the first in
/// force.
pub fn follow(set: impl Fn(LevelFilter) -> Result<(), Errno> + Send + Sync + 'static) {
    let _ = FOLLOW.set(Box::new(set));
}

/// The mask, as words.
pub fn words() -> String {
    let mask = SET.lock().unwrap_or_else(|| mask_of(LevelFilter::current()));
    let words = WORDS.iter().enumerate().filter(|(bit, _)| mask & (1 << bit) != 0);
    words.map(|(_, word)| *word).collect::<Vec<_>>().join(" ")
}

/// Sets the mask: words, `+word` and `-word` to change it, or a number.
///
/// # Errors
/// EINVAL: neither. EOPNOTSUPP: the log of this process does not change.
pub fn set(text: &str) -> Result<(), Errno> {
    let mut now = SET.lock();
    let mask = parse(text, now.unwrap_or_else(|| mask_of(LevelFilter::current())))?;
    FOLLOW.get().ok_or(Errno::EOPNOTSUPP)?(level_of(mask))?;
    *now = Some(mask);
    Ok(())
}

fn bit(word: &str) -> Option<u32> {
    WORDS.iter().position(|known| *known == word).map(|at| 1 << at)
}

fn always() -> u32 {
    ALWAYS.iter().filter_map(|word| bit(word)).sum()
}

fn parse(text: &str, now: u32) -> Result<u32, Errno> {
    let text = text.trim();
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text
            .parse::<i64>()
            .ok()
            .and_then(|n| if n == -1 { Some(u32::MAX) } else { u32::try_from(n).ok() }),
    };
    if let Some(mask) = number {
        return Ok(mask | always());
    }
    let mut mask = if text.starts_with(['+', '-']) { now } else { 0 };
    let mut any = false;
    for word in text.split_whitespace() {
        any = true;
        let (adds, word) = match (word.strip_prefix('-'), word.strip_prefix('+')) {
            (Some(word), _) => (false, word),
            (None, plain) => (true, plain.unwrap_or(word)),
        };
        let bits = bit(word).ok_or(Errno::EINVAL)?;
        mask = if adds { mask | bits } else { mask & !bits };
    }
    if any { Ok(mask | always()) } else { Err(Errno::EINVAL) }
}

fn level_of_word(word: &str) -> LevelFilter {
    match word {
        _ if ALWAYS.contains(&word) => LevelFilter::WARN,
        _ if INFO.contains(&word) => LevelFilter::INFO,
        _ if TRACE.contains(&word) => LevelFilter::TRACE,
        _ => LevelFilter::DEBUG,
    }
}

/// The level that logs everything in the mask.
fn level_of(mask: u32) -> LevelFilter {
    let wanted = WORDS.iter().enumerate().filter(|(bit, _)| mask & (1 << bit) != 0);
    wanted.map(|(_, word)| level_of_word(word)).max().unwrap_or(LevelFilter::WARN)
}

/// The mask of everything that a level logs.
fn mask_of(level: LevelFilter) -> u32 {
    let told = WORDS.iter().enumerate().filter(|(_, word)| level_of_word(word) <= level);
    told.map(|(bit, _)| 1 << bit).sum::<u32>() | always()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_make_a_mask() {
        let (info, trace) = (bit("info").unwrap(), bit("trace").unwrap());
        assert_eq!((trace, info, bit("layout")), (1, 0x40, Some(0x8000_0000)));
        assert_eq!(parse("info", trace), Ok(info | always()));
        assert_eq!(parse("+info", trace), Ok(info | trace | always()));
        assert_eq!(parse("-trace +info", trace), Ok(info | always()));
        assert_eq!(parse("-1", 0), Ok(u32::MAX));
        assert_eq!(parse("0x41", 0), Ok(info | trace | always()));
        assert_eq!(parse("0", u32::MAX), Ok(always()), "errors and warnings stay");
        for bad in ["", "  ", "infos", "-2", "info,trace"] {
            assert_eq!(parse(bad, 0), Err(Errno::EINVAL), "{bad:?}");
        }
    }

    #[test]
    fn the_most_detailed_word_says_the_level() {
        for (text, level) in [
            ("0", LevelFilter::WARN),
            ("ha", LevelFilter::INFO),
            ("ha inode", LevelFilter::DEBUG),
            ("ha inode page", LevelFilter::TRACE),
        ] {
            let mask = parse(text, 0).unwrap();
            assert_eq!(level_of(mask), level, "{text}");
            assert_eq!(mask_of(level) & mask, mask, "{text}");
        }
    }
}
