//! `lustre.lov.del`: the last components of a file, as long as they have no objects. `lfs setstripe --component-del`.
//!
//! What has objects may hold bytes, and its number may be used once in the life of a file (docs/layout.md): it stays.

use crate::mds::{Call, Mds};
use crate::tail;
use ::layout::layout::{Layout, Pattern};
use disk::inode::ItemTag;
use namespace::inode::InodeFlags;
use namespace::view::{Change, View};
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use wire::mds::MdsReply;

/// Attribute that is only written: the number of the first component that goes, little-endian, 4 bytes; 0: all that have no objects.
pub(super) const LOV_DEL: &[u8] = b"lustre.lov.del";

impl Mds {
    /// # Errors
    /// EINVAL: no number, or there is no such component; EBUSY: it, or one behind it, has objects; E2BIG: nothing would be left;
    /// ENODATA: all have objects; EPERM: not the owner's; EOPNOTSUPP: not of a file.
    pub(super) fn drop_components(&self, call: &mut Call<'_>, fid: Fid, value: &[u8]) -> Result<MdsReply, Errno> {
        let id = <[u8; 4]>::try_from(value).map(u32::from_le_bytes).map_err(|_| Errno::EINVAL)?;
        self.change(call, |records, ctx| {
            let mut inode = records.existing(fid)?;
            if inode.file_type() != FileType::Regular {
                return Err(Errno::EOPNOTSUPP);
            }
            if !ctx.owns(inode.attr.uid) {
                return Err(Errno::EPERM);
            }
            let old = tail::layout(fid, &inode.tail, ItemTag::Layout)?.ok_or(Errno::EIO)?;
            let layout = without(&old, id)?;
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

/// The layout without component `id` and those behind it; 0: without those at its end that have no objects.
fn without(old: &Layout, id: u32) -> Result<Layout, Errno> {
    let components = &old.components;
    let first = match id {
        0 => components.iter().rposition(|c| c.is_instantiated()).map_or(0, |last| last + 1),
        _ => components.iter().position(|c| c.id == id).ok_or(Errno::EINVAL)?,
    };
    if first == components.len() {
        return Err(Errno::ENODATA);
    }
    if components[first..].iter().any(|c| c.is_instantiated()) {
        return Err(Errno::EBUSY);
    }
    // What grows into an extension would have nothing to grow into: it stays as large as it is.
    let left = components[..first].to_vec();
    if left.iter().all(|c| c.is_empty() || c.pattern == Pattern::Extension) {
        return Err(Errno::E2BIG);
    }
    Ok(Layout { generation: old.generation + 1, components: left, ..old.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::layout::layout::{Component, EOF};
    use types::target::TargetIndex;

    fn component(id: u32, start: u64, end: u64, objects: bool) -> Component {
        let stripes = if objects { vec![TargetIndex(0)] } else { Vec::new() };
        let (pattern, pool) = (Pattern::Raid0, None);
        Component { id, start, end, pattern, stripe_size: 65536, stripe_count: 1, overstriped: false, pool, stripes }
    }

    #[test]
    fn only_what_has_no_objects_goes_and_only_from_the_end() {
        let components = vec![component(1, 0, 10, true), component(2, 10, 20, false), component(5, 20, EOF, false)];
        let layout = Layout { generation: 4, components, ..Layout::default() };
        let left = |id| without(&layout, id).map(|l| l.components.iter().map(|c| c.id).collect::<Vec<_>>());
        assert_eq!((left(5), left(2), left(0)), (Ok(vec![1, 2]), Ok(vec![1]), Ok(vec![1])));
        assert_eq!((left(1), left(3)), (Err(Errno::EBUSY), Err(Errno::EINVAL)));
        assert_eq!(without(&layout, 5).unwrap().generation, 5);
        let full = without(&layout, 2).unwrap();
        assert_eq!(without(&full, 0), Err(Errno::ENODATA));
        let empty = Layout { components: vec![component(1, 0, EOF, false)], ..Layout::default() };
        assert_eq!((without(&empty, 1), without(&empty, 0)), (Err(Errno::E2BIG), Err(Errno::E2BIG)));
    }
}
