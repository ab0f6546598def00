//! Typed calls to MGS, MDT and OST, nothing more.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod mdc;
pub mod mgc;
mod misfit;
pub mod osc;
pub mod tickets;
