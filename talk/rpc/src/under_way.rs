//! Unanswered requests, at their callers and at their servers: what a program waits for.
//!
//! A request is entered when its first poll did not answer it, and leaves when it is answered or
//! dropped. A request that is answered in place costs only a number. Bound: the requests that
//! exist. Owner: [`crate::Rpc`]; the locks are leaves, held for one insertion, one removal, or the
//! copying of one shard.

use env::clock::Monotonic;
use foldhash::HashMap;
use observe::cause;
use parking_lot::Mutex;
use std::pin::pin;
use types::fid::Fid;
use types::job::JobId;
use types::session::{ClientUuid, Xid};
use types::target::TargetName;
use wire::message::Request;

const SHARDS: usize = 16;

/// The end of the conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// It was sent from here.
    Asked,
    /// It is worked on here.
    Served,
}

/// A request without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnderWay {
    /// Its number in this process.
    pub id: u64,
    /// Cause of the request ([`observe::cause`]); 0: none.
    pub cause: u64,
    /// Since when.
    pub since: Monotonic,
    /// Whether it was sent or is served here.
    pub side: Side,
    /// Client that asks.
    pub client: ClientUuid,
    /// Target that is asked.
    pub target: TargetName,
    /// Number in their session.
    pub xid: Xid,
    /// Number of its first operation ([`wire::opcode::row`] has the name).
    pub operation: u16,
    /// Inode of its first operation; [`Fid::NONE`]: none in particular.
    pub fid: Fid,
    /// For which job.
    pub job: JobId,
}

/// All requests of one process.
#[derive(Default)]
pub(crate) struct Table {
    shards: [Mutex<HashMap<u64, UnderWay>>; SHARDS],
}

impl Table {
    fn shard(&self, id: u64) -> &Mutex<HashMap<u64, UnderWay>> {
        &self.shards[id as usize % SHARDS]
    }

    /// Those that are not answered, the oldest first.
    pub(crate) fn list(&self) -> Vec<UnderWay> {
        let mut all: Vec<UnderWay> = Vec::new();
        self.shards.iter().for_each(|shard| all.extend(shard.lock().values()));
        all.sort_unstable_by_key(|request| (request.since, request.id));
        all
    }

    /// Runs the work on a request, noted while it waits. The work itself is moved: give a large
    /// future by reference, or in a box.
    pub(crate) async fn note<F: Future>(&self, request: UnderWay, work: F) -> F::Output {
        let request = UnderWay { id: cause::fresh(), cause: cause::current(), ..request };
        let mut note = Note { table: self, request, entered: false };
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            let UnderWay { id, job, .. } = note.request;
            let answer =
                cause::within_job(job, || cause::within(id, || work.as_mut().poll(context)));
            if answer.is_pending() && !note.entered {
                note.entered = true;
                self.shard(note.request.id).lock().insert(note.request.id, note.request);
            }
            answer
        })
        .await
    }
}

/// Leaves the table when dropped.
struct Note<'a> {
    table: &'a Table,
    request: UnderWay,
    entered: bool,
}

impl Drop for Note<'_> {
    fn drop(&mut self) {
        if self.entered {
            self.table.shard(self.request.id).lock().remove(&self.request.id);
        }
    }
}

/// The facts to note of a request.
pub(crate) fn of(side: Side, client: ClientUuid, request: &Request, since: Monotonic) -> UnderWay {
    let (operation, fid) =
        request.ops.first().map_or((0, Fid::NONE), |op| (op.row().number, op.fid()));
    let Request { target, xid, job, .. } = *request;
    UnderWay { id: 0, cause: 0, since, side, client, target, xid, operation, fid, job }
}
