//! Bringing dirty data to the objects, and reporting it to the MDT. Bytes that live on the MDT go
//! there in one change with the report ([`crate::dom`]).
//!
//! Requests of a file go out while earlier ones travel. Only those for the same block take turns: a
//! block on its way is not sent again before its answer. What waits for a file (fsync, a callback,
//! a truncate) waits for all that was begun before ([`super::under_way`]). Beside that the MDT is
//! told in one `Wrote` at a time what is stored ([`DirtyFile::report`]). An error of an OST or MDT
//! means that the bytes are lost, and is reported to programs ([`super::failures`]); without an
//! answer they wait for the next attempt.
//!
//! Nothing is sent unless the MDT surely keeps WRITE for this mount until it has arrived. A request
//! that could come later is given up, because the bytes may belong to another client then.

use super::DIRTY_AGE;
use super::dirty_file::WroteReport;
use super::sending::{Going, Way, lost, send};
use crate::cache::DataTarget;
use crate::cache::batch::{BATCH_BYTES, plan};
use crate::file::File;
use crate::locks::data_guards::{DataAccess, DataGuard, TO_WRITE};
use crate::locks::table::Known;
use crate::path::DataPath;
use env::BoxFuture;
use layout::layout::Layout;
use observe::cause::follow_job;
use rpc::error::RpcError;
use rpc::import::ImportState;
use session::error::ClientError;
use session::fan_out::fan_out;
use session::targets::misfit;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
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

/// How often a caller that waits sends what others sent in vain.
const WAVES_MAX: usize = 8;

/// What was sent at one time, and what was under way already.
struct Wave {
    /// The requests that begin with it.
    sends: Vec<BoxFuture<'static, Result<(), RpcError>>>,
    /// Numbers of the first and the last request that a caller waits for.
    first: u64,
    last: u64,
    /// Bytes wait for others that are on their way.
    rest: bool,
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
        let _guard = self.guard_to_flush(file).await?;
        self.flush_locked(file).await
    }

    /// As [`DataPath::flush_file`], of a closed file that no program waits for: what goes to the
    /// MDT goes with what goes there at the same time. The caller must not drop this: what waits
    /// for its turn would be given up.
    ///
    /// # Errors
    /// As [`DataPath::flush_file`].
    pub async fn flush_closed(&self, file: &Arc<File>) -> Result<(), ClientError> {
        if !file.dirty.lock().is_clean() {
            let _guard = self.guard_to_flush(file).await?;
            self.store_all(file, Way::Together).await?;
            self.report(file).await?;
        }
        self.writeback.forget_if_clean(file);
        Ok(())
    }

    /// The MDT was silent, or restarted: then the lock is asked for first, because others may have
    /// had it meanwhile.
    async fn guard_to_flush(&self, file: &Arc<File>) -> Result<Option<DataGuard>, ClientError> {
        match self.holds_write(file) {
            true => Ok(None),
            false => self.data_guard(file, DataAccess::WRITE_ALL).await.map(Some),
        }
    }

    /// As [`DataPath::flush_file`], but it is not reported: for fsync, which reports it beside the
    /// sync of the objects. Hold the guard until then. `true`: there is nothing to report, and all
    /// that the MDT answered before is durable there.
    ///
    /// # Errors
    /// As [`DataPath::flush_file`].
    pub async fn store_file(
        &self,
        file: &Arc<File>,
    ) -> Result<(Option<DataGuard>, bool), ClientError> {
        if file.dirty.lock().is_clean() {
            return Ok((None, false));
        }
        let guard = self.guard_to_flush(file).await?;
        let is_durable = Arc::<AtomicBool>::default();
        self.store_all(file, Way::Durably(is_durable.clone())).await?;
        let all = is_durable.load(Ordering::Acquire) && !file.dirty.lock().has_unreported();
        if all {
            self.writeback.forget_if_clean(file);
        }
        Ok((guard, all))
    }

    /// Begins to store what waits, and returns when that is answered. The MDT is told if there is
    /// nothing more to come, or if it was not told for long.
    pub(crate) async fn flush_some(&self, file: &Arc<File>) -> Result<(), ClientError> {
        if !file.dirty.lock().is_clean() {
            let _guard = self.guard_to_flush(file).await?;
            let wave = self.begin_wave(file, &Way::Together).await?;
            self.end_wave(wave.sends).await?;
            if self.is_report_due(file) {
                let _turn = file.reporting.lock().await;
                // The one before may have told it.
                if self.is_report_due(file) {
                    self.report_in_turn(file, None).await?;
                }
            }
        }
        self.writeback.forget_if_clean(file);
        Ok(())
    }

    fn is_report_due(&self, file: &File) -> bool {
        let now = self.session.env.clock.now();
        let dirty = file.dirty.lock();
        let is_old = dirty.stored_since().is_some_and(|since| since + DIRTY_AGE <= now);
        dirty.has_unreported() && (dirty.bytes.is_clean() || is_old)
    }

    fn holds_whole(&self, fid: Fid) -> bool {
        self.locks.bits(fid).contains(TO_WRITE)
    }

    /// True if a lock covers the dirty data of a file.
    pub(super) fn holds_write(&self, file: &File) -> bool {
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
        table.writes_shared(fid)
            && fresh.into_iter().all(|(start, end)| held(ByteRange::new(start, end)))
    }

    /// As [`DataPath::flush_file`]; the caller has a guard of WRITE, or the callback of it.
    pub async fn flush_locked(&self, file: &Arc<File>) -> Result<(), ClientError> {
        self.store_all(file, Way::AtOnce).await?;
        self.report(file).await?;
        self.writeback.forget_if_clean(file);
        Ok(())
    }

    /// Everything that was dirty before this call is stored, or lost.
    async fn store_all(&self, file: &Arc<File>, way: Way) -> Result<(), ClientError> {
        let mut rest = true;
        let mark = file.dirty.lock().mark();
        let mut last = RpcError::Shutdown;
        for _ in 0..WAVES_MAX {
            way.begins();
            let wave = self.begin_wave(file, &way).await?;
            self.end_wave(wave.sends).await?;
            let mut answered = file.answered.subscribe();
            let is_over = |_: &u64| file.dirty.lock().under_way.is_over(wave.last);
            // No error: the file is here.
            let _ = answered.wait_for(is_over).await;
            let in_vain = file.dirty.lock().under_way.unanswered_since(wave.first);
            // What waited for a block is sent by the second wave, or was sent by others since.
            let again = wave.rest && std::mem::take(&mut rest);
            match in_vain {
                // It waits again; now this caller sends it.
                Some(error) => {
                    tracing::debug!(fid = %file.fid, %error, "sent in vain by another task");
                    last = error;
                }
                None if again => {}
                None => {
                    file.dirty.lock().is_sure_of(mark);
                    return Ok(());
                }
            }
        }
        Err(last.into())
    }

    /// Ready when these are answered.
    async fn end_wave(
        &self,
        sends: Vec<BoxFuture<'static, Result<(), RpcError>>>,
    ) -> Result<(), ClientError> {
        fan_out(sends)
            .await
            .into_iter()
            .collect::<Result<(), RpcError>>()
            .map_err(ClientError::from)
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

    /// Stores the file whose bytes wait longest ([`DataPath::oldest`]). `false`: there is none.
    async fn flush_oldest(&self, on: Option<DataTarget>) -> Result<bool, ClientError> {
        match self.oldest(on) {
            Some(file) => self.flush_locked(&file).await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Waits until something more of this mount's data is stored, and sees to it that something is:
    /// that makes room, in the cache or at this target. `false`: there is nothing that could be.
    pub(crate) async fn make_progress(&self, on: Option<DataTarget>) -> Result<bool, ClientError> {
        let mut answers = self.writeback.answers.subscribe();
        if self.writeback.sending.load(Ordering::Acquire) == 0 {
            return self.flush_oldest(on).await;
        }
        if let Some(file) = self.oldest(on) {
            self.flush_later(&file);
        }
        tokio::select! {
            biased;
            // No error: the sender is here.
            _ = answers.changed() => {}
            // What is under way may be for an OST that is away.
            () = self.session.env.clock.sleep(AGAIN) => {}
        }
        Ok(true)
    }

    /// Waits until an answer of this target may have brought space. `false`: it was not asked for
    /// any.
    pub(crate) async fn await_grant(&self, target: DataTarget) -> bool {
        let mut answers = self.writeback.answers.subscribe();
        if !self.writeback.grants.is_asked(target) {
            return false;
        }
        tokio::select! {
            biased;
            // No error: the sender is here.
            _ = answers.changed() => {}
            // Another target may be the one that answers.
            () = self.session.env.clock.sleep(AGAIN) => {}
        }
        true
    }

    /// The file whose bytes wait longest, of those whose lock need not be asked for: the caller may
    /// have what others wait for. `on`: only files with bytes on this target. A file whose OSTs are
    /// away is taken last, because the caller may not need these.
    fn oldest(&self, on: Option<DataTarget>) -> Option<Arc<File>> {
        let since = |file: &Arc<File>| {
            let since = file.dirty.lock().since;
            since.filter(|_| self.holds_write(file))
        };
        let away = self.osts_away();
        let has = |file: &File, any: &dyn Fn(TargetIndex) -> bool| {
            file.layout().is_some_and(|layout| layout.objects(file.fid).any(|(ost, _)| any(ost)))
        };
        let mdt_bytes = |file: &File| file.layout().map_or(0, |layout| layout.mdt_bytes());
        let order = |file: &Arc<File>| {
            let since = since(file)?;
            let wanted = match on {
                None => true,
                Some(DataTarget::Ost(on)) => has(file, &|ost| ost == on),
                Some(DataTarget::Mdt(on)) => on.0 == file.fid.mdt() && mdt_bytes(file) > 0,
            };
            wanted.then(|| (!away.is_empty() && has(file, &|ost| away.contains(&ost)), since))
        };
        let oldest =
            self.writeback.dirty_files().into_iter().filter_map(|file| Some((order(&file)?, file)));
        oldest.min_by_key(|(order, _)| *order).map(|(_, file)| file)
    }

    fn osts_away(&self) -> BTreeSet<TargetIndex> {
        let imports = self.session.targets.oscs().into_iter().map(|osc| osc.import().clone());
        imports
            .filter(|import| import.state() != ImportState::Full)
            .map(|import| import.target().index)
            .collect()
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
        fan_out(self.writeback.dirty_files().into_iter().map(store).collect())
            .await
            .into_iter()
            .collect()
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

    /// Takes out what can be sent now. Nothing is on its way before the sends are polled.
    async fn begin_wave(&self, file: &Arc<File>, way: &Way) -> Result<Wave, ClientError> {
        let _turn = file.flushing.lock().await;
        let (span, (credentials, job)) = {
            let dirty = file.dirty.lock();
            (dirty.bytes.span(), dirty.writer.clone())
        };
        if let Some((start, end)) = span {
            // Writes were absorbed only where it has objects; another one is known only since this
            // mount gave WRITE back.
            let layout = self.layout_for(&credentials, file, true, start, end).await;
            if layout.as_ref().is_ok_and(|layout| end > layout.mdt_bytes()) {
                self.until_recorded(file).await?;
            }
            match layout.and_then(|layout| self.take_out(layout, file, job, way)) {
                Ok(wave) => return Ok(wave),
                Err(error) if is_decided(&error) => self.give_up(file, error.errno()),
                Err(error) => return Err(error),
            }
        }
        let dirty = file.dirty.lock();
        let (first, last) = (dirty.under_way.oldest(), dirty.under_way.last());
        Ok(Wave { sends: Vec::new(), first, last, rest: false })
    }

    fn take_out(
        &self,
        layout: Arc<Layout>,
        file: &Arc<File>,
        job: JobId,
        way: &Way,
    ) -> Result<Wave, ClientError> {
        let path = self.strong().ok_or(RpcError::Shutdown)?;
        let (epoch, connections) = (self.session.epoch(file.fid), self.session.ost_connections());
        let mut dirty = file.dirty.lock();
        // Data written since it was asked for may stand in components that only a newer one has.
        let layout = file.layout().unwrap_or(layout);
        let batches =
            plan(&layout, file.fid, &dirty.bytes.ready(), |target| self.batch_bytes(target))?;
        let (first, discards) = (dirty.under_way.oldest(), dirty.discards);
        let waits_for_mdt = dirty.is_on_mdt();
        let mut begun = Vec::with_capacity(batches.len());
        for batch in batches {
            let to_mdt = matches!(batch.target, DataTarget::Mdt(_));
            if to_mdt && waits_for_mdt {
                continue;
            }
            let bytes = dirty.send(&batch);
            let asked = self.writeback.grants.ask(batch.target, self.grant_wanted(batch.target));
            let number = dirty.under_way.begin();
            if to_mdt {
                dirty.goes_to_mdt(number);
            }
            self.writeback.sending.fetch_add(1, Ordering::AcqRel);
            let (path, file, pieces) = (path.clone(), file.clone(), batch.pieces.clone());
            let payment = (batch.blocks * GRANT_UNIT, asked.want);
            let going =
                Going { path, file, connections, discards, number, what: Some((batch, asked)) };
            begun.push((going, payment, pieces, bytes));
        }
        let (last, rest) = (dirty.under_way.last(), dirty.bytes.has_fresh());
        if !rest {
            dirty.all_sent();
        }
        // One whose OST is unknown ends at once, and looks at the file.
        drop(dirty);
        let send = |(going, payment, pieces, bytes)| {
            send(going, epoch, (job, way.clone()), payment, pieces, bytes)
        };
        let sends = begun.into_iter().map(send).collect();
        Ok(Wave { sends, first, last, rest })
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
        self.report_in_turn(file, None).await.map(drop)
    }

    /// Reports to the MDT what is stored, and returns when that, and all that the MDT answered
    /// before, is durable. One request.
    ///
    /// # Errors
    /// The MDT does not answer, or cannot make it durable.
    pub async fn report_durably(
        &self,
        file: &Arc<File>,
        credentials: &Credentials,
    ) -> Result<(), ClientError> {
        let _turn = file.reporting.lock().await;
        if !self.report_in_turn(file, Some(MdsOp::Sync)).await? {
            self.session.mdc(file.fid)?.sync(credentials).await?;
        }
        self.writeback.forget_if_clean(file);
        Ok(())
    }

    /// As [`DataPath::report`], with one more operation in the same request. `false`: there was
    /// nothing to report, or it was refused, and so the operation was not done.
    async fn report_in_turn(
        &self,
        file: &Arc<File>,
        then: Option<MdsOp>,
    ) -> Result<bool, ClientError> {
        let now = self.session.env.clock.now();
        let (report, (credentials, job)) = {
            let mut dirty = file.dirty.lock();
            let Some(report) = dirty.report(now) else { return Ok(false) };
            (report, dirty.writer.clone())
        };
        let mdc = self.session.mdc(file.fid)?;
        let ops = [wrote(file.fid, &report)].into_iter().chain(then).collect();
        let mut results =
            follow_job(job, async { mdc.ask(&credentials, ops).await }).await?.into_iter();
        match results.next() {
            Some(Ok(MdsReply::Entry(entry))) => {
                file.learn(&entry.attr);
                self.writeback.note_reported(&entry.attr, self.locks.is_shared(file.fid));
                file.dirty.lock().reported(&report);
            }
            Some(Err(errno)) => {
                self.give_up(file, errno);
                return Ok(false);
            }
            other => return Err(misfit(mdc.import(), &other)),
        }
        match results.next() {
            Some(Err(errno)) => Err(RpcError::Errno(errno).into()),
            Some(Ok(_)) | None => Ok(true),
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
        let now = self.session.env.clock.now();
        let report = dirty.as_ref().and_then(|file| file.dirty.lock().report_time(now));
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
                match plan(&layout, file.fid, &fresh, |_| BATCH_BYTES) {
                    Ok(batches) => {
                        batches.iter().for_each(|batch| {
                            self.writeback.grants.unreserve(batch.target, batch.blocks)
                        });
                    }
                    // Only data that is lost with its session: then the grants are lost, too.
                    Err(error) => {
                        tracing::warn!(fid = %file.fid, %error, "give back grants of space")
                    }
                }
            }
            dirty.drop_all();
        }
        self.writeback.forget_if_clean(file);
    }
}

fn wrote(fid: Fid, report: &WroteReport) -> MdsOp {
    MdsOp::Wrote(Wrote {
        fid,
        end: report.end,
        blocks_delta: report.grown,
        at: report.at,
        kill_suidgid: false,
    })
}

/// True if the MDT has refused it. Any other error may pass the next time.
fn is_decided(error: &ClientError) -> bool {
    matches!(error, ClientError::Rpc(RpcError::Errno(_)))
}
