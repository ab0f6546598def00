//! Files that the kernel opens without requests (`localflock`, `noflock`): requests name only a
//! node.
//!
//! To this mount, an inode is then open while the kernel knows it. At its first use it gets a
//! handle of its own, shared by all its users; FORGET is the close. While OPEN is held the MDT need
//! not be asked: should the last name go, it is told that the inode is kept.

use crate::client::Client;
use crate::open::{FileHandle, OpenFile, OpenMode};
use data::node::NodeId;
use session::error::ClientError;
use std::sync::Arc;
use types::credentials::Credentials;
use types::fid::Fid;
use types::lock::InodeBits;
use types::session::OpenHandle;
use wire::mds::OpenFlags;

/// The kernel has checked the callers; so these opens are the mount's own.
const ANY: OpenMode = OpenMode {
    flags: OpenFlags { read: true, write: true, exec: false, append: false, lasting: true },
    truncate: false,
    exclusive: false,
};

impl Client {
    /// The handle of a node that the kernel has open without a handle. 1 round trip at its first
    /// use if OPEN is not held.
    ///
    /// # Errors
    /// The node is unknown, or its MDT refuses to open it.
    pub async fn no_open_file(
        self: Arc<Self>,
        node: NodeId,
        write: bool,
    ) -> Result<FileHandle, ClientError> {
        let fid = self.fid(node)?;
        if let Some(handle) = self.no_open.files.lock().get(&fid) {
            return Ok(*handle);
        }
        let held = self.locks.bits(fid).contains(InodeBits::OPEN);
        let handle = match held {
            true => self.open_at_first_use(fid),
            false => {
                let flags =
                    OpenFlags { read: !write, write, exec: false, append: false, lasting: true };
                let opened = self.session.mdc(fid)?.open(&Credentials::root(), fid, flags).await?;
                let at_mdt = opened.handle;
                let file = self.data.files.get(fid);
                file.learn(&opened.entry.attr);
                self.data.rest_on_answers(&file);
                if let Some(layout) = opened.layout {
                    file.learn_layout(layout);
                }
                self.files_open
                    .insert(OpenFile::new(file, ANY, Credentials::root(), at_mdt).no_open())
            }
        };
        Ok(self.keep_first(fid, handle))
    }

    fn open_at_first_use(&self, fid: Fid) -> FileHandle {
        let file = self.data.files.get(fid);
        let layout = self.locks.table.lock().layout(fid);
        self.data.rest_on_answers(&file);
        if let Some(layout) = layout {
            file.learn_layout(layout);
        }
        self.files_open
            .insert(OpenFile::new(file, ANY, Credentials::root(), OpenHandle(0)).no_open())
    }

    /// A file that was just made is open, too.
    pub fn no_open_created(self: &Arc<Self>, node: NodeId, handle: FileHandle) {
        let open = self.files_open.remove(handle);
        let (Some(fid), Some(open)) = (self.nodes.fid(node), open) else { return };
        let at_mdt = open.close().unwrap_or(OpenHandle(0));
        let any = OpenFile::new(open.file.clone(), ANY, open.credentials.clone(), at_mdt).no_open();
        self.keep_first(fid, self.files_open.insert(any));
    }

    /// The first handle stays; another one is closed.
    fn keep_first(&self, fid: Fid, handle: FileHandle) -> FileHandle {
        let kept = *self.no_open.files.lock().entry(fid).or_insert(handle);
        if kept != handle {
            self.close_later(handle);
        }
        kept
    }

    fn close_later(&self, handle: FileHandle) {
        if let Some(me) = self.strong() {
            self.session.env.tasks.spawn("close", Box::pin(async move { me.close(handle).await }));
        }
    }

    /// The kernel forgot an inode, and with it every unreported open of it.
    pub(crate) fn forgotten(&self, fid: Fid) {
        let file = self.no_open.files.lock().remove(&fid);
        if let Some(file) = file {
            self.close_later(file);
        }
        let kept = self.locks.opens.lock().forgotten(fid);
        if kept {
            self.upkeep.unlock_open(fid);
        }
    }
}
