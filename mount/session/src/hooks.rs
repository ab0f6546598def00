//! Events of sessions, for the parts of a mount that keep something of them: locks, open files,
//! grants of space.

use rpc::callbacks::Callbacks;
use rpc::import::hooks::Restore;
use std::collections::BTreeSet;
use std::sync::Arc;
use stubs::mdc::{Mdc, Watch};
use types::credentials::Credentials;
use types::fid::Fid;
use types::target::TargetIndex;
use wire::message::Op;

/// A caller that uses a file: the file, which may have another FID than the one after which its
/// objects are named.
#[derive(Clone, PartialEq, Debug)]
pub struct FileUser {
    /// The file.
    pub file: Fid,
    /// The caller.
    pub credentials: Credentials,
}

/// The parts of a mount above its sessions. Sessions keep it as long as they live, so it must not
/// keep them.
pub trait Hooks: Send + Sync + 'static {
    /// Answers the questions of targets.
    fn callbacks(&self) -> Arc<dyn Callbacks>;
    /// Sees the requests to an MDT and their replies.
    fn watch(&self, mdt: TargetIndex) -> Arc<dyn Watch>;
    /// Brings back, at an MDT in recovery, what that MDT had granted.
    fn restore(&self, mdc: &Mdc) -> Arc<dyn Restore>;
    /// An MDT has lost the session: `evicted` if it took this client for dead, else it restarted.
    fn mdt_lost(&self, mdt: TargetIndex, evicted: bool);
    /// The new session with that MDT stands.
    fn mdt_back(&self, mdc: Mdc);
    /// The callers act as others than before: what the kernel keeps of what they may look up is out
    /// of date.
    fn squash_changed(&self);
    /// Files that are open here, or of which data is dirty.
    fn files_in_use(&self) -> BTreeSet<Fid>;
    /// After which file the objects of this one are named, as far as its layout is known.
    fn named(&self, file: Fid) -> Fid;
    /// The callers that have files open here whose objects are named after this one: any of them
    /// may have the permission.
    fn users_of(&self, named: Fid) -> Vec<FileUser>;
    /// An OST has lost the session, and with it all grants of space.
    fn ost_lost(&self, ost: TargetIndex);
    /// An OST restarted without these changes, which it had answered and which cannot be brought
    /// back.
    fn objects_lost(&self, lost: &[Op]);
}
