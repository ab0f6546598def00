//! A process' open file.

use super::DiskEvent;
use crate::core::Core;
use crate::hash::Event;
use crate::machine::Process;
use crate::volume::inode::{Content, Inode};
use crate::volume::usage::{PAGE, Usage};
use env::disk::File;
use std::io;
use std::sync::Arc;

pub(super) struct SimFile {
    pub(super) core: Arc<Core>,
    pub(super) process: Arc<Process>,
    pub(super) inode: Arc<Inode>,
}

fn end_of(start: u64, len: u64) -> io::Result<u64> {
    start
        .checked_add(len)
        .filter(|end| *end <= i64::MAX as u64)
        .ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}

impl SimFile {
    fn look<T>(&self, look: impl FnOnce(&Content) -> T) -> io::Result<T> {
        if !self.process.is_alive() {
            return Err(io::Error::other("this process was killed"));
        }
        Ok(self.inode.look(look))
    }

    fn change<T>(
        &self,
        event: DiskEvent,
        change: impl FnOnce(&mut Content, &Usage) -> T,
    ) -> io::Result<T> {
        if !self.process.is_alive() {
            return Err(io::Error::other("this process was killed"));
        }
        self.core.executor.note(Event::Disk, self.inode.number, event as u64);
        Ok(self.inode.change(change))
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.look(|content| content.read(buf, offset))
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let end = end_of(offset, buf.len() as u64)?;
        self.change(DiskEvent::Write, |content, usage| content.write(usage, buf, offset, end))?
    }

    fn size_and_blocks(&self) -> io::Result<(u64, u64)> {
        self.look(|content| (content.len(), content.pages() * PAGE / 512))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(DiskEvent::Resize, |content, usage| content.set_len(usage, len))
    }

    fn punch(&self, start: u64, len: u64) -> io::Result<()> {
        let end = end_of(start, len)?;
        self.change(DiskEvent::Punch, |content, usage| content.punch(usage, start, end))
    }

    fn allocate(&self, start: u64, len: u64, zero: bool) -> io::Result<()> {
        let end = end_of(start, len)?;
        self.change(DiskEvent::Allocate, |content, usage| {
            content.allocate(usage, start, end, zero)
        })?
    }

    fn seek(&self, offset: u64, hole: bool) -> io::Result<Option<u64>> {
        self.look(|content| content.seek(offset, hole))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.look(|_| ())?;
        self.core.executor.note(Event::Disk, self.inode.number, DiskEvent::Sync as u64);
        self.inode.sync();
        Ok(())
    }
}
