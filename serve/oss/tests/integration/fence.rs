//! Clients that an MDT has evicted: nothing is done for them until the MDT says that they are back.

use crate::rig::{Rig, object};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;
use types::errno::Errno;
use types::object::ObjectOffset;
use types::session::ClientUuid;
use types::target::TargetIndex;
use wire::ost::{
    FenceClients, ObjectGetattr, ObjectPunch, ObjectRead, ObjectWrite, OstOp, OstReply, PunchKind,
};

const MDT: u128 = 100;
const A: u128 = 1;
const B: u128 = 2;

fn fence(rig: &Rig, number: u64, clients: &[u128]) -> Vec<ClientUuid> {
    let clients = clients.iter().copied().map(ClientUuid).collect();
    let fence = FenceClients { mdt: TargetIndex(0), boot: 1, number, clients };
    match rig.one_by(MDT, OstOp::Fence(fence)).unwrap() {
        OstReply::Fenced { boot, clients } => {
            assert_eq!(boot, rig.target.boot());
            clients
        }
        other => panic!("{other:?}"),
    }
}

fn write(data: &'static [u8]) -> OstOp {
    let (offset, data) = (ObjectOffset(0), bytes::Bytes::from_static(data));
    OstOp::Write(ObjectWrite { object: object(0), offset, data, sync: false })
}

#[test]
fn an_evicted_client_is_refused_until_it_is_back_and_others_are_not() {
    let rig = Rig::new();
    rig.one_by(A, write(b"before")).unwrap();
    assert_eq!(fence(&rig, 1, &[A]), [ClientUuid(A)]);
    let (object, offset, end) = (object(0), ObjectOffset(0), ObjectOffset(u64::MAX));
    for op in [
        write(b"after"),
        OstOp::Read(ObjectRead { object, offset, len: 9 }),
        OstOp::Punch(ObjectPunch { object, start: offset, end, kind: PunchKind::Truncate }),
        OstOp::Getattr(ObjectGetattr { object }),
    ] {
        assert_eq!(rig.one_by(A, op.clone()), Err(Errno::ETIMEDOUT), "{op:?}");
        rig.one_by(B, OstOp::Getattr(ObjectGetattr { object })).unwrap();
    }
    let read = |by| match rig.one_by(by, OstOp::Read(ObjectRead { object, offset, len: 9 })) {
        Ok(OstReply::Data(data)) => data,
        other => panic!("{other:?}"),
    };
    assert_eq!(read(B), "before");
    assert_eq!(fence(&rig, 0, &[]), [ClientUuid(A)], "a question changes nothing");
    assert_eq!(rig.one_by(A, write(b"after")), Err(Errno::ETIMEDOUT));
    assert_eq!(fence(&rig, 2, &[]), []);
    rig.one_by(A, write(b"after")).unwrap();
    assert_eq!(read(A), "aftere");
}

#[test]
fn when_the_mdt_is_answered_no_change_of_the_client_is_under_way() {
    let rig = Rig::new();
    rig.one_by(A, write(b"before")).unwrap();
    let (hold, changed) = &rig.watch.hold_writes;
    std::thread::scope(|scope| {
        *hold.lock().unwrap() = Some(b"under way");
        let (rig, (send, told)) = (&rig, mpsc::channel());
        let writing = scope.spawn(|| rig.one_by(A, write(b"under way")));
        while rig.watch.held_writes.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        scope.spawn(move || send.send(fence(rig, 1, &[A])).unwrap());
        // It cannot be answered, however long this takes.
        let early = told.recv_timeout(Duration::from_millis(100));
        *hold.lock().unwrap() = None;
        changed.notify_all();
        assert!(early.is_err(), "it was answered while a write was under way");
        assert_eq!(told.recv().unwrap(), [ClientUuid(A)]);
        writing.join().unwrap().unwrap();
    });
}
