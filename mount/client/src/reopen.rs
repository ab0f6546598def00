//! After an MDT restarted: open again what this mount holds open there.
//!
//! The MDT's open handles ended with its process. A file that still has a name opens again under a new handle, and the
//! program notices nothing. One that is gone (it had been unlinked) stays gone: its handle answers ESTALE.

use crate::client::Client;
use crate::fan_out::fan_out;
use crate::open::OpenFile;
use env::BoxFuture;
use std::sync::Arc;
use stubs::mdc::Mdc;
use types::errno::Errno;

/// Opens again all files of this mount that `mdc` owns.
pub async fn reopen_all(client: Arc<Client>, mdc: Mdc) {
    let target = mdc.import().target();
    let held: Vec<_> = client.files_open.all().into_iter().filter(|f| f.file.fid.mdt() == target.index.0).collect();
    tracing::info!(%target, files = held.len(), "the target restarted; opening again what is open here");
    let work = held.into_iter().map(|open| Box::pin(reopen(mdc.clone(), open)) as BoxFuture<'static, ()>).collect();
    fan_out(work).await;
}

async fn reopen(mdc: Mdc, open: Arc<OpenFile>) {
    let fid = open.file.fid;
    open.file.distrust();
    match mdc.open(&open.credentials, fid, open.mode.flags).await {
        Ok(opened) => {
            open.file.learn(&opened.entry.attr);
            if let Some(layout) = opened.layout {
                open.file.learn_layout(layout);
            }
            if !open.reopened(opened.handle)
                && let Err(error) = mdc.close(&open.credentials, fid, opened.handle).await
            {
                tracing::warn!(%fid, %error, "close what was opened again for nobody");
            }
        }
        Err(error) if matches!(error.errno(), Errno::ENOENT | Errno::ESTALE) => {
            tracing::warn!(%fid, "an open file did not survive the restart of its server");
            open.lost();
        }
        // Reading and writing go by FID: only the protection against a last unlink is lost.
        Err(error) => tracing::warn!(%fid, %error, "open again after a restart"),
    }
}
