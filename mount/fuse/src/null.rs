//! An empty file system in memory: what the transport costs by itself.
//!
//! Benchmarks put it beside the real one, on the same threads and the same INIT. It answers
//! everything in place, under one lock, and checks nothing that the kernel checks (permissions,
//! types). Data beyond `kept_bytes_max` per file is counted, dropped, and read back as zeros. Names
//! are listed in the order of their making.

mod answer;
mod tree;

use crate::decode::Request;
use crate::filesystem::{Answer, FileSystem};
use env::Env;
use parking_lot::Mutex;
use std::time::Duration;
use tree::Tree;

/// Settings of a [`NullFs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NullConfig {
    /// How long the kernel may trust names and attributes without asking.
    pub valid: Duration,
    /// Data kept of each file, bytes from its start.
    pub kept_bytes_max: usize,
}

impl Default for NullConfig {
    /// Asked each time, keeping nothing.
    fn default() -> NullConfig {
        NullConfig { valid: Duration::ZERO, kept_bytes_max: 0 }
    }
}

/// The empty file system.
pub struct NullFs {
    env: Env,
    config: NullConfig,
    tree: Mutex<Tree>,
}

impl NullFs {
    /// A file system with an empty root directory.
    pub fn new(env: Env, config: NullConfig) -> NullFs {
        let tree = Mutex::new(Tree::new(env.clock.wall(), config.kept_bytes_max));
        NullFs { env, config, tree }
    }

    /// Inodes that exist, the root included.
    pub fn nodes(&self) -> usize {
        self.tree.lock().len()
    }
}

impl FileSystem for NullFs {
    fn call(&self, request: &Request<'_>) -> Answer {
        let now = self.env.clock.wall();
        answer::answer(&mut self.tree.lock(), &self.config, now, request).into()
    }
}
