//! All parameters of SheenFS, under Lustre's names. `docs/parameters.md` is made from this table.
//!
//! Only parameters with an effect or a value are here. First levels of a path: `llite` a mount;
//! `lmv`, `lov` its sets of targets; `mdc`, `osc` its sessions with them; `osp` a server's
//! sessions; `mdt`, `lod` an MDT; `obdfilter` an OST; `osd-lmdb` the store of either; `mgs` the
//! MGS. A level that names a device is `*`.

use crate::param::Param;
use crate::tree::{BadPattern, LastLevel};

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
    Param::setting(
        path,
        "s",
        "600",
        "0 to 31622400; 0: never",
        "A job that did nothing for so long is forgotten.",
    )
}

/// What is written there does harm, and is meant for one process and one moment.
const fn acts(param: Param) -> Param {
    Param { acts: true, ..param }
}

/// Asked over the network, so not part of every scrape: the servers' own gauges say the same.
const fn asked(param: Param) -> Param {
    Param { gauge: false, ..param }
}

/// Requests in flight adapt by themselves.
const fn window(path: &'static str) -> Param {
    Param::governed(
        path,
        "requests",
        "Requests that may be in flight to the target's node now; 0: it is in the same process, and nothing bounds them.",
        "The number follows bandwidth and delay as they are measured (rpcs_window), up to 1024: there is nothing to set.",
    )
}

/// One switch of the process, seen through each of its sessions.
const fn checksums(path: &'static str) -> Param {
    Param::setting(
        path,
        "",
        "1 (`checksums` of node.toml)",
        "0 or 1",
        "Messages that this process sends over the network carry checksums of their data. One switch for all its sessions; what comes with a checksum is always verified.",
    )
}

const fn checksum_type(path: &'static str) -> Param {
    Param::setting(
        path,
        "",
        "[crc32c]",
        "crc32c",
        "Kind of these checksums, in brackets as Lustre marks the chosen one.",
    )
}

const fn srpc_info(path: &'static str) -> Param {
    Param::shown(
        path,
        "",
        "How the connections of the session are protected: flavour (`skpi`, `null`), whose key the server showed, cipher.",
    )
}

const fn srpc_contexts(path: &'static str) -> Param {
    Param::shown(
        path,
        "",
        "The server's key that the connections of the session rest on: owner, connections, when its certificate ends (seconds since 1970, and from now). Nothing where they are plain.",
    )
}

const fn connect_flags(path: &'static str) -> Param {
    Param::shown(
        path,
        "",
        "What client and target can do with each other, in Lustre's words, a line each.",
    )
}

const fn default_layout(path: &'static str, unit: &'static str, help: &'static str) -> Param {
    Param::governed(
        path,
        unit,
        help,
        "MDT0000 says what new files get: set it there (lod.*.stripecount, lod.*.stripesize), or for a directory with lfs setstripe.",
    )
}

/// Lustre's precreation.
const fn precreate(path: &'static str) -> Param {
    Param::governed(
        path,
        "objects",
        "Objects that are made ahead of their files: none.",
        "The MDT names the objects of a file itself and an OST makes them when they are first written, so none are made ahead.",
    )
}

catalog! {
    DEBUG = Param::setting("debug", "", "the words below `info` of SHEEN_LOG's level", "Lustre's words, +word and -word change the set, 0 none, -1 all; or a number", "What the process logs beyond errors and warnings. Words mean levels: info, neterror, ha, config and console level info; trace, iotrace, malloc, net, buffs, nettrace and page level trace; all others level debug. The most detailed word counts, and takes the place of SHEEN_LOG.");
    VERSION = Param::shown("version", "", "Version of the program that runs.");
    HEALTH_CHECK = Param::shown("health_check", "", "`healthy`, or `NOT HEALTHY` and the local targets whose store has failed.");
    SRPC_FLAVOR = Param::setting("srpc.flavor.*", "", "", "null, skn, ska, ski or skpi", "How connections over a network (`default`: all) are protected: skpi by TLS 1.3, null not at all. The keys of the cluster decide (docs/security.md); what does not fit to them is refused.");
    SRPC_FLAVOR_OF = Param::setting("srpc.flavor.*.*", "", "", "null, skn, ska, ski or skpi", "The same in one direction: cli2mdt, cli2ost, mdt2mdt, mdt2ost.");
    TIMEOUT = Param::shown("timeout", "s", "A request that is not answered for so long fails.");
    PING_INTERVAL = Param::shown("ping_interval", "s", "An idle session is pinged this often.");
    NIS = Param::shown("nis", "", "Local NIDs and their state.");
    MEMUSED = Param::gauge("memused", "bytes", "Resident memory of the process.");
    JOBID_VAR = Param::setting("jobid_var", "", "disable", "disable, procname_uid, nodelocal, or the name of an environment variable", "How mounts of this process name the job of a request, for `job_stats`. `nodelocal`: by `jobid_name`. A variable: what the program has there, or `jobid_name` if that has a %j or the program has no such variable.");
    JOBID_NAME = Param::setting("jobid_name", "", "%e.%u", "text with %e program, %u user, %g group, %p process, %h and %H host with and without domain, %j the variable", "The pattern for `jobid_var`; what is longer than 31 bytes is cut off.");

    FAIL_LOC = acts(Param::setting("fail_loc", "", "0", "a number of fault_points, with Lustre's flags: 0x80000000 once, 0x20000000 skip fail_val, 0x10000000 fail_val times, 0x08000000 one in fail_val", "What goes wrong on purpose; 0: nothing. 0x40000000 tells that it did."));
    FAIL_VAL = acts(Param::setting("fail_val", "", "0", "a number", "Count or seconds of fail_loc."));
    FAULT = acts(Param::setting("fault", "", "", "POINT[=drop, delay:SECONDS, fail:ERRNO or crash][,skip=N][,times=N][,one_in=N], or clear", "Rules by name of what goes wrong on purpose (docs/simulation.md)."));
    FAULT_POINTS = Param::shown("fault_points", "", "Fault points: name, number, how often reached while one was armed, how often it went wrong, meaning.");

    LLITE_STATS = Param::counts("llite.*.stats", "Operations that programs asked of the mount, with their times, and bytes that they read and wrote.");
    LLITE_UUID = Param::shown("llite.*.uuid", "", "UUID by which servers know the mount.");
    LLITE_FSTYPE = Param::shown("llite.*.fstype", "", "`lustre`, as scripts expect.");
    LLITE_ROOT_SQUASH = Param::shown("llite.*.root_squash", "", "As whom root of this host acts in the file system, `UID:GID`, as its MDTs say; 0:0: as root.");
    LLITE_ALL_SQUASH = Param::shown("llite.*.all_squash", "", "As whom all other users of this host act, as its MDTs say; 0:0: as themselves.");
    LLITE_CLIENT_TYPE = Param::shown("llite.*.client_type", "", "`local client`, as scripts expect.");
    LLITE_BLOCKSIZE = Param::shown("llite.*.blocksize", "bytes", "Block size that statfs tells.");
    LLITE_NODES = Param::gauge("llite.*.inodes_cached", "inodes", "Inodes that the kernel remembers of this mount.");
    LLITE_OPEN = Param::gauge("llite.*.opened_files", "handles", "Open files and directories.");
    LLITE_DIRTY = Param::gauge("llite.*.cur_dirty_bytes", "bytes", "Written by programs and not yet stored by OSTs, in whole blocks of 4 KiB; for all OSTs together, because they are kept by file.");
    LLITE_SBI_FLAGS = Param::shown("llite.*.sbi_flags", "", "What holds for this mount, in Lustre's words: `flock` or `localflock`, `checksum`, `xattr_cache` as they are set.");
    LLITE_EXTENTS_STATS = Param::counts("llite.*.extents_stats", "Reads and writes that the kernel asked of the mount, by size. What its page cache answered is not among them.");
    LLITE_MAX_READ_AHEAD_MB = Param::setting("llite.*.max_read_ahead_mb", "MiB", "a 16th of the memory, 64 to 1024", "0 to 1048576, also with a fraction", "Most that the mount holds of what it fetched ahead of readers, of all files together; 0: nothing is fetched ahead, neither by the mount nor by the kernel. Files that are read get equal parts.");
    LLITE_MAX_READ_AHEAD_PER_FILE_MB = Param::setting("llite.*.max_read_ahead_per_file_mb", "MiB", "a quarter of max_read_ahead_mb, 256 at most", "0 to 1048576, also with a fraction", "Most that is fetched ahead of a reader of one file; below it the window follows bandwidth and delay. The kernel's own window is as large, 4 MiB at most, for files that are opened from then on.");
    LLITE_MAX_READ_AHEAD_WHOLE_MB = Param::setting("llite.*.max_read_ahead_whole_mb", "MiB", "4", "0 to 1048576, also with a fraction", "A file of up to this size is fetched to its end once it is read in sequence; with its first read, if nearly all of the last small files were read to their ends.");
    LLITE_READ_AHEAD_STATS = Param::counts("llite.*.read_ahead_stats", "Pages of 4 KiB that reads found fetched ahead (`hits`) or not (`misses`), were fetched (`readahead_pages`), and fetched in vain (`read_but_discarded`); reads that continued none (`readpage_not_consecutive`), or waited for what was on its way (`miss_inside_window`); requests (`async_readahead`), and times that there was no room (`hit_max_readahead_issue`). What the kernel found in its own pages it tells no mount.");
    LLITE_STATAHEAD_MAX = Param::setting("llite.*.statahead_max", "entries", "16384", "0 to 16384", "Entries of a listed directory whose attributes one request fetches ahead, after a program has looked at two of them; 0: none, and no directory is listed ahead.");
    LLITE_STATAHEAD_AGL = Param::governed("llite.*.statahead_agl", "", "1: sizes come with the attributes that are fetched ahead.", "The MDT knows the size of a file, so no OST is asked.");
    LLITE_STATAHEAD_STATS = Param::counts("llite.*.statahead_stats", "Entries whose attributes were fetched ahead, and what became of them: `statahead wrong` counts directories that are left alone for a while because nothing of it was used, `list_total` listings, `hit_total` and `miss_total` lookups in these.");
    LLITE_MAX_CACHED_MB = Param::governed("llite.*.max_cached_mb", "MiB", "Memory that pages of files may take, as Lustre writes it: `max_cached_mb: N`. The kernel tells no mount how much that is now, so `used_mb` and `unused_mb` are not there.", "The kernel keeps pages in all memory that nothing else needs: bound it with memory.max of a cgroup, and drop a mount's pages with ldlm.namespaces.*.lru_size=clear.");
    LLITE_HYBRID_IO = Param::governed("llite.*.hybrid_io", "", "0: no read or write goes past the page cache because it is large.", "A file is opened past the page cache if it was changed or called back a moment ago, or with O_DIRECT; size alone decides nothing.");
    LLITE_DEFAULT_EASIZE = Param::governed("llite.*.default_easize", "bytes", "Longest layout that comes with the answer to an open.", "An answer has room for every layout that there can be, so there is no size to guess.");
    LLITE_MAX_EASIZE = Param::governed("llite.*.max_easize", "bytes", "Longest layout that there can be.", "The format bounds it.");
    LLITE_XATTR_CACHE = Param::setting("llite.*.xattr_cache", "", "1", "0 or 1", "Extended attributes are kept under locks; 0: each question goes to the MDT.");
    LLITE_OPENCACHE_THRESHOLD_COUNT = Param { governed: "The kernel of a mount with localflock or noflock opens files without telling, so it needs the locks.", ..Param::setting("llite.*.opencache_threshold_count", "opens", "1", "0 or 1", "Opens after which an open to read brings a lock under which the file is opened again without a request. 1: the first brings it. 0: none does, and files are opened past the kernel's page cache, which needs that lock.") };
    LLITE_KBYTESTOTAL = asked(space("llite.*.kbytestotal", SPACE_HELP));
    LLITE_KBYTESFREE = asked(space("llite.*.kbytesfree", FREE_HELP));
    LLITE_KBYTESAVAIL = asked(space("llite.*.kbytesavail", AVAILABLE_HELP));
    LLITE_FILESTOTAL = asked(files("llite.*.filestotal", FILES_HELP));
    LLITE_FILESFREE = asked(files("llite.*.filesfree", FILES_FREE_HELP));

    LDLM_STATS = Param::counts("ldlm.namespaces.*.stats", "Locks on names and attributes. A mount: time to answer callbacks. An MDT: time until clients answer, how long operations wait for them, evictions.");

    LDLM_LOCK_COUNT = Param::gauge("ldlm.namespaces.*.lock_count", "locks", "Inodes with locks: of an MDT all that clients hold, of a mount its own; of its session with an MDT those of that MDT, with an OST those on data of files that have objects there.");
    LDLM_LOCK_UNUSED_COUNT = Param::shown("ldlm.namespaces.*.lock_unused_count", "locks", "Those of a mount's locks of which no file is open and no data is being read or written: what lru_size=clear and lru_max_age take.");
    LDLM_LRU_SIZE = Param::setting("ldlm.namespaces.*.lru_size", "locks", "0 to be set: as many as the MDTs allow", "clear, 0, or 1 to 196608", "Reads as the number of unused locks. clear: gives back all locks of this namespace, and drops what they cover from the caches of the mount and of its kernel; what is written is stored first. A number: the mount keeps at most so many locks, in all its namespaces together; 0: as many as the MDTs allow.");
    LDLM_LRU_MAX_AGE = Param::setting("ldlm.namespaces.*.lru_max_age", "ms", "0", "0 to 4294967295, or with s: 3900s", "Locks of the mount that were not used for so long are given back; 0: none is for its age. One setting for all namespaces of the mount.");
    LDLM_LOCK_WAITS = Param::gauge("ldlm.namespaces.*.lock_waits", "operations", "Operations of an MDT that wait for holders of locks, or for file locks.");

    LOV_NUMOBD = Param::shown("lov.*.numobd", "targets", "OSTs in the configuration.");
    LOV_ACTIVEOBD = Param::shown("lov.*.activeobd", "targets", "OSTs with which there is a session, or none was needed yet.");
    LOV_TARGET_OBD = Param::shown("lov.*.target_obd", "", "OSTs by index: `0: sheen-OST0000_UUID ACTIVE`.");
    LOV_STRIPECOUNT = default_layout("lov.*.stripecount", "stripes", "Stripes of a new file whose directory says nothing; -1: one on each OST.");
    LOV_STRIPESIZE = default_layout("lov.*.stripesize", "bytes", "Stripe size of such a file.");
    LOV_STRIPEOFFSET = default_layout("lov.*.stripeoffset", "", "OST of its first stripe; -1: where there is room.");
    LOV_POOLS = Param::shown("lov.*.pools.*", "", "OSTs of a pool, a line each.");
    LMV_NUMOBD = Param::shown("lmv.*.numobd", "targets", "MDTs in the configuration.");
    LMV_ACTIVEOBD = Param::shown("lmv.*.activeobd", "targets", "MDTs with which there is a session, or none was needed yet.");
    LMV_TARGET_OBD = Param::shown("lmv.*.target_obd", "", "MDTs by index.");

    OSC_ACTIVE = Param::setting("osc.*.active", "", "1", "0 or 1", "0: the OST is out of use on this mount; what needs it fails with EIO at once, also what waits for it now.");
    OSC_STATS = Param::counts("osc.*.stats", "Requests to the OST: time of each operation, data sizes, requests in flight.");
    OSC_RPC_STATS = Param::counts("osc.*.rpc_stats", "Data requests by pages and by how many were in flight.");
    OSC_IMPORT = Param::shown("osc.*.import", "", "How the session with the OST stands, as YAML.");
    OSC_SRPC_INFO = srpc_info("osc.*.srpc_info");
    OSC_SRPC_CONTEXTS = srpc_contexts("osc.*.srpc_contexts");
    OSC_STATE = Param::shown("osc.*.state", "", "State of the session.");
    OSC_TIMEOUTS = Param::shown("osc.*.timeouts", "", "Requests that were not answered in time.");
    OSC_OST_SERVER_UUID = Param::shown("osc.*.ost_server_uuid", "", "UUID of the OST and state of the session.");
    OSC_OST_CONN_UUID = Param::shown("osc.*.ost_conn_uuid", "", "NID at which the OST answers.");
    OSC_WINDOW = Param::gauge("osc.*.rpcs_window", "requests", "Requests that may be in flight to the OST's node now, grown as bandwidth and delay were measured; 0: no network between.");
    OSC_IN_FLIGHT = Param::gauge("osc.*.rpcs_in_flight", "requests", "Requests to the OST without an answer.");
    OSC_GRANT = Param::gauge("osc.*.cur_grant_bytes", "bytes", "Space that the OST granted to the mount and that no write has taken yet.");
    OSC_CONNECT_FLAGS = connect_flags("osc.*.connect_flags");
    OSC_MAX_RPCS_IN_FLIGHT = window("osc.*.max_rpcs_in_flight");
    OSC_MAX_PAGES_PER_RPC = Param::governed("osc.*.max_pages_per_rpc", "pages of 4 KiB", "Most that one read or write carries.", "The format bounds it. Requests are as large as what programs and the kernel read or wrote in one piece.");
    OSC_SHORT_IO_BYTES = Param::governed("osc.*.short_io_bytes", "bytes", "Up to here data travels in the message of its request.", "All data does: there is no other way to send it.");
    OSC_MAX_DIRTY_MB = Param::setting("osc.*.max_dirty_mb", "MiB", "256", "1 to 2047", "What programs wrote and OSTs have not stored, at most; beyond it a write waits. Writes are kept by file: one bound for the whole mount, whichever OST is named.");
    OSC_CUR_DIRTY_BYTES = Param::explained("osc.*.cur_dirty_bytes", "Writes are kept by file, for all OSTs together: llite.*.cur_dirty_bytes says how much.");
    OSC_GRANT_SHRINK = Param::setting("osc.*.grant_shrink", "", "1", "0 or 1", "Granted space that no write takes for grant_shrink_interval is given back to the OST.");
    OSC_GRANT_SHRINK_INTERVAL = Param::setting("osc.*.grant_shrink_interval", "s", "10", "1 to 65535", "See grant_shrink.");
    OSC_CHECKSUMS = checksums("osc.*.checksums");
    OSC_CHECKSUM_TYPE = checksum_type("osc.*.checksum_type");
    OSC_RESEND_COUNT = Param::explained("osc.*.resend_count", "A request whose answer was lost is sent again after each new connection, until it is answered: nothing counts how often.");
    OSC_IDLE_TIMEOUT = Param::governed("osc.*.idle_timeout", "s", "0: a session without requests stays.", "A session costs a ping every ping_interval and is kept as long as the mount lives: its locks and granted space hang on it.");
    OSC_KBYTESTOTAL = asked(space("osc.*.kbytestotal", SPACE_HELP));
    OSC_KBYTESFREE = asked(space("osc.*.kbytesfree", FREE_HELP));
    OSC_KBYTESAVAIL = asked(space("osc.*.kbytesavail", AVAILABLE_HELP));
    OSC_FILESTOTAL = asked(files("osc.*.filestotal", FILES_HELP));
    OSC_FILESFREE = asked(files("osc.*.filesfree", FILES_FREE_HELP));
    OSC_PING = Param::command("osc.*.ping", "anything", "Asks the OST whether it is there; fails if it does not answer within 5 s.");

    MDC_STATS = Param::counts("mdc.*.stats", "Requests to the MDT: time of each operation, requests in flight.");
    MDC_RPC_STATS = Param::counts("mdc.*.rpc_stats", "Changing requests by how many were in flight.");
    MDC_IMPORT = Param::shown("mdc.*.import", "", "How the session with the MDT stands, as YAML.");
    MDC_SRPC_INFO = srpc_info("mdc.*.srpc_info");
    MDC_SRPC_CONTEXTS = srpc_contexts("mdc.*.srpc_contexts");
    MDC_STATE = Param::shown("mdc.*.state", "", "State of the session.");
    MDC_TIMEOUTS = Param::shown("mdc.*.timeouts", "", "Requests that were not answered in time.");
    MDC_MDS_SERVER_UUID = Param::shown("mdc.*.mds_server_uuid", "", "UUID of the MDT and state of the session.");
    MDC_MDS_CONN_UUID = Param::shown("mdc.*.mds_conn_uuid", "", "NID at which the MDT answers.");
    MDC_WINDOW = Param::gauge("mdc.*.rpcs_window", "requests", "Requests that may be in flight to the MDT's node now; 0: no network between.");
    MDC_IN_FLIGHT = Param::gauge("mdc.*.rpcs_in_flight", "requests", "Requests to the MDT without an answer.");
    MDC_CONNECT_FLAGS = connect_flags("mdc.*.connect_flags");
    MDC_MAX_RPCS_IN_FLIGHT = window("mdc.*.max_rpcs_in_flight");
    MDC_MAX_MOD_RPCS_IN_FLIGHT = window("mdc.*.max_mod_rpcs_in_flight");
    MDC_CHECKSUMS = checksums("mdc.*.checksums");
    MDC_CHECKSUM_TYPE = checksum_type("mdc.*.checksum_type");
    MDC_KBYTESTOTAL = asked(space("mdc.*.kbytestotal", SPACE_HELP));
    MDC_KBYTESFREE = asked(space("mdc.*.kbytesfree", FREE_HELP));
    MDC_KBYTESAVAIL = asked(space("mdc.*.kbytesavail", AVAILABLE_HELP));
    MDC_FILESTOTAL = asked(files("mdc.*.filestotal", FILES_HELP));
    MDC_FILESFREE = asked(files("mdc.*.filesfree", FILES_FREE_HELP));
    MDC_PING = Param::command("mdc.*.ping", "anything", "Asks the MDT whether it is there; fails if it does not answer within 5 s.");

    MGC_IMPORT = Param::shown("mgc.*.import", "", "How the session with the MGS stands, as YAML.");
    MGC_SRPC_INFO = srpc_info("mgc.*.srpc_info");
    MGC_SRPC_CONTEXTS = srpc_contexts("mgc.*.srpc_contexts");
    MGC_STATS = Param::counts("mgc.*.stats", "Requests to the MGS; the time that questions for news are kept waiting included.");

    MDT_UUID = Param::shown("mdt.*.uuid", "", "UUID of the MDT.");
    MDT_MD_STATS = Param::counts("mdt.*.md_stats", "Operations that the MDT served, with their times.");
    MDT_NUM_EXPORTS = Param::gauge("mdt.*.num_exports", "sessions", "Sessions of clients.");
    MDT_EXPORT_UUID = Param::shown("mdt.*.exports.*.uuid", "", "UUIDs of the clients at this NID.");
    MDT_OPEN = Param::gauge("mdt.*.open_files", "handles", "Open handles of all clients.");
    MDT_EVICT_CLIENT = Param::command("mdt.*.evict_client", "UUID of a client, or nid:NID", "Ends sessions; what the client had open or locked is released. ENOENT: there is none.");
    MDT_ACTIVE = Param::gauge("mdt.*.req_active", "requests", "Requests that the MDT works on.");
    MDT_ROOT_SQUASH = Param::setting("mdt.*.root_squash", "", "0:0", "UID:GID, neither 0; 0:0: nobody is squashed", "As whom root of clients acts (docs/security.md). Not servers, clients at loopback and `nosquash_nids`.");
    MDT_ALL_SQUASH = Param::setting("mdt.*.all_squash", "", "0:0", "UID:GID, neither 0; 0:0: nobody is squashed", "As whom all users of clients act; root too, unless `root_squash` says as whom. Not servers, clients at loopback and `nosquash_nids`.");
    MDT_NOSQUASH_NIDS = Param { value_may_clear: true, ..Param::setting("mdt.*.nosquash_nids", "", "NONE", "ranges of NIDs with spaces between them; NONE or clear: none", "Clients that are not squashed: 10.0.[2-10].[1-255]@tcp, *@tcp, 10.1.0.0/16@tcp.") };
    MDT_TICKET_LIFE = Param::setting("mdt.*.ticket_life", "seconds", "1200", "2 to 3600", "For how long the tickets are good that the MDT gives restricted clients for objects (docs/security.md). Clients renew them when half of it is over.");
    MDT_REALMS = Param::shown("mdt.*.realms", "", "Of MDT0000: the filesets of nodemaps, one a line: the number of the realm, the path, and how far its tree is marked (docs/security.md): `ready`; `walk N batches N marked N`; `waits` and why.");
    MDT_AUDIT = Param::shown("mdt.*.audit", "", "What clients of nodemaps with `audit_mode` changed and were refused, the newest lines, as JSON (docs/security.md). The file is `log/audit.log` in the folder of the daemon.");
    MDT_JOB_STATS = jobs("mdt.*.job_stats", "Operations that the MDT served, by job, as YAML.");
    MDT_JOB_CLEANUP_INTERVAL = cleanup("mdt.*.job_cleanup_interval");
    MDT_RECOVERY_STATUS = Param::shown("mdt.*.recovery_status", "", "How far recovery is after a start: status, clients that are waited for, clients that came; MDTs that are waited for.");
    MDT_ABORT_RECOVERY = Param::command("mdt.*.abort_recovery", "1", "Waits no longer for clients of the life before: who has not come is evicted. What `lctl --device MDT abort_recovery` sets.");
    MDT_ABORT_RECOVERY_MDT = Param::command("mdt.*.abort_recovery_mdt", "1", "Waits no longer for other MDTs: what only they know of operations over several MDTs is not done. What `lctl --device MDT abort_recovery_mdt` sets.");
    MDT_AUTO_SPLIT = Param::setting("mdt.*.enable_dir_auto_split", "", "1", "0 or 1", "Directories that several clients fill at once, or that become large, are spread over more MDTs by themselves (docs/dne.md, section 12). The MDT that has their names decides.");
    MDT_SPLIT_COUNT = Param::setting("mdt.*.dir_split_count", "names", "50000", "1 to 4294967295", "With more names than this on one MDT a directory is split by itself.");
    MDT_SPLIT_DELTA = Param::setting("mdt.*.dir_split_delta", "", "4", "2 to 128", "A directory that became large gets so many times as many stripes; one that several clients fill at once gets one on each MDT.");
    MDT_MERGE_IDLE = Param::setting("mdt.*.dir_merge_idle", "seconds", "3600", "0 to 4294967295; 0: none is", "A directory that was split by itself is merged to one MDT again if it has at most a quarter of `dir_split_count` names, and no name of it came or went for so long (docs/dne.md, section 12).");
    MDT_RESTRIPE_NSONLY = Param::setting("mdt.*.dir_restripe_nsonly", "", "1", "1", "Only names move when a directory is split; inodes stay on their MDTs.");
    MDT_RESTRIPING = Param::gauge("mdt.*.dir_restriping", "directories", "Directories whose names move between MDTs just now, by their first MDT.");
    MDT_DIR_MOVES = Param::shown("mdt.*.dir_moves", "", "These directories, one a line: why names move (split, merge, migrate), from which MDTs to which, and the last name that has passed.");
    MDT_BUNDLES_WAITING = Param::shown("mdt.*.bundles_waiting", "", "Operations over several MDTs that this MDT coordinates, that are decided, and that wait for other MDTs, one a line.");
    MDT_NO_CREATE = Param::setting("mdt.*.no_create", "", "0", "0 or 1", "1: no directory is made on this MDT where MDTs are chosen (`-i -1`, stripes, splits), only where it is named, and in directories that are there (docs/dne.md, section 13). It tells that no inodes are free. What `lctl set_param -P` keeps holds after a restart.");
    MDT_NAMES_MOVED = Param::gauge("mdt.*.dir_names_moved", "names", "Names that have moved since the MDT started.");
    LOD_STRIPECOUNT = Param::setting("lod.*.stripecount", "stripes", "1 (`stripe_count` of node.toml)", "1 to 2000, -1: one on each OST", "Stripes of a new file whose directory says nothing.");
    LOD_STRIPESIZE = Param::setting("lod.*.stripesize", "bytes", "4194304", "65536 to 4294901760, a multiple of 65536", "Stripe size of such a file.");
    LOD_DOM_DEFAULT = Param::setting("lod.*.dom_default", "bytes", "65536 (`dom_bytes` of node.toml)", "0 to 1048576, a multiple of 65536", "First bytes of a new file that live on the MDT if its directory says nothing; 0: none, and no more stripes beyond 1 GiB.");
    LOD_DOM_STRIPESIZE = Param::setting("lod.*.dom_stripesize", "bytes", "1048576", "0 to 1048576, a multiple of 65536", "Most of a file that may live on the MDT; layouts that ask for more are refused, and 0 lets none (docs/dom.md).");
    LOD_DOM_STRIPESIZE_MAX_KB = Param::setting("lod.*.dom_stripesize_max_kb", "KiB", "1024", "0 to 1024, a multiple of 64", "The same in KiB.");
    LOD_DOM_STRIPESIZE_CUR_KB = Param::shown("lod.*.dom_stripesize_cur_kb", "KiB", "What new files get at most: 0 while the MDT has less free space than `dom_threshold_free_mb`.");
    LOD_DOM_THRESHOLD = Param::setting("lod.*.dom_threshold_free_mb", "MiB", "half of the MDT", "0 to 2^44 - 1", "With less free space on the MDT new files get no part there; it is looked at every 5 s.");
    LOD_NUMOBD = Param::shown("lod.*.numobd", "targets", "OSTs that the MDT knows.");
    LOD_ACTIVEOBD = Param::gauge("lod.*.activeobd", "targets", "OSTs that get new objects.");
    LOD_TARGET_OBD = Param::shown("lod.*.target_obd", "", "OSTs by index, INACTIVE where an OST does not answer or was set aside.");

    LOD_POOLS = Param::shown("lod.*.pools.*", "", "OSTs of a pool as the MDT knows it, a line each.");

    OSP_ACTIVE = Param::setting("osp.*.active", "", "1", "0 or 1", "0: the OST gets no new objects from this MDT; those that it has stay in use.");
    OSP_MAX_RPCS_IN_FLIGHT = window("osp.*.max_rpcs_in_flight");
    OSP_CREATE_COUNT = precreate("osp.*.create_count");
    OSP_MAX_CREATE_COUNT = precreate("osp.*.max_create_count");
    OSP_DESTROYS_IN_FLIGHT = Param::shown("osp.*.destroys_in_flight", "objects", "Objects of removed files on this OST that it has not destroyed yet.");
    OSP_STATS = Param::counts("osp.*.stats", "Requests of this node's servers to the OST, whose session MDTs of one process share; in `osp.*-osp-MDT*` of an MDT to another one (`mds_peer_*`: parts of operations over several).");
    OSP_IMPORT = Param::shown("osp.*.import", "", "How the session with the OST, or the other MDT, stands, as YAML.");
    OSP_SRPC_INFO = srpc_info("osp.*.srpc_info");
    OSP_SRPC_CONTEXTS = srpc_contexts("osp.*.srpc_contexts");
    OSP_STATE = Param::shown("osp.*.state", "", "State of the session.");

    OBDFILTER_UUID = Param::shown("obdfilter.*.uuid", "", "UUID of the OST.");
    OBDFILTER_STATS = Param::counts("obdfilter.*.stats", "Operations that the OST served, with their times and data sizes.");
    OBDFILTER_BRW_STATS = Param::counts("obdfilter.*.brw_stats", "Data requests by pages and by how many were at work.");
    OBDFILTER_CHECKSUM_AT_REST = Param::setting("obdfilter.*.checksum_at_rest", "", "0", "0 or 1", "1: checksums of what is synced are recorded, and compared whenever data is read; what does not fit is EIO. 0: neither.");
    OBDFILTER_BACKFSTYPE = Param::shown("obdfilter.*.backfstype", "", "Where the data of the OST is: files, or volume.");
    OBDFILTER_BAD_BLOCKS = Param::shown("obdfilter.*.bad_blocks", "blocks", "Blocks of 4 KiB that were read from the volume and were not what was written; each is an EIO.");
    OBDFILTER_NUM_EXPORTS = Param::gauge("obdfilter.*.num_exports", "sessions", "Sessions of clients and MDTs.");
    OBDFILTER_EXPORT_UUID = Param::shown("obdfilter.*.exports.*.uuid", "", "UUIDs of the clients at this NID.");
    OBDFILTER_EVICT_CLIENT = Param::command("obdfilter.*.evict_client", "UUID of a client, or nid:NID", "Ends sessions. ENOENT: there is none.");
    OBDFILTER_ACTIVE = Param::gauge("obdfilter.*.req_active", "requests", "Requests that the OST works on.");
    OBDFILTER_TOT_GRANTED = Param::gauge("obdfilter.*.tot_granted", "bytes", "Space that clients of the OST's volume were granted.");
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
    OSD_NOTRANSNO = acts(Param::setting("osd-lmdb.*.notransno", "", "0", "1", "1: from now on nothing is committed; what is answered is lost when the process ends. Until it is started again."));
    OSD_LAST_COMMITTED = Param::shown("osd-lmdb.*.last_committed", "", "Newest transno that is durable.");

    MGS_LIVE = Param::shown("mgs.MGS.live.*", "", "Version, targets, persistent parameters and pools of a file system.");
    MGS_STATS = Param::counts("mgs.MGS.stats", "Requests that the MGS served.");
    MGS_KEYS = Param::shown("mgs.MGS.keys", "", "How far the keys of the cluster are, where its authority is, as YAML: authorities that hold, names with good keys, which of them have keys of the authority before only, and whose last key ends within 30 days.");
    MGS_AUTHORITIES = Param::gauge("mgs.MGS.authorities", "authorities", "Authorities whose keys are taken. 2: that before the newest was not withdrawn yet.");
    MGS_KEYS_BEHIND = Param::gauge("mgs.MGS.keys_behind", "names", "Names with good keys of the authority before only: without new ones they are shut out when it is withdrawn.");
    MGS_KEYS_ENDING = Param::gauge("mgs.MGS.keys_ending", "names", "Names whose last good key ends within 30 days: without new ones they are shut out then.");
    MGS_NUM_EXPORTS = Param::gauge("mgs.MGS.num_exports", "sessions", "Sessions of clients and servers.");
    MGS_EXPORT_UUID = Param::shown("mgs.MGS.exports.*.uuid", "", "UUIDs of the clients at this NID.");
}

/// Value that stands for doing something wherever it may be written.
const CLEAR: &str = "clear";

/// Why this value of a parameter is never kept, neither at the MGS nor in a file of a host; `None`:
/// it may be.
pub fn not_kept(param: &Param, value: &str) -> Option<&'static str> {
    if param.acts || value.trim() == CLEAR && !param.value_may_clear {
        return Some(
            "writing it does something at this moment, so it cannot be kept for later ones: set it without -P, where \
             it is to be done",
        );
    }
    None
}

/// As [`not_kept`], of every parameter that the pattern can mean, whatever its devices are called.
///
/// # Errors
/// The pattern is none.
pub fn pattern_not_kept(pattern: &str, value: &str) -> Result<Option<&'static str>, BadPattern> {
    let last = LastLevel::of(pattern)?;
    Ok(ALL.iter().filter(|param| last.may_be(param)).find_map(|param| not_kept(param, value)))
}

/// Every parameter that may be set and that the pattern can mean, as [`pattern_not_kept`] takes it.
///
/// # Errors
/// The pattern is none.
pub fn settable(pattern: &str) -> Result<impl Iterator<Item = &'static Param>, BadPattern> {
    let last = LastLevel::of(pattern)?;
    Ok(ALL.iter().filter(move |param| param.access.writable() && last.may_be(param)))
}

/// The table of `docs/parameters.md`.
pub fn markdown() -> String {
    let mut text = String::from(
        "| parameter | may be | unit | default | range | meaning |\n|---|---|---|---|---|---|\n",
    );
    for param in ALL {
        let Param { path, help, unit, default, range, governed, .. } = param;
        let said = format!("{help} {governed}");
        text += &format!(
            "| `{path}` | {} | {unit} | {default} | {range} | {} |\n",
            param.may_be(),
            said.trim()
        );
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
        assert_eq!(
            ALL.iter().map(|p| p.path).collect::<BTreeSet<_>>().len(),
            ALL.len(),
            "a path twice"
        );
        for param in ALL {
            let said = format!("{} {}", param.help, param.governed);
            assert!(said.trim_end().ends_with('.') && !said.contains('|'), "{}", param.path);
            assert_eq!(
                param.access == crate::param::Access::Explained,
                param.help.is_empty(),
                "{}",
                param.path
            );
            assert_eq!(param.access.writable(), !param.range.is_empty(), "{}", param.path);
            assert!(!param.gauge || !param.unit.is_empty(), "{}", param.path);
        }
    }

    #[test]
    fn what_is_done_at_once_is_not_kept() {
        let kept =
            |pattern: &str, value: &str| pattern_not_kept(pattern, value).map(|why| why.is_none());
        for pattern in [
            "lod.*.stripesize",
            "osc.sheen-OST0001-*.active",
            "debug",
            "osc/*/state",
            "mdt.*.job_cleanup_*",
        ] {
            assert_eq!(kept(pattern, "1"), Ok(true), "{pattern}");
            assert_eq!(kept(pattern, " clear\n"), Ok(false), "{pattern}");
        }
        let acts = [
            "fault",
            "fau?t",
            "fail_*",
            "*",
            "[f]ault",
            "{debug,fault}",
            "osd-lmdb.*.notransno",
            "osd-lmdb/sheen-OST0000/notransno",
            "mdt.*.evict_client",
            "mdt.*.exports.10.0.0.1@tcp.evict_client",
            "mdt.sheen-MDT0000.abort_recovery",
            "osc.*.{active,ping}",
            "*.*.*stats",
            "{osc.*.ping,debug}",
        ];
        for pattern in acts {
            assert_eq!(kept(pattern, "1"), Ok(false), "{pattern}");
        }
        assert!(kept("osc.[", "1").is_err());
        assert_eq!(kept("mdt.*.nosquash_nids", "clear"), Ok(true), "it is emptied, for good");
        assert_eq!(kept("mdt.*.{nosquash_nids,evict_client}", "clear"), Ok(false));
        let names: Vec<&str> =
            settable("mdt.*.*_squash").unwrap().map(|param| param.name()).collect();
        assert_eq!(names, ["root_squash", "all_squash"]);
        let (all, acting) =
            (ALL.iter().filter(|p| p.access.writable()), ALL.iter().filter(|p| p.acts));
        assert!(acting.clone().all(|p| p.access.writable()) && acting.count() < all.count());
    }

    /// Words of a text that are written as parameters are: `osc.*.checksums`, also with a device, a
    /// value, braces.
    fn named(text: &str) -> BTreeSet<String> {
        let first: BTreeSet<&str> =
            ALL.iter().filter_map(|p| p.path.split_once('.')).map(|(level, _)| level).collect();
        let inside = |c: char| c.is_ascii_alphanumeric() || "._-*?[]{},@<>".contains(c);
        let words =
            text.split(|c: char| !inside(c)).map(|word| word.trim_matches(['.', ',', '[', ']']));
        let is_one = |word: &&str| {
            word.matches('.').count() >= 2 && first.contains(word.split('.').next().unwrap())
        };
        words.filter(is_one).flat_map(without_braces).collect()
    }

    /// `a.{b,c}` is `a.b` and `a.c`.
    fn without_braces(word: &str) -> Vec<String> {
        match (word.find('{'), word.find('}')) {
            (Some(open), Some(close)) if open < close => word[open + 1..close]
                .split(',')
                .map(|part| format!("{}{part}{}", &word[..open], &word[close + 1..]))
                .flat_map(|word| without_braces(&word))
                .collect(),
            _ => vec![word.to_owned()],
        }
    }

    fn exists(word: &str) -> bool {
        let is = |param: &Param| {
            let (levels, words): (Vec<_>, Vec<_>) =
                (param.path.split('.').collect(), word.split('.').collect());
            // A NID has dots, and `...` in prose stands for any name.
            let device = words.len() > levels.len() && word.contains('@');
            let same = |(level, word): (&&str, &&str)| {
                *level == "*" || level == word || word.contains('*')
            };
            device || (levels.len() == words.len() && levels.iter().zip(&words).all(same))
        };
        ALL.iter().any(is)
    }

    #[test]
    fn every_parameter_that_a_document_names_exists() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
        let mut seen = 0;
        let mut missing = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            for word in named(&std::fs::read_to_string(&path).unwrap()) {
                seen += 1;
                if !exists(&word) {
                    missing.push(format!("{}: {word}", path.display()));
                }
            }
        }
        missing.sort();
        assert_eq!(missing, [""; 0]);
        assert!(seen > ALL.len() / 2, "only {seen} were recognized");
        assert!(!exists("osc.*.checksum") && !exists("lod.*.stripecnt"));
    }

    #[test]
    fn the_document_shows_these_tables() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/parameters.md");
        let text = std::fs::read_to_string(path).unwrap();
        let mut wanted = text.clone();
        for (mark, table) in [("parameters", markdown()), ("gauges", gauges_markdown())] {
            let (before, rest) =
                wanted.split_once(&format!("<!-- {mark} -->\n")).expect("a mark before the table");
            let (_, after) = rest
                .split_once(&format!("<!-- end of {mark} -->"))
                .expect("a mark behind the table");
            wanted = format!("{before}<!-- {mark} -->\n\n{table}\n<!-- end of {mark} -->{after}");
        }
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(path, wanted).unwrap();
        } else {
            assert_eq!(text, wanted, "docs/parameters.md is behind: BLESS=1 cargo test -p observe");
        }
    }
}
