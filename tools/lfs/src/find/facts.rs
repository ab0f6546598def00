//! Facts about a file, fetched when they are first asked for.

use super::when::When;
use crate::dirstripe::{self, Place};
use ask::xattr;
use layout::layout::{Component, Pattern};
use layout::lov_ea::{LovEa, decode_of_file, encode};
use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxAttributes, StatxFlags};
use std::cell::OnceCell;
use std::io;
use std::path::{Path, PathBuf};
use types::about;
use types::attr::Attr;
use types::fid::Fid;
use types::time::Timestamp;
use wire::mds::DirEntry;

/// Attributes that are asked about.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    /// Inode number.
    pub ino: u64,
    /// Type and permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names.
    pub nlink: u32,
    /// Bytes.
    pub size: u64,
    /// Space, units of 512 bytes.
    pub blocks: u64,
    /// Major and minor number of a device.
    pub rdev: (u32, u32),
    /// Last read.
    pub atime: When,
    /// Last written.
    pub mtime: When,
    /// Last changed.
    pub ctime: When,
    /// Made.
    pub btime: When,
}

impl From<&Statx> for Stat {
    fn from(stat: &Statx) -> Stat {
        let when = |at: &rustix::fs::StatxTimestamp| When { seconds: at.tv_sec, nanos: at.tv_nsec };
        Stat {
            ino: stat.stx_ino,
            mode: stat.stx_mode.into(),
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            nlink: stat.stx_nlink,
            size: stat.stx_size,
            blocks: stat.stx_blocks,
            rdev: (stat.stx_rdev_major, stat.stx_rdev_minor),
            atime: when(&stat.stx_atime),
            mtime: when(&stat.stx_mtime),
            ctime: when(&stat.stx_ctime),
            btime: when(&stat.stx_btime),
        }
    }
}

impl From<&Attr> for Stat {
    fn from(attr: &Attr) -> Stat {
        let when = |at: Timestamp| When { seconds: at.sec, nanos: at.nsec };
        let rdev = u64::from(attr.rdev);
        Stat {
            ino: attr.fid.ino(),
            mode: attr.mode,
            uid: attr.uid,
            gid: attr.gid,
            nlink: attr.nlink,
            size: attr.size,
            blocks: attr.blocks,
            rdev: (rustix::fs::major(rdev), rustix::fs::minor(rdev)),
            atime: when(attr.atime),
            mtime: when(attr.mtime),
            ctime: when(attr.ctime),
            btime: when(attr.btime),
        }
    }
}

/// The facts that a search needs, besides name and type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// Attributes, or FIDs.
    pub attributes: bool,
    /// Layouts.
    pub layouts: bool,
}

impl Needs {
    /// Attributes only.
    pub const ATTRIBUTES: Needs = Needs { attributes: true, layouts: false };
    /// Layouts only.
    pub const LAYOUTS: Needs = Needs { attributes: false, layouts: true };

    /// Both.
    #[must_use]
    pub fn and(self, other: Needs) -> Needs {
        Needs {
            attributes: self.attributes || other.attributes,
            layouts: self.layouts || other.layouts,
        }
    }
}

/// One file.
pub struct Facts {
    /// Path of the file.
    pub path: PathBuf,
    /// Levels below it.
    pub level: usize,
    kind: OnceCell<FileType>,
    stat: OnceCell<Stat>,
    fid: OnceCell<Fid>,
    layout: OnceCell<Option<LovEa>>,
    place: OnceCell<Place>,
}

impl Facts {
    /// `kind`: type of the file, if the directory listed it.
    pub fn new(path: PathBuf, level: usize, kind: Option<FileType>) -> Facts {
        let cell = OnceCell::new();
        if let Some(kind) = kind.filter(|kind| *kind != FileType::Unknown) {
            // The cell is empty: it was just made.
            let _ = cell.set(kind);
        }
        Facts {
            path,
            level,
            kind: cell,
            stat: OnceCell::new(),
            fid: OnceCell::new(),
            layout: OnceCell::new(),
            place: OnceCell::new(),
        }
    }

    /// Adds what a directory scan of its directory returned.
    ///
    /// # Errors
    /// InvalidData: a layout that is none.
    pub fn scanned(path: PathBuf, level: usize, entry: &DirEntry) -> io::Result<Facts> {
        let kind = FileType::from_raw_mode(entry.file_type.mode_bits());
        let facts = Facts { fid: entry.fid.into(), ..Facts::new(path, level, Some(kind)) };
        // All cells are empty: the value was just made.
        if let Some(entry) = &entry.entry {
            let _ = facts.stat.set(Stat::from(&entry.attr));
        }
        if let Some(layout) = &entry.layout {
            let _ = facts.layout.set(read_lov(&encode(layout, entry.fid))?);
        }
        Ok(facts)
    }

    /// Attributes.
    ///
    /// # Errors
    /// Those of statx(2).
    pub fn stat(&self) -> io::Result<&Stat> {
        if self.stat.get().is_none() {
            let _ = self.stat.set(Stat::from(&self.statx()?));
        }
        Ok(self.stat.get().expect("just set"))
    }

    /// Flags that chattr(1) sets.
    ///
    /// # Errors
    /// Those of statx(2).
    pub fn attributes(&self) -> io::Result<StatxAttributes> {
        Ok(self.statx()?.stx_attributes)
    }

    fn statx(&self) -> io::Result<Statx> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        Ok(rustix::fs::statx(CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW, wanted)?)
    }

    /// Type.
    ///
    /// # Errors
    /// As [`Facts::stat`].
    pub fn kind(&self) -> io::Result<FileType> {
        if let Some(kind) = self.kind.get() {
            return Ok(*kind);
        }
        Ok(FileType::from_raw_mode(self.stat()?.mode))
    }

    /// Layout of a file, or default layout of a directory. `None` if it has none of its own.
    ///
    /// # Errors
    /// The layout cannot be read.
    pub fn layout(&self) -> io::Result<Option<&LovEa>> {
        if self.layout.get().is_none() {
            let found = match self.kind()? {
                FileType::RegularFile | FileType::Directory => self.read_layout()?,
                _ => None,
            };
            let _ = self.layout.set(found);
        }
        Ok(self.layout.get().and_then(Option::as_ref))
    }

    fn read_layout(&self) -> io::Result<Option<LovEa>> {
        let bytes = match xattr::get(&self.path, xattr::LOV) {
            Err(e) if e.raw_os_error() == Some(libc::ENODATA) => return Ok(None),
            got => got?,
        };
        read_lov(&bytes)
    }

    /// On which MDTs a directory is. `None`: it is no directory.
    ///
    /// # Errors
    /// As [`Facts::kind`], and those of getxattr(2).
    pub(crate) fn place(&self) -> io::Result<Option<&Place>> {
        if self.kind()? != FileType::Directory {
            return Ok(None);
        }
        if self.place.get().is_none() {
            let _ = self.place.set(dirstripe::stripes_of(&self.path)?);
        }
        Ok(self.place.get())
    }

    /// The MDTs where the file is: its inode, and the stripes of a directory.
    ///
    /// # Errors
    /// As [`Facts::place`] and [`Facts::fid`].
    pub fn mdts(&self) -> io::Result<Vec<u16>> {
        match self.place()? {
            Some(place) => Ok(place.mdts()),
            None => Ok(vec![self.fid()?.mdt()]),
        }
    }

    /// Components of the layout; none if there is no layout.
    ///
    /// # Errors
    /// As [`Facts::layout`].
    pub fn components(&self) -> io::Result<&[Component]> {
        Ok(self.layout()?.map_or(&[], |ea| &ea.layout.components))
    }

    /// The component whose values are shown for the file: the last that has objects.
    ///
    /// # Errors
    /// As [`Facts::layout`].
    pub fn shown(&self) -> io::Result<Option<&Component>> {
        let all = self.components()?;
        Ok(all
            .iter()
            .rfind(|c| c.pattern == Pattern::Raid0 && !c.stripes.is_empty())
            .or(all.last()))
    }

    /// Identity.
    ///
    /// # Errors
    /// The mount does not tell it.
    pub fn fid(&self) -> io::Result<Fid> {
        if let Some(fid) = self.fid.get() {
            return Ok(*fid);
        }
        let text = xattr::get_text(&self.path, about::FID)?;
        text.trim_end().parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "no FID"))
    }

    /// The last part of the path.
    pub fn name(&self) -> &Path {
        self.path.file_name().map_or(&*self.path, Path::new)
    }
}

/// Value of `lustre.lov`.
fn read_lov(bytes: &[u8]) -> io::Result<Option<LovEa>> {
    let (ea, _) =
        decode_of_file(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
    Ok(Some(ea).filter(|ea| !ea.layout.components.is_empty()))
}
