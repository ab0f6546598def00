//! Progress where a person waits: a spinner with the current step, on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A spinner on standard error; silent if that is no terminal.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Starts with a first step.
    pub fn start(step: &str) -> Progress {
        let bar = ProgressBar::new_spinner();
        bar.set_style(
            ProgressStyle::with_template("{spinner} {msg} ({elapsed})")
                .expect("a constant template"),
        );
        bar.set_message(step.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        Progress { bar }
    }

    /// The next step.
    pub fn step(&self, step: &str) {
        self.bar.set_message(step.to_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
