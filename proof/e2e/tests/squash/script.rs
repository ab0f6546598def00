//! The same operations on two trees, each with the errno or what it shows.
//!
//! A child process runs them: the test program itself, under the ids of the caller. On the mount
//! these are the ids that the program claims, on the ordinary file system those as which it acts.
//! Where a nodemap maps ids, the child on the ordinary file system is told the map: it names users
//! and groups by the ids of the file system, and tells what it sees in those of the client.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Ids of a caller.
#[derive(Clone, Copy, Debug)]
pub struct Ids {
    pub uid: u32,
    pub gid: u32,
}

/// A caller: its ids, and its supplementary groups.
#[derive(Clone, Debug)]
pub struct Caller {
    pub ids: Ids,
    pub groups: Vec<u32>,
}

impl From<Ids> for Caller {
    fn from(ids: Ids) -> Caller {
        Caller { ids, groups: Vec::new() }
    }
}

/// Ids of a client, and those of the file system that they are: users and groups alike.
pub type IdMap = [(u32, u32)];

/// Variable with the tree that the child works in.
pub const TREE: &str = "SQUASH_TREE";
/// Variable with the map: pairs, and the id of squashed callers.
const MAP: &str = "SQUASH_MAP";
/// As which a client sees ids that are none of its own.
const FOREIGN: u32 = u32::MAX - 1;
/// Name of the test that is the child.
const CHILD: &str = "the_caller";

const ACL_ACCESS: &str = "system.posix_acl_access";
const ACL_DEFAULT: &str = "system.posix_acl_default";
const ACL_USER: u16 = 2;
const ACL_GROUP: u16 = 8;

/// An ACL with these named entries beside the four that it must have.
fn acl([owner, group, mask, other]: [u16; 4], named: &[(u16, u32, u16)]) -> Vec<u8> {
    let mut entries = vec![
        (1, u32::MAX, owner),
        (4, u32::MAX, group),
        (0x10, u32::MAX, mask),
        (0x20, u32::MAX, other),
    ];
    entries.extend(named.iter().map(|(tag, id, bits)| (*tag, *id, *bits)));
    entries.sort_by_key(|(tag, id, _)| (*tag, *id));
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, id, bits) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(bits.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// Pairs of ids on the mount and stored, and the id of all others.
type MapTold = (Vec<(u32, u32)>, u32);

/// The map that the child was told; `None`: ids are what they are.
fn map() -> Option<&'static MapTold> {
    static MAP_TOLD: OnceLock<Option<MapTold>> = OnceLock::new();
    let told = || {
        let text = std::env::var(MAP).ok()?;
        let number = |text: &str| text.parse::<u32>().expect("a number");
        let (pairs, squash) = text.split_once(' ').expect("pairs, and an id");
        let pair = |pair: &str| {
            let (client, fs) = pair.split_once(':').expect("two ids");
            (number(client), number(fs))
        };
        Some((pairs.split(',').map(pair).collect(), number(squash)))
    };
    MAP_TOLD.get_or_init(told).as_ref()
}

/// The id that one of the client is in the tree. The script names only known ones.
pub fn named(id: u32) -> u32 {
    let pair = map().map(|(pairs, _)| pairs.iter().find(|(client, _)| *client == id));
    pair.map_or(id, |pair| pair.expect("a known id").1)
}

/// The client's id that one of the tree is; `None`: it is none.
fn shown(id: u32) -> Option<u32> {
    let Some((pairs, squash)) = map() else { return Some(id) };
    let pair = pairs.iter().find(|(_, fs)| *fs == id).map(|(client, _)| *client);
    pair.or((id == *squash).then_some(id))
}

pub fn set_xattr(path: &Path, name: &str, value: &[u8]) -> Result<(), Errno> {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty())
}

/// Makes the tree, as root: what `caller` owns, what it may use as one of a group, by ACL, or as
/// everybody, and what it may not.
pub fn prepare(tree: &Path, caller: Ids) {
    let Ids { uid, gid } = caller;
    let own = |path: &Path, uid: u32, gid: u32, mode: u32| {
        std::os::unix::fs::lchown(path, Some(uid), Some(gid)).expect("root may");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("root may");
    };
    fs::create_dir(tree).expect("root may");
    own(tree, 0, 0, 0o777);
    for (name, owner, group, mode) in [
        ("closed", 0, 0, 0o700),
        ("readable", 0, 0, 0o744),
        ("walkable", 0, 0, 0o711),
        ("plain", 0, 0, 0o755),
        ("open", 0, 0, 0o777),
        ("sticky", 0, 0, 0o1777),
        ("setgid", 0, 4242, 0o2777),
        ("mine", uid, gid, 0o755),
        ("groups", 0, gid, 0o770),
        ("inherits", 0, 0, 0o777),
    ] {
        let dir = tree.join(name);
        fs::create_dir(&dir).expect("root may");
        for (file, file_owner, file_group, file_mode) in [
            ("secret", 0, 0, 0o600),
            ("shown", 0, 0, 0o644),
            ("all", 0, 0, 0o666),
            ("own", uid, gid, 0o600),
            ("sealed", uid, gid, 0o000),
            ("group", 0, gid, 0o640),
            ("program", 0, 0, 0o711),
            ("setid", 0, gid, 0o6777),
            ("ownsetid", uid, gid, 0o6755),
            ("allowed", 0, 0, 0o600),
            ("denied", 0, 0, 0o666),
            ("masked", 0, 0, 0o600),
        ] {
            let path = dir.join(file);
            fs::write(&path, format!("{file} of {name}")).expect("root may");
            own(&path, file_owner, file_group, file_mode);
        }
        set_xattr(
            &dir.join("allowed"),
            ACL_ACCESS,
            &acl([6, 0, 6, 0], &[(ACL_USER, uid.max(1), 6)]),
        )
        .expect("ACLs");
        set_xattr(
            &dir.join("denied"),
            ACL_ACCESS,
            &acl([6, 6, 6, 6], &[(ACL_USER, uid.max(1), 0)]),
        )
        .expect("ACLs");
        set_xattr(
            &dir.join("masked"),
            ACL_ACCESS,
            &acl([6, 0, 4, 0], &[(ACL_GROUP, gid.max(1), 6)]),
        )
        .expect("ACLs");
        for file in ["secret", "shown", "own"] {
            set_xattr(&dir.join(file), "user.colour", b"blue").expect("extended attributes");
            set_xattr(&dir.join(file), "trusted.seal", b"wax").expect("root may");
        }
        std::os::unix::fs::symlink("secret", dir.join("link")).expect("root may");
        fs::create_dir(dir.join("sub")).expect("root may");
        own(&dir, owner, group, mode);
    }
    let default = acl([7, 5, 7, 0], &[(ACL_USER, 4243, 7)]);
    set_xattr(&tree.join("inherits"), ACL_DEFAULT, &default).expect("ACLs");
}

/// Everything that root sees of the tree afterwards.
pub fn outcome(tree: &Path) -> String {
    let mut lines = Vec::new();
    let mut todo = vec![tree.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).expect("root may") {
            let path = entry.expect("an entry").path();
            let about = fs::symlink_metadata(&path).expect("it is there");
            let name = path.strip_prefix(tree).expect("below the tree").display().to_string();
            let (mode, uid, gid, links) = (about.mode(), about.uid(), about.gid(), about.nlink());
            let links = if about.is_dir() { 0 } else { links };
            let content =
                if about.is_file() { fs::read(&path).expect("root may") } else { Vec::new() };
            let acls =
                [ACL_ACCESS, ACL_DEFAULT].map(|acl| shown_xattr(&path, acl).unwrap_or_default());
            lines.push(format!(
                "{name} {mode:o} {uid}:{gid} {links} {:?} {acls:?}",
                String::from_utf8_lossy(&content)
            ));
            if about.is_dir() {
                todo.push(path);
            }
        }
    }
    lines.sort();
    lines.join("\n")
}

fn shown_xattr(path: &Path, name: &str) -> Result<String, Errno> {
    let mut value = vec![0; 1024];
    let len = rustix::fs::lgetxattr(path, name, &mut value)?;
    value.truncate(len);
    if name == ACL_ACCESS || name == ACL_DEFAULT {
        let (head, entries) = value.split_at(4);
        let entry = |entry: &[u8]| {
            let tag = u16::from_le_bytes([entry[0], entry[1]]);
            let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
            let is_named = tag == ACL_USER || tag == ACL_GROUP;
            let id = if is_named { shown(id)? } else { id };
            Some((tag, id, [&entry[..4], &id.to_le_bytes()].concat()))
        };
        let mut entries: Vec<_> = entries.chunks(8).filter_map(entry).collect();
        entries.sort();
        let entries: Vec<Vec<u8>> = entries.into_iter().map(|(.., bytes)| bytes).collect();
        value = [head.to_vec(), entries.concat()].concat();
    }
    Ok(value.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Runs the script in the tree as this caller; a line for each operation. `map`: of the tree's ids,
/// and the id of squashed callers.
pub fn run(tree: &Path, caller: &Caller, map: Option<(&IdMap, u32)>) -> String {
    run_child(CHILD, tree, caller, map)
}

/// As [`run`], with the script that the test of this name is.
pub fn run_child(child: &str, tree: &Path, caller: &Caller, map: Option<(&IdMap, u32)>) -> String {
    let mut command = Command::new("setpriv");
    let Ids { uid, gid } = caller.ids;
    command.args(["--reuid", &uid.to_string(), "--regid", &gid.to_string()]);
    let groups: Vec<String> = caller.groups.iter().map(u32::to_string).collect();
    match &groups[..] {
        [] => command.arg("--clear-groups"),
        groups => command.arg("--groups").arg(groups.join(",")),
    };
    if let Some((pairs, squash)) = map {
        let pairs: Vec<String> =
            pairs.iter().map(|(client, fs)| format!("{client}:{fs}")).collect();
        command.env(MAP, format!("{} {squash}", pairs.join(",")));
    }
    command.arg("--");
    command.arg(std::env::current_exe().expect("this program"));
    command.args(["--exact", child, "--nocapture", "--test-threads", "1"]).env(TREE, tree);
    let output = command.output().expect("setpriv runs");
    let text = e2e::process::text(&output);
    assert!(output.status.success(), "{text}");
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("= ")).collect();
    lines.join("\n")
}

/// One result: what it shows, or the errno.
pub fn told<T: ToString>(result: Result<T, impl Into<std::io::Error>>) -> String {
    match result {
        Ok(shown) => shown.to_string(),
        Err(error) => {
            let error: std::io::Error = error.into();
            let number = error.raw_os_error().unwrap_or_else(|| panic!("{error} has no errno"));
            format!("errno {number}")
        }
    }
}

/// Attributes that an operation can change, as the caller sees them.
pub fn looks(path: &Path) -> Result<String, std::io::Error> {
    let about = fs::symlink_metadata(path)?;
    Ok(format!(
        "{:o} {}:{} {}",
        about.mode(),
        shown(about.uid()).unwrap_or(FOREIGN),
        shown(about.gid()).unwrap_or(FOREIGN),
        if about.is_dir() { 0 } else { about.size() }
    ))
}

pub fn opened(path: &Path, flags: OFlags) -> Result<fs::File, Errno> {
    rustix::fs::open(path, flags, Mode::from_raw_mode(0o640)).map(fs::File::from)
}

fn read_all(mut file: fs::File) -> Result<String, std::io::Error> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// A mapped page of the file.
fn mapped(path: &Path) -> Result<String, std::io::Error> {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    let file = opened(path, OFlags::RDONLY)?;
    // SAFETY: a new mapping that nothing else uses, unmapped below; the file is not cut meanwhile.
    let page =
        unsafe { mmap(std::ptr::null_mut(), 4096, ProtFlags::READ, MapFlags::SHARED, &file, 0) }?;
    // SAFETY: the file has at least one byte, so the first one is mapped.
    let first = unsafe { *page.cast::<u8>() };
    // SAFETY: it is the mapping from above.
    unsafe { munmap(page, 4096) }?;
    Ok(char::from(first).to_string())
}

/// The script. `SQUASH_TREE` names the tree.
pub fn script() {
    let Some(tree) = std::env::var_os(TREE).map(PathBuf::from) else { return };
    rustix::process::umask(Mode::from_raw_mode(0o022));
    println!();
    let say = |what: &str, result: String| println!("= {what}: {result}");
    let dirs = [
        "closed", "readable", "walkable", "plain", "open", "sticky", "setgid", "mine", "groups",
        "inherits",
    ];
    for dir in dirs {
        let at = |name: &str| tree.join(dir).join(name);
        let on = |what: &str, result: String| say(&format!("{dir}/{what}"), result);
        on("list", told(fs::read_dir(tree.join(dir)).map(|names| names.count())));
        for file in [
            "secret", "shown", "all", "own", "sealed", "group", "allowed", "denied", "masked",
            "link", "gone",
        ] {
            let path = at(file);
            on(&format!("{file} stat"), told(looks(&path)));
            on(
                &format!("{file} read"),
                told(opened(&path, OFlags::RDONLY).map_err(Into::into).and_then(read_all)),
            );
            on(
                &format!("{file} again"),
                told(opened(&path, OFlags::RDONLY).map_err(Into::into).and_then(read_all)),
            );
            on(
                &format!("{file} direct"),
                told(opened(&path, OFlags::RDONLY | OFlags::DIRECT).map(|_| "open")),
            );
            on(&format!("{file} write"), told(opened(&path, OFlags::WRONLY).map(|_| "open")));
            on(&format!("{file} both"), told(opened(&path, OFlags::RDWR).map(|_| "open")));
            on(&format!("{file} append"), {
                let opened =
                    opened(&path, OFlags::WRONLY | OFlags::APPEND).map_err(std::io::Error::from);
                told(opened.and_then(|mut file| file.write_all(b"+")).and_then(|()| looks(&path)))
            });
        }
        for file in ["secret", "shown", "own", "gone"] {
            on(&format!("{file} xattr"), told(shown_xattr(&at(file), "user.colour")));
            on(&format!("{file} xattr of root"), told(shown_xattr(&at(file), "trusted.seal")));
            on(
                &format!("{file} xattr set"),
                told(set_xattr(&at(file), "user.colour", b"red").map(|()| "set")),
            );
            on(
                &format!("{file} xattr of root set"),
                told(set_xattr(&at(file), "trusted.seal", b"x").map(|()| "set")),
            );
            on(&format!("{file} xattr removed"), {
                told(rustix::fs::removexattr(at(file), "user.colour").map(|()| "removed"))
            });
            on(&format!("{file} mapped"), told(mapped(&at(file))));
        }
        for file in ["secret", "shown", "all", "own", "setid", "ownsetid", "allowed", "sub"] {
            let path = at(file);
            let name = |what: &str| format!("{file} {what}");
            on(
                &name("chmod"),
                told(
                    fs::set_permissions(&path, fs::Permissions::from_mode(0o2775))
                        .and_then(|()| looks(&path)),
                ),
            );
            on(
                &name("chown"),
                told(
                    std::os::unix::fs::lchown(&path, Some(named(4244)), None)
                        .and_then(|()| looks(&path)),
                ),
            );
            on(
                &name("chgrp"),
                told(
                    std::os::unix::fs::lchown(&path, None, Some(named(4244)))
                        .and_then(|()| looks(&path)),
                ),
            );
            on(&name("times"), {
                let times = rustix::fs::Timestamps {
                    last_access: rustix::time::Timespec { tv_sec: 5, tv_nsec: 0 },
                    last_modification: rustix::time::Timespec { tv_sec: 6, tv_nsec: 0 },
                };
                told(rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).map(|()| "set"))
            });
            on(&name("times now"), {
                let now = || rustix::time::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
                let times = rustix::fs::Timestamps { last_access: now(), last_modification: now() };
                told(rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).map(|()| "set"))
            });
            on(&name("acl"), {
                let acl = acl([6, 4, 6, 0], &[(ACL_USER, named(4245), 6)]);
                told(
                    set_xattr(&path, ACL_ACCESS, &acl)
                        .map_err(Into::into)
                        .and_then(|()| looks(&path)),
                )
            });
            on(&name("acl shown"), told(shown_xattr(&path, ACL_ACCESS)));
        }
        // What a write takes from a file that has set-id bits.
        on("setid written", {
            let file = opened(&at("setid"), OFlags::WRONLY).map_err(std::io::Error::from);
            told(
                file.and_then(|file| file.write_all_at(b"x", 0)).and_then(|()| looks(&at("setid"))),
            )
        });
        for file in ["secret", "shown", "all", "own", "group", "denied", "sub"] {
            let path = CString::new(at(file).as_os_str().as_bytes()).expect("no NUL");
            // SAFETY: the path ends with a NUL.
            let cut = match unsafe { libc::truncate(path.as_ptr(), 3) } {
                0 => Ok("cut"),
                _ => Err(std::io::Error::last_os_error()),
            };
            on(&format!("{file} cut"), told(cut));
            on(&format!("{file} emptied"), {
                let file =
                    opened(&at(file), OFlags::WRONLY | OFlags::TRUNC).map_err(std::io::Error::from);
                told(file.and_then(|mut file| file.seek(SeekFrom::End(0))))
            });
        }
        on("new", {
            let file = opened(&at("new"), OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
                .map_err(std::io::Error::from);
            told(file.and_then(|mut file| file.write_all(b"new")).and_then(|()| looks(&at("new"))))
        });
        on("new of a closed mode", {
            let file =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o000).open(at("shut"));
            told(
                file.and_then(|mut file| file.write_all(b"shut")).and_then(|()| looks(&at("shut"))),
            )
        });
        on("new cut while open", {
            let file =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o444).open(at("cut"));
            told(file.and_then(|file| file.set_len(100)).and_then(|()| looks(&at("cut"))))
        });
        on("new with set-id bits", {
            let file = fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o6777)
                .open(at("newsetid"));
            told(file.and_then(|_| looks(&at("newsetid"))))
        });
        on("directory", told(fs::create_dir(at("newdir")).and_then(|()| looks(&at("newdir")))));
        on(
            "in the directory",
            told(fs::write(at("newdir/in"), "in").and_then(|()| looks(&at("newdir/in")))),
        );
        on(
            "symlink",
            told(
                std::os::unix::fs::symlink("new", at("newlink"))
                    .and_then(|()| looks(&at("newlink"))),
            ),
        );
        on("pipe", {
            let made = rustix::fs::mknodat(
                CWD,
                at("pipe"),
                rustix::fs::FileType::Fifo,
                Mode::from_raw_mode(0o644),
                0,
            );
            told(made.map_err(Into::into).and_then(|()| looks(&at("pipe"))))
        });
        on("device", {
            let device = rustix::fs::makedev(1, 3);
            let mode = Mode::from_raw_mode(0o666);
            let made = rustix::fs::mknodat(
                CWD,
                at("null"),
                rustix::fs::FileType::CharacterDevice,
                mode,
                device,
            );
            told(made.map(|()| "made"))
        });
        on("link of mine", told(fs::hard_link(at("own"), at("ownlink")).map(|()| "linked")));
        on("rename of mine", told(fs::rename(at("own"), at("renamed")).map(|()| "renamed")));
        on("rename of root's", told(fs::rename(at("shown"), at("moved")).map(|()| "renamed")));
        on("rename over root's", told(fs::rename(at("new"), at("secret")).map(|()| "renamed")));
        on(
            "rename out",
            told(fs::rename(at("sub"), tree.join("open").join(dir)).map(|()| "renamed")),
        );
        on("exchange", {
            let exchange = RenameFlags::EXCHANGE;
            let done = rustix::fs::renameat_with(CWD, at("all"), CWD, at("group"), exchange);
            told(done.map(|()| "exchanged"))
        });
        on("lock", {
            let file = opened(&at("all"), OFlags::RDWR).map_err(std::io::Error::from);
            let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
            told(file.and_then(|file| Ok(rustix::fs::flock(&file, lock)?)).map(|()| "locked"))
        });
        on("unlink of mine", told(fs::remove_file(at("renamed")).map(|()| "removed")));
        on("unlink of root's", told(fs::remove_file(at("program")).map(|()| "removed")));
        on("rmdir", told(fs::remove_dir(at("newdir")).map(|()| "removed")));
        on("flags", {
            let file = opened(&at("all"), OFlags::RDONLY);
            let set = file.and_then(|file| {
                let flags = rustix::fs::ioctl_getflags(&file)?;
                rustix::fs::ioctl_setflags(&file, flags | rustix::fs::IFlags::NODUMP)
            });
            told(set.map(|()| "set"))
        });
        on("totals", told(rustix::fs::statfs(tree.join(dir)).map(|_| "shown")));
    }
}
