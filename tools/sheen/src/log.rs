//! Destination and amount of log lines: `SHEEN_LOG` filters as in `SHEEN_LOG=info,rpc=debug`.

use node::watch::recent::RECENT;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, IsTerminal};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, reload};

/// A log file is put aside at the next start once it is longer than this, bytes.
const LOG_BYTES_MAX: u64 = 16 << 20;

/// Log lines go to standard error from now on, and the newest ones are kept in memory for
/// `lctl dk`.
pub fn start() {
    let (filter, bad) = filter(std::env::var("SHEEN_LOG").ok());
    let ansi = io::stderr().is_terminal();
    // A second call (tests) leaves the first in force.
    let (filter, reload) = reload::Layer::new(filter);
    let file = fmt::layer().with_writer(io::stderr).with_ansi(ansi);
    let recent = fmt::layer().with_writer(|| &RECENT).with_ansi(false);
    if tracing_subscriber::registry().with(filter).with(file).with(recent).try_init().is_ok() {
        observe::debug::follow(move |level| {
            let changed = reload.reload(Targets::new().with_default(level));
            changed.map_err(|_| types::errno::Errno::EIO)
        });
    }
    if let Some(error) = bad {
        tracing::warn!("SHEEN_LOG is not used: {error}; write it as in info,rpc=debug");
    }
}

/// What `SHEEN_LOG` says is logged, info if it is not set, and why it is not used.
fn filter(text: Option<String>) -> (Targets, Option<ParseError>) {
    // That crate logs each request that it sends again. The log of a target tells what came of it.
    let info = Targets::new()
        .with_default(LevelFilter::INFO)
        .with_target("object_store", LevelFilter::WARN);
    match text.filter(|text| !text.is_empty()).map(|text| text.parse()) {
        None => (info, None),
        Some(Ok(filter)) => (filter, None),
        Some(Err(error)) => (info, Some(error)),
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
    fn a_filter_that_cannot_be_read_is_named_and_info_is_logged() {
        let shows = |text: Option<&str>, target: &str, level| {
            filter(text.map(str::to_owned)).0.would_enable(target, level)
        };
        assert!(shows(None, "mds", &tracing::Level::INFO));
        assert!(!shows(None, "mds", &tracing::Level::DEBUG));
        assert!(shows(Some("info,rpc=debug"), "rpc::import", &tracing::Level::DEBUG));
        assert!(!shows(Some("info,rpc=debug"), "mds", &tracing::Level::DEBUG));
        assert!(filter(Some("mds=loud".to_owned())).1.is_some());
        assert!(shows(Some("mds=loud"), "mds", &tracing::Level::INFO));
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
