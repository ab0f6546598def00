//! Removes the objects of removed files.
//!
//! Reads the destroy log, but only its durable records: an object must not go before the removal of
//! its file is certain. Each OST gets batches; a log record goes when all its OSTs have answered.
//! It is safe across restarts, because removing an object again is no error. An OST that is away is
//! asked again with growing pauses; the others are not held up.

use crate::background::tasks::{Backoff, Stop};
use crate::locks::context::LockContext;
use crate::mds::Mds;
use disk::destroy_log;
use disk::key::{Tag, all};
use futures_util::future::join_all;
use observe::fault;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use types::errno::Errno;
use types::object::ObjectId;
use types::session::Transno;
use types::target::TargetIndex;

/// Log records looked at in one go.
const RECORDS_PER_BATCH: usize = 1024;
/// Objects in one request.
const OBJECTS_PER_REQUEST: usize = 2048;

/// One record of the log.
struct Logged {
    key: Vec<u8>,
    objects: Vec<(TargetIndex, ObjectId)>,
}

/// Result of a look at the log.
struct Look {
    batch: Vec<Logged>,
    /// First key not looked at.
    next: Option<Vec<u8>>,
    /// Transno of the record there, if that is not durable yet.
    uncommitted: Option<Transno>,
}

impl Mds {
    pub(crate) async fn destroy_objects(self: std::sync::Arc<Mds>, mut stop: Stop) {
        let mut backoff = Backoff::new(self.settings.retry_min, self.settings.retry_max);
        loop {
            let done = self.destroy_pass(&mut stop).await;
            let wait = if done {
                backoff.succeeded();
                None
            } else {
                Some(backoff.failed())
            };
            if !done {
                // New removals must not turn the pauses for an absent OST into a busy loop.
                tokio::select! {
                    biased;
                    () = stop.stopped() => return,
                    () = self.env.clock.sleep(self.settings.retry_min) => {}
                }
            }
            if stop.is_stopped() || !self.destroy.wait(&self.env, wait, &mut stop).await {
                return;
            }
        }
    }

    /// One pass over the log; `false` if something is left to be tried again.
    async fn destroy_pass(&self, stop: &mut Stop) -> bool {
        let mut away = BTreeSet::new();
        let mut from = all(Tag::Destroy).0.to_vec();
        let mut clean = true;
        while !stop.is_stopped() {
            let Some(look) = self.look_at_log(&from) else { return false };
            if let (true, Some(transno)) = (look.batch.is_empty(), look.uncommitted) {
                if !clean {
                    // The time at which an OST is asked again, however long removals go on.
                    return false;
                }
                // Commits come by themselves; an error means that the store is poisoned, and
                // nothing can be done.
                let committed = tokio::select! {
                    biased;
                    committed = self.store.committed(transno) => committed.is_ok(),
                    () = stop.stopped() => false,
                };
                if !committed {
                    return false;
                }
                continue;
            }
            if !look.batch.is_empty() {
                clean &= self.destroy_batch(look.batch, &mut away, stop).await;
            }
            match look.next {
                Some(next) => from = next,
                None => break,
            }
        }
        clean
    }

    fn look_at_log(&self, from: &[u8]) -> Option<Look> {
        let committed = self.store.last_committed();
        let mut look = Look { batch: Vec::new(), next: None, uncommitted: None };
        let tx = self.store.begin();
        let scanned = tx.scan(from, &all(Tag::Destroy).1, |key, value| {
            let transno = disk::key::transno_of(key).unwrap_or_default();
            if transno > committed {
                look.uncommitted = Some(transno);
                look.next = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            if look.batch.len() == RECORDS_PER_BATCH {
                look.next = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            match destroy_log::decode(value) {
                Ok(objects) => look.batch.push(Logged { key: key.to_vec(), objects }),
                Err(error) => {
                    tracing::error!(%error, ?key, "damaged destroy log record stays behind")
                }
            }
            ControlFlow::Continue(())
        });
        tx.finish();
        scanned.inspect_err(|error| tracing::error!(%error, "cannot read the destroy log")).ok()?;
        Some(look)
    }

    /// Destroys one batch; `false` if some OST did not answer.
    async fn destroy_batch(
        &self,
        batch: Vec<Logged>,
        away: &mut BTreeSet<TargetIndex>,
        stop: &mut Stop,
    ) -> bool {
        let mut by_ost: BTreeMap<TargetIndex, Vec<ObjectId>> = BTreeMap::new();
        for (ost, object) in batch.iter().flat_map(|l| &l.objects) {
            // Objects of a removed OST went with it.
            if !away.contains(ost) && self.targets.is_known(*ost) {
                by_ost.entry(*ost).or_default().push(*object);
            }
        }
        let requests = by_ost.into_iter().map(|(ost, objects)| async move {
            for part in objects.chunks(OBJECTS_PER_REQUEST) {
                if let Err(error) = self.within(ost, self.targets.destroy(ost, part.to_vec())).await
                {
                    tracing::debug!(?ost, %error, "objects of removed files wait for their OST");
                    return Some(ost);
                }
            }
            None
        });
        let failed = tokio::select! {
            biased;
            failed = join_all(requests) => failed,
            () = stop.stopped() => return false,
        };
        away.extend(failed.into_iter().flatten());
        let done = |l: &&Logged| l.objects.iter().all(|(ost, _)| !away.contains(ost));
        let finished: Vec<&Logged> = batch.iter().filter(done).collect();
        if finished.is_empty() {
            return false;
        }
        fault::pass(&fault::MDS_DESTROY_BEFORE_LOG);
        let result = self.transact(&mut LockContext::own(), |records, _| {
            finished.iter().for_each(|l| records.tx.delete(&l.key));
            Ok(())
        });
        result.is_ok() && finished.len() == batch.len()
    }

    /// Objects on this OST of removed files that it has not destroyed yet.
    ///
    /// # Errors
    /// EIO: the log cannot be read.
    pub fn destroys_waiting(&self, ost: TargetIndex) -> Result<usize, Errno> {
        let mut count = 0;
        let tx = self.store.begin();
        let (start, end) = all(Tag::Destroy);
        let scanned = tx.scan(&start, &end, |key, value| {
            match destroy_log::decode(value) {
                Ok(objects) => count += objects.iter().filter(|(of, _)| *of == ost).count(),
                Err(error) => tracing::error!(%error, ?key, "damaged destroy log record"),
            }
            ControlFlow::Continue(())
        });
        tx.finish();
        scanned.map_err(|error| {
            tracing::error!(%error, "cannot read the destroy log");
            Errno::EIO
        })?;
        Ok(count)
    }

    /// Records in the destroy log.
    pub fn destroy_backlog(&self) -> usize {
        let mut count = 0;
        let tx = self.store.begin();
        let (start, end) = all(Tag::Destroy);
        let scanned = tx.scan(&start, &end, |_, _| {
            count += 1;
            ControlFlow::Continue(())
        });
        tx.finish();
        if let Err(error) = scanned {
            tracing::error!(%error, "cannot count the destroy log");
        }
        count
    }
}
