//! Space of the whole file system.

use crate::caller::Caller;
use crate::client::Client;
use crate::counters::Operation;
use crate::error::ClientError;
use crate::fan_out::fan_out;
use env::BoxFuture;
use rpc::error::RpcError;
use rpc::patience;
use std::sync::Arc;
use stubs::osc::Osc;
use types::attr::Statfs;

impl Client {
    /// Bytes of all OSTs, inodes of all MDTs. All targets at once, 1 round trip. A target that does not answer adds
    /// nothing and is waited for in bounded time; an error only if none of a kind answers.
    pub async fn statfs(self: Arc<Self>, caller: Caller) -> Result<Statfs, ClientError> {
        let _timed = self.timed(Operation::Statfs);
        let mut work: Vec<BoxFuture<'static, Result<Statfs, RpcError>>> = Vec::new();
        let mdcs = self.targets.mdcs();
        let mdts = mdcs.len();
        for mdc in mdcs {
            let credentials = caller.credentials.clone();
            work.push(Box::pin(async move { mdc.statfs(&credentials).await }));
        }
        for osc in self.targets.oscs().into_iter().filter(Osc::is_active) {
            work.push(Box::pin(async move { osc.statfs().await }));
        }
        let answers = patience::bounded(fan_out(work)).await;
        let (mdts, osts) = answers.split_at(mdts);
        let (inodes, space) = (sum(mdts)?, sum(osts)?);
        Ok(Statfs { files_total: inodes.files_total, files_free: inodes.files_free, ..space })
    }
}

fn sum(answers: &[Result<Statfs, RpcError>]) -> Result<Statfs, ClientError> {
    let mut total = Statfs::default();
    for answer in answers {
        match answer {
            Ok(one) => {
                total.bytes_total = total.bytes_total.saturating_add(one.bytes_total);
                total.bytes_free = total.bytes_free.saturating_add(one.bytes_free);
                total.bytes_available = total.bytes_available.saturating_add(one.bytes_available);
                total.files_total = total.files_total.saturating_add(one.files_total);
                total.files_free = total.files_free.saturating_add(one.files_free);
            }
            Err(error) => tracing::warn!(%error, "statfs without one target"),
        }
    }
    match answers.iter().find_map(|answer| answer.as_ref().err()) {
        Some(error) if answers.iter().all(Result::is_err) => Err(error.clone().into()),
        _ => Ok(total),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::errno::Errno;

    #[test]
    fn one_missing_target_is_no_error_all_are() {
        let one = Statfs { bytes_total: 5, ..Statfs::default() };
        let error = RpcError::Errno(Errno::EIO);
        assert_eq!(sum(&[Ok(one), Err(error.clone()), Ok(one)]).unwrap().bytes_total, 10);
        assert!(sum(&[Err(error)]).is_err());
        assert_eq!(sum(&[]).unwrap(), Statfs::default());
    }
}
