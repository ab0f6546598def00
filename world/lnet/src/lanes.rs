//! Lanes for what is in flight to one peer, in two classes.
//!
//! What a program waits for goes before work in the background, however long that has been waiting.
//! The background never takes more than its part, so a program finds room at once, or with the next
//! answer. It is not starved either: after [`PASSED_MAX`] of a program's requests that passed the
//! first one of the background by, that one is next. Within a class requests go in their order, so
//! small ones never keep a large one out.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use tokio::sync::oneshot;

/// Requests of programs that may pass by one of the background that waits.
const PASSED_MAX: u32 = 16;

/// The background's part of a room.
pub(crate) const fn background_of(units: usize) -> usize {
    units / 4 * 3
}

/// See the module.
pub(crate) struct Lanes {
    state: Arc<Mutex<State>>,
}

struct State {
    units: usize,
    taken: usize,
    /// Of these, by the background.
    behind: usize,
    /// Requests that wait, by class: those of programs, those of the background.
    waiting: [VecDeque<Waiter>; 2],
    /// Requests of programs that passed by the first one of the background.
    passed: u32,
}

struct Waiter {
    units: usize,
    enters: oneshot::Sender<WindowSlot>,
}

/// A part of the room; it is given back when this is dropped.
pub(crate) struct WindowSlot {
    room: Weak<Mutex<State>>,
    units: usize,
    background: bool,
}

impl Lanes {
    pub(crate) fn new(units: usize) -> Lanes {
        let (taken, behind, passed, waiting) = (0, 0, 0, Default::default());
        Lanes { state: Arc::new(Mutex::new(State { units, taken, behind, waiting, passed })) }
    }

    /// Waits for room. More units than the class may have count as all of those.
    pub(crate) async fn enter(&self, units: usize, background: bool) -> WindowSlot {
        loop {
            let turn = {
                let mut state = self.state.lock();
                let units = units.min(state.most(background));
                let first = state.waiting[usize::from(background)].is_empty();
                if first && state.may_enter(units, background) {
                    return state.take(&self.state, units, background);
                }
                let (enters, turn) = oneshot::channel();
                state.waiting[usize::from(background)].push_back(Waiter { units, enters });
                turn
            };
            // Its sender waits in the queue, and goes only with the room.
            if let Ok(place) = turn.await {
                return place;
            }
        }
    }

    /// There is more of it.
    pub(crate) fn grow(&self, more: usize) {
        self.state.lock().units += more;
        admit(&self.state);
    }

    /// True if a request of either class would have to wait.
    pub(crate) fn is_full(&self) -> bool {
        let state = self.state.lock();
        state.taken >= state.units || state.behind >= background_of(state.units)
    }
}

impl State {
    fn most(&self, background: bool) -> usize {
        if background { background_of(self.units) } else { self.units }
    }

    /// True if the first request of a class may enter now.
    fn may_enter(&self, units: usize, background: bool) -> bool {
        let fits = self.taken + units <= self.units;
        if background {
            let overtaken = !self.waiting[0].is_empty() && self.passed < PASSED_MAX;
            return fits && !overtaken && self.behind + units <= self.most(true);
        }
        // The background's turn: it waits for room only, not for others of its class.
        let in_turn = self.passed >= PASSED_MAX
            && self.waiting[1].front().is_some_and(|first| {
                self.behind + first.units <= self.most(true) && !first.enters.is_closed()
            });
        fits && !in_turn
    }

    fn take(&mut self, room: &Arc<Mutex<State>>, units: usize, background: bool) -> WindowSlot {
        self.taken += units;
        if background {
            self.behind += units;
            self.passed = 0;
        } else if !self.waiting[1].is_empty() {
            self.passed = self.passed.saturating_add(1);
        }
        WindowSlot { room: Arc::downgrade(room), units, background }
    }
}

/// Lets requests in.
fn admit(room: &Arc<Mutex<State>>) {
    loop {
        let (enters, place) = {
            let state = &mut *room.lock();
            // Callers that no longer wait are passed over.
            for class in &mut state.waiting {
                while class.front().is_some_and(|first| first.enters.is_closed()) {
                    class.pop_front();
                }
            }
            let next = [false, true].into_iter().find(|background| {
                let first = state.waiting[usize::from(*background)].front();
                first.is_some_and(|first| state.may_enter(first.units, *background))
            });
            let Some(background) = next else { return };
            let Some(first) = state.waiting[usize::from(background)].pop_front() else { return };
            (first.enters, state.take(room, first.units, background))
        };
        // If its caller has just gone, the place comes back here, and is free for the next.
        drop(enters.send(place));
    }
}

impl Drop for WindowSlot {
    fn drop(&mut self) {
        let Some(room) = self.room.upgrade() else { return };
        {
            let mut state = room.lock();
            state.taken -= self.units;
            state.behind -= if self.background { self.units } else { 0 };
        }
        admit(&room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;

    fn enter(room: &Lanes, background: bool) -> Option<WindowSlot> {
        room.enter(1, background).now_or_never()
    }

    fn begin(room: &Lanes, background: bool) -> BoxFuture<'_, WindowSlot> {
        let mut place = room.enter(1, background).boxed();
        assert!((&mut place).now_or_never().is_none(), "there is no room");
        place
    }

    #[test]
    fn programs_overtake_the_background() {
        let room = Lanes::new(4);
        let places: Vec<WindowSlot> =
            [true, true, true, false].map(|behind| enter(&room, behind).unwrap()).into();
        let mut behind: Vec<_> = (0..3).map(|_| begin(&room, true)).collect();
        let mut ahead = begin(&room, false);
        let mut places = places.into_iter();
        drop(places.next());
        let first = (&mut ahead).now_or_never().expect("it overtakes all that wait");
        assert!((&mut behind[0]).now_or_never().is_none());
        drop(places.next());
        assert!((&mut behind[0]).now_or_never().is_some());
        drop(first);
    }

    #[test]
    fn the_background_is_not_starved() {
        let room = Lanes::new(4);
        let mut places: VecDeque<WindowSlot> =
            (0..4).map(|_| enter(&room, false).unwrap()).collect();
        let mut behind = begin(&room, true);
        for passed in 0..PASSED_MAX {
            let mut next = begin(&room, false);
            places.pop_front();
            places.push_back((&mut next).now_or_never().unwrap_or_else(|| panic!("{passed}")));
            assert!((&mut behind).now_or_never().is_none(), "{passed}");
        }
        let mut next = begin(&room, false);
        places.pop_front();
        let turn = (&mut behind).now_or_never().expect("its turn");
        assert!((&mut next).now_or_never().is_none());
        drop(turn);
        assert!((&mut next).now_or_never().is_some());
    }

    #[test]
    fn small_requests_keep_no_large_one_out() {
        let room = Lanes::new(4);
        let place = enter(&room, false).unwrap();
        let mut large = room.enter(9, false).boxed();
        assert!((&mut large).now_or_never().is_none());
        let mut small = begin(&room, false);
        drop(place);
        let large = (&mut large).now_or_never().expect("it is alone then");
        assert!((&mut small).now_or_never().is_none());
        drop(large);
        assert!((&mut small).now_or_never().is_some());
    }

    #[test]
    fn a_caller_that_goes_takes_nothing_along() {
        let room = Lanes::new(2);
        let places: Vec<WindowSlot> = (0..2).map(|_| enter(&room, false).unwrap()).collect();
        let (first, mut second) = (begin(&room, false), begin(&room, false));
        drop(first);
        drop(places);
        assert!((&mut second).now_or_never().is_some());
        // One that was let in and did not look any more.
        let places: Vec<WindowSlot> = (0..2).map(|_| enter(&room, false).unwrap()).collect();
        let let_in = begin(&room, false);
        drop(places);
        drop(let_in);
        assert!((0..2).map(|_| enter(&room, false)).all(|place| place.is_some()));
        drop(second);
    }

    #[test]
    fn it_grows_for_those_that_wait() {
        let room = Lanes::new(4);
        let _places: Vec<WindowSlot> = (0..4).map(|_| enter(&room, false).unwrap()).collect();
        assert!(room.is_full());
        let mut waits = begin(&room, false);
        room.grow(4);
        assert!((&mut waits).now_or_never().is_some() && !room.is_full());
    }
}
