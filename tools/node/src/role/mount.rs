//! A mount: a client, and the kernel's door to it.

use crate::config::mount_options::{LockStyle, MountOptions};
use crate::config::mount_source::MountSource;
use crate::config::settings::MountSettings;
use crate::error::NodeError;
use crate::host::memory::memory_kib;
use crate::role::parts::{Parts, blocking};
use client::client::{Client, ClientOptions};
use client::error::ClientError;
use client::read_ahead::ReadAheadLimits;
use env::clock::Monotonic;
use fuse::interrupt::Waiting;
use fuse::ops::kernel::{Kernel, MINOR_WITH_EPOCH};
use fuse::ops::teach::teach;
use fuse::ops::{ClientFs, Style};
use fuse::process::Processes;
use fuse::session::Session;
use fuse::stale;
use futures_util::future::join_all;
use rpc::error::RpcError;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use stubs::mgc::Mgc;
use stubs::osc::Osc;
use types::attr::AccessTimes;
use types::errno::Errno;
use types::nid::Nid;
use types::target::{FsName, TargetKind, TargetName};

/// Servers may be starting too: a mount waits this long for the MGS, MDT0000 and the first OST.
const SERVERS_WAIT: Duration = Duration::from_secs(15);
/// Configured OSTs get this long to answer. A mount needs none of them: programs wait for them.
const OSTS_WAIT: Duration = Duration::from_secs(1);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// One mount in service.
pub struct MountRole {
    at: PathBuf,
    client: Arc<Client>,
    session: Session,
}

impl MountRole {
    /// Reaches the file system and mounts it.
    ///
    /// # Errors
    /// The servers do not answer in time, or the kernel refuses.
    pub async fn start(
        parts: &Parts,
        fsname: FsName,
        settings: &MountSettings,
    ) -> Result<MountRole, NodeError> {
        let at = settings.at.clone();
        let mut style = style_of(settings.options.locks);
        let mut options = ClientOptions {
            opens: style.opens(),
            access_times: match settings.options.read_only {
                true => AccessTimes::Off,
                false => settings.options.access_times,
            },
            nodiratime: settings.options.nodiratime,
            mgs: parts.mgs.clone(),
            fsname,
            directory: settings.directory.clone(),
            description: format!("{}:{}", parts.host, at.display()),
            soft: settings.options.soft,
        };
        let failed = |e| NodeError::Client { at: at.clone(), source: Box::new(e) };
        let mut client = reach(parts, &options).await.map_err(failed)?;
        if !client.callers().are_themselves() && !style.opens() {
            // The kernel would open for root without asking.
            tracing::warn!(
                at = %at.display(),
                "the servers squash root or all users of this host, so opens are seen: mounted with flock"
            );
            client.unmount().await;
            style = Style::Flock;
            options.opens = true;
            client = reach(parts, &options).await.map_err(failed)?;
        }
        let read_only = client.is_read_only() || settings.options.read_only;
        if read_only && !settings.options.read_only {
            tracing::warn!(
                at = %at.display(),
                "the nodemap of this host lets it change nothing (readonly_mount): mounted read-only"
            );
            if options.access_times != AccessTimes::Off {
                client.unmount().await;
                options.access_times = AccessTimes::Off;
                client = reach(parts, &options).await.map_err(failed)?;
            }
        }
        let session = {
            let (env, parts, at, client) = (&parts.env, parts.clone(), at.clone(), client.clone());
            let mut options =
                fuse_options(source(&parts.mgs, fsname, settings), &settings.options, style);
            options.read_only = read_only;
            blocking(env, "mounted", move || {
                stale::clear_stale_mount(&*parts.env.tasks, &at)?;
                let processes = Arc::new(Processes::with_jobs(parts.jobs.clone()));
                let fs = Arc::new(ClientFs::new(client, processes.clone(), style));
                Session::mount(&parts.env, fs, processes, &at, &options)
            })
            .await?
        };
        match session {
            Ok(session) => {
                match session.notifier() {
                    Some(notifier) if session.agreed().has_minor(MINOR_WITH_EPOCH) => {
                        client.attach_kernel(Arc::new(Kernel::new(
                            notifier,
                            session.apart(),
                            style.opens(),
                            session.device_number(),
                        )));
                    }
                    _ => tracing::warn!(
                        "this kernel cannot be told to forget: it asks for everything each time"
                    ),
                }
                if !style.opens() {
                    let at = session.path().to_owned();
                    if let Err(errno) = blocking(&parts.env, "taught", move || teach(&at)).await? {
                        tracing::warn!(%errno, "the kernel did not learn that opening needs no message");
                    }
                }
                Ok(MountRole { at, client, session })
            }
            Err(error) => {
                client.unmount().await;
                Err(NodeError::Mount { at, source: Box::new(error) })
            }
        }
    }

    /// The client behind it.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Requests of the kernel that wait.
    pub fn waiting(&self) -> &Arc<Waiting> {
        self.session.waiting()
    }

    /// Ready when the kernel has let go of the mount.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        self.session.ended()
    }

    /// Unmounts and ends the client's sessions. Programs that still use the mount get errors.
    ///
    /// # Errors
    /// The kernel refuses, or requests do not end.
    pub async fn stop(self, parts: &Parts) -> Result<(), NodeError> {
        let MountRole { at, client, session } = self;
        let unmounted = blocking(&parts.env, "unmounted", move || session.unmount()).await?;
        client.unmount().await;
        unmounted.map_err(|e| NodeError::Mount { at, source: Box::new(e) })
    }
}

/// Source that `mount` and `df` show.
pub fn source(mgs: &[Nid], fsname: FsName, settings: &MountSettings) -> String {
    let directory = settings.directory.clone();
    MountSource { mgs: mgs.to_vec(), fsname, directory }.to_string()
}

/// Asks for the file system until it is there, or is not there for too long.
async fn reach(parts: &Parts, options: &ClientOptions) -> Result<Arc<Client>, ClientError> {
    let deadline: Monotonic = parts.env.clock.now() + SERVERS_WAIT;
    loop {
        match Client::mount(parts.env.clone(), parts.rpc.clone(), options.clone()).await {
            Ok(client) => {
                if let Ok(kib) = memory_kib() {
                    client.read_ahead().set_limits(ReadAheadLimits::of_memory(kib << 10));
                }
                wait_for_osts(parts, options.fsname, deadline).await;
                return Ok(client);
            }
            Err(error) if !may_pass(&error) || parts.env.clock.now() >= deadline => {
                return Err(error);
            }
            Err(error) => {
                tracing::debug!(%error, "not yet");
                parts.env.clock.sleep(PAUSE).await;
            }
        }
    }
}

/// Waits until there is an OST, because without one no file can be made, and a moment for the
/// others. An early program shall not see a smaller file system only because a cluster is still
/// starting.
async fn wait_for_osts(parts: &Parts, fsname: FsName, deadline: Monotonic) {
    let mgs = parts.short_session(TargetName::mgs(), parts.mgs.clone());
    let mgc = Mgc::new(mgs.clone());
    let clock = &parts.env.clock;
    let left = || deadline.saturating_sub(clock.now());
    tokio::select! {
        biased;
        osts = some_osts(parts, &mgc, fsname) => tokio::select! {
            biased;
            () = all_answer(parts, osts) => {}
            () = clock.sleep(left().min(OSTS_WAIT)) => tracing::warn!("mounting although not all OSTs answer"),
        },
        () = clock.sleep(left()) => tracing::warn!("mounting although there is no OST yet"),
    }
    tokio::select! {
        biased;
        () = mgs.disconnect() => {}
        () = clock.sleep(OSTS_WAIT) => {}
    }
}

/// The OSTs of the configuration, as soon as there is one.
async fn some_osts(parts: &Parts, mgc: &Mgc, fsname: FsName) -> Vec<(TargetName, Vec<Nid>)> {
    loop {
        match mgc.config(fsname.to_string(), 0, 0).await {
            Ok(config) => {
                let osts = config.targets.iter().filter_map(|info| {
                    let name: TargetName = info.name.parse().ok()?;
                    let nids = info.nids.iter().filter_map(|nid| nid.parse().ok()).collect();
                    (name.kind == TargetKind::Ost).then_some((name, nids))
                });
                let osts: Vec<_> = osts.collect();
                if !osts.is_empty() {
                    return osts;
                }
                tracing::debug!("no OST yet");
            }
            Err(error) => tracing::debug!(%error, "no configuration yet"),
        }
        parts.env.clock.sleep(PAUSE).await;
    }
}

/// Ready when each of them answers.
async fn all_answer(parts: &Parts, osts: Vec<(TargetName, Vec<Nid>)>) {
    let until_answered = |(name, nids): (TargetName, Vec<Nid>)| async move {
        let import = parts.short_session(name, nids);
        while let Err(error) = Osc::new(import.clone()).statfs().await {
            tracing::debug!(%name, %error, "does not answer yet");
            parts.env.clock.sleep(PAUSE).await;
        }
        import.disconnect().await;
    };
    join_all(osts.into_iter().map(until_answered)).await;
}

/// True if the error is usual while a cluster starts.
fn may_pass(error: &ClientError) -> bool {
    use RpcError::{NoTarget, Timeout, Unreachable};
    matches!(
        error,
        // MDTs hear of a changed fileset one after the other, and mark its tree then.
        ClientError::NoDirectory { errno: Errno::ESTALE | Errno::EAGAIN, .. }
            | ClientError::NoFileSystem { .. }
            | ClientError::Rpc(Unreachable { .. } | NoTarget { .. } | Timeout { .. })
    )
}

fn style_of(locks: LockStyle) -> Style {
    match locks {
        LockStyle::Flock => Style::Flock,
        LockStyle::LocalFlock => Style::LocalFlock,
        LockStyle::NoFlock => Style::NoFlock,
    }
}

fn fuse_options(source: String, options: &MountOptions, style: Style) -> fuse::mount::MountOptions {
    fuse::mount::MountOptions {
        source,
        read_only: options.read_only,
        nosuid: options.no_suid,
        nodev: options.no_dev,
        noexec: options.no_exec,
        access_times: options.access_times,
        nodiratime: options.nodiratime,
        locks: style != Style::LocalFlock,
        ..fuse::mount::MountOptions::default()
    }
}
