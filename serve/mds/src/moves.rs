//! What moves between MDTs, and which operations wait for other MDTs, as people are shown it.

use crate::mds::Mds;
use crate::records::tail;
use layout::dir_stripes::DirStripes;
use namespace::inode::InodeFlags;
use namespace::view::View;
use std::fmt;
use types::bundle::BundleId;
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use types::target::TargetIndex;

/// Why names of a directory move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// To more stripes, or by another hash.
    Split,
    /// To fewer stripes.
    Merge,
    /// To other inodes.
    Migrate,
}

impl Why {
    /// In one word.
    pub const fn word(self) -> &'static str {
        match self {
            Why::Split => "split",
            Why::Merge => "merge",
            Why::Migrate => "migrate",
        }
    }
}

/// A directory whose names move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirMove {
    /// The directory.
    pub fid: Fid,
    /// Why.
    pub why: Why,
    /// MDTs that have names behind the cursor.
    pub from: Vec<TargetIndex>,
    /// MDTs that have the others.
    pub to: Vec<TargetIndex>,
    /// The last name that has passed; `None`: none has.
    pub cursor: Option<Name>,
}

/// An operation over several MDTs that is decided, and waits for some of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BundleWait {
    /// The operation.
    pub id: BundleId,
    /// The MDTs that have not done their part.
    pub mdts: Vec<TargetIndex>,
}

impl DirMove {
    fn of(stripes: &DirStripes) -> Option<DirMove> {
        let moving = stripes.moving()?;
        let mdts = |fids: &[Fid], count: u16| {
            fids.iter().take(count.into()).map(|fid| TargetIndex(fid.mdt())).collect()
        };
        let (all, leaves) = (stripes.all(), stripes.leaves());
        let (why, from) = match leaves {
            [] if moving.count > stripes.count() => (Why::Merge, all),
            [] => (Why::Split, all),
            leaves => (Why::Migrate, leaves),
        };
        let (from, to) = (mdts(from, moving.count), mdts(all, stripes.count()));
        Some(DirMove { fid: stripes.master(), why, from, to, cursor: moving.cursor.clone() })
    }
}

/// `MDT0000, MDT0002`
struct Mdts<'a>(&'a [TargetIndex]);

impl fmt::Display for Mdts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, mdt) in self.0.iter().enumerate() {
            write!(f, "{}MDT{mdt:?}", if n == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Display for DirMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DirMove { fid, why, from, to, cursor } = self;
        write!(f, "{} of {fid} from {} to {}", why.word(), Mdts(from), Mdts(to))?;
        match cursor {
            None => f.write_str(" begins"),
            Some(name) => write!(f, ", up to {:?}", String::from_utf8_lossy(name.as_bytes())),
        }
    }
}

impl fmt::Display for BundleWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {} waits for {}", self.id, Mdts(&self.mdts))
    }
}

impl Mds {
    /// Directories whose names move, and whose first MDT this is, at most `max`.
    pub fn dir_moves(&self, max: usize) -> Vec<DirMove> {
        let fids: Vec<Fid> = self.state.lock().moving.iter().copied().take(max).collect();
        let of = |fid: Fid| -> Result<Option<DirMove>, Errno> {
            self.read(|records| {
                let inode = records.inode(fid)?;
                let striped = inode.filter(|inode| inode.flags.contains(InodeFlags::STRIPED));
                striped.map_or(Ok(None), |inode| Ok(DirMove::of(&tail::stripes(&inode)?)))
            })
        };
        // What is damaged is reported where it is needed.
        fids.into_iter().filter_map(|fid| of(fid).ok().flatten()).collect()
    }

    /// Operations that this MDT coordinates, and that wait for others, at most `max`.
    pub fn bundle_waits(&self, max: usize) -> Vec<BundleWait> {
        let state = self.state.lock();
        // Those that all have done are only not durable yet.
        let waiting = state.bundles.coordinator.unanswered().filter(|(_, mdts)| !mdts.is_empty());
        waiting.take(max).map(|(bundle, mdts)| BundleWait { id: bundle.id, mdts }).collect()
    }

    /// True if no directory is to be made here by choice of MDTs.
    pub fn no_create(&self) -> bool {
        self.tunables.no_create.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Sets it.
    pub fn set_no_create(&self, on: bool) {
        self.tunables.no_create.store(on, std::sync::atomic::Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::dir_stripes::DirHash;

    fn fid(mdt: u64) -> Fid {
        Fid { seq: Fid::SEQ_NORMAL + mdt * Fid::SEQ_WIDTH, oid: 5, ver: 0 }
    }

    #[test]
    fn what_moves_is_told_in_words() {
        let hash = DirHash::Crush;
        let said = |stripes: &DirStripes| DirMove::of(stripes).map(|moves| moves.to_string());
        let two = DirStripes::split(fid(0), hash, vec![fid(2)]).unwrap();
        let name = Name::new(b"file").unwrap();
        let begins = format!("split of {} from MDT0000 to MDT0000, MDT0002 begins", fid(0));
        assert_eq!(said(&two), Some(begins));
        let on = two.passed(Some(name));
        let goes_on =
            format!("split of {} from MDT0000 to MDT0000, MDT0002, up to \"file\"", fid(0));
        assert_eq!(said(&on), Some(goes_on));
        let end = on.passed(None);
        assert_eq!(said(&end), None);
        let merge = end.restriped(hash, 1, Vec::new()).unwrap();
        let merges = format!("merge of {} from MDT0000, MDT0002 to MDT0000 begins", fid(0));
        assert_eq!(said(&merge), Some(merges));
        let going = DirStripes::going(fid(0), Some(&end), hash, vec![fid(1)]).unwrap();
        let goes = format!("migrate of {} from MDT0000, MDT0002 to MDT0001 begins", fid(1));
        assert_eq!(said(&going), Some(goes));
        let id = BundleId { coordinator: TargetIndex(0), boot: 3, number: 7 };
        let waits = BundleWait { id, mdts: vec![TargetIndex(1)] };
        assert_eq!(waits.to_string(), format!("operation {id} waits for MDT0001"));
    }
}
