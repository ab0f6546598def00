//! Learning from replies: each operation, read together with its result, in one place.
//!
//! Callers of requests need not think of the caches: they learn here. Own changes come first as
//! changes (known content goes, and replies under way no longer grant it), then as news (what the
//! reply shows is kept, under its own grants).

use crate::locks::table::{Held, Known, Table, bits_of};
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;
use wire::mds::{
    Accessed, Create, DirEntry, Entry, GetLayout, GetParent, Getxattr, Link, Listxattr, Lookup,
    MdsOp, MdsReply, Punch, Readdir, Readlink, Removed, Removexattr, Rename, Rmdir, Setattr,
    Setxattr, Store, Unlink, Write, Wrote,
};

fn has_one_name(entry: &Entry) -> bool {
    entry.attr.is_dir() || entry.attr.nlink == 1
}

/// What a reply shows beside its results, and the locks that it grants.
#[derive(Clone, Copy)]
struct Shown<'a> {
    touched: &'a [Entry],
    held: &'a Held,
}

impl<'a> Shown<'a> {
    /// Bits of an inode that the reply grants, or that are held.
    fn bits(self, fid: Fid) -> InodeBits {
        bits_of(self.held, fid)
    }

    /// The inode, as the changes of the request left it.
    fn after(self, fid: Fid) -> Option<&'a Entry> {
        self.touched.iter().find(|entry| entry.attr.fid == fid)
    }
}

/// Teaches the table what one operation answered.
pub fn learn(
    table: &mut Table,
    op: &MdsOp,
    result: Result<&MdsReply, Errno>,
    touched: &[Entry],
    held: &Held,
) {
    let shown = Shown { touched, held };
    let entry_of =
        |table: &mut Table, entry: &Entry| table.learn_entry(entry, shown.bits(entry.attr.fid));
    match (op, result) {
        (MdsOp::Lookup(lookup), result) => learn_looked_up(table, lookup, result, shown),
        (MdsOp::GetParent(GetParent { fid }), Ok(MdsReply::Entry(entry))) => {
            table.learn_parent(*fid, entry.attr.fid, held);
            entry_of(table, entry);
        }
        (MdsOp::GetParent(GetParent { fid }), Ok(MdsReply::Remote { fid: parent, .. })) => {
            table.learn_parent(*fid, *parent, held);
        }
        (MdsOp::Getattr(_) | MdsOp::Lock(_), Ok(MdsReply::Entry(entry))) => entry_of(table, entry),
        (MdsOp::Read(_), Ok(MdsReply::Data { entry, .. })) => entry_of(table, entry),
        (MdsOp::GetattrMany(_), Ok(MdsReply::Attrs(entries))) => {
            entries.iter().flatten().for_each(|entry| entry_of(table, entry));
        }
        (MdsOp::Readdir(readdir), Ok(MdsReply::Entries { entries, more })) => {
            learn_entries(table, readdir, (entries, *more), shown);
        }
        (MdsOp::Readlink(Readlink { fid }), Ok(MdsReply::Bytes(target))) => {
            table.learn_target(*fid, target)
        }
        (MdsOp::GetLayout(GetLayout { fid, write, .. }), Ok(MdsReply::Layout(layout))) => {
            if *write {
                // It may have been made by this request.
                table.gate(fid.mdt()).note(*fid, InodeBits::LAYOUT);
            }
            table.learn_layout(*fid, layout, shown.bits(*fid));
        }
        (MdsOp::Open(_) | MdsOp::Tmpfile(_), Ok(MdsReply::Opened { entry, layout, .. })) => {
            entry_of(table, entry);
            if let Some(layout) = layout {
                table.learn_layout(entry.attr.fid, layout, shown.bits(entry.attr.fid));
            }
        }
        (MdsOp::Create(create), Ok(reply)) => learn_created(table, create, reply, shown),
        (
            MdsOp::Unlink(Unlink { parent, name }) | MdsOp::Rmdir(Rmdir { parent, name }),
            Ok(MdsReply::Removed(removed)),
        ) => {
            table.changed_name(*parent, name, None, held);
            table.changed_inode(*parent, shown.after(*parent), held);
            table.changed_inode(removed.fid, shown.after(removed.fid), held);
            table.renamed_inode(removed.fid);
            if removed.nlink == 0 {
                table.lost_all_names(removed.fid);
            }
        }
        (MdsOp::Rename(rename), Ok(MdsReply::Removed(removed))) => {
            learn_renamed(table, rename, removed, shown);
        }
        (MdsOp::Link(Link { fid, new_parent, new_name }), Ok(MdsReply::Entry(entry))) => {
            table.changed_name(*new_parent, new_name, Some(*fid), held);
            table.changed_inode(*new_parent, shown.after(*new_parent), held);
            table.changed_inode(*fid, Some(entry), held);
        }
        (
            MdsOp::Setattr(Setattr { fid, .. })
            | MdsOp::Wrote(Wrote { fid, .. })
            | MdsOp::Write(Write { fid, .. })
            | MdsOp::Store(Store { fid, .. })
            | MdsOp::Punch(Punch { fid, .. }),
            Ok(MdsReply::Entry(entry)),
        ) => {
            if matches!(op, MdsOp::Setattr(_)) {
                table.changed_permissions(*fid);
            }
            table.changed_inode(*fid, Some(entry), held);
        }
        (MdsOp::Accessed(Accessed { fid, .. }), Ok(_)) => {
            if let Some(entry) = shown.after(*fid) {
                table.accessed(entry);
            }
        }
        _ => learn_xattrs(table, op, result, shown),
    }
}

fn learn_looked_up(
    table: &mut Table,
    Lookup { parent, name }: &Lookup,
    result: Result<&MdsReply, Errno>,
    shown: Shown<'_>,
) {
    match result {
        Ok(MdsReply::Entry(entry)) => {
            let fid = entry.attr.fid;
            table.learn_name(*parent, name, Some(fid), shown.held);
            table.learn_entry(entry, shown.bits(fid));
        }
        Ok(MdsReply::Remote { fid, .. }) => table.learn_name(*parent, name, Some(*fid), shown.held),
        Err(Errno::ENOENT) => table.learn_name(*parent, name, None, shown.held),
        _ => {}
    }
}

/// A part of a directory, and whether there is more behind it.
fn learn_entries(
    table: &mut Table,
    Readdir { fid, after, with_layout, .. }: &Readdir,
    (entries, more): (&[DirEntry], bool),
    shown: Shown<'_>,
) {
    // With layouts these are files that are about to be opened, and no piece of a listing under
    // way. A listing is set aside: what follows teaches names, and a name that is new ends one.
    let partial = if *with_layout { None } else { table.take_partial(*fid, after.as_ref()) };
    for DirEntry { name, fid: to, entry, layout, .. } in entries {
        table.learn_name(*fid, name, Some(*to), shown.held);
        if let Some(entry) = entry {
            table.learn_entry(entry, shown.bits(*to));
        }
        if let Some(layout) = layout.as_ref().filter(|_| *with_layout) {
            table.learn_layout(*to, layout, shown.bits(*to));
        }
    }
    if let Some(partial) = partial.filter(|_| shown.bits(*fid).contains(InodeBits::UPDATE)) {
        table.listed(*fid, partial, (entries, more));
    }
}

fn learn_created(
    table: &mut Table,
    Create { parent, name, .. }: &Create,
    reply: &MdsReply,
    shown: Shown<'_>,
) {
    let MdsReply::Opened { entry, created, layout, .. } = reply else { return };
    let (fid, created) = (entry.attr.fid, *created);
    if created {
        table.changed_name(*parent, name, Some(fid), shown.held);
        table.changed_inode(*parent, shown.after(*parent), shown.held);
    } else {
        table.learn_name(*parent, name, Some(fid), shown.held);
    }
    table.learn_entry(entry, shown.bits(fid));
    if created && entry.attr.is_dir() {
        table.made_dir(fid, shown.held);
    }
    if let Some(layout) = layout {
        table.learn_layout(fid, layout, shown.bits(fid));
    }
}

fn learn_renamed(table: &mut Table, rename: &Rename, removed: &Removed, shown: Shown<'_>) {
    let Rename { parent, name, new_parent, new_name, flags } = rename;
    // Also of the inode that moved, if nothing is known of its name.
    shown.touched.iter().for_each(|entry| table.renamed_inode(entry.attr.fid));
    table.renamed_inode(removed.fid);
    let (moved, replaced) = (known(table, *parent, name), known(table, *new_parent, new_name));
    // Two names of one inode: then nothing happens, which a reply that removed nothing cannot say.
    // But it shows the moved inode.
    let moves = moved.and_then(|fid| shown.after(fid)).is_some_and(has_one_name);
    let certain =
        removed.fid != Fid::NONE || moves || table.name(*new_parent, new_name) == Known::Absent;
    let mut leads = |dir: Fid, name: &Name, to: Option<Fid>, sure: bool| match sure {
        true => table.changed_name(dir, name, to, shown.held),
        false => table.forget_name(dir, name),
    };
    match flags.exchange {
        true => leads(*parent, name, replaced, replaced.is_some() && moved.is_some()),
        false => leads(*parent, name, None, certain),
    }
    let sure = moved.is_some() && if flags.exchange { replaced.is_some() } else { certain };
    leads(*new_parent, new_name, moved, sure);
    table.moved(*new_parent, new_name);
    if flags.exchange {
        table.moved(*parent, name);
    }
    for fid in [*parent, *new_parent, removed.fid].into_iter().chain(moved).chain(replaced) {
        table.changed_inode(fid, shown.after(fid), shown.held);
    }
    if removed.fid != Fid::NONE && removed.nlink == 0 {
        table.lost_all_names(removed.fid);
    }
}

/// Extended attributes; of other operations there is nothing to learn.
fn learn_xattrs(table: &mut Table, op: &MdsOp, result: Result<&MdsReply, Errno>, shown: Shown<'_>) {
    match (op, result) {
        (MdsOp::Getxattr(Getxattr { fid, name }), Ok(MdsReply::Bytes(value))) => {
            table.learn_xattr(*fid, name, Some(value), shown.bits(*fid));
        }
        (MdsOp::Getxattr(Getxattr { fid, name }), Err(Errno::ENODATA)) => {
            table.learn_xattr(*fid, name, None, shown.bits(*fid))
        }
        (MdsOp::Listxattr(Listxattr { fid }), Ok(MdsReply::Bytes(list))) => {
            table.learn_xattr_list(*fid, list, shown.bits(*fid))
        }
        (MdsOp::Setxattr(Setxattr { fid, name, value, flags }), Ok(_)) => {
            table.changed_xattrs(*fid);
            table.changed_inode(*fid, shown.after(*fid), shown.held);
            // The MDT may store an ACL in another form than it was given.
            if !flags.kill_sgid && !name.starts_with(b"system.") {
                table.learn_xattr(*fid, name, Some(value), shown.bits(*fid));
            }
        }
        (MdsOp::Removexattr(Removexattr { fid, name }), Ok(_)) => {
            table.changed_xattrs(*fid);
            table.changed_inode(*fid, shown.after(*fid), shown.held);
            table.learn_xattr(*fid, name, None, shown.bits(*fid));
        }
        _ => {}
    }
}

fn known(table: &mut Table, dir: Fid, name: &Name) -> Option<Fid> {
    match table.name(dir, name) {
        Known::To(fid) => Some(fid),
        _ => None,
    }
}

/// A request that changes something got no answer: whether it was done is unknown. So everything
/// that it may have changed is forgotten, also by the kernel.
pub(crate) fn unsure(table: &mut Table, op: &MdsOp) {
    let mut name_and_all = |dir: Fid, name: &Name| {
        if let Some(fid) = known(table, dir, name) {
            table.unsure_inode(fid);
        }
        table.forget_name(dir, name);
        table.moved(dir, name);
        table.unsure_inode(dir);
    };
    match op {
        MdsOp::Create(Create { parent, name, .. })
        | MdsOp::Unlink(Unlink { parent, name })
        | MdsOp::Rmdir(Rmdir { parent, name }) => {
            name_and_all(*parent, name);
        }
        MdsOp::Rename(Rename { parent, name, new_parent, new_name, .. }) => {
            name_and_all(*parent, name);
            name_and_all(*new_parent, new_name);
        }
        MdsOp::Link(Link { fid, new_parent, new_name }) => {
            name_and_all(*new_parent, new_name);
            table.unsure_inode(*fid);
        }
        MdsOp::Setattr(Setattr { fid, .. }) => {
            table.changed_permissions(*fid);
            table.unsure_inode(*fid);
        }
        MdsOp::Wrote(Wrote { fid, .. })
        | MdsOp::Write(Write { fid, .. })
        | MdsOp::Store(Store { fid, .. })
        | MdsOp::Punch(Punch { fid, .. })
        | MdsOp::Accessed(Accessed { fid, .. }) => table.unsure_inode(*fid),
        MdsOp::Setxattr(Setxattr { fid, .. }) | MdsOp::Removexattr(Removexattr { fid, .. }) => {
            table.changed_xattrs(*fid);
            table.unsure_inode(*fid);
        }
        _ => {}
    }
}
