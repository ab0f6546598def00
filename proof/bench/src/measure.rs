//! Wall time, CPU time and memory of this process and of others.

use std::time::{Duration, Instant};

/// CPU time of all threads of this process, user and system.
pub fn cpu_of_self() -> Duration {
    // SAFETY: rusage is plain data; getrusage fills it or fails without touching it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &mut usage), 0, "getrusage");
        usage
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// CPU time of all threads of another process, from `/proc/PID/stat` (resolution 10 ms).
pub fn cpu_of(pid: i32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process lives");
    let rest = stat.rsplit_once(')').expect("a command name in brackets").1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|f| f.parse::<u64>().expect("a number")).sum();
    // SAFETY: sysconf has no preconditions.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as u64;
    Duration::from_nanos(ticks * 1_000_000_000 / per_second)
}

/// Resident memory, bytes.
#[derive(Clone, Copy, Debug)]
pub struct Resident {
    /// Everything.
    pub all: u64,
    /// Of that what no file stands behind.
    pub own: u64,
}

/// Resident memory of another process.
pub fn resident_of(pid: i32) -> Resident {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let bytes = |key: &str| {
        let line = status.lines().find(|l| l.starts_with(key)).expect("a line of memory");
        line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).expect("kilobytes") * 1024
    };
    Resident { all: bytes("VmRSS:"), own: bytes("RssAnon:") }
}

/// What a piece of work took.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// Wall time.
    pub wall: Duration,
    /// CPU time of this process and the given others.
    pub cpu: Duration,
}

/// Runs `work`, counting the CPU of this process and of `others`.
pub fn timed(others: &[i32], work: impl FnOnce()) -> Took {
    let total = || cpu_of_self() + others.iter().map(|pid| cpu_of(*pid)).sum::<Duration>();
    let (cpu, start) = (total(), Instant::now());
    work();
    Took { wall: start.elapsed(), cpu: total() - cpu }
}

/// Middle value.
pub fn median(mut values: Vec<f64>) -> f64 {
    assert!(!values.is_empty(), "a median of nothing");
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn work_takes_cpu() {
        let took = timed(&[std::process::id() as i32], || {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(60) {
                std::hint::black_box(0);
            }
        });
        assert!(took.wall >= Duration::from_millis(60));
        assert!(took.cpu > Duration::ZERO);
        let memory = resident_of(std::process::id() as i32);
        assert!(memory.own > 100_000 && memory.all > memory.own);
    }
}
