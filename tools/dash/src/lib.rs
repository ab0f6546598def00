//! Seeing inside a running cluster.
//!
//! [`http`] answers GET requests of one process: who may ask is decided in [`access`], what is answered by a function of
//! the caller. [`accept`] is the bounded loop below it and below other sockets. Nothing here changes anything, and nothing here knows servers or mounts.

pub mod accept;
pub mod access;
pub mod http;
