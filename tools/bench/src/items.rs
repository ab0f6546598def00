//! The items that can be measured.

pub mod backend;
pub mod build;
pub mod find;
pub mod io;
pub mod ls;
pub mod mdtest;
pub mod mdts;
pub mod net;
pub mod rtt;
pub mod wan;
pub mod warm;
pub mod watched;
