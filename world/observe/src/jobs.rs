//! Work of each job at one target: `job_stats`.
//!
//! A mount names the job of each request (`jobid_var`); requests without one are not counted here.
//! Bounds: [`JOBS_MAX`] jobs, and as many series per job as its target has metrics. When another
//! job comes, the one that was idle for longest goes. A job that did nothing for the cleanup
//! interval goes, too. The lock is a leaf, held for the few additions of one answered request.

use crate::metric::Metric;
use foldhash::HashMap;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use types::job::JobId;
use types::time::Timestamp;

/// Jobs of one target (about 2 KiB each).
pub const JOBS_MAX: usize = 1024;
/// Idle jobs go after this time, seconds, unless it is set otherwise.
pub const CLEANUP_SECONDS: u64 = 600;

/// Values of one kind, in the unit of their metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tally {
    /// Number of values.
    pub count: u64,
    /// Sum of the values; wraps.
    pub sum: u64,
    /// Their squares; wraps.
    pub sum_of_squares: u64,
    /// The least.
    pub min: u64,
    /// The greatest.
    pub max: u64,
}

impl Tally {
    const NONE: Tally = Tally { count: 0, sum: 0, sum_of_squares: 0, min: u64::MAX, max: 0 };

    fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
        self.sum_of_squares = self.sum_of_squares.wrapping_add(value.wrapping_mul(value));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }
}

#[derive(Clone, Debug)]
struct Job {
    begun: Duration,
    last: Duration,
    tallies: BTreeMap<&'static str, (Metric, Tally)>,
}

/// One job at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobSample {
    /// The job.
    pub job: JobId,
    /// Time of its first request, by the monotonic clock.
    pub begun: Duration,
    /// Time of its newest request.
    pub last: Duration,
    /// Its counts, by name.
    pub tallies: Vec<(Metric, Tally)>,
}

/// Jobs of one target.
#[derive(Debug)]
pub struct Jobs {
    jobs: Mutex<HashMap<JobId, Job>>,
    /// 0: idle jobs stay.
    cleanup_seconds: AtomicU64,
}

impl Default for Jobs {
    fn default() -> Jobs {
        Jobs { jobs: Mutex::default(), cleanup_seconds: AtomicU64::new(CLEANUP_SECONDS) }
    }
}

impl Jobs {
    /// A request of this job was answered at `now`: its values.
    pub fn record(&self, job: JobId, now: Duration, values: impl Iterator<Item = (Metric, u64)>) {
        let mut jobs = self.jobs.lock();
        if jobs.len() >= JOBS_MAX && !jobs.contains_key(&job) {
            self.make_room(&mut jobs, now);
        }
        let found = jobs.entry(job).or_insert_with(|| Job {
            begun: now,
            last: now,
            tallies: BTreeMap::new(),
        });
        found.last = now;
        for (metric, value) in values {
            found.tallies.entry(metric.name).or_insert((metric, Tally::NONE)).1.add(value);
        }
    }

    fn make_room(&self, jobs: &mut HashMap<JobId, Job>, now: Duration) {
        self.clean(jobs, now);
        if jobs.len() < JOBS_MAX {
            return;
        }
        let oldest = jobs.iter().map(|(job, known)| (known.last, *job)).min();
        if let Some((_, job)) = oldest {
            jobs.remove(&job);
        }
    }

    fn clean(&self, jobs: &mut HashMap<JobId, Job>, now: Duration) {
        let seconds = self.cleanup_seconds();
        if seconds > 0 {
            jobs.retain(|_, job| now.saturating_sub(job.last) < Duration::from_secs(seconds));
        }
    }

    /// Idle jobs go after this time, seconds; 0: they stay.
    pub fn cleanup_seconds(&self) -> u64 {
        self.cleanup_seconds.load(Relaxed)
    }

    /// As [`Jobs::cleanup_seconds`].
    pub fn set_cleanup_seconds(&self, seconds: u64) {
        self.cleanup_seconds.store(seconds, Relaxed);
    }

    /// Forgets one job; `false` if there is no job of that name.
    pub fn forget(&self, job: JobId) -> bool {
        self.jobs.lock().remove(&job).is_some()
    }

    /// Forgets all.
    pub fn clear(&self) {
        self.jobs.lock().clear();
    }

    /// Jobs by name; those that were idle for too long go first.
    pub fn snapshot(&self, now: Duration) -> Vec<JobSample> {
        let mut jobs = self.jobs.lock();
        self.clean(&mut jobs, now);
        let sample = |(job, known): (&JobId, &Job)| JobSample {
            job: *job,
            begun: known.begun,
            last: known.last,
            tallies: known.tallies.values().copied().collect(),
        };
        let mut samples: Vec<JobSample> = jobs.iter().map(sample).collect();
        samples.sort_unstable_by_key(|sample| sample.job);
        samples
    }

    /// `job_stats`, as Lustre writes it: YAML, a mapping for each job. `now` and `wall` are the
    /// same moment.
    pub fn text(&self, now: Duration, wall: Timestamp) -> String {
        let mut text = String::from("job_stats:\n");
        for JobSample { job, begun, last, tallies } in self.snapshot(now) {
            let ago = |moment: Duration| now.saturating_sub(moment).as_nanos() as i128;
            let time = |nanos: i128| {
                format!("{}.{:09} secs.nsecs", nanos / 1_000_000_000, nanos % 1_000_000_000)
            };
            let told = [
                ("job_id:", job.to_string()),
                ("snapshot_time:", time(wall.as_nanos() - ago(last))),
                ("start_time:", time(wall.as_nanos() - ago(begun))),
                ("elapsed_time:", time(last.saturating_sub(begun).as_nanos() as i128)),
            ];
            for (n, (name, value)) in told.iter().enumerate() {
                let mark = if n == 0 { '-' } else { ' ' };
                writeln!(text, "{mark} {name:<16} {value}").expect("a string takes all");
            }
            for (metric, Tally { count, sum, sum_of_squares, min, max }) in tallies {
                let (name, unit) = (format!("{}:", metric.name), metric.unit.word());
                writeln!(
                    text,
                    "  {name:<16} {{ samples: {count:>11}, unit: {unit:>5}, min: {min:>8}, max: {max:>8}, sum: {sum:>16}, \
                     sumsq: {sum_of_squares:>18} }}"
                )
                .expect("a string takes all");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Unit;

    const OPEN: Metric = Metric { name: "open", unit: Unit::Microseconds, help: "" };
    const WRITTEN: Metric = Metric { name: "write_bytes", unit: Unit::Bytes, help: "" };

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn the_text_is_lustre_s() {
        let jobs = Jobs::default();
        jobs.record(JobId::new(b"dd.0"), secs(5), [(OPEN, 46), (WRITTEN, 4096)].into_iter());
        jobs.record(JobId::new(b"dd.0"), secs(7), [(OPEN, 95)].into_iter());
        jobs.record(JobId::new(b"cp.500"), secs(8), std::iter::empty());
        let text = jobs.text(secs(8), Timestamp { sec: 1008, nsec: 5 });
        let expected = "\
job_stats:
- job_id:          cp.500
  snapshot_time:   1008.000000005 secs.nsecs
  start_time:      1008.000000005 secs.nsecs
  elapsed_time:    0.000000000 secs.nsecs
- job_id:          dd.0
  snapshot_time:   1007.000000005 secs.nsecs
  start_time:      1005.000000005 secs.nsecs
  elapsed_time:    2.000000000 secs.nsecs
  open:            { samples:           2, unit: usecs, min:       46, max:       95, sum:              141, sumsq:              11141 }
  write_bytes:     { samples:           1, unit: bytes, min:     4096, max:     4096, sum:             4096, sumsq:           16777216 }
";
        assert_eq!(text, expected);
    }

    fn names(jobs: &Jobs, now: Duration) -> Vec<JobId> {
        jobs.snapshot(now).into_iter().map(|sample| sample.job).collect()
    }

    #[test]
    fn a_full_table_lets_the_oldest_go() {
        let jobs = Jobs::default();
        let job = |n: usize| JobId::new(format!("job.{n}").as_bytes());
        let at = |n: usize| Duration::from_millis(n as u64);
        (0..JOBS_MAX + 10).for_each(|n| jobs.record(job(n), at(n), std::iter::empty()));
        let names = names(&jobs, at(JOBS_MAX + 10));
        assert_eq!(names.len(), JOBS_MAX);
        assert!(!names.contains(&job(9)) && names.contains(&job(10)));
    }

    #[test]
    fn idle_jobs_go() {
        let jobs = Jobs::default();
        let (a, b) = (JobId::new(b"a"), JobId::new(b"b"));
        jobs.record(a, secs(0), std::iter::empty());
        jobs.record(b, secs(1), std::iter::empty());
        assert_eq!(names(&jobs, secs(CLEANUP_SECONDS - 1)), [a, b]);
        assert_eq!(names(&jobs, secs(CLEANUP_SECONDS)), [b]);
        jobs.set_cleanup_seconds(0);
        assert_eq!(names(&jobs, secs(1 << 40)), [b]);
    }

    #[test]
    fn jobs_are_forgotten_on_demand() {
        let jobs = Jobs::default();
        for name in [&b"a"[..], b"b", b"c"] {
            jobs.record(JobId::new(name), secs(1), std::iter::empty());
        }
        assert!(jobs.forget(JobId::new(b"b")) && !jobs.forget(JobId::new(b"b")));
        assert_eq!(jobs.snapshot(secs(1)).len(), 2);
        jobs.clear();
        assert!(jobs.snapshot(secs(1)).is_empty());
    }
}
