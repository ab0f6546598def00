//! Space of the whole file system.

use crate::caller::Caller;
use crate::client::Client;
use crate::counters::Operation;
use env::BoxFuture;
use rpc::error::RpcError;
use rpc::import::Import;
use rpc::patience;
use session::error::ClientError;
use session::fan_out::fan_out;
use session::space::{Unanswered, in_time};
use std::sync::Arc;
use stubs::osc::Osc;
use types::attr::Statfs;
use types::credentials::Credentials;
use types::errno::Errno;
use types::target::{TargetIndex, TargetKind};

impl Client {
    /// Bytes of all OSTs, inodes of all MDTs. All targets at once, 1 round trip. A target that is
    /// away counts with its last report, or not at all if it never made one.
    ///
    /// # Errors
    /// No target of a kind ever reported its space.
    pub async fn statfs(self: Arc<Self>, caller: Caller) -> Result<Statfs, ClientError> {
        let _timed = self.timed(Operation::Statfs);
        let index = |index: TargetIndex, kind| self.ask_space(&caller.credentials, kind, index);
        let mdcs = self.session.targets.mdcs();
        let mdts = mdcs.len();
        let mdcs = mdcs.iter().map(|mdc| index(mdc.import().target().index, TargetKind::Mdt));
        let oscs = self.session.targets.oscs().into_iter().filter(Osc::is_active);
        let oscs = oscs.map(|osc| index(osc.import().target().index, TargetKind::Ost));
        let answers = fan_out(mdcs.chain(oscs).collect()).await;
        let (mdts, osts) = answers.split_at(mdts);
        let (inodes, space) = (sum(mdts)?, sum(osts)?);
        Ok(Statfs { files_total: inodes.files_total, files_free: inodes.files_free, ..space })
    }

    /// Asks a target for its space.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub(crate) fn ask_space(
        &self,
        credentials: &Credentials,
        kind: TargetKind,
        index: TargetIndex,
    ) -> BoxFuture<'static, Result<Statfs, Unanswered>> {
        let unanswered = |errno| Err(Unanswered { errno, last: None });
        let (question, import): (BoxFuture<'static, Result<Statfs, RpcError>>, Arc<Import>) =
            match kind {
                TargetKind::Mdt => match self.session.targets.mdc_at(index) {
                    Ok(mdc) => {
                        let (import, credentials) = (mdc.import().clone(), credentials.clone());
                        (Box::pin(async move { mdc.statfs(&credentials).await }), import)
                    }
                    Err(error) => return Box::pin(std::future::ready(unanswered(error.errno()))),
                },
                _ => match self.session.targets.osc(index) {
                    Ok(osc) if !osc.is_active() => {
                        return Box::pin(std::future::ready(unanswered(Errno::ESHUTDOWN)));
                    }
                    Ok(osc) => {
                        let import = osc.import().clone();
                        (Box::pin(async move { osc.statfs().await }), import)
                    }
                    Err(error) => return Box::pin(std::future::ready(unanswered(error.errno()))),
                },
            };
        // Programs wait as long as it takes, but here none waits for the answer: it ends with the
        // request time-out.
        let question = Box::pin(patience::bounded(question));
        Box::pin(in_time(self.session.env.clone(), self.session.spaces.clone(), import, question))
    }
}

fn sum(answers: &[Result<Statfs, Unanswered>]) -> Result<Statfs, Errno> {
    let mut total = Statfs::default();
    let known = |answer: &Result<Statfs, Unanswered>| {
        answer.map_or_else(|unanswered| unanswered.last, Some)
    };
    for one in answers.iter().filter_map(known) {
        total.bytes_total = total.bytes_total.saturating_add(one.bytes_total);
        total.bytes_free = total.bytes_free.saturating_add(one.bytes_free);
        total.bytes_available = total.bytes_available.saturating_add(one.bytes_available);
        total.files_total = total.files_total.saturating_add(one.files_total);
        total.files_free = total.files_free.saturating_add(one.files_free);
    }
    match answers.iter().find_map(|answer| answer.as_ref().err()) {
        Some(unanswered) if answers.iter().all(|answer| known(answer).is_none()) => {
            Err(unanswered.errno)
        }
        _ => Ok(total),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_is_away_counts_with_what_it_told_last() {
        let one = Statfs { bytes_total: 5, ..Statfs::default() };
        let away = |last| Err(Unanswered { errno: Errno::ETIMEDOUT, last });
        assert_eq!(sum(&[Ok(one), away(Some(one)), away(None)]).unwrap().bytes_total, 10);
        assert_eq!(sum(&[away(Some(one))]).unwrap().bytes_total, 5);
        assert_eq!(
            sum(&[away(None), away(None)]),
            Err(Errno::ETIMEDOUT),
            "nothing is known at all"
        );
        assert_eq!(sum(&[]), Ok(Statfs::default()));
    }
}
