//! The class of an operation: the properties by which clients, the network and servers decide,
//! stated once.
//!
//! The row of an operation ([`crate::opcode`]) states the class of its most demanding form.
//! [`Op::class`] is that of one operation: some forms ask for less than their row says.

use crate::message::Op;
use crate::ost::OstOp;
use types::fid::Fid;

/// What an operation changes at its receiver, the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Changes {
    /// Nothing: it may run any number of times.
    Nothing,
    /// What the receiver keeps in memory: sessions, locks, leases, granted space, reports. The
    /// receiver keeps the reply while the session lives, so that a request that comes again does
    /// not run again.
    Memory,
    /// The store of the receiver. The request has a slot, and an MDT keeps the reply in its store
    /// with the change.
    Store,
}

/// Room that an operation needs in the store of the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// None: it changes no record.
    None,
    /// It releases space, or takes next to none: it may use the reserve of a full store.
    Release,
    /// It takes space: a full store refuses it with ENOSPC.
    Space,
}

/// The statistic that counts an operation at its target, with Lustre's name in `md_stats` and
/// `stats` of an OST where Lustre has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[allow(missing_docs, reason = "the series that rpc makes of them have the descriptions")]
pub enum Counted {
    Open,
    Close,
    Mknod,
    Mkdir,
    Link,
    Unlink,
    Rmdir,
    Rename,
    Getattr,
    Setattr,
    Getxattr,
    Setxattr,
    Statfs,
    Sync,
    Lookup,
    Readpage,
    Readlink,
    GetLayout,
    Wrote,
    Flock,
    LdlmEnqueue,
    LdlmCancel,
    Read,
    Write,
    Punch,
    Seek,
    Destroy,
    Grant,
    Config,
    Report,
    Other,
}

/// The class of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class {
    /// What it changes.
    pub changes: Changes,
    /// The sender keeps the change until it is durable, and sends it again to a restarted server.
    /// Not so where the answer itself means durable, or where the state is rebuilt in another way
    /// (sessions, locks).
    pub replayed: bool,
    /// What it needs of the store.
    pub room: Room,
    /// The answer comes when another client lets go, or after a time that the sender chose. It is
    /// harmless to repeat, and counts in no window.
    pub waits: bool,
    /// The sender may ask again in a new session after it was evicted. An OST keeps nothing of a
    /// session that a request relies on. At an MDT only what the session held is gone; whether a
    /// change was done is unknown.
    pub survives_eviction: bool,
    /// A change of names or attributes, which Lustre sends as `MDS_REINT`: the fault points of that
    /// name count it.
    pub reint: bool,
    /// Its statistic at the target.
    pub counted: Counted,
}

/// The words of the table in [`crate::opcode`].
impl Class {
    /// Without a further word it reads.
    pub(crate) const fn reads(counted: Counted) -> Class {
        Class {
            changes: Changes::Nothing,
            replayed: false,
            room: Room::None,
            waits: false,
            survives_eviction: true,
            reint: false,
            counted,
        }
    }

    pub(crate) const fn memory(self) -> Class {
        Class { changes: Changes::Memory, survives_eviction: false, ..self }
    }

    pub(crate) const fn store(self) -> Class {
        Class { changes: Changes::Store, survives_eviction: false, ..self }
    }

    pub(crate) const fn replayed(self) -> Class {
        Class { replayed: true, ..self }
    }

    pub(crate) const fn release(self) -> Class {
        Class { room: Room::Release, ..self }
    }

    pub(crate) const fn space(self) -> Class {
        Class { room: Room::Space, ..self }
    }

    pub(crate) const fn waits(self) -> Class {
        Class { waits: true, ..self }
    }

    pub(crate) const fn survives(self) -> Class {
        Class { survives_eviction: true, ..self }
    }

    /// It answers for what the session did.
    pub(crate) const fn of_session(self) -> Class {
        Class { survives_eviction: false, ..self }
    }

    pub(crate) const fn reint(self) -> Class {
        Class { reint: true, ..self }
    }
}

impl Op {
    /// The class of this operation.
    pub fn class(&self) -> Class {
        match self {
            Op::Mds(op) => op.class(),
            _ => self.row().class,
        }
    }
}

impl OstOp {
    /// The inode whose object it is about; NONE: there is no such, or there are many.
    pub const fn fid(&self) -> Fid {
        match self {
            OstOp::Read { object, .. }
            | OstOp::Write { object, .. }
            | OstOp::Punch { object, .. }
            | OstOp::Getattr { object }
            | OstOp::Seek { object, .. } => object.fid,
            OstOp::Destroy { .. } | OstOp::Sync { .. } | OstOp::Statfs | OstOp::Grant { .. } | OstOp::List { .. } => {
                Fid::NONE
            }
        }
    }
}

impl Op {
    /// The inode that it is mainly about; NONE: there is no such.
    pub fn fid(&self) -> Fid {
        match self {
            Op::Mds(op) => op.fid(),
            Op::Ost(op) => op.fid(),
            _ => Fid::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::samples::{DIR, FID, name, sample_ops};
    use crate::mds::{
        Create, CreateKind, FlockSet, GetLayout, GetattrMany, Lease, LeaseAct, Lock, MdsOp, Punch, Rename, RenameFlags,
    };
    use crate::ost::PunchKind;
    use types::lock::LeaseMode;
    use types::ranges::ByteRange;

    #[test]
    fn forms_that_ask_for_less_than_their_row() {
        let layout = |write| MdsOp::GetLayout(GetLayout { fid: FID, write, start: 0, end: 1 }).class();
        assert_eq!((layout(true).changes, layout(true).room), (Changes::Store, Room::Release));
        assert_eq!(
            (layout(false).changes, layout(false).room, layout(false).replayed),
            (Changes::Nothing, Room::None, false)
        );

        let lease = |act| MdsOp::Lease(Lease { fid: FID, owner: 1, act }).class().changes;
        assert_eq!(lease(LeaseAct::Acquire(LeaseMode::Read)), Changes::Memory);
        assert_eq!(lease(LeaseAct::Release), Changes::Memory);
        assert_eq!(lease(LeaseAct::Check), Changes::Nothing);

        let punch = |kind| {
            MdsOp::Punch(Punch { fid: FID, start: 0, end: 1, kind, grows: false, kill_suidgid: false }).class().room
        };
        assert_eq!([PunchKind::Zero, PunchKind::Allocate].map(punch), [Room::Space; 2]);
        assert_eq!([PunchKind::Hole, PunchKind::Truncate].map(punch), [Room::Release; 2]);

        let create = |kind| {
            MdsOp::Create(Create { parent: DIR, name: name("a"), kind, mode: 0, umask: 0, exclusive: true })
                .class()
                .counted
        };
        assert_eq!(create(CreateKind::Regular(None)), Counted::Mknod);
        assert_eq!(create(CreateKind::Regular(Some(Default::default()))), Counted::Open);
        assert_eq!(create(CreateKind::Directory), Counted::Mkdir);
    }

    #[test]
    fn only_locks_and_the_configuration_wait() {
        let waits: Vec<_> = sample_ops().iter().filter(|op| op.class().waits).map(|op| op.row().name).collect();
        assert_eq!(waits, ["mgs_config", "mds_flock_set", "mds_lock"]);
        let Some(Op::Mds(mut op)) = sample_ops().into_iter().find(|op| op.row().name == "mds_flock_set") else {
            panic!("a sample of each operation");
        };
        if let MdsOp::FlockSet(FlockSet { wait, .. }) = &mut op {
            *wait = false;
        }
        assert!(!op.class().waits, "a conflict answers EAGAIN");
    }

    #[test]
    fn every_fid_of_an_operation_is_found() {
        let moved = || {
            MdsOp::Rename(Rename {
                parent: Fid::result_of(0),
                name: name("a"),
                new_parent: Fid::result_of(1),
                new_name: name("b"),
                flags: RenameFlags::default(),
            })
        };
        let mut op = moved();
        let replace = |fid: &mut Fid| {
            *fid = if *fid == Fid::result_of(0) { DIR } else { FID };
            Ok::<_, ()>(())
        };
        op.try_each_fid(replace).unwrap();
        assert!(matches!(op, MdsOp::Rename(Rename { parent: DIR, new_parent: FID, .. })));
        assert_eq!(op.fid(), DIR);
        let (a, b) = (name("a"), name("b"));
        assert_eq!(op.names_changed().collect::<Vec<_>>(), [(DIR, &a), (FID, &b)]);
        assert_eq!(op.name_made(), Some((FID, &b)));
        assert_eq!(moved().try_each_fid(|_| Err(())), Err(()), "the first error ends it");

        let mut many = MdsOp::GetattrMany(GetattrMany { fids: vec![DIR, FID] });
        assert_eq!(many.fid(), DIR);
        many.try_each_fid(replace).unwrap();
        assert!(matches!(many, MdsOp::GetattrMany(GetattrMany { fids }) if fids == [FID, FID]));
        assert_eq!(MdsOp::Sync.fid(), Fid::NONE);
        let needs = Some(types::ranges::Needs { range: ByteRange::new(0, 1), again: false });
        assert_eq!(MdsOp::Lock(Lock { fid: FID, bits: types::lock::InodeBits::DATA, needs }).fid(), FID);
    }
}
