//! Tells the MGS again and again how this process is, as often as the MGS wants to hear it.
//!
//! It goes over the session with the MGS that the process has anyway. A report that is not answered
//! in time is dropped: the next one says more. A dead process is noticed by its closed connection,
//! a silent one by its age.

use crate::watch::report;
use crate::watch::view::View;
use std::sync::Arc;
use std::time::Duration;
use stubs::mgc::Mgc;
use types::limits::PING_INTERVAL;
use wire::report::KeptReport;

/// Pause after a report that could not be delivered.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest pause that the MGS may ask for.
const PAUSE_MAX: Duration = Duration::from_secs(120);
/// The MGS answers a question for all reports within this time, or is left out.
const ASK_TIMEOUT: Duration = Duration::from_secs(3);

/// The task; it ends when this is dropped.
pub(crate) struct Reporter(tokio::task::JoinHandle<()>);

impl Reporter {
    pub(crate) fn start(view: &Arc<View>) -> Reporter {
        Reporter(tokio::spawn(run(view.clone())))
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn run(view: Arc<View>) {
    let clock = view.parts().env.clock.clone();
    loop {
        let mgc = mgc(&view);
        let pause = tokio::select! {
            biased;
            answer = mgc.report(report::make(&view)) => match answer {
                Ok(again_ms) => Duration::from_millis(again_ms.into()).clamp(PAUSE, PAUSE_MAX),
                Err(error) => {
                    tracing::debug!(%error, "the MGS does not take reports");
                    PAUSE
                }
            },
            () = clock.sleep(PING_INTERVAL) => Duration::ZERO,
        };
        clock.sleep(pause).await;
    }
}

/// A process that only mounts has a session with the MGS for its mount; one that serves has its
/// own.
fn mgc(view: &View) -> Mgc {
    let only_mounts = view.settings().targets.is_empty();
    let mount = view.alive().mounts().into_iter().next().filter(|_| only_mounts);
    mount.map_or_else(
        || view.parts().mgc(),
        |(client, ..)| Mgc::new(client.session().mgc().import().clone()),
    )
}

/// Reports that this process can tell: its own, and unless `own` those that the MGS has (`true`:
/// they are there).
pub(crate) async fn reports(view: &Arc<View>, own: bool) -> (Vec<KeptReport>, bool) {
    let fresh = KeptReport { age_ms: 0, connected: true, report: report::make(view) };
    if own {
        return (vec![fresh], false);
    }
    let others = match view.alive().mgs() {
        Some((mgs, _)) => Some(mgs.reports()),
        None => tokio::select! {
            biased;
            answer = async { mgc(view).reports().await } => answer.ok(),
            () = view.parts().env.clock.sleep(ASK_TIMEOUT) => None,
        },
    };
    let whole = others.is_some();
    let same = |kept: &KeptReport| {
        let (a, b) = (&kept.report, &fresh.report);
        (&a.host, &a.place, a.pid) == (&b.host, &b.place, b.pid)
    };
    let mut all: Vec<KeptReport> =
        others.unwrap_or_default().into_iter().filter(|kept| !same(kept)).collect();
    all.insert(0, fresh);
    (all, whole)
}
