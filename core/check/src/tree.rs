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
            judge_inode(seen, *fid, inode, file_type == FileType::Directory, findings);
        }
    }
    judge_stripes(seen, findings);
    find_detached(seen, findings);
}

/// The directory of which an inode is a shard.
fn master_of(fid: Fid, inode: &Seen) -> Option<Fid> {
    inode.stripes.as_ref().map(|stripes| stripes.master()).filter(|master| *master != fid)
}

/// All stripes of a directory are there, belong to it, and say the same.
fn judge_stripes(seen: &BTreeMap<Fid, Seen>, findings: &mut Vec<Finding>) {
    let living = |fid: &Fid| seen.get(fid).filter(|inode| inode.nlink > 0);
    for (fid, inode) in seen.iter().filter(|(_, inode)| inode.nlink > 0) {
        let Some(stripes) = &inode.stripes else { continue };
        let (fid, version) = (*fid, inode.version);
        if let Some(master) = master_of(fid, inode) {
            match living(&master).filter(|whole| whole.stripes.as_ref() == Some(stripes)) {
                Some(whole) if whole.access != inode.access => {
                    findings.push(Finding::UnlikeStripe { fid, master, version });
                }
                Some(_) => {}
                None => findings.push(Finding::StrayStripe { fid, master, version }),
            }
            continue;
        }
        for stripe in stripes.shards() {
            if living(stripe).is_none_or(|shard| shard.stripes.as_ref() != Some(stripes)) {
                findings.push(Finding::LostStripe { fid, stripe: *stripe, version });
            }
        }
    }
}

/// The directory that the inode of a name records, of the stripe that has the name.
fn home(seen: &BTreeMap<Fid, Seen>, dir: Fid, name: &[u8]) -> Fid {
    let stripes = seen.get(&dir).and_then(|inode| inode.stripes.as_ref());
    stripes.map_or(dir, |stripes| stripes.home(name))
}

fn judge_inode(
    seen: &BTreeMap<Fid, Seen>,
    fid: Fid,
    inode: &Seen,
    is_dir: bool,
    findings: &mut Vec<Finding>,
) {
    let Seen { version, nlink, names, orphan, .. } = *inode;
    if inode.xattrs && !inode.flags.contains(InodeFlags::HAS_XATTR) {
        findings.push(Finding::HiddenXattrs { fid, version });
    }
    if orphan && nlink > 0 {
        findings.push(Finding::StrayMark { key: key::orphan(fid).to_vec() });
    }
    let stripes = inode.stripes.as_ref();
    let moves = stripes.is_some_and(|all| all.master() == fid && all.moving().is_some());
    if inode.moving && !moves {
        findings.push(Finding::StrayMark { key: key::moving(fid).to_vec() });
    }
    // A shard has no name of its own.
    let master = master_of(fid, inode).filter(|_| nlink > 0);
    if names == 0 && fid != Fid::ROOT && master.is_none() {
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
    let named = inode.named.as_ref().map(|named| home(seen, named.0, &named.1)).or(master);
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
            let above = seen.get(&at).and_then(|inode| {
                inode.named.as_ref().map(|named| named.0).or_else(|| master_of(at, inode))
            });
            match above {
                Some(above) => at = above,
                // A directory without a name is reported as that, together with everything below
                // it.
                None => break true,
            }
        };
        if ends_well { good.extend(way) } else { told.extend(way) }
    }
}
