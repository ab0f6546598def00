//! Wall time, CPU time and memory of this process and of others.

use crate::failure::BenchError;
use std::collections::BTreeMap;
use std::time::Duration;

fn clock(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: time is a valid place for the answer.
    let done = unsafe { libc::clock_gettime(clock, &mut time) };
    (done == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// CPU time of all threads of this process, user and system, and of its children that have ended.
pub fn cpu_of_self() -> Duration {
    // SAFETY: rusage is plain data; getrusage fills it or fails without touching it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(
            libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage),
            0,
            "getrusage knows its children"
        );
        usage
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    let own = clock(libc::CLOCK_PROCESS_CPUTIME_ID).expect("every process has this clock");
    own + time(usage.ru_utime) + time(usage.ru_stime)
}

/// CPU time of all threads of another process, user and system.
///
/// # Errors
/// The process has ended.
pub fn cpu_of(pid: i32) -> Result<Duration, BenchError> {
    let mut id = 0;
    // SAFETY: id is a valid place for the answer.
    let known = unsafe { libc::clock_getcpuclockid(pid, &mut id) } == 0;
    known.then(|| clock(id)).flatten().ok_or_else(|| gone(pid))
}

fn gone(pid: i32) -> BenchError {
    BenchError::Failed(format!("process {pid} ended while it was measured; look at its log"))
}

/// Resident memory, bytes.
#[derive(Clone, Copy, Debug)]
pub struct Resident {
    /// Everything.
    pub all: u64,
    /// The part of it without a file behind it.
    pub own: u64,
}

/// Resident memory of a process.
///
/// # Errors
/// The process has ended.
pub fn resident_of(pid: i32) -> Result<Resident, BenchError> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).map_err(|_| gone(pid))?;
    let bytes = |key: &str| {
        let line = status.lines().find(|l| l.starts_with(key))?;
        Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
    };
    // A process that is just ending has no memory lines any more.
    Ok(Resident {
        all: bytes("VmRSS:").ok_or_else(|| gone(pid))?,
        own: bytes("RssAnon:").ok_or_else(|| gone(pid))?,
    })
}

/// What the whole machine has done so far.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// CPU seconds of all processors that were not idle.
    busy: f64,
    /// Seconds that each disk was at work.
    disks: BTreeMap<String, f64>,
}

/// Hundredths of a second: what `/proc/stat` counts in on every Linux.
const TICK: f64 = 0.01;

impl Machine {
    /// The present state. A value that cannot be read counts as 0.
    pub fn now() -> Machine {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let fields: Vec<f64> = stat
            .lines()
            .next()
            .unwrap_or("")
            .split_whitespace()
            .skip(1)
            .filter_map(|f| f.parse().ok())
            .collect();
        // user nice system idle iowait irq softirq steal
        let busy = [0, 1, 2, 5, 6, 7].iter().filter_map(|at| fields.get(*at)).sum::<f64>() * TICK;
        let disks = std::fs::read_to_string("/proc/diskstats").unwrap_or_default();
        let disk = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            // Field 13: milliseconds spent doing I/O.
            Some(((*words.get(2)?).to_owned(), words.get(12)?.parse::<f64>().ok()? / 1000.0))
        };
        Machine { busy, disks: disks.lines().filter_map(disk).collect() }
    }

    /// Busy CPU seconds, and seconds of the busiest disk, since an earlier moment.
    pub fn since(&self, earlier: &Machine) -> (f64, f64) {
        let worked =
            |(name, now): (&String, &f64)| now - earlier.disks.get(name).copied().unwrap_or(*now);
        ((self.busy - earlier.busy).max(0.0), self.disks.iter().map(worked).fold(0.0, f64::max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn work_takes_cpu() {
        let me = std::process::id() as i32;
        let (own, other, machine) = (cpu_of_self(), cpu_of(me).unwrap(), Machine::now());
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(60) {
            std::hint::black_box(0);
        }
        assert!(cpu_of_self() > own && cpu_of(me).unwrap() > other);
        assert!(Machine::now().since(&machine).0 > 0.0);
        let memory = resident_of(me).unwrap();
        assert!(memory.own > 100_000 && memory.all > memory.own);
    }

    #[test]
    fn a_process_that_is_not_there_is_told() {
        // No process has the greatest possible id.
        assert!(cpu_of(4_194_304).unwrap_err().to_string().contains("4194304"));
        assert!(resident_of(4_194_304).is_err());
    }
}
