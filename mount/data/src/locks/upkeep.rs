//! Giving locks back, and no longer trusting what an MDT granted.
//!
//! One task per mount. When there are too many locks the oldest go, in batches, those of inodes
//! that the kernel forgot first; so do those that were not used for longer than an administrator
//! allows. Locks of inodes that this mount removed end without a callback: they are forgotten with
//! the inode.
//!
//! When an MDT was not heard of for two thirds of its lease, everything that it granted is
//! forgotten, by the kernel too: it may evict this client soon and grant the same to others. When a
//! session turns out to be new, the same happens at once.

use crate::kernel_view::invalidations::Invalidations;
use crate::kernel_view::timers::TICK;
use crate::locks::Locks;
use crate::locks::data_guards::Loss;
use crate::locks::opens::Opens;
use env::watch;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rpc::import::Import;
use session::session::Session;
use session::validity;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use tokio::sync::Semaphore;
use types::credentials::Credentials;
use types::fid::Fid;
use types::lock::InodeBits;
use wire::mds::{MdsOp, Unlock};

/// Locks given up in one request.
const BATCH: usize = 1024;
/// What a writer calls back for its next write.
const OF_ATTRIBUTES: InodeBits = InodeBits::UPDATE.union(InodeBits::DATA).union(InodeBits::WRITE);
/// Requests that give locks up and are on their way, at most. A large listing brings 16,384 locks
/// in one reply, and the next replies are on their way: the MDT must not run out of room for them
/// while the answers to these travel.
const REQUESTS_MAX: usize = 32;

impl Locks {
    /// OPEN is called back. True if the inode may be in use, as far as this mount can know.
    pub fn keeps_open(&self, opens: &mut Opens, fid: Fid) -> bool {
        if opens.keep(fid) {
            return true;
        }
        let known = self.no_open() && self.nodes.node(fid).is_some();
        if known {
            opens.keep_node(fid);
        }
        known
    }

    /// Everything that an MDT granted is lost. The kernel is told in the background to forget it.
    pub fn lose(self: &Arc<Self>, mdt: u16, how: Loss) {
        let ((), pending) = self.take(|table, invalidations| {
            table.lose_extents(mdt, how != Loss::Eviction);
            *invalidations = table.lose(mdt);
        });
        if how != Loss::Silence {
            self.opens.lock().lose(mdt);
        }
        if how == Loss::Eviction {
            self.flocks.lock().lose(mdt);
        }
        if let Some(data) = self.data.get() {
            data.lost(mdt, how);
        }
        self.send_later(pending);
    }

    /// Locks to be given up now: there are too many, or they are too old.
    fn victims(&self) -> Vec<Fid> {
        let (mut table, opens) = (self.table.lock(), self.opens.lock());
        let old = table.aged(BATCH, |fid| fid == self.nodes.root() || opens.is_open(fid));
        if !old.is_empty() {
            return old;
        }
        match table.is_too_much() {
            true => table.victims(BATCH, |fid| fid == self.nodes.root() || opens.is_open(fid)),
            false => Vec::new(),
        }
    }

    /// Takes these bits of inodes out of the table, and what they cover out of the kernel; dirty
    /// data is stored first. OPEN of open files stays. Returns the bits that were held, for the
    /// MDTs.
    async fn give_back(self: &Arc<Self>, fids: Vec<Fid>, bits: InodeBits) -> Vec<(Fid, InodeBits)> {
        let mut given = Vec::new();
        for fid in fids {
            let data = self
                .bits(fid)
                .intersection(bits)
                .intersection(InodeBits::DATA.union(InodeBits::WRITE));
            self.table.lock().gate(fid.mdt()).giving(fid, bits);
            if !data.is_empty() {
                self.revoke_data(fid, data).await;
                if let Some(holder) = self.data.get() {
                    holder.given_back(fid);
                }
            }
            given.push((fid, data));
        }
        // Callbacks wait for pending invalidations, so nothing is waited for in between.
        let ((), pending) = self.take(|table, invalidations| {
            let opens = self.opens.lock();
            for (fid, held) in &mut given {
                // The MDT goes on to keep files that are open here, also those opened while they
                // were chosen.
                let bits =
                    if opens.is_open(*fid) { bits.difference(InodeBits::OPEN) } else { bits };
                *held = held.union(table.bits(*fid).intersection(bits));
                if bits == InodeBits::ALL {
                    table.give(*fid, invalidations);
                } else {
                    table.take(*fid, bits, invalidations);
                    table.stays(*fid);
                }
            }
        });
        // To the MDT this also answers callbacks that are not done yet.
        self.all_forgotten(pending).await;
        given
    }

    /// An inode is gone by a change of this mount, and so are its locks at the MDT. Forgets them
    /// here, once neither the kernel nor a program nor dirty data needs them. The kernel is told
    /// nothing: it has forgotten the inode, and so has no name that leads to it.
    pub fn bury(&self, fid: Fid) {
        if !self.needs(fid) {
            self.table.lock().bury(fid);
        }
    }

    /// True if the kernel, a program, or dirty data needs an inode.
    fn needs(&self, fid: Fid) -> bool {
        self.nodes.node(fid).is_some()
            || self.opens.lock().is_open(fid)
            || self.data.get().is_some_and(|data| data.is_dirty(fid))
    }

    fn bury_removed(&self) {
        let removed = self.table.lock().removed();
        removed.into_iter().for_each(|fid| self.bury(fid));
    }
}

/// Gives locks of one mount back to their MDTs.
pub struct Upkeep {
    session: Arc<Session>,
    locks: Arc<Locks>,
    /// For requests that give locks up.
    room: Arc<Semaphore>,
    me: Weak<Upkeep>,
}

/// Looks after the locks of a mount until `stop` changes or the mount is gone.
pub async fn keep_up(upkeep: Weak<Upkeep>, mut stop: watch::Receiver<bool>) {
    loop {
        let Some(strong) = upkeep.upgrade() else { return };
        let (clock, locks) = (strong.session.env.clock.clone(), strong.locks.clone());
        strong.check_leases();
        locks.table.lock().set_now(clock.now().as_secs());
        locks.bury_removed();
        while !*stop.borrow() && strong.give_some_up().await {}
        drop(strong);
        tokio::select! {
            biased;
            () = clock.sleep(TICK) => locks.table.lock().tick(),
            () = locks.wake_upkeep.notified() => {}
            _ = stop.changed() => return,
        }
    }
}

impl Upkeep {
    /// Of these locks.
    pub fn new(session: Arc<Session>, locks: Arc<Locks>) -> Arc<Upkeep> {
        let room = Arc::new(Semaphore::new(REQUESTS_MAX));
        Arc::new_cyclic(|me| Upkeep { session, locks, room, me: me.clone() })
    }

    fn check_leases(&self) {
        let now = self.session.env.clock.now();
        for mdc in self.session.targets.mdcs() {
            let import: &Import = mdc.import();
            let mdt = import.target().index.0;
            let silent =
                import.proved_at().is_some_and(|at| now.saturating_sub(at) > validity::trust());
            if silent && self.locks.table.lock().holds_of(mdt) {
                tracing::warn!(target = %import.target(), "not heard of for most of its lease: its locks are not trusted");
                self.locks.lose(mdt, Loss::Silence);
            }
        }
    }

    /// Gives a batch of locks up that are not needed, or too many. Returns when nothing here uses
    /// them any more: their MDTs are told in the background, as one that does not answer must not
    /// keep this task from looking at leases. `false`: there are none, or enough are on their way.
    async fn give_some_up(&self) -> bool {
        let (Ok(room), Some(me)) = (self.room.clone().try_acquire_owned(), self.me.upgrade())
        else {
            return false;
        };
        let (mut fids, mut bits) = (self.locks.paused.lock().take_due(BATCH), OF_ATTRIBUTES);
        if fids.is_empty() {
            (fids, bits) = (self.nameless(), InodeBits::ALL);
        }
        if fids.is_empty() {
            fids = self.locks.victims();
        }
        if fids.is_empty() {
            return false;
        }
        let given = self.locks.give_back(fids, bits).await;
        let tell = async move {
            me.tell(given).await;
            drop(room);
            me.locks.wake_upkeep.notify_one();
        };
        self.session.env.tasks.spawn("give locks up", Box::pin(tell));
        true
    }

    /// Gives bits of inodes back to their MDTs, with what they cover here and in the kernel.
    async fn give_locks(&self, fids: Vec<Fid>, bits: InodeBits) {
        let given = self.locks.give_back(fids, bits).await;
        self.tell(given).await;
    }

    async fn tell(&self, given: Vec<(Fid, InodeBits)>) {
        let mut by_mdt = BTreeMap::<u16, Vec<(Fid, InodeBits)>>::new();
        for (fid, bits) in &given {
            by_mdt.entry(fid.mdt()).or_default().push((*fid, *bits));
        }
        for locks in by_mdt.into_values() {
            self.unlock(locks).await;
        }
    }

    /// Gives bits of all these inodes back, some in each request; far away, where each answer takes
    /// long, many requests are on their way.
    pub(crate) async fn give_all_locks(&self, fids: Vec<Fid>, bits: InodeBits) {
        let mut batches = FuturesUnordered::new();
        for some in fids.chunks(BATCH) {
            let some = some.to_vec();
            batches.push(async move {
                // It is never closed.
                let _room = self.room.acquire().await;
                self.give_locks(some, bits).await;
            });
        }
        while batches.next().await.is_some() {}
    }

    /// Inodes of which another client removed the name, and that nothing here needs any more: the
    /// rest of their locks goes.
    fn nameless(&self) -> Vec<Fid> {
        let mut fids = self.locks.table.lock().nameless();
        fids.retain(|fid| !self.locks.needs(*fid));
        fids.truncate(BATCH);
        fids
    }

    /// Tells an MDT what is given up; `giving` was called at its gate before. An error: the session
    /// is lost, or its locks will be called back one day and found gone.
    async fn unlock(&self, locks: Vec<(Fid, InodeBits)>) {
        let Some((first, _)) = locks.first().copied() else { return };
        let fids: Vec<Fid> = locks.iter().map(|(fid, _)| *fid).collect();
        let locks: Vec<_> = locks.into_iter().filter(|(_, bits)| !bits.is_empty()).collect();
        if !locks.is_empty()
            && let Ok(mdc) = self.session.mdc(first)
            && let Err(error) =
                mdc.ask(&Credentials::root(), vec![MdsOp::Unlock(Unlock { locks })]).await
        {
            tracing::debug!(target = %mdc.import().target(), %error, "give locks back");
        }
        let mut table = self.locks.table.lock();
        fids.into_iter().for_each(|fid| table.gate(fid.mdt()).given(fid));
    }

    /// The last local user of a kept inode is gone: reports it to its MDT in the background.
    pub fn unlock_open(&self, fid: Fid) {
        let Some(me) = self.me.upgrade() else { return };
        {
            let (mut table, mut opens) = (self.locks.table.lock(), self.locks.opens.lock());
            // OPEN may have been granted again since it was called back. An open under that grant
            // keeps it.
            if self.locks.keeps_open(&mut opens, fid) {
                return;
            }
            table.take(fid, InodeBits::OPEN, &mut Invalidations::default());
            // Noted before anything else is asked for.
            table.gate(fid.mdt()).giving(fid, InodeBits::OPEN);
        }
        let unlock = async move { me.unlock(vec![(fid, InodeBits::OPEN)]).await };
        self.session.env.tasks.spawn("let a kept file go", Box::pin(unlock));
    }

    /// Gives OPEN of a file back; ready when the MDT knows.
    pub async fn give_open(&self, fid: Fid) {
        self.locks.table.lock().gate(fid.mdt()).giving(fid, InodeBits::OPEN);
        self.unlock(vec![(fid, InodeBits::OPEN)]).await;
    }
}
