//! What a program does with a file that it has open: it writes, reads, cuts, locks and syncs it.
//! The blocks that it wrote and saw go into [`BytesSeen`](crate::bytes_seen::BytesSeen), its locks
//! into [`LocksSeen`](crate::locks_seen::LocksSeen).

use super::{Held, Program};
use crate::bytes_seen::{BLOCK, Change, Read, filled, value_of};
use crate::history::Moment;
use crate::workload::Use;
use client::WriteFlags;
use client::caller::Caller;
use client::open::FileHandle;
use std::time::Duration;
use types::attr::SetAttr;
use types::lock::{Flock, FlockFlavor, FlockKind};

/// First blocks of what is written: at the beginning, and across the ends of the first two stripes.
const BLOCKS: [u64; 6] = [0, 1, 62, 63, 64, 127];
/// Blocks of one write at most.
const BLOCKS_MAX: u64 = 3;

impl Program {
    pub(super) async fn use_file(&mut self, file: Held, handle: FileHandle, reads: bool) {
        let (least, most) = self.workload.rounds;
        for _ in 0..self.rng.between(least, most) {
            self.go_on().await;
            if self.workload.pause_us > 0 {
                let pause = self.rng.below(self.workload.pause_us);
                self.env.clock.sleep(Duration::from_micros(pause)).await;
            }
            match self.workload.usage(&mut self.rng) {
                Use::Write if !reads => self.write(file, handle).await,
                Use::Write | Use::Read => {
                    let first = *self.rng.pick(&BLOCKS);
                    self.read(file, handle, first, BLOCKS_MAX).await;
                }
                Use::Lock => self.lock(file, handle).await,
                Use::Fsync => {
                    let began = self.recorder.history.moment();
                    let synced = self.client.clone().fsync(Caller::root(), handle, false).await;
                    self.told(synced.is_ok());
                    match synced {
                        Ok(()) => {
                            self.recorder.synced(file.ino, began);
                            let ended = self.recorder.history.moment();
                            self.recorder.bytes.synced(self.mount, file.ino, began, ended);
                        }
                        Err(error) => self.unexpected_open("fsync of", file.ino, &error),
                    }
                }
            }
        }
        self.close(handle).await;
    }

    pub(super) async fn write(&mut self, file: Held, handle: FileHandle) {
        let first = *self.rng.pick(&BLOCKS);
        let blocks = self.rng.between(1, BLOCKS_MAX);
        let value = self.rng.next_u64() | 1;
        let data = filled(value).repeat(blocks as usize);
        self.marks(value);
        let sync = self.rng.chance(100);
        let flags = WriteFlags { sync, ..WriteFlags::default() };
        let began = self.recorder.history.moment();
        let work =
            self.client.clone().write(Caller::root(), handle, first * BLOCK, data.into(), flags);
        // Noted before: it may reach the servers even if this program is killed.
        let mount = self.mount;
        let note = |ended: Moment| {
            for block in first..first + blocks {
                let change = Change::new(mount, value, (began, ended), sync);
                self.recorder.bytes.wrote(file.ino, block, change);
            }
        };
        let pending = PendingWrite { note: Some(&note) };
        let result = work.await;
        let told = matches!(&result, Ok(written) if u64::from(written.bytes) == blocks * BLOCK);
        let ended = self.recorder.history.moment();
        pending.ended(if told { ended } else { Moment::MAX });
        self.told(told);
        if told && sync {
            self.recorder.synced(file.ino, began);
        }
        if let Err(error) = &result {
            self.unexpected_open("write to", file.ino, error);
        }
    }

    pub(super) async fn read(&mut self, file: Held, handle: FileHandle, first: u64, blocks: u64) {
        let began = self.recorder.history.moment();
        let len = (blocks * BLOCK) as u32;
        let result =
            self.client.clone().read(Caller::root(), handle, first * BLOCK, len, false).await;
        let ended = self.recorder.history.moment();
        self.told(result.is_ok());
        let parts = match result {
            Ok(parts) => parts,
            Err(error) => return self.unexpected_open("read of", file.ino, &error),
        };
        let data: Vec<u8> = parts.concat();
        for block in 0..blocks {
            let from = data.len().min((block * BLOCK) as usize);
            let to = data.len().min(((block + 1) * BLOCK) as usize);
            match value_of(&data[from..to]) {
                Ok(value) => {
                    self.sees_value(value);
                    let read =
                        Read { program: self.number, mount: self.mount, value, began, ended };
                    self.recorder.bytes.read(file.ino, first + block, read)
                }
                Err(what) => {
                    let text = format!("block {} of inode {:x}: {what}", first + block, file.ino);
                    self.recorder.found.lock().push(text);
                }
            }
        }
    }

    pub(super) async fn truncate(&mut self, file: Held) {
        let block = *self.rng.pick(&BLOCKS);
        let set = SetAttr { size: Some(block * BLOCK), ..SetAttr::default() };
        let began = self.recorder.history.moment();
        let mount = self.mount;
        let note = |ended: Moment| self.recorder.bytes.cut(mount, file.ino, block, began, ended);
        let pending = PendingWrite { note: Some(&note) };
        let result = self.client.clone().setattr(Caller::root(), file.node, None, set).await;
        let ended = self.recorder.history.moment();
        pending.ended(if result.is_ok() { ended } else { Moment::MAX });
        self.told(result.is_ok());
        if let Err(error) = &result {
            self.unexpected("truncate of", file.ino, error);
        }
    }

    async fn lock(&mut self, file: Held, handle: FileHandle) {
        let exclusive = self.rng.chance(600);
        let kind = if exclusive { FlockKind::Write } else { FlockKind::Read };
        let lock = Flock {
            kind,
            flavor: FlockFlavor::Bsd,
            owner: self.number as u64 + 1,
            pid: 1,
            start: 0,
            end: u64::MAX,
        };
        let result = self.client.clone().setlk(Caller::root(), handle, lock, true).await;
        self.told(result.is_ok());
        match result {
            Ok(()) => {
                let since = self.recorder.history.moment();
                let number = self.recorder.locks.granted(
                    self.number,
                    self.machine,
                    file.ino,
                    exclusive,
                    since,
                );
                // Usually short; sometimes longer than a server needs to come back.
                let longest = *self.rng.pick(&[5_000, 5_000, 1_500_000]);
                self.env.clock.sleep(Duration::from_micros(self.rng.below(longest))).await;
                self.recorder.locks.released(number, self.recorder.history.moment());
                let unlock = Flock { kind: FlockKind::Unlock, ..lock };
                if let Err(error) =
                    self.client.clone().setlk(Caller::root(), handle, unlock, false).await
                {
                    self.unexpected_open("unlock of", file.ino, &error);
                }
            }
            Err(error) => self.unexpected_open("lock of", file.ino, &error),
        }
    }
}

/// A change that counts as never answered if the program dies before it is.
struct PendingWrite<'a> {
    note: Option<&'a (dyn Fn(Moment) + Sync)>,
}

impl PendingWrite<'_> {
    fn ended(mut self, ended: Moment) {
        if let Some(note) = self.note.take() {
            note(ended);
        }
    }
}

impl Drop for PendingWrite<'_> {
    fn drop(&mut self) {
        if let Some(note) = self.note.take() {
            note(Moment::MAX);
        }
    }
}
