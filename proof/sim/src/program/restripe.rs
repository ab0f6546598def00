//! Directories are split and merged, and go to other MDTs.

use super::{Held, Program};
use bytes::Bytes;
use client::caller::Caller;
use layout::dir_stripes::MDTS_XATTR;
use layout::lmv_ea;
use types::dir_stripes::{DirDefault, DirSpec};
use types::errno::Errno;
use types::target::TargetIndex;
use wire::mds::SetxattrFlags;

impl Program {
    /// Takes a directory to other MDTs, unless its names move already.
    pub(super) async fn migrate(&mut self, dir: Held) {
        let mut mdts: Vec<TargetIndex> =
            (0..self.client.session().mdts().len() as u16).map(TargetIndex).collect();
        let count = if self.rng.chance(700) { 1 } else { self.rng.between(1, mdts.len() as u64) };
        for at in 0..count as usize {
            let other = self.rng.between(at as u64, mdts.len() as u64 - 1) as usize;
            mdts.swap(at, other);
        }
        mdts.truncate(count as usize);
        let spec = DirSpec { count: count as u16, mdts, ..DirSpec::default() }; // at most MDTS_MAX
        let (name, value) = (Bytes::from_static(MDTS_XATTR), Bytes::from(spec.encode()));
        let flags = SetxattrFlags::default();
        let set = self.client.clone().setxattr(Caller::root(), dir.node, name, value, flags).await;
        self.told(set.is_ok());
        if let Err(error) = set
            && ![Errno::EBUSY, Errno::ETIMEDOUT].contains(&error.errno())
        {
            self.unexpected("MDTs of", dir.ino, &error);
        }
    }

    /// Splits or merges a directory, unless its names move already.
    pub(super) async fn restripe(&mut self, dir: Held) {
        let mdts = self.client.session().mdts().len() as u64;
        let count = self.rng.between(1, mdts) as u16; // at most MDTS_MAX
        let wanted = DirDefault { count, ..DirDefault::default() };
        let (lmv, value) =
            (Bytes::from_static(b"lustre.lmv"), Bytes::from(lmv_ea::encode_default(&wanted)));
        let flags = SetxattrFlags::default();
        let set = self.client.clone().setxattr(Caller::root(), dir.node, lmv, value, flags).await;
        self.told(set.is_ok());
        if let Err(error) = set
            && error.errno() != Errno::EBUSY
        {
            self.unexpected("stripes of", dir.ino, &error);
        }
    }
}
