//! The way through the client's own interface, in this process: no kernel and no FUSE between.

use super::door::Door;
use crate::failure::BenchError;
use bytes::Bytes;
use client::Budget;
use client::WriteFlags;
use client::caller::Caller;
use client::client::{Client, ClientOptions};
use client::error::ClientError;
use client::node::NodeId;
use client::open::{FileHandle, OpenMode};
use env::Env;
use env::real::{RealConfig, RealEnv, RealGuard};
use node::config::mount_source::MountSource;
use rpc::{Rpc, RpcConfig};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::runtime::Runtime;
use types::attr::{AccessTimes, FileType};
use types::limits::BULK_BYTES_MAX;
use types::name::Name;
use types::session::ClusterId;

/// Buffer of one listing, bytes, and the fixed cost of an entry in it.
const LISTING: Budget = Budget { bytes: 64 << 10, per_entry: 24 };
/// Folders in folders that are removed; the benchmark's are not deeper.
const DEPTH_MAX: usize = 16;

/// A client of this process, and the benchmark's folder in its file system; both end when dropped.
pub struct Native {
    client: Arc<Client>,
    rpc: Arc<Rpc>,
    root: NodeId,
    folder: Name,
    runtime: Runtime,
    // Last: the others run on its threads.
    _guard: RealGuard,
}

/// A runtime for one thread.
///
/// # Errors
/// The system has no more descriptors.
pub fn runtime() -> Result<Runtime, BenchError> {
    tokio::runtime::Builder::new_current_thread().build().map_err(BenchError::of("start a runtime"))
}

/// A name of a file.
///
/// # Errors
/// It is too long, or has a slash in it.
pub fn name_of(name: &str) -> Result<Name, BenchError> {
    Name::new(name.as_bytes())
        .map_err(|errno| BenchError::Failed(format!("{name:?} is no name: {errno}")))
}

/// "cannot DO NAME natively: why".
fn natively<'a>(what: &'a str, name: &'a str) -> impl FnOnce(ClientError) -> BenchError + 'a {
    move |error| BenchError::Failed(format!("cannot {what} {name} natively: {error}"))
}

/// A client in this process. It answers errors instead of waiting for servers for ever. The caller
/// unmounts it, and then shuts its connections down.
///
/// # Errors
/// The servers do not answer.
pub async fn mount(env: &Env, source: &MountSource) -> Result<(Arc<Client>, Arc<Rpc>), BenchError> {
    let rpc = Rpc::new(env.clone(), RpcConfig { cluster: ClusterId(0), checksums: true });
    let options = ClientOptions {
        opens: true,
        access_times: AccessTimes::default(),
        nodiratime: false,
        mgs: source.mgs.clone(),
        fsname: source.fsname,
        directory: source.directory.clone(),
        description: format!("sheen bench, process {}", std::process::id()),
        soft: true,
    };
    match Client::mount(env.clone(), rpc.clone(), options).await {
        Ok(client) => Ok((client, rpc)),
        Err(error) => Err(BenchError::Failed(format!("cannot reach {source}: {error}"))),
    }
}

impl Native {
    /// Reaches the file system and makes the benchmark's folder.
    ///
    /// # Errors
    /// The servers do not answer.
    pub fn connect(source: &MountSource) -> Result<Native, BenchError> {
        let (env, guard) =
            RealEnv::start(RealConfig::default()).map_err(BenchError::of("start threads"))?;
        let runtime = runtime()?;
        let (client, rpc) = runtime.block_on(mount(&env, source))?;
        let text = format!("sheen-bench-native.{}", std::process::id());
        let folder = name_of(&text)?;
        let made = runtime.block_on(client.clone().mkdir(
            Caller::root(),
            NodeId::ROOT,
            folder.clone(),
            0o755,
        ));
        match made {
            Ok(found) => {
                Ok(Native { client, rpc, root: found.node, folder, runtime, _guard: guard })
            }
            Err(error) => {
                runtime.block_on(client.unmount());
                Err(natively("make", &text)(error))
            }
        }
    }

    async fn remove_below(
        client: &Arc<Client>,
        node: NodeId,
        depth: usize,
    ) -> Result<(), ClientError> {
        let handle = client.clone().opendir(Caller::root(), node).await?;
        let mut found = Vec::new();
        let mut cookie = 0;
        let listed = loop {
            match client.clone().readdir(Caller::root(), handle, cookie, LISTING, false).await {
                Ok(items) if items.is_empty() => break Ok(()),
                Ok(items) => {
                    cookie = items.last().map_or(cookie, |item| item.next);
                    found.extend(items.into_iter().map(|item| (item.name, item.file_type)));
                }
                Err(error) => break Err(error),
            }
        };
        client.releasedir(handle);
        listed?;
        for (name, file_type) in
            found.into_iter().filter(|(name, _)| !matches!(&**name, b"." | b".."))
        {
            let name = Name::new(&name).map_err(ClientError::Errno)?;
            if file_type == FileType::Directory {
                if depth < DEPTH_MAX {
                    let below =
                        client.clone().lookup(Caller::root(), node, name.clone()).await?.node;
                    Box::pin(Native::remove_below(client, below, depth + 1)).await?;
                    client.forget(below, 1);
                }
                client.clone().rmdir(Caller::root(), node, name).await?;
            } else {
                client.clone().unlink(Caller::root(), node, name).await?;
            }
        }
        Ok(())
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        let (client, root, folder) = (self.client.clone(), self.root, self.folder.clone());
        let rpc = self.rpc.clone();
        let removed = self.runtime.block_on(async move {
            let removed = Native::remove_below(&client, root, 0).await;
            client.forget(root, 1);
            let gone = client.clone().rmdir(Caller::root(), NodeId::ROOT, folder).await;
            client.unmount().await;
            rpc.shutdown().await;
            removed.and(gone)
        });
        if let Err(error) = removed {
            let name = String::from_utf8_lossy(self.folder.as_bytes()).into_owned();
            eprintln!(
                "sheen bench: cannot remove {name} in the root of the file system: {error}; remove it by hand"
            );
        }
    }
}

/// The door of one rank. It remembers the folders it came through.
pub struct NativeDoor {
    native: Arc<Native>,
    runtime: Runtime,
    folders: HashMap<String, NodeId>,
}

impl NativeDoor {
    /// A new door.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn new(native: Arc<Native>) -> Result<NativeDoor, BenchError> {
        Ok(NativeDoor { native, runtime: runtime()?, folders: HashMap::new() })
    }

    fn client(&self) -> Arc<Client> {
        self.native.client.clone()
    }

    fn folder(&mut self, dir: &str) -> Result<NodeId, BenchError> {
        if let Some(node) = self.folders.get(dir) {
            return Ok(*node);
        }
        let mut node = self.native.root;
        let mut path = String::new();
        for part in dir.split('/').filter(|part| !part.is_empty()) {
            path = format!("{path}/{part}");
            node = match self.folders.get(&path) {
                Some(known) => *known,
                None => {
                    let lookup = self.client().lookup(Caller::root(), node, name_of(part)?);
                    let found = self.runtime.block_on(lookup).map_err(natively("find", part))?;
                    self.folders.insert(path.clone(), found.node);
                    found.node
                }
            };
        }
        Ok(node)
    }

    async fn close(client: Arc<Client>, handle: FileHandle) -> Result<(), ClientError> {
        client.clone().flush(Caller::root(), handle, 0).await?;
        client.release(Caller::root(), handle).await
    }
}

impl Drop for NativeDoor {
    fn drop(&mut self) {
        self.folders.values().for_each(|node| self.native.client.forget(*node, 1));
    }
}

impl Door for NativeDoor {
    fn mkdir(&mut self, dir: &str, name: &str) -> Result<(), BenchError> {
        let parent = self.folder(dir)?;
        let made = self.runtime.block_on(self.client().mkdir(
            Caller::root(),
            parent,
            name_of(name)?,
            0o755,
        ));
        self.client().forget(made.map_err(natively("make", name))?.node, 1);
        Ok(())
    }

    fn rmdir(&mut self, dir: &str, name: &str) -> Result<(), BenchError> {
        let parent = self.folder(dir)?;
        let gone =
            self.runtime.block_on(self.client().rmdir(Caller::root(), parent, name_of(name)?));
        gone.map_err(natively("remove", name))
    }

    fn create(&mut self, dir: &str, name: &str, data: &[u8]) -> Result<(), BenchError> {
        let (parent, client, file) = (self.folder(dir)?, self.client(), name_of(name)?);
        let mode = OpenMode::from_libc(libc::O_WRONLY | libc::O_EXCL, false);
        let data = Bytes::copy_from_slice(data);
        let work = async move {
            let (found, handle) =
                client.clone().create(Caller::root(), parent, file, 0o644, mode).await?;
            client.forget(found.node, 1);
            let mut at = 0;
            while at < data.len() {
                let piece = data.slice(at..data.len().min(at + BULK_BYTES_MAX));
                let write = client.clone().write(
                    Caller::root(),
                    handle,
                    at as u64,
                    piece,
                    WriteFlags::default(),
                );
                at += write.await?.bytes as usize;
            }
            NativeDoor::close(client, handle).await
        };
        self.runtime.block_on(work).map_err(natively("make", name))
    }

    fn stat(&mut self, dir: &str, name: &str, bytes: Option<u64>) -> Result<(), BenchError> {
        let (parent, client) = (self.folder(dir)?, self.client());
        let found =
            self.runtime.block_on(client.clone().lookup(Caller::root(), parent, name_of(name)?));
        let found = found.map_err(natively("look at", name))?;
        client.forget(found.node, 1);
        match bytes {
            Some(bytes) if found.attr.size != bytes => Err(BenchError::Failed(format!(
                "{name} has {} bytes natively, not {bytes}",
                found.attr.size
            ))),
            _ => Ok(()),
        }
    }

    fn read(&mut self, dir: &str, name: &str, buffer: &mut [u8]) -> Result<(), BenchError> {
        let (parent, client, file) = (self.folder(dir)?, self.client(), name_of(name)?);
        let length = buffer.len();
        let work = async {
            let found = client.clone().lookup(Caller::root(), parent, file).await?;
            let mode = OpenMode::from_libc(libc::O_RDONLY, false);
            let opened = client.clone().open(Caller::root(), found.node, mode).await;
            client.forget(found.node, 1);
            let handle = opened?;
            let mut at = 0;
            while at < length {
                let wanted = (length - at).min(BULK_BYTES_MAX) as u32;
                let pieces =
                    client.clone().read(Caller::root(), handle, at as u64, wanted, false).await?;
                let before = at;
                for piece in pieces {
                    buffer[at..at + piece.len()].copy_from_slice(&piece);
                    at += piece.len();
                }
                if at == before {
                    break;
                }
            }
            NativeDoor::close(client, handle).await?;
            Ok(at)
        };
        let read = self.runtime.block_on(work).map_err(natively("read", name))?;
        if read == length {
            return Ok(());
        }
        Err(BenchError::Failed(format!("{name} gave {read} bytes natively, not {length}")))
    }

    fn unlink(&mut self, dir: &str, name: &str) -> Result<(), BenchError> {
        let parent = self.folder(dir)?;
        let gone =
            self.runtime.block_on(self.client().unlink(Caller::root(), parent, name_of(name)?));
        gone.map_err(natively("remove", name))
    }
}
