//! Races between the client and the kernel, by the rows of docs/locks/kernel.md. Each test fails
//! for certain if the rule of its row is taken out.

mod pages;

use crate::rig::{OF_DATA, Rig, SHOWN, mode, name, simulated, simulated_with};
use bytes::Bytes;
use client::caller::Caller;
use client::error::ClientError;
use client::node::NodeId;
use client::{Budget, DirItem, Looked, PageCache, WriteFlags};
use futures_util::FutureExt;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::attr::SetAttr;
use types::fid::Fid;
use types::lock::InodeBits;
use wire::client::{ClientOp, ClientReply, Glimpse, Glimpsed};
use wire::mds::RenameFlags;

const UPDATE: InodeBits = InodeBits::UPDATE;
const DATA: InodeBits = InodeBits::UPDATE.union(InodeBits::DATA);
/// Time after which a file that was called back is no longer contended (R16).
const QUIET_MS: u64 = 3000;

fn chmod() -> SetAttr {
    SetAttr { mode: Some(0o600), ..SetAttr::default() }
}

fn cut(size: u64) -> SetAttr {
    SetAttr { size: Some(size), ..SetAttr::default() }
}

/// A file that is open for reading, and of which the kernel has pages.
async fn with_pages(
    rig: &Rig,
    text: &str,
    bytes: &'static [u8],
) -> (client::caller::Found, client::open::FileHandle) {
    let found = rig.file(text, bytes).await;
    let handle = rig.open(found.node, libc::O_RDONLY).await;
    assert_ne!(rig.client().page_cache(handle), PageCache::Bypassed);
    let read = rig.read(handle, true);
    rig.settle().await;
    assert_eq!(read.take(), Some(bytes.to_vec()));
    rig.kernel.take();
    rig.cluster.asked();
    (found, handle)
}

/// R1: 100 ms.
#[test]
fn names_that_take_too_long_are_forgotten_with_all_others() {
    simulated(|rig| async move {
        assert!(matches!(rig.lookup("a").await, Looked::Absent(valid) if !valid.is_zero()));
        rig.kernel.take();
        rig.kernel.hold("expire");
        let callback = rig.revoke(Fid::ROOT, UPDATE);
        rig.wait_ms(99).await;
        assert_eq!(rig.kernel.take(), ["expire 1 a"]);
        assert!(!callback.is_over());
        rig.wait_ms(2).await;
        assert_eq!(rig.kernel.take(), ["epoch"]);
        assert!(callback.is_over());
    });
}

/// R1: a request that begins while names are being dropped.
#[test]
fn a_request_that_begins_in_the_directory_makes_it_an_epoch_at_once() {
    simulated(|rig| async move {
        assert!(matches!(rig.lookup("a").await, Looked::Absent(_)));
        rig.kernel.take();
        rig.kernel.hold("expire");
        let callback = rig.revoke(Fid::ROOT, UPDATE);
        rig.wait_ms(20).await;
        assert_eq!(rig.kernel.take(), ["expire 1 a"]);
        rig.cluster.world.hold("Readdir");
        let looking = rig.begin(rig.client().lookup_name(Caller::root(), NodeId::ROOT, name("b")));
        rig.wait_ms(3).await;
        assert_eq!(rig.kernel.take(), ["epoch"]);
        assert!(callback.is_over() && !looking.is_over());
    });
}

/// R3.
#[test]
fn a_name_that_the_kernel_asked_for_again_is_dropped_for_a_while() {
    simulated(|rig| async move {
        let first = rig.file("first", b"").await;
        let again = rig.file("again", b"").await;
        rig.lookup("again").await;
        for (found, told) in [(first, "expire 1 first"), (again, "drop 1 again")] {
            rig.kernel.take();
            rig.revoked(found.attr.fid, InodeBits::LOOKUP).await;
            assert_eq!(rig.kernel.take(), [told]);
        }
        rig.lookup("again").await;
        rig.wait_ms(3000).await;
        rig.revoked(again.attr.fid, InodeBits::LOOKUP).await;
        assert_eq!(rig.kernel.take(), ["expire 1 again"], "the kernel has read that answer");
    });
}

/// R25.
#[test]
fn a_lookup_waits_until_an_own_change_of_its_name_has_ended() {
    simulated(|rig| async move {
        rig.file("a", b"").await;
        let known = |rig: &Rig| rig.client().lookup_known(1, NodeId::ROOT, &name("a"));
        assert!(known(&rig).is_some());
        rig.cluster.world.hold("Unlink");
        let unlinking = rig.begin(rig.client().unlink(Caller::root(), NodeId::ROOT, name("a")));
        rig.wait_ms(3).await;
        assert!(known(&rig).is_none());
        let looking = rig.begin(rig.client().lookup_name(Caller::root(), NodeId::ROOT, name("a")));
        rig.wait_ms(1000).await;
        assert!(!looking.is_over() && !unlinking.is_over());
        rig.cluster.world.release("Unlink");
        rig.settle().await;
        assert!(unlinking.is_over());
        assert!(matches!(looking.take(), Some(Ok(Looked::Absent(_)))));
    });
}

async fn listed(rig: &Rig) -> Vec<DirItem> {
    let dir = rig.client().opendir(Caller::root(), NodeId::ROOT).await.unwrap();
    let budget = Budget { bytes: 1 << 16, per_entry: 152 };
    let items = rig.client().readdir(Caller::root(), dir, 0, budget, true).await.unwrap();
    rig.client().releasedir(dir);
    items.into_iter().skip(2).collect()
}

/// R5.
#[test]
fn a_listing_gives_names_no_trust_and_leaves_those_alone_that_have_it() {
    simulated(|rig| async move {
        let (known, other) = (rig.file("a", b"").await, rig.file("b", b"").await);
        assert!(!known.entry_valid.is_zero() && !other.entry_valid.is_zero());
        rig.revoked(other.attr.fid, SHOWN).await;
        let items = listed(&rig).await;
        assert_eq!(items[0].found, None, "a name that the kernel trusts");
        let shown = items[1].found.expect("one that it does not trust");
        assert!(
            shown.entry_valid.is_zero(),
            "noted under the epoch of the moment in which the kernel gets to it"
        );
        assert!(!shown.attr_valid.is_zero());
        // There is nothing to take back.
        rig.kernel.take();
        rig.revoked(other.attr.fid, SHOWN).await;
        assert_eq!(rig.kernel.take(), [format!("attr {}", other.node.0)]);
        let Looked::Found(found) = rig.lookup("b").await else { panic!("it is there") };
        assert!(!found.entry_valid.is_zero(), "the next lookup gives it");
        assert!(listed(&rig).await.iter().all(|item| item.found.is_none()));
    });
}

/// R7.
#[test]
fn a_rename_is_answered_when_no_name_is_trusted_any_more() {
    simulated(|rig| async move {
        rig.file("old", b"").await;
        rig.cluster.world.grants.store(false, Ordering::Relaxed);
        rig.kernel.take();
        rig.kernel.hold("epoch");
        let (from, to) = ((NodeId::ROOT, name("old")), (NodeId::ROOT, name("new")));
        let rename =
            rig.begin(rig.client().rename(Caller::root(), from, to, RenameFlags::default()));
        rig.settle().await;
        assert_eq!(rig.asked("Rename"), 1);
        assert_eq!(rig.kernel.take(), ["epoch"], "no lock covers the new name");
        rig.wait_ms(10_000).await;
        assert!(!rename.is_over());
        rig.kernel.release("epoch");
        rig.settle().await;
        assert_eq!(rename.take(), Some(Ok(())));
    });
}

type Change = std::pin::Pin<Box<dyn Future<Output = Result<(), ClientError>> + Send>>;

fn change<T: Send + 'static>(
    change: impl Future<Output = Result<T, ClientError>> + Send + 'static,
) -> Change {
    Box::pin(async move { change.await.map(|_| ()) })
}

/// R8: each change that brings a name.
fn made(rig: &Rig, node: NodeId, request: usize) -> (&'static str, Change) {
    let (client, me, root, new) = (rig.client(), Caller::root(), NodeId::ROOT, name("new"));
    match request {
        0 => ("Create", change(client.mkdir(me, root, new, 0o755))),
        1 => ("Create", change(client.mknod(me, root, new, libc::S_IFIFO | 0o644, 0))),
        2 => ("Create", change(client.symlink(me, root, new, Bytes::from_static(b"target")))),
        3 => ("Create", change(client.create(me, root, new, 0o644, mode(libc::O_RDWR)))),
        4 => ("Link", change(client.link(me, node, root, new))),
        _ => (
            "Rename",
            change(client.rename(me, (root, name("old")), (root, new), RenameFlags::default())),
        ),
    }
}

/// R8.
#[test]
fn a_change_whose_caller_was_killed_makes_the_kernel_ask_for_its_name() {
    for n in 0..6 {
        simulated(move |rig| async move {
            let old = rig.file("old", b"").await;
            assert!(matches!(rig.lookup("new").await, Looked::Absent(valid) if !valid.is_zero()));
            let (request, mut change) = made(&rig, old.node, n);
            rig.kernel.take();
            rig.cluster.asked();
            rig.cluster.world.hold(request);
            assert!((&mut change).now_or_never().is_none());
            drop(change);
            rig.settle().await;
            assert_eq!((rig.asked(request), rig.kernel.take().len()), (1, 0));
            rig.cluster.world.release(request);
            rig.settle().await;
            // The kernel itself may have moved the old name there, with all its trust.
            let forgets = if request == "Rename" { "drop 1 new" } else { "expire 1 new" };
            let told = rig.kernel.take();
            assert!(told.contains(&forgets.to_owned()), "{request} {n}: {told:?}");
        });
    }
}

/// R9.
#[test]
fn attributes_in_the_answer_of_a_change_are_not_trusted() {
    simulated(|rig| async move {
        let (client, me) = (|| rig.client(), Caller::root);
        let made = rig.file("f", b"abc").await;
        assert!(!made.attr_valid.is_zero(), "of a file that this very request made");
        let trusted = async || client().getattr(me(), made.node, None).await.unwrap().attr_valid;
        for set in [chmod(), cut(5), cut(1), cut(0)] {
            assert!(!trusted().await.is_zero());
            let changed = client().setattr(me(), made.node, None, set).await.unwrap();
            assert!(changed.attr_valid.is_zero(), "{set:?}");
        }
        assert!(!trusted().await.is_zero());
        let linked = client().link(me(), made.node, NodeId::ROOT, name("second")).await.unwrap();
        assert!(linked.attr_valid.is_zero() && !linked.entry_valid.is_zero());
        for flags in [libc::O_RDWR, libc::O_RDWR | libc::O_TRUNC] {
            assert!(!trusted().await.is_zero());
            let create = client().create(me(), NodeId::ROOT, name("f"), 0o644, mode(flags)).await;
            let (found, handle) = create.unwrap();
            assert_eq!(found.node, made.node);
            assert!(found.attr_valid.is_zero() && !found.entry_valid.is_zero(), "{flags:o}");
            client().release(me(), handle).await.unwrap();
            rig.settle().await;
        }
        assert!(!trusted().await.is_zero(), "the next request is answered from the table");
    });
}

/// R10.
#[test]
fn a_callback_waits_until_the_kernel_has_the_answers_decided_before() {
    simulated(|rig| async move {
        let found = rig.file("f", b"").await;
        rig.kernel.take();
        let token = rig.client().token();
        assert!(
            rig.client()
                .getattr_known(found.node, None)
                .is_some_and(|stat| !stat.attr_valid.is_zero())
        );
        let callback = rig.revoke(found.attr.fid, SHOWN);
        rig.wait_ms(10_000).await;
        assert!(!callback.is_over());
        assert_eq!(rig.kernel.take(), [""; 0]);
        // Answers that are decided from now on no longer show what is called back.
        let _later = rig.client().token();
        assert_eq!(rig.client().getattr_known(found.node, None), None);
        drop(token);
        rig.settle().await;
        assert!(callback.is_over());
        assert_eq!(rig.kernel.take(), ["expire 1 f".to_owned(), format!("attr {}", found.node.0)]);
    });
}

/// R11.
#[test]
fn an_inode_that_the_kernel_is_just_making_is_tried_again() {
    simulated(|rig| async move {
        let found = rig.file("f", b"").await;
        let attr = format!("attr {}", found.node.0);
        rig.kernel.take();
        rig.kernel.set_made(found.node, false);
        let callback = rig.revoke(found.attr.fid, UPDATE);
        rig.wait_ms(100).await;
        assert_eq!((rig.kernel.count(&attr), callback.is_over()), (12, false));
        rig.kernel.set_made(found.node, true);
        rig.wait_ms(28).await;
        assert_eq!((rig.kernel.count(&attr), callback.is_over()), (13, true));
    });
}

/// R11: the bound.
#[test]
fn an_inode_that_the_kernel_never_makes_is_given_up() {
    simulated(|rig| async move {
        let found = rig.file("f", b"").await;
        rig.kernel.take();
        rig.kernel.set_made(found.node, false);
        let callback = rig.revoke(found.attr.fid, UPDATE);
        rig.wait_ms(255).await;
        assert!(!callback.is_over());
        rig.wait_ms(1).await;
        assert!(callback.is_over());
        assert_eq!(rig.kernel.count(&format!("attr {}", found.node.0)), 13);
    });
}

/// R11: the reference.
#[test]
fn an_inode_that_the_kernel_gave_back_is_not_tried_again() {
    simulated(|rig| async move {
        let found = rig.file("f", b"").await;
        rig.kernel.take();
        rig.kernel.set_made(found.node, false);
        let callback = rig.revoke(found.attr.fid, UPDATE);
        rig.wait_ms(2).await;
        let tried = rig.kernel.count(&format!("attr {}", found.node.0));
        rig.client().forget(found.node, 1);
        rig.wait_ms(3).await;
        assert!(callback.is_over());
        assert_eq!((tried, rig.kernel.count(&format!("attr {}", found.node.0))), (7, 7));
    });
}

/// R40.
#[test]
fn the_kernel_asks_for_a_size_that_another_client_was_told() {
    simulated(|rig| async move {
        let found = rig.file("f", b"abc").await;
        let (fid, ask) =
            (found.attr.fid, ClientOp::Glimpse { fids: vec![found.attr.fid], store: false });
        let trusted = rig.client().getattr(Caller::root(), found.node, None).await.unwrap();
        assert!(trusted.attr_valid > Duration::ZERO);
        // From here on the kernel is told attributes without trust (R43), but it has these.
        let handle = rig.open(found.node, libc::O_RDWR).await;
        rig.kernel.take();
        let reported = rig.cluster.callback(ask.clone()).await;
        assert!(matches!(reported, ClientReply::Glimpses(sizes) if sizes == [Glimpsed::Reported]));
        assert_eq!(rig.kernel.take(), [""; 0], "the MDT knows the size");
        let flags = WriteFlags::default();
        rig.client()
            .write(Caller::root(), handle, 3, Bytes::from_static(b"de"), flags)
            .await
            .unwrap();
        let told = rig.cluster.callback(ask).await;
        let ClientReply::Glimpses(sizes) = told else { panic!("{fid}: {told:?}") };
        assert!(matches!(sizes[..], [Glimpsed::Dirty(Glimpse { size: 5, .. })]));
        assert_eq!(rig.kernel.take(), [format!("attr {}", found.node.0)]);
    });
}

/// The writer of a file that lies still does not keep other clients from its attributes, unless it
/// may have the file mapped.
#[test]
fn a_quiet_file_is_given_up_though_it_is_open_for_writing() {
    for mapped in [false, true] {
        simulated(move |rig| async move {
            let found = rig.file("f", b"abc").await;
            let handle = rig.open(found.node, libc::O_RDWR).await;
            let read = rig.read(handle, mapped);
            rig.settle().await;
            assert!(read.is_over());
            let ask = || {
                rig.cluster.callback(ClientOp::Glimpse { fids: vec![found.attr.fid], store: false })
            };
            let said = |said| ClientReply::Glimpses(vec![said]);
            rig.wait_ms(999).await;
            assert_eq!(ask().await, said(Glimpsed::Reported), "it was opened a moment ago");
            rig.wait_ms(2).await;
            let quiet = if mapped { Glimpsed::Reported } else { Glimpsed::Idle };
            assert_eq!(ask().await, said(quiet));
            let (flags, data) = (WriteFlags::default(), Bytes::from_static(b"x"));
            rig.client().write(Caller::root(), handle, 0, data, flags).await.unwrap();
            rig.client().fsync(Caller::root(), handle, false).await.unwrap();
            rig.wait_ms(1001).await;
            assert_eq!(ask().await, said(Glimpsed::Reported), "it was wanted again soon");
            rig.wait_ms(1000).await;
            assert_eq!(ask().await, said(quiet));
        });
    }
}

/// R42, R43.
#[test]
fn attributes_that_a_read_or_write_may_overtake_are_not_trusted() {
    for opens in [true, false] {
        simulated_with(opens, move |rig| async move {
            let found = rig.file("f", b"abc").await;
            let trusted = || async {
                let Looked::Found(looked) = rig.lookup("f").await else { panic!("it is there") };
                let stat = rig.client().getattr(Caller::root(), found.node, None).await.unwrap();
                assert_eq!(looked.attr_valid.is_zero(), stat.attr_valid.is_zero());
                !stat.attr_valid.is_zero()
            };
            assert!(trusted().await, "no program has it open");
            let reader = rig.open(found.node, libc::O_RDONLY).await;
            assert_eq!(
                trusted().await,
                !opens,
                "a read may be answered before this is with the kernel"
            );
            rig.wait_ms(1).await;
            rig.client().read_node(found.node);
            assert!(trusted().await, "the next read does not move the access time");
            rig.client().release(Caller::root(), reader).await.unwrap();
            let writer = rig.open(found.node, libc::O_WRONLY).await;
            assert_eq!(trusted().await, !opens, "so may a write");
            rig.client().release(Caller::root(), writer).await.unwrap();
            assert!(trusted().await);
        });
    }
}

/// The MDT counts WRITE as given back with UPDATE.
#[test]
fn a_write_lock_that_is_on_its_way_goes_with_a_callback_of_attributes() {
    simulated(|rig| async move {
        let found = rig.file("f", b"abc").await;
        let handle = rig.open(found.node, libc::O_RDWR).await;
        let fid = found.attr.fid;
        rig.revoked(fid, OF_DATA).await;
        let write = || {
            rig.client().write(
                Caller::root(),
                handle,
                0,
                Bytes::from_static(b"x"),
                WriteFlags::default(),
            )
        };
        rig.cluster.world.hold("Lock");
        let first = rig.begin(write());
        rig.settle().await;
        // That of WRITE comes later.
        rig.revoked(fid, InodeBits::UPDATE).await;
        rig.cluster.world.hold_locks.send_replace(true);
        rig.cluster.world.release("Lock");
        rig.settle().await;
        rig.client().getattr(Caller::root(), found.node, None).await.unwrap();
        let second = rig.begin(write());
        rig.settle().await;
        assert!(!first.is_over() && !second.is_over(), "they ask again");
        rig.cluster.world.hold_locks.send_replace(false);
        rig.wait_ms(10).await;
        assert!(first.is_over() && second.is_over());
    });
}

/// R20: attributes.
#[test]
fn a_truncate_is_sent_when_the_kernel_has_forgotten_attributes() {
    simulated(|rig| async move {
        let found = rig.file("f", b"abc").await;
        rig.kernel.take();
        rig.cluster.asked();
        rig.kernel.hold("attr");
        let truncate = rig.begin(rig.client().setattr(Caller::root(), found.node, None, cut(1)));
        rig.wait_ms(10_000).await;
        assert_eq!(rig.kernel.take(), [format!("attr {}", found.node.0)]);
        assert_eq!((rig.asked("Setattr"), truncate.is_over()), (0, false));
        rig.kernel.release("attr");
        rig.settle().await;
        assert_eq!(rig.asked("Setattr"), 1);
        assert_eq!(truncate.take().map(|stat| stat.unwrap().attr.size), Some(1));
    });
}

/// R20: reads.
#[test]
fn reads_wait_for_the_end_of_a_truncate() {
    simulated(|rig| async move {
        let found = rig.file("f", b"abc").await;
        let handle = rig.open(found.node, libc::O_RDONLY).await;
        rig.cluster.world.hold("Setattr");
        let truncate = rig.begin(rig.client().setattr(Caller::root(), found.node, None, cut(1)));
        rig.settle().await;
        let reads = [rig.read(handle, true), rig.read(handle, false)];
        rig.wait_ms(1000).await;
        assert!(!truncate.is_over() && reads.iter().all(|read| !read.is_over()));
        rig.cluster.world.release("Setattr");
        rig.settle().await;
        assert!(truncate.is_over());
        assert_eq!(reads.map(|read| read.take()), [Some(b"a".to_vec()), Some(b"a".to_vec())]);
    });
}

/// R19: a file that grew after the kernel was told its size, and before it was opened.
#[test]
fn the_end_of_a_file_that_grew_before_its_open_is_not_left_to_attributes() {
    simulated(|rig| async move {
        let found = rig.file("f", b"abc").await;
        rig.cluster.resize_elsewhere(found.attr.fid, 5).await;
        let handle = rig.open(found.node, libc::O_RDONLY).await;
        let read = rig.read(handle, false);
        rig.wait_ms(QUIET_MS).await;
        assert_eq!(read.take().map(|bytes| bytes.len()), Some(5), "past the page cache");
        let handle = rig.open(found.node, libc::O_RDONLY).await;
        assert_ne!(rig.client().page_cache(handle), PageCache::Bypassed);
        rig.kernel.take();
        let size = |stat: client::caller::Stat| stat.attr.size;
        let stat = || rig.client().getattr(Caller::root(), found.node, None);
        assert_eq!(stat().await.map(size).unwrap(), 5);
        // A notification that overtakes the answer makes the kernel ignore it.
        assert_eq!(rig.kernel.take(), [format!("store 1 at 4 of {}", found.node.0)]);
        assert_eq!(stat().await.map(size).unwrap(), 5);
        // As it was told the attributes, one that opens it now needs no byte of it.
        rig.client().release(Caller::root(), handle).await.unwrap();
        let handle = rig.open(found.node, libc::O_RDONLY).await;
        assert_ne!(rig.client().page_cache(handle), PageCache::Bypassed);
        assert_eq!(stat().await.map(size).unwrap(), 5);
        assert_eq!(rig.kernel.take(), [""; 0]);
    });
}

/// R18: a byte that is stored could take the place of one that a program is just writing.
#[test]
fn without_opens_attributes_move_the_end_of_a_file_with_pages() {
    simulated_with(false, |rig| async move {
        let found = rig.file("f", b"abc").await;
        let handle = rig.client().no_open_file(found.node, false).await.unwrap();
        let read = rig.read(handle, true);
        rig.settle().await;
        assert_eq!(read.take(), Some(b"abc".to_vec()));
        rig.cluster.resize_elsewhere(found.attr.fid, 5).await;
        rig.kernel.take();
        let stat = rig.client().getattr(Caller::root(), found.node, None).await.unwrap();
        assert_eq!((stat.attr.size, rig.kernel.take()), (5, vec![]));
    });
}

/// R21.
#[test]
fn a_truncate_waits_for_a_later_end_that_is_on_its_way_to_the_kernel() {
    simulated(|rig| async move {
        let (found, _handle) = with_pages(&rig, "f", b"abc").await;
        rig.cluster.resize_elsewhere(found.attr.fid, 5).await;
        rig.kernel.take();
        rig.cluster.asked();
        rig.kernel.hold("store");
        let stat = rig.begin(rig.client().getattr(Caller::root(), found.node, None));
        rig.settle().await;
        assert_eq!(rig.kernel.take(), [format!("store 1 at 4 of {}", found.node.0)]);
        let truncate = rig.begin(rig.client().setattr(Caller::root(), found.node, None, cut(1)));
        rig.wait_ms(1000).await;
        assert_eq!((rig.asked("Setattr"), stat.is_over(), truncate.is_over()), (0, false, false));
        rig.kernel.release("store");
        rig.settle().await;
        assert_eq!((rig.asked("Setattr"), stat.is_over(), truncate.is_over()), (1, true, true));
    });
}
