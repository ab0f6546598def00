//! How tests begin and end that kill servers and clients.

use crate::can_mount;
use crate::many::{Client, Many};
use std::path::PathBuf;
use tempfile::TempDir;

/// A file system with clients on hosts of their own, and the choices of one run.
pub struct Kills<const CLIENTS: usize = 2> {
    /// How many times something is to be killed.
    pub count: u64,
    /// Repeats the choices.
    pub seed: u64,
    /// The choices.
    pub rng: fastrand::Rng,
    /// Mount points of the clients.
    pub mounts: [PathBuf; CLIENTS],
    /// The processes. They end before the folder goes.
    pub many: Many,
    /// The run's own folder.
    pub dir: TempDir,
}

impl Kills {
    /// Starts everything. `KILLS` in the environment says how many kills there are (else `usual`),
    /// `KILLS_SEED` repeats the choices of an earlier run. `None` if this process may not mount, or
    /// cannot make network namespaces.
    pub fn up(usual: u64) -> Option<Kills> {
        Kills::up_with_mdts(usual, 1)
    }

    /// As [`Kills::up`], with so many MDS.
    pub fn up_with_mdts(usual: u64, mdts: usize) -> Option<Kills> {
        Kills::up_with_clients(usual, mdts)
    }

    /// Prints the figures of a run, and writes them to the file that `KILLS_REPORT` in the
    /// environment names.
    pub fn report(figures: &str) {
        println!("{figures}");
        if let Some(path) = std::env::var_os("KILLS_REPORT") {
            std::fs::write(&path, figures).expect("write the figures");
        }
    }
}

impl<const CLIENTS: usize> Kills<CLIENTS> {
    /// As [`Kills::up_with_mdts`], with 1 to 4 clients.
    pub fn up_with_clients(usual: u64, mdts: usize) -> Option<Kills<CLIENTS>> {
        if !can_mount() {
            return None;
        }
        let number = |name: &str, usual: u64| {
            std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
        };
        let (count, seed) = (number("KILLS", usual), number("KILLS_SEED", fastrand::u64(..)));
        println!("KILLS_SEED={seed}");
        let dir = tempfile::Builder::new().prefix("sheen-e2e-").tempdir().expect("a folder");
        let mounts = std::array::from_fn(|n| dir.path().join(format!("mnt{n}")));
        let clients = mounts
            .iter()
            .map(|mount: &PathBuf| Client { mount: mount.clone(), options: String::new() });
        let many = Many::up_with_mdts(&dir.path().join("fs"), clients.collect(), "2", mdts)?;
        Some(Kills { count, seed, rng: fastrand::Rng::with_seed(seed), mounts, many, dir })
    }
}
