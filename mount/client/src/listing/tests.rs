use super::*;
use parking_lot::Mutex as Lock;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use types::attr::FileType;

const DIR: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };

/// A directory in memory.
#[derive(Default)]
struct Memory {
    names: Lock<BTreeSet<Name>>,
    asked: AtomicUsize,
    /// Locks cover all names.
    known: AtomicBool,
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
    fn page(
        &self,
        after: Option<Name>,
        limit: u32,
        _: bool,
    ) -> BoxFuture<'static, Result<Page, ClientError>> {
        let memory = self.0.clone();
        Box::pin(async move {
            memory.asked.fetch_add(1, Ordering::Relaxed);
            let names = memory.names.lock();
            let mut rest = names.iter().filter(|n| after.as_ref().is_none_or(|a| *n > a));
            let entries: Vec<DirEntry> = rest.by_ref().take(limit as usize).map(entry).collect();
            let parent = after.is_none().then_some(Fid::ROOT);
            Ok(Page { entries: entries.into(), more: rest.next().is_some(), parent })
        })
    }

    fn known_names(&self) -> Option<Page> {
        let names = self.0.names.lock();
        let entries = names.iter().map(entry).collect();
        let known = self.0.known.load(Ordering::Relaxed);
        known.then_some(Page { entries, more: false, parent: Some(Fid::ROOT) })
    }
}

fn entry(name: &Name) -> DirEntry {
    DirEntry {
        name: name.clone(),
        fid: DIR,
        file_type: FileType::Regular,
        entry: None,
        layout: None,
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
    Listing::new(DIR, Arc::new(Source(memory.clone())), Arc::new(Local), ENTRIES_KEPT_MAX)
}

/// Entries that one call hands out: (position, name), at most `count`.
async fn chunk(
    listing: &Listing,
    from: u64,
    count: usize,
    with_attr: bool,
) -> Vec<(u64, String, bool)> {
    // As the client asks: the first call of the kernel says nothing of what is wanted.
    let wanted = match (with_attr, from) {
        (false, _) => Wanted::Names,
        (true, 0) => Wanted::AttributesOrNames,
        (true, _) => Wanted::Attributes,
    };
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
    listing.read(from, wanted, take).await.unwrap();
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
    [".", ".."]
        .into_iter()
        .map(str::to_owned)
        .chain((0..count).map(|n| name(n).to_string()))
        .collect()
}

#[tokio::test]
async fn every_name_once_whatever_the_chunk() {
    for count in [0, 1, 1023, 1024, 1025, 5000] {
        for chunk in [7, 130, 5000] {
            let memory = Memory::with(count);
            for with_attr in [false, true] {
                let listing = listing(&memory);
                assert_eq!(
                    all(&listing, chunk, with_attr).await,
                    expected(count),
                    "{count} by {chunk}"
                );
                assert_eq!(
                    all(&listing, chunk, with_attr).await,
                    expected(count),
                    "and again from the start"
                );
            }
        }
    }
}

#[tokio::test]
async fn pages_are_asked_for_once_and_ahead() {
    for with_attr in [false, true] {
        let memory = Memory::with(6000);
        let listing = listing(&memory);
        let asked = || memory.asked.load(Ordering::Relaxed);
        chunk(&listing, 0, 10, with_attr).await;
        tokio::task::yield_now().await;
        assert_eq!(asked(), if with_attr { 1 } else { 2 }, "the first call is blind");
        chunk(&listing, 10, 10, with_attr).await;
        tokio::task::yield_now().await;
        assert_eq!(asked(), 2, "the first, and the second ahead");
        all(&listing, 100, with_attr).await;
        // `all` starts again, so the first two are asked for once more.
        let pages = if with_attr { 3 } else { 2 };
        assert_eq!(memory.asked.load(Ordering::Relaxed), 2 + pages);
    }
}

#[tokio::test]
async fn few_pages_are_many_names() {
    // With attributes 1,024, 4,096, 16,384, and three of 32,768; names 1,024 and the rest.
    for (with_attr, pages) in [(true, 6), (false, 2)] {
        let memory = Memory::with(100_000);
        let whole = all(&listing(&memory), 390, with_attr).await;
        assert_eq!(whole.len(), 100_002);
        assert_eq!(memory.asked.load(Ordering::Relaxed), pages);
    }
}

#[tokio::test]
async fn names_that_are_known_are_not_asked_for() {
    let memory = Memory::with(5000);
    memory.known.store(true, Ordering::Relaxed);
    let listing = listing(&memory);
    let first = chunk(&listing, 0, 1500, true).await;
    assert!(first.iter().all(|item| !item.2), "they have no attributes");
    assert_eq!(chunk(&listing, 1500, 5000, false).await.len(), 3502);
    assert_eq!(memory.asked.load(Ordering::Relaxed), 0);
    // It says that it wants attributes.
    let wants = |_: u64, _: Item<'_>| true;
    listing.read(0, Wanted::Attributes, wants).await.unwrap();
    assert_eq!(memory.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_page_of_names_ahead_does_not_serve_a_call_for_attributes() {
    let memory = Memory::with(2000);
    let listing = listing(&memory);
    let first = chunk(&listing, 0, 500, false).await;
    tokio::task::yield_now().await;
    let second = chunk(&listing, first.last().unwrap().0 + 1, 2000, true).await;
    let last = second.last().unwrap().0;
    let third = chunk(&listing, last + 1, 2000, true).await;
    assert!(second.iter().all(|item| !item.2), "names of the first page, which came before");
    assert!(third.iter().all(|item| item.2), "fetched with attributes by this call");
    assert_eq!(third.last().unwrap().1, name(1999).to_string());
}

#[tokio::test]
async fn a_small_directory_is_one_question() {
    let memory = Memory::with(100);
    all(&listing(&memory), 1000, false).await;
    assert_eq!(memory.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn only_the_call_that_fetched_attributes_hands_them_out() {
    let memory = Memory::with(1500);
    let listing = listing(&memory);
    let first = chunk(&listing, 0, 20, true).await;
    assert!(first[2..].iter().all(|i| i.2));
    chunk(&listing, 20, 1, true).await;
    tokio::task::yield_now().await;
    let rest = chunk(&listing, first.last().unwrap().0 + 1, 3000, true).await;
    assert!(
        rest.iter().all(|item| !item.2),
        "left over from the first call's page, or fetched ahead"
    );
    assert_eq!(rest.len(), 1500 - 18, "a page that is there is handed out at once");
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
    let count = ENTRIES_KEPT_MAX + 2 * PAGE_NAMES_MAX as usize;
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
