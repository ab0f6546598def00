//! What clients of audited nodemaps change, and what they are refused (docs/security.md, "Audit").
//!
//! The MDT says what is to be written down; its process has it written ([`Audit`]). Bounds: a
//! client has [`BURST`] lines at once and [`PER_SECOND`] a second, beyond which lines are counted
//! and left out; one allowance for each session.

mod answered;

use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use types::session::ClientUuid;
use types::target::TargetName;
use types::time::Timestamp;
use wire::mds::MdsOp;

/// Lines that one client may cause at once.
pub const BURST: u32 = 10_000;
/// Lines that it may cause in a second, in the long run.
pub const PER_SECOND: u32 = 100;

/// One line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// When it was answered, by the MDT's wall clock.
    pub at: Timestamp,
    /// The MDT.
    pub target: TargetName,
    /// Where the client is, as text.
    pub nid: String,
    /// The name of its key; empty: it has shown none.
    pub key: String,
    /// Its session, by the first digits of its UUID.
    pub client: String,
    /// What was asked; `None`: the session ended, and lines of it were left out.
    pub what: Option<What>,
    /// Lines of the session that were left out since its last one.
    pub left_out: u64,
}

/// An operation, and what became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct What {
    /// Name of the operation, as in statistics.
    pub operation: &'static str,
    /// User and group, as the client said.
    pub claimed: (u32, u32),
    /// The ids as which the caller acted.
    pub acted: (u32, u32),
    /// The inode, or the directory of the name.
    pub fid: Fid,
    /// Names that went, or came, with their directories.
    pub names: SmallVec<[(Fid, Name); 2]>,
    /// The inode that it found, made or removed; NONE: there is no such, or the operation names it.
    pub found: Fid,
    /// It was refused with this; `None`: it was done.
    pub refused: Option<Errno>,
}

/// Writes lines down. It must not wait.
pub trait Audit: Send + Sync {
    /// Takes one line.
    fn write(&self, line: Line);
}

/// What a client may still cause.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    lines: u32,
    /// When `lines` was right.
    at: Duration,
    left_out: u64,
}

impl Allowance {
    fn new(now: Duration) -> Allowance {
        Allowance { lines: BURST, at: now, left_out: 0 }
    }

    /// One line is to be written: how many were left out before it. `None`: it is left out, too.
    fn take(&mut self, now: Duration) -> Option<u64> {
        let more = (now.saturating_sub(self.at).as_millis() * u128::from(PER_SECOND)) / 1000;
        if more > 0 {
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            self.lines = self.lines.saturating_add(more).min(BURST);
            self.at = now;
        }
        match self.lines.checked_sub(1) {
            Some(left) => {
                self.lines = left;
                Some(std::mem::take(&mut self.left_out))
            }
            None => {
                self.left_out += 1;
                None
            }
        }
    }
}

/// The audit of one MDT.
#[derive(Default)]
pub(crate) struct Audited {
    sink: OnceLock<Arc<dyn Audit>>,
    /// Bound: the sessions of the MDT.
    allowances: Mutex<HashMap<ClientUuid, Allowance>>,
}

/// An operation, before it is done.
pub(crate) struct Asked {
    operation: &'static str,
    fid: Fid,
    names: SmallVec<[(Fid, Name); 2]>,
    changes: bool,
    /// Files for which it asks for tickets; each answer is one of its own.
    files: Vec<Fid>,
}

impl Asked {
    /// `found`: what earlier operations of the request found.
    pub(crate) fn of(op: &MdsOp, found: &[Fid]) -> Asked {
        let real = |fid: Fid| match fid.as_result_of() {
            Some(index) => found.get(index as usize).copied().unwrap_or(Fid::NONE),
            None => fid,
        };
        let names = op.names_changed().map(|(dir, name)| (real(dir), name.clone())).collect();
        let changes = op.class().reint
            || matches!(op, MdsOp::SwapLayouts(_) | MdsOp::Mend(_))
            || matches!(op, MdsOp::Open(open) if open.flags.write);
        let files = match op {
            MdsOp::AskTickets(ask) => ask.fids.iter().copied().map(real).collect(),
            _ => Vec::new(),
        };
        Asked { operation: op.row().name, fid: real(op.fid()), names, changes, files }
    }
}

/// True if the caller was refused, and not what it asked for impossible. ENOKEY: it has no
/// permission, nor its client a ticket.
fn is_refusal(errno: Errno) -> bool {
    matches!(errno, Errno::EACCES | Errno::EPERM | Errno::EROFS | Errno::ENOKEY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::mds::{Getattr, Open, OpenFlags, Rename, RenameFlags};

    const DIR: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };

    #[test]
    fn a_client_has_its_allowance_and_is_told_of_by_number_beyond_it() {
        let at = Duration::from_secs;
        let mut allowance = Allowance::new(at(100));
        assert!((0..BURST).all(|_| allowance.take(at(100)) == Some(0)));
        assert!((0..70).all(|_| allowance.take(at(100)).is_none()));
        assert_eq!(allowance.take(at(101)), Some(70));
        let more = (0..1000).filter(|_| allowance.take(at(101)).is_some()).count();
        assert_eq!(more, PER_SECOND as usize - 1);
        assert!((0..BURST).all(|_| allowance.take(at(9999)).is_some()), "rest gives it back");
        assert!(allowance.take(at(9999)).is_none(), "and no more than that");
        let tenth = at(9999) + Duration::from_millis(10);
        assert!(allowance.take(tenth).is_some() && allowance.take(tenth).is_none());
    }

    #[test]
    fn changes_are_told_with_their_names_and_reads_are_not() {
        let name = |name: &[u8]| Name::new(name).unwrap();
        let rename = Rename {
            parent: Fid::result_of(0),
            name: name(b"a"),
            new_parent: DIR,
            new_name: name(b"b"),
            flags: RenameFlags::default(),
        };
        let asked = Asked::of(&MdsOp::Rename(rename), &[Fid::ROOT]);
        assert_eq!((asked.operation, asked.fid, asked.changes), ("mds_rename", Fid::ROOT, true));
        assert_eq!(asked.names[..], [(Fid::ROOT, name(b"a")), (DIR, name(b"b"))]);
        let open = |write| {
            let flags = OpenFlags { read: true, write, ..OpenFlags::default() };
            Asked::of(&MdsOp::Open(Open { fid: DIR, flags }), &[]).changes
        };
        assert!(open(true) && !open(false));
        assert!(!Asked::of(&MdsOp::Getattr(Getattr::of(DIR)), &[]).changes);
        assert!(is_refusal(Errno::EROFS) && is_refusal(Errno::ENOKEY));
        assert!(!is_refusal(Errno::ENOENT) && !is_refusal(Errno::ECANCELED));
    }
}
