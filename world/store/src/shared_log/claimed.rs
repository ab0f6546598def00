//! The lease of an owner, which is renewed only while its claim stands.

use super::{Owner, SharedLog};
use crate::engine::Fence;
use crate::error::StoreError;
use crate::kv::LeaseId;
use crate::lease::Lease;
use env::clock::Monotonic;
use observe::mutant::{Mutant, is_mutant};

/// A claim that was made: of this epoch, under this lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Its epoch.
    pub fence: Fence,
    /// Its lease.
    pub lease: LeaseId,
}

impl SharedLog {
    /// Looks whether a claim stands: no other epoch began, and the target still has this owner.
    /// Claims of other hosts wait for the end of its lease, the hands of an administrator do not.
    /// `false`: it does not stand, and `lease`, in which its owner counts its time, has ended.
    ///
    /// # Errors
    /// The keys cannot be read: nothing changes; or they are none of a log: `lease` has ended.
    pub fn look(&self, claim: Claim, lease: &Lease) -> Result<bool, StoreError> {
        if is_mutant(Mutant::RenewsUnseen) {
            return Ok(true);
        }
        or_end(lease, self.stands(claim))
    }

    /// [`SharedLog::look`], and then renews the lease of a claim that stands. `asked`: the time on
    /// the owner's clock before this call, from which the renewal counts. `false`: the claim does
    /// not stand, or etcd has ended its lease, and `lease` has ended.
    ///
    /// # Errors
    /// As [`SharedLog::look`]; it is not known whether the lease was renewed.
    pub fn renew(&self, claim: Claim, lease: &Lease, asked: Monotonic) -> Result<bool, StoreError> {
        if !self.look(claim, lease)? {
            return Ok(false);
        }
        let renewed = self.kv.keep_alive(claim.lease).map_err(|e| self.error(e));
        let renewed = or_end(lease, renewed)?;
        if renewed {
            lease.renewed(asked);
        }
        Ok(renewed)
    }

    fn stands(&self, claim: Claim) -> Result<bool, StoreError> {
        let keys = ["epoch", "owner"].map(|name| self.key(name));
        let mut found = self.kv.get(&keys).map_err(|e| self.error(e))?.into_iter();
        let (epoch, owner) = (found.next().flatten(), found.next().flatten());
        let epoch = self.epoch_of(epoch.as_deref())?;
        let owner = owner.map(|bytes| self.owner_of(&bytes)).transpose()?;
        let owner = owner.map(|Owner { fence, lease, .. }| Claim { fence, lease });
        Ok(epoch == claim.fence && owner == Some(claim))
    }
}

/// Ends the lease, unless the answer is yes or may still come.
fn or_end(lease: &Lease, answer: Result<bool, StoreError>) -> Result<bool, StoreError> {
    if !matches!(answer, Ok(true) | Err(StoreError::NoAnswer { .. })) {
        lease.end();
    }
    answer
}
