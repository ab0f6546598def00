//! Races over the pages of a file.

use super::*;

/// R14: the kernel waits for a read into pages before it drops any.
#[test]
fn reads_into_pages_are_answered_while_the_kernel_drops_them_and_it_drops_them_again() {
    simulated(|rig| async move {
        let found = rig.file("f", b"abc").await;
        let handle = rig.open(found.node, libc::O_RDONLY).await;
        let read = rig.read(handle, true);
        rig.settle().await;
        assert_eq!(read.take(), Some(b"abc".to_vec()));
        rig.kernel.take();
        rig.cluster.asked();
        rig.kernel.hold("data");
        let callback = rig.revoke(found.attr.fid, OF_DATA);
        rig.settle().await;
        let data = format!("data {}", found.node.0);
        assert_eq!(rig.kernel.count(&data), 1);
        let read = rig.read(handle, true);
        rig.wait_ms(1000).await;
        assert_eq!(read.take(), Some(b"abc".to_vec()), "the kernel waits for it");
        assert_eq!((rig.asked("Lock"), callback.is_over()), (0, false), "under the old lock");
        rig.kernel.release("data");
        rig.wait_ms(1).await;
        assert_eq!(
            (rig.kernel.count(&data), callback.is_over()),
            (2, true),
            "once more, for what it read meanwhile"
        );
        let read = rig.read(handle, true);
        rig.settle().await;
        assert_eq!(
            (read.take(), rig.asked("Lock")),
            (Some(b"abc".to_vec()), 1),
            "the lock is gone"
        );
    });
}

/// R14: the bound.
#[test]
fn pages_that_are_read_in_each_round_are_dropped_thirty_two_times() {
    simulated(|rig| async move {
        let found = rig.file("f", b"abc").await;
        let handle = rig.open(found.node, libc::O_RDONLY).await;
        let read = rig.read(handle, true);
        rig.settle().await;
        assert!(read.is_over());
        rig.kernel.take();
        rig.kernel.hold("data");
        let callback = rig.revoke(found.attr.fid, OF_DATA);
        rig.settle().await;
        for round in 1..=32 {
            assert_eq!(
                (rig.kernel.count(&format!("data {}", found.node.0)), callback.is_over()),
                (round, false)
            );
            let read = rig.read(handle, true);
            rig.settle().await;
            assert!(read.is_over(), "round {round}");
            rig.kernel.release("data");
            rig.settle().await;
            rig.kernel.hold("data");
            rig.wait_ms(5).await;
        }
        assert_eq!(
            (rig.kernel.count(&format!("data {}", found.node.0)), callback.is_over()),
            (32, true)
        );
        // What was read in the last round, without the callback.
        assert_eq!(rig.kernel.count(&format!("apart {}", found.node.0)), 1);
    });
}

/// R14: a read into pages that waits for `Lock`. R37: it asks for what others have not stored.
#[test]
fn a_read_into_pages_that_waits_for_its_lock_bypasses_it_for_a_callback() {
    simulated(|rig| async move {
        let found = rig.file("f", b"abc").await;
        // Open for writing, under DATA alone: a read into pages asks for WRITE.
        let handle = rig.open(found.node, libc::O_RDWR).await;
        let read = rig.read(handle, true);
        rig.settle().await;
        assert!(read.is_over());
        rig.revoked(found.attr.fid, InodeBits::WRITE).await;
        let read = rig.read(handle, false);
        rig.settle().await;
        assert!(read.is_over());
        rig.cluster.asked();
        rig.kernel.take();
        rig.cluster.world.hold("Lock");
        let read = rig.read(handle, true);
        let data = Bytes::from_static(b"xyz");
        let write = rig.client().write(Caller::root(), handle, 0, data, WriteFlags::default());
        let write = rig.begin(write);
        rig.settle().await;
        // One asks for both.
        assert_eq!((rig.asked("Lock"), read.is_over(), write.is_over()), (1, false, false));
        // The MDT serves another client first, and the kernel waits for the page of the read.
        rig.kernel.hold("data");
        let callback = rig.revoke(found.attr.fid, DATA);
        rig.wait_ms(1000).await;
        assert_eq!(rig.kernel.count(&format!("data {}", found.node.0)), 1);
        assert_eq!(read.take(), Some(b"abc".to_vec()));
        assert_eq!(rig.cluster.world.state.lock().to_store, [found.attr.fid]);
        assert!(
            !write.is_over() && !callback.is_over(),
            "a write past the page cache holds no page"
        );
        rig.kernel.release("data");
        rig.wait_ms(1).await;
        assert!(callback.is_over() && !write.is_over());
        rig.cluster.world.release("Lock");
        rig.wait_ms(1).await;
        assert!(write.is_over());
    });
}

/// R15.
#[test]
fn attributes_of_a_file_wait_for_a_second_while_its_pages_go() {
    for (kernel_takes, answered) in [(500, 500), (5000, 1000)] {
        simulated(move |rig| async move {
            let (found, _handle) = with_pages(&rig, "f", b"abc").await;
            rig.kernel.hold("data");
            let callback = rig.revoke(found.attr.fid, DATA);
            rig.settle().await;
            assert_eq!(rig.kernel.take(), [format!("data {}", found.node.0)]);
            assert_eq!(rig.client().getattr_known(found.node, None), None);
            let stat = rig.begin(rig.client().getattr(Caller::root(), found.node, None));
            let release = (rig.cluster.env.clock.clone(), rig.kernel.clone());
            rig.begin(async move {
                release.0.sleep(Duration::from_millis(kernel_takes)).await;
                release.1.release("data");
            });
            rig.wait_ms(answered - 1).await;
            assert!(!stat.is_over());
            rig.wait_ms(2).await;
            assert!(stat.is_over());
            assert_eq!(callback.is_over(), kernel_takes == answered);
        });
    }
}

/// R16: files open for writing.
#[test]
fn a_file_that_is_open_for_writing_bypasses_the_page_cache() {
    simulated(|rig| async move {
        let (found, handle) = with_pages(&rig, "f", b"abc").await;
        assert_eq!(rig.client().page_cache(handle), PageCache::Kept);
        for (flags, bypassed) in
            [(libc::O_RDWR, true), (libc::O_WRONLY, true), (libc::O_RDONLY, false)]
        {
            let handle = rig.open(found.node, flags).await;
            assert_eq!(
                rig.client().page_cache(handle) == PageCache::Bypassed,
                bypassed,
                "{flags:o}"
            );
        }
    });
}

/// R16: files that another client has open for writing.
#[test]
fn a_file_of_which_open_is_not_held_bypasses_the_page_cache() {
    simulated(|rig| async move {
        let (found, handle) = with_pages(&rig, "f", b"abc").await;
        assert_eq!(rig.client().page_cache(handle), PageCache::Kept);
        rig.revoked(found.attr.fid, InodeBits::OPEN).await;
        assert_eq!(rig.client().page_cache(handle), PageCache::Bypassed);
    });
}

/// R44: the kernel has dropped its pages before it sends the write.
#[test]
fn what_the_kernel_read_beside_a_write_goes_before_the_write_is_answered() {
    for pages in [false, true] {
        simulated(move |rig| async move {
            let found = rig.file("f", b"abc").await;
            let handle = rig.open(found.node, libc::O_RDWR).await;
            let read = rig.read(handle, pages);
            rig.settle().await;
            assert!(read.is_over());
            rig.kernel.take();
            rig.kernel.hold("apart");
            let (client, node) = (rig.client(), found.node);
            let written = rig.begin(async move { client.drop_written(node, 0, 3).await });
            rig.wait_ms(1000).await;
            assert_eq!(rig.kernel.count(&format!("apart {}", node.0)), usize::from(pages));
            assert_eq!(written.is_over(), !pages);
            // The page that the kernel waits for may be read by a read that waits for its lock.
            // What was there before goes with the lock.
            let callback = rig.revoke(found.attr.fid, OF_DATA);
            rig.wait_ms(1).await;
            assert!(callback.is_over() && written.is_over());
            rig.kernel.release("apart");
        });
    }
}

/// R46.
#[test]
fn without_opens_pages_that_were_read_beside_a_write_go() {
    for pages in [false, true] {
        simulated_with(false, move |rig| async move {
            let found = rig.file("f", b"abc").await;
            let handle = rig.client().no_open_file(found.node, true).await.unwrap();
            let write = rig.client().holds_page(found.node, 0, 3).expect("the kernel keeps pages");
            let read = rig.read(handle, pages);
            rig.settle().await;
            assert!(read.is_over());
            assert_eq!(write.is_beside_a_read(), pages);
            rig.kernel.take();
            rig.client().drop_read_beside(found.node, 0, 3).await;
            assert_eq!(rig.kernel.take(), [format!("data {}", found.node.0)]);
        });
    }
}

/// R16: only what is called back goes again and again.
#[test]
fn a_file_that_was_written_a_moment_ago_is_read_through_the_page_cache() {
    simulated(|rig| async move {
        let found = rig.file("f", b"abc").await;
        let writer = rig.open(found.node, libc::O_RDWR).await;
        let (data, flags) = (Bytes::from_static(b"new"), WriteFlags::default());
        rig.client().write(Caller::root(), writer, 0, data, flags).await.unwrap();
        rig.client().release(Caller::root(), writer).await.unwrap();
        let handle = rig.open(found.node, libc::O_RDONLY).await;
        assert_ne!(rig.client().page_cache(handle), PageCache::Bypassed);
    });
}

/// R16: `CONTENDED`.
#[test]
fn a_file_that_was_called_back_a_moment_ago_bypasses_the_page_cache() {
    simulated(|rig| async move {
        let (found, handle) = with_pages(&rig, "f", b"abc").await;
        rig.revoked(found.attr.fid, DATA).await;
        let read = rig.read(handle, false);
        rig.settle().await;
        assert!(read.is_over(), "DATA is held again");
        assert_eq!(rig.client().page_cache(handle), PageCache::Bypassed);
        rig.wait_ms(1999).await;
        assert_eq!(rig.client().page_cache(handle), PageCache::Bypassed);
        rig.wait_ms(2).await;
        assert_ne!(rig.client().page_cache(handle), PageCache::Bypassed);
    });
}

/// R28.
#[test]
fn times_of_writes_have_a_grain_where_the_kernel_keeps_pages_of_its_writes() {
    const GRAIN: i128 = 4_000_000;
    for (opens, grained) in [(false, true), (true, false)] {
        simulated_with(opens, move |rig| async move {
            let found = rig.file("f", b"").await;
            let handle = match opens {
                true => rig.open(found.node, libc::O_RDWR).await,
                false => rig.client().no_open_file(found.node, true).await.unwrap(),
            };
            let wall = || rig.cluster.env.clock.wall().as_nanos();
            let write = || {
                rig.client().write(
                    Caller::root(),
                    handle,
                    0,
                    Bytes::from_static(b"x"),
                    WriteFlags::default(),
                )
            };
            write().await.unwrap();
            let mut past = Vec::new();
            for wait in [GRAIN + 1_000_000 - wall() % GRAIN, 2_000_000, 2_000_000] {
                rig.wait(Duration::from_nanos(wait as u64)).await;
                let at = wall();
                write().await.unwrap();
                let stat = rig.client().getattr(Caller::root(), found.node, None).await.unwrap();
                past.push((stat.attr.mtime.as_nanos(), at));
            }
            for (mtime, at) in &past {
                assert_eq!(*mtime, if grained { at - at % GRAIN } else { *at });
            }
            assert_eq!(past[0].0 == past[1].0, grained);
            assert_ne!(past[1].0, past[2].0);
        });
    }
}

/// R30.
#[test]
fn a_read_that_waits_for_its_ost_lets_a_callback_through_unless_it_holds_pages() {
    for pages in [false, true] {
        simulated(move |rig| async move {
            let found = rig.file("f", b"abc").await;
            let handle = rig.open(found.node, libc::O_RDONLY).await;
            rig.cluster.world.hold("Read");
            let read = rig.read(handle, pages);
            rig.settle().await;
            rig.cluster.asked();
            let callback = rig.revoke(found.attr.fid, OF_DATA);
            rig.wait_ms(4999).await;
            assert!(!callback.is_over());
            rig.wait_ms(2).await;
            assert_eq!(
                callback.is_over(),
                !pages,
                "{:?} {:?}",
                rig.kernel.take(),
                rig.cluster.asked()
            );
            rig.wait_ms(15_000).await;
            assert_eq!((callback.is_over(), read.is_over()), (!pages, false));
            rig.cluster.world.release("Read");
            rig.wait_ms(1).await;
            assert!(callback.is_over());
            assert_eq!(read.take(), Some(b"abc".to_vec()));
            assert_eq!(rig.asked("Lock"), usize::from(!pages), "it began anew");
        });
    }
}

/// R31.
#[test]
fn reads_into_pages_ask_for_the_whole_file() {
    simulated(|rig| async move {
        let found = rig.file("f", b"abc").await;
        let handle = rig.open(found.node, libc::O_RDONLY).await;
        for pages in [true, false] {
            rig.revoked(found.attr.fid, OF_DATA).await;
            rig.cluster.world.state.lock().locks.clear();
            let read = rig.read(handle, pages);
            rig.settle().await;
            assert!(read.is_over());
            let asked = std::mem::take(&mut rig.cluster.world.state.lock().locks);
            let needs: Vec<bool> = asked.iter().map(|lock| lock.needs.is_some()).collect();
            assert_eq!(needs, [!pages], "bytes are enough past the page cache only");
        }
    });
}

/// R32.
#[test]
fn a_listing_leaves_out_attributes_that_move_the_end_of_a_file_with_pages() {
    simulated(|rig| async move {
        let (moved, _handle) = with_pages(&rig, "moved", b"abc").await;
        let plain = rig.file("plain", b"abc").await;
        for found in [moved, plain] {
            rig.revoked(found.attr.fid, InodeBits::LOOKUP).await;
            rig.cluster.resize_elsewhere(found.attr.fid, 5).await;
        }
        let items = listed(&rig).await;
        let sizes: Vec<_> =
            items.iter().map(|item| item.found.map(|found| found.attr.size)).collect();
        assert_eq!(sizes, [None, Some(5)]);
    });
}
