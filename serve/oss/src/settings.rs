//! Settings of an OST. Its size limit is set where its store is opened.

use std::time::Duration;
use types::limits::LEASE;

/// Settings of one OST.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OstSettings {
    /// Number of targets without a size limit that share this volume. Its free space is reported in
    /// equal shares, so that totals over all targets add up. At least 1.
    pub volume_sharers: u32,
    /// Age at which changes are synced without a request.
    pub flush_interval: Duration,
    /// Bytes of unsynced data at which everything is synced without a request. Clients keep as
    /// much, and three times as much before they wait (`replay::import::KEPT_DATA_BYTES_MAX`).
    pub flush_bytes: u64,
    /// How long an OST that may have lost changes waits for a client that brings none back. Shorter
    /// than a lease.
    pub recovery_window: Duration,
}

impl Default for OstSettings {
    fn default() -> OstSettings {
        // 5 s: what ext4's own commit interval is; sooner costs bandwidth, later holds clients'
        // copies longer.
        OstSettings {
            volume_sharers: 1,
            flush_interval: Duration::from_secs(5),
            flush_bytes: 32 << 20,
            recovery_window: LEASE * 5 / 6,
        }
    }
}
