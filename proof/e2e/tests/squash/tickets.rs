//! OSTs ask clients that may not do everything for tickets (docs/security.md, "Object tickets"):
//! their mounts work, and a program that keeps to no rule gets nothing else.

use super::nodemap::{MAP, says_nothing, tenant};
use bytes::Bytes;
use e2e::cluster::Cluster;
use e2e::process::text;
use e2e::programs::{sh, try_sh};
use e2e::stranger::Stranger;
use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;
use types::attr::{SetAttr, WrittenAt};
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use types::object::{ObjectId, ObjectOffset};
use types::object_ticket::{ObjectTicket, Rights};
use types::session::ClientUuid;
use types::target::{FsName, TargetName};
use wire::mds::{
    AskTickets, GetLayout, Lookup, MdsOp, MdsReply, Punch, Read as ReadBytes, Seek as SeekBytes,
    Setattr, Store, Write as WriteBytes,
};
use wire::message::{Op, OpReply};
use wire::ost::{
    ObjectGetattr, ObjectPunch, ObjectRead, ObjectSeek, ObjectSync, ObjectWrite, OstOp, PunchKind,
    ShowTickets,
};

/// Life of tickets in these tests, seconds: renewed several times in each.
const LIFE: u64 = 4;

fn short_life(cluster: &Cluster) {
    says_nothing(cluster, &["set_param", "-P", &format!("mdt.*.ticket_life={LIFE}")]);
}

/// A script of the user that the nodemap knows, in the mount of the restricted client.
pub(super) fn as_user(mount: &Path, script: &str) -> String {
    let run = "setpriv --reuid 1000 --regid 1001 --clear-groups";
    sh(Path::new("/"), &format!("{run} sh -ec 'cd {} && {script}'", mount.display()))
}

/// Files that are made in this directory have their first 64 KiB on the MDT.
pub(super) fn on_mdt(cluster: &Cluster, dir: &Path) {
    let dir = dir.display().to_string();
    let words = ["setstripe", "-E", "64K", "-L", "mdt", "-E", "-1", "-c", "1", &dir];
    let made = cluster.called("lfs", &words);
    assert!(made.status.success(), "{}", text(&made));
}

fn restart(cluster: &mut Cluster, name: &str) {
    let many = cluster.many_mut();
    let at = (0..many.server_count()).find(|at| many.server_name(*at) == name).expect("it");
    many.kill_server(at);
    many.start_server_again(at);
}

#[test]
fn a_restricted_mount_works() {
    let Some(mut cluster) = tenant(MAP) else { return };
    let (mount, admin) = (cluster.mount(), cluster.mounts()[1].clone());
    short_life(&cluster);
    sh(&admin, "mkdir -m 777 open && head -c 5000000 /dev/urandom > given && chmod 644 given");
    as_user(
        &mount,
        "cat given | cksum; cp given open/copy; cmp given open/copy; echo tail >> open/copy; \
         truncate -s 3000000 open/copy; head -c 3000000 given | cmp - open/copy; \
         for n in 1 2 3 4 5 6 7 8; do head -c 100000 given > open/$n; done; \
         cat open/1 open/2 open/3 open/4 open/5 open/6 open/7 open/8 | cksum; sync",
    );
    sh(&admin, "mkdir -m 777 small");
    on_mdt(&cluster, &admin.join("small"));
    as_user(
        &mount,
        "head -c 30000 given > small/a; cp small/a small/b; cmp small/a small/b; \
         echo tail >> small/b; truncate -s 20000 small/b; head -c 20000 given | cmp - small/b; \
         head -c 100000 given > small/c; cmp -n 100000 given small/c; sync",
    );
    let sums = "cksum open/* small/* given";
    assert_eq!(sh(&admin, sums), sh(&mount, sums));
    // A file that a program has open is its own, also after chmod and many renewals.
    let held = mount.join("open/held");
    as_user(&mount, "echo start > open/held && chmod 666 open/held");
    let mut file = OpenOptions::new().read(true).append(true).open(&held).expect("open");
    let small = mount.join("small/held");
    as_user(&mount, "echo start > small/held && chmod 666 small/held");
    let mut small = OpenOptions::new().append(true).open(&small).expect("open");
    sh(&admin, "chmod 600 open/held small/held");
    for round in 0..4 {
        for file in [&mut file, &mut small] {
            writeln!(file, "round {round}").expect("write");
            file.sync_all().expect("sync");
        }
        std::thread::sleep(Duration::from_secs(LIFE));
    }
    // Servers that restart know no tickets.
    for name in ["oss0", "oss1", "mds"] {
        restart(&mut cluster, name);
        for file in [&mut file, &mut small] {
            writeln!(file, "after {name}").expect("write");
            file.sync_all().expect("sync");
        }
        as_user(&mount, "head -c 200000 given > open/again && cmp -n 200000 given open/again");
        as_user(&mount, "head -c 20000 given > small/again && cmp -n 20000 given small/again");
    }
    let mut whole = String::new();
    file.seek(SeekFrom::Start(0)).expect("seek");
    file.read_to_string(&mut whole).expect("read");
    let rounds = "start\nround 0\nround 1\nround 2\nround 3\n";
    assert_eq!(whole, format!("{rounds}after oss0\nafter oss1\nafter mds\n"));
    for held in ["open/held", "small/held"] {
        assert_eq!(fs::read_to_string(admin.join(held)).expect("read"), whole, "{held}");
    }
    // What the user must not, it cannot.
    sh(&admin, "head -c 100000 given > secret && cp given small/secret");
    sh(&admin, "chmod 600 secret small/secret");
    for script in ["cat secret", "cat small/secret", "truncate -s 0 small/secret"] {
        assert!(!try_sh(&mount, script).status.success(), "{script}");
    }
    assert!(cluster.many().fsck(&[]).status.success());
}

/// A program with sessions at the MDT and an OST.
struct Attacker {
    client: ClientUuid,
    mdt: Stranger,
    ost: Stranger,
}

fn mdt() -> TargetName {
    TargetName::mdt(FsName::default(), 0)
}

fn ost() -> TargetName {
    TargetName::ost(FsName::default(), 0)
}

impl Attacker {
    fn new(cluster: &Cluster, host: usize, client: u128) -> Attacker {
        let many = cluster.many();
        let address: Ipv4Addr = many.client_address(host).parse().expect("an address");
        let oss = (0..many.server_count()).find(|at| many.server_name(*at) == "oss0").expect("it");
        let (mds, oss) = (many.mds_address(), many.server_address(oss));
        let greet =
            |to: &str| many.on_client(host, || Stranger::greet(IpAddr::V4(address), to, client));
        let (client, mut mdt_end, mut ost_end) = (ClientUuid(client), greet(&mds), greet(&oss));
        assert_eq!(mdt_end.session(client, mdt()).expect("an answer"), None);
        assert_eq!(ost_end.session(client, ost()).expect("an answer"), None);
        Attacker { client, mdt: mdt_end, ost: ost_end }
    }

    fn metadata(&mut self, op: MdsOp) -> MdsReply {
        match self.mdt.result(self.client, mdt(), Op::Mds(op)).0 {
            Ok(OpReply::Mds(reply)) => reply,
            other => panic!("{other:?}"),
        }
    }

    fn find(&mut self, parent: Fid, name: &str) -> Fid {
        let lookup = Lookup { parent, name: Name::new(name.as_bytes()).expect("a name") };
        match self.metadata(MdsOp::Lookup(lookup)) {
            MdsReply::Entry(entry) => entry.attr.fid,
            other => panic!("{other:?}"),
        }
    }

    /// The error of an operation of the MDT.
    fn on_mdt(&mut self, op: MdsOp) -> Option<Errno> {
        self.mdt.result(self.client, mdt(), Op::Mds(op)).0.err()
    }

    fn object(&mut self, name: &str) -> ObjectId {
        let fid = self.find(Fid::ROOT, name);
        let layout = MdsOp::GetLayout(GetLayout { fid, write: false, start: 0, end: u64::MAX });
        let MdsReply::Layout(layout) = self.metadata(layout) else { panic!("a layout") };
        let found = layout.objects(fid).find(|(at, _)| at.0 == 0);
        found.expect("an object on the first OST").1
    }

    fn ticket(&mut self, fid: Fid) -> Result<ObjectTicket, Errno> {
        let asked = AskTickets { fids: vec![fid], of_objects: false, had: Vec::new() };
        match self.metadata(MdsOp::AskTickets(asked)) {
            MdsReply::Tickets { mut tickets, .. } => tickets.remove(0),
            other => panic!("{other:?}"),
        }
    }

    /// The error of an operation of the OST.
    fn on_ost(&mut self, op: OstOp) -> Option<Errno> {
        self.ost.result(self.client, ost(), Op::Ost(op)).0.err()
    }

    fn show(&mut self, ticket: ObjectTicket) -> Option<Errno> {
        self.on_ost(OstOp::Tickets(ShowTickets { tickets: vec![ticket] }))
    }
}

fn getattr(object: ObjectId) -> OstOp {
    OstOp::Getattr(ObjectGetattr { object })
}

/// What changes the object.
fn changes(object: ObjectId) -> [OstOp; 3] {
    let offset = ObjectOffset(0);
    let punch =
        |kind| OstOp::Punch(ObjectPunch { object, start: offset, end: ObjectOffset(4096), kind });
    let write = ObjectWrite { object, offset, data: Vec::new().into(), sync: false };
    [OstOp::Write(write), punch(PunchKind::Hole), punch(PunchKind::Truncate)]
}

/// What reads it, without an answer that has data if it is done.
fn looks(object: ObjectId) -> [OstOp; 3] {
    let offset = ObjectOffset(0);
    [
        getattr(object),
        OstOp::Seek(ObjectSeek { object, offset, hole: true }),
        OstOp::Sync(ObjectSync { objects: vec![object] }),
    ]
}

const NO_KEY: Option<Errno> = Some(Errno::ENOKEY);
const REJECTED: Option<Errno> = Some(Errno::EKEYREJECTED);

#[test]
fn a_restricted_client_that_keeps_to_no_rule_gets_what_its_tickets_say() {
    let Some(cluster) = tenant(MAP) else { return };
    let admin = cluster.mounts()[1].clone();
    short_life(&cluster);
    for name in ["secret", "shown"] {
        let at = admin.join(name).display().to_string();
        let made = cluster.called("lfs", &["setstripe", "-i", "0", "-c", "1", &at]);
        assert!(made.status.success(), "{}", text(&made));
    }
    sh(&admin, "echo secret > secret && echo shown > shown");
    sh(&admin, "chmod 600 secret && chmod 644 shown && sync");
    let mut attacker = Attacker::new(&cluster, 0, 0x77);
    let [secret, shown] = ["secret", "shown"].map(|name| attacker.object(name));
    let read = |object| OstOp::Read(ObjectRead { object, offset: ObjectOffset(0), len: 100 });
    for object in [secret, shown] {
        let all = [&looks(object)[..], &changes(object)[..], &[read(object)][..]].concat();
        for op in all {
            assert_eq!(attacker.on_ost(op.clone()), NO_KEY, "without a ticket: {op:?}");
        }
    }
    assert_eq!(attacker.ticket(secret.fid), Err(Errno::EACCES));
    let good = attacker.ticket(shown.fid).expect("others may read it");
    assert_eq!(good.rights, Rights::READ);
    let ended = good;
    for (what, bad) in [
        ("of another file", ObjectTicket { fid: secret.fid, ..good }),
        ("with more rights", ObjectTicket { rights: Rights::ALL, ..good }),
        ("that lives longer", ObjectTicket { expires: good.expires + 100, ..good }),
        ("with one bit flipped", ObjectTicket { mac: good.mac ^ 1, ..good }),
        ("of another epoch", ObjectTicket { epoch: good.epoch - 1, ..good }),
    ] {
        assert_eq!(attacker.show(bad), REJECTED, "{what}");
        assert_eq!(attacker.on_ost(getattr(shown)), NO_KEY, "{what}");
    }
    let mut other = Attacker::new(&cluster, 0, 0x78);
    assert_eq!(other.show(good), REJECTED, "another client");
    assert_eq!(other.on_ost(getattr(shown)), NO_KEY);
    assert_eq!(attacker.show(good), None);
    for op in looks(shown) {
        assert_eq!(attacker.on_ost(op.clone()), None, "{op:?}");
        assert_eq!(other.on_ost(op), NO_KEY);
    }
    for op in changes(shown) {
        assert_eq!(attacker.on_ost(op.clone()), NO_KEY, "a ticket to read: {op:?}");
    }
    for op in looks(secret) {
        assert_eq!(attacker.on_ost(op.clone()), NO_KEY, "a ticket of another file: {op:?}");
    }
    std::thread::sleep(Duration::from_secs(LIFE + 1));
    assert_eq!(attacker.on_ost(getattr(shown)), NO_KEY, "its time is over");
    assert_eq!(attacker.show(ended), REJECTED, "its time is over");
    sh(&admin, "chmod 600 shown");
    assert_eq!(attacker.ticket(shown.fid), Err(Errno::EACCES));
    for name in ["secret", "shown"] {
        assert_eq!(fs::read_to_string(admin.join(name)).expect("read"), format!("{name}\n"));
    }
    // The same requests of a client that may do everything: the checks above are what refuses.
    let mut free = Attacker::new(&cluster, 1, 0x79);
    for op in looks(secret).into_iter().chain(changes(secret)) {
        assert_eq!(free.on_ost(op.clone()), None, "{op:?}");
    }
}

/// What reads and changes bytes of a file on the MDT; those that change it leave it as it is.
fn uses_of_bytes(fid: Fid, size: u64) -> [MdsOp; 6] {
    let (data, at) = (Bytes::new(), WrittenAt::Now);
    let punch = Punch {
        fid,
        start: size,
        end: 4096,
        kind: PunchKind::Zero,
        grows: false,
        kill_suidgid: false,
    };
    let set = SetAttr { size: Some(size), ..SetAttr::default() };
    [
        MdsOp::Read(ReadBytes { fid, offset: 0, len: 4096 }),
        MdsOp::Seek(SeekBytes { fid, offset: 0, hole: true }),
        MdsOp::Write(WriteBytes {
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

#[test]
fn bytes_on_the_mdt_are_kept_from_it_too() {
    let Some(cluster) = tenant(MAP) else { return };
    let admin = cluster.mounts()[1].clone();
    sh(&admin, "mkdir small");
    on_mdt(&cluster, &admin.join("small"));
    sh(&admin, "cd small && echo secret > secret && echo shown > shown && echo given > given");
    sh(&admin, "cd small && chmod 600 secret && chmod 644 shown && chmod 666 given && sync");
    let mut attacker = Attacker::new(&cluster, 0, 0x77);
    let dir = attacker.find(Fid::ROOT, "small");
    let [secret, shown, given] = ["secret", "shown", "given"].map(|name| attacker.find(dir, name));
    let refused = |attacker: &mut Attacker, fid, size| {
        uses_of_bytes(fid, size).map(|op| match attacker.on_mdt(op) {
            None => false,
            NO_KEY => true,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(refused(&mut attacker, secret, 7), [true; 6]);
    assert_eq!(refused(&mut attacker, shown, 6), [false, false, true, true, true, true]);
    assert_eq!(refused(&mut attacker, given, 6), [false; 6], "others may write it");
    assert_eq!(attacker.ticket(secret), Err(Errno::EACCES));
    // A ticket that it was given is good as long as it lives; one of another file gives nothing.
    attacker.ticket(given).expect("others may use it");
    sh(&admin, "chmod 600 small/given");
    assert_eq!(refused(&mut attacker, given, 6), [false; 6]);
    assert_eq!(refused(&mut attacker, secret, 7), [true; 6]);
    let mut other = Attacker::new(&cluster, 0, 0x78);
    assert_eq!(refused(&mut other, given, 6), [true; 6], "another client");
    for name in ["secret", "shown", "given"] {
        let held = fs::read_to_string(admin.join("small").join(name)).expect("read");
        assert_eq!(held, format!("{name}\n"));
    }
    // The same of a client that may do everything.
    let mut free = Attacker::new(&cluster, 1, 0x79);
    assert_eq!(refused(&mut free, secret, 7), [false; 6]);
}
