//! What each thread of the kernel was told last under a name (docs/locks/kernel.md, R34 and R41).
//!
//! rename(2) asks for the name that it replaces under the lock of its directory. Another thread may
//! revalidate the same name without that lock, be told something newer, and take the name out of
//! the kernel's cache, while the rename goes on with the inode that it found. So of a name to be
//! replaced, the look of the rename's own thread counts.
//!
//! Bound: a place for each of [`PLACES`] threads. Threads that share a place forget each other's
//! look; then what any thread was told counts.

use foldhash::fast::FixedState;
use parking_lot::Mutex;
use std::hash::BuildHasher;
use types::fid::Fid;
use types::name::Name;

/// Threads whose last look is remembered.
const PLACES: usize = 256;

/// What one thread was told.
#[derive(Clone, Copy)]
struct Look {
    thread: u32,
    dir: Fid,
    name: u64,
    found: Option<Fid>,
}

/// See the module.
pub(crate) struct LastLooks(Box<[Mutex<Option<Look>>]>);

impl Default for LastLooks {
    fn default() -> LastLooks {
        LastLooks((0..PLACES).map(|_| Mutex::default()).collect())
    }
}

impl LastLooks {
    /// A thread was told this of a name; `None`: there is nothing.
    pub(crate) fn note(&self, thread: u32, dir: Fid, name: &Name, found: Option<Fid>) {
        *self.place(thread).lock() = Some(Look { thread, dir, name: hash(name), found });
    }

    /// What a thread was told, if this name was the last one that it asked for.
    pub(crate) fn of(&self, thread: u32, dir: Fid, name: &Name) -> Option<Option<Fid>> {
        let look = (*self.place(thread).lock())?;
        ((look.thread, look.dir, look.name) == (thread, dir, hash(name))).then_some(look.found)
    }

    fn place(&self, thread: u32) -> &Mutex<Option<Look>> {
        &self.0[thread as usize % PLACES]
    }
}

fn hash(name: &Name) -> u64 {
    FixedState::default().hash_one(&name[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_look_of_a_thread_counts() {
        let looks = LastLooks::default();
        let (a, b) = (Name::new(b"a").unwrap(), Name::new(b"b").unwrap());
        let other = Fid { oid: Fid::ROOT.oid + 1, ..Fid::ROOT };
        assert_eq!(looks.of(7, Fid::ROOT, &a), None);
        looks.note(7, Fid::ROOT, &a, Some(other));
        looks.note(8, Fid::ROOT, &a, None);
        assert_eq!(looks.of(7, Fid::ROOT, &a), Some(Some(other)));
        assert_eq!(looks.of(8, Fid::ROOT, &a), Some(None));
        assert_eq!((looks.of(7, Fid::ROOT, &b), looks.of(7, other, &a)), (None, None));
        looks.note(7 + PLACES as u32, Fid::ROOT, &b, None);
        assert_eq!(looks.of(7, Fid::ROOT, &a), None, "its place was taken");
    }
}
