//! Object files: the data of OSTs, and of files on an MDT, one local file per object.
//!
//! Path: `objects/<2 hex>/<2 hex>/<name>`. The folder follows from the FID's sequence and the upper
//! bits of its number. So objects made one after another share a folder, and few folders are made
//! and synced. An object exists from its first write.
//!
//! Nothing is durable until `sync` or `sync_all`. Those also make the entry in its folder durable,
//! so a synced object survives a power cut whole. After a failed sync every later one fails: the
//! kernel may have dropped what it could not write.
//!
//! All calls block; call them where that is allowed. Callers order a destroy against other calls on
//! the same object. When no descriptors are left (EMFILE, ENFILE), object files that are open and
//! unused are closed, and the operation is done again. Bounds: [`ObjectsOptions::open`],
//! `OBJECT_FILES_UNSYNCED_MAX` (beyond it the whole volume is synced).

use crate::error::StoreError;
use crate::object_store::{BackEnd, ObjectStore, ObjectsSpace, whole_units};
use crate::open_files::{OpenFiles, Share};
use crate::unsynced::Unsynced;
use disk::checksum::crc32c;
use env::Env;
use env::disk::{File, Open};
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use types::errno::Errno;
use types::fid::Fid;
use types::limits;
use types::object::ObjectId;

/// Objects of this many successive file numbers share a folder (as a power of 2).
const FOLDER_SHIFT: u32 = 8;
/// Unit of `File::size_and_blocks`, bytes.
const BLOCK_BYTES: u64 = 512;

/// Settings.
#[derive(Clone, Debug, Default)]
pub struct ObjectsOptions {
    /// Files kept open; shared by the targets of a process.
    pub open: Arc<OpenFiles>,
    /// Bytes that all objects together may take; `None`: what the volume has.
    pub bytes_max: Option<u64>,
}

/// The object files of one target.
pub struct Objects {
    pub(crate) env: Env,
    pub(crate) root: PathBuf,
    options: ObjectsOptions,
    open: Share,
    /// Files with data that may not be on the disk.
    files: Unsynced<ObjectId>,
    /// Folders with entries that may not be on the disk.
    folders: Unsynced<PathBuf>,
    /// Bytes allocated, counted only under `bytes_max`.
    allocated: AtomicU64,
    failure: Mutex<Option<StoreError>>,
}

impl Objects {
    /// Makes an empty `objects` folder in `dir`. Durable when this returns.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn create(env: &Env, dir: &Path) -> Result<(), StoreError> {
        let root = dir.join("objects");
        env.disk.create_dirs(&root).map_err(StoreError::io("create", &root))?;
        env.disk.sync_dir(&root).map_err(StoreError::io("sync", &root))?;
        env.disk.sync_dir(dir).map_err(StoreError::io("sync", dir))
    }

    /// Opens the objects under `dir/objects`. Under `bytes_max` this counts the existing objects
    /// one by one.
    ///
    /// # Errors
    /// The folder is missing, or the disk refuses.
    pub fn open(
        env: &Env,
        dir: &Path,
        options: ObjectsOptions,
    ) -> Result<Arc<Objects>, StoreError> {
        let root = dir.join("objects");
        env.disk.list(&root).map_err(StoreError::io("list", &root))?;
        // Unsynced writes of a killed process before this one have no marks any more.
        env.disk.sync_volume(&root).map_err(StoreError::io("sync the volume of", &root))?;
        let objects = Objects {
            env: env.clone(),
            root,
            open: Share::new(options.open.clone()),
            files: Unsynced::new(limits::OBJECT_FILES_UNSYNCED_MAX),
            folders: Unsynced::new(limits::OBJECT_FILES_UNSYNCED_MAX),
            allocated: AtomicU64::new(0),
            failure: Mutex::new(None),
            options,
        };
        if objects.options.bytes_max.is_some() {
            let mut allocated = 0;
            objects.for_each(|id| {
                allocated +=
                    objects.size_and_blocks(id)?.map_or(0, |(_, blocks)| blocks * BLOCK_BYTES);
                Ok(())
            })?;
            objects.allocated.store(allocated, Ordering::Relaxed);
        }
        Ok(Arc::new(objects))
    }

    /// Calls `f` for every object, in no order.
    ///
    /// # Errors
    /// The disk refuses, or `f` does. Files with other names are skipped.
    pub fn for_each(
        &self,
        mut f: impl FnMut(ObjectId) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let list = |path: &Path| {
            self.with_room(|| self.env.disk.list(path)).map_err(StoreError::io("list", path))
        };
        for upper in list(&self.root)? {
            for lower in list(&self.root.join(&upper))? {
                for name in list(&self.root.join(&upper).join(&lower))? {
                    if let Some(id) = parse_name(&name) {
                        f(id)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Changes the object's file, created if need be; `needs`: a range that will take space.
    fn change(
        &self,
        action: &'static str,
        id: ObjectId,
        needs: Option<(u64, u64)>,
        f: impl FnOnce(&dyn File) -> io::Result<()>,
    ) -> Result<(), StoreError> {
        self.check()?;
        let file = self.made(id)?;
        let counted = self.options.bytes_max.is_some();
        let blocks = || {
            Ok(if counted { file.size_and_blocks().map_err(self.io("look at", id))?.1 } else { 0 })
        };
        let before = blocks()?;
        if let Some((start, len)) = needs {
            self.check_room(&*file, start, len)?;
        }
        // Marked before and after: a sync that runs beside the change leaves the mark.
        self.files.mark(&id);
        let done = f(&*file);
        self.files.mark(&id);
        self.count(before, blocks()?);
        done.map_err(|e| match self.io(action, id)(e) {
            StoreError::Io { errno: Errno::ENOSPC, .. } => self.no_space(),
            other => other,
        })
    }

    fn check_room(&self, file: &dyn File, start: u64, len: u64) -> Result<(), StoreError> {
        let Some(max) = self.options.bytes_max else { return Ok(()) };
        if self.allocated.load(Ordering::Relaxed).saturating_add(len) <= max {
            return Ok(());
        }
        // Overwriting takes nothing, even on a full target.
        match file.seek(start, true) {
            Ok(Some(hole)) if hole >= start.saturating_add(len) => Ok(()),
            _ => Err(self.no_space()),
        }
    }

    fn no_space(&self) -> StoreError {
        let space = self.space().unwrap_or_default();
        StoreError::NoSpace {
            used: space.total - space.free.min(space.total),
            capacity: space.total,
            reserved: 0,
        }
    }

    fn count(&self, before: u64, after: u64) {
        if after >= before {
            self.allocated.fetch_add((after - before) * BLOCK_BYTES, Ordering::Relaxed);
        } else {
            let less = (before - after) * BLOCK_BYTES;
            let _ = self.allocated.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                Some(n.saturating_sub(less))
            });
        }
    }

    fn existing(&self, id: ObjectId) -> Result<Option<Arc<dyn File>>, StoreError> {
        if let Some(file) = self.open.get(id) {
            return Ok(Some(file));
        }
        match self.open_file(&self.path(id), Open::Existing) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            file => Ok(Some(self.open.insert(id, file.map_err(self.io("open", id))?))),
        }
    }

    fn made(&self, id: ObjectId) -> Result<Arc<dyn File>, StoreError> {
        if let Some(file) = self.existing(id)? {
            return Ok(file);
        }
        let (path, folder) = (self.path(id), self.folder(id));
        let mut file = self.open_file(&path, Open::CreateNew);
        if matches!(&file, Err(e) if e.kind() == io::ErrorKind::NotFound) {
            self.with_room(|| self.env.disk.create_dirs(&folder))
                .map_err(StoreError::io("create", &folder))?;
            folder
                .ancestors()
                .skip(1)
                .take(2)
                .for_each(|upper| self.folders.mark(&upper.to_owned()));
            file = self.open_file(&path, Open::CreateNew);
        }
        if matches!(&file, Err(e) if e.kind() == io::ErrorKind::AlreadyExists) {
            file = self.open_file(&path, Open::Existing);
        }
        let file = file.map_err(|e| match self.io("create", id)(e) {
            StoreError::Io { errno: Errno::ENOSPC, .. } => self.no_space(),
            other => other,
        })?;
        self.folders.mark(&folder);
        Ok(self.open.insert(id, file))
    }

    fn sync_folder(&self, folder: &Path) -> Result<(), StoreError> {
        let done = self.with_room(|| self.env.disk.sync_dir(folder));
        done.map_err(|e| self.sync_failed(&e, StoreError::io("sync", folder)))
    }

    fn open_file(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        self.with_room(|| self.env.disk.open(path, how))
    }

    /// Runs an operation that needs a descriptor, for which open files make room.
    fn with_room<T>(&self, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
        loop {
            match work() {
                Err(error) if is_out_of_descriptors(&error) && self.open.shed() => {}
                done => return done,
            }
        }
    }

    /// A sync failed. Without a descriptor it did not begin, so nothing is lost: the next one may
    /// succeed.
    fn sync_failed(
        &self,
        error: &io::Error,
        named: impl FnOnce(io::Error) -> StoreError,
    ) -> StoreError {
        let copy = error
            .raw_os_error()
            .map_or_else(|| io::Error::from(error.kind()), io::Error::from_raw_os_error);
        match is_out_of_descriptors(error) {
            true => named(copy),
            false => self.fail(named(copy)),
        }
    }

    fn check(&self) -> Result<(), StoreError> {
        self.failure.lock().clone().map_or(Ok(()), Err)
    }

    fn fail(&self, error: StoreError) -> StoreError {
        tracing::error!("{error}; no sync is believed until the target is opened again");
        *self.failure.lock() = Some(StoreError::Poisoned { cause: error.to_string().into() });
        error
    }

    pub(crate) fn folder(&self, id: ObjectId) -> PathBuf {
        let hash = folder_hash(id);
        self.root.join(format!("{:02x}", hash & 0xff)).join(format!("{:02x}", hash >> 8 & 0xff))
    }

    pub(crate) fn path(&self, id: ObjectId) -> PathBuf {
        let Fid { seq, oid, ver } = id.fid;
        self.folder(id).join(format!("{seq:x}-{oid:x}-{ver:x}-{:x}-{:x}", id.instance, id.stripe))
    }

    fn io(
        &self,
        action: &'static str,
        id: ObjectId,
    ) -> impl FnOnce(io::Error) -> StoreError + use<'_> {
        move |e| StoreError::io(action, &self.path(id))(e)
    }
}

impl ObjectStore for Objects {
    fn back_end(&self) -> BackEnd {
        BackEnd::Files
    }

    fn read(&self, id: ObjectId, buf: &mut [u8], offset: u64) -> Result<Option<usize>, StoreError> {
        let Some(file) = self.existing(id)? else { return Ok(None) };
        let mut done = 0;
        while done < buf.len() {
            match file
                .read_at(&mut buf[done..], offset + done as u64)
                .map_err(self.io("read", id))?
            {
                0 => break,
                n => done += n,
            }
        }
        Ok(Some(done))
    }

    fn write(&self, id: ObjectId, data: &[u8], offset: u64) -> Result<(), StoreError> {
        self.change("write", id, Some((offset, data.len() as u64)), |file| {
            file.write_all_at(data, offset)
        })
    }

    fn truncate(&self, id: ObjectId, len: u64) -> Result<(), StoreError> {
        self.change("truncate", id, None, |file| file.set_len(len))
    }

    fn punch(&self, id: ObjectId, start: u64, len: u64) -> Result<(), StoreError> {
        if self.existing(id)?.is_none() {
            return Ok(());
        }
        self.change("punch", id, None, |file| file.punch(start, len))
    }

    fn allocate(&self, id: ObjectId, start: u64, len: u64, zero: bool) -> Result<(), StoreError> {
        self.change("allocate", id, Some((start, len)), |file| file.allocate(start, len, zero))
    }

    fn seek(&self, id: ObjectId, offset: u64, hole: bool) -> Result<Option<u64>, StoreError> {
        match self.existing(id)? {
            Some(file) => file.seek(offset, hole).map_err(self.io("seek in", id)),
            None => Ok(None),
        }
    }

    fn size_and_blocks(&self, id: ObjectId) -> Result<Option<(u64, u64)>, StoreError> {
        let file = self.existing(id)?;
        file.map(|f| f.size_and_blocks().map_err(self.io("look at", id))).transpose()
    }

    fn destroy(&self, id: ObjectId) -> Result<bool, StoreError> {
        let counted = self.options.bytes_max.is_some();
        let blocks =
            if counted { self.size_and_blocks(id)?.map_or(0, |(_, blocks)| blocks) } else { 0 };
        self.open.remove(id);
        self.files.forget(&id);
        match self.env.disk.remove(&self.path(id)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            done => {
                done.map_err(self.io("remove", id))?;
                self.count(blocks, 0);
                self.folders.mark(&self.folder(id));
                Ok(true)
            }
        }
    }

    fn sync(&self, id: ObjectId) -> Result<(), StoreError> {
        self.check()?;
        let number = self.files.number(&id);
        if let Some(file) = self.existing(id)? {
            file.sync_data().map_err(|e| self.fail(self.io("sync", id)(e)))?;
        }
        let folder = self.folder(id);
        // Upper folders last: a name leads to something whole.
        for folder in folder.ancestors().take(3) {
            if let Some(number) = self.folders.number(&folder.to_owned()) {
                self.sync_folder(folder)?;
                self.folders.synced(&folder.to_owned(), number);
            }
        }
        if let Some(number) = number {
            self.files.synced(&id, number);
        }
        Ok(())
    }

    fn start_write_back(&self, id: ObjectId, start: u64, len: u64) -> Result<(), StoreError> {
        match self.open.get(id) {
            Some(file) => file.start_write_back(start, len).map_err(self.io("write back", id)),
            None => Ok(()),
        }
    }

    fn sync_all(&self) -> Result<(), StoreError> {
        self.check()?;
        let (files, folders) = (self.files.note(), self.folders.note());
        let count = files.marked.len() + folders.marked.len();
        if files.overflow || folders.overflow || count > limits::OBJECT_FILES_SYNCED_ONE_BY_ONE {
            let done = self.with_room(|| self.env.disk.sync_volume(&self.root));
            done.map_err(|e| {
                self.sync_failed(&e, StoreError::io("sync the volume of", &self.root))
            })?;
        } else {
            for (id, _) in &files.marked {
                if let Some(file) = self.existing(*id)? {
                    file.sync_data().map_err(|e| self.fail(self.io("sync", *id)(e)))?;
                }
            }
            for (folder, _) in &folders.marked {
                self.sync_folder(folder)?;
            }
        }
        self.files.all_synced(&files);
        self.folders.all_synced(&folders);
        Ok(())
    }

    fn space(&self) -> Result<ObjectsSpace, StoreError> {
        let volume = self
            .env
            .disk
            .space(&self.root)
            .map_err(StoreError::io("look at the volume of", &self.root))?;
        let (mut total, mut free) = (volume.bytes_total, volume.bytes_available);
        if let Some(max) = self.options.bytes_max {
            total = total.min(max);
            free = free.min(max.saturating_sub(self.allocated.load(Ordering::Relaxed)));
        }
        Ok(ObjectsSpace {
            total,
            free,
            files_total: volume.files_total,
            files_free: volume.files_free,
        })
    }

    fn upper_folder(&self, id: ObjectId) -> u8 {
        folder_hash(id) as u8
    }

    fn list_upper_folder(&self, upper: u8) -> Result<Vec<ObjectId>, StoreError> {
        let upper = self.root.join(format!("{upper:02x}"));
        let list = |path: &Path| match self.env.disk.list(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            names => names.map_err(StoreError::io("list", path)),
        };
        let mut objects = Vec::new();
        for lower in list(&upper)? {
            objects.extend(list(&upper.join(lower))?.iter().filter_map(|name| parse_name(name)));
        }
        objects.sort_unstable();
        Ok(objects)
    }

    fn takes(&self, id: ObjectId, start: u64, len: u64) -> Result<u64, StoreError> {
        match self.seek(id, start, true)? {
            // Overwriting takes nothing.
            Some(hole) if hole >= start.saturating_add(len) => Ok(0),
            _ => Ok(whole_units(start, len, self.space_unit())),
        }
    }

    fn list(
        &self,
        after: Option<ObjectId>,
        limit: usize,
    ) -> Result<Vec<(ObjectId, u64, u64)>, StoreError> {
        self.page(after, limit)
    }
}

/// True if this process, or the machine, has no descriptors left.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from(error), Errno::EMFILE | Errno::ENFILE)
}

/// The two folders of an object, in its lower 16 bits.
fn folder_hash(id: ObjectId) -> u32 {
    let Fid { seq, oid, .. } = id.fid;
    let mut place = [0; 12];
    place[..8].copy_from_slice(&seq.to_le_bytes());
    place[8..].copy_from_slice(&(oid >> FOLDER_SHIFT).to_le_bytes());
    crc32c(&place)
}

/// The object whose file has this name.
pub fn parse_name(name: &str) -> Option<ObjectId> {
    let mut parts = name.split('-').map(|p| u64::from_str_radix(p, 16).ok());
    let mut next = || parts.next().flatten();
    let (seq, oid, ver, instance, stripe) = (next()?, next()?, next()?, next()?, next()?);
    let small = |n: u64| u32::try_from(n).ok();
    let fid = Fid { seq, oid: small(oid)?, ver: small(ver)? };
    parts.next().is_none().then_some(ObjectId {
        fid,
        instance: small(instance)?,
        stripe: small(stripe)?,
    })
}
