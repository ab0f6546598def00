//! One target's store: the overlay, and the group commit under it.
//!
//! Layers, newest first: the open group, which transactions change; at most one frozen group, which
//! the commit thread is making durable; the engine. A commit starts on request, when the group
//! reaches `group_bytes_soft`, or `commit_interval` after the group's first change.
//!
//! Transactions never wait for it. [`Store::admit`], called before a change, waits while open and
//! frozen bytes exceed `group_bytes_hard`, and refuses when the engine is nearly full.
//!
//! Order: `last_committed <= last_assigned`, and a group ends between transactions, so durable
//! changes are always a prefix of the transno order. A failed commit poisons the store: memory may
//! then have changes that the disk does not.
//!
//! Thread: `store commit`, started by `open`, ended by `close` (or when the last `Store` is
//! dropped).

mod committing;

use crate::batch::Batch;
use crate::blocking::block_on;
use crate::engine::{Engine, EngineSpace, Fence};
use crate::error::StoreError;
use crate::progress::Progress;
use crate::tree_copy::{Page, page_of};
use crate::tx::Tx;
use env::Env;
use env::clock::Monotonic;
use observe::histogram::Histogram;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use types::limits;
use types::limits::TREE_PAGE_BYTES;
use types::session::Transno;

/// What to do about a store that stopped.
const RESTART: &str = "free space on its disk, or mend that, and then restart the process that \
                       serves it; what was told as durable is there";
/// Bytes of the tree that a byte of records may take, in the worst split of pages.
const TREE_BYTES_PER_BYTE: u64 = 3;

/// The thread that commits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Committer {
    /// A thread of the store's own.
    Thread,
    /// The caller of [`Store::commit`] or [`Store::commit_if_due`], in place: for simulation, where
    /// nothing runs by itself.
    Caller,
}

/// Settings of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The least epoch that is claimed.
    pub at_least: Fence,
    /// Age of a group at which it is committed by itself.
    pub commit_interval: Duration,
    /// Bytes of the open group at which it is committed at once.
    pub group_bytes_soft: usize,
    /// Bytes of open and frozen groups at which `admit` waits.
    pub group_bytes_hard: usize,
    /// The thread that commits.
    pub committer: Committer,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            at_least: Fence::default(),
            commit_interval: limits::COMMIT_INTERVAL,
            group_bytes_soft: limits::GROUP_BYTES_SOFT,
            group_bytes_hard: limits::GROUP_BYTES_HARD,
            committer: Committer::Thread,
        }
    }
}

/// Commits so far: how long each took, and what it carried.
#[derive(Clone, Default)]
pub struct Commits {
    /// Microseconds from the freezing of a group until it was durable.
    pub time: Arc<Histogram>,
    /// Bytes of the group.
    pub bytes: Arc<Histogram>,
}

/// Says how many bytes were promised to clients. It asks nothing of the store.
pub type Promised = Box<dyn Fn() -> u64 + Send + Sync>;

/// State under the lock.
pub(crate) struct State {
    pub(crate) open: Batch,
    pub(crate) frozen: Option<Arc<Batch>>,
    /// The log did not say whether it has the frozen group: it is to be asked again.
    unanswered: Option<StoreError>,
    pub(crate) last_assigned: Transno,
    /// Time of the open group's first change.
    opened: Option<Monotonic>,
    /// A commit was requested.
    asked: bool,
    stop: bool,
}

pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    pub(crate) engine: Arc<dyn Engine>,
    /// Our epoch of ownership.
    fence: Fence,
    env: Env,
    options: StoreOptions,
    /// Wakes the commit thread.
    work: Condvar,
    /// Held while committing: commits are serial.
    turn: Mutex<()>,
    progress: Progress,
    last_committed: AtomicU64,
    bytes_open: AtomicUsize,
    bytes_frozen: AtomicUsize,
    commits: Commits,
    poisoned: AtomicBool,
    failure: Mutex<Option<StoreError>>,
    full: AtomicBool,
    /// A test ordered that nothing is committed any more.
    discarding: AtomicBool,
    space_looked: Mutex<Monotonic>,
    promised: OnceLock<Promised>,
    /// Set once, when the store is closed and its threads have ended.
    closed: Mutex<Option<Result<(), StoreError>>>,
}

/// One target's store.
pub struct Store {
    shared: Arc<Shared>,
}

impl Store {
    /// Claims an engine, opens a store over it, and starts the commit thread. Blocks.
    ///
    /// # Errors
    /// The engine cannot be claimed, or cannot tell its space.
    pub fn open(
        engine: Arc<dyn Engine>,
        env: Env,
        options: StoreOptions,
    ) -> Result<Arc<Store>, StoreError> {
        let fence = engine.claim(options.at_least)?;
        let last = engine.last_transno();
        let state = State {
            open: Batch::new(),
            frozen: None,
            unanswered: None,
            last_assigned: last,
            opened: None,
            asked: false,
            stop: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            engine,
            fence,
            env,
            options,
            work: Condvar::new(),
            turn: Mutex::new(()),
            progress: Progress::default(),
            last_committed: AtomicU64::new(last.0),
            bytes_open: AtomicUsize::new(0),
            bytes_frozen: AtomicUsize::new(0),
            commits: Commits::default(),
            poisoned: AtomicBool::new(false),
            failure: Mutex::new(None),
            full: AtomicBool::new(false),
            discarding: AtomicBool::new(false),
            space_looked: Mutex::new(Duration::ZERO),
            promised: OnceLock::new(),
            closed: Mutex::new(None),
        });
        shared.look_at_space()?;
        if shared.options.committer == Committer::Thread {
            let theirs = shared.clone();
            shared.env.tasks.spawn_thread("store commit", Box::new(move || theirs.run()));
        }
        Ok(Arc::new(Store { shared }))
    }

    /// The epoch that it claimed.
    pub fn fence(&self) -> Fence {
        self.shared.fence
    }

    /// Starts a transaction: takes the store's one lock. Waits for no I/O but the engine's reads.
    pub fn begin(&self) -> Tx<'_> {
        Tx::new(&self.shared)
    }

    /// Waits until an operation that takes space may start: not while too much is uncommitted.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`], poisoned, closed.
    pub async fn admit(&self) -> Result<(), StoreError> {
        self.shared.check_space()?;
        self.admit_release().await
    }

    /// Waits until an operation that releases space (or takes next to none) may start. As
    /// [`Store::admit`], but allowed to use the reserve of a full store.
    ///
    /// # Errors
    /// Poisoned, closed.
    pub async fn admit_release(&self) -> Result<(), StoreError> {
        self.shared.check()?;
        if self.shared.has_room() {
            return Ok(());
        }
        self.shared.ask();
        if self.shared.options.committer == Committer::Caller {
            self.shared.commit_step();
        }
        let shared = &self.shared;
        shared
            .progress
            .wait(Transno(0), || match shared.check() {
                Ok(()) => shared.has_room().then_some(Ok(())),
                Err(e) => Some(Err(e)),
            })
            .await
    }

    /// Newest durable transno.
    pub fn last_committed(&self) -> Transno {
        self.shared.last_committed()
    }

    /// Newest transno given to a transaction.
    pub fn last_assigned(&self) -> Transno {
        self.shared.state.lock().last_assigned
    }

    /// Starts a commit at once; everything applied before the call is durable when it returns.
    ///
    /// # Errors
    /// The commit failed: the store is poisoned.
    pub async fn commit(&self) -> Result<Transno, StoreError> {
        let assigned = self.shared.ask();
        if self.shared.options.committer == Committer::Caller {
            self.shared.commit_step();
        }
        self.committed(assigned).await?;
        Ok(assigned)
    }

    /// As [`Store::commit`], on a thread that may block.
    ///
    /// # Errors
    /// The commit failed: the store is poisoned.
    pub fn commit_blocking(&self) -> Result<Transno, StoreError> {
        block_on(self.commit())
    }

    /// Waits until `transno` is durable, without hastening it.
    ///
    /// # Errors
    /// Poisoned or closed before it was durable.
    pub async fn committed(&self, transno: Transno) -> Result<(), StoreError> {
        let shared = &self.shared;
        if shared.last_committed() >= transno {
            return Ok(());
        }
        shared
            .progress
            .wait(transno, || {
                if shared.last_committed() >= transno {
                    Some(Ok(()))
                } else {
                    shared.check().err().map(Err)
                }
            })
            .await
    }

    /// Commits in place if a group is old or large enough; for [`Committer::Caller`]. Blocks.
    pub fn commit_if_due(&self) {
        let due = self.shared.due(&self.shared.state.lock()).is_none();
        if due {
            self.shared.commit_step();
        }
    }

    /// For tests (`notransno`): everything applied so far and from now on stays in memory and is
    /// lost with it. A task that waits for a commit waits until the process ends. Only opening the
    /// store again undoes this.
    pub fn discard_from_now_on(&self) {
        // In turn, so that a commit that is under way is either done or will not be.
        let _turn = self.shared.turn.lock();
        self.shared.discarding.store(true, Ordering::Release);
    }

    /// See [`Store::discard_from_now_on`].
    pub fn is_discarding(&self) -> bool {
        self.shared.discarding.load(Ordering::Acquire)
    }

    /// Records behind `after` that are committed, for the copy of another host: about as many as
    /// [`TREE_PAGE_BYTES`] are. They are read beside the caller's thread.
    ///
    /// # Errors
    /// The engine cannot be read.
    pub async fn tree_page(&self, after: Vec<u8>) -> Result<Page, StoreError> {
        let (done, mut result) = env::watch::channel(None);
        let shared = self.shared.clone();
        let read = move || {
            done.send_replace(Some(page_of(&*shared.engine, &after, TREE_PAGE_BYTES)));
        };
        self.shared.env.tasks.spawn_blocking("read a tree", Box::new(read));
        let read = result.wait_for(Option::is_some).await;
        read.ok().and_then(|page| page.clone()).unwrap_or(Err(StoreError::Closed))
    }

    /// The engine under it: what is committed.
    pub fn engine(&self) -> &dyn Engine {
        &*self.shared.engine
    }

    /// From now on operations that take space leave what `promised` says. The first one counts.
    pub fn leave_room(&self, promised: Promised) {
        // An error: it is said already.
        let _ = self.shared.promised.set(promised);
    }

    /// More was promised: whether there is room for other operations is looked up anew.
    ///
    /// # Errors
    /// The volume cannot be asked.
    pub fn room_changed(&self) -> Result<(), StoreError> {
        self.shared.look_at_space()
    }

    /// Space of the engine, and how many bytes operations that need space may still take of it when
    /// all that is applied has become part of the tree.
    ///
    /// # Errors
    /// The volume cannot be asked.
    pub fn space_left(&self) -> Result<(EngineSpace, u64), StoreError> {
        let pending = self.bytes_uncommitted() as u64 * TREE_BYTES_PER_BYTE;
        let space = self.space()?;
        Ok((space, space.available().saturating_sub(pending)))
    }

    /// Space of the engine.
    ///
    /// # Errors
    /// The volume cannot be asked.
    pub fn space(&self) -> Result<EngineSpace, StoreError> {
        self.shared.engine.space()
    }

    /// Why it stopped, if a commit failed: memory may have changes that the disk does not.
    pub fn failure(&self) -> Option<StoreError> {
        self.shared.failure.lock().clone().filter(|error| !matches!(error, StoreError::Closed))
    }

    /// What an administrator must know of it: that it stopped, and what to do; or what is in its
    /// way, though it goes on. `None`: nothing.
    pub fn trouble(&self) -> Option<String> {
        let stopped = |failure: StoreError| match failure {
            StoreError::Fenced { .. } => None,
            failure => Some(format!("{failure}; {RESTART}")),
        };
        match self.failure() {
            Some(failure) => stopped(failure),
            None => self.shared.engine.hindrance().map(|hindrance| hindrance.to_string()),
        }
    }

    /// True if another owner took the target over.
    pub fn is_fenced(&self) -> bool {
        self.shared.poisoned.load(Ordering::Acquire)
            && matches!(*self.shared.failure.lock(), Some(StoreError::Fenced { .. }))
    }

    /// Why the newest commit waits, if it does because the log does not answer.
    pub fn unanswered(&self) -> Option<StoreError> {
        self.shared.state.lock().unanswered.clone()
    }

    /// Costs of its commits.
    pub fn commits(&self) -> &Commits {
        &self.shared.commits
    }

    /// Bytes that are applied and not yet durable.
    pub fn bytes_uncommitted(&self) -> usize {
        self.shared.bytes_open.load(Ordering::Relaxed)
            + self.shared.bytes_frozen.load(Ordering::Relaxed)
    }

    /// Commits, ends the commit thread, brings the engine to rest.
    ///
    /// # Errors
    /// Applied changes could not be made durable.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.shared.stop();
        if self.shared.options.committer == Committer::Caller {
            self.shared.end();
        }
        let shared = &self.shared;
        shared.progress.wait(Transno(u64::MAX), || shared.closed.lock().clone()).await
    }
}

impl Store {
    /// As [`Store::close`], on a thread that may block.
    ///
    /// # Errors
    /// As [`Store::close`].
    pub fn close_blocking(&self) -> Result<(), StoreError> {
        block_on(self.close())
    }
}

impl Drop for Store {
    /// Without `close` a failure is not reported, but the group is still committed and the thread
    /// ends.
    fn drop(&mut self) {
        self.shared.stop();
    }
}
