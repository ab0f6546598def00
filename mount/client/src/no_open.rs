//! Handles of what the kernel has open without telling ([`crate::ops::files::no_open`]).

use crate::open::FileHandle;
use foldhash::HashMap;
use parking_lot::Mutex;
use types::fid::Fid;

/// Handles by inode. At most as many as the kernel knows inodes.
#[derive(Default)]
pub(crate) struct NoOpenHandles {
    pub(crate) files: Mutex<HashMap<Fid, FileHandle>>,
}
