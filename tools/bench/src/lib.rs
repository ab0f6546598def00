//! `sheen bench`: figures that stand beside a reference of the same run.
//!
//! An *item* (`mdtest`, `io`, ...) is a list of *steps*. Each step runs on every *place*: the mounts to be measured, and the
//! references named with `--reference`. They take turns step by step and round by round, so that what else the machine
//! does meets all alike; a figure is the median over the rounds, with its spread, the CPU of the program and of every
//! daemon behind the place, and what limited it. Everything made on the way is removed, also after Ctrl-C.

mod caches;
pub mod cli;
mod counts;
mod daemons;
mod engine;
pub mod failure;
pub mod figure;
mod item;
mod items;
mod limited;
mod machine;
mod measure;
mod memory;
mod null;
mod page;
mod place;
mod progress;
mod ranks;
mod raw_tcp;
mod run;
mod scrape;
mod statistics;
mod stop;
mod table;

pub use run::{About, run};
