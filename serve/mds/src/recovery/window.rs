//! The recovery window of a started MDT: its state. `replay::recovery` decides.

use crate::background::tasks::Wake;
use bytes::Bytes;
use env::watch;
use parking_lot::Mutex;
pub use replay::recovery::Phase;
use replay::recovery::Recovery;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use types::principal::Claim;
use types::session::{ClientUuid, Transno};
use types::target::TargetIndex;

/// See the module.
pub(crate) struct Window {
    pub(super) machine: Mutex<Recovery<Bytes>>,
    pub(super) phase: watch::Sender<Phase>,
    open: AtomicBool,
    pub(super) changed: Wake,
    /// MDTs that are asked what was lost, and have not answered.
    pub(crate) mdts: Mutex<BTreeSet<TargetIndex>>,
    /// True: they are not waited for any longer.
    pub(crate) mdts_given_up: watch::Sender<bool>,
    /// Clients that went before their records could be removed.
    pub(super) leavers: Mutex<Vec<ClientUuid>>,
    /// Clients that are evicted once that is durable; until then they keep what they hold.
    pub(super) evicting: Mutex<BTreeSet<ClientUuid>>,
    /// Clients whose record is written.
    pub(super) sessions: Mutex<BTreeMap<ClientUuid, Recorded>>,
}

/// What the record of a client says.
#[derive(Clone)]
pub(super) struct Recorded {
    /// Transno of the record; 0: it is of an earlier life.
    pub(super) transno: Transno,
    pub(super) claim: Claim,
}

/// State of recovery, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecoveryReport {
    /// The phase.
    pub phase: Phase,
    /// Clients that are waited for, or came back.
    pub clients: usize,
    /// Number of them that were heard of.
    pub connected: usize,
    /// The phase ends at the latest after this time; 0: it waits for no client, or the time is
    /// unknown.
    pub left: Duration,
    /// MDTs that are waited for, ascending.
    pub mdts: Vec<TargetIndex>,
}

impl Window {
    /// Waits for these clients, and perhaps for other MDTs.
    pub(crate) fn new(
        expected: &[(ClientUuid, Claim)],
        mdts: bool,
        now: Duration,
        length: Duration,
    ) -> Window {
        let mut machine = Recovery::new(expected.iter().map(|(client, _)| *client), now, length);
        if mdts {
            machine.gather();
        }
        let recorded = |claim| Recorded { transno: Transno(0), claim };
        let phase = machine.phase();
        Window {
            machine: Mutex::new(machine),
            phase: watch::Sender::new(phase),
            open: AtomicBool::new(phase == Phase::Open),
            changed: Wake::default(),
            mdts: Mutex::default(),
            mdts_given_up: watch::Sender::new(false),
            leavers: Mutex::default(),
            evicting: Mutex::default(),
            sessions: Mutex::new(
                expected.iter().map(|(client, claim)| (*client, recorded(claim.clone()))).collect(),
            ),
        }
    }

    /// True if the MDT is in service.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.open.store(phase == Phase::Open, Ordering::Release);
        self.phase.send_replace(phase);
    }

    /// Sessions that ended wait no longer.
    pub(super) fn nudge(&self) {
        self.phase.send_modify(|_| {});
        self.changed.wake();
    }
}
