//! The kernel's FUSE ABI, protocol 7.31 to 7.45, as plain Rust structs.
//!
//! Facts come from the kernel's published header (`linux/fuse.h`); the structs are SheenFS's own.
//! Everything is in the machine's byte order, as the kernel writes it. Sizes are checked when
//! compiling, bytes are pinned by tests. Only this module and `decode`/`reply`/`notify` know an
//! offset.

pub mod flags;
pub mod inbound;
pub mod opcode;
pub mod outbound;

/// Major version of the protocol.
pub const MAJOR: u32 = 7;
/// Newest supported minor version.
pub const MINOR: u32 = 45;
/// Oldest accepted minor version: all structs that vary among later ones vary by a negotiated flag.
pub const MINOR_OLDEST: u32 = 31;
/// Node id of the root directory.
pub const ROOT_ID: u64 = 1;
/// Bit of `unique` that the kernel sets in INTERRUPT messages.
pub const INTERRUPT_BIT: u64 = 1;
/// Bit of `unique` that marks a request sent again after NOTIFY_RESEND.
pub const RESEND_BIT: u64 = 1 << 63;
/// `_IOR(229, 0, u32)`: attach this open of /dev/fuse to the connection of another.
pub const DEV_IOC_CLONE: u32 = 0x8004_e500;
/// Variable-length records are padded to this many bytes.
pub const RECORD_ALIGN: usize = 8;
/// Type of an extension that carries supplementary groups.
pub const EXT_GROUPS: u32 = 32;
