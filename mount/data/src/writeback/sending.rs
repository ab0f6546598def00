//! Requests with dirty data: sent, and what comes of them. Those to OSTs travel together; those to
//! the MDT, which say with the bytes what a report would (docs/dom.md), go one after the other.

use super::dirty_file::{DirtyFile, WroteReport};
use crate::cache::DataTarget;
use crate::cache::batch::{Batch, Piece};
use crate::cache::grant::GrantRequest;
use crate::file::File;
use crate::path::DataPath;
use bytes::Bytes;
use env::BoxFuture;
use observe::cause::follow_job;
use rpc::error::RpcError;
use session::epoch::SessionEpoch;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stubs::mdc::Stored;
use stubs::osc;
use types::credentials::Credentials;
use types::errno::Errno;
use types::job::JobId;
use wire::mds::Store;

/// What a target answered to a request with data.
enum Answer {
    /// An OST.
    Ost(Result<osc::Batch, RpcError>),
    /// The MDT, which was told this with the bytes.
    Mdt(WroteReport, Result<Stored, RpcError>),
}

/// A request that has begun. Whatever becomes of it, its bytes are stored, lost, or wait again.
pub(super) struct Going {
    pub(super) path: Arc<DataPath>,
    pub(super) file: Arc<File>,
    /// OST connections, and discards of the file, before it was sent.
    pub(super) connections: u64,
    pub(super) discards: u64,
    pub(super) number: u64,
    pub(super) what: Option<(Batch, GrantRequest)>,
}

impl Going {
    fn end(mut self, answer: Answer) -> Result<(), RpcError> {
        match self.what.take() {
            Some((batch, asked)) => self.settle(batch, asked, answer),
            None => Ok(()),
        }
    }

    fn settle(&self, batch: Batch, asked: GrantRequest, answer: Answer) -> Result<(), RpcError> {
        let Going { path, file, .. } = self;
        let more = match &answer {
            Answer::Ost(stored) => {
                path.note_reconnected(file, self.connections);
                stored.as_ref().map_or(0, |stored| stored.more)
            }
            Answer::Mdt(_, stored) => stored.as_ref().map_or(0, |stored| stored.more),
        };
        path.writeback.grants.answered(batch.target, asked, more);
        let unanswered = match answer {
            Answer::Ost(answer) => path.end_on_ost(file, self.discards, &batch, answer),
            Answer::Mdt(report, answer) => {
                path.end_on_mdt(file, self.discards, &batch, (report, answer))
            }
        }
        .err();
        file.dirty.lock().request_ended(self.number, unanswered.clone());
        file.answered.send_modify(|count| *count += 1);
        path.writeback.sending.fetch_sub(1, Ordering::AcqRel);
        path.writeback.answers.send_modify(|count| *count += 1);
        unanswered.map_or(Ok(()), Err)
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        if let Some((batch, asked)) = self.what.take()
            && let Err(error) = self.settle(batch, asked, Answer::Ost(Err(RpcError::Shutdown)))
        {
            tracing::debug!(fid = %self.file.fid, %error, "given up before its answer");
        }
    }
}

impl DataPath {
    fn end_on_ost(
        &self,
        file: &File,
        discards: u64,
        batch: &Batch,
        answer: Result<osc::Batch, RpcError>,
    ) -> Result<(), RpcError> {
        let now = self.session.env.clock.now();
        let mut dirty = file.dirty.lock();
        let is_current = dirty.discards == discards;
        self.writeback.blocks.fetch_sub(batch.blocks, Ordering::Relaxed);
        let mut failed = None;
        match answer {
            Ok(stored) => {
                for (piece, result) in batch.pieces.iter().zip(stored.pieces) {
                    dirty.bytes.sent(piece.file);
                    match result {
                        Ok(delta) if is_current => {
                            dirty.stored(piece.file, piece.file + piece.len, now);
                            dirty.grew(delta);
                        }
                        // The one before it says why.
                        Ok(_) | Err(Errno::ECANCELED) => {}
                        Err(errno) => failed = failed.or(Some(errno)),
                    }
                }
            }
            Err(RpcError::Errno(errno)) => {
                batch.pieces.iter().for_each(|piece| dirty.bytes.sent(piece.file));
                failed = Some(errno);
            }
            Err(error) => {
                self.unanswered(&mut dirty, batch, is_current);
                return Err(error);
            }
        }
        if let Some(errno) = failed {
            lost(file, &mut dirty, errno);
        }
        Ok(())
    }

    /// The MDT has answered to bytes that it stores itself, and knows what it was told with them.
    fn end_on_mdt(
        &self,
        file: &File,
        discards: u64,
        batch: &Batch,
        (report, answer): (WroteReport, Result<Stored, RpcError>),
    ) -> Result<(), RpcError> {
        let entry = answer.map(|stored| stored.entry);
        if let Ok(Ok(entry)) = &entry {
            file.learn(&entry.attr);
            self.writeback.note_reported(&entry.attr, self.locks.is_shared(file.fid));
        }
        let mut dirty = file.dirty.lock();
        let is_current = dirty.discards == discards;
        self.writeback.blocks.fetch_sub(batch.blocks, Ordering::Relaxed);
        let refused = match entry {
            Ok(Ok(_)) => None,
            Ok(Err(errno)) | Err(RpcError::Errno(errno)) => Some(errno),
            Err(error) => {
                self.unanswered(&mut dirty, batch, is_current);
                return Err(error);
            }
        };
        batch.pieces.iter().for_each(|piece| dirty.bytes.sent(piece.file));
        match refused {
            None if is_current => dirty.reported(&report),
            // Gone with its last name: no reader can miss it.
            None | Some(Errno::ENOENT | Errno::ESTALE) => {}
            Some(errno) => lost(file, &mut dirty, errno),
        }
        Ok(())
    }

    /// The bytes of a request without an answer wait again, unless they were discarded meanwhile.
    fn unanswered(&self, dirty: &mut DirtyFile, batch: &Batch, is_current: bool) {
        if !is_current {
            batch.pieces.iter().for_each(|piece| dirty.bytes.sent(piece.file));
            return;
        }
        let now = self.session.env.clock.now();
        let blocks = dirty.unsend(batch, now);
        self.writeback.blocks.fetch_add(blocks, Ordering::Relaxed);
        if self.writeback.grants.reserve(now, &[(batch.target, blocks)]).is_err() {
            tracing::debug!(target = ?batch.target, "bytes wait without a grant: a full target may refuse them");
        }
    }
}

/// How bytes on the MDT are stored.
#[derive(Clone)]
pub(super) enum Way {
    /// No program waits: with what goes there at the same time ([`super::batcher`]).
    Together,
    /// At once.
    AtOnce,
    /// At once, and the MDT is asked to make it durable in the same request. True if that is so of
    /// the last part, and with it of all before.
    Durably(Arc<AtomicBool>),
}

impl Way {
    /// What is sent from now on is not durable yet.
    pub(super) fn begins(&self) {
        if let Way::Durably(durable) = self {
            durable.store(false, Ordering::Release);
        }
    }
}

/// Sends the bytes of a request.
pub(super) fn send(
    going: Going,
    epoch: SessionEpoch,
    (job, way): (JobId, Way),
    payment: (u64, u64),
    pieces: Vec<Piece>,
    bytes: Vec<Bytes>,
) -> BoxFuture<'static, Result<(), RpcError>> {
    let (session, fid) = (going.path.session.clone(), going.file.fid);
    let ost = match going.what.as_ref().map(|(batch, _)| batch.target) {
        Some(DataTarget::Ost(ost)) => ost,
        Some(DataTarget::Mdt(_)) => {
            let pieces = pieces.iter().zip(bytes).map(|(piece, data)| (piece.file, data)).collect();
            return Box::pin(store_in_turn(going, epoch, (job, way), payment, pieces));
        }
        None => return Box::pin(ready(Ok(()))),
    };
    let osc = match session.targets.osc(ost) {
        Ok(osc) => osc,
        Err(error) => {
            let unknown = Answer::Ost(Err(RpcError::Errno(error.errno())));
            return Box::pin(ready(going.end(unknown)));
        }
    };
    let write = |(piece, data): (&Piece, Bytes)| {
        piece.object.map(|(object, offset)| (object, offset, data))
    };
    let writes = pieces.iter().zip(bytes).filter_map(write).collect();
    Box::pin(async move {
        let store = follow_job(job, osc.store(payment, writes, false));
        let answer = session.while_trusted(fid, epoch, store).await.and_then(|stored| stored);
        going.end(Answer::Ost(answer))
    })
}

/// Stores bytes on the MDT with what it is told of them, when all that this file sent there before
/// is answered. The file's reports take turns with it, so that answers are noted in the order of
/// the changes. 1 round trip.
async fn store_in_turn(
    going: Going,
    epoch: SessionEpoch,
    (job, way): (JobId, Way),
    payment: (u64, u64),
    pieces: Vec<(u64, Bytes)>,
) -> Result<(), RpcError> {
    let (session, file, number) = (going.path.session.clone(), going.file.clone(), going.number);
    let mut answered = file.answered.subscribe();
    // No error: the file is here.
    let _ = answered.wait_for(|_| file.dirty.lock().is_next_on_mdt(number)).await;
    let _turn = file.reporting.lock().await;
    let end = pieces.iter().map(|(offset, data)| offset + data.len() as u64).max().unwrap_or(0);
    let report = file.dirty.lock().report_with(end, session.env.clock.now());
    let mdc = match session.mdc(file.fid) {
        Ok(mdc) => mdc,
        Err(error) => {
            return going.end(Answer::Mdt(report, Err(RpcError::Errno(error.errno()))));
        }
    };
    let store = Store { fid: file.fid, pieces, at: report.at };
    let stored = async {
        let ops = Stored::ops(payment, store, matches!(way, Way::Durably(_)));
        let (root, batcher) = (Credentials::root(), &going.path.writeback.batcher);
        let results = match way {
            Way::Together => batcher.ask(&session.env, &mdc, (root, job), ops).await?,
            Way::AtOnce | Way::Durably(_) => follow_job(job, mdc.ask(&root, ops)).await?,
        };
        mdc.stored(results)
    };
    let answer = session.while_trusted(file.fid, epoch, stored).await.and_then(|stored| stored);
    if let Way::Durably(durable) = &way {
        let is_durable = answer.as_ref().is_ok_and(|stored| stored.durable == Ok(()));
        durable.store(is_durable, Ordering::Release);
    }
    going.end(Answer::Mdt(report, answer))
}

/// What was written is lost; programs are told.
pub(super) fn lost(file: &File, dirty: &mut DirtyFile, errno: Errno) {
    tracing::error!(fid = %file.fid, %errno, "what was written could not be stored; the next fsync, close or write says so");
    dirty.fail(errno);
}
