//! Control socket of a daemon, the end that asks: one line of JSON, one line back.

use crate::home::Home;
use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Longest answer, bytes.
pub const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Ending of the name of a daemon's public socket, after its process id.
pub const PUBLIC: &str = "public";
/// Time for one request and its answer.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// The node cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// There is no listener.
    #[error("no node runs in {}", .0.display())]
    NotUp(PathBuf),
    /// The socket cannot be used.
    #[error("cannot talk to the node in {}: {source}", .home.display())]
    Socket {
        /// The node's home.
        home: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It runs, and does not answer in time.
    #[error("the node in {} does not answer within {seconds} s", .home.display())]
    Silent {
        /// The node's home.
        home: PathBuf,
        /// The time that it had, seconds.
        seconds: u64,
    },
    /// The answer is not understood by this program.
    #[error("the node in {} answers what this program does not understand ({reason}); is it of another version?", .home.display())]
    Answer {
        /// The node's home.
        home: PathBuf,
        /// What is not understood.
        reason: String,
    },
}

impl ControlError {
    /// The node of this home had so long, and has not answered.
    pub fn silent(home: &Home, within: Duration) -> ControlError {
        ControlError::Silent { home: home.dir().to_owned(), seconds: within.as_secs() }
    }
}

/// Path of the socket that is short however long the home's path is: socket addresses end at 107
/// bytes.
pub fn short_path(dir: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}/{}", dir.as_raw_fd(), Home::CONTROL_NAME).into()
}

/// The folder with the socket.
///
/// # Errors
/// The folder cannot be opened.
pub fn open_run_dir(home: &Home) -> io::Result<rustix::fd::OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(home.run_dir(), flags, Mode::empty())?)
}

/// The public socket of a daemon with this entry in the registry, as a short path that holds as
/// long as the descriptor.
///
/// # Errors
/// There is no registry.
pub fn public_path(entry: &Home) -> io::Result<(rustix::fd::OwnedFd, PathBuf)> {
    let parts = entry.dir().parent().zip(entry.dir().file_name());
    let (registry, pid) = parts.ok_or(io::ErrorKind::InvalidInput)?;
    let dir = rustix::fs::open(
        registry,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let path = format!("/proc/self/fd/{}/{}.{PUBLIC}", dir.as_raw_fd(), pid.display());
    Ok((dir, path.into()))
}

/// Asks a daemon at its public socket.
///
/// # Errors
/// As [`ask`].
pub fn ask_public<Q: Serialize, A: DeserializeOwned>(
    entry: &Home,
    request: &Q,
) -> Result<(A, i32), ControlError> {
    let open = || {
        let (_dir, path) = public_path(entry)?;
        UnixStream::connect(path)
    };
    converse(entry, open().map_err(|source| socket_error(entry, source))?, request, TIMEOUT)
}

fn socket_error(home: &Home, source: io::Error) -> ControlError {
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            ControlError::NotUp(home.dir().to_owned())
        }
        _ => ControlError::Socket { home: home.dir().to_owned(), source },
    }
}

/// Asks the node of a home. Also returns the process id of the answering process, from the kernel.
///
/// # Errors
/// There is no listener; no or a bad answer within ten seconds.
pub fn ask<Q: Serialize, A: DeserializeOwned>(
    home: &Home,
    request: &Q,
) -> Result<(A, i32), ControlError> {
    ask_within(home, request, TIMEOUT)
}

/// As [`ask`], with another time for the answer.
///
/// # Errors
/// There is no listener; no or a bad answer within that time.
pub fn ask_within<Q: Serialize, A: DeserializeOwned>(
    home: &Home,
    request: &Q,
    within: Duration,
) -> Result<(A, i32), ControlError> {
    let socket = |source| socket_error(home, source);
    let dir = open_run_dir(home).map_err(socket)?;
    converse(home, UnixStream::connect(short_path(&dir)).map_err(socket)?, request, within)
}

fn converse<Q: Serialize, A: DeserializeOwned>(
    home: &Home,
    mut stream: UnixStream,
    request: &Q,
    within: Duration,
) -> Result<(A, i32), ControlError> {
    let socket = |source: io::Error| match source.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ControlError::silent(home, within),
        _ => socket_error(home, source),
    };
    let peer = rustix::net::sockopt::socket_peercred(&stream).map_err(|e| socket(e.into()))?;
    stream.set_read_timeout(Some(within)).map_err(socket)?;
    stream.set_write_timeout(Some(within)).map_err(socket)?;
    let mut line = serde_json::to_vec(request).expect("plain values");
    line.push(b'\n');
    stream.write_all(&line).map_err(socket)?;
    let mut answer = Vec::new();
    BufReader::new(stream.take(ANSWER_BYTES_MAX as u64))
        .read_until(b'\n', &mut answer)
        .map_err(socket)?;
    let bad = |reason: String| ControlError::Answer { home: home.dir().to_owned(), reason };
    if answer.is_empty() {
        return Err(bad("it closed the connection".to_owned()));
    }
    let answer = serde_json::from_slice(&answer).map_err(|e| bad(e.to_string()))?;
    Ok((answer, peer.pid.as_raw_nonzero().get()))
}
