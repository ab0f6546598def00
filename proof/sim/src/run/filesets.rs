//! Two tenants with a fileset each, beside an administrator.
//!
//! Machines of clients, in their order: one of the administrator, one of the first tenant, one of
//! the second, one of the first. Further ones are the administrator's.

use super::*;
use crate::cluster::Tenant;
use crate::history::{Answer, Call, Ino};
use crate::program::tenants::{HOMES, TENANTS};
use disk::inode::InodeRecord;
use namespace::inode::InodeFlags;
use types::project::REALM_FIRST;

/// In so many of 1000 cases an MDT dies while trees become filesets.
const DIES: u64 = 500;
/// Longest time after which it does, and for which it is down, microseconds.
const DIES_WITHIN_US: u64 = 300_000;

impl Run {
    /// The administrator makes a tree for each tenant, and these become filesets; an MDT may die
    /// meanwhile. `false`: that failed.
    pub(super) fn divide(&mut self, faults: Faults) -> bool {
        let admin = self.add_client(None);
        let is_there =
            |run: &Run| run.cluster.is_recovered() && run.mounts[admin].client.lock().is_some();
        if !self.wait(START_MAX, is_there) {
            self.wrong.push(format!("the administrator could not mount within {START_MAX:?}"));
            return false;
        }
        self.wait(SETTLE, |_| false);
        if !self.found(admin) {
            return false;
        }
        let first = self.cluster.servers.len() as u16;
        let ip = |client: usize| MachineId(first + client as u16).ip();
        let tenants = [0, 1].map(|tenant| Tenant {
            name: HOMES[tenant],
            clients: TENANTS.iter().filter(|(_, of)| *of == tenant).map(|(n, _)| ip(*n)).collect(),
            fileset: Some(format!("/{}", HOMES[tenant])),
        });
        let life = self.ticket_life();
        let done = self.cluster.restrict_tenants(&tenants, life);
        let mut mdts = Rng::new(self.rng.next_u64(), "an MDT dies while filesets are made");
        let hold = |run: &Run| done.load(Ordering::Relaxed) && run.cluster.nodemaps_hold();
        if !self.wait(START_MAX, hold) {
            self.wrong.push(format!("nodemaps could not be changed within {START_MAX:?}"));
            return false;
        }
        if faults.servers && mdts.chance(DIES) {
            let all = 0..self.cluster.servers.len();
            let is_mdt = |number: &usize| self.cluster.servers[*number].kind == TargetKind::Mdt;
            let victim = *mdts.pick(&all.filter(is_mdt).collect::<Vec<_>>());
            let pause = |mdts: &mut Rng| Duration::from_micros(mdts.below(DIES_WITHIN_US));
            let (before, down) = (pause(&mut mdts), pause(&mut mdts));
            self.wait(before, |_| false);
            let power = mdts.chance(500);
            self.cluster.kill_server(victim, if power { Kill::Power } else { Kill::Process });
            self.wait(down, |_| false);
            self.cluster.start_server(victim);
        }
        true
    }

    /// The trees of the tenants, which are durable; `false`: they could not be made.
    fn found(&mut self, admin: usize) -> bool {
        let Some(program) = self.program(admin) else { return false };
        let done = Arc::new(AtomicUsize::new(0));
        let ended = done.clone();
        let found = async move {
            program.found().await;
            ended.store(1, Ordering::Relaxed);
        };
        self.mounts[admin].env.tasks.spawn("program", Box::pin(found));
        let is_done = |_: &Run| done.load(Ordering::Relaxed) == 1;
        if !self.wait(START_MAX, is_done) {
            self.wrong.push(format!("the tenants' trees were not made within {START_MAX:?}"));
            return false;
        }
        let at = self.recorder.history.moment();
        for number in 0..self.cluster.servers.len() {
            let (kind, index) =
                (self.cluster.servers[number].kind, self.cluster.servers[number].index);
            if kind == TargetKind::Mdt && self.cluster.commit(number) {
                self.recorder.durable.lock().insert(index.0, at);
            }
        }
        let records = self.recorder.history.records();
        let home = |home: &str| {
            records.iter().find_map(|record| match (&record.call, &record.ended) {
                (Call::Make { parent, name, .. }, Some((_, Answer::Inode { ino, .. })))
                    if *parent == Fid::ROOT.ino() && name == home =>
                {
                    Some(*ino)
                }
                _ => None,
            })
        };
        let homes: Vec<Ino> = HOMES.iter().filter_map(|text| home(text)).collect();
        if homes.len() < HOMES.len() {
            self.wrong.push("the tenants' directories could not be made".to_owned());
            return false;
        }
        self.recorder.realms.divide(homes);
        true
    }

    /// Where a program of a mount works.
    pub(super) fn place(&self, mount: usize, program: usize) -> Place {
        let homes = self.recorder.realms.homes();
        if homes.is_empty() {
            return Place::Whole;
        }
        let number = usize::from(self.mounts[mount].machine.0) - self.cluster.servers.len();
        match TENANTS.iter().find(|(client, _)| *client == number) {
            Some((_, tenant)) => Place::Fileset(*tenant, homes[*tenant]),
            // Everywhere in turn.
            None => Place::Among([None, Some(0), Some(1)][program % 3]),
        }
    }

    /// Each inode in a fileset has the number of its realm, and no other one has it: by the records
    /// of the MDTs.
    pub(super) fn misplaced(&self, tree: &Tree) -> Vec<String> {
        let homes = self.recorder.realms.homes();
        if homes.is_empty() {
            return Vec::new();
        }
        let realms: BTreeMap<Ino, u32> = self.realms_of_records();
        let numbers: Vec<Option<u32>> =
            homes.iter().map(|home| realms.get(home).copied()).collect();
        let mut found: Vec<String> = Vec::new();
        if numbers[0] == numbers[1] {
            found.push(format!("both filesets have the realm {:?}", numbers[0]));
        }
        for (ino, realm) in realms.iter().filter(|(ino, _)| tree.has(**ino)) {
            let inside = homes.iter().position(|home| tree.is_below(*ino, *home));
            let expected = inside.map_or(Some(0), |tenant| numbers[tenant]);
            if expected != Some(*realm) {
                found.push(format!(
                    "inode {ino:x} has the realm {realm}; that of its place is {expected:?}"
                ));
            }
        }
        found
    }

    /// The realm of each inode that programs know of; 0: none.
    fn realms_of_records(&self) -> BTreeMap<Ino, u32> {
        let mut realms = BTreeMap::new();
        for MdtRecord { key, value, .. } in self.cluster.mdt_records() {
            let is_inode = key.first() == Some(&b'I') && !verdict::is_shard(&key, &value);
            let Some(fid) = disk::key::fid_of(&key).filter(|_| is_inode) else { continue };
            let Ok(InodeRecord { flags, tail, .. }) = disk::inode::decode(fid, &value) else {
                continue;
            };
            let has_one = InodeFlags::from_bits_retain(flags).contains(InodeFlags::HAS_PROJECT);
            let project = disk::inode::project(tail).ok().filter(|_| has_one);
            let realm = project.filter(|project| *project >= REALM_FIRST).unwrap_or(0);
            realms.insert(self.cluster.went.first(fid.ino()), realm);
        }
        realms
    }
}
