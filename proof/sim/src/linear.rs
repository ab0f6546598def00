//! Asks the [search](judge) for one order of all operations that explains every answer, and for the
//! states that the end may be in.
//!
//! Operations that were never answered may take effect at any later time, or never; those that died
//! with their client and the MDT ([`Record::over`]) by then, or never.
//!
//! A power cut of everything keeps a prefix *for each MDT*: what that MDT did until some moment,
//! with everything that a sync by it answered for. An operation over several MDTs is whole: if one
//! of them keeps it, all do, also an MDT that lost what it did before (docs/dne.md, section 7).
//! So, beside the state that programs see, the search carries the state that will be kept. At any
//! moment an MDT may *stop*: from then on it keeps nothing by itself. An operation over a stopped
//! MDT and another one is kept if the other one keeps it; else that stops, too.
//!
//! A name that leads to an inode of another MDT is found first, and the inode is asked for then:
//! two steps, between which others may take effect.
//!
//! After the power cut one client reads everything, before anything changes. What it saw of an MDT
//! must be so when the MDT stops, except for the directories that operations over several MDTs may
//! change; that bounds the search.

use crate::history::{ANY_NLINK, Answer, Call, Ino, Kind, Moment, Record, mdt_of};
use crate::tree::{Bound, MdtSet, Tree, only};
use judge::{DONE, Model, Phase, START, Search, TooTangled};
use std::cell::Cell;
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

/// The name space as programs see it, and what of it will be kept.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    live: Tree,
    /// `None`: no MDT has stopped, so it is what programs see.
    kept: Option<Box<Tree>>,
    stopped: MdtSet,
}

impl State {
    fn new(live: Tree) -> State {
        State { live, kept: None, stopped: 0 }
    }

    fn kept(&self) -> &Tree {
        self.kept.as_deref().unwrap_or(&self.live)
    }

    /// What programs see is as before, with these numbers.
    fn looked_at(&self, live: Tree, bound: Bound) -> State {
        let mut kept = self.kept.clone();
        if let Some(kept) = &mut kept {
            bound.into_iter().for_each(|(synthetic, ino)| kept.bind(synthetic, ino));
        }
        State { live, kept, stopped: self.stopped }
    }

    /// True if what is kept of these MDTs was seen.
    fn was_seen(&self, mdts: MdtSet, seen: &Seen) -> bool {
        let mut all = (0..MdtSet::BITS as u16).filter(|mdt| mdts & only(*mdt) != 0);
        all.all(|mdt| self.kept().may_be_seen_at(mdt, seen))
    }

    /// These MDTs stop, if what they keep then was seen.
    fn stop(&self, mdts: MdtSet, seen: &Seen) -> Option<State> {
        let new = mdts & !self.stopped;
        self.was_seen(new, seen).then(|| State {
            live: self.live.clone(),
            kept: Some(Box::new(self.kept().clone())),
            stopped: self.stopped | new,
        })
    }
}

/// A name was found, and its inode is still to be asked for.
const FOUND: Phase = 1;

/// A name that was found to lead to an inode, which may have been asked for then.
fn found_by_name(record: &Record) -> Option<(Ino, &str, Ino)> {
    let Some((_, Answer::Inode { ino, .. })) = &record.ended else { return None };
    let (dir, name) = match &record.call {
        Call::Lookup { parent, name } => (parent, name),
        // Files are made at the MDT of their name.
        Call::Make { parent, name, kind: Kind::File, exclusive: false, .. } => (parent, name),
        _ => return None,
    };
    Some((*dir, name.as_str(), *ino))
}

/// A name that was found to lead to an inode of another MDT, which was asked for it then. A program
/// that finds a name and then asks for the inode may be told of a state in between, on any file
/// system.
fn found_elsewhere(record: &Record) -> Option<(Ino, &str, Ino)> {
    found_by_name(record).filter(|(dir, _, ino)| mdt_of(*dir) != mdt_of(*ino))
}

/// What a program was told of a directory that it made on another MDT than that of its name, if it
/// is not what a new one has. Name and directory are there before the program is told, so another
/// program may have made or removed one in it by then. No program sees this answer: `mkdir` says
/// that it is done, and the kernel keeps the attributes of the moment at which it got them.
fn made_elsewhere(record: &Record) -> Option<Ino> {
    match (&record.call, &record.ended) {
        (
            Call::Make { parent, kind: Kind::Dir, mdt, .. },
            Some((_, Answer::Inode { ino, nlink, .. })),
        ) if mdt_of(*parent) != *mdt && *nlink > 2 => Some(*ino),
        _ => None,
    }
}

fn any_nlink(ino: Ino) -> Answer {
    Answer::Inode { ino, kind: Kind::Dir, nlink: ANY_NLINK }
}

/// Directories that were read after a power cut and before any change.
type Seen = BTreeMap<Ino, BTreeMap<String, Ino>>;

/// The directories that operations over several MDTs may have changed.
fn shared_directories(records: &[Record]) -> BTreeSet<Ino> {
    let (mut shared, mut renamed) = (BTreeSet::new(), Vec::new());
    let made_at: BTreeSet<u16> = records
        .iter()
        .filter_map(|record| match record.call {
            Call::Make { mdt, .. } => Some(mdt),
            _ => None,
        })
        .collect();
    for Record { call, .. } in records {
        let others = match call {
            Call::Make { mdt, .. } => vec![*mdt],
            Call::Link { ino, .. } => vec![mdt_of(*ino)],
            Call::Rename { parent, new_parent, .. } => {
                renamed.push([*parent, *new_parent]);
                vec![mdt_of(*parent), mdt_of(*new_parent)]
            }
            _ => Vec::new(),
        };
        let dirs = call.changes();
        // What is moved may be a directory, and what is above its new place elsewhere.
        let moves = matches!(call, Call::Rename { parent, new_parent, .. } if parent != new_parent);
        if dirs.iter().any(|dir| others.iter().any(|other| *other != mdt_of(*dir)))
            || moves && made_at.len() > 1
        {
            shared.extend(dirs);
        }
    }
    // What came into a directory that way may be moved on to others.
    let mut found = 0;
    while std::mem::replace(&mut found, shared.len()) != shared.len() {
        let moved_on = renamed.iter().filter(|dirs| dirs.iter().any(|dir| shared.contains(dir)));
        let moved_on: Vec<Ino> = moved_on.flatten().copied().collect();
        shared.extend(moved_on);
    }
    shared
}

/// What takes effect.
enum Event {
    /// An operation. It has its number, to name what it makes if it was not answered.
    Call(usize, Record),
    /// An MDT stops.
    Stop(u16),
}

/// The name space.
struct Names {
    /// What was seen of the directories that only operations of one MDT change.
    seen: Seen,
    /// Any directory may have been split.
    splits: bool,
    /// MDTs that may have stopped by now: they keep all that they synced.
    may_stop: Cell<MdtSet>,
}

impl Model for Names {
    type State = State;
    type Op = Event;

    fn steps(&self, event: &Event, phase: Phase, state: &State, out: &mut Vec<(State, Phase)>) {
        let (number, record) = match event {
            Event::Stop(mdt) => {
                return out.extend(state.stop(only(*mdt), &self.seen).map(|state| (state, DONE)));
            }
            Event::Call(number, record) => (*number, record),
        };
        // Stripes are listed one after the other, while names come, go and move: the test
        // `splits_seen` judges that.
        if self.splits && matches!(record.call, Call::Readdir { .. }) {
            return out.push((state.clone(), DONE));
        }
        let mut answer: Option<&Answer> = record.ended.as_ref().map(|(_, answer)| answer);
        let mut bound = Bound::new();
        let (mut next, made) = (DONE, made_elsewhere(record).map(any_nlink));
        if let Some(Answer::Inode { ino, .. }) = made {
            if phase == FOUND {
                let looked = state.live.apply(&Call::Getattr { ino }, answer, number);
                return out.extend(looked.map(|live| (state.looked_at(live, bound), DONE)));
            }
            (answer, next) = (made.as_ref(), FOUND);
        }
        let found = if self.splits { found_by_name(record) } else { found_elsewhere(record) };
        if let Some((dir, name, ino)) = found {
            let (looked, next) = match phase {
                START => (state.live.leads(dir, name, ino, &mut bound), FOUND),
                _ => (state.live.apply(&Call::Getattr { ino }, answer, number), DONE),
            };
            out.extend(looked.map(|live| (state.looked_at(live, bound), next)));
            if !self.splits || phase != START {
                return;
            }
            // Or name and inode are on one MDT.
            bound = Bound::new();
        }
        let Some(live) = state.live.apply_and_bind(&record.call, answer, number, &mut bound) else {
            return;
        };
        // What was not answered and changes nothing explains nothing.
        if answer.is_none() && live == state.live {
            return;
        }
        let Some(kept) = &state.kept else {
            return out.push((State { live, kept: None, stopped: 0 }, next));
        };
        let mdts = if live == state.live { 0 } else { state.live.changed_mdts(&record.call) };
        let (goes_on, stops) = (mdts & !state.stopped != 0, mdts & state.stopped != 0);
        let mut ends = Vec::new();
        if mdts == 0 {
            ends.push((state.stopped, (**kept).clone()));
        }
        if goes_on && let Some(kept) = kept.apply(&record.call, answer, number) {
            ends.push((state.stopped, kept));
        }
        if stops
            && mdts & !self.may_stop.get() == 0
            && let Some(stop) = state.stop(mdts, &self.seen)
        {
            ends.push((stop.stopped, (**kept).clone()));
        }
        for (stopped, mut kept) in ends {
            bound.iter().for_each(|(synthetic, ino)| kept.bind(*synthetic, *ino));
            out.push((State { live: live.clone(), kept: Some(Box::new(kept)), stopped }, next));
        }
    }

    /// None counts as read-only: an answer may tell the number of an inode that was made without
    /// one.
    fn looks(&self, _: &Event) -> bool {
        false
    }

    fn holds(&self, _: &Event, _: &State) -> bool {
        false
    }
}

/// All machines lost their power.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blackout {
    /// Time of the power cut.
    pub at: Moment,
    /// For each MDT: everything that was answered before this is durable there.
    pub durable: BTreeMap<u16, Moment>,
}

/// Checks a history that began with `start`.
pub fn check(start: Tree, records: &[Record], blackout: Option<Blackout>) -> Verdict {
    check_over(start, records, blackout, false)
}

/// As [`check`]; `splits`: any directory may have been split, so that names and inodes of it are on
/// any MDTs.
pub fn check_over(
    start: Tree,
    records: &[Record],
    blackout: Option<Blackout>,
    splits: bool,
) -> Verdict {
    let ops: Vec<Event> =
        records.iter().cloned().enumerate().map(|(n, record)| Event::Call(n, record)).collect();
    search(start, records, &ops, blackout, splits).unwrap_or(Verdict::TooTangled)
}

/// What was read after the power cut and before any change.
fn seen_after(records: &[Record], at: Moment) -> Seen {
    let after = records.iter().filter(|record| record.began > at);
    let reads = after.take_while(|record| record.call.changes().is_empty());
    let listed = reads.filter_map(|record| match (&record.call, &record.ended) {
        (Call::Readdir { ino }, Some((_, Answer::Names(names)))) => Some((*ino, names.clone())),
        _ => None,
    });
    listed.collect()
}

fn search(
    start: Tree,
    records: &[Record],
    ops: &[Event],
    mut blackout: Option<Blackout>,
    splits: bool,
) -> Result<Verdict, TooTangled> {
    let mut events: BTreeMap<Moment, (usize, bool)> = BTreeMap::new();
    let mut over: BTreeMap<Moment, Vec<usize>> = BTreeMap::new();
    for (number, record) in records.iter().enumerate() {
        events.insert(record.began, (number, false));
        match (record.over, &record.ended) {
            (Some(moment), _) => over.entry(moment).or_default().push(number),
            (None, Some((ended, _))) => _ = events.insert(*ended, (number, true)),
            (None, None) => {}
        }
    }
    let all_seen =
        blackout.as_ref().map(|blackout| seen_after(records, blackout.at)).unwrap_or_default();
    let shared = shared_directories(records);
    let mut seen = all_seen.clone();
    seen.retain(|dir, _| !shared.contains(dir));
    let names = Names { seen, splits, may_stop: Cell::new(0) };
    let stops: BTreeMap<u16, Event> = blackout
        .iter()
        .flat_map(|blackout| blackout.durable.keys())
        .map(|mdt| (*mdt, Event::Stop(*mdt)))
        .collect();
    let mut to_stop: BTreeMap<u16, Moment> =
        blackout.as_ref().map(|b| b.durable.clone()).unwrap_or_default();
    let mut search = Search::new(&names, [State::new(start)]);
    let mut open = BTreeMap::new();
    for (moment, (number, is_end)) in events {
        if let Some(Blackout { at, .. }) = blackout {
            // Between two events, only the effects of operations under way can occur.
            let free: Vec<u16> = to_stop
                .iter()
                .filter(|(_, durable)| moment > **durable)
                .map(|(mdt, _)| *mdt)
                .collect();
            for mdt in free {
                to_stop.remove(&mdt);
                names.may_stop.set(names.may_stop.get() | only(mdt));
                search.begins(&stops[&mdt])?;
            }
            if moment > at {
                let all = stops.keys().fold(0, |all, mdt| all | only(*mdt));
                // What has not stopped keeps everything.
                let survivors: HashSet<Tree> = search
                    .reachable()?
                    .filter(|state| state.was_seen(all, &all_seen))
                    .map(|state| state.kept().clone())
                    .collect();
                search = Search::new(&names, survivors.into_iter().map(State::new));
                open.clear();
                blackout = None;
            }
        }
        while let Some(gone) = over.first_entry().filter(|gone| *gone.key() < moment) {
            let ended: Vec<_> = gone.remove().iter().filter_map(|gone| open.remove(gone)).collect();
            search.end(&ended)?;
        }
        if !is_end {
            open.insert(number, search.begins(&ops[number])?);
            continue;
        }
        let before = search.states().next().map(|state| state.live.clone());
        // What was under way at a power cut has no answer.
        let explained = match open.get(&number) {
            Some(begun) => search.returns(*begun)?,
            None => false,
        };
        if !explained {
            let open: BTreeSet<usize> = open.into_keys().collect();
            return Ok(Verdict::Violation(story(before, &open, records, number)));
        }
        open.remove(&number);
    }
    let mut ends: Vec<Tree> = Vec::new();
    for state in search.states() {
        if !ends.contains(&state.live) {
            ends.push(state.live.clone());
        }
    }
    Ok(Verdict::Explained(ends))
}

fn story(before: Option<Tree>, open: &BTreeSet<usize>, ops: &[Record], number: usize) -> String {
    let record = &ops[number];
    let mut text = format!(
        "no order explains what program {} was told: {:?} -> {:?}\nunder way then:\n",
        record.program,
        record.call,
        record.ended.as_ref().map(|(_, answer)| answer)
    );
    for other in open {
        let other = &ops[*other];
        let answer = other.ended.as_ref().map(|(_, answer)| answer);
        text += &format!(
            "  program {} since {}: {:?} -> {:?}\n",
            other.program, other.began, other.call, answer
        );
    }
    text += "before:\n";
    let earlier = ops.iter().filter(|other| other.began < record.began);
    for other in earlier.rev().take(12).collect::<Vec<_>>().into_iter().rev() {
        text += &format!(
            "  program {} {}..{:?}: {:?}\n",
            other.program, other.began, other.ended, other.call
        );
    }
    if let Some(tree) = before {
        text += &format!("one of the states before: {tree:?}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::errno::Errno;
    use types::fid::Fid;

    fn make(name: &str) -> Call {
        Call::Make { parent: 1, name: name.to_owned(), kind: Kind::File, exclusive: true, mdt: 0 }
    }

    fn lookup(name: &str) -> Call {
        Call::Lookup { parent: 1, name: name.to_owned() }
    }

    fn file(ino: u64) -> Answer {
        Answer::Inode { ino, kind: Kind::File, nlink: 1 }
    }

    fn record(call: Call, began: Moment, ended: Option<(Moment, Answer)>) -> Record {
        Record { program: 0, call, began, ended, over: None }
    }

    fn holds(records: &[Record]) -> bool {
        match check(Tree::new(1), records, None) {
            Verdict::Explained(_) => true,
            Verdict::Violation(_) => false,
            Verdict::TooTangled => panic!("too tangled"),
        }
    }

    #[test]
    fn what_died_with_its_mdt_happened_before_that_or_never() {
        let absent = Answer::Refused(Errno::ENOENT);
        let lost = Record { over: Some(4), ..record(make("f"), 1, None) };
        let look =
            |began, answer: &Answer| record(lookup("f"), began, Some((began + 1, answer.clone())));
        assert!(holds(&[lost.clone(), look(2, &file(9)), look(5, &file(9))]));
        assert!(holds(&[lost.clone(), look(2, &absent), look(5, &absent)]));
        assert!(!holds(&[lost.clone(), look(2, &file(9)), look(5, &absent)]), "it was seen");
        assert!(holds(&[lost.clone(), look(2, &absent), look(5, &file(9)), look(7, &file(9))]));
        assert!(!holds(&[lost.clone(), look(5, &absent), look(7, &file(9))]), "it is too late");
        // Its author was told the number, and made a second name.
        let made = Record { ended: Some((2, file(9))), ..lost.clone() };
        let link = Call::Link { ino: 9, parent: 1, name: "g".to_owned() };
        let two = Answer::Inode { ino: 9, kind: Kind::File, nlink: 2 };
        let link = Record { over: Some(4), ..record(link, 3, Some((4, two.clone()))) };
        assert!(holds(&[made.clone(), link.clone(), look(5, &two)]));
        assert!(holds(&[made, link, look(5, &absent)]));
    }

    #[test]
    fn overlapping_operations_may_take_effect_in_any_order() {
        let absent = Answer::Refused(Errno::ENOENT);
        let create = record(make("f"), 1, Some((4, file(9))));
        assert!(holds(&[create.clone(), record(lookup("f"), 2, Some((3, absent.clone())))]));
        assert!(holds(&[create.clone(), record(lookup("f"), 2, Some((3, file(9))))]));
        assert!(
            !holds(&[create.clone(), record(lookup("f"), 5, Some((6, absent.clone())))]),
            "an old state"
        );
        // Seen, then not seen: time went backwards.
        let seen = record(lookup("f"), 2, Some((3, file(9))));
        let unseen = record(lookup("f"), 5, Some((6, absent)));
        assert!(!holds(&[record(make("f"), 1, Some((9, file(9)))), seen, unseen]));
    }

    /// The count of links is that of the moment at which the MDT of the inode is asked, and the
    /// name must have been there before.
    #[test]
    fn an_inode_of_another_mdt_is_asked_for_after_its_name_is_found() {
        let (dir, file) = (at(1, 1), at(1, 2));
        let make = |parent, name: &str, kind, ino: Ino| {
            let name = name.to_owned();
            (Call::Make { parent, name, kind, exclusive: true, mdt: mdt_of(ino) }, ino, kind)
        };
        let made = |(call, ino, kind), began| {
            let nlink = if kind == Kind::Dir { 2 } else { 1 };
            record(call, began, Some((began + 1, Answer::Inode { ino, kind, nlink })))
        };
        let inode = |nlink| Answer::Inode { ino: file, kind: Kind::File, nlink };
        let link = Call::Link { ino: file, parent: 1, name: "f".to_owned() };
        let unlink = Call::Unlink { parent: 1, name: "f".to_owned() };
        let history = |look: (Moment, Moment), nlink| {
            [
                made(make(1, "d", Kind::Dir, dir), 1),
                made(make(dir, "f", Kind::File, file), 3),
                record(link.clone(), 5, Some((6, inode(2)))),
                record(unlink.clone(), 10, Some((13, Answer::Done))),
                record(lookup("f"), look.0, Some((look.1, inode(nlink)))),
            ]
        };
        assert!(holds(&history((7, 8), 2)) && !holds(&history((7, 8), 1)), "before");
        assert!(holds(&history((11, 12), 2)) && holds(&history((11, 12), 1)), "meanwhile");
        assert!(!holds(&history((14, 15), 1)), "the name is gone");
    }

    /// Its name and its MDT have the directory before its maker is told of it.
    #[test]
    fn a_directory_of_another_mdt_may_be_told_with_what_others_made_in_it() {
        let make = |parent, name: &str, ino: Ino, moments: (Moment, Moment), nlink| {
            let (name, kind) = (name.to_owned(), Kind::Dir);
            let call = Call::Make { parent, name, kind, exclusive: true, mdt: mdt_of(ino) };
            record(call, moments.0, Some((moments.1, Answer::Inode { ino, kind, nlink })))
        };
        let history = |mdt, below: (Moment, Moment)| {
            let dir = at(mdt, 1);
            [make(1, "d", dir, (1, 8), 3), make(dir, "e", at(mdt, 2), below, 2)]
        };
        assert!(holds(&history(1, (4, 5))), "while it is made");
        assert!(!holds(&history(1, (9, 10))), "not before there is one in it");
        assert!(!holds(&history(0, (4, 5))), "an MDT alone does both at one moment");
    }

    #[test]
    fn a_power_cut_leaves_a_prefix_with_all_that_was_synced() {
        let made = |name: &str, ino, began| record(make(name), began, Some((began + 1, file(ino))));
        let there = |name: &str, ino| record(lookup(name), 20, Some((21, file(ino))));
        let absent =
            |name: &str| record(lookup(name), 22, Some((23, Answer::Refused(Errno::ENOENT))));
        let under_way = record(make("c"), 9, None);
        let holds = |reads: [Record; 2], durable| {
            let records = [
                made("a", 7, 1),
                made("b", 8, 3),
                under_way.clone(),
                reads[0].clone(),
                reads[1].clone(),
            ];
            matches!(
                check(Tree::new(1), &records, Some(Blackout { at: 10, durable: BTreeMap::from([(0, durable)]) })),
                Verdict::Explained(states) if !states.is_empty()
            )
        };
        assert!(holds([there("a", 7), absent("b")], 0), "b is lost");
        assert!(!holds([there("b", 8), absent("a")], 0), "no prefix");
        assert!(!holds([there("a", 7), absent("b")], 5), "b was synced");
        assert!(holds([there("b", 8), absent("c")], 5));
        assert!(holds([there("c", 9), absent("d")], 5), "never answered, and made");
        assert!(
            holds([there("c", 9), record(lookup("b"), 22, Some((23, file(8))))], 0),
            "c comes after b"
        );
    }

    /// Number of an inode of this MDT.
    fn at(mdt: u16, oid: u32) -> Ino {
        Fid { seq: Fid::SEQ_NORMAL + u64::from(mdt) * Fid::SEQ_WIDTH, oid, ver: 0 }.ino()
    }

    #[test]
    fn a_power_cut_leaves_a_prefix_of_each_mdt_and_operations_of_several_whole() {
        let (dir, here, there) = (at(1, 1), at(0, 2), at(1, 3));
        let made = |parent, name: &str, kind, ino: Ino, began| {
            let call = Call::Make {
                parent,
                name: name.to_owned(),
                kind,
                exclusive: true,
                mdt: mdt_of(ino),
            };
            let nlink = if kind == Kind::Dir { 2 } else { 1 };
            record(call, began, Some((began + 1, Answer::Inode { ino, kind, nlink })))
        };
        // The root is of MDT 0. A directory there, a file in it, a file in the root.
        let history = [
            made(1, "d", Kind::Dir, dir, 1),
            made(dir, "in", Kind::File, there, 3),
            made(1, "f", Kind::File, here, 5),
        ];
        let listed = |ino, names: &[(&str, Ino)], began| {
            let names = names.iter().map(|(name, ino)| ((*name).to_owned(), *ino)).collect();
            record(Call::Readdir { ino }, began, Some((began + 1, Answer::Names(names))))
        };
        let holds = |root: &[(&str, Ino)], below: Option<&[(&str, Ino)]>, durable: [Moment; 2]| {
            let mut records = history.to_vec();
            records.push(listed(1, root, 20));
            records.extend(below.map(|names| listed(dir, names, 22)));
            let durable = BTreeMap::from([(0, durable[0]), (1, durable[1])]);
            match check(Tree::new(1), &records, Some(Blackout { at: 10, durable })) {
                Verdict::Explained(states) => !states.is_empty(),
                Verdict::Violation(_) => false,
                Verdict::TooTangled => panic!("too tangled"),
            }
        };
        let (d, f) = (("d", dir), ("f", here));
        assert!(holds(&[d, f], Some(&[("in", there)]), [0, 0]), "all");
        assert!(holds(&[], None, [0, 0]), "nothing");
        assert!(
            holds(&[d, f], Some(&[]), [0, 0]),
            "what came last of one MDT, without what the other did before"
        );
        assert!(holds(&[d], Some(&[("in", there)]), [0, 0]));
        assert!(!holds(&[f], None, [0, 0]), "no prefix");
        assert!(!holds(&[d, f], Some(&[]), [0, 5]), "synced there");
        assert!(!holds(&[], None, [0, 5]), "what is synced at one MDT is whole");
        assert!(holds(&[d], Some(&[("in", there)]), [0, 5]), "f is of the other MDT");
        assert!(!holds(&[d], Some(&[("in", there)]), [7, 0]), "f is synced");
    }

    /// MDT 1 kept the directory that it made for MDT 0, which lost what it did before.
    #[test]
    fn an_operation_of_several_mdts_is_kept_if_one_of_them_keeps_it() {
        let (file, dir) = (at(0, 2), at(1, 1));
        let make = |name: &str, kind, ino: Ino, began| {
            let (name, mdt) = (name.to_owned(), mdt_of(ino));
            let nlink = if kind == Kind::Dir { 2 } else { 1 };
            let call = Call::Make { parent: 1, name, kind, exclusive: true, mdt };
            record(call, began, Some((began + 1, Answer::Inode { ino, kind, nlink })))
        };
        let holds = |names: &[(&str, Ino)], durable: [Moment; 2]| {
            let names = names.iter().map(|(name, ino)| ((*name).to_owned(), *ino)).collect();
            let listed = record(Call::Readdir { ino: 1 }, 20, Some((21, Answer::Names(names))));
            let records = [make("f", Kind::File, file, 1), make("d", Kind::Dir, dir, 3), listed];
            let durable = BTreeMap::from([(0, durable[0]), (1, durable[1])]);
            let verdict = check(Tree::new(1), &records, Some(Blackout { at: 10, durable }));
            matches!(verdict, Verdict::Explained(states) if !states.is_empty())
        };
        let (d, f) = (("d", dir), ("f", file));
        assert!(holds(&[d, f], [0, 0]) && holds(&[f], [0, 0]) && holds(&[], [0, 0]));
        assert!(holds(&[d], [0, 0]), "MDT 1 kept it");
        assert!(!holds(&[d], [3, 0]), "the file was synced");
        assert!(!holds(&[f], [0, 5]), "the directory was synced");
    }

    /// MDT 1 kept the move of a directory below one of its own, and MDT 0 lost what it did before.
    #[test]
    fn an_mdt_with_a_directory_above_takes_part_in_a_move_below_it() {
        let holds = |mdt_above: u16, root: &[(&str, Ino)]| {
            let (above, below, dir, file) = (at(mdt_above, 1), at(0, 2), at(0, 3), at(0, 4));
            let make = |parent, name: &str, ino: Ino, began| {
                let (name, mdt) = (name.to_owned(), mdt_of(ino));
                let (kind, nlink) = if ino == file { (Kind::File, 1) } else { (Kind::Dir, 2) };
                let call = Call::Make { parent, name, kind, exclusive: true, mdt };
                record(call, began, Some((began + 1, Answer::Inode { ino, kind, nlink })))
            };
            let listed = |ino, names: &[(&str, Ino)], began| {
                let names = names.iter().map(|(name, ino)| ((*name).to_owned(), *ino)).collect();
                record(Call::Readdir { ino }, began, Some((began + 1, Answer::Names(names))))
            };
            let done = |call, began| record(call, began, Some((began + 1, Answer::Done)));
            let (d, to) = ("d".to_owned(), below);
            let records = [
                make(1, "above", above, 1),
                make(above, "below", below, 3),
                make(1, "d", dir, 5),
                make(1, "f", file, 7),
                done(Call::Unlink { parent: 1, name: "f".into() }, 11),
                done(Call::Rename { parent: 1, name: d.clone(), new_parent: to, new_name: d }, 13),
                listed(1, root, 20),
                listed(below, &[("d", dir)], 22),
            ];
            let durable = BTreeMap::from([(0, 9), (1, 9)]);
            let verdict = check(Tree::new(1), &records, Some(Blackout { at: 15, durable }));
            matches!(verdict, Verdict::Explained(states) if !states.is_empty())
        };
        let f = ("f", at(0, 4));
        assert!(holds(1, &[("above", at(1, 1))]) && holds(0, &[("above", at(0, 1))]), "all");
        assert!(holds(1, &[("above", at(1, 1)), f]), "MDT 1 kept the move");
        assert!(!holds(0, &[("above", at(0, 1)), f]), "it is all of MDT 0: no prefix");
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
        let absent =
            |began| record(lookup("f"), began, Some((began + 1, Answer::Refused(Errno::ENOENT))));
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
