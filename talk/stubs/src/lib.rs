//! Typed calls to MGS, MDT and OST, nothing more.

pub mod mdc;
pub mod mgc;
pub mod osc;
