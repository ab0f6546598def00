//! The next files of a directory are opened and read ahead: what `ahead/files.rs` decides, asked of
//! the MDT and the OSTs.
//!
//! The MDT is asked for pieces of the listing with attributes and layouts. With them it grants what
//! an open for reading would be granted, but opens nothing: nothing must be closed, and no lease is
//! broken. Bytes are fetched as read-ahead fetches them, under DATA, and leave with it.

use crate::ahead::files::{EXPIRY, FileBatch, Run};
use crate::client::Client;
use std::sync::Arc;
use stubs::tickets::TicketKeeper;
use types::credentials::Credentials;
use types::fid::Fid;
use wire::mds::{MdsOp, Readdir};

/// Bytes of one piece of a listing, at most.
const BYTES_MAX: u32 = 1 << 20;

impl Client {
    /// A program opens a file to read it. If the MDT was asked for it, the program waits for the
    /// answer. True: it may need no request now.
    pub(crate) async fn is_opened_ahead(&self, file: Fid) -> bool {
        let coming = self.files_ahead.lock().coming(file);
        let Some(mut done) = coming else { return false };
        // An error says that it is over.
        while done.changed().await.is_ok() {}
        true
    }

    /// A program opened a file to read it; `missed`: by a request of its own.
    pub(crate) fn open_next(&self, who: &Credentials, file: Fid, missed: bool) {
        if !missed && self.files_ahead.lock().is_idle() {
            return;
        }
        if self.locks.no_open() || self.is_careful() || !self.data.ledger.may_fetch_files() {
            return;
        }
        let steps = {
            let mut table = self.locks.table.lock();
            let Some((dir, name)) = table.led_by(file) else { return };
            let listing = table.listing(dir, false).map(|(entries, _)| entries);
            let is_known = |file| table.opens_to_read(file);
            self.files_ahead.lock().opened((dir, &name, file), missed, listing, is_known)
        };
        let Some(me) = self.strong() else { return };
        if let Some(dir) = steps.dir {
            me.fetch_files(dir, steps.fetch);
        }
        if let Some(batch) = steps.ask {
            let who = who.clone();
            let work = async move { me.ask_files(&who, batch).await };
            self.session.env.tasks.spawn("open files ahead", Box::pin(work));
        }
    }

    async fn ask_files(self: &Arc<Self>, who: &Credentials, batch: FileBatch) {
        let FileBatch { dir, runs, files, done } = batch;
        let op = |Run { after, count }| {
            let (limit, bytes_max) = (count, BYTES_MAX);
            MdsOp::Readdir(Readdir {
                fid: dir,
                after,
                limit,
                bytes_max,
                with_attr: true,
                with_layout: true,
            })
        };
        if let Ok(mdc) = self.session.mdc(dir) {
            let tickets = self.session.tickets.to_read(who, &files);
            let mut ops: Vec<MdsOp> = runs.into_iter().map(op).collect();
            ops.extend(tickets.clone().map(MdsOp::AskTickets));
            // What the reply brings is learnt, with its locks, when it arrives.
            match (mdc.ask(who, ops).await, tickets) {
                (Ok(mut results), Some(asked)) => {
                    if let Some(answer) = results.pop() {
                        self.session.tickets.learn(who, &asked, &results, answer);
                    }
                }
                (Ok(_), None) => {}
                (Err(error), _) => tracing::debug!(%dir, %error, "open files ahead"),
            }
        }
        let fetch = self.files_ahead.lock().answered(dir, &files);
        self.fetch_files(dir, fetch);
        drop(done);
    }

    /// Begins to fetch the first bytes of these, and of further ones in place of those that need
    /// none.
    fn fetch_files(self: &Arc<Self>, dir: Fid, mut files: Vec<Fid>) {
        let now = self.session.env.clock.now();
        let mut begins = false;
        while !files.is_empty() {
            for (file, bytes) in self.data.fetch_first(&files) {
                begins |= self.files_ahead.lock().hold(file, bytes, now);
            }
            files = self.files_ahead.lock().next_to_fetch(dir);
        }
        if begins {
            self.let_go_in_time();
        }
    }

    /// Files that no program opens lose their bytes.
    fn let_go_in_time(self: &Arc<Self>) {
        let (me, clock) = (Arc::downgrade(self), self.session.env.clock.clone());
        let let_go = async move {
            loop {
                clock.sleep(EXPIRY / 2).await;
                let Some(me) = me.upgrade() else { return };
                let gone = me.files_ahead.lock().expire(clock.now());
                if gone.is_last {
                    return;
                }
            }
        };
        self.session.env.tasks.spawn("let go of files that no program opens", Box::pin(let_go));
    }
}
