//! How the rates of metadata operations grow with the number of MDTs.
//!
//! The real servers and clients run in one thread on simulated machines, as in `proof/sim`. Each
//! MDT's machine has one CPU. The harness charges it for every frame that the machine sends or
//! receives, every byte and every record that it commits ([`costs`]): pings, callbacks, and what
//! MDTs say to each other cost as much as requests of programs. Clients, the MGS and OSTs cost
//! nothing. Time is virtual, so the figures depend on the seed and the costs, and not on the
//! machine (docs/dne.md, section 11).
//!
//! What this does not show: memory bandwidth, network cards, large stores, real disks.

pub mod costs;
pub mod ranks;
pub mod report;
pub mod run;
