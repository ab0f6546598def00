//! A directory begins to be split or merged (docs/dne.md, section 12).
//!
//! One bundle makes the stripes that are missing, and writes into all of them where names go. No
//! name has passed then: [`super::passing`] does that. The MDT of the directory itself coordinates.

use super::change::as_shard;
use super::coordinate::{AGAIN, Working};
use super::gather::{Hindrance, Preparing};
use super::steps::record_of_inode;
use super::stripes::STEPS_BYTES_MAX;
use crate::locks::context::LockContext;
use crate::mds::{Mds, alive};
use crate::records::{Records, tail};
use disk::bundle::Step;
use disk::inode::ItemTag;
use layout::dir_stripes::DirStripes;
use namespace::acl::{ACL_ACCESS, ACL_DEFAULT};
use namespace::inode::{Inode, InodeFlags};
use namespace::view::{View, directory};
use rpc::service::Export;
use types::bundle::BundleId;
use types::credentials::Credentials;
use types::dir_stripes::{DirHash, DirSpec};
use types::errno::Errno;
use types::fid::Fid;
use types::limits::DIR_STRIPES_MAX;
use types::target::TargetIndex;
use wire::mds::PeerFind;

/// How often it is tried for no client.
const TRIES_MAX: u32 = 16;

/// What a directory is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restripe {
    /// Stripes with names; 0 and 1: one, [`DIR_STRIPES_MAX`]: one on each MDT.
    pub(crate) count: u16,
    /// How names tell their stripes; `None`: as they do.
    pub(crate) hash: Option<DirHash>,
    /// No administrator asks for it.
    pub(crate) by_itself: bool,
}

/// What one attempt begins with.
struct Begins {
    /// The stripes that there are; `None`: it has none.
    stripes: Option<DirStripes>,
    count: u16,
    hash: DirHash,
    /// The MDTs of the stripes that are missing.
    mdts: Vec<TargetIndex>,
    by_itself: bool,
}

impl Begins {
    /// The stripes that there are, itself first.
    fn all(&self, fid: Fid) -> Vec<Fid> {
        self.stripes.as_ref().map_or(vec![fid], |stripes| stripes.all().to_vec())
    }
}

impl Mds {
    /// Names of a directory begin to move, if it is not as is wished. That is durable then. It may
    /// be asked for again. Waits while an MDT that takes part is away. `export`: the client that
    /// asks.
    ///
    /// # Errors
    /// EPERM: the caller does not own it; ENOTDIR; ENOENT: it was removed; EBUSY: names move
    /// already; E2BIG: more stripes than MDTs, or its ACLs are too long for so many; ENOSPC;
    /// EREMCHG: `fid` is a shard.
    pub(crate) async fn restripe(
        &self,
        credentials: &Credentials,
        export: Option<&Export>,
        fid: Fid,
        wanted: Restripe,
    ) -> Result<(), Errno> {
        self.ours(fid)?;
        let (mut busy, mut tries) = (0, 0);
        let _trying = self.trying();
        loop {
            let Some(begins) = self.begins(export, fid, wanted).await? else { return Ok(()) };
            match self.attempt_restripe(credentials, fid, &begins).await? {
                Ok(()) => {
                    self.passing.wake();
                    // No client keeps it.
                    self.store.commit().await?;
                    return Ok(());
                }
                Err(Hindrance::Busy) => {
                    self.pause_busy(busy).await?;
                    busy += 1;
                }
                Err(Hindrance::Away) => {
                    self.until_stopped(self.env.clock.sleep(AGAIN)).await?;
                }
            }
            export.map_or(Ok(()), alive)?;
            tries += 1;
            if export.is_none() && tries == TRIES_MAX {
                return Err(Errno::EAGAIN);
            }
        }
    }

    /// `None`: nothing is to be done.
    async fn begins(
        &self,
        export: Option<&Export>,
        fid: Fid,
        wanted: Restripe,
    ) -> Result<Option<Begins>, Errno> {
        let stripes = self.read(|records| stripes_of(&directory(records, fid)?))?;
        let mdts = self.all_mdts().len();
        let count = match usize::from(wanted.count) {
            0 => 1,
            DIR_STRIPES_MAX => mdts.min(DIR_STRIPES_MAX),
            count => count,
        };
        let now = stripes.as_ref().map_or(1, DirStripes::count);
        let hash = stripes.as_ref().map(DirStripes::hash);
        let wishes = wanted.hash.or(hash).unwrap_or_default();
        let moves = stripes.as_ref().is_some_and(|stripes| stripes.moving().is_some());
        if usize::from(now) == count && (hash == Some(wishes) || count == 1 && !moves) {
            return Ok(None);
        }
        if moves {
            return Err(Errno::EBUSY);
        }
        let count16 = count as u16; // no more than MDTs, or it is refused below
        let by_itself = wanted.by_itself;
        let mut begins =
            Begins { stripes, count: count16, hash: wishes, mdts: Vec::new(), by_itself };
        let have: Vec<TargetIndex> =
            begins.all(fid).iter().map(|stripe| TargetIndex(stripe.mdt())).collect();
        if have.len() < count {
            let spec =
                DirSpec { count: begins.count, hash: wishes, mdts: have.clone(), any: false };
            begins.mdts = self.choose_mdts(&spec).await?.split_off(have.len());
        }
        for mdt in &begins.mdts {
            self.sequence_of(export, *mdt).await?;
        }
        Ok(Some(begins))
    }

    async fn attempt_restripe(
        &self,
        credentials: &Credentials,
        fid: Fid,
        begins: &Begins,
    ) -> Result<Result<(), Hindrance>, Errno> {
        self.store.admit().await?;
        let begun = self.state.lock().bundles.coordinator.begin(Vec::new());
        let Some(id) = begun else { return Ok(Err(Hindrance::Away)) };
        let _working = Working::on(self, id);
        let pins = |dir: Fid| PeerFind::Names { dir, after: None, limit: 0 };
        let all = begins.all(fid).into_iter().map(pins);
        let mut asked = Preparing::of_itself(id);
        if let Err(hindrance) = self.pin_names(all, &mut asked).await? {
            return Ok(Err(hindrance));
        }
        let nothing = begins.mdts.iter().map(|mdt| (*mdt, Vec::new())).collect();
        if let Err(hindrance) = self.prepare_at(nothing, &mut asked).await? {
            return Ok(Err(hindrance));
        }
        if !self.all_know_all(&mut asked).await? {
            return Ok(Err(Hindrance::Away));
        }
        match self.draft_restripe(credentials, id, fid, begins)? {
            Some(steps) => self.carry_alone(id, steps).await,
            None => Ok(Err(Hindrance::Busy)),
        }
    }

    /// `None`: it has changed since, or there are too few FIDs.
    fn draft_restripe(
        &self,
        credentials: &Credentials,
        id: BundleId,
        fid: Fid,
        begins: &Begins,
    ) -> Result<Option<Vec<Step>>, Errno> {
        let mut context = LockContext::own();
        context.asked.bundle = Some(id);
        self.transact_as(credentials, &mut context, |records, ctx| {
            let inode = directory(records, fid)?;
            if !ctx.owns(inode.attr.uid) {
                return Err(Errno::EPERM);
            }
            if stripes_of(&inode)? != begins.stripes {
                return Ok(None);
            }
            let bundles = &mut records.state.bundles;
            let more: Option<Vec<Fid>> =
                begins.mdts.iter().map(|mdt| bundles.fid_of(*mdt)).collect();
            let Some(more) = more else { return Ok(None) };
            let next = match &begins.stripes {
                None => DirStripes::split(fid, begins.hash, more.clone()),
                Some(stripes) => stripes.restriped(begins.hash, begins.count, more.clone()),
            };
            let next = next.map_err(|error| {
                tracing::error!(%fid, %error, "stripes that cannot be were chosen");
                Errno::EINVAL
            })?;
            let next = if begins.by_itself { next.by_itself() } else { next };
            begin(records, &inode, &begins.all(fid), &more, &next).map(Some)
        })
    }
}

/// The stripes of a directory; `None`: it has none.
///
/// # Errors
/// EREMCHG: it is a shard; EIO.
pub(super) fn stripes_of(inode: &Inode) -> Result<Option<DirStripes>, Errno> {
    if !inode.flags.contains(InodeFlags::STRIPED) {
        return Ok(None);
    }
    let stripes = tail::stripes(inode)?;
    if stripes.master() == inode.fid() { Ok(Some(stripes)) } else { Err(Errno::EREMCHG) }
}

/// The steps: all stripes that there are learn it, and the new ones are made, as copies of the
/// directory.
fn begin(
    records: &Records<'_>,
    inode: &Inode,
    all: &[Fid],
    more: &[Fid],
    next: &DirStripes,
) -> Result<Vec<Step>, Errno> {
    let record = next.encode();
    let known = |fid: &Fid| Step::Restripe { fid: *fid, nlink: 0, record: record.clone() };
    let mut steps: Vec<Step> = all.iter().map(known).collect();
    let mut xattrs = Vec::new();
    for name in [ACL_ACCESS, ACL_DEFAULT] {
        if let Some(value) = records.xattr(inode.fid(), name)? {
            xattrs.push((name.to_vec(), value));
        }
    }
    for fid in more {
        let mut shard = inode.clone();
        (shard.attr.fid, shard.attr.version, shard.attr.nlink) = (*fid, 0, 2);
        shard.parent = inode.fid();
        as_shard(&mut shard)?;
        shard.tail = tail::replace(*fid, &shard.tail, ItemTag::Stripes, Some(&record))?;
        shard.flags.insert(InodeFlags::STRIPED);
        let record = record_of_inode(&shard);
        steps.push(Step::Make { fid: *fid, record, xattrs: xattrs.clone() });
    }
    let bytes = steps.iter().map(bytes_of).sum::<usize>();
    if bytes > STEPS_BYTES_MAX { Err(Errno::E2BIG) } else { Ok(steps) }
}

/// Bytes of a step that count: those of records and extended attributes.
pub(super) fn bytes_of(step: &Step) -> usize {
    match step {
        Step::Make { record, xattrs, .. } => {
            record.len()
                + xattrs.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
        }
        Step::Objects { chunks, .. } => chunks.iter().map(|(_, bytes)| bytes.len() + 8).sum(),
        Step::Restripe { record, .. } | Step::Change { record, .. } => record.len(),
        _ => 0,
    }
}
