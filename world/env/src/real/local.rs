//! Unix sockets between the processes of one host.
//!
//! The file of a socket is `NAME.NAMESPACE-BOOT`: the inode number of the network namespace, and
//! the first digits of the kernel's boot id. It is made under another name and renamed once it
//! takes connections, so a file of that name refuses only if its process is dead.

use super::disk::boot;
use super::peer_owner::trusted_or;
use super::reactors::Reactors;
use crate::BoxFuture;
use crate::net::{LocalListener, PeerOwner, Stream, Watcher};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
    sockopt,
};
use std::fs::DirBuilder;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};

/// Connections that wait to be accepted; the kernel's own bound is lower by default.
const QUEUE: i32 = 4096;
/// Mode of the folder: its owner's.
const FOLDER_MODE: u32 = 0o700;
/// Mode of a socket.
const SOCKET_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// What others may not do to the folder.
const OTHERS_WRITE: u32 = 0o022;

/// The address under which this host is seen at one of its own; `None`: it is none of them.
pub(super) fn source_at(ip: IpAddr) -> Option<IpAddr> {
    let ip = ip.to_canonical();
    let own = |all: Vec<if_addrs::Interface>| all.iter().any(|interface| interface.ip() == ip);
    if !ip.is_loopback() && !if_addrs::get_if_addrs().is_ok_and(own) {
        return None;
    }
    // Nothing is sent: the kernel chooses the address.
    let any: IpAddr = match ip {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let asked = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((ip, 1))?;
        socket.local_addr()
    });
    asked.ok().map(|address| address.ip())
}

/// Name of the socket's file.
fn file_name(name: &str) -> io::Result<String> {
    let namespace = std::fs::metadata("/proc/self/ns/net")?.ino();
    let boot = boot()?;
    Ok(format!("{name}.{namespace}-{:08x}", boot >> 96))
}

fn open(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?)
}

/// Addresses of sockets end at 107 bytes, however long the path of the folder is.
fn address(folder: &OwnedFd, file: &str) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new(format!("/proc/self/fd/{}/{file}", folder.as_raw_fd()))?)
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// The folder, in which only its owner may make files.
fn make(folder: &Path) -> io::Result<OwnedFd> {
    match DirBuilder::new().mode(FOLDER_MODE).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let opened = open(folder)?;
    let stat = rustix::fs::fstat(&opened)?;
    let owned = stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw();
    match owned && stat.st_mode & OTHERS_WRITE == 0 {
        true => Ok(opened),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("other users may write to {}; remove it", folder.display()),
        )),
    }
}

pub(super) fn listen_at(
    reactors: &Arc<Reactors>,
    folder: &Path,
    name: &str,
) -> io::Result<Box<dyn LocalListener>> {
    let file = file_name(name)?;
    let folder = make(folder)?;
    let fresh = format!("{file}.new");
    match rustix::fs::unlinkat(&folder, &*fresh, AtFlags::empty()) {
        Err(rustix::io::Errno::NOENT) | Ok(()) => {}
        Err(error) => return Err(error.into()),
    }
    let socket = socket()?;
    bind(&socket, &address(&folder, &fresh)?)?;
    rustix::fs::chmodat(&folder, &*fresh, SOCKET_MODE, AtFlags::empty())?;
    listen(&socket, QUEUE)?;
    rustix::fs::renameat(&folder, &*fresh, &folder, &*file)?;
    let _inside = reactors.enter();
    let socket = UnixListener::from_std(socket.into())?;
    Ok(Box::new(Listener { socket, folder, file, reactors: reactors.clone() }))
}

pub(super) fn connect_to(
    reactors: &Arc<Reactors>,
    folder: &Path,
    name: &str,
) -> io::Result<Box<dyn Stream>> {
    let file = file_name(name)?;
    let folder = open(folder)?;
    let socket = socket()?;
    connect(&socket, &address(&folder, &file)?)?;
    let socket = Socket::Loose(Some(socket.into()));
    Ok(Box::new(LocalStream { socket, reactors: reactors.clone() }))
}

struct Listener {
    socket: UnixListener,
    folder: OwnedFd,
    file: String,
    reactors: Arc<Reactors>,
}

impl LocalListener for Listener {
    fn accept(&self) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let (socket, _) = std::future::poll_fn(|cx| {
                let _inside = self.reactors.enter();
                self.socket.poll_accept(cx)
            })
            .await?;
            let socket = Socket::Loose(Some(socket.into_std()?));
            let stream = LocalStream { socket, reactors: self.reactors.clone() };
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Err(error) = rustix::fs::unlinkat(&self.folder, &*self.file, AtFlags::empty()) {
            tracing::debug!(%error, file = self.file, "the socket's file stays");
        }
    }
}

enum Socket {
    /// Not tied to a reactor yet; `None` only while it is being tied, or after that failed.
    Loose(Option<std::os::unix::net::UnixStream>),
    Ready(UnixStream),
}

struct LocalStream {
    socket: Socket,
    reactors: Arc<Reactors>,
}

impl LocalStream {
    fn ready(&mut self) -> io::Result<&mut UnixStream> {
        if let Socket::Loose(loose) = &mut self.socket {
            let socket = loose.take().ok_or(io::ErrorKind::NotConnected)?;
            let _inside = self.reactors.enter();
            self.socket = Socket::Ready(UnixStream::from_std(socket)?);
        }
        match &mut self.socket {
            Socket::Ready(socket) => Ok(socket),
            Socket::Loose(_) => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        match &self.socket {
            Socket::Ready(socket) => Ok(socket.as_fd()),
            Socket::Loose(Some(socket)) => Ok(socket.as_fd()),
            Socket::Loose(None) => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Stream for LocalStream {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn peer_owner(&self) -> io::Result<PeerOwner> {
        // Of the process that connected, or listened: the kernel has noted it then.
        Ok(trusted_or(sockopt::socket_peercred(self.fd()?)?.uid.as_raw()))
    }

    fn watcher(&mut self) -> Watcher {
        Box::new(|| {})
    }

    fn round_trip(&self) -> Option<Duration> {
        None
    }

    /// The kernel tells the end of the other process at once: there is no silence.
    fn watch(&mut self) {}

    fn split(
        mut self: Box<Self>,
    ) -> (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>) {
        if let Err(error) = self.ready() {
            // Both halves will say so at their first use.
            tracing::debug!(%error, "socket cannot join a reactor");
        }
        match self.socket {
            Socket::Ready(socket) => {
                let (read, write) = socket.into_split();
                (Box::new(read), Box::new(write))
            }
            Socket::Loose(_) => (Box::new(super::net::Dead), Box::new(super::net::Dead)),
        }
    }
}

impl AsyncRead for LocalStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().ready()?).poll_read(cx, buf)
    }
}

impl LocalStream {
    fn poll_slices(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.ready()?).poll_write_vectored(cx, bufs)
    }
}

impl AsyncWrite for LocalStream {
    crate::writes_slices!(poll_slices);

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().ready()?).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().ready()?).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener as StdListener;

    fn reactors() -> Arc<Reactors> {
        Reactors::start(1, 1).unwrap()
    }

    #[test]
    fn only_addresses_of_this_host_have_a_source() {
        let source = |ip: &str| source_at(ip.parse().unwrap());
        assert_eq!(source("127.0.0.1"), Some("127.0.0.1".parse().unwrap()));
        assert_eq!(source("192.0.2.1"), None);
        assert_eq!(source("2001:db8::1"), None);
    }

    #[test]
    fn a_listener_has_its_name_until_it_is_dropped_and_replaces_a_dead_one() {
        let (dir, reactors) = (tempfile::tempdir().unwrap(), reactors());
        let folder = dir.path().join("x".repeat(200));
        let file = folder.join(file_name("a").unwrap());
        let connects = |name: &str| connect_to(&reactors, &folder, name).is_ok();
        assert!(!connects("a"), "there is no folder");
        let listener = listen_at(&reactors, &folder, "a").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
        assert!(connects("a") && !connects("b"));
        drop(listener);
        assert!(!connects("a") && !file.exists());
        // As a process leaves it that was killed, also in the middle of its start.
        std::fs::write(&file, "").unwrap();
        assert!(!connects("a"));
        std::fs::write(file.with_extension(format!("{}.new", extension(&file))), "").unwrap();
        let _listener = listen_at(&reactors, &folder, "a").unwrap();
        assert!(connects("a"));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        reactors.stop(Duration::from_secs(1));
    }

    fn extension(file: &Path) -> String {
        file.extension().unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn a_folder_to_which_others_may_write_is_not_used() {
        let (dir, reactors) = (tempfile::tempdir().unwrap(), reactors());
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = listen_at(&reactors, dir.path(), "a").err().expect("refused");
        assert!(error.to_string().contains("other users"), "{error}");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/tmp", &link).unwrap();
        assert!(listen_at(&reactors, &link, "a").is_err());
        reactors.stop(Duration::from_secs(1));
    }

    #[test]
    fn a_full_queue_is_no_connection() {
        let (dir, reactors) = (tempfile::tempdir().unwrap(), reactors());
        let _listener = StdListener::bind(dir.path().join(file_name("a").unwrap())).unwrap();
        let connect = || connect_to(&reactors, dir.path(), "a");
        let all: Vec<_> = (0..=2 * QUEUE).map_while(|_| connect().ok()).collect();
        assert_eq!(connect().err().map(|e| e.kind()), Some(io::ErrorKind::WouldBlock));
        assert!(all.iter().all(|stream| matches!(stream.peer_owner(), Ok(PeerOwner::Trusted))));
        reactors.stop(Duration::from_secs(1));
    }
}
