//! Messages between NIDs: TCP links, several per peer, with requests and replies in both
//! directions.
//!
//! A *link* is one connection, driven by one task on one reactor: everything that one read brings
//! is handled in place, and the replies leave in one write. A *peer* is the client's side of a
//! node: a control link, bulk links beside it over one or several paths (`rails`, `bulk`), and the
//! window of requests in flight. `node::Lnet`
//! owns both, accepts connections and ends everything.
//!
//! A process may be on several networks (`nets`), reach others through routers (`road`), and be a
//! router itself (`relay`). Processes of its own host it reaches over Unix sockets (`local`).
//!
//! It knows no file system: bodies are bytes, and requests go to the [`link::Handler`] of the layer
//! above.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod accepted;
mod arrivals;
mod budget;
mod bulk;
mod circuit;
mod driver;
pub mod error;
pub mod fault;
mod gate;
mod greet;
mod inbox;
mod lanes;
pub mod link;
mod links;
mod local;
mod local_state;
pub mod nets;
pub mod node;
mod outbox;
pub mod payload;
pub mod peer;
pub mod rails;
pub mod relay;
mod road;
pub mod seal;
mod shared;
pub mod traffic;
mod window;
