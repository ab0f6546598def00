//! An OST in a temporary folder, on a disk whose syncs can be watched and made to fail.

use env::Env;
use env::disk::{Disk, DiskSpace, File, Open};
use env::real::{RealConfig, RealEnv, RealGuard};
use oss::ost::Ost;
use oss::settings::OstSettings;
use rpc::service::{Export, Service};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use target::{FormatSpec, Target, TargetOptions, format};
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::object::ObjectId;
use types::session::{ClientUuid, ClusterId, Transno, Xid};
use types::target::{FsName, TargetIndex, TargetKind};
use wire::message::{Op, OpReply, Reply, Request};
use wire::ost::{ObjectGetattr, ObjectRead, ObjectWrite, OstOp, OstReply};

/// What the disk did and shall do.
#[derive(Default)]
pub struct Watch {
    pub file_syncs: AtomicUsize,
    pub folder_syncs: AtomicUsize,
    pub volume_syncs: AtomicUsize,
    pub fail_syncs: AtomicBool,
    /// Ranges that were to be written out early.
    pub write_backs: std::sync::Mutex<Vec<(u64, u64)>>,
    /// Said to be free on a volume of 100 GiB; 0 = the truth.
    pub volume_free: AtomicU64,
    /// The run of the machine's kernel.
    pub kernel_run: AtomicU64,
    /// Writes of these bytes are held. Others go on: the ledger is written at any time.
    pub hold_writes: (std::sync::Mutex<Option<&'static [u8]>>, std::sync::Condvar),
    pub held_writes: AtomicUsize,
}

impl Watch {
    fn note(&self, counter: &AtomicUsize) -> io::Result<()> {
        counter.fetch_add(1, Ordering::SeqCst);
        if self.fail_syncs.load(Ordering::SeqCst) {
            Err(io::Error::from_raw_os_error(Errno::EIO.0))
        } else {
            Ok(())
        }
    }
}

struct WatchedDisk(Arc<dyn Disk>, Arc<Watch>);
struct WatchedFile(Arc<dyn File>, Arc<Watch>);

impl Disk for WatchedDisk {
    fn kernel_run(&self) -> u128 {
        (1 + self.1.kernel_run.load(Ordering::SeqCst)).into()
    }
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(WatchedFile(self.0.open(path, how)?, self.1.clone())))
    }
    fn create_dirs(&self, path: &Path) -> io::Result<()> {
        self.0.create_dirs(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.0.list(path)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.1.note(&self.1.folder_syncs)?;
        self.0.sync_dir(path)
    }
    fn sync_volume(&self, path: &Path) -> io::Result<()> {
        self.1.note(&self.1.volume_syncs)?;
        self.0.sync_volume(path)
    }
    fn space(&self, path: &Path) -> io::Result<DiskSpace> {
        let truth = self.0.space(path)?;
        match self.1.volume_free.load(Ordering::SeqCst) {
            0 => Ok(truth),
            free => Ok(DiskSpace {
                bytes_total: 100 << 30,
                bytes_free: free,
                bytes_available: free,
                ..truth
            }),
        }
    }
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        self.0.lock(path)
    }
}

impl File for WatchedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let (hold, changed) = &self.1.hold_writes;
        let held = hold.lock().unwrap();
        let is_held = |held: &Option<&[u8]>| *held == Some(buf);
        self.1.held_writes.fetch_add(usize::from(is_held(&held)), Ordering::SeqCst);
        drop(changed.wait_while(held, |held| is_held(held)).unwrap());
        self.0.write_all_at(buf, offset)
    }
    fn size_and_blocks(&self) -> io::Result<(u64, u64)> {
        self.0.size_and_blocks()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn punch(&self, start: u64, len: u64) -> io::Result<()> {
        self.0.punch(start, len)
    }
    fn allocate(&self, start: u64, len: u64, zero: bool) -> io::Result<()> {
        self.0.allocate(start, len, zero)
    }
    fn seek(&self, offset: u64, hole: bool) -> io::Result<Option<u64>> {
        self.0.seek(offset, hole)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.1.note(&self.1.file_syncs)?;
        self.0.sync_data()
    }
    fn start_write_back(&self, start: u64, len: u64) -> io::Result<()> {
        self.1.write_backs.lock().unwrap().push((start, len));
        self.0.start_write_back(start, len)
    }
}

/// See the module.
pub struct Rig {
    pub ost: Arc<Ost>,
    pub target: Arc<Target>,
    pub watch: Arc<Watch>,
    pub env: Env,
    pub settings: OstSettings,
    pub bytes_max: Option<u64>,
    export: Arc<Export>,
    dir: tempfile::TempDir,
    _guard: RealGuard,
}

impl Rig {
    /// Flushes only when asked.
    pub fn new() -> Rig {
        Rig::with(
            None,
            OstSettings {
                flush_interval: std::time::Duration::from_secs(3600),
                ..OstSettings::default()
            },
        )
    }

    pub fn with(bytes_max: Option<u64>, settings: OstSettings) -> Rig {
        let (mut env, guard) =
            RealEnv::start(RealConfig { reactors: 1, blocking_threads: 4 }).unwrap();
        let watch = Arc::<Watch>::default();
        env.disk = Arc::new(WatchedDisk(env.disk, watch.clone()));
        let dir = tempfile::tempdir().unwrap();
        let spec = FormatSpec {
            index: Some(TargetIndex(1)),
            cluster: ClusterId(7),
            journal_bytes: Some(4 << 20),
            ..FormatSpec::new(FsName::default(), TargetKind::Ost)
        };
        format(&env, dir.path(), &spec).unwrap();
        let (target, ost) = start(&env, dir.path(), bytes_max, settings);
        let export = Export::local(ost.target(), ClientUuid(1), "test".into(), None);
        Rig { ost, target, watch, env, settings, bytes_max, export, dir, _guard: guard }
    }

    /// Stops in order and starts again.
    pub fn restart(&mut self) {
        wait(self.ost.stop()).unwrap();
        wait(self.target.close()).unwrap();
        (self.target, self.ost) = start(&self.env, self.dir.path(), self.bytes_max, self.settings);
    }

    /// Starts an OST again that was not stopped. Only this test may still hold it.
    pub fn start_again(&mut self) {
        // Its store is closed as it is: a killed process' store is recovered to the same.
        wait(self.target.close()).unwrap();
        (self.target, self.ost) = start(&self.env, self.dir.path(), self.bytes_max, self.settings);
    }

    /// The session that all requests come by.
    pub fn export(&self) -> &Arc<Export> {
        &self.export
    }

    fn request(&self, ops: Vec<OstOp>) -> Request {
        Request {
            target: self.ost.target(),
            xid: Xid(1),
            xid_known: Xid(0),
            resent: false,
            replay: Transno(0),
            slot: 0,
            locks: types::lock::InodeBits::NONE,
            credentials: Credentials::root(),
            job: types::job::JobId::NONE,
            ops: ops.into_iter().map(Op::Ost).collect(),
        }
    }

    /// Sends one request from a thread that may block.
    pub fn call(&self, ops: Vec<OstOp>) -> Reply {
        wait(self.ost.clone().handle(self.export.clone(), self.request(ops)))
    }

    /// As [`Rig::one`], by another client.
    pub fn one_by(&self, client: u128, op: OstOp) -> Result<OstReply, Errno> {
        let export = Export::local(self.ost.target(), ClientUuid(client), "other".into(), None);
        only(wait(self.ost.clone().handle(export, self.request(vec![op]))))
    }

    /// Sends one request from a reactor.
    pub fn call_on_reactor(&self, ops: Vec<OstOp>) -> Reply {
        let handled = self.ost.clone().handle(self.export.clone(), self.request(ops));
        let (send, receive) = mpsc::channel();
        let task = async move { send.send(handled.await).unwrap() };
        self.env.tasks.spawn("test", Box::pin(task));
        receive.recv().unwrap()
    }

    /// Sends one operation.
    pub fn one(&self, op: OstOp) -> Result<OstReply, Errno> {
        only(self.call(vec![op]))
    }

    pub fn write(
        &self,
        object: ObjectId,
        offset: u64,
        data: impl Into<bytes::Bytes>,
    ) -> Result<i64, Errno> {
        let offset = types::object::ObjectOffset(offset);
        match self.one(OstOp::Write(ObjectWrite {
            object,
            offset,
            data: data.into(),
            sync: false,
        }))? {
            OstReply::Changed { blocks_delta } => Ok(blocks_delta),
            other => panic!("{other:?}"),
        }
    }

    pub fn read(&self, object: ObjectId, offset: u64, len: u32) -> bytes::Bytes {
        match self
            .one(OstOp::Read(ObjectRead {
                object,
                offset: types::object::ObjectOffset(offset),
                len,
            }))
            .unwrap()
        {
            OstReply::Data(data) => data,
            other => panic!("{other:?}"),
        }
    }

    /// (size, blocks)
    pub fn attr(&self, object: ObjectId) -> (u64, u64) {
        match self.one(OstOp::Getattr(ObjectGetattr { object })).unwrap() {
            OstReply::Attr { size, blocks } => (size, blocks),
            other => panic!("{other:?}"),
        }
    }
}

fn start(
    env: &Env,
    dir: &Path,
    bytes_max: Option<u64>,
    settings: OstSettings,
) -> (Arc<Target>, Arc<Ost>) {
    let mut options = TargetOptions::default();
    options.objects.bytes_max = bytes_max;
    let target = Target::open(env, dir, options).unwrap();
    let ost = Ost::start(target.clone(), env.clone(), settings, Arc::default()).unwrap();
    (target, ost)
}

/// Polls on this thread, which may block.
pub fn wait<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// The only result.
pub fn only(mut reply: Reply) -> Result<OstReply, Errno> {
    assert_eq!(reply.results.len(), 1);
    match reply.results.remove(0)? {
        OpReply::Ost(reply) => Ok(reply),
        other => panic!("{other:?}"),
    }
}

pub fn object(stripe: u32) -> ObjectId {
    ObjectId { fid: Fid { seq: Fid::SEQ_NORMAL, oid: 9, ver: 0 }, instance: 1, stripe }
}
