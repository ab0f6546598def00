//! Commands of Lustre's `lfs` that SheenFS does not have.

use report::absent::Absent;

/// What is missing, or what does the same here.
pub const ABSENT: Absent = Absent {
    program: "lfs",
    commands: &[
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
        ("quota", "there are no quotas yet"),
        ("rm_entry", "damaged directory entries cannot be removed yet"),
        ("rmentry", "damaged directory entries cannot be removed yet"),
        ("setquota", "there are no quotas yet"),
        ("somsync", "sizes at the MDT are always exact: there is nothing to bring in step"),
        ("unlink_foreign", "there are no foreign files"),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_there_once() {
        assert!(ABSENT.commands.is_sorted());
        assert!(ABSENT.commands.windows(2).all(|pair| pair[0].0 != pair[1].0));
    }
}
