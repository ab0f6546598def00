//! A directory with all that the mount knows of what is in it: a question for a hundred files, not
//! one for each.

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Opcode, Updater, ioctl};
use std::io;
use std::path::Path;
use wire::codec::dir_scan::{self, BUFFER_BYTES, FIRST, Question};
use wire::mds::DirEntry;

/// An open directory.
pub struct Directory(OwnedFd);

/// Result of a request.
pub enum Answer {
    /// Entries, and the position behind them; none: the directory ends.
    Piece(Vec<DirEntry>, u64),
    /// This mount does not know the request.
    Unknown,
}

impl Directory {
    /// Opens it; what became a symbolic link meanwhile is not followed.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn open(path: &Path) -> io::Result<Directory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Directory(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// The descriptor, for readdir(3).
    pub fn into_fd(self) -> OwnedFd {
        self.0
    }

    /// Entries from a position on.
    fn ask(&self, question: Question) -> io::Result<Answer> {
        let mut buffer = question.encode();
        // SAFETY: the number of the command says that it reads and writes so many bytes, which is
        // what the buffer has.
        let asked = unsafe {
            let command =
                Updater::<{ dir_scan::DIR_SCAN as Opcode }, [u8; BUFFER_BYTES]>::new(&mut buffer);
            ioctl(&self.0, command)
        };
        match asked {
            Ok(()) => {}
            Err(rustix::io::Errno::NOTTY | rustix::io::Errno::NOSYS) => return Ok(Answer::Unknown),
            Err(error) => return Err(error.into()),
        }
        let (entries, next) = dir_scan::decode(&buffer[..])
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        Ok(Answer::Piece(entries, next))
    }

    /// Hands out all entries; `false`: this mount does not know the question, and nothing was
    /// handed out.
    ///
    /// # Errors
    /// EACCES: its entries may be listed, not looked at. It cannot be read to its end.
    pub fn dir_scan(&self, with_layout: bool, mut take: impl FnMut(DirEntry)) -> io::Result<bool> {
        let mut position = FIRST;
        loop {
            match self.ask(Question { position, with_layout })? {
                Answer::Unknown => return Ok(false),
                Answer::Piece(entries, _) if entries.is_empty() => return Ok(true),
                Answer::Piece(entries, next) => {
                    entries.into_iter().for_each(&mut take);
                    position = next;
                }
            }
        }
    }
}
