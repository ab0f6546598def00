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
use std::collections::BTreeSet;
use std::sync::Arc;
use types::attr::FileType;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;

/// Questions to OSTs under way at once.
const QUESTIONS: usize = 64;

/// Files to settle. Bounded by the writer marks.
pub type Unsettled = BTreeSet<Fid>;

impl Mds {
    pub(crate) async fn settle_sizes(self: Arc<Mds>, mut stop: Stop) {
        let mut backoff = Backoff::new(self.settings.retry_min, self.settings.retry_max);
        loop {
            let todo = std::mem::take(&mut *self.unsettled.lock());
            let mut left = Unsettled::new();
            for fid in todo {
                let settled = tokio::select! {
                    settled = self.settle_one(fid) => settled,
                    () = stop.stopped() => return,
                };
                if let Err(errno) = settled {
                    tracing::debug!(%fid, %errno, "size cannot be settled yet");
                    left.insert(fid);
                }
            }
            let wait = if left.is_empty() {
                backoff.succeeded();
                None
            } else {
                Some(backoff.failed())
            };
            self.unsettled.lock().append(&mut left);
            if !self.settle.wait(&self.env, wait, &mut stop).await {
                return;
            }
        }
    }

    /// A writer of `fid` vanished.
    pub(crate) fn unsettle(&self, fid: Fid) {
        self.unsettled.lock().insert(fid);
        self.settle.wake();
    }

    async fn settle_one(&self, fid: Fid) -> Result<(), Errno> {
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
            if records.state.opens.has_writers(fid) {
                // Its last close decides; the mark stays.
                return Ok(());
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
            Ok(())
        });
        result
    }

    /// Size in bytes and blocks of 512, as the objects have it.
    async fn ask_sizes(&self, fid: Fid, layout: &layout::layout::Layout) -> Result<(u64, u64), Errno> {
        let mut answers = stream::iter(layout.objects(fid))
            .map(|(ost, object)| {
                let answer = self.targets.getattr(ost, object);
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
