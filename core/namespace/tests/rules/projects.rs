//! Projects: what is inherited, and what stays apart.

use super::{EXCHANGE, PLAIN, ROOT, World};
use namespace::create::{New, create_unnamed, plan_elsewhere};
use namespace::project::{project, set_project};
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;
use types::project::{Project, REALM_FIRST};

fn of(id: u32, inherit: bool) -> Project {
    Project { id, inherit }
}

impl World {
    fn project(&mut self, fid: Fid, wanted: Project) -> Result<Project, Errno> {
        self.now += 1;
        let ctx = super::context(&self.who, self.now);
        set_project(&mut self.memory, &ctx, fid, wanted)?;
        Ok(self.project_of(fid))
    }

    /// As the MDT does to the tree of a fileset.
    fn realm(&mut self, fid: Fid, id: u32) {
        let mut inode = self.memory.inodes[&fid].clone();
        namespace::project::assign(&self.memory, &mut inode, of(id, true)).unwrap();
        self.memory.inodes.insert(fid, inode);
    }

    fn project_of(&self, fid: Fid) -> Project {
        project(&self.memory, &self.memory.inodes[&fid]).unwrap()
    }
}

#[test]
fn what_is_made_is_of_the_project_that_its_directory_hands_on() {
    let mut w = World::new();
    let d = w.dir(ROOT, "d", 0o755);
    assert_eq!(w.project(d, of(7, false)), Ok(of(7, false)));
    let f = w.file(d, "f", 0o644);
    assert_eq!(w.project_of(f), of(0, false));
    let times = w.times(d).1;
    assert_eq!(w.project(d, of(7, true)), Ok(of(7, true)));
    assert!(w.times(d).1 > times, "it is a change of the inode");
    let (g, e) = (w.file(d, "g", 0o644), w.dir(d, "e", 0o755));
    assert_eq!((w.project_of(g), w.project_of(e)), (of(7, false), of(7, true)));
    let l = w.make(e, "l", FileType::Symlink, 0);
    assert_eq!(l.map(|inode| inode.fid()), Err(Errno::ENOENT), "no target");
    let h = w.file(e, "h", 0o644);
    assert_eq!(w.project_of(h), of(7, false));
    // Only a directory hands one on; a project may go.
    assert_eq!(w.project(h, of(8, true)), Ok(of(8, false)));
    assert_eq!(w.project(e, of(0, false)), Ok(of(0, false)));
    assert!(w.memory.inodes[&e].tail.is_empty() && w.memory.inodes[&e].flags.is_empty());
    // Without a name, and on another MDT.
    let ctx = super::context(&w.who, 99);
    let new = |file_type| New {
        fid: super::fid(500),
        file_type,
        mode: 0o755,
        umask: 0,
        rdev: 0,
        size: 0,
    };
    let unnamed =
        create_unnamed(&mut w.memory, &ctx, d, new(FileType::Regular), true, super::plain);
    assert_eq!(unnamed.map(|inode| project(&w.memory, &inode)), Ok(Ok(of(7, false))));
    let planned =
        plan_elsewhere(&mut w.memory, &ctx, d, b"r", new(FileType::Directory), super::plain);
    assert_eq!(planned.map(|planned| project(&w.memory, &planned.inode)), Ok(Ok(of(7, true))));
}

#[test]
fn only_root_sets_a_project_and_no_number_of_a_realm() {
    let mut w = World::new();
    let f = w.file(ROOT, "f", 0o644);
    assert_eq!(w.project(f, of(REALM_FIRST, false)), Err(Errno::EINVAL));
    assert_eq!(w.project(f, of(REALM_FIRST - 1, false)), Ok(of(REALM_FIRST - 1, false)));
    w.memory.inodes.get_mut(&f).unwrap().attr.uid = super::ALICE;
    assert_eq!(w.be(super::ALICE, 1).project(f, of(5, false)), Err(Errno::EPERM));
    w.realm(f, REALM_FIRST + 1);
    assert_eq!(w.root().project(f, of(REALM_FIRST + 1, false)), Ok(of(REALM_FIRST + 1, false)));
    assert_eq!(w.project(super::fid(999), of(5, false)), Err(Errno::ENOENT));
    assert_eq!(w.project(f, of(5, false)), Ok(of(5, false)), "it may leave a realm");
}

#[test]
fn nothing_gets_a_name_in_a_directory_of_another_project() {
    let mut w = World::new();
    let (a, b) = (w.dir(ROOT, "a", 0o755), w.dir(ROOT, "b", 0o755));
    let plain = w.file(ROOT, "f", 0o644);
    w.project(a, of(7, true)).unwrap();
    w.project(b, of(8, true)).unwrap();
    let f = w.file(a, "f", 0o644);
    assert_eq!(w.link(plain, a, "g").map(drop), Err(Errno::EXDEV));
    assert_eq!(w.rename((ROOT, "f"), (a, "g"), PLAIN).map(drop), Err(Errno::EXDEV));
    assert_eq!(w.rename((a, "f"), (b, "f"), PLAIN).map(drop), Err(Errno::EXDEV));
    assert_eq!(w.rename((ROOT, "f"), (a, "f"), EXCHANGE).map(drop), Err(Errno::EXDEV));
    assert_eq!(w.rename((a, "f"), (ROOT, "f"), EXCHANGE).map(drop), Err(Errno::EXDEV));
    // Within it, and out of it to where none is handed on.
    let c = w.dir(a, "c", 0o755);
    w.rename((a, "f"), (c, "f"), PLAIN).unwrap();
    w.link(f, a, "g").unwrap();
    w.rename((c, "f"), (ROOT, "h"), PLAIN).unwrap();
    assert_eq!(w.project_of(f), of(7, false));
    w.rename((ROOT, "h"), (a, "h"), PLAIN).unwrap();
}

#[test]
fn what_is_of_a_realm_stays_in_it_but_its_topmost_directory_moves() {
    let mut w = World::new();
    let (a, other) = (w.dir(ROOT, "a", 0o755), w.dir(ROOT, "other", 0o755));
    w.realm(a, REALM_FIRST + 3);
    let (f, c) = (w.file(a, "f", 0o644), w.dir(a, "c", 0o755));
    assert_eq!(w.rename((a, "f"), (ROOT, "f"), PLAIN).map(drop), Err(Errno::EXDEV));
    assert_eq!(w.rename((a, "c"), (other, "c"), PLAIN).map(drop), Err(Errno::EXDEV));
    assert_eq!(w.link(f, ROOT, "f").map(drop), Err(Errno::EXDEV));
    w.rename((a, "f"), (c, "f"), PLAIN).unwrap();
    w.rename((ROOT, "a"), (other, "b"), PLAIN).unwrap();
    assert_eq!(w.project_of(a), of(REALM_FIRST + 3, true));
    w.unlink(c, "f").unwrap();
    w.rmdir(a, "c").unwrap();
    w.rmdir(other, "b").unwrap();
}
