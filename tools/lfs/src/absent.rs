//! Commands of Lustre's `lfs` that SheenFS does not have: what they are, so that nobody takes them for typing errors.

use report::Report;
use std::ffi::OsString;
use types::errno::Errno;

/// Name, and what is missing.
const ABSENT: &[(&str, &str)] = &[
    ("changelog", "there are no changelogs yet"),
    ("changelog_clear", "there are no changelogs yet"),
    ("heat_get", "heat of files is not counted"),
    ("heat_set", "heat of files is not counted"),
    ("hsm", "there is no archive to move files to yet"),
    ("hsm_action", "there is no archive to move files to yet"),
    ("hsm_archive", "there is no archive to move files to yet"),
    ("hsm_cancel", "there is no archive to move files to yet"),
    ("hsm_clear", "there is no archive to move files to yet"),
    ("hsm_release", "there is no archive to move files to yet"),
    ("hsm_remove", "there is no archive to move files to yet"),
    ("hsm_restore", "there is no archive to move files to yet"),
    ("hsm_set", "there is no archive to move files to yet"),
    ("hsm_state", "there is no archive to move files to yet"),
    ("mirror", "files have no mirrors yet"),
    ("mv", "directories cannot be moved to another MDT yet"),
    ("pcc", "there is no persistent client cache"),
    ("project", "there are no projects yet"),
    ("quota", "there are no quotas yet"),
    ("rm_entry", "damaged directory entries cannot be removed yet"),
    ("rmentry", "damaged directory entries cannot be removed yet"),
    ("setquota", "there are no quotas yet"),
    ("somsync", "sizes at the MDT are always exact: there is nothing to bring in step"),
    ("unlink_foreign", "there are no foreign files"),
];

/// The name under which one is reported; `None`: there is no such command anywhere.
pub fn known(words: &[OsString]) -> Option<&'static str> {
    let word = words.first()?.to_str()?;
    ABSENT.iter().find(|(name, _)| *name == word).map(|(name, _)| *name)
}

/// Says what is missing (EOPNOTSUPP), or that there is no such command (EINVAL).
pub fn say(words: &[OsString], report: &mut Report<'_>) {
    match known(words).and_then(|name| ABSENT.iter().find(|(known, _)| *known == name)) {
        Some((_, sentence)) => report.sentence(sentence, Errno::EOPNOTSUPP),
        None => {
            let word = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
            report.sentence(&format!("unrecognized subcommand '{word}'; see: lfs --help"), Errno::EINVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::Style;

    #[test]
    fn what_is_absent_is_told_apart_from_what_never_was() {
        for (word, status) in [("mirror", 95), ("quota", 95), ("setstrip", 22)] {
            let (words, mut err) = ([OsString::from(word)], Vec::new());
            let mut report = Report::new(known(&words).unwrap_or("lfs"), Style::Lfs, &mut err);
            say(&words, &mut report);
            assert_eq!(report.status(), status, "{word}");
        }
        assert!(ABSENT.iter().is_sorted(), "in order, each once");
    }
}
