//! Getxattr, Listxattr, Setxattr, Removexattr. Layout attributes are another matter: `lov`.

use super::lov::{LOV_DEFAULT, LovName};
use crate::mds::{Call, Mds};
use namespace::context::Context;
use namespace::xattr::{self, Flags};
use types::errno::Errno;
use types::fid::Fid;
use wire::mds::{MdsReply, SetxattrFlags};

impl Mds {
    pub(super) fn getxattr(&self, call: &Call<'_>, fid: Fid, name: &[u8]) -> Result<MdsReply, Errno> {
        self.ours(fid)?;
        if let Some(lov) = LovName::of(name) {
            return self.get_lov(call.credentials, fid, lov);
        }
        if name == LOV_DEFAULT {
            return Ok(self.default_lov());
        }
        let ctx = reading(call);
        self.read(|records| xattr::get(records, &ctx, fid, name)).map(|value| MdsReply::Bytes(value.into()))
    }

    pub(super) fn listxattr(&self, call: &Call<'_>, fid: Fid) -> Result<MdsReply, Errno> {
        self.ours(fid)?;
        let ctx = reading(call);
        self.read(|records| xattr::list(records, &ctx, fid)).map(|names| MdsReply::Bytes(names.into()))
    }

    pub(super) async fn setxattr(
        &self,
        call: &mut Call<'_>,
        fid: Fid,
        name: &[u8],
        value: &[u8],
        flags: SetxattrFlags,
    ) -> Result<MdsReply, Errno> {
        self.ours(fid)?;
        if let Some(lov) = LovName::of(name) {
            return match self.set_lov(call, fid, lov, value) {
                // An OST that was started a moment ago may be the one that is missed.
                Err(Errno::ENOSPC | Errno::EINVAL) if self.has_unheard_osts() => {
                    self.refresh_spaces().await;
                    self.set_lov(call, fid, lov, value)
                }
                result => result,
            };
        }
        let flags = Flags { create: flags.create, replace: flags.replace, kill_sgid: flags.kill_sgid };
        self.change(call, |records, ctx| xattr::set(records, ctx, fid, name, value, flags)).map(|_| MdsReply::Done)
    }

    pub(super) fn removexattr(&self, call: &mut Call<'_>, fid: Fid, name: &[u8]) -> Result<MdsReply, Errno> {
        self.ours(fid)?;
        if let Some(lov) = LovName::of(name) {
            return self.set_lov(call, fid, lov, &[]);
        }
        self.change(call, |records, ctx| xattr::remove(records, ctx, fid, name)).map(|_| MdsReply::Done)
    }
}

/// For operations that change nothing: time and version are not used.
fn reading<'a>(call: &Call<'a>) -> Context<'a> {
    Context { credentials: call.credentials, now: Default::default(), version: 0 }
}
