//! What is known of a file, fetched when it is first asked for.

use super::when::When;
use ask::xattr;
use layout::layout::{Component, Pattern};
use layout::lov_ea::{LovEa, decode_of_file};
use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags};
use std::cell::OnceCell;
use std::io;
use std::path::{Path, PathBuf};
use types::about;
use types::fid::Fid;

/// One file.
pub struct Facts {
    /// Where it is.
    pub path: PathBuf,
    /// Levels below it.
    pub level: usize,
    kind: OnceCell<FileType>,
    stat: OnceCell<Statx>,
    layout: OnceCell<Option<LovEa>>,
}

impl Facts {
    /// `kind`: its type, if the directory told it.
    pub fn new(path: PathBuf, level: usize, kind: Option<FileType>) -> Facts {
        let cell = OnceCell::new();
        if let Some(kind) = kind.filter(|kind| *kind != FileType::Unknown) {
            // It is empty: it was made just now.
            let _ = cell.set(kind);
        }
        Facts { path, level, kind: cell, stat: OnceCell::new(), layout: OnceCell::new() }
    }

    /// Attributes.
    ///
    /// # Errors
    /// Those of statx(2).
    pub fn stat(&self) -> io::Result<&Statx> {
        if self.stat.get().is_none() {
            let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
            let stat = rustix::fs::statx(CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW, wanted)?;
            let _ = self.stat.set(stat);
        }
        Ok(self.stat.get().expect("just set"))
    }

    /// Type.
    ///
    /// # Errors
    /// As [`Facts::stat`].
    pub fn kind(&self) -> io::Result<FileType> {
        if let Some(kind) = self.kind.get() {
            return Ok(*kind);
        }
        Ok(FileType::from_raw_mode(u32::from(self.stat()?.stx_mode)))
    }

    /// Layout of a file, default layout of a directory. `None`: it has none of its own.
    ///
    /// # Errors
    /// It cannot be read.
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
        let (ea, _) = decode_of_file(&bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        Ok(Some(ea).filter(|ea| !ea.layout.components.is_empty()))
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
        Ok(all.iter().rfind(|c| c.pattern == Pattern::Raid0 && !c.stripes.is_empty()).or(all.last()))
    }

    /// Identity.
    ///
    /// # Errors
    /// The mount does not tell it.
    pub fn fid(&self) -> io::Result<Fid> {
        let text = xattr::get_text(&self.path, about::FID)?;
        text.trim_end().parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "no FID"))
    }

    /// The last part of the path.
    pub fn name(&self) -> &Path {
        self.path.file_name().map_or(&*self.path, Path::new)
    }
}

/// A time of statx(2).
pub fn when(at: &rustix::fs::StatxTimestamp) -> When {
    When { seconds: at.tv_sec, nanos: at.tv_nsec }
}
