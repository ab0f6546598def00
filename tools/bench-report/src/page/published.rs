//! Figures that others published about Lustre, read from the files of `data/`. Only ratios and
//! percent of line are used: the hardware was another.

use crate::error::PageError;
use serde::Deserialize;
use serde::de::DeserializeOwned;

const WAN_IO: &str = include_str!("../../data/wan_io.csv");
const WAN_READAHEAD: &str = include_str!("../../data/wan_readahead.csv");
const WAN_LS: &str = include_str!("../../data/wan_ls.csv");
const BUILD: &str = include_str!("../../data/build.csv");

/// Reads of 4 KiB one by one over many files on ZFS targets: share of the rate of the same test on
/// ldiskfs.
pub const MANY_FILES_SHARE: (f64, f64) = (0.20, 0.55);

/// Number of MDTs from which on a rate of Lustre 2.14.51 does not grow any more (mdtest, 24 clients
/// with 7 ranks each, 1 to 38 MDTs). `None`: it still grows there.
pub fn flat_after(operation: &str) -> Option<u16> {
    match operation {
        "create" | "stat" => Some(4),
        "remove" | "rmdir" => Some(16),
        _ => None,
    }
}

/// A row of `wan_io.csv`.
#[derive(Clone, Debug, Deserialize)]
pub struct WanIo {
    /// Round trip, milliseconds.
    pub rtt_ms: f64,
    /// `write` or `read`.
    pub op: String,
    /// Stripes of the file.
    pub stripe_count: u32,
    /// Of the line rate.
    pub percent_of_line: f64,
}

/// A row of `wan_readahead.csv`.
#[derive(Clone, Debug, Deserialize)]
pub struct WanReadahead {
    /// Round trip, milliseconds.
    pub rtt_ms: f64,
    /// Setting of the client, MB.
    pub read_ahead_mb: u32,
    /// Of the line rate.
    pub percent_of_line: f64,
}

/// A row of `wan_ls.csv`.
#[derive(Clone, Debug, Deserialize)]
pub struct WanLs {
    /// `ls -l` or `ls -U`.
    pub command: String,
    /// Version.
    pub system: String,
    /// Files of the directory.
    pub files: u64,
    /// Round trip, milliseconds.
    pub rtt_ms: f64,
    /// Time that it took.
    pub seconds: f64,
}

/// A row of `build.csv`.
#[derive(Clone, Debug, Deserialize)]
pub struct PublishedBuild {
    /// The file system that served it.
    pub system: String,
    /// Builds at once.
    pub builds_at_once: u32,
    /// Seconds of each.
    pub seconds_per_build: f64,
}

fn rows<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, PageError> {
    csv::Reader::from_reader(text.as_bytes())
        .deserialize()
        .collect::<Result<_, _>>()
        .map_err(PageError::Published)
}

/// Throughput over long links.
///
/// # Errors
/// The file in this program is damaged; so for the others.
pub fn wan_io() -> Result<Vec<WanIo>, PageError> {
    rows(WAN_IO)
}

/// The best that any read-ahead gave at this delay, percent of line.
///
/// # Errors
/// As [`wan_io`].
pub fn best_with_readahead(rtt_ms: f64) -> Result<Option<f64>, PageError> {
    let rows: Vec<WanReadahead> = rows(WAN_READAHEAD)?;
    let at: Vec<&WanReadahead> =
        rows.iter().filter(|r| r.rtt_ms == rtt_ms && r.read_ahead_mb > 40).collect();
    Ok(at.iter().map(|r| r.percent_of_line).reduce(f64::max))
}

/// Listings over long links.
///
/// # Errors
/// As [`wan_io`].
pub fn wan_ls() -> Result<Vec<WanLs>, PageError> {
    rows(WAN_LS)
}

/// How many times longer each of many builds took than one alone: (system, builds at once, times).
///
/// # Errors
/// As [`wan_io`].
pub fn builds() -> Result<Vec<(String, u32, f64)>, PageError> {
    let rows: Vec<PublishedBuild> = rows(BUILD)?;
    let alone = |system: &str| {
        rows.iter()
            .find(|r| r.system == system && r.builds_at_once == 1)
            .map(|r| r.seconds_per_build)
    };
    let many = rows.iter().filter(|r| r.builds_at_once > 1);
    Ok(many
        .filter_map(|r| {
            Some((r.system.clone(), r.builds_at_once, r.seconds_per_build / alone(&r.system)?))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_whole() {
        let io = wan_io().unwrap();
        assert!(io.len() > 200 && io.iter().all(|r| (0.0..=100.0).contains(&r.percent_of_line)));
        for rtt in [2.5, 32.5, 210.0] {
            assert!(io.iter().any(|r| r.rtt_ms == rtt && r.op == "read"), "{rtt}");
        }
        assert_eq!(best_with_readahead(32.5).unwrap(), Some(85.9));
        assert_eq!(best_with_readahead(1.0).unwrap(), None);
        assert!(wan_ls().unwrap().iter().any(|r| r.command == "ls -U" && r.rtt_ms == 0.0));
        let builds = builds().unwrap();
        assert_eq!(builds.len(), 2);
        assert!(
            builds.iter().all(|(_, at_once, times)| *at_once == 20 && *times > 2.0),
            "{builds:?}"
        );
    }
}
