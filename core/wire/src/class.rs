//! The class of an operation: the properties by which clients, the network and servers decide,
//! stated once.
//!
//! The row of an operation ([`crate::opcode`]) states the class of its most demanding form.
//! [`Op::class`](crate::message::Op::class) is that of one operation: some forms ask for less than
//! their row says.

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

/// What an operation has to do with what the session of its client holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// Nothing.
    Nothing,
    /// It gives back what the client holds: a file that is open, a lock.
    GivenBack,
    /// It is for a file that the client has open for writing: data, or what belongs to it.
    ForWriting,
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
    /// It is done for its caller: it looks at names, at contents, or at what belongs to them, or
    /// changes the name space. Others give back what the client holds, or are about open files.
    pub for_caller: bool,
    /// What it has to do with what the client holds.
    pub held: Held,
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
            for_caller: false,
            held: Held::Nothing,
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

    pub(crate) const fn for_caller(self) -> Class {
        Class { for_caller: true, ..self }
    }

    pub(crate) const fn gives_back(self) -> Class {
        Class { held: Held::GivenBack, ..self }
    }

    pub(crate) const fn for_writing(self) -> Class {
        Class { held: Held::ForWriting, ..self }
    }

    /// A change of the name space is done for its caller.
    pub(crate) const fn reint(self) -> Class {
        Class { reint: true, for_caller: true, ..self }
    }
}
