//! The machine a run was made on.

use serde::{Deserialize, Serialize};
use std::fs;

/// The properties that figures depend on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MachineReport {
    /// Model of the processors.
    pub cpu: String,
    /// Number of processors.
    pub cpus: usize,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Release of the Linux kernel.
    pub kernel: String,
    /// Load average over a minute when the run began: what others do.
    pub load: f64,
}

impl MachineReport {
    /// This machine, now. A value that cannot be read is "unknown" or 0.
    pub fn here() -> MachineReport {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let value = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = value(&read("/proc/meminfo"), "MemTotal");
        let kilobytes = memory.and_then(|m| m.split(' ').next()?.parse::<u64>().ok()).unwrap_or(0);
        MachineReport {
            cpu: value(&read("/proc/cpuinfo"), "model name")
                .unwrap_or_else(|| "unknown".to_owned()),
            cpus: cpus(),
            memory_bytes: kilobytes * 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: read("/proc/loadavg")
                .split(' ')
                .next()
                .and_then(|w| w.parse().ok())
                .unwrap_or(0.0),
        }
    }
}

/// Processors that this process may use.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let here = MachineReport::here();
        assert!(
            here.cpus > 0 && here.memory_bytes > 1 << 20 && !here.kernel.is_empty(),
            "{here:?}"
        );
    }
}
