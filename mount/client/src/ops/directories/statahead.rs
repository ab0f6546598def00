//! Statahead acts: what `ahead` decides, asked of the MDT.

use crate::ahead::windows::{OnMiss, StataheadFigures, WINDOW_MAX, Window};
use crate::client::Client;
use crate::ops::names::elsewhere;
use observe::cause;
use std::sync::atomic::Ordering;
use stubs::mdc::Mdc;
use types::credentials::Credentials;
use types::fid::Fid;
use types::name::Name;

impl Client {
    /// A lookup is about to ask for a name that locks do not cover. True: its attributes came
    /// otherwise, perhaps.
    pub(crate) async fn stat_ahead(
        &self,
        who: &Credentials,
        mdc: &Mdc,
        dir: Fid,
        name: &Name,
    ) -> bool {
        let max = self.statahead_max.load(Ordering::Relaxed);
        if max == 0 || self.is_careful() {
            return false;
        }
        let now = self.session.env.clock.now();
        let (on_miss, written) = {
            let mut table = self.locks.table.lock();
            let mut written = self.written.lock();
            let is_written = written.has(dir, name);
            let on_miss = if is_written {
                written.miss((dir, name), max, |fid| table.has_attr(fid), now)
            } else {
                let listing = table.listing(dir, false).map(|(entries, _)| entries);
                let mut statahead = self.statahead.lock();
                statahead.miss((dir, name), listing, max, |fid| table.has_attr(fid), now)
            };
            (on_miss, is_written)
        };
        match on_miss {
            OnMiss::Ask => false,
            OnMiss::Wait(mut done) => {
                // An error says that it is over.
                while done.changed().await.is_ok() {}
                true
            }
            OnMiss::Fetch(window) => {
                let pause = written || window.again;
                let mut over = window.done.subscribe();
                // In the background: others wait for it, too, and this lookup may be interrupted.
                // But the program waits for it.
                let work = self.fetch_window(who.clone(), mdc.clone(), (dir, pause), window);
                let work = cause::follow(cause::current(), work);
                self.session.env.tasks.spawn("statahead", Box::pin(work));
                while over.changed().await.is_ok() {}
                true
            }
        }
    }

    /// A program looks at an inode that is not covered: if a listing showed it among others that
    /// other clients write, it is fetched with these.
    pub(crate) async fn stat_written(&self, who: &Credentials, fid: Fid) {
        let shown = self.written.lock().name_of(fid);
        if let Some((dir, name)) = shown
            && !self.locks.table.lock().has_attr(fid)
            && let Ok(mdc) = self.session.mdc(dir)
        {
            self.stat_ahead(who, &mdc, dir, &name).await;
        }
    }

    /// A program looks at entries of a directory of which it listed names only: the attributes of
    /// the others are fetched, from this name on.
    pub(crate) fn stat_rest(&self, dir: Fid, name: &Name) {
        let max = self.statahead_max.load(Ordering::Relaxed);
        let now = self.session.env.clock.now();
        let window = {
            let mut table = self.locks.table.lock();
            let listing = table.listing(dir, false).map(|(entries, _)| entries);
            self.statahead.lock().rest((dir, name), listing, max, |fid| table.has_attr(fid), now)
        };
        if let (Some(window), Ok(mdc)) = (window, self.session.mdc(dir)) {
            let work = self.fetch_window(Credentials::root(), mdc, (dir, false), window);
            self.session.env.tasks.spawn("statahead", Box::pin(work));
        }
    }

    /// `pause`: other clients that write these files stop for that.
    fn fetch_window(
        &self,
        who: Credentials,
        mdc: Mdc,
        (dir, pause): (Fid, bool),
        window: Window,
    ) -> impl Future<Output = ()> + Send + 'static {
        let Window { mut fids, done, .. } = window;
        let elsewhere: Vec<Fid> = fids.extract_if(.., |fid| fid.mdt() != dir.mdt()).collect();
        let session = self.session.clone();
        async move {
            let _done = done;
            // The replies' locks and attributes are learnt with their arrival. Without a reply each
            // lookup asks for itself, and meets the error.
            let here = async {
                if fids.is_empty() {
                    return;
                }
                let answer = match pause {
                    true => mdc.getattr_paused(&who, fids).await,
                    false => mdc.getattr_many(&who, fids).await,
                };
                if let Err(error) = answer {
                    tracing::debug!(%error, "statahead");
                }
            };
            futures_util::join!(here, elsewhere::attributes(&session, &who, elsewhere));
        }
    }

    /// What statahead did.
    pub fn statahead_figures(&self) -> StataheadFigures {
        *self.statahead.lock().figures()
    }

    /// Clears these figures.
    pub fn clear_statahead_figures(&self) {
        *self.statahead.lock().figures() = StataheadFigures::default();
    }

    /// Entries whose attributes one request may fetch ahead; 0: statahead is off.
    pub fn statahead_max(&self) -> usize {
        self.statahead_max.load(Ordering::Relaxed)
    }

    /// Sets this bound: 0 to [`Client::STATAHEAD_MAX`].
    pub fn set_statahead_max(&self, max: usize) {
        self.statahead_max.store(max.min(WINDOW_MAX), Ordering::Relaxed);
    }

    /// The largest bound that can be set, and the one at mount.
    pub const STATAHEAD_MAX: usize = WINDOW_MAX;
}
