//! Tendencies of a seed: which faults, how often, and how soon targets commit. A world in which
//! everything happens seldom and at random never meets the coincidences that matter.

use crate::workload::{
    LOCKERS, MOVERS, NAMERS, READERS, REMOVERS, SHARERS, SYNCERS, USUAL, WITNESSES, WRITERS,
    Workload,
};
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
    /// No fault.
    Nothing,
    /// A client is not heard for longer than its lease.
    Silence,
}

/// How soon targets commit by themselves. On request they commit within milliseconds, always.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Commits {
    /// Age of a group of changes at most.
    pub interval: Duration,
    /// Interval between two looks, milliseconds, at least and at most.
    pub pace_ms: (u64, u64),
}

/// Hardly anything is durable.
const SLOW: Commits = Commits { interval: Duration::from_secs(2), pace_ms: (1, 5) };
/// Usual length of the time with faults.
const FAULTS_FOR: Duration = Duration::from_secs(20);

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct FaultProfile {
    /// Commits.
    pub commits: Commits,
    /// Longest pause between two faults, microseconds.
    pub pause_us: u64,
    /// Longest time that a server is down, microseconds.
    pub down_us: u64,
    /// In so many of 1000 cases it is an MDT that dies, if a server does.
    pub mdt: u64,
    /// In this many of 1000 cases one direction between an MDT and a client is cut for a moment
    /// before the MDT dies: that client does not learn what was done for it.
    pub unheard: u64,
    /// If a server dies, it is the only MDT, and a client dies at the same instant.
    pub together: bool,
    /// In so many of 1000 cases a client does not hear an MDT for a moment while that recovers, or
    /// just after: others go on before it.
    pub late: u64,
    /// In this many of 1000 cases the answer to a change is late, while callbacks go on: others see
    /// the change before its author knows of it.
    pub unanswered: u64,
    /// In so many of 1000 cases any reply of an MDT is late, also to another MDT: what that has
    /// done can be seen before the MDT that asked for it does its own part.
    pub late_replies: u64,
    /// In so many of 1000 cases a cut is between two MDTs.
    pub cut_mdts: u64,
    /// Length of the time with faults.
    pub faults_for: Duration,
    /// Preferences of the programs.
    pub workload: Workload,
    /// Weights.
    faults: [(Fault, u64); 8],
}

impl FaultProfile {
    /// The fault_profile of a seed with so many MDTs; `rng` is the generator for its plan.
    /// `workloads`: some seeds have a workload of their own.
    pub fn draw(seed: u64, mdts: u16, rng: &mut Rng, workloads: bool) -> FaultProfile {
        let usual = FaultProfile::draw_usual(rng);
        let mut workload = Rng::new(seed, "taste");
        if !workloads {
            return usual;
        }
        let mut movers = Rng::new(seed, "movers");
        if mdts > 1 && movers.chance(350) {
            return usual.moving(&mut movers);
        }
        let mut readers = Rng::new(seed, "readers");
        if mdts > 1 && readers.chance(300) {
            return usual.read(&mut readers);
        }
        if mdts == 1 && Rng::new(seed, "together").chance(100) {
            return usual.together();
        }
        let mut sharers = Rng::new(seed, "sharers");
        if sharers.chance(150) {
            let faults_for = Duration::from_secs(30);
            let shared =
                FaultProfile { workload: SHARERS, pause_us: 1_500_000, faults_for, ..usual };
            // Either callbacks and evictions, or restarts of the MDT.
            return match sharers.chance(500) {
                true => shared.with_faults([20, 5, 10, 5, 5, 0, 30, 20]),
                false => {
                    FaultProfile { down_us: 300_000, mdt: 800, unheard: 500, late: 500, ..shared }
                        .with_faults([15, 0, 10, 0, 50, 0, 10, 5])
                }
            };
        }
        if workload.chance(500) {
            if Rng::new(seed, "syncers").chance(700) {
                return usual;
            }
            let faults_for = Duration::from_secs(60);
            let dark = FaultProfile {
                workload: SYNCERS,
                pause_us: 900_000,
                down_us: 300_000,
                mdt: 30,
                faults_for,
                ..usual
            };
            return dark.with_faults([20, 10, 20, 20, 60, 0, 10, 0]);
        }
        // One thing over and over, while the MDT comes and goes.
        let restless = FaultProfile {
            pause_us: 250_000,
            down_us: 200_000,
            mdt: 900,
            unheard: 500,
            late: 700,
            unanswered: 100,
            ..usual
        }
        .with_faults([10, 0, 10, 0, 70, 0, 10, 0]);
        match workload.below(4) {
            0 => FaultProfile { workload: LOCKERS, ..restless },
            1 => FaultProfile { workload: REMOVERS, ..restless },
            // Answered changes are not durable yet.
            2 => FaultProfile {
                workload: NAMERS,
                commits: SLOW,
                unheard: 700,
                late: 200,
                unanswered: 400,
                ..restless
            },
            _ => {
                let faults_for = Duration::from_secs(120);
                let calm =
                    FaultProfile { workload: WRITERS, pause_us: 3_000_000, faults_for, ..usual };
                calm.with_faults([10, 0, 5, 0, 5, 0, 50, 30])
            }
        }
    }

    /// Names and directories go from one MDT to another all the time. `rng`: of this taste.
    fn moving(self, rng: &mut Rng) -> FaultProfile {
        let moving = FaultProfile { workload: MOVERS, mdt: 950, down_us: 300_000, ..self };
        match rng.below(3) {
            // MDTs come and go, often two of them at once, before anything is durable.
            0 => FaultProfile { commits: SLOW, pause_us: 250_000, unheard: 300, ..moving }
                .with_faults([10, 0, 10, 0, 70, 0, 10, 0]),
            // They are cut off from each other, often for longer than what is prepared stays.
            1 => {
                let faults_for = Duration::from_secs(40);
                FaultProfile { pause_us: 600_000, cut_mdts: 800, faults_for, ..moving }
                    .with_faults([5, 25, 2, 0, 3, 0, 40, 0])
            }
            // In the end the power of the whole house fails.
            _ => FaultProfile { commits: SLOW, pause_us: 400_000, ..moving }
                .with_faults([20, 5, 15, 0, 25, 20, 10, 0]),
        }
    }

    /// Programs look at names while others move them. `rng`: of this taste.
    fn read(self, rng: &mut Rng) -> FaultProfile {
        let faults_for = Duration::from_secs(30);
        let (workload, late_replies) = (READERS, 150);
        let read = FaultProfile { workload, late_replies, mdt: 900, down_us: 300_000, ..self };
        match rng.chance(700) {
            // MDTs do not hear each other for a while, but clients hear both: what one MDT has done
            // can be seen before the other one has.
            true => FaultProfile { pause_us: 500_000, cut_mdts: 900, faults_for, ..read }
                .with_faults([5, 40, 25, 0, 5, 0, 25, 0]),
            false => FaultProfile { pause_us: 300_000, unheard: 300, ..read }
                .with_faults([15, 0, 10, 0, 60, 0, 15, 0]),
        }
    }

    /// Clients die with the MDT while others look at what they did. Each time recovery waits for a
    /// client that does not come. No connection breaks meanwhile: that could keep others away for
    /// as long.
    fn together(self) -> FaultProfile {
        let (pause_us, down_us) = (300_000, 200_000);
        let faults_for = Duration::from_secs(300);
        let (commits, workload) = (SLOW, WITNESSES);
        FaultProfile { commits, workload, pause_us, down_us, faults_for, together: true, ..self }
            .with_faults([0, 0, 5, 0, 80, 0, 15, 0])
    }

    fn with_faults(mut self, weights: [u64; 8]) -> FaultProfile {
        for ((_, weight), new) in self.faults.iter_mut().zip(weights) {
            *weight = new;
        }
        self
    }

    fn draw_usual(rng: &mut Rng) -> FaultProfile {
        let commits = *rng.pick(&[
            // As a real target, slow disk included.
            Commits { interval: Duration::from_millis(50), pace_ms: (1, 100) },
            // Usually durable before the answer arrives.
            Commits { interval: Duration::ZERO, pace_ms: (1, 3) },
            // Usually not durable when the target dies.
            SLOW,
        ]);
        let of = |faults: [u64; 8]| {
            use Fault::*;
            let kinds = [Break, Cut, Heal, Client, Server, Blackout, Nothing, Silence];
            std::array::from_fn(|n| (kinds[n], faults[n]))
        };
        match rng.below(100) {
            // A bit of everything.
            0..=39 => FaultProfile {
                commits,
                pause_us: 600_000,
                down_us: 3_000_000,
                mdt: 250,
                unheard: 0,
                together: false,
                late: 0,
                unanswered: 0,
                late_replies: 0,
                cut_mdts: 0,
                faults_for: FAULTS_FOR,
                workload: USUAL,
                faults: of([35, 20, 25, 7, 8, 0, 5, 0]),
            },
            // Servers come and go.
            40..=84 => FaultProfile {
                commits,
                pause_us: 250_000,
                down_us: 400_000,
                mdt: 800,
                unheard: 500,
                together: false,
                late: 0,
                unanswered: 0,
                late_replies: 0,
                cut_mdts: 0,
                faults_for: FAULTS_FOR,
                workload: USUAL,
                faults: of([20, 0, 10, 0, 60, 0, 10, 0]),
            },
            // In the end the power of the whole house fails.
            _ => FaultProfile {
                commits,
                pause_us: 400_000,
                down_us: 1_000_000,
                mdt: 500,
                unheard: 0,
                together: false,
                late: 0,
                unanswered: 0,
                late_replies: 0,
                cut_mdts: 0,
                faults_for: FAULTS_FOR,
                workload: USUAL,
                faults: of([30, 5, 15, 0, 10, 30, 10, 0]),
            },
        }
    }

    /// True if the power of the whole house may fail.
    pub fn is_dark(&self) -> bool {
        self.faults.iter().any(|(fault, weight)| *fault == Fault::Blackout && *weight > 0)
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
