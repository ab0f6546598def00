//! Allocation, cutting, removal, sizes. Everything here blocks.

use crate::data::check_end;
use crate::ledger::Author;
use crate::ost::Ost;
use std::sync::Arc;
use store::error::StoreError;
use target::room::Payment;
use types::attr::Statfs;
use types::errno::Errno;
use types::object::{ObjectId, ObjectOffset};
use types::session::Transno;
use wire::ost::PunchKind;

impl Ost {
    /// Changes the allocation of `[start, end)`; returns the blocks that the object grew by.
    pub(crate) fn punch(
        &self,
        (author, payment): (Author, &mut Payment),
        object: ObjectId,
        start: ObjectOffset,
        end: ObjectOffset,
        kind: PunchKind,
    ) -> Result<(i64, Transno), Errno> {
        let objects = self.objects();
        let len = || end.0.checked_sub(start.0).filter(|len| *len > 0).ok_or(Errno::EINVAL);
        match kind {
            PunchKind::Truncate => self
                .change(object, Some(start.0), (author, 0), || objects.truncate(object, start.0)),
            // Beyond the end there is nothing to free.
            PunchKind::Hole => {
                let len = len()?;
                self.change(object, Some(start.0), (author, 0), || {
                    objects.punch(object, start.0, len)
                })
            }
            PunchKind::Zero | PunchKind::Allocate => {
                let len = len()?;
                check_end(start, len)?;
                self.change(object, None, (author, 0), || {
                    let _room = self.check_room(payment, object, start.0, len)?;
                    objects.allocate(object, start.0, len, kind == PunchKind::Zero)
                })
            }
        }
    }

    /// Size and blocks; zeros if there is no object.
    pub(crate) fn getattr(&self, object: ObjectId) -> Result<(u64, u64), Errno> {
        let _gate = self.gates.read(object);
        Ok(self.objects().size_and_blocks(object)?.unwrap_or_default())
    }

    /// Next data or hole at or after `offset`.
    pub(crate) fn seek(
        &self,
        object: ObjectId,
        offset: ObjectOffset,
        hole: bool,
    ) -> Result<Option<ObjectOffset>, Errno> {
        let _gate = self.gates.read(object);
        Ok(self.objects().seek(object, offset.0, hole)?.map(ObjectOffset))
    }

    /// Removes objects for good. Durable when this returns; if it returns true, once the store
    /// commits.
    pub(crate) fn destroy(&self, objects: &[ObjectId]) -> Result<(Transno, bool), Errno> {
        // Changes that earlier starts answered are brought back unless the store says that this
        // start found them.
        let mut settled = self.ledger.is_beginning() || self.objects().needs_commit();
        for object in objects {
            let mut gate = self.gates.change(*object);
            // First: if the removal fails half-way, nothing may write to the rest.
            self.graveyard.add(*object);
            self.sums.forget(self.target().store(), *object)?;
            let there = self.objects().size_and_blocks(*object)?;
            if self.objects().destroy(*object)? {
                let blocks = there.unwrap_or_default().1 as i64;
                self.used.changed(*object, self.objects().upper_folder(*object), -blocks, -1);
            }
            *gate = None;
            if let Some(last) = self.ledger.forget(*object) {
                self.settle(*object, last);
                settled = true;
            }
        }
        for object in objects {
            // There is no file any more: this makes the removal from its folder durable.
            self.objects().sync(*object)?;
        }
        Ok((if objects.is_empty() { Transno(0) } else { self.ledger.changed_durably() }, settled))
    }

    /// Totals: the space that the objects take, and what they may still take. Other files on the
    /// volume count as if they were not there, so an empty OST is 0 % full. Space granted to
    /// clients is not available, because they may have dirty data for it; nor is space that is
    /// being written.
    pub fn statfs(&self) -> Result<Statfs, Errno> {
        let (space, available) = (self.objects().space()?, self.available()?);
        let (used, objects) = self.objects().used().unwrap_or_else(|| self.used.get());
        let share = u64::from(self.settings.volume_sharers.max(1));
        Ok(Statfs {
            bytes_total: used.saturating_add(space.free / share),
            bytes_free: space.free / share,
            bytes_available: available.min(space.free) / share,
            files_total: objects.saturating_add(space.files_free / share),
            files_free: space.files_free / share,
        })
    }

    /// Counts in the background what objects there are.
    pub(crate) fn start_counting(self: &Arc<Self>) {
        if self.objects().used().is_some() {
            return;
        }
        let ost = Arc::downgrade(self);
        let count = move || {
            for folder in 0..=u8::MAX {
                let Some(ost) = ost.upgrade().filter(|ost| !ost.is_stopped()) else { return };
                if let Err(error) = ost.count_folder(folder) {
                    return tracing::warn!(target = %ost.name(), %error, "objects cannot be counted: df shows too few");
                }
            }
        };
        self.env().tasks.spawn_blocking("ost count", Box::new(count));
    }

    fn count_folder(&self, folder: u8) -> Result<(), StoreError> {
        for object in self.used.begin(folder, || self.objects().list_upper_folder(folder))? {
            let _gate = self.gates.read(object);
            self.used
                .found(object, self.objects().size_and_blocks(object)?.map(|(_, blocks)| blocks));
        }
        self.used.end(folder);
        Ok(())
    }
}
