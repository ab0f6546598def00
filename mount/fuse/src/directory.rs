//! Directory listings in the kernel's form, filled up to the size it asked for.

use crate::abi::RECORD_ALIGN;
use crate::abi::outbound::{Dirent, DirentPlus};
use crate::reply::{Entry, entry_out};
use bytes::Bytes;
use types::attr::FileType;
use zerocopy::IntoBytes;

/// A READDIR or READDIRPLUS reply that is being built.
#[derive(Debug)]
pub struct Listing {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Listing {
    /// For a reply of at most `size` bytes; the kernel never asks for more than `max_write`, so
    /// this bounds memory too.
    pub fn new(size: u32) -> Listing {
        let bytes_max = (size as usize).min(crate::init::MAX_WRITE as usize);
        Listing { bytes: Vec::with_capacity(bytes_max.min(32 << 10)), bytes_max }
    }

    /// Adds a plain entry; false if it has no room, and then nothing was added. `next` is the
    /// position after it.
    #[must_use]
    pub fn push(&mut self, ino: u64, next: u64, kind: FileType, name: &[u8]) -> bool {
        let dirent = Dirent { ino, off: next, namelen: name.len() as u32, kind: kind as u32 };
        self.push_record(dirent.as_bytes(), name)
    }

    /// Adds an entry with attributes; `entry.node` 0 gives the kernel only the name (".", ".."),
    /// any other counts one reference.
    #[must_use]
    pub fn push_plus(
        &mut self,
        entry: &Entry,
        ino: u64,
        next: u64,
        kind: FileType,
        name: &[u8],
    ) -> bool {
        let dirent = Dirent { ino, off: next, namelen: name.len() as u32, kind: kind as u32 };
        self.push_record(DirentPlus { entry: entry_out(entry), dirent }.as_bytes(), name)
    }

    /// The reply's data.
    pub fn into_bytes(self) -> Bytes {
        self.bytes.into()
    }

    /// True if nothing was added yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn push_record(&mut self, head: &[u8], name: &[u8]) -> bool {
        let len = (head.len() + name.len()).next_multiple_of(RECORD_ALIGN);
        if self.bytes.len() + len > self.bytes_max {
            return false;
        }
        let end = self.bytes.len() + len;
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(name);
        self.bytes.resize(end, 0);
        true
    }
}

/// The form of `.` and `..` in READDIRPLUS: a name without a node.
pub fn dot_entry() -> Entry {
    Entry {
        node: 0,
        generation: 0,
        ino: 0,
        attr: None,
        entry_valid: std::time::Duration::ZERO,
        attr_valid: std::time::Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_of_an_entry() {
        let mut listing = Listing::new(64);
        assert!(listing.push(0x0102, 7, FileType::Regular, b"ab"));
        let expected = [
            &[2, 1, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0][..],
            &[2, 0, 0, 0, 8, 0, 0, 0],
            b"ab\0\0\0\0\0\0",
        ]
        .concat();
        assert_eq!(listing.into_bytes(), expected);
    }

    #[test]
    fn a_full_listing_takes_no_more() {
        let mut listing = Listing::new(70);
        assert!(listing.push(1, 1, FileType::Directory, b"12345678"));
        assert!(listing.push(1, 2, FileType::Directory, b"12345678"));
        assert!(!listing.push(1, 3, FileType::Directory, b"1"));
        assert_eq!(listing.into_bytes().len(), 64);
        let mut plus = Listing::new(160);
        assert!(plus.push_plus(&dot_entry(), 1, 1, FileType::Directory, b"."));
        assert_eq!(plus.into_bytes().len(), 160);
        assert!(!Listing::new(159).push_plus(&dot_entry(), 1, 1, FileType::Directory, b"."));
    }
}
