//! Projects: a number that an inode has, and that a directory may hand on to what is made in it.
//!
//! As project quotas have it everywhere, nothing gets a name in a directory that hands on another
//! project (EXDEV). Numbers from [`REALM_FIRST`] on are those of *realms* (docs/security.md,
//! "Realms"): what has one of them gets no name outside of its realm either.

use crate::context::Context;
use crate::inode::{Inode, InodeFlags};
use crate::view::{Change, View};
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::project::{Project, REALM_FIRST};

/// The project of an inode.
///
/// # Errors
/// EIO: its record is damaged.
pub fn project(view: &impl View, inode: &Inode) -> Result<Project, Errno> {
    let id = match inode.flags.contains(InodeFlags::HAS_PROJECT) {
        true => view.project(inode)?,
        false => 0,
    };
    Ok(Project { id, inherit: inode.flags.contains(InodeFlags::PROJECT_INHERIT) })
}

/// The inode, which is put next, is of this project. Only a directory hands one on.
///
/// # Errors
/// EIO: its record is damaged.
pub fn assign(view: &impl View, inode: &mut Inode, project: Project) -> Result<(), Errno> {
    let Project { id, inherit } = project;
    if id != 0 || inode.flags.contains(InodeFlags::HAS_PROJECT) {
        view.set_project(inode, id)?;
    }
    inode.flags.set(InodeFlags::HAS_PROJECT, id != 0);
    inode.flags.set(InodeFlags::PROJECT_INHERIT, inherit && inode.is_dir());
    Ok(())
}

/// Sets the project of an inode; returns the changed inode.
///
/// # Errors
/// ENOENT; EPERM: the caller is not root; EINVAL: the number is a realm's, and not the inode's own.
pub fn set_project(
    view: &mut impl View,
    ctx: &Context<'_>,
    fid: Fid,
    wanted: Project,
) -> Result<Inode, Errno> {
    let mut inode = view.inode(fid)?.ok_or(Errno::ENOENT)?;
    if !ctx.is_root() {
        return Err(Errno::EPERM);
    }
    let known = project(view, &inode)?;
    if wanted.id >= REALM_FIRST && wanted.id != known.id {
        return Err(Errno::EINVAL);
    }
    if known == (Project { inherit: wanted.inherit && inode.is_dir(), ..wanted }) {
        return Ok(inode);
    }
    view.before(&[Change::of(fid, InodeBits::UPDATE)])?;
    assign(view, &mut inode, wanted)?;
    inode.changed(ctx);
    view.put_inode(&inode);
    Ok(inode)
}

/// A new inode in `dir`, which is put next, is of the project that the directory hands on.
///
/// # Errors
/// EIO: a record is damaged.
pub(crate) fn inherit(view: &impl View, dir: &Inode, inode: &mut Inode) -> Result<(), Errno> {
    match project(view, dir)? {
        of @ Project { inherit: true, .. } => assign(view, inode, of),
        _ => Ok(()),
    }
}

/// Succeeds if an inode may get a name in `dir`. `from`: the directory in which it loses one.
///
/// # Errors
/// EXDEV: the directory hands on another project, or the inode would leave its realm; EIO.
pub(crate) fn may_enter(
    view: &impl View,
    inode: &Inode,
    from: Option<&Inode>,
    dir: &Inode,
) -> Result<(), Errno> {
    let (of, to) = (project(view, inode)?, project(view, dir)?);
    if to.inherit {
        return if to.id == of.id { Ok(()) } else { Err(Errno::EXDEV) };
    }
    if of.id < REALM_FIRST {
        return Ok(());
    }
    // The topmost directory of a realm may go anywhere: the realm goes with it.
    let from = from.map_or(Ok(of.id), |from| project(view, from).map(|from| from.id))?;
    if from == of.id && to.id != of.id { Err(Errno::EXDEV) } else { Ok(()) }
}
