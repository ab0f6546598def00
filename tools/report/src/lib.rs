//! How `lfs` and `lctl` report failures: one line on standard error, Lustre's words, and errno as
//! exit status.
//!
//! A failure does not end a command: it goes on with the rest, and the first failure is the exit
//! status. `lfs` puts the number behind the reason, `lctl` does not.

pub mod absent;

use std::io::{self, Write};
use types::errno::Errno;

/// Exit status if the reader of the output went away.
pub const EPIPE: u8 = 32;

/// The program whose form is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// `error: setstripe: can't create 'x': File exists (17)`
    Lfs,
    /// `error: get_param: param_path 'foo/bar': No such file or directory`
    Lctl,
}

/// What could not be done, with the words of an error that is not the kernel's.
pub fn told(what: &str, why: &io::Error) -> String {
    why.get_ref().map_or_else(|| what.to_owned(), |words| format!("{what}: {words}"))
}

/// Failures so far in one command.
pub struct Report<'a> {
    command: &'static str,
    style: Style,
    err: &'a mut dyn Write,
    first: Option<Errno>,
}

impl<'a> Report<'a> {
    /// A report without failures.
    pub fn new(command: &'static str, style: Style, err: &'a mut dyn Write) -> Report<'a> {
        Report { command, style, err, first: None }
    }

    /// Something could not be done: says so, and the command goes on with the rest.
    pub fn errno(&mut self, what: &str, errno: Errno) {
        let why = strerror(errno);
        match self.style {
            Style::Lfs => self.sentence(&format!("{what}: {why} ({})", errno.0), errno),
            Style::Lctl => self.sentence(&format!("{what}: {why}"), errno),
        }
    }

    /// As [`Report::errno`], with the words of an error that is not the kernel's.
    pub fn failed(&mut self, what: &str, why: &io::Error) {
        self.errno(&told(what, why), Errno::from(why));
    }

    /// As [`Report::errno`], with a reason that the caller knows better.
    pub fn sentence(&mut self, sentence: &str, errno: Errno) {
        self.say(&format!("error: {}: {sentence}", self.command));
        self.count(errno);
    }

    /// A line for the person at the terminal.
    pub fn say(&mut self, text: &str) {
        // Standard error is closed, so the failure cannot be reported.
        let _ = writeln!(self.err, "{text}");
    }

    /// Counts a failure that was reported in other words.
    pub fn count(&mut self, errno: Errno) {
        self.first = self.first.or(Some(errno));
    }

    /// Exit status: the first errno, 0 if all went well.
    pub fn status(&self) -> u8 {
        self.first.map_or(0, |errno| u8::try_from(errno.0).unwrap_or(u8::MAX))
    }

    /// Exit status of a command with this result of writing its output. A reader that has read
    /// enough is no failure.
    pub fn end(mut self, written: io::Result<()>) -> u8 {
        match written {
            Ok(()) => self.status(),
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => EPIPE,
            Err(e) => {
                self.failed("can't write to standard output", &e);
                self.status()
            }
        }
    }
}

/// Text of strerror(3): "File exists".
pub fn strerror(errno: Errno) -> String {
    let text = errno.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_read_as_lustre_s_and_the_first_counts() {
        for (style, expected) in [
            (
                Style::Lfs,
                "error: c: 'foo': No such file or directory (2)\nerror: c: failed\nsaid\n",
            ),
            (Style::Lctl, "error: c: 'foo': No such file or directory\nerror: c: failed\nsaid\n"),
        ] {
            let mut err = Vec::new();
            let mut report = Report::new("c", style, &mut err);
            assert_eq!(report.status(), 0);
            report.failed("'foo'", &io::Error::from_raw_os_error(2));
            report.sentence("failed", Errno::EINVAL);
            report.say("said");
            assert_eq!(report.end(Ok(())), 2);
            assert_eq!(String::from_utf8(err).unwrap(), expected);
        }
    }

    #[test]
    fn a_reader_that_has_enough_is_not_told() {
        let mut err = Vec::new();
        let report = Report::new("c", Style::Lfs, &mut err);
        assert_eq!(report.end(Err(io::ErrorKind::BrokenPipe.into())), EPIPE);
        assert!(err.is_empty());
        assert_eq!(
            Report::new("c", Style::Lfs, &mut err).end(Err(io::Error::from_raw_os_error(28))),
            28
        );
    }
}
