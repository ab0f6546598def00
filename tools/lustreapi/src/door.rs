//! The boundary to C: pointers, errors, panics.
//!
//! The wrappers have the form of the pointers they hold, so C passes ordinary pointers. A NULL is
//! found and is EINVAL. For any other pointer the caller promises that it means what the header
//! says, as with every C library. The wrappers can only come from C, so this is the one file that
//! relies on it.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use types::errno::Errno;

/// Why a function fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure(pub Errno);

/// Result of a function.
pub type Answer<T> = Result<T, Failure>;

/// A pointer that must not be NULL is, or a value is none.
pub const EINVAL: Failure = Failure(Errno::EINVAL);
/// A path or descriptor is on no SheenFS.
pub const ENOTTY: Failure = Failure(Errno::ENOTTY);
/// SheenFS does not have it.
pub const EOPNOTSUPP: Failure = Failure(Errno::EOPNOTSUPP);

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Failure {
        Failure(errno)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure(Errno::from(&error))
    }
}

impl From<rustix::io::Errno> for Failure {
    fn from(errno: rustix::io::Errno) -> Failure {
        Failure(Errno(errno.raw_os_error()))
    }
}

fn guarded<T>(work: impl FnOnce() -> Answer<T>) -> Answer<T> {
    // A panic leaves nothing half done but the layout that was being changed, which stays a valid
    // value.
    let answer = catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Failure(Errno::EIO)));
    if let Err(Failure(errno)) = answer {
        // SAFETY: errno is this thread's own.
        unsafe { *libc::__errno_location() = errno.0 };
    }
    answer
}

/// For functions that return 0 or more, or a negative errno.
pub fn negative(work: impl FnOnce() -> Answer<c_int>) -> c_int {
    guarded(work).unwrap_or_else(|Failure(errno)| -errno.0)
}

/// For functions that return 0 or more, or -1 with errno set.
pub fn minus_one(work: impl FnOnce() -> Answer<c_int>) -> c_int {
    guarded(work).unwrap_or(-1)
}

/// For functions that return a new value, or NULL with errno set.
pub fn boxed<T>(work: impl FnOnce() -> Answer<T>) -> Owned<T> {
    Owned(guarded(work).map_or(std::ptr::null_mut(), |value| Box::into_raw(Box::new(value))))
}

/// For functions that cannot fail; a panic is `otherwise`.
pub fn plain<T>(otherwise: T, work: impl FnOnce() -> T) -> T {
    guarded(|| Ok(work())).unwrap_or(otherwise)
}

/// A text from C.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text(*const c_char);

impl Text {
    /// A text that lies in a structure of C's.
    pub fn of(pointer: *const c_char) -> Text {
        Text(pointer)
    }

    /// Bytes of the text without the NUL; `None` for NULL.
    pub fn bytes(&self) -> Option<&[u8]> {
        // SAFETY: C passes NULL or a text that ends with NUL and stays during the call.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }

    /// UTF-8.
    ///
    /// # Errors
    /// EINVAL: NULL, or no UTF-8.
    pub fn str(&self) -> Answer<&str> {
        std::str::from_utf8(self.bytes().ok_or(EINVAL)?).map_err(|_| EINVAL)
    }

    /// A path.
    ///
    /// # Errors
    /// EINVAL: NULL; ENOENT: empty.
    pub fn path(&self) -> Answer<&Path> {
        match self.bytes().ok_or(EINVAL)? {
            [] => Err(Failure(Errno::ENOENT)),
            bytes => Ok(Path::new(OsStr::from_bytes(bytes))),
        }
    }

    /// The place `offset` bytes into the text, for C to read on from.
    pub fn at(&self, offset: usize) -> *mut c_char {
        self.0.wrapping_add(offset).cast_mut()
    }
}

/// Values that C passes for reading and writing: one, or as many as another argument says.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Place<T>(*mut T);

impl<T: Copy> Place<T> {
    /// True for NULL.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The first value.
    ///
    /// # Errors
    /// EINVAL: NULL.
    pub fn get(&self) -> Answer<T> {
        self.get_nth(0)
    }

    /// A value of an array that C says is longer than `n`.
    ///
    /// # Errors
    /// EINVAL: NULL.
    pub fn get_nth(&self, n: usize) -> Answer<T> {
        // SAFETY: C passes NULL or what it says, though perhaps not aligned.
        if self.is_null() { Err(EINVAL) } else { Ok(unsafe { self.0.add(n).read_unaligned() }) }
    }

    /// The first `count` values of an array that has this length by the caller's promise.
    ///
    /// # Errors
    /// EINVAL: NULL.
    pub fn get_all(&self, count: usize) -> Answer<Vec<T>> {
        (0..count).map(|n| self.get_nth(n)).collect()
    }

    /// Writes the first value.
    ///
    /// # Errors
    /// EINVAL: NULL.
    pub fn put(&self, value: T) -> Answer<()> {
        self.put_nth(0, value)
    }

    /// Writes a value of an array that C says is longer than `n`.
    ///
    /// # Errors
    /// EINVAL: NULL.
    pub fn put_nth(&self, n: usize, value: T) -> Answer<()> {
        if self.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: as in get_nth; memory that C passes for writing is its own, and no other thread
        // uses it during the call.
        unsafe { self.0.add(n).write_unaligned(value) };
        Ok(())
    }

    /// Writes the first value, if there is a place for it.
    pub fn put_if_wanted(&self, value: T) {
        if !self.is_null() {
            // A place that is not NULL takes it.
            let _ = self.put(value);
        }
    }

    /// Writes all of `values` into an array that C says is long enough.
    ///
    /// # Errors
    /// EINVAL: NULL.
    pub fn put_all(&self, values: &[T]) -> Answer<()> {
        values.iter().enumerate().try_for_each(|(n, value)| self.put_nth(n, *value))
    }

    /// The place `bytes` behind this one, of another type: for what follows a header.
    pub fn behind<U>(&self, bytes: usize) -> Place<U> {
        Place(self.0.cast::<u8>().wrapping_add(bytes).cast())
    }
}

impl Place<c_char> {
    /// Writes a text and its NUL, `size` bytes at most.
    ///
    /// # Errors
    /// EINVAL: NULL; `full`: there is not room enough.
    pub fn put_text(&self, size: usize, text: &[u8], full: Errno) -> Answer<()> {
        if self.is_null() {
            return Err(EINVAL);
        }
        if text.len() >= size {
            return Err(Failure(full));
        }
        let ended = text.iter().chain(&[0]);
        ended.enumerate().try_for_each(|(n, byte)| self.put_nth(n, *byte as c_char))
    }

    /// The place itself, for C to keep.
    pub fn at(&self, offset: usize) -> *mut c_char {
        self.0.wrapping_add(offset)
    }
}

/// A value that C holds and does not look into: made by [`boxed`], ended by [`Owned::end`].
#[repr(transparent)]
pub struct Owned<T>(*mut T);

impl<T> Clone for Owned<T> {
    fn clone(&self) -> Owned<T> {
        *self
    }
}

impl<T> Copy for Owned<T> {}

impl<T> Owned<T> {
    /// The value.
    ///
    /// # Errors
    /// EINVAL: NULL.
    pub fn get(&self) -> Answer<&T> {
        // SAFETY: C passes NULL or what `boxed` made and `end` did not take, from one thread at a
        // time.
        unsafe { self.0.as_ref() }.ok_or(EINVAL)
    }

    /// The value, to be changed.
    ///
    /// # Errors
    /// EINVAL: NULL.
    pub fn get_mut(&mut self) -> Answer<&mut T> {
        // SAFETY: as in get; nothing borrowed from it lives across calls.
        unsafe { self.0.as_mut() }.ok_or(EINVAL)
    }

    /// `None`: NULL.
    pub fn get_if_any(&self) -> Option<&T> {
        self.get().ok()
    }

    /// Frees it. NULL may be.
    pub fn end(self) {
        if !self.0.is_null() {
            // SAFETY: as in get; C gives it up.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }
}

/// An open file of C's.
///
/// # Errors
/// EBADF: it cannot be one.
pub fn open_file<'a>(fd: c_int) -> Answer<BorrowedFd<'a>> {
    if fd < 0 {
        return Err(Failure(Errno::EBADF));
    }
    // SAFETY: C keeps it open during the call; a closed one gives EBADF from the kernel.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Memory that C frees with free(3): the bytes and a NUL.
///
/// # Errors
/// ENOMEM.
pub fn allocated(bytes: &[u8]) -> Answer<*mut c_char> {
    // SAFETY: malloc has no preconditions.
    let place = Place(unsafe { libc::malloc(bytes.len() + 1) }.cast::<c_char>());
    place.put_text(bytes.len() + 1, bytes, Errno::ENOMEM).map_err(|_| Failure(Errno::ENOMEM))?;
    Ok(place.at(0))
}

#[cfg(test)]
pub mod testing {
    //! Calls as C would make them.

    use super::*;

    /// A text; it must outlive the call.
    pub fn text(text: &CStr) -> Text {
        Text(text.as_ptr())
    }

    /// NULL.
    pub fn null_text() -> Text {
        Text(std::ptr::null())
    }

    /// A place.
    pub fn place<T>(value: &mut T) -> Place<T> {
        Place(value)
    }

    /// The first of several.
    pub fn places<T>(values: &mut [T]) -> Place<T> {
        Place(values.as_mut_ptr())
    }

    /// NULL.
    pub fn null<T>() -> Place<T> {
        Place(std::ptr::null_mut())
    }

    /// NULL.
    pub fn nothing<T>() -> Owned<T> {
        Owned(std::ptr::null_mut())
    }

    /// errno of this thread.
    pub fn errno() -> c_int {
        // SAFETY: errno is this thread's own.
        unsafe { *libc::__errno_location() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_in_both_ways_and_a_panic_is_one() {
        assert_eq!(negative(|| Ok(7)), 7);
        assert_eq!((negative(|| Err(ENOTTY)), testing::errno()), (-libc::ENOTTY, libc::ENOTTY));
        assert_eq!((minus_one(|| Err(EINVAL)), testing::errno()), (-1, libc::EINVAL));
        assert!(boxed::<u8>(|| Err(EOPNOTSUPP)).0.is_null());
        assert_eq!(testing::errno(), libc::EOPNOTSUPP);
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        assert_eq!(negative(|| panic!("on purpose")), -libc::EIO);
        std::panic::set_hook(hook);
    }

    #[test]
    fn null_is_found_and_texts_keep_their_bounds() {
        assert_eq!(testing::null_text().str(), Err(EINVAL));
        assert_eq!(testing::null_text().path(), Err(EINVAL));
        assert_eq!(testing::null::<u64>().put(1), Err(EINVAL));
        assert_eq!(testing::text(c"").path(), Err(Failure(Errno::ENOENT)));
        let mut room = [b'x' as c_char; 4];
        let place = testing::places(&mut room);
        assert_eq!(place.put_text(3, b"abc", Errno::ERANGE), Err(Failure(Errno::ERANGE)));
        assert_eq!(place.put_text(0, b"", Errno::ERANGE), Err(Failure(Errno::ERANGE)));
        place.put_text(3, b"ab", Errno::ERANGE).unwrap();
        assert_eq!(room.map(|c| c as u8), *b"ab\0x");
        assert!(open_file(-1).is_err());
    }

    #[test]
    fn what_c_holds_is_freed_once_and_null_may_be() {
        let mut held = boxed(|| Ok(vec![1]));
        held.get_mut().unwrap().push(2);
        assert_eq!(held.get(), Ok(&vec![1, 2]));
        held.end();
        testing::nothing::<u8>().end();
        assert!(testing::nothing::<u8>().get_mut().is_err());
    }

    #[test]
    fn what_c_frees_comes_from_malloc() {
        let memory = allocated(b"text").unwrap();
        // SAFETY: just made, ended by NUL.
        assert_eq!(unsafe { CStr::from_ptr(memory) }, c"text");
        // SAFETY: from malloc, and not used again.
        unsafe { libc::free(memory.cast()) };
    }
}
