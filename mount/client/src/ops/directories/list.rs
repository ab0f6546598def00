//! Listing directories.

use crate::caller::{Caller, Found};
use crate::client::Client;
use crate::counters::Operation;
use crate::listing::merged::{Part, merge, part_of, share};
use crate::listing::{ENTRIES_KEPT_MAX, Item, Listing, Page, PageSource, Wanted};
use crate::open::{DirHandle, OpenDir};
use crate::ops::directories::stripes::{AskedAll, stripes_of, whole};
use crate::ops::names::elsewhere;
use data::locks::stripes::Striped;
use data::locks::{ListedName, Locks};
use data::node::NodeId;
use env::BoxFuture;
use layout::dir_stripes::DirStripes;
use session::error::ClientError;
use session::fan_out::fan_out;
use session::session::Session;
use session::targets::{misfit, two};
use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;
use types::attr::{Attr, FileType};
use types::credentials::Credentials;
use types::fid::Fid;
use types::name::Name;
use wire::mds::{DirEntry, GetParent, MdsOp, MdsReply, Readdir};

/// Bytes of one page, about.
const PAGE_BYTES: u32 = 6 << 20;

/// One entry for the kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct DirItem {
    /// Name; also `.` and `..`.
    pub name: Box<[u8]>,
    /// Inode number that programs see.
    pub ino: u64,
    /// Type of the inode.
    pub file_type: FileType,
    /// Position after this entry: the `cookie` that continues there.
    pub next: u64,
    /// With `plus`: the inode, its lookup count grown by one. `None` for `.` and `..`, where no
    /// lock covers attributes that are older than the request, where another MDT has the inode
    /// and does not answer at once, and where the kernel knows it all.
    pub found: Option<Found>,
}

/// How many entries to answer: each costs `per_entry` plus its name rounded up to 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Bytes of the caller's buffer.
    pub bytes: usize,
    /// Fixed bytes of one entry (24 in FUSE_READDIR, 152 in FUSE_READDIRPLUS).
    pub per_entry: usize,
}

impl Budget {
    /// Takes the cost of a name; `false` if it does not fit.
    fn take(&mut self, name: &[u8]) -> bool {
        let cost = self.per_entry + name.len().next_multiple_of(8);
        self.bytes.checked_sub(cost).map(|left| self.bytes = left).is_some()
    }
}

impl Client {
    /// Opens a directory for listing. No request.
    pub async fn opendir(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
    ) -> Result<DirHandle, ClientError> {
        let _timed = self.timed(Operation::Opendir);
        let fid = self.fid(node)?;
        self.session.mdc(fid)?;
        let source = Source {
            session: self.session.clone(),
            locks: self.locks.clone(),
            credentials: caller.credentials,
            fid,
        };
        let listing = Arc::new(Listing::new(
            fid,
            Arc::new(source),
            self.session.env.tasks.clone(),
            ENTRIES_KEPT_MAX,
        ));
        Ok(self.dirs_open.insert(OpenDir { fid, listing, dir_scan: Default::default() }))
    }

    /// Entries from `cookie` on (0 = start again) that fit into `budget`; empty at the end. 1 round
    /// trip per page (`listing.rs`); the next one is on its way while one is consumed. 1 more per
    /// page with `plus` if other MDTs have inodes of it. No round trip for a directory that was
    /// listed from start to end and of which names, and with `plus` attributes, are covered since.
    ///
    /// # Errors
    /// EBADF, and those of the MDT.
    pub async fn readdir(
        self: Arc<Self>,
        caller: Caller,
        handle: DirHandle,
        cookie: u64,
        mut budget: Budget,
        plus: bool,
    ) -> Result<Vec<DirItem>, ClientError> {
        let _timed = self.timed(Operation::Readdir);
        let open = self.dirs_open.get(handle)?;
        if self.is_removed(open.fid) {
            return Ok(Vec::new());
        }
        if cookie == 0 {
            self.list_ahead(&caller.credentials, open.fid).await;
        } else if !plus {
            self.statahead.lock().named(open.fid);
        }
        let mut items = Vec::new();
        let take = |position: u64, item: Item<'_>| {
            let (name, fid, file_type, listed): (&[u8], _, _, _) = match item {
                Item::Itself(fid) => (b".", fid, FileType::Directory, None),
                // What is above the root of the mount is not shown.
                Item::Parent(_) if self.locks.inode_now(open.fid) == self.nodes.root() => {
                    (b"..", open.fid, FileType::Directory, None)
                }
                Item::Parent(fid) => (b"..", fid, FileType::Directory, None),
                Item::Name { entry, fresh } => {
                    let fresh = entry.entry.as_ref().map(|e| e.attr).filter(|_| fresh);
                    let name = plus.then(|| entry.name.clone());
                    (
                        &entry.name,
                        entry.fid,
                        entry.file_type,
                        name.map(|name| (name, entry.fid, fresh)),
                    )
                }
            };
            let fits = budget.take(name);
            if fits {
                let (name, ino, next) = (name.into(), fid.ino(), position + 1);
                items.push((DirItem { name, ino, file_type, next, found: None }, listed));
            }
            fits
        };
        let wanted = match (plus, cookie) {
            (false, _) => Wanted::Names,
            (true, 0) if self.names_will_do(open.fid) => Wanted::AttributesOrNames,
            (true, _) => Wanted::Attributes,
        };
        let _in_dir = self.locks.enter_dir(open.fid);
        if let Err(error) = open.listing.read(cookie, wanted, take).await {
            self.lives_on(open.fid, error)?;
            return Ok(Vec::new());
        }
        // Lookups are counted where nothing can wait or fail any more: the kernel will see, and
        // forget, each of them.
        let mut written = BTreeMap::<Fid, Vec<DirEntry>>::from([(open.fid, Vec::new())]);
        let counted = |(item, listed): (DirItem, Option<(Name, Fid, Option<Attr>)>)| {
            let found = listed.and_then(|(name, fid, fresh)| {
                let dir = self.place_known(open.fid, &name)?;
                let (found, is_covered) = self.listed(dir, &name, fid, fresh);
                if !is_covered && item.file_type == FileType::Regular && fid.mdt() == dir.mdt() {
                    let file_type = FileType::Regular;
                    let entry = DirEntry { name, fid, file_type, entry: None, layout: None };
                    written.entry(dir).or_default().push(entry);
                }
                found
            });
            DirItem { found, ..item }
        };
        let items = items.into_iter().map(counted).collect();
        if plus {
            let mut ahead = self.written.lock();
            for (dir, entries) in written {
                ahead.showed(dir, entries.into(), cookie != 0);
            }
        }
        Ok(items)
    }

    /// True if a listing may begin with known names, without attributes: the kernel asks for these
    /// whatever the program wants, and if it wants them statahead fetches those that are missing
    /// with the first one that is looked at.
    fn names_will_do(&self, dir: Fid) -> bool {
        let listing = {
            let mut table = self.locks.table.lock();
            if table.listing(dir, true).is_some() {
                return true;
            }
            table.listing(dir, false)
        };
        let fetches = self.statahead_max() > 0 && !self.is_careful();
        let Some((entries, _)) = listing.filter(|_| fetches) else { return false };
        let now = self.session.env.clock.now();
        self.statahead.lock().listed_again(dir, entries, now)
    }

    /// What the kernel is told of a listed name beside the name itself, and whether locks cover
    /// it. `fresh`: attributes that came after the kernel asked. `None`: nothing; it asks when it
    /// needs more.
    fn listed(
        &self,
        dir: Fid,
        name: &Name,
        fid: Fid,
        fresh: Option<Attr>,
    ) -> (Option<Found>, bool) {
        let lease = self.session.has_lease(dir);
        // The kernel notes these names when it gets to them, under the epoch of that moment, so a
        // name that is called back before would stay. So it gets no trust in a name from here, and
        // names that it trusts are not shown again.
        let (attr, is_covered) = match self.locks.listed(dir, name, fid) {
            ListedName::Trusted => return (None, true),
            // What a lookup of the name would be told now.
            ListedName::Covered(attr) if lease => (Some(attr), true),
            ListedName::Covered(_) => (fresh, true),
            ListedName::Unknown => (fresh, false),
        };
        // The new end of a file must not come with attributes.
        let is_behind = |attr: &Attr| self.data.writeback.kernel_eof.is_behind(attr.fid, attr.size);
        // A directory may have got another inode: a lookup finds out (R48).
        let has_other = |attr: &Attr| {
            let before = self.locks.expected(dir, name).filter(|before| *before != attr.fid);
            before.is_some_and(|before| self.nodes.node(before).is_some())
        };
        let may_have_gone =
            |attr: &Attr| attr.is_dir() && self.nodes.node(attr.fid).is_none() && has_other(attr);
        let found = attr
            .filter(|attr| !(is_behind(attr) || may_have_gone(attr)))
            .map(|attr| self.found(dir, None, &attr));
        (found, is_covered)
    }

    /// Lets an open directory go.
    pub fn releasedir(&self, handle: DirHandle) {
        if self.dirs_open.remove(handle).is_none() {
            tracing::warn!(handle = handle.0, "directory released, but not open");
        }
    }
}

/// Pages from the MDT, or the known entries of a complete directory.
#[derive(Clone)]
struct Source {
    session: Arc<Session>,
    locks: Arc<Locks>,
    credentials: Credentials,
    fid: Fid,
}

impl Source {
    /// The whole directory, or one stripe of it, if locks cover it; and its parent.
    fn known(&self, fid: Fid, with_attr: bool) -> Option<(Arc<[DirEntry]>, Fid)> {
        if !self.session.has_lease(fid) {
            return None;
        }
        self.locks.table.lock().listing(fid, with_attr)
    }

    /// The whole directory, if it has no stripes and locks cover it; `with_attr`: and all its
    /// attributes.
    fn known_page(&self, with_attr: bool) -> Option<Page> {
        if self.locks.striped(self.fid) != Striped::No {
            return None;
        }
        let (entries, parent) = self.known(self.fid, with_attr)?;
        Some(Page { entries, more: false, parent: Some(parent) })
    }

    /// Entries of the directory, or of one stripe of it, from its MDT; at its beginning also what
    /// is above it.
    async fn ask(
        &self,
        fid: Fid,
        after: Option<Name>,
        limit: u32,
        with_attr: bool,
    ) -> Result<(Part, Option<Fid>), ClientError> {
        let (who, mdc) = (&self.credentials, self.session.mdc(fid)?);
        let goes_on = after.is_some();
        let readdir =
            Readdir { fid, after, limit, bytes_max: PAGE_BYTES, with_attr, with_layout: false };
        let (mut entries, more, parent) = if goes_on {
            let (entries, more) = mdc.readdir(who, readdir).await?;
            (entries, more, None)
        } else {
            match two(&mdc, who, MdsOp::Readdir(readdir), MdsOp::GetParent(GetParent { fid }))
                .await?
            {
                (MdsReply::Entries { entries, more }, parent) => {
                    (entries, more, Some(parent_of(fid, parent)))
                }
                other => return Err(misfit(mdc.import(), &other)),
            }
        };
        if with_attr {
            let of_others =
                entries.iter().filter(|entry| entry.fid.mdt() != fid.mdt()).map(|entry| entry.fid);
            let mut known =
                elsewhere::attributes(&self.session, who, of_others.collect::<Vec<_>>()).await;
            entries.iter_mut().filter(|entry| entry.entry.is_none()).for_each(|entry| {
                entry.entry = known.remove(&entry.fid);
            });
        }
        Ok(((entries, more), parent))
    }

    /// Entries of one stripe, from where they are known.
    async fn part(
        self,
        stripe: Fid,
        after: Option<Name>,
        limit: u32,
        with_attr: bool,
    ) -> Result<(Part, Option<Fid>), ClientError> {
        match self.known(stripe, with_attr) {
            Some((entries, parent)) => {
                let above = after.is_none().then_some(parent);
                Ok((part_of(&entries, after.as_ref(), limit), above))
            }
            None => self.ask(stripe, after, limit, with_attr).await,
        }
    }

    /// A page of a striped directory: all stripes are asked at once.
    async fn merged_page(
        self,
        stripes: &DirStripes,
        after: Option<Name>,
        limit: u32,
        with_attr: bool,
    ) -> Result<Page, ClientError> {
        let limit = share(limit, stripes.in_use().len());
        let part = |stripe: &Fid| -> BoxFuture<'static, Result<(Part, Option<Fid>), ClientError>> {
            Box::pin(self.clone().part(*stripe, after.clone(), limit, with_attr))
        };
        let answers = fan_out(stripes.in_use().iter().map(part).collect()).await;
        let (mut parts, mut parent) = (Vec::new(), None);
        for answer in answers {
            let (part, above) = answer?;
            // The first one is the directory itself.
            parent = parent.or(above);
            parts.push(part);
        }
        merge(parts, parent)
    }

    async fn fetch(
        self,
        after: Option<Name>,
        limit: u32,
        with_attr: bool,
    ) -> Result<Page, ClientError> {
        let (session, locks, who) =
            (self.session.clone(), self.locks.clone(), self.credentials.clone());
        let mut asked = AskedAll::default();
        let mut page = loop {
            let stripes = stripes_of(&session, &locks, self.fid).await?;
            let (me, after) = (self.clone(), after.clone());
            let page = match &stripes {
                Some(all) => me.merged_page(all, after, limit, with_attr).await,
                None => self.ask(self.fid, after, limit, with_attr).await.map(
                    |((entries, more), parent)| Page { entries: entries.into(), more, parent },
                ),
            };
            let page = match page {
                Ok(page) => page,
                Err(error) => {
                    asked.left(&session, &locks, self.fid, error).await?;
                    continue;
                }
            };
            if asked.still(&session, &locks, (self.fid, stripes.as_deref())).await? {
                break page;
            }
        };
        if let Some(parent) = &mut page.parent {
            // If that does not answer, `..` is shown as what the MDT named.
            *parent = whole(&session, &locks, &who, *parent).await.unwrap_or(*parent);
        }
        Ok(page)
    }
}

impl PageSource for Source {
    fn page(
        &self,
        after: Option<Name>,
        limit: u32,
        with_attr: bool,
    ) -> BoxFuture<'static, Result<Page, ClientError>> {
        if let Some(page) = after.is_none().then(|| self.known_page(with_attr)).flatten() {
            return Box::pin(ready(Ok(page)));
        }
        Box::pin(self.clone().fetch(after, limit, with_attr))
    }

    fn known_names(&self) -> Option<Page> {
        self.known_page(false)
    }
}

/// The directory above one, as its MDT answers. If that is gone, `..` is shown as the directory
/// itself.
fn parent_of(fid: Fid, answer: Result<MdsReply, ClientError>) -> Fid {
    match answer {
        Ok(MdsReply::Entry(parent)) => parent.attr.fid,
        Ok(MdsReply::Remote { fid, .. }) => fid,
        _ => fid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_what_the_kernel_will_count() {
        let mut budget = Budget { bytes: 24 + 8 + 24 + 16, per_entry: 24 };
        assert!(budget.take(b"a"));
        assert!(!budget.take(&[b'x'; 17]));
        assert!(budget.take(b"123456789"));
        assert!(!budget.take(b"a"));
    }
}
