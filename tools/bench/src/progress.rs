//! Progress of the run, on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A bar on standard error.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar that will move `steps` times; silent if standard error is no terminal.
    pub fn start(item: &str, steps: usize) -> Progress {
        let bar = ProgressBar::new(steps as u64);
        let style = ProgressStyle::with_template(
            "{spinner} {prefix} {bar:20} {pos}/{len} {elapsed} {wide_msg}",
        );
        bar.set_style(style.expect("a constant template"));
        bar.set_prefix(item.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar }
    }

    /// Shows the present work.
    pub fn say(&self, what: String) {
        self.bar.set_message(what);
    }

    /// Counts one step as done.
    pub fn moved(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
