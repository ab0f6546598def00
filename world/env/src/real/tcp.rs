//! What TCP knows of a line, and how a connection over a long one is set up.
//!
//! The kernel bounds what one connection has on its way: `tcp_wmem` lets it send some 2 MiB per
//! round trip. A daemon with CAP_NET_ADMIN lifts that bound for its own sockets, so no sysctl need
//! be set; the daemon itself queues no more than [`UNSENT_MAX`] in the kernel, so a high bound
//! costs memory only for bytes that are on their way. The receiving side is left to the kernel,
//! whose window follows the line by itself.

use crate::net::SILENCE;
use rustix::net::sockopt;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Bytes of one connection on their way over a long line, at most.
const SEND_BUFFER: usize = 32 << 20;
/// Bytes that wait in the kernel of a long line and are not on their way yet (TCP_NOTSENT_LOWAT).
/// What waits longer is still the daemon's to order.
const UNSENT_MAX: u32 = 256 << 10;
/// Congestion control for a long line, where the kernel has it: it takes a lost packet for no sign
/// of a full line, and does not begin anew after a pause.
const LONG_LINE_CONTROL: &str = "bbr";

/// Longest time between two attempts of the kernel to send the same bytes, milliseconds. The kernel
/// doubles it to 120 s: a network that was gone for 10 s would count as gone for up to 10 s more.
const RESEND_MS_MAX: libc::c_int = 1500;
/// TCP_RTO_MAX_MS, which Linux has since 6.15.
const TCP_RTO_MAX_MS: libc::c_int = 44;

/// Times that the kernel has asked an end that counts as silent.
const UNANSWERED: u8 = 2;

/// Smoothed round trip; `None`: the kernel has not measured it, or does not tell.
pub(super) fn round_trip(socket: BorrowedFd<'_>) -> Option<Duration> {
    let rtt = info(socket)?.tcpi_rtt;
    (rtt > 0).then(|| Duration::from_micros(u64::from(rtt)))
}

/// True if the other end has acknowledged nothing for [`SILENCE`], though the kernel has sent data
/// or a probe at least [`UNANSWERED`] times. An end that takes no data but lives acknowledges
/// probes.
pub(super) fn is_silent(socket: BorrowedFd<'_>) -> bool {
    info(socket).is_some_and(|info| {
        Duration::from_millis(u64::from(info.tcpi_last_ack_recv)) >= SILENCE
            && info.tcpi_retransmits.max(info.tcpi_probes) >= UNANSWERED
    })
}

fn info(socket: BorrowedFd<'_>) -> Option<libc::tcp_info> {
    // SAFETY: the structure has integers only, for which zero is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let to = (&raw mut info).cast();
    // SAFETY: the kernel writes at most `len` bytes there, and the descriptor is borrowed.
    let failed = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut len)
    };
    (failed == 0).then_some(info)
}

/// Bytes that were lost with the network are sent again soon after it is back. A kernel that cannot
/// do that sends them again later.
pub(super) fn resend_soon(socket: BorrowedFd<'_>) {
    let (most, len) = (RESEND_MS_MAX, size_of::<libc::c_int>() as libc::socklen_t);
    let from = (&raw const most).cast();
    // SAFETY: the kernel reads `len` bytes from there, and the descriptor is borrowed.
    let failed = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, TCP_RTO_MAX_MS, from, len)
    };
    if failed != 0 {
        let error = std::io::Error::last_os_error();
        tracing::debug!(%error, "the system's times of sending again stay");
    }
}

/// What the kernel refuses stays as the system has it: the connection works all the same.
pub(super) fn tune_long_line(socket: BorrowedFd<'_>) {
    if let Err(errno) = sockopt::set_tcp_congestion(socket, LONG_LINE_CONTROL) {
        tracing::debug!(%errno, "the system's congestion control stays");
    }
    if let Err(errno) = sockopt::set_socket_send_buffer_size_force(socket, SEND_BUFFER) {
        tracing::debug!(%errno, "the system's bound on bytes on their way stays");
    }
    let (unsent, len) = (UNSENT_MAX, size_of::<u32>() as libc::socklen_t);
    let from = (&raw const unsent).cast();
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
    // SAFETY: the kernel reads `len` bytes from there, and the descriptor is borrowed.
    if unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, from, len) } != 0 {
        tracing::debug!(error = %std::io::Error::last_os_error(), "unsent bytes wait in the kernel");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn a_kernel_that_can_sends_again_soon() {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let now = || {
            let (mut value, mut len): (libc::c_int, _) = (0, size_of::<libc::c_int>() as u32);
            let (fd, to) = (socket.as_fd().as_raw_fd(), (&raw mut value).cast());
            // SAFETY: the kernel writes at most `len` bytes there.
            let failed = unsafe {
                libc::getsockopt(fd, libc::IPPROTO_TCP, TCP_RTO_MAX_MS, to, &raw mut len)
            };
            (failed == 0).then_some(value)
        };
        let could = now().is_some();
        resend_soon(socket.as_fd());
        assert_eq!(now(), could.then_some(RESEND_MS_MAX));
    }

    #[test]
    fn a_connection_tells_its_round_trip_and_can_be_set_up_for_a_long_line() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert_eq!(round_trip(listener.as_fd()), None, "nobody is connected");
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        assert!(round_trip(near.as_fd()).is_some_and(|time| time < Duration::from_secs(1)));
        assert!(round_trip(far.as_fd()).is_some());
        let before = sockopt::socket_send_buffer_size(&near).unwrap();
        tune_long_line(near.as_fd());
        let after = sockopt::socket_send_buffer_size(&near).unwrap();
        assert!(after >= before, "with the privilege 2 x {SEND_BUFFER}, else as before: {after}");
    }
}
