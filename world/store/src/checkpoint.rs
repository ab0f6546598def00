//! Checkpoints: the tree of an owner as blobs, for a host whose tree the log cannot complete, while
//! no owner lives too (docs/ownership.md).
//!
//! As with a copy of the owner's tree ([`crate::tree_copy`]), each page is of a moment of its own,
//! none before the place that the checkpoint names. The log is kept from there on, and makes the
//! pages what the owner's tree is.

use crate::blobs::Blobs;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::shared_log::{PAGES_MAX, SharedLog};
use crate::tree_copy::{Page, page_of};
use disk::checkpoint::PageHead;
use disk::checksum::crc32c;
use disk::journal::decode_change;

pub use crate::shared_log::Checkpoint;

/// Bytes of a page, about.
const PAGE_BYTES: usize = 4 << 20;
/// Longest page: one that has a record of the largest size more.
const PAGE_BYTES_MAX: usize = PAGE_BYTES + (17 << 20);

/// Folder of the blobs of all checkpoints.
pub(crate) fn folder(log: &SharedLog) -> String {
    log.blob_folder("checkpoint")
}

/// Folder of the pages of one.
pub(crate) fn folder_of(log: &SharedLog, number: u64, id: u64) -> String {
    format!("{}/{number:016x}-{id:016x}", folder(log))
}

fn page_name(log: &SharedLog, of: &Checkpoint, page: u32) -> String {
    format!("{}/{page:08x}", folder_of(log, of.number, of.id))
}

/// Writes a checkpoint of an owner's engine, and makes it that of the log. `id` is drawn anew each
/// time: pages of an attempt that was given up are never those of another. `None`: the tree has
/// nothing that the checkpoint has not, or `stop` said so, or the process lost the target. Blocks.
///
/// # Errors
/// The engine cannot be read; the log or the store of blobs does not answer.
pub fn write(
    engine: &dyn Engine,
    log: &SharedLog,
    blobs: &dyn Blobs,
    id: u64,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Checkpoint>, StoreError> {
    let (before, now) = log.checkpoint_now()?;
    // What is durable in the tree was in the engine before the first page is read.
    let Some(place) = log.own_place()? else { return Ok(None) };
    if place.number <= now.map_or(0, |now| now.number) {
        return Ok(None);
    }
    let (number, transno) = (place.number, place.transno);
    let mut made = Checkpoint { number, transno, id, pages: 0 };
    let mut after = Vec::new();
    loop {
        if stop() || made.pages == PAGES_MAX {
            return Ok(None);
        }
        let page = page_of(engine, &after, PAGE_BYTES)?;
        let head = PageHead {
            store: log.store(),
            id,
            number,
            page: made.pages,
            more: page.more,
            records: page.records,
            payload_crc: crc32c(&page.bytes),
        };
        let mut bytes = head.encode().to_vec();
        bytes.extend_from_slice(&page.bytes);
        let name = page_name(log, &made, made.pages);
        blobs.put(&name, bytes).map_err(|error| log.blob_error(error))?;
        made.pages += 1;
        if !page.more {
            break;
        }
        match last_key(&page) {
            Some(key) => after = key,
            None => return Ok(None),
        }
    }
    Ok(log.publish(&made, before)?.then_some(made))
}

fn last_key(page: &Page) -> Option<Vec<u8>> {
    let (mut rest, mut last) = (&page.bytes[..], None);
    while !rest.is_empty() {
        last = Some(decode_change(&mut rest)?.0);
    }
    last.map(<[u8]>::to_vec)
}

/// A page of a checkpoint. Blocks.
///
/// # Errors
/// It is missing or damaged; or the store of blobs does not answer. [`StoreError::Behind`]: the
/// checkpoint is another one by now.
pub fn read(
    log: &SharedLog,
    blobs: &dyn Blobs,
    of: &Checkpoint,
    page: u32,
) -> Result<Page, StoreError> {
    let name = page_name(log, of, page);
    let bad = |reason: &str| {
        let reason = format!("{reason} (page {page} of the checkpoint of entry {})", of.number);
        StoreError::Damaged { file: name.clone().into(), offset: 0, reason }
    };
    let Some(bytes) = blobs.get(&name, PAGE_BYTES_MAX).map_err(|error| log.blob_error(error))?
    else {
        // The pages of an older one go after it.
        return Err(match log.checkpoint_now()?.1 {
            Some(now) if now == *of => bad("this blob is missing"),
            _ => StoreError::Behind { log: log.name().into(), missing: of.number },
        });
    };
    let (head, records) =
        PageHead::decode(&bytes).ok_or_else(|| bad("the checksum of this blob is wrong"))?;
    let expected = PageHead {
        store: log.store(),
        id: of.id,
        number: of.number,
        page,
        more: page + 1 < of.pages,
        ..head
    };
    match head == expected {
        true => Ok(Page { records: head.records, more: head.more, bytes: records.to_vec() }),
        false => Err(bad("this blob is that of another place")),
    }
}

/// Reads all of a checkpoint: what [`crate::tree_copy::TreeCopy::take`] takes in place of a tree
/// must be whole before the tree is given up. `false`: `stop` said so. Blocks.
///
/// # Errors
/// As [`read`].
pub fn check(
    log: &SharedLog,
    blobs: &dyn Blobs,
    of: &Checkpoint,
    stop: &dyn Fn() -> bool,
) -> Result<bool, StoreError> {
    let mut after = Vec::new();
    for number in 0..of.pages {
        if stop() {
            return Ok(false);
        }
        let page = read(log, blobs, of, number)?;
        after = page.end_behind(&after)?;
    }
    Ok(true)
}
