//! A mount in virtual time, with a kernel that records, and servers that grant whatever is asked.
//!
//! Nothing is left to chance: a test says what waits and how much time goes by. It runs under
//! several seeds, which decide the order of tasks that could run at the same instant.

use crate::cluster::Cluster;
use crate::kernel::RecordedKernel;
use bytes::Bytes;
use client::caller::{Caller, Found};
use client::client::Client;
use client::node::NodeId;
use client::open::{FileHandle, OpenMode};
use client::{Looked, WriteFlags};
use parking_lot::Mutex;
use simenv::world::World;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;
use wire::client::{ClientOp, ClientReply};

/// Bits under which the kernel may trust a name and its attributes.
pub const SHOWN: InodeBits = InodeBits::LOOKUP.union(InodeBits::UPDATE);
/// Bits under which data is read and written.
pub const OF_DATA: InodeBits = InodeBits::UPDATE.union(InodeBits::DATA).union(InodeBits::WRITE);

/// Virtual time after which a test is stuck.
const TIME_MAX: Duration = Duration::from_secs(600);
const SEEDS: u64 = 8;

/// See the module.
pub struct Rig {
    pub cluster: Cluster,
    pub kernel: Arc<RecordedKernel>,
}

/// Something that goes on beside the test.
pub struct Running<T>(Arc<Mutex<Option<T>>>);

impl<T> Running<T> {
    pub fn is_over(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Its result, once.
    pub fn take(&self) -> Option<T> {
        self.0.lock().take()
    }
}

/// Runs a test on a mount whose kernel reports opens.
pub fn simulated<F: Future<Output = ()> + Send + 'static>(test: impl Fn(Rig) -> F) {
    simulated_with(true, test);
}

/// As [`simulated`]; `opens`: the kernel reports opens.
pub fn simulated_with<F: Future<Output = ()> + Send + 'static>(
    opens: bool,
    test: impl Fn(Rig) -> F,
) {
    for seed in 0..SEEDS {
        let world = World::new(seed);
        let (env, _process) = world.start(world.machine(1 << 20));
        let mounted = world.block_on(Cluster::mounted_in(env, opens), TIME_MAX);
        let cluster = mounted.unwrap_or_else(|stuck| panic!("seed {seed}, mount: {stuck:?}"));
        cluster.world.grants.store(true, Ordering::Relaxed);
        let kernel = Arc::new(RecordedKernel::default());
        cluster.client.attach_kernel(kernel.clone());
        let result = world.block_on(test(Rig { cluster, kernel }), TIME_MAX);
        result.unwrap_or_else(|stuck| panic!("seed {seed}: {stuck:?}"));
    }
}

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

pub fn mode(flags: i32) -> OpenMode {
    OpenMode::from_libc(flags, false)
}

impl Rig {
    pub fn client(&self) -> Arc<Client> {
        self.cluster.client.clone()
    }

    /// Lets this much time go by.
    pub async fn wait(&self, time: Duration) {
        self.cluster.env.clock.sleep(time).await;
    }

    /// As [`Rig::wait`].
    pub async fn wait_ms(&self, ms: u64) {
        self.wait(Duration::from_millis(ms)).await;
    }

    /// Lets everything happen that needs no time.
    pub async fn settle(&self) {
        self.wait(Duration::from_nanos(1)).await;
    }

    /// Begins something, which goes on beside the test.
    pub fn begin<T: Send + 'static>(
        &self,
        what: impl Future<Output = T> + Send + 'static,
    ) -> Running<T> {
        let result = Arc::new(Mutex::new(None));
        let slot = result.clone();
        let work = async move {
            let result = what.await;
            *slot.lock() = Some(result);
        };
        self.cluster.env.tasks.spawn("beside the test", Box::pin(work));
        Running(result)
    }

    /// The MDT calls locks back.
    pub fn revoke(&self, fid: Fid, bits: InodeBits) -> Running<ClientReply> {
        let export = self.cluster.world.exports.lock().get(&0).cloned().expect("mounted");
        let revoke = ClientOp::Revoke { locks: vec![(fid, bits)] };
        self.begin(async move { export.callback(revoke).await.expect("the mount answers") })
    }

    /// As [`Rig::revoke`], of which nothing is held up.
    pub async fn revoked(&self, fid: Fid, bits: InodeBits) {
        self.cluster.callback(ClientOp::Revoke { locks: vec![(fid, bits)] }).await;
    }

    pub async fn lookup(&self, text: &str) -> Looked {
        self.client().lookup_name(Caller::root(), NodeId::ROOT, name(text)).await.unwrap()
    }

    /// A file with these bytes, which the servers have.
    pub async fn file(&self, text: &str, bytes: &'static [u8]) -> Found {
        let open = mode(libc::O_RDWR | libc::O_EXCL);
        let made =
            self.client().create(Caller::root(), NodeId::ROOT, name(text), 0o644, open).await;
        let (found, handle) = made.unwrap();
        if !bytes.is_empty() {
            let flags = WriteFlags::default();
            let data = Bytes::from_static(bytes);
            self.client().write(Caller::root(), handle, 0, data, flags).await.unwrap();
            self.client().fsync(Caller::root(), handle, false).await.unwrap();
        }
        self.client().release(Caller::root(), handle).await.unwrap();
        self.settle().await;
        found
    }

    pub async fn open(&self, node: NodeId, flags: i32) -> FileHandle {
        self.client().open(Caller::root(), node, mode(flags)).await.unwrap()
    }

    /// read(2) of the first bytes; `pages`: the kernel fills pages with it, which it holds
    /// meanwhile.
    pub fn read(&self, handle: FileHandle, pages: bool) -> Running<Vec<u8>> {
        let read = self.client().read(Caller::root(), handle, 0, 4096, pages);
        self.begin(async move { read.await.unwrap().concat() })
    }

    /// Requests of this name since the last [`Cluster::asked`].
    pub fn asked(&self, request: &str) -> usize {
        self.cluster
            .world
            .state
            .lock()
            .log
            .iter()
            .filter(|line| line.split(' ').any(|word| word == request))
            .count()
    }
}
