//! Records in words, for people.

use crate::history::{Action, Answer, Attributes, Cell, Entry, Place, Record};
use std::fmt;

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "d{}/n{}", self.dir, self.name)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Create { at, exclusive: true } => write!(f, "creates {at} (O_EXCL)"),
            Action::Create { at, exclusive: false } => write!(f, "opens or creates {at}"),
            Action::Open { at } => write!(f, "opens {at}"),
            Action::OpenDir { at } => write!(f, "opens directory {at}"),
            Action::Unlink { at } => write!(f, "unlinks {at}"),
            Action::Mkdir { at } => write!(f, "makes directory {at}"),
            Action::Rmdir { at } => write!(f, "removes directory {at}"),
            Action::Rename { from, to } => write!(f, "renames {from} to {to}"),
            Action::Link { from, to } => write!(f, "links {from} as {to}"),
            Action::Stat { at } => write!(f, "stats {at}"),
            Action::List { dir } => write!(f, "lists d{dir}"),
            Action::MakeIn { dir } => write!(f, "creates x in the open directory {dir:#x}"),
            Action::UnlinkIn { dir } => write!(f, "unlinks x in the open directory {dir:#x}"),
            Action::Fstat { ino } => write!(f, "fstats {ino:#x}"),
            Action::Read { ino, slot, slots } => {
                write!(f, "reads slots {slot}..{} of {ino:#x}", slot + slots)
            }
            Action::Write { ino, slot, slots, id } => {
                write!(f, "writes slots {slot}..{} of {ino:#x} (write {id})", slot + slots)
            }
            Action::Append { ino, slots, id } => {
                write!(f, "appends {slots} slots to {ino:#x} (write {id})")
            }
            Action::Truncate { ino, slots } => write!(f, "truncates {ino:#x} to {slots} slots"),
            Action::Chmod { ino, mode } => write!(f, "sets mode {mode:o} of {ino:#x}"),
            Action::ChmodRemoved { ino, mode } => {
                write!(f, "sets mode {mode:o} of the removed open directory {ino:#x}")
            }
            Action::ListIn { dir } => write!(f, "lists the open directory {dir:#x}"),
            Action::Setxattr { ino, which, value } => {
                write!(f, "sets user.x{which} of {ino:#x} to {value}")
            }
            Action::Getxattr { ino, which } => write!(f, "gets user.x{which} of {ino:#x}"),
            Action::Removexattr { ino, which } => write!(f, "removes user.x{which} of {ino:#x}"),
            Action::Fsync { ino } => write!(f, "fsyncs {ino:#x}"),
            Action::Close { ino } => write!(f, "closes {ino:#x}"),
            Action::Lock { ino, open } => {
                write!(f, "takes the OFD lock of {ino:#x} for open file {open}")
            }
            Action::Unlock { ino, open } => {
                write!(f, "gives the OFD lock of {ino:#x} back for open file {open}")
            }
            Action::LockEnds { ino, open } => {
                write!(f, "closed open file {open}, which has the OFD lock of {ino:#x}")
            }
            Action::Load { word } => write!(f, "loads word {word} from its mapping"),
            Action::Store { word, value } => {
                write!(f, "stores {value} in word {word} of its mapping")
            }
            Action::ReadWord { word } => write!(f, "reads word {word}"),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Zero => f.write_str("zeros"),
            Cell::Written { id, part } => write!(f, "write {id} part {part}"),
            Cell::Garbage(bytes) => write!(f, "garbage {bytes:x?}"),
            Cell::Mixed(cells) => {
                let words: Vec<String> = cells.iter().map(Cell::to_string).collect();
                write!(f, "mixed ({})", words.join(" and "))
            }
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Done => f.write_str("done"),
            Answer::Inode(ino) => write!(f, "inode {ino:#x}"),
            Answer::Attributes(Attributes { ino, dir, mode, size, links, times }) => {
                let kind = if *dir { "directory" } else { "file" };
                write!(f, "{kind} {ino:#x}, mode {mode:o}, {size} bytes, {links} links, ")?;
                write!(
                    f,
                    "read at {} us, changed at {} us",
                    times.access / 1000,
                    times.change / 1000
                )
            }
            Answer::Entries(entries) => {
                let word = |e: &Entry| {
                    format!("n{}={}{:#x}", e.name, if e.dir { "dir " } else { "" }, e.ino)
                };
                f.write_str(&entries.iter().map(word).collect::<Vec<_>>().join(", "))
            }
            Answer::Cells { bytes, cells } => {
                let words: Vec<String> = cells.iter().map(Cell::to_string).collect();
                write!(f, "{bytes} bytes: {}", words.join("; "))
            }
            Answer::Value(Some(value)) => write!(f, "{value}"),
            Answer::Value(None) => f.write_str("none"),
            Answer::Short(bytes) => write!(f, "only {bytes} bytes written"),
            Answer::Failed(errno) => write!(f, "{}", std::io::Error::from_raw_os_error(*errno)),
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: u64| ns as f64 / 1000.0;
        let Record { thread, mount, begin, end, action, answer } = self;
        write!(
            f,
            "{:.1}..{:.1} us, mount {mount}, thread {thread} {action}: {answer}",
            us(*begin),
            us(*end)
        )
    }
}
