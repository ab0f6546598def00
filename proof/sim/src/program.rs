//! Programs: each runs on one client, one operation after the other, over a small name space, so
//! that they meet often. Everything that is asked and answered goes into the histories.

mod below;
mod content;
pub mod recorder;
mod restripe;
pub mod tenants;
mod watch;

use crate::directories::Directories;
use crate::history::{ANY_NLINK, Answer, Call, Ino, Kind, mdt_of};
use crate::workload::{Operation, Workload};
use bytes::Bytes;
use client::Budget;
use client::caller::{Caller, Found};
use client::client::Client;
use client::error::ClientError;
use client::node::NodeId;
use client::open::{FileHandle, OpenMode};
use env::Env;
use layout::lov_ea;
use layout::stripe_spec::default_layout;
use recorder::Recorder;
use simenv::rng::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenants::Place;
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use types::target::TargetIndex;
use wire::mds::{RenameFlags, SetxattrFlags};

/// Names of files in each directory.
const FILES: [&str; 4] = ["a", "b", "c", "d"];
/// Names of directories in the root.
const DIRS: [&str; 2] = ["x", "y"];
/// The directory whose files have their first bytes on the MDT.
const SMALL: &str = DIRS[1];
/// So many bytes: the first of the ends that writes go across.
const DOM_BYTES: u64 = 64 << 10;
/// In so many of 1000 cases a file that is there is opened to read only.
const READS: u64 = 300;
/// In so many of 1000 cases it takes one that is not the root to other MDTs.
const MIGRATES: u64 = 80;
/// Longest pause between two operations, microseconds.
const PAUSE_MAX_US: u64 = 30_000;

/// One program.
pub struct Program {
    /// Number of the program.
    pub number: usize,
    /// Number of its machine.
    pub machine: usize,
    /// Number of its mount.
    pub mount: usize,
    /// The mount it uses.
    pub client: Arc<Client>,
    /// Its environment.
    pub env: Env,
    /// Its random choices.
    pub rng: Rng,
    /// Its preferences.
    pub workload: Workload,
    /// The kernel's locks of its mount.
    pub directories: Directories,
    /// Receiver of its history.
    pub recorder: Recorder,
    /// Where it works.
    pub place: Place,
    /// Its mount is on its way out: it begins nothing any more, and what fails counts as never
    /// answered.
    pub ends: Arc<AtomicBool>,
    /// The directory that is the root to it.
    pub root: Option<Held>,
    /// The directory below the root that it uses now.
    pub below: Option<Held>,
    /// It splits and merges directories.
    pub splits: bool,
}

fn kind_of(file_type: FileType) -> Kind {
    match file_type {
        FileType::Directory => Kind::Dir,
        FileType::Symlink => Kind::Symlink,
        _ => Kind::File,
    }
}

fn inode(found: &Found) -> Answer {
    Answer::Inode { ino: found.ino, kind: kind_of(found.attr.file_type()), nlink: found.attr.nlink }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a good name")
}

/// A directory or file that the program holds.
#[derive(Clone, Copy)]
pub struct Held {
    node: NodeId,
    ino: Ino,
}

impl Program {
    /// Runs as many operations as it likes.
    pub async fn run(mut self) {
        self.root = self.find_root().await;
        if self.workload.watched && self.mount % 2 == 1 {
            return self.watch().await;
        }
        for _ in 0..self.workload.count {
            let pause = self.rng.below(PAUSE_MAX_US);
            self.env.clock.sleep(Duration::from_micros(pause)).await;
            self.trespass().await;
            let held = self.step().await;
            for held in held {
                self.client.forget(held.node, 1);
            }
        }
    }

    /// Reads the whole tree as it is now, each file completely: at the end of a run, when no other
    /// program works.
    pub async fn read_all(mut self) {
        if matches!(self.place, Place::Among(_)) {
            self.place = Place::Whole;
        }
        let mut dirs = vec![self.root_of_mount()];
        while let Some(dir) = dirs.pop() {
            for text in self.readdir(dir).await.unwrap_or_default().keys() {
                let Some((held, kind)) = self.lookup(dir, text).await else { continue };
                match kind {
                    Kind::Dir => dirs.push(held),
                    Kind::File => {
                        if let Some(handle) = self.open(held, true).await {
                            self.read(held, handle, 0, 130).await;
                            self.close(handle).await;
                        }
                    }
                    Kind::Symlink => {}
                }
            }
        }
    }

    fn told(&mut self, answered: bool) {
        *self.recorder.answered.lock() += u64::from(answered);
    }

    /// Does not come back if the mount is on its way out.
    async fn go_on(&self) {
        if self.ends.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    /// Runs an operation on names and records it.
    async fn ask<T>(
        &mut self,
        call: Call,
        work: impl Future<Output = Result<T, ClientError>>,
        answer: impl FnOnce(&T) -> Answer,
    ) -> Option<T> {
        self.go_on().await;
        let (_changing, victim) = self.change(&call).await;
        let record = self.recorder.history.begin(self.number, call);
        let result = work.await;
        self.told(true);
        victim.iter().for_each(|dir| self.client.forget(dir.node, 1));
        match result {
            Ok(value) => {
                let answer = match answer(&value) {
                    Answer::Inode { ino, kind: Kind::Dir, .. } if self.splits => {
                        Answer::Inode { ino, kind: Kind::Dir, nlink: ANY_NLINK }
                    }
                    answer => answer,
                };
                self.look_at(&answer);
                self.recorder.history.end(record, answer);
                Some(value)
            }
            Err(error) => {
                self.go_on().await;
                self.recorder.history.end(record, Answer::Refused(error.errno()));
                None
            }
        }
    }

    async fn lookup(&mut self, dir: Held, text: &str) -> Option<(Held, Kind)> {
        let call = Call::Lookup { parent: dir.ino, name: text.to_owned() };
        let work = self.client.clone().lookup(Caller::root(), dir.node, name(text));
        let found = self.ask(call, work, inode).await?;
        Some((Held { node: found.node, ino: found.ino }, kind_of(found.attr.file_type())))
    }

    async fn readdir(&mut self, dir: Held) -> Option<BTreeMap<String, Ino>> {
        let client = self.client.clone();
        // With attributes some later lookups need no request.
        let plus = self.rng.below(2) == 0;
        let work = async move {
            let handle = client.clone().opendir(Caller::root(), dir.node).await?;
            let (mut names, mut cookie) = (BTreeMap::new(), 0);
            let result = loop {
                let budget = Budget { bytes: 64 << 10, per_entry: if plus { 152 } else { 24 } };
                match client.clone().readdir(Caller::root(), handle, cookie, budget, plus).await {
                    Err(error) => break Err(error),
                    Ok(items) if items.is_empty() => break Ok(names),
                    Ok(items) => {
                        for item in items {
                            cookie = item.next;
                            let text = String::from_utf8_lossy(&item.name).into_owned();
                            if let Some(found) = item.found {
                                client.forget(found.node, 1);
                            }
                            if text != "." && text != ".." {
                                names.insert(text, item.ino);
                            }
                        }
                    }
                }
            };
            client.releasedir(handle);
            result
        };
        let _listed = self.directories.list(dir.ino).await;
        self.ask(Call::Readdir { ino: dir.ino }, work, |names| Answer::Names(names.clone())).await
    }

    async fn make(&mut self, dir: Held, text: &str, kind: Kind) -> Option<Held> {
        let client = self.client.clone();
        let mdts = client.session().mdts().len() as u16; // at most MDTS_MAX
        let mdt = match kind {
            Kind::Dir if mdts > 1 => self.rng.below(mdts.into()) as u16, // as above
            _ => mdt_of(dir.ino),
        };
        let call =
            Call::Make { parent: dir.ino, name: text.to_owned(), kind, exclusive: true, mdt };
        let found = match kind {
            Kind::Dir => {
                let at = TargetIndex(mdt);
                let made = client.clone().mkdir_at(Caller::root(), dir.node, name(text), 0o755, at);
                let found = self.ask(call, made, inode).await?;
                if text == SMALL {
                    // Files that are made in it before this is done are as all others.
                    let value = lov_ea::encode(&default_layout(DOM_BYTES), Fid::NONE).into();
                    let (lov, flags) =
                        (Bytes::from_static(b"lustre.lov"), SetxattrFlags::default());
                    let set = client.setxattr(Caller::root(), found.node, lov, value, flags).await;
                    if let Err(error) = set {
                        self.unexpected("default layout of", found.ino, &error);
                    }
                }
                found
            }
            Kind::Symlink => {
                let target = Bytes::from_static(b"target");
                self.ask(call, client.symlink(Caller::root(), dir.node, name(text), target), inode)
                    .await?
            }
            Kind::File => {
                let work =
                    client.mknod(Caller::root(), dir.node, name(text), libc::S_IFREG | 0o644, 0);
                self.ask(call, work, inode).await?
            }
        };
        Some(Held { node: found.node, ino: found.ino })
    }

    async fn create_open(&mut self, dir: Held, text: &str) -> Option<(Held, FileHandle)> {
        let exclusive = self.rng.chance(300);
        let call = Call::Make {
            parent: dir.ino,
            name: text.to_owned(),
            kind: Kind::File,
            exclusive,
            mdt: mdt_of(dir.ino),
        };
        let mut mode = OpenMode::from_libc(libc::O_RDWR, false);
        mode.exclusive = exclusive;
        let work = self.client.clone().create(Caller::root(), dir.node, name(text), 0o644, mode);
        let (found, handle) = self.ask(call, work, |(found, _)| inode(found)).await?;
        Some((Held { node: found.node, ino: found.ino }, handle))
    }

    /// Opens a file; `reads`: to read only, which a lock may allow without a request.
    async fn open(&mut self, file: Held, reads: bool) -> Option<FileHandle> {
        let mode = OpenMode::from_libc(if reads { libc::O_RDONLY } else { libc::O_RDWR }, false);
        let opened = self.client.clone().open(Caller::root(), file.node, mode).await;
        self.told(true);
        match opened {
            Ok(handle) => Some(handle),
            Err(error) => {
                let errno = error.errno();
                self.go_on().await;
                if errno != Errno::ENOENT
                    && errno != Errno::ESTALE
                    && !crate::history::is_unknown(errno)
                {
                    self.recorder
                        .found
                        .lock()
                        .push(format!("open of inode {:x}: {error}", file.ino));
                }
                None
            }
        }
    }

    async fn close(&mut self, handle: FileHandle) {
        // Errors can reach no program.
        let _ = self.client.clone().release(Caller::root(), handle).await;
    }

    /// As [`Program::unexpected`], for a file that the program has open: whatever happens to its
    /// names, it is there.
    fn unexpected_open(&mut self, what: &str, ino: Ino, error: &ClientError) {
        let errno = error.errno();
        if errno == Errno::ENOENT || errno == Errno::ESTALE {
            self.recorder
                .gone
                .lock()
                .push((self.mount, format!("{what} inode {ino:x}, which is open: {error}")));
        }
        self.unexpected(what, ino, error);
    }

    /// Complains about an error that nothing that was done to the cluster explains.
    fn unexpected(&mut self, what: &str, ino: Ino, error: &ClientError) {
        let errno = error.errno();
        if self.ends.load(Ordering::Relaxed) {
            return;
        }
        // A file without a name and a handle is gone.
        if errno != Errno::ENOENT && errno != Errno::ESTALE && !crate::history::is_unknown(errno) {
            self.recorder.found.lock().push(format!("{what} inode {ino:x}: {error}"));
        }
    }

    /// One operation; returns the inodes it looked up, to be forgotten.
    async fn step(&mut self) -> Vec<Held> {
        let mut held = Vec::new();
        if self.root.is_none() {
            self.root = self.find_root().await;
        }
        let Some(root) = self.root else { return held };
        let mut dir = root;
        if self.rng.chance(self.workload.directory) {
            let text = *self.rng.pick(&DIRS);
            match self.lookup(root, text).await {
                Some((found, Kind::Dir)) => {
                    held.push(found);
                    dir = found;
                }
                Some((found, _)) => held.push(found),
                None => held.extend(self.make(root, text, Kind::Dir).await),
            }
        }
        self.below = (dir.ino != root.ino).then_some(dir);
        if self.splits && self.rng.chance(self.workload.splits) {
            let at = if self.rng.chance(500) { dir } else { root };
            self.restripe(at).await;
        }
        if self.splits && dir.ino != root.ino && self.rng.chance(MIGRATES) {
            self.migrate(dir).await;
        }
        let mdts = self.client.session().mdts().len();
        let text = *self.rng.pick(&FILES[..self.workload.files]);
        match self.workload.operation(&mut self.rng) {
            Operation::Create => {
                if let Some((file, handle)) = self.create_open(dir, text).await {
                    held.push(file);
                    self.use_file(file, handle, false).await;
                }
            }
            Operation::Open => {
                if let Some((file, Kind::File)) = self.lookup(dir, text).await {
                    held.push(file);
                    let reads = self.rng.chance(READS);
                    if let Some(handle) = self.open(file, reads).await {
                        self.use_file(file, handle, reads).await;
                    }
                }
            }
            Operation::Unlink => {
                let call = Call::Unlink { parent: dir.ino, name: text.to_owned() };
                let work = self.client.clone().unlink(Caller::root(), dir.node, name(text));
                self.ask(call, work, |()| Answer::Done).await;
            }
            Operation::Rename => {
                let new_name = *self.rng.pick(&FILES[..self.workload.files]);
                let new_parent = if self.rng.chance(500) { root } else { dir };
                let call = Call::Rename {
                    parent: dir.ino,
                    name: text.to_owned(),
                    new_parent: new_parent.ino,
                    new_name: new_name.to_owned(),
                };
                let (client, flags) = (self.client.clone(), RenameFlags::default());
                let (from, to) = (name(text), name(new_name));
                let work =
                    client.rename(Caller::root(), (dir.node, from), (new_parent.node, to), flags);
                self.ask(call, work, |()| Answer::Done).await;
            }
            Operation::Link => {
                if let Some((file, Kind::File)) = self.lookup(dir, text).await {
                    held.push(file);
                    let new_name = *self.rng.pick(&FILES[..self.workload.files]);
                    let call =
                        Call::Link { ino: file.ino, parent: root.ino, name: new_name.to_owned() };
                    let work = self.client.clone().link(
                        Caller::root(),
                        file.node,
                        root.node,
                        name(new_name),
                    );
                    let found = self.ask(call, work, inode).await;
                    held.extend(found.map(|found| Held { node: found.node, ino: found.ino }));
                }
            }
            Operation::Rmdir => {
                let text = *self.rng.pick(&DIRS);
                // One that was moved there.
                let at = if mdts > 1 && self.rng.chance(300) { dir } else { root };
                let call = Call::Rmdir { parent: at.ino, name: text.to_owned() };
                let work = self.client.clone().rmdir(Caller::root(), at.node, name(text));
                self.ask(call, work, |()| Answer::Done).await;
            }
            Operation::RenameDirectory => {
                let (mut from, mut to) = ((root, DIRS[0]), (root, DIRS[1]));
                if mdts > 1 && self.rng.chance(600) {
                    // Into each other, and out again.
                    (from.1, to.1) = (*self.rng.pick(&DIRS), *self.rng.pick(&DIRS));
                    (from.0, to.0) = if self.rng.chance(600) { (root, dir) } else { (dir, root) };
                }
                // Two such moves could make a circle of directories that neither of them touches.
                if mdts > 1 && self.workload.deep > 0 && self.rng.chance(self.workload.deep) {
                    let text = *self.rng.pick(&DIRS);
                    if let Some(below) = self.deeper(dir, text).await {
                        held.push(below);
                        (from.0, to.0) = (root, below);
                        self.below = Some(below);
                    }
                }
                let call = Call::Rename {
                    parent: from.0.ino,
                    name: from.1.to_owned(),
                    new_parent: to.0.ino,
                    new_name: to.1.to_owned(),
                };
                let (client, flags) = (self.client.clone(), RenameFlags::default());
                let (from, to) = ((from.0.node, name(from.1)), (to.0.node, name(to.1)));
                let work = client.rename(Caller::root(), from, to, flags);
                self.ask(call, work, |()| Answer::Done).await;
            }
            Operation::Readdir => {
                let _names = self.readdir(dir).await;
            }
            Operation::Make => {
                let kind = if self.rng.chance(500) { Kind::Symlink } else { Kind::File };
                held.extend(
                    self.make(dir, if kind == Kind::Symlink { "s" } else { text }, kind).await,
                );
            }
            Operation::Truncate => {
                if let Some((file, Kind::File)) = self.lookup(dir, text).await {
                    held.push(file);
                    self.truncate(file).await;
                }
            }
            Operation::Stat => {
                if let Some((found, _)) = self.lookup(dir, text).await {
                    held.push(found);
                    let work = self.client.clone().getattr(Caller::root(), found.node, None);
                    let answer = |stat: &client::caller::Stat| Answer::Inode {
                        ino: stat.ino,
                        kind: kind_of(stat.attr.file_type()),
                        nlink: stat.attr.nlink,
                    };
                    self.ask(Call::Getattr { ino: found.ino }, work, answer).await;
                }
            }
        }
        held
    }
}
