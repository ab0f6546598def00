//! Ids in requests and replies of a client whose nodemap maps them: on its side of these functions
//! there are ids of the client, on the other those of the file system.

use idmap::nodemap::{IdKind, Nodemap};
use namespace::acl::{ACL_ACCESS, ACL_DEFAULT, Tag, map_ids};
use observe::mutant::{Mutant, is_mutant};
use types::errno::Errno;
use types::fid::Fid;
use wire::class::Held;
use wire::mds::{Entry, Getxattr, MdsOp, MdsReply};

fn kind_of(tag: Tag) -> IdKind {
    if tag == Tag::Group { IdKind::Gid } else { IdKind::Uid }
}

fn is_acl(name: &[u8]) -> bool {
    name == ACL_ACCESS || name == ACL_DEFAULT
}

/// True if the answer to this operation is an ACL.
pub(crate) fn asks_for_acl(op: &MdsOp) -> bool {
    matches!(op, MdsOp::Getxattr(Getxattr { name, .. }) if is_acl(name))
}

/// Makes the ids of an operation those of the file system.
///
/// # Errors
/// EINVAL: an ACL names an id that the nodemap does not know; it could name no other instead.
/// EACCES: a new owner is not known, and the nodemap denies unknown ids.
pub(crate) fn map_op(nodemap: &Nodemap, op: &mut MdsOp) -> Result<(), Errno> {
    match op {
        _ if is_mutant(Mutant::IdsAsSent) => Ok(()),
        MdsOp::Setattr(setattr) => {
            let map = |kind, id: &mut Option<u32>| match id.map(|id| nodemap.known(kind, id)) {
                Some(None) if nodemap.deny_unknown => Err(Errno::EACCES),
                _ => {
                    *id = id.map(|id| nodemap.to_fs(kind, id));
                    Ok(())
                }
            };
            map(IdKind::Uid, &mut setattr.set.uid)?;
            map(IdKind::Gid, &mut setattr.set.gid)
        }
        MdsOp::Setxattr(setxattr) if is_acl(&setxattr.name) => {
            let named = |tag, id| nodemap.named(kind_of(tag), id).ok_or(Errno::EINVAL).map(Some);
            setxattr.value = map_ids(&setxattr.value, named)?.into();
            Ok(())
        }
        _ => Ok(()),
    }
}

fn map_entry(nodemap: &Nodemap, entry: &mut Entry) {
    entry.attr.uid = nodemap.to_client(IdKind::Uid, entry.attr.uid);
    entry.attr.gid = nodemap.to_client(IdKind::Gid, entry.attr.gid);
}

/// Makes the ids of entries those of the client.
pub(crate) fn map_entries(nodemap: &Nodemap, entries: &mut [Entry]) {
    entries.iter_mut().for_each(|entry| map_entry(nodemap, entry));
}

/// Makes the ids of an answer those of the client. `acl`: it is an ACL. Entries of an ACL that name
/// ids which are none of the client's are left out: they give its users nothing.
///
/// # Errors
/// EINVAL: it is no ACL.
pub(crate) fn map_reply(nodemap: &Nodemap, reply: &mut MdsReply, acl: bool) -> Result<(), Errno> {
    match reply {
        MdsReply::Entry(entry)
        | MdsReply::Opened { entry, .. }
        | MdsReply::Data { entry, .. }
        | MdsReply::Extents { entry, .. } => map_entry(nodemap, entry),
        MdsReply::Attrs(entries) => {
            entries.iter_mut().flatten().for_each(|entry| map_entry(nodemap, entry));
        }
        MdsReply::Entries { entries, .. } => {
            let entries = entries.iter_mut().filter_map(|entry| entry.entry.as_mut());
            entries.for_each(|entry| map_entry(nodemap, entry));
        }
        MdsReply::Bytes(bytes) if acl => {
            *bytes = map_ids(bytes, |tag, id| Ok(nodemap.shown(kind_of(tag), id)))?.into();
        }
        // They tell no ids. Records are for administrators: they see what is stored.
        MdsReply::Bytes(_)
        | MdsReply::Done
        | MdsReply::Layout(_)
        | MdsReply::Offset(_)
        | MdsReply::Remote { .. }
        | MdsReply::Root { .. }
        | MdsReply::Tickets { .. }
        | MdsReply::Removed(_)
        | MdsReply::Statfs(_)
        | MdsReply::Flock(_)
        | MdsReply::Lease(_)
        | MdsReply::Records { .. }
        | MdsReply::Granted { .. }
        | MdsReply::PeerFids(_)
        | MdsReply::PeerPrepared { .. }
        | MdsReply::PeerApplied { .. }
        | MdsReply::PeerRefused { .. }
        | MdsReply::PeerDone { .. }
        | MdsReply::PeerBundles { .. }
        | MdsReply::PeerTold { .. }
        | MdsReply::PeerMarked { .. } => {}
    }
    Ok(())
}

/// True if this leads past the fileset of the client's nodemap: it is about the root of the file
/// system, which is above every fileset. What gives back what the client holds may be.
pub(crate) fn is_outside(op: &mut MdsOp) -> bool {
    let inside = |fid: &mut Fid| if *fid == Fid::ROOT { Err(()) } else { Ok(()) };
    op.class().held != Held::GivenBack && op.try_each_fid(inside).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use idmap::nodemap::FOREIGN;
    use idmap::property::Property;
    use namespace::acl::Acl;
    use types::attr::{Attr, SetAttr};
    use types::time::Timestamp;
    use wire::mds::{Close, Getattr, GetattrMany, Rename, Root, Setattr, Setxattr};

    fn nodemap() -> Nodemap {
        let mut nodemap = Nodemap::default();
        nodemap.add_ids(IdKind::Uid, "1000-1009:5000".parse().unwrap()).unwrap();
        nodemap.add_ids(IdKind::Gid, "100:6000".parse().unwrap()).unwrap();
        nodemap
    }

    /// An ACL with these named entries beside the four that it must have.
    fn acl(named: &[(u16, u32)]) -> Vec<u8> {
        let none = u32::MAX;
        let mut entries = vec![(1, none), (4, none), (0x10, none), (0x20, none)];
        entries.extend(named);
        entries.sort_unstable();
        let mut bytes = 2_u32.to_le_bytes().to_vec();
        for (tag, id) in entries {
            bytes.extend([tag.to_le_bytes(), 6_u16.to_le_bytes()].concat());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    fn setxattr(value: Vec<u8>) -> MdsOp {
        let name = ACL_ACCESS.to_vec().into();
        MdsOp::Setxattr(Setxattr {
            fid: Fid::ROOT,
            name,
            value: value.into(),
            flags: Default::default(),
        })
    }

    #[test]
    fn new_owners_and_acls_become_the_file_system_s() {
        let mut nodemap = nodemap();
        let chown = |uid, gid| {
            MdsOp::Setattr(Setattr {
                fid: Fid::ROOT,
                set: SetAttr { uid, gid, ..SetAttr::default() },
            })
        };
        let mapped = |nodemap: &Nodemap, mut op| map_op(nodemap, &mut op).map(|()| op);
        assert_eq!(
            mapped(&nodemap, chown(Some(1003), Some(100))),
            Ok(chown(Some(5003), Some(6000)))
        );
        assert_eq!(mapped(&nodemap, chown(Some(7), None)), Ok(chown(Some(65_534), None)));
        let asked = setxattr(acl(&[(2, 1001), (8, 100)]));
        assert_eq!(mapped(&nodemap, asked), Ok(setxattr(acl(&[(2, 5001), (8, 6000)]))));
        assert_eq!(mapped(&nodemap, setxattr(acl(&[(2, 7)]))), Err(Errno::EINVAL));
        assert_eq!(mapped(&nodemap, setxattr(acl(&[(8, 1001)]))), Err(Errno::EINVAL));
        // What is no ACL is refused where it is set.
        assert_eq!(mapped(&nodemap, setxattr(vec![1, 2, 3])), Ok(setxattr(vec![1, 2, 3])));
        nodemap.set(Property::DenyUnknown(true)).unwrap();
        assert_eq!(mapped(&nodemap, chown(Some(7), None)), Err(Errno::EACCES));
        assert_eq!(mapped(&nodemap, chown(None, Some(100))), Ok(chown(None, Some(6000))));
    }

    #[test]
    fn answers_show_the_client_s_ids() {
        let nodemap = nodemap();
        let entry = |uid, gid| {
            let time = Timestamp::default();
            let [atime, mtime, ctime, btime] = [time; 4];
            let (fid, mode, nlink, rdev) = (Fid::ROOT, 0o100_644, 1, 0);
            let (size, blocks, version) = (0, 0, 1);
            let attr = Attr {
                fid,
                mode,
                uid,
                gid,
                nlink,
                rdev,
                size,
                blocks,
                atime,
                mtime,
                ctime,
                btime,
                version,
            };
            MdsReply::Entry(Box::new(Entry { attr, has_xattr: false, noatime: false, striped: 0 }))
        };
        let shown = |mut reply, acl| map_reply(&nodemap, &mut reply, acl).map(|()| reply);
        assert_eq!(shown(entry(5003, 6000), false), Ok(entry(1003, 100)));
        assert_eq!(shown(entry(0, 7), false), Ok(entry(FOREIGN, FOREIGN)));
        assert_eq!(shown(entry(65_534, 65_534), false), Ok(entry(65_534, 65_534)));
        let bytes = acl(&[(2, 5001), (2, 7), (2, 65_534), (8, 6000), (8, 5001)]);
        let told = shown(MdsReply::Bytes(bytes.clone().into()), true).unwrap();
        assert_eq!(told, MdsReply::Bytes(acl(&[(2, 1001), (2, 65_534), (8, 100)]).into()));
        let MdsReply::Bytes(told) = told else { panic!("bytes") };
        assert!(Acl::parse(&told).is_ok());
        let value = MdsReply::Bytes(bytes.into());
        assert_eq!(shown(value.clone(), false), Ok(value), "another attribute");
    }

    #[test]
    fn the_root_is_outside_of_every_fileset() {
        let getattr = |fid| MdsOp::Getattr(Getattr::of(fid));
        let below = Fid { seq: Fid::SEQ_NORMAL, oid: 7, ver: 0 };
        assert!(is_outside(&mut getattr(Fid::ROOT)));
        assert!(!is_outside(&mut getattr(below)));
        let many = |fids| MdsOp::GetattrMany(GetattrMany::of(fids));
        assert!(is_outside(&mut many(vec![below, Fid::ROOT])));
        let name = types::name::Name::new(b"a").unwrap();
        let rename = Rename {
            parent: below,
            name: name.clone(),
            new_parent: Fid::ROOT,
            new_name: name,
            flags: Default::default(),
        };
        assert!(is_outside(&mut MdsOp::Rename(rename)));
        let close = MdsOp::Close(Close { fid: Fid::ROOT, handle: Default::default() });
        assert!(!is_outside(&mut close.clone()));
        let root = |path: &str| Root {
            path: path.parse().unwrap(),
            from: Fid::NONE,
            walked: 0,
            fileset: 0,
        };
        assert!(!is_outside(&mut MdsOp::Root(root("/a"))));
    }
}
