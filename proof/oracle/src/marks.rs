//! Contents of files: every 8-byte word names the write it came from, the slot of that write, and
//! its place in the slot.

use crate::history::{Cell, SLOT};

const WORDS: u64 = SLOT / 8;
/// Identities of writes stay below this.
pub const ID_MAX: u64 = 1 << 48;

fn word(id: u64, part: u64, at: u64) -> u64 {
    id << 16 | part << 8 | at
}

/// The bytes of write `id` (1..[`ID_MAX`]), `slots` slots (up to 255) long.
pub fn fill(id: u64, slots: u64) -> Vec<u8> {
    assert!(id > 0 && id < ID_MAX && slots < 256, "a mark has no room for this");
    let words = (0..slots).flat_map(|part| (0..WORDS).map(move |at| word(id, part, at)));
    words.flat_map(u64::to_le_bytes).collect()
}

/// Contents of the whole slots of `bytes`. A slot that was cut off is left out.
pub fn read(bytes: &[u8]) -> Vec<Cell> {
    bytes.chunks_exact(SLOT as usize).map(read_slot).collect()
}

fn read_slot(bytes: &[u8]) -> Cell {
    let mut seen: Vec<Cell> = Vec::new();
    for (at, chunk) in bytes.chunks_exact(8).enumerate() {
        let raw: [u8; 8] = chunk.try_into().expect("eight bytes");
        let value = u64::from_le_bytes(raw);
        let (id, part) = (value >> 16, value >> 8 & 0xff);
        let cell = match value {
            0 => Cell::Zero,
            _ if id > 0 && value & 0xff == at as u64 => Cell::Written { id, part },
            _ => return Cell::Garbage(raw),
        };
        if !seen.contains(&cell) {
            seen.push(cell);
        }
    }
    if seen.len() == 1 { seen.remove(0) } else { Cell::Mixed(seen) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_recognised() {
        let mut bytes = fill(7, 2);
        assert_eq!(
            read(&bytes),
            [Cell::Written { id: 7, part: 0 }, Cell::Written { id: 7, part: 1 }]
        );
        bytes[512..520].fill(0);
        let mixed = Cell::Mixed(vec![Cell::Zero, Cell::Written { id: 7, part: 1 }]);
        assert_eq!(read(&bytes)[1], mixed);
        assert_eq!(read(&[0; 700]), [Cell::Zero]);
    }

    #[test]
    fn bytes_of_nobody_are_recognised() {
        let mut bytes = fill(7, 1);
        bytes.rotate_left(8);
        assert!(matches!(read(&bytes)[0], Cell::Garbage(_)));
        assert!(matches!(read(&[0xff; 512])[0], Cell::Garbage(_)));
    }
}
