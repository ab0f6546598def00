//! What one caller did to names, and which states of them explain what is found after a crash.
//!
//! Each change leads one name or two elsewhere. It is *whole*: all its names follow, or none. On
//! one name changes are done in order. Beyond that a crash may lose any change that was not durable
//! and that no living client was told of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where a name leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leads {
    /// There is no such name.
    Nowhere,
    /// The number of the inode.
    To(u64),
    /// An inode that its maker was not told of.
    ToSome,
}

impl Leads {
    /// What was found fits.
    fn fits(self, found: Option<u64>) -> bool {
        match self {
            Leads::Nowhere => found.is_none(),
            Leads::To(ino) => found == Some(ino),
            Leads::ToSome => found.is_some(),
        }
    }
}

/// The names that one change leads elsewhere, relative to the root.
type Change = Vec<(PathBuf, Leads)>;

/// Names of one caller, from when there were none of them.
#[derive(Default)]
pub struct History {
    changes: Vec<Change>,
    /// So many of the first changes are there for sure.
    certain: usize,
}

/// What one client was told of names, in order: inode numbers, or `None` where there was no name.
pub type Told = Vec<(PathBuf, Option<u64>)>;

impl History {
    /// A change begins; it counts from here on.
    pub fn begin(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// The newest change made an inode of this number.
    pub fn made(&mut self, ino: u64) {
        let newest = self.changes.last_mut().into_iter().flatten();
        newest.filter(|(_, leads)| *leads == Leads::ToSome).for_each(|(_, l)| *l = Leads::To(ino));
    }

    /// All changes so far are there for sure.
    pub fn is_certain(&mut self) {
        self.certain = self.changes.len();
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Explains what is found at last.
    ///
    /// # Errors
    /// The sentence that says which name cannot be explained.
    pub fn explain(&self, found: &BTreeMap<PathBuf, u64>, told: &[Told]) -> Result<(), String> {
        let mut paths: BTreeMap<&Path, Steps> = BTreeMap::new();
        for (number, (path, leads)) in
            self.changes.iter().enumerate().flat_map(|(n, all)| all.iter().map(move |one| (n, one)))
        {
            paths.entry(path).or_default().0.push((number, *leads));
        }
        if let Some(stray) = found.keys().find(|path| !paths.contains_key(path.as_path())) {
            return Err(format!("{} was never made", stray.display()));
        }
        let mut least: BTreeMap<&Path, usize> = BTreeMap::new();
        for one in told {
            for (path, known) in latest(&paths, one)? {
                let least = least.entry(path).or_default();
                *least = known.max(*least);
            }
        }
        let mut done: Vec<Option<bool>> = vec![None; self.changes.len()];
        done[..self.certain].fill(Some(true));
        let open = paths
            .iter()
            .map(|(path, steps)| {
                let found = found.get(*path).copied();
                let least = least.get(path).copied().unwrap_or(0);
                let may_be =
                    (least..=steps.0.len()).filter(|n| steps.after(*n).fits(found)).collect();
                Open { path, steps, may_be }
            })
            .collect();
        solve(done, open).map_err(|path| {
            let found = found.get(path).copied();
            let steps = &paths[path];
            let (least, certain) = (least.get(path).copied().unwrap_or(0), self.certain);
            format!(
                "{} leads to {found:?}; its changes are {:?}, of which {least} were told to a client \
                 that lives; those below number {certain} are certain",
                path.display(),
                steps.0
            )
        })
    }
}

/// The changes of one name: their numbers, and where it led after each.
#[derive(Default)]
struct Steps(Vec<(usize, Leads)>);

impl Steps {
    /// Where the name leads after so many of them.
    fn after(&self, count: usize) -> Leads {
        count.checked_sub(1).map_or(Leads::Nowhere, |last| self.0[last].1)
    }
}

/// By name, how many changes must have been done if a client was told this.
fn latest<'a>(
    paths: &BTreeMap<&'a Path, Steps>,
    told: &Told,
) -> Result<BTreeMap<&'a Path, usize>, String> {
    let mut latest: BTreeMap<&Path, usize> = BTreeMap::new();
    for (path, seen) in told {
        let Some((path, steps)) = paths.get_key_value(path.as_path()) else {
            return Err(format!("a client saw {}, which was never made", path.display()));
        };
        let before = latest.get(path).copied().unwrap_or(0);
        let Some(now) = (before..=steps.0.len()).find(|n| steps.after(*n).fits(*seen)) else {
            return Err(format!(
                "a client saw {} lead to {seen:?} after change {before} of {:?}",
                path.display(),
                steps.0
            ));
        };
        latest.insert(path, now);
    }
    Ok(latest)
}

/// A name, and how many of its changes may have been done.
#[derive(Clone)]
struct Open<'a> {
    path: &'a Path,
    steps: &'a Steps,
    may_be: Vec<usize>,
}

/// Looks for changes that were done so that each name is as it may be; an error names one that
/// cannot be.
fn solve<'a>(mut done: Vec<Option<bool>>, mut open: Vec<Open<'a>>) -> Result<(), &'a Path> {
    loop {
        let mut news = false;
        for Open { path, steps, may_be } in &mut open {
            may_be.retain(|count| {
                let fits = |(at, (number, _)): (usize, &(usize, Leads))| {
                    done[*number].is_none_or(|done| done == (at < *count))
                };
                steps.0.iter().enumerate().all(fits)
            });
            let (Some(fewest), Some(most)) = (may_be.iter().min(), may_be.iter().max()) else {
                return Err(path);
            };
            for (at, (number, _)) in steps.0.iter().enumerate() {
                if done[*number].is_none() && (at < *fewest || at >= *most) {
                    done[*number] = Some(at < *fewest);
                    news = true;
                }
            }
        }
        if !news {
            break;
        }
    }
    let Some(undecided) = open.iter().position(|name| name.may_be.len() > 1) else { return Ok(()) };
    let mut result = Ok(());
    for choice in open[undecided].may_be.clone() {
        open[undecided].may_be = vec![choice];
        result = solve(done.clone(), open.clone());
        if result.is_ok() {
            break;
        }
    }
    result
}

/// A history of these changes, the first of them certain.
#[cfg(test)]
fn history(certain: usize, changes: &[&[(&str, Leads)]]) -> History {
    let mut all = History::default();
    for (number, change) in changes.iter().enumerate() {
        if number == certain {
            all.is_certain();
        }
        all.begin(change.iter().map(|(path, leads)| (PathBuf::from(path), *leads)).collect());
    }
    if certain == changes.len() {
        all.is_certain();
    }
    all
}

#[cfg(test)]
fn names(all: &[(&str, u64)]) -> BTreeMap<PathBuf, u64> {
    all.iter().map(|(path, ino)| (PathBuf::from(path), *ino)).collect()
}

#[test]
fn a_rename_is_whole_and_what_was_told_or_synced_is_there() {
    use Leads::{Nowhere, To, ToSome};
    let rename: &[(&str, Leads)] = &[("a", Nowhere), ("b", To(1))];
    let moved = |certain| history(certain, &[&[("a", To(1))], rename]);
    let explained = |certain, found: &[(&str, u64)]| moved(certain).explain(&names(found), &[]);
    assert_eq!(explained(0, &[]), Ok(()));
    assert_eq!(explained(1, &[("a", 1)]), Ok(()));
    assert_eq!(explained(2, &[("b", 1)]), Ok(()));
    for (certain, found) in [
        (1, &[] as &[(&str, u64)]),
        (0, &[("a", 1), ("b", 1)]),
        (2, &[("a", 1)]),
        (0, &[("a", 2)]),
        (0, &[("c", 3)]),
    ] {
        assert!(explained(certain, found).is_err(), "{certain} {found:?}");
    }
    let told = |seen: &[(&str, Option<u64>)]| -> Vec<Told> {
        vec![seen.iter().map(|(path, ino)| (PathBuf::from(path), *ino)).collect()]
    };
    let with = |found, seen| moved(0).explain(&names(found), &told(seen));
    assert_eq!(with(&[("b", 1)], &[("a", Some(1)), ("b", Some(1)), ("a", None)]), Ok(()));
    assert!(with(&[], &[("a", Some(1))]).is_err(), "it was told");
    assert!(with(&[("a", 1)], &[("b", Some(1))]).is_err(), "so was the rename");
    assert!(with(&[("a", 1)], &[("a", Some(1)), ("a", None)]).is_err(), "it was seen to go");
    assert!(with(&[("b", 1)], &[("a", Some(1)), ("b", Some(1)), ("b", None)]).is_err(), "and back");
    // An inode that its maker was not told of; nothing of it may be left, all of it may.
    let unknown = history(0, &[&[("a", ToSome)]]);
    assert_eq!(unknown.explain(&names(&[("a", 9)]), &[]), Ok(()));
    assert_eq!(unknown.explain(&names(&[]), &[]), Ok(()));
}

#[test]
fn names_that_are_gone_on_both_ends_are_explained_together() {
    use Leads::{Nowhere, To};
    let changes: [&[(&str, Leads)]; 4] = [
        &[("a", To(1))],
        &[("a", Nowhere), ("b", To(1))],
        &[("b", Nowhere), ("c", To(1))],
        &[("c", Nowhere), ("d", To(2))],
    ];
    assert_eq!(history(0, &changes).explain(&names(&[]), &[]), Ok(()));
    assert_eq!(history(0, &changes).explain(&names(&[("d", 2)]), &[]), Ok(()));
    assert!(history(4, &changes).explain(&names(&[]), &[]).is_err());
    assert!(history(1, &changes).explain(&names(&[]), &[]).is_err());
}
