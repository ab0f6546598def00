//! One target in service: its identity, its store, its objects.
//!
//! Opening takes the folder's lock and claims the store: the epoch of the claim, which is durable
//! then, is the boot number. The superblock notes it. `close` makes everything durable and brings
//! the store to rest; a target dropped without it recovers at the next open.

use crate::error::TargetError;
use crate::format::has_objects;
use crate::superblock::{self, Lock};
use disk::superblock::Superblock;
use env::Env;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::back_end;
use store::engine::{Engine, Fence};
use store::error::StoreError;
use store::journalled::{Journalled, JournalledOptions};
use store::object_store::ObjectStore;
use store::objects::ObjectsOptions;
use store::store::{Store, StoreOptions};
use types::proof::ServerKey;
use types::session::ClusterId;
use types::target::{FsName, TargetKind, TargetName};

/// Settings of a target, and what it is expected to be.
#[derive(Clone, Debug, Default)]
pub struct TargetOptions {
    /// Refuse another kind.
    pub kind: Option<TargetKind>,
    /// Refuse another file system.
    pub fsname: Option<FsName>,
    /// Group commit. The least epoch is set from the superblock.
    pub store: StoreOptions,
    /// Journal and tree.
    pub engine: JournalledOptions,
    /// Object files.
    pub objects: ObjectsOptions,
    /// Other hosts can take it over: its log is not in its folder.
    pub shared: bool,
}

/// A target that this process owns.
pub struct Target {
    env: Env,
    dir: PathBuf,
    superblock: Mutex<Superblock>,
    store: Arc<Store>,
    objects: Option<Arc<dyn ObjectStore>>,
    shared: bool,
    /// The engine has it too: given up when both no longer need the folder.
    lock: Mutex<Option<Arc<Lock>>>,
}

impl Target {
    /// Opens the target in `dir` for service. Blocks.
    ///
    /// # Errors
    /// The folder holds no target, another one than expected, one that is served already or
    /// damaged, or one from the future.
    pub fn open(env: &Env, dir: &Path, options: TargetOptions) -> Result<Arc<Target>, TargetError> {
        let engine_options = options.engine.clone();
        Target::open_over(env, dir, options, |superblock, lock| {
            let engine = Journalled::open(env, dir, superblock.store, engine_options)?;
            engine.hold(lock);
            Ok(engine)
        })
    }

    /// As [`Target::open`], over the engine that `engine` opens. That may hold the folder's lock as
    /// long as it uses the folder.
    ///
    /// # Errors
    /// As [`Target::open`].
    pub fn open_over(
        env: &Env,
        dir: &Path,
        options: TargetOptions,
        engine: impl FnOnce(&Superblock, Arc<Lock>) -> Result<Arc<dyn Engine>, StoreError>,
    ) -> Result<Arc<Target>, TargetError> {
        check_expected(dir, &superblock::read(env, dir)?, &options)?;
        let lock = Arc::new(superblock::lock(env, dir)?);
        Target::open_locked(env, dir, options, lock, engine)
    }

    /// As [`Target::open_over`], by the holder of the folder's lock.
    ///
    /// # Errors
    /// As [`Target::open`].
    pub fn open_locked(
        env: &Env,
        dir: &Path,
        options: TargetOptions,
        lock: Arc<Lock>,
        engine: impl FnOnce(&Superblock, Arc<Lock>) -> Result<Arc<dyn Engine>, StoreError>,
    ) -> Result<Arc<Target>, TargetError> {
        // Again under the lock: it may have been formatted meanwhile.
        let mut superblock = superblock::read(env, dir)?;
        check_expected(dir, &superblock, &options)?;
        let engine = engine(&superblock, lock.clone())?;
        // Targets of versions that kept the epoch in the superblock go on counting there.
        let at_least = Fence(superblock.boot + 1);
        let store = Store::open(engine, env.clone(), StoreOptions { at_least, ..options.store })?;
        let objects = match has_objects(superblock.kind) {
            true => Some(back_end::open(env, dir, (superblock.store, &store), options.objects)?),
            false => None,
        };
        superblock.boot = store.fence().0;
        superblock::write(env, dir, &superblock)?;
        Ok(Arc::new(Target {
            env: env.clone(),
            dir: dir.to_owned(),
            superblock: Mutex::new(superblock),
            store,
            objects,
            shared: options.shared,
            lock: Mutex::new(Some(lock)),
        }))
    }

    /// Name of the target; `None` until the MGS has given it an index.
    pub fn name(&self) -> Option<TargetName> {
        self.superblock.lock().name()
    }

    /// Kind of the target.
    pub fn kind(&self) -> TargetKind {
        self.superblock.lock().kind
    }

    /// File system of the target.
    pub fn fsname(&self) -> FsName {
        self.superblock.lock().fsname
    }

    /// Cluster of the target; 0 = not yet known.
    pub fn cluster(&self) -> ClusterId {
        self.superblock.lock().cluster
    }

    /// Identity of its store: distinguishes a target from another one formatted with the same name.
    pub fn store_uuid(&self) -> u128 {
        self.superblock.lock().store
    }

    /// Key of the servers of its cluster; not known before it registered.
    pub fn server_key(&self) -> ServerKey {
        self.superblock.lock().key
    }

    /// True if other hosts can take it over.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Epoch of its owner, from 1: grows each time it is opened for service.
    pub fn boot(&self) -> u64 {
        self.superblock.lock().boot
    }

    /// Store with its records.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Data of its objects; an MGS has none.
    pub fn objects(&self) -> Option<&Arc<dyn ObjectStore>> {
        self.objects.as_ref()
    }

    /// Folder of the target.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The environment that it was opened with.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Gives it the name and cluster that the MGS decided, and the key of the servers, durably; the
    /// same ones again are accepted, and another key. Blocks.
    ///
    /// # Errors
    /// The target has others already, or the name is of another kind or file system; or the disk
    /// refuses.
    pub fn assign(
        &self,
        name: TargetName,
        cluster: ClusterId,
        key: ServerKey,
    ) -> Result<(), TargetError> {
        let mut superblock = self.superblock.lock();
        let fits = match superblock.name() {
            Some(has) => has == name,
            None => superblock.kind == name.kind && superblock.fsname == name.fsname,
        };
        if !fits || superblock.cluster != ClusterId(0) && superblock.cluster != cluster {
            let has = superblock.name().map_or_else(
                || format!("an unnamed {} of {}", superblock.kind.word(), superblock.fsname),
                |has| has.to_string(),
            );
            return Err(TargetError::Assigned {
                dir: self.dir.clone(),
                has: format!("{has} of cluster {}", superblock.cluster),
                wanted: format!("{name} of cluster {cluster}"),
            });
        }
        let index = (name.kind != TargetKind::Mgt).then_some(name.index).or(superblock.index);
        let assigned = Superblock { index, cluster, key, ..*superblock };
        if assigned != *superblock {
            superblock::write(&self.env, &self.dir, &assigned)?;
            *superblock = assigned;
        }
        Ok(())
    }

    /// Makes everything durable, ends the threads of the store, gives up the folder. Blocks while
    /// data is synced.
    ///
    /// # Errors
    /// Something could not be made durable.
    pub async fn close(&self) -> Result<(), TargetError> {
        if let Some(objects) = &self.objects {
            // Data before the records that name it.
            objects.sync_all()?;
        }
        let closed = self.store.close().await;
        self.lock.lock().take();
        Ok(closed?)
    }
}

fn check_expected(
    dir: &Path,
    superblock: &Superblock,
    options: &TargetOptions,
) -> Result<(), TargetError> {
    if let Some(wanted) = options.kind.filter(|kind| *kind != superblock.kind) {
        return Err(TargetError::Kind { dir: dir.to_owned(), found: superblock.kind, wanted });
    }
    if let Some(wanted) = options.fsname.filter(|name| *name != superblock.fsname) {
        return Err(TargetError::FileSystem {
            dir: dir.to_owned(),
            found: superblock.fsname,
            wanted,
        });
    }
    Ok(())
}
