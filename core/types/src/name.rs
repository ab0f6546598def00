//! One component of a path.

use crate::errno::Errno;
use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

/// Longest name, bytes (NAME_MAX).
pub const NAME_BYTES_MAX: usize = 255;

/// A file name: 1..=255 bytes, without `/` and NUL, neither `.` nor `..`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Box<[u8]>);

impl Name {
    /// Checks and copies.
    ///
    /// # Errors
    /// ENAMETOOLONG beyond 255 bytes; EINVAL for what no directory can hold.
    pub fn new(bytes: &[u8]) -> Result<Name, Errno> {
        if bytes.len() > NAME_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        if bytes.is_empty()
            || bytes == b"."
            || bytes == b".."
            || bytes.iter().any(|b| *b == b'/' || *b == 0)
        {
            return Err(Errno::EINVAL);
        }
        Ok(Name(bytes.into()))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Deref for Name {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Name {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_real_names_are_names() {
        assert!(Name::new(b"a").is_ok());
        assert!(Name::new(&[b'x'; 255]).is_ok());
        assert_eq!(Name::new(&[b'x'; 256]), Err(Errno::ENAMETOOLONG));
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0b"] {
            assert_eq!(Name::new(bad), Err(Errno::EINVAL));
        }
    }
}
