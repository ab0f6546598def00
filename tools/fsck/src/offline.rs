//! Targets at rest, from their folders. The folders are locked, so no process can begin to serve
//! them meanwhile.
//!
//! Nothing is written unless something is repaired. Records in the journal of a killed target are
//! read as part of its records, and stay there.

use crate::error::FsckError;
use crate::page::{OBJECTS_PER_PAGE, PAGE_BYTES, Page, behind};
use crate::report::VolumeFinding;
use crate::volume;
use check::judge::Mend;
use disk::inode;
use disk::key::{self, Tag};
use disk::superblock::Superblock;
use env::Env;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::back_end;
use store::engine::Fence;
use store::error::StoreError;
use store::journalled::{Journalled, JournalledOptions};
use store::object_store::ObjectStore;
use store::objects::{Objects, ObjectsOptions};
use store::store::{Committer, Store, StoreOptions};
use store::volume::device_of;
use stubs::osc::Listed;
use target::format::LOG;
use target::superblock;
use types::object::ObjectId;
use types::target::{TargetIndex, TargetKind, TargetName};

/// The tree is left alone as long as a check may take.
const NO_APPLYING: Duration = Duration::from_secs(30 * 24 * 3600);

struct Mdt {
    name: TargetName,
    store: Arc<Store>,
}

struct OstFolder {
    name: TargetName,
    objects: Arc<dyn ObjectStore>,
    /// Of a volume, with its records.
    store: Option<Arc<Store>>,
    _lock: Arc<superblock::Lock>,
}

/// See the module.
pub struct Offline {
    what: String,
    mdts: BTreeMap<u16, Mdt>,
    osts: BTreeMap<TargetIndex, OstFolder>,
}

impl Offline {
    /// Locks and opens the targets in these folders.
    ///
    /// # Errors
    /// A folder holds no target, it is served, or its store cannot be opened; there is no MDT among
    /// them.
    pub(crate) fn open(env: &Env, dirs: &[PathBuf]) -> Result<Offline, FsckError> {
        let what: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
        let mut offline =
            Offline { what: what.join(", "), mdts: BTreeMap::new(), osts: BTreeMap::new() };
        let mut known: BTreeMap<TargetName, PathBuf> = BTreeMap::new();
        for dir in dirs {
            let block = superblock::read(env, dir)?;
            if block.kind == TargetKind::Mgt {
                continue;
            }
            let name = block.name().ok_or_else(|| FsckError::Unnamed(dir.clone()))?;
            if let Some(other) = known.keys().find(|other| other.fsname != name.fsname) {
                return Err(FsckError::TwoFileSystems(
                    other.fsname.to_string(),
                    name.fsname.to_string(),
                ));
            }
            if let Some(first) = known.insert(name, dir.clone()) {
                return Err(FsckError::Twice { target: name, first, second: dir.clone() });
            }
            let lock = Arc::new(superblock::lock(env, dir)?);
            let of_store = |source| FsckError::Store { target: name, source };
            let open_store = || open_store(env, dir, &block, lock.clone()).map_err(of_store);
            if name.kind == TargetKind::Ost {
                let options = ObjectsOptions::default();
                let folder = if device_of(env, dir).map_err(of_store)?.is_some() {
                    let store = open_store()?;
                    let objects = back_end::open(env, dir, (block.store, &store), options);
                    let objects = objects.map_err(of_store)?;
                    OstFolder { name, objects, store: Some(store), _lock: lock }
                } else {
                    let objects = Objects::open(env, dir, options).map_err(of_store)?;
                    OstFolder { name, objects, store: None, _lock: lock }
                };
                offline.osts.insert(name.index, folder);
            } else if dir.join(LOG).exists() {
                return Err(FsckError::SharedLog(dir.clone()));
            } else {
                offline.mdts.insert(name.index.0, Mdt { name, store: open_store()? });
            }
        }
        if offline.mdts.is_empty() { Err(FsckError::NoMdt(offline.what)) } else { Ok(offline) }
    }

    pub(crate) fn describe(&self) -> String {
        format!("{} (at rest)", self.what)
    }

    pub(crate) fn mdts(&self) -> Vec<u16> {
        self.mdts.keys().copied().collect()
    }

    pub(crate) fn osts(&self) -> Vec<TargetIndex> {
        self.osts.keys().copied().collect()
    }

    fn mdt(&self, mdt: u16) -> Result<&Mdt, FsckError> {
        self.mdts
            .get(&mdt)
            .ok_or_else(|| FsckError::NoMdt(format!("MDT{mdt:04x} is not among {}: it", self.what)))
    }

    fn at_ost<R>(
        &self,
        ost: TargetIndex,
        f: impl FnOnce(&dyn ObjectStore) -> Result<R, StoreError>,
    ) -> Result<R, FsckError> {
        let folder = &self.osts[&ost];
        f(&*folder.objects).map_err(|source| FsckError::Store { target: folder.name, source })
    }

    pub(crate) fn scan(&self, mdt: u16, start: &[u8], end: &[u8]) -> Result<Page, FsckError> {
        let Mdt { name, store } = self.mdt(mdt)?;
        let (mut page, mut bytes) = (Page::default(), 0);
        let scanned = store.begin().scan(start, end, |key, value| {
            if bytes >= PAGE_BYTES as usize {
                page.next = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            bytes += key.len() + value.len();
            page.records.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        });
        scanned.map_err(|source| FsckError::Store { target: *name, source })?;
        debug_assert!(
            page.next
                .as_ref()
                .is_none_or(|next| page.records.last().is_none_or(|(k, _)| *next >= behind(k)))
        );
        Ok(page)
    }

    pub(crate) fn objects(
        &self,
        ost: TargetIndex,
        after: Option<ObjectId>,
    ) -> Result<Listed, FsckError> {
        let limit = OBJECTS_PER_PAGE as usize;
        let listed = self.at_ost(ost, |objects| objects.list(after, limit))?;
        let more = listed.len() == limit;
        Ok((listed, more))
    }

    pub(crate) fn has_object(&self, ost: TargetIndex, object: ObjectId) -> Result<bool, FsckError> {
        Ok(self.at_ost(ost, |objects| objects.size_and_blocks(object))?.is_some())
    }

    /// Compares the records of volumes, and repairs them if told to.
    pub(crate) fn volumes(&self, repair: bool) -> Result<Vec<VolumeFinding>, FsckError> {
        let mut findings = Vec::new();
        for OstFolder { name, objects, store, .. } in self.osts.values() {
            let Some(store) = store else { continue };
            let found = volume::check(*name, (store, objects.units_of_device()), repair);
            findings.extend(found.map_err(|source| FsckError::Store { target: *name, source })?);
        }
        Ok(findings)
    }

    pub(crate) fn mend(&self, mdt: u16, mend: &Mend) -> Result<bool, FsckError> {
        let Mdt { name, store } = self.mdt(mdt)?;
        let fail = |source| FsckError::Store { target: *name, source };
        let mut tx = store.begin();
        for seen in &mend.expect {
            let same =
                tx.get(&seen.key, |found| seen.value.as_deref() == Some(found)).map_err(fail)?;
            if !same.unwrap_or(seen.value.is_none()) {
                return Ok(false);
            }
        }
        let version = tx.transno().0;
        for change in &mend.put {
            let inode = key::fid_of(&change.key).filter(|_| change.key[0] == Tag::Inode as u8);
            match (&change.value, inode) {
                (None, _) => tx.delete(&change.key),
                (Some(value), None) => tx.put(&change.key, value),
                // The record is good as the repair made it; otherwise the next look would find it.
                (Some(value), Some(fid)) => {
                    tx.put(
                        &change.key,
                        &inode::with_version(fid, value, version).unwrap_or_else(|_| value.clone()),
                    );
                }
            }
        }
        tx.finish();
        Ok(true)
    }

    pub(crate) fn destroy(&self, ost: TargetIndex, object: ObjectId) -> Result<(), FsckError> {
        self.at_ost(ost, |objects| objects.destroy(object).map(|_| ()))
    }

    pub(crate) async fn close(self, repaired: bool) -> Result<(), FsckError> {
        if !repaired {
            return Ok(());
        }
        for OstFolder { name, objects, store, .. } in self.osts.values() {
            let fail = |source| FsckError::Store { target: *name, source };
            objects.sync_all().map_err(fail)?;
            if let Some(store) = store {
                store.close().await.map_err(fail)?;
            }
        }
        for Mdt { name, store } in self.mdts.values() {
            store.close().await.map_err(|source| FsckError::Store { target: *name, source })?;
        }
        Ok(())
    }
}

/// The records of a target at rest.
fn open_store(
    env: &Env,
    dir: &Path,
    block: &Superblock,
    lock: Arc<superblock::Lock>,
) -> Result<Arc<Store>, StoreError> {
    let options = JournalledOptions { apply_interval: NO_APPLYING, ..JournalledOptions::default() };
    let engine = Journalled::open(env, dir, block.store, options)?;
    engine.hold(lock);
    let options = StoreOptions {
        at_least: Fence(block.boot),
        committer: Committer::Caller,
        ..StoreOptions::default()
    };
    Store::open(engine, env.clone(), options)
}
