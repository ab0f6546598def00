//! The names of a directory are listed before a lookup: what `ahead/names.rs` decides, asked of the
//! MDT.

use crate::client::Client;
use session::error::ClientError;
use types::credentials::Credentials;
use types::fid::Fid;
use wire::mds::{GetParent, MdsOp, Readdir};

/// Bytes of all names, at most.
const BYTES_MAX: u32 = 6 << 20;

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
        let readdir = Readdir {
            fid: dir,
            after: None,
            limit,
            bytes_max: BYTES_MAX,
            with_attr: false,
            with_layout: false,
        };
        // A listing is of use with the parent. The reply is learnt, with its locks, when it comes.
        let ops = vec![MdsOp::Readdir(readdir), MdsOp::GetParent(GetParent { fid: dir })];
        let asked = async { Ok::<_, ClientError>(self.session.mdc(dir)?.ask(who, ops).await?) };
        match asked.await {
            Ok(_) => true,
            Err(error) => {
                tracing::debug!(%error, "names ahead");
                false
            }
        }
    }

    /// An MDT says that a directory, or this stripe of one, has no such name.
    pub(crate) fn missed_name(&self, dir: Fid) {
        self.names_ahead.lock().missed(dir, self.session.env.clock.now());
    }
}
