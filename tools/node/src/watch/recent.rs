//! The newest log lines of this process, in memory, for `lctl dk`.
//!
//! Bounds: [`LINES_MAX`] lines of [`LINE_BYTES_MAX`] bytes, [`BYTES_MAX`] bytes in all. The oldest
//! go first, and are counted.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::{self, Write};

/// Lines kept.
pub const LINES_MAX: usize = 4096;
/// Longest line kept, bytes; a longer one is cut.
pub const LINE_BYTES_MAX: usize = 4096;
/// Bytes kept.
pub const BYTES_MAX: usize = 1 << 20;

/// Lines of this process.
pub static RECENT: Recent = Recent::new();

/// Log lines.
pub struct Recent(Mutex<Lines>);

struct Lines {
    lines: VecDeque<String>,
    bytes: usize,
    dropped: u64,
}

impl Recent {
    /// An empty list.
    pub const fn new() -> Recent {
        Recent(Mutex::new(Lines { lines: VecDeque::new(), bytes: 0, dropped: 0 }))
    }

    /// Keeps the lines of a text.
    pub fn push(&self, text: &str) {
        let mut kept = self.0.lock();
        for line in text.lines() {
            let end = (0..=LINE_BYTES_MAX.min(line.len()))
                .rev()
                .find(|end| line.is_char_boundary(*end))
                .unwrap_or(0);
            let line = &line[..end];
            kept.bytes += line.len();
            kept.lines.push_back(line.to_owned());
            while kept.lines.len() > LINES_MAX || kept.bytes > BYTES_MAX {
                let Some(oldest) = kept.lines.pop_front() else { break };
                kept.bytes -= oldest.len();
                kept.dropped += 1;
            }
        }
    }

    /// A copy of all lines, oldest first.
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().lines.iter().cloned().collect()
    }

    /// Takes all lines, and how many were dropped since the last time.
    pub fn take(&self) -> (Vec<String>, u64) {
        let mut kept = self.0.lock();
        kept.bytes = 0;
        (std::mem::take(&mut kept.lines).into(), std::mem::take(&mut kept.dropped))
    }
}

impl Default for Recent {
    fn default() -> Recent {
        Recent::new()
    }
}

/// Each write is one event of the log.
impl Write for &Recent {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.push(&String::from_utf8_lossy(event));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_kept_and_taken_once() {
        let recent = Recent::new();
        (0..LINES_MAX + 3).for_each(|n| recent.push(&format!("{n}\n")));
        let (lines, dropped) = recent.take();
        assert_eq!((lines.len(), dropped), (LINES_MAX, 3));
        assert_eq!((&lines[0][..], &lines[LINES_MAX - 1][..]), ("3", "4098"));
        assert_eq!(recent.take(), (Vec::new(), 0));
    }

    #[test]
    fn bytes_are_bounded() {
        let recent = Recent::new();
        (0..1000).for_each(|_| recent.push(&"\u{e9}".repeat(LINE_BYTES_MAX)));
        let (lines, dropped) = recent.take();
        assert!(lines.iter().all(|line| line.len() == LINE_BYTES_MAX));
        assert_eq!((lines.len(), dropped), (BYTES_MAX / LINE_BYTES_MAX, 1000 - 256));
    }
}
