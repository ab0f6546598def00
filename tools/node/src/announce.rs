//! How a start goes, told to whoever started the process: one JSON line per event on its standard output.
//!
//! `up` and `mount` start a process of their own and show these events; after `ready` or `failed` nothing follows.

use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// Longest line, bytes.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "event")]
pub enum Event {
    /// What is being done now, for people.
    Step {
        /// For example "starting sheen-MDT0000".
        what: String,
    },
    /// In service.
    Ready {
        /// NIDs, `0@lo` first.
        nids: Vec<String>,
    },
    /// The process ends.
    Failed {
        /// One sentence.
        reason: String,
    },
}

/// Takes events.
pub trait Announce: Send {
    /// One event. Must not fail: nobody may listen any more.
    fn event(&mut self, event: Event);
}

/// Nobody listens.
pub struct Silent;

impl Announce for Silent {
    fn event(&mut self, _event: Event) {}
}

/// JSON lines to a writer.
pub struct Lines<W: Write + Send>(pub W);

impl<W: Write + Send> Announce for Lines<W> {
    fn event(&mut self, event: Event) {
        let mut line = serde_json::to_string(&event).expect("plain values");
        line.push('\n');
        match self.0.write_all(line.as_bytes()).and_then(|()| self.0.flush()) {
            Ok(()) => {}
            // The starter was interrupted; the node goes on.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) => tracing::warn!(%error, "cannot tell the starter"),
        }
    }
}
