//! A table of cells: operation x mode x class of the caller (owner, group, supplementary group,
//! other) x what becomes of its ids. Each is done on the mount, and on the ordinary file system as
//! the ids that the caller becomes, and must end alike.
//!
//! Every cell has a file or directory of its own. The class has the bits of the mode, and all
//! others have the other bits: a check of the wrong class is seen.

use super::nodemap::{MAP, SQUASH, USER, USER_IS, acting, caller, modify, owners, tenant};
use super::script::{
    Caller, IdMap, Ids, TREE, looks, named, opened, outcome, run_child, set_xattr, told,
};
use super::tickets::on_mdt;
use super::{NOBODY, ROOT};
use e2e::cluster::Cluster;
use e2e::lustre::soon;
use e2e::programs::assert_same;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, Timestamps, UTIME_NOW};
use rustix::time::Timespec;
use std::fs::{self, Permissions};
use std::io;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

/// Name of the test that is the child.
const CHILD: &str = "the_caller_of_cells";
/// What the caller is to a file or directory.
const CLASSES: [&str; 4] = ["owner", "group", "groups", "other"];
/// The supplementary group of the users, and what it is in the file system.
const MORE: u32 = 1002;
const MORE_IS: u32 = 5002;

type Operation = (&'static str, fn(&Path) -> String);

fn of_io(result: io::Result<()>) -> String {
    told(result.map(|()| "done"))
}

fn times(path: &Path, time: impl Fn() -> Timespec) -> String {
    let times = Timestamps { last_access: time(), last_modification: time() };
    told(rustix::fs::utimensat(CWD, path, &times, AtFlags::empty()).map(|()| "set"))
}

/// MDTs keep the rule of fs.protected_hardlinks for callers that they squash. The kernel keeps it
/// for all others if it is set to 1; if it is not, the cells have nothing to be compared with.
fn linked(path: &Path, name: &Path) -> String {
    let set = fs::read_to_string("/proc/sys/fs/protected_hardlinks");
    match set.is_ok_and(|set| set.trim() == "1") {
        true => of_io(fs::hard_link(path, name)),
        false => "left out: fs.protected_hardlinks is not 1".to_owned(),
    }
}

/// What is done with a file.
const OF_FILES: [Operation; 20] = [
    ("stat", |path| told(looks(path))),
    ("read", |path| {
        let mut text = String::new();
        let file = opened(path, OFlags::RDONLY).map_err(io::Error::from);
        told(file.and_then(|mut file| file.read_to_string(&mut text)).map(|_| text))
    }),
    ("read directly", |path| told(opened(path, OFlags::RDONLY | OFlags::DIRECT).map(|_| "open"))),
    ("write", |path| {
        let file = opened(path, OFlags::WRONLY).map_err(io::Error::from);
        of_io(file.and_then(|mut file| file.write_all(b"new").and_then(|()| file.sync_all())))
    }),
    ("append", |path| {
        let file = opened(path, OFlags::WRONLY | OFlags::APPEND).map_err(io::Error::from);
        of_io(file.and_then(|mut file| file.write_all(b"+")))
    }),
    ("both", |path| told(opened(path, OFlags::RDWR).map(|_| "open"))),
    ("truncate", |path| {
        let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).expect("no NUL");
        // SAFETY: the path ends with a NUL.
        let cut = unsafe { libc::truncate(path.as_ptr(), 2) };
        of_io(if cut == 0 { Ok(()) } else { Err(io::Error::last_os_error()) })
    }),
    ("open and empty", |path| {
        told(opened(path, OFlags::WRONLY | OFlags::TRUNC).map(|_| "emptied"))
    }),
    ("chmod", |path| of_io(fs::set_permissions(path, Permissions::from_mode(0o2751)))),
    ("chown", |path| of_io(chown(path, Some(named(4244)), None))),
    ("chgrp", |path| of_io(chown(path, None, Some(named(4244))))),
    ("chgrp to a group of mine", |path| of_io(chown(path, None, Some(named(MORE))))),
    ("times", |path| times(path, || Timespec { tv_sec: 5, tv_nsec: 0 })),
    ("times now", |path| times(path, || Timespec { tv_sec: 0, tv_nsec: UTIME_NOW })),
    ("xattr", |path| {
        let mut value = [0; 64];
        told(rustix::fs::getxattr(path, "user.colour", &mut value[..]).map(|len| len.to_string()))
    }),
    ("xattr set", |path| told(set_xattr(path, "user.colour", b"red").map(|()| "set"))),
    ("xattr removed", |path| {
        told(rustix::fs::removexattr(path, "user.colour").map(|()| "removed"))
    }),
    ("lock", |path| {
        let file = opened(path, OFlags::RDONLY).map_err(io::Error::from);
        let lock =
            |file: &fs::File| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
        of_io(file.and_then(|file| Ok(lock(&file)?)))
    }),
    ("link", |path| linked(path, &path.with_extension("link"))),
    ("unlink", |path| of_io(fs::remove_file(path))),
];

/// What is done with a directory, in which there are a file `file` and a directory `dir`.
const OF_DIRECTORIES: [Operation; 15] = [
    ("stat", |path| told(looks(path))),
    ("list", |path| told(fs::read_dir(path).map(|names| names.count()))),
    ("stat below", |path| told(looks(&path.join("file")))),
    ("read below", |path| told(fs::read_to_string(path.join("file")))),
    ("stat of what is not there", |path| told(looks(&path.join("gone")))),
    ("create", |path| of_io(fs::write(path.join("new"), "new"))),
    ("mkdir", |path| of_io(fs::create_dir(path.join("new")))),
    ("symlink", |path| of_io(symlink("file", path.join("new")))),
    ("link", |path| linked(&path.join("file"), &path.join("new"))),
    ("rename", |path| of_io(fs::rename(path.join("file"), path.join("new")))),
    ("unlink", |path| of_io(fs::remove_file(path.join("file")))),
    ("rmdir below", |path| of_io(fs::remove_dir(path.join("dir")))),
    ("chmod", |path| of_io(fs::set_permissions(path, Permissions::from_mode(0o2751)))),
    ("times now", |path| times(path, || Timespec { tv_sec: 0, tv_nsec: UTIME_NOW })),
    ("xattr set", |path| told(set_xattr(path, "user.colour", b"red").map(|()| "set"))),
];

/// All cells: whether it is a directory, class, mode, and number of the operation.
fn cells() -> impl Iterator<Item = (bool, usize, u32, usize)> {
    let kinds = [(false, OF_FILES.len()), (true, OF_DIRECTORIES.len())];
    kinds.into_iter().flat_map(|(is_dir, operations)| {
        (0..CLASSES.len()).flat_map(move |class| {
            (0..8).flat_map(move |mode| (0..operations).map(move |n| (is_dir, class, mode, n)))
        })
    })
}

fn place(tree: &Path, (is_dir, class, mode, n): (bool, usize, u32, usize)) -> PathBuf {
    let kind = if is_dir { "d" } else { "f" };
    tree.join(format!("{}{mode}", CLASSES[class])).join(format!("{kind}{n}"))
}

/// Makes the files and directories of all cells below `tree`, which is there, as root.
fn prepare(tree: &Path, acts: &Caller) {
    let Ids { uid, gid } = acts.ids;
    let root = |result: io::Result<()>| result.expect("root may");
    for cell in cells() {
        let (is_dir, class, mode, _) = cell;
        let path = place(tree, cell);
        let dir = path.parent().expect("a directory");
        if !dir.exists() {
            root(fs::create_dir(dir));
            root(fs::set_permissions(dir, Permissions::from_mode(0o777)));
        }
        if is_dir {
            root(fs::create_dir(&path));
            root(fs::write(path.join("file"), "below"));
            root(fs::create_dir(path.join("dir")));
        } else {
            root(fs::write(&path, "content"));
        }
        root(set_xattr(&path, "user.colour", b"blue").map_err(Into::into));
        let (owner, group, shift) = match class {
            0 => (uid, 0, 6),
            1 => (0, gid, 3),
            2 => (0, acts.groups.first().copied().unwrap_or(gid), 3),
            _ => (0, 0, 0),
        };
        let all = [6, 3, 0].into_iter();
        let mode = all.fold(0, |all, at| all | (if at == shift { mode } else { !mode & 7 }) << at);
        root(chown(&path, Some(owner), Some(group)));
        root(fs::set_permissions(&path, Permissions::from_mode(mode)));
    }
}

/// Does what each cell says. `SQUASH_TREE` names the tree.
pub(super) fn script() {
    let Some(tree) = std::env::var_os(TREE).map(PathBuf::from) else { return };
    rustix::process::umask(Mode::from_raw_mode(0o022));
    println!();
    for cell in cells() {
        let (is_dir, class, mode, n) = cell;
        let operations = if is_dir { &OF_DIRECTORIES[..] } else { &OF_FILES };
        let ((name, operation), kind) = (operations[n], if is_dir { "directory" } else { "file" });
        let result = operation(&place(&tree, cell));
        println!("= {kind} {mode} {}, {name}: {result}", CLASSES[class]);
    }
}

/// Makes the table of one caller on the first client's mount, with the layout that the mount has or
/// with bytes on the MDT, and on the ordinary file system. The number of cells.
fn table(
    cluster: &Cluster,
    (what, small): (&str, bool),
    claimed: &Caller,
    acts: &Caller,
    map: &IdMap,
) -> usize {
    let mounts = cluster.mounts();
    let (here, made, there) =
        (mounts[0].join(what), mounts[1].join(what), cluster.outside().join(what));
    for tree in [&made, &there] {
        fs::create_dir(tree).expect("root may");
        fs::set_permissions(tree, Permissions::from_mode(0o777)).expect("root may");
    }
    if small {
        on_mdt(cluster, &made);
    }
    prepare(&made, acts);
    prepare(&there, acts);
    let on_mount = run_child(CHILD, &here, claimed, None);
    let map = (!map.is_empty()).then_some((map, SQUASH.uid));
    let outside = run_child(CHILD, &there, acts, map);
    assert_same(&format!("{what}: what each operation said"), &on_mount, &outside);
    assert_same(&format!("{what}: what became of all"), &outcome(&made), &outcome(&there));
    let done = outside.lines().filter(|line| !line.contains(": errno ")).count();
    let count = outside.lines().count();
    assert_eq!(count, cells().count(), "{what}: every cell is there");
    eprintln!("{what}: {count} cells, {done} of them done, the others refused");
    count
}

/// Those that are compared without `E2E_LONG=1`.
const ROWS: [&str; 4] = ["mapped", "root_small", "free_root", "squashed_root"];

#[test]
fn every_cell_is_as_the_ordinary_file_system_says() {
    let Some(cluster) = tenant(MAP) else { return };
    let mut count = 0;
    let mut row = |what, small, claimed: (Ids, u32), acts: (Ids, u32), map: &IdMap| {
        let [claimed, acts] = [claimed, acts].map(|(ids, more)| {
            // Root has all groups of root, and a squashed one has no more.
            let more = if more == 0 { Vec::new() } else { vec![more] };
            caller(ids, &more)
        });
        if e2e::long() || ROWS.contains(&what) {
            count += table(&cluster, (what, small), &claimed, &acts, map);
        }
    };
    row("mapped", false, (USER, MORE), (USER_IS, MORE_IS), MAP);
    row("mapped_small", true, (USER, MORE), (USER_IS, MORE_IS), MAP);
    row("root", false, (ROOT, 0), (SQUASH, 0), MAP);
    row("root_small", true, (ROOT, 0), (SQUASH, 0), MAP);
    modify(&cluster, "tenant", &["admin=1"]);
    acting(&cluster, "0:0");
    let with_root = &[MAP, &[(0, 0)]].concat();
    row("admin", false, (ROOT, 0), (ROOT, 0), with_root);
    row("beside_admin", false, (USER, MORE), (USER_IS, MORE_IS), with_root);
    modify(&cluster, "tenant", &["trusted=1"]);
    soon(&(USER_IS.uid, 0), || owners(&cluster.mounts()[0].join("mapped/owner7/f0")));
    row("trusted", false, (USER, MORE), (USER, MORE), &[]);
    modify(&cluster, "tenant", &["admin=0"]);
    acting(&cluster, "65532:65532");
    row("trusted_user", true, (USER, MORE), (USER, MORE), &[]);
    row("trusted_root", true, (ROOT, 0), (SQUASH, 0), &[]);
    // By the parameter of the MDTs.
    super::nodemap::says_nothing(&cluster, &["nodemap_activate", "0"]);
    acting(&cluster, "0:0");
    row("free", false, (USER, MORE), (USER, MORE), &[]);
    row("free_root", false, (ROOT, 0), (ROOT, 0), &[]);
    super::set(&cluster, "root_squash", NOBODY);
    row("squashed_root", false, (ROOT, 0), (NOBODY, 0), &[]);
    row("beside_squashed_root", false, (USER, MORE), (USER, MORE), &[]);
    eprintln!("{count} cells are equal");
    assert!(cluster.many().fsck(&[]).status.success());
}
