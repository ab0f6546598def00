//! Bytes of a file that live on its MDT, in chunks of `DOM_CHUNK_BYTES`.
//!
//! A chunk has the bytes from its start on, as many as were written. The bytes after them, and
//! those without a chunk, read as zeros and take no space. A change is first planned from the
//! chunks that exist; carrying it out cannot fail.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};
use types::errno::Errno;
use types::limits::DOM_CHUNK_BYTES;

const CHUNK: u64 = DOM_CHUNK_BYTES as u64;

/// Visits a chunk: its number and its bytes, at least one.
pub type EachChunk<'a> = dyn FnMut(u32, &[u8]) -> ControlFlow<()> + 'a;

/// The chunks of one file.
pub trait Chunks {
    /// Visits those with these numbers, in order, until `each` breaks.
    ///
    /// # Errors
    /// EIO: one of them is damaged.
    fn chunks(&self, numbers: Range<u32>, each: &mut EachChunk<'_>) -> Result<(), Errno>;
}

/// An operation on a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Punch {
    /// The range becomes a hole.
    Hole,
    /// The range becomes zeros that take space.
    Zero,
    /// The range takes space; its bytes stay as they are.
    Allocate,
}

/// A change of chunks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Chunks and their new bytes; a chunk without bytes is removed.
    pub chunks: Vec<(u32, Vec<u8>)>,
    /// Growth of the space that they take, blocks of 512 bytes.
    pub blocks_delta: i64,
}

impl Plan {
    fn change(&mut self, n: u32, before: usize, bytes: Vec<u8>) {
        self.blocks_delta += blocks_of(bytes.len()) as i64 - blocks_of(before) as i64;
        self.chunks.push((n, bytes));
    }
}

/// Space of a chunk with this many bytes, blocks of 512.
const fn blocks_of(bytes: usize) -> u64 {
    bytes.div_ceil(512) as u64
}

/// The chunks that have bytes of `[start, end)`.
fn numbers(start: u64, end: u64) -> Range<u32> {
    if start < end { number(start)..number(end - 1).saturating_add(1) } else { 0..0 }
}

/// Number of the chunk of a byte.
fn number(at: u64) -> u32 {
    u32::try_from(at / CHUNK).unwrap_or(u32::MAX)
}

/// The bytes of `[start, end)`.
///
/// # Errors
/// EIO.
pub fn read(chunks: &impl Chunks, start: u64, end: u64) -> Result<Vec<u8>, Errno> {
    let mut data = vec![0; end.saturating_sub(start) as usize];
    chunks.chunks(numbers(start, end), &mut |n, bytes| {
        let base = u64::from(n) * CHUNK;
        let (from, to) = (start.max(base), end.min(base + bytes.len() as u64));
        if from < to {
            let found = &bytes[(from - base) as usize..(to - base) as usize];
            data[(from - start) as usize..(to - start) as usize].copy_from_slice(found);
        }
        ControlFlow::Continue(())
    })?;
    Ok(data)
}

/// Stores `data` at `offset`.
///
/// # Errors
/// EIO.
pub fn write(chunks: &impl Chunks, offset: u64, data: &[u8]) -> Result<Plan, Errno> {
    write_all(chunks, &[(offset, data)])
}

/// Stores several ranges, one after the other, in one plan.
///
/// # Errors
/// EIO.
pub fn write_all(chunks: &impl Chunks, pieces: &[(u64, &[u8])]) -> Result<Plan, Errno> {
    let end = |(offset, data): &(u64, &[u8])| offset + data.len() as u64;
    let touched: BTreeSet<u32> =
        pieces.iter().flat_map(|piece| numbers(piece.0, end(piece))).collect();
    // A chunk that does not exist is empty.
    let mut found: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for n in touched {
        let mut before = Vec::new();
        chunks.chunks(n..n.saturating_add(1), &mut |_, bytes| {
            before = bytes.to_vec();
            ControlFlow::Continue(())
        })?;
        found.insert(n, before);
    }
    let mut written = found.clone();
    for piece @ (offset, data) in pieces {
        for n in numbers(*offset, end(piece)) {
            let base = u64::from(n) * CHUNK;
            let (at, until) = ((*offset).max(base), end(piece).min(base + CHUNK));
            let (from, to) = ((at - base) as usize, (until - base) as usize);
            let bytes = written.entry(n).or_default();
            if bytes.len() < to {
                bytes.resize(to, 0);
            }
            bytes[from..to].copy_from_slice(&data[(at - offset) as usize..][..to - from]);
        }
    }
    let mut plan = Plan::default();
    for ((n, bytes), before) in written.into_iter().zip(found.into_values()) {
        if bytes != before {
            plan.change(n, before.len(), bytes);
        }
    }
    Ok(plan)
}

/// Where the data of [`write_all`], its pieces one behind the other, comes into chunk `n`: first
/// byte in the chunk, first byte in the data, length. A chunk that is shorter grows, with zeros.
pub fn sources(pieces: &[(u64, &[u8])], n: u32) -> Vec<(u32, u32, u32)> {
    let base = u64::from(n) * CHUNK;
    let (mut before, mut found) = (0, Vec::with_capacity(1));
    for (offset, data) in pieces {
        let len = data.len() as u64;
        let (at, until) = ((*offset).max(base), (offset + len).min(base + CHUNK));
        if at < until {
            let from = before + (at - offset);
            found.push(((at - base) as u32, from as u32, (until - at) as u32));
        }
        before += len;
    }
    found
}

/// Changes the allocation of `[start, end)`.
///
/// # Errors
/// EIO.
pub fn punch(chunks: &impl Chunks, start: u64, end: u64, kind: Punch) -> Result<Plan, Errno> {
    each_chunk(chunks, start, end, |bytes, from, to| match kind {
        Punch::Hole if to >= bytes.len() => bytes.truncate(from),
        Punch::Hole => bytes[from..to].fill(0),
        Punch::Zero | Punch::Allocate => {
            if bytes.len() < to {
                bytes.resize(to, 0);
            }
            if kind == Punch::Zero {
                bytes[from..to].fill(0);
            }
        }
    })
}

/// Removes what lies at or behind `size`.
///
/// # Errors
/// EIO.
pub fn cut(chunks: &impl Chunks, size: u64) -> Result<Plan, Errno> {
    let mut plan = Plan::default();
    chunks.chunks(number(size)..u32::MAX, &mut |n, bytes| {
        let kept = size.saturating_sub(u64::from(n) * CHUNK).min(bytes.len() as u64) as usize;
        if kept < bytes.len() {
            plan.change(n, bytes.len(), bytes[..kept].to_vec());
        }
        ControlFlow::Continue(())
    })?;
    Ok(plan)
}

/// Next data, or with `hole` next hole, at or after `offset`. After the last chunk everything is a
/// hole.
///
/// # Errors
/// EIO.
pub fn seek(chunks: &impl Chunks, offset: u64, hole: bool) -> Result<Option<u64>, Errno> {
    let (mut at, mut found) = (offset, None);
    chunks.chunks(number(offset)..u32::MAX, &mut |n, bytes| {
        let start = u64::from(n) * CHUNK;
        let end = start + bytes.len() as u64;
        if hole && start > at {
            return ControlFlow::Break(());
        }
        if hole {
            at = at.max(end);
        } else if end > at {
            found = Some(at.max(start));
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(if hole { Some(at) } else { found })
}

/// Space of all chunks, blocks of 512 bytes.
///
/// # Errors
/// EIO.
pub fn blocks(chunks: &impl Chunks) -> Result<u64, Errno> {
    let mut sum = 0;
    chunks.chunks(0..u32::MAX, &mut |_, bytes| {
        sum += blocks_of(bytes.len());
        ControlFlow::Continue(())
    })?;
    Ok(sum)
}

/// Plans a change of each chunk in `[start, end)`: `change` gets the chunk's bytes, and the range
/// of them.
fn each_chunk(
    chunks: &impl Chunks,
    start: u64,
    end: u64,
    mut change: impl FnMut(&mut Vec<u8>, usize, usize),
) -> Result<Plan, Errno> {
    let mut plan = Plan::default();
    let numbers = numbers(start, end);
    // A chunk that does not exist is empty.
    let mut found: Vec<Vec<u8>> = vec![Vec::new(); numbers.len()];
    chunks.chunks(numbers.clone(), &mut |n, bytes| {
        found[(n - numbers.start) as usize] = bytes.to_vec();
        ControlFlow::Continue(())
    })?;
    for (n, found) in numbers.zip(found) {
        let base = u64::from(n) * CHUNK;
        let (from, to) = (start.max(base), end.min(base + CHUNK));
        let mut bytes = found.clone();
        change(&mut bytes, (from - base) as usize, (to - base) as usize);
        if bytes != found {
            plan.change(n, found.len(), bytes);
        }
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Default, Clone)]
    struct Memory(BTreeMap<u32, Vec<u8>>);

    impl Chunks for Memory {
        fn chunks(&self, numbers: Range<u32>, each: &mut EachChunk<'_>) -> Result<(), Errno> {
            for (n, bytes) in self.0.range(numbers) {
                if each(*n, bytes).is_break() {
                    break;
                }
            }
            Ok(())
        }
    }

    impl Memory {
        fn carry_out(&mut self, plan: Plan) {
            for (n, bytes) in plan.chunks {
                assert!(bytes.len() <= DOM_CHUNK_BYTES);
                if bytes.is_empty() {
                    self.0.remove(&n)
                } else {
                    self.0.insert(n, bytes)
                };
            }
        }
    }

    #[test]
    fn a_file_takes_as_much_as_it_has() {
        let mut file = Memory::default();
        file.carry_out(write(&file, 0, &[7; 20_000]).unwrap());
        assert_eq!(
            file.0.values().map(Vec::len).collect::<Vec<_>>(),
            [DOM_CHUNK_BYTES, 20_000 - DOM_CHUNK_BYTES]
        );
        assert_eq!(blocks(&file), Ok(32 + 8));
        assert_eq!(read(&file, 19_999, 20_002), Ok(vec![7, 0, 0]));
        assert_eq!(write(&file, 0, &[7; 20_000]), Ok(Plan::default()), "nothing changes");
    }

    #[test]
    fn holes_are_found() {
        let mut file = Memory::default();
        file.carry_out(write(&file, 2 * CHUNK, b"data").unwrap());
        assert_eq!(seek(&file, 5, false), Ok(Some(2 * CHUNK)));
        assert_eq!(seek(&file, 5, true), Ok(Some(5)));
        assert_eq!(seek(&file, 2 * CHUNK + 1, true), Ok(Some(2 * CHUNK + 4)));
        assert_eq!(seek(&file, 2 * CHUNK + 4, false), Ok(None));
        file.carry_out(punch(&file, 0, 3 * CHUNK, Punch::Hole).unwrap());
        assert!(file.0.is_empty());
        file.carry_out(punch(&file, 10, 3 * CHUNK, Punch::Allocate).unwrap());
        assert_eq!((blocks(&file), seek(&file, 0, false)), (Ok(96), Ok(Some(0))));
    }

    proptest! {
        #[test]
        fn a_plan_is_what_its_sources_make_of_what_was_there(
            before in 0..3 * CHUNK as usize,
            pieces in prop::collection::vec((0..3 * CHUNK, 0..2 * CHUNK as usize), 0..4),
        ) {
            let data: Vec<(u64, Vec<u8>)> =
                (10..).zip(&pieces).map(|(byte, (at, len))| (*at, vec![byte; *len])).collect();
            let pieces: Vec<(u64, &[u8])> =
                data.iter().map(|(at, data)| (*at, &data[..])).collect();
            let all = data.iter().flat_map(|(_, data)| data).copied().collect::<Vec<u8>>();
            let mut file = Memory::default();
            file.carry_out(write(&file, 0, &vec![7; before]).unwrap());
            for (n, planned) in write_all(&file, &pieces).unwrap().chunks {
                let mut made = file.0.get(&n).cloned().unwrap_or_default();
                for (at, from, len) in sources(&pieces, n) {
                    let (at, from, len) = (at as usize, from as usize, len as usize);
                    made.resize(made.len().max(at + len), 0);
                    made[at..at + len].copy_from_slice(&all[from..from + len]);
                }
                prop_assert!(made == planned, "chunk {n}");
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, usize, u8),
        WriteAll(Vec<(u64, usize, u8)>),
        Cut(u64),
        Punch(u64, u64, Punch),
    }

    const MAX: u64 = 5 * CHUNK;

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // Often at the edges of chunks.
        let at = || {
            prop_oneof![
                0..MAX,
                (0..5u64, 0..3u64).prop_map(|(n, off)| (n * CHUNK + off).saturating_sub(1))
            ]
        };
        let kind = prop::sample::select(vec![Punch::Hole, Punch::Zero, Punch::Allocate]);
        let step = prop_oneof![
            (at(), 0..40_000usize, 1u8..).prop_map(|(at, len, byte)| Step::Write(at, len, byte)),
            prop::collection::vec((at(), 0..9_000usize, 1u8..), 0..6).prop_map(Step::WriteAll),
            at().prop_map(Step::Cut),
            (at(), at(), kind).prop_map(|(a, b, kind)| Step::Punch(a.min(b), a.max(b), kind)),
        ];
        prop::collection::vec(step, 1..12)
    }

    proptest! {
        #[test]
        fn chunks_hold_what_a_plain_array_holds(steps in steps(), start in 0..MAX, len in 0..MAX) {
            let (mut file, mut plain) = (Memory::default(), vec![0u8; 2 * MAX as usize]);
            let mut space = 0i64;
            for step in steps {
                let plan = match step {
                    Step::Write(at, len, byte) => {
                        plain[at as usize..][..len].fill(byte);
                        write(&file, at, &vec![byte; len])
                    }
                    Step::WriteAll(writes) => {
                        let all: Vec<_> =
                            writes.iter().map(|(at, len, byte)| (*at, vec![*byte; *len])).collect();
                        for (at, bytes) in &all {
                            plain[*at as usize..][..bytes.len()].copy_from_slice(bytes);
                        }
                        let all: Vec<_> = all.iter().map(|(at, b)| (*at, &b[..])).collect();
                        write_all(&file, &all)
                    }
                    Step::Cut(size) => {
                        plain[size as usize..].fill(0);
                        cut(&file, size)
                    }
                    Step::Punch(start, end, kind) => {
                        if kind != Punch::Allocate {
                            plain[start as usize..end as usize].fill(0);
                        }
                        punch(&file, start, end, kind)
                    }
                };
                let plan = plan.unwrap();
                space += plan.blocks_delta;
                file.carry_out(plan);
                prop_assert_eq!(blocks(&file), Ok(space as u64));
            }
            let (from, to) = (start as usize, (start + len) as usize);
            prop_assert!(read(&file, start, start + len).unwrap() == plain[from..to]);
            // No data lies in a reported hole.
            let (mut at, mut hole) = (0, false);
            while at < MAX {
                let next = seek(&file, at, !hole).unwrap().unwrap_or(2 * MAX).min(2 * MAX);
                prop_assert!(next >= at);
                prop_assert!(!hole || plain[at as usize..next as usize].iter().all(|byte| *byte == 0));
                (at, hole) = (next, !hole);
            }
        }
    }
}
