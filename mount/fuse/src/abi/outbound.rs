//! Structs of replies and notifications, daemon to kernel.

use super::inbound::{FileLock, abi_struct};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

abi_struct!(
    /// Before every reply; in a notification `unique` is 0 and `error` the notification's code.
    OutHeader, 16 { len: u32, error: i32, unique: u64, }
);
abi_struct!(
    /// stat(2) as the kernel caches it.
    AttrWire, 88 {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32,
        blksize: u32, flags: u32,
    }
);
abi_struct!(
    /// LOOKUP and whatever makes a name. `nodeid` 0 is a cached "no such name".
    EntryOut, 128 {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64,
        entry_valid_nsec: u32, attr_valid_nsec: u32, attr: AttrWire,
    }
);
abi_struct!(AttrOut, 104 { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: AttrWire, });
abi_struct!(OpenOut, 16 { fh: u64, open_flags: u32, backing_id: i32, });
abi_struct!(WriteOut, 8 { size: u32, padding: u32, });
abi_struct!(
    /// statfs(2); sizes in units of `frsize`.
    StatfsOut, 80 {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64,
        bsize: u32, namelen: u32, frsize: u32, padding: u32, spare: [u32; 6],
    }
);
abi_struct!(GetxattrOut, 8 { size: u32, padding: u32, });
abi_struct!(LkOut, 24 { lk: FileLock, });
abi_struct!(
    /// Answer to INIT.
    InitOut, 64 {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16, congestion_threshold: u16,
        max_write: u32, time_gran: u32, max_pages: u16, map_alignment: u16, flags2: u32, max_stack_depth: u32,
        request_timeout: u16, unused: [u16; 11],
    }
);
abi_struct!(BmapOut, 8 { block: u64, });
abi_struct!(IoctlOut, 16 { result: i32, flags: u32, in_iovs: u32, out_iovs: u32, });
abi_struct!(PollOut, 8 { revents: u32, padding: u32, });
abi_struct!(LseekOut, 8 { offset: u64, });
abi_struct!(CopyFileRangeOut, 8 { bytes_copied: u64, });
abi_struct!(StatxTime, 16 { sec: i64, nsec: u32, reserved: i32, });
abi_struct!(
    /// statx(2).
    StatxWire, 256 {
        mask: u32, blksize: u32, attributes: u64, nlink: u32, uid: u32, gid: u32, mode: u16, spare0: u16,
        ino: u64, size: u64, blocks: u64, attributes_mask: u64,
        atime: StatxTime, btime: StatxTime, ctime: StatxTime, mtime: StatxTime,
        rdev_major: u32, rdev_minor: u32, dev_major: u32, dev_minor: u32, spare2: [u64; 14],
    }
);
abi_struct!(
    /// Answer to STATX.
    StatxOut, 288 { attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], stat: StatxWire, }
);
abi_struct!(
    /// Before the name in READDIR; each record is padded to 8 bytes.
    Dirent, 24 { ino: u64, off: u64, namelen: u32, kind: u32, }
);
abi_struct!(
    /// Before `Dirent` and name in READDIRPLUS is an `EntryOut`; this is both.
    DirentPlus, 152 { entry: EntryOut, dirent: Dirent, }
);
abi_struct!(
    /// Drop attributes (`off` < 0) or also the data of a range (`len` 0: to the end).
    NotifyInvalInodeOut, 24 { ino: u64, off: i64, len: i64, }
);
abi_struct!(
    /// Drop or expire a name; the name and a NUL follow.
    NotifyInvalEntryOut, 16 { parent: u64, namelen: u32, flags: u32, }
);
abi_struct!(
    /// A name was removed; the name and a NUL follow.
    NotifyDeleteOut, 24 { parent: u64, child: u64, namelen: u32, padding: u32, }
);
abi_struct!(
    /// Put data into the page cache; the data follow.
    NotifyStoreOut, 24 { nodeid: u64, offset: u64, size: u32, padding: u32, }
);
abi_struct!(
    /// Drop unused names of nodes; `count` node ids follow.
    NotifyPruneOut, 16 { count: u32, padding: u32, spare: u64, }
);

/// Codes of notifications.
pub mod notify {
    /// `NotifyInvalInodeOut`
    pub const INVAL_INODE: i32 = 2;
    /// `NotifyInvalEntryOut`
    pub const INVAL_ENTRY: i32 = 3;
    /// `NotifyStoreOut`
    pub const STORE: i32 = 4;
    /// `NotifyDeleteOut`
    pub const DELETE: i32 = 6;
    /// No body: send all requests in flight again.
    pub const RESEND: i32 = 7;
    /// No body: revalidate every name at its next use.
    pub const INC_EPOCH: i32 = 8;
    /// `NotifyPruneOut`
    pub const PRUNE: i32 = 9;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn golden_bytes_of_a_reply_header() {
        let header = OutHeader { len: 16, error: -libc::ENOENT, unique: 0x0102_0304_0506_0708 };
        assert_eq!(
            header.as_bytes(),
            [16, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 8, 7, 6, 5, 4, 3, 2, 1]
        );
    }

    #[test]
    fn golden_offsets_of_replies() {
        assert_eq!([offset_of!(EntryOut, entry_valid_nsec), offset_of!(EntryOut, attr)], [32, 40]);
        assert_eq!(
            [
                offset_of!(AttrWire, atimensec),
                offset_of!(AttrWire, mode),
                offset_of!(AttrWire, blksize)
            ],
            [48, 60, 80]
        );
        assert_eq!(
            [
                offset_of!(InitOut, max_background),
                offset_of!(InitOut, max_write),
                offset_of!(InitOut, max_pages)
            ],
            [16, 20, 28]
        );
        assert_eq!([offset_of!(InitOut, flags2), offset_of!(InitOut, request_timeout)], [32, 40]);
        assert_eq!(
            [
                offset_of!(StatxWire, ino),
                offset_of!(StatxWire, atime),
                offset_of!(StatxWire, btime)
            ],
            [32, 64, 80]
        );
        assert_eq!([offset_of!(StatxWire, rdev_major), offset_of!(StatxOut, stat)], [128, 32]);
        assert_eq!([offset_of!(StatfsOut, bsize), offset_of!(StatfsOut, frsize)], [40, 48]);
        assert_eq!(offset_of!(DirentPlus, dirent), 128);
    }
}
