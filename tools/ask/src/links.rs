//! Names of an inode that is known by its FID, and the paths that they make.

use crate::mounts::Mount;
use crate::xattr;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use types::about;
use types::errno::Errno;
use types::fid::Fid;

/// Directories above each other. More mean a circle, or a path that no program can use.
const DEPTH_MAX: usize = 4096;

/// So often the names of a file that is being removed are looked at: each look may find names that
/// came since the last.
const LOOKS_MAX: usize = 5;

/// Names of an inode, as far as its MDT remembers them: directory and name. `anywhere`: a path on
/// the mount.
///
/// # Errors
/// ENOENT: no such inode; EPERM: only root may ask; ENODATA: it has names, but they are not
/// remembered.
pub fn known(anywhere: &Path, fid: Fid) -> io::Result<Vec<(Fid, Vec<u8>)>> {
    let value = xattr::get(anywhere, &about::links(fid))?;
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "a list of names that nobody can read");
    let names: Vec<&[u8]> =
        value.split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
    if names.is_empty() && fid != root(anywhere)? {
        return Err(io::Error::from_raw_os_error(Errno::ENODATA.0));
    }
    let parsed = |link: &[u8]| {
        let slash = link.iter().position(|byte| *byte == b'/').ok_or_else(bad)?;
        let parent = std::str::from_utf8(&link[..slash])
            .ok()
            .and_then(|fid| fid.parse().ok())
            .ok_or_else(bad)?;
        Ok((parent, link[slash + 1..].to_vec()))
    };
    names.into_iter().map(parsed).collect()
}

/// The root of the mount that this path is on: that of the file system, or the directory of it that
/// is mounted.
fn root(anywhere: &Path) -> io::Result<Fid> {
    let mount = crate::mounts::mount_of(anywhere)?;
    root_of(&mount)
}

/// The root of a mount: that of the file system, or the directory of it that is mounted.
///
/// # Errors
/// The mount does not answer.
pub fn root_of(mount: &Mount) -> io::Result<Fid> {
    let text = xattr::get_text(&mount.dir, about::FID)?;
    text.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "no FID of the root"))
}

/// Paths of an inode below the root of the mount, without a leading slash. For the root: one
/// empty path.
///
/// # Errors
/// As [`known`]; ELOOP: too deep.
pub fn paths(mount: &Mount, fid: Fid) -> io::Result<Vec<Vec<u8>>> {
    let root = root_of(mount)?;
    if fid == root {
        return Ok(vec![Vec::new()]);
    }
    let mut paths = Vec::new();
    for (parent, name) in known(&mount.dir, fid)? {
        let mut names = vec![name];
        let mut dir = parent;
        while dir != root {
            if names.len() > DEPTH_MAX {
                return Err(io::Error::from_raw_os_error(Errno::ELOOP.0));
            }
            let above = known(&mount.dir, dir)?.into_iter().next();
            let (above, name) =
                above.ok_or_else(|| io::Error::from_raw_os_error(Errno::ENODATA.0))?;
            names.push(name);
            dir = above;
        }
        names.reverse();
        paths.push(names.join(&b'/'));
    }
    Ok(paths)
}

/// Removes all names of a file.
///
/// # Errors
/// As [`known`]; those of unlink(2). EBUSY: it gets new names all the time. Names that were removed
/// before stay removed.
pub fn remove(mount: &Mount, fid: Fid) -> io::Result<()> {
    let mut removed = false;
    for _ in 0..LOOKS_MAX {
        let paths = match paths(mount, fid) {
            // The last name went.
            Err(error) if removed && is(&error, Errno::ENOENT) => return Ok(()),
            paths => paths?,
        };
        for path in paths {
            removed |= remove_name(&mount.dir.join(OsStr::from_bytes(&path)), fid)?;
        }
    }
    Err(io::Error::from_raw_os_error(Errno::EBUSY.0))
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.0)
}

/// Removes one name if it still is this file's; returns whether it was. Another process may have
/// given it to another file, or removed it.
fn remove_name(path: &Path, fid: Fid) -> io::Result<bool> {
    let gone = |error: io::Error| if is(&error, Errno::ENOENT) { Ok(false) } else { Err(error) };
    match xattr::get_text(path, about::FID) {
        Ok(found) if found.parse() == Ok(fid) => {
            std::fs::remove_file(path).map(|()| true).or_else(gone)
        }
        Ok(_) => Ok(false),
        Err(error) => gone(error),
    }
}
