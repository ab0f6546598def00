//! `lustre.lov.del`: removes the last components of a file. `lfs setstripe --component-del`.
//!
//! If the components have objects, these are destroyed as those of a removed file are, together
//! with their bytes. So no client may have the file open for writing, and what mounts cache of it
//! is called back before, the asking mount included. Like an exchange of layouts this is durable
//! when it is answered, because a restarted MDT is not told of it again. The number of a component
//! that had objects is never reused (docs/layout.md): the layout remembers the highest
//! (`Layout::spent`).

use crate::locks::context::LockContext;
use crate::mds::{Mds, RequestContext};
use crate::records::tail;
use disk::inode::ItemTag;
use layout::layout::Layout;
use namespace::inode::InodeFlags;
use namespace::view::{Change, View};
use std::time::Duration;
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::session::{ClientUuid, Transno};
use wire::mds::MdsReply;

/// Attribute that is only written: the number of the first component to remove, little-endian, 4
/// bytes; 0: all at the end that have no objects.
pub(in crate::ops) const LOV_DEL: &[u8] = b"lustre.lov.del";

/// Bits that other clients may not keep of a file that loses bytes.
const CUT: InodeBits = InodeBits::LAYOUT
    .union(InodeBits::XATTR)
    .union(InodeBits::UPDATE)
    .union(InodeBits::DATA)
    .union(InodeBits::WRITE);

/// A layout in two: the part that stays, as a layout, and the components that go.
#[derive(Debug, PartialEq, Eq)]
struct Parted {
    stays: Layout,
    goes: Layout,
}

impl Parted {
    fn loses_objects(&self) -> bool {
        self.goes.components.iter().any(|c| c.is_instantiated())
    }
}

impl Mds {
    /// # Errors
    /// EINVAL: no number, there is no such component, or nothing would be left; ENODATA: all have
    /// objects, and only those without were to go; EBUSY: objects would go, and a client has the
    /// file open for writing, or its size is still being settled; as [`Mds::change_layout`].
    pub(in crate::ops) async fn drop_components(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
        value: &[u8],
    ) -> Result<MdsReply, Errno> {
        let id = <[u8; 4]>::try_from(value).map(u32::from_le_bytes).map_err(|_| Errno::EINVAL)?;
        let drop_empty = |request: &mut RequestContext<'_>| {
            self.change_layout(request, fid, |old| match part(old, id)? {
                parted if parted.loses_objects() => Err(Errno::EBUSY),
                parted => Ok(parted.stays),
            })
        };
        match self.in_turn(request, drop_empty).await {
            // Apart, so that the future of the fast path stays small.
            Err(Errno::EBUSY) => {
                Box::pin(self.destroy_components(
                    request.client(),
                    request.credentials.uid,
                    fid,
                    id,
                ))
                .await
            }
            done => done,
        }
    }

    async fn destroy_components(
        &self,
        client: ClientUuid,
        uid: u32,
        fid: Fid,
        id: u32,
    ) -> Result<MdsReply, Errno> {
        let destroy = |lock_context: &mut LockContext| {
            self.transact(lock_context, |records, ctx| {
                let mut inode = records.there(fid)?;
                if inode.file_type() != FileType::Regular {
                    return Err(Errno::EOPNOTSUPP);
                }
                if uid != 0 && uid != inode.attr.uid {
                    return Err(Errno::EPERM);
                }
                records.may_write(fid)?;
                if records.state.opens.is_written(fid) {
                    return Err(Errno::EBUSY);
                }
                // Data of a vanished writer is settled first: afterwards bytes beyond the size are
                // cut.
                if self.unsettled.lock().has(fid) && !records.marked_cut(fid) {
                    self.settle_soon(fid);
                    return Err(Errno::EBUSY);
                }
                let old = tail::layout(fid, &inode.tail, ItemTag::Layout)?.ok_or(Errno::EIO)?;
                let Parted { stays, goes } = part(&old, id)?;
                records.before(&[Change::of(fid, CUT)])?;
                records.used(client, fid, true);
                records.log_destroyed(fid, &goes);
                let mut bytes = Vec::new();
                layout::codec::encode(&stays, &mut bytes);
                inode.tail = tail::replace(fid, &inode.tail, ItemTag::Layout, Some(&bytes))?;
                inode.flags.insert(InodeFlags::OWN_LAYOUT);
                inode.attr.size =
                    inode.attr.size.min(stays.components.last().map_or(0, |last| last.end));
                (inode.attr.mtime, inode.attr.ctime) = (ctx.now, ctx.now);
                inode.attr.version = ctx.version;
                records.put_inode(&inode);
                // The space of the remaining objects is asked for.
                records.mark_writer(fid, true);
                Ok(ctx.version)
            })
        };
        let version = self.in_turn(&mut LockContext::own(), destroy).await?;
        self.unsettle(fid, Duration::ZERO);
        self.store.committed(Transno(version)).await?;
        Ok(MdsReply::Done)
    }
}

/// The layout without component `id` and those after it; 0: without those at its end that have no
/// objects.
fn part(old: &Layout, id: u32) -> Result<Parted, Errno> {
    let components = &old.components;
    let first = match id {
        0 => components.iter().rposition(|c| c.is_instantiated()).map_or(0, |last| last + 1),
        _ => components.iter().position(|c| c.id == id).ok_or(Errno::EINVAL)?,
    };
    if first == components.len() {
        return Err(Errno::ENODATA);
    }
    // A component that has not grown yet covers nothing, and without its extension it never would.
    let covers = components[..first].iter().rposition(|c| !c.is_empty()).ok_or(Errno::EINVAL)?;
    let (left, gone) = components.split_at(covers + 1);
    let spent = gone.iter().filter(|c| c.is_instantiated()).map(|c| c.id).fold(old.spent, u32::max);
    let stays =
        Layout { generation: old.generation + 1, components: left.to_vec(), spent, ..old.clone() };
    Ok(Parted { stays, goes: Layout { components: gone.to_vec(), ..old.clone() } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::layout::{Component, EOF, Pattern};
    use types::target::TargetIndex;

    fn component(id: u32, start: u64, end: u64, objects: bool) -> Component {
        let stripes = if objects { vec![TargetIndex(0)] } else { Vec::new() };
        let (pattern, pool) = (Pattern::Raid0, None);
        Component {
            id,
            start,
            end,
            pattern,
            stripe_size: 65536,
            stripe_count: 1,
            overstriped: false,
            pool,
            stripes,
            wanted: Vec::new(),
        }
    }

    #[test]
    fn components_go_from_the_end_and_something_is_left() {
        let components = vec![
            component(1, 0, 10, true),
            component(2, 10, 20, false),
            component(5, 20, EOF, false),
        ];
        let layout = Layout { generation: 4, components, ..Layout::default() };
        let ids = |layout: &Layout| layout.components.iter().map(|c| c.id).collect::<Vec<_>>();
        let parted = |id| {
            part(&layout, id)
                .map(|parted| (ids(&parted.stays), ids(&parted.goes), parted.loses_objects()))
        };
        assert_eq!(parted(5), Ok((vec![1, 2], vec![5], false)));
        assert_eq!(
            (parted(2), parted(0)),
            (Ok((vec![1], vec![2, 5], false)), Ok((vec![1], vec![2, 5], false)))
        );
        assert_eq!((parted(1), parted(3)), (Err(Errno::EINVAL), Err(Errno::EINVAL)));
        let Parted { stays, .. } = part(&layout, 5).unwrap();
        assert_eq!((stays.generation, stays.spent, stays.next_instance()), (5, 0, 3));
        assert_eq!(part(&part(&layout, 2).unwrap().stays, 0), Err(Errno::ENODATA));
        let empty = Layout { components: vec![component(1, 0, EOF, false)], ..Layout::default() };
        assert_eq!((part(&empty, 1), part(&empty, 0)), (Err(Errno::EINVAL), Err(Errno::EINVAL)));
    }

    #[test]
    fn the_numbers_of_objects_that_go_are_not_given_again() {
        let components = vec![
            component(1, 0, 10, true),
            component(4, 10, 20, true),
            component(6, 20, EOF, false),
        ];
        let layout = Layout { generation: 4, components, ..Layout::default() };
        let parted = part(&layout, 4).unwrap();
        assert!(parted.loses_objects());
        assert_eq!((parted.stays.spent, parted.stays.next_instance()), (4, 5));
        let more = Layout {
            components: vec![component(1, 0, 10, true), component(3, 10, 20, true)],
            ..parted.stays
        };
        assert_eq!(part(&more, 3).unwrap().stays.next_instance(), 5, "the highest of all times");
    }

    #[test]
    fn what_would_grow_goes_with_its_extension() {
        let extension = Component::extension(3, 10, EOF, 64 << 20).unwrap();
        let components = vec![component(1, 0, 10, true), component(2, 10, 10, false), extension];
        let layout = Layout { generation: 1, components, ..Layout::default() };
        let left = part(&layout, 3).unwrap().stays;
        assert_eq!(left.components.iter().map(|c| c.id).collect::<Vec<_>>(), [1]);
    }
}
