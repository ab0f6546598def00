//! A restarted target: the clients that it waits for, the changes that it redoes, and the moment it
//! opens.
//!
//! *Gathering*: every client that had a session brings the changes of which it had a reply and that
//! may be lost. When all have, or the window ends, the changes are redone in the order of their
//! transnos, whichever client brought them. *Restoring*: the clients that came bring back opens and
//! locks. *Open*: service.
//!
//! No other client's request runs before that, and a client that did not come is evicted. With no
//! client to wait for, the target is open at once.
//!
//! **Invariant:** a change is redone only if its sender is waited for. Bound:
//! [`GATHERED_BYTES_MAX`].

use std::collections::BTreeMap;
use std::time::Duration;
use types::limits::GROUP_BYTES_HARD;
use types::session::{ClientUuid, Transno};

/// Bytes of changes that all clients together may bring: more than a target leaves uncommitted.
pub const GATHERED_BYTES_MAX: usize = 4 * GROUP_BYTES_HARD;

/// Phases of recovery.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// Changes are being brought.
    Gathering,
    /// The changes are being redone.
    Applying,
    /// Opens and locks are being brought.
    Restoring,
    /// In service.
    Open,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Progress {
    /// Not heard of since the restart.
    Absent,
    Replaying,
    Replayed,
    Restored,
}

/// A change that a client brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gathered<T> {
    /// The transno that it had.
    pub transno: Transno,
    /// The client that brought it.
    pub client: ClientUuid,
    /// The change.
    pub change: T,
}

/// What the caller must do next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecoveryAction<T> {
    /// Redo these, in this order; then [`Recovery::applied`]. The clients did not come and are
    /// evicted.
    Apply {
        /// The changes that were brought.
        changes: Vec<Gathered<T>>,
        /// The clients that are evicted.
        late: Vec<ClientUuid>,
    },
    /// Open for service. The clients did not bring back opens and locks and are evicted.
    Open {
        /// The clients that are evicted.
        late: Vec<ClientUuid>,
    },
}

/// Why a change is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// This client is not waited for.
    Stranger,
    /// More than [`GATHERED_BYTES_MAX`].
    TooMuch,
}

/// See the module.
#[derive(Debug)]
pub struct Recovery<T> {
    phase: Phase,
    clients: BTreeMap<ClientUuid, Progress>,
    gathered: BTreeMap<(Transno, ClientUuid), T>,
    bytes: usize,
    window: Duration,
    /// End of this phase at the latest, on the owner's clock.
    deadline: Duration,
    /// Clients that have not come are not waited for.
    aborted: bool,
}

impl<T: Clone> Recovery<T> {
    /// A target that starts at `now` and waits for these clients, for at most `window` in each of
    /// two phases.
    pub fn new(
        expected: impl IntoIterator<Item = ClientUuid>,
        now: Duration,
        window: Duration,
    ) -> Recovery<T> {
        let clients: BTreeMap<_, _> =
            expected.into_iter().map(|client| (client, Progress::Absent)).collect();
        let phase = if clients.is_empty() { Phase::Open } else { Phase::Gathering };
        Recovery {
            phase,
            clients,
            gathered: BTreeMap::new(),
            bytes: 0,
            window,
            deadline: now + window,
            aborted: false,
        }
    }

    /// The target has more to gather than from its clients: it is not open at once without any.
    pub fn gather(&mut self) {
        self.phase = Phase::Gathering;
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Number of clients that are waited for, and how many of them have come.
    pub fn clients(&self) -> (usize, usize) {
        (self.clients.len(), self.clients.values().filter(|p| **p > Progress::Absent).count())
    }

    /// The time at which [`Recovery::next`] must be asked even if nothing happens. `None`: only
    /// after events.
    pub fn deadline(&self) -> Option<Duration> {
        matches!(self.phase, Phase::Gathering | Phase::Restoring).then_some(self.deadline)
    }

    /// A client connects. True if it is waited for.
    pub fn connected(&mut self, client: ClientUuid) -> bool {
        if self.phase == Phase::Open {
            return false;
        }
        let Some(progress) = self.clients.get_mut(&client) else { return false };
        if self.phase == Phase::Gathering {
            // The client begins again, with the same changes as before.
            *progress = Progress::Replaying;
        } else {
            *progress = (*progress).min(Progress::Replayed);
        }
        true
    }

    /// A client brings a change. A change that any client brought before is the same, and is kept
    /// once.
    ///
    /// # Errors
    /// [`Refused`]; its sender cannot be recovered then.
    pub fn replay(
        &mut self,
        client: ClientUuid,
        transno: Transno,
        change: T,
        bytes: usize,
    ) -> Result<(), Refused> {
        match self.phase {
            Phase::Gathering => {}
            // The change came in an earlier attempt, before this phase.
            Phase::Applying | Phase::Restoring if self.clients.contains_key(&client) => {
                return Ok(());
            }
            _ => return Err(Refused::Stranger),
        }
        if self.clients.get(&client).is_none_or(|progress| *progress == Progress::Absent) {
            return Err(Refused::Stranger);
        }
        let same =
            self.gathered.range((transno, ClientUuid(0))..=(transno, ClientUuid(u128::MAX))).next();
        let (change, bytes) = same.map_or((change, bytes), |(_, same)| (same.clone(), 0));
        if self.bytes + bytes > GATHERED_BYTES_MAX {
            return Err(Refused::TooMuch);
        }
        self.bytes += bytes;
        self.gathered.insert((transno, client), change);
        Ok(())
    }

    /// A client has brought all its changes. `false`: it is not waited for.
    pub fn replayed(&mut self, client: ClientUuid) -> bool {
        self.advance(client, Progress::Replayed)
    }

    /// A client has brought back opens and locks. `false`: it is not waited for.
    pub fn restored(&mut self, client: ClientUuid) -> bool {
        self.phase >= Phase::Restoring && self.advance(client, Progress::Restored)
    }

    fn advance(&mut self, client: ClientUuid, to: Progress) -> bool {
        match self.clients.get_mut(&client) {
            Some(progress) if *progress > Progress::Absent => {
                *progress = (*progress).max(to);
                true
            }
            _ => false,
        }
    }

    /// A client went, in order or evicted: it is not waited for, and none of its changes is redone.
    pub fn gone(&mut self, client: ClientUuid) {
        self.clients.remove(&client);
        if self.phase == Phase::Gathering {
            self.gathered.retain(|(_, sender), _| *sender != client);
        }
    }

    /// Waits no longer for clients that have not come (`abort_recovery`). Those that have come keep
    /// their window, unless nothing else was left to stop: then this phase ends at once.
    pub fn abort(&mut self) {
        let absent = |progress: &Progress| *progress == Progress::Absent;
        if !self.aborted && self.clients.values().any(absent) {
            self.aborted = true;
        } else {
            self.deadline = Duration::ZERO;
        }
    }

    /// The changes of [`RecoveryAction::Apply`] are done; those of `refused` did not fit.
    pub fn applied(&mut self, refused: &[ClientUuid], now: Duration) {
        if self.phase == Phase::Applying {
            self.clients.retain(|client, _| !refused.contains(client));
            self.phase = Phase::Restoring;
            self.deadline = now + self.window;
        }
    }

    /// What the caller must do now, if anything.
    pub fn next(&mut self, now: Duration) -> Option<RecoveryAction<T>> {
        let wanted = match self.phase {
            Phase::Gathering => Progress::Replayed,
            Phase::Restoring => Progress::Restored,
            Phase::Applying | Phase::Open => return None,
        };
        let is_late = |progress: &Progress| *progress < wanted;
        let may_come = |progress: &Progress| *progress > Progress::Absent || !self.aborted;
        if now < self.deadline && self.clients.values().any(|p| is_late(p) && may_come(p)) {
            return None;
        }
        let late: Vec<ClientUuid> =
            self.clients.iter().filter(|(_, p)| is_late(p)).map(|(client, _)| *client).collect();
        self.clients.retain(|client, _| !late.contains(client));
        if self.phase == Phase::Restoring {
            self.phase = Phase::Open;
            return Some(RecoveryAction::Open { late });
        }
        self.phase = Phase::Applying;
        self.bytes = 0;
        let gathered = std::mem::take(&mut self.gathered).into_iter();
        let gathered = gathered.filter(|((_, client), _)| !late.contains(client));
        let changes = gathered
            .map(|((transno, client), change)| Gathered { transno, client, change })
            .collect();
        Some(RecoveryAction::Apply { changes, late })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientUuid = ClientUuid(1);
    const B: ClientUuid = ClientUuid(2);
    const STRANGER: ClientUuid = ClientUuid(9);
    const START: Duration = Duration::from_secs(100);
    const WINDOW: Duration = Duration::from_secs(25);

    fn fresh() -> Recovery<&'static str> {
        Recovery::new([A, B], START, WINDOW)
    }

    fn change(transno: u64, client: ClientUuid, change: &'static str) -> Gathered<&'static str> {
        Gathered { transno: Transno(transno), client, change }
    }

    /// Both came, A with 3 and 5, B with 4.
    fn gathered() -> Recovery<&'static str> {
        let mut recovery = fresh();
        assert!(recovery.connected(A) && recovery.connected(B));
        recovery.replay(A, Transno(5), "five", 1).unwrap();
        recovery.replay(B, Transno(4), "four", 1).unwrap();
        recovery.replay(A, Transno(3), "three", 1).unwrap();
        recovery
    }

    fn in_phase(phase: Phase) -> Recovery<&'static str> {
        let mut recovery = gathered();
        if phase > Phase::Gathering {
            assert!(recovery.replayed(A) && recovery.replayed(B));
            assert!(recovery.next(START).is_some());
        }
        if phase > Phase::Applying {
            recovery.applied(&[], START);
        }
        if phase > Phase::Restoring {
            assert!(recovery.restored(A) && recovery.restored(B));
            assert_eq!(recovery.next(START), Some(RecoveryAction::Open { late: vec![] }));
        }
        assert_eq!(recovery.phase(), phase);
        recovery
    }

    #[test]
    fn all_came_so_all_is_done_in_order_at_once() {
        let mut recovery = gathered();
        assert_eq!(recovery.next(START), None, "nobody said that this was all");
        assert!(recovery.replayed(A));
        assert_eq!(recovery.next(START), None, "B is still bringing");
        assert!(recovery.replayed(B));
        let changes = vec![change(3, A, "three"), change(4, B, "four"), change(5, A, "five")];
        assert_eq!(recovery.next(START), Some(RecoveryAction::Apply { changes, late: vec![] }));
        assert_eq!((recovery.next(START), recovery.deadline()), (None, None), "it is being done");
        recovery.applied(&[], START);
        assert!(recovery.restored(A));
        assert_eq!(recovery.next(START), None);
        assert!(recovery.restored(B));
        assert_eq!(recovery.next(START), Some(RecoveryAction::Open { late: vec![] }));
        assert_eq!(recovery.phase(), Phase::Open);
    }

    #[test]
    fn every_phase_against_every_event() {
        use Phase::{Applying, Gathering, Open, Restoring};
        for phase in [Gathering, Applying, Restoring, Open] {
            let waits = phase != Open;
            assert_eq!(in_phase(phase).connected(A), waits, "{phase:?}");
            assert!(!in_phase(phase).connected(STRANGER), "{phase:?}");
            let replay = in_phase(phase).replay(A, Transno(7), "seven", 1);
            assert_eq!(replay, if waits { Ok(()) } else { Err(Refused::Stranger) }, "{phase:?}");
            assert_eq!(
                in_phase(phase).replay(STRANGER, Transno(7), "", 1),
                Err(Refused::Stranger),
                "{phase:?}"
            );
            assert!(
                in_phase(phase).replayed(A) && !in_phase(phase).replayed(STRANGER),
                "{phase:?}"
            );
            assert_eq!(in_phase(phase).restored(A), phase >= Restoring, "{phase:?}");
            let late = |recovery: &mut Recovery<_>| match recovery.next(START + 2 * WINDOW) {
                Some(RecoveryAction::Apply { late, .. } | RecoveryAction::Open { late }) => {
                    Some(late)
                }
                None => None,
            };
            let both = matches!(phase, Gathering | Restoring).then(|| vec![A, B]);
            assert_eq!(late(&mut in_phase(phase)), both, "{phase:?}");
            let mut aborted = in_phase(phase);
            aborted.abort();
            assert_eq!(aborted.next(START).is_some(), both.is_some(), "{phase:?}");
            let mut gone = in_phase(phase);
            gone.gone(A);
            gone.gone(B);
            assert_eq!(
                late(&mut gone),
                both.map(|_| vec![]),
                "{phase:?}: nobody is left to wait for"
            );
            let mut applied = in_phase(phase);
            applied.applied(&[A], START);
            let next = if phase == Applying { Restoring } else { phase };
            assert_eq!(applied.phase(), next, "{phase:?}");
        }
    }

    #[test]
    fn who_does_not_come_is_late_and_takes_nothing_with_it() {
        let mut recovery = fresh();
        recovery.connected(A);
        recovery.replay(A, Transno(3), "three", 1).unwrap();
        recovery.replayed(A);
        assert_eq!(recovery.next(START + WINDOW - Duration::from_nanos(1)), None);
        let changes = vec![change(3, A, "three")];
        assert_eq!(
            recovery.next(START + WINDOW),
            Some(RecoveryAction::Apply { changes, late: vec![B] })
        );
        recovery.applied(&[], START + WINDOW);
        assert!(!recovery.connected(B), "too late");
        assert_eq!(recovery.deadline(), Some(START + 2 * WINDOW));
        recovery.restored(A);
        assert_eq!(recovery.next(START + WINDOW), Some(RecoveryAction::Open { late: vec![] }));
    }

    #[test]
    fn an_abort_evicts_those_that_have_not_come_and_a_second_one_all() {
        let mut recovery = fresh();
        recovery.connected(A);
        recovery.abort();
        assert_eq!(recovery.next(START), None, "A is still bringing its changes");
        let mut twice = Recovery { clients: recovery.clients.clone(), ..fresh() };
        twice.abort();
        twice.abort();
        let apply = RecoveryAction::Apply { changes: vec![], late: vec![A, B] };
        assert_eq!(twice.next(START), Some(apply));
        recovery.replay(A, Transno(3), "three", 1).unwrap();
        recovery.replayed(A);
        let changes = vec![change(3, A, "three")];
        assert_eq!(recovery.next(START), Some(RecoveryAction::Apply { changes, late: vec![B] }));
        recovery.applied(&[], START);
        assert_eq!(recovery.next(START), None, "A has time to restore");
        recovery.abort();
        assert_eq!(recovery.next(START), Some(RecoveryAction::Open { late: vec![A] }));
    }

    #[test]
    fn what_two_bring_is_there_as_long_as_one_of_them_is() {
        let mut recovery = gathered();
        recovery.replay(B, Transno(3), "three", 1).unwrap();
        recovery.replayed(B);
        recovery.gone(A);
        let changes = vec![change(3, B, "three"), change(4, B, "four")];
        assert_eq!(recovery.next(START), Some(RecoveryAction::Apply { changes, late: vec![] }));
    }

    #[test]
    fn half_of_a_clients_changes_is_not_done() {
        let mut recovery = gathered();
        recovery.replayed(A);
        let next = recovery.next(START + WINDOW);
        let changes = vec![change(3, A, "three"), change(5, A, "five")];
        assert_eq!(next, Some(RecoveryAction::Apply { changes, late: vec![B] }));
    }

    #[test]
    fn a_client_that_connects_again_begins_again() {
        let mut recovery = gathered();
        recovery.replayed(A);
        recovery.replayed(B);
        assert!(recovery.connected(A));
        assert_eq!(recovery.next(START), None, "A brings it once more");
        recovery.replay(A, Transno(3), "three", 1).unwrap();
        recovery.replayed(A);
        assert!(
            matches!(recovery.next(START), Some(RecoveryAction::Apply { changes, .. }) if changes.len() == 3)
        );
        recovery.applied(&[], START);
        recovery.restored(A);
        recovery.restored(B);
        assert!(recovery.connected(B));
        assert_eq!(recovery.next(START), None, "B restores once more");
    }

    #[test]
    fn nobody_to_wait_for_is_open_and_memory_is_bounded() {
        let mut empty = Recovery::<()>::new([], START, WINDOW);
        assert_eq!((empty.phase(), empty.next(START), empty.deadline()), (Phase::Open, None, None));
        empty.gather();
        let apply = RecoveryAction::Apply { changes: vec![], late: vec![] };
        assert_eq!(
            (empty.next(START), empty.phase()),
            (Some(apply), Phase::Applying),
            "it gathers elsewhere"
        );
        empty.applied(&[], START);
        assert_eq!(empty.next(START), Some(RecoveryAction::Open { late: vec![] }));
        let mut recovery = fresh();
        assert_eq!(recovery.replay(A, Transno(1), "", 1), Err(Refused::Stranger), "not connected");
        recovery.connected(A);
        assert_eq!(
            recovery.replay(A, Transno(1), "", GATHERED_BYTES_MAX + 1),
            Err(Refused::TooMuch)
        );
        recovery.replay(A, Transno(1), "", GATHERED_BYTES_MAX).unwrap();
        assert_eq!(recovery.replay(A, Transno(2), "", 1), Err(Refused::TooMuch));
        recovery.connected(B);
        recovery.replay(B, Transno(1), "", GATHERED_BYTES_MAX).unwrap();
    }

    #[test]
    fn changes_that_did_not_fit_evict_their_sender() {
        let mut recovery = in_phase(Phase::Applying);
        recovery.applied(&[B], START);
        recovery.restored(A);
        assert_eq!(recovery.next(START), Some(RecoveryAction::Open { late: vec![] }));
        assert_eq!(recovery.clients(), (1, 1));
    }
}
