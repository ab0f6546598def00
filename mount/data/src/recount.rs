//! Blocks of a file after an OST answered twice, or not at all.
//!
//! An OST answers a write or cut with how much the object grew. If the connection is lost before
//! the answer comes, the client sends the request again, and this time the object does not grow:
//! the MDT is told of no growth. So if an OST was connected anew during a change of objects, the
//! client asks all objects of the file for their blocks before it closes the file, and tells the
//! MDT the difference. A client that dies before leaves a writer mark, and the MDT counts.
//!
//! The client counts under WRITE of the whole file and alone at the file's gate, when everything is
//! stored and reported. So nothing changes the file between the count and its report. It reports no
//! size, because it changed none.

use crate::file::File;
use crate::kernel_view::timers::GIVES_WAY;
use crate::locks::data_guards::DataAccess;
use crate::path::DataPath;
use env::BoxFuture;
use session::epoch::SessionEpoch;
use session::error::ClientError;
use session::fan_out::fan_out;
use session::targets::{getattr_and_layout, misfit};
use std::sync::Arc;
use types::attr::WrittenAt;
use types::credentials::Credentials;
use wire::mds::{MdsOp, MdsReply, Wrote};

impl DataPath {
    /// Objects of the file were changed since this number of connections.
    pub fn note_reconnected(&self, file: &File, before: u64) {
        if self.session.ost_connections() != before {
            file.mark_miscounted(true);
        }
    }

    /// Reports the number of blocks of a file's objects to the MDT, if its count may be wrong.
    /// Returns early, with the mark left, when another client has waited for the file too long.
    /// Costs 1 round trip and a request to each object.
    ///
    /// # Errors
    /// A target does not answer: the mark stays.
    pub async fn recount(&self, file: &Arc<File>) -> Result<(), ClientError> {
        if !file.is_miscounted() {
            return Ok(());
        }
        let fid = file.fid;
        self.session.in_epoch(fid, |epoch| self.recount_in_turn(file, epoch)).await
    }

    async fn recount_in_turn(
        &self,
        file: &Arc<File>,
        epoch: SessionEpoch,
    ) -> Result<(), ClientError> {
        let fid = file.fid;
        let alone = (self.data_guard(file, DataAccess::WRITE_ALL).await?, file.alone().await);
        self.flush_locked(file).await?;
        let counted = tokio::select! {
            biased;
            counted = self.count_blocks(file) => Some(counted?),
            // An OST may be away, and a callback must not wait for it: the MDT would evict this
            // client.
            () = self.locks.data_wanted(fid, GIVES_WAY) => None,
        };
        let Some(counted) = counted else {
            drop(alone);
            self.locks.data_unstopped(fid).await;
            return Ok(());
        };
        if self.session.epoch(fid) == epoch {
            self.tell_blocks(file, counted).await?;
            file.mark_miscounted(false);
        }
        Ok(())
    }

    /// Number of blocks that the objects have beyond those the MDT knows of.
    async fn count_blocks(&self, file: &File) -> Result<i64, ClientError> {
        let (fid, mdc) = (file.fid, self.session.mdc(file.fid)?);
        let (attr, layout) = getattr_and_layout(&mdc, &Credentials::root(), fid).await?;
        if layout.mdt_bytes() > 0 {
            // Only the MDT knows how many of its blocks it has itself; it counts all when the file
            // is settled.
            return Ok(0);
        }
        let mut work: Vec<BoxFuture<'static, Result<u64, ClientError>>> = Vec::new();
        for (ost, object) in layout.objects(fid) {
            let osc = self.session.targets.osc(ost)?;
            work.push(Box::pin(async move { Ok(osc.getattr(object).await?.1) }));
        }
        let mut blocks = 0u64;
        for answer in fan_out(work).await {
            blocks = blocks.saturating_add(answer?);
        }
        Ok(blocks as i64 - attr.blocks as i64)
    }

    async fn tell_blocks(&self, file: &File, blocks_delta: i64) -> Result<(), ClientError> {
        if blocks_delta == 0 {
            return Ok(());
        }
        let (fid, mdc) = (file.fid, self.session.mdc(file.fid)?);
        let wrote = MdsOp::Wrote(Wrote {
            fid,
            end: 0,
            blocks_delta,
            at: WrittenAt::Told,
            kill_suidgid: false,
        });
        match mdc.ask(&Credentials::root(), vec![wrote]).await?.pop() {
            Some(Ok(MdsReply::Entry(entry))) => {
                file.learn(&entry.attr);
                Ok(())
            }
            Some(Err(errno)) => Err(errno.into()),
            other => Err(misfit(mdc.import(), &other)),
        }
    }
}
