//! The other end of the self-test: answers LNet requests, and raw TCP at a port that it tells.

use crate::failure::BenchError;
use crate::output::print;
use crate::program;
use crate::raw_tcp;
use crate::stop::Stop;
use bench_args::NetArgs;
use bytes::Bytes;
use env::Env;
use env::real::{RealConfig, RealEnv};
use lnet::link::{Handler, Link, Work};
use lnet::node::Lnet;
use lnet::payload::{Frame, HEAD_BYTES, Payload};
use node::config::settings::{Listen, Settings};
use node::host::interfaces::to_listen;
use seal::authority::{Authority, KEY_LIFE, Subject};
use seal::credentials::Credentials;
use seal::error::SealError;
use seal::keys::Keys;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use types::limits::BULK_BYTES_MAX;
use types::nid::Nid;
use types::principal::Role;
use types::session::ClusterId;

/// First byte of a request's body.
pub const PING: u8 = 0;
/// Its data stays here.
pub const PUT: u8 = 1;
/// Answer with so many bytes (four bytes follow, little-endian).
pub const GET: u8 = 2;
/// Answer with the port of raw TCP (two bytes, little-endian).
pub const WHERE_IS_RAW: u8 = 3;

/// Interval at which the responder checks whether it shall end.
const LOOK: Duration = Duration::from_millis(100);

struct Responder {
    raw_port: u16,
    /// Data that answers of gets carry.
    data: Bytes,
}

impl Responder {
    fn answer(&self, frame: &Frame) -> Option<Payload> {
        let body = frame.body.get(HEAD_BYTES..)?;
        let (word, rest) = body.split_first()?;
        match *word {
            PING => Some(Payload { body: Bytes::copy_from_slice(body), ..Payload::default() }),
            PUT => Some(Payload::default()),
            GET => {
                let wanted = u32::from_le_bytes(rest.get(..4)?.try_into().ok()?) as usize;
                let data = self.data.slice(..wanted.min(self.data.len()));
                Some(Payload { bulk: vec![data], ..Payload::default() })
            }
            WHERE_IS_RAW => Some(Payload {
                body: Bytes::copy_from_slice(&self.raw_port.to_le_bytes()),
                ..Payload::default()
            }),
            _ => None,
        }
    }
}

impl Handler for Responder {
    fn request(&self, link: &Arc<Link>, frame: Frame) -> Work {
        let answer = self.answer(&frame);
        if answer.is_some() {
            // It speaks this protocol: large requests may follow.
            link.has_session();
        }
        Work { future: Box::pin(async move { answer }), waits: false, room: frame.room }
    }
}

/// A key, and the authority that signed it, for one run. It is that of a server: both ends use it.
///
/// # Errors
/// There is no randomness for it.
pub fn make_key() -> Result<Credentials, BenchError> {
    let made = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = now.as_secs().try_into().unwrap_or_default();
        let authority = Authority::make(ClusterId(1), now)?;
        let name = "bench".parse().map_err(|_| SealError::NoPrincipal)?;
        let subject = Subject { role: Role::Server, name: &name, nids: &[] };
        authority.issue_key(subject, Vec::new(), (now, KEY_LIFE))
    };
    made().map_err(no_key)
}

fn no_key(error: SealError) -> BenchError {
    BenchError::Failed(format!("no key for the self-test: {error}"))
}

/// What seals connections by a key.
///
/// # Errors
/// The key cannot be used.
pub fn keys(key: &Credentials, env: &Env) -> Result<Arc<Keys>, BenchError> {
    Keys::new(key, env.clock.clone()).map_err(no_key)
}

/// Serves at `address` until it is stopped, or (`tied`) until standard input ends. Prints its NIDs
/// first.
///
/// # Errors
/// The address cannot be listened at, or the key cannot be used.
pub fn serve(address: SocketAddr, args: &NetArgs, stop: &Stop) -> Result<(), BenchError> {
    let NetArgs { networks, tied, key, local, .. } = args;
    let settings =
        Settings { listen: Listen::At(address), networks: networks.clone(), ..Settings::default() };
    let all = to_listen(&settings).map_err(|error| BenchError::Usage(error.to_string()))?;
    let address = all.first().map_or(address, |(_, first)| *first);
    let listen = |e: std::io::Error| BenchError::Failed(format!("cannot listen at {address}: {e}"));
    let raw = TcpListener::bind((address.ip(), 0)).map_err(listen)?;
    let raw_port = raw.local_addr().map_err(listen)?.port();
    let (env, guard) =
        RealEnv::start(RealConfig::default()).map_err(BenchError::of("start threads"))?;
    let data = Bytes::from(vec![0x5a; BULK_BYTES_MAX]);
    let keys = match key {
        None => None,
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(BenchError::at("read", file))?;
            Some(keys(&Credentials::from_text(&text).map_err(no_key)?, &env)?)
        }
    };
    let lnet = Arc::new(Lnet::new(env, ClusterId(0), true, Arc::new(Responder { raw_port, data })));
    if let Some(keys) = keys {
        lnet.set_seal(keys);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(BenchError::of("start a runtime"))?;
    lnet.set_local(local.clone());
    lnet.set_nets(&networks.names());
    let mut nids = Vec::new();
    for (net, address) in all {
        let bound = runtime.block_on(lnet.listen_on(net, address)).map_err(listen)?;
        nids.push(Nid::new(net, bound).to_string());
    }
    let start = |name: &str, work: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)
            .map_err(BenchError::of("start a thread"))
    };
    start("raw TCP", Box::new(move || raw_tcp::serve(&raw)))?;
    if *tied {
        let ends = stop.clone();
        let watch = move || {
            // Anything but waiting means that the parent is gone.
            let _ = std::io::stdin().read(&mut [0]);
            ends.ask();
        };
        start("parent", Box::new(watch))?;
    }
    print(&format!("{}\n", nids.join(",")))?;
    while !stop.is_asked() {
        std::thread::sleep(LOOK);
    }
    runtime.block_on(lnet.shutdown());
    drop(guard);
    Ok(())
}

/// A responder in a process of its own on this host; it ends when this is dropped.
pub struct Local {
    child: Child,
    lifeline: Option<ChildStdin>,
    nid: Nid,
    /// Has its local socket.
    folder: tempfile::TempDir,
}

impl Local {
    /// Starts it on the loopback address. `key`: it asks for keys, by this one.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(key: Option<&Credentials>) -> Result<Local, BenchError> {
        let mut command = program::own();
        command.args(["net", "--tied", "--serve", "127.0.0.1:0"]).process_group(0);
        let folder = tempfile::tempdir().map_err(BenchError::of("make a folder"))?;
        command.arg("--local").arg(folder.path());
        // Only this user can read it. It is removed when the other end has said that it listens.
        let mut file = tempfile::NamedTempFile::new().map_err(BenchError::of("make a file"))?;
        if let Some(key) = key {
            let written = file.write_all(key.to_text().as_bytes());
            written.map_err(BenchError::at("write", file.path()))?;
            command.arg("--key").arg(file.path());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(BenchError::of("start the other end"))?;
        let lifeline = child.stdin.take();
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout)
                .take(256)
                .read_line(&mut line)
                .map_err(BenchError::of("hear the other end"))?;
        }
        let mut local = Local { child, lifeline, nid: Nid::Loopback, folder };
        local.nid = line
            .trim()
            .parse()
            .map_err(|_| BenchError::Failed("the other end does not start".to_owned()))?;
        Ok(local)
    }

    /// NID of the responder.
    pub fn nid(&self) -> Nid {
        self.nid
    }

    /// Folder of its local socket.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Process id of the responder.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if let Some(mut lifeline) = self.lifeline.take() {
            // Ends at the end of its input, or of itself.
            let _ = lifeline.flush();
        }
        if let Err(error) = self.child.wait() {
            eprintln!("sheen bench: waiting for the other end: {error}");
        }
    }
}
