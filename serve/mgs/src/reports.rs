//! State of the processes of the cluster, as each reported last (docs/dash.md).
//!
//! Kept in memory, one report for each session, at most [`CLIENTS_MAX`]; it goes with the session.
//! The MGS sets the time of the next report, so that all together stay below some hundred reports a
//! second however many processes there are.

use env::clock::Monotonic;
use parking_lot::Mutex;
use rpc::service::Export;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use types::limits::CLIENTS_MAX;
use types::session::ClientUuid;
use wire::report::{KeptReport, NodeReport};

/// Pause between two reports of a process that serves targets.
pub const SERVER_PAUSE: Duration = Duration::from_millis(500);
/// Pause between two reports of a process that only mounts.
pub const MOUNT_PAUSE: Duration = Duration::from_secs(1);
/// All processes together send at most one report in this time.
pub const SHARE: Duration = Duration::from_millis(5);
/// Reports in one answer together, bytes by their own estimate; texts may make them longer, never
/// beyond one message.
pub const LIST_WEIGHT_MAX: usize = 4 << 20;

struct Kept {
    export: Arc<Export>,
    at: Monotonic,
    report: NodeReport,
}

/// The reports of all processes.
#[derive(Default)]
pub(crate) struct Reports {
    kept: Mutex<HashMap<ClientUuid, Kept>>,
}

impl Reports {
    /// Keeps a report; returns when the next one is wanted.
    pub(crate) fn keep(
        &self,
        export: &Arc<Export>,
        mut report: NodeReport,
        now: Monotonic,
    ) -> Duration {
        report.clip();
        let pause = if report.targets.is_empty() { MOUNT_PAUSE } else { SERVER_PAUSE };
        let mut kept = self.kept.lock();
        // A session that has just ended leaves nothing behind.
        if !export.is_gone() && (kept.len() < CLIENTS_MAX || kept.contains_key(&export.client())) {
            kept.insert(export.client(), Kept { export: export.clone(), at: now, report });
        }
        pause.max(SHARE * kept.len() as u32)
    }

    /// A session ended.
    pub(crate) fn forget(&self, export: &Arc<Export>) {
        let mut kept = self.kept.lock();
        if kept.get(&export.client()).is_some_and(|kept| Arc::ptr_eq(&kept.export, export)) {
            kept.remove(&export.client());
        }
    }

    /// True if a process that is connected now reports that it serves this target.
    pub(crate) fn is_served(&self, name: &str) -> bool {
        let serves = |kept: &Kept| {
            kept.export.is_connected() && kept.report.targets.iter().any(|t| t.name == name)
        };
        self.kept.lock().values().any(serves)
    }

    /// As [`Reports::is_served`], by another process than that of this session.
    pub(crate) fn is_served_by_other(&self, name: &str, export: &Export) -> bool {
        let serves = |kept: &Kept| {
            kept.export.is_connected() && kept.report.targets.iter().any(|t| t.name == name)
        };
        let kept = self.kept.lock();
        kept.iter().any(|(client, kept)| *client != export.client() && serves(kept))
    }

    /// Reports of servers first, each kind by host and process, as many as one answer takes.
    pub(crate) fn list(&self, now: Monotonic) -> Vec<KeptReport> {
        let kept = self.kept.lock();
        let mut all: Vec<&Kept> = kept.values().collect();
        all.sort_by_key(|kept| {
            let NodeReport { targets, host, pid, .. } = &kept.report;
            (targets.is_empty(), host, *pid, kept.export.client())
        });
        let mut weight = 0;
        let fitting = all.into_iter().take_while(|kept| {
            weight += kept.report.weight();
            weight <= LIST_WEIGHT_MAX
        });
        let show = |kept: &Kept| KeptReport {
            age_ms: now.saturating_sub(kept.at).as_millis() as u64,
            connected: kept.export.is_connected(),
            report: kept.report.clone(),
        };
        fitting.map(show).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::target::TargetName;
    use wire::report::TargetReport;

    fn export(client: u128) -> Arc<Export> {
        Export::local(TargetName::mgs(), ClientUuid(client), "host:/".into(), None)
    }

    fn server(name: &str) -> NodeReport {
        let target = TargetReport { name: name.into(), ..TargetReport::default() };
        NodeReport { host: "h".into(), targets: vec![target], ..NodeReport::default() }
    }

    #[test]
    fn the_newest_is_kept_until_its_session_ends() {
        let (reports, a, b) = (Reports::default(), export(1), export(2));
        assert_eq!(reports.keep(&a, server("old"), Duration::from_secs(1)), SERVER_PAUSE);
        assert_eq!(reports.keep(&b, NodeReport::default(), Duration::from_secs(1)), MOUNT_PAUSE);
        reports.keep(&a, server("new"), Duration::from_secs(2));
        let list = reports.list(Duration::from_secs(3));
        assert_eq!(
            list.iter().map(|kept| kept.age_ms).collect::<Vec<_>>(),
            [1000, 2000],
            "servers first"
        );
        assert_eq!(list[0].report.targets[0].name, "new");
        assert!(list[0].connected);
        reports.forget(&export(1));
        assert_eq!(reports.list(Duration::ZERO).len(), 2, "another session of the same client");
        reports.forget(&a);
        assert_eq!(reports.list(Duration::ZERO).len(), 1);
    }

    #[test]
    fn many_processes_report_less_often() {
        let reports = Reports::default();
        let pauses: Vec<Duration> =
            (0..1000).map(|n| reports.keep(&export(n), server("x"), Duration::ZERO)).collect();
        assert_eq!(pauses[0], SERVER_PAUSE);
        assert_eq!(pauses[999], SHARE * 1000);
    }

    #[test]
    fn an_answer_has_a_bound() {
        let reports = Reports::default();
        let heavy =
            || NodeReport { targets: vec![TargetReport::default(); 256], ..NodeReport::default() };
        (0..200).for_each(|n| {
            reports.keep(&export(n), heavy(), Duration::ZERO);
        });
        let list = reports.list(Duration::ZERO);
        assert!(!list.is_empty() && list.len() < 200, "{}", list.len());
        assert!(list.iter().map(|kept| kept.report.weight()).sum::<usize>() <= LIST_WEIGHT_MAX);
    }
}
