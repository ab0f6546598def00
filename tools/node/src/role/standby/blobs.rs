//! The blobs beside a log: what an owner does about them.
//!
//! Thread `keep blobs`: it makes checkpoints of the tree when enough of the log is behind the last
//! one, and removes blobs that no key names any more. It has a connection of its own to the store
//! of blobs, so that commits do not wait behind a checkpoint. It ends with the lease of the owner,
//! or when the target is closed; then it reads nothing more.

use super::{Life, Opened, Opener, Taken};
use crate::error::NodeError;
use env::Env;
use etcd::s3::S3;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use store::blobs::Blobs;
use store::checkpoint::{self, Checkpoint};
use store::error::StoreError;
use store::lease::Lease;
use store::shared_log::SharedLog;
use store::store::Store;
use store::sweep::sweep;
use store::tree_copy::TreeCopy;
use target::TargetError;

/// Time after a take-over in which clients come first.
const FIRST: Duration = Duration::from_secs(5);
/// How often it is seen whether a checkpoint is due.
const LOOK: Duration = Duration::from_secs(1);
/// How often unneeded blobs are removed.
const SWEEP: Duration = Duration::from_secs(60);
/// How soon the thread ends.
const STEP: Duration = Duration::from_millis(50);

/// The owner, as this thread knows it.
struct Keeper {
    env: Env,
    log: Arc<SharedLog>,
    blobs: S3,
    store: Weak<Store>,
    lease: Arc<Lease>,
    stopped: Arc<AtomicBool>,
}

impl Life {
    /// Begins to look after the blobs of a target that was taken over, if it has any.
    pub(super) fn keep_blobs(&self, taken: &Taken) {
        let Some(bucket) = &self.place.members.blobs else { return };
        let blobs = match S3::new(bucket) {
            Ok(blobs) => blobs,
            Err(error) => {
                return tracing::error!(%error, "no checkpoints are made, so the log grows");
            }
        };
        let keeper = Keeper {
            env: self.parts.env.clone(),
            log: taken.log.clone(),
            blobs,
            store: Arc::downgrade(taken.target.store()),
            lease: taken.lease.clone(),
            stopped: self.stopped.clone(),
        };
        self.parts.env.tasks.spawn_thread("keep blobs", Box::new(move || keeper.run()));
    }

    /// Makes the tree of this host from the checkpoint, if that can be completed from the log.
    /// `false`: it cannot, or there is none. Blocks.
    pub(super) fn restore(
        opener: &Opener,
        engine: &store::journalled::JournalledOptions,
        stopped: &AtomicBool,
    ) -> Result<bool, NodeError> {
        let Some(bucket) = &opener.members.blobs else { return Ok(false) };
        let blobs = S3::new(bucket).map_err(NodeError::Process)?;
        let Opened { name, block, log, lock: _lock, .. } = opener.open()?;
        opener.join(&log, block)?;
        let Some(of) = log.checkpoint().map_err(TargetError::from)? else { return Ok(false) };
        let stop = || stopped.load(Ordering::Acquire);
        tracing::info!(%name, entry = of.number, pages = of.pages, "reading the checkpoint");
        // Before the tree is given up.
        if !checkpoint::check(&log, &blobs, &of, &stop).map_err(TargetError::from)? {
            return Ok(false);
        }
        let place = (&*log, of.place());
        let copy = TreeCopy::from_checkpoint(&opener.env, &opener.dir, block.store, place, engine);
        let copy = match copy {
            Err(StoreError::Behind { .. }) => return Ok(false),
            copy => copy.map_err(TargetError::from)?,
        };
        let whole = take_all(copy, &log, &blobs, &of, &stop).map_err(TargetError::from)?;
        if whole {
            tracing::info!(%name, entry = of.number, "the tree is that of the checkpoint");
        }
        Ok(whole)
    }
}

fn take_all(
    mut copy: TreeCopy,
    log: &SharedLog,
    blobs: &dyn Blobs,
    of: &Checkpoint,
    stop: &dyn Fn() -> bool,
) -> Result<bool, StoreError> {
    for page in 0..of.pages {
        if stop() {
            return Ok(false);
        }
        copy.take(&checkpoint::read(log, blobs, of, page)?)?;
    }
    Ok(true)
}

impl Keeper {
    fn ends(&self) -> bool {
        let gone = self.store.upgrade().is_none_or(|store| store.is_fenced());
        gone || self.lease.is_ended() || self.stopped.load(Ordering::Acquire)
    }

    /// `false`: it ends.
    fn pause(&self, time: Duration) -> bool {
        let until = self.env.clock.now() + time;
        while self.env.clock.now() < until {
            if self.ends() {
                return false;
            }
            std::thread::sleep(STEP);
        }
        !self.ends()
    }

    fn run(&self) {
        let (mut more, mut next_sweep, mut said) = (self.pause(FIRST), Duration::ZERO, false);
        while more {
            let mut done = self.checkpoint();
            if done.is_ok() && self.env.clock.now() >= next_sweep {
                next_sweep = self.env.clock.now() + SWEEP;
                done = sweep(&self.log, &self.blobs, &|| self.ends()).map(drop);
            }
            match done {
                Ok(()) => said = false,
                Err(StoreError::Closed) => return,
                Err(error) if !std::mem::replace(&mut said, true) && !self.ends() => {
                    tracing::warn!(%error, "no checkpoint; trying again");
                }
                Err(_) => {}
            }
            more = self.pause(LOOK);
        }
    }

    fn checkpoint(&self) -> Result<(), StoreError> {
        let Some(store) = self.store.upgrade() else { return Err(StoreError::Closed) };
        let now = self.log.checkpoint()?;
        if !self.log.wants_checkpoint(now.as_ref(), store.space()?.used) {
            return Ok(());
        }
        let id = self.env.random.next_u128() as u64;
        let ends = || self.ends();
        let made = checkpoint::write(store.engine(), &self.log, &self.blobs, id, &ends)?;
        if let Some(made) = made {
            tracing::info!(
                log = self.log.name(),
                entry = made.number,
                pages = made.pages,
                "checkpoint"
            );
            // What the one before had is in the way of nothing.
            sweep(&self.log, &self.blobs, &ends)?;
        }
        Ok(())
    }
}
