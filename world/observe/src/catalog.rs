//! All parameters that SheenFS has, under Lustre's names. `docs/parameters.md` is made from this table.
//!
//! Only what acts or tells is here. What a path's first level means: `llite` a mount; `lmv`, `lov` its sets of targets;
//! `mdc`, `osc` its sessions with them; `osp` a server's sessions; `mdt`, `lod` an MDT; `obdfilter` an OST; `osd-lmdb` the
//! store of either; `mgs` the MGS. A level that names a device is `*`.

use crate::param::Param;

macro_rules! catalog {
    ($($name:ident = $param:expr;)*) => {
        $(#[doc = concat!("`", stringify!($name), "`, see its help.")] pub const $name: Param = $param;)*

        /// Every parameter.
        pub const ALL: &[Param] = &[$($name),*];
    };
}

const SPACE_HELP: &str = "KiB in all, as statfs tells.";
const FREE_HELP: &str = "KiB free.";
const AVAILABLE_HELP: &str = "KiB that users without privilege can still fill.";
const FILES_HELP: &str = "Inodes (of an OST: objects) that could exist.";
const FILES_FREE_HELP: &str = "Inodes (of an OST: objects) that can still be made.";

const fn space(path: &'static str, help: &'static str) -> Param {
    Param::gauge(path, "KiB", help)
}

const fn files(path: &'static str, help: &'static str) -> Param {
    Param::gauge(path, "inodes", help)
}

const fn jobs(path: &'static str, help: &'static str) -> Param {
    Param { range: "clear, or a job: forgets all, or that one", ..Param::counts(path, help) }
}

const fn cleanup(path: &'static str) -> Param {
    Param::setting(path, "s", "600", "0 to 31622400; 0: never", "A job that did nothing for so long is forgotten.")
}

/// Asked over the network, so not part of every scrape: the servers' own gauges say the same.
const fn asked(param: Param) -> Param {
    Param { gauge: false, ..param }
}

catalog! {
    VERSION = Param::shown("version", "", "Version of the program that runs.");
    HEALTH_CHECK = Param::shown("health_check", "", "`healthy`, or `NOT HEALTHY` and the local targets whose store has failed.");
    TIMEOUT = Param::shown("timeout", "s", "A request that is not answered for so long fails.");
    PING_INTERVAL = Param::shown("ping_interval", "s", "An idle session is pinged this often.");
    NIS = Param::shown("nis", "", "Local NIDs and their state.");
    MEMUSED = Param::gauge("memused", "bytes", "Resident memory of the process.");
    JOBID_VAR = Param::setting("jobid_var", "", "disable", "disable, procname_uid, nodelocal, or the name of an environment variable", "How mounts of this process name the job of a request, for `job_stats`. `nodelocal`: by `jobid_name`. A variable: what the program has there, or `jobid_name` if that has a %j or the program has no such variable.");
    JOBID_NAME = Param::setting("jobid_name", "", "%e.%u", "text with %e program, %u user, %g group, %p process, %h and %H host with and without domain, %j the variable", "The pattern for `jobid_var`; what is longer than 31 bytes is cut off.");

    FAIL_LOC = Param::setting("fail_loc", "", "0", "a number of fault_points, with Lustre's flags: 0x80000000 once, 0x20000000 skip fail_val, 0x10000000 fail_val times, 0x08000000 one in fail_val", "What goes wrong on purpose; 0: nothing. 0x40000000 tells that it did.");
    FAIL_VAL = Param::setting("fail_val", "", "0", "a number", "Count or seconds of fail_loc.");
    FAULT = Param::setting("fault", "", "", "POINT[=drop, delay:SECONDS, fail:ERRNO or crash][,skip=N][,times=N][,one_in=N], or clear", "Rules by name of what goes wrong on purpose (docs/simulation.md).");
    FAULT_POINTS = Param::shown("fault_points", "", "Fault points: name, number, how often reached while one was armed, how often it went wrong, meaning.");

    LLITE_STATS = Param::counts("llite.*.stats", "How often programs asked the mount for each operation.");
    LLITE_UUID = Param::shown("llite.*.uuid", "", "UUID by which servers know the mount.");
    LLITE_FSTYPE = Param::shown("llite.*.fstype", "", "`lustre`, as scripts expect.");
    LLITE_CLIENT_TYPE = Param::shown("llite.*.client_type", "", "`local client`, as scripts expect.");
    LLITE_BLOCKSIZE = Param::shown("llite.*.blocksize", "bytes", "Block size that statfs tells.");
    LLITE_NODES = Param::gauge("llite.*.inodes_cached", "inodes", "Inodes that the kernel remembers of this mount.");
    LLITE_OPEN = Param::gauge("llite.*.opened_files", "handles", "Open files and directories.");
    LLITE_DIRTY = Param::gauge("llite.*.cur_dirty_bytes", "bytes", "Written by programs and not yet stored by OSTs, in whole blocks of 4 KiB; for all OSTs together, because they are kept by file.");
    LLITE_KBYTESTOTAL = asked(space("llite.*.kbytestotal", SPACE_HELP));
    LLITE_KBYTESFREE = asked(space("llite.*.kbytesfree", FREE_HELP));
    LLITE_KBYTESAVAIL = asked(space("llite.*.kbytesavail", AVAILABLE_HELP));
    LLITE_FILESTOTAL = asked(files("llite.*.filestotal", FILES_HELP));
    LLITE_FILESFREE = asked(files("llite.*.filesfree", FILES_FREE_HELP));

    LDLM_STATS = Param::counts("ldlm.namespaces.*.stats", "Locks on names and attributes. A mount: time to answer callbacks. An MDT: time until clients answer, how long operations wait for them, evictions.");

    LDLM_LOCK_COUNT = Param::gauge("ldlm.namespaces.*.lock_count", "locks", "Inodes with locks: of an MDT all that clients hold, of a mount its own.");
    LDLM_LOCK_WAITS = Param::gauge("ldlm.namespaces.*.lock_waits", "operations", "Operations of an MDT that wait for holders of locks, or for file locks.");

    LOV_NUMOBD = Param::shown("lov.*.numobd", "targets", "OSTs in the configuration.");
    LOV_ACTIVEOBD = Param::shown("lov.*.activeobd", "targets", "OSTs with which there is a session, or none was needed yet.");
    LOV_TARGET_OBD = Param::shown("lov.*.target_obd", "", "OSTs by index: `0: sheen-OST0000_UUID ACTIVE`.");
    LOV_POOLS = Param::shown("lov.*.pools.*", "", "OSTs of a pool, a line each.");
    LMV_NUMOBD = Param::shown("lmv.*.numobd", "targets", "MDTs in the configuration.");
    LMV_ACTIVEOBD = Param::shown("lmv.*.activeobd", "targets", "MDTs with which there is a session, or none was needed yet.");
    LMV_TARGET_OBD = Param::shown("lmv.*.target_obd", "", "MDTs by index.");

    OSC_ACTIVE = Param::setting("osc.*.active", "", "1", "0 or 1", "0: the OST is out of use on this mount; what needs it fails with EIO at once, also what waits for it now.");
    OSC_STATS = Param::counts("osc.*.stats", "Requests to the OST: time of each operation, data sizes, requests in flight.");
    OSC_RPC_STATS = Param::counts("osc.*.rpc_stats", "Data requests by pages and by how many were in flight.");
    OSC_IMPORT = Param::shown("osc.*.import", "", "How the session with the OST stands, as YAML.");
    OSC_STATE = Param::shown("osc.*.state", "", "State of the session.");
    OSC_TIMEOUTS = Param::shown("osc.*.timeouts", "", "Requests that were not answered in time.");
    OSC_OST_SERVER_UUID = Param::shown("osc.*.ost_server_uuid", "", "UUID of the OST and state of the session.");
    OSC_OST_CONN_UUID = Param::shown("osc.*.ost_conn_uuid", "", "NID at which the OST answers.");
    OSC_WINDOW = Param::gauge("osc.*.rpcs_window", "requests", "Requests that may be in flight to the OST's node now, grown as bandwidth and delay were measured; 0: no network between.");
    OSC_IN_FLIGHT = Param::gauge("osc.*.rpcs_in_flight", "requests", "Requests to the OST without an answer.");
    OSC_GRANT = Param::gauge("osc.*.cur_grant_bytes", "bytes", "Space that the OST promised to the mount and that no write has taken yet.");
    OSC_KBYTESTOTAL = asked(space("osc.*.kbytestotal", SPACE_HELP));
    OSC_KBYTESFREE = asked(space("osc.*.kbytesfree", FREE_HELP));
    OSC_KBYTESAVAIL = asked(space("osc.*.kbytesavail", AVAILABLE_HELP));
    OSC_FILESTOTAL = asked(files("osc.*.filestotal", FILES_HELP));
    OSC_FILESFREE = asked(files("osc.*.filesfree", FILES_FREE_HELP));
    OSC_PING = Param::command("osc.*.ping", "anything", "Asks the OST whether it is there; fails if it does not answer within 5 s.");

    MDC_STATS = Param::counts("mdc.*.stats", "Requests to the MDT: time of each operation, requests in flight.");
    MDC_RPC_STATS = Param::counts("mdc.*.rpc_stats", "Changing requests by how many were in flight.");
    MDC_IMPORT = Param::shown("mdc.*.import", "", "How the session with the MDT stands, as YAML.");
    MDC_STATE = Param::shown("mdc.*.state", "", "State of the session.");
    MDC_TIMEOUTS = Param::shown("mdc.*.timeouts", "", "Requests that were not answered in time.");
    MDC_MDS_SERVER_UUID = Param::shown("mdc.*.mds_server_uuid", "", "UUID of the MDT and state of the session.");
    MDC_MDS_CONN_UUID = Param::shown("mdc.*.mds_conn_uuid", "", "NID at which the MDT answers.");
    MDC_WINDOW = Param::gauge("mdc.*.rpcs_window", "requests", "Requests that may be in flight to the MDT's node now; 0: no network between.");
    MDC_IN_FLIGHT = Param::gauge("mdc.*.rpcs_in_flight", "requests", "Requests to the MDT without an answer.");
    MDC_KBYTESTOTAL = asked(space("mdc.*.kbytestotal", SPACE_HELP));
    MDC_KBYTESFREE = asked(space("mdc.*.kbytesfree", FREE_HELP));
    MDC_KBYTESAVAIL = asked(space("mdc.*.kbytesavail", AVAILABLE_HELP));
    MDC_FILESTOTAL = asked(files("mdc.*.filestotal", FILES_HELP));
    MDC_FILESFREE = asked(files("mdc.*.filesfree", FILES_FREE_HELP));
    MDC_PING = Param::command("mdc.*.ping", "anything", "Asks the MDT whether it is there; fails if it does not answer within 5 s.");

    MGC_IMPORT = Param::shown("mgc.*.import", "", "How the session with the MGS stands, as YAML.");
    MGC_STATS = Param::counts("mgc.*.stats", "Requests to the MGS; the time that questions for news are kept waiting included.");

    MDT_UUID = Param::shown("mdt.*.uuid", "", "UUID of the MDT.");
    MDT_MD_STATS = Param::counts("mdt.*.md_stats", "Operations that the MDT served, with their times.");
    MDT_NUM_EXPORTS = Param::gauge("mdt.*.num_exports", "sessions", "Sessions of clients.");
    MDT_EXPORT_UUID = Param::shown("mdt.*.exports.*.uuid", "", "UUIDs of the clients at this NID.");
    MDT_OPEN = Param::gauge("mdt.*.open_files", "handles", "Open handles of all clients.");
    MDT_EVICT_CLIENT = Param::command("mdt.*.evict_client", "UUID of a client, or nid:NID", "Ends sessions; what the client had open or locked is released. ENOENT: there is none.");
    MDT_ACTIVE = Param::gauge("mdt.*.req_active", "requests", "Requests that the MDT works on.");
    MDT_JOB_STATS = jobs("mdt.*.job_stats", "Operations that the MDT served, by job, as YAML.");
    MDT_JOB_CLEANUP_INTERVAL = cleanup("mdt.*.job_cleanup_interval");
    MDT_RECOVERY_STATUS = Param::shown("mdt.*.recovery_status", "", "How far recovery is after a start: status, clients that are waited for, clients that came.");
    MDT_ABORT_RECOVERY = Param::command("mdt.*.abort_recovery", "1", "Waits no longer for clients of the life before: who has not come is evicted. What `lctl --device MDT abort_recovery` sets.");
    LOD_STRIPECOUNT = Param::setting("lod.*.stripecount", "stripes", "1 (`stripe_count` of node.toml)", "1 to 2000, -1: one on each OST", "Stripes of a new file whose directory says nothing.");
    LOD_STRIPESIZE = Param::setting("lod.*.stripesize", "bytes", "4194304", "65536 to 4294901760, a multiple of 65536", "Stripe size of such a file.");
    LOD_DOM_STRIPESIZE = Param::setting("lod.*.dom_stripesize", "bytes", "1048576", "0 to 1048576, a multiple of 65536", "Most of a file that may live on the MDT; layouts that ask for more are refused, and 0 lets none (docs/dom.md).");
    LOD_DOM_STRIPESIZE_MAX_KB = Param::setting("lod.*.dom_stripesize_max_kb", "KiB", "1024", "0 to 1024, a multiple of 64", "The same in KiB.");
    LOD_DOM_STRIPESIZE_CUR_KB = Param::shown("lod.*.dom_stripesize_cur_kb", "KiB", "What new files get at most: 0 while the MDT has less free space than `dom_threshold_free_mb`.");
    LOD_DOM_THRESHOLD = Param::setting("lod.*.dom_threshold_free_mb", "MiB", "half of the MDT", "0 to 2^44 - 1", "With less free space on the MDT new files get no part there; it is looked at every 5 s.");
    LOD_NUMOBD = Param::shown("lod.*.numobd", "targets", "OSTs that the MDT knows.");
    LOD_ACTIVEOBD = Param::gauge("lod.*.activeobd", "targets", "OSTs that get new objects.");
    LOD_TARGET_OBD = Param::shown("lod.*.target_obd", "", "OSTs by index, INACTIVE where an OST does not answer or was set aside.");

    LOD_POOLS = Param::shown("lod.*.pools.*", "", "OSTs of a pool as the MDT knows it, a line each.");

    OSP_ACTIVE = Param::setting("osp.*.active", "", "1", "0 or 1", "0: the OST gets no new objects from this MDT; those that it has stay in use.");
    OSP_STATS = Param::counts("osp.*.stats", "Requests of this node's servers to the OST; MDTs of one process share a session.");
    OSP_IMPORT = Param::shown("osp.*.import", "", "How the session with the OST stands, as YAML.");
    OSP_STATE = Param::shown("osp.*.state", "", "State of the session.");

    OBDFILTER_UUID = Param::shown("obdfilter.*.uuid", "", "UUID of the OST.");
    OBDFILTER_STATS = Param::counts("obdfilter.*.stats", "Operations that the OST served, with their times and data sizes.");
    OBDFILTER_BRW_STATS = Param::counts("obdfilter.*.brw_stats", "Data requests by pages and by how many were at work.");
    OBDFILTER_NUM_EXPORTS = Param::gauge("obdfilter.*.num_exports", "sessions", "Sessions of clients and MDTs.");
    OBDFILTER_EXPORT_UUID = Param::shown("obdfilter.*.exports.*.uuid", "", "UUIDs of the clients at this NID.");
    OBDFILTER_EVICT_CLIENT = Param::command("obdfilter.*.evict_client", "UUID of a client, or nid:NID", "Ends sessions. ENOENT: there is none.");
    OBDFILTER_ACTIVE = Param::gauge("obdfilter.*.req_active", "requests", "Requests that the OST works on.");
    OBDFILTER_TOT_GRANTED = Param::gauge("obdfilter.*.tot_granted", "bytes", "Space that clients of the OST's volume were promised.");
    OBDFILTER_JOB_STATS = jobs("obdfilter.*.job_stats", "Operations and bytes that the OST served, by job, as YAML.");
    OBDFILTER_JOB_CLEANUP_INTERVAL = cleanup("obdfilter.*.job_cleanup_interval");
    OBDFILTER_KBYTESTOTAL = space("obdfilter.*.kbytestotal", SPACE_HELP);
    OBDFILTER_KBYTESFREE = space("obdfilter.*.kbytesfree", FREE_HELP);
    OBDFILTER_KBYTESAVAIL = space("obdfilter.*.kbytesavail", AVAILABLE_HELP);
    OBDFILTER_FILESTOTAL = files("obdfilter.*.filestotal", FILES_HELP);
    OBDFILTER_FILESFREE = files("obdfilter.*.filesfree", FILES_FREE_HELP);

    OSD_STATS = Param::counts("osd-lmdb.*.stats", "Commits of the target's store: time until durable, and bytes.");
    OSD_KBYTESTOTAL = space("osd-lmdb.*.kbytestotal", "KiB that the store of records could take.");
    OSD_KBYTESFREE = space("osd-lmdb.*.kbytesfree", "KiB of them not in use.");
    OSD_UNCOMMITTED = Param::gauge("osd-lmdb.*.uncommitted_bytes", "bytes", "Records that are applied and not yet durable.");
    OSD_NOTRANSNO = Param::setting("osd-lmdb.*.notransno", "", "0", "1", "1: from now on nothing is committed; what is answered is lost when the process ends. Until it is started again.");
    OSD_LAST_COMMITTED = Param::shown("osd-lmdb.*.last_committed", "", "Newest transno that is durable.");

    MGS_LIVE = Param::shown("mgs.MGS.live.*", "", "Version, targets, persistent parameters and pools of a file system.");
    MGS_STATS = Param::counts("mgs.MGS.stats", "Requests that the MGS served.");
    MGS_NUM_EXPORTS = Param::gauge("mgs.MGS.num_exports", "sessions", "Sessions of clients and servers.");
    MGS_EXPORT_UUID = Param::shown("mgs.MGS.exports.*.uuid", "", "UUIDs of the clients at this NID.");
}

/// The table of `docs/parameters.md`.
pub fn markdown() -> String {
    let mut text =
        String::from("| parameter | may be | unit | default | range | meaning |\n|---|---|---|---|---|---|\n");
    for Param { path, help, unit, default, range, access, gauge: _ } in ALL {
        text += &format!("| `{path}` | {} | {unit} | {default} | {range} | {help} |\n", access.words());
    }
    text
}

/// The gauges of `docs/parameters.md`.
pub fn gauges_markdown() -> String {
    let mut text = String::from("| gauge | labels | unit | from |\n|---|---|---|---|\n");
    for param in ALL.iter().filter(|param| param.gauge) {
        let labels = if param.path.contains('*') { "device" } else { "" };
        text += &format!(
            "| `{}` | {labels} | {} | `{}` |\n",
            crate::openmetrics::gauge_name(param),
            param.unit,
            param.path
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn declarations_are_whole() {
        assert_eq!(ALL.iter().map(|p| p.path).collect::<BTreeSet<_>>().len(), ALL.len(), "a path twice");
        for param in ALL {
            assert!(param.help.ends_with('.') && !param.help.contains('|'), "{}", param.path);
            assert_eq!(param.access.writable(), !param.range.is_empty(), "{}", param.path);
            assert!(!param.gauge || !param.unit.is_empty(), "{}", param.path);
        }
    }

    #[test]
    fn the_document_shows_these_tables() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/parameters.md");
        let text = std::fs::read_to_string(path).unwrap();
        let mut wanted = text.clone();
        for (mark, table) in [("parameters", markdown()), ("gauges", gauges_markdown())] {
            let (before, rest) = wanted.split_once(&format!("<!-- {mark} -->\n")).expect("a mark before the table");
            let (_, after) = rest.split_once(&format!("<!-- end of {mark} -->")).expect("a mark behind the table");
            wanted = format!("{before}<!-- {mark} -->\n\n{table}\n<!-- end of {mark} -->{after}");
        }
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(path, wanted).unwrap();
        } else {
            assert_eq!(text, wanted, "docs/parameters.md is behind: BLESS=1 cargo test -p observe");
        }
    }
}
