//! Names of hosts by their addresses.

use std::net::IpAddr;
use std::process::{Command, Stdio};

/// The name of the host with this address, as the system's databases say (getent(1)); `None`: they
/// know none.
pub fn host_name(address: IpAddr) -> Option<String> {
    let mut command = Command::new("getent");
    let output = command
        .args(["hosts", &address.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let line = String::from_utf8_lossy(&output.stdout);
    let name = line.split_whitespace().nth(1)?;
    (!name.chars().any(char::is_control)).then(|| name.to_owned())
}
