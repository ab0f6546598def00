//! POSIX ACLs: the binary form of `system.posix_acl_*`, what they permit, and how they follow the
//! mode.
//!
//! Binary form (Linux): u32 version = 2, then per entry u16 tag, u16 permissions, u32 id, all
//! little endian. An ACL with nothing beyond owner, group and others says no more than the mode and
//! is never stored.

use types::credentials::Credentials;
use types::errno::Errno;

/// Name of the access ACL.
pub const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// Name of the default ACL of a directory.
pub const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const HEADER: usize = 4;
const ENTRY: usize = 8;
/// Id of entries that name no user or group.
const NO_ID: u32 = u32::MAX;

/// The users that an entry applies to. The numbers are those of the binary form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Tag {
    /// The owner.
    UserObj = 0x01,
    /// A user.
    User = 0x02,
    /// The owning group.
    GroupObj = 0x04,
    /// A group.
    Group = 0x08,
    /// Upper bound for all but owner and others.
    Mask = 0x10,
    /// Everybody else.
    Other = 0x20,
}

/// One entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AclEntry {
    /// The users that it applies to.
    pub tag: Tag,
    /// rwx bits, 0..=7.
    pub perm: u16,
    /// User or group id; u32::MAX where none belongs.
    pub id: u32,
}

/// A valid ACL with at least the three basic entries, in canonical order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acl(Vec<AclEntry>);

/// The binary form with other ids: `map` is asked for those of users and groups that are named;
/// entries for which it has none are left out. What is no binary form stays as it is.
///
/// # Errors
/// The first error of `map`.
pub fn map_ids(
    bytes: &[u8],
    mut map: impl FnMut(Tag, u32) -> Result<Option<u32>, Errno>,
) -> Result<Vec<u8>, Errno> {
    let Some((header, entries)) = bytes.split_first_chunk::<HEADER>() else {
        return Ok(bytes.to_vec());
    };
    let (chunks, rest) = entries.as_chunks::<ENTRY>();
    if !rest.is_empty() {
        return Ok(bytes.to_vec());
    }
    let mut mapped = header.to_vec();
    for chunk in chunks {
        let tag = match u16::from_le_bytes([chunk[0], chunk[1]]) {
            tag if tag == Tag::User as u16 => Tag::User,
            tag if tag == Tag::Group as u16 => Tag::Group,
            _ => {
                mapped.extend_from_slice(chunk);
                continue;
            }
        };
        let [.., a, b, c, d] = *chunk;
        if let Some(id) = map(tag, u32::from_le_bytes([a, b, c, d]))? {
            mapped.extend_from_slice(&chunk[..ENTRY - size_of::<u32>()]);
            mapped.extend_from_slice(&id.to_le_bytes());
        }
    }
    Ok(mapped)
}

impl Acl {
    /// From the binary form, checked as Linux does.
    ///
    /// # Errors
    /// EOPNOTSUPP for another version, EINVAL for everything else that is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Acl, Errno> {
        let (header, entries) = bytes.split_first_chunk::<HEADER>().ok_or(Errno::EINVAL)?;
        if u32::from_le_bytes(*header) != VERSION {
            return Err(Errno::EOPNOTSUPP);
        }
        let (chunks, rest) = entries.as_chunks::<ENTRY>();
        if !rest.is_empty() {
            return Err(Errno::EINVAL);
        }
        let mut acl = Vec::with_capacity(chunks.len());
        for c in chunks {
            let tag = match u16::from_le_bytes([c[0], c[1]]) {
                0x01 => Tag::UserObj,
                0x02 => Tag::User,
                0x04 => Tag::GroupObj,
                0x08 => Tag::Group,
                0x10 => Tag::Mask,
                0x20 => Tag::Other,
                _ => return Err(Errno::EINVAL),
            };
            let named = matches!(tag, Tag::User | Tag::Group);
            let id = if named { u32::from_le_bytes([c[4], c[5], c[6], c[7]]) } else { NO_ID };
            if named && id == NO_ID {
                return Err(Errno::EINVAL);
            }
            acl.push(AclEntry { tag, perm: u16::from_le_bytes([c[2], c[3]]), id });
        }
        let acl = Acl(acl);
        acl.check()?;
        Ok(acl)
    }

    /// Fails unless the entries are complete and in order: owner, users, group, groups, mask
    /// (needed with users or groups), others.
    fn check(&self) -> Result<(), Errno> {
        let mut previous = None;
        let mut needs_mask = false;
        let mut basic = 0;
        for entry in &self.0 {
            let single = !matches!(entry.tag, Tag::User | Tag::Group);
            let in_order = previous
                .is_none_or(|p| if single { p < entry.tag as u16 } else { p <= entry.tag as u16 });
            if !in_order || entry.perm > 7 {
                return Err(Errno::EINVAL);
            }
            match entry.tag {
                Tag::User | Tag::Group => needs_mask = true,
                Tag::Mask => needs_mask = false,
                Tag::UserObj | Tag::GroupObj | Tag::Other => basic += 1,
            }
            previous = Some(entry.tag as u16);
        }
        if basic == 3 && !needs_mask { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// The binary form.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + ENTRY * self.0.len());
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        for entry in &self.0 {
            bytes.extend_from_slice(&(entry.tag as u16).to_le_bytes());
            bytes.extend_from_slice(&entry.perm.to_le_bytes());
            bytes.extend_from_slice(&entry.id.to_le_bytes());
        }
        bytes
    }

    /// The entries.
    pub fn entries(&self) -> &[AclEntry] {
        &self.0
    }

    /// True if it says no more than a mode.
    pub fn is_minimal(&self) -> bool {
        self.0.len() == 3
    }

    /// The nine permission bits it stands for: the group's are the mask, if there is one.
    pub fn mode(&self) -> u32 {
        let (mut mode, mut mask) = (0, None);
        for entry in &self.0 {
            let perm = u32::from(entry.perm);
            match entry.tag {
                Tag::UserObj => mode |= perm << 6,
                Tag::GroupObj => mode |= perm << 3,
                Tag::Other => mode |= perm,
                Tag::Mask => mask = Some(perm),
                Tag::User | Tag::Group => {}
            }
        }
        mask.map_or(mode, |m| mode & !0o070 | m << 3)
    }

    /// chmod: owner, mask (or group without one) and others follow the mode.
    pub fn chmod(&mut self, mode: u32) {
        let masked = self.0.iter().any(|e| e.tag == Tag::Mask);
        for entry in &mut self.0 {
            match entry.tag {
                Tag::UserObj => entry.perm = (mode >> 6 & 7) as u16,
                Tag::GroupObj if !masked => entry.perm = (mode >> 3 & 7) as u16,
                Tag::Mask => entry.perm = (mode >> 3 & 7) as u16,
                Tag::Other => entry.perm = (mode & 7) as u16,
                Tag::User | Tag::Group | Tag::GroupObj => {}
            }
        }
    }

    /// Inheritance: this default ACL becomes the access ACL of a new inode. Each basic entry keeps
    /// only what `mode` asks for too; returns the resulting mode (bits beyond the nine are kept).
    pub fn inherit(&mut self, mode: u32) -> u32 {
        let masked = self.0.iter().any(|e| e.tag == Tag::Mask);
        for entry in &mut self.0 {
            match entry.tag {
                Tag::UserObj => entry.perm &= (mode >> 6 & 7) as u16,
                Tag::GroupObj if !masked => entry.perm &= (mode >> 3 & 7) as u16,
                Tag::Mask => entry.perm &= (mode >> 3 & 7) as u16,
                Tag::Other => entry.perm &= (mode & 7) as u16,
                Tag::User | Tag::Group | Tag::GroupObj => {}
            }
        }
        mode & !0o777 | self.mode()
    }

    /// True if it permits `want` to a caller other than the owner. `group` is the owning group.
    pub fn permits(&self, who: &Credentials, group: u32, want: u32) -> bool {
        let mask = self.0.iter().find(|e| e.tag == Tag::Mask).map_or(7, |e| u32::from(e.perm));
        let mut in_some_group = false;
        for entry in &self.0 {
            let perm = u32::from(entry.perm);
            match entry.tag {
                Tag::User if entry.id == who.uid => return want & !(perm & mask) == 0,
                Tag::GroupObj | Tag::Group => {
                    let gid = if entry.tag == Tag::Group { entry.id } else { group };
                    if who.in_group(gid) {
                        in_some_group = true;
                        if want & !perm == 0 {
                            return want & !mask == 0;
                        }
                    }
                }
                Tag::Other => return !in_some_group && want & !perm == 0,
                Tag::User | Tag::UserObj | Tag::Mask => {}
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(Tag, u16, u32)]) -> Vec<u8> {
        Acl(entries
            .iter()
            .map(|(tag, perm, id)| AclEntry { tag: *tag, perm: *perm, id: *id })
            .collect())
        .encode()
    }

    fn full() -> Vec<u8> {
        acl(&[
            (Tag::UserObj, 7, NO_ID),
            (Tag::User, 6, 100),
            (Tag::GroupObj, 5, NO_ID),
            (Tag::Group, 7, 200),
            (Tag::Mask, 6, NO_ID),
            (Tag::Other, 1, NO_ID),
        ])
    }

    #[test]
    fn binary_form_round_trips() {
        assert_eq!(Acl::parse(&full()).unwrap().encode(), full());
    }

    #[test]
    fn wrong_forms_are_refused() {
        let good = full();
        assert_eq!(Acl::parse(&good[..3]), Err(Errno::EINVAL));
        assert_eq!(Acl::parse(&good[..good.len() - 1]), Err(Errno::EINVAL));
        assert_eq!(Acl::parse(&good[..4]), Err(Errno::EINVAL));
        let mut other_version = good.clone();
        other_version[0] = 1;
        assert_eq!(Acl::parse(&other_version), Err(Errno::EOPNOTSUPP));
        for bad in [
            // no mask although a user is named
            acl(&[
                (Tag::UserObj, 7, NO_ID),
                (Tag::User, 7, 1),
                (Tag::GroupObj, 7, NO_ID),
                (Tag::Other, 0, NO_ID),
            ]),
            // out of order
            acl(&[(Tag::GroupObj, 7, NO_ID), (Tag::UserObj, 7, NO_ID), (Tag::Other, 0, NO_ID)]),
            // an entry twice
            acl(&[
                (Tag::UserObj, 7, NO_ID),
                (Tag::UserObj, 7, NO_ID),
                (Tag::GroupObj, 0, 0),
                (Tag::Other, 0, NO_ID),
            ]),
            // permission beyond rwx
            acl(&[(Tag::UserObj, 8, NO_ID), (Tag::GroupObj, 7, NO_ID), (Tag::Other, 0, NO_ID)]),
            // others missing
            acl(&[(Tag::UserObj, 7, NO_ID), (Tag::GroupObj, 7, NO_ID)]),
        ] {
            assert_eq!(Acl::parse(&bad), Err(Errno::EINVAL));
        }
    }

    #[test]
    fn the_mask_is_the_group_of_the_mode() {
        let mut acl = Acl::parse(&full()).unwrap();
        assert_eq!(acl.mode(), 0o761);
        acl.chmod(0o640);
        assert_eq!(acl.mode(), 0o640);
        assert_eq!(acl.entries()[2].perm, 5, "the group entry itself stays under a mask");
    }

    #[test]
    fn a_default_acl_bounds_the_mode_of_a_new_inode() {
        let mut acl = Acl::parse(&full()).unwrap();
        assert_eq!(acl.inherit(0o4666), 0o4660);
        let minimal = super::tests::acl(&[
            (Tag::UserObj, 7, NO_ID),
            (Tag::GroupObj, 5, NO_ID),
            (Tag::Other, 0, NO_ID),
        ]);
        let mut acl = Acl::parse(&minimal).unwrap();
        assert_eq!(acl.inherit(0o777), 0o750);
        assert!(acl.is_minimal());
    }

    #[test]
    fn named_users_and_groups_are_bounded_by_the_mask() {
        let acl = Acl::parse(&full()).unwrap();
        let who = |uid, gid| Credentials { uid, gid, groups: Default::default() };
        assert!(acl.permits(&who(100, 1), 50, 6));
        assert!(!acl.permits(&who(100, 1), 50, 1), "the user entry has no x");
        assert!(!acl.permits(&who(1, 200), 50, 7), "the mask takes x from the group");
        assert!(acl.permits(&who(1, 200), 50, 6));
        assert!(acl.permits(&who(1, 50), 50, 4));
        assert!(!acl.permits(&who(1, 50), 50, 1), "the owning group has x, but the mask has not");
        assert!(acl.permits(&who(1, 1), 50, 1));
        assert!(!acl.permits(&who(1, 1), 50, 2));
    }
}
