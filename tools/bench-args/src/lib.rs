//! The definition of `sheen bench`: parsing, help, man pages and completion come from it.
//!
//! It stands apart from the program `sheen-bench` (crate `bench`), which does the work, so that
//! `sheen` knows the arguments without carrying the benchmarks.

mod mdts;

pub use mdts::{MdtsArgs, MdtsPlace};

use clap::{Args, Subcommand, ValueEnum};
use etcd::url::Members;
use node::config::mount_source::MountSource;
use node::config::networks::{Networks, Routes};
use node::config::units::{Size, Span};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use types::nid::Nid;

/// Largest file that an item writes and reads at one go, bytes.
pub const FILE_BYTES_MAX: usize = 64 << 20;

/// Measure a file system beside references of the same run
///
/// An item runs on PATH and on every --reference in turn, several times; the figure is the median,
/// with its spread, the CPU of the program and of each SheenFS daemon found, and what limited it.
/// PATH may be on any file system; several are mounts of the same one, and the work is spread over
/// them. What the benchmark makes lies in PATH/sheen-bench.PID and is removed in the end, also
/// after Ctrl-C. Cold caches, and the reference "null", need root.
#[derive(Debug, Args)]
pub struct Bench {
    /// What to measure
    #[command(subcommand)]
    pub item: Item,
}

/// Items.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "a doc comment would be the help text, which the arguments give")]
pub enum Item {
    /// Create, stat, read and remove files and directories
    Mdtest {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        args: MdtestArgs,
    },
    /// Sequential, random, shared and direct I/O; small reads over time
    Io {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        args: IoArgs,
    },
    /// List directories of many files: ls -U, ls -l, find, du; cold and warm
    Ls {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        args: LsArgs,
    },
    /// Search a tree of many files: find, lfs find, lfs getstripe -r; cold and warm
    Find {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        args: FindArgs,
    },
    /// Unpack a C source tree and build it: cold, again, one header changed, the link alone,
    /// several at once
    Build {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        args: BuildArgs,
    },
    /// Requests to servers per operation, against what the design allows
    Rtt {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        args: RttArgs,
    },
    /// Headers read and names missed again and again: requests when all is known
    Warm {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        args: WarmArgs,
    },
    /// What the mount gives while its metrics are read each second, against what it gives unwatched
    Watched {
        /// Folder to measure in; several are mounts of the same file system
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        args: WatchedArgs,
    },
    /// A cluster behind a long link: throughput as percent of raw TCP, and other items; makes its
    /// own hosts, needs root
    Wan {
        /// Folder for the targets
        #[arg(value_name = "DIR", default_value = "/tmp")]
        dir: PathBuf,
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        args: WanArgs,
    },
    /// How rates of metadata operations grow with the number of MDTs: servers and clients of its
    /// own, each MDT with a set time for a request
    Mdts {
        /// Folder for the targets
        #[arg(value_name = "DIR", default_value = "/tmp")]
        dir: PathBuf,
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        args: MdtsArgs,
    },
    /// LNet self-test: latency, rate and bandwidth between two NIDs, beside raw TCP
    Net {
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        args: NetArgs,
    },
    /// Put the JSON files of several runs onto one page, or print their tables
    Report {
        /// Files that --json wrote
        #[arg(value_name = "JSON", required = true)]
        files: Vec<PathBuf>,
        /// The page to write
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Resident memory of the daemons, before and with many files
    Memory {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        args: MemoryArgs,
    },
    /// The metadata engine without a mount, on targets made for it in DIR
    Engine {
        /// Folder for the targets
        #[arg(value_name = "DIR", default_value = "/tmp")]
        dir: PathBuf,
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        args: EngineArgs,
    },
    /// Back ends of an OST's data on loop devices in DIR: a volume, and files on ext4, XFS, Btrfs;
    /// needs root
    Backend {
        /// Folder for the disks
        #[arg(value_name = "DIR", default_value = "/tmp")]
        dir: PathBuf,
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        args: BackendArgs,
    },
    /// Serve an empty file system until it is unmounted (the reference "null")
    #[command(hide = true)]
    Null {
        /// Mount point
        at: PathBuf,
    },
    /// Work as a rank
    #[command(hide = true)]
    Rank {
        /// Folder to work in
        dir: PathBuf,
    },
}

/// How often, and where the figures go.
#[derive(Clone, Debug, Args)]
pub struct Output {
    /// Rounds; the figure is their median [default: 5; of watched: 60, of mdts: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub repeats: Option<u16>,
    /// Seed of everything random [default: a new one, which is told]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Also write all figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Also write a page with plots; it needs nothing from outside
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// What is measured, and beside what.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Folder to measure in; several are mounts of the same file system
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Folder of another file system (ext4, tmpfs) to compare with, or "null": an empty FUSE file
    /// system
    #[arg(long = "reference", value_name = "PATH")]
    pub references: Vec<String>,
    /// Also through the client's own interface, without FUSE (mdtest only): NID[,NID...]:/FSNAME
    #[arg(long, value_name = "SOURCE")]
    pub native: Option<MountSource>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment would be a help text")]
    pub output: Output,
}

/// Arguments of `mdtest`.
#[derive(Clone, Debug, Args)]
pub struct MdtestArgs {
    /// Files (and directories) of each rank
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least_one)]
    pub files: usize,
    /// Ranks, spread over the paths; each looks at what its neighbour made
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = ranks)]
    pub ranks: usize,
    /// Ranks are processes instead of threads
    #[arg(long)]
    pub processes: bool,
    /// Sizes of the files
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "0,3901,32768", value_parser = small_size)]
    pub sizes: Vec<Size>,
    /// Where the ranks work
    #[arg(long, value_enum, default_value_t = Layout::Both)]
    pub layout: Layout,
}

/// Directories of `mdtest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// One directory for each rank
    Unique,
    /// One directory for all
    Shared,
    /// Both, one after the other
    Both,
}

impl Layout {
    /// Shared or not, in the order of doing.
    pub fn layouts(self) -> &'static [bool] {
        match self {
            Layout::Unique => &[false],
            Layout::Shared => &[true],
            Layout::Both => &[false, true],
        }
    }
}

/// Arguments of `io`.
#[derive(Clone, Debug, Args)]
pub struct IoArgs {
    /// Data of each thread
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size_of_a_mebibyte)]
    pub size: Size,
    /// Threads, spread over the paths; with more than one they also share a file
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = ranks)]
    pub threads: usize,
    /// Records of sequential I/O
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "1M", value_parser = record)]
    pub records: Vec<Size>,
    /// Reads and writes of each thread at random places
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = at_least_one)]
    pub random: usize,
    /// Files that are read 4 KiB at a time, one after the other; 0: none
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub many_files: usize,
    /// Size of each of them
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = small_size)]
    pub many_size: Size,
}

/// Arguments of `ls`.
#[derive(Clone, Debug, Args)]
pub struct LsArgs {
    /// Files of each directory
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "10000", value_parser = at_least_one)]
    pub entries: Vec<usize>,
    /// Stripes of each file; 0: files without objects. Means nothing elsewhere
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "0,1", value_parser = stripes)]
    pub stripes: Vec<u32>,
}

/// Arguments of `find`.
#[derive(Clone, Debug, Args)]
pub struct FindArgs {
    /// Files of the tree
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = at_least_one)]
    pub files: usize,
    /// Files of each directory
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least_one)]
    pub per_directory: usize,
}

/// Arguments of `build`.
#[derive(Clone, Debug, Args)]
pub struct BuildArgs {
    /// C files of the tree that is made from the seed, and as many headers
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = at_least_one)]
    pub sources: usize,
    /// Build this instead: a directory, or an archive that tar unpacks
    #[arg(long, value_name = "TREE")]
    pub tree: Option<PathBuf>,
    /// What builds it, run by sh at its top; {jobs} is the number of --jobs
    #[arg(long, value_name = "LINE", default_value = "make -j{jobs}")]
    pub command: String,
    /// Jobs of each build [default: processors]
    #[arg(long, value_name = "N", value_parser = ranks)]
    pub jobs: Option<usize>,
    /// Builds at once in the last steps, spread over the paths; 1: no such steps
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = ranks)]
    pub copies: usize,
}

/// Arguments of `rtt`.
#[derive(Clone, Debug, Args)]
pub struct RttArgs {
    /// Files that each operation is done to
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = at_least_one)]
    pub files: usize,
}

/// Arguments of `warm`.
#[derive(Clone, Debug, Args)]
pub struct WarmArgs {
    /// Headers, and as many names that are not there
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = at_least_one)]
    pub files: usize,
}

/// Arguments of `watched`.
#[derive(Clone, Debug, Args)]
pub struct WatchedArgs {
    /// Time of one slice of work; each watched one stands beside one that is not
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = slice)]
    pub slice: Span,
    /// Threads that work, spread over the paths
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = ranks)]
    pub threads: usize,
}

/// Arguments of `wan`.
#[derive(Clone, Debug, Args)]
pub struct WanArgs {
    /// Round trips of the link
    #[arg(long, value_name = "TIME", value_delimiter = ',', default_value = "0ms,2.5ms,32.5ms,210ms", value_parser = delay)]
    pub delays: Vec<Span>,
    /// One more delay that the seed says: 5 to 250 ms
    #[arg(long)]
    pub drawn: bool,
    /// The program that makes links (wanlink); without it the kernel's netem is used
    #[arg(long, value_name = "PROGRAM", env = "SHEEN_WANLINK", hide_env_values = true)]
    pub wanlink: Option<PathBuf>,
    /// Rate of the link, as the program or tc(8) spells it; 0: as fast as it can
    #[arg(long, value_name = "RATE", default_value = "1gbit")]
    pub rate: String,
    /// Share of packets that are lost, as the program or tc(8) spells it: 0.01%
    #[arg(long, value_name = "SHARE")]
    pub loss: Option<String>,
    /// Largest buffer that the kernel gives a connection (tcp_rmem, tcp_wmem) on both hosts, for
    /// raw TCP as for the file system [default: as this machine has it]
    #[arg(long, value_name = "SIZE")]
    pub tcp_buffers: Option<Size>,
    /// What to measure
    #[arg(
        long,
        value_name = "ITEM",
        value_enum,
        value_delimiter = ',',
        default_value = "line,ls,mdtest"
    )]
    pub items: Vec<WanItem>,
    /// Object targets
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub osts: u16,
    /// Stripe counts of line
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,4", value_parser = stripes)]
    pub stripes: Vec<u32>,
    /// Data of line
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size_of_a_mebibyte)]
    pub size: Size,
    /// Files of ls and beside, and of each of two ranks of mdtest
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least_one)]
    pub files: usize,
    /// Files of reads, 1 MiB each
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = ranks)]
    pub read_files: usize,
}

/// What `wan` can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WanItem {
    /// Throughput as percent of raw TCP
    Line,
    /// Reads of 4 KiB: of many files as percent of reads of 1 MiB, and at random places
    Reads,
    /// The slowest stats of another client while this one lists
    Beside,
    /// Listings
    Ls,
    /// Metadata: files of 0 and 3,901 bytes, unique directories
    Mdtest,
    /// A build of 50 sources
    Build,
    /// Requests per operation
    Rtt,
}

impl WanArgs {
    /// The rate, if there is a limit.
    pub fn rate(&self) -> Option<&str> {
        Some(self.rate.as_str()).filter(|rate| *rate != "0")
    }

    /// Those of `mdtest` over the link.
    pub fn mdtest(&self) -> MdtestArgs {
        let sizes = vec![Size(0), Size(3901)];
        MdtestArgs {
            files: self.files.div_ceil(20),
            ranks: 2,
            processes: false,
            sizes,
            layout: Layout::Unique,
        }
    }

    /// Those of `ls` over the link.
    pub fn ls(&self) -> LsArgs {
        LsArgs { entries: vec![self.files], stripes: vec![1] }
    }

    /// Those of `build` over the link.
    pub fn build(&self) -> BuildArgs {
        BuildArgs {
            sources: 50,
            tree: None,
            command: "make -j{jobs}".to_owned(),
            jobs: None,
            copies: 1,
        }
    }

    /// Those of `rtt` over the link.
    pub fn rtt(&self) -> RttArgs {
        RttArgs { files: self.files.div_ceil(20) }
    }
}

/// Arguments of `net`.
#[derive(Clone, Debug, Args)]
pub struct NetArgs {
    /// The other end, where --serve runs [default: a process of this host]
    #[arg(value_name = "NID", conflicts_with = "serve")]
    pub nid: Option<Nid>,
    /// Be the other end, until Ctrl-C
    #[arg(long, value_name = "ADDR:PORT")]
    pub serve: Option<SocketAddr>,
    /// End when standard input does
    #[arg(long, hide = true, requires = "serve")]
    pub tied: bool,
    /// Take only sealed connections, by the key in this file
    #[arg(long, value_name = "FILE", hide = true, requires = "serve")]
    pub key: Option<PathBuf>,
    /// Take connections of processes of this host, too, at a socket in this folder
    #[arg(long, value_name = "DIR", hide = true, requires = "serve")]
    pub local: Option<PathBuf>,
    /// Networks of this host, as for `sheen serve`; with --serve, listen at the interfaces in
    /// brackets, at the port of ADDR:PORT
    #[arg(long, value_name = "NETWORKS", default_value = "")]
    pub networks: Networks,
    /// Ways to other networks, as for `sheen serve`
    #[arg(long, value_name = "ROUTES", default_value = "", conflicts_with = "serve")]
    pub routes: Routes,
    /// Small requests
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = at_least_one)]
    pub pings: usize,
    /// Data each way
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size_of_a_mebibyte)]
    pub size: Size,
}

/// Arguments of `memory`.
#[derive(Clone, Debug, Args)]
pub struct MemoryArgs {
    /// Files to make, 10,000 to a directory
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = at_least_one)]
    pub files: usize,
}

/// Arguments of `engine`.
#[derive(Clone, Debug, Args)]
pub struct EngineArgs {
    /// Operations of one round
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = at_least_one)]
    pub operations: usize,
    /// Instead: the MDT with its log in this etcd, beside one with its log in DIR and bare
    /// transactions; own: three etcd on loopback for this run. An etcd://HOST:PORT,... gets keys
    /// under /sheen/bench-..., which are removed in the end
    #[arg(long, value_name = "URL|own", value_parser = etcd_of_bench)]
    pub log: Option<EtcdOfBench>,
    /// With --log: fsyncs of one round
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = at_least_one)]
    pub fsyncs: usize,
}

/// The etcd of `engine --log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtcdOfBench {
    /// One that is there.
    Named(Box<Members>),
    /// One that is started for the run.
    Own,
}

fn etcd_of_bench(text: &str) -> Result<EtcdOfBench, String> {
    match text {
        "own" => Ok(EtcdOfBench::Own),
        _ => match text.parse::<Members>().map_err(|error| error.to_string())? {
            Members { name: Some(_), .. } => {
                Err("keys are under a name of the run; name the members alone".to_owned())
            }
            Members { blobs: Some(_), .. } => {
                Err("blobs of a run would be left; name the members alone".to_owned())
            }
            members => Ok(EtcdOfBench::Named(Box::new(members))),
        },
    }
}

/// Arguments of `backend`.
#[derive(Clone, Debug, Args)]
pub struct BackendArgs {
    /// Size of each disk
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = size_of_a_disk)]
    pub size: Size,
    /// Objects that are read in pieces of 4 KiB
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = ranks)]
    pub files: usize,
    /// Small writes, and new objects, of each round
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = at_least_one)]
    pub operations: usize,
    /// File systems under files
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "ext4,xfs,btrfs")]
    pub filesystems: Vec<String>,
}

/// Longest round trip of a link.
const DELAY_MAX: Duration = Duration::from_secs(10);
/// Longest slice, seconds.
const SLICE_SECONDS_MAX: u64 = 60;
/// Ranks and threads, at most.
const RANKS_MAX: usize = 1024;
/// A count, at most: names have so many digits.
const COUNT_MAX: usize = 100_000_000;

fn count(text: &str, max: usize) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=max).contains(&n) => Ok(n),
        _ => Err(format!("not a number from 1 to {max}")),
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    count(text, COUNT_MAX)
}

fn ranks(text: &str) -> Result<usize, String> {
    count(text, RANKS_MAX)
}

/// A round trip: milliseconds with a fraction, too.
fn delay(text: &str) -> Result<Span, String> {
    let span =
        match text.strip_suffix("ms").and_then(|ms| ms.parse::<f64>().ok()).filter(|ms| *ms >= 0.0)
        {
            Some(ms) => Span(Duration::try_from_secs_f64(ms / 1000.0).map_err(|e| e.to_string())?),
            None => text.parse().map_err(|e: node::config::units::BadSpan| e.to_string())?,
        };
    if span.0 <= DELAY_MAX { Ok(span) } else { Err(format!("longer than {DELAY_MAX:?}")) }
}

/// Of whole seconds, so that each has the same number of looks.
fn slice(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|e: node::config::units::BadSpan| e.to_string())?;
    let whole = span.0.subsec_nanos() == 0 && (1..=SLICE_SECONDS_MAX).contains(&span.0.as_secs());
    if whole { Ok(span) } else { Err(format!("not whole seconds from 1 to {SLICE_SECONDS_MAX}")) }
}

fn size_of_a_disk(text: &str) -> Result<Size, String> {
    size_between(text, 512 << 20, 1 << 44)
}

fn stripes(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(n) if n <= 2000 => Ok(n),
        _ => Err("not a number from 0 to 2000".to_owned()),
    }
}

fn size_between(text: &str, min: u64, max: u64) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|e: node::config::units::BadSize| e.to_string())?;
    if (min..=max).contains(&size.0) {
        Ok(size)
    } else {
        Err(format!("not between {} and {}", Size(min), Size(max)))
    }
}

/// A file that is written at one go.
fn small_size(text: &str) -> Result<Size, String> {
    size_between(text, 0, FILE_BYTES_MAX as u64)
}

/// Data that O_DIRECT can move in whole records.
fn size_of_a_mebibyte(text: &str) -> Result<Size, String> {
    let size = size_between(text, 1 << 20, 1 << 44)?;
    if size.0.is_multiple_of(1 << 20) { Ok(size) } else { Err("not a multiple of 1M".to_owned()) }
}

fn record(text: &str) -> Result<Size, String> {
    size_between(text, 512, 64 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{FromArgMatches, Parser};

    fn parsed(words: &[&str]) -> Result<Bench, clap::Error> {
        let command = Bench::augment_args(clap::Command::new("bench"));
        let matches = command.try_get_matches_from(std::iter::once(&"bench").chain(words))?;
        Bench::from_arg_matches(&matches)
    }

    #[derive(Parser)]
    struct Whole {
        #[command(flatten)]
        _bench: Bench,
    }

    #[test]
    fn the_definition_is_sound() {
        <Whole as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn paths_and_references_are_told_apart() {
        let bench = parsed(&[
            "mdtest",
            "/a",
            "/b",
            "--reference",
            "/c",
            "--reference",
            "null",
            "--repeats",
            "2",
        ])
        .unwrap();
        let Item::Mdtest { common, args } = bench.item else { panic!("another item") };
        assert_eq!(common.paths, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(common.references, ["/c", "null"]);
        assert_eq!((common.output.repeats, args.ranks, args.files), (Some(2), 2, 1000));
        assert_eq!(args.sizes.iter().map(|s| s.0).collect::<Vec<_>>(), [0, 3901, 32768]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in [
            &["mdtest"][..],
            &["mdtest", "/a", "--ranks", "0"],
            &["mdtest", "/a", "--repeats", "0"],
            &["mdtest", "/a", "--sizes", "1X"],
            &["mdtest", "/a", "--sizes", "1G"],
            &["mdtest", "/a", "--native", "nowhere"],
            &["io", "/a", "--size", "100"],
            &["io", "/a", "--size", "1500K"],
            &["io", "/a", "--records", "1"],
            &["watched", "/a", "--slice", "1500ms"],
            &["nothing", "/a"],
            &[],
        ] {
            assert!(parsed(bad).is_err(), "{bad:?}");
        }
    }
}
