//! A host that joins late, or that lost its folder, gets the tree of the owner.
//!
//! With a store of blobs it takes the checkpoint, if the log goes on from that. Otherwise it asks
//! the owner page by page, and makes each durable before the next: a copy that is cut short goes on
//! where it was. If the owner changes meanwhile, the next page comes from the new one.

use super::{Life, Opened, is_unanswered, on_thread};
use crate::error::NodeError;
use crate::host::shared_log::nids_of_place;
use env::watch;
use rpc::error::RpcError;
use rpc::import::Import;
use std::sync::Arc;
use std::time::Duration;
use store::error::StoreError;
use store::tree_copy::{Page, TreeCopy};
use target::TargetError;
use types::credentials::Credentials;
use types::errno::Errno;
use types::session::ClusterId;
use wire::message::{Op, OpReply, TreePage};

/// An owner that does not answer for so long may be none any more: it is looked for again.
const PATIENCE: Duration = Duration::from_secs(10);

impl Life {
    /// Copies the checkpoint or the owner's tree, or as much of it as goes.
    pub(super) async fn fetch_tree(
        &self,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<(), NodeError> {
        let (opener, engine) = (self.opener(), self.place.options.engine.clone());
        let (theirs, stopped) = (engine.clone(), self.stopped.clone());
        let restore = move || Life::restore(&opener, &theirs, &stopped);
        match on_thread(&self.parts.env, "read a checkpoint", restore).await? {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "no tree from the checkpoint; asking the owner"),
        }
        let opener = self.opener();
        let begin = move || {
            let Opened { name, block, lock, log, .. } = opener.open()?;
            let block = opener.join(&log, block)?;
            let owner = log.owner().map_err(TargetError::from)?;
            let copy = TreeCopy::open(&opener.env, &opener.dir, block.store, &log, &engine);
            let copy = copy.map_err(TargetError::from)?;
            Ok::<_, NodeError>((name, block, lock, log, owner, copy))
        };
        let began = on_thread(&self.parts.env, "begin a copy", begin).await?;
        let (name, block, _lock, log, owner, mut copy) = match began {
            Err(NodeError::Target(error)) if is_waited_for(&error) => return self.wait(stop).await,
            began => began?,
        };
        let Some(owner) = owner else { return self.wait(stop).await };
        if block.cluster != ClusterId(0) {
            self.parts.rpc.set_cluster(block.cluster);
            self.parts.rpc.set_server_key(block.key);
        }
        tracing::info!(%name, owner = owner.place, goes_on = !copy.after().is_empty(), "copying the tree of the owner");
        let import = self.parts.short_session(name, nids_of_place(&owner.place));
        let mut pages = 0_u64;
        let copied = loop {
            let asked = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break Ok(false),
                asked = ask(&import, copy.after()) => asked,
                () = self.parts.env.clock.sleep(PATIENCE) => Err(RpcError::Errno(Errno::ETIMEDOUT)),
            };
            let page = match asked {
                Ok(page) => page,
                Err(error) => break Err(NodeError::Tree { name, source: Box::new(error) }),
            };
            pages += 1;
            let log = log.clone();
            let take = move || {
                let taken = match copy.take(&page) {
                    Err(error @ StoreError::Damaged { .. }) => {
                        tracing::warn!(%error, "the copy begins anew");
                        copy.begin_anew(&log).map(|()| false)
                    }
                    taken => taken,
                };
                (copy, taken)
            };
            let (back, taken) = on_thread(&self.parts.env, "take a page", take).await?;
            copy = back;
            match taken {
                Ok(true) => break Ok(true),
                Ok(false) => {}
                Err(error) => break Err(TargetError::from(error).into()),
            }
        };
        import.disconnect().await;
        if copied? {
            tracing::info!(%name, pages, "the tree is copied");
        }
        Ok(())
    }

    async fn wait(&self, stop: &mut watch::Receiver<bool>) -> Result<(), NodeError> {
        self.pause(stop).await;
        Ok(())
    }
}

/// True if etcd did not answer.
fn is_waited_for(error: &TargetError) -> bool {
    matches!(error, TargetError::Store(error) if is_unanswered(error, &mut false))
}

async fn ask(import: &Arc<Import>, after: &[u8]) -> Result<Page, RpcError> {
    let op = Op::Tree(after.to_vec().into());
    match import.one(&Credentials::root(), op).await? {
        OpReply::Tree(TreePage { records, more, bytes }) => {
            Ok(Page { records, more, bytes: bytes.to_vec() })
        }
        _ => Err(RpcError::Errno(Errno::EPROTO)),
    }
}
