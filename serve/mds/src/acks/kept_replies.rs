//! Replies to changes, durable with the change itself: a request that is sent again after a restart
//! gets the same answer.
//!
//! Record `R` (client, slot) is written in the transaction of each change of a client on the
//! network; the next request that has this slot replaces it. Read at the start; a reply stays in
//! [`Acks`](super::Acks) until its client has the answer, its slot is used again, or its client's
//! session ends. Bound: the slots of all clients, each at most as many as it has changes in flight.

use crate::records::tail::damaged;
use bytes::Bytes;
use disk::key::{self, Tag};
use disk::session;
use observe::mutant::{Mutant, is_mutant};
use std::ops::ControlFlow;
use store::error::StoreError;
use store::tx::Tx;
use types::errno::Errno;
use types::fid::Fid;
use types::principal::{Claim, Owner};
use types::proof::Proof;
use types::session::{ClientUuid, OpenHandle, Transno, Xid};
use wire::codec::{decode_reply, encode_reply};
use wire::mds::MdsReply;
use wire::message::{OpReply, Reply};

/// The place that a request of a client on the network came from, and that of its reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) xid: Xid,
    pub(crate) slot: u16,
}

/// Number that means "no slot".
const NO_SLOT: u16 = u16::MAX;

/// The kept part of a request: the results of its first operations.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) transno: Transno,
    pub(crate) results: Vec<Result<OpReply, Errno>>,
}

impl Kept {
    /// From the bytes of a kept reply. A damaged one is logged, and counts as none.
    pub(crate) fn decode(reply: Bytes) -> Option<Kept> {
        match decode_reply(reply, Bytes::new()) {
            Ok(Reply { transno, results, .. }) => Some(Kept { transno, results }),
            Err(error) => {
                damaged(Fid::NONE, &error);
                None
            }
        }
    }
}

/// A reply that outlived a restart.
pub(crate) struct KeptReply {
    pub(crate) client: ClientUuid,
    pub(crate) slot: u16,
    pub(crate) xid: Xid,
    /// The encoded reply.
    pub(crate) bytes: Bytes,
    /// Inodes that its request opened.
    pub(crate) opened: Vec<Fid>,
}

/// Reads all replies.
///
/// # Errors
/// The store cannot be read. A damaged record is logged and left out.
pub(crate) fn read(tx: &Tx<'_>) -> Result<Vec<KeptReply>, StoreError> {
    let mut replies = Vec::new();
    let (start, end) = key::all(Tag::Reply);
    tx.scan(&start, &end, |key, value| {
        match (key::client_of(key), key::slot_of(key), session::decode_reply(value)) {
            (Some(client), Some(slot), Ok((xid, reply))) => {
                let bytes = Bytes::copy_from_slice(reply);
                let opened = opened(bytes.clone());
                replies.push(KeptReply { client, slot, xid: Xid(xid), bytes, opened });
            }
            (_, _, Err(error)) => drop(damaged(Fid::NONE, &error)),
            (_, _, Ok(_)) => tracing::error!(?key, "the key of a kept reply is damaged"),
        }
        ControlFlow::Continue(())
    })?;
    Ok(replies)
}

/// Inodes that a kept reply says were opened.
fn opened(reply: Bytes) -> Vec<Fid> {
    if is_mutant(Mutant::UnconfirmedOpensForgotten) {
        return Vec::new();
    }
    // A damaged one is logged when it is asked for.
    let results = decode_reply(reply, Bytes::new()).map(|reply| reply.results).unwrap_or_default();
    let opened = |result: Result<OpReply, Errno>| match result {
        Ok(OpReply::Mds(MdsReply::Opened { entry, handle, .. })) if handle != OpenHandle(0) => {
            Some(entry.attr.fid)
        }
        _ => None,
    };
    results.into_iter().filter_map(opened).collect()
}

/// Writes the reply of a change in the change's own transaction. `results`: those of all operations
/// so far; given back.
pub(crate) fn write(
    tx: &mut Tx<'_>,
    client: ClientUuid,
    origin: Origin,
    results: Vec<Result<OpReply, Errno>>,
) -> Vec<Result<OpReply, Errno>> {
    let (record, results) = record_of(origin, tx.transno(), results);
    if let Some(record) = record {
        tx.put(&key::reply(client, origin.slot), &record);
    }
    results
}

/// The record of the reply of a request, unless that has no slot. `transno`: of its change.
/// `results` are given back.
pub(crate) fn record_of(
    origin: Origin,
    transno: Transno,
    results: Vec<Result<OpReply, Errno>>,
) -> (Option<Vec<u8>>, Vec<Result<OpReply, Errno>>) {
    if origin.slot == NO_SLOT {
        return (None, results);
    }
    let reply = Reply::new(origin.xid, transno, Transno(0), results);
    let mut record = Vec::new();
    session::encode_reply(origin.xid.0, &encode_reply(&reply).body, &mut record);
    (Some(record), reply.results)
}

/// Removes all records of a client.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn forget(tx: &mut Tx<'_>, client: ClientUuid) -> Result<(), StoreError> {
    let mut keys = vec![key::client(client).to_vec()];
    let (start, end) = key::replies(client);
    tx.scan(&start, &end, |key, _| {
        keys.push(key.to_vec());
        ControlFlow::Continue(())
    })?;
    keys.iter().for_each(|key| tx.delete(key));
    Ok(())
}

/// Every client that is recorded, and what it shows when it comes back. One whose record is damaged
/// cannot.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn clients(tx: &Tx<'_>) -> Result<Vec<(ClientUuid, Claim)>, StoreError> {
    let mut clients = Vec::new();
    let (start, end) = key::all(Tag::Client);
    tx.scan(&start, &end, |key, value| {
        let claim = match session::decode_client(value) {
            Ok(client) => client.claim,
            Err(damaged) => {
                tracing::error!(?key, %damaged, "the record of a client");
                Claim { proof: Proof(0), owner: Owner::Unknown }
            }
        };
        clients.extend(key::client_of(key).map(|client| (client, claim)));
        ControlFlow::Continue(())
    })?;
    Ok(clients)
}
