//! Moving a name: over nothing, over another inode, or in exchange with it.
//!
//! Checks stand in the order of Linux' VFS, because programs see which error comes first.
//! Directories know their parent, so a move into a directory's own subtree is found by walking up
//! from the new place.

use crate::access::{WRITE, may_create, may_delete, permission};
use crate::context::Context;
use crate::inode::{Dirent, Inode, InodeFlags};
use crate::project;
use crate::unlink::{drop_directory, drop_link};
use crate::view::{Change, View, directory_of, home, is_empty, names_changed, target, whole};
use smallvec::SmallVec;
use types::errno::Errno;
use types::fid::Fid;

/// Longest chain of directories that is followed upward; a longer one is damage (a circle).
const DEPTH_MAX: usize = 1 << 20;

/// A place that a name can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place<'a> {
    /// Directory.
    pub parent: Fid,
    /// Name in it.
    pub name: &'a [u8],
}

/// Flags of rename(2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags {
    /// RENAME_NOREPLACE: an existing target is EEXIST.
    pub no_replace: bool,
    /// RENAME_EXCHANGE: the two swap names.
    pub exchange: bool,
}

/// Result of a rename.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Renamed {
    /// The inode that has the new name now.
    pub moved: Inode,
    /// The inode that had the new name before, and lost it (or, exchanged, has the old name).
    pub replaced: Option<Inode>,
}

/// Moves `from` to `to`.
///
/// # Errors
/// ENOENT, ENOTDIR, EISDIR, EEXIST, ENOTEMPTY, EACCES, EPERM (sticky bit), EMLINK; EINVAL: a
/// directory into itself, or both flags at once; EREMOTE: the view does not reach one of the
/// inodes, a stripe of a directory that is replaced, or a directory that leads from the new place
/// up to where the two places meet; EREMCHG: another stripe of a directory has the name; EXDEV: the
/// inode is of another project than the new directory hands on, or would leave its realm.
pub fn rename(
    view: &mut impl View,
    ctx: &Context<'_>,
    from: Place<'_>,
    to: Place<'_>,
    flags: Flags,
) -> Result<Renamed, Errno> {
    if flags.no_replace && flags.exchange {
        return Err(Errno::EINVAL);
    }
    let old_dir = directory_of(view, from.parent, from.name)?;
    let striped = old_dir.flags.contains(InodeFlags::STRIPED);
    let new_dir = match to.parent == from.parent && !striped {
        true => None,
        false => Some(directory_of(view, to.parent, to.name)?),
    };
    // Stripes of one directory are one place to a program.
    let old_whole = whole(view, &old_dir)?;
    let new_whole = new_dir.as_ref().map_or(Ok(old_whole), |new_dir| whole(view, new_dir))?;
    let apart = old_whole != new_whole;
    let new_dir = new_dir.filter(|_| to.parent != from.parent);
    let source =
        target(view, from.parent, view.dirent(from.parent, from.name)?.ok_or(Errno::ENOENT)?)?;
    let replaced = match view.dirent(to.parent, to.name)? {
        Some(_) if flags.no_replace => return Err(Errno::EEXIST),
        Some(dirent) => Some(target(view, to.parent, dirent)?),
        None if flags.exchange => return Err(Errno::ENOENT),
        None => None,
    };
    if apart {
        check_ancestry(view, &from, &to, &source, replaced.as_ref(), flags)?;
    }
    if let Some(other) = &replaced
        && other.fid() == source.fid()
    {
        // Two names of one inode: POSIX says that nothing happens.
        return Ok(Renamed { moved: source, replaced: None });
    }
    let old_home = home(view, &old_dir, from.name)?;
    let new_home = home(view, new_dir.as_ref().unwrap_or(&old_dir), to.name)?;
    let homes = (old_home, new_home);
    let dirs = Directories { old: old_dir, new: new_dir, homes, apart };
    check_permission(view, ctx, &dirs, &source, replaced.as_ref(), flags)?;
    if apart {
        check_projects(view, &dirs, &source, replaced.as_ref().filter(|_| flags.exchange))?;
    }
    match replaced {
        Some(other) if flags.exchange => {
            check_room(&dirs, other.is_dir(), source.is_dir())?;
            before(view, &from, &to, &source, Some(Change::named(other.fid(), false)))?;
            Ok(exchange(view, ctx, Move { from, to, dirs, source }, other))
        }
        other => {
            check_replaceable(view, &source, other.as_ref())?;
            check_room(&dirs, other.as_ref().is_some_and(Inode::is_dir), source.is_dir())?;
            let lost =
                other.as_ref().map(|o| Change::named(o.fid(), o.is_dir() || o.attr.nlink <= 1));
            before(view, &from, &to, &source, lost)?;
            Ok(replace(view, ctx, Move { from, to, dirs, source }, other))
        }
    }
}

/// The directories of both places; one only if they are the same.
struct Directories {
    old: Inode,
    new: Option<Inode>,
    /// As inodes record them ([`home`]): of the old place, of the new one.
    homes: (Fid, Fid),
    /// They are not one directory, nor stripes of one.
    apart: bool,
}

impl Directories {
    fn new_dir(&self) -> &Inode {
        self.new.as_ref().unwrap_or(&self.old)
    }

    /// Names in the old and the new place have changed; so many sub-directories came.
    fn store(mut self, view: &mut impl View, ctx: &Context<'_>, came_old: i32, came_new: i32) {
        match self.new {
            Some(mut new) => {
                names_changed(view, ctx, &mut self.old, came_old);
                names_changed(view, ctx, &mut new, came_new);
            }
            None => names_changed(view, ctx, &mut self.old, came_old + came_new),
        }
    }
}

/// A move that is allowed.
struct Move<'a> {
    from: Place<'a>,
    to: Place<'a>,
    dirs: Directories,
    /// The inode that has the old name.
    source: Inode,
}

/// A directory must not move below itself, and a replaced inode must not be above the source.
fn check_ancestry(
    view: &mut impl View,
    from: &Place<'_>,
    to: &Place<'_>,
    source: &Inode,
    replaced: Option<&Inode>,
    flags: Flags,
) -> Result<(), Errno> {
    if source.is_dir() && is_within(view, to.parent, source.fid(), from.parent)? {
        return Err(Errno::EINVAL);
    }
    if let Some(other) = replaced
        && other.is_dir()
        && is_within(view, from.parent, other.fid(), to.parent)?
    {
        return Err(if flags.exchange { Errno::EINVAL } else { Errno::ENOTEMPTY });
    }
    Ok(())
}

/// True if `dir` is the directory `top` or lies below it. `top` has its name in `parent`.
///
/// # Errors
/// EREMOTE: the chain upward leaves the view before that is known. EIO; those of [`View::above`].
fn is_within(view: &mut impl View, dir: Fid, top: Fid, parent: Fid) -> Result<bool, Errno> {
    let mut at = dir;
    for _ in 0..DEPTH_MAX {
        if at == top {
            return Ok(true);
        }
        if at == Fid::ROOT {
            return Ok(false);
        }
        if !view.reaches(dir, at) {
            // What is above both `dir` and `parent` is not below `top`, so the rest of the chain
            // does not matter if they meet on this MDT.
            return if meet_here(view, dir, parent)? { Ok(false) } else { Err(Errno::EREMOTE) };
        }
        at = view.above(at)?;
    }
    Err(Errno::EIO)
}

/// True if the chains upward meet in a directory of this MDT, or in the one to which both leave it.
fn meet_here(view: &mut impl View, one: Fid, other: Fid) -> Result<bool, Errno> {
    Ok(view.reaches(one, other) && first_elsewhere(view, one)? == first_elsewhere(view, other)?)
}

/// The first directory above `dir` that is not on this MDT; the root, if there is none.
fn first_elsewhere(view: &mut impl View, dir: Fid) -> Result<Fid, Errno> {
    let mut at = dir;
    for _ in 0..DEPTH_MAX {
        if at == Fid::ROOT || !view.reaches(dir, at) {
            return Ok(at);
        }
        at = view.above(at)?;
    }
    Err(Errno::EIO)
}

fn check_permission(
    view: &impl View,
    ctx: &Context<'_>,
    dirs: &Directories,
    source: &Inode,
    replaced: Option<&Inode>,
    flags: Flags,
) -> Result<(), Errno> {
    may_delete(view, ctx, &dirs.old, source)?;
    match replaced {
        Some(other) => {
            may_delete(view, ctx, dirs.new_dir(), other)?;
            if !flags.exchange {
                match (source.is_dir(), other.is_dir()) {
                    (true, false) => return Err(Errno::ENOTDIR),
                    (false, true) => return Err(Errno::EISDIR),
                    _ => {}
                }
            }
        }
        None => may_create(view, ctx, dirs.new_dir())?,
    }
    // A directory under another parent gets another `..`: that is a write to it.
    if dirs.apart {
        if source.is_dir() {
            permission(view, ctx, source, WRITE)?;
        }
        if let Some(other) = replaced.filter(|o| flags.exchange && o.is_dir()) {
            permission(view, ctx, other, WRITE)?;
        }
    }
    Ok(())
}

/// `exchanged`: the inode that gets the old name.
fn check_projects(
    view: &impl View,
    dirs: &Directories,
    source: &Inode,
    exchanged: Option<&Inode>,
) -> Result<(), Errno> {
    let (old, new) = (&dirs.old, dirs.new_dir());
    project::may_enter(view, source, Some(old), new)?;
    exchanged.map_or(Ok(()), |other| project::may_enter(view, other, Some(new), old))
}

fn check_replaceable(
    view: &impl View,
    source: &Inode,
    replaced: Option<&Inode>,
) -> Result<(), Errno> {
    match replaced {
        Some(other) if source.is_dir() && !is_empty(view, other)? => Err(Errno::ENOTEMPTY),
        _ => Ok(()),
    }
}

/// Checks the link counts of the directories. `leaves`: a directory leaves the new place; `comes`:
/// one comes.
fn check_room(dirs: &Directories, leaves: bool, comes: bool) -> Result<(), Errno> {
    match &dirs.new {
        Some(new) if comes && !leaves && new.attr.nlink == u32::MAX => Err(Errno::EMLINK),
        _ => Ok(()),
    }
}

/// Reports what changes: the names, the inode that moves, and the one that was there.
fn before(
    view: &mut impl View,
    from: &Place<'_>,
    to: &Place<'_>,
    source: &Inode,
    other: Option<Change<'_>>,
) -> Result<(), Errno> {
    let mut changes: SmallVec<[Change<'_>; 4]> = SmallVec::new();
    let mut old = Change::name(from.parent, from.name);
    if from.parent == to.parent {
        old.names[1] = Some(to.name);
    } else {
        changes.push(Change::name(to.parent, to.name));
    }
    changes.push(old);
    changes.push(Change::named(source.fid(), false));
    changes.extend(other);
    view.before(&changes)
}

fn replace(
    view: &mut impl View,
    ctx: &Context<'_>,
    moves: Move<'_>,
    mut replaced: Option<Inode>,
) -> Renamed {
    let Move { from, to, dirs, mut source } = moves;
    let (old, new) = dirs.homes;
    let (moved_dir, lost_dir) = (source.is_dir(), replaced.as_ref().is_some_and(Inode::is_dir));
    view.delete_dirent(from.parent, from.name);
    view.unnamed(&mut source, old, from.name);
    place(view, ctx, &to, new, &mut source);
    dirs.store(view, ctx, -i32::from(moved_dir), i32::from(moved_dir) - i32::from(lost_dir));
    if let Some(other) = &mut replaced {
        match lost_dir {
            true => drop_directory(view, ctx, other),
            false => drop_link(view, ctx, other, Place { parent: new, ..to }),
        }
    }
    Renamed { moved: source, replaced }
}

fn exchange(view: &mut impl View, ctx: &Context<'_>, moves: Move<'_>, mut other: Inode) -> Renamed {
    let Move { from, to, dirs, mut source } = moves;
    let (old, new) = dirs.homes;
    view.unnamed(&mut source, old, from.name);
    view.unnamed(&mut other, new, to.name);
    place(view, ctx, &to, new, &mut source);
    place(view, ctx, &from, old, &mut other);
    let difference = i32::from(source.is_dir()) - i32::from(other.is_dir());
    dirs.store(view, ctx, -difference, difference);
    Renamed { moved: source, replaced: Some(other) }
}

/// Puts an inode under a name; its change time is touched, as in ext4. `home`: the directory as
/// it records it.
fn place(view: &mut impl View, ctx: &Context<'_>, at: &Place<'_>, home: Fid, inode: &mut Inode) {
    view.put_dirent(at.parent, at.name, Dirent { fid: inode.fid(), file_type: inode.file_type() });
    named(view, ctx, &Place { parent: home, ..*at }, inode);
}

fn named(view: &mut impl View, ctx: &Context<'_>, at: &Place<'_>, inode: &mut Inode) {
    if inode.is_dir() {
        inode.parent = at.parent;
    }
    inode.changed(ctx);
    view.named(inode, at.parent, at.name);
    view.put_inode(inode);
}

/// An inode that is there has another name instead of one that it had. The names themselves may be
/// at other MDTs. The directories are those that inodes record ([`home`]).
pub fn moved(
    view: &mut impl View,
    ctx: &Context<'_>,
    inode: &mut Inode,
    from: Place<'_>,
    to: Place<'_>,
) {
    view.unnamed(inode, from.parent, from.name);
    named(view, ctx, &to, inode);
}
