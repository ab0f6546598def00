//! A real mount of the empty file system with trapdoors, taken away again however a test ends.

use env::Env;
use env::real::{RealConfig, RealEnv, RealGuard};
use fuse::decode::{Operation, Request};
use fuse::filesystem::{Answer, FileSystem};
use fuse::mount::MountOptions;
use fuse::null::{NullConfig, NullFs};
use fuse::process::Processes;
use fuse::reply::Reply;
use fuse::session::Session;
use parking_lot::Mutex;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::sync::Notify;
use types::credentials::Credentials;
use types::errno::Errno;

/// False, with the reason printed, where nothing can be mounted.
pub fn can_mount() -> bool {
    let reason = if !rustix::process::geteuid().is_root() {
        "not root"
    } else if let Err(error) = fuse::device::Device::open() {
        &format!("/dev/fuse: {error}")
    } else {
        return true;
    };
    println!("SKIPPED: {reason}");
    false
}

/// The empty file system, but: looking up "hang" waits until `release`, "slow" sleeps on the
/// reactor, "panic" panics; SETLKW waits until cancelled.
pub struct Trapdoors {
    null: NullFs,
    env: Env,
    release: Arc<Notify>,
    cancelled: Arc<Notify>,
    processes: Arc<Processes>,
    /// The last caller that asked for the name "whoami".
    pub caller: Mutex<Option<Credentials>>,
    /// LOOKUPs seen.
    pub lookups: AtomicUsize,
    /// READs seen.
    pub reads: AtomicUsize,
    /// Lock waits that were cancelled.
    pub cancels: Arc<AtomicUsize>,
}

impl FileSystem for Trapdoors {
    fn call(&self, request: &Request<'_>) -> Answer {
        match request.operation {
            Operation::Lookup { name } => {
                self.lookups.fetch_add(1, Ordering::SeqCst);
                match name {
                    b"hang" => {
                        let release = self.release.clone();
                        return Answer::Pending(Box::pin(async move {
                            release.notified().await;
                            Err(Errno::ENODATA)
                        }));
                    }
                    b"slow" => {
                        let sleep = self.env.clock.sleep(Duration::from_millis(100));
                        return Answer::Pending(Box::pin(async move {
                            sleep.await;
                            Err(Errno::ENODATA)
                        }));
                    }
                    b"whoami" => {
                        let header = &request.header;
                        let who = self.processes.credentials(
                            header.uid,
                            header.gid,
                            header.pid,
                            request.extra_group,
                        );
                        *self.caller.lock() = Some(who);
                    }
                    b"panic" => panic!("as asked by the test"),
                    _ => {}
                }
            }
            Operation::Read { .. } => {
                self.reads.fetch_add(1, Ordering::SeqCst);
            }
            Operation::Setlk { wait: true, .. } => {
                let (cancelled, cancel) = (self.cancelled.clone(), self.cancelled.clone());
                let cancels = self.cancels.clone();
                return Answer::Cancellable {
                    wait: Box::pin(async move {
                        cancelled.notified().await;
                        Err(Errno::EINTR)
                    }),
                    cancel: Box::pin(async move {
                        cancels.fetch_add(1, Ordering::SeqCst);
                        cancel.notify_one();
                    }),
                };
            }
            Operation::Setlk { wait: false, .. } => return Ok(Reply::Done).into(),
            _ => {}
        }
        self.null.call(request)
    }
}

/// A mounted file system in a directory of its own.
pub struct Mounted {
    session: Option<Session>,
    /// The file system behind.
    pub fs: Arc<Trapdoors>,
    _guard: RealGuard,
    /// The directory.
    pub path: PathBuf,
    _dir: TempDir,
}

impl Mounted {
    pub fn new(config: NullConfig) -> Mounted {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mnt");
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let (env, guard) = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 2 }).unwrap();
        let processes = Arc::new(Processes::default());
        let fs = Arc::new(Trapdoors {
            null: NullFs::new(env.clone(), config),
            env: env.clone(),
            processes: processes.clone(),
            caller: Mutex::new(None),
            release: Arc::new(Notify::new()),
            cancelled: Arc::new(Notify::new()),
            lookups: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
            cancels: Arc::new(AtomicUsize::new(0)),
        });
        let options = MountOptions { source: "test".to_owned(), ..MountOptions::default() };
        let session = Session::mount(&env, fs.clone(), processes, &path, &options).unwrap();
        Mounted { session: Some(session), fs, _guard: guard, path, _dir: dir }
    }

    pub fn session(&self) -> &Session {
        self.session.as_ref().unwrap()
    }

    pub fn release(&self) {
        self.fs.release.notify_waiters();
    }

    pub fn unmount(&mut self) {
        self.session.take().unwrap().unmount().unwrap();
        assert!(!is_mounted(&self.path));
    }

    /// Runs a future to its end on this thread.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    pub fn wait_for_waiting(&self, count: usize) {
        eventually("a request waits", || self.session().waiting().list().len() == count);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Requests that hang in a trapdoor are released first; then the session unmounts itself.
        self.release();
        drop(self.session.take());
        lazy_umount(&self.path);
    }
}

pub fn is_mounted(path: &Path) -> bool {
    !mountinfo::ours_at(&fuse::mount::resolve(path).unwrap()).unwrap().is_empty()
}

/// For what a failed test leaves.
pub fn lazy_umount(path: &Path) {
    while is_mounted(path) {
        rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

pub fn eventually(what: &str, mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !reached() {
        assert!(Instant::now() < deadline, "not reached: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// SIGUSR1 does nothing but interrupt system calls, without restarting them.
pub fn install_harmless_signal() {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    extern "C" fn nothing(_: libc::c_int) {}
    if INSTALLED.swap(true, Ordering::SeqCst) {
        return;
    }
    // SAFETY: an all-zero sigaction is valid; the handler is async-signal-safe, it does nothing;
    // flags have no SA_RESTART.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
}

/// Sends SIGUSR1 to one thread of this process.
pub fn signal_thread(tid: i32) {
    // SAFETY: tgkill takes numbers only.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, libc::SIGUSR1) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

pub fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}
