//! Hosts that come with a token get their keys from the process of the MGS, and those that have a
//! key a newer one.

use crate::host::authority::AuthorityDir;
use crate::role::parts::{Parts, blocking};
use env::BoxFuture;
use seal::authority::PublicKey;
use seal::enrol::{Asked, AskedAgain, Enroller, Granted};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use types::nid::Nid;
use types::principal::Principal;

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

    fn place(&self) -> Result<Place<'_>, String> {
        let before = self.at_work.fetch_add(1, Ordering::AcqRel);
        let place = Place(&self.at_work);
        match before < AT_ONCE_MAX {
            true => Ok(place),
            false => Err("too many hosts ask at once: try again".to_owned()),
        }
    }

    async fn answer(&self, from: Nid, asked: Asked) -> Result<Granted, String> {
        let _place = self.place()?;
        let (authority, name) = (self.authority.clone(), asked.name.clone());
        let redeemed =
            blocking(&self.parts.env, "took a token", move || authority.redeem(&asked)).await;
        let reason = match redeemed {
            Ok(Ok(granted)) => {
                tracing::info!(%from, name, "a host got a key with a token");
                return Ok(granted);
            }
            Ok(Err(not_taken)) => not_taken.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(%from, name, reason, "a token is not taken");
        self.parts.env.clock.sleep(REFUSAL).await;
        Err(reason)
    }

    async fn answer_again(
        &self,
        from: Nid,
        shown: Principal,
        AskedAgain { public }: AskedAgain,
    ) -> Result<Granted, String> {
        let _place = self.place()?;
        let (authority, key) = (self.authority.clone(), shown.key);
        let renew = move || authority.renew(key, PublicKey(public));
        let reason = match blocking(&self.parts.env, "renewed a key", renew).await {
            Ok(Ok(granted)) => {
                tracing::info!(%from, owner = %shown, "a host renewed its key");
                return Ok(granted);
            }
            Ok(Err(not_renewed)) => not_renewed.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(%from, owner = %shown, reason, "a key is not renewed");
        self.parts.env.clock.sleep(REFUSAL).await;
        Err(reason)
    }
}

impl Enroller for Enrolment {
    fn enrol(&self, from: Nid, asked: Asked) -> BoxFuture<'_, Result<Granted, String>> {
        Box::pin(self.answer(from, asked))
    }

    fn renew(
        &self,
        from: Nid,
        shown: Principal,
        asked: AskedAgain,
    ) -> BoxFuture<'_, Result<Granted, String>> {
        Box::pin(self.answer_again(from, shown, asked))
    }
}
