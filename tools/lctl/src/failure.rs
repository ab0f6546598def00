//! How failures are told: `error: get_param: param_path 'foo/bar': No such file or directory`, and errno as exit status.

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
    pub fn errno(&mut self, what: &str, errno: Errno) {
        self.sentence(&format!("{what}: {}", strerror(errno)), errno);
    }

    /// As [`Report::errno`].
    pub fn io(&mut self, what: &str, why: &io::Error) {
        self.errno(what, Errno::from(why));
    }

    /// As [`Report::errno`], the reason told by whoever knows it better.
    pub fn sentence(&mut self, sentence: &str, errno: Errno) {
        self.say(&format!("error: {}: {sentence}", self.command));
        self.first = self.first.or(Some(errno));
    }

    /// A line for the person at the terminal.
    pub fn say(&mut self, text: &str) {
        // Nobody can be told that standard error is closed.
        let _ = writeln!(self.err, "{text}");
    }

    /// A failure that was told in other words.
    pub fn count(&mut self, errno: Errno) {
        self.first = self.first.or(Some(errno));
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
        let mut report = Report::new("get_param", &mut err);
        assert_eq!(report.status(), 0);
        report.errno("param_path 'foo/bar'", Errno::ENOENT);
        report.sentence("failed", Errno::EINVAL);
        report.say("said");
        assert_eq!(report.status(), 2);
        let expected =
            "error: get_param: param_path 'foo/bar': No such file or directory\nerror: get_param: failed\nsaid\n";
        assert_eq!(String::from_utf8(err).unwrap(), expected);
    }
}
