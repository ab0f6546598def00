//! The names of a directory are listed before a lookup, or beside it: what `ahead/names.rs`
//! decides, asked of the MDT.

use crate::client::Client;
use env::net::LONG_LINE;
use session::error::ClientError;
use session::session::Session;
use std::sync::Arc;
use std::time::Duration;
use types::credentials::Credentials;
use types::fid::Fid;
use wire::mds::{GetParent, MdsOp, Readdir};

/// Bytes of all names, at most.
const BYTES_MAX: u32 = 6 << 20;
/// Round trip from which on names are listed for lookups that find theirs.
const FAR: Duration = Duration::from_millis(10);

/// Lists names of a directory, and its parent: a listing is of use with that. The reply is learnt,
/// with its locks, when it comes.
async fn list(
    session: Arc<Session>,
    who: Credentials,
    dir: Fid,
    limit: u32,
) -> Result<(), ClientError> {
    let readdir = Readdir {
        fid: dir,
        after: None,
        limit,
        bytes_max: BYTES_MAX,
        with_attr: false,
        with_layout: false,
    };
    let ops = vec![MdsOp::Readdir(readdir), MdsOp::GetParent(GetParent { fid: dir })];
    session.mdc(dir)?.ask(&who, ops).await?;
    Ok(())
}

impl Client {
    /// A program looks a name up that no lock covers. True: the names of its directory, or of this
    /// stripe of it, were listed first, so what is known has to be looked at again. 1 round trip
    /// then.
    ///
    /// The caller waits, as the create that follows would take the listing the lock that covers it.
    pub(crate) async fn list_names(&self, who: &Credentials, dir: Fid) -> bool {
        if self.statahead_max() == 0 || self.is_careful() || !self.session.has_lease(dir) {
            return false;
        }
        let Some(limit) = self.names_ahead.lock().limit(dir, self.session.env.clock.now()) else {
            return false;
        };
        let asked = list(self.session.clone(), who.clone(), dir, limit);
        asked.await.inspect_err(|error| tracing::debug!(%error, "names ahead")).is_ok()
    }

    /// An MDT was asked for a name of a directory, or of this stripe of one, and found it. The
    /// names are listed in the background if that MDT is far away, not only busy: statahead needs
    /// them.
    pub(crate) fn found_name(&self, who: &Credentials, dir: Fid) {
        let careful = self.statahead_max() == 0 || self.is_careful();
        if careful || self.locks.table.lock().listing(dir, false).is_some() {
            return;
        }
        let far = self.session.mdc(dir).is_ok_and(|mdc| mdc.import().least_delay() >= FAR);
        let now = self.session.env.clock.now();
        if let Some(limit) = far.then(|| self.names_ahead.lock().found(dir, now)).flatten() {
            self.list_beside(who, dir, limit);
        }
    }

    /// A program is about to open a file to read it, by a request. The names of its directory are
    /// listed beside it if the line is a long one: with these the next files are opened ahead.
    pub(crate) fn list_for_open(&self, who: &Credentials, file: Fid) {
        if self.statahead_max() == 0 || !self.may_open_ahead() {
            return;
        }
        let Some(dir) = self.dir_of(file) else { return };
        let far = self.session.mdc(dir).is_ok_and(|mdc| mdc.import().least_delay() >= LONG_LINE);
        if !far || self.locks.table.lock().listing(dir, false).is_some() {
            return;
        }
        let now = self.session.env.clock.now();
        let limit = self.names_ahead.lock().opened(dir, now);
        if let Some(limit) = limit {
            self.list_beside(who, dir, limit);
        }
    }

    fn list_beside(&self, who: &Credentials, dir: Fid, limit: u32) {
        let asked = list(self.session.clone(), who.clone(), dir, limit);
        let work = async move {
            if let Err(error) = asked.await {
                tracing::debug!(%error, "names ahead");
            }
        };
        self.session.env.tasks.spawn("names ahead", Box::pin(work));
    }

    /// An MDT says that a directory, or this stripe of one, has no such name.
    pub(crate) fn missed_name(&self, dir: Fid) {
        self.names_ahead.lock().missed(dir, self.session.env.clock.now());
    }
}
