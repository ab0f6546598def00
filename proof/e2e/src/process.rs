//! Processes and mounts, from outside.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// SIGKILL, and wait until the process is gone.
pub fn kill_and_wait(pid: i32) {
    // SAFETY: kill has no memory effects; the pid is one this test started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_gone(pid) {
        assert!(Instant::now() < deadline, "process {pid} survives SIGKILL");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to a process that this test started and that lives.
pub fn signal(pid: i32, signal: i32) {
    // SAFETY: kill has no memory effects; the pid is one this test started.
    let result = unsafe { libc::kill(pid, signal) };
    assert_eq!(result, 0, "signal {signal} to {pid}: {}", std::io::Error::last_os_error());
}

/// True if the process is gone (or a zombie whose parent has not waited yet).
pub fn is_gone(pid: i32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Err(_) => true,
        // The first thread may be a zombie while others still hold files and locks.
        Ok(stat) => {
            let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
            threads <= 1
                && stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
        }
    }
}

/// True if something is mounted exactly there.
pub fn is_mounted(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    mounts.lines().any(|line| line.split(' ').nth(4) == path.to_str())
}

/// Lazy unmount.
pub fn detach(path: &Path) {
    unmount(&["-l"], path);
}

/// Lazy unmount of a client that is being killed. Every request that waits for the client ends: a
/// thread of the client may be in the kernel, where it waits for a directory that a program holds
/// while that program waits for the client.
pub fn detach_dying(path: &Path) {
    unmount(&["-f", "-l"], path);
}

fn unmount(options: &[&str], path: &Path) {
    let status = Command::new("umount").args(options).arg(path).status();
    if !status.is_ok_and(|s| s.success()) {
        eprintln!("umount {} {} failed", options.join(" "), path.display());
    }
}

/// `sheen fsck` found nothing wrong. `when`: for messages, what the file system was doing.
#[track_caller]
pub fn is_clean(checked: &Output, when: &str) {
    assert!(checked.status.success(), "{when}: {}", text(checked));
    println!("fsck: {}", String::from_utf8_lossy(&checked.stdout).trim_end().replace('\n', "; "));
}

/// stdout and stderr of a finished command.
pub fn text(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
