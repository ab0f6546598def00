//! The operations of a rank on a file system, whichever way it reaches it.

use crate::failure::BenchError;

/// A way to a file system. A path is relative to the benchmark's folder there; `bytes` is the size
/// a file has.
pub trait Door {
    /// Makes a folder.
    ///
    /// # Errors
    /// As mkdir(2); the others likewise.
    fn mkdir(&mut self, dir: &str, name: &str) -> Result<(), BenchError>;

    /// Removes an empty folder.
    ///
    /// # Errors
    /// As rmdir(2).
    fn rmdir(&mut self, dir: &str, name: &str) -> Result<(), BenchError>;

    /// Makes a file that must not be there, writes it at one go, closes it.
    ///
    /// # Errors
    /// As open(2), write(2), close(2).
    fn create(&mut self, dir: &str, name: &str, data: &[u8]) -> Result<(), BenchError>;

    /// Attributes of a file or folder; of a file its size, which must be `bytes`.
    ///
    /// # Errors
    /// As stat(2), or the size is another.
    fn stat(&mut self, dir: &str, name: &str, bytes: Option<u64>) -> Result<(), BenchError>;

    /// Opens a file, reads all of it, closes it. `buffer` has its size.
    ///
    /// # Errors
    /// As open(2) and read(2), or there is less.
    fn read(&mut self, dir: &str, name: &str, buffer: &mut [u8]) -> Result<(), BenchError>;

    /// Removes a file.
    ///
    /// # Errors
    /// As unlink(2).
    fn unlink(&mut self, dir: &str, name: &str) -> Result<(), BenchError>;
}
