//! A directory over three MDTs, as two clients see it.

use crate::by_hand::{name, run, start};
use client::Budget;
use client::caller::Caller;
use client::client::Client;
use client::error::ClientError;
use client::node::NodeId;
use parking_lot::Mutex;
use sim::cluster::{Cluster, Mount};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use types::attr::SetAttr;
use types::dir_stripes::{DirHash, DirSpec};
use types::errno::Errno;
use types::target::TargetIndex;
use wire::mds::RenameFlags;

pub fn mounted(cluster: &Cluster) -> (Mount, Arc<Client>) {
    let mount = cluster.mount(None);
    for _ in 0..100 {
        run(cluster, Duration::from_millis(100));
        let client = mount.client.lock().clone();
        if let Some(client) = client {
            return (mount, client);
        }
    }
    panic!("not mounted in ten seconds");
}

/// Does it as a program of this mount, and runs the world until it is done.
pub fn does<R: Send + 'static>(
    cluster: &Cluster,
    mount: &Mount,
    work: impl Future<Output = R> + Send + 'static,
) -> R {
    let slot = Arc::new(Mutex::new(None));
    let to = slot.clone();
    mount.env.tasks.spawn("program", Box::pin(async move { *to.lock() = Some(work.await) }));
    for _ in 0..6000 {
        run(cluster, Duration::from_millis(10));
        if let Some(result) = slot.lock().take() {
            return result;
        }
    }
    panic!("not done in a minute");
}

fn errno<T: std::fmt::Debug>(result: Result<T, ClientError>) -> Errno {
    result.expect_err("it is refused").errno()
}

/// All names, in small pieces; each is there once.
pub async fn names(client: Arc<Client>, dir: NodeId) -> Result<BTreeSet<String>, ClientError> {
    let handle = client.clone().opendir(Caller::root(), dir).await?;
    let (mut names, mut cookie) = (BTreeSet::new(), 0);
    loop {
        let budget = Budget { bytes: 1 << 10, per_entry: 24 };
        let items = client.clone().readdir(Caller::root(), handle, cookie, budget, true).await?;
        let Some(last) = items.last() else { break };
        cookie = last.next;
        for item in &items {
            if let Some(found) = &item.found {
                client.forget(found.node, 1);
            }
            let name = String::from_utf8_lossy(&item.name).into_owned();
            assert!(names.insert(name), "a name is listed twice");
        }
    }
    client.releasedir(handle);
    assert!(names.remove(".") && names.remove(".."));
    Ok(names)
}

#[test]
fn two_clients_see_one_directory() {
    let (cluster, _) = start(1, 3);
    let ((first, one), (second, two)) = (mounted(&cluster), mounted(&cluster));
    let (mdts, any) = (vec![TargetIndex(2), TargetIndex(0), TargetIndex(1)], false);
    let spec = DirSpec { count: 3, hash: DirHash::Crush, mdts, any };
    let files: BTreeSet<String> = (0..200).map(|n| format!("f{n}")).collect();
    let who = Caller::root;

    let (client, all) = (one.clone(), files.clone());
    let dir = does(&cluster, &first, async move {
        let made = client.clone().mkdir_placed(who(), NodeId::ROOT, name("d"), 0o755, spec).await;
        let dir = made.expect("it is made");
        assert_eq!((dir.attr.fid.mdt(), dir.attr.nlink), (2, 2));
        assert_eq!(dir.attr_valid, Duration::ZERO, "the kernel asks for the whole");
        let mut on = BTreeSet::new();
        for file in &all {
            let mode = libc::S_IFREG | 0o644;
            let made = client.clone().mknod(who(), dir.node, name(file), mode, 0).await;
            let made = made.expect("a file");
            assert_eq!(made.entry_valid, Duration::ZERO, "callbacks name stripes");
            on.insert(made.attr.fid.mdt());
        }
        assert_eq!(on.len(), 3, "files are where their names are");
        let below = client.clone().mkdir(who(), dir.node, name("below"), 0o755).await;
        let below = below.expect("a directory");
        let above = client.clone().lookup_parent(who(), below.node).await.expect("..");
        assert_eq!(above.node, dir.node);
        let whole = client.clone().getattr(who(), dir.node, None).await.expect("attributes");
        assert_eq!(whole.attr.nlink, 3);
        assert_eq!(names(client.clone(), dir.node).await.expect("names").len(), 201);
        dir.node
    });

    let (client, all) = (two.clone(), files.clone());
    let there = does(&cluster, &second, async move {
        let dir = client.clone().lookup(who(), NodeId::ROOT, name("d")).await.expect("it is there");
        let mut listed = names(client.clone(), dir.node).await.expect("names");
        assert!(listed.remove("below"));
        assert_eq!(listed, all);
        for file in &all {
            client.clone().lookup(who(), dir.node, name(file)).await.expect("a file");
            if file.ends_with('7') {
                client.clone().unlink(who(), dir.node, name(file)).await.expect("it goes");
            }
        }
        let rename = client.clone().rename(
            who(),
            (dir.node, name("f1")),
            (dir.node, name("moved")),
            RenameFlags::default(),
        );
        rename.await.expect("to another stripe, or not");
        let set = SetAttr { mode: Some(0o700), ..SetAttr::default() };
        client.clone().setattr(who(), dir.node, None, set).await.expect("chmod");
        dir.node
    });

    let (client, all) = (one.clone(), files.clone());
    does(&cluster, &first, async move {
        for file in &all {
            let found = client.clone().lookup(who(), dir, name(file)).await;
            match file.ends_with('7') || file == "f1" {
                true => assert_eq!(errno(found), Errno::ENOENT, "{file}"),
                false => _ = found.expect("it is there"),
            }
        }
        client.clone().lookup(who(), dir, name("moved")).await.expect("it is there");
        let whole = client.clone().getattr(who(), dir, None).await.expect("attributes");
        assert_eq!(whole.attr.mode & 0o7777, 0o700);
        let stays = client.clone().rmdir(who(), NodeId::ROOT, name("d")).await;
        assert_eq!(errno(stays), Errno::ENOTEMPTY);
        let listed = names(client.clone(), dir).await.expect("names");
        for text in listed.iter().filter(|text| *text != "below") {
            client.clone().unlink(who(), dir, name(text)).await.expect("it goes");
        }
        client.clone().rmdir(who(), dir, name("below")).await.expect("it goes");
        client.clone().rmdir(who(), NodeId::ROOT, name("d")).await.expect("it goes");
        let gone = client.clone().lookup(who(), NodeId::ROOT, name("d")).await;
        assert_eq!(errno(gone), Errno::ENOENT);
    });

    let client = two.clone();
    does(&cluster, &second, async move {
        let gone = client.clone().lookup(who(), NodeId::ROOT, name("d")).await;
        assert_eq!(errno(gone), Errno::ENOENT);
        let make = client.clone().mkdir(who(), there, name("x"), 0o755).await;
        assert!([Errno::ENOENT, Errno::ESTALE].contains(&errno(make)));
    });
}
