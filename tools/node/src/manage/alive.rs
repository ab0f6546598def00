//! The devices of this process, for the parameter tree. References are weak: showing keeps nothing
//! alive.

use client::client::Client;
use fuse::interrupt::Waiting;
use mds::mds::Mds;
use mgs::mgs::Mgs;
use observe::metric::{Metric, Unit};
use observe::registry::Registry;
use oss::ost::Ost;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use target::Target;
use types::target::TargetName;

/// A served target and its store.
type Served<T> = (Weak<T>, Weak<Target>);

/// A mount: its client, what of the kernel waits there, and where it is.
type Mounted = (Weak<Client>, Weak<Waiting>, PathBuf);

/// Roles that were started; those that ended are passed over.
#[derive(Default)]
pub struct Alive {
    mgs: Mutex<Vec<Served<Mgs>>>,
    mdts: Mutex<Vec<Served<Mds>>>,
    osts: Mutex<Vec<Served<Ost>>>,
    clients: Mutex<Vec<Weak<Client>>>,
    mounts: Mutex<Vec<Mounted>>,
}

fn living<T>(list: &Mutex<Vec<Served<T>>>) -> Vec<(Arc<T>, Arc<Target>)> {
    list.lock()
        .iter()
        .filter_map(|(service, target)| Some((service.upgrade()?, target.upgrade()?)))
        .collect()
}

fn add<T>(list: &Mutex<Vec<Served<T>>>, service: &Arc<T>, target: &Arc<Target>) {
    list.lock().push((Arc::downgrade(service), Arc::downgrade(target)));
}

const COMMIT: Metric = Metric {
    name: "commit",
    unit: Unit::Microseconds,
    help: "From the freezing of a group until it was durable.",
};
const COMMIT_BYTES: Metric =
    Metric { name: "commit_bytes", unit: Unit::Bytes, help: "Records of one commit." };

/// The store of a target, as the source of what it counts.
pub fn store_source(target: TargetName) -> String {
    format!("osd-lmdb.{target}")
}

/// Lists what a target's store counts.
pub fn list_commits(registry: &Registry, target: &Target) {
    let Some(name) = target.name() else { return };
    let (source, commits) = (store_source(name), target.store().commits());
    registry.attach(COMMIT, &source, commits.time.clone());
    registry.attach(COMMIT_BYTES, &source, commits.bytes.clone());
}

impl Alive {
    /// The MGS runs.
    pub fn add_mgs(&self, mgs: &Arc<Mgs>, target: &Arc<Target>) {
        add(&self.mgs, mgs, target);
    }

    /// An MDT runs.
    pub fn add_mdt(&self, mdt: &Arc<Mds>, target: &Arc<Target>) {
        add(&self.mdts, mdt, target);
    }

    /// An OST runs.
    pub fn add_ost(&self, ost: &Arc<Ost>, target: &Arc<Target>) {
        add(&self.osts, ost, target);
    }

    /// A mount is made.
    pub fn add_mount(&self, client: &Arc<Client>, waiting: &Arc<Waiting>, at: &Path) {
        self.clients.lock().push(Arc::downgrade(client));
        self.mounts.lock().push((Arc::downgrade(client), Arc::downgrade(waiting), at.to_owned()));
    }

    /// Mounts: client, requests of the kernel that wait, mount point.
    pub fn mounts(&self) -> Vec<(Arc<Client>, Arc<Waiting>, PathBuf)> {
        let living = |(client, waiting, at): &Mounted| {
            Some((client.upgrade()?, waiting.upgrade()?, at.clone()))
        };
        self.mounts.lock().iter().filter_map(living).collect()
    }

    /// The MGS.
    pub fn mgs(&self) -> Option<(Arc<Mgs>, Arc<Target>)> {
        living(&self.mgs).pop()
    }

    /// MDTs.
    pub fn mdts(&self) -> Vec<(Arc<Mds>, Arc<Target>)> {
        living(&self.mdts)
    }

    /// OSTs.
    pub fn osts(&self) -> Vec<(Arc<Ost>, Arc<Target>)> {
        living(&self.osts)
    }

    /// Mounts.
    pub fn clients(&self) -> Vec<Arc<Client>> {
        self.clients.lock().iter().filter_map(Weak::upgrade).collect()
    }
}
