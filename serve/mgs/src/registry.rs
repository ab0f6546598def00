//! The registry: file systems, their targets and parameters. Decides; performs nothing.
//!
//! Every change gives the file system a new version and returns the records to write for it.
//! Invariants: a target's name belongs to one store for ever, and a store has one name; versions
//! grow by one with each change. Bounds: [`FILE_SYSTEMS_MAX`], `TARGETS_MAX` of each kind,
//! [`PARAMS_MAX`], [`POOLS_MAX`], [`NIDS_MAX`].

use disk::config::{
    self, BadConfig, ConfigKey, FsRecord, KEYS_END, KEYS_START, NodemapsRecord,
    PARAM_NAME_BYTES_MAX, ParamRecord, PoolRecord, RemovedRecord, ScopesRecord, TargetRecord,
};
use idmap::nodemap::NodemapName;
use idmap::rules::BadValue;
use idmap::scope::{Scoped, ScopedParam};
use idmap::set::{NodemapChange, Nodemaps};
use serving::Serving;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::error::StoreError;
use store::tx::Tx;
use types::errno::Errno;
use types::limits::TARGETS_MAX;
use types::nid::Nid;
use types::target::{FsName, TargetIndex, TargetKind, TargetName};
use wire::mgs::{FsConfig, PoolInfo, TargetInfo};

mod params;
mod pools;
mod removal;
mod scoped;
pub mod serving;

/// File systems of one MGS.
pub const FILE_SYSTEMS_MAX: usize = 256;
/// Persistent parameters of one file system.
pub const PARAMS_MAX: usize = 4096;
/// Longest value of a parameter, bytes.
pub const PARAM_VALUE_BYTES_MAX: usize = 4096;
/// Pools of one file system.
pub const POOLS_MAX: usize = 256;
/// Name that means every file system, where a parameter is set.
pub const EVERY_FILE_SYSTEM: &str = "*";
/// NIDs of one target.
pub const NIDS_MAX: usize = 32;

/// The records are not what was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record is damaged.
    #[error("{key}: {cause}")]
    Record {
        /// Name of the record.
        key: String,
        /// What is wrong with it.
        cause: BadConfig,
    },
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The name belongs to another store.
    #[error("{name} belongs to store {theirs:032x}; store {ours:032x} cannot take it")]
    Stranger {
        /// The name: that is registered, or was asked for.
        name: TargetName,
        /// UUID of the store that has it.
        theirs: u128,
        /// UUID of the store that asks.
        ours: u128,
    },
    /// The store is registered under another name.
    #[error("store {store:032x} is registered as {name}; it cannot be {wanted} too")]
    Renamed {
        /// UUID of the store.
        store: u128,
        /// The name: that is registered, or was asked for.
        name: TargetName,
        /// The name that was asked for.
        wanted: TargetName,
    },
    /// The target was taken over.
    #[error("{name} is served in epoch {newest} by its new owner; epoch {boot} is over")]
    TakenOver {
        /// The target.
        name: TargetName,
        /// The epoch that asks.
        boot: u64,
        /// The epoch that is registered.
        newest: u64,
    },
    /// Its owner lives, and is another process.
    #[error(
        "{name} is served at {nids:?}, and that server lives; if this is a copy of its folder, \
         only one of the two can be served"
    )]
    Elsewhere {
        /// The target.
        name: TargetName,
        /// Where it is served.
        nids: Vec<String>,
    },
    /// The name is not that of an MDT or OST.
    #[error("{0:?} names no MDT or OST")]
    Name(String),
    /// There is no such target or file system.
    #[error("{0} is not registered here")]
    Unknown(String),
    /// The target was removed for good.
    #[error(
        "{0} was removed from the file system (lctl del_ost, del_mdt); its name is not given again"
    )]
    Removed(TargetName),
    /// Clients work with it.
    #[error("{0} is in service; stop its server first, or force it")]
    InService(TargetName),
    /// The root of the file system is there.
    #[error("{0} holds the root of the file system and cannot be removed")]
    Root(TargetName),
    /// A NID is not valid, or there are none or too many.
    #[error("a target needs 1 to {NIDS_MAX} good NIDs, not {0:?}")]
    Nids(Vec<String>),
    /// The name or value of the parameter is not valid.
    #[error(
        "a parameter has a name of 1 to {PARAM_NAME_BYTES_MAX} and a value of up to {PARAM_VALUE_BYTES_MAX} bytes"
    )]
    Param,
    /// The value is none that the parameter could have.
    #[error("{name}={value}: {cause}")]
    Value {
        /// The name, or a pattern.
        name: String,
        /// The value.
        value: String,
        /// What is wrong with it.
        cause: BadValue,
    },
    /// The parameter is none that could be kept.
    #[error("{name:?} is no parameter to keep: {why}")]
    NotKept {
        /// The name, or a pattern.
        name: String,
        /// Why it cannot.
        why: &'static str,
    },
    /// The name of the pool is not valid.
    #[error("{0:?} is no pool name; use 1 to 15 letters, digits, '_' or '-'")]
    Pool(String),
    /// The pool exists already.
    #[error("the pool {0} exists")]
    PoolExists(String),
    /// The pool must be empty before it is removed.
    #[error("the pool {0} still has OSTs")]
    PoolInUse(String),
    /// An OST that is not in the pool, or that does not exist.
    #[error("OST{ost:04x} is not in {place}")]
    NoOst {
        /// Index of the OST.
        ost: u16,
        /// The pool, or the file system.
        place: String,
    },
    /// A change of nodemaps.
    #[error(transparent)]
    Nodemap(#[from] idmap::set::Refused),
    /// A bound is reached.
    #[error("no room for more {0}")]
    Full(&'static str),
}

impl Refused {
    /// The errno that the caller sees.
    pub fn errno(&self) -> Errno {
        match self {
            Refused::Stranger { .. } | Refused::Renamed { .. } => Errno::EEXIST,
            Refused::PoolExists(_) => Errno::EEXIST,
            Refused::Removed(_) => Errno::ESHUTDOWN,
            Refused::InService(_) | Refused::Elsewhere { .. } => Errno::EBUSY,
            Refused::TakenOver { .. } => Errno::ESTALE,
            Refused::Root(_) => Errno::EPERM,
            Refused::PoolInUse(_) => Errno::ENOTEMPTY,
            Refused::Name(_)
            | Refused::Nids(_)
            | Refused::Param
            | Refused::Value { .. }
            | Refused::Pool(_) => Errno::EINVAL,
            Refused::NotKept { .. } => Errno::EOPNOTSUPP,
            Refused::Unknown(_) | Refused::NoOst { .. } => Errno::ENOENT,
            Refused::Full(_) => Errno::ENOSPC,
            Refused::Nodemap(refused) => refused.errno(),
        }
    }
}

/// One file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Fs {
    version: u64,
    /// In the order of configurations: MDTs first, by index.
    targets: BTreeMap<TargetName, TargetRecord>,
    removed: BTreeMap<TargetName, RemovedRecord>,
    params: BTreeMap<String, ParamRecord>,
    pools: BTreeMap<String, PoolRecord>,
}

/// The consequences of a change.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Records to write; `None` = remove.
    pub records: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// File systems that changed, and their configurations as of this change.
    pub published: Vec<(FsName, Arc<FsConfig>)>,
    /// The nodemaps as of this change, if it is one of them.
    pub nodemaps: Option<Arc<Nodemaps>>,
    /// The parameters of scopes as of this change, if it is of one of them.
    pub scoped: Option<Arc<Scoped>>,
}

/// All file systems.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Registry {
    cluster: u128,
    systems: BTreeMap<FsName, Fs>,
    nodemaps: Nodemaps,
    scoped: Scoped,
}

impl Registry {
    /// Reads the records.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(cluster: u128, tx: &Tx<'_>) -> Result<Registry, LoadError> {
        let mut registry = Registry { cluster, ..Registry::default() };
        let mut fault = None;
        tx.scan(KEYS_START, KEYS_END, |key, value| match registry.take(key, value) {
            Ok(()) => ControlFlow::Continue(()),
            Err(cause) => {
                let key = String::from_utf8_lossy(key).into_owned();
                fault = Some(LoadError::Record { key, cause });
                ControlFlow::Break(())
            }
        })?;
        fault.map_or(Ok(registry), Err)
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), BadConfig> {
        match ConfigKey::decode(key)? {
            ConfigKey::Fs(fsname) => {
                self.systems.entry(fsname).or_default().version =
                    config::decode::<FsRecord>(value)?.version;
            }
            ConfigKey::Target(name) => {
                self.systems
                    .entry(name.fsname)
                    .or_default()
                    .targets
                    .insert(name, config::decode(value)?);
            }
            ConfigKey::Removed(name) => {
                self.systems
                    .entry(name.fsname)
                    .or_default()
                    .removed
                    .insert(name, config::decode(value)?);
            }
            ConfigKey::Param(fsname, param) => {
                self.systems
                    .entry(fsname)
                    .or_default()
                    .params
                    .insert(param, config::decode(value)?);
            }
            ConfigKey::Nodemaps => {
                let NodemapsRecord { version, active } = config::decode(value)?;
                (self.nodemaps.version, self.nodemaps.active) = (version, active);
            }
            ConfigKey::Nodemap(name) => self.nodemaps.restore(name, config::decode(value)?),
            ConfigKey::Scopes => {
                self.scoped.version = config::decode::<ScopesRecord>(value)?.version;
            }
            ConfigKey::Scoped(scope, name) => {
                let ParamRecord { order, value } = config::decode(value)?;
                self.scoped.restore(ScopedParam { scope, name, value }, order);
            }
            ConfigKey::Pool(fsname, pool) => {
                self.systems.entry(fsname).or_default().pools.insert(pool, config::decode(value)?);
            }
        }
        Ok(())
    }

    /// Every file system with its configuration.
    pub fn configs(&self) -> Vec<(FsName, Arc<FsConfig>)> {
        self.systems.iter().map(|(name, fs)| (*name, Arc::new(fs.config(self.cluster)))).collect()
    }

    /// All nodemaps.
    pub fn nodemaps(&self) -> &Nodemaps {
        &self.nodemaps
    }

    /// Changes nodemaps. An empty change if nothing is different.
    ///
    /// # Errors
    /// [`Refused`]; nothing changed then.
    pub fn change_nodemaps(&mut self, change: &NodemapChange) -> Result<Change, Refused> {
        if !self.nodemaps.change(change)? {
            return Ok(Change::default());
        }
        Ok(self.changed_nodemaps(change.name()))
    }

    /// Nodemaps that an earlier version recorded get what this one has beside that. An empty change
    /// if nothing is missing.
    pub fn complete_nodemaps(&mut self) -> Change {
        match self.nodemaps.complete() {
            names if names.is_empty() => Change::default(),
            names => self.changed_nodemaps(&names),
        }
    }

    /// These nodemaps have changed.
    fn changed_nodemaps<'a>(&self, names: impl IntoIterator<Item = &'a NodemapName>) -> Change {
        let all = NodemapsRecord { version: self.nodemaps.version, active: self.nodemaps.active };
        let mut records = vec![(ConfigKey::Nodemaps.encode(), Some(config::encode(&all)))];
        for name in names {
            let nodemap = self.nodemaps.get(name.as_str()).map(|map| config::encode(&**map));
            records.push((ConfigKey::Nodemap(name.clone()).encode(), nodemap));
        }
        let nodemaps = Some(Arc::new(self.nodemaps.clone()));
        Change { records, nodemaps, ..Change::default() }
    }

    /// A target starts serving. Returns its full name.
    ///
    /// # Errors
    /// [`Refused`]; nothing changed then.
    pub fn register(
        &mut self,
        name: &str,
        store: u128,
        serving: Serving<'_>,
    ) -> Result<(TargetName, Change), Refused> {
        let Serving { nids, boot, shared, other_owner_lives } = serving;
        refuse_bad(nids)?;
        let wanted = Wanted::parse(name)?;
        self.refuse_removed(&wanted, store)?;
        let known = self.name_of(store);
        let name = match (wanted, known) {
            // The answer was lost, or the target forgot its index: it keeps the name it got.
            (Wanted::Any(fsname, kind), Some(known))
                if known.fsname == fsname && known.kind == kind =>
            {
                known
            }
            (Wanted::Any(fsname, kind), Some(known)) => {
                let wanted = TargetName { fsname, kind, index: TargetIndex(0) };
                return Err(Refused::Renamed { store, name: known, wanted });
            }
            (Wanted::Any(fsname, kind), None) => self.next_name(fsname, kind)?,
            (Wanted::This(name), Some(known)) if known != name => {
                return Err(Refused::Renamed { store, name: known, wanted: name });
            }
            (Wanted::This(name), _) => name,
        };
        if !self.systems.contains_key(&name.fsname) && self.systems.len() >= FILE_SYSTEMS_MAX {
            return Err(Refused::Full("file systems"));
        }
        if usize::from(name.index.0) >= TARGETS_MAX {
            return Err(Refused::Full("targets"));
        }
        if let Some(theirs) = self.target(name)
            && theirs.store != store
        {
            return Err(Refused::Stranger { name, theirs: theirs.store, ours: store });
        }
        match self.target(name) {
            Some(known) if shared && boot < known.boot => {
                return Err(Refused::TakenOver { name, boot, newest: known.boot });
            }
            // Only this process can listen at these NIDs: the earlier one is gone.
            Some(known) if !shared && known.up && other_owner_lives && known.nids != nids => {
                return Err(Refused::Elsewhere { name, nids: known.nids.clone() });
            }
            _ => {}
        }
        let fs = self.systems.entry(name.fsname).or_default();
        let record = TargetRecord { store, boot, up: true, nids: nids.to_vec() };
        let write = (ConfigKey::Target(name).encode(), Some(config::encode(&record)));
        fs.targets.insert(name, record);
        Ok((name, self.changed(name.fsname, write)))
    }

    /// A target stops in order. An empty change if it was down already.
    ///
    /// # Errors
    /// [`Refused`]; nothing changed then.
    pub fn unregister(&mut self, name: &str, store: u128) -> Result<Change, Refused> {
        let Wanted::This(name) = Wanted::parse(name)? else {
            return Err(Refused::Name(name.to_owned()));
        };
        let targets = self.systems.get_mut(&name.fsname).map(|fs| &mut fs.targets);
        let target = targets
            .and_then(|t| t.get_mut(&name))
            .ok_or_else(|| Refused::Unknown(name.to_string()))?;
        if target.store != store {
            return Err(Refused::Stranger { name, theirs: target.store, ours: store });
        }
        if !std::mem::take(&mut target.up) {
            return Ok(Change::default());
        }
        let write = (ConfigKey::Target(name).encode(), Some(config::encode(target)));
        Ok(self.changed(name.fsname, write))
    }

    /// A file system by name.
    fn known(&self, fsname: &str) -> Result<FsName, Refused> {
        let known =
            fsname.parse::<FsName>().ok().filter(|fsname| self.systems.contains_key(fsname));
        known.ok_or_else(|| Refused::Unknown(fsname.to_owned()))
    }

    fn changed(&mut self, fsname: FsName, write: (Vec<u8>, Option<Vec<u8>>)) -> Change {
        let fs = self.systems.get_mut(&fsname).expect("just changed");
        fs.version += 1;
        let version = config::encode(&FsRecord { version: fs.version });
        let records = vec![(ConfigKey::Fs(fsname).encode(), Some(version)), write];
        let published = vec![(fsname, Arc::new(fs.config(self.cluster)))];
        Change { records, published, ..Change::default() }
    }

    fn target(&self, name: TargetName) -> Option<&TargetRecord> {
        self.systems.get(&name.fsname)?.targets.get(&name)
    }

    fn name_of(&self, store: u128) -> Option<TargetName> {
        self.systems
            .values()
            .flat_map(|fs| &fs.targets)
            .find(|(_, t)| t.store == store)
            .map(|(name, _)| *name)
    }

    fn next_name(&self, fsname: FsName, kind: TargetKind) -> Result<TargetName, Refused> {
        let name = |index| TargetName { fsname, kind, index: TargetIndex(index) };
        let free = (0..TARGETS_MAX as u16)
            .map(name)
            .find(|name| self.target(*name).is_none() && !self.is_removed(*name));
        free.ok_or(Refused::Full("targets"))
    }
}

impl Fs {
    fn config(&self, cluster: u128) -> FsConfig {
        let target = |(name, t): (&TargetName, &TargetRecord)| TargetInfo {
            name: name.to_string(),
            nids: t.nids.clone(),
            boot: t.boot,
            up: t.up,
        };
        let mut params: Vec<_> = self.params.iter().collect();
        params.sort_by_key(|(_, p)| p.order);
        FsConfig {
            version: self.version,
            cluster,
            targets: self.targets.iter().map(target).collect(),
            params: params.into_iter().map(|(name, p)| (name.clone(), p.value.clone())).collect(),
            pools: self
                .pools
                .iter()
                .map(|(name, p)| PoolInfo { name: name.clone(), osts: p.osts.clone() })
                .collect(),
        }
    }
}

/// Refuses NIDs that are none, or too many.
fn refuse_bad(nids: &[String]) -> Result<(), Refused> {
    let good = |nid: &String| nid.parse::<Nid>().is_ok();
    match (1..=NIDS_MAX).contains(&nids.len()) && nids.iter().all(good) {
        true => Ok(()),
        false => Err(Refused::Nids(nids.to_vec())),
    }
}

/// A name in a registration.
enum Wanted {
    /// `sheen-OST0001`
    This(TargetName),
    /// `sheen-OST`: the next one
    Any(FsName, TargetKind),
}

impl Wanted {
    fn parse(text: &str) -> Result<Wanted, Refused> {
        let bad = || Refused::Name(text.to_owned());
        if let Ok(name) = text.parse::<TargetName>() {
            return if name.kind == TargetKind::Mgt { Err(bad()) } else { Ok(Wanted::This(name)) };
        }
        let (fsname, kind) = text.rsplit_once('-').ok_or_else(bad)?;
        let kind = [TargetKind::Mdt, TargetKind::Ost]
            .into_iter()
            .find(|k| k.word() == kind)
            .ok_or_else(bad)?;
        Ok(Wanted::Any(fsname.parse().map_err(|_| bad())?, kind))
    }
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
