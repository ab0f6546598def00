//! The links of a process: they are made, driven to their end, counted, and looked over.
//!
//! Each link has a task. One more task looks for overdue requests each second; it starts with the
//! first link.

use crate::driver::Driver;
use crate::error::LinkError;
use crate::greet::{self, Greeted, Line};
use crate::link::{Ends, Handler, Link};
use crate::local;
use crate::nets::Way;
use crate::rails::Path;
use crate::road::{self, Road};
use crate::seal::{Reach, Read, Write};
use crate::shared::Shared;
use env::net::Watcher;
use env::watch;
use futures_util::future::{Either, select};
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::oneshot;
use types::limits::HOPS_MAX;
use types::nid::Nid;
use types::session::Pairing;
use wire::hello::Purpose;

/// Overdue requests are looked for this often.
const SWEEP: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct Links {
    pub(crate) shared: Arc<Shared>,
    handler: Arc<dyn Handler>,
    live: Mutex<Vec<Weak<Link>>>,
    /// Tasks that live.
    tasks: watch::Sender<usize>,
    sweeping: AtomicBool,
}

/// Counts as a task until dropped.
pub(crate) struct Task {
    links: Arc<Links>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.links.tasks.send_modify(|count| *count -= 1);
    }
}

impl Links {
    /// `handler` gets the requests of all links.
    pub(crate) fn new(shared: Arc<Shared>, handler: Arc<dyn Handler>) -> Arc<Links> {
        let (tasks, sweeping) = (watch::Sender::new(0), AtomicBool::new(false));
        Arc::new(Links { shared, handler, live: Mutex::default(), tasks, sweeping })
    }

    /// Counts a task until the result is dropped.
    pub(crate) fn task(self: &Arc<Self>) -> Task {
        self.tasks.send_modify(|count| *count += 1);
        Task { links: self.clone() }
    }

    /// Tasks that live now.
    pub(crate) fn tasks(&self) -> usize {
        *self.tasks.borrow()
    }

    /// Ready once no task lives.
    pub(crate) async fn ended(&self) {
        let mut tasks = self.tasks.subscribe();
        // No error: the sender is here.
        let _ = tasks.wait_for(|count| *count == 0).await;
    }

    pub(crate) fn live(&self) -> Vec<Arc<Link>> {
        self.live.lock().iter().filter_map(Weak::upgrade).collect()
    }

    fn enrol(self: &Arc<Self>, link: &Arc<Link>) {
        let mut live = self.live.lock();
        if live.len() == live.capacity() {
            live.retain(|link| link.strong_count() > 0);
        }
        live.push(Arc::downgrade(link));
        drop(live);
        if !self.sweeping.swap(true, Ordering::AcqRel) {
            let (links, task) = (self.clone(), self.task());
            self.shared
                .env
                .tasks
                .spawn("sweep links", Box::pin(async move { links.sweep(task).await }));
        }
    }

    async fn sweep(self: Arc<Self>, _task: Task) {
        let clock = &self.shared.env.clock;
        let mut stopped = pin!(self.shared.stopped());
        let mut before = clock.now();
        while let Either::Left(_) = select(clock.sleep(SWEEP), &mut stopped).await {
            let now = clock.now();
            // If this process itself stood still, first read what the peers sent meanwhile.
            let stood_still = now.saturating_sub(before) > 3 * SWEEP;
            before = now;
            for link in self.live() {
                link.expire(now);
                if !stood_still {
                    link.close_if_idle(now);
                }
            }
        }
    }

    /// Drives a link to its end.
    pub(crate) async fn run(self: &Arc<Self>, link: Arc<Link>, read: Read) {
        self.enrol(&link);
        let driver = Driver::new(link.clone(), self.handler.clone(), read);
        if self.shared.is_stopping() {
            link.close(LinkError::Shutdown);
        }
        driver.await;
    }

    /// Makes a connection; a task on a reactor of its choice drives it, and calls `on_end` at its
    /// end. If the caller is gone before it stands, it is dropped.
    pub(crate) async fn open(
        self: &Arc<Self>,
        call: Call,
        on_end: Box<dyn FnOnce(LinkError) + Send>,
    ) -> Result<Arc<Link>, LinkError> {
        let nid = call.path.to;
        let (made, outcome) = oneshot::channel();
        let (links, task) = (self.clone(), self.task());
        let drive = async move {
            let _task = task;
            match greet::in_time(&links.shared, nid, connect(&links.shared, call)).await {
                Err(error) => {
                    // The receiver is gone: the caller was dropped.
                    let _ = made.send(Err(error));
                }
                Ok((link, read)) => {
                    if made.send(Ok(link.clone())).is_err() {
                        return;
                    }
                    links.run(link.clone(), read).await;
                    let gone = || LinkError::Lost { nid, reason: "closed".to_owned() };
                    on_end(link.closed().unwrap_or_else(gone));
                }
            }
        };
        self.shared.env.tasks.spawn_apart("link", Box::pin(drive));
        outcome.await.unwrap_or(Err(LinkError::Shutdown))
    }
}

/// A connection that is to be made.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) path: Path,
    pub(crate) purpose: Purpose,
    /// What it shows: all connections to a peer show the same.
    pub(crate) pairing: Pairing,
}

/// A connection before its greeting.
struct Begun {
    line: Line,
    /// NID of this end.
    source: Nid,
    round_trip: Option<Duration>,
    watcher: Watcher,
}

/// The connection, once the node has proved its key, if keys are asked for.
async fn line(
    shared: &Shared,
    nid: Nid,
    (read, write): (Read, Write),
    reach: Reach,
) -> Result<Line, LinkError> {
    match shared.seal() {
        Some(seal) => {
            seal.call(nid, read, write, reach).await.map(|sealed| Line::sealed(sealed, reach))
        }
        None => Ok(Line::plain(None, read, write, reach)),
    }
}

/// Reaches the node, which proves its key if keys are asked for. What is heard before it has done
/// so may come from a router that lies: then the next one is asked.
async fn begin(shared: &Shared, path: Path) -> Result<Begun, LinkError> {
    let nid = path.to;
    if shared.nets.way(nid, shared.env.clock.now()) == Way::Direct
        && let Some((mut stream, source)) = local::connect(shared, nid)
    {
        let (round_trip, watcher) = (stream.round_trip(), stream.watcher());
        let line = line(shared, nid, stream.split(), Reach::Host).await?;
        return Ok(Begun { line, source, round_trip, watcher });
    }
    let mut asked = Vec::new();
    loop {
        let Road { read, write, gateway, source, round_trip, watcher } =
            road::open(shared, path, HOPS_MAX, false).await?;
        match (line(shared, nid, (read, write), Reach::Network).await, gateway) {
            (Ok(line), gateway) => {
                gateway.into_iter().for_each(|gateway| shared.nets.answered(gateway));
                return Ok(Begun { line, source, round_trip, watcher });
            }
            (Err(error), None) => return Err(error),
            (Err(error), Some(gateway)) => {
                tracing::debug!(%nid, %gateway, %error, "no server is proven behind this router");
                shared.nets.failed(gateway, shared.env.clock.now());
                // Each is asked once: there are ROUTES_MAX at most.
                if asked.contains(&gateway) {
                    return Err(behind(nid, gateway, error));
                }
                asked.push(gateway);
            }
        }
    }
}

/// What went wrong behind a router is not for sure what the node says.
fn behind(nid: Nid, gateway: Nid, error: LinkError) -> LinkError {
    match error {
        LinkError::Key { reason, .. } => LinkError::Connect {
            nid,
            reason: format!("the router {gateway} leads to none that proves to be it: {reason}"),
        },
        error => error,
    }
}

async fn connect(shared: &Arc<Shared>, call: Call) -> Result<(Arc<Link>, Read), LinkError> {
    let Call { path, purpose, pairing } = call;
    let nid = path.to;
    let Begun { line, source, round_trip, watcher } = begin(shared, path).await?;
    let Greeted { ends, read, write } =
        greet::call(shared, (source, nid), (purpose, pairing), line).await?;
    if ends.paths.len() > 1 {
        // Where another one works as well, a silent one is left soon.
        watcher();
    }
    let ends = Ends { round_trip, ..ends };
    Ok((Link::new(shared.clone(), ends, write, None), read))
}
