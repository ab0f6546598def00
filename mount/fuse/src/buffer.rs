//! Request buffers, reused.
//!
//! A large WRITE hands its whole buffer over instead of copying the data; the buffer comes back
//! when the last `Bytes` of it is dropped. At most `IDLE_BUFFERS_MAX` lie idle. The number in use
//! is bounded by their users (requests in flight, the client's dirty limit).

use crate::limits::IDLE_BUFFERS_MAX;
use bytes::Bytes;
use parking_lot::Mutex;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Messages at least this long are shared rather than copied. Below it a copy costs less than a
/// nearly empty buffer that stays occupied.
pub const SHARE_BYTES_MIN: usize = 256 << 10;

/// Idle buffers of one size.
#[derive(Debug)]
pub struct Pool {
    bytes: usize,
    idle: Mutex<Vec<Box<[u8]>>>,
}

impl Pool {
    /// Of buffers of `bytes` bytes.
    pub fn new(bytes: usize) -> Arc<Pool> {
        Arc::new(Pool { bytes, idle: Mutex::new(Vec::new()) })
    }

    /// An idle one or a new one.
    pub fn take(self: &Arc<Self>) -> Buffer {
        let idle = self.idle.lock().pop();
        // A new one is zero pages of the kernel: it costs nothing until it is used.
        let bytes = idle.unwrap_or_else(|| vec![0; self.bytes].into_boxed_slice());
        Buffer { bytes, pool: self.clone() }
    }
}

/// One buffer; goes back to its pool when dropped.
#[derive(Debug)]
pub struct Buffer {
    bytes: Box<[u8]>,
    pool: Arc<Pool>,
}

impl Buffer {
    /// The first `len` bytes as something that many can hold.
    pub fn into_bytes(self, len: usize) -> Bytes {
        Bytes::from_owner(self).slice(..len)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut idle = self.pool.idle.lock();
        if idle.len() < IDLE_BUFFERS_MAX {
            idle.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_after_their_last_reader() {
        let pool = Pool::new(4096);
        let mut buffer = pool.take();
        buffer[0] = 7;
        let address = buffer.as_ptr();
        let bytes = buffer.into_bytes(10);
        let part = bytes.slice(0..1);
        drop(bytes);
        assert_ne!(pool.take().as_ptr(), address, "still in use");
        assert_eq!(part[0], 7);
        drop(part);
        let addresses: Vec<_> = [pool.take(), pool.take()].iter().map(|b| b.as_ptr()).collect();
        assert!(addresses.contains(&address));
    }

    #[test]
    fn idle_buffers_are_bounded() {
        let pool = Pool::new(16);
        let many: Vec<_> = (0..IDLE_BUFFERS_MAX + 5).map(|_| pool.take()).collect();
        drop(many);
        assert_eq!(pool.idle.lock().len(), IDLE_BUFFERS_MAX);
    }
}
