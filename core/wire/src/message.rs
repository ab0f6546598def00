//! Requests and replies: a vector of operations, one reply vector.

use crate::class::Class;
use crate::client::{ClientOp, ClientReply};
use crate::mds::reply::MdsReply;
use crate::mds::shared::Entry;
use crate::mgs::{MgsOp, MgsReply};
use crate::opcode::{MdsOp, OstOp};
use crate::ost::reply::OstReply;
use bytes::Bytes;
use types::credentials::{Credentials, SquashNews};
use types::errno::Errno;
use types::fid::Fid;
use types::job::JobId;
use types::limits::TREE_PAGE_BYTES;
use types::lock::InodeBits;
use types::names::NameRange;
use types::proof::Proof;
use types::session::{ClientUuid, ClusterId, Standing, Transno, Xid};
use types::target::TargetName;

/// Protocol versions this build speaks: `VERSION_MIN..=VERSION_MAX`.
pub const VERSION_MIN: u16 = 3;
/// See [`VERSION_MIN`]. 1: first version. 2: a session belongs to the process that made it, servers
/// prove to be servers, and the configuration tells no store UUIDs. 3: an MDT that asks another one
/// names the client for which it does.
pub const VERSION_MAX: u16 = 3;

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// To the MGS.
    Mgs(MgsOp),
    /// To an MDT.
    Mds(MdsOp),
    /// To an OST.
    Ost(OstOp),
    /// From a server to a client (callback).
    Client(ClientOp),
    /// Start a session with a target; always the only operation of its request.
    Connect(ConnectRequest),
    /// End the session; open handles are closed, locks dropped.
    Disconnect,
    /// Are you there? Renews the lease.
    Ping,
    /// To a restarted target: changes that it may have lost, as its replies carried them, and
    /// behind it in the request the operations whose data belongs to them (docs/recovery.md).
    Replay(Vec<Redo>),
    /// That was all; answers when they are done again, those of all clients.
    Replayed,
    /// Opens and locks are brought back; answers when the target is in service.
    Restored,
    /// From a host that may take the target over later: committed records behind the one with this
    /// key (docs/ownership.md). Empty: from the first one.
    Tree(Bytes),
}

impl Op {
    /// The class of this operation.
    pub fn class(&self) -> Class {
        match self {
            Op::Mds(op) => op.class(),
            Op::Ost(op) => op.class(),
            _ => self.row().class,
        }
    }

    /// Bytes of data to expect with the reply, about.
    pub fn reply_bytes(&self) -> usize {
        match self {
            Op::Mds(op) => op.reply_bytes(),
            Op::Ost(op) => op.reply_bytes(),
            Op::Tree(_) => TREE_PAGE_BYTES,
            _ => 0,
        }
    }

    /// Bytes of a file that it brings to an MDT, in pieces.
    pub fn data(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let (one, many) = match self {
            Op::Mds(MdsOp::Write(write)) => (Some(&write.data), &[][..]),
            Op::Mds(MdsOp::Store(store)) => (None, &store.pieces[..]),
            _ => (None, &[][..]),
        };
        one.into_iter().chain(many.iter().map(|(_, data)| data)).map(|data| &data[..])
    }

    /// The inode that it is mainly about; NONE: there is no such.
    pub fn fid(&self) -> Fid {
        match self {
            Op::Mds(op) => op.fid(),
            Op::Ost(op) => op.fid(),
            _ => Fid::NONE,
        }
    }
}

/// A redo record: a change, as the target that made it can make it again. A client that keeps it
/// need not understand it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redo {
    /// Its number.
    pub transno: Transno,
    /// The target's own bytes.
    pub bytes: Bytes,
    /// An operation whose data belongs to it and is not in it, so that it does not travel both
    /// ways: the so-and-so-many-th, from 1, of the request that is answered, or of those behind
    /// [`Op::Replay`]. 0: there is none.
    pub data_of: u32,
}

impl Redo {
    /// All that it needs is in it.
    pub fn whole(transno: Transno, bytes: Bytes) -> Redo {
        Redo { transno, bytes, data_of: 0 }
    }

    /// The operation whose data belongs to it, if it is one of these.
    pub fn data_in<'a>(&self, ops: &'a [Op]) -> Option<&'a Op> {
        ops.get((self.data_of as usize).checked_sub(1)?)
    }
}

/// Records of a target's tree, in the order of their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreePage {
    /// Number of records.
    pub records: u32,
    /// There are more behind them.
    pub more: bool,
    /// The records, as changes of a group (docs/store.md).
    pub bytes: Bytes,
}

/// What one operation answered.
#[derive(Clone, Debug, PartialEq)]
pub enum OpReply {
    /// From the MGS.
    Mgs(MgsReply),
    /// From an MDT.
    Mds(MdsReply),
    /// From an OST.
    Ost(OstReply),
    /// From a client.
    Client(ClientReply),
    /// Session made.
    Connect(ConnectReply),
    /// Done, nothing to say (Disconnect, Ping, what belongs to recovery).
    Done,
    /// Records of the tree.
    Tree(TreePage),
}

/// Hello of a client to one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectRequest {
    /// Oldest version the client speaks.
    pub version_min: u16,
    /// Newest version the client speaks.
    pub version_max: u16,
    /// Cluster it belongs to; 0 = does not know yet (only the MGS accepts that).
    pub cluster: ClusterId,
    /// UUID of the client.
    pub client: ClientUuid,
    /// Free text for people: host name and mount point.
    pub description: String,
    /// Boot number of the target at the last session, 0 = first connection.
    pub boot: u64,
    /// Proof that the session is this process' own: each time the same, and never 0.
    pub proof: Proof,
    /// Proof that the client serves a target of the cluster; 0: it does not, or does not know the
    /// key of the servers yet.
    pub server: Proof,
}

/// Answer to [`ConnectRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectReply {
    /// Version both speak.
    pub version: u16,
    /// Cluster of the target.
    pub cluster: ClusterId,
    /// Boot number of the target: grows at every start.
    pub boot: u64,
    /// Number of the session. The next session of this client at this target and start has another
    /// number. Services leave it 0.
    pub session: u32,
    /// Newest transno that is durable.
    pub last_committed: Transno,
    /// How the session stands.
    pub standing: Standing,
    /// The ids as which the client's callers act. They travel only if the target said
    /// something of them in this life: MDTs do.
    pub squash: SquashNews,
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Target it is for.
    pub target: TargetName,
    /// Its number.
    pub xid: Xid,
    /// Every request below this one has been answered and seen: its reply slot may go.
    pub xid_known: Xid,
    /// Was sent before; the server looks for a reply slot first.
    pub resent: bool,
    /// Brings back what the client had open or locked at a target that restarted: run before the
    /// target is in service. 0 = it does not.
    pub replay: Transno,
    /// The client's place for this request's reply: no other unanswered change of its has it.
    pub slot: u16,
    /// Locks that the client can keep: the reply grants no others.
    pub locks: InodeBits,
    /// On whose behalf.
    pub credentials: Credentials,
    /// For which job the target counts it; decides nothing.
    pub job: JobId,
    /// What to do, in order. After one fails the rest answer ECANCELED.
    pub ops: Vec<Op>,
}

/// What a reply shows of this inode may be kept until the lock is called back
/// (docs/locks/protocol.md, "Grants").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The inode; of a directory, UPDATE covers its names too, also the ones that it was found not
    /// to have.
    pub fid: Fid,
    /// What is covered.
    pub bits: InodeBits,
}

/// A gap lock: no name of a directory is in this range, as long as [`InodeBits::GAP`] of it is not
/// called back (docs/locks/protocol.md, "Busy directories and gap locks").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The directory.
    pub dir: Fid,
    /// Names that it does not have.
    pub names: NameRange,
}

/// One reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The request.
    pub xid: Xid,
    /// OST, MGS: transno of the last change that the request made; 0 = none. MDT: of the newest
    /// change that any client had made when it answered, so once that is durable everything that
    /// the answer shows is.
    pub transno: Transno,
    /// Newest transno of the target that is durable.
    pub last_committed: Transno,
    /// One result per operation.
    pub results: Vec<Result<OpReply, Errno>>,
    /// Locks that come with it.
    pub grants: Vec<Grant>,
    /// Inodes that it changed beside those in the results: parents, and what lost or got a name.
    pub touched: Vec<Entry>,
    /// Changes to be kept until they are durable.
    pub redo: Vec<Redo>,
    /// A gap lock around the name that a Lookup did not find. At most one: only the last operation
    /// that was done can have failed.
    pub gap: Option<Gap>,
}

impl Reply {
    /// Without locks.
    pub fn new(
        xid: Xid,
        transno: Transno,
        last_committed: Transno,
        results: Vec<Result<OpReply, Errno>>,
    ) -> Reply {
        let (grants, touched, redo) = (Vec::new(), Vec::new(), Vec::new());
        Reply { xid, transno, last_committed, results, grants, touched, redo, gap: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::{Changes, Counted, Held, Room};
    use crate::codec::samples::sample_ops;
    use crate::codec::testing::{DIR, FID, name};
    use crate::mds::{
        Create, CreateKind, FlockSet, GetLayout, GetattrMany, Lease, LeaseAct, Lock, MdsOp, Punch,
        Rename, RenameFlags, Root,
    };
    use crate::ost::punch::PunchKind;
    use types::lock::LeaseMode;
    use types::ranges::ByteRange;

    #[test]
    fn forms_that_ask_for_less_than_their_row() {
        let layout =
            |write| MdsOp::GetLayout(GetLayout { fid: FID, write, start: 0, end: 1 }).class();
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
            MdsOp::Punch(Punch {
                fid: FID,
                start: 0,
                end: 1,
                kind,
                grows: false,
                kill_suidgid: false,
            })
            .class()
            .room
        };
        assert_eq!([PunchKind::Zero, PunchKind::Allocate].map(punch), [Room::Space; 2]);
        assert_eq!([PunchKind::Hole, PunchKind::Truncate].map(punch), [Room::Release; 2]);

        let create = |kind| {
            MdsOp::Create(Create {
                parent: DIR,
                name: name("a"),
                kind,
                mode: 0,
                umask: 0,
                exclusive: true,
            })
            .class()
            .counted
        };
        assert_eq!(create(CreateKind::Regular(None)), Counted::Mknod);
        assert_eq!(create(CreateKind::Regular(Some(Default::default()))), Counted::Open);
        assert_eq!(create(CreateKind::Directory { mdt: None }), Counted::Mkdir);
    }

    #[test]
    fn what_a_caller_asks_and_what_a_client_holds_are_told_apart() {
        let of = |chosen: fn(Class) -> bool| -> Vec<&'static str> {
            let ops = sample_ops();
            let chosen = ops.iter().filter(|op| !op.row().class.reint && chosen(op.row().class));
            chosen.map(|op| op.row().name).collect()
        };
        assert_eq!(
            of(|class| class.for_caller),
            [
                "mds_lookup",
                "mds_open",
                "mds_readdir",
                "mds_readlink",
                "mds_getxattr",
                "mds_listxattr",
                "mds_swap_layouts",
                "mds_root",
                "mds_ticket",
            ]
        );
        let given_back = ["mds_close", "mds_flock_cancel", "mds_unlock"];
        assert_eq!(of(|class| class.held == Held::GivenBack), given_back);
        assert_eq!(
            of(|class| class.held == Held::ForWriting),
            ["mds_get_layout", "mds_wrote", "mds_lock", "mds_write", "mds_punch", "mds_store"]
        );
        let lock = |bits| MdsOp::Lock(Lock { fid: FID, bits, needs: None }).class().held;
        assert_eq!(lock(InodeBits::DATA), Held::Nothing);
        assert_eq!(lock(InodeBits::DATA | InodeBits::WRITE), Held::ForWriting);
        let root = |path: &str| {
            let path = path.parse().unwrap();
            MdsOp::Root(Root { path, from: Fid::NONE, walked: 0, fileset: 0 }).class().for_caller
        };
        // A caller that is refused may mount, but choose no directory.
        assert_eq!((root(""), root("/a")), (false, true));
    }

    #[test]
    fn only_locks_and_the_configuration_wait() {
        let waits: Vec<_> =
            sample_ops().iter().filter(|op| op.class().waits).map(|op| op.row().name).collect();
        assert_eq!(
            waits,
            ["mgs_config", "mgs_nodemaps", "mgs_scoped", "mds_flock_set", "mds_lock"]
        );
        let Some(Op::Mds(mut op)) =
            sample_ops().into_iter().find(|op| op.row().name == "mds_flock_set")
        else {
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

        let mut many = MdsOp::GetattrMany(GetattrMany::of(vec![DIR, FID]));
        assert_eq!(many.fid(), DIR);
        many.try_each_fid(replace).unwrap();
        assert!(matches!(many, MdsOp::GetattrMany(GetattrMany { fids, .. }) if fids == [FID, FID]));
        assert_eq!(MdsOp::Sync.fid(), Fid::NONE);
        let needs = Some(types::ranges::Needs { range: ByteRange::new(0, 1), again: false });
        assert_eq!(
            MdsOp::Lock(Lock { fid: FID, bits: types::lock::InodeBits::DATA, needs }).fid(),
            FID
        );
    }
}
