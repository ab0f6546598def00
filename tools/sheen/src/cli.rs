//! The one definition of all commands and flags: parsing, `--help`, man pages and completion come
//! from it.

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use etcd::url::Members;
use node::config::http_settings::HttpListen;
use node::config::mount_options::MountOptions;
use node::config::mount_source::MountSource;
use node::config::networks::{Networks, Routes};
use node::config::security::Security;
use node::config::settings::Listen;
use node::config::units::{Size, Span};
use seal::sites::Mapping;
use std::path::PathBuf;
use types::nid::{Nid, NidPattern};
use types::principal::{KeyName, Role};
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

/// What a key can bear.
fn nid_of_key(text: &str) -> Result<NidPattern, String> {
    match text.parse() {
        Ok(nid @ (NidPattern::Net(_) | NidPattern::Address(..))) => Ok(nid),
        _ => Err("name an address, 10.1.0.7@tcp1, or a network, *@tcp1".to_owned()),
    }
}

/// Give a cluster keys, so that no host without one gets in and nothing travels in the clear
///
/// First `init` where the MGS is, then start it again. Every other host gets a key: `issue` where
/// the MGS is prints it, `install` on the host takes it, for example over ssh. Processes find the
/// key of their cluster by themselves.
#[derive(Debug, Args)]
pub struct AuthArgs {
    /// What to do
    #[command(subcommand)]
    pub command: AuthCommand,
}

/// Sub-commands of `sheen auth`.
#[derive(Debug, Subcommand)]
pub enum AuthCommand {
    Init(AuthInitArgs),
    Issue(AuthIssueArgs),
    Install(AuthInstallArgs),
    List(AuthListArgs),
    Revoke(AuthRevokeArgs),
    Renew(AuthRenewArgs),
    RotateCa(AuthRotateArgs),
    Token(AuthTokenArgs),
    Join(AuthJoinArgs),
    Trust(AuthTrustArgs),
    Export(AuthExportArgs),
    /// Show the keys of this host
    Show,
}

/// Make the authority of a cluster, and the key of the host of its MGS
///
/// Both are in the folder auth of the MGT. The node asks for keys from its next start on.
#[derive(Debug, Args)]
pub struct AuthInitArgs {
    /// Home of the node that has the MGS, or its MGT
    #[arg(value_name = "DIR", default_value = HOME_DEFAULT)]
    pub dir: PathBuf,
    /// NIDs at which other hosts reach the MGS [default: where the node listens]
    #[arg(long, value_name = "NID", value_delimiter = ',')]
    pub mgsnode: Vec<Nid>,
    /// Name of this host's key [default: the name of the host]
    #[arg(long, value_name = "NAME")]
    pub name: Option<KeyName>,
    /// How long the key is good
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=7300))]
    pub days: u16,
}

/// Print a new key for a host
///
/// It is secret: carry it over ssh, not through a shared folder. A host that has a key gets a new
/// one in the same way before the old one ends; its daemons take it without a restart.
#[derive(Debug, Args)]
pub struct AuthIssueArgs {
    /// Home of the node that has the MGS, or its MGT
    #[arg(value_name = "DIR", default_value = HOME_DEFAULT)]
    pub dir: PathBuf,
    /// Name of the host
    #[arg(long, value_name = "NAME")]
    pub name: KeyName,
    /// What the host may do: server (serve targets, and all else), client (mount), admin (mount,
    /// and change the cluster)
    #[arg(long, value_name = "ROLE", default_value = "client")]
    pub role: Role,
    /// NIDs under which servers may see the host behind routers: 10.1.0.7@tcp1, or *@tcp1 for any
    /// of a network
    #[arg(long, value_name = "NID", value_delimiter = ',', value_parser = nid_of_key)]
    pub nid: Vec<NidPattern>,
    /// How long the key is good
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=7300))]
    pub days: u16,
    /// How long it is good, instead of days: for keys that a program renews
    #[arg(long, value_name = "MINUTES", conflicts_with = "days", value_parser = clap::value_parser!(u16).range(1..=10080))]
    pub minutes: Option<u16>,
}

/// Make a token, with which another host gets its key from the MGS
///
/// Prints it: one word, for `sheen auth join` on that host. A reader of it can get the key.
#[derive(Debug, Args)]
pub struct AuthTokenArgs {
    /// Home of the node that has the MGS, or its MGT
    #[arg(value_name = "DIR", default_value = HOME_DEFAULT)]
    pub dir: PathBuf,
    /// What the host may do: server, client, admin; see issue
    #[arg(long, value_name = "ROLE", default_value = "client")]
    pub role: Role,
    /// Name of the host [default: what it calls itself, if no other key has that name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<KeyName>,
    /// NIDs under which servers may see the host behind routers; see issue
    #[arg(long, value_name = "NID", value_delimiter = ',', value_parser = nid_of_key)]
    pub nid: Vec<NidPattern>,
    /// Hosts that may use it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub uses: u16,
    /// How long the token is good
    #[arg(long, value_name = "MINUTES", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=10080))]
    pub minutes: u16,
    /// How long the keys are good
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=7300))]
    pub days: u16,
}

/// Get a key for this host with a token
///
/// The key is made here and stays here; the MGS, which the token names, signs it. It goes to
/// /etc/sheen/keys; an earlier key for the same cluster is replaced.
#[derive(Debug, Args)]
pub struct AuthJoinArgs {
    /// What `sheen auth token` printed; -: from standard input, so that no list of processes shows
    /// it
    #[arg(value_name = "TOKEN")]
    pub token: String,
    /// Name of this host's key [default: the name of the host]
    #[arg(long, value_name = "NAME")]
    pub name: Option<KeyName>,
    /// File with the networks of this host, and its routes [default: /etc/sheen/client.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Take a key for this host
///
/// It goes to /etc/sheen/keys; an earlier key for the same cluster is replaced. A key that an
/// authority of the site made is taken with --cert and --key; do that again when the site has
/// renewed it.
#[derive(Debug, Args)]
pub struct AuthInstallArgs {
    /// File with the key; with --cert, what `sheen auth export` printed [default: standard input]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Certificate that the site made, PEM, and behind it those between it and the site's authority
    #[arg(long, value_name = "PEM", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Its private key, PEM: Ed25519, ECDSA or RSA
    #[arg(long, value_name = "PEM", requires = "cert")]
    pub key: Option<PathBuf>,
}

/// Take keys of hosts that an authority of the site made, as keys of clients
///
/// A mapping says which ids (SPIFFE) are let in: 'spiffe://site.example/hpc/*=client:physics' takes
/// spiffe://site.example/hpc/node7 as the client physics+node7. One segment may be *; the role is
/// client or admin; each label stands once. Servers need a key of the cluster. Running processes
/// hear of it within a second.
#[derive(Debug, Args)]
pub struct AuthTrustArgs {
    /// Home of the node that has the MGS, or its MGT
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Certificate of the site's authority, PEM
    #[arg(value_name = "CA", requires = "map", conflicts_with_all = ["list", "remove"])]
    pub ca: Option<PathBuf>,
    /// PATTERN=ROLE:LABEL; may stand several times
    #[arg(long, value_name = "MAPPING", requires = "ca")]
    pub map: Vec<Mapping>,
    /// Show the authorities of sites, their mappings, and the names that were revoked
    #[arg(long, conflicts_with = "remove")]
    pub list: bool,
    /// Take this back: a label, or all of an authority by its SHA-256, as --list shows it.
    /// Connections that came by it end
    #[arg(long, value_name = "LABEL|SHA256")]
    pub remove: Option<String>,
}

/// Print what hosts with keys of a site need of the cluster
///
/// The certificate of its authority, and the NIDs of its MGS: for `sheen auth install --cert`. It
/// is not secret.
#[derive(Debug, Args)]
pub struct AuthExportArgs {
    /// Home of the node that has the MGS, or its MGT
    #[arg(value_name = "DIR", default_value = HOME_DEFAULT)]
    pub dir: PathBuf,
}

/// List the keys of a cluster
#[derive(Debug, Args)]
pub struct AuthListArgs {
    /// Home of the node that has the MGS, or its MGT
    #[arg(value_name = "DIR", default_value = HOME_DEFAULT)]
    pub dir: PathBuf,
    /// Print JSON; its keys are stable
    #[arg(long)]
    pub json: bool,
}

/// Give the host of the MGS a new key
///
/// Other hosts get theirs with `issue` and `install`.
#[derive(Debug, Args)]
pub struct AuthRenewArgs {
    /// Home of the node that has the MGS, or its MGT
    #[arg(value_name = "DIR", default_value = HOME_DEFAULT)]
    pub dir: PathBuf,
    /// How long the key is good
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=7300))]
    pub days: u16,
    /// How long it is good, instead of days: for keys that a program renews
    #[arg(long, value_name = "MINUTES", conflicts_with = "days", value_parser = clap::value_parser!(u16).range(1..=10080))]
    pub minutes: Option<u16>,
}

/// Make a new authority, which signs all keys from now on
///
/// Keys of the authority before are good until all hosts have newer ones, which they get by
/// themselves; `list` shows whose are missing. Then the one before is withdrawn. A host that was
/// down all the time needs a new key.
#[derive(Debug, Args)]
pub struct AuthRotateArgs {
    /// Home of the node that has the MGS, or its MGT
    #[arg(value_name = "DIR", default_value = HOME_DEFAULT)]
    pub dir: PathBuf,
    /// Make none, but withdraw the one before now: hosts that have no newer key are out
    #[arg(long)]
    pub now: bool,
}

/// Revoke all keys of a host
///
/// Its connections and sessions end, and no process lets it in again.
#[derive(Debug, Args)]
pub struct AuthRevokeArgs {
    /// Home of the node that has the MGS, or its MGT
    #[arg(value_name = "DIR", default_value = HOME_DEFAULT)]
    pub dir: PathBuf,
    /// Name of the host; LABEL+NAME, if an authority of the site made its key
    #[arg(long, value_name = "NAME", value_parser = KeyName::of_any)]
    pub name: KeyName,
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
