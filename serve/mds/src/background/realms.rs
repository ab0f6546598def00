//! Realms: the trees that the filesets of nodemaps are (docs/security.md, "Realms").
//!
//! Each inode of a realm has its number as project. A client of a nodemap with a fileset reaches
//! inodes of its realm only: [`Realm`](crate::realm::Realm) is asked about each inode that
//! [`Records`] load for it, and [`Mds::unless_outside`] about each that its operations name.
//!
//! MDT0000 has the root, so it drives the marking of a tree that became a fileset. It walks the
//! tree, and each MDT marks the inodes that it has. Marks are in the inodes, the walk is in memory:
//! a restarted MDT0000 begins it anew and finds the marks. The tree is walked until a walk finds
//! nothing to mark, because names may pass between stripes, and inodes between MDTs, behind the
//! walk's back. Then a record says that it is done.
//!
//! One task at MDT0000. Bounds: one batch at a time, [`NAMES_PER_BATCH`] names of one directory;
//! [`WALK_MAX`] directories that are still to be looked at.

use crate::background::tasks::{Backoff, Stop};
use crate::locks::context::LockContext;
use crate::mds::Mds;
use crate::realms::Walk;
use crate::records::{Records, tail};
use disk::inode::ItemTag;
use disk::key::{self, Tag};
use disk::links;
use disk::mark::{self, Mark};
use namespace::context::Context;
use namespace::inode::{Dirent, Inode, InodeFlags};
use namespace::project;
use namespace::view::{View, directory, whole};
use observe::mutant::{Mutant, is_mutant};
use rpc::error::RpcError;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use stubs::mdc::peers::Marked;
use types::attr::FileType;
use types::credentials::Credentials;
use types::dir_path::DirPath;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::{MARKED_CHILDREN_MAX, STRIPES_ON_THE_WAY_MAX};
use types::name::Name;
use types::project::{Project, REALM_FIRST};
use types::target::TargetIndex;
use wire::mds::{MdsReply, PeerMark, Root};

/// Names of a directory that are looked at in one transaction.
const NAMES_PER_BATCH: usize = 128;
/// Directories, and places in directories, that a walk still has to come to.
const WALK_MAX: usize = 1 << 20;
/// Walks of one attempt. Each finds what the one before has missed, because it moved meanwhile.
const WALKS_MAX: u64 = 256;
/// Shortest and longest pause between two batches: as long as the batch took.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// Pauses after failures: a directory that is not there, an MDT that is away.
const FAILED: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

impl Mds {
    /// How far the trees of filesets are, one a line: number of the realm, fileset, state.
    pub fn realms(&self) -> String {
        let nodemaps = self.nodemaps();
        let state = self.realms.state.lock();
        let mut text = String::new();
        for (realm, path) in nodemaps.realms() {
            let _ = write!(text, "{realm} {path} ");
            let _ = match (state.done.contains(&realm), state.walk, state.failed.get(&realm)) {
                (true, ..) => writeln!(text, "ready"),
                (_, Some(Walk { realm: of, walks, batches, marked }), _) if of == realm => {
                    writeln!(text, "walk {walks} batches {batches} marked {marked}")
                }
                (_, _, Some(errno)) => writeln!(text, "waits: {errno:?}"),
                _ => writeln!(text, "waits"),
            };
        }
        text
    }

    /// See [`PeerMark`].
    pub(crate) async fn peer_mark(&self, op: &PeerMark) -> Result<MdsReply, Errno> {
        let Marked { marked, parent, children, more } = self.mark(op).await?;
        Ok(MdsReply::PeerMarked { marked, parent, children, more })
    }

    async fn mark(&self, op: &PeerMark) -> Result<Marked, Errno> {
        self.ours(op.fid)?;
        if op.realm < REALM_FIRST {
            return Err(Errno::EINVAL);
        }
        self.store.admit().await?;
        let nodemaps = self.nodemaps();
        let others: BTreeSet<u32> =
            nodemaps.realms().into_keys().filter(|realm| *realm != op.realm).collect();
        self.in_turn(&mut LockContext::own(), |context| {
            self.transact(context, |records, ctx| mark(records, ctx, op, &others))
        })
        .await
    }

    /// The task; it ends with the MDT.
    pub(crate) async fn mark_realms(self: Arc<Mds>, mut stop: Stop) {
        let mut backoff = Backoff::new(FAILED.0, FAILED.1);
        match self.read(|records| recorded(records)) {
            Ok(done) => self.realms.state.lock().done = done,
            Err(errno) => {
                tracing::error!(target = %self.name, %errno, "it is not known which filesets are ready")
            }
        }
        loop {
            let mut failed = false;
            for (realm, path) in self.to_mark() {
                let marked = tokio::select! {
                    biased;
                    () = stop.stopped() => return,
                    marked = self.mark_tree(realm, &path) => marked,
                };
                let mut state = self.realms.state.lock();
                state.walk = None;
                match marked {
                    Ok(()) => _ = state.failed.remove(&realm),
                    Err(errno) => {
                        failed = true;
                        if state.failed.insert(realm, errno) != Some(errno) {
                            tracing::warn!(target = %self.name, realm, %path, %errno, "the tree of a fileset is not marked yet");
                        }
                    }
                }
            }
            if !failed {
                backoff.succeeded();
            }
            let pause = failed.then(|| backoff.failed());
            if !self.realms.work.wait(&self.env, pause, &mut stop).await {
                return;
            }
        }
    }

    /// The realms whose trees are not marked, with their filesets. What is known of realms that are
    /// no more is forgotten.
    fn to_mark(&self) -> Vec<(u32, DirPath)> {
        let nodemaps = self.nodemaps();
        let realms = nodemaps.realms();
        let (gone, to_mark) = {
            let mut state = self.realms.state.lock();
            state.failed.retain(|realm, _| realms.contains_key(realm));
            // Before the MGS was heard nothing is known to be no more.
            let is_known = nodemaps.version != 0;
            let gone = |realm: &&u32| is_known && !realms.contains_key(realm);
            let gone: Vec<u32> = state.done.iter().filter(gone).copied().collect();
            gone.iter().for_each(|realm| _ = state.done.remove(realm));
            let path = |path: &str| DirPath::parse(path.as_bytes()).ok();
            let to_mark = realms
                .iter()
                .filter(|(realm, _)| !state.done.contains(realm))
                .filter_map(|(realm, text)| Some((*realm, path(text)?)));
            (gone, to_mark.collect())
        };
        if !gone.is_empty() {
            let forgotten = self.transact(&mut LockContext::own(), |records, _| {
                gone.iter().for_each(|realm| records.tx.delete(&key::realm(*realm)));
                Ok(())
            });
            if let Err(errno) = forgotten {
                tracing::warn!(target = %self.name, %errno, "records of former filesets stay");
            }
        }
        to_mark
    }

    /// Marks the tree of a fileset. It is done, durably, when this returns.
    ///
    /// # Errors
    /// ENOENT, ENOTDIR: there is no such directory (yet); ENODEV, EAGAIN: an MDT is away; those of
    /// marking.
    async fn mark_tree(&self, realm: u32, path: &DirPath) -> Result<(), Errno> {
        let mut walk = Walk { realm, ..Walk::default() };
        loop {
            let top = self.top_of(path).await?;
            (walk.walks, walk.batches) = (walk.walks + 1, 0);
            if walk.walks > WALKS_MAX {
                // Something is not where it says that it is: `sheen fsck`.
                return Err(Errno::EIO);
            }
            let marked = self.walk_tree(top, &mut walk).await?;
            // Also what an MDT has marked and may lose: the next walk would not see that it did.
            self.all_durable().await?;
            if marked == 0 {
                break;
            }
        }
        self.transact(&mut LockContext::own(), |records, _| {
            let mark = mark::encode(Mark { boot: self.boot, cut: false });
            records.tx.put(&key::realm(realm), &mark);
            Ok(())
        })?;
        self.store.commit().await?;
        self.realms.state.lock().done.insert(realm);
        let Walk { walks, marked, .. } = walk;
        tracing::info!(target = %self.name, realm, %path, walks, marked, "the tree of a fileset is marked");
        Ok(())
    }

    /// Returns how many inodes it has marked.
    async fn walk_tree(&self, top: Fid, walk: &mut Walk) -> Result<u64, Errno> {
        let (mut next, mut marked) = (vec![(top, Fid::NONE, None)], 0);
        while let Some((fid, parent, after)) = next.pop() {
            self.realms.state.lock().walk = Some(*walk);
            let begun = self.env.clock.now();
            let mark = PeerMark { fid, parent, realm: walk.realm, after };
            let Marked { marked: now, parent, children, more } = self.mark_at(mark).await?;
            (walk.batches, walk.marked) = (walk.batches + 1, walk.marked + u64::from(now));
            marked += u64::from(now);
            if is_mutant(Mutant::TreeUnmarked) {
                continue;
            }
            // It is marked, so it stays where it is.
            next.extend(more.map(|name| (fid, Fid::NONE, Some(name))));
            next.extend(children.into_iter().map(|child| (child, parent, None)));
            if next.len() > WALK_MAX {
                return Err(Errno::E2BIG);
            }
            let took = self.env.clock.now().saturating_sub(begun);
            self.env.clock.sleep(took.clamp(PAUSE.0, PAUSE.1)).await;
        }
        Ok(marked)
    }

    /// Marks at the MDT that has the inode.
    async fn mark_at(&self, mark: PeerMark) -> Result<Marked, Errno> {
        if mark.fid.mdt() == self.name.index.0 {
            return self.mark(&mark).await;
        }
        let peer = self.peers.get(TargetIndex(mark.fid.mdt())).ok_or(Errno::ENODEV)?;
        peer.peer_mark(mark).await.map_err(away)
    }

    /// The directory that a fileset is.
    async fn top_of(&self, path: &DirPath) -> Result<Fid, Errno> {
        let (mut at, mut walked, mut asides) = (Fid::ROOT, 0, 0);
        while walked < path.names().len() {
            let (next, names) = if at.mdt() == self.name.index.0 {
                let name = &path.names()[walked];
                self.read(|records| {
                    let dir = directory(records, at)?;
                    records.next_on_the_way(&dir, name.as_bytes())
                })?
            } else {
                let peer = self.peers.get(TargetIndex(at.mdt())).ok_or(Errno::ENODEV)?;
                let ask = Root { path: path.clone(), from: at, walked: walked as u32, fileset: 0 };
                let (next, _) = peer.root(&Credentials::root(), ask).await.map_err(away)?;
                let names = (next.walked as usize).checked_sub(walked).ok_or(Errno::EIO)?;
                (next.fid, names)
            };
            (at, walked, asides) = (next, walked + names, asides + usize::from(names == 0));
            if asides > STRIPES_ON_THE_WAY_MAX {
                return Err(Errno::EAGAIN);
            }
        }
        Ok(at)
    }

    /// Everything that all MDTs have done so far is durable.
    async fn all_durable(&self) -> Result<(), Errno> {
        self.store.commit().await?;
        for mdt in self.peers.list() {
            let peer = self.peers.get(mdt).ok_or(Errno::ENODEV)?;
            peer.sync(&Credentials::root()).await.map_err(away)?;
        }
        Ok(())
    }
}

/// What another MDT answered, or that it did not.
fn away(error: RpcError) -> Errno {
    match error {
        RpcError::Errno(errno) => errno,
        _ => Errno::EAGAIN,
    }
}

/// The realms whose trees are marked.
fn recorded(records: &Records<'_>) -> Result<BTreeSet<u32>, Errno> {
    let mut done = BTreeSet::new();
    let (start, end) = key::all(Tag::Realm);
    records.tx.scan(&start, &end, |key, value| {
        if mark::decode(value).is_ok() {
            done.extend(key::realm_of(key));
        }
        ControlFlow::Continue(())
    })?;
    Ok(done)
}

/// True if an inode is in the directory in which it was found. It may have been moved out of the
/// tree since; once it is marked it stays.
fn is_in(inode: &Inode, parent: Fid) -> Result<bool, Errno> {
    if parent == Fid::NONE || inode.is_dir() {
        return Ok(parent == Fid::NONE || inode.parent == parent);
    }
    let list = tail::find(inode.fid(), &inode.tail, ItemTag::Links)?.unwrap_or_default();
    Ok(links::each(list).any(|link| link.is_ok_and(|(dir, _)| dir == parent)))
}

/// One batch, in one transaction. It is refused as a whole, or done as a whole. What is of a realm
/// in `others` stays, with all below it.
fn mark(
    records: &mut Records<'_>,
    ctx: &Context<'_>,
    op: &PeerMark,
    others: &BTreeSet<u32>,
) -> Result<Marked, Errno> {
    let mut done = Marked { marked: 0, parent: op.fid, children: Vec::new(), more: None };
    // It went: its name leads elsewhere by now, or nowhere.
    let Some(inode) = records.inode(op.fid)? else { return Ok(done) };
    // What another MDT is about to copy, move or replace, would lose the mark, or take it away.
    records.lockable(op.fid)?;
    let foreign = |records: &Records<'_>, inode: &Inode| -> Result<bool, Errno> {
        Ok(others.contains(&project::project(records, inode)?.id))
    };
    if inode.attr.nlink == 0 || foreign(records, &inode)? {
        return Ok(done);
    }
    if !is_in(&inode, op.parent)? {
        done.marked = u32::from(inode.is_dir());
        return Ok(done);
    }
    let mut found: Vec<Inode> = Vec::new();
    if inode.is_dir() {
        done.parent = whole(records, &inode)?;
        if op.after.is_none() && inode.flags.contains(InodeFlags::STRIPED) {
            let stripes = tail::stripes(&inode)?;
            if stripes.master() == op.fid {
                done.children.extend(stripes.all().iter().filter(|fid| **fid != op.fid));
            }
        }
        for fid in names(records, op, &mut done)? {
            // A name without an inode is damage, which is left to the checker.
            if let Some(inode) = records.inode(fid)?
                && !found.iter().any(|known| known.fid() == fid)
                && !foreign(records, &inode)?
            {
                found.push(inode);
            }
        }
    }
    found.push(inode);
    let mut changed = Vec::new();
    for mut inode in found {
        let wanted = Project { id: op.realm, inherit: inode.is_dir() };
        if project::project(records, &inode)? == wanted {
            continue;
        }
        records.lockable(inode.fid())?;
        project::assign(records, &mut inode, wanted)?;
        changed.push(inode);
    }
    done.marked = changed.len() as u32; // at most a batch and one
    for mut inode in changed {
        // Nothing that a client is shown changes, so none is called back, and no time is touched.
        inode.attr.version = ctx.version;
        records.put_inode(&inode);
    }
    Ok(done)
}

/// The next names of a directory: returns the inodes that are marked with it, and notes the others.
fn names(records: &mut Records<'_>, op: &PeerMark, done: &mut Marked) -> Result<Vec<Fid>, Errno> {
    let (mut local, mut looked) = (Vec::new(), 0);
    let Marked { children, more, .. } = done;
    let after = op.after.as_ref().map(Name::as_bytes);
    records.entries(op.fid, after, &mut |name, Dirent { fid, file_type }| {
        match fid.mdt() == op.fid.mdt() && file_type != FileType::Directory {
            true => local.push(fid),
            false => children.push(fid),
        }
        looked += 1;
        if looked == NAMES_PER_BATCH || children.len() == MARKED_CHILDREN_MAX {
            *more = Name::new(name).ok();
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(local)
}
