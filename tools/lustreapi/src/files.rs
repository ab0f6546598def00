//! Files that are made with a layout, and default layouts of directories.

use crate::abi::{STRIPE_PARAM_OSTS, StripeParam};
use crate::door::{Answer, EINVAL, EOPNOTSUPP, Failure, Place, Text, negative};
use crate::layout_value::{DEFAULT, Layout, OVERSTRIPING, Part, RAID0, WIDE};
use crate::sizes::limits;
use crate::whereabouts;
use ask::fit::{self, Unfit};
use ask::mounts::Mount;
use ask::xattr;
use layout::layout::PoolName;
use layout::lov_ea::{LOV_PATTERN_RAID0, LovEa, encode_spec};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use std::ffi::{c_int, c_ulonglong};
use std::fs;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use types::errno::Errno;
use types::limits::STRIPES_MAX;

/// Mode of a file if the caller has no say.
const MODE: u32 = 0o644;
/// Names that are tried for a file that shall have none.
const NAMES_TRIED: u32 = 16;

/// Opens a file, made with a layout if that is wished; sets the default layout of a directory.
///
/// # Errors
/// ENOTTY: not on a SheenFS; EEXIST: it has objects already; EINVAL, ENOENT: OSTs or pools that do
/// not exist; those of open(2) and mknod(2).
pub fn open(path: &Path, flags: c_int, mode: u32, wish: Option<&LovEa>) -> Answer<OwnedFd> {
    let mount = whereabouts::of_future_path(path)?;
    let wish = wish.filter(|wish| !wish.is_default());
    if let Some(wish) = wish {
        serves(&mount, wish)?;
    }
    let flags = OFlags::from_bits_retain(flags as u32);
    if fs::metadata(path).is_ok_and(|m| m.is_dir()) {
        return open_directory(path, flags, wish);
    }
    let made = flags.contains(OFlags::CREATE) && make(path, flags, mode)?;
    let opened = give(path, wish).and_then(|()| open_made(path, flags, made));
    if opened.is_err() && made {
        // The first failure counts.
        let _ = fs::remove_file(path);
    }
    opened
}

/// A file that was made but not opened to be written takes a layout; mknod(2) makes such a one.
/// `false`: there is one.
fn make(path: &Path, flags: OFlags, mode: u32) -> Answer<bool> {
    match mknodat(CWD, path, FileType::RegularFile, Mode::from_raw_mode(mode & 0o7777), 0) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::EXIST) if !flags.contains(OFlags::EXCL) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn give(path: &Path, wish: Option<&LovEa>) -> Answer<()> {
    let Some(wish) = wish else { return Ok(()) };
    // Through a symbolic link, as open(2) goes.
    Ok(xattr::set(&path.canonicalize()?, xattr::LOV, &encode_spec(wish))?)
}

fn open_made(path: &Path, flags: OFlags, made: bool) -> Answer<OwnedFd> {
    let flags = flags.difference(OFlags::CREATE | OFlags::EXCL);
    match rustix::fs::open(path, flags, Mode::empty()) {
        // The creator of a file may write to it at first, whatever its mode says.
        Err(rustix::io::Errno::ACCESS) if made => {
            let mode = fs::metadata(path)?.permissions();
            fs::set_permissions(path, fs::Permissions::from_mode(mode.mode() | 0o600))?;
            let opened = rustix::fs::open(path, flags, Mode::empty());
            fs::set_permissions(path, mode)?;
            Ok(opened?)
        }
        opened => Ok(opened?),
    }
}

fn open_directory(path: &Path, flags: OFlags, wish: Option<&LovEa>) -> Answer<OwnedFd> {
    if flags.contains(OFlags::CREATE | OFlags::EXCL) {
        return Err(Failure(Errno::EEXIST));
    }
    give(path, wish)?;
    let flags = (flags & OFlags::CLOEXEC) | OFlags::RDONLY | OFlags::DIRECTORY;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Checks that the requested OSTs and pools exist.
///
/// # Errors
/// ENOENT: a pool is not; EINVAL: it is empty, or an OST is not there.
pub fn serves(mount: &Mount, wish: &LovEa) -> Answer<()> {
    match fit::pools(mount, wish).or_else(|| fit::osts(mount, wish)) {
        None => Ok(()),
        Some(Unfit::NoPool(_)) => Err(Failure(Errno::ENOENT)),
        Some(Unfit::EmptyPool(_) | Unfit::NoOst(_)) => Err(EINVAL),
        Some(Unfit::Silent(_, error)) => Err(error.into()),
    }
}

/// A plain layout, as the older functions describe it.
struct Plain<'a> {
    size: c_ulonglong,
    offset: c_int,
    count: c_int,
    pattern: c_int,
    pool: Option<&'a [u8]>,
    osts: Vec<u32>,
}

impl Plain<'_> {
    fn wish(&self) -> Answer<LovEa> {
        limits(self.size, self.offset, self.count, self.pattern)?;
        let mut part = Part::new();
        part.pattern = match self.pattern as u32 {
            0 | LOV_PATTERN_RAID0 => RAID0,
            _ => OVERSTRIPING,
        };
        part.stripe_size = if self.size == 0 { DEFAULT } else { self.size };
        part.stripe_count = match self.count {
            -1 => WIDE,
            0 => DEFAULT,
            count => count as u64,
        };
        if let Some(pool) = self.pool.filter(|pool| !pool.is_empty()) {
            let word = std::str::from_utf8(pool).map_err(|_| EINVAL)?;
            let word = word.rsplit_once('.').map_or(word, |(_, pool)| pool);
            part.pool = PoolName::new(word).ok_or(EINVAL)?.0;
        }
        if self.offset >= 0 && self.osts.is_empty() {
            part.set_ost(0, self.offset as u64)?;
        }
        for (stripe, ost) in (0..).zip(&self.osts) {
            part.set_ost(stripe, (*ost).into())?;
        }
        Layout { parts: vec![part], ..Layout::default() }.wish()
    }
}

fn opened(name: Text, flags: c_int, mode: u32, plain: &Plain<'_>) -> Answer<OwnedFd> {
    open(name.path()?, flags, mode, Some(&plain.wish()?))
}

/// Makes a file, or sets the default layout of a directory.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_file_create(
    name: Text,
    stripe_size: c_ulonglong,
    stripe_offset: c_int,
    stripe_count: c_int,
    stripe_pattern: c_int,
) -> c_int {
    let (size, offset, count, pattern) = (stripe_size, stripe_offset, stripe_count, stripe_pattern);
    negative(|| {
        let plain = Plain { size, offset, count, pattern, pool: None, osts: Vec::new() };
        opened(name, libc::O_CREAT | libc::O_RDONLY, MODE, &plain).map(|_| 0)
    })
}

/// As [`llapi_file_create`], on OSTs of a pool.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_file_create_pool(
    name: Text,
    stripe_size: c_ulonglong,
    stripe_offset: c_int,
    stripe_count: c_int,
    stripe_pattern: c_int,
    pool_name: Text,
) -> c_int {
    let (size, offset, count, pattern) = (stripe_size, stripe_offset, stripe_count, stripe_pattern);
    negative(|| {
        let plain =
            Plain { size, offset, count, pattern, pool: pool_name.bytes(), osts: Vec::new() };
        opened(name, libc::O_CREAT | libc::O_RDONLY, MODE, &plain).map(|_| 0)
    })
}

/// Opens a file, made with this layout if O_CREAT says so.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_file_open(
    name: Text,
    flags: c_int,
    mode: c_int,
    stripe_size: c_ulonglong,
    stripe_offset: c_int,
    stripe_count: c_int,
    stripe_pattern: c_int,
) -> c_int {
    let (size, offset, count, pattern) = (stripe_size, stripe_offset, stripe_count, stripe_pattern);
    negative(|| {
        let plain = Plain { size, offset, count, pattern, pool: None, osts: Vec::new() };
        opened(name, flags, mode as u32, &plain).map(IntoRawFd::into_raw_fd)
    })
}

/// As [`llapi_file_open`], on OSTs of a pool.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_file_open_pool(
    name: Text,
    flags: c_int,
    mode: c_int,
    stripe_size: c_ulonglong,
    stripe_offset: c_int,
    stripe_count: c_int,
    stripe_pattern: c_int,
    pool_name: Text,
) -> c_int {
    let (size, offset, count, pattern) = (stripe_size, stripe_offset, stripe_count, stripe_pattern);
    negative(|| {
        let plain =
            Plain { size, offset, count, pattern, pool: pool_name.bytes(), osts: Vec::new() };
        opened(name, flags, mode as u32, &plain).map(IntoRawFd::into_raw_fd)
    })
}

/// As [`llapi_file_open_pool`], perhaps with the OST of each stripe.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_file_open_param(
    name: Text,
    flags: c_int,
    mode: libc::mode_t,
    param: Place<StripeParam>,
) -> c_int {
    negative(|| {
        let p = param.get()?;
        let mut osts = Vec::new();
        if p.is_specific != 0 {
            let count = usize::try_from(p.stripe_count)
                .ok()
                .filter(|n| (1..=STRIPES_MAX).contains(n))
                .ok_or(EINVAL)?;
            let named: Place<u32> = param.behind(STRIPE_PARAM_OSTS);
            osts = named.get_all(count)?;
        }
        let pool = Text::of(p.pool);
        let plain = Plain {
            size: p.stripe_size,
            offset: p.stripe_offset,
            count: p.stripe_count,
            pattern: p.stripe_pattern,
            pool: pool.bytes(),
            osts,
        };
        opened(name, flags, mode, &plain).map(IntoRawFd::into_raw_fd)
    })
}

/// The layout of a file, or default layout of a directory, as bytes.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_file_get_stripe(path: Text, lum: Place<u8>) -> c_int {
    negative(|| {
        let path = path.path()?;
        whereabouts::of_path(path)?;
        lum.put_all(&xattr::get(&path.canonicalize()?, xattr::LOV)?)?;
        Ok(0)
    })
}

/// An open file without a name.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_create_volatile_idx(
    directory: Text,
    mdt_idx: c_int,
    open_flags: c_int,
) -> c_int {
    negative(|| {
        let dir = directory.path()?;
        if !matches!(mdt_idx, -1 | 0) {
            return Err(EOPNOTSUPP);
        }
        whereabouts::of_path(dir)?;
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | (open_flags & !libc::O_ACCMODE);
        for attempt in 0..NAMES_TRIED {
            let name = unlikely_name(dir, attempt);
            match open(&name, flags, 0o600, None) {
                Err(Failure(Errno::EEXIST)) => {}
                opened => {
                    let file = opened?;
                    fs::remove_file(&name)?;
                    return Ok(file.into_raw_fd());
                }
            }
        }
        Err(Failure(Errno::EEXIST))
    })
}

fn unlikely_name(dir: &Path, attempt: u32) -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos());
    dir.join(format!(".volatile.{}.{now:x}.{attempt}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::testing::{null, null_text, place, text};

    fn plain(size: u64, offset: i32, count: i32, pattern: i32) -> Plain<'static> {
        Plain { size, offset, count, pattern, pool: None, osts: Vec::new() }
    }

    #[test]
    fn the_older_description_becomes_a_layout() {
        assert!(plain(0, -1, 0, 0).wish().unwrap().is_default());
        let wish = plain(1 << 20, 2, -1, 1).wish().unwrap();
        let c = &wish.layout.components[0];
        assert_eq!(
            (c.stripe_size, c.stripe_count, c.wanted.first().map(|o| o.0)),
            (1 << 20, u16::MAX, Some(2))
        );
        assert!(plain(0, -1, 4, 0x201).wish().unwrap().layout.components[0].overstriped);
        let wish = Plain { pool: Some(b"sheen.flash"), ..plain(0, -1, 2, 0) }.wish().unwrap();
        assert_eq!(wish.pools().len(), 1);
        let wish = Plain { osts: vec![3, 1], ..plain(0, -1, 2, 0) }.wish().unwrap();
        assert_eq!(wish.layout.components[0].wanted.len(), 2);
        for bad in
            [plain(1000, -1, 1, 0), plain(0, -2, 1, 0), plain(0, -1, -2, 0), plain(0, -1, 2001, 0)]
        {
            assert_eq!(bad.wish(), Err(EINVAL));
        }
        assert_eq!(plain(0, -1, 1, 0x400).wish(), Err(EOPNOTSUPP));
        assert_eq!(Plain { pool: Some(b"a/b"), ..plain(0, -1, 1, 0) }.wish(), Err(EINVAL));
        assert_eq!(
            Plain { osts: vec![3], ..plain(0, -1, 2, 0) }.wish().unwrap().layout.components[0]
                .wanted
                .len(),
            1
        );
    }

    #[test]
    fn nothing_is_made_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let path = std::ffi::CString::new(dir.path().join("f").to_str().unwrap()).unwrap();
        assert_eq!(llapi_file_create(text(&path), 0, -1, 1, 0), -libc::ENOTTY);
        assert_eq!(llapi_file_create(null_text(), 0, -1, 1, 0), -libc::EINVAL);
        assert_eq!(llapi_file_create_pool(text(&path), 0, -1, 1, 0, null_text()), -libc::ENOTTY);
        assert_eq!(llapi_file_open(text(&path), libc::O_CREAT, 0o644, 0, -1, 1, 0), -libc::ENOTTY);
        assert_eq!(llapi_file_open_param(text(&path), libc::O_CREAT, 0, null()), -libc::EINVAL);
        assert_eq!(llapi_create_volatile_idx(text(&path), 1, 0), -libc::EOPNOTSUPP);
        let mut room = 0;
        assert_eq!(llapi_file_get_stripe(text(c"/"), place(&mut room)), -libc::ENOTTY);
        assert!(!dir.path().join("f").exists());
    }
}
