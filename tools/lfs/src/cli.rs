//! The one definition of all commands and options: parsing, `--help`, man pages and completion come from it.

use crate::spec::{Count, End, First, OstList, PatternWord, PoolWord, StripeSize};
use clap::{ArgAction, Args, FromArgMatches, Subcommand};
use std::path::PathBuf;

/// Layouts, targets and space of a mounted file system
///
/// Options and output are those of Lustre's lfs. Exit status: 0, or the errno of what failed first.
#[derive(Debug, Args)]
pub struct Lfs {
    /// What to do
    #[command(subcommand)]
    pub command: LfsCommand,
}

/// Sub-commands of `lfs`; the documentation of each stands above its arguments.
#[derive(Debug, Subcommand)]
pub enum LfsCommand {
    Setstripe(SetstripeArgs),
    Getstripe(GetstripeArgs),
    /// List the object targets
    Osts(MountsArgs),
    /// List the metadata targets
    Mdts(MountsArgs),
    Df(DfArgs),
    Path2fid(Path2fidArgs),
    Getname(GetnameArgs),
    #[command(name = "pool_list")]
    PoolList(PoolListArgs),
}

impl LfsCommand {
    /// The name it is called by.
    pub fn name(&self) -> &'static str {
        match self {
            LfsCommand::Setstripe(_) => "setstripe",
            LfsCommand::Getstripe(_) => "getstripe",
            LfsCommand::Osts(_) => "osts",
            LfsCommand::Mdts(_) => "mdts",
            LfsCommand::Df(_) => "df",
            LfsCommand::Path2fid(_) => "path2fid",
            LfsCommand::Getname(_) => "getname",
            LfsCommand::PoolList(_) => "pool_list",
        }
    }
}

/// Make a file with a layout, or set the default layout of a directory
///
/// A file is made; one that exists is an error. A directory keeps the layout for files and directories made in it later.
/// What is left open is taken from the file system's default. With -E the layout has components: each -E names the end
/// of one, and the options after it belong to it; what a component leaves open is taken from the one before it.
#[derive(Debug, Args)]
pub struct SetstripeFlags {
    /// Stripes, -1 for one on each OST
    #[arg(short = 'c', long, value_name = "N", action = ArgAction::Append, allow_hyphen_values = true)]
    pub stripe_count: Vec<Count>,
    /// Stripes, several of which may be on one OST
    #[arg(short = 'C', long, value_name = "N", action = ArgAction::Append)]
    pub overstripe_count: Vec<Count>,
    /// Bytes of one stripe, a multiple of 64 KiB; K, M, G are understood
    #[arg(short = 'S', long, value_name = "SIZE", action = ArgAction::Append)]
    pub stripe_size: Vec<StripeSize>,
    /// OST of the first stripe, -1 for any; on files, first component
    #[arg(short = 'i', long, value_name = "INDEX", action = ArgAction::Append, allow_hyphen_values = true)]
    pub stripe_index: Vec<First>,
    /// OST of each stripe: 0,2,5-7; on files, first component
    #[arg(short = 'o', long = "ost", value_name = "INDEXES", action = ArgAction::Append)]
    pub osts: Vec<OstList>,
    /// Pool of OSTs; none or ignore: no pool, even if the directory has one
    #[arg(short = 'p', long, value_name = "POOL", action = ArgAction::Append)]
    pub pool: Vec<PoolWord>,
    /// A component begins that ends here; -1 or eof for the end of the file
    #[arg(short = 'E', long, value_name = "END", action = ArgAction::Append, allow_hyphen_values = true)]
    pub component_end: Vec<End>,
    /// Where the bytes are: raid0 on OSTs, mdt on the MDT
    #[arg(short = 'L', long, value_name = "PATTERN", action = ArgAction::Append)]
    pub layout: Vec<PatternWord>,
    /// Take the default layout of a directory away
    #[arg(short = 'd', long, conflicts_with_all = [
        "stripe_count", "overstripe_count", "stripe_size", "stripe_index", "osts", "pool", "component_end", "layout",
    ])]
    pub delete: bool,
    /// Files to make, or directories
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
}

/// One option of `setstripe`. Their order counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// -E
    End(End),
    /// -c
    Count(Count),
    /// -C
    Overstripe(Count),
    /// -S
    Size(StripeSize),
    /// -i
    First(First),
    /// -o
    Osts(OstList),
    /// -p
    Pool(PoolWord),
    /// -L
    Pattern(PatternWord),
}

/// Arguments of `setstripe`, options in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetstripeArgs {
    /// What is wished.
    pub steps: Vec<Step>,
    /// Take the default away.
    pub delete: bool,
    /// Where.
    pub paths: Vec<PathBuf>,
}

impl Args for SetstripeArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        SetstripeFlags::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        SetstripeFlags::augment_args_for_update(command)
    }
}

impl FromArgMatches for SetstripeArgs {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<SetstripeArgs, clap::Error> {
        let flags = SetstripeFlags::from_arg_matches(matches)?;
        let mut steps: Vec<(usize, Step)> = Vec::new();
        let mut add = |id: &str, values: Vec<Step>| {
            steps.extend(matches.indices_of(id).into_iter().flatten().zip(values));
        };
        add("component_end", flags.component_end.into_iter().map(Step::End).collect());
        add("stripe_count", flags.stripe_count.into_iter().map(Step::Count).collect());
        add("overstripe_count", flags.overstripe_count.into_iter().map(Step::Overstripe).collect());
        add("stripe_size", flags.stripe_size.into_iter().map(Step::Size).collect());
        add("stripe_index", flags.stripe_index.into_iter().map(Step::First).collect());
        add("osts", flags.osts.into_iter().map(Step::Osts).collect());
        add("pool", flags.pool.into_iter().map(Step::Pool).collect());
        add("layout", flags.layout.into_iter().map(Step::Pattern).collect());
        steps.sort_by_key(|(at, _)| *at);
        let steps = steps.into_iter().map(|(_, step)| step).collect();
        Ok(SetstripeArgs { steps, delete: flags.delete, paths: flags.paths })
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = SetstripeArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Show layouts
///
/// Of a directory its default layout and the layouts of what is in it, unless -d says otherwise. One of -c, -i, -S, -p,
/// -L, -g prints just the value of PATH itself; of a file with components the value of the last one that has objects.
#[derive(Debug, Default, Args)]
pub struct GetstripeArgs {
    /// Stripe count
    #[arg(short = 'c', long)]
    pub stripe_count: bool,
    /// OST of the first stripe
    #[arg(short = 'i', long)]
    pub stripe_index: bool,
    /// Bytes of one stripe
    #[arg(short = 'S', long)]
    pub stripe_size: bool,
    /// Pool
    #[arg(short = 'p', long)]
    pub pool: bool,
    /// Pattern: raid0, mdt
    #[arg(short = 'L', long)]
    pub layout: bool,
    /// Generation of the layout
    #[arg(short = 'g', long)]
    pub generation: bool,
    /// Show the directory itself, not what is in it
    #[arg(short = 'd', long)]
    pub directory: bool,
    /// Descend into all directories
    #[arg(short = 'r', long, conflicts_with = "directory")]
    pub recursive: bool,
    /// Show everything
    #[arg(short = 'v', long)]
    pub verbose: bool,
    /// Files and directories
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
}

/// Of which mount.
#[derive(Debug, Args)]
pub struct MountsArgs {
    /// A path on the mount [default: all mounts]
    #[arg(value_name = "PATH")]
    pub path: Option<PathBuf>,
}

/// Show the space of each target
///
/// In KiB. A target that does not answer within 5 seconds is shown with its error and not counted.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct DfArgs {
    /// Show sizes with units of 1024
    #[arg(short = 'h', long = "human-readable")]
    pub human: bool,
    /// Show inodes instead of space
    #[arg(short = 'i', long)]
    pub inodes: bool,
    /// A path on the mount [default: all mounts]
    #[arg(value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    pub help: Option<bool>,
}

/// Show the FID of files
#[derive(Debug, Args)]
pub struct Path2fidArgs {
    /// Files of any type; symbolic links are not followed
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
}

/// Show the name of mounts
///
/// The name is that of the file system and a number of the mount: "sheen-5f3a0c9e1b7d2468". With one PATH only the name
/// is printed, else also where the mount is.
#[derive(Debug, Args)]
pub struct GetnameArgs {
    /// Only the number of the mount
    #[arg(short = 'i', long, conflicts_with_all = ["fsname", "uuid"])]
    pub instance: bool,
    /// Only the name of the file system
    #[arg(short = 'n', long, conflicts_with = "uuid")]
    pub fsname: bool,
    /// The UUID by which servers know the mount
    #[arg(short = 'u', long)]
    pub uuid: bool,
    /// Paths on mounts [default: all mounts]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
}

/// List the pools of OSTs, or the OSTs of one
#[derive(Debug, Args)]
pub struct PoolListArgs {
    /// File system or path on a mount, perhaps with a pool behind it: sheen, sheen.flash, /mnt/sheen.flash
    #[arg(value_name = "FSNAME[.POOL] | PATH")]
    pub name: String,
}
