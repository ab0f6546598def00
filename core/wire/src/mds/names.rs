//! Operations on names: find, make, move and remove them, and list a directory.

use super::shared::{CreateKind, OpenFlags, RenameFlags};
use crate::class::{Class, Counted};
use crate::codec::cursor::{Bulk, Reader, Writer, bits, unpack};
use crate::codec::error::DecodeError;
use crate::codec::operation::{
    ATTR_BYTES, ENTRY_BYTES, FLAGS, Operation, fid, fids, plain, put_entry, put_fid,
};
use crate::codec::raw::{RawCreate, RawReaddir, RawTmpfile};
#[cfg(test)]
use crate::codec::testing::*;
#[cfg(test)]
use crate::mds::opens::{any_open, sample_open};
use bytes::Bytes;
use types::attr::FileType;
use types::dir_stripes::{DirSpec, SPEC_BYTES_MAX};
use types::fid::Fid;
use types::limits::{SYMLINK_BYTES_MAX, TARGETS_MAX};
use types::name::Name;
use types::target::TargetIndex;

const KIND_REGULAR: u8 = 1;
const KIND_DIRECTORY: u8 = 2;
const KIND_SYMLINK: u8 = 3;
const KIND_SPECIAL: u8 = 4;
const KIND_PLACED: u8 = 5;

const DIR_SPEC: &str = "MDTs of a directory";

/// Find a name; answers `Entry`, or `Remote` if another MDT has the inode. EAGAIN: the file was
/// removed while its writer was asked for its size; the client asks again. `..` and `.` are
/// resolved by [`GetParent`] and the client.
#[derive(Clone, PartialEq, Debug)]
pub struct Lookup {
    /// Directory of the name.
    pub parent: Fid,
    /// The name.
    pub name: Name,
}

impl Operation for Lookup {
    fids!(parent);

    fn put(&self, w: &mut Writer) {
        put_entry(self.parent, &self.name, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Lookup, DecodeError> {
        plain(flags)?;
        Ok(Lookup { parent: fid(r)?, name: r.name()? })
    }

    #[cfg(test)]
    fn sample() -> Lookup {
        Lookup { parent: DIR, name: name("caf\u{e9}") }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Lookup> {
        any_place().prop_map(|(parent, name)| Lookup { parent, name }).boxed()
    }
}

/// Parent of a directory (for `..`); answers `Entry`, or `Remote` if another MDT has it.
#[derive(Clone, PartialEq, Debug)]
pub struct GetParent {
    /// The inode.
    pub fid: Fid,
}

impl Operation for GetParent {
    fids!(fid);

    fn put(&self, w: &mut Writer) {
        put_fid(self.fid, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<GetParent, DecodeError> {
        plain(flags)?;
        Ok(GetParent { fid: fid(r)? })
    }

    #[cfg(test)]
    fn sample() -> GetParent {
        GetParent { fid: FID }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<GetParent> {
        any_fid().prop_map(|fid| GetParent { fid }).boxed()
    }
}

/// Make an inode and its name. `mode` is as the caller gave it; `umask` applies unless a default
/// ACL does. Regular: with `exclusive` an existing name is EEXIST; without, it is opened (if
/// opening was asked). A directory that goes to another MDT than its parent, or gets stripes,
/// answers `Remote`.
#[derive(Clone, PartialEq, Debug)]
pub struct Create {
    /// Directory of the name.
    pub parent: Fid,
    /// The name.
    pub name: Name,
    /// What is made.
    pub kind: CreateKind,
    /// Mode as the caller gave it.
    pub mode: u32,
    /// Applies unless a default ACL does.
    pub umask: u32,
    /// An existing name is EEXIST; else it is opened, if opening was asked.
    pub exclusive: bool,
}

impl Operation for Create {
    fids!(parent);

    fn class(&self, row: Class) -> Class {
        let counted = match self.kind {
            CreateKind::Regular(Some(_)) => Counted::Open,
            CreateKind::Directory { .. } | CreateKind::Placed(_) => Counted::Mkdir,
            CreateKind::Regular(None) | CreateKind::Symlink(_) | CreateKind::Special(..) => {
                row.counted
            }
        };
        Class { counted, ..row }
    }

    fn name_made(&self) -> Option<(Fid, &Name)> {
        Some((self.parent, &self.name))
    }

    fn flags(&self) -> u16 {
        let open = if let CreateKind::Regular(open) = self.kind { open } else { None };
        let OpenFlags { read, write, exec, append, lasting } = open.unwrap_or_default();
        let placed = matches!(self.kind, CreateKind::Directory { mdt: Some(_) });
        bits([self.exclusive, open.is_some(), read, write, exec, append, lasting, placed])
    }

    fn put(&self, w: &mut Writer) {
        let (kind, file_type, rdev, mdt) = match &self.kind {
            CreateKind::Regular(_) => (KIND_REGULAR, 0, 0, None),
            CreateKind::Directory { mdt } => (KIND_DIRECTORY, 0, 0, *mdt),
            CreateKind::Placed(_) => (KIND_PLACED, 0, 0, None),
            CreateKind::Symlink(_) => (KIND_SYMLINK, 0, 0, None),
            CreateKind::Special(file_type, rdev) => (KIND_SPECIAL, *file_type as u8, *rdev, None),
        };
        let mdt = mdt.unwrap_or_default().0.into();
        let (parent, mode, umask) = (self.parent.into(), self.mode.into(), self.umask.into());
        w.put(&RawCreate { parent, mode, umask, rdev: rdev.into(), kind, file_type, mdt });
        w.name(&self.name);
        match &self.kind {
            CreateKind::Symlink(target) => w.bytes(target),
            CreateKind::Placed(spec) => w.bytes(&Bytes::from(spec.encode())),
            CreateKind::Regular(_) | CreateKind::Directory { .. } | CreateKind::Special(..) => {}
        }
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Create, DecodeError> {
        let [exclusive, opened, read, write, exec, append, lasting, placed] =
            unpack("create flags", flags)?;
        let raw: &RawCreate = r.get()?;
        let name = r.name()?;
        let open = opened.then_some(OpenFlags { read, write, exec, append, lasting });
        let stray = open.is_none() && (read || write || exec || append || lasting);
        if stray
            || open.is_some() && raw.kind != KIND_REGULAR
            || placed && raw.kind != KIND_DIRECTORY
        {
            return Err(DecodeError::Field { field: "create flags", value: flags.into() });
        }
        let kind = match raw.kind {
            KIND_REGULAR => CreateKind::Regular(open),
            KIND_DIRECTORY => {
                CreateKind::Directory { mdt: placed.then(|| mdt_index(raw)).transpose()? }
            }
            KIND_SYMLINK => {
                CreateKind::Symlink(r.copied("bytes of link target", SYMLINK_BYTES_MAX)?)
            }
            KIND_PLACED => {
                let bytes = r.copied(DIR_SPEC, SPEC_BYTES_MAX)?;
                let bad = |_| DecodeError::Field { field: DIR_SPEC, value: bytes.len() as u64 };
                CreateKind::Placed(DirSpec::decode(&bytes).map_err(bad)?)
            }
            KIND_SPECIAL => match FileType::from_dtype(raw.file_type) {
                Some(
                    t @ (FileType::Fifo
                    | FileType::CharDevice
                    | FileType::BlockDevice
                    | FileType::Socket),
                ) => CreateKind::Special(t, raw.rdev.get()),
                _ => {
                    return Err(DecodeError::Field {
                        field: "special file type",
                        value: raw.file_type.into(),
                    });
                }
            },
            other => return Err(DecodeError::Field { field: "create kind", value: other.into() }),
        };
        let (mode, umask) = (raw.mode.get(), raw.umask.get());
        Ok(Create { parent: (&raw.parent).into(), name, kind, mode, umask, exclusive })
    }

    #[cfg(test)]
    fn sample() -> Create {
        let kind = CreateKind::Symlink(Bytes::from_static(b"../there"));
        Create { parent: DIR, name: name("link"), kind, mode: 0o777, umask: 0o022, exclusive: true }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Create> {
        let special = any_file_type().prop_filter("not special", |t| {
            !matches!(t, FileType::Regular | FileType::Directory | FileType::Symlink)
        });
        let kind = prop_oneof![
            of(any_open()).prop_map(CreateKind::Regular),
            of(0..TARGETS_MAX as u16)
                .prop_map(|mdt| CreateKind::Directory { mdt: mdt.map(TargetIndex) }),
            (2u16..9, any::<bool>(), vec(0u16..9, 0..2)).prop_map(|(count, any, mdts)| {
                let mdts = mdts.into_iter().map(TargetIndex).collect();
                CreateKind::Placed(DirSpec { count, any, mdts, ..DirSpec::default() })
            }),
            any_bytes(4095).prop_map(CreateKind::Symlink),
            (special, any::<u32>()).prop_map(|(t, rdev)| CreateKind::Special(t, rdev)),
        ];
        (any_fid(), any_name(), kind, any::<(u32, u32, bool)>())
            .prop_map(|(parent, name, kind, (mode, umask, exclusive))| Create {
                parent,
                name,
                kind,
                mode,
                umask,
                exclusive,
            })
            .boxed()
    }
}

/// The MDT of a new directory.
fn mdt_index(raw: &RawCreate) -> Result<TargetIndex, DecodeError> {
    match raw.mdt.get() {
        mdt if usize::from(mdt) < TARGETS_MAX => Ok(TargetIndex(mdt)),
        mdt => Err(DecodeError::Field { field: "MDT of a directory", value: mdt.into() }),
    }
}

/// Make a regular file without a name and open it (O_TMPFILE); answers `Opened`. With `linkable` a
/// `Link` may give it its first name; else it goes with its last handle.
#[derive(Clone, PartialEq, Debug)]
pub struct Tmpfile {
    /// Directory whose file system and default ACL apply.
    pub parent: Fid,
    /// Mode as the caller gave it.
    pub mode: u32,
    /// Applies unless a default ACL does.
    pub umask: u32,
    /// How it is opened.
    pub flags: OpenFlags,
    /// A `Link` may give it its first name; else it goes with its last handle.
    pub linkable: bool,
}

impl Operation for Tmpfile {
    fids!(parent);

    fn flags(&self) -> u16 {
        let OpenFlags { read, write, exec, append, lasting } = self.flags;
        bits([read, write, exec, append, lasting, self.linkable])
    }

    fn put(&self, w: &mut Writer) {
        let (parent, mode, umask) = (self.parent.into(), self.mode.into(), self.umask.into());
        w.put(&RawTmpfile { parent, mode, umask });
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Tmpfile, DecodeError> {
        let [read, write, exec, append, lasting, linkable] = unpack(FLAGS, flags)?;
        let raw: &RawTmpfile = r.get()?;
        let flags = OpenFlags { read, write, exec, append, lasting };
        let (mode, umask) = (raw.mode.get(), raw.umask.get());
        Ok(Tmpfile { parent: (&raw.parent).into(), mode, umask, flags, linkable })
    }

    #[cfg(test)]
    fn sample() -> Tmpfile {
        Tmpfile { parent: DIR, mode: 0o600, umask: 0o022, flags: sample_open(), linkable: true }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Tmpfile> {
        (any_fid(), any::<(u32, u32, bool)>(), any_open())
            .prop_map(|(parent, (mode, umask, linkable), flags)| Tmpfile {
                parent,
                mode,
                umask,
                flags,
                linkable,
            })
            .boxed()
    }
}

/// What the operations behind it in the same request find: each [`Unlink`], [`Rmdir`] and
/// [`Rename`] that changes this name does so only if it leads to this inode; else the answer is
/// ESTALE, and nothing is changed. If there is no such name, an operation that takes it says so by
/// itself. A kernel applies such a change to the inode that it knew by the name. Answers `Done`.
#[derive(Clone, PartialEq, Debug)]
pub struct Expect {
    /// Directory of the name.
    pub parent: Fid,
    /// The name.
    pub name: Name,
    /// The inode that it must lead to.
    pub inode: Fid,
}

impl Operation for Expect {
    fids!(parent, inode);

    fn put(&self, w: &mut Writer) {
        put_entry(self.parent, &self.name, w);
        put_fid(self.inode, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Expect, DecodeError> {
        plain(flags)?;
        Ok(Expect { parent: fid(r)?, name: r.name()?, inode: fid(r)? })
    }

    #[cfg(test)]
    fn sample() -> Expect {
        Expect { parent: DIR, name: name("a"), inode: FID }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Expect> {
        (any_place(), any_fid())
            .prop_map(|((parent, name), inode)| Expect { parent, name, inode })
            .boxed()
    }
}

/// Remove a name that is no directory; answers `Removed`.
#[derive(Clone, PartialEq, Debug)]
pub struct Unlink {
    /// Directory of the name.
    pub parent: Fid,
    /// The name.
    pub name: Name,
}

impl Operation for Unlink {
    fids!(parent);

    fn name_taken(&self) -> Option<(Fid, &Name)> {
        Some((self.parent, &self.name))
    }

    fn put(&self, w: &mut Writer) {
        put_entry(self.parent, &self.name, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Unlink, DecodeError> {
        plain(flags)?;
        Ok(Unlink { parent: fid(r)?, name: r.name()? })
    }

    #[cfg(test)]
    fn sample() -> Unlink {
        Unlink { parent: DIR, name: name("a") }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Unlink> {
        any_place().prop_map(|(parent, name)| Unlink { parent, name }).boxed()
    }
}

/// Remove an empty directory; answers `Removed`.
#[derive(Clone, PartialEq, Debug)]
pub struct Rmdir {
    /// Directory of the name.
    pub parent: Fid,
    /// The name.
    pub name: Name,
}

impl Operation for Rmdir {
    fids!(parent);

    fn name_taken(&self) -> Option<(Fid, &Name)> {
        Some((self.parent, &self.name))
    }

    fn put(&self, w: &mut Writer) {
        put_entry(self.parent, &self.name, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Rmdir, DecodeError> {
        plain(flags)?;
        Ok(Rmdir { parent: fid(r)?, name: r.name()? })
    }

    #[cfg(test)]
    fn sample() -> Rmdir {
        Rmdir { parent: DIR, name: name("d") }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Rmdir> {
        any_place().prop_map(|(parent, name)| Rmdir { parent, name }).boxed()
    }
}

/// Move a name; answers `Removed` (what was replaced).
#[derive(Clone, PartialEq, Debug)]
pub struct Rename {
    /// Directory of the old name.
    pub parent: Fid,
    /// The old name.
    pub name: Name,
    /// Directory of the new name.
    pub new_parent: Fid,
    /// The new name.
    pub new_name: Name,
    /// How.
    pub flags: RenameFlags,
}

impl Operation for Rename {
    fids!(parent, new_parent);

    fn name_made(&self) -> Option<(Fid, &Name)> {
        Some((self.new_parent, &self.new_name))
    }

    fn name_taken(&self) -> Option<(Fid, &Name)> {
        Some((self.parent, &self.name))
    }

    fn flags(&self) -> u16 {
        bits([self.flags.no_replace, self.flags.exchange])
    }

    fn put(&self, w: &mut Writer) {
        put_entry(self.parent, &self.name, w);
        put_entry(self.new_parent, &self.new_name, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Rename, DecodeError> {
        let [no_replace, exchange] = unpack(FLAGS, flags)?;
        let (parent, name, new_parent, new_name) = (fid(r)?, r.name()?, fid(r)?, r.name()?);
        Ok(Rename {
            parent,
            name,
            new_parent,
            new_name,
            flags: RenameFlags { no_replace, exchange },
        })
    }

    #[cfg(test)]
    fn sample() -> Rename {
        Rename {
            parent: DIR,
            name: name("from"),
            new_parent: Fid::ROOT,
            new_name: name("to"),
            flags: RenameFlags { no_replace: false, exchange: true },
        }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Rename> {
        (any_place(), any_place(), any::<(bool, bool)>())
            .prop_map(|((parent, name), (new_parent, new_name), (no_replace, exchange))| Rename {
                parent,
                name,
                new_parent,
                new_name,
                flags: RenameFlags { no_replace, exchange },
            })
            .boxed()
    }
}

/// Second name for an inode; answers `Entry`.
#[derive(Clone, PartialEq, Debug)]
pub struct Link {
    /// The inode.
    pub fid: Fid,
    /// Directory of the new name.
    pub new_parent: Fid,
    /// The new name.
    pub new_name: Name,
}

impl Operation for Link {
    fids!(fid, new_parent);

    fn name_made(&self) -> Option<(Fid, &Name)> {
        Some((self.new_parent, &self.new_name))
    }

    fn put(&self, w: &mut Writer) {
        put_fid(self.fid, w);
        put_entry(self.new_parent, &self.new_name, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Link, DecodeError> {
        plain(flags)?;
        Ok(Link { fid: fid(r)?, new_parent: fid(r)?, new_name: r.name()? })
    }

    #[cfg(test)]
    fn sample() -> Link {
        Link { fid: FID, new_parent: DIR, new_name: name("other") }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Link> {
        (any_fid(), any_place())
            .prop_map(|(fid, (new_parent, new_name))| Link { fid, new_parent, new_name })
            .boxed()
    }
}

/// Entries in name order, after `after` (None = from the start); at most `limit`, and about
/// `bytes_max` bytes. `with_attr`: with all attributes, but of inodes of other MDTs;
/// `with_layout`: with layouts of regular files.
#[derive(Clone, PartialEq, Debug)]
pub struct Readdir {
    /// The inode.
    pub fid: Fid,
    /// Names behind this one; `None`: from the start.
    pub after: Option<Name>,
    /// Entries at most.
    pub limit: u32,
    /// Bytes of the answer, about.
    pub bytes_max: u32,
    /// With all attributes.
    pub with_attr: bool,
    /// With layouts of regular files.
    pub with_layout: bool,
}

impl Operation for Readdir {
    fids!(fid);

    fn reply_bytes(&self) -> usize {
        let attr = if self.with_attr { ATTR_BYTES } else { 0 };
        (self.limit as usize).saturating_mul(ENTRY_BYTES + attr).min(self.bytes_max as usize)
    }

    fn flags(&self) -> u16 {
        bits([self.with_attr, self.after.is_some(), self.with_layout])
    }

    fn put(&self, w: &mut Writer) {
        let (limit, bytes_max) = (self.limit.into(), self.bytes_max.into());
        w.put(&RawReaddir { fid: self.fid.into(), limit, bytes_max });
        self.after.iter().for_each(|name| w.name(name));
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Readdir, DecodeError> {
        let [with_attr, goes_on, with_layout] = unpack(FLAGS, flags)?;
        let raw: &RawReaddir = r.get()?;
        let after = if goes_on { Some(r.name()?) } else { None };
        let (limit, bytes_max) = (raw.limit.get(), raw.bytes_max.get());
        Ok(Readdir { fid: (&raw.fid).into(), after, limit, bytes_max, with_attr, with_layout })
    }

    #[cfg(test)]
    fn sample() -> Readdir {
        Readdir {
            fid: DIR,
            after: Some(name("m")),
            limit: 100,
            bytes_max: 65536,
            with_attr: true,
            with_layout: false,
        }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Readdir> {
        (any_fid(), of(any_name()), any::<(u32, u32, bool, bool)>())
            .prop_map(|(fid, after, (limit, bytes_max, with_attr, with_layout))| Readdir {
                fid,
                after,
                limit,
                bytes_max,
                with_attr,
                with_layout,
            })
            .boxed()
    }
}

/// Target of a symbolic link.
#[derive(Clone, PartialEq, Debug)]
pub struct Readlink {
    /// The inode.
    pub fid: Fid,
}

impl Operation for Readlink {
    fids!(fid);

    fn put(&self, w: &mut Writer) {
        put_fid(self.fid, w);
    }

    fn get(flags: u16, r: &mut Reader<'_>, _: &mut Bulk) -> Result<Readlink, DecodeError> {
        plain(flags)?;
        Ok(Readlink { fid: fid(r)? })
    }

    #[cfg(test)]
    fn sample() -> Readlink {
        Readlink { fid: FID }
    }

    #[cfg(test)]
    fn any() -> BoxedStrategy<Readlink> {
        any_fid().prop_map(|fid| Readlink { fid }).boxed()
    }
}
