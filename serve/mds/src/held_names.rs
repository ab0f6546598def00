//! Names that stay as they are for a moment, so that a kernel that looks again and then tries again
//! finds at its second try what it saw (docs/locks/kernel.md, R34 and R41). Pure.
//!
//! A change whose name led elsewhere than its client expected (`Expect`) changed nothing. From that
//! answer until the client's second try, other clients' changes of these names wait. The client's
//! own changes do not: its kernel orders them.
//!
//! One client at a time holds names. A kernel's second look waits for its directory, which other
//! threads of that mount hold while their changes wait here. If two clients held names, each second
//! look could wait for a change that waits for the other client's names.
//!
//! **Over several MDTs** each holds its own names. An operation over them names its client, so that
//! another MDT's operations wait as a client's own do. If it met what its client did not expect,
//! the Cancel that ends it tells the other MDTs to hold what it had pinned there: nothing comes in
//! between. Names that pass to another stripe wait for those that are held, or the second try would
//! come to an MDT that holds nothing.
//!
//! Bounds: a time from the answer (`MdsSettings::names_held`), and [`HELD_MAX`] names; beyond them
//! a name is not held, and the second try is as good as any. Names that pass wait for those that
//! are held, but not for ever: ten times as long as a name is held.

use env::clock::Monotonic;
use smallvec::{SmallVec, smallvec};
use std::time::Duration;
use types::attr::FileType;
use types::fid::Fid;
use types::name::Name;
use types::session::ClientUuid;
use wire::mds::{Rename, Rmdir, Unlink};

/// Names that are held at once.
const HELD_MAX: usize = 256;

/// What a client attempts.
#[derive(Clone, Copy)]
pub(crate) enum Attempt<'a> {
    Unlink(&'a Unlink),
    Rmdir(&'a Rmdir),
    Rename(&'a Rename),
}

impl<'a> Attempt<'a> {
    /// The names that it changes: of a rename the one to be moved first.
    pub(crate) fn names(self) -> SmallVec<[(Fid, &'a Name); 2]> {
        match self {
            Attempt::Unlink(op) => smallvec![(op.parent, &op.name)],
            Attempt::Rmdir(op) => smallvec![(op.parent, &op.name)],
            Attempt::Rename(op) => {
                smallvec![(op.parent, &op.name), (op.new_parent, &op.new_name)]
            }
        }
    }

    /// True if a kernel that finds this under the names tries again; otherwise it ends the call.
    pub(crate) fn comes_again(self, found: &[Option<FileType>]) -> bool {
        let is_directory = |at: usize| {
            let found: Option<FileType> = found.get(at).copied().flatten();
            found.map(|found| found == FileType::Directory)
        };
        match self {
            Attempt::Unlink(_) => is_directory(0) == Some(false),
            Attempt::Rmdir(_) => is_directory(0) == Some(true),
            Attempt::Rename(Rename { flags, .. }) => match (is_directory(0), is_directory(1)) {
                (None, _) => false,
                (Some(_), None) => !flags.exchange,
                (Some(_), Some(_)) if flags.exchange => true,
                (Some(moved), Some(replaced)) => !flags.no_replace && moved == replaced,
            },
        }
    }
}

/// Why an operation must wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InTheWay {
    /// Until then at most.
    pub(crate) until: Monotonic,
    /// Releases so far: another number means that it is worth a look.
    pub(crate) releases: u64,
}

struct Held {
    dir: Fid,
    name: Name,
    client: ClientUuid,
    until: Monotonic,
    /// Attempts of this client that hold it.
    attempts: u32,
}

/// See the module.
pub(crate) struct HeldNames {
    names: Vec<Held>,
    releases: u64,
    /// Longest time for which names are held.
    longest: Duration,
}

impl HeldNames {
    /// No name is held; one may be for `longest`.
    pub(crate) fn new(longest: Duration) -> HeldNames {
        HeldNames { names: Vec::new(), releases: 0, longest }
    }

    /// True if no name was held since the last look that found all of them over.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Releases so far.
    pub(crate) fn releases(&self) -> u64 {
        self.releases
    }

    /// If another client holds one of these names of a directory: how long.
    pub(crate) fn in_the_way<'a>(
        &self,
        client: ClientUuid,
        dir: Fid,
        names: impl IntoIterator<Item = &'a [u8]>,
        now: Monotonic,
    ) -> Option<InTheWay> {
        let others = |name: &[u8]| {
            let of_another = |held: &&Held| held.client != client && held.until > now;
            let mut all = self.names.iter().filter(of_another);
            all.find(|held| held.dir == dir && &held.name[..] == name)
        };
        let held = names.into_iter().find_map(others)?;
        Some(InTheWay { until: held.until, releases: self.releases })
    }

    /// True if a client holds a name of this directory.
    pub(crate) fn any_in(&self, dir: Fid, now: Monotonic) -> bool {
        self.names.iter().any(|held| held.dir == dir && held.until > now)
    }

    /// Holds these names for one attempt of a client.
    ///
    /// # Errors
    /// Another client holds names.
    pub(crate) fn hold(
        &mut self,
        client: ClientUuid,
        names: &[(Fid, &Name)],
        now: Monotonic,
    ) -> Result<(), InTheWay> {
        self.names.retain(|held| held.until > now);
        if let Some(other) = self.names.iter().find(|held| held.client != client) {
            return Err(InTheWay { until: other.until, releases: self.releases });
        }
        if self.names.len() + names.len() > HELD_MAX {
            return Ok(());
        }
        let until = now + self.longest;
        for (dir, name) in names {
            match self.names.iter_mut().find(|held| held.dir == *dir && held.name == **name) {
                Some(held) => (held.until, held.attempts) = (until, held.attempts + 1),
                None => {
                    let (dir, name) = (*dir, (*name).clone());
                    self.names.push(Held { dir, name, client, until, attempts: 1 });
                }
            }
        }
        Ok(())
    }

    /// An attempt of this client is over. `true`: others may go on.
    pub(crate) fn release(&mut self, client: ClientUuid, names: &[(Fid, &Name)]) -> bool {
        self.release_where(|held| held.client == client && is_one_of(held, names))
    }

    /// These names changed in an operation over several MDTs, which nothing but its own client's
    /// hold let through: that attempt is over. `true`: others may go on.
    pub(crate) fn changed(&mut self, names: &[(Fid, &Name)]) -> bool {
        self.release_where(|held| is_one_of(held, names))
    }

    fn release_where(&mut self, is_one: impl Fn(&Held) -> bool) -> bool {
        let before = self.names.len();
        self.names.iter_mut().filter(|held| is_one(held)).for_each(|held| held.attempts -= 1);
        self.names.retain(|held| held.attempts > 0);
        let released = self.names.len() < before;
        self.releases += u64::from(released);
        released
    }
}

fn is_one_of(held: &Held, names: &[(Fid, &Name)]) -> bool {
    names.iter().any(|(dir, name)| held.dir == *dir && held.name == **name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::mds::RenameFlags;

    const A: ClientUuid = ClientUuid(1);
    const B: ClientUuid = ClientUuid(2);
    const HELD_FOR: Duration = Duration::from_secs(1);
    const NOW: Monotonic = Duration::from_secs(100);

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    fn waits(held: &HeldNames, client: ClientUuid, text: &str, now: Monotonic) -> bool {
        held.in_the_way(client, Fid::ROOT, [text.as_bytes()], now).is_some()
    }

    #[test]
    fn others_wait_until_the_second_try_or_for_a_bounded_time() {
        let (mut held, x, y) = (HeldNames::new(HELD_FOR), name("x"), name("y"));
        let both = [(Fid::ROOT, &x), (Fid::ROOT, &y)];
        held.hold(A, &both, NOW).unwrap();
        assert!(waits(&held, B, "x", NOW) && waits(&held, B, "y", NOW));
        assert!(!waits(&held, B, "z", NOW) && !waits(&held, A, "x", NOW));
        assert!(held.in_the_way(B, Fid::NONE, [&b"x"[..]], NOW).is_none(), "elsewhere");
        assert!(!waits(&held, B, "x", NOW + HELD_FOR), "the kernel ended the call");
        let seen = held.releases();
        assert!(!held.release(B, &both) && held.releases() == seen);
        assert!(held.release(A, &both) && held.releases() != seen && held.is_empty());
        assert!(!waits(&held, B, "x", NOW));
    }

    /// Whatever the names are.
    #[test]
    fn one_client_at_a_time_holds_names() {
        let (mut held, x, y) = (HeldNames::new(HELD_FOR), name("x"), name("y"));
        held.hold(A, &[(Fid::ROOT, &x)], NOW).unwrap();
        let other = held.hold(B, &[(Fid::ROOT, &y)], NOW).unwrap_err();
        assert_eq!(other, InTheWay { until: NOW + HELD_FOR, releases: 0 });
        assert!(!waits(&held, A, "y", NOW));
        held.hold(B, &[(Fid::ROOT, &y)], NOW + HELD_FOR).unwrap();
        assert!(waits(&held, A, "y", NOW + HELD_FOR) && !waits(&held, B, "x", NOW + HELD_FOR));
    }

    #[test]
    fn two_attempts_of_a_client_hold_a_name_until_both_are_over() {
        let (mut held, x) = (HeldNames::new(HELD_FOR), name("x"));
        let names = [(Fid::ROOT, &x)];
        held.hold(A, &names, NOW).unwrap();
        held.hold(A, &names, NOW).unwrap();
        assert!(!held.release(A, &names) && waits(&held, B, "x", NOW));
        assert!(held.release(A, &names) && !waits(&held, B, "x", NOW));
    }

    #[test]
    fn a_directory_tells_whether_names_of_it_are_held() {
        let (mut held, x) = (HeldNames::new(HELD_FOR), name("x"));
        held.hold(A, &[(Fid::ROOT, &x)], NOW).unwrap();
        assert!(held.any_in(Fid::ROOT, NOW) && !held.any_in(Fid::NONE, NOW));
        assert!(!held.any_in(Fid::ROOT, NOW + HELD_FOR));
        assert!(held.changed(&[(Fid::ROOT, &x)]) && held.is_empty());
        assert!(!held.changed(&[(Fid::ROOT, &x)]) && !held.any_in(Fid::ROOT, NOW));
    }

    #[test]
    fn a_kernel_that_ends_the_call_holds_nothing() {
        use FileType::{Directory, Regular};
        let name = name("a");
        let (unlink, rmdir) = (
            Unlink { parent: Fid::ROOT, name: name.clone() },
            Rmdir { parent: Fid::ROOT, name: name.clone() },
        );
        let unlinks = |found| Attempt::Unlink(&unlink).comes_again(&[found]);
        assert_eq!([None, Some(Directory), Some(Regular)].map(unlinks), [false, false, true]);
        let rmdirs = |found| Attempt::Rmdir(&rmdir).comes_again(&[found]);
        assert_eq!([None, Some(Directory), Some(Regular)].map(rmdirs), [false, true, false]);
        let renames = |no_replace, exchange| {
            let rename = Rename {
                parent: Fid::ROOT,
                name: name.clone(),
                new_parent: Fid::ROOT,
                new_name: name.clone(),
                flags: RenameFlags { no_replace, exchange },
            };
            let (dir, file) = (Some(Directory), Some(Regular));
            let cases = [[None, file], [file, None], [file, file], [dir, file], [dir, dir]];
            cases.map(|found| Attempt::Rename(&rename).comes_again(&found))
        };
        assert_eq!(renames(false, false), [false, true, true, false, true]);
        assert_eq!(renames(true, false), [false, true, false, false, false]);
        assert_eq!(renames(false, true), [false, false, true, true, true]);
    }

    #[test]
    fn it_is_bounded() {
        let mut held = HeldNames::new(HELD_FOR);
        for n in 0..2 * HELD_MAX {
            held.hold(A, &[(Fid::ROOT, &name(&n.to_string()))], NOW).unwrap();
        }
        assert_eq!(held.names.len(), HELD_MAX);
        assert!(!waits(&held, B, &HELD_MAX.to_string(), NOW));
    }
}
