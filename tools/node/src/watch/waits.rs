//! The waits in this process, and their reasons: requests of programs, requests to targets, work on
//! requests, locks.
//!
//! A wait is listed if it is older than a second, or if such a wait depends on it. So a chain is
//! whole.

use crate::manage::params::state_word;
use crate::watch::status::WaitsFor;
use crate::watch::view::View;
use data::node::NodeId;
use env::clock::Monotonic;
use mds::mds::Mds;
use rpc::import::ImportState;
use rpc::under_way::{Side, UnderWay};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;
use types::fid::Fid;
use types::lock::{FlockKind, InodeBits};
use types::session::ClientUuid;
use types::target::{TargetKind, TargetName};
use wire::opcode;
use wire::report::{HOLDERS_PER_WAIT_MAX, Holder, WAITS_PER_REPORT_MAX, Wait, Waiting};

/// Younger waits are listed only if an older one depends on them.
pub const AGE_MIN: Duration = Duration::from_secs(1);

/// Everything that waits here, the longest first.
pub(crate) fn list(view: &View) -> Vec<Wait> {
    let now = view.parts().env.clock.now();
    let mut list = List { now, waits: Vec::new(), ids: HashSet::new() };
    programs(view, &mut list);
    requests(view, &mut list);
    for (mdt, _) in view.alive().mdts() {
        locks(&mdt, &mut list);
        peers(view, &mdt, &mut list);
    }
    let mut waits = list.waits;
    waits.sort_by_key(|wait| std::cmp::Reverse(wait.age_ms));
    waits.truncate(WAITS_PER_REPORT_MAX);
    waits
}

/// Targets that something here has waited for, for a second at least: MDTs for their parts of
/// operations over several of them, and targets that cannot be reached.
pub(crate) fn awaited(view: &View) -> Vec<WaitsFor> {
    let now = view.parts().env.clock.now();
    let mut all: BTreeMap<TargetName, BTreeMap<(u64, u64), Duration>> = BTreeMap::new();
    let mut note = |target: TargetName, cause: u64, id: u64, since: Monotonic| {
        let age = now.saturating_sub(since);
        if age < AGE_MIN {
            return;
        }
        // The parts of one operation count once.
        let number = if cause == 0 { (0, id) } else { (cause, 0) };
        let longest = all.entry(target).or_default().entry(number).or_default();
        *longest = age.max(*longest);
    };
    for (mdt, _) in view.alive().mdts() {
        for wait in mdt.peer_waits(WAITS_PER_REPORT_MAX) {
            let target = TargetName { index: wait.mdt, ..mdt.name() };
            note(target, wait.cause, observe::cause::fresh(), wait.since);
        }
    }
    let rpc = &view.parts().rpc;
    let asked = rpc.under_way().into_iter();
    for request in asked.filter(|request| request.side == Side::Asked && is_told(request)) {
        if rpc.state_of(request.target, request.client) != Some(ImportState::Full) {
            note(request.target, request.cause, request.id, request.since);
        }
    }
    let row = |(target, waits): (TargetName, BTreeMap<_, Duration>)| WaitsFor {
        target: target.to_string(),
        operations: waits.len() as u64,
        seconds: waits.into_values().max().unwrap_or_default().as_secs(),
    };
    all.into_iter().map(row).collect()
}

struct List {
    now: Monotonic,
    waits: Vec<Wait>,
    ids: HashSet<u64>,
}

impl List {
    /// `what` is made only for listed waits.
    fn push(&mut self, id: u64, cause: u64, since: Monotonic, what: impl FnOnce() -> Waiting) {
        let age = self.now.saturating_sub(since);
        if (age >= AGE_MIN || self.ids.contains(&cause))
            && self.waits.len() < 4 * WAITS_PER_REPORT_MAX
        {
            self.ids.insert(id);
            self.waits.push(Wait { id, cause, age_ms: age.as_millis() as u64, what: what() });
        }
    }
}

fn text(fid: Fid) -> String {
    if fid == Fid::NONE { String::new() } else { fid.to_string() }
}

fn programs(view: &View, list: &mut List) {
    for (client, waiting, at) in view.alive().mounts() {
        for about in waiting.list() {
            list.push(about.cause, 0, about.since, || {
                let (pid, program) = program(about.thread);
                Waiting::Program {
                    client: client.session().uuid().instance().to_string(),
                    at: at.display().to_string(),
                    pid,
                    thread: about.thread,
                    program,
                    operation: about.opcode.name().to_owned(),
                    fid: client.nodes().fid(NodeId(about.node)).map(text).unwrap_or_default(),
                }
            });
        }
    }
}

/// Process of a thread, and its name.
fn program(thread: u32) -> (u32, String) {
    if thread == 0 {
        return (0, "kernel".to_owned());
    }
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let process = status
        .lines()
        .find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
        .unwrap_or(thread);
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    (process, name.trim_end().to_owned())
}

fn requests(view: &View, list: &mut List) {
    let (asked, served): (Vec<_>, Vec<_>) = view
        .parts()
        .rpc
        .under_way()
        .into_iter()
        .filter(is_told)
        .partition(|request| request.side == Side::Asked);
    for request in asked {
        list.push(request.id, request.cause, request.since, || Waiting::Request {
            client: request.client.instance().to_string(),
            target: request.target.to_string(),
            xid: request.xid.0,
            operation: operation(&request),
            fid: text(request.fid),
            session: view
                .parts()
                .rpc
                .state_of(request.target, request.client)
                .map(state_word)
                .unwrap_or_default(),
        });
    }
    for request in served {
        list.push(request.id, request.cause, request.since, || Waiting::Served {
            client: request.client.instance().to_string(),
            target: request.target.to_string(),
            xid: request.xid.0,
            operation: operation(&request),
            fid: text(request.fid),
        });
    }
}

/// Questions for news are kept waiting on purpose.
fn is_told(request: &UnderWay) -> bool {
    let for_news =
        matches!(request.operation, opcode::MGS_CONFIG | opcode::MGS_NODEMAPS | opcode::MGS_SCOPED);
    request.target.kind != TargetKind::Mgt || !for_news
}

fn operation(request: &UnderWay) -> String {
    opcode::row(request.operation).map_or_else(String::new, |row| row.name.to_owned())
}

/// Waits of an MDT for other ones that are no requests under way: as one that is not sent yet.
fn peers(view: &View, mdt: &Mds, list: &mut List) {
    for wait in mdt.peer_waits(WAITS_PER_REPORT_MAX) {
        list.push(observe::cause::fresh(), wait.cause, wait.since, || {
            let target = TargetName { index: wait.mdt, ..mdt.name() };
            let client = mdt.peers().client();
            let session = client.and_then(|client| view.parts().rpc.state_of(target, client));
            Waiting::Request {
                client: client.map(|client| client.instance().to_string()).unwrap_or_default(),
                target: target.to_string(),
                xid: 0,
                operation: match wait.ends {
                    None => "its part of an operation over several MDTs".to_owned(),
                    Some(id) => format!("the end of operation {id} over several MDTs"),
                },
                fid: String::new(),
                session: session.map(state_word).unwrap_or_default(),
            }
        });
    }
}

fn locks(mdt: &Mds, list: &mut List) {
    let holder = |client: ClientUuid, holds: String, pid: u32| {
        let export = mdt.export_of(client);
        Holder {
            client: client.instance().to_string(),
            description: export.as_ref().map(|export| export.description()).unwrap_or_default(),
            nid: export.as_ref().map(|export| export.nid().to_string()).unwrap_or_default(),
            holds,
            pid,
        }
    };
    for wait in mdt.lock_waits(WAITS_PER_REPORT_MAX, HOLDERS_PER_WAIT_MAX) {
        list.push(observe::cause::fresh(), wait.cause, wait.since, || Waiting::Lock {
            client: wait.client.map(|client| client.instance().to_string()).unwrap_or_default(),
            target: mdt.name().to_string(),
            fid: text(wait.fid),
            bits: bits(wait.bits),
            holders: wait
                .holders
                .iter()
                .map(|(client, held)| holder(*client, bits(*held), 0))
                .collect(),
        });
    }
    for wait in mdt.file_lock_waits(WAITS_PER_REPORT_MAX, HOLDERS_PER_WAIT_MAX) {
        list.push(observe::cause::fresh(), wait.cause, wait.since, || {
            let kind =
                |kind: FlockKind| if kind == FlockKind::Write { "write lock" } else { "read lock" };
            let holders = wait.holders.iter();
            Waiting::FileLock {
                client: wait.client.instance().to_string(),
                target: mdt.name().to_string(),
                fid: text(wait.fid),
                start: wait.lock.start,
                end: wait.lock.end,
                holders: holders
                    .map(|(client, lock)| holder(*client, kind(lock.kind).to_owned(), lock.pid))
                    .collect(),
            }
        });
    }
}

/// `LOOKUP|UPDATE`
fn bits(bits: InodeBits) -> String {
    let known = [
        (InodeBits::LOOKUP, "LOOKUP"),
        (InodeBits::UPDATE, "UPDATE"),
        (InodeBits::OPEN, "OPEN"),
        (InodeBits::LAYOUT, "LAYOUT"),
        (InodeBits::PERM, "PERM"),
        (InodeBits::XATTR, "XATTR"),
        (InodeBits::DOM, "DOM"),
        (InodeBits::DATA, "DATA"),
        (InodeBits::WRITE, "WRITE"),
        (InodeBits::GAP, "GAP"),
    ];
    let words: Vec<&str> =
        known.iter().filter(|(bit, _)| bits.contains(*bit)).map(|(_, word)| *word).collect();
    words.join("|")
}
