//! The declaration of a metric.

/// Meaning of the numbers of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Unit {
    /// Requests, operations, events.
    Requests,
    /// Bytes.
    Bytes,
    /// Microseconds.
    Microseconds,
}

impl Unit {
    /// The word that Lustre's `stats` use.
    pub const fn word(self) -> &'static str {
        match self {
            Unit::Requests => "reqs",
            Unit::Bytes => "bytes",
            Unit::Microseconds => "usecs",
        }
    }
}

/// One metric. Declare it once, as a constant beside the code that feeds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Name, for example `read_bytes`: lower case letters, digits, `_`.
    pub name: &'static str,
    /// Unit of its numbers.
    pub unit: Unit,
    /// One sentence for people.
    pub help: &'static str,
}
