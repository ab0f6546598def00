//! The client as a library: stores or prints one file of a file system, without mounting it.
//!
//! ```sh
//! sheen up /srv/fs
//! echo hello | cargo run -p client --example one_file -- 127.0.0.1@tcp:/sheen put greeting
//! cargo run -p client --example one_file -- 127.0.0.1@tcp:/sheen get greeting
//! ```
//!
//! Every operation is an `async fn` on `Arc<Client>`; any executor may run it. What waits in the
//! background (sessions, callbacks, write-back) runs on the threads of the environment.

use bytes::Bytes;
use client::caller::Caller;
use client::client::{Client, ClientOptions};
use client::error::ClientError;
use client::node::NodeId;
use client::open::{FileHandle, OpenMode};
use client::{WriteFlags, Written};
use env::real::{RealConfig, RealEnv};
use rpc::{Rpc, RpcConfig};
use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use types::attr::AccessTimes;
use types::errno::Errno;
use types::name::Name;
use types::session::ClusterId;
use wire::mds::OpenFlags;

const USAGE: &str = "usage: one_file NID:/FSNAME put|get PATH";
/// Bytes of one read or write; at most [`types::limits::BULK_BYTES_MAX`].
const PIECE: usize = 1 << 20;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("one_file: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let (Some(source), Some(act), Some(path), None) =
        (arguments.next(), arguments.next(), arguments.next(), arguments.next())
    else {
        return Err(USAGE.into());
    };
    let (mgs, fsname) = source.split_once(":/").ok_or(USAGE)?;
    // The threads end when the guard is dropped, last of all.
    let (env, _guard) = RealEnv::start(RealConfig::default())?;
    // It learns from the MGS which cluster it is.
    let rpc = Rpc::new(env.clone(), RpcConfig { cluster: ClusterId(0), checksums: true });
    let options = ClientOptions {
        opens: true,
        access_times: AccessTimes::default(),
        nodiratime: false,
        mgs: vec![mgs.parse()?],
        fsname: fsname.parse()?,
        directory: Default::default(),
        description: "one_file".to_owned(),
        soft: true,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let client = Client::mount(env, rpc.clone(), options).await?;
        let done = match act.as_str() {
            "put" => put(&client, &path, std::io::stdin().lock()).await,
            "get" => get(&client, &path, std::io::stdout().lock()).await,
            _ => Err(USAGE.into()),
        };
        // Stores what is dirty and ends the sessions. The servers would wait for a client that just
        // went until its lease is over.
        client.unmount().await;
        rpc.shutdown().await;
        done
    })
}

/// Stores everything that `source` has in a file, and returns when it is durable.
pub async fn put(client: &Arc<Client>, path: &str, mut source: impl Read) -> Result<(), Failure> {
    let (dir, name) = parent(client, path).await?;
    let open = OpenMode { flags: flags(true), truncate: true, exclusive: false };
    let created = client.clone().create(Caller::root(), dir, name, 0o644, open).await;
    client.forget(dir, 1);
    let (found, handle) = created?;
    let stored = copy_in(client, handle, &mut source).await;
    client.clone().release(Caller::root(), handle).await?;
    client.forget(found.node, 1);
    stored
}

async fn copy_in(
    client: &Arc<Client>,
    handle: FileHandle,
    source: &mut impl Read,
) -> Result<(), Failure> {
    let mut offset = 0;
    loop {
        let mut piece = Vec::with_capacity(PIECE);
        source.by_ref().take(PIECE as u64).read_to_end(&mut piece)?;
        let mut piece = Bytes::from(piece);
        if piece.is_empty() {
            return Ok(client.clone().fsync(Caller::root(), handle, false).await?);
        }
        while !piece.is_empty() {
            let write = client.clone().write(
                Caller::root(),
                handle,
                offset,
                piece.clone(),
                WriteFlags::default(),
            );
            let Written { bytes, .. } = write.await?;
            offset += u64::from(bytes);
            piece = piece.slice(bytes as usize..);
        }
    }
}

/// Writes the bytes of a file to `target`.
pub async fn get(client: &Arc<Client>, path: &str, mut target: impl Write) -> Result<(), Failure> {
    let (dir, name) = parent(client, path).await?;
    let found = client.clone().lookup(Caller::root(), dir, name).await;
    client.forget(dir, 1);
    let node = found?.node;
    let open = OpenMode { flags: flags(false), truncate: false, exclusive: false };
    let printed = match client.clone().open(Caller::root(), node, open).await {
        Ok(handle) => {
            let printed = copy_out(client, handle, &mut target).await;
            client.clone().release(Caller::root(), handle).await?;
            printed
        }
        Err(error) => Err(error.into()),
    };
    client.forget(node, 1);
    printed
}

async fn copy_out(
    client: &Arc<Client>,
    handle: FileHandle,
    target: &mut impl Write,
) -> Result<(), Failure> {
    let mut offset = 0;
    loop {
        let pieces =
            client.clone().read(Caller::root(), handle, offset, PIECE as u32, false).await?;
        let read: usize = pieces.iter().map(Bytes::len).sum();
        pieces.iter().try_for_each(|piece| target.write_all(piece))?;
        offset += read as u64;
        if read < PIECE {
            return Ok(target.flush()?);
        }
    }
}

/// The directory of a path below the root, and the last name. The caller forgets the directory
/// once.
async fn parent(client: &Arc<Client>, path: &str) -> Result<(NodeId, Name), ClientError> {
    let mut names =
        path.split('/').filter(|name| !name.is_empty()).map(|name| Name::new(name.as_bytes()));
    let mut last = names.next().ok_or(Errno::EISDIR)??;
    // The root was not looked up: forgetting it does nothing.
    let mut dir = NodeId::ROOT;
    for name in names {
        let found = client.clone().lookup(Caller::root(), dir, last).await;
        client.forget(dir, 1);
        dir = found?.node;
        last = name?;
    }
    Ok((dir, last))
}

fn flags(write: bool) -> OpenFlags {
    OpenFlags { read: !write, write, exec: false, append: false, lasting: false }
}
