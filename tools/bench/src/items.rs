//! What can be measured.

pub mod build;
pub mod io;
pub mod ls;
pub mod mdtest;
pub mod rtt;
pub mod warm;
