//! The report of this process (docs/dash.md): one picture from the counters that `lctl get_param`
//! and `/metrics` read.

use crate::watch::status::{LogHost, LogStatus, NodeState};
use crate::watch::view::View;
use crate::watch::waits;
use client::client::Client;
use data::cache::DataTarget;
use mds::mds::Mds;
use mds::recovery::window::Phase;
use observe::histogram::HistogramSnapshot;
use observe::jobs::JobSample;
use observe::registry::{Sample, Value};
use oss::ost::Ost;
use rpc::import::Import;
use rpc::stats::source_of_target;
use std::path::Path;
use std::sync::Arc;
use target::Target;
use types::attr::Statfs;
use types::nid::Nid;
use types::target::{TargetKind, TargetName};
use wire::report::{
    BUCKETS_MAX, Counts, JOBS_PER_TARGET_MAX, JobCount, LogHostReport, LogReport, MountReport,
    NodeReport, OperationCount, Recovery, SessionReport, SpaceReport, TargetReport,
};

/// Directories whose names move, and operations that wait, that are told of one MDT.
const MOVES_MAX: usize = 4;

/// Microseconds of a tick of `/proc/*/stat`.
const TICK_MS: u64 = 10;

/// The present state of this process.
pub fn make(view: &View) -> NodeReport {
    let samples = view.parts().rpc.metrics().snapshot(|_| true);
    let alive = view.alive();
    let mut targets: Vec<TargetReport> = Vec::new();
    targets.extend(
        alive.mgs().map(|(_, target)| of_target(view, &samples, TargetName::mgs(), &target)),
    );
    targets.extend(alive.mdts().iter().map(|(mdt, target)| of_mdt(view, &samples, mdt, target)));
    targets.extend(
        alive.osts().iter().filter_map(|(ost, target)| of_ost(view, &samples, ost, target)),
    );
    let mut mounts = Vec::new();
    for (client, waiting, at) in alive.mounts() {
        mounts.push(of_mount(&samples, &client, waiting.count(), &at));
    }
    let mut report = NodeReport {
        host: view.parts().host.clone(),
        place: view.place(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        state: state_word(view.state()).to_owned(),
        uptime_ms: view.uptime().as_millis() as u64,
        http: view.http().map(|addr| addr.to_string()).unwrap_or_default(),
        memory_bytes: memory_bytes().unwrap_or(0),
        cpu_ms: cpu_ms().unwrap_or(0),
        nids: view.parts().rpc.nids().iter().map(Nid::to_string).collect(),
        targets,
        mounts,
        waits: waits::list(view),
        logs: view.logs().iter().map(|log| of_log(log.seen())).collect(),
    };
    report.clip();
    report
}

fn of_log(seen: LogStatus) -> LogReport {
    let LogStatus { target, epoch, first, head, hosts, trouble, .. } = seen;
    let host =
        |LogHost { host, owner, applied, .. }: LogHost| LogHostReport { host, owner, applied };
    let hosts = hosts.into_iter().map(host).collect();
    LogReport { target, epoch, first, head, hosts, trouble: trouble.unwrap_or_default() }
}

fn state_word(state: NodeState) -> &'static str {
    match state {
        NodeState::Starting => "starting",
        NodeState::Up => "up",
        NodeState::Stopping => "stopping",
        NodeState::Down => "down",
    }
}

fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn cpu_ms() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which may hold anything: state is field 3; user and system time are fields
    // 14 and 15.
    let mut fields = text.rsplit(')').next()?.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some((next()? + next()?) * TICK_MS)
}

fn space(statfs: Result<Statfs, types::errno::Errno>) -> Option<SpaceReport> {
    let Statfs { bytes_total, bytes_free, files_total, files_free, .. } = statfs.ok()?;
    Some(SpaceReport { bytes_total, bytes_free, files_total, files_free })
}

fn of_target(view: &View, samples: &[Sample], name: TargetName, target: &Target) -> TargetReport {
    let (counts, operations) = counted(samples, &source_of_target(name));
    let store = target.store();
    let time = store.commits().time.snapshot();
    TargetReport {
        name: name.to_string(),
        failure: store.failure().map(|failure| failure.to_string()).unwrap_or_default(),
        space: None,
        sessions: view.parts().rpc.exports(name).len() as u32,
        counts: Counts { in_flight: view.parts().rpc.serving(name) as u32, ..counts },
        operations,
        commits: OperationCount {
            name: "commit".to_owned(),
            count: time.count(),
            micros: time.sum,
        },
        uncommitted_bytes: store.bytes_uncommitted() as u64,
        jobs: view
            .parts()
            .rpc
            .jobs(name)
            .map(|jobs| busiest(jobs.snapshot(view.parts().env.clock.now())))
            .unwrap_or_default(),
        ..TargetReport::default()
    }
}

fn of_mdt(view: &View, samples: &[Sample], mdt: &Arc<Mds>, target: &Target) -> TargetReport {
    let (locks, lock_waits) = mdt.lock_counts();
    TargetReport {
        space: space(mdt.totals()),
        locks: locks as u64,
        lock_waits: lock_waits as u32,
        open_files: mdt.open_count() as u64,
        recovery: recovery(mdt),
        moves: moves(mdt),
        ..of_target(view, samples, mdt.name(), target)
    }
}

/// What moves there, and what waits for other MDTs.
fn moves(mdt: &Mds) -> Vec<String> {
    let dirs = mdt.dir_moves(MOVES_MAX).into_iter().map(|moves| moves.to_string());
    dirs.chain(mdt.bundle_waits(MOVES_MAX).into_iter().map(|waits| waits.to_string())).collect()
}

/// Jobs that moved or asked most: a request counts as much as a page of data.
fn busiest(jobs: Vec<JobSample>) -> Vec<JobCount> {
    let mut all: Vec<JobCount> = jobs.iter().map(job_count).collect();
    all.sort_by_key(|job| {
        std::cmp::Reverse(job.operations + (job.read_bytes + job.written_bytes) / 4096)
    });
    all.truncate(JOBS_PER_TARGET_MAX);
    all
}

fn job_count(JobSample { job, tallies, .. }: &JobSample) -> JobCount {
    let mut count = JobCount { job: job.to_string(), ..JobCount::default() };
    for (metric, tally) in tallies {
        match metric.name {
            "read_bytes" => count.read_bytes = tally.sum,
            "write_bytes" => count.written_bytes = tally.sum,
            _ => count.operations += tally.count,
        }
    }
    count
}

/// `None`: it is in service.
fn recovery(mdt: &Mds) -> Option<Recovery> {
    let report = mdt.recovery();
    (report.phase != Phase::Open).then_some(Recovery {
        expected: report.clients as u32,
        back: report.connected as u32,
        left_ms: report.left.as_millis() as u64,
    })
}

fn of_ost(
    view: &View,
    samples: &[Sample],
    ost: &Arc<Ost>,
    target: &Target,
) -> Option<TargetReport> {
    Some(TargetReport {
        space: space(ost.statfs()),
        granted_bytes: ost.granted(),
        ..of_target(view, samples, target.name()?, target)
    })
}

fn of_mount(samples: &[Sample], client: &Client, waiting: usize, at: &Path) -> MountReport {
    let mdts = client.session().mdts().into_iter().map(|mdc| mdc.import().clone());
    let osts = client.session().osts().into_iter().map(|osc| osc.import().clone());
    let operation = |(name, times): (&str, HistogramSnapshot)| OperationCount {
        name: name.to_owned(),
        count: times.count(),
        micros: times.sum,
    };
    MountReport {
        client: client.session().uuid().instance().to_string(),
        fsname: client.session().fsname().to_string(),
        at: at.display().to_string(),
        open_files: client.open_count() as u64,
        inodes: client.nodes().count() as u64,
        waiting: waiting as u32,
        locks: client.lock_namespace().count() as u64,
        dirty_bytes: client.writeback().bytes(),
        operations: client
            .counters()
            .times()
            .into_iter()
            .filter(|(_, times)| times.count() > 0)
            .map(operation)
            .collect(),
        sessions: mdts.chain(osts).map(|import| of_session(samples, client, &import)).collect(),
    }
}

fn of_session(samples: &[Sample], client: &Client, import: &Import) -> SessionReport {
    let report = import.report();
    let TargetName { kind, index, .. } = import.target();
    let (counts, _) = counted(samples, import.source());
    SessionReport {
        target: import.target().to_string(),
        state: crate::manage::params::state_word(report.state),
        window: report.window.unwrap_or(0) as u32,
        granted_bytes: if kind == TargetKind::Ost {
            client.writeback().grants.free(DataTarget::Ost(index))
        } else {
            0
        },
        counts: Counts { in_flight: report.in_flight as u32, ..counts },
    }
}

/// Counts of one source: all requests, and each operation.
fn counted(samples: &[Sample], source: &str) -> (Counts, Vec<OperationCount>) {
    let mut counts = Counts::default();
    let mut operations = Vec::new();
    for sample in samples.iter().filter(|sample| *sample.source == *source) {
        let Value::Histogram(histogram) = &sample.value else { continue };
        match sample.metric.name {
            "req_waittime" => {
                counts.requests = histogram.count();
                counts.micros = histogram.sum;
                counts.times = times(histogram);
            }
            "read_bytes" => counts.read_bytes = histogram.sum,
            "write_bytes" => counts.written_bytes = histogram.sum,
            "req_active" => {}
            name => {
                let (count, micros) = (histogram.count(), histogram.sum);
                operations.push(OperationCount { name: name.to_owned(), count, micros });
            }
        }
    }
    (counts, operations)
}

/// Buckets without the empty ones at the end; what is beyond the last counts in it.
fn times(histogram: &HistogramSnapshot) -> Vec<u64> {
    let (kept, beyond) = histogram.buckets.split_at(BUCKETS_MAX);
    let mut times = kept.to_vec();
    times[BUCKETS_MAX - 1] += beyond.iter().sum::<u64>();
    let used = times.iter().rposition(|n| *n > 0).map_or(0, |last| last + 1);
    times.truncate(used);
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::metric::{Metric, Unit};
    use observe::registry::Registry;

    #[test]
    fn a_source_becomes_counts() {
        let registry = Registry::default();
        let series = |name, unit| registry.histogram(Metric { name, unit, help: "" }, "mdt.a");
        [3, 5]
            .into_iter()
            .for_each(|micros| series("req_waittime", Unit::Microseconds).record(micros));
        series("mkdir", Unit::Microseconds).record(3);
        series("write_bytes", Unit::Bytes).record(4096);
        series("req_active", Unit::Requests).record(1);
        registry
            .histogram(Metric { name: "mkdir", unit: Unit::Microseconds, help: "" }, "mdt.b")
            .record(9);
        let (counts, operations) = counted(&registry.snapshot(|_| true), "mdt.a");
        assert_eq!((counts.requests, counts.micros, counts.written_bytes), (2, 8, 4096));
        assert_eq!(counts.times, [0, 0, 1, 1]);
        assert_eq!(operations, [OperationCount { name: "mkdir".into(), count: 1, micros: 3 }]);
    }

    #[test]
    fn the_busiest_jobs_are_told() {
        let jobs = observe::jobs::Jobs::default();
        let metric = |name, unit| Metric { name, unit, help: "" };
        let (open, written) =
            (metric("open", Unit::Microseconds), metric("write_bytes", Unit::Bytes));
        let now = std::time::Duration::ZERO;
        for n in 0..2 * JOBS_PER_TARGET_MAX as u64 {
            let job = types::job::JobId::new(format!("job.{n}").as_bytes());
            jobs.record(job, now, [(open, 1), (open, 1), (written, n << 20)].into_iter());
        }
        let told = busiest(jobs.snapshot(now));
        assert_eq!(told.len(), JOBS_PER_TARGET_MAX);
        let most = JobCount {
            job: "job.63".into(),
            operations: 2,
            read_bytes: 0,
            written_bytes: 63 << 20,
        };
        assert_eq!(told[0], most);
    }

    #[test]
    fn the_process_knows_itself() {
        assert!(memory_bytes().unwrap() > 1 << 16);
        assert!(cpu_ms().is_some());
    }
}
