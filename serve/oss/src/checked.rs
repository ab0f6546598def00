//! Changes and reads of an OST, under the checksums of its data.

use crate::ost::Ost;
use crate::sums::{Begun, Span, compare};
use bytes::Bytes;
use disk::sums::{BLOCK_BYTES, REGION_BYTES};
use types::errno::Errno;
use types::object::ObjectId;
use wire::message::Op;

impl Ost {
    /// Called before operations that change objects. The sums of the changed parts do not count
    /// from here on until the returned value is dropped and the result was synced and recorded.
    pub(crate) async fn begin_changes(&self, ops: &[Op]) -> Result<Vec<Begun>, Errno> {
        let spans =
            ops.iter().filter_map(|op| if let Op::Ost(op) = op { Span::of(op) } else { None });
        self.begin_spans(spans.collect()).await
    }

    pub(crate) async fn begin_spans(
        &self,
        spans: Vec<(ObjectId, Span)>,
    ) -> Result<Vec<Begun>, Errno> {
        let blocks = self.env().tasks.on_reactor() && self.sums.asks(&spans);
        let (sums, store) = (self.sums.clone(), self.target().store().clone());
        let begin = move || {
            let (mut begun, mut waits) = (Vec::with_capacity(spans.len()), false);
            for (object, span) in spans {
                let (change, wait) = sums.begin(&store, object, span)?;
                begun.push(change);
                waits |= wait.is_some();
            }
            Ok::<_, Errno>((begun, waits))
        };
        let (begun, waits) = match blocks {
            true => self.blocking("ost checksums", begin).await.ok_or(Errno::ESHUTDOWN)??,
            false => begin()?,
        };
        if waits {
            self.target().store().commit().await?;
        }
        Ok(begun)
    }

    /// Reads `[offset, offset + len)` and compares it with its sums. The caller holds the gate.
    pub(crate) fn read_checked(
        &self,
        object: ObjectId,
        offset: u64,
        len: u64,
        size: u64,
    ) -> Result<Bytes, Errno> {
        let block = BLOCK_BYTES as u64;
        let start = offset / block * block;
        let end = offset.saturating_add(len).div_ceil(block).saturating_mul(block);
        let there = size.min(end).saturating_sub(start);
        let read = |bytes: &mut [u8]| {
            Ok::<_, Errno>(self.objects().read(object, bytes, start)?.unwrap_or(0))
        };
        let data =
            if there == 0 { Bytes::new() } else { self.buffers.fill(there as usize, read)? };
        let mut region = start / REGION_BYTES;
        while region * REGION_BYTES < end {
            if let Some(sums) = self.sums.of(self.target().store(), object, region)? {
                let (bad, _) = compare(region, &sums, start, end, &data);
                if let Some(at) = bad.first() {
                    let (target, blocks) = (self.name(), bad.len());
                    tracing::error!(%target, ?object, offset = at, blocks, "data on the disk is not what was written: EIO");
                    return Err(Errno::EIO);
                }
            }
            region += 1;
        }
        let from = ((offset - start) as usize).min(data.len());
        let to = (from + len as usize).min(data.len());
        Ok(data.slice(from..to))
    }
}
