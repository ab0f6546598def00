//! How often a host waits for others, seen at its network card: an observer that knows nothing of
//! the program that waits.
//!
//! Over a line with a delay, what a host sends within one round trip cannot depend on answers to
//! anything that it sent in that round trip. So packets with content that leave within a round trip
//! of the first of them are one *round*, and a program that waits a hundred times, once after the
//! other, makes a hundred rounds. What is sent in the background counts, too: the number is never
//! too small.

use crate::hosts::enter;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of a packet that are looked at: the headers of IP and TCP.
const HEADERS: usize = 128;
/// `SIOCGSTAMPNS`: when the packet that was read last passed.
const STAMP: libc::Ioctl = 0x8907;
/// IPPROTO_TCP, as a byte of the header.
const TCP: u8 = 6;

/// Listens on a host until it is asked for what left it.
pub struct Waits {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Duration>>,
}

impl Waits {
    /// On all interfaces of a network namespace, by its name. What goes to the address `ignored` is
    /// not counted.
    pub fn at(namespace: &str, ignored: Ipv4Addr) -> Waits {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, namespace) = (stop.clone(), namespace.to_owned());
        let (ready, listens) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let socket = listen(&namespace).expect("root listens");
            ready.send(()).expect("the test waits");
            hear(&socket, ignored, &stopped)
        });
        listens.recv().expect("the observer listens");
        Waits { stop, thread }
    }

    /// Rounds so far, over a line with this delay there and back.
    pub fn rounds(self, delay: Duration) -> usize {
        self.stop.store(true, Ordering::Release);
        rounds(&self.thread.join().expect("the observer lives"), delay)
    }
}

fn rounds(sent: &[Duration], delay: Duration) -> usize {
    let (mut rounds, mut until) = (0, Duration::ZERO);
    for at in sent {
        if *at >= until {
            rounds += 1;
            until = *at + delay;
        }
    }
    rounds
}

fn listen(namespace: &str) -> io::Result<OwnedFd> {
    enter(namespace)?;
    let every = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: no memory is passed.
    let raw = unsafe {
        libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, i32::from(every))
    };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was just opened and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20)?;
    let pause = Some(Duration::from_millis(20));
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, pause)?;
    // From the first question on the kernel notes times.
    passed(&socket);
    Ok(socket)
}

/// When the packet that was read last passed.
fn passed(socket: &OwnedFd) -> Option<Duration> {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes a timespec, which lives.
    let failed = unsafe { libc::ioctl(socket.as_raw_fd(), STAMP, &raw mut at) } != 0;
    (!failed && at.tv_sec > 0).then(|| Duration::new(at.tv_sec as u64, at.tv_nsec as u32))
}

fn hear(socket: &OwnedFd, ignored: Ipv4Addr, stopped: &AtomicBool) -> Vec<Duration> {
    let (mut sent, mut packet) = (Vec::new(), [0; HEADERS]);
    // What passed before the end is taken first.
    loop {
        // SAFETY: all zeros are a valid address.
        let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut from_bytes = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: packet and address live, and are as long as is said.
        let bytes = unsafe {
            libc::recvfrom(
                socket.as_raw_fd(),
                packet.as_mut_ptr().cast(),
                packet.len(),
                libc::MSG_TRUNC,
                (&raw mut from).cast(),
                &raw mut from_bytes,
            )
        };
        if bytes < 0 {
            if stopped.load(Ordering::Acquire) {
                return sent;
            }
            continue;
        }
        let counts = has_content(&packet, bytes as usize) && packet[16..20] != ignored.octets();
        if from.sll_pkttype == libc::PACKET_OUTGOING && counts {
            sent.extend(passed(socket));
        }
    }
}

/// True if a packet of so many bytes, of which these are the first, is of TCP over IPv4 and carries
/// more than an acknowledgement.
fn has_content(packet: &[u8; HEADERS], bytes: usize) -> bool {
    let ip = usize::from(packet[0] & 15) * 4;
    let Some(offset) = packet.get(ip + 12) else { return false };
    packet[0] >> 4 == 4 && packet[9] == TCP && bytes > ip + usize::from(offset >> 4) * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(times: &[u64]) -> Vec<Duration> {
        times.iter().copied().map(Duration::from_millis).collect()
    }

    #[test]
    fn what_leaves_within_a_delay_is_one_round() {
        let delay = Duration::from_millis(60);
        assert_eq!(rounds(&[], delay), 0);
        assert_eq!(rounds(&ms(&[5, 6, 7, 64]), delay), 1);
        assert_eq!(rounds(&ms(&[5, 6, 65, 66, 124, 125]), delay), 3);
    }

    #[test]
    fn acknowledgements_have_no_content() {
        let mut packet = [0; HEADERS];
        (packet[0], packet[9], packet[20 + 12]) = (0x45, TCP, 8 << 4);
        assert!(!has_content(&packet, 20 + 32));
        assert!(has_content(&packet, 20 + 32 + 1));
        packet[9] = 17;
        assert!(!has_content(&packet, 1000), "no TCP");
    }
}
