//! Options that describe a layout, of `setstripe` and `migrate`. Those of each component belong to
//! the -E before them, so their order counts, which the parser does not keep by itself.

use crate::spec::{Count, End, ExtensionSize, First, OstList, PatternWord, PoolWord, StripeSize};
use clap::{ArgAction, Args, FromArgMatches};
use std::path::PathBuf;

/// Make a file with a layout, or set the default layout of a directory
///
/// A file is made; one that exists and has data, or was given a layout, is an error. A directory
/// keeps the layout for files and directories made in it later. What is left open is taken from the
/// file system's default. With -E the layout has components: each -E names the end of one, and the
/// options after it belong to it; what a component leaves open is taken from the one before it.
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
    /// OST of the first stripe, -1 for any
    #[arg(short = 'i', long, value_name = "INDEX", action = ArgAction::Append, allow_hyphen_values = true)]
    pub stripe_index: Vec<First>,
    /// OST of each stripe: 0,2,5-7
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
    /// The component extends itself by so much while its OSTs have room, a multiple of its stripe
    /// size
    ///
    /// When they have no room, the next component begins there; the last one is repeated on other
    /// OSTs.
    #[arg(short = 'z', long, visible_alias = "ext-size", value_name = "SIZE", action = ArgAction::Append)]
    pub extension_size: Vec<ExtensionSize>,
    /// Mirrors: there is one of each file; more are not offered
    #[arg(short = 'N', long, value_name = "N", num_args = 0..=1, require_equals = true)]
    pub mirror_count: Option<Option<u16>>,
    /// Take the default layout of a directory away
    #[arg(short = 'd', long, conflicts_with_all = [
        "stripe_count", "overstripe_count", "stripe_size", "stripe_index", "osts", "pool", "component_end", "layout",
        "extension_size",
    ])]
    pub delete: bool,
    /// Give a file more components behind those that it has
    #[arg(long, requires = "component_end", conflicts_with = "delete")]
    pub component_add: bool,
    /// Take components from the end of a file, from -I on, or (--component-flags ^init) all that
    /// have no objects
    #[arg(long, conflicts_with_all = [
        "stripe_count", "overstripe_count", "stripe_size", "stripe_index", "osts", "pool", "component_end", "layout",
        "extension_size",
        "component_add", "delete", "copy", "yaml",
    ])]
    pub component_del: bool,
    /// The component that --component-del begins with, as getstripe -v shows it; what is written
    /// there is lost
    #[arg(short = 'I', long, visible_alias = "comp-id", value_name = "ID", requires = "component_del",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub component_id: Option<u32>,
    /// What --component-del takes: ^init, those that have no objects
    #[arg(
        short = 'F',
        long,
        visible_alias = "comp-flags",
        value_name = "FLAGS",
        requires = "component_del",
        conflicts_with = "component_id"
    )]
    pub component_flags: Option<String>,
    /// The layout of this file, but not its OSTs
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "stripe_count", "overstripe_count", "stripe_size", "stripe_index", "osts", "pool", "component_end", "layout",
        "extension_size",
        "component_add", "delete", "yaml",
    ])]
    pub copy: Option<PathBuf>,
    /// The layout that this file describes, as getstripe --yaml prints it, but not its OSTs; -:
    /// standard input
    #[arg(short = 'y', long, value_name = "FILE", conflicts_with_all = [
        "stripe_count", "overstripe_count", "stripe_size", "stripe_index", "osts", "pool", "component_end", "layout",
        "extension_size",
        "component_add", "delete",
    ])]
    pub yaml: Option<PathBuf>,
    /// Files to make, or directories
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
}

/// Components that `--component-del` takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fewer {
    /// This component and those after it.
    From(u32),
    /// Those at the end that have no objects.
    WithoutObjects,
    /// A value that is not accepted: the flags that were given, if any.
    Other(Option<String>),
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
    /// -z
    Extension(ExtensionSize),
}

/// Arguments of `setstripe`, options in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetstripeArgs {
    /// The requested layout.
    pub steps: Vec<Step>,
    /// Take the default away.
    pub delete: bool,
    /// More components for a file.
    pub add: bool,
    /// Fewer components for a file.
    pub del: Option<Fewer>,
    /// Use the layout of this file.
    pub copy: Option<PathBuf>,
    /// Use the layout that this file describes.
    pub yaml: Option<PathBuf>,
    /// Mirrors that are wished for, if that is said.
    pub mirrors: Option<u16>,
    /// The files or directories.
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
        add("component_end", flags.component_end.clone().into_iter().map(Step::End).collect());
        add("stripe_count", flags.stripe_count.clone().into_iter().map(Step::Count).collect());
        add(
            "overstripe_count",
            flags.overstripe_count.clone().into_iter().map(Step::Overstripe).collect(),
        );
        add("stripe_size", flags.stripe_size.clone().into_iter().map(Step::Size).collect());
        add("stripe_index", flags.stripe_index.clone().into_iter().map(Step::First).collect());
        add("osts", flags.osts.clone().into_iter().map(Step::Osts).collect());
        add("pool", flags.pool.clone().into_iter().map(Step::Pool).collect());
        add("layout", flags.layout.clone().into_iter().map(Step::Pattern).collect());
        add(
            "extension_size",
            flags.extension_size.clone().into_iter().map(Step::Extension).collect(),
        );
        steps.sort_by_key(|(at, _)| *at);
        let steps = steps.into_iter().map(|(_, step)| step).collect();
        let SetstripeFlags {
            delete,
            component_add: add,
            component_del,
            copy,
            yaml,
            mirror_count,
            paths,
            ..
        } = flags;
        let del =
            component_del.then_some(match (flags.component_id, flags.component_flags.as_deref()) {
                (Some(id), _) => Fewer::From(id),
                (None, Some("^init")) => Fewer::WithoutObjects,
                (None, flags) => Fewer::Other(flags.map(str::to_owned)),
            });
        let mirrors = mirror_count.map(|count| count.unwrap_or(1));
        Ok(SetstripeArgs { steps, delete, add, del, copy, yaml, mirrors, paths })
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = SetstripeArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The same options of `migrate`, which may take its files from a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrateSpec(pub SetstripeArgs);

impl Args for MigrateSpec {
    fn augment_args(command: clap::Command) -> clap::Command {
        let of_list = |paths: clap::Arg| {
            paths.required(false).required_unless_present("files_from").help("Files")
        };
        SetstripeFlags::augment_args(command).mut_arg("paths", of_list)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        SetstripeFlags::augment_args_for_update(command)
    }
}

impl FromArgMatches for MigrateSpec {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<MigrateSpec, clap::Error> {
        SetstripeArgs::from_arg_matches(matches).map(MigrateSpec)
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}
