//! Operations over several MDTs ("bundles"): decisions of the MDTs that take part, without clock or
//! I/O. `docs/dne.md` tells the whole story, with the argument for every crash.
//!
//! The *coordinator* of a bundle is the MDT that the client asked; the others are *participants*. A
//! bundle goes Prepare (participants pin what it is about), Apply at all participants, Apply at the
//! coordinator, answer. Each MDT writes a record of the whole bundle in the transaction of its own
//! part. So whichever MDT keeps its part through a crash brings the other parts to the MDTs that
//! lost theirs.
//!
//! Which MDTs take part may turn out one after the other, as each tells what it found. Each of them
//! has prepared with the list of all before the bundle is decided: else one that is left by the
//! coordinator would not ask the others.
//!
//! [`coordinator`] decides when a bundle is applied, given up, finished. [`participant`] decides
//! what is taken from a coordinator, and what becomes of a bundle whose coordinator is away.
//! [`exchange`] is a restarted MDT, which asks the others what it has lost.
//!
//! **Rules** (docs/dne.md, section 3), each with a mutant that `model` finds:
//!
//! 1. Commit first: what a bundle has found is durable before the bundle is applied anywhere.
//! 2. The coordinator applies last.
//! 3. Every MDT records the whole bundle with its own part.
//! 4. A record goes only together with the watermark that says so; what is below is never done
//!    again.
//! 5. The answer to a restarted MDT gives up what was only prepared with it.
//! 6. A stop is durable before any other MDT hears of it, and a stopped bundle is not taken from
//!    its coordinator any more.
//! 7. A restarted MDT answers others after its clients have come, and opens after the others have
//!    answered.
//! 8. What an MDT said in a life before the one in which it asked does not count. It announces its
//!    new life to all others before it answers one that has restarted.
//! 9. A restarted MDT asks until all have answered the same twice, in the same lives, and brings
//!    what it takes from then on.

pub mod coordinator;
pub mod exchange;
#[cfg(test)]
mod model;
pub mod participant;

use types::bundle::BundleId;
use types::target::TargetIndex;

/// An MDT that takes part in a bundle and does not coordinate it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Other {
    /// The MDT.
    pub mdt: TargetIndex,
    /// It prepares: it has pinned what its part is about. Else its part makes only what never was,
    /// and needs no preparation.
    pub prepares: bool,
}

/// A bundle that is decided: it will be done at all of its MDTs, or at none.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Bundle<B> {
    /// Its name.
    pub id: BundleId,
    /// The MDTs beside the coordinator, ascending.
    pub others: Vec<Other>,
    /// The parts of all MDTs.
    pub parts: B,
}

impl<B> Bundle<B> {
    /// True if the MDT takes part.
    pub fn concerns(&self, mdt: TargetIndex) -> bool {
        self.id.coordinator == mdt || self.others.iter().any(|other| other.mdt == mdt)
    }

    /// True if the MDT must have prepared it.
    fn needs_preparation(&self, mdt: TargetIndex) -> bool {
        self.others.iter().any(|other| other.mdt == mdt && other.prepares)
    }
}

#[cfg(test)]
macro_rules! mutants {
    ($($name:ident)*) => {
        /// Mistakes on purpose, which the model must find.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Mutant {
            $($name,)*
        }

        impl Mutant {
            /// All of them.
            pub(crate) const ALL: &[Mutant] = &[$(Mutant::$name),*];
        }
    };
}

#[cfg(test)]
mutants! {
    NoCommitFirst
    CoordinatorFirst
    NoRecordAtParticipants
    NoWatermark
    RestartDoesNotCancel
    StopNotDurable
    TerminationWithoutStop
    LateApplyTaken
    LateAnswerTaken
    NotAnnounced
    StoppedTakenFromCoordinator
    StopForgotten
    ExchangeBeforeClients
    OneRound
    PastLifeTaken
    TakenNotShown
    ListNotWhole
}

#[cfg(test)]
thread_local! {
    static MUTANT: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// True if this mistake is made on purpose; never, outside of tests.
macro_rules! is_mutant {
    ($mutant:ident) => {{
        #[cfg(test)]
        let on = crate::bundle::MUTANT.get() == Some(crate::bundle::Mutant::$mutant);
        #[cfg(not(test))]
        let on = false;
        on
    }};
}
use is_mutant;
