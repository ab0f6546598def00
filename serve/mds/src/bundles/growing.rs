//! Directories that grow are split by themselves (docs/dne.md, section 12).
//!
//! The MDT of a stripe counts the names that are made in it ([`crate::dir_growth`]), and asks the
//! MDT of the directory itself for a split.

use super::restripe::Restripe;
use crate::dir_growth::Grows;
use crate::mds::Mds;
use crate::records::tail;
use crate::state::State;
use layout::lmv_ea;
use namespace::inode::InodeFlags;
use namespace::view::{View, directory};
use std::ops::ControlFlow;
use std::time::Duration;
use types::credentials::Credentials;
use types::dir_stripes::DirDefault;
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use types::session::ClientUuid;
use types::target::TargetIndex;
use wire::mds::{Setxattr, SetxattrFlags};

/// A hot directory with fewer names is not worth a split.
const FEW: usize = 1000;
/// How long another MDT has to begin.
const ANSWER: Duration = Duration::from_secs(10);
/// Names that are counted in one transaction.
const COUNTED_AT_ONCE: usize = 4096;
/// Pause between two of them.
const TURN: Duration = Duration::from_micros(100);

impl Mds {
    /// A client has made a name in a directory.
    pub(crate) fn has_grown(&self, state: &mut State, dir: Fid, client: ClientUuid) {
        if !self.auto_split() || self.peers.is_empty() {
            return;
        }
        if state.growth.made(dir, client, self.env.clock.now(), self.split_count()) {
            self.passing.wake();
        }
    }

    /// Looks at a directory, and has it split if it is hot or large.
    pub(super) async fn grown(&self, dir: Fid, grows: Grows) {
        match self.split_grown(dir, grows).await {
            Ok(None) => {}
            Ok(Some((master, count))) => {
                tracing::info!(target = %self.name, %master, count, ?grows, "directory is split");
            }
            // Names move already, it was removed, or an MDT is full or away: it may grow on.
            Err(errno) => {
                tracing::debug!(target = %self.name, %dir, %errno, ?grows, "directory is not split");
            }
        }
    }

    async fn split_grown(&self, dir: Fid, grows: Grows) -> Result<Option<(Fid, u16)>, Errno> {
        let spaces = self.spaces_of_mdts().await;
        let mdts = spaces.iter().filter(|space| space.active).count() as u16; // <= TARGETS_MAX
        let (master, now) = self.read(|records| {
            let inode = directory(records, dir)?;
            if !inode.flags.contains(InodeFlags::STRIPED) {
                return Ok((dir, 1));
            }
            let stripes = tail::stripes(&inode)?;
            // While names move it is left alone.
            Ok((stripes.master(), stripes.moving().map_or(stripes.count(), |_| u16::MAX)))
        })?;
        let (count, more_than) = match grows {
            Grows::Hot => (mdts, FEW - 1),
            Grows::Large => {
                (now.saturating_mul(self.split_delta()).min(mdts), self.split_count() as usize)
            }
        };
        if now >= count || !self.has_more(dir, more_than).await? {
            return Ok(None);
        }
        match self.peers.get(TargetIndex(master.mdt())) {
            None => {
                let wanted = Restripe { count, hash: None, by_itself: true };
                self.restripe(&Credentials::root(), None, master, wanted).await?;
            }
            Some(peer) => {
                let mut value =
                    lmv_ea::encode_default(&DirDefault { count, ..DirDefault::default() });
                lmv_ea::leave_hash(&mut value);
                lmv_ea::by_itself(&mut value);
                let (name, flags) = (b"lustre.lmv".as_slice().into(), SetxattrFlags::default());
                let set = Setxattr { fid: master, name, value: value.into(), flags };
                let who = Credentials::root();
                tokio::select! {
                    biased;
                    answer = peer.setxattr(&who, set) => answer.map_err(|error| error.errno())?,
                    () = self.env.clock.sleep(ANSWER) => return Err(Errno::ETIMEDOUT),
                }
            }
        }
        Ok(Some((master, count)))
    }

    /// True if there are more names than this.
    pub(super) async fn has_more(&self, dir: Fid, than: usize) -> Result<bool, Errno> {
        let (mut counted, mut after) = (0, None::<Name>);
        while counted <= than {
            let (n, last) = self.read(|records| {
                let (mut n, mut last) = (0, None);
                records.entries(dir, after.as_ref().map(Name::as_bytes), &mut |name, _| {
                    n += 1;
                    if n < COUNTED_AT_ONCE {
                        return ControlFlow::Continue(());
                    }
                    last = Name::new(name).ok();
                    ControlFlow::Break(())
                })?;
                Ok((n, last))
            })?;
            counted += n;
            if last.is_none() {
                break;
            }
            after = last;
            // Others get a turn.
            self.env.clock.sleep(TURN).await;
        }
        Ok(counted > than)
    }
}
