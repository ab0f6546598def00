//! The HTTP server of the process: `/metrics`, from the counters that `lctl get_param` reads; with
//! the MGS also the page of the cluster (docs/dash.md).
//!
//! It runs on the main thread's runtime, beside signals and the control socket, so that a scrape
//! disturbs no request.

use crate::config::http_settings::HttpListen;
use crate::config::settings::Settings;
use crate::error::NodeError;
use crate::host::secret_file;
use crate::manage::params;
use crate::watch::view::{Served, View};
use dash::access::{Access, Token};
use dash::cluster::{Cluster, Configured};
use dash::http::{Answer, Ask, Http, Read, Router, Tls, Write};
use dash::page;
use env::BoxFuture;
use observe::openmetrics;
use parking_lot::Mutex;
use seal::https::{Https, self_signed};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use wire::mgs::TargetInfo;

/// A server, and the task that looks after the cluster; both end with [`Web::end`].
pub struct Web {
    http: Http,
    look: JoinHandle<()>,
}

impl Web {
    /// Ends both.
    pub async fn end(self) {
        self.look.abort();
        // Cancelled is what was asked for.
        if let Err(error) = self.look.await
            && error.is_panic()
        {
            tracing::error!(%error, "looking after the cluster");
        }
        self.http.end().await;
    }
}

/// File of the home with the key and the certificate that the daemon made.
const CERTIFICATE: &str = "http.pem";
/// An older one is replaced at the next start.
const CERTIFICATE_AGE_MAX: Duration = Duration::from_secs(365 * 86_400);
/// Interval at which the reports of the cluster are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Starts it, if the settings want it. The default address may be missing (a network namespace
/// without loopback): then it is left out, and the log says so.
///
/// # Errors
/// An address that was asked for cannot be had; the token file cannot be used.
pub async fn start(settings: &Settings, view: &Arc<View>) -> Result<Option<Web>, NodeError> {
    let addresses = settings.http.addresses(!settings.targets.is_empty());
    let Some(addr) = addresses.first().copied() else { return Ok(None) };
    let token = match &settings.http_token_file {
        Some(file) => Token::read(file).map_err(NodeError::Token)?,
        None => Token::from_random(view.parts().env.random.next_u128()),
    };
    let https = https_of(settings, view, addr)?;
    let fingerprint = https.as_ref().map(Https::fingerprint);
    let (loopback, https_only) = (addr.ip().is_loopback(), https.is_some());
    let access = Access { loopback, https: https_only, token: token.clone() };
    let tls = https.map(|https| Arc::new(Sealed(https)) as Arc<dyn Tls>);
    let (shown, cluster) = (view.clone(), Arc::new(Mutex::new(Cluster::default())));
    let known = cluster.clone();
    let router: Router = Arc::new(move |ask| {
        let (view, cluster) = (shown.clone(), known.clone());
        Box::pin(async move { answer(&view, &cluster, ask).await })
    });
    let mut refused = None;
    for addr in addresses {
        match Http::start(addr, access.clone(), tls.clone(), router.clone()).await {
            Ok(http) => {
                let addr = http.addr();
                match &fingerprint {
                    Some(fingerprint) => tracing::info!(%addr, fingerprint, "metrics over HTTPS"),
                    None if loopback => tracing::info!(%addr, "metrics over HTTP"),
                    None => {
                        tracing::warn!(%addr, "metrics over HTTP: the token travels in the clear");
                    }
                }
                view.set_http(Served { addr, token, fingerprint });
                return Ok(Some(Web { http, look: tokio::spawn(look(view.clone(), cluster)) }));
            }
            Err(source) => {
                tracing::info!(%addr, error = %source, "no metrics over HTTP here");
                refused = Some(NodeError::Http { addr, source });
            }
        }
    }
    match refused {
        Some(error) if settings.http == HttpListen::Auto => {
            tracing::warn!(%error, "no metrics over HTTP");
            Ok(None)
        }
        Some(error) => Err(error),
        None => Ok(None),
    }
}

/// HTTPS of a server.
struct Sealed(Https);

impl Tls for Sealed {
    fn accept(&self, read: Read, write: Write) -> BoxFuture<'_, io::Result<(Read, Write)>> {
        Box::pin(self.0.accept(read, write))
    }
}

/// What the server shows other hosts; `None`: it speaks plain HTTP, at loopback or because that is
/// wished.
fn https_of(
    settings: &Settings,
    view: &View,
    addr: SocketAddr,
) -> Result<Option<Https>, NodeError> {
    if addr.ip().is_loopback() || settings.http_plain {
        return Ok(None);
    }
    let clock = view.parts().env.clock.clone();
    let made = || {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        self_signed(addr.ip(), &host, clock.wall().sec)
    };
    let text = match (&settings.http_certificate, view.home()) {
        (Some(file), _) => secret_file::read(file)
            .map_err(|source| NodeError::Certificate { path: file.clone(), source })?,
        (None, None) => made()?,
        (None, Some(home)) => {
            let path = home.dir().join(CERTIFICATE);
            let fail = |source| NodeError::Certificate { path: path.clone(), source };
            let is_good = |path: &Path| {
                let age = std::fs::metadata(path).ok()?.modified().ok()?.elapsed().ok()?;
                (age < CERTIFICATE_AGE_MAX).then_some(())
            };
            match is_good(&path) {
                Some(()) => secret_file::read(&path).map_err(fail)?,
                None => {
                    let text = made()?;
                    secret_file::write(&path, &text).map_err(fail)?;
                    text
                }
            }
        }
    };
    Ok(Some(Https::from_text(&text, clock)?))
}

/// Takes the reports that the MGS of this process keeps; a process without one has nothing to look
/// at.
async fn look(view: Arc<View>, cluster: Arc<Mutex<Cluster>>) {
    let clock = view.parts().env.clock.clone();
    loop {
        if let Some((mgs, _)) = view.alive().mgs() {
            let target = |target: &TargetInfo| Configured {
                name: target.name.clone(),
                up: target.up,
                nids: target.nids.clone(),
            };
            let configs = mgs.configs();
            let configured: Vec<Configured> =
                configs.values().flat_map(|c| c.targets.iter().map(target)).collect();
            let time_ms = (clock.wall().as_nanos() / 1_000_000).max(0) as u64;
            let mut cluster = cluster.lock();
            cluster.set_security(view.security());
            cluster.take(time_ms, mgs.reports(), &configured);
        }
        clock.sleep(LOOK).await;
    }
}

async fn answer(view: &Arc<View>, cluster: &Mutex<Cluster>, ask: Ask) -> Answer {
    if view.alive().mgs().is_some()
        && let Some(answer) = page::answer(&ask, &cluster.lock())
    {
        return answer;
    }
    match ask.path.as_str() {
        "/metrics" => Answer::ok(openmetrics::CONTENT_TYPE, params::metrics(view).await),
        "/" => Answer::sentence(
            200,
            "SheenFS: see /metrics; the page of the cluster is served by the process of the MGS",
        ),
        _ => Answer::sentence(404, "there is nothing here; see /metrics"),
    }
}
