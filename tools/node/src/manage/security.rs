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
use crate::host::authority::sites::SiteList;
use crate::host::authority::standing::Standing;
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
use seal::sites::{SITES_MAX, Site, Sites};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use types::principal::{KeyHash, KeyName};

/// Beginning of the names of all persistent parameters about keys.
const OF_KEYS: &str = "auth.";
/// Beginning of the names of persistent parameters that say which keys are revoked; the hash of the
/// key follows.
pub const REVOKED: &str = "auth.revoked.";
/// Name of the persistent parameter with the authorities that hold, the newest first, with commas
/// between them.
pub const AUTHORITY: &str = "auth.authority";
/// Beginning of the names of persistent parameters with an authority of a site: the SHA-256 of its
/// certificate follows; the value is that of [`Site`].
pub const SITE: &str = "auth.site.";
/// Name of the persistent parameter that says which of them hold, with commas between them.
pub const SITES: &str = "auth.sites";
/// Its value if there are none.
const NO_SITES: &str = "none";
/// Beginning of the names of persistent parameters that say which names of keys of sites are
/// revoked.
pub const BARRED: &str = "auth.barred.";
/// Authorities that are read of it.
const AUTHORITIES_MAX: usize = 4;
/// Name that means every file system.
pub const EVERY_FILE_SYSTEM: &str = "*";
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
    if let Some(known) = &parts.known {
        // Which authorities of the cluster hold the key itself says at a start.
        let kept = params.iter().filter(|(name, _)| name.starts_with(OF_KEYS) && name != AUTHORITY);
        known.keep(&parts.env, kept.cloned().collect());
    }
    if let (Some(keys), Some(holding)) = (&parts.keys, holding(params))
        && keys.hear(holding)
    {
        tracing::info!("the MGS names the authorities that hold");
    }
    if let (Some(keys), Some(sites)) = (&parts.keys, sites(params))
        && keys.set_sites(sites)
    {
        let closed = parts.rpc.close_withdrawn();
        tracing::warn!(closed, "keys of a site are not taken any more: their connections end");
    }
    let barred = params.iter().filter_map(|(name, _)| name.strip_prefix(BARRED));
    let barred = barred.filter_map(|name| KeyName::of_any(name).ok()).collect();
    if let Some(keys) = &parts.keys
        && keys.bar(barred)
    {
        tracing::warn!("names of a site were revoked: their connections and sessions end");
        parts.rpc.end_revoked(&**keys);
    }
    revoke(parts, revoked_by(params));
}

/// The keys that these parameters revoke.
pub fn revoked_by(params: &[(String, String)]) -> BTreeSet<KeyHash> {
    params.iter().filter_map(|(name, _)| key_hash(name.strip_prefix(REVOKED)?)).collect()
}

/// The authorities of sites that parameters name; `None`: they say nothing of them.
fn sites(params: &[(String, String)]) -> Option<Sites> {
    let of = |wanted: &str| params.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
    let named = of(SITES)?.split(',').take(SITES_MAX).filter(|one| *one != NO_SITES);
    let read = |one: &str| {
        let site = of(&format!("{SITE}{one}"))?.parse::<Site>();
        let site = site.inspect_err(|error| {
            tracing::error!(%error, one, "keys of this authority of a site are not taken");
        });
        // Not something else under its name.
        site.ok().filter(|site| site.fingerprint().to_string() == one)
    };
    Sites::new(named.filter_map(read).collect()).ok()
}

/// The persistent parameters that say what is taken of sites.
fn site_params(list: &SiteList) -> Vec<(String, String)> {
    let sites = list.sites.all();
    let all: Vec<String> = sites.iter().map(|site| site.fingerprint().to_string()).collect();
    let named = if all.is_empty() { NO_SITES.to_owned() } else { all.join(",") };
    let each = sites.iter().map(|site| (format!("{SITE}{}", site.fingerprint()), site.to_string()));
    let barred = list.barred.iter().map(|name| (format!("{BARRED}{name}"), "1".to_owned()));
    each.chain(barred).chain([(SITES.to_owned(), named)]).collect()
}

/// True if it is a parameter of that kind, which the file decides.
fn is_site_param(name: &str) -> bool {
    name.starts_with(SITE) || name.starts_with(BARRED)
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
                let files =
                    [authority.list_path(), authority.authority_path(), authority.sites_path()];
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
                        Ok(now) => {
                            view.set_standing(now.clone());
                            standing = Some(now);
                        }
                        Err(error) => {
                            tracing::error!(%error, "the key of the MGS' host cannot follow the authority")
                        }
                    }
                    let names = revoked.iter().map(|hash| format!("{REVOKED}{hash}"));
                    let names = names.map(|name| (name, "1".to_owned()));
                    let authorities = standing.as_ref().and_then(authority_param);
                    let mut params: Vec<_> = names.chain(authorities).collect();
                    match authority.sites() {
                        Ok(list) => params.extend(list.iter().flat_map(site_params)),
                        Err(error) => {
                            tracing::error!(%error, "what is taken of sites cannot be read");
                            let kept = |(name, _): &&(String, String)| {
                                name == SITES || is_site_param(name)
                            };
                            params.extend(wanted.iter().filter(kept).cloned());
                        }
                    }
                    if params != wanted {
                        obey(&parts, &params);
                        untold = params.iter().cloned().collect();
                        wanted = params;
                    }
                }
                let (params, surplus) = match view.alive().mgs() {
                    Some((mgs, _)) => (missing(&mgs, &wanted), surplus(&mgs, &wanted)),
                    None => (untold.clone(), BTreeSet::new()),
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
                // After those that name what holds.
                for name in surplus {
                    let every = EVERY_FILE_SYSTEM.to_owned();
                    if let Err(error) = parts.mgc().set_param(every, name.clone(), None).await {
                        tracing::error!(%error, name, "a parameter of a site is not removed");
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

/// Parameters of sites that a file system has and the file does not.
fn surplus(mgs: &Mgs, wanted: &[(String, String)]) -> BTreeSet<String> {
    let configs = mgs.configs();
    let all = configs.values().flat_map(|config| &config.params).map(|(name, _)| name);
    let is_known = |name: &String| wanted.iter().any(|(known, _)| known == name);
    all.filter(|name| is_site_param(name) && !is_known(name)).cloned().collect()
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
    fn sites_are_those_that_the_parameter_names_and_that_are_what_it_names() {
        let mgt = tempfile::tempdir().unwrap();
        let dir = AuthorityDir::of(mgt.path());
        let name = "mgs".parse().unwrap();
        dir.make(types::session::ClusterId(7), &[], &name, 60).unwrap();
        let ca = include_str!("../host/authority/site_ca.pem");
        dir.trust(ca, vec!["spiffe://a/x/*=client:one".parse().unwrap()]).unwrap();
        dir.revoke(&KeyName::of_any("one+a").unwrap()).unwrap();
        let list = dir.sites().unwrap().unwrap();
        let params = site_params(&list);
        assert_eq!(sites(&params), Some(list.sites.clone()));
        assert!(params.contains(&("auth.barred.one+a".to_owned(), "1".to_owned())));
        assert!(params.iter().filter(|(name, _)| is_site_param(name)).count() == 2);
        // As they are set: the one that says what holds is the last.
        let sorted: BTreeSet<_> = params.iter().cloned().collect();
        assert_eq!(sorted.last().unwrap().0, SITES);
        // It says nothing; it says that there are none; what it names is not there, or is not that.
        assert_eq!(sites(&params[..2]), None);
        let none = SiteList::default();
        assert_eq!(sites(&site_params(&none)), Some(Sites::default()));
        assert_eq!(sites(&params[1..]), Some(Sites::default()));
        for wrong in ["x", "QQ== spiffe://a/x=client:y"] {
            let mut params = params.clone();
            params[0].1 = wrong.to_owned();
            assert_eq!(sites(&params), Some(Sites::default()), "{wrong}");
        }
        let mut params = params.clone();
        let other = "0".repeat(64);
        params[0].0 = format!("{SITE}{other}");
        params[2].1 = other;
        assert_eq!(sites(&params), Some(Sites::default()), "another name");
    }

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
