//! Operations of the MGS. Rare, so their bodies use serde (postcard).

use crate::report::{KeptReport, NodeReport};
use idmap::scope::{Scope, ScopedParam};
use idmap::set::{NodemapChange, Nodemaps};
use serde::{Deserialize, Serialize};

/// A target as the configuration knows it. Texts are in the types' usual forms, so that old readers
/// can show them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetInfo {
    /// `sheen-OST0001`
    pub name: String,
    /// NIDs it is served at, best first.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub nids: Vec<String>,
    /// Its boot number, the epoch of its owner: grows each time the target starts, here or on
    /// another host.
    pub boot: u64,
    /// In service; `false` after an orderly stop.
    pub up: bool,
}

/// A pool of OSTs, `lctl pool_new`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolInfo {
    /// 1 to 15 letters, digits, `_` or `-`.
    pub name: String,
    /// Indexes of its OSTs, ascending.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub osts: Vec<u16>,
}

/// What is done to a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolChange {
    /// It is made, empty.
    New,
    /// These OSTs come in.
    Add(#[serde(deserialize_with = "types::bounded::vec")] Vec<u16>),
    /// These OSTs go out.
    Remove(#[serde(deserialize_with = "types::bounded::vec")] Vec<u16>),
    /// It goes; it must be empty.
    Destroy,
}

/// Everything a client or server must know of one file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct FsConfig {
    /// Grows with every change.
    pub version: u64,
    /// The cluster.
    pub cluster: u128,
    /// All targets that registered and were not removed, MDTs first, by index.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub targets: Vec<TargetInfo>,
    /// Persistent parameters, `lctl set_param -P`, in the order set: (name pattern, value).
    #[serde(deserialize_with = "types::bounded::vec")]
    pub params: Vec<(String, String)>,
    /// Pools of OSTs, by name.
    #[serde(deserialize_with = "types::bounded::vec")]
    pub pools: Vec<PoolInfo>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MgsOp {
    /// A target starts serving. `name` may lack its index ("sheen-MDT", "sheen-OST"): the MGS gives
    /// the next one. `store`: UUID of the target's own store. Only the target and the MGS know it,
    /// so a stranger cannot take the name of a target.
    Register {
        /// Name of the target.
        name: String,
        /// UUID of the store of the target.
        store: u128,
        /// NIDs at which the target is reached, then those at which it may be served later.
        #[serde(deserialize_with = "types::bounded::vec")]
        nids: Vec<String>,
        /// Boot number of the target: the epoch of its owner.
        boot: u64,
        /// The epoch comes from a log that all owners share: a newer one proves that no older owner
        /// can write any more.
        shared: bool,
    },
    /// A target stops in order.
    Unregister {
        /// Name of the target.
        name: String,
        /// UUID of the store of the target.
        store: u128,
    },
    /// Configuration of a file system, at once if newer than `known`, else when it changes or after
    /// `wait_ms`.
    Config {
        /// Name of the file system.
        fsname: String,
        /// Version of the configuration that the sender has; 0: none.
        known: u64,
        /// Longest wait, milliseconds.
        wait_ms: u32,
    },
    /// Set (or with `None` remove) a persistent parameter; of every file system if `fsname` is `*`.
    SetParam {
        /// Name of the file system.
        fsname: String,
        /// Name of the parameter.
        name: String,
        /// The new value; `None`: the default again.
        value: Option<String>,
    },
    /// Clients known to the MGS (description, NID).
    Clients,
    /// Change a pool of OSTs.
    Pool {
        /// Name of the file system.
        fsname: String,
        /// Name of the pool.
        pool: String,
        /// What becomes of it.
        change: PoolChange,
    },
    /// How a process is; kept by the MGS until its session ends or the next one comes.
    Report(Box<NodeReport>),
    /// The newest report of every process.
    Reports,
    /// A target that will never come back leaves the configuration. `force`: even if it is in
    /// service; `dry_run`: only answer whether it could.
    Remove {
        /// Name of the target.
        name: String,
        /// Even if it is in service.
        force: bool,
        /// Only answer whether it could.
        dry_run: bool,
    },
    /// Change a nodemap.
    Nodemap(NodemapChange),
    /// All nodemaps, at once if newer than `known`, else when they change or after `wait_ms`.
    Nodemaps {
        /// Version of the nodemaps that the sender has; `None`: it has none.
        known: Option<u64>,
        /// Longest wait, milliseconds.
        wait_ms: u32,
    },
    /// Set (or with `None` remove) a parameter for a scope.
    SetScoped {
        /// For which processes.
        scope: Scope,
        /// Name of the parameter, or a pattern.
        name: String,
        /// The new value; `None`: forget it.
        value: Option<String>,
    },
    /// The parameters that are kept for scopes in which the sender is, at once if they are not
    /// those of `known`, else when they may have changed or after `wait_ms`.
    Scoped {
        /// Host of the sender.
        host: String,
        /// Those of all scopes; for administrators.
        all: bool,
        /// Version that the sender has; `None`: it has none.
        known: Option<ScopesVersion>,
        /// Longest wait, milliseconds.
        wait_ms: u32,
    },
    /// From an administrator: the target is, or will be, at these NIDs. It tells others itself when
    /// it registers next.
    ReplaceNids {
        /// Full name.
        name: String,
        /// All NIDs at which it may be served.
        #[serde(deserialize_with = "types::bounded::vec")]
        nids: Vec<String>,
    },
}

/// Version of what is kept for scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScopesVersion {
    /// Number of changes of parameters.
    pub params: u64,
    /// Number of changes of nodemaps.
    pub nodemaps: u64,
}

/// What an operation answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MgsReply {
    /// Done.
    Done,
    /// Registered under this full name, in this cluster. `key`: the [`types::proof::ServerKey`].
    Registered {
        /// Name of the target.
        name: String,
        /// UUID of the cluster.
        cluster: u128,
        /// Its boot number.
        boot: u64,
        /// Key of the servers.
        key: u128,
    },
    /// Configuration.
    Config(FsConfig),
    /// (description, NID) of each client.
    Clients(#[serde(deserialize_with = "types::bounded::vec")] Vec<(String, String)>),
    /// Kept. The next one is wanted in so many milliseconds.
    Reported {
        /// Time until the next report, milliseconds.
        again_ms: u32,
    },
    /// Reports, by process.
    Reports(#[serde(deserialize_with = "types::bounded::vec")] Vec<KeptReport>),
    /// All nodemaps.
    Nodemaps(Nodemaps),
    /// Parameters that are kept for scopes.
    Scoped {
        /// Of which version.
        version: ScopesVersion,
        /// The parameters; a later one counts more.
        #[serde(deserialize_with = "types::bounded::vec")]
        params: Vec<ScopedParam>,
    },
}
