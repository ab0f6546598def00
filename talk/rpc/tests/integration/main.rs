//! Tests of sessions, one program so that what they share is compiled once.

mod loopback;
mod network;
mod other_process;
mod owners;
mod roles;
mod support;
