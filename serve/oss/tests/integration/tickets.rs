//! Clients that may not do everything show tickets for what they do with objects.

use crate::rig::{Rig, object, wait};
use idmap::rules::{Rules, parse_spared};
use idmap::set::{NodemapChange, Nodemaps};
use rpc::service::{Export, Gone, Service};
use std::sync::Arc;
use types::credentials::{Credentials, Ids};
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::nid::Nid;
use types::object::{ObjectId, ObjectOffset};
use types::object_ticket::{Bearer, ObjectTicket, Rights, Signer};
use types::principal::{Owner, Role};
use types::proof::ServerKey;
use types::session::{ClientUuid, ClusterId, Transno, Xid};
use wire::message::{Op, OpReply, Redo, Request};
use wire::ost::{
    GrantSpace, ObjectGetattr, ObjectPunch, ObjectRead, ObjectSeek, ObjectSync, ObjectWrite, OstOp,
    OstReply, PunchKind, ShowTickets,
};

const KEY: ServerKey = ServerKey(5);
const A: ClientUuid = ClientUuid(21);
const LIFE: u64 = 1000;

struct Clients {
    rig: Rig,
    a: Arc<Export>,
}

fn far(rig: &Rig, client: ClientUuid, nid: &str, role: Role) -> Arc<Export> {
    Export::elsewhere(rig.ost.target(), client, nid.parse().unwrap(), role)
}

impl Clients {
    /// A client on the network; no nodemap is active.
    fn new() -> Clients {
        let rig = Rig::new();
        let name = rig.target.name().unwrap();
        rig.target.assign(name, ClusterId(7), KEY).unwrap();
        rig.one(write(b"before")).unwrap();
        let a = far(&rig, A, "10.0.0.3:5000@tcp", Role::Anonymous);
        Clients { rig, a }
    }

    fn activate(&self) {
        let mut nodemaps = Nodemaps::default();
        nodemaps.change(&NodemapChange::Activate(true)).unwrap();
        self.rig.ost.set_nodemaps(Arc::new(nodemaps));
    }

    fn now(&self) -> u64 {
        self.rig.env.clock.wall().sec as u64
    }

    fn ticket_of(&self, client: ClientUuid, fid: Fid, rights: Rights, made: u64) -> ObjectTicket {
        let signer = Signer::new(KEY, self.rig.target.fsname()).unwrap();
        signer.make(Bearer { client, owner: &Owner::Open }, (fid, rights), made, LIFE)
    }

    fn ticket(&self, rights: Rights) -> ObjectTicket {
        self.ticket_of(A, object(0).fid, rights, self.now())
    }

    fn send(&self, export: &Arc<Export>, ops: Vec<Op>) -> Vec<Result<OpReply, Errno>> {
        let request = Request {
            target: self.rig.ost.target(),
            xid: Xid(1),
            xid_known: Xid(0),
            resent: false,
            replay: Transno(0),
            slot: 0,
            locks: InodeBits::NONE,
            credentials: Credentials::root(),
            job: types::job::JobId::NONE,
            ops,
        };
        wait(self.rig.ost.clone().handle(export.clone(), request)).results
    }

    fn ask(&self, ops: Vec<OstOp>) -> Vec<Result<OpReply, Errno>> {
        self.send(&self.a, ops.into_iter().map(Op::Ost).collect())
    }

    fn one(&self, op: OstOp) -> Option<Errno> {
        self.ask(vec![op]).remove(0).err()
    }
}

fn write(data: &'static [u8]) -> OstOp {
    let (offset, data) = (ObjectOffset(0), data.into());
    OstOp::Write(ObjectWrite { object: object(0), offset, data, sync: false })
}

fn read() -> OstOp {
    OstOp::Read(ObjectRead { object: object(0), offset: ObjectOffset(0), len: 9 })
}

fn show(tickets: Vec<ObjectTicket>) -> OstOp {
    OstOp::Tickets(ShowTickets { tickets })
}

/// What needs the right to read, to write, and any of them.
fn uses() -> [Vec<OstOp>; 3] {
    let (object, offset, end) = (object(0), ObjectOffset(0), ObjectOffset(u64::MAX));
    let punch = |kind| OstOp::Punch(ObjectPunch { object, start: offset, end, kind });
    [
        vec![read()],
        vec![write(b"x"), punch(PunchKind::Truncate), punch(PunchKind::Hole)],
        vec![
            OstOp::Getattr(ObjectGetattr { object }),
            OstOp::Seek(ObjectSeek { object, offset, hole: true }),
            OstOp::Sync(ObjectSync { objects: vec![object] }),
        ],
    ]
}

const NO_KEY: Option<Errno> = Some(Errno::ENOKEY);
const REJECTED: Option<Errno> = Some(Errno::EKEYREJECTED);

#[test]
fn a_restricted_client_does_with_objects_what_its_tickets_say() {
    let clients = Clients::new();
    let [reads, writes, any] = uses();
    for op in reads.iter().chain(&any).chain(&writes) {
        assert_eq!(clients.one(op.clone()), None, "nobody is restricted: {op:?}");
    }
    clients.activate();
    for op in reads.iter().chain(&any).chain(&writes) {
        assert_eq!(clients.one(op.clone()), NO_KEY, "{op:?}");
    }
    // What names no object is free.
    assert_eq!(clients.one(OstOp::Statfs), None);
    assert_eq!(clients.one(OstOp::Grant(GrantSpace { spend: 0, back: 0, want: 1 << 20 })), None);
    // In front, in the same request, and remembered.
    let results = clients.ask(vec![show(vec![clients.ticket(Rights::READ)]), read()]);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    for op in reads.iter().chain(&any) {
        assert_eq!(clients.one(op.clone()), None, "{op:?}");
    }
    for op in &writes {
        assert_eq!(clients.one(op.clone()), NO_KEY, "{op:?}");
    }
    assert_eq!(clients.one(show(vec![clients.ticket(Rights::WRITE)])), None);
    for op in reads.iter().chain(&any).chain(&writes) {
        assert_eq!(clients.one(op.clone()), None, "{op:?}");
    }
    // Of another file.
    let other = ObjectId { fid: Fid { oid: 10, ..object(0).fid }, ..object(0) };
    assert_eq!(clients.one(OstOp::Getattr(ObjectGetattr { object: other })), NO_KEY);
    // They end with the session.
    clients.rig.ost.gone(&clients.a, Gone::Disconnected);
    assert_eq!(clients.one(read()), NO_KEY);
}

#[test]
fn nothing_of_a_request_is_done_if_one_right_is_missing() {
    let clients = Clients::new();
    clients.activate();
    assert_eq!(clients.one(show(vec![clients.ticket(Rights::ALL)])), None);
    let other = ObjectId { fid: Fid { oid: 10, ..object(0).fid }, ..object(0) };
    let results = clients.ask(vec![
        write(b"AFTER"),
        OstOp::Getattr(ObjectGetattr { object: other }),
        OstOp::Statfs,
    ]);
    assert_eq!(results, [const { Err(Errno::ENOKEY) }; 3]);
    assert_eq!(clients.rig.read(object(0), 0, 9), "before");
}

#[test]
fn what_is_no_good_ticket_is_rejected() {
    let clients = Clients::new();
    clients.activate();
    let (now, good) = (clients.now(), clients.ticket(Rights::READ));
    let fid = good.fid;
    let other = Fid { oid: 10, ..fid };
    let bad = [
        ("of another client", clients.ticket_of(ClientUuid(22), fid, Rights::READ, now)),
        ("of another file", ObjectTicket { fid, ..clients.ticket_of(A, other, Rights::READ, now) }),
        ("with more rights", ObjectTicket { rights: Rights::ALL, ..good }),
        ("that lives longer", ObjectTicket { expires: good.expires + 1, ..good }),
        ("with one bit flipped", ObjectTicket { mac: good.mac ^ 1 << 77, ..good }),
        ("expired", clients.ticket_of(A, fid, Rights::READ, now - LIFE)),
        ("of an epoch that is over", clients.ticket_of(A, fid, Rights::READ, now - 3 * 3600)),
        ("of another epoch", ObjectTicket { epoch: good.epoch - 1, ..good }),
    ];
    for (what, ticket) in bad {
        assert_eq!(clients.one(show(vec![ticket])), REJECTED, "{what}");
        let results = clients.ask(vec![show(vec![good, ticket]), read()]);
        assert!(results.iter().all(|r| *r == Err(Errno::EKEYREJECTED)), "{what}: {results:?}");
        assert_eq!(clients.one(read()), NO_KEY, "{what}: nothing is remembered");
    }
    assert_eq!(clients.one(show(vec![good])), None);
    assert_eq!(clients.one(read()), None);
}

#[test]
fn an_ost_without_the_key_of_the_servers_believes_no_ticket() {
    let clients = Clients::new();
    let name = clients.rig.target.name().unwrap();
    clients.rig.target.assign(name, ClusterId(7), ServerKey(0)).unwrap();
    clients.activate();
    assert_eq!(clients.one(show(vec![clients.ticket(Rights::READ)])), NO_KEY);
}

#[test]
fn servers_and_neighbours_are_not_restricted_and_squashed_clients_are() {
    let clients = Clients::new();
    let getattr = || vec![Op::Ost(OstOp::Getattr(ObjectGetattr { object: object(0) }))];
    let ask = |nid: &str, role| {
        let export = far(&clients.rig, ClientUuid(30), nid, role);
        let asked = clients.send(&export, getattr()).remove(0).err();
        clients.rig.ost.gone(&export, Gone::Disconnected);
        asked
    };
    clients.activate();
    assert_eq!(ask("10.0.0.9@tcp", Role::Client), NO_KEY);
    assert_eq!(ask("10.0.0.9@tcp", Role::Administrator), NO_KEY);
    assert_eq!(ask("10.0.0.9@tcp", Role::Server), None);
    assert_eq!(ask("127.0.0.1:99@tcp", Role::Client), None);
    clients.rig.ost.set_nodemaps(Arc::default());
    assert_eq!(ask("10.0.0.9@tcp", Role::Client), None);
    let root = Some(Ids { uid: 99, gid: 99 });
    let spared = parse_spared("10.0.0.[1-2]@tcp").unwrap();
    clients.rig.ost.set_squash(vec![Rules::default(), Rules { root, all: None, spared }]);
    assert_eq!(ask("10.0.0.9@tcp", Role::Client), NO_KEY);
    assert_eq!(ask("10.0.0.2@tcp", Role::Client), None);
    clients.rig.ost.set_squash(Vec::new());
    assert_eq!(ask("10.0.0.9@tcp", Role::Client), None);
}

#[test]
fn a_nodemap_holds_from_the_next_request_on() {
    let clients = Clients::new();
    clients.activate();
    assert_eq!(clients.one(read()), NO_KEY);
    let mut nodemaps = Nodemaps::default();
    for property in ["trusted", "admin"] {
        let property = idmap::property::Property::parse(property, "1").unwrap();
        let name = idmap::nodemap::NodemapName::of_default();
        nodemaps.change(&NodemapChange::Modify(name, property)).unwrap();
    }
    nodemaps.change(&NodemapChange::Activate(true)).unwrap();
    clients.rig.ost.set_nodemaps(Arc::new(nodemaps));
    assert_eq!(clients.one(read()), None);
    clients.activate();
    assert_eq!(clients.one(read()), NO_KEY);
}

/// `Nid::Loopback` is this process.
#[test]
fn a_client_in_this_process_is_not_restricted() {
    let clients = Clients::new();
    clients.activate();
    assert_eq!(clients.rig.export().nid(), Nid::Loopback);
    assert!(matches!(clients.rig.one(read()), Ok(OstReply::Data(_))));
    // A change that is brought back is no way around: the OST does not recover.
    let redo = Redo::whole(Transno(5), bytes::Bytes::new());
    let results = clients.send(&clients.a, vec![Op::Replay(vec![redo]), Op::Ost(write(b"x"))]);
    assert!(results.iter().all(|result| *result == Err(Errno::ENOTCONN)), "{results:?}");
}
