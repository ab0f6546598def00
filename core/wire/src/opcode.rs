//! One row per operation: its number, its name, who sends it, does it change state, is it replayed.
//!
//! Dispatch, statistics and documentation read this table. The macro makes the match over the enums from the rows
//! themselves: a variant without a row, or with two, does not compile. Numbers are never reused.

use crate::client::{ClientOp, ClientReply};
use crate::mds::{MdsOp, MdsReply};
use crate::message::{Op, OpReply};
use crate::mgs::MgsOp;
use crate::ost::{OstOp, OstReply};

/// Who sends an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Sender {
    /// Clients.
    Client,
    /// Servers.
    Server,
    /// Both.
    Both,
}

/// One operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Number on the wire.
    pub number: u16,
    /// Name in statistics.
    pub name: &'static str,
    /// Who sends it.
    pub sender: Sender,
    /// Changes what the receiver keeps (memory of sessions, opens and locks included).
    pub changes: bool,
    /// The sender keeps it until its change is durable, and sends it again to a restarted server. Not so where the
    /// answer itself means durable, or where the state is rebuilt in another way (sessions, locks).
    pub replayed: bool,
}

macro_rules! operations {
    ($($number:literal $const:ident $name:literal $sender:ident $changes:ident $replayed:ident $pattern:pat,)*) => {
        $(#[doc = concat!("Number of `", $name, "`.")] pub const $const: u16 = $number;)*

        /// All operations, by number.
        pub const ROWS: &[Row] = &[$(Row {
            number: $number,
            name: $name,
            sender: Sender::$sender,
            changes: operations!(@ $changes),
            replayed: operations!(@ $replayed),
        }),*];

        /// Number of an operation.
        #[deny(unreachable_patterns)]
        pub const fn number(op: &Op) -> u16 {
            match op { $($pattern => $const),* }
        }
    };
    (@ reads) => { false };
    (@ changes) => { true };
    (@ once) => { false };
    (@ replayed) => { true };
}

operations! {
    0x0001 CONNECT "connect" Both   changes once     Op::Connect(_),
    0x0002 DISCONNECT "disconnect" Both   changes once     Op::Disconnect,
    0x0003 PING "ping" Both   reads   once     Op::Ping,
    0x0004 REPLAY "replay" Client reads   once     Op::Replay(_),
    0x0005 REPLAYED "replayed" Client reads   once     Op::Replayed,
    0x0006 RESTORED "restored" Client reads   once     Op::Restored,

    0x0101 MGS_REGISTER "mgs_register" Server changes once     Op::Mgs(MgsOp::Register { .. }),
    0x0102 MGS_UNREGISTER "mgs_unregister" Server changes once     Op::Mgs(MgsOp::Unregister { .. }),
    0x0103 MGS_CONFIG "mgs_config" Both   reads   once     Op::Mgs(MgsOp::Config { .. }),
    0x0104 MGS_SET_PARAM "mgs_set_param" Client changes once     Op::Mgs(MgsOp::SetParam { .. }),
    0x0105 MGS_CLIENTS "mgs_clients" Client reads   once     Op::Mgs(MgsOp::Clients),
    0x0106 MGS_POOL "mgs_pool" Client changes once     Op::Mgs(MgsOp::Pool { .. }),
    0x0107 MGS_REPORT "mgs_report" Both   changes once     Op::Mgs(MgsOp::Report(_)),
    0x0108 MGS_REPORTS "mgs_reports" Both   reads   once     Op::Mgs(MgsOp::Reports),
    0x0109 MGS_REMOVE "mgs_remove" Client changes once     Op::Mgs(MgsOp::Remove { .. }),

    0x0201 MDS_LOOKUP "mds_lookup" Client reads   once     Op::Mds(MdsOp::Lookup { .. }),
    0x0202 MDS_GET_PARENT "mds_get_parent" Client reads   once     Op::Mds(MdsOp::GetParent { .. }),
    0x0203 MDS_GETATTR "mds_getattr" Client reads   once     Op::Mds(MdsOp::Getattr { .. }),
    0x0204 MDS_GETATTR_MANY "mds_getattr_many" Client reads   once     Op::Mds(MdsOp::GetattrMany { .. }),
    0x0205 MDS_SETATTR "mds_setattr" Client changes replayed Op::Mds(MdsOp::Setattr { .. }),
    0x0206 MDS_CREATE "mds_create" Client changes replayed Op::Mds(MdsOp::Create { .. }),
    0x0207 MDS_OPEN "mds_open" Client changes replayed Op::Mds(MdsOp::Open { .. }),
    0x0208 MDS_CLOSE "mds_close" Client changes replayed Op::Mds(MdsOp::Close { .. }),
    0x0209 MDS_UNLINK "mds_unlink" Client changes replayed Op::Mds(MdsOp::Unlink { .. }),
    0x020a MDS_RMDIR "mds_rmdir" Client changes replayed Op::Mds(MdsOp::Rmdir { .. }),
    0x020b MDS_RENAME "mds_rename" Client changes replayed Op::Mds(MdsOp::Rename { .. }),
    0x020c MDS_LINK "mds_link" Client changes replayed Op::Mds(MdsOp::Link { .. }),
    0x020d MDS_READDIR "mds_readdir" Client reads   once     Op::Mds(MdsOp::Readdir { .. }),
    0x020e MDS_READLINK "mds_readlink" Client reads   once     Op::Mds(MdsOp::Readlink { .. }),
    0x020f MDS_GETXATTR "mds_getxattr" Client reads   once     Op::Mds(MdsOp::Getxattr { .. }),
    0x0210 MDS_LISTXATTR "mds_listxattr" Client reads   once     Op::Mds(MdsOp::Listxattr { .. }),
    0x0211 MDS_SETXATTR "mds_setxattr" Client changes replayed Op::Mds(MdsOp::Setxattr { .. }),
    0x0212 MDS_REMOVEXATTR "mds_removexattr" Client changes replayed Op::Mds(MdsOp::Removexattr { .. }),
    0x0213 MDS_GET_LAYOUT "mds_get_layout" Client changes replayed Op::Mds(MdsOp::GetLayout { .. }),
    0x0214 MDS_WROTE "mds_wrote" Client changes replayed Op::Mds(MdsOp::Wrote { .. }),
    0x0215 MDS_APPEND "mds_append" Client changes replayed Op::Mds(MdsOp::Append { .. }),
    0x0216 MDS_STATFS "mds_statfs" Client reads   once     Op::Mds(MdsOp::Statfs),
    0x0217 MDS_SYNC "mds_sync" Client reads   once     Op::Mds(MdsOp::Sync),
    0x0218 MDS_FLOCK_TEST "mds_flock_test" Client reads   once     Op::Mds(MdsOp::FlockTest { .. }),
    0x0219 MDS_FLOCK_SET "mds_flock_set" Client changes once     Op::Mds(MdsOp::FlockSet { .. }),
    0x021a MDS_FLOCK_CANCEL "mds_flock_cancel" Client changes once     Op::Mds(MdsOp::FlockCancel { .. }),
    0x021b MDS_LOCK "mds_lock" Client changes once     Op::Mds(MdsOp::Lock { .. }),
    0x021c MDS_UNLOCK "mds_unlock" Client changes once     Op::Mds(MdsOp::Unlock { .. }),
    0x021d MDS_READ "mds_read" Client reads   once     Op::Mds(MdsOp::Read { .. }),
    0x021e MDS_WRITE "mds_write" Client changes replayed Op::Mds(MdsOp::Write { .. }),
    0x021f MDS_PUNCH "mds_punch" Client changes replayed Op::Mds(MdsOp::Punch { .. }),
    0x0220 MDS_SWAP_LAYOUTS "mds_swap_layouts" Client changes once     Op::Mds(MdsOp::SwapLayouts { .. }),
    0x0221 MDS_SEEK "mds_seek" Client reads   once     Op::Mds(MdsOp::Seek { .. }),
    0x0222 MDS_LEASE "mds_lease" Client changes once     Op::Mds(MdsOp::Lease { .. }),
    0x0223 MDS_TMPFILE "mds_tmpfile" Client changes replayed Op::Mds(MdsOp::Tmpfile { .. }),
    0x0280 MDS_SCAN "mds_scan" Client reads   once     Op::Mds(MdsOp::Scan { .. }),
    0x0281 MDS_MEND "mds_mend" Client changes once     Op::Mds(MdsOp::Mend { .. }),

    0x0301 OST_READ "ost_read" Client reads   once     Op::Ost(OstOp::Read { .. }),
    0x0302 OST_WRITE "ost_write" Client changes replayed Op::Ost(OstOp::Write { .. }),
    0x0303 OST_PUNCH "ost_punch" Both   changes replayed Op::Ost(OstOp::Punch { .. }),
    0x0304 OST_GETATTR "ost_getattr" Both   reads   once     Op::Ost(OstOp::Getattr { .. }),
    0x0305 OST_SEEK "ost_seek" Client reads   once     Op::Ost(OstOp::Seek { .. }),
    0x0306 OST_DESTROY "ost_destroy" Server changes once     Op::Ost(OstOp::Destroy { .. }),
    0x0307 OST_SYNC "ost_sync" Both   reads   once     Op::Ost(OstOp::Sync { .. }),
    0x0308 OST_STATFS "ost_statfs" Both   reads   once     Op::Ost(OstOp::Statfs),
    0x0309 OST_GRANT "ost_grant" Client changes once     Op::Ost(OstOp::Grant { .. }),
    0x0380 OST_LIST "ost_list" Client reads   once     Op::Ost(OstOp::List { .. }),

    0x0401 CLIENT_REVOKE "client_revoke" Server changes once     Op::Client(ClientOp::Revoke { .. }),
    0x0402 CLIENT_CHANGING "client_changing" Server changes once     Op::Client(ClientOp::Changing { .. }),
    0x0403 CLIENT_GLIMPSE "client_glimpse" Server reads   once     Op::Client(ClientOp::Glimpse { .. }),
    0x0404 CLIENT_REVOKE_EXTENTS "client_revoke_extents" Server changes once     Op::Client(ClientOp::RevokeExtents { .. }),
}

/// The row with this number.
pub fn row(number: u16) -> Option<&'static Row> {
    ROWS.binary_search_by_key(&number, |row| row.number).ok().map(|at| &ROWS[at])
}

/// The row with this name.
pub fn by_name(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

/// The row of an operation.
pub fn of(op: &Op) -> &'static Row {
    row(number(op)).expect("the macro makes the row and the number together")
}

macro_rules! replies {
    ($($number:literal $const:ident $name:literal $pattern:pat,)*) => {
        /// Numbers of the forms of answers.
        pub mod answer {
            $(#[doc = concat!("Number of `", $name, "`.")] pub const $const: u16 = $number;)*
        }

        /// Forms of answers: (number, name), by number. 0 is a failed operation.
        pub const REPLIES: &[(u16, &str)] = &[$(($number, $name)),*];

        /// Number of the form of an answer.
        #[deny(unreachable_patterns)]
        pub const fn reply_number(reply: &OpReply) -> u16 {
            match reply { $($pattern => answer::$const),* }
        }
    };
}

replies! {
    0x0001 DONE "done" OpReply::Done,
    0x0002 CONNECT "connect" OpReply::Connect(_),

    0x0101 MGS "mgs" OpReply::Mgs(_),

    0x0201 MDS_DONE "mds_done" OpReply::Mds(MdsReply::Done),
    0x0202 MDS_ENTRY "mds_entry" OpReply::Mds(MdsReply::Entry(_)),
    0x0203 MDS_OPENED "mds_opened" OpReply::Mds(MdsReply::Opened { .. }),
    0x0204 MDS_ATTRS "mds_attrs" OpReply::Mds(MdsReply::Attrs(_)),
    0x0205 MDS_ENTRIES "mds_entries" OpReply::Mds(MdsReply::Entries { .. }),
    0x0206 MDS_BYTES "mds_bytes" OpReply::Mds(MdsReply::Bytes(_)),
    0x0207 MDS_LAYOUT "mds_layout" OpReply::Mds(MdsReply::Layout(_)),
    0x0208 MDS_APPENDED "mds_appended" OpReply::Mds(MdsReply::Appended { .. }),
    0x0209 MDS_REMOVED "mds_removed" OpReply::Mds(MdsReply::Removed(_)),
    0x020a MDS_STATFS "mds_statfs" OpReply::Mds(MdsReply::Statfs(_)),
    0x020b MDS_FLOCK "mds_flock" OpReply::Mds(MdsReply::Flock(_)),
    0x020c MDS_DATA "mds_data" OpReply::Mds(MdsReply::Data { .. }),
    0x020d MDS_OFFSET "mds_offset" OpReply::Mds(MdsReply::Offset(_)),
    0x020e MDS_LEASE "mds_lease" OpReply::Mds(MdsReply::Lease(_)),
    0x020f MDS_EXTENTS "mds_extents" OpReply::Mds(MdsReply::Extents { .. }),
    0x0280 MDS_RECORDS "mds_records" OpReply::Mds(MdsReply::Records { .. }),

    0x0301 OST_DONE "ost_done" OpReply::Ost(OstReply::Done),
    0x0302 OST_DATA "ost_data" OpReply::Ost(OstReply::Data(_)),
    0x0303 OST_CHANGED "ost_changed" OpReply::Ost(OstReply::Changed { .. }),
    0x0304 OST_ATTR "ost_attr" OpReply::Ost(OstReply::Attr { .. }),
    0x0305 OST_OFFSET "ost_offset" OpReply::Ost(OstReply::Offset(_)),
    0x0306 OST_STATFS "ost_statfs" OpReply::Ost(OstReply::Statfs(_)),
    0x0307 OST_GRANTED "ost_granted" OpReply::Ost(OstReply::Granted { .. }),
    0x0380 OST_OBJECTS "ost_objects" OpReply::Ost(OstReply::Objects { .. }),

    0x0401 CLIENT_DONE "client_done" OpReply::Client(ClientReply::Done),
    0x0402 CLIENT_KEPT "client_kept" OpReply::Client(ClientReply::Kept(_)),
    0x0403 CLIENT_DROPPED "client_dropped" OpReply::Client(ClientReply::Dropped),
    0x0404 CLIENT_GLIMPSES "client_glimpses" OpReply::Client(ClientReply::Glimpses(_)),
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_and_names_are_unique_and_in_order() {
        assert!(ROWS.is_sorted_by(|a, b| a.number < b.number));
        assert_eq!(ROWS.iter().map(|r| r.name).collect::<BTreeSet<_>>().len(), ROWS.len());
        assert!(REPLIES.is_sorted_by(|a, b| a.0 < b.0));
        assert!(ROWS[0].number > 0 && REPLIES[0].0 > 0, "0 is a failed operation");
    }

    #[test]
    fn both_look_ups_lead_back() {
        for r in ROWS {
            assert_eq!(row(r.number), Some(r));
            assert_eq!(by_name(r.name), Some(r));
        }
        assert_eq!(row(0xffff), None);
        assert_eq!(of(&Op::Ping).name, "ping");
    }

    #[test]
    fn only_changes_are_replayed() {
        assert!(ROWS.iter().all(|r| r.changes || !r.replayed));
    }

    /// The tables as `docs/formats.md` shows them.
    fn tables() -> String {
        let yes = |b: bool| if b { "yes" } else { "" };
        let mut text = String::from("| number | operation | sent by | changes | replayed |\n|---|---|---|---|---|\n");
        for Row { number, name, sender, changes, replayed } in ROWS {
            let sender = match sender {
                Sender::Client => "clients",
                Sender::Server => "servers",
                Sender::Both => "both",
            };
            text += &format!("| `{number:#06x}` | {name} | {sender} | {} | {} |\n", yes(*changes), yes(*replayed));
        }
        text += "\n| number | form of the answer |\n|---|---|\n";
        REPLIES.iter().for_each(|(number, name)| text += &format!("| `{number:#06x}` | {name} |\n"));
        text
    }

    #[test]
    fn the_documents_show_these_tables() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (before, rest) = text.split_once("<!-- operations -->\n").expect("a mark before the tables");
        let (shown, after) = rest.split_once("<!-- end of operations -->").expect("a mark behind the tables");
        let wanted = format!("\n{}\n", tables());
        if std::env::var_os("BLESS").is_some() {
            let text = format!("{before}<!-- operations -->\n{wanted}<!-- end of operations -->{after}");
            std::fs::write(path, text).unwrap();
        } else {
            assert_eq!(shown, wanted, "docs/formats.md is behind: BLESS=1 cargo test -p wire");
        }
    }
}
