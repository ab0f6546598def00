//! The places that are measured: mounts, references, the native client. Each has a folder of the
//! benchmark for the time of the run.

use crate::counts::Counts;
use crate::daemons::{self, Daemon};
use crate::failure::BenchError;
use crate::null::NullMount;
use crate::ranks::native::Native;
use crate::scrape::Scraping;
use bench_report::figure::{PlaceReport, Role};
use node::config::mount_source::MountSource;
use node::host::mount_table;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The word that asks for an empty FUSE file system as a reference.
pub const NULL: &str = "null";

/// Our folder in a file system; removed with everything in it when dropped, unless it is kept.
#[derive(Debug)]
struct Scratch {
    dir: PathBuf,
    is_kept: bool,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.dir)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            eprintln!(
                "sheen bench: cannot remove {}: {error}; remove it by hand",
                self.dir.display()
            );
        }
    }
}

/// One place.
pub struct Place {
    /// Path as it was given, `null`, or the source of the native client.
    pub name: String,
    /// Why it is there.
    pub role: Role,
    /// Type of the file system, for example `ext4`, `fuse.sheen`.
    pub fs_type: String,
    /// Our folder, seen through each mount of the place. Empty for the native client.
    pub dirs: Vec<PathBuf>,
    /// True if it is a SheenFS.
    pub is_sheen: bool,
    /// Processes that serve it.
    pub daemons: Vec<Daemon>,
    /// True if its metrics are read while it is measured.
    pub scraped: bool,
    /// The client of [`Role::Native`].
    pub native: Option<Arc<Native>>,
    // Before what it lies in.
    _scratch: Option<Scratch>,
    _null: Option<NullMount>,
}

impl Place {
    /// As the report has it.
    pub fn described(&self) -> PlaceReport {
        PlaceReport {
            name: self.name.clone(),
            role: self.role,
            fs_type: self.fs_type.clone(),
            daemons: self.daemons.iter().map(|d| (d.name.clone(), d.pid)).collect(),
        }
    }

    /// The mounts at `paths`, which must all show the same file system.
    ///
    /// # Errors
    /// A path is missing or not writable, or shows something else.
    pub fn mounts(paths: &[PathBuf], role: Role) -> Result<Place, BenchError> {
        Place::in_folder(paths, role, &format!("sheen-bench.{}", std::process::id()))
    }

    /// The mounts at `paths` once more, as a reference whose metrics are read meanwhile.
    ///
    /// # Errors
    /// As [`Place::mounts`]; its daemons show no metrics.
    pub fn watched(paths: &[PathBuf]) -> Result<Place, BenchError> {
        let folder = format!("sheen-bench.{}.watched", std::process::id());
        let mut place = Place::in_folder(paths, Role::Reference, &folder)?;
        if !place.daemons.iter().any(|daemon| daemon.http.is_some()) {
            return Err(BenchError::Usage(format!(
                "no daemon of {} shows metrics: nothing can be watched",
                place.name
            )));
        }
        place.name += " watched";
        place.scraped = true;
        Ok(place)
    }

    /// The same place, whose folder stays: its file system is removed as a whole.
    pub fn kept(mut self) -> Place {
        if let Some(scratch) = &mut self._scratch {
            scratch.is_kept = true;
        }
        self
    }

    /// Reads its metrics from now on, if that is wanted.
    ///
    /// # Errors
    /// A daemon shows none.
    pub fn scrape(&self) -> Result<Option<Scraping>, BenchError> {
        let all: Vec<SocketAddr> = self.daemons.iter().filter_map(|daemon| daemon.http).collect();
        self.scraped.then(|| Scraping::start(&all)).transpose()
    }

    fn in_folder(paths: &[PathBuf], role: Role, folder: &str) -> Result<Place, BenchError> {
        let absolute = |path: &PathBuf| path.canonicalize().map_err(BenchError::at("find", path));
        let paths = paths.iter().map(absolute).collect::<Result<Vec<_>, _>>()?;
        let first =
            paths.first().ok_or_else(|| BenchError::Usage("name a path to measure".to_owned()))?;
        let scratch = first.join(folder);
        fs::create_dir(&scratch).map_err(BenchError::at("make a folder", &scratch))?;
        let scratch = Scratch { dir: scratch, is_kept: false };
        let dirs: Vec<PathBuf> = paths.iter().map(|path| path.join(folder)).collect();
        if let Some(other) = dirs.iter().find(|dir| !dir.is_dir()) {
            return Err(BenchError::Usage(format!(
                "{} and {} show different file systems; compare them with --reference",
                first.display(),
                other.parent().unwrap_or(other).display()
            )));
        }
        let mount = |path: &PathBuf| mount_table::mount_of(path).ok().flatten();
        let mounts: Vec<_> = paths.iter().filter_map(mount).collect();
        let source = mounts.first().and_then(|m| m.source.to_str()?.parse::<MountSource>().ok());
        let fs_type = mounts.first().map_or_else(|| "unknown".to_owned(), |m| m.fs_type.clone());
        // The empty file system has the same type, but counts nothing.
        let is_sheen = Counts::of(first).is_some();
        let daemons = match source.filter(|_| is_sheen) {
            Some(source) => {
                let at: Vec<&Path> = mounts.iter().map(|m| m.at.as_path()).collect();
                daemons::of(&source.fsname.to_string(), &at)
            }
            None => Vec::new(),
        };
        let name = paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
        Ok(Place {
            name,
            role,
            fs_type,
            dirs,
            is_sheen,
            daemons,
            scraped: false,
            native: None,
            _scratch: Some(scratch),
            _null: None,
        })
    }

    /// An empty FUSE file system, mounted for the run.
    ///
    /// # Errors
    /// It cannot be mounted: that needs root and `/dev/fuse`.
    pub fn null() -> Result<Place, BenchError> {
        let null = NullMount::start()?;
        let mut place = Place::mounts(&[null.path().to_owned()], Role::Reference)?;
        place.name = NULL.to_owned();
        place.daemons = vec![Daemon::new(null.pid(), "empty FUSE")];
        place._null = Some(null);
        Ok(place)
    }

    /// A place without a file system.
    pub fn bare(name: &str, role: Role, daemons: Vec<Daemon>) -> Place {
        Place {
            name: name.to_owned(),
            role,
            fs_type: "none".to_owned(),
            dirs: Vec::new(),
            is_sheen: false,
            daemons,
            scraped: false,
            native: None,
            _scratch: None,
            _null: None,
        }
    }

    /// The client's own interface, without FUSE.
    ///
    /// # Errors
    /// The servers do not answer.
    pub fn native(source: &MountSource) -> Result<Place, BenchError> {
        let native = Native::connect(source)?;
        Ok(Place {
            name: format!("native {source}"),
            role: Role::Native,
            fs_type: "native".to_owned(),
            dirs: Vec::new(),
            is_sheen: true,
            daemons: daemons::of(&source.fsname.to_string(), &[]),
            scraped: false,
            native: Some(Arc::new(native)),
            _scratch: None,
            _null: None,
        })
    }

    /// The reference of this name: [`NULL`], or a path.
    ///
    /// # Errors
    /// As [`Place::null`] and [`Place::mounts`].
    pub fn reference(name: &str) -> Result<Place, BenchError> {
        if name == NULL { Place::null() } else { Place::mounts(&[name.into()], Role::Reference) }
    }

    /// Our folder as the mount number `n` (counted round) shows it.
    pub fn dir(&self, n: usize) -> &Path {
        &self.dirs[n % self.dirs.len()]
    }
}
