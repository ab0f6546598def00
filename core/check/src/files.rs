//! Files and their objects.

use crate::check::Seen;
use crate::finding::Finding;
use layout::layout::Layout;
use namespace::inode::InodeFlags;
use types::attr::Attr;
use types::fid::Fid;
use types::limits::DOM_CHUNK_BYTES;
use types::object::ObjectId;
use types::target::TargetIndex;

/// Local file systems count their own bookkeeping into an object's blocks when it reaches the disk,
/// and allocate ahead. So differences of up to this many blocks, or a quarter, mean nothing.
const BLOCKS_SLACK: u64 = 256;
/// Blocks of 512 bytes that the smallest piece of data takes.
const BLOCKS_OF_DATA: u64 = 8;

/// True if chunk `n` of the bytes named after `named` belongs to a file with this layout, whose own
/// bytes are named after `own`.
pub(crate) fn has_chunk(layout: &Layout, own: Fid, named: Fid, n: u32) -> bool {
    named == own && u64::from(n) * (DOM_CHUNK_BYTES as u64) < layout.mdt_bytes()
}

/// A regular file and the objects that were found of it.
pub(crate) struct FileSeen {
    layout: Layout,
    /// The file after which its objects are named.
    named: Fid,
    size: u64,
    blocks: u64,
    /// Size and blocks of each object that exists, in the order of `Layout::objects`.
    found: Vec<Option<(u64, u64)>>,
    /// Blocks of its bytes on the MDT.
    here: u64,
}

impl FileSeen {
    pub(crate) fn new(layout: Layout, attr: &Attr) -> FileSeen {
        let objects = layout.objects(attr.fid).count();
        let named = layout.names(attr.fid);
        FileSeen {
            layout,
            named,
            size: attr.size,
            blocks: attr.blocks,
            found: vec![None; objects],
            here: 0,
        }
    }

    fn place(&self, ost: TargetIndex, object: ObjectId) -> Option<usize> {
        if object.fid != self.named {
            return None;
        }
        let mut before = 0;
        for component in &self.layout.components {
            if component.id == object.instance {
                let stripe = object.stripe as usize;
                return component
                    .stripes
                    .get(stripe)
                    .filter(|has| **has == ost)
                    .map(|_| before + stripe);
            }
            before += component.stripes.len();
        }
        None
    }

    /// True if the layout has this object on this OST.
    pub(crate) fn has(&self, ost: TargetIndex, object: ObjectId) -> bool {
        self.place(ost, object).is_some()
    }

    /// Notes an object that exists; `false`: it does not belong to the file.
    pub(crate) fn found(
        &mut self,
        ost: TargetIndex,
        object: ObjectId,
        size: u64,
        blocks: u64,
    ) -> bool {
        let Some(place) = self.place(ost, object) else { return false };
        self.found[place] = Some((size, blocks));
        true
    }

    /// Notes bytes on the MDT; `false`: they do not belong to the file.
    pub(crate) fn found_chunk(&mut self, named: Fid, n: u32, bytes: usize) -> bool {
        let belongs = has_chunk(&self.layout, self.named, named, n);
        if belongs {
            self.here += bytes.div_ceil(512) as u64;
        }
        belongs
    }

    /// Judges size and space by the objects, if all of its OSTs were looked at.
    pub(crate) fn judge(
        &self,
        fid: Fid,
        seen: &Seen,
        complete: impl Fn(TargetIndex) -> bool,
        findings: &mut Vec<Finding>,
    ) {
        let nowhere = self.found.is_empty() && self.layout.mdt_bytes() == 0;
        if nowhere || !self.layout.objects(fid).all(|(ost, _)| complete(ost)) {
            return;
        }
        let version = seen.version;
        let counted =
            self.here + self.found.iter().flatten().map(|(_, blocks)| blocks).sum::<u64>();
        let mut found = self.found.iter();
        let end = layout::size::file_size(&self.layout, fid, |_, _| {
            found.next().copied().flatten().map_or(0, |(size, _)| size)
        });
        if end > self.size && !seen.flags.contains(InodeFlags::HAS_RESERVE) {
            findings.push(Finding::ShortSize { fid, recorded: self.size, objects: end, version });
        }
        let missing = self.layout.objects(fid).zip(&self.found).find(|(_, found)| found.is_none());
        match missing {
            // A stripe that was never written has no object either: the recorded space tells the
            // two apart.
            Some(((ost, object), _))
                if self.blocks >= counted + BLOCKS_OF_DATA && self.size > 0 =>
            {
                findings.push(Finding::LostObject { fid, ost, object, counted, version });
            }
            _ if self.blocks.abs_diff(counted) > BLOCKS_SLACK.max(counted / 4) => {
                findings.push(Finding::WrongBlocks {
                    fid,
                    recorded: self.blocks,
                    counted,
                    version,
                });
            }
            _ => {}
        }
    }
}
