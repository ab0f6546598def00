//! The rules of names whose inodes other MDTs have.

use super::*;

/// An inode of MDT0001, as MDT0000 sees it: its name is here, its record is not.
fn elsewhere(world: &mut World, parent: Fid, name: &str, file_type: FileType) -> Fid {
    world.made += 1;
    let fid = Fid { seq: Fid::SEQ_NORMAL + Fid::SEQ_WIDTH, oid: world.made, ver: 0 };
    world.memory.put_dirent(parent, name.as_bytes(), Dirent { fid, file_type });
    fid
}

#[test]
fn an_inode_of_another_mdt_is_named_and_not_touched() {
    let mut world = World::new();
    let dir = elsewhere(&mut world, ROOT, "far", FileType::Directory);
    elsewhere(&mut world, ROOT, "file", FileType::Regular);
    let near = world.dir(ROOT, "near", 0o755);
    let before = world.memory.clone();
    assert_eq!(lookup(&world.memory, ROOT, b"far"), Err(Errno::EREMOTE));
    assert_eq!(world.make(ROOT, "far", FileType::Regular, 0o644), Err(Errno::EEXIST));
    assert_eq!(world.unlink(ROOT, "far"), Err(Errno::EISDIR));
    assert_eq!(world.unlink(ROOT, "file"), Err(Errno::EREMOTE));
    assert_eq!(world.rmdir(ROOT, "far"), Err(Errno::EREMOTE));
    assert_eq!(world.rename((ROOT, "far"), (ROOT, "x"), PLAIN), Err(Errno::EREMOTE));
    assert_eq!(world.rename((ROOT, "near"), (ROOT, "far"), PLAIN), Err(Errno::EREMOTE));
    assert_eq!(world.rename((ROOT, "near"), (ROOT, "far"), EXCHANGE), Err(Errno::EREMOTE));
    assert_eq!(world.rename((ROOT, "near"), (ROOT, "far"), NO_REPLACE), Err(Errno::EEXIST));
    assert_eq!(world.be(BOB, BOB).unlink(ROOT, "far"), Err(Errno::EACCES));
    assert_eq!(world.memory, before);
    assert_eq!(parent(&world.memory, near).map(|above| above == Parent::Elsewhere(dir)), Ok(false));
    world.memory.inodes.get_mut(&near).unwrap().parent = dir;
    assert_eq!(parent(&world.memory, near), Ok(Parent::Elsewhere(dir)));
}

#[test]
fn a_directory_moves_below_the_part_of_its_chain_that_is_here() {
    // Above `top` is a directory of another MDT.
    let mut world = World::new();
    let top = world.dir(ROOT, "top", 0o755);
    world.memory.inodes.get_mut(&top).unwrap().parent =
        elsewhere(&mut world, ROOT, "far", FileType::Directory);
    let (x, y) = (world.dir(top, "x", 0o755), world.dir(top, "y", 0o755));
    let s = world.dir(x, "s", 0o755);
    assert_eq!(world.rename((top, "x"), (s, "x"), PLAIN), Err(Errno::EINVAL), "into itself");
    world.rename((x, "s"), (y, "s"), PLAIN).unwrap();
    assert_eq!(world.memory.inodes[&s].parent, y);
    world.rename((y, "s"), (top, "s"), PLAIN).unwrap();
    // The two chains do not meet here: whether `s` is above `other` is not known.
    let other = world.dir(ROOT, "other", 0o755);
    assert_eq!(world.rename((ROOT, "other"), (top, "other"), PLAIN), Err(Errno::EREMOTE));
    assert_eq!(
        world.rename((top, "s"), (other, "s"), PLAIN).map(|renamed| renamed.replaced),
        Ok(None),
        "below the root"
    );
    // A file makes no circle.
    world.file(top, "f", 0o644);
    world.rename((top, "f"), (other, "f"), PLAIN).unwrap();
}
