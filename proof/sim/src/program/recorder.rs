//! What programs write down.

use crate::bytes_seen::BytesSeen;
use crate::history::{History, Ino, Moment, mdt_of};
use crate::locks_seen::LocksSeen;
use crate::realms_seen::RealmsSeen;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The histories, which all programs share.
#[derive(Clone, Default)]
pub struct Recorder {
    /// Names.
    pub history: History,
    /// Data.
    pub bytes: BytesSeen,
    /// Locks.
    pub locks: LocksSeen,
    /// What belongs to which tenant.
    pub realms: RealmsSeen,
    /// Errors that are found at first sight.
    pub found: Arc<Mutex<Vec<String>>>,
    /// Mounts on which an open file was gone, and the error that the program got.
    pub gone: Arc<Mutex<Vec<(usize, String)>>>,
    /// Operations that were answered.
    pub answered: Arc<Mutex<u64>>,
    /// Names that were answered before this are durable at this MDT: the latest sync by it that was
    /// answered began then.
    pub durable: Arc<Mutex<BTreeMap<u16, Moment>>>,
}

impl Recorder {
    /// A sync of this file that began then was answered. The file's MDT commits everything that it
    /// has.
    pub(super) fn synced(&self, file: Ino, began: Moment) {
        let mut durable = self.durable.lock();
        let of_mdt = durable.entry(mdt_of(file)).or_default();
        *of_mdt = began.max(*of_mdt);
    }
}
