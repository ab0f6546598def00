//! Whether connections must show keys.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The setting `security`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Security {
    /// If this process has a key of the cluster.
    #[default]
    Auto,
    /// Yes. Without a key the process does not start.
    On,
    /// No: every process that reaches it may connect.
    Off,
}

/// The text is no such setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no security; use on, off, or auto (on if there is a key)")]
pub struct BadSecurity(pub String);

impl fmt::Display for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Security::Auto => "auto",
            Security::On => "on",
            Security::Off => "off",
        })
    }
}

impl FromStr for Security {
    type Err = BadSecurity;

    fn from_str(text: &str) -> Result<Security, BadSecurity> {
        match text {
            "auto" => Ok(Security::Auto),
            "on" => Ok(Security::On),
            "off" => Ok(Security::Off),
            _ => Err(BadSecurity(text.to_owned())),
        }
    }
}
