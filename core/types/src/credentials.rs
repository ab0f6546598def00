//! The identity of the caller on whose behalf a request acts.

use smallvec::SmallVec;

/// User, group, supplementary groups. At most [`crate::limits::GROUPS_MAX`] of the latter travel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
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

/// What an MDT tells a client of its [`Squash`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SquashNews {
    /// Grows with each change, also from one life of the MDT to the next: of two news the one with
    /// the higher number holds.
    pub change: u64,
    /// What holds since.
    pub squash: Squash,
}

impl SquashNews {
    /// Changes in one life of an MDT: more than it can make.
    const CHANGES_PER_BOOT_BITS: u32 = 20;

    /// What holds in this life of an MDT after so many changes.
    pub fn new(boot: u64, changes: u32, squash: Squash) -> SquashNews {
        let life = boot << SquashNews::CHANGES_PER_BOOT_BITS;
        SquashNews { change: life.saturating_add(changes.into()), squash }
    }

    /// What holds in a life in which nothing was said: it needs no word.
    pub fn silent(boot: u64) -> SquashNews {
        SquashNews::new(boot, 0, Squash::OFF)
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
    fn what_a_later_life_says_is_newer() {
        let said = |boot, changes| SquashNews::new(boot, changes, Squash::OFF).change;
        assert!(said(1, 0) < said(1, 1) && said(1, 1000) < said(2, 0));
        assert_eq!(SquashNews::silent(3).change, said(3, 0));
        assert_eq!(said(u64::MAX, u32::MAX), u64::MAX);
    }
}
