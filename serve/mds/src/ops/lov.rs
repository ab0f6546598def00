//! `lustre.lov` and `trusted.lov`: layouts in Lustre's binary form, as extended attributes.
//!
//! Read on a file: its layout; on a directory: its default layout. Written on a directory: the default layout, an
//! empty value (or `removexattr`) takes it away; on a file that never held data: its layout. On other files writing is
//! EEXIST. Neither is listed, so that copying tools do not carry layouts about.
//!
//! `lustre.lov.default`, on anything, only to be read: what a new file gets where its directory says nothing.

use crate::mds::{Call, Mds};
use crate::tail;
use ::layout::layout::Layout;
use ::layout::lov_ea;
use ::layout::stripe_spec::complete;
use disk::inode::ItemTag;
use namespace::inode::{Inode, InodeFlags};
use namespace::view::{Change, View};
use types::attr::FileType;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::target::TargetIndex;
use wire::mds::MdsReply;

/// Which name a layout attribute was called by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LovName {
    /// `lustre.lov`: for everybody.
    Lustre,
    /// `trusted.lov`: for root.
    Trusted,
}

impl LovName {
    /// `None`: no layout attribute.
    pub(super) fn of(name: &[u8]) -> Option<LovName> {
        match name {
            b"lustre.lov" => Some(LovName::Lustre),
            b"trusted.lov" => Some(LovName::Trusted),
            _ => None,
        }
    }

    fn check(self, credentials: &Credentials, refused: Errno) -> Result<(), Errno> {
        if self == LovName::Trusted && credentials.uid != 0 { Err(refused) } else { Ok(()) }
    }
}

/// Attribute with the file system's default layout.
pub(super) const LOV_DEFAULT: &[u8] = b"lustre.lov.default";

impl Mds {
    pub(super) fn default_lov(&self) -> MdsReply {
        MdsReply::Bytes(lov_ea::encode(&self.tunables.layout(), Fid::NONE).into())
    }

    pub(super) fn get_lov(&self, credentials: &Credentials, fid: Fid, name: LovName) -> Result<MdsReply, Errno> {
        name.check(credentials, Errno::ENODATA)?;
        let inode = self.read(|records| records.existing(fid))?;
        let (tag, named) = match inode.file_type() {
            FileType::Regular => (ItemTag::Layout, fid),
            FileType::Directory => (ItemTag::DefaultLayout, Fid::NONE),
            _ => return Err(Errno::ENODATA),
        };
        let layout = tail::layout(fid, &inode.tail, tag)?.ok_or(Errno::ENODATA)?;
        Ok(MdsReply::Bytes(lov_ea::encode(&layout, named).into()))
    }

    pub(super) fn set_lov(
        &self,
        call: &mut Call<'_>,
        fid: Fid,
        name: LovName,
        value: &[u8],
    ) -> Result<MdsReply, Errno> {
        name.check(call.credentials, Errno::EPERM)?;
        let wanted = if value.is_empty() { None } else { Some(self.parse_lov(value)?) };
        self.change(call, |records, ctx| {
            let mut inode = records.existing(fid)?;
            if !ctx.owns(inode.attr.uid) {
                return Err(Errno::EPERM);
            }
            match inode.file_type() {
                FileType::Directory => set_default(&mut inode, wanted.as_ref().map(|(layout, _)| layout))?,
                FileType::Regular => match &wanted {
                    Some((layout, first)) => self.set_layout(&mut inode, layout, first)?,
                    // Lustre takes an empty layout on a file for "leave it as it is".
                    None => return Ok(()),
                },
                _ => return Err(Errno::EOPNOTSUPP),
            }
            records.before(&[Change::of(fid, InodeBits::LAYOUT.union(InodeBits::UPDATE))])?;
            inode.attr.ctime = ctx.now;
            inode.attr.version = ctx.version;
            records.put_inode(&inode);
            Ok(())
        })?;
        Ok(MdsReply::Done)
    }

    fn parse_lov(&self, value: &[u8]) -> Result<(Layout, Vec<Option<TargetIndex>>), Errno> {
        let refused = |error: &(dyn std::error::Error + 'static)| {
            tracing::debug!(error, "layout refused");
            Errno::EINVAL
        };
        let ea = lov_ea::decode(value).map_err(|e| refused(&e))?;
        let layout = complete(ea.layout, &self.tunables.defaults()).map_err(|e| refused(&e))?;
        Ok((layout, ea.first))
    }

    fn set_layout(&self, inode: &mut Inode, wanted: &Layout, first: &[Option<TargetIndex>]) -> Result<(), Errno> {
        if inode.flags.has(InodeFlags::HAS_DATA) || inode.attr.size > 0 {
            return Err(Errno::EEXIST);
        }
        let fid = inode.fid();
        let old = tail::layout(fid, &inode.tail, ItemTag::Layout)?.ok_or(Errno::EIO)?;
        let mut layout = wanted.clone();
        layout.generation = old.generation + 1;
        // Instance numbers are never used twice, even where nothing was written.
        for (id, c) in (old.next_instance()..).zip(&mut layout.components) {
            c.id = id;
        }
        let known = self.spaces.get();
        let unknown = |ost: &TargetIndex| !known.iter().any(|k| k.index == *ost);
        if layout.components.iter().flat_map(|c| &c.stripes).any(unknown) {
            return Err(Errno::EINVAL);
        }
        self.instantiate(&mut layout, 0, 1, first).map_err(|_| Errno::ENOSPC)?;
        let mut bytes = Vec::new();
        ::layout::codec::encode(&layout, &mut bytes);
        inode.tail = tail::replace(fid, &inode.tail, ItemTag::Layout, Some(&bytes))?;
        Ok(())
    }
}

fn set_default(inode: &mut Inode, layout: Option<&Layout>) -> Result<(), Errno> {
    let bytes = layout.map(|layout| {
        let mut layout = layout.clone();
        // A default names no OSTs of its own: each new file gets its own.
        layout.components.iter_mut().for_each(|c| c.stripes.clear());
        let mut bytes = Vec::new();
        ::layout::codec::encode(&layout, &mut bytes);
        bytes
    });
    inode.tail = tail::replace(inode.fid(), &inode.tail, ItemTag::DefaultLayout, bytes.as_deref())?;
    inode.flags = inode.flags.with(InodeFlags::HAS_DEFAULT_LAYOUT, layout.is_some());
    Ok(())
}
