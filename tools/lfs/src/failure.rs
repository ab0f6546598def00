//! How failures are told: `error: setstripe: can't create 'x': File exists (17)`, and errno as exit status.

use std::io::{self, Write};
use types::errno::Errno;

/// Exit status if the reader of our output went away.
pub const EPIPE: u8 = 32;

/// What went wrong so far in one command.
pub struct Report<'a> {
    command: &'static str,
    err: &'a mut dyn Write,
    first: Option<Errno>,
}

impl<'a> Report<'a> {
    /// Nothing yet.
    pub fn new(command: &'static str, err: &'a mut dyn Write) -> Report<'a> {
        Report { command, err, first: None }
    }

    /// Something could not be done: says so, and the command goes on with the rest.
    pub fn failed(&mut self, what: &str, why: &io::Error) {
        self.errno(what, Errno::from(why));
    }

    /// As [`Report::failed`].
    pub fn errno(&mut self, what: &str, errno: Errno) {
        self.line(&format!("{what}: {} ({})", strerror(errno), errno.0));
        self.first = self.first.or(Some(errno));
    }

    fn line(&mut self, text: &str) {
        // Nobody can be told that standard error is closed.
        let _ = writeln!(self.err, "error: {}: {text}", self.command);
    }

    /// Exit status: the first errno, 0 if all went well.
    pub fn status(&self) -> u8 {
        self.first.map_or(0, |errno| u8::try_from(errno.0).unwrap_or(u8::MAX))
    }
}

/// As strerror(3): "File exists".
pub fn strerror(errno: Errno) -> String {
    let text = errno.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_read_as_lustre_s_and_the_first_counts() {
        let mut err = Vec::new();
        let mut report = Report::new("setstripe", &mut err);
        assert_eq!(report.status(), 0);
        report.failed("can't create 'x'", &io::Error::from_raw_os_error(17));
        report.errno("can't create 'y'", Errno::ENOENT);
        assert_eq!(report.status(), 17);
        let expected = "error: setstripe: can't create 'x': File exists (17)\n\
                        error: setstripe: can't create 'y': No such file or directory (2)\n";
        assert_eq!(String::from_utf8(err).unwrap(), expected);
    }
}
