//! What a client reaches: the check of realms (docs/security.md, "Realms").

use crate::records::tail;
use namespace::inode::InodeFlags;
use observe::mutant::{Mutant, is_mutant};
use types::errno::Errno;
use types::fid::Fid;
use types::project::REALM_FIRST;

/// The inodes that a client reaches. By default all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Realm(Option<u32>);

impl Realm {
    /// The client may name any inode.
    pub(crate) const ALL: Realm = Realm(None);

    /// Those of a realm, if there is one.
    pub(crate) fn of(realm: Option<u32>) -> Realm {
        Realm(realm)
    }

    /// Its number, if there is one.
    pub(crate) fn number(self) -> Option<u32> {
        self.0
    }

    /// Succeeds if it has an inode with these flags and this tail.
    ///
    /// # Errors
    /// ESTALE: it has not; EIO: the tail is damaged.
    pub(crate) fn admits(self, fid: Fid, flags: u32, tail: &[u8]) -> Result<(), Errno> {
        match self.0 {
            None => Ok(()),
            Some(realm) => within(realm, fid, flags, tail),
        }
    }
}

fn within(realm: u32, fid: Fid, flags: u32, tail: &[u8]) -> Result<(), Errno> {
    let has_one = InodeFlags::from_bits_retain(flags).contains(InodeFlags::HAS_PROJECT);
    let inside = has_one && realm >= REALM_FIRST && tail::project(fid, tail)? == realm;
    if inside || is_mutant(Mutant::NoRealmCheck) { Ok(()) } else { Err(Errno::ESTALE) }
}
