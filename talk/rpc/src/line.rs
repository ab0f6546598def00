//! An estimate of the line to a target: its delay, its bandwidth, and how many bytes fit on it at
//! once. Pure.
//!
//! The *delay* is the least time that a request took. The *bandwidth* is the highest rate at which
//! requests were answered, as BBR measures it: for each request the bytes that were answered while
//! it was under way, by the time that it was. A lone request shows a low rate, so the highest
//! counts. Both are of the last ten to twenty seconds; a line that is not used keeps its last ones.
//!
//! A target with more work than it can do answers nothing at once, so the delay includes its queue.
//! What is worth it only for the distance looks at the least time that a request ever took.

use env::clock::Monotonic;
use env::net::LONG_LINE;
use std::time::Duration;

/// Age at which what was measured gives way to newer measurements.
const WINDOW: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug, Default)]
pub struct Estimate {
    /// Bytes that were answered so far.
    delivered: u64,
    /// Of this window, and of the one before.
    now: Seen,
    before: Seen,
    since: Monotonic,
    /// The least time that a request ever took.
    least: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    delay: Option<Duration>,
    /// Bytes a second.
    rate: u64,
}

/// A request that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    at: Monotonic,
    delivered: u64,
}

impl Estimate {
    /// A request is sent.
    pub fn begin(&self, now: Monotonic) -> Begun {
        Begun { at: now, delivered: self.delivered }
    }

    /// It was answered; with its answer it moved so many bytes.
    pub fn answered(&mut self, begun: Begun, bytes: u64, now: Monotonic) {
        if now.saturating_sub(self.since) >= WINDOW {
            (self.before, self.now, self.since) = (self.now, Seen::default(), now);
        }
        let time = now.saturating_sub(begun.at);
        self.delivered += bytes;
        self.now.delay = Some(self.now.delay.map_or(time, |delay| delay.min(time)));
        self.least = Some(self.least.map_or(time, |least| least.min(time)));
        let moved = u128::from(self.delivered - begun.delivered) * 1_000_000_000;
        if let Some(rate) = moved.checked_div(time.as_nanos()) {
            self.now.rate = self.now.rate.max(u64::try_from(rate).unwrap_or(u64::MAX));
        }
    }

    /// The least time of a request; `None`: none was answered yet.
    pub fn delay(&self) -> Option<Duration> {
        self.now.delay.into_iter().chain(self.before.delay).min()
    }

    /// Highest rate of answered data, bytes a second.
    pub fn rate(&self) -> u64 {
        self.now.rate.max(self.before.rate)
    }

    /// Bytes that are on the line at this rate.
    pub fn in_flight(&self) -> u64 {
        let delay = self.delay().unwrap_or_default();
        u64::try_from(u128::from(self.rate()) * delay.as_nanos() / 1_000_000_000)
            .unwrap_or(u64::MAX)
    }

    /// The least time that a request ever took: the distance, without the work of the target.
    /// `None`: none was answered yet.
    pub fn least(&self) -> Option<Duration> {
        self.least
    }

    /// True if the line is a long one, or the target has much to do.
    pub fn is_far(&self) -> bool {
        self.delay().is_some_and(|delay| delay >= LONG_LINE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const MS: Duration = Duration::from_millis(1);

    /// Requests of 1 MiB over a line of 1 Gbit/s, so many under way at once.
    fn stream(
        estimate: &mut Estimate,
        start: Monotonic,
        delay: Duration,
        at_once: usize,
        count: usize,
    ) -> Monotonic {
        let each = Duration::from_nanos(8_388_608);
        let (mut free_at, mut now) = (start, start);
        let mut under_way = VecDeque::new();
        for _ in 0..count {
            if under_way.len() == at_once {
                let (begun, done) = under_way.pop_front().unwrap();
                now = done;
                estimate.answered(begun, 1 << 20, now);
            }
            free_at = free_at.max(now) + each;
            under_way.push_back((estimate.begin(now), free_at + delay));
        }
        for (begun, done) in under_way {
            now = done;
            estimate.answered(begun, 1 << 20, now);
        }
        now
    }

    #[test]
    fn a_stream_shows_the_bandwidth_and_a_lone_request_the_delay() {
        let mut estimate = Estimate::default();
        assert_eq!(
            (estimate.delay(), estimate.rate(), estimate.in_flight(), estimate.is_far()),
            (None, 0, 0, false)
        );
        let begun = estimate.begin(MS);
        estimate.answered(begun, 100, 211 * MS);
        assert_eq!((estimate.delay(), estimate.is_far()), (Some(210 * MS), true));
        stream(&mut estimate, 300 * MS, 210 * MS, 64, 400);
        let line = 125_000_000;
        assert!((line * 9 / 10..line * 11 / 10).contains(&estimate.rate()), "{}", estimate.rate());
        let fits = line * 210 / 1000;
        assert!(
            (fits * 9 / 10..fits * 11 / 10).contains(&estimate.in_flight()),
            "{}",
            estimate.in_flight()
        );
    }

    #[test]
    fn what_is_old_gives_way_and_an_idle_line_is_remembered() {
        let mut estimate = Estimate::default();
        let end = stream(&mut estimate, MS, 2 * MS, 8, 100);
        let (delay, rate) = (estimate.delay(), estimate.rate());
        assert!(delay.is_some_and(|delay| delay < 20 * MS) && rate > 100_000_000);
        let lone = |estimate: &mut Estimate, at: Monotonic| {
            let begun = estimate.begin(at);
            estimate.answered(begun, 1000, at + 100 * MS);
        };
        lone(&mut estimate, end + 60 * WINDOW);
        assert_eq!((estimate.delay(), estimate.rate()), (delay, rate), "of the window before");
        lone(&mut estimate, end + 61 * WINDOW);
        assert_eq!(estimate.delay(), Some(100 * MS), "another line by now");
        assert!(estimate.rate() < 100_000);
    }

    #[test]
    fn a_busy_target_is_not_taken_for_a_long_line() {
        let mut estimate = Estimate::default();
        assert_eq!(estimate.least(), None);
        let mut takes = |at: u32, time: Duration| {
            let begun = estimate.begin(at * WINDOW);
            estimate.answered(begun, 100, at * WINDOW + time);
            (estimate.is_far(), estimate.least())
        };
        assert_eq!(takes(1, 2 * MS), (true, Some(2 * MS)));
        assert_eq!(takes(2, MS / 10), (false, Some(MS / 10)), "it was answered at once");
        assert_eq!(takes(4, 2 * MS), (false, Some(MS / 10)));
        assert_eq!(takes(6, 2 * MS), (true, Some(MS / 10)), "requests queue since");
    }

    #[test]
    fn no_time_and_no_bytes_are_no_measurement() {
        let mut estimate = Estimate::default();
        let begun = estimate.begin(MS);
        estimate.answered(begun, 1 << 30, MS);
        assert_eq!(
            (estimate.delay(), estimate.rate(), estimate.in_flight()),
            (Some(Duration::ZERO), 0, 0)
        );
    }
}
