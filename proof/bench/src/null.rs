//! The empty file system that the mount is compared with: the same transport, trivial answers, nothing stored.

use env::real::{RealConfig, RealEnv};
use fuse::mount::MountOptions;
use fuse::null::{NullConfig, NullFs};
use fuse::process::Processes;
use fuse::session::Session;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Serves until someone unmounts. Names and attributes are trusted for no time, as in a mount without locks.
pub fn serve(at: &Path) {
    // A session of its own, as `sheen up` has: the kernel's scheduler shares a busy machine out by session (autogroup), and
    // a daemon in the benchmark's own would be served twice as well. It fails for who leads a session already: fine.
    // SAFETY: setsid has no preconditions.
    unsafe { libc::setsid() };
    let (env, guard) = RealEnv::start(RealConfig::default()).expect("threads");
    let config = NullConfig { valid: Duration::ZERO, ..NullConfig::default() };
    let fs = Arc::new(NullFs::new(env.clone(), config));
    let options = MountOptions { source: "null".to_owned(), ..MountOptions::default() };
    let session = Session::mount(&env, fs, Arc::new(Processes::default()), at, &options).expect("mounts");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(session.ended());
    session.unmount().expect("the kernel has let go");
    drop(guard);
}
