//! Operations on locks of clients and on file locks of programs.

use crate::class::{Class, Held};
use crate::codec::cursor::{Bulk, Reader, Writer, bits, unpack};
use crate::codec::error::DecodeError;
use crate::codec::locks::{locks, put_locks};
use crate::codec::operation::{FLAGS, Operation, fid, fids, number64, plain, put_fid};
use crate::codec::raw::{RawFlock, RawLock};
#[cfg(test)]
use crate::codec::testing::*;
use types::fid::Fid;
use types::lock::{Flock, InodeBits};
use types::ranges::{ByteRange, Needs};
use zerocopy::little_endian::U64;

/// Test for a conflicting lock (F_GETLK); answers `Flock`.
#[derive(Clone, PartialEq, Debug)]
pub struct FlockTest {
    /// The inode.
    pub fid: Fid,
    /// The lock that would be taken.
    pub lock: Flock,
}

impl Operation for FlockTest {
    fids!(fid);

    fn put(&self, w: &mut Writer) {
        put_fid(self.fid, w);
        w.put(&RawFlock::from(&self.lock));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<FlockTest, DecodeError> {
        plain(flags)?;
        Ok(FlockTest { fid: fid(r)?, lock: r.get::<RawFlock>()?.decode()? })
    }

    #[cfg(test)]
    fn sample() -> FlockTest {
        FlockTest { fid: FID, lock: flock() }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<FlockTest> {
        (any_fid(), any_flock()).prop_map(|(fid, lock)| FlockTest { fid, lock }).boxed()
    }
}

/// Take or release. `wait`: answers when granted, or EDEADLK; else EAGAIN at a conflict.
#[derive(Clone, PartialEq, Debug)]
pub struct FlockSet {
    /// The inode.
    pub fid: Fid,
    /// The lock.
    pub lock: Flock,
    /// Answer when granted, or EDEADLK; else EAGAIN at a conflict.
    pub wait: bool,
}

impl Operation for FlockSet {
    fids!(fid);

    fn class(&self, row: Class) -> Class {
        Class { waits: self.wait, ..row }
    }

    fn flags(&self) -> u16 {
        bits([self.wait])
    }

    fn put(&self, w: &mut Writer) {
        put_fid(self.fid, w);
        w.put(&RawFlock::from(&self.lock));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<FlockSet, DecodeError> {
        let [wait] = unpack(FLAGS, flags)?;
        Ok(FlockSet { fid: fid(r)?, lock: r.get::<RawFlock>()?.decode()?, wait })
    }

    #[cfg(test)]
    fn sample() -> FlockSet {
        FlockSet { fid: FID, lock: flock(), wait: true }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<FlockSet> {
        (any_fid(), any_flock(), any::<bool>())
            .prop_map(|(fid, lock, wait)| FlockSet { fid, lock, wait })
            .boxed()
    }
}

/// Give up a waiting `FlockSet` of this owner (a signal came); the waiter answers EINTR.
#[derive(Clone, PartialEq, Debug)]
pub struct FlockCancel {
    /// The inode.
    pub fid: Fid,
    /// The lock.
    pub lock: Flock,
}

impl Operation for FlockCancel {
    fids!(fid);

    fn put(&self, w: &mut Writer) {
        put_fid(self.fid, w);
        w.put(&RawFlock::from(&self.lock));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<FlockCancel, DecodeError> {
        plain(flags)?;
        Ok(FlockCancel { fid: fid(r)?, lock: r.get::<RawFlock>()?.decode()? })
    }

    #[cfg(test)]
    fn sample() -> FlockCancel {
        FlockCancel { fid: FID, lock: flock() }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<FlockCancel> {
        (any_fid(), any_flock()).prop_map(|(fid, lock)| FlockCancel { fid, lock }).boxed()
    }
}

/// Wait for locks (DATA, or WRITE with DATA and UPDATE), whatever others hold; answers `Entry`, and
/// the reply grants them, if the session lives. `needs`: these bytes are enough; then it may answer
/// `Extent`.
#[derive(Clone, PartialEq, Debug)]
pub struct Lock {
    /// The inode.
    pub fid: Fid,
    /// The bits.
    pub bits: InodeBits,
    /// These bytes are enough; then it may answer `Extents`.
    pub needs: Option<Needs>,
}

impl Operation for Lock {
    fids!(fid);

    fn class(&self, row: Class) -> Class {
        let held = if self.bits.contains(InodeBits::WRITE) { row.held } else { Held::Nothing };
        Class { held, ..row }
    }

    fn flags(&self) -> u16 {
        bits([self.needs.is_some(), self.needs.is_some_and(|needs| needs.again)])
    }

    fn put(&self, w: &mut Writer) {
        w.put(&RawLock::from((self.fid, self.bits)));
        if let Some(Needs { range, .. }) = self.needs {
            w.put(&U64::new(range.start));
            w.put(&U64::new(range.end));
        }
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Lock, DecodeError> {
        let [of_bytes, again] = unpack(FLAGS, flags)?;
        let (fid, bits) = r.get::<RawLock>()?.into();
        let needs = match of_bytes {
            true => Some(Needs { range: ByteRange::new(number64(r)?, number64(r)?), again }),
            false if again => return Err(DecodeError::Field { field: FLAGS, value: flags.into() }),
            false => None,
        };
        Ok(Lock { fid, bits, needs })
    }

    #[cfg(test)]
    fn sample() -> Lock {
        Lock {
            fid: FID,
            bits: InodeBits::WRITE,
            needs: Some(Needs { range: ByteRange::new(4096, 51_104), again: true }),
        }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Lock> {
        (any_fid(), any::<u32>(), of(any_needs()))
            .prop_map(|(fid, bits, needs)| Lock {
                fid,
                bits: InodeBits::from_bits_retain(bits),
                needs,
            })
            .boxed()
    }
}

/// These locks are given up; at most REVOKES_PER_CALLBACK_MAX.
#[derive(Clone, PartialEq, Debug)]
pub struct Unlock {
    /// Inodes and bits.
    pub locks: Vec<(Fid, InodeBits)>,
}

impl Operation for Unlock {
    fn put(&self, w: &mut Writer) {
        put_locks(&self.locks, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Unlock, DecodeError> {
        plain(flags)?;
        Ok(Unlock { locks: locks(r)? })
    }

    #[cfg(test)]
    fn sample() -> Unlock {
        Unlock { locks: vec![(FID, InodeBits::ALL), (DIR, InodeBits::UPDATE)] }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Unlock> {
        any_locks().prop_map(|locks| Unlock { locks }).boxed()
    }
}
