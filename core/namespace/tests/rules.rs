//! The rules of docs/namespace.md, one by one.

mod common;
#[path = "rules/elsewhere.rs"]
mod elsewhere;
#[path = "rules/projects.rs"]
mod projects;
#[path = "rules/xattrs.rs"]
mod xattrs;

use common::{Memory, context, fid, plain};
use namespace::acl::{ACL_ACCESS, ACL_DEFAULT};
use namespace::create::{Made, New, create, create_unnamed};
use namespace::inode::{Dirent, Inode, InodeFlags};
use namespace::lookup::{Parent, lookup, parent};
use namespace::rename::{Flags, Place, Renamed, rename};
use namespace::view::View;
use namespace::written::{self, Settled, Written};
use namespace::{flags, link, rmdir, setattr, unlink, xattr};
use types::attr::{Attr, FileType, SetAttr, SetTime, WrittenAt};
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::{FILE_BYTES_MAX, LINKS_MAX, XATTR_VALUE_BYTES_MAX};
use types::time::Timestamp;

/// A name space, a clock that ticks with every operation, and the caller.
struct World {
    memory: Memory,
    now: u64,
    who: Credentials,
    made: u32,
}

fn user(uid: u32, gid: u32) -> Credentials {
    Credentials { uid, gid, groups: Default::default() }
}

const ALICE: u32 = 100;
const BOB: u32 = 200;

impl World {
    fn new() -> World {
        World { memory: Memory::new(), now: 1, who: Credentials::root(), made: 0 }
    }

    fn be(&mut self, uid: u32, gid: u32) -> &mut World {
        self.who = user(uid, gid);
        self
    }

    fn root(&mut self) -> &mut World {
        self.who = Credentials::root();
        self
    }

    fn make(
        &mut self,
        parent: Fid,
        name: &str,
        file_type: FileType,
        mode: u32,
    ) -> Result<Inode, Errno> {
        self.now += 1;
        self.made += 1;
        let new = New { fid: fid(self.made), file_type, mode, umask: 0o022, rdev: 0, size: 0 };
        match create(
            &mut self.memory,
            &context(&self.who, self.now),
            parent,
            name.as_bytes(),
            new,
            plain,
        )? {
            Made::Created(inode) => Ok(inode),
            Made::Found(_) | Made::Elsewhere(_) => Err(Errno::EEXIST),
        }
    }

    fn dir(&mut self, parent: Fid, name: &str, mode: u32) -> Fid {
        let made = self.make(parent, name, FileType::Directory, mode).unwrap().fid();
        // Without the umask.
        self.memory.inodes.get_mut(&made).unwrap().attr.mode =
            FileType::Directory.mode_bits() | mode;
        made
    }

    fn file(&mut self, parent: Fid, name: &str, mode: u32) -> Fid {
        let made = self.make(parent, name, FileType::Regular, mode).unwrap().fid();
        self.memory.inodes.get_mut(&made).unwrap().attr.mode = FileType::Regular.mode_bits() | mode;
        made
    }

    fn set(&mut self, fid: Fid, set: SetAttr) -> Result<Attr, Errno> {
        self.now += 1;
        setattr::setattr(&mut self.memory, &context(&self.who, self.now), fid, &set)
            .map(|inode| inode.attr)
    }

    fn chmod(&mut self, fid: Fid, mode: u32) -> Result<u32, Errno> {
        self.set(fid, SetAttr { mode: Some(mode), ..SetAttr::default() })
            .map(|attr| attr.mode & 0o7777)
    }

    fn chown(&mut self, fid: Fid, uid: Option<u32>, gid: Option<u32>) -> Result<u32, Errno> {
        self.set(fid, SetAttr { uid, gid, ..SetAttr::default() }).map(|attr| attr.mode & 0o7777)
    }

    fn unlink(&mut self, parent: Fid, name: &str) -> Result<Inode, Errno> {
        self.now += 1;
        unlink::unlink(&mut self.memory, &context(&self.who, self.now), parent, name.as_bytes())
    }

    fn rmdir(&mut self, parent: Fid, name: &str) -> Result<Inode, Errno> {
        self.now += 1;
        rmdir::rmdir(&mut self.memory, &context(&self.who, self.now), parent, name.as_bytes())
    }

    fn link(&mut self, of: Fid, parent: Fid, name: &str) -> Result<Inode, Errno> {
        self.link_by(of, parent, name, false)
    }

    fn link_by(
        &mut self,
        of: Fid,
        parent: Fid,
        name: &str,
        protected: bool,
    ) -> Result<Inode, Errno> {
        self.now += 1;
        let ctx = context(&self.who, self.now);
        link::link(&mut self.memory, &ctx, of, parent, name.as_bytes(), protected)
    }

    fn rename(&mut self, a: (Fid, &str), b: (Fid, &str), flags: Flags) -> Result<Renamed, Errno> {
        self.now += 1;
        let from = Place { parent: a.0, name: a.1.as_bytes() };
        let to = Place { parent: b.0, name: b.1.as_bytes() };
        rename(&mut self.memory, &context(&self.who, self.now), from, to, flags)
    }

    fn setxattr(&mut self, fid: Fid, name: &[u8], value: &[u8]) -> Result<Inode, Errno> {
        self.now += 1;
        xattr::set(
            &mut self.memory,
            &context(&self.who, self.now),
            fid,
            name,
            value,
            xattr::SetFlags::default(),
        )
    }

    fn getxattr(&self, fid: Fid, name: &[u8]) -> Result<Vec<u8>, Errno> {
        xattr::get(&self.memory, &context(&self.who, self.now), fid, name)
    }

    fn removexattr(&mut self, fid: Fid, name: &[u8]) -> Result<Inode, Errno> {
        self.now += 1;
        xattr::remove(&mut self.memory, &context(&self.who, self.now), fid, name)
    }

    fn attr(&self, fid: Fid) -> Attr {
        self.memory.inodes[&fid].attr
    }

    /// (mtime, ctime) as ticks.
    fn times(&self, fid: Fid) -> (u64, u64) {
        let attr = self.attr(fid);
        (attr.mtime.sec as u64, attr.ctime.sec as u64)
    }
}

const PLAIN: Flags = Flags { no_replace: false, exchange: false };
const EXCHANGE: Flags = Flags { no_replace: false, exchange: true };
const NO_REPLACE: Flags = Flags { no_replace: true, exchange: false };
const ROOT: Fid = Fid::ROOT;

/// A binary ACL: (tag, permissions, id) each.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&perm.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

/// Owner rwx, user `uid` rwx, group r-x, mask `mask`, others none.
fn acl_for(uid: u32, mask: u16) -> Vec<u8> {
    let no = u32::MAX;
    acl(&[(1, 7, no), (2, 7, uid), (4, 5, no), (0x10, mask, no), (0x20, 0, no)])
}

fn now(end: u64, blocks_delta: i64) -> Written {
    Written { end, blocks_delta, at: WrittenAt::Now, kill_suidgid: false }
}

#[test]
fn names_touch_times_of_directory_and_inode() {
    let mut w = World::new();
    let d = w.dir(ROOT, "d", 0o755);
    assert_eq!((w.times(ROOT), w.times(d)), ((w.now, w.now), (w.now, w.now)));
    let f = w.file(d, "f", 0o644);
    let made = w.now;
    assert_eq!((w.times(d), w.times(f)), ((made, made), (made, made)));
    w.link(f, d, "g").unwrap();
    assert_eq!((w.times(d), w.times(f)), ((w.now, w.now), (made, w.now)));
    w.unlink(d, "g").unwrap();
    assert_eq!((w.times(d), w.times(f)), ((w.now, w.now), (made, w.now)));
    let e = w.dir(ROOT, "e", 0o755);
    w.rename((d, "f"), (e, "f"), PLAIN).unwrap();
    assert_eq!(
        (w.times(d), w.times(e), w.times(f)),
        ((w.now, w.now), (w.now, w.now), (made, w.now))
    );
    assert_eq!(w.attr(f).btime.sec as u64, made);
    assert_eq!(w.attr(f).version, w.now);
}

#[test]
fn setgid_directories_pass_on_their_group() {
    let mut w = World::new();
    let d = w.dir(ROOT, "d", 0o2777);
    w.memory.inodes.get_mut(&d).unwrap().attr.gid = 50;
    w.be(ALICE, ALICE);
    let sub = w.make(d, "sub", FileType::Directory, 0o7777).unwrap().attr;
    assert_eq!(
        (sub.uid, sub.gid, sub.mode & 0o7777),
        (ALICE, 50, 0o3755),
        "mkdir takes no set-id bits but inherits"
    );
    let program = w.make(d, "program", FileType::Regular, 0o2775).unwrap().attr;
    assert_eq!((program.gid, program.mode & 0o7777), (50, 0o755), "a stranger to the group");
    let locked = w.make(d, "locked", FileType::Regular, 0o2664).unwrap().attr;
    assert_eq!(locked.mode & 0o7777, 0o2644, "not executable by the group");
    w.who.groups.push(50);
    let program = w.make(d, "mine", FileType::Regular, 0o2775).unwrap().attr;
    assert_eq!(program.mode & 0o7777, 0o2755);
    let elsewhere = w.root().dir(ROOT, "x", 0o777);
    assert_eq!(
        w.be(ALICE, ALICE).make(elsewhere, "f", FileType::Regular, 0o600).unwrap().attr.gid,
        ALICE
    );
}

#[test]
fn changing_names_needs_write_and_execute() {
    let mut w = World::new();
    let d = w.dir(ROOT, "d", 0o755);
    let f = w.file(d, "f", 0o666);
    w.be(ALICE, ALICE);
    assert_eq!(w.make(d, "g", FileType::Regular, 0o644), Err(Errno::EACCES));
    assert_eq!(
        w.make(d, "f", FileType::Regular, 0o644),
        Err(Errno::EEXIST),
        "an existing name comes first"
    );
    assert_eq!(w.unlink(d, "f"), Err(Errno::EACCES));
    assert_eq!(w.unlink(d, "none"), Err(Errno::ENOENT));
    assert_eq!(w.link(f, d, "g"), Err(Errno::EACCES));
    w.root().chmod(d, 0o756).unwrap();
    assert_eq!(w.be(ALICE, ALICE).unlink(d, "f"), Err(Errno::EACCES), "write without execute");
    w.root().chmod(d, 0o757).unwrap();
    assert!(w.be(ALICE, ALICE).unlink(d, "f").is_ok());
}

#[test]
fn protected_inodes_of_others_get_no_names_but_those_that_one_may_read_and_write() {
    let mut w = World::new();
    let d = w.dir(ROOT, "d", 0o777);
    let closed = w.dir(ROOT, "closed", 0o755);
    let mut done = 0;
    for (mode, expected) in [
        (0o666, Ok(())),
        (0o606, Ok(())),
        (0o660, Err(Errno::EPERM)),
        (0o664, Err(Errno::EPERM)),
        (0o662, Err(Errno::EPERM)),
        (0o4666, Err(Errno::EPERM)),
        (0o2676, Err(Errno::EPERM)),
        // Mandatory locking, once: it lends no group.
        (0o2666, Ok(())),
    ] {
        let f = w.root().file(d, &format!("{mode:o}"), mode);
        let mut link = |who, protected| {
            done += 1;
            w.be(who, who).link_by(f, d, &format!("l{done}"), protected).map(drop)
        };
        assert_eq!(link(ALICE, true), expected, "{mode:o}");
        assert_eq!(link(ALICE, false), Ok(()), "{mode:o}");
        assert_eq!(link(0, true), Ok(()), "{mode:o}");
        w.root().chown(f, Some(ALICE), None).unwrap();
        w.root().chmod(f, mode).unwrap();
        done += 1;
        let own = w.be(ALICE, ALICE).link_by(f, d, &format!("l{done}"), true);
        assert!(own.is_ok(), "{mode:o}: her own");
    }
    let pipe = w.root().make(d, "pipe", FileType::Fifo, 0o666).unwrap().fid();
    let (secret, open) = (w.file(d, "secret", 0o600), w.file(d, "open", 0o666));
    w.be(ALICE, ALICE);
    assert_eq!(w.link_by(pipe, d, "more", true), Err(Errno::EPERM), "no regular file");
    // As Linux orders them.
    assert_eq!(w.link_by(secret, d, "open", true), Err(Errno::EEXIST));
    assert_eq!(w.link_by(secret, closed, "more", true), Err(Errno::EPERM));
    assert_eq!(w.link_by(open, closed, "more", true), Err(Errno::EACCES));
}

#[test]
fn the_sticky_bit_protects_names_of_others() {
    let mut w = World::new();
    let d = w.dir(ROOT, "d", 0o1777);
    let open = w.dir(ROOT, "open", 0o777);
    w.be(ALICE, ALICE);
    w.file(d, "alice", 0o666);
    w.dir(d, "adir", 0o777);
    w.be(BOB, BOB);
    w.file(d, "bob", 0o666);
    assert_eq!(w.unlink(d, "alice"), Err(Errno::EPERM));
    assert_eq!(w.rmdir(d, "adir"), Err(Errno::EPERM));
    assert_eq!(w.rename((d, "alice"), (open, "x"), PLAIN), Err(Errno::EPERM));
    assert_eq!(w.rename((d, "bob"), (d, "alice"), PLAIN), Err(Errno::EPERM));
    w.rename((d, "bob"), (open, "x"), PLAIN).unwrap();
    w.root().chown(d, Some(BOB), None).unwrap();
    assert!(w.be(BOB, BOB).unlink(d, "alice").is_ok(), "the directory's owner may");
}

#[test]
fn a_directory_under_another_parent_must_be_writable_itself() {
    let mut w = World::new();
    let (a, b) = (w.dir(ROOT, "a", 0o777), w.dir(ROOT, "b", 0o777));
    let d = w.dir(a, "d", 0o755);
    w.be(ALICE, ALICE);
    assert_eq!(w.rename((a, "d"), (b, "d"), PLAIN), Err(Errno::EACCES));
    assert!(w.rename((a, "d"), (a, "e"), PLAIN).is_ok(), "not under the same parent");
    w.root().chmod(d, 0o757).unwrap();
    assert!(w.be(ALICE, ALICE).rename((a, "e"), (b, "d"), PLAIN).is_ok());
    assert_eq!((w.attr(a).nlink, w.attr(b).nlink, w.memory.inodes[&d].parent), (2, 3, b));
}

#[test]
fn rename_answers_as_linux_does() {
    let mut w = World::new();
    let a = w.dir(ROOT, "a", 0o755);
    let sub = w.dir(a, "sub", 0o755);
    let f = w.file(a, "f", 0o644);
    w.link(f, ROOT, "f2").unwrap();
    w.dir(ROOT, "empty", 0o755);
    for (from, to, flags, expected) in [
        ((ROOT, "none"), (ROOT, "x"), PLAIN, Errno::ENOENT),
        ((ROOT, "a"), (sub, "x"), PLAIN, Errno::EINVAL),
        ((ROOT, "a"), (a, "x"), PLAIN, Errno::EINVAL),
        ((sub, "none"), (ROOT, "a"), PLAIN, Errno::ENOENT),
        ((a, "sub"), (ROOT, "a"), PLAIN, Errno::ENOTEMPTY),
        ((a, "f"), (ROOT, "a"), PLAIN, Errno::ENOTEMPTY),
        ((a, "f"), (ROOT, "a"), EXCHANGE, Errno::EINVAL),
        ((ROOT, "empty"), (ROOT, "a"), PLAIN, Errno::ENOTEMPTY),
        ((ROOT, "empty"), (a, "f"), PLAIN, Errno::ENOTDIR),
        ((a, "f"), (ROOT, "empty"), PLAIN, Errno::EISDIR),
        ((a, "f"), (ROOT, "empty"), NO_REPLACE, Errno::EEXIST),
        ((a, "f"), (ROOT, "none"), EXCHANGE, Errno::ENOENT),
        ((a, "f"), (f, "x"), PLAIN, Errno::ENOTDIR),
        ((a, "f"), (fid(99), "x"), PLAIN, Errno::EREMCHG),
        ((a, "f"), (ROOT, "x"), Flags { no_replace: true, exchange: true }, Errno::EINVAL),
    ] {
        let before = w.memory.clone();
        assert_eq!(w.rename(from, to, flags), Err(expected), "{from:?} {to:?} {flags:?}");
        assert_eq!(before, w.memory);
    }
    let before = w.memory.clone();
    assert_eq!(w.rename((a, "f"), (ROOT, "f2"), PLAIN).unwrap().replaced, None);
    assert_eq!(before, w.memory, "two names of one inode: nothing happens");
}

#[test]
fn exchange_swaps_files_and_directories() {
    let mut w = World::new();
    let (a, b) = (w.dir(ROOT, "a", 0o755), w.dir(ROOT, "b", 0o755));
    let (d, f) = (w.dir(a, "x", 0o755), w.file(b, "y", 0o644));
    w.rename((a, "x"), (b, "y"), EXCHANGE).unwrap();
    assert_eq!(w.memory.dirent(a, b"x").unwrap().unwrap().fid, f);
    assert_eq!(w.memory.dirent(b, b"y").unwrap().unwrap().fid, d);
    assert_eq!((w.attr(a).nlink, w.attr(b).nlink, w.memory.inodes[&d].parent), (2, 3, b));
    assert_eq!((w.times(d).1, w.times(f).1), (w.now, w.now));
}

#[test]
fn a_replaced_inode_loses_one_name_and_stays_while_open() {
    let mut w = World::new();
    let (f, g) = (w.file(ROOT, "f", 0o644), w.file(ROOT, "g", 0o644));
    w.link(g, ROOT, "g2").unwrap();
    let replaced = w.rename((ROOT, "f"), (ROOT, "g"), PLAIN).unwrap().replaced.unwrap();
    assert_eq!((replaced.fid(), replaced.attr.nlink, w.times(g).1), (g, 1, w.now));
    w.memory.open.insert(g);
    let replaced = w.rename((ROOT, "g"), (ROOT, "g2"), PLAIN).unwrap().replaced.unwrap();
    assert_eq!(replaced.attr.nlink, 0);
    assert!(w.memory.inodes.contains_key(&g), "held open");
    assert_eq!(w.link(g, ROOT, "again"), Err(Errno::ENOENT));
    w.unlink(ROOT, "g2").unwrap();
    assert!(!w.memory.inodes.contains_key(&f));
}

#[test]
fn a_removed_directory_takes_no_names() {
    let mut w = World::new();
    let d = w.dir(ROOT, "d", 0o755);
    w.memory.open.insert(d);
    assert_eq!(w.attr(ROOT).nlink, 3);
    assert_eq!(w.rmdir(ROOT, "d").unwrap().attr.nlink, 0);
    assert_eq!(w.attr(ROOT).nlink, 2);
    assert_eq!(w.make(d, "f", FileType::Regular, 0o644), Err(Errno::ENOENT));
    w.file(ROOT, "f", 0o644);
    assert_eq!(w.rename((ROOT, "f"), (d, "f"), PLAIN), Err(Errno::ENOENT));
}

#[test]
fn a_file_has_a_bounded_number_of_names() {
    let mut w = World::new();
    let (f, d) = (w.file(ROOT, "f", 0o644), w.dir(ROOT, "d", 0o755));
    w.memory.inodes.get_mut(&f).unwrap().attr.nlink = LINKS_MAX - 1;
    assert_eq!(w.link(f, ROOT, "last").unwrap().attr.nlink, LINKS_MAX);
    assert_eq!(w.link(f, ROOT, "more"), Err(Errno::EMLINK));
    assert_eq!(w.link(f, ROOT, "last"), Err(Errno::EEXIST));
    assert_eq!(w.link(d, ROOT, "dir"), Err(Errno::EPERM));
    w.memory.inodes.get_mut(&d).unwrap().attr.nlink = LINKS_MAX + 5;
    assert!(
        w.make(d, "sub", FileType::Directory, 0o755).is_ok(),
        "sub-directories are not bounded"
    );
}

#[test]
fn only_owners_change_modes_and_only_members_keep_setgid() {
    let mut w = World::new();
    let f = w.file(ROOT, "f", 0o644);
    w.chown(f, Some(ALICE), Some(50)).unwrap();
    assert_eq!(w.be(BOB, BOB).chmod(f, 0o777), Err(Errno::EPERM));
    assert_eq!(w.be(ALICE, ALICE).chmod(f, 0o6755), Ok(0o4755), "alice is not in group 50");
    w.who.groups.push(50);
    assert_eq!(w.chmod(f, 0o7755), Ok(0o7755));
    assert_eq!(w.root().chmod(f, 0o2755), Ok(0o2755));
}

#[test]
fn chown_takes_setid_bits_and_only_root_gives_files_away() {
    let mut w = World::new();
    let f = w.file(ROOT, "f", 0o6755);
    assert_eq!(w.chown(f, Some(ALICE), Some(ALICE)), Ok(0o755), "also for root");
    w.chmod(f, 0o6745).unwrap();
    assert_eq!(w.chown(f, None, None), Ok(0o2745), "no group execution: set-group-id stays");
    w.chmod(f, 0o6755).unwrap();
    w.be(BOB, BOB);
    assert_eq!(w.chown(f, Some(BOB), None), Err(Errno::EPERM));
    assert_eq!(w.chown(f, None, None), Err(Errno::EPERM), "bits would go");
    w.be(ALICE, ALICE);
    assert_eq!(w.chown(f, Some(BOB), None), Err(Errno::EPERM));
    assert_eq!(w.chown(f, None, Some(50)), Err(Errno::EPERM));
    w.who.groups.push(50);
    assert_eq!(w.chown(f, Some(ALICE), Some(50)), Ok(0o755));
    let d = w.root().dir(ROOT, "d", 0o2755);
    assert_eq!(w.chown(d, Some(ALICE), None), Ok(0o2755), "directories keep them");
}

#[test]
fn times_are_set_by_owners_and_touched_by_writers() {
    let mut w = World::new();
    let f = w.file(ROOT, "f", 0o666);
    w.chown(f, Some(ALICE), None).unwrap();
    let at = SetTime::At(Timestamp { sec: -5, nsec: 7 });
    let set = |atime, mtime| SetAttr { atime, mtime, ..SetAttr::default() };
    w.be(BOB, BOB);
    assert_eq!(w.set(f, set(Some(at), Some(at))), Err(Errno::EPERM));
    assert_eq!(w.set(f, set(None, Some(SetTime::Now))), Err(Errno::EPERM));
    let touched = w.set(f, set(Some(SetTime::Now), Some(SetTime::Now))).unwrap();
    assert_eq!((touched.atime.sec as u64, touched.mtime.sec as u64), (w.now, w.now));
    w.root().chmod(f, 0o644).unwrap();
    assert_eq!(
        w.be(BOB, BOB).set(f, set(Some(SetTime::Now), Some(SetTime::Now))),
        Err(Errno::EACCES)
    );
    let set = w.be(ALICE, ALICE).set(f, set(None, Some(at))).unwrap();
    assert_eq!(
        (set.mtime, set.atime.sec, set.ctime.sec as u64),
        (Timestamp { sec: -5, nsec: 7 }, touched.atime.sec, w.now)
    );
}

#[test]
fn sizes_belong_to_regular_files() {
    let mut w = World::new();
    let (f, d, p) = (
        w.file(ROOT, "f", 0o6777),
        w.dir(ROOT, "d", 0o755),
        w.make(ROOT, "p", FileType::Fifo, 0o644).unwrap().fid(),
    );
    let size = |size| SetAttr { size: Some(size), ..SetAttr::default() };
    assert_eq!(w.set(d, size(1)), Err(Errno::EISDIR));
    assert_eq!(w.set(p, size(1)), Err(Errno::EINVAL));
    assert_eq!(w.set(f, size(FILE_BYTES_MAX + 1)), Err(Errno::EFBIG));
    let cut = w.be(BOB, BOB).set(f, SetAttr { kill_suidgid: true, ..size(9) }).unwrap();
    assert_eq!((cut.size, cut.mode & 0o7777, cut.mtime.sec as u64), (9, 0o777, w.now));
    w.root().chmod(f, 0o6777).unwrap();
    let ctx = context(&w.who, 99);
    let wrote = Written { kill_suidgid: true, ..now(14, 0) };
    let inode = written::wrote(&mut w.memory, &ctx, f, wrote).unwrap();
    assert_eq!((inode.attr.size, inode.attr.mode & 0o7777), (14, 0o777));
    let beyond = written::wrote(&mut w.memory, &ctx, f, now(FILE_BYTES_MAX + 1, 0));
    assert_eq!(beyond.map(|inode| inode.attr.size), Err(Errno::EFBIG));
    let inode = written::wrote(&mut w.memory, &ctx, f, now(10, -100)).unwrap();
    assert_eq!((inode.attr.size, inode.attr.blocks), (14, 0), "an earlier end shrinks nothing");
    let mut settle = |settled| {
        let inode = written::settle(&mut w.memory, &ctx, f, settled).unwrap();
        (inode.attr.size, inode.attr.blocks)
    };
    assert_eq!(settle(Settled::Grown { size: 3, blocks: 8 }), (14, 8));
    assert_eq!(settle(Settled::Grown { size: 30, blocks: 16 }), (30, 16));
    assert_eq!(settle(Settled::Cut { blocks: 8 }), (30, 8));
}

#[test]
fn space_beyond_the_end_of_a_file_is_not_taken_for_data() {
    let mut w = World::new();
    let f = w.file(ROOT, "f", 0o644);
    let ctx = context(&w.who, 99);
    written::wrote(&mut w.memory, &ctx, f, now(10, 8)).unwrap();
    // FALLOC_FL_KEEP_SIZE: blocks came, the end did not move.
    written::wrote(&mut w.memory, &ctx, f, now(0, 2048)).unwrap();
    let mut settle = |settled| written::settle(&mut w.memory, &ctx, f, settled).unwrap().attr.size;
    assert_eq!(settle(Settled::Grown { size: 1 << 20, blocks: 2056 }), 10);
    // Once cut, the objects speak of data again.
    assert_eq!(settle(Settled::Cut { blocks: 8 }), 10);
    assert_eq!(settle(Settled::Grown { size: 20, blocks: 8 }), 20);
}

#[test]
fn blocks_of_data_that_are_told_of_later_are_no_space_beyond_the_end() {
    let mut w = World::new();
    let files = [w.file(ROOT, "f", 0o644), w.file(ROOT, "g", 0o644)];
    let ctx = context(&w.who, 99);
    for (f, at) in files.into_iter().zip([WrittenAt::Told, WrittenAt::At(Timestamp::default())]) {
        written::wrote(&mut w.memory, &ctx, f, Written { at, ..now(0, 8) }).unwrap();
        let settled =
            written::settle(&mut w.memory, &ctx, f, Settled::Grown { size: 4000, blocks: 8 })
                .unwrap();
        assert_eq!(settled.attr.size, 4000, "its writer vanished before it told the end");
    }
}

#[test]
fn a_file_without_a_name_gets_one_by_a_link_if_it_may() {
    let mut world = World::new();
    let dir = world.dir(ROOT, "d", 0o755);
    let unnamed = |world: &mut World, linkable| {
        world.now += 1;
        world.made += 1;
        let new = New {
            fid: fid(world.made),
            file_type: FileType::Regular,
            mode: 0o666,
            umask: 0o022,
            rdev: 0,
            size: 0,
        };
        create_unnamed(
            &mut world.memory,
            &context(&world.who, world.now),
            dir,
            new,
            linkable,
            plain,
        )
    };
    let before = world.times(dir);
    let file = unnamed(&mut world, true).unwrap();
    assert_eq!((file.attr.nlink, file.attr.mode & 0o7777), (0, 0o644));
    assert_eq!(
        (world.times(dir), world.memory.dirents.len()),
        (before, 1),
        "its directory knows nothing of it"
    );
    let fid = file.fid();
    let linked = world.link(fid, dir, "f").unwrap();
    assert_eq!((linked.attr.nlink, linked.flags.contains(InodeFlags::LINKABLE)), (1, false));
    assert_eq!(world.link(fid, dir, "g").unwrap().attr.nlink, 2);
    // Once it had names it goes with the last one, as others do.
    world.memory.open.insert(fid);
    world.unlink(dir, "f").unwrap();
    world.unlink(dir, "g").unwrap();
    assert_eq!(world.link(fid, dir, "f"), Err(Errno::ENOENT));
    let sealed = unnamed(&mut world, false).unwrap().fid();
    assert_eq!(world.link(sealed, dir, "f"), Err(Errno::ENOENT));
    world.be(ALICE, ALICE);
    assert_eq!(unnamed(&mut world, true), Err(Errno::EACCES));
}

#[test]
fn flags_protect_an_inode_from_everybody() {
    let mut world = World::new();
    let dir = world.dir(ROOT, "d", 0o777);
    let file = world.file(dir, "f", 0o666);
    let set = |world: &mut World, fid, wanted| {
        world.now += 1;
        flags::set_flags(&mut world.memory, &context(&world.who, world.now), fid, wanted).map(
            |inode| {
                assert_eq!(flags::flags(&inode), wanted);
            },
        )
    };
    assert_eq!(set(&mut world, file, 0x8_0000), Err(Errno::EOPNOTSUPP));
    world.chown(file, Some(ALICE), None).unwrap();
    world.be(BOB, BOB);
    assert_eq!(set(&mut world, file, flags::NODUMP), Err(Errno::EPERM));
    world.be(ALICE, ALICE);
    assert_eq!(set(&mut world, file, flags::NODUMP | flags::NOATIME), Ok(()));
    assert_eq!(set(&mut world, file, flags::IMMUTABLE | flags::NODUMP), Err(Errno::EPERM));
    world.root();
    let now = SetAttr { mtime: Some(SetTime::Now), ..SetAttr::default() };
    let cut = SetAttr { size: Some(0), ..SetAttr::default() };
    let may_write = |world: &World, append| {
        namespace::open::open(&world.memory.inodes[&file], true, append, false)
    };
    for flag in [flags::IMMUTABLE, flags::APPEND] {
        assert_eq!(set(&mut world, file, flag), Ok(()));
        assert_eq!(world.unlink(dir, "f").unwrap_err(), Errno::EPERM);
        assert_eq!(world.rename((dir, "f"), (dir, "g"), PLAIN).unwrap_err(), Errno::EPERM);
        assert_eq!(world.link(file, dir, "g").unwrap_err(), Errno::EPERM);
        assert_eq!(world.chmod(file, 0o600), Err(Errno::EPERM));
        assert_eq!(world.set(file, cut).unwrap_err(), Errno::EPERM);
        assert_eq!(world.setxattr(file, b"user.a", b"b").unwrap_err(), Errno::EPERM);
        assert_eq!(may_write(&world, false), Err(Errno::EPERM));
        let append_only = flag == flags::APPEND;
        assert_eq!(may_write(&world, true).is_ok(), append_only);
        assert_eq!(world.set(file, now).is_ok(), append_only);
    }
    assert_eq!(set(&mut world, file, 0), Ok(()));
    assert_eq!(may_write(&world, false), Ok(()));
    // Of a directory: its names.
    assert_eq!(set(&mut world, dir, flags::APPEND), Ok(()));
    let more = world.file(dir, "g", 0o666);
    assert_eq!(world.unlink(dir, "f").unwrap_err(), Errno::EPERM);
    assert_eq!(set(&mut world, dir, flags::IMMUTABLE), Ok(()));
    assert_eq!(world.make(dir, "h", FileType::Regular, 0o666).unwrap_err(), Errno::EPERM);
    assert_eq!(world.link(more, dir, "h").unwrap_err(), Errno::EPERM);
    assert_eq!(set(&mut world, dir, 0), Ok(()));
    world.unlink(dir, "f").unwrap();
}
