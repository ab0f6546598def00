//! Cost of requests, counted once: at the client for each import, at the server for each target.
//!
//! A request is timed from where it is made (server: where it is handled) to its answer. Each of
//! its operations gets the time of the whole request, because that is what its caller waited. The
//! series are those of [`observe::registry`], named as in Lustre's parameter tree:
//! `osc.sheen-OST0000-osc-<id>`, `mdt.sheen-MDT0000`. The cost is two clock readings and a few
//! relaxed additions for each request. A request that is dropped before its answer counts in no
//! series.

use env::clock::Monotonic;
use observe::histogram::Histogram;
use observe::jobs::Jobs;
use observe::metric::{Metric, Unit};
use observe::registry::Registry;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use types::job::JobId;
use types::session::ClientUuid;
use types::target::{TargetKind, TargetName};
use wire::class::{Changes, Counted};
use wire::mds::{MdsOp, MdsReply, Store, Write};
use wire::message::{Op, OpReply, Reply};
use wire::opcode::ROWS;
use wire::ost::{ObjectWrite, OstOp, OstReply};

/// After a source's name: the series of its `rpc_stats`.
pub const RPC_STATS: &str = "/rpc";

const fn time(name: &'static str, help: &'static str) -> Metric {
    Metric { name, unit: Unit::Microseconds, help }
}

const WAIT: Metric = time("req_waittime", "Time from the making of a request to its answer.");
const ACTIVE: Metric = Metric {
    name: "req_active",
    unit: Unit::Requests,
    help: "Requests without an answer, seen by each new one.",
};
const READ_BYTES: Metric =
    Metric { name: "read_bytes", unit: Unit::Bytes, help: "Data read by one request." };
const WRITE_BYTES: Metric =
    Metric { name: "write_bytes", unit: Unit::Bytes, help: "Data written by one request." };
const READS: Metric = Metric {
    name: "reads_in_flight",
    unit: Unit::Requests,
    help: "Reading requests in flight, seen by each new one.",
};
const WRITES: Metric = Metric {
    name: "writes_in_flight",
    unit: Unit::Requests,
    help: "Writing requests in flight, seen by each new one.",
};
const CHANGES: Metric = Metric {
    name: "changes_in_flight",
    unit: Unit::Requests,
    help: "Requests in flight that change something, seen by each new one.",
};

/// A server's names of operations, in the order of [`Counted`]: Lustre's in `md_stats` and
/// `obdfilter.*.stats` where it has one.
const SERVED: [Metric; Counted::Other as usize + 1] = [
    time("open", "Opens, also those that make the file."),
    time("close", "Closes."),
    time("mknod", "Files, symbolic links and special files made."),
    time("mkdir", "Directories made."),
    time("link", "Hard links made."),
    time("unlink", "Names removed."),
    time("rmdir", "Directories removed."),
    time("rename", "Names moved."),
    time("getattr", "Attributes read."),
    time("setattr", "Attributes changed."),
    time("getxattr", "Extended attributes read."),
    time("setxattr", "Extended attributes set or removed."),
    time("statfs", "Questions for space."),
    time("sync", "Requests that wait for the disk."),
    time("lookup", "Names looked up."),
    time("readpage", "Pages of directories read."),
    time("readlink", "Symbolic links read."),
    time("get_layout", "Layouts read or instantiated."),
    time("wrote", "Sizes and times that writers told."),
    time("flock", "File locks tested, taken and released."),
    time("ldlm_enqueue", "Locks waited for."),
    time("ldlm_cancel", "Locks given up."),
    time("read", "Reads of data."),
    time("write", "Writes of data."),
    time("punch", "Cuts and allocations of data."),
    time("seek", "Searches for data and holes."),
    time("destroy", "Removals of objects."),
    time("grant", "Space granted and given back."),
    time(
        "config",
        "Questions for the configuration, the time that they were kept waiting included.",
    ),
    time("report", "Reports of how processes are."),
    time("other", "Everything else."),
];

/// Its place in [`SERVED`].
fn served_place(op: &Op) -> usize {
    op.class().counted as usize
}

fn called_place(op: &Op) -> usize {
    let number = op.row().number;
    ROWS.binary_search_by_key(&number, |row| row.number)
        .expect("the macro makes the row and the number together")
}

fn called_metric(place: usize) -> Metric {
    time(
        ROWS[place].name,
        "Operations of this kind, from the making of their request to its answer.",
    )
}

/// The name of an import in the parameter tree. Sessions of servers (which answer no callbacks) are
/// `osp`.
pub(crate) fn source_of_import(target: TargetName, client: ClientUuid, of_mount: bool) -> String {
    let id = client.0 as u64;
    match (target.kind, of_mount) {
        (TargetKind::Mgt, _) => format!("mgc.{target}-{id:016x}"),
        (TargetKind::Mdt, true) => format!("mdc.{target}-mdc-{id:016x}"),
        (TargetKind::Ost, true) => format!("osc.{target}-osc-{id:016x}"),
        (TargetKind::Mdt | TargetKind::Ost, false) => format!("osp.{target}-osc-{id:016x}"),
    }
}

/// The name of a served target in the parameter tree.
pub fn source_of_target(target: TargetName) -> String {
    match target.kind {
        TargetKind::Mgt => format!("mgs.{target}"),
        TargetKind::Mdt => format!("mdt.{target}"),
        TargetKind::Ost => format!("obdfilter.{target}"),
    }
}

/// A histogram that is listed from its first value on.
#[derive(Default)]
struct Lazy(OnceLock<Arc<Histogram>>);

impl Lazy {
    fn record(&self, stats: &CallStats, metric: Metric, part: &str, value: u64) {
        let series = || stats.registry.histogram(metric, &format!("{}{part}", stats.source));
        self.0.get_or_init(series).record(value);
    }
}

/// The series of one import, or of one served target.
pub(crate) struct CallStats {
    registry: Arc<Registry>,
    source: String,
    served: bool,
    by_operation: Box<[Lazy]>,
    wait: Lazy,
    active: Lazy,
    read_bytes: Lazy,
    write_bytes: Lazy,
    reads: Lazy,
    writes: Lazy,
    changes: Lazy,
    in_flight: AtomicUsize,
    reads_in_flight: AtomicUsize,
    writes_in_flight: AtomicUsize,
    changes_in_flight: AtomicUsize,
    timeouts: AtomicU64,
    /// Of a target: by job, where the mount named one.
    jobs: Arc<Jobs>,
}

impl CallStats {
    fn new(registry: Arc<Registry>, source: String, served: bool, operations: usize) -> CallStats {
        CallStats {
            registry,
            source,
            served,
            by_operation: (0..operations).map(|_| Lazy::default()).collect(),
            wait: Lazy::default(),
            active: Lazy::default(),
            read_bytes: Lazy::default(),
            write_bytes: Lazy::default(),
            reads: Lazy::default(),
            writes: Lazy::default(),
            changes: Lazy::default(),
            in_flight: AtomicUsize::new(0),
            reads_in_flight: AtomicUsize::new(0),
            writes_in_flight: AtomicUsize::new(0),
            changes_in_flight: AtomicUsize::new(0),
            timeouts: AtomicU64::new(0),
            jobs: Arc::default(),
        }
    }

    /// Of an import.
    pub(crate) fn of_import(registry: Arc<Registry>, source: String) -> CallStats {
        CallStats::new(registry, source, false, ROWS.len())
    }

    /// Of a served target.
    pub(crate) fn of_target(registry: Arc<Registry>, target: TargetName) -> CallStats {
        CallStats::new(registry, source_of_target(target), true, SERVED.len())
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Counts by job.
    pub(crate) fn jobs(&self) -> &Arc<Jobs> {
        &self.jobs
    }

    /// Requests without an answer: all, reading, writing, changing.
    pub(crate) fn in_flight(&self) -> [usize; 4] {
        [&self.in_flight, &self.reads_in_flight, &self.writes_in_flight, &self.changes_in_flight]
            .map(|count| count.load(Relaxed))
    }

    /// Requests that were not answered in time.
    pub(crate) fn timeouts(&self) -> u64 {
        self.timeouts.load(Relaxed)
    }

    pub(crate) fn timed_out(&self) {
        self.timeouts.fetch_add(1, Relaxed);
    }

    /// A request starts.
    pub(crate) fn begin(&self, ops: &[Op], job: JobId, now: Monotonic) -> Started<'_> {
        let mut started = Started {
            stats: self,
            at: now,
            job,
            places: SmallVec::new(),
            reads: false,
            written: 0,
            writes: false,
            changes: false,
        };
        for op in ops {
            started
                .places
                .push(if self.served { served_place(op) } else { called_place(op) } as u8);
            match op {
                Op::Ost(OstOp::Read(_)) | Op::Mds(MdsOp::Read(_)) => started.reads = true,
                Op::Ost(OstOp::Write(ObjectWrite { data, .. }))
                | Op::Mds(MdsOp::Write(Write { data, .. })) => {
                    started.writes = true;
                    started.written += data.len() as u64;
                }
                Op::Mds(MdsOp::Store(Store { pieces, .. })) => {
                    started.writes = true;
                    started.written +=
                        pieces.iter().map(|(_, data)| data.len() as u64).sum::<u64>();
                }
                _ => started.changes |= op.class().changes == Changes::Store,
            }
        }
        let more = |count: &AtomicUsize| count.fetch_add(1, Relaxed) as u64 + 1;
        let active = more(&self.in_flight);
        self.active.record(self, ACTIVE, "", active);
        if started.reads {
            self.reads.record(self, READS, RPC_STATS, more(&self.reads_in_flight));
        }
        if started.writes {
            self.writes.record(self, WRITES, RPC_STATS, more(&self.writes_in_flight));
        }
        if started.changes {
            self.changes.record(self, CHANGES, RPC_STATS, more(&self.changes_in_flight));
        }
        started
    }
}

impl Drop for CallStats {
    fn drop(&mut self) {
        self.registry.forget(&self.source);
        self.registry.forget(&format!("{}{RPC_STATS}", self.source));
    }
}

/// A request under way.
#[must_use]
pub(crate) struct Started<'a> {
    stats: &'a CallStats,
    at: Monotonic,
    job: JobId,
    places: SmallVec<[u8; 16]>,
    reads: bool,
    writes: bool,
    changes: bool,
    written: u64,
}

impl Started<'_> {
    /// The request was answered.
    pub(crate) fn answered(self, now: Monotonic, reply: &Reply) {
        let stats = self.stats;
        let micros = now.saturating_sub(self.at).as_micros() as u64;
        stats.wait.record(stats, WAIT, "", micros);
        for place in &self.places {
            let place = usize::from(*place);
            let metric = if stats.served { SERVED[place] } else { called_metric(place) };
            stats.by_operation[place].record(stats, metric, "", micros);
        }
        let mut read = 0;
        if self.writes {
            stats.write_bytes.record(stats, WRITE_BYTES, "", self.written);
        }
        if self.reads {
            let bytes = |result: &Result<OpReply, _>| match result {
                Ok(
                    OpReply::Ost(OstReply::Data(data)) | OpReply::Mds(MdsReply::Data { data, .. }),
                ) => data.len() as u64,
                _ => 0,
            };
            read = reply.results.iter().map(bytes).sum();
            stats.read_bytes.record(stats, READ_BYTES, "", read);
        }
        if stats.served && !self.job.is_none() {
            let operations = self.places.iter().map(|place| (SERVED[usize::from(*place)], micros));
            let written = self.writes.then_some((WRITE_BYTES, self.written));
            let read = self.reads.then_some((READ_BYTES, read));
            stats.jobs.record(self.job, now, operations.chain(written).chain(read));
        }
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        let less = |is: bool, count: &AtomicUsize| {
            if is {
                count.fetch_sub(1, Relaxed);
            }
        };
        less(true, &self.stats.in_flight);
        less(self.reads, &self.stats.reads_in_flight);
        less(self.writes, &self.stats.writes_in_flight);
        less(self.changes, &self.stats.changes_in_flight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::registry::Value;
    use std::time::Duration;
    use types::fid::Fid;
    use types::object::{ObjectId, ObjectOffset};
    use types::session::{Transno, Xid};
    use wire::mds::Getattr;
    use wire::ost::ObjectRead;

    #[test]
    fn places_fit_and_names_are_there() {
        assert!(ROWS.len() <= 256 && SERVED.len() <= 256);
        for op in [Op::Ping, Op::Mds(MdsOp::Statfs), Op::Ost(OstOp::Statfs), Op::Mds(MdsOp::Sync)] {
            assert!(served_place(&op) < SERVED.len());
            assert_eq!(called_metric(called_place(&op)).name, op.row().name);
        }
        for row in ROWS {
            let name = format!("{:?}", row.class.counted).to_lowercase();
            assert_eq!(
                SERVED[row.class.counted as usize].name.replace('_', ""),
                name,
                "of {}",
                row.name
            );
        }
        let mut names: Vec<_> = SERVED.iter().map(|m| m.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SERVED.len());
    }

    #[test]
    fn a_request_counts_once_it_is_answered() {
        let registry = Arc::new(Registry::default());
        let target = TargetName::mdt(Default::default(), 0);
        let stats = CallStats::of_target(registry.clone(), target);
        let ops = [Op::Mds(MdsOp::Getattr(Getattr::of(Fid::ROOT))), Op::Mds(MdsOp::Sync)];
        let dropped = stats.begin(&ops, JobId::NONE, Duration::ZERO);
        let answered = stats.begin(&ops, JobId::NONE, Duration::from_secs(1));
        assert_eq!(stats.in_flight(), [2, 0, 0, 0]);
        answered.answered(
            Duration::from_millis(1007),
            &Reply::new(Xid(1), Transno(0), Transno(0), Vec::new()),
        );
        drop(dropped);
        assert_eq!(stats.in_flight(), [0; 4]);
        let shown: Vec<_> = registry
            .snapshot(|source| source == "mdt.sheen-MDT0000")
            .into_iter()
            .map(|sample| match sample.value {
                Value::Histogram(h) => (sample.metric.name, h.count(), h.max),
                Value::Counter(_) => panic!("no counters here"),
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("getattr", 1, 7000),
                ("req_active", 2, 2),
                ("req_waittime", 1, 7000),
                ("sync", 1, 7000)
            ]
        );
        drop(stats);
        assert!(
            registry.snapshot(|_| true).is_empty(),
            "a target that is gone is listed no longer"
        );
    }

    #[test]
    fn a_job_counts_at_the_target_only() {
        let registry = Arc::new(Registry::default());
        let (ost, job) = (TargetName::ost(Default::default(), 0), JobId::new(b"dd.0"));
        let target = CallStats::of_target(registry.clone(), ost);
        let import = CallStats::of_import(registry, "osc.a".to_owned());
        let object = ObjectId { fid: Fid::ROOT, instance: 1, stripe: 0 };
        let ops = [Op::Ost(OstOp::Read(ObjectRead { object, offset: ObjectOffset(0), len: 9 }))];
        let data = OpReply::Ost(OstReply::Data(bytes::Bytes::from_static(b"12345")));
        let reply = Reply::new(Xid(1), Transno(0), Transno(0), vec![Ok(data)]);
        for (stats, job) in [(&target, job), (&target, JobId::NONE), (&import, job)] {
            stats.begin(&ops, job, Duration::from_secs(1)).answered(Duration::from_secs(2), &reply);
        }
        assert!(import.jobs().snapshot(Duration::from_secs(2)).is_empty());
        let [sample] = &target.jobs().snapshot(Duration::from_secs(2))[..] else {
            panic!("one job")
        };
        let told: Vec<_> = sample
            .tallies
            .iter()
            .map(|(metric, tally)| (metric.name, tally.count, tally.sum))
            .collect();
        assert_eq!(
            (sample.job, &told[..]),
            (job, &[("read", 1, 1_000_000), ("read_bytes", 1, 5)][..])
        );
    }
}
