//! The counters of a mount: requests to servers, and requests of the kernel.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Attribute with the mount's counters; longest value that the kernel hands out.
const STATS_BYTES_MAX: usize = 64 << 10;
/// Lines that count something else than what the kernel asked for.
const NOT_KERNEL: [&str; 5] = ["requests", "awaited", "round_trips", "locks", "callbacks"];

/// Counters of one mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests to servers.
    pub requests: u64,
    /// Those of them that a program waited for.
    pub awaited: u64,
    /// How often a program waited for servers: requests that it waits for at the same time count
    /// once.
    pub round_trips: u64,
    /// Requests that the kernel sent to the daemon.
    pub kernel: u64,
}

impl Counts {
    /// Of the mount that has this file. `None`: it counts nothing (it is no SheenFS).
    pub fn of(path: &Path) -> Option<Counts> {
        let mut value = vec![0u8; STATS_BYTES_MAX];
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        let length =
            rustix::fs::getxattr(path.as_c_str(), types::about::STATS, &mut value[..]).ok()?;
        Counts::parse(std::str::from_utf8(&value[..length]).ok()?)
    }

    fn parse(text: &str) -> Option<Counts> {
        let lines = text.lines().filter_map(|line| {
            let (count, name) = line.split_once(' ')?;
            Some((name, count.parse::<u64>().ok()?))
        });
        let lines: Vec<(&str, u64)> = lines.collect();
        let count = |wanted: &str| Some(lines.iter().find(|(name, _)| *name == wanted)?.1);
        let kernel = lines
            .iter()
            .filter(|(name, _)| !NOT_KERNEL.contains(name))
            .map(|(_, count)| count)
            .sum();
        let (requests, awaited, round_trips) =
            (count("requests")?, count("awaited")?, count("round_trips")?);
        Some(Counts { requests, awaited, round_trips, kernel })
    }

    /// Of all these mounts together; `None`: there is none, or one counts nothing.
    pub fn of_all<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Option<Counts> {
        let all = paths.into_iter().map(Counts::of).collect::<Option<Vec<Counts>>>()?;
        let add = |a: Counts, b: Counts| Counts {
            requests: a.requests + b.requests,
            awaited: a.awaited + b.awaited,
            round_trips: a.round_trips + b.round_trips,
            kernel: a.kernel + b.kernel,
        };
        all.into_iter().reduce(add)
    }

    /// Requests that no program waited for.
    pub fn background(&self) -> u64 {
        self.requests.saturating_sub(self.awaited)
    }

    /// The counts since an earlier moment.
    pub fn since(self, earlier: Counts) -> Counts {
        Counts {
            requests: self.requests.saturating_sub(earlier.requests),
            awaited: self.awaited.saturating_sub(earlier.awaited),
            round_trips: self.round_trips.saturating_sub(earlier.round_trips),
            kernel: self.kernel.saturating_sub(earlier.kernel),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_up() {
        let text =
            "12 requests\n9 awaited\n8 round_trips\n3 locks\n1 callbacks\n5 lookup\n7 getattr\n";
        let counts = Counts::parse(text).unwrap();
        assert_eq!(counts, Counts { requests: 12, awaited: 9, round_trips: 8, kernel: 12 });
        assert_eq!(counts.background(), 3);
        let before = Counts { requests: 2, awaited: 1, round_trips: 1, kernel: 11 };
        assert_eq!(
            counts.since(before),
            Counts { requests: 10, awaited: 8, round_trips: 7, kernel: 1 }
        );
        assert_eq!(Counts::parse("5 lookup\n"), None);
        assert_eq!(Counts::parse(""), None);
    }

    #[test]
    fn others_count_nothing() {
        assert_eq!(Counts::of(Path::new("/proc")), None);
    }
}
