//! The life of a node's process: start, tell that it is up, wait for a reason to end, stop in
//! order.
//!
//! The process enters the registry of local daemons (`local`), so that `lctl` finds its control
//! socket.
//!
//! Reasons to end: SIGTERM, SIGINT, or, if the process only mounts, the end of its mounts. The main
//! thread runs a small runtime of its own for signals and the control socket; everything else runs
//! on the reactors of `env`.

use crate::config::settings::Settings;
use crate::error::NodeError;
use crate::home::{Home, HomeGuard};
use crate::host::announce::{Announce, Event};
use crate::host::descriptors::{self, Bounds, DescriptorUsers};
use crate::host::shared_log::mgs_nids;
use crate::host::{keys, rlimit};
use crate::local;
use crate::manage::admin;
use crate::manage::control::{self, Answer, Request};
use crate::manage::known::Known;
use crate::manage::security::{Secured, obey};
use crate::node::Node;
use crate::role::parts::Parts;
use crate::watch::audit_log::AuditLog;
use crate::watch::reporter::Reporter;
use crate::watch::status::NodeState;
use crate::watch::view::View;
use crate::watch::web::{self, Web};
use env::Env;
use env::real::{RealConfig, RealEnv};
use futures_util::future::{BoxFuture, FutureExt, select_all};
use rpc::{Rpc, RpcConfig};
use seal::keys::Keys;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use types::nid::Nid;
use types::principal::Role;
use types::session::ClusterId;

/// A key that is good for fewer days is warned of.
const EXPIRY_WARNING_DAYS: i64 = 30;

/// Runs a node until it is told to end. `home` gets the control socket; that of a bare mount is in
/// the registry. Blocks.
///
/// # Errors
/// The node cannot start, or could not stop in order.
pub fn run(
    settings: Settings,
    home: Option<HomeGuard>,
    announce: Box<dyn Announce>,
) -> Result<(), NodeError> {
    settings.check()?;
    let open_files = rlimit::raise_open_files();
    let wanted = DescriptorUsers { targets: settings.targets.len(), mounts: settings.mounts.len() };
    let bounds = descriptors::divide(open_files, wanted)?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        pid = std::process::id(),
        open_files,
        links = bounds.links,
        object_files = bounds.object_files,
        "node starts"
    );
    for line in settings.to_toml().lines().filter(|l| !l.is_empty()) {
        tracing::info!("setting: {line}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(NodeError::Process)?;
    let (env, reactors) = RealEnv::start(RealConfig::default()).map_err(NodeError::Process)?;
    let result = runtime.block_on(live(env, settings, bounds, home.as_ref(), announce));
    drop(runtime);
    drop(reactors);
    match &result {
        Ok(()) => tracing::info!("node ends"),
        Err(error) => tracing::error!(%error, "node ends"),
    }
    result
}

async fn live(
    env: Env,
    settings: Settings,
    bounds: Bounds,
    home: Option<&HomeGuard>,
    mut announce: Box<dyn Announce>,
) -> Result<(), NodeError> {
    let mut told = Told::new()?;
    let rpc =
        Rpc::new(env.clone(), RpcConfig { cluster: ClusterId(0), checksums: settings.checksums });
    // What a router accepts, it connects to another node.
    let sockets_per_link = if settings.forwards.is_empty() { 1 } else { 2 };
    rpc.accept_at_most(bounds.links / sockets_per_link);
    let place = home
        .map(|h| h.home().dir())
        .or(settings.mounts.first().map(|m| &*m.at))
        .unwrap_or(Path::new(""));
    let mut parts = Parts::new(env, rpc, mgs_nids(&settings), place);
    parts.service_nodes.clone_from(&settings.service_nodes);
    parts.audit = home.map(|h| AuditLog::new(&parts.env, h.home().audit_path()));
    let secured = secure(&settings, &mut parts, home.map(HomeGuard::home))?;
    let view = Arc::new(View::new(home.map(|h| h.home().clone()), settings.clone(), parts.clone()));
    let enrolled = match local::enrol(home.map(|h| h.home())) {
        Ok(enrolled) => Some(enrolled),
        Err(error) => {
            tracing::warn!(%error, "lctl will not find this process: it cannot enter the registry of daemons");
            None
        }
    };
    let control = match (home, &enrolled) {
        (Some(guard), _) => Some(start_control(guard.home(), view.clone())?),
        (None, Some(enrolled)) => Some(start_control(&enrolled.home(), view.clone())?),
        (None, None) => None,
    };
    let public = enrolled.as_ref().and_then(|enrolled| match start_public(&enrolled.home(), view.clone()) {
        Ok(public) => Some(public),
        Err(error) => {
            tracing::warn!(%error, "users other than the owner cannot ask this process for its devices");
            None
        }
    });

    let http = match web::start(&settings, &view).await {
        Ok(http) => http,
        Err(error) => {
            end_control(control).await;
            end_control(public).await;
            return Err(error);
        }
    };

    let only_mounts = settings.targets.is_empty();
    let mut node = Node::new(settings, bounds, parts.clone(), view.clone(), secured);
    let started = tokio::select! {
        started = node.start(&mut *announce) => started,
        signal = told.next() => {
            tracing::info!(signal, "told to end while starting");
            let stopped = node.stop().await;
            end_control(public).await;
            end_doors(control, http).await;
            return stopped;
        }
    };
    let result = match started {
        Ok(()) => {
            view.set_state(NodeState::Up);
            announce.event(Event::Ready {
                nids: parts.rpc.nids().iter().map(Nid::to_string).collect(),
            });
            tracing::info!("in service");
            let _reporting = Reporter::start(&view);
            wait_for_the_end(&node, only_mounts, &mut told).await;
            Ok(())
        }
        Err(error) => {
            tracing::error!(%error, "cannot start");
            Err(error)
        }
    };
    view.set_state(NodeState::Stopping);
    let stopped = node.stop().await;
    end_control(public).await;
    end_doors(control, http).await;
    result.and(stopped)
}

/// Gives the process its key, if it has one.
fn secure(
    settings: &Settings,
    parts: &mut Parts,
    home: Option<&Home>,
) -> Result<Option<Secured>, NodeError> {
    let Some((path, key)) = keys::of(settings)? else { return Ok(None) };
    let principal = key.principal();
    if !settings.targets.is_empty() && principal.role != Role::Server {
        return Err(NodeError::KeyRole { path, principal: Box::new(principal.clone()) });
    }
    let keys = Keys::new(&key, parts.env.clock.clone())?;
    tracing::info!(key = %path.display(), owner = %principal, "secured: every connection must show a key");
    let days = (key.expires() - parts.env.clock.wall().sec).div_euclid(86_400);
    // A site renews its keys by itself, some each hour.
    if days < EXPIRY_WARNING_DAYS && !key.is_of_site() {
        tracing::warn!(key = %path.display(), days, "the key expires soon: `sheen auth issue` makes another");
    }
    assert!(parts.rpc.set_seal(keys.clone()), "it was made just now");
    parts.keys = Some(keys.clone());
    // Before anything is accepted.
    if let Some(home) = home {
        let known = Known::at(home.known_path());
        obey(parts, &known.read());
        parts.known = Some(known);
    }
    let secured = Secured::new(keys, path);
    secured.follow_file(parts);
    secured.follow_tickets(parts, home.map(Home::tickets_path));
    Ok(Some(secured))
}

async fn wait_for_the_end(node: &Node, only_mounts: bool, told: &mut Told) {
    let mount_ended: BoxFuture<'static, ()> =
        if only_mounts { node.mount_ended() } else { std::future::pending().boxed() };
    tokio::select! {
        signal = told.next() => tracing::info!(signal, "told to end"),
        () = mount_ended => tracing::info!("the mount has ended"),
    }
}

/// A socket at work.
struct Control {
    /// Home of the control socket; `None`: the public one, which goes with the entry in the
    /// registry.
    home: Option<Home>,
    task: tokio::task::JoinHandle<()>,
}

fn start_control(home: &Home, view: Arc<View>) -> Result<Control, NodeError> {
    let listener = control::listen(home)
        .map_err(|source| NodeError::Control { dir: home.run_dir(), source })?;
    let answer = move |request| {
        let view = view.clone();
        async move {
            match request {
                Request::Status => Answer::Status(Box::new(view.status().await)),
                Request::Settings => {
                    Answer::Settings { settings: Box::new(view.settings().clone()) }
                }
                request => admin::answer(&view, request).await,
            }
        }
    };
    Ok(Control { home: Some(home.clone()), task: tokio::spawn(control::serve(listener, answer)) })
}

fn start_public(entry: &Home, view: Arc<View>) -> io::Result<Control> {
    let listener = control::listen_public(entry)?;
    let answer = move |request| {
        let view = view.clone();
        async move { admin::answer_public(&view, request).await }
    };
    Ok(Control { home: None, task: tokio::spawn(control::serve(listener, answer)) })
}

/// Control socket and HTTP.
async fn end_doors(control: Option<Control>, http: Option<Web>) {
    end_control(control).await;
    if let Some(http) = http {
        http.end().await;
    }
}

async fn end_control(control: Option<Control>) {
    let Some(Control { home, task }) = control else { return };
    task.abort();
    // Cancelled is what was asked for.
    if let Err(error) = task.await
        && error.is_panic()
    {
        tracing::error!(%error, "control socket");
    }
    let Some(home) = home else { return };
    if let Err(error) = control::remove(&home) {
        tracing::warn!(%error, home = %home.dir().display(), "the control socket cannot be removed");
    }
}

/// Signals that end the process.
struct Told {
    signals: Vec<(&'static str, Signal)>,
}

impl Told {
    fn new() -> Result<Told, NodeError> {
        let catch = |(name, kind)| Ok((name, signal(kind).map_err(NodeError::Process)?));
        let kinds = [("SIGTERM", SignalKind::terminate()), ("SIGINT", SignalKind::interrupt())];
        Ok(Told { signals: kinds.into_iter().map(catch).collect::<Result<_, NodeError>>()? })
    }

    /// Name of the next one.
    async fn next(&mut self) -> &'static str {
        let waits = self.signals.iter_mut().map(|(name, signal)| {
            async move {
                signal.recv().await;
                *name
            }
            .boxed()
        });
        select_all(waits).await.0
    }
}
