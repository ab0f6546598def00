//! What `lnetctl` asks of the network of a process, and is answered.

use serde::{Deserialize, Serialize};

/// Name by which the connections within a host are shown, as if they were a network.
pub const LOCAL: &str = "local";
/// What stands there in place of a NID.
pub const LOCAL_NID: &str = "0@local";

/// What is asked of the network of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "do", deny_unknown_fields)]
pub enum LnetAsked {
    /// Networks, peers, routes.
    Show,
    /// Accept connections on further interfaces.
    AddNet {
        /// Name of the network.
        net: String,
        /// Interfaces, or addresses.
        on: Vec<String>,
    },
    /// Accept connections on these no longer.
    DelNet {
        /// Name of the network.
        net: String,
        /// Interfaces, or addresses; empty: all of the network.
        on: Vec<String>,
    },
    /// Use a router to reach a network.
    AddRoute {
        /// Name of the network.
        net: String,
        /// NID of the router.
        gateway: String,
        /// Routers on the way, if that is said.
        hops: Option<u8>,
        /// The lowest number goes first.
        priority: u32,
    },
    /// Use a router no longer.
    DelRoute {
        /// Name of the network.
        net: String,
        /// NID of the router.
        gateway: String,
    },
    /// Connect to a node.
    AddPeer {
        /// Its NIDs.
        nids: Vec<String>,
    },
    /// Close the connections to a node.
    DelPeer {
        /// Its NIDs.
        nids: Vec<String>,
    },
}

/// The answer to [`LnetAsked::Show`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LnetAnswer {
    /// NIDs of the process, each with its network.
    pub nets: Vec<NetAnswer>,
    /// Nodes that it talks to.
    pub peers: Vec<PeerAnswer>,
    /// Ways to other networks.
    pub routes: Vec<RouteAnswer>,
    /// What it forwards for others; absent: it is no router.
    #[serde(default)]
    pub routing: Option<RoutingAnswer>,
}

/// What a router does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutingAnswer {
    /// Circuits now.
    pub circuits: u64,
    /// Circuits since its start.
    pub made: u64,
    /// Circuits that it refused.
    pub refused: u64,
    /// Bytes forwarded, both ways together.
    pub bytes: u64,
}

/// A NID of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetAnswer {
    /// `lo`, `local`, `tcp`
    pub net: String,
    /// The NID.
    pub nid: String,
    /// The interface that has the address; of [`LOCAL`] the folder of the sockets.
    pub interface: Option<String>,
    /// Connections are accepted there.
    pub accepts: bool,
    /// What went over it.
    #[serde(default)]
    pub traffic: TrafficAnswer,
}

/// Messages and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficAnswer {
    /// Messages sent.
    pub sent: u64,
    /// Bytes of them.
    pub sent_bytes: u64,
    /// Messages received.
    pub received: u64,
    /// Bytes of them.
    pub received_bytes: u64,
}

/// A NID of a node at the other end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerNidAnswer {
    /// The NID.
    pub nid: String,
    /// It takes connections.
    pub up: bool,
    /// Connections to it.
    pub links: u64,
    /// Of them, those within this host.
    #[serde(default)]
    pub local: u64,
    /// What went over them.
    pub traffic: TrafficAnswer,
}

/// A node at the other end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerAnswer {
    /// NID that it was connected at, or the address that it connects from.
    pub nid: String,
    /// It can be asked, or asks.
    pub up: bool,
    /// Connections that this process made.
    pub links: u64,
    /// Connections that it made.
    pub accepted: u64,
    /// Of them, those within this host.
    #[serde(default)]
    pub accepted_local: u64,
    /// Requests that may be on their way to it at once; 0: unknown.
    pub window: u64,
    /// Round trip when it was connected, microseconds; 0: unknown.
    pub round_trip_us: u64,
    /// NIDs at which it is reached, that one first; absent: only there.
    #[serde(default)]
    pub nids: Vec<PeerNidAnswer>,
    /// What went over connections that it made.
    #[serde(default)]
    pub traffic: TrafficAnswer,
}

/// A way to another network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteAnswer {
    /// The network.
    pub net: String,
    /// NID of the router.
    pub gateway: String,
    /// Routers on the way, if that was said.
    pub hops: Option<u8>,
    /// The lowest number goes first.
    pub priority: u32,
    /// The router answered when it was last used.
    pub up: bool,
}
