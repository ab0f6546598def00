//! `lfs mkdir` (`setdirstripe`) and `getdirstripe`: on which MDTs directories are, and where those
//! go that are made in them.

use crate::cli::{GetdirstripeArgs, MkdirArgs};
use crate::patience;
use ask::mkdir_at::mkdir_at;
use ask::{mounts, xattr};
use layout::lmv_ea::{self, Shown};
use report::{Report, strerror};
use rustix::fs::{Mode, XattrFlags};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use types::dir_stripes::{DirDefault, DirHash, DirSpec, Levels, UnknownHash};
use types::errno::Errno;
use types::fid::Fid;
use types::limits::{DIR_STRIPES_MAX, TARGETS_MAX};
use types::target::{TargetIndex, TargetKind};

/// The stripes of a directory.
const LMV: &str = "lustre.lmv";
/// Where directories go that are made in it.
const DMV: &str = "lustre.dmv";
/// How many levels inherit a default with stripes, if nothing is said.
const INHERIT_STRIPED: u8 = 3;

/// What is wrong with the words of a command.
struct Refused(String);

impl From<UnknownHash> for Refused {
    fn from(unknown: UnknownHash) -> Refused {
        Refused(unknown.to_string())
    }
}

/// What is asked for.
struct Wanted {
    /// -1: as many as there are MDTs.
    count: Option<i32>,
    hash: Option<DirHash>,
    mdts: Vec<TargetIndex>,
    /// `-i -1`.
    any: bool,
}

impl Wanted {
    fn of(args: &MkdirArgs) -> Result<Wanted, Refused> {
        let mut wanted = Wanted { count: args.count, hash: None, mdts: Vec::new(), any: false };
        if let Some(word) = &args.hash {
            wanted.hash = Some(word.parse()?);
        }
        match args.mdts.as_deref() {
            None => {}
            Some([-1]) => wanted.any = true,
            Some(all) => {
                for mdt in all {
                    let index =
                        u16::try_from(*mdt).ok().filter(|mdt| usize::from(*mdt) < TARGETS_MAX);
                    let index = index.ok_or_else(|| Refused(format!("bad MDT index '{mdt}'")))?;
                    if wanted.mdts.contains(&TargetIndex(index)) {
                        return Err(Refused(format!("MDT index '{mdt}' is there twice")));
                    }
                    wanted.mdts.push(TargetIndex(index));
                }
            }
        }
        let least = if wanted.count.is_none() { 0 } else { wanted.mdts.len() };
        match wanted.count {
            Some(count) if !(-1..=DIR_STRIPES_MAX as i32).contains(&count) => Err(Refused(
                format!("bad stripe count '{count}'; at most {DIR_STRIPES_MAX} are possible"),
            )),
            Some(count) if count > 0 && (count as usize) < least => {
                Err(Refused(format!("{least} MDTs are named for {count} stripes")))
            }
            _ => Ok(wanted),
        }
    }

    /// True if mkdir(2) does what is asked for.
    fn is_plain(&self) -> bool {
        self.mdts.is_empty() && !self.any && matches!(self.count, None | Some(0..=1))
    }

    /// What a directory in this one gets; `mdts`: how many there are.
    fn spec(&self, mdts: impl FnOnce() -> io::Result<usize>) -> io::Result<DirSpec> {
        let count = match self.count {
            None => self.mdts.len(),
            Some(-1) => mdts()?.min(DIR_STRIPES_MAX),
            Some(count) => count as usize, // not negative
        };
        let (hash, mdts) = (self.hash.unwrap_or_default(), self.mdts.clone());
        Ok(DirSpec { count: count as u16, hash, mdts, any: self.any }) // at most TARGETS_MAX
    }

    fn default(&self, args: &MkdirArgs) -> Result<DirDefault, Refused> {
        let levels = |number: Option<i32>, none: Levels| match number {
            None => Ok(none),
            Some(number) => Levels::of_number(number).ok_or_else(|| {
                Refused(format!(
                    "bad number of levels '{number}'; -1 to {} are possible",
                    Levels::MAX
                ))
            }),
        };
        if self.mdts.len() > 1 {
            return Err(Refused("a default names one MDT at most".to_owned()));
        }
        let count = match self.count {
            Some(-1) => DIR_STRIPES_MAX as u16,
            count => count.unwrap_or(0) as u16, // not negative, at most DIR_STRIPES_MAX
        };
        let inherit = if count > 1 { Levels::Some(INHERIT_STRIPED) } else { Levels::All };
        Ok(DirDefault {
            count,
            hash: self.hash.unwrap_or_default(),
            mdt: self.mdts.first().copied(),
            inherit: levels(args.max_inherit, inherit)?,
            by_turns: levels(args.max_inherit_rr, Levels::None)?,
        })
    }
}

/// Makes directories, or sets or deletes their defaults. `there`: splits or merges those that are
/// there.
pub fn make(args: &MkdirArgs, there: bool, report: &mut Report<'_>) {
    let wanted = match Wanted::of(args) {
        Ok(wanted) => wanted,
        Err(Refused(why)) => return report.errno(&why, Errno::EINVAL),
    };
    if args.default || args.delete {
        return set_defaults(args, &wanted, report);
    }
    if args.max_inherit.is_some() || args.max_inherit_rr.is_some() {
        return report.sentence("levels are those of a default: -D", Errno::EINVAL);
    }
    let mode = match u32::from_str_radix(args.mode.as_deref().unwrap_or("777"), 8) {
        Ok(mode) if mode <= 0o7777 => mode,
        _ => return report.sentence("-o takes an octal mode: 755", Errno::EINVAL),
    };
    for path in &args.paths {
        if there && path.is_dir() {
            restripe(args, path, &wanted, report);
            continue;
        }
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let made = mounts::mount_of(parent).and_then(|mount| {
            let what = format!("creating directory '{}'", path.display());
            patience::waiting(&mount, &what, report, || match wanted.is_plain() {
                true => Ok(rustix::fs::mkdir(path, Mode::from_raw_mode(mode))?),
                false => {
                    let spec = wanted.spec(|| Ok(mount.targets(TargetKind::Mdt)?.len()))?;
                    mkdir_at(path, mode, spec)
                }
            })
        });
        if let Err(error) = made {
            failed(
                &format!("can't create directory '{}'", path.display()),
                &error,
                &wanted,
                report,
            );
        }
    }
}

/// Splits or merges a directory.
fn restripe(args: &MkdirArgs, path: &Path, wanted: &Wanted, report: &mut Report<'_>) {
    if args.mode.is_some() || !wanted.mdts.is_empty() || wanted.any {
        let why = format!(
            "'{}' is there: -c and -H change it; the MDTs of new stripes are chosen",
            path.display()
        );
        return report.sentence(&why, Errno::EINVAL);
    }
    let Some(count) = wanted.count else {
        return report.sentence("over how many MDTs? -c tells", Errno::EINVAL);
    };
    let count = if count == -1 { DIR_STRIPES_MAX as u16 } else { count as u16 }; // checked
    let hash = wanted.hash.unwrap_or_default();
    let mut value = lmv_ea::encode_default(&DirDefault { count, hash, ..DirDefault::default() });
    if wanted.hash.is_none() {
        lmv_ea::leave_hash(&mut value);
    }
    if let Err(error) = rustix::fs::setxattr(path, LMV, &value, XattrFlags::empty()) {
        let what = format!("can't set directory stripes of '{}'", path.display());
        if error == rustix::io::Errno::BUSY {
            let why = format!("{what}: its names move already; lfs getdirstripe shows when not");
            return report.sentence(&why, Errno::EBUSY);
        }
        failed(&what, &error.into(), wanted, report);
    }
}

fn set_defaults(args: &MkdirArgs, wanted: &Wanted, report: &mut Report<'_>) {
    let asks = args.max_inherit.is_some()
        || args.max_inherit_rr.is_some()
        || args.hash.is_some()
        || args.count.is_some()
        || args.mdts.is_some();
    if args.mode.is_some() || args.delete && asks {
        return report
            .sentence("-d goes without other letters but -D, -D without -o", Errno::EINVAL);
    }
    let default = match wanted.default(args) {
        Ok(default) => default,
        Err(Refused(why)) => return report.errno(&why, Errno::EINVAL),
    };
    for path in &args.paths {
        let set = is_directory(path).and_then(|()| match args.delete {
            true => match rustix::fs::removexattr(path, DMV) {
                // There was none.
                Err(rustix::io::Errno::NODATA) => Ok(()),
                removed => Ok(removed?),
            },
            false => {
                let value = lmv_ea::encode_default(&default);
                Ok(rustix::fs::setxattr(path, DMV, &value, XattrFlags::empty())?)
            }
        });
        if let Err(error) = set {
            failed(&format!("can't set default of '{}'", path.display()), &error, wanted, report);
        }
    }
}

fn failed(what: &str, error: &io::Error, wanted: &Wanted, report: &mut Report<'_>) {
    let errno = error.raw_os_error().unwrap_or(0);
    let why = match Errno(errno) {
        Errno::ERANGE if !wanted.mdts.is_empty() => {
            let mdts: Vec<String> = wanted.mdts.iter().map(|mdt| format!("MDT{mdt:?}")).collect();
            let which = if mdts.len() == 1 { "no " } else { "not all of " };
            format!("there is {which}{}", mdts.join(", "))
        }
        Errno::E2BIG => "there are fewer MDTs than stripes".to_owned(),
        _ => return report.failed(what, error),
    };
    let said = strerror(Errno(errno));
    report.sentence(&format!("{what}: {said} ({errno}); {why}; lfs mdts shows all"), Errno(errno));
}

/// Shows them.
///
/// # Errors
/// `out` cannot be written.
pub fn show(
    args: &GetdirstripeArgs,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    for path in &args.paths {
        show_below(args, path, out, report)?;
    }
    Ok(())
}

fn show_below(
    args: &GetdirstripeArgs,
    path: &Path,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let mut waiting = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        let shown = match args.default || args.max_inherit || args.max_inherit_rr {
            true => default_of(&path).map(|default| shown_default(args, default)),
            false => stripes_of(&path).map(|stripes| shown(args, &stripes)),
        };
        let shown = match shown {
            Ok(shown) => shown,
            Err(error) => {
                report.failed(
                    &format!("can't get directory stripes of '{}'", path.display()),
                    &error,
                );
                continue;
            }
        };
        if args.recursive {
            writeln!(out, "{}", path.display())?;
        }
        out.write_all(shown.as_bytes())?;
        if args.recursive {
            match directories(&path) {
                Ok(below) => waiting.extend(below),
                Err(error) => {
                    report.failed(&format!("can't read directory '{}'", path.display()), &error)
                }
            }
        }
    }
    Ok(())
}

/// Where a directory is.
pub(crate) enum Place {
    /// On this MDT.
    Whole(u16),
    /// On several.
    Striped(Shown),
}

impl Place {
    /// Stripes; 0: it has none beside itself.
    pub(crate) fn count(&self) -> usize {
        match self {
            Place::Whole(_) => 0,
            Place::Striped(shown) => shown.fids.len(),
        }
    }

    /// The MDTs of its stripes; the first is that of the directory itself.
    pub(crate) fn mdts(&self) -> Vec<u16> {
        match self {
            Place::Whole(mdt) => vec![*mdt],
            Place::Striped(shown) => shown.fids.iter().map(|fid| fid.mdt()).collect(),
        }
    }

    /// How names tell their stripes, and whether they move: the words of `getdirstripe`.
    pub(crate) fn hash(&self) -> String {
        match self {
            Place::Whole(_) => "none".to_owned(),
            Place::Striped(Shown { hash, migrating: false, .. }) => hash.to_string(),
            Place::Striped(Shown { hash, migrating: true, .. }) => format!("{hash},migrating"),
        }
    }
}

fn shown(args: &GetdirstripeArgs, place: &Place) -> String {
    let (count, hash) = (place.count(), place.hash());
    let (offset, all) = match place {
        Place::Whole(mdt) => (*mdt, &[][..]),
        Place::Striped(Shown { fids, .. }) => {
            (fids.first().map_or(0, |master| master.mdt()), &fids[..])
        }
    };
    if args.count {
        return format!("{count}\n");
    } else if args.index {
        return format!("{offset}\n");
    } else if args.hash {
        return format!("{hash}\n");
    }
    if args.yaml {
        let head = format!(
            "lmv_stripe_count: {count}\nlmv_stripe_offset: {offset}\nlmv_hash_type: {hash}\n"
        );
        let object = |fid: &Fid| format!("  - mdtidx: {}\n    fid: \"{fid}\"\n", fid.mdt());
        let objects: String = all.iter().map(object).collect();
        let title = if all.is_empty() { "" } else { "lmv_objects:\n" };
        return format!("{head}{title}{objects}");
    }
    let head =
        format!("lmv_stripe_count: {count} lmv_stripe_offset: {offset} lmv_hash_type: {hash}\n");
    if all.is_empty() {
        return head;
    }
    let line = |fid: &Fid| format!("{:6}\t\t {fid}\t\t\n", fid.mdt());
    let lines: String = all.iter().map(line).collect();
    format!("{head}mdtidx\t\t FID[seq:oid:ver]\n{lines}\n")
}

fn shown_default(args: &GetdirstripeArgs, default: Option<DirDefault>) -> String {
    let DirDefault { count, mdt, inherit, by_turns, .. } = default.unwrap_or_default();
    let count = if usize::from(count) == DIR_STRIPES_MAX { -1 } else { i32::from(count) };
    let offset = mdt.map_or(-1, |mdt| i32::from(mdt.0));
    let hash = default.filter(|default| default.count > 1).map_or("none", |d| d.hash.word());
    let (inherit, by_turns) = (inherit.number(), by_turns.number());
    if args.count {
        format!("{count}\n")
    } else if args.index {
        format!("{offset}\n")
    } else if args.hash {
        format!("{hash}\n")
    } else if args.max_inherit {
        format!("{inherit}\n")
    } else if args.max_inherit_rr {
        format!("{by_turns}\n")
    } else {
        let between = if args.yaml { "\n" } else { " " };
        let words = [
            format!("lmv_stripe_count: {count}"),
            format!("lmv_stripe_offset: {offset}"),
            format!("lmv_hash_type: {hash}"),
            format!("lmv_max_inherit: {inherit}"),
            format!("lmv_max_inherit_rr: {by_turns}"),
        ];
        words.join(between) + "\n"
    }
}

fn is_directory(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path)?.is_dir() {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(Errno::ENOTDIR.0)),
    }
}

/// `None`: it has no such attribute.
fn read(path: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    match xattr::get(path, name) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.raw_os_error() == Some(Errno::ENODATA.0) => Ok(None),
        Err(error) => Err(error),
    }
}

fn bad(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Where a directory is.
///
/// # Errors
/// ENOTDIR, or those of getxattr(2). InvalidData: a value that is none.
pub(crate) fn stripes_of(path: &Path) -> io::Result<Place> {
    is_directory(path)?;
    let text = xattr::get_text(path, types::about::FID)?;
    let fid: Fid = text.trim_end().parse().map_err(bad)?;
    match read(path, LMV)? {
        Some(value) => Ok(Place::Striped(lmv_ea::decode(&value).map_err(bad)?)),
        None => Ok(Place::Whole(fid.mdt())),
    }
}

fn default_of(path: &Path) -> io::Result<Option<DirDefault>> {
    is_directory(path)?;
    // That it is of this file system.
    xattr::get_text(path, types::about::FID)?;
    read(path, DMV)?.map(|value| lmv_ea::decode_default(&value).map_err(bad)).transpose()
}

/// Last first.
fn directories(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(letter: char) -> GetdirstripeArgs {
        GetdirstripeArgs {
            count: letter == 'c',
            index: letter == 'i',
            hash: letter == 'H',
            default: letter == 'D',
            max_inherit: letter == 'X',
            max_inherit_rr: letter == 'R',
            yaml: letter == 'y',
            recursive: false,
            paths: Vec::new(),
        }
    }

    #[test]
    fn lines_are_as_lustre_prints_them() {
        let whole = |letter| shown(&args(letter), &Place::Whole(2));
        assert_eq!(whole(' '), "lmv_stripe_count: 0 lmv_stripe_offset: 2 lmv_hash_type: none\n");
        assert_eq!(['c', 'i', 'H'].map(whole), ["0\n", "2\n", "none\n"]);
        let fid = |mdt: u64| Fid { seq: Fid::SEQ_NORMAL + mdt * Fid::SEQ_WIDTH, oid: 2, ver: 0 };
        let of = |migrating| {
            Place::Striped(Shown { hash: DirHash::Crush, migrating, fids: vec![fid(0), fid(1)] })
        };
        let place = of(false);
        assert_eq!(shown(&args('H'), &of(true)), "crush,migrating\n");
        assert_eq!(
            shown(&args(' '), &place),
            "lmv_stripe_count: 2 lmv_stripe_offset: 0 lmv_hash_type: crush\n\
             mdtidx\t\t FID[seq:oid:ver]\n     0\t\t [0x200000400:0x2:0x0]\t\t\n     1\t\t [0x240000400:0x2:0x0]\t\t\n\n"
        );
        assert_eq!(['c', 'i', 'H'].map(|l| shown(&args(l), &place)), ["2\n", "0\n", "crush\n"]);
        assert_eq!(
            shown_default(&args('D'), None),
            "lmv_stripe_count: 0 lmv_stripe_offset: -1 lmv_hash_type: none lmv_max_inherit: 0 lmv_max_inherit_rr: 0\n"
        );
        let default = DirDefault {
            count: 2,
            hash: DirHash::Fnv1a64,
            mdt: Some(TargetIndex(1)),
            inherit: Levels::All,
            by_turns: Levels::Some(3),
        };
        let of = |letter| shown_default(&args(letter), Some(default));
        assert_eq!(['c', 'i', 'H', 'X', 'R'].map(of), ["2\n", "1\n", "fnv_1a_64\n", "-1\n", "3\n"]);
    }

    fn mkdir(mdts: &[i32], count: Option<i32>, hash: Option<&str>) -> MkdirArgs {
        MkdirArgs {
            mdts: (!mdts.is_empty()).then(|| mdts.to_vec()),
            count,
            hash: hash.map(str::to_owned),
            mode: None,
            default: false,
            delete: false,
            max_inherit: None,
            max_inherit_rr: None,
            paths: Vec::new(),
        }
    }

    #[test]
    fn letters_say_where_a_directory_goes() {
        let spec = |args: &MkdirArgs| {
            let Ok(wanted) = Wanted::of(args) else { panic!("it is refused") };
            (!wanted.is_plain()).then(|| wanted.spec(|| Ok(7)).unwrap())
        };
        let of = |count, mdts: &[u16], any| {
            let mdts = mdts.iter().copied().map(TargetIndex).collect();
            Some(DirSpec { count, hash: DirHash::Crush, mdts, any })
        };
        assert_eq!([spec(&mkdir(&[], None, None)), spec(&mkdir(&[], Some(1), None))], [None, None]);
        assert_eq!(spec(&mkdir(&[3], None, None)), of(1, &[3], false));
        assert_eq!(spec(&mkdir(&[3, 1], None, None)), of(2, &[3, 1], false));
        assert_eq!(spec(&mkdir(&[3], Some(4), None)), of(4, &[3], false));
        assert_eq!(spec(&mkdir(&[-1], None, None)), of(0, &[], true));
        assert_eq!(spec(&mkdir(&[], Some(-1), None)), of(7, &[], false));
        let hash = spec(&mkdir(&[], Some(2), Some("all_char"))).unwrap().hash;
        assert_eq!(hash, DirHash::AllChar);
        let refused = |args: MkdirArgs| match Wanted::of(&args) {
            Err(Refused(why)) => why,
            Ok(_) => panic!("it is taken"),
        };
        assert_eq!(refused(mkdir(&[4096], None, None)), "bad MDT index '4096'");
        assert_eq!(refused(mkdir(&[1, 1], None, None)), "MDT index '1' is there twice");
        assert_eq!(refused(mkdir(&[1, 2, 3], Some(2), None)), "3 MDTs are named for 2 stripes");
        assert_eq!(
            refused(mkdir(&[], Some(-2), None)),
            "bad stripe count '-2'; at most 128 are possible"
        );
        assert!(
            refused(mkdir(&[], Some(2), Some("md5"))).contains("all_char, fnv_1a_64 and crush")
        );
    }
}
