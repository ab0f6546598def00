//! Tickets for objects: given for what the caller may do, and for what the client had.

use crate::dom;
use crate::rig::{Rig, n, wait};
use bytes::Bytes;
use idmap::property::Property;
use idmap::set::{NodemapChange, Nodemaps};
use mds::audit::{Audit, Line};
use parking_lot::Mutex;
use rpc::service::{Export, Gone, Service};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use types::attr::{SetAttr, WrittenAt};
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::object_ticket::{Bearer, ObjectTicket, Rights, Signer};
use types::principal::{Owner, Role};
use types::proof::ServerKey;
use types::session::{ClientUuid, OpenHandle, Xid};
use wire::mds::{
    AskTickets, Close, Lookup, MdsOp, MdsReply, Open, OpenFlags, Punch, Read, Seek, Setattr, Store,
    SwapLayouts, Write,
};
use wire::message::{OpReply, Request};
use wire::ost::PunchKind;

const KEY: ServerKey = ServerKey(5);
pub const A: ClientUuid = ClientUuid(21);
pub const OWNER: u32 = 1000;
pub const OTHER: u32 = 1001;
const READ: OpenFlags =
    OpenFlags { read: true, write: false, exec: false, append: false, lasting: false };
const WRITE: OpenFlags = OpenFlags { read: false, write: true, ..READ };

/// A client on the network.
pub struct Far {
    export: Arc<Export>,
    xid: AtomicU64,
}

pub fn far(rig: &Rig, client: ClientUuid) -> Far {
    let nid = "10.0.0.3:5000@tcp".parse().unwrap();
    let export = Export::elsewhere(rig.mds.name(), client, nid, Role::Client);
    Far { export, xid: AtomicU64::new(1) }
}

fn user(uid: u32) -> Credentials {
    Credentials { uid, gid: uid, ..Credentials::default() }
}

impl Far {
    fn ops(
        &self,
        rig: &Rig,
        uid: u32,
        ops: Vec<MdsOp>,
        locks: InodeBits,
    ) -> Vec<Result<MdsReply, Errno>> {
        let xid = self.xid.fetch_add(1, Ordering::Relaxed);
        let request = Request { locks, ..rig.request(xid, &user(uid), ops) };
        let request = Request { xid: Xid(xid), xid_known: Xid(xid), ..request };
        let reply = wait(rig.mds.clone().handle(self.export.clone(), request));
        let mds = |reply| match reply {
            OpReply::Mds(reply) => reply,
            other => panic!("{other:?}"),
        };
        reply.results.into_iter().map(|result| result.map(mds)).collect()
    }

    pub fn op(&self, rig: &Rig, uid: u32, op: MdsOp) -> Result<MdsReply, Errno> {
        self.ops(rig, uid, vec![op], InodeBits::NONE).remove(0)
    }

    fn tickets(&self, rig: &Rig, uid: u32, asked: AskTickets) -> Vec<Result<ObjectTicket, Errno>> {
        match self.op(rig, uid, MdsOp::AskTickets(asked)) {
            Ok(MdsReply::Tickets { tickets, .. }) => tickets,
            other => panic!("{other:?}"),
        }
    }

    fn ticket(&self, rig: &Rig, uid: u32, fid: Fid) -> Result<ObjectTicket, Errno> {
        self.ticket_with(rig, uid, fid, Vec::new())
    }

    fn ticket_with(
        &self,
        rig: &Rig,
        uid: u32,
        fid: Fid,
        had: Vec<ObjectTicket>,
    ) -> Result<ObjectTicket, Errno> {
        self.tickets(rig, uid, AskTickets { fids: vec![fid], of_objects: false, had }).remove(0)
    }

    fn rights(&self, rig: &Rig, uid: u32, fid: Fid) -> Result<Rights, Errno> {
        self.ticket(rig, uid, fid).map(|ticket| ticket.rights)
    }

    fn open(&self, rig: &Rig, uid: u32, fid: Fid, flags: OpenFlags) -> Result<OpenHandle, Errno> {
        self.op(rig, uid, MdsOp::Open(Open { fid, flags })).map(|reply| match reply {
            MdsReply::Opened { handle, .. } => handle,
            other => panic!("{other:?}"),
        })
    }
}

/// With a file of [`OWNER`].
pub fn rig(mode: u32) -> (Rig, Fid) {
    let rig = Rig::new();
    rig.mds.set_server_key(KEY);
    let fid = rig.file("f");
    give(&rig, fid, mode);
    (rig, fid)
}

fn give(rig: &Rig, fid: Fid, mode: u32) {
    chmod(rig, fid, mode);
    let set = SetAttr { uid: Some(OWNER), gid: Some(OWNER), ..SetAttr::default() };
    rig.setattr(fid, set).unwrap();
}

/// The same, and its bytes live on the MDT.
fn rig_with_bytes(mode: u32) -> (Rig, Fid) {
    let (rig, _) = rig(0o600);
    let fid = dom::file(&rig, "small");
    give(&rig, fid, mode);
    (rig, fid)
}

fn read(fid: Fid) -> MdsOp {
    MdsOp::Read(Read { fid, offset: 0, len: 9 })
}

/// What reads a file's bytes on the MDT.
fn reads(fid: Fid) -> [MdsOp; 2] {
    [read(fid), MdsOp::Seek(Seek { fid, offset: 0, hole: true })]
}

/// What changes them.
fn writes(fid: Fid) -> [MdsOp; 4] {
    let (data, at) = (Bytes::from_static(b"x"), WrittenAt::Now);
    let punch =
        Punch { fid, start: 0, end: 1, kind: PunchKind::Zero, grows: true, kill_suidgid: false };
    let set = SetAttr { size: Some(1), ..SetAttr::default() };
    [
        MdsOp::Write(Write {
            fid,
            offset: 0,
            data: data.clone(),
            at,
            kill_suidgid: false,
            keeps: false,
        }),
        MdsOp::Store(Store { fid, pieces: vec![(0, data)], at }),
        MdsOp::Punch(punch),
        MdsOp::Setattr(Setattr { fid, set }),
    ]
}

pub fn chmod(rig: &Rig, fid: Fid, mode: u32) {
    rig.setattr(fid, SetAttr { mode: Some(mode), ..SetAttr::default() }).unwrap();
}

/// The default nodemap gets these properties, and nodemaps hold.
pub fn activate(rig: &Rig, properties: &[(&str, &str)]) {
    let mut nodemaps = Nodemaps::default();
    for (property, value) in properties {
        let property = Property::parse(property, value).unwrap();
        let name = idmap::nodemap::NodemapName::of_default();
        nodemaps.change(&NodemapChange::Modify(name, property)).unwrap();
    }
    nodemaps.change(&NodemapChange::Activate(true)).unwrap();
    rig.mds.set_nodemaps(Arc::new(nodemaps));
}

#[test]
fn a_caller_gets_what_owner_and_mode_give_it() {
    let (rig, fid) = rig(0o644);
    let a = far(&rig, A);
    // Its kernel checks all else; tickets the MDT checks of everybody.
    activate(&rig, &[("trusted", "1")]);
    let rights = |uid| a.rights(&rig, uid, fid);
    assert_eq!(rights(OWNER), Ok(Rights::ALL));
    assert_eq!(rights(OTHER), Ok(Rights::READ));
    assert_eq!(rights(0), Ok(Rights::READ), "a squashed root");
    for (mode, owner, other) in [
        (0o600, Ok(Rights::ALL), Err(Errno::EACCES)),
        (0o444, Ok(Rights::ALL), Ok(Rights::READ)),
        (0o602, Ok(Rights::ALL), Ok(Rights::WRITE)),
        (0o711, Ok(Rights::ALL), Ok(Rights::READ)),
        (0, Ok(Rights::ALL), Err(Errno::EACCES)),
    ] {
        chmod(&rig, fid, mode);
        assert_eq!((rights(OWNER), rights(OTHER)), (owner, other), "{mode:o}");
    }
    activate(&rig, &[("trusted", "1"), ("admin", "1")]);
    assert_eq!(rights(0), Ok(Rights::ALL));
    assert_eq!(a.rights(&rig, 0, Fid::ROOT), Err(Errno::EINVAL), "a directory");
    assert_eq!(a.rights(&rig, 0, Fid { oid: 999, ..fid }), Err(Errno::ESTALE));
    // Callers that are denied get none.
    activate(&rig, &[("deny_unknown", "1")]);
    let asked = AskTickets { fids: vec![fid], of_objects: false, had: Vec::new() };
    assert_eq!(a.op(&rig, OWNER, MdsOp::AskTickets(asked)), Err(Errno::EACCES));
}

#[test]
fn a_ticket_is_good_for_its_client_and_comes_with_the_open() {
    let (rig, fid) = rig(0o644);
    let a = far(&rig, A);
    activate(&rig, &[("trusted", "1")]);
    rig.mds.set_ticket_life(7).unwrap();
    assert_eq!(rig.mds.set_ticket_life(1), Err(Errno::ERANGE));
    let asked = AskTickets { fids: vec![Fid::result_of(0)], of_objects: false, had: Vec::new() };
    let open = MdsOp::Open(Open { fid, flags: READ });
    let results = a.ops(&rig, OTHER, vec![open, MdsOp::AskTickets(asked)], InodeBits::NONE);
    let [Ok(MdsReply::Opened { .. }), Ok(MdsReply::Tickets { life: 7, tickets })] = &results[..]
    else {
        panic!("{results:?}")
    };
    let [Ok(ticket)] = tickets[..] else { panic!("{tickets:?}") };
    assert_eq!((ticket.fid, ticket.rights), (fid, Rights::READ));
    let now = rig.env().clock.wall().sec as u64;
    let signer = Signer::new(KEY, rig.mds.name().fsname).unwrap();
    let bearer = |client| Bearer { client, owner: &Owner::Open };
    assert_eq!(signer.check(bearer(A), &ticket, now), Ok(()));
    assert!(signer.check(bearer(A), &ticket, now + 8).is_err());
    assert!(signer.check(bearer(ClientUuid(22)), &ticket, now).is_err());
}

#[test]
fn what_is_open_stays_usable_and_what_is_not_does_not() {
    let (rig, fid) = rig(0o666);
    let a = far(&rig, A);
    activate(&rig, &[]);
    // Squashed callers' opens are checked by the MDT.
    let handle = a.open(&rig, OTHER, fid, READ).unwrap();
    let had = a.ticket(&rig, OTHER, fid).unwrap();
    assert_eq!(had.rights, Rights::ALL);
    chmod(&rig, fid, 0o600);
    assert_eq!(a.rights(&rig, OTHER, fid), Ok(Rights::READ), "it is open for reading");
    let again = a.ticket_with(&rig, OTHER, fid, vec![had]).unwrap();
    assert_eq!(again.rights, Rights::ALL, "it had the right to write");
    let b = far(&rig, ClientUuid(22));
    assert_eq!(b.ticket_with(&rig, OTHER, fid, vec![had]), Err(Errno::EACCES), "not its own");
    let forged = ObjectTicket { rights: Rights::ALL, ..again };
    let forged = ObjectTicket { mac: forged.mac ^ 1, ..forged };
    let kept = a.ticket_with(&rig, OTHER, fid, vec![forged]).map(|ticket| ticket.rights);
    assert_eq!(kept, Ok(Rights::READ));
    a.op(&rig, OTHER, MdsOp::Close(Close { fid, handle })).unwrap();
    assert_eq!(a.ticket_with(&rig, OTHER, fid, vec![had]), Err(Errno::EACCES), "it is closed");
}

#[test]
fn opens_that_nobody_checked_give_nothing() {
    let (rig, fid) = rig(0o600);
    let a = far(&rig, A);
    activate(&rig, &[("trusted", "1")]);
    // The kernel of this client is to check them; a hostile one does not.
    a.open(&rig, OTHER, fid, READ).unwrap();
    assert_eq!(a.rights(&rig, OTHER, fid), Err(Errno::EACCES));
    a.open(&rig, OTHER, fid, OpenFlags { lasting: true, ..WRITE }).unwrap();
    assert_eq!(a.rights(&rig, OTHER, fid), Err(Errno::EACCES));
    activate(&rig, &[]);
    // What a daemon opens for all its users is not checked here.
    a.open(&rig, OTHER, fid, OpenFlags { lasting: true, ..WRITE }).unwrap();
    assert_eq!(a.rights(&rig, OTHER, fid), Err(Errno::EACCES));
    // When the client might do everything its opens were its own business.
    activate(&rig, &[("trusted", "1"), ("admin", "1")]);
    a.open(&rig, OTHER, fid, READ).unwrap();
    activate(&rig, &[]);
    assert_eq!(a.rights(&rig, OTHER, fid), Ok(Rights::READ));
}

#[test]
fn a_read_only_client_gets_nothing_to_write_but_what_it_has_open() {
    let (rig, fid) = rig(0o666);
    let other = rig.file("g");
    chmod(&rig, other, 0o666);
    let a = far(&rig, A);
    let all = [("trusted", "1"), ("admin", "1")];
    activate(&rig, &all);
    let handle = a.open(&rig, OTHER, fid, WRITE).unwrap();
    let had = a.ticket(&rig, OTHER, other).unwrap();
    assert_eq!(had.rights, Rights::ALL);
    activate(&rig, &[&all[..], &[("readonly_mount", "1")]].concat());
    assert_eq!(a.rights(&rig, OTHER, fid), Ok(Rights::ALL));
    assert_eq!(a.rights(&rig, OTHER, other), Ok(Rights::READ));
    assert_eq!(a.rights(&rig, 0, other), Ok(Rights::READ), "root neither");
    let kept = a.ticket_with(&rig, OTHER, other, vec![had]).map(|ticket| ticket.rights);
    assert_eq!(kept, Ok(Rights::READ));
    a.op(&rig, OTHER, MdsOp::Close(Close { fid, handle })).unwrap();
    assert_eq!(a.rights(&rig, OTHER, fid), Ok(Rights::READ));
}

#[test]
fn tickets_are_for_the_objects_wherever_their_file_is() {
    let (rig, fid) = rig(0o600);
    let other = rig.file("g");
    let a = far(&rig, A);
    activate(&rig, &[("trusted", "1")]);
    let swap = SwapLayouts { fid, other, versions: (0, 0), same: false };
    assert_eq!(rig.one(MdsOp::SwapLayouts(swap)), Ok(MdsReply::Done));
    // The file of the owner has the objects that are named after the other one.
    let ticket = a.ticket(&rig, OWNER, fid).unwrap();
    assert_eq!((ticket.fid, ticket.rights), (other, Rights::ALL));
    let by_name = |uid, fid| {
        let asked = AskTickets { fids: vec![fid], of_objects: true, had: Vec::new() };
        a.tickets(&rig, uid, asked).remove(0).map(|ticket| (ticket.fid, ticket.rights))
    };
    assert_eq!(by_name(OWNER, other), Ok((other, Rights::ALL)));
    // These are in root's file now, which others may read.
    assert_eq!(by_name(OWNER, fid), Ok((fid, Rights::READ)));
}

#[test]
fn without_the_key_of_the_servers_there_are_no_tickets() {
    let (rig, fid) = rig(0o666);
    rig.mds.set_server_key(ServerKey(0));
    let asked = AskTickets { fids: vec![fid], of_objects: false, had: Vec::new() };
    assert_eq!(far(&rig, A).op(&rig, OTHER, MdsOp::AskTickets(asked)), Err(Errno::ENOKEY));
}

#[test]
fn a_restricted_client_does_with_bytes_here_what_its_callers_may_and_its_tickets_say() {
    let (rig, fid) = rig_with_bytes(0o640);
    let a = far(&rig, A);
    let results = |a: &Far, uid, ops: &[MdsOp]| {
        let results = ops.iter().map(|op| a.op(&rig, uid, op.clone()).err());
        results.collect::<Vec<_>>()
    };
    let all = [&reads(fid)[..], &writes(fid)].concat();
    let no_key = |ops: &[MdsOp]| vec![Some(Errno::ENOKEY); ops.len()];
    let good = |ops: &[MdsOp]| vec![None; ops.len()];
    assert_eq!(results(&a, OTHER, &all), good(&all), "no client is restricted");
    activate(&rig, &[("trusted", "1")]);
    assert_eq!(results(&a, OTHER, &all), no_key(&all));
    assert_eq!(results(&a, 0, &all), no_key(&all), "a squashed root");
    assert_eq!(results(&a, OWNER, &all), good(&all));
    chmod(&rig, fid, 0o604);
    assert_eq!(results(&a, OTHER, &reads(fid)), good(&reads(fid)));
    assert_eq!(results(&a, OTHER, &writes(fid)), no_key(&writes(fid)));
    chmod(&rig, fid, 0o602);
    assert_eq!(results(&a, OTHER, &writes(fid)), good(&writes(fid)));
    chmod(&rig, fid, 0o600);
    assert_eq!(results(&a, OTHER, &writes(fid)), no_key(&writes(fid)));
    // What one caller was given its client's write-back may do, which goes as root.
    a.ticket(&rig, OWNER, fid).unwrap();
    assert_eq!(results(&a, 0, &all), good(&all));
    let b = far(&rig, ClientUuid(22));
    assert_eq!(results(&b, 0, &all), no_key(&all), "another client");
    let other = dom::file(&rig, "other");
    chmod(&rig, other, 0);
    assert_eq!(results(&a, 0, &writes(other)), no_key(&writes(other)), "another file");
    rig.mds.gone(&a.export, Gone::Disconnected);
    assert_eq!(results(&far(&rig, A), 0, &all), no_key(&all), "another session");
    activate(&rig, &[("trusted", "1"), ("admin", "1")]);
    assert_eq!(results(&b, 0, &all), good(&all), "it may do everything");
}

#[test]
fn nothing_of_a_request_is_done_that_lacks_a_ticket() {
    let (rig, fid) = rig_with_bytes(0o600);
    let a = far(&rig, A);
    activate(&rig, &[("trusted", "1")]);
    let open = |fid| MdsOp::Open(Open { fid, flags: READ });
    let sent = |ops| a.ops(&rig, OTHER, ops, InodeBits::NONE);
    let refused = sent(vec![open(fid), read(fid)]);
    assert_eq!(refused, [Err(Errno::ENOKEY), Err(Errno::ENOKEY)]);
    // The file is known only when the first operation is done.
    let results = sent(vec![open(fid), read(Fid::result_of(0))]);
    assert!(results[0].is_ok(), "{results:?}");
    assert_eq!(results[1], Err(Errno::ENOKEY));
    // Errors that the operations have of themselves are told.
    for gone in reads(Fid { oid: 999, ..fid }) {
        assert_eq!(sent(vec![gone]), [Err(Errno::ESTALE)]);
    }
    let size = SetAttr { size: Some(0), ..SetAttr::default() };
    let cut = |fid| MdsOp::Setattr(Setattr { fid, set: size });
    assert!(!matches!(sent(vec![cut(Fid::ROOT)])[..], [Ok(_) | Err(Errno::ENOKEY)]));
    activate(&rig, &[("trusted", "1"), ("readonly_mount", "1")]);
    for op in writes(fid) {
        assert_eq!(sent(vec![op]), [Err(Errno::EROFS)]);
    }
    // A caller that is denied gives no right, whichever ids it claims.
    activate(&rig, &[("deny_unknown", "1")]);
    assert_eq!(a.op(&rig, OWNER, read(fid)), Err(Errno::ENOKEY));
}

#[test]
fn tickets_for_bytes_here_are_those_of_the_file_whatever_its_bytes_are_named() {
    let (rig, fid) = rig_with_bytes(0o600);
    let other = dom::file(&rig, "other");
    let a = far(&rig, A);
    activate(&rig, &[("trusted", "1")]);
    let swap = SwapLayouts { fid, other, versions: (0, 0), same: false };
    assert_eq!(rig.one(MdsOp::SwapLayouts(swap)), Ok(MdsReply::Done));
    chmod(&rig, other, 0o600);
    assert_eq!(a.ticket(&rig, OWNER, fid).unwrap().fid, other);
    for op in writes(fid) {
        assert_eq!(a.op(&rig, 0, op).err(), None);
    }
    for op in reads(other).into_iter().chain(writes(other)) {
        assert_eq!(a.op(&rig, 0, op), Err(Errno::ENOKEY));
    }
}

#[test]
fn what_is_not_there_is_told_to_callers_that_are_checked_as_to_all() {
    let (rig, fid) = rig_with_bytes(0o640);
    let (a, gone) = (far(&rig, A), Fid { oid: 0xffff, ..fid });
    let lookup = Lookup { parent: gone, name: n("a") };
    let told = || {
        let open = MdsOp::Open(Open { fid: gone, flags: READ });
        [MdsOp::Lookup(lookup.clone()), open].map(|op| a.op(&rig, OTHER, op).err())
    };
    // A directory may have left it: its stripes are asked for. A file was removed.
    assert_eq!(told(), [Some(Errno::EREMCHG), Some(Errno::ESTALE)]);
    activate(&rig, &[("trusted", "0")]);
    assert_eq!(told(), [Some(Errno::EREMCHG), Some(Errno::ESTALE)]);
}

/// Keeps the lines: operation, file, and what it was refused with.
#[derive(Default)]
struct Lines(Mutex<Vec<(&'static str, Fid, Option<Errno>)>>);

impl Audit for Lines {
    fn write(&self, line: Line) {
        let what = line.what.unwrap();
        self.0.lock().push((what.operation, what.fid, what.refused));
    }
}

#[test]
fn refused_uses_of_bytes_and_refused_tickets_are_written_down() {
    let (rig, fid) = rig_with_bytes(0o640);
    let other = rig.file("g");
    give(&rig, other, 0o600);
    let (a, lines) = (far(&rig, A), Arc::new(Lines::default()));
    rig.mds.audit_to(lines.clone());
    let told = || std::mem::take(&mut *lines.0.lock());
    activate(&rig, &[("trusted", "1")]);
    assert_eq!(a.op(&rig, OTHER, read(fid)).err(), Some(Errno::ENOKEY));
    assert!(told().is_empty(), "nobody asked for it");
    activate(&rig, &[("trusted", "1"), ("audit_mode", "1")]);
    // Of all that a request asks for and gets not, what lacks a ticket.
    let getattr = MdsOp::Getattr(wire::mds::Getattr::of(other));
    let results = a.ops(&rig, OTHER, vec![getattr, read(fid)], InodeBits::NONE);
    assert!(results.iter().all(|result| result.as_ref().err() == Some(&Errno::ENOKEY)));
    assert_eq!(told(), [("mds_read", fid, Some(Errno::ENOKEY))]);
    // Each file of which a ticket is refused; those that are given are no change.
    let asked = |fids: Vec<Fid>| AskTickets { fids, of_objects: false, had: Vec::new() };
    let refused = |fid| ("mds_ticket", fid, Some(Errno::EACCES));
    a.tickets(&rig, OTHER, asked(vec![fid, Fid::ROOT, other]));
    assert_eq!(told(), [refused(fid), refused(other)], "a directory has none");
    a.tickets(&rig, OWNER, asked(vec![fid, other]));
    assert_eq!(a.op(&rig, OWNER, read(fid)).err(), None);
    assert!(told().is_empty());
}
