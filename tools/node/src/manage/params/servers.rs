//! Parameters of served targets: `mdt`, `lod`, `osp`, `obdfilter`, `osd-lmdb`.

use super::mount::{SpaceParams, add_import, pool_text, space};
use super::values::{bytes, number};
use super::{series, session};
use crate::watch::view::View;
use lnet::traffic;
use mds::mds::Mds;
use mds::recovery::window::Phase;
use observe::catalog::*;
use observe::param::Param;
use observe::rpc_text;
use observe::tree::Tree;
use rpc::import::Import;
use rpc::service::Export;
use rpc::stats::source_of_target;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use target::Target;
use types::errno::Errno;
use types::job::JobId;
use types::nid::{Nid, NidPattern};
use types::session::ClientUuid;
use types::target::{TargetIndex, TargetName};

/// Longest `job_cleanup_interval`, seconds: a year.
const JOB_CLEANUP_SECONDS_MAX: u64 = 366 * 86_400;

pub(super) fn add(tree: &mut Tree, view: &Arc<View>) {
    for (mdt, target) in view.alive().mdts() {
        let name = mdt.name();
        add_mdt(tree, view, &mdt, name);
        add_store(tree, view, name, &target);
        for (ost, _) in mdt.osts() {
            add_osp(tree, view, &mdt, ost);
        }
        for peer in mdt.peers().list() {
            add_peer(tree, view, &mdt, peer);
        }
    }
    for (ost, target) in view.alive().osts() {
        let Some(name) = target.name() else { continue };
        let device = name.to_string();
        let source = source_of_target(name);
        tree.shows(&OBDFILTER_UUID, &[&device], move || Ok(format!("{name}_UUID")));
        series::stats(tree, view, &OBDFILTER_STATS, &[&device], &source);
        series::tables(tree, view, &OBDFILTER_BRW_STATS, &[&device], &source, |samples| {
            rpc_text::data(samples, [0, 0])
        });
        add_exports(tree, view, name, &[&device], &OBDFILTER_NUM_EXPORTS, &OBDFILTER_EXPORT_UUID);
        add_evict(tree, view, name, &OBDFILTER_EVICT_CLIENT);
        add_active(tree, view, name, &OBDFILTER_ACTIVE);
        let shown = ost.clone();
        tree.shows(&OBDFILTER_CHECKSUM_AT_REST, &[&device], move || {
            Ok(u8::from(shown.checksum_at_rest()).to_string())
        });
        let set = ost.clone();
        tree.takes(&OBDFILTER_CHECKSUM_AT_REST, &[&device], move |value| match value.trim() {
            "0" => {
                set.set_checksum_at_rest(false);
                Ok(())
            }
            "1" => {
                set.set_checksum_at_rest(true);
                Ok(())
            }
            _ => Err(Errno::EINVAL),
        });
        let read = ost.clone();
        tree.shows(&OBDFILTER_BAD_BLOCKS, &[&device], move || Ok(read.bad_blocks().to_string()));
        let of = ost.clone();
        tree.shows(&OBDFILTER_BACKFSTYPE, &[&device], move || Ok(of.back_end().word().to_owned()));
        let granted = ost.clone();
        tree.shows(&OBDFILTER_TOT_GRANTED, &[&device], move || Ok(granted.granted().to_string()));
        add_jobs(tree, view, name, &OBDFILTER_JOB_STATS, &OBDFILTER_JOB_CLEANUP_INTERVAL);
        space(tree, SpaceParams::OBDFILTER, &[&device], move || {
            Box::pin(std::future::ready(ost.statfs()))
        });
        add_store(tree, view, name, &target);
    }
}

/// Most directories and operations that one parameter shows.
const MOVES_MAX: usize = 100;

/// One on each line.
fn lines(all: Vec<impl std::fmt::Display>) -> String {
    all.iter().map(|one| one.to_string()).collect::<Vec<_>>().join("\n")
}

/// When directories are split by themselves, and what moves.
fn add_splits(tree: &mut Tree, mdt: &Arc<Mds>, device: &str) {
    let device = [device];
    let shown = mdt.clone();
    tree.shows(&MDT_AUTO_SPLIT, &device, move || Ok(u8::from(shown.auto_split()).to_string()));
    let set = mdt.clone();
    tree.takes(&MDT_AUTO_SPLIT, &device, move |value| match value.trim() {
        on @ ("0" | "1") => {
            set.set_auto_split(on == "1");
            Ok(())
        }
        _ => Err(Errno::EINVAL),
    });
    let shown = mdt.clone();
    tree.shows(&MDT_SPLIT_COUNT, &device, move || Ok(shown.split_count().to_string()));
    let set = mdt.clone();
    tree.takes(&MDT_SPLIT_COUNT, &device, move |value| set.set_split_count(number(value)?));
    let shown = mdt.clone();
    tree.shows(&MDT_SPLIT_DELTA, &device, move || Ok(shown.split_delta().to_string()));
    let set = mdt.clone();
    tree.takes(&MDT_SPLIT_DELTA, &device, move |value| set.set_split_delta(number(value)?));
    let shown = mdt.clone();
    tree.shows(&MDT_MERGE_IDLE, &device, move || Ok(shown.merge_idle().to_string()));
    let set = mdt.clone();
    tree.takes(&MDT_MERGE_IDLE, &device, move |value| {
        set.set_merge_idle(number(value)?);
        Ok(())
    });
    let shown = mdt.clone();
    tree.shows(&MDT_TICKET_LIFE, &device, move || Ok(shown.ticket_life().to_string()));
    let set = mdt.clone();
    tree.takes(&MDT_TICKET_LIFE, &device, move |value| set.set_ticket_life(number(value)?));
    tree.shows(&MDT_RESTRIPE_NSONLY, &device, || Ok("1".to_owned()));
    tree.takes(&MDT_RESTRIPE_NSONLY, &device, |value| match value.trim() {
        "1" => Ok(()),
        _ => Err(Errno::EINVAL),
    });
    let shown = mdt.clone();
    tree.shows(&MDT_RESTRIPING, &device, move || Ok(shown.restriping().to_string()));
    let shown = mdt.clone();
    tree.shows(&MDT_DIR_MOVES, &device, move || Ok(lines(shown.dir_moves(MOVES_MAX))));
    let shown = mdt.clone();
    tree.shows(&MDT_BUNDLES_WAITING, &device, move || Ok(lines(shown.bundle_waits(MOVES_MAX))));
    let shown = mdt.clone();
    tree.shows(&MDT_NO_CREATE, &device, move || Ok(u8::from(shown.no_create()).to_string()));
    let set = mdt.clone();
    tree.takes(&MDT_NO_CREATE, &device, move |value| match value.trim() {
        on @ ("0" | "1") => {
            set.set_no_create(on == "1");
            Ok(())
        }
        _ => Err(Errno::EINVAL),
    });
    let shown = mdt.clone();
    tree.shows(&MDT_NAMES_MOVED, &device, move || Ok(shown.names_moved().to_string()));
}

fn add_mdt(tree: &mut Tree, view: &Arc<View>, mdt: &Arc<Mds>, name: TargetName) {
    let device = name.to_string();
    tree.shows(&MDT_UUID, &[&device], move || Ok(format!("{name}_UUID")));
    series::stats(tree, view, &MDT_MD_STATS, &[&device], &source_of_target(name));
    add_exports(tree, view, name, &[&device], &MDT_NUM_EXPORTS, &MDT_EXPORT_UUID);
    let namespace = format!("mdt-{name}");
    series::stats(tree, view, &LDLM_STATS, &[&namespace], &format!("ldlm.namespaces.{namespace}"));
    let counted = mdt.clone();
    tree.shows(&LDLM_LOCK_COUNT, &[&namespace], move || Ok(counted.lock_counts().0.to_string()));
    let counted = mdt.clone();
    tree.shows(&LDLM_LOCK_WAITS, &[&namespace], move || Ok(counted.lock_counts().1.to_string()));
    let counted = mdt.clone();
    tree.shows(&MDT_OPEN, &[&device], move || Ok(counted.open_count().to_string()));
    add_evict(tree, view, name, &MDT_EVICT_CLIENT);
    add_active(tree, view, name, &MDT_ACTIVE);
    add_jobs(tree, view, name, &MDT_JOB_STATS, &MDT_JOB_CLEANUP_INTERVAL);
    add_squash(tree, mdt);
    if let Some(audit) = view.parts().audit.clone() {
        tree.shows(&MDT_AUDIT, &[&device], move || Ok(audit.newest(&name.to_string())));
    }
    let shown = mdt.clone();
    tree.shows(&MDT_REALMS, &[&device], move || Ok(shown.realms()));
    let shown = mdt.clone();
    tree.shows(&MDT_RECOVERY_STATUS, &[&device], move || {
        let report = shown.recovery();
        // Lustre's words.
        let clients = format!("{}/{}", report.connected, report.clients);
        let mdts: String = report.mdts.iter().map(|mdt| format!(" {mdt:?}")).collect();
        Ok(match report.phase {
            // The clients have come.
            Phase::Gathering | Phase::Applying if !mdts.is_empty() => {
                format!("status: WAITING\nnon-ready MDTs:{mdts}\nconnected_clients: {clients}\n")
            }
            Phase::Open if report.clients == 0 => "status: INACTIVE\n".to_owned(),
            Phase::Open => format!("status: COMPLETE\ncompleted_clients: {clients}\n"),
            Phase::Gathering | Phase::Applying | Phase::Restoring => {
                let left = report.left.as_secs();
                format!(
                    "status: RECOVERING\ntime_remaining: {left}\nconnected_clients: {clients}\n"
                )
            }
        })
    });
    let told = mdt.clone();
    tree.takes(&MDT_ABORT_RECOVERY, &[&device], move |value| match value.trim() {
        "1" => {
            told.abort_recovery();
            Ok(())
        }
        _ => Err(Errno::EINVAL),
    });
    let told = mdt.clone();
    tree.takes(&MDT_ABORT_RECOVERY_MDT, &[&device], move |value| match value.trim() {
        "1" => {
            told.abort_recovery_mdt();
            Ok(())
        }
        _ => Err(Errno::EINVAL),
    });

    add_splits(tree, mdt, &device);

    let lod = format!("{name}-mdtlov");
    let lod = [lod.as_str()];
    let shown = mdt.clone();
    tree.shows(&LOD_STRIPECOUNT, &lod, move || Ok(shown.stripe_count().to_string()));
    let set = mdt.clone();
    tree.takes(&LOD_STRIPECOUNT, &lod, move |value| set.set_stripe_count(number(value)?));
    let shown = mdt.clone();
    tree.shows(&LOD_STRIPESIZE, &lod, move || Ok(shown.stripe_size().to_string()));
    let set = mdt.clone();
    tree.takes(&LOD_STRIPESIZE, &lod, move |value| set.set_stripe_size(bytes(value)?));
    let shown = mdt.clone();
    tree.shows(&LOD_DOM_DEFAULT, &lod, move || Ok(shown.default_dom_bytes().to_string()));
    let set = mdt.clone();
    tree.takes(&LOD_DOM_DEFAULT, &lod, move |value| set.set_default_dom_bytes(bytes(value)?));
    add_dom(tree, mdt, lod);
    for (pool, osts) in mdt.pools().iter() {
        let text = pool_text(name.fsname, osts.iter().map(|ost| ost.0));
        tree.shows(&LOD_POOLS, &[lod[0], pool], move || Ok(text.clone()));
    }
    let shown = mdt.clone();
    tree.shows(&LOD_NUMOBD, &lod, move || Ok(shown.osts().len().to_string()));
    let shown = mdt.clone();
    tree.shows(&LOD_ACTIVEOBD, &lod, move || {
        Ok(shown.osts().iter().filter(|(_, active)| *active).count().to_string())
    });
    let shown = mdt.clone();
    tree.shows(&LOD_TARGET_OBD, &lod, move || {
        let mut text = String::new();
        for (index, active) in shown.osts() {
            let (ost, word) =
                (TargetName::ost(name.fsname, index.0), if active { "ACTIVE" } else { "INACTIVE" });
            writeln!(text, "{}: {ost}_UUID {word}", index.0).expect("a string takes all");
        }
        Ok(text)
    });
}

/// The ids as which callers act. What is kept of them holds before the MDT is in service.
pub(crate) fn add_squash(tree: &mut Tree, mdt: &Arc<Mds>) {
    let device = mdt.name().to_string();
    let shown = mdt.clone();
    tree.shows(&MDT_ROOT_SQUASH, &[&device], move || Ok(shown.root_squash()));
    let set = mdt.clone();
    tree.takes(&MDT_ROOT_SQUASH, &[&device], move |value| set.set_root_squash(value));
    let shown = mdt.clone();
    tree.shows(&MDT_ALL_SQUASH, &[&device], move || Ok(shown.all_squash()));
    let set = mdt.clone();
    tree.takes(&MDT_ALL_SQUASH, &[&device], move |value| set.set_all_squash(value));
    let shown = mdt.clone();
    tree.shows(&MDT_NOSQUASH_NIDS, &[&device], move || Ok(shown.nosquash_nids()));
    let set = mdt.clone();
    tree.takes(&MDT_NOSQUASH_NIDS, &[&device], move |value| set.set_nosquash_nids(value));
}

/// The size of the part of a file that may live on the MDT.
fn add_dom(tree: &mut Tree, mdt: &Arc<Mds>, lod: [&str; 1]) {
    let shown = mdt.clone();
    tree.shows(&LOD_DOM_STRIPESIZE, &lod, move || Ok(shown.dom_bytes().0.to_string()));
    let set = mdt.clone();
    tree.takes(&LOD_DOM_STRIPESIZE, &lod, move |value| set.set_dom_bytes(bytes(value)?));
    let shown = mdt.clone();
    tree.shows(&LOD_DOM_STRIPESIZE_MAX_KB, &lod, move || {
        Ok((shown.dom_bytes().0 >> 10).to_string())
    });
    let set = mdt.clone();
    tree.takes(&LOD_DOM_STRIPESIZE_MAX_KB, &lod, move |value| {
        set.set_dom_bytes(
            number::<u64>(value.trim())?.checked_mul(1 << 10).ok_or(Errno(libc::ERANGE))?,
        )
    });
    let shown = mdt.clone();
    tree.shows(&LOD_DOM_STRIPESIZE_CUR_KB, &lod, move || {
        Ok((shown.dom_bytes().1 >> 10).to_string())
    });
    let shown = mdt.clone();
    tree.shows(&LOD_DOM_THRESHOLD, &lod, move || Ok(shown.dom_threshold()?.to_string()));
    let set = mdt.clone();
    tree.takes(&LOD_DOM_THRESHOLD, &lod, move |value| set.set_dom_threshold(number(value.trim())?));
}

fn add_osp(tree: &mut Tree, view: &Arc<View>, mdt: &Arc<Mds>, index: TargetIndex) {
    let name = mdt.name();
    let ost = TargetName::ost(name.fsname, index.0);
    let device = format!("{ost}-osc-MDT{:04x}", name.index.0);
    let shown = mdt.clone();
    tree.shows(&OSP_ACTIVE, &[&device], move || Ok(u8::from(shown.ost_active(index)).to_string()));
    let set = mdt.clone();
    tree.takes(&OSP_ACTIVE, &[&device], move |value| match value.trim() {
        "0" => set.set_ost_active(index, false),
        "1" => set.set_ost_active(index, true),
        _ => Err(Errno::EINVAL),
    });
    for param in [&OSP_CREATE_COUNT, &OSP_MAX_CREATE_COUNT] {
        tree.shows(param, &[&device], || Ok("0".to_owned()));
    }
    let counted = mdt.clone();
    tree.shows(&OSP_DESTROYS_IN_FLIGHT, &[&device], move || {
        Ok(counted.destroys_waiting(index)?.to_string())
    });
    let Some(import) = view.parts().known_session(ost) else { return };
    add_session(tree, view, &device, &import);
}

/// What an MDT asks of another one.
fn add_peer(tree: &mut Tree, view: &Arc<View>, mdt: &Arc<Mds>, index: TargetIndex) {
    let (name, Some(peer)) = (mdt.name(), mdt.peers().get(index)) else { return };
    let device = format!("{}-osp-MDT{:04x}", TargetName::mdt(name.fsname, index.0), name.index.0);
    add_session(tree, view, &device, peer.import());
}

/// A session of this node's servers with a target.
fn add_session(tree: &mut Tree, view: &Arc<View>, device: &str, import: &Arc<Import>) {
    series::stats(tree, view, &OSP_STATS, &[device], import.source());
    add_import(
        tree,
        view,
        [&OSP_IMPORT, &OSP_SRPC_INFO, &OSP_SRPC_CONTEXTS],
        device,
        import,
        false,
    );
    let shown = import.clone();
    tree.shows(&OSP_MAX_RPCS_IN_FLIGHT, &[device], move || {
        Ok(shown.report().window.unwrap_or(0).to_string())
    });
    let import = import.clone();
    tree.shows(&OSP_STATE, &[device], move || {
        Ok(format!("current_state: {}\n", session::state_word(import.state())))
    });
}

/// Sessions: their number, and the clients with their NIDs.
pub(super) fn add_exports(
    tree: &mut Tree,
    view: &Arc<View>,
    target: TargetName,
    devices: &[&str],
    count: &'static Param,
    uuid: &'static Param,
) {
    let counted = view.parts().rpc.clone();
    tree.shows(count, devices, move || Ok(counted.exports(target).len().to_string()));
    let mut by_nid: BTreeMap<Nid, Vec<Arc<Export>>> = BTreeMap::new();
    for export in view.parts().rpc.exports(target) {
        // Ports of nodes that connect mean nothing.
        by_nid.entry(traffic::address(export.nid())).or_default().push(export);
    }
    for (nid, exports) in by_nid {
        let nid = nid.to_string();
        let devices: Vec<&str> = devices.iter().copied().chain([nid.as_str()]).collect();
        tree.shows(uuid, &devices, move || {
            Ok(exports.iter().map(|export| format!("{}\n", export.client())).collect())
        });
    }
}

/// `evict_client`: by UUID, or all of a NID.
fn add_evict(tree: &mut Tree, view: &Arc<View>, target: TargetName, param: &'static Param) {
    let rpc = view.parts().rpc.clone();
    tree.takes(param, &[&target.to_string()], move |value| {
        let value = value.trim();
        let wanted: Box<dyn Fn(&Export) -> bool> = match value.strip_prefix("nid:") {
            Some(nid) => {
                let nid: NidPattern = nid.parse().map_err(|_| Errno::EINVAL)?;
                Box::new(move |export| nid.matches(export.nid()))
            }
            None => {
                let digits: String = value.chars().filter(|c| *c != '-').collect();
                let uuid = u128::from_str_radix(&digits, 16).map_err(|_| Errno::EINVAL)?;
                Box::new(move |export| export.client() == ClientUuid(uuid))
            }
        };
        let victims = rpc.exports(target).into_iter().filter(|export| wanted(export));
        let evicted = victims.filter(|export| rpc.evict(target, export.client())).count();
        if evicted == 0 { Err(Errno::ENOENT) } else { Ok(()) }
    });
}

/// Requests at work.
fn add_active(tree: &mut Tree, view: &Arc<View>, target: TargetName, param: &'static Param) {
    let rpc = view.parts().rpc.clone();
    tree.shows(param, &[&target.to_string()], move || Ok(rpc.serving(target).to_string()));
}

/// Counts of jobs, and the time after which idle ones are forgotten.
fn add_jobs(
    tree: &mut Tree,
    view: &Arc<View>,
    target: TargetName,
    stats: &'static Param,
    interval: &'static Param,
) {
    let Some(jobs) = view.parts().rpc.jobs(target) else { return };
    let devices = [&*target.to_string()];
    let (shown, clock) = (jobs.clone(), view.parts().env.clock.clone());
    tree.shows(stats, &devices, move || Ok(shown.text(clock.now(), clock.wall())));
    let cleared = jobs.clone();
    tree.takes(stats, &devices, move |value| match value.trim() {
        "clear" => {
            cleared.clear();
            Ok(())
        }
        job if cleared.forget(JobId::new(job.as_bytes())) => Ok(()),
        _ => Err(Errno::ENOENT),
    });
    let shown = jobs.clone();
    tree.shows(interval, &devices, move || Ok(shown.cleanup_seconds().to_string()));
    tree.takes(interval, &devices, move |value| {
        let seconds: u64 = number(value)?;
        if seconds > JOB_CLEANUP_SECONDS_MAX {
            return Err(Errno(libc::ERANGE));
        }
        jobs.set_cleanup_seconds(seconds);
        Ok(())
    });
}

fn add_store(tree: &mut Tree, view: &Arc<View>, name: TargetName, target: &Arc<Target>) {
    let device = name.to_string();
    let devices = [device.as_str()];
    series::stats(tree, view, &OSD_STATS, &devices, &crate::manage::alive::store_source(name));
    let store = target.store().clone();
    let free = |space: store::engine::EngineSpace| space.capacity.saturating_sub(space.used);
    tree.shows(&OSD_KBYTESTOTAL, &devices, move || Ok((store.space()?.capacity >> 10).to_string()));
    let store = target.store().clone();
    tree.shows(&OSD_KBYTESFREE, &devices, move || Ok((free(store.space()?) >> 10).to_string()));
    let store = target.store().clone();
    tree.shows(&OSD_UNCOMMITTED, &devices, move || Ok(store.bytes_uncommitted().to_string()));
    let store = target.store().clone();
    tree.shows(&OSD_NOTRANSNO, &devices, move || Ok(u8::from(store.is_discarding()).to_string()));
    let store = target.store().clone();
    tree.takes(&OSD_NOTRANSNO, &devices, move |value| match value.trim() {
        "1" => {
            store.discard_from_now_on();
            Ok(())
        }
        _ => Err(Errno::EINVAL),
    });
    let store = target.store().clone();
    tree.shows(&OSD_LAST_COMMITTED, &devices, move || Ok(store.last_committed().0.to_string()));
}
