//! New inodes: mknod, mkdir, symlink, create.

use crate::caller::{Caller, Found};
use crate::client::Client;
use crate::error::ClientError;
use crate::node::NodeId;
use crate::open::{FileHandle, OpenMode};
use bytes::Bytes;
use std::sync::Arc;
use types::name::Name;

impl Client {
    /// Makes and opens a regular file (or opens the one that is there, unless `open.exclusive`). 1 round trip.
    pub async fn create(
        self: Arc<Self>,
        _caller: Caller,
        _parent: NodeId,
        _name: Name,
        _mode: u32,
        _open: OpenMode,
    ) -> Result<(Found, FileHandle), ClientError> {
        unimplemented!()
    }

    /// Makes a regular file, FIFO, socket or device. `mode` with type bits, `rdev` in `huge_encode_dev` form.
    pub async fn mknod(
        self: Arc<Self>,
        _caller: Caller,
        _parent: NodeId,
        _name: Name,
        _mode: u32,
        _rdev: u32,
    ) -> Result<Found, ClientError> {
        unimplemented!()
    }

    /// Makes a directory.
    pub async fn mkdir(
        self: Arc<Self>,
        _caller: Caller,
        _parent: NodeId,
        _name: Name,
        _mode: u32,
    ) -> Result<Found, ClientError> {
        unimplemented!()
    }

    /// Makes a symbolic link to `target` (1..=4095 bytes).
    pub async fn symlink(
        self: Arc<Self>,
        _caller: Caller,
        _parent: NodeId,
        _name: Name,
        _target: Bytes,
    ) -> Result<Found, ClientError> {
        unimplemented!()
    }

    /// O_TMPFILE: an open file without a name. Not in this version: EOPNOTSUPP.
    pub async fn tmpfile(
        self: Arc<Self>,
        _caller: Caller,
        _parent: NodeId,
        _mode: u32,
        _open: OpenMode,
    ) -> Result<(Found, FileHandle), ClientError> {
        unimplemented!()
    }
}
