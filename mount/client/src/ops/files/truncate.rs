//! New sizes: the MDT first, which checks and decides, then the objects.
//!
//! Between the two the objects may hold bytes beyond the end. So the file's tail counts as suspect
//! until the last object is cut; if this operation ends in between, the next change of the file
//! cuts them (`repair_tail`).

use crate::caller::Stat;
use crate::client::Client;
use crate::counters::Operation;
use data::cut::cut_by;
use data::file::File;
use data::finish::Finish;
use data::locks::data_guards::DataAccess;
use layout::layout::EOF;
use rpc::error::RpcError;
use session::epoch::SessionEpoch;
use session::error::ClientError;
use session::targets::{misfit, two};
use std::sync::Arc;
use types::attr::SetAttr;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::FILE_BYTES_MAX;
use wire::mds::{GetLayout, MdsOp, MdsReply, Setattr};

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
        let file = self.data.files.get(fid);
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
            let guard = self.data.data_guard(file, DataAccess::WRITE_ALL).await?;
            let alone = file.alone().await;
            if self.data.writeback.kernel_eof.is_quiet(file.fid) {
                break (guard, alone);
            }
            // An end that is on its way to the kernel would arrive after this one; and what it
            // waits for may wait for the gate.
            drop((alone, guard));
            self.data.writeback.kernel_eof.quiesce(file.fid).await;
        };
        // Also bytes that will be cut: afterwards no earlier dirty data has to be considered.
        self.data.flush_locked(file).await?;
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
        self.data.repair_tail(credentials, file, epoch).await?;
        let mdc = self.session.mdc(fid)?;
        // Until the kernel has the answer it accepts no other size; other clients may see its
        // attributes changed by then.
        self.locks.hide_attr(fid).await;
        file.mark_tail(true);
        let setattr = MdsOp::Setattr(Setattr { fid, set });
        let get_layout = MdsOp::GetLayout(GetLayout { fid, write: false, start: 0, end: EOF });
        let (entry, layout) = match two(&mdc, credentials, setattr, get_layout).await {
            Ok((MdsReply::Entry(entry), Ok(MdsReply::Layout(layout)))) => {
                (entry, file.learn_layout(layout))
            }
            Ok((_, Err(error))) => return Err(error),
            Ok(other) => return Err(misfit(mdc.import(), &other)),
            Err(error) => {
                // Refused: nothing has changed. Without an answer the mark stays.
                file.mark_tail(!matches!(error, ClientError::Rpc(RpcError::Errno(_))));
                return Err(error);
            }
        };
        file.learn(&entry.attr);
        self.data.rest_on_answers(file);
        // On a mount that tells no opens other clients may free the file from here on. The MDT did
        // this truncate before that, so it has happened.
        let freed = match self.data.cut(&layout, file, epoch, size).await {
            Err(error) if is_gone(error.errno()) => return Ok(self.changed_stat(&entry.attr)),
            freed => freed?,
        };
        file.mark_tail(false);
        if freed == 0 {
            return Ok(self.changed_stat(&entry.attr));
        }
        match mdc.wrote(credentials, cut_by(fid, freed)).await {
            Err(error) if is_gone(error.errno()) => Ok(self.changed_stat(&entry.attr)),
            entry => Ok(self.changed_stat(&entry?.attr)),
        }
    }
}

/// Whether this says that the file has been freed.
fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::ENOENT | Errno::ESTALE)
}
