//! Ranks: the workers of `mdtest`, as threads or as processes, each at one mount (or at the native
//! client).

mod door;
mod mount;
pub mod native;
pub mod order;
pub mod process;
pub mod team;
