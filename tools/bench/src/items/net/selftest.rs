//! This end of the self-test: requests to a responder, a given number in flight.

use super::responder::{GET, PING, PUT, WHERE_IS_RAW};
use crate::failure::BenchError;
use crate::item::MIB;
use crate::raw_tcp;
use crate::stop::Stop;
use bytes::Bytes;
use env::real::{RealConfig, RealEnv, RealGuard};
use futures_util::stream::{self, StreamExt};
use lnet::link::{Handler, Link, Work};
use lnet::node::Lnet;
use lnet::payload::{Frame, HEAD_BYTES, Payload};
use lnet::peer::{Ask, Peer};
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
    /// Reaches the responder.
    ///
    /// # Errors
    /// There is no answer.
    pub fn connect(nid: Nid) -> Result<SelfTest, BenchError> {
        let (env, guard) =
            RealEnv::start(RealConfig::default()).map_err(BenchError::of("start threads"))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .map_err(BenchError::of("start a runtime"))?;
        let lnet = Lnet::new(env, ClusterId(0), true, Arc::new(Nobody));
        let peer = runtime.block_on(lnet.peer(nid)).map_err(|error| {
            BenchError::Failed(format!(
                "{error}; is `sheen bench net --serve ADDRESS:PORT` running there?"
            ))
        })?;
        let test = SelfTest { lnet, peer, runtime, _guard: guard };
        // The responder reads nothing long before it was asked something short.
        test.raw_port()?;
        Ok(test)
    }

    /// The other end.
    pub fn nid(&self) -> Nid {
        self.peer.nid()
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

    #[test]
    fn nobody_there_is_told_with_what_to_do() {
        let told = SelfTest::connect("127.0.0.1:1@tcp".parse().unwrap())
            .err()
            .expect("nobody is there")
            .to_string();
        assert!(told.contains("--serve"), "{told}");
    }
}
