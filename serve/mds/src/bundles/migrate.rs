//! A directory begins to go to other MDTs (docs/dne.md, section 13).
//!
//! One bundle makes the new inodes, has the name lead to the first of them, and makes stripes of
//! it out of the old ones. No name has passed then: [`super::passing`] does that, at the MDT of the
//! new inode. The MDT of the old one coordinates this bundle.

use super::change::{as_shard, is_acl};
use super::coordinate::{AGAIN, Working};
use super::find::mdt_of;
use super::gather::{Hindrance, Preparing};
use super::pins::Pin;
use super::restripe::{bytes_of, stripes_of};
use super::steps::{inode_of, record_of_inode};
use super::stripes::{STEPS_BYTES_MAX, new_fids};
use crate::locks::context::LockContext;
use crate::mds::{Mds, alive};
use crate::records::Records;
use crate::records::tail::{self, damaged};
use disk::bundle::Step;
use disk::inode::ItemTag;
use disk::links;
use layout::dir_stripes::DirStripes;
use namespace::inode::{Inode, InodeFlags};
use namespace::view::{View, directory};
use rpc::service::Export;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use types::attr::FileType;
use types::bundle::BundleId;
use types::credentials::Credentials;
use types::dir_stripes::DirSpec;
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use types::target::TargetIndex;
use wire::mds::{PeerFacts, PeerFind};

/// How often it is tried while an MDT is away, [`AGAIN`] apart.
pub(super) const AWAY_MAX: u32 = 25;

/// What one attempt begins with.
struct Goes {
    /// The stripes that there are; `None`: it has none.
    stripes: Option<DirStripes>,
    /// Where its name is: the directory that it records, and the name.
    place: (Fid, Name),
    /// The new stripes.
    to: DirSpec,
}

impl Goes {
    /// The stripes that there are, itself first.
    fn all(&self, fid: Fid) -> Vec<Fid> {
        self.stripes.as_ref().map_or(vec![fid], |stripes| stripes.all().to_vec())
    }
}

/// How an attempt ended.
pub(super) enum Tried {
    /// It is done as far as one bundle does it.
    Begun,
    /// Another stripe of the directory above has the name. It is tried again there, and there only:
    /// what this attempt has pinned may be in the way of the next one for a moment.
    At(Fid),
    /// What is known of its names is too old: they are searched anew.
    Moved,
    /// It is tried again.
    Hindered(Hindrance),
}

impl Mds {
    /// A directory begins to go to these MDTs, if it is not there or on its way there; anything
    /// else goes to the one that is named. That is durable then. It may be asked for again.
    ///
    /// # Errors
    /// EPERM: the caller is not root; ENOTDIR: only a directory has several MDTs; ENOENT, ESTALE:
    /// it was removed; EBUSY: it is the root, or its names move already; ERANGE: there is no such
    /// MDT; E2BIG: more stripes than MDTs, or its extended attributes are too long for so many;
    /// ETIMEDOUT: an MDT stays away; ENOSPC; EREMCHG: `fid` is a shard.
    pub(crate) async fn migrate(
        &self,
        credentials: &Credentials,
        export: &Export,
        fid: Fid,
        spec: &DirSpec,
    ) -> Result<(), Errno> {
        self.ours(fid)?;
        if credentials.uid != 0 {
            return Err(Errno::EPERM);
        }
        if fid == Fid::ROOT {
            return Err(Errno::EBUSY);
        }
        let mdts = self.choose_mdts(spec).await?;
        self.all_answer(&mdts).await?;
        if !self.read(|records| Ok(records.there(fid)?.is_dir()))? {
            return match mdts[..] {
                [mdt] => self.migrate_inode(export, fid, mdt).await,
                _ => Err(Errno::ENOTDIR),
            };
        }
        let (mut busy, mut away, mut at) = (0, 0, None);
        let _trying = self.trying();
        loop {
            let Some(goes) = self.goes(fid, spec, &mdts)? else { return Ok(()) };
            for mdt in mdts.iter().filter(|mdt| **mdt != self.name.index) {
                self.sequence_of(Some(export), *mdt).await?;
            }
            match self.attempt_migrate(fid, &goes, at).await? {
                Tried::Begun => {
                    self.passing.wake();
                    // No client keeps it.
                    self.store.commit().await?;
                    tracing::info!(target = %self.name, %fid, ?mdts, "directory begins to go");
                    return Ok(());
                }
                Tried::At(stripe) => at = Some(stripe),
                Tried::Moved => {
                    at = None;
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

    /// Waits until these MDTs answer: one that restarts is away for a moment.
    ///
    /// # Errors
    /// ETIMEDOUT: one does not, [`AWAY_MAX`] times [`AGAIN`].
    async fn all_answer(&self, mdts: &[TargetIndex]) -> Result<(), Errno> {
        let ends = self.env.clock.now() + AWAY_MAX * AGAIN;
        loop {
            let spaces = self.spaces_of_mdts().await;
            let silent = |mdt: &&TargetIndex| {
                spaces.iter().any(|space| space.index == **mdt && !space.active && space.total == 0)
            };
            let Some(mdt) = mdts.iter().find(silent) else { return Ok(()) };
            // The next one that asks learns what is so then.
            self.mdt_spaces.forget();
            if self.env.clock.now() >= ends {
                tracing::warn!(target = %self.name, ?mdt, "a directory cannot go to an MDT that is away");
                return Err(Errno::ETIMEDOUT);
            }
            self.until_stopped(self.env.clock.sleep(AGAIN)).await?;
        }
    }

    /// `None`: nothing is to be done.
    fn goes(&self, fid: Fid, spec: &DirSpec, mdts: &[TargetIndex]) -> Result<Option<Goes>, Errno> {
        let (stripes, place) = self.read(|records| {
            let inode = directory(records, fid)?;
            Ok((stripes_of(&inode)?, place_of(&inode)?))
        })?;
        let hash = stripes.as_ref().filter(|all| all.count() > 1).map(DirStripes::hash);
        let is_at = |fids: &[Fid]| {
            fids.iter().map(|fid| fid.mdt()).eq(mdts.iter().map(|mdt| mdt.0))
                && hash.is_none_or(|hash| hash == spec.hash)
        };
        match &stripes {
            None if is_at(&[fid]) => return Ok(None),
            Some(all) if all.moving().is_some() => {
                // On its way: it may have been asked for twice.
                let new = &all.all()[..usize::from(all.count())];
                let same = !all.leaves().is_empty() && is_at(new);
                return if same { Ok(None) } else { Err(Errno::EBUSY) };
            }
            // Those that a merge has emptied go, too.
            Some(all) if is_at(all.all()) => return Ok(None),
            _ => {}
        }
        Ok(Some(Goes { stripes, place, to: DirSpec { mdts: mdts.to_vec(), ..spec.clone() } }))
    }

    async fn attempt_migrate(
        &self,
        fid: Fid,
        goes: &Goes,
        at: Option<Fid>,
    ) -> Result<Tried, Errno> {
        self.store.admit().await?;
        let begun = self.state.lock().bundles.coordinator.begin(Vec::new());
        let Some(id) = begun else { return Ok(Tried::Hindered(Hindrance::Away)) };
        let _working = Working::on(self, id);
        let (home, name) = &goes.place;
        let dir = at.unwrap_or(*home);
        let mut finds = vec![PeerFind::Name { dir, name: name.clone(), loses: false }];
        finds.extend(goes.all(fid).into_iter().map(|dir| PeerFind::Names {
            dir,
            after: None,
            limit: 0,
        }));
        let mut asked = Preparing::of_itself(id);
        let facts = match self.pin_names(finds.into_iter(), &mut asked).await {
            // It has been moved, or removed.
            Err(Errno::ENOENT | Errno::ESTALE | Errno::EREMCHG) => return Ok(Tried::Moved),
            facts => match facts? {
                Ok(facts) => facts,
                Err(hindrance) => return Ok(Tried::Hindered(hindrance)),
            },
        };
        match leads(&facts, dir, name, fid)? {
            Leads::There => {}
            Leads::Stripe(stripe) => return Ok(Tried::At(stripe)),
            Leads::Elsewhere => return Ok(Tried::Moved),
        }
        let Some(new) = self.pinned_fids(id, &goes.to.mdts)? else { return Ok(Tried::Moved) };
        if let Err(hindrance) = self.prepare_new(&new, &mut asked).await? {
            return Ok(Tried::Hindered(hindrance));
        }
        if !self.all_know_all(&mut asked).await? {
            return Ok(Tried::Hindered(Hindrance::Away));
        }
        let Some(steps) = self.draft_migrate((id, fid), goes, new, dir)? else {
            return Ok(Tried::Moved);
        };
        Ok(match self.carry_alone(id, steps).await? {
            Ok(()) => Tried::Begun,
            Err(hindrance) => Tried::Hindered(hindrance),
        })
    }

    /// As [`new_fids`]; those of this MDT are pinned.
    pub(super) fn pinned_fids(
        &self,
        id: BundleId,
        mdts: &[TargetIndex],
    ) -> Result<Option<Vec<Fid>>, Errno> {
        let last = self.store.last_committed();
        self.transact(&mut LockContext::own(), |records, _| {
            let Some(new) = new_fids(records, self.name.index, last, mdts)? else {
                return Ok(None);
            };
            let pins = &mut records.state.bundles.pins;
            let mut own = new.iter().filter(|fid| fid.mdt() == self.name.index.0);
            match own.all(|fid| pins.pin(id, Pin::Inode(*fid))) {
                true => Ok(Some(new)),
                false => Err(Errno::E2BIG),
            }
        })
    }

    /// The MDTs of inodes that a bundle makes prepare for them: a client that finds a name to lead
    /// to one waits for it there.
    pub(super) async fn prepare_new(
        &self,
        new: &[Fid],
        asked: &mut Preparing,
    ) -> Result<Result<(), Hindrance>, Errno> {
        let mut finds: BTreeMap<TargetIndex, Vec<PeerFind>> = BTreeMap::new();
        for fid in new {
            let find = PeerFind::Inode { fid: *fid, loses: false };
            finds.entry(mdt_of(&find)).or_default().push(find);
        }
        finds.remove(&self.name.index);
        Ok(self.prepare_at(finds, asked).await?.map(drop))
    }

    /// `dir`: the stripe that has its name; `new`: its new stripes. `None`: it has changed since.
    fn draft_migrate(
        &self,
        (id, fid): (BundleId, Fid),
        goes: &Goes,
        new: Vec<Fid>,
        dir: Fid,
    ) -> Result<Option<Vec<Step>>, Errno> {
        let mut context = LockContext::own();
        context.asked.bundle = Some(id);
        self.transact(&mut context, |records, _| {
            let inode = directory(records, fid)?;
            if stripes_of(&inode)? != goes.stripes || place_of(&inode)? != goes.place {
                return Ok(None);
            }
            let next = DirStripes::going(fid, goes.stripes.as_ref(), goes.to.hash, new);
            let next = next.map_err(|error| {
                tracing::error!(%fid, %error, "stripes that cannot be were chosen");
                Errno::EINVAL
            })?;
            let steps = begin(records, &inode, &next, (dir, &goes.place.1))?;
            let bytes = steps.iter().map(bytes_of).sum::<usize>();
            if bytes > STEPS_BYTES_MAX { Err(Errno::E2BIG) } else { Ok(Some(steps)) }
        })
    }
}

/// The directory that a directory records as the one above it, and its name there.
///
/// # Errors
/// EIO: its record does not say so.
fn place_of(inode: &Inode) -> Result<(Fid, Name), Errno> {
    let fid = inode.fid();
    let list = tail::find(fid, &inode.tail, ItemTag::Links)?.unwrap_or_default();
    let (parent, name) =
        links::each(list).next().ok_or(Errno::EIO)?.map_err(|error| damaged(fid, &error))?;
    Ok((parent, Name::new(name)?))
}

/// What an MDT has found of the name of a directory.
pub(super) enum Leads {
    /// The name leads to it.
    There,
    /// Another stripe has such names.
    Stripe(Fid),
    /// It has another name by now.
    Elsewhere,
}

/// Whether a name leads to this inode. `all` tells of its directory.
pub(super) fn leads(all: &[PeerFacts], dir: Fid, name: &Name, fid: Fid) -> Result<Leads, Errno> {
    let above = all.iter().flat_map(|facts| &facts.inodes).find(|found| found.fid == dir);
    let above = inode_of(dir, &above.ok_or(Errno::EIO)?.record)?;
    if above.flags.contains(InodeFlags::STRIPED) {
        let place = tail::stripes(&above)?.place(name.as_bytes());
        if place != dir {
            return Ok(Leads::Stripe(place));
        }
    }
    let mut names = all.iter().flat_map(|facts| &facts.names);
    let to = names.find(|found| found.dir == dir && found.name == *name).and_then(|found| found.to);
    let there = to.is_some_and(|to| to.0 == fid);
    Ok(if there { Leads::There } else { Leads::Elsewhere })
}

/// Name and value of an extended attribute.
type Xattr = (Vec<u8>, Vec<u8>);

/// All extended attributes of an inode.
pub(super) fn all_xattrs(records: &Records<'_>, fid: Fid) -> Result<Vec<Xattr>, Errno> {
    let (mut names, mut xattrs) = (Vec::new(), Vec::new());
    records.xattr_names(fid, &mut |name| {
        names.push(name.to_vec());
        ControlFlow::Continue(())
    })?;
    for name in names {
        if let Some(value) = records.xattr(fid, &name)? {
            xattrs.push((name, value));
        }
    }
    Ok(xattrs)
}

/// The steps. `name`: where its name is, and the name.
fn begin(
    records: &Records<'_>,
    inode: &Inode,
    next: &DirStripes,
    (dir, name): (Fid, &Name),
) -> Result<Vec<Step>, Errno> {
    let (fid, master, record) = (inode.fid(), next.master(), next.encode());
    let file_type = FileType::Directory;
    let xattrs = all_xattrs(records, fid)?;
    let mut shard = inode.clone();
    as_shard(&mut shard)?;
    shard.tail = tail::replace(fid, &shard.tail, ItemTag::Stripes, Some(&record))?;
    shard.flags.insert(InodeFlags::STRIPED);
    shard.parent = master;
    let mut steps = Vec::new();
    for new in &next.all()[..usize::from(next.count())] {
        let is_master = *new == master;
        let mut stripe = if is_master { inode.clone() } else { shard.clone() };
        stripe.tail = tail::replace(*new, &stripe.tail, ItemTag::Stripes, Some(&record))?;
        stripe.flags.insert(InodeFlags::STRIPED);
        (stripe.attr.fid, stripe.attr.version, stripe.attr.nlink) = (*new, 0, 2);
        let has = |(name, _): &&(Vec<u8>, Vec<u8>)| is_master || is_acl(name);
        let xattrs = xattrs.iter().filter(has).cloned().collect();
        steps.push(Step::Make { fid: *new, record: record_of_inode(&stripe), xattrs });
    }
    // It marks the directory as one whose names move.
    steps.push(Step::Restripe { fid: master, nlink: 0, record: record.clone() });
    // The old one becomes a shard.
    let gone = xattrs.into_iter().filter(|(name, _)| !is_acl(name)).map(|(name, _)| (name, None));
    steps.push(Step::Change {
        fid,
        atime: false,
        mtime: false,
        record: record_of_inode(&shard),
        xattrs: gone.collect(),
    });
    for old in next.leaves() {
        let from = if *old == fid { inode.parent } else { fid };
        let name = name.clone();
        steps.push(Step::Home { fid: *old, from, to: master, name, file_type });
        steps.push(Step::Restripe { fid: *old, nlink: 0, record: record.clone() });
    }
    steps.push(Step::Give { dir, name: name.clone(), file_type });
    steps.push(Step::Take { dir, name: name.clone(), fid: master, file_type });
    Ok(steps)
}
