//! An operation on names over several MDTs, from its request on: each MDT pins what the operation
//! is about there, and says what it is; then the operation is planned over all of that, decided and
//! applied.
//!
//! What it is about shows one thing after the other: a name tells the inode, the inode of a
//! directory tells the directory above it. So there may be several rounds. Nothing that is pinned
//! here waits for clients: what an attempt has found out is pinned first by the next one, which
//! waits for the holders of locks here before it pins anything.

use super::coordinate::{AGAIN, Working, is_of_session};
use super::facts::Facts;
use super::find::{find, mdt_of};
use super::operation::{NameOperation, Planned};
use crate::mds::{Mds, RequestContext};
use futures_util::future::join_all;
use namespace::context::Context;
use replay::bundle::coordinator::Prepared;
use rpc::error::RpcError;
use rpc::service::Export;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::bundle::BundleId;
use types::errno::Errno;
use types::session::{ClientUuid, Transno};
use types::target::TargetIndex;
use wire::mds::{MdsReply, PeerFacts, PeerFind, PeerPrepare};

/// Shortest pause before an attempt that met another operation is made again.
const PAUSE: Duration = Duration::from_millis(2);
/// Rounds of one attempt: as many as a chain of directories can change between MDTs.
const ROUNDS_MAX: usize = 256;

/// Why an attempt is made again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hindrance {
    /// Another operation was in the way.
    Busy,
    /// Another MDT was away, or restarted.
    Away,
}

/// A bundle that other MDTs are asked to prepare.
pub(super) struct Preparing {
    pub(super) id: BundleId,
    /// Whether its steps take space.
    space: bool,
    /// Whether names pass though clients hold some.
    pub(super) pass_held: bool,
    /// The client that asks for it; [`ClientUuid::default`]: this MDT itself.
    client: ClientUuid,
    /// By MDT, how many MDTs it knows to take part.
    told: BTreeMap<TargetIndex, usize>,
}

impl Preparing {
    /// One that this client asks for. No other MDT knows of it. `space`: its steps take some.
    pub(super) fn of(id: BundleId, client: ClientUuid, space: bool) -> Preparing {
        Preparing { id, space, pass_held: false, client, told: BTreeMap::new() }
    }

    /// One that this MDT asks for itself, and that takes space.
    pub(super) fn of_itself(id: BundleId) -> Preparing {
        Preparing::of(id, ClientUuid::default(), true)
    }
}

/// One attempt: its bundle, and what the MDTs have said.
pub(super) struct Gathering {
    asked: Preparing,
    facts: Facts,
}

impl Gathering {
    /// Nothing is known yet.
    pub(super) fn new(asked: Preparing) -> Gathering {
        Gathering { asked, facts: Facts::default() }
    }
}

impl Mds {
    /// Waits while an MDT that takes part is away.
    ///
    /// # Errors
    /// Those of the system call; EXDEV: too many directories are above the new place.
    pub(crate) async fn over_mdts(
        &self,
        request: &mut RequestContext<'_>,
        op: NameOperation<'_>,
    ) -> Result<MdsReply, Errno> {
        self.ours(op.dir())?;
        let mut finds = op.finds();
        let (mut busy, mut again) = (0, false);
        let _trying = self.trying();
        loop {
            match self.attempt(request, op, &mut finds).await {
                // A directory above the new place, as the attempt before found it, has gone to
                // another inode since.
                Err(Errno::EIO) if again => {
                    finds = op.finds();
                    again = false;
                    continue;
                }
                done => match done? {
                    Ok(reply) => return Ok(reply),
                    Err(Hindrance::Busy) => {
                        self.back_off(request.export, busy).await?;
                        busy += 1;
                    }
                    Err(Hindrance::Away) => self.pause(request.export).await?,
                },
            }
            again = true;
        }
    }

    /// `finds`: what the attempt before has looked at; then, what this one has.
    async fn attempt(
        &self,
        request: &mut RequestContext<'_>,
        op: NameOperation<'_>,
        finds: &mut Vec<PeerFind>,
    ) -> Result<Result<MdsReply, Hindrance>, Errno> {
        let begun = self.state.lock().bundles.coordinator.begin(Vec::new());
        let Some(id) = begun else { return Ok(Err(Hindrance::Away)) };
        let _working = Working::on(self, id);
        let client = request.client();
        let mut gathering = Gathering::new(Preparing::of(id, client, op.takes_space()));
        gathering.facts.realm = request.lock_context.asked.realm;
        let mut wanted = std::mem::replace(finds, op.finds());
        let expected = request.expected.clone();
        for round in 0..ROUNDS_MAX {
            let pinned = self.pin_all(request, &mut gathering, &wanted, round == 0).await?;
            add(finds, &wanted);
            if let Err(hindrance) = pinned {
                tracing::debug!(target = %self.name, bundle = %id, ?hindrance, ?wanted, "not now");
                return Ok(Err(hindrance));
            }
            wanted = op.unknown_inodes(&gathering.facts)?;
            if !wanted.is_empty() {
                continue;
            }
            let credentials = request.credentials;
            let ctx = Context { credentials, now: self.env.clock.wall(), version: 0 };
            let is_squashed = request.is_squashed;
            let facts = &mut gathering.facts;
            let Planned { steps, reply } = match op.plan(facts, &ctx, &expected, is_squashed) {
                Ok(planned) => planned,
                Err(Errno::EREMOTE) => match facts.take_missing() {
                    Some(find) => {
                        wanted = vec![find];
                        continue;
                    }
                    None => return Err(Errno::EIO),
                },
                Err(errno) => {
                    let misses = errno == Errno::ESTALE && !expected.is_empty();
                    if misses && op.comes_again(facts) {
                        self.give_up(id, client);
                        request.names_are_held = true;
                    }
                    return Err(errno);
                }
            };
            if steps.is_empty() {
                return Ok(Ok(reply));
            }
            if !self.all_know_all(&mut gathering.asked).await? {
                return Ok(Err(Hindrance::Away));
            }
            let done = self.decide_and_apply(request, id, steps, reply).await?;
            return Ok(done.ok_or(Hindrance::Away));
        }
        Err(Errno::EXDEV)
    }

    /// Pins all of it, here and at the others. `may_wait`: for holders of locks here, before that.
    pub(super) async fn pin_all(
        &self,
        request: &mut RequestContext<'_>,
        gathering: &mut Gathering,
        wanted: &[PeerFind],
        may_wait: bool,
    ) -> Result<Result<(), Hindrance>, Errno> {
        let Gathering { asked, facts } = gathering;
        let id = asked.id;
        let mut by_mdt: BTreeMap<TargetIndex, Vec<PeerFind>> = BTreeMap::new();
        wanted.iter().for_each(|find| by_mdt.entry(mdt_of(find)).or_default().push(find.clone()));
        if let Some(own) = by_mdt.remove(&self.name.index) {
            request.lock_context.asked.bundle = Some(id);
            let found = match may_wait {
                true => self.in_turn(request, |request| self.pin_here(request, id, &own)).await,
                false => self.pin_here(request, id, &own),
            };
            request.lock_context.asked.bundle = None;
            if request.lock_context.outcome.obstacle.take().is_some() {
                return Ok(Err(Hindrance::Busy));
            }
            let (found, newest) = found.map_err(too_much)?;
            self.commit_up_to(newest).await?;
            facts.learn(found)?;
        }
        match self.prepare_at(by_mdt, asked).await? {
            Ok(all) => all.into_iter().try_for_each(|found| facts.learn(found))?,
            Err(hindrance) => return Ok(Err(hindrance)),
        }
        if wanted.contains(&PeerFind::Token) {
            facts.has_token();
        }
        Ok(Ok(()))
    }

    fn pin_here(
        &self,
        request: &mut RequestContext<'_>,
        id: BundleId,
        finds: &[PeerFind],
    ) -> Result<(PeerFacts, Transno), Errno> {
        self.plan(request, |records, _| find(records, id, finds))
    }

    /// Asks these MDTs to prepare, all at once. The inner error: what one of them answered instead.
    pub(super) async fn prepare_at(
        &self,
        finds: BTreeMap<TargetIndex, Vec<PeerFind>>,
        asked: &mut Preparing,
    ) -> Result<Result<Vec<PeerFacts>, Hindrance>, Errno> {
        if finds.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        let Preparing { id, space, pass_held, client, ref mut told } = *asked;
        let others: BTreeSet<TargetIndex> = told.keys().chain(finds.keys()).copied().collect();
        let others: Vec<TargetIndex> = others.into_iter().collect();
        for mdt in finds.keys() {
            self.mark_under_way(*mdt).await?;
            told.insert(*mdt, others.len());
        }
        if !self.state.lock().bundles.coordinator.asks(id, finds.keys().copied()) {
            return Ok(Err(Hindrance::Away));
        }
        let ask = |(mdt, finds): (TargetIndex, Vec<PeerFind>)| {
            let others = others.clone();
            let prepare = PeerPrepare { id, space, pass_held, client, others, finds };
            async move {
                match self.peers.get(mdt) {
                    Some(peer) => Some((mdt, peer.peer_prepare(prepare).await)),
                    None => None,
                }
            }
        };
        let began = self.env.clock.now();
        let answers = self.until_stopped(join_all(finds.into_iter().map(ask))).await?;
        let (mut all, mut instead) = (Vec::new(), None);
        for answer in answers {
            let Some((mdt, answer)) = answer else {
                // The configuration does not name it (any more).
                return Err(Errno::ENODEV);
            };
            match answer {
                Ok((boot, facts)) => {
                    let bundles = &mut self.state.lock().bundles;
                    let counts = !bundles.participant.is_past(mdt, boot)
                        && bundles.coordinator.prepared(id, mdt) != Prepared::Gone;
                    match counts {
                        true => all.push(facts),
                        false => instead = Some(Hindrance::Away),
                    }
                }
                Err(RpcError::Errno(Errno::EAGAIN)) => {
                    instead = Some(Hindrance::Busy);
                    self.note_hindered(mdt, began);
                }
                Err(RpcError::Errno(errno)) if !is_of_session(errno) => {
                    return Err(too_much(errno));
                }
                Err(error) => {
                    tracing::warn!(bundle = %id, ?mdt, %error, "another MDT does not prepare its part");
                    instead = Some(Hindrance::Away);
                    self.note_hindered(mdt, began);
                }
            }
        }
        Ok(instead.map_or(Ok(all), Err))
    }

    /// Each MDT that takes part knows all of them. `false`: one of them does not prepare it again.
    pub(super) async fn all_know_all(&self, asked: &mut Preparing) -> Result<bool, Errno> {
        let all = asked.told.len();
        let behind = asked.told.iter().filter(|(_, known)| **known < all).map(|(mdt, _)| *mdt);
        let behind: BTreeMap<TargetIndex, Vec<PeerFind>> =
            behind.map(|mdt| (mdt, Vec::new())).collect();
        Ok(self.prepare_at(behind, asked).await?.is_ok())
    }

    /// Waits for a while before another attempt, each time longer. Two operations that met wait
    /// differently long.
    pub(super) async fn back_off(&self, export: &Export, busy: u32) -> Result<(), Errno> {
        self.pause_busy(busy).await?;
        crate::mds::alive(export)
    }

    /// As [`Mds::back_off`], for no client.
    pub(super) async fn pause_busy(&self, busy: u32) -> Result<(), Errno> {
        let longest = (PAUSE * (1 << busy.min(7))).min(AGAIN);
        let random = self.env.random.next_u64() % (longest.as_micros() as u64 + 1); // < 1 s
        let pause = PAUSE + Duration::from_micros(random);
        self.until_stopped(self.env.clock.sleep(pause)).await
    }
}

fn add(finds: &mut Vec<PeerFind>, more: &[PeerFind]) {
    let new: Vec<PeerFind> = more.iter().filter(|find| !finds.contains(find)).cloned().collect();
    finds.extend(new);
}

/// More directories are above the new place than one operation can pin: mv(1) copies then.
fn too_much(errno: Errno) -> Errno {
    if errno == Errno::E2BIG { Errno::EXDEV } else { errno }
}
