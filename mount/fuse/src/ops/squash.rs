//! Callers that act as others: root of a host whose root the MDTs squash, or all of its users.
//!
//! The kernel checks the permission of the caller that it knows, and so that of root: it lets it do
//! everything. What goes to an MDT is checked there. What is answered here, from what locks cover,
//! is checked here first, for the ids as which the caller acts. (A path through names that the
//! kernel itself keeps is seen by no daemon.)

use super::{ClientFs, node};
use crate::decode::{Operation, Request};
use client::AccessMask;
use client::error::ClientError;
use env::BoxFuture;
use types::credentials::ActsAs;
use types::errno::Errno;

/// A check that must succeed before an operation begins.
pub(super) type Check = Option<BoxFuture<'static, Result<(), ClientError>>>;

/// Runs a check, if there is one.
pub(super) async fn passed(check: Check) -> Result<(), ClientError> {
    match check {
        Some(check) => check.await,
        None => Ok(()),
    }
}

/// True if a caller that the MDTs refuse may not ask for this: what looks at names and contents,
/// and what changes the name space. What is open stays open.
fn is_denied(operation: &Operation<'_>) -> bool {
    matches!(
        operation,
        Operation::Lookup { .. }
            | Operation::Setattr { .. }
            | Operation::Access { .. }
            | Operation::Readlink
            | Operation::Symlink { .. }
            | Operation::Mknod { .. }
            | Operation::Mkdir { .. }
            | Operation::Unlink { .. }
            | Operation::Rmdir { .. }
            | Operation::Rename { .. }
            | Operation::Link { .. }
            | Operation::Open { .. }
            | Operation::Create { .. }
            | Operation::Tmpfile { .. }
            | Operation::Opendir { .. }
            | Operation::Getxattr { .. }
            | Operation::Setxattr { .. }
            | Operation::Listxattr { .. }
            | Operation::Removexattr { .. }
    )
}

impl ClientFs {
    /// True if the MDTs refuse the caller, and so would refuse this.
    pub(super) fn denies(&self, request: &Request<'_>) -> bool {
        self.client.acts_as(request.header.uid) == ActsAs::Nobody && is_denied(&request.operation)
    }

    /// True if the caller acts as another.
    pub(super) fn is_squashed(&self, request: &Request<'_>) -> bool {
        self.client.acts_as(request.header.uid) != ActsAs::Itself
    }

    /// The check whether a caller that acts as another may do this with the inode of the request.
    /// `None`: the kernel has done it.
    pub(super) fn check(&self, request: &Request<'_>, mask: AccessMask) -> Check {
        if !self.is_squashed(request) {
            return None;
        }
        Some(Box::pin(self.client().permit(self.caller(request, 0), node(request), mask)))
    }

    /// The check of making a device, which is root's; not of the mark of overlays (0, 0).
    pub(super) fn check_device(&self, request: &Request<'_>, mode: u32, rdev: u32) -> Check {
        let device = matches!(mode & libc::S_IFMT, libc::S_IFCHR | libc::S_IFBLK) && rdev != 0;
        if !device {
            return None;
        }
        let may_create =
            self.check(request, AccessMask { read: false, write: true, exec: true })?;
        Some(Box::pin(async move {
            may_create.await?;
            Err(Errno::EPERM.into())
        }))
    }

    /// The check of reading an extended attribute. Those of a user can be read by callers that
    /// can read the file; `trusted.` is root's.
    pub(super) fn check_xattr(&self, request: &Request<'_>, name: &[u8]) -> Check {
        match name {
            name if name.starts_with(b"user.") => self.check(request, AccessMask::READ),
            name if name.starts_with(b"trusted.") && self.is_squashed(request) => {
                Some(Box::pin(std::future::ready(Err(Errno::ENODATA.into()))))
            }
            _ => None,
        }
    }
}
