//! Buffers for long reads, used again.
//!
//! A fresh megabyte costs as much as copying it: the kernel clears its pages when they are first
//! touched. So the buffers of answers come back when the last `Bytes` of them is dropped. Bound:
//! [`IDLE_MAX`] lie idle; the number in use is bounded by the requests under way.

use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;

/// Size of a buffer: the longest read of a kernel.
const BUFFER_BYTES: usize = 1 << 20;
/// Reads at least this long use one: a shorter answer would occupy a buffer that is nearly empty.
const SHARE_BYTES_MIN: usize = 256 << 10;
/// Idle buffers kept.
const IDLE_MAX: usize = 16;

/// Idle buffers.
#[derive(Default)]
pub(crate) struct Buffers {
    idle: Mutex<Vec<Box<[u8]>>>,
}

/// One buffer; goes back when dropped.
struct Buffer {
    bytes: Box<[u8]>,
    home: Arc<Buffers>,
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut idle = self.home.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(std::mem::take(&mut self.bytes));
        }
    }
}

impl Buffers {
    /// Lets `fill` put up to `len` bytes into a buffer; it returns their number.
    pub(crate) fn fill<E>(
        self: &Arc<Self>,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<Bytes, E> {
        if !(SHARE_BYTES_MIN..=BUFFER_BYTES).contains(&len) {
            let mut bytes = vec![0; len];
            let filled = fill(&mut bytes)?;
            bytes.truncate(filled);
            return Ok(bytes.into());
        }
        let idle = self.idle.lock().pop();
        let bytes = idle.unwrap_or_else(|| vec![0; BUFFER_BYTES].into_boxed_slice());
        let mut buffer = Buffer { bytes, home: self.clone() };
        let filled = fill(&mut buffer.bytes[..len])?;
        // Bytes of an earlier answer beyond the filled part are not sent.
        Ok(Bytes::from_owner(buffer).slice(..filled.min(len)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(buffers: &Arc<Buffers>, len: usize, value: u8, filled: usize) -> Bytes {
        buffers
            .fill(len, |bytes| {
                bytes[..filled].fill(value);
                Ok::<_, ()>(filled)
            })
            .unwrap()
    }

    #[test]
    fn a_buffer_comes_back_and_shows_nothing_of_its_past() {
        let buffers = Arc::new(Buffers::default());
        let first = fill(&buffers, BUFFER_BYTES, 7, BUFFER_BYTES);
        let address = first.as_ptr();
        assert_eq!(buffers.idle.lock().len(), 0);
        drop(first);
        let second = fill(&buffers, SHARE_BYTES_MIN, 9, 10);
        assert_eq!(second.as_ptr(), address);
        assert_eq!(second, [9; 10][..]);
        let third = fill(&buffers, BUFFER_BYTES, 1, 0);
        assert!(third.is_empty());
        assert_eq!(buffers.fill(BUFFER_BYTES, |_| Err(5)), Err(5));
        drop((second, third));
        assert_eq!(buffers.idle.lock().len(), 2);
    }

    #[test]
    fn short_and_very_long_answers_have_memory_of_their_own() {
        let buffers = Arc::new(Buffers::default());
        assert_eq!(fill(&buffers, 10, 3, 4), [3; 4][..]);
        assert_eq!(fill(&buffers, BUFFER_BYTES + 1, 3, 5), [3; 5][..]);
        assert_eq!(buffers.idle.lock().len(), 0);
        let many: Vec<_> = (0..IDLE_MAX + 3).map(|_| fill(&buffers, BUFFER_BYTES, 1, 1)).collect();
        drop(many);
        assert_eq!(buffers.idle.lock().len(), IDLE_MAX);
    }
}
