//! The entries of one open directory, as a stream of numbered positions.
//!
//! The MDT lists by name ("after this one"), the kernel by number. So the listing keeps where each
//! page starts: the number of its first entry and the name before it. The newest pages are kept. An
//! older one is fetched again by its name, without the entries of the next page, so no entry ever
//! appears twice. Position 0 is `.`, 1 is `..`, 2 the first name; asking for position 0 starts all
//! over.
//!
//! With attributes each page has four times as many entries as the one before it, up to
//! [`PAGE_ENTRIES_MAX`]. The second page of names only has all of them, up to [`PAGE_NAMES_MAX`].
//! While the kernel consumes one page the next is on its way, with attributes if the kernel wants
//! those of this one. So the number of waits for a large directory does not depend on the kernel's
//! buffers. The kernel asks for attributes with its first call whatever the program wants; so the
//! second page is ordered by the second call, which shows what is wanted. And if all names are
//! known under locks, they will do for the first call ([`Wanted::AttributesOrNames`]).
//!
//! Attributes of a page are handed out only by the call that fetched it: later they may be older
//! than what the kernel knows. The client has them under locks, in the lock table, and answers an
//! entry without fresh attributes from there.

pub(crate) mod merged;

use env::BoxFuture;
use env::tasks::Tasks;
use rpc::error::RpcError;
use session::error::ClientError;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::{Mutex, oneshot};
use types::errno::Errno;
use types::fid::Fid;
use types::limits::{INODES_PER_REPLY_MAX, READDIR_ENTRIES_MAX};
use types::name::Name;
use wire::mds::DirEntry;

/// Entries of the first page.
const PAGE_ENTRIES_FIRST: u32 = 1024;
/// Entries of a page with attributes, at most: some 6 MB, which an MDT answers in many turns.
pub(crate) const PAGE_ENTRIES_MAX: u32 = INODES_PER_REPLY_MAX as u32;
/// Entries of a page without attributes, at most: as much.
pub(crate) const PAGE_NAMES_MAX: u32 = READDIR_ENTRIES_MAX as u32;
/// Entries kept per open directory, about; one page is kept however large it is.
pub(crate) const ENTRIES_KEPT_MAX: usize = 65_536;
/// Position of the first name, after `.` and `..`.
const FIRST_NAME: u64 = 2;

/// Entries as the MDT answers them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Page {
    /// In name order.
    pub(crate) entries: Arc<[DirEntry]>,
    /// The directory goes on.
    pub(crate) more: bool,
    /// The directory's parent, if the request was for the first page.
    pub(crate) parent: Option<Fid>,
}

/// Source of pages.
pub(crate) trait PageSource: Send + Sync + 'static {
    /// Up to `limit` entries after a name (`None`: from the start).
    fn page(
        &self,
        after: Option<Name>,
        limit: u32,
        with_attr: bool,
    ) -> BoxFuture<'static, Result<Page, ClientError>>;

    /// The whole directory without attributes, if locks cover all its names.
    fn known_names(&self) -> Option<Page>;
}

/// What a call wants of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nothing else.
    Names,
    /// Their attributes.
    Attributes,
    /// Their attributes; but names will do if locks cover all of them.
    AttributesOrNames,
}

/// One position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Item<'a> {
    /// `.`
    Itself(Fid),
    /// `..`
    Parent(Fid),
    /// A name. `fresh`: fetched by this very call.
    Name { entry: &'a DirEntry, fresh: bool },
}

/// See the module.
pub(crate) struct Listing {
    fid: Fid,
    source: Arc<dyn PageSource>,
    tasks: Arc<dyn Tasks>,
    entries_kept_max: usize,
    stream: Mutex<Stream>,
}

#[derive(Default)]
struct Stream {
    starts: Vec<Start>,
    /// Pages kept, newest use last.
    kept: VecDeque<(usize, Arc<Page>)>,
    /// Position behind the last name, once seen.
    end: Option<u64>,
    parent: Option<Fid>,
    ahead: Option<Ahead>,
}

/// A page that is on its way.
struct Ahead {
    number: usize,
    with_attr: bool,
    page: oneshot::Receiver<Result<Page, ClientError>>,
}

struct Start {
    position: u64,
    after: Option<Name>,
}

impl Stream {
    fn restart() -> Stream {
        Stream { starts: vec![Start { position: FIRST_NAME, after: None }], ..Stream::default() }
    }

    /// The page of a position among the known ones.
    fn page_of(&self, position: u64) -> usize {
        self.starts.partition_point(|start| start.position <= position).saturating_sub(1)
    }

    fn kept(&mut self, number: usize) -> Option<Arc<Page>> {
        let at = self.kept.iter().rposition(|(n, _)| *n == number)?;
        let entry = self.kept.remove(at)?;
        let page = entry.1.clone();
        self.kept.push_back(entry);
        Some(page)
    }

    /// The page that is on its way, if a call may use it.
    fn ahead(&mut self, number: usize, with_attr: bool) -> Option<&mut Ahead> {
        self.ahead
            .as_mut()
            .filter(|ahead| ahead.number == number && (ahead.with_attr || !with_attr))
    }

    /// True if that page has come.
    fn is_ready(&mut self, number: usize, with_attr: bool) -> bool {
        self.ahead(number, with_attr).is_some_and(|ahead| !ahead.page.is_empty())
    }

    /// A page came from the MDT.
    fn take_in(
        &mut self,
        number: usize,
        mut page: Page,
        entries_max: usize,
    ) -> Result<Arc<Page>, ClientError> {
        if page.more && page.entries.is_empty() {
            tracing::error!("the MDT answers that a directory goes on, but lists nothing");
            return Err(RpcError::Errno(Errno::EPROTO).into());
        }
        self.parent = page.parent.or(self.parent);
        match self.starts.get(number + 1) {
            // Fetched again: entries that the next page lists are not this page's.
            Some(next) => {
                let mine = |e: &&DirEntry| next.after.as_ref().is_none_or(|last| e.name <= *last);
                page.entries = page.entries.iter().take_while(mine).cloned().collect();
            }
            None => {
                let behind = self.starts[number].position + page.entries.len() as u64;
                match page.entries.last() {
                    Some(last) if page.more => {
                        let after = Some(last.name.clone());
                        self.starts.push(Start { position: behind, after });
                    }
                    _ => self.end = Some(behind),
                }
            }
        }
        let page = Arc::new(page);
        self.kept.push_back((number, page.clone()));
        let mut entries = self.kept.iter().map(|(_, page)| page.entries.len()).sum::<usize>();
        while entries > entries_max && self.kept.len() > 1 {
            entries -= self.kept.pop_front().map_or(0, |(_, page)| page.entries.len());
        }
        Ok(page)
    }
}

impl Listing {
    /// Of a directory; sends no request yet. Keeps about this many entries.
    pub(crate) fn new(
        fid: Fid,
        source: Arc<dyn PageSource>,
        tasks: Arc<dyn Tasks>,
        entries_kept_max: usize,
    ) -> Listing {
        Listing { fid, source, tasks, entries_kept_max, stream: Mutex::new(Stream::restart()) }
    }

    /// Hands out items from `position` on, until `take` refuses one or the directory ends. If
    /// attributes are wanted pages are asked for with them, and names bring them along where they
    /// are fresh.
    ///
    /// # Errors
    /// Those of the source, unless entries were handed out already.
    pub(crate) async fn read(
        &self,
        mut position: u64,
        wanted: Wanted,
        mut take: impl FnMut(u64, Item<'_>) -> bool + Send,
    ) -> Result<(), ClientError> {
        let mut stream = self.stream.lock().await;
        let with_attr = wanted != Wanted::Names;
        let blind = position == 0 && with_attr;
        if position == 0 {
            *stream = Stream::restart();
            let known = (wanted == Wanted::AttributesOrNames).then(|| self.source.known_names());
            if let Some(page) = known.flatten() {
                stream.take_in(0, page, self.entries_kept_max)?;
            }
        }
        let mut fetched = SmallVec::<[usize; 4]>::new();
        let mut handed_out = false;
        while position < FIRST_NAME {
            // `..` needs the parent, which comes with the first page.
            if stream.parent.is_none() && self.fetch(&mut stream, 0, with_attr).await?.1 {
                fetched.push(0);
            }
            let item = match position {
                0 => Item::Itself(self.fid),
                _ => Item::Parent(stream.parent.unwrap_or(self.fid)),
            };
            if !take(position, item) {
                return Ok(());
            }
            handed_out = true;
            position += 1;
        }
        while stream.end.is_none_or(|end| position < end) {
            let number = stream.page_of(position);
            let page = match stream.kept(number) {
                Some(page) => page,
                // With entries handed out already, the call need not wait for the network.
                None if handed_out && !stream.is_ready(number, with_attr) => return Ok(()),
                None => match self.fetch(&mut stream, number, with_attr).await {
                    Ok((page, fresh)) => {
                        fetched.extend(fresh.then_some(number));
                        page
                    }
                    // The next call, which starts here, will meet it again.
                    Err(_) if handed_out => return Ok(()),
                    Err(error) => return Err(error),
                },
            };
            if !blind {
                self.fetch_ahead(&mut stream, number, with_attr);
            }
            let skip = position.saturating_sub(stream.starts[number].position) as usize;
            let fresh = fetched.contains(&number);
            for entry in page.entries.iter().skip(skip) {
                if !take(position, Item::Name { entry, fresh }) {
                    return Ok(());
                }
                handed_out = true;
                position += 1;
            }
            // A page that was fetched again may have another length than at first.
            match stream.starts.get(number + 1) {
                Some(next) => position = next.position,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// The page, and whether its attributes are fresh.
    async fn fetch(
        &self,
        stream: &mut Stream,
        number: usize,
        with_attr: bool,
    ) -> Result<(Arc<Page>, bool), ClientError> {
        if let Some(ahead) = stream.ahead(number, with_attr) {
            let page = (&mut ahead.page).await;
            stream.ahead = None;
            // In the background a request is given up in time: a reader that waits sends its own
            // then.
            if let Ok(Ok(page)) = page {
                return Ok((stream.take_in(number, page, self.entries_kept_max)?, false));
            }
        }
        let after = stream.starts[number].after.clone();
        let mut page = self.source.page(after, page_entries(number, with_attr), with_attr).await?;
        // A page that is fetched again must reach to where the next one starts.
        if let Some(bound) = stream.starts.get(number + 1).and_then(|next| next.after.as_ref()) {
            while let Some(last) =
                page.entries.last().filter(|last| page.more && last.name < *bound)
            {
                let after = Some(last.name.clone());
                let rest =
                    self.source.page(after, page_entries(usize::MAX, with_attr), with_attr).await?;
                page.more = rest.more && !rest.entries.is_empty();
                page.entries = page.entries.iter().chain(rest.entries.iter()).cloned().collect();
            }
        }
        Ok((stream.take_in(number, page, self.entries_kept_max)?, true))
    }

    /// Orders the page after `number`, if that is the last one known and more follows.
    fn fetch_ahead(&self, stream: &mut Stream, number: usize, with_attr: bool) {
        let next = number + 1;
        let wanted = next + 1 == stream.starts.len() && stream.end.is_none();
        let there = stream.ahead.as_ref().is_some_and(|ahead| ahead.number == next)
            || stream.kept(next).is_some();
        if !wanted || there {
            return;
        }
        let after = stream.starts[next].after.clone();
        let page = self.source.page(after, page_entries(next, with_attr), with_attr);
        let (sender, receiver) = oneshot::channel();
        stream.ahead = Some(Ahead { number: next, with_attr, page: receiver });
        let work = async move {
            // The receiver is gone if the directory was closed or started again meanwhile.
            let _ = sender.send(page.await);
        };
        self.tasks.spawn("readdir ahead", Box::pin(work));
    }
}

/// Entries to ask for in a page.
fn page_entries(number: usize, with_attr: bool) -> u32 {
    if !with_attr && number > 0 {
        return PAGE_NAMES_MAX;
    }
    let growth = number.checked_mul(2).and_then(|bits| u32::try_from(bits).ok());
    let growth = growth.and_then(|bits| 1_u32.checked_shl(bits)).unwrap_or(u32::MAX);
    PAGE_ENTRIES_FIRST.saturating_mul(growth).min(PAGE_ENTRIES_MAX)
}

#[cfg(test)]
mod tests;
