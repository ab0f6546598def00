//! INIT: what kernel and daemon agree on.
//!
//! Never negotiated, for good reasons: WRITEBACK_CACHE (the kernel would ignore size changes by
//! other clients, and an O_APPEND overwrote remote data) and ATOMIC_O_TRUNC (loses O_TRUNC on
//! mounts that answer ENOSYS to OPEN).

use crate::abi::flags::init;
use crate::abi::inbound::InitIn;
use crate::abi::outbound::InitOut;
use crate::abi::{MAJOR, MINOR, MINOR_OLDEST};
use crate::decode::Dialect;
use zerocopy::FromZeros;

/// Largest READ or WRITE, bytes. Larger ones gain nothing (measured): less parallelism, more cache
/// misses.
pub const MAX_WRITE: u32 = 1 << 20;
/// The same in pages of 4 KiB.
pub const MAX_PAGES: u16 = 256;
/// Background requests (read-ahead, direct I/O parts) in flight: 64 MiB.
pub const MAX_BACKGROUND: u16 = 64;
/// Background requests at which the kernel calls the mount congested.
pub const CONGESTION_THRESHOLD: u16 = 48;

/// Wanted of every kernel; features that it does not offer are left out.
const WANTED: u64 = init::ASYNC_READ
    | init::BIG_WRITES
    | init::HAS_IOCTL_DIR
    | init::AUTO_INVAL_DATA
    | init::DO_READDIRPLUS
    | init::READDIRPLUS_AUTO
    | init::ASYNC_DIO
    | init::PARALLEL_DIROPS
    | init::MAX_PAGES
    // Safe: the target of a symbolic link never changes, and node ids are never given to another
    // inode.
    | init::CACHE_SYMLINKS
    | init::HANDLE_KILLPRIV_V2
    | init::SETXATTR_EXT
    | init::INIT_EXT
    | init::CREATE_SUPP_GROUP
    | init::HAS_EXPIRE_ONLY
    | init::DIRECT_IO_ALLOW_MMAP
    | init::HAS_RESEND;

/// With ACLs the daemon applies the umask: a default ACL replaces it.
const WANTED_FOR_ACL: u64 = init::POSIX_ACL | init::DONT_MASK;

/// With locks that the daemon decides.
const WANTED_FOR_LOCKS: u64 = init::POSIX_LOCKS | init::FLOCK_LOCKS;

/// The outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed {
    /// Minor version both speak.
    pub minor: u32,
    /// Flags both know.
    pub flags: u64,
}

impl Agreed {
    /// What the decoder must know.
    pub fn dialect(&self) -> Dialect {
        Dialect { setxattr_ext: self.flags & init::SETXATTR_EXT != 0 }
    }

    /// True if the kernel has notifications from this minor version on.
    pub fn has_minor(&self, minor: u32) -> bool {
        self.minor >= minor
    }
}

/// Answer to INIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Negotiation {
    /// Send this and go on.
    Agreed(InitOut, Agreed),
    /// The kernel is newer by a major version: send this, it will send INIT again in this version.
    Again(InitOut),
    /// Too old.
    TooOld {
        /// The kernel's major version.
        major: u32,
        /// The kernel's minor version.
        minor: u32,
    },
}

/// Decides. `flags2` are flags 32..63 if the kernel sent them.
pub fn negotiate(asked: &InitIn, flags2: u32, posix_acl: bool, locks: bool) -> Negotiation {
    let blank = InitOut { major: MAJOR, minor: MINOR, ..InitOut::new_zeroed() };
    if asked.major > MAJOR {
        return Negotiation::Again(blank);
    }
    if asked.major < MAJOR || asked.minor < MINOR_OLDEST {
        return Negotiation::TooOld { major: asked.major, minor: asked.minor };
    }
    let extended = u64::from(asked.flags) & init::INIT_EXT != 0;
    let offered = u64::from(asked.flags) | if extended { u64::from(flags2) << 32 } else { 0 };
    let extra = [(posix_acl, WANTED_FOR_ACL), (locks, WANTED_FOR_LOCKS)];
    let wanted =
        extra.iter().filter(|(on, _)| *on).fold(WANTED, |wanted, (_, flags)| wanted | flags);
    let flags = offered & wanted;
    let agreed = Agreed { minor: asked.minor.min(MINOR), flags };
    let out = InitOut {
        minor: agreed.minor,
        max_readahead: asked.max_readahead,
        flags: flags as u32,
        max_background: MAX_BACKGROUND,
        congestion_threshold: CONGESTION_THRESHOLD,
        max_write: MAX_WRITE,
        time_gran: 1,
        max_pages: MAX_PAGES,
        flags2: (flags >> 32) as u32,
        ..blank
    };
    Negotiation::Agreed(out, agreed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(minor: u32, flags: u32) -> InitIn {
        InitIn { major: 7, minor, max_readahead: 131_072, flags }
    }

    #[test]
    fn a_kernel_that_offers_all_gets_what_we_want_and_no_more() {
        let Negotiation::Agreed(out, agreed) =
            negotiate(&asked(45, u32::MAX), u32::MAX, true, true)
        else {
            panic!()
        };
        assert_eq!(agreed.flags, WANTED | WANTED_FOR_ACL | WANTED_FOR_LOCKS);
        assert_eq!(
            agreed.flags & (init::WRITEBACK_CACHE | init::ATOMIC_O_TRUNC | init::NO_OPEN_SUPPORT),
            0
        );
        assert_eq!(u64::from(out.flags) | u64::from(out.flags2) << 32, agreed.flags);
        assert_eq!((out.major, out.minor, out.max_write, out.max_pages), (7, 45, 1 << 20, 256));
        assert!(agreed.dialect().setxattr_ext);
    }

    #[test]
    fn without_acl_the_kernel_applies_the_umask() {
        let Negotiation::Agreed(_, agreed) =
            negotiate(&asked(45, u32::MAX), u32::MAX, false, false)
        else {
            panic!()
        };
        assert_eq!(agreed.flags & (init::POSIX_ACL | init::DONT_MASK), 0);
        assert_eq!(agreed.flags & WANTED_FOR_LOCKS, 0, "and keeps the locks of this host itself");
    }

    #[test]
    fn an_old_kernel_gets_its_own_version_and_no_second_word() {
        let flags = init::ASYNC_READ as u32;
        let Negotiation::Agreed(out, agreed) = negotiate(&asked(31, flags), u32::MAX, true, true)
        else {
            panic!()
        };
        assert_eq!((out.minor, agreed.flags, out.flags2), (31, init::ASYNC_READ, 0));
        assert!(!agreed.dialect().setxattr_ext);
    }

    #[test]
    fn versions_that_cannot_talk() {
        assert_eq!(
            negotiate(&asked(30, 0), 0, true, true),
            Negotiation::TooOld { major: 7, minor: 30 }
        );
        let newer = InitIn { major: 8, ..asked(0, 0) };
        assert!(
            matches!(negotiate(&newer, 0, true, true), Negotiation::Again(out) if out.major == 7)
        );
    }
}
