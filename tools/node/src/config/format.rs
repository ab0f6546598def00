//! Makes targets, as `mkfs.sheen` and `up` ask for it.

use crate::home::Home;
use crate::host::shared_log::{blobs_of, identity_of, identity_text, mgs_text, replica_of};
use disk::superblock::Superblock;
use env::Env;
use env::disk::Open;
use env::real::{RealConfig, RealEnv};
use etcd::client::Etcd;
use etcd::url::Members;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::error::StoreError;
use store::journalled::{Journalled, JournalledOptions};
use store::shared_log::SharedLog;
pub use store::volume::VolumeSpec;
use target::TargetError;
use target::format::{Identity, LOG};
use types::nid::Nid;
use types::proof::ServerKey;
use types::session::ClusterId;
use types::target::{FsName, TargetIndex, TargetKind, TargetName};

/// How often etcd is asked to make a log.
const ATTEMPTS: u32 = 10;
/// Pause before it is asked again: it may just choose a leader.
const PAUSE: Duration = Duration::from_millis(200);

/// The target to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatSpec {
    /// Kind of the target.
    pub kind: TargetKind,
    /// File system it belongs to.
    pub fsname: FsName,
    /// Index of the target; `None`: the MGS will give one.
    pub index: Option<TargetIndex>,
    /// Directory of the target.
    pub dir: PathBuf,
    /// The etcd that has its log; `None`: the log is in the folder. The MGT, or an MDT with an
    /// index.
    pub log: Option<Members>,
    /// NIDs at which the MGS is found, for a log in etcd: those of its hosts. Empty: not known yet.
    pub mgs: Vec<Nid>,
    /// The volume that the data of an OST is to be on; `None`: files in the directory.
    pub volume: Option<VolumeSpec>,
    /// Destroy the target that is there now.
    pub replace: bool,
}

/// A target cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The folder will not do.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The path leads to a file.
    #[error("{} is no directory: choose another", .0.display())]
    NotDirectory(PathBuf),
    /// Only a target whose name is known can be on a shared log.
    #[error("only the MGT, or an MDT with --index, can have its log in etcd")]
    NotShared,
    /// Files that the address of the log names cannot be used.
    #[error("--log: {0}")]
    Log(#[source] io::Error),
    /// Others cannot be kept out.
    #[error("cannot make {} private: {source}", .dir.display())]
    Private {
        /// The directory of the target.
        dir: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Settings of the target that was there cannot be removed.
    #[error("cannot remove {}: {source}", .path.display())]
    OldSettings {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Threads cannot be started.
    #[error("cannot start threads: {0}")]
    Threads(#[source] io::Error),
}

/// True if there is a target in the directory, whatever its state.
pub fn is_target(dir: &Path) -> bool {
    dir.join(target::superblock::SUPERBLOCK).exists()
}

/// True if there is an OST in the directory. A superblock that cannot be read is reported when the
/// target is opened.
pub fn is_ost(dir: &Path) -> bool {
    let bytes = std::fs::read(dir.join(target::superblock::SUPERBLOCK)).unwrap_or_default();
    Superblock::decode(&bytes).is_ok_and(|block| block.kind == TargetKind::Ost)
}

/// Makes one target, in a folder that only its owner may enter: what users keep private lies there
/// in plain files. Durable when this returns.
///
/// # Errors
/// The folder holds something, is in use, or cannot be written.
pub fn format(spec: &FormatSpec) -> Result<(), FormatError> {
    if spec.dir.exists() && !spec.dir.is_dir() {
        return Err(FormatError::NotDirectory(spec.dir.clone()));
    }
    let config = RealConfig { reactors: 1, blocking_threads: 1 };
    let (env, guard) = RealEnv::start(config).map_err(FormatError::Threads)?;
    // The MGS makes the cluster's UUID at its first start, and gives it to other targets when they
    // register.
    let wanted = target::FormatSpec {
        index: spec.index,
        volume: spec.volume.clone(),
        replace: spec.replace,
        ..target::FormatSpec::new(spec.fsname, spec.kind)
    };
    let made = match &spec.log {
        None => target::format(&env, &spec.dir, &wanted).map_err(FormatError::from),
        Some(members) => format_shared(&env, spec, &wanted, members),
    };
    drop(guard);
    made?;
    // A new target holds nothing yet that could have been seen before this line.
    std::fs::set_permissions(&spec.dir, Permissions::from_mode(0o700))
        .map_err(|source| FormatError::Private { dir: spec.dir.clone(), source })?;
    // The settings that `mkfs.sheen --mgsnode` wrote for the target that was there before.
    let path = Home::new(&spec.dir).settings_path();
    match std::fs::remove_file(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(FormatError::OldSettings { path, source })
        }
        _ => Ok(()),
    }
}

/// Makes a target on a shared log, or a copy of one that is there already.
fn format_shared(
    env: &Env,
    spec: &FormatSpec,
    wanted: &target::FormatSpec,
    members: &Members,
) -> Result<(), FormatError> {
    let name = match (spec.kind, spec.index) {
        (TargetKind::Mgt, _) => TargetName::mgs(),
        (TargetKind::Mdt, Some(index)) => TargetName::mdt(spec.fsname, index.0),
        _ => return Err(FormatError::NotShared),
    };
    let identity = |log: &SharedLog, store, text: &str| {
        if spec.kind != TargetKind::Mgt {
            return Ok(Identity::of_store(store));
        }
        let (cluster, key) = identity_of(text).ok_or_else(|| log.foreign("it names no cluster"))?;
        Ok(Identity { store, cluster, key })
    };
    let name = name.to_string();
    let kv = Arc::new(Etcd::new(members.clone(), Etcd::DEADLINE).map_err(FormatError::Log)?);
    let blobs = blobs_of(members).map_err(FormatError::Log)?;
    let dir = &spec.dir;
    let made = target::format::format_over(env, dir, wanted, |drawn| {
        let replica = replica_of(dir);
        let log = SharedLog::new(kv, &members.keys_of(&name), drawn, &replica, &replica)
            .with_blobs(blobs)
            .for_mgs(&mgs_text(&spec.mgs));
        log.probe_blobs()?;
        let new = match spec.kind {
            TargetKind::Mgt => {
                let drawn = || env.random.next_u128().max(1);
                identity_text(ClusterId(drawn()), ServerKey(drawn()))
            }
            _ => String::new(),
        };
        let mut left = ATTEMPTS;
        let made = loop {
            match log.create(&new) {
                Err(StoreError::NoAnswer { .. }) if left > 0 => {
                    left -= 1;
                    std::thread::sleep(PAUSE);
                }
                made => break made?,
            }
        };
        let made = identity(&log, made.store, &made.identity)?;
        Journalled::create_tree(env, dir, made.store, &JournalledOptions::default())?;
        let path = dir.join(LOG);
        let fail = |action| StoreError::io(action, &path);
        let file = env.disk.open(&path, Open::Create).map_err(fail("create"))?;
        let text = format!("{members}\n");
        file.set_len(0).map_err(fail("write"))?;
        file.write_all_at(text.as_bytes(), 0).map_err(fail("write"))?;
        file.sync_data().map_err(fail("sync"))?;
        Ok(made)
    });
    Ok(made?)
}

/// The cluster of the MGT in this folder; one that never was in service founds its cluster here,
/// and not at its first start.
///
/// # Errors
/// The folder holds no MGT, or cannot be written.
pub fn cluster_of(mgt: &Path) -> Result<ClusterId, FormatError> {
    let config = RealConfig { reactors: 1, blocking_threads: 1 };
    let (env, guard) = RealEnv::start(config).map_err(FormatError::Threads)?;
    let cluster = found(&env, mgt);
    drop(guard);
    Ok(cluster?)
}

fn found(env: &Env, mgt: &Path) -> Result<ClusterId, TargetError> {
    let block = target::superblock::read(env, mgt)?;
    if block.kind != TargetKind::Mgt {
        return Err(TargetError::Kind {
            dir: mgt.to_owned(),
            found: block.kind,
            wanted: TargetKind::Mgt,
        });
    }
    if block.cluster != ClusterId(0) {
        return Ok(block.cluster);
    }
    let drawn = || env.random.next_u128().max(1);
    let block = Superblock { cluster: ClusterId(drawn()), key: ServerKey(drawn()), ..block };
    target::superblock::write(env, mgt, &block)?;
    Ok(block.cluster)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(dir: &Path, replace: bool) -> FormatSpec {
        FormatSpec {
            kind: TargetKind::Ost,
            fsname: FsName::default(),
            index: None,
            dir: dir.to_owned(),
            log: None,
            mgs: Vec::new(),
            volume: None,
            replace,
        }
    }

    #[test]
    fn a_target_is_made_once_and_replaced_on_request() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("ost");
        assert!(!is_target(&dir));
        format(&spec(&dir, false)).unwrap();
        assert!(is_target(&dir));
        let mode = std::fs::metadata(&dir).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "others could read the objects of private files");
        let error = format(&spec(&dir, false)).unwrap_err().to_string();
        assert!(error.contains("--replace"), "{error}");
        // A target that was served and got settings by mkfs is still only a target.
        let home = Home::new(&dir);
        home.create_run_dir().unwrap();
        std::fs::write(home.settings_path(), "").unwrap();
        format(&spec(&dir, true)).unwrap();
        assert!(!home.settings_path().exists());
    }

    #[test]
    fn a_file_is_no_place_for_a_target() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let error = format(&spec(&file, true)).unwrap_err().to_string();
        assert!(error.contains("no directory"), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), b"x");
    }

    #[test]
    fn a_folder_of_somebody_else_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("thesis"), "x").unwrap();
        let error = format(&spec(dir.path(), true)).unwrap_err().to_string();
        assert!(error.contains("thesis"), "{error}");
    }
}
