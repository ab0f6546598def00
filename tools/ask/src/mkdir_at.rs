//! Making a directory on MDTs of choice, by ioctl(2) on the directory that gets its name.

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Opcode, Setter, ioctl};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use types::dir_stripes::DirSpec;
use types::errno::Errno;
use types::mkdir_at::{BYTES, MKDIR_AT, MkdirAt};
use types::name::Name;

/// Makes `path`; the umask of the process applies, as with mkdir(2).
///
/// # Errors
/// Those of mkdir(2); ERANGE: there is no such MDT; E2BIG: more stripes than MDTs; EOPNOTSUPP: the
/// directory is on no mount of this file system, or on one that does not know the question.
pub fn mkdir_at(path: &Path, mode: u32, spec: DirSpec) -> io::Result<()> {
    let (parent, name) = place(path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(parent, flags, Mode::empty())?;
    let question = MkdirAt { spec, mode: mode & 0o7777, umask: umask()?, name }.encode();
    // SAFETY: the number of the command says that it reads so many bytes, which is what goes in.
    let made = unsafe { ioctl(&dir, Setter::<{ MKDIR_AT as Opcode }, [u8; BYTES]>::new(question)) };
    Ok(made.map_err(|errno| match errno {
        rustix::io::Errno::NOTTY | rustix::io::Errno::NOSYS => rustix::io::Errno::OPNOTSUPP,
        errno => errno,
    })?)
}

/// The directory that gets the name, and the name.
fn place(path: &Path) -> io::Result<(&Path, Name)> {
    let exists = || io::Error::from_raw_os_error(Errno::EEXIST.0);
    // `.`, `..` and `/`.
    let name = path.file_name().ok_or_else(exists)?;
    let parent =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = Name::new(name.as_bytes()).map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
    Ok((parent, name))
}

/// The umask of this process. umask(2) would change it for a moment, for all threads.
fn umask() -> io::Result<u32> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let value = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let umask = value.and_then(|value| u32::from_str_radix(value.trim(), 8).ok());
    umask.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no umask in /proc/self/status"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_directory_and_a_name() {
        let name = |bytes: &[u8]| Name::new(bytes).unwrap();
        assert_eq!(place(Path::new("d")).unwrap(), (Path::new("."), name(b"d")));
        assert_eq!(place(Path::new("/a/b/")).unwrap(), (Path::new("/a"), name(b"b")));
        for there in ["/", "..", "a/.."] {
            assert_eq!(
                place(Path::new(there)).unwrap_err().raw_os_error(),
                Some(Errno::EEXIST.0),
                "{there}"
            );
        }
        let long = "x".repeat(256);
        assert_eq!(
            place(Path::new(&long)).unwrap_err().raw_os_error(),
            Some(Errno::ENAMETOOLONG.0)
        );
    }

    #[test]
    fn the_umask_is_read_and_not_changed() {
        let before = umask().unwrap();
        assert!(before <= 0o777);
        assert_eq!(umask().unwrap(), before);
    }

    #[test]
    fn another_file_system_does_not_know_the_question() {
        let dir = tempfile::tempdir().unwrap();
        let made = mkdir_at(&dir.path().join("d"), 0o755, DirSpec::default());
        assert_eq!(made.unwrap_err().raw_os_error(), Some(Errno::EOPNOTSUPP.0));
    }
}
