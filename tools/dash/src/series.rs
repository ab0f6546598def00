//! Rates of one target or client, and the last hour of them.
//!
//! Made of totals, every [`STEP_MS`] of the clock of the process that reports them. At most
//! [`POINTS_MAX`] points of 28 bytes.

use crate::rates::{Rates, rates};
use crate::rows::History;
use std::collections::VecDeque;
use wire::report::Counts;

/// Rates are over this time at least, milliseconds.
pub const STEP_MS: u64 = 2000;
/// Points of a series: an hour.
pub const POINTS_MAX: usize = 1800;

/// See the module.
#[derive(Default)]
pub(crate) struct Series {
    /// Uptime of the process and totals at the last step.
    before: Option<(u64, Counts)>,
    pub(crate) rates: Rates,
    pub(crate) points: VecDeque<(u64, Rates)>,
}

impl Series {
    /// Another picture of its totals; a point each [`STEP_MS`].
    pub(crate) fn take(&mut self, uptime_ms: u64, counts: &Counts, time_s: u64) {
        match &self.before {
            // Another life of its process: the series begins afresh.
            Some((at, _)) if uptime_ms < *at => self.before = Some((uptime_ms, counts.clone())),
            Some((at, before)) if uptime_ms - at >= STEP_MS => {
                self.rates = rates(before, counts, uptime_ms - at);
                self.before = Some((uptime_ms, counts.clone()));
                self.push(time_s, self.rates);
            }
            Some(_) => {}
            None => self.before = Some((uptime_ms, counts.clone())),
        }
    }

    /// A point that is made of other rates, each [`STEP_MS`].
    pub(crate) fn point(&mut self, time_ms: u64, rates: Rates) {
        let last = self.before.as_ref().map(|(at, _)| *at);
        if last.is_some_and(|at| time_ms < at + STEP_MS) {
            return;
        }
        self.before = Some((time_ms, Counts::default()));
        self.push(time_ms / 1000, rates);
    }

    fn push(&mut self, time_s: u64, rates: Rates) {
        if self.points.len() == POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back((time_s, rates));
    }

    pub(crate) fn history(&self, now_s: u64) -> History {
        let mut history = History::default();
        for (time, rates) in
            self.points.iter().filter(|(time, _)| *time + POINTS_MAX as u64 * 2 >= now_s)
        {
            history.time.push(*time);
            history.requests.push(rates.requests);
            history.read.push(rates.read);
            history.written.push(rates.written);
            history.micros.push(rates.micros);
            history.p99.push(rates.p99);
        }
        history
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_starts_again_begins_anew() {
        let mut series = Series::default();
        let counts = |requests| Counts { requests, ..Counts::default() };
        series.take(9000, &counts(1000), 1);
        series.take(100, &counts(5), 2);
        series.take(2100, &counts(25), 4);
        assert_eq!(series.rates.requests, 10.0);
    }
}
