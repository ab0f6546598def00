//! `lfs migrate -m`: directories go to other MDTs, with all that is below them.
//!
//! A directory is asked to go first; its MDT then moves its names by itself, and this waits for
//! that. So a command that is interrupted, or a server that dies, leaves nothing half done: the
//! names go on, and the same command finishes the rest. Then each thing in it is moved in turn.

use crate::cli::MigrateArgs;
use crate::cli::setstripe::Step;
use crate::spec::{Count, MdtList};
use ask::{mounts, xattr};
use layout::dir_stripes::{DirStripes, MDTS_XATTR, RECORD_XATTR};
use layout::layout::ALL_OSTS;
use report::{Report, strerror};
use rustix::fs::XattrFlags;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use types::about;
use types::dir_stripes::{DirHash, DirSpec};
use types::errno::Errno;
use types::fid::Fid;
use types::limits::DIR_STRIPES_MAX;
use types::target::{TargetIndex, TargetKind};

/// The first pause between two looks at a directory; each is twice the one before, up to the last.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// How often a directory whose names move for another reason is asked to go.
const BUSY_MAX: u32 = 600;

/// What one command moves.
struct Work<'a, 'b> {
    args: &'a MigrateArgs,
    spec: DirSpec,
    report: &'a mut Report<'b>,
}

/// Moves each path, and goes on where one fails.
///
/// # Errors
/// `out` cannot be written.
pub fn run(
    args: &MigrateArgs,
    mdts: &MdtList,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let Some(paths) = args.spec.0.paths.first() else {
        report.sentence("-m moves what is named after it, and takes no list", Errno::EINVAL);
        return Ok(());
    };
    let all = mounts::mount_of(paths).and_then(|mount| mount.targets(TargetKind::Mdt));
    let all = match all {
        Ok(all) => all.len(),
        Err(error) => {
            report.failed(&format!("can't migrate '{}'", paths.display()), &error);
            return Ok(());
        }
    };
    let spec = match wanted(args, mdts, all) {
        Ok(spec) => spec,
        Err(why) => {
            report.sentence(&why, Errno::EINVAL);
            return Ok(());
        }
    };
    let mut work = Work { args, spec, report };
    for path in &args.spec.0.paths {
        work.tree(path, out)?;
    }
    Ok(())
}

/// What each directory gets; `all`: how many MDTs there are.
fn wanted(args: &MigrateArgs, mdts: &MdtList, all: usize) -> Result<DirSpec, String> {
    let spec = &args.spec.0;
    let count = match spec.steps[..] {
        [] => None,
        [Step::Count(Count(ALL_OSTS))] => Some(all.min(DIR_STRIPES_MAX)),
        [Step::Count(Count(count))] => Some(usize::from(count).max(1)),
        _ => return Err("-m goes with -c, -H, -d and -v only".to_owned()),
    };
    if spec.add || spec.del.is_some() || spec.copy.is_some() || spec.yaml.is_some() {
        return Err("-m goes with -c, -H, -d and -v only".to_owned());
    }
    let named = mdts.0.clone().unwrap_or_default();
    let count = count.unwrap_or(named.len().max(1));
    if count < named.len() {
        return Err(format!("{} MDTs are named for {count} stripes", named.len()));
    }
    if count > DIR_STRIPES_MAX {
        return Err(format!("bad stripe count '{count}'; at most {DIR_STRIPES_MAX} are possible"));
    }
    let hash = match &args.hash {
        None => DirHash::default(),
        Some(word) => word.parse().map_err(|unknown| format!("{unknown}"))?,
    };
    // At most DIR_STRIPES_MAX.
    Ok(DirSpec { count: count as u16, hash, mdts: named, any: mdts.0.is_none() })
}

impl Work<'_, '_> {
    /// Moves a directory, then what is in it.
    fn tree(&mut self, path: &Path, out: &mut dyn Write) -> io::Result<()> {
        let mut waiting = vec![path.to_owned()];
        while let Some(path) = waiting.pop() {
            let (is_dir, names) = match fs::symlink_metadata(&path) {
                Ok(meta) => (meta.is_dir(), meta.nlink()),
                Err(error) => {
                    self.failed(&path, &error);
                    continue;
                }
            };
            let moved = if is_dir { self.directory(&path) } else { self.file(&path, names) };
            if let Err(error) = moved {
                self.failed(&path, &error);
                continue;
            }
            if self.args.verbose {
                let to = match &self.spec.mdts[..] {
                    [] => "any MDT".to_owned(),
                    mdts => {
                        let mdts: Vec<String> = mdts.iter().map(|m| m.0.to_string()).collect();
                        format!("MDT{}", mdts.join(","))
                    }
                };
                let count = self.spec.count;
                writeln!(out, "migrate {} to {to} stripe count {count}", path.display())?;
            }
            if !is_dir || self.args.spec.0.delete {
                continue;
            }
            match below(&path) {
                Ok(paths) => waiting.extend(paths),
                Err(error) => self.failed(&path, &error),
            }
        }
        Ok(())
    }

    /// Has a directory go, and waits until its names are there.
    fn directory(&self, path: &Path) -> io::Result<()> {
        let mut pause = PAUSE;
        for tries in 1.. {
            match ask(path, &self.spec) {
                Err(error)
                    if error.raw_os_error() == Some(Errno::EBUSY.0)
                        && tries < BUSY_MAX
                        && names_move(path)? => {}
                asked => {
                    asked?;
                    break;
                }
            }
            wait(&mut pause);
        }
        let mut pause = PAUSE;
        while names_move(path)? {
            wait(&mut pause);
        }
        Ok(())
    }

    /// Has anything but a directory go. Of several MDTs it goes to the one that has its name. If it
    /// has several names and is on any of the MDTs it stays: each name would take it elsewhere.
    fn file(&self, path: &Path, names: u64) -> io::Result<()> {
        let DirSpec { count, mdts, .. } = &self.spec;
        if *count <= 1 {
            return ask(path, &self.spec);
        }
        let all_named = mdts.len() >= usize::from(*count);
        if names > 1 && (!all_named || mdts.contains(&TargetIndex(fid_of(path)?.mdt()))) {
            return Ok(());
        }
        let mdt = mdt_of_name(path)?.filter(|mdt| !all_named || mdts.contains(mdt));
        let mdts = mdt.or(mdts.first().copied()).into_iter().collect();
        ask(path, &DirSpec { count: 1, mdts, ..self.spec.clone() })
    }

    fn failed(&mut self, path: &Path, error: &io::Error) {
        let what = format!("can't migrate '{}'", path.display());
        let errno = Errno(error.raw_os_error().unwrap_or(0));
        let why = match errno {
            Errno::ERANGE => {
                let mdts: Vec<String> =
                    self.spec.mdts.iter().map(|m| format!("MDT{m:?}")).collect();
                let which = if mdts.len() == 1 { "no " } else { "not all of " };
                format!("there is {which}{}; lfs mdts shows all", mdts.join(", "))
            }
            Errno::E2BIG => "there are fewer MDTs than stripes; lfs mdts shows all".to_owned(),
            Errno::ETIMEDOUT => "an MDT does not answer; lfs check mdts shows which".to_owned(),
            Errno::EBUSY if path.is_dir() => {
                "it is the root of the file system, or its names move".to_owned()
            }
            Errno::EBUSY => "a program has it open".to_owned(),
            Errno::EPERM => "only root may".to_owned(),
            _ => return self.report.failed(&what, error),
        };
        let said = strerror(errno);
        self.report.sentence(&format!("{what}: {said} ({}); {why}", errno.0), errno);
    }
}

fn ask(path: &Path, spec: &DirSpec) -> io::Result<()> {
    let name = String::from_utf8_lossy(MDTS_XATTR);
    Ok(rustix::fs::lsetxattr(path, &*name, &spec.encode(), XattrFlags::empty())?)
}

fn fid_of(path: &Path) -> io::Result<Fid> {
    let fid = xattr::get_text(path, about::FID)?;
    fid.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The MDT that has a name, if its directory lies on several.
fn mdt_of_name(path: &Path) -> io::Result<Option<TargetIndex>> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let stripes = stripes_of(dir)?;
    Ok(stripes.map(|stripes| TargetIndex(stripes.place(name.as_bytes()).mdt())))
}

fn wait(pause: &mut Duration) {
    std::thread::sleep(*pause);
    *pause = (*pause * 2).min(PAUSE_MAX);
}

/// True if names of a directory move between its stripes.
fn names_move(path: &Path) -> io::Result<bool> {
    Ok(stripes_of(path)?.is_some_and(|stripes| stripes.moving().is_some()))
}

/// The stripes of a directory that lies, or lay, on several MDTs.
fn stripes_of(path: &Path) -> io::Result<Option<DirStripes>> {
    let record = match xattr::get(path, &String::from_utf8_lossy(RECORD_XATTR)) {
        Err(error) if error.raw_os_error() == Some(Errno::ENODATA.0) => return Ok(None),
        record => record?,
    };
    let stripes = DirStripes::decode(&record);
    stripes.map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// What is in a directory. Other mounts are left alone: they are not asked what they are.
fn below(path: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect()
}
