//! One row per operation: its number, its name, its sender, its class.
//!
//! A class is the statistic of the operation and words that [`Class`] explains; without a word an
//! operation reads. Dispatch, statistics and documentation read this table. The macro makes the
//! match over the enums from the rows themselves: a variant without a row, or with two, does not
//! compile. Numbers are never reused.

use crate::class::{Class, Counted};
use crate::client::{ClientOp, ClientReply};
use crate::codec::cursor::{Bulk, Reader, Writer};
use crate::codec::error::DecodeError;
use crate::codec::operation::{Operation, plain};
use crate::mds::attributes::*;
use crate::mds::check::*;
use crate::mds::data::*;
use crate::mds::layouts::*;
use crate::mds::locks::*;
use crate::mds::names::*;
use crate::mds::opens::*;
use crate::mds::peers::*;
use crate::mds::realm::PeerMark;
use crate::mds::reply::MdsReply;
use crate::mds::root::Root;
use crate::mds::tickets::AskTickets;
use crate::message::{Op, OpReply};
use crate::mgs::MgsOp;
use crate::ost::operations::*;
use crate::ost::reply::OstReply;
use types::fid::Fid;
use types::name::Name;
use types::principal::Role;

/// The sender of an operation: what a session must be for the target to do it.
/// [`Sender::admits`] is the one table of roles and operations; `rpc` asks it for every request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Sender {
    /// Clients.
    Client,
    /// Servers only.
    Server,
    /// Clients and servers.
    Both,
    /// The owner of a target, by the UUID of its store: the operation carries its own proof.
    Owner,
    /// Administrators: root on the host of a server, through that server or with its key; where
    /// keys are asked for, also a host with a key of an administrator.
    Admin,
    /// All but clients. Where no keys are asked for, a server that has not registered yet is as
    /// anonymous as a client, so that anyone may send it there.
    NotClient,
}

impl Sender {
    /// True if a session of this role may send it.
    pub const fn admits(self, role: Role) -> bool {
        match (self, role) {
            (_, Role::Server) | (Sender::Client | Sender::Both, _) => true,
            // Where hosts have keys, owning a store is not enough.
            (Sender::Owner, role) => matches!(role, Role::Anonymous),
            (Sender::Admin, role) => matches!(role, Role::Administrator),
            (Sender::NotClient, role) => !matches!(role, Role::Client),
            (Sender::Server, _) => false,
        }
    }
}

/// One operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Number on the wire.
    pub number: u16,
    /// Name in statistics.
    pub name: &'static str,
    /// Its sender.
    pub sender: Sender,
    /// Class of its most demanding form ([`Op::class`] is that of one operation).
    pub class: Class,
}

macro_rules! row {
    ($const:ident $name:literal $sender:ident $counted:ident $($word:ident)*) => {
        Row {
            number: $const,
            name: $name,
            sender: Sender::$sender,
            class: Class::reads(Counted::$counted)$(.$word())*,
        }
    };
}

/// The enum of the operations of one target, made from their structs.
macro_rules! enumerated {
    (
        $(#[$about:meta])* $ops:ident {
            $($mc:ident $variant:ident($struct:ident),)*
            @plain
            $($(#[$doc:meta])* $uc:ident $unit:ident,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, Debug)]
        pub enum $ops {
            $(#[doc = concat!("See [`struct@", stringify!($struct), "`].")] $variant($struct),)*
            $($(#[$doc])* $unit,)*
        }

        impl $ops {
            /// Its row.
            pub const fn row(&self) -> &'static Row {
                match self {
                    $($ops::$variant(_) => const { row_of($mc) },)*
                    $($ops::$unit => const { row_of($uc) },)*
                }
            }

            /// Its class.
            pub fn class(&self) -> Class {
                match self {
                    $($ops::$variant(op) => op.class(self.row().class),)*
                    $($ops::$unit => self.row().class,)*
                }
            }

            /// The inode that it is mainly about: the directory of a name, else the inode itself.
            /// NONE: there is no such, or there are many.
            pub fn fid(&self) -> Fid {
                match self {
                    $($ops::$variant(op) => op.fid(),)*
                    $($ops::$unit => Fid::NONE,)*
                }
            }

            /// Bytes of data to expect with the reply, about.
            pub fn reply_bytes(&self) -> usize {
                match self {
                    $($ops::$variant(op) => op.reply_bytes(),)*
                    $($ops::$unit => 0,)*
                }
            }

            pub(crate) fn encode(&self, w: &mut Writer) {
                match self {
                    $($ops::$variant(op) => w.op($mc, op.flags(), |w| op.put(w)),)*
                    $($ops::$unit => w.op($uc, 0, |_| ()),)*
                }
            }

            pub(crate) fn decode(
                number: u16,
                flags: u16,
                r: &mut Reader<'_>,
                bulk: &mut Bulk,
            ) -> Result<$ops, DecodeError> {
                match number {
                    $($mc => $struct::get(flags, r, bulk).map($ops::$variant),)*
                    $($uc => plain(flags).map(|()| $ops::$unit),)*
                    number => Err(DecodeError::UnknownOp { number }),
                }
            }

            /// One of each, in the order of their numbers.
            #[cfg(test)]
            pub(crate) fn samples() -> Vec<$ops> {
                let mut all = vec![
                    $($ops::$variant($struct::sample()),)*
                    $($ops::$unit,)*
                ];
                all.sort_by_key(|op| op.row().number);
                all
            }

            /// Any operation.
            #[cfg(test)]
            pub(crate) fn any() -> impl proptest::strategy::Strategy<Value = $ops> {
                use proptest::strategy::{Just, Strategy, Union};
                Union::new([
                    $($struct::any().prop_map($ops::$variant).boxed(),)*
                    $(Just($ops::$unit).boxed(),)*
                ])
            }
        }
    };
}

/// Methods of operations that are about inodes and names.
macro_rules! of_names {
    ($ops:ident { $($variant:ident,)* @plain $($unit:ident,)* }) => {
        impl $ops {
            /// Calls `each` with every FID that may be a `Fid::result_of(n)`, until one fails.
            ///
            /// # Errors
            /// The first error of `each`.
            pub fn try_each_fid<E>(&mut self, each: impl FnMut(&mut Fid) -> Result<(), E>) -> Result<(), E> {
                match self {
                    $($ops::$variant(op) => op.try_each_fid(each),)*
                    $($ops::$unit => Ok(()),)*
                }
            }

            /// The name that it makes, or makes lead elsewhere.
            pub fn name_made(&self) -> Option<(Fid, &Name)> {
                match self {
                    $($ops::$variant(op) => op.name_made(),)*
                    $($ops::$unit => None,)*
                }
            }

            /// The names that it takes, makes, or makes lead elsewhere.
            pub fn names_changed(&self) -> impl Iterator<Item = (Fid, &Name)> {
                let taken = match self {
                    $($ops::$variant(op) => op.name_taken(),)*
                    $($ops::$unit => None,)*
                };
                taken.into_iter().chain(self.name_made())
            }
        }
    };
}

/// Operations on objects name no inode by the result of an earlier operation, and no names.
macro_rules! of_objects {
    ($($any:tt)*) => {};
}

macro_rules! operations {
    (
        $($number:literal $const:ident $name:literal $sender:ident [$($words:ident)*] $pattern:pat,)*
        $($target:ident $ops:ident {
            $($n:literal $c:ident $text:literal $from:ident [$($w:ident)*] $pat:pat,)*
        })*
        @structs
        $($(#[$about:meta])* $starget:ident $sops:ident $kind:ident {
            $($mn:literal $mc:ident $mtext:literal $mfrom:ident [$($mw:ident)*] $variant:ident($struct:ident),)*
            @plain
            $($(#[$doc:meta])* $un:literal $uc:ident $utext:literal $ufrom:ident [$($uw:ident)*] $unit:ident,)*
        })*
    ) => {
        $(#[doc = concat!("Number of `", $name, "`.")] pub const $const: u16 = $number;)*
        $($(#[doc = concat!("Number of `", $text, "`.")] pub const $c: u16 = $n;)*)*
        $($(#[doc = concat!("Number of `", $mtext, "`.")] pub const $mc: u16 = $mn;)*)*
        $($(#[doc = concat!("Number of `", $utext, "`.")] pub const $uc: u16 = $un;)*)*

        /// All operations, by number.
        pub const ROWS: &[Row] = &by_number([
            $(row!($const $name $sender $($words)*),)*
            $($(row!($c $text $from $($w)*),)*)*
            $($(row!($mc $mtext $mfrom $($mw)*),)*)*
            $($(row!($uc $utext $ufrom $($uw)*),)*)*
        ]);

        impl Op {
            /// Its row.
            #[deny(unreachable_patterns)]
            pub const fn row(&self) -> &'static Row {
                match self {
                    $($pattern => const { row_of($const) },)*
                    $(Op::$target(op) => op.row(),)*
                    $(Op::$starget(op) => op.row(),)*
                }
            }
        }

        $(impl $ops {
            /// Its row.
            #[deny(unreachable_patterns)]
            pub const fn row(&self) -> &'static Row {
                match self { $($pat => const { row_of($c) },)* }
            }
        })*

        $(enumerated! {
            $(#[$about])* $sops {
                $($mc $variant($struct),)*
                @plain
                $($(#[$doc])* $uc $unit,)*
            }
        }
        $kind! { $sops { $($variant,)* @plain $($unit,)* } })*
    };
}

/// Sorted by number.
const fn by_number<const N: usize>(mut rows: [Row; N]) -> [Row; N] {
    let mut end = 1;
    while end < N {
        let mut at = end;
        while at > 0 && rows[at - 1].number > rows[at].number {
            (rows[at - 1], rows[at]) = (rows[at], rows[at - 1]);
            at -= 1;
        }
        end += 1;
    }
    rows
}

/// The row with this number, which is there.
const fn row_of(number: u16) -> &'static Row {
    let mut at = 0;
    while ROWS[at].number != number {
        at += 1;
    }
    &ROWS[at]
}

operations! {
    0x0001 CONNECT "connect" Both [Other memory] Op::Connect(_),
    0x0002 DISCONNECT "disconnect" Both [Other memory] Op::Disconnect,
    0x0003 PING "ping" Both [Other] Op::Ping,
    0x0004 REPLAY "replay" Client [Other] Op::Replay(_),
    0x0005 REPLAYED "replayed" Client [Other] Op::Replayed,
    0x0006 RESTORED "restored" Client [Other] Op::Restored,
    0x0007 TREE "tree" Server [Other] Op::Tree(_),

    Mgs MgsOp {
        0x0101 MGS_REGISTER "mgs_register" Owner [Other store] MgsOp::Register { .. },
        0x0102 MGS_UNREGISTER "mgs_unregister" Owner [Other store] MgsOp::Unregister { .. },
        0x0103 MGS_CONFIG "mgs_config" Both [Config waits] MgsOp::Config { .. },
        0x0104 MGS_SET_PARAM "mgs_set_param" Admin [Other store] MgsOp::SetParam { .. },
        0x0105 MGS_CLIENTS "mgs_clients" Admin [Other] MgsOp::Clients,
        0x0106 MGS_POOL "mgs_pool" Admin [Other store] MgsOp::Pool { .. },
        0x0107 MGS_REPORT "mgs_report" Both [Report memory] MgsOp::Report(_),
        0x0108 MGS_REPORTS "mgs_reports" Both [Other] MgsOp::Reports,
        0x0109 MGS_REMOVE "mgs_remove" Admin [Other store] MgsOp::Remove { .. },
        0x010a MGS_NODEMAP "mgs_nodemap" Admin [Other store] MgsOp::Nodemap(_),
        0x010b MGS_NODEMAPS "mgs_nodemaps" NotClient [Config waits] MgsOp::Nodemaps { .. },
        0x010c MGS_SET_SCOPED "mgs_set_scoped" Admin [Other store] MgsOp::SetScoped { .. },
        0x010d MGS_SCOPED "mgs_scoped" Both [Config waits] MgsOp::Scoped { .. },
        0x010e MGS_REPLACE_NIDS "mgs_replace_nids" Admin [Other store] MgsOp::ReplaceNids { .. },
    }

    Client ClientOp {
        0x0401 CLIENT_REVOKE "client_revoke" Server [Other memory] ClientOp::Revoke { .. },
        0x0402 CLIENT_CHANGING "client_changing" Server [Other memory] ClientOp::Changing { .. },
        0x0403 CLIENT_GLIMPSE "client_glimpse" Server [Other] ClientOp::Glimpse { .. },
        0x0404 CLIENT_REVOKE_EXTENTS "client_revoke_extents" Server [Other memory] ClientOp::RevokeExtents { .. },
        0x0405 CLIENT_SQUASH "client_squash" Server [Other memory] ClientOp::Squash(_),
    }

    @structs
    /// One operation of an MDT. Credentials come with the request. A `Fid` may be a
    /// `Fid::result_of(n)`.
    Mds MdsOp of_names {
        0x0201 MDS_LOOKUP "mds_lookup" Client [Lookup for_caller] Lookup(Lookup),
        0x0202 MDS_GET_PARENT "mds_get_parent" Client [Lookup] GetParent(GetParent),
        0x0203 MDS_GETATTR "mds_getattr" Client [Getattr] Getattr(Getattr),
        0x0204 MDS_GETATTR_MANY "mds_getattr_many" Client [Getattr] GetattrMany(GetattrMany),
        0x0205 MDS_SETATTR "mds_setattr" Client [Setattr store replayed release reint] Setattr(Setattr),
        0x0206 MDS_CREATE "mds_create" Client [Mknod store replayed space reint] Create(Create),
        0x0207 MDS_OPEN "mds_open" Client [Open store replayed release survives for_caller] Open(Open),
        0x0208 MDS_CLOSE "mds_close" Client [Close store replayed release gives_back] Close(Close),
        0x0209 MDS_UNLINK "mds_unlink" Client [Unlink store replayed release reint] Unlink(Unlink),
        0x020a MDS_RMDIR "mds_rmdir" Client [Rmdir store replayed release reint] Rmdir(Rmdir),
        0x020b MDS_RENAME "mds_rename" Client [Rename store replayed space reint] Rename(Rename),
        0x020c MDS_LINK "mds_link" Client [Link store replayed space reint] Link(Link),
        0x020d MDS_READDIR "mds_readdir" Client [Readpage for_caller] Readdir(Readdir),
        0x020e MDS_READLINK "mds_readlink" Client [Readlink for_caller] Readlink(Readlink),
        0x020f MDS_GETXATTR "mds_getxattr" Client [Getxattr for_caller] Getxattr(Getxattr),
        0x0210 MDS_LISTXATTR "mds_listxattr" Client [Getxattr for_caller] Listxattr(Listxattr),
        0x0211 MDS_SETXATTR "mds_setxattr" Client [Setxattr store replayed space reint] Setxattr(Setxattr),
        0x0212 MDS_REMOVEXATTR "mds_removexattr" Client [Setxattr store replayed release reint] Removexattr(Removexattr),
        0x0213 MDS_GET_LAYOUT "mds_get_layout" Client [GetLayout store replayed release survives for_writing] GetLayout(GetLayout),
        0x0214 MDS_WROTE "mds_wrote" Client [Wrote store replayed release for_writing] Wrote(Wrote),
        0x0218 MDS_FLOCK_TEST "mds_flock_test" Client [Flock] FlockTest(FlockTest),
        0x0219 MDS_FLOCK_SET "mds_flock_set" Client [Flock memory waits] FlockSet(FlockSet),
        0x021a MDS_FLOCK_CANCEL "mds_flock_cancel" Client [Flock memory gives_back] FlockCancel(FlockCancel),
        0x021b MDS_LOCK "mds_lock" Client [LdlmEnqueue memory waits survives for_writing] Lock(Lock),
        0x021c MDS_UNLOCK "mds_unlock" Client [LdlmCancel memory gives_back] Unlock(Unlock),
        0x021d MDS_READ "mds_read" Client [Read] Read(Read),
        0x021e MDS_WRITE "mds_write" Client [Write store replayed space for_writing] Write(Write),
        0x021f MDS_PUNCH "mds_punch" Client [Punch store replayed space for_writing] Punch(Punch),
        0x0220 MDS_SWAP_LAYOUTS "mds_swap_layouts" Client [Other store release for_caller] SwapLayouts(SwapLayouts),
        0x0221 MDS_SEEK "mds_seek" Client [Seek] Seek(Seek),
        0x0222 MDS_LEASE "mds_lease" Client [Other memory] Lease(Lease),
        0x0223 MDS_TMPFILE "mds_tmpfile" Client [Open store replayed space reint] Tmpfile(Tmpfile),
        0x0224 MDS_ACCESSED "mds_accessed" Client [Setattr store replayed release] Accessed(Accessed),
        0x0225 MDS_EXPECT "mds_expect" Client [Other] Expect(Expect),
        0x0226 MDS_ROOT "mds_root" Client [Lookup for_caller] Root(Root),
        0x0227 MDS_TICKET "mds_ticket" Client [Other for_caller] AskTickets(AskTickets),
        0x0228 MDS_GRANT "mds_grant" Client [Grant memory survives] Grant(GrantSpace),
        0x0229 MDS_STORE "mds_store" Client [Write store replayed release for_writing] Store(Store),
        0x0231 MDS_PEER_PREPARE "mds_peer_prepare" Server [Other] PeerPrepare(PeerPrepare),
        0x0232 MDS_PEER_APPLY "mds_peer_apply" Server [Other] PeerApply(PeerApply),
        0x0233 MDS_PEER_CANCEL "mds_peer_cancel" Server [Other] PeerCancel(PeerCancel),
        0x0234 MDS_PEER_FORGET "mds_peer_forget" Server [Other] PeerForget(PeerForget),
        0x0235 MDS_PEER_EXCHANGE "mds_peer_exchange" Server [Other] PeerExchange(PeerExchange),
        0x0236 MDS_PEER_ASK "mds_peer_ask" Server [Other] PeerAsk(PeerAsk),
        0x0237 MDS_PEER_MARK "mds_peer_mark" Server [Other] PeerMark(PeerMark),
        0x0280 MDS_SCAN "mds_scan" Admin [Other] Scan(Scan),
        0x0281 MDS_MEND "mds_mend" Admin [Other store release] Mend(Mend),

        @plain
        /// Totals.
        0x0216 MDS_STATFS "mds_statfs" Client [Statfs] Statfs,
        /// All changes so far are durable when this answers (fsync, sync).
        0x0217 MDS_SYNC "mds_sync" Client [Sync of_session] Sync,
        /// A sequence of FIDs for another MDT, which makes inodes here; answers `PeerFids`.
        0x0230 MDS_PEER_FIDS "mds_peer_fids" Server [Other] PeerFids,
    }

    /// One operation of an OST.
    Ost OstOp of_objects {
        0x0301 OST_READ "ost_read" Client [Read] Read(ObjectRead),
        0x0302 OST_WRITE "ost_write" Client [Write store replayed space survives] Write(ObjectWrite),
        0x0303 OST_PUNCH "ost_punch" Both [Punch store replayed space survives] Punch(ObjectPunch),
        0x0304 OST_GETATTR "ost_getattr" Both [Getattr] Getattr(ObjectGetattr),
        0x0305 OST_SEEK "ost_seek" Client [Seek] Seek(ObjectSeek),
        0x0306 OST_DESTROY "ost_destroy" Server [Destroy store release survives] Destroy(ObjectDestroy),
        0x0307 OST_SYNC "ost_sync" Both [Sync] Sync(ObjectSync),
        0x0309 OST_GRANT "ost_grant" Client [Grant memory survives] Grant(GrantSpace),
        0x030a OST_FENCE "ost_fence" Server [Other memory] Fence(FenceClients),
        0x030b OST_TICKET "ost_ticket" Client [Other] Tickets(ShowTickets),
        0x0380 OST_LIST "ost_list" Admin [Other] List(ObjectList),

        @plain
        /// Totals.
        0x0308 OST_STATFS "ost_statfs" Both [Statfs] Statfs,
    }
}

/// The row with this number.
pub fn row(number: u16) -> Option<&'static Row> {
    ROWS.binary_search_by_key(&number, |row| row.number).ok().map(|at| &ROWS[at])
}

/// The row with this name.
pub fn by_name(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
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
    0x0003 TREE "tree" OpReply::Tree(_),

    0x0101 MGS "mgs" OpReply::Mgs(_),

    0x0201 MDS_DONE "mds_done" OpReply::Mds(MdsReply::Done),
    0x0202 MDS_ENTRY "mds_entry" OpReply::Mds(MdsReply::Entry(_)),
    0x0203 MDS_OPENED "mds_opened" OpReply::Mds(MdsReply::Opened { .. }),
    0x0204 MDS_ATTRS "mds_attrs" OpReply::Mds(MdsReply::Attrs(_)),
    0x0205 MDS_ENTRIES "mds_entries" OpReply::Mds(MdsReply::Entries { .. }),
    0x0206 MDS_BYTES "mds_bytes" OpReply::Mds(MdsReply::Bytes(_)),
    0x0207 MDS_LAYOUT "mds_layout" OpReply::Mds(MdsReply::Layout(_)),
    0x0209 MDS_REMOVED "mds_removed" OpReply::Mds(MdsReply::Removed(_)),
    0x020a MDS_STATFS "mds_statfs" OpReply::Mds(MdsReply::Statfs(_)),
    0x020b MDS_FLOCK "mds_flock" OpReply::Mds(MdsReply::Flock(_)),
    0x020c MDS_DATA "mds_data" OpReply::Mds(MdsReply::Data { .. }),
    0x020d MDS_OFFSET "mds_offset" OpReply::Mds(MdsReply::Offset(_)),
    0x020e MDS_LEASE "mds_lease" OpReply::Mds(MdsReply::Lease(_)),
    0x020f MDS_EXTENTS "mds_extents" OpReply::Mds(MdsReply::Extents { .. }),
    0x0210 MDS_REMOTE "mds_remote" OpReply::Mds(MdsReply::Remote { .. }),
    0x0211 MDS_ROOT "mds_root" OpReply::Mds(MdsReply::Root { .. }),
    0x0212 MDS_TICKETS "mds_tickets" OpReply::Mds(MdsReply::Tickets { .. }),
    0x0228 MDS_GRANTED "mds_granted" OpReply::Mds(MdsReply::Granted { .. }),
    0x0230 MDS_PEER_FIDS "mds_peer_fids" OpReply::Mds(MdsReply::PeerFids(_)),
    0x0231 MDS_PEER_PREPARED "mds_peer_prepared" OpReply::Mds(MdsReply::PeerPrepared { .. }),
    0x0232 MDS_PEER_APPLIED "mds_peer_applied" OpReply::Mds(MdsReply::PeerApplied { .. }),
    0x0233 MDS_PEER_REFUSED "mds_peer_refused" OpReply::Mds(MdsReply::PeerRefused { .. }),
    0x0234 MDS_PEER_DONE "mds_peer_done" OpReply::Mds(MdsReply::PeerDone { .. }),
    0x0235 MDS_PEER_BUNDLES "mds_peer_bundles" OpReply::Mds(MdsReply::PeerBundles { .. }),
    0x0236 MDS_PEER_TOLD "mds_peer_told" OpReply::Mds(MdsReply::PeerTold { .. }),
    0x0237 MDS_PEER_MARKED "mds_peer_marked" OpReply::Mds(MdsReply::PeerMarked { .. }),
    0x0280 MDS_RECORDS "mds_records" OpReply::Mds(MdsReply::Records { .. }),

    0x0301 OST_DONE "ost_done" OpReply::Ost(OstReply::Done),
    0x0302 OST_DATA "ost_data" OpReply::Ost(OstReply::Data(_)),
    0x0303 OST_CHANGED "ost_changed" OpReply::Ost(OstReply::Changed { .. }),
    0x0304 OST_ATTR "ost_attr" OpReply::Ost(OstReply::Attr { .. }),
    0x0305 OST_OFFSET "ost_offset" OpReply::Ost(OstReply::Offset(_)),
    0x0306 OST_STATFS "ost_statfs" OpReply::Ost(OstReply::Statfs(_)),
    0x0307 OST_GRANTED "ost_granted" OpReply::Ost(OstReply::Granted { .. }),
    0x0308 OST_FENCED "ost_fenced" OpReply::Ost(OstReply::Fenced { .. }),
    0x0380 OST_OBJECTS "ost_objects" OpReply::Ost(OstReply::Objects { .. }),

    0x0401 CLIENT_DONE "client_done" OpReply::Client(ClientReply::Done),
    0x0402 CLIENT_KEPT "client_kept" OpReply::Client(ClientReply::Kept(_)),
    0x0403 CLIENT_DROPPED "client_dropped" OpReply::Client(ClientReply::Dropped),
    0x0404 CLIENT_GLIMPSES "client_glimpses" OpReply::Client(ClientReply::Glimpses(_)),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::{Changes, Room};
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
        assert_eq!(Op::Ping.row().name, "ping");
    }

    #[test]
    fn classes_agree_with_themselves() {
        for Row { name, class, .. } in ROWS {
            let Class { changes, replayed, room, waits, reint, .. } = *class;
            assert!(
                changes == Changes::Store || !replayed && !reint && room == Room::None,
                "{name} changes no store"
            );
            assert!(changes != Changes::Store || !waits, "{name} would wait with a slot");
        }
    }

    /// The names of the operations that sessions of this role are refused.
    fn refused(role: Role) -> Vec<&'static str> {
        ROWS.iter().filter(|row| !row.sender.admits(role)).map(|row| row.name).collect()
    }

    const CALLBACKS: [&str; 5] = [
        "client_revoke",
        "client_changing",
        "client_glimpse",
        "client_revoke_extents",
        "client_squash",
    ];
    const OF_OWNERS: [&str; 2] = ["mgs_register", "mgs_unregister"];
    const NOT_OF_CLIENTS: [&str; 1] = ["mgs_nodemaps"];
    const OF_ADMINISTRATORS: [&str; 10] = [
        "mgs_set_param",
        "mgs_clients",
        "mgs_pool",
        "mgs_remove",
        "mgs_nodemap",
        "mgs_set_scoped",
        "mgs_replace_nids",
        "mds_scan",
        "mds_mend",
        "ost_list",
    ];
    const OF_SERVERS: [&str; 11] = [
        "tree",
        "mds_peer_fids",
        "mds_peer_prepare",
        "mds_peer_apply",
        "mds_peer_cancel",
        "mds_peer_forget",
        "mds_peer_exchange",
        "mds_peer_ask",
        "mds_peer_mark",
        "ost_destroy",
        "ost_fence",
    ];

    #[test]
    fn each_role_is_refused_what_is_not_its_own() {
        let sorted =
            |groups: &[&[&'static str]]| groups.concat().into_iter().collect::<BTreeSet<_>>();
        let is_refused = |role| refused(role).into_iter().collect::<BTreeSet<_>>();
        assert_eq!(
            is_refused(Role::Anonymous),
            sorted(&[&CALLBACKS, &OF_ADMINISTRATORS, &OF_SERVERS])
        );
        assert_eq!(
            is_refused(Role::Client),
            sorted(&[&CALLBACKS, &OF_OWNERS, &NOT_OF_CLIENTS, &OF_ADMINISTRATORS, &OF_SERVERS])
        );
        assert_eq!(is_refused(Role::Administrator), sorted(&[&CALLBACKS, &OF_OWNERS, &OF_SERVERS]));
        assert_eq!(refused(Role::Server), [""; 0]);
    }

    /// The tables as `docs/formats.md` shows them.
    fn tables() -> String {
        let yes = |b: bool| if b { "yes" } else { "" };
        let word = |sender: &Sender| match sender {
            Sender::Client => "clients",
            Sender::Server => "servers",
            Sender::Both => "both",
            Sender::Owner => "owner",
            Sender::Admin => "administrators",
            Sender::NotClient => "not clients",
        };
        let mut text = String::from("| sent by |");
        Role::ALL.iter().for_each(|role| text += &format!(" {role} |"));
        text += "\n|---|---|---|---|---|\n";
        for sender in [
            Sender::Client,
            Sender::Both,
            Sender::Owner,
            Sender::Admin,
            Sender::NotClient,
            Sender::Server,
        ] {
            text += &format!("| {} |", word(&sender));
            Role::ALL.iter().for_each(|role| text += &format!(" {} |", yes(sender.admits(*role))));
            text.push('\n');
        }
        text += "\n| number | operation | sent by | changes | replayed | room | waits | survives eviction |\n\
                 |---|---|---|---|---|---|---|---|\n";
        for Row { number, name, sender, class } in ROWS {
            let sender = word(sender);
            let changes = match class.changes {
                Changes::Nothing => "",
                Changes::Memory => "memory",
                Changes::Store => "store",
            };
            let room = match class.room {
                Room::None => "",
                Room::Release => "reserve",
                Room::Space => "space",
            };
            let [replayed, waits, survives] =
                [class.replayed, class.waits, class.survives_eviction].map(yes);
            text += &format!(
                "| `{number:#06x}` | {name} | {sender} | {changes} | {replayed} | {room} | {waits} | {survives} |\n"
            );
        }
        text += "\n| number | form of the answer |\n|---|---|\n";
        REPLIES
            .iter()
            .for_each(|(number, name)| text += &format!("| `{number:#06x}` | {name} |\n"));
        text
    }

    #[test]
    fn the_documents_show_these_tables() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (before, rest) =
            text.split_once("<!-- operations -->\n").expect("a mark before the tables");
        let (shown, after) =
            rest.split_once("<!-- end of operations -->").expect("a mark behind the tables");
        let wanted = format!("\n{}\n", tables());
        if std::env::var_os("BLESS").is_some() {
            let text =
                format!("{before}<!-- operations -->\n{wanted}<!-- end of operations -->{after}");
            std::fs::write(path, text).unwrap();
        } else {
            assert_eq!(shown, wanted, "docs/formats.md is behind: BLESS=1 cargo test -p wire");
        }
    }
}
