use super::*;
use crate::read_ahead::ledger::Ledger;
use std::sync::Arc;

fn range(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end)
}

fn bytes(start: u64, end: u64) -> Vec<Bytes> {
    let all: Vec<u8> = (start..end).map(|n| n as u8).collect();
    let (first, second) = all.split_at(all.len() / 3);
    vec![Bytes::copy_from_slice(first), Bytes::copy_from_slice(second)]
}

fn shown(parts: Vec<Segment>) -> Vec<String> {
    let shown = |part| match part {
        Segment::Here(data) => format!("here {:?}", data.concat()),
        Segment::Coming(range, _) => format!("coming {}..{}", range.start, range.end),
        Segment::Missing(range) => format!("missing {}..{}", range.start, range.end),
    };
    parts.into_iter().map(shown).collect()
}

struct Of {
    ledger: Arc<Ledger>,
    pieces: Pieces,
}

impl Of {
    fn new() -> Of {
        let mut pieces = Pieces::default();
        assert!(pieces.is_of(3));
        Of { ledger: Arc::default(), pieces }
    }

    fn ask(&mut self, start: u64, end: u64) -> Option<(u64, watch::Sender<()>)> {
        let charge = self.ledger.charge(end - start).unwrap();
        self.pieces.ask(range(start, end), charge)
    }

    fn put(&mut self, start: u64, end: u64) {
        let (number, _) = self.ask(start, end).unwrap();
        self.pieces.arrived(start, number, Some(bytes(start, end)));
    }
}

#[test]
fn a_read_finds_what_is_here_what_comes_and_what_is_missing() {
    let mut of = Of::new();
    of.put(10, 20);
    let (number, done) = of.ask(20, 30).unwrap();
    assert!(of.ask(29, 31).is_none() && of.ask(5, 11).is_none(), "fetched already");
    assert_eq!(
        shown(of.pieces.read(range(8, 40))),
        [
            "missing 8..10",
            "here [10, 11, 12, 13, 14, 15, 16, 17, 18, 19]",
            "coming 20..30",
            "missing 30..40"
        ]
    );
    assert_eq!(shown(of.pieces.read(range(12, 14))), ["missing 12..14"], "read to its end: gone");
    of.pieces.arrived(20, number, Some(bytes(20, 30)));
    drop(done);
    assert_eq!(shown(of.pieces.read(range(22, 24))), ["here [22, 23]"]);
    assert_eq!(shown(of.pieces.read(range(21, 25))), ["here [21, 22, 23, 24]"]);
    assert_eq!(of.ledger.used(), 10);
    of.pieces.clear();
    assert_eq!((of.ledger.used(), of.ledger.figures().0.discarded), (0, 1));
}

#[test]
fn what_comes_too_late_is_dropped() {
    let mut of = Of::new();
    let (number, _done) = of.ask(0, 4).unwrap();
    assert!(of.pieces.is_of(4), "DATA was called back and granted again");
    of.pieces.arrived(0, number, Some(bytes(0, 4)));
    assert_eq!(shown(of.pieces.read(range(0, 4))), ["missing 0..4"]);
    let (second, _done) = of.ask(0, 4).unwrap();
    of.pieces.arrived(0, number, Some(bytes(4, 8)));
    assert_eq!(shown(of.pieces.read(range(0, 4))), ["coming 0..4"], "not what was asked now");
    of.pieces.arrived(0, second, Some(bytes(0, 4)));
    assert!(!of.pieces.is_of(3), "a read from before");
    assert_eq!(shown(of.pieces.read(range(0, 4))), ["here [0, 1, 2, 3]"]);
}

#[test]
fn what_fails_or_is_short_is_missing_and_no_waste() {
    let mut of = Of::new();
    for data in [None, Some(bytes(0, 3))] {
        let (number, _done) = of.ask(0, 4).unwrap();
        of.pieces.arrived(0, number, data);
        assert_eq!(shown(of.pieces.read(range(0, 4))), ["missing 0..4"]);
    }
    assert_eq!((of.ledger.used(), of.ledger.figures().0.discarded), (0, 0));
}

#[test]
fn cover_ends_at_the_first_gap() {
    let mut of = Of::new();
    [(10, 20), (20, 30), (40, 50)].into_iter().for_each(|(start, end)| of.put(start, end));
    let to = |at| of.pieces.covered_to(at);
    assert_eq!(
        [to(5), to(10), to(15), to(30), to(39), to(45), to(60)],
        [5, 30, 30, 30, 39, 50, 60]
    );
    let from = |at| of.pieces.covered_from(at);
    assert_eq!(
        [from(5), from(30), from(25), from(35), from(50), from(60)],
        [5, 10, 10, 35, 40, 60]
    );
    assert!(of.pieces.overlaps(0, 11) && of.pieces.overlaps(29, 40) && !of.pieces.overlaps(30, 40));
}
