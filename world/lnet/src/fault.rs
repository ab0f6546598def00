//! Rules that lose or delay frames on purpose (`lctl net_drop_add`, `net_delay_add`). None by default.

use parking_lot::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use types::nid::Nid;

/// What happens to a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It is not sent.
    Drop,
    /// It is sent this much later.
    Delay(Duration),
}

/// A rule for frames to one peer, or to all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Whom the frames are for; `None`: anybody.
    pub target: Option<Nid>,
    /// What happens to them.
    pub fault: Fault,
}

/// Rules at most; more are refused.
pub const RULES_MAX: usize = 256;

/// The rules of a node. The first that fits decides.
#[derive(Default)]
pub struct Faults {
    any: AtomicBool,
    rules: RwLock<Vec<Rule>>,
}

impl Faults {
    /// Adds a rule; `false` if there are [`RULES_MAX`] already.
    pub fn add(&self, rule: Rule) -> bool {
        let mut rules = self.rules.write();
        if rules.len() >= RULES_MAX {
            return false;
        }
        rules.push(rule);
        self.any.store(true, Ordering::Release);
        true
    }

    /// Removes all rules.
    pub fn clear(&self) {
        let mut rules = self.rules.write();
        rules.clear();
        self.any.store(false, Ordering::Release);
    }

    /// What happens to a frame for `target`; `None`: nothing.
    pub fn verdict(&self, target: Nid) -> Option<Fault> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        self.rules.read().iter().find(|rule| rule.target.is_none_or(|t| t == target)).map(|rule| rule.fault)
    }
}
