//! Leases: a client's open file has its inode to itself until another one comes.
//!
//! Leases are in memory only, as the sessions of their holders: a client that asks for one after a
//! restart finds none. Every use that breaks a lease passes here, because the bits under which
//! other clients could go on silently are called back before a lease is given: OPEN and DATA for a
//! write lease, WRITE for a read lease. They are granted again only with operations that break the
//! lease themselves ([`Records::used`](crate::records::Records::used)).

use crate::mds::{Mds, RequestContext, alive};
use dlm::leases::OpenBy;
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::{InodeBits, LeaseMode};
use wire::mds::{Lease, LeaseAct, MdsReply};

/// Bits that no other client may hold while a lease of this mode is held.
const fn excluded(mode: LeaseMode) -> InodeBits {
    match mode {
        LeaseMode::Read => InodeBits::WRITE,
        LeaseMode::Write => InodeBits::OPEN.union(InodeBits::DATA).union(InodeBits::WRITE),
    }
}

impl Mds {
    pub(in crate::ops) async fn lease(
        &self,
        request: &mut RequestContext<'_>,
        op: &Lease,
    ) -> Result<MdsReply, Errno> {
        let &Lease { fid, owner, act } = op;
        self.ours(fid)?;
        let holder = (request.client(), owner);
        let held = match act {
            LeaseAct::Acquire(mode) => {
                self.in_turn(request, |request| self.acquire_lease(request, fid, owner, mode))
                    .await?;
                Some(mode)
            }
            LeaseAct::Check => self.state.lock().locks.leases.held(fid, holder),
            LeaseAct::Release => self.state.lock().locks.leases.release(fid, holder),
        };
        Ok(MdsReply::Lease(held))
    }

    fn acquire_lease(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
        owner: u64,
        mode: LeaseMode,
    ) -> Result<(), Errno> {
        let export = request.export;
        self.show(request, |records| {
            alive(export)?;
            let entry = records.entry(fid)?.ok_or(Errno::ESTALE)?;
            if entry.attr.file_type() != FileType::Regular {
                return Err(Errno::EINVAL);
            }
            let client = export.client();
            let mut others = records.state.opens.others(client, fid);
            if records.state.acks.may_be_open(fid) {
                others = OpenBy::Writers;
            }
            if others == OpenBy::Nobody || !mode.is_broken(others == OpenBy::Writers) {
                records.call_back(fid, excluded(mode))?;
                // A client that was asked and keeps OPEN has the file open without a handle.
                let locks = &records.state.locks;
                if mode == LeaseMode::Write
                    && !locks.table.is_free(client, None, [(fid, InodeBits::OPEN)])
                {
                    others = OpenBy::Readers;
                }
            }
            records.state.locks.leases.acquire(fid, (client, owner), mode, others)
        })
    }
}
