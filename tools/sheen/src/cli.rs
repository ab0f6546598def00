//! The one definition of all commands and flags: parsing, `--help`, man pages and completion come
//! from it.

pub mod auth;

use auth::AuthArgs;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use etcd::url::Members;
use node::config::http_settings::HttpListen;
use node::config::mount_options::MountOptions;
use node::config::mount_source::MountSource;
use node::config::networks::{Networks, Routes};
use node::config::security::Security;
use node::config::settings::Listen;
use node::config::units::{Size, Span};
use std::path::PathBuf;
use types::nid::Nid;
use types::target::FsName;

/// Home of a node unless one is named.
pub const HOME_DEFAULT: &str = ".sheen";

/// SheenFS: a parallel file system in user space
#[derive(Debug, Parser)]
#[command(
    name = "sheen",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
#[command(after_help = "Exit codes: 0 done, 1 no or not found, 2 failed, 64 wrong usage.")]
pub struct Cli {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// Sub-commands of `sheen`; the documentation of each stands above its arguments.
#[derive(Debug, Subcommand)]
pub enum Command {
    Up(UpArgs),
    Down(DownArgs),
    Status(StatusArgs),
    Dash(DashArgs),
    Top(TopArgs),
    Why(WhyArgs),
    Serve(ServeArgs),
    Router(RouterArgs),
    #[command(visible_alias = "mkfs.sheen")]
    Mkfs(MkfsArgs),
    #[command(visible_alias = "mount.sheen")]
    Mount(MountArgs),
    Fsck(fsck::cli::Fsck),
    Scrub(fsck::scrub::Scrub),
    Auth(AuthArgs),
    Lctl(lctl::cli::Lctl),
    Lfs(lfs::cli::Lfs),
    Lnetctl(lnetctl::cli::Lnetctl),
    Lshowmount(lnetctl::cli::Lshowmount),
    Bench(bench_args::Bench),
    Completion(CompletionArgs),
    Man(ManArgs),
    #[command(hide = true)]
    MountDaemon(MountDaemonArgs),
    /// The process behind an owner of targets on shared logs; started by it
    #[command(hide = true)]
    EndLeases,
}

/// Make a file system if there is none, serve all of it, and mount it
///
/// One background process plays every role: MGS, MDS, OSS and client. What is missing under DIR is
/// made first; what is there is used again, with the settings of last time (DIR/node.toml) unless
/// flags say otherwise. The mount point is printed when programs can use it. Needs root, as every
/// mount does.
#[derive(Debug, Args, Default)]
pub struct UpArgs {
    /// Home of the node: targets, settings, log [default: .sheen]
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Where to mount [default: DIR/mnt]
    #[arg(long, value_name = "M")]
    pub mount: Option<PathBuf>,
    /// Number of metadata targets [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub mdts: Option<u16>,
    /// Number of object targets [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub osts: Option<u16>,
    /// Name of the file system, 1 to 8 letters, digits, '_' or '-' [default: sheen]
    #[arg(long, value_name = "NAME")]
    pub fsname: Option<FsName>,
    /// Where to accept other hosts and processes, or none; port 0 takes any free one [default:
    /// 127.0.0.1:988]
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<Listen>,
    /// Where to show metrics (and with the MGS the page of the cluster), or none; port 0 takes any
    /// free one [default: auto, which is 127.0.0.1:9988 or, if that is taken, any free port]
    #[arg(long, value_name = "ADDR:PORT")]
    pub http: Option<HttpListen>,
    /// File with the token that readers of --http must know; needed where other hosts can reach it
    #[arg(long, value_name = "FILE")]
    pub http_token_file: Option<PathBuf>,
    /// Whether connections must show keys: on, off, or auto (on if there is a key of the cluster,
    /// see `sheen auth`) [default: auto]
    #[arg(long, value_name = "WHETHER")]
    pub security: Option<Security>,
    /// File with the key of this process [default: beside the authority where the MGT is, else in
    /// /etc/sheen/keys]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Stripes of a new file [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub stripe_count: Option<u32>,
    /// First bytes of a new file that live on its MDT: 0 (none) to 1M, a multiple of 64K
    /// [default: 64K]
    #[arg(long, value_name = "SIZE")]
    pub dom_size: Option<Size>,
    /// Space that each object target may use, for example 10G [default: all of its volume]
    #[arg(long, value_name = "SIZE")]
    pub ost_size: Option<Size>,
    /// Stay in the foreground and log to standard error; Ctrl-C stops
    #[arg(long)]
    pub foreground: bool,
}

/// Unmount and stop what `sheen up` or `sheen serve` started
///
/// All data is on disk when it returns. Asking for a node that does not run is no error.
#[derive(Debug, Args)]
pub struct DownArgs {
    /// Home of the node
    #[arg(value_name = "DIR", default_value = HOME_DEFAULT)]
    pub dir: PathBuf,
    /// Detach the mount even if programs still use it; they get errors
    #[arg(long)]
    pub force: bool,
    /// How long to wait for the process to end
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub timeout: Span,
}

/// Show targets, space, mounts and clients of a running node
///
/// Exit code 1 says that no node runs there.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Home of the node
    #[arg(value_name = "DIR", default_value = HOME_DEFAULT)]
    pub dir: PathBuf,
    /// Print JSON; its keys are stable
    #[arg(long)]
    pub json: bool,
}

/// Print the address of the page that shows the cluster
///
/// The process of the MGS serves it: state, space, rates and the last hour of every target and
/// client, and what waits for what. Read-only; at loopback unless `up` or `serve` were told
/// otherwise with --http. The address holds the token that other users than root and the owner of
/// the node need.
#[derive(Debug, Args)]
pub struct DashArgs {
    /// Home of the node that has the MGS
    #[arg(value_name = "DIR", default_value = HOME_DEFAULT)]
    pub dir: PathBuf,
}

/// Show rates of targets and clients, the slowest operations, and what waits
///
/// Asks the daemons of this host, and through them the MGS, so that the whole cluster is shown. q
/// ends.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Homes to ask [default: all daemons of this host]
    #[arg(value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Only daemons of this cluster: name of a file system, or NID of its MGS. Needed if this host
    /// has several clusters
    #[arg(long, value_name = "FSNAME|NID", conflicts_with = "dirs")]
    pub cluster: Option<String>,
    /// Pause between two looks
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub interval: Span,
    /// Print it once, after the seconds that rates need, and end
    #[arg(long)]
    pub once: bool,
    /// As --once, as JSON
    #[arg(long)]
    pub json: bool,
}

/// Say what a process, or every user of a path, waits for
///
/// For each operation older than a second: the program, the request, the target that works on it,
/// and the holder of the lock that it waits for. Exit code 1 says that nothing waits.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// Process id, or path within a mount [default: everything that waits]
    #[arg(value_name = "PID|PATH")]
    pub what: Option<PathBuf>,
    /// Only daemons of this cluster: name of a file system, or NID of its MGS [default: all of this
    /// host]
    #[arg(long, value_name = "FSNAME|NID")]
    pub cluster: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Serve targets in the foreground
///
/// The roles follow from what the directories hold: MGT, MDTs, OSTs, any set of them. Logs go to
/// standard error; SIGTERM or Ctrl-C stops in order. A home that `sheen up` made is served with its
/// own settings, mounts included.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Targets made by mkfs.sheen, or one home made by `sheen up`
    #[arg(value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,
    /// NIDs of the MGS, unless one of the targets is the MGT [default: those given to mkfs.sheen]
    #[arg(long, value_name = "NID", value_delimiter = ',')]
    pub mgsnode: Vec<Nid>,
    /// NIDs of all hosts that may serve these targets [default: those given to mkfs.sheen]
    ///
    /// Clients look for a target at all of them, beginning where it is served now.
    #[arg(long, value_name = "NID", value_delimiter = ',')]
    pub servicenode: Vec<Nid>,
    /// Where to accept connections, or none; port 0 takes any free one [default: 127.0.0.1:988]
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<Listen>,
    /// Networks, with the interfaces or addresses where to accept connections on them, at the port
    /// of --listen: tcp0(eth0),tcp1(eth1) [default: tcp]
    #[arg(long, value_name = "NETS")]
    pub networks: Option<Networks>,
    /// Ways to other networks: "tcp1 10.0.0.9@tcp; o2ib 10.0.0.9@tcp"
    #[arg(long, value_name = "ROUTES")]
    pub routes: Option<Routes>,
    /// Whether processes of this host connect within it, and not over TCP [default: true]
    #[arg(long, value_name = "BOOL")]
    pub local: Option<bool>,
    /// Where to show metrics (and with the MGS the page of the cluster), or none; port 0 takes any
    /// free one [default: auto, which is 127.0.0.1:9988 or, if that is taken, any free port]
    #[arg(long, value_name = "ADDR:PORT")]
    pub http: Option<HttpListen>,
    /// File with the token that readers of --http must know; needed where other hosts can reach it
    #[arg(long, value_name = "FILE")]
    pub http_token_file: Option<PathBuf>,
    /// Whether connections must show keys: on, off, or auto (on if there is a key of the cluster,
    /// see `sheen auth`) [default: auto]
    #[arg(long, value_name = "WHETHER")]
    pub security: Option<Security>,
    /// File with the key of this process [default: beside the authority where the MGT is, else in
    /// /etc/sheen/keys]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Stripes of a new file [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub stripe_count: Option<u32>,
    /// First bytes of a new file that live on its MDT: 0 (none) to 1M, a multiple of 64K
    /// [default: 64K]
    #[arg(long, value_name = "SIZE")]
    pub dom_size: Option<Size>,
    /// Space that each object target may use, for example 10G [default: all of its volume]
    ///
    /// It is kept in node.toml (of each OST, or of the home) for later starts.
    #[arg(long, value_name = "SIZE")]
    pub ost_size: Option<Size>,
    /// Tell the starter on standard output, one JSON line per step, how the start goes
    #[arg(long, hide = true)]
    pub announce: bool,
}

/// Forward between networks, in the foreground
///
/// A node that is not on a server's network reaches it through this host, which is on both. Only
/// the servers of the file systems named here are reached. What passes is not read; where keys are
/// asked for, it is sealed from end to end. Logs go to standard error; SIGTERM or Ctrl-C stops.
#[derive(Debug, Args)]
pub struct RouterArgs {
    /// Networks, with the interfaces or addresses where to accept connections on them:
    /// tcp0(eth0),tcp1(eth1)
    #[arg(long, value_name = "NETS")]
    pub networks: Networks,
    /// NIDs of the MGS
    #[arg(long, value_name = "NID", value_delimiter = ',', required = true)]
    pub mgsnode: Vec<Nid>,
    /// File systems whose servers may be reached
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "sheen")]
    pub fsname: Vec<FsName>,
    /// Ways to further networks: "tcp2 10.0.0.9@tcp1; o2ib 10.0.0.8@tcp"
    #[arg(long, value_name = "ROUTES")]
    pub routes: Option<Routes>,
    /// Port at which connections are accepted
    #[arg(long, value_name = "PORT", default_value_t = types::nid::PORT_DEFAULT)]
    pub port: u16,
    /// Whether connections must show keys: on, off, or auto (on if there is a key of the cluster,
    /// see `sheen auth`) [default: auto]
    #[arg(long, value_name = "WHETHER")]
    pub security: Option<Security>,
    /// File with the key of this process [default: in /etc/sheen/keys]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
}

/// Make one target
///
/// The directory is made if need be and must be empty. A target has one role; a server may serve
/// many targets.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("role").required(true))]
pub struct MkfsArgs {
    /// Make the management target, one for a cluster
    #[arg(long, group = "role")]
    pub mgs: bool,
    /// Make a metadata target
    #[arg(long, group = "role")]
    pub mdt: bool,
    /// Make an object target
    #[arg(long, group = "role")]
    pub ost: bool,
    /// File system it belongs to, 1 to 8 letters, digits, '_' or '-'
    #[arg(long, value_name = "F", default_value = "sheen")]
    pub fsname: FsName,
    /// Number among the targets of its kind, from 0
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..4096), conflicts_with = "mgs")]
    pub index: Option<u16>,
    /// NIDs of the MGS; `sheen serve --mgsnode` can name others later
    #[arg(long, value_name = "NID", value_delimiter = ',', conflicts_with = "mgs")]
    pub mgsnode: Vec<Nid>,
    /// NIDs of all hosts that may serve it, this one too; `sheen serve --servicenode` can name
    /// others later
    #[arg(long, value_name = "NID", value_delimiter = ',')]
    pub servicenode: Vec<Nid>,
    /// The etcd that keeps its log, etcd://HOST:PORT,HOST:PORT,HOST:PORT: any host with the same
    /// command can take the MGS, or the MDT with this --index, over. Behind it may stand
    /// ,s3://BUCKET/PREFIX?endpoint=URL&key-file=FILE for large entries and checkpoints
    /// [default: the log is in DIR]
    #[arg(long, value_name = "URL", conflicts_with = "ost")]
    pub log: Option<Members>,
    /// Where the data of an OST is: files, one in DIR for each object; volume, a device or big file
    /// with checksums and without a file system
    #[arg(long, value_name = "TYPE", default_value = "files", conflicts_with_all = ["mgs", "mdt"])]
    pub backfstype: BackFsType,
    /// With --backfstype=volume: the block device, or the file
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["mgs", "mdt"])]
    pub device: Option<PathBuf>,
    /// Bytes of the device that are used; a file that is not there is made with it, as 2T
    #[arg(long, value_name = "SIZE", requires = "device")]
    pub device_size: Option<Size>,
    /// Destroy what is on the device now
    #[arg(long, requires = "device")]
    pub reformat: bool,
    /// Destroy the target that is there now
    #[arg(long)]
    pub replace: bool,
    /// Directory of the target
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// Where the data of an OST is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum BackFsType {
    /// A file for each object
    Files,
    /// One device, or one big file
    Volume,
}

/// Mount a file system
///
/// Usable from fstab: "10.0.0.1@tcp:/sheen /mnt/sheen sheen _netdev 0 0", if mount.sheen is found
/// in /sbin. The process behind the mount ends when the mount is unmounted with umount(8).
#[derive(Debug, Args)]
pub struct MountArgs {
    /// NIDs of the MGS and the file system, or a directory of it: NID[,NID...]:/FSNAME[/DIR...]
    #[arg(value_name = "SOURCE")]
    pub source: MountSource,
    /// Where to mount
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Options: ro, rw, nosuid, nodev, noexec, relatime, noatime, strictatime, nodiratime, hard,
    /// soft, nochecksum, log=FILE, http=ADDRESS:PORT, http_token_file=FILE, key=FILE,
    /// network=NET
    ///
    /// With hard, the default, programs wait for a server that is away until it is back or a signal
    /// kills them. With soft they get ETIMEDOUT after 100 s.
    #[arg(short = 'o', long = "options", value_name = "OPTIONS", action = ArgAction::Append)]
    pub options: Vec<String>,
    /// Stay in the foreground and log to standard error
    #[arg(long)]
    pub foreground: bool,
    /// Do everything but mount: check the arguments
    #[arg(short = 'f', long = "fake")]
    pub fake: bool,
    /// Say what is done
    #[arg(short = 'v', long = "verbose")]
    pub verbose: bool,
    /// Tolerate unknown options
    #[arg(short = 's', long = "sloppy")]
    pub sloppy: bool,
    /// Write no /etc/mtab (none is ever written)
    #[arg(short = 'n', long = "no-mtab")]
    pub no_mtab: bool,
    /// File system type, as mount(8) passes it
    #[arg(short = 't', long = "types", value_name = "TYPE", value_parser = ["sheen", "fuse.sheen", "lustre"], hide = true)]
    pub fs_type: Option<String>,
}

/// The process behind `mount`; started by it
#[derive(Debug, Args)]
pub struct MountDaemonArgs {
    /// What
    pub source: MountSource,
    /// Where
    pub dir: PathBuf,
    /// How
    #[arg(short = 'o', default_value = "rw")]
    pub options: MountOptions,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// Which shell
    #[arg(value_name = "SHELL")]
    pub shell: ShellKind,
}

/// Shells that can complete our commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShellKind {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// Write the man pages
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Directory for the pages, for example /usr/local/share/man/man8
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}
