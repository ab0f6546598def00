//! Round trips of any value, bytes that never change, and bytes that no peer should send.

use super::samples::{reply, request, sample_ops, sample_replies};
use super::strategies::{any_reply, any_request};
use super::*;
use crate::golden;
use crate::mds::{Create, CreateKind, MdsOp};
use crate::message::{Reply, Request};
use crate::opcode::{REPLIES, ROWS};
use crate::ost::{ObjectSync, ObjectWrite, OstOp, OstReply};
use proptest::prelude::*;
use types::fid::Fid;
use types::limits::TARGETS_MAX;
use types::name::Name;
use types::object::{ObjectId, ObjectOffset};
use types::target::TargetIndex;

fn joined(encoded: &Encoded) -> (Bytes, Bytes) {
    (encoded.body.clone(), encoded.bulk.concat().into())
}

fn again(request: &Request) -> Result<Request, DecodeError> {
    let (body, bulk) = joined(&encode_request(request));
    decode_request(body, bulk)
}

fn reply_again(reply: &Reply) -> Result<Reply, DecodeError> {
    let (body, bulk) = joined(&encode_reply(reply));
    decode_reply(body, bulk)
}

/// (name, body, bulk, is it a request?) of every sample.
fn messages() -> Vec<(String, Bytes, Bytes, bool)> {
    let ops =
        sample_ops().into_iter().map(|op| (op.row().name, encode_request(&request(vec![op]))));
    let ops = ops.map(|(name, m)| (format!("op_{name}"), joined(&m), true));
    let replies = sample_replies().into_iter().zip(REPLIES).map(|(r, (_, name))| (name, Ok(r)));
    let replies = replies
        .chain([(&"error", Err(Errno::ENOENT))])
        .map(|(name, r)| (name, encode_reply(&reply(vec![r]))));
    let replies = replies.map(|(name, m)| (format!("answer_{name}"), joined(&m), false));
    ops.chain(replies)
        .map(|(name, (body, bulk), is_request)| (name, body, bulk, is_request))
        .collect()
}

/// Decodes; the result does not matter, only that there is one.
fn decode(body: Bytes, bulk: Bytes, is_request: bool) -> bool {
    if is_request { decode_request(body, bulk).is_ok() } else { decode_reply(body, bulk).is_ok() }
}

#[test]
fn every_row_has_a_sample_and_the_encoder_uses_its_number() {
    let numbers: Vec<u16> = sample_ops().iter().map(|op| op.row().number).collect();
    assert_eq!(numbers, ROWS.iter().map(|r| r.number).collect::<Vec<_>>());
    let answers: Vec<u16> = sample_replies().iter().map(opcode::reply_number).collect();
    assert_eq!(answers, REPLIES.iter().map(|r| r.0).collect::<Vec<_>>());
    let head = size_of::<RawRequest>() + (3 * size_of::<u32>()).next_multiple_of(8);
    for op in sample_ops() {
        let number = op.row().number.to_le_bytes();
        assert_eq!(encode_request(&request(vec![op])).body[head..head + 2], number);
    }
    for answer in sample_replies() {
        let number = opcode::reply_number(&answer).to_le_bytes();
        assert_eq!(
            encode_reply(&reply(vec![Ok(answer)])).body
                [size_of::<RawReply>()..size_of::<RawReply>() + 2],
            number
        );
    }
}

#[test]
fn bytes_never_change() {
    for (name, body, bulk, _) in messages() {
        golden::check_message(&name, &body, &bulk);
    }
}

#[test]
fn samples_round_trip_together() {
    let all = request(sample_ops());
    assert_eq!(again(&all), Ok(all));
    let all = reply(sample_replies().into_iter().map(Ok).chain([Err(Errno::EACCES)]).collect());
    assert_eq!(reply_again(&all), Ok(all));
}

#[test]
fn every_prefix_is_refused() {
    for (name, body, bulk, is_request) in messages() {
        for len in 0..body.len() {
            assert!(!decode(body.slice(..len), bulk.clone(), is_request), "{name} cut at {len}");
        }
        for len in 0..bulk.len() {
            assert!(
                !decode(body.clone(), bulk.slice(..len), is_request),
                "{name}: data cut at {len}"
            );
        }
    }
}

#[test]
fn flipped_bits_never_panic() {
    for (_, body, bulk, is_request) in messages() {
        for bit in 0..body.len() * 8 {
            let mut bytes = body.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            decode(bytes.into(), bulk.clone(), is_request);
        }
    }
}

#[test]
fn data_is_passed_on_without_a_copy() {
    let data = Bytes::from(vec![7; 100_000]);
    let (object, offset) =
        (ObjectId { fid: types::fid::Fid::ROOT, instance: 1, stripe: 0 }, ObjectOffset(0));
    let write = |data: &Bytes| {
        Op::Ost(OstOp::Write(ObjectWrite { object, offset, data: data.clone(), sync: false }))
    };
    let encoded = encode_request(&request(vec![write(&data), write(&Bytes::new()), write(&data)]));
    assert_eq!(encoded.bulk.len(), 2, "empty data leaves nothing to send");
    assert!(encoded.bulk.iter().all(|b| b.as_ptr() == data.as_ptr()));
    assert_eq!(encoded.bulk_bytes(), 200_000);
    let (_, bulk) = joined(&encoded);
    let decoded = decode_request(encoded.body, bulk.clone()).unwrap();
    let Op::Ost(OstOp::Write(ObjectWrite { data: second, .. })) = &decoded.ops[2] else {
        panic!("another operation")
    };
    assert_eq!(second.as_ptr(), bulk[100_000..].as_ptr());
    let encoded = encode_reply(&reply(vec![Ok(OpReply::Ost(OstReply::Data(data.clone())))]));
    assert_eq!(encoded.bulk[0].as_ptr(), data.as_ptr());
}

/// The body of a request with one operation, changed.
fn forged(op: Op, change: impl FnOnce(&mut Vec<u8>)) -> Result<Request, DecodeError> {
    let mut request = request(vec![op]);
    request.credentials.groups.clear();
    let mut body = encode_request(&request).body.to_vec();
    change(&mut body);
    decode_request(body.into(), Bytes::new())
}

/// Sets a byte, and puts a job before the operations.
fn splice(body: &mut Vec<u8>, [at, value]: [u8; 2], job: [u8; 32]) {
    body[usize::from(at)] = value;
    body.splice(size_of::<RawRequest>()..size_of::<RawRequest>(), job);
}

#[test]
fn what_is_wrong_is_said() {
    use DecodeError::{Field, Short, TooMany, Trailing, UnknownOp, UnknownReply};
    const AT: usize = size_of::<RawRequest>();
    assert_eq!(forged(Op::Ping, |b| b[AT..AT + 2].fill(0x77)), Err(UnknownOp { number: 0x7777 }));
    let known_group = forged(Op::Ping, |b| b[AT] = 0x55);
    assert_eq!(known_group, Err(UnknownOp { number: 0x0055 }));
    assert_eq!(forged(Op::Ping, |b| b[AT + 2] = 1), Err(Field { field: "ping", value: 1 }));
    assert_eq!(forged(Op::Ping, |b| b.extend([0; 8])), Err(Trailing { what: "request", bytes: 8 }));
    assert_eq!(forged(Op::Ping, |b| b[28] = 2), Err(Short { missing: 8 }));
    let too_many = |what, max| Err(TooMany { what, found: u32::MAX.into(), max });
    assert_eq!(
        forged(Op::Ping, |b| b[28..32].fill(0xff)),
        too_many("operations", OPS_PER_REQUEST_MAX)
    );
    assert_eq!(forged(Op::Ping, |b| b[44..48].fill(0xff)), too_many("groups", GROUPS_MAX));
    assert_eq!(
        forged(Op::Ping, |b| b[32] = b'/'),
        Err(DecodeError::Text { field: "file system name" })
    );
    let sync = Op::Ost(OstOp::Sync(ObjectSync { objects: Vec::new() }));
    assert_eq!(forged(sync.clone(), |b| b[AT + 8] = 1), Err(Short { missing: 24 }));
    let no_job = Err(DecodeError::Text { field: "job" });
    assert_eq!(forged(Op::Ping, |b| b[24] = 3), Err(Short { missing: 24 }));
    assert_eq!(forged(Op::Ping, |b| splice(b, [24, 3], [0; 32])), no_job);
    assert_eq!(forged(Op::Ping, |b| splice(b, [24, 3], [b'x'; 32])), no_job);
    let max = types::limits::OBJECTS_PER_OP_MAX;
    assert_eq!(forged(sync, |b| b[AT + 8..AT + 12].fill(0xff)), too_many("objects", max));

    let mut body = encode_reply(&reply(vec![Err(Errno::ENOENT)])).body.to_vec();
    body[size_of::<RawReply>() + 2] = 0;
    let no_error = decode_reply(body.clone().into(), Bytes::new());
    assert_eq!(no_error, Err(Field { field: "errno", value: 0 }));
    body[size_of::<RawReply>() + 1] = 0x09;
    assert_eq!(decode_reply(body.into(), Bytes::new()), Err(UnknownReply { number: 0x0900 }));
    let with_data = decode_reply(encode_reply(&reply(Vec::new())).body, Bytes::from_static(b"x"));
    assert_eq!(with_data, Err(Trailing { what: "data", bytes: 1 }));
}

#[test]
fn a_directory_names_an_mdt_that_can_be() {
    let create = |mdt| {
        let kind = CreateKind::Directory { mdt };
        let name = Name::new(b"d").unwrap();
        let create =
            Create { parent: Fid::ROOT, name, kind, mode: 0o755, umask: 0o022, exclusive: true };
        request(vec![Op::Mds(MdsOp::Create(create))])
    };
    let last = TARGETS_MAX as u16 - 1;
    for mdt in [None, Some(TargetIndex(0)), Some(TargetIndex(last))] {
        assert_eq!(again(&create(mdt)), Ok(create(mdt)));
    }
    let bad = DecodeError::Field { field: "MDT of a directory", value: (last + 1).into() };
    assert_eq!(again(&create(Some(TargetIndex(last + 1)))), Err(bad));
    let body = encode_request(&create(Some(TargetIndex(1)))).body;
    golden::check("op_mds_create_at_mdt", &body);
    // An MDT for what is no directory.
    let mut forged = body.to_vec();
    let at = forged.windows(4).position(|four| four == [2, 0, 1, 0]).expect("kind, type and MDT");
    forged[at] = 1;
    let placed = DecodeError::Field { field: "create flags", value: 0x81 };
    assert_eq!(decode_request(forged.into(), Bytes::new()), Err(placed));
}

#[test]
fn errors_that_are_no_errno_become_eio() {
    for n in [0, -5, 70_000] {
        let decoded = reply_again(&reply(vec![Err(Errno(n))])).unwrap();
        assert_eq!(decoded.results, [Err(Errno::EIO)]);
    }
}

#[test]
fn a_job_travels_behind_the_groups() {
    let mut of_job = request(vec![Op::Ping]);
    let without = encode_request(&of_job).body.len();
    of_job.job = JobId::new(b"dd.0");
    let body = encode_request(&of_job).body;
    assert_eq!(body.len(), without + 32);
    let at = size_of::<RawRequest>() + 16;
    assert_eq!(&body[at..at + 5], b"dd.0\0");
    assert_eq!(again(&of_job), Ok(of_job));
}

#[test]
fn only_the_first_groups_travel() {
    let mut many = request(Vec::new());
    many.credentials.groups = (0..2000).collect();
    let decoded = again(&many).unwrap();
    assert_eq!(decoded.credentials.groups[..], many.credentials.groups[..GROUPS_MAX]);
}

#[test]
fn only_a_target_that_squashes_says_so() {
    use crate::message::{ConnectReply, OpReply};
    let connected = |squash: types::credentials::SquashNews| {
        let results = sample_replies().into_iter().filter_map(|reply| match reply {
            OpReply::Connect(reply) => {
                Some(Ok(OpReply::Connect(ConnectReply { squash: squash.clone(), ..reply })))
            }
            _ => None,
        });
        let reply = Reply::new(Xid(1), Transno(0), Transno(0), results.collect());
        assert_eq!(reply_again(&reply), Ok(reply.clone()));
        encode_reply(&reply).body.len()
    };
    let silent = connected(types::credentials::SquashNews::silent(10));
    assert_eq!(connected(super::samples::squash()), silent + 24);
    let off_again =
        types::credentials::SquashNews::new(10, 3, types::credentials::Callers::default());
    assert_eq!(connected(off_again), silent + 24, "the client may have been squashed before");
}

/// A reply in pieces, and their number.
fn in_pieces(reply: &Reply) -> (Encoded, usize) {
    let (mut pieces, mut count) = (ReplyPieces::of(reply.clone()), 1);
    while pieces.next_piece() {
        count += 1;
    }
    (pieces.finish(), count)
}

#[test]
fn a_large_listing_is_made_in_pieces() {
    use crate::mds::{DirEntry, MdsReply};
    let entry = |n: usize| DirEntry {
        name: Name::new(format!("f{n}").as_bytes()).unwrap(),
        fid: Fid { seq: Fid::SEQ_NORMAL, oid: n as u32, ver: 0 },
        file_type: types::attr::FileType::Regular,
        entry: None,
        layout: None,
    };
    let piece = PIECE_ENTRIES;
    for (counts, pieces) in [
        (&[0][..], 1),
        (&[piece], 1),
        (&[piece + 1], 2),
        (&[10 * piece], 10),
        (&[piece / 2, piece], 2),
        (&[piece, 3], 2),
    ] {
        let results = counts.iter().map(|count| {
            let entries = (0..*count).map(entry).collect();
            Ok(OpReply::Mds(MdsReply::Entries { entries, more: true }))
        });
        let reply = Reply::new(Xid(1), Transno(0), Transno(0), results.collect());
        let (encoded, made) = in_pieces(&reply);
        assert_eq!((made, encoded == encode_reply(&reply)), (pieces, true), "{counts:?}");
    }
}

proptest! {
    #[test]
    fn any_request_round_trips(request in any_request()) {
        prop_assert_eq!(again(&request), Ok(request));
    }

    #[test]
    fn any_reply_round_trips(reply in any_reply()) {
        prop_assert_eq!(reply_again(&reply), Ok(reply));
    }

    #[test]
    fn any_reply_has_the_same_bytes_in_pieces(reply in any_reply()) {
        prop_assert_eq!(in_pieces(&reply).0, encode_reply(&reply));
    }

    #[test]
    fn garbage_never_panics(body in prop::collection::vec(any::<u8>(), 0..400), bulk in prop::collection::vec(any::<u8>(), 0..8)) {
        let (body, bulk) = (Bytes::from(body), Bytes::from(bulk));
        decode(body.clone(), bulk.clone(), true);
        decode(body, bulk, false);
    }
}
