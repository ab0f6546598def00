//! Pins what an operation over several MDTs is about to change at one of them, and says what it is.

use super::pins::Pin;
use crate::records::{Records, tail};
use bytes::Bytes;
use disk::inode::{InodeRecord, ItemTag, encode};
use namespace::acl::ACL_ACCESS;
use namespace::inode::{Dirent, Inode, InodeFlags, Tail};
use namespace::view::{Change, View, directory};
use observe::mutant::{Mutant, is_mutant};
use std::ops::ControlFlow;
use types::bundle::BundleId;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::BUNDLE_PINS_MAX;
use types::lock::InodeBits;
use types::name::Name;
use types::session::Transno;
use types::target::TargetIndex;
use wire::mds::{PeerFacts, PeerFind, PeerInode, PeerName};

/// The MDT that has the token.
pub(super) const OF_TOKEN: TargetIndex = TargetIndex(0);

/// Names of one stripe that pass in one bundle.
pub(super) const NAMES_MAX: usize = 256;
/// Names of one stripe that are looked at for that.
const LOOKED_MAX: usize = 4096;

/// What covers a directory, but for its opens.
const ALL_BUT_NAMES: InodeBits = InodeBits::LOOKUP
    .union(InodeBits::UPDATE)
    .union(InodeBits::PERM)
    .union(InodeBits::XATTR)
    .union(InodeBits::LAYOUT);

/// The MDT that finds it.
pub(super) fn mdt_of(find: &PeerFind) -> TargetIndex {
    match find {
        PeerFind::Token => OF_TOKEN,
        PeerFind::Name { dir: fid, .. }
        | PeerFind::Inode { fid, .. }
        | PeerFind::Stripe(fid)
        | PeerFind::Names { dir: fid, .. }
        | PeerFind::Above(fid) => TargetIndex(fid.mdt()),
    }
}

/// Pins all of it for this bundle, which is the one of the lock context. Also returns the newest
/// change on which what was found rests.
///
/// # Errors
/// EAGAIN, with the obstacle in the lock context: clients hold some of it, or are about to try
/// again to change a name, or another bundle has pinned it; nothing is pinned. ENOENT, ENOTDIR,
/// EREMCHG: no such directory; E2BIG: it is too much; EIO.
pub(super) fn find(
    records: &mut Records<'_>,
    id: BundleId,
    finds: &[PeerFind],
) -> Result<(PeerFacts, Transno), Errno> {
    let mut found = Found { facts: PeerFacts::default(), pins: Vec::new(), newest: Transno(0) };
    let mut changes = Vec::new();
    for find in finds {
        match find {
            PeerFind::Token => {
                let taken = records.state.bundles.pins.token_of().filter(|by| *by != id);
                if !is_mutant(Mutant::AncestryFree) {
                    records.free_of(taken)?;
                    found.pins.push(Pin::Token);
                }
            }
            PeerFind::Name { dir, name, loses } => {
                let parent = stripe(records, *dir)?;
                found.newest(records.newest_of(*dir, name.as_bytes()));
                found.inode(records, &parent, false)?;
                let to = records.dirent(*dir, name.as_bytes())?;
                let to = to.map(|to| (to.fid, to.file_type));
                found.facts.names.push(PeerName { dir: *dir, name: name.clone(), to });
                found.pins.push(Pin::Name(*dir, name.clone()));
                changes.push(Change::name(*dir, name.as_bytes()));
                if let Some((fid, _)) = to.filter(|(fid, _)| fid.mdt() == dir.mdt()) {
                    let inode = records.inode(fid)?.ok_or(Errno::EIO)?;
                    changes.push(found.changing(records, &inode, *loses)?);
                }
            }
            PeerFind::Inode { fid, loses } => match records.inode(*fid)? {
                Some(inode) => changes.push(found.changing(records, &inode, *loses)?),
                None => {
                    let (record, acl) = (Bytes::new(), Bytes::new());
                    let none = PeerInode { fid: *fid, record, acl, is_empty: false };
                    found.facts.inodes.push(none);
                    // This operation, or another one, may be about to make it.
                    records.free_of(records.state.bundles.pins.changing_inode(Some(id), *fid))?;
                    found.pins.push(Pin::Inode(*fid));
                }
            },
            PeerFind::Stripe(fid) => {
                let inode = records.there(*fid)?;
                found.changing(records, &inode, false)?;
                changes.push(Change::of(*fid, ALL_BUT_NAMES));
            }
            PeerFind::Names { dir, after, limit } => {
                let inode = directory(records, *dir)?;
                records.free_of(records.state.bundles.pins.named_in(id, *dir))?;
                if *limit > 0 {
                    records.names_may_pass(*dir)?;
                }
                found.names(records, &inode, after.as_ref(), *limit as usize)?;
                if !is_mutant(Mutant::StripesHeld) {
                    changes.push(Change::of(*dir, ALL_BUT_NAMES));
                }
            }
            PeerFind::Above(fid) => found.above(records, *fid)?,
        }
    }
    records.before(&changes)?;
    let Found { facts, pins, newest } = found;
    for pin in pins {
        if !records.state.bundles.pins.pin(id, pin) {
            return Err(Errno::E2BIG);
        }
    }
    let newest =
        records.lock_context.durability.depends.borrow().iter().copied().fold(newest, Transno::max);
    Ok((facts, if is_mutant(Mutant::FoundNotDurable) { Transno(0) } else { newest }))
}

struct Found {
    facts: PeerFacts,
    pins: Vec<Pin>,
    newest: Transno,
}

impl Found {
    fn newest(&mut self, transno: Transno) {
        self.newest = self.newest.max(transno);
    }

    /// An inode that is about to change.
    fn changing(
        &mut self,
        records: &Records<'_>,
        inode: &Inode,
        loses: bool,
    ) -> Result<Change<'static>, Errno> {
        // Every change of a directory and of its names has a version up to that of its record.
        self.newest(Transno(inode.attr.version));
        self.newest(records.state.last_found.newest(inode.fid()));
        let is_empty = inode.is_dir() && is_empty(records, inode.fid())?;
        self.inode(records, inode, is_empty)?;
        self.pins.push(Pin::Inode(inode.fid()));
        Ok(Change::named(inode.fid(), loses && (inode.is_dir() || inode.attr.nlink <= 1)))
    }

    /// The names of a stripe behind `after` that belong to another one when none moves, at most
    /// `limit` of them.
    fn names(
        &mut self,
        records: &Records<'_>,
        inode: &Inode,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<(), Errno> {
        let dir = inode.fid();
        self.newest(Transno(inode.attr.version));
        self.newest(records.state.last_found.newest(dir));
        self.inode(records, inode, false)?;
        self.pins.extend([Pin::Inode(dir), Pin::Names(dir)]);
        if limit == 0 {
            return Ok(());
        }
        // This MDT leads the directory to other inodes, and does its own part of that last.
        if !inode.flags.contains(InodeFlags::STRIPED) {
            return Err(Errno::EAGAIN);
        }
        let (stripes, limit) = (tail::stripes(inode)?, limit.min(NAMES_MAX));
        let (mut looked, mut taken, mut up_to, mut damaged) = (0, 0, None, None);
        let names = &mut self.facts.names;
        records.entries(
            dir,
            after.map(Name::as_bytes),
            &mut |name, Dirent { fid, file_type }| {
                let name = match Name::new(name) {
                    Ok(name) => name,
                    Err(errno) => {
                        damaged = Some(errno);
                        return ControlFlow::Break(());
                    }
                };
                looked += 1;
                if stripes.place_then(name.as_bytes()) != dir {
                    taken += 1;
                    names.push(PeerName { dir, name: name.clone(), to: Some((fid, file_type)) });
                }
                if looked == LOOKED_MAX || taken == limit {
                    up_to = Some(name);
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            },
        )?;
        self.facts.looked.push((dir, up_to));
        damaged.map_or(Ok(()), |_| Err(Errno::EIO))
    }

    fn inode(&mut self, records: &Records<'_>, inode: &Inode, is_empty: bool) -> Result<(), Errno> {
        let acl = match inode.flags.contains(InodeFlags::HAS_ACL) {
            true => records.xattr(inode.fid(), ACL_ACCESS)?.unwrap_or_default(),
            false => Vec::new(),
        };
        let (fid, record) = (inode.fid(), record_without_rest(inode)?);
        self.facts.inodes.retain(|known| known.fid != fid);
        let (record, acl) = (record.into(), acl.into());
        self.facts.inodes.push(PeerInode { fid, record, acl, is_empty });
        Ok(())
    }

    /// The directories of this MDT from `fid` upward, and the first one of another MDT above them.
    fn above(&mut self, records: &mut Records<'_>, fid: Fid) -> Result<(), Errno> {
        let mut at = fid;
        while self.facts.above.len() < BUNDLE_PINS_MAX {
            let parent = records.parent_of(at)?;
            self.newest(records.base_version(at));
            self.facts.above.push((at, parent));
            if !is_mutant(Mutant::AncestryFree) {
                self.pins.push(Pin::Above(at));
            }
            if at == Fid::ROOT || parent.mdt() != fid.mdt() {
                return Ok(());
            }
            at = parent;
        }
        Err(Errno::E2BIG)
    }
}

/// A live directory, or stripe of one, of which a name was asked for.
///
/// # Errors
/// As [`directory`]; EREMCHG: it may have been a stripe that its directory has left.
fn stripe(records: &Records<'_>, fid: Fid) -> Result<Inode, Errno> {
    match records.inode(fid)? {
        None => Err(Errno::EREMCHG),
        Some(inode) if inode.attr.nlink == 0 && inode.flags.contains(InodeFlags::STRIPED) => {
            let shard = tail::stripes(&inode)?.master() != fid;
            Err(if shard { Errno::EREMCHG } else { Errno::ENOENT })
        }
        Some(_) => directory(records, fid),
    }
}

fn is_empty(records: &Records<'_>, dir: Fid) -> Result<bool, Errno> {
    let mut empty = true;
    records.entries(dir, None, &mut |_, _| {
        empty = false;
        ControlFlow::Break(())
    })?;
    Ok(empty)
}

/// The record of an inode, without what operations on names do not look at.
pub(super) fn record_without_rest(inode: &Inode) -> Result<Vec<u8>, Errno> {
    let Inode { attr, parent, flags, .. } = inode;
    let mut short = Inode { tail: Tail::new(), ..inode.clone() };
    if flags.contains(InodeFlags::STRIPED) {
        short.tail = tail::with(ItemTag::Stripes, &tail::stripes(inode)?.encode());
    }
    if flags.contains(InodeFlags::HAS_PROJECT) {
        tail::set_project(&mut short, tail::project(inode.fid(), &inode.tail)?)?;
    }
    let (flags, tail) = (flags.bits(), &short.tail);
    let record = InodeRecord { attr: *attr, parent: *parent, flags, base: 0, tail };
    let mut bytes = Vec::new();
    encode(&record, &mut bytes);
    Ok(bytes)
}
