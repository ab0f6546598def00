//! The entries of one open directory, as a stream of numbered positions.
//!
//! The MDT lists by name ("after this one"), the kernel by number. So the listing keeps where each
//! page starts: the number of its first entry and the name before it. The newest pages are kept. An
//! older one is fetched again by its name, without the entries of the next page, so no entry ever
//! appears twice. While the kernel consumes one page the next is on its way. Position 0 is `.`, 1
//! is `..`, 2 the first name; asking for position 0 starts all over.
//!
//! Attributes are handed out only by the call that fetched them: those of a page kept from an
//! earlier call may be older than what the kernel knows by now. So pages with attributes are made
//! to measure and never fetched ahead.

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
use types::name::Name;
use wire::mds::DirEntry;

/// Entries of one page.
pub(crate) const PAGE_ENTRIES: u32 = 1024;
/// Pages kept per open directory, of names.
pub(crate) const PAGES_MAX: usize = 64;
/// Position of the first name, after `.` and `..`.
const FIRST_NAME: u64 = 2;

/// Entries as the MDT answers them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Page {
    /// In name order.
    pub(crate) entries: Vec<DirEntry>,
    /// The directory goes on.
    pub(crate) more: bool,
    /// The directory's parent, if the request was for the first page.
    pub(crate) parent: Option<Fid>,
}

/// Source of pages.
pub(crate) trait PageSource: Send + Sync + 'static {
    /// Up to `limit` entries after a name (`None`: from the start).
    fn page(&self, after: Option<Name>, limit: u32, with_attr: bool) -> BoxFuture<'static, Result<Page, ClientError>>;
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
    pages_max: usize,
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
    ahead: Option<(usize, oneshot::Receiver<Result<Page, ClientError>>)>,
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

    /// A page came from the MDT.
    fn take_in(&mut self, number: usize, mut page: Page, pages_max: usize) -> Result<Arc<Page>, ClientError> {
        if page.more && page.entries.is_empty() {
            tracing::error!("the MDT answers that a directory goes on, but lists nothing");
            return Err(RpcError::Errno(Errno::EPROTO).into());
        }
        self.parent = page.parent.or(self.parent);
        match self.starts.get(number + 1) {
            // Fetched again: entries that the next page lists are not this page's.
            Some(next) => page.entries.retain(|e| next.after.as_ref().is_none_or(|last| e.name <= *last)),
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
        if self.kept.len() >= pages_max {
            self.kept.pop_front();
        }
        self.kept.push_back((number, page.clone()));
        Ok(page)
    }
}

impl Listing {
    /// Of a directory; sends no request yet. Keeps this many pages.
    pub(crate) fn new(fid: Fid, source: Arc<dyn PageSource>, tasks: Arc<dyn Tasks>, pages_max: usize) -> Listing {
        Listing { fid, source, tasks, pages_max, stream: Mutex::new(Stream::restart()) }
    }

    /// Hands out items from `position` on, until `take` refuses one or the directory ends. With
    /// `with_attr` names come with attributes where they are fresh, and about `limit` names are
    /// wanted.
    ///
    /// # Errors
    /// Those of the source, unless entries were handed out already.
    pub(crate) async fn read(
        &self,
        mut position: u64,
        with_attr: bool,
        limit: u32,
        mut take: impl FnMut(u64, Item<'_>) -> bool + Send,
    ) -> Result<(), ClientError> {
        let mut stream = self.stream.lock().await;
        if position == 0 {
            *stream = Stream::restart();
        }
        let mut fetched = SmallVec::<[usize; 4]>::new();
        let mut handed_out = false;
        while position < FIRST_NAME {
            // `..` needs the parent, which comes with the first page.
            if stream.parent.is_none() {
                self.fetch(&mut stream, 0, with_attr, limit).await?;
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
                None if handed_out && !with_attr && !self.is_ready(&stream, number) => return Ok(()),
                None => match self.fetch(&mut stream, number, with_attr, limit).await {
                    Ok(page) => {
                        fetched.push(number);
                        page
                    }
                    // The next call, which starts here, will meet it again.
                    Err(_) if handed_out => return Ok(()),
                    Err(error) => return Err(error),
                },
            };
            if !with_attr {
                self.fetch_ahead(&mut stream, number);
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

    async fn fetch(
        &self,
        stream: &mut Stream,
        number: usize,
        with_attr: bool,
        limit: u32,
    ) -> Result<Arc<Page>, ClientError> {
        if let Some((_, receiver)) = stream.ahead.as_mut().filter(|(n, _)| *n == number && !with_attr) {
            let page = receiver.await;
            stream.ahead = None;
            // In the background a request is given up in time: a reader that waits sends its own
            // then.
            if let Ok(Ok(page)) = page {
                return stream.take_in(number, page, self.pages_max);
            }
        }
        let limit = if with_attr { limit.clamp(1, PAGE_ENTRIES) } else { PAGE_ENTRIES };
        let after = stream.starts[number].after.clone();
        let mut page = self.source.page(after, limit, with_attr).await?;
        // A page that is fetched again must reach to where the next one starts.
        if let Some(bound) = stream.starts.get(number + 1).and_then(|next| next.after.as_ref()) {
            while let Some(last) = page.entries.last().filter(|last| page.more && last.name < *bound) {
                let after = Some(last.name.clone());
                let rest = self.source.page(after, PAGE_ENTRIES, with_attr).await?;
                page.more = rest.more && !rest.entries.is_empty();
                page.entries.extend(rest.entries);
            }
        }
        stream.take_in(number, page, self.pages_max)
    }

    /// Orders the page after `number`, if that is the last one known and more follows.
    fn fetch_ahead(&self, stream: &mut Stream, number: usize) {
        let next = number + 1;
        let wanted = next + 1 == stream.starts.len() && stream.end.is_none();
        let there = stream.ahead.as_ref().is_some_and(|(n, _)| *n == next) || stream.kept(next).is_some();
        if !wanted || there {
            return;
        }
        let page = self.source.page(stream.starts[next].after.clone(), PAGE_ENTRIES, false);
        let (sender, receiver) = oneshot::channel();
        stream.ahead = Some((next, receiver));
        let work = async move {
            // The receiver is gone if the directory was closed or started again meanwhile.
            let _ = sender.send(page.await);
        };
        self.tasks.spawn("readdir ahead", Box::pin(work));
    }

    fn is_ready(&self, stream: &Stream, number: usize) -> bool {
        stream.ahead.as_ref().is_some_and(|(n, receiver)| *n == number && !receiver.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex as Lock;
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use types::attr::FileType;

    const DIR: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };

    /// A directory in memory.
    #[derive(Default)]
    struct Memory {
        names: Lock<BTreeSet<Name>>,
        asked: AtomicUsize,
    }

    impl Memory {
        fn with(count: usize) -> Arc<Memory> {
            let memory = Memory::default();
            memory.names.lock().extend((0..count).map(name));
            Arc::new(memory)
        }
    }

    fn name(n: usize) -> Name {
        Name::new(format!("{n:06}").as_bytes()).unwrap()
    }

    struct Source(Arc<Memory>);

    impl PageSource for Source {
        fn page(&self, after: Option<Name>, limit: u32, _: bool) -> BoxFuture<'static, Result<Page, ClientError>> {
            let memory = self.0.clone();
            Box::pin(async move {
                memory.asked.fetch_add(1, Ordering::Relaxed);
                let names = memory.names.lock();
                let mut rest = names.iter().filter(|n| after.as_ref().is_none_or(|a| *n > a));
                let entry = |n: &Name| DirEntry {
                    name: n.clone(),
                    fid: DIR,
                    file_type: FileType::Regular,
                    entry: None,
                    layout: None,
                };
                let entries = rest.by_ref().take(limit as usize).map(entry).collect();
                let parent = after.is_none().then_some(Fid::ROOT);
                Ok(Page { entries, more: rest.next().is_some(), parent })
            })
        }
    }

    /// Runs tasks in the test's own runtime.
    struct Local;

    impl Tasks for Local {
        fn spawn(&self, _: &'static str, future: BoxFuture<'static, ()>) {
            tokio::spawn(future);
        }

        fn spawn_blocking(&self, _: &'static str, work: Box<dyn FnOnce() + Send>) {
            work();
        }

        fn spawn_thread(&self, _: &'static str, work: Box<dyn FnOnce() + Send>) {
            work();
        }

        fn on_reactor(&self) -> bool {
            true
        }
    }

    fn listing(memory: &Arc<Memory>) -> Listing {
        Listing::new(DIR, Arc::new(Source(memory.clone())), Arc::new(Local), PAGES_MAX)
    }

    /// Entries that one call hands out: (position, name), at most `count`.
    async fn chunk(listing: &Listing, from: u64, count: usize, with_attr: bool) -> Vec<(u64, String, bool)> {
        let mut items = Vec::new();
        let take = |position, item: Item<'_>| {
            if items.len() == count {
                return false;
            }
            let (name, fresh) = match item {
                Item::Itself(fid) => {
                    assert_eq!(fid, DIR);
                    (".".to_owned(), false)
                }
                Item::Parent(fid) => {
                    assert_eq!(fid, Fid::ROOT);
                    ("..".to_owned(), false)
                }
                Item::Name { entry, fresh } => (entry.name.to_string(), fresh),
            };
            items.push((position, name, fresh));
            true
        };
        listing.read(from, with_attr, count as u32, take).await.unwrap();
        items
    }

    async fn all(listing: &Listing, count: usize, with_attr: bool) -> Vec<String> {
        let (mut position, mut names) = (0, Vec::new());
        loop {
            let items = chunk(listing, position, count, with_attr).await;
            let Some(last) = items.last() else { return names };
            for (n, (at, ..)) in items.iter().enumerate() {
                assert_eq!(*at, position + n as u64, "positions follow each other");
            }
            position = last.0 + 1;
            names.extend(items.into_iter().map(|i| i.1));
        }
    }

    fn expected(count: usize) -> Vec<String> {
        [".", ".."].into_iter().map(str::to_owned).chain((0..count).map(|n| name(n).to_string())).collect()
    }

    #[tokio::test]
    async fn every_name_once_whatever_the_chunk() {
        for count in [0, 1, 1023, 1024, 1025, 5000] {
            for chunk in [1, 7, 130, 5000] {
                let memory = Memory::with(count);
                for with_attr in [false, true] {
                    let listing = listing(&memory);
                    assert_eq!(all(&listing, chunk, with_attr).await, expected(count), "{count} by {chunk}");
                    assert_eq!(all(&listing, chunk, with_attr).await, expected(count), "and again from the start");
                }
            }
        }
    }

    #[tokio::test]
    async fn pages_are_asked_for_once_and_ahead() {
        let memory = Memory::with(3000);
        let listing = listing(&memory);
        chunk(&listing, 0, 10, false).await;
        tokio::task::yield_now().await;
        assert_eq!(memory.asked.load(Ordering::Relaxed), 2, "the first, and the second ahead");
        all(&listing, 100, false).await;
        // `all` starts again, so the first two are asked for once more.
        assert_eq!(memory.asked.load(Ordering::Relaxed), 2 + 3);
    }

    #[tokio::test]
    async fn a_small_directory_is_one_question() {
        let memory = Memory::with(100);
        all(&listing(&memory), 1000, false).await;
        assert_eq!(memory.asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn only_the_call_that_fetched_attributes_hands_them_out() {
        let memory = Memory::with(50);
        let listing = listing(&memory);
        let first = chunk(&listing, 0, 20, true).await;
        assert!(first[2..].iter().all(|i| i.2));
        let second = chunk(&listing, first.last().unwrap().0 + 1, 20, true).await;
        assert!(!second[0].2, "left over from the first call's page");
        assert!(second.last().unwrap().2);
    }

    #[tokio::test]
    async fn names_removed_and_added_meanwhile_disturb_no_others() {
        let memory = Memory::with(3000);
        let listing = listing(&memory);
        let first = chunk(&listing, 0, 1000, false).await;
        memory.names.lock().retain(|n| *n >= name(900));
        memory.names.lock().insert(Name::new(b"002500b").unwrap());
        let mut rest = Vec::new();
        let mut position = first.last().unwrap().0 + 1;
        loop {
            let items = chunk(&listing, position, 333, false).await;
            let Some(last) = items.last() else { break };
            position = last.0 + 1;
            rest.extend(items.into_iter().map(|i| i.1));
        }
        for n in 998..3000 {
            assert_eq!(rest.iter().filter(|r| **r == name(n).to_string()).count(), 1, "{n}");
        }
    }

    #[tokio::test]
    async fn a_forgotten_page_comes_back_the_same() {
        let count = (PAGES_MAX + 4) * PAGE_ENTRIES as usize;
        let memory = Memory::with(count);
        let listing = listing(&memory);
        all(&listing, 50_000, false).await;
        let again = chunk(&listing, 100, 2000, false).await;
        assert_eq!(again[0].1, name(98).to_string());
        assert!(again.len() >= 900, "to the end of the page at least");
        for (position, text, _) in again {
            assert_eq!(text, name(position as usize - 2).to_string());
        }
    }
}
