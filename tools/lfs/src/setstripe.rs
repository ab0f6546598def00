//! `lfs setstripe`: files with a layout, default layouts of directories.

use crate::cli::{Fewer, SetstripeArgs};
use crate::{spec, yaml};
use ask::fit::{self, Unfit};
use ask::mounts::{self, Mount};
use ask::xattr;
use layout::layout::EOF;
use layout::lov_ea::{LovEa, decode, encode_spec};
use report::{Report, strerror};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use types::errno::Errno;

/// Sets the layout of each path, and goes on where one fails.
pub fn run(args: &SetstripeArgs, report: &mut Report<'_>) {
    if args.add {
        return args.paths.iter().for_each(|path| add(path, args, report));
    }
    if let Some(fewer) = &args.del {
        let first = match fewer {
            Fewer::From(id) => *id,
            Fewer::WithoutObjects => 0,
            Fewer::Other(None) => {
                return report.errno(
                    "--component-del needs -I ID or --component-flags ^init",
                    Errno::EINVAL,
                );
            }
            Fewer::Other(Some(flags)) => {
                let sentence = format!(
                    "--component-flags {flags}: only components without objects (^init) can go"
                );
                return report.errno(&sentence, Errno::EINVAL);
            }
        };
        return args.paths.iter().for_each(|path| delete_components(path, first, report));
    }
    let Some(wish) = wished(args, report) else { return };
    for path in &args.paths {
        let may_be =
            args.delete || pools_serve(path, &wish, report) && osts_exist(path, &wish, report);
        if !may_be {
            continue;
        }
        let shown = path.display();
        match (fs::metadata(path).is_ok_and(|m| m.is_dir()), args.delete) {
            (true, true) => {
                let done = real(path).and_then(|dir| xattr::remove(&dir, xattr::LOV));
                if let Err(error) = done {
                    report.failed(&format!("can't delete default layout of '{shown}'"), &error);
                }
            }
            (true, false) => set_default(path, &wish, report),
            (false, true) => match fs::metadata(path) {
                Ok(_) => report.errno(&format!("can't delete layout of '{shown}'"), Errno::ENOTDIR),
                Err(error) => report.failed(&format!("can't delete layout of '{shown}'"), &error),
            },
            (false, false) => make(path, &wish, report),
        }
    }
}

/// The layout that the options describe, that of another file, or that of a template.
pub(crate) fn wished(args: &SetstripeArgs, report: &mut Report<'_>) -> Option<LovEa> {
    if args.mirrors.is_some_and(|mirrors| mirrors != 1) {
        report.sentence("files have no mirrors yet; only -N1 can be had", Errno::EOPNOTSUPP);
        return None;
    }
    if let Some(file) = &args.copy {
        let shown = file.display();
        let found = mounts::mount_of(file).and_then(|_| {
            let bytes = match xattr::get(file, xattr::LOV) {
                // A directory without a default of its own has the file system's.
                Err(e) if e.raw_os_error() == Some(Errno::ENODATA.0) => {
                    xattr::get(file, xattr::LOV_DEFAULT)?
                }
                got => got?,
            };
            decode(&bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
        });
        return found
            .map(LovEa::shape)
            .map_err(|e| report.failed(&format!("can't copy the layout of '{shown}'"), &e))
            .ok();
    }
    let judged = match &args.yaml {
        None => spec::wish(&args.steps),
        Some(file) => {
            let mut text = String::new();
            let read = match file.as_os_str() == "-" {
                true => io::stdin().take(yaml::BYTES_MAX).read_to_string(&mut text),
                false => fs::File::open(file)
                    .and_then(|f| f.take(yaml::BYTES_MAX).read_to_string(&mut text)),
            };
            if let Err(error) = read {
                report.failed(&format!("can't read '{}'", file.display()), &error);
                return None;
            }
            yaml::read(&text).and_then(spec::judged).map_err(|e| format!("{}: {e}", file.display()))
        }
    };
    judged.map_err(|sentence| report.errno(&sentence, Errno::EINVAL)).ok()
}

/// True if the requested pools exist and are not empty. Otherwise reports why. If no mount can be
/// asked, the later steps report that.
pub(crate) fn pools_serve(path: &Path, wish: &LovEa, report: &mut Report<'_>) -> bool {
    fits(path, wish, fit::pools, report)
}

/// True if the named OSTs exist. Otherwise reports why. If no mount can be asked, the later steps
/// report that.
pub(crate) fn osts_exist(path: &Path, wish: &LovEa, report: &mut Report<'_>) -> bool {
    fits(path, wish, fit::osts, report)
}

fn fits(
    path: &Path,
    wish: &LovEa,
    look: fn(&Mount, &LovEa) -> Option<Unfit>,
    report: &mut Report<'_>,
) -> bool {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(mount) = mounts::mount_of(path).or_else(|_| mounts::mount_of(parent)) else {
        return true;
    };
    let fsname = mount.names.fsname;
    match look(&mount, wish) {
        None => return true,
        Some(Unfit::EmptyPool(pool)) => report.sentence(
            &format!("pool '{fsname}.{pool}' has no OSTs; lctl pool_add {fsname}.{pool} OST"),
            Errno::EINVAL,
        ),
        Some(Unfit::NoPool(pool)) => report.sentence(
            &format!(
                "pool '{fsname}.{pool}' does not exist; lfs pool_list {fsname} shows those that do"
            ),
            Errno::ENOENT,
        ),
        Some(Unfit::NoOst(ost)) => report.sentence(
            &format!(
                "OST {} of '{}' does not exist; lfs osts shows those that do",
                ost.0,
                path.display()
            ),
            Errno::EINVAL,
        ),
        Some(Unfit::Silent(pool, error)) => {
            report.failed(&format!("can't ask for pool '{pool}'"), &error)
        }
    }
    false
}

/// A layout was refused; where the number alone would not tell why, says more.
fn refused(what: &str, wish: &LovEa, error: &io::Error, report: &mut Report<'_>) {
    let errno = Errno::from(error);
    let hint = match errno {
        Errno::EINVAL if wish.is_on_mdt() => {
            "the MDT takes less of a file than that; lctl get_param lod.*.dom_stripesize"
        }
        Errno::ENOSPC => "no OST that it may be on has space and is active; lfs df shows them",
        Errno::E2BIG => {
            "it would take more than 65536 bytes as an attribute; use fewer stripes or components"
        }
        _ => return report.failed(what, error),
    };
    report.sentence(&format!("{what}: {} ({}); {hint}", strerror(errno), errno.0), errno);
}

/// The directory itself, should the path be a symbolic link.
fn real(path: &Path) -> io::Result<std::path::PathBuf> {
    mounts::mount_of(path)?;
    path.canonicalize()
}

fn set_default(path: &Path, wish: &LovEa, report: &mut Report<'_>) {
    let shown = path.display();
    let done = real(path).and_then(|dir| match wish.is_default() {
        true => xattr::remove(&dir, xattr::LOV),
        false => xattr::set(&dir, xattr::LOV, &encode_spec(wish)),
    });
    if let Err(error) = done {
        refused(&format!("can't set default layout of '{shown}'"), wish, &error, report);
    }
}

/// Adds components after those of a file.
fn add(path: &Path, args: &SetstripeArgs, report: &mut Report<'_>) {
    let what = format!("can't add components to '{}'", path.display());
    let layout = mounts::mount_of(path).and_then(|_| {
        let bytes = match fs::metadata(path)?.is_file() {
            true => xattr::get(path, xattr::LOV)?,
            false => return Err(io::Error::from_raw_os_error(Errno::EINVAL.0)),
        };
        decode(&bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
    });
    let start = match layout {
        Ok(ea) => ea.layout.components.last().map_or(0, |c| c.end),
        Err(error) => return report.failed(&what, &error),
    };
    if start == EOF {
        return report.sentence(
            &format!("{what}: its components reach to the end of the file"),
            Errno::EINVAL,
        );
    }
    let wish = match spec::wish_behind(&args.steps, start) {
        Ok(wish) => wish,
        Err(sentence) => return report.errno(&sentence, Errno::EINVAL),
    };
    if pools_serve(path, &wish, report)
        && let Err(error) = xattr::set(path, xattr::LOV_ADD, &encode_spec(&wish))
    {
        refused(&what, &wish, &error, report);
    }
}

/// The last components of a file go, with their bytes, from number `first` on; 0: all that have no
/// objects.
fn delete_components(path: &Path, first: u32, report: &mut Report<'_>) {
    let what = format!("can't delete components of '{}'", path.display());
    let done =
        mounts::mount_of(path).and_then(|_| xattr::set(path, xattr::LOV_DEL, &first.to_le_bytes()));
    let Err(error) = done else { return };
    let hint = match Errno::from(&error) {
        Errno::EINVAL => {
            "it has no such component, or nothing would be left; lfs getstripe -v shows their lcme_id"
        }
        Errno::EBUSY => {
            "they have objects, and somebody has the file open to write, or it is being settled"
        }
        Errno::ENODATA => "all of them have objects",
        _ => return report.failed(&what, &error),
    };
    report.sentence(
        &format!("{what}: {} ({}); {hint}", strerror(Errno::from(&error)), Errno::from(&error).0),
        Errno::from(&error),
    );
}

fn make(path: &Path, wish: &LovEa, report: &mut Report<'_>) {
    let shown = path.display();
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A file that was made but not opened to be written takes a layout; mknod(2) makes such a one.
    // As open(2) of Lustre's command: the umask decides.
    let mode = Mode::from_raw_mode(0o666);
    let made = mounts::mount_of(parent)
        .and_then(|_| mknodat(CWD, path, FileType::RegularFile, mode, 0).map_err(io::Error::from));
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return give(path, wish, &error, report);
        }
        Err(error) => return report.failed(&format!("can't create '{shown}'"), &error),
        Ok(()) => {}
    }
    if wish.is_default() {
        return;
    }
    if let Err(error) = xattr::set(path, xattr::LOV, &encode_spec(wish)) {
        refused(&format!("can't set layout of '{shown}'"), wish, &error, report);
        if let Err(error) = fs::remove_file(path) {
            report.failed(
                &format!("can't remove '{shown}', which was made without its layout"),
                &error,
            );
        }
    }
}

/// Gives a layout to a file that exists, if it has neither data nor a layout that was asked for:
/// mknod(2) makes such a one.
fn give(path: &Path, wish: &LovEa, exists: &io::Error, report: &mut Report<'_>) {
    let what = format!("can't create '{}'", path.display());
    let file =
        match path.canonicalize().and_then(|file| fs::metadata(&file).map(|found| (file, found))) {
            Ok((file, found)) if found.is_file() => file,
            Ok(_) => return report.failed(&what, exists),
            Err(error) => return report.failed(&what, &error),
        };
    let value = match wish.is_default() {
        false => Ok(encode_spec(wish)),
        // The layout that it was created with stays, if it can be set at all.
        true => xattr::get(&file, xattr::LOV).and_then(|value| {
            let ea = decode(&value).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
            Ok(encode_spec(&ea.shape()))
        }),
    };
    match value.and_then(|value| xattr::set(&file, xattr::LOV, &value)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => report.failed(&what, exists),
        Err(error) => {
            refused(&format!("can't set layout of '{}'", path.display()), wish, &error, report)
        }
        Ok(()) => {}
    }
}
