//! What a seed leans to: which faults, how often, and how soon targets commit. A world in which everything happens
//! seldom and at random never meets the coincidences that matter.

use simenv::rng::Rng;
use std::time::Duration;

/// One fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Connections between two machines end; what was under way is lost.
    Break,
    /// One or both directions between two machines are cut.
    Cut,
    /// All cuts are healed.
    Heal,
    /// A client dies; another one comes.
    Client,
    /// A server dies, and comes back.
    Server,
    /// All machines lose their power at once.
    Blackout,
    /// None.
    Nothing,
}

/// How soon targets commit by themselves. Asked for, they commit within milliseconds, always.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Commits {
    /// Age of a group of changes at most.
    pub interval: Duration,
    /// They look so often, milliseconds, at least and at most.
    pub pace_ms: (u64, u64),
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Commits.
    pub commits: Commits,
    /// Longest pause between two faults, microseconds.
    pub pause_us: u64,
    /// Longest time that a server is down, microseconds.
    pub down_us: u64,
    /// In so many of 1000 cases it is an MDT that dies, if a server does.
    pub mdt: u64,
    /// In so many of 1000 cases one direction between an MDT and a client is cut for a moment before the MDT dies: that one
    /// does not learn what was done for it.
    pub unheard: u64,
    /// Weights.
    faults: [(Fault, u64); 7],
}

impl Weather {
    /// Of a seed.
    pub fn draw(rng: &mut Rng) -> Weather {
        let commits = *rng.pick(&[
            // As a real target, slow disk included.
            Commits { interval: Duration::from_millis(50), pace_ms: (1, 100) },
            // Mostly durable before the answer arrives.
            Commits { interval: Duration::ZERO, pace_ms: (1, 3) },
            // Mostly not durable when the target dies.
            Commits { interval: Duration::from_secs(2), pace_ms: (1, 5) },
        ]);
        let of = |faults: [u64; 7]| {
            use Fault::*;
            let kinds = [Break, Cut, Heal, Client, Server, Blackout, Nothing];
            std::array::from_fn(|n| (kinds[n], faults[n]))
        };
        match rng.below(100) {
            // A bit of everything.
            0..=39 => Weather {
                commits,
                pause_us: 600_000,
                down_us: 3_000_000,
                mdt: 250,
                unheard: 0,
                faults: of([35, 20, 25, 7, 8, 0, 5]),
            },
            // Servers come and go.
            40..=84 => Weather {
                commits,
                pause_us: 250_000,
                down_us: 400_000,
                mdt: 800,
                unheard: 500,
                faults: of([20, 0, 10, 0, 60, 0, 10]),
            },
            // In the end the power of the whole house fails.
            _ => Weather {
                commits,
                pause_us: 400_000,
                down_us: 1_000_000,
                mdt: 500,
                unheard: 0,
                faults: of([30, 5, 15, 0, 10, 30, 10]),
            },
        }
    }

    /// The next fault.
    pub fn fault(&self, rng: &mut Rng) -> Fault {
        let all: u64 = self.faults.iter().map(|(_, weight)| weight).sum();
        let mut roll = rng.below(all);
        for (fault, weight) in self.faults {
            match roll.checked_sub(weight) {
                Some(rest) => roll = rest,
                None => return fault,
            }
        }
        Fault::Nothing
    }
}
