//! The next files of a directory are opened and read ahead: what `ahead/files.rs` decides, asked of
//! the MDT and the OSTs.
//!
//! The MDT is asked for pieces of the listing with attributes and layouts. With them it grants what
//! an open for reading would be granted, but opens nothing: nothing must be closed, and no lease is
//! broken. Bytes are fetched as read-ahead fetches them, under DATA, and leave with it.

use crate::ahead::files::{EXPIRY, FileBatch, FilesAhead, OnLookup, Run, Steps};
use crate::client::Client;
use data::file::File;
use observe::cause;
use std::sync::Arc;
use stubs::tickets::TicketKeeper;
use types::credentials::Credentials;
use types::fid::Fid;
use types::name::Name;
use wire::mds::{DirEntry, MdsOp, Readdir};

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

    /// False: files are not opened ahead on this mount, or not now.
    pub(crate) fn may_open_ahead(&self) -> bool {
        !self.locks.no_open() && !self.is_careful() && self.data.ledger.may_fetch_files()
    }

    /// The directory of a file, as far as it is known.
    pub(crate) fn dir_of(&self, file: Fid) -> Option<Fid> {
        let followed = || self.files_ahead.lock().dir_of(file);
        self.found_in.of(file).or_else(followed).or_else(|| {
            let led = self.locks.table.lock().led_by(file);
            led.map(|(dir, _)| dir)
        })
    }

    /// A lookup is about to ask for a name that locks do not cover. True: what an open of that file
    /// brings came otherwise, perhaps, and that of the files behind it.
    pub(crate) async fn open_ahead(&self, who: &Credentials, dir: Fid, name: &Name) -> bool {
        if self.files_ahead.lock().is_idle() || !self.may_open_ahead() {
            return false;
        }
        let on_lookup =
            self.decide(dir, |ahead, listing, is_known| ahead.looked(dir, name, listing, is_known));
        let mut done = match on_lookup {
            OnLookup::Ask => return false,
            OnLookup::Wait(done) => done,
            OnLookup::Fetch(batch) => {
                let Some(me) = self.strong() else { return false };
                let (who, done) = (who.clone(), batch.done.subscribe());
                // In the background: this lookup may be interrupted. But the program waits for it.
                let work = async move { me.ask_files(&who, batch).await };
                let work = cause::follow(cause::current(), work);
                self.session.env.tasks.spawn("open files ahead", Box::pin(work));
                done
            }
        };
        // An error says that it is over.
        while done.changed().await.is_ok() {}
        true
    }

    /// A program opened a file to read it; `missed`: by a request of its own.
    pub(crate) fn open_next(&self, who: &Credentials, file: Fid, missed: bool) {
        if !missed && self.files_ahead.lock().is_idle() || !self.may_open_ahead() {
            return;
        }
        let Some(dir) = self.dir_of(file) else { return };
        let steps = self.decide(dir, |ahead, listing, is_known| {
            ahead.opened((dir, file), missed, listing, is_known)
        });
        self.go_on(who, file, steps);
    }

    /// The kernel reads the beginning of a file that a program opened without a request.
    pub(crate) fn read_next(&self, who: &Credentials, file: Fid) {
        if !self.may_open_ahead() {
            return;
        }
        let Some(dir) = self.dir_of(file) else { return };
        let steps =
            self.decide(dir, |ahead, listing, is_known| ahead.read((dir, file), listing, is_known));
        self.go_on(who, file, steps);
    }

    /// Decides with what is known of a directory: its names, if all are, and which files an open to
    /// read needs no request for.
    fn decide<R>(
        &self,
        dir: Fid,
        decide: impl FnOnce(
            &mut FilesAhead<Arc<File>>,
            Option<Arc<[DirEntry]>>,
            &dyn Fn(Fid) -> bool,
        ) -> R,
    ) -> R {
        let mut table = self.locks.table.lock();
        let listing = table.listing(dir, false).map(|(entries, _)| entries);
        decide(&mut self.files_ahead.lock(), listing, &|file| table.opens_to_read(file))
    }

    fn go_on(&self, who: &Credentials, file: Fid, steps: Steps) {
        let Some(me) = self.strong() else { return };
        if steps.fetch_own {
            self.data.fetch_opened(file);
        }
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
            let starts = self.files_ahead.lock().begins(dir);
            for (file, bytes) in self.data.fetch_first(&files, starts) {
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
