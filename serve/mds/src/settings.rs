//! Settings of an MDT that an administrator may change.

mod admin;
mod admin_squash;
pub(crate) mod dom_limits;
pub(crate) mod ids;
mod read_only;
mod realm_check;
mod splits;
mod squash;
pub(crate) mod tunables;

use layout::stripe_spec::Defaults;
use std::time::Duration;
use types::limits::LEASE;

/// Settings of one MDT.
#[derive(Clone, Debug)]
pub struct MdsSettings {
    /// Stripes of a new file whose directory has no default layout.
    pub stripe_count: u16,
    /// Stripe size of such a file, bytes; a multiple of 64 KiB.
    pub stripe_size: u32,
    /// First bytes of such a file that live on the MDT; a multiple of 64 KiB, at most
    /// [`types::limits::DOM_BYTES_MAX`]. 0: none, and the rest has one component.
    pub dom_bytes: u64,
    /// Interval at which OSTs are asked for their space.
    pub space_interval: Duration,
    /// An OST that does not answer a background request for this long is taken to be away for now.
    pub answer_max: Duration,
    /// How long a write that needs objects waits if no OST can take one and some OSTs in use do not
    /// answer. Shorter than a client waits for its answer ([`types::limits::REQUEST_TIMEOUT`]).
    pub osts_return: Duration,
    /// First wait after an OST did not answer a background request; doubled up to `retry_max`.
    pub retry_min: Duration,
    /// Longest wait.
    pub retry_max: Duration,
    /// Time after a cut at which the MDT makes sure of the objects: by then the OSTs have synced
    /// them on their own.
    pub cut_after: Duration,
    /// A client that does not answer a callback for this long is evicted.
    pub callback_max: Duration,
    /// How long an OST is waited for, at least, that is to refuse an evicted client before others
    /// get what the client had.
    pub fence_wait: Duration,
    /// Time from the arrival of a reply until the client's kernel has surely read it: a machine may
    /// be busy.
    pub author_grace: Duration,
    /// Longest time for which names stay as they are for a client that is about to try again to
    /// change them: its kernel looks up two names, each twice at most. Short, because a kernel that
    /// ends the call at its second look tells nothing, and others wait for nothing then.
    pub names_held: Duration,
    /// Names of a directory that pass from one stripe to another in one bundle, at most.
    pub names_per_bundle: usize,
    /// Directories are split by themselves.
    pub auto_split: bool,
    /// A directory, or a stripe of one, with more names than this is split by itself.
    pub split_count: u32,
    /// One that was split by itself, has few names and was left alone for so many seconds is
    /// merged; 0: none is.
    pub merge_idle: u32,
    /// Into so many times as many stripes.
    pub split_delta: u16,
    /// Time in which living clients come back after the MDT started: until then none of their files
    /// is cut.
    pub clients_return: Duration,
    /// How long a started MDT waits for the clients of its previous life, in each of two phases. It
    /// is not shorter than the time for which clients trust an MDT that they do not hear of, and
    /// shorter than [`LEASE`], because they do not ping meanwhile.
    pub recovery_window: Duration,
}

impl Default for MdsSettings {
    fn default() -> MdsSettings {
        let defaults = Defaults::default();
        MdsSettings {
            stripe_count: defaults.stripe_count,
            stripe_size: defaults.stripe_size,
            dom_bytes: 0,
            space_interval: Duration::from_secs(5),
            answer_max: Duration::from_secs(10),
            osts_return: Duration::from_secs(60),
            retry_min: Duration::from_millis(100),
            retry_max: Duration::from_secs(10),
            cut_after: Duration::from_secs(10),
            callback_max: LEASE,
            fence_wait: LEASE / 6,
            author_grace: Duration::from_millis(500),
            names_held: Duration::from_millis(100),
            names_per_bundle: 256,
            auto_split: true,
            split_count: 50_000,
            merge_idle: 3600,
            split_delta: 4,
            clients_return: LEASE,
            recovery_window: LEASE * 5 / 6,
        }
    }
}

impl MdsSettings {
    /// Tiny intervals, so that tests wait little.
    pub fn for_tests() -> MdsSettings {
        MdsSettings {
            space_interval: Duration::from_millis(20),
            answer_max: Duration::from_millis(100),
            osts_return: Duration::from_millis(200),
            retry_min: Duration::from_millis(2),
            retry_max: Duration::from_millis(20),
            cut_after: Duration::from_millis(10),
            clients_return: Duration::from_millis(50),
            callback_max: Duration::from_millis(500),
            fence_wait: Duration::from_millis(100),
            author_grace: Duration::ZERO,
            // No test waits for its end.
            names_held: Duration::from_secs(30),
            recovery_window: Duration::from_millis(500),
            ..MdsSettings::default()
        }
    }
}
