//! The search itself: histories made by hand, and random small ones against trying every order.

use judge::{DONE, Model, Phase, START};
use oracle::history::Place;
use oracle::length::{Length, LengthOp};
use oracle::linear::{Timed, Verdict, check};
use oracle::names::{NameOp, Names, Seen, Tree};
use oracle::register::{ABSENT, Register, RegisterOp};
use proptest::prelude::*;

fn history<O: Copy>(ops: &[(u64, u64, O)]) -> Vec<Timed<O>> {
    ops.iter()
        .enumerate()
        .map(|(record, (begin, end, op))| Timed { begin: *begin, end: *end, record, op: *op })
        .collect()
}

fn register(ops: &[(u64, u64, RegisterOp)]) -> Verdict {
    check(&Register, &0, &history(ops))
}

use RegisterOp::{Is, Remove, Set};

#[test]
fn answers_in_order_fit() {
    assert_eq!(
        register(&[(0, 1, Is(0)), (2, 3, Set(5)), (4, 5, Is(5)), (6, 7, Set(6)), (8, 9, Is(6))]),
        Verdict::Fits
    );
    assert_eq!(register(&[]), Verdict::Fits);
}

#[test]
fn an_old_value_after_a_newer_was_written_does_not_fit() {
    assert_eq!(register(&[(0, 1, Set(5)), (2, 3, Set(6)), (4, 5, Is(5))]), Verdict::Violation(2));
    // While the write is under way both fit, but not the new one and then the old one.
    assert_eq!(
        register(&[(0, 1, Set(5)), (2, 9, Set(6)), (3, 4, Is(5)), (5, 6, Is(6))]),
        Verdict::Fits
    );
    assert_eq!(
        register(&[(0, 1, Set(5)), (2, 9, Set(6)), (3, 4, Is(6)), (5, 6, Is(5))]),
        Verdict::Violation(3)
    );
}

#[test]
fn a_value_before_it_was_written_does_not_fit() {
    assert_eq!(register(&[(0, 1, Is(5)), (2, 3, Set(5))]), Verdict::Violation(0));
    // One moment is enough for both.
    assert_eq!(register(&[(0, 2, Is(5)), (2, 3, Set(5))]), Verdict::Fits);
}

#[test]
fn two_readers_must_agree_on_one_order() {
    let writes = [(0, 9, Set(5)), (0, 9, Set(6))];
    let agree = [(10, 11, Is(6)), (12, 13, Is(6))];
    let differ = [(10, 11, Is(6)), (12, 13, Is(5))];
    assert_eq!(register(&[&writes[..], &agree].concat()), Verdict::Fits);
    assert_eq!(register(&[&writes[..], &differ].concat()), Verdict::Violation(3));
}

#[test]
fn what_is_absent_cannot_be_removed() {
    assert_eq!(register(&[(0, 1, Set(5)), (2, 3, Remove), (4, 5, Is(ABSENT))]), Verdict::Fits);
    assert_eq!(register(&[(0, 1, Set(5)), (2, 3, Remove), (4, 5, Remove)]), Verdict::Violation(2));
    assert_eq!(register(&[(0, 1, Set(5)), (2, 5, Remove), (2, 5, Remove)]), Verdict::Violation(2));
}

#[test]
fn lengths_follow_writes_appends_and_truncates() {
    use LengthOp::{Append, AtLeast, AtMost, Is, Truncate, Write};
    let length = |ops: &[(u64, u64, LengthOp)]| check(&Length, &0, &history(ops));
    assert_eq!(
        length(&[
            (0, 1, Write { begin: 0, end: 10 }),
            (2, 3, Write { begin: 0, end: 5 }),
            (4, 5, Is(10))
        ]),
        Verdict::Fits
    );
    let two = [(0, 1, Append { bytes: 4, at: Some(0) }), (2, 3, Append { bytes: 4, at: Some(4) })];
    assert_eq!(length(&two), Verdict::Fits);
    let over = [(0, 1, Append { bytes: 4, at: Some(0) }), (2, 3, Append { bytes: 4, at: Some(0) })];
    assert_eq!(length(&over), Verdict::Violation(1), "the second lies over the first");
    assert_eq!(
        length(&[(0, 9, Append { bytes: 4, at: None }), (1, 2, Is(4)), (3, 4, Is(0))]),
        Verdict::Violation(2)
    );
    assert_eq!(
        length(&[(0, 1, Write { begin: 0, end: 10 }), (2, 3, Truncate(3)), (4, 5, AtLeast(4))]),
        Verdict::Violation(2)
    );
    assert_eq!(
        length(&[
            (0, 1, Write { begin: 0, end: 10 }),
            (2, 9, Truncate(3)),
            (4, 5, AtLeast(4)),
            (6, 7, AtMost(4))
        ]),
        Verdict::Fits
    );
    // Across a page boundary a write is seen in two steps, an append too, but nothing gets between
    // its parts.
    let across = Write { begin: 4000, end: 5000 };
    assert_eq!(length(&[(0, 9, across), (1, 2, Is(4096)), (3, 4, Is(5000))]), Verdict::Fits);
    assert_eq!(length(&[(0, 9, across), (1, 2, Is(4500))]), Verdict::Violation(1));
    let append = |at| Append { bytes: 1000, at };
    assert_eq!(
        length(&[(0, 1, Truncate(4000)), (2, 9, append(None)), (3, 4, Is(4096))]),
        Verdict::Fits
    );
    let between = [
        (0, 1, Truncate(4000)),
        (2, 9, append(Some(4000))),
        (3, 4, Is(4096)),
        (5, 6, append(Some(4096))),
    ];
    assert_eq!(length(&between), Verdict::Violation(1));
}

#[test]
fn many_under_way_at_once_are_searched() {
    let mut ops: Vec<_> = (1..=10).map(|n| (0, 100, Set(n))).collect();
    ops.extend((1..=10).rev().map(|n| (101, 200, Is(n))));
    assert_eq!(register(&ops), Verdict::Violation(11), "only one of them was the last");
    let reads: Vec<_> = (1..=10).map(|n| (n * 2, n * 2 + 1, Is(n))).collect();
    let writes: Vec<_> = (1..=10).map(|n| (0, 100, Set(n))).collect();
    assert_eq!(register(&[writes, reads].concat()), Verdict::Fits);
}

/// Tries every order.
fn brute<M: Model>(
    model: &M,
    state: &M::State,
    ops: &[Timed<M::Op>],
    left: &[(usize, Phase)],
) -> bool {
    if left.is_empty() {
        return true;
    }
    // No operation may come after one that began later than it returned.
    let first_return = left.iter().map(|(at, _)| ops[*at].end).min().expect("not empty");
    left.iter().filter(|(at, _)| ops[*at].begin <= first_return).any(|(at, phase)| {
        let mut steps = Vec::new();
        model.steps(&ops[*at].op, *phase, state, &mut steps);
        steps.into_iter().any(|(state, phase)| {
            let rest = left.iter().copied().filter(|(other, _)| other != at);
            let same = (phase != DONE).then_some((*at, phase));
            brute(model, &state, ops, &rest.chain(same).collect::<Vec<_>>())
        })
    })
}

/// True if any order explains it.
fn explained<M: Model>(model: &M, state: &M::State, ops: &[Timed<M::Op>]) -> bool {
    let all: Vec<(usize, Phase)> = (0..ops.len()).map(|at| (at, START)).collect();
    brute(model, state, ops, &all)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn the_search_agrees_with_every_order(
        ops in prop::collection::vec((0_u64..12, 0_u64..6, 0_u8..8, 0_u64..3), 1..7),
    ) {
        let op = |kind: u8, value: u64| match kind {
            0..3 => Set(value),
            3 => Remove,
            4 => Is(ABSENT),
            _ => Is(value),
        };
        let ops: Vec<_> = ops.into_iter().map(|(begin, took, kind, value)| (begin, begin + took, op(kind, value))).collect();
        let ops = history(&ops);
        prop_assert_eq!(check(&Register, &0, &ops) == Verdict::Fits, explained(&Register, &0, &ops));
    }

    #[test]
    fn the_search_for_names_agrees_with_every_order(
        ops in prop::collection::vec((0_u64..12, 0_u64..6, 0_u8..12, 0_u8..3, 0_u8..3, 1_u64..3), 1..6),
    ) {
        let ops: Vec<_> = ops.into_iter().enumerate().map(|(n, (begin, took, kind, name, other, ino))| {
            let (at, to) = (Place { dir: 0, name }, Place { dir: 0, name: other });
            let op = match kind {
                0..3 => NameOp::MakeDir(at, n as u64),
                3 => NameOp::Make(at, 10 + n as u64),
                4 => NameOp::RemoveDir(at),
                5 | 6 => NameOp::Rename(at, to),
                7 | 8 => NameOp::Is(at, Seen::Dir(ino)),
                9 => NameOp::Is(at, Seen::Nothing),
                10 => NameOp::Alive { dir: ino },
                _ => NameOp::Gone { dir: ino },
            };
            (begin, begin + took, op)
        }).collect();
        let ops = history(&ops);
        prop_assert_eq!(check(&Names, &Tree::default(), &ops) == Verdict::Fits, explained(&Names, &Tree::default(), &ops));
    }
}
