//! Progress of a start, reported to the starting process: one JSON line per event on standard
//! output.
//!
//! `up` and `mount` start a process of their own and show these events; after `ready` or `failed`
//! nothing follows.

use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// Longest line, bytes.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "event")]
pub enum Event {
    /// The present step, for people.
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
        /// The reason in one sentence.
        reason: String,
    },
}

/// Takes events.
pub trait Announce: Send {
    /// Reports one event. Must not fail: the reader may be gone.
    fn event(&mut self, event: Event);
}

/// Reports nothing.
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
