//! What the process answers over HTTP: `/metrics`, from the counters that `lctl get_param` reads.
//!
//! It runs on the main thread's runtime, beside signals and the control socket, so that a scrape disturbs no request.

use crate::error::NodeError;
use crate::http_settings::HttpListen;
use crate::params;
use crate::settings::Settings;
use crate::view::View;
use dash::access::{Access, Token};
use dash::http::{Answer, Ask, Http, Router};
use observe::openmetrics;
use std::sync::Arc;

/// Starts it, if the settings want it. The default address may be missing (a network namespace without loopback): then
/// it is left out, and the log says so.
///
/// # Errors
/// An address that was asked for cannot be had; the token file cannot be used.
pub async fn start(settings: &Settings, view: &Arc<View>) -> Result<Option<Http>, NodeError> {
    let HttpListen::At(addr) = settings.http else { return Ok(None) };
    let token = settings.http_token_file.as_deref().map(Token::read).transpose().map_err(NodeError::Token)?;
    let access = Access { loopback: addr.ip().is_loopback(), token };
    let shown = view.clone();
    let router: Router = Arc::new(move |ask| {
        let view = shown.clone();
        Box::pin(async move { answer(&view, ask).await })
    });
    match Http::start(addr, access, router).await {
        Ok(http) => {
            tracing::info!(addr = %http.addr(), "metrics over HTTP");
            view.set_http(http.addr());
            Ok(Some(http))
        }
        Err(error) if settings.http == HttpListen::default() => {
            tracing::warn!(%error, %addr, "no metrics over HTTP");
            Ok(None)
        }
        Err(source) => Err(NodeError::Http { addr, source }),
    }
}

async fn answer(view: &Arc<View>, ask: Ask) -> Answer {
    match ask.path.as_str() {
        "/metrics" => Answer::ok(openmetrics::CONTENT_TYPE, params::metrics(view).await),
        "/" => Answer::sentence(200, "SheenFS: see /metrics"),
        _ => Answer::sentence(404, "there is nothing here; see /metrics"),
    }
}
