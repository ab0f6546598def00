//! Ranges of a file that are cut, copied, allocated, or holes.

use super::*;

#[tokio::test]
async fn ranges_are_copied_within_the_file_system() {
    let cluster = Cluster::mounted().await;
    let (_, source) = create(&cluster, "source").await;
    let (_, target) = create(&cluster, "target").await;
    let data: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
    write(&cluster.client, source, 0, &data).await.unwrap();
    let copy = |from, to, len| {
        cluster.client.clone().copy_file_range(Caller::root(), (source, from), (target, to), len)
    };
    assert_eq!(copy(10, 5, 1 << 30).await.unwrap(), 199_990, "to the end of the source");
    assert_eq!(copy(200_000, 5, 10).await.unwrap(), 0);
    assert_eq!(read(&cluster.client, target, 5, 1 << 20).await, &data[10..]);
}

#[tokio::test]
async fn data_and_holes_of_striped_files_are_found() {
    let cluster = Cluster::mounted().await;
    let (_, file) = create(&cluster, "f").await;
    let seek = |offset, hole| cluster.client.clone().seek(Caller::root(), file, offset, hole);
    assert_eq!(seek(0, false).await.unwrap_err().errno(), Errno::ENXIO);
    write(&cluster.client, file, 0, &vec![1; STRIPE as usize]).await.unwrap();
    write(&cluster.client, file, 2 * STRIPE, b"x").await.unwrap();
    assert_eq!(seek(0, true).await.unwrap(), STRIPE, "the second stripe was never written");
    assert_eq!(seek(STRIPE, false).await.unwrap(), 2 * STRIPE);
    assert_eq!(
        seek(2 * STRIPE, true).await.unwrap(),
        2 * STRIPE + 1,
        "the end of the file is a hole"
    );
    assert_eq!(seek(2 * STRIPE + 1, true).await.unwrap_err().errno(), Errno::ENXIO);
}

#[tokio::test]
async fn allocation_grows_the_file_unless_told_not_to() {
    let cluster = Cluster::mounted().await;
    let (found, file) = create(&cluster, "f").await;
    let client = || cluster.client.clone();
    let size = || cluster.world.state.lock().inodes[&found.attr.fid].attr.size;
    client()
        .fallocate(Caller::root(), file, 0, 100, libc::FALLOC_FL_KEEP_SIZE as u32)
        .await
        .unwrap();
    assert_eq!(size(), 0);
    client().fallocate(Caller::root(), file, 0, 100, 0).await.unwrap();
    assert_eq!(size(), 100);
    write(&cluster.client, file, 0, &[9; 100]).await.unwrap();
    let punch = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u32;
    client().fallocate(Caller::root(), file, 10, 1000, punch).await.unwrap();
    assert_eq!(read(&cluster.client, file, 0, 100).await, [&[9; 10][..], &[0; 90]].concat());
    let collapse = client()
        .fallocate(Caller::root(), file, 0, 4096, libc::FALLOC_FL_COLLAPSE_RANGE as u32)
        .await;
    assert_eq!(collapse.unwrap_err().errno(), Errno::EOPNOTSUPP);
}

#[tokio::test]
async fn a_cut_file_shows_zeros_when_it_grows_again() {
    let cluster = Cluster::mounted().await;
    let (found, file) = create(&cluster, "f").await;
    write(&cluster.client, file, 0, &vec![1; 3 * STRIPE as usize]).await.unwrap();
    cluster.client.clone().fsync(Caller::root(), file, false).await.unwrap();
    cluster.asked();
    assert_eq!(truncate(&cluster, &found, 10).await.unwrap(), 10);
    assert_eq!(cluster.asked(), ["Setattr", "GetLayout", "0 Punch", "1 Punch", "Wrote"]);
    assert_eq!(cluster.world.state.lock().bytes(found.attr.fid), 10);
    assert_eq!(truncate(&cluster, &found, 20).await.unwrap(), 20);
    assert_eq!(read(&cluster.client, file, 0, 100).await, [&[1; 10][..], &[0; 10]].concat());
    assert_eq!(
        cluster.world.state.lock().inodes[&found.attr.fid].attr.blocks,
        1,
        "the MDT was told what was freed"
    );
}

#[tokio::test]
async fn a_tail_that_could_not_be_cut_is_cut_before_the_file_grows() {
    let cluster = Cluster::mounted().await;
    let (found, file) = create(&cluster, "f").await;
    write(&cluster.client, file, 0, &vec![1; 2 * STRIPE as usize]).await.unwrap();
    cluster.world.state.lock().broken_ost = Some((1, Errno::EIO));
    assert_eq!(truncate(&cluster, &found, 0).await.unwrap_err().errno(), Errno::EIO);
    cluster.client.clone().release(Caller::root(), file).await.unwrap();
    cluster.world.state.lock().broken_ost = None;
    let file = cluster.client.clone().open(Caller::root(), found.node, RDWR).await.unwrap();
    write(&cluster.client, file, 2 * STRIPE, b"x").await.unwrap();
    let mut expected = vec![0; 2 * STRIPE as usize];
    expected.push(b'x');
    assert!(read(&cluster.client, file, 0, 3 * STRIPE as u32).await == expected, "no stale byte");
}

#[tokio::test]
async fn objects_are_cut_when_the_new_size_is_durable() {
    let cluster = Cluster::mounted().await;
    let (made, _file) = create(&cluster, "f").await;
    cluster.world.state.lock().commits_late = true;
    truncate(&cluster, &made, 10).await.unwrap();
    let asked = cluster.asked();
    let at = |what: &str| {
        asked.iter().position(|line| line == what).unwrap_or_else(|| panic!("{what}: {asked:?}"))
    };
    assert!(at("Setattr") < at("Sync") && at("Sync") < at("0 Punch"), "{asked:?}");
}

#[tokio::test]
async fn a_refused_truncate_changes_nothing_and_doubts_nothing() {
    let cluster = Cluster::mounted().await;
    let made =
        cluster.client.clone().mkdir(Caller::root(), NodeId::ROOT, name("d"), 0o755).await.unwrap();
    cluster.asked();
    assert_eq!(truncate(&cluster, &made, 0).await.unwrap_err().errno(), Errno::EISDIR);
    assert_eq!(cluster.asked(), ["Lock", "Setattr"], "and nothing after it");
}
