//! Bounds of the transport, each with its unit and its reason.

use std::time::Duration;

/// Requests handed to reactors and not yet answered. Beyond it the FUSE threads wait, and so do the
/// callers.
pub const PENDING_REQUESTS_MAX: usize = 4096;
/// Blocked waits for file locks. They count apart: if they filled the table above, the unlock that
/// ends them could not be read. Beyond it a wait fails with ENOLCK.
pub const PENDING_LOCK_WAITS_MAX: usize = 65_536;
/// INTERRUPTs remembered whose request is not (yet) known.
pub const EARLY_INTERRUPTS_MAX: usize = 1024;
/// Notifications queued for the kernel; beyond it senders wait.
pub const NOTIFICATIONS_MAX: usize = 4096;
/// Node ids in one PRUNE (the kernel takes a page of them at once).
pub const PRUNE_NODES_MAX: usize = 400;
/// Idle request buffers kept for reuse.
pub const IDLE_BUFFERS_MAX: usize = 32;
/// Open `/proc/<tid>/status` files kept (supplementary groups of callers); callers whose job is
/// kept.
pub const STATUS_FILES_MAX: usize = 256;
/// Pieces of one READ reply that go out unmerged (below the kernel's limit of 1024 per `writev`).
pub const REPLY_PIECES_MAX: usize = 512;
/// Bytes of an answer to READDIRPLUS behind the beginning of a directory: some 600 entries. The
/// kernel makes their inodes in one go, 1.5 us each, and a kernel that does not preempt itself
/// keeps the processor from all other programs meanwhile: 9 ms for an answer of 1 MiB.
pub const LISTED_ON_BYTES_MAX: u32 = 96 << 10;
/// Interval at which a request that got a signal checks whether the signal kills its caller.
pub const FATAL_SIGNAL_INTERVAL: Duration = Duration::from_millis(100);
/// After a cancelled lock wait: how long the server may take to say so.
pub const LOCK_CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// Unmount: how long users of a busy, detached mount may go on before the connection is cut.
pub const DETACHED_GRACE: Duration = Duration::from_secs(3);
/// Unmount: how long threads may take to end once the connection is cut.
pub const THREADS_END_MAX: Duration = Duration::from_secs(10);
/// Time that a mount may take to show that it is alive, before another takes its place.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
