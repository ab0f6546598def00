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

/// Directories above each other; more are a circle, or nobody's path.
const DEPTH_MAX: usize = 4096;

/// Names of an inode, as far as its MDT remembers them: directory and name. `anywhere`: a path on the mount.
///
/// # Errors
/// ENOENT: no such inode; EPERM: only root may ask; ENODATA: it has names, but they are not remembered.
pub fn known(anywhere: &Path, fid: Fid) -> io::Result<Vec<(Fid, Vec<u8>)>> {
    let value = xattr::get(anywhere, &about::links(fid))?;
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "a list of names that nobody can read");
    let names: Vec<&[u8]> = value.split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
    if names.is_empty() && fid != Fid::ROOT {
        return Err(io::Error::from_raw_os_error(Errno::ENODATA.0));
    }
    let parsed = |link: &[u8]| {
        let slash = link.iter().position(|byte| *byte == b'/').ok_or_else(bad)?;
        let parent = std::str::from_utf8(&link[..slash]).ok().and_then(|fid| fid.parse().ok()).ok_or_else(bad)?;
        Ok((parent, link[slash + 1..].to_vec()))
    };
    names.into_iter().map(parsed).collect()
}

/// Paths of an inode below the root of the file system, without a slash in front. Of the root: one that is empty.
///
/// # Errors
/// As [`known`]; ELOOP: too deep.
pub fn paths(mount: &Mount, fid: Fid) -> io::Result<Vec<Vec<u8>>> {
    if fid == Fid::ROOT {
        return Ok(vec![Vec::new()]);
    }
    let mut paths = Vec::new();
    for (parent, name) in known(&mount.dir, fid)? {
        let mut names = vec![name];
        let mut dir = parent;
        while dir != Fid::ROOT {
            if names.len() > DEPTH_MAX {
                return Err(io::Error::from_raw_os_error(Errno::ELOOP.0));
            }
            let above = known(&mount.dir, dir)?.into_iter().next();
            let (above, name) = above.ok_or_else(|| io::Error::from_raw_os_error(Errno::ENODATA.0))?;
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
/// As [`known`]; those of unlink(2). Names that were removed before stay so.
pub fn remove(mount: &Mount, fid: Fid) -> io::Result<()> {
    let mut removed = false;
    loop {
        let paths = match paths(mount, fid) {
            // The last name went.
            Err(error) if removed && error.raw_os_error() == Some(Errno::ENOENT.0) => return Ok(()),
            paths => paths?,
        };
        for path in paths {
            let path = mount.dir.join(OsStr::from_bytes(&path));
            // Somebody may have given the name to another file meanwhile.
            if xattr::get_text(&path, about::FID)?.parse() == Ok(fid) {
                match std::fs::remove_file(&path) {
                    Ok(()) => removed = true,
                    Err(error) if error.raw_os_error() == Some(Errno::ENOENT.0) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
}
