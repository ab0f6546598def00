//! `lfs` and `lctl` as a script calls them: what they print, and how they fail.

use crate::cluster::Cluster;
use crate::process::text;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// `lfs` in a folder.
pub fn try_lfs(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(crate::sheen());
    command.arg0("lfs").args(args).current_dir(dir).stdin(Stdio::null());
    command.output().expect("lfs runs")
}

/// Output of `lfs`; it must succeed and print nothing else.
pub fn lfs(dir: &Path, args: &[&str]) -> String {
    let output = try_lfs(dir, args);
    assert!(output.status.success() && output.stderr.is_empty(), "lfs {args:?}: {}", text(&output));
    String::from_utf8(output.stdout).expect("text")
}

/// What `lfs pool_list` prints of a pool; empty as long as the mount has not heard of it.
pub fn pool_list(dir: &Path, pool: &str) -> String {
    let output = try_lfs(dir, &["pool_list", pool]);
    String::from_utf8(output.stdout).expect("text")
}

/// `lfs` fails with this status and sentence.
pub fn lfs_refuses(dir: &Path, args: &[&str], status: i32, said: &str) {
    let output = try_lfs(dir, args);
    assert_eq!(output.status.code(), Some(status), "lfs {args:?}: {}", text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stderr), said, "lfs {args:?}");
}

/// Standard output of `lctl`; it must succeed.
pub fn lctl(cluster: &Cluster, args: &[&str]) -> String {
    let output = cluster.lctl(args);
    assert!(output.status.success(), "lctl {args:?}: {}", text(&output));
    String::from_utf8(output.stdout).expect("text")
}

/// A parameter, without its name; empty as long as no daemon of this host has it.
pub fn parameter(cluster: &Cluster, name: &str) -> String {
    let output = cluster.lctl(&["get_param", "-n", name]);
    String::from_utf8(output.stdout).expect("text")
}

/// Standard error of `lctl`; it must succeed and print nothing.
pub fn lctl_says(cluster: &Cluster, args: &[&str]) -> String {
    let output = cluster.lctl(args);
    assert!(
        output.status.success() && output.stdout.is_empty(),
        "lctl {args:?}: {}",
        text(&output)
    );
    String::from_utf8(output.stderr).expect("text")
}

/// `lctl` fails with this status and sentence.
pub fn lctl_refuses(cluster: &Cluster, args: &[&str], status: i32, said: &str) {
    let output = cluster.lctl(args);
    assert_eq!(output.status.code(), Some(status), "lctl {args:?}: {}", text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stderr), said, "lctl {args:?}");
}

/// Asks until it is so, for 10 seconds at most: what the MGS tells everybody arrives in its own
/// time.
pub fn soon<T: PartialEq + std::fmt::Debug>(expected: &T, ask: impl Fn() -> T) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let found = ask();
        if found == *expected {
            return;
        }
        assert!(Instant::now() < deadline, "still {found:?}, expected {expected:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
