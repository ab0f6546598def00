//! The local transport: connections between processes of one host over Unix sockets
//! (docs/networks.md, "Processes of one host").
//!
//! A NID at which this process accepts connections over TCP has a socket beside it, whose name is
//! made of the NID. A process that connects to that NID tries the socket first. Where there is none
//! that can be believed, TCP is used.

use crate::error::LinkError;
use crate::greet::{self, Greeted};
use crate::seal::{Read, Write};
use crate::shared::Shared;
use env::net::{LocalListener, PeerOwner, Stream};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use types::nid::Nid;
use wire::hello::Welcome;

/// Name of the socket of a NID; `None`: it is no address.
fn name(nid: Nid) -> Option<String> {
    Some(format!("{}@{}", nid.address()?, nid.net()?))
}

/// The NID of a node of this host that connects to `nid`, as over TCP; it has no port.
pub(crate) fn source_at(shared: &Shared, nid: Nid) -> Option<Nid> {
    let (address, net) = (nid.address()?, nid.net()?);
    let ip = shared.env.net.local_source(address.ip())?;
    Some(Nid::new(net, SocketAddr::new(ip, 0)))
}

/// Listens for processes of this host that connect to `nid`, at which this process listens already.
/// `None`: it cannot, and the log says why.
pub(crate) fn listen(shared: &Shared, folder: &Path, nid: Nid) -> Option<Box<dyn LocalListener>> {
    let made = shared.env.net.listen_local(folder, &name(nid)?);
    made.inspect_err(|error| {
        let folder = folder.display();
        tracing::warn!(%nid, %folder, %error, "processes of this host connect over TCP: no local socket");
    })
    .ok()
}

/// A connection to the process of this host that accepts connections at `nid`, and the NID of this
/// end. `None`: there is none that can be believed.
pub(crate) fn connect(shared: &Shared, nid: Nid) -> Option<(Box<dyn Stream>, Nid)> {
    let folder = shared.local.folder()?;
    let stream = shared.env.net.connect_local(&folder, &name(nid)?).ok()?;
    if let Err(error) = believed(nid, stream.peer_owner()) {
        if let Some(others) = shared.local.complaints.pass(shared.env.clock.now()) {
            tracing::warn!(%nid, %error, others, "the local socket is not believed: TCP is used");
        }
        return None;
    }
    // The address may have moved to another host, and the process that listened at it lives on.
    Some((stream, source_at(shared, nid)?))
}

/// The process at the other end is root's, or of the user of this one.
pub(crate) fn believed(nid: Nid, owner: io::Result<PeerOwner>) -> Result<(), LinkError> {
    let reason = match owner {
        Ok(PeerOwner::Trusted) => return Ok(()),
        Ok(PeerOwner::User(uid)) => format!("its process there belongs to user {uid}"),
        Ok(PeerOwner::Elsewhere | PeerOwner::Gone) => "its process there is gone".to_owned(),
        Err(error) => format!("the kernel does not tell whose process is there: {error}"),
    };
    Err(LinkError::Local { nid, reason })
}

/// Tells a process that may not connect so.
pub(crate) async fn refuse(
    shared: &Shared,
    (source, nid): (Nid, Nid),
    error: LinkError,
    (mut read, mut write): (Read, Write),
) -> Result<Greeted, LinkError> {
    greet::send_reply(shared, (source, nid), (0, Welcome::OtherUser), &mut write).await?;
    greet::linger(shared, &mut read).await;
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_named_by_its_nid_with_the_port() {
        let name = |text: &str| name(text.parse().unwrap());
        assert_eq!(name("10.0.0.1@tcp").as_deref(), Some("10.0.0.1:988@tcp"));
        assert_eq!(name("[fd00::1]:7@o2ib1").as_deref(), Some("[fd00::1]:7@o2ib1"));
        assert_eq!(name("0@lo"), None);
    }

    #[test]
    fn only_root_and_the_own_user_are_believed() {
        let nid = "10.0.0.1@tcp".parse().unwrap();
        assert_eq!(believed(nid, Ok(PeerOwner::Trusted)), Ok(()));
        let owners = [PeerOwner::User(4711), PeerOwner::Gone, PeerOwner::Elsewhere];
        assert!(owners.into_iter().all(|owner| believed(nid, Ok(owner)).is_err()));
        assert!(believed(nid, Err(io::ErrorKind::Unsupported.into())).is_err());
    }
}
