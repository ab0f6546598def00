//! `sheen serve`: the foreground process behind `up`, or one started by hand or by systemd for some
//! targets.

use crate::cli::ServeArgs;
use crate::commands::up::{absolute, take};
use crate::terminal::outcome::{Exit, Failure, Outcome};
use node::config::format;
use node::config::settings::Settings;
use node::home::Home;
use node::host::announce::{Announce, Event, Lines, Silent};
use node::host::lease_end;
use node::lifecycle;
use std::io;

/// Ends the leases of the process at the other end of standard input, when that is gone.
pub fn end_leases() -> Outcome {
    lease_end::end_leases(io::stdin().lock()).map_err(Failure::failed)?;
    Ok(Exit::Done)
}

/// Serves until told to stop.
pub fn run(args: &ServeArgs) -> Outcome {
    crate::log::start();
    if !args.announce {
        serve(args, Box::new(Silent))?;
        return Ok(Exit::Done);
    }
    // A terminal's Ctrl-C or hang-up is for the starter, not for this process.
    rustix::process::setsid()
        .map_err(|e| Failure::Failed(format!("cannot start a session: {e}")))?;
    match serve(args, Box::new(Starter)) {
        Ok(()) => Ok(Exit::Done),
        Err(failure) => {
            Starter.event(Event::Failed { reason: failure.to_string() });
            Err(failure)
        }
    }
}

fn serve(args: &ServeArgs, announce: Box<dyn Announce>) -> Result<(), Failure> {
    let (home, settings) = settings(args)?;
    let guard = take(&home)?;
    if let Some(size) = args.ost_size {
        keep_ost_size(&home, &settings, size.0)?;
    }
    lifecycle::run(settings, Some(guard), announce).map_err(Failure::failed)
}

/// Settings from the home, or from the targets and the flags. Flags win.
fn settings(args: &ServeArgs) -> Result<(Home, Settings), Failure> {
    let dirs = args.dirs.iter().map(|d| absolute(d)).collect::<Result<Vec<_>, _>>()?;
    let home = Home::new(&dirs[0]);
    let mut settings = Settings::default();
    if let ([dir], true) =
        (&dirs[..], home.settings_path().exists() && !format::is_target(&dirs[0]))
    {
        settings = Settings::read(&Home::new(dir)).map_err(Failure::failed)?;
    } else {
        for dir in dirs {
            if !format::is_target(&dir) {
                return Err(Failure::Failed(format!(
                    "{} holds no target: make one with mkfs.sheen, or a whole file system with `sheen up`",
                    dir.display()
                )));
            }
            // mkfs.sheen --mgsnode and an earlier --ost-size left them there.
            let own = Home::new(&dir);
            if own.settings_path().exists() {
                let before = Settings::read(&own).map_err(Failure::failed)?;
                if let Some(bytes) = before.ost_bytes {
                    settings.ost_bytes_of.insert(dir.clone(), bytes);
                }
                for nid in before.service_nodes {
                    if !settings.service_nodes.contains(&nid) {
                        settings.service_nodes.push(nid);
                    }
                }
                settings.mgs.extend(
                    before.mgs.iter().filter(|nid| !settings.mgs.contains(nid)).collect::<Vec<_>>(),
                );
            }
            settings.targets.push(dir);
        }
    }
    if !args.mgsnode.is_empty() {
        settings.mgs = args.mgsnode.clone();
    }
    if !args.servicenode.is_empty() {
        settings.service_nodes = args.servicenode.clone();
    }
    settings.listen = args.listen.unwrap_or(settings.listen);
    if let Some(networks) = &args.networks {
        settings.networks = networks.clone();
    }
    if let Some(routes) = &args.routes {
        settings.routes = routes.clone();
    }
    settings.local = args.local.unwrap_or(settings.local);
    settings.http = args.http.unwrap_or(settings.http);
    if let Some(file) = &args.http_token_file {
        settings.http_token_file = Some(absolute(file)?);
    }
    if let Some(file) = &args.key {
        settings.key = Some(absolute(file)?);
    }
    settings.security = args.security.unwrap_or(settings.security);
    settings.stripe_count = args.stripe_count.unwrap_or(settings.stripe_count);
    settings.dom_bytes = args.dom_size.map_or(settings.dom_bytes, |size| size.0);
    settings.ost_bytes = args.ost_size.map(|s| s.0).or(settings.ost_bytes);
    settings.check().map_err(Failure::failed)?;
    Ok((home, settings))
}

/// The size stays when the server is started again without it: a forgotten limit would let an OST
/// fill its volume. A home keeps it in its own settings, a single OST in those of its directory.
fn keep_ost_size(home: &Home, settings: &Settings, bytes: u64) -> Result<(), Failure> {
    let keep = |home: &Home, fresh: Settings| {
        let mut settings = if home.settings_path().exists() {
            Settings::read(home).map_err(Failure::failed)?
        } else {
            fresh
        };
        settings.ost_bytes = Some(bytes);
        settings.write(home).map_err(Failure::failed)
    };
    if !format::is_target(home.dir()) {
        return keep(home, settings.clone());
    }
    for dir in settings.targets.iter().filter(|dir| format::is_ost(dir)) {
        let fresh =
            Settings { targets: vec![dir.clone()], fsname: settings.fsname, ..Settings::default() };
        keep(&Home::new(dir), fresh)?;
    }
    Ok(())
}

/// The process that started this one and reads its standard output.
pub struct Starter;

impl Announce for Starter {
    fn event(&mut self, event: Event) {
        let last = !matches!(event, Event::Step { .. });
        Lines(io::stdout()).event(event);
        if last {
            close_stdout();
        }
    }
}

/// The starter waits for the end of the output; later output has no reader.
fn close_stdout() {
    let null = std::fs::File::options().write(true).open("/dev/null");
    match null.and_then(|f| Ok(rustix::stdio::dup2_stdout(f)?)) {
        Ok(()) => {}
        Err(error) => tracing::warn!(%error, "cannot close standard output"),
    }
}
