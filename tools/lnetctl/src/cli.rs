//! The one definition of all commands and options: parsing, `--help`, man pages and completion come
//! from it.

use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use types::nid::Nid;

/// Networks, peers and routes of the daemons of this host
///
/// Options and output are those of Lustre's lnetctl. Exit status: 0, or the errno of what failed
/// first.
#[derive(Debug, Args)]
pub struct Lnetctl {
    /// Only daemons of this cluster: name of a file system, or NID of its MGS [default: all of this
    /// host]
    #[arg(long, value_name = "FSNAME|NID")]
    pub cluster: Option<String>,
    /// What to do
    #[command(subcommand)]
    pub command: LnetctlCommand,
}

/// Sub-commands of `lnetctl`.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
#[allow(missing_docs, reason = "a doc comment would be the help text, which the arguments give")]
pub enum LnetctlCommand {
    Net(NetArgs),
    Peer(PeerArgs),
    Route(RouteArgs),
    Routing(RoutingArgs),
    /// Ask whether nodes can be reached
    Ping(PingArgs),
    /// Ask whether nodes can be reached, and list their NIDs
    Discover(PingArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

impl LnetctlCommand {
    /// The name it is called by.
    pub fn name(&self) -> &'static str {
        match self {
            LnetctlCommand::Net(_) => "net",
            LnetctlCommand::Peer(_) => "peer",
            LnetctlCommand::Route(_) => "route",
            LnetctlCommand::Routing(_) => "routing",
            LnetctlCommand::Ping(_) => "ping",
            LnetctlCommand::Discover(_) => "discover",
            LnetctlCommand::Export(_) => "export",
            LnetctlCommand::Import(_) => "import",
            LnetctlCommand::Other(_) => "lnetctl",
        }
    }
}

/// Show, add and remove networks
#[derive(Debug, Args)]
pub struct NetArgs {
    /// What to do
    #[command(subcommand)]
    pub command: NetCommand,
}

/// Sub-commands of `lnetctl net`.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "a doc comment would be the help text, which the arguments give")]
pub enum NetCommand {
    Show(NetShowArgs),
    Add(NetAddArgs),
    Del(NetDelArgs),
}

/// Show the networks of this host's daemons, and their NIDs
#[derive(Debug, Args)]
pub struct NetShowArgs {
    /// Only this network: tcp1
    #[arg(long, value_name = "NET")]
    pub net: Option<String>,
    /// Say more, up to this level
    #[arg(short = 'v', long, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "1", default_value = "0", hide_default_value = true)]
    pub verbose: u8,
}

/// Join a network, and accept connections on interfaces there
///
/// Until the daemons start anew. Those that serve targets tell the MGS their new NIDs. Those that
/// only mount accept none, and reach servers on the network from now on.
#[derive(Debug, Args)]
pub struct NetAddArgs {
    /// The network: tcp, tcp1, o2ib; or local, which needs no interfaces: processes of this host
    /// connect within it
    #[arg(long, value_name = "NET")]
    pub net: String,
    /// Interfaces, or addresses of this host; needed unless the network is local
    #[arg(long = "if", value_name = "INTERFACE", value_delimiter = ',')]
    pub interfaces: Vec<String>,
}

/// Leave a network, or accept connections on some interfaces no longer, until daemons start anew
#[derive(Debug, Args)]
pub struct NetDelArgs {
    /// The network: tcp, tcp1, o2ib; or local
    #[arg(long, value_name = "NET")]
    pub net: String,
    /// Interfaces, or addresses of this host [default: all of the network]
    #[arg(long = "if", value_name = "INTERFACE", value_delimiter = ',')]
    pub interfaces: Vec<String>,
}

/// Show nodes that daemons talk to, connect to one, or hang up
#[derive(Debug, Args)]
pub struct PeerArgs {
    /// What to do
    #[command(subcommand)]
    pub command: PeerCommand,
}

/// Sub-commands of `lnetctl peer`.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "a doc comment would be the help text, which the arguments give")]
pub enum PeerCommand {
    #[command(visible_alias = "list")]
    Show(PeerShowArgs),
    Add(PeerAddArgs),
    Del(PeerDelArgs),
}

/// Show the nodes that this host's daemons talk to
#[derive(Debug, Args)]
pub struct PeerShowArgs {
    /// Only the peer at this NID
    #[arg(long, value_name = "NID")]
    pub nid: Option<Nid>,
    /// Say more, up to this level
    #[arg(short = 'v', long, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "1", default_value = "0", hide_default_value = true)]
    pub verbose: u8,
}

/// Connect the daemons of this host to a node
///
/// They connect by themselves to what they use; this does it now.
#[derive(Debug, Args)]
pub struct PeerAddArgs {
    /// A NID of the node
    #[arg(long = "prim_nid", value_name = "NID")]
    pub primary: Nid,
    /// Further NIDs of it
    #[arg(long = "nid", value_name = "NID", value_delimiter = ',')]
    pub nids: Vec<Nid>,
}

/// Close the connections to a node
///
/// Daemons connect again when they need it.
#[derive(Debug, Args)]
pub struct PeerDelArgs {
    /// A NID of the node
    #[arg(long = "prim_nid", value_name = "NID")]
    pub primary: Nid,
    /// Further NIDs of it
    #[arg(long = "nid", value_name = "NID", value_delimiter = ',')]
    pub nids: Vec<Nid>,
}

/// Show, add and remove ways to networks that this host is not on
#[derive(Debug, Args)]
pub struct RouteArgs {
    /// What to do
    #[command(subcommand)]
    pub command: RouteCommand,
}

/// Sub-commands of `lnetctl route`.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "a doc comment would be the help text, which the arguments give")]
pub enum RouteCommand {
    Show(RouteShowArgs),
    Add(RouteAddArgs),
    Del(RouteDelArgs),
}

/// Reach a network through routers, until the daemons start anew
#[derive(Debug, Args)]
pub struct RouteAddArgs {
    /// The network
    #[arg(long, value_name = "NET")]
    pub net: String,
    /// NIDs of the routers
    #[arg(long, value_name = "NID", value_delimiter = ',', required = true)]
    pub gateway: Vec<Nid>,
    /// Routers on the way
    #[arg(long = "hop", visible_alias = "hop-count", value_name = "N", value_parser = clap::value_parser!(u8).range(1..=4))]
    pub hop: Option<u8>,
    /// The lowest number goes first
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub priority: u32,
}

/// Use routers no longer, until the daemons start anew
#[derive(Debug, Args)]
pub struct RouteDelArgs {
    /// The network
    #[arg(long, value_name = "NET")]
    pub net: String,
    /// NIDs of the routers
    #[arg(long, value_name = "NID", value_delimiter = ',', required = true)]
    pub gateway: Vec<Nid>,
}

/// Show what routers of this host forward
#[derive(Debug, Args)]
pub struct RoutingArgs {
    /// What to do
    #[command(subcommand)]
    pub command: RoutingCommand,
}

/// Sub-commands of `lnetctl routing` and `lnetctl stats`.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "a doc comment would be the help text, which the arguments give")]
pub enum RoutingCommand {
    /// Show it
    Show,
}

/// Show the routes of this host's daemons
#[derive(Debug, Args)]
pub struct RouteShowArgs {
    /// Only routes to this network
    #[arg(long, value_name = "NET")]
    pub net: Option<String>,
    /// Only routes by this gateway
    #[arg(long, value_name = "NID")]
    pub gateway: Option<Nid>,
    /// Say more, up to this level
    #[arg(short = 'v', long, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "1", default_value = "0", hide_default_value = true)]
    pub verbose: u8,
}

/// Arguments of `lnetctl ping`.
#[derive(Debug, Args)]
pub struct PingArgs {
    /// NIDs, also with names of hosts: server1@tcp
    #[arg(value_name = "NID", required = true)]
    pub nids: Vec<String>,
}

/// Print networks, peers and routes as YAML
///
/// `lnetctl import` reads it.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Write to this file [default: standard output]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Only what import needs
    #[arg(short = 'b', long)]
    pub backup: bool,
}

/// Do what a YAML file says of networks, peers and routes
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what"))]
pub struct ImportArgs {
    /// Add what it names (so without an option, too)
    #[arg(short = 'a', long, group = "what")]
    pub add: bool,
    /// Remove what it names
    #[arg(short = 'd', long, group = "what")]
    pub del: bool,
    /// Show what it names
    #[arg(short = 's', long, group = "what")]
    pub show: bool,
    /// The file [default: standard input]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// List the clients of the targets of this host
///
/// By NID, the MGS, MDTs and OSTs together. Exit status: 0, or the errno of what failed first.
#[derive(Debug, Args)]
pub struct Lshowmount {
    /// One NID a line, instead of ranges: 10.0.0.[1-3]@tcp
    #[arg(short = 'e', long)]
    pub enumerate: bool,
    /// Names of hosts instead of addresses, where they have one
    #[arg(short = 'l', long)]
    pub lookup: bool,
    /// Each target with its own clients
    #[arg(short = 'v', long)]
    pub verbose: bool,
    /// Only daemons of this cluster: name of a file system, or NID of its MGS [default: all of this
    /// host]
    #[arg(long, value_name = "FSNAME|NID")]
    pub cluster: Option<String>,
}
