//! A directory is made whose inode another MDT gets. Its name is here.

use super::coordinate::{Plan, TRIES_MAX};
use super::steps::record_of_inode;
use crate::mds::{Mds, RequestContext};
use crate::records::entry_of;
use disk::bundle::Step;
use namespace::create::{New, plan_elsewhere};
use rpc::import::ImportState;
use rpc::service::Export;
use types::attr::FileType;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::session::OpenHandle;
use types::target::TargetIndex;
use wire::mds::{Create, Entry, MdsReply};

/// The answer of a bundle that made a directory, which is shown to its author as it was made: so
/// that one need not ask the MDT that has it, which would answer only once it is durable there.
pub(super) fn made_elsewhere(entry: Entry) -> MdsReply {
    MdsReply::Opened { entry: Box::new(entry), created: true, handle: OpenHandle(0), layout: None }
}

impl Mds {
    /// Answers as [`Mds::create`], without locks on the directory. Waits while the other MDT is
    /// away.
    ///
    /// # Errors
    /// ERANGE: the configuration does not name the MDT; those of mkdir(2); ENOSPC also of the other
    /// MDT.
    pub(crate) async fn remote_mkdir(
        &self,
        request: &mut RequestContext<'_>,
        op: &Create,
        mdt: TargetIndex,
    ) -> Result<MdsReply, Errno> {
        self.ours(op.parent)?;
        if self.peers.get(mdt).is_none() {
            return Err(Errno::ERANGE);
        }
        let _trying = self.trying();
        for _ in 0..TRIES_MAX {
            self.sequence_of(Some(request.export), mdt).await?;
            self.until_it_answers(request.export, mdt).await?;
            let plan = self.in_turn(request, |request| self.plan_mkdir(request, op, mdt)).await?;
            let Some(plan) = plan else {
                self.pause(request.export).await?;
                continue;
            };
            if let Some(reply) = self.carry_through(request, plan).await? {
                return Ok(reply);
            }
        }
        Err(Errno::EBUSY)
    }

    /// Waits until there is a session with another MDT. Nothing is pinned yet: once the bundle is
    /// decided, the directory of the name is not shown until that MDT has answered, and one that is
    /// away may be so for long.
    ///
    /// # Errors
    /// ENOTCONN, ESHUTDOWN: the client or this MDT goes; ERANGE: that MDT was removed from the
    /// configuration.
    async fn until_it_answers(&self, export: &Export, mdt: TargetIndex) -> Result<(), Errno> {
        let began = self.env.clock.now();
        loop {
            let peer = self.peers.get(mdt).ok_or(Errno::ERANGE)?;
            if peer.import().state() == ImportState::Full {
                return Ok(());
            }
            if let Err(error) = self.until_stopped(peer.statfs(&Credentials::root())).await? {
                self.note_hindered(mdt, began);
                tracing::warn!(?mdt, %error, "another MDT is away, and gets no directory yet");
                self.pause(export).await?;
            }
        }
    }

    /// Checks, and pins the name. `None`: not now, for want of a FID or because of too many others.
    fn plan_mkdir(
        &self,
        request: &mut RequestContext<'_>,
        op: &Create,
        mdt: TargetIndex,
    ) -> Result<Option<Plan>, Errno> {
        let Create { parent, name, kind, mode, umask, .. } = op;
        self.plan(request, |records, ctx| {
            if !records.state.bundles.has_fid_of(mdt) {
                return Ok(None);
            }
            let (fid, file_type) = (Fid::NONE, FileType::Directory);
            let new = New { fid, file_type, mode: *mode, umask: *umask, rdev: 0, size: 0 };
            let mut planned = plan_elsewhere(records, ctx, *parent, name.as_bytes(), new, |dir| {
                self.new_tail(dir, kind, false)
            })?;
            let Some(fid) = records.state.bundles.fid_of(mdt) else { return Ok(None) };
            planned.inode.attr.fid = fid;
            planned.inode.attr.version = 0;
            let xattrs =
                planned.xattrs.into_iter().map(|(name, value)| (name.to_vec(), value)).collect();
            let steps = vec![
                Step::Make { fid, record: record_of_inode(&planned.inode), xattrs },
                Step::Enter { dir: *parent, name: name.clone(), fid, file_type, time: ctx.now },
            ];
            let reply = made_elsewhere(entry_of(&planned.inode));
            Ok(self.begin(records, mdt, (*parent, name), steps, reply))
        })
    }
}
