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
/// Transactions that got no answer before it is an error.
const UNANSWERED_MAX: u32 = 50;
/// Bytes that are left of an epoch and a head under keys.
const NUMBER: &str = "0000000000000001";

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
        for log in [Some(&members), None] {
            logs.measured.push(Measured::start(dir, log)?);
        }
        // What one create and its commit put into the log.
        let first = &logs.measured[0];
        first.runtime.block_on(async {
            let dir = make_dir(first.far.mdc(), 0).await?;
            make_file(first.far.mdc(), dir, 0).await
        })?;
        first.sync()?;
        logs.bare.learn_size()?;
        Ok(logs)
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
    pub fn stop(mut self) -> Result<(), BenchError> {
        let measured = std::mem::take(&mut self.measured);
        measured.into_iter().map(Measured::stop).fold(Ok(()), Result::and)?;
        self.bare.remove_all()
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
        let mut took = Vec::with_capacity(self.args.fsyncs);
        let dir = match self.measured.get(number) {
            None => None,
            Some(Measured { runtime, far, .. }) => {
                Some(runtime.block_on(make_dir(far.mdc(), self.dirs))?)
            }
        };
        if let Some(measured) = self.measured.get(number) {
            measured.sync()?;
        }
        for n in 0..self.args.fsyncs {
            spot.stop.check()?;
            let began = match (self.measured.get(number), dir) {
                (Some(measured), Some(dir)) => {
                    measured.runtime.block_on(make_file(measured.far.mdc(), dir, n))?;
                    let began = Instant::now();
                    measured.sync()?;
                    began
                }
                _ => {
                    let began = Instant::now();
                    self.bare.txn()?;
                    began
                }
            };
            took.push(began.elapsed().as_secs_f64() * 1e6);
        }
        median(&took).ok_or_else(|| BenchError::Usage("--fsyncs must be 1 or more".to_owned()))
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
    /// What its keys begin with.
    prefix: String,
    /// Bytes of an entry of one create.
    bytes: usize,
    done: u64,
}

impl Bare {
    fn connect(members: &Members) -> Result<Bare, BenchError> {
        let etcd = Etcd::new(members.clone(), Etcd::DEADLINE);
        let etcd = etcd.map_err(BenchError::of("use this etcd"))?;
        let prefix = format!("/sheen/{}", members.keys_of("bare"));
        let bare = Bare { etcd, prefix, bytes: 0, done: 0 };
        let puts = ["epoch", "head"].map(|name| bare.put(name, NUMBER.as_bytes().to_vec()));
        bare.ask(&Txn { then: puts.to_vec(), ..Txn::default() })?;
        Ok(bare)
    }

    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }

    fn put(&self, name: &str, value: Vec<u8>) -> Change {
        Change::Put { key: self.key(name), value, lease: 0 }
    }

    /// Bytes of the newest entry in the log of the MDT.
    fn learn_size(&mut self) -> Result<(), BenchError> {
        let mdt = TargetName::mdt(FsName::default(), 0);
        let folder = self.prefix.trim_end_matches("bare");
        let (start, end) = (format!("{folder}{mdt}/log/"), format!("{folder}{mdt}/log0"));
        let mut asked = 0;
        let entries = loop {
            match self.etcd.range(&start, &end, u32::MAX >> 1) {
                Err(KvError::NoAnswer(_)) if asked < UNANSWERED_MAX => asked += 1,
                answer => break answer.map_err(BenchError::of("read the log in etcd"))?,
            }
        };
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
        let mut unanswered = 0;
        loop {
            match self.etcd.txn(txn) {
                Ok(Outcome::Done) => return Ok(()),
                Ok(Outcome::Refused(_)) => {
                    return Err(BenchError::Failed("etcd refused a transaction".to_owned()));
                }
                // It may just choose a leader.
                Err(KvError::NoAnswer(_)) if unanswered < UNANSWERED_MAX => unanswered += 1,
                Err(error) => return Err(BenchError::of("use etcd")(error)),
            }
        }
    }

    /// Removes all keys of this run.
    fn remove_all(&self) -> Result<(), BenchError> {
        let folder = self.prefix.trim_end_matches("/bare");
        let gone = Change::DeleteRange(format!("{folder}/"), format!("{folder}0"));
        self.ask(&Txn { then: vec![gone], ..Txn::default() })
    }
}
