//! Requests in flight to one peer, fair in order of arrival.
//!
//! The window follows bandwidth x delay. It doubles while it is full and answers come within twice
//! the best time seen, up to REQUESTS_PER_LINK_MAX (a server stops reading a link beyond that).
//! Bulk data in flight has a bound of its own, in bytes.

use env::clock::Monotonic;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use types::limits::{REQUESTS_IN_FLIGHT_INITIAL, REQUESTS_IN_FLIGHT_MAX, REQUESTS_PER_LINK_MAX};

/// Requests in flight, at most.
pub(crate) const WINDOW_MAX: usize =
    if REQUESTS_IN_FLIGHT_MAX < REQUESTS_PER_LINK_MAX { REQUESTS_IN_FLIGHT_MAX } else { REQUESTS_PER_LINK_MAX };
/// Bulk bytes in flight, at most (10 Gbit/s at 200 ms), in units of [`UNIT`].
const UNITS_MAX: usize = (256 << 20) / UNIT;
const UNIT: usize = 4096;
/// Below this the round trip shows scheduling rather than the line.
const NOISE: Duration = Duration::from_micros(100);

/// The window.
pub(crate) struct Window {
    requests: Arc<Semaphore>,
    bulk: Arc<Semaphore>,
    state: Mutex<State>,
}

struct State {
    limit: usize,
    best: Duration,
    grown_at: Monotonic,
}

/// Place of one request in the window; give it back by dropping it.
pub(crate) struct WindowSlot {
    _request: OwnedSemaphorePermit,
    _bulk: Option<OwnedSemaphorePermit>,
}

impl Window {
    pub(crate) fn new() -> Window {
        Window {
            requests: Arc::new(Semaphore::new(REQUESTS_IN_FLIGHT_INITIAL)),
            bulk: Arc::new(Semaphore::new(UNITS_MAX)),
            state: Mutex::new(State {
                limit: REQUESTS_IN_FLIGHT_INITIAL,
                best: Duration::MAX,
                grown_at: Duration::ZERO,
            }),
        }
    }

    /// Waits for room; `bulk`: bytes that will travel, there or back.
    pub(crate) async fn enter(&self, bulk: usize) -> WindowSlot {
        let closed = "nobody closes the window";
        let bulk = match bulk.div_ceil(UNIT).min(UNITS_MAX) {
            0 => None,
            units => Some(self.bulk.clone().acquire_many_owned(units as u32).await.expect(closed)),
        };
        WindowSlot { _request: self.requests.clone().acquire_owned().await.expect(closed), _bulk: bulk }
    }

    /// A small request was answered after `time`.
    pub(crate) fn answered(&self, now: Monotonic, time: Duration) {
        let full = self.requests.available_permits() == 0;
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
            self.requests.add_permits(more);
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
        window.enter(bulk).now_or_never()
    }

    #[test]
    fn it_doubles_while_full_and_the_delay_stays() {
        let window = Window::new();
        let ms = Duration::from_millis;
        window.answered(ms(10), ms(5));
        assert_eq!(window.limit(), REQUESTS_IN_FLIGHT_INITIAL, "not full, no need");
        let mut rooms: Vec<WindowSlot> = (0..REQUESTS_IN_FLIGHT_INITIAL).map(|_| enter(&window, 0).unwrap()).collect();
        assert!(enter(&window, 0).is_none());
        window.answered(ms(20), ms(11));
        assert_eq!(window.limit(), REQUESTS_IN_FLIGHT_INITIAL, "the delay rose over twice the best");
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
        let rooms: Vec<WindowSlot> = std::iter::from_fn(|| enter(&window, 16 << 20)).take(100).collect();
        assert_eq!(rooms.len(), 16);
        assert!(enter(&window, 0).is_some(), "small requests pass");
        drop(rooms);
        assert!(enter(&window, 16 << 20).is_some());
    }
}
