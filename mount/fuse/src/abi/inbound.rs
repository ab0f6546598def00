//! Structs of requests, kernel to daemon.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! abi_struct {
    ($(#[$doc:meta])* $name:ident, $size:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        #[allow(missing_docs, reason = "the names are those of the kernel's structs")]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }
        const _: () = assert!(size_of::<$name>() == $size);
    };
}
pub(crate) use abi_struct;

abi_struct!(
    /// Before every request.
    InHeader, 40 {
        /// Whole message, bytes.
        len: u32,
        opcode: u32,
        /// Names the request in its reply and in INTERRUPT.
        unique: u64,
        nodeid: u64,
        /// File system user id of the caller.
        uid: u32,
        /// File system group id of the caller.
        gid: u32,
        /// Thread id of the caller in the daemon's pid namespace; 0 if it has none there, or for
        /// write-back.
        pid: u32,
        /// Extensions at the end, in units of 8 bytes.
        total_extlen: u16,
        padding: u16,
    }
);
abi_struct!(
    /// INIT up to minor 35.
    InitIn, 16 { major: u32, minor: u32, max_readahead: u32, flags: u32, }
);
abi_struct!(
    /// The fields that minor 36 adds to INIT.
    InitExtIn, 48 { flags2: u32, unused: [u32; 11], }
);
abi_struct!(ForgetIn, 8 { nlookup: u64, });
abi_struct!(ForgetOne, 16 { nodeid: u64, nlookup: u64, });
abi_struct!(BatchForgetIn, 8 { count: u32, dummy: u32, });
abi_struct!(GetattrIn, 16 { getattr_flags: u32, dummy: u32, fh: u64, });
abi_struct!(
    /// `valid` says which fields are meant.
    SetattrIn, 88 {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32,
    }
);
abi_struct!(MknodIn, 16 { mode: u32, rdev: u32, umask: u32, padding: u32, });
abi_struct!(MkdirIn, 8 { mode: u32, umask: u32, });
abi_struct!(RenameIn, 8 { newdir: u64, });
abi_struct!(Rename2In, 16 { newdir: u64, flags: u32, padding: u32, });
abi_struct!(LinkIn, 8 { oldnodeid: u64, });
abi_struct!(OpenIn, 8 { flags: u32, open_flags: u32, });
abi_struct!(
    /// CREATE and TMPFILE.
    CreateIn, 16 { flags: u32, mode: u32, umask: u32, open_flags: u32, }
);
abi_struct!(
    /// RELEASE and RELEASEDIR.
    ReleaseIn, 24 { fh: u64, flags: u32, release_flags: u32, lock_owner: u64, }
);
abi_struct!(FlushIn, 24 { fh: u64, unused: u32, padding: u32, lock_owner: u64, });
abi_struct!(
    /// READ, READDIR, READDIRPLUS.
    ReadIn, 40 {
        fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32,
    }
);
abi_struct!(
    /// Before the data.
    WriteIn, 40 {
        fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32,
    }
);
abi_struct!(
    /// FSYNC and FSYNCDIR.
    FsyncIn, 16 { fh: u64, fsync_flags: u32, padding: u32, }
);
abi_struct!(
    /// Short form, without SETXATTR_EXT.
    SetxattrIn, 8 { size: u32, flags: u32, }
);
abi_struct!(
    /// Follows the short form when SETXATTR_EXT was negotiated.
    SetxattrExtIn, 8 { setxattr_flags: u32, padding: u32, }
);
abi_struct!(
    /// GETXATTR and LISTXATTR; size 0 asks for the size.
    GetxattrIn, 8 { size: u32, padding: u32, }
);
abi_struct!(
    /// A lock; `end` is inclusive.
    FileLock, 24 { start: u64, end: u64, kind: u32, pid: u32, }
);
abi_struct!(
    /// GETLK, SETLK, SETLKW.
    LkIn, 48 { fh: u64, owner: u64, lk: FileLock, lk_flags: u32, padding: u32, }
);
abi_struct!(AccessIn, 8 { mask: u32, padding: u32, });
abi_struct!(InterruptIn, 8 { unique: u64, });
abi_struct!(BmapIn, 16 { block: u64, blocksize: u32, padding: u32, });
abi_struct!(
    /// Before `in_size` bytes of argument.
    IoctlIn, 32 { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32, }
);
abi_struct!(PollIn, 24 { fh: u64, kh: u64, flags: u32, events: u32, });
abi_struct!(FallocateIn, 32 { fh: u64, offset: u64, length: u64, mode: u32, padding: u32, });
abi_struct!(LseekIn, 24 { fh: u64, offset: u64, whence: u32, padding: u32, });
abi_struct!(
    /// COPY_FILE_RANGE and COPY_FILE_RANGE_64.
    CopyFileRangeIn, 56 {
        fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64,
    }
);
abi_struct!(SyncfsIn, 8 { padding: u64, });
abi_struct!(StatxIn, 24 { getattr_flags: u32, reserved: u32, fh: u64, sx_flags: u32, sx_mask: u32, });
abi_struct!(
    /// Before each extension; `size` includes this header.
    ExtHeader, 8 { size: u32, kind: u32, }
);

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes as the kernel (x86-64 or arm64, both little endian) sends them; written down by hand
    /// from the header.
    #[test]
    fn golden_bytes_of_a_header() {
        let bytes: [u8; 40] = [
            0x2c, 0, 0, 0, // len 44
            1, 0, 0, 0, // LOOKUP
            0x0a, 0, 0, 0, 0, 0, 0, 0, // unique
            1, 0, 0, 0, 0, 0, 0, 0, // nodeid
            0xe8, 3, 0, 0, // uid 1000
            0xe9, 3, 0, 0, // gid 1001
            0x39, 5, 0, 0, // pid 1337
            2, 0, 0, 0, // extlen 2
        ];
        let header = InHeader::read_from_bytes(&bytes).unwrap();
        let expected = InHeader {
            len: 44,
            opcode: 1,
            unique: 10,
            nodeid: 1,
            uid: 1000,
            gid: 1001,
            pid: 1337,
            total_extlen: 2,
            padding: 0,
        };
        assert_eq!(header, expected);
        assert_eq!(expected.as_bytes(), bytes);
    }

    #[test]
    fn golden_offsets_of_setattr_write_and_locks() {
        use std::mem::offset_of;
        assert_eq!(
            [
                offset_of!(SetattrIn, size),
                offset_of!(SetattrIn, atime),
                offset_of!(SetattrIn, atimensec),
                offset_of!(SetattrIn, mode),
                offset_of!(SetattrIn, uid),
                offset_of!(SetattrIn, gid)
            ],
            [16, 32, 56, 68, 76, 80]
        );
        assert_eq!(
            [
                offset_of!(WriteIn, size),
                offset_of!(WriteIn, lock_owner),
                offset_of!(WriteIn, flags)
            ],
            [16, 24, 32]
        );
        assert_eq!(
            [offset_of!(LkIn, owner), offset_of!(LkIn, lk), offset_of!(LkIn, lk_flags)],
            [8, 16, 40]
        );
        assert_eq!([offset_of!(IoctlIn, arg), offset_of!(IoctlIn, in_size)], [16, 24]);
        assert_eq!(
            [offset_of!(CopyFileRangeIn, nodeid_out), offset_of!(CopyFileRangeIn, len)],
            [16, 40]
        );
        assert_eq!([offset_of!(StatxIn, fh), offset_of!(StatxIn, sx_mask)], [8, 20]);
    }
}
