//! One CPU of a machine: what the machine sends and receives takes its turn there.
//!
//! Without one, a simulated machine needs no time for anything. A test that measures how load
//! spreads over machines gives them CPUs, and says what each piece of work costs; the code under
//! test cannot avoid the charge.

use std::time::Duration;

/// Bytes that a machine with a CPU sends or receives, in the pieces in which they were written.
#[derive(Clone, Copy, Debug)]
pub struct Passing<'a> {
    /// Number of the connection.
    pub connection: u64,
    /// Which of its two directions: that from the end that connected is 0.
    pub side: usize,
    /// The machine sends it, else it receives it.
    pub sent: bool,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// What a piece costs.
pub type Cost = Box<dyn FnMut(Passing<'_>) -> Duration + Send>;

/// Serves one piece after another.
pub(crate) struct Cpu {
    cost: Cost,
    free_at: Duration,
    busy: Duration,
}

impl Cpu {
    pub(crate) fn new(cost: Cost) -> Cpu {
        Cpu { cost, free_at: Duration::ZERO, busy: Duration::ZERO }
    }

    /// When a piece that is there now is done with.
    pub(crate) fn serve(&mut self, passing: Passing<'_>, now: Duration) -> Duration {
        let cost = (self.cost)(passing);
        self.charge(cost, now)
    }

    /// Takes this long for something else.
    pub(crate) fn charge(&mut self, cost: Duration, now: Duration) -> Duration {
        self.free_at = self.free_at.max(now) + cost;
        self.busy += cost;
        self.free_at
    }

    /// Time that it has worked, or will have when what waits is done.
    pub(crate) fn busy(&self) -> Duration {
        self.busy
    }
}
