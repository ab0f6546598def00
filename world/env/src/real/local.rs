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
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrUnix, SocketFlags,
    SocketType, bind, connect, listen, sendmsg, socket_with, sockopt,
};
use std::fs::DirBuilder;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixListener;

/// Connections that wait to be accepted; the kernel's own bound is lower by default.
const QUEUE: i32 = 4096;
/// Bytes of one direction on their way, at most, as the system counts them (it takes twice this
/// number). With its default of 208 KiB messages of 1 MiB take turns for each piece of that size.
const SEND_BUFFER: usize = 512 << 10;
/// Slices that the kernel takes in one call (UIO_MAXIOV).
const SLICES_MAX: usize = 1024;
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
        Err(Errno::NOENT) | Ok(()) => {}
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
    Ok(Box::new(LocalStream::new(socket, reactors.clone())))
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
            let stream = LocalStream::new(socket.into_std()?.into(), self.reactors.clone());
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

/// Waits on the reactor that this thread has entered.
fn waits<T: AsFd + AsRawFd>(socket: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: it owns a descriptor, or shares one that others own, too; it does not close it or
    // take another one before it is dropped, which is after it was taken from the reactor.
    Ok(unsafe { AsyncFd::register_with_interest(socket, interest) }?)
}

/// A connection, or a half of one. It is tied to a reactor when it is first waited for.
///
/// The kernel tells a socket of a host each time that the other end has read something that there
/// is room to write, whether that was awaited or not: waiting for both at once would wake the
/// sender once more for each message. So the end waits for room only while there is none.
struct LocalStream {
    socket: Arc<OwnedFd>,
    reactors: Arc<Reactors>,
    /// Waits for something to read.
    reading: Option<AsyncFd<Arc<OwnedFd>>>,
    /// Waits for room to write: a copy of the descriptor, because a reactor has one entry for each.
    writing: Option<AsyncFd<OwnedFd>>,
}

impl LocalStream {
    /// A whole one.
    fn new(socket: OwnedFd, reactors: Arc<Reactors>) -> LocalStream {
        let larger = sockopt::set_socket_send_buffer_size_force(&socket, SEND_BUFFER)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER));
        if let Err(errno) = larger {
            tracing::debug!(%errno, "the system's bound on bytes on their way stays");
        }
        LocalStream::of(Arc::new(socket), reactors)
    }

    fn of(socket: Arc<OwnedFd>, reactors: Arc<Reactors>) -> LocalStream {
        LocalStream { socket, reactors, reading: None, writing: None }
    }

    fn poll_slices(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut nothing = SendAncillaryBuffer::default();
            let bufs = &bufs[..bufs.len().min(SLICES_MAX)];
            match sendmsg(&self.socket, bufs, &mut nothing, SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    self.writing = None;
                    return Poll::Ready(Ok(sent));
                }
                Err(Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
            if let Some(writing) = &self.writing {
                ready!(writing.poll_write_ready(cx))?.clear_ready();
            } else {
                let _inside = self.reactors.enter();
                let copy = rustix::io::fcntl_dupfd_cloexec(&self.socket, 0)?;
                self.writing = Some(waits(copy, Interest::WRITABLE)?);
            }
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
        Ok(trusted_or(sockopt::socket_peercred(&self.socket)?.uid.as_raw()))
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
        self: Box<Self>,
    ) -> (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>) {
        let write = WriteHalf(LocalStream::of(self.socket.clone(), self.reactors.clone()));
        (self, Box::new(write))
    }
}

impl AsyncRead for LocalStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let reading = match &mut this.reading {
            Some(reading) => reading,
            none => {
                let _inside = this.reactors.enter();
                none.insert(waits(this.socket.clone(), Interest::READABLE)?)
            }
        };
        loop {
            let mut guard = ready!(reading.poll_read_ready(cx))?;
            // SAFETY: what is read there is said to be initialized, and nothing is taken out.
            let room = unsafe { buf.unfilled_mut() };
            let wanted = room.len();
            match rustix::io::read(&this.socket, room) {
                Ok((read, _)) => {
                    let read = read.len();
                    // SAFETY: the kernel has written so many bytes at the start of the room.
                    unsafe { buf.assume_init(read) };
                    buf.advance(read);
                    if 0 < read && read < wanted {
                        // There was no more. What comes after that wakes it again.
                        guard.clear_ready();
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => guard.clear_ready(),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

impl AsyncWrite for LocalStream {
    crate::writes_slices!(poll_slices);

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(rustix::net::shutdown(&self.socket, Shutdown::Write)?))
    }
}

/// The half that writes: no more comes after it is dropped.
struct WriteHalf(LocalStream);

impl WriteHalf {
    fn poll_slices(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_slices(cx, bufs)
    }
}

impl AsyncWrite for WriteHalf {
    crate::writes_slices!(poll_slices);

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        if let Err(error) = rustix::net::shutdown(&self.0.socket, Shutdown::Write) {
            // The other end is gone already.
            tracing::trace!(%error, "the end of what is sent is not told");
        }
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
