//! The place that the user named: a home at work or at rest, folders of targets, or the address of
//! the MGS.

use crate::error::FsckError;
use crate::offline::Offline;
use crate::online::Online;
use crate::source::Source;
use env::Env;
use node::config::mount_source::MountSource;
use node::config::settings::Settings;
use node::home::Home;
use node::manage::control::{self, Answer, Request};
use std::path::PathBuf;
use target::superblock::SUPERBLOCK;
use types::dir_path::DirPath;
use types::nid::Nid;
use types::target::FsName;

/// Place of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Targets at rest.
    Folders(Vec<PathBuf>),
    /// A cluster, and the home of a node of it that runs, if that was named.
    Cluster(MountSource, Option<PathBuf>),
}

impl Place {
    /// Finds out.
    ///
    /// # Errors
    /// It is nothing of the kind, or a node that cannot be asked.
    pub fn find(named: &[String]) -> Result<Place, FsckError> {
        if let [one] = named
            && let Some(cluster) = cluster(one)
        {
            if !cluster.directory.is_root() {
                return Err(FsckError::Directory(cluster));
            }
            return Ok(Place::Cluster(cluster, None));
        }
        let mut folders = Vec::new();
        for name in named {
            let dir = std::path::absolute(name)?;
            let home = Home::new(&dir);
            if dir.join(SUPERBLOCK).is_file() {
                folders.push(dir);
            } else if !home.exists() {
                return Err(FsckError::NoPlace(name.clone()));
            } else if home.is_taken()? {
                return of_node(&home);
            } else {
                folders.extend(Settings::read(&home)?.targets);
            }
        }
        Ok(Place::Folders(folders))
    }

    /// Opens it.
    ///
    /// # Errors
    /// See [`FsckError`].
    pub async fn open(self, env: &Env) -> Result<Source, FsckError> {
        match self {
            Place::Folders(dirs) => Ok(Source::Offline(Offline::open(env, &dirs)?)),
            Place::Cluster(source, home) => {
                Ok(Source::Online(Online::connect(env, source, home).await?))
            }
        }
    }
}

/// `NID[,NID...][:/FSNAME]`
fn cluster(text: &str) -> Option<MountSource> {
    text.parse().ok().or_else(|| {
        let mgs =
            text.split(',').map(|nid| nid.parse::<Nid>().ok()).collect::<Option<Vec<Nid>>>()?;
        Some(MountSource { mgs, fsname: FsName::default(), directory: DirPath::ROOT })
    })
}

/// A node that runs: where it, or its MGS, can be reached.
fn of_node(home: &Home) -> Result<Place, FsckError> {
    let (answer, _) = control::ask(home, &Request::Status)?;
    let Answer::Status(status) = answer else {
        return Err(FsckError::NoPlace(home.dir().display().to_string()));
    };
    let (answer, _) = control::ask(home, &Request::Settings)?;
    let told =
        if let Answer::Settings { settings } = answer { settings.mgs.clone() } else { Vec::new() };
    let own = || status.nids.iter().filter_map(|nid| nid.parse().ok());
    let mgs: Vec<Nid> =
        if told.is_empty() { own().filter(|nid| *nid != Nid::Loopback).collect() } else { told };
    let fsname =
        status.fsname.parse().map_err(|_| FsckError::NoFileSystem(status.fsname.clone()))?;
    if mgs.is_empty() {
        return Err(FsckError::NotListening(home.dir().to_owned()));
    }
    let source = MountSource { mgs, fsname, directory: DirPath::ROOT };
    Ok(Place::Cluster(source, Some(home.dir().to_owned())))
}
