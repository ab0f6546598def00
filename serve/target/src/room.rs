//! Room on the volume: a part is reserved for operations that free space, another is granted to
//! clients.
//!
//! Removing files changes records of the MDT, whose store may live on the same volume and must be
//! able to grow a little. A volume filled to the last block by data would prevent that. So writes
//! that need new space are refused while less than the reserve is free, or while the free space is
//! granted to others (`grants`).
//!
//! The volume is asked again after a second, after [`LOOK_BYTES`], and whenever its reserve may be
//! near. Targets of one process that share a volume share its room; those of several processes
//! together overshoot by less than the reserve.

use crate::grants::Grants;
use env::clock::Monotonic;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use store::error::StoreError;
use types::limits::GRANT_UNIT;
use types::session::ClientUuid;
use types::target::TargetName;

/// Largest reserve, bytes; small volumes keep 1/50.
const RESERVE_BYTES_MAX: u64 = 64 << 20;
/// Bytes written after which the volume is asked again.
const LOOK_BYTES: u64 = 8 << 20;
/// Time after which it is asked again.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Room of one volume, or of a target with a limit of its own.
#[derive(Default)]
pub struct Room {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    grants: Grants,
    /// Bytes that may be taken before the next look.
    credit: u64,
    looked: Monotonic,
    /// Result of the last look.
    seen: Seen,
}

/// A look at the volume.
#[derive(Clone, Copy, Default)]
pub struct Seen {
    /// Bytes that data may take.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
    /// Bytes that are left for what makes room.
    pub reserved: u64,
}

/// Bytes of a volume of this size that data leaves free.
pub fn reserve(total: u64) -> u64 {
    (total / 50).min(RESERVE_BYTES_MAX)
}

/// Looks at the volume.
pub type Look<'a> = &'a dyn Fn() -> Result<Seen, StoreError>;

/// Paid bytes of the request that is being carried out.
pub struct Payment {
    room: Arc<Room>,
    left: u64,
}

impl Drop for Payment {
    fn drop(&mut self) {
        self.room.state.lock().grants.refund(self.left);
    }
}

/// Room for one write while it goes on.
pub struct Taken<'a> {
    room: &'a Room,
    len: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.room.state.lock().grants.written(self.len);
    }
}

impl Room {
    /// For a request that has paid nothing yet.
    pub fn payment(self: &Arc<Self>) -> Payment {
        Payment { room: self.clone(), left: 0 }
    }

    /// Of a volume that gives out units of this size: a block that a client was granted may take
    /// a whole one.
    pub fn of_units(unit: u64) -> Room {
        let grants = Grants::with_weight(unit / GRANT_UNIT);
        Room { state: Mutex::new(State { grants, ..State::default() }) }
    }

    /// Room for `takes` more bytes, until the result is dropped; of blocks for which a client
    /// `pays`.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`]; or the volume cannot be asked.
    pub fn take<'a>(
        &'a self,
        payment: &mut Payment,
        now: Monotonic,
        look: Look<'_>,
        (pays, takes): (u64, u64),
    ) -> Result<Taken<'a>, StoreError> {
        let state = &mut *self.state.lock();
        let unpaid = state.grants.unpaid((pays, takes), payment.left);
        let fresh = state.credit >= unpaid && now < state.looked + LOOK_INTERVAL;
        if unpaid > 0 && (!fresh || state.grants.ungranted() < unpaid) {
            state.look(now, look)?;
        }
        if !state.grants.take((pays, takes), &mut payment.left) {
            state.credit = 0;
            let Seen { free, total, reserved } = state.seen;
            let reserved = reserved + state.grants.granted();
            return Err(StoreError::NoSpace {
                used: total.saturating_sub(free),
                capacity: total,
                reserved,
            });
        }
        state.credit = state.credit.saturating_sub(unpaid);
        Ok(Taken { room: self, len: takes })
    }

    /// `OstOp::Grant`: (more, paid). Paid bytes go to `payment`.
    ///
    /// # Errors
    /// The volume cannot be asked.
    pub fn grant(
        &self,
        payment: &mut Payment,
        now: Monotonic,
        look: Look<'_>,
        holder: (TargetName, ClientUuid),
        (spend, back, want): (u64, u64, u64),
    ) -> Result<(u64, u64), StoreError> {
        let state = &mut *self.state.lock();
        let paid = state.grants.spend(holder, spend);
        payment.left += paid;
        state.grants.reduce(holder, back);
        if want == 0 {
            return Ok((0, paid));
        }
        if state.credit == 0 || now >= state.looked + LOOK_INTERVAL {
            state.look(now, look)?;
        }
        Ok((state.grants.grant(holder, want), paid))
    }

    /// The session ended: nothing is granted to it any more.
    pub fn gone(&self, holder: (TargetName, ClientUuid)) {
        self.state.lock().grants.reduce(holder, u64::MAX);
    }

    /// Free bytes that are neither granted nor paid for. One look under one lock: between two, a
    /// request that has paid is neither free nor granted.
    ///
    /// # Errors
    /// The volume cannot be asked.
    pub fn available(&self, now: Monotonic, look: Look<'_>) -> Result<u64, StoreError> {
        let state = &mut *self.state.lock();
        state.look(now, look)?;
        Ok(state.grants.available())
    }

    /// Something else may have taken from the volume: it is looked at before more is granted.
    pub fn may_have_shrunk(&self) {
        self.state.lock().credit = 0;
    }

    /// What may be taken of the volume, in the worst case, for what clients were granted, or have
    /// paid for; bytes.
    pub fn claimed(&self) -> u64 {
        self.state.lock().grants.claimed()
    }

    /// Granted to clients, bytes.
    pub fn granted(&self) -> u64 {
        self.state.lock().grants.granted()
    }
}

impl State {
    fn look(&mut self, now: Monotonic, look: Look<'_>) -> Result<(), StoreError> {
        self.seen = look()?;
        self.grants.looked(self.seen.free);
        (self.credit, self.looked) = (LOOK_BYTES, now);
        Ok(())
    }
}
