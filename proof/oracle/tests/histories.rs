//! Whole histories made by hand: good ones pass, each broken one is caught in the object that shows
//! it.

use oracle::check::{Findings, check_history};
use oracle::history::{Action, Answer, Attributes, Cell, Entry, Place, Record, SLOT, Times};

const A: Place = Place { dir: 0, name: 0 };
const B: Place = Place { dir: 0, name: 1 };
const C: Place = Place { dir: 1, name: 0 };

fn at(begin: u64, end: u64, action: Action, answer: Answer) -> Record {
    Record { thread: 0, mount: 0, begin, end, action, answer }
}

/// Operations one after the other.
fn row(steps: &[(Action, Answer)]) -> Vec<Record> {
    let step = |(n, (action, answer)): (usize, &(Action, Answer))| {
        at(n as u64 * 10, n as u64 * 10 + 5, action.clone(), answer.clone())
    };
    steps.iter().enumerate().map(step).collect()
}

fn create(at: Place, ino: u64) -> (Action, Answer) {
    (Action::Create { at, exclusive: true }, Answer::Inode(ino))
}

fn stat(at: Place, ino: u64, size: u64, links: u32) -> (Action, Answer) {
    let attributes =
        Attributes { ino, dir: false, mode: 0o644, size, links, times: Times::default() };
    (Action::Stat { at }, Answer::Attributes(attributes))
}

fn missing(at: Place) -> (Action, Answer) {
    (Action::Stat { at }, Answer::Failed(libc::ENOENT))
}

fn rename(from: Place, to: Place) -> (Action, Answer) {
    (Action::Rename { from, to }, Answer::Done)
}

fn read(ino: u64, cells: Vec<Cell>) -> (Action, Answer) {
    let bytes = cells.len() as u64 * 512;
    (Action::Read { ino, slot: 0, slots: 4 }, Answer::Cells { bytes, cells })
}

fn written(id: u64, part: u64) -> Cell {
    Cell::Written { id, part }
}

fn good(records: &[Record]) {
    let Findings { violations, undecided, .. } = check_history(records, true);
    let texts: Vec<String> = violations.iter().map(|v| v.text(records)).collect();
    assert!(texts.is_empty() && undecided.is_empty(), "{texts:?} {undecided:?}");
}

/// The object in which the first violation was found, and its text.
fn bad(records: &[Record]) -> (String, String) {
    let findings = check_history(records, true);
    let violation = findings.violations.first().expect("a violation");
    (violation.object.clone(), violation.text(records))
}

#[test]
fn a_life_of_names_passes() {
    good(&row(&[
        missing(A),
        create(A, 1),
        stat(A, 1, 0, 1),
        (Action::Link { from: A, to: C }, Answer::Done),
        stat(C, 1, 0, 2),
        rename(A, B),
        missing(A),
        stat(B, 1, 0, 2),
        create(A, 2),
        rename(A, B),
        stat(B, 2, 0, 1),
        stat(C, 1, 0, 1),
        (Action::List { dir: 0 }, Answer::Entries(vec![Entry { name: 1, ino: 2, dir: false }])),
        // Both names lead to one file: nothing happens.
        (Action::Link { from: B, to: A }, Answer::Done),
        rename(A, B),
        stat(A, 2, 0, 2),
        (Action::Unlink { at: A }, Answer::Done),
        (Action::Unlink { at: A }, Answer::Failed(libc::ENOENT)),
    ]));
}

#[test]
fn a_life_of_directories_passes() {
    let dir = |at, ino| {
        let attributes =
            Attributes { ino, dir: true, mode: 0o755, size: 0, links: 2, times: Times::default() };
        (Action::Stat { at }, Answer::Attributes(attributes))
    };
    good(&row(&[
        (Action::Mkdir { at: A }, Answer::Done),
        (Action::Mkdir { at: A }, Answer::Failed(libc::EEXIST)),
        rename(A, C),
        dir(C, 7),
        (Action::MakeIn { dir: 7 }, Answer::Inode(8)),
        (Action::Rmdir { at: C }, Answer::Failed(libc::ENOTEMPTY)),
        (Action::MakeIn { dir: 7 }, Answer::Failed(libc::EEXIST)),
        (Action::UnlinkIn { dir: 7 }, Answer::Done),
        (Action::Rmdir { at: C }, Answer::Done),
        (Action::MakeIn { dir: 7 }, Answer::Failed(libc::ENOENT)),
        create(C, 9),
        (Action::Rmdir { at: C }, Answer::Failed(libc::ENOTDIR)),
    ]));
    let removed_full = row(&[
        (Action::Mkdir { at: A }, Answer::Done),
        dir(A, 7),
        (Action::MakeIn { dir: 7 }, Answer::Inode(8)),
        (Action::Rmdir { at: A }, Answer::Done),
    ]);
    assert_eq!(bad(&removed_full).0, "names");
    let two_for_one = row(&[(Action::Mkdir { at: A }, Answer::Done), dir(A, 7), dir(A, 8)]);
    assert_eq!(bad(&two_for_one).0, "names");
}

#[test]
fn an_old_name_is_caught_and_told_in_words() {
    let (object, text) = bad(&row(&[create(A, 1), missing(A)]));
    assert_eq!(object, "names");
    assert!(text.contains("creates d0/n0") && text.contains(" > 0.0"), "{text}");
    let kept = row(&[create(A, 1), (Action::Unlink { at: A }, Answer::Done), stat(A, 1, 0, 1)]);
    assert_eq!(bad(&kept).0, "names");
}

#[test]
fn half_a_rename_is_caught() {
    // Both names at one moment: first the new one is there, then the old one still is.
    let mut records = row(&[create(A, 1)]);
    records.push(at(10, 100, Action::Rename { from: A, to: C }, Answer::Done));
    records.push(at(20, 30, stat(C, 1, 0, 1).0, stat(C, 1, 0, 1).1));
    good(&records);
    records.push(at(40, 50, stat(A, 1, 0, 1).0, stat(A, 1, 0, 1).1));
    assert_eq!(bad(&records).0, "names");
    // Neither name.
    let mut records = row(&[create(A, 1)]);
    records.push(at(10, 100, Action::Rename { from: A, to: C }, Answer::Done));
    records.push(at(20, 30, missing(A).0, missing(A).1));
    good(&records);
    records.push(at(40, 50, missing(C).0, missing(C).1));
    assert_eq!(bad(&records).0, "names");
}

#[test]
fn two_exclusive_creates_of_one_name_are_caught() {
    let both =
        [at(0, 10, create(A, 1).0, create(A, 1).1), at(0, 10, create(A, 2).0, create(A, 2).1)];
    assert_eq!(bad(&both).0, "names");
}

#[test]
fn a_wrong_link_count_is_caught() {
    let records =
        row(&[create(A, 1), (Action::Link { from: A, to: B }, Answer::Done), stat(A, 1, 0, 1)]);
    assert_eq!(bad(&records).0, "names");
}

#[test]
fn a_life_of_data_passes() {
    good(&row(&[
        create(A, 1),
        (Action::Write { ino: 1, slot: 0, slots: 2, id: 5 }, Answer::Done),
        read(1, vec![written(5, 0), written(5, 1)]),
        (Action::Append { ino: 1, slots: 1, id: 6 }, Answer::Done),
        read(1, vec![written(5, 0), written(5, 1), written(6, 0)]),
        (Action::Truncate { ino: 1, slots: 1 }, Answer::Done),
        (Action::Write { ino: 1, slot: 2, slots: 1, id: 7 }, Answer::Done),
        read(1, vec![written(5, 0), Cell::Zero, written(7, 0)]),
        stat(A, 1, 3 * 512, 1),
        (Action::Fsync { ino: 1 }, Answer::Done),
        (Action::Close { ino: 1 }, Answer::Done),
    ]));
}

#[test]
fn old_data_is_caught() {
    let write = |id| (Action::Write { ino: 1, slot: 0, slots: 1, id }, Answer::Done);
    let old = row(&[create(A, 1), write(5), write(6), read(1, vec![written(5, 0)])]);
    assert_eq!(bad(&old).0, "data of 0x1, slot 0");
    let lost = row(&[create(A, 1), write(5), read(1, vec![Cell::Zero])]);
    assert_eq!(bad(&lost).0, "data of 0x1, slot 0");
    let short = row(&[create(A, 1), write(5), read(1, vec![])]);
    assert_eq!(bad(&short).0, "length of 0x1");
    let risen = row(&[
        create(A, 1),
        write(5),
        (Action::Truncate { ino: 1, slots: 0 }, Answer::Done),
        (Action::Truncate { ino: 1, slots: 1 }, Answer::Done),
        read(1, vec![written(5, 0)]),
    ]);
    assert_eq!(bad(&risen).0, "data of 0x1, slot 0");
}

#[test]
fn torn_and_foreign_data_is_caught() {
    let append = |id| (Action::Append { ino: 1, slots: 2, id }, Answer::Done);
    let interleaved = row(&[
        create(A, 1),
        append(5),
        append(6),
        read(1, vec![written(5, 0), written(6, 0), written(5, 1)]),
    ]);
    assert!(bad(&interleaved).1.contains("was seen to begin in slot"));
    let foreign = row(&[create(A, 1), append(5), read(1, vec![Cell::Garbage([1; 8])])]);
    assert!(bad(&foreign).1.contains("nobody wrote"));
    let over =
        row(&[create(A, 1), append(5), append(6), read(1, vec![written(6, 0), written(6, 1)])]);
    assert_eq!(bad(&over).0, "length of 0x1");
}

#[test]
fn zeros_behind_the_end_pass_beside_an_append_of_the_same_kernel_only() {
    let zeros = |mount, cells| {
        let append = at(100, 200, Action::Append { ino: 1, slots: 1, id: 6 }, Answer::Done);
        let (action, answer) = read(1, cells);
        let mut records = row(&[
            create(A, 1),
            (Action::Write { ino: 1, slot: 0, slots: 1, id: 5 }, Answer::Done),
        ]);
        records.extend([append, Record { mount, ..at(150, 160, action, answer) }]);
        records
    };
    good(&zeros(0, vec![written(5, 0), written(6, 0), Cell::Zero, Cell::Zero]));
    assert_eq!(bad(&zeros(1, vec![written(5, 0), written(6, 0), Cell::Zero])).0, "length of 0x1");
    assert_eq!(
        bad(&zeros(0, vec![Cell::Zero, written(6, 0), Cell::Zero])).0,
        "data of 0x1, slot 0"
    );
}

#[test]
fn old_attributes_are_caught() {
    let mode = |mode| (Action::Chmod { ino: 1, mode }, Answer::Done);
    assert_eq!(bad(&row(&[create(A, 1), mode(0o600), stat(A, 1, 0, 1)])).0, "mode of 0x1");
    let set = |value| (Action::Setxattr { ino: 1, which: 0, value }, Answer::Done);
    let get = |value| (Action::Getxattr { ino: 1, which: 0 }, Answer::Value(value));
    good(&row(&[create(A, 1), get(None), set(5), get(Some(5)), set(6), get(Some(6))]));
    assert_eq!(bad(&row(&[create(A, 1), set(5), get(None)])).0, "user.x0 of 0x1");
    assert_eq!(bad(&row(&[create(A, 1), set(5), set(6), get(Some(5))])).0, "user.x0 of 0x1");
}

#[test]
fn errors_that_fit_nothing_are_caught() {
    let (object, text) = bad(&row(&[(Action::Open { at: A }, Answer::Failed(libc::EIO))]));
    assert_eq!(object, "one answer");
    assert!(text.contains("Input/output error"), "{text}");
    let short = row(&[
        create(A, 1),
        (Action::Write { ino: 1, slot: 0, slots: 2, id: 5 }, Answer::Short(512)),
    ]);
    assert_eq!(bad(&short).0, "one answer");
}

#[test]
fn the_window_leaves_out_what_does_not_matter() {
    let mut steps = vec![create(A, 1)];
    for id in 1..200 {
        steps.push((Action::Write { ino: 1, slot: 0, slots: 1, id }, Answer::Done));
        steps.push(read(1, vec![written(id, 0)]));
    }
    steps.push(read(1, vec![written(77, 0)]));
    let records = row(&steps);
    let findings = check_history(&records, true);
    assert_eq!(findings.violations.len(), 1);
    assert!(findings.violations[0].window.len() <= 4, "{}", findings.violations[0].text(&records));
}

/// Nanoseconds of a millisecond.
const MS: i64 = 1_000_000;

/// Mount 0 makes a file, reads it and changes it. Mount 1 reads it two seconds later, and a mount
/// looks at it.
fn accessed(looker: u16, later: i64, access: i64) -> Vec<Record> {
    let on = |mount, begin: i64, (action, answer)| Record {
        mount,
        ..at((begin * MS) as u64, ((begin + 1) * MS) as u64, action, answer)
    };
    let times = Times { access: access * MS, change: 2000 * MS };
    let attributes = Attributes { ino: 1, dir: false, mode: 0o644, size: 512, links: 1, times };
    vec![
        on(0, 0, create(A, 1)),
        on(0, 1000, (Action::Write { ino: 1, slot: 0, slots: 1, id: 5 }, Answer::Done)),
        on(0, 1500, read(1, vec![written(5, 0)])),
        on(0, 2000, (Action::Write { ino: 1, slot: 0, slots: 1, id: 6 }, Answer::Done)),
        on(1, 4000, read(1, vec![written(6, 0)])),
        on(looker, 4001 + later, (Action::Stat { at: A }, Answer::Attributes(attributes))),
    ]
}

#[test]
fn access_times_follow_reads() {
    // The reader's own mount shows it at once, another one a moment later.
    good(&accessed(1, 1, 4000));
    good(&accessed(0, 1, 1500));
    good(&accessed(0, 5000, 4001));
    for wrong in [accessed(1, 1, 1500), accessed(0, 5000, 1500)] {
        let (object, text) = bad(&wrong);
        assert_eq!(object, "access time");
        assert!(text.contains("older than its last change"), "{text}");
    }
    // What was asked for before the file was opened may be taken in after it was read.
    let beside = |begin| {
        let mut records = accessed(1, 10, 1500);
        let ms = |ms: i64| (ms * MS) as u64;
        let on = |begin, end, action, answer| Record {
            mount: 1,
            ..at(ms(begin), ms(end), action, answer)
        };
        records.insert(4, on(3000, 3001, Action::Open { at: A }, Answer::Inode(1)));
        let slow = on(begin, 4005, Action::OpenDir { at: A }, Answer::Failed(libc::ENOTDIR));
        records.insert(if begin < 3000 { 4 } else { 5 }, slow);
        records
    };
    good(&beside(2900));
    assert_eq!(bad(&beside(3500)).0, "access time", "it was open by then");
    // Where mounts report no opens, what was asked for before the read was over.
    let without_opens = |records: &[Record]| check_history(records, false).violations.len();
    assert_eq!(without_opens(&beside(3500)), 0);
    assert_eq!(without_opens(&accessed(1, 1, 1500)), 1);
    // Moved by something that read nothing: the write, the stat.
    for wrong in [accessed(0, 1, 2600), accessed(0, 7000, 11_000), accessed(1, 1, 9000)] {
        let (object, text) = bad(&wrong);
        assert_eq!(object, "access time");
        assert!(text.contains("nothing read the file"), "{text}");
    }
}

#[test]
fn an_open_directory_outlives_its_name_and_no_more() {
    let shows = |links, mode| {
        let attributes =
            Attributes { ino: 7, dir: true, mode, size: 0, links, times: Times::default() };
        (Action::Fstat { ino: 7 }, Answer::Attributes(attributes))
    };
    let listing =
        |entries: &[Entry]| (Action::ListIn { dir: 7 }, Answer::Entries(entries.to_vec()));
    let inside = Entry { name: 0, ino: 8, dir: false };
    let mode = |mode| (Action::ChmodRemoved { ino: 7, mode }, Answer::Done);
    let open =
        [(Action::Mkdir { at: A }, Answer::Done), (Action::OpenDir { at: A }, Answer::Inode(7))];
    let removed = [(Action::Rmdir { at: A }, Answer::Done)];
    let with = |before: &[(Action, Answer)], after: &[(Action, Answer)]| {
        row(&[&open[..], before, &removed[..], after].concat())
    };
    let make = (Action::MakeIn { dir: 7 }, Answer::Inode(8));
    let unlink = (Action::UnlinkIn { dir: 7 }, Answer::Done);
    good(&with(
        &[shows(2, 0o755), listing(&[]), make.clone(), listing(&[inside]), unlink.clone()],
        &[
            shows(0, 0o755),
            listing(&[]),
            mode(0o700),
            shows(0, 0o700),
            mode(0o711),
            shows(0, 0o711),
        ],
    ));
    assert_eq!(bad(&with(&[shows(0, 0o755)], &[])).0, "names", "no link, and it has a name");
    assert_eq!(bad(&with(&[], &[shows(2, 0o755)])).0, "names", "links, and it has no name");
    assert_eq!(bad(&with(&[listing(&[inside])], &[])).0, "names", "what is not there is listed");
    assert_eq!(
        bad(&with(&[make.clone(), listing(&[]), unlink.clone()], &[])).0,
        "names",
        "what is there is not"
    );
    assert_eq!(
        bad(&with(&[make, unlink], &[listing(&[inside])])).0,
        "names",
        "listed in what is removed"
    );
    for dead in [Action::MakeIn { dir: 7 }, Action::ListIn { dir: 7 }] {
        let dead = [(dead, Answer::Failed(libc::ENOENT))];
        good(&with(&[], &dead));
        assert_eq!(bad(&with(&dead, &[])).0, "names", "it has its name");
    }
    let old_mode = with(&[], &[shows(0, 0o755), mode(0o700), mode(0o711), shows(0, 0o700)]);
    assert_eq!(bad(&old_mode).0, "mode of the removed directory 0x7 on mount 0");
    for gone in [
        Action::Fstat { ino: 7 },
        Action::ListIn { dir: 7 },
        Action::ChmodRemoved { ino: 7, mode: 0o700 },
    ] {
        let stale = with(&[], &[(gone, Answer::Failed(libc::ESTALE))]);
        assert_eq!(bad(&stale).0, "one answer");
    }
}

#[test]
fn an_open_beside_a_rename_may_see_either_directory() {
    let stat =
        Attributes { ino: 7, dir: true, mode: 0o755, size: 0, links: 2, times: Times::default() };
    let made = |begin, place| at(begin, begin + 5, Action::Mkdir { at: place }, Answer::Done);
    let moved = at(30, 35, Action::Rename { from: C, to: A }, Answer::Done);
    let shown = at(60, 61, Action::Fstat { ino: 7 }, Answer::Attributes(stat));
    let opened = |end| at(25, end, Action::OpenDir { at: A }, Answer::Inode(7));
    let left = at(50, 51, Action::Stat { at: C }, Answer::Failed(libc::ENOENT));
    good(&[made(0, A), made(10, C), opened(40), moved.clone(), left.clone(), shown.clone()]);
    let (object, text) = bad(&[made(0, A), made(10, C), opened(29), moved, left, shown]);
    assert_eq!(object, "names", "the open was over before the rename began");
    assert!(text.contains("renames d1/n0 to d0/n0"), "{text}");
}

#[test]
fn without_opens_a_file_may_be_stale_once_it_has_no_name() {
    let stale = (Action::Read { ino: 1, slot: 0, slots: 1 }, Answer::Failed(libc::ESTALE));
    let unlink = (Action::Unlink { at: A }, Answer::Done);
    let (named, removed) =
        (row(&[create(A, 1), stale.clone()]), row(&[create(A, 1), unlink, stale]));
    let found = |records: &[Record], opens_told| {
        let violations = check_history(records, opens_told).violations;
        violations.into_iter().map(|violation| violation.object).collect::<Vec<_>>()
    };
    assert_eq!(found(&removed, true), ["one answer"]);
    assert_eq!(found(&removed, false), [""; 0]);
    assert_eq!(found(&named, false), ["names"], "it has its name");
}

#[test]
fn without_opens_an_append_lies_in_several_places_and_a_read_ends_where_the_file_ended() {
    let append = |id| (Action::Append { ino: 1, slots: 2, id }, Answer::Done);
    let objects = |records: &[Record], opens_told| {
        let violations = check_history(records, opens_told).violations;
        violations.into_iter().map(|violation| violation.object).collect::<Vec<_>>()
    };
    // Slots 0 to 8: the first append crosses the end of a page, and the second lies in between.
    let write = (Action::Write { ino: 1, slot: 0, slots: 7, id: 4 }, Answer::Done);
    let cells: Vec<Cell> = (0..7).map(|part| written(4, part)).collect();
    let mut shown = cells.clone();
    shown.extend([written(5, 0), written(6, 0), written(6, 1), written(5, 1)]);
    let (action, answer) = read(1, shown);
    let mut torn = row(&[create(A, 1), write.clone()]);
    torn.extend([
        at(100, 200, append(5).0, Answer::Done),
        at(100, 200, append(6).0, Answer::Done),
        at(300, 310, action, answer),
    ]);
    torn[4].action = Action::Read { ino: 1, slot: 0, slots: 11 };
    assert_eq!(objects(&torn, true)[0], "one answer");
    assert_eq!(objects(&torn, false), [""; 0]);

    let short = |later: u64| {
        let (action, answer) = read(1, cells[..2].to_vec());
        let mut records = row(&[create(A, 1), write.clone()]);
        records.push(Record { mount: 1, ..at(later, later + 10, action, answer) });
        records
    };
    assert_eq!(objects(&short(100), true), ["length of 0x1"]);
    assert_eq!(objects(&short(100), false), [""; 0]);
    assert_eq!(objects(&short(2_000_000_000), false), ["length of 0x1"], "much later");

    // The file was cut through another mount, and the reader's kernel reads up to the former end.
    let long = |later: u64| {
        let mut shown = cells[..2].to_vec();
        shown.extend([Cell::Zero, Cell::Zero]);
        let (action, answer) = read(1, shown);
        let mut records = row(&[create(A, 1), write.clone()]);
        records.push(at(90, 95, Action::Truncate { ino: 1, slots: 2 }, Answer::Done));
        records.push(Record { mount: 1, ..at(later, later + 10, action, answer) });
        records
    };
    assert_eq!(objects(&long(100), true), ["length of 0x1"]);
    assert_eq!(objects(&long(100), false), [""; 0]);
    assert_eq!(objects(&long(2_000_000_000), false), ["length of 0x1"], "much later");
}

#[test]
fn without_opens_an_append_that_waits_is_seen_where_its_kernel_puts_it() {
    let write = (Action::Write { ino: 1, slot: 0, slots: 1, id: 4 }, Answer::Done);
    let mut records = row(&[create(A, 1), write]);
    // The kernel puts it behind one slot. Another mount makes the file longer before its turn.
    let longer = at(110, 120, Action::Truncate { ino: 1, slots: 3 }, Answer::Done);
    let (first, _) = read(1, vec![written(4, 0), written(5, 0)]);
    let early = |mount| {
        let cells = vec![written(4, 0), written(5, 0)];
        let answer = Answer::Cells { bytes: 2 * SLOT, cells };
        Record { mount, ..at(130, 140, first.clone(), answer) }
    };
    let (action, answer) = read(1, vec![written(4, 0), Cell::Zero, Cell::Zero, written(5, 0)]);
    records.push(at(100, 200, Action::Append { ino: 1, slots: 1, id: 5 }, Answer::Done));
    records.push(Record { mount: 1, ..longer });
    let last = at(2_000_000_000, 2_000_000_010, action, answer);
    let objects = |early: Record, opens_told| {
        let mut records = records.clone();
        records.extend([early, last.clone()]);
        let violations = check_history(&records, opens_told).violations;
        violations.into_iter().map(|violation| violation.object).collect::<Vec<_>>()
    };
    assert_eq!(objects(early(0), false), [""; 0]);
    assert_eq!(objects(early(0), true)[0], "one answer");
    assert_eq!(objects(early(1), false)[0], "one answer", "through another mount");
}

#[test]
fn zeros_show_beside_a_truncate_of_the_same_mount_only() {
    let cells: Vec<Cell> = (0..4).map(|part| written(4, part)).collect();
    let write = (Action::Write { ino: 1, slot: 0, slots: 4, id: 4 }, Answer::Done);
    let seen = |mount, begin| {
        let mut shown = cells[..2].to_vec();
        shown.extend([Cell::Zero, Cell::Zero]);
        let (action, answer) = read(1, shown);
        let mut records = row(&[create(A, 1), write.clone()]);
        records.push(at(90, 110, Action::Truncate { ino: 1, slots: 2 }, Answer::Done));
        let (look, shorter) = stat(A, 1, 2 * 512, 1);
        records.push(Record { mount: 1, ..at(95, 100, look, shorter) });
        records.push(Record { mount, ..at(begin, begin + 10, action, answer) });
        records
    };
    good(&seen(0, 105));
    assert_eq!(bad(&seen(1, 105)).0, "length of 0x1");
    assert_eq!(bad(&seen(0, 111)).0, "length of 0x1");
}

#[test]
fn what_is_cut_shows_beside_a_truncate_of_the_same_mount_only() {
    let cells: Vec<Cell> = (0..4).map(|part| written(4, part)).collect();
    let write = (Action::Write { ino: 1, slot: 0, slots: 4, id: 4 }, Answer::Done);
    let seen = |mount, begin| {
        let (action, answer) = read(1, cells.clone());
        let mut records = row(&[create(A, 1), write.clone()]);
        records.push(at(90, 110, Action::Truncate { ino: 1, slots: 2 }, Answer::Done));
        let (look, shorter) = stat(A, 1, 2 * 512, 1);
        records.push(at(95, 100, look, shorter));
        records.push(Record { mount, ..at(begin, begin + 10, action, answer) });
        records
    };
    good(&seen(0, 105));
    assert_eq!(bad(&seen(1, 105)).0, "length of 0x1");
    assert_eq!(bad(&seen(0, 111)).0, "length of 0x1");
}

#[test]
fn a_link_is_not_refused_beside_a_removal_of_another_mount() {
    let unlinked =
        |mount, place| Record { mount, ..at(15, 25, Action::Unlink { at: place }, Answer::Done) };
    let refused = at(20, 30, Action::Link { from: A, to: C }, Answer::Failed(libc::ENOENT));
    let made = |begin, place, ino| {
        at(begin, begin + 2, Action::Create { at: place, exclusive: true }, Answer::Inode(ino))
    };
    let with = |unlinked| [made(0, A, 1), made(5, B, 2), unlinked, refused.clone()];
    good(&with(unlinked(0, A)));
    good(&with(unlinked(0, B)));
    assert_eq!(bad(&with(unlinked(1, B))).0, "names");
}

#[test]
fn a_write_of_a_child_counts_and_its_end_closes_nothing() {
    // What a process writes through a descriptor that it inherited is a write as any other.
    let child = (Action::Write { ino: 1, slot: 0, slots: 1, id: 5 }, Answer::Done);
    let closed = (Action::Close { ino: 1 }, Answer::Done);
    good(&row(&[create(A, 1), child.clone(), closed.clone(), read(1, vec![written(5, 0)])]));
    assert_eq!(
        bad(&row(&[create(A, 1), child, read(1, vec![Cell::Zero])])).0,
        "data of 0x1, slot 0"
    );
    // The open file goes on when a copy of it is closed: a lock that another one gets then was
    // dropped too early.
    let took = |open| (Action::Lock { ino: 1, open }, Answer::Done);
    let refused = (Action::Lock { ino: 1, open: 2 }, Answer::Failed(libc::EAGAIN));
    good(&row(&[create(A, 1), took(1), closed.clone(), refused]));
    assert_eq!(bad(&row(&[create(A, 1), took(1), closed.clone(), took(2)])).0, "OFD lock of 0x1");
    let after = row(&[
        create(A, 1),
        closed,
        (Action::Read { ino: 1, slot: 0, slots: 1 }, Answer::Failed(libc::EBADF)),
    ]);
    assert_eq!(bad(&after).0, "one answer");
}
