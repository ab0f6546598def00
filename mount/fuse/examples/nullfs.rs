//! Mounts an empty file system: `nullfs MOUNTPOINT [--valid SECONDS] [--keep BYTES] [--threads N]`,
//! until SIGTERM or Ctrl-C.
//!
//! A benchmark of it measures the cost of kernel and transport; nothing is stored.

use env::real::{RealConfig, RealEnv};
use fuse::mount::MountOptions;
use fuse::null::{NullConfig, NullFs};
use fuse::process::Processes;
use fuse::session::Session;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nullfs: {error}");
            ExitCode::from(2)
        }
    }
}

type Failure = Box<dyn std::error::Error>;

fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let mut mount_point: Option<PathBuf> = None;
    let mut config = NullConfig::default();
    let mut options = MountOptions { source: "null".to_owned(), ..MountOptions::default() };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--valid" => config.valid = Duration::from_secs(value()?.parse()?),
            "--keep" => config.kept_bytes_max = value()?.parse()?,
            "--threads" => options.threads = Some(value()?.parse()?),
            path if !path.starts_with('-') && mount_point.is_none() => {
                mount_point = Some(path.into())
            }
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    let mount_point = mount_point
        .ok_or("usage: nullfs MOUNTPOINT [--valid SECONDS] [--keep BYTES] [--threads N]")?;

    let (env, _guard) = RealEnv::start(RealConfig::default())?;
    fuse::stale::clear_stale_mount(&*env.tasks, &mount_point)?;
    let fs = Arc::new(NullFs::new(env.clone(), config));
    let session = Session::mount(&env, fs, Arc::new(Processes::default()), &mount_point, &options)?;
    println!("mounted {}", session.path().display());
    wait(&session)?;
    session.unmount()?;
    Ok(())
}

/// Until a signal, or until it is unmounted.
fn wait(session: &Session) -> Result<(), Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            _ = terminate.recv() => {}
            ctrl_c = tokio::signal::ctrl_c() => ctrl_c?,
            () = session.ended() => {}
        }
        Ok(())
    })
}
