//! The memory of the host.

use types::errno::Errno;

/// All of it, KiB.
///
/// # Errors
/// EIO: the kernel does not say.
#[allow(clippy::disallowed_methods, reason = "a file of the kernel, on no disk")]
pub fn memory_kib() -> Result<u64, Errno> {
    let text = std::fs::read_to_string("/proc/meminfo").map_err(|error| Errno::from(&error))?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    total.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).ok_or(Errno::EIO)
}
