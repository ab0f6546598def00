//! From a message to its reply.
//!
//! Each FUSE thread has a descriptor of its own: it reads a message, decodes it, calls the file
//! system and polls the answer once in place. A ready answer is written at once, and no other
//! thread is woken (a hop costs 2 to 3 times the request). Only a call that must wait moves to a
//! reactor, registered so that a signal can find it; its completion writes the reply.
//!
//! **Signals.** A blocked lock wait yields to any signal. Other requests yield only to a signal
//! that kills the caller. A program whose timer ticks does not expect EINTR from `unlink`, but
//! Ctrl-C must work however long a server is away. Requests of a close (FLUSH, RELEASE, write-back)
//! are never cut short.

use crate::abi::opcode::Opcode;
use crate::buffer::{Buffer, Pool, SHARE_BYTES_MIN};
use crate::decode::{self, BadRequest, Dialect, Operation, Request};
use crate::device::{Device, Received};
use crate::filesystem::{Answer, FileSystem};
use crate::interrupt::{About, Stop, Ticket, Wait, Waiting};
use crate::jobs::Asker;
use crate::limits::{FATAL_SIGNAL_INTERVAL, LOCK_CANCEL_TIMEOUT};
use crate::notify::{NotTaken, Notifier};
use crate::process::Processes;
use crate::reply::{self, Reply};
use env::{BoxFuture, Env};
use futures_util::future::{Either, select};
use observe::cause;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use types::errno::Errno;
use types::job::JobId;

/// What all FUSE threads of a mount share.
pub(crate) struct Dispatch<F> {
    pub(crate) fs: Arc<F>,
    pub(crate) env: Env,
    pub(crate) dialect: Dialect,
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) processes: Arc<Processes>,
    pub(crate) notifier: Notifier,
    pub(crate) pool: Arc<Pool>,
}

/// When a request may be cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Yields {
    Never,
    /// By a signal that kills this thread's caller.
    WhenKilled(u32),
}

impl<F: FileSystem> Dispatch<F> {
    /// Serves `device` until the mount ends.
    pub(crate) fn serve(&self, device: &Arc<Device>) {
        let mut buffer = self.pool.take();
        loop {
            match device.receive(&mut buffer) {
                Ok(Received::Message(bytes)) => buffer = self.message(device, buffer, bytes),
                Ok(Received::Again) => {}
                Ok(Received::Ended) => return,
                Err(error) => {
                    tracing::error!(%error, "cannot read requests");
                    return;
                }
            }
        }
    }

    /// Handles one message; returns a buffer for the next.
    fn message(&self, device: &Arc<Device>, buffer: Buffer, bytes: usize) -> Buffer {
        if bytes < SHARE_BYTES_MIN {
            self.decode_and_call(device, &buffer[..bytes], None);
            return buffer;
        }
        let whole = buffer.into_bytes(bytes);
        self.decode_and_call(device, &whole, Some(&whole));
        self.pool.take()
    }

    fn decode_and_call(&self, device: &Arc<Device>, message: &[u8], whole: Option<&bytes::Bytes>) {
        let request = match decode::request(message, self.dialect) {
            Ok(request) => whole.map_or(request, |whole| request.share(whole)),
            Err(bad) => return refuse(device, message, bad),
        };
        let unique = request.header.unique;
        match request.operation {
            // The kernel's unique of an INTERRUPT is the request's with one bit set; no reply means
            // "seen".
            Operation::Interrupt { unique } => return self.waiting.interrupt(unique),
            Operation::Destroy => {
                return Responder::new(device, unique).send(Ok(Reply::Done), &self.notifier);
            }
            Operation::Init { .. } | Operation::Unsupported => {
                return Responder::new(device, unique).send(Err(Errno::ENOSYS), &self.notifier);
            }
            _ => {}
        }
        // A panic is a bug; the caller gets EIO from the dropped responder, and this thread goes
        // on.
        if catch_unwind(AssertUnwindSafe(|| self.call(device, &request))).is_err() {
            tracing::error!(opcode = request.opcode.name(), "request panicked");
        }
    }

    fn call(&self, device: &Arc<Device>, request: &Request<'_>) {
        let responder = match request.opcode {
            Opcode::Forget | Opcode::BatchForget => Responder::silent(device),
            _ => Responder::new(device, request.header.unique),
        };
        let header = &request.header;
        let closes = matches!(request.operation, Operation::Flush { .. });
        let asker = Asker { thread: header.pid, uid: header.uid, gid: header.gid, closes };
        let behalf = Behalf { cause: cause::fresh(), job: self.processes.job(asker) };
        match self.fs.call(request) {
            Answer::Inline(result) => responder.send(result, &self.notifier),
            Answer::Pending(mut future) => match behalf.poll_once(&mut future) {
                Poll::Ready(result) => responder.send(result, &self.notifier),
                Poll::Pending => self.hand_over(future, behalf, request, responder),
            },
            Answer::Cancellable { mut wait, cancel } => match behalf.poll_once(&mut wait) {
                Poll::Ready(result) => responder.send(result, &self.notifier),
                Poll::Pending => self.hand_over_lock_wait(wait, cancel, behalf, request, responder),
            },
        }
    }

    fn about(&self, cause: u64, request: &Request<'_>) -> About {
        let header = &request.header;
        About {
            opcode: request.opcode,
            node: header.nodeid,
            thread: header.pid,
            cause,
            since: self.env.clock.now(),
        }
    }

    fn hand_over(
        &self,
        future: BoxFuture<'static, Result<Reply, Errno>>,
        behalf: Behalf,
        request: &Request<'_>,
        responder: Responder,
    ) {
        let about = self.about(behalf.cause, request);
        let Some(ticket) = self.waiting.register(request.header.unique, Wait::Request, about)
        else {
            return responder.send(Err(Errno::EAGAIN), &self.notifier);
        };
        let yields = yields(request);
        let (env, processes, notifier) =
            (self.env.clone(), self.processes.clone(), self.notifier.clone());
        self.env.tasks.spawn(
            "fuse-request",
            Box::pin(async move {
                let result =
                    wait_request(behalf.follow(future), &ticket, yields, &env, &processes).await;
                responder.send(result, &notifier);
            }),
        );
    }

    fn hand_over_lock_wait(
        &self,
        wait: BoxFuture<'static, Result<Reply, Errno>>,
        cancel: BoxFuture<'static, ()>,
        behalf: Behalf,
        request: &Request<'_>,
        responder: Responder,
    ) {
        let about = self.about(behalf.cause, request);
        let Some(ticket) = self.waiting.register(request.header.unique, Wait::Lock, about) else {
            return responder.send(Err(Errno::ENOLCK), &self.notifier);
        };
        let (env, notifier) = (self.env.clone(), self.notifier.clone());
        self.env.tasks.spawn(
            "fuse-lock-wait",
            Box::pin(async move {
                let result = wait_lock(behalf.follow(wait), cancel, &ticket, &env).await;
                responder.send(result, &notifier);
            }),
        );
    }
}

/// Cause and job of a request: its number in this process, and the job of its caller.
#[derive(Debug, Clone, Copy)]
struct Behalf {
    cause: u64,
    job: JobId,
}

impl Behalf {
    fn poll<T>(self, future: &mut BoxFuture<'static, T>, context: &mut Context<'_>) -> Poll<T> {
        cause::within_job(self.job, || cause::within(self.cause, || future.as_mut().poll(context)))
    }

    /// The first poll, here and now. Its waker does nothing: the next poll comes with a real one,
    /// and finds whatever became ready in between.
    fn poll_once<T>(self, future: &mut BoxFuture<'static, T>) -> Poll<T> {
        self.poll(future, &mut Context::from_waker(Waker::noop()))
    }

    /// A waiting call keeps its cause and job, whichever thread polls it.
    fn follow<T: Send + 'static>(self, mut future: BoxFuture<'static, T>) -> BoxFuture<'static, T> {
        Box::pin(poll_fn(move |context| self.poll(&mut future, context)))
    }
}

fn yields(request: &Request<'_>) -> Yields {
    match request.operation {
        Operation::Flush { .. }
        | Operation::Release { .. }
        | Operation::Releasedir { .. }
        | Operation::Write { from_page_cache: true, .. } => Yields::Never,
        _ if request.header.pid == 0 => Yields::Never,
        _ => Yields::WhenKilled(request.header.pid),
    }
}

async fn wait_request(
    mut future: BoxFuture<'static, Result<Reply, Errno>>,
    ticket: &Ticket,
    yields: Yields,
    env: &Env,
    processes: &Processes,
) -> Result<Reply, Errno> {
    let Yields::WhenKilled(thread) = yields else {
        return match select(future, pin!(ticket.stopped(Stop::Ended))).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => Err(Errno::ENOTCONN),
        };
    };
    match select(&mut future, pin!(ticket.stopped(Stop::Signal))).await {
        Either::Left((result, _)) => return result,
        Either::Right((Stop::Ended, _)) => return Err(Errno::ENOTCONN),
        Either::Right((Stop::Signal, _)) => {}
    }
    // The kernel reports only the first signal; a deadly one may follow a harmless one.
    while !processes.is_being_killed(thread) {
        let ended = pin!(ticket.stopped(Stop::Ended));
        match select(&mut future, select(env.clock.sleep(FATAL_SIGNAL_INTERVAL), ended)).await {
            Either::Left((result, _)) => return result,
            Either::Right((Either::Left(_), _)) => {}
            Either::Right((Either::Right(_), _)) => return Err(Errno::ENOTCONN),
        }
    }
    Err(Errno::EINTR)
}

async fn wait_lock(
    mut wait: BoxFuture<'static, Result<Reply, Errno>>,
    cancel: BoxFuture<'static, ()>,
    ticket: &Ticket,
    env: &Env,
) -> Result<Reply, Errno> {
    match select(&mut wait, pin!(ticket.stopped(Stop::Signal))).await {
        Either::Left((result, _)) => return result,
        Either::Right((Stop::Ended, _)) => return Err(Errno::ENOTCONN),
        Either::Right((Stop::Signal, _)) => {}
    }
    let cancelled = pin!(async {
        cancel.await;
        env.clock.sleep(LOCK_CANCEL_TIMEOUT).await;
    });
    // The server may be away, so that even cancelling waits: the time bounds both.
    let timeout = select(cancelled, env.clock.sleep(2 * LOCK_CANCEL_TIMEOUT));
    let ended = pin!(ticket.stopped(Stop::Ended));
    match select(wait, select(timeout, ended)).await {
        Either::Left((result, _)) => result,
        Either::Right(_) => Err(Errno::EINTR),
    }
}

/// Answers a message that cannot be understood.
fn refuse(device: &Arc<Device>, message: &[u8], bad: BadRequest) {
    let Ok(header) = decode::header(message) else {
        tracing::error!(%bad, "the kernel sent something that has no header");
        return;
    };
    let errno = match bad {
        BadRequest::Opcode(_) => Errno::ENOSYS,
        BadRequest::Field { .. } => Errno::EINVAL,
        BadRequest::Length { .. } | BadRequest::Truncated { .. } | BadRequest::Name { .. } => {
            tracing::error!(%bad, "the kernel sent a bad request");
            Errno::EIO
        }
    };
    Responder::new(device, header.unique).finish(Err(errno));
}

/// The duty to answer one request, on the descriptor that it came from. Dropped unanswered (a
/// panic, a reactor that ends) it answers EIO: a caller must not hang for ever.
struct Responder {
    device: Arc<Device>,
    /// `None`: there is nothing to answer, or it was answered already.
    unique: Option<u64>,
}

impl Responder {
    fn new(device: &Arc<Device>, unique: u64) -> Responder {
        Responder { device: device.clone(), unique: Some(unique) }
    }

    fn silent(device: &Arc<Device>) -> Responder {
        Responder { device: device.clone(), unique: None }
    }

    fn send(self, result: Result<Reply, Errno>, notifier: &Notifier) {
        let (result, told) = match result {
            Ok(Reply::Told(reply, token)) => (Ok(*reply), Some(token)),
            other => (other, None),
        };
        let then = match &result {
            Ok(Reply::Written { then, .. }) => then.clone(),
            _ => None,
        };
        self.finish(result);
        drop(told);
        let Some(then) = then else { return };
        match notifier.post(then) {
            Ok(()) | Err(NotTaken::Ended) => {}
            // Not lost for ever: the write changed mtime, and AUTO_INVAL_DATA drops the pages when
            // the kernel sees that.
            Err(NotTaken::Full) => {
                tracing::warn!("too many notifications: the kernel drops stale pages later")
            }
        }
    }

    fn finish(mut self, result: Result<Reply, Errno>) {
        if let Some(unique) = self.unique.take() {
            write(&self.device, unique, result);
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if let Some(unique) = self.unique.take() {
            write(&self.device, unique, Err(Errno::EIO));
        }
    }
}

fn write(device: &Device, unique: u64, result: Result<Reply, Errno>) {
    use rustix::io::Errno as Error;
    let Some(encoded) = reply::encode(unique, result) else { return };
    match device.reply(&encoded) {
        Ok(()) => {}
        // The request was aborted, or the whole mount is gone.
        Err(error @ (Error::NOENT | Error::NODEV | Error::CONNABORTED | Error::NOTCONN)) => {
            tracing::debug!(%error, unique, "nobody waits for this reply");
        }
        Err(error) => {
            tracing::error!(%error, unique, head = ?encoded.head(), "the kernel rejects a reply");
            if let Some(failed) = reply::encode(unique, Err(Errno::EIO))
                && let Err(error) = device.reply(&failed)
            {
                tracing::debug!(%error, unique, "nor does it take an error");
            }
        }
    }
}
