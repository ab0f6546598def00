//! The targets that the engine is measured on, in this process, and a client that is far from them:
//! it reaches the MDT over loopback TCP.

use crate::failure::BenchError;
use env::Env;
use env::real::{RealConfig, RealEnv, RealGuard};
use etcd::url::Members;
use node::config::format::{FormatSpec, format};
use node::config::settings::{Listen, Settings};
use node::host::announce::Silent;
use node::host::descriptors::{self, DescriptorUsers};
use node::host::rlimit::raise_open_files;
use node::node::Node;
use node::role::parts::Parts;
use node::watch::view::View;
use rpc::{Rpc, RpcConfig};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stubs::mdc::Mdc;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use types::credentials::Credentials;
use types::nid::Nid;
use types::session::{ClientUuid, ClusterId};
use types::target::{FsName, TargetIndex, TargetKind, TargetName};

/// How long an MDT may take to find that its log has no owner.
const TAKE_OVER: Duration = Duration::from_secs(30);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// An MGS, an OST and an MDT.
pub struct Targets {
    node: Node,
    parts: Parts,
    guard: RealGuard,
    /// The last to go.
    _dir: TempDir,
}

impl Targets {
    /// In a folder of `dir` that is removed in the end. `log`: the etcd that has the log of the
    /// MDT; `None`: the log is in its folder.
    ///
    /// # Errors
    /// The targets cannot be made, or do not start.
    pub fn start(
        runtime: &Runtime,
        dir: &Path,
        log: Option<&Members>,
    ) -> Result<Targets, BenchError> {
        let dir = tempfile::Builder::new().prefix("sheen-bench-engine.").tempdir_in(dir);
        let dir = dir.map_err(BenchError::of("make a folder for the targets"))?;
        let fsname = FsName::default();
        let mut targets = Vec::new();
        for (kind, folder) in
            [(TargetKind::Mgt, "mgt"), (TargetKind::Ost, "ost"), (TargetKind::Mdt, "mdt")]
        {
            let dir = dir.path().join(folder);
            let log = log.filter(|_| kind == TargetKind::Mdt);
            let spec = FormatSpec {
                kind,
                fsname,
                index: log.map(|_| TargetIndex(0)),
                dir: dir.clone(),
                log: log.cloned(),
                mgs: Vec::new(),
                volume: None,
                replace: false,
            };
            format(&spec).map_err(BenchError::of("make a target"))?;
            targets.push(dir);
        }
        let listen = Listen::At(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let settings = Settings { listen, targets, ..Settings::default() };
        let (env, guard) =
            RealEnv::start(RealConfig::default()).map_err(BenchError::of("start threads"))?;
        let rpc = Rpc::new(env.clone(), RpcConfig { cluster: ClusterId(0), checksums: true });
        let parts = Parts::new(env, rpc, vec![Nid::Loopback], dir.path());
        let view = Arc::new(View::new(None, settings.clone(), parts.clone()));
        let wanted = DescriptorUsers { targets: settings.targets.len(), mounts: 0 };
        let bounds = descriptors::divide(raise_open_files(), wanted)
            .map_err(|too_few| BenchError::Failed(too_few.to_string()))?;
        let mut node = Node::new(settings, bounds, parts.clone(), view, None);
        runtime.block_on(node.start(&mut Silent)).map_err(BenchError::of("start the targets"))?;
        let targets = Targets { node, parts, guard, _dir: dir };
        if log.is_some() {
            targets.wait_for_mdt(runtime)?;
        }
        Ok(targets)
    }

    /// One on a shared log is taken over a moment later.
    fn wait_for_mdt(&self, runtime: &Runtime) -> Result<(), BenchError> {
        let far = self.far_client()?;
        let began = Instant::now();
        let reached = loop {
            let root = Credentials::root();
            let asked = far.mdc().statfs(&root);
            let asked = runtime.block_on(async { tokio::time::timeout(TAKE_OVER, asked).await });
            match asked {
                Ok(Ok(_)) => break Ok(()),
                Ok(Err(_)) if began.elapsed() < TAKE_OVER => std::thread::sleep(LOOK),
                Ok(Err(error)) => break Err(BenchError::of("reach the MDT")(error)),
                Err(late) => break Err(BenchError::of("reach the MDT")(late)),
            }
        };
        far.end(runtime);
        reached
    }

    /// A client in the process of the MDT.
    pub fn in_place(&self) -> Mdc {
        let mdt = TargetName::mdt(FsName::default(), 0);
        Mdc::new(self.parts.short_session(mdt, vec![Nid::Loopback]))
    }

    /// A client over loopback TCP, with a thread of its own.
    ///
    /// # Errors
    /// The targets listen nowhere, or the thread cannot be started.
    pub fn far_client(&self) -> Result<FarClient, BenchError> {
        let rpc = &self.parts.rpc;
        let nid = rpc.nids().into_iter().find(|nid| *nid != Nid::Loopback);
        let nid = nid.ok_or_else(|| BenchError::Failed("the targets listen nowhere".to_owned()))?;
        let config = RealConfig { reactors: 1, blocking_threads: 1 };
        let (env, guard) = RealEnv::start(config).map_err(BenchError::of("start threads"))?;
        let rpc = Rpc::new(env.clone(), RpcConfig { cluster: rpc.cluster(), checksums: true });
        let client = ClientUuid(env.random.next_u128());
        let target = TargetName::mdt(FsName::default(), 0);
        let mdc = Mdc::new(rpc.import(target, vec![nid], client, "bench".to_owned(), None));
        Ok(FarClient { env, rpc, mdc, guard })
    }

    /// Stops the targets; their folders are removed.
    ///
    /// # Errors
    /// Something could not be made durable.
    pub fn stop(self, runtime: &Runtime) -> Result<(), BenchError> {
        let Targets { node, parts, guard, _dir } = self;
        let stopped = runtime.block_on(node.stop()).map_err(BenchError::of("stop the targets"));
        drop(parts);
        drop(guard);
        stopped
    }
}

/// A client over loopback TCP.
pub struct FarClient {
    env: Env,
    rpc: Arc<Rpc>,
    mdc: Mdc,
    guard: RealGuard,
}

impl FarClient {
    /// Where its tasks run.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Its MDT.
    pub fn mdc(&self) -> &Mdc {
        &self.mdc
    }

    /// Ends its session.
    pub fn end(self, runtime: &Runtime) {
        runtime.block_on(async {
            self.mdc.import().disconnect().await;
            self.rpc.shutdown().await;
        });
        drop(self.guard);
    }
}
