//! Clients of a nodemap that lets them change nothing: what of an operation they may do all the
//! same. The class of an operation in the table of operations says whether it changes anything.

use crate::mds::Mds;
use observe::mutant::{Mutant, is_mutant};
use rpc::service::Export;
use types::errno::Errno;
use types::fid::Fid;
use wire::class::{Changes, Held};
use wire::mds::MdsOp;

/// What a client that may change nothing does with an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Allowed {
    /// It may.
    Yes,
    /// Only what it has open for writing since it could: what it wrote is not lost.
    OpenForWriting(Fid),
    /// Never.
    No,
}

fn allowed(op: &MdsOp) -> Allowed {
    let class = op.class();
    match (class.held, class.changes) {
        (Held::GivenBack, _) => Allowed::Yes,
        (Held::ForWriting, _) => Allowed::OpenForWriting(op.fid()),
        (Held::Nothing, Changes::Store) => match op {
            // It changes what the MDT knows of open files, and nothing that other clients see.
            MdsOp::Open(open) if !open.flags.write => Allowed::Yes,
            _ => Allowed::No,
        },
        (Held::Nothing, Changes::Nothing | Changes::Memory) => Allowed::Yes,
    }
}

impl Mds {
    /// Succeeds if a client that may change nothing may do this. `restores`: it brings back what it
    /// had before a restart, and the MDT recovers.
    ///
    /// # Errors
    /// EROFS.
    pub(crate) fn unless_read_only(
        &self,
        export: &Export,
        op: &MdsOp,
        restores: bool,
    ) -> Result<(), Errno> {
        match allowed(op) {
            Allowed::Yes => Ok(()),
            _ if is_mutant(Mutant::ReadOnlyIgnored) => Ok(()),
            Allowed::OpenForWriting(fid)
                if restores || self.state.lock().opens.is_writing(export.client(), fid) =>
            {
                Ok(())
            }
            Allowed::No if restores && matches!(op, MdsOp::Open(_)) => Ok(()),
            Allowed::OpenForWriting(_) | Allowed::No => Err(Errno::EROFS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::lock::InodeBits;
    use wire::mds::{Close, GetLayout, Getattr, Lock, Open, OpenFlags, Rmdir, Unlock};

    const FID: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 7, ver: 0 };

    #[test]
    fn what_changes_is_not_allowed_but_for_files_that_are_open_for_writing() {
        let open = |write| {
            let flags = OpenFlags { read: true, write, ..OpenFlags::default() };
            allowed(&MdsOp::Open(Open { fid: FID, flags }))
        };
        assert_eq!((open(false), open(true)), (Allowed::Yes, Allowed::No));
        let layout =
            |write| allowed(&MdsOp::GetLayout(GetLayout { fid: FID, start: 0, end: 1, write }));
        assert_eq!((layout(false), layout(true)), (Allowed::Yes, Allowed::OpenForWriting(FID)));
        let lock = |bits| allowed(&MdsOp::Lock(Lock { fid: FID, bits, needs: None }));
        assert_eq!(lock(InodeBits::DATA), Allowed::Yes);
        assert_eq!(lock(InodeBits::DATA | InodeBits::WRITE), Allowed::OpenForWriting(FID));
        let name = types::name::Name::new(b"a").unwrap();
        assert_eq!(allowed(&MdsOp::Rmdir(Rmdir { parent: FID, name })), Allowed::No);
        assert_eq!(allowed(&MdsOp::Getattr(Getattr::of(FID))), Allowed::Yes);
        let close = Close { fid: FID, handle: Default::default() };
        assert_eq!(allowed(&MdsOp::Close(close)), Allowed::Yes);
        assert_eq!(allowed(&MdsOp::Unlock(Unlock { locks: Vec::new() })), Allowed::Yes);
    }
}
