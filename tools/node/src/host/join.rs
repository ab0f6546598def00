//! `sheen auth join`: this host gets its key from the MGS that a token names.

use crate::config::client_file::{self, BadClientFile, ClientFile};
use env::Env;
use env::real::{RealConfig, RealEnv};
use futures_util::future::{Either, select};
use lnet::link::{Handler, Link, Work};
use lnet::node::Lnet;
use lnet::payload::Frame;
use seal::credentials::Credentials;
use seal::enrol::{EnrolError, enrol};
use seal::token::Token;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use types::limits::CONNECT_TIMEOUT;
use types::net::Net;
use types::nid::Nid;
use types::principal::KeyName;
use types::session::ClusterId;

/// This host gets no key.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// Threads of this process.
    #[error("cannot start: {0}")]
    Threads(#[source] io::Error),
    /// An address of the MGS.
    #[error("the MGS at {nid} gives no key: {reason}")]
    Mgs {
        /// The NID.
        nid: Nid,
        /// The reason.
        reason: String,
    },
    /// What this host says of its networks.
    #[error(transparent)]
    Networks(#[from] BadClientFile),
    /// The token names no address.
    #[error("the token names no MGS that this host could reach")]
    Nowhere,
}

/// Asks the MGS of the token for a key under this name, over the networks of this file of the host
/// (`None`: `/etc/sheen/client.toml`, if it is there), at one address after the other until one
/// answers. Blocks.
///
/// # Errors
/// [`JoinError`]: of the last address.
pub fn key_for(
    token: &Token,
    name: &KeyName,
    config: Option<&Path>,
) -> Result<Credentials, JoinError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(JoinError::Threads)?;
    let (env, reactors) = RealEnv::start(RealConfig::default()).map_err(JoinError::Threads)?;
    let key = runtime.block_on(async {
        let lnet = Lnet::new(env.clone(), ClusterId(0), true, Arc::new(Nobody));
        set_up(&lnet, token, config)?;
        let mut failed = JoinError::Nowhere;
        for nid in &lnet.sorted(token.mgs.clone()) {
            match ask((&env, &lnet), token, name, *nid).await {
                Ok(key) => return Ok(key),
                Err(error) => {
                    let is_refused = matches!(error, EnrolError::Refused(_) | EnrolError::Bad(_));
                    failed = JoinError::Mgs { nid: *nid, reason: error.to_string() };
                    // It was reached. Another address of it would say the same.
                    if is_refused {
                        break;
                    }
                }
            }
        }
        Err(failed)
    });
    drop(runtime);
    drop(reactors);
    key
}

/// Nothing is asked of this process.
struct Nobody;

impl Handler for Nobody {
    fn request(&self, _: &Arc<Link>, _: Frame) -> Work {
        Work { future: Box::pin(async { None }), waits: false, room: None }
    }
}

/// The networks of this host and its routes are those of its mounts. A host that says nothing of
/// them tries all.
fn set_up(lnet: &Lnet, token: &Token, config: Option<&Path>) -> Result<(), BadClientFile> {
    let ClientFile { networks, routes, .. } = client_file::read(config)?;
    let named: Vec<Net> = token.mgs.iter().filter_map(|nid| nid.net()).collect();
    lnet.set_nets(&if networks.is_empty() && routes.is_empty() { named } else { networks.names() });
    for route in routes.each() {
        // The file names ROUTES_MAX at most.
        lnet.add_route(route);
    }
    Ok(())
}

async fn ask(
    (env, lnet): (&Env, &Lnet),
    token: &Token,
    name: &KeyName,
    nid: Nid,
) -> Result<Credentials, EnrolError> {
    let asking = async {
        let halves = lnet.stream(nid).await.map_err(io::Error::other)?;
        enrol(token, name, env.clock.clone(), halves).await
    };
    match select(pin!(asking), env.clock.sleep(CONNECT_TIMEOUT)).await {
        Either::Left((answer, _)) => answer,
        Either::Right(_) => {
            let seconds = CONNECT_TIMEOUT.as_secs();
            let text = format!("there was no answer for {seconds} s");
            Err(io::Error::new(io::ErrorKind::TimedOut, text).into())
        }
    }
}
