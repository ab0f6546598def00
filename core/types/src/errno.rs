//! POSIX error numbers as one small type.

use std::fmt;

/// An error number of `errno.h`; never 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident)*) => {
        impl Errno {
            $(#[doc = concat!("`", stringify!($name), "`")] pub const $name: Errno = Errno(libc::$name);)*

            /// The symbol, for example `ENOENT`.
            pub fn symbol(self) -> Option<&'static str> {
                $(if self.0 == libc::$name { return Some(stringify!($name)); })*
                None
            }
        }
    };
}

errnos! {
    EPERM ENOENT EINTR EIO ENXIO E2BIG EBADF EAGAIN ENOMEM EACCES EFAULT EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR
    EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK
    ENOSYS ENOTEMPTY ELOOP ENODATA ETIME EPROTO EOVERFLOW EBADMSG EOPNOTSUPP EADDRINUSE ENETUNREACH ECONNRESET
    ENOTCONN ESHUTDOWN ETIMEDOUT ECONNREFUSED EHOSTUNREACH EALREADY EINPROGRESS ESTALE EREMOTE EREMCHG EDQUOT ECANCELED
    EPROTONOSUPPORT EMSGSIZE ENOKEY EKEYREJECTED
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // std has the table of messages; it appends " (os error N)", which people read well.
        write!(f, "{}", std::io::Error::from_raw_os_error(self.0))
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.symbol() {
            Some(symbol) => f.write_str(symbol),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl std::error::Error for Errno {}

impl From<&std::io::Error> for Errno {
    /// The number the kernel gave; EOPNOTSUPP for what is unsupported by our own word; else EIO.
    fn from(error: &std::io::Error) -> Errno {
        match error.raw_os_error() {
            Some(number) if number > 0 => Errno(number),
            None if error.kind() == std::io::ErrorKind::Unsupported => Errno::EOPNOTSUPP,
            _ => Errno::EIO,
        }
    }
}
