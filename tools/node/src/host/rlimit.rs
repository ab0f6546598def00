//! Limits that the kernel sets to a process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of open files (connections, object files) to what the hard limit allows;
/// returns the number.
pub fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, limit = limit.current, "cannot raise the number of open files");
            return limit.current;
        }
    }
    limit.maximum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let raised = raise_open_files();
        assert_eq!(getrlimit(Resource::Nofile).current, raised);
        assert_eq!(raised, getrlimit(Resource::Nofile).maximum);
    }
}
