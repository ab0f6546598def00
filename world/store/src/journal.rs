//! The journal file: a preallocated ring that batches are appended to, one sync each.
//!
//! Positions are bytes since the first lap; a position modulo the capacity is the place in the
//! file. Records between the tree's position (`disk::journal::Applied::next`) and the end of the
//! last good record are replayed at open. A record that is not whole is the torn end of the last
//! write, unless a younger record follows it. In that case it was acknowledged once, and the
//! journal is damaged.

use crate::batch::Batch;
use crate::engine::{Fence, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::error::StoreError;
use crate::log::{Entry, Position};
use disk::checksum::crc32c;
use disk::journal::{Applied, BLOCK, CHANGE_HEAD, RecordHead, decode_change, encode_change};
use env::Env;
use env::disk::{File, Open};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use types::session::Transno;

/// Buffer kept between appends, bytes; a larger one is freed.
const BUFFER_BYTES_KEPT: usize = 4 << 20;
/// Piece in which the ring is searched for younger records, bytes.
const SEARCH_BYTES: usize = 1 << 20;

/// An open journal.
pub struct Journal {
    file: Arc<dyn File>,
    path: PathBuf,
    store: u128,
    capacity: u64,
    /// Where the next record goes.
    head: u64,
    /// Sequence of the last record.
    sequence: u64,
    buffer: Vec<u8>,
}

/// Makes the file, all of it allocated.
///
/// # Errors
/// The file exists, or the disk refuses.
pub fn create(env: &Env, path: &Path, capacity: u64) -> Result<(), StoreError> {
    let capacity = capacity.next_multiple_of(BLOCK as u64).max(BLOCK as u64);
    let file = env.disk.open(path, Open::CreateNew).map_err(StoreError::io("create", path))?;
    file.allocate(0, capacity, true).map_err(StoreError::io("allocate", path))?;
    file.sync_data().map_err(StoreError::io("sync", path))
}

/// Size of the file, bytes.
///
/// # Errors
/// The file is missing or unreadable.
pub fn capacity(env: &Env, path: &Path) -> Result<u64, StoreError> {
    let file = env.disk.open(path, Open::Existing).map_err(StoreError::io("open", path))?;
    Ok(file.size_and_blocks().map_err(StoreError::io("look at", path))?.0)
}

/// True if a batch can hold the change.
fn fits(key: &[u8], value: Option<&[u8]>) -> bool {
    (1..=KEY_BYTES_MAX).contains(&key.len()) && value.is_none_or(|v| v.len() <= VALUE_BYTES_MAX)
}

/// The changes of a record; `None` if these bytes are none, or not so many.
pub(crate) fn batch_of(payload: &[u8], changes: u32) -> Option<Batch> {
    let (mut batch, mut rest) = (Batch::new(), payload);
    for _ in 0..changes {
        match decode_change(&mut rest).filter(|(key, value)| fits(key, *value))? {
            (key, Some(value)) => batch.put(key, value),
            (key, None) => batch.delete(key),
        }
    }
    Some(batch)
}

impl Journal {
    /// Opens the journal and reads what the tree has not yet taken over.
    ///
    /// # Errors
    /// A record that was acknowledged is damaged, the file has another size than it was made with,
    /// or it cannot be read.
    pub fn open(
        env: &Env,
        path: &Path,
        applied: &Applied,
    ) -> Result<(Journal, Vec<Entry>), StoreError> {
        let file = env.disk.open(path, Open::Existing).map_err(StoreError::io("open", path))?;
        let (size, _) = file.size_and_blocks().map_err(StoreError::io("look at", path))?;
        let mut journal = Journal {
            file,
            path: path.to_owned(),
            store: applied.store,
            capacity: applied.capacity,
            head: applied.next,
            sequence: applied.sequence,
            buffer: Vec::new(),
        };
        let whole = |bytes: u64| bytes.is_multiple_of(BLOCK as u64);
        if size != applied.capacity || size == 0 || !whole(size) || !whole(applied.next) {
            return Err(journal
                .damaged(size, format!("it has {size} bytes, {} were made", applied.capacity)));
        }
        let (mut found, mut fence) = (Vec::new(), Fence(applied.fence));
        while let Some(entry) = journal.read_next(applied.next, applied.clean)? {
            if entry.fence < fence {
                let (at, found) = (journal.head % journal.capacity, entry.fence.0);
                let reason = format!("a record of epoch {found} follows one of epoch {}", fence.0);
                return Err(journal.damaged(at, reason));
            }
            fence = entry.fence;
            (journal.head, journal.sequence) = (entry.end.at, entry.end.number);
            found.push(entry);
        }
        Ok((journal, found))
    }

    /// Where the next record goes.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Bytes the record of a batch may take; never less than it takes.
    pub fn record_bytes(batch: &Batch) -> u64 {
        let payload = batch.bytes() + batch.len() * CHANGE_HEAD;
        RecordHead::record_bytes(payload as u64).expect("a batch fits in memory")
    }

    /// Appends a batch; it is durable when this returns the place behind it. The caller made sure
    /// that there is room. Numbers up to that of `after` may have been taken without a record.
    ///
    /// # Errors
    /// A write or the sync failed. The journal must then not be used any more.
    pub fn append(
        &mut self,
        after: Position,
        batch: &Batch,
        fence: Fence,
    ) -> Result<Position, StoreError> {
        assert!(after.at == self.head && after.number >= self.sequence, "read to its end before");
        self.sequence = after.number;
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.resize(RecordHead::SIZE, 0);
        batch.iter().for_each(|(key, value)| encode_change(key, value, &mut buffer));
        let payload = &buffer[RecordHead::SIZE..];
        let head = RecordHead {
            store: self.store,
            sequence: self.sequence + 1,
            transno: batch.transno().0,
            fence: fence.0,
            payload_bytes: payload.len() as u64,
            payload_crc: crc32c(payload),
            changes: batch.len() as u32,
        };
        buffer[..RecordHead::SIZE].copy_from_slice(&head.encode());
        buffer.resize(buffer.len().next_multiple_of(BLOCK), 0);
        assert!(
            buffer.len() as u64 <= self.capacity,
            "the caller sends larger batches straight to the tree"
        );
        let at = self.head % self.capacity;
        let first = (self.capacity - at).min(buffer.len() as u64) as usize;
        self.file
            .write_all_at(&buffer[..first], at)
            .map_err(StoreError::io("append to", &self.path))?;
        if first < buffer.len() {
            self.file
                .write_all_at(&buffer[first..], 0)
                .map_err(StoreError::io("append to", &self.path))?;
        }
        self.file.sync_data().map_err(StoreError::io("sync", &self.path))?;
        self.head += buffer.len() as u64;
        self.sequence += 1;
        if buffer.capacity() <= BUFFER_BYTES_KEPT {
            self.buffer = buffer;
        }
        Ok(Position { number: self.sequence, transno: batch.transno(), at: self.head })
    }

    /// The record at `head`, if it is the one that must come next.
    fn read_next(&self, tail: u64, clean: bool) -> Result<Option<Entry>, StoreError> {
        let room = self.capacity - (self.head - tail);
        if room == 0 {
            return Ok(None);
        }
        let mut block = [0; RecordHead::SIZE];
        self.read(self.head, &mut block)?;
        let reason = match RecordHead::decode(&block) {
            // A record of an earlier lap.
            Some(head) if head.store == self.store && head.sequence <= self.sequence && !clean => {
                "an older record"
            }
            Some(head) if head.store == self.store && head.sequence == self.sequence + 1 => {
                match self.read_payload(&head, room)? {
                    Some(entry) => return Ok(Some(entry)),
                    None => "a record with a wrong checksum",
                }
            }
            _ if clean => return Ok(None),
            _ => "no record",
        };
        match self.find_younger(tail)? {
            None => Ok(None),
            Some(sequence) => {
                let expected = self.sequence + 1;
                let reason = format!(
                    "{reason} where number {expected} must be, though number {sequence} is there"
                );
                Err(self.damaged(self.head % self.capacity, reason))
            }
        }
    }

    fn read_payload(&self, head: &RecordHead, room: u64) -> Result<Option<Entry>, StoreError> {
        let Some(bytes) =
            RecordHead::record_bytes(head.payload_bytes).filter(|bytes| *bytes <= room)
        else {
            return Err(
                self.damaged(self.head % self.capacity, "a record is longer than the ring".into())
            );
        };
        let mut payload = vec![0; head.payload_bytes as usize];
        self.read(self.head + RecordHead::SIZE as u64, &mut payload)?;
        if crc32c(&payload) != head.payload_crc {
            return Ok(None);
        }
        let Some(mut batch) = batch_of(&payload, head.changes) else {
            return Err(self.damaged(self.head % self.capacity, "a change cannot be read".into()));
        };
        batch.set_transno(Transno(head.transno));
        batch.freeze();
        let end =
            Position { number: head.sequence, transno: batch.transno(), at: self.head + bytes };
        Ok(Some(Entry { batch: Arc::new(batch), fence: Fence(head.fence), end }))
    }

    /// Sequence of a record that is younger than the one expected at `head`, if the ring has any.
    fn find_younger(&self, tail: u64) -> Result<Option<u64>, StoreError> {
        let mut piece = vec![0; SEARCH_BYTES.min(self.capacity as usize)];
        let (mut at, end) = (self.head + BLOCK as u64, tail + self.capacity);
        while at < end {
            let len = (end - at).min(piece.len() as u64) as usize;
            self.read(at, &mut piece[..len])?;
            let heads = piece[..len].chunks(BLOCK).filter_map(RecordHead::decode);
            if let Some(head) =
                heads.into_iter().find(|h| h.store == self.store && h.sequence > self.sequence + 1)
            {
                return Ok(Some(head.sequence));
            }
            at += len as u64;
        }
        Ok(None)
    }

    /// Reads at a position, around the end of the ring if need be.
    fn read(&self, position: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let mut done = 0;
        while done < buf.len() {
            let at = (position + done as u64) % self.capacity;
            let len = ((self.capacity - at) as usize).min(buf.len() - done);
            let got = self
                .file
                .read_at(&mut buf[done..done + len], at)
                .map_err(StoreError::io("read", &self.path))?;
            if got == 0 {
                return Err(self.damaged(at, "the file ends here".into()));
            }
            done += got;
        }
        Ok(())
    }

    fn damaged(&self, offset: u64, reason: String) -> StoreError {
        StoreError::Damaged { file: self.path.clone(), offset, reason }
    }
}
