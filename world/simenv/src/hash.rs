//! One number for all events of a run: two runs that differ anywhere differ in it.

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A task was polled: (task, 0).
    Poll = 1,
    /// Virtual time went on: (nanoseconds, number of the timer).
    Timer = 2,
    /// Bytes were sent: (connection and direction, checksum of the bytes).
    Send = 3,
    /// Bytes arrived: (connection and direction, length).
    Arrive = 4,
    /// A connection was made or ended: (connection, how).
    Connection = 5,
    /// A file was changed or synced: (inode, operation).
    Disk = 6,
    /// A process began or ended: (process, how).
    Process = 7,
    /// Something that the test itself noted.
    Note = 8,
}

/// The hash so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHash {
    hash: u64,
    events: u64,
}

impl EventHash {
    pub(crate) fn new(seed: u64) -> EventHash {
        EventHash { hash: seed ^ 0xcbf2_9ce4_8422_2325, events: 0 }
    }

    pub(crate) fn note(&mut self, event: Event, a: u64, b: u64) {
        self.events += 1;
        for word in [event as u64, a, b] {
            self.hash = (self.hash ^ word).wrapping_mul(0x9fb2_1c65_1e98_df25);
            self.hash ^= self.hash >> 32;
        }
    }

    /// The number.
    pub fn value(&self) -> u64 {
        self.hash
    }

    /// Number of events that it covers.
    pub fn events(&self) -> u64 {
        self.events
    }
}

/// A checksum of bytes for the hash.
pub(crate) fn sum(parts: impl Iterator<Item = u8>) -> u64 {
    parts.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
