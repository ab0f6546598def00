//! The identity of the caller on whose behalf a request acts.

use smallvec::SmallVec;
use std::sync::Arc;

/// User, group, supplementary groups. At most [`crate::limits::GROUPS_MAX`] of the latter travel.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Credentials {
    /// File system user id.
    pub uid: u32,
    /// File system group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: SmallVec<[u32; 4]>,
}

/// A user and a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ids {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl From<Ids> for Credentials {
    fn from(Ids { uid, gid }: Ids) -> Credentials {
        Credentials { uid, gid, ..Credentials::default() }
    }
}

/// The ids as which the callers of one client act, as an MDT decides (docs/security.md, "Squash").
/// A squashed caller has no supplementary groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Squash {
    /// User 0 acts as these; `None`: as itself.
    pub root: Option<Ids>,
    /// All other users act as these; `None`: as themselves.
    pub others: Option<Ids>,
}

impl Squash {
    /// All act as themselves.
    pub const OFF: Squash = Squash { root: None, others: None };

    /// The ids as which a user acts; `None`: its own.
    pub fn of(self, uid: u32) -> Option<Ids> {
        if uid == 0 { self.root } else { self.others }
    }

    /// Makes a caller the one that it acts as. `true`: it is squashed. A client that knows sends
    /// the ids that root acts as itself; they stay.
    pub fn apply(self, caller: &mut Credentials) -> bool {
        let Some(ids) = self.of(caller.uid) else { return false };
        let claimed = Ids { uid: caller.uid, gid: caller.gid };
        *caller = if self.root == Some(claimed) { claimed.into() } else { ids.into() };
        true
    }
}

/// The users of a client that its nodemap knows (docs/security.md, "Nodemaps").
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownUsers {
    /// Their ids at the client: the first one, and how many follow it; ascending, apart.
    pub users: Vec<(u32, u32)>,
    /// All others act as these.
    pub others: Ids,
    /// All others are refused.
    pub denies: bool,
}

/// The ids as which the callers of one client act, as the client has them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Callers {
    /// Of the users that the nodemap knows, the ones that are squashed all the same.
    pub squash: Squash,
    /// The users that the nodemap knows; `None`: all.
    pub known: Option<Arc<KnownUsers>>,
}

/// What becomes of a caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ActsAs {
    /// It acts as itself.
    Itself,
    /// It acts as these, without supplementary groups.
    Ids(Ids),
    /// It is refused.
    Nobody,
}

impl KnownUsers {
    /// True if this is one of them.
    pub fn has(&self, uid: u32) -> bool {
        let behind = self.users.partition_point(|(first, _)| *first <= uid);
        let span = behind.checked_sub(1).and_then(|at| self.users.get(at));
        span.is_some_and(|(first, more)| uid - first <= *more)
    }
}

impl From<Squash> for Callers {
    fn from(squash: Squash) -> Callers {
        Callers { squash, known: None }
    }
}

impl Callers {
    /// All act as themselves.
    pub fn are_themselves(&self) -> bool {
        *self == Callers::default()
    }

    /// What becomes of a user.
    pub fn of(&self, uid: u32) -> ActsAs {
        match &self.known {
            Some(known) if !known.has(uid) => match known.denies {
                true => ActsAs::Nobody,
                false => ActsAs::Ids(known.others),
            },
            _ => self.squash.of(uid).map_or(ActsAs::Itself, ActsAs::Ids),
        }
    }
}

/// What an MDT tells a client of its [`Callers`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SquashNews {
    /// Grows with each change, also from one life of the MDT to the next: of two news the one with
    /// the higher number holds.
    pub change: u64,
    /// What holds since.
    pub callers: Callers,
}

impl SquashNews {
    /// Changes in one life of an MDT: more than it can make.
    const CHANGES_PER_BOOT_BITS: u32 = 20;

    /// What holds in this life of an MDT after so many changes.
    pub fn new(boot: u64, changes: u32, callers: Callers) -> SquashNews {
        let life = boot << SquashNews::CHANGES_PER_BOOT_BITS;
        SquashNews { change: life.saturating_add(changes.into()), callers }
    }

    /// What holds in a life in which nothing was said: it needs no word.
    pub fn silent(boot: u64) -> SquashNews {
        SquashNews::new(boot, 0, Callers::default())
    }
}

impl Credentials {
    /// The superuser: the identity under which the file system itself acts.
    pub fn root() -> Credentials {
        Credentials::default()
    }

    /// True if the caller belongs to group `gid`.
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_is_squashed_once_stays_so() {
        let (nobody, guest) = (Ids { uid: 99, gid: 98 }, Ids { uid: 500, gid: 501 });
        let who = |uid, gid| Credentials { uid, gid, groups: [4, 0].into_iter().collect() };
        let acts = |squash: Squash, mut caller: Credentials| {
            let squashed = squash.apply(&mut caller);
            let again = caller.clone();
            squash.apply(&mut caller);
            assert_eq!(caller, again, "a client that knows sends the ids as which its callers act");
            (squashed, caller)
        };
        let root = Squash { root: Some(nobody), others: None };
        assert_eq!(acts(root, who(0, 0)), (true, nobody.into()));
        assert_eq!(acts(root, who(7, 0)), (false, who(7, 0)));
        let all = Squash { root: Some(guest), others: Some(guest) };
        assert_eq!(
            [who(0, 5), who(7, 0)].map(|caller| acts(all, caller)),
            [(true, guest.into()), (true, guest.into())]
        );
        let both = Squash { root: Some(nobody), others: Some(guest) };
        assert_eq!(acts(both, who(0, 0)), (true, nobody.into()));
        assert_eq!(acts(both, who(99, 98)), (true, nobody.into()));
        assert_eq!(acts(both, who(99, 7)), (true, guest.into()));
        assert_eq!(acts(Squash::OFF, who(0, 0)), (false, who(0, 0)));
    }

    #[test]
    fn unknown_users_are_squashed_or_refused() {
        let (nobody, guest) = (Ids { uid: 99, gid: 98 }, Ids { uid: 500, gid: 501 });
        let users = vec![(1, 0), (10, 9), (u32::MAX - 2, 1)];
        let known =
            |denies| Some(Arc::new(KnownUsers { users: users.clone(), others: nobody, denies }));
        let squash = Squash { root: Some(guest), others: None };
        let callers = Callers { squash, known: known(false) };
        let of = |uid| callers.of(uid);
        for uid in [1, 10, 19, u32::MAX - 1] {
            assert_eq!(of(uid), ActsAs::Itself, "{uid}");
        }
        for uid in [0, 2, 9, 20, u32::MAX] {
            assert_eq!(of(uid), ActsAs::Ids(nobody), "{uid}");
        }
        let denying = Callers { known: known(true), ..callers.clone() };
        assert_eq!([1, 2].map(|uid| denying.of(uid)), [ActsAs::Itself, ActsAs::Nobody]);
        let all = Callers { squash, known: None };
        assert_eq!([0, 2].map(|uid| all.of(uid)), [ActsAs::Ids(guest), ActsAs::Itself]);
    }

    #[test]
    fn what_a_later_life_says_is_newer() {
        let said = |boot, changes| SquashNews::new(boot, changes, Callers::default()).change;
        assert!(said(1, 0) < said(1, 1) && said(1, 1000) < said(2, 0));
        assert_eq!(SquashNews::silent(3).change, said(3, 0));
        assert_eq!(said(u64::MAX, u32::MAX), u64::MAX);
    }
}
