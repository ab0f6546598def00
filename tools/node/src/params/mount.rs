//! Parameters of mounts: `llite`, `lmv`, `lov`, `mdc`, `osc`, `mgc`.

use super::series;
use super::session::{self, Waits};
use crate::view::View;
use client::caller::Caller;
use client::client::Client;
use observe::catalog::*;
use observe::metric::{Metric, Unit};
use observe::param::Param;
use observe::registry::{Registry, Sample, Value};
use observe::rpc_text;
use observe::tree::{Later, Tree};
use rpc::import::{Import, ImportState};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use stubs::mdc::Mdc;
use stubs::osc::Osc;
use types::attr::Statfs;
use types::credentials::Credentials;
use types::errno::Errno;
use types::target::{FsName, TargetName};

/// A target that is asked for its space or pinged answers within this time, or not at all.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// Block size that statfs tells.
const BLOCK_BYTES: u64 = 4096;

pub(super) fn add(tree: &mut Tree, view: &Arc<View>) {
    for client in view.alive().clients() {
        let id = format!("{:016x}", client.uuid().0 as u64);
        llite(tree, view, &client, &format!("{}-{id}", client.fsname()));
        let source = client.lock_source();
        let device = source.strip_prefix("ldlm.namespaces.").unwrap_or(&source);
        series::stats(tree, view, &LDLM_STATS, &[device], &source);
        let counted = client.clone();
        tree.shows(&LDLM_LOCK_COUNT, &[device], move || Ok(counted.lock_count().to_string()));
        targets(tree, &client, &id);
        for mdc in client.mdts() {
            add_mdc(tree, view, &mdc);
        }
        for osc in client.osts() {
            add_osc(tree, view, &client, &osc);
        }
        add_mgc(tree, view, client.mgs());
    }
}

/// What a name of the tree calls the device: `osc.sheen-OST0000-osc-1` is `sheen-OST0000-osc-1`.
pub(super) fn device(import: &Import) -> String {
    import.source().split_once('.').map_or(import.source(), |(_, device)| device).to_owned()
}

fn llite(tree: &mut Tree, view: &Arc<View>, client: &Arc<Client>, name: &str) {
    let devices = [name];
    let (counted, clock, since) = (client.clone(), view.parts().env.clock.clone(), view.since());
    tree.shows(&LLITE_STATS, &devices, move || {
        let now = clock.wall();
        Ok(observe::text::stats(now, counted.counted_since().unwrap_or(since), &client_samples(&counted)))
    });
    let (clearing, clock) = (client.clone(), view.parts().env.clock.clone());
    tree.takes(&LLITE_STATS, &devices, move |_| {
        clearing.clear_counts(clock.wall());
        Ok(())
    });
    let uuid = client.uuid();
    tree.shows(&LLITE_UUID, &devices, move || Ok(uuid.to_string()));
    tree.shows(&LLITE_FSTYPE, &devices, || Ok("lustre".to_owned()));
    tree.shows(&LLITE_CLIENT_TYPE, &devices, || Ok("local client".to_owned()));
    tree.shows(&LLITE_BLOCKSIZE, &devices, || Ok(BLOCK_BYTES.to_string()));
    let counted = client.clone();
    tree.shows(&LLITE_NODES, &devices, move || Ok(counted.node_count().to_string()));
    let counted = client.clone();
    tree.shows(&LLITE_OPEN, &devices, move || Ok(counted.open_count().to_string()));
    let counted = client.clone();
    tree.shows(&LLITE_DIRTY, &devices, move || Ok(counted.dirty_bytes().to_string()));
    let (asked, clock) = (client.clone(), view.parts().env.clock.clone());
    let ask = move || -> Later<Result<Statfs, Errno>> {
        let (client, clock) = (asked.clone(), clock.clone());
        Box::pin(async move {
            let caller = Caller { credentials: Credentials::root(), ..Caller::default() };
            tokio::select! {
                answer = client.statfs(caller) => answer.map_err(|error| error.errno()),
                () = clock.sleep(ASK_TIMEOUT) => Err(Errno::ETIMEDOUT),
            }
        })
    };
    space(tree, SpaceParams::LLITE, &devices, ask);
}

/// What the client counts, as the registry would tell it.
fn client_samples(client: &Client) -> Vec<Sample> {
    let source: Arc<str> = format!("llite.{}-{:016x}", client.fsname(), client.uuid().0 as u64).into();
    let mut counts = client.requests_by_operation();
    counts.sort_unstable();
    let sample = |(name, count)| Sample {
        metric: Metric { name, unit: Unit::Requests, help: "How often programs asked the mount for it." },
        source: source.clone(),
        value: Value::Counter(count),
    };
    counts.into_iter().map(sample).collect()
}

/// Counts of all mounts.
pub(super) fn samples(view: &View) -> Vec<Sample> {
    view.alive().clients().iter().flat_map(|client| client_samples(client)).collect()
}

fn targets(tree: &mut Tree, client: &Arc<Client>, id: &str) {
    let targets = |mdts: bool| {
        let client = client.clone();
        move || -> Vec<(TargetName, bool)> {
            let of = |import: &Import| (import.target(), is_active(import));
            match mdts {
                true => client.mdts().iter().map(|mdc| of(mdc.import())).collect(),
                false => {
                    let in_use = |osc: &Osc, (name, active)| (name, active && osc.is_active());
                    client.osts().iter().map(|osc| in_use(osc, of(osc.import()))).collect()
                }
            }
        }
    };
    let (lmv, lov) = (format!("{}-clilmv-{id}", client.fsname()), format!("{}-clilov-{id}", client.fsname()));
    target_params(tree, [&LMV_NUMOBD, &LMV_ACTIVEOBD, &LMV_TARGET_OBD], &lmv, targets(true));
    for pool in client.pools() {
        let fsname = client.fsname();
        let text = pool_text(fsname, pool.osts.iter().copied());
        tree.shows(&LOV_POOLS, &[&lov, &pool.name], move || Ok(text.clone()));
    }
    target_params(tree, [&LOV_NUMOBD, &LOV_ACTIVEOBD, &LOV_TARGET_OBD], &lov, targets(false));
}

/// OSTs of a pool, a line each.
pub(super) fn pool_text(fsname: FsName, osts: impl Iterator<Item = u16>) -> String {
    osts.map(|ost| format!("{}_UUID\n", TargetName::ost(fsname, ost))).collect()
}

fn is_active(import: &Import) -> bool {
    // One that nobody needed yet has no session, but nothing is wrong with it.
    let report = import.report();
    report.state == ImportState::Full || (report.boot == 0 && report.attempts == 0)
}

fn target_params(
    tree: &mut Tree,
    [count, active, list]: [&'static Param; 3],
    device: &str,
    targets: impl Fn() -> Vec<(TargetName, bool)> + Clone + Send + Sync + 'static,
) {
    let all = targets.clone();
    tree.shows(count, &[device], move || Ok(all().len().to_string()));
    let all = targets.clone();
    tree.shows(active, &[device], move || Ok(all().iter().filter(|(_, active)| *active).count().to_string()));
    tree.shows(list, &[device], move || {
        let mut text = String::new();
        for (name, active) in targets() {
            let word = if active { "ACTIVE" } else { "INACTIVE" };
            writeln!(text, "{}: {name}_UUID {word}", name.index.0).expect("a string takes all");
        }
        Ok(text)
    });
}

/// Declarations of one kind of session.
struct SessionParams {
    stats: &'static Param,
    import: &'static Param,
    state: &'static Param,
    timeouts: &'static Param,
    server_uuid: &'static Param,
    conn_uuid: &'static Param,
    window: &'static Param,
    in_flight: &'static Param,
    ping: &'static Param,
}

/// `import` of any session.
pub(super) fn add_import(tree: &mut Tree, view: &Arc<View>, param: &'static Param, device: &str, import: &Arc<Import>) {
    let (shown, name, registry) = (import.clone(), device.to_owned(), view.parts().rpc.metrics().clone());
    tree.shows(param, &[device], move || Ok(session::import(&shown, &name, waits(&registry, shown.source()))));
}

fn waits(registry: &Registry, source: &str) -> Waits {
    let histogram = rpc_text::histogram(&registry.snapshot(|s| s == source), "req_waittime");
    let mean = histogram.sum.checked_div(histogram.count()).unwrap_or(0);
    Waits { mean: Duration::from_micros(mean), max: Duration::from_micros(histogram.max) }
}

fn add_session(tree: &mut Tree, view: &Arc<View>, params: &SessionParams, import: &Arc<Import>) {
    let device = device(import);
    let devices = [device.as_str()];
    series::stats(tree, view, params.stats, &devices, import.source());
    add_import(tree, view, params.import, &device, import);
    let shown = import.clone();
    tree.shows(params.state, &devices, move || Ok(format!("current_state: {}\n", session::state_word(shown.state()))));
    let shown = import.clone();
    tree.shows(params.timeouts, &devices, move || Ok(shown.report().timeouts.to_string()));
    let shown = import.clone();
    tree.shows(params.server_uuid, &devices, move || Ok(session::server_uuid(&shown)));
    let shown = import.clone();
    tree.shows(params.conn_uuid, &devices, move || Ok(session::conn_uuid(&shown)));
    let shown = import.clone();
    tree.shows(params.window, &devices, move || Ok(shown.report().window.unwrap_or(0).to_string()));
    let shown = import.clone();
    tree.shows(params.in_flight, &devices, move || Ok(shown.report().in_flight.to_string()));
    let (asked, clock) = (import.clone(), view.parts().env.clock.clone());
    tree.does(params.ping, &devices, move |_| {
        let (import, clock) = (asked.clone(), clock.clone());
        Box::pin(async move {
            // Space is the cheapest question that every target answers, and that proves its service alive.
            let answer = async {
                match import.target().kind {
                    types::target::TargetKind::Ost => Osc::new(import.clone()).statfs().await,
                    _ => Mdc::new(import.clone()).statfs(&Credentials::root()).await,
                }
            };
            tokio::select! {
                answer = answer => answer.map(drop).map_err(|error| error.errno()),
                () = clock.sleep(ASK_TIMEOUT) => Err(Errno::ETIMEDOUT),
            }
        })
    });
}

fn add_osc(tree: &mut Tree, view: &Arc<View>, client: &Arc<Client>, osc: &Osc) {
    let params = SessionParams {
        stats: &OSC_STATS,
        import: &OSC_IMPORT,
        state: &OSC_STATE,
        timeouts: &OSC_TIMEOUTS,
        server_uuid: &OSC_OST_SERVER_UUID,
        conn_uuid: &OSC_OST_CONN_UUID,
        window: &OSC_WINDOW,
        in_flight: &OSC_IN_FLIGHT,
        ping: &OSC_PING,
    };
    let import = osc.import();
    add_session(tree, view, &params, import);
    let device = device(import);
    let counted = import.clone();
    series::tables(tree, view, &OSC_RPC_STATS, &[&device], import.source(), move |samples| {
        let report = counted.report();
        rpc_text::data(samples, [report.reads_in_flight, report.writes_in_flight])
    });
    let (shown, set) = (osc.clone(), osc.clone());
    tree.shows(&OSC_ACTIVE, &[&device], move || Ok(u8::from(shown.is_active()).to_string()));
    tree.takes(&OSC_ACTIVE, &[&device], move |value| {
        match value.trim() {
            "0" => set.set_active(false),
            "1" => set.set_active(true),
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    });
    let (promised, ost) = (client.clone(), import.target().index);
    tree.shows(&OSC_GRANT, &[&device], move || Ok(promised.granted_bytes(ost).to_string()));
    let (osc, clock) = (osc.clone(), view.parts().env.clock.clone());
    space(tree, SpaceParams::OSC, &[&device], move || {
        let (osc, clock) = (osc.clone(), clock.clone());
        Box::pin(async move {
            tokio::select! {
                answer = osc.statfs() => answer.map_err(|error| error.errno()),
                () = clock.sleep(ASK_TIMEOUT) => Err(Errno::ETIMEDOUT),
            }
        })
    });
}

fn add_mdc(tree: &mut Tree, view: &Arc<View>, mdc: &Mdc) {
    let params = SessionParams {
        stats: &MDC_STATS,
        import: &MDC_IMPORT,
        state: &MDC_STATE,
        timeouts: &MDC_TIMEOUTS,
        server_uuid: &MDC_MDS_SERVER_UUID,
        conn_uuid: &MDC_MDS_CONN_UUID,
        window: &MDC_WINDOW,
        in_flight: &MDC_IN_FLIGHT,
        ping: &MDC_PING,
    };
    let import = mdc.import();
    add_session(tree, view, &params, import);
    let device = device(import);
    let counted = import.clone();
    series::tables(tree, view, &MDC_RPC_STATS, &[&device], import.source(), move |samples| {
        rpc_text::changes(samples, counted.report().changes_in_flight)
    });
    let (mdc, clock) = (mdc.clone(), view.parts().env.clock.clone());
    space(tree, SpaceParams::MDC, &[&device], move || {
        let (mdc, clock) = (mdc.clone(), clock.clone());
        Box::pin(async move {
            let root = Credentials::root();
            tokio::select! {
                answer = mdc.statfs(&root) => answer.map_err(|error| error.errno()),
                () = clock.sleep(ASK_TIMEOUT) => Err(Errno::ETIMEDOUT),
            }
        })
    });
}

/// Session with the MGS.
pub(super) fn add_mgc(tree: &mut Tree, view: &Arc<View>, import: &Arc<Import>) {
    let device = device(import);
    add_import(tree, view, &MGC_IMPORT, &device, import);
    series::stats(tree, view, &MGC_STATS, &[&device], import.source());
}

/// Declarations of one place where space is told.
#[derive(Clone, Copy)]
pub(super) struct SpaceParams {
    total: &'static Param,
    free: &'static Param,
    available: &'static Param,
    files: &'static Param,
    files_free: &'static Param,
}

impl SpaceParams {
    const LLITE: SpaceParams = SpaceParams {
        total: &LLITE_KBYTESTOTAL,
        free: &LLITE_KBYTESFREE,
        available: &LLITE_KBYTESAVAIL,
        files: &LLITE_FILESTOTAL,
        files_free: &LLITE_FILESFREE,
    };
    const OSC: SpaceParams = SpaceParams {
        total: &OSC_KBYTESTOTAL,
        free: &OSC_KBYTESFREE,
        available: &OSC_KBYTESAVAIL,
        files: &OSC_FILESTOTAL,
        files_free: &OSC_FILESFREE,
    };
    const MDC: SpaceParams = SpaceParams {
        total: &MDC_KBYTESTOTAL,
        free: &MDC_KBYTESFREE,
        available: &MDC_KBYTESAVAIL,
        files: &MDC_FILESTOTAL,
        files_free: &MDC_FILESFREE,
    };
    pub(super) const OBDFILTER: SpaceParams = SpaceParams {
        total: &OBDFILTER_KBYTESTOTAL,
        free: &OBDFILTER_KBYTESFREE,
        available: &OBDFILTER_KBYTESAVAIL,
        files: &OBDFILTER_FILESTOTAL,
        files_free: &OBDFILTER_FILESFREE,
    };
}

/// The five figures of a statfs.
pub(super) fn space(
    tree: &mut Tree,
    params: SpaceParams,
    devices: &[&str],
    ask: impl Fn() -> Later<Result<Statfs, Errno>> + Clone + Send + Sync + 'static,
) {
    type Pick = fn(&Statfs) -> u64;
    let figures: [(&'static Param, Pick); 5] = [
        (params.total, |s| s.bytes_total >> 10),
        (params.free, |s| s.bytes_free >> 10),
        (params.available, |s| s.bytes_available >> 10),
        (params.files, |s| s.files_total),
        (params.files_free, |s| s.files_free),
    ];
    for (param, pick) in figures {
        let ask = ask.clone();
        tree.asks(param, devices, move || {
            let answer = ask();
            Box::pin(async move { answer.await.map(|statfs| pick(&statfs).to_string()) })
        });
    }
}
