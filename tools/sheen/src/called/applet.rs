//! Programs that the binary plays by the name it is called.
//!
//! `ln -s sheen mkfs.sheen` is all it takes. One row per name.

use crate::called::lustre_names;
use crate::cli::{MkfsArgs, MountArgs};
use crate::commands::{lctl, lfs, lnetctl, mkfs, mount};
use crate::parse;
use crate::terminal::outcome::Outcome;
use clap::{Args, FromArgMatches};
use std::ffi::OsString;
use std::path::Path;

/// One program.
pub struct Applet {
    /// The name it is called by.
    pub name: &'static str,
    /// Definition of the program, for help, man page and completion.
    pub command: fn() -> clap::Command,
    /// Parses the arguments (the first is the program's name) and runs it.
    pub run: fn(Vec<OsString>) -> Outcome,
}

/// All programs.
pub const APPLETS: &[Applet] = &[
    Applet {
        name: "mkfs.sheen",
        command: || definition::<MkfsArgs>("mkfs.sheen"),
        run: |args| mkfs::run(&parsed::<MkfsArgs>("mkfs.sheen", args)?),
    },
    Applet {
        name: "mount.sheen",
        command: || definition::<MountArgs>("mount.sheen"),
        run: |args| mount::run(&parsed::<MountArgs>("mount.sheen", args)?),
    },
    Applet { name: "mkfs.lustre", command: lustre_names::mkfs_definition, run: lustre_names::mkfs },
    Applet {
        name: "mount.lustre",
        command: lustre_names::mount_definition,
        run: lustre_names::mount,
    },
    Applet { name: "lctl", command: lctl::definition, run: lctl::called },
    Applet { name: "lfs", command: lfs::definition, run: lfs::called },
    Applet { name: "lnetctl", command: lnetctl::definition, run: lnetctl::called },
    Applet {
        name: "lshowmount",
        command: lnetctl::showmount_definition,
        run: lnetctl::showmount_called,
    },
];

/// The program of this name; the directory part of `argv0` does not count.
pub fn called_by(argv0: &Path) -> Option<&'static Applet> {
    let name = argv0.file_name()?.to_str()?;
    APPLETS.iter().find(|a| a.name == name)
}

fn definition<A: Args>(name: &'static str) -> clap::Command {
    let bare = clap::Command::new(name).version(env!("CARGO_PKG_VERSION")).max_term_width(100);
    A::augment_args(bare)
        .after_help("Exit codes: 0 done, 1 no or not found, 2 failed, 64 wrong usage.")
}

fn parsed<A: Args + FromArgMatches>(
    name: &'static str,
    args: Vec<OsString>,
) -> Result<A, crate::terminal::outcome::Failure> {
    let matches = parse::matches(definition::<A>(name), args)?;
    A::from_arg_matches(&matches).map_err(|e| parse::failure(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_without_their_directory() {
        assert_eq!(called_by(Path::new("/sbin/mount.sheen")).map(|a| a.name), Some("mount.sheen"));
        assert_eq!(called_by(Path::new("mkfs.sheen")).map(|a| a.name), Some("mkfs.sheen"));
        assert_eq!(called_by(Path::new("/usr/bin/lfs")).map(|a| a.name), Some("lfs"));
        assert_eq!(called_by(Path::new("/usr/sbin/lctl")).map(|a| a.name), Some("lctl"));
        for other in ["sheen", "/usr/bin/sheen", "mkfs", "", "/"] {
            assert!(called_by(Path::new(other)).is_none(), "{other}");
        }
    }

    #[test]
    fn every_definition_is_sound() {
        for applet in APPLETS {
            (applet.command)().debug_assert();
        }
    }
}
