//! Attributes of inodes whose names another MDT has.

use env::BoxFuture;
use foldhash::HashMap;
use session::fan_out::fan_out;
use session::session::Session;
use session::space::ANSWER_WAIT;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::credentials::Credentials;
use types::fid::Fid;
use wire::mds::Entry;

/// Asks the MDTs of these inodes for their attributes, all at once: 1 round trip. The locks that
/// come with them are learnt. They are wanted ahead of a question, so none waits long for them:
/// those of an MDT that is away, or does not answer within [`ANSWER_WAIT`], are left out.
pub(crate) async fn attributes(
    session: &Arc<Session>,
    who: &Credentials,
    fids: impl IntoIterator<Item = Fid>,
) -> HashMap<Fid, Entry> {
    let mut by_mdt: BTreeMap<u16, Vec<Fid>> = BTreeMap::new();
    fids.into_iter().for_each(|fid| by_mdt.entry(fid.mdt()).or_default().push(fid));
    let mut work: Vec<BoxFuture<'static, Vec<Option<Entry>>>> = Vec::new();
    for fids in by_mdt.into_values() {
        let Some(mdc) = fids.first().and_then(|fid| session.mdc(*fid).ok()) else { continue };
        if mdc.import().is_away() {
            continue;
        }
        let (who, clock) = (who.clone(), session.env.clock.clone());
        work.push(Box::pin(async move {
            let target = mdc.import().target();
            tokio::select! {
                biased;
                answer = mdc.getattr_many(&who, fids) => answer.unwrap_or_else(|error| {
                    tracing::debug!(%target, %error, "attributes of inodes of another MDT");
                    Vec::new()
                }),
                () = clock.sleep(ANSWER_WAIT) => {
                    tracing::debug!(%target, "does not tell attributes in time");
                    Vec::new()
                }
            }
        }));
    }
    fan_out(work)
        .await
        .into_iter()
        .flatten()
        .flatten()
        // One that has lost its last name since, and lives on because it is open.
        .filter(|entry| entry.attr.nlink > 0)
        .map(|entry| (entry.attr.fid, entry))
        .collect()
}
