//! Searches one order of all operations that explains every answer.
//!
//! An operation takes effect at some instant between its beginning and its end. The checker walks
//! through the history and keeps every state that the name space may be in, together with the
//! operations under way that have taken effect already. An answer that fits none of them is a
//! violation. Operations that were never answered may take effect at any later time, or never.
//!
//! A power cut of everything keeps a prefix: some state that was passed through, with everything
//! that a sync answered for.

use crate::history::{Answer, Moment, Record};
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Possibilities that are looked at for one answer; beyond it the history is too tangled to judge.
const POSSIBILITIES_MAX: usize = 200_000;

/// Result of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is such an order; the states that the end may be in.
    Explained(Vec<Tree>),
    /// There is none: what no state explains, and what led to it.
    Violation(String),
    /// Too many possibilities.
    TooTangled,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Possibility {
    tree: Tree,
    /// Under way, and has taken effect.
    done: BTreeSet<usize>,
}

/// All machines lost their power.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blackout {
    /// Time of the power cut.
    pub at: Moment,
    /// Everything that was answered before this is durable.
    pub durable: Moment,
}

/// Checks a history that began with `start`.
pub fn check(start: Tree, records: &[Record], blackout: Option<Blackout>) -> Verdict {
    let mut events: BTreeMap<Moment, (usize, bool)> = BTreeMap::new();
    for (number, record) in records.iter().enumerate() {
        events.insert(record.began, (number, false));
        if let Some((ended, _)) = &record.ended {
            events.insert(*ended, (number, true));
        }
    }
    let mut open: BTreeSet<usize> = BTreeSet::new();
    let mut possible = vec![Possibility { tree: start, done: BTreeSet::new() }];
    let mut survivors: HashSet<Tree> = HashSet::new();
    let mut blackout = blackout;
    for (moment, (number, is_end)) in events {
        if let Some(Blackout { at, durable }) = blackout {
            // Between two events, only the effects of operations under way can occur.
            if moment > durable {
                let Some(passed) = everything(&possible, &open, records) else { return Verdict::TooTangled };
                survivors.extend(passed.into_iter().map(|possibility| possibility.tree));
            }
            if moment > at {
                possible = survivors.drain().map(|tree| Possibility { tree, done: BTreeSet::new() }).collect();
                open.clear();
                blackout = None;
            }
        }
        if !is_end {
            open.insert(number);
            continue;
        }
        let Some(after) = explain(&possible, &open, records, number) else { return Verdict::TooTangled };
        if after.is_empty() {
            return Verdict::Violation(story(&possible, &open, records, number));
        }
        open.remove(&number);
        possible = after;
    }
    let mut ends: Vec<Tree> = Vec::new();
    for possibility in possible {
        if !ends.contains(&possibility.tree) {
            ends.push(possibility.tree);
        }
    }
    Verdict::Explained(ends)
}

/// Every possibility in which operation `number` has taken effect as it was answered; `None`: too
/// many.
fn explain(
    possible: &[Possibility],
    open: &BTreeSet<usize>,
    records: &[Record],
    number: usize,
) -> Option<Vec<Possibility>> {
    let mut after = Vec::new();
    let mut kept: HashSet<Possibility> = HashSet::new();
    walk(possible, open, records, |now| {
        let done = now.done.contains(&number);
        if done {
            let mut finished = now.clone();
            finished.done.remove(&number);
            if kept.insert(finished.clone()) {
                after.push(finished);
            }
        }
        done
    })?;
    Some(after)
}

/// Every possibility that the operations under way can make; `None`: too many.
fn everything(possible: &[Possibility], open: &BTreeSet<usize>, records: &[Record]) -> Option<HashSet<Possibility>> {
    walk(possible, open, records, |_| false)
}

/// Applies operations under way in every order, until `is_enough`; all that was seen. `None`: too
/// many.
fn walk(
    possible: &[Possibility],
    open: &BTreeSet<usize>,
    records: &[Record],
    mut is_enough: impl FnMut(&Possibility) -> bool,
) -> Option<HashSet<Possibility>> {
    let mut seen: HashSet<Possibility> = possible.iter().cloned().collect();
    let mut work: Vec<Possibility> = possible.to_vec();
    while let Some(now) = work.pop() {
        if is_enough(&now) {
            continue;
        }
        for next in open.iter().filter(|next| !now.done.contains(next)) {
            let record = &records[*next];
            let answer: Option<&Answer> = record.ended.as_ref().map(|(_, answer)| answer);
            let Some(tree) = now.tree.apply(&record.call, answer, *next) else { continue };
            if answer.is_none() && tree == now.tree {
                continue;
            }
            let mut done = now.done.clone();
            done.insert(*next);
            let possibility = Possibility { tree, done };
            if seen.insert(possibility.clone()) {
                work.push(possibility);
            }
        }
        if seen.len() > POSSIBILITIES_MAX {
            return None;
        }
    }
    Some(seen)
}

fn story(possible: &[Possibility], open: &BTreeSet<usize>, records: &[Record], number: usize) -> String {
    let record = &records[number];
    let mut text = format!(
        "no order explains what program {} was told: {:?} -> {:?}\nunder way then:\n",
        record.program,
        record.call,
        record.ended.as_ref().map(|(_, answer)| answer)
    );
    for other in open {
        let other = &records[*other];
        let answer = other.ended.as_ref().map(|(_, answer)| answer);
        text += &format!("  program {} since {}: {:?} -> {:?}\n", other.program, other.began, other.call, answer);
    }
    text += "before:\n";
    for other in records.iter().filter(|r| r.began < record.began).rev().take(12).collect::<Vec<_>>().into_iter().rev()
    {
        text += &format!("  program {} {}..{:?}: {:?}\n", other.program, other.began, other.ended, other.call);
    }
    if let Some(first) = possible.first() {
        text += &format!("one of {} states: {:?}\n", possible.len(), first.tree);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Call, Kind};
    use types::errno::Errno;

    fn make(name: &str) -> Call {
        Call::Make { parent: 1, name: name.to_owned(), kind: Kind::File, exclusive: true }
    }

    fn lookup(name: &str) -> Call {
        Call::Lookup { parent: 1, name: name.to_owned() }
    }

    fn file(ino: u64) -> Answer {
        Answer::Inode { ino, kind: Kind::File, nlink: 1 }
    }

    fn record(call: Call, began: Moment, ended: Option<(Moment, Answer)>) -> Record {
        Record { program: 0, call, began, ended }
    }

    fn holds(records: &[Record]) -> bool {
        match check(Tree::new(1), records, None) {
            Verdict::Explained(_) => true,
            Verdict::Violation(_) => false,
            Verdict::TooTangled => panic!("too tangled"),
        }
    }

    #[test]
    fn overlapping_operations_may_take_effect_in_any_order() {
        let absent = Answer::Refused(Errno::ENOENT);
        let create = record(make("f"), 1, Some((4, file(9))));
        assert!(holds(&[create.clone(), record(lookup("f"), 2, Some((3, absent.clone())))]));
        assert!(holds(&[create.clone(), record(lookup("f"), 2, Some((3, file(9))))]));
        assert!(!holds(&[create.clone(), record(lookup("f"), 5, Some((6, absent.clone())))]), "an old state");
        // Seen, then not seen: time went backwards.
        let seen = record(lookup("f"), 2, Some((3, file(9))));
        let unseen = record(lookup("f"), 5, Some((6, absent)));
        assert!(!holds(&[record(make("f"), 1, Some((9, file(9)))), seen, unseen]));
    }

    #[test]
    fn a_power_cut_leaves_a_prefix_with_all_that_was_synced() {
        let made = |name: &str, ino, began| record(make(name), began, Some((began + 1, file(ino))));
        let there = |name: &str, ino| record(lookup(name), 20, Some((21, file(ino))));
        let absent = |name: &str| record(lookup(name), 22, Some((23, Answer::Refused(Errno::ENOENT))));
        let under_way = record(make("c"), 9, None);
        let holds = |reads: [Record; 2], durable| {
            let records = [made("a", 7, 1), made("b", 8, 3), under_way.clone(), reads[0].clone(), reads[1].clone()];
            matches!(
                check(Tree::new(1), &records, Some(Blackout { at: 10, durable })),
                Verdict::Explained(states) if !states.is_empty()
            )
        };
        assert!(holds([there("a", 7), absent("b")], 0), "b is lost");
        assert!(!holds([there("b", 8), absent("a")], 0), "no prefix");
        assert!(!holds([there("a", 7), absent("b")], 5), "b was synced");
        assert!(holds([there("b", 8), absent("c")], 5));
        assert!(holds([there("c", 9), absent("d")], 5), "never answered, and made");
        assert!(holds([there("c", 9), record(lookup("b"), 22, Some((23, file(8))))], 0), "c comes after b");
    }

    #[test]
    fn only_one_of_two_may_win() {
        let exists = Answer::Refused(Errno::EEXIST);
        let one = record(make("f"), 1, Some((3, file(9))));
        assert!(holds(&[one.clone(), record(make("f"), 2, Some((4, exists)))]));
        assert!(!holds(&[one, record(make("f"), 2, Some((4, file(10))))]), "both made it");
    }

    #[test]
    fn what_was_never_answered_may_happen_late_or_never_but_only_once() {
        let lost = record(make("f"), 1, None);
        let absent = |began| record(lookup("f"), began, Some((began + 1, Answer::Refused(Errno::ENOENT))));
        let there = |began| record(lookup("f"), began, Some((began + 1, file(9))));
        assert!(holds(&[lost.clone(), absent(2), absent(4)]));
        assert!(holds(&[lost.clone(), absent(2), there(4)]));
        assert!(!holds(&[lost.clone(), there(2), absent(4)]));
        let unlink = |began| {
            let call = Call::Unlink { parent: 1, name: "f".into() };
            record(call, began, Some((began + 1, Answer::Done)))
        };
        assert!(holds(&[lost.clone(), there(2), unlink(4), absent(6)]));
        assert!(!holds(&[lost, there(2), unlink(4), there(6)]), "done twice");
    }
}
