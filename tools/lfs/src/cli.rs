//! The one definition of all commands and options: parsing, `--help`, man pages and completion come
//! from it.

pub(crate) mod setstripe;

pub use setstripe::{Fewer, MigrateSpec, SetstripeArgs, SetstripeFlags, Step};

use crate::lov_fields::{Bound, EndBound, FlagWords, MirrorWord};
use crate::spec::{Bandwidth, End, MdtList};
use clap::{ArgAction, Args, Subcommand, ValueEnum};
use std::ffi::OsString;
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
#[allow(missing_docs, reason = "a doc comment would be the help text, which the arguments give")]
pub enum LfsCommand {
    Setstripe(SetstripeArgs),
    Getstripe(GetstripeArgs),
    /// List the object targets
    Osts(MountsArgs),
    /// List the metadata targets
    Mdts(MountsArgs),
    Df(DfArgs),
    Path2fid(Path2fidArgs),
    Fid2path(Fid2pathArgs),
    Rmfid(RmfidArgs),
    #[command(name = "data_version")]
    DataVersion(DataVersionArgs),
    #[command(name = "swap_layouts")]
    SwapLayouts(SwapLayoutsArgs),
    /// Give files other layouts, their data goes along
    ///
    /// Options as for setstripe; without any, a file keeps the shape of its layout, and its objects
    /// are made anew. The file can be read all the time. What is written to it while it is copied
    /// makes the copying begin again; a file that another process has open to write is waited for,
    /// 30 seconds.
    Migrate(MigrateArgs),
    Getname(GetnameArgs),
    Find(FindArgs),
    Check(CheckArgs),
    Mkdir(MkdirArgs),
    /// Split or merge directories that are there; else as mkdir
    ///
    /// -c says over how many MDTs the names of a directory are to be, -H by which hash. They move
    /// while the directory is used; getdirstripe says "migrating" until that is done.
    Setdirstripe(MkdirArgs),
    Getdirstripe(GetdirstripeArgs),
    Ladvise(LadviseArgs),
    Flushctx(FlushctxArgs),
    Project(ProjectArgs),
    Getsom(GetsomArgs),
    #[command(name = "pool_list")]
    PoolList(PoolListArgs),
    #[command(external_subcommand)]
    Other(Vec<OsString>),
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
            LfsCommand::Fid2path(_) => "fid2path",
            LfsCommand::Rmfid(_) => "rmfid",
            LfsCommand::DataVersion(_) => "data_version",
            LfsCommand::SwapLayouts(_) => "swap_layouts",
            LfsCommand::Migrate(_) => "migrate",
            LfsCommand::Mkdir(_) => "mkdir",
            LfsCommand::Setdirstripe(_) => "setdirstripe",
            LfsCommand::Getdirstripe(_) => "getdirstripe",
            LfsCommand::Ladvise(_) => "ladvise",
            LfsCommand::Flushctx(_) => "flushctx",
            LfsCommand::Project(_) => "project",
            LfsCommand::Getsom(_) => "getsom",
            LfsCommand::Other(_) => "lfs",
            LfsCommand::Find(_) => "find",
            LfsCommand::Check(_) => "check",
            LfsCommand::Getname(_) => "getname",
            LfsCommand::PoolList(_) => "pool_list",
        }
    }
}

/// Show layouts
///
/// Of a directory its default layout and the layouts of what is in it, unless -d says otherwise. A
/// letter for a value prints just that value of PATH itself; of a file with components that of the
/// last one that has objects, or of -I=ID.
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
    /// FID
    #[arg(short = 'F', long)]
    pub fid: bool,
    /// MDT that has it
    #[arg(short = 'm', long)]
    pub mdt_index: bool,
    /// Mirrors
    #[arg(short = 'N', long)]
    pub mirror_count: bool,
    /// Number of the component, or with =ID everything of that component alone
    #[arg(short = 'I', long, visible_alias = "comp-id", value_name = "ID", num_args = 0..=1, require_equals = true)]
    pub component_id: Option<Option<u32>>,
    /// End of the component, or with =[+-]N only components that end there (+: behind, -: before);
    /// eof: at the end of the file
    #[arg(short = 'E', long, visible_alias = "comp-end", value_name = "[+-]N", num_args = 0..=1, require_equals = true)]
    pub component_end: Option<Option<EndBound>>,
    /// Begin of the component, or with =[+-]N only components that begin there (+: behind, -:
    /// before)
    #[arg(long, visible_alias = "comp-start", value_name = "[+-]N", num_args = 0..=1, require_equals = true)]
    pub component_start: Option<Option<Bound>>,
    /// Number of components, 0 for a layout without
    #[arg(long, visible_alias = "comp-count")]
    pub component_count: bool,
    /// Flags of the component, or with =FLAG,... only components that have these, and not those
    /// with ^
    #[arg(long, visible_alias = "comp-flags", value_name = "[^]FLAG,...", num_args = 0..=1, require_equals = true)]
    pub component_flags: Option<Option<FlagWords>>,
    /// Only components of the mirror with this number, or with ^ of others: each file has one, 0
    #[arg(long, value_name = "[^]ID")]
    pub mirror_id: Option<MirrorWord>,
    /// Only components of this mirror of the file, or with ^ of others: each file has one, 1
    #[arg(long, value_name = "[^]N")]
    pub mirror_index: Option<MirrorWord>,
    /// Bytes by which the component extends itself
    #[arg(short = 'z', long, visible_alias = "ext-size")]
    pub extension_size: bool,
    /// Only files with an object on this OST: 0, OST0000, sheen-OST0000_UUID
    #[arg(short = 'O', long, value_name = "OST")]
    pub obd: Option<String>,
    /// What is set, not what it means: a directory without a default layout has zeros
    #[arg(short = 'R', long)]
    pub raw: bool,
    /// A symbolic link is not followed
    #[arg(long)]
    pub no_follow: bool,
    /// Indexes of OSTs as hexadecimal numbers
    #[arg(long)]
    pub hex_idx: bool,
    /// Only the rows of objects
    #[arg(short = 'q', long, conflicts_with_all = ["verbose", "yaml"])]
    pub quiet: bool,
    /// Show the directory itself, not what is in it
    #[arg(short = 'd', long)]
    pub directory: bool,
    /// Descend into all directories
    #[arg(short = 'r', long, conflicts_with = "directory")]
    pub recursive: bool,
    /// Show everything
    #[arg(short = 'v', long)]
    pub verbose: bool,
    /// As YAML, which setstripe --yaml takes
    #[arg(short = 'y', long, conflicts_with = "verbose")]
    pub yaml: bool,
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

/// A column of `df`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Column {
    /// Target, as UUID.
    Source,
    /// Space in all.
    Size,
    /// Space used.
    Used,
    /// Space that can be had.
    Avail,
    /// Part that is used.
    Pcent,
    /// Inodes in all.
    Itotal,
    /// Inodes used.
    Iused,
    /// Inodes that can be had.
    Iavail,
    /// Part of the inodes that is used.
    Ipcent,
    /// Where it is mounted.
    Target,
}

/// Show the space of each target
///
/// In KiB. A target that does not answer within 5 seconds is shown with its error and not counted.
#[derive(Clone, Debug, Args, Default)]
#[command(disable_help_flag = true)]
pub struct DfArgs {
    /// Show sizes with units of 1024
    #[arg(short = 'h', long = "human-readable")]
    pub human: bool,
    /// Show sizes with units of 1000
    #[arg(short = 'H', long = "si", conflicts_with = "human")]
    pub si: bool,
    /// Show inodes instead of space
    #[arg(short = 'i', long)]
    pub inodes: bool,
    /// Do not wait for what is away (nothing is waited for longer than 5 seconds)
    #[arg(short = 'l', long)]
    pub lazy: bool,
    /// Also what is out of use (which is always shown)
    #[arg(short = 'v', long)]
    pub verbose: bool,
    /// Only MDTs, or the one with this index
    #[arg(short = 'm', long = "mdt", value_name = "INDEX", num_args = 0..=1, require_equals = true)]
    pub mdt: Option<Option<u16>>,
    /// Only OSTs, or the one with this index
    #[arg(short = 'o', long = "ost", value_name = "INDEX", num_args = 0..=1, require_equals = true)]
    pub ost: Option<Option<u16>>,
    /// Only the OSTs of this pool, and the MDTs
    #[arg(short = 'p', long, value_name = "[FSNAME.]POOL")]
    pub pool: Option<String>,
    /// Only the last line
    #[arg(short = 's', long = "only-summary")]
    pub summary: bool,
    /// No names of columns
    #[arg(short = 'N', long = "no-header")]
    pub no_header: bool,
    /// These columns, in this order, named as for df(1)
    #[arg(
        short = 'u',
        long,
        value_name = "COLUMN,...",
        value_delimiter = ',',
        conflicts_with = "inodes"
    )]
    pub output: Vec<Column>,
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
    /// Instead the names of each, as [FID of its directory]/NAME, a tab between two; for root
    #[arg(short = 'p', long)]
    pub parents: bool,
    /// A NUL behind each instead of a line's end
    #[arg(short = '0', long = "print0")]
    pub null: bool,
    /// Files of any type; symbolic links are not followed
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
}

/// Show the paths of FIDs; for root
///
/// Below a mount point if one is named, else below the root of the file system. About 100 names of
/// a file are remembered.
#[derive(Debug, Args)]
pub struct Fid2pathArgs {
    /// A NUL behind each instead of a line's end
    #[arg(short = '0', long = "print0")]
    pub null: bool,
    /// The FID before each path
    #[arg(short = 'f', long = "print-fid")]
    pub fid: bool,
    /// The number of the name before each path
    #[arg(short = 'c', long = "print-link")]
    pub cur: bool,
    /// Only the name with this number, from 0
    #[arg(short = 'l', long, value_name = "N")]
    pub link: Option<usize>,
    /// Only the last part of each path
    #[arg(short = 'n', long)]
    pub name: bool,
    /// File system or path on a mount
    #[arg(value_name = "FSNAME | PATH")]
    pub root: String,
    /// FIDs: [0x200000401:0x2:0x0]
    #[arg(value_name = "FID", required = true)]
    pub fids: Vec<String>,
}

/// Remove files by their FIDs: all names of each; for root
#[derive(Debug, Args)]
pub struct RmfidArgs {
    /// File system or path on a mount
    #[arg(value_name = "FSNAME | PATH")]
    pub root: String,
    /// FIDs of files, not of directories
    #[arg(value_name = "FID", required = true)]
    pub fids: Vec<String>,
}

/// Show the version of files' data
///
/// A number that is larger after each change of the file. What is written and not stored yet is
/// stored first, by all clients. It grows with other changes of the file, too.
#[derive(Debug, Args)]
pub struct DataVersionArgs {
    /// Do not store first what this mount has written
    #[arg(short = 'n')]
    pub none: bool,
    /// Store first what was written (the default)
    #[arg(short = 'r')]
    pub read: bool,
    /// As -r; for Lustre's scripts
    #[arg(short = 'w')]
    pub write: bool,
    /// Files
    #[arg(value_name = "FILE", required = true)]
    pub paths: Vec<PathBuf>,
}

/// Exchange the data of two files
///
/// Both must be of one file system, and not open to write. Owners, modes and names stay.
#[derive(Debug, Args)]
pub struct SwapLayoutsArgs {
    /// One file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The other
    #[arg(value_name = "OTHER")]
    pub other: PathBuf,
}

/// What `migrate` takes beside the options of `setstripe`.
#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// The layout, and the files.
    #[command(flatten)]
    pub spec: MigrateSpec,
    /// As many stripes as suit the size of each file: the square root of its size in GiB, and one
    /// more
    #[arg(short = 'A', long, conflicts_with_all = [
        "restripe", "stripe_count", "overstripe_count", "stripe_size", "stripe_index", "osts", "pool", "component_end",
        "layout", "extension_size", "copy", "yaml",
    ])]
    pub auto_stripe: bool,
    /// The layout that the directory of each file gives to new files
    #[arg(long, conflicts_with_all = [
        "stripe_count", "overstripe_count", "stripe_size", "stripe_index", "osts", "pool", "component_end", "layout",
        "extension_size", "copy", "yaml",
    ])]
    pub restripe: bool,
    /// What is named are FIDs of files, of the mount that --lustre-dir names; for root
    #[arg(long, requires = "lustre_dir")]
    pub fid: bool,
    /// A path on the mount
    #[arg(long, value_name = "PATH", requires = "fid")]
    pub lustre_dir: Option<PathBuf>,
    /// Also the files (or FIDs) that this file lists, one a line; -: standard input
    #[arg(long, value_name = "FILE")]
    pub files_from: Option<PathBuf>,
    /// What --files-from lists ends with NULs instead of newlines
    #[arg(short = '0', long, requires = "files_from")]
    pub null: bool,
    /// Print how far each file is, every 5 seconds and at its end
    #[arg(long)]
    pub stats: bool,
    /// Print it at this interval, seconds; 0: only at the end of a file
    #[arg(long, value_name = "SECONDS", num_args = 1)]
    pub stats_interval: Option<u32>,
    /// Wait for writers (the default)
    #[arg(short = 'b', long, conflicts_with = "non_block")]
    pub block: bool,
    /// Give up on a file that is open to write
    #[arg(short = 'n', long)]
    pub non_block: bool,
    /// Accepted: data is always copied through the page cache
    #[arg(short = 'D', long)]
    pub non_direct: bool,
    /// Bytes per second; K, M, G are understood
    #[arg(short = 'W', long, value_name = "RATE")]
    pub bandwidth: Option<Bandwidth>,
    /// With -m: print what was moved
    #[arg(short = 'v', long)]
    pub verbose: bool,
    /// Move directories, and all that is below them, to these MDTs; -1: to any
    ///
    /// -c tells the number of stripes (else as many as MDTs are named), -H the hash of names. With
    /// -d a directory is moved, but not what is in it. For root.
    #[arg(
        short = 'm',
        long = "mdt-index",
        value_name = "INDEX[,INDEX...]",
        allow_hyphen_values = true
    )]
    pub mdt: Option<MdtList>,
    /// With -m: how names tell their stripes (all_char, fnv_1a_64, crush)
    #[arg(short = 'H', long = "mdt-hash", value_name = "HASH", requires = "mdt")]
    pub hash: Option<String>,
}

/// Show the name of mounts
///
/// The name is that of the file system and a number of the mount: "sheen-5f3a0c9e1b7d2468". With
/// one PATH only the name is printed, else also where the mount is.
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
    /// File system or path on a mount, perhaps with a pool behind it: sheen, sheen.flash,
    /// /mnt/sheen.flash
    #[arg(value_name = "FSNAME[.POOL] | PATH")]
    pub name: String,
}

/// Find files by name, attributes and layout
///
/// Paths [default: .] and predicates, in any order. All predicates must hold; ! before one means
/// that it must not. One or two dashes. OST and MDT are indexes or names, with 2-4 from 2 to 4.
/// MODE is octal or as for chmod(1). N is a number: N exactly (of a size: what rounds up to it), +N
/// more, -N less.
///
/// -name PATTERN, -type bcdflps, -size N[bkMGTPE], -blocks N[bkMGTPE], -uid/-user, -gid/-group,
/// -perm [-/]MODE, -links N; -atime -mtime -ctime -btime N[smhdwy] (days), -amin -mmin -cmin N,
/// -newer FILE, -newerXY FILE, -newerXt @SECONDS; -attrs, -xattr NAME[=VALUE], -projid N, -mindepth
/// N, -maxdepth N, -skip PERCENT, -threads N [default: 4], -lazy; -stripe-count N, -stripe-size
/// N[kMG], -stripe-index OST,.., -ost OST,.., -pool NAME, -layout raid0|mdt|released,
/// -component-count N, -component-start N, -component-end N|eof, -component-flags init, -mdt
/// MDT,.., -mdt-count N, -mdt-hash HASH,.., -mirror-count N, -mirror-state, -foreign, -ext-size N.
///
/// -print, -print0, -ls, -printf FORMAT with %a %A@ %b %c %C@ %g %G %i %k %m %M %n %p %s %t %T@ %u
/// %U %w %W@ %y and of the layout %La %LF %LP %Lc %Lh %Li %Lo %Lp %LS; flags, widths and precisions
/// as for printf(3): %-10p, %08s.
#[derive(Debug, Args)]
pub struct FindArgs {
    /// Paths and predicates
    #[arg(
        value_name = "PATH... PREDICATE...",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub words: Vec<OsString>,
}

/// Which targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kinds {
    /// Object targets.
    Osts,
    /// Metadata targets.
    Mdts,
    /// The session with the management server, as the daemons of this host tell it.
    Mgts,
    /// OSTs and MDTs.
    All,
}

/// Ask each target whether it is there
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Which targets
    #[arg(value_name = "KIND")]
    pub kinds: Kinds,
    /// A path on the mount [default: all mounts]
    #[arg(value_name = "PATH")]
    pub path: Option<PathBuf>,
}

/// Make directories, on an MDT of choice
#[derive(Debug, Args)]
pub struct MkdirArgs {
    /// MDTs of the first stripes; -1: by turns and by space [default: that of the name]
    #[arg(
        short = 'i',
        long = "mdt-index",
        visible_alias = "index",
        value_name = "INDEX",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub mdts: Option<Vec<i32>>,
    /// Stripes, each on another MDT; -1: one on each
    #[arg(
        short = 'c',
        long = "mdt-count",
        visible_alias = "count",
        value_name = "N",
        allow_hyphen_values = true
    )]
    pub count: Option<i32>,
    /// Hash by which names find their stripes: crush, fnv_1a_64, all_char [default: crush]
    #[arg(short = 'H', long = "mdt-hash", visible_alias = "hash-type", value_name = "HASH")]
    pub hash: Option<String>,
    /// Mode, octal; the umask applies
    #[arg(short = 'o', long, value_name = "MODE")]
    pub mode: Option<String>,
    /// Set the default of directories made below
    #[arg(short = 'D', long)]
    pub default: bool,
    /// Take that default away
    #[arg(short = 'd', long)]
    pub delete: bool,
    /// Levels of directories that inherit the default; -1: all [default: 3 with stripes, else all]
    #[arg(short = 'X', long, value_name = "N", allow_hyphen_values = true)]
    pub max_inherit: Option<i32>,
    /// Levels on which -i -1 takes MDTs by turns; -1: all [default: 0]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub max_inherit_rr: Option<i32>,
    /// Directories
    #[arg(value_name = "DIR", required = true)]
    pub paths: Vec<PathBuf>,
}

/// Show on which MDTs directories are
#[derive(Debug, Args)]
pub struct GetdirstripeArgs {
    /// Stripes
    #[arg(short = 'c', long = "mdt-count")]
    pub count: bool,
    /// First MDT
    #[arg(short = 'i', short_alias = 'm', long = "mdt-index")]
    pub index: bool,
    /// Hash of names
    #[arg(short = 'H', long = "mdt-hash")]
    pub hash: bool,
    /// Default of directories made below
    #[arg(short = 'D', long)]
    pub default: bool,
    /// Levels that inherit that default
    #[arg(short = 'X', long)]
    pub max_inherit: bool,
    /// Levels on which it takes MDTs by turns
    #[arg(long)]
    pub max_inherit_rr: bool,
    /// As YAML
    #[arg(short = 'y', long)]
    pub yaml: bool,
    /// Descend into all directories
    #[arg(short = 'r', long)]
    pub recursive: bool,
    /// Directories
    #[arg(value_name = "DIR", required = true)]
    pub paths: Vec<PathBuf>,
}

/// A hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Advice {
    /// The range will be read.
    Willread,
    /// The range will not be read again.
    Dontneed,
    /// Not offered.
    Lockahead,
    /// Not offered.
    Noexpand,
    /// Not offered.
    Ahead,
}

/// Give hints about what will be read
#[derive(Debug, Args)]
pub struct LadviseArgs {
    /// The hint
    #[arg(short = 'a', long, value_name = "ADVICE")]
    pub advice: Advice,
    /// First byte [default: 0]
    #[arg(short = 's', long, value_name = "OFFSET")]
    pub start: Option<End>,
    /// End, exclusive [default: end of the file]
    #[arg(short = 'e', long, value_name = "OFFSET")]
    pub end: Option<End>,
    /// Bytes
    #[arg(short = 'l', long, value_name = "LENGTH")]
    pub length: Option<End>,
    /// Files
    #[arg(value_name = "FILE", required = true)]
    pub paths: Vec<PathBuf>,
}

/// Forget security contexts of the user
///
/// There are none yet: nothing is done.
#[derive(Debug, Args)]
pub struct FlushctxArgs {
    /// Also keys of the kernel
    #[arg(short = 'k')]
    pub keys: bool,
    /// Also the ticket
    #[arg(short = 'r')]
    pub reap: bool,
    /// Paths on mounts [default: all mounts]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
}

/// Show or set projects
///
/// A project is a number that an inode has, 0 for none, and that a directory with the flag P hands
/// on to what is made in it. Without -p, -s, -C and -c: lists the projects of what is in
/// directories. Only root sets projects. Numbers from 2147483648 on are those of filesets, which
/// lctl nodemap_set_fileset sets.
#[derive(Debug, Args)]
pub struct ProjectArgs {
    /// Set this project; with -c, check for it
    #[arg(short = 'p', value_name = "ID")]
    pub project: Option<u32>,
    /// Set the flag P of directories
    #[arg(short = 's')]
    pub set: bool,
    /// Descend into all directories
    #[arg(short = 'r')]
    pub recursive: bool,
    /// Take the project and the flag P away
    #[arg(short = 'C')]
    pub clear: bool,
    /// With -C: the project stays, only the flag goes
    #[arg(short = 'k')]
    pub keep: bool,
    /// Print what is of another project than PATH, and directories without the flag P
    #[arg(short = 'c')]
    pub check: bool,
    /// Directories themselves, not what is in them
    #[arg(short = 'd')]
    pub directory: bool,
    /// With -c: print only paths, with a NUL behind each
    #[arg(short = '0')]
    pub null: bool,
    /// Files or directories
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
}

/// Show the size that the MDT keeps of files
#[derive(Debug, Args)]
pub struct GetsomArgs {
    /// Only bytes
    #[arg(short = 's', conflicts_with_all = ["blocks", "flags"])]
    pub size: bool,
    /// Only blocks of 512 bytes
    #[arg(short = 'b', conflicts_with = "flags")]
    pub blocks: bool,
    /// Only flags: 1, exact
    #[arg(short = 'f')]
    pub flags: bool,
    /// Files
    #[arg(value_name = "FILE", required = true)]
    pub paths: Vec<PathBuf>,
}
