//! The waits of this MDT for other ones, for people: nothing here decides anything.
//!
//! A question to another MDT is listed as any request is while it is under way. What is noted here
//! is what such a list cannot tell: that an operation tries again and again to reach an MDT that is
//! away, and that one waits for another operation that has pinned what it needs.

pub(super) mod noted;

use crate::mds::Mds;
use env::clock::Monotonic;
use types::bundle::BundleId;
use types::target::TargetIndex;

/// An operation here that waits for another MDT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerWait {
    /// Cause of the operation ([`observe::cause`]); 0: none.
    pub cause: u64,
    /// Since when.
    pub since: Monotonic,
    /// The MDT that it waits for.
    pub mdt: TargetIndex,
    /// The operation over several MDTs that is to end there; `None`: the MDT is to do a part of the
    /// operation that waits.
    pub ends: Option<BundleId>,
}

/// Notes of one operation that may have to try again; they end when this is dropped.
pub(super) struct Trying<'a> {
    mds: &'a Mds,
    cause: u64,
}

/// A noted wait for a bundle; it ends when this is dropped.
struct ForPin<'a> {
    mds: &'a Mds,
    number: u64,
}

impl Drop for Trying<'_> {
    fn drop(&mut self) {
        self.mds.state.lock().bundles.waits.hindered.remove(&self.cause);
    }
}

impl Drop for ForPin<'_> {
    fn drop(&mut self) {
        self.mds.state.lock().bundles.waits.pinned.remove(&self.number);
    }
}

impl Mds {
    /// What the current operation notes of MDTs that hinder it is dropped with this.
    pub(super) fn trying(&self) -> Trying<'_> {
        Trying { mds: self, cause: observe::cause::current() }
    }

    /// The current operation asked an MDT at `since`, which is away, or in which another operation
    /// is in the way. To be called within [`Mds::trying`], or for no request.
    pub(super) fn note_hindered(&self, mdt: TargetIndex, since: Monotonic) {
        let cause = observe::cause::current();
        if cause == 0 {
            return;
        }
        let hindered = &mut self.state.lock().bundles.waits.hindered;
        let noted = hindered.entry(cause).or_insert((mdt, since));
        if noted.0 != mdt {
            *noted = (mdt, since);
        }
    }

    /// Waits until a bundle has let go of what it had pinned.
    pub(crate) async fn unpinned(&self, id: BundleId) {
        let mut noted = None;
        loop {
            let unpinned = self.unpinned.notified();
            tokio::pin!(unpinned);
            unpinned.as_mut().enable();
            if !self.state.lock().bundles.pins.has(id) {
                return;
            }
            noted.get_or_insert_with(|| self.note_pin(id));
            unpinned.await;
        }
    }

    fn note_pin(&self, id: BundleId) -> ForPin<'_> {
        let (number, cause) = (observe::cause::fresh(), observe::cause::current());
        let now = self.env.clock.now();
        self.state.lock().bundles.waits.pinned.insert(number, (id, cause, now));
        ForPin { mds: self, number }
    }

    /// Operations that wait for other MDTs: for their parts, or because a bundle that waits for
    /// them has pinned something. At most `max`, the longest first.
    pub fn peer_waits(&self, max: usize) -> Vec<PeerWait> {
        let state = self.state.lock();
        let (bundles, me) = (&state.bundles, self.name.index);
        let hindered = bundles.waits.hindered.iter().map(|(cause, (mdt, since))| PeerWait {
            cause: *cause,
            since: *since,
            mdt: *mdt,
            ends: None,
        });
        let pinned = bundles.waits.pinned.values().flat_map(|(id, cause, since)| {
            let mdts = match id.coordinator == me {
                true => bundles.coordinator.awaited(*id),
                false => vec![id.coordinator],
            };
            let (cause, since, ends) = (*cause, *since, Some(*id));
            mdts.into_iter().map(move |mdt| PeerWait { cause, since, mdt, ends })
        });
        let mut all: Vec<PeerWait> = hindered.chain(pinned).collect();
        all.sort_by_key(|wait| (wait.since, wait.cause, wait.mdt));
        all.truncate(max);
        all
    }
}
