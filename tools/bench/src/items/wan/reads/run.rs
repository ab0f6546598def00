//! One run of small reads: its rate and its beginning; places at random; what arrives at a network
//! device.

use crate::failure::BenchError;
use std::fs;
use std::time::{Duration, Instant};

/// The rate is looked at in pieces of this length: in the second one it shall be that of all.
const SLICE: Duration = Duration::from_millis(100);
/// Bytes that this host has received and sent, by device.
const DEVICES: &str = "/proc/thread-self/net/dev";

/// An order of the reads of many files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// File after file.
    Files,
    /// One read of each file, then the next one of each.
    Turns,
}

/// What a run took, and the bytes of its slices. The first slice begins with the first bytes that
/// came, one round trip or two after the open.
pub struct Run {
    start: Instant,
    first: Option<Instant>,
    took: Duration,
    slices: Vec<u64>,
}

impl Run {
    /// Begins.
    pub fn start() -> Run {
        Run { start: Instant::now(), first: None, took: Duration::ZERO, slices: Vec::new() }
    }

    /// So many bytes came.
    pub fn came(&mut self, bytes: usize) {
        let since = self.first.get_or_insert_with(Instant::now).elapsed();
        self.came_after(since, bytes);
    }

    fn came_after(&mut self, since: Duration, bytes: usize) {
        let slice = (since.as_nanos() / SLICE.as_nanos()) as usize;
        if self.slices.len() <= slice {
            self.slices.resize(slice + 1, 0);
        }
        self.slices[slice] += bytes as u64;
    }

    /// It is over.
    pub fn ended(mut self) -> Run {
        self.took = self.start.elapsed();
        self
    }

    /// Bytes a second.
    pub fn rate(&self) -> f64 {
        self.slices.iter().sum::<u64>() as f64 / self.took.as_secs_f64().max(1e-9)
    }

    /// Rate of the second slice as percent of the mean; `None`: it was over by then.
    pub fn second_slice(&self) -> Option<f64> {
        let [_, second, _, ..] = self.slices[..] else { return None };
        Some(100.0 * second as f64 / SLICE.as_secs_f64() / self.rate())
    }
}

/// `count` different numbers below `all`, in an order that the seed says.
pub fn blocks(seed: u64, all: usize, count: usize) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..all as u64).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut numbers);
    numbers.truncate(count);
    numbers
}

/// Bytes that arrived at the host that `enter` enters, at all of its devices but the loopback.
///
/// # Errors
/// The host is gone, or the kernel does not count.
pub fn received(
    enter: &(dyn Fn() -> Result<(), BenchError> + Send + Sync),
) -> Result<u64, BenchError> {
    // A thread of its own, for what enters a host stays there.
    let table = std::thread::scope(|scope| {
        let look = scope.spawn(|| {
            enter()?;
            fs::read_to_string(DEVICES).map_err(BenchError::of("count what arrives"))
        });
        let panicked = |_| BenchError::Failed("a thread panicked; please report it".to_owned());
        look.join().map_err(panicked)?
    })?;
    received_in(&table)
        .ok_or_else(|| BenchError::Failed(format!("{DEVICES} has another form than expected")))
}

/// The same, of the text of the kernel.
fn received_in(table: &str) -> Option<u64> {
    let devices = table.lines().filter_map(|line| line.split_once(':'));
    let far = devices.filter(|(name, _)| name.trim() != "lo");
    far.map(|(_, counts)| counts.split_whitespace().next()?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(slices: &[u64]) -> Run {
        let mut run = Run::start();
        for (at, bytes) in slices.iter().enumerate() {
            run.came_after(SLICE * at as u32 + SLICE / 2, *bytes as usize);
        }
        run.took = SLICE * slices.len() as u32;
        run
    }

    #[test]
    fn a_rate_counts_every_byte_and_the_time_before_the_first() {
        let run = Run { took: Duration::from_millis(400), ..run(&[100, 200]) };
        assert_eq!(run.rate(), 750.0);
    }

    #[test]
    fn a_beginning_is_compared_with_the_mean() {
        assert_eq!(run(&[1, 2]).second_slice(), None);
        let percent = |slices: &[u64]| run(slices).second_slice().map(f64::round);
        assert_eq!(percent(&[0, 100, 200]), Some(100.0));
        assert_eq!(percent(&[0, 50, 125, 125]), Some(67.0));
    }

    #[test]
    fn nothing_came_in_a_slice_in_which_a_reader_waited() {
        let mut run = run(&[10]);
        run.came_after(SLICE * 3, 10);
        run.took = SLICE * 4;
        assert_eq!(run.slices, [10, 0, 0, 10]);
        assert_eq!(run.second_slice(), Some(0.0));
    }

    #[test]
    fn places_at_random_differ_and_depend_on_the_seed() {
        let some = blocks(7, 1000, 100);
        let different: std::collections::BTreeSet<u64> = some.iter().copied().collect();
        assert_eq!((different.len(), some.iter().all(|block| *block < 1000)), (100, true));
        assert_eq!(some, blocks(7, 1000, 100));
        assert_ne!(some, blocks(8, 1000, 100));
    }

    #[test]
    fn what_arrives_is_counted_on_all_devices_but_the_loopback() {
        let table = "Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo
    lo:    5000      10    0    0    0     0          0         0     5000      10    0    0    0
  wan0: 1234567     890    0    0    0     0          0         0      999      12    0    0    0
  eth1:      33       1    0    0    0     0          0         0        0       0    0    0    0
";
        assert_eq!(received_in(table), Some(1_234_600));
        assert_eq!(received_in("wan0: none"), None);
    }
}
