//! The cluster as its processes reported it: which are up, what each target and client does now,
//! and the last hour of it.
//!
//! [`Cluster::take`] is given all reports that the MGS keeps, several times a second; it makes
//! rates of totals every [`STEP_MS`] of a process' own clock. Bounds: [`SERIES_MAX`] [`Series`];
//! one without a point for an hour goes. No clock in here: the caller says what time it is.

use crate::chain::{age, chains};
use crate::rates::{Rates, sum};
use crate::rows::{ClientRow, Detail, LogRow, Picture, ProcessRow, SessionRow, TargetRow};
use crate::series::{STEP_MS, Series};
use std::collections::BTreeMap;
use wire::report::{
    Counts, KeptReport, LogReport, MountReport, NodeReport, Recovery, TargetReport,
};

/// Series with a past: targets and clients.
pub const SERIES_MAX: usize = 1024;
/// A process without a report for this long is called silent, milliseconds.
pub const SILENT_MS: u64 = 1500;
/// A process without a report for this long is called down, milliseconds.
pub const DOWN_MS: u64 = 5000;
/// With many processes each reports less often: both times grow by this for each process,
/// milliseconds.
const PATIENCE_MS: u64 = 15;
/// Chains in a picture.
const CHAINS_MAX: usize = 200;

/// The configuration's record of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    /// `sheen-OST0001`
    pub name: String,
    /// True if it was not stopped in order.
    pub up: bool,
    /// The addresses that it should have.
    pub nids: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct Cpu {
    uptime_ms: u64,
    cpu_ms: u64,
    cores: f32,
}

/// State of the cluster.
#[derive(Default)]
pub struct Cluster {
    series: BTreeMap<String, Series>,
    cpus: BTreeMap<(String, String, u32), Cpu>,
    /// All targets together.
    total: Series,
    reports: Vec<KeptReport>,
    security: &'static str,
    picture: Picture,
}

/// `mgt`, `mdt`, `ost`
fn kind(name: &str) -> &'static str {
    match name {
        "MGS" => "mgt",
        name if name.contains("-MDT") => "mdt",
        _ => "ost",
    }
}

fn alive_word(kept: &KeptReport, patience: u64) -> &'static str {
    match kept {
        KeptReport { connected: false, .. } => "down",
        kept if kept.age_ms > DOWN_MS + patience => "down",
        kept if kept.age_ms > SILENT_MS + patience => "silent",
        _ => "up",
    }
}

impl Cluster {
    /// Which processes may connect, as [`Picture::security`] has it.
    pub fn set_security(&mut self, word: &'static str) {
        self.security = word;
    }

    /// Takes all reports of this moment, and the targets that the configuration has.
    pub fn take(&mut self, time_ms: u64, reports: Vec<KeptReport>, configured: &[Configured]) {
        self.reports = newest(reports);
        let patience = PATIENCE_MS * self.reports.len() as u64;
        let reports = std::mem::take(&mut self.reports);
        let mut picture =
            Picture { time_ms, security: self.security.to_owned(), ..Picture::default() };
        let mut served: BTreeMap<&str, (&KeptReport, &TargetReport)> = BTreeMap::new();
        for kept in &reports {
            for target in &kept.report.targets {
                let better = |other: &(&KeptReport, &TargetReport)| {
                    (other.0.connected, kept.age_ms) < (kept.connected, other.0.age_ms)
                };
                if served.get(target.name.as_str()).is_none_or(better) {
                    served.insert(&target.name, (kept, target));
                }
            }
        }
        for (kept, target) in served.values() {
            picture.targets.push(self.target(kept, target, patience, time_ms));
        }
        for target in configured.iter().filter(|target| !served.contains_key(target.name.as_str()))
        {
            picture.targets.push(absent(target));
        }
        picture.targets.sort_by(|a, b| {
            let order =
                |row: &TargetRow| ["mgt", "mdt", "ost"].iter().position(|kind| *kind == row.kind);
            (order(a), &a.name).cmp(&(order(b), &b.name))
        });
        for kept in &reports {
            for mount in &kept.report.mounts {
                picture.clients.push(self.client(kept, mount, patience, time_ms));
            }
            picture.processes.push(self.process(kept, patience));
        }
        picture.clients.sort_by(|a, b| (&a.host, &a.at).cmp(&(&b.host, &b.at)));
        picture.processes.sort_by(|a, b| (&a.host, &a.place).cmp(&(&b.host, &b.place)));
        self.total.point(time_ms, total(&picture.targets));
        picture.logs = logs(&reports);
        picture.chains = chains(&reports);
        picture.chains.truncate(CHAINS_MAX);
        let old = (time_ms / 1000).saturating_sub(3600);
        let shown: Vec<String> =
            picture.targets.iter().map(|row| format!("target/{}", row.name)).collect();
        self.series.retain(|of, series| {
            shown.contains(of)
                || series.points.back().is_some_and(|(time, _)| *time > old)
                || series.points.is_empty()
        });
        if self.cpus.len() > 4 * reports.len() + SERIES_MAX {
            self.cpus.clear();
        }
        self.reports = reports;
        self.picture = picture;
    }

    /// Rates of a series after a new report of its totals. A series beyond the bound has rates
    /// of 0.
    fn follow(&mut self, of: String, kept: &KeptReport, counts: &Counts, time_ms: u64) -> Rates {
        if self.series.len() >= SERIES_MAX && !self.series.contains_key(&of) {
            return Rates::default();
        }
        let series = self.series.entry(of).or_default();
        series.take(kept.report.uptime_ms, counts, time_ms / 1000);
        series.rates
    }

    fn target(
        &mut self,
        kept: &KeptReport,
        target: &TargetReport,
        patience: u64,
        time_ms: u64,
    ) -> TargetRow {
        let NodeReport { host, place, pid, nids, state, .. } = &kept.report;
        let rates = self.follow(format!("target/{}", target.name), kept, &target.counts, time_ms);
        let (state, note) = match alive_word(kept, patience) {
            "down" if !kept.connected => {
                ("down", "the connection of its process is gone".to_owned())
            }
            "down" => ("down", format!("unheard of for {} s", kept.age_ms / 1000)),
            "silent" => ("silent", format!("unheard of for {:.1} s", kept.age_ms as f32 / 1000.0)),
            _ if !target.failure.is_empty() => ("failed", target.failure.clone()),
            _ if state == "starting" || state == "stopping" => (state.as_str(), String::new()),
            _ => match target.recovery {
                Some(recovery) => ("recovering", recovery_note(recovery)),
                None => ("up", target.moves.join("; ")),
            },
        };
        let is_up = !matches!(state, "down" | "silent");
        TargetRow {
            name: target.name.clone(),
            kind: kind(&target.name).to_owned(),
            state: state.to_owned(),
            note,
            host: host.clone(),
            place: place.clone(),
            pid: *pid,
            nids: nids.clone(),
            space: target.space,
            sessions: target.sessions,
            open_files: target.open_files,
            locks: target.locks,
            lock_waits: target.lock_waits,
            uncommitted_bytes: target.uncommitted_bytes,
            granted_bytes: target.granted_bytes,
            commits: target.commits.count,
            commit_micros: target.commits.micros.checked_div(target.commits.count).unwrap_or(0),
            recovery: target.recovery,
            counts: target.counts.clone(),
            rates: if is_up { rates } else { Rates::default() },
        }
    }

    fn client(
        &mut self,
        kept: &KeptReport,
        mount: &MountReport,
        patience: u64,
        time_ms: u64,
    ) -> ClientRow {
        let counts = sum(mount.sessions.iter().map(|session| &session.counts));
        let rates = self.follow(format!("client/{}", mount.client), kept, &counts, time_ms);
        let state = alive_word(kept, patience);
        ClientRow {
            client: mount.client.clone(),
            at: mount.at.clone(),
            fsname: mount.fsname.clone(),
            host: kept.report.host.clone(),
            pid: kept.report.pid,
            state: state.to_owned(),
            open_files: mount.open_files,
            inodes: mount.inodes,
            waiting: mount.waiting,
            locks: mount.locks,
            dirty_bytes: mount.dirty_bytes,
            granted_bytes: mount.sessions.iter().map(|session| session.granted_bytes).sum(),
            sessions: mount.sessions.len() as u32,
            sessions_full: mount.sessions.iter().filter(|session| session.state == "FULL").count()
                as u32,
            counts,
            rates: if state == "up" { rates } else { Rates::default() },
        }
    }

    fn process(&mut self, kept: &KeptReport, patience: u64) -> ProcessRow {
        let report = &kept.report;
        let cpu =
            self.cpus.entry((report.host.clone(), report.place.clone(), report.pid)).or_default();
        let elapsed = report.uptime_ms.saturating_sub(cpu.uptime_ms);
        if elapsed >= STEP_MS || cpu.uptime_ms == 0 {
            let busy = report.cpu_ms.saturating_sub(cpu.cpu_ms) as f32 / elapsed.max(1) as f32;
            let cores = if cpu.uptime_ms == 0 { 0.0 } else { busy };
            *cpu = Cpu { uptime_ms: report.uptime_ms.max(1), cpu_ms: report.cpu_ms, cores };
        }
        let state = match alive_word(kept, patience) {
            "up" if !report.state.is_empty() => report.state.as_str(),
            word => word,
        };
        ProcessRow {
            host: report.host.clone(),
            place: report.place.clone(),
            pid: report.pid,
            version: report.version.clone(),
            state: state.to_owned(),
            uptime_ms: report.uptime_ms,
            age_ms: kept.age_ms,
            memory_bytes: report.memory_bytes,
            cores: cpu.cores,
            http: report.http.clone(),
        }
    }

    /// The newest picture.
    pub fn picture(&self) -> &Picture {
        &self.picture
    }

    /// One target or client; `None` if there is none of that name.
    pub fn detail(&self, of: &str) -> Option<Detail> {
        let now_s = self.picture.time_ms / 1000;
        let history = self.series.get(of).map(|series| series.history(now_s)).unwrap_or_default();
        if of == "all" {
            return Some(Detail {
                of: of.to_owned(),
                history: self.total.history(now_s),
                ..Detail::default()
            });
        }
        let (what, name) = of.split_once('/')?;
        let mut detail = Detail { of: of.to_owned(), history, ..Detail::default() };
        match what {
            "target" => {
                let row = self.picture.targets.iter().find(|row| row.name == name)?;
                let serves = |kept: &&KeptReport| {
                    (&kept.report.host, &kept.report.place, kept.report.pid)
                        == (&row.host, &row.place, row.pid)
                };
                let process = self.reports.iter().find(serves);
                let target = process
                    .and_then(|kept| kept.report.targets.iter().find(|target| target.name == name));
                detail.operations =
                    target.map(|target| target.operations.clone()).unwrap_or_default();
                detail.jobs = target.map(|target| target.jobs.clone()).unwrap_or_default();
                for (kept, mount) in self.mounts() {
                    for session in mount.sessions.iter().filter(|session| session.target == name) {
                        let with = format!("{}:{}", kept.report.host, mount.at);
                        detail.sessions.push(session_row(
                            with,
                            format!("client/{}", mount.client),
                            session,
                        ));
                    }
                }
            }
            "client" => {
                let (_, mount) = self.mounts().find(|(_, mount)| mount.client == name)?;
                detail.operations = mount.operations.clone();
                for session in &mount.sessions {
                    let of = format!("target/{}", session.target);
                    detail.sessions.push(session_row(session.target.clone(), of, session));
                }
            }
            _ => return None,
        }
        detail.operations.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        Some(detail)
    }

    fn mounts(&self) -> impl Iterator<Item = (&KeptReport, &MountReport)> {
        self.reports
            .iter()
            .flat_map(|kept| kept.report.mounts.iter().map(move |mount| (kept, mount)))
    }
}

fn session_row(with: String, of: String, session: &wire::report::SessionReport) -> SessionRow {
    let wire::report::SessionReport { state, window, granted_bytes, counts, .. } = session.clone();
    SessionRow { with, of, state, window, granted_bytes, counts }
}

/// `1 of 3 clients came back, 12 s left at most`
/// The logs as the hosts see them that know most of each; what is wrong, as all see it.
fn logs(reports: &[KeptReport]) -> Vec<LogRow> {
    let mut rows: BTreeMap<&str, LogRow> = BTreeMap::new();
    for kept in reports.iter().filter(|kept| kept.connected) {
        for LogReport { target, epoch, first, head, hosts, trouble } in &kept.report.logs {
            let row = rows.entry(target).or_default();
            if (row.epoch, row.head) <= (*epoch, *head) {
                (row.epoch, row.first, row.head) = (*epoch, *first, *head);
                (row.target, row.hosts) = (target.clone(), hosts.clone());
            }
            if !trouble.is_empty() {
                row.trouble.push(format!("{}:{}: {trouble}", kept.report.host, kept.report.place));
            }
        }
    }
    rows.into_values().collect()
}

fn recovery_note(Recovery { expected, back, left_ms }: Recovery) -> String {
    format!("{back} of {expected} clients came back, {} left at most", age(left_ms))
}

/// All MDTs and OSTs together; the 99th percentile is that of the slowest.
fn total(targets: &[TargetRow]) -> Rates {
    let mut total = Rates::default();
    for rates in targets.iter().filter(|row| row.kind != "mgt").map(|row| row.rates) {
        total.micros += rates.micros * rates.requests;
        total.requests += rates.requests;
        total.read += rates.read;
        total.written += rates.written;
        total.p99 = total.p99.max(rates.p99);
    }
    total.micros = if total.requests > 0.0 { total.micros / total.requests } else { 0.0 };
    total
}

/// A target without a report.
fn absent(target: &Configured) -> TargetRow {
    let (state, note) = match target.up {
        true => ("down", "no process that serves it reports"),
        false => ("stopped", "stopped in order"),
    };
    TargetRow {
        name: target.name.clone(),
        kind: kind(&target.name).to_owned(),
        state: state.to_owned(),
        note: note.to_owned(),
        nids: target.nids.clone(),
        ..TargetRow::default()
    }
}

/// The newest report of each place. A process that was restarted has the report of its previous
/// life beside its own.
pub fn newest(mut reports: Vec<KeptReport>) -> Vec<KeptReport> {
    reports.sort_by_key(|kept| (!kept.connected, kept.age_ms));
    let mut seen = std::collections::BTreeSet::new();
    reports.retain(|kept| seen.insert((kept.report.host.clone(), kept.report.place.clone())));
    reports
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::POINTS_MAX;
    use wire::report::LogHostReport;
    use wire::report::SessionReport;

    fn kept(place: &str, uptime_ms: u64, requests: u64) -> KeptReport {
        let counts = Counts { requests, micros: 10 * requests, ..Counts::default() };
        let target = TargetReport {
            name: "sheen-OST0000".into(),
            counts: counts.clone(),
            ..TargetReport::default()
        };
        let session = SessionReport {
            target: "sheen-OST0000".into(),
            state: "FULL".into(),
            counts,
            ..SessionReport::default()
        };
        let mount = MountReport {
            client: "c".into(),
            at: "/mnt".into(),
            sessions: vec![session],
            ..MountReport::default()
        };
        let report = NodeReport {
            host: "h".into(),
            place: place.into(),
            state: "up".into(),
            pid: 7,
            uptime_ms,
            targets: vec![target],
            mounts: vec![mount],
            ..NodeReport::default()
        };
        KeptReport { age_ms: 10, connected: true, report }
    }

    fn configured(name: &str, up: bool) -> Configured {
        Configured { name: name.into(), up, nids: Vec::new() }
    }

    #[test]
    fn totals_become_rates_and_points() {
        let mut cluster = Cluster::default();
        for (n, requests) in [0, 50, 100, 150, 400].into_iter().enumerate() {
            cluster.take(
                1_000_000 + 1000 * n as u64,
                vec![kept("/a", 1000 * n as u64, requests)],
                &[],
            );
        }
        let row = &cluster.picture().targets[0];
        assert_eq!((row.state.as_str(), row.rates.requests, row.rates.micros), ("up", 150.0, 10.0));
        assert_eq!(cluster.picture().clients[0].counts.requests, 400);
        let detail = cluster.detail("target/sheen-OST0000").unwrap();
        assert_eq!(
            (detail.history.time, detail.history.requests),
            (vec![1002, 1004], vec![50.0, 150.0])
        );
        assert_eq!(detail.sessions[0].with, "h:/mnt");
        assert_eq!(cluster.detail("client/c").unwrap().sessions[0].of, "target/sheen-OST0000");
        assert_eq!(cluster.detail("all").unwrap().history.requests.last(), Some(&150.0));
        for of in ["target/none", "client/none", "x/y", "", "target"] {
            assert_eq!(cluster.detail(of), None, "{of}");
        }
    }

    #[test]
    fn a_log_is_shown_as_the_host_sees_it_that_knows_most() {
        let told = |place: &str, epoch, head, trouble: &str| {
            let owner = LogHostReport { host: "one:/a".into(), owner: true, applied: head };
            let log = LogReport {
                target: "MGS".into(),
                epoch,
                first: 2,
                head,
                hosts: vec![owner],
                trouble: trouble.into(),
            };
            let mut kept = kept(place, 0, 0);
            kept.report.logs = vec![log];
            kept
        };
        let mut cluster = Cluster::default();
        let gone = KeptReport { connected: false, ..told("/c", 9, 90, "") };
        cluster.take(0, vec![told("/a", 3, 7, ""), told("/b", 2, 8, "no answer"), gone], &[]);
        let logs = &cluster.picture().logs;
        assert_eq!((logs.len(), logs[0].epoch, logs[0].head), (1, 3, 7));
        assert_eq!(logs[0].trouble, ["h:/b: no answer"]);
        assert!(logs[0].hosts[0].owner && logs[0].hosts[0].applied == 7);
    }

    #[test]
    fn who_does_not_report_is_seen() {
        let state = |reports: Vec<KeptReport>, up| {
            let mut cluster = Cluster::default();
            cluster.take(0, reports, &[configured("sheen-OST0000", up)]);
            cluster.picture().targets[0].state.clone()
        };
        assert_eq!(state(vec![kept("/a", 0, 0)], true), "up");
        assert_eq!(state(vec![], true), "down");
        assert_eq!(state(vec![], false), "stopped");
        let aged = |age_ms, connected| KeptReport { age_ms, connected, ..kept("/a", 0, 0) };
        assert_eq!(state(vec![aged(SILENT_MS + 100, true)], true), "silent");
        assert_eq!(state(vec![aged(DOWN_MS + 100, true)], true), "down");
        assert_eq!(state(vec![aged(10, false)], true), "down", "its connection is gone");
        assert_eq!(state(vec![aged(100, false), kept("/a", 0, 0)], true), "up", "started again");
        let mut failed = kept("/a", 0, 0);
        failed.report.targets[0].failure = "disk".into();
        assert_eq!(state(vec![failed], true), "failed");
        let mut back = kept("/a", 0, 0);
        back.report.targets[0].recovery = Some(Recovery { expected: 3, back: 1, left_ms: 9 });
        assert_eq!(state(vec![back], true), "recovering");
    }

    #[test]
    fn the_past_is_bounded() {
        let mut cluster = Cluster::default();
        for n in 0..POINTS_MAX as u64 + 10 {
            cluster.take(n * STEP_MS, vec![kept("/a", n * STEP_MS, n)], &[]);
        }
        assert_eq!(cluster.detail("target/sheen-OST0000").unwrap().history.time.len(), POINTS_MAX);
        let many = |n: usize| {
            let mut report = kept(&format!("/{n}"), 0, 0);
            report.report.mounts[0].client = format!("c{n}");
            report
        };
        cluster.take(0, (0..SERIES_MAX + 10).map(many).collect(), &[]);
        assert!(cluster.series.len() <= SERIES_MAX);
    }
}
