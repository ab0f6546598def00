//! `lfs migrate`: files get other layouts, and their data goes along.
//!
//! A nameless neighbour is made with the layout, the data is copied to it by ordinary reads and
//! writes, and then the two exchange layouts. The MDT refuses the exchange if the file changed
//! since its copying began, or if another process has it open for writing. So no write is lost, and
//! readers of the file go on. If the command dies, it leaves the neighbour behind, under a name
//! that begins with `.lfs-migrate.`.

use crate::cli::MigrateArgs;
use crate::{migrate_mdt, setstripe};
use ask::{links, mounts, versions, xattr};
use layout::layout::{POOL_IGNORED, Pattern, PoolName};
use layout::lov_ea::{LovEa, decode, encode_spec};
use layout::stripe_spec::plain;
use report::{Report, strerror};
use rustix::fs::{CWD, FileType, Mode, SeekFrom, mknodat, seek};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use types::errno::Errno;
use types::fid::Fid;
use types::limits::STRIPES_MAX;

/// Bytes that are read and written at once.
const CHUNK_BYTES: usize = 4 << 20;
/// Longest line of a list of files, bytes: PATH_MAX and its end.
const NAME_BYTES_MAX: u64 = 4097;
/// Seconds between two lines of --stats.
const STATS_SECONDS: u32 = 5;
/// A file that changes again and again while it is copied is given up after so many copies.
const COPIES: u32 = 3;
/// How long a writer is waited for (with --non-block: as long as a close may take to reach the
/// MDT).
const WAIT: Duration = Duration::from_secs(30);
const CLOSE_WAIT: Duration = Duration::from_secs(1);
/// The first pause between two questions; each is twice the one before, up to the last.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// The layout that the files shall get.
enum Wish {
    /// The present one: only the objects are new.
    Same,
    /// One that suits their size.
    Auto,
    /// This one. If it leaves everything open, their directories decide.
    Layout(LovEa),
}

/// Migrates each file, and goes on where one fails.
///
/// # Errors
/// `out` cannot be written.
pub fn run(args: &MigrateArgs, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    if let Some(mdts) = &args.mdt {
        return migrate_mdt::run(args, mdts, out, report);
    }
    let spec = &args.spec.0;
    let refused = match () {
        () if spec.delete => Some((
            "-d is for setstripe; --restripe gives the layout of the directory",
            Errno::EINVAL,
        )),
        () if spec.add => Some((
            "--component-add is for setstripe; a file is migrated to a whole layout",
            Errno::EINVAL,
        )),
        () if spec.del.is_some() => Some((
            "--component-del is for setstripe; a file is migrated to a whole layout",
            Errno::EINVAL,
        )),
        () => None,
    };
    if let Some((sentence, errno)) = refused {
        report.sentence(sentence, errno);
        return Ok(());
    }
    let Some(given) = setstripe::wished(spec, report) else { return Ok(()) };
    let says_nothing = spec.steps.is_empty() && spec.copy.is_none() && spec.yaml.is_none();
    let wish = match (args.auto_stripe, args.restripe) {
        (true, _) => Wish::Auto,
        (false, false) if says_nothing => Wish::Same,
        (false, _) => Wish::Layout(given),
    };
    for path in &spec.paths {
        one(path, &wish, args, out, report)?;
    }
    let Some(list) = &args.files_from else { return Ok(()) };
    let file: Box<dyn Read> = match list.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => match File::open(list) {
            Ok(file) => Box::new(file),
            Err(error) => {
                report.failed(&format!("can't read '{}'", list.display()), &error);
                return Ok(());
            }
        },
    };
    let end = if args.null { 0 } else { b'\n' };
    let mut lines = BufReader::new(file);
    loop {
        let mut name = Vec::new();
        match lines.by_ref().take(NAME_BYTES_MAX).read_until(end, &mut name) {
            Ok(0) => return Ok(()),
            Ok(bytes) if bytes as u64 == NAME_BYTES_MAX && name.last() != Some(&end) => {
                report.sentence(
                    &format!("'{}' has a name that is too long for a path", list.display()),
                    Errno::ENAMETOOLONG,
                );
                return Ok(());
            }
            Ok(_) => {}
            Err(error) => {
                report.failed(&format!("can't read '{}'", list.display()), &error);
                return Ok(());
            }
        }
        name.pop_if(|last| *last == end);
        if !name.is_empty() {
            one(Path::new(OsStr::from_bytes(&name)), &wish, args, out, report)?;
        }
    }
}

/// Migrates one file, by its path or FID.
fn one(
    named: &Path,
    wish: &Wish,
    args: &MigrateArgs,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let found = match &args.lustre_dir {
        None => Ok(named.to_owned()),
        Some(dir) => by_fid(dir, named),
    };
    let path = match found {
        Ok(path) => path,
        Err(error) => {
            failed("migrate", named, &error, report);
            return Ok(());
        }
    };
    if let Wish::Layout(wish) = wish
        && !(setstripe::pools_serve(&path, wish, report)
            && setstripe::osts_exist(&path, wish, report))
    {
        return Ok(());
    }
    let interval = match (args.stats, args.stats_interval) {
        (false, None) => None,
        (_, seconds) => Some(Duration::from_secs(seconds.unwrap_or(STATS_SECONDS).into())),
    };
    let mut stats =
        Stats { interval, begun: Instant::now(), told: Instant::now(), out, written: Ok(()) };
    stats.begin(named);
    if let Err(error) = migrate(&path, wish, args, &mut stats, report) {
        failed("migrate", named, &error, report);
    }
    stats.written
}

/// A file's name by its FID, below the directory that it is in, by that one's FID.
fn by_fid(dir: &Path, fid: &Path) -> io::Result<PathBuf> {
    let bad = || io::Error::from_raw_os_error(Errno::EINVAL.0);
    let fid: Fid = fid.to_str().ok_or_else(bad)?.parse().map_err(|_| bad())?;
    let mount = mounts::mount_of(dir)?;
    let (parent, name) = links::known(&mount.dir, fid)?.into_iter().next().ok_or_else(bad)?;
    let parent = match parent == links::root_of(&mount)? {
        true => mount.dir,
        false => mount.dir.join(format!(".lustre/fid/{parent}")),
    };
    Ok(parent.join(OsStr::from_bytes(&name)))
}

/// Tells how far a file is.
struct Stats<'a> {
    interval: Option<Duration>,
    begun: Instant,
    told: Instant,
    out: &'a mut dyn Write,
    written: io::Result<()>,
}

impl Stats<'_> {
    fn begin(&mut self, path: &Path) {
        if self.interval.is_some() && self.written.is_ok() {
            self.written = writeln!(self.out, "{}:", path.display());
        }
    }

    /// So many bytes of so many are copied.
    fn copied(&mut self, bytes: u64, size: u64, end: bool) {
        let due =
            |interval: Duration| end || !interval.is_zero() && self.told.elapsed() >= interval;
        if self.written.is_ok() && self.interval.is_some_and(due) {
            self.told = Instant::now();
            let line = stats_line(self.begun.elapsed(), bytes, size);
            self.written = writeln!(self.out, "{line}").and_then(|()| self.out.flush());
        }
    }
}

/// Rates in MB per second, sizes in MiB.
fn stats_line(time: Duration, bytes: u64, size: u64) -> String {
    let rate = bytes as f64 / 1e6 / time.as_secs_f64().max(1e-6);
    let (copied, of, percent) = (
        bytes >> 20,
        size >> 20,
        (u128::from(bytes) * 100).checked_div(size.into()).unwrap_or(100),
    );
    let seconds = time.as_secs();
    format!(
        "- {{ seconds: {seconds}, rmbps: {rate:.1}, wmbps: {rate:.1}, copied: {copied}, size: {of}, pct: {percent}% }}"
    )
}

/// "cannot DO 'path'", and why.
fn failed(what: &str, path: &Path, error: &io::Error, report: &mut Report<'_>) {
    let errno = Errno::from(error);
    let (path, why) = (path.display(), strerror(errno));
    report.say(&format!("lfs migrate: cannot {what} '{path}': {why} ({})", errno.0));
    report.count(errno);
}

fn migrate(
    path: &Path,
    wish: &Wish,
    args: &MigrateArgs,
    stats: &mut Stats<'_>,
    report: &mut Report<'_>,
) -> io::Result<()> {
    mounts::mount_of(path)?;
    // Through a symbolic link, as open(2) goes: the neighbour must be on the same MDT.
    let path = path.canonicalize()?;
    if !fs::metadata(&path)?.is_file() {
        return Err(io::Error::from_raw_os_error(Errno::EINVAL.0));
    }
    let mut copies = 1;
    loop {
        match once(&path, wish, args, stats, report) {
            Err(error) if copies < COPIES && error.raw_os_error() == Some(Errno::EAGAIN.0) => {
                copies += 1
            }
            result => return result,
        }
    }
}

/// One attempt: a neighbour is made, filled and exchanged. The old objects go with it.
fn once(
    path: &Path,
    wish: &Wish,
    args: &MigrateArgs,
    stats: &mut Stats<'_>,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let made = make_neighbour(path)?;
    let done = through(path, &made, wish, args, stats);
    if let Err(error) = fs::remove_file(&made) {
        failed("remove", &made, &error, report);
    }
    done
}

fn make_neighbour(path: &Path) -> io::Result<PathBuf> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let fid = xattr::get_text(path, types::about::FID)?;
    let name =
        dir.join(format!(".lfs-migrate.{}.{}", fid.trim_matches(['[', ']']), std::process::id()));
    mknodat(CWD, &name, FileType::RegularFile, Mode::from_raw_mode(0o600), 0)?;
    Ok(name)
}

/// The layout that a file is to have; `None`: what its directory gave to the neighbour.
fn wished(path: &Path, wish: &Wish) -> io::Result<Option<LovEa>> {
    match wish {
        Wish::Layout(wish) if wish.is_default() => Ok(None),
        Wish::Layout(wish) => Ok(Some(wish.clone())),
        Wish::Auto => {
            let count = auto_stripes(fs::metadata(path)?.size());
            Ok(Some(LovEa { layout: plain(count, 0, None) }))
        }
        Wish::Same => {
            let ea = decode(&xattr::get(path, xattr::LOV)?)
                .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
            Ok(Some(same(ea)))
        }
    }
}

/// The shape of a layout. Without a pool of its own it does not get that of the directory.
fn same(ea: LovEa) -> LovEa {
    let mut ea = ea.shape();
    for c in
        ea.layout.components.iter_mut().filter(|c| c.pattern == Pattern::Raid0 && c.pool.is_none())
    {
        c.pool = PoolName::new(POOL_IGNORED[0]);
    }
    ea
}

/// Stripes for a file of so many bytes: the square root of its GiB, and one more (lfs-migrate(1)).
fn auto_stripes(bytes: u64) -> u16 {
    let stripes = (bytes >> 30).isqrt() + 1;
    u16::try_from(stripes).unwrap_or(u16::MAX).min(STRIPES_MAX as u16)
}

fn through(
    path: &Path,
    made: &Path,
    wish: &Wish,
    args: &MigrateArgs,
    stats: &mut Stats<'_>,
) -> io::Result<()> {
    if let Some(wish) = wished(path, wish)? {
        xattr::set(made, xattr::LOV, &encode_spec(&wish))?;
    }
    let version = versions::stored_version(path)?;
    let mut from = File::open(path)?;
    let mut to = OpenOptions::new().write(true).open(made)?;
    copy(&mut from, &mut to, args.bandwidth.map(|rate| rate.0), &mut |at, size, end| {
        stats.copied(at, size, end)
    })?;
    to.sync_all()?;
    drop(to);
    let until = Instant::now() + if args.non_block { CLOSE_WAIT } else { WAIT };
    let mut pause = PAUSE;
    loop {
        match versions::exchange(path, made, (version, 0), true) {
            Err(error)
                if error.raw_os_error() == Some(Errno::EBUSY.0) && Instant::now() < until =>
            {
                std::thread::sleep(pause);
                pause = (pause * 2).min(PAUSE_MAX);
            }
            result => return result,
        }
    }
}

/// Copies the data; holes stay holes. `copied` is called with the byte that was reached, the total,
/// and whether that is the end.
fn copy(
    from: &mut File,
    to: &mut File,
    bytes_per_second: Option<u64>,
    copied: &mut dyn FnMut(u64, u64, bool),
) -> io::Result<()> {
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
                // The file became shorter: the versions will differ.
                return Err(io::Error::from_raw_os_error(Errno::EAGAIN.0));
            }
            to.write_all(&chunk[..read])?;
            at += read as u64;
            done += read as u64;
            copied(at, size, false);
            if let Some(rate) = bytes_per_second {
                let due = Duration::from_secs_f64(done as f64 / rate as f64);
                std::thread::sleep(due.saturating_sub(begun.elapsed()));
            }
        }
    }
    to.set_len(size)?;
    copied(size, size, true);
    Ok(())
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
        let mut told = Vec::new();
        copy(&mut from, &mut to, None, &mut |at, size, end| told.push((at, size, end))).unwrap();
        assert_eq!(told.last(), Some(&(30 << 20, 30 << 20, true)));
        assert!(fs::read(&a).unwrap() == fs::read(&b).unwrap());
        assert!(fs::metadata(&b).unwrap().blocks() * 512 < 1 << 20, "its holes take space");
    }

    #[test]
    fn stripes_follow_the_size() {
        let gib = |n: u64| auto_stripes(n << 30);
        assert_eq!((auto_stripes(0), auto_stripes((1 << 30) - 1)), (1, 1));
        assert_eq!((gib(1), gib(3), gib(4), gib(100), gib(1 << 33)), (2, 2, 3, 11, 2000));
    }

    #[test]
    fn progress_is_a_line_of_yaml() {
        let line = stats_line(Duration::from_millis(2500), 250 << 20, 1000 << 20);
        assert_eq!(
            line,
            "- { seconds: 2, rmbps: 104.9, wmbps: 104.9, copied: 250, size: 1000, pct: 25% }"
        );
        assert!(stats_line(Duration::ZERO, 0, 0).ends_with("copied: 0, size: 0, pct: 100% }"));
    }

    #[test]
    fn a_shape_is_kept_and_no_pool_comes_in() {
        let mut layout = layout::stripe_spec::default_layout(65_536);
        layout.components[1].stripes = vec![types::target::TargetIndex(3)];
        layout.components[2].pool = PoolName::new("flash");
        let same = same(LovEa { layout });
        let shapes: Vec<_> = same
            .layout
            .components
            .iter()
            .map(|c| (c.end, c.stripe_count, c.stripes.len()))
            .collect();
        assert_eq!(shapes, [(65_536, 0, 0), (1 << 30, 1, 0), (layout::layout::EOF, 4, 0)]);
        let pools: Vec<_> =
            same.layout.components.iter().map(|c| c.pool.as_ref().map(|p| &*p.0)).collect();
        assert_eq!(pools, [None, Some("ignore"), Some("flash")]);
    }

    #[test]
    fn bandwidth_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&a, vec![1; 300_000]).unwrap();
        let begun = Instant::now();
        copy(
            &mut File::open(&a).unwrap(),
            &mut File::create_new(&b).unwrap(),
            Some(1_000_000),
            &mut |_, _, _| (),
        )
        .unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(300));
    }
}
