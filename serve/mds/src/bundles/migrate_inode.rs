//! An inode that is no directory goes to another MDT (docs/dne.md, section 13).
//!
//! One bundle makes the new inode, has all names lead to it, and ends the old one. The objects of a
//! file, and the bytes that it has on its MDT, keep their names. No client may have it open. The
//! MDT of the old inode coordinates.

use super::coordinate::{AGAIN, Working};
use super::find::{find, mdt_of};
use super::gather::{Hindrance, Preparing};
use super::migrate::{AWAY_MAX, Leads, Tried, all_xattrs, leads};
use super::restripe::bytes_of;
use super::steps::record_of_inode;
use super::stripes::STEPS_BYTES_MAX;
use crate::locks::context::{LockContext, Obstacle};
use crate::mds::{Mds, alive};
use crate::records::Records;
use crate::records::part::Part;
use crate::records::tail::{self, damaged};
use disk::bundle::Step;
use disk::inode::ItemTag;
use disk::links;
use layout::codec;
use namespace::dom::Chunks;
use namespace::inode::{Inode, InodeFlags};
use namespace::view::{Change, View};
use rpc::service::Export;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use types::attr::FileType;
use types::bundle::BundleId;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;
use types::session::ClientUuid;
use types::target::TargetIndex;
use wire::mds::{PeerFacts, PeerFind};

/// What no client keeps of an inode that goes.
const ALL: InodeBits = InodeBits::LOOKUP
    .union(InodeBits::UPDATE)
    .union(InodeBits::PERM)
    .union(InodeBits::XATTR)
    .union(InodeBits::LAYOUT)
    .union(InodeBits::OPEN)
    .union(InodeBits::DATA)
    .union(InodeBits::WRITE);

/// A name as the inode records it: the directory, and the name.
type Place = (Fid, Name);

impl Mds {
    /// An inode goes to this MDT, if it is not there. That is durable then.
    ///
    /// # Errors
    /// ENOENT, ESTALE: it was removed; EBUSY: it is open, or its size is being found out; EMLINK:
    /// it has more names than are remembered; E2BIG: it has too many bytes at its MDT, or in
    /// extended attributes; ETIMEDOUT: an MDT is away; ENOSPC.
    pub(super) async fn migrate_inode(
        &self,
        export: &Export,
        fid: Fid,
        to: TargetIndex,
    ) -> Result<(), Errno> {
        if to == self.name.index {
            return Ok(());
        }
        let mut at: BTreeMap<Place, Fid> = BTreeMap::new();
        let (mut busy, mut away) = (0, 0);
        let _trying = self.trying();
        loop {
            self.sequence_of(Some(export), to).await?;
            let places = self.read(|records| places_of(&records.there(fid)?))?;
            match self.attempt_inode(fid, to, &places, &mut at).await? {
                Tried::Begun => {
                    // No client keeps it.
                    self.store.commit().await?;
                    return Ok(());
                }
                Tried::At(_) => {}
                Tried::Moved => {
                    at.clear();
                    self.pause_busy(busy).await?;
                    busy += 1;
                }
                Tried::Hindered(Hindrance::Busy) => {
                    self.pause_busy(busy).await?;
                    busy += 1;
                }
                Tried::Hindered(Hindrance::Away) => {
                    away += 1;
                    if away == AWAY_MAX {
                        return Err(Errno::ETIMEDOUT);
                    }
                    self.until_stopped(self.env.clock.sleep(AGAIN)).await?;
                }
            }
            alive(export)?;
        }
    }

    /// `at`: the stripes that have the names, as far as they are not those that the inode records.
    async fn attempt_inode(
        &self,
        fid: Fid,
        to: TargetIndex,
        places: &[Place],
        at: &mut BTreeMap<Place, Fid>,
    ) -> Result<Tried, Errno> {
        self.store.admit().await?;
        let begun = self.state.lock().bundles.coordinator.begin(Vec::new());
        let Some(id) = begun else { return Ok(Tried::Hindered(Hindrance::Away)) };
        let _working = Working::on(self, id);
        let names: Vec<(Fid, Name)> = places
            .iter()
            .map(|place| (at.get(place).copied().unwrap_or(place.0), place.1.clone()))
            .collect();
        let mut by_mdt: BTreeMap<TargetIndex, Vec<PeerFind>> = BTreeMap::new();
        for (dir, name) in &names {
            let find = PeerFind::Name { dir: *dir, name: name.clone(), loses: false };
            by_mdt.entry(mdt_of(&find)).or_default().push(find);
        }
        let own = by_mdt.remove(&self.name.index).unwrap_or_default();
        let mut asked = Preparing::of_itself(id);
        let pinned = self.pin_inode(id, fid, own).await;
        let mut all = match pinned {
            Err(Errno::EREMCHG | Errno::ENOENT) => return Ok(Tried::Moved),
            pinned => match pinned? {
                Ok(facts) => vec![facts],
                Err(hindrance) => return Ok(Tried::Hindered(hindrance)),
            },
        };
        match self.prepare_at(by_mdt, &mut asked).await {
            Err(Errno::EREMCHG | Errno::ENOENT) => return Ok(Tried::Moved),
            prepared => match prepared? {
                Ok(more) => all.extend(more),
                Err(hindrance) => return Ok(Tried::Hindered(hindrance)),
            },
        }
        for (place, (dir, name)) in places.iter().zip(&names) {
            match leads(&all, *dir, name, fid)? {
                Leads::There => {}
                Leads::Stripe(stripe) => {
                    at.insert(place.clone(), stripe);
                    return Ok(Tried::At(stripe));
                }
                Leads::Elsewhere => return Ok(Tried::Moved),
            }
        }
        let Some(new) = self.pinned_fids(id, &[to])?.and_then(|all| all.first().copied()) else {
            return Ok(Tried::Moved);
        };
        if let Err(hindrance) = self.prepare_new(&[new], &mut asked).await? {
            return Ok(Tried::Hindered(hindrance));
        }
        if !self.all_know_all(&mut asked).await? {
            return Ok(Tried::Hindered(Hindrance::Away));
        }
        let Some(steps) = self.draft_inode(id, (fid, new), places, &names)? else {
            return Ok(Tried::Moved);
        };
        Ok(match self.carry_alone(id, steps).await? {
            Ok(()) => Tried::Begun,
            Err(hindrance) => Tried::Hindered(hindrance),
        })
    }

    /// Pins the inode, and its names that are here. No client has it open, or keeps anything of it.
    async fn pin_inode(
        &self,
        id: BundleId,
        fid: Fid,
        mut finds: Vec<PeerFind>,
    ) -> Result<Result<PeerFacts, Hindrance>, Errno> {
        finds.push(PeerFind::Inode { fid, loses: true });
        let mut context = LockContext::own();
        context.asked.bundle = Some(id);
        let found = self
            .in_turn(&mut context, |context| {
                let found = self.transact(context, |records, _| {
                    let inode = records.there(fid)?;
                    if inode.file_type() == FileType::Regular {
                        self.may_swap(records, &inode, 0, 0)?;
                    }
                    records.before(&[Change::of(fid, ALL)])?;
                    records.used(ClientUuid::default(), fid, true);
                    if records.is_used(fid) {
                        return Err(Errno::EBUSY);
                    }
                    find(records, id, &finds)
                });
                let outcome = &mut context.outcome;
                // It begins anew, so that no bundle waits for another one.
                outcome.obstacle.take_if(|obstacle| matches!(obstacle, Obstacle::Pinned(_)));
                found
            })
            .await;
        let (facts, newest) = match found {
            Err(Errno::EAGAIN) => return Ok(Err(Hindrance::Busy)),
            found => found?,
        };
        self.commit_up_to(newest).await?;
        let seen = std::mem::take(&mut context.outcome.seen);
        if !seen.is_empty() {
            self.call_authors_back(seen, false).await;
        }
        Ok(Ok(facts))
    }

    /// `None`: it has changed since.
    fn draft_inode(
        &self,
        id: BundleId,
        (fid, new): (Fid, Fid),
        places: &[Place],
        names: &[(Fid, Name)],
    ) -> Result<Option<Vec<Step>>, Errno> {
        let mut context = LockContext::own();
        context.asked.bundle = Some(id);
        self.transact(&mut context, |records, _| {
            let inode = records.there(fid)?;
            if places_of(&inode)? != places {
                return Ok(None);
            }
            let mut steps = made_anew(records, &inode, new)?;
            for (dir, name) in names {
                let (dir, name, file_type) = (*dir, name.clone(), inode.file_type());
                steps.push(Step::Give { dir, name: name.clone(), file_type });
                steps.push(Step::Take { dir, name, fid: new, file_type });
            }
            steps.push(Step::Discard { fid });
            let bytes = steps.iter().map(bytes_of).sum::<usize>();
            if bytes > STEPS_BYTES_MAX { Err(Errno::E2BIG) } else { Ok(Some(steps)) }
        })
    }
}

/// All names of an inode.
///
/// # Errors
/// ENOENT: it has none; EMLINK: not all of them are remembered.
fn places_of(inode: &Inode) -> Result<Vec<Place>, Errno> {
    let fid = inode.fid();
    if inode.attr.nlink == 0 {
        return Err(Errno::ENOENT);
    }
    let list = tail::find(fid, &inode.tail, ItemTag::Links)?.unwrap_or_default();
    let mut places = Vec::new();
    for link in links::each(list) {
        let (dir, name) = link.map_err(|error| damaged(fid, &error))?;
        places.push((dir, Name::new(name)?));
    }
    if places.len() == inode.attr.nlink as usize { Ok(places) } else { Err(Errno::EMLINK) }
}

/// The new inode, with what belongs to it.
fn made_anew(records: &Records<'_>, old: &Inode, new: Fid) -> Result<Vec<Step>, Errno> {
    let fid = old.fid();
    let mut inode = old.clone();
    (inode.attr.fid, inode.attr.version) = (new, 0);
    let mut objects = None;
    if let Some(mut layout) = match old.file_type() {
        FileType::Regular => tail::layout(fid, &old.tail, ItemTag::Layout)?,
        _ => None,
    } {
        let named = layout.names(fid);
        let part = Part::of(&layout, fid);
        let has_data = old.flags.contains(InodeFlags::HAS_DATA);
        layout.generation += 1;
        layout.owner = if has_data { named } else { Fid::NONE };
        let mut bytes = Vec::new();
        codec::encode(&layout, &mut bytes);
        inode.tail = tail::replace(new, &inode.tail, ItemTag::Layout, Some(&bytes))?;
        if has_data {
            let (mut chunks, mut bytes) = (Vec::new(), 0);
            part.chunks(&records.tx).chunks(0..u32::MAX, &mut |n, chunk| {
                bytes += chunk.len();
                chunks.push((n, chunk.to_vec()));
                match bytes > STEPS_BYTES_MAX {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            })?;
            objects = Some(Step::Objects { fid: new, named, chunks });
        }
    }
    let xattrs = all_xattrs(records, fid)?;
    let make = Step::Make { fid: new, record: record_of_inode(&inode), xattrs };
    Ok([make].into_iter().chain(objects).collect())
}
