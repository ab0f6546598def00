//! Destination and amount of log lines: `SHEEN_LOG` filters as in `SHEEN_LOG=info,rpc=debug`.

use node::watch::recent::RECENT;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, IsTerminal};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt, reload};

/// A log file is put aside at the next start once it is longer than this, bytes.
const LOG_BYTES_MAX: u64 = 16 << 20;

/// Log lines go to standard error from now on, and the newest ones are kept in memory for
/// `lctl dk`.
pub fn start() {
    let filter = EnvFilter::try_from_env("SHEEN_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let ansi = io::stderr().is_terminal();
    // A second call (tests) leaves the first in force.
    let (filter, reload) = reload::Layer::new(filter);
    let file = fmt::layer().with_writer(io::stderr).with_ansi(ansi);
    let recent = fmt::layer().with_writer(|| &RECENT).with_ansi(false);
    if tracing_subscriber::registry().with(filter).with(file).with(recent).try_init().is_ok() {
        observe::debug::follow(move |level| {
            let changed = reload.reload(EnvFilter::new(level.to_string()));
            changed.map_err(|_| types::errno::Errno::EIO)
        });
    }
}

/// Mode of a log file: it names files, hosts and users.
const MODE: u32 = 0o640;

/// Opens a log file for appending, mode 0640; one that has become too long is renamed to `*.1`
/// first.
///
/// # Errors
/// The file or its directory cannot be made.
pub fn open(path: &Path) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    if fs::metadata(path).is_ok_and(|m| m.len() > LOG_BYTES_MAX) {
        fs::rename(path, path.with_extension("log.1"))?;
    }
    let file = OpenOptions::new().create(true).append(true).mode(MODE).open(path)?;
    // Also one of an earlier build, which left it open to all.
    if file.metadata()?.permissions().mode() & 0o777 & !MODE != 0 {
        file.set_permissions(Permissions::from_mode(MODE))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn others_cannot_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.log");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        open(&path).unwrap();
        assert_eq!(mode() & !MODE, 0, "{:o}", mode());
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        open(&path).unwrap();
        assert_eq!(mode(), MODE);
    }

    #[test]
    fn a_long_log_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log").join("node.log");
        open(&path).unwrap().write_all(b"one\n").unwrap();
        open(&path).unwrap().write_all(b"two\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\n");
        File::create(&path).unwrap().set_len(LOG_BYTES_MAX + 1).unwrap();
        open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
        assert_eq!(fs::metadata(path.with_extension("log.1")).unwrap().len(), LOG_BYTES_MAX + 1);
    }
}
