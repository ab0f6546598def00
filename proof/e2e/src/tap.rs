//! A tap on a network interface: every byte that passes, as the kernel sees it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Bytes that are kept, at most.
const KEPT_MAX: usize = 512 << 20;
/// Longest packet, with what the network card joins.
const PACKET_MAX: usize = 1 << 17;

/// Listens until it is asked for what it heard.
pub struct Tap {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Vec<u8>, Vec<usize>)>,
}

impl Tap {
    /// On the interface of this name in the network namespace of the test.
    pub fn on(interface: &str) -> io::Result<Tap> {
        let name = std::ffi::CString::new(interface)?;
        // SAFETY: the name is a C string that lives until the call returns.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let every = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: no memory is passed.
        let raw = unsafe {
            libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, i32::from(every))
        };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just opened and has no other owner.
        let socket = unsafe { OwnedFd::from_raw_fd(raw) };
        // SAFETY: all zeros are a valid address of no interface.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = every;
        address.sll_ifindex = index as i32;
        let bytes = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address lives, and is as long as is said.
        if unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes) } < 0 {
            return Err(io::Error::last_os_error());
        }
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20)?;
        rustix::net::sockopt::set_socket_timeout(
            &socket,
            rustix::net::sockopt::Timeout::Recv,
            Some(std::time::Duration::from_millis(50)),
        )?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || hear(&socket, &stopped));
        Ok(Tap { stop, thread })
    }

    /// Everything that passed so far, packet after packet.
    pub fn heard(self) -> Vec<u8> {
        self.end().0
    }

    /// The packets that passed so far.
    pub fn packets(self) -> Vec<Vec<u8>> {
        let (all, ends) = self.end();
        let starts = [0].into_iter().chain(ends.iter().copied());
        starts.zip(&ends).map(|(start, end)| all[start..*end].to_vec()).collect()
    }

    fn end(self) -> (Vec<u8>, Vec<usize>) {
        self.stop.store(true, Ordering::Release);
        self.thread.join().expect("the tap lives")
    }
}

/// All packets, and where each ends.
fn hear(socket: &OwnedFd, stopped: &AtomicBool) -> (Vec<u8>, Vec<usize>) {
    let (mut all, mut ends, mut packet) = (Vec::new(), Vec::new(), vec![0; PACKET_MAX]);
    // What came before the end is taken first.
    loop {
        match rustix::io::read(socket, &mut packet) {
            Ok(bytes) if all.len() + bytes <= KEPT_MAX => {
                all.extend_from_slice(&packet[..bytes]);
                ends.push(all.len());
            }
            Ok(_) => {}
            Err(_) if stopped.load(Ordering::Acquire) => return (all, ends),
            Err(_) => {}
        }
    }
}
