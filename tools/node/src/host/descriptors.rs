//! How a process divides its file descriptors (RLIMIT_NOFILE).
//!
//! The unconditional needs of the process come first: its own parts, the store and journal of each
//! target, the mounts. The rest is divided between links and object files, each with a bound of its
//! own, so that neither can take the descriptors of the other.

use types::limits::{LINKS_ACCEPTED_MAX, OBJECT_FILES_OPEN_MAX};

/// Descriptors of the process itself: its standard streams and log, its reactors, its listeners
/// (network, control socket, at most 64 HTTP connections), and those that threads working on the
/// disk have open for a moment (a folder, a file that has just left the cache).
const OWN: u64 = 192;
/// Of a target: lock, journal and the next one, tree and its lock, with some to spare.
const PER_TARGET: u64 = 12;
/// Of a mount: its FUSE devices and control files.
const PER_MOUNT: u64 = 32;
/// Links at least; a client or server makes one or two to each process that it talks to.
const LINKS_MIN: u64 = 64;
/// Object files per target that has objects, at least.
const OBJECT_FILES_MIN: u64 = 16;

/// What a process serves and mounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DescriptorUsers {
    /// Targets of all kinds.
    pub targets: usize,
    /// Mounts.
    pub mounts: usize,
}

/// The bounds that follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Links that are accepted.
    pub links: usize,
    /// Object files that all targets together keep open.
    pub object_files: usize,
}

/// The limit is too low for what the process serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "this process may open {limit} files (RLIMIT_NOFILE), and needs {needed} for its {targets} targets and {mounts} mounts: raise \
     the hard limit (ulimit -Hn {needed}, or LimitNOFILE= in its systemd unit), or serve fewer targets per process"
)]
pub struct TooFew {
    /// The hard limit.
    pub limit: u64,
    /// The smallest that would do.
    pub needed: u64,
    /// Number of targets.
    pub targets: usize,
    /// Number of mounts.
    pub mounts: usize,
}

/// Divides `limit` descriptors; `None` is no limit.
///
/// # Errors
/// Too few for what is wanted.
pub fn divide(limit: Option<u64>, wanted: DescriptorUsers) -> Result<Bounds, TooFew> {
    let DescriptorUsers { targets, mounts } = wanted;
    let limit = limit.unwrap_or(u64::MAX);
    let fixed = OWN + PER_TARGET * targets as u64 + PER_MOUNT * mounts as u64;
    let files_min = OBJECT_FILES_MIN * targets as u64;
    let needed = fixed + LINKS_MIN + files_min;
    if limit < needed {
        return Err(TooFew { limit, needed, targets, mounts });
    }
    let left = limit - fixed;
    // Half of it for object files, while they can use it; then links get the rest.
    let object_files =
        (left / 2).clamp(files_min, (OBJECT_FILES_OPEN_MAX * targets) as u64).min(left - LINKS_MIN);
    let links = (left - object_files).min(LINKS_ACCEPTED_MAX as u64);
    Ok(Bounds { links: links as usize, object_files: object_files as usize })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: DescriptorUsers = DescriptorUsers { targets: 6, mounts: 1 };

    #[test]
    fn nothing_is_given_twice() {
        let fixed = OWN + 6 * PER_TARGET + PER_MOUNT;
        for limit in [500, 1024, 2048, 4096, 20_000] {
            let Bounds { links, object_files } = divide(Some(limit), ALL).unwrap();
            assert!(
                fixed + (links + object_files) as u64 <= limit,
                "{limit}: {links} links, {object_files} files"
            );
            assert!(links as u64 >= LINKS_MIN && object_files as u64 >= 6 * OBJECT_FILES_MIN);
        }
    }

    #[test]
    fn a_small_limit_still_leaves_room_for_both() {
        let four_osts = DescriptorUsers { targets: 4, mounts: 0 };
        assert_eq!(divide(Some(1024), four_osts), Ok(Bounds { links: 392, object_files: 392 }));
    }

    #[test]
    fn a_large_limit_changes_neither_bound() {
        let bounds = Bounds { links: LINKS_ACCEPTED_MAX, object_files: 6 * OBJECT_FILES_OPEN_MAX };
        assert_eq!(divide(Some(1 << 20), ALL), Ok(bounds));
        assert_eq!(divide(None, ALL), Ok(bounds));
    }

    #[test]
    fn a_process_without_targets_keeps_no_object_files() {
        assert_eq!(
            divide(Some(1024), DescriptorUsers { targets: 0, mounts: 1 }).unwrap().object_files,
            0
        );
    }

    #[test]
    fn too_few_say_how_many_would_do() {
        let too_few = divide(Some(256), ALL).unwrap_err();
        assert_eq!(divide(Some(too_few.needed - 1), ALL).unwrap_err().needed, too_few.needed);
        assert!(divide(Some(too_few.needed), ALL).is_ok());
        assert!(too_few.to_string().contains("ulimit -Hn"));
    }
}
