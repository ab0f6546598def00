//! The users of a mount: processes with a working directory, root, program or open file there.
//!
//! Only link texts under `/proc` are read; nothing on the mount is touched.

use node::host::mount_table::is_below;
use std::fmt;
use std::fs;
use std::path::Path;

/// Users that are named; more are only counted as "others".
pub const USERS_NAMED_MAX: usize = 5;

/// One process that uses a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Process id.
    pub pid: u32,
    /// Name of the process.
    pub name: String,
    /// How it uses the mount: "works in", "has open", "runs".
    pub how: &'static str,
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {}) {}", self.name, self.pid, self.how)
    }
}

/// Processes that use the mount at `at`, in order of their ids; this one does not count.
pub fn users(at: &Path) -> Vec<User> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let others = pids.filter(|pid| *pid != std::process::id());
    let mut users: Vec<User> = others.filter_map(|pid| user(pid, at)).collect();
    users.sort_by_key(|u| u.pid);
    users
}

fn user(pid: u32, at: &Path) -> Option<User> {
    let dir = Path::new("/proc").join(pid.to_string());
    let points = |link: &Path| fs::read_link(link).is_ok_and(|to| is_below(to.as_os_str(), at));
    let open =
        || fs::read_dir(dir.join("fd")).is_ok_and(|fds| fds.flatten().any(|fd| points(&fd.path())));
    let how = if points(&dir.join("cwd")) {
        "works in a directory there"
    } else if points(&dir.join("root")) {
        "has its root there"
    } else if points(&dir.join("exe")) {
        "runs a program from there"
    } else if open() {
        "has a file open there"
    } else {
        return None;
    };
    let name = fs::read_to_string(dir.join("comm")).unwrap_or_default().trim().to_owned();
    Some(User { pid, name, how })
}

/// The users as part of a sentence.
pub fn sentence(users: &[User]) -> String {
    if users.is_empty() {
        return "a process that cannot be seen from here uses it".to_owned();
    }
    let mut words: Vec<String> = users.iter().take(USERS_NAMED_MAX).map(User::to_string).collect();
    if users.len() > USERS_NAMED_MAX {
        words.push(format!("and {} others", users.len() - USERS_NAMED_MAX));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_makes_a_user() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().canonicalize().unwrap();
        let file = fs::File::create(at.join("f")).unwrap();
        assert_eq!(users(&at), [], "we ourselves do not count");
        let mut child = std::process::Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
        let found = users(&at);
        child.kill().unwrap();
        child.wait().unwrap();
        let expected = User { pid: child.id(), name: "sleep".into(), how: "has a file open there" };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn sentences_are_short() {
        let user = |pid| User { pid, name: "sh".into(), how: "runs a program from there" };
        assert_eq!(sentence(&[user(7)]), "sh (process 7) runs a program from there");
        let many: Vec<_> = (0..9).map(user).collect();
        assert!(sentence(&many).ends_with(", and 4 others"));
        assert!(sentence(&[]).contains("cannot be seen"));
    }
}
