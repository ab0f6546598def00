//! Keys, certificates and TLS 1.3 of connections.
//!
//! A cluster has an [`authority`], which signs a certificate for each key of the cluster
//! ([`credentials`]). The handshake is that of rustls; then each direction of a connection is
//! sealed or opened on its own, so that a link writes from any thread while its driver reads.
//! [`keys`] puts this in the way of the connections of a process. Within a host both ends prove
//! their keys, and nothing is sealed (`within`).
//!
//! What others keep for a target is sealed too, with a key of the target ([`kept`]).
//!
//! It knows no messages, and no file system.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod authority;
mod certificate;
pub mod credentials;
pub mod enrol;
pub mod error;
pub mod fingerprint;
mod handshake;
pub mod https;
pub mod kept;
pub mod keys;
mod made;
mod pem;
mod provider;
mod records;
pub mod renew;
mod resume;
#[cfg(test)]
mod resumed;
pub mod sites;
#[cfg(test)]
mod sites_meet;
#[cfg(test)]
mod tests;
pub mod tickets;
pub mod tls_client;
pub mod token;
mod trust;
mod within;
