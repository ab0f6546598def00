//! This MDT's part of a bundle, in one transaction with the record of the bundle.

use super::{Bundle, RecordedBundles, record_of};
use crate::records::Records;
use crate::records::tail::{self, damaged};
use disk::bundle::{self, Kept, Peer, Step};
use disk::inode::ItemTag;
use disk::key::{self, Tag};
use disk::{objects_at, session};
use layout::dir_stripes::DirStripes;
use namespace::context::Context;
use namespace::inode::{Dirent, Inode, InodeFlags, Tail};
use namespace::rename::Place;
use namespace::view::View;
use namespace::{create, link, rename, rmdir, unlink};
use observe::mutant::{Mutant, is_mutant};
use std::ops::ControlFlow;
use store::error::StoreError;
use store::tx::Tx;
use types::attr::Attr;
use types::bundle::BundleId;
use types::errno::Errno;
use types::fid::Fid;
use types::session::ClientUuid;
use types::target::TargetIndex;
use types::time::Timestamp;

/// The occasion on which a part is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Occasion {
    /// For the request that asked for it, which gets the reply.
    Asked,
    /// In service, and the client that asked is not there: it may send its request again.
    Left,
    /// By a restarted MDT, before it is known which inodes are open.
    Restarted,
}

/// Does this MDT's steps, records the bundle, and lets go of what it had pinned. All of it was
/// found durable before (rule 1 of docs/dne.md), so it fits; if it does not, records are damaged.
///
/// # Errors
/// EIO, ESTALE, ENOTDIR: damaged.
pub(crate) fn do_part(
    records: &mut Records<'_>,
    ctx: &Context<'_>,
    me: TargetIndex,
    bundle: &Bundle,
    when: Occasion,
) -> Result<(), Errno> {
    let id = bundle.id;
    records.state.bundles.pins.unpin(id);
    for step in bundle.parts.iter().filter(|step| step.mdt().unwrap_or(id.coordinator) == me) {
        do_step(records, ctx, step, when).inspect_err(|errno| {
            tracing::error!(bundle = %id, ?step, %errno, "a part of an operation over several MDTs does not fit");
        })?;
    }
    if id.coordinator == me || !is_mutant(Mutant::RecordedOnce) {
        records.tx.put(&key::bundle(id), &record_of(bundle));
    }
    let transno = records.tx.transno();
    records.state.bundles.participant.applied(bundle.clone(), transno);
    if id.coordinator == me {
        records.state.bundles.coordinator.applied_here(id, transno);
    }
    Ok(())
}

fn do_step(
    records: &mut Records<'_>,
    ctx: &Context<'_>,
    step: &Step,
    when: Occasion,
) -> Result<(), Errno> {
    // At a restart the time of the plan is the nearest to that of the lost change.
    let at = |time: Timestamp| Context {
        now: if when == Occasion::Asked { ctx.now } else { time },
        ..*ctx
    };
    match step {
        Step::Make { fid, record, xattrs } => {
            let mut inode = inode_of(*fid, record)?;
            inode.attr.version = ctx.version;
            records.put_inode(&inode);
            xattrs.iter().for_each(|(name, value)| records.put_xattr(*fid, name, value));
        }
        Step::Remove { fid, time } => {
            let inode = rmdir::nameless(records, &at(*time), *fid)?;
            if inode.flags.contains(InodeFlags::STRIPED) {
                let stripes = tail::stripes(&inode)?;
                if stripes.leaves().contains(fid) {
                    records.state.went.note(*fid, stripes.master());
                }
            }
            if when == Occasion::Restarted {
                records.put_inode(&inode);
                records.keep_orphan(*fid);
            } else {
                records.last_name_gone(&inode);
            }
        }
        Step::Enter { dir, name, fid, file_type, time } => {
            let to = Dirent { fid: *fid, file_type: *file_type };
            create::enter(records, &at(*time), *dir, name.as_bytes(), to)?;
        }
        Step::Leave { dir, name, file_type, time } => {
            rmdir::leave(records, &at(*time), *dir, name.as_bytes(), *file_type)?;
        }
        Step::Drop { fid, dir, name, time, .. } => {
            let mut inode = records.there(*fid)?;
            let last = inode.attr.nlink <= 1;
            let lost = Place { parent: *dir, name: name.as_bytes() };
            if last && when == Occasion::Restarted {
                unlink::lose_name(records, &at(*time), &mut inode, lost);
                records.put_inode(&inode);
                records.keep_orphan(*fid);
            } else {
                unlink::drop_link(records, &at(*time), &mut inode, lost);
            }
        }
        Step::Link { fid, dir, name, time, .. } => {
            let mut inode = records.there(*fid)?;
            let got = Place { parent: *dir, name: name.as_bytes() };
            link::add_link(records, &at(*time), &mut inode, got);
        }
        Step::Move { fid, from, to, time, .. } => {
            let mut inode = records.there(*fid)?;
            let from = Place { parent: from.0, name: from.1.as_bytes() };
            let to = Place { parent: to.0, name: to.1.as_bytes() };
            rename::moved(records, &at(*time), &mut inode, from, to);
        }
        Step::Change { fid, atime, mtime, record, xattrs } => {
            let (mut inode, new) = (records.there(*fid)?, inode_of(*fid, record)?);
            let (old, new_attr) = (inode.attr, new.attr);
            inode.attr = Attr {
                mode: new_attr.mode,
                uid: new_attr.uid,
                gid: new_attr.gid,
                atime: if *atime { new_attr.atime } else { old.atime },
                mtime: if *mtime { new_attr.mtime } else { old.mtime },
                ctime: new_attr.ctime,
                version: ctx.version,
                ..old
            };
            (inode.flags, inode.tail) = (new.flags, new.tail);
            match mtime {
                true => records.put_inode_with_mtime(&inode),
                false => records.put_inode(&inode),
            }
            for (name, value) in xattrs {
                match value {
                    Some(value) => records.put_xattr(*fid, name, value),
                    None => records.delete_xattr(*fid, name),
                }
            }
        }
        Step::Restripe { fid, nlink, record } => {
            let stripes = DirStripes::decode(record).map_err(|error| damaged(*fid, &error))?;
            let mut inode = records.there(*fid)?;
            inode.tail = tail::replace(*fid, &inode.tail, ItemTag::Stripes, Some(record))?;
            inode.flags.insert(InodeFlags::STRIPED);
            inode.attr.nlink = inode.attr.nlink.saturating_add_signed(*nlink);
            inode.attr.version = ctx.version;
            records.put_inode(&inode);
            if stripes.master() == *fid {
                records.names_move(*fid, stripes.moving().is_some());
            }
        }
        Step::Give { dir, name, .. } => records.delete_dirent(*dir, name.as_bytes()),
        Step::Take { dir, name, fid, file_type } => {
            let to = Dirent { fid: *fid, file_type: *file_type };
            records.put_dirent(*dir, name.as_bytes(), to);
        }
        Step::Home { fid, from, to, name, .. } => {
            let mut inode = records.there(*fid)?;
            if inode.is_dir() {
                inode.parent = *to;
            }
            tail::change_links(&mut inode, |list| {
                match disk::links::each(list).any(|link| link == Ok((*from, name.as_bytes()))) {
                    true => disk::links::with(
                        &disk::links::without(list, *from, name.as_bytes()),
                        *to,
                        name.as_bytes(),
                    ),
                    false => list.to_vec(),
                }
            });
            inode.attr.version = ctx.version;
            records.put_inode(&inode);
        }
        Step::Objects { fid, named, chunks } => {
            records.take_chunks(*named, chunks);
            records.tx.put(&key::objects_at(*named), &objects_at::encode(*fid));
        }
        Step::Discard { fid } => records.gone_elsewhere(*fid)?,
        Step::Reply { client, slot, record } => {
            if when != Occasion::Asked {
                keep_reply(&mut records.tx, *client, *slot, record)?;
            }
        }
    }
    Ok(())
}

/// Keeps the reply to a request of a client, unless its slot has one to a later request. Of a
/// client that is not known any more, nothing would remove it.
fn keep_reply(
    tx: &mut Tx<'_>,
    client: ClientUuid,
    slot: u16,
    record: &[u8],
) -> Result<(), StoreError> {
    let xid = |record: &[u8]| session::decode_reply(record).ok().map(|(xid, _)| xid);
    let known = tx.get(&key::client(client), |_| ())?.is_some();
    let key = key::reply(client, slot);
    if known && tx.get(&key, xid)?.flatten() < xid(record) {
        tx.put(&key, record);
    }
    Ok(())
}

/// At a restart, the changes that clients brought were done after these bundles. An earlier request
/// may have used the slot of a bundle's request, and then has put its own reply there.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn keep_replies(
    tx: &mut Tx<'_>,
    me: TargetIndex,
    bundles: &[Bundle],
) -> Result<(), StoreError> {
    for bundle in bundles.iter().filter(|bundle| bundle.id.coordinator == me) {
        for step in bundle.parts.iter() {
            if let Step::Reply { client, slot, record } = step {
                keep_reply(tx, *client, *slot, record)?;
            }
        }
    }
    Ok(())
}

/// The inode of a record.
///
/// # Errors
/// EIO: the record is damaged.
pub(crate) fn inode_of(fid: Fid, record: &[u8]) -> Result<Inode, Errno> {
    let record = disk::inode::decode(fid, record).map_err(|error| damaged(fid, &error))?;
    Ok(Inode {
        attr: record.attr,
        parent: record.parent,
        flags: InodeFlags::from_bits_retain(record.flags),
        tail: Tail::from_slice(record.tail),
    })
}

/// The record of an inode that is going to be made.
pub(crate) fn record_of_inode(inode: &Inode) -> Vec<u8> {
    let Inode { attr, parent, flags, tail } = inode;
    let record = disk::inode::InodeRecord {
        attr: *attr,
        parent: *parent,
        flags: flags.bits(),
        base: 0,
        tail,
    };
    let mut bytes = Vec::new();
    disk::inode::encode(&record, &mut bytes);
    bytes
}

/// Records that a bundle is not taken from its coordinator any more.
pub(crate) fn record_stop(tx: &mut Tx<'_>, id: BundleId) {
    tx.put(&key::bundle(id), &bundle::encode(&Kept::Stopped));
}

/// Bundles are finished: their records go, in one transaction with the watermark that says so.
pub(crate) fn forget(
    tx: &mut Tx<'_>,
    finished: &[BundleId],
    coordinator: TargetIndex,
    peer: &Peer,
) {
    finished.iter().for_each(|id| tx.delete(&key::bundle(*id)));
    tx.put(&key::peer(coordinator), &bundle::encode_peer(peer));
}

/// Reads all records of bundles.
///
/// # Errors
/// The store cannot be read. A damaged record is logged and left out.
pub(crate) fn read(tx: &Tx<'_>) -> Result<RecordedBundles, StoreError> {
    let mut recorded = RecordedBundles::default();
    let (start, end) = key::all(Tag::Bundle);
    tx.scan(&start, &end, |key, value| {
        match (key::bundle_of(key), bundle::decode(value)) {
            (Some(id), Ok(kept)) => recorded.bundles.push((id, kept)),
            (_, Err(error)) => {
                tracing::error!(?key, %error, "the record of an operation over several MDTs")
            }
            (None, Ok(_)) => {
                tracing::error!(?key, "the key of an operation over several MDTs is damaged")
            }
        }
        ControlFlow::Continue(())
    })?;
    let (start, end) = key::all(Tag::Peer);
    tx.scan(&start, &end, |key, value| {
        match (key::peer_of(key), bundle::decode_peer(value)) {
            (Some(mdt), Ok(peer)) => _ = recorded.peers.insert(mdt, peer),
            (_, Err(error)) => tracing::error!(?key, %error, "the record of another MDT"),
            (None, Ok(_)) => tracing::error!(?key, "the key of another MDT is damaged"),
        }
        ControlFlow::Continue(())
    })?;
    Ok(recorded)
}

/// The bundle whose record is among the changes of a client.
pub(crate) fn bundle_in(change: &[u8]) -> Option<Bundle> {
    let redo = disk::redo::decode(change).ok()?;
    redo.changes.iter().find_map(|change| match change {
        disk::redo::Change::Record(key, Some(value)) => {
            let id = key::bundle_of(key)?;
            super::bundle_of(id, bundle::decode(value).ok()?)
        }
        _ => None,
    })
}
