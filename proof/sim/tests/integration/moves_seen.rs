//! Names and inodes on two MDTs, as another client sees them that holds locks, or asks for some
//! while they change.

use crate::by_hand::{name, run, start};
use crate::mounts::{begin, end};
use crate::stripes_seen::{does, mounted, names};
use client::caller::Caller;
use client::error::ClientError;
use client::node::NodeId;
use client::open::OpenMode;
use std::time::Duration;
use types::errno::Errno;
use types::target::TargetIndex;
use wire::mds::RenameFlags;

const OTHER: TargetIndex = TargetIndex(1);
/// No removal takes longer, if nothing is in the way.
const REMOVAL: Duration = Duration::from_millis(6);
/// Between two moments at which the other client writes.
const STEP: Duration = Duration::from_micros(100);

fn root() -> Caller {
    Caller::root()
}

/// Both names are told: the old one, and the one that the other client knows to be absent.
#[test]
fn a_client_that_knew_the_new_name_to_be_absent_finds_it() {
    let (cluster, _) = start(1, 2);
    let ((first, one), (second, two)) = (mounted(&cluster), mounted(&cluster));
    let make = one.clone().mkdir_at(root(), NodeId::ROOT, name("old"), 0o755, OTHER);
    let made = does(&cluster, &first, make).expect("a directory of the other MDT");
    let looks = |text: &str| two.clone().lookup(root(), NodeId::ROOT, name(text));
    run(&cluster, Duration::from_secs(10));
    // A listing brings the lock under which the other client knows which names there are.
    let listed = does(&cluster, &second, names(two.clone(), NodeId::ROOT)).expect("a listing");
    assert!(listed.contains("old"));
    let absent = does(&cluster, &second, looks("new")).expect_err("no such name");
    assert_eq!(absent.errno(), Errno::ENOENT);
    let (from, to) = ((NodeId::ROOT, name("old")), (NodeId::ROOT, name("new")));
    let rename = one.clone().rename(root(), from, to, RenameFlags::default());
    does(&cluster, &first, rename).expect("both names are in the root");
    assert_eq!(does(&cluster, &second, looks("new")).expect("the name is there").ino, made.ino);
    let gone = does(&cluster, &second, looks("old")).expect_err("the name is gone");
    assert_eq!(gone.errno(), Errno::ENOENT);
}

/// A writer asks for the lock of a file at each moment of the removal of one of its names, which
/// another MDT has.
#[test]
fn a_lock_that_is_asked_for_during_a_removal_covers_nothing_old() {
    let (cluster, _) = start(2, 2);
    let ((first, one), (second, two)) = (mounted(&cluster), mounted(&cluster));
    let make = one.clone().mkdir_at(root(), NodeId::ROOT, name("dir"), 0o755, OTHER);
    let dir_of_one = does(&cluster, &first, make).expect("a directory of the other MDT").node;
    let dir_of_two = does(&cluster, &second, two.clone().lookup(root(), NodeId::ROOT, name("dir")));
    let dir_of_two = dir_of_two.expect("a directory").node;
    let within = Duration::from_secs(60);
    for step in 0..(REMOVAL.as_micros() / STEP.as_micros()) as u32 {
        let file = name(&format!("file{step}"));
        let link = name(&format!("link{step}"));
        let (client, file_of_one, to) = (one.clone(), file.clone(), link.clone());
        let linked = async move {
            let mode = OpenMode::from_libc(libc::O_RDWR, false);
            let create = client.clone().create(root(), dir_of_one, file_of_one, 0o644, mode);
            let (found, handle) = create.await?;
            let data = vec![1; 100].into();
            client.clone().write(root(), handle, 0, data, Default::default()).await?;
            client.clone().release(root(), handle).await?;
            client.clone().link(root(), found.node, NodeId::ROOT, to).await
        };
        let linked = does(&cluster, &first, linked).expect("two names on two MDTs");
        assert_eq!(linked.attr.nlink, 2);
        let client = two.clone();
        let opened = async move {
            let node = client.clone().lookup(root(), dir_of_two, file).await?.node;
            let mode = OpenMode::from_libc(libc::O_WRONLY, false);
            Ok::<_, ClientError>((node, client.open(root(), node, mode).await?))
        };
        let (node, handle) = does(&cluster, &second, opened).expect("an open file");
        let removed = begin(&first, one.clone().unlink(root(), NodeId::ROOT, link));
        run(&cluster, STEP * step);
        let (client, data) = (two.clone(), vec![2; 100].into());
        let write = async move { client.write(root(), handle, 0, data, Default::default()).await };
        let written = begin(&second, write);
        end(&cluster, &removed, within).expect("the name is removed");
        end(&cluster, &written, within).expect("bytes are taken");
        let left =
            does(&cluster, &second, two.clone().getattr(root(), node, None)).expect("a file");
        assert_eq!(left.attr.nlink, 1, "written after {:?}", STEP * step);
    }
}
