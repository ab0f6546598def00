//! Fault points at the door: requests and replies that are lost or late on purpose.
//!
//! Only requests over the network pass here, and only while something is armed. TCP loses no
//! message alone, so with a message its connection is lost: the other side connects again and sends
//! again, as it would.

use env::Env;
use lnet::error::LinkError;
use lnet::link::{Link, Work};
use observe::fault::{self, Act, Point};
use std::sync::Arc;
use std::time::Duration;
use types::errno::Errno;
use wire::mds::MdsOp;
use wire::message::{Op, Request};
use wire::ost::OstOp;

/// Points that an operation passes on its way in and out.
fn points(op: &Op) -> (Vec<&'static Point>, Vec<&'static Point>) {
    match op {
        op if op.class().reint => (
            vec![&fault::MDS_REINT_NET],
            vec![&fault::MDS_REINT_NET_REP, &fault::MDS_ALL_REPLY_NET],
        ),
        Op::Mds(MdsOp::Close(_)) => (
            vec![&fault::MDS_CLOSE_NET],
            vec![&fault::MDS_CLOSE_NET_REP, &fault::MDS_ALL_REPLY_NET],
        ),
        Op::Mds(MdsOp::Lock(_)) => (
            vec![&fault::LDLM_ENQUEUE_NET],
            vec![&fault::MDS_LDLM_REPLY_NET, &fault::MDS_ALL_REPLY_NET],
        ),
        Op::Mds(MdsOp::PeerPrepare(_)) => (
            vec![&fault::MDS_PEER_PREPARE],
            vec![&fault::MDS_PEER_PREPARED, &fault::MDS_ALL_REPLY_NET],
        ),
        Op::Mds(MdsOp::PeerApply(_)) => (
            vec![&fault::MDS_PEER_APPLY],
            vec![&fault::MDS_PEER_APPLIED, &fault::MDS_ALL_REPLY_NET],
        ),
        Op::Mds(_) => (vec![], vec![&fault::MDS_ALL_REPLY_NET]),
        Op::Ost(OstOp::Write(_)) => (
            vec![&fault::OST_BRW_WRITE_BULK, &fault::OST_BRW_PAUSE_BULK],
            vec![&fault::OST_WRITE_REPLY],
        ),
        Op::Ost(OstOp::Read(_)) => {
            (vec![&fault::OST_BRW_READ_BULK, &fault::OST_BRW_PAUSE_BULK], vec![])
        }
        Op::Client(_) => (vec![&fault::LDLM_BL_CALLBACK_NET], vec![]),
        _ => (vec![], vec![]),
    }
}

fn lose(link: &Link, point: &'static Point) {
    link.close(LinkError::Lost { nid: link.nid(), reason: format!("fault point {}", point.name) });
}

/// A request that goes on under watch.
pub(crate) struct Watched {
    delay: Duration,
    leaving: Vec<&'static Point>,
}

/// What becomes of a request that passes the points on its way in.
pub(crate) enum Coming {
    GoesOn(Watched),
    /// Every operation is answered with this.
    Fails(Errno),
    /// Its link is lost.
    Lost,
}

/// Takes a request past the points on its way in.
pub(crate) fn coming(link: &Link, request: &Request) -> Coming {
    let mut delay = Duration::ZERO;
    let mut leaving: Vec<&'static Point> = Vec::new();
    let mut coming: Vec<&'static Point> = vec![&fault::PTLRPC_PAUSE_REQ];
    for op in &request.ops {
        let (before, after) = points(op);
        coming.extend(before);
        leaving.extend(after);
    }
    // Once for each request, however many operations it has.
    for points in [&mut coming, &mut leaving] {
        points.sort_unstable_by_key(|point| point.name);
        points.dedup_by_key(|point| point.name);
    }
    for point in coming {
        match fault::hit(point) {
            None => {}
            Some(Act::Delay(more)) => delay += more,
            Some(Act::Fail(errno)) => return Coming::Fails(Errno(errno)),
            Some(Act::Drop) => {
                lose(link, point);
                return Coming::Lost;
            }
        }
    }
    Coming::GoesOn(Watched { delay, leaving })
}

impl Watched {
    /// Its work, with the points on the way out.
    pub(crate) fn work(self, env: Env, link: Arc<Link>, work: Work) -> Work {
        let Work { future, waits, .. } = work;
        let watched = async move {
            if !self.delay.is_zero() {
                env.clock.sleep(self.delay).await;
            }
            let payload = future.await;
            for point in self.leaving {
                match fault::hit(point) {
                    // It is done: it cannot fail any more.
                    None | Some(Act::Fail(_)) => {}
                    Some(Act::Delay(delay)) => env.clock.sleep(delay).await,
                    Some(Act::Drop) => {
                        lose(&link, point);
                        return None;
                    }
                }
            }
            payload
        };
        Work { future: Box::pin(watched), waits, room: None }
    }
}
