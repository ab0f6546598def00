//! A mount of a directory: what is below it, and what is not. An inode that is named by its FID may
//! be anywhere in the file system; such a mount shows what is below its root only.

use crate::client::Client;
use crate::ops::directories::stripes::whole;
use bytes::Bytes;
use session::error::ClientError;
use stubs::mdc::Located;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;

/// Directories above each other. More mean a circle, or a path that no program can use.
const DEPTH_MAX: usize = 4096;

impl Client {
    /// True if this directory is the root of the mount, or below it. 1 round trip for each
    /// directory on the way up; none where the whole file system is mounted.
    ///
    /// # Errors
    /// ELOOP: too deep. Those of the MDTs.
    pub(crate) async fn is_below(&self, who: &Credentials, dir: Fid) -> Result<bool, ClientError> {
        if self.nodes.is_whole() {
            return Ok(true);
        }
        let mut at = whole(&self.session, &self.locks, who, dir).await?;
        for _ in 0..DEPTH_MAX {
            if at == self.nodes.root() {
                return Ok(true);
            }
            if at == Fid::ROOT {
                return Ok(false);
            }
            let above = match self.session.mdc(at)?.get_parent(who, at).await? {
                Located::Here(parent) => parent.attr.fid,
                Located::Elsewhere(parent) => parent,
            };
            at = whole(&self.session, &self.locks, who, above).await?;
        }
        Err(Errno::ELOOP.into())
    }

    /// Of the names of an inode, as the MDT lists them (`[FID]/NAME`, each with a NUL after it),
    /// those in directories below the root of the mount.
    ///
    /// # Errors
    /// ENOENT: there is none. As [`Client::is_below`].
    pub(crate) async fn links_below(
        &self,
        who: &Credentials,
        links: Bytes,
    ) -> Result<Bytes, ClientError> {
        if self.nodes.is_whole() {
            return Ok(links);
        }
        let mut below = Vec::new();
        for link in links.split_inclusive(|byte| *byte == 0) {
            let end = link.iter().position(|byte| *byte == b'/').ok_or(Errno::EPROTO)?;
            let dir = std::str::from_utf8(&link[..end]).ok().and_then(|dir| dir.parse().ok());
            if self.is_below(who, dir.ok_or(Errno::EPROTO)?).await? {
                below.extend_from_slice(link);
            }
        }
        if below.is_empty() { Err(Errno::ENOENT.into()) } else { Ok(below.into()) }
    }
}
