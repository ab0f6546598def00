//! Keys: they are renewed and revoked while their owners work, and a thief tries what it must not.
//!
//! A client whose key is revoked gets no answer after [`OUT_WITHIN`], nor does a process that has
//! stolen the key and uses it until the end of the run, also while servers restart. Others go on,
//! which the other judges see. Before that, a process with a good key of its own asks what its role
//! may not ask, and for the session of another client.

use super::*;
use crate::thefts::{Theft, Trick};
use crate::twin::Key;
use simenv::machine::Process;
use types::credentials::Credentials;
use types::nid::Nid;
use types::session::ClientUuid;
use types::target::TargetName;

/// In so many of 1000 cases a key is renewed between two faults.
const RENEWED: u64 = 60;
/// And in so many of them one is revoked.
const REVOKED: u64 = 200;
/// Keys that are revoked in a run at most.
const REVOKED_MAX: u64 = 2;
/// Once the MGS has been told, no request with a revoked key is answered after this time.
const OUT_WITHIN: Duration = Duration::from_secs(2);
/// For so long its owner tries after that.
const TRIES_FOR: Duration = Duration::from_secs(2);
/// Servers that were started so long ago hear the MGS.
const HEARS: Duration = Duration::from_secs(5);
/// Every target is heard within this time, or it is too slow to say anything of the time.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);
/// Pause between two requests of a thief to one target.
const PAUSE: Duration = Duration::from_millis(100);

impl Run {
    /// Keys are renewed and revoked; the mount that comes instead of one whose key was.
    pub(super) fn trouble_with_keys(&mut self) -> Option<usize> {
        let living = self.living();
        let keys = self.keys.as_mut()?;
        if keys.rng.chance(RENEWED) && !living.is_empty() {
            let mount = *keys.rng.pick(&living);
            if let Some(twin) = &self.mounts[mount].twin {
                twin.renew(self.cluster.issue(self.mounts[mount].machine));
                keys.seen.renewed += 1;
            }
        }
        let may = keys.seen.revoked < REVOKED_MAX && !self.fault_profile.together;
        let is_quiet = self.cluster.world.now() >= keys.server_started + HEARS;
        if !(keys.rng.chance(REVOKED) && may && is_quiet && living.len() > 1) {
            return None;
        }
        let victim = *keys.rng.pick(&living);
        let other = *living.iter().find(|mount| **mount != victim)?;
        if !self.cluster.is_recovered() {
            return None;
        }
        self.heal();
        self.pretend(other);
        self.revoke(victim)
    }

    /// A process with this key begins with a trick at these targets.
    fn steal(
        &mut self,
        key: Key,
        trick: Trick,
        targets: Vec<(TargetName, Nid)>,
    ) -> Option<(Arc<Process>, Arc<Mutex<Theft>>)> {
        let machine = self.cluster.world.machine(0);
        let (env, process, rpc) = self.cluster.process(machine, key)?;
        let began = self.cluster.world.now();
        let theft = Arc::<Mutex<Theft>>::default();
        let uuid = match trick {
            Trick::Session(uuid) => uuid,
            _ => ClientUuid(env.random.next_u128()),
        };
        for (target, nid) in targets {
            let import = rpc.import(target, vec![nid], uuid, "a thief".to_owned(), None);
            let (clock, theft) = (env.clock.clone(), theft.clone());
            let work = async move {
                loop {
                    let at = began + clock.now();
                    let result = import.one(&Credentials::root(), trick.request(target.kind)).await;
                    theft.lock().note(at, target, trick, &result);
                    clock.sleep(PAUSE).await;
                }
            };
            env.tasks.spawn("thief", Box::pin(work));
        }
        Some((process, theft))
    }

    /// A process with a good key asks for what only servers may have, and for the session of this
    /// mount with the first MDT, which is in service.
    fn pretend(&mut self, mount: usize) {
        let Some(client) = self.mounts[mount].client.lock().clone() else { return };
        let Some(mdc) = client.session().mdts().into_iter().next() else { return };
        let healed = self.mounts[mount].env.clock.now();
        let proved = |_: &Run| mdc.import().proved_at().is_some_and(|at| at > healed);
        if !self.wait(ANSWERS_WITHIN, proved) || !self.is_mounted(mount) {
            return;
        }
        let key = self.cluster.issue(self.mounts[mount].machine);
        let all = self.cluster.targets();
        let of = |kind| all.iter().filter(move |(target, _)| target.kind == kind).copied();
        let mdt = of(TargetKind::Mdt).take(1).collect();
        let key = Key { host: u8::MAX, ..key };
        let now = self.cluster.world.now();
        for (trick, targets) in [
            (Trick::ForServers, of(TargetKind::Ost).collect()),
            (Trick::Session(client.session().uuid()), mdt),
        ] {
            let Some((process, theft)) = self.steal(key, trick, targets) else { return };
            theft.lock().limit = Some(now);
            self.wait(ANSWERS_WITHIN, |_| theft.lock().refused > 0);
            self.cluster.world.kill(&process, Kill::Process);
            let Theft { refused, answered, .. } = std::mem::take(&mut *theft.lock());
            self.wrong.extend(answered);
            if let Some(keys) = &mut self.keys {
                keys.seen.forbidden += refused;
            }
        }
    }

    /// The key of a mount is revoked; the mount that comes instead of it.
    fn revoke(&mut self, victim: usize) -> Option<usize> {
        let key = self.mounts[victim].twin.as_ref()?.key();
        let targets = self.cluster.targets();
        let all = targets.len();
        let (process, theft) = self.steal(key, Trick::OtherKey, targets)?;
        if !self.wait(ANSWERS_WITHIN, |_| theft.lock().before.len() == all)
            || !self.is_mounted(victim)
        {
            tracing::debug!(before = ?theft.lock().before, "a thief is not heard");
            self.cluster.world.kill(&process, Kill::Process);
            return None;
        }
        let revoked_at = self.recorder.history.moment();
        self.lost_contact(victim);
        self.last_death = self.cluster.world.now();
        self.ends[victim].store(true, Ordering::Relaxed);
        let done = self.cluster.revoke(key.host);
        if !self.wait(START_MAX, |_| done.load(Ordering::Relaxed)) {
            self.wrong.push(format!("a key could not be revoked within {START_MAX:?}"));
            return None;
        }
        let limit = self.cluster.world.now() + OUT_WITHIN;
        theft.lock().limit = Some(limit);
        self.wait(OUT_WITHIN, |_| false);
        let at_limit = self.mounts[victim].env.clock.now();
        self.wait(TRIES_FOR, |_| false);
        self.recorder.locks.cut_off(usize::from(self.mounts[victim].machine.0), revoked_at);
        self.recorder.bytes.cut_off(victim, revoked_at);
        let client = self.mounts[victim].client.lock().clone();
        let imports: Vec<Arc<Import>> = client.iter().flat_map(|client| imports(client)).collect();
        // What it sent since was answered.
        let heard = imports.iter().filter(|import| import.proved_at() > Some(at_limit));
        self.wrong.extend(heard.map(|import| {
            format!("mount {victim} is heard by {} though its key was revoked", import.target())
        }));
        if let Some(keys) = &mut self.keys {
            keys.seen.revoked += 1;
            keys.thefts.push(theft);
        }
        Some(self.kill_client(victim))
    }

    /// What was done with revoked keys until the end.
    pub(super) fn judge_keys(&mut self) {
        let Some(keys) = &mut self.keys else { return };
        for theft in std::mem::take(&mut keys.thefts) {
            let Theft { refused, answered, .. } = std::mem::take(&mut *theft.lock());
            keys.seen.late += refused;
            self.wrong.extend(answered);
            if refused == 0 && self.wrong.is_empty() {
                self.wrong.push("a revoked key was not refused".to_owned());
            }
        }
    }
}
