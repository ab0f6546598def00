//! A scrub of an OST in service, beside its work.

use super::{BadBlock, Scrubbing, scrub};
use crate::ost::Ost;
use crate::sums::Span;
use std::sync::Arc;
use store::object_store::BackEnd;

impl Ost {
    /// Begins to read all objects in the background, unless that is under way. While checksums are
    /// switched on, blocks without one get it after the next flush.
    pub fn begin_scrub(self: &Arc<Self>) {
        if std::mem::replace(&mut *self.scrubbing.lock(), Scrubbing::Running) == Scrubbing::Running
        {
            return;
        }
        let ost = self.clone();
        let work = move || {
            let (store, target) = (ost.target().store().clone(), ost.name());
            let adopt = |object, _| {
                if ost.sums.is_on()
                    && !ost.sums.is_noted(object)
                    && let Err(error) = ost.sums.begin(&store, object, Span::Whole)
                {
                    tracing::warn!(%target, ?object, %error, "give an object checksums");
                }
            };
            let done =
                scrub(&store, ost.objects(), &ost.sums, |object| ost.gates.read(object), adopt);
            *ost.scrubbing.lock() = match done {
                Ok(report) => {
                    for BadBlock { object, offset } in &report.bad {
                        tracing::error!(%target, ?object, offset, "scrub: data on the disk is not what was written");
                    }
                    let (objects, checked, unchecked) =
                        (report.objects, report.checked, report.unchecked);
                    let bad = report.bad.len() as u64 + report.bad_more;
                    tracing::info!(%target, objects, checked, unchecked, bad, "scrub is over");
                    Scrubbing::Done(report)
                }
                Err(error) => {
                    tracing::error!(%target, %error, "scrub cannot go on");
                    Scrubbing::Failed(error.to_string())
                }
            };
        };
        self.env().tasks.spawn_blocking("ost scrub", Box::new(work));
    }

    /// State of the newest scrub.
    pub fn scrubbing(&self) -> Scrubbing {
        self.scrubbing.lock().clone()
    }

    /// True if data is compared with its checksums, and new ones are recorded (`checksum_at_rest`).
    pub fn checksum_at_rest(&self) -> bool {
        self.sums.is_on() || self.objects().back_end() == BackEnd::Volume
    }

    /// Switches that. A volume has checksums of its own, always.
    pub fn set_checksum_at_rest(&self, on: bool) {
        if self.objects().back_end() == BackEnd::Files {
            self.sums.set_on(on);
        }
    }

    /// Where its data is.
    pub fn back_end(&self) -> BackEnd {
        self.objects().back_end()
    }

    /// Blocks that were read from a volume and were not what was written.
    pub fn bad_blocks(&self) -> u64 {
        self.objects().bad_blocks()
    }
}
