//! Lock and Unlock: locks that a client asks for, and locks that it gives back by itself.

use crate::locks::callbacks::Release;
use crate::locks::{Locks, When};
use crate::mds::{Mds, RequestContext, alive};
use crate::records::Records;
use rpc::service::Export;
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::REVOKES_PER_CALLBACK_MAX;
use types::lock::InodeBits;
use wire::mds::{Entry, Lock, MdsReply, Unlock};

/// For reading.
const TO_READ: InodeBits = InodeBits::DATA.union(InodeBits::UPDATE);
/// For writing.
const TO_WRITE: InodeBits = TO_READ.union(InodeBits::WRITE);

impl Mds {
    pub(super) async fn lock(
        &self,
        request: &mut RequestContext<'_>,
        op: &Lock,
    ) -> Result<MdsReply, Errno> {
        let &Lock { fid, bits, needs } = op;
        self.ours(fid)?;
        let wants = if bits.contains(InodeBits::WRITE) { TO_WRITE } else { TO_READ };
        let asks = bits.intersects(InodeBits::DATA.union(InodeBits::WRITE));
        if !asks
            || !bits.difference(TO_WRITE).is_empty()
            || !request.lock_context.asked.mask.contains(wants)
        {
            return Err(Errno::EINVAL);
        }
        self.of_its_group(request.export, fid).await?;
        let again = needs.is_some_and(|needs| needs.again);
        if !again {
            let at_once =
                self.in_turn(request, |request| self.lock_at_once(request, fid, wants)).await?;
            if let Some(entry) = at_once {
                return Ok(MdsReply::Entry(Box::new(entry)));
            }
        }
        if let Some(needs) = needs
            && let Some(extent) =
                Box::pin(self.lock_extent(request, fid, wants == TO_WRITE, needs)).await?
        {
            return Ok(extent);
        }
        // Apart, so that the future of the fast path stays small.
        let entry = Box::pin(self.lock_in_turn(request, fid, wants)).await?;
        Ok(MdsReply::Entry(Box::new(entry)))
    }

    /// Waits until the data of the file does not belong to a group without the client. While an MDT
    /// recovers, only clients ask that held it before.
    pub(crate) async fn of_its_group(&self, export: &Export, fid: Fid) -> Result<(), Errno> {
        let groups = &self.groups;
        if self.window.is_open() && groups.shut_out(fid, export.client()) {
            Box::pin(groups.admitted(fid, export.client(), || export.is_gone())).await;
            alive(export)?;
        }
        Ok(())
    }

    /// `None`: another client is in the way.
    ///
    /// # Errors
    /// EAGAIN, with the obstacle in the lock context: an operation over several MDTs is in the way.
    /// ESTALE, EINVAL: no regular file. EIO.
    fn lock_at_once(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
        wants: InodeBits,
    ) -> Result<Option<Entry>, Errno> {
        let export = request.export;
        self.show(request, |records| {
            alive(export)?;
            records.lockable(fid)?;
            let entry = records.entry(fid)?.ok_or(Errno::ESTALE)?;
            if entry.attr.file_type() != FileType::Regular {
                return Err(Errno::EINVAL);
            }
            let Locks { table, actions, .. } = &mut records.state.locks;
            let excludes = if wants == TO_WRITE { TO_WRITE } else { InodeBits::WRITE };
            if !table.is_free(records.lock_context.asked.client, None, [(fid, excludes)]) {
                return Ok(None);
            }
            let granted = table.grant(
                fid,
                records.lock_context.asked.client,
                wants,
                records.lock_context.asked.now,
                actions,
            );
            records.lock_context.outcome.granted(fid, granted);
            records.used(export.client(), fid, wants == TO_WRITE);
            Ok((granted == wants).then_some(entry))
        })
    }

    async fn lock_in_turn(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
        wants: InodeBits,
    ) -> Result<Entry, Errno> {
        let export = request.export;
        let (place, mut turn) = self.with_state(When::Now, |state| {
            alive(export)?;
            if !state.locks.table.is_connected(export.client()) {
                return Err(Errno::ENOTCONN);
            }
            Ok(self.enter_by(state, |modifier, table, actions| {
                table.enter_lock(modifier, export.client(), fid, wants, actions);
            }))
        })?;
        loop {
            self.wait_for_holders(place.modifier(), turn).await?;
            let take = |records: &mut Records<'_>| {
                // Woken also when the session ends.
                alive(export)?;
                records.lockable(fid)?;
                let entry = records.entry(fid)?.ok_or(Errno::ESTALE)?;
                let Locks { table, actions, .. } = &mut records.state.locks;
                if table.take(place.modifier(), actions) {
                    records.lock_context.outcome.granted(fid, wants);
                    records.used(export.client(), fid, wants == TO_WRITE);
                    return Ok(Ok(entry));
                }
                // A change came between.
                Ok(Err(records.state.locks.wait_for(place.modifier())))
            };
            let entry = self.in_turn(request, |request| self.show(request, take)).await?;
            match entry {
                Ok(entry) => return Ok(entry),
                Err(again) => turn = again,
            }
        }
    }

    pub(super) fn unlock(
        &self,
        request: &RequestContext<'_>,
        op: &Unlock,
    ) -> Result<MdsReply, Errno> {
        let Unlock { locks } = op;
        if locks.len() > REVOKES_PER_CALLBACK_MAX {
            return Err(Errno::E2BIG);
        }
        self.released(request.export, locks, |_| false, Release::GivenBack);
        let of_data = InodeBits::DATA.union(InodeBits::WRITE);
        let extents = locks.iter().filter(|(_, bits)| bits.intersects(of_data));
        self.extents_given_back(request.export, extents.map(|(fid, _)| *fid));
        Ok(MdsReply::Done)
    }
}
