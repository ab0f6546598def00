//! What a starting MDT does with what its last life left behind.
//!
//! - FIDs: the next range of sequences is recorded; the caller commits before any of them is handed out.
//! - Orphans: nobody has anything open at a target that just started, so they are destroyed.
//! - Writer marks: those files and their objects may disagree; the settler sees to it.
//! - The destroy log needs nothing: the destroyer reads it from the start.

use crate::deal::Deal;
use crate::fids::{Fids, RANGE};
use crate::mds::{StartError, State};
use crate::records::Records;
use disk::key::{self, MDT_STATE, Tag};
use disk::mdt_state::{self, MdtState};
use env::Env;
use namespace::context::Context;
use namespace::view::View;
use std::ops::ControlFlow;
use std::time::Duration;
use store::store::Store;
use types::credentials::Credentials;
use types::fid::Fid;
use types::target::TargetName;

/// What the new life starts with.
pub(crate) struct Recovered {
    pub(crate) fids: Fids,
    /// Files with a writer mark, and whether it says that their objects must be cut.
    pub(crate) marked: Vec<(Fid, bool)>,
}

/// Reads and repairs, in one transaction. The caller commits.
pub(crate) fn recover(store: &Store, env: &Env, name: TargetName, boot: u64) -> Result<Recovered, StartError> {
    let tx = store.begin();
    let damaged = |damage| StartError::Damaged { target: name, damage };
    let first = Fids::first_seq(name.index.0);
    let next = tx.get(MDT_STATE, mdt_state::decode)?.transpose().map_err(damaged)?.map_or(first, |s| s.seq_next);
    if next + RANGE > first + Fid::SEQ_WIDTH {
        return Err(StartError::FidsUsedUp { target: name });
    }
    let orphans = marked(&tx, Tag::Orphan)?;
    let writers = marked(&tx, Tag::Writer)?;

    let credentials = Credentials::root();
    let ctx = Context { credentials: &credentials, now: env.clock.wall(), version: tx.transno().0 };
    let mut state = State::new(Fids::new(next), Duration::ZERO);
    let mut deal = Deal::own();
    let mut records = Records::new(tx, &mut state, boot, &mut deal);
    records.tx.put(MDT_STATE, &mdt_state::encode(&MdtState { seq_next: next + RANGE }));
    for fid in &orphans {
        match records.inode(*fid) {
            Ok(Some(inode)) if inode.attr.nlink == 0 => records.destroy(&inode),
            Ok(_) => {}
            Err(errno) => tracing::error!(%fid, %errno, "orphan stays behind"),
        }
        records.tx.delete(&key::orphan(*fid));
    }
    if name.index.0 == 0 && matches!(records.inode(Fid::ROOT), Ok(None)) {
        records.put_inode(&namespace::create::root(&ctx));
    }
    let marked: Vec<_> = writers.into_iter().map(|fid| (fid, records.marked_cut(fid))).collect();
    records.finish();
    if !orphans.is_empty() || !marked.is_empty() {
        tracing::info!(target = %name, orphans = orphans.len(), unsettled = marked.len(), "recovered");
    }
    Ok(Recovered { fids: state.fids, marked })
}

fn marked(tx: &store::tx::Tx<'_>, tag: Tag) -> Result<Vec<Fid>, StartError> {
    let mut fids = Vec::new();
    let (start, end) = key::all(tag);
    tx.scan(&start, &end, |key, _| {
        fids.extend(key::fid_of(key));
        ControlFlow::Continue(())
    })?;
    Ok(fids)
}
