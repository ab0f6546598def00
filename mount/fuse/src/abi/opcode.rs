//! The kernel's requests.

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $number:literal)*) => {
        /// Kind of a request.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum Opcode {
            $($(#[$doc])* $name = $number,)*
        }

        impl Opcode {
            /// Every one, ascending.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$name,)*];

            /// From the header's number; `None` for a number that no known kernel sends.
            pub const fn from_number(number: u32) -> Option<Opcode> {
                match number {
                    $($number => Some(Opcode::$name),)*
                    _ => None,
                }
            }

            /// Name for people and for metrics.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Opcode::$name => stringify!($name),)*
                }
            }
        }
    };
}

opcodes! {
    /// Find a name; counts one reference to the node.
    Lookup = 1
    /// Drop references. No reply.
    Forget = 2
    /// Attributes.
    Getattr = 3
    /// Change attributes.
    Setattr = 4
    /// Target of a symbolic link.
    Readlink = 5
    /// Make a symbolic link.
    Symlink = 6
    /// Make a file, FIFO, socket or device.
    Mknod = 8
    /// Make a directory.
    Mkdir = 9
    /// Remove a name.
    Unlink = 10
    /// Remove a directory.
    Rmdir = 11
    /// Move a name, no flags.
    Rename = 12
    /// Second name.
    Link = 13
    /// Open a file.
    Open = 14
    /// Read data.
    Read = 15
    /// Write data.
    Write = 16
    /// Totals.
    Statfs = 17
    /// Last close of an open file description.
    Release = 18
    /// Make data durable.
    Fsync = 20
    /// Set an extended attribute.
    Setxattr = 21
    /// Get one.
    Getxattr = 22
    /// List them.
    Listxattr = 23
    /// Remove one.
    Removexattr = 24
    /// One close(2).
    Flush = 25
    /// First message.
    Init = 26
    /// Open a directory.
    Opendir = 27
    /// Names.
    Readdir = 28
    /// Last close of a directory.
    Releasedir = 29
    /// Make a directory durable.
    Fsyncdir = 30
    /// Asks for the lock that is in the way.
    Getlk = 31
    /// Lock or unlock, no waiting.
    Setlk = 32
    /// Lock, waiting.
    Setlkw = 33
    /// access(2), without default_permissions only.
    Access = 34
    /// Make and open a file.
    Create = 35
    /// The caller of another request got a signal. No reply.
    Interrupt = 36
    /// File block to device block.
    Bmap = 37
    /// The last message.
    Destroy = 38
    /// ioctl(2).
    Ioctl = 39
    /// poll(2).
    Poll = 40
    /// Answer to NOTIFY_RETRIEVE.
    NotifyReply = 41
    /// Many FORGETs. No reply.
    BatchForget = 42
    /// fallocate(2).
    Fallocate = 43
    /// Names with attributes.
    Readdirplus = 44
    /// Move a name, with flags.
    Rename2 = 45
    /// SEEK_DATA, SEEK_HOLE.
    Lseek = 46
    /// copy_file_range(2), 32-bit answer.
    CopyFileRange = 47
    /// DAX.
    Setupmapping = 48
    /// DAX.
    Removemapping = 49
    /// syncfs(2).
    Syncfs = 50
    /// O_TMPFILE.
    Tmpfile = 51
    /// statx(2), with birth time.
    Statx = 52
    /// copy_file_range(2), 64-bit answer.
    CopyFileRange64 = 53
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_opcodes_are_one_to_one() {
        for &op in Opcode::ALL {
            assert_eq!(Opcode::from_number(op as u32), Some(op), "{}", op.name());
        }
        for gone in [0, 7, 19, 54, 4096, u32::MAX] {
            assert_eq!(Opcode::from_number(gone), None);
        }
    }
}
