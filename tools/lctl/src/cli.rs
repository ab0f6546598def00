//! The one definition of all commands and options: parsing, `--help`, man pages and completion come
//! from it.

pub mod nodemap;

use self::nodemap::{
    NodemapActivateArgs, NodemapAddArgs, NodemapDelArgs, NodemapIdmapArgs, NodemapInfoArgs,
    NodemapModifyArgs, NodemapRangeArgs, NodemapSetFilesetArgs, NodemapTestIdArgs,
    NodemapTestNidArgs,
};
use crate::pool::PoolPath;
use clap::{Args, Subcommand, ValueEnum};
use idmap::nids::NidRange;
use idmap::nodemap::NodemapName;
use idmap::scope::HostName;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use types::nid::NidPattern;

/// Devices, parameters and network of the daemons of this host
///
/// Options and output are those of Lustre's lctl. Exit status: 0, or the errno of what failed
/// first.
#[derive(Debug, Args)]
pub struct Lctl {
    /// The device that activate, deactivate and abort_recovery are about: its name, %NAME, or its
    /// number in dl
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Only daemons of this cluster: name of a file system, or NID of its MGS [default: all of this
    /// host]
    #[arg(long, value_name = "FSNAME|NID")]
    pub cluster: Option<String>,
    /// What to do
    #[command(subcommand)]
    pub command: LctlCommand,
}

/// Sub-commands of `lctl`; the documentation of each stands above its arguments.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
#[allow(missing_docs, reason = "a doc comment would be the help text, which the arguments give")]
pub enum LctlCommand {
    #[command(visible_alias = "device_list")]
    Dl(DlArgs),
    /// Give new objects to the OST of --device again
    Activate,
    /// Give no new objects to the OST of --device: sheen-OST0001-osc-MDT0000
    Deactivate,
    /// Let the restarted MDT of --device wait no longer for its clients
    AbortRecovery,
    /// Let the restarted MDT of --device wait no longer for other MDTs
    #[command(name = "abort_recovery_mdt")]
    AbortRecoveryMdt,
    GetParam(GetParamArgs),
    SetParam(SetParamArgs),
    ListParam(ListParamArgs),
    FindParam(FindParamArgs),
    HelpParam(HelpParamArgs),
    ApplyYaml(ApplyYamlArgs),
    ConfParam(ConfParamArgs),
    /// Remove an OST that will never come back from the file system
    ///
    /// Files lose what they had on it. Its number is not used again, and the OST is not taken back.
    DelOst(DelTargetArgs),
    /// Remove an MDT that will never come back from the file system
    ///
    /// What it served of the name space is lost. MDT0000 cannot be removed.
    DelMdt(DelTargetArgs),
    DelReplica(DelReplicaArgs),
    ReplaceNids(ReplaceNidsArgs),
    Mark(MarkArgs),
    #[command(visible_alias = "debug_kernel")]
    Dk(DkArgs),
    /// Let daemons forget their newest log lines
    ///
    /// Those that dk prints. Log files stay.
    Clear,
    PoolNew(PoolNewArgs),
    PoolAdd(PoolMembersArgs),
    /// Take OSTs out of a pool
    PoolRemove(PoolMembersArgs),
    PoolDestroy(PoolDestroyArgs),
    PoolList(PoolListArgs),
    NodemapActivate(NodemapActivateArgs),
    #[command(visible_alias = "nodemap_new")]
    NodemapAdd(NodemapAddArgs),
    NodemapDel(NodemapDelArgs),
    NodemapModify(NodemapModifyArgs),
    NodemapAddRange(NodemapRangeArgs),
    /// Take clients out of a nodemap
    NodemapDelRange(NodemapRangeArgs),
    NodemapAddIdmap(NodemapIdmapArgs),
    /// Take ids out of a map of a nodemap
    NodemapDelIdmap(NodemapIdmapArgs),
    NodemapSetFileset(NodemapSetFilesetArgs),
    NodemapInfo(NodemapInfoArgs),
    NodemapTestNid(NodemapTestNidArgs),
    NodemapTestId(NodemapTestIdArgs),
    NetDropAdd(FaultAddArgs),
    /// Lose no more messages
    NetDropDel(FaultDelArgs),
    /// Begin to count anew what net_drop_add's rules do
    NetDropReset,
    /// List the rules of net_drop_add, with what they did
    NetDropList,
    /// Delay messages on purpose
    ///
    /// For tests. As net_drop_add, but messages arrive later.
    NetDelayAdd(DelayAddArgs),
    /// Delay no more messages
    NetDelayDel(FaultDelArgs),
    /// Begin to count anew what net_delay_add's rules do
    NetDelayReset,
    /// List the rules of net_delay_add, with what they did
    NetDelayList,
    /// List the NIDs of this host's daemons
    ListNids,
    Ping(PingArgs),
    WhichNid(WhichNidArgs),
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

/// The words of a command line as they are parsed: `-t4`, `-t 4` and `--thread 4` of `get_param`
/// and `set_param` are `--thread=4`. No parameter is a bare number.
pub fn normalized(words: Vec<OsString>) -> Vec<OsString> {
    let Some(at) = words.iter().position(|word| word == "get_param" || word == "set_param") else {
        return words;
    };
    let number = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let mut normal: Vec<OsString> = Vec::with_capacity(words.len());
    let mut words = words.into_iter().enumerate().peekable();
    while let Some((index, word)) = words.next() {
        let text = word.to_str().unwrap_or_default();
        let attached = text.strip_prefix("-t").filter(|rest| number(rest));
        let alone = text == "-t" || text == "--thread";
        let next =
            words.peek().and_then(|(_, next)| next.to_str()).filter(|next| alone && number(next));
        match (index > at, attached.or(next).map(|n| format!("--thread={n}"))) {
            (true, Some(thread)) => {
                if attached.is_none() {
                    words.next();
                }
                normal.push(thread.into());
            }
            _ => normal.push(word),
        }
    }
    normal
}

impl LctlCommand {
    /// The name it is called by.
    pub fn name(&self) -> &'static str {
        match self {
            LctlCommand::Dl(_) => "dl",
            LctlCommand::Activate => "activate",
            LctlCommand::Deactivate => "deactivate",
            LctlCommand::AbortRecovery => "abort_recovery",
            LctlCommand::AbortRecoveryMdt => "abort_recovery_mdt",
            LctlCommand::GetParam(_) => "get_param",
            LctlCommand::SetParam(_) => "set_param",
            LctlCommand::ListParam(_) => "list_param",
            LctlCommand::FindParam(_) => "find_param",
            LctlCommand::HelpParam(_) => "help_param",
            LctlCommand::ApplyYaml(_) => "apply_yaml",
            LctlCommand::ConfParam(_) => "conf_param",
            LctlCommand::DelOst(_) => "del_ost",
            LctlCommand::DelMdt(_) => "del_mdt",
            LctlCommand::DelReplica(_) => "del_replica",
            LctlCommand::ReplaceNids(_) => "replace_nids",
            LctlCommand::Mark(_) => "mark",
            LctlCommand::Dk(_) => "dk",
            LctlCommand::Clear => "clear",
            LctlCommand::PoolNew(_) => "pool_new",
            LctlCommand::PoolAdd(_) => "pool_add",
            LctlCommand::PoolRemove(_) => "pool_remove",
            LctlCommand::PoolDestroy(_) => "pool_destroy",
            LctlCommand::PoolList(_) => "pool_list",
            LctlCommand::NodemapActivate(_) => "nodemap_activate",
            LctlCommand::NodemapAdd(_) => "nodemap_add",
            LctlCommand::NodemapDel(_) => "nodemap_del",
            LctlCommand::NodemapModify(_) => "nodemap_modify",
            LctlCommand::NodemapAddRange(_) => "nodemap_add_range",
            LctlCommand::NodemapDelRange(_) => "nodemap_del_range",
            LctlCommand::NodemapAddIdmap(_) => "nodemap_add_idmap",
            LctlCommand::NodemapDelIdmap(_) => "nodemap_del_idmap",
            LctlCommand::NodemapSetFileset(_) => "nodemap_set_fileset",
            LctlCommand::NodemapInfo(_) => "nodemap_info",
            LctlCommand::NodemapTestNid(_) => "nodemap_test_nid",
            LctlCommand::NodemapTestId(_) => "nodemap_test_id",
            LctlCommand::NetDropAdd(_) => "net_drop_add",
            LctlCommand::NetDropDel(_) => "net_drop_del",
            LctlCommand::NetDropReset => "net_drop_reset",
            LctlCommand::NetDropList => "net_drop_list",
            LctlCommand::NetDelayAdd(_) => "net_delay_add",
            LctlCommand::NetDelayDel(_) => "net_delay_del",
            LctlCommand::NetDelayReset => "net_delay_reset",
            LctlCommand::NetDelayList => "net_delay_list",
            LctlCommand::ListNids => "list_nids",
            LctlCommand::Ping(_) => "ping",
            LctlCommand::WhichNid(_) => "which_nid",
            LctlCommand::Other(_) => "lctl",
        }
    }
}

/// List the devices
///
/// A line each: number, state, type, name, UUID, references.
#[derive(Debug, Args)]
pub struct DlArgs {
    /// Also the NID at which the target of a client's device is reached
    #[arg(short = 't', long = "target")]
    pub target: bool,
    /// As YAML
    #[arg(short = 'y', long)]
    pub yaml: bool,
    /// As a tree of parameters would: only types and names that match
    #[arg(value_name = "WORD")]
    pub words: Vec<String>,
}

/// Show parameters
///
/// A name may have the shell's wildcards (*, ?, [], {a,b}) in each level; levels are separated by
/// dots or slashes.
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
    /// Links are not followed (there are none)
    #[arg(short = 'l', long = "no-links", short_alias = 'L')]
    pub no_links: bool,
    /// Only what can be read
    #[arg(short = 'r', long = "readable")]
    pub readable: bool,
    /// Only what can be set
    #[arg(short = 'w', long = "writable")]
    pub writable: bool,
    /// Names as paths, levels separated by slashes
    #[arg(short = 'p', long = "path")]
    pub path: bool,
    /// What the MGS keeps (set_param -P), with its origin, and not the values of now: all,
    /// nodemap:, nid: or host:; of several that mean the same parameter the last counts
    #[arg(short = 'P', long = "perm", conflicts_with_all = ["only_name", "classify", "header", "recursive", "yaml", "path"])]
    pub permanent: bool,
    /// Values of now (which are always shown: none is kept)
    #[arg(short = 'c', long = "uncached")]
    pub uncached: bool,
    /// So many daemons are asked at once (always all of this host)
    #[arg(short = 't', long = "thread", value_name = "N", num_args = 0..=1, require_equals = true)]
    pub threads: Option<Option<u32>>,
    /// Names; with -P, beginnings of names, or none for all
    #[arg(value_name = "PARAM", required_unless_present = "permanent")]
    pub patterns: Vec<String>,
}

/// Set parameters
///
/// Until the daemon ends, or with -P for ever: then the MGS keeps it, and every node of the file
/// system sets it at once and whenever it starts. Each PARAM=VALUE sets everything that matches,
/// and each that was set is shown. Of what is kept, --nodemap counts more than what is for all,
/// --nid more than that, and --host most.
#[derive(Debug, Args, Default)]
pub struct SetParamArgs {
    /// Say nothing
    #[arg(short = 'n', long = "no-name")]
    pub no_name: bool,
    /// For ever, on all nodes; quote wildcards
    #[arg(short = 'P', long = "perm", conflicts_with = "file")]
    pub permanent: bool,
    /// With -P: forget it; nodes keep the value until they start anew
    #[arg(short = 'd', long = "delete", requires = "permanent")]
    pub delete: bool,
    /// With -P: only for clients in this nodemap
    #[arg(long, value_name = "NODEMAP", requires = "permanent", conflicts_with_all = ["nid", "host"])]
    pub nodemap: Option<NodemapName>,
    /// With -P: only for nodes at these NIDs: 10.0.[1-3].*@tcp, 10.1.0.0/16@tcp
    #[arg(long, value_name = "RANGE", requires = "permanent", conflicts_with = "host")]
    pub nid: Option<NidRange>,
    /// With -P: only for nodes on the host of this name (uname -n)
    #[arg(long, value_name = "NAME", requires = "permanent")]
    pub host: Option<HostName>,
    /// So many daemons are asked at once (always all of this host)
    #[arg(short = 't', long = "thread", value_name = "N", num_args = 0..=1, require_equals = true)]
    pub threads: Option<Option<u32>>,
    /// Each PARAM is a file with lines PARAM: VALUE or PARAM=VALUE, as get_param prints them
    #[arg(short = 'F', long = "file")]
    pub file: bool,
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
    /// Links are not followed (there are none)
    #[arg(short = 'l', long = "no-links", short_alias = 'L')]
    pub no_links: bool,
    /// Only what can be read
    #[arg(short = 'r', long = "readable")]
    pub readable: bool,
    /// Only what can be set
    #[arg(short = 'w', long = "writable")]
    pub writable: bool,
    /// Names as paths, levels separated by slashes
    #[arg(short = 'p', long = "path")]
    pub path: bool,
    /// Names; see get_param
    #[arg(value_name = "PARAM", required = true)]
    pub patterns: Vec<String>,
}

/// Find parameters by their last word
#[derive(Debug, Args)]
pub struct FindParamArgs {
    /// A slash behind levels, an equals sign behind what can be set
    #[arg(short = 'F', long = "classify")]
    pub classify: bool,
    /// Words, with the shell's wildcards: stats, max_*_mb
    #[arg(value_name = "WORD", required = true)]
    pub words: Vec<String>,
}

/// Set what files say
///
/// As set_param -F.
#[derive(Debug, Args)]
pub struct ApplyYamlArgs {
    /// Files with lines PARAM: VALUE, as get_param -y prints them
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<String>,
}

/// Explain parameters
///
/// Needs no daemon: all parameters that SheenFS has are explained, by their last word or their
/// whole path.
#[derive(Debug, Args)]
pub struct HelpParamArgs {
    /// Names: stripecount, osc.*.stats, lod [default: all]
    #[arg(value_name = "PARAM")]
    pub names: Vec<String>,
}

/// Set a parameter of a file system or target for ever
///
/// The older way to write set_param -P: sheen-OST0001.osc.active=0, sheen.llite.name=value.
#[derive(Debug, Args)]
pub struct ConfParamArgs {
    /// Forget it
    #[arg(short = 'd', long = "delete")]
    pub delete: bool,
    /// DEVICE.KIND.NAME=VALUE
    #[arg(value_name = "PARAM=VALUE", required = true)]
    pub settings: Vec<String>,
}

/// Which target is removed.
#[derive(Debug, Args)]
pub struct DelTargetArgs {
    /// Its name, as lctl dl shows it
    #[arg(short = 't', long = "target", value_name = "TARGET")]
    pub target: String,
    /// Even if it is in service
    #[arg(short = 'f', long)]
    pub force: bool,
    /// Only say whether it could be removed
    #[arg(short = 'n', long = "dryrun")]
    pub dry_run: bool,
}

/// Keep the log of a target no longer for a host that will not come back
///
/// Run it on a host that serves the target, or may. If the host comes back all the same, it gets
/// the tree of the owner.
#[derive(Debug, Args)]
pub struct DelReplicaArgs {
    /// Name of the target, MGS or sheen-MDT0000
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// The host and its folder, as sheen status shows them
    #[arg(value_name = "HOST:DIR")]
    pub host: String,
}

/// Tell clients that a target is at other NIDs
///
/// What the target itself says when it starts next counts again.
#[derive(Debug, Args)]
pub struct ReplaceNidsArgs {
    /// Name of the target
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// All NIDs at which it may be served, with commas, or colons between hosts
    #[arg(value_name = "NID[,NID...]")]
    pub nids: String,
}

/// Write a line to the log of each daemon
#[derive(Debug, Args)]
pub struct MarkArgs {
    /// Text [default: the time]
    #[arg(value_name = "TEXT")]
    pub text: Vec<String>,
}

/// Print the newest log lines of the daemons, and let them forget these
///
/// Each daemon keeps its newest 4096 lines in memory; log files have all.
#[derive(Debug, Args)]
pub struct DkArgs {
    /// File for the lines [default: standard output]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Accepted: lines are text in any case
    #[arg(value_name = "RAW", hide = true)]
    pub raw: Option<String>,
}

/// Make a pool of OSTs
///
/// New files get their objects from a pool if setstripe -p, or the default layout of their
/// directory, names it.
#[derive(Debug, Args)]
pub struct PoolNewArgs {
    /// File system and pool: sheen.flash; the name has 1 to 15 letters, digits, _ or -
    #[arg(value_name = "FSNAME.POOL")]
    pub pool: PoolPath,
}

/// Put OSTs into a pool
#[derive(Debug, Args)]
pub struct PoolMembersArgs {
    /// File system and pool
    #[arg(value_name = "FSNAME.POOL")]
    pub pool: PoolPath,
    /// OSTs: OST0000, sheen-OST0000, sheen-OST[0-7/2]_UUID; numbers are hexadecimal
    #[arg(value_name = "OST", required = true)]
    pub osts: Vec<String>,
}

/// Take an empty pool away
///
/// Directories may go on naming it; new files in them get OSTs as if they named none.
#[derive(Debug, Args)]
pub struct PoolDestroyArgs {
    /// File system and pool
    #[arg(value_name = "FSNAME.POOL")]
    pub pool: PoolPath,
}

/// List pools, or the OSTs of one
#[derive(Debug, Args)]
pub struct PoolListArgs {
    /// File system, or file system and pool
    #[arg(value_name = "FSNAME[.POOL]")]
    pub name: String,
}

/// Messages by Lustre's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Messages {
    /// Requests.
    Put,
    /// None here.
    Ack,
    /// None here.
    Get,
    /// Answers.
    Reply,
}

/// Lose messages on purpose
///
/// For tests. Each daemon of this host loses what fits of the messages that it sends and receives
/// over the network, until net_drop_del. A node that waits for one sends again, or its session
/// ends.
#[derive(Debug, Args)]
pub struct FaultAddArgs {
    /// Sender: *@tcp, 10.0.0.1@tcp (any port), 10.0.0.1:7988@tcp
    #[arg(short = 's', long = "source", value_name = "NID")]
    pub source: NidPattern,
    /// Receiver
    #[arg(short = 'd', long = "dest", value_name = "NID")]
    pub target: NidPattern,
    /// One of N messages
    #[arg(short = 'r', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "interval")]
    pub rate: Option<u32>,
    /// One message in so many seconds
    #[arg(short = 'i', long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub interval: Option<u64>,
    /// Only these messages: PUT are requests, REPLY answers
    #[arg(short = 'm', long = "message", value_name = "MESSAGES", ignore_case = true)]
    pub messages: Option<Messages>,
    /// With -r: each with this chance, not exactly one of N
    #[arg(short = 'n', long)]
    pub random: bool,
    /// All
    #[arg(short = 'x', long = "drop_all", conflicts_with_all = ["rate", "interval"])]
    pub all: bool,
    /// Not offered: there are no portals
    #[arg(short = 'p', long, value_name = "PORTAL")]
    pub portal: Option<String>,
    /// Not offered: there are no health values
    #[arg(short = 'e', long = "health_error", value_name = "ERROR")]
    pub health_error: Option<String>,
    /// Not offered: the source and destination name it
    #[arg(short = 'o', long = "local_nid", value_name = "NID")]
    pub local: Option<String>,
}

/// Seconds, also parts of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency(pub u64);

impl FromStr for Latency {
    type Err = String;

    fn from_str(s: &str) -> Result<Latency, String> {
        let seconds = s.parse::<f64>().ok().filter(|seconds| (0.001..=86_400.0).contains(seconds));
        let ms = seconds.map(|seconds| Latency((seconds * 1000.0).round() as u64));
        ms.ok_or_else(|| "a latency is 0.001 to 86400 seconds".to_owned())
    }
}

/// Options of net_delay_add.
#[derive(Debug, Args)]
pub struct DelayAddArgs {
    /// Which messages.
    #[command(flatten)]
    pub which: FaultAddArgs,
    /// How much later, seconds
    #[arg(short = 'l', long, value_name = "SECONDS")]
    pub latency: Latency,
}

/// Which rules go.
#[derive(Debug, Args)]
pub struct FaultDelArgs {
    /// All
    #[arg(short = 'a', long)]
    pub all: bool,
    /// Those with this source
    #[arg(short = 's', long = "source", value_name = "NID")]
    pub source: Option<NidPattern>,
    /// Those with this destination
    #[arg(short = 'd', long = "dest", value_name = "NID")]
    pub target: Option<NidPattern>,
}

/// Ask whether a node can be reached
#[derive(Debug, Args)]
pub struct PingArgs {
    /// Its NID, or the name of its host: server1@tcp
    #[arg(value_name = "NID")]
    pub nid: String,
}

/// Choose the best of several NIDs of a node
#[derive(Debug, Args)]
pub struct WhichNidArgs {
    /// NIDs, also with names of hosts
    #[arg(value_name = "NID", required = true)]
    pub nids: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_written_in_three_ways() {
        let normal = |line: &str| {
            let words = normalized(line.split(' ').map(OsString::from).collect());
            words
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(normal("lctl set_param -t4 a=1"), "lctl set_param --thread=4 a=1");
        assert_eq!(normal("lctl set_param -t 4 a=1"), "lctl set_param --thread=4 a=1");
        assert_eq!(normal("lctl get_param --thread 12 a -n"), "lctl get_param --thread=12 a -n");
        assert_eq!(normal("lctl set_param -t a=1"), "lctl set_param -t a=1");
        assert_eq!(normal("lctl del_ost -t 4"), "lctl del_ost -t 4", "there it is the target");
    }
}
