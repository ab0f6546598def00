//! Granted space: a client may answer a write before it sends it, if the bytes are granted.
//!
//! One table for everything that takes from one volume. A request *pays* for its writes from its
//! client's grant; other writes take space that no client was granted. Nothing is stored: grants
//! live as long as sessions, and clients ask again.
//!
//! **Invariant:** granted and paid bytes, with [`OVERHEAD`], never exceed the free space, as long
//! as only these targets take from the volume. If something else does, nothing more is granted.
//! Bound: [`GRANT_PER_CLIENT_MAX`] per client and target.

use std::collections::HashMap;
use types::limits::{GRANT_PER_CLIENT_MAX, GRANT_UNIT};
use types::session::ClientUuid;
use types::target::TargetName;

/// One part in this many of the granted bytes is held back for the records of the local file system
/// (extents, folders).
const OVERHEAD: u64 = 64;
/// One grant takes at most one part in this many of what is left, so that the first client does not
/// get all.
const SHARE: u64 = 8;
/// Grants below this are not worth a request.
const GRANT_MIN: u64 = 16 * GRANT_UNIT;

/// The holder of a grant: a client of one target.
type Holder = (TargetName, ClientUuid);

/// See the module.
#[derive(Default)]
pub(crate) struct Grants {
    /// Free at the last look, without what was taken since.
    free: u64,
    holders: HashMap<Holder, u64, foldhash::fast::RandomState>,
    /// Sum of `holders`.
    granted: u64,
    /// Paid by requests under way, not written yet.
    paid: u64,
    /// Being written: a look may or may not count it already.
    writing: u64,
    /// Bytes that a granted byte may take in the worst case, less 1.
    weight_above: u64,
}

impl Grants {
    /// A granted byte may take this many in the worst case: the volume gives out units, of which
    /// a client counts blocks.
    pub(crate) fn with_weight(weight: u64) -> Grants {
        Grants { weight_above: weight.saturating_sub(1), ..Grants::default() }
    }

    /// What granted bytes may take.
    fn weigh(&self, granted: u64) -> u64 {
        granted.saturating_mul(self.weight_above + 1)
    }

    /// The volume was looked at.
    pub(crate) fn looked(&mut self, free: u64) {
        self.free = free.saturating_sub(self.writing);
    }

    /// Bytes granted to clients.
    pub(crate) fn granted(&self) -> u64 {
        self.granted
    }

    /// Bytes that granted and paid ones may take in the worst case.
    pub(crate) fn claimed(&self) -> u64 {
        let committed = self.weigh(self.granted + self.paid);
        committed + committed / OVERHEAD
    }

    /// Free bytes that no client was granted.
    pub(crate) fn ungranted(&self) -> u64 {
        self.free.saturating_sub(self.claimed())
    }

    /// As [`Grants::ungranted`], plus the bytes held back for records: a volume without room for
    /// grants is not yet full.
    pub(crate) fn available(&self) -> u64 {
        self.free.saturating_sub(self.weigh(self.granted + self.paid))
    }

    /// A request pays with up to `bytes` of its client's grant; returns how many there were. They
    /// end with [`Grants::take`] or [`Grants::refund`].
    pub(crate) fn spend(&mut self, holder: Holder, bytes: u64) -> u64 {
        let paid = self.reduce(holder, bytes);
        self.paid += paid;
        paid
    }

    /// Of the bytes that a write takes: those that its payment does not cover.
    pub(crate) fn unpaid(&self, (pays, takes): (u64, u64), payment: u64) -> u64 {
        takes.saturating_sub(self.weigh(pays.min(payment)))
    }

    /// `takes` bytes will be taken for blocks of `pays` bytes, as far as possible out of `payment`.
    /// `false`: there is no room. Ends with [`Grants::written`].
    #[must_use]
    pub(crate) fn take(&mut self, (pays, takes): (u64, u64), payment: &mut u64) -> bool {
        let unpaid = self.unpaid((pays, takes), *payment);
        if unpaid > 0 && unpaid > self.ungranted() {
            return false;
        }
        let paid = pays.min(*payment);
        *payment -= paid;
        self.paid -= paid;
        self.free = self.free.saturating_sub(takes);
        self.writing += takes;
        true
    }

    /// The write ended, however it did.
    pub(crate) fn written(&mut self, len: u64) {
        self.writing -= len;
    }

    /// The request ended without using this.
    pub(crate) fn refund(&mut self, payment: u64) {
        self.paid -= payment;
    }

    /// The client asks for `want` more; returns what it gets, in [`GRANT_UNIT`]s.
    pub(crate) fn grant(&mut self, holder: Holder, want: u64) -> u64 {
        let held = self.holders.get(&holder).copied().unwrap_or(0);
        let share = self.ungranted() / self.weigh(SHARE);
        let more = want.min(share).min(GRANT_PER_CLIENT_MAX.saturating_sub(held)) / GRANT_UNIT
            * GRANT_UNIT;
        if more == 0 || share < GRANT_MIN {
            return 0;
        }
        *self.holders.entry(holder).or_default() += more;
        self.granted += more;
        more
    }

    /// The client gives some back; or all, when its session ends (`u64::MAX`).
    pub(crate) fn reduce(&mut self, holder: Holder, bytes: u64) -> u64 {
        let Some(held) = self.holders.get_mut(&holder) else { return 0 };
        let less = bytes.min(*held);
        *held -= less;
        if *held == 0 {
            self.holders.remove(&holder);
        }
        self.granted -= less;
        less
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use types::target::FsName;

    fn holder(n: u8) -> Holder {
        (TargetName::ost(FsName::default(), 0), ClientUuid(n.into()))
    }

    #[test]
    fn a_grant_is_kept_from_others_and_ends_with_the_session() {
        let mut grants = Grants::default();
        grants.looked(80 << 20);
        let more = grants.grant(holder(1), 64 << 20);
        assert_eq!(more, 10 << 20);
        assert!(
            !grants.take((70 << 20, 70 << 20), &mut 0),
            "granted, with what the file system needs beside"
        );
        assert!(grants.take((69 << 20, 69 << 20), &mut 0));
        grants.written(69 << 20);
        let mut payment = grants.spend(holder(1), u64::MAX);
        assert_eq!(payment, more);
        assert!(grants.take((more - GRANT_UNIT, more - GRANT_UNIT), &mut payment));
        assert_eq!(payment, GRANT_UNIT);
        grants.refund(payment);
        assert_eq!(grants.granted(), 0);
        grants.looked(1 << 30);
        assert!(grants.grant(holder(2), 1 << 30) <= GRANT_PER_CLIENT_MAX);
        grants.reduce(holder(2), u64::MAX);
        assert_eq!((grants.granted(), grants.holders.len()), (0, 0));
    }

    #[test]
    fn a_nearly_full_volume_grants_nothing() {
        let mut grants = Grants::default();
        grants.looked(SHARE * GRANT_MIN - 1);
        assert_eq!(grants.grant(holder(1), 1 << 20), 0);
        grants.looked(SHARE * GRANT_MIN);
        assert_eq!(grants.grant(holder(1), 1 << 20), GRANT_MIN);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Ask(u8, u64),
        Back(u8, u64),
        /// A paid request: spend, then writes of this many bytes each, a part of which existed
        /// already.
        Paid(u8, u64, Vec<(u64, u64)>),
        Unpaid(u64),
        Freed(u64),
        Look,
        Gone(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        let who = 0..3u8;
        let size = 0..(2u64 << 20);
        prop_oneof![
            (who.clone(), size.clone()).prop_map(|(c, n)| Step::Ask(c, n)),
            (who.clone(), size.clone()).prop_map(|(c, n)| Step::Back(c, n)),
            (who.clone(), size.clone(), prop::collection::vec((size.clone(), size.clone()), 0..4))
                .prop_map(|(c, n, w)| Step::Paid(c, n, w)),
            size.clone().prop_map(Step::Unpaid),
            size.prop_map(Step::Freed),
            Just(Step::Look),
            who.prop_map(Step::Gone),
        ]
    }

    proptest! {
        /// Against a volume: no sum of grants beyond what is free, no paid write without room.
        #[test]
        fn grants_are_kept(
            steps in prop::collection::vec(step(), 1..200),
            weight in prop_oneof![Just(1u64), Just(16)],
        ) {
            let mut free = 16u64 << 20;
            let mut grants = Grants::with_weight(weight);
            grants.looked(free);
            // The bytes that each client believes it was granted.
            let mut held = [0u64; 3];
            for step in steps {
                match step {
                    Step::Ask(c, want) => held[c as usize] += grants.grant(holder(c), want),
                    Step::Back(c, bytes) => held[c as usize] -= grants.reduce(holder(c), bytes),
                    Step::Gone(c) => {
                        grants.reduce(holder(c), u64::MAX);
                        held[c as usize] = 0;
                    }
                    Step::Freed(bytes) => free = (free + bytes).min(16 << 20),
                    Step::Look => grants.looked(free),
                    Step::Unpaid(len) => {
                        let takes = len * weight;
                        if grants.take((len, takes), &mut 0) {
                            free = free.checked_sub(takes).expect("room for what was let through");
                            grants.written(takes);
                        }
                    }
                    Step::Paid(c, spend, writes) => {
                        let spend = spend.min(held[c as usize]);
                        held[c as usize] -= spend;
                        let mut payment = grants.spend(holder(c), spend);
                        prop_assert_eq!(payment, spend, "a grant is there when it is used");
                        for (len, there) in writes {
                            // In the worst case each block takes a unit, in the best none.
                            let (covered, takes) = (len <= payment, len * weight);
                            let taken = grants.take((len, takes), &mut payment);
                            prop_assert!(taken || !covered, "a paid write was refused");
                            if taken {
                                let took = takes - (there * weight).min(takes);
                                free = free.checked_sub(took).expect("room for a paid write");
                                grants.written(takes);
                            }
                        }
                        grants.refund(payment);
                    }
                }
                prop_assert_eq!(grants.granted(), held.iter().sum::<u64>());
                let committed = grants.granted() * weight;
                prop_assert!(committed + committed / OVERHEAD <= free);
                prop_assert_eq!((grants.paid, grants.writing), (0, 0));
            }
        }
    }
}
