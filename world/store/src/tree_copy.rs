//! A tree that is copied from that of the owner, page by page: for a host that joins late, or that
//! lost its folder, when the log no longer begins where its tree ends (docs/ownership.md).
//!
//! A page has records that are committed, in the order of their keys; each page is of a moment of
//! its own. Before the first one the host notes as its place what is durable in the owner's tree:
//! from there on the log is kept for it, and every page has what is before. (The head of the log
//! would not do: its newest entry may be one whose answer the owner waits for.) Entries say what a
//! key has, not how it changes, so that the log behind that place makes the copy what the owner's
//! tree is, however many of its entries a page had already.

use crate::batch::Batch;
use crate::engine::{Engine, KEY_END};
use crate::error::StoreError;
use crate::journal::batch_of;
use crate::journalled::{JournalledOptions, tree_path};
use crate::log::Position;
use crate::merge::Layers;
use crate::shared_log::SharedLog;
use crate::tree::Tree;
use disk::copying::Copying;
use disk::journal::{Applied, encode_change};
use env::Env;
use std::ops::ControlFlow;
use std::path::Path;
use types::session::Transno;

/// Records of a tree, as [`page_of`] makes them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// Number of records.
    pub records: u32,
    /// There are more behind them.
    pub more: bool,
    /// The records, as changes of a group (docs/store.md).
    pub bytes: Vec<u8>,
}

impl Page {
    fn bad(reason: &str) -> StoreError {
        StoreError::Damaged {
            file: "a page of the owner's tree".into(),
            offset: 0,
            reason: reason.to_owned(),
        }
    }

    /// Its records, frozen, if they are those of a page behind the key `after`; and the last key.
    fn records_behind(&self, after: &[u8]) -> Result<(Batch, Vec<u8>), StoreError> {
        let mut batch = batch_of(&self.bytes, self.records)
            .ok_or_else(|| Page::bad("its records cannot be read"))?;
        batch.freeze();
        let (mut last, mut count) = (after.to_vec(), 0);
        for (key, value) in batch.iter() {
            if value.is_none() || key <= &last[..] {
                return Err(Page::bad("its records are not those behind the last one"));
            }
            last = key.to_vec();
            count += 1;
        }
        if count != self.records || self.more && count == 0 {
            return Err(Page::bad("it has fewer records than it says"));
        }
        Ok((batch, last))
    }

    /// Its records, frozen.
    pub(crate) fn records(&self) -> Result<Batch, StoreError> {
        self.records_behind(b"").map(|(records, _)| records)
    }

    /// The key of its last record, if it can be taken behind the key `after`.
    pub(crate) fn end_behind(&self, after: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.records_behind(after).map(|(_, last)| last)
    }
}

/// The committed records behind `after`, up to about `bytes`, and one at least if there is any.
///
/// # Errors
/// The engine cannot be read.
pub fn page_of(engine: &dyn Engine, after: &[u8], bytes: usize) -> Result<Page, StoreError> {
    let mut page = Page::default();
    let start = if after.is_empty() { Vec::new() } else { [after, &[0]].concat() };
    engine.scan(&start, &KEY_END, &mut |key, value| {
        if page.records > 0 && page.bytes.len() + key.len() + value.len() > bytes {
            page.more = true;
            return ControlFlow::Break(());
        }
        encode_change(key, Some(value), &mut page.bytes);
        page.records += 1;
        ControlFlow::Continue(())
    })?;
    Ok(page)
}

/// A copy under way. The folder's lock must be held.
pub struct TreeCopy {
    tree: Tree,
    applied: Applied,
    copying: Copying,
}

impl TreeCopy {
    /// Goes on with the copy in the target's folder `dir`, or begins anew if there is none, or the
    /// log is not kept for it any more. Blocks.
    ///
    /// # Errors
    /// The tree is missing, damaged or of another store; the log does not answer.
    pub fn open(
        env: &Env,
        dir: &Path,
        store: u128,
        log: &SharedLog,
        options: &JournalledOptions,
    ) -> Result<TreeCopy, StoreError> {
        let (tree, applied) = Tree::open_any(env, &tree_path(dir), store)?;
        let place = Position { number: applied.sequence, transno: Transno(applied.transno), at: 0 };
        if let Some(copying) = tree.copying()?
            && log.hold(Some(place))?.is_some()
        {
            return Ok(TreeCopy { tree, applied, copying });
        }
        let Some(place) = log.hold(None)? else {
            return Err(StoreError::Behind {
                log: log.name().into(),
                missing: applied.sequence + 1,
            });
        };
        TreeCopy::begin(tree, store, place, options)
    }

    /// Begins a copy from a checkpoint, whose pages have everything up to this place. Blocks.
    ///
    /// # Errors
    /// As [`TreeCopy::open`]; [`StoreError::Behind`]: the log does not go on from that place.
    pub fn from_checkpoint(
        env: &Env,
        dir: &Path,
        store: u128,
        (log, place): (&SharedLog, Position),
        options: &JournalledOptions,
    ) -> Result<TreeCopy, StoreError> {
        let (tree, _) = Tree::open_any(env, &tree_path(dir), store)?;
        let Some(place) = log.hold(Some(place))? else {
            let missing = place.number + 1;
            return Err(StoreError::Behind { log: log.name().into(), missing });
        };
        TreeCopy::begin(tree, store, place, options)
    }

    fn begin(
        tree: Tree,
        store: u128,
        place: Position,
        options: &JournalledOptions,
    ) -> Result<TreeCopy, StoreError> {
        let applied = Applied {
            store,
            sequence: place.number,
            transno: place.transno.0,
            capacity: options.journal_bytes,
            ..Applied::default()
        };
        tree.begin_copy(&applied)?;
        Ok(TreeCopy { tree, applied, copying: Copying::default() })
    }

    /// Key of its last record: the next page begins behind it.
    pub fn after(&self) -> &[u8] {
        &self.copying.after
    }

    /// Takes the next page, durably. `true`: the copy is whole. Blocks.
    ///
    /// # Errors
    /// These are no records behind the last one: nothing was taken. Or the disk refuses.
    pub fn take(&mut self, page: &Page) -> Result<bool, StoreError> {
        let (batch, after) = page.records_behind(&self.copying.after)?;
        let next = page.more.then_some(Copying { after });
        let records = Layers::new(std::iter::once(&batch), &[], &KEY_END);
        self.tree.take_copied(records, &self.applied, next.as_ref())?;
        self.copying = next.unwrap_or_default();
        Ok(!page.more)
    }

    /// Begins anew: what it has is thrown away, durably, and the log is kept from its head on.
    ///
    /// # Errors
    /// As [`TreeCopy::open`].
    pub fn begin_anew(&mut self, log: &SharedLog) -> Result<(), StoreError> {
        let Some(place) = log.hold(None)? else { return Ok(()) };
        let (sequence, transno) = (place.number, place.transno.0);
        self.applied = Applied { sequence, transno, ..self.applied };
        self.tree.begin_copy(&self.applied)?;
        self.copying = Copying::default();
        Ok(())
    }
}
