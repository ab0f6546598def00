//! Settles sizes of files whose writer vanished (its client died, or the MDT was started anew).
//!
//! A writer reports sizes after its data went to objects, so at its death the recorded size may be behind. The OSTs are
//! asked once; size = max(recorded, objects). If the inode changed meanwhile the answer is stale, and they are asked
//! again. The writer mark goes with the settled size, in one transaction.

use crate::mds::Mds;
use crate::tail;
use crate::tasks::{Backoff, Stop};
use disk::inode::ItemTag;
use foldhash::{HashMap, HashMapExt};
use futures_util::StreamExt;
use futures_util::stream;
use layout::size::file_size;
use namespace::view::View;
use namespace::written;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::attr::FileType;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;

/// Files that are asked about at once.
const FILES: usize = 32;
/// Questions about one file under way at once.
const QUESTIONS: usize = 64;

/// Files to settle, and how often each was added: an answer that was asked for before the last time is stale. A file
/// stays here until it is settled. Bounded by the writer marks.
pub type Unsettled = BTreeMap<Fid, u64>;

impl Mds {
    pub(crate) async fn settle_sizes(self: Arc<Mds>, mut stop: Stop) {
        let this = &self;
        let mut backoff = Backoff::new(self.settings.retry_min, self.settings.retry_max);
        loop {
            let todo: Vec<(Fid, u64)> = self.unsettled.lock().iter().map(|(fid, times)| (*fid, *times)).collect();
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
            let wait = if left {
                Some(backoff.failed())
            } else {
                backoff.succeeded();
                None
            };
            if !self.settle.wait(&self.env, wait, &mut stop).await {
                return;
            }
        }
    }

    /// A writer of `fid` vanished.
    pub(crate) fn unsettle(&self, fid: Fid) {
        *self.unsettled.lock().entry(fid).or_default() += 1;
        self.settle.wake();
    }

    async fn settle_one(&self, fid: Fid, times: u64) -> Result<(), Errno> {
        let inode = self.read(|records| records.inode(fid))?;
        let sizes = match inode.as_ref().filter(|inode| inode.file_type() == FileType::Regular) {
            Some(inode) => match tail::layout(fid, &inode.tail, ItemTag::Layout)? {
                Some(layout) => Some(self.ask_sizes(fid, &layout).await?),
                None => None,
            },
            None => None,
        };
        self.store.admit_release().await?;
        let credentials = Credentials::root();
        let (result, _) = self.transact(&credentials, |records, ctx| {
            if records.state.opens.unsettle(fid) {
                // Another one writes now: after its close the OSTs are asked again; the mark stays.
                self.unsettled.lock().remove(&fid);
                return Ok(());
            }
            if self.unsettled.lock().get(&fid) != Some(&times) {
                return Err(Errno::EAGAIN);
            }
            let now = records.inode(fid)?;
            if let (Some(inode), Some(_)) = (&inode, &now)
                && now.as_ref() != Some(inode)
            {
                return Err(Errno::EAGAIN);
            }
            if let (Some((size, blocks)), Some(_)) = (sizes, now) {
                written::settle(records, ctx, fid, size, blocks)?;
            }
            records.unmark_writer(fid);
            self.unsettled.lock().remove(&fid);
            Ok(())
        });
        result
    }

    /// Size in bytes and blocks of 512, as the objects have it.
    async fn ask_sizes(&self, fid: Fid, layout: &layout::layout::Layout) -> Result<(u64, u64), Errno> {
        let mut answers = stream::iter(layout.objects(fid))
            .map(|(ost, object)| {
                let answer = self.within(ost, self.targets.getattr(ost, object));
                async move { (object, answer.await) }
            })
            .buffer_unordered(QUESTIONS);
        let (mut sizes, mut blocks_sum) = (HashMap::new(), 0u64);
        while let Some((object, answer)) = answers.next().await {
            let (size, blocks) = answer.map_err(|e| e.errno())?;
            blocks_sum = blocks_sum.saturating_add(blocks);
            sizes.insert(object, size);
        }
        let size = file_size(layout, fid, |_, object| sizes.get(&object).copied().unwrap_or(0));
        Ok((size, blocks_sum))
    }
}
