//! The binary called as `mkfs.lustre` or `mount.lustre`: Lustre's spellings of what `mkfs.sheen`
//! and `mount.sheen` do.
//!
//! Options that mean something here, or hold anyway, are accepted. Each other option is refused
//! with a sentence that says why.

use crate::cli::{BackFsType, MkfsArgs, MountArgs};
use crate::commands::{mkfs, mount};
use crate::parse;
use crate::terminal::outcome::{Exit, Failure, Outcome};
use crate::terminal::output;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches};
use std::ffi::OsString;
use std::path::PathBuf;
use types::nid::Nid;
use types::target::FsName;

/// Make one target, by the options of Lustre's mkfs.lustre
///
/// A target is a directory of the host's file system, which is made if need be. What makes no sense
/// for it is refused.
#[derive(Debug, Args)]
pub struct MkfsLustreArgs {
    /// Make the management target, one for a cluster
    #[arg(long)]
    mgs: bool,
    /// Make a metadata target
    #[arg(long)]
    mdt: bool,
    /// Make an object target
    #[arg(long)]
    ost: bool,
    /// File system it belongs to, 1 to 8 letters, digits, '_' or '-'
    #[arg(long, value_name = "F", default_value = "lustre")]
    fsname: FsName,
    /// Number among the targets of its kind, from 0
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..4096))]
    index: Option<u16>,
    /// NIDs of the MGS, of one node with commas between them, of several nodes in several options
    #[arg(long, visible_alias = "mgsnid", value_name = "NID", value_delimiter = ',', action = ArgAction::Append)]
    mgsnode: Vec<Nid>,
    /// NIDs of all hosts that may serve it, this one too; repeated for several hosts
    #[arg(long, visible_alias = "failnode", value_name = "NID", value_delimiter = ',', action = ArgAction::Append)]
    servicenode: Vec<Nid>,
    /// Destroy the target that is there now
    #[arg(long)]
    reformat: bool,
    /// Only say what would be made
    #[arg(short = 'n', long)]
    dryrun: bool,
    /// Say nothing
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Say what is done
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Directory of the target
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// An option that is known and refused.
struct Refused {
    name: &'static str,
    takes_value: bool,
    why: &'static str,
}

const fn valued(name: &'static str, why: &'static str) -> Refused {
    Refused { name, takes_value: true, why }
}

/// Options of mkfs.lustre that mean nothing here.
const MKFS_REFUSED: &[Refused] = &[
    valued(
        "backfstype",
        "a target is a directory of any file system of the host: there is no kind to choose",
    ),
    valued("mkfsoptions", "the host's file system is made before, by its own mkfs"),
    valued("mountfsoptions", "the host's file system is mounted before, with its own options"),
    valued("device-size", "`sheen serve --ost-size SIZE` bounds the space of an object target"),
    valued("param", "parameters are set in the running file system: lctl set_param -P NAME=VALUE"),
    valued("comment", "a target keeps no comment"),
    valued("network", "`sheen serve --listen ADDRESS:PORT` says where a server listens"),
    valued("stripe-count-hint", "inodes have room for every layout: no hint is needed"),
    Refused {
        name: "replace",
        takes_value: false,
        why: "an index belongs to the target that first had it: let the new target take another",
    },
    Refused { name: "force-nohostid", takes_value: false, why: "there is no host id to look at" },
    Refused {
        name: "nolocallogs",
        takes_value: false,
        why: "a target keeps no copy of the configuration",
    },
];

/// The definition of `mkfs.lustre`, for help, man page and completion.
pub fn mkfs_definition() -> clap::Command {
    let bare =
        clap::Command::new("mkfs.lustre").version(env!("CARGO_PKG_VERSION")).max_term_width(100);
    let command = MkfsLustreArgs::augment_args(bare)
        .after_help("Exit codes: 0 done, 2 failed, 64 wrong usage.");
    MKFS_REFUSED.iter().fold(command, |command, refused| {
        let arg = Arg::new(refused.name).long(refused.name).hide(true);
        command.arg(match refused.takes_value {
            true => arg.action(ArgAction::Append).num_args(1),
            false => arg.action(ArgAction::SetTrue),
        })
    })
}

/// Makes a target.
pub fn mkfs(args: Vec<OsString>) -> Outcome {
    let matches = parse::matches(mkfs_definition(), args)?;
    if let Some(Refused { name, why, .. }) =
        MKFS_REFUSED.iter().find(|refused| is_given(&matches, refused))
    {
        return Err(Failure::Usage(format!("--{name} is not offered: {why}")));
    }
    let args = MkfsLustreArgs::from_arg_matches(&matches).map_err(|e| parse::failure(&e))?;
    if args.mgs && (args.mdt || args.ost) {
        let sentence = "the MGT is a target of its own here: make it, and the other target, in two directories";
        return Err(Failure::Usage(sentence.to_owned()));
    }
    if args.dir.metadata().is_ok_and(|found| !found.is_dir()) {
        let dir = args.dir.display();
        return Err(Failure::Usage(format!(
            "{dir} is no directory: make a file system on the device, mount it, and name a directory in it"
        )));
    }
    let kinds = [(args.mgs, "MGT"), (args.mdt, "MDT"), (args.ost, "OST")];
    let mut made = kinds.into_iter().filter(|(wanted, _)| *wanted).map(|(_, kind)| kind);
    let (Some(kind), None) = (made.next(), made.next()) else {
        return Err(Failure::Usage("a target has one role: give --mgs, --mdt or --ost".to_owned()));
    };
    let of_others =
        args.index.is_some() || !args.mgsnode.is_empty() || !args.servicenode.is_empty();
    if args.mgs && of_others {
        return Err(Failure::Usage(
            "--index, --mgsnode and --servicenode are for MDTs and OSTs, not for the MGT"
                .to_owned(),
        ));
    }
    if args.dryrun {
        if !args.quiet {
            output::talk(&format!(
                "would make the {kind} {} for {}",
                args.dir.display(),
                args.fsname
            ));
        }
        return Ok(Exit::Done);
    }
    let quiet = args.quiet && !args.verbose;
    let MkfsLustreArgs {
        mgs,
        mdt,
        ost,
        fsname,
        index,
        mgsnode,
        servicenode,
        reformat: replace,
        dir,
        ..
    } = args;
    let made = MkfsArgs {
        mgs,
        mdt,
        ost,
        fsname,
        index,
        mgsnode,
        servicenode,
        log: None,
        backfstype: BackFsType::Files,
        device: None,
        device_size: None,
        reformat: false,
        replace,
        dir,
    };
    mkfs::make(&made, quiet)
}

fn is_given(matches: &ArgMatches, Refused { name, takes_value, .. }: &Refused) -> bool {
    if *takes_value { matches.contains_id(name) } else { matches.get_flag(name) }
}

/// Words of `-o` that say what is so anyway.
const SO_ANYWAY: [&str; 9] = [
    "user_xattr",
    "acl",
    "lazystatfs",
    "nouser_fid2path",
    "noencrypt",
    "verbose",
    "noverbose",
    "lruresize",
    "noalways_ping",
];

const OF_SERVERS: &str = "targets are served, not mounted: sheen serve DIR";

/// Words of `-o` that cannot be had, up to an equals sign.
const MOUNT_REFUSED: [(&str, &str); 17] = [
    ("nouser_xattr", "extended attributes of users are always there"),
    ("noacl", "ACLs are always there"),
    ("nolazystatfs", "statfs never waits for a target that is away"),
    ("user_fid2path", "paths of FIDs are for root"),
    ("encrypt", "files are not encrypted"),
    ("test_dummy_encryption", "files are not encrypted"),
    ("nolruresize", "the number of locks that a client keeps always follows what it uses"),
    ("always_ping", "a client always pings what it uses"),
    ("skpath", "links are not encrypted"),
    ("context", "there are no security labels"),
    ("retry", "a mount that fails is not tried again; systemd's x-systemd.automount does that"),
    ("abort_recov", OF_SERVERS),
    ("abort_recov_mdt", OF_SERVERS),
    ("nosvc", OF_SERVERS),
    ("nomgs", OF_SERVERS),
    ("exclude", OF_SERVERS),
    ("md_stripe_cache_size", OF_SERVERS),
];

/// The definition of `mount.lustre`: that of `mount.sheen`, which takes Lustre's options as well.
pub fn mount_definition() -> clap::Command {
    let bare =
        clap::Command::new("mount.lustre").version(env!("CARGO_PKG_VERSION")).max_term_width(100);
    MountArgs::augment_args(bare)
        .after_help("Exit codes: 0 done, 1 no or not found, 2 failed, 64 wrong usage.")
}

/// Mounts.
pub fn mount(args: Vec<OsString>) -> Outcome {
    if let Some(target) =
        args.iter().skip(1).find(|word| std::path::Path::new(word).is_dir() || is_device(word))
    {
        // The first that is no option is what is mounted; a mount point comes after it.
        let first = args.iter().skip(1).find(|word| !word.to_string_lossy().starts_with('-'));
        if first == Some(target) {
            return Err(Failure::Usage(format!("{}: {OF_SERVERS}", target.display())));
        }
    }
    let matches = parse::matches(mount_definition(), args)?;
    let mut args = MountArgs::from_arg_matches(&matches).map_err(|e| parse::failure(&e))?;
    args.options = translated(&args.options, args.sloppy)?;
    mount::run(&args)
}

fn is_device(word: &OsString) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(word).is_ok_and(|found| found.file_type().is_block_device())
}

/// The words of `-o` without those that say what is so anyway; `sloppy`: nor those that cannot be
/// had.
fn translated(options: &[String], sloppy: bool) -> Result<Vec<String>, Failure> {
    let mut known = Vec::new();
    for word in options.iter().flat_map(|words| words.split(',')).map(str::trim) {
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        match MOUNT_REFUSED.iter().find(|(refused, _)| *refused == name) {
            Some(_) if sloppy => {}
            Some((_, why)) => {
                return Err(Failure::Usage(format!(
                    "the mount option {word} is not offered: {why}"
                )));
            }
            None if SO_ANYWAY.contains(&word) => {}
            None => known.push(word.to_owned()),
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_mount_are_dropped_kept_or_refused() {
        let words = |text: &str| translated(&[text.to_owned()], false);
        assert_eq!(words("flock,user_xattr,acl,lazystatfs,ro").unwrap(), ["flock", "ro"]);
        for (text, said) in [("noacl", "ACLs"), ("ro,retry=5", "retry=5"), ("nosvc", "sheen serve")]
        {
            let error = words(text).unwrap_err();
            assert_eq!(error.exit(), Exit::Usage);
            assert!(error.to_string().contains(said), "{error}");
        }
        assert_eq!(translated(&["noacl,ro".to_owned()], true).unwrap(), ["ro"]);
    }

    #[test]
    fn each_option_is_refused_once() {
        let mut names: Vec<_> = MKFS_REFUSED.iter().map(|refused| refused.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(MOUNT_REFUSED.iter().all(|(name, _)| !SO_ANYWAY.contains(name)));
    }
}
