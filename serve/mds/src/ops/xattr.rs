//! Getxattr, Listxattr, Setxattr, Removexattr. Layout attributes are another matter: `lov`.

use crate::bundles::change::is_acl;
use crate::mds::{Mds, RequestContext};
use crate::ops::layouts::lmv::{LmvName, parse_flags};
use crate::ops::layouts::lov::{LOV_DEFAULT, LovName, has_lov};
use crate::ops::layouts::lov_add::LOV_ADD;
use crate::ops::layouts::lov_del::LOV_DEL;
use namespace::context::Context;
use namespace::flags;
use namespace::project;
use namespace::xattr::{self, SetFlags};
use types::about::{FLAGS, LINKS, PROJECT};
use types::errno::Errno;
use types::lock::InodeBits;
use types::project::Project;
use wire::mds::{Getxattr, Listxattr, MdsReply, Removexattr, Setxattr};

impl Mds {
    pub(super) fn getxattr(
        &self,
        request: &mut RequestContext<'_>,
        op: &Getxattr,
    ) -> Result<MdsReply, Errno> {
        let &Getxattr { fid, ref name } = op;
        self.ours(fid)?;
        if let Some(lov) = LovName::of(name) {
            return self.get_lov(request.credentials, fid, lov);
        }
        if name == LOV_DEFAULT {
            return Ok(self.default_lov());
        }
        if name == LINKS.as_bytes() {
            return self.links(request, fid);
        }
        if let Some(lmv) = LmvName::of(name) {
            return self.get_lmv(request.credentials, fid, lmv);
        }
        if name == FLAGS.as_bytes() {
            return self.show(request, |records| {
                let flags = flags::flags(&records.there(fid)?);
                Ok(MdsReply::Bytes(flags.to_string().into()))
            });
        }
        if name == PROJECT.as_bytes() {
            return self.show(request, |records| {
                let inode = records.there(fid)?;
                let project = project::project(records, &inode)?;
                Ok(MdsReply::Bytes(project.to_string().into()))
            });
        }
        let ctx = reading(request);
        self.show(request, |records| {
            records.attributed(fid)?;
            match xattr::get(records, &ctx, fid, name) {
                Ok(value) => {
                    records.grant(fid, InodeBits::XATTR);
                    Ok(MdsReply::Bytes(value.into()))
                }
                Err(errno) => {
                    // Its absence is worth caching, too.
                    if errno == Errno::ENODATA {
                        records.grant(fid, InodeBits::XATTR);
                    }
                    Err(errno)
                }
            }
        })
    }

    pub(super) fn listxattr(
        &self,
        request: &mut RequestContext<'_>,
        op: &Listxattr,
    ) -> Result<MdsReply, Errno> {
        let &Listxattr { fid } = op;
        self.ours(fid)?;
        let ctx = reading(request);
        self.show(request, |records| {
            let inode = records.attributed(fid)?;
            let mut names = xattr::list(records, &ctx, fid)?;
            if ctx.is_root() && has_lov(&inode) {
                names.extend_from_slice(b"trusted.lov\0");
            }
            records.grant(fid, InodeBits::XATTR);
            Ok(MdsReply::Bytes(names.into()))
        })
    }

    pub(super) async fn setxattr(
        &self,
        request: &mut RequestContext<'_>,
        op: &Setxattr,
    ) -> Result<MdsReply, Errno> {
        self.ours(op.fid)?;
        loop {
            match self.setxattr_once(request, op).await {
                // It has got stripes just now.
                Err(Errno::EREMOTE) => {}
                result => return result,
            }
        }
    }

    async fn setxattr_once(
        &self,
        request: &mut RequestContext<'_>,
        op: &Setxattr,
    ) -> Result<MdsReply, Errno> {
        let &Setxattr { fid, ref name, ref value, flags } = op;
        if let Some(reply) = self.set_at_stripes(request, op).await? {
            return Ok(reply);
        }
        if let Some(lov) = LovName::of(name) {
            return match self
                .in_turn(request, |request| self.set_lov(request, fid, lov, value))
                .await
            {
                // The missing OST may have been started a moment ago.
                Err(Errno::ENOSPC | Errno::EINVAL) if self.has_unheard_osts() => {
                    self.refresh_spaces().await;
                    self.in_turn(request, |request| self.set_lov(request, fid, lov, value)).await
                }
                result => result,
            };
        }
        if name == LOV_ADD {
            return self.in_turn(request, |request| self.add_components(request, fid, value)).await;
        }
        if name == LOV_DEL {
            return self.drop_components(request, fid, value).await;
        }
        if let Some(lmv) = LmvName::of(name) {
            return self.set_lmv(request, fid, lmv, value).await;
        }
        if name == FLAGS.as_bytes() {
            let wanted = parse_flags(value)?;
            let set = |request: &mut RequestContext<'_>| {
                self.change(request, |records, ctx| {
                    records.there(fid)?;
                    records.is_whole(fid)?;
                    flags::set_flags(records, ctx, fid, wanted)?;
                    Ok(MdsReply::Done)
                })
            };
            return self.in_turn(request, set).await;
        }
        if name == PROJECT.as_bytes() {
            let wanted = self.wanted_project(request, value)?;
            let set = |request: &mut RequestContext<'_>| {
                self.change(request, |records, ctx| {
                    records.there(fid)?;
                    records.is_whole(fid)?;
                    project::set_project(records, ctx, fid, wanted)?;
                    Ok(MdsReply::Done)
                })
            };
            return self.in_turn(request, set).await;
        }
        let flags =
            SetFlags { create: flags.create, replace: flags.replace, kill_sgid: flags.kill_sgid };
        let set = |request: &mut RequestContext<'_>| {
            self.change(request, |records, ctx| {
                records.attributed(fid)?;
                if is_acl(name) {
                    records.is_whole(fid)?;
                }
                xattr::set(records, ctx, fid, name, value, flags)?;
                records.grant(fid, InodeBits::XATTR);
                Ok(MdsReply::Done)
            })
        };
        self.in_turn(request, set).await
    }

    /// The project that a caller wants for an inode.
    ///
    /// # Errors
    /// EPERM: the caller is not root, or its client may not do everything; EINVAL: the value is no
    /// [`Project`].
    pub(super) fn wanted_project(
        &self,
        request: &RequestContext<'_>,
        value: &[u8],
    ) -> Result<Project, Errno> {
        if request.credentials.uid != 0 || request.is_restricted {
            return Err(Errno::EPERM);
        }
        let text = std::str::from_utf8(value).map_err(|_| Errno::EINVAL)?;
        text.parse().map_err(|_| Errno::EINVAL)
    }

    pub(super) async fn removexattr(
        &self,
        request: &mut RequestContext<'_>,
        op: &Removexattr,
    ) -> Result<MdsReply, Errno> {
        self.ours(op.fid)?;
        loop {
            match self.removexattr_once(request, op).await {
                // It has got stripes just now.
                Err(Errno::EREMOTE) => {}
                result => return result,
            }
        }
    }

    async fn removexattr_once(
        &self,
        request: &mut RequestContext<'_>,
        op: &Removexattr,
    ) -> Result<MdsReply, Errno> {
        let &Removexattr { fid, ref name } = op;
        if let Some(reply) = self.remove_at_stripes(request, op).await? {
            return Ok(reply);
        }
        if let Some(lmv) = LmvName::of(name) {
            return self.set_lmv(request, fid, lmv, &[]).await;
        }
        if let Some(lov) = LovName::of(name) {
            return self.in_turn(request, |request| self.set_lov(request, fid, lov, &[])).await;
        }
        let remove = |request: &mut RequestContext<'_>| {
            self.change(request, |records, ctx| {
                records.attributed(fid)?;
                if is_acl(name) {
                    records.is_whole(fid)?;
                }
                xattr::remove(records, ctx, fid, name)?;
                records.grant(fid, InodeBits::XATTR);
                Ok(MdsReply::Done)
            })
        };
        self.in_turn(request, remove).await
    }
}

/// For operations that change nothing: time and version are not used.
fn reading<'a>(request: &RequestContext<'a>) -> Context<'a> {
    Context { credentials: request.credentials, now: Default::default(), version: 0 }
}
