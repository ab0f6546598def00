//! Changes that OSTs had answered and lost in a power cut. The sessions keep them and bring them
//! back (docs/recovery.md, section 4); this module handles files for which none could.

use crate::open::OpenFiles;
use data::file::{File, FileTable};
use std::collections::BTreeSet;
use std::sync::Arc;
use types::errno::Errno;
use types::fid::Fid;
use types::object::ObjectId;
use wire::message::Op;

/// What an OST had answered is lost: its files tell it ([`data::writeback::failures`]).
pub(crate) fn lost_objects(files: &Arc<FileTable>, files_open: &OpenFiles, lost: &[Op]) {
    let objects: BTreeSet<ObjectId> = lost.iter().filter_map(object_of).collect();
    let (mut closed, mut reported) = (objects.clone(), BTreeSet::new());
    for open in files_open.all() {
        let file = &open.file;
        let hit: Vec<ObjectId> = match file.layout() {
            Some(layout) => layout
                .objects(file.fid)
                .map(|(_, object)| object)
                .filter(|o| objects.contains(o))
                .collect(),
            // The layout was called back. Except for files that exchanged layouts, objects bear the
            // name of their file.
            None => objects.iter().filter(|object| object.fid == file.fid).copied().collect(),
        };
        hit.iter().for_each(|object| _ = closed.remove(object));
        if !hit.is_empty() && reported.insert(file.fid) {
            lost_of(file);
        }
    }
    let closed: BTreeSet<Fid> =
        closed.iter().map(|object| object.fid).filter(|fid| !reported.contains(fid)).collect();
    closed.into_iter().for_each(|fid| lost_of(&files.get(fid)));
}

fn lost_of(file: &File) {
    tracing::error!(fid = %file.fid, "what was written is lost; the next fsync or write says so");
    file.dirty.lock().fail(Errno::EIO);
}

fn object_of(op: &Op) -> Option<ObjectId> {
    if let Op::Ost(op) = op { op.object_changed() } else { None }
}
