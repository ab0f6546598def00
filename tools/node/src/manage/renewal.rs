//! A process follows a new authority: it gets a newer key from the MGS, and forgets the authority
//! before when that is withdrawn (docs/security.md, "A new authority").
//!
//! What holds it hears with its parameters ([`super::security::obey`]). Processes of one host that
//! use one file renew it once: the lock beside it. The process with the authority does none of that
//! itself; its key follows from the authority.

use crate::host::keys;
use crate::host::secret_file;
use crate::role::parts::{Parts, blocking};
use env::clock::Monotonic;
use futures_util::future::{Either, select};
use rustix::fs::FlockOperation;
use seal::credentials::Credentials;
use seal::enrol::NewKey;
use seal::keys::{Due, Keys};
use seal::renew::renew;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use types::limits::CONNECT_TIMEOUT;
use types::nid::Nid;

/// Processes that hear of a new authority at once ask within this time, ms.
const SPREAD_MS: u64 = 2_000;
/// Pause after the first failure; twice as long after each further one.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// This key is used from now on. Connections that a withdrawn authority vouches for end. Returns
/// false if the key cannot be used: the one before stays.
pub(super) fn take(parts: &Parts, keys: &Keys, key: &Credentials) -> bool {
    match keys.replace(key) {
        Ok(trusts_fewer) => {
            if trusts_fewer {
                let closed = parts.rpc.close_withdrawn();
                tracing::warn!(closed, "an authority was withdrawn: connections with its keys end");
            }
            true
        }
        Err(error) => {
            tracing::error!(%error, "the key before stays");
            false
        }
    }
}

/// See the module.
pub(super) struct Renewal {
    parts: Parts,
    keys: Arc<Keys>,
    path: PathBuf,
    /// The new key, which is asked for until there is an answer.
    new: Option<NewKey>,
    /// When to ask next; `None`: nothing is due.
    next: Option<Monotonic>,
    pause: Duration,
}

/// The key is not renewed.
#[derive(Debug, thiserror::Error)]
enum NotRenewed {
    #[error("{0}")]
    File(io::Error),
    #[error("{0}")]
    Reason(String),
}

impl Renewal {
    pub(super) fn new(parts: Parts, keys: Arc<Keys>, path: PathBuf) -> Renewal {
        Renewal { parts, keys, path, new: None, next: None, pause: PAUSE }
    }

    /// Does what is due.
    pub(super) async fn look(&mut self) {
        // A handshake that was under way at a withdrawal may have made one since.
        self.parts.rpc.close_withdrawn();
        match self.keys.due() {
            _ if self.keys.enrols() => {}
            Due::Nothing => (self.new, self.next, self.pause) = (None, None, PAUSE),
            Due::Renewal => self.renew_in_time().await,
            Due::Withdrawal => self.forget_the_authority_before().await,
        }
    }

    async fn renew_in_time(&mut self) {
        let now = self.parts.env.clock.now();
        let random = self.parts.env.random.next_u64();
        let next = *self.next.get_or_insert(now + Duration::from_millis(random % SPREAD_MS));
        if now < next {
            return;
        }
        match self.renew().await {
            Ok(true) => {
                tracing::info!(key = %self.path.display(), "renewed: the key is of the new authority")
            }
            // Another process does it; its file is read then.
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, key = %self.path.display(), "the key cannot be renewed yet");
                self.next = Some(self.parts.env.clock.now() + self.pause);
                self.pause = PAUSE_MAX.min(self.pause * 2);
            }
        }
    }

    /// The lock of the file; `None`: another process has it.
    fn lock(&self) -> io::Result<Option<File>> {
        let path = self.path.with_extension("lock");
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(lock)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    async fn renew(&mut self) -> Result<bool, NotRenewed> {
        let Some(_lock) = self.lock().map_err(NotRenewed::File)? else { return Ok(false) };
        let before = self.keys.authority();
        let kept = keys::read(&self.path).map_err(|error| NotRenewed::Reason(error.to_string()))?;
        if kept.authority() != before {
            // Another process renewed it meanwhile.
            return Ok(false);
        }
        if self.new.is_none() {
            self.new = Some(NewKey::make().map_err(|error| NotRenewed::Reason(error.to_string()))?);
        }
        let Some(new) = &self.new else { return Ok(false) };
        let key = self.ask(new, &kept).await?;
        self.write(&key).await.map_err(NotRenewed::File)?;
        Ok(take(&self.parts, &self.keys, &key))
    }

    /// Asks the addresses of the MGS, one after the other: the authority may be at any.
    async fn ask(&self, new: &NewKey, kept: &Credentials) -> Result<Credentials, NotRenewed> {
        let mut nids: Vec<Nid> = self.parts.mgs.clone();
        nids.extend(kept.mgs().iter().filter(|nid| !self.parts.mgs.contains(nid)));
        let mut failed = "no address of the MGS is known".to_owned();
        for nid in nids.into_iter().filter(|nid| *nid != Nid::Loopback) {
            let asking = async {
                let halves = self.parts.rpc.stream(nid).await.map_err(|e| e.to_string())?;
                renew(&self.keys, new, halves).await.map_err(|e| e.to_string())
            };
            let time = self.parts.env.clock.sleep(CONNECT_TIMEOUT);
            match select(pin!(asking), time).await {
                Either::Left((Ok(key), _)) => return Ok(key),
                Either::Left((Err(reason), _)) => failed = format!("the MGS at {nid}: {reason}"),
                Either::Right(_) => failed = format!("the MGS at {nid} does not answer"),
            }
        }
        Err(NotRenewed::Reason(failed))
    }

    async fn write(&self, key: &Credentials) -> io::Result<()> {
        let (path, text) = (self.path.clone(), key.to_text());
        let write = move || secret_file::write(&path, &text);
        blocking(&self.parts.env, "wrote a key", write).await.map_err(io::Error::other)?
    }

    async fn forget_the_authority_before(&mut self) {
        let lock = match self.lock() {
            Ok(Some(lock)) => Some(lock),
            // Another process does it: next time.
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "the file of the key cannot be changed");
                None
            }
        };
        let kept = match keys::read(&self.path) {
            Ok(kept) => kept.without_the_authority_before(),
            Err(error) => return tracing::error!(%error, "the key cannot be read"),
        };
        if kept.authority() != self.keys.authority() {
            return;
        }
        // First: what is withdrawn is so, whether that can be written or not.
        take(&self.parts, &self.keys, &kept);
        if lock.is_some()
            && let Err(error) = self.write(&kept).await
        {
            tracing::error!(%error, key = %self.path.display(), "the file still names a withdrawn authority");
        }
    }
}
