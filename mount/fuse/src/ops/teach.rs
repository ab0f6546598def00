//! Teaching the kernel that it need not report opens.
//!
//! The kernel learns from the first OPEN and FLUSH that are answered ENOSYS, and never
//! sends another. Until then, files that it creates would be released with a message each. So right
//! after mounting, one file is opened and closed. It exists only for this lesson, under a name that
//! no program can know.

use crate::reply::{Entry, Reply, Stat};
use std::path::Path;
use std::time::Duration;
use types::attr::Attr;
use types::errno::Errno;
use types::fid::Fid;
use types::time::Timestamp;

/// Node of the file of the lesson. Others count up from 1.
pub(super) const NODE: u64 = u64::MAX - 1;

/// The file of the lesson.
#[derive(Debug)]
pub(super) struct Lesson {
    name: String,
}

impl Default for Lesson {
    fn default() -> Lesson {
        Lesson { name: NAME.to_owned() }
    }
}

/// Longer than programs' names are, and of no use to them: the file is empty and cannot be written.
const NAME: &str = ".sheen-the-kernel-learns-that-opening-needs-no-message";

impl Lesson {
    /// True if this lookup in the root directory is for the lesson's file.
    pub(super) fn is(&self, parent: u64, name: &[u8]) -> bool {
        parent == 1 && name == self.name.as_bytes()
    }

    pub(super) fn entry(&self) -> Reply {
        let valid = Duration::ZERO;
        let attr = attributes();
        Reply::Entry(Entry {
            node: NODE,
            generation: 0,
            ino: NODE,
            attr: Some(attr),
            entry_valid: valid,
            attr_valid: valid,
        })
    }

    pub(super) fn stat(&self) -> Stat {
        Stat { attr: attributes(), ino: NODE, valid: Duration::ZERO }
    }
}

fn attributes() -> Attr {
    let time = Timestamp::default();
    Attr {
        fid: Fid::NONE,
        mode: libc::S_IFREG | 0o444,
        uid: 0,
        gid: 0,
        nlink: 1,
        rdev: 0,
        size: 0,
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
        version: 0,
    }
}

/// Opens and closes what teaches the kernel of the mount at `path`. Blocks; not to be called by a
/// thread that serves it.
///
/// # Errors
/// The kernel's.
#[allow(
    clippy::disallowed_methods,
    reason = "it asks the kernel about the new mount, and no simulation has one"
)]
pub fn teach(path: &Path) -> Result<(), Errno> {
    let errno = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::EIO));
    drop(std::fs::File::open(path.join(NAME)).map_err(errno)?);
    Ok(())
}
