//! Structures and constants that C sees: `include/linux/lustre/lustre_user.h` and `lustreapi.h` in
//! Rust.

use std::ffi::{c_char, c_int, c_ulonglong};
use types::fid::Fid;

/// `struct lu_fid`
#[repr(C, packed)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LuFid {
    /// f_seq
    pub seq: u64,
    /// f_oid
    pub oid: u32,
    /// f_ver
    pub ver: u32,
}

impl From<Fid> for LuFid {
    fn from(Fid { seq, oid, ver }: Fid) -> LuFid {
        LuFid { seq, oid, ver }
    }
}

impl From<LuFid> for Fid {
    fn from(LuFid { seq, oid, ver }: LuFid) -> Fid {
        Fid { seq, oid, ver }
    }
}

/// `struct fid_array` without its FIDs.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FidArray {
    /// fa_nr
    pub nr: u32,
    /// fa_padding0, fa_padding1
    pub padding: [u32; 3],
}

/// `struct obd_uuid`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ObdUuid(pub [c_char; UUID_BYTES]);

/// UUID_MAX
pub const UUID_BYTES: usize = 40;

impl ObdUuid {
    /// Of a text; what is too long is cut off.
    pub fn of(text: &str) -> ObdUuid {
        let mut uuid = [0; UUID_BYTES];
        for (to, from) in uuid[..UUID_BYTES - 1].iter_mut().zip(text.bytes()) {
            *to = from as c_char;
        }
        ObdUuid(uuid)
    }
}

/// `struct obd_statfs`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ObdStatfs {
    /// os_type
    pub fs_type: u64,
    /// os_blocks
    pub blocks: u64,
    /// os_bfree
    pub bfree: u64,
    /// os_bavail
    pub bavail: u64,
    /// os_files
    pub files: u64,
    /// os_ffree
    pub ffree: u64,
    /// os_fsid
    pub fsid: [u8; 40],
    /// os_bsize
    pub bsize: u32,
    /// os_namelen
    pub namelen: u32,
    /// os_maxbytes
    pub maxbytes: u64,
    /// os_state
    pub state: u32,
    /// os_fprecreated, os_granted, os_spare3 to 9
    pub rest: [u32; 9],
}

/// `struct llapi_lu_ladvise`
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Ladvise {
    /// lla_advice
    pub advice: u16,
    /// lla_value1
    pub value1: u16,
    /// lla_value2
    pub value2: u32,
    /// lla_start
    pub start: u64,
    /// lla_end
    pub end: u64,
    /// lla_value3
    pub value3: u32,
    /// lla_value4
    pub value4: u32,
}

/// `struct llapi_stripe_param` without its OSTs.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StripeParam {
    /// lsp_stripe_size
    pub stripe_size: c_ulonglong,
    /// lsp_pool
    pub pool: *const c_char,
    /// lsp_stripe_offset
    pub stripe_offset: c_int,
    /// lsp_stripe_pattern
    pub stripe_pattern: c_int,
    /// lsp_stripe_count
    pub stripe_count: c_int,
    /// lsp_is_specific: a C bool
    pub is_specific: u8,
    /// lsp_is_create: a C bool
    pub is_create: u8,
    /// lsp_max_inherit
    pub max_inherit: u8,
    /// lsp_max_inherit_rr
    pub max_inherit_rr: u8,
}

/// Offset of lsp_osts.
pub const STRIPE_PARAM_OSTS: usize = std::mem::offset_of!(StripeParam, max_inherit_rr) + 1;

/// `LUSTRE_EOF`
pub const LUSTRE_EOF: u64 = u64::MAX;
/// `LUSTRE_MAXFSNAME`, and a NUL.
pub const FSNAME_BYTES: usize = types::target::FSNAME_BYTES_MAX + 1;
/// `PATH_MAX`
pub const PATH_BYTES: usize = libc::PATH_MAX as usize;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structures_have_the_sizes_of_the_interface() {
        assert_eq!((size_of::<LuFid>(), size_of::<FidArray>(), size_of::<ObdUuid>()), (16, 16, 40));
        assert_eq!((size_of::<ObdStatfs>(), offset_of!(ObdStatfs, state)), (144, 104));
        assert_eq!((size_of::<Ladvise>(), offset_of!(Ladvise, end)), (32, 16));
        assert_eq!(STRIPE_PARAM_OSTS, 2 * size_of::<usize>() + 16);
        assert_eq!(ObdUuid::of(&"x".repeat(60)).0[UUID_BYTES - 1], 0);
    }
}
