//! Typed calls to MGS, MDT and OST, nothing more.

pub mod mdc;
pub mod mgc;
mod misfit;
pub mod osc;
