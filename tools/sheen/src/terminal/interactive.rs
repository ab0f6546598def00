//! `lfs` and `lctl` without a command: they read commands, a line each, from a terminal or a pipe.
//!
//! A line is split into words as a shell would (quotes, backslashes; nothing is expanded). A line
//! that begins with `#` is a comment. `exit`, `quit` or the end of the input ends it; the exit
//! status is that of the last command.

use crate::terminal::outcome::{Exit, Failure, Outcome};
use crate::terminal::output;
use rustix::termios::isatty;
use std::io::{self, BufRead, Read, Write};

/// Longest line, bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// A program whose commands are read.
pub struct Reader<'a> {
    /// Name of the program, and of the prompt.
    pub name: &'a str,
    /// Runs one command: its words, without the program's name; gives the exit status.
    pub run: &'a dyn Fn(Vec<String>) -> u8,
    /// True if it has devices that `device NAME` chooses for the commands that follow.
    pub devices: bool,
}

/// Meaning of a line.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// A command, with its exit status.
    Command(u8),
    /// Empty, or a comment: the exit status stays that of the command before.
    Nothing,
    /// The wish to end.
    End,
}

/// Names of all commands, a line each: what `--list-commands` prints.
///
/// # Errors
/// The reader is gone.
pub fn list_commands(definition: &clap::Command) -> Outcome {
    let names = definition.get_subcommands().filter(|command| !command.is_hide_set());
    let mut names: Vec<&str> = names.map(clap::Command::get_name).collect();
    names.sort_unstable();
    output::data(&names.iter().map(|name| format!("{name}\n")).collect::<String>())?;
    Ok(Exit::Done)
}

impl Reader<'_> {
    /// Reads standard input to its end.
    ///
    /// # Errors
    /// Standard input or output failed.
    pub fn read(&self) -> Outcome {
        let mut input = io::stdin().lock();
        let talks = isatty(&input);
        let (mut last, mut device) = (0, None);
        loop {
            if talks {
                self.prompt()?;
            }
            let mut line = Vec::new();
            let read = input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            match read {
                Ok(0) => return Ok(Exit::Status(last)),
                Ok(_) if line.len() as u64 == LINE_BYTES_MAX => {
                    return Err(Failure::Failed(format!(
                        "a line has at most {LINE_BYTES_MAX} bytes"
                    )));
                }
                Ok(_) => {}
                Err(e) => return Err(Failure::Failed(format!("cannot read standard input: {e}"))),
            }
            match self.one(&String::from_utf8_lossy(&line), &mut device) {
                Line::Command(status) => last = status,
                Line::Nothing => {}
                Line::End => return Ok(Exit::Status(last)),
            }
        }
    }

    fn prompt(&self) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let shown = write!(out, "{} > ", self.name).and_then(|()| out.flush());
        shown.map_err(|e| Failure::Failed(format!("cannot write to standard output: {e}")))
    }

    fn one(&self, line: &str, device: &mut Option<String>) -> Line {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Line::Nothing;
        }
        let Some(mut words) = shlex::split(line) else {
            output::talk(&format!("error: {}: a quote is not closed: {line}", self.name));
            return Line::Command(22);
        };
        match words.first().map(String::as_str) {
            Some("exit" | "quit") => return Line::End,
            Some("device" | "cfg_device") if self.devices => {
                *device = words.into_iter().nth(1);
                return Line::Command(0);
            }
            // A program within a program is never wanted.
            Some(name) if name == self.name => drop(words.remove(0)),
            _ => {}
        }
        if let Some(device) = device.as_ref().filter(|_| self.devices) {
            words.splice(0..0, ["--device".to_owned(), device.clone()]);
        }
        Line::Command((self.run)(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn lines_become_words() {
        let ran = RefCell::new(Vec::new());
        let run = |words: Vec<String>| {
            ran.borrow_mut().push(words.join("|"));
            u8::try_from(words.len()).unwrap_or(0)
        };
        let reader = Reader { name: "lctl", run: &run, devices: true };
        let mut device = None;
        let mut one = |line: &str| reader.one(line, &mut device);
        assert_eq!(one("get_param  'a b' c\\ d\n"), Line::Command(3));
        assert_eq!(
            (one(""), one("  # nothing"), one("say 'no")),
            (Line::Nothing, Line::Nothing, Line::Command(22))
        );
        assert_eq!(
            (one("lctl dl"), one("device sheen-OST0001-osc-MDT0000"), one("deactivate")),
            (Line::Command(1), Line::Command(0), Line::Command(3))
        );
        assert_eq!((one("quit"), one("exit now")), (Line::End, Line::End));
        assert_eq!(
            *ran.borrow(),
            ["get_param|a b|c d", "dl", "--device|sheen-OST0001-osc-MDT0000|deactivate"]
        );
    }
}
