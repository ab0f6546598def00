//! This end of the self-test: requests to a responder, a given number in flight.

use super::responder::{GET, PING, PUT, WHERE_IS_RAW, keys};
use crate::failure::BenchError;
use crate::item::MIB;
use crate::raw_tcp;
use crate::stop::Stop;
use bench_args::NetArgs;
use bytes::Bytes;
use env::real::{RealConfig, RealEnv, RealGuard};
use futures_util::stream::{self, StreamExt};
use lnet::link::{Handler, Link, Work};
use lnet::node::Lnet;
use lnet::payload::{Frame, HEAD_BYTES, Payload};
use lnet::peer::{Ask, Peer};
use node::host::interfaces::all_rails;
use seal::credentials::Credentials;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use types::nid::Nid;
use types::session::ClusterId;

/// The other end answers within this time, or not at all.
const LIMIT: Duration = Duration::from_secs(60);

/// The handler of this end, which gets no requests.
struct Nobody;

impl Handler for Nobody {
    fn request(&self, _link: &Arc<Link>, _frame: Frame) -> Work {
        Work { future: Box::pin(async { None }), waits: false, room: None }
    }
}

/// What a responder is reached over.
#[derive(Clone, Copy, Default)]
pub struct Over<'a> {
    /// One path, and not all of them.
    pub one_path: bool,
    /// It asks for this key; absent: for none.
    pub key: Option<&'a Credentials>,
    /// Its local socket is in this folder; absent: over the network.
    pub local: Option<&'a Path>,
}

/// A connection to a responder.
pub struct SelfTest {
    lnet: Lnet,
    peer: Arc<Peer>,
    runtime: Runtime,
    // Last: the others run on its threads.
    _guard: RealGuard,
}

fn lost(error: lnet::error::LinkError) -> BenchError {
    BenchError::Failed(format!("the self-test: {error}"))
}

impl SelfTest {
    /// Reaches the responder, over the networks and routes of `args`.
    ///
    /// # Errors
    /// There is no answer, or no such interface here.
    pub fn connect(args: &NetArgs, nid: Nid, over: Over<'_>) -> Result<SelfTest, BenchError> {
        let (env, guard) =
            RealEnv::start(RealConfig::default()).map_err(BenchError::of("start threads"))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .map_err(BenchError::of("start a runtime"))?;
        let keys = over.key.map(|key| keys(key, &env)).transpose()?;
        let lnet = Lnet::new(env, ClusterId(0), true, Arc::new(Nobody));
        if let Some(keys) = keys {
            lnet.set_seal(keys);
        }
        lnet.set_nets(&args.networks.names());
        let rails = all_rails(&args.networks).map_err(|e| BenchError::Usage(e.to_string()))?;
        rails.into_iter().for_each(|(net, rails)| lnet.set_rails(net, rails));
        for route in args.routes.each() {
            // The argument names ROUTES_MAX at most.
            lnet.add_route(route);
        }
        lnet.set_single_path(over.one_path);
        lnet.set_local(over.local.map(Path::to_owned));
        let peer = runtime.block_on(lnet.peer(nid)).map_err(|error| {
            BenchError::Failed(format!(
                "{error}; is `sheen bench net --serve ADDRESS:PORT` running there?"
            ))
        })?;
        let test = SelfTest { lnet, peer, runtime, _guard: guard };
        if over.local.is_some() && test.peer.nids().iter().any(|nid| nid.local < nid.links) {
            return Err(BenchError::Failed(format!("{nid} is not reached within this host")));
        }
        // The responder reads nothing long before it was asked something short.
        test.raw_port()?;
        Ok(test)
    }

    /// The other end.
    pub fn nid(&self) -> Nid {
        self.peer.nid()
    }

    /// Paths to the other end.
    pub fn paths(&self) -> usize {
        self.peer.paths()
    }

    /// True if no router stands between.
    pub fn is_direct(&self) -> bool {
        self.lnet.is_direct(self.nid())
    }

    /// Port at which the responder answers raw TCP.
    ///
    /// # Errors
    /// The peer is no responder.
    pub fn raw_port(&self) -> Result<u16, BenchError> {
        let frame =
            self.runtime.block_on(ask(&self.peer, vec![WHERE_IS_RAW], None, 0)).map_err(lost)?;
        let port = frame
            .body
            .get(HEAD_BYTES..)
            .and_then(|body| body.try_into().ok())
            .map(u16::from_le_bytes);
        port.ok_or_else(|| {
            BenchError::Failed(format!("{} is no responder of this benchmark", self.nid()))
        })
    }

    /// Small requests.
    ///
    /// # Errors
    /// The other end is lost, or the user ended the run. The same holds for the others.
    pub fn pings(&self, count: usize, in_flight: usize, stop: &Stop) -> Result<(), BenchError> {
        let mut body = vec![PING];
        body.resize(raw_tcp::PING, 7);
        self.many(count, in_flight, stop, || ask(&self.peer, body.clone(), None, 0))
    }

    /// Requests with 1 MiB of data.
    ///
    /// # Errors
    /// As [`SelfTest::pings`].
    pub fn puts(&self, count: usize, in_flight: usize, stop: &Stop) -> Result<(), BenchError> {
        let data = Bytes::from(vec![0x5a; MIB as usize]);
        self.many(count, in_flight, stop, || ask(&self.peer, vec![PUT], Some(data.clone()), 0))
    }

    /// Replies with 1 MiB of data.
    ///
    /// # Errors
    /// As [`SelfTest::pings`].
    pub fn gets(&self, count: usize, in_flight: usize, stop: &Stop) -> Result<(), BenchError> {
        let mut body = vec![GET];
        body.extend((MIB as u32).to_le_bytes());
        self.many(count, in_flight, stop, || ask(&self.peer, body.clone(), None, MIB as usize))
    }

    fn many<F>(
        &self,
        count: usize,
        in_flight: usize,
        stop: &Stop,
        one: impl Fn() -> F,
    ) -> Result<(), BenchError>
    where
        F: Future<Output = Result<Frame, lnet::error::LinkError>>,
    {
        self.runtime.block_on(async {
            let mut answers = stream::iter((0..count).map(|_| one())).buffer_unordered(in_flight);
            while let Some(answer) = answers.next().await {
                answer.map_err(lost)?;
                stop.check()?;
            }
            Ok(())
        })
    }
}

impl Drop for SelfTest {
    fn drop(&mut self) {
        self.runtime.block_on(self.lnet.shutdown());
    }
}

async fn ask(
    peer: &Peer,
    body: Vec<u8>,
    data: Option<Bytes>,
    reply_bulk: usize,
) -> Result<Frame, lnet::error::LinkError> {
    let payload =
        Payload { body: body.into(), bulk: data.into_iter().collect(), ..Payload::default() };
    let frame = peer
        .request(
            payload,
            Ask { reply_bulk, limit: Some(LIMIT), outside_window: false, background: false },
        )
        .await?;
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_args::{Bench, Item};
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        bench: Bench,
    }

    #[test]
    fn nobody_there_is_told_with_what_to_do() {
        let told = |words: &str| {
            let cli = Cli::parse_from(["bench", "net"].into_iter().chain(words.split(' ')));
            let Item::Net { args, .. } = cli.bench.item else { panic!("it is net") };
            let nid = args.nid.expect("it is named");
            SelfTest::connect(&args, nid, Over::default())
                .err()
                .expect("nobody is there")
                .to_string()
        };
        let said = told("127.0.0.1:1@tcp");
        assert!(said.contains("--serve"), "{said}");
        let said = told("10.0.0.1:1@tcp1");
        assert!(said.contains("not on the network tcp1"), "{said}");
    }
}
