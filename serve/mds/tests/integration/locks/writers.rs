//! Locks of data: writers, readers, and what is asked of them.

use super::*;

fn lock(fid: Fid, bits: InodeBits) -> MdsOp {
    MdsOp::Lock(Lock { fid, bits, needs: None })
}

fn size(size: u64, sec: i64) -> Answer {
    Answer::Size(Glimpse { size, mtime: Timestamp { sec, nsec: 0 } })
}

fn wrote(fid: Fid, end: u64) -> MdsOp {
    MdsOp::Wrote(Wrote { fid, end, blocks_delta: 1, at: WrittenAt::Now, kill_suidgid: false })
}

#[test]
fn a_lone_writer_may_keep_what_it_writes() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    let all = MADE.union(TO_WRITE);
    assert_eq!(rig.by(&a, open(file, true)).1, [(file, all)]);
    assert_eq!(rig.by(&b, open(file, true)).1, [(file, LOOKUP.union(LAYOUT))]);
    assert!(matches!(a.asked(), ClientOp::Glimpse { fids, .. } if fids == [file]));
    assert!(rig.by(&a, wrote(file, 5)).0.is_ok(), "it answers for size and times");
    a.at_rest();
    b.at_rest();
}

#[test]
fn readers_and_writers_take_turns() {
    let rig = Rig::new();
    let (a, b, c) = (rig.holder(10), rig.holder(11), rig.holder(12));
    let file = rig.file("f");
    assert_eq!(rig.by(&a, lock(file, InodeBits::WRITE)).1, [(file, TO_WRITE)]);
    a.answers(Answer::Later);
    let by_b = rig.start(&b, lock(file, InodeBits::WRITE));
    assert_eq!(a.revoked(), [(file, TO_WRITE)]);
    let by_c = rig.start(&c, lock(file, DATA));
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!by_b.is_finished() && !by_c.is_finished());
    // It reports what it has written under the lock that it still holds.
    assert!(rig.by(&a, wrote(file, 77)).0.is_ok());
    b.answers(Answer::Later);
    a.answers(Answer::Done);
    let reply = by_b.join().unwrap();
    assert_eq!(reply.grants[0].bits, TO_WRITE);
    assert_eq!(entry(mds_reply(reply.results[0].clone().unwrap())).attr.size, 77);
    assert_eq!(b.revoked(), [(file, InodeBits::WRITE)], "the next one only reads");
    assert!(!by_c.is_finished());
    b.answers(Answer::Done);
    assert_eq!(by_c.join().unwrap().grants[0].bits, TO_READ);
    assert_eq!(rig.by(&b, lock(file, DATA)).1, [(file, TO_READ)]);
    assert_eq!(
        rig.by(&c, MdsOp::Unlock(Unlock { locks: vec![(file, TO_READ)] })).0,
        Ok(MdsReply::Done)
    );
    assert_eq!(rig.by(&b, lock(file, InodeBits::WRITE)).1, [(file, TO_WRITE)]);
    c.at_rest();
}

#[test]
fn who_waits_for_a_lock_ends_with_its_session() {
    let rig = Rig::new();
    let (a, b, c) = (rig.holder(10), rig.holder(11), rig.holder(12));
    let file = rig.file("f");
    rig.warm(&a, lock(file, InodeBits::WRITE));
    a.answers(Answer::Later);
    let by_b = rig.start(&b, lock(file, InodeBits::WRITE));
    a.revoked();
    let by_c = rig.start(&c, lock(file, InodeBits::WRITE));
    b.export.evict();
    rig.gone(b.client);
    assert_eq!(by_b.join().unwrap().results[0], Err(Errno::ENOTCONN));
    rig.gone(a.client);
    assert_eq!(by_c.join().unwrap().grants[0].bits, TO_WRITE);
}

#[test]
fn locks_are_asked_for_what_has_data() {
    let rig = Rig::new();
    let a = rig.holder(10);
    let file = rig.file("f");
    let gone = Fid { oid: 999, ..file };
    assert_eq!(rig.by(&a, lock(Fid::ROOT, DATA)).0, Err(Errno::EINVAL));
    assert_eq!(rig.by(&a, lock(gone, DATA)).0, Err(Errno::ESTALE));
    assert_eq!(rig.by(&a, lock(file, UPDATE)).0, Err(Errno::EINVAL));
    assert_eq!(rig.by(&a, lock(file, LOOKUP.union(DATA))).0, Err(Errno::EINVAL));
    let too_many = MdsOp::Unlock(Unlock { locks: vec![(file, DATA); 4097] });
    assert_eq!(rig.by(&a, too_many).0, Err(Errno::E2BIG));
}

#[test]
fn the_writer_is_asked_for_size_and_times() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let (f, g) = (rig.file("f"), rig.file("g"));
    [f, g].into_iter().for_each(|fid| _ = rig.warm(&a, lock(fid, InodeBits::WRITE)));
    let later = 1 << 40;
    a.answers(size(1000, later));
    let (shown, grants) = rig.by(&b, MdsOp::Getattr(Getattr::of(f)));
    let attr = entry(shown.unwrap()).attr;
    assert_eq!(
        (attr.size, attr.mtime.sec, attr.ctime.sec, grants),
        (1000, later, later, vec![(f, LOOKUP)])
    );
    assert_eq!(a.asked(), ClientOp::Glimpse { fids: vec![f], store: false });
    let readdir = MdsOp::Readdir(Readdir {
        fid: Fid::ROOT,
        after: None,
        limit: 9,
        bytes_max: 1 << 20,
        with_attr: true,
        with_layout: false,
    });
    let MdsReply::Entries { entries, .. } = rig.by(&b, readdir).0.unwrap() else {
        panic!("entries")
    };
    assert!(entries.iter().all(|entry| entry.entry.as_ref().unwrap().attr.size == 1000));
    assert_eq!(a.asked(), ClientOp::Glimpse { fids: vec![f, g], store: false }, "once for all");
    a.answers(Answer::Done);
    assert_eq!(
        entry(rig.by(&b, lookup(Fid::ROOT, "f")).0.unwrap()).attr.size,
        0,
        "it knows no more than the MDT"
    );
    assert_eq!(rig.getattr(f).unwrap().size, 0, "nothing was recorded");
}

#[test]
fn an_idle_writer_gives_write_back_to_the_first_client_that_looks() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let (f, g) = (rig.file("f"), rig.file("g"));
    [f, g].into_iter().for_each(|fid| _ = rig.warm(&a, lock(fid, InodeBits::WRITE)));
    a.answers(Answer::Idle);
    assert_eq!(
        rig.by(&b, MdsOp::GetattrMany(GetattrMany::of(vec![f, g]))).1,
        [(f, SHOWN), (g, SHOWN)]
    );
    assert_eq!(a.asked(), ClientOp::Glimpse { fids: vec![f, g], store: false });
    assert_eq!(
        a.revoked(),
        [(f, InodeBits::WRITE), (g, InodeBits::WRITE)],
        "it keeps what it reads under"
    );
    assert!(rig.by(&b, MdsOp::Getattr(Getattr::of(f))).0.is_ok());
    a.at_rest();
    // It writes again: the other one's attributes are called back first.
    a.answers(Answer::Done);
    assert_eq!(rig.by(&a, lock(f, InodeBits::WRITE)).1, [(f, TO_WRITE)]);
    assert_eq!(b.revoked(), [(f, UPDATE)]);
}

#[test]
fn a_writer_stops_for_a_client_that_is_about_to_look() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let (f, g) = (rig.file("f"), rig.file("g"));
    [f, g].into_iter().for_each(|fid| _ = rig.warm(&a, lock(fid, InodeBits::WRITE)));
    a.answers(size(1000, 1 << 40));
    let many = GetattrMany::of(vec![f, g]);
    let (shown, grants) = rig.by(&b, MdsOp::GetattrMany(many.clone()));
    assert!(shown.is_ok() && grants == [(f, LOOKUP), (g, LOOKUP)], "it goes on: {grants:?}");
    assert_eq!(a.asked(), ClientOp::Glimpse { fids: vec![f, g], store: false });
    a.at_rest();
    let paused = GetattrMany { pause: true, ..many.clone() };
    assert_eq!(rig.by(&b, MdsOp::GetattrMany(paused)).1, [(f, SHOWN), (g, SHOWN)]);
    assert_eq!(a.asked(), ClientOp::Glimpse { fids: vec![f, g], store: false });
    assert_eq!(a.revoked(), [(f, InodeBits::WRITE), (g, InodeBits::WRITE)]);
    // It goes on with one of them.
    assert_eq!(rig.by(&a, lock(f, InodeBits::WRITE)).1, [(f, TO_WRITE)]);
    assert_eq!(b.revoked(), [(f, UPDATE)]);
    // What is shown next stops no writer.
    assert_eq!(rig.by(&b, MdsOp::GetattrMany(many)).1, [(f, LOOKUP), (g, SHOWN)]);
    assert_eq!(a.asked(), ClientOp::Glimpse { fids: vec![f], store: false });
    a.at_rest();
}

#[test]
fn a_reader_of_what_an_idle_writer_made_may_keep_its_data() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    rig.warm(&a, lock(file, InodeBits::WRITE));
    a.answers(Answer::Idle);
    let [(fid, bits)] = rig.by(&b, open(file, false)).1[..] else { panic!("one grant") };
    assert_eq!((fid, bits.intersection(TO_WRITE)), (file, TO_READ));
}

/// A writer does something while it is asked about its file, and then answers: what another client
/// is shown of the size.
fn shown_while_asked(rig: &Rig, a: &Holder, file: Fid, does: impl FnOnce()) -> u64 {
    rig.warm(a, lock(file, InodeBits::WRITE));
    a.answers(Answer::Later);
    let shown = rig.start(&rig.holder(11), MdsOp::Getattr(Getattr::of(file)));
    assert_eq!(a.asked(), ClientOp::Glimpse { fids: vec![file], store: false });
    does();
    a.answers(Answer::Done);
    entry(mds_reply(shown.join().unwrap().results[0].clone().unwrap())).attr.size
}

#[test]
fn what_a_writer_tells_while_it_is_asked_is_seen() {
    let rig = Rig::new();
    let (a, file) = (rig.holder(10), rig.file("f"));
    let shown = shown_while_asked(&rig, &a, file, || {
        assert!(rig.by(&a, wrote(file, 4096)).0.is_ok());
        assert!(rig.by(&a, MdsOp::Unlock(Unlock { locks: vec![(file, TO_WRITE)] })).0.is_ok());
    });
    assert_eq!(shown, 4096);
}

#[test]
fn what_a_writer_changes_while_it_is_asked_is_shown_when_its_own_mount_cannot_hide_it() {
    let rig = Rig::new();
    let (a, file) = (rig.holder(10), rig.file("f"));
    let shown = shown_while_asked(&rig, &a, file, || {
        let set = SetAttr { size: Some(4096), ..SetAttr::default() };
        assert!(rig.by(&a, MdsOp::Setattr(Setattr { fid: file, set })).0.is_ok());
    });
    assert_eq!(shown, 4096);
    assert_eq!(
        a.asked(),
        ClientOp::Glimpse { fids: vec![file], store: false },
        "what it said belongs to the state before"
    );
    assert_eq!(
        a.revoked(),
        [(file, UPDATE.union(InodeBits::WRITE))],
        "its kernel may still show the old size"
    );
}

#[test]
fn a_writer_that_is_silent_is_evicted_and_its_size_asked_of_the_objects() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    rig.warm(&a, open(file, true));
    let (ost, object) = rig.objects(file)[0];
    rig.osts.objects.lock().insert((ost, object), (123, 1));
    a.answers(Answer::Later);
    assert!(rig.by(&b, MdsOp::Getattr(Getattr::of(file))).0.is_ok());
    assert!(a.export.is_gone());
    until("the size is settled", || rig.getattr(file).unwrap().size == 123);
}

/// Two clients that are asked for a file, and have not answered; a third one waits to write it.
fn two_asked(rig: &Rig) -> ([Holder; 2], Fid, JoinHandle<Reply>) {
    let (holders, writer) = ([rig.holder(10), rig.holder(11)], rig.holder(12));
    let file = rig.file("f");
    for holder in &holders {
        assert_eq!(rig.by(holder, lock(file, DATA)).1, [(file, TO_READ)]);
        holder.answers(Answer::Later);
    }
    let waiting = rig.start(&writer, lock(file, InodeBits::WRITE));
    holders.iter().for_each(|holder| assert_eq!(holder.revoked(), [(file, TO_READ)]));
    (holders, file, waiting)
}

#[test]
fn who_is_asked_tells_what_it_stores_without_waiting_for_others() {
    let rig = Rig::new();
    let ([a, b], file, waiting) = two_asked(&rig);
    // Pages of a mapping come to light: both tell at once, and none waits for the other.
    assert!(rig.by(&a, wrote(file, 10)).0.is_ok());
    assert!(rig.by(&b, wrote(file, 20)).0.is_ok());
    [&a, &b].into_iter().for_each(|holder| holder.answers(Answer::Done));
    assert_eq!(entry(mds_reply(waiting.join().unwrap().results[0].clone().unwrap())).attr.size, 20);
}

#[test]
fn who_is_asked_tells_what_it_stores_without_waiting_for_the_answers_to_reach_others() {
    let rig = Rig::new();
    let ([a, b], file, waiting) = two_asked(&rig);
    // Each looks at what the other changed, whose mount may not show it yet. The other answers no
    // callback before it has told all.
    rig.unheard.store(true, Ordering::Relaxed);
    let other = MdsOp::Getattr(Getattr::of(Fid::ROOT));
    for end in [10, 20] {
        for holder in [&a, &b] {
            assert!(rig.by(holder, wrote(file, end)).0.is_ok());
            // Nor does it wait if its request goes on.
            let reply = rig.reply(holder, vec![wrote(file, end), other.clone()]);
            assert!(reply.results.iter().all(Result::is_ok), "{:?}", reply.results);
        }
    }
    [&a, &b].into_iter().for_each(|holder| holder.answers(Answer::Done));
    assert_eq!(entry(mds_reply(waiting.join().unwrap().results[0].clone().unwrap())).attr.size, 20);
    [&a, &b].into_iter().for_each(|holder| assert!(!holder.export.is_gone(), "evicted"));
}
