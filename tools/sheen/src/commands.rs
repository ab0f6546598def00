//! The commands of `sheen`, one file each.

pub(crate) mod auth;
pub(crate) mod bench;
pub(crate) mod completion;
pub(crate) mod dash;
pub(crate) mod down;
pub(crate) mod fsck;
pub(crate) mod lctl;
pub(crate) mod lfs;
pub(crate) mod lnetctl;
pub(crate) mod man;
pub(crate) mod mkfs;
pub(crate) mod mount;
pub(crate) mod router;
pub(crate) mod scrub;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod up;
pub(crate) mod why;
