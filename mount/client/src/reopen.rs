//! After an MDT restarted: this mount's open files and locks there are brought back.
//!
//! A target that recovers asks for it before it is in service ([`Restorer`]): then files whose last
//! name is gone are there, too. If it does not (it gave this client up, or lives in this process),
//! files are opened again afterwards. A file that still has a name opens under a new handle; one
//! that was unlinked stays gone, and its handle answers ESTALE.

use crate::open::{OpenFile, OpenFiles};
use data::locks::data_guards::{Loss, TO_WRITE};
use data::locks::{Locks, MdtWatch};
use env::BoxFuture;
use env::tasks::Tasks;
use layout::layout::Layout;
use rpc::error::RpcError;
use rpc::import::Import;
use rpc::import::hooks::{Restore, Restoring};
use session::fan_out::fan_out;
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use stubs::mdc::{Mdc, Watch};
use types::attr::Attr;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::ranges::{ByteRange, Needs};
use types::session::OpenHandle;
use wire::mds::{FlockSet, Lock, MdsOp, MdsReply, Open};
use wire::message::{Op, OpReply, Reply};

/// Brings back opens and locks at one MDT.
pub(crate) struct Restorer {
    locks: Arc<Locks>,
    files_open: Arc<OpenFiles>,
    /// The import keeps this, so this must not keep the import.
    import: Weak<Import>,
    mdt: u16,
}

impl Restorer {
    pub(crate) fn new(locks: Arc<Locks>, files_open: Arc<OpenFiles>, mdc: &Mdc) -> Restorer {
        let import = mdc.import();
        Restorer { locks, files_open, import: Arc::downgrade(import), mdt: import.target().index.0 }
    }
}

impl Restore for Restorer {
    fn restore(&self) -> Vec<Restoring> {
        let Some(import) = self.import.upgrade() else { return Vec::new() };
        let locks = &self.locks;
        // No client changes anything before all have done this: cached content is not wrong, but no
        // lock covers it any more.
        locks.lose(self.mdt, Loss::Restart);
        let mut all = Vec::new();
        for open in held_open(&self.files_open, self.mdt) {
            all.push(open_again(&locks.env.tasks, &import, open));
        }
        // A write or truncate under way goes on as if nothing had happened; so no other client may
        // come in between.
        let mut ours: BTreeSet<Fid> = locks.writing(self.mdt).into_iter().collect();
        ours.extend(locks.data.get().map(|data| data.dirty_files(self.mdt)).unwrap_or_default());
        let mut lost = locks.table.lock().lost_extents(self.mdt, |fid| ours.contains(&fid));
        for fid in ours {
            match lost.remove(&fid) {
                None => all.push(lock_again(locks, self.mdt, fid, None)),
                Some(ranges) => {
                    all.extend(
                        ranges.iter().map(|range| lock_again(locks, self.mdt, fid, Some(range))),
                    );
                }
            }
        }
        for (fid, lock) in locks.flocks.lock().restoring(self.mdt) {
            all.push(restoring(MdsOp::FlockSet(FlockSet { fid, lock, wait: false }), move |reply| {
                if let Some(Err(errno)) = reply.results.first() {
                    tracing::warn!(%fid, %errno, "a file lock did not survive the restart of its server");
                }
            }));
        }
        tracing::info!(target = %import.target(), things = all.len(), "bringing back what is open and locked here");
        all
    }
}

fn restoring(op: MdsOp, answered: impl FnOnce(Reply) + Send + 'static) -> Restoring {
    let (credentials, locks) = (Credentials::root(), InodeBits::NONE);
    Restoring { credentials, op: Op::Mds(op), locks, answered: Box::new(answered) }
}

fn open_again(tasks: &Arc<dyn Tasks>, import: &Arc<Import>, open: Arc<OpenFile>) -> Restoring {
    let (tasks, import) = (tasks.clone(), Arc::downgrade(import));
    open.file.distrust();
    let op = MdsOp::Open(Open { fid: open.file.fid, flags: open.mode.flags });
    let credentials = open.credentials.clone();
    let answered = move |mut reply: Reply| {
        let opened = match reply.results.pop() {
            Some(Ok(OpReply::Mds(MdsReply::Opened { entry, handle, layout, .. }))) => {
                Ok((entry.attr, handle, layout))
            }
            Some(Err(errno)) => Err(RpcError::Errno(errno)),
            _ => Err(RpcError::Errno(Errno::EPROTO)),
        };
        let import = import.upgrade();
        if let Some(import) = &import {
            open.file.rest_on(import.newest());
        }
        let unused = settle(&open, opened);
        if let (Some(handle), Some(import)) = (unused, import) {
            tasks.spawn(
                "close",
                Box::pin(async move { close_unused(&Mdc::new(import), &open, handle).await }),
            );
        }
    };
    Restoring { credentials, ..restoring(op, answered) }
}

/// Data that is dirty, or is being changed, belongs to this mount alone until it is stored: the
/// whole file, or these bytes of a shared one.
fn lock_again(locks: &Arc<Locks>, mdt: u16, fid: Fid, range: Option<ByteRange>) -> Restoring {
    let needs = range.map(|range| Needs { range, again: true });
    let op = MdsOp::Lock(Lock { fid, bits: TO_WRITE, needs });
    let (bits, mut sent) = MdtWatch { locks: locks.clone(), mdt }.sent(std::slice::from_ref(&op));
    let answered = move |reply: Reply| {
        if let Some(Err(errno)) = reply.results.first() {
            tracing::warn!(%fid, %errno, "data that was not stored has lost its file");
        }
        sent.arrived(&Ok(reply));
    };
    Restoring { locks: bits, ..restoring(op, answered) }
}

fn held_open(files_open: &OpenFiles, mdt: u16) -> Vec<Arc<OpenFile>> {
    files_open.at_server().into_iter().filter(|open| open.file.fid.mdt() == mdt).collect()
}

/// Opens again all files of this mount that `mdc` owns.
pub(crate) async fn reopen_all(files_open: Arc<OpenFiles>, mdc: Mdc) {
    let target = mdc.import().target();
    let held = held_open(&files_open, target.index.0);
    tracing::info!(%target, files = held.len(), "the target restarted; opening again what is open here");
    let work = held
        .into_iter()
        .map(|open| Box::pin(reopen(mdc.clone(), open)) as BoxFuture<'static, ()>)
        .collect();
    fan_out(work).await;
}

async fn reopen(mdc: Mdc, open: Arc<OpenFile>) {
    open.file.distrust();
    let opened = mdc.open(&open.credentials, open.file.fid, open.mode.flags).await;
    open.file.rest_on(mdc.import().newest());
    let unused =
        settle(&open, opened.map(|opened| (opened.entry.attr, opened.handle, opened.layout)));
    if let Some(handle) = unused {
        close_unused(&mdc, &open, handle).await;
    }
}

/// Result of opening again; returns a handle that is not needed any more.
fn settle(
    open: &OpenFile,
    opened: Result<(Attr, OpenHandle, Option<Arc<Layout>>), RpcError>,
) -> Option<OpenHandle> {
    let fid = open.file.fid;
    match opened {
        Ok((attr, handle, layout)) => {
            open.file.learn(&attr);
            if let Some(layout) = layout {
                open.file.learn_layout(layout);
            }
            return (!open.reopened(handle)).then_some(handle);
        }
        Err(error) if matches!(error.errno(), Errno::ENOENT | Errno::ESTALE) => {
            tracing::warn!(%fid, "an open file did not survive the restart of its server");
            open.lost();
        }
        // Reading and writing go by FID: only the protection against a last unlink is lost.
        Err(error) => tracing::warn!(%fid, %error, "open again after a restart"),
    }
    None
}

async fn close_unused(mdc: &Mdc, open: &OpenFile, handle: OpenHandle) {
    let fid = open.file.fid;
    if let Err(error) = mdc.close(&open.credentials, fid, handle).await {
        tracing::warn!(%fid, %error, "close what was opened again for nobody");
    }
}
