//! Names pass from one stripe of a directory to another, while it is split or merged (docs/dne.md,
//! section 12).
//!
//! The MDT of the directory itself takes the next names in their order, at most
//! `MdsSettings::names_per_bundle`, and moves those that belong elsewhere in one bundle, which also
//! moves the cursor in all stripes. So the records say at any time which names have passed, and a
//! restarted MDT goes on from there. No inode changes; but if the directory goes to other inodes,
//! those of its names record that, and the old ones end with the last bundle.
//!
//! One task. Bound: one bundle at a time; each directory in turn.

use super::Steps;
use super::coordinate::{AGAIN, Working};
use super::find::{NAMES_MAX, find, mdt_of};
use super::gather::{Hindrance, Preparing};
use super::restripe::stripes_of;
use super::steps::{Occasion, do_part, inode_of};
use super::stripes::STEPS_BYTES_MAX;
use crate::background::tasks::{Backoff, Stop};
use crate::locks::context::{LockContext, Obstacle};
use crate::mds::Mds;
use disk::bundle::Step;
use env::clock::Monotonic;
use layout::dir_stripes::DirStripes;
use namespace::view::View;
use observe::mutant::{Mutant, is_mutant};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use types::attr::FileType;
use types::bundle::BundleId;
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use types::target::TargetIndex;
use types::time::Timestamp;
use wire::mds::{PeerFacts, PeerFind, PeerName};

/// Shortest and longest pause between two bundles of one directory, in which it is open to its
/// users: as long as the bundle took.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// Names wait so long for those that clients hold, in times for which names are held
/// (`MdsSettings::names_held`).
const HELD_WAITS: u32 = 10;
/// Pauses after failures.
const FAILED: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Passed {
    /// Names have passed, and there are more.
    Some,
    /// No name moves any more.
    All,
}

impl Mds {
    /// The task; it ends with the MDT.
    pub(crate) async fn pass_names(self: Arc<Mds>, mut stop: Stop) {
        let mut backoff = Backoff::new(FAILED.0, FAILED.1);
        let (mut busy, mut met, mut looked) = (0u32, Vec::new(), self.env.clock.now());
        // Since when a directory has waited for other operations.
        let mut waits: BTreeMap<Fid, Monotonic> = BTreeMap::new();
        loop {
            let due = self.state.lock().growth.take_due();
            if let Some((dir, grows)) = due {
                tokio::select! {
                    biased;
                    () = stop.stopped() => return,
                    () = self.grown(dir, grows) => {}
                }
            }
            let all: Vec<Fid> = self.state.lock().moving.iter().copied().collect();
            let rests = all.is_empty() && due.is_none();
            if rests && !self.passing.wait(&self.env, self.next_look(), &mut stop).await {
                return;
            }
            let now = self.env.clock.now();
            if self.next_look().is_some_and(|between| now.saturating_sub(looked) >= between) {
                looked = now;
                tokio::select! {
                    biased;
                    () = stop.stopped() => return,
                    () = self.merge_small() => {}
                }
            }
            waits.retain(|fid, _| all.contains(fid));
            for fid in all {
                let begun = self.env.clock.now();
                let waited = waits.get(&fid).map_or(Duration::ZERO, |since| begun - *since);
                let pass_held = waited >= self.settings.names_held * HELD_WAITS;
                let passed = tokio::select! {
                    biased;
                    () = stop.stopped() => return,
                    passed = self.pass_some(fid, &mut met, pass_held) => passed,
                };
                if matches!(passed, Ok(Err(Hindrance::Busy))) {
                    busy += 1;
                    waits.entry(fid).or_insert(begun);
                } else {
                    busy = 0;
                    waits.remove(&fid);
                }
                let pause = match passed {
                    Ok(Ok(_)) => {
                        backoff.succeeded();
                        self.env.clock.now().saturating_sub(begun).clamp(PAUSE.0, PAUSE.1)
                    }
                    Ok(Err(Hindrance::Busy)) => {
                        // Longer each time: another operation over MDTs is in the way.
                        let longest = (PAUSE.0 * (1 << busy.min(8))).min(AGAIN).as_micros() as u64;
                        PAUSE.0 + Duration::from_micros(self.env.random.next_u64() % longest)
                    }
                    Ok(Err(Hindrance::Away)) => AGAIN,
                    Err(errno) => {
                        tracing::warn!(target = %self.name, %fid, %errno, "names do not pass to their stripes");
                        backoff.failed()
                    }
                };
                tokio::select! {
                    biased;
                    () = stop.stopped() => return,
                    () = self.env.clock.sleep(pause) => {}
                }
            }
        }
    }

    /// One bundle. `met`: inodes that clients held when the attempt before came to them; they are
    /// asked first. `pass_held`: also while clients hold names.
    async fn pass_some(
        &self,
        fid: Fid,
        met: &mut Vec<PeerFind>,
        pass_held: bool,
    ) -> Result<Result<Passed, Hindrance>, Errno> {
        let now = self.read(|records| match records.inode(fid)? {
            Some(inode) if inode.attr.nlink > 0 => stripes_of(&inode),
            _ => Ok(None),
        })?;
        let Some((stripes, cursor)) = now.and_then(|stripes| {
            let cursor = stripes.moving()?.cursor.clone();
            Some((stripes, cursor))
        }) else {
            // It was removed.
            self.transact(&mut LockContext::own(), |records, _| {
                records.names_move(fid, false);
                Ok(())
            })?;
            return Ok(Ok(Passed::All));
        };
        self.store.admit().await?;
        let begun = self.state.lock().bundles.coordinator.begin(Vec::new());
        let Some(id) = begun else { return Ok(Err(Hindrance::Away)) };
        let _working = Working::on(self, id);
        let (mut asked, first) = (Preparing::of_itself(id), std::mem::take(met));
        asked.pass_held = pass_held;
        let facts = match self.gather_names(&stripes, cursor.as_ref(), first, &mut asked).await? {
            Ok(facts) => facts,
            Err(hindrance) => return Ok(Err(hindrance)),
        };
        let Some(mut batch) = Batch::of(&stripes, facts)? else { return Ok(Err(Hindrance::Busy)) };
        if !stripes.leaves().is_empty() {
            match self.pin_inodes(&stripes, &mut batch, &mut asked).await? {
                Ok(()) => {}
                Err(Held { hindrance, finds }) => {
                    *met = finds;
                    return Ok(Err(hindrance));
                }
            }
        }
        let passed = if batch.up_to.is_none() { Passed::All } else { Passed::Some };
        let names = batch.names.len();
        let steps = batch.steps(&stripes, self.env.clock.wall());
        if let Err(hindrance) = self.carry_alone(id, steps).await? {
            return Ok(Err(hindrance));
        }
        self.names_moved.fetch_add(names as u64, Relaxed);
        tracing::debug!(target = %self.name, %fid, bundle = %id, names, ?passed, "names have passed");
        Ok(Ok(passed))
    }

    /// Pins all stripes and these inodes, and asks each stripe for its next names.
    async fn gather_names(
        &self,
        stripes: &DirStripes,
        cursor: Option<&Name>,
        first: Vec<PeerFind>,
        asked: &mut Preparing,
    ) -> Result<Result<Vec<PeerFacts>, Hindrance>, Errno> {
        let old = stripes.moving().map_or(1, |moving| usize::from(moving.count)).max(1);
        let most = self.settings.names_per_bundle.min(NAMES_MAX);
        let limit = (most / old).max(1) as u32; // at most NAMES_MAX
        let find = |dir: &Fid| PeerFind::Names { dir: *dir, after: cursor.cloned(), limit };
        self.pin_names(stripes.all().iter().map(find).chain(first), asked).await
    }

    /// The directory goes to other inodes: pins the inodes of the names that pass, which record
    /// that, and in the last bundle those that the directory leaves.
    async fn pin_inodes(
        &self,
        stripes: &DirStripes,
        batch: &mut Batch,
        asked: &mut Preparing,
    ) -> Result<Result<(), Held>, Errno> {
        let id = asked.id;
        let inode = |fid: Fid, loses: bool| PeerFind::Inode { fid, loses };
        let of_names = batch.names.iter().filter_map(|found| Some(inode(found.to?.0, false)));
        let mut finds: Vec<PeerFind> = of_names.collect();
        if batch.up_to.is_none() {
            finds.extend(stripes.leaves().iter().map(|fid| inode(*fid, true)));
        }
        let mut by_mdt: BTreeMap<TargetIndex, Vec<PeerFind>> = BTreeMap::new();
        for find in finds.iter().filter(|find| !batch.has_pinned(find)) {
            let all = by_mdt.entry(mdt_of(find)).or_default();
            // A file may have several of the names.
            if !all.contains(find) {
                all.push(find.clone());
            }
        }
        let held = |hindrance| Ok(Err(Held { hindrance, finds: finds.clone() }));
        if let Some(own) = by_mdt.remove(&self.name.index) {
            let mut context = LockContext::own();
            context.asked.bundle = Some(id);
            let found = self.transact(&mut context, |records, _| find(records, id, &own));
            let (facts, newest) = match found {
                Err(Errno::EAGAIN) => return held(Hindrance::Busy),
                found => found?,
            };
            self.commit_up_to(newest).await?;
            batch.learn(facts);
        }
        match self.prepare_at(by_mdt, asked).await? {
            Ok(all) => all.into_iter().for_each(|facts| batch.learn(facts)),
            Err(hindrance) => return held(hindrance),
        }
        match self.all_know_all(asked).await? {
            true => Ok(Ok(())),
            false => held(Hindrance::Away),
        }
    }

    /// Pins stripes, for no client: first those that are here.
    pub(super) async fn pin_names(
        &self,
        finds: impl Iterator<Item = PeerFind>,
        asked: &mut Preparing,
    ) -> Result<Result<Vec<PeerFacts>, Hindrance>, Errno> {
        let id = asked.id;
        let mut by_mdt: BTreeMap<TargetIndex, Vec<PeerFind>> = BTreeMap::new();
        finds.for_each(|find| by_mdt.entry(mdt_of(&find)).or_default().push(find));
        let own = by_mdt.remove(&self.name.index).unwrap_or_default();
        let mut context = LockContext::own();
        context.asked.bundle = Some(id);
        context.asked.pass_held = asked.pass_held;
        let found = self
            .in_turn(&mut context, |context| {
                let found = self.transact(context, |records, _| find(records, id, &own));
                let outcome = &mut context.outcome;
                // It begins anew, so that no bundle waits for another one.
                outcome.obstacle.take_if(|obstacle| matches!(obstacle, Obstacle::Pinned(_)));
                found
            })
            .await;
        let (facts, newest) = match found {
            Err(Errno::EAGAIN) => return Ok(Err(Hindrance::Busy)),
            found => found?,
        };
        self.commit_up_to(newest).await?;
        let seen = std::mem::take(&mut context.outcome.seen);
        if !seen.is_empty() {
            self.call_authors_back(seen, false).await;
        }
        let others = self.prepare_at(by_mdt, asked).await?;
        Ok(others.map(|mut all| {
            all.push(facts);
            all
        }))
    }

    /// Decides a bundle that no client has asked for, and has it applied at the others, then here.
    pub(super) async fn carry_alone(
        &self,
        id: BundleId,
        steps: Vec<Step>,
    ) -> Result<Result<(), Hindrance>, Errno> {
        let decided = {
            let bundles = &mut self.state.lock().bundles;
            let decided = bundles.coordinator.decide(id, Steps::new(steps));
            if decided.is_some() {
                bundles.pins.unsettle(id);
            }
            decided
        };
        let Some(bundle) = decided else { return Ok(Err(Hindrance::Away)) };
        if let Err(errno) = self.apply_at_all(None, &bundle).await? {
            return if errno == Errno::EAGAIN { Ok(Err(Hindrance::Away)) } else { Err(errno) };
        }
        self.transact(&mut LockContext::own(), |records, ctx| {
            do_part(records, ctx, self.name.index, &bundle, Occasion::Left)
        })?;
        self.unpinned.notify_waiters();
        self.finish.wake();
        Ok(Ok(()))
    }
}

/// Clients, or another operation, have some of these inodes.
struct Held {
    hindrance: Hindrance,
    finds: Vec<PeerFind>,
}

/// What passes in one bundle.
struct Batch {
    names: Vec<PeerName>,
    /// The new cursor; `None`: all have passed.
    up_to: Option<Name>,
    /// Inodes that are pinned beside the stripes; `false`: there is no such inode.
    inodes: BTreeMap<Fid, bool>,
}

impl Batch {
    /// The next names of all stripes together. `None`: a stripe has changed since it was asked.
    fn of(stripes: &DirStripes, all: Vec<PeerFacts>) -> Result<Option<Batch>, Errno> {
        let (mut names, mut up_to, mut looked_at) = (Vec::new(), None::<Name>, 0);
        let mut inodes = BTreeMap::new();
        for facts in all {
            for found in &facts.inodes {
                if !stripes.all().contains(&found.fid) {
                    inodes.insert(found.fid, !found.record.is_empty());
                } else if stripes_in(found.fid, &found.record)?.as_ref() != Some(stripes) {
                    return Ok(None);
                }
            }
            looked_at += facts.looked.len();
            for end in facts.looked.into_iter().filter_map(|(_, end)| end) {
                if up_to.as_ref().is_none_or(|known| end < *known) {
                    up_to = Some(end);
                }
            }
            names.extend(facts.names);
        }
        if looked_at != stripes.all().len() {
            return Ok(None);
        }
        names.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        if let Some(end) = &up_to {
            names.retain(|found| found.name <= *end);
        }
        // What the record of a bundle has room for.
        let cursors = stripes.all().len() * (stripes.encode().len() + NAME_BYTES);
        let steps = if stripes.leaves().is_empty() { 2 } else { 3 };
        let most = STEPS_BYTES_MAX.saturating_sub(cursors) / (steps * NAME_BYTES);
        if names.len() > most.max(1) {
            names.truncate(most.max(1));
            up_to = names.last().map(|found| found.name.clone());
        }
        Ok(Some(Batch { names, up_to, inodes }))
    }

    fn learn(&mut self, facts: PeerFacts) {
        let inodes = facts.inodes.into_iter().map(|found| (found.fid, !found.record.is_empty()));
        self.inodes.extend(inodes);
    }

    /// True if it need not be asked for any more.
    fn has_pinned(&self, find: &PeerFind) -> bool {
        match find {
            // It loses nothing: that is how all of these are asked for.
            PeerFind::Inode { fid, loses: false } => self.inodes.contains_key(fid),
            _ => false,
        }
    }

    /// First the records of the stripes, so that names change over what they say; last, those that
    /// the directory leaves end.
    fn steps(self, stripes: &DirStripes, time: Timestamp) -> Vec<Step> {
        let next = match is_mutant(Mutant::CursorStays) && self.up_to.is_some() {
            true => stripes.clone(),
            false => stripes.passed(self.up_to),
        };
        let (record, leaves) = (next.encode(), stripes.leaves());
        let mut nlink: BTreeMap<Fid, i32> = stripes.all().iter().map(|fid| (*fid, 0)).collect();
        let mut moves = Vec::with_capacity(2 * self.names.len());
        for PeerName { dir, name, to } in self.names {
            let Some((fid, file_type)) = to else { continue };
            let new = stripes.place_then(name.as_bytes());
            if file_type == FileType::Directory {
                *nlink.entry(dir).or_default() -= 1;
                *nlink.entry(new).or_default() += 1;
            }
            moves.push(Step::Give { dir, name: name.clone(), file_type });
            // A name without an inode is damage, which is left to the checker.
            if let Some(from) =
                leaves.first().copied().filter(|_| self.inodes.get(&fid) == Some(&true))
                && !is_mutant(Mutant::HomeForgotten)
            {
                let (to, name) = (stripes.master(), name.clone());
                moves.push(Step::Home { fid, from, to, name, file_type });
            }
            moves.push(Step::Take { dir: new, name, fid, file_type });
        }
        let ends = |fid: &Fid| !next.all().contains(fid);
        let removed =
            leaves.iter().filter(|fid| ends(fid)).map(|fid| Step::Remove { fid: *fid, time });
        let restripe = |(fid, nlink)| Step::Restripe { fid, nlink, record: record.clone() };
        let stay = nlink.into_iter().filter(|(fid, _)| !ends(fid));
        stay.map(restripe).chain(moves).chain(removed).collect()
    }
}

/// Most bytes of a name in a step.
const NAME_BYTES: usize = 320;

/// The stripes in what an MDT has found of a directory.
fn stripes_in(fid: Fid, record: &[u8]) -> Result<Option<DirStripes>, Errno> {
    let inode = inode_of(fid, record)?;
    match inode.flags.contains(namespace::inode::InodeFlags::STRIPED) {
        true => crate::records::tail::stripes(&inode).map(Some),
        false => Ok(None),
    }
}
