//! What the network does later.

use crate::machine::MachineId;

/// Something arrives, or is found out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Delivery {
    /// The next segments of a direction of a connection.
    Segments { connection: u64, side: usize },
    /// A cut has lasted so long that connections across it end, if it is still the same; `watched`:
    /// only those that are watched.
    CutTooLong { from: MachineId, to: MachineId, since: u64, watched: bool },
    /// The same of a cable that is cut for all machines.
    DarkTooLong { cable: u8, since: u64, watched: bool },
    /// The peer of a process that lost its power learns of it.
    Silent { connection: u64 },
    /// The end that connected gives a connection up on which nothing passes.
    GivenUp { connection: u64 },
    /// Something passes on it again.
    Resumed { connection: u64 },
}
