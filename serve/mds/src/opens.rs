//! Open handles: the clients that hold an inode open, and those that may write it.
//!
//! A file that is executed is not written, and the other way round. Between the programs of one
//! client its kernel sees to that, which also knows of a close before the MDT does; between clients
//! it is decided here.
//!
//! Owner: the MDT's state. Bound: OPENS_PER_CLIENT_MAX per client. Invariant: an inode is in
//! `inodes` exactly while a handle names it.

use dlm::leases::OpenBy;
use foldhash::HashMap;
use std::collections::BTreeSet;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::OPENS_PER_CLIENT_MAX;
use types::object_ticket::Rights;
use types::session::{ClientUuid, OpenHandle};
use wire::mds::OpenFlags;

/// Handles of one life: more than it can give out.
const HANDLES_PER_BOOT_BITS: u32 = 40;

#[derive(Clone, Copy, Debug)]
struct Open {
    client: ClientUuid,
    fid: Fid,
    flags: OpenFlags,
    /// See [`Opens::vouch`].
    vouched: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Inode {
    opens: u32,
    writers: u32,
    /// Of the writers those that programs opened.
    programs_writing: u32,
    executors: u32,
    /// A writer vanished: the size may be behind the objects.
    unsettled: bool,
}

/// Consequences of a close for the records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closed {
    /// The inode.
    pub fid: Fid,
    /// No client has it open by a handle any more.
    pub last: bool,
    /// Its last writer closed in order: the writer mark can go.
    pub unmark: bool,
    /// Its last writer is gone, and one of its writers vanished: ask the OSTs.
    pub settle: bool,
}

/// All open handles of an MDT.
#[derive(Debug, Default)]
pub struct Opens {
    last_handle: u64,
    handles: HashMap<OpenHandle, Open>,
    inodes: HashMap<Fid, Inode>,
    clients: HashMap<ClientUuid, BTreeSet<OpenHandle>>,
}

impl Opens {
    /// The life of the MDT: a handle of another life is never taken for one of this.
    pub fn for_boot(boot: u64) -> Opens {
        Opens { last_handle: boot << HANDLES_PER_BOOT_BITS, ..Opens::default() }
    }

    /// Succeeds if there is room for one more handle of this client.
    ///
    /// # Errors
    /// ENFILE if not.
    pub fn admit(&self, client: ClientUuid) -> Result<(), Errno> {
        let held = self.clients.get(&client).map_or(0, BTreeSet::len);
        if held < OPENS_PER_CLIENT_MAX { Ok(()) } else { Err(Errno::ENFILE) }
    }

    /// Succeeds if this client may open a file in this way.
    ///
    /// # Errors
    /// ETXTBSY: to write what another client executes, or to execute what another client has open
    /// to write.
    pub fn may_open(&self, client: ClientUuid, fid: Fid, flags: OpenFlags) -> Result<(), Errno> {
        let Some(inode) = self.inodes.get(&fid).filter(|_| !flags.lasting) else { return Ok(()) };
        let writes = |open: OpenFlags| open.write && !open.lasting;
        let busy = flags.write && self.is_executed_elsewhere(client, fid)
            || flags.exec && inode.programs_writing > self.own(client, fid, writes);
        if busy { Err(Errno::ETXTBSY) } else { Ok(()) }
    }

    /// True if another client executes this file.
    pub fn is_executed_elsewhere(&self, client: ClientUuid, fid: Fid) -> bool {
        let executors = self.inodes.get(&fid).map_or(0, |inode| inode.executors);
        executors > 0 && executors > self.own(client, fid, |open| open.exec)
    }

    /// True if this client has a file open for writing.
    pub fn is_writing(&self, client: ClientUuid, fid: Fid) -> bool {
        let writers = self.inodes.get(&fid).map_or(0, |inode| inode.writers);
        writers > 0 && self.own(client, fid, |open| open.write) > 0
    }

    /// The permission for this open was made sure of: by the MDT, or by the kernel of a client that
    /// may do everything.
    pub fn vouch(&mut self, handle: OpenHandle) {
        if let Some(open) = self.handles.get_mut(&handle) {
            open.vouched = true;
        }
    }

    /// What open files of this client that are vouched for let it do with the bytes of a file.
    pub fn vouched(&self, client: ClientUuid, fid: Fid) -> Rights {
        if !self.is_open(fid) {
            return Rights::NONE;
        }
        let held = self.clients.get(&client).into_iter().flatten();
        let open = held.filter_map(|handle| self.handles.get(handle));
        let open = open.filter(|open| open.fid == fid && open.vouched);
        open.fold(Rights::NONE, |rights, Open { flags, .. }| {
            let reads = if flags.read || flags.exec { Rights::READ } else { Rights::NONE };
            rights | reads | if flags.write { Rights::WRITE } else { Rights::NONE }
        })
    }

    /// True if this client has it open.
    pub fn has_open(&self, client: ClientUuid, fid: Fid) -> bool {
        self.is_open(fid) && self.own(client, fid, |_| true) > 0
    }

    /// Number of a client's open files of an inode of this kind.
    fn own(&self, client: ClientUuid, fid: Fid, kind: impl Fn(OpenFlags) -> bool) -> u32 {
        let held = self
            .clients
            .get(&client)
            .into_iter()
            .flatten()
            .filter_map(|handle| self.handles.get(handle));
        held.fold(0, |count, open| count + u32::from(open.fid == fid && kind(open.flags)))
    }

    /// Opens. Call [`Opens::admit`] and [`Opens::may_open`] first. Also returns whether this is the
    /// first writer (then it needs a writer mark).
    pub fn open(&mut self, client: ClientUuid, fid: Fid, flags: OpenFlags) -> (OpenHandle, bool) {
        let OpenFlags { write, exec, lasting, .. } = flags;
        self.last_handle += 1;
        let handle = OpenHandle(self.last_handle);
        self.handles.insert(handle, Open { client, fid, flags, vouched: false });
        self.clients.entry(client).or_default().insert(handle);
        let inode = self.inodes.entry(fid).or_default();
        inode.opens += 1;
        inode.writers += u32::from(write);
        inode.programs_writing += u32::from(write && !lasting);
        inode.executors += u32::from(exec);
        (handle, write && inode.writers == 1)
    }

    /// Closes in order.
    ///
    /// # Errors
    /// EBADF: no such handle of this client on this inode.
    pub fn close(
        &mut self,
        client: ClientUuid,
        fid: Fid,
        handle: OpenHandle,
    ) -> Result<Closed, Errno> {
        match self.handles.get(&handle) {
            Some(open) if open.client == client && open.fid == fid => {}
            _ => return Err(Errno::EBADF),
        }
        if let Some(held) = self.clients.get_mut(&client) {
            held.remove(&handle);
            if held.is_empty() {
                self.clients.remove(&client);
            }
        }
        Ok(self.release(handle, false))
    }

    /// Takes one handle of a client that is gone.
    pub fn forget_one(&mut self, client: ClientUuid) -> Option<Closed> {
        let held = self.clients.get_mut(&client)?;
        let handle = held.pop_first()?;
        if held.is_empty() {
            self.clients.remove(&client);
        }
        Some(self.release(handle, true))
    }

    fn release(&mut self, handle: OpenHandle, vanished: bool) -> Closed {
        let open = self.handles.remove(&handle).expect("handle was listed");
        let inode = self.inodes.get_mut(&open.fid).expect("an open inode is listed");
        inode.opens -= 1;
        inode.writers -= u32::from(open.flags.write);
        inode.programs_writing -= u32::from(open.flags.write && !open.flags.lasting);
        inode.executors -= u32::from(open.flags.exec);
        inode.unsettled |= vanished && open.flags.write;
        let last_writer = open.flags.write && inode.writers == 0;
        let closed = Closed {
            fid: open.fid,
            last: inode.opens == 0,
            unmark: last_writer && !inode.unsettled,
            settle: last_writer && inode.unsettled,
        };
        if last_writer {
            inode.unsettled = false;
        }
        if inode.opens == 0 {
            self.inodes.remove(&open.fid);
        }
        closed
    }

    /// True if a client has it open.
    pub fn is_open(&self, fid: Fid) -> bool {
        self.inodes.contains_key(&fid)
    }

    /// Notes that its size is not settled. `true`: a client has it open for writing, and the last
    /// close says `settle`.
    pub fn unsettle(&mut self, fid: Fid) -> bool {
        let writing = self.inodes.get_mut(&fid).filter(|inode| inode.writers > 0);
        writing.map(|inode| inode.unsettled = true).is_some()
    }

    /// True if a client has it open for writing.
    pub fn is_written(&self, fid: Fid) -> bool {
        self.inodes.get(&fid).is_some_and(|inode| inode.writers > 0)
    }

    /// How other clients than this one have it open.
    pub fn others(&self, client: ClientUuid, fid: Fid) -> OpenBy {
        let Some(Inode { opens, writers, .. }) = self.inodes.get(&fid) else {
            return OpenBy::Nobody;
        };
        let held = self.clients.get(&client).into_iter().flatten();
        let own = held.filter_map(|handle| self.handles.get(handle)).filter(|open| open.fid == fid);
        let (own_opens, own_writers) = own.fold((0, 0), |(opens, writers), own| {
            (opens + 1, writers + u32::from(own.flags.write))
        });
        match (opens - own_opens, writers - own_writers) {
            (0, _) => OpenBy::Nobody,
            (_, 0) => OpenBy::Readers,
            _ => OpenBy::Writers,
        }
    }

    /// Handles in all.
    pub fn count(&self) -> usize {
        self.handles.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientUuid = ClientUuid(1);
    const B: ClientUuid = ClientUuid(2);
    const F: Fid = Fid { seq: 9, oid: 1, ver: 0 };
    const READ: OpenFlags =
        OpenFlags { read: true, write: false, exec: false, append: false, lasting: false };
    const WRITE: OpenFlags = OpenFlags { write: true, ..READ };
    const EXEC: OpenFlags = OpenFlags { exec: true, ..READ };
    const LASTING: OpenFlags = OpenFlags { lasting: true, ..WRITE };

    #[test]
    fn what_one_client_executes_another_one_does_not_write() {
        let mut opens = Opens::default();
        let (program, _) = opens.open(A, F, EXEC);
        assert_eq!(opens.may_open(B, F, WRITE), Err(Errno::ETXTBSY));
        assert!(opens.is_executed_elsewhere(B, F) && !opens.is_executed_elsewhere(A, F));
        for (client, flags) in [(A, WRITE), (B, READ), (B, EXEC), (B, LASTING)] {
            assert_eq!(opens.may_open(client, F, flags), Ok(()), "{flags:?}");
        }
        opens.close(A, F, program).unwrap();
        assert_eq!(opens.may_open(B, F, WRITE), Ok(()));
        assert!(!opens.is_executed_elsewhere(B, F));
    }

    #[test]
    fn what_one_client_writes_another_one_does_not_execute() {
        let mut opens = Opens::default();
        opens.open(A, F, LASTING);
        assert_eq!(opens.may_open(B, F, EXEC), Ok(()), "nothing says that a program has it open");
        opens.open(A, F, WRITE);
        assert_eq!(opens.may_open(B, F, EXEC), Err(Errno::ETXTBSY));
        assert_eq!((opens.may_open(A, F, EXEC), opens.may_open(B, F, WRITE)), (Ok(()), Ok(())));
        opens.forget_one(A).unwrap();
        opens.forget_one(A).unwrap();
        assert_eq!(opens.may_open(B, F, EXEC), Ok(()));
    }

    #[test]
    fn the_last_close_is_told() {
        let mut opens = Opens::default();
        assert!(!opens.is_open(F));
        let (a, first) = opens.open(A, F, WRITE);
        let (b, second) = opens.open(B, F, WRITE);
        assert!(first && !second);
        assert!(opens.is_open(F));
        let closed = opens.close(A, F, a).unwrap();
        assert!(!closed.last && !closed.unmark);
        let closed = opens.close(B, F, b).unwrap();
        assert!(closed.last && closed.unmark && !closed.settle);
        assert_eq!(opens.close(B, F, b), Err(Errno::EBADF));
        assert_eq!(opens.count(), 0);
    }

    #[test]
    fn a_vanished_writer_is_settled_when_the_last_writer_went() {
        let mut opens = Opens::default();
        opens.open(A, F, WRITE);
        let (b, _) = opens.open(B, F, WRITE);
        let (reader, _) = opens.open(B, F, READ);
        let closed = opens.forget_one(A).unwrap();
        assert!(!closed.settle && !closed.unmark, "another one still writes");
        assert_eq!(opens.forget_one(A), None);
        let closed = opens.close(B, F, b).unwrap();
        assert!(closed.settle && !closed.unmark);
        assert!(!opens.close(B, F, reader).unwrap().settle);
    }

    #[test]
    fn what_others_have_open_is_told_apart() {
        let mut opens = Opens::default();
        assert_eq!(opens.others(A, F), OpenBy::Nobody);
        opens.open(A, F, WRITE);
        opens.open(A, Fid { oid: 2, ..F }, WRITE);
        assert_eq!((opens.others(A, F), opens.others(B, F)), (OpenBy::Nobody, OpenBy::Writers));
        opens.open(B, F, READ);
        assert_eq!(opens.others(A, F), OpenBy::Readers);
    }

    #[test]
    fn only_opens_that_are_vouched_for_give_rights() {
        let mut opens = Opens::default();
        let (writer, _) = opens.open(A, F, OpenFlags { read: false, ..WRITE });
        let (program, _) = opens.open(A, F, OpenFlags { read: false, ..EXEC });
        assert_eq!((opens.vouched(A, F), opens.has_open(A, F)), (Rights::NONE, true));
        opens.vouch(program);
        assert_eq!(opens.vouched(A, F), Rights::READ);
        opens.vouch(writer);
        assert_eq!(opens.vouched(A, F), Rights::ALL);
        assert_eq!((opens.vouched(B, F), opens.has_open(B, F)), (Rights::NONE, false));
        opens.close(A, F, writer).unwrap();
        assert_eq!(opens.vouched(A, F), Rights::READ);
    }

    #[test]
    fn a_handle_belongs_to_its_client_and_inode() {
        let mut opens = Opens::default();
        let (handle, _) = opens.open(A, F, READ);
        assert_eq!(opens.close(B, F, handle), Err(Errno::EBADF));
        assert_eq!(opens.close(A, Fid { oid: 2, ..F }, handle), Err(Errno::EBADF));
        assert!(opens.close(A, F, handle).is_ok());
    }
}
