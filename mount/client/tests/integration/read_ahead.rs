//! Read-ahead of a mount: what is fetched before it is asked for, and that it leaves with its lock.

use crate::cluster::layout_on_mdt;
use crate::rig::{OF_DATA, Rig, Running, SHOWN, simulated};
use bytes::Bytes;
use client::caller::{Caller, Found};
use client::node::NodeId;
use client::open::FileHandle;
use client::{Budget, WriteFlags};
use types::attr::SetAttr;
use types::lock::InodeBits;

const K4: u64 = 4096;
/// Bytes of the file.
const SIZE: u64 = 1 << 20;

fn content() -> &'static [u8] {
    let bytes: Vec<u8> = (0..SIZE).map(|n| (n / K4 * 7 + n % 251) as u8).collect();
    Vec::leak(bytes)
}

impl Rig {
    fn begin_read(&self, handle: FileHandle, at: u64, pages: bool) -> Running<Vec<u8>> {
        let read = self.client().read(Caller::root(), handle, at, K4 as u32, pages);
        self.begin(async move { read.await.unwrap().concat() })
    }

    /// The blocks from `first` on, one after the other.
    async fn read_blocks(&self, handle: FileHandle, first: u64, count: u64, content: &[u8]) {
        for at in (first..first + count).map(|n| n * K4) {
            let read = self.begin_read(handle, at, false);
            self.settle().await;
            assert!(read.take().as_deref() == content.get(at as usize..(at + K4) as usize), "{at}");
        }
    }

    /// A file of which two blocks were read in a row, and the rest was fetched.
    async fn begun(&self) -> (Found, FileHandle, &'static [u8]) {
        let content = content();
        let found = self.file("f", content).await;
        let handle = self.open(found.node, libc::O_RDONLY).await;
        self.read_blocks(handle, 0, 2, content).await;
        (found, handle, content)
    }

    fn used(&self) -> u64 {
        self.client().read_ahead().used()
    }
}

#[test]
fn a_sequence_is_read_without_a_request_from_the_third_read_on() {
    simulated(|rig| async move {
        let (_, handle, content) = rig.begun().await;
        assert_eq!(rig.used(), SIZE - 2 * K4, "all the rest");
        rig.cluster.asked();
        rig.read_blocks(handle, 2, 254, content).await;
        assert_eq!(rig.cluster.asked(), Vec::<String>::new());
        assert_eq!(rig.used(), 0, "what was read is not kept");
        rig.client().release(Caller::root(), handle).await.unwrap();
    });
}

/// Files of a directory that another client made, and the kernel listed.
async fn listed_files(rig: &Rig, count: usize) -> Vec<Found> {
    let mut files = Vec::new();
    for n in 0..count {
        files.push(rig.file(&format!("f{n:02}"), b"some bytes").await);
    }
    for found in &files {
        let bits = SHOWN.union(OF_DATA).union(InodeBits::LAYOUT).union(InodeBits::OPEN);
        rig.revoked(found.attr.fid, bits).await;
    }
    let dir = rig.client().opendir(Caller::root(), NodeId::ROOT).await.unwrap();
    let budget = Budget { bytes: 1 << 16, per_entry: 152 };
    let items = rig.client().readdir(Caller::root(), dir, 0, budget, true).await.unwrap();
    assert_eq!(items.len(), count + 2);
    rig.client().releasedir(dir);
    rig.cluster.asked();
    files
}

#[test]
fn attributes_that_are_lost_amid_a_listed_directory_come_together() {
    simulated(|rig| async move {
        let files = listed_files(&rig, 60).await;
        // As when other clients write them, or change their modes.
        for found in &files[20..50] {
            rig.revoked(found.attr.fid, InodeBits::UPDATE).await;
        }
        rig.cluster.asked();
        for n in 0..files.len() {
            let name = format!("f{n:02}");
            assert!(matches!(rig.lookup(&name).await, client::Looked::Found(_)), "{name}");
        }
        let asked = ["Lookup", "GetattrMany"].map(|word| rig.asked(word));
        assert_eq!(asked, [1, 1], "the first one, then all others in one request");
    });
}

/// A program opens, reads and closes these files.
async fn read_one_by_one(rig: &Rig, files: &[Found]) {
    for (n, found) in files.iter().enumerate() {
        let handle = rig.open(found.node, libc::O_RDONLY).await;
        let read = rig.read(handle, true);
        rig.settle().await;
        assert_eq!(read.take(), Some(b"some bytes".to_vec()), "{n}");
        rig.client().release(Caller::root(), handle).await.unwrap();
        rig.settle().await;
    }
}

#[test]
fn the_next_files_of_a_directory_are_opened_and_read_ahead() {
    simulated(|rig| async move {
        let files = listed_files(&rig, 40).await;
        read_one_by_one(&rig, &files).await;
        let asked = ["Open", "Lock", "Readdir"].map(|word| rig.asked(word));
        assert_eq!(asked, [2, 2, 1], "the first two, then one question");
        assert_eq!((rig.asked("Read"), rig.used()), (40, 0));
    });
}

/// The same, on their MDT.
async fn listed_small_files(rig: &Rig, count: usize) -> Vec<Found> {
    let files = listed_files(rig, count).await;
    let mut state = rig.cluster.world.state.lock();
    for found in &files {
        let fid = found.attr.fid;
        state.inodes.get_mut(&fid).expect("a file").layout = layout_on_mdt();
        state.small.insert(fid, Bytes::from_static(b"some bytes"));
    }
    state.reads.clear();
    drop(state);
    files
}

#[test]
fn the_next_files_on_their_mdt_are_read_together() {
    simulated(|rig| async move {
        let files = listed_small_files(&rig, 40).await;
        read_one_by_one(&rig, &files).await;
        assert_eq!(["Open", "Readdir"].map(|word| rig.asked(word)), [2, 1]);
        assert_eq!(rig.cluster.world.state.lock().reads, [1, 1, 4, 5, 9, 17, 3]);
        assert_eq!(rig.used(), 0);
    });
}

#[test]
fn a_file_that_cannot_be_read_ahead_keeps_no_other_from_it() {
    simulated(|rig| async move {
        let files = listed_small_files(&rig, 40).await;
        rig.cluster.world.state.lock().small.remove(&files[3].attr.fid);
        for found in &files[..2] {
            let handle = rig.open(found.node, libc::O_RDONLY).await;
            let read = rig.read(handle, true);
            rig.settle().await;
            assert_eq!(read.take(), Some(b"some bytes".to_vec()));
        }
        // The third to the sixth; then those behind the fourth.
        assert_eq!(rig.cluster.world.state.lock().reads, [1, 1, 4, 2]);
        assert_eq!(rig.used(), 3 * 10);
    });
}

#[test]
fn files_that_no_program_opens_lose_their_bytes() {
    simulated(|rig| async move {
        let files = listed_files(&rig, 40).await;
        for found in &files[..2] {
            rig.open(found.node, libc::O_RDONLY).await;
            rig.settle().await;
        }
        rig.settle().await;
        assert_eq!(rig.used(), 4 * 10, "of four files");
        // Bytes go with DATA.
        rig.revoked(files[2].attr.fid, OF_DATA).await;
        assert_eq!(rig.used(), 3 * 10);
        rig.wait_ms(8000).await;
        assert_eq!(rig.used(), 0);
        assert!(rig.client().read_ahead().figures().0.discarded > 0);
    });
}

#[test]
fn what_was_fetched_goes_with_its_lock() {
    simulated(|rig| async move {
        let (found, handle, content) = rig.begun().await;
        rig.revoked(found.attr.fid, OF_DATA).await;
        assert_eq!(rig.used(), 0);
        // Another client writes, and gives the lock back.
        let changed: Vec<u8> = content.iter().map(|byte| !byte).collect();
        rig.cluster.world.state.lock().invert_bytes(found.attr.fid);
        rig.cluster.asked();
        rig.read_blocks(handle, 2, 254, &changed).await;
        assert_eq!(rig.asked("Lock"), 1);
    });
}

#[test]
fn what_comes_after_its_lock_went_is_dropped() {
    simulated(|rig| async move {
        let content = content();
        let found = rig.file("f", content).await;
        let handle = rig.open(found.node, libc::O_RDONLY).await;
        rig.read_blocks(handle, 0, 1, content).await;
        rig.cluster.world.hold("Read");
        let second = rig.begin_read(handle, K4, false);
        rig.settle().await;
        assert!(rig.used() > 0 && !second.is_over());
        // Another client writes while it is on its way.
        rig.cluster.world.hold("Lock");
        let callback = rig.revoke(found.attr.fid, OF_DATA);
        // A read past the page cache gives way after a while (R30).
        rig.wait_ms(6000).await;
        assert!(callback.is_over());
        let changed: Vec<u8> = content.iter().map(|byte| !byte).collect();
        rig.cluster.world.state.lock().invert_bytes(found.attr.fid);
        rig.cluster.world.release("Lock");
        rig.cluster.world.release("Read");
        rig.wait_ms(10).await;
        assert!(second.take().as_deref() == changed.get(4096..8192));
        rig.read_blocks(handle, 2, 8, &changed).await;
    });
}

/// The kernel waits for the pages of such a read before it drops any, and the callback for that.
#[test]
fn a_read_that_waits_for_what_is_on_its_way_asks_itself_when_its_lock_is_called_back() {
    for pages in [false, true] {
        simulated(move |rig| async move {
            let content = content();
            let found = rig.file("f", content).await;
            let handle = rig.open(found.node, libc::O_RDONLY).await;
            rig.read_blocks(handle, 0, 1, content).await;
            rig.cluster.world.hold("Read");
            let _second = rig.begin_read(handle, K4, pages);
            rig.settle().await;
            rig.cluster.asked();
            let third = rig.begin_read(handle, 8 * K4, pages);
            rig.wait_ms(100).await;
            assert_eq!((rig.asked("Read"), third.is_over()), (0, false), "it is on its way");
            let callback = rig.revoke(found.attr.fid, OF_DATA);
            rig.wait_ms(1).await;
            assert_eq!(rig.asked("Read"), 1, "it asks itself");
            rig.cluster.world.release("Read");
            rig.wait_ms(10).await;
            assert!(callback.is_over());
            assert!(third.take().as_deref() == content.get(8 * 4096..9 * 4096));
            assert_eq!(rig.used(), 0);
        });
    }
}

#[test]
fn what_this_mount_writes_or_cuts_is_read_anew() {
    simulated(|rig| async move {
        let (found, reader, content) = rig.begun().await;
        let writer = rig.open(found.node, libc::O_WRONLY).await;
        let mut content = content.to_vec();
        content[3 * 4096..4 * 4096].fill(7);
        let (data, flags) = (Bytes::from(vec![7; 4096]), WriteFlags::default());
        rig.client().write(Caller::root(), writer, 3 * K4, data, flags).await.unwrap();
        assert_eq!(rig.used(), 0);
        rig.read_blocks(reader, 2, 4, &content).await;
        assert_eq!(rig.used(), 0, "nothing is fetched until it is stored");
        rig.client().fsync(Caller::root(), writer, false).await.unwrap();
        rig.read_blocks(reader, 6, 1, &content).await;
        assert!(rig.used() > 0);
        let sync = WriteFlags { sync: true, ..flags };
        let data = Bytes::from(vec![9; 4096]);
        content[10 * 4096..11 * 4096].fill(9);
        rig.client().write(Caller::root(), writer, 10 * K4, data, sync).await.unwrap();
        assert_eq!(rig.used(), 0);
        rig.read_blocks(reader, 7, 5, &content).await;
        assert!(rig.used() > 0);
        let set = SetAttr { size: Some(20 * K4), ..SetAttr::default() };
        rig.client().setattr(Caller::root(), found.node, None, set).await.unwrap();
        content.truncate(20 * 4096);
        assert_eq!(rig.used(), 0);
        rig.read_blocks(reader, 12, 8, &content).await;
    });
}

#[test]
fn a_closed_file_keeps_nothing_and_a_budget_of_nothing_fetches_nothing() {
    simulated(|rig| async move {
        let (found, handle, content) = rig.begun().await;
        rig.client().release(Caller::root(), handle).await.unwrap();
        assert_eq!(rig.used(), 0);
        let limits = rig.client().read_ahead().limits();
        rig.client()
            .read_ahead()
            .set_limits(client::read_ahead::ReadAheadLimits { mount: 0, ..limits });
        let handle = rig.open(found.node, libc::O_RDONLY).await;
        rig.cluster.asked();
        rig.read_blocks(handle, 0, 10, content).await;
        assert_eq!((rig.asked("Read"), rig.used()), (10, 0));
    });
}
