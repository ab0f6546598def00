//! The one definition of all commands and options: parsing, `--help`, man pages and completion come from it.

use clap::{Args, Subcommand};
use types::nid::Nid;

/// Devices, parameters and network of the daemons of this host
///
/// Options and output are those of Lustre's lctl. Exit status: 0, or the errno of what failed first.
#[derive(Debug, Args)]
pub struct Lctl {
    /// The device that activate and deactivate are about, by name or by its number in dl
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// What to do
    #[command(subcommand)]
    pub command: LctlCommand,
}

/// Sub-commands of `lctl`; the documentation of each stands above its arguments.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub enum LctlCommand {
    #[command(visible_alias = "device_list")]
    Dl(DlArgs),
    /// Give new objects to the OST of --device again
    Activate,
    /// Give no new objects to the OST of --device: sheen-OST0001-osc-MDT0000
    Deactivate,
    GetParam(GetParamArgs),
    SetParam(SetParamArgs),
    ListParam(ListParamArgs),
    HelpParam(HelpParamArgs),
    /// List the NIDs of this host's daemons
    ListNids,
    Ping(PingArgs),
    WhichNid(WhichNidArgs),
}

impl LctlCommand {
    /// The name it is called by.
    pub fn name(&self) -> &'static str {
        match self {
            LctlCommand::Dl(_) => "dl",
            LctlCommand::Activate => "activate",
            LctlCommand::Deactivate => "deactivate",
            LctlCommand::GetParam(_) => "get_param",
            LctlCommand::SetParam(_) => "set_param",
            LctlCommand::ListParam(_) => "list_param",
            LctlCommand::HelpParam(_) => "help_param",
            LctlCommand::ListNids => "list_nids",
            LctlCommand::Ping(_) => "ping",
            LctlCommand::WhichNid(_) => "which_nid",
        }
    }
}

/// List the devices
///
/// A line each: number, state, type, name, UUID, references.
#[derive(Debug, Args)]
pub struct DlArgs {
    /// As a tree of parameters would: only types and names that match
    #[arg(value_name = "WORD")]
    pub words: Vec<String>,
}

/// Show parameters
///
/// A name may have the shell's wildcards (*, ?, [], {a,b}) in each level; levels are separated by dots or slashes.
#[derive(Debug, Args, Default)]
pub struct GetParamArgs {
    /// Only the values
    #[arg(short = 'n', long = "no-name", conflicts_with = "only_name")]
    pub no_name: bool,
    /// Only the names
    #[arg(short = 'N', long = "only-name")]
    pub only_name: bool,
    /// With -N: a slash behind levels, an equals sign behind what can be set
    #[arg(short = 'F', long = "classify")]
    pub classify: bool,
    /// The name before each line of a value
    #[arg(short = 'H', long = "header", conflicts_with = "no_name")]
    pub header: bool,
    /// Also everything below
    #[arg(short = 'R', long = "recursive")]
    pub recursive: bool,
    /// As YAML
    #[arg(short = 'y', long = "yaml", conflicts_with_all = ["no_name", "only_name", "header"])]
    pub yaml: bool,
    /// Only what can be read
    #[arg(short = 'r', long = "readable")]
    pub readable: bool,
    /// Only what can be set
    #[arg(short = 'w', long = "writable")]
    pub writable: bool,
    /// Names
    #[arg(value_name = "PARAM", required = true)]
    pub patterns: Vec<String>,
}

/// Set parameters
///
/// Until the daemon ends. Each PARAM=VALUE sets everything that matches, and each that was set is shown.
#[derive(Debug, Args, Default)]
pub struct SetParamArgs {
    /// Say nothing
    #[arg(short = 'n', long = "no-name")]
    pub no_name: bool,
    /// What to set: PARAM=VALUE, or PARAM VALUE
    #[arg(value_name = "PARAM=VALUE", required = true, allow_hyphen_values = true)]
    pub settings: Vec<String>,
}

/// List parameters
#[derive(Debug, Args, Default)]
pub struct ListParamArgs {
    /// Also everything below
    #[arg(short = 'R', long = "recursive")]
    pub recursive: bool,
    /// A slash behind levels, an equals sign behind what can be set
    #[arg(short = 'F', long = "classify")]
    pub classify: bool,
    /// Only levels
    #[arg(short = 'D', long = "dir-only")]
    pub levels: bool,
    /// Only what can be read
    #[arg(short = 'r', long = "readable")]
    pub readable: bool,
    /// Only what can be set
    #[arg(short = 'w', long = "writable")]
    pub writable: bool,
    /// Names; see get_param
    #[arg(value_name = "PARAM", required = true)]
    pub patterns: Vec<String>,
}

/// Explain parameters
///
/// Needs no daemon: all parameters that SheenFS has are explained, by their last word or their whole path.
#[derive(Debug, Args)]
pub struct HelpParamArgs {
    /// Names: stripecount, osc.*.stats, lod
    #[arg(value_name = "PARAM", required = true)]
    pub names: Vec<String>,
}

/// Ask whether a node can be reached
#[derive(Debug, Args)]
pub struct PingArgs {
    /// Its NID
    #[arg(value_name = "NID")]
    pub nid: Nid,
}

/// Choose the best of several NIDs of a node
#[derive(Debug, Args)]
pub struct WhichNidArgs {
    /// NIDs
    #[arg(value_name = "NID", required = true)]
    pub nids: Vec<Nid>,
}
