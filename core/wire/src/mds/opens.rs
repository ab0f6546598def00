//! Operations on open files, and their leases.

use super::shared::{LeaseAct, OpenFlags};
use crate::class::Class;
use crate::codec::cursor::{Bulk, Reader, Writer, bits, unpack};
use crate::codec::error::DecodeError;
use crate::codec::operation::{FLAGS, Operation, fid, fids, number64, plain, put_fid};
use crate::codec::raw::lease_mode;
#[cfg(test)]
use crate::codec::testing::*;
use types::fid::Fid;
#[cfg(test)]
use types::lock::LeaseMode;
use types::session::OpenHandle;
use zerocopy::little_endian::{U32, U64};

const LEASE_CHECK: u32 = 0;
/// As Lustre's `LL_LEASE_UNLCK`; the modes have their own numbers.
const LEASE_RELEASE: u32 = 4;

const fn lease_act_number(act: LeaseAct) -> u32 {
    match act {
        LeaseAct::Check => LEASE_CHECK,
        LeaseAct::Acquire(mode) => mode as u32,
        LeaseAct::Release => LEASE_RELEASE,
    }
}

fn lease_act(number: u32) -> Result<LeaseAct, DecodeError> {
    match number {
        LEASE_CHECK => Ok(LeaseAct::Check),
        LEASE_RELEASE => Ok(LeaseAct::Release),
        mode => Ok(LeaseAct::Acquire(lease_mode(mode)?)),
    }
}

/// Hold an inode open; answers `Opened`.
#[derive(Clone, PartialEq, Debug)]
pub struct Open {
    /// The inode.
    pub fid: Fid,
    /// How it is opened.
    pub flags: OpenFlags,
}

impl Operation for Open {
    fids!(fid);

    fn flags(&self) -> u16 {
        let OpenFlags { read, write, exec, append, lasting } = self.flags;
        bits([read, write, exec, append, lasting])
    }

    fn put(&self, w: &mut Writer) {
        put_fid(self.fid, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Open, DecodeError> {
        let [read, write, exec, append, lasting] = unpack(FLAGS, flags)?;
        Ok(Open { fid: fid(r)?, flags: OpenFlags { read, write, exec, append, lasting } })
    }

    #[cfg(test)]
    fn sample() -> Open {
        Open { fid: FID, flags: sample_open() }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Open> {
        (any_fid(), any_open()).prop_map(|(fid, flags)| Open { fid, flags }).boxed()
    }
}

/// Let it go. The last close of an unlinked inode destroys it.
#[derive(Clone, PartialEq, Debug)]
pub struct Close {
    /// The inode.
    pub fid: Fid,
    /// Handle of the open.
    pub handle: OpenHandle,
}

impl Operation for Close {
    fids!(fid);

    fn put(&self, w: &mut Writer) {
        put_fid(self.fid, w);
        w.put(&U64::new(self.handle.0));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Close, DecodeError> {
        plain(flags)?;
        Ok(Close { fid: fid(r)?, handle: OpenHandle(number64(r)?) })
    }

    #[cfg(test)]
    fn sample() -> Close {
        Close { fid: FID, handle: OpenHandle(77) }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Close> {
        (any_fid(), any::<u64>()).prop_map(|(fid, n)| Close { fid, handle: OpenHandle(n) }).boxed()
    }
}

/// About the lease of one open file of this client, which names it `owner`. The client itself looks
/// after its other open files. Answers `Lease`: the lease held until now, or none if it was broken.
#[derive(Clone, PartialEq, Debug)]
pub struct Lease {
    /// The inode.
    pub fid: Fid,
    /// Which open file of this client.
    pub owner: u64,
    /// What is asked.
    pub act: LeaseAct,
}

impl Operation for Lease {
    fids!(fid);

    fn class(&self, row: Class) -> Class {
        if self.act == LeaseAct::Check { Class::reads(row.counted) } else { row }
    }

    fn put(&self, w: &mut Writer) {
        put_fid(self.fid, w);
        w.put(&U64::new(self.owner));
        w.put(&U32::new(lease_act_number(self.act)));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Lease, DecodeError> {
        plain(flags)?;
        Ok(Lease { fid: fid(r)?, owner: number64(r)?, act: lease_act(r.get::<U32>()?.get())? })
    }

    #[cfg(test)]
    fn sample() -> Lease {
        Lease { fid: FID, owner: 0xfeed, act: LeaseAct::Acquire(LeaseMode::Write) }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Lease> {
        (any_fid(), any::<u64>(), of(any_lease()), any::<bool>())
            .prop_map(|(fid, owner, mode, release)| {
                let otherwise = if release { LeaseAct::Release } else { LeaseAct::Check };
                Lease { fid, owner, act: mode.map_or(otherwise, LeaseAct::Acquire) }
            })
            .boxed()
    }
}

#[cfg(test)]
pub(crate) fn sample_open() -> OpenFlags {
    OpenFlags { read: true, write: true, exec: false, append: false, lasting: false }
}

#[cfg(test)]
pub(crate) fn any_open() -> impl Strategy<Value = OpenFlags> {
    let flags = any::<(bool, bool, bool, bool, bool)>();
    flags.prop_map(|(read, write, exec, append, lasting)| OpenFlags {
        read,
        write,
        exec,
        append,
        lasting,
    })
}
