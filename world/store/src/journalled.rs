//! The engine of real targets: a journal makes batches durable, LMDB takes them over in the
//! background.
//!
//! A batch is durable once it is appended to the journal: one sequential write, one sync. It then
//! stays in memory as a layer over the tree. The applier thread merges it, with the other waiting
//! layers, into one synced LMDB transaction. Only then is its space in the ring free.
//!
//! So a commit costs the same in a create storm as alone, and the ring's size bounds both the
//! memory of the layers and the replay at open. A batch larger than the ring goes straight into the
//! tree. At open, the journal's records become layers again: a store is in service before the tree
//! has caught up.
//!
//! Reads: layers newest first, then a snapshot of the tree. A snapshot is used only with layers
//! that are at least as new; after each tree commit layers and snapshots change together, under one
//! lock.
//!
//! Thread: `store apply`, started by `open`, ended by `close`. If the engine is dropped, it ends
//! without applying: the journal keeps the batches.

mod applier;
mod layers;

use crate::batch::{Batch, Found, hash};
use crate::engine::{Engine, EngineSpace, Fence, Visit};
use crate::error::StoreError;
use crate::journal;
use crate::log::{Log, Position, Room};
use crate::merge::Layers;
use crate::ring::Ring;
use crate::tree::{Reader, Tree};
use disk::journal::Applied;
use env::Env;
use env::clock::Monotonic;
use layers::{Layer, merge, smallest_pair};
use parking_lot::{Condvar, Mutex};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use types::limits;
use types::session::Transno;

/// Share of the capacity kept for deleting, and its bounds in bytes.
const RESERVE_SHARE: u64 = 16;
const RESERVE_BYTES_MAX: u64 = 256 << 20;

/// Settings of the engine.
#[derive(Clone, Debug)]
pub struct JournalledOptions {
    /// Size of the journal at creation, bytes.
    pub journal_bytes: u64,
    /// Largest size of the tree, bytes; `None`: what the volume has.
    pub bytes_max: Option<u64>,
    /// Age of a layer at which the applier takes it by itself.
    pub apply_interval: Duration,
    /// Bytes of layers at which it starts at once; `None`: a quarter of the journal.
    pub apply_bytes: Option<u64>,
}

impl Default for JournalledOptions {
    fn default() -> JournalledOptions {
        JournalledOptions {
            journal_bytes: limits::JOURNAL_BYTES,
            bytes_max: None,
            apply_interval: Duration::from_secs(1),
            apply_bytes: None,
        }
    }
}

struct View {
    /// Oldest first.
    layers: Arc<Vec<Layer>>,
    /// Number of layers, from the first, that are being applied.
    applying: usize,
    /// Unused snapshots, all good for `layers`.
    readers: Vec<Reader>,
    /// Grows with each tree commit: older snapshots are thrown away.
    generation: u64,
    /// `None` once closed.
    tree: Option<Tree>,
    applied: Applied,
    oldest: Option<Monotonic>,
    bytes: u64,
    /// A caller waits for the applier.
    urgent: bool,
    stop: Stop,
    failure: Option<StoreError>,
    /// Why the tree takes nothing over now, though it will once the disk has room.
    full: Option<StoreError>,
    ended: bool,
    /// The folder's lock or the like; let go when the threads have ended.
    held: Option<Arc<dyn Send + Sync>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    /// Apply everything, then end.
    Rest,
    /// End at once.
    Drop,
}

struct Shared {
    env: Env,
    dir: PathBuf,
    options: JournalledOptions,
    log: Arc<dyn Log>,
    /// Newest epoch that was claimed through this engine.
    claimed: Mutex<Fence>,
    /// Where the next group goes. Held while one is made durable.
    head: Mutex<Position>,
    view: Mutex<View>,
    /// Wakes the applier.
    work: Condvar,
    /// Wakes callers that wait for the applier.
    done: Condvar,
}

/// Journal and tree of one target.
pub struct Journalled {
    shared: Arc<Shared>,
}

fn journal_path(dir: &Path) -> PathBuf {
    dir.join("journal")
}

/// Folder of the tree of a target.
pub(crate) fn tree_path(dir: &Path) -> PathBuf {
    dir.join("tree")
}

/// How far a tree is.
fn place_of(applied: &Applied) -> Position {
    let transno = Transno(applied.transno);
    Position { number: applied.sequence, transno, at: applied.next }
}

impl Journalled {
    /// Makes an empty engine in `dir`, which must exist. Durable when this returns.
    ///
    /// # Errors
    /// There is one already, or the disk refuses.
    pub fn create(
        env: &Env,
        dir: &Path,
        store: u128,
        options: &JournalledOptions,
    ) -> Result<(), StoreError> {
        journal::create(env, &journal_path(dir), options.journal_bytes)?;
        let capacity = journal::capacity(env, &journal_path(dir))?;
        Tree::create(
            env,
            &tree_path(dir),
            &Applied { store, capacity, clean: true, ..Applied::default() },
        )?;
        env.disk.sync_dir(dir).map_err(StoreError::io("sync", dir))
    }

    /// Opens the engine in `dir`; `store` is the uuid it was made with.
    ///
    /// # Errors
    /// Damaged, foreign, or the disk refuses.
    pub fn open(
        env: &Env,
        dir: &Path,
        store: u128,
        options: JournalledOptions,
    ) -> Result<Arc<Journalled>, StoreError> {
        let (tree, applied) = Tree::open(env, &tree_path(dir), store)?;
        let log = Arc::new(Ring::open(env, &journal_path(dir), &applied)?);
        Journalled::over(env, dir, log, (tree, applied), options)
    }

    /// Makes an empty tree in `dir`, which must exist, for a log that lies elsewhere. Durable when
    /// this returns.
    ///
    /// # Errors
    /// There is one already, or the disk refuses.
    pub fn create_tree(
        env: &Env,
        dir: &Path,
        store: u128,
        options: &JournalledOptions,
    ) -> Result<(), StoreError> {
        // As much of the log as the ring of an embedded target has may wait for the tree.
        let capacity = options.journal_bytes;
        let nothing = Applied { store, capacity, clean: true, ..Applied::default() };
        Tree::create(env, &tree_path(dir), &nothing)?;
        env.disk.sync_dir(dir).map_err(StoreError::io("sync", dir))
    }

    /// Opens the tree in `dir` over a log that lies elsewhere, and takes over what that has now.
    ///
    /// # Errors
    /// As [`Journalled::open`] and [`Log::read`].
    pub fn open_tree(
        env: &Env,
        dir: &Path,
        store: u128,
        log: Arc<dyn Log>,
        options: JournalledOptions,
    ) -> Result<Arc<Journalled>, StoreError> {
        let tree = Tree::open(env, &tree_path(dir), store)?;
        Journalled::over(env, dir, log, tree, options)
    }

    /// Takes over what the log has now: what a host does that may own the target later. Waits
    /// while too much of it is not in the tree yet.
    ///
    /// # Errors
    /// As [`Log::read`]; the tree failed.
    pub fn follow(&self) -> Result<Position, StoreError> {
        let shared = &self.shared;
        let mut head = shared.head.lock();
        shared.read_on(&mut head)?;
        let (behind, capacity) = {
            let view = shared.view.lock();
            (view.bytes, view.applied.capacity)
        };
        if behind > capacity {
            shared.wait_until_applied(head.number)?;
        }
        Ok(*head)
    }

    /// As [`Journalled::open`], over this log and the tree that takes it over.
    fn over(
        env: &Env,
        dir: &Path,
        log: Arc<dyn Log>,
        (tree, applied): (Tree, Applied),
        options: JournalledOptions,
    ) -> Result<Arc<Journalled>, StoreError> {
        let (mut layers, mut head) = (Vec::new(), place_of(&applied));
        log.read(head, &mut |entry| {
            head = entry.end;
            layers.push(entry);
            while let Some(at) = smallest_pair(&layers, 0) {
                let merged = merge(&layers[at], &layers[at + 1]);
                layers.splice(at..at + 2, [merged]);
            }
        })?;
        if applied.clean {
            // From the first change on the journal must be searched again after a crash.
            tree.apply(
                Layers::new(std::iter::empty(), &[], &[]),
                &Applied { clean: false, ..applied },
            )?;
        }
        let view = View {
            bytes: layers.iter().map(|l| l.batch.bytes() as u64).sum(),
            oldest: (!layers.is_empty()).then(|| env.clock.now()),
            layers: Arc::new(layers),
            applying: 0,
            readers: Vec::new(),
            generation: 0,
            tree: Some(tree),
            applied: Applied { clean: false, ..applied },
            urgent: false,
            stop: Stop::No,
            failure: None,
            full: None,
            ended: false,
            held: None,
        };
        let shared = Arc::new(Shared {
            env: env.clone(),
            dir: dir.to_owned(),
            options,
            log,
            claimed: Mutex::new(Fence(applied.fence)),
            head: Mutex::new(head),
            view: Mutex::new(view),
            work: Condvar::new(),
            done: Condvar::new(),
        });
        let theirs = shared.clone();
        env.tasks.spawn_thread("store apply", Box::new(move || theirs.run()));
        Ok(Arc::new(Journalled { shared }))
    }

    /// Keeps a guard (the folder's lock) until the engine no longer touches its files.
    pub fn hold(&self, guard: Arc<dyn Send + Sync>) {
        self.shared.view.lock().held = Some(guard);
    }

    /// Bytes that are durable in the journal and not yet in the tree.
    pub fn bytes_behind(&self) -> u64 {
        self.shared.view.lock().bytes
    }
}

impl Drop for Journalled {
    fn drop(&mut self) {
        let mut view = self.shared.view.lock();
        if view.stop == Stop::No {
            view.stop = Stop::Drop;
        }
        self.shared.work.notify_one();
    }
}

impl Engine for Journalled {
    fn get(&self, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        let snapshot = self.shared.snapshot()?;
        let hash = hash(key);
        for layer in snapshot.layers.iter().rev() {
            match layer.batch.get_hashed(hash, key) {
                Found::Unknown => {}
                Found::Deleted => return Ok(false),
                Found::Value(value) => {
                    f(value);
                    return Ok(true);
                }
            }
        }
        snapshot.tree().get(snapshot.reader(), key, f)
    }

    fn scan(&self, start: &[u8], end: &[u8], f: &mut Visit<'_>) -> Result<(), StoreError> {
        if start >= end {
            return Ok(());
        }
        let snapshot = self.shared.snapshot()?;
        Layers::new(snapshot.layers.iter().rev().map(|l| &*l.batch), start, end)
            .scan_over(|visit| snapshot.tree().scan(snapshot.reader(), start, end, visit), f)
    }

    fn commit(&self, batch: &Arc<Batch>, fence: Fence) -> Result<(), StoreError> {
        let shared = &self.shared;
        let mut head = shared.head.lock();
        let current = *shared.claimed.lock();
        if fence < current {
            return Err(StoreError::Fenced { ours: fence.0, current: current.0 });
        }
        if !shared.wait_for_room(batch)? {
            return shared.commit_to_tree(&mut head, batch, fence);
        }
        let end = shared.log.append(*head, batch, fence).inspect_err(|error| shared.fail(error))?;
        *head = end;
        shared.push(Layer { batch: batch.clone(), fence, end });
        Ok(())
    }

    fn claim(&self, at_least: Fence) -> Result<Fence, StoreError> {
        let shared = &self.shared;
        let mut head = shared.head.lock();
        shared.wait_for_room(&Batch::new())?;
        let fence = shared.log.claim(*head, at_least).inspect_err(|error| shared.fail(error))?;
        *shared.claimed.lock() = fence;
        shared.read_on(&mut head)?;
        Ok(fence)
    }

    fn last_transno(&self) -> Transno {
        let view = self.shared.view.lock();
        view.layers.last().map_or(Transno(view.applied.transno), |layer| layer.end.transno)
    }

    fn space(&self) -> Result<EngineSpace, StoreError> {
        let shared = &self.shared;
        let snapshot = shared.snapshot()?;
        let (used, file) = snapshot.tree().bytes(snapshot.reader())?;
        let behind = shared.view.lock().bytes;
        let volume = shared
            .env
            .disk
            .space(&shared.dir)
            .map_err(StoreError::io("look at the volume of", &shared.dir))?;
        let most = file.max(used) + volume.bytes_available;
        let capacity = shared.options.bytes_max.map_or(most, |max| max.min(most));
        // The waiting layers may take twice their size: pages split half full.
        Ok(EngineSpace {
            used: used + behind * 2,
            capacity,
            reserved: (capacity / RESERVE_SHARE).min(RESERVE_BYTES_MAX),
        })
    }

    fn hindrance(&self) -> Option<StoreError> {
        self.shared.view.lock().full.clone()
    }

    fn close(&self) -> Result<(), StoreError> {
        let mut view = self.shared.view.lock();
        if view.stop == Stop::No {
            view.stop = Stop::Rest;
        }
        self.shared.work.notify_one();
        while !view.ended {
            self.shared.done.wait(&mut view);
        }
        // The last handles of LMDB go here, so that the folder can be opened again at once.
        view.readers.clear();
        view.tree = None;
        view.held = None;
        match &view.failure {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}

/// Layers and tree as they belong together.
struct Snapshot<'a> {
    shared: &'a Shared,
    layers: Arc<Vec<Layer>>,
    tree: Option<(Tree, Reader)>,
    generation: u64,
}

impl Snapshot<'_> {
    fn tree(&self) -> &Tree {
        &self.tree.as_ref().expect("taken only in drop").0
    }

    fn reader(&self) -> &Reader {
        &self.tree.as_ref().expect("taken only in drop").1
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        if let Some((_, reader)) = self.tree.take() {
            let mut view = self.shared.view.lock();
            if view.generation == self.generation && view.tree.is_some() {
                view.readers.push(reader);
            }
        }
    }
}

impl Shared {
    fn snapshot(&self) -> Result<Snapshot<'_>, StoreError> {
        let mut view = self.view.lock();
        let tree = view.tree.clone().ok_or(StoreError::Closed)?;
        // A snapshot begun now may be newer than the layers being applied, never older: where both
        // have a record, it is the same.
        let reader = match view.readers.pop() {
            Some(reader) => reader,
            None => tree.reader()?,
        };
        Ok(Snapshot {
            shared: self,
            layers: view.layers.clone(),
            tree: Some((tree, reader)),
            generation: view.generation,
        })
    }

    /// Waits until the log can take a batch; `false`: it never can.
    fn wait_for_room(&self, batch: &Batch) -> Result<bool, StoreError> {
        let mut view = self.view.lock();
        loop {
            if let Some(failure) = &view.failure {
                return Err(failure.clone());
            }
            if view.stop != Stop::No {
                return Err(StoreError::Closed);
            }
            match self.log.room(batch) {
                Room::Now => return Ok(true),
                Room::Never => return Ok(false),
                Room::AfterTrim => {}
            }
            view.urgent = true;
            self.work.notify_one();
            self.done.wait(&mut view);
        }
    }

    /// Makes layers of what the log has behind `head`.
    fn read_on(&self, head: &mut Position) -> Result<(), StoreError> {
        let after = *head;
        self.log.read(after, &mut |entry| {
            *head = entry.end;
            self.push(entry);
        })
    }

    /// The log failed, unless it only refused an owner that lost the target.
    fn fail(&self, error: &StoreError) {
        if !matches!(
            error,
            StoreError::Fenced { .. } | StoreError::NoAnswer { .. } | StoreError::Owned { .. }
        ) {
            let cause = error.to_string().into();
            self.view.lock().failure = Some(StoreError::Poisoned { cause });
            self.done.notify_all();
        }
    }

    /// A durable batch becomes the newest layer.
    fn push(&self, layer: Layer) {
        let mut view = self.view.lock();
        view.bytes += layer.batch.bytes() as u64;
        Arc::make_mut(&mut view.layers).push(layer);
        if view.oldest.is_none() {
            view.oldest = Some(self.env.clock.now());
        }
        self.work.notify_one();
        let Some(at) = smallest_pair(&view.layers, view.applying) else { return };
        let pair = [view.layers[at].clone(), view.layers[at + 1].clone()];
        drop(view);
        let merged = merge(&pair[0], &pair[1]);
        let mut view = self.view.lock();
        // Meanwhile the applier may have taken them, or applied others before them.
        let place = view.layers.iter().position(|l| Arc::ptr_eq(&l.batch, &pair[0].batch));
        let Some(at) = place.filter(|at| *at >= view.applying) else { return };
        let before = (pair[0].batch.bytes() + pair[1].batch.bytes()) as u64;
        view.bytes = view.bytes - before + merged.batch.bytes() as u64;
        Arc::make_mut(&mut view.layers).splice(at..at + 2, [merged]);
    }

    /// A batch that the log can never hold: waits until the tree has everything older, then for
    /// the tree to have this too.
    fn commit_to_tree(
        &self,
        head: &mut Position,
        batch: &Arc<Batch>,
        fence: Fence,
    ) -> Result<(), StoreError> {
        self.wait_until_applied(head.number)?;
        *head = Position { number: head.number + 1, transno: batch.transno(), at: head.at };
        self.push(Layer { batch: batch.clone(), fence, end: *head });
        self.wait_until_applied(head.number)
    }

    fn wait_until_applied(&self, sequence: u64) -> Result<(), StoreError> {
        let mut view = self.view.lock();
        while view.applied.sequence < sequence {
            if let Some(failure) = &view.failure {
                return Err(failure.clone());
            }
            if view.ended {
                return Err(StoreError::Closed);
            }
            view.urgent = true;
            self.work.notify_one();
            self.done.wait(&mut view);
        }
        Ok(())
    }
}
