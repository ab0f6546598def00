//! Rules that lose or delay frames on purpose (`lctl net_drop_add`, `net_delay_add`). None by
//! default.
//!
//! A rule is about frames from one NID to another that this process sends or receives. All matching
//! rules count the frame. The first rule whose turn it is to lose the frame loses it; otherwise the
//! longest delay counts. Greetings and goodbyes are never touched.

use env::clock::Monotonic;
use env::random::Random;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use types::nid::{Nid, NidPattern};

/// What happens to a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The frame is lost.
    Drop,
    /// The frame goes on this much later.
    Delay(Duration),
}

/// Kind of frames. Lustre's words: a request is a PUT, its answer a REPLY.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frames {
    /// Both.
    All,
    /// Requests.
    Requests,
    /// Answers.
    Replies,
}

/// Which of the matching frames are hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// All of them.
    Every,
    /// One of this many (at least 1): one at random among the first N, then again among the next N.
    OneOf(u32),
    /// Each with a chance of one in this many.
    Chance(u32),
    /// The first after each such interval.
    Interval(Duration),
}

/// A rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Sender of the frames.
    pub source: NidPattern,
    /// Receiver of the frames.
    pub target: NidPattern,
    /// Kind of the frames.
    pub frames: Frames,
    /// Which of the matching frames are hit.
    pub turn: Turn,
    /// What happens to those.
    pub fault: Fault,
}

impl Rule {
    /// Every frame to these NIDs.
    pub const fn to(target: NidPattern, fault: Fault) -> Rule {
        Rule { source: NidPattern::Any, target, frames: Frames::All, turn: Turn::Every, fault }
    }
}

/// Counts of one rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Requests that fit.
    pub requests: u64,
    /// Answers that fit.
    pub replies: u64,
    /// Frames that it lost or delayed.
    pub hit: u64,
}

/// Rules at most; more are refused.
pub const RULES_MAX: usize = 256;

struct Active {
    rule: Rule,
    counts: Counts,
    /// `OneOf`: frames seen in this round, and the number of the one to hit. `Interval`: `due` is
    /// the earliest time of the next hit.
    seen: u32,
    chosen: u32,
    due: Option<Monotonic>,
}

impl Active {
    fn new(rule: Rule) -> Active {
        Active { rule, counts: Counts::default(), seen: 0, chosen: 0, due: None }
    }

    /// True if it is the turn of this frame.
    fn hits(&mut self, random: &dyn Random, now: Monotonic) -> bool {
        match self.rule.turn {
            Turn::Every => true,
            Turn::Chance(n) => random.next_u64().is_multiple_of(u64::from(n.max(1))),
            Turn::OneOf(n) => {
                if self.seen == 0 {
                    self.chosen = (random.next_u64() % u64::from(n.max(1))) as u32;
                }
                let hit = self.seen == self.chosen;
                self.seen = (self.seen + 1) % n.max(1);
                hit
            }
            Turn::Interval(interval) => {
                let hit = self.due.is_none_or(|due| now >= due);
                if hit {
                    self.due = Some(now + interval);
                }
                hit
            }
        }
    }
}

/// The rules of a process.
#[derive(Default)]
pub struct Faults {
    any: AtomicBool,
    rules: Mutex<Vec<Active>>,
}

impl Faults {
    /// Adds a rule; `false` if there are [`RULES_MAX`] already.
    pub fn add(&self, rule: Rule) -> bool {
        let mut rules = self.rules.lock();
        if rules.len() >= RULES_MAX {
            return false;
        }
        rules.push(Active::new(rule));
        self.any.store(true, Ordering::Release);
        true
    }

    /// Removes the rules that `which` names; how many.
    pub fn remove(&self, which: impl Fn(&Rule) -> bool) -> usize {
        let mut rules = self.rules.lock();
        let before = rules.len();
        rules.retain(|active| !which(&active.rule));
        self.any.store(!rules.is_empty(), Ordering::Release);
        before - rules.len()
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.remove(|_| true);
    }

    /// Resets the counts of the rules that `which` selects.
    pub fn reset(&self, which: impl Fn(&Rule) -> bool) {
        for active in self.rules.lock().iter_mut().filter(|active| which(&active.rule)) {
            *active = Active::new(active.rule);
        }
    }

    /// All rules with their counts, in the order of adding.
    pub fn list(&self) -> Vec<(Rule, Counts)> {
        self.rules.lock().iter().map(|active| (active.rule, active.counts)).collect()
    }

    /// True if there is any rule.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// What happens to a frame; `None` if no rule hits it.
    pub(crate) fn verdict(
        &self,
        source: Nid,
        target: Nid,
        is_request: bool,
        random: &dyn Random,
        now: Monotonic,
    ) -> Option<Fault> {
        let mut delay = None;
        for active in self.rules.lock().iter_mut() {
            let Rule { source: from, target: to, frames, fault, .. } = active.rule;
            let meant = match frames {
                Frames::All => true,
                Frames::Requests => is_request,
                Frames::Replies => !is_request,
            };
            if !meant || !from.matches(source) || !to.matches(target) {
                continue;
            }
            match is_request {
                true => active.counts.requests += 1,
                false => active.counts.replies += 1,
            }
            if active.hits(random, now) {
                active.counts.hit += 1;
                match fault {
                    Fault::Drop => return Some(Fault::Drop),
                    Fault::Delay(time) => delay = delay.max(Some(time)),
                }
            }
        }
        delay.map(Fault::Delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[derive(Default)]
    struct Counting(AtomicU64);

    impl Random for Counting {
        fn next_u64(&self) -> u64 {
            self.0.fetch_add(7, Ordering::Relaxed)
        }
    }

    fn nid(n: u8) -> Nid {
        Nid::Tcp(([10, 0, 0, n], 40_000).into())
    }

    fn rule(turn: Turn, fault: Fault) -> Rule {
        let source = "10.0.0.1@tcp".parse().unwrap();
        Rule { source, target: NidPattern::Any, frames: Frames::All, turn, fault }
    }

    #[test]
    fn a_rule_is_about_its_frames_only() {
        let (faults, random) = (Faults::default(), Counting::default());
        let lost = |from: u8, request| {
            faults.verdict(nid(from), nid(2), request, &random, Duration::ZERO) == Some(Fault::Drop)
        };
        assert!(!lost(1, true) && !faults.any());
        faults.add(Rule { frames: Frames::Requests, ..rule(Turn::Every, Fault::Drop) });
        assert!(lost(1, true) && !lost(1, false) && !lost(3, true));
        assert_eq!(faults.list()[0].1, Counts { requests: 1, replies: 0, hit: 1 });
        faults.reset(|_| true);
        assert_eq!(faults.list()[0].1, Counts::default());
        assert_eq!(
            (faults.remove(|rule| rule.turn == Turn::Chance(1)), faults.remove(|_| true)),
            (0, 1)
        );
        assert!(!lost(1, true) && !faults.any());
        (0..RULES_MAX).for_each(|_| assert!(faults.add(rule(Turn::Every, Fault::Drop))));
        assert!(!faults.add(rule(Turn::Every, Fault::Drop)));
    }

    #[test]
    fn one_of_n_intervals_and_delays() {
        let (faults, random) = (Faults::default(), Counting::default());
        let at =
            |seconds| faults.verdict(nid(1), nid(2), true, &random, Duration::from_secs(seconds));
        faults.add(rule(Turn::OneOf(5), Fault::Drop));
        for _ in 0..20 {
            assert_eq!(
                (0..5).filter(|_| at(0) == Some(Fault::Drop)).count(),
                1,
                "exactly one of five"
            );
        }
        faults.clear();
        faults.add(rule(Turn::Interval(Duration::from_secs(10)), Fault::Drop));
        let lost: Vec<u64> = (0..30).filter(|s| at(*s).is_some()).collect();
        assert_eq!(lost, [0, 10, 20]);
        faults.clear();
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(2));
        faults.add(rule(Turn::Every, Fault::Delay(long)));
        faults.add(rule(Turn::Chance(1), Fault::Delay(short)));
        assert_eq!(at(0), Some(Fault::Delay(long)));
        faults.add(rule(Turn::Every, Fault::Drop));
        assert_eq!(at(0), Some(Fault::Drop));
    }
}
