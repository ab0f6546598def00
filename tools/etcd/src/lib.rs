//! etcd as the keys under a shared log (docs/ownership.md).
//!
//! It speaks etcd's documented JSON interface (`/v3/kv/txn` and so on, version 3.4 and later), with
//! the HTTP and JSON libraries that the rest of the program uses. The gRPC crates would need the
//! protocol compiler at each build, and some fifty more crates.
//!
//! A [`client::Etcd`] has one connection, to one member at a time. A call is one attempt with a
//! deadline; the next one goes to another member. Its callers are threads that may block: the
//! commit thread of a store, the one that renews a lease.
//!
//! Beside it an [`s3::S3`] keeps what is too large for etcd, as blobs.

pub mod bucket;
pub mod client;
mod json;
pub mod s3;
pub mod url;
