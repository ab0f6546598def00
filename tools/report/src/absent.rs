//! Commands of Lustre that SheenFS does not have: what is missing, or what does the same here, so
//! that they are not taken for typing errors.

use crate::Report;
use std::ffi::OsString;
use types::errno::Errno;

/// The commands that one program lacks.
pub struct Absent {
    /// The program.
    pub program: &'static str,
    /// Name, or the beginning of several names that ends with `_`; and a sentence. In order, each
    /// once.
    pub commands: &'static [(&'static str, &'static str)],
}

impl Absent {
    fn sentence(&self, word: &str) -> Option<&'static str> {
        let means = |name: &str| match name.ends_with('_') {
            true => word.starts_with(name) && word != name,
            false => word == name,
        };
        self.commands.iter().find(|(name, _)| means(name)).map(|(_, sentence)| *sentence)
    }

    /// Says what is missing (EOPNOTSUPP), or that there is no such command anywhere (EINVAL).
    pub fn say(&self, words: &[OsString], report: &mut Report<'_>) {
        let word =
            words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        match self.sentence(&word) {
            Some(sentence) => {
                report.say(&format!("error: {word}: {sentence}"));
                report.count(Errno::EOPNOTSUPP);
            }
            None => {
                let sentence =
                    format!("unrecognized subcommand '{word}'; see: {} --help", self.program);
                report.sentence(&sentence, Errno::EINVAL);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Style;

    #[test]
    fn what_is_absent_is_told_apart_from_what_never_was() {
        let absent = Absent {
            program: "lctl",
            commands: &[("dk", "no buffer"), ("nodemap_", "no nodemaps")],
        };
        for (word, status, said) in [
            ("dk", 95, "error: dk: no buffer\n"),
            ("nodemap_add", 95, "error: nodemap_add: no nodemaps\n"),
            ("nodemap_", 22, "error: lctl: unrecognized subcommand 'nodemap_'; see: lctl --help\n"),
            ("dkk", 22, "error: lctl: unrecognized subcommand 'dkk'; see: lctl --help\n"),
        ] {
            let mut err = Vec::new();
            let mut report = Report::new("lctl", Style::Lctl, &mut err);
            absent.say(&[OsString::from(word)], &mut report);
            assert_eq!(report.status(), status, "{word}");
            assert_eq!(String::from_utf8(err).unwrap(), said);
        }
    }
}
