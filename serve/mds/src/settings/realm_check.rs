//! Clients of a nodemap with a fileset: what of an operation is outside of their realm
//! (docs/security.md, "Realms"). This is the one place that looks at what an operation names; what
//! is found on its way, [`Records`](crate::records::Records) ask of [`Realm::admits`].

use crate::mds::{Mds, RequestContext};
use crate::realm::Realm;
use types::errno::Errno;
use wire::class::{Changes, Held};
use wire::mds::MdsOp;

impl Mds {
    /// Succeeds if all inodes of this MDT that an operation names are in the realm of its client.
    /// Those of other MDTs are looked at where they are. What is asked for many inodes is answered
    /// for each by itself. What a client wrote to a file that it has open for writing, or for which
    /// it holds WRITE, it may store: it could have it when it got that. From then on the request
    /// reaches what the operation may.
    ///
    /// # Errors
    /// ESTALE: one is not; EIO: its record is damaged.
    pub(crate) fn unless_outside(
        &self,
        request: &mut RequestContext<'_>,
        op: &mut MdsOp,
    ) -> Result<(), Errno> {
        let realm = request.realm;
        request.lock_context.asked.realm = realm;
        if realm == Realm::ALL || matches!(op, MdsOp::AskTickets(_) | MdsOp::GetattrMany(_)) {
            return Ok(());
        }
        let class = op.class();
        let is_data = class.held == Held::ForWriting && class.changes == Changes::Store;
        let client = request.client();
        let may_store = || self.state.lock().may_store(client, op.fid());
        if class.held == Held::GivenBack || is_data && may_store() {
            request.lock_context.asked.realm = Realm::ALL;
            return Ok(());
        }
        let me = self.name.index.0;
        self.read_for(request, |records| {
            op.try_each_fid(|fid| match fid.seq != 0 && fid.mdt() == me {
                true => records.entry(*fid).map(drop),
                false => Ok(()),
            })
        })
    }

    /// True if clients may mount what is in a realm: its tree is marked.
    pub(crate) fn is_ready(&self, realm: Realm) -> bool {
        realm.number().is_none_or(|realm| self.realms.is_done(realm))
    }
}
