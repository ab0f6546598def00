//! Giving locks back, and no longer trusting what an MDT granted.
//!
//! One task per mount. When there are too many locks the oldest go, in batches, those of inodes that the kernel forgot
//! first. When an MDT was not heard of for two thirds of its lease, all that it granted is forgotten, by the kernel too:
//! it may evict this client soon and grant the same to others. When a session turns out to be new, the same happens at once.

use crate::client::Client;
use crate::locks::Locks;
use crate::locks::opens::Opens;
use crate::locks::table::{Debt, LOCKS_MAX, WEIGHT_MAX};
use crate::locks::uses::Loss;
use crate::validity;
use env::watch;
use rpc::import::Import;
use std::sync::{Arc, Weak};
use std::time::Duration;
use types::credentials::Credentials;
use types::fid::Fid;
use types::lock::InodeBits;
use wire::mds::{MdsOp, Removed};

/// How often the task looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Locks given up in one request.
const BATCH: usize = 1024;

impl Locks {
    /// OPEN is called back: is the inode in use, as far as anybody can know?
    pub(crate) fn keeps_open(&self, opens: &mut Opens, fid: Fid) -> bool {
        if opens.keep(fid) {
            return true;
        }
        let known = self.untold_opens() && self.nodes.node(fid).is_some();
        if known {
            opens.keep_node(fid);
        }
        known
    }

    /// Everything that an MDT granted is lost. What the kernel must forget is told to it in the background.
    pub(crate) fn lose(self: &Arc<Self>, mdt: u16, how: Loss) {
        let ((), owed) = self.take(|table, debt| {
            table.lose_extents(mdt, how != Loss::Eviction);
            *debt = table.lose(mdt);
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
        self.pay_later(owed);
    }

    fn too_many(&self) -> bool {
        let (slots, weight) = self.table.lock().size();
        slots > LOCKS_MAX || weight > WEIGHT_MAX
    }

    /// Takes the oldest locks out of the table.
    async fn give_back(self: &Arc<Self>) -> Vec<(Fid, InodeBits)> {
        let mut given = Vec::new();
        let victims = {
            let (mut table, opens) = (self.table.lock(), self.opens.lock());
            table.victims(BATCH, |fid| opens.is_open(fid))
        };
        for fid in victims {
            let data = self.bits(fid).intersection(InodeBits::DATA.union(InodeBits::WRITE));
            self.table.lock().gate(fid.mdt()).giving(fid, InodeBits::ALL);
            if !data.is_empty() {
                self.revoke_data(fid, data).await;
            }
            given.push((fid, data));
        }
        // Callbacks wait for what is owed: so nothing is waited for in between.
        let ((), owed) = self.take(|table, debt| {
            let opens = self.opens.lock();
            for (fid, bits) in &mut given {
                *bits = bits.union(table.give(*fid, debt));
                if opens.is_open(*fid) {
                    // Opened while it was chosen: the MDT goes on to keep it.
                    *bits = bits.without(InodeBits::OPEN);
                }
            }
        });
        // To the MDT this answers callbacks, too, that are not done yet.
        self.all_forgotten(owed).await;
        given
    }
}

/// Looks after the locks of a mount until `stop` changes or the client is gone.
pub(crate) async fn keep_up(client: Weak<Client>, mut stop: watch::Receiver<bool>) {
    loop {
        let Some(strong) = client.upgrade() else { return };
        let (clock, locks) = (strong.env.clock.clone(), strong.locks.clone());
        strong.check_leases();
        while locks.too_many() && !*stop.borrow() {
            if !strong.give_up_some().await {
                break;
            }
        }
        drop(strong);
        tokio::select! {
            biased;
            () = clock.sleep(INTERVAL) => locks.table.lock().tick(),
            () = locks.wake_upkeep.notified() => {}
            _ = stop.changed() => return,
        }
    }
}

impl Client {
    fn check_leases(&self) {
        let now = self.env.clock.now();
        for mdc in self.targets.mdcs() {
            let import: &Import = mdc.import();
            let mdt = import.target().index.0;
            let silent = import.proved_at().is_some_and(|at| now.saturating_sub(at) > validity::trust());
            if silent && self.locks.table.lock().holds_of(mdt) {
                tracing::warn!(target = %import.target(), "not heard of for most of its lease: its locks are not trusted");
                self.locks.lose(mdt, Loss::Silence);
            }
        }
    }

    /// `false`: nothing could be given up.
    async fn give_up_some(&self) -> bool {
        let given = self.locks.give_back().await;
        let mut by_mdt = foldhash::HashMap::<u16, Vec<(Fid, InodeBits)>>::default();
        for (fid, bits) in &given {
            by_mdt.entry(fid.mdt()).or_default().push((*fid, *bits));
        }
        for locks in by_mdt.into_values() {
            self.unlock(locks).await;
        }
        !given.is_empty()
    }

    /// Tells an MDT what is given up; `giving` was said at its gate before. An error: the session is lost, or its locks
    /// are called back one day and found gone.
    async fn unlock(&self, locks: Vec<(Fid, InodeBits)>) {
        let Some((first, _)) = locks.first().copied() else { return };
        let fids: Vec<Fid> = locks.iter().map(|(fid, _)| *fid).collect();
        let locks: Vec<_> = locks.into_iter().filter(|(_, bits)| !bits.is_empty()).collect();
        if !locks.is_empty()
            && let Ok(mdc) = self.mdc(first)
            && let Err(error) = mdc.ask(&Credentials::root(), vec![MdsOp::Unlock { locks }]).await
        {
            tracing::debug!(target = %mdc.import().target(), %error, "give locks back");
        }
        let mut table = self.locks.table.lock();
        fids.into_iter().for_each(|fid| table.gate(fid.mdt()).given(fid));
    }

    /// This mount removed a name. If it was the last one of an inode whose OPEN is held here, the MDT keeps that inode for us:
    /// until its last local user is gone, or at once if there is none.
    pub(crate) async fn let_go(&self, removed: Removed) {
        let fid = removed.fid;
        if fid == Fid::NONE || removed.nlink > 0 {
            return;
        }
        let (held, in_use) = {
            let (mut table, mut opens) = (self.locks.table.lock(), self.locks.opens.lock());
            let held = table.bits(fid).contains(InodeBits::OPEN);
            // Nothing is owed to the kernel for OPEN.
            table.take(fid, InodeBits::OPEN, &mut Debt::default());
            (held, held && self.locks.keeps_open(&mut opens, fid))
        };
        if in_use {
            return;
        }
        let unstored = self.unstored_and_closed(fid);
        match held {
            // The MDT is asked next whether the inode lives: not because of us.
            true if unstored.is_some() => self.give_open(fid).await,
            true => self.unlock_open(fid),
            false => {}
        }
        if let Some(file) = unstored {
            self.discard_removed(&file).await;
        }
    }

    /// The last local user of a kept inode is gone: tells its MDT in the background.
    pub(crate) fn unlock_open(&self, fid: Fid) {
        let Some(me) = self.strong() else { return };
        // Noted before anything else is asked for.
        self.locks.table.lock().gate(fid.mdt()).giving(fid, InodeBits::OPEN);
        let unlock = async move { me.unlock(vec![(fid, InodeBits::OPEN)]).await };
        self.env.tasks.spawn("let a kept file go", Box::pin(unlock));
    }

    async fn give_open(&self, fid: Fid) {
        self.locks.table.lock().gate(fid.mdt()).giving(fid, InodeBits::OPEN);
        self.unlock(vec![(fid, InodeBits::OPEN)]).await;
    }
}
