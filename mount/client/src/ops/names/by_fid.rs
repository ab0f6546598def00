//! Inodes by FID: `.lustre/fid/FID`, the names of an inode, its version, and the exchange of data
//! between two.
//!
//! `.lustre` and `.lustre/fid` are in no listing and on no MDT. This file shows them, as
//! directories that only root can search and that cannot be changed. A name in `.lustre/fid` leads
//! to the inode itself; where a directory is mounted, only if that is below it. A directory has one
//! place in a kernel, so it moves there until its own name is looked up again. Directories above
//! (the root, `.lustre`, `.lustre/fid`) cannot move below themselves: there each is a mirror, a
//! directory of its own to the kernel with the same inode number and content.

use crate::caller::{Caller, Found, Stat};
use crate::client::Client;
use crate::counters::Operation;
use crate::ops::names::lookup::Looked;
use bytes::Bytes;
use data::finish::Finish;
use data::node::NodeId;
use namespace::create::{DIRECTORY_BLOCKS, DIRECTORY_SIZE};
use session::error::ClientError;
use std::sync::Arc;
use std::time::Duration;
use types::about::{LINKS, SwapLine};
use types::attr::{Attr, FileType};
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;
use types::time::Timestamp;
use wire::mds::SwapLayouts;

/// Only root may search: a FID leads past the permissions of directories.
const MODE: u32 = 0o100;

fn shown_attr(fid: Fid) -> Attr {
    let then = Timestamp::default();
    Attr {
        fid,
        mode: FileType::Directory.mode_bits() | MODE,
        uid: 0,
        gid: 0,
        nlink: 2,
        rdev: 0,
        size: DIRECTORY_SIZE,
        blocks: DIRECTORY_BLOCKS,
        atime: then,
        mtime: then,
        ctime: then,
        btime: then,
        version: 1,
    }
}

/// Attributes of `.lustre` and `.lustre/fid` as programs see them.
pub(crate) fn shown_stat(fid: Fid) -> Stat {
    Stat { attr: shown_attr(fid), ino: fid.ino(), attr_valid: Duration::ZERO }
}

/// Callbacks do not reach the kernel's copy of such an inode, so it must ask each time.
fn untrusted(node: NodeId, Stat { attr, ino, .. }: Stat) -> Found {
    Found {
        node,
        generation: 0,
        attr,
        ino,
        entry_valid: Duration::ZERO,
        attr_valid: Duration::ZERO,
    }
}

impl Client {
    /// An answer about a node. The kernel must not trust what it knows of a mirror, or of names in
    /// one.
    pub(crate) fn unless_mirror(&self, node: NodeId, valid: Duration) -> Duration {
        if self.nodes.is_mirror(node) { Duration::ZERO } else { valid }
    }

    /// As [`Client::unless_mirror`], for an inode that was found or made in a directory.
    pub(crate) fn found_in(&self, dir: NodeId, found: Found) -> Found {
        Found { entry_valid: self.unless_mirror(dir, found.entry_valid), ..found }
    }

    /// Something changed through a mirror of a directory, this name in it. The kernel has noted
    /// that there, and its cache of the directory itself is old.
    pub(crate) async fn changed_in(&self, dir: NodeId, name: Option<&Name>) {
        let Some(fid) = self.nodes.fid(dir).filter(|_| self.nodes.is_mirror(dir)) else { return };
        if let Some(name) = name {
            self.locks.abandoned(fid, name).await;
        }
        self.locks.hide_attr(fid).await;
    }

    /// `.lustre` in the root, `fid` in that.
    pub(crate) fn lookup_shown(&self, parent: NodeId, name: &Name) -> Option<Looked> {
        let fid = match name.as_bytes() {
            b".lustre" if self.nodes.fid(parent) == Some(self.nodes.root()) => Fid::DOT_LUSTRE,
            b"fid" if self.nodes.fid(parent) == Some(Fid::DOT_LUSTRE) => Fid::BY_FID,
            _ => return None,
        };
        let _timed = self.timed(Operation::Lookup);
        let node = if self.nodes.is_mirror(parent) {
            self.nodes.remember_mirror(fid)
        } else {
            self.nodes.remember(fid)
        };
        Some(Looked::Found(untrusted(node, shown_stat(fid))))
    }

    /// A name in `.lustre/fid`. 1 round trip.
    ///
    /// # Errors
    /// ENOENT: no FID, or no such inode.
    pub(crate) async fn lookup_by_fid(
        &self,
        caller: &Caller,
        name: &Name,
    ) -> Result<Looked, ClientError> {
        let _timed = self.timed(Operation::Lookup);
        let text = std::str::from_utf8(name.as_bytes()).map_err(|_| Errno::ENOENT)?;
        let fid: Fid = text.parse().map_err(|_| Errno::ENOENT)?;
        // Directories above `.lustre/fid` are found there as mirrors.
        if fid.is_shown_only() {
            return Ok(Looked::Found(untrusted(self.nodes.remember_mirror(fid), shown_stat(fid))));
        }
        if fid == self.nodes.root() {
            let attr = match self.locks.attr(fid).filter(|_| self.session.has_lease(fid)) {
                Some(entry) => entry.attr,
                None => self.session.mdc(fid)?.getattr(&caller.credentials, fid).await?.attr,
            };
            return Ok(Looked::Found(untrusted(self.nodes.remember_mirror(fid), self.stat(&attr))));
        }
        let mdc = self.owner_of(fid)?;
        let entry = mdc.getattr(&caller.credentials, fid).await.map_err(|e| absent(e.into()))?;
        if let Some(stripes) = self.stripes(fid).await?.filter(|stripes| stripes.master() != fid) {
            tracing::debug!(%fid, master = %stripes.master(), "a stripe is asked for by its FID");
            return Err(Errno::ENOENT.into());
        }
        if !self.nodes.is_whole() {
            let who = &caller.credentials;
            let below = match entry.attr.is_dir() {
                true => self.is_below(who, fid).await,
                false => self.links_of(who, fid).await.map(|_| true),
            };
            if !below.map_err(absent)? {
                return Err(Errno::ENOENT.into());
            }
        }
        Ok(Looked::Found(self.found(fid, None, &entry.attr)))
    }

    /// Names of an inode below the root of the mount, from its MDT. 1 round trip; more where a
    /// directory is mounted.
    ///
    /// # Errors
    /// ENOENT: no such inode; EPERM: only root may ask; ESTALE: the directory goes on all the time.
    pub(crate) async fn links_of(
        &self,
        credentials: &Credentials,
        fid: Fid,
    ) -> Result<Bytes, ClientError> {
        if fid == self.nodes.root() {
            return Ok(Bytes::new());
        }
        let links = self.where_it_is(|| self.links_once(credentials, fid)).await?;
        self.links_below(credentials, links).await.map_err(absent)
    }

    /// Names in a stripe are names in its directory. EREMCHG: the inode is a stripe; of which
    /// directory is known now.
    async fn links_once(&self, who: &Credentials, fid: Fid) -> Result<Bytes, ClientError> {
        let dir = self.locks.table.lock().stripes.master(fid);
        let mdc = self.owner_of(dir)?;
        let links = mdc.getxattr(who, dir, Bytes::from_static(LINKS.as_bytes())).await;
        if let Err(error) = &links
            && error.errno() == Errno::EREMCHG
        {
            self.outdated(&[dir]);
            self.stripes(dir).await.map_err(absent)?;
        }
        links.map_err(|e| absent(e.into()))
    }

    /// Index of the MDT that has this inode. No request.
    ///
    /// # Errors
    /// The kernel does not know it.
    pub fn mdt_of(&self, node: NodeId) -> Result<u16, ClientError> {
        let _timed = self.timed(Operation::Ioctl);
        Ok(self.fid(node)?.mdt())
    }

    /// As [`Client::data_version`], of an inode that the kernel knows.
    ///
    /// # Errors
    /// As there.
    pub async fn data_version_of(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
    ) -> Result<u64, ClientError> {
        let _timed = self.timed(Operation::Ioctl);
        self.data_version(&caller.credentials, self.fid(node)?).await
    }

    /// Version of a file. Other clients store their dirty data first. 1 round trip.
    ///
    /// # Errors
    /// EINVAL: no regular file.
    pub(crate) async fn data_version(
        &self,
        credentials: &Credentials,
        fid: Fid,
    ) -> Result<u64, ClientError> {
        let mdc = self.session.mdc(fid)?;
        let file = self.data.files.get(fid);
        self.data.flush_file(&file).await?;
        match mdc.lock(credentials, fid, InodeBits::DATA, None).await {
            Err(error) if error.errno() == Errno::EINVAL => {
                // It is no regular file, or this mount keeps no locks on data; in that case no
                // client has dirty data.
                let entry = mdc.getattr(credentials, fid).await?;
                let regular = entry.attr.file_type() == FileType::Regular;
                if regular { Ok(entry.attr.version) } else { Err(Errno::EINVAL.into()) }
            }
            // The request was for the whole file.
            locked => Ok(locked?.ok_or(Errno::EPROTO)?.attr.version),
        }
    }

    /// Two files exchange their data. The MDT calls back all locks that this mount has on them,
    /// too.
    ///
    /// # Errors
    /// EINVAL: no such line, or no regular files; EXDEV: of two MDTs; EBUSY: open for writing;
    /// ECANCELED: not as the line says.
    pub(crate) async fn swap_layouts(
        self: Arc<Self>,
        credentials: Credentials,
        fid: Fid,
        value: &[u8],
    ) -> Result<(), ClientError> {
        let line: Option<SwapLine> =
            std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        let SwapLine { other, versions, same } = line.ok_or(Errno::EINVAL)?;
        if other.mdt() != fid.mdt() {
            return Err(Errno::EXDEV.into());
        }
        let mdc = self.session.mdc(fid)?;
        let work = async move {
            mdc.swap_layouts(&credentials, SwapLayouts { fid, other, versions, same }).await
        };
        let done: Result<(), ClientError> =
            Finish::new("swap layouts", &self.session.env.tasks, work).await.map_err(Into::into);
        done.map_err(|error| match error.errno() {
            // The kernel takes EAGAIN of a setxattr for something else, and shows EOPNOTSUPP.
            Errno::EAGAIN => Errno::ECANCELED.into(),
            _ => absent(error),
        })
    }

    /// The MDT of an inode that a user named by FID: perhaps neither exists.
    fn owner_of(&self, fid: Fid) -> Result<stubs::mdc::Mdc, ClientError> {
        match fid.seq < Fid::SEQ_NORMAL && fid != Fid::ROOT {
            true => Err(Errno::ENOENT.into()),
            false => self.session.mdc(fid).map_err(absent),
        }
    }
}

/// A lookup of a FID finds nothing. For others ESTALE would make the kernel look for a name again.
fn absent(error: ClientError) -> ClientError {
    match (&error, error.errno()) {
        (ClientError::UnknownTarget(_), _) | (_, Errno::ESTALE) => Errno::ENOENT.into(),
        _ => error,
    }
}
