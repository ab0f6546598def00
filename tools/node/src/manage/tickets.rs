//! Tickets by which processes come back to servers (docs/security.md, "Resumption"): the keys that
//! seal them, which a server keeps in its home, and new ones for a process whose own grow old.

use crate::host::secret_file;
use crate::role::parts::{Parts, blocking};
use env::watch;
use futures_util::future::{Either, select};
use seal::keys::Keys;
use seal::tickets::TicketKeys;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use types::limits::CONNECT_TIMEOUT;

/// Whether something is due is looked at this often.
const LOOK: Duration = Duration::from_secs(2);
/// A ticket is replaced when it is so old, seconds, or up to [`SPREAD`] less.
const OLD: i64 = 8 * 3600;
/// Processes that got theirs at once replace them over this time, seconds.
const SPREAD: u64 = 3600;

/// Reads the ticket keys of the process before, and follows tickets until `stop` is gone. `path`:
/// their file; `None`: this process has no home, and gives no tickets.
pub(super) fn follow(
    parts: &Parts,
    keys: &Arc<Keys>,
    path: Option<PathBuf>,
    mut stopped: watch::Receiver<bool>,
) {
    if let Some(path) = &path {
        match read(path) {
            Ok(Some(known)) => keys.set_ticket_keys(known),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, file = %path.display(), "new ticket keys are drawn: those that were connected need full handshakes")
            }
        }
        if let Some(due) = keys.ticket_keys_due(&*parts.env.random) {
            let written = secret_file::write(path, &due.to_text());
            take(keys, path, due, written);
        }
    }
    let (env, parts, keys) = (parts.env.clone(), parts.clone(), keys.clone());
    let old = OLD - i64::try_from(env.random.next_u64() % SPREAD).unwrap_or(0);
    let follow = async move {
        loop {
            tokio::select! {
                biased;
                _ = stopped.changed() => return,
                () = parts.env.clock.sleep(LOOK) => {}
            }
            let look = async {
                if let Some(path) = &path {
                    renew_keys(&parts, &keys, path).await;
                }
                replace_old(&parts, &keys, old).await;
            };
            tokio::select! {
                biased;
                _ = stopped.changed() => return,
                () = look => {}
            }
        }
    };
    env.tasks.spawn("follow tickets", Box::pin(follow));
}

/// `None`: there are none yet.
fn read(path: &Path) -> io::Result<Option<TicketKeys>> {
    let text = match secret_file::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let keys = TicketKeys::from_text(&text);
    keys.map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// They are used though they could not be written.
fn take(keys: &Keys, path: &Path, due: TicketKeys, written: io::Result<()>) {
    if let Err(error) = written {
        tracing::warn!(%error, file = %path.display(), "after a restart those that were connected need full handshakes: ticket keys cannot be written");
    }
    keys.set_ticket_keys(due);
}

async fn renew_keys(parts: &Parts, keys: &Keys, path: &Path) {
    let Some(due) = keys.ticket_keys_due(&*parts.env.random) else { return };
    let (to, text) = (path.to_owned(), due.to_text());
    let write = move || secret_file::write(&to, &text);
    let written = blocking(&parts.env, "wrote ticket keys", write).await;
    take(keys, path, due, written.unwrap_or_else(|error| Err(io::Error::other(error))));
}

/// Gets a new ticket of a server whose own is old.
async fn replace_old(parts: &Parts, keys: &Keys, old: i64) {
    let Some(nid) = keys.ticket_due(old) else { return };
    let fetch = async {
        let stream = parts.rpc.stream(nid).await?;
        keys.fetch_ticket(nid, stream).await
    };
    match select(pin!(fetch), parts.env.clock.sleep(CONNECT_TIMEOUT)).await {
        Either::Left((Ok(()), _)) => tracing::debug!(%nid, "got a new ticket"),
        Either::Left((Err(error), _)) => tracing::debug!(%error, "there is no new ticket"),
        Either::Right(_) => tracing::debug!(%nid, "there is no new ticket: no answer"),
    }
}
