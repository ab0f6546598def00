//! The harness of the end-to-end tests: a SheenFS of real processes, used through its real
//! commands.
//!
//! A test makes a [`cluster::Cluster`] in a folder of its own, works on its mount with ordinary
//! programs, and drops it. Dropping stops every process and clears the mount even when the test
//! failed. Tests that need root and `/dev/fuse` say so and are skipped without them (see
//! [`can_mount`]); nothing else is skipped silently.

pub mod browser;
pub mod c;
pub mod caches;
pub mod callers;
pub mod cluster;
pub mod far;
pub mod hosts;
pub mod http;
pub mod kills;
pub mod load;
pub mod lustre;
pub mod many;
pub mod overheard;
pub mod process;
pub mod programs;
pub mod restripe;
pub mod site;
pub mod stalls;
pub mod stranger;
pub mod tap;
pub mod terminal;
pub mod waits;

use std::path::{Path, PathBuf};

/// True if this process may mount. Prints why not.
pub fn can_mount() -> bool {
    // SAFETY: geteuid has no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    let fuse = Path::new("/dev/fuse").exists();
    if !root || !fuse {
        eprintln!("skipped: needs root ({root}) and /dev/fuse ({fuse})");
    }
    root && fuse
}

/// True with `E2E_LONG=1`: tests that keep the machine busy for minutes do all they can.
pub fn long() -> bool {
    std::env::var_os("E2E_LONG").is_some_and(|long| long == "1")
}

/// How much of something a test makes: `usual`, or `most` if it is [`long`].
pub fn sized<T>(usual: T, most: T) -> T {
    if long() { most } else { usual }
}

/// The number in an environment variable that makes a test larger, or `usual` without it.
pub fn number_of<T: std::str::FromStr>(variable: &str, usual: T) -> T {
    let number = |text: String| {
        let read = text.parse().ok();
        read.unwrap_or_else(|| panic!("{variable}={text}: a number is wanted"))
    };
    std::env::var(variable).map_or(usual, number)
}

/// The `sheen` binary under test: `$SHEEN`, or the one that was built beside this test.
pub fn sheen() -> PathBuf {
    if let Some(path) = std::env::var_os("SHEEN") {
        return PathBuf::from(path);
    }
    let test = std::env::current_exe().expect("path of this test");
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let path = profile.join("sheen");
    assert!(
        path.exists(),
        "{} is not built: run `cargo build -p sheen`, or set SHEEN",
        path.display()
    );
    path
}

/// Path of a program on the PATH (or in `target/tools/bin`, where `./run e2e` installs test
/// suites).
pub fn find_program(name: &str) -> Option<PathBuf> {
    let mut dirs: Vec<PathBuf> =
        std::env::var_os("PATH").map(|p| std::env::split_paths(&p).collect()).unwrap_or_default();
    dirs.extend(std::env::var_os("SHEEN_TOOLS").map(PathBuf::from));
    dirs.into_iter().map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// As [`find_program`]; without it, prints which test is skipped.
pub fn need_program(name: &str) -> Option<PathBuf> {
    let found = find_program(name);
    if found.is_none() {
        eprintln!("skipped: {name} is not installed (`./run e2e` installs it)");
    }
    found
}
