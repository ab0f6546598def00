//! Removes blobs that no key names any more.
//!
//! A name is listed first and judged by keys that are read afterwards, and what is judged stays so:
//! an entry that was trimmed never comes back, and an older epoch appends nothing. So no clock is
//! asked, and a process that was stopped in between, and lost the target, still removes only what
//! no key names.

use crate::blobs::Blobs;
use crate::checkpoint;
use crate::error::StoreError;
use crate::shared_log::{Needed, SharedLog};

/// Removes what neither the log nor its checkpoint names; the caller owns the target, and writes no
/// checkpoint meanwhile. Returns how many blobs. Ends early if `stop` says so. Blocks.
///
/// # Errors
/// The log or the store of blobs does not answer.
pub fn sweep(
    log: &SharedLog,
    blobs: &dyn Blobs,
    stop: &dyn Fn() -> bool,
) -> Result<u64, StoreError> {
    let mut removed = 0;
    for folder in [log.blob_folder("entry"), checkpoint::folder(log)] {
        let mut after = String::new();
        loop {
            let names = blobs.list(&folder, &after).map_err(|error| log.blob_error(error))?;
            let Some(last) = names.last() else { break };
            after.clone_from(last);
            let needed = log.needed()?;
            if !needed.owns || stop() {
                return Ok(removed);
            }
            for name in names {
                if name.strip_prefix(&folder).is_some_and(|there| is_unneeded(&needed, there)) {
                    blobs.remove(&name).map_err(|error| log.blob_error(error))?;
                    removed += 1;
                }
            }
        }
    }
    Ok(removed)
}

/// `there`: the name in its folder, from its `/` on.
fn is_unneeded(needed: &Needed, there: &str) -> bool {
    match Kind::of(there) {
        // What others put there is theirs.
        None => false,
        Some(Kind::Page { number, id }) => {
            needed.checkpoint.is_none_or(|now| (now.number, now.id) != (number, id))
        }
        Some(Kind::Entry { number, epoch }) if number > needed.head => epoch < needed.epoch,
        // One that the log does not name after all goes when the log is trimmed up to there.
        Some(Kind::Entry { number, .. }) => number < needed.first,
    }
}

/// What a name says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Entry { number: u64, epoch: u64 },
    Page { number: u64, id: u64 },
}

impl Kind {
    fn of(there: &str) -> Option<Kind> {
        let number = |text: &str, digits: usize| {
            (text.len() == digits).then(|| u64::from_str_radix(text, 16).ok())?
        };
        let there = there.strip_prefix('/')?;
        if let Some((folder, page)) = there.split_once('/') {
            number(page, 8)?;
            let (place, id) = folder.split_once('-')?;
            return Some(Kind::Page { number: number(place, 16)?, id: number(id, 16)? });
        }
        let mut words = there.split('-');
        let (entry, epoch, crc) = (words.next()?, words.next()?, words.next()?);
        number(crc, 8)?;
        let kind = Kind::Entry { number: number(entry, 16)?, epoch: number(epoch, 16)? };
        words.next().is_none().then_some(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_the_log_gives_are_judged() {
        assert_eq!(
            Kind::of("/000000000000000a-0000000000000002-0123abcd"),
            Some(Kind::Entry { number: 10, epoch: 2 })
        );
        assert_eq!(
            Kind::of("/000000000000000a-00000000000000ff/00000000"),
            Some(Kind::Page { number: 10, id: 255 })
        );
        for other in [
            "",
            "/",
            "/a-2-0123abcd",
            "/000000000000000a-0000000000000002-0123abcd-1",
            "/000000000000000a-0000000000000002",
            "/000000000000000a-00000000000000ff/page",
            "s/000000000000000a-0000000000000002-0123abcd",
        ] {
            assert_eq!(Kind::of(other), None, "{other}");
        }
    }
}
