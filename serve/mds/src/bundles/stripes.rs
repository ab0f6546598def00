//! A directory is made that is striped over several MDTs. Its name is here.
//!
//! Each stripe is an inode that never was, so nothing is to be pinned at the others. But they
//! prepare: each must know all that take part, in case this MDT dies.

use super::coordinate::Working;
use super::gather::{Hindrance, Preparing};
use super::mkdir::made_elsewhere;
use super::pins::Pin;
use super::steps::record_of_inode;
use crate::dir_placement::Wanted;
use crate::mds::{Mds, RequestContext};
use crate::records::{Records, entry_of, tail};
use disk::bundle::Step;
use disk::inode::ItemTag;
use layout::dir_stripes::DirStripes;
use namespace::create::{New, Planned, plan_elsewhere};
use namespace::inode::{Inode, InodeFlags};
use types::attr::{Attr, FileType};
use types::bundle::BundleId;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::BUNDLE_BYTES_MAX;
use types::session::Transno;
use types::target::TargetIndex;
use wire::mds::{Create, Entry, MdsReply};

/// Bytes of the steps of one directory, at most: the record of the bundle has a reply, too.
pub(super) const STEPS_BYTES_MAX: usize = BUNDLE_BYTES_MAX * 3 / 4;

/// What is made, after all checks.
struct Draft {
    steps: Vec<Step>,
    reply: MdsReply,
    /// Everything that was found here is durable when this is.
    found: Transno,
}

impl Mds {
    /// Answers as [`Mds::create`], without locks on the directory. Waits while an MDT is away.
    ///
    /// # Errors
    /// Those of mkdir(2); ENOSPC also of the other MDTs; E2BIG: its ACLs are too long for so many
    /// stripes; ERANGE: the configuration does not name an MDT any more.
    pub(crate) async fn striped_mkdir(
        &self,
        request: &mut RequestContext<'_>,
        op: &Create,
        wanted: Wanted<'_>,
    ) -> Result<MdsReply, Errno> {
        self.ours(op.parent)?;
        let mut busy = 0;
        let _trying = self.trying();
        loop {
            match self.attempt_stripes(request, op, wanted).await? {
                Ok(reply) => return Ok(reply),
                Err(Hindrance::Busy) => {
                    self.back_off(request.export, busy).await?;
                    busy += 1;
                }
                Err(Hindrance::Away) => self.pause(request.export).await?,
            }
        }
    }

    async fn attempt_stripes(
        &self,
        request: &mut RequestContext<'_>,
        op: &Create,
        wanted: Wanted<'_>,
    ) -> Result<Result<MdsReply, Hindrance>, Errno> {
        let others = || wanted.mdts.iter().copied().filter(|mdt| *mdt != self.name.index);
        for mdt in others() {
            self.sequence_of(Some(request.export), mdt).await?;
        }
        let begun = self.state.lock().bundles.coordinator.begin(Vec::new());
        let Some(id) = begun else { return Ok(Err(Hindrance::Away)) };
        let _working = Working::on(self, id);
        let drafted =
            self.in_turn(request, |request| self.draft_stripes(request, op, wanted, id)).await?;
        let Some(Draft { steps, reply, found }) = drafted else { return Ok(Err(Hindrance::Away)) };
        self.commit_up_to(found).await?;
        let nothing = others().map(|mdt| (mdt, Vec::new())).collect();
        if let Err(hindrance) = self.prepare_at(nothing, &mut Preparing::of_itself(id)).await? {
            return Ok(Err(hindrance));
        }
        let done = self.decide_and_apply(request, id, steps, reply).await?;
        Ok(done.ok_or(Hindrance::Away))
    }

    /// Checks, and pins the name. `None`: there are too few FIDs.
    fn draft_stripes(
        &self,
        request: &mut RequestContext<'_>,
        op: &Create,
        Wanted { mdts, hash }: Wanted<'_>,
        id: BundleId,
    ) -> Result<Option<Draft>, Errno> {
        let Create { parent, name, kind, mode, umask, .. } = op;
        let last = self.store.last_committed();
        self.plan(request, |records, ctx| {
            let (fid, file_type) = (Fid::NONE, FileType::Directory);
            let new = New { fid, file_type, mode: *mode, umask: *umask, rdev: 0, size: 0 };
            let planned = plan_elsewhere(records, ctx, *parent, name.as_bytes(), new, |dir| {
                self.new_tail(dir, kind, false)
            })?;
            let found = records.newest_of(*parent, name.as_bytes());
            let Some(fids) = new_fids(records, self.name.index, last, mdts)? else {
                return Ok(None);
            };
            let stripes = DirStripes::new(hash, fids).map_err(|error| {
                tracing::error!(%error, ?mdts, "stripes that cannot be were chosen");
                Errno::EINVAL
            })?;
            let (fid, time) = (stripes.master(), ctx.now);
            let mut steps = makes(&planned, &stripes)?;
            steps.push(Step::Enter { dir: *parent, name: name.clone(), fid, file_type, time });
            records.state.bundles.pins.pin(id, Pin::Name(*parent, name.clone()));
            let attr = Attr { fid, version: 0, ..planned.inode.attr };
            let striped = stripes.generation();
            let reply = made_elsewhere(Entry { attr, striped, ..entry_of(&planned.inode) });
            Ok(Some(Draft { steps, reply, found }))
        })
    }
}

/// FIDs of inodes that a bundle makes, one on each of these MDTs; `me` is this one, and `last` the
/// newest durable transno. `None`: another MDT has granted too few.
///
/// # Errors
/// This MDT has none left.
pub(super) fn new_fids(
    records: &mut Records<'_>,
    me: TargetIndex,
    last: Transno,
    mdts: &[TargetIndex],
) -> Result<Option<Vec<Fid>>, Errno> {
    let Records { tx, state, .. } = records;
    let fid = |mdt: &TargetIndex| match *mdt == me {
        true => state.fids.next(tx, last).map(Some),
        false => Ok(state.bundles.fid_of(*mdt)),
    };
    mdts.iter().map(fid).collect()
}

/// One step for each stripe. The directory itself has its name and all extended attributes, the
/// shards what they need to check and to hand on.
fn makes(planned: &Planned, stripes: &DirStripes) -> Result<Vec<Step>, Errno> {
    let Planned { inode, xattrs } = planned;
    let (master, record) = (stripes.master(), stripes.encode());
    let mut steps = Vec::with_capacity(stripes.all().len() + 1);
    let mut bytes = 0;
    for fid in stripes.all() {
        let mut stripe = Inode { flags: inode.flags | InodeFlags::STRIPED, ..inode.clone() };
        stripe.tail = tail::replace(*fid, &stripe.tail, ItemTag::Stripes, Some(&record))?;
        if *fid != master {
            stripe.tail = tail::replace(*fid, &stripe.tail, ItemTag::Links, None)?;
            stripe.parent = master;
        }
        (stripe.attr.fid, stripe.attr.version) = (*fid, 0);
        let record = record_of_inode(&stripe);
        let xattrs: Vec<_> =
            xattrs.iter().map(|(name, value)| (name.to_vec(), value.clone())).collect();
        bytes += record.len() + xattrs.iter().map(|(n, v)| n.len() + v.len()).sum::<usize>();
        steps.push(Step::Make { fid: *fid, record, xattrs });
    }
    if bytes > STEPS_BYTES_MAX { Err(Errno::E2BIG) } else { Ok(steps) }
}
