//! One mount, from mount(2) to the end of its last thread.
//!
//! Threads: `threads` times "fuse" (serve requests) and three "fuse-notify", all started here
//! through the environment and counted by a gate, which [`Session::unmount`] waits for. They end
//! when the kernel says that the mount is gone (ENODEV). The order of an unmount: umount (a busy
//! mount is detached and gets a moment), cut the connection if needed, threads end, waiting
//! requests are stopped, done.

use crate::abi::inbound::InHeader;
use crate::abi::outbound::{InitOut, OutHeader};
use crate::buffer::Pool;
use crate::decode::{self, Dialect, Operation};
use crate::device::{Device, Received};
use crate::dispatch::Dispatch;
use crate::filesystem::FileSystem;
use crate::init::{self, Agreed, MAX_WRITE, Negotiation};
use crate::interrupt::Waiting;
use crate::limits::{DETACHED_GRACE, THREADS_END_MAX};
use crate::mount::{self, MountError, MountOptions};
use crate::notify::{self, Notifier};
use crate::notify_apart::Apart;
use crate::process::{self, Processes};
use env::Env;
use parking_lot::{Condvar, Mutex};
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use zerocopy::IntoBytes;

/// Requests are at most this long: the kernel adds headers to a WRITE.
const MESSAGE_BYTES_MAX: usize = MAX_WRITE as usize + 4096;

/// A mounted file system. Dropping it unmounts.
pub struct Session {
    path: PathBuf,
    device_number: (u32, u32),
    agreed: Agreed,
    notifier: Option<Notifier>,
    apart: Apart,
    waiting: Arc<Waiting>,
    gate: Arc<Gate>,
    ended: watch::Receiver<bool>,
    done: bool,
}

impl Session {
    /// Mounts `fs` at `path` and serves it. Blocks shortly; root only. A dead mount at `path` must
    /// have been cleared ([`crate::stale::clear_stale_mount`]).
    ///
    /// # Errors
    /// [`MountError`]; nothing stays mounted then.
    pub fn mount<F: FileSystem>(
        env: &Env,
        fs: Arc<F>,
        processes: Arc<Processes>,
        path: &Path,
        options: &MountOptions,
    ) -> Result<Session, MountError> {
        let path = mount::resolve(path)?;
        check_mount_point(&path)?;
        let device = Arc::new(Device::open().map_err(MountError::Device)?);
        mount::mount(&device, &path, options)?;
        let mut undo = Undo(Some(path.clone()));
        let agreed = converse(&device, options)?;
        let device_number = mount::device_number(&path)?;
        let channels = channels(&device, options)?;

        let waiting = Arc::new(Waiting::default());
        let (ended_send, ended) = watch::channel(false);
        let gate = Gate::new(ended_send, waiting.clone(), channels.len());
        let notifier = notify::start(&*env.tasks, &device, || {
            gate.enter();
            let gate = gate.clone();
            move || gate.leave(false)
        });
        let apart = Apart::new(Arc::downgrade(&device), env.tasks.clone(), env.clock.clone());
        let dispatch = Arc::new(Dispatch {
            fs,
            env: env.clone(),
            dialect: agreed.dialect(),
            waiting: waiting.clone(),
            processes,
            notifier: notifier.clone(),
            pool: Pool::new(MESSAGE_BYTES_MAX),
        });
        for channel in channels {
            gate.enter();
            let (dispatch, gate) = (dispatch.clone(), gate.clone());
            env.tasks.spawn_thread(
                "fuse",
                Box::new(move || {
                    let _leave = Leave(gate);
                    process::set_io_flusher();
                    dispatch.serve(&channel);
                    // Before the gate opens: with the last thread goes the file system.
                    drop((dispatch, channel));
                }),
            );
        }
        // It is a matter of speed only, so a refusal is no error.
        if let Err(error) = mount::set_read_ahead(device_number, options.read_ahead_kb.into()) {
            tracing::warn!(%error, "read-ahead stays small");
        }
        undo.0 = None;
        tracing::info!(path = %path.display(), minor = agreed.minor, flags = format_args!("{:#x}", agreed.flags), "mounted");
        let notifier = Some(notifier);
        Ok(Session {
            path,
            device_number,
            agreed,
            notifier,
            apart,
            waiting,
            gate,
            ended,
            done: false,
        })
    }

    /// Directory that it is mounted on.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Device number of the mount, as in `/sys/class/bdi`.
    pub fn device_number(&self) -> (u32, u32) {
        self.device_number
    }

    /// The agreement of kernel and daemon.
    pub fn agreed(&self) -> Agreed {
        self.agreed
    }

    /// Sends notifications to the kernel; they end with the session. `None` after its end.
    pub fn notifier(&self) -> Option<Notifier> {
        self.notifier.clone()
    }

    /// Sends notifications to the kernel about pages that a write of this mount may hold.
    pub fn apart(&self) -> Apart {
        self.apart.clone()
    }

    /// Requests that wait now: what an operation that hangs is doing. Lives as long as the session.
    pub fn waiting(&self) -> &Arc<Waiting> {
        &self.waiting
    }

    /// Ready when the mount has ended, be it by [`Session::unmount`] or by umount(8).
    pub fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut ended = self.ended.clone();
        async move {
            // An error means that the sender is gone, and so is the mount.
            let _ = ended.wait_for(|ended| *ended).await;
        }
    }

    /// Unmounts and waits for the threads. Blocks; do not call it on a reactor.
    ///
    /// # Errors
    /// The kernel refuses, or threads do not end in time.
    pub fn unmount(mut self) -> Result<(), MountError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), MountError> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(());
        }
        let ended = *self.ended.borrow();
        let detached = if ended { false } else { mount::unmount(&self.path)? };
        if !ended && !self.gate.serving_ended(DETACHED_GRACE) {
            tracing::warn!(path = %self.path.display(), detached, "still in use after unmounting: cutting it off");
            if let Err(error) = mount::abort(self.device_number) {
                tracing::warn!(%error, "cannot cut the connection");
            }
        }
        self.waiting.end();
        if let Some(notifier) = self.notifier.take() {
            notifier.end();
        }
        let drained = self.waiting.drained(THREADS_END_MAX);
        let threads = self.gate.wait(THREADS_END_MAX);
        if threads > 0 || !drained {
            return Err(MountError::ThreadsRemain { path: self.path.clone(), threads });
        }
        tracing::info!(path = %self.path.display(), "unmounted");
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tracing::error!(%error, "mount dropped");
        }
    }
}

/// The last moment at which it may be looked at.
fn check_mount_point(path: &Path) -> Result<(), MountError> {
    let reason = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => return Ok(()),
        Ok(_) => "is no directory".to_owned(),
        Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => {
            "holds a mount whose daemon died".to_owned()
        }
        Err(error) => error.to_string(),
    };
    Err(MountError::MountPoint { path: path.to_owned(), reason })
}

/// Takes a half-made mount away again.
struct Undo(Option<PathBuf>);

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some(path) = &self.0
            && let Err(error) = mount::unmount(path)
        {
            tracing::error!(%error, "cannot undo the mount");
        }
    }
}

/// INIT: the kernel speaks first.
fn converse(device: &Device, options: &MountOptions) -> Result<Agreed, MountError> {
    let wrong = |what: String| MountError::Init(what);
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    loop {
        let bytes = match device.receive(&mut buffer).map_err(|error| wrong(error.to_string()))? {
            Received::Message(bytes) => bytes,
            Received::Again => continue,
            Received::Ended => return Err(wrong("the mount ended at once".to_owned())),
        };
        let request = decode::request(&buffer[..bytes], Dialect::default())
            .map_err(|bad| wrong(bad.to_string()))?;
        let Operation::Init { init: asked, flags2 } = request.operation else {
            return Err(wrong(format!("{} before INIT", request.opcode.name())));
        };
        match init::negotiate(&asked, flags2, options.posix_acl, options.locks) {
            Negotiation::Agreed(out, agreed) => {
                answer_init(device, &request.header, Ok(out))?;
                return Ok(agreed);
            }
            Negotiation::Again(out) => answer_init(device, &request.header, Ok(out))?,
            Negotiation::TooOld { major, minor } => {
                answer_init(device, &request.header, Err(libc::EPROTO))?;
                return Err(MountError::KernelTooOld { major, minor });
            }
        }
    }
}

fn answer_init(
    device: &Device,
    header: &InHeader,
    answer: Result<InitOut, i32>,
) -> Result<(), MountError> {
    let (error, body) = match &answer {
        Ok(out) => (0, out.as_bytes()),
        Err(errno) => (-errno, &[][..]),
    };
    let len = size_of::<OutHeader>() + body.len();
    let head = OutHeader { len: len as u32, error, unique: header.unique };
    device
        .write(&[IoSlice::new(head.as_bytes()), IoSlice::new(body)])
        .map_err(|error| MountError::Init(format!("reply: {error}")))
}

/// The descriptors to serve: the first one and its clones.
fn channels(device: &Arc<Device>, options: &MountOptions) -> Result<Vec<Arc<Device>>, MountError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let count = options.threads.unwrap_or(cores.max(2)).max(1);
    let mut channels = vec![device.clone()];
    for _ in 1..count {
        channels.push(Arc::new(device.try_clone().map_err(MountError::Device)?));
    }
    Ok(channels)
}

/// Counts the threads of a mount, and says when serving is over.
struct Gate {
    state: Mutex<Threads>,
    changed: Condvar,
    ended: watch::Sender<bool>,
    waiting: Arc<Waiting>,
}

#[derive(Debug)]
struct Threads {
    running: usize,
    serving: usize,
}

impl Gate {
    fn new(ended: watch::Sender<bool>, waiting: Arc<Waiting>, serving: usize) -> Arc<Gate> {
        let state = Mutex::new(Threads { running: 0, serving });
        Arc::new(Gate { state, changed: Condvar::new(), ended, waiting })
    }

    fn enter(&self) {
        self.state.lock().running += 1;
    }

    fn leave(&self, served: bool) {
        let mut state = self.state.lock();
        state.running -= 1;
        if served {
            state.serving -= 1;
            if state.serving == 0 {
                self.waiting.end();
                self.ended.send_replace(true);
            }
        }
        self.changed.notify_all();
    }

    /// Waits until no thread serves any more; false after `timeout`.
    fn serving_ended(&self, timeout: Duration) -> bool {
        self.until(timeout, |threads| threads.serving == 0)
    }

    /// Waits for all threads; how many still run after `timeout`.
    fn wait(&self, timeout: Duration) -> usize {
        self.until(timeout, |threads| threads.running == 0);
        self.state.lock().running
    }

    fn until(&self, timeout: Duration, reached: impl Fn(&Threads) -> bool) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, |threads| !reached(threads), timeout);
        reached(&state)
    }
}

/// Leaves the gate even if the thread panics.
struct Leave(Arc<Gate>);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.leave(true);
    }
}
