//! New FIDs: each start of an MDT takes fresh sequences, so that none is ever handed out twice.
//!
//! Sequences are taken in ranges. The end of a range is a durable record before the range's first
//! use. When half of a range is used up, the next end is recorded with an ordinary transaction, and
//! used when that is durable.

use disk::key::MDT_STATE;
use disk::mdt_state::{self, MdtState};
use store::tx::Tx;
use types::errno::Errno;
use types::fid::Fid;
use types::session::Transno;

/// Sequences in a range.
pub const RANGE: u64 = 1024;
/// Objects of one sequence: `Fid::ino` is unique below this.
pub const OIDS_PER_SEQ: u32 = (1 << 24) - 1;

/// The allocator of one MDT.
#[derive(Debug)]
pub struct Fids {
    seq: u64,
    oid: u32,
    /// Durable end, exclusive.
    end: u64,
    /// A new end of the range, and the transaction that recorded it.
    extension: Option<(u64, Transno)>,
}

impl Fids {
    /// Starts with sequence `first`, which was never used; `first + RANGE` must become durable
    /// before [`Fids::next`].
    pub fn new(first: u64) -> Fids {
        Fids { seq: first, oid: 0, end: first + RANGE, extension: None }
    }

    /// First sequence of MDT `index`.
    pub fn first_seq(index: u16) -> u64 {
        Fid::SEQ_NORMAL + u64::from(index) * Fid::SEQ_WIDTH
    }

    /// A FID that never was. `last_committed` tells whether a recorded extension is durable.
    ///
    /// # Errors
    /// ENOSPC: the range is used up, and the next one is not durable yet.
    pub fn next(&mut self, tx: &mut Tx<'_>, last_committed: Transno) -> Result<Fid, Errno> {
        if self.oid == OIDS_PER_SEQ {
            self.next_seq(tx, last_committed)?;
        }
        self.oid += 1;
        Ok(Fid { seq: self.seq, oid: self.oid, ver: 0 })
    }

    /// A sequence of which no FID ever was, for another MDT to hand out.
    ///
    /// # Errors
    /// As [`Fids::next`].
    pub fn grant(&mut self, tx: &mut Tx<'_>, last_committed: Transno) -> Result<u64, Errno> {
        self.next_seq(tx, last_committed)?;
        let granted = self.seq;
        self.next_seq(tx, last_committed)?;
        Ok(granted)
    }

    fn next_seq(&mut self, tx: &mut Tx<'_>, last_committed: Transno) -> Result<(), Errno> {
        if let Some((end, transno)) = self.extension
            && transno <= last_committed
        {
            (self.end, self.extension) = (end, None);
        }
        if self.seq + 1 >= self.end {
            return Err(Errno::ENOSPC);
        }
        (self.seq, self.oid) = (self.seq + 1, 0);
        if self.extension.is_none() && self.end - self.seq < RANGE / 2 {
            let end = self.end + RANGE;
            tx.put(MDT_STATE, &mdt_state::encode(&MdtState { seq_next: end }));
            self.extension = Some((end, tx.transno()));
        }
        Ok(())
    }
}
