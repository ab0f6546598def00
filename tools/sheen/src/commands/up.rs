//! `sheen up`: from nothing, or from what is there, to a mounted file system.
//!
//! Plan (pure) -> make missing targets -> write the settings -> start the process that serves and
//! mounts -> wait until it is in service. A second `up` with the same settings changes nothing.

use crate::cli::{HOME_DEFAULT, UpArgs};
use crate::commands::auth;
use crate::commands::status::unusable;
use crate::spawn;
use crate::terminal::outcome::{Exit, Failure, Outcome};
use crate::terminal::output;
use crate::terminal::progress::Progress;
use node::config::format::{self, FormatSpec};
use node::config::plan::{Plan, Wanted, plan};
use node::config::security::Security;
use node::config::settings::{Listen, Settings};
use node::home::{Home, HomeGuard};
use node::host::announce::{Announce, Event};
use node::host::mount_point;
use node::host::mount_table;
use node::lifecycle;
use node::manage::control::{self, Answer, ControlError, Request};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use types::target::TargetIndex;

/// How long a process that holds the home without answering is waited for.
const PREDECESSOR_WAIT: Duration = Duration::from_secs(10);
/// Pause between two looks at it.
const PREDECESSOR_PAUSE: Duration = Duration::from_millis(20);

/// Brings a node up.
pub fn run(args: &UpArgs) -> Outcome {
    let dir = absolute(args.dir.as_deref().unwrap_or(Path::new(HOME_DEFAULT)))?;
    let home = Home::new(dir);
    let wanted = Wanted {
        mount: args.mount.as_deref().map(absolute).transpose()?,
        mdts: args.mdts,
        osts: args.osts,
        fsname: args.fsname,
        listen: args.listen,
        http: args.http,
        http_token_file: args.http_token_file.as_deref().map(absolute).transpose()?,
        security: args.security,
        key: args.key.as_deref().map(absolute).transpose()?,
        stripe_count: args.stripe_count,
        dom_bytes: args.dom_size.map(|size| size.0),
        ost_bytes: args.ost_size.map(|s| s.0),
    };
    if home.dir().exists() && !home.dir().is_dir() {
        return Err(Failure::Failed(format!(
            "{} is no directory: choose another DIR",
            home.dir().display()
        )));
    }
    let deadline = Instant::now() + PREDECESSOR_WAIT;
    while home.is_taken().map_err(|e| unusable(&home, &e))? {
        match control::ask(&home, &Request::Settings) {
            // A killed process holds the home until its last thread is gone; a new one does before
            // it answers.
            Err(
                ControlError::NotUp(_) | ControlError::Socket { .. } | ControlError::Silent { .. },
            ) if Instant::now() < deadline => {
                std::thread::sleep(PREDECESSOR_PAUSE);
            }
            answer => return already_up(&home, &wanted, answer),
        }
    }
    let before = match Settings::read(&home) {
        Ok(settings) => Some(settings),
        Err(_) if !home.settings_path().exists() => None,
        Err(e) => return Err(Failure::failed(e)),
    };
    let plan = plan(&home, before.as_ref(), &wanted).map_err(Failure::failed)?;
    plan.settings.check().map_err(|e| Failure::Usage(e.to_string()))?;
    need_root(&plan)?;

    let progress = Progress::start("preparing");
    let settings = prepare(&home, &plan, before.as_ref(), &progress)?;
    for mount in &settings.mounts {
        prepare_mount_point(&mount.at)?;
    }
    if args.foreground {
        drop(progress);
        return foreground(&home, settings);
    }
    progress.step("starting");
    let command = ["serve".into(), "--announce".into(), home.dir().as_os_str().to_owned()];
    spawn::start(&command.map(OsString::from), &home.log_path(), &progress)?;
    drop(progress);
    print_mounts(&settings)?;
    Ok(Exit::Done)
}

/// A node runs there: checks whether it is the wanted one.
fn already_up(
    home: &Home,
    wanted: &Wanted,
    answer: Result<(Answer, i32), ControlError>,
) -> Outcome {
    let settings = match answer {
        Ok((Answer::Settings { settings }, _)) => *settings,
        Ok((other, _)) => {
            return Err(Failure::Failed(format!("the node answers something else: {other:?}")));
        }
        Err(e) => return Err(Failure::failed(e)),
    };
    let plan = plan(home, Some(&settings), wanted).map_err(Failure::failed)?;
    if plan.settings != settings {
        return Err(Failure::Failed(format!(
            "{} is up with other settings: first `sheen down {0}`, then up again",
            home.dir().display()
        )));
    }
    output::talk(&format!("{} is already up", home.dir().display()));
    print_mounts(&settings)?;
    Ok(Exit::Done)
}

fn print_mounts(settings: &Settings) -> Result<(), Failure> {
    let lines: String = settings.mounts.iter().map(|m| format!("{}\n", m.at.display())).collect();
    output::data(&lines)
}

/// An absolute path without symbolic links as far as it exists, so that one directory is one home.
pub fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let path = std::path::absolute(path)
        .map_err(|e| Failure::Usage(format!("{} is no usable path: {e}", path.display())))?;
    // The last component may be a dead mount: it is not looked at.
    Ok(mount_table::resolve_parent(&path).unwrap_or(path))
}

fn need_root(plan: &Plan) -> Result<(), Failure> {
    if plan.settings.mounts.is_empty() || rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Failure::Failed("only root may mount: use sudo".to_owned()))
}

/// Makes what is missing in the home. Returns the settings, as they are written there.
fn prepare(
    home: &Home,
    plan: &Plan,
    before: Option<&Settings>,
    progress: &Progress,
) -> Result<Settings, Failure> {
    let unwritable =
        |e: io::Error| Failure::Failed(format!("cannot make {}: {e}", home.dir().display()));
    fs::create_dir_all(home.dir()).map_err(unwritable)?;
    for target in &plan.targets {
        if format::is_target(&target.dir) {
            continue;
        }
        progress.step(&format!("making {}", target.dir.display()));
        let spec = FormatSpec {
            kind: target.kind,
            fsname: plan.settings.fsname,
            index: Some(TargetIndex(target.index)),
            dir: target.dir.clone(),
            log: None,
            mgs: Vec::new(),
            volume: None,
            replace: false,
        };
        format::format(&spec).map_err(Failure::failed)?;
    }
    let mut settings = plan.settings.clone();
    if before.is_none()
        && settings.security == Security::Auto
        && settings.key.is_none()
        && let Listen::At(address) = settings.listen
        && !address.ip().to_canonical().is_loopback()
        && address.port() != 0
    {
        // Other hosts are to reach a cluster that is being founded here: with keys.
        auth::secure_new(home, address)?;
        settings.security = Security::On;
    }
    if before != Some(&settings) {
        settings.write(home).map_err(Failure::failed)?;
    }
    Ok(settings)
}

/// Makes the mount point, after clearing what a killed process left there.
pub fn prepare_mount_point(at: &Path) -> Result<(), Failure> {
    let fail = |e: io::Error| Failure::Failed(format!("cannot mount at {}: {e}", at.display()));
    if mount_point::clear_dead(at).map_err(Failure::failed)? {
        output::talk(&format!("cleared the dead mount at {}", at.display()));
    }
    fs::create_dir_all(at).map_err(fail)?;
    Ok(())
}

fn foreground(home: &Home, settings: Settings) -> Outcome {
    crate::log::start();
    let guard = take(home)?;
    let announce = PrintReady {
        lines: settings.mounts.iter().map(|m| format!("{}\n", m.at.display())).collect(),
    };
    lifecycle::run(settings, Some(guard), Box::new(announce)).map_err(Failure::failed)?;
    Ok(Exit::Done)
}

/// Takes the home for this process.
pub fn take(home: &Home) -> Result<HomeGuard, Failure> {
    match home.take() {
        Ok(Some(guard)) => Ok(guard),
        Ok(None) => {
            Err(Failure::Failed(format!("a node runs in {} already", home.dir().display())))
        }
        Err(e) => Err(unusable(home, &e)),
    }
}

/// Prints the mount points when they can be used.
struct PrintReady {
    lines: String,
}

impl Announce for PrintReady {
    fn event(&mut self, event: Event) {
        if let Event::Ready { .. } = event {
            // A closed pipe is the reader's business; the node goes on.
            let _ = output::data(&self.lines);
        }
    }
}
