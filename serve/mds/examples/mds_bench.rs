//! Measures creates, getattrs and unlinks per second of one MDT in one process, and their CPU cost.
//!
//! `cargo run --release -p mds --example mds_bench -- [FILES] [FOLDER]` (200,000 files in a
//! temporary folder). Requests go in at the front door of the service, from one thread; group
//! commits to the journal go on behind. CPU is that of all threads of the process, user and system.

use env::BoxFuture;
use env::real::{RealConfig, RealEnv};
use mds::mds::Mds;
use mds::object_targets::{ObjectTargets, Pools};
use mds::peers::Peers;
use mds::settings::MdsSettings;
use rpc::error::RpcError;
use rpc::service::{Export, Service};
use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use target::{FormatSpec, Target, TargetOptions};
use types::attr::Statfs;
use types::credentials::Credentials;
use types::fid::Fid;
use types::name::Name;
use types::object::{ObjectId, ObjectOffset};
use types::session::{ClientUuid, ClusterId, Transno, Xid};
use types::target::{TargetIndex, TargetKind};
use wire::mds::{
    Close, Create, CreateKind, Getattr, Lookup, MdsOp, MdsReply, OpenFlags, Readdir, Unlink,
};
use wire::message::{Op, OpReply, Request};

/// Four OSTs with unlimited space.
struct NoOsts;

impl ObjectTargets for NoOsts {
    fn pools(&self) -> Arc<Pools> {
        Arc::default()
    }

    fn list(&self) -> Vec<TargetIndex> {
        (0..4).map(TargetIndex).collect()
    }

    fn is_in_use(&self, _: TargetIndex) -> bool {
        true
    }

    fn statfs(&self, _: TargetIndex) -> BoxFuture<'static, Result<Statfs, RpcError>> {
        let space = Statfs {
            bytes_total: 1 << 50,
            bytes_free: 1 << 49,
            bytes_available: 1 << 49,
            ..Statfs::default()
        };
        Box::pin(async move { Ok(space) })
    }

    fn getattr(
        &self,
        _: TargetIndex,
        _: ObjectId,
    ) -> BoxFuture<'static, Result<(u64, u64), RpcError>> {
        Box::pin(async { Ok((0, 0)) })
    }

    fn cut(
        &self,
        _: TargetIndex,
        _: ObjectId,
        _: ObjectOffset,
    ) -> BoxFuture<'static, Result<u64, RpcError>> {
        Box::pin(async { Ok(0) })
    }

    fn destroy(
        &self,
        _: TargetIndex,
        _: Vec<ObjectId>,
    ) -> BoxFuture<'static, Result<(), RpcError>> {
        Box::pin(async { Ok(()) })
    }
}

struct Client {
    mds: Arc<Mds>,
    export: Arc<Export>,
    xid: u64,
}

impl Client {
    /// One operation. It is polled in place; when it must wait (for room in the store) it is polled
    /// again.
    fn one(&mut self, op: MdsOp) -> MdsReply {
        self.xid += 1;
        let request = Request {
            target: self.mds.name(),
            xid: Xid(self.xid),
            xid_known: Xid(self.xid),
            resent: false,
            replay: Transno(0),
            slot: 0,
            locks: types::lock::InodeBits::NONE,
            credentials: Credentials::root(),
            job: types::job::JobId::NONE,
            ops: vec![Op::Mds(op)],
        };
        let mut reply = pin!(self.mds.clone().handle(self.export.clone(), request));
        let mut context = Context::from_waker(Waker::noop());
        let mut reply = loop {
            match reply.as_mut().poll(&mut context) {
                Poll::Ready(reply) => break reply,
                Poll::Pending => std::thread::sleep(Duration::from_micros(200)),
            }
        };
        match reply.results.remove(0) {
            Ok(OpReply::Mds(reply)) => reply,
            other => panic!("{other:?}"),
        }
    }
}

fn cpu() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a valid place for what getrusage writes, and all zeros are a valid rusage.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn measure(name: &str, count: u64, mut one: impl FnMut(u64)) {
    let (start, cpu_start) = (Instant::now(), cpu());
    (0..count).for_each(&mut one);
    let (wall, used) = (start.elapsed(), cpu() - cpu_start);
    let per_op = |t: Duration| t.as_secs_f64() * 1e6 / count as f64;
    let rate = count as f64 / wall.as_secs_f64();
    println!("{name:<14} {rate:>9.0}/s  {:>6.2} us  {:>6.2} us CPU", per_op(wall), per_op(used));
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let files: u64 = args.next().map_or(Ok(200_000), |a| a.parse())?;
    let temporary = tempfile::tempdir()?;
    let folder = args.next().map_or_else(|| temporary.path().join("mdt"), Into::into);

    let (env, _guard) = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 2 })?;
    let spec = FormatSpec {
        index: Some(TargetIndex(0)),
        cluster: ClusterId(1),
        ..FormatSpec::new(Default::default(), TargetKind::Mdt)
    };
    target::format(&env, &folder, &spec)?;
    let target = Target::open(&env, &folder, TargetOptions::default())?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mds = runtime.block_on(Mds::start(
        &target,
        Arc::new(NoOsts),
        Peers::none(),
        MdsSettings::default(),
    ))?;
    runtime.block_on(mds.refresh_spaces());

    let export = Export::local(mds.name(), ClientUuid(1), "bench".into(), None);
    let mut client = Client { mds: mds.clone(), export, xid: 0 };
    let name =
        |prefix: &str, i: u64| Name::new(format!("{prefix}{i}").as_bytes()).expect("a good name");
    let create = |prefix: &str, i, kind| {
        MdsOp::Create(Create {
            parent: Fid::ROOT,
            name: name(prefix, i),
            kind,
            mode: 0o644,
            umask: 0o022,
            exclusive: true,
        })
    };
    let mut fids = Vec::with_capacity(files as usize);

    println!("{:<14} {:>11}  {:>9}  {:>10}", "operation", "rate", "wall/op", "CPU/op, all threads");
    measure("create", files, |i| match client.one(create("f", i, CreateKind::Regular(None))) {
        MdsReply::Opened { entry, .. } => fids.push(entry.attr.fid),
        other => panic!("{other:?}"),
    });
    measure("getattr", files, |i| {
        client.one(MdsOp::Getattr(Getattr::of(fids[i as usize])));
    });
    measure("lookup", files, |i| {
        client.one(MdsOp::Lookup(Lookup { parent: Fid::ROOT, name: name("f", i) }));
    });
    let mut after = None;
    measure("readdir /1024", files / 1024, |_| {
        let op = MdsOp::Readdir(Readdir {
            fid: Fid::ROOT,
            after: after.take(),
            limit: 1024,
            bytes_max: u32::MAX,
            with_attr: true,
            with_layout: false,
        });
        match client.one(op) {
            MdsReply::Entries { entries, .. } => after = entries.last().map(|e| e.name.clone()),
            other => panic!("{other:?}"),
        }
    });
    measure("unlink", files, |i| {
        client.one(MdsOp::Unlink(Unlink { parent: Fid::ROOT, name: name("f", i) }));
    });
    let flags = OpenFlags { read: true, write: true, exec: false, append: false, lasting: false };
    measure("create+close", files, |i| {
        match client.one(create("g", i, CreateKind::Regular(Some(flags)))) {
            MdsReply::Opened { entry, handle, .. } => {
                client.one(MdsOp::Close(Close { fid: entry.attr.fid, handle }));
            }
            other => panic!("{other:?}"),
        }
    });
    measure("unlink data", files, |i| {
        client.one(MdsOp::Unlink(Unlink { parent: Fid::ROOT, name: name("g", i) }));
    });

    runtime.block_on(mds.stop());
    runtime.block_on(target.close())?;
    Ok(())
}
