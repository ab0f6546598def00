//! Read-ahead: bytes are fetched before programs ask for them (docs/read-ahead.md).
//!
//! [`readers`] sees how each open file is read, and says what comes next; [`pieces`] keeps what was
//! fetched; [`ledger`] has the budget and the account of waste. All three are pure. [`fetch`] acts.
//!
//! **Why nothing old is shown.** A piece is asked for under a guard of DATA of the whole file, and
//! carries the tenure of that lock. Bytes of objects change only by a client that holds WRITE, and
//! that is granted when every DATA of others is gone. So as long as the tenure lasts, only this
//! mount can make a piece old, and it drops all pieces of a file when
//! - DATA is called back, given back or lost: another tenure is another number, so even a piece
//!   that comes too late is not served;
//! - a write is absorbed: nothing is fetched ahead of a file again until all of it is stored and
//!   reported;
//! - an operation takes the file's gate for itself (a write that goes through, truncate,
//!   fallocate): reads share the gate, so nothing is fetched meanwhile;
//! - the layout is called back.

pub(crate) mod fetch;
pub mod ledger;
mod pieces;
mod readers;

use crate::handle::FileHandle;
use parking_lot::Mutex;
use pieces::Pieces;
use readers::Readers;
use std::sync::atomic::AtomicU64;

/// An open file that is being read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reader {
    /// Its number.
    pub handle: FileHandle,
    /// The kernel reads into pages, which it holds until then.
    pub from_page_cache: bool,
}

/// A read under DATA of the whole file, as read-ahead sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    /// Tenure of DATA.
    pub(crate) tenure: u64,
    /// Where the file ends, bytes.
    pub(crate) size: u64,
    /// Open file.
    pub(crate) handle: FileHandle,
}

#[derive(Default)]
struct State {
    readers: Readers,
    pieces: Pieces,
}

/// Read-ahead of one file.
#[derive(Default)]
pub struct FileAhead {
    state: Mutex<State>,
    /// Number of its last use in the ledger; 0: none.
    last_use: AtomicU64,
}

impl FileAhead {
    /// All that was fetched goes.
    pub(crate) fn forget(&self) {
        self.state.lock().pieces.clear();
    }
}
