//! Room on the volume: a part is left for what makes room.
//!
//! Removing files changes records of the MDT, whose store may live on the same volume and must be able to grow a
//! little; a volume filled to the last block by data would take that away. So writes that need new space are refused
//! while less than the reserve is free. The volume is asked again after a second, after [`LOOK_BYTES`] and whenever it
//! would be near, so targets that share it together overshoot by less than the reserve.

use env::Env;
use env::clock::Monotonic;
use parking_lot::Mutex;
use std::path::Path;
use std::time::Duration;
use store::error::StoreError;

/// Largest reserve, bytes; small volumes keep 1/50.
const RESERVE_BYTES_MAX: u64 = 64 << 20;
/// Bytes written after which the volume is asked again.
const LOOK_BYTES: u64 = 8 << 20;
/// Time after which it is asked again.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Default)]
struct Gauge {
    /// Bytes that may be taken before the next look.
    left: u64,
    looked: Monotonic,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Room {
    gauge: Mutex<Gauge>,
}

/// Bytes of a volume of this size that data leaves free.
pub(crate) fn reserve(total: u64) -> u64 {
    (total / 50).min(RESERVE_BYTES_MAX)
}

impl Room {
    /// May `len` more bytes be taken?
    ///
    /// # Errors
    /// [`StoreError::NoSpace`]; or the volume cannot be asked.
    pub(crate) fn take(&self, env: &Env, dir: &Path, len: u64) -> Result<(), StoreError> {
        let now = env.clock.now();
        let mut gauge = self.gauge.lock();
        if gauge.left >= len && now < gauge.looked + LOOK_INTERVAL {
            gauge.left -= len;
            return Ok(());
        }
        let space = env.disk.space(dir).map_err(StoreError::io("look at the volume of", dir))?;
        let reserved = reserve(space.bytes_total);
        let free = space.bytes_available.saturating_sub(reserved);
        if free < len {
            *gauge = Gauge::default();
            let used = space.bytes_total.saturating_sub(space.bytes_available);
            return Err(StoreError::NoSpace { used, capacity: space.bytes_total, reserved });
        }
        *gauge = Gauge { left: (free - len).min(LOOK_BYTES), looked: now };
        Ok(())
    }
}
