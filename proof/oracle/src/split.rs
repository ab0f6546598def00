//! From one history to one history for each object: all names together; of each file its length,
//! each slot, its mode, each extended attribute.
//!
//! An operation that touches several objects counts for each of them within its whole time.
//! Impossible answers (a foreign error, bytes that were never written) are found here.

use crate::history::{Action, Answer, Attributes, Cell, Entry, Record, SLOT};
use crate::length::LengthOp;
use crate::linear::Timed;
use crate::locks::LockOp;
use crate::names::{NameOp, Seen};
use crate::register::{ABSENT, RegisterOp};
use std::collections::BTreeMap;
use std::time::Duration;

/// Mode of a new file and of a new directory.
pub const MODES: [u32; 2] = [0o644, 0o755];

/// A load may miss a store through another mapping that was done no longer before
/// (docs/semantics.md).
const LATE: Duration = Duration::from_secs(1);

/// One object, except names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    Slot {
        ino: u64,
        slot: u64,
    },
    Mode {
        ino: u64,
        dir: bool,
    },
    Xattr {
        ino: u64,
        which: u8,
    },
    /// Mode of an open directory without a name. A change of it is seen on its own mount only.
    Removed {
        ino: u64,
        mount: u16,
    },
    Word(u8),
}

/// An answer that is wrong whatever others did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Number of the record.
    pub record: usize,
    pub why: String,
}

/// The objects of a history and what was done to each.
#[derive(Default)]
pub struct Objects {
    pub names: Vec<Timed<NameOp>>,
    pub lengths: BTreeMap<u64, Vec<Timed<LengthOp>>>,
    pub registers: BTreeMap<Key, Vec<Timed<RegisterOp>>>,
    /// OFD locks, by inode.
    pub locks: BTreeMap<u64, Vec<Timed<LockOp>>>,
    pub wrong: Vec<Wrong>,
}

/// (inode, mount) -> from when to when.
type Times = BTreeMap<(u64, u16), Vec<(u64, u64)>>;

/// How long a client whose mount tells no opens may see where a file ended before.
const ENDED: Duration = Duration::from_secs(1);

/// Times of some operations of each mount: the start, and the latest end so far.
#[derive(Default)]
pub struct Spans(BTreeMap<u16, Vec<(u64, u64)>>);

impl Spans {
    /// In the order of their starts.
    pub fn add(&mut self, record: &Record) {
        let spans = self.0.entry(record.mount).or_default();
        let latest = spans.last().map_or(0, |(_, latest)| *latest);
        spans.push((record.begin, record.end.max(latest)));
    }

    /// True if one of them was under way at the same mount.
    fn is_beside(&self, record: &Record) -> bool {
        self.reach(record.mount, record.end, record.begin)
    }

    /// True if one of a mount began before `begin` and ended after `end`.
    pub fn reach(&self, mount: u16, begin: u64, end: u64) -> bool {
        let Some(spans) = self.0.get(&mount) else { return false };
        let begun = spans.partition_point(|(other, _)| *other < begin);
        begun > 0 && spans[begun - 1].1 > end
    }
}

struct Splitter<'a> {
    objects: Objects,
    record: &'a Record,
    opens_told: bool,
    at: usize,
    /// Where the parts of each append lie: append -> part -> slot. From the whole history.
    places: BTreeMap<u64, BTreeMap<u64, u64>>,
    /// Writes that chose their own place: write -> slot.
    placed: BTreeMap<u64, u64>,
    /// Times at which each file was written through each mount.
    writes: Times,
    /// Times at which each file was appended to through each mount.
    appends: Times,
    /// Times at which the length of each file was set through each mount.
    cuts: Times,
    /// Operations that give names to files or take them.
    naming: Spans,
    /// Those of them that take one.
    removals: Spans,
    /// Inode numbers in the order they were seen: small numbers leave room beside them.
    inodes: BTreeMap<u64, u64>,
}

/// Splits a history. `opens_told`: the mounts report what is open (`flock`). Others (`localflock`,
/// `noflock`) promise less, as docs/semantics.md says: a file that is open may answer ESTALE once
/// its last name is gone; an append may lie in several places; a program may see what another
/// program of its mount is about to write; and a read may see where the file ended a moment before.
pub fn split(records: &[Record], opens_told: bool) -> Objects {
    let Some(first) = records.first() else { return Objects::default() };
    let mut splitter = Splitter {
        objects: Objects::default(),
        record: first,
        opens_told,
        at: 0,
        places: BTreeMap::new(),
        placed: BTreeMap::new(),
        writes: Times::new(),
        appends: Times::new(),
        cuts: Times::new(),
        naming: Spans::default(),
        removals: Spans::default(),
        inodes: BTreeMap::new(),
    };
    for record in records {
        let span = (record.begin, record.end);
        let note = |times: &mut Times, ino| {
            times.entry((ino, record.mount)).or_default().push(span);
        };
        match record.action {
            Action::Write { ino, .. } => note(&mut splitter.writes, ino),
            Action::Append { ino, .. } => {
                note(&mut splitter.writes, ino);
                note(&mut splitter.appends, ino);
            }
            Action::Truncate { ino, .. } => {
                note(&mut splitter.writes, ino);
                note(&mut splitter.cuts, ino);
            }
            _ => {}
        }
        if let Action::Unlink { .. }
        | Action::UnlinkIn { .. }
        | Action::Rmdir { .. }
        | Action::Rename { .. }
        | Action::Link { .. } = record.action
        {
            splitter.naming.add(record);
        }
        if let Action::Unlink { .. } | Action::UnlinkIn { .. } | Action::Rename { .. } =
            record.action
        {
            splitter.removals.add(record);
        }
        if let Action::Write { slot, id, .. } = record.action {
            splitter.placed.insert(id, slot);
        }
    }
    for (at, record) in records.iter().enumerate() {
        (splitter.at, splitter.record) = (at, record);
        splitter.find_appends();
    }
    for (at, record) in records.iter().enumerate() {
        (splitter.at, splitter.record) = (at, record);
        splitter.add();
    }
    for (at, record) in records.iter().enumerate() {
        (splitter.at, splitter.record) = (at, record);
        splitter.cut();
    }
    splitter.objects
}

impl Splitter<'_> {
    fn wrong(&mut self, why: String) {
        self.objects.wrong.push(Wrong { record: self.at, why });
    }

    fn timed<O>(&self, op: O) -> Timed<O> {
        Timed { begin: self.record.begin, end: self.record.end, record: self.at, op }
    }

    fn name(&mut self, op: NameOp) {
        let op = self.timed(op);
        self.objects.names.push(op);
    }

    fn length(&mut self, ino: u64, op: LengthOp) {
        let op = self.timed(op);
        self.objects.lengths.entry(ino).or_default().push(op);
    }

    fn register(&mut self, key: Key, op: RegisterOp) {
        let op = self.timed(op);
        self.objects.registers.entry(key).or_default().push(op);
    }

    fn lock(&mut self, ino: u64, op: LockOp) {
        let op = self.timed(op);
        self.objects.locks.entry(ino).or_default().push(op);
    }

    fn dense(&mut self, ino: u64) -> u64 {
        let next = self.inodes.len() as u64 + 1;
        *self.inodes.entry(ino).or_insert(next)
    }

    /// Learns from a read where appends went, and finds data in places where it was not written.
    fn find_appends(&mut self) {
        let record = self.record;
        let (Action::Read { ino, slot, .. }, Answer::Cells { cells, .. }) =
            (&record.action, &record.answer)
        else {
            return;
        };
        let waits = self.shows_what_waits(*ino);
        for (n, cell) in cells.iter().enumerate() {
            let at = slot + n as u64;
            for cell in flat(cell) {
                match cell {
                    Cell::Garbage(bytes) => {
                        self.wrong(format!("slot {at} has bytes that nobody wrote: {bytes:x?}"))
                    }
                    Cell::Written { .. } if waits => {}
                    Cell::Written { id, part } => self.found(*id, *part, at),
                    Cell::Zero | Cell::Mixed(_) => {}
                }
            }
        }
    }

    fn found(&mut self, id: u64, part: u64, at: u64) {
        let Some(begin) = at.checked_sub(part) else {
            return self.wrong(format!("part {part} of write {id} lies in slot {at}"));
        };
        let expected = match self.placed.get(&id) {
            Some(slot) => *slot,
            None => {
                let places = self.places.entry(id).or_default();
                let known = match self.opens_told {
                    true => places.first_key_value().map(|(part, at)| (*part, *at)),
                    false => places.get(&part).map(|at| (part, *at)),
                };
                places.entry(part).or_insert(at);
                known.map_or(begin, |(part, at)| at - part)
            }
        };
        if expected != begin {
            self.wrong(format!(
                "write {id} was seen to begin in slot {begin}, and in slot {expected} by others"
            ));
        }
    }

    /// Where the parts of an append lie. One that was seen in part lies in one piece, where mounts
    /// promise that.
    fn place(&self, id: u64, slots: u64) -> Vec<(u64, u64)> {
        let Some(places) = self.places.get(&id) else { return Vec::new() };
        match places.first_key_value() {
            Some((part, at)) if self.opens_told => {
                (0..slots).map(|other| (other, at - part + other)).collect()
            }
            _ => places.iter().map(|(part, at)| (*part, *at)).collect(),
        }
    }

    fn add(&mut self) {
        let record = self.record;
        match (&record.action, &record.answer) {
            (action, Answer::Failed(errno)) => self.failed(action, *errno),
            (Action::Create { at, exclusive }, Answer::Inode(ino)) => {
                let ino = self.dense(*ino);
                self.name(if *exclusive {
                    NameOp::Make(*at, ino)
                } else {
                    NameOp::OpenOrMake(*at, ino)
                });
            }
            (Action::Open { at }, Answer::Inode(ino)) => {
                let ino = self.dense(*ino);
                self.name(NameOp::Is(*at, Seen::File(ino)));
            }
            (Action::OpenDir { at }, Answer::Inode(ino)) => {
                let ino = self.dense(*ino);
                self.name(NameOp::Is(*at, Seen::Dir(ino)));
            }
            (Action::OpenDir { at }, Answer::Done) => self.name(NameOp::Is(*at, Seen::SomeDir)),
            (Action::Unlink { at }, Answer::Done) => self.name(NameOp::Unlink(*at)),
            (Action::Mkdir { at }, Answer::Done) => self.name(NameOp::MakeDir(*at, self.at as u64)),
            (Action::Rmdir { at }, Answer::Done) => self.name(NameOp::RemoveDir(*at)),
            (Action::Rename { from, to }, Answer::Done) => self.name(NameOp::Rename(*from, *to)),
            (Action::Link { from, to }, Answer::Done) => self.name(NameOp::Link(*from, *to)),
            (Action::Stat { at }, Answer::Attributes(attributes)) => {
                let ino = self.dense(attributes.ino);
                self.name(NameOp::Is(
                    *at,
                    if attributes.dir { Seen::Dir(ino) } else { Seen::File(ino) },
                ));
                self.attributes(attributes);
            }
            (Action::Fstat { .. }, Answer::Attributes(attributes)) if attributes.dir => {
                self.open_dir(attributes)
            }
            (Action::Fstat { .. }, Answer::Attributes(attributes)) => self.attributes(attributes),
            (Action::List { dir }, Answer::Entries(_)) => self.listing(*dir),
            (Action::ListIn { dir }, Answer::Entries(entries)) => {
                let dir = self.dense(*dir);
                match entries.as_slice() {
                    [] => self.name(NameOp::Empty { dir }),
                    [Entry { name: 0, dir: false, .. }] => self.name(NameOp::Full { dir }),
                    _ => self.wrong("a directory with other entries than it can have".to_owned()),
                }
            }
            (Action::ChmodRemoved { ino, mode }, Answer::Done) => {
                self.register(
                    Key::Removed { ino: *ino, mount: record.mount },
                    RegisterOp::Set((*mode).into()),
                );
            }
            (Action::MakeIn { dir }, Answer::Inode(ino)) => {
                let (dir, ino) = (self.dense(*dir), self.dense(*ino));
                self.name(NameOp::MakeIn { dir, ino });
            }
            (Action::UnlinkIn { dir }, Answer::Done) => {
                let dir = self.dense(*dir);
                self.name(NameOp::UnlinkIn { dir });
            }
            (Action::Read { ino, slot, slots }, Answer::Cells { bytes, cells }) => {
                self.read(*ino, *slot, *slots, *bytes, cells);
            }
            (Action::Write { ino, slot, slots, id }, Answer::Done) => {
                self.length(
                    *ino,
                    LengthOp::Write { begin: slot * SLOT, end: (slot + slots) * SLOT },
                );
                (0..*slots).for_each(|part| self.set(*ino, slot + part, *id, part));
            }
            (Action::Append { ino, slots, id }, Answer::Done) => {
                let places = self.place(*id, *slots);
                let (bytes, at) = (slots * SLOT, places.first().map(|(_, at)| at * SLOT));
                self.length(
                    *ino,
                    match self.opens_told {
                        true => LengthOp::Append { bytes, at },
                        false => LengthOp::AppendInParts(bytes),
                    },
                );
                // An append that was never seen explains nothing and is not missed.
                for (part, at) in places {
                    self.set(*ino, at, *id, part);
                }
            }
            (Action::Truncate { ino, slots }, Answer::Done) => {
                self.length(*ino, LengthOp::Truncate(slots * SLOT))
            }
            (Action::Chmod { ino, mode }, Answer::Done) => {
                self.register(Key::Mode { ino: *ino, dir: false }, RegisterOp::Set((*mode).into()));
            }
            (Action::Setxattr { ino, which, value }, Answer::Done) => {
                self.register(Key::Xattr { ino: *ino, which: *which }, RegisterOp::Set(*value));
            }
            (Action::Getxattr { ino, which }, Answer::Value(value)) => {
                self.register(
                    Key::Xattr { ino: *ino, which: *which },
                    RegisterOp::Is(value.unwrap_or(ABSENT)),
                );
            }
            (Action::Removexattr { ino, which }, Answer::Done) => {
                self.register(Key::Xattr { ino: *ino, which: *which }, RegisterOp::Remove);
            }
            (Action::Fsync { .. } | Action::Close { .. }, Answer::Done) => {}
            (Action::Lock { ino, open }, Answer::Done) => self.lock(*ino, LockOp::Taken(*open)),
            (Action::Unlock { ino, open } | Action::LockEnds { ino, open }, Answer::Done) => {
                self.lock(*ino, LockOp::Given(*open));
            }
            (Action::Store { word, value }, Answer::Done) => {
                self.register(Key::Word(*word), RegisterOp::Set(*value))
            }
            (Action::Load { word } | Action::ReadWord { word }, Answer::Value(Some(value))) => {
                let mut op = self.timed(RegisterOp::Is(*value));
                op.begin = op.begin.saturating_sub(LATE.as_nanos() as u64);
                self.objects.registers.entry(Key::Word(*word)).or_default().push(op);
            }
            (action, answer) => self.wrong(format!("{action:?} cannot answer {answer:?}")),
        }
    }

    fn attributes(&mut self, attributes: &Attributes) {
        let Attributes { ino, dir, mode, size, links, times: _ } = *attributes;
        self.register(Key::Mode { ino, dir }, RegisterOp::Is(mode.into()));
        if !dir {
            self.length(ino, LengthOp::Is(size));
            // Linux counts a removed name off its inode before it takes the name out of its cache.
            // So beside such an operation of the same kernel the count may be seen first.
            if !self.beside_naming() {
                let ino = self.dense(ino);
                self.name(NameOp::Links { ino, links });
            }
        }
    }

    /// An open directory either has a name or shows no link. The mode of one without a name is
    /// checked once this mount has set it.
    fn open_dir(&mut self, attributes: &Attributes) {
        let Attributes { ino, mode, links, .. } = *attributes;
        let (dir, mount) = (self.dense(ino), self.record.mount);
        if links > 0 {
            return self.name(NameOp::Alive { dir });
        }
        if !self.beside_naming() {
            self.name(NameOp::Gone { dir });
        }
        let key = Key::Removed { ino, mount };
        let set = self.objects.registers.get(&key);
        if set.is_some_and(|ops| ops.iter().any(|op| op.end < self.record.begin)) {
            self.register(key, RegisterOp::Is(mode.into()));
        }
    }

    /// True if a name is being taken from, or given to, a file through the same mount.
    fn beside_naming(&self) -> bool {
        self.naming.is_beside(self.record)
    }

    /// Each name by itself: POSIX does not promise a listing of one moment.
    fn listing(&mut self, dir: u8) {
        let record = self.record;
        let Answer::Entries(entries) = &record.answer else { return };
        for name in 0..NAMES_MAX {
            let at = crate::history::Place { dir, name };
            let mut found = entries.iter().filter(|e| e.name == name);
            match (found.next(), found.next()) {
                (None, _) => self.name(NameOp::Is(at, Seen::Nothing)),
                (Some(entry), second) => {
                    let ino = self.dense(entry.ino);
                    self.name(NameOp::Is(
                        at,
                        if entry.dir { Seen::Dir(ino) } else { Seen::File(ino) },
                    ));
                    if second.is_some() {
                        self.wrong(format!("the listing shows name {name} twice"));
                    }
                }
            }
        }
    }

    fn set(&mut self, ino: u64, slot: u64, id: u64, part: u64) {
        self.register(Key::Slot { ino, slot }, RegisterOp::Set(id << 8 | part));
    }

    fn read(&mut self, ino: u64, slot: u64, slots: u64, bytes: u64, cells: &[Cell]) {
        let (begin, asked) = (slot * SLOT, slots * SLOT);
        if bytes > asked {
            return self.wrong(format!("{bytes} bytes for {asked}"));
        }
        let beside_writes = self.is_beside(&self.writes, ino);
        // Until a truncate returns, a read through the same mount may show zeros where it cuts.
        let (ended, cut) = match self.opens_told {
            true => (false, self.is_beside(&self.cuts, ino)),
            false => (self.is_after(&self.writes, ino), self.is_after(&self.cuts, ino)),
        };
        // Two looks, not one: a read goes page by page, and the file may shrink meanwhile. Nor are
        // zeros sure that lie behind the end up to where the file ended a moment before.
        let sure = if ended || cut || self.is_beside(&self.appends, ino) {
            bytes - zeros_at_the_end(bytes, cells)
        } else {
            bytes
        };
        let waits = self.shows_what_waits(ino);
        // Until then the kernel reads up to the old end, also after a stat has told the new one.
        if sure > 0 && !waits && !self.is_beside(&self.cuts, ino) {
            self.length(ino, LengthOp::AtLeast(begin + sure));
        }
        // While a program writes, Linux takes no new length from the file system
        // (`FUSE_I_SIZE_UNSTABLE`), and a read through the same mount may end where the file ended
        // before.
        if bytes < asked && !beside_writes && !ended {
            self.length(ino, LengthOp::AtMost(begin + bytes));
        }
        for (n, cell) in cells.iter().enumerate() {
            let key = Key::Slot { ino, slot: slot + n as u64 };
            for cell in flat(cell) {
                match cell {
                    Cell::Zero if cut => {}
                    Cell::Zero => self.register(key, RegisterOp::Is(0)),
                    Cell::Written { .. } if waits => {}
                    Cell::Written { id, part } => {
                        self.register(key, RegisterOp::Is(id << 8 | part))
                    }
                    Cell::Mixed(_) | Cell::Garbage(_) => {}
                }
            }
        }
    }

    /// A truncate clears every slot beyond the new end that was written or read.
    fn cut(&mut self) {
        let (Action::Truncate { ino, slots }, Answer::Done) =
            (&self.record.action, &self.record.answer)
        else {
            return;
        };
        let clear = self.timed(RegisterOp::Set(0));
        let beyond =
            Key::Slot { ino: *ino, slot: *slots }..=Key::Slot { ino: *ino, slot: u64::MAX };
        for (_, ops) in self.objects.registers.range_mut(beyond) {
            ops.push(clear.clone());
        }
    }

    /// True if this read may show a page of a write that waits for its turn: the kernel shows it
    /// through the mount that writes, an append where the kernel believes the end to be.
    fn shows_what_waits(&self, ino: u64) -> bool {
        !self.opens_told && self.is_beside(&self.writes, ino)
    }

    /// True if this is done to the file through the same mount meanwhile.
    fn is_beside(&self, times: &Times, ino: u64) -> bool {
        let Record { begin, end, .. } = *self.record;
        let times = times.get(&(ino, self.record.mount));
        times.is_some_and(|times| times.iter().any(|(b, e)| *b <= end && begin <= *e))
    }

    /// True if this was done to the file through any mount meanwhile, or a moment before.
    fn is_after(&self, times: &Times, ino: u64) -> bool {
        let Record { begin, end, .. } = *self.record;
        let begin = begin.saturating_sub(ENDED.as_nanos() as u64);
        times
            .range((ino, u16::MIN)..=(ino, u16::MAX))
            .any(|(_, times)| times.iter().any(|(b, e)| *b <= end && begin <= *e))
    }

    fn failed(&mut self, action: &Action, errno: i32) {
        match (action, errno) {
            (Action::Create { at, exclusive: true } | Action::Mkdir { at }, libc::EEXIST) => {
                self.name(NameOp::Is(*at, Seen::Something));
            }
            (
                Action::Create { at, exclusive: false }
                | Action::Open { at }
                | Action::Unlink { at },
                libc::EISDIR,
            ) => {
                self.name(NameOp::Is(*at, Seen::SomeDir));
            }
            (
                Action::Open { at }
                | Action::OpenDir { at }
                | Action::Unlink { at }
                | Action::Rmdir { at }
                | Action::Stat { at }
                | Action::Rename { from: at, .. },
                libc::ENOENT,
            ) => self.name(NameOp::Is(*at, Seen::Nothing)),
            (Action::OpenDir { at } | Action::Rmdir { at }, libc::ENOTDIR) => {
                self.name(NameOp::Is(*at, Seen::SomeFile));
            }
            (Action::Rmdir { at }, libc::ENOTEMPTY | libc::EEXIST) => {
                self.name(NameOp::Is(*at, Seen::FullDir))
            }
            (Action::Rename { from, to }, libc::EISDIR) => {
                self.name(NameOp::Is(*from, Seen::SomeFile));
                self.name(NameOp::Is(*to, Seen::SomeDir));
            }
            (Action::Rename { from, to }, libc::ENOTDIR) => {
                self.name(NameOp::Is(*from, Seen::SomeDir));
                self.name(NameOp::Is(*to, Seen::SomeFile));
            }
            (Action::Rename { from, to }, libc::ENOTEMPTY | libc::EEXIST) => {
                self.name(NameOp::Is(*from, Seen::SomeDir));
                self.name(NameOp::Is(*to, Seen::FullDir));
            }
            // Linux counts the links of an inode down by itself when a name of it goes, and refuses
            // to link one without links: another client may have just given it a second name.
            (Action::Link { .. }, libc::ENOENT) if self.removals.is_beside(self.record) => {}
            (Action::Link { from, .. }, libc::ENOENT) => self.name(NameOp::LinkGone(*from)),
            (Action::Link { to, .. }, libc::EEXIST) => self.name(NameOp::Is(*to, Seen::Something)),
            (Action::Link { from, .. }, libc::EPERM) => self.name(NameOp::Is(*from, Seen::SomeDir)),
            (Action::MakeIn { dir }, libc::EEXIST) => {
                let dir = self.dense(*dir);
                self.name(NameOp::Full { dir });
            }
            (Action::MakeIn { dir } | Action::UnlinkIn { dir }, libc::ESTALE) => {
                let dir = self.dense(*dir);
                self.name(NameOp::Gone { dir });
            }
            (Action::MakeIn { dir } | Action::ListIn { dir }, libc::ENOENT) => {
                let dir = self.dense(*dir);
                self.name(NameOp::Gone { dir });
            }
            // The directory is gone, or the name in it.
            (Action::UnlinkIn { .. }, libc::ENOENT) => {}
            (Action::Lock { ino, open }, libc::EAGAIN) => self.lock(*ino, LockOp::Refused(*open)),
            (Action::Removexattr { ino, which }, libc::ENODATA) => {
                self.register(Key::Xattr { ino: *ino, which: *which }, RegisterOp::Is(ABSENT));
            }
            // Linux itself: a directory that another client moved is still known under its old
            // name, and the locks to move it in the kernel's cache cannot be had at the moment
            // (`d_splice_alias`). It tries twice and then says so.
            (
                Action::Create { at, .. }
                | Action::Open { at }
                | Action::OpenDir { at }
                | Action::Unlink { at }
                | Action::Mkdir { at }
                | Action::Rmdir { at }
                | Action::Stat { at },
                libc::ESTALE,
            ) => self.name(NameOp::AnyDir(*at, *at)),
            (Action::Rename { from, to } | Action::Link { from, to }, libc::ESTALE) => {
                self.name(NameOp::AnyDir(*from, *to));
            }
            (action, libc::ESTALE)
                if !self.opens_told
                    && let Some(ino) = of_open_file(action) =>
            {
                self.stale(ino);
            }
            _ => self.wrong(format!("error {errno} is none that this operation may give")),
        }
    }

    /// An open file was destroyed: it has no name. Inode 0: not even its number was learnt.
    fn stale(&mut self, ino: u64) {
        if ino != 0 && !self.beside_naming() {
            let ino = self.dense(ino);
            self.name(NameOp::Links { ino, links: 0 });
        }
    }
}

/// The file that the operation reaches through a descriptor.
fn of_open_file(action: &Action) -> Option<u64> {
    match *action {
        Action::Fstat { ino }
        | Action::Read { ino, .. }
        | Action::Write { ino, .. }
        | Action::Append { ino, .. }
        | Action::Truncate { ino, .. }
        | Action::Chmod { ino, .. }
        | Action::Setxattr { ino, .. }
        | Action::Getxattr { ino, .. }
        | Action::Removexattr { ino, .. }
        | Action::Fsync { ino }
        | Action::Close { ino } => Some(ino),
        _ => None,
    }
}

/// Names of one directory, at most.
pub const NAMES_MAX: u8 = 8;

/// Bytes of a read after the last cell that is not zero. Linux puts an append where it believes the
/// end to be. If another client has cut the file since it asked, it takes the length for larger
/// until the append is over, and shows zeros up to there.
fn zeros_at_the_end(bytes: u64, cells: &[Cell]) -> u64 {
    let shown = cells
        .iter()
        .rposition(|cell| *cell != Cell::Zero)
        .map_or(0, |last| (last as u64 + 1) * SLOT);
    bytes.saturating_sub(shown)
}

/// The cells within a mixed one, or the one itself.
fn flat(cell: &Cell) -> &[Cell] {
    match cell {
        Cell::Mixed(cells) => cells,
        single => std::slice::from_ref(single),
    }
}
