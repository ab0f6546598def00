//! A client that was evicted, has no clock and goes on: OSTs do nothing for it, until it has a new
//! session with the MDT (docs/security.md, "The fence").

use e2e::can_mount;
use e2e::cluster::Cluster;
use e2e::lustre::lctl;
use e2e::stranger::Stranger;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;
use types::object::{ObjectId, ObjectOffset};
use types::session::ClientUuid;
use types::target::{FsName, TargetName};
use wire::envelope::Refusal;
use wire::mds::{GetLayout, Getattr, Lock, Lookup, MdsOp, MdsReply};
use wire::message::{Op, OpReply};
use wire::ost::{ObjectGetattr, ObjectPunch, OstOp, OstReply, PunchKind};

/// Another address of this host than the one that its own clients call from.
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 99));
const VICTIM: ClientUuid = ClientUuid(0xabc);
/// Longer than an OST needs to be told.
const SOON: Duration = Duration::from_secs(60);

fn mdt() -> TargetName {
    TargetName::mdt(FsName::default(), 0)
}

fn ost() -> TargetName {
    TargetName::ost(FsName::default(), 0)
}

fn metadata(client: &mut Stranger, op: MdsOp) -> MdsReply {
    match client.result(VICTIM, mdt(), Op::Mds(op)) {
        (Ok(OpReply::Mds(reply)), _) => reply,
        (other, _) => panic!("{other:?}"),
    }
}

/// Cuts the object to nothing. Why it was refused, if it was.
fn cut(client: &mut Stranger, object: ObjectId) -> Option<Refusal> {
    let (start, end) = (ObjectOffset(0), ObjectOffset(0));
    let punch = ObjectPunch { object, start, end, kind: PunchKind::Truncate };
    client.ask(VICTIM, ost(), Op::Ost(OstOp::Punch(punch))).expect("an answer")
}

#[test]
fn an_evicted_client_that_goes_on_changes_nothing_until_it_has_a_new_session() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "1", "--dom-size", "0"]);
    let path = cluster.mount().join("file");
    fs::write(&path, "old").expect("write");
    fs::File::open(&path).expect("open").sync_all().expect("fsync");
    let mut client = Stranger::greet(ELSEWHERE, &cluster.listens_at(), 7);
    for target in [mdt(), ost()] {
        assert_eq!(client.session(VICTIM, target).expect("an answer"), None);
    }
    let lookup = Lookup { parent: Fid::ROOT, name: Name::new(b"file").expect("a name") };
    let MdsReply::Entry(entry) = metadata(&mut client, MdsOp::Lookup(lookup)) else {
        panic!("an entry")
    };
    let fid = entry.attr.fid;
    let bits = InodeBits::WRITE.union(InodeBits::DATA).union(InodeBits::UPDATE);
    client.locks = bits;
    metadata(&mut client, MdsOp::Lock(Lock { fid, bits, needs: None }));
    client.locks = InodeBits::NONE;
    let layout = GetLayout { fid, write: true, start: 0, end: u64::MAX };
    let MdsReply::Layout(layout) = metadata(&mut client, MdsOp::GetLayout(layout)) else {
        panic!("a layout")
    };
    let (_, object) = layout.objects(fid).next().expect("an object");
    assert_eq!(cut(&mut client, object), None, "it holds WRITE");

    lctl(&cluster, &["set_param", &format!("mdt.*.evict_client={:032x}", VICTIM.0)]);
    // The mount gets what the client held, and that is to stay.
    fs::write(&path, "new").expect("write");
    fs::File::open(&path).expect("open").sync_all().expect("fsync");
    assert_eq!(cut(&mut client, object), Some(Refusal::Late), "it goes on without its lock");
    let getattr = || Op::Ost(OstOp::Getattr(ObjectGetattr { object }));
    let refused = client.ask(VICTIM, ost(), getattr()).expect("an answer");
    assert_eq!(refused, Some(Refusal::Late), "it reads nothing either");
    assert_eq!(client.session(VICTIM, ost()).expect("an answer"), None);
    assert_eq!(
        cut(&mut client, object),
        Some(Refusal::Late),
        "a session with the OST is not enough"
    );
    assert_eq!(fs::read_to_string(&path).expect("read"), "new");

    assert_eq!(client.session(VICTIM, mdt()).expect("an answer"), None);
    metadata(&mut client, MdsOp::Getattr(Getattr::of(Fid::ROOT)));
    let deadline = Instant::now() + SOON;
    while client.ask(VICTIM, ost(), getattr()).expect("an answer").is_some() {
        assert!(Instant::now() < deadline, "it is not let in again\n{}", cluster.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    match client.result(VICTIM, ost(), getattr()).0 {
        Ok(OpReply::Ost(OstReply::Attr { size, .. })) => assert_eq!(size, 3, "what was stored"),
        other => panic!("{other:?}"),
    }
}
