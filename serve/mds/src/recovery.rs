//! Handles in one transaction what the last life of a starting MDT left behind.
//!
//! - Changes that clients brought back are redone, before anything else takes a transno.
//! - FIDs: the next range of sequences is recorded; the caller commits before any of them is handed
//!   out.
//! - Orphans: those that no client opens again are destroyed when the MDT goes into service.
//! - Writer marks: those files and their objects may disagree; the settler resolves it.
//! - The destroy log needs nothing: the destroyer reads it from the start.

#[cfg(test)]
mod model;
pub mod run;
pub(crate) mod sealed;
pub mod window;

use crate::acks::kept_replies::{self, KeptReply};
use crate::bundles::steps::{self, Occasion};
use crate::bundles::{Bundle, Bundles, RecordedBundles, Steps};
use crate::error::StartError;
use crate::locks::context::LockContext;
use crate::records::Records;
use crate::records::fids::{Fids, RANGE};
use crate::state::State;
use bytes::Bytes;
use disk::chunk;
use disk::dirent;
use disk::key::{self, MDT_STATE, REDO_KEYS, Tag};
use disk::mdt_state::{self, MdtState};
use disk::redo::{self, Change, Found, Redo};
use env::Env;
use namespace::context::Context;
use namespace::view::View;
use observe::mutant::{Mutant, is_mutant};
use replay::bundle::exchange::Exchange;
use replay::recovery::Gathered;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use store::store::Store;
use store::tx::Tx;
use types::bundle::BundleId;
use types::credentials::Credentials;
use types::fid::Fid;
use types::session::{ClientUuid, Transno};
use types::target::TargetName;

/// What the new life starts with.
pub(crate) struct Recovered {
    pub(crate) fids: Fids,
    /// Files with a writer mark, and whether it says that their objects must be cut.
    pub(crate) marked: Vec<(Fid, bool)>,
    /// Inodes without a name that may be open.
    pub(crate) orphans: Vec<Fid>,
    /// Directories whose names move between their stripes.
    pub(crate) moving: Vec<Fid>,
    /// Replies that clients may not have seen.
    pub(crate) replies: Vec<KeptReply>,
    /// Clients whose changes do not fit the records.
    pub(crate) refused: Vec<ClientUuid>,
    /// Operations over several MDTs.
    pub(crate) bundles: RecordedBundles,
}

/// What was heard of the life before.
#[derive(Clone, Copy)]
pub(crate) struct Brought<'a> {
    /// Changes of clients, in order.
    pub(crate) changes: &'a [Gathered<Bytes>],
    /// Clients that did not come.
    pub(crate) late: &'a [ClientUuid],
    /// Operations that other MDTs know of.
    pub(crate) exchange: &'a Exchange<Steps>,
    /// Operations that another MDT, which has restarted, has stopped.
    pub(crate) stopped: &'a [BundleId],
}

/// Redoes the changes that clients brought, does again what other MDTs brought (docs/dne.md,
/// section 5), forgets late clients, reads and repairs. `keys`: the record of the keys under which
/// redo is sealed from now on. The caller commits.
pub(crate) fn recover(
    store: &Store,
    env: &Env,
    name: TargetName,
    boot: u64,
    keys: &[u8],
    brought: Brought<'_>,
) -> Result<Recovered, StartError> {
    let Brought { changes, late, exchange, stopped } = brought;
    let tx = store.begin();
    let damaged = |damage| StartError::Damaged { target: name, damage };
    let first = Fids::first_seq(name.index.0);
    let next = tx
        .get(MDT_STATE, mdt_state::decode)?
        .transpose()
        .map_err(damaged)?
        .map_or(first, |s| s.seq_next);
    if next + RANGE > first + Fid::SEQ_WIDTH {
        return Err(StartError::FidsUsedUp { target: name });
    }
    let mut bundles = Bundles::new(name.index, boot);
    bundles.restore(name.index, &steps::read(&tx)?);
    // As the exchange saw it when it ended.
    stopped.iter().for_each(|id| bundles.participant.restore_stopped(*id));
    let mut state =
        State::new(Fids::new(next), (Duration::ZERO, Duration::ZERO), Arc::default(), bundles);
    let mut lock_context = LockContext::own();
    let credentials = Credentials::root();
    let mut records = Records::new(tx, &mut state, boot, &mut lock_context);

    let (offered, _) = exchange.to_do(&records.state.bundles.participant);
    do_parts(&mut records, env, name, &offered);
    let refused = do_again(&mut records.tx, name, changes)?;
    steps::keep_replies(&mut records.tx, name.index, &offered)?;
    if let Some(last) = changes.iter().map(|change| change.transno).max() {
        records.tx.raise(last);
    }
    let recorded = steps::read(&records.tx)?;
    records.state.bundles.restore(name.index, &recorded);
    let (_, gathered) = exchange.to_do(&records.state.bundles.participant);
    do_parts(&mut records, env, name, &gathered);
    let participant = &records.state.bundles.participant;
    let told = stopped.iter().copied().filter(|id| !participant.has(*id));
    let stops: BTreeSet<BundleId> =
        exchange.stops(participant).into_iter().chain(participant.stopped()).chain(told).collect();
    stops.into_iter().for_each(|id| steps::record_stop(&mut records.tx, id));
    for client in late.iter().chain(&refused) {
        kept_replies::forget(&mut records.tx, *client)?;
    }

    let tx = &records.tx;
    let (orphans, writers) = (marked(tx, Tag::Orphan)?, marked(tx, Tag::Writer)?);
    let moving = marked(tx, Tag::Moving)?;
    let (replies, bundles) = (kept_replies::read(tx)?, steps::read(tx)?);
    records.tx.put(MDT_STATE, &mdt_state::encode(&MdtState { seq_next: next + RANGE }));
    records.tx.put(REDO_KEYS, keys);
    if name.index.0 == 0 && matches!(records.inode(Fid::ROOT), Ok(None)) {
        let ctx = Context {
            credentials: &credentials,
            now: env.clock.wall(),
            version: records.tx.transno().0,
        };
        records.put_inode(&namespace::create::root(&ctx));
    }
    let marked: Vec<_> = writers.into_iter().map(|fid| (fid, records.marked_cut(fid))).collect();
    records.finish();
    if !orphans.is_empty() || !marked.is_empty() {
        tracing::info!(target = %name, orphans = orphans.len(), unsettled = marked.len(), "recovered");
    }
    Ok(Recovered { fids: state.fids, marked, orphans, moving, replies, refused, bundles })
}

/// Does this MDT's part of these bundles. One that does not fit is damage, and logged.
fn do_parts(records: &mut Records<'_>, env: &Env, name: TargetName, bundles: &[Bundle]) {
    let credentials = Credentials::root();
    for bundle in bundles {
        let ctx = Context {
            credentials: &credentials,
            now: env.clock.wall(),
            version: records.tx.transno().0,
        };
        // What does not fit is logged there.
        if steps::do_part(records, &ctx, name.index, bundle, Occasion::Restarted).is_ok() {
            tracing::info!(target = %name, bundle = %bundle.id, "another MDT brought its part back");
        }
    }
}

/// Makes the changes again in this order, each once, whichever client brought it. A client is
/// refused as a whole from the first of its changes that finds something else than it did: an
/// earlier change was lost with a client that did not come. Changes of other clients that it
/// brought are passed over then.
fn do_again(
    tx: &mut Tx<'_>,
    name: TargetName,
    changes: &[Gathered<Bytes>],
) -> Result<Vec<ClientUuid>, StartError> {
    let mut refused: Vec<ClientUuid> = Vec::new();
    let mut done = None;
    let next = tx.transno();
    for Gathered { transno, client, change } in changes {
        // What is durable is never made again: a delta would be added twice.
        if refused.contains(client) || done == Some(transno) || *transno < next {
            continue;
        }
        let redo = match redo::decode(change) {
            Ok(redo) => redo,
            Err(error) => {
                tracing::error!(target = %name, client = %client.brief(), ?transno, %error, "a change that was brought back is damaged");
                refused.push(*client);
                continue;
            }
        };
        if let Some(other) = differs(tx, &redo.found)?
            && !is_mutant(Mutant::ReplayDisorder)
        {
            tracing::warn!(target = %name, client = %client.brief(), ?transno, other, "a change before this one is missing");
            if author_of(&redo).is_none_or(|author| author == *client) {
                refused.push(*client);
            }
            continue;
        }
        done = Some(transno);
        for change in &redo.changes {
            make_again(tx, name, *transno, change)?;
        }
    }
    Ok(refused)
}

/// The first thing that is not as the change found it, for the log; `None`: all is so.
fn differs(tx: &Tx<'_>, found: &Found) -> Result<Option<String>, StartError> {
    let Found { inodes, names, empty } = found;
    for (fid, base) in inodes {
        let read = |bytes: &[u8]| disk::inode::decode(*fid, bytes).map_or(0, |record| record.base);
        let is = tx.get(&key::inode(*fid), read)?.unwrap_or(0);
        if is != *base {
            return Ok(Some(format!("{fid} is as of {is}, it found it as of {base}")));
        }
    }
    for (key, to) in names {
        let read = |bytes: &[u8]| dirent::decode(bytes).map_or(Fid::NONE, |(fid, _)| fid);
        let is = tx.get(key, read)?;
        if is != *to {
            return Ok(Some(format!("a name leads to {is:?}, it found {to:?}")));
        }
    }
    for dir in empty {
        let mut is_empty = true;
        tx.scan(&key::dirent(*dir, b""), &key::dirents_end(*dir), |_, _| {
            is_empty = false;
            ControlFlow::Break(())
        })?;
        if !is_empty {
            return Ok(Some(format!("{dir} has names, it found none")));
        }
    }
    Ok(None)
}

fn make_again(
    tx: &mut Tx<'_>,
    name: TargetName,
    transno: Transno,
    change: &Change<'_>,
) -> Result<(), StartError> {
    let (fid, made) = match *change {
        Change::Record(key, _) if !is_of_operations(key) => return Ok(()),
        Change::Record(key, Some(value)) => {
            tx.put(key, value);
            return Ok(());
        }
        Change::Record(key, None) => {
            tx.delete(key);
            return Ok(());
        }
        Change::Bytes { key, at, bytes } => return put_bytes(tx, name, transno, (key, at, bytes)),
        Change::Base(fid, base) => {
            (fid, tx.get(&key::inode(fid), |bytes| disk::inode::with_base(fid, bytes, base))?)
        }
        Change::Delta(fid, delta) => (
            fid,
            tx.get(&key::inode(fid), |bytes| {
                disk::inode::with_delta(fid, bytes, &delta, transno.0)
            })?,
        ),
    };
    match made {
        Some(Ok(record)) => tx.put(&key::inode(fid), &record),
        // The change found it, so only damage does that, which the checker finds.
        Some(Err(damage)) => {
            tracing::error!(target = %name, %fid, ?transno, %damage, "a directory is not changed again")
        }
        None => {
            tracing::error!(target = %name, %fid, ?transno, "a directory is not changed again: it is not there")
        }
    }
    Ok(())
}

/// Puts bytes into a chunk, which is as the change found it: every change of a chunk changes its
/// file, and the file is as it was found.
fn put_bytes(
    tx: &mut Tx<'_>,
    name: TargetName,
    transno: Transno,
    (key, at, bytes): (&[u8], usize, &[u8]),
) -> Result<(), StartError> {
    let mut whole = match tx.get(key, |record| chunk::decode(record).map(<[u8]>::to_vec))? {
        None => Vec::new(),
        Some(Ok(before)) => before,
        // The change read it, so it was damaged since, which the checker finds.
        Some(Err(damage)) => {
            tracing::error!(target = %name, ?transno, %damage, "bytes of a file are not stored again");
            return Ok(());
        }
    };
    let end = at + bytes.len();
    whole.resize(whole.len().max(end), 0);
    whole[at..end].copy_from_slice(bytes);
    let mut record = Vec::new();
    chunk::encode(&whole, &mut record);
    tx.put(key, &record);
    Ok(())
}

/// Author of the change, from the record of the reply.
fn author_of(redo: &Redo<'_>) -> Option<ClientUuid> {
    redo.changes.iter().find_map(|change| match change {
        Change::Record(key, _) if key.first() == Some(&(Tag::Reply as u8)) => key::client_of(key),
        _ => None,
    })
}

/// Records that operations of clients change. The state of the MDT is its own: FIDs are never taken
/// back.
fn is_of_operations(key: &[u8]) -> bool {
    let tags = [
        Tag::Bundle,
        Tag::Chunk,
        Tag::Destroy,
        Tag::Entry,
        Tag::Inode,
        Tag::Moving,
        Tag::ObjectsAt,
        Tag::Orphan,
        Tag::Reply,
        Tag::Writer,
        Tag::Xattr,
    ];
    let short = key.len() <= store::engine::KEY_BYTES_MAX;
    short && key.first().is_some_and(|first| tags.iter().any(|tag| *tag as u8 == *first))
}

fn marked(tx: &store::tx::Tx<'_>, tag: Tag) -> Result<Vec<Fid>, StartError> {
    let mut fids = Vec::new();
    let (start, end) = key::all(tag);
    tx.scan(&start, &end, |key, _| {
        fids.extend(key::fid_of(key));
        ControlFlow::Continue(())
    })?;
    Ok(fids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::redo::Log;
    use env::real::{RealConfig, RealEnv};
    use store::memory::Memory;
    use store::store::StoreOptions;
    use types::target::TargetIndex;

    const A: ClientUuid = ClientUuid(1);
    const B: ClientUuid = ClientUuid(2);
    const GONE: ClientUuid = ClientUuid(3);
    const DIR: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };

    fn name_of(transno: u64) -> Vec<u8> {
        key::dirent(DIR, format!("{transno}").as_bytes()).to_vec()
    }

    /// A change by `author` that makes a name; `found`: the version in which it saw the directory,
    /// which does not exist here.
    fn brought(
        transno: u64,
        client: ClientUuid,
        author: ClientUuid,
        found: u64,
    ) -> Gathered<Bytes> {
        let mut log = Log::default();
        log.note(&name_of(transno), Some(b"made"));
        log.note(&key::reply(author, 0), Some(b"answered"));
        Gathered {
            transno: Transno(transno),
            client,
            change: log.encode(&Found { inodes: vec![(DIR, found)], ..Found::default() }).into(),
        }
    }

    #[test]
    fn each_change_is_made_once_and_only_its_author_is_refused_for_it() {
        let (env, _guard) =
            RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
        let store = Store::open(Memory::new(1 << 20), env, StoreOptions::default()).unwrap();
        let mut tx = store.begin();
        let changes = [
            brought(5, A, A, 0),
            brought(5, B, A, 0),
            brought(6, B, GONE, 9),
            brought(7, B, B, 0),
            brought(8, A, A, 9),
            brought(9, A, A, 0),
            brought(9, B, A, 0),
            brought(10, A, A, 0),
        ];
        assert_eq!(
            do_again(&mut tx, TargetName::mdt(Default::default(), 0), &changes).unwrap(),
            [A]
        );
        let there = |transno: u64| tx.get(&name_of(transno), |_| ()).unwrap().is_some();
        let made: Vec<u64> = (5..=10).filter(|transno| there(*transno)).collect();
        assert_eq!(
            made,
            [5, 7, 9],
            "what another was told of is made again, though its author is refused"
        );
        tx.finish();
    }

    #[test]
    fn the_reply_of_a_bundle_gives_way_to_that_of_a_later_request_only() {
        let (env, _guard) =
            RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
        let store = Store::open(Memory::new(1 << 20), env, StoreOptions::default()).unwrap();
        let mut tx = store.begin();
        let reply = |xid| {
            let mut record = Vec::new();
            disk::session::encode_reply(xid, b"reply", &mut record);
            record
        };
        let me = TargetIndex(0);
        let of = |client| Bundle {
            id: BundleId { coordinator: me, boot: 1, number: 1 },
            others: vec![],
            parts: Arc::new(vec![disk::bundle::Step::Reply { client, slot: 0, record: reply(5) }]),
        };
        tx.put(&key::client(A), b"is known");
        for (there, kept) in [(None, 5), (Some(4), 5), (Some(5), 5), (Some(6), 6)] {
            match there {
                Some(xid) => tx.put(&key::reply(A, 0), &reply(xid)),
                None => tx.delete(&key::reply(A, 0)),
            }
            steps::keep_replies(&mut tx, me, &[of(A)]).unwrap();
            assert_eq!(
                tx.get(&key::reply(A, 0), <[u8]>::to_vec).unwrap(),
                Some(reply(kept)),
                "{there:?}"
            );
        }
        steps::keep_replies(&mut tx, me, &[of(B)]).unwrap();
        assert_eq!(tx.get(&key::reply(B, 0), |_| ()).unwrap(), None, "nothing would remove it");
        tx.finish();
    }

    #[test]
    fn a_change_is_made_again_only_over_the_names_that_it_found() {
        let (env, _guard) =
            RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
        let store = Store::open(Memory::new(1 << 20), env, StoreOptions::default()).unwrap();
        let mut tx = store.begin();
        let (file, other, bare) =
            (Fid { oid: 2, ..DIR }, Fid { oid: 3, ..DIR }, Fid { oid: 4, ..DIR });
        tx.put(&key::dirent(DIR, b"n"), &dirent::encode(file, types::attr::FileType::Regular));
        let name = |name: &[u8], to: Option<Fid>| Found {
            names: vec![(key::dirent(DIR, name).as_bytes().into(), to)],
            ..Found::default()
        };
        let empty = |dir: Fid| Found { empty: vec![dir], ..Found::default() };
        let all = [
            (name(b"n", Some(file)), true),
            (name(b"n", Some(other)), false),
            (name(b"n", None), false),
            (name(b"none", None), true),
            (name(b"none", Some(file)), false),
            (empty(DIR), false),
            (empty(bare), true),
        ];
        for (n, (found, made)) in all.into_iter().enumerate() {
            let mut log = Log::default();
            let key = key::xattr(DIR, format!("{n}").as_bytes());
            log.note(&key, Some(b"made"));
            log.note(&key::reply(A, 0), Some(b"answered"));
            let change =
                Gathered { transno: Transno(9), client: A, change: log.encode(&found).into() };
            let refused =
                do_again(&mut tx, TargetName::mdt(Default::default(), 0), &[change]).unwrap();
            assert_eq!(
                (refused.is_empty(), tx.get(&key, |_| ()).unwrap().is_some()),
                (made, made),
                "{found:?}"
            );
        }
        tx.finish();
    }
}
