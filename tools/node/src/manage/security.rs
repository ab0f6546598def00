//! Keys of a running process: its own is read again when its file changes, and keys that were
//! revoked are out.
//!
//! The process of the MGT with the authority looks each [`LOOK`] into the list of keys there. The
//! MGS keeps each revoked key as a persistent parameter of every file system ([`REVOKED`]), so all
//! processes that follow a configuration hear of it at once, and again when they start. If another
//! host took the MGS over, it is told of a list that changed. So it is with the authorities that
//! hold ([`AUTHORITY`]), if there was ever more than one: what processes make of that is in
//! [`super::renewal`].

use crate::error::NodeError;
use crate::host::authority::rotation::Standing;
use crate::host::authority::{AuthorityDir, AuthorityError, key_hash};
use crate::host::keys;
use crate::manage::enrolment::Enrolment;
use crate::manage::renewal::{Renewal, take};
use crate::manage::tickets;
use crate::role::parts::{Parts, blocking};
use crate::watch::view::View;
use env::watch;
use mgs::mgs::Mgs;
use seal::fingerprint::Fingerprint;
use seal::keys::Keys;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use types::principal::KeyHash;

/// Beginning of the names of persistent parameters that say which keys are revoked; the hash of the
/// key follows.
pub const REVOKED: &str = "auth.revoked.";
/// Name of the persistent parameter with the authorities that hold, the newest first, with commas
/// between them.
pub const AUTHORITY: &str = "auth.authority";
/// Authorities that are read of it.
const AUTHORITIES_MAX: usize = 4;
/// Name that means every file system.
const EVERY_FILE_SYSTEM: &str = "*";
/// Files are looked at this often.
const LOOK: Duration = Duration::from_millis(500);
/// And so often whether an overlap of two authorities is over, or what failed can be done.
const LOOK_IF_OVER: Duration = Duration::from_secs(5);

/// The key of a process, and its file.
pub struct Secured {
    keys: Arc<Keys>,
    path: PathBuf,
    stop: watch::Sender<bool>,
}

/// The keys that these parameters revoke are out from now on, here, and the authorities that they
/// name hold.
pub fn obey(parts: &Parts, params: &[(String, String)]) {
    if let (Some(keys), Some(holding)) = (&parts.keys, holding(params))
        && keys.hear(holding)
    {
        tracing::info!("the MGS names the authorities that hold");
    }
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

/// The authorities that parameters name; `None`: they name none, or something else.
fn holding(params: &[(String, String)]) -> Option<Vec<Fingerprint>> {
    let (_, value) = params.iter().find(|(name, _)| name == AUTHORITY)?;
    value.split(',').take(AUTHORITIES_MAX).map(|one| one.parse().ok()).collect()
}

/// The persistent parameter that says what holds; `None`: the first authority is the only one.
fn authority_param(standing: &Standing) -> Option<(String, String)> {
    let all: Vec<String> = standing.holding.iter().map(Fingerprint::to_string).collect();
    standing.was_rotated.then(|| (AUTHORITY.to_owned(), all.join(",")))
}

impl Secured {
    /// The key in this file is that of the process.
    pub fn new(keys: Arc<Keys>, path: PathBuf) -> Secured {
        Secured { keys, path, stop: watch::Sender::new(false) }
    }

    /// Comes back to servers with tickets, and lets those that were connected come back with them,
    /// also after a restart if this process has a file for their keys, until this is dropped.
    pub fn follow_tickets(&self, parts: &Parts, file: Option<PathBuf>) {
        tickets::follow(parts, &self.keys, file, self.stop.subscribe());
    }

    /// Reads the key again when its file changes, and renews it when there is a new authority,
    /// until this is dropped.
    pub fn follow_file(&self, parts: &Parts) {
        let (keys, path, parts) = (self.keys.clone(), self.path.clone(), parts.clone());
        let (env, mut stopped) = (parts.env.clone(), self.stop.subscribe());
        let follow = async move {
            let mut seen = changed_at(&path);
            let mut renewal = Renewal::new(parts.clone(), keys.clone(), path.clone());
            loop {
                tokio::select! {
                    biased;
                    _ = stopped.changed() => return,
                    () = parts.env.clock.sleep(LOOK) => {}
                }
                let now = changed_at(&path);
                if now != seen {
                    seen = now;
                    match keys::read(&path) {
                        Ok(key) => {
                            if take(&parts, &keys, &key) {
                                tracing::info!(key = %path.display(), "the key was read again");
                            }
                        }
                        Err(error) => tracing::error!(%error, "the key before stays"),
                    }
                }
                tokio::select! {
                    biased;
                    _ = stopped.changed() => return,
                    () = renewal.look() => {}
                }
            }
        };
        env.tasks.spawn("follow the key", Box::pin(follow));
    }

    /// Takes tokens of the authority, and tells all processes which of its keys are revoked, until
    /// this is dropped.
    pub fn follow_list(&self, view: &Arc<View>, mgt: &Path) {
        let parts = view.parts();
        let authority = AuthorityDir::of(mgt);
        if !authority.exists() {
            return;
        }
        if self.path != authority.key_path() {
            tracing::warn!(
                key = %self.path.display(),
                "this key is not renewed when the authority is rotated: only the one beside the authority is"
            );
        }
        let enrolment = Enrolment::new(parts.clone(), authority.clone());
        if !self.keys.set_enroller(Arc::new(enrolment)) {
            tracing::error!("tokens are taken for another authority already");
        }
        let (env, parts, mut stopped) = (parts.env.clone(), parts.clone(), self.stop.subscribe());
        let view = view.clone();
        let follow = async move {
            let (mut seen, mut revoked, mut standing) = (None, Vec::<String>::new(), None);
            let (mut wanted, mut untold) = (Vec::new(), BTreeSet::new());
            let mut looks_at = parts.env.clock.now();
            loop {
                let files = [authority.list_path(), authority.authority_path()];
                let now = files.map(|path| changed_at(&path));
                let is_settled = |standing: &Standing| !standing.is_in_overlap();
                let is_time =
                    !standing.as_ref().is_some_and(is_settled) && parts.env.clock.now() >= looks_at;
                if seen != Some(now) || is_time {
                    looks_at = parts.env.clock.now() + LOOK_IF_OVER;
                    match authority.list() {
                        Ok(list) => {
                            seen = Some(now);
                            revoked = list.revoked().map(str::to_owned).collect();
                            let hashes = revoked.iter().filter_map(|hash| key_hash(hash));
                            revoke(&parts, hashes.collect());
                        }
                        Err(error) => tracing::error!(%error, "the list of keys cannot be read"),
                    }
                    // What it writes itself is seen at the next look.
                    match settled(&parts, &authority).await {
                        Ok(now) => standing = Some(now),
                        Err(error) => {
                            tracing::error!(%error, "the key of the MGS' host cannot follow the authority")
                        }
                    }
                    let names = revoked.iter().map(|hash| format!("{REVOKED}{hash}"));
                    let names = names.map(|name| (name, "1".to_owned()));
                    let authorities = standing.as_ref().and_then(authority_param);
                    let params: Vec<_> = names.chain(authorities).collect();
                    if params != wanted {
                        untold = params.iter().cloned().collect();
                        wanted = params;
                    }
                }
                let params = match view.alive().mgs() {
                    Some((mgs, _)) => missing(&mgs, &wanted),
                    None => untold.clone(),
                };
                for (name, value) in params {
                    let told = parts
                        .mgc()
                        .set_param(EVERY_FILE_SYSTEM.to_owned(), name.clone(), Some(value.clone()))
                        .await;
                    match told {
                        Ok(()) => drop(untold.remove(&(name, value))),
                        Err(error) => {
                            tracing::error!(%error, name, "servers and clients are not told of a key or authority")
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

/// Does what follows from the authority as it is; returns how it stands. An overlap that is over
/// ends.
async fn settled(parts: &Parts, authority: &AuthorityDir) -> Result<Standing, SettleError> {
    let authority = authority.clone();
    let settle = move || {
        if authority.withdraw_if_over()? {
            tracing::warn!(
                "the authority before was withdrawn: every host has a key of the new one"
            );
        }
        authority.settle()
    };
    Ok(blocking(&parts.env, "looked after the authority", settle).await??)
}

/// Why that cannot be done.
#[derive(Debug, thiserror::Error)]
enum SettleError {
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error(transparent)]
    Node(#[from] NodeError),
}

/// Parameters that a file system lacks, or has otherwise.
fn missing(mgs: &Mgs, wanted: &[(String, String)]) -> BTreeSet<(String, String)> {
    let configs = mgs.configs();
    let lacking = configs
        .values()
        .flat_map(|config| wanted.iter().filter(|param| !config.params.contains(param)));
    lacking.cloned().collect()
}

fn changed_at(path: &Path) -> Option<(SystemTime, u64)> {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_those_of_the_parameter_or_none_if_one_is_wrong() {
        let [new, old] = [7, 3].map(|byte| Fingerprint([byte; 32]));
        let pair = |name: &str, value: String| vec![(name.to_owned(), value)];
        assert_eq!(holding(&pair(AUTHORITY, format!("{new},{old}"))), Some(vec![new, old]));
        assert_eq!(holding(&pair(AUTHORITY, new.to_string())), Some(vec![new]));
        for value in ["", ",", "07", &format!("{new},"), &format!("{new} {old}")] {
            assert_eq!(holding(&pair(AUTHORITY, value.to_owned())), None, "{value}");
        }
        assert_eq!(holding(&pair("auth.revoked.07", "1".to_owned())), None);
        // A long list is not read to its end.
        let many = vec![old.to_string(); 1000].join(",");
        assert_eq!(holding(&pair(AUTHORITY, many)).unwrap().len(), AUTHORITIES_MAX);
    }
}
