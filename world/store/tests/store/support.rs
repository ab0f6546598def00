//! Shared by the tests: an environment, a way to wait, settings that make things happen often or
//! only when asked.

use env::Env;
use env::real::{RealConfig, RealEnv, RealGuard};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;
use store::engine::Engine;
use store::error::StoreError;
use store::journalled::{Journalled, JournalledOptions};
use store::store::{Store, StoreOptions};

pub const UUID: u128 = 0x1234_5678;
pub const NEVER: Duration = Duration::from_secs(3600);

pub fn real_env() -> (Env, RealGuard) {
    RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap()
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        std::thread::park();
    }
}

/// Commits only when asked.
pub fn quiet() -> StoreOptions {
    StoreOptions { commit_interval: NEVER, ..StoreOptions::default() }
}

/// A small journal that the tree never takes over unless it must.
pub fn lazy(journal_bytes: u64) -> JournalledOptions {
    JournalledOptions {
        journal_bytes,
        apply_interval: NEVER,
        apply_bytes: Some(u64::MAX),
        ..JournalledOptions::default()
    }
}

/// A small journal that the tree takes over all the time.
pub fn eager(journal_bytes: u64) -> JournalledOptions {
    JournalledOptions {
        journal_bytes,
        apply_interval: Duration::from_millis(1),
        apply_bytes: Some(1),
        ..JournalledOptions::default()
    }
}

pub fn open(env: &Env, dir: &Path, options: &JournalledOptions) -> Result<Arc<Store>, StoreError> {
    let engine: Arc<dyn Engine> = Journalled::open(env, dir, UUID, options.clone())?;
    Store::open(engine, env.clone(), quiet())
}

pub fn put(store: &Store, key: &[u8], value: &[u8]) -> u64 {
    let mut tx = store.begin();
    tx.put(key, value);
    tx.finish().0
}

pub fn all(store: &Store) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut records = Vec::new();
    let visit = |k: &[u8], v: &[u8]| {
        records.push((k.to_vec(), v.to_vec()));
        ControlFlow::Continue(())
    };
    store.begin().scan(b"", &[0xff; 8], visit).unwrap();
    records
}

/// A crash image: valid as long as no thread writes meanwhile.
pub fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
