//! Extended attributes and the ioctl seam.

use crate::caller::Caller;
use crate::client::Client;
use crate::counters::Operation;
use bytes::Bytes;
use data::finish::Finish;
use data::node::NodeId;
use session::error::ClientError;
use std::str::FromStr;
use std::sync::Arc;
use types::about::{About, FLAGS, PROJECT, SWAP_LAYOUTS};
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::{XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX};
use types::project::Project;
use wire::mds::{Setxattr, SetxattrFlags};

impl Client {
    /// One value; ENODATA if absent. Facts that the client knows itself (`About`) cost no round
    /// trip.
    pub async fn getxattr(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
        name: Bytes,
    ) -> Result<Bytes, ClientError> {
        let _timed = self.timed(Operation::Getxattr);
        check_name(&name)?;
        let fid = self.fid(node)?;
        match About::of(&name) {
            None if fid.is_shown_only() => return Err(Errno::ENODATA.into()),
            None => {}
            Some(About::Links(of)) => return self.links_of(&caller.credentials, of).await,
            Some(what) => return Ok(self.about(&caller.credentials, fid, what).await?.into()),
        }
        let (me, who) = (&self, &caller.credentials);
        self.where_it_is(|| {
            let name = name.clone();
            async move { me.xattr_of(who, me.fid(node)?, name).await }
        })
        .await
    }

    /// A stored value. No request if it, or its absence, is covered.
    pub(crate) async fn xattr_of(
        &self,
        credentials: &Credentials,
        fid: Fid,
        name: Bytes,
    ) -> Result<Bytes, ClientError> {
        if let Some(left) = self.removed_xattr(fid, &name) {
            return Ok(left?);
        }
        match self.locks.xattr(fid, &name).filter(|_| self.session.has_lease(fid)) {
            Some(Some(value)) => Ok(value),
            Some(None) => Err(Errno::ENODATA.into()),
            None => match self.session.mdc(fid)?.getxattr(credentials, fid, name.clone()).await {
                Ok(value) => Ok(value),
                Err(error) => {
                    if self.went(fid, error.errno()).await {
                        return Err(Errno::EREMCHG.into());
                    }
                    self.lives_on(fid, error.into())?;
                    Ok(self.removed_xattr(fid, &name).ok_or(Errno::ESTALE)??)
                }
            },
        }
    }

    /// Flags of an inode that chattr(1) sets (`FS_*_FL`). 1 round trip.
    ///
    /// # Errors
    /// The MDT does not answer, or the inode is gone.
    pub async fn inode_flags(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
    ) -> Result<u32, ClientError> {
        let _timed = self.timed(Operation::Getxattr);
        self.where_it_is(|| self.told_of_inode(&caller.credentials, node, FLAGS)).await
    }

    /// Project of an inode. 1 round trip.
    ///
    /// # Errors
    /// The MDT does not answer, or the inode is gone.
    pub async fn inode_project(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
    ) -> Result<Project, ClientError> {
        let _timed = self.timed(Operation::Getxattr);
        self.where_it_is(|| self.told_of_inode(&caller.credentials, node, PROJECT)).await
    }

    /// Sets the project of an inode. 1 round trip.
    ///
    /// # Errors
    /// EPERM: the caller is not root of the file system; EINVAL: the number is that of a fileset.
    pub async fn set_inode_project(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
        project: Project,
    ) -> Result<(), ClientError> {
        let (name, value) = (Bytes::from_static(PROJECT.as_bytes()), project.to_string().into());
        self.setxattr(caller, node, name, value, SetxattrFlags::default()).await
    }

    /// What the MDT tells of an inode in an attribute that is text.
    async fn told_of_inode<T: FromStr>(
        &self,
        who: &Credentials,
        node: NodeId,
        what: &'static str,
    ) -> Result<T, ClientError> {
        let (fid, name) = (self.fid(node)?, Bytes::from_static(what.as_bytes()));
        let told = match self.session.mdc(fid)?.getxattr(who, fid, name).await {
            Err(error) if self.went(fid, error.errno()).await => return Err(Errno::EREMCHG.into()),
            told => told?,
        };
        let value = std::str::from_utf8(&told).ok().and_then(|text| text.parse().ok());
        value.ok_or_else(|| Errno::EPROTO.into())
    }

    /// Replaces all flags. 1 round trip.
    ///
    /// # Errors
    /// EOPNOTSUPP: a flag that does not exist here; EPERM.
    pub async fn set_inode_flags(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
        flags: u32,
    ) -> Result<(), ClientError> {
        let (name, value) = (Bytes::from_static(FLAGS.as_bytes()), flags.to_string().into());
        self.setxattr(caller, node, name, value, SetxattrFlags::default()).await
    }

    /// All names that the caller may see, each with a NUL after it.
    pub async fn listxattr(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
    ) -> Result<Bytes, ClientError> {
        let _timed = self.timed(Operation::Listxattr);
        self.where_it_is(|| self.listxattr_once(&caller, node)).await
    }

    async fn listxattr_once(&self, caller: &Caller, node: NodeId) -> Result<Bytes, ClientError> {
        let fid = self.fid(node)?;
        if fid.is_shown_only() {
            return Ok(Bytes::new());
        }
        // The cached list serves all users, so all names are asked for.
        let list = match (
            self.removed_xattrs(fid),
            self.locks.xattr_list(fid).filter(|_| self.session.has_lease(fid)),
        ) {
            (Some(left), _) => left?,
            (None, Some(list)) => list,
            (None, None) => match self.session.mdc(fid)?.listxattr(&Credentials::root(), fid).await
            {
                Ok(list) => list,
                Err(error) => {
                    if self.went(fid, error.errno()).await {
                        return Err(Errno::EREMCHG.into());
                    }
                    self.lives_on(fid, error.into())?;
                    self.removed_xattrs(fid).ok_or(Errno::ESTALE)??
                }
            },
        };
        Ok(if caller.credentials.uid == 0 { list } else { without_trusted(&list) })
    }

    /// Sets one.
    pub async fn setxattr(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
        name: Bytes,
        value: Bytes,
        flags: SetxattrFlags,
    ) -> Result<(), ClientError> {
        self.where_it_is(|| {
            let (me, who) = (self.clone(), caller.clone());
            me.setxattr_once(who, node, name.clone(), value.clone(), flags)
        })
        .await
    }

    async fn setxattr_once(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
        name: Bytes,
        value: Bytes,
        flags: SetxattrFlags,
    ) -> Result<(), ClientError> {
        let _timed = self.timed(Operation::Setxattr);
        check_name(&name)?;
        if value.len() > XATTR_VALUE_BYTES_MAX {
            return Err(Errno::E2BIG.into());
        }
        let fid = self.fid(node)?;
        if name == SWAP_LAYOUTS {
            return self.swap_layouts(caller.credentials, fid, &value).await;
        }
        if let Some(set) = self.set_removed_xattr(fid, name.clone(), Some(value.clone()), flags) {
            return Ok(set?);
        }
        let mdc = self.session.mdc(fid)?;
        let set = Setxattr { fid, name: name.clone(), value: value.clone(), flags };
        let work = async move { mdc.setxattr(&caller.credentials, set).await };
        match Finish::new("setxattr", &self.session.env.tasks, work).await {
            Ok(()) => Ok(()),
            Err(error) => {
                if self.went(fid, error.errno()).await {
                    return Err(Errno::EREMCHG.into());
                }
                self.lives_on(fid, error.into())?;
                Ok(self.set_removed_xattr(fid, name, Some(value), flags).ok_or(Errno::ESTALE)??)
            }
        }
    }

    /// Removes one.
    pub async fn removexattr(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
        name: Bytes,
    ) -> Result<(), ClientError> {
        self.where_it_is(|| self.clone().removexattr_once(caller.clone(), node, name.clone())).await
    }

    async fn removexattr_once(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
        name: Bytes,
    ) -> Result<(), ClientError> {
        let _timed = self.timed(Operation::Removexattr);
        check_name(&name)?;
        let fid = self.fid(node)?;
        let flags = SetxattrFlags::default();
        if let Some(removed) = self.set_removed_xattr(fid, name.clone(), None, flags) {
            return Ok(removed?);
        }
        let (mdc, key) = (self.session.mdc(fid)?, name.clone());
        let work = async move { mdc.removexattr(&caller.credentials, fid, key).await };
        match Finish::new("removexattr", &self.session.env.tasks, work).await {
            Ok(()) => Ok(()),
            Err(error) => {
                if self.went(fid, error.errno()).await {
                    return Err(Errno::EREMCHG.into());
                }
                self.lives_on(fid, error.into())?;
                Ok(self.set_removed_xattr(fid, name, None, flags).ok_or(Errno::ESTALE)??)
            }
        }
    }
}

/// Names that only root may see are left out.
fn without_trusted(list: &[u8]) -> Bytes {
    let names =
        list.split_inclusive(|byte| *byte == 0).filter(|name| !name.starts_with(b"trusted."));
    names.flatten().copied().collect()
}

fn check_name(name: &[u8]) -> Result<(), Errno> {
    if name.is_empty() || name.len() > XATTR_NAME_BYTES_MAX { Err(Errno::ERANGE) } else { Ok(()) }
}
