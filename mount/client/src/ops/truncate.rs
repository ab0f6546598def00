//! New sizes: the MDT first, which checks and decides, then the objects.
//!
//! Between the two the objects may hold bytes beyond the end. So the file's tail counts as suspect
//! until the last object is cut; if this operation ends in between, the next change of the file
//! cuts them (`repair_tail`).

use crate::caller::Stat;
use crate::client::Client;
use crate::counters::Operation;
use crate::file::File;
use crate::finish::Finish;
use crate::locks::data_guards::DataAccess;
use env::BoxFuture;
use layout::layout::{EOF, Layout};
use layout::size::cuts;
use rpc::error::RpcError;
use session::epoch::SessionEpoch;
use session::error::ClientError;
use session::fan_out::fan_out;
use session::targets::{getattr_and_layout, misfit, two};
use std::sync::Arc;
use types::attr::{SetAttr, WrittenAt};
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::FILE_BYTES_MAX;
use types::object::FileOffset;
use wire::mds::{GetLayout, MdsOp, MdsReply, Setattr, Wrote};
use wire::ost::PunchKind;

/// The report that objects were cut: blocks go, the size stays.
const fn cut_by(fid: Fid, blocks_delta: i64) -> Wrote {
    Wrote { fid, end: 0, blocks_delta, at: WrittenAt::Now, kill_suidgid: false }
}

impl Client {
    /// Changes attributes that include the size. 2 round trips, 3 if space was freed, one more if
    /// WRITE is not held.
    pub(crate) async fn truncate(
        self: Arc<Self>,
        credentials: Credentials,
        fid: Fid,
        set: SetAttr,
    ) -> Result<Stat, ClientError> {
        let _timed = self.timed(Operation::Truncate);
        let size = set.size.ok_or(Errno::EINVAL)?;
        if size > FILE_BYTES_MAX {
            return Err(ClientError::TooFar(size));
        }
        let file = self.files.get(fid);
        let tasks = self.session.env.tasks.clone();
        let work = async move {
            let cut = |epoch| self.truncate_in_turn(&credentials, &file, epoch, set, size);
            self.if_not_executed(None, || self.session.in_epoch(fid, cut)).await
        };
        Finish::new("truncate", &tasks, work).await
    }

    async fn truncate_in_turn(
        &self,
        credentials: &Credentials,
        file: &Arc<File>,
        epoch: SessionEpoch,
        set: SetAttr,
        size: u64,
    ) -> Result<Stat, ClientError> {
        let (_used, _alone) = loop {
            let guard = self.data_guard(file, DataAccess::WRITE_ALL).await?;
            let alone = file.gate.write().await;
            if self.writeback.kernel_eof.is_quiet(file.fid) {
                break (guard, alone);
            }
            // An end that is on its way to the kernel would arrive after this one; and what it
            // waits for may wait for the gate.
            drop((alone, guard));
            self.writeback.kernel_eof.quiesce(file.fid).await;
        };
        // Also bytes that will be cut: afterwards no earlier dirty data has to be considered.
        self.flush_locked(file).await?;
        self.truncate_alone(credentials, file, epoch, set, size).await
    }

    async fn truncate_alone(
        &self,
        credentials: &Credentials,
        file: &File,
        epoch: SessionEpoch,
        set: SetAttr,
        size: u64,
    ) -> Result<Stat, ClientError> {
        let fid = file.fid;
        // Growing must not show what lies beyond the old end, so that is cut first.
        self.repair_tail(credentials, file, epoch).await?;
        let mdc = self.session.mdc(fid)?;
        // Until the kernel has the answer it accepts no other size; other clients may see its
        // attributes changed by then.
        self.locks.hide_attr(fid).await;
        file.mark_tail(true);
        let setattr = MdsOp::Setattr(Setattr { fid, set });
        let get_layout = MdsOp::GetLayout(GetLayout { fid, write: false, start: 0, end: EOF });
        let (entry, layout) = match two(&mdc, credentials, setattr, get_layout).await {
            Ok((MdsReply::Entry(entry), Ok(MdsReply::Layout(layout)))) => (entry, file.learn_layout(layout)),
            Ok((_, Err(error))) => return Err(error),
            Ok(other) => return Err(misfit(mdc.import(), &other)),
            Err(error) => {
                // Refused: nothing has changed. Without an answer the mark stays.
                file.mark_tail(!matches!(error, ClientError::Rpc(RpcError::Errno(_))));
                return Err(error);
            }
        };
        file.learn(&entry.attr);
        self.rest_on_answers(file);
        let freed = self.cut(&layout, file, epoch, size).await?;
        file.mark_tail(false);
        if freed == 0 {
            return Ok(self.changed_stat(&entry.attr));
        }
        let entry = mdc.wrote(credentials, cut_by(fid, freed)).await?;
        Ok(self.changed_stat(&entry.attr))
    }

    /// Cuts what objects may hold beyond the end of the file, if this client has reason to doubt
    /// it. The caller has the gate to itself.
    pub(crate) async fn repair_tail(
        &self,
        credentials: &Credentials,
        file: &File,
        epoch: SessionEpoch,
    ) -> Result<(), ClientError> {
        if !file.tail_is_suspect() {
            return Ok(());
        }
        let fid = file.fid;
        let mdc = self.session.mdc(fid)?;
        let (attr, layout) = getattr_and_layout(&mdc, credentials, fid).await?;
        file.learn(&attr);
        self.rest_on_answers(file);
        let layout = file.learn_layout(layout);
        let freed = self.cut(&layout, file, epoch, attr.size).await?;
        file.mark_tail(false);
        if freed != 0 {
            mdc.wrote(credentials, cut_by(fid, freed)).await?;
        }
        Ok(())
    }

    /// Cuts all objects to a file size; returns the 512-byte blocks they grew by (so at most 0).
    async fn cut(&self, layout: &Layout, file: &File, epoch: SessionEpoch, size: u64) -> Result<i64, ClientError> {
        let fid = file.fid;
        // If this client and the MDT died now, the file would keep its old size, and no mark would
        // lead to what was cut.
        self.until_recorded(file).await?;
        let mut work: Vec<BoxFuture<'static, Result<i64, ClientError>>> = Vec::new();
        for cut in cuts(layout, fid, FileOffset(size)) {
            let osc = self.session.targets.osc(cut.ost)?;
            work.push(Box::pin(async move { Ok(osc.punch(cut.object, cut.at, cut.at, PunchKind::Truncate).await?) }));
        }
        let connections = self.session.ost_connections();
        let answers = self.session.while_trusted(fid, epoch, fan_out(work)).await;
        self.note_reconnected(file, connections);
        answers?.into_iter().sum()
    }
}
