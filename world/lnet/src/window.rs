//! Requests in flight to one peer.
//!
//! The window follows bandwidth x delay. It doubles while it is full and answers come within twice
//! the best time seen, up to REQUESTS_PER_LINK_MAX (a server stops reading a link beyond that).
//! Large requests do not count there: the bytes that they move have a bound of their own.
//!
//! There are two classes: what a program waits for, and work in the background (stores of written
//! data, listings and reads ahead). The first goes before the second; the background takes three
//! quarters of either room at most ([`lanes`](crate::lanes)).

use crate::lanes::{Lanes, WindowSlot};
use env::clock::Monotonic;
use parking_lot::Mutex;
use std::time::Duration;
use types::limits::{REQUESTS_IN_FLIGHT_INITIAL, REQUESTS_IN_FLIGHT_MAX, REQUESTS_PER_LINK_MAX};

/// Requests in flight, at most.
pub(crate) const WINDOW_MAX: usize = if REQUESTS_IN_FLIGHT_MAX < REQUESTS_PER_LINK_MAX {
    REQUESTS_IN_FLIGHT_MAX
} else {
    REQUESTS_PER_LINK_MAX
};
/// Bulk bytes in flight, at most (10 Gbit/s at 200 ms), in units of [`UNIT`].
const UNITS_MAX: usize = (256 << 20) / UNIT;
const UNIT: usize = 4096;
/// Below this the round trip shows scheduling rather than the line.
const NOISE: Duration = Duration::from_micros(100);

/// The window.
pub(crate) struct Window {
    requests: Lanes,
    bulk: Lanes,
    state: Mutex<State>,
}

struct State {
    limit: usize,
    best: Duration,
    grown_at: Monotonic,
}

impl Window {
    pub(crate) fn new() -> Window {
        Window {
            requests: Lanes::new(REQUESTS_IN_FLIGHT_INITIAL),
            bulk: Lanes::new(UNITS_MAX),
            state: Mutex::new(State {
                limit: REQUESTS_IN_FLIGHT_INITIAL,
                best: Duration::MAX,
                grown_at: Duration::ZERO,
            }),
        }
    }

    /// Waits for room. `bulk`: bytes that will travel, there or back, on a bulk link; 0: it is a
    /// small request. `background`: no program waits for it.
    pub(crate) async fn enter(&self, bulk: usize, background: bool) -> WindowSlot {
        match bulk.div_ceil(UNIT).min(UNITS_MAX) {
            0 => self.requests.enter(1, background).await,
            units => self.bulk.enter(units, background).await,
        }
    }

    /// A small request was answered after `time`.
    pub(crate) fn answered(&self, now: Monotonic, time: Duration) {
        let full = self.requests.is_full();
        let mut state = self.state.lock();
        state.best = state.best.min(time);
        let grow = full
            && state.limit < WINDOW_MAX
            && time <= state.best * 2 + NOISE
            && now.saturating_sub(state.grown_at) > time;
        if grow {
            let more = state.limit.min(WINDOW_MAX - state.limit);
            state.limit += more;
            state.grown_at = now;
            drop(state);
            self.requests.grow(more);
        }
    }

    /// Requests allowed in flight now.
    pub(crate) fn limit(&self) -> usize {
        self.state.lock().limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn enter(window: &Window, bulk: usize) -> Option<WindowSlot> {
        window.enter(bulk, false).now_or_never()
    }

    fn enter_behind(window: &Window, bulk: usize) -> Option<WindowSlot> {
        window.enter(bulk, true).now_or_never()
    }

    #[test]
    fn it_doubles_while_full_and_the_delay_stays() {
        let window = Window::new();
        let ms = Duration::from_millis;
        window.answered(ms(10), ms(5));
        assert_eq!(window.limit(), REQUESTS_IN_FLIGHT_INITIAL, "not full, no need");
        let mut rooms: Vec<WindowSlot> =
            (0..REQUESTS_IN_FLIGHT_INITIAL).map(|_| enter(&window, 0).unwrap()).collect();
        assert!(enter(&window, 0).is_none());
        window.answered(ms(20), ms(11));
        assert_eq!(
            window.limit(),
            REQUESTS_IN_FLIGHT_INITIAL,
            "the delay rose over twice the best"
        );
        window.answered(ms(30), ms(6));
        assert_eq!(window.limit(), 2 * REQUESTS_IN_FLIGHT_INITIAL);
        for step in 1..100 {
            while let Some(room) = enter(&window, 0) {
                rooms.push(room);
            }
            window.answered(ms(30 + 10 * step), ms(6));
        }
        assert_eq!(window.limit(), WINDOW_MAX);
        while let Some(room) = enter(&window, 0) {
            rooms.push(room);
        }
        assert_eq!(rooms.len(), WINDOW_MAX);
    }

    #[test]
    fn bulk_bytes_are_bounded() {
        let window = Window::new();
        let rooms: Vec<WindowSlot> =
            std::iter::from_fn(|| enter(&window, 16 << 20)).take(100).collect();
        assert_eq!(rooms.len(), 16);
        assert!(enter(&window, 0).is_some(), "small requests pass");
        drop(rooms);
        assert!(enter(&window, 16 << 20).is_some());
    }

    #[test]
    fn the_background_leaves_room_for_what_a_program_waits_for() {
        let window = Window::new();
        for bulk in [0, 16 << 20] {
            let behind: Vec<WindowSlot> =
                std::iter::from_fn(|| enter_behind(&window, bulk)).take(1000).collect();
            let ahead: Vec<WindowSlot> =
                std::iter::from_fn(|| enter(&window, bulk)).take(1000).collect();
            assert_eq!(behind.len(), 3 * ahead.len(), "{bulk}");
            drop(ahead);
            assert!(enter_behind(&window, bulk).is_none(), "that room is not the background's");
            drop(behind);
            let all: Vec<WindowSlot> =
                std::iter::from_fn(|| enter(&window, bulk)).take(1000).collect();
            assert!(enter_behind(&window, bulk).is_none(), "a program may take all");
            drop(all);
            assert!(enter_behind(&window, bulk).is_some());
        }
    }

    #[test]
    fn a_window_full_of_background_grows_too() {
        let (window, ms) = (Window::new(), Duration::from_millis);
        window.answered(ms(10), ms(5));
        let _behind: Vec<WindowSlot> = std::iter::from_fn(|| enter_behind(&window, 0)).collect();
        window.answered(ms(20), ms(5));
        assert_eq!(window.limit(), 2 * REQUESTS_IN_FLIGHT_INITIAL);
        assert!(enter_behind(&window, 0).is_some());
    }
}
