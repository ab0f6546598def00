//! The processes that serve targets, as far as they registered them since the MGS started.

use parking_lot::Mutex;
use rpc::service::Export;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use types::target::TargetName;

/// The session over which each target was registered last: at most `TARGETS_MAX` of each kind.
#[derive(Default)]
pub(crate) struct Owners {
    sessions: Mutex<BTreeMap<String, Weak<Export>>>,
}

impl Owners {
    /// A target was registered over this session.
    pub(crate) fn note(&self, target: TargetName, export: &Arc<Export>) {
        self.sessions.lock().insert(target.to_string(), Arc::downgrade(export));
    }

    /// True if another process registered the target last, and is connected.
    pub(crate) fn has_other(&self, target: &str, export: &Export) -> bool {
        let owner = self.sessions.lock().get(target).and_then(Weak::upgrade);
        owner.is_some_and(|owner| owner.client() != export.client() && owner.is_connected())
    }
}
