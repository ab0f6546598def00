//! One listing of several stripes of a directory.
//!
//! Each stripe lists in the order of names, and each name has one stripe. So a page of the whole is
//! made of a page of each stripe, all behind the same name, up to the first place at which one of
//! them has not been looked at any further. What is behind that is asked for again with the next
//! page: a few names, because hashes deal them out evenly.

use crate::listing::Page;
use rpc::error::RpcError;
use session::error::ClientError;
use std::sync::Arc;
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use wire::mds::DirEntry;

/// Fewest names that are asked of one stripe.
const ENTRIES_MIN: u32 = 64;

/// How many names are asked of each of so many stripes for a page of `limit`.
pub(crate) fn share(limit: u32, stripes: usize) -> u32 {
    (limit / stripes.max(1) as u32).max(ENTRIES_MIN)
}

/// The names of one stripe, and whether it goes on.
pub(crate) type Part = (Vec<DirEntry>, bool);

/// Makes a page of those of all stripes.
///
/// # Errors
/// EPROTO: a stripe goes on, but lists nothing.
pub(crate) fn merge(parts: Vec<Part>, parent: Option<Fid>) -> Result<Page, ClientError> {
    let mut end: Option<Name> = None;
    for (entries, more) in parts.iter().filter(|(_, more)| *more) {
        debug_assert!(more);
        let Some(last) = entries.last() else {
            tracing::error!("the MDT answers that a directory goes on, but lists nothing");
            return Err(RpcError::Errno(Errno::EPROTO).into());
        };
        if end.as_ref().is_none_or(|end| last.name < *end) {
            end = Some(last.name.clone());
        }
    }
    let mut all: Vec<DirEntry> = parts.into_iter().flat_map(|(entries, _)| entries).collect();
    if let Some(end) = &end {
        all.retain(|entry| entry.name <= *end);
    }
    all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(Page { entries: Arc::from(all), more: end.is_some(), parent })
}

/// Up to `limit` of known names behind `after`.
pub(crate) fn part_of(entries: &[DirEntry], after: Option<&Name>, limit: u32) -> Part {
    let from = after.map_or(0, |after| entries.partition_point(|entry| entry.name <= *after));
    let rest = &entries[from..];
    let taken = rest.len().min(limit as usize);
    (rest[..taken].to_vec(), taken < rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::attr::FileType;

    fn entry(name: &str) -> DirEntry {
        let (name, file_type) = (Name::new(name.as_bytes()).unwrap(), FileType::Regular);
        DirEntry { name, fid: Fid::ROOT, file_type, entry: None, layout: None }
    }

    fn entries(names: &[&str]) -> Vec<DirEntry> {
        names.iter().map(|name| entry(name)).collect()
    }

    fn names(page: &Page) -> Vec<String> {
        page.entries.iter().map(|e| String::from_utf8_lossy(e.name.as_bytes()).into()).collect()
    }

    #[test]
    fn a_page_ends_where_one_stripe_is_not_known_any_further() {
        let parts = || {
            vec![
                (entries(&["a", "c", "x"]), true),
                (entries(&["b", "d"]), true),
                (entries(&["e"]), false),
            ]
        };
        let page = merge(parts(), Some(Fid::ROOT)).unwrap();
        assert_eq!((names(&page).join(""), page.more), ("abcd".to_owned(), true));
        let last = parts().into_iter().map(|(entries, _)| (entries, false)).collect();
        let page = merge(last, None).unwrap();
        assert_eq!((names(&page).join(""), page.more), ("abcdex".to_owned(), false));
        assert!(merge(vec![(Vec::new(), true)], None).is_err());
        assert_eq!(merge(vec![(Vec::new(), false)], None).unwrap().entries.len(), 0);
    }

    /// Each name once, whatever the pages are.
    #[test]
    fn pages_make_a_whole() {
        let all: Vec<String> = (0..500).map(|n| format!("{:03}", n * 7 % 500)).collect();
        for stripes in [2, 3, 7] {
            let mut of: Vec<Vec<DirEntry>> = vec![Vec::new(); stripes];
            let mut sorted: Vec<&String> = all.iter().collect();
            sorted.sort();
            sorted.iter().enumerate().for_each(|(n, name)| of[n * n % stripes].push(entry(name)));
            let (mut seen, mut after, mut pages) = (Vec::new(), None, 0);
            loop {
                let parts = of.iter().map(|entries| part_of(entries, after.as_ref(), 20)).collect();
                let page = merge(parts, None).unwrap();
                seen.extend(names(&page));
                pages += 1;
                after = page.entries.last().map(|entry| entry.name.clone());
                if !page.more {
                    break;
                }
            }
            assert_eq!(seen, sorted.into_iter().cloned().collect::<Vec<_>>());
            assert!(pages > 2);
        }
    }

    #[test]
    fn each_stripe_gives_its_share() {
        assert_eq!([share(1024, 4), share(1024, 38), share(16_384, 38)], [256, 64, 431]);
    }
}
