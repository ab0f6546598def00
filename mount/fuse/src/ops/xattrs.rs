//! Extended attributes.

use super::squash::passed;
use super::{ClientFs, done, node};
use crate::decode::Request;
use crate::filesystem::Answer;
use crate::reply::Reply;
use bytes::Bytes;
use client::error::ClientError;
use types::errno::Errno;
use wire::mds::SetxattrFlags;

impl ClientFs {
    pub(super) fn getxattr(&self, request: &Request<'_>, name: &[u8], size: u32) -> Answer {
        let (check, name) = (self.check_xattr(request, name), request.to_bytes(name));
        let call = self.client().getxattr(self.caller(request, 0), node(request), name);
        let call = async move {
            passed(check).await?;
            call.await
        };
        sized(call, size)
    }

    pub(super) fn listxattr(&self, request: &Request<'_>, size: u32) -> Answer {
        sized(self.client().listxattr(self.caller(request, 0), node(request)), size)
    }

    pub(super) fn setxattr(
        &self,
        request: &Request<'_>,
        name: &[u8],
        value: &[u8],
        flags: u32,
        kill_sgid: bool,
    ) -> Answer {
        let flags = SetxattrFlags {
            create: flags & libc::XATTR_CREATE as u32 != 0,
            replace: flags & libc::XATTR_REPLACE as u32 != 0,
            kill_sgid,
        };
        let (name, value) = (request.to_bytes(name), request.to_bytes(value));
        done(self.client().setxattr(self.caller(request, 0), node(request), name, value, flags))
    }

    pub(super) fn removexattr(&self, request: &Request<'_>, name: &[u8]) -> Answer {
        let name = request.to_bytes(name);
        done(self.client().removexattr(self.caller(request, 0), node(request), name))
    }
}

fn sized(
    call: impl Future<Output = Result<Bytes, ClientError>> + Send + 'static,
    size: u32,
) -> Answer {
    Answer::Pending(Box::pin(async move {
        let value = call.await.map_err(|error: ClientError| -> Errno { error.errno() })?;
        Reply::sized(value, size)
    }))
}
