//! How long callers waited because of a kill, or of another fault.

use std::fmt::Write;
use std::time::{Duration, Instant};

/// Upper bounds of the histogram's rows, milliseconds.
const BOUNDS_MS: [u64; 12] = [20, 50, 100, 200, 300, 500, 700, 1_000, 1_500, 3_000, 10_000, 30_000];

/// A kill, or another fault.
#[derive(Clone, Copy)]
pub struct Kill {
    /// Time of the kill.
    pub at: Instant,
    /// From then until the new process listens.
    pub restart: Duration,
    /// Of which server; else, what the fault is.
    pub server: &'static str,
}

/// Start and end of a caller's operations, in order.
pub type Spans = Vec<(Instant, Instant)>;

/// One caller's wait because of one kill.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stall {
    /// Duration of the wait.
    pub time: Duration,
    /// The killed server.
    pub server: &'static str,
}

/// From each kill until the answer of the next operation that the caller begins after it. The
/// operation that was waiting when the server died is part of that time. `spans`: start and end of
/// the caller's operations, in order.
pub fn next_answers(kills: &[Kill], spans: &[(Instant, Instant)]) -> Vec<Stall> {
    let mut stalls = Vec::new();
    for Kill { at, server, .. } in kills {
        let next = spans.partition_point(|(began, _)| began < at);
        if let Some((_, ended)) = spans.get(next) {
            stalls.push(Stall { time: *ended - *at, server });
        }
    }
    stalls
}

/// The longest operation between each kill and the next: a caller that needs the dead server waits
/// in it. What it waits from the next kill on is counted there.
pub fn longest_operations(kills: &[Kill], spans: &[(Instant, Instant)]) -> Vec<Stall> {
    let mut stalls = Vec::new();
    for (n, Kill { at, server, .. }) in kills.iter().enumerate() {
        let until = kills.get(n + 1).map(|kill| kill.at);
        let first = spans.partition_point(|(_, ended)| ended <= at);
        let while_it_lasts =
            spans[first..].iter().take_while(|(began, _)| until.is_none_or(|until| *began < until));
        let end = |ended: Instant| until.map_or(ended, |until| ended.min(until));
        let longest = while_it_lasts.map(|(began, ended)| end(*ended) - (*began).max(*at)).max();
        stalls.extend(longest.map(|time| Stall { time, server }));
    }
    stalls
}

/// A histogram with p50, p90, p95, p99 and the longest, for all servers and each by itself.
pub fn histogram(what: &str, stalls: &[Stall], servers: &[&'static str]) -> String {
    let mut text = format!("{what}, {} times:\n", stalls.len());
    for (n, bound) in BOUNDS_MS.iter().enumerate() {
        let below = if n == 0 { 0 } else { BOUNDS_MS[n - 1] };
        let within = |stall: &&Stall| (below..*bound).contains(&(stall.time.as_millis() as u64));
        let count = stalls.iter().filter(within).count();
        let bar = "#".repeat((count * 60).div_ceil(stalls.len().max(1)));
        writeln!(text, "  {below:>6} to {bound:>6} ms {count:>7} {bar}")
            .expect("a string takes everything");
    }
    let over = BOUNDS_MS[BOUNDS_MS.len() - 1];
    let count = stalls.iter().filter(|stall| stall.time.as_millis() as u64 >= over).count();
    writeln!(text, "  longer              {count:>9}").expect("a string takes everything");
    text += &line("all", stalls);
    for server in servers {
        let of_it: Vec<Stall> =
            stalls.iter().filter(|stall| stall.server == *server).copied().collect();
        text += &line(server, &of_it);
    }
    text
}

fn line(what: &str, stalls: &[Stall]) -> String {
    let mut times: Vec<Duration> = stalls.iter().map(|stall| stall.time).collect();
    times.sort_unstable();
    let Some(longest) = times.last() else { return String::new() };
    let at = |percent: usize| times[((times.len() * percent).div_ceil(100)).max(1) - 1].as_millis();
    let (count, max) = (times.len(), longest.as_millis());
    format!(
        "  {what:>5}: p50 {} ms, p90 {} ms, p95 {} ms, p99 {} ms, max {max} ms ({count})\n",
        at(50),
        at(90),
        at(95),
        at(99)
    )
}
