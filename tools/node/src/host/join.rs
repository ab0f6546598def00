//! `sheen auth join`: this host gets its key from the MGS that a token names.

use env::Env;
use env::real::{RealConfig, RealEnv};
use futures_util::future::{Either, select};
use seal::credentials::Credentials;
use seal::enrol::{EnrolError, enrol};
use seal::token::Token;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use types::limits::CONNECT_TIMEOUT;
use types::nid::Nid;
use types::principal::KeyName;

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
    /// The token names no address.
    #[error("the token names no MGS that this host could reach")]
    Nowhere,
}

/// Asks the MGS of the token for a key under this name, at one address after the other until one
/// answers. Blocks.
///
/// # Errors
/// [`JoinError`]: of the last address.
pub fn key_for(token: &Token, name: &KeyName) -> Result<Credentials, JoinError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(JoinError::Threads)?;
    let (env, reactors) = RealEnv::start(RealConfig::default()).map_err(JoinError::Threads)?;
    let key = runtime.block_on(async {
        let mut failed = JoinError::Nowhere;
        for nid in &token.mgs {
            let Some(address) = nid.address() else { continue };
            match ask(&env, token, name, address).await {
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

async fn ask(
    env: &Env,
    token: &Token,
    name: &KeyName,
    address: SocketAddr,
) -> Result<Credentials, EnrolError> {
    let asking = async {
        let stream = env.net.connect(address).await?;
        enrol(token, name, env.clock.clone(), stream.split()).await
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
