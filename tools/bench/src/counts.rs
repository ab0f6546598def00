//! What a mount counts: requests to servers, and requests of the kernel.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Attribute with the mount's counters; longest value that the kernel hands out.
const STATS_BYTES_MAX: usize = 64 << 10;
/// Lines that count something else than what the kernel asked for.
const NOT_KERNEL: [&str; 3] = ["requests", "locks", "callbacks"];

/// Counters of one mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests to servers.
    pub requests: u64,
    /// Requests that the kernel sent to the daemon.
    pub kernel: u64,
}

impl Counts {
    /// Of the mount that has this file. `None`: it counts nothing (it is no SheenFS).
    pub fn of(path: &Path) -> Option<Counts> {
        let mut value = vec![0u8; STATS_BYTES_MAX];
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        let length = rustix::fs::getxattr(path.as_c_str(), types::about::STATS, &mut value[..]).ok()?;
        Counts::parse(std::str::from_utf8(&value[..length]).ok()?)
    }

    fn parse(text: &str) -> Option<Counts> {
        let lines = text.lines().filter_map(|line| {
            let (count, name) = line.split_once(' ')?;
            Some((name, count.parse::<u64>().ok()?))
        });
        let lines: Vec<(&str, u64)> = lines.collect();
        let requests = lines.iter().find(|(name, _)| *name == "requests")?.1;
        let kernel = lines.iter().filter(|(name, _)| !NOT_KERNEL.contains(name)).map(|(_, count)| count).sum();
        Some(Counts { requests, kernel })
    }

    /// Of all these mounts together; `None`: there is none, or one counts nothing.
    pub fn of_all<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Option<Counts> {
        let all = paths.into_iter().map(Counts::of).collect::<Option<Vec<Counts>>>()?;
        let add = |a: Counts, b: Counts| Counts { requests: a.requests + b.requests, kernel: a.kernel + b.kernel };
        all.into_iter().reduce(add)
    }

    /// What came since an earlier moment.
    pub fn since(self, earlier: Counts) -> Counts {
        Counts {
            requests: self.requests.saturating_sub(earlier.requests),
            kernel: self.kernel.saturating_sub(earlier.kernel),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_up() {
        let counts = Counts::parse("12 requests\n3 locks\n1 callbacks\n5 lookup\n7 getattr\n").unwrap();
        assert_eq!(counts, Counts { requests: 12, kernel: 12 });
        assert_eq!(counts.since(Counts { requests: 2, kernel: 11 }), Counts { requests: 10, kernel: 1 });
        assert_eq!(Counts::parse("5 lookup\n"), None);
        assert_eq!(Counts::parse(""), None);
    }

    #[test]
    fn others_count_nothing() {
        assert_eq!(Counts::of(Path::new("/proc")), None);
    }
}
