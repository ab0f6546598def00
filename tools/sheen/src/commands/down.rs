//! `sheen down`: unmount, then stop, then wait until nothing is left.
//!
//! A process is ended only after it proved to be the node of this home: it answers on the control
//! socket (the kernel names its id), or it holds the home's lock and runs this program. A handle to
//! the process (pidfd) keeps a reused id from being hit.

use crate::busy;
use crate::cli::DownArgs;
use crate::commands::status::{existing_home, unusable};
use crate::terminal::outcome::{Exit, Failure, Outcome};
use crate::terminal::output;
use crate::terminal::progress::Progress;
use node::config::settings::Settings;
use node::home::Home;
use node::host::mount_point;
use node::host::mount_table;
use node::manage::control::{self, Answer, ControlError, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Stops the node of a home.
pub fn run(args: &DownArgs) -> Outcome {
    let home = existing_home(&args.dir)?;
    let Some((process, mounts)) = running(&home)? else {
        for at in settings_mounts(&home) {
            clear_stale(&at)?;
        }
        remove_stale_socket(&home)?;
        output::talk(&format!("{} is not up; nothing to do", home.dir().display()));
        return Ok(Exit::Done);
    };
    let progress = Progress::start("unmounting");
    for at in &mounts {
        detach(&home, at, args.force)?;
    }
    progress.step("stopping: what is not on disk yet is written");
    match pidfd_send_signal(&process, Signal::TERM) {
        // It ended by itself in between.
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(e) => {
            return Err(Failure::Failed(format!(
                "cannot stop the node in {}: {e}",
                home.dir().display()
            )));
        }
    }
    if !ended(&process, args.timeout.0)? {
        return Err(Failure::Failed(format!(
            "the node in {} has not ended after {:?}; see {}, or wait longer with --timeout",
            home.dir().display(),
            args.timeout.0,
            home.log_path().display()
        )));
    }
    drop(progress);
    remove_stale_socket(&home)?;
    output::talk(&format!("{} is down", home.dir().display()));
    Ok(Exit::Done)
}

/// The process of the node and what it mounts; `None` if none runs.
fn running(home: &Home) -> Result<Option<(OwnedFd, Vec<PathBuf>)>, Failure> {
    match control::ask(home, &Request::Settings) {
        Ok((Answer::Settings { settings }, pid)) => {
            let mounts = settings.mounts.into_iter().map(|m| m.at).collect();
            Ok(handle(pid)?.map(|process| (process, mounts)))
        }
        Ok((other, _)) => {
            Err(Failure::Failed(format!("the node answers something else: {other:?}")))
        }
        Err(ControlError::NotUp(_)) if !home.is_taken().map_err(|e| unusable(home, &e))? => {
            Ok(None)
        }
        Err(e) => {
            // It lives but does not answer: starting, stuck, or of another version.
            let Some(process) =
                home.pid().filter(|pid| is_our_program(*pid)).map(handle).transpose()?.flatten()
            else {
                return Err(Failure::Failed(format!(
                    "{e}; the process that holds {} is unknown",
                    home.dir().display()
                )));
            };
            Ok(Some((process, settings_mounts(home))))
        }
    }
}

/// Removes the socket of a killed process; a process that has been started since keeps its own.
fn remove_stale_socket(home: &Home) -> Result<(), Failure> {
    if !home.run_dir().join(Home::CONTROL_NAME).exists() {
        return Ok(());
    }
    let taken = home.take().map_err(|e| unusable(home, &e))?;
    match &taken {
        Some(_) => control::remove(home).map_err(|e| unusable(home, &e)),
        None => Ok(()),
    }
}

/// Mount points in the settings file, if it can be read.
fn settings_mounts(home: &Home) -> Vec<PathBuf> {
    Settings::read(home).map(|s| s.mounts.into_iter().map(|m| m.at).collect()).unwrap_or_default()
}

fn handle(pid: i32) -> Result<Option<OwnedFd>, Failure> {
    let pid =
        Pid::from_raw(pid).ok_or_else(|| Failure::Failed(format!("{pid} is no process id")))?;
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => Ok(Some(process)),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(e) => Err(Failure::Failed(format!("cannot get hold of process {pid}: {e}"))),
    }
}

fn is_our_program(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sheen")
}

/// Unmounts what this node mounted; a busy mount is left alone unless forced.
fn detach(home: &Home, at: &Path, force: bool) -> Result<(), Failure> {
    let at = mount_table::resolve_parent(at).unwrap_or_else(|_| at.to_owned());
    let ours = mount_table::mounted_at(&at)
        .map_err(Failure::failed)?
        .is_some_and(|m| m.fs_type.contains("sheen"));
    if !ours {
        return Ok(());
    }
    match unmount(&at, if force { UnmountFlags::DETACH } else { UnmountFlags::empty() }) {
        // EINVAL: another process unmounted it meanwhile.
        Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
        Err(rustix::io::Errno::BUSY) => Err(Failure::Failed(format!(
            "{} is in use: {}. End that first, or detach it under the programs' feet: sheen down {} --force",
            at.display(),
            busy::sentence(&busy::users(&at)),
            home.dir().display()
        ))),
        Err(rustix::io::Errno::PERM) => {
            Err(Failure::Failed(format!("only root may unmount {}: use sudo", at.display())))
        }
        Err(e) => Err(Failure::Failed(format!("cannot unmount {}: {e}", at.display()))),
    }
}

/// Clears the mount of a process that was killed.
fn clear_stale(at: &Path) -> Result<(), Failure> {
    if mount_point::clear_dead(at).map_err(Failure::failed)? {
        output::talk(&format!("cleared the dead mount at {}", at.display()));
    }
    Ok(())
}

/// Waits until the process ends; `false` if it has not in time.
fn ended(process: &OwnedFd, timeout: Duration) -> Result<bool, Failure> {
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    loop {
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout)) {
            Ok(count) => return Ok(count > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Failure::Failed(format!("cannot wait for the node: {e}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ends_is_noticed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = handle(child.id() as i32).unwrap().expect("lives");
        assert!(!ended(&process, Duration::from_millis(10)).unwrap());
        pidfd_send_signal(&process, Signal::TERM).unwrap();
        assert!(ended(&process, Duration::from_secs(10)).unwrap());
        child.wait().unwrap();
        assert!(handle(child.id() as i32).unwrap().is_none());
    }
}
