//! Whose process has the other end of a TCP connection: a question to the kernel (sock_diag(7)) for
//! the socket with both addresses exchanged, which it finds without a search.

use crate::net::PeerOwner;
use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr as NetlinkAddr};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// The kernel's answer about one socket is shorter, bytes.
const ANSWER_BYTES: usize = 4096;

/// The owner of the socket that is connected from `theirs` to `ours`. It does not wait.
///
/// # Errors
/// Those of the netlink socket: the kernel has no sock_diag, or the process may not ask it.
pub fn owner_of(theirs: SocketAddr, ours: SocketAddr) -> io::Result<PeerOwner> {
    let bytes = question(theirs, ours);
    let socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.send_to(&bytes, &NetlinkAddr::new(0, 0), 0)?;
    let mut answer = Vec::with_capacity(ANSWER_BYTES);
    socket.recv(&mut answer, 0)?;
    let answer =
        NetlinkMessage::<SockDiagMessage>::deserialize(&answer).map_err(io::Error::other)?;
    match answer.payload {
        // A socket that no process has any more shows no inode, and root as its owner.
        NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(found)) => {
            Ok(match found.header.uid {
                _ if found.header.inode == 0 => PeerOwner::Gone,
                uid => trusted_or(uid),
            })
        }
        NetlinkPayload::Error(error) => match error.to_io() {
            error if error.kind() == io::ErrorKind::NotFound => Ok(PeerOwner::Elsewhere),
            error => Err(error),
        },
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// What a process of this user counts as.
pub(super) fn trusted_or(uid: u32) -> PeerOwner {
    match uid {
        uid if uid == 0 || uid == rustix::process::geteuid().as_raw() => PeerOwner::Trusted,
        uid => PeerOwner::User(uid),
    }
}

fn question(theirs: SocketAddr, ours: SocketAddr) -> Vec<u8> {
    // A listener for IPv6 also takes IPv4, whose sockets have their own family at the other end.
    let (family, socket_id) = match theirs.ip().to_canonical() {
        IpAddr::V4(_) => (AF_INET, SocketId::new_v4()),
        IpAddr::V6(_) => (AF_INET6, SocketId::new_v6()),
    };
    let socket_id = SocketId {
        source_address: theirs.ip().to_canonical(),
        source_port: theirs.port(),
        destination_address: ours.ip().to_canonical(),
        destination_port: ours.port(),
        // Any.
        cookie: [0xff; 8],
        ..socket_id
    };
    let (extensions, states) = (ExtensionFlags::empty(), StateFlags::all());
    let request = InetRequest { family, protocol: IPPROTO_TCP, extensions, states, socket_id };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_kernel_names_the_owner_of_a_connection_from_this_host() {
        for addr in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let listener = TcpListener::bind(addr).expect("listen");
            let port = listener.local_addr().expect("an address").port();
            let ip: IpAddr =
                if addr.contains("::1") { "::1" } else { "127.0.0.1" }.parse().expect("an address");
            let caller = TcpStream::connect((ip, port)).expect("connect");
            let (socket, theirs) = listener.accept().expect("accept");
            let ours = socket.local_addr().expect("an address");
            assert_eq!(owner_of(theirs, ours).expect("an answer"), PeerOwner::Trusted, "{addr}");
            drop(caller);
            assert_eq!(owner_of(theirs, ours).expect("an answer"), PeerOwner::Gone, "{addr}");
        }
        let nowhere = |port| SocketAddr::from(([192, 0, 2, 1], port));
        assert_eq!(owner_of(nowhere(1), nowhere(2)).expect("an answer"), PeerOwner::Elsewhere);
    }
}
