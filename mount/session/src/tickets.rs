//! The tickets of one mount for the objects of files (docs/security.md, "Object tickets").
//!
//! As long as no target has asked for tickets, nothing is kept here. From then on each open brings
//! tickets along, and what is missing is asked for when an object is about to be used. A ticket is
//! shown to each OST once; an MDT knows those that it gave. One task renews them when half of their
//! time is over: those in use, and those of files that are open or locked here.
//!
//! Bounds: [`SHOWN_TICKETS_MAX`] files, of which those are forgotten that were not used for the
//! longest, and [`CALLERS_MAX`] callers of each.

use crate::hooks::{FileUser, Hooks};
use env::clock::{Clock, Monotonic};
use env::watch;
use parking_lot::Mutex;
use rpc::error::RpcError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use stubs::mdc::Mdc;
use stubs::tickets::{Asked, Refused, TicketKeeper, ToShow, Uses};
use tokio::sync::Notify;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::generations::Generations;
use types::limits::{SHOWN_TICKETS_MAX, TICKETS_PER_OP_MAX};
use types::object_ticket::{ObjectTicket, Rights};
use types::target::TargetIndex;
use wire::mds::{AskTickets, Create, CreateKind, MdsOp, MdsReply, Open, Setattr, Tmpfile};
use wire::message::Op;
use wire::ost::{OstOp, ShowTickets};

/// Callers of one file that are remembered: any of them may have the permission.
const CALLERS_MAX: usize = 4;
/// Times that an MDT is asked for tickets if its answer takes longer than they are good: it was
/// away meanwhile, and answers the next time at once.
const TRIES_MAX: usize = 3;
/// Interval at which the task looks for tickets to renew, at most.
const LOOK_MAX: Duration = Duration::from_secs(60);
/// The same, at least.
const LOOK_MIN: Duration = Duration::from_millis(250);

/// Finds the session with an MDT; `None`: the configuration has no such MDT any more.
pub(crate) type FindMdc = Box<dyn Fn(TargetIndex) -> Option<Mdc> + Send + Sync>;

/// A ticket.
struct Held {
    ticket: ObjectTicket,
    /// When it was asked for.
    at: Monotonic,
    life: Duration,
    /// OSTs that were shown it.
    shown: BTreeSet<TargetIndex>,
}

impl Held {
    fn is_good(&self, now: Monotonic) -> bool {
        now < self.at + self.life
    }

    fn is_due(&self, now: Monotonic) -> bool {
        now >= self.at + self.life / 2
    }

    /// It counts no more. Good for the MDT, perhaps: it stays to be shown there.
    fn ask_anew(&mut self) {
        self.life = Duration::ZERO;
    }
}

/// Objects that are named after one FID.
#[derive(Default)]
struct Named {
    /// At most one for each right.
    held: Vec<Held>,
    /// The newest first.
    users: Vec<FileUser>,
}

impl Named {
    fn gives(&self, rights: Rights, now: Monotonic) -> bool {
        let good = self.held.iter().filter(|held| held.is_good(now));
        let all = good.fold(Rights::NONE, |all, held| all | held.ticket.rights);
        !all.is_empty() && all.contains(rights)
    }

    fn is_due(&self, now: Monotonic) -> bool {
        self.held.iter().any(|held| held.is_due(now))
    }

    fn use_by(&mut self, user: FileUser) {
        self.users.retain(|known| *known != user);
        self.users.insert(0, user);
        self.users.truncate(CALLERS_MAX);
    }

    fn learn(&mut self, held: Held) {
        self.held.retain(|known| !held.ticket.rights.contains(known.ticket.rights));
        self.held.push(held);
    }
}

/// See the module.
pub struct Tickets {
    wanted: AtomicBool,
    named: Mutex<Generations<Fid, Named>>,
    clock: Arc<dyn Clock>,
    mdts: OnceLock<FindMdc>,
    hooks: Arc<dyn Hooks>,
    /// Tickets that are used are due.
    due: Notify,
    /// A target asked for tickets for the first time.
    first: Notify,
}

impl Tickets {
    /// Without tickets. `clock`: of the mount.
    pub(crate) fn new(clock: Arc<dyn Clock>, hooks: Arc<dyn Hooks>) -> Arc<Tickets> {
        Arc::new(Tickets {
            wanted: AtomicBool::new(false),
            named: Mutex::new(Generations::new(SHOWN_TICKETS_MAX)),
            clock,
            mdts: OnceLock::new(),
            hooks,
            due: Notify::new(),
            first: Notify::new(),
        })
    }

    /// The MDTs to ask.
    pub(crate) fn ask(&self, mdts: FindMdc) {
        // An error: it knows them already.
        let _ = self.mdts.set(mdts);
    }

    /// A caller opened a file here, or is about to change it, without a request to the MDT. Nothing
    /// is noted as long as no OST asks for tickets.
    pub fn used(&self, named: Fid, file: Fid, credentials: &Credentials) {
        if self.is_wanted() {
            let user = FileUser { file, credentials: credentials.clone() };
            self.named.lock().entry(named, Named::default).use_by(user);
        }
    }

    /// What to ask for with the attributes of files that a caller is about to read without opening
    /// them by a request; `None`: nothing is missing, or no target asks for tickets. The files have
    /// objects of their own names; at most [`TICKETS_PER_OP_MAX`] are asked for.
    pub fn to_read(&self, credentials: &Credentials, files: &[Fid]) -> Option<AskTickets> {
        if !self.is_wanted() {
            return None;
        }
        files.iter().for_each(|file| self.used(*file, *file, credentials));
        let (now, mut all) = (self.clock.now(), self.named.lock());
        let is_missing = |file: &&Fid| {
            let named = all.get_mut(**file);
            named.is_none_or(|named| !named.gives(Rights::READ, now) || named.is_due(now))
        };
        let missing = files.iter().filter(is_missing).take(TICKETS_PER_OP_MAX);
        let fids: Vec<Fid> = missing.copied().collect();
        (!fids.is_empty()).then(|| AskTickets { fids, of_objects: false, had: Vec::new() })
    }

    /// An OST has lost the session: it is shown everything again.
    pub(crate) fn ost_lost(&self, ost: TargetIndex) {
        if self.is_wanted() {
            let mut all = self.named.lock();
            for held in all.iter_mut().flat_map(|(_, named)| &mut named.held) {
                held.shown.remove(&ost);
            }
        }
    }

    /// What to show an OST that restarted, before it is brought what it may have lost of objects
    /// with these names: also tickets whose time is over.
    pub(crate) fn for_recovery(&self, changed: &BTreeSet<Fid>) -> Vec<Op> {
        if !self.is_wanted() {
            return Vec::new();
        }
        let mut all = self.named.lock();
        let mut tickets = Vec::new();
        for fid in changed {
            if let Some(named) = all.get_mut(*fid) {
                tickets.extend(named.held.iter().map(|held| held.ticket));
            }
        }
        let op = |tickets: &[ObjectTicket]| {
            Op::Ost(OstOp::Tickets(ShowTickets { tickets: tickets.to_vec() }))
        };
        tickets.chunks(TICKETS_PER_OP_MAX).map(op).collect()
    }

    /// Renews tickets until the mount ends.
    pub(crate) async fn keep_up(me: Weak<Tickets>, mut ending: watch::Receiver<bool>) {
        loop {
            let Some(tickets) = me.upgrade() else { return };
            let pause = tickets.look_after();
            let wait = async {
                match pause {
                    None => tickets.first.notified().await,
                    Some(pause) => tokio::select! {
                        biased;
                        () = tickets.due.notified() => {}
                        () = tickets.clock.sleep(pause) => {}
                    },
                }
            };
            tokio::select! {
                biased;
                _ = ending.changed() => return,
                () = wait => {}
            }
            tickets.renew().await;
        }
    }

    /// A quarter of the shortest life; `None`: there are no tickets.
    fn look_after(&self) -> Option<Duration> {
        if !self.is_wanted() {
            return None;
        }
        let mut all = self.named.lock();
        let lives = all.iter_mut().flat_map(|(_, named)| &named.held).map(|held| held.life);
        let shortest = lives.filter(|life| !life.is_zero()).min().unwrap_or(LOOK_MAX);
        Some((shortest / 4).clamp(LOOK_MIN, LOOK_MAX))
    }

    /// Asks for new tickets instead of those whose half is over, if their files are in use.
    async fn renew(&self) {
        let now = self.clock.now();
        let due: Vec<Fid> = {
            let mut all = self.named.lock();
            // One that an OST does not believe is asked for anew when it is needed.
            let is_due = |held: &Held| !held.life.is_zero() && held.is_due(now);
            let is_due = |named: &Named| named.held.iter().any(is_due);
            all.iter_mut().filter(|(_, named)| is_due(named)).map(|(fid, _)| fid).collect()
        };
        if due.is_empty() {
            return;
        }
        let in_use = self.hooks.files_in_use();
        let due: Uses = {
            let mut all = self.named.lock();
            let is_used =
                |named: &Named| named.users.iter().any(|user| in_use.contains(&user.file));
            let used = due.into_iter().filter(|fid| {
                in_use.contains(fid) || all.get_mut(*fid).is_some_and(|named| is_used(named))
            });
            used.map(|fid| (fid, Rights::NONE)).collect()
        };
        if let Err(error) = self.fetch(due).await {
            tracing::debug!(%error, "tickets are not renewed yet");
        }
    }

    /// Asks for tickets for these uses, by each of the callers that are known until one has the
    /// rights. What is refused stays missing.
    ///
    /// # Errors
    /// An MDT does not answer.
    async fn fetch(&self, mut missing: Uses) -> Result<(), RpcError> {
        for turn in 0..=CALLERS_MAX {
            let mut asked = BTreeMap::<(u16, Credentials), Vec<(Fid, Fid)>>::new();
            for (named, _) in &missing {
                let Some(FileUser { file, credentials }) = self.user(*named, turn) else {
                    continue;
                };
                asked.entry((file.mdt(), credentials)).or_default().push((*named, file));
            }
            if asked.is_empty() {
                break;
            }
            for ((mdt, credentials), files) in asked {
                for files in files.chunks(TICKETS_PER_OP_MAX / 2) {
                    self.fetch_of(TargetIndex(mdt), &credentials, files).await?;
                }
            }
            let (now, mut all) = (self.clock.now(), self.named.lock());
            missing.retain(|(fid, rights)| {
                let fresh = |named: &mut Named| named.gives(*rights, now) && !named.is_due(now);
                !all.get_mut(*fid).is_some_and(fresh)
            });
            if missing.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// The caller whose turn it is: those noted here, then those of open files, then root.
    fn user(&self, named: Fid, turn: usize) -> Option<FileUser> {
        let mut users = match self.named.lock().get_mut(named) {
            Some(known) => known.users.clone(),
            None => Vec::new(),
        };
        if turn >= users.len() {
            users.extend(self.hooks.users_of(named).into_iter().take(CALLERS_MAX));
            users.push(FileUser { file: named, credentials: Credentials::root() });
            users.dedup();
        }
        users.into_iter().nth(turn)
    }

    /// Asks one MDT for one caller; `files`: the name of the objects, and the file.
    async fn fetch_of(
        &self,
        mdt: TargetIndex,
        credentials: &Credentials,
        files: &[(Fid, Fid)],
    ) -> Result<(), RpcError> {
        let find = self.mdts.get().ok_or(RpcError::Shutdown)?;
        let Some(mdc) = find(mdt) else { return Ok(()) };
        for of_objects in [false, true] {
            // The MDT finds a file whose own FID is not known by the name of its objects.
            let files: Vec<(Fid, Fid)> = files
                .iter()
                .copied()
                .filter(|(named, file)| (named == file) == of_objects)
                .collect();
            if files.is_empty() {
                continue;
            }
            let fids: Vec<Fid> = files.iter().map(|(_, file)| *file).collect();
            let had = {
                let mut all = self.named.lock();
                let mut had = Vec::new();
                for (named, _) in &files {
                    if let Some(named) = all.get_mut(*named) {
                        had.extend(named.held.iter().map(|held| held.ticket));
                    }
                }
                had
            };
            let asked = AskTickets { fids, of_objects, had };
            for _ in 0..TRIES_MAX {
                let at = self.clock.now();
                let answer = match mdc.tickets(credentials, asked.clone()).await {
                    Ok(answer) => answer,
                    // The caller is refused, whatever it asks.
                    Err(RpcError::Errno(errno)) => {
                        tracing::debug!(%errno, "no tickets for a caller");
                        break;
                    }
                    Err(error) => return Err(error),
                };
                let good_until = at + Duration::from_secs(answer.0.into());
                self.take(credentials, &files, at, answer);
                if self.clock.now() < good_until {
                    break;
                }
            }
        }
        Ok(())
    }

    fn take(
        &self,
        credentials: &Credentials,
        files: &[(Fid, Fid)],
        at: Monotonic,
        (life, tickets): (u32, Vec<Result<ObjectTicket, Errno>>),
    ) {
        let mut all = self.named.lock();
        for ((_, file), ticket) in files.iter().zip(tickets) {
            match ticket {
                Ok(ticket) => {
                    let named = all.entry(ticket.fid, Named::default);
                    named.use_by(FileUser { file: *file, credentials: credentials.clone() });
                    let life = Duration::from_secs(life.into());
                    named.learn(Held { ticket, at, life, shown: BTreeSet::new() });
                }
                Err(errno) => tracing::debug!(%file, %errno, "no ticket for a file"),
            }
        }
    }

    /// The first target asks for tickets.
    fn want(&self) {
        if !self.wanted.swap(true, Ordering::AcqRel) {
            tracing::info!("this mount is asked for tickets");
            self.first.notify_one();
        }
    }
}

impl TicketKeeper for Tickets {
    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    fn to_show(&self, ost: TargetIndex, uses: Uses) -> ToShow<'_> {
        self.want();
        Box::pin(async move {
            let now = self.clock.now();
            let missing = |(fid, rights): &(Fid, Rights)| {
                let mut all = self.named.lock();
                !all.get_mut(*fid).is_some_and(|named| named.gives(*rights, now))
            };
            let missing: Uses = uses.iter().copied().filter(missing).collect();
            if !missing.is_empty() {
                self.fetch(missing).await?;
            }
            let (now, mut all) = (self.clock.now(), self.named.lock());
            let (mut shown, mut due) = (Vec::new(), false);
            for (fid, rights) in uses {
                let Some(named) = all.get_mut(fid).filter(|named| named.gives(rights, now)) else {
                    tracing::debug!(%fid, ?rights, "no ticket");
                    return Err(RpcError::Errno(Errno::EACCES));
                };
                for held in named.held.iter().filter(|held| held.is_good(now)) {
                    due |= held.is_due(now);
                    if !held.shown.contains(&ost) {
                        shown.push(held.ticket);
                    }
                }
            }
            if due {
                self.due.notify_one();
            }
            Ok(shown)
        })
    }

    fn shown(&self, ost: TargetIndex, tickets: &[ObjectTicket]) {
        let mut all = self.named.lock();
        for ticket in tickets {
            if let Some(named) = all.get_mut(ticket.fid) {
                for held in named.held.iter_mut().filter(|held| held.ticket == *ticket) {
                    held.shown.insert(ost);
                }
            }
        }
    }

    fn refused(&self, ost: TargetIndex, uses: &Uses, why: Refused) {
        let mut all = self.named.lock();
        for (fid, _) in uses {
            if let Some(named) = all.get_mut(*fid) {
                for held in &mut named.held {
                    held.shown.remove(&ost);
                    if why == Refused::NotBelieved {
                        held.ask_anew();
                    }
                }
            }
        }
    }

    fn ask_again(&self, credentials: &Credentials, files: Uses) -> Asked<'_> {
        self.want();
        let named = |(file, rights)| {
            let named = self.hooks.named(file);
            if *credentials != Credentials::root() {
                self.used(named, file, credentials);
            }
            (named, rights)
        };
        let missing: Uses = files.into_iter().map(named).collect();
        let mut all = self.named.lock();
        for (named, _) in &missing {
            if let Some(named) = all.get_mut(*named) {
                named.held.iter_mut().for_each(Held::ask_anew);
            }
        }
        Box::pin(self.fetch(missing))
    }

    fn behind(&self, credentials: &Credentials, ops: &[MdsOp]) -> Option<AskTickets> {
        let now = self.clock.now();
        let mut fids = Vec::new();
        for (at, op) in (0..).zip(ops) {
            match op {
                MdsOp::Open(Open { fid, .. }) => fids.push(*fid),
                MdsOp::Setattr(Setattr { fid, set }) if set.size.is_some() => fids.push(*fid),
                MdsOp::Create(Create { kind: CreateKind::Regular(Some(_)), .. })
                | MdsOp::Tmpfile(Tmpfile { .. }) => fids.push(Fid::result_of(at)),
                _ => {}
            }
        }
        let mut all = self.named.lock();
        fids.retain(|fid| match all.get_mut(*fid) {
            Some(named) => {
                named.use_by(FileUser { file: *fid, credentials: credentials.clone() });
                !named.gives(Rights::ALL, now) || named.is_due(now)
            }
            None => true,
        });
        (!fids.is_empty()).then(|| AskTickets { fids, of_objects: false, had: Vec::new() })
    }

    fn learn(
        &self,
        credentials: &Credentials,
        asked: &AskTickets,
        results: &[Result<MdsReply, Errno>],
        answer: Result<MdsReply, Errno>,
    ) {
        let Ok(MdsReply::Tickets { life, tickets }) = answer else { return };
        let file = |fid: &Fid| match fid.as_result_of() {
            None => *fid,
            Some(at) => match results.get(at as usize) {
                Some(Ok(MdsReply::Opened { entry, .. })) => entry.attr.fid,
                _ => Fid::NONE,
            },
        };
        let files: Vec<(Fid, Fid)> = asked.fids.iter().map(|fid| (file(fid), file(fid))).collect();
        // It was asked for before, but not long ago.
        self.take(credentials, &files, self.clock.now(), (life, tickets));
    }
}

#[cfg(test)]
#[path = "tickets_tests.rs"]
mod tests;
