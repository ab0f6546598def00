//! Ranks: each works in a directory of its own, or in one that all share, as mdtest(1) does.

use client::caller::Caller;
use client::client::Client;
use client::error::ClientError;
use client::node::NodeId;
use client::open::OpenMode;
use env::clock::Clock;
use rpc::import::Import;
use std::sync::Arc;
use std::time::Duration;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use wire::mds::{Getattr, MdsOp};
use wire::message::Op;

/// What a phase does with each item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    pub const ALL: [Phase; 5] =
        [Phase::Create, Phase::Stat, Phase::Remove, Phase::Mkdir, Phase::Rmdir];

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

/// One rank, on its client.
pub struct Rank {
    /// Number of the rank whose items it works on.
    pub of: usize,
    /// The client.
    pub client: Arc<Client>,
    /// Its clock.
    pub clock: Arc<dyn Clock>,
    /// The directory of these items, as this client knows it.
    pub dir: NodeId,
    /// Items for each rank.
    pub items: u32,
    /// A mistake on purpose: each create asks MDT0000 for something else, too.
    pub extra: Option<Arc<Import>>,
}

impl Rank {
    /// Does it with each item. When the first began, and when each ended.
    ///
    /// # Errors
    /// Those of the client.
    pub async fn does(self, phase: Phase) -> Result<(Duration, Vec<Duration>), ClientError> {
        let now = || self.clock.now();
        let began = now();
        let mut ended = Vec::with_capacity(self.items as usize);
        for item in 0..self.items {
            let name = Name::new(format!("file.mdtest.{}.{item}", self.of).as_bytes());
            self.one(phase, name.expect("a short name")).await?;
            ended.push(now());
        }
        Ok((began, ended))
    }

    async fn one(&self, phase: Phase, name: Name) -> Result<(), ClientError> {
        let (client, caller, dir) = (self.client.clone(), Caller::root(), self.dir);
        match phase {
            Phase::Create => {
                if let Some(import) = &self.extra {
                    let ask = Op::Mds(MdsOp::Getattr(Getattr::of(Fid::ROOT)));
                    import.one(&Credentials::root(), ask).await.map_err(ClientError::from)?;
                }
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
                let found = client.clone().mkdir(caller, dir, name, 0o755).await?;
                client.forget(found.node, 1);
            }
            Phase::Rmdir => client.rmdir(caller, dir, name).await?,
        }
        Ok(())
    }
}
