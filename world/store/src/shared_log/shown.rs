//! What a log says of itself and of its owner.

use crate::engine::Fence;
use crate::kv::LeaseId;
use crate::log::Position;
use std::fmt;
use types::session::Transno;

/// Pages of a checkpoint.
pub(crate) const PAGES_MAX: u32 = 1 << 24;

/// The process that owns a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// Its lease.
    pub lease: LeaseId,
    /// Its epoch.
    pub fence: Fence,
    /// Its host and NIDs, for people.
    pub place: String,
}

impl Owner {
    pub(super) fn encode(&self) -> Vec<u8> {
        format!("{:016x} {:016x} {}", self.lease, self.fence.0, self.place).into_bytes()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Owner> {
        let mut words = std::str::from_utf8(bytes).ok()?.splitn(3, ' ');
        let mut number = || u64::from_str_radix(words.next()?, 16).ok();
        let (lease, fence) = (number()?, Fence(number()?));
        Some(Owner { lease, fence, place: words.next()?.to_owned() })
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

/// A host that has a copy of the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostTree {
    /// Its host.
    pub host: String,
    /// Number of the newest entry that is durable in its tree.
    pub applied: u64,
}

/// State of a log, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// The newest epoch.
    pub fence: Fence,
    /// Number of the oldest entry that is kept; one more than `head`: none is.
    pub first: u64,
    /// Number of the newest entry.
    pub head: u64,
    /// The owner; none: the target is not served.
    pub owner: Option<Owner>,
    /// Hosts with a copy of the tree.
    pub replicas: Vec<HostTree>,
    /// The newest checkpoint; none: there is none, or the log has no store of blobs.
    pub checkpoint: Option<Checkpoint>,
}

/// What a log was made with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Founded {
    /// Uuid of the store.
    pub store: u128,
    /// What else all hosts of the target need before they serve it: see [`SharedLog::create`].
    pub identity: String,
}

/// A checkpoint, as its key names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// Number of the entry up to which it has the whole log.
    pub number: u64,
    /// Newest transno up to there; 0: entries behind it tell.
    pub transno: Transno,
    /// Drawn for it alone.
    pub id: u64,
    /// Pages that it has.
    pub pages: u32,
}

impl Checkpoint {
    /// Encodes to bytes that people can read.
    pub fn encode(&self) -> Vec<u8> {
        let Checkpoint { number, transno, id, pages } = self;
        format!("{number:016x} {:016x} {id:016x} {pages:08x}", transno.0).into_bytes()
    }

    /// From bytes; `None` if they are none.
    pub fn decode(bytes: &[u8]) -> Option<Checkpoint> {
        let mut words = std::str::from_utf8(bytes).ok()?.split(' ');
        let mut word = |digits| {
            let word = words.next().filter(|word| word.len() == digits)?;
            u64::from_str_radix(word, 16).ok()
        };
        let (number, transno, id) = (word(16)?, Transno(word(16)?), word(16)?);
        let pages = word(8)? as u32;
        let whole = words.next().is_none() && (1..=PAGES_MAX).contains(&pages);
        whole.then_some(Checkpoint { number, transno, id, pages })
    }

    /// The place behind which the log completes it.
    pub fn place(&self) -> Position {
        Position { number: self.number, transno: self.transno, at: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_a_checkpoint_or_none() {
        let one = Checkpoint { number: 7, transno: Transno(9), id: u64::MAX, pages: 3 };
        assert_eq!(Checkpoint::decode(&one.encode()), Some(one));
        let text = String::from_utf8(one.encode()).unwrap();
        assert_eq!(text, "0000000000000007 0000000000000009 ffffffffffffffff 00000003");
        for bad in ["", "7 9 1 3", &text[1..], &format!("{text} "), &text.replace("3", "0")] {
            assert_eq!(Checkpoint::decode(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
