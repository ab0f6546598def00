//! What outlives a restart, a crash, or the death of a client.

use crate::brought_back::{asks, session};
use crate::rig::holder::Answer;
use crate::rig::*;
use futures_util::FutureExt;
use types::attr::SetAttr;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::REQUESTS_IN_FLIGHT_MAX;
use types::lock::InodeBits;
use types::object::ObjectId;
use types::session::{ClientUuid, Xid};
use types::target::TargetIndex;
use wire::mds::{Close, CreateKind, Link, Lock, MdsOp, Open, OpenFlags, Rmdir, Wrote};
use wire::message::{Op, Request};

const OTHER: ClientUuid = ClientUuid(2);

#[test]
fn what_was_synced_is_there_after_a_crash_and_fids_are_new() {
    let rig = Rig::new();
    let file = rig.file("synced");
    rig.setattr(file, SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
    rig.one(MdsOp::Sync).unwrap();
    let lost = rig.file("lost");
    let rig = rig.crash();
    assert_eq!(rig.getattr(file).unwrap().mode, 0o100600);
    let new = rig.file("new");
    assert!(new.seq > lost.seq, "{new} must not be a FID of the life before, like {lost}");
}

#[test]
fn objects_of_a_removed_file_are_destroyed_once_that_is_durable() {
    let rig = Rig::new();
    let file = rig.file("f");
    let objects = rig.objects(file);
    assert_eq!(objects.len(), 1);
    rig.unlink("f").unwrap();
    until("objects destroyed", || *rig.osts.destroyed.lock() == objects);
    until("log empty", || rig.mds.destroy_backlog() == 0);
    rig.assert_empty();
}

#[test]
fn a_file_that_never_held_data_has_nothing_to_destroy() {
    let rig = Rig::new();
    rig.file("f");
    rig.unlink("f").unwrap();
    assert_eq!(rig.mds.destroy_backlog(), 0);
    rig.assert_empty();
}

#[test]
fn the_destroy_log_outlives_crashes_and_osts_that_are_away() {
    let rig = Rig::new();
    let names: Vec<String> = (0..20).map(|i| format!("f{i}")).collect();
    let mut objects: Vec<_> = names.iter().flat_map(|name| rig.objects(rig.file(name))).collect();
    rig.osts.away.lock().extend(rig.osts_all());
    names.iter().for_each(|name| drop(rig.unlink(name).unwrap()));
    rig.one(MdsOp::Sync).unwrap();
    assert_eq!(rig.mds.destroy_backlog(), 20);
    let rig = rig.crash();
    assert_eq!(rig.mds.destroy_backlog(), 20);
    // One OST comes back: its objects go, the others wait.
    let first = rig.osts_all()[0];
    let others = objects.iter().filter(|(ost, _)| *ost != first).count();
    assert!(others > 0 && others < objects.len());
    rig.osts.away.lock().remove(&first);
    until("half destroyed", || rig.mds.destroy_backlog() == others);
    assert!(rig.osts.destroyed.lock().iter().all(|(ost, _)| *ost == first));
    rig.osts.away.lock().clear();
    until("all destroyed", || rig.mds.destroy_backlog() == 0);
    let mut destroyed = rig.osts.destroyed.lock().clone();
    destroyed.sort();
    destroyed.dedup();
    objects.sort();
    assert_eq!(destroyed, objects);
}

#[test]
fn an_ost_that_never_answers_holds_up_nobody_else() {
    let rig = Rig::new();
    let files: Vec<_> = (0..8).map(|i| (format!("f{i}"), rig.file(&format!("f{i}")))).collect();
    let objects: Vec<_> = files.iter().flat_map(|(_, fid)| rig.objects(*fid)).collect();
    let silent = rig.osts_all()[1];
    let waiting = objects.iter().filter(|(ost, _)| *ost == silent).count();
    assert!(waiting > 0 && waiting < objects.len());
    rig.osts.silent.lock().insert(silent);
    files.iter().for_each(|(name, _)| drop(rig.unlink(name).unwrap()));
    until("the others destroyed", || rig.mds.destroy_backlog() == waiting);
    until("no new files there", || {
        let object = rig.objects(rig.file("new"))[0];
        rig.unlink("new").unwrap();
        object.0 != silent
    });
    rig.osts.silent.lock().clear();
    until("all destroyed", || rig.mds.destroy_backlog() == 0);
    let destroyed = rig.osts.destroyed.lock();
    assert!(objects.iter().all(|object| destroyed.contains(object)));
}

#[test]
fn an_unlinked_open_file_lives_until_its_last_close() {
    let rig = Rig::new();
    let file = rig.file("f");
    let mine = rig.open(CLIENT, file, false);
    let theirs = rig.open(OTHER, file, true);
    rig.unlink("f").unwrap();
    assert_eq!(rig.getattr(file).unwrap().nlink, 0);
    let link = MdsOp::Link(Link { fid: file, new_parent: Fid::ROOT, new_name: n("again") });
    assert_eq!(rig.one(link), Err(Errno::ENOENT));
    rig.one(MdsOp::Close(Close { fid: file, handle: mine })).unwrap();
    assert!(rig.getattr(file).is_ok());
    assert_eq!(
        rig.one(MdsOp::Close(Close { fid: file, handle: theirs })),
        Err(Errno::EBADF),
        "not our handle"
    );
    rig.gone(OTHER);
    assert_eq!(rig.getattr(file), Err(Errno::ESTALE));
    until("objects destroyed", || rig.mds.destroy_backlog() == 0);
    rig.assert_empty();
}

#[test]
fn orphans_are_destroyed_at_the_next_start() {
    let rig = Rig::new();
    let file = rig.file("f");
    let dir = rig.create(Fid::ROOT, "d", CreateKind::Directory { mdt: None }).unwrap();
    let objects = rig.objects(file);
    rig.open(CLIENT, file, true);
    rig.open(CLIENT, dir, false);
    rig.unlink("f").unwrap();
    rig.one(MdsOp::Rmdir(Rmdir { parent: Fid::ROOT, name: n("d") })).unwrap();
    rig.one(MdsOp::Sync).unwrap();
    let rig = rig.crash();
    assert_eq!(rig.getattr(file), Err(Errno::ESTALE));
    until("objects destroyed", || *rig.osts.destroyed.lock() == objects);
    until("log empty", || rig.mds.destroy_backlog() == 0);
    rig.assert_empty();
}

#[test]
fn the_size_of_a_file_whose_writer_died_is_asked_from_the_osts() {
    let rig = Rig::new();
    let file = rig.file("f");
    let (ost, object) = rig.objects(file)[0];
    rig.open(OTHER, file, true);
    rig.osts.objects.lock().insert((ost, object), (12345, 32));
    rig.osts.away.lock().insert(ost);
    rig.gone(OTHER);
    assert_eq!(rig.getattr(file).unwrap().size, 0);
    rig.osts.away.lock().clear();
    until("settled", || rig.getattr(file).unwrap().size == 12345);
    assert_eq!(rig.getattr(file).unwrap().blocks, 32);
}

#[test]
fn a_new_writer_does_not_make_the_dead_one_forgotten() {
    let rig = Rig::new();
    let file = rig.file("f");
    let (ost, object) = rig.objects(file)[0];
    rig.open(OTHER, file, true);
    rig.osts.objects.lock().insert((ost, object), (777, 8));
    rig.osts.away.lock().insert(ost);
    rig.gone(OTHER);
    let handle = rig.open(CLIENT, file, true);
    rig.osts.away.lock().clear();
    std::thread::sleep(std::time::Duration::from_millis(60));
    rig.one(MdsOp::Close(Close { fid: file, handle })).unwrap();
    until("settled", || rig.getattr(file).unwrap().size == 777);
}

#[test]
fn sizes_are_settled_after_a_crash_and_never_shrink() {
    let rig = Rig::new();
    let (grown, same) = (rig.file("grown"), rig.file("same"));
    for (file, size) in [(grown, 5000), (same, 10)] {
        let (ost, object) = rig.objects(file)[0];
        rig.osts.objects.lock().insert((ost, object), (size, 16));
        rig.open(CLIENT, file, true);
    }
    rig.one(MdsOp::Wrote(Wrote {
        fid: same,
        end: 100,
        blocks_delta: 8,
        at: types::attr::WrittenAt::Now,
        kill_suidgid: false,
    }))
    .unwrap();
    rig.one(MdsOp::Sync).unwrap();
    let rig = rig.crash();
    until("settled", || {
        rig.getattr(grown).unwrap().size == 5000 && rig.getattr(same).unwrap().blocks == 16
    });
    assert_eq!(rig.getattr(same).unwrap().size, 100);
    // The marks are gone: a second start asks no OST.
    rig.osts.objects.lock().values_mut().for_each(|o| o.0 = 1 << 20);
    let rig = rig.restart();
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(rig.getattr(grown).unwrap().size, 5000);
}

fn cut(rig: &Rig, file: Fid, size: u64) {
    rig.setattr(file, SetAttr { size: Some(size), ..SetAttr::default() }).unwrap();
}

/// A file of 5,000 bytes whose one object has as many.
fn written(rig: &Rig) -> (Fid, (TargetIndex, ObjectId)) {
    let file = rig.file("f");
    let object = rig.objects(file)[0];
    let handle = rig.open(CLIENT, file, true);
    rig.osts.objects.lock().insert(object, (5000, 16));
    rig.one(MdsOp::Wrote(Wrote {
        fid: file,
        end: 5000,
        blocks_delta: 16,
        at: types::attr::WrittenAt::Now,
        kill_suidgid: false,
    }))
    .unwrap();
    rig.one(MdsOp::Close(Close { fid: file, handle })).unwrap();
    (file, object)
}

fn object_size(rig: &Rig, object: (TargetIndex, ObjectId)) -> u64 {
    rig.osts.objects.lock()[&object].0
}

fn marks(rig: &Rig) -> usize {
    wait(rig.store.commit()).unwrap();
    rig.engine.snapshot().iter().filter(|(key, _)| key[0] == b'W').count()
}

#[test]
fn a_cut_that_no_object_saw_is_made_good_after_a_crash() {
    let rig = Rig::new();
    let (file, object) = written(&rig);
    rig.open(CLIENT, file, true);
    cut(&rig, file, 100);
    rig.one(MdsOp::Sync).unwrap();
    let rig = rig.crash();
    until("object cut", || object_size(&rig, object) == 100);
    until("settled", || marks(&rig) == 0);
    let attr = rig.getattr(file).unwrap();
    assert_eq!((attr.size, attr.blocks), (100, 1), "what was cut away does not come back");
}

#[test]
fn a_cut_without_an_open_file_is_made_good_though_its_client_died() {
    let rig = Rig::new();
    let (file, object) = written(&rig);
    rig.osts.away.lock().insert(object.0);
    cut(&rig, file, 100);
    rig.gone(CLIENT);
    assert_eq!(marks(&rig), 1);
    rig.osts.away.lock().clear();
    until("object cut", || object_size(&rig, object) == 100);
    until("settled", || marks(&rig) == 0);
}

#[test]
fn a_cut_file_keeps_its_mark_at_the_close_until_its_objects_are_cut() {
    let rig = Rig::new();
    let (file, object) = written(&rig);
    let handle = rig.open(CLIENT, file, true);
    cut(&rig, file, 0);
    rig.osts.away.lock().insert(object.0);
    rig.one(MdsOp::Close(Close { fid: file, handle })).unwrap();
    assert_eq!(marks(&rig), 1);
    // A client writes it meanwhile: nothing is cut while it has a writer.
    let handle = rig.open(OTHER, file, true);
    rig.osts.away.lock().clear();
    rig.osts.objects.lock().insert(object, (7000, 16));
    std::thread::sleep(std::time::Duration::from_millis(60));
    assert_eq!(object_size(&rig, object), 7000);
    let wrote = MdsOp::Wrote(Wrote {
        fid: file,
        end: 6000,
        blocks_delta: 0,
        at: types::attr::WrittenAt::Now,
        kill_suidgid: false,
    });
    rig.one(wrote).unwrap();
    rig.one_as(OTHER, &Credentials::root(), MdsOp::Close(Close { fid: file, handle })).unwrap();
    until("object cut", || object_size(&rig, object) == 6000);
    until("settled", || marks(&rig) == 0);
    assert_eq!(rig.getattr(file).unwrap().size, 6000);
}

#[test]
fn nobody_begins_to_write_while_a_file_is_cut() {
    let rig = Rig::new();
    let (file, object) = written(&rig);
    rig.osts.silent.lock().insert(object.0);
    cut(&rig, file, 100);
    // The OST never answers: the attempt ends after `answer_max`, and writers get their turn
    // between attempts.
    std::thread::sleep(std::time::Duration::from_millis(40));
    let flags = OpenFlags { read: true, write: true, exec: false, append: false, lasting: false };
    let opening =
        rig.send(OTHER, &Credentials::root(), vec![MdsOp::Open(Open { fid: file, flags })]);
    let reader = rig.open(CLIENT, file, false);
    rig.one(MdsOp::Close(Close { fid: file, handle: reader })).unwrap();
    let start = std::time::Instant::now();
    assert!(wait(opening).results[0].is_ok());
    assert!(
        start.elapsed() >= std::time::Duration::from_millis(20),
        "it had to wait: {:?}",
        start.elapsed()
    );
    assert_eq!(marks(&rig), 1);
}

#[test]
fn an_open_that_comes_again_after_a_crash_waits_for_what_is_in_its_way() {
    let rig = Rig::new();
    let (file, object) = written(&rig);
    let flags = OpenFlags { read: true, write: true, exec: false, append: false, lasting: false };
    let open = || vec![Op::Mds(MdsOp::Open(Open { fid: file, flags }))];
    let reply = wait(asks(&rig, &session(&rig, OTHER), 7, open()));
    assert!(reply.results[0].is_ok(), "{reply:?}");
    rig.one(MdsOp::Sync).unwrap();
    let rig = rig.crash();
    let export = session(&rig, OTHER);
    for (xid, op) in [(8, Op::Replayed), (9, Op::Restored)] {
        let reply = wait(asks(&rig, &export, xid, vec![op]));
        assert!(reply.results[0].is_ok(), "{reply:?}");
    }
    rig.osts.silent.lock().insert(object.0);
    cut(&rig, file, 100);
    std::thread::sleep(std::time::Duration::from_millis(40));
    let again = wait(asks(&rig, &export, 7, open()));
    assert!(again.results[0].is_ok(), "{again:?}");
}

/// As in seed 9320448 of the simulation: a client that was evicted writes under WRITE before it has
/// opened its files again.
#[test]
fn nothing_is_cut_while_a_client_without_an_open_file_holds_write() {
    let rig = Rig::new();
    let (file, object) = written(&rig);
    rig.osts.away.lock().insert(object.0);
    cut(&rig, file, 100);
    let a = rig.holder(10);
    a.answers(Answer::Later);
    let bits = InodeBits::WRITE.union(InodeBits::DATA).union(InodeBits::UPDATE);
    assert_eq!(rig.warm(&a, MdsOp::Lock(Lock { fid: file, bits, needs: None })), [(file, bits)]);
    rig.osts.away.lock().clear();
    let asked = a.revoked();
    assert_eq!(object_size(&rig, object), 5000, "it is asked before");
    assert_eq!(asked, [(file, InodeBits::WRITE)]);
    // It stores what it wrote, says so, and gives WRITE back.
    rig.osts.objects.lock().insert(object, (7000, 16));
    std::thread::sleep(std::time::Duration::from_millis(60));
    assert_eq!(object_size(&rig, object), 7000, "it is not cut meanwhile");
    let at = types::attr::WrittenAt::Now;
    let wrote = Wrote { fid: file, end: 6000, blocks_delta: 0, at, kill_suidgid: false };
    rig.by(&a, MdsOp::Wrote(wrote)).0.unwrap();
    a.answers(Answer::Done);
    until("object cut", || object_size(&rig, object) == 6000);
    until("settled", || marks(&rig) == 0);
    assert_eq!(rig.getattr(file).unwrap().size, 6000);
}

#[test]
fn after_a_start_cuts_wait_for_clients_that_come_back() {
    let rig = Rig::new();
    let (file, object) = written(&rig);
    rig.open(CLIENT, file, true);
    cut(&rig, file, 0);
    rig.one(MdsOp::Sync).unwrap();
    let rig = rig.crash();
    // The client has written on while the MDT was away; now it opens again, and reports.
    let handle = rig.open(CLIENT, file, true);
    rig.osts.objects.lock().insert(object, (9000, 24));
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(object_size(&rig, object), 9000);
    rig.one(MdsOp::Wrote(Wrote {
        fid: file,
        end: 9000,
        blocks_delta: 24,
        at: types::attr::WrittenAt::Now,
        kill_suidgid: false,
    }))
    .unwrap();
    rig.one(MdsOp::Close(Close { fid: file, handle })).unwrap();
    until("settled", || marks(&rig) == 0);
    assert_eq!((rig.getattr(file).unwrap().size, object_size(&rig, object)), (9000, 9000));
}

#[test]
fn an_orderly_close_leaves_no_mark() {
    let rig = Rig::new();
    let file = rig.file("f");
    let handle = rig.open(CLIENT, file, true);
    assert_eq!(marks(&rig), 1);
    rig.one(MdsOp::Close(Close { fid: file, handle })).unwrap();
    assert_eq!(marks(&rig), 0);
}

/// A request of the client has no answer yet, an fsync that waits for etcd for example, and so many
/// changes were answered behind it that no further reply is kept: the next one waits.
#[test]
fn a_client_with_too_many_answers_that_it_may_not_have_waits_and_is_told_no_error() {
    let rig = Rig::new();
    let (file, export) = (rig.file("f"), rig.export(OTHER));
    let (first, last) = (7, 7 + REQUESTS_IN_FLIGHT_MAX as u64);
    let request = |xid, known| {
        let at = types::attr::WrittenAt::Now;
        let wrote = Wrote { fid: file, end: 10, blocks_delta: 8, at, kill_suidgid: false };
        let request = rig.request(xid, &Credentials::root(), vec![MdsOp::Wrote(wrote)]);
        Request { xid_known: Xid(known), ..request }
    };
    let serve =
        async |mut request| rig.mds.serve_once(&export, &mut request).await.results[0].clone();
    for xid in first..last {
        assert!(wait(serve(request(xid, first))).is_ok());
    }
    let mut behind = std::pin::pin!(serve(request(last, first)));
    assert!(behind.as_mut().now_or_never().is_none(), "it waits");
    assert!(wait(serve(request(last + 1, last))).is_ok(), "the client has the answers");
    assert!(wait(behind).is_ok());
    assert_eq!(rig.getattr(file).unwrap().blocks, 8 * (last + 2 - first));
}

#[test]
fn a_request_that_comes_twice_changes_nothing_twice() {
    let rig = Rig::new();
    let file = rig.file("f");
    let request = |xid| {
        let at = types::attr::WrittenAt::Now;
        let wrote = Wrote { fid: file, end: 10, blocks_delta: 8, at, kill_suidgid: false };
        rig.request(xid, &Credentials::root(), vec![MdsOp::Wrote(wrote)])
    };
    let export = rig.export(OTHER);
    let wrote = |mut request| {
        let reply = wait(rig.mds.serve_once(&export, &mut request));
        (reply.transno, entry(mds_reply(reply.results[0].clone().unwrap())).attr.blocks)
    };
    let first = wrote(request(7));
    assert_eq!(first.1, 8);
    assert_eq!(wrote(request(7)), first);
    assert_eq!(rig.getattr(file).unwrap().blocks, 8);
    assert_eq!(wrote(request(8)).1, 16);
    // The client has seen the answer to 7: it is forgotten.
    let mut later = request(9);
    later.xid_known = types::session::Xid(8);
    wrote(later);
    assert_eq!(wrote(request(7)).1, 32);
    // Another session knows nothing of it.
    rig.gone(OTHER);
    assert_eq!(wrote(request(8)).1, 40);
}
