//! The waits at an MDT, for people: nothing here decides anything.
//!
//! A wait for holders of inode-bit locks is noted with its cause and its beginning if it is not
//! over at once. The table of locks says which holders are in the way when it is asked.

use crate::locks::flocks::FlockWait;
use crate::mds::Mds;
use dlm::ibits::Modifier;
use env::clock::Monotonic;
use rpc::service::Export;
use std::sync::Arc;
use types::fid::Fid;
use types::lock::InodeBits;
use types::session::ClientUuid;

/// A noted wait; it ends when this is dropped.
pub(crate) struct Noted<'a> {
    mds: &'a Mds,
    modifier: Modifier,
}

impl<'a> Noted<'a> {
    pub(crate) fn new(mds: &'a Mds, modifier: Modifier, now: Monotonic) -> Noted<'a> {
        mds.state.lock().locks.waits.insert(modifier, (observe::cause::current(), now));
        Noted { mds, modifier }
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.mds.state.lock().locks.waits.remove(&self.modifier);
    }
}

/// An operation that waits for holders of locks.
#[derive(Clone, Debug)]
pub struct LockWait {
    /// Cause of the operation ([`observe::cause`]); 0: none.
    pub cause: u64,
    /// Since when.
    pub since: Monotonic,
    /// Its client; `None`: the MDT itself, or a client that is gone.
    pub client: Option<ClientUuid>,
    /// The first inode that it waits for.
    pub fid: Fid,
    /// The bits that it changes, or wants to lock.
    pub bits: InodeBits,
    /// Holders that have to answer, with their bits; if there are none, the operations whose turn
    /// is earlier.
    pub holders: Vec<(ClientUuid, InodeBits)>,
}

impl Mds {
    /// Operations that wait for holders of locks, the longest first, at most `max`, each with at
    /// most `holders_max`.
    pub fn lock_waits(&self, max: usize, holders_max: usize) -> Vec<LockWait> {
        let state = self.state.lock();
        let locks = &state.locks;
        let mut noted: Vec<_> = locks
            .waits
            .iter()
            .map(|(modifier, (cause, since))| (*since, *modifier, *cause))
            .collect();
        noted.sort_unstable();
        let waits = noted.into_iter().take(max).filter_map(|(since, modifier, cause)| {
            let wait = locks.table.wait_of(modifier)?;
            let first = wait
                .holders
                .first()
                .map(|(fid, ..)| *fid)
                .or(wait.changes.first().map(|(fid, _)| *fid))?;
            let here = wait.changes.iter().filter(|(fid, _)| *fid == first);
            let bits = here.fold(InodeBits::NONE, |all, (_, bits)| all.union(*bits));
            let mut holders: Vec<_> =
                wait.holders.iter().map(|(_, client, bits)| (*client, *bits)).collect();
            if holders.is_empty() {
                holders.extend(wait.ahead.iter().map(|client| (*client, InodeBits::NONE)));
            }
            holders.truncate(holders_max);
            Some(LockWait { cause, since, client: wait.client, fid: first, bits, holders })
        });
        waits.collect()
    }

    /// Requests for file locks that wait, the longest first, at most `max`, each with at most
    /// `holders_max`.
    pub fn file_lock_waits(&self, max: usize, holders_max: usize) -> Vec<FlockWait> {
        self.flocks.lock().waits(max, holders_max)
    }

    /// Inode-bit locks that clients hold, and how many operations wait for locks of either kind.
    pub fn lock_counts(&self) -> (usize, usize) {
        let (held, waiting) = {
            let state = self.state.lock();
            (state.locks.table.len(), state.locks.waits.len())
        };
        (held, waiting + self.flocks.lock().waiting())
    }

    /// The session of a client that may hold locks.
    pub fn export_of(&self, client: ClientUuid) -> Option<Arc<Export>> {
        self.state.lock().locks.export(client).cloned()
    }
}
