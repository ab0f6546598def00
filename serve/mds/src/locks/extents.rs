//! Requests for byte ranges of shared-write files
//! ([`shared_writers`](crate::locks::shared_writers)).

use crate::locks::shared_writers::{SHARED, SHARED_BITS, SharedWriters, Turn, is_at_rest};
use crate::locks::stats::micros;
use crate::locks::turns::Entered;
use crate::locks::{Locks, When};
use crate::mds::{Mds, RequestContext, alive};
use dlm::extents::{ExtentRequest, ExtentTicket};
use dlm::ibits::Modifier;
use tokio::sync::oneshot;
use types::bundle::BundleId;
use types::errno::Errno;
use types::fid::Fid;
use types::ranges::{ByteRange, Extent, Needs};
use wire::mds::{Entry, MdsReply};

/// A request that waits for an extent; it is given up when this is dropped.
struct Waiting<'a> {
    mds: &'a Mds,
    ticket: ExtentTicket,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let now = self.mds.env.clock.now();
        self.mds.with_state(When::Later, |state| {
            let shared_writers = &mut state.locks.shared_writers;
            // If it is not there, it has its answer.
            if shared_writers.waiting.remove(&self.ticket).is_some() {
                shared_writers.table.cancel(self.ticket, now, &mut shared_writers.actions);
            }
        });
    }
}

/// What a request for an extent waits for next.
enum Step<'a> {
    Place(Entered<'a>, oneshot::Receiver<()>),
    PlaceAgain(Modifier, oneshot::Receiver<()>),
    Extent(Waiting<'a>, oneshot::Receiver<Turn>),
    /// An operation over several MDTs is about to change the inode.
    Pinned(BundleId),
}

impl Mds {
    /// An extent, if the file is shared or shall be shared. The inode exists, and another client is
    /// in the way of the whole lock.
    pub(crate) async fn lock_extent(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
        write: bool,
        Needs { range, again }: Needs,
    ) -> Result<Option<MdsReply>, Errno> {
        if range.is_empty() {
            return Err(Errno::EINVAL);
        }
        let (client, now) = (request.client(), self.env.clock.now());
        if again && !self.window.is_open() {
            return self.restore_extent(request, fid, Extent { range, write }).map(Some);
        }
        if !self.state.lock().locks.becomes_shared(fid, client, now) {
            return Ok(None);
        }
        let mut place: Option<Entered<'_>> = None;
        let ranges = loop {
            match self.next_step(request, fid, place.as_ref(), range, write)? {
                Step::Place(entered, turn) => {
                    let modifier = entered.modifier();
                    place = Some(entered);
                    self.wait_for_holders(modifier, turn).await?;
                }
                Step::Pinned(bundle) => self.unpinned(bundle).await,
                Step::PlaceAgain(modifier, turn) => self.wait_for_holders(modifier, turn).await?,
                Step::Extent(waiting, turn) => {
                    let turn = self.wait_for_extent(turn).await?;
                    drop(waiting);
                    match turn {
                        Turn::Granted(ranges) => break ranges,
                        // Meanwhile the file may have become a group's.
                        Turn::Again => self.of_its_group(request.export, fid).await?,
                    }
                }
            }
        };
        drop(place);
        if let Some(stats) = self.lock_stats.get() {
            stats.extents_granted.increment();
        }
        self.show_extents(request, fid, ranges, write).map(Some)
    }

    fn next_step<'a>(
        &'a self,
        request: &RequestContext<'_>,
        fid: Fid,
        place: Option<&Entered<'_>>,
        range: ByteRange,
        write: bool,
    ) -> Result<Step<'a>, Errno> {
        let now = self.env.clock.now();
        self.with_state(When::Now, |state| {
            alive(request.export)?;
            let client = request.client();
            if !state.locks.table.is_connected(client) {
                return Err(Errno::ENOTCONN);
            }
            if let Some(bundle) = state.bundles.pins.changing_inode(None, fid) {
                return Ok(Step::Pinned(bundle));
            }
            let locks = &mut state.locks;
            let held = match place {
                Some(place) => locks.table.take(place.modifier(), &mut locks.actions),
                None => is_at_rest(&locks.table, fid),
            };
            if held {
                let SharedWriters { table, actions, waiting, last, .. } = &mut locks.shared_writers;
                *last += 1;
                let (ticket, (sender, turn)) = (ExtentTicket(*last), oneshot::channel());
                waiting.insert(ticket, sender);
                table.request(
                    ticket,
                    ExtentRequest { fid, client, needs: range, write },
                    now,
                    actions,
                );
                Ok(Step::Extent(Waiting { mds: self, ticket }, turn))
            } else if let Some(place) = place {
                Ok(Step::PlaceAgain(place.modifier(), locks.wait_for(place.modifier())))
            } else {
                let (entered, turn) = self.enter_by(state, |modifier, table, actions| {
                    table.enter_lock(modifier, SHARED, fid, SHARED_BITS, actions);
                });
                Ok(Step::Place(entered, turn))
            }
        })
    }

    async fn wait_for_extent(&self, mut turn: oneshot::Receiver<Turn>) -> Result<Turn, Errno> {
        let begun = self.env.clock.now();
        let turn = match turn.try_recv() {
            Ok(turn) => Ok(turn),
            // The sender goes only with the table itself.
            Err(_) => turn.await.map_err(|_| Errno::ESHUTDOWN),
        };
        if let Some(stats) = self.lock_stats.get() {
            stats.wait.record(micros(begun, self.env.clock.now()));
        }
        turn
    }

    /// While the MDT recovers: the client gets back what it had.
    fn restore_extent(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
        extent: Extent,
    ) -> Result<MdsReply, Errno> {
        let now = self.env.clock.now();
        self.with_state(When::Later, |state| {
            alive(request.export)?;
            let Locks { table, actions, shared_writers, .. } = &mut state.locks;
            let SharedWriters { table: extents, actions: of_extents, .. } = shared_writers;
            let client = request.export.client();
            let held = (extent.range, extent.write);
            if table.writer(fid) != Some(SHARED)
                && table.grant(fid, SHARED, SHARED_BITS, now, actions) != SHARED_BITS
                || !extents.restore(fid, client, held, now, of_extents)
            {
                tracing::error!(
                    %fid,
                    client = %client.brief(),
                    ?extent,
                    "somebody else has what this client had"
                );
                return Err(Errno::EBUSY);
            }
            Ok(())
        })?;
        self.show_extents(request, fid, vec![extent.range], extent.write)
    }

    /// The extents are the client's. No cut changes the record while they are, so the record may be
    /// shown from now on. Leases of other clients that exclude this client's use are over; a lease
    /// that is requested later calls the extents back first.
    fn show_extents(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
        ranges: Vec<ByteRange>,
        write: bool,
    ) -> Result<MdsReply, Errno> {
        let export = request.export;
        let entry: Entry = self.show(request, |records| {
            alive(export)?;
            let entry = records.entry(fid)?.ok_or(Errno::ESTALE)?;
            records.used(export.client(), fid, write);
            Ok(entry)
        })?;
        Ok(MdsReply::Extents { entry: Box::new(entry), ranges, write })
    }
}
