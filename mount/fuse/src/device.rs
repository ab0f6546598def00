//! /dev/fuse: open, clone, read a message, write one.
//!
//! A reply must go to the descriptor that delivered its request; requests therefore keep their
//! `Device` alive.

use crate::abi::DEV_IOC_CLONE;
use crate::limits::REPLY_PIECES_MAX;
use crate::reply::Encoded;
use bytes::Bytes;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io::IoSlice;

/// One open of /dev/fuse.
#[derive(Debug)]
pub struct Device {
    fd: OwnedFd,
}

/// Result of reading the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// A message of this many bytes.
    Message(usize),
    /// Nothing this time.
    Again,
    /// The file system was unmounted or the connection aborted.
    Ended,
}

impl Device {
    /// Opens /dev/fuse; not yet part of any mount.
    ///
    /// # Errors
    /// ENOENT without the kernel module, EACCES or EPERM without the right.
    pub fn open() -> Result<Device, Errno> {
        let fd = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Device { fd })
    }

    /// A second channel to the same mount.
    ///
    /// # Errors
    /// As [`Device::open`]; EINVAL if this device is not mounted.
    pub fn try_clone(&self) -> Result<Device, Errno> {
        let clone = Device::open()?;
        let source: u32 = self.fd.as_raw_fd() as u32;
        // SAFETY: FUSE_DEV_IOC_CLONE reads one u32, which lives through the call.
        let result = unsafe {
            libc::ioctl(clone.fd.as_raw_fd(), libc::Ioctl::from(DEV_IOC_CLONE), &raw const source)
        };
        if result < 0 {
            return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
        }
        Ok(clone)
    }

    /// The descriptor's number, for the mount option `fd=`.
    pub fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// An error that no FUSE device should give.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Received, Errno> {
        match rustix::io::read(&self.fd, buffer) {
            Ok(bytes) => Ok(Received::Message(bytes)),
            // ENOENT: the request was taken back before it was read.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => Ok(Received::Again),
            Err(Errno::NODEV | Errno::CONNABORTED) => Ok(Received::Ended),
            Err(error) => Err(error),
        }
    }

    /// Writes a reply.
    ///
    /// # Errors
    /// ENOENT: the request was aborted; ENODEV: the mount is gone; EINVAL: the kernel rejects the
    /// reply.
    pub fn reply(&self, encoded: &Encoded) -> Result<(), Errno> {
        let pieces = encoded.data.pieces();
        match pieces {
            [only] if only.is_empty() => self.write(&[IoSlice::new(encoded.head())]),
            [only] => self.write(&[IoSlice::new(encoded.head()), IoSlice::new(only)]),
            many if many.len() <= REPLY_PIECES_MAX => {
                let slices = std::iter::once(encoded.head()).chain(many.iter().map(Bytes::as_ref));
                self.write(&slices.map(IoSlice::new).collect::<Vec<_>>())
            }
            many => self.write(&[IoSlice::new(encoded.head()), IoSlice::new(&many.concat())]),
        }
    }

    /// Writes one message, whole or not at all.
    ///
    /// # Errors
    /// As the kernel gives them.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> Result<(), Errno> {
        loop {
            match rustix::io::writev(self.fd.as_fd(), parts) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
