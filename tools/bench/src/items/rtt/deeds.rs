//! The operations of `rtt`, as the table of the design has them, with what it allows.

use rustix::fs::{XattrFlags, lgetxattr, setxattr};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What a client knows before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The kernel and with it the client have forgotten the files.
    Cold,
    /// The same was just done.
    Warm,
    /// As `Warm`, and the kernel keeps what was read: of files that changed some time ago.
    WarmPages,
    /// It can be done only once.
    Once,
}

/// The unit that requests are counted per.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// File: the deed is done to each.
    File,
    /// Directory: the deed is done once, to all.
    Directory,
}

/// One operation.
pub struct Deed {
    /// For people.
    pub what: &'static str,
    /// Round trips at most.
    pub most: f64,
    /// What is known before.
    pub kind: Kind,
    /// What it is done to.
    pub per: Per,
    /// Makes what it needs, for each file.
    pub prepare: fn(&Path, usize) -> io::Result<()>,
    /// Does it; for a directory with the count of its files.
    pub act: fn(&Path, usize) -> io::Result<()>,
}

/// Small files have so many bytes.
const SMALL: usize = 4096;

fn file(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("f{number}"))
}

fn nothing(_: &Path, _: usize) -> io::Result<()> {
    Ok(())
}

fn make(dir: &Path, number: usize) -> io::Result<()> {
    File::create_new(file(dir, number)).map(drop)
}

fn make_small(dir: &Path, number: usize) -> io::Result<()> {
    File::create_new(file(dir, number))?.write_all(&[7; SMALL])
}

/// Beside the file, for what writing needs once.
fn write_before(dir: &Path, number: usize) -> io::Result<()> {
    fs::write(dir.join(format!("w{number}")), [7; SMALL])
}

fn stat(dir: &Path, number: usize) -> io::Result<()> {
    fs::symlink_metadata(file(dir, number)).map(drop)
}

fn miss(dir: &Path, number: usize) -> io::Result<()> {
    match fs::symlink_metadata(dir.join(format!("no{number}"))) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
        Ok(_) => Err(io::Error::other("what nobody made is there")),
    }
}

fn read(dir: &Path, number: usize) -> io::Result<()> {
    let mut data = [0; SMALL];
    File::open(file(dir, number))?.read_exact(&mut data)
}

fn mkdir(dir: &Path, number: usize) -> io::Result<()> {
    fs::create_dir(dir.join(format!("d{number}")))
}

fn list(dir: &Path, expected: usize) -> io::Result<()> {
    let mut found = 0;
    for entry in fs::read_dir(dir)? {
        entry?;
        found += 1;
    }
    if found == expected {
        Ok(())
    } else {
        Err(io::Error::other(format!("{found} names, not {expected}")))
    }
}

/// As ls(1) does it: attributes, and whether there is an ACL or a label.
fn list_long(dir: &Path, _: usize) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        entry.metadata()?;
        for name in ["security.selinux", "system.posix_acl_access"] {
            match lgetxattr(entry.path(), name, &mut [0u8; 1024][..]) {
                Ok(_) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

const fn deed(
    what: &'static str,
    most: f64,
    kind: Kind,
    prepare: fn(&Path, usize) -> io::Result<()>,
    act: fn(&Path, usize) -> io::Result<()>,
) -> Deed {
    Deed { what, most, kind, per: Per::File, prepare, act }
}

/// All deeds.
pub const DEEDS: &[Deed] = &[
    deed("stat, cold", 1.0, Kind::Cold, make, stat),
    deed("stat, warm", 0.0, Kind::Warm, make, stat),
    deed("lookup of a missing name, cold", 1.0, Kind::Once, nothing, miss),
    deed("lookup of a missing name, warm", 0.0, Kind::Warm, nothing, miss),
    deed("create and close", 1.0, Kind::Once, nothing, make),
    // The first write to an OST in a while asks it for space, and waits: files written before have
    // done that.
    deed("create, write 4 KiB and close", 1.0, Kind::Once, write_before, make_small),
    deed("mkdir", 1.0, Kind::Once, nothing, mkdir),
    deed("rmdir", 1.0, Kind::Once, mkdir, |dir, n| fs::remove_dir(dir.join(format!("d{n}")))),
    deed("unlink of an empty file", 1.0, Kind::Once, make, |dir, n| fs::remove_file(file(dir, n))),
    deed("rename", 1.0, Kind::Once, make, |dir, n| {
        fs::rename(file(dir, n), dir.join(format!("g{n}")))
    }),
    deed("link", 1.0, Kind::Once, make, |dir, n| {
        fs::hard_link(file(dir, n), dir.join(format!("l{n}")))
    }),
    deed("chmod", 1.0, Kind::Once, make, |dir, n| {
        fs::set_permissions(file(dir, n), fs::Permissions::from_mode(0o600))
    }),
    deed("setxattr", 1.0, Kind::Once, make, |dir, n| {
        Ok(setxattr(file(dir, n), "user.bench", b"value", XattrFlags::CREATE)?)
    }),
    deed("open, read 4 KiB and close, cold", 2.0, Kind::Cold, make_small, read),
    deed("open, read 4 KiB and close, warm", 0.0, Kind::WarmPages, make_small, read),
    // The open, then all targets at once.
    deed("open and fsync of what was stored", 2.0, Kind::Once, make_small, |dir, n| {
        OpenOptions::new().write(true).open(file(dir, n))?.sync_all()
    }),
    Deed { per: Per::Directory, ..deed("ls -U, cold", 2.0, Kind::Cold, make, list) },
    Deed { per: Per::Directory, ..deed("ls -U, warm", 0.0, Kind::Warm, make, list) },
    Deed { per: Per::Directory, ..deed("ls -l, cold", 2.0, Kind::Cold, make, list_long) },
    Deed { per: Per::Directory, ..deed("ls -l, warm", 0.0, Kind::Warm, make, list_long) },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_deed_works_on_an_ordinary_file_system() {
        for deed in DEEDS {
            let dir = tempfile::tempdir().unwrap();
            (0..3).for_each(|n| (deed.prepare)(dir.path(), n).unwrap());
            let done: io::Result<()> = match deed.per {
                Per::File => (0..3).try_for_each(|n| (deed.act)(dir.path(), n)),
                Per::Directory => (deed.act)(dir.path(), 3),
            };
            // Some places for temporary files have no extended attributes.
            match done {
                Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
                other => other.unwrap_or_else(|e| panic!("{}: {e}", deed.what)),
            }
        }
    }
}
