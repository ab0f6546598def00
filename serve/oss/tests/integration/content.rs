//! Reads return what was written: against plain vectors, in random order.

use crate::rig::{Rig, object, only};
use bytes::Bytes;
use proptest::prelude::*;
use types::errno::Errno;
use types::object::ObjectOffset;
use wire::message::OpReply;
use wire::ost::{
    ObjectGetattr, ObjectPunch, ObjectRead, ObjectSeek, ObjectSync, ObjectWrite, OstOp, OstReply,
    PunchKind,
};

/// Lengths and positions that straddle pages now and then.
const REACH: u64 = 60_000;

#[derive(Clone, Debug)]
enum Step {
    Write { at: u64, len: usize, fill: u8, sync: bool },
    Punch { kind: PunchKind, at: u64, len: u64 },
    Read { at: u64, len: u32 },
    Seek { at: u64, hole: bool },
    Sync { all: bool },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![
        Just(PunchKind::Truncate),
        Just(PunchKind::Hole),
        Just(PunchKind::Zero),
        Just(PunchKind::Allocate),
    ];
    prop_oneof![
        8 => (0..REACH, 0usize..30_000, 1u8.., proptest::bool::weighted(0.1))
            .prop_map(|(at, len, fill, sync)| Step::Write { at, len, fill, sync }),
        5 => (kind, 0..REACH, 1u64..30_000).prop_map(|(kind, at, len)| Step::Punch { kind, at, len }),
        5 => (0..2 * REACH, 0u32..50_000).prop_map(|(at, len)| Step::Read { at, len }),
        2 => (0..2 * REACH, any::<bool>()).prop_map(|(at, hole)| Step::Seek { at, hole }),
        1 => any::<bool>().prop_map(|all| Step::Sync { all }),
    ]
}

/// The expected content of one object.
#[derive(Default)]
struct Model {
    bytes: Vec<u8>,
    blocks: i64,
}

impl Model {
    fn grow(&mut self, end: usize) {
        self.bytes.resize(self.bytes.len().max(end), 0);
    }

    fn run(&mut self, rig: &mut Rig, object: types::object::ObjectId, step: &Step) {
        match *step {
            Step::Write { at, len, fill, sync } => {
                let data: Vec<u8> = (0..len).map(|i| fill.wrapping_add((i / 97) as u8)).collect();
                let write = OstOp::Write(ObjectWrite {
                    object,
                    offset: ObjectOffset(at),
                    data: data.clone().into(),
                    sync,
                });
                self.changed(rig.one(write).unwrap());
                if len > 0 {
                    self.grow(at as usize + len);
                    self.bytes[at as usize..][..len].copy_from_slice(&data);
                }
            }
            Step::Punch { kind, at, len } => {
                let (start, end) = (ObjectOffset(at), ObjectOffset(at + len));
                self.changed(
                    rig.one(OstOp::Punch(ObjectPunch { object, start, end, kind })).unwrap(),
                );
                let (at, end) = (at as usize, (at + len) as usize);
                match kind {
                    PunchKind::Truncate => self.bytes.truncate(at),
                    PunchKind::Allocate => self.grow(end),
                    PunchKind::Zero => self.grow(end),
                    PunchKind::Hole => {}
                }
                if matches!(kind, PunchKind::Zero | PunchKind::Hole) {
                    let size = self.bytes.len();
                    self.bytes[at.min(size)..end.min(size)].fill(0);
                }
            }
            Step::Read { at, len } => {
                let size = self.bytes.len();
                let expected =
                    &self.bytes[(at as usize).min(size)..(at as usize + len as usize).min(size)];
                assert!(rig.read(object, at, len) == expected, "read {len} at {at} of {size}");
            }
            Step::Seek { at, hole } => {
                let found = rig
                    .one(OstOp::Seek(ObjectSeek { object, offset: ObjectOffset(at), hole }))
                    .unwrap();
                let OstReply::Offset(found) = found else { panic!("{found:?}") };
                let (at, size) = (at as usize, self.bytes.len());
                match found {
                    Some(found) if hole => {
                        assert!(at < size && (at..=size).contains(&(found.0 as usize)))
                    }
                    Some(found) => {
                        assert!((at..size).contains(&(found.0 as usize)));
                        assert!(
                            self.bytes[at..found.0 as usize].iter().all(|b| *b == 0),
                            "data was passed over"
                        );
                    }
                    None if hole => assert!(at >= size),
                    None => {
                        assert!(self.bytes.iter().skip(at).all(|b| *b == 0), "data was not found")
                    }
                }
            }
            Step::Sync { all } => {
                let objects = if all { vec![] } else { vec![object] };
                assert_eq!(rig.one(OstOp::Sync(ObjectSync { objects })), Ok(OstReply::Done));
            }
            Step::Restart => rig.restart(),
        }
    }

    fn changed(&mut self, reply: OstReply) {
        let OstReply::Changed { blocks_delta } = reply else { panic!("{reply:?}") };
        self.blocks += blocks_delta;
    }

    fn check(&self, rig: &Rig, object: types::object::ObjectId) {
        assert_eq!(rig.attr(object).0, self.bytes.len() as u64);
        assert!(rig.read(object, 0, 1 << 20) == self.bytes, "whole object");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn objects_are_what_was_written(
        steps in proptest::collection::vec((0u32..3, step()), 1..60), restart in 0usize..60,
    ) {
        let mut rig = Rig::new();
        let mut models = [Model::default(), Model::default(), Model::default()];
        for (n, (which, step)) in steps.iter().enumerate() {
            models[*which as usize].run(&mut rig, object(*which), step);
            if n == restart {
                models[0].run(&mut rig, object(0), &Step::Restart);
            }
        }
        for (which, model) in (0..).zip(&models) {
            model.check(&rig, object(which));
        }
    }

    #[test]
    fn blocks_add_up(steps in proptest::collection::vec(step(), 1..40)) {
        let mut rig = Rig::new();
        let mut model = Model::default();
        for step in steps.iter().filter(|s| matches!(s, Step::Write { .. } | Step::Punch { .. })) {
            model.run(&mut rig, object(0), step);
        }
        // One more change counts the blocks that the file system has allocated since the last one.
        // Those that it allocates at write-back, for its extents, must be there by then.
        let last = Step::Write { at: 0, len: 1, fill: 1, sync: false };
        [&last, &Step::Sync { all: true }, &last].into_iter().for_each(|step| model.run(&mut rig, object(0), step));
        prop_assert_eq!(rig.attr(object(0)).1 as i64, model.blocks);
    }
}

#[test]
fn an_absent_object_is_empty() {
    let rig = Rig::new();
    assert_eq!(rig.attr(object(0)), (0, 0));
    assert!(rig.read(object(0), 5, 100).is_empty());
    for kind in [PunchKind::Truncate, PunchKind::Hole] {
        let punch = OstOp::Punch(ObjectPunch {
            object: object(0),
            start: ObjectOffset(0),
            end: ObjectOffset(9),
            kind,
        });
        let reply = rig.call(vec![punch]);
        assert_eq!(reply.transno.0, 0, "nothing changed");
        assert_eq!(only(reply), Ok(OstReply::Changed { blocks_delta: 0 }));
    }
    let seek = OstOp::Seek(ObjectSeek { object: object(0), offset: ObjectOffset(0), hole: false });
    assert_eq!(rig.one(seek), Ok(OstReply::Offset(None)));
    assert_eq!(rig.one(OstOp::Sync(ObjectSync { objects: vec![object(0)] })), Ok(OstReply::Done));
    assert_eq!(
        rig.target.objects().unwrap().size_and_blocks(object(0)),
        Ok(None),
        "and was not made"
    );
}

#[test]
fn a_vector_answers_in_order_and_stops_at_the_first_failure() {
    let rig = Rig::new();
    let write = |stripe, n: u8| {
        OstOp::Write(ObjectWrite {
            object: object(stripe),
            offset: ObjectOffset(0),
            data: vec![n; 100_000].into(),
            sync: false,
        })
    };
    let read = |stripe| {
        OstOp::Read(ObjectRead { object: object(stripe), offset: ObjectOffset(0), len: 3 })
    };
    let too_far = OstOp::Write(ObjectWrite {
        object: object(0),
        offset: ObjectOffset(u64::MAX),
        data: Bytes::from("x"),
        sync: false,
    });
    let empty = OstOp::Punch(ObjectPunch {
        object: object(0),
        start: ObjectOffset(9),
        end: ObjectOffset(9),
        kind: PunchKind::Hole,
    });
    for reactor in [false, true] {
        let call = |ops| if reactor { rig.call_on_reactor(ops) } else { rig.call(ops) };
        let data = |b: &'static [u8]| Ok(OpReply::Ost(OstReply::Data(Bytes::from_static(b))));
        let reply =
            call(vec![write(0, 1), write(1, 2), read(0), read(1), too_far.clone(), read(0)]);
        assert_eq!(
            reply.results[2..],
            [data(&[1; 3]), data(&[2; 3]), Err(Errno::EFBIG), Err(Errno::ECANCELED)]
        );
        assert!(
            reply.results[..2]
                .iter()
                .all(|r| matches!(r, Ok(OpReply::Ost(OstReply::Changed { .. }))))
        );
        assert!(reply.transno > reply.last_committed);
        assert_eq!(only(call(vec![empty.clone()])), Err(Errno::EINVAL));
    }
}

#[test]
fn reactors_and_blocking_threads_see_the_same() {
    let rig = Rig::new();
    let op = |n: u8, len: usize| {
        OstOp::Write(ObjectWrite {
            object: object(0),
            offset: ObjectOffset(0),
            data: vec![n; len].into(),
            sync: n == 2,
        })
    };
    // Cold and large go to another thread, warm and small stay; order holds.
    for (n, len) in [(1, 10), (2, 1000), (3, 1 << 20), (4, 4096)] {
        rig.call_on_reactor(vec![op(n, len), OstOp::Getattr(ObjectGetattr { object: object(0) })]);
        assert_eq!(rig.read(object(0), 0, 1)[..], [n]);
        let read = OstOp::Read(ObjectRead { object: object(0), offset: ObjectOffset(0), len: 1 });
        assert_eq!(only(rig.call_on_reactor(vec![read])), Ok(OstReply::Data(vec![n].into())));
    }
    assert_eq!(rig.attr(object(0)).0, 1 << 20);
}

#[test]
fn overlapping_writes_are_never_seen_mixed() {
    let rig = Rig::new();
    let len = 4 << 20;
    rig.write(object(0), 0, vec![0; len]).unwrap();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (1..3u8)
            .map(|n| {
                let (rig, data) = (&rig, Bytes::from(vec![n; len]));
                scope.spawn(move || {
                    (0..150).for_each(|_| assert!(rig.write(object(0), 0, data.clone()).is_ok()))
                })
            })
            .collect();
        while writers.iter().any(|w| !w.is_finished()) {
            let seen = rig.read(object(0), 0, len as u32);
            assert_eq!(seen.len(), len);
            assert!(seen.iter().all(|b| *b == seen[0]), "a mixture of two writes");
        }
    });
}
