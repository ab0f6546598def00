//! `lustre.lov` and `trusted.lov`: layouts in Lustre's binary form, as extended attributes.
//!
//! Read on a file: its layout; on a directory: its default layout. Written on a directory: the
//! default layout; an empty value (or `removexattr`) removes it. Written on a file that never held
//! data, nor was given a layout by this name: its layout. On other files writing is EEXIST.
//!
//! `trusted.lov` is for tools that copy files. Root finds it in lists (of a file only if its layout
//! is not the file system's default; otherwise a program that copies files from elsewhere would see
//! a difference for ever). Only the shape in a value counts (the OSTs were those of another file),
//! and a file that has data already keeps its layout without an error.
//!
//! `lustre.lov.default`, on anything, read only: the layout of a new file whose directory has no
//! default layout.

use crate::bundles::change::DirChange;
use crate::mds::{Mds, RequestContext};
use crate::records::tail;
use disk::inode::ItemTag;
use layout::layout::{Component, Layout, Pattern, PoolName};
use layout::lov_ea;
use layout::stripe_spec::{complete, with_dom_at_most};
use namespace::inode::{Inode, InodeFlags};
use namespace::view::{Change, View};
use std::sync::Arc;
use types::attr::FileType;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::XATTR_VALUE_BYTES_MAX;
use types::lock::InodeBits;
use types::target::TargetIndex;
use wire::mds::MdsReply;

/// The name by which a layout attribute was called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::ops) enum LovName {
    /// `lustre.lov`: for all users.
    Lustre,
    /// `trusted.lov`: for root.
    Trusted,
}

impl LovName {
    /// `None`: no layout attribute.
    pub(in crate::ops) fn of(name: &[u8]) -> Option<LovName> {
        match name {
            b"lustre.lov" => Some(LovName::Lustre),
            b"trusted.lov" => Some(LovName::Trusted),
            _ => None,
        }
    }

    pub(in crate::ops) fn check(
        self,
        credentials: &Credentials,
        refused: Errno,
    ) -> Result<(), Errno> {
        if self == LovName::Trusted && credentials.uid != 0 { Err(refused) } else { Ok(()) }
    }
}

/// Attribute with the file system's default layout.
pub(in crate::ops) const LOV_DEFAULT: &[u8] = b"lustre.lov.default";

impl Mds {
    pub(in crate::ops) fn default_lov(&self) -> MdsReply {
        MdsReply::Bytes(lov_ea::encode(&self.tunables.layout(), Fid::NONE).into())
    }

    pub(in crate::ops) fn get_lov(
        &self,
        credentials: &Credentials,
        fid: Fid,
        name: LovName,
    ) -> Result<MdsReply, Errno> {
        name.check(credentials, Errno::ENODATA)?;
        let inode = self.read(|records| records.there(fid))?;
        let (tag, named) = match inode.file_type() {
            FileType::Regular => (ItemTag::Layout, fid),
            FileType::Directory => (ItemTag::DefaultLayout, Fid::NONE),
            _ => return Err(Errno::ENODATA),
        };
        let layout = tail::layout(fid, &inode.tail, tag)?.ok_or(Errno::ENODATA)?;
        Ok(MdsReply::Bytes(lov_ea::encode(&layout, named).into()))
    }

    pub(in crate::ops) fn set_lov(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
        name: LovName,
        value: &[u8],
    ) -> Result<MdsReply, Errno> {
        name.check(request.credentials, Errno::EPERM)?;
        let wanted = if value.is_empty() { None } else { Some(self.parse_lov(name, value)?) };
        let wanted = wanted.as_ref();
        self.change(request, |records, ctx| {
            let mut inode = records.there(fid)?;
            if !ctx.owns(inode.attr.uid) {
                return Err(Errno::EPERM);
            }
            match inode.file_type() {
                FileType::Directory => {
                    records.is_whole(fid)?;
                    let change = DirChange::DefaultLayout(wanted);
                    self.make_dir_change(records, ctx, fid, change)?;
                    return Ok(MdsReply::Done);
                }
                FileType::Regular => match wanted {
                    Some(_) if name == LovName::Trusted && has_data(&inode) => {
                        return Ok(MdsReply::Done);
                    }
                    Some(layout) => self.set_layout(&mut inode, name, layout)?,
                    // Lustre takes an empty layout on a file for "leave it as it is".
                    None => return Ok(MdsReply::Done),
                },
                _ => return Err(Errno::EOPNOTSUPP),
            }
            // Lists of attributes show whether a directory has one.
            let bits = InodeBits::LAYOUT.union(InodeBits::UPDATE).union(InodeBits::XATTR);
            records.before(&[Change::of(fid, bits)])?;
            inode.attr.ctime = ctx.now;
            inode.attr.version = ctx.version;
            records.put_inode(&inode);
            Ok(MdsReply::Done)
        })
    }

    pub(in crate::ops) fn parse_lov(&self, name: LovName, value: &[u8]) -> Result<Layout, Errno> {
        let refused = |error: &(dyn std::error::Error + 'static)| {
            tracing::debug!(error, "layout refused");
            Errno::EINVAL
        };
        let mut ea = lov_ea::decode(value).map_err(|e| refused(&e))?;
        if name == LovName::Trusted {
            ea = ea.shape();
            // This MDT may not allow what another one allowed.
            let defaults = self.tunables.defaults();
            ea.layout = with_dom_at_most(ea.layout, defaults.dom_bytes_max, &defaults);
        }
        // The file gets objects of its own, on the OSTs that it names.
        ea.layout.components.iter_mut().for_each(Component::want_stripes);
        let layout = complete(ea.layout, &self.tunables.defaults()).map_err(|e| refused(&e))?;
        // It would be too long to be shown.
        if lov_ea::bytes_at_most(&layout, self.spaces.get().len()) > XATTR_VALUE_BYTES_MAX {
            return Err(Errno::E2BIG);
        }
        Ok(layout)
    }

    fn set_layout(&self, inode: &mut Inode, name: LovName, wanted: &Layout) -> Result<(), Errno> {
        if has_data(inode)
            || name == LovName::Lustre && inode.flags.contains(InodeFlags::CHOSEN_LAYOUT)
        {
            return Err(Errno::EEXIST);
        }
        let fid = inode.fid();
        let old = tail::layout(fid, &inode.tail, ItemTag::Layout)?.ok_or(Errno::EIO)?;
        let mut layout = self.with_dom_of_now(wanted.clone());
        (layout.generation, layout.owner, layout.spent) =
            (old.generation + 1, old.owner, old.spent);
        self.inherit_pool(&old, &mut layout);
        // Instance numbers are never used twice, even if nothing was written.
        for (id, c) in (old.next_instance()..).zip(&mut layout.components) {
            c.id = id;
        }
        self.check_wanted(&layout)?;
        self.instantiate(&mut layout, 0, 1).map_err(|reason| {
            tracing::warn!(%fid, %reason, "file cannot be given the layout that was asked for");
            Errno::ENOSPC
        })?;
        let mut bytes = Vec::new();
        layout::codec::encode(&layout, &mut bytes);
        inode.tail = tail::replace(fid, &inode.tail, ItemTag::Layout, Some(&bytes))?;
        inode.flags.insert(InodeFlags::OWN_LAYOUT | InodeFlags::CHOSEN_LAYOUT);
        Ok(())
    }

    /// A layout that names no pool keeps that of the directory, with which the file was created;
    /// the word `ignore` means no pool.
    fn inherit_pool(&self, old: &Layout, layout: &mut Layout) {
        let inherited = old.components.iter().find_map(|c| c.pool.clone());
        let names_none = layout.components.iter().all(|c| c.pool.is_none());
        if names_none && let Some(pool) = inherited {
            for c in layout.components.iter_mut().filter(|c| c.pattern == Pattern::Raid0) {
                // OSTs that are named one by one take precedence over a pool that is not named.
                let inside =
                    |osts: Arc<[TargetIndex]>| c.wanted.iter().all(|ost| osts.contains(ost));
                if self.targets.pool(&pool.0).is_none_or(inside) {
                    c.pool = Some(pool.clone());
                }
            }
        }
        without_ignored(layout);
    }

    /// Succeeds if all named OSTs exist and are in the pools of their components.
    ///
    /// # Errors
    /// EINVAL: no.
    pub(in crate::ops) fn check_wanted(&self, layout: &Layout) -> Result<(), Errno> {
        let known = self.spaces.get();
        let good = layout.components.iter().all(|c| {
            let pool = c.pool.as_ref().and_then(|PoolName(name)| self.targets.pool(name));
            c.wanted.iter().all(|ost| {
                known.iter().any(|k| k.index == *ost)
                    && pool.as_ref().is_none_or(|osts| osts.contains(ost))
            })
        });
        if good { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// A directory gets a default layout, or loses it.
    ///
    /// # Errors
    /// EINVAL: OSTs that are not there; EIO.
    pub(crate) fn set_default(
        &self,
        inode: &mut Inode,
        layout: Option<&Layout>,
    ) -> Result<(), Errno> {
        let layout = match layout.cloned() {
            None => None,
            Some(mut layout) => {
                without_ignored(&mut layout);
                self.check_wanted(&layout)?;
                Some(layout)
            }
        };
        let bytes = layout.as_ref().map(|layout| {
            let mut bytes = Vec::new();
            layout::codec::encode(layout, &mut bytes);
            bytes
        });
        inode.tail =
            tail::replace(inode.fid(), &inode.tail, ItemTag::DefaultLayout, bytes.as_deref())?;
        inode.flags.set(InodeFlags::HAS_DEFAULT_LAYOUT, layout.is_some());
        Ok(())
    }
}

/// Objects may exist: the layout stays as it is.
fn has_data(inode: &Inode) -> bool {
    inode.flags.contains(InodeFlags::HAS_DATA) || inode.attr.size > 0
}

/// True if root finds `trusted.lov` among the attributes.
pub(in crate::ops) fn has_lov(inode: &Inode) -> bool {
    match inode.file_type() {
        FileType::Regular => inode.flags.contains(InodeFlags::OWN_LAYOUT),
        FileType::Directory => inode.flags.contains(InodeFlags::HAS_DEFAULT_LAYOUT),
        _ => false,
    }
}

pub(in crate::ops) fn without_ignored(layout: &mut Layout) {
    for c in &mut layout.components {
        c.pool.take_if(|pool| pool.is_ignored());
    }
}
