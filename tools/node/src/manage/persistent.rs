//! Persistent parameters: those that the MGS keeps (`lctl set_param -P`), and those of this host's
//! own file.
//!
//! A task per file system follows the configuration. While there is anything to apply it also looks
//! each second for parameters that have just come (a session with a new OST). A parameter is set
//! once for each value, so a value that an administrator sets by hand later stands until the value
//! at the MGS changes. What does something at once when it is written (`catalog::not_kept`) is
//! never set from here. What is kept for a narrower scope counts more (`idmap::scope`), and the
//! file of the host most. Nothing is taken back: a deleted parameter keeps its value, unless a
//! wider scope has one, until the process starts again.

use crate::manage::{params, security};
use crate::watch::view::View;
use env::watch;
use idmap::scope::ScopedParam;
use observe::catalog;
use observe::tree::{Entry, Found, Tree};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use types::errno::Errno;
use types::target::FsName;
use wire::mgs::ScopesVersion;

/// How long the MGS may keep a request waiting, ms.
const WAIT_MS: u32 = 30_000;
/// Pause after the MGS did not answer, and between two looks for parameters that came.
const PAUSE: Duration = Duration::from_secs(1);
/// The same, if it is of an earlier version, which logs what it does not know.
const PAUSE_OF_EARLIER: Duration = Duration::from_secs(300);

/// Persistent parameters of one process.
pub struct Persistent {
    state: Arc<Mutex<State>>,
    stop: watch::Sender<bool>,
    followed: BTreeSet<FsName>,
}

#[derive(Default)]
struct State {
    /// Of each file system, in the order set.
    kept: BTreeMap<FsName, Vec<(String, String)>>,
    /// Of the scopes in which this process is; a later one counts more.
    scoped: Vec<ScopedParam>,
    /// Version of those.
    scopes: Option<ScopesVersion>,
    /// Of this host's file.
    own: Vec<(String, String)>,
    /// Values that were set, by full name. Bound: the parameters of this process.
    applied: BTreeMap<String, String>,
}

impl Persistent {
    /// `own`: pattern and value of each parameter of this host's file.
    pub fn new(own: Vec<(String, String)>) -> Persistent {
        let (stop, _) = watch::channel(false);
        let state = State { own, ..State::default() };
        Persistent { state: Arc::new(Mutex::new(state)), stop, followed: BTreeSet::new() }
    }

    /// Follows a file system's configuration from now on, once.
    pub fn follow(&mut self, view: &Arc<View>, fsname: FsName) {
        if !self.followed.insert(fsname) {
            return;
        }
        if self.followed.len() == 1 {
            let work = follow_scopes(view.clone(), self.state.clone(), self.stop.subscribe());
            let tasks = &view.parts().env.tasks;
            tasks.spawn("follow parameters of scopes", Box::pin(work));
        }
        let follower = Follower { view: view.clone(), fsname, state: self.state.clone() };
        let work = follower.follow(self.stop.subscribe());
        view.parts().env.tasks.spawn("follow persistent parameters", Box::pin(work));
    }

    /// Asks for the parameters of all file systems and applies them, so that they hold before
    /// programs come. An MGS that does not answer is left to the tasks.
    pub async fn apply_now(&self, view: &Arc<View>) {
        for fsname in &self.followed {
            let ask = view.parts().mgc();
            tokio::select! {
                biased;
                answer = ask.config(fsname.to_string(), 0, 0) => match answer {
                    Ok(config) => {
                        security::obey(view.parts(), &config.params);
                        self.state.lock().kept.insert(*fsname, config.params);
                    }
                    Err(error) => tracing::warn!(%error, "no persistent parameters yet"),
                },
                () = view.parts().env.clock.sleep(PAUSE) => tracing::warn!("persistent parameters come later"),
            }
        }
        if !self.followed.is_empty() {
            tokio::select! {
                biased;
                () = learn_scopes(view, &self.state, 0) => {}
                () = view.parts().env.clock.sleep(PAUSE) => tracing::warn!("parameters of scopes come later"),
            }
        }
        apply(view, &self.state).await;
    }

    /// Ends the tasks.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

/// Asks for the parameters of the scopes in which this process is. An MGS of an earlier version has
/// none.
async fn learn_scopes(view: &Arc<View>, state: &Mutex<State>, wait_ms: u32) {
    let parts = view.parts();
    let known = state.lock().scopes;
    let asked = (parts.host.clone(), false);
    match parts.mgc().scoped(asked, known, wait_ms).await {
        Ok((version, params)) => {
            let mut state = state.lock();
            (state.scopes, state.scoped) = (Some(version), params);
        }
        Err(error) if error.errno() == Errno::EPROTO => {
            tracing::debug!("the MGS keeps no parameters of scopes");
            parts.env.clock.sleep(PAUSE_OF_EARLIER).await;
        }
        Err(error) => {
            tracing::debug!(%error, "parameters of scopes: the MGS does not answer");
            parts.env.clock.sleep(PAUSE).await;
        }
    }
}

async fn follow_scopes(view: Arc<View>, state: Arc<Mutex<State>>, mut stop: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => return,
            () = learn_scopes(&view, &state, WAIT_MS) => apply(&view, &state).await,
        }
    }
}

struct Follower {
    view: Arc<View>,
    fsname: FsName,
    state: Arc<Mutex<State>>,
}

impl Follower {
    async fn follow(self, mut stop: watch::Receiver<bool>) {
        let (mgc, env) = (self.view.parts().mgc(), self.view.parts().env.clone());
        let mut version = 0;
        let mut asked = Box::pin(mgc.config(self.fsname.to_string(), version, WAIT_MS));
        loop {
            // Parameters may come at any moment, but only if there is something to apply to them.
            let look = !self.state.lock().is_empty();
            tokio::select! {
                biased;
                _ = stop.changed() => return,
                answer = &mut asked => {
                    match answer {
                        Ok(config) if config.version > version => {
                            version = config.version;
                            security::obey(self.view.parts(), &config.params);
                            self.state.lock().kept.insert(self.fsname, config.params);
                        }
                        Ok(_) => {}
                        Err(error) => {
                            tracing::debug!(%error, "persistent parameters: the MGS does not answer");
                            tokio::select! {
                                biased;
                                _ = stop.changed() => return,
                                () = env.clock.sleep(PAUSE) => {}
                            }
                        }
                    }
                    asked = Box::pin(mgc.config(self.fsname.to_string(), version, WAIT_MS));
                }
                () = env.clock.sleep(PAUSE), if look => {}
            }
            apply(&self.view, &self.state).await;
        }
    }
}

impl State {
    fn is_empty(&self) -> bool {
        self.own.is_empty() && self.scoped.is_empty() && self.kept.values().all(Vec::is_empty)
    }

    fn wanted(&self) -> Vec<(String, String)> {
        let scoped = self.scoped.iter().map(|param| (param.name.clone(), param.value.clone()));
        let kept = self.kept.values().flatten().cloned();
        kept.chain(scoped).chain(self.own.iter().cloned()).collect()
    }
}

/// Sets what is wanted and has not been set to this value.
async fn apply(view: &Arc<View>, state: &Mutex<State>) {
    let wanted = {
        let state = state.lock();
        if state.is_empty() {
            return;
        }
        state.wanted()
    };
    let tree = params::tree(view);
    let mut values = values_of(&tree, wanted);
    values.retain(|name, value| state.lock().applied.get(name) != Some(value));
    for (name, entry) in tree.entries() {
        let Some(value) = values.remove(name) else { continue };
        set(name, entry, &value).await;
        // Also a refused value: it would be refused each second.
        state.lock().applied.insert(name.to_owned(), value);
    }
}

/// Sets all parameters of a tree that the MGS keeps a value of, once: those that must hold before a
/// target is in service.
pub(crate) async fn apply_to(tree: &Tree, kept: Vec<(String, String)>) {
    let mut values = values_of(tree, kept);
    for (name, entry) in tree.entries() {
        if let Some(value) = values.remove(name) {
            set(name, entry, &value).await;
        }
    }
}

/// The values that parameters of the tree are to have, by full name.
pub(crate) fn values_of(tree: &Tree, wanted: Vec<(String, String)>) -> BTreeMap<String, String> {
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    for (pattern, value) in wanted {
        match tree.find(&pattern, false) {
            Ok(found) => {
                for (name, _) in
                    found.into_iter().filter(|(_, found)| matches!(found, Found::Param(_)))
                {
                    // The later word counts.
                    values.insert(name.to_owned(), value.clone());
                }
            }
            Err(bad) => tracing::warn!(%bad, "persistent parameter"),
        }
    }
    values
}

async fn set(name: &str, entry: &Entry, value: &str) {
    let set = match catalog::not_kept(entry.param, value) {
        None => entry.set(value.to_owned()).await.map_err(|errno| errno.to_string()),
        Some(why) => Err(why.to_owned()),
    };
    match set {
        Ok(()) => tracing::info!(name, value, "persistent parameter"),
        Err(why) => tracing::warn!(name, value, why, "persistent parameter is refused"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_s_word_comes_last() {
        let pair = |n: &str, v: &str| (n.to_owned(), v.to_owned());
        let mut state = State { own: vec![pair("a", "2")], ..State::default() };
        state.kept.insert(FsName::default(), vec![pair("a", "1"), pair("b", "1")]);
        assert_eq!(state.wanted(), [pair("a", "1"), pair("b", "1"), pair("a", "2")]);
        let scope = "host:x".parse().unwrap();
        state.scoped.push(ScopedParam { scope, name: "b".into(), value: "3".into() });
        let all = [pair("a", "1"), pair("b", "1"), pair("b", "3"), pair("a", "2")];
        assert_eq!(state.wanted(), all);
        assert!(!state.is_empty() && State::default().is_empty());
    }
}
