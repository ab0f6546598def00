//! What the kernel must forget.

use crate::kernel_view::reply_barrier::Token;
use types::fid::Fid;
use types::name::Name;

/// Beyond this many names one `inc_epoch` costs the kernel less than one message for each.
pub(crate) const NAMES_SENT_ONE_BY_ONE: usize = 1024;

/// See the module.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Invalidations {
    /// Names.
    pub names: Vec<StaleName>,
    /// Too many names: all are to be asked for again.
    pub all_names: bool,
    /// Attributes; of a directory its cached listing too.
    pub attrs: Vec<Fid>,
}

/// A name that the kernel may know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleName {
    /// Directory of the name.
    pub dir: Fid,
    /// The name.
    pub name: Name,
    /// An answer that makes it trusted may still be on its way to where the kernel notes it without
    /// a lock: the name must be dropped.
    pub settling: bool,
}

impl Invalidations {
    /// Adds a name; beyond `NAMES_SENT_ONE_BY_ONE` all names are stale. `settling`: see
    /// [`StaleName::settling`].
    pub fn name(&mut self, dir: Fid, name: Name, settling: bool) {
        if self.all_names {
        } else if self.names.len() < NAMES_SENT_ONE_BY_ONE {
            self.names.push(StaleName { dir, name, settling });
        } else {
            self.all_names();
        }
    }

    pub(crate) fn all_names(&mut self) {
        self.names = Vec::new();
        self.all_names = true;
    }

    /// True if there is nothing to forget.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && !self.all_names && self.attrs.is_empty()
    }
}

/// Invalidations that were taken from the table and that the kernel must be told. As long as this
/// exists, callbacks that find nothing to take wait.
pub struct Pending {
    pub(crate) invalidations: Invalidations,
    pub(crate) _sending: Token,
}
