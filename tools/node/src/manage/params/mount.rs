//! Parameters of mounts: `llite`, `lmv`, `lov`, `mdc`, `osc`, `mgc`.

mod read_ahead;
mod sessions;

pub(super) use sessions::add_import;

use super::values::{mebibytes, number, switch};
use super::{flags, locks, series};
use crate::config::mount_options::MountOptions;
use crate::host::memory::memory_kib;
use crate::watch::view::View;
use client::StataheadFigures;
use client::caller::Caller;
use client::client::Client;
use client::counters::Way;
use client::inspect::DefaultLayout;
use data::cache::DataTarget;
use data::cache::grant::Shrink;
use observe::catalog::*;
use observe::histogram::HistogramSnapshot;
use observe::metric::{Metric, Unit};
use observe::param::Param;
use observe::registry::{Sample, Value};
use observe::rpc_text;
use observe::tree::{Later, Tree};
use rpc::import::{Import, ImportState};
use sessions::{SessionParams, add_session};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use stubs::mdc::Mdc;
use stubs::osc::Osc;
use types::attr::Statfs;
use types::credentials::Credentials;
use types::credentials::{ActsAs, Ids};
use types::errno::Errno;
use types::limits::{BULK_BYTES_MAX, LAYOUT_BYTES_MAX};
use types::target::{FsName, TargetIndex, TargetName};

/// A target that is asked for its space or pinged answers within this time, or not at all.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// Most that a mount may keep back of writes, MiB (Lustre's bound).
const DIRTY_MB_MAX: u64 = 2047;
/// Block size that statfs tells.
const BLOCK_BYTES: u64 = 4096;

pub(super) fn add(tree: &mut Tree, view: &Arc<View>) {
    for client in view.alive().clients() {
        let id = client.session().uuid().instance().to_string();
        llite(tree, view, &client, &format!("{}-{id}", client.session().fsname()));
        let source = client.lock_source();
        let device = source.strip_prefix("ldlm.namespaces.").unwrap_or(&source);
        series::stats(tree, view, &LDLM_STATS, &[device], &source);
        locks::add(tree, &client, device);
        targets(tree, view, &client, &id);
        for mdc in client.session().mdts() {
            add_mdc(tree, view, &client, &mdc);
        }
        for osc in client.session().osts() {
            add_osc(tree, view, &client, &osc);
        }
        add_mgc(tree, view, client.session().mgc().import());
    }
}

/// Name of the device in the tree: `osc.sheen-OST0000-osc-1` is `sheen-OST0000-osc-1`.
pub(super) fn device(import: &Import) -> String {
    import.source().split_once('.').map_or(import.source(), |(_, device)| device).to_owned()
}

/// Options with which a mount was made.
fn options_of(view: &View, client: &Arc<Client>) -> MountOptions {
    let mounts = view.alive().mounts();
    let at = mounts.iter().find(|(mounted, ..)| Arc::ptr_eq(mounted, client)).map(|(.., at)| at);
    let settings = view.settings().mounts.iter().find(|settings| Some(&settings.at) == at);
    settings.map_or_else(MountOptions::default, |settings| settings.options.clone())
}

fn llite(tree: &mut Tree, view: &Arc<View>, client: &Arc<Client>, name: &str) {
    let devices = [name];
    let (counted, clock, since) = (client.clone(), view.parts().env.clock.clone(), view.since());
    tree.shows(&LLITE_STATS, &devices, move || {
        let now = clock.wall();
        Ok(observe::text::stats(
            now,
            counted.counters().cleared().unwrap_or(since),
            &client_samples(&counted),
        ))
    });
    let (clearing, clock) = (client.clone(), view.parts().env.clock.clone());
    tree.takes(&LLITE_STATS, &devices, move |_| {
        clearing.counters().clear(clock.wall());
        Ok(())
    });
    let (counted, clock, since) = (client.clone(), view.parts().env.clock.clone(), view.since());
    tree.shows(&LLITE_EXTENTS_STATS, &devices, move || {
        let sizes = [Way::Read, Way::Write].map(|way| counted.counters().sizes(way));
        Ok(observe::text::extents(
            clock.wall(),
            counted.counters().cleared().unwrap_or(since),
            &sizes,
        ))
    });
    let (clearing, clock) = (client.clone(), view.parts().env.clock.clone());
    // Sizes are in both bodies, so both are cleared.
    tree.takes(&LLITE_EXTENTS_STATS, &devices, move |_| {
        clearing.counters().clear(clock.wall());
        Ok(())
    });
    caches(tree, view, client, &devices);
    let uuid = client.session().uuid();
    tree.shows(&LLITE_UUID, &devices, move || Ok(uuid.to_string()));
    tree.shows(&LLITE_FSTYPE, &devices, || Ok("lustre".to_owned()));
    let acting = client.clone();
    tree.shows(&LLITE_ROOT_SQUASH, &devices, move || Ok(idmap::ids::text(acts(&acting, 0))));
    let acting = client.clone();
    tree.shows(&LLITE_ALL_SQUASH, &devices, move || {
        Ok(idmap::ids::text(acting.callers().squash.others))
    });
    tree.shows(&LLITE_CLIENT_TYPE, &devices, || Ok("local client".to_owned()));
    tree.shows(&LLITE_BLOCKSIZE, &devices, || Ok(BLOCK_BYTES.to_string()));
    let counted = client.clone();
    tree.shows(&LLITE_NODES, &devices, move || Ok(counted.nodes().count().to_string()));
    let counted = client.clone();
    tree.shows(&LLITE_OPEN, &devices, move || Ok(counted.open_count().to_string()));
    let counted = client.clone();
    tree.shows(&LLITE_DIRTY, &devices, move || Ok(counted.writeback().bytes().to_string()));
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

/// What the mount and its kernel keep.
/// The ids as which a user acts; `None`: its own, or it is refused.
fn acts(client: &Client, uid: u32) -> Option<Ids> {
    match client.acts_as(uid) {
        ActsAs::Ids(ids) => Some(ids),
        ActsAs::Itself | ActsAs::Nobody => None,
    }
}

fn caches(tree: &mut Tree, view: &Arc<View>, client: &Arc<Client>, devices: &[&str; 1]) {
    let (shown, rpc, options) =
        (client.clone(), view.parts().rpc.clone(), options_of(view, client));
    tree.shows(&LLITE_SBI_FLAGS, devices, move || {
        Ok(flags::of_mount(&options, rpc.checksums(), shown.lock_namespace().keeps_xattrs())
            .join(" "))
    });
    read_ahead::add(tree, view, client, devices);
    statahead(tree, client, devices);
    tree.shows(&LLITE_MAX_CACHED_MB, devices, || {
        Ok(format!("max_cached_mb: {}\n", memory_kib()? >> 10))
    });
    tree.shows(&LLITE_HYBRID_IO, devices, || Ok("0".to_owned()));
    for param in [&LLITE_DEFAULT_EASIZE, &LLITE_MAX_EASIZE] {
        tree.shows(param, devices, || Ok(LAYOUT_BYTES_MAX.to_string()));
    }
    let (shown, set) = (client.clone(), client.clone());
    tree.shows(&LLITE_XATTR_CACHE, devices, move || {
        Ok(u8::from(shown.lock_namespace().keeps_xattrs()).to_string())
    });
    tree.does(&LLITE_XATTR_CACHE, devices, move |value| {
        let client = set.clone();
        Box::pin(async move {
            client.lock_namespace().keep_xattrs(switch(&value)?).await;
            Ok(())
        })
    });
    let (shown, set) = (client.clone(), client.clone());
    tree.shows(&LLITE_OPENCACHE_THRESHOLD_COUNT, devices, move || {
        Ok(u8::from(shown.lock_namespace().keeps_opens()).to_string())
    });
    tree.does(&LLITE_OPENCACHE_THRESHOLD_COUNT, devices, move |value| {
        let client = set.clone();
        Box::pin(async move { client.lock_namespace().keep_opens(switch(&value)?).await })
    });
}

/// What is fetched ahead of a program that looks at the entries of a directory.
fn statahead(tree: &mut Tree, client: &Arc<Client>, devices: &[&str; 1]) {
    let (shown, set) = (client.clone(), client.clone());
    tree.shows(&LLITE_STATAHEAD_MAX, devices, move || Ok(shown.statahead_max().to_string()));
    tree.takes(&LLITE_STATAHEAD_MAX, devices, move |value| {
        let max: usize = number(value)?;
        if max > Client::STATAHEAD_MAX {
            return Err(Errno::ERANGE);
        }
        set.set_statahead_max(max);
        Ok(())
    });
    tree.shows(&LLITE_STATAHEAD_AGL, devices, || Ok("1".to_owned()));
    let (shown, cleared) = (client.clone(), client.clone());
    tree.shows(&LLITE_STATAHEAD_STATS, devices, move || {
        let StataheadFigures { total, wrong, lists, hits, misses } = shown.statahead_figures();
        Ok(format!(
            "statahead total: {total}\nstatahead wrong: {wrong}\nagl total: 0\nlist_total: {lists}\n\
             fname_total: 0\nhit_total: {hits}\nmiss_total: {misses}\n"
        ))
    });
    tree.takes(&LLITE_STATAHEAD_STATS, devices, move |_| {
        cleared.clear_statahead_figures();
        Ok(())
    });
}

const OPERATION: &str = "Time from the question of a program to the answer of the mount.";
const HIT: &str = "Those that locks covered, without a request.";
const BYTES: &str = "Bytes that one request of the kernel moved.";

/// The client's own counts in the registry's form.
fn client_samples(client: &Client) -> Vec<Sample> {
    let source: Arc<str> =
        format!("llite.{}-{}", client.session().fsname(), client.session().uuid().instance())
            .into();
    let sample = |name, unit, help, histogram: HistogramSnapshot| Sample {
        metric: Metric { name, unit, help },
        source: source.clone(),
        value: Value::Histogram(Box::new(histogram)),
    };
    let sizes = [("read_bytes", Way::Read), ("write_bytes", Way::Write)];
    let sizes =
        sizes.map(|(name, way)| sample(name, Unit::Bytes, BYTES, client.counters().sizes(way)));
    let mut times = client.counters().times();
    times.sort_unstable_by_key(|(name, _)| *name);
    let help = |name: &str| if name.ends_with("_hit") { HIT } else { OPERATION };
    let times =
        times.into_iter().map(|(name, times)| sample(name, Unit::Microseconds, help(name), times));
    sizes.into_iter().chain(times).collect()
}

/// Counts of all mounts.
pub(super) fn samples(view: &View) -> Vec<Sample> {
    view.alive().clients().iter().flat_map(|client| client_samples(client)).collect()
}

fn targets(tree: &mut Tree, view: &Arc<View>, client: &Arc<Client>, id: &str) {
    let clock = view.parts().env.clock.clone();
    let targets = |mdts: bool| {
        let client = client.clone();
        move || -> Vec<(TargetName, bool)> {
            let of = |import: &Import| (import.target(), is_active(import));
            match mdts {
                true => client.session().mdts().iter().map(|mdc| of(mdc.import())).collect(),
                false => {
                    let in_use = |osc: &Osc, (name, active)| (name, active && osc.is_active());
                    client
                        .session()
                        .osts()
                        .iter()
                        .map(|osc| in_use(osc, of(osc.import())))
                        .collect()
                }
            }
        }
    };
    let (lmv, lov) = (
        format!("{}-clilmv-{id}", client.session().fsname()),
        format!("{}-clilov-{id}", client.session().fsname()),
    );
    target_params(tree, [&LMV_NUMOBD, &LMV_ACTIVEOBD, &LMV_TARGET_OBD], &lmv, targets(true));
    for pool in client.session().targets.pools() {
        let fsname = client.session().fsname();
        let text = pool_text(fsname, pool.osts.iter().copied());
        tree.shows(&LOV_POOLS, &[&lov, &pool.name], move || Ok(text.clone()));
    }
    target_params(tree, [&LOV_NUMOBD, &LOV_ACTIVEOBD, &LOV_TARGET_OBD], &lov, targets(false));
    type Pick = fn(&DefaultLayout) -> String;
    let figures: [(&'static Param, Pick); 3] = [
        (&LOV_STRIPECOUNT, |layout| or_minus_one(layout.stripe_count)),
        (&LOV_STRIPESIZE, |layout| layout.stripe_size.to_string()),
        (&LOV_STRIPEOFFSET, |layout| or_minus_one(layout.first.map(|ost| ost.0))),
    ];
    for (param, pick) in figures {
        let (asked, clock) = (client.clone(), clock.clone());
        tree.asks(param, &[&lov], move || {
            let (client, clock) = (asked.clone(), clock.clone());
            Box::pin(async move {
                tokio::select! {
                    answer = client.default_layout() => Ok(pick(&answer.map_err(|error| error.errno())?)),
                    () = clock.sleep(ASK_TIMEOUT) => Err(Errno::ETIMEDOUT),
                }
            })
        });
    }
}

fn or_minus_one(value: Option<u16>) -> String {
    value.map_or_else(|| "-1".to_owned(), |value| value.to_string())
}

/// OSTs of a pool, a line each.
pub(super) fn pool_text(fsname: FsName, osts: impl Iterator<Item = u16>) -> String {
    osts.map(|ost| format!("{}_UUID\n", TargetName::ost(fsname, ost))).collect()
}

fn is_active(import: &Import) -> bool {
    // A session that was not needed yet does not exist, but nothing is wrong with it.
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
    tree.shows(active, &[device], move || {
        Ok(all().iter().filter(|(_, active)| *active).count().to_string())
    });
    tree.shows(list, &[device], move || {
        let mut text = String::new();
        for (name, active) in targets() {
            let word = if active { "ACTIVE" } else { "INACTIVE" };
            writeln!(text, "{}: {name}_UUID {word}", name.index.0).expect("a string takes all");
        }
        Ok(text)
    });
}

fn add_osc(tree: &mut Tree, view: &Arc<View>, client: &Arc<Client>, osc: &Osc) {
    let params = SessionParams {
        stats: &OSC_STATS,
        import: [&OSC_IMPORT, &OSC_SRPC_INFO, &OSC_SRPC_CONTEXTS],
        state: &OSC_STATE,
        timeouts: &OSC_TIMEOUTS,
        server_uuid: &OSC_OST_SERVER_UUID,
        conn_uuid: &OSC_OST_CONN_UUID,
        window: &OSC_WINDOW,
        in_flight: &OSC_IN_FLIGHT,
        ping: &OSC_PING,
        connect_flags: &OSC_CONNECT_FLAGS,
        windows: &[&OSC_MAX_RPCS_IN_FLIGHT],
        checksums: &OSC_CHECKSUMS,
        checksum_type: &OSC_CHECKSUM_TYPE,
    };
    let import = osc.import();
    add_session(tree, view, client, &params, import);
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
    let (granted, ost) = (client.clone(), import.target().index);
    tree.shows(&OSC_GRANT, &[&device], move || {
        Ok(granted.writeback().grants.free(DataTarget::Ost(ost)).to_string())
    });
    data_bounds(tree, client, &device, ost);
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

/// Bounds of the data that goes to an OST.
fn data_bounds(tree: &mut Tree, client: &Arc<Client>, device: &str, ost: TargetIndex) {
    let (devices, target) = ([device], DataTarget::Ost(ost));
    tree.shows(&OSC_MAX_PAGES_PER_RPC, &devices, || {
        Ok((BULK_BYTES_MAX as u64 / BLOCK_BYTES).to_string())
    });
    tree.shows(&OSC_SHORT_IO_BYTES, &devices, || Ok(BULK_BYTES_MAX.to_string()));
    let (shown, set) = (client.clone(), client.clone());
    tree.shows(&OSC_MAX_DIRTY_MB, &devices, move || {
        Ok((shown.writeback().dirty_max() >> 20).to_string())
    });
    tree.takes(&OSC_MAX_DIRTY_MB, &devices, move |value| {
        match mebibytes(value, DIRTY_MB_MAX)? >> 10 {
            0 => Err(Errno::ERANGE),
            mb => {
                set.writeback().set_dirty_max(mb << 20);
                Ok(())
            }
        }
    });
    tree.explains(&OSC_CUR_DIRTY_BYTES, &devices);
    let (shown, set) = (client.clone(), client.clone());
    tree.shows(&OSC_GRANT_SHRINK, &devices, move || {
        Ok(u8::from(shown.writeback().grants.shrink(target).on).to_string())
    });
    tree.takes(&OSC_GRANT_SHRINK, &devices, move |value| {
        set.writeback().grants.set_shrink(
            target,
            Shrink { on: switch(value)?, ..set.writeback().grants.shrink(target) },
        );
        Ok(())
    });
    let (shown, set) = (client.clone(), client.clone());
    tree.shows(&OSC_GRANT_SHRINK_INTERVAL, &devices, move || {
        Ok(shown.writeback().grants.shrink(target).after.as_secs().to_string())
    });
    tree.takes(&OSC_GRANT_SHRINK_INTERVAL, &devices, move |value| match number::<u64>(value)? {
        seconds @ 1..=65_535 => {
            let after = Duration::from_secs(seconds);
            set.writeback()
                .grants
                .set_shrink(target, Shrink { after, ..set.writeback().grants.shrink(target) });
            Ok(())
        }
        _ => Err(Errno::ERANGE),
    });
    tree.explains(&OSC_RESEND_COUNT, &devices);
    tree.shows(&OSC_IDLE_TIMEOUT, &devices, || Ok("0".to_owned()));
}

fn add_mdc(tree: &mut Tree, view: &Arc<View>, client: &Arc<Client>, mdc: &Mdc) {
    let params = SessionParams {
        stats: &MDC_STATS,
        import: [&MDC_IMPORT, &MDC_SRPC_INFO, &MDC_SRPC_CONTEXTS],
        state: &MDC_STATE,
        timeouts: &MDC_TIMEOUTS,
        server_uuid: &MDC_MDS_SERVER_UUID,
        conn_uuid: &MDC_MDS_CONN_UUID,
        window: &MDC_WINDOW,
        in_flight: &MDC_IN_FLIGHT,
        ping: &MDC_PING,
        connect_flags: &MDC_CONNECT_FLAGS,
        windows: &[&MDC_MAX_RPCS_IN_FLIGHT, &MDC_MAX_MOD_RPCS_IN_FLIGHT],
        checksums: &MDC_CHECKSUMS,
        checksum_type: &MDC_CHECKSUM_TYPE,
    };
    let import = mdc.import();
    add_session(tree, view, client, &params, import);
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
    add_import(
        tree,
        view,
        [&MGC_IMPORT, &MGC_SRPC_INFO, &MGC_SRPC_CONTEXTS],
        &device,
        import,
        false,
    );
    series::stats(tree, view, &MGC_STATS, &[&device], import.source());
}

/// Declarations for one device that shows space.
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
