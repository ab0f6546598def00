//! Cost of locks, counted: how long callbacks take, how long changes wait for them, and the clients
//! evicted for them.
//!
//! The series are those of [`observe::registry`], named as in Lustre's parameter tree:
//! `ldlm.namespaces.mdt-<target>`.

use env::clock::Monotonic;
use observe::counter::Counter;
use observe::histogram::Histogram;
use observe::metric::{Metric, Unit};
use observe::registry::Registry;
use std::sync::Arc;
use types::target::TargetName;

const CALLBACK: Metric = Metric {
    name: "callback_time",
    unit: Unit::Microseconds,
    help: "Time from asking a client to its answer, or to the end of its session.",
};
const WAIT: Metric = Metric {
    name: "revoke_wait",
    unit: Unit::Microseconds,
    help: "Time that an operation waited until nobody held what it changes, or until its turn for a lock.",
};
const EVICTIONS: Metric = Metric {
    name: "evictions",
    unit: Unit::Requests,
    help: "Clients evicted because they did not answer a callback.",
};

const EXTENTS_GRANTED: Metric = Metric {
    name: "extents_granted",
    unit: Unit::Requests,
    help: "Requests that were answered with an extent of a file, for several clients work with it at once.",
};
const EXTENTS_REVOKED: Metric = Metric {
    name: "extents_revoked",
    unit: Unit::Requests,
    help: "Extents of files that were called back, for others or to give the whole file back.",
};
const GAPS_GRANTED: Metric = Metric {
    name: "gaps_granted",
    unit: Unit::Requests,
    help: "Lookups in busy directories that found nothing and were answered with a range of names that are not there.",
};
const GAPS_REVOKED: Metric = Metric {
    name: "gaps_revoked",
    unit: Unit::Requests,
    help: "Directories of which such ranges were called back from a client, mostly for a name that another one made there.",
};

const COMMITS_AWAITED: Metric = Metric {
    name: "commits_awaited",
    unit: Unit::Requests,
    help: "Answers that waited because they show changes of other clients that are not durable, and more than the \
           reader could bring back.",
};

const REDO_OF_OTHERS: Metric = Metric {
    name: "redo_of_others",
    unit: Unit::Requests,
    help: "Changes of other clients that answers brought along, because they show them and they are not durable.",
};

/// The series of one MDT. Nothing is counted before [`LockStats::of`] was given a registry.
pub(crate) struct LockStats {
    pub(crate) callback: Arc<Histogram>,
    pub(crate) wait: Arc<Histogram>,
    pub(crate) evictions: Arc<Counter>,
    pub(crate) extents_granted: Arc<Counter>,
    pub(crate) extents_revoked: Arc<Counter>,
    pub(crate) gaps_granted: Arc<Counter>,
    pub(crate) gaps_revoked: Arc<Counter>,
    pub(crate) commits_awaited: Arc<Counter>,
    pub(crate) redo_of_others: Arc<Counter>,
}

impl LockStats {
    pub(crate) fn of(registry: &Registry, target: TargetName) -> LockStats {
        let source = format!("ldlm.namespaces.mdt-{target}");
        LockStats {
            callback: registry.histogram(CALLBACK, &source),
            wait: registry.histogram(WAIT, &source),
            evictions: registry.counter(EVICTIONS, &source),
            extents_granted: registry.counter(EXTENTS_GRANTED, &source),
            extents_revoked: registry.counter(EXTENTS_REVOKED, &source),
            gaps_granted: registry.counter(GAPS_GRANTED, &source),
            gaps_revoked: registry.counter(GAPS_REVOKED, &source),
            commits_awaited: registry.counter(COMMITS_AWAITED, &source),
            redo_of_others: registry.counter(REDO_OF_OTHERS, &source),
        }
    }
}

/// Microseconds between.
pub(crate) fn micros(from: Monotonic, to: Monotonic) -> u64 {
    u64::try_from(to.saturating_sub(from).as_micros()).unwrap_or(u64::MAX)
}
