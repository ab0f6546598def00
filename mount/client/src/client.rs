//! One mount.

use crate::error::ClientError;
use env::Env;
use rpc::Rpc;
use std::sync::Arc;
use types::nid::Nid;
use types::target::FsName;

/// What to mount.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Where the MGS answers, best first.
    pub mgs: Vec<Nid>,
    /// File system.
    pub fsname: FsName,
    /// For people, in lists of clients: host name and mount point.
    pub description: String,
}

/// One mount of one file system.
pub struct Client {
    _env: Env,
}

impl Client {
    /// Asks the MGS for the configuration and reaches the root directory.
    ///
    /// # Errors
    /// The MGS or MDT0000 does not answer, or there is no such file system.
    pub async fn mount(_env: Env, _rpc: Arc<Rpc>, _options: ClientOptions) -> Result<Arc<Client>, ClientError> {
        unimplemented!()
    }

    /// Ends all sessions in order: open files are closed, locks dropped. Further operations fail.
    pub async fn unmount(&self) {
        unimplemented!()
    }
}
