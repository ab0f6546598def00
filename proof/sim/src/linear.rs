//! Asks the [search](judge) for one order of all operations that explains every answer, and for the
//! states that the end may be in.
//!
//! Operations that were never answered may take effect at any later time, or never.
//!
//! A power cut of everything keeps a prefix: some state that was passed through, with everything
//! that a sync answered for.

use crate::history::{Answer, Moment, Record};
use crate::tree::Tree;
use judge::{DONE, Model, Phase, Search, TooTangled};
use std::collections::{BTreeMap, BTreeSet, HashSet};

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

/// The name space. An operation has its number, to name what it makes if it was not answered.
struct Names;

impl Model for Names {
    type State = Tree;
    type Op = (usize, Record);

    fn steps(&self, (number, record): &(usize, Record), _: Phase, tree: &Tree, out: &mut Vec<(Tree, Phase)>) {
        let answer: Option<&Answer> = record.ended.as_ref().map(|(_, answer)| answer);
        // What was not answered and changes nothing explains nothing.
        let after = tree.apply(&record.call, answer, *number).filter(|after| answer.is_some() || after != tree);
        out.extend(after.map(|after| (after, DONE)));
    }

    /// None counts as read-only: an answer may tell the number of an inode that was made without
    /// one.
    fn looks(&self, _: &(usize, Record)) -> bool {
        false
    }

    fn holds(&self, _: &(usize, Record), _: &Tree) -> bool {
        false
    }
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
    let ops: Vec<(usize, Record)> = records.iter().cloned().enumerate().collect();
    search(start, &ops, blackout).unwrap_or(Verdict::TooTangled)
}

fn search(start: Tree, ops: &[(usize, Record)], mut blackout: Option<Blackout>) -> Result<Verdict, TooTangled> {
    let mut events: BTreeMap<Moment, (usize, bool)> = BTreeMap::new();
    for (number, record) in ops {
        events.insert(record.began, (*number, false));
        if let Some((ended, _)) = &record.ended {
            events.insert(*ended, (*number, true));
        }
    }
    let mut search = Search::new(&Names, [start]);
    let mut open = BTreeMap::new();
    let mut survivors: HashSet<Tree> = HashSet::new();
    for (moment, (number, is_end)) in events {
        if let Some(Blackout { at, durable }) = blackout {
            // Between two events, only the effects of operations under way can occur.
            if moment > durable {
                survivors.extend(search.reachable()?);
            }
            if moment > at {
                search = Search::new(&Names, survivors.drain());
                open.clear();
                blackout = None;
            }
        }
        if !is_end {
            open.insert(number, search.begins(&ops[number])?);
            continue;
        }
        let before = search.states().next().cloned();
        // What was under way at a power cut has no answer.
        let explained = match open.get(&number) {
            Some(begun) => search.returns(*begun)?,
            None => false,
        };
        if !explained {
            let open: BTreeSet<usize> = open.into_keys().collect();
            return Ok(Verdict::Violation(story(before, &open, ops, number)));
        }
        open.remove(&number);
    }
    let mut ends: Vec<Tree> = Vec::new();
    for tree in search.states() {
        if !ends.contains(tree) {
            ends.push(tree.clone());
        }
    }
    Ok(Verdict::Explained(ends))
}

fn story(before: Option<Tree>, open: &BTreeSet<usize>, ops: &[(usize, Record)], number: usize) -> String {
    let (_, record) = &ops[number];
    let mut text = format!(
        "no order explains what program {} was told: {:?} -> {:?}\nunder way then:\n",
        record.program,
        record.call,
        record.ended.as_ref().map(|(_, answer)| answer)
    );
    for other in open {
        let (_, other) = &ops[*other];
        let answer = other.ended.as_ref().map(|(_, answer)| answer);
        text += &format!("  program {} since {}: {:?} -> {:?}\n", other.program, other.began, other.call, answer);
    }
    text += "before:\n";
    let earlier = ops.iter().map(|(_, other)| other).filter(|other| other.began < record.began);
    for other in earlier.rev().take(12).collect::<Vec<_>>().into_iter().rev() {
        text += &format!("  program {} {}..{:?}: {:?}\n", other.program, other.began, other.ended, other.call);
    }
    if let Some(tree) = before {
        text += &format!("one of the states before: {tree:?}\n");
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
