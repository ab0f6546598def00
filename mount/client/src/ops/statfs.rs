//! Space of the whole file system.

use crate::caller::Caller;
use crate::client::Client;
use crate::error::ClientError;
use std::sync::Arc;
use types::attr::Statfs;

impl Client {
    /// Bytes of all OSTs, inodes of all MDTs. All targets in parallel.
    pub async fn statfs(self: Arc<Self>, _caller: Caller) -> Result<Statfs, ClientError> {
        unimplemented!()
    }
}
