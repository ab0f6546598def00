//! Every bound in one place, with its unit and its reason. A full queue is back-pressure, never
//! memory.

use std::time::Duration;

/// Longest symbolic link target, bytes (PATH_MAX - 1).
pub const SYMLINK_BYTES_MAX: usize = 4095;
/// Longest xattr name, bytes (XATTR_NAME_MAX).
pub const XATTR_NAME_BYTES_MAX: usize = 255;
/// Largest xattr value, bytes (XATTR_SIZE_MAX of Linux).
pub const XATTR_VALUE_BYTES_MAX: usize = 65536;
/// All xattr names of one inode together, bytes (XATTR_LIST_MAX of Linux).
pub const XATTR_LIST_BYTES_MAX: usize = 65536;
/// Hard links to one inode (as ext4's 65,000; keeps nlink away from overflow).
pub const LINKS_MAX: u32 = 65_000;
/// Supplementary groups that travel with a request (NGROUPS_MAX is 65,536; beyond this the first
/// ones travel).
pub const GROUPS_MAX: usize = 1024;
/// Changes of others that one answer of an MDT brings along, to be kept (docs/recovery.md, section
/// 2).
pub const REDO_OF_OTHERS_MAX: usize = 64;
/// Redo of other clients' changes that one reply carries, bytes.
pub const REDO_OF_OTHERS_BYTES_MAX: usize = 64 << 10;
/// The record of one operation over several MDTs, bytes: an inode with the largest ACLs, and the
/// reply to a request with other operations before.
pub const BUNDLE_BYTES_MAX: usize = 512 << 10;
/// What one such operation pins at one MDT: names, inodes, and directories above them.
pub const BUNDLE_PINS_MAX: usize = 4096;
/// MDTs that take part in one such operation.
pub const MDTS_PER_BUNDLE_MAX: usize = 1024;
/// Bytes of such records in one answer to a restarted MDT, about.
pub const BUNDLES_PER_REPLY_BYTES: usize = 1 << 20;
/// Such operations of one coordinator that are not finished: beyond it no other one begins.
pub const BUNDLES_OPEN_MAX: usize = 4096;
/// Operations in one request.
pub const OPS_PER_REQUEST_MAX: usize = 4096;
/// Body of one message, bytes: the largest bulk request (16 MiB) and its structs.
pub const MESSAGE_BYTES_MAX: usize = (16 << 20) + (256 << 10);
/// Data of one read or write operation, bytes.
pub const BULK_BYTES_MAX: usize = 16 << 20;
/// Directory entries in one readdir reply: some 6 MB of names.
pub const READDIR_ENTRIES_MAX: usize = 131_072;
/// Inodes whose attributes one reply brings: some 6 MB.
pub const INODES_PER_REPLY_MAX: usize = 32_768;
/// Stripes of one component (LOV_MAX_STRIPE_COUNT).
pub const STRIPES_MAX: usize = 2000;
/// Components of one layout.
pub const COMPONENTS_MAX: usize = 64;
/// Encoded layout, bytes.
pub const LAYOUT_BYTES_MAX: usize = 65536;
/// Smallest stripe, bytes (LOV_MIN_STRIPE_SIZE).
pub const STRIPE_BYTES_MIN: u64 = 64 << 10;
/// Largest stripe, bytes (fits u32 of Lustre's binary form).
pub const STRIPE_BYTES_MAX: u64 = 0xffff_0000;
/// Largest part of a file on its MDT, bytes (`dom_stripesize_max_kb` = 1024).
pub const DOM_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a file on its MDT that one record has: few, so that a small write costs little; many,
/// so that a file costs few.
pub const DOM_CHUNK_BYTES: usize = 16 << 10;
/// Ranges of bytes that one request stores in a file on its MDT: a page of single bytes, and as
/// many again.
pub const DOM_PIECES_MAX: usize = 8192;
/// Largest file, bytes: i64::MAX, what the kernel's `loff_t` can say.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;
/// TCP connections per peer over a short line: one for control, the rest for bulk.
pub const LINKS_PER_PEER: usize = 3;
/// Networks that one process is on.
pub const NETS_MAX: usize = 16;
/// Routers on the way from one node to another.
pub const HOPS_MAX: u16 = 4;
/// Circuits of one router: connections that it forwards.
pub const CIRCUITS_MAX: usize = 2048;
/// Circuits of one router from one address: half is always left to the others.
pub const CIRCUITS_PER_ADDRESS_MAX: usize = CIRCUITS_MAX / 2;
/// Routes of one process.
pub const ROUTES_MAX: usize = 256;
/// NIDs of one node, at most.
pub const PEER_NIDS_MAX: usize = 16;
/// TCP connections per peer over the longest lines: each carries a window per round trip.
pub const LINKS_PER_PEER_MAX: usize = 17;
/// Requests in flight to one peer, before the window grows.
pub const REQUESTS_IN_FLIGHT_INITIAL: usize = 64;
/// Requests in flight to one peer, at most.
pub const REQUESTS_IN_FLIGHT_MAX: usize = 4096;
/// Requests of one connection that a server works on at once; beyond it reading stops (TCP pushes
/// back).
pub const REQUESTS_PER_LINK_MAX: usize = 1024;
/// Connections that one server accepts.
pub const LINKS_ACCEPTED_MAX: usize = 65_536;
/// Longest frame on an accepted connection without a session, bytes: a connect request fits.
pub const FRAME_BYTES_BEFORE_SESSION_MAX: usize = 4 << 10;
/// An accepted connection that has no session after this time is closed.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(5);
/// Accepted connections without a session. One more ends the oldest.
pub const LINKS_BEFORE_SESSION_MAX: usize = 1024;
/// Accepted connections without a session from one address. One more closes the oldest of that
/// address.
pub const LINKS_BEFORE_SESSION_PER_ADDRESS_MAX: usize = 64;
/// Accepted connections of one process: `LINKS_PER_PEER_MAX` for each of a few addresses of this
/// server, plus earlier connections whose loss was not noticed yet. One more closes the oldest.
pub const LINKS_PER_PROCESS_MAX: usize = 64;
/// Longest frame that needs no room in the receive memory, bytes: what travels on control links,
/// and any answer to a callback (`REVOKES_PER_CALLBACK_MAX` entries of 24 bytes).
pub const FRAME_BYTES_SMALL: usize = 128 << 10;
/// Receive memory of a process, bytes: longer requests that arrive or are at work.
pub const RECEIVE_BYTES_MAX: usize = 128 << 20;
/// Receive memory that requests from one address hold, bytes: half is always left to the others.
pub const RECEIVE_BYTES_PER_ADDRESS_MAX: usize = RECEIVE_BYTES_MAX / 2;
/// A request that holds receive memory must arrive at this rate, bytes per second; else its
/// connection is closed.
pub const RECEIVE_RATE_MIN: usize = 128 << 10;
/// Time for a TCP connection and its hello.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A request without an answer for this long fails with ETIMEDOUT (lock waits excepted).
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(100);
/// Interval of pings on an idle session.
pub const PING_INTERVAL: Duration = Duration::from_secs(5);
/// A client unheard of for this long is evicted.
pub const LEASE: Duration = Duration::from_secs(30);
/// Age at which an open group is committed without a request.
pub const COMMIT_INTERVAL: Duration = Duration::from_millis(50);
/// Bytes of an open group at which a commit starts without waiting for the interval.
pub const GROUP_BYTES_SOFT: usize = 8 << 20;
/// Bytes of open and frozen groups together at which new operations wait for a commit.
pub const GROUP_BYTES_HARD: usize = 64 << 20;
/// Journal size, bytes: how far the tree may lag behind the journal.
pub const JOURNAL_BYTES: u64 = 64 << 20;
/// Open file handles of one client at one MDT.
pub const OPENS_PER_CLIENT_MAX: usize = 1 << 20;
/// fcntl and flock locks of one inode, held and waited for; beyond it ENOLCK.
pub const FLOCKS_PER_RESOURCE_MAX: usize = 65_536;
/// Leases at one MDT, or of one mount; beyond it ENOLCK.
pub const LEASES_MAX: usize = 1 << 20;
/// Clients that one MDT has evicted and that have not come back, as it and the OSTs remember them.
/// Beyond it the oldest are forgotten.
pub const FENCED_MAX: usize = 4096;
/// Clients of one target.
pub const CLIENTS_MAX: usize = 16_384;
/// Sessions with one target of all clients at one address, for example behind one NAT. It is a
/// quarter of all places, so no single address shuts the others out.
pub const SESSIONS_PER_ADDRESS_MAX: usize = CLIENTS_MAX / 4;
/// Sessions with one target of all clients that show one key, unless it is that of a server.
pub const SESSIONS_PER_KEY_MAX: usize = 64;
/// Stripes of directories that have the next name, on the way to a directory that is mounted. Each
/// directory on it has one, and more while it is being split.
pub const STRIPES_ON_THE_WAY_MAX: usize = 4096;
/// Inodes that one answer to a mark of a realm names: the directories in a batch of names, and the
/// stripes of the directory itself.
pub const MARKED_CHILDREN_MAX: usize = 512;
/// Stripes of a directory: the parts of the operation that makes or changes one are one record
/// ([`BUNDLE_BYTES_MAX`]).
pub const DIR_STRIPES_MAX: usize = 128;
/// Targets of one kind in a file system.
pub const TARGETS_MAX: usize = 4096;
/// Files in one request for tickets of objects, and tickets that are shown at once.
pub const TICKETS_PER_OP_MAX: usize = 1024;
/// Files whose tickets an OST remembers for one session, and a client of all that it was given.
/// Beyond it those are forgotten that were not used for the longest.
pub const SHOWN_TICKETS_MAX: usize = 65_536;
/// Objects in one Destroy or Sync operation (24 bytes each).
pub const OBJECTS_PER_OP_MAX: usize = 65_536;
/// Spans of one map of ids of a nodemap.
pub const ID_SPANS_MAX: usize = 8192;
/// Spans of users that a client is told to be known: those of a map, and root (8 bytes each).
pub const KNOWN_USERS_MAX: usize = ID_SPANS_MAX + 1;
/// Inodes in one Revoke callback (20 bytes each).
pub const REVOKES_PER_CALLBACK_MAX: usize = 4096;
/// Locks that one reply grants, and inodes that it describes beside the results. In the largest
/// listing each entry may be granted twice (again when its writer gave WRITE back), and the
/// directory once for some hundred entries.
pub const GRANTS_PER_REPLY_MAX: usize = 3 * INODES_PER_REPLY_MAX;
/// Space that one OST grants to one client, bytes: four times what a client keeps dirty for one
/// OST.
pub const GRANT_PER_CLIENT_MAX: u64 = 256 << 20;
/// Unit of granted space, bytes: the block of the local file system.
pub const GRANT_UNIT: u64 = 4096;
/// Object files that the targets of a process keep open, for each of them, if its limit of
/// descriptors allows.
pub const OBJECT_FILES_OPEN_MAX: usize = 512;
/// Object files with unsynced data that are remembered by name; beyond it the whole volume is
/// synced.
pub const OBJECT_FILES_UNSYNCED_MAX: usize = 65_536;
/// Unsynced object files up to which each is synced by itself; beyond it one syncfs costs less.
pub const OBJECT_FILES_SYNCED_ONE_BY_ONE: usize = 32;
/// Inode-bit locks of one client at one MDT (one lock: one inode), about 150 bytes of memory each.
/// A client keeps half of these, so it knows a directory of 100,000 files as a whole. The other
/// half is for what is on its way: far away, a listing brings some 65,536 locks in one round trip,
/// and as many others are being given up.
pub const IBITS_LOCKS_PER_CLIENT_MAX: usize = 3 << 17;
/// Inode-bit locks at one MDT in all: 150 MiB.
pub const IBITS_LOCKS_MAX: usize = 1 << 20;
/// Ranges of absent names, of one client in one directory, about 100 bytes each.
pub const GAPS_PER_DIRECTORY_MAX: usize = 16;
/// Clients and directories at one MDT with such ranges.
pub const GAPS_MAX: usize = 1 << 16;
/// Files of an MDT that are shared by several writers at the same time.
pub const SHARED_FILES_MAX: usize = 4096;
/// Extents of one file that one of its shared writers may hold; each is 16 bytes at both ends.
pub const EXTENTS_PER_HOLDER_MAX: usize = 512;
/// Extents that one reply grants: the one needed, and the next pieces for a client that works in
/// equal steps.
pub const EXTENTS_PER_REPLY_MAX: usize = 17;
/// Longest key of a record, bytes.
pub const RECORD_KEY_BYTES_MAX: usize = 511;
/// Longest record that a checker reads, bytes: an inode with layouts, an extended attribute.
pub const RECORD_VALUE_BYTES_MAX: usize = 256 << 10;
/// Bytes of records of a tree that travel at once, about: one record may be longer.
pub const TREE_PAGE_BYTES: usize = 1 << 20;
/// Records in one answer to a checker.
pub const RECORDS_PER_SCAN_MAX: usize = 16_384;
/// Records of each kind (seen, to be) in one repair.
pub const RECORDS_PER_MEND_MAX: usize = 64;
/// Objects in one answer to a checker.
pub const OBJECTS_PER_LIST_MAX: usize = 16_384;
