//! One MDT: its parts, its life, and the frame of every operation.
//!
//! Locks, in this order: the store's (a transaction), then [`State`]; the others are leaves. None
//! is held across a wait.

use crate::acks::{AckEvent, Applied, kept_replies};
use crate::audit::Audited;
use crate::background::spaces::Spaces;
use crate::background::tasks::{Stopper, Wake};
use crate::background::unsettled::Unsettled;
use crate::bundles::{Bundles, steps};
use crate::dir_placement::spaces::MdtSpaces;
use crate::error::StartError;
use crate::expected::Expected;
use crate::fencing::Fencing;
use crate::locks::When;
use crate::locks::context::{AuthorData, LockContext};
use crate::locks::flocks::Flocks;
use crate::locks::groups::Groups;
use crate::locks::stats::LockStats;
use crate::object_targets::ObjectTargets;
use crate::opens::Opens;
use crate::peers::Peers;
use crate::realm::Realm;
use crate::realms::Realms;
use crate::records::Records;
use crate::records::fids::Fids;
use crate::recovery::sealed::SealedRedo;
use crate::recovery::window::Window;
use crate::recovery::{Brought, recover};
use crate::settings::MdsSettings;
use crate::settings::tunables::Tunables;
use crate::state::State;
use bytes::Bytes;
use disk::redo::Log;
use env::Env;
use layout::placement::Rotor;
use namespace::context::Context;
use observe::fault;
use observe::mutant::{Mutant, is_mutant};
use observe::registry::Registry;
use parking_lot::{Mutex, RwLock};
use replay::bundle::exchange::Exchange;
use rpc::service::Export;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};
use store::store::Store;
use target::Target;
use target::room::{Payment, Room};
use target::shown_tickets::ShownTickets;
use tokio::sync::Notify;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::{DOM_CHUNK_BYTES, GRANT_UNIT};
use types::lock::InodeBits;
use types::proof::ServerKey;
use types::session::{ClientUuid, ClusterId, Transno};
use types::target::TargetName;
use wire::mds::MdsReply;
use wire::message::{OpReply, Redo};

/// Most that a block of a client ([`GRANT_UNIT`]) may take in the store, bytes: its chunk, with
/// zeros up to it, a page more for what begins one, and one for key, inode, and the tree above.
pub(crate) const BYTES_PER_BLOCK: u64 = DOM_CHUNK_BYTES as u64 + 2 * GRANT_UNIT;

/// The parts of an MDT.
pub struct Parts {
    /// Name of the target.
    pub name: TargetName,
    /// Cluster of the target.
    pub cluster: ClusterId,
    /// Boot number: grows at every start.
    pub boot: u64,
    /// Store with the records.
    pub store: Arc<Store>,
    /// The outside.
    pub env: Env,
    /// The OSTs.
    pub targets: Arc<dyn ObjectTargets>,
    /// The other MDTs.
    pub peers: Arc<Peers>,
    /// Settings that may be changed.
    pub settings: MdsSettings,
}

/// One metadata target in service.
pub struct Mds {
    pub(crate) me: Weak<Mds>,
    pub(crate) name: TargetName,
    pub(crate) cluster: ClusterId,
    pub(crate) boot: u64,
    pub(crate) store: Arc<Store>,
    pub(crate) env: Env,
    pub(crate) targets: Arc<dyn ObjectTargets>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) tunables: Tunables,
    pub(crate) settings: MdsSettings,
    /// Space that clients were promised for bytes of files.
    pub(crate) room: Arc<Room>,
    pub(crate) state: Mutex<State>,
    pub(crate) flocks: Mutex<Flocks>,
    pub(crate) groups: Arc<Groups>,
    pub(crate) window: Window,
    pub(crate) redo: SealedRedo,
    pub(crate) fencing: Fencing,
    /// With which tickets are signed; not known in a test without a cluster.
    pub(crate) server_key: RwLock<ServerKey>,
    /// What the tickets of restricted clients, named by their files, let them do with bytes that
    /// are here. Bound: the sessions of the MDT.
    pub(crate) tickets_given: Mutex<HashMap<ClientUuid, ShownTickets>>,
    /// Notified when an answer that waits because of what it shows may go out.
    pub(crate) acknowledged: Notify,
    pub(crate) spaces: Spaces,
    pub(crate) rotor: Mutex<Rotor>,
    pub(crate) mdt_spaces: MdtSpaces,
    pub(crate) unsettled: Mutex<Unsettled>,
    /// Notified when a cut ended, for operations that wait to write the file.
    pub(crate) cut_ended: Notify,
    /// Notified when an operation over several MDTs lets go of what it had pinned.
    pub(crate) unpinned: Notify,
    /// Notified when names are no longer held (`State::held_names`).
    pub(crate) names_free: Notify,
    /// Wakes the task that ends such operations.
    pub(crate) finish: Wake,
    /// Wakes the task that stops bundles of others.
    pub(crate) overdue: Wake,
    /// Names that have passed between stripes.
    pub(crate) names_moved: AtomicU64,
    /// Wakes the task that has names pass between stripes.
    pub(crate) passing: Wake,
    /// The trees that filesets are.
    pub(crate) realms: Realms,
    /// Wakes the destroyer.
    pub(crate) destroy: Wake,
    /// Wakes the settler.
    pub(crate) settle: Wake,
    /// Wakes the watcher of spaces.
    pub(crate) look: Wake,
    pub(crate) lock_stats: OnceLock<LockStats>,
    pub(crate) audited: Audited,
    pub(crate) stopper: Stopper,
}

/// Caller of an operation, and the results of its changes.
pub(crate) struct RequestContext<'a> {
    pub(crate) export: &'a Arc<Export>,
    /// The ids as which it acts.
    pub(crate) credentials: &'a Credentials,
    /// It acts as another than its client says: see [`Mds::permit`].
    pub(crate) is_squashed: bool,
    /// Its client may not do everything, whatever becomes of this caller.
    pub(crate) is_restricted: bool,
    /// What its client reaches.
    pub(crate) realm: Realm,
    /// It is refused, whatever it asks of names and attributes.
    pub(crate) is_denied: bool,
    /// Its client may change nothing.
    pub(crate) is_read_only: bool,
    /// It brings back what was open or locked before a restart.
    pub(crate) restores: bool,
    /// The newest change of this request; 0 = none yet.
    pub(crate) transno: Transno,
    /// Of its operations so far.
    pub(crate) results: Vec<Result<OpReply, Errno>>,
    /// What its operations must find.
    pub(crate) expected: Expected,
    /// Of the running operation: its names are held for a second try, at all MDTs.
    pub(crate) names_are_held: bool,
    /// State of its locks.
    pub(crate) lock_context: LockContext,
    /// What it has paid of its client's grant.
    pub(crate) payment: Option<Payment>,
}

impl RequestContext<'_> {
    pub(crate) fn client(&self) -> ClientUuid {
        self.export.client()
    }

    /// Data that the operation which runs now brought.
    pub(crate) fn brought<'d>(&self, pieces: impl Iterator<Item = &'d Bytes>) -> AuthorData {
        AuthorData { op: self.results.len() as u32 + 1, pieces: pieces.cloned().collect() }
    }

    /// Runs `f`; the answer to what it changes is not kept as that to this request.
    pub(crate) fn without_origin<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        let origin = self.lock_context.durability.origin.take();
        let result = f(self);
        self.lock_context.durability.origin = origin;
        result
    }
}

impl AsMut<LockContext> for RequestContext<'_> {
    fn as_mut(&mut self) -> &mut LockContext {
        &mut self.lock_context
    }
}

/// Fails unless the session may be given handles and locks. Call it under the lock that guards
/// them: a session is marked as ended before what it holds is released, so nothing can slip in
/// between.
///
/// # Errors
/// ENOTCONN if it has ended.
pub(crate) fn alive(export: &Export) -> Result<(), Errno> {
    if export.is_gone() { Err(Errno::ENOTCONN) } else { Ok(()) }
}

impl Mds {
    /// Starts the MDT of an open target, which must stay open while the MDT runs.
    ///
    /// # Errors
    /// As [`Mds::start_with`]; [`StartError::Unnamed`] if the MGS has not named the target yet.
    pub async fn start(
        target: &Target,
        targets: Arc<dyn ObjectTargets>,
        peers: Arc<Peers>,
        settings: MdsSettings,
    ) -> Result<Arc<Mds>, StartError> {
        let name = target.name().ok_or(StartError::Unnamed)?;
        let mds = Mds::start_with(Parts {
            name,
            cluster: target.cluster(),
            boot: target.boot(),
            store: target.store().clone(),
            env: target.env().clone(),
            targets,
            peers,
            settings,
        })
        .await?;
        mds.set_server_key(target.server_key());
        Ok(mds)
    }

    /// Starts an MDT: recovers what the last life left behind, makes the root of a new MDT0000,
    /// starts its tasks. If the last life had clients on the network, that happens when they have
    /// come back, or [`MdsSettings::recovery_window`] is over; requests wait until then.
    ///
    /// # Errors
    /// The store cannot be read or written, or an indispensable record is damaged.
    pub async fn start_with(parts: Parts) -> Result<Arc<Mds>, StartError> {
        let Parts { name, cluster, boot, store, env, targets, peers, settings } = parts;
        let (expected, recorded, redo) = {
            let tx = store.begin();
            let redo = SealedRedo::new(name, boot, &tx, &*env.random)?;
            (kept_replies::clients(&tx)?, steps::read(&tx)?, redo)
        };
        let mut bundles = Bundles::new(name.index, boot);
        bundles.restore(name.index, &recorded);
        // An MDT that is alone cannot ask others.
        let asks = peers.client().is_some() && !bundles.under_way_with().is_empty();
        let window = Window::new(&expected, asks, env.clock.now(), settings.recovery_window);
        let at_once = window.is_open();
        let (author_grace, names_held) = (settings.author_grace, settings.names_held);
        let groups = Arc::<Groups>::default();
        let mds = Arc::new_cyclic(|me| Mds {
            me: me.clone(),
            name,
            cluster,
            boot,
            store,
            targets,
            peers,
            tunables: Tunables::new(&settings),
            settings,
            room: Arc::new(Room::of_units(BYTES_PER_BLOCK)),
            state: Mutex::new(State::new(
                Fids::new(Fids::first_seq(name.index.0)),
                (author_grace, names_held),
                groups.clone(),
                bundles,
            )),
            flocks: Mutex::new(Flocks::new(groups.clone())),
            groups,
            window,
            redo,
            fencing: Fencing::default(),
            server_key: RwLock::default(),
            tickets_given: Mutex::default(),
            acknowledged: Notify::new(),
            spaces: Spaces::default(),
            rotor: Mutex::new(Rotor(env.random.next_u64())),
            mdt_spaces: MdtSpaces::new(env.random.next_u64()),
            unsettled: Mutex::default(),
            cut_ended: Notify::new(),
            unpinned: Notify::new(),
            names_free: Notify::new(),
            finish: Wake::default(),
            overdue: Wake::default(),
            names_moved: AtomicU64::new(0),
            passing: Wake::default(),
            realms: Realms::default(),
            destroy: Wake::default(),
            settle: Wake::default(),
            look: Wake::default(),
            lock_stats: OnceLock::new(),
            audited: Audited::default(),
            stopper: Stopper::default(),
            env,
        });
        mds.state.lock().opens = Opens::for_boot(boot);
        let room = mds.room.clone();
        mds.store.leave_room(Box::new(move || room.claimed()));
        if at_once {
            let nothing = Brought {
                changes: &[],
                late: &[],
                exchange: &Exchange::new(name.index, [], []),
                stopped: &[],
            };
            let recovered = recover(&mds.store, &mds.env, name, boot, &mds.redo.record, nothing)?;
            mds.store.commit().await?;
            mds.take_over(recovered);
            mds.open_for_service();
        } else {
            tracing::info!(target = %name, clients = expected.len(), "waiting for the clients and MDTs of the life before");
            mds.state.lock().recovering = true;
            let recovery = mds.clone().recover_clients(mds.stopper.ear());
            mds.env.tasks.spawn("mdt recovery", Box::pin(recovery));
        }
        Ok(mds)
    }

    pub(crate) fn spawn(self: &Arc<Mds>) {
        let tasks = &self.env.tasks;
        tasks.spawn("mdt destroyer", Box::pin(self.clone().destroy_objects(self.stopper.ear())));
        tasks.spawn("mdt settler", Box::pin(self.clone().settle_sizes(self.stopper.ear())));
        tasks.spawn("mdt bundles", Box::pin(self.clone().finish_bundles(self.stopper.ear())));
        let stops = self.clone().stop_bundles(self.stopper.ear());
        tasks.spawn("mdt bundles of others", Box::pin(stops));
        tasks.spawn("mdt restriper", Box::pin(self.clone().pass_names(self.stopper.ear())));
        if self.name.index.0 == 0 {
            tasks.spawn("mdt realms", Box::pin(self.clone().mark_realms(self.stopper.ear())));
        }
        tasks.spawn("mdt ost spaces", Box::pin(self.clone().watch_spaces(self.stopper.ear())));
    }

    /// Ends the background tasks. Their unfinished work is in the records. The owner of the store
    /// closes it.
    pub async fn stop(&self) {
        self.stopper.stop().await;
    }

    /// The other MDTs of the file system.
    pub fn peers(&self) -> &Arc<Peers> {
        &self.peers
    }

    /// Name of the target.
    pub fn name(&self) -> TargetName {
        self.name
    }

    /// Counts in this registry from now on; the first registry counts.
    pub fn count_in(&self, registry: &Registry) {
        // An error: it counts somewhere already.
        let _ = self.lock_stats.set(LockStats::of(registry, self.name));
    }

    /// Inode-bit locks of all clients.
    pub fn lock_count(&self) -> usize {
        self.state.lock().locks.table.len()
    }

    /// Open handles of all clients.
    pub fn open_count(&self) -> usize {
        self.state.lock().opens.count()
    }

    /// Succeeds if the inode belongs to this MDT.
    ///
    /// # Errors
    /// EREMOTE if another MDT owns it: the client's FLD is wrong. EINVAL: no FID at all.
    pub(crate) fn ours(&self, fid: Fid) -> Result<(), Errno> {
        if fid.seq == 0 {
            Err(Errno::EINVAL)
        } else if fid.mdt() == self.name.index.0 {
            Ok(())
        } else {
            Err(Errno::EREMOTE)
        }
    }

    /// Reads within one transaction, on behalf of no client.
    pub(crate) fn read<R>(
        &self,
        f: impl FnOnce(&mut Records<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        self.look(&mut LockContext::own(), f)
    }

    /// As [`Mds::read`], of what the client of a request reaches.
    pub(crate) fn read_for<R>(
        &self,
        request: &RequestContext<'_>,
        f: impl FnOnce(&mut Records<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut context = LockContext::own();
        context.asked.realm = request.realm;
        self.look(&mut context, f)
    }

    /// Reads within one transaction what a client is shown; locks are granted in the same.
    pub(crate) fn show<R>(
        &self,
        request: &mut RequestContext<'_>,
        f: impl FnOnce(&mut Records<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        if !request.lock_context.asked.mask.is_empty() {
            request.lock_context.asked.now = self.env.clock.now();
        }
        let export = request.export;
        self.look(&mut request.lock_context, |records| {
            if export.is_gone() {
                records.lock_context.asked.mask = InodeBits::NONE;
            }
            f(records)
        })
    }

    fn look<R>(
        &self,
        lock_context: &mut LockContext,
        f: impl FnOnce(&mut Records<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let tx = self.store.begin();
        self.with_state(When::Later, |state| {
            if !lock_context.asked.mask.is_empty() {
                state.acknowledge_here(lock_context);
            }
            let mut records = Records::new(tx, state, self.boot, lock_context);
            let result = f(&mut records);
            records.finish();
            lock_context.outcome.seen.append(&mut state.acks.unacked().take_seen());
            result
        })
    }

    /// Changes within one transaction. `f` must check before it changes: its changes stay, also
    /// after an `Err`. The answer is written in the same transaction if its client is on the
    /// network.
    ///
    /// # Errors
    /// The error of `f`; ENOTCONN: the session ended. Its client may have begun another one, which
    /// must not find changes by the old one.
    pub(crate) fn change(
        &self,
        request: &mut RequestContext<'_>,
        f: impl FnOnce(&mut Records<'_>, &Context<'_>) -> Result<MdsReply, Errno>,
    ) -> Result<MdsReply, Errno> {
        let results = &mut request.results;
        let (result, transno) =
            self.apply(request.credentials, &mut request.lock_context, |records, ctx| {
                alive(request.export)?;
                let reply = f(records, ctx)?;
                if let Some(origin) = records.lock_context.durability.origin
                    && records.tx.has_changed()
                    && !is_mutant(Mutant::ReplyApart)
                {
                    let mut all = std::mem::take(results);
                    all.push(Ok(OpReply::Mds(reply.clone())));
                    let mut all =
                        kept_replies::write(&mut records.tx, request.export.client(), origin, all);
                    all.pop();
                    *results = all;
                }
                Ok(reply)
            });
        request.transno = request.transno.max(transno);
        result
    }

    /// As [`Mds::change`], for tasks of the MDT itself. The lock context holds the obstacle.
    pub(crate) fn transact<R>(
        &self,
        lock_context: &mut LockContext,
        f: impl FnOnce(&mut Records<'_>, &Context<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        self.transact_as(&Credentials::root(), lock_context, f)
    }

    /// As [`Mds::transact`], with the rights of this caller.
    pub(crate) fn transact_as<R>(
        &self,
        credentials: &Credentials,
        lock_context: &mut LockContext,
        f: impl FnOnce(&mut Records<'_>, &Context<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        self.apply(credentials, lock_context, f).0
    }

    /// Runs `f`; returns its result and the transno (0 if it changed nothing).
    fn apply<R>(
        &self,
        credentials: &Credentials,
        lock_context: &mut LockContext,
        f: impl FnOnce(&mut Records<'_>, &Context<'_>) -> Result<R, Errno>,
    ) -> (Result<R, Errno>, Transno) {
        let mut tx = self.store.begin();
        if lock_context.durability.origin.is_some() {
            tx.keep_log();
        }
        let (result, transno, logged) = self.with_state(When::Later, |state| {
            let has_locks = !state.locks.table.is_empty() || !state.held_names.is_empty();
            if !lock_context.asked.mask.is_empty() || has_locks {
                lock_context.asked.now = self.env.clock.now();
                state.acknowledge_here(lock_context);
            }
            // Within the lock, so that times never run against the order of changes.
            let ctx = Context { credentials, now: self.env.clock.wall(), version: tx.transno().0 };
            let mut records = Records::new(tx, state, self.boot, lock_context);
            let result = f(&mut records, &ctx);
            let log = records.tx.take_log().filter(|_| records.tx.has_changed());
            let (transno, logged) = records.finish();
            let LockContext { asked, outcome, durability } = lock_context;
            outcome.seen.append(&mut state.acks.unacked().take_seen());
            let brought = durability.data.take();
            let brought = brought.filter(|_| log.as_ref().is_some_and(Log::names_data));
            let (data_of, data) = brought.map_or_else(Default::default, |of| (of.op, of.pieces));
            let redo = log.map(|log| Bytes::from(log.encode(durability.found.get_mut())));
            let made = redo.clone().map(|bytes| Redo { transno, bytes, data_of });
            durability.redo.extend(made.map(|redo| (redo, data.clone())));
            let found = durability.found.get_mut();
            if transno.0 != 0 {
                let inodes = found.inodes.iter().map(|(fid, _)| *fid);
                state.last_found.note(inodes, transno, self.store.last_committed());
                // Before a client comes over the network, they would note nothing.
                if state.acks.volatile().is_watched() {
                    let xid = durability.origin.map(|origin| origin.xid);
                    let rests_on = durability.rests_on();
                    let client = asked.client;
                    let applied = Applied { transno, client, xid, redo, data, rests_on };
                    state.acknowledge(AckEvent::Committed(self.store.last_committed()));
                    state.acknowledge(AckEvent::Applied(applied));
                }
                fault::pass(&fault::MDS_AFTER_APPLY);
            }
            durability.found.get_mut().clear();
            (result, transno, logged)
        });
        if logged {
            self.destroy.wake();
        }
        (result, transno)
    }
}
