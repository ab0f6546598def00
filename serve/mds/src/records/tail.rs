//! What an inode record carries after its attributes: layout, link target, default layout.

use disk::inode::{ItemTag, item, item_head, items};
use layout::dir_stripes::{DirStripes, decode_default};
use layout::layout::Layout;
use namespace::inode::{Inode, InodeFlags, Tail};
use types::dir_stripes::{BadDirStripes, DirDefault};
use types::errno::Errno;
use types::fid::Fid;

/// A tail with one item.
pub fn with(tag: ItemTag, bytes: &[u8]) -> Tail {
    let mut tail = Tail::new();
    push(&mut tail, tag, bytes);
    tail
}

fn push(tail: &mut Tail, tag: ItemTag, bytes: &[u8]) {
    tail.extend_from_slice(&item_head(tag, bytes.len()));
    tail.extend_from_slice(bytes);
}

/// A tail with one layout.
pub fn with_layout(tag: ItemTag, layout: &Layout) -> Tail {
    let mut bytes = Vec::new();
    layout::codec::encode(layout, &mut bytes);
    with(tag, &bytes)
}

/// Replaces (or with `None` removes) an item; the others stay as they are, also those of newer
/// versions.
///
/// # Errors
/// EIO: the tail is damaged.
pub fn replace(fid: Fid, tail: &Tail, tag: ItemTag, new: Option<&[u8]>) -> Result<Tail, Errno> {
    let mut out = Tail::new();
    for item in items(tail) {
        let (found, bytes) = item.map_err(|e| damaged(fid, &e))?;
        if found != tag as u16 {
            out.extend_from_slice(&found.to_le_bytes());
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(bytes);
        }
    }
    if let Some(bytes) = new {
        push(&mut out, tag, bytes);
    }
    Ok(out)
}

/// Changes the list of names that an inode remembers. A damaged tail stays as it is: it is reported
/// where it is needed.
pub fn change_links(inode: &mut Inode, change: impl FnOnce(&[u8]) -> Vec<u8>) {
    let fid = inode.fid();
    let Ok(known) = find(fid, &inode.tail, ItemTag::Links) else { return };
    let list = change(known.unwrap_or_default());
    if let Ok(tail) = replace(
        fid,
        &inode.tail,
        ItemTag::Links,
        Some(&list).filter(|list| !list.is_empty()).map(|l| &**l),
    ) {
        inode.tail = tail;
    }
}

/// Finds an item.
///
/// # Errors
/// EIO: the tail is damaged.
pub fn find(fid: Fid, tail: &[u8], tag: ItemTag) -> Result<Option<&[u8]>, Errno> {
    item(tail, tag).map_err(|e| damaged(fid, &e))
}

/// Finds a layout.
///
/// # Errors
/// EIO: the tail is damaged.
pub fn layout(fid: Fid, tail: &[u8], tag: ItemTag) -> Result<Option<Layout>, Errno> {
    find(fid, tail, tag)?
        .map(|bytes| layout::codec::decode(bytes).map_err(|e| damaged(fid, &e)))
        .transpose()
}

/// The stripes of a directory that has [`InodeFlags::STRIPED`].
///
/// # Errors
/// EIO: the tail is damaged.
pub fn stripes(inode: &Inode) -> Result<DirStripes, Errno> {
    let fid = inode.fid();
    let bytes = find(fid, &inode.tail, ItemTag::Stripes)?.ok_or(Errno::EIO)?;
    let stripes = DirStripes::decode(bytes).map_err(|e| damaged(fid, &e))?;
    if !stripes.all().contains(&fid) {
        return Err(damaged(fid, &BadDirStripes("the directory is none of its stripes")));
    }
    Ok(stripes)
}

/// The generation of the stripes in the tail of a directory that has them.
pub fn generation(tail: &[u8]) -> u32 {
    // What is damaged is reported where it is needed.
    item(tail, ItemTag::Stripes).ok().flatten().map_or(1, DirStripes::generation_in)
}

/// Where directories go that are made in this one, if it says so.
///
/// # Errors
/// EIO: the tail is damaged.
pub fn default_stripes(inode: &Inode) -> Result<Option<DirDefault>, Errno> {
    if !inode.flags.contains(InodeFlags::HAS_DEFAULT_STRIPES) {
        return Ok(None);
    }
    let bytes = find(inode.fid(), &inode.tail, ItemTag::DefaultStripes)?.ok_or(Errno::EIO)?;
    decode_default(bytes).map(Some).map_err(|e| damaged(inode.fid(), &e))
}

/// The project of an inode; 0: none.
///
/// # Errors
/// EIO: the tail is damaged.
pub fn project(fid: Fid, tail: &[u8]) -> Result<u32, Errno> {
    disk::inode::project(tail).map_err(|e| damaged(fid, &e))
}

/// Sets the project of an inode; 0: none.
///
/// # Errors
/// EIO: the tail is damaged.
pub fn set_project(inode: &mut Inode, project: u32) -> Result<(), Errno> {
    let bytes = project.to_le_bytes();
    let new = (project != 0).then_some(&bytes[..]);
    inode.tail = replace(inode.fid(), &inode.tail, ItemTag::Project, new)?;
    Ok(())
}

/// Logs a damaged record; programs see EIO.
pub fn damaged(fid: Fid, error: &(dyn std::error::Error + 'static)) -> Errno {
    tracing::error!(%fid, error, "damaged record");
    Errno::EIO
}
