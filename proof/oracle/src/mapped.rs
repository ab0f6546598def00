//! Words of a file that every thread has mapped to be written, on every mount.
//!
//! A mapping is accessed by single stores and loads of eight bytes, because the processor promises
//! no more. The file is never cut, so no access meets the end of the file.

use rustix::fs::{Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Name of the file in the folder of a round.
pub const NAME: &str = "words";
/// Words that are used, by turns in one page and the other.
pub const WORDS: u8 = 6;
const PAGE: usize = 4096;
/// Length, bytes.
pub const LEN: usize = 2 * PAGE;

/// The file, open and mapped.
pub struct Words {
    /// For reading it by a system call.
    pub file: File,
    start: NonNull<u8>,
}

// SAFETY: the mapping is shared memory that is used by atomic operations only, from any thread.
unsafe impl Send for Words {}

/// Offset of a word, bytes.
pub fn offset(word: u8) -> usize {
    assert!(word < WORDS, "a word that is not used");
    usize::from(word % 2) * PAGE + usize::from(word) * 8
}

impl Words {
    /// Opens and maps the file of a round.
    ///
    /// # Errors
    /// Those of openat(2) and mmap(2).
    pub fn open(arena: BorrowedFd<'_>) -> rustix::io::Result<Words> {
        let file: File =
            rustix::fs::openat(arena, NAME, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?.into();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), LEN, protection, MapFlags::SHARED, &file, 0)
        }?;
        Ok(Words {
            file,
            start: NonNull::new(start.cast()).expect("a mapping is not at address 0"),
        })
    }

    fn word(&self, word: u8) -> &AtomicU64 {
        // SAFETY: it lies within the mapping, which lives as long as `self`, is aligned, and is
        // used by atomic operations only.
        unsafe { self.start.add(offset(word)).cast().as_ref() }
    }

    /// Loads a word.
    pub fn get(&self, word: u8) -> u64 {
        self.word(word).load(Ordering::SeqCst)
    }

    /// Stores a word.
    pub fn set(&self, word: u8, value: u64) {
        self.word(word).store(value, Ordering::SeqCst);
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `open`, and nothing refers to it any more.
        if let Err(error) = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), LEN) } {
            eprintln!("unmap the words of a round: {error}");
        }
    }
}
