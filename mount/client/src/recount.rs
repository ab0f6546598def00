//! Blocks of a file after an OST answered twice, or not at all.
//!
//! An OST answers a write with how much the object grew. If the connection is lost before the answer comes, the write is sent
//! again and grows nothing: what it had grown is told to nobody. So if an OST was connected anew during a change of objects, this
//! client asks all objects of the file for their blocks before it closes the file, and tells the MDT the difference. A client that dies
//! before leaves a writer mark, and the MDT counts. What other clients have stored in the file and not told yet is counted twice.

use crate::client::Client;
use crate::file::File;
use env::BoxFuture;
use session::error::ClientError;
use session::fan_out::fan_out;
use session::targets::{getattr_and_layout, misfit};
use types::attr::WrittenAt;
use types::credentials::Credentials;
use wire::mds::{MdsOp, MdsReply};

impl Client {
    /// Objects of the file were changed since there were so many connections.
    pub(crate) fn note_reconnected(&self, file: &File, before: u64) {
        if self.session.ost_connections() != before {
            file.mark_miscounted(true);
        }
    }

    /// Tells the MDT how many blocks the objects of a file have, if that may not be what it was told.
    ///
    /// # Errors
    /// A target does not answer: the mark stays.
    pub(crate) async fn recount(&self, file: &File) -> Result<(), ClientError> {
        if !file.mark_miscounted(false) {
            return Ok(());
        }
        let counted = self.tell_blocks(file).await;
        if counted.is_err() {
            file.mark_miscounted(true);
        }
        counted
    }

    async fn tell_blocks(&self, file: &File) -> Result<(), ClientError> {
        let (fid, mdc) = (file.fid, self.session.mdc(file.fid)?);
        let (attr, layout) = getattr_and_layout(&mdc, &Credentials::root(), fid).await?;
        if layout.mdt_bytes() > 0 {
            // How many of its blocks are on the MDT only that knows; it counts all when the file is settled.
            return Ok(());
        }
        let mut work: Vec<BoxFuture<'static, Result<u64, ClientError>>> = Vec::new();
        for (ost, object) in layout.objects(fid) {
            let osc = self.session.targets.osc(ost)?;
            work.push(Box::pin(async move { Ok(osc.getattr(object).await?.1) }));
        }
        let mut blocks = 0u64;
        for answer in fan_out(work).await {
            blocks = blocks.saturating_add(answer?);
        }
        let blocks_delta = blocks as i64 - attr.blocks as i64;
        if blocks_delta == 0 {
            return Ok(());
        }
        let wrote = MdsOp::Wrote { fid, end: attr.size, blocks_delta, at: WrittenAt::Told, kill_suidgid: false };
        match mdc.ask(&Credentials::root(), vec![wrote]).await?.pop() {
            Some(Ok(MdsReply::Entry(entry))) => {
                file.learn(&entry.attr);
                Ok(())
            }
            Some(Err(errno)) => Err(errno.into()),
            other => Err(misfit(mdc.import(), &other)),
        }
    }
}
