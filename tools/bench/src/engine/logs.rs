//! `engine --log`: the same MDT with its log in its folder and in etcd, each asked over loopback
//! TCP, in turns; and a bare transaction of that etcd, which does what one commit does.

use super::etcds::Etcds;
use super::targets::{FarClient, Targets};
use super::{IN_FLIGHT, in_flight, make_dir, make_file, runtime};
use crate::daemons::Daemon;
use crate::failure::BenchError;
use crate::item::{Done, Item, Spot, Step, Work};
use crate::place::Place;
use bench_args::{EngineArgs, EtcdOfBench};
use bench_report::figure::{Role, Unit};
use bench_report::statistics::median;
use etcd::client::Etcd;
use etcd::url::Members;
use std::path::Path;
use std::time::Instant;
use store::kv::{Change, Compare, Kv, KvError, Outcome, Txn};
use tokio::runtime::Runtime;
use types::credentials::Credentials;
use types::target::{FsName, TargetName};

/// The place that is measured.
const ETCD: &str = "log in etcd";
/// Those that it stands beside.
const EMBEDDED: &str = "log in the folder";
const BARE: &str = "etcd transaction";
/// Questions in a row that get no answer before it is an error.
const UNANSWERED_MAX: u32 = 50;
/// Value of the two keys that a bare transaction compares.
const NUMBER: &str = "0000000000000001";
/// More than the log of a new MDT has.
const ENTRIES_MAX: u32 = 1000;

const CREATES: usize = 0;
const DURABLE: usize = 1;
const FSYNCS: usize = 2;

/// One MDT and its client.
struct Measured {
    runtime: Runtime,
    far: FarClient,
    targets: Targets,
}

impl Measured {
    fn start(dir: &Path, log: Option<&Members>) -> Result<Measured, BenchError> {
        let runtime = runtime()?;
        let targets = Targets::start(&runtime, dir, log)?;
        let far = targets.far_client()?;
        Ok(Measured { runtime, far, targets })
    }

    fn sync(&self) -> Result<(), BenchError> {
        let synced = self.runtime.block_on(self.far.mdc().sync(&Credentials::root()));
        synced.map(drop).map_err(BenchError::of("sync"))
    }

    fn stop(self) -> Result<(), BenchError> {
        self.far.end(&self.runtime);
        self.targets.stop(&self.runtime)
    }
}

/// The item.
pub struct Logs {
    args: EngineArgs,
    /// With the log in etcd, then with the log in the folder; gone when they are stopped.
    measured: Vec<Measured>,
    bare: Bare,
    dirs: usize,
    /// The last to go.
    etcds: Option<Etcds>,
}

impl Logs {
    /// Starts the targets in folders of `dir`, and three etcd unless others are named.
    ///
    /// # Errors
    /// Something does not start.
    pub fn start(args: &EngineArgs, log: &EtcdOfBench, dir: &Path) -> Result<Logs, BenchError> {
        let (members, etcds) = match log {
            EtcdOfBench::Named(members) => (Members::clone(members), None),
            EtcdOfBench::Own => {
                let etcds = Etcds::start(dir)?;
                let members: Result<Members, _> = etcds.url().parse();
                (members.map_err(BenchError::of("name the own etcd"))?, Some(etcds))
            }
        };
        // Keys of its own, whatever else is in that etcd.
        let name = format!("bench-{:08x}", fastrand::u32(..));
        let members = Members { name: Some(name), ..members };
        let bare = Bare::connect(&members)?;
        let mut logs = Logs { args: args.clone(), measured: Vec::new(), bare, dirs: 0, etcds };
        match logs.start_targets(&members, dir) {
            Ok(()) => Ok(logs),
            Err(error) => {
                logs.stop()?;
                Err(error)
            }
        }
    }

    fn start_targets(&mut self, members: &Members, dir: &Path) -> Result<(), BenchError> {
        for log in [Some(members), None] {
            self.measured.push(Measured::start(dir, log)?);
        }
        // What one create and its commit put into the log.
        let first = &self.measured[0];
        first.runtime.block_on(async {
            let dir = make_dir(first.far.mdc(), 0).await?;
            make_file(first.far.mdc(), dir, 0).await
        })?;
        first.sync()?;
        self.bare.learn_size()
    }

    /// The log in etcd first.
    pub fn places(&self) -> Vec<Place> {
        let pids = self.etcds.iter().flat_map(Etcds::pids);
        let etcds: Vec<Daemon> = pids.map(|pid| Daemon::new(pid, "etcd")).collect();
        vec![
            Place::bare(ETCD, Role::Target, etcds.clone()),
            Place::bare(EMBEDDED, Role::Reference, Vec::new()),
            Place::bare(BARE, Role::Reference, etcds),
        ]
    }

    /// Stops the targets, and removes what they have in etcd.
    ///
    /// # Errors
    /// Something could not be stopped in order.
    pub fn stop(self) -> Result<(), BenchError> {
        let stopped = self.measured.into_iter().map(Measured::stop).fold(Ok(()), Result::and);
        let removed = self.bare.remove_all();
        stopped.and(removed)
    }

    fn creates(&mut self, number: usize, spot: &Spot<'_>) -> Result<(), BenchError> {
        self.dirs += 1;
        let (dirs, operations) = (self.dirs, self.args.operations);
        let Measured { runtime, far, .. } = &self.measured[number];
        let dir = runtime.block_on(make_dir(far.mdc(), dirs))?;
        let mdc = far.mdc().clone();
        in_flight((far.env(), runtime, spot.stop), operations, move |n| {
            let mdc = mdc.clone();
            async move { make_file(&mdc, dir, n).await.map(drop) }
        })
    }

    /// Median time of an fsync behind one create, or of a transaction, microseconds.
    fn fsyncs(&mut self, number: usize, spot: &Spot<'_>) -> Result<f64, BenchError> {
        self.dirs += 1;
        let Logs { args, measured, bare, dirs, .. } = self;
        let at = match measured.get(number) {
            None => None,
            Some(measured) => {
                let dir = measured.runtime.block_on(make_dir(measured.far.mdc(), *dirs))?;
                measured.sync()?;
                Some((measured, dir))
            }
        };
        let mut took = Vec::with_capacity(args.fsyncs);
        for n in 0..args.fsyncs {
            spot.stop.check()?;
            if let Some((measured, dir)) = at {
                measured.runtime.block_on(make_file(measured.far.mdc(), dir, n))?;
            }
            let began = Instant::now();
            match at {
                Some((measured, _)) => measured.sync()?,
                None => bare.txn()?,
            }
            took.push(began.elapsed().as_secs_f64() * 1e6);
        }
        Ok(median(&took).expect("--fsyncs is at least 1"))
    }
}

impl Item for Logs {
    fn name(&self) -> &'static str {
        "engine"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!({
            "operations": self.args.operations, "fsyncs": self.args.fsyncs,
            "bytes_of_an_entry": self.bare.bytes,
        })
    }

    fn steps(&self) -> Vec<Step> {
        let flight = format!("loopback TCP, {IN_FLIGHT} in flight");
        vec![
            Step::new(format!("{flight}: create"), Unit::PerSecond, IN_FLIGHT),
            Step::new(format!("{flight}: create, durable"), Unit::PerSecond, IN_FLIGHT),
            Step::new("fsync after one create, p50", Unit::Microseconds, 1),
        ]
    }

    fn prepare(&mut self, _: usize, spot: &Spot<'_>) -> Result<(), BenchError> {
        // What another step left to be done is not this one's.
        self.measured.get(spot.number).map_or(Ok(()), Measured::sync)
    }

    fn perform(&mut self, step: usize, spot: &Spot<'_>) -> Result<Done, BenchError> {
        let number = spot.number;
        let operations = self.args.operations as f64;
        match step {
            FSYNCS => {
                let value = self.fsyncs(number, spot)?;
                Ok(Done::Value { value, operations: self.args.fsyncs as f64 })
            }
            CREATES | DURABLE if number < self.measured.len() => {
                self.creates(number, spot)?;
                if step == DURABLE {
                    self.measured[number].sync()?;
                }
                Ok(Done::Work(Work { amount: operations, ..Work::default() }))
            }
            _ => Ok(Done::Skipped("a transaction creates no files".to_owned())),
        }
    }
}

/// Transactions like those of a commit, without a store above them.
struct Bare {
    etcd: Etcd,
    /// What all keys of this run begin with; ends with a slash.
    folder: String,
    /// Bytes of an entry of one create.
    bytes: usize,
    done: u64,
}

impl Bare {
    fn connect(members: &Members) -> Result<Bare, BenchError> {
        let etcd = Etcd::new(members.clone(), Etcd::DEADLINE);
        let etcd = etcd.map_err(BenchError::of("use this etcd"))?;
        let folder = format!("/sheen/{}", members.keys_of(""));
        let bare = Bare { etcd, folder, bytes: 0, done: 0 };
        let puts = ["epoch", "head"].map(|name| bare.put(name, NUMBER.as_bytes().to_vec()));
        bare.ask(&Txn { then: puts.to_vec(), ..Txn::default() })?;
        Ok(bare)
    }

    fn key(&self, name: &str) -> String {
        format!("{}bare/{name}", self.folder)
    }

    fn put(&self, name: &str, value: Vec<u8>) -> Change {
        Change::Put { key: self.key(name), value, lease: 0 }
    }

    /// Bytes of the newest entry in the log of the MDT.
    fn learn_size(&mut self) -> Result<(), BenchError> {
        let mdt = TargetName::mdt(FsName::default(), 0);
        let log = format!("{}{mdt}/log", self.folder);
        let (start, end) = (format!("{log}/"), format!("{log}0"));
        let entries = patiently(|| self.etcd.range(&start, &end, ENTRIES_MAX))?;
        let newest = entries.last().map(|(_, value)| value.len());
        self.bytes = newest.ok_or_else(|| {
            BenchError::Failed("the log in etcd has no entry after a sync".to_owned())
        })?;
        Ok(())
    }

    /// One that needs two keys as they are, and puts an entry and one of the two.
    fn txn(&mut self) -> Result<(), BenchError> {
        self.done += 1;
        let is = |name: &str| Compare::Is(self.key(name), NUMBER.as_bytes().to_vec());
        let entry: Vec<u8> = (0..self.bytes).map(|_| fastrand::u8(..)).collect();
        let txn = Txn {
            compare: vec![is("epoch"), is("head")],
            then: vec![
                self.put(&format!("log/{:016x}", self.done), entry),
                self.put("head", NUMBER.as_bytes().to_vec()),
            ],
            otherwise: Vec::new(),
        };
        self.ask(&txn)
    }

    fn ask(&self, txn: &Txn) -> Result<(), BenchError> {
        match patiently(|| self.etcd.txn(txn))? {
            Outcome::Done => Ok(()),
            Outcome::Refused(_) => Err(BenchError::Failed("etcd refused a transaction".to_owned())),
        }
    }

    /// Removes all keys of this run.
    fn remove_all(&self) -> Result<(), BenchError> {
        let end = format!("{}0", self.folder.trim_end_matches('/'));
        let gone = Change::DeleteRange(self.folder.clone(), end);
        self.ask(&Txn { then: vec![gone], ..Txn::default() })
    }
}

/// Asks again if etcd does not answer: it may just choose a leader.
fn patiently<T>(ask: impl Fn() -> Result<T, KvError>) -> Result<T, BenchError> {
    let mut unanswered = 0;
    loop {
        match ask() {
            Err(KvError::NoAnswer(_)) if unanswered < UNANSWERED_MAX => unanswered += 1,
            answer => return answer.map_err(BenchError::of("use etcd")),
        }
    }
}
