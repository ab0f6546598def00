//! Programs read: their accesses are noted ([`data::accessed`]).

use crate::client::Client;
use data::node::NodeId;

impl Client {
    /// A program listed a directory.
    pub fn listed_node(&self, node: NodeId) {
        if !self.data.accesses.nodiratime {
            self.read_node(node);
        }
    }

    /// A program read a file or a symbolic link.
    pub fn read_node(&self, node: NodeId) {
        if let Some(fid) = self.nodes.fid(node) {
            self.data.note_access(fid);
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
