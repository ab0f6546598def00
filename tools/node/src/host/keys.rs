//! The keys of a host: which one a process uses.

use crate::config::security::Security;
use crate::config::settings::Settings;
use crate::host::interfaces::{self, NoAddress};
use crate::host::secret_file;
use crate::host::shared_log::mgs_nids;
use seal::credentials::Credentials;
use seal::error::SealError;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use types::nid::Nid;

/// Folder of the keys that clusters gave this host, unless [`KEYS_DIR_VARIABLE`] names another.
pub const KEYS_DIR: &str = "/etc/sheen/keys";
/// Variable that names another folder.
pub const KEYS_DIR_VARIABLE: &str = "SHEEN_KEYS_DIR";
/// Folder of the authority in that of the MGT.
pub const AUTHORITY_DIR: &str = "auth";
/// In it, the key of the MGS' host.
pub const MGS_KEY: &str = "key.pem";

/// There is no key that can be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot use the key {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file holds no key.
    #[error("cannot use the key {}: {source}", .path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: SealError,
    },
    /// Other hosts would be let in without keys, and no setting says that they may.
    #[error(
        "{0} is no loopback address, and without keys every host that reaches it may read and change all files: \
         secure the cluster (`sheen auth init` where the MGS is, `sheen auth issue` for each other host), or allow it \
         with --security off"
    )]
    Open(SocketAddr),
    /// The settings name an address that this host does not have.
    #[error(transparent)]
    Address(#[from] NoAddress),
    /// Security is on.
    #[error(
        "security is \"on\", and there is no key for this cluster in {KEYS_DIR}: `sheen auth issue` where the MGS is \
         prints one, `sheen auth install` puts it there; or name its file with key"
    )]
    None,
}

/// Reads a key.
///
/// # Errors
/// See [`KeyError`].
pub fn read(path: &Path) -> Result<Credentials, KeyError> {
    let text = secret_file::read(path)
        .map_err(|source| KeyError::Read { path: path.to_owned(), source })?;
    Credentials::from_text(&text).map_err(|source| KeyError::Bad { path: path.to_owned(), source })
}

/// The key that a process with these settings uses, and its file; `None`: it is open.
///
/// # Errors
/// The key cannot be used; security is on and there is none; or it is neither on nor off, there is
/// none, and the process would listen beyond loopback.
pub fn of(settings: &Settings) -> Result<Option<(PathBuf, Credentials)>, KeyError> {
    if settings.security == Security::Off {
        return Ok(None);
    }
    let path = match &settings.key {
        Some(named) => Some(named.clone()),
        None => of_mgs(settings).map_or_else(|| of_host(settings), |path| Ok(Some(path)))?,
    };
    match path {
        Some(path) => read(&path).map(|key| Some((path, key))),
        None if settings.security == Security::On => Err(KeyError::None),
        None => {
            let listens = interfaces::to_listen(settings)?;
            let open = |(_, addr): &(_, SocketAddr)| !addr.ip().to_canonical().is_loopback();
            match listens.into_iter().find(open) {
                Some((_, addr)) => Err(KeyError::Open(addr)),
                None => Ok(None),
            }
        }
    }
}

/// The key beside the authority, where the MGT is.
fn of_mgs(settings: &Settings) -> Option<PathBuf> {
    settings
        .targets
        .iter()
        .map(|dir| dir.join(AUTHORITY_DIR).join(MGS_KEY))
        .find(|path| path.exists())
}

/// The key of the host that names one of the NIDs of the MGS.
fn of_host(settings: &Settings) -> Result<Option<PathBuf>, KeyError> {
    let mgs = mgs_nids(settings);
    if mgs == [Nid::Loopback] {
        return Ok(None);
    }
    for path in installed()? {
        if read(&path)?.mgs().iter().any(|nid| mgs.contains(nid)) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Folder of the keys of this host.
pub fn folder() -> PathBuf {
    std::env::var_os(KEYS_DIR_VARIABLE).map_or_else(|| KEYS_DIR.into(), PathBuf::from)
}

/// Files of all keys of the host, by name.
///
/// # Errors
/// The folder cannot be read.
pub fn installed() -> Result<Vec<PathBuf>, KeyError> {
    let dir = folder();
    let entries = match std::fs::read_dir(&dir) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            return Ok(Vec::new());
        }
        entries => entries.map_err(|source| KeyError::Read { path: dir.clone(), source })?,
    };
    let fail = |source| KeyError::Read { path: dir.clone(), source };
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(fail)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "pem"));
    paths.sort();
    Ok(paths)
}

/// Puts a key into the folder of the host; a key of the same cluster there is replaced.
///
/// # Errors
/// It is no key, or cannot be written.
pub fn install(text: &str) -> Result<(PathBuf, Credentials), KeyError> {
    let dir = &folder();
    let key = Credentials::from_text(text)
        .map_err(|source| KeyError::Bad { path: "-".into(), source })?;
    let path = dir.join(format!("{}.pem", key.principal().cluster));
    let written =
        secret_file::make_dir(dir).and_then(|()| secret_file::write(&path, &key.to_text()));
    written.map_err(|source| KeyError::Read { path: path.clone(), source })?;
    Ok((path, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_served_without_keys_unless_that_is_said() {
        let with = |listen: &str, security| Settings {
            listen: listen.parse().unwrap(),
            security,
            ..Settings::default()
        };
        for listen in ["127.0.0.1:988", "127.1.2.3", "[::1]:988", "[::ffff:127.0.0.1]:988", "none"]
        {
            assert!(matches!(of(&with(listen, Security::Auto)), Ok(None)), "{listen}");
        }
        for listen in ["10.0.0.1:988", "[fd00::1]:988"] {
            let Err(error) = of(&with(listen, Security::Auto)) else {
                panic!("{listen} is served without keys");
            };
            assert!(matches!(error, KeyError::Open(_)), "{error}");
            assert!(error.to_string().contains("--security off"), "{error}");
            assert!(matches!(of(&with(listen, Security::Off)), Ok(None)), "{listen}");
            assert!(matches!(of(&with(listen, Security::On)), Err(KeyError::None)), "{listen}");
        }
    }
}
