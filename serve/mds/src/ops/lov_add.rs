//! `lustre.lov.add`: components behind those that a file has. `lfs setstripe --component-add`.
//!
//! Only what no component covered is covered now, so that bytes stay where they are and old layouts are not wrong.

use super::lov::without_ignored;
use crate::mds::{Call, Mds};
use crate::tail;
use ::layout::layout::Layout;
use ::layout::lov_ea;
use ::layout::stripe_spec::{Defaults, complete};
use disk::inode::ItemTag;
use namespace::inode::InodeFlags;
use namespace::view::{Change, View};
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::XATTR_VALUE_BYTES_MAX;
use types::lock::InodeBits;
use wire::mds::MdsReply;

/// Attribute that is only written.
pub(super) const LOV_ADD: &[u8] = b"lustre.lov.add";

impl Mds {
    /// # Errors
    /// EINVAL: no components, not where the file's end, or with OSTs; E2BIG: nobody could be shown so many; EPERM: not the owner's;
    /// EOPNOTSUPP: not of a file.
    pub(super) fn add_components(&self, call: &mut Call<'_>, fid: Fid, value: &[u8]) -> Result<MdsReply, Errno> {
        let refused = |error: &(dyn std::error::Error + 'static)| {
            tracing::debug!(error, "components refused");
            Errno::EINVAL
        };
        let more = lov_ea::decode(value).map_err(|e| refused(&e))?;
        if more.layout.components.is_empty() || more.names_osts() {
            return Err(Errno::EINVAL);
        }
        let defaults = Defaults { dom_bytes_max: types::limits::DOM_BYTES_MAX, ..self.tunables.defaults() };
        self.change(call, |records, ctx| {
            let mut inode = records.existing(fid)?;
            if inode.file_type() != FileType::Regular {
                return Err(Errno::EOPNOTSUPP);
            }
            if !ctx.owns(inode.attr.uid) {
                return Err(Errno::EPERM);
            }
            let old = tail::layout(fid, &inode.tail, ItemTag::Layout)?.ok_or(Errno::EIO)?;
            let layout = complete(joined(&old, &more.layout), &defaults).map_err(|e| refused(&e))?;
            if lov_ea::bytes_at_most(&layout, self.spaces.get().len()) > XATTR_VALUE_BYTES_MAX {
                return Err(Errno::E2BIG);
            }
            let bits = InodeBits::LAYOUT.union(InodeBits::UPDATE).union(InodeBits::XATTR);
            records.before(&[Change::of(fid, bits)])?;
            let mut bytes = Vec::new();
            ::layout::codec::encode(&layout, &mut bytes);
            inode.tail = tail::replace(fid, &inode.tail, ItemTag::Layout, Some(&bytes))?;
            inode.flags = inode.flags.with(InodeFlags::OWN_LAYOUT, true);
            inode.attr.ctime = ctx.now;
            inode.attr.version = ctx.version;
            records.put_inode(&inode);
            Ok(MdsReply::Done)
        })
    }
}

/// Components behind others, with numbers of their own.
fn joined(old: &Layout, more: &Layout) -> Layout {
    let (mut layout, mut more) = (old.clone(), more.clone());
    layout.generation += 1;
    for (id, c) in (old.next_instance()..).zip(&mut more.components) {
        c.id = id;
    }
    layout.components.append(&mut more.components);
    without_ignored(&mut layout);
    layout
}
