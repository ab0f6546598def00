//! A client that asks MDTs by hand, in a cluster whose servers die when a test says so.

pub mod cuts;

use env::Env;
use parking_lot::Mutex;
use rpc::error::RpcError;
use rpc::import::Import;
use rpc::service::Service;
use rpc::{Rpc, RpcConfig};
use sim::cluster::Cluster;
use sim::fault_profile::Commits;
use simenv::machine::{MachineId, Process};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use types::credentials::Credentials;
use types::errno::Errno;
use types::name::Name;
use types::nid::Nid;
use types::session::ClientUuid;
use types::target::{TargetIndex, TargetName};
use wire::mds::{MdsOp, MdsReply};
use wire::message::{Op, OpReply};

const COMMITS: Commits = Commits { interval: Duration::from_millis(50), pace_ms: (1, 100) };
/// Number of the server of the first MDT: the MGS comes first.
pub const FIRST_MDT: usize = 1;

pub fn run(cluster: &Cluster, time: Duration) {
    cluster.world.run_until(cluster.world.now() + time);
    assert_eq!(cluster.world.failures(), [] as [String; 0]);
}

/// A client that sends requests by hand.
pub struct Client {
    pub env: Env,
    pub process: Arc<Process>,
    pub import: Arc<Import>,
}

pub type Answer = Arc<Mutex<Option<Result<MdsReply, RpcError>>>>;

impl Client {
    pub fn new(cluster: &Cluster, number: u128, machine: Option<MachineId>) -> Client {
        let machine = machine.unwrap_or_else(|| cluster.world.machine(0));
        let (env, process) = cluster.world.start(machine);
        let import = Client::import(cluster, &env, number, 0);
        Client { env, process, import }
    }

    pub fn import(cluster: &Cluster, env: &Env, number: u128, mdt: u16) -> Arc<Import> {
        let of = cluster.mdt(TargetIndex(mdt)).expect("a served MDT").cluster();
        let rpc = Rpc::new(env.clone(), RpcConfig { cluster: of, checksums: true });
        let nid = Nid::Tcp(SocketAddr::new(
            cluster.servers[FIRST_MDT + usize::from(mdt)].machine.ip(),
            988,
        ));
        let target = TargetName::mdt(Default::default(), mdt);
        rpc.import(target, vec![nid], ClientUuid(number), format!("client {number}"), None)
    }

    pub fn ask(&self, op: MdsOp) -> Answer {
        let (answer, import) = (Answer::default(), self.import.clone());
        let slot = answer.clone();
        let ask = async move {
            let result = match import.one(&Credentials::root(), Op::Mds(op)).await {
                Ok(OpReply::Mds(reply)) => Ok(reply),
                Ok(other) => panic!("{other:?}"),
                Err(error) => Err(error),
            };
            *slot.lock() = Some(result);
        };
        self.env.tasks.spawn("ask", Box::pin(ask));
        answer
    }

    /// Asks, and runs the world until it is answered.
    pub fn asks(&self, cluster: &Cluster, op: MdsOp) -> Result<MdsReply, Errno> {
        let answer = self.ask(op);
        for _ in 0..30_000 {
            run(cluster, Duration::from_millis(2));
            if let Some(answer) = answer.lock().take() {
                return answer.map_err(|error| error.errno());
            }
        }
        panic!("no answer in a minute");
    }
}

pub fn name(name: &str) -> Name {
    Name::new(name.as_bytes()).expect("a short name")
}

/// Bundles that are recorded anywhere.
pub fn bundles(cluster: &Cluster) -> usize {
    cluster.mdt_records().iter().filter(|record| record.key[0] == b'U').count()
}

/// Waits until all servers are back, and ten seconds more: then nothing is under way.
pub fn assert_at_rest(cluster: &Cluster, what: &str) {
    for _ in 0..120 {
        if cluster.is_recovered() {
            break;
        }
        run(cluster, Duration::from_millis(500));
    }
    assert!(cluster.is_recovered(), "{what}: not recovered");
    run(cluster, Duration::from_secs(10));
    assert_eq!(bundles(cluster), 0, "{what}: something is under way");
}

pub fn start(seed: u64, mdts: u16) -> (Cluster, Client) {
    sim::log::start();
    let cluster = Cluster::start(seed, mdts, COMMITS, false);
    run(&cluster, Duration::from_secs(5));
    let client = Client::new(&cluster, 1, None);
    (cluster, client)
}
