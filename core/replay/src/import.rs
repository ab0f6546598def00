//! A client's session with one target: its state, and the changes that it keeps for a replay.
//!
//! A change is kept from its reply until the target reports its transno as durable. After a restart
//! of the target the kept changes are brought back, oldest first. Bound: [`KEPT_BYTES_MAX`] for an
//! MDT, [`KEPT_DATA_BYTES_MAX`] for an OST, and twice what is on its way over a long line. Beyond
//! it the owner must wait for a commit before it asks for more changes. Replies that are under way
//! then still fit, so in the end the target's own bound on uncommitted changes limits memory.

use std::collections::BTreeMap;
use types::session::{Standing, Transno};

/// Bytes of kept changes beyond which no further change is asked for.
pub const KEPT_BYTES_MAX: usize = 32 << 20;
/// Bytes of kept changes that hold data of files: three times what an OST lets wait for a sync of
/// its own (`oss::settings`), so that a stream goes on while the disk works.
pub const KEPT_DATA_BYTES_MAX: usize = 96 << 20;
/// Cost of keeping a change beside its bytes.
const OVERHEAD: usize = 64;

/// State of a session (the words are Lustre's).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Not connected; the next request connects.
    Disconn,
    /// Connecting.
    Connecting,
    /// Connected to a restarted target: changes that it may have lost are brought back.
    Replay,
    /// The target has the changes: opens and locks are brought back.
    ReplayLocks,
    /// Everything is brought back; the target waits for others.
    ReplayWait,
    /// In service.
    Full,
    /// The target forgot this client. Kept changes are lost.
    Evicted,
}

impl State {
    /// Every state.
    pub const ALL: [State; 7] = [
        State::Disconn,
        State::Connecting,
        State::Replay,
        State::ReplayLocks,
        State::ReplayWait,
        State::Full,
        State::Evicted,
    ];
}

/// An event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// An attempt to connect begins.
    Connect,
    /// The attempt failed, or the connection was lost.
    Lost,
    /// The target answered a connect.
    Connected {
        /// State of the session at the target.
        standing: Standing,
        /// It is another session than the one that the target reported last.
        new: bool,
        /// The target's boot number.
        boot: u64,
        /// Newest transno that is durable there.
        last_committed: Transno,
    },
    /// The target has redone the replayed changes, this client's and those of all others.
    Replayed,
    /// Opens and locks are brought back.
    Restored,
    /// The target is in service.
    Opened,
}

/// What the caller must do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImportAction {
    /// Nothing, or go on as before.
    None,
    /// Requests may be sent; the session's locks and opens are as they were.
    Serve,
    /// As `Serve`, but the session is a new one: the target restarted and forgot (or never keeps)
    /// what belonged to it.
    Renewed,
    /// As `Renewed`, and the target gave up on this client: what was not durable is lost.
    Lost,
    /// Send what is kept, then ask for [`Event::Replayed`].
    Replay,
    /// Bring opens and locks back, then tell it.
    Restore,
    /// Ask for [`Event::Opened`].
    Wait,
}

/// See the module. `T` is a kept change.
#[derive(Debug)]
pub struct Import<T> {
    state: State,
    /// Boot of the newest session that came into service; 0 = none did.
    boot: u64,
    /// Of the target that is being recovered with.
    recovering: u64,
    last_committed: Transno,
    kept: BTreeMap<Transno, (T, usize)>,
    bytes: usize,
    bytes_max: usize,
    /// Changes that were kept and are lost.
    lost: Vec<T>,
    /// The session has been answered something that it must not lose.
    relies: bool,
}

impl<T> Default for Import<T> {
    fn default() -> Import<T> {
        Import::new(KEPT_BYTES_MAX)
    }
}

impl<T> Import<T> {
    /// Not connected. For `bytes_max` see the module.
    pub fn new(bytes_max: usize) -> Import<T> {
        Import {
            state: State::Disconn,
            boot: 0,
            recovering: 0,
            last_committed: Transno(0),
            kept: BTreeMap::new(),
            bytes: 0,
            bytes_max,
            lost: Vec::new(),
            relies: false,
        }
    }

    /// State of the session.
    pub fn state(&self) -> State {
        self.state
    }

    /// Boot number of the target at the newest session in service; 0 = there was none.
    pub fn boot(&self) -> u64 {
        self.boot
    }

    /// Newest transno known to be durable.
    pub fn last_committed(&self) -> Transno {
        self.last_committed
    }

    /// A request was answered that may have changed, opened or locked something. From there on, a
    /// restarted target knows its client.
    pub fn rely(&mut self) {
        self.relies = true;
    }

    /// A reply carried a change. `bytes`: cost of keeping it.
    pub fn keep(&mut self, transno: Transno, change: T, bytes: usize) {
        self.rely();
        if transno <= self.last_committed || self.state == State::Evicted {
            return;
        }
        let cost = bytes + OVERHEAD;
        self.bytes += cost;
        if let Some((_, before)) = self.kept.insert(transno, (change, cost)) {
            self.bytes -= before;
        }
    }

    /// Everything up to here is durable.
    pub fn committed(&mut self, transno: Transno) {
        self.last_committed = self.last_committed.max(transno);
        while let Some(first) = self.kept.first_entry().filter(|first| *first.key() <= transno) {
            self.bytes -= first.remove().1;
        }
    }

    /// Of everything up to `transno`, changes that `is_durable` selects are durable before their
    /// turn: they need not be brought back.
    pub fn durable(&mut self, transno: Transno, is_durable: impl Fn(&T) -> bool) {
        let old = self.kept.range(..=transno).filter(|(_, (change, _))| is_durable(change));
        for transno in old.map(|(transno, _)| *transno).collect::<Vec<_>>() {
            self.bytes -= self.kept.remove(&transno).map_or(0, |(_, cost)| cost);
        }
    }

    /// Newest transno of the kept changes; 0 = none.
    pub fn newest(&self) -> Transno {
        self.kept.last_key_value().map_or(Transno(0), |(transno, _)| *transno)
    }

    /// True if the owner must wait for a commit before it asks for one more change. `beyond`: bytes
    /// that may be kept beyond the bound, for what is on its way over a long line.
    pub fn is_full(&self, beyond: usize) -> bool {
        self.bytes >= self.bytes_max.saturating_add(beyond)
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The kept changes, oldest first.
    pub fn kept(&self) -> impl Iterator<Item = (Transno, &T)> {
        self.kept.iter().map(|(transno, (change, _))| (*transno, change))
    }

    /// The kept changes younger than `transno`, oldest first.
    pub fn kept_after(&self, transno: Transno) -> impl Iterator<Item = (Transno, &T)> {
        let after = (std::ops::Bound::Excluded(transno), std::ops::Bound::Unbounded);
        self.kept.range(after).map(|(transno, (change, _))| (*transno, change))
    }

    /// The session ends in order: nothing is to be brought back.
    pub fn forget(&mut self) {
        *self = Import::new(self.bytes_max);
    }

    /// Takes the changes that were kept and could not be brought back.
    pub fn take_lost(&mut self) -> Vec<T> {
        std::mem::take(&mut self.lost)
    }

    fn lose_kept(&mut self) {
        self.lost.extend(std::mem::take(&mut self.kept).into_values().map(|(change, _)| change));
        self.bytes = 0;
    }

    /// Something happened.
    pub fn event(&mut self, event: Event) -> ImportAction {
        match (self.state, event) {
            (_, Event::Lost) => {
                self.state = State::Disconn;
                ImportAction::None
            }
            (State::Full, Event::Connect) => ImportAction::None,
            (_, Event::Connect) => {
                self.state = State::Connecting;
                ImportAction::None
            }
            (_, Event::Connected { standing, new, boot, last_committed }) => {
                self.connected(standing, new, boot, last_committed)
            }
            (State::Replay, Event::Replayed) => {
                self.state = State::ReplayLocks;
                ImportAction::Restore
            }
            (State::ReplayLocks, Event::Restored) => {
                self.state = State::ReplayWait;
                ImportAction::Wait
            }
            (State::ReplayWait, Event::Opened) => {
                self.boot = self.recovering;
                self.state = State::Full;
                ImportAction::Serve
            }
            // A late answer of an attempt that was given up.
            (_, Event::Replayed | Event::Restored | Event::Opened) => ImportAction::None,
        }
    }

    fn connected(
        &mut self,
        standing: Standing,
        new: bool,
        boot: u64,
        last_committed: Transno,
    ) -> ImportAction {
        let first = self.boot == 0;
        let action = match standing {
            Standing::Awaited if !first => {
                self.recovering = boot;
                self.committed(last_committed);
                self.state = State::Replay;
                return ImportAction::Replay;
            }
            // The target had nothing of this client, and nothing is missing.
            _ if first => ImportAction::Serve,
            // It may have forgotten a client whose replies hold nothing that must not be lost.
            Standing::Settled if new && boot != self.boot && !self.relies => ImportAction::Renewed,
            Standing::Awaited | Standing::Settled if new => ImportAction::Lost,
            // Recovery ended between two attempts, and the target had all changes of this client by
            // then.
            Standing::Awaited | Standing::Settled => ImportAction::Serve,
            Standing::Missed if !self.kept.is_empty() => ImportAction::Lost,
            Standing::Missed => ImportAction::Renewed,
            Standing::Transient if new && boot == self.boot => ImportAction::Lost,
            Standing::Transient if new || boot != self.boot => ImportAction::Renewed,
            Standing::Transient => ImportAction::Serve,
        };
        // A target that keeps no session state still has what it was sent, as long as it does not
        // say otherwise.
        if matches!(action, ImportAction::Lost | ImportAction::Renewed)
            && standing != Standing::Transient
        {
            self.lose_kept();
        }
        if first || matches!(action, ImportAction::Lost | ImportAction::Renewed) {
            self.relies = false;
        }
        if boot != self.boot {
            // Another life of the target may count from the start again.
            self.last_committed = last_committed;
        }
        self.committed(last_committed);
        self.boot = boot;
        self.state = State::Full;
        action
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: u64 = 5;

    fn session() -> Import<&'static str> {
        let mut import = Import::default();
        import.event(Event::Connect);
        let first = connected(Standing::Settled, true, BOOT, 10);
        assert_eq!(import.event(first), ImportAction::Serve);
        for n in 11..=14 {
            import.keep(Transno(n), "change", 100);
        }
        import
    }

    fn connected(standing: Standing, new: bool, boot: u64, last: u64) -> Event {
        Event::Connected { standing, new, boot, last_committed: Transno(last) }
    }

    fn in_state(state: State) -> Import<&'static str> {
        let mut import = session();
        let events: &[Event] = &[
            Event::Lost,
            Event::Connect,
            connected(Standing::Awaited, true, BOOT + 1, 12),
            Event::Replayed,
            Event::Restored,
        ];
        let steps = match state {
            State::Full => 0,
            State::Disconn => 1,
            State::Connecting => 2,
            State::Replay => 3,
            State::ReplayLocks => 4,
            State::ReplayWait => 5,
            State::Evicted => {
                import.state = State::Evicted;
                0
            }
        };
        for event in &events[..steps] {
            import.event(*event);
        }
        assert_eq!(import.state(), state);
        import
    }

    #[test]
    fn every_state_against_every_event() {
        use ImportAction::{Lost as Gone, None, Renewed, Replay, Restore, Serve, Wait};
        use State::{Connecting, Disconn, Full, ReplayLocks, ReplayWait};
        let connects = |standing, new, boot| connected(standing, new, boot, 12);
        for state in State::ALL {
            let stays = (state, None);
            let table = [
                (Event::Lost, (Disconn, None)),
                (Event::Connect, if state == Full { stays } else { (Connecting, None) }),
                (connects(Standing::Awaited, true, BOOT + 1), (State::Replay, Replay)),
                (connects(Standing::Awaited, false, BOOT + 1), (State::Replay, Replay)),
                (connects(Standing::Settled, true, BOOT + 1), (Full, Gone)),
                (connects(Standing::Settled, false, BOOT + 1), (Full, Serve)),
                (connects(Standing::Settled, false, BOOT), (Full, Serve)),
                (connects(Standing::Settled, true, BOOT), (Full, Gone)),
                (connects(Standing::Transient, true, BOOT), (Full, Gone)),
                (connects(Standing::Transient, false, BOOT), (Full, Serve)),
                (connects(Standing::Transient, true, BOOT + 1), (Full, Renewed)),
                (connects(Standing::Missed, true, BOOT + 1), (Full, Gone)),
                (
                    Event::Replayed,
                    if state == State::Replay { (ReplayLocks, Restore) } else { stays },
                ),
                (Event::Restored, if state == ReplayLocks { (ReplayWait, Wait) } else { stays }),
                (Event::Opened, if state == ReplayWait { (Full, Serve) } else { stays }),
            ];
            for (event, (next, action)) in table {
                let mut import = in_state(state);
                assert_eq!(
                    (import.event(event), import.state()),
                    (action, next),
                    "{state:?} {event:?}"
                );
                let kept: Vec<u64> = import.kept().map(|(transno, _)| transno.0).collect();
                let keeps = matches!(event, Event::Connected { standing: Standing::Transient, .. });
                match action {
                    Gone | Renewed if !keeps => {
                        assert_eq!(kept, [0u64; 0], "{state:?} {event:?}");
                        assert!(import.take_lost().len() >= 2 && import.take_lost().is_empty());
                    }
                    Replay => assert_eq!(kept, [13, 14], "{state:?} {event:?}"),
                    _ => assert!(kept.ends_with(&[13, 14]), "{state:?} {event:?}"),
                }
                if next == Full {
                    assert_eq!(import.bytes(), kept.len() * (100 + OVERHEAD));
                }
            }
        }
    }

    #[test]
    fn a_first_session_misses_nothing() {
        for standing in
            [Standing::Transient, Standing::Settled, Standing::Awaited, Standing::Missed]
        {
            let mut import = Import::<()>::default();
            assert_eq!(
                import.event(connected(standing, true, 3, 4)),
                ImportAction::Serve,
                "{standing:?}"
            );
            assert_eq!((import.state(), import.boot()), (State::Full, 3));
        }
    }

    #[test]
    fn who_was_answered_nothing_loses_nothing_when_the_target_forgot_it() {
        let idle = || {
            let mut import = Import::<()>::default();
            assert_eq!(
                import.event(connected(Standing::Settled, true, BOOT, 10)),
                ImportAction::Serve
            );
            import
        };
        assert_eq!(
            idle().event(connected(Standing::Settled, true, BOOT + 1, 10)),
            ImportAction::Renewed
        );
        assert_eq!(
            idle().event(connected(Standing::Settled, true, BOOT, 10)),
            ImportAction::Lost,
            "evicted"
        );
        let mut import = idle();
        import.rely();
        assert_eq!(
            import.event(connected(Standing::Settled, true, BOOT + 1, 10)),
            ImportAction::Lost
        );
        assert_eq!(
            import.event(connected(Standing::Settled, true, BOOT + 2, 10)),
            ImportAction::Renewed,
            "it began anew"
        );
    }

    #[test]
    fn who_missed_a_recovery_and_kept_nothing_lost_nothing() {
        let mut import = session();
        import.committed(Transno(14));
        assert_eq!(
            import.event(connected(Standing::Missed, true, BOOT + 1, 20)),
            ImportAction::Renewed
        );
        assert_eq!((import.take_lost().len(), import.last_committed()), (0, Transno(20)));
    }

    #[test]
    fn what_is_replayed_stays_until_it_is_durable() {
        let mut import = in_state(State::ReplayWait);
        assert_eq!(import.event(Event::Opened), ImportAction::Serve);
        assert_eq!(import.boot(), BOOT + 1);
        assert_eq!(import.kept().count(), 2, "done again, durable not yet");
        import.committed(Transno(13));
        assert_eq!(import.kept().map(|(t, _)| t.0).collect::<Vec<_>>(), [14]);
        assert_eq!(
            (import.kept_after(Transno(13)).count(), import.kept_after(Transno(14)).count()),
            (1, 0)
        );
        // The target dies before that: once more.
        import.event(Event::Lost);
        assert_eq!(
            import.event(connected(Standing::Awaited, true, BOOT + 2, 13)),
            ImportAction::Replay
        );
        assert_eq!(import.kept().count(), 1);
    }

    #[test]
    fn what_was_synced_is_not_kept_any_more() {
        let mut import = session();
        import.keep(Transno(15), "another", 100);
        import.keep(Transno(16), "change", 100);
        assert_eq!(import.newest(), Transno(16));
        import.durable(Transno(15), |change| *change == "change");
        assert_eq!(import.kept().map(|(t, _)| t.0).collect::<Vec<_>>(), [15, 16]);
        assert_eq!((import.bytes(), import.last_committed()), (2 * (100 + OVERHEAD), Transno(10)));
        import.durable(Transno(16), |_| true);
        assert_eq!((import.bytes(), import.newest()), (0, Transno(0)));
    }

    #[test]
    fn it_is_bounded_and_counts_what_it_keeps() {
        let mut import = session();
        import.keep(Transno(9), "durable already", 100);
        import.keep(Transno(14), "the same again", 50);
        assert_eq!(import.bytes(), 3 * (100 + OVERHEAD) + 50 + OVERHEAD);
        assert!(!import.is_full(0));
        import.keep(Transno(15), "large", KEPT_BYTES_MAX);
        assert!(import.is_full(0));
        import.committed(Transno(15));
        assert_eq!((import.is_full(0), import.bytes()), (false, 0));
        import.forget();
        assert_eq!((import.state(), import.boot()), (State::Disconn, 0));
    }
}
