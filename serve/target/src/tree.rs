//! The tree of a target, page by page, for a host that may take it over later
//! (docs/ownership.md).

use store::error::StoreError;
use store::store::Store;
use store::tree_copy::Page;
use types::errno::Errno;
use wire::message::{OpReply, TreePage};

/// The answer to a host that has the records up to the one with this key.
///
/// # Errors
/// The store cannot be read.
pub async fn page(store: &Store, after: &[u8]) -> Result<OpReply, Errno> {
    let Page { records, more, bytes } = store.tree_page(after.to_vec()).await.map_err(refused)?;
    Ok(OpReply::Tree(TreePage { records, more, bytes: bytes.into() }))
}

fn refused(error: StoreError) -> Errno {
    tracing::error!(%error, "the tree cannot be copied");
    error.errno()
}
