//! What all processes of a world share: the tasks with their time, and the network.

use crate::executor::Executor;
use crate::machine::{Machine, Process};
use crate::network::Network;
use crate::rng::Rng;
use parking_lot::Mutex;
use std::sync::Arc;

pub(crate) struct Core {
    pub(crate) executor: Executor,
    pub(crate) network: Network,
    pub(crate) seed: u64,
    pub(crate) machines: Mutex<Vec<Arc<Machine>>>,
    pub(crate) processes: Mutex<Vec<Arc<Process>>>,
    /// Decides what a power cut leaves on a disk.
    pub(crate) crashes: Mutex<Rng>,
}
