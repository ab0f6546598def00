//! What a running node answers on its control socket, and what `lctl` asks and changes.

pub mod admin;
pub mod alive;
pub mod control;
pub mod devices;
mod enrolment;
pub mod faults;
pub mod flavor;
pub mod kept;
pub mod known;
pub mod lnet;
mod network;
pub mod params;
pub mod persistent;
mod renewal;
pub mod scrubs;
pub mod security;
mod tickets;
