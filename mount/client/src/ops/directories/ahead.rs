//! Directory read-ahead acts: what `ahead/directory.rs` decides, asked of the MDT.

use crate::ahead::directory::{Answer, Batch};
use crate::client::Client;
use std::sync::Arc;
use types::attr::FileType;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use wire::mds::{GetParent, MdsOp, MdsReply, Readdir};

/// Entries of a directory that is listed ahead; of a larger one this much is asked for in vain.
const ENTRIES_MAX: u32 = 1024;
/// The same, bytes: 64 directories fill a quarter of a message.
const BYTES_MAX: u32 = 64 << 10;

impl Client {
    /// A program begins to list a directory: others are listed ahead, and if this one is on its way
    /// the program waits for it.
    pub(crate) async fn list_ahead(self: &Arc<Self>, who: &Credentials, dir: Fid) {
        if self.statahead_max() == 0 || !self.session.has_lease(dir) || self.is_stripe(dir) {
            return;
        }
        let directories = |parent: Fid| {
            let listing = self.locks.table.lock().listing(parent, false);
            let entries = listing.iter().flat_map(|(entries, _)| entries.iter());
            entries
                .filter(|entry| entry.file_type == FileType::Directory)
                .map(|entry| entry.fid)
                .collect()
        };
        let known = self.locks.table.lock().listing(dir, false).is_some();
        let now = self.session.env.clock.now();
        let coming = self.dir_ahead.lock().visited(dir, known, directories, now);
        self.send_ahead(who);
        if let Some(mut done) = coming {
            // An error says that it is over.
            while done.changed().await.is_ok() {}
            self.dir_ahead.lock().visited(dir, true, directories, self.session.env.clock.now());
        }
    }

    /// Sends what may be sent now.
    fn send_ahead(self: &Arc<Self>, who: &Credentials) {
        loop {
            // The lock goes before anything is sent.
            let batch = self.dir_ahead.lock().next();
            let Some(batch) = batch else { return };
            let (me, who) = (self.clone(), who.clone());
            let work = async move { me.list_batch(&who, batch).await };
            self.session.env.tasks.spawn("list directories ahead", Box::pin(work));
        }
    }

    async fn list_batch(self: &Arc<Self>, who: &Credentials, batch: Batch) {
        let Batch { dirs, done } = batch;
        // What the reply brings is learnt, with its locks, when it arrives.
        let of = |fid: Fid| {
            let (limit, bytes_max) = (ENTRIES_MAX, BYTES_MAX);
            let readdir =
                Readdir { fid, after: None, limit, bytes_max, with_attr: true, with_layout: false };
            [MdsOp::Readdir(readdir), MdsOp::GetParent(GetParent { fid })]
        };
        let ops = dirs.iter().copied().flat_map(of).collect();
        let results = match dirs.first().map(|dir| self.session.mdc(*dir)) {
            Some(Ok(mdc)) => mdc.ask(who, ops).await.unwrap_or_else(|error| {
                tracing::debug!(%error, "directory read-ahead");
                Vec::new()
            }),
            _ => Vec::new(),
        };
        let mut results = results.into_iter();
        let mut answer = || match (results.next(), results.next()) {
            (Some(Ok(MdsReply::Entries { entries, more: false })), Some(Ok(_))) => {
                let directories =
                    entries.iter().filter(|entry| entry.file_type == FileType::Directory);
                let directories = directories.map(|entry| entry.fid).collect();
                Answer::Listed(entries.len(), directories)
            }
            (Some(Err(Errno::ECANCELED)), _) => Answer::Canceled,
            // No answer, gone, or too large.
            _ => Answer::Failed,
        };
        let answers = dirs.iter().map(|dir| (*dir, answer())).collect();
        self.dir_ahead.lock().answered(answers, self.session.env.clock.now());
        drop(done);
        self.send_ahead(who);
    }
}
