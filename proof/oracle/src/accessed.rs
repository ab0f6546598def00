//! Access times of files, by the rule of `relatime`.
//!
//! They are no object with an order of its own: mounts tell accesses late, and reads that a kernel
//! answers from its pages may not be told at all. What holds of every stat nevertheless:
//!
//! - The access time is a moment at which a program may have read: while a read or an open was
//!   under way, or when the file was made. It is not in the future.
//! - A file that was read since its last change has an access time that is not older than this
//!   change. The reader's own mount shows that at once, others within [`LATE`]. This is asked where
//!   a read must have reached the file system: of bytes that another mount has just written. Linux
//!   may take in attributes late that it asked for before the file was opened to read, and trust
//!   them (docs/locks/kernel.md, R42): a read within such an operation of its mount asks nothing.
//!   Where mounts report no opens, so may every answer that it asked for before the read was over:
//!   then a read beside an operation of its mount that may ask for attributes asks nothing.

use crate::history::{Action, Answer, Attributes, Record, SLOT};
use crate::split::{Spans, Wrong};
use std::collections::BTreeMap;
use std::time::Duration;

/// Other mounts show an access after so long at the latest.
pub const LATE: Duration = Duration::from_secs(4);
/// The clock of access times, and reading ahead, may differ from when a program read by so much.
const GRAIN: Duration = Duration::from_millis(500);

fn nanos(time: Duration) -> i64 {
    time.as_nanos() as i64
}

/// What was done to one file.
#[derive(Default)]
struct File<'a> {
    /// When a program may have read it.
    accesses: Vec<(i64, i64)>,
    /// What changes its ctime, but for what is done to names.
    changes: Vec<&'a Record>,
    reads: Vec<&'a Record>,
    opens: Vec<&'a Record>,
    looks: Vec<(usize, &'a Record, Attributes)>,
}

/// Operations beside which a read asks nothing.
enum Beside {
    /// Mounts report opens: those that began before the file was opened, and ended after the read.
    Open(Spans),
    /// They do not: those that may ask for attributes, and were not over before the read.
    Read(Spans),
}

/// Access times that fit no read. `opens_told` as in [`split`](crate::split::split).
pub fn check(records: &[Record], opens_told: bool) -> Vec<Wrong> {
    let mut files = BTreeMap::<u64, File<'_>>::new();
    let mut naming = Vec::new();
    let mut all = Spans::default();
    for (at, record) in records.iter().enumerate() {
        if opens_told || may_ask_for_attributes(&record.action) {
            all.add(record);
        }
        let within = (record.begin as i64, record.end as i64);
        match (&record.action, &record.answer) {
            (
                Action::Create { .. } | Action::Open { .. } | Action::MakeIn { .. },
                Answer::Inode(ino),
            ) => {
                let file = files.entry(*ino).or_default();
                file.accesses.push(within);
                file.opens.push(record);
            }
            // Also at the end of a file.
            (Action::Read { ino, .. }, Answer::Cells { .. }) => {
                let file = files.entry(*ino).or_default();
                file.accesses.push(within);
                file.reads.push(record);
            }
            (
                Action::Write { ino, .. }
                | Action::Append { ino, .. }
                | Action::Truncate { ino, .. }
                | Action::Chmod { ino, .. }
                | Action::Setxattr { ino, .. }
                | Action::Removexattr { ino, .. },
                _,
            ) => files.entry(*ino).or_default().changes.push(record),
            (
                Action::Unlink { .. }
                | Action::UnlinkIn { .. }
                | Action::Rename { .. }
                | Action::Link { .. },
                Answer::Done,
            ) => naming.push(within),
            (Action::Stat { .. } | Action::Fstat { .. }, Answer::Attributes(found))
                if !found.dir =>
            {
                files.entry(found.ino).or_default().looks.push((at, record, *found));
            }
            _ => {}
        }
    }
    let beside = if opens_told { Beside::Open(all) } else { Beside::Read(all) };
    let wrong = files
        .values()
        .flat_map(|file| file.looks.iter().filter_map(|look| file.judge(look, &naming, &beside)));
    wrong.collect()
}

fn may_ask_for_attributes(action: &Action) -> bool {
    !matches!(
        action,
        Action::Read { .. } | Action::Write { .. } | Action::Append { .. } | Action::Close { .. }
    )
}

impl File<'_> {
    fn judge(
        &self,
        (at, look, found): &(usize, &Record, Attributes),
        naming: &[(i64, i64)],
        beside: &Beside,
    ) -> Option<Wrong> {
        let wrong = |why: String| Some(Wrong { record: *at, why });
        let accessed = found.times.access;
        let explains = |(begin, end): &(i64, i64)| {
            (begin - nanos(GRAIN)..=end + nanos(GRAIN)).contains(&accessed)
        };
        if accessed > look.end as i64 + nanos(GRAIN) || !self.accesses.iter().any(explains) {
            return wrong(format!(
                "nothing read the file at its access time, {} us",
                accessed / 1000
            ));
        }
        let read = self.read_before(look, naming, beside)?;
        if accessed >= found.times.change {
            return None;
        }
        wrong(format!(
            "mount {} read the file at {} us, and its access time {} us is older than its last change at {} us",
            read.mount,
            read.begin / 1000,
            accessed / 1000,
            found.times.change / 1000
        ))
    }

    /// A read that the look must show: of what the last change wrote, which is of another mount.
    fn read_before(
        &self,
        look: &Record,
        naming: &[(i64, i64)],
        beside: &Beside,
    ) -> Option<&Record> {
        let last = self
            .changes
            .iter()
            .filter(|change| change.begin < look.end)
            .max_by_key(|change| change.begin)?;
        let Action::Write { slot, slots, .. } = last.action else { return None };
        let alone = self.changes.iter().all(|change| {
            std::ptr::eq(*change, *last) || change.end <= last.begin || change.begin >= look.end
        });
        let named =
            naming.iter().any(|(begin, end)| *end > last.begin as i64 && *begin < look.end as i64);
        if last.answer != Answer::Done || !alone || named {
            return None;
        }
        self.reads.iter().copied().find(|read| {
            let (Action::Read { slot: from, .. }, Answer::Cells { bytes, .. }) =
                (&read.action, &read.answer)
            else {
                return false;
            };
            let of_it = *from < slot + slots && slot < from + bytes.div_ceil(SLOT);
            let shown =
                if read.mount == look.mount { read.end } else { read.end + nanos(LATE) as u64 };
            of_it
                && read.mount != last.mount
                && last.end < read.begin
                && shown < look.begin
                && !self.is_beside(read, beside)
        })
    }

    /// True if the kernel may take in attributes after the read that were made before it.
    fn is_beside(&self, read: &Record, beside: &Beside) -> bool {
        match beside {
            Beside::Open(all) => {
                let opened = self
                    .opens
                    .iter()
                    .filter(|open| open.mount == read.mount && open.end <= read.begin);
                opened
                    .map(|open| open.end)
                    .max()
                    .is_some_and(|opened| all.reach(read.mount, opened, read.end))
            }
            Beside::Read(asking) => asking.reach(read.mount, read.end, read.begin),
        }
    }
}
