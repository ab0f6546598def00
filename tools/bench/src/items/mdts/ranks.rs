//! Clients in this process, without a kernel between, and the ranks that work on them, as mdtest(1)
//! does.

use crate::failure::BenchError;
use crate::ranks::native::{mount, name_of, runtime};
use crate::stop::Stop;
use bench_args::MdtsPlace;
use client::caller::Caller;
use client::client::Client;
use client::error::ClientError;
use client::node::NodeId;
use client::open::OpenMode;
use env::real::{RealConfig, RealEnv, RealGuard};
use node::config::mount_source::MountSource;
use rpc::Rpc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use types::dir_stripes::DirSpec;
use types::errno::Errno;
use types::name::Name;
use types::target::TargetIndex;

/// Ranks of one client.
pub const RANKS_OF_CLIENT: usize = 2;
/// A client knows all MDTs within this time.
const KNOWN: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// What a phase does with each item.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// An empty file is made.
    Create,
    /// A file that a rank on another client made is looked up.
    Stat,
    /// A file is removed.
    Remove,
    /// A directory is made.
    Mkdir,
    /// A directory is removed.
    Rmdir,
}

impl Phase {
    /// All, in the order of a run.
    const ALL: [Phase; 5] = [Phase::Create, Phase::Stat, Phase::Remove, Phase::Mkdir, Phase::Rmdir];

    /// What is measured at a place. Files are always on the MDT of their name.
    pub fn all_at(place: MdtsPlace) -> &'static [Phase] {
        match place {
            MdtsPlace::Private | MdtsPlace::Shared | MdtsPlace::Split => &Phase::ALL,
            MdtsPlace::Remote => &[Phase::Mkdir, Phase::Rmdir],
        }
    }

    /// Its name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Create => "create",
            Phase::Stat => "stat",
            Phase::Remove => "remove",
            Phase::Mkdir => "mkdir",
            Phase::Rmdir => "rmdir",
        }
    }
}

/// The directory in which a rank works.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workplace {
    /// Its name in the root.
    pub name: String,
    /// Directories made in it go to this MDT; `None`: to that of their name.
    pub made_on: Option<u16>,
}

/// Clients of one file system; they end with the value.
pub struct Clients {
    all: Vec<(Arc<Client>, Arc<Rpc>)>,
    runtime: Runtime,
    // Last: the others run on its threads.
    _guard: RealGuard,
}

/// Moments at which items were done, and the first of all began.
#[derive(Debug)]
pub struct Times {
    /// The first began.
    pub began: Instant,
    /// Each ended, in no order.
    pub ended: Vec<Instant>,
}

fn failed(what: &str, error: &ClientError) -> BenchError {
    BenchError::Failed(format!("cannot {what}: {error}"))
}

impl Clients {
    /// Clients for so many ranks, which know all MDTs.
    ///
    /// # Errors
    /// The servers do not answer.
    pub fn connect(source: &MountSource, ranks: usize, mdts: u16) -> Result<Clients, BenchError> {
        let (env, guard) =
            RealEnv::start(RealConfig::default()).map_err(BenchError::of("start threads"))?;
        let mut clients = Clients { all: Vec::new(), runtime: runtime()?, _guard: guard };
        for _ in 0..ranks.div_ceil(RANKS_OF_CLIENT) {
            clients.all.push(clients.runtime.block_on(mount(&env, source))?);
        }
        let deadline = Instant::now() + KNOWN;
        let knows_all = |(client, _): &(Arc<Client>, Arc<Rpc>)| {
            client.session().mdts().len() == usize::from(mdts)
                && !client.session().osts().is_empty()
        };
        while !clients.all.iter().all(knows_all) {
            if Instant::now() > deadline {
                return Err(BenchError::Failed(format!(
                    "not all clients know all {mdts} MDTs after {KNOWN:?}"
                )));
            }
            std::thread::sleep(LOOK);
        }
        Ok(clients)
    }

    /// Makes a directory in the root, with so many stripes, the first on this MDT.
    ///
    /// # Errors
    /// Those of the client.
    pub fn mkdir(&self, dir: &str, mdt: u16, stripes: u16) -> Result<(), BenchError> {
        let spec = DirSpec { count: stripes, mdts: vec![TargetIndex(mdt)], ..DirSpec::default() };
        let client = self.all[0].0.clone();
        let made =
            client.clone().mkdir_placed(Caller::root(), NodeId::ROOT, name_of(dir)?, 0o755, spec);
        let found = self.runtime.block_on(made).map_err(|e| failed("make a directory", &e))?;
        client.forget(found.node, 1);
        Ok(())
    }

    /// All ranks do this with their items; `dirs`: where each rank works.
    ///
    /// # Errors
    /// The first operation that fails, or the user ended the run.
    pub fn perform(
        &self,
        phase: Phase,
        dirs: &[Workplace],
        items: u32,
        stop: &Stop,
    ) -> Result<Times, BenchError> {
        // A stat asks for what a rank of another client made.
        let shift = if phase == Phase::Stat { RANKS_OF_CLIENT } else { 0 };
        let mut ranks = Vec::new();
        for rank in 0..dirs.len() {
            let of = (rank + shift) % dirs.len();
            let client = self.all[rank / RANKS_OF_CLIENT].0.clone();
            let lookup =
                client.clone().lookup(Caller::root(), NodeId::ROOT, name_of(&dirs[of].name)?);
            let dir = self.runtime.block_on(lookup).map_err(|e| failed("find a directory", &e))?;
            let made_on = dirs[of].made_on.map(TargetIndex);
            ranks.push((Rank { client, dir: dir.node, of, made_on }, runtime()?));
        }
        let began = Instant::now();
        let ended: Vec<Result<Vec<Instant>, BenchError>> = std::thread::scope(|scope| {
            let work = |(rank, runtime): (Rank, Runtime)| {
                scope.spawn(move || rank.does(phase, items, &runtime, stop))
            };
            let threads: Vec<_> = ranks.into_iter().map(work).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("a rank does not panic"))
                .collect()
        });
        let mut times = Times { began, ended: Vec::new() };
        for one in ended {
            times.ended.extend(one?);
        }
        Ok(times)
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        for (client, rpc) in std::mem::take(&mut self.all) {
            self.runtime.block_on(async move {
                client.unmount().await;
                rpc.shutdown().await;
            });
        }
    }
}

/// One rank, on its client.
struct Rank {
    client: Arc<Client>,
    dir: NodeId,
    /// Number of the rank whose items it works on.
    of: usize,
    /// Directories go to this MDT; `None`: to that of their name.
    made_on: Option<TargetIndex>,
}

impl Rank {
    fn does(
        self,
        phase: Phase,
        items: u32,
        runtime: &Runtime,
        stop: &Stop,
    ) -> Result<Vec<Instant>, BenchError> {
        let mut ended = Vec::with_capacity(items as usize);
        for item in 0..items {
            stop.check()?;
            let name = name_of(&format!("file.mdtest.{}.{item}", self.of))?;
            runtime.block_on(self.one(phase, name)).map_err(|e| failed(phase.name(), &e))?;
            ended.push(Instant::now());
        }
        self.client.forget(self.dir, 1);
        Ok(ended)
    }

    async fn one(&self, phase: Phase, name: Name) -> Result<(), ClientError> {
        let (client, caller, dir) = (self.client.clone(), Caller::root(), self.dir);
        match phase {
            Phase::Create => {
                let mode = OpenMode::from_libc(libc::O_WRONLY | libc::O_EXCL, false);
                let (found, handle) = client.clone().create(caller, dir, name, 0o644, mode).await?;
                client.clone().release(Caller::root(), handle).await?;
                client.forget(found.node, 1);
            }
            Phase::Stat => {
                let found = client.clone().lookup(caller, dir, name).await?;
                let stat = client.clone().getattr(Caller::root(), found.node, None).await?;
                if stat.attr.nlink != 1 {
                    return Err(Errno::EIO.into());
                }
                client.forget(found.node, 1);
            }
            Phase::Remove => client.unlink(caller, dir, name).await?,
            Phase::Mkdir => {
                let found = match self.made_on {
                    None => client.clone().mkdir(caller, dir, name, 0o755).await?,
                    Some(mdt) => {
                        let spec = DirSpec { count: 1, mdts: vec![mdt], ..DirSpec::default() };
                        client.clone().mkdir_placed(caller, dir, name, 0o755, spec).await?
                    }
                };
                client.forget(found.node, 1);
            }
            Phase::Rmdir => client.rmdir(caller, dir, name).await?,
        }
        Ok(())
    }
}
