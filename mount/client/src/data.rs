//! Bytes of a file to and from its objects: ranges are split by the layout, and all parts travel at
//! once.

use crate::client::Client;
use crate::dom::{is_elsewhere, store_on_mdt};
use crate::file::File;
use crate::ops::write::WriteFlags;
use bytes::Bytes;
use env::BoxFuture;
use layout::layout::Layout;
use layout::map::{Place, pieces};
use session::epoch::SessionEpoch;
use session::error::ClientError;
use session::fan_out::fan_out;
use std::sync::Arc;
use types::attr::Attr;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::BULK_BYTES_MAX;
use types::object::{FileOffset, ObjectId, ObjectOffset};
use types::target::TargetIndex;
use wire::mds::GetLayout;

/// Zeros to answer holes with, without copying.
static ZEROS: [u8; 128 << 10] = [0; 128 << 10];

/// Place of a part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Where {
    /// In an object.
    Object(TargetIndex, ObjectId, ObjectOffset),
    /// On the MDT.
    Mdt,
    /// Nowhere yet: zeros.
    Nowhere,
}

/// A part of a file range that one request to one target can carry, or that lives nowhere yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// First byte in the file.
    pub file: u64,
    /// Bytes; 1..=BULK_BYTES_MAX.
    pub len: usize,
    /// Place of the bytes.
    pub place: Where,
}

/// Splits `[start, end)` into parts, in file order without gaps.
pub(crate) fn parts(layout: &Layout, fid: Fid, start: u64, end: u64) -> Vec<Part> {
    let mut parts = Vec::new();
    for piece in pieces(layout, fid, FileOffset(start), FileOffset(end)) {
        let mut done = 0;
        while done < piece.len {
            let len = (piece.len - done).min(BULK_BYTES_MAX as u64);
            let place = match piece.place {
                Place::Object { ost, object, offset, .. } => Where::Object(ost, object, ObjectOffset(offset.0 + done)),
                Place::Absent { .. } => Where::Nowhere,
                Place::Mdt { .. } => Where::Mdt,
            };
            parts.push(Part { file: piece.file.0 + done, len: len as usize, place });
            done += len;
        }
    }
    parts
}

/// Result of the parts of a write.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Bytes from the start on that are stored without a gap.
    pub bytes: u64,
    /// Growth of all objects, 512-byte blocks.
    pub blocks_delta: i64,
    /// The error of the first part that failed, if not all is stored.
    pub error: Option<ClientError>,
    /// All of it lives on the MDT, which answered with these attributes and needs no `Wrote` any
    /// more.
    pub attr: Option<Attr>,
}

impl Client {
    /// Reads `[start, end)`; bytes that no object has are zeros.
    pub(crate) async fn fetch(
        &self,
        layout: &Layout,
        fid: Fid,
        start: u64,
        end: u64,
    ) -> Result<Vec<Bytes>, ClientError> {
        match self.fetch_by(layout, fid, start, end).await {
            Err(error) if is_elsewhere(&error) => {
                let layout = self
                    .session
                    .mdc(fid)?
                    .get_layout(&Credentials::root(), GetLayout { fid, write: false, start, end })
                    .await?;
                self.fetch_by(&layout, fid, start, end).await
            }
            answer => answer,
        }
    }

    async fn fetch_by(&self, layout: &Layout, fid: Fid, start: u64, end: u64) -> Result<Vec<Bytes>, ClientError> {
        let parts = parts(layout, fid, start, end);
        let mut work: Vec<BoxFuture<'static, Result<Bytes, ClientError>>> = Vec::with_capacity(parts.len());
        for part in &parts {
            let len = part.len as u32;
            match part.place {
                Where::Object(ost, object, offset) => {
                    let osc = self.session.targets.osc(ost)?;
                    work.push(Box::pin(async move { Ok(osc.read(object, offset, len).await?) }));
                }
                Where::Mdt => {
                    let (mdc, offset) = (self.session.mdc(fid)?, part.file);
                    work.push(Box::pin(async move { Ok(mdc.read(&Credentials::root(), fid, offset, len).await?.1) }));
                }
                Where::Nowhere => {}
            }
        }
        let mut answers = fan_out(work).await.into_iter();
        let mut data = Vec::with_capacity(parts.len());
        for part in &parts {
            let mut bytes = match part.place {
                Where::Nowhere => Bytes::new(),
                Where::Object(..) | Where::Mdt => answers.next().expect("one answer per question")?,
            };
            bytes.truncate(part.len);
            let missing = part.len - bytes.len();
            if !bytes.is_empty() {
                data.push(bytes);
            }
            push_zeros(&mut data, missing);
        }
        Ok(data)
    }

    /// Stores `data` at `start`. The layout must be instantiated there.
    pub(crate) async fn store(
        &self,
        layout: &Layout,
        (fid, epoch): (Fid, SessionEpoch),
        start: u64,
        data: &Bytes,
        flags: WriteFlags,
    ) -> Result<Stored, ClientError> {
        let end = start + data.len() as u64;
        if end <= layout.mdt_bytes() {
            let attr = store_on_mdt(self.session.mdc(fid)?, fid, start, data.clone(), flags).await?;
            return Ok(Stored { bytes: end - start, blocks_delta: 0, error: None, attr: Some(attr) });
        }
        let parts = parts(layout, fid, start, end);
        let mut work: Vec<BoxFuture<'static, Result<i64, ClientError>>> = Vec::with_capacity(parts.len());
        for part in &parts {
            let from = (part.file - start) as usize;
            let slice = data.slice(from..from + part.len);
            match part.place {
                Where::Object(ost, object, offset) => {
                    let osc = self.session.targets.osc(ost)?;
                    work.push(Box::pin(async move { Ok(osc.write(object, offset, slice, flags.sync).await?) }));
                }
                Where::Mdt => {
                    let store = store_on_mdt(self.session.mdc(fid)?, fid, part.file, slice, flags);
                    // The MDT counts its own blocks.
                    work.push(Box::pin(async move { store.await.map(|_| 0) }));
                }
                Where::Nowhere => {
                    let reason = "the MDT did not instantiate what is to be written";
                    tracing::error!(%fid, offset = part.file, reason);
                    return Err(ClientError::Layout { fid, reason });
                }
            }
        }
        let mut stored = Stored { bytes: 0, blocks_delta: 0, error: None, attr: None };
        for (part, answer) in parts.iter().zip(self.session.while_trusted(fid, epoch, fan_out(work)).await?) {
            match answer {
                Ok(delta) => {
                    stored.blocks_delta += delta;
                    if stored.error.is_none() {
                        stored.bytes += part.len as u64;
                    }
                }
                Err(error) => {
                    stored.error.get_or_insert(error);
                }
            }
        }
        Ok(stored)
    }

    /// The layout of `[start, end)`; for `write` with all of it instantiated. No request if the
    /// known one is so already. Another client may have instantiated a missing component since, so
    /// the MDT is asked for reads, too.
    pub(crate) async fn layout_for(
        &self,
        credentials: &Credentials,
        file: &File,
        write: bool,
        start: u64,
        end: u64,
    ) -> Result<Arc<Layout>, ClientError> {
        if let Some(layout) = file.layout().filter(|layout| is_instantiated(layout, start, end)) {
            return Ok(layout);
        }
        let layout =
            self.session.mdc(file.fid)?.get_layout(credentials, GetLayout { fid: file.fid, write, start, end }).await?;
        self.rest_on_answers(file);
        Ok(file.learn_layout(layout))
    }
}

fn is_instantiated(layout: &Layout, start: u64, end: u64) -> bool {
    // One look per component, not per stripe.
    let mut at = start;
    for component in &layout.components {
        if component.end <= at {
            continue;
        }
        if at >= end {
            break;
        }
        if component.start > at || !component.is_instantiated() {
            return false;
        }
        at = component.end;
    }
    at >= end
}

/// Appends `count` zero bytes.
pub(crate) fn push_zeros(data: &mut Vec<Bytes>, mut count: usize) {
    while count > 0 {
        let len = count.min(ZEROS.len());
        data.push(Bytes::from_static(&ZEROS[..len]));
        count -= len;
    }
}

/// Drops what lies beyond the first `len` bytes.
pub(crate) fn clip(data: &mut Vec<Bytes>, len: u64) {
    let mut left = len;
    data.retain_mut(|bytes| {
        bytes.truncate(left.min(bytes.len() as u64) as usize);
        left -= bytes.len() as u64;
        !bytes.is_empty()
    });
}

/// All pieces as one.
///
/// # Errors
/// EINVAL beyond BULK_BYTES_MAX.
pub(crate) fn join(mut data: Vec<Bytes>) -> Result<Bytes, Errno> {
    if data.len() == 1 {
        return Ok(data.remove(0));
    }
    let len = data.iter().map(Bytes::len).sum();
    if len > BULK_BYTES_MAX {
        return Err(Errno::EINVAL);
    }
    let mut all = Vec::with_capacity(len);
    data.iter().for_each(|bytes| all.extend_from_slice(bytes));
    Ok(all.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::layout::{Component, EOF, Pattern};

    const FID: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };
    const STRIPE: u64 = 64 << 10;

    fn component(id: u32, start: u64, end: u64, stripes: &[u16]) -> Component {
        Component {
            id,
            start,
            end,
            pattern: Pattern::Raid0,
            stripe_size: STRIPE as u32,
            stripe_count: stripes.len() as u16,
            overstriped: false,
            pool: None,
            stripes: stripes.iter().map(|n| TargetIndex(*n)).collect(),
            wanted: Vec::new(),
        }
    }

    fn layout(components: Vec<Component>) -> Layout {
        Layout { generation: 1, components, ..Layout::default() }
    }

    /// OST and offset.
    fn object(part: &Part) -> (u16, u64) {
        match part.place {
            Where::Object(ost, _, offset) => (ost.0, offset.0),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_lives_on_the_mdt_comes_first() {
        let mut dom = component(1, 0, STRIPE, &[]);
        dom.pattern = Pattern::Mdt;
        let split = parts(&layout(vec![dom, component(2, STRIPE, EOF, &[3])]), FID, STRIPE - 7, STRIPE + 9);
        assert_eq!((split[0].file, split[0].len, split[0].place), (STRIPE - 7, 7, Where::Mdt));
        assert_eq!((split[1].file, split[1].len, object(&split[1])), (STRIPE, 9, (3, STRIPE)));
    }

    #[test]
    fn a_long_range_is_split_at_stripes_and_at_the_bulk_limit() {
        let two = layout(vec![component(1, 0, EOF, &[0, 1])]);
        let split: Vec<_> = parts(&two, FID, STRIPE - 10, 2 * STRIPE + 5);
        assert_eq!(split.iter().map(|p| p.len).collect::<Vec<_>>(), [10, STRIPE as usize, 5]);
        assert_eq!(split.iter().map(|p| object(p).0).collect::<Vec<_>>(), [0, 1, 0]);
        let one = layout(vec![component(1, 0, EOF, &[0])]);
        let bulk = BULK_BYTES_MAX as u64;
        let split = parts(&one, FID, 7, 7 + 2 * bulk + 1);
        let offsets: Vec<_> = split.iter().map(|p| (p.file, p.len as u64, object(p).1)).collect();
        assert_eq!(offsets, [(7, bulk, 7), (7 + bulk, bulk, 7 + bulk), (7 + 2 * bulk, 1, 7 + 2 * bulk)]);
    }

    #[test]
    fn what_is_not_instantiated_has_no_place() {
        let half = layout(vec![component(1, 0, STRIPE, &[0]), component(2, STRIPE, EOF, &[])]);
        let split = parts(&half, FID, STRIPE - 1, STRIPE + 1);
        assert!(matches!(split[0].place, Where::Object(..)) && split[1].place == Where::Nowhere);
        assert!(is_instantiated(&half, 0, STRIPE));
        assert!(!is_instantiated(&half, 0, STRIPE + 1));
        assert!(!is_instantiated(&layout(Vec::new()), 0, 1));
        assert!(!is_instantiated(&layout(vec![component(1, 0, STRIPE, &[0])]), 0, STRIPE + 1), "beyond the last");
    }

    #[test]
    fn pieces_are_clipped_and_joined() {
        let mut data = vec![Bytes::from_static(b"abc"), Bytes::from_static(b"def")];
        push_zeros(&mut data, 2);
        assert_eq!(join(data.clone()).unwrap(), &b"abcdef\0\0"[..]);
        clip(&mut data, 4);
        assert_eq!(data, [&b"abc"[..], b"d"]);
        clip(&mut data, 0);
        assert!(data.is_empty());
        let mut zeros = Vec::new();
        push_zeros(&mut zeros, ZEROS.len() * 2 + 1);
        assert_eq!(zeros.iter().map(Bytes::len).sum::<usize>(), ZEROS.len() * 2 + 1);
    }
}
