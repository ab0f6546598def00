//! Source of a mount: `NID[,NID...]:/FSNAME[/DIRECTORY...]`, as in fstab. A colon may stand between
//! the NIDs of several nodes, as in Lustre.

use std::fmt;
use std::str::FromStr;
use types::dir_path::{BadDirPath, DirPath};
use types::nid::Nid;
use types::target::FsName;

/// NIDs of one MGS tried for a mount, at most.
pub const MGS_NIDS_MAX: usize = 16;

/// First field of an fstab line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountSource {
    /// NIDs at which the MGS may be, best first; 1..=16.
    pub mgs: Vec<Nid>,
    /// The file system.
    pub fsname: FsName,
    /// The directory of it, below the fileset of the client's nodemap; the root: all of it.
    pub directory: DirPath,
}

/// The text names nothing that can be mounted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadMountSource {
    /// The text is not of the form.
    #[error(
        "{0:?} names no file system; use NID[,NID...]:/FSNAME, for example 10.0.0.1@tcp:/sheen"
    )]
    Form(String),
    /// A bad NID.
    #[error(transparent)]
    Nid(#[from] types::nid::BadNid),
    /// A bad file system name.
    #[error(transparent)]
    FsName(#[from] types::target::BadTargetName),
    /// A bad path of a directory.
    #[error(transparent)]
    Directory(#[from] BadDirPath),
    /// Too many.
    #[error("{0} NIDs are too many; name at most {MGS_NIDS_MAX}")]
    TooMany(usize),
}

impl FromStr for MountSource {
    type Err = BadMountSource;

    fn from_str(s: &str) -> Result<MountSource, BadMountSource> {
        let (nids, path) = s.split_once(":/").ok_or_else(|| BadMountSource::Form(s.to_owned()))?;
        let (fsname, directory) = path.split_once('/').unwrap_or((path, ""));
        let (fsname, directory) = (fsname.parse()?, directory.parse()?);
        let nids = nids_apart(nids);
        if nids.len() > MGS_NIDS_MAX {
            return Err(BadMountSource::TooMany(nids.len()));
        }
        let mgs = nids.into_iter().map(str::parse).collect::<Result<Vec<Nid>, _>>()?;
        Ok(MountSource { mgs, fsname, directory })
    }
}

/// NIDs with commas or colons between them. A colon before the network (`[::1]:7@tcp`) belongs to
/// the address.
pub fn nids_apart(nids: &str) -> Vec<&str> {
    let end_of_first = |nids: &str| {
        let network = nids.find('@')?;
        nids[network..].find([',', ':']).map(|end| network + end)
    };
    let (mut all, mut rest) = (Vec::new(), nids);
    while let Some(end) = end_of_first(rest) {
        all.push(&rest[..end]);
        rest = &rest[end + 1..];
    }
    all.push(rest);
    all
}

impl fmt::Display for MountSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, nid) in self.mgs.iter().enumerate() {
            write!(f, "{}{nid}", if i == 0 { "" } else { "," })?;
        }
        write!(f, ":/{}{}", self.fsname, self.directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_round_trip() {
        for text in ["10.0.0.1@tcp:/sheen", "10.0.0.1:7988@tcp,[::1]:7@tcp:/a-b/c", "0@lo:/x"] {
            assert_eq!(text.parse::<MountSource>().unwrap().to_string(), text);
        }
        let failover =
            "10.0.0.1@tcp,10.1.0.1@tcp:10.0.0.2@tcp:[::1]:7@tcp:/x".parse::<MountSource>().unwrap();
        assert_eq!(failover.to_string(), "10.0.0.1@tcp,10.1.0.1@tcp,10.0.0.2@tcp,[::1]:7@tcp:/x");
        assert_eq!("0@lo:/x/".parse::<MountSource>().unwrap().to_string(), "0@lo:/x");
        let below = "0@lo:/x/home/a:/b,c/".parse::<MountSource>().unwrap();
        assert_eq!(
            (below.fsname.as_str(), below.directory.to_string()),
            ("x", "/home/a:/b,c".into())
        );
    }

    #[test]
    fn bad_sources_say_why() {
        for (text, reason) in [
            ("", "names no file system"),
            ("/dev/sda1", "names no file system"),
            ("10.0.0.1:/sheen", "is no NID"),
            ("10.0.0.1@tcp:/", "no file system name"),
            ("10.0.0.1@tcp:/sheen/a/../b", "is no path of a directory"),
            ("10.0.0.1@tcp:/nine-long", "no file system name"),
        ] {
            let error = text.parse::<MountSource>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
        let many = format!("{}:/sheen", vec!["10.0.0.1@tcp"; 17].join(","));
        assert_eq!(many.parse::<MountSource>(), Err(BadMountSource::TooMany(17)));
    }
}
