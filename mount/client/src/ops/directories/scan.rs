//! Directories with everything that MDTs know of their entries: for programs that walk through
//! whole trees (`lfs find`).
//!
//! The scan comes in pages that grow; while one is consumed, the next is on its way.
//! Nothing of it is kept under locks, because entries that are looked at once would drive out
//! useful ones. So it is as old as its page, some milliseconds. Data that this mount has written
//! since and not stored is laid over it.

use crate::caller::Caller;
use crate::client::Client;
use crate::counters::Operation;
use crate::listing::merged::{Part, merge, share};
use crate::listing::{Item, Listing, Page, PageSource, Wanted};
use crate::open::DirHandle;
use crate::ops::attributes::AccessMask;
use crate::ops::directories::stripes::{AskedAll, stripes_of};
use data::locks::Locks;
use data::node::NodeId;
use env::BoxFuture;
use session::error::ClientError;
use session::fan_out::fan_out;
use session::session::Session;
use std::sync::Arc;
use types::credentials::Credentials;
use types::fid::Fid;
use types::name::Name;
use wire::mds::{DirEntry, Entry, Readdir};

/// Bytes of one page, about: room for layouts of 16 stripes.
const PAGE_BYTES: u32 = 1 << 20;
/// Entries kept, about: the page that is consumed, and the next one.
const ENTRIES_KEPT: usize = 8192;

impl Client {
    /// Hands out entries from `position` on, until `take` refuses one or the directory ends,
    /// without `.` and `..`. Position 0 starts all over: a handle may serve many scans. The
    /// position that comes with an entry is the one after it. `node` is the directory of the
    /// handle.
    ///
    /// # Errors
    /// EACCES: the caller may not search the directory. Those of the MDT, unless entries were
    /// handed out already.
    pub async fn dir_scan(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
        handle: DirHandle,
        (position, with_layout): (u64, bool),
        mut take: impl FnMut(u64, &DirEntry) -> bool + Send,
    ) -> Result<(), ClientError> {
        // A listing shows names; attributes need search permission.
        let search = AccessMask { exec: true, ..AccessMask::default() };
        self.clone().access(caller.clone(), node, search).await?;
        let _timed = self.timed(Operation::Readdir);
        let open = self.dirs_open.get(handle)?;
        self.session.mdc(open.fid)?;
        let listing = open.dir_scan[usize::from(with_layout)].get_or_init(|| {
            let source = Source {
                session: self.session.clone(),
                locks: self.locks.clone(),
                credentials: caller.credentials,
                fid: open.fid,
                with_layout,
            };
            Listing::new(open.fid, Arc::new(source), self.session.env.tasks.clone(), ENTRIES_KEPT)
        });
        let hand_out = |position, item: Item<'_>| {
            let Item::Name { entry, .. } = item else { return true };
            let mut newest = entry.clone();
            if let Some(Entry { attr, .. }) = &mut newest.entry {
                *attr = self.locks.with_dirty(*attr);
            }
            take(position + 1, &newest)
        };
        // Its pages have attributes anyway.
        listing.read(position, Wanted::Names, hand_out).await
    }
}

/// Pages from the MDTs.
#[derive(Clone)]
struct Source {
    session: Arc<Session>,
    locks: Arc<Locks>,
    credentials: Credentials,
    fid: Fid,
    with_layout: bool,
}

impl Source {
    async fn part(self, fid: Fid, after: Option<Name>, limit: u32) -> Result<Part, ClientError> {
        let (bytes_max, with_layout) = (PAGE_BYTES, self.with_layout);
        let scan = Readdir { fid, after, limit, bytes_max, with_attr: true, with_layout };
        Ok(self.session.mdc(fid)?.dir_scan(&self.credentials, scan).await?)
    }

    async fn fetch(self, after: Option<Name>, limit: u32) -> Result<Page, ClientError> {
        // `..` is not needed here.
        let parent = after.is_none().then_some(self.fid);
        let mut asked = AskedAll::default();
        loop {
            let stripes = stripes_of(&self.session, &self.locks, self.fid).await?;
            let whole = [self.fid];
            let all = stripes.as_ref().map_or(&whole[..], |stripes| stripes.in_use());
            let limit = if stripes.is_some() { share(limit, all.len()) } else { limit };
            let part = |stripe: &Fid| -> BoxFuture<'static, Result<Part, ClientError>> {
                Box::pin(self.clone().part(*stripe, after.clone(), limit))
            };
            let answers = fan_out(all.iter().map(part).collect()).await;
            let parts = match answers.into_iter().collect::<Result<_, _>>() {
                Ok(parts) => parts,
                Err(error) => {
                    asked.left(&self.session, &self.locks, self.fid, error).await?;
                    continue;
                }
            };
            if asked.still(&self.session, &self.locks, (self.fid, stripes.as_deref())).await? {
                return merge(parts, parent);
            }
        }
    }
}

impl PageSource for Source {
    fn page(
        &self,
        after: Option<Name>,
        limit: u32,
        _: bool,
    ) -> BoxFuture<'static, Result<Page, ClientError>> {
        Box::pin(self.clone().fetch(after, limit))
    }

    fn known_names(&self) -> Option<Page> {
        None
    }
}
