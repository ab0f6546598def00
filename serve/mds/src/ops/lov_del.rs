//! `lustre.lov.del`: the last components of a file, as long as they have no objects. `lfs setstripe --component-del`.
//!
//! What has objects may hold bytes, and its number may be used once in the life of a file (docs/layout.md): it stays.

use crate::mds::{Call, Mds};
use ::layout::layout::Layout;
use types::errno::Errno;
use types::fid::Fid;
use wire::mds::MdsReply;

/// Attribute that is only written: the number of the first component that goes, little-endian, 4 bytes; 0: all that have no objects.
pub(super) const LOV_DEL: &[u8] = b"lustre.lov.del";

impl Mds {
    /// # Errors
    /// EINVAL: no number, there is no such component, or nothing would be left; EBUSY: it, or one behind it, has objects; ENODATA: all
    /// have objects; as [`Mds::change_layout`].
    pub(super) fn drop_components(&self, call: &mut Call<'_>, fid: Fid, value: &[u8]) -> Result<MdsReply, Errno> {
        let id = <[u8; 4]>::try_from(value).map(u32::from_le_bytes).map_err(|_| Errno::EINVAL)?;
        self.change_layout(call, fid, |old| without(old, id))
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
    // One that has not grown yet covers nothing, and without its extension it never would.
    let covers = components[..first].iter().rposition(|c| !c.is_empty()).ok_or(Errno::EINVAL)?;
    let left = components[..=covers].to_vec();
    Ok(Layout { generation: old.generation + 1, components: left, ..old.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::layout::layout::{Component, EOF, Pattern};
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
        assert_eq!((without(&empty, 1), without(&empty, 0)), (Err(Errno::EINVAL), Err(Errno::EINVAL)));
    }

    #[test]
    fn what_would_grow_goes_with_its_extension() {
        let extension = Component::extension(3, 10, EOF, 64 << 20).unwrap();
        let components = vec![component(1, 0, 10, true), component(2, 10, 10, false), extension];
        let layout = Layout { generation: 1, components, ..Layout::default() };
        let left = without(&layout, 3).unwrap();
        assert_eq!(left.components.iter().map(|c| c.id).collect::<Vec<_>>(), [1]);
    }
}
