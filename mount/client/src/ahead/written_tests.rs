//! Tests of `written`.

use super::*;
use crate::ahead::windows::testing::{DIR, at, fid, listing, name};

#[test]
fn files_that_others_write_are_fetched_together() {
    let mut written = WrittenFiles::default();
    let miss =
        |written: &mut WrittenFiles, n| written.miss((DIR, &name(n)), usize::MAX, |_| false, at(0));
    let some = |from: usize, to: usize| listing(to)[from..].into();
    written.showed(DIR, some(0, 3000), false);
    assert!(written.has(DIR, &name(2999)) && !written.has(DIR, &name(3000)));
    assert!(matches!(miss(&mut written, 0), OnMiss::Ask), "one look says nothing");
    assert!(matches!(miss(&mut written, 0), OnMiss::Ask), "nor more looks at one file");
    assert_eq!(written.name_of(fid(7)), Some((DIR, name(7))));
    assert_eq!(written.name_of(fid(3000)), None);
    let OnMiss::Fetch(window) = miss(&mut written, 1) else { panic!("the second one fetches") };
    assert_eq!(window.fids, (1..1 + PAUSED_MAX).map(fid).collect::<Vec<_>>());
    drop(window);
    assert!(matches!(miss(&mut written, 1), OnMiss::Ask), "it is written again");
    let OnMiss::Fetch(window) = miss(&mut written, 2) else { panic!("it was not seen yet") };
    assert!(window.again && window.fids[0] == fid(2) && window.fids.len() == PAUSED_MAX);
    drop(window);
    // The program goes on: the next ones come with their first miss.
    written.showed(DIR, some(3000, 3010), true);
    let OnMiss::Fetch(window) = miss(&mut written, 3000) else { panic!("it waits") };
    assert_eq!(window.fids, (3000..3010).map(fid).collect::<Vec<_>>());
    written.showed(DIR, some(0, 10), false);
    assert!(matches!(miss(&mut written, 0), OnMiss::Ask), "another listing");
    written.showed(DIR, some(0, 0), false);
    assert!(!written.has(DIR, &name(0)), "nobody writes any more");
}
