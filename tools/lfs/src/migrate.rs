//! `lfs migrate`: files get other layouts, and their data goes along.
//!
//! A nameless neighbour is made with the layout, the data copied to it by ordinary reads and writes, and then the two
//! exchange layouts. The MDT refuses that if the file changed since its copying began, or if somebody has it open to write;
//! so nothing that anybody writes is lost. Whoever reads the file meanwhile goes on. If the command dies, the neighbour is
//! what it leaves behind, under a name that begins with `.lfs-migrate.`.

use crate::cli::MigrateArgs;
use crate::setstripe;
use ask::{mounts, versions, xattr};
use layout::lov_ea::{LovEa, encode_spec};
use report::{Report, strerror};
use rustix::fs::{CWD, FileType, Mode, SeekFrom, mknodat, seek};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use types::errno::Errno;

/// Bytes that are read and written at once.
const CHUNK_BYTES: usize = 4 << 20;
/// A file that changes again and again while it is copied is given up after so many copies.
const COPIES: u32 = 3;
/// So long a writer is waited for (with --non-block: as long as a close may take to reach the MDT).
const WAIT: Duration = Duration::from_secs(30);
const CLOSE_WAIT: Duration = Duration::from_secs(1);
/// The first pause between two questions; each is twice the one before, up to the last.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Migrates each file, and goes on where one fails.
pub fn run(args: &MigrateArgs, report: &mut Report<'_>) {
    if args.mdt.is_some() {
        report.sentence("directories cannot be moved to another MDT yet", Errno::EOPNOTSUPP);
        return;
    }
    if args.spec.delete {
        report.sentence("-d is for setstripe; without options a file gets the layout of its directory", Errno::EINVAL);
        return;
    }
    if args.spec.add {
        report.sentence("--component-add is for setstripe; a file is migrated to a whole layout", Errno::EINVAL);
        return;
    }
    if args.spec.del.is_some() {
        report.sentence("--component-del is for setstripe; a file is migrated to a whole layout", Errno::EINVAL);
        return;
    }
    let Some(wish) = setstripe::wished(&args.spec, report) else { return };
    for path in &args.spec.paths {
        if !setstripe::pools_serve(path, &wish, report) || !setstripe::osts_exist(path, &wish, report) {
            continue;
        }
        match migrate(path, &wish, args, report) {
            Ok(()) => {}
            Err(error) => failed("migrate", path, &error, report),
        }
    }
}

/// "cannot DO 'path'", and why.
fn failed(what: &str, path: &Path, error: &io::Error, report: &mut Report<'_>) {
    let errno = Errno::from(error);
    let (path, why) = (path.display(), strerror(errno));
    report.say(&format!("lfs migrate: cannot {what} '{path}': {why} ({})", errno.0));
    report.count(errno);
}

fn migrate(path: &Path, wish: &LovEa, args: &MigrateArgs, report: &mut Report<'_>) -> io::Result<()> {
    mounts::mount_of(path)?;
    // Through a symbolic link, as open(2) goes: the neighbour must be on the same MDT.
    let path = path.canonicalize()?;
    if !fs::metadata(&path)?.is_file() {
        return Err(io::Error::from_raw_os_error(Errno::EINVAL.0));
    }
    let mut copies = 1;
    loop {
        match once(&path, wish, args, report) {
            Err(error) if copies < COPIES && error.raw_os_error() == Some(Errno::EAGAIN.0) => copies += 1,
            result => return result,
        }
    }
}

/// One attempt: a neighbour is made, filled and exchanged; what it has then goes with it.
fn once(path: &Path, wish: &LovEa, args: &MigrateArgs, report: &mut Report<'_>) -> io::Result<()> {
    let made = make_neighbour(path)?;
    let done = through(path, &made, wish, args);
    if let Err(error) = fs::remove_file(&made) {
        failed("remove", &made, &error, report);
    }
    done
}

fn make_neighbour(path: &Path) -> io::Result<PathBuf> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let fid = xattr::get_text(path, types::about::FID)?;
    let name = dir.join(format!(".lfs-migrate.{}.{}", fid.trim_matches(['[', ']']), std::process::id()));
    mknodat(CWD, &name, FileType::RegularFile, Mode::from_raw_mode(0o600), 0)?;
    Ok(name)
}

fn through(path: &Path, made: &Path, wish: &LovEa, args: &MigrateArgs) -> io::Result<()> {
    if !wish.is_default() {
        xattr::set(made, xattr::LOV, &encode_spec(wish))?;
    }
    let version = versions::stored_version(path)?;
    let mut from = File::open(path)?;
    let mut to = OpenOptions::new().write(true).open(made)?;
    copy(&mut from, &mut to, args.bandwidth.map(|rate| rate.0))?;
    to.sync_all()?;
    drop(to);
    let until = Instant::now() + if args.non_block { CLOSE_WAIT } else { WAIT };
    let mut pause = PAUSE;
    loop {
        match versions::exchange(path, made, (version, 0), true) {
            Err(error) if error.raw_os_error() == Some(Errno::EBUSY.0) && Instant::now() < until => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(PAUSE_MAX);
            }
            result => return result,
        }
    }
}

/// Copies what is data; holes stay holes.
fn copy(from: &mut File, to: &mut File, bytes_per_second: Option<u64>) -> io::Result<()> {
    let size = from.metadata()?.size();
    let (begun, mut done, mut at) = (Instant::now(), 0u64, 0);
    let mut chunk = vec![0; CHUNK_BYTES];
    while at < size {
        let start = match seek(&*from, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = seek(&*from, SeekFrom::Hole(start))?.min(size);
        from.seek(io::SeekFrom::Start(start))?;
        to.seek(io::SeekFrom::Start(start))?;
        at = start;
        while at < end {
            let wanted = (end - at).min(CHUNK_BYTES as u64) as usize;
            let read = from.read(&mut chunk[..wanted])?;
            if read == 0 {
                // It became shorter: the versions will differ.
                return Err(io::Error::from_raw_os_error(Errno::EAGAIN.0));
            }
            to.write_all(&chunk[..read])?;
            at += read as u64;
            done += read as u64;
            if let Some(rate) = bytes_per_second {
                let due = Duration::from_secs_f64(done as f64 / rate as f64);
                std::thread::sleep(due.saturating_sub(begun.elapsed()));
            }
        }
    }
    to.set_len(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_bytes_the_size_and_the_holes() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let mut from = File::create_new(&a).unwrap();
        from.write_all(&[7; 70_000]).unwrap();
        from.seek(io::SeekFrom::Start(20 << 20)).unwrap();
        from.write_all(b"end").unwrap();
        from.set_len(30 << 20).unwrap();
        let (mut from, mut to) = (File::open(&a).unwrap(), File::create_new(&b).unwrap());
        copy(&mut from, &mut to, None).unwrap();
        assert!(fs::read(&a).unwrap() == fs::read(&b).unwrap());
        assert!(fs::metadata(&b).unwrap().blocks() * 512 < 1 << 20, "its holes take space");
    }

    #[test]
    fn bandwidth_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&a, vec![1; 300_000]).unwrap();
        let begun = Instant::now();
        copy(&mut File::open(&a).unwrap(), &mut File::create_new(&b).unwrap(), Some(1_000_000)).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(300));
    }
}
