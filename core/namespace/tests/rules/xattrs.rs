//! The rules of extended attributes and ACLs.

use super::*;

#[test]
fn each_xattr_name_space_has_its_rules() {
    let mut w = World::new();
    let f = w.file(ROOT, "f", 0o640);
    let link = w.make(ROOT, "l", FileType::Symlink, 0o777);
    assert_eq!(link.map(|_| ()), Err(Errno::ENOENT), "an empty link target");
    let p = w.make(ROOT, "p", FileType::Fifo, 0o666).unwrap().fid();
    w.chown(f, Some(ALICE), None).unwrap();
    w.setxattr(f, b"trusted.t", b"1").unwrap();
    w.setxattr(f, b"security.s", b"1").unwrap();
    assert_eq!(w.setxattr(p, b"user.u", b"1"), Err(Errno::EPERM));
    w.be(ALICE, ALICE).setxattr(f, b"user.u", b"1").unwrap();
    assert_eq!(w.getxattr(f, b"security.s"), Ok(b"1".to_vec()));
    assert_eq!(w.getxattr(f, b"trusted.t"), Err(Errno::ENODATA));
    assert_eq!(w.setxattr(f, b"trusted.t", b"1"), Err(Errno::EPERM));
    assert_eq!(w.setxattr(f, b"security.s", b"1"), Err(Errno::EPERM));
    assert_eq!(w.setxattr(f, b"user.", b"1"), Err(Errno::EINVAL));
    assert_eq!(w.setxattr(f, b"system.other", b"1"), Err(Errno::EOPNOTSUPP));
    assert_eq!(w.setxattr(f, &[b'u'; 256], b"1"), Err(Errno::ERANGE));
    assert_eq!(w.setxattr(f, b"user.big", &vec![0; XATTR_VALUE_BYTES_MAX + 1]), Err(Errno::E2BIG));
    assert_eq!(w.removexattr(f, b"user.none"), Err(Errno::ENODATA));
    w.be(BOB, BOB);
    assert_eq!(w.getxattr(f, b"user.u"), Err(Errno::EACCES));
    assert_eq!(w.setxattr(f, b"user.u", b"2"), Err(Errno::EACCES));
    let sticky = w.root().dir(ROOT, "sticky", 0o1777);
    assert_eq!(w.be(BOB, BOB).setxattr(sticky, b"user.u", b"1"), Err(Errno::EPERM));
}

#[test]
fn the_list_of_xattr_names_is_bounded() {
    let mut w = World::new();
    let f = w.file(ROOT, "f", 0o644);
    let name = |i: usize| format!("user.{i:0>250}").into_bytes();
    for i in 0..256 {
        w.setxattr(f, &name(i), b"").unwrap();
    }
    assert_eq!(w.setxattr(f, &name(256), b""), Err(Errno::ENOSPC));
    assert!(w.setxattr(f, &name(3), b"new value").is_ok(), "an old name takes no room");
}

#[test]
fn an_access_acl_and_the_mode_say_the_same() {
    let mut w = World::new();
    let f = w.file(ROOT, "f", 0o2640);
    w.chown(f, Some(ALICE), Some(50)).unwrap();
    w.memory.inodes.get_mut(&f).unwrap().attr.mode |= 0o2000;
    assert_eq!(w.be(BOB, BOB).setxattr(f, ACL_ACCESS, &acl_for(BOB, 6)), Err(Errno::EPERM));
    let set = w.be(ALICE, ALICE).setxattr(f, ACL_ACCESS, &acl_for(BOB, 6)).unwrap();
    assert_eq!(
        set.attr.mode & 0o7777,
        0o760,
        "the mask is the group; a stranger to the group loses set-group-id"
    );
    assert!(set.flags.contains(InodeFlags::HAS_ACL) && set.flags.contains(InodeFlags::HAS_XATTR));
    assert_eq!(w.getxattr(f, ACL_ACCESS), Ok(acl_for(BOB, 6)));
    w.chmod(f, 0o740).unwrap();
    assert_eq!(w.getxattr(f, ACL_ACCESS), Ok(acl_for(BOB, 4)));
    let minimal = acl(&[(1, 6, u32::MAX), (4, 4, u32::MAX), (0x20, 4, u32::MAX)]);
    let set = w.setxattr(f, ACL_ACCESS, &minimal).unwrap();
    assert_eq!(
        (set.attr.mode & 0o7777, set.flags),
        (0o644, InodeFlags::empty()),
        "it is not stored"
    );
    assert_eq!(w.getxattr(f, ACL_ACCESS), Err(Errno::ENODATA));
    assert_eq!(w.setxattr(f, ACL_ACCESS, b"junk"), Err(Errno::EOPNOTSUPP));
    w.setxattr(f, ACL_ACCESS, &acl_for(BOB, 6)).unwrap();
    assert_eq!(w.removexattr(f, ACL_ACCESS).unwrap().flags, InodeFlags::empty());
    assert!(w.memory.xattrs.is_empty());
}

#[test]
fn acls_decide_who_may_change_names() {
    let mut w = World::new();
    let d = w.dir(ROOT, "d", 0o700);
    w.setxattr(d, ACL_ACCESS, &acl_for(BOB, 7)).unwrap();
    assert!(w.be(BOB, BOB).make(d, "bob", FileType::Regular, 0o644).is_ok());
    assert_eq!(w.be(ALICE, ALICE).make(d, "alice", FileType::Regular, 0o644), Err(Errno::EACCES));
    w.root().setxattr(d, ACL_ACCESS, &acl_for(BOB, 5)).unwrap();
    assert_eq!(w.be(BOB, BOB).unlink(d, "bob"), Err(Errno::EACCES), "the mask has no w");
}

#[test]
fn a_default_acl_takes_the_place_of_the_umask() {
    let mut w = World::new();
    let d = w.dir(ROOT, "d", 0o777);
    let f = w.file(ROOT, "f", 0o644);
    assert_eq!(w.setxattr(f, ACL_DEFAULT, &acl_for(BOB, 7)), Err(Errno::EACCES));
    w.setxattr(d, ACL_DEFAULT, &acl_for(BOB, 7)).unwrap();
    let file = w.make(d, "file", FileType::Regular, 0o666).unwrap();
    assert_eq!(
        file.attr.mode & 0o7777,
        0o660,
        "others get nothing, the group keeps w in spite of the umask"
    );
    let no = u32::MAX;
    let expected = acl(&[(1, 6, no), (2, 7, BOB), (4, 5, no), (0x10, 6, no), (0x20, 0, no)]);
    assert_eq!(w.getxattr(file.fid(), ACL_ACCESS), Ok(expected));
    assert!(!file.flags.contains(InodeFlags::HAS_DEFAULT_ACL));
    let sub = w.make(d, "sub", FileType::Directory, 0o777).unwrap();
    assert!(
        sub.flags.contains(InodeFlags::HAS_DEFAULT_ACL) && sub.flags.contains(InodeFlags::HAS_ACL)
    );
    assert_eq!(w.getxattr(sub.fid(), ACL_DEFAULT), Ok(acl_for(BOB, 7)));
    w.removexattr(d, ACL_DEFAULT).unwrap();
    let plain = w.make(d, "plain", FileType::Regular, 0o666).unwrap();
    assert_eq!((plain.attr.mode & 0o7777, plain.flags), (0o644, InodeFlags::empty()));
}

#[test]
fn all_names_of_an_inode_fit_into_one_listing_acls_included() {
    let mut w = World::new();
    let d = w.dir(ROOT, "d", 0o755);
    let ctx = context(&w.who, 1);
    // 256 names of 256 bytes with their NUL: 64 KiB.
    for i in 0..256 {
        let name = format!("user.{i:0>250}");
        xattr::set(&mut w.memory, &ctx, d, name.as_bytes(), b"", Default::default()).unwrap();
    }
    let entry = |tag: u16, perm: u16, id: u32| {
        [&tag.to_le_bytes()[..], &perm.to_le_bytes()[..], &id.to_le_bytes()[..]].concat()
    };
    let none = u32::MAX;
    let acl = [
        2u32.to_le_bytes().to_vec(),
        entry(1, 7, none),
        entry(2, 7, 100),
        entry(4, 5, none),
        entry(0x10, 7, none),
        entry(0x20, 5, none),
    ]
    .concat();
    let before = w.memory.clone();
    for name in [&b"user.x"[..], b"system.posix_acl_access", b"system.posix_acl_default"] {
        assert_eq!(
            xattr::set(&mut w.memory, &ctx, d, name, &acl, Default::default()),
            Err(Errno::ENOSPC)
        );
    }
    assert!(w.memory == before, "refused, so nothing changed");
    assert_eq!(xattr::list(&w.memory, &ctx, d).unwrap().len(), 65536);
    let first = format!("user.{:0>250}", 0);
    xattr::remove(&mut w.memory, &ctx, d, first.as_bytes()).unwrap();
    xattr::set(&mut w.memory, &ctx, d, b"system.posix_acl_access", &acl, Default::default())
        .unwrap();
}
