//! Operations on one MDT with one OST's object files, and what is expected of each crash behind
//! them.

use crate::recorded::{RecordedDisk, Step, Steps};
use bytes::Bytes;
use env::real::{RealConfig, RealEnv, RealGuard};
use env::{BoxFuture, Env};
use layout::layout::Layout;
use layout::lov_ea;
use layout::map::{Place, pieces};
use layout::size::cuts;
use layout::stripe_spec::{DOM_BYTES_DEFAULT, default_layout};
use mds::mds::{Mds, Parts};
use mds::object_targets::ObjectTargets;
use mds::peers::Peers;
use mds::settings::MdsSettings;
use rpc::error::RpcError;
use rpc::service::{Export, Service};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::engine::Fence;
use store::journalled::{Journalled, JournalledOptions};
use store::object_store::ObjectStore;
use store::objects::{Objects, ObjectsOptions};
use store::store::{Store, StoreOptions};
use types::attr::{SetAttr, Statfs, WrittenAt};
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;
use types::object::{FileOffset, ObjectId, ObjectOffset};
use types::session::{ClientUuid, ClusterId, Transno, Xid};
use types::target::{TargetIndex, TargetName};
use wire::mds::{
    Close, CreateKind, GetLayout, MdsOp, MdsReply, Open, OpenFlags, RenameFlags, Setattr, Setxattr,
    SetxattrFlags, Wrote,
};
use wire::message::{Op, OpReply, Request};

/// Identity of the store.
pub const STORE: u128 = 0x5eed;
/// Size of the journal: small, so that it is used again within a sequence.
pub const JOURNAL_BYTES: u64 = 48 << 10;
/// Bytes of one write: three pages and a bit.
const WRITE_BYTES: usize = 13_000;
/// Size that truncate cuts to, bytes.
const CUT_BYTES: u64 = 5_000;
/// Commits happen when asked.
const NEVER: Duration = Duration::from_secs(3600);
/// LMDB takes a commit over within this time, or something is wrong.
const APPLY_MAX: Duration = Duration::from_secs(30);
/// Page of LMDB, bytes.
const PAGE: usize = 4096;
/// The first two pages hold the roots.
const META_PAGES: usize = 2;

/// One operation of a sequence. Each works on the file that was used last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// A new file; it is the one from now on.
    Create,
    /// As `Create`, but the first 64 KiB of the file live on the MDT.
    Small,
    /// Bytes at its end: in its objects, then the new size; or on the MDT.
    Write,
    /// Into the folder that is there from the start.
    Rename,
    /// A second name.
    Link,
    /// Removes its newest name.
    Unlink,
    /// Cuts it to 5,000 bytes.
    Truncate,
    /// A folder.
    Mkdir,
    /// Objects, then records.
    Fsync,
}

/// All operations.
pub const OPERATIONS: [Operation; 9] = [
    Operation::Create,
    Operation::Small,
    Operation::Write,
    Operation::Rename,
    Operation::Link,
    Operation::Unlink,
    Operation::Truncate,
    Operation::Mkdir,
    Operation::Fsync,
];

/// All records of the MDT.
pub type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// A promise: from this step on.
#[derive(Clone, Debug)]
pub struct Synced {
    /// Number of steps when fsync answered.
    pub after: usize,
    /// Number of steps at the next change of the file.
    pub until: usize,
    /// Each object's bytes.
    pub objects: Vec<(ObjectId, Vec<u8>)>,
}

/// A sequence that was run, with everything that is needed to crash it.
pub struct Recorded {
    /// The folder before the first step.
    pub base: PathBuf,
    /// The live folder, whose paths the steps have.
    pub live: PathBuf,
    /// The recorded steps.
    pub steps: Vec<Step>,
    /// Records after each operation, from none.
    pub states: Vec<Records>,
    /// (number of steps, index of the state that is acknowledged as durable from then on).
    pub acknowledged: Vec<(usize, usize)>,
    /// The state that an fsync made durable.
    pub synced: Vec<Synced>,
    _folder: tempfile::TempDir,
}

/// An OST that only has room: objects are written by the sequence itself.
struct Room;

impl ObjectTargets for Room {
    fn list(&self) -> Vec<TargetIndex> {
        vec![TargetIndex(0)]
    }
    fn pools(&self) -> Arc<BTreeMap<String, Arc<[TargetIndex]>>> {
        Arc::default()
    }
    fn is_in_use(&self, _: TargetIndex) -> bool {
        true
    }

    fn statfs(&self, _: TargetIndex) -> BoxFuture<'static, Result<Statfs, RpcError>> {
        let (bytes_total, bytes_free) = (1 << 40, 1 << 39);
        let statfs =
            Statfs { bytes_total, bytes_free, bytes_available: bytes_free, ..Statfs::default() };
        Box::pin(std::future::ready(Ok(statfs)))
    }
    fn getattr(
        &self,
        _: TargetIndex,
        _: ObjectId,
    ) -> BoxFuture<'static, Result<(u64, u64), RpcError>> {
        Box::pin(std::future::ready(Err(RpcError::Errno(Errno::EIO))))
    }
    fn cut(
        &self,
        _: TargetIndex,
        _: ObjectId,
        _: ObjectOffset,
    ) -> BoxFuture<'static, Result<u64, RpcError>> {
        Box::pin(std::future::ready(Err(RpcError::Errno(Errno::EIO))))
    }
    /// Away: objects of removed files stay, named by the destroy log.
    fn destroy(
        &self,
        _: TargetIndex,
        _: Vec<ObjectId>,
    ) -> BoxFuture<'static, Result<(), RpcError>> {
        Box::pin(std::future::ready(Err(RpcError::Errno(Errno::EIO))))
    }
}

/// Runs the future here.
pub fn wait<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime without drivers needs nothing").block_on(future)
}

/// Settings of the engine: LMDB takes everything over at once, so that its writes have one place in
/// the order.
pub fn eager() -> JournalledOptions {
    JournalledOptions {
        journal_bytes: JOURNAL_BYTES,
        apply_interval: Duration::from_micros(100),
        apply_bytes: Some(1),
        ..JournalledOptions::default()
    }
}

/// Every record of a store.
pub fn records(store: &Store) -> Records {
    let mut records = Records::new();
    let scanned = store.begin().scan(b"", &[0xff; 8], |key, value| {
        records.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    });
    scanned.unwrap_or_else(|error| panic!("read the records: {error}"));
    records
}

impl Recorded {
    /// Steps on the folder `live` in `folder`, which was `base` before them.
    pub fn of_steps(
        folder: tempfile::TempDir,
        base: PathBuf,
        live: PathBuf,
        steps: Vec<Step>,
    ) -> Recorded {
        Recorded {
            base,
            live,
            steps,
            states: Vec::new(),
            acknowledged: Vec::new(),
            synced: Vec::new(),
            _folder: folder,
        }
    }
}

struct File {
    fid: Fid,
    names: Vec<(Fid, String)>,
    size: u64,
}

struct Live {
    _guard: RealGuard,
    dir: PathBuf,
    steps: Steps,
    engine: Arc<Journalled>,
    store: Arc<Store>,
    objects: Arc<Objects>,
    mds: Arc<Mds>,
    export: Arc<Export>,
    xid: u64,
    tree: Vec<u8>,
    folder: Fid,
    files: Vec<File>,
}

/// Runs a sequence. `each`: a commit after every operation; else only fsync and the end commit.
pub fn record(sequence: &[Operation], each: bool) -> Recorded {
    let folder = scratch();
    let (base, dir) = (folder.path().join("base"), folder.path().join("live"));
    let mut live = Live::start(&dir);
    live.create("f");
    live.write();
    let (folder_fid, _) =
        live.make("d", CreateKind::Directory { mdt: None }).expect("a folder in an empty root");
    live.folder = folder_fid;
    live.sync_objects();
    live.commit();
    crate::images::copy(&dir, &base);
    live.steps.lock().clear();
    let (mut states, mut acknowledged, mut synced) =
        (vec![records(&live.store)], vec![(0, 0)], Vec::<Synced>::new());
    for (n, operation) in sequence.iter().enumerate() {
        if matches!(operation, Operation::Write | Operation::Truncate | Operation::Unlink) {
            let now = live.steps.lock().len();
            synced.iter_mut().for_each(|synced| synced.until = synced.until.min(now));
        }
        live.run(*operation, n);
        states.push(records(&live.store));
        if each || *operation == Operation::Fsync || n + 1 == sequence.len() {
            live.commit();
            acknowledged.push((live.steps.lock().len(), n + 1));
        }
        if *operation == Operation::Fsync {
            let objects = live.contents();
            let after = live.steps.lock().len();
            synced.push(Synced { after, until: usize::MAX, objects });
        }
    }
    let steps = live.steps.lock().clone();
    live.end();
    Recorded { base, live: dir, steps, states, acknowledged, synced, _folder: folder }
}

/// A folder in memory if there is one: LMDB's own syncs need no disk here.
pub fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.unwrap_or_else(|error| panic!("make a folder: {error}"))
}

impl Live {
    fn start(dir: &Path) -> Live {
        let real = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 });
        let (env, guard) = real.unwrap_or_else(|error| panic!("start the environment: {error}"));
        let failed = |error: store::error::StoreError| -> ! { panic!("make the store: {error}") };
        if let Err(error) = std::fs::create_dir_all(dir) {
            panic!("make {}: {error}", dir.display());
        }
        Journalled::create(&env, dir, STORE, &eager()).unwrap_or_else(|error| failed(error));
        Objects::create(&env, dir).unwrap_or_else(|error| failed(error));
        let steps = Steps::default();
        let disk = Arc::new(RecordedDisk { inner: env.disk.clone(), steps: steps.clone() });
        let env = Env { disk, ..env };
        let engine =
            Journalled::open(&env, dir, STORE, eager()).unwrap_or_else(|error| failed(error));
        let options =
            StoreOptions { at_least: Fence(1), commit_interval: NEVER, ..StoreOptions::default() };
        let store =
            Store::open(engine.clone(), env.clone(), options).unwrap_or_else(|error| failed(error));
        let objects = Objects::open(&env, dir, ObjectsOptions::default())
            .unwrap_or_else(|error| failed(error));
        let parts = Parts {
            name: TargetName::mdt(Default::default(), 0),
            cluster: ClusterId(1),
            boot: 1,
            store: store.clone(),
            env: env.clone(),
            targets: Arc::new(Room),
            peers: Peers::none(),
            settings: MdsSettings::default(),
        };
        let mds =
            wait(Mds::start_with(parts)).unwrap_or_else(|error| panic!("start the MDT: {error}"));
        wait(mds.refresh_spaces());
        let export = Export::local(mds.name(), ClientUuid(1), "crash".into(), None);
        Live {
            _guard: guard,
            dir: dir.to_owned(),
            steps,
            engine,
            store,
            objects,
            mds,
            export,
            xid: 0,
            tree: Vec::new(),
            folder: Fid::ROOT,
            files: Vec::new(),
        }
    }

    fn ask(&mut self, op: MdsOp) -> Result<MdsReply, Errno> {
        self.xid += 1;
        let request = Request {
            target: self.mds.name(),
            xid: Xid(self.xid),
            xid_known: Xid(0),
            resent: false,
            replay: Transno(0),
            slot: 0,
            locks: InodeBits::NONE,
            credentials: Credentials::root(),
            job: types::job::JobId::NONE,
            ops: vec![Op::Mds(op)],
        };
        match wait(self.mds.clone().handle(self.export.clone(), request)).results.pop() {
            Some(Ok(OpReply::Mds(reply))) => Ok(reply),
            Some(Err(errno)) => Err(errno),
            other => panic!("the MDT answers {other:?}"),
        }
    }

    fn make(&mut self, name: &str, kind: CreateKind) -> Result<(Fid, String), Errno> {
        let op = MdsOp::Create(wire::mds::Create {
            parent: Fid::ROOT,
            name: text(name),
            kind,
            mode: 0o755,
            umask: 0o022,
            exclusive: true,
        });
        match self.ask(op)? {
            MdsReply::Opened { entry, .. } | MdsReply::Entry(entry) => {
                Ok((entry.attr.fid, name.to_owned()))
            }
            other => panic!("a create answers {other:?}"),
        }
    }

    fn create(&mut self, name: &str) {
        let (fid, name) = self.make(name, CreateKind::Regular(None)).expect("a new name");
        self.files.push(File { fid, names: vec![(Fid::ROOT, name)], size: 0 });
    }

    fn create_small(&mut self, name: &str) {
        self.create(name);
        let fid = self.file().fid;
        let value = lov_ea::encode(&default_layout(DOM_BYTES_DEFAULT), Fid::NONE).into();
        let name = Bytes::from_static(b"lustre.lov");
        self.ask(MdsOp::Setxattr(Setxattr { fid, name, value, flags: SetxattrFlags::default() }))
            .expect("a layout for a new file");
    }

    fn run(&mut self, operation: Operation, n: usize) {
        match operation {
            Operation::Create => self.create(&format!("n{n}")),
            Operation::Small => self.create_small(&format!("s{n}")),
            Operation::Mkdir => drop(
                self.make(&format!("m{n}"), CreateKind::Directory { mdt: None })
                    .expect("a new name"),
            ),
            Operation::Fsync => self.sync_objects(),
            // Operations on a file do nothing once the last file is gone.
            _ if self.files.is_empty() => {}
            Operation::Write => self.write(),
            Operation::Truncate => self.truncate(),
            Operation::Rename => self.rename(n),
            Operation::Link => self.link(n),
            Operation::Unlink => self.unlink(),
        }
    }

    fn file(&mut self) -> &mut File {
        self.files.last_mut().expect("looked at by the caller")
    }

    fn rename(&mut self, n: usize) {
        let new_parent = self.folder;
        let (parent, name) = self.file().names.pop().expect("a file has names");
        let new_name = format!("r{n}");
        let flags = RenameFlags::default();
        let op = MdsOp::Rename(wire::mds::Rename {
            parent,
            name: text(&name),
            new_parent,
            new_name: text(&new_name),
            flags,
        });
        self.ask(op).expect("rename of a name that is there");
        self.file().names.push((new_parent, new_name));
    }

    fn link(&mut self, n: usize) {
        let (fid, new_name) = (self.file().fid, format!("l{n}"));
        self.ask(MdsOp::Link(wire::mds::Link {
            fid,
            new_parent: Fid::ROOT,
            new_name: text(&new_name),
        }))
        .expect("a new name");
        self.file().names.push((Fid::ROOT, new_name));
    }

    fn unlink(&mut self) {
        let (parent, name) = self.file().names.pop().expect("a file has names");
        self.ask(MdsOp::Unlink(wire::mds::Unlink { parent, name: text(&name) }))
            .expect("unlink of a name that is there");
        if self.file().names.is_empty() {
            self.files.pop();
        }
    }

    fn layout(&mut self, fid: Fid) -> Arc<Layout> {
        match self.ask(MdsOp::GetLayout(GetLayout { fid, write: true, start: 0, end: u64::MAX })) {
            Ok(MdsReply::Layout(layout)) => layout,
            other => panic!("the layout of a file: {other:?}"),
        }
    }

    /// As a client does: open, objects, size, close.
    fn write(&mut self) {
        let (fid, start) = (self.file().fid, self.file().size);
        let flags =
            OpenFlags { read: true, write: true, exec: false, append: false, lasting: false };
        let handle = match self.ask(MdsOp::Open(Open { fid, flags })) {
            Ok(MdsReply::Opened { handle, .. }) => handle,
            other => panic!("open: {other:?}"),
        };
        let layout = self.layout(fid);
        let end = start + WRITE_BYTES as u64;
        let data: Vec<u8> = (start..end).map(|at| (at / 7) as u8).collect();
        let mut blocks_delta = 0;
        for piece in pieces(&layout, fid, FileOffset(start), FileOffset(end)) {
            let from = (piece.file.0 - start) as usize;
            let (object, offset) = match piece.place {
                Place::Object { object, offset, .. } => (object, offset),
                Place::Mdt { .. } => {
                    let data = Bytes::copy_from_slice(&data[from..from + piece.len as usize]);
                    let (offset, at) = (piece.file.0, WrittenAt::Now);
                    self.ask(MdsOp::Write(wire::mds::Write {
                        fid,
                        offset,
                        data,
                        at,
                        kill_suidgid: false,
                        keeps: false,
                    }))
                    .expect("write on the MDT");
                    continue;
                }
                Place::Absent { .. } => panic!("{:?}", piece.place),
            };
            let blocks = |objects: &Objects| {
                objects.size_and_blocks(object).ok().flatten().map_or(0, |(_, b)| b as i64)
            };
            let before = blocks(&self.objects);
            let written =
                self.objects.write(object, &data[from..from + piece.len as usize], offset.0);
            written.unwrap_or_else(|error| panic!("write: {error}"));
            blocks_delta += blocks(&self.objects) - before;
        }
        let wrote =
            MdsOp::Wrote(Wrote { fid, end, blocks_delta, at: WrittenAt::Now, kill_suidgid: false });
        self.ask(wrote).expect("report what was written");
        self.ask(MdsOp::Close(Close { fid, handle })).expect("close");
        self.file().size = end;
    }

    fn truncate(&mut self) {
        let fid = self.file().fid;
        let set = SetAttr { size: Some(CUT_BYTES), ..SetAttr::default() };
        self.ask(MdsOp::Setattr(Setattr { fid, set })).expect("truncate");
        let layout = self.layout(fid);
        for cut in cuts(&layout, fid, FileOffset(CUT_BYTES)) {
            if self
                .objects
                .size_and_blocks(cut.object)
                .ok()
                .flatten()
                .is_some_and(|(size, _)| size > cut.at.0)
            {
                let cut = self.objects.truncate(cut.object, cut.at.0);
                cut.unwrap_or_else(|error| panic!("cut: {error}"));
            }
        }
        self.file().size = CUT_BYTES;
    }

    fn sync_objects(&mut self) {
        for object in self.objects_of_all() {
            self.objects.sync(object).unwrap_or_else(|error| panic!("sync: {error}"));
        }
    }

    fn objects_of_all(&self) -> Vec<ObjectId> {
        let listed =
            self.objects.list(None, usize::MAX).unwrap_or_else(|error| panic!("list: {error}"));
        listed.into_iter().map(|(object, ..)| object).collect()
    }

    /// Bytes of the objects of the file in use.
    fn contents(&mut self) -> Vec<(ObjectId, Vec<u8>)> {
        let Some(fid) = self.files.last().map(|file| file.fid) else { return Vec::new() };
        let own = self.objects_of_all().into_iter().filter(|object| object.fid == fid);
        own.map(|object| (object, read(&self.objects, object))).collect()
    }

    /// Commits, waits until LMDB has taken it over, and notes what that wrote.
    fn commit(&mut self) {
        wait(self.store.commit()).unwrap_or_else(|error| panic!("commit: {error}"));
        let begun = Instant::now();
        while self.engine.bytes_behind() > 0 {
            assert!(begun.elapsed() < APPLY_MAX, "LMDB does not take the journal over");
            std::thread::sleep(Duration::from_micros(200));
        }
        let path = self.dir.join("tree/data.mdb");
        let tree =
            std::fs::read(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
        let old = |n: usize| self.tree.get(n * PAGE..(n + 1) * PAGE);
        let changed: Vec<(usize, &[u8])> =
            tree.chunks(PAGE).enumerate().filter(|(n, page)| old(*n) != Some(page)).collect();
        let mut steps = self.steps.lock();
        for meta in [false, true] {
            let pages = changed.iter().filter(|(n, _)| (*n < META_PAGES) == meta);
            let writes = pages.map(|(n, page)| Step::Write {
                path: path.clone(),
                offset: (n * PAGE) as u64,
                bytes: page.to_vec(),
            });
            steps.extend(writes);
            steps.push(Step::Sync { path: path.clone() });
        }
        drop(steps);
        self.tree = tree;
    }

    fn end(self) {
        wait(self.mds.stop());
        wait(self.store.close()).unwrap_or_else(|error| panic!("close: {error}"));
    }
}

/// All bytes of an object.
pub fn read(objects: &Objects, object: ObjectId) -> Vec<u8> {
    let failed = |error: store::error::StoreError| -> ! { panic!("read {object}: {error}") };
    let size = objects
        .size_and_blocks(object)
        .unwrap_or_else(|error| failed(error))
        .map_or(0, |(size, _)| size);
    let mut bytes = vec![0; size as usize];
    objects.read(object, &mut bytes, 0).unwrap_or_else(|error| failed(error));
    bytes
}

fn text(name: &str) -> Name {
    Name::new(name.as_bytes()).expect("a short name")
}
