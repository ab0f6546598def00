//! Names, link counts, parents: the record of each inode against what was counted.

use crate::check::Seen;
use crate::finding::Finding;
use disk::key;
use namespace::inode::InodeFlags;
use std::collections::{BTreeMap, BTreeSet};
use types::attr::FileType;
use types::fid::Fid;

/// Judges every inode. `extra`: names of directories beside the first.
pub(crate) fn judge(
    seen: &mut BTreeMap<Fid, Seen>,
    extra: Vec<(Fid, Fid, Vec<u8>)>,
    findings: &mut Vec<Finding>,
) {
    for (fid, dir, name) in extra {
        if let Some(child) = seen.get(&fid) {
            findings.push(Finding::SecondName { fid, dir, name, version: child.version });
        }
    }
    for (fid, inode) in &*seen {
        if let Some(file_type) = inode.file_type {
            judge_inode(*fid, inode, file_type == FileType::Directory, findings);
        }
    }
    find_detached(seen, findings);
}

fn judge_inode(fid: Fid, inode: &Seen, is_dir: bool, findings: &mut Vec<Finding>) {
    let Seen { version, nlink, names, orphan, .. } = *inode;
    if inode.xattrs && !inode.flags.contains(InodeFlags::HAS_XATTR) {
        findings.push(Finding::HiddenXattrs { fid, version });
    }
    if orphan && nlink > 0 {
        findings.push(Finding::StrayMark { key: key::orphan(fid).to_vec() });
    }
    if names == 0 && fid != Fid::ROOT {
        match (nlink, orphan) {
            (0, true) => {}
            (0, false) => findings.push(Finding::Forgotten { fid, version }),
            _ => findings.push(Finding::Nameless { fid, version }),
        }
        return;
    }
    let counted = if is_dir { 2 + inode.subdirs } else { names };
    if nlink != counted {
        findings.push(Finding::WrongNlink { fid, recorded: nlink, counted, version });
    }
    let named = inode.named.as_ref().map(|named| named.0);
    if let Some(found) = named.filter(|found| is_dir && *found != inode.parent) {
        findings.push(Finding::WrongParent { fid, recorded: inode.parent, found, version });
    }
}

/// Finds directories that are named only by each other. One of each circle is reported.
fn find_detached(seen: &BTreeMap<Fid, Seen>, findings: &mut Vec<Finding>) {
    let mut good: BTreeSet<Fid> = BTreeSet::from([Fid::ROOT]);
    let mut told: BTreeSet<Fid> = BTreeSet::new();
    let dirs = seen.iter().filter(|(_, inode)| inode.file_type == Some(FileType::Directory));
    for (fid, _) in dirs {
        let (mut way, mut at) = (Vec::new(), *fid);
        let mut on_way = BTreeSet::new();
        let ends_well = loop {
            if good.contains(&at) {
                break true;
            }
            if told.contains(&at) {
                break false;
            }
            if !on_way.insert(at) {
                // The circle is what was walked since `at`.
                let circle = way.iter().skip_while(|fid| **fid != at).min().copied();
                findings.extend(circle.and_then(|fid| {
                    let (dir, name) = *seen.get(&fid)?.named.clone()?;
                    Some(Finding::Detached { fid, dir, name, version: seen.get(&fid)?.version })
                }));
                break false;
            }
            way.push(at);
            match seen.get(&at).and_then(|inode| inode.named.as_ref()).map(|named| named.0) {
                Some(above) => at = above,
                // A directory without a name is reported as that, together with everything below
                // it.
                None => break true,
            }
        };
        if ends_well { good.extend(way) } else { told.extend(way) }
    }
}
