//! Faults of a run, at random instants.

use super::*;

impl Run {
    /// Faults at random instants, as long as programs run.
    pub(super) fn trouble(&mut self, faults: Faults) {
        let until = self.cluster.world.now() + self.fault_profile.faults_for;
        let mut waiting_to_start = Vec::new();
        let mut down: Vec<(usize, Duration)> = Vec::new();
        loop {
            let pause = Duration::from_micros(self.rng.between(1_000, self.fault_profile.pause_us));
            if self.wait(pause, |run| run.running.load(Ordering::Relaxed) == 0)
                || self.cluster.world.now() >= until
                || !self.cluster.world.failures().is_empty()
            {
                break;
            }
            self.start_servers(&mut down, false);
            waiting_to_start.retain(|mount| {
                let ready = self.is_mounted(*mount);
                if ready {
                    self.start_programs(*mount);
                }
                !ready
            });
            if down.is_empty() {
                waiting_to_start.extend(self.trouble_with_keys());
            }
            let fault = self.fault_profile.fault(&mut self.rng);
            // A client that is kept from a recovering MDT is evicted: it is told, and that is no
            // fault.
            let recovered = self.cluster.is_recovered();
            match fault {
                Fault::Break if faults.network => self.break_something(),
                Fault::Cut if faults.network && recovered => self.cut_something(),
                Fault::Silence if faults.network && recovered => self.silence_a_client(),
                Fault::Heal if faults.network => self.heal(),
                Fault::Client if faults.clients && recovered => {
                    waiting_to_start.extend(self.kill_a_client())
                }
                Fault::Server if faults.servers => {
                    match self.fault_profile.together && faults.clients {
                        // An MDT that dies in recovery waits for the dead client all over again.
                        true if !recovered => continue,
                        true => waiting_to_start.extend(self.kill_together(&mut down)),
                        false => self.kill_a_server(&mut down),
                    }
                }
                Fault::Blackout if faults.servers && recovered => {
                    self.black_out(&mut down);
                    self.faults += 1;
                    break;
                }
                _ => continue,
            }
            self.faults += 1;
        }
        self.start_servers(&mut down, true);
    }

    /// A server dies, by kill or power cut, and comes back a while later.
    fn kill_a_server(&mut self, down: &mut Vec<(usize, Duration)>) {
        let is_mdt = |server: &Server| server.kind == TargetKind::Mdt;
        let wanted = self.rng.chance(self.fault_profile.mdt);
        let able: Vec<usize> = (0..self.cluster.servers.len())
            .filter(|n| is_mdt(&self.cluster.servers[*n]) == wanted)
            .collect();
        let number = *self.rng.pick(&able);
        let kind = self.cluster.servers[number].kind;
        let now = self.cluster.world.now();
        // What a client does in its last moments may be lost if its MDT dies as well, and with it
        // the changes of others that rest on it.
        let alone = kind != TargetKind::Mdt || now >= self.last_death + ALONE;
        if down.iter().any(|(other, _)| *other == number) || !alone {
            return;
        }
        // A client that is kept from a recovering target is given up.
        if kind != TargetKind::Mgt {
            self.heal();
        }
        if kind == TargetKind::Mdt && self.rng.chance(self.fault_profile.unheard) {
            self.leave_unheard(number);
        }
        self.kill_now(number, down);
        if kind == TargetKind::Mdt {
            self.heal();
        }
    }

    /// A server dies at this instant.
    fn kill_now(&mut self, number: usize, down: &mut Vec<(usize, Duration)>) {
        let power = self.rng.chance(500);
        self.cluster.kill_server(number, if power { Kill::Power } else { Kill::Process });
        let pause = Duration::from_micros(self.rng.between(10_000, self.fault_profile.down_us));
        down.push((number, self.cluster.world.now() + pause));
    }

    /// A client and the MDT die at the same instant, soon after a commit of the MDT. What the
    /// client did since is lost, but for what others were told of.
    fn kill_together(&mut self, down: &mut Vec<(usize, Duration)>) -> Option<usize> {
        let living = self.living();
        let mut servers = self.cluster.servers.iter();
        let mdt = servers.position(|server| server.kind == TargetKind::Mdt)?;
        if living.len() < 2 || self.cluster.world.now() < self.last_death + ALONE {
            return None;
        }
        let victim = *self.rng.pick(&living);
        let since = self.rng.between(2, UNTOLD_MAX - 2);
        self.heal();
        let durable = self.recorder.history.now();
        if !self.cluster.commit(mdt) {
            return None;
        }
        let is_busy = |run: &Run| run.answers_since(victim, durable) >= since;
        if !self.wait_by(FINE_STEP, BUSY_MAX, is_busy)
            || self.answers_since(victim, durable) > UNTOLD_MAX
        {
            return None;
        }
        let until = self.recorder.history.moment();
        self.untold.insert(victim, Untold { since: durable, until });
        let another = self.kill_client(victim);
        self.kill_now(mdt, down);
        Some(another)
    }

    /// So many operations of a mount's programs were answered after this moment.
    fn answers_since(&self, mount: usize, moment: Moment) -> u64 {
        let of = |program: usize| self.mount_of[program] == mount;
        self.recorder.history.answered_since(moment, of)
    }

    /// For a moment a client does not hear an MDT, which hears the client.
    fn leave_unheard(&mut self, mdt: usize) {
        let mount = self.rng.below(self.mounts.len() as u64) as usize;
        let (deaf, mdt) = (self.mounts[mount].machine, self.cluster.servers[mdt].machine);
        self.cluster.world.network().cut(mdt, deaf);
        let moment = Duration::from_micros(self.rng.between(500, 60_000));
        self.wait(moment, |_| false);
        self.deaf = Some(mount);
    }

    /// All machines lose their power at once: clients, too. Servers come back, all of them soon.
    pub(super) fn black_out(&mut self, down: &mut Vec<(usize, Duration)>) {
        let at = self.recorder.history.moment();
        self.blackout = Some(at);
        self.heal();
        for (mount, alive) in self.mounts.iter().zip(&self.alive) {
            self.recorder.locks.lost_contact(usize::from(mount.machine.0), at);
            self.cluster.world.kill(&mount.process, Kill::Power);
            let dead = std::mem::take(&mut *alive.lock());
            self.running.fetch_sub(dead.len(), Ordering::Relaxed);
        }
        for number in 0..self.cluster.servers.len() {
            self.cluster.kill_server(number, Kill::Power);
        }
        down.clear();
        for number in 0..self.cluster.servers.len() {
            let pause = Duration::from_micros(self.rng.between(1_000, 1_000_000));
            let now = self.cluster.world.now();
            down.push((number, now + pause));
        }
    }

    /// Starts the servers that have been down long enough, or all.
    pub(super) fn start_servers(&mut self, down: &mut Vec<(usize, Duration)>, all: bool) {
        let now = self.cluster.world.now();
        let (due, later) =
            std::mem::take(down).into_iter().partition(|(_, when)| all || *when <= now);
        *down = later;
        let due: Vec<(usize, Duration)> = due;
        for (number, _) in due {
            self.cluster.start_server(number);
            if let Some(keys) = &mut self.keys {
                keys.server_started = now;
            }
            let is_mdt = self.cluster.servers[number].kind == TargetKind::Mdt;
            // Without lateness nothing is drawn.
            if is_mdt
                && !all
                && self.fault_profile.late > 0
                && self.rng.chance(self.fault_profile.late)
            {
                self.make_late(number);
            }
        }
    }

    /// A client does not hear an MDT for a moment, during or after its recovery. That is far
    /// shorter than the time it is waited for.
    fn make_late(&mut self, mdt: usize) {
        let before = Duration::from_micros(self.rng.below(300_000));
        self.wait(before, |_| false);
        let number =
            self.deaf.take().unwrap_or_else(|| self.rng.below(self.mounts.len() as u64) as usize);
        let (late, mdt) = (self.mounts[number].machine, self.cluster.servers[mdt].machine);
        self.cluster.world.network().cut(mdt, late);
        if self.rng.chance(400) {
            self.cluster.world.network().cut(late, mdt);
        }
        let moment = Duration::from_micros(self.rng.between(1_000, 800_000));
        self.wait(moment, |_| false);
        self.heal();
    }

    fn pair(&mut self) -> (usize, usize) {
        let mount = self.rng.below(self.mounts.len() as u64) as usize;
        (mount, self.rng.below(self.cluster.servers.len() as u64) as usize)
    }

    fn break_something(&mut self) {
        let (mount, server) = self.pair();
        let (a, b) = match self.rng.chance(800) {
            true => (self.mounts[mount].machine, self.cluster.servers[server].machine),
            false => (self.an_mdt(), self.cluster.servers[server].machine),
        };
        let network = self.cluster.world.network();
        if !self.stalls.chance(STALLED) {
            return network.break_connections(a, b);
        }
        // What is on its way arrives after newer requests on other connections.
        let late = Duration::from_micros(self.stalls.below(STALL_MAX_US));
        network.stall_connections(a, b, late);
    }

    /// Machine of an MDT. If there is only one, nothing is drawn.
    fn an_mdt(&mut self) -> MachineId {
        let mdts = self.cluster.servers.iter().filter(|server| server.kind == TargetKind::Mdt);
        let machines: Vec<MachineId> = mdts.map(|server| server.machine).collect();
        if machines.len() == 1 { machines[0] } else { *self.rng.pick(&machines) }
    }

    fn cut_something(&mut self) {
        let (mount, server) = self.pair();
        let (mut a, b) = (self.mounts[mount].machine, self.cluster.servers[server].machine);
        // If that is never so, nothing is drawn.
        if self.fault_profile.cut_mdts > 0 && self.rng.chance(self.fault_profile.cut_mdts) {
            a = self.an_mdt();
            if self.cluster.servers[server].kind != TargetKind::Mdt || a == b {
                return;
            }
        } else {
            // Until it is healed the client may lose its lease, and with it its locks.
            self.lost_contact(mount);
        }
        match self.rng.below(3) {
            0 => self.cluster.world.network().cut(a, b),
            1 => self.cluster.world.network().cut(b, a),
            _ => {
                self.cluster.world.network().cut(a, b);
                self.cluster.world.network().cut(b, a);
            }
        }
    }

    /// The messages of a client are held back until others have its locks: first those to and from
    /// the MDT, then those to the OSTs, which it sends while it still trusts the locks.
    fn silence_a_client(&mut self) {
        let mount = self.rng.below(self.mounts.len() as u64) as usize;
        let silent = self.mounts[mount].machine;
        self.lost_contact(mount);
        let both = [self.rng.chance(900), self.rng.chance(200)];
        let times = if self.rng.chance(500) { SILENT_MS } else { LATE_MS }
            .map(|(least, most)| Duration::from_millis(self.rng.between(least, most)));
        for ((kind, both), time) in
            [TargetKind::Mdt, TargetKind::Ost].into_iter().zip(both).zip(times)
        {
            for server in self.cluster.servers.iter().filter(|server| server.kind == kind) {
                self.cluster.world.network().cut(silent, server.machine);
                if both {
                    self.cluster.world.network().cut(server.machine, silent);
                }
            }
            self.wait(time, |_| false);
        }
        self.heal();
    }

    /// All mounts that are there.
    pub(super) fn living(&self) -> Vec<usize> {
        (0..self.mounts.len()).filter(|mount| self.is_mounted(*mount)).collect()
    }

    /// A client dies; another one comes on the same machine.
    fn kill_a_client(&mut self) -> Option<usize> {
        let living = self.living();
        if living.len() < 2 {
            return None;
        }
        let victim = *self.rng.pick(&living);
        Some(self.kill_client(victim))
    }

    /// This client dies at this instant; the mount that comes instead.
    pub(super) fn kill_client(&mut self, victim: usize) -> usize {
        let from = self.lost_contact(victim);
        let until = self.recorder.history.moment();
        self.losses.push(Loss { mount: victim, from, told: until, until });
        self.last_death = self.cluster.world.now();
        let how = if self.rng.chance(500) { Kill::Process } else { Kill::Power };
        self.cluster.world.kill(&self.mounts[victim].process, how);
        let dead = std::mem::take(&mut *self.alive[victim].lock());
        self.running.fetch_sub(dead.len(), Ordering::Relaxed);
        self.add_client(Some(victim))
    }
}
