//! Abilities of a mount and its sessions, in Lustre's words. A word is here only if SheenFS does
//! what it stands for; foreign test suites ask for these before they begin.

use crate::config::mount_options::{LockStyle, MountOptions};
use types::target::TargetKind;

/// Between a mount and each of its targets.
const ALL: [&str; 7] = [
    "version",
    "inode_bit_locks",
    "fid_is_enabled",
    "pools",
    "jobstats",
    "layout_lock",
    "nanoseconds_times",
];
/// Abilities with an MDT.
const WITH_MDT: [&str; 8] = [
    "acl",
    "xattr",
    "getattr_by_fid",
    "large_ea",
    "flock_deadlock",
    "open_by_fid",
    "multi_mod_rpcs",
    "batch_rpc",
];
/// Abilities with an OST.
const WITH_OST: [&str; 4] = ["write_grant", "grant_shrink", "short_io", "lseek"];

/// `connect_flags` of a session.
pub(super) fn of_session(kind: TargetKind, read_only: bool, checksums: bool) -> Vec<&'static str> {
    let mut flags = Vec::new();
    if read_only {
        flags.push("read_only");
    }
    match kind {
        TargetKind::Mdt => flags.extend(ALL.iter().chain(&WITH_MDT)),
        TargetKind::Ost => flags.extend(ALL.iter().chain(&WITH_OST)),
        TargetKind::Mgt => flags.push("version"),
    }
    if checksums && kind == TargetKind::Ost {
        flags.push("alt_checksum_algorithm");
    }
    flags
}

/// `sbi_flags` of a mount.
pub(super) fn of_mount(
    options: &MountOptions,
    checksums: bool,
    keeps_xattrs: bool,
) -> Vec<&'static str> {
    let mut flags = Vec::new();
    if checksums {
        flags.push("checksum");
    }
    match options.locks {
        LockStyle::Flock => flags.push("flock"),
        LockStyle::LocalFlock => flags.push("localflock"),
        LockStyle::NoFlock => {}
    }
    flags.extend(["user_xattr", "acl", "layout", "user_fid2path"]);
    if keeps_xattrs {
        flags.push("xattr_cache");
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_follow_what_is_set() {
        let session = |kind, read_only, checksums| of_session(kind, read_only, checksums).join(" ");
        assert!(session(TargetKind::Mdt, false, true).contains("acl xattr"));
        assert!(session(TargetKind::Mdt, true, true).starts_with("read_only version"));
        assert!(session(TargetKind::Ost, false, true).ends_with("lseek alt_checksum_algorithm"));
        assert!(!session(TargetKind::Ost, false, false).contains("checksum"));
        assert_eq!(session(TargetKind::Mgt, false, true), "version");
        let options = |text: &str| text.parse::<MountOptions>().unwrap();
        assert_eq!(
            of_mount(&options("flock"), true, true).join(" "),
            "checksum flock user_xattr acl layout user_fid2path xattr_cache"
        );
        assert_eq!(
            of_mount(&options("noflock"), false, false).join(" "),
            "user_xattr acl layout user_fid2path"
        );
    }
}
