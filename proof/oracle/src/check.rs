//! The verdict on a whole history, object by object.

use crate::accessed;
use crate::history::Record;
use crate::length::Length;
use crate::linear::{Timed, Verdict, check};
use crate::locks::{Lock, LockOp};
use crate::names::{NameOp, Names, Tree};
use crate::register::{ABSENT, Register, RegisterOp};
use crate::split::{Key, MODES, Wrong, split};
use crate::window::shrink;
use judge::Model;

/// Lines of one window, at most: the last ones.
const WINDOW_MAX: usize = 20;

/// An answer that fits no order.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The object, in words.
    pub object: String,
    /// Number of the record whose answer fits nothing.
    pub record: usize,
    /// What is wrong with it, if known.
    pub why: String,
    /// Numbers of the records that show it, in the order they began.
    pub window: Vec<usize>,
}

/// Result of a check.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    pub violations: Vec<Violation>,
    /// Objects of which too much was under way at once to decide, in words.
    pub undecided: Vec<String>,
    /// Objects looked at.
    pub objects: usize,
}

/// Checks a history that began with empty fixed directories. `opens_told`: as [`split`] has it.
pub fn check_history(records: &[Record], opens_told: bool) -> Findings {
    let objects = split(records, opens_told);
    let mut findings = Findings::default();
    for wrong in objects.wrong {
        let (record, why) = (wrong.record, wrong.why);
        findings.violations.push(Violation {
            object: "one answer".into(),
            record,
            why,
            window: vec![record],
        });
    }
    for Wrong { record, why } in accessed::check(records, opens_told) {
        findings.violations.push(Violation {
            object: "access time".into(),
            record,
            why,
            window: vec![record],
        });
    }
    findings.one("names", &Names, &Tree::default(), &objects.names, |_, _| false);
    for (ino, ops) in &objects.lengths {
        findings.one(&format!("length of {ino:#x}"), &Length, &0, ops, |_, _| false);
    }
    for (key, ops) in &objects.registers {
        let (what, initial) = match key {
            Key::Slot { ino, slot } => (format!("data of {ino:#x}, slot {slot}"), 0),
            Key::Mode { ino, dir } => {
                (format!("mode of {ino:#x}"), MODES[usize::from(*dir)].into())
            }
            Key::Xattr { ino, which } => (format!("user.x{which} of {ino:#x}"), ABSENT),
            Key::Removed { ino, mount } => {
                (format!("mode of the removed directory {ino:#x} on mount {mount}"), 0)
            }
            Key::Word(word) => (format!("mapped word {word}"), 0),
        };
        findings.one(&what, &Register, &initial, ops, unseen);
    }
    for (ino, ops) in &objects.locks {
        findings.one(&format!("OFD lock of {ino:#x}"), &Lock, &0, ops, |_, _| false);
    }
    findings
}

/// True if no read saw this value.
fn unseen(op: &RegisterOp, all: &[Timed<RegisterOp>]) -> bool {
    matches!(op, RegisterOp::Set(value) if all.iter().all(|other| other.op != RegisterOp::Is(*value)))
}

impl Findings {
    fn one<M: Model>(
        &mut self,
        what: &str,
        model: &M,
        initial: &M::State,
        ops: &[Timed<M::Op>],
        idle: impl Fn(&M::Op, &[Timed<M::Op>]) -> bool,
    ) where
        M::Op: Clone + Relevant,
    {
        self.objects += 1;
        match check(model, initial, ops) {
            Verdict::Fits => {}
            Verdict::Undecided(at) => {
                self.undecided
                    .push(format!("{what}: too much under way at record {}", ops[at].record));
            }
            Verdict::Violation(at) => {
                let kept = shrink(model, initial, ops, at, idle);
                let (at, failing) = (ops[at].record, &ops[at].op);
                let rest: Vec<&M::Op> = kept.iter().map(|op| &op.op).collect();
                let shown = kept.iter().filter(|op| op.op.concerns(failing, &rest));
                let mut window: Vec<usize> = shown.map(|op| op.record).collect();
                window.dedup();
                window.drain(..window.len().saturating_sub(WINDOW_MAX));
                let (object, why) =
                    (what.to_owned(), "no order of what was done explains this answer".to_owned());
                self.violations.push(Violation { object, record: at, why, window });
            }
        }
    }
}

/// Operations that matter to a reader of the report.
trait Relevant: Sized {
    /// True if it bears on the failing operation, or on what others of those that show it saw.
    fn concerns(&self, _failing: &Self, _others: &[&Self]) -> bool {
        true
    }
}

impl Relevant for RegisterOp {}
impl Relevant for LockOp {}
impl Relevant for crate::length::LengthOp {}

impl Relevant for NameOp {
    fn concerns(&self, failing: &NameOp, others: &[&NameOp]) -> bool {
        let places = |op: &NameOp| match *op {
            NameOp::Is(at, _)
            | NameOp::Make(at, _)
            | NameOp::OpenOrMake(at, _)
            | NameOp::MakeDir(at, _)
            | NameOp::Unlink(at)
            | NameOp::RemoveDir(at)
            | NameOp::LinkGone(at) => vec![at],
            NameOp::Rename(from, to) | NameOp::Link(from, to) | NameOp::AnyDir(from, to) => {
                vec![from, to]
            }
            NameOp::MakeIn { .. }
            | NameOp::UnlinkIn { .. }
            | NameOp::Full { .. }
            | NameOp::Empty { .. }
            | NameOp::Alive { .. }
            | NameOp::Gone { .. }
            | NameOp::Links { .. } => Vec::new(),
        };
        let mine = places(self);
        let saw =
            others.iter().copied().filter(|op| matches!(op, NameOp::Is(..) | NameOp::AnyDir(..)));
        mine.is_empty() || saw.chain([failing]).flat_map(places).any(|place| mine.contains(&place))
    }
}

impl Violation {
    /// The violation in words.
    pub fn text(&self, records: &[Record]) -> String {
        let mut text = format!("{}: {}\n  {}\n", self.object, self.why, records[self.record]);
        if self.window.len() > 1 {
            text += "what shows it:\n";
            for at in &self.window {
                text +=
                    &format!("{} {}\n", if *at == self.record { " >" } else { "  " }, records[*at]);
            }
        }
        text
    }
}
