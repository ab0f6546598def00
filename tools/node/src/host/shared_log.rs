//! The shared log of a target: its place stands in the file `log` of the target's folder.

use crate::error::NodeError;
use etcd::url::Members;
use std::io;
use std::path::{Path, PathBuf};
use target::format::LOG;

/// Longest file, bytes.
const FILE_BYTES_MAX: u64 = 4096;

/// The etcd that has the log of the target in `dir`; `None`: it has a log of its own.
///
/// # Errors
/// The file cannot be read, or names no etcd.
pub fn members_of(dir: &Path) -> Result<Option<Members>, NodeError> {
    let path = dir.join(LOG);
    let fail = |reason: String| NodeError::LogFile { path: path.clone(), reason };
    let text = match std::fs::metadata(&path) {
        Ok(found) if found.len() > FILE_BYTES_MAX => {
            return Err(fail(format!("it is longer than {FILE_BYTES_MAX} bytes")));
        }
        Ok(_) => std::fs::read_to_string(&path).map_err(|error| fail(error.to_string()))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error.to_string())),
    };
    text.trim().parse().map(Some).map_err(|error: etcd::url::BadMembers| fail(error.to_string()))
}

/// Name of the copy of a tree in this folder: several may be on one host.
pub fn replica_of(dir: &Path) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let dir: PathBuf = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    format!("{host}:{}", dir.display())
}
