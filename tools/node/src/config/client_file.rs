//! `/etc/sheen/client.toml`: what this host wishes for its mounts, whatever the MGS says.
//!
//! `networks`, `routes` and `local`: the networks of this host, the ways to others, and whether
//! servers of this host are connected within it, as in `node.toml`.
//! One table, `[params]`: the name or pattern of a parameter, as for `lctl set_param`, and its
//! value. The default file may be absent; a file that a mount option names must exist. Anything
//! that is not understood is an error, so that a typo is not a silent default.

use crate::config::networks::{BadNetworks, Networks, Routes};
use serde::Deserialize;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The file that is read if no mount option names one.
pub const DEFAULT: &str = "/etc/sheen/client.toml";
/// Largest file, bytes.
const BYTES_MAX: u64 = 1 << 20;

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadClientFile {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The content is not understood by this program.
    #[error("{}: {reason}", .path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    networks: String,
    #[serde(default)]
    routes: String,
    #[serde(default = "yes")]
    local: bool,
    #[serde(default)]
    params: toml::Table,
}

fn yes() -> bool {
    true
}

/// What the file says.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientFile {
    /// Networks; none: it says nothing of them.
    pub networks: Networks,
    /// Ways to other networks.
    pub routes: Routes,
    /// Servers of this host are connected within it.
    pub local: bool,
    /// Pattern and value of each parameter, ordered by name: of two that mean the same parameter
    /// the later one counts.
    pub params: Vec<(String, String)>,
}

impl Default for ClientFile {
    fn default() -> ClientFile {
        let (networks, routes) = (Networks::default(), Routes::default());
        ClientFile { networks, routes, local: yes(), params: Vec::new() }
    }
}

/// Reads it. `None`: the default file, which may be absent.
///
/// # Errors
/// [`BadClientFile`].
pub fn read(named: Option<&Path>) -> Result<ClientFile, BadClientFile> {
    let path = named.unwrap_or(Path::new(DEFAULT));
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(BYTES_MAX + 1).read_to_string(&mut text));
    match read {
        Err(e) if named.is_none() && e.kind() == io::ErrorKind::NotFound => {
            return Ok(ClientFile::default());
        }
        Err(source) => return Err(BadClientFile::Read { path: path.to_owned(), source }),
        Ok(_) => {}
    }
    let bad = |reason: String| BadClientFile::Parse { path: path.to_owned(), reason };
    if text.len() as u64 > BYTES_MAX {
        return Err(bad(format!("longer than {BYTES_MAX} bytes")));
    }
    let file: File = toml::from_str(&text).map_err(|e| bad(e.to_string()))?;
    let pairs = file.params.into_iter().map(|(name, value)| match value {
        toml::Value::String(text) => Ok((name, text)),
        toml::Value::Integer(number) => Ok((name, number.to_string())),
        toml::Value::Boolean(on) => Ok((name, u8::from(on).to_string())),
        _ => Err(bad(format!("the value of {name:?} must be a number, a text, true or false"))),
    });
    let mut params = pairs.collect::<Result<Vec<_>, _>>()?;
    params.sort();
    let networks = file.networks.parse().map_err(|e: BadNetworks| bad(e.to_string()))?;
    let routes = file.routes.parse().map_err(|e: BadNetworks| bad(e.to_string()))?;
    Ok(ClientFile { networks, routes, local: file.local, params })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_kinds_and_faults() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("client.toml");
        let parsed = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(Some(&path)).map_err(|e| e.to_string())
        };
        let found =
            parsed("networks = \"tcp1(eth1)\"\nroutes = \"tcp 10.0.0.9@tcp1\"\n[params]\n\"osc.*.n\" = 8\n\"llite.*.t\" = \"64M\"\n\"llite.*.on\" = true\n")
                .unwrap();
        let pair = |n: &str, v: &str| (n.to_owned(), v.to_owned());
        assert_eq!(found.networks.to_string(), "tcp1(eth1)");
        assert!(found.local && !parsed("local = false").unwrap().local);
        assert_eq!(found.routes.to_string(), "tcp 10.0.0.9@tcp1");
        assert_eq!(
            found.params,
            [pair("llite.*.on", "1"), pair("llite.*.t", "64M"), pair("osc.*.n", "8")]
        );
        assert_eq!(parsed(""), Ok(ClientFile::default()));
        for (text, words) in [
            ("[parms]\n", "parms"),
            ("networks = \"eth0\"", "no network;"),
            ("[params]\na = 1.5\n", "number"),
            ("x", "client.toml"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert!(matches!(read(Some(&dir.path().join("none"))), Err(BadClientFile::Read { .. })));
    }
}
