//! Bringing dirty data to the objects, and reporting it to the MDT.
//!
//! One flush after the other per file, each with everything that waits, so no two requests for the
//! same bytes are under way. Stored data is reported in one `Wrote`. An error of an OST or MDT
//! means that the bytes are lost, and is reported to programs ([`super::failures`]); without an
//! answer they wait for the next attempt.
//!
//! Nothing is sent unless the MDT surely keeps WRITE for this mount until it has arrived. A request
//! that could come later is given up, because the bytes may belong to another client then.

use super::dirty_file::{DirtyFile, WroteReport};
use crate::cache::batch::{Batch, plan};
use crate::cache::grant::GrantRequest;
use crate::file::File;
use crate::locks::data_guards::{DataAccess, TO_WRITE};
use crate::locks::table::Known;
use crate::path::DataPath;
use bytes::Bytes;
use env::BoxFuture;
use layout::layout::Layout;
use observe::cause::follow_job;
use rpc::error::RpcError;
use rpc::import::ImportState;
use session::epoch::SessionEpoch;
use session::error::ClientError;
use session::fan_out::fan_out;
use session::targets::misfit;
use std::collections::BTreeSet;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stubs::osc;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::job::JobId;
use types::limits::GRANT_UNIT;
use types::name::Name;
use types::ranges::{ByteRange, Extent};
use types::target::TargetIndex;
use wire::mds::{MdsOp, MdsReply, Wrote};

/// Pause before a request without an answer is repeated, while a caller waits.
const AGAIN: Duration = Duration::from_millis(100);

/// One request.
struct Sending {
    batch: Batch,
    /// For how much more space it asks.
    asked: GrantRequest,
    /// Of each piece of the batch.
    bytes: Vec<Bytes>,
}

/// One request and its answer.
struct Sent {
    batch: Batch,
    asked: GrantRequest,
    answer: Result<osc::Batch, RpcError>,
}

/// Result of one round.
#[derive(PartialEq, Eq)]
enum Round {
    /// There was nothing.
    Nothing,
    /// Something was sent; all of it is stored, or lost.
    Done,
}

impl DataPath {
    /// Everything of this file that was dirty before this call is stored and reported when it
    /// returns, or lost, which [`super::failures`] reports.
    ///
    /// # Errors
    /// A target does not answer: everything stays dirty for the next time.
    pub async fn flush_file(&self, file: &Arc<File>) -> Result<(), ClientError> {
        if file.dirty.lock().is_clean() {
            self.writeback.forget_if_clean(file);
            return Ok(());
        }
        // The MDT was silent, or restarted: then the lock is asked for first, because others may
        // have had it meanwhile.
        let _guard = match self.holds_write(file) {
            true => None,
            false => Some(self.data_guard(file, DataAccess::WRITE_ALL).await?),
        };
        self.flush_locked(file).await
    }

    fn holds_whole(&self, fid: Fid) -> bool {
        self.locks.bits(fid).contains(TO_WRITE)
    }

    /// True if a lock covers the dirty data of a file.
    fn holds_write(&self, file: &File) -> bool {
        let fid = file.fid;
        if !self.session.has_lease(fid) {
            return false;
        }
        if self.holds_whole(fid) {
            return true;
        }
        // Of a shared file some of it may have been written under extents that were lost with a
        // session.
        let fresh = file.dirty.lock().bytes.fresh();
        let table = self.locks.table.lock();
        let held = |range| table.shares(fid, Extent { range, write: true }).is_some();
        table.writes_shared(fid) && fresh.into_iter().all(|(start, end)| held(ByteRange::new(start, end)))
    }

    /// As [`DataPath::flush_file`]; the caller has a guard of WRITE, or the callback of it.
    pub async fn flush_locked(&self, file: &Arc<File>) -> Result<(), ClientError> {
        let _turn = file.flushing.lock().await;
        if self.flush_round(file).await? == Round::Done || file.dirty.lock().has_unreported() {
            self.report(file).await?;
        }
        self.writeback.forget_if_clean(file);
        Ok(())
    }

    /// As [`DataPath::flush_file`], again and again until nothing is left, whatever a target does:
    /// for callbacks, when no new write can come. Ends at the latest when this client is evicted.
    pub(crate) async fn flush_until_clean(&self, file: &Arc<File>) {
        while !file.dirty.lock().is_clean() {
            // The lock is held, because the MDT waits for this: until it has waited for a lease.
            // Its answers say how long it has.
            let proved = match self.session.has_lease(file.fid) {
                true => Ok(()),
                false => self.prove(file.fid).await,
            };
            let stored = match proved {
                Ok(()) => self.flush_locked(file).await,
                Err(error) => Err(error),
            };
            if let Err(error) = stored {
                tracing::warn!(fid = %file.fid, %error, "flush a file");
                self.session.env.clock.sleep(AGAIN).await;
            }
        }
        self.writeback.forget_if_clean(file);
    }

    async fn prove(&self, fid: Fid) -> Result<(), ClientError> {
        self.session.mdc(fid)?.getattr(&Credentials::root(), fid).await?;
        Ok(())
    }

    /// Stores the file whose bytes wait longest, if there is one whose lock need not be asked for:
    /// the caller may have what others wait for. `on`: only files with objects on this OST. A file
    /// whose OSTs are away is taken last, because the caller may not need these. `false`: there is
    /// none.
    pub(crate) async fn flush_oldest(&self, on: Option<TargetIndex>) -> Result<bool, ClientError> {
        let since = |file: &Arc<File>| {
            let since = file.dirty.lock().since;
            since.filter(|_| self.holds_write(file))
        };
        let away = self.osts_away();
        let has = |file: &File, any: &dyn Fn(TargetIndex) -> bool| {
            file.layout().is_some_and(|layout| layout.objects(file.fid).any(|(ost, _)| any(ost)))
        };
        let order = |file: &Arc<File>| {
            let since = since(file)?;
            let wanted = on.is_none_or(|on| has(file, &|ost| ost == on));
            wanted.then(|| (!away.is_empty() && has(file, &|ost| away.contains(&ost)), since))
        };
        let oldest = self.writeback.dirty_files().into_iter().filter_map(|file| Some((order(&file)?, file)));
        match oldest.min_by_key(|(order, _)| *order) {
            Some((_, file)) => self.flush_locked(&file).await.map(|()| true),
            None => Ok(false),
        }
    }

    fn osts_away(&self) -> BTreeSet<TargetIndex> {
        let imports = self.session.targets.oscs().into_iter().map(|osc| osc.import().clone());
        imports.filter(|import| import.state() != ImportState::Full).map(|import| import.target().index).collect()
    }

    /// Everything of this mount is stored and reported when this returns.
    ///
    /// # Errors
    /// Of the first file whose target does not answer.
    pub async fn flush_all(self: &Arc<Self>) -> Result<(), ClientError> {
        let store = |file: Arc<File>| {
            let me = self.clone();
            Box::pin(async move { me.flush_file(&file).await }) as BoxFuture<'static, _>
        };
        fan_out(self.writeback.dirty_files().into_iter().map(store).collect()).await.into_iter().collect()
    }

    /// This mount is about to remove a name. If it is a file's last one, a client that has the file
    /// open elsewhere will ask its objects; and once they are destroyed, nothing may be stored in
    /// them any more.
    pub async fn flush_before_removal(&self, dir: Fid, name: &Name) {
        let Known::To(fid) = self.locks.name(dir, name) else { return };
        let Some(file) = self.writeback.dirty_file(fid) else { return };
        if let Err(error) = self.flush_file(&file).await {
            tracing::warn!(%fid, %error, "flush a file before it is removed");
        }
    }

    async fn flush_round(&self, file: &Arc<File>) -> Result<Round, ClientError> {
        let (span, (credentials, job)) = {
            let dirty = file.dirty.lock();
            (dirty.bytes.span(), dirty.writer.clone())
        };
        let Some((start, end)) = span else { return Ok(Round::Nothing) };
        // Writes were absorbed only where it has objects; another one is known only since this
        // mount gave WRITE back.
        let layout = self.layout_for(&credentials, file, true, start, end).await;
        if layout.is_ok() {
            self.until_recorded(file).await?;
        }
        let (epoch, connections) = (self.session.epoch(file.fid), self.session.ost_connections());
        let (sending, discards) = match layout.and_then(|layout| self.take_out(layout, file)) {
            Ok(taken) => taken,
            Err(error) if is_decided(&error) => {
                self.give_up(file, error.errno());
                return Ok(Round::Done);
            }
            Err(error) => return Err(error),
        };
        let sends = sending.into_iter().map(|sending| self.send(file.fid, epoch, job, sending));
        let sent = fan_out(sends.collect()).await;
        self.note_reconnected(file, connections);
        self.end_round(file, discards, sent)
    }

    /// Takes out the waiting bytes, and the number of discards before.
    fn take_out(&self, layout: Arc<Layout>, file: &File) -> Result<(Vec<Sending>, u64), ClientError> {
        let mut dirty = file.dirty.lock();
        // Data written since it was asked for may stand in components that only a newer one has.
        let layout = file.layout().unwrap_or(layout);
        let batches = plan(&layout, file.fid, &dirty.bytes.ready())?;
        let discards = dirty.discards;
        let sending = batches.into_iter().map(|batch| {
            let bytes = dirty.send(&batch);
            self.writeback.blocks.fetch_sub(batch.blocks, Ordering::Relaxed);
            let asked = self.writeback.grants.ask(batch.ost);
            Sending { batch, asked, bytes }
        });
        Ok((sending.collect(), discards))
    }

    fn send(&self, fid: Fid, epoch: SessionEpoch, job: JobId, sending: Sending) -> BoxFuture<'static, Sent> {
        let Sending { batch, asked, bytes } = sending;
        let (osc, session) = match self.session.targets.osc(batch.ost) {
            Ok(osc) => (osc, self.session.clone()),
            Err(error) => {
                return Box::pin(ready(Sent { batch, asked, answer: Err(RpcError::Errno(error.errno())) }));
            }
        };
        let writes = batch.pieces.iter().zip(bytes).map(|(piece, data)| (piece.object, piece.offset, data)).collect();
        let payment = (batch.blocks * GRANT_UNIT, asked.want);
        Box::pin(async move {
            let store = follow_job(job, osc.store(payment, writes, false));
            let answer = session.while_trusted(fid, epoch, store).await.and_then(|stored| stored);
            Sent { batch, asked, answer }
        })
    }

    fn end_round(&self, file: &File, discards: u64, sent: Vec<Sent>) -> Result<Round, ClientError> {
        let mut dirty = file.dirty.lock();
        let (mut end, mut grown, mut failed, mut unanswered) = (0, 0, None, None);
        for Sent { batch, asked, answer } in sent {
            self.writeback.grants.answered(batch.ost, asked, answer.as_ref().map_or(0, |stored| stored.more));
            match answer {
                Ok(stored) => {
                    for (piece, result) in batch.pieces.iter().zip(stored.pieces) {
                        dirty.bytes.sent(piece.file);
                        match result {
                            Ok(delta) => {
                                grown += delta;
                                end = end.max(piece.file + piece.len);
                            }
                            // The one before it says why.
                            Err(Errno::ECANCELED) => {}
                            Err(errno) => failed = failed.or(Some(errno)),
                        }
                    }
                }
                Err(RpcError::Errno(errno)) => {
                    batch.pieces.iter().for_each(|piece| dirty.bytes.sent(piece.file));
                    failed = failed.or(Some(errno));
                }
                Err(error) => {
                    if dirty.discards == discards {
                        self.wait_again(&mut dirty, &batch);
                    } else {
                        batch.pieces.iter().for_each(|piece| dirty.bytes.sent(piece.file));
                    }
                    unanswered = Some(error);
                }
            }
        }
        if dirty.discards == discards {
            // If something waits again, the end of the stored data is unknown: then it is reported
            // later.
            dirty.stored(if unanswered.is_some() { 0 } else { end }, grown);
        }
        if let Some(errno) = failed {
            lost(file, &mut dirty, errno);
        }
        match unanswered {
            Some(error) => Err(error.into()),
            None => Ok(Round::Done),
        }
    }

    fn wait_again(&self, dirty: &mut DirtyFile, batch: &Batch) {
        let blocks = dirty.unsend(batch);
        self.writeback.blocks.fetch_add(blocks, Ordering::Relaxed);
        if self.writeback.grants.reserve(self.session.env.clock.now(), &[(batch.ost, blocks)]).is_err() {
            tracing::debug!(ost = %batch.ost.0, "bytes wait without a grant: a full target may refuse them");
        }
    }

    /// The MDT has decided that the dirty data of a file cannot be stored.
    fn give_up(&self, file: &File, errno: Errno) {
        // Gone with its last name: no reader can miss it.
        if !matches!(errno, Errno::ENOENT | Errno::ESTALE) {
            lost(file, &mut file.dirty.lock(), errno);
        }
        self.discard(file);
    }

    /// Reports to the MDT what is stored.
    async fn report(&self, file: &Arc<File>) -> Result<(), ClientError> {
        let _turn = file.reporting.lock().await;
        let (report, (credentials, job)) = {
            let mut dirty = file.dirty.lock();
            let Some(report) = dirty.report() else { return Ok(()) };
            (report, dirty.writer.clone())
        };
        let mdc = self.session.mdc(file.fid)?;
        let ask = follow_job(job, async { mdc.ask(&credentials, vec![wrote(file.fid, &report)]).await });
        match ask.await?.pop() {
            Some(Ok(MdsReply::Entry(entry))) => {
                file.learn(&entry.attr);
                self.writeback.note_reported(&entry.attr, self.locks.is_shared(file.fid));
                file.dirty.lock().reported(&report);
                Ok(())
            }
            Some(Err(errno)) => {
                self.give_up(file, errno);
                Ok(())
            }
            other => Err(misfit(mdc.import(), &other)),
        }
    }

    /// A change of attributes: it comes after the unreported time of the newest write, in one
    /// request.
    pub async fn ask_behind_time(
        &self,
        credentials: &Credentials,
        fid: Fid,
        op: MdsOp,
    ) -> Result<MdsReply, ClientError> {
        let mdc = self.session.mdc(fid)?;
        let mut dirty = self.writeback.dirty_file(fid);
        if let Some(file) = dirty.take_if(|file| !self.holds_whole(file.fid)) {
            // The change calls back other clients' locks on the file, and this mount's extents with
            // them: those callbacks must not wait for this.
            self.flush_file(&file).await?;
        }
        let _turn = match &dirty {
            Some(file) => Some(file.reporting.lock().await),
            None => None,
        };
        let report = dirty.as_ref().and_then(|file| file.dirty.lock().report_time());
        let ops = report.iter().map(|report| wrote(fid, report)).chain([op]).collect();
        let mut results = mdc.ask(credentials, ops).await?;
        let answer = results.pop();
        if let (Some(file), Some(report), Some(Ok(_))) = (&dirty, &report, results.pop()) {
            file.dirty.lock().reported(report);
            self.writeback.forget_if_clean(file);
        }
        match answer {
            Some(answer) => Ok(answer.map_err(RpcError::Errno)?),
            None => Err(misfit(mdc.import(), &"no result")),
        }
    }

    /// This mount removed the last name of a file. If the file is not open anywhere, its unstored
    /// data will never be read. Usually it was stored before ([`DataPath::flush_before_removal`]);
    /// but the name may have been unknown by then, or the file was written since. One round trip:
    /// another mount may have it open, and only the MDT knows that.
    pub async fn discard_removed(&self, file: &File) {
        let Ok(mdc) = self.session.mdc(file.fid) else { return };
        // Without an answer it stays dirty: storing to destroyed objects is refused, and does no
        // harm.
        if let Err(error) = mdc.getattr(&Credentials::root(), file.fid).await
            && matches!(error.errno(), Errno::ENOENT | Errno::ESTALE)
        {
            self.discard(file);
        }
    }

    /// Dirty data of a file is of no use any more, or lost.
    pub(crate) fn discard(&self, file: &File) {
        {
            let mut dirty = file.dirty.lock();
            self.writeback.blocks.fetch_sub(dirty.blocks, Ordering::Relaxed);
            let fresh = dirty.bytes.fresh();
            if let Some(layout) = file.layout().filter(|_| !fresh.is_empty()) {
                match plan(&layout, file.fid, &fresh) {
                    Ok(batches) => {
                        batches.iter().for_each(|batch| self.writeback.grants.unreserve(batch.ost, batch.blocks));
                    }
                    // Only data that is lost with its session: then the grants are lost, too.
                    Err(error) => tracing::warn!(fid = %file.fid, %error, "give back grants of space"),
                }
            }
            dirty.drop_all();
        }
        self.writeback.forget_if_clean(file);
    }
}

fn wrote(fid: Fid, report: &WroteReport) -> MdsOp {
    MdsOp::Wrote(Wrote { fid, end: report.end, blocks_delta: report.grown, at: report.at, kill_suidgid: false })
}

fn lost(file: &File, dirty: &mut DirtyFile, errno: Errno) {
    tracing::error!(fid = %file.fid, %errno, "what was written could not be stored; the next fsync, close or write says so");
    dirty.fail(errno);
}

/// True if the MDT has refused it. Any other error may pass the next time.
fn is_decided(error: &ClientError) -> bool {
    matches!(error, ClientError::Rpc(RpcError::Errno(_)))
}
