//! Hosts that come with a token get their keys from the process of the MGS.

use crate::host::authority::AuthorityDir;
use crate::role::parts::{Parts, blocking};
use env::BoxFuture;
use seal::enrol::{Asked, Enroller, Given};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use types::nid::Nid;

/// Hosts that are answered at once.
const AT_ONCE_MAX: usize = 16;
/// A refusal takes this long, so that few secrets can be tried.
const REFUSAL: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Enrolment {
    parts: Parts,
    authority: AuthorityDir,
    at_work: AtomicUsize,
}

/// One of those at work.
struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Enrolment {
    pub(super) fn new(parts: Parts, authority: AuthorityDir) -> Enrolment {
        Enrolment { parts, authority, at_work: AtomicUsize::new(0) }
    }

    async fn answer(&self, from: Nid, asked: Asked) -> Result<Given, String> {
        let before = self.at_work.fetch_add(1, Ordering::AcqRel);
        let _place = Place(&self.at_work);
        if before >= AT_ONCE_MAX {
            return Err("too many hosts ask at once: try again".to_owned());
        }
        let (authority, name) = (self.authority.clone(), asked.name.clone());
        let redeemed =
            blocking(&self.parts.env, "took a token", move || authority.redeem(&asked)).await;
        let reason = match redeemed {
            Ok(Ok(given)) => {
                tracing::info!(%from, name, "a host got a key with a token");
                return Ok(given);
            }
            Ok(Err(not_taken)) => not_taken.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(%from, name, reason, "a token is not taken");
        self.parts.env.clock.sleep(REFUSAL).await;
        Err(reason)
    }
}

impl Enroller for Enrolment {
    fn enrol(&self, from: Nid, asked: Asked) -> BoxFuture<'_, Result<Given, String>> {
        Box::pin(self.answer(from, asked))
    }
}
