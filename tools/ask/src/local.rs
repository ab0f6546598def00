//! The daemons of this host: where `lctl` finds them all.
//!
//! A registry folder has an entry for each daemon, named by its process id. The folder is
//! `/run/sheen`; `$SHEEN_RUN_DIR` names another, and `$XDG_RUNTIME_DIR/sheen` is that of ordinary
//! users. An entry is a link to the daemon's home. For a bare mount it is a home of its own that
//! holds nothing but the control socket. The next daemon that starts removes entries of dead
//! processes. Until then callers skip them, because their sockets do not answer.

use crate::home::Home;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// Variable that names another registry.
pub const RUN_DIR_VARIABLE: &str = "SHEEN_RUN_DIR";
/// Registry of the system's daemons.
const SYSTEM_DIR: &str = "/run/sheen";
/// Daemons of one host that are looked at.
pub const DAEMONS_MAX: usize = 4096;

/// Folders that may have entries, the one for new entries of this user first.
fn registries() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os(RUN_DIR_VARIABLE) {
        return vec![named.into()];
    }
    let system = PathBuf::from(SYSTEM_DIR);
    if rustix::process::geteuid().is_root() {
        return vec![system];
    }
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("sheen"));
    own.into_iter().chain([system]).collect()
}

/// Folder of the sockets by which daemons of this user talk to each other (docs/networks.md,
/// "Processes of one host").
pub fn socket_dir() -> PathBuf {
    registries()[0].join("local")
}

/// Entry of this process, removed when dropped.
#[derive(Debug)]
pub struct Enrolled {
    entry: PathBuf,
    /// The entry is the daemon's own folder, not a link to a home.
    own: bool,
}

impl Enrolled {
    /// The home in which the control socket shall be.
    pub fn home(&self) -> Home {
        Home::new(&self.entry)
    }
}

impl Drop for Enrolled {
    fn drop(&mut self) {
        // There is none if its socket could not be made.
        let _ = fs::remove_file(self.entry.with_extension(crate::socket::PUBLIC));
        if let Err(error) = remove(&self.entry, self.own) {
            tracing::warn!(%error, entry = %self.entry.display(), "cannot take the entry of this process away");
        }
    }
}

fn remove(entry: &Path, folder: bool) -> io::Result<()> {
    if folder { fs::remove_dir_all(entry) } else { fs::remove_file(entry) }
}

/// Enters this process: with its home, or with a folder made for its control socket.
///
/// # Errors
/// The registry cannot be written.
pub fn enrol(home: Option<&Home>) -> io::Result<Enrolled> {
    enrol_at(&registries()[0], home)
}

fn enrol_at(registry: &Path, home: Option<&Home>) -> io::Result<Enrolled> {
    DirBuilder::new().recursive(true).mode(0o755).create(registry)?;
    clear_dead(registry)?;
    let entry = registry.join(std::process::id().to_string());
    match home {
        Some(home) => {
            match fs::remove_file(&entry) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            symlink(home.dir(), &entry)?;
            Ok(Enrolled { entry, own: false })
        }
        None => {
            DirBuilder::new().recursive(true).mode(0o700).create(&entry)?;
            Home::new(&entry).create_run_dir()?;
            Ok(Enrolled { entry, own: true })
        }
    }
}

/// Removes entries of dead processes.
fn clear_dead(registry: &Path) -> io::Result<()> {
    for entry in fs::read_dir(registry)?.take(DAEMONS_MAX) {
        let entry = entry?;
        let name = entry.file_name();
        let pid = name.to_str().map(|name| name.strip_suffix(".public").unwrap_or(name));
        let pid = pid.and_then(|pid| pid.parse::<i32>().ok());
        let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) else { continue };
        let gone = rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH);
        if gone || pid.as_raw_nonzero().get() as u32 == std::process::id() {
            match remove(&entry.path(), entry.file_type()?.is_dir()) {
                // Another daemon that starts removes the same.
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Homes of all daemons that may run here, in the order of their process ids.
pub fn daemons() -> Vec<Home> {
    let mut found = Vec::new();
    for registry in registries() {
        // Without a registry there is no daemon.
        let Ok(entries) = fs::read_dir(&registry) else { continue };
        for entry in entries.flatten().take(DAEMONS_MAX) {
            if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
            {
                found.push((pid, Home::new(entry.path())));
            }
        }
    }
    found.sort_by_key(|(pid, _)| *pid);
    found.into_iter().map(|(_, home)| home).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let registry = dir.path().join("run");
        let home = Home::new(dir.path().join("home"));
        fs::create_dir(home.dir()).unwrap();
        let names = || {
            fs::read_dir(&registry).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap())
        };
        let me = std::process::id().to_string();

        let entered = enrol_at(&registry, Some(&home)).unwrap();
        assert_eq!(fs::read_link(registry.join(&me)).unwrap(), home.dir());
        drop(entered);
        assert_eq!(names().count(), 0);

        // No process has the greatest possible id, and an entry that is no number is not touched.
        fs::create_dir(registry.join("4194304")).unwrap();
        fs::create_dir(registry.join("other")).unwrap();
        let bare = enrol_at(&registry, None).unwrap();
        assert!(bare.home().run_dir().is_dir());
        let mut left: Vec<String> = names().collect();
        left.sort();
        assert_eq!(left, [me.as_str(), "other"]);
        drop(bare);
        assert_eq!(names().collect::<Vec<_>>(), ["other"]);
    }
}
