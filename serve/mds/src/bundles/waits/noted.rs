//! What is noted of these waits.

use env::clock::Monotonic;
use std::collections::BTreeMap;
use types::bundle::BundleId;
use types::target::TargetIndex;

/// All that is noted.
#[derive(Default)]
pub(crate) struct Waits {
    /// Operations that another MDT makes begin anew, by cause ([`observe::cause`]): since when.
    pub(super) hindered: BTreeMap<u64, (TargetIndex, Monotonic)>,
    /// Operations that wait for a bundle to let go, by a number of their own: cause, since when.
    pub(super) pinned: BTreeMap<u64, (BundleId, u64, Monotonic)>,
}
