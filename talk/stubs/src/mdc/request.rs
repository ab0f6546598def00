//! How operations go to an MDT: as one request, seen by the keeper of the client's locks, with what
//! is asked for tickets behind them, and once more if tickets were missing (docs/security.md,
//! "Object tickets").

use super::Mdc;
use crate::misfit::unexpected;
use crate::tickets::{TicketKeeper, Uses};
use rpc::error::RpcError;
use types::credentials::Credentials;
use types::errno::Errno;
use types::lock::InodeBits;
use wire::mds::{MdsOp, MdsReply};
use wire::message::{Op, OpReply, Reply};

/// Sees the requests of an [`Mdc`] go and their replies come. The keeper of the client's locks
/// implements it.
pub trait Watch: Send + Sync {
    /// A request is about to be sent. Returns the lock bits that its reply may grant.
    fn sent(&self, ops: &[MdsOp]) -> (InodeBits, Box<dyn Sent>);
}

/// One request under way. It is dropped after [`Sent::arrived`], or without it if the caller no
/// longer waits for the reply.
pub trait Sent: Send {
    /// The reply is here, or there will be none. Runs before the caller sees it.
    fn arrived(&mut self, reply: &Result<Reply, RpcError>);
}

/// The files whose bytes these operations use, and the rights that they need; `None`: they use
/// none.
fn uses_of(ops: &[MdsOp]) -> Option<Uses> {
    let uses: Uses = ops.iter().filter_map(MdsOp::bytes_used).collect();
    (!uses.is_empty()).then_some(uses)
}

fn lacks_ticket(results: &[Result<MdsReply, Errno>]) -> bool {
    matches!(results.first(), Some(Err(Errno::ENOKEY)))
}

impl Mdc {
    pub(super) async fn call(
        &self,
        credentials: &Credentials,
        op: MdsOp,
    ) -> Result<MdsReply, RpcError> {
        match self.ask(credentials, vec![op]).await?.pop() {
            Some(result) => Ok(result?),
            None => Err(unexpected(&self.import, &"no result")),
        }
    }

    /// Several operations as one request; one result per operation. After one fails the rest answer
    /// ECANCELED. If the MDT asks for tickets, they are got, and the request is sent once more.
    ///
    /// # Errors
    /// Only if the request as a whole got no answer; EACCES: the MDT gives no ticket for it.
    pub async fn ask(
        &self,
        credentials: &Credentials,
        ops: Vec<MdsOp>,
    ) -> Result<Vec<Result<MdsReply, Errno>>, RpcError> {
        let keeper = self.tickets.as_ref().filter(|_| !self.import.is_local());
        let Some((keeper, uses)) = keeper.zip(uses_of(&ops)) else {
            return self.send(credentials, ops).await;
        };
        // It costs references to the data, and no copies.
        let again = ops.clone();
        let results = self.send(credentials, ops).await?;
        match lacks_ticket(&results) {
            false => Ok(results),
            true => Box::pin(self.ask_again(&**keeper, credentials, (again, uses))).await,
        }
    }

    /// The MDT did nothing, for want of tickets: gets some, and asks once more.
    async fn ask_again(
        &self,
        keeper: &dyn TicketKeeper,
        credentials: &Credentials,
        (ops, uses): (Vec<MdsOp>, Uses),
    ) -> Result<Vec<Result<MdsReply, Errno>>, RpcError> {
        keeper.ask_again(credentials, uses).await?;
        let results = self.send(credentials, ops).await?;
        if lacks_ticket(&results) { Err(RpcError::Errno(Errno::EACCES)) } else { Ok(results) }
    }

    async fn send(
        &self,
        credentials: &Credentials,
        mut ops: Vec<MdsOp>,
    ) -> Result<Vec<Result<MdsReply, Errno>>, RpcError> {
        let keeper = self.tickets.as_ref().filter(|keeper| keeper.is_wanted());
        let behind = keeper.and_then(|keeper| Some((keeper, keeper.behind(credentials, &ops)?)));
        let (locks, mut sent) = match &self.watch {
            Some(watch) => {
                let (locks, sent) = watch.sent(&ops);
                (locks, Some(sent))
            }
            None => (InodeBits::NONE, None),
        };
        ops.extend(behind.iter().map(|(_, asked)| MdsOp::AskTickets(asked.clone())));
        let mut reply =
            self.import.ask(credentials, ops.into_iter().map(Op::Mds).collect(), locks).await;
        let answer = match &mut reply {
            Ok(reply) if behind.is_some() => reply.results.pop(),
            _ => None,
        };
        if let Some(sent) = &mut sent {
            sent.arrived(&reply);
        }
        let mds = |result| match result {
            Ok(OpReply::Mds(reply)) => Ok(Ok(reply)),
            Ok(other) => Err(unexpected(&self.import, &other)),
            Err(errno) => Ok(Err(errno)),
        };
        let results = reply?.results.into_iter().map(mds).collect::<Result<Vec<_>, _>>()?;
        if let (Some((keeper, asked)), Some(answer)) = (behind, answer) {
            keeper.learn(credentials, &asked, &results, mds(answer)?);
        }
        Ok(results)
    }
}
