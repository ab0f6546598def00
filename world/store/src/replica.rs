//! An engine over a log whose tree is in memory: the twin of [`crate::journalled`] for tests and
//! simulation of take-overs.

use crate::batch::Batch;
use crate::blobs::Blobs;
use crate::checkpoint;
use crate::engine::{Engine, EngineSpace, Fence, Visit};
use crate::error::StoreError;
use crate::log::{Entry, Log, Position};
use crate::memory::Memory;
use crate::shared_log::SharedLog;
use parking_lot::Mutex;
use std::sync::Arc;
use types::session::Transno;

/// A log, and a tree in memory that takes it over.
pub struct Replica {
    log: Arc<dyn Log>,
    tree: Arc<Memory>,
    head: Mutex<Position>,
}

impl Replica {
    /// A tree that has the log up to `head`.
    pub fn new(log: Arc<dyn Log>, tree: Arc<Memory>, head: Position) -> Arc<Replica> {
        Arc::new(Replica { log, tree, head: Mutex::new(head) })
    }

    /// A tree made from the checkpoint of the log. `None`: there is none, or the log does not go on
    /// from it.
    ///
    /// # Errors
    /// As [`checkpoint::read`].
    pub fn from_checkpoint(
        log: &Arc<SharedLog>,
        blobs: &dyn Blobs,
        tree: Arc<Memory>,
    ) -> Result<Option<Arc<Replica>>, StoreError> {
        let Some(of) = log.checkpoint()? else { return Ok(None) };
        checkpoint::check(log, blobs, &of, &|| false)?;
        let Some(place) = log.hold(Some(of.place()))? else { return Ok(None) };
        for number in 0..of.pages {
            let page = checkpoint::read(log, blobs, &of, number)?;
            tree.commit(&Arc::new(page.records()?), Fence(u64::MAX))?;
        }
        Ok(Some(Replica::new(log.clone(), tree, place)))
    }

    /// How far the tree is.
    pub fn position(&self) -> Position {
        *self.head.lock()
    }

    /// Takes over what the log has now.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn follow(&self) -> Result<(), StoreError> {
        let mut head = self.head.lock();
        let (mut failed, after) = (None, *head);
        let mut take = |entry: Entry| match self.tree.commit(&entry.batch, Fence(u64::MAX)) {
            Ok(()) if failed.is_none() => *head = entry.end,
            Ok(()) => {}
            Err(error) => failed = failed.take().or(Some(error)),
        };
        self.log.read(after, &mut take)?;
        failed.map_or(Ok(()), Err)
    }
}

impl Engine for Replica {
    fn get(&self, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        self.tree.get(key, f)
    }

    fn scan(&self, start: &[u8], end: &[u8], f: &mut Visit<'_>) -> Result<(), StoreError> {
        self.tree.scan(start, end, f)
    }

    fn commit(&self, batch: &Arc<Batch>, fence: Fence) -> Result<(), StoreError> {
        let mut head = self.head.lock();
        *head = self.log.append(*head, batch, fence)?;
        self.tree.commit(batch, Fence(u64::MAX))
    }

    fn claim(&self, at_least: Fence) -> Result<Fence, StoreError> {
        let fence = self.log.claim(self.position(), at_least)?;
        self.follow()?;
        Ok(fence)
    }

    fn last_transno(&self) -> Transno {
        self.position().transno
    }

    fn space(&self) -> Result<EngineSpace, StoreError> {
        self.tree.space()
    }

    fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
