//! The bytes of a record of a bundle, read from the front.

use super::{RECORD, RawTime};
use crate::damaged::Damaged;
use types::attr::FileType;
use types::fid::Fid;
use types::name::Name;
use types::time::Timestamp;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

pub(super) fn field(field: &'static str, found: u64) -> Damaged {
    Damaged::Field { record: RECORD, field, found }
}

pub(super) fn good_name(bytes: &[u8]) -> Result<Name, Damaged> {
    Name::new(bytes).map_err(|_| field("length of a name", bytes.len() as u64))
}

/// What is left of a record.
pub(super) struct Rest<'a>(pub(super) &'a [u8]);

impl<'a> Rest<'a> {
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Damaged> {
        let short = Damaged::Short { record: RECORD, found: self.0.len() };
        let (taken, rest) = self.0.split_at_checked(len).ok_or(short)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn get<T: FromBytes + KnownLayout + Immutable + Unaligned>(
        &mut self,
    ) -> Result<&'a T, Damaged> {
        let bytes = self.take(size_of::<T>())?;
        T::ref_from_bytes(bytes).map_err(|_| Damaged::Short { record: RECORD, found: bytes.len() })
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        let bytes = self.take(N)?;
        <[u8; N]>::try_from(bytes)
            .map_err(|_| Damaged::Short { record: RECORD, found: bytes.len() })
    }

    pub(super) fn fid(&mut self) -> Result<Fid, Damaged> {
        self.array().map(Fid::from_be_bytes)
    }

    pub(super) fn time(&mut self) -> Result<Timestamp, Damaged> {
        let raw: &RawTime = self.get()?;
        match raw.nsec.get() {
            nsec if nsec < 1_000_000_000 => Ok(Timestamp { sec: raw.sec.get(), nsec }),
            nsec => Err(field("nanos", nsec.into())),
        }
    }

    pub(super) fn sized(&mut self) -> Result<&'a [u8], Damaged> {
        let len = u32::from_le_bytes(self.array()?);
        self.take(len as usize)
    }

    /// A type and a name, which ends the step.
    pub(super) fn name(&mut self) -> Result<(FileType, Name), Damaged> {
        let [raw] = self.array()?;
        let file_type = FileType::from_dtype(raw).ok_or(field("file type", raw.into()))?;
        let bytes = std::mem::take(&mut self.0);
        Ok((file_type, good_name(bytes)?))
    }

    pub(super) fn trailing(&self) -> Damaged {
        field("bytes behind the end", self.0.len() as u64)
    }
}
