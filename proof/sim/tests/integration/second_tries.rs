//! A rename over two MDTs that met another inode than its kernel knew: until the second try, both
//! MDTs keep other clients from its names (docs/locks/kernel.md, R34 and R41).

use crate::by_hand::{name, run, start};
use crate::stripes_seen::{does, mounted};
use bytes::Bytes;
use client::caller::{Caller, Found};
use client::client::Client;
use client::error::ClientError;
use client::node::NodeId;
use layout::lmv_ea;
use parking_lot::Mutex;
use sim::cluster::{Cluster, Mount};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use types::dir_stripes::{DirDefault, DirHash, DirSpec};
use types::errno::Errno;
use types::target::TargetIndex;
use wire::mds::{RenameFlags, SetxattrFlags};

/// Longest time for which an MDT holds names (`MdsSettings::names_held`).
const HELD: Duration = Duration::from_millis(100);
/// Enough for a few messages, and far below [`HELD`].
const SOON: Duration = Duration::from_millis(20);

type Result<T> = std::result::Result<T, ClientError>;

async fn make(client: &Arc<Client>, dir: NodeId, text: &str) -> Found {
    let made = client.clone().mknod(Caller::root(), dir, name(text), libc::S_IFREG | 0o644, 0);
    made.await.expect("a file")
}

/// As the kernel does for a thread that is about to change names.
async fn look(client: &Arc<Client>, dir: NodeId, text: &str) {
    client.clone().lookup(thread(), dir, name(text)).await.expect("it is there");
}

fn thread() -> Caller {
    Caller { pid: 7, ..Caller::root() }
}

fn renames(
    client: &Arc<Client>,
    dir: NodeId,
    [from, to]: [&str; 2],
) -> impl Future<Output = Result<()>> + Send + 'static {
    let (from, to) = ((dir, name(from)), (dir, name(to)));
    let rename = client.clone().rename(thread(), from, to, RenameFlags::default());
    async move { rename.await.map(drop) }
}

/// Two clients, a directory over two MDTs with files of both, and the directory as each knows it.
struct Two {
    cluster: Cluster,
    mounts: [Mount; 2],
    clients: [Arc<Client>; 2],
    dirs: [NodeId; 2],
    /// Names on each MDT.
    on: [Vec<String>; 2],
}

impl Two {
    fn start() -> Two {
        let (cluster, _) = start(1, 2);
        let ((first, one), (second, two)) = (mounted(&cluster), mounted(&cluster));
        let mdts = vec![TargetIndex(0), TargetIndex(1)];
        let spec = DirSpec { count: 2, hash: DirHash::Crush, mdts, any: false };
        let client = one.clone();
        let (dir, by_mdt) = does(&cluster, &first, async move {
            let (caller, client) = (Caller::root(), client);
            let made = client.clone().mkdir_placed(caller, NodeId::ROOT, name("d"), 0o755, spec);
            let dir = made.await.expect("a directory").node;
            let mut by_mdt: BTreeMap<u16, Vec<String>> = BTreeMap::new();
            for number in 0..20 {
                let text = format!("f{number}");
                let found = make(&client, dir, &text).await;
                by_mdt.entry(found.attr.fid.mdt()).or_default().push(text);
            }
            (dir, by_mdt)
        });
        let client = two.clone();
        let there = does(&cluster, &second, async move {
            client.clone().lookup(Caller::root(), NodeId::ROOT, name("d")).await.expect("it").node
        });
        let on = [0, 1].map(|mdt| by_mdt[&mdt].clone());
        assert!(on.iter().all(|names| names.len() >= 3), "{on:?}");
        let (mounts, clients) = ([first, second], [one, two]);
        Two { cluster, mounts, clients, dirs: [dir, there], on }
    }

    fn does<R: Send + 'static>(
        &self,
        which: usize,
        work: impl Future<Output = R> + Send + 'static,
    ) -> R {
        does(&self.cluster, &self.mounts[which], work)
    }

    /// The second client gives this name to another file, after the first one has looked.
    fn gives_away(&self, looked_at: [&str; 2], text: &str) {
        let (client, dir) = (self.clients[0].clone(), self.dirs[0]);
        let names = looked_at.map(str::to_string);
        self.does(0, async move {
            for text in &names {
                look(&client, dir, text).await;
            }
        });
        let (client, dir, text) = (self.clients[1].clone(), self.dirs[1], text.to_string());
        self.does(1, async move {
            look(&client, dir, &text).await;
            let unlink = client.clone().unlink(Caller::root(), dir, name(&text));
            unlink.await.expect("it goes");
            make(&client, dir, &text).await;
        });
    }

    /// The first client tries to rename; it meets another file.
    fn misses(&self, from: &str, to: &str) {
        let rename = renames(&self.clients[0], self.dirs[0], [from, to]);
        let missed = self.does(0, rename).expect_err("it is another file");
        assert_eq!(missed.errno(), Errno::ESTALE);
    }

    /// The second client begins to change names; where its result will be.
    fn begins(
        &self,
        work: impl Future<Output = Result<()>> + Send + 'static,
    ) -> Arc<Mutex<Option<Result<()>>>> {
        let slot = Arc::new(Mutex::new(None));
        let to = slot.clone();
        let tasks = &self.mounts[1].env.tasks;
        tasks.spawn("program", Box::pin(async move { *to.lock() = Some(work.await) }));
        slot
    }

    /// The kernel of the first client looks again, and tries again.
    fn tries_again(&self, from: &str, to: &str) {
        let (client, dir) = (self.clients[0].clone(), self.dirs[0]);
        let names = [from, to].map(str::to_string);
        self.does(0, async move {
            for text in &names {
                look(&client, dir, text).await;
            }
            let [from, to] = [&names[0][..], &names[1][..]];
            renames(&client, dir, [from, to]).await.expect("no program sees ESTALE");
        });
    }
}

/// Either name, each on another MDT; the other client's change is one of one MDT, or over both.
#[test]
fn both_names_stay_until_the_second_try_whichever_mdt_has_them() {
    for coordinator in [0, 1] {
        for (other_name, over_both) in [(0, false), (1, false), (0, true), (1, true)] {
            let two = Two::start();
            let (to, from) = (&two.on[coordinator][0], &two.on[1 - coordinator][0]);
            // On the MDT that does not have the name that the other client takes away.
            let away = &two.on[if other_name == 0 { coordinator } else { 1 - coordinator }][1];
            two.gives_away([from, to], to);
            two.misses(from, to);
            let taken = [from, to][other_name];
            let (client, dir) = (two.clients[1].clone(), two.dirs[1]);
            let (text, away) = (taken.clone(), away.clone());
            let other = two.begins(async move {
                match over_both {
                    true => renames(&client, dir, [&text, &away]).await,
                    false => {
                        client.clone().unlink(Caller::root(), dir, name(&text)).await.map(drop)
                    }
                }
            });
            run(&two.cluster, SOON);
            let case = format!("{coordinator} {other_name} {over_both}");
            assert!(other.lock().is_none(), "{case}: it changed the name of the second try");
            two.tries_again(from, to);
            run(&two.cluster, 3 * HELD);
            let result = other.lock().take().expect("it went on");
            match taken == from {
                true => assert_eq!(result.unwrap_err().errno(), Errno::ENOENT, "{case}"),
                false => result.unwrap(),
            }
        }
    }
}

#[test]
fn names_pass_to_other_stripes_after_the_second_try_and_wait_for_none_that_never_comes() {
    for comes in [true, false] {
        let two = Two::start();
        let (to, from) = (&two.on[0][0], &two.on[1][0]);
        two.gives_away([from, to], to);
        two.misses(from, to);
        let (client, dir) = (two.clients[1].clone(), two.dirs[1]);
        let merge = two.begins(async move {
            let wanted = DirDefault { count: 1, ..DirDefault::default() };
            let value = Bytes::from(lmv_ea::encode_default(&wanted));
            let (lmv, flags) = (Bytes::from_static(b"lustre.lmv"), SetxattrFlags::default());
            client.clone().setxattr(Caller::root(), dir, lmv, value, flags).await
        });
        run(&two.cluster, SOON);
        let moved = || two.cluster.mdt(TargetIndex(0)).expect("a served MDT").names_moved();
        assert_eq!(moved(), 0, "names passed before the second try");
        if comes {
            two.tries_again(from, to);
        }
        run(&two.cluster, Duration::from_secs(2));
        assert!(moved() > 0, "they wait for nothing any more");
        merge.lock().take().expect("it began").unwrap();
        let (client, dir) = (two.clients[0].clone(), two.dirs[0]);
        let left = 20 - usize::from(comes);
        two.does(0, async move {
            let names = crate::stripes_seen::names(client.clone(), dir).await.expect("names");
            assert_eq!(names.len(), left);
        });
    }
}
