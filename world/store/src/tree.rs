//! The tree: LMDB, which holds what the journal has handed over.
//!
//! Every commit of the tree is synced before the journal reuses the space of the records it took
//! over, so the two can never be lost together. LMDB has no checksums of its own, so each value
//! ends with the crc32c of key and value (4 bytes). A data file that was cut is refused, or filled
//! up with zeros that are recognised, before a read could fault on it. The files of LMDB are one of
//! the two named exceptions to "all files through `env`".

use crate::engine::{KEY_BYTES_MAX, Visit};
use crate::error::StoreError;
use crate::merge::Layers;
use disk::checksum::crc32c_parts;
use disk::copying::Copying;
use disk::journal::Applied;
use env::Env;
use env::disk::Open;
use heed::types::Bytes;
use heed::{Database, EnvOpenOptions, MdbError, RoTxn, RwTxn, WithoutTls};
use std::io::Write;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use types::errno::Errno;

/// Address space for the map, bytes. Only address space: `Engine::space` decides how much may be
/// filled.
const MAP_BYTES: usize = 1 << 40;
/// Readers at once: nested reads and threads.
const READERS_MAX: u32 = 1024;
/// Bytes of the checksum behind each value.
const CRC_BYTES: usize = 4;
/// A note may make the file grow; the next one then has the right size.
const REST_ROUNDS_MAX: u32 = 4;
const APPLIED_KEY: &[u8] = b"applied";
/// There while the tree is copied from another host.
const COPYING_KEY: &[u8] = b"copying";

/// A snapshot of the tree.
pub type Reader = RoTxn<'static, WithoutTls>;

/// The open tree; clones share it.
#[derive(Clone)]
pub struct Tree {
    env: heed::Env<WithoutTls>,
    records: Database<Bytes, Bytes>,
    meta: Database<Bytes, Bytes>,
    path: PathBuf,
}

impl Tree {
    /// Makes an empty tree in the folder `path`.
    ///
    /// # Errors
    /// The disk or LMDB refuses.
    pub fn create(env: &Env, path: &Path, applied: &Applied) -> Result<(), StoreError> {
        env.disk.create_dirs(path).map_err(StoreError::io("create", path))?;
        let tree = Tree::start(path, |_| Ok(()))?;
        let mut txn = tree.env.write_txn().map_err(|e| tree.error("change", e))?;
        tree.meta
            .put(&mut txn, APPLIED_KEY, &applied.encode())
            .map_err(|e| tree.error("change", e))?;
        txn.commit().map_err(|e| tree.error("commit", e))?;
        env.disk.sync_dir(path).map_err(StoreError::io("sync", path))
    }

    /// Opens the tree in the folder `path` and returns how far it is.
    ///
    /// # Errors
    /// The tree is missing, cut, damaged, an unfinished copy, or belongs to another store.
    pub fn open(env: &Env, path: &Path, store: u128) -> Result<(Tree, Applied), StoreError> {
        let (tree, applied) = Tree::open_any(env, path, store)?;
        match tree.copying()? {
            None => Ok((tree, applied)),
            Some(_) => Err(StoreError::Unfinished { tree: path.to_owned() }),
        }
    }

    /// As [`Tree::open`], also an unfinished copy.
    ///
    /// # Errors
    /// As [`Tree::open`].
    pub fn open_any(env: &Env, path: &Path, store: u128) -> Result<(Tree, Applied), StoreError> {
        let file = path.join("data.mdb");
        let damaged =
            |offset, reason: String| StoreError::Damaged { file: file.clone(), offset, reason };
        let disk_file =
            env.disk.open(&file, Open::Existing).map_err(StoreError::io("open", &file))?;
        let (found, _) = disk_file.size_and_blocks().map_err(StoreError::io("look at", &file))?;
        // Pages at the end that were taken and given back in one transaction are never written. So
        // a good file may be a little shorter than its page count says. With zeros in their place
        // no read can fault, and LMDB (or a value's checksum) recognises them where other bytes
        // should be.
        let grow = |lmdb: &heed::Env<WithoutTls>| {
            let needed = (lmdb.info().last_page_number as u64 + 1)
                .saturating_mul(u64::from(lmdb.stat().page_size));
            match found < needed && needed <= MAP_BYTES as u64 {
                true => disk_file.set_len(needed).map_err(StoreError::io("grow", &file)),
                false => Ok(()),
            }
        };
        // LMDB takes an empty file for a new tree.
        if found == 0 {
            return Err(damaged(0, "it is empty".into()));
        }
        let tree = Tree::start(path, grow)?;
        let txn = tree.reader()?;
        let bytes = tree.meta.get(&txn, APPLIED_KEY).map_err(|e| tree.error("read", e))?;
        let applied = bytes.and_then(Applied::decode);
        let applied = applied
            .ok_or_else(|| damaged(0, "the note of how far the tree is cannot be read".into()))?;
        if applied.store != store {
            return Err(damaged(0, "it belongs to another store".into()));
        }
        if found < applied.tree_bytes {
            return Err(damaged(found, format!("it was cut: it had {} bytes", applied.tree_bytes)));
        }
        drop(txn);
        Ok((tree, applied))
    }

    /// Opens LMDB; `before` sees it before anything is read.
    fn start(
        path: &Path,
        before: impl FnOnce(&heed::Env<WithoutTls>) -> Result<(), StoreError>,
    ) -> Result<Tree, StoreError> {
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(MAP_BYTES).max_readers(READERS_MAX).max_dbs(2);
        // SAFETY: only LMDB changes the files: the target's lock keeps other processes out, heed
        // refuses a second opening in this process, and no flag that weakens syncing is set.
        let env = unsafe { options.open(path) }.map_err(|e| error(path, "open", e))?;
        before(&env)?;
        let start = |env: &heed::Env<WithoutTls>| {
            let mut txn = env.write_txn()?;
            let records = env.create_database(&mut txn, Some("records"))?;
            let meta = env.create_database(&mut txn, Some("meta"))?;
            txn.commit()?;
            Ok((records, meta))
        };
        let (records, meta) = start(&env).map_err(|e| error(path, "open", e))?;
        Ok(Tree { env, records, meta, path: path.to_owned() })
    }

    /// A snapshot of what is committed now.
    ///
    /// # Errors
    /// Too many snapshots, or LMDB is broken.
    pub fn reader(&self) -> Result<Reader, StoreError> {
        self.env.clone().static_read_txn().map_err(|e| self.error("read", e))
    }

    /// Calls `f` with the value of `key` if there is one.
    ///
    /// # Errors
    /// The record or the tree is damaged.
    pub fn get(
        &self,
        reader: &Reader,
        key: &[u8],
        f: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, StoreError> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Ok(false);
        }
        match self.records.get(reader, key).map_err(|e| self.error("read", e))? {
            None => Ok(false),
            Some(stored) => {
                f(self.checked(key, stored)?);
                Ok(true)
            }
        }
    }

    /// Visits records in order until `f` breaks.
    ///
    /// # Errors
    /// A record or the tree is damaged.
    pub fn scan(
        &self,
        reader: &Reader,
        start: &[u8],
        end: &[u8],
        f: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        // LMDB cannot seek to the empty key.
        let from = if start.is_empty() { Bound::Unbounded } else { Bound::Included(start) };
        let bounds = (from, Bound::Excluded(end));
        for record in self.records.range(reader, &bounds).map_err(|e| self.error("read", e))? {
            let (key, stored) = record.map_err(|e| self.error("read", e))?;
            if f(key, self.checked(key, stored)?).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// How far it is copied; `None`: it is whole.
    ///
    /// # Errors
    /// The tree is damaged.
    pub fn copying(&self) -> Result<Option<Copying>, StoreError> {
        let txn = self.reader()?;
        let note = self.meta.get(&txn, COPYING_KEY).map_err(|e| self.error("read", e))?;
        let damaged = || StoreError::Damaged {
            file: self.path.join("data.mdb"),
            offset: 0,
            reason: "the note of how far it is copied cannot be read".into(),
        };
        note.map(|bytes| Copying::decode(bytes).ok_or_else(damaged)).transpose()
    }

    /// Empties it, in one synced transaction: it is a copy that has nothing yet, and that the log
    /// behind `applied` completes.
    ///
    /// # Errors
    /// As [`Tree::apply`].
    pub fn begin_copy(&self, applied: &Applied) -> Result<(), StoreError> {
        let mut txn = self.env.write_txn().map_err(|e| self.error("change", e))?;
        self.records.clear(&mut txn).map_err(|e| self.error("change", e))?;
        self.finish_txn(txn, applied, Some(&Copying::default()))
    }

    /// Takes records of a copy in one synced transaction. `copying`: how far it then is; `None`: it
    /// is whole.
    ///
    /// # Errors
    /// As [`Tree::apply`].
    pub fn take_copied(
        &self,
        records: Layers<'_>,
        applied: &Applied,
        copying: Option<&Copying>,
    ) -> Result<(), StoreError> {
        let txn = self.change(records)?;
        self.finish_txn(txn, applied, copying)
    }

    /// Takes over changes in one synced transaction.
    ///
    /// # Errors
    /// Nothing was taken over: the disk is full or refuses, or the tree is damaged.
    pub fn apply(&self, changes: Layers<'_>, applied: &Applied) -> Result<(), StoreError> {
        let txn = self.change(changes)?;
        self.finish_txn(txn, applied, None)
    }

    fn change(&self, changes: Layers<'_>) -> Result<RwTxn<'_>, StoreError> {
        let mut txn = self.env.write_txn().map_err(|e| self.error("change", e))?;
        for (key, value) in changes {
            let done = match value {
                None => self.records.delete(&mut txn, key).map(|_| ()),
                Some(value) => {
                    self.records.put_reserved(&mut txn, key, value.len() + CRC_BYTES, |space| {
                        space.write_all(value)?;
                        space.write_all(&crc32c_parts(&[key, value]).to_le_bytes())
                    })
                }
            };
            done.map_err(|e| self.error("change", e))?;
        }
        Ok(txn)
    }

    fn finish_txn(
        &self,
        mut txn: RwTxn<'_>,
        applied: &Applied,
        copying: Option<&Copying>,
    ) -> Result<(), StoreError> {
        match copying {
            Some(note) => self.meta.put(&mut txn, COPYING_KEY, &note.encode()),
            None => self.meta.delete(&mut txn, COPYING_KEY).map(|_| ()),
        }
        .map_err(|e| self.error("change", e))?;
        let tree_bytes = self.env.real_disk_size().map_err(|e| self.error("look at", e))?;
        let applied = Applied { tree_bytes, ..*applied };
        self.meta
            .put(&mut txn, APPLIED_KEY, &applied.encode())
            .map_err(|e| self.error("change", e))?;
        txn.commit().map_err(|e| self.error("commit", e))
    }

    /// Notes that everything is at rest, and how long the file then is.
    ///
    /// # Errors
    /// As [`Tree::apply`].
    pub fn rest(&self, applied: &Applied) -> Result<(), StoreError> {
        for _ in 0..REST_ROUNDS_MAX {
            let before = self.env.real_disk_size().map_err(|e| self.error("look at", e))?;
            self.apply(
                Layers::new(std::iter::empty(), &[], &[]),
                &Applied { clean: true, ..*applied },
            )?;
            if self.env.real_disk_size().map_err(|e| self.error("look at", e))? == before {
                break;
            }
        }
        Ok(())
    }

    /// (bytes of pages in use, bytes of the data file).
    ///
    /// # Errors
    /// LMDB or the disk refuses.
    pub fn bytes(&self, reader: &Reader) -> Result<(u64, u64), StoreError> {
        let mut pages = 2;
        for db in [&self.records, &self.meta] {
            let stat = db.stat(reader).map_err(|e| self.error("read", e))?;
            pages += stat.branch_pages + stat.leaf_pages + stat.overflow_pages;
        }
        let file = self.env.real_disk_size().map_err(|e| self.error("look at", e))?;
        Ok((pages as u64 * u64::from(self.page_bytes()), file))
    }

    /// Changes the size beyond which the tree is full, bytes. Returns the size before. No
    /// transaction may be under way.
    #[cfg(test)]
    pub(crate) fn limit(&self, bytes: usize) -> usize {
        let before = self.env.info().map_size;
        // SAFETY: the caller says that no transaction is under way.
        unsafe { self.env.resize(bytes) }.expect("whole pages");
        before
    }

    fn page_bytes(&self) -> u32 {
        self.env.stat().page_size
    }

    /// The value without its checksum, if that is right.
    fn checked<'t>(&self, key: &[u8], stored: &'t [u8]) -> Result<&'t [u8], StoreError> {
        if let Some((value, crc)) = stored.split_last_chunk::<CRC_BYTES>()
            && u32::from_le_bytes(*crc) == crc32c_parts(&[key, value])
        {
            return Ok(value);
        }
        // LMDB does not say where in the file its pages are.
        let reason = format!("the record {} has a wrong checksum", key.escape_ascii());
        Err(StoreError::Damaged { file: self.path.join("data.mdb"), offset: 0, reason })
    }

    fn error(&self, action: &'static str, e: heed::Error) -> StoreError {
        error(&self.path, action, e)
    }
}

fn error(path: &Path, action: &'static str, e: heed::Error) -> StoreError {
    let path = path.to_owned();
    match e {
        heed::Error::Io(io) => StoreError::Io { action, path, errno: Errno::from(&io) },
        heed::Error::Mdb(MdbError::MapFull) => {
            StoreError::Io { action, path, errno: Errno::ENOSPC }
        }
        heed::Error::Mdb(
            reason @ (MdbError::Corrupted
            | MdbError::PageNotFound
            | MdbError::Invalid
            | MdbError::VersionMismatch),
        ) => StoreError::Damaged {
            file: path.join("data.mdb"),
            offset: 0,
            reason: reason.to_string(),
        },
        other => StoreError::Tree { action, path, reason: other.to_string() },
    }
}
