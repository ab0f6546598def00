//! Files that only their owner may read.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Longest of them, bytes, unless its reader says more.
const BYTES_MAX: u64 = 4 << 20;

/// Makes a folder that only its owner may look into, unless it is there.
///
/// # Errors
/// The system's reason.
pub fn make_dir(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    fs::set_permissions(dir, Permissions::from_mode(0o700))
}

/// Reads one.
///
/// # Errors
/// Others may read it too, it is longer than such a file can be, or the system's reason.
pub fn read(path: &Path) -> io::Result<String> {
    read_within(path, BYTES_MAX)
}

/// Reads one that may have so many bytes.
///
/// # Errors
/// As [`read`].
pub fn read_within(path: &Path, bytes_max: u64) -> io::Result<String> {
    let file = File::open(path)?;
    let mode = file.metadata()?.mode() & 0o777;
    if mode & 0o077 != 0 {
        let what = format!(
            "others than its owner may use it (mode {mode:03o}); chmod 600 {}",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    let mut text = String::new();
    if file.take(bytes_max + 1).read_to_string(&mut text)? as u64 > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too long"));
    }
    Ok(text)
}

/// Writes one: a crash leaves the old one or the new one.
///
/// # Errors
/// The system's reason.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("new");
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_may_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pem");
        for text in ["one", "two"] {
            write(&path, text).unwrap();
            assert_eq!(read(&path).unwrap(), text);
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        }
        for mode in [0o640, 0o604, 0o660] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(read(&path).unwrap_err().to_string().contains("chmod 600"));
        }
    }
}
