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
