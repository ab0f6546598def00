//! Keys of a running process: its own is read again when its file changes, and keys that were
//! revoked are out.
//!
//! The process of the MGT with the authority looks each [`LOOK`] into the list of keys there. The
//! MGS keeps each revoked key as a persistent parameter of every file system ([`REVOKED`]), so all
//! processes that follow a configuration hear of it at once, and again when they start. If another
//! host took the MGS over, it is told of a list that changed.

use crate::host::authority::{AuthorityDir, key_hash};
use crate::host::keys;
use crate::manage::enrolment::Enrolment;
use crate::role::parts::Parts;
use crate::watch::view::View;
use env::watch;
use mgs::mgs::Mgs;
use seal::keys::Keys;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use types::principal::KeyHash;

/// Beginning of the names of persistent parameters that say which keys are revoked; the hash of the
/// key follows.
pub const REVOKED: &str = "auth.revoked.";
/// Name that means every file system.
const EVERY_FILE_SYSTEM: &str = "*";
/// Files are looked at this often.
const LOOK: Duration = Duration::from_millis(500);

/// The key of a process, and its file.
pub struct Secured {
    keys: Arc<Keys>,
    path: PathBuf,
    stop: watch::Sender<bool>,
}

/// The keys that these parameters revoke are out from now on, here.
pub fn obey(parts: &Parts, params: &[(String, String)]) {
    let revoked =
        params.iter().filter_map(|(name, _)| key_hash(name.strip_prefix(REVOKED)?)).collect();
    revoke(parts, revoked);
}

fn revoke(parts: &Parts, revoked: BTreeSet<KeyHash>) {
    if let Some(keys) = &parts.keys
        && keys.revoke(revoked)
    {
        tracing::warn!("keys were revoked: their connections and sessions end");
        parts.rpc.end_revoked(&**keys);
    }
}

impl Secured {
    /// The key in this file is that of the process.
    pub fn new(keys: Arc<Keys>, path: PathBuf) -> Secured {
        Secured { keys, path, stop: watch::Sender::new(false) }
    }

    /// Reads the key again when its file changes, until this is dropped.
    pub fn follow_file(&self, parts: &Parts) {
        let (keys, path, env) = (self.keys.clone(), self.path.clone(), parts.env.clone());
        let mut stopped = self.stop.subscribe();
        let follow = async move {
            let mut seen = changed_at(&path);
            loop {
                tokio::select! {
                    biased;
                    _ = stopped.changed() => return,
                    () = env.clock.sleep(LOOK) => {}
                }
                let now = changed_at(&path);
                if now == seen {
                    continue;
                }
                seen = now;
                let replaced = keys::read(&path).map(|key| keys.replace(&key));
                match replaced {
                    Ok(Ok(())) => tracing::info!(key = %path.display(), "the key was read again"),
                    Ok(Err(error)) => {
                        tracing::error!(%error, key = %path.display(), "the key before stays")
                    }
                    Err(error) => tracing::error!(%error, "the key before stays"),
                }
            }
        };
        parts.env.tasks.spawn("follow the key", Box::pin(follow));
    }

    /// Takes tokens of the authority, and tells all processes which of its keys are revoked, until
    /// this is dropped.
    pub fn follow_list(&self, view: &Arc<View>, mgt: &Path) {
        let parts = view.parts();
        let authority = AuthorityDir::of(mgt);
        if !authority.exists() {
            return;
        }
        let enrolment = Enrolment::new(parts.clone(), authority.clone());
        if !self.keys.set_enroller(Arc::new(enrolment)) {
            tracing::error!("tokens are taken for another authority already");
        }
        let (env, parts, mut stopped) = (parts.env.clone(), parts.clone(), self.stop.subscribe());
        let view = view.clone();
        let follow = async move {
            let (mut seen, mut revoked, mut untold) = (None, Vec::new(), BTreeSet::new());
            loop {
                let now = changed_at(&authority.list_path());
                if now != seen {
                    match authority.list() {
                        Ok(list) => {
                            seen = now;
                            revoked = list.revoked().map(str::to_owned).collect();
                            untold =
                                revoked.iter().map(|hash| format!("{REVOKED}{hash}")).collect();
                            revoke(
                                &parts,
                                revoked.iter().filter_map(|hash| key_hash(hash)).collect(),
                            );
                        }
                        Err(error) => tracing::error!(%error, "the list of keys cannot be read"),
                    }
                }
                let names = match view.alive().mgs() {
                    Some((mgs, _)) => missing(&mgs, &revoked),
                    None => untold.clone(),
                };
                for name in names {
                    let told = parts
                        .mgc()
                        .set_param(EVERY_FILE_SYSTEM.to_owned(), name.clone(), Some("1".to_owned()))
                        .await;
                    match told {
                        Ok(()) => drop(untold.remove(&name)),
                        Err(error) => {
                            tracing::error!(%error, "servers and clients are not told of a revoked key")
                        }
                    }
                }
                tokio::select! {
                    biased;
                    _ = stopped.changed() => return,
                    () = parts.env.clock.sleep(LOOK) => {}
                }
            }
        };
        env.tasks.spawn("follow the list of keys", Box::pin(follow));
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// Parameters that a file system lacks.
fn missing(mgs: &Mgs, revoked: &[String]) -> BTreeSet<String> {
    let names = || revoked.iter().map(|hash| format!("{REVOKED}{hash}"));
    let configs = mgs.configs();
    let lacking = configs
        .values()
        .flat_map(|config| names().filter(|name| !config.params.iter().any(|p| p.0 == *name)));
    lacking.collect()
}

fn changed_at(path: &Path) -> Option<(SystemTime, u64)> {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.ino()))
}
