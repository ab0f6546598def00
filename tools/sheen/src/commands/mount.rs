//! `mount.sheen`: what `mount -t sheen` and fstab call. Returns when the mount is in place.
//!
//! The process behind the mount is this program again, as `mount-daemon`; it ends when the kernel
//! drops the mount.

use crate::cli::{MountArgs, MountDaemonArgs};
use crate::commands::serve::Starter;
use crate::commands::up::absolute;
use crate::spawn;
use crate::terminal::outcome::{Exit, Failure, Outcome};
use crate::terminal::output;
use crate::terminal::progress::Progress;
use node::config::client_file;
use node::config::mount_options::{BadMountOption, MountOptions};
use node::config::mount_source::MountSource;
use node::config::networks::{NetSetting, Networks, Routes};
use node::config::settings::{Listen, MountSettings, Settings};
use node::host::announce::{Announce, Event, Silent};
use node::host::mount_point;
use node::lifecycle;
use rustix::mount::MountFlags;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use types::attr::AccessTimes;

/// Logs of mounts that name none.
const LOG_DIR: &str = "/var/log/sheen";

/// Mounts.
pub fn run(args: &MountArgs) -> Outcome {
    let remount =
        args.options.iter().flat_map(|words| words.split(',')).any(|word| word.trim() == "remount");
    let options = options(&args.options, args.sloppy)?;
    let at = absolute(&args.dir)?;
    if args.verbose {
        output::talk(&format!("mount {} at {} with {options}", args.source, at.display()));
    }
    if args.fake {
        return Ok(Exit::Done);
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::Failed("only root may mount: use sudo".to_owned()));
    }
    if remount {
        return self::remount(&at, &options);
    }
    check_mount_point(&at)?;
    if args.foreground {
        crate::log::start();
        lifecycle::run(settings(&args.source, &at, options)?, None, Box::new(Silent))
            .map_err(Failure::failed)?;
        return Ok(Exit::Done);
    }
    let progress = Progress::start(&format!("asking the MGS for {}", args.source.fsname));
    let log = options.log.clone().unwrap_or_else(|| log_path(&at));
    let command: [OsString; 5] = [
        "mount-daemon".into(),
        "-o".into(),
        options.to_string().into(),
        args.source.to_string().into(),
        at.as_os_str().to_owned(),
    ];
    spawn::start(&command, &log, &progress)?;
    Ok(Exit::Done)
}

/// Changes an existing mount as far as the kernel can: whether it is read-only, and options that
/// the kernel ignores.
fn remount(at: &Path, options: &MountOptions) -> Outcome {
    let there = mount_point::is_mounted(at);
    if !there.map_err(|e| Failure::Failed(format!("cannot read /proc/self/mountinfo: {e}")))? {
        return Err(Failure::Failed(format!(
            "cannot remount {}: no SheenFS is mounted there",
            at.display()
        )));
    }
    let mut flags = MountFlags::empty();
    for (wanted, flag) in [
        (options.read_only, MountFlags::RDONLY),
        (options.no_suid, MountFlags::NOSUID),
        (options.no_dev, MountFlags::NODEV),
        (options.no_exec, MountFlags::NOEXEC),
        // What the mount's process does stays; this is what `/proc/mounts` says of it.
        (options.access_times == AccessTimes::Off, MountFlags::NOATIME),
        (options.access_times == AccessTimes::Strict, MountFlags::STRICTATIME),
        (options.nodiratime, MountFlags::NODIRATIME),
    ] {
        flags.set(flag, wanted);
    }
    rustix::mount::mount_remount(at, flags, c"").map_err(|errno| {
        let why = match errno {
            rustix::io::Errno::BUSY => {
                "files are open for writing; fuser -vm shows by whom".to_owned()
            }
            errno => std::io::Error::from(errno).to_string(),
        };
        Failure::Failed(format!("cannot remount {}: {why}", at.display()))
    })?;
    Ok(Exit::Done)
}

/// The process behind a mount.
pub fn daemon(args: &MountDaemonArgs) -> Outcome {
    crate::log::start();
    rustix::process::setsid()
        .map_err(|e| Failure::Failed(format!("cannot start a session: {e}")))?;
    let ran = settings(&args.source, &args.dir, args.options.clone()).and_then(|settings| {
        lifecycle::run(settings, None, Box::new(Starter)).map_err(Failure::failed)
    });
    match ran {
        Ok(()) => Ok(Exit::Done),
        Err(e) => {
            Starter.event(Event::Failed { reason: e.to_string() });
            Err(e)
        }
    }
}

/// Networks, as the mount option says, else this host's file; routes, and whether servers of this
/// host are connected within it, as the file says.
fn networks(at: &Path, options: &MountOptions) -> Result<(Networks, Routes, bool), Failure> {
    let file = client_file::read(options.config.as_deref())
        .map_err(|e| Failure::Failed(format!("cannot mount at {}: {e}", at.display())))?;
    let networks = match options.network {
        Some(net) => Networks(vec![NetSetting { net, on: Vec::new() }]),
        None => file.networks,
    };
    Ok((networks, file.routes, file.local))
}

fn settings(source: &MountSource, at: &Path, options: MountOptions) -> Result<Settings, Failure> {
    let (networks, routes, local) = networks(at, &options)?;
    Ok(Settings {
        fsname: source.fsname,
        listen: Listen::None,
        networks,
        routes,
        local: local && !options.no_local,
        mgs: source.mgs.clone(),
        http: options.http,
        http_token_file: options.http_token_file.clone(),
        checksums: !options.no_checksums,
        key: options.key.clone(),
        mounts: vec![MountSettings {
            at: at.to_owned(),
            directory: source.directory.clone(),
            options,
        }],
        ..Settings::default()
    })
}

/// All `-o` together. Sloppy (`-s`, from autofs) drops unknown ones, as mount(8) documents.
fn options(words: &[String], sloppy: bool) -> Result<MountOptions, Failure> {
    let all = words.join(",");
    // It is no option of the mount, but the action.
    let all = all.split(',').filter(|word| word.trim() != "remount").collect::<Vec<_>>().join(",");
    let text = if sloppy {
        let known =
            |w: &&str| !matches!(w.parse::<MountOptions>(), Err(BadMountOption::Unknown(_)));
        all.split(',').filter(known).collect::<Vec<_>>().join(",")
    } else {
        all
    };
    text.parse().map_err(|e: BadMountOption| Failure::Usage(e.to_string()))
}

fn check_mount_point(at: &Path) -> Result<(), Failure> {
    let fail =
        |e: std::io::Error| Failure::Failed(format!("cannot mount at {}: {e}", at.display()));
    mount_point::clear_dead(at).map_err(Failure::failed)?;
    match std::fs::metadata(at).map_err(fail)?.is_dir() {
        true => Ok(()),
        false => {
            Err(Failure::Failed(format!("cannot mount at {}: it is no directory", at.display())))
        }
    }
}

/// One log per mount point: `/var/log/sheen/mnt-sheen.log` for `/mnt/sheen`.
fn log_path(at: &Path) -> PathBuf {
    let name = at.to_string_lossy().trim_matches('/').replace('/', "-");
    Path::new(LOG_DIR).join(format!("{name}.log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sloppy_drops_only_what_is_unknown() {
        let words = ["ro,bogus".to_owned(), "noatime".to_owned()];
        assert_eq!(options(&words, true).unwrap().to_string(), "ro,noatime");
        let error = options(&words, false).unwrap_err();
        assert_eq!(error.exit(), Exit::Usage);
        assert!(error.to_string().contains("\"bogus\""));
        assert!(
            options(&["log".to_owned()], true).is_err(),
            "a known option without its value stays an error"
        );
    }

    #[test]
    fn logs_are_named_for_the_mount_point() {
        assert_eq!(log_path(Path::new("/mnt/sheen")), Path::new("/var/log/sheen/mnt-sheen.log"));
    }
}
