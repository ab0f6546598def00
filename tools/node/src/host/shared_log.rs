//! The shared log of a target: its place stands in the file `log` of the target's folder.

use crate::config::settings::Settings;
use crate::error::NodeError;
use disk::superblock::Superblock;
use etcd::bucket::Bucket;
use etcd::s3::S3;
use etcd::url::Members;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::shared_log::BlobStore;
use target::format::LOG;
use target::superblock::SUPERBLOCK;
use types::nid::Nid;
use types::proof::ServerKey;
use types::session::ClusterId;
use types::target::TargetKind;

/// Longest file, bytes.
const FILE_BYTES_MAX: u64 = 4096;

/// The etcd that has the log of the target in `dir`; `None`: it has a log of its own.
///
/// # Errors
/// The file cannot be read, or names no etcd.
pub fn members_of(dir: &Path) -> Result<Option<Members>, NodeError> {
    let path = dir.join(LOG);
    let fail = |reason: String| NodeError::LogFile { path: path.clone(), reason };
    let text = match std::fs::metadata(&path) {
        Ok(found) if found.len() > FILE_BYTES_MAX => {
            return Err(fail(format!("it is longer than {FILE_BYTES_MAX} bytes")));
        }
        Ok(_) => std::fs::read_to_string(&path).map_err(|error| fail(error.to_string()))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error.to_string())),
    };
    text.trim().parse().map(Some).map_err(|error: etcd::url::BadMembers| fail(error.to_string()))
}

/// The store of blobs beside a log; `None`: it has none. Not connected yet. Blocks.
///
/// # Errors
/// A file that its address names cannot be used.
pub fn blobs_of(members: &Members) -> io::Result<Option<BlobStore>> {
    let connect = |bucket: &Bucket| {
        let blobs = Arc::new(S3::new(bucket)?);
        Ok(BlobStore::new(blobs, bucket.place()))
    };
    members.blobs.as_ref().map(connect).transpose()
}

/// True if this is the folder of an MGT that other hosts can take over. A superblock that cannot be
/// read is reported when the target is opened.
pub fn is_shared_mgt(dir: &Path) -> bool {
    let bytes = std::fs::read(dir.join(SUPERBLOCK)).unwrap_or_default();
    dir.join(LOG).exists()
        && Superblock::decode(&bytes).is_ok_and(|block| block.kind == TargetKind::Mgt)
}

/// NIDs of the MGS of these settings: the given ones, those of the hosts that may serve it, or this
/// very process.
pub fn mgs_nids(settings: &Settings) -> Vec<Nid> {
    let nodes = &settings.service_nodes;
    match &settings.mgs[..] {
        [] if !nodes.is_empty() && settings.targets.iter().any(|dir| is_shared_mgt(dir)) => {
            nodes.clone()
        }
        [] => vec![Nid::Loopback],
        given => given.to_vec(),
    }
}

/// A cluster and the key of its servers, as the log of a target keeps them: every host has both
/// before it serves the target, or asks its owner for the tree.
pub fn identity_text(cluster: ClusterId, key: ServerKey) -> String {
    format!("{:032x} {:032x}", cluster.0, key.0)
}

/// What [`identity_text`] wrote; `None`: nothing yet.
pub fn identity_of(text: &str) -> Option<(ClusterId, ServerKey)> {
    let (cluster, key) = text.split_once(' ')?;
    let number = |digits: &str| u128::from_str_radix(digits, 16).ok().filter(|n| *n != 0);
    Some((ClusterId(number(cluster)?), ServerKey(number(key)?)))
}

/// Where the MGS is, as the log of a target keeps it.
pub fn mgs_text(nids: &[Nid]) -> String {
    let nids: Vec<String> =
        nids.iter().filter(|nid| **nid != Nid::Loopback).map(Nid::to_string).collect();
    nids.join(" ")
}

/// The owner of a target (the name of its copy of the tree), and where others reach it, as one
/// line.
pub fn place_text(replica: &str, nids: &[Nid]) -> String {
    let nids: Vec<String> = nids.iter().map(Nid::to_string).collect();
    format!("{replica} at {}", nids.join(","))
}

/// NIDs of a network in what [`place_text`] wrote.
pub fn nids_of_place(place: &str) -> Vec<Nid> {
    let nids = place.rsplit_once(" at ").map_or("", |(_, nids)| nids);
    nids.split(',').filter_map(|nid| nid.parse().ok()).filter(|nid| *nid != Nid::Loopback).collect()
}

/// Name of the copy of a tree in this folder: several may be on one host.
pub fn replica_of(dir: &Path) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let dir: PathBuf = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    format!("{host}:{}", dir.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_names_a_cluster_or_none() {
        let two = identity_text(ClusterId(5), ServerKey(6));
        assert_eq!(identity_of(&two), Some((ClusterId(5), ServerKey(6))));
        for text in ["", "5", "0 6", "5 0", "x 6", "5 6 7"] {
            assert_eq!(identity_of(text), None, "{text}");
        }
    }

    #[test]
    fn an_owner_is_found_by_its_place() {
        let nids: Vec<Nid> =
            ["0@lo", "10.0.0.1:988@tcp"].iter().map(|nid| nid.parse().unwrap()).collect();
        let place = place_text("a host", &nids);
        assert_eq!(nids_of_place(&place), nids[1..]);
        assert_eq!(nids_of_place("test"), []);
    }
}
