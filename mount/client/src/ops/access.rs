//! Programs read: their accesses are noted ([`data::accessed`]).

use crate::client::Client;
use data::node::NodeId;

impl Client {
    /// A program listed a directory.
    pub async fn listed_node(&self, node: NodeId) {
        if !self.data.accesses.nodiratime {
            self.read_node(node).await;
        }
    }

    /// A program read a file or a symbolic link. To be awaited before the answer to the read: the
    /// kernel may still have an answer to take in that shows the old access time (R42).
    pub async fn read_node(&self, node: NodeId) {
        if self.nodes.fid(node).is_some_and(|fid| self.data.note_access(fid)) {
            self.access_shown(node).await;
        }
    }

    /// A program opened a file to read only. If the kernel may have its pages, this counts as an
    /// access. `true`: it does, and the kernel is to be told ([`Client::access_shown`]) before the
    /// program goes on.
    pub fn opened_to_read(&self, node: NodeId) -> bool {
        let fid = self.nodes.fid(node).filter(|fid| self.data.writeback.has_pages(*fid));
        fid.is_some_and(|fid| self.data.note_access(fid))
    }

    /// The kernel asks for attributes at their next use, and so sees an access that was noted
    /// without a request to read.
    pub async fn access_shown(&self, node: NodeId) {
        if let Some(fid) = self.nodes.fid(node) {
            self.locks.hide_attr(fid).await;
        }
    }
}
