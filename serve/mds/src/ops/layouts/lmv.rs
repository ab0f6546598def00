//! `lustre.lmv` and `trusted.lmv`: the stripes of a directory in Lustre's binary form; setting it
//! splits or merges the directory. `sheen.stripes`: the record of them. `sheen.mdts`: setting
//! it takes the directory to other MDTs. `lustre.dmv` and
//! `trusted.dmv`: where directories go that are made in it. An empty value (or `removexattr`) takes
//! that away.

use crate::bundles::change::{DirChange, is_acl};
use crate::bundles::restripe::Restripe;
use crate::mds::{Mds, RequestContext};
use crate::ops::layouts::lov::LovName;
use crate::records::tail;
use layout::dir_stripes::{DirStripes, MDTS_XATTR, RECORD_XATTR};
use layout::lmv_ea;
use namespace::inode::InodeFlags;
use namespace::view::View;
use namespace::xattr::SetFlags;
use types::about::{FLAGS, PROJECT};
use types::credentials::Credentials;
use types::dir_stripes::{DirDefault, DirHash, DirSpec};
use types::errno::Errno;
use types::fid::Fid;
use wire::mds::{MdsReply, Removexattr, Setxattr};

/// An attribute with stripes of directories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::ops) enum LmvName {
    /// Those of the directory.
    Stripes(LovName),
    /// The record of those.
    Record,
    /// The default for those that are made in it.
    Default(LovName),
    /// The MDTs to which it goes.
    Mdts,
}

impl LmvName {
    /// `None`: none of them.
    pub(in crate::ops) fn of(name: &[u8]) -> Option<LmvName> {
        match name {
            b"lustre.lmv" => Some(LmvName::Stripes(LovName::Lustre)),
            b"trusted.lmv" => Some(LmvName::Stripes(LovName::Trusted)),
            RECORD_XATTR => Some(LmvName::Record),
            MDTS_XATTR => Some(LmvName::Mdts),
            b"lustre.dmv" => Some(LmvName::Default(LovName::Lustre)),
            b"trusted.dmv" => Some(LmvName::Default(LovName::Trusted)),
            _ => None,
        }
    }
}

impl Mds {
    pub(in crate::ops) fn get_lmv(
        &self,
        credentials: &Credentials,
        fid: Fid,
        name: LmvName,
    ) -> Result<MdsReply, Errno> {
        if let LmvName::Stripes(who) | LmvName::Default(who) = name {
            who.check(credentials, Errno::ENODATA)?;
        }
        let (inode, went) = self.read(|records| {
            let inode = records.inode(fid)?;
            let lives = inode.as_ref().is_some_and(|inode| inode.attr.nlink > 0);
            Ok((inode, records.state.went.to(fid).filter(|_| !lives)))
        })?;
        let inode = match (inode, went) {
            (_, Some(now)) if name == LmvName::Record => {
                // It has had such a record since.
                let one = DirStripes::new(DirHash::default(), vec![now]);
                return Ok(MdsReply::Bytes(one.map_err(|_| Errno::EIO)?.encode().into()));
            }
            (None, _) => return Err(Errno::ESTALE),
            // Names are not looked for any more.
            (Some(inode), _) if name == LmvName::Record && inode.attr.nlink == 0 => {
                return Err(Errno::ENOENT);
            }
            (Some(inode), _) => inode,
        };
        let bytes = match name {
            LmvName::Stripes(_) if inode.flags.contains(InodeFlags::STRIPED) => {
                lmv_ea::encode(&tail::stripes(&inode)?).ok_or(Errno::ENODATA)?
            }
            LmvName::Record if inode.flags.contains(InodeFlags::STRIPED) => {
                tail::stripes(&inode)?.encode()
            }
            LmvName::Stripes(_) | LmvName::Record | LmvName::Mdts => return Err(Errno::ENODATA),
            LmvName::Default(_) => {
                lmv_ea::encode_default(&tail::default_stripes(&inode)?.ok_or(Errno::ENODATA)?)
            }
        };
        Ok(MdsReply::Bytes(bytes.into()))
    }

    /// As [`Mds::get_lmv`], of the record of the stripes, when no bundle is changing it.
    pub(in crate::ops) async fn get_stripes(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
    ) -> Result<MdsReply, Errno> {
        self.in_turn(request, |request| {
            self.show(request, |records| records.settled(fid))?;
            self.get_lmv(request.credentials, fid, LmvName::Record)
        })
        .await
    }

    /// Sets a default, or takes it away (an empty value); splits or merges a directory.
    pub(in crate::ops) async fn set_lmv(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
        name: LmvName,
        value: &[u8],
    ) -> Result<MdsReply, Errno> {
        let who = match name {
            LmvName::Default(who) => who,
            LmvName::Stripes(who) if !value.is_empty() => {
                who.check(request.credentials, Errno::EPERM)?;
                let wanted = parse_wanted(value)?;
                let (credentials, export) = (request.credentials, request.export);
                Box::pin(self.restripe(credentials, Some(export), fid, wanted)).await?;
                return Ok(MdsReply::Done);
            }
            LmvName::Mdts if !value.is_empty() => {
                let spec = DirSpec::decode(value).map_err(|error| {
                    tracing::debug!(%error, "MDTs refused");
                    Errno::EINVAL
                })?;
                let (credentials, export) = (request.credentials, request.export);
                Box::pin(self.migrate(credentials, export, fid, &spec)).await?;
                return Ok(MdsReply::Done);
            }
            LmvName::Stripes(_) | LmvName::Record | LmvName::Mdts => {
                return Err(Errno::EOPNOTSUPP);
            }
        };
        who.check(request.credentials, Errno::EPERM)?;
        let default = self.parse_default(value)?;
        let change = DirChange::DefaultStripes(default.as_ref());
        if self.is_striped(fid)? {
            return Box::pin(self.change_stripes(request, fid, change)).await;
        }
        let set = |request: &mut RequestContext<'_>| {
            self.change(request, |records, ctx| {
                records.there(fid)?;
                records.is_whole(fid)?;
                self.make_dir_change(records, ctx, fid, change)?;
                Ok(MdsReply::Done)
            })
        };
        self.in_turn(request, set).await
    }

    fn parse_default(&self, value: &[u8]) -> Result<Option<DirDefault>, Errno> {
        if value.is_empty() {
            return Ok(None);
        }
        let default = lmv_ea::decode_default(value).map_err(|error| {
            tracing::debug!(%error, "default refused");
            Errno::EINVAL
        })?;
        self.check_default(&default)?;
        Ok(Some(default))
    }

    /// True if an inode is a stripe of a directory.
    pub(in crate::ops) fn is_striped(&self, fid: Fid) -> Result<bool, Errno> {
        self.read(|records| Ok(records.entry(fid)?.is_some_and(|entry| entry.striped != 0)))
    }

    /// An attribute of a striped directory that all stripes have, if it is one; `None`: it is that
    /// of one inode.
    pub(in crate::ops) async fn set_at_stripes(
        &self,
        request: &mut RequestContext<'_>,
        op: &Setxattr,
    ) -> Result<Option<MdsReply>, Errno> {
        let &Setxattr { fid, ref name, ref value, flags } = op;
        let lov = LovName::of(name);
        let of_stripes = [FLAGS, PROJECT].iter().any(|known| name == known.as_bytes());
        if lov.is_none() && !is_acl(name) && !of_stripes || !self.is_striped(fid)? {
            return Ok(None);
        }
        let layout;
        let change = match lov {
            Some(lov) => {
                lov.check(request.credentials, Errno::EPERM)?;
                layout = match value.is_empty() {
                    true => None,
                    false => Some(self.parse_lov(lov, value)?),
                };
                DirChange::DefaultLayout(layout.as_ref())
            }
            None if is_acl(name) => {
                let kill_sgid = flags.kill_sgid;
                let flags = SetFlags { create: flags.create, replace: flags.replace, kill_sgid };
                DirChange::SetAcl(name, value, flags)
            }
            None if name == PROJECT.as_bytes() => {
                DirChange::Project(self.wanted_project(request, value)?)
            }
            None => DirChange::Flags(parse_flags(value)?),
        };
        Box::pin(self.change_stripes(request, fid, change)).await.map(Some)
    }

    /// As [`Mds::set_at_stripes`], of an attribute that goes.
    pub(in crate::ops) async fn remove_at_stripes(
        &self,
        request: &mut RequestContext<'_>,
        op: &Removexattr,
    ) -> Result<Option<MdsReply>, Errno> {
        let &Removexattr { fid, ref name } = op;
        let lov = LovName::of(name);
        if lov.is_none() && !is_acl(name) || !self.is_striped(fid)? {
            return Ok(None);
        }
        let change = match lov {
            Some(lov) => {
                lov.check(request.credentials, Errno::EPERM)?;
                DirChange::DefaultLayout(None)
            }
            None => DirChange::RemoveAcl(name),
        };
        Box::pin(self.change_stripes(request, fid, change)).await.map(Some)
    }
}

/// What a directory is asked to be.
///
/// # Errors
/// EINVAL: it is in no form of Lustre, or names an MDT: those of new stripes are chosen.
fn parse_wanted(value: &[u8]) -> Result<Restripe, Errno> {
    let wanted = lmv_ea::decode_default(value).map_err(|error| {
        tracing::debug!(%error, "stripes refused");
        Errno::EINVAL
    })?;
    if wanted.mdt.is_some() {
        return Err(Errno::EINVAL);
    }
    let hash = lmv_ea::names_hash(value).then_some(wanted.hash);
    Ok(Restripe { count: wanted.count, hash, by_itself: lmv_ea::is_by_itself(value) })
}

/// The flags of chattr(1), as text.
///
/// # Errors
/// EINVAL: no number.
pub(in crate::ops) fn parse_flags(value: &[u8]) -> Result<u32, Errno> {
    std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).ok_or(Errno::EINVAL)
}
