//! Objects are cut to where their file ends.

use crate::file::File;
use crate::path::DataPath;
use env::BoxFuture;
use layout::layout::Layout;
use layout::size::cuts;
use session::epoch::SessionEpoch;
use session::error::ClientError;
use session::fan_out::fan_out;
use session::targets::getattr_and_layout;
use types::attr::WrittenAt;
use types::credentials::Credentials;
use types::fid::Fid;
use types::object::FileOffset;
use wire::mds::Wrote;
use wire::ost::PunchKind;

/// The report that objects were cut: blocks go, the size stays.
pub const fn cut_by(fid: Fid, blocks_delta: i64) -> Wrote {
    Wrote { fid, end: 0, blocks_delta, at: WrittenAt::Now, kill_suidgid: false }
}

impl DataPath {
    /// Cuts what objects may hold beyond the end of the file, if this client has reason to doubt
    /// it. The caller has the gate to itself.
    pub async fn repair_tail(
        &self,
        credentials: &Credentials,
        file: &File,
        epoch: SessionEpoch,
    ) -> Result<(), ClientError> {
        if !file.tail_is_suspect() {
            return Ok(());
        }
        let fid = file.fid;
        let mdc = self.session.mdc(fid)?;
        let (attr, layout) = getattr_and_layout(&mdc, credentials, fid).await?;
        file.learn(&attr);
        self.rest_on_answers(file);
        let layout = file.learn_layout(layout);
        let freed = self.cut(&layout, file, epoch, attr.size).await?;
        file.mark_tail(false);
        if freed != 0 {
            mdc.wrote(credentials, cut_by(fid, freed)).await?;
        }
        Ok(())
    }

    /// Cuts all objects to a file size; returns the 512-byte blocks they grew by (so at most 0).
    pub async fn cut(
        &self,
        layout: &Layout,
        file: &File,
        epoch: SessionEpoch,
        size: u64,
    ) -> Result<i64, ClientError> {
        let fid = file.fid;
        // If this client and the MDT died now, the file would keep its old size, and no mark would
        // lead to what was cut.
        self.until_recorded(file).await?;
        let mut work: Vec<BoxFuture<'static, Result<i64, ClientError>>> = Vec::new();
        for cut in cuts(layout, fid, FileOffset(size)) {
            let osc = self.session.targets.osc(cut.ost)?;
            work.push(Box::pin(async move {
                Ok(osc.punch(cut.object, cut.at, cut.at, PunchKind::Truncate).await?)
            }));
        }
        let connections = self.session.ost_connections();
        let answers = self.session.while_trusted(fid, epoch, fan_out(work)).await;
        self.note_reconnected(file, connections);
        answers?.into_iter().sum()
    }
}
