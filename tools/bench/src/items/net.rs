//! `net`: LNet's self-test, bandwidth and latency between two NIDs, beside raw TCP between the same
//! addresses.
//!
//! The other end is `sheen bench net --serve ADDRESS:PORT` on its host; without a NID it is a
//! process of this host, and a second one asks for keys. Both are also reached within the
//! host. With several paths to it, one alone stands beside them. Requests are those of the file
//! system's own transport, with its links, windows and checksums, but without any work for them.

pub mod responder;
mod selftest;

use crate::failure::BenchError;
use crate::item::{Done, Item, MIB, Spot, Step, Work};
use crate::raw_tcp;
use bench_args::NetArgs;
use bench_report::figure::Unit;
use responder::Local;
use seal::credentials::Credentials;
use selftest::{Over, SelfTest};
use std::net::SocketAddr;
use types::nid::Nid;

/// Requests in flight in the steps that want many.
const IN_FLIGHT: usize = 64;
/// Large requests in flight.
const BULKS_IN_FLIGHT: usize = 8;

/// Kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Latency,
    Rate,
    Put,
    Get,
}

const TASKS: [Task; 4] = [Task::Latency, Task::Rate, Task::Put, Task::Get];

/// Name of the LNet place, and of the TCP place.
pub const LNET: &str = "LNet";
/// LNet over one path, where there are several.
pub const SINGLE: &str = "LNet, one path";
/// LNet over connections that are sealed by keys.
pub const SEALED: &str = "LNet, with keys";
/// LNet within this host, over a Unix socket.
pub const LOCAL: &str = "LNet, local";
/// The same, where both ends prove keys.
pub const LOCAL_KEYS: &str = "LNet, local, with keys";
/// See [`LNET`].
pub const RAW: &str = "raw TCP";

/// The item.
pub struct Net {
    args: NetArgs,
    test: SelfTest,
    /// The same over other ways, by their names.
    others: Vec<(&'static str, SelfTest)>,
    raw: SocketAddr,
}

impl Net {
    /// Reaches the other end. `local`: it is of this host; a second one asks for keys, by this one.
    ///
    /// # Errors
    /// There is no answer, or not from a responder.
    pub fn connect(
        args: &NetArgs,
        nid: Nid,
        local: Option<(&[Local; 2], &Credentials)>,
    ) -> Result<Net, BenchError> {
        let test = SelfTest::connect(args, nid, Over::default())?;
        let mut others = Vec::new();
        if test.paths() > 1 {
            let over = Over { one_path: true, ..Over::default() };
            others.push((SINGLE, SelfTest::connect(args, nid, over)?));
        }
        if let Some(([open, sealed], key)) = local {
            let key = Some(key);
            let over = Over { key, ..Over::default() };
            others.push((SEALED, SelfTest::connect(args, sealed.nid(), over)?));
            let over = Over { local: Some(open.folder()), ..Over::default() };
            others.push((LOCAL, SelfTest::connect(args, open.nid(), over)?));
            let over = Over { key, local: Some(sealed.folder()), ..Over::default() };
            others.push((LOCAL_KEYS, SelfTest::connect(args, sealed.nid(), over)?));
        }
        let port = test.raw_port()?;
        let Some(address) = nid.address() else {
            return Err(BenchError::Usage(
                "0@lo is this process; name a NID of TCP, or none".to_owned(),
            ));
        };
        let (args, raw) = (args.clone(), SocketAddr::new(address.ip(), port));
        Ok(Net { args, test, others, raw })
    }

    /// Places that can be measured: over several paths if there are, with keys and within the host
    /// if the other end is of this host, and raw TCP if no router stands between.
    pub fn places(&self) -> Vec<&'static str> {
        let others = self.others.iter().map(|(name, _)| *name);
        let raw = self.test.is_direct().then_some(RAW);
        [LNET].into_iter().chain(others).chain(raw).collect()
    }

    fn raw(&self, task: Task) -> Result<f64, BenchError> {
        let (pings, bytes) = (self.args.pings, self.args.size.0);
        let done = match task {
            Task::Latency => raw_tcp::pings(self.raw, pings, 1).map(|()| pings as f64),
            Task::Rate => raw_tcp::pings(self.raw, pings, IN_FLIGHT).map(|()| pings as f64),
            Task::Put => raw_tcp::put(self.raw, bytes).map(|()| bytes as f64),
            Task::Get => raw_tcp::get(self.raw, bytes).map(|()| bytes as f64),
        };
        done.map_err(|e| BenchError::Failed(format!("raw TCP to {}: {e}", self.raw)))
    }

    fn lnet(&self, test: &SelfTest, task: Task, spot: &Spot<'_>) -> Result<f64, BenchError> {
        let (pings, bulks) = (self.args.pings, (self.args.size.0 >> 20) as usize);
        match task {
            Task::Latency => test.pings(pings, 1, spot.stop).map(|()| pings as f64),
            Task::Rate => test.pings(pings, IN_FLIGHT, spot.stop).map(|()| pings as f64),
            Task::Put => test.puts(bulks, BULKS_IN_FLIGHT, spot.stop).map(|()| bulks as f64 * MIB),
            Task::Get => test.gets(bulks, BULKS_IN_FLIGHT, spot.stop).map(|()| bulks as f64 * MIB),
        }
    }
}

impl Item for Net {
    fn name(&self) -> &'static str {
        "net"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!({ "pings": self.args.pings, "bytes": self.args.size.0, "nid": self.test.nid().to_string(), "paths": self.test.paths() })
    }

    fn steps(&self) -> Vec<Step> {
        let step = |task| match task {
            Task::Latency => Step::new("round trip, one at a time", Unit::Microseconds, 1),
            Task::Rate => Step::new(format!("requests, {IN_FLIGHT} in flight"), Unit::PerSecond, 2),
            Task::Put => Step::new("to the other end, 1 MiB each", Unit::MegabytesPerSecond, 2),
            Task::Get => Step::new("from the other end, 1 MiB each", Unit::MegabytesPerSecond, 2),
        };
        TASKS.map(step).into()
    }

    fn perform(&mut self, step: usize, spot: &Spot<'_>) -> Result<Done, BenchError> {
        let task = TASKS[step];
        let amount = match &spot.place.name[..] {
            RAW => self.raw(task)?,
            name => {
                let other = self.others.iter().find(|(other, _)| *other == name);
                self.lnet(other.map_or(&self.test, |(_, test)| test), task, spot)?
            }
        };
        Ok(Done::Work(Work { amount, ..Work::default() }))
    }
}
