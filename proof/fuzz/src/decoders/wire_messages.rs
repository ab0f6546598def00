//! Frames, greetings, requests and replies.
//!
//! An input of a message is the length of the bulk data (2 bytes), the body, the bulk data.

use super::{Decoder, Outcome, files, golden, judge, unhex};
use bytes::Bytes;
use types::errno::Errno;
use types::session::ClientUuid;
use wire::checksum::crc32c;
use wire::codec::{Encoded, decode_reply, decode_request, encode_reply, encode_request};
use wire::envelope::{Envelope, Refusal};
use wire::frame::{HEADER_BYTES, Header};
use wire::hello::{Hello, HelloReply};
use wire::message::{Reply, Request};
use wire::route::{Route, Routed};

pub const FRAME_HEADER: Decoder = Decoder {
    name: "frame header",
    seeds: || golden("core/wire/golden", |name| name == "frame_header"),
    repair: |bytes| {
        bytes.resize(HEADER_BYTES, 0);
        let crc = crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
    },
    run: |bytes| match bytes.try_into() {
        Ok(bytes) => judge(
            || Header::decode(bytes),
            |header| Header::decode(&header.encode()) == Ok(*header),
        ),
        Err(_) => Outcome { accepted: false, peak_bytes: 0 }, // the type forbids other lengths
    },
};

pub const HELLO: Decoder = Decoder {
    name: "hello",
    seeds: || golden("core/wire/golden", |name| name == "hello"),
    repair: |_| (),
    run: |bytes| {
        judge(|| Hello::decode(bytes), |hello| Hello::decode(&hello.encode()) == Ok(*hello))
    },
};

pub const HELLO_REPLY: Decoder = Decoder {
    name: "hello reply",
    seeds: || golden("core/wire/golden", |name| name == "hello_reply"),
    repair: |_| (),
    run: |bytes| {
        judge(
            || HelloReply::decode(bytes),
            |reply| HelloReply::decode(&reply.encode()) == Ok(*reply),
        )
    },
};

pub const ROUTE: Decoder = Decoder {
    name: "route",
    seeds: || vec![Route { hops: 4 }.encode().to_vec()],
    repair: |_| (),
    run: |bytes| {
        judge(|| Route::decode(bytes), |route| Route::decode(&route.encode()) == Ok(*route))
    },
};

pub const ROUTED: Decoder = Decoder {
    name: "routed",
    seeds: || [Routed::Yes, Routed::NoAnswer].map(|routed| routed.encode().to_vec()).to_vec(),
    repair: |_| (),
    run: |bytes| {
        judge(|| Routed::decode(bytes), |routed| Routed::decode(&routed.encode()) == Ok(*routed))
    },
};

pub const ENVELOPE: Decoder = Decoder {
    name: "envelope",
    seeds: || {
        let refusals = [None, Some(Refusal::BadRequest), Some(Refusal::Errno(Errno::EBUSY))];
        let seed = |refusal| {
            Envelope { client: ClientUuid(7), refusal, ..Envelope::default() }.encode().to_vec()
        };
        refusals.into_iter().map(seed).collect()
    },
    repair: |_| (),
    run: |bytes| judge(|| Envelope::decode(bytes), |e| Envelope::decode(&e.encode()) == Ok(*e)),
};

pub const REQUEST: Decoder = Decoder {
    name: "request",
    seeds: || messages("op_"),
    repair: |_| (),
    run: |bytes| {
        let (body, bulk) = split(bytes);
        let again = |value: &Request| {
            let (body, bulk) = joined(encode_request(value));
            decode_request(body, bulk).as_ref() == Ok(value)
        };
        judge(|| decode_request(body, bulk), again)
    },
};

pub const REPLY: Decoder = Decoder {
    name: "reply",
    seeds: || messages("answer_"),
    repair: |_| (),
    run: |bytes| {
        let (body, bulk) = split(bytes);
        let again = |value: &Reply| {
            let (body, bulk) = joined(encode_reply(value));
            decode_reply(body, bulk).as_ref() == Ok(value)
        };
        judge(|| decode_reply(body, bulk), again)
    },
};

fn joined(encoded: Encoded) -> (Bytes, Bytes) {
    (encoded.body, encoded.bulk.concat().into())
}

fn messages(prefix: &str) -> Vec<Vec<u8>> {
    let message = |text: &String| {
        let (body, bulk) = text.split_once("\n\n").unwrap_or((text, ""));
        let bulk = unhex(bulk);
        let len = u16::try_from(bulk.len()).expect("samples are short");
        [&len.to_le_bytes()[..], &unhex(body), &bulk].concat()
    };
    files("core/wire/golden", |name| name.starts_with(prefix)).iter().map(message).collect()
}

fn split(bytes: &[u8]) -> (Bytes, Bytes) {
    let Some((len, rest)) = bytes.split_first_chunk::<2>() else {
        return (Bytes::new(), Bytes::new());
    };
    let bulk = usize::from(u16::from_le_bytes(*len)).min(rest.len());
    let (body, bulk) = rest.split_at(rest.len() - bulk);
    (Bytes::copy_from_slice(body), Bytes::copy_from_slice(bulk))
}
