//! Brings files and their objects in line where they may disagree.
//!
//! A writer reports sizes after its data went to objects. So when it vanishes (its client died, or
//! the MDT was restarted) the recorded size may be behind: the OSTs are asked, and size =
//! max(recorded, objects). A client that cuts a file cuts the record first, then the objects. So
//! after a cut the objects may be ahead: the MDT itself cuts them to the recorded size, durably,
//! and the size never grows by them. Writer marks name the files to look at, and whether they were
//! cut; a mark is removed in the transaction that settles the file. If the inode changed meanwhile
//! the answer is stale.
//!
//! No client may begin to write a file while its objects are being cut
//! ([`State::cutting`](crate::state::State)). None is cut while a client has it open for writing:
//! then its last close returns to it. WRITE is called back before, and granted to no client until
//! the cut is over. An OST that does not answer is waited for only so long, so a cut must not be
//! done later: the request has a limit ([`deadline`]), and an OST in recovery refuses it at once.

use crate::background::tasks::{Backoff, Stop};
use crate::locks::context::LockContext;
use crate::locks::turns::Entered;
use crate::mds::Mds;
use crate::records::Records;
use crate::records::part::Part;
use crate::records::tail;
use disk::inode::ItemTag;
use dlm::ibits::{Change, Names};
use foldhash::{HashMap, HashMapExt};
use futures_util::StreamExt;
use futures_util::stream;
use layout::layout::Layout;
use layout::size::{cuts, file_size};
use namespace::dom;
use namespace::inode::Inode;
use namespace::view::View;
use namespace::written::{self, Settled};
use rpc::deadline;
use rpc::error::RpcError;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::object::{FileOffset, ObjectId};

/// Files that are asked about at once.
const FILES: usize = 32;
/// Questions about one file under way at once.
const QUESTIONS: usize = 64;

/// A file is being cut; ends when dropped.
struct Cutting<'a> {
    mds: &'a Mds,
    fid: Fid,
}

impl Drop for Cutting<'_> {
    fn drop(&mut self) {
        self.mds.state.lock().cutting.remove(&self.fid);
        self.mds.cut_ended.notify_waiters();
    }
}

/// A file that no client writes, as it was found.
struct Look<'a> {
    inode: Option<Inode>,
    /// Its objects must be cut: no client begins to write it now.
    cutting: Option<Cutting<'a>>,
}

impl Mds {
    pub(crate) async fn settle_sizes(self: Arc<Mds>, mut stop: Stop) {
        let this = &self;
        let mut backoff = Backoff::new(self.settings.retry_min, self.settings.retry_max);
        loop {
            let (todo, next_due) = self.unsettled.lock().due(self.env.clock.now());
            let mut settled = stream::iter(todo)
                .map(|(fid, times)| async move { (fid, this.settle_one(fid, times).await) })
                .buffer_unordered(FILES);
            let mut left = false;
            loop {
                tokio::select! {
                    biased;
                    () = stop.stopped() => return,
                    next = settled.next() => match next {
                        Some((_, Ok(()))) => {}
                        Some((fid, Err(errno))) => {
                            tracing::debug!(%fid, %errno, "size cannot be settled yet");
                            left = true;
                        }
                        None => break,
                    }
                }
            }
            drop(settled);
            let retry = if left {
                Some(backoff.failed())
            } else {
                backoff.succeeded();
                None
            };
            let next_due = next_due.map(|due| due.saturating_sub(self.env.clock.now()));
            let wait = retry.into_iter().chain(next_due).min();
            if !self.settle.wait(&self.env, wait, &mut stop).await {
                return;
            }
        }
    }

    /// A file and its objects may disagree: look at it, but not sooner than `after` from now.
    pub(crate) fn unsettle(&self, fid: Fid, after: Duration) {
        self.unsettled.lock().add(fid, self.env.clock.now() + after);
        self.settle.wake();
    }

    /// A request waits until the file is settled: if it is in doubt, it is looked at now.
    pub(crate) fn settle_soon(&self, fid: Fid) {
        self.unsettled.lock().hasten(fid, self.env.clock.now());
        self.settle.wake();
    }

    /// Waits until the file is not being cut.
    pub(crate) async fn cut_ended(&self, fid: Fid) {
        loop {
            let ended = self.cut_ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if !self.state.lock().cutting.contains(&fid) {
                return;
            }
            ended.await;
        }
    }

    async fn settle_one(&self, fid: Fid, times: u64) -> Result<(), Errno> {
        let alone = if self.is_cut_next(fid)? { Some(self.alone(fid).await?) } else { None };
        let Some(Look { inode, cutting }) = self.look_at(fid)? else { return Ok(()) };
        if cutting.is_some() && alone.is_none() {
            // It was cut just now.
            return Err(Errno::EAGAIN);
        }
        let layout = match inode.as_ref().filter(|inode| inode.file_type() == FileType::Regular) {
            Some(inode) => tail::layout(fid, &inode.tail, ItemTag::Layout)?
                .map(|layout| (inode.attr.size, layout)),
            None => None,
        };
        let removed =
            |layout: &Layout| layout.objects(fid).any(|(ost, _)| !self.targets.is_known(ost));
        let settled = match (layout, &cutting) {
            (None, _) => None,
            // Part of it went with an OST that was removed: only the inode's own record remains.
            (Some((_, layout)), _) if removed(&layout) => None,
            (Some((size, layout)), Some(_)) => {
                // A size that a crash could still take back must not decide what is cut.
                self.store.commit().await?;
                Some(self.cut_objects(fid, &layout, size).await?)
            }
            (Some((_, layout)), None) => Some(self.ask_sizes(fid, &layout).await?),
        };
        self.store.admit_release().await?;
        let settle = |lock_context: &mut LockContext| {
            self.transact(lock_context, |records, ctx| {
                if records.state.opens.unsettle(fid) {
                    self.unsettled.lock().remove(fid);
                    return Ok(());
                }
                if !self.unsettled.lock().is_current(fid, times) {
                    return Err(Errno::EAGAIN);
                }
                let now = records.inode(fid)?;
                if let (Some(before), Some(now)) = (&inode, &now)
                    && before != now
                {
                    return Err(Errno::EAGAIN);
                }
                if let (Some(settled), Some(now)) = (settled, now) {
                    let part = Part::of_inode(&now)?;
                    let here =
                        if part.end > 0 { dom::blocks(&part.chunks(&records.tx))? } else { 0 };
                    let settled = settled.with_blocks(here);
                    written::settle(records, ctx, fid, settled)?;
                }
                records.unmark_writer(fid);
                self.unsettled.lock().remove(fid);
                Ok(())
            })
        };
        self.in_turn(&mut LockContext::own(), settle).await
    }

    /// True if the objects must be cut, as far as clients' open files do not forbid it.
    fn is_cut_next(&self, fid: Fid) -> Result<bool, Errno> {
        self.read(|records| Ok(!records.state.opens.is_written(fid) && records.marked_cut(fid)))
    }

    /// No client holds WRITE, or is granted it, until this is dropped. A client that was evicted
    /// may write before it has opened its files again.
    async fn alone(&self, fid: Fid) -> Result<Entered<'_>, Errno> {
        self.enter_for_itself(vec![Change { fid, bits: InodeBits::WRITE, names: Names::default() }])
            .await
    }

    /// Looks at the file, and begins a cut if the objects need one. `None`: a client writes the
    /// file; the last close returns to it.
    fn look_at(&self, fid: Fid) -> Result<Option<Look<'_>>, Errno> {
        let look = self.transact(&mut LockContext::own(), |records, _| {
            if records.state.opens.unsettle(fid) {
                self.unsettled.lock().remove(fid);
                return Ok(None);
            }
            let inode = records.inode(fid)?;
            let cut = inode.is_some() && records.marked_cut(fid);
            if cut {
                records.state.cutting.insert(fid);
            }
            Ok(Some((inode, cut)))
        });
        Ok(look?
            .map(|(inode, cut)| Look { inode, cutting: cut.then(|| Cutting { mds: self, fid }) }))
    }

    /// Cuts the objects to the file's size.
    async fn cut_objects(&self, fid: Fid, layout: &Layout, size: u64) -> Result<Settled, Errno> {
        let cut: HashMap<ObjectId, _> =
            cuts(layout, fid, FileOffset(size)).map(|cut| (cut.object, cut.at)).collect();
        let mut answers = stream::iter(layout.objects(fid))
            .map(|(ost, object)| {
                let at = cut.get(&object).copied();
                let mut work = match at {
                    Some(at) => self.targets.cut(ost, object, at),
                    None => {
                        let attr = self.targets.getattr(ost, object);
                        Box::pin(async move { attr.await.map(|(_, blocks)| blocks) })
                    }
                };
                // Writers are kept away until this gives up: nothing may be cut after that. What an
                // OST begins in the first half of the time has the other half to end.
                let begun_until = self.env.clock.now() + self.settings.answer_max / 2;
                let work = poll_fn(move |context| {
                    deadline::within(Some(begun_until), || work.as_mut().poll(context))
                });
                self.within(ost, work)
            })
            .buffer_unordered(QUESTIONS);
        let mut sum = 0u64;
        while let Some(blocks) = answers.next().await {
            sum = sum.saturating_add(blocks.map_err(|e| e.errno())?);
        }
        Ok(Settled::Cut { blocks: sum })
    }

    /// Size in bytes and blocks of 512, from the objects.
    async fn ask_sizes(&self, fid: Fid, layout: &Layout) -> Result<Settled, Errno> {
        let mut answers = stream::iter(layout.objects(fid))
            .map(|(ost, object)| async move {
                let (size, blocks) = self.within(ost, self.targets.getattr(ost, object)).await?;
                Ok::<_, RpcError>((object, size, blocks))
            })
            .buffer_unordered(QUESTIONS);
        let (mut sizes, mut sum) = (HashMap::new(), 0u64);
        while let Some(answer) = answers.next().await {
            let (object, size, blocks) = answer.map_err(|e| e.errno())?;
            sum = sum.saturating_add(blocks);
            sizes.insert(object, size);
        }
        let size = file_size(layout, fid, |_, object| sizes.get(&object).copied().unwrap_or(0));
        Ok(Settled::Grown { size, blocks: sum })
    }

    /// The file was cut: its mark stays until its objects are surely cut.
    pub(crate) fn doubt_tail(&self, records: &mut Records<'_>, fid: Fid) {
        records.mark_writer(fid, true);
        if !records.state.opens.is_written(fid) {
            self.unsettle(fid, self.settings.cut_after);
        }
    }
}
