//! The name space's view of the store: records read and written inside one transaction.
//!
//! Damage is logged here and is EIO above. An inode that loses its last name is destroyed here, in
//! the same transaction: its records go, and a destroy log names its objects. If a client has it
//! open, by a handle or under an OPEN lock, it becomes an orphan instead.

mod dom;
pub mod fids;
mod found;
mod held;
pub(crate) mod part;
mod settled;
pub mod tail;
mod view;

use crate::acks::unacked::Look;
use crate::locks::context::{LockContext, Obstacle};
use crate::records::part::Part;
use crate::records::tail::damaged;
use crate::state::State;
use disk::inode::{Delta, InodeRecord, ItemTag};
use disk::mark::Mark;
use disk::{destroy_log, inode, key, mark};
use layout::layout::Layout;
use namespace::inode::{Inode, InodeFlags};
use namespace::view::View;
use observe::mutant::{Mutant, is_mutant};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ops::{Bound, ControlFlow};
use store::tx::Tx;
use types::attr::{Attr, FileType};
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::session::Transno;
use wire::mds::Entry;

/// Attributes of an inode as a client sees them.
pub(crate) fn entry_of(inode: &Inode) -> Entry {
    entry_with(inode.attr, inode.flags, &inode.tail)
}

fn entry_with(attr: Attr, flags: InodeFlags, tail: &[u8]) -> Entry {
    Entry {
        attr,
        has_xattr: flags.contains(InodeFlags::HAS_XATTR),
        noatime: flags.contains(InodeFlags::NOATIME),
        striped: if flags.contains(InodeFlags::STRIPED) { tail::generation(tail) } else { 0 },
    }
}

/// Directories of one transaction whose base versions are remembered: a rename has two, and moves
/// one.
const BASES_MAX: usize = 4;
/// All names of a directory.
const ALL_NAMES: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

fn record_of(inode: &Inode, base: u64) -> InodeRecord<'_> {
    InodeRecord {
        attr: inode.attr,
        parent: inode.parent,
        flags: inode.flags.bits(),
        base,
        tail: &inode.tail,
    }
}

/// Puts an inode, whose record has these bytes; `delta`: it is a directory that was there before,
/// and this has changed.
fn put_whole(tx: &mut Tx<'_>, delta: Option<Delta>, new: &InodeRecord<'_>, bytes: &[u8]) {
    let fid = new.attr.fid;
    tx.put_as(&key::inode(fid), bytes, |log| match delta {
        Some(delta) => {
            log.note_base(fid, &inode::base(new));
            log.note_delta(fid, &delta);
        }
        None => log.note(&key::inode(fid), Some(bytes)),
    });
}

/// Records of one MDT inside one transaction.
pub struct Records<'a> {
    /// The transaction.
    pub tx: Tx<'a>,
    /// State in memory.
    pub state: &'a mut State,
    /// Boot number, for marks.
    pub boot: u64,
    /// A destroy log was written: wake the destroyer.
    pub logged: bool,
    /// The locks' side of the operation.
    pub(crate) lock_context: &'a mut LockContext,
    /// Base versions of the directories that the transaction has read or put, the first
    /// [`BASES_MAX`]: a name that changes needs that of its directory.
    bases: RefCell<SmallVec<[(Fid, u64); BASES_MAX]>>,
}

impl<'a> Records<'a> {
    /// A view of the records within a transaction.
    pub(crate) fn new(
        tx: Tx<'a>,
        state: &'a mut State,
        boot: u64,
        lock_context: &'a mut LockContext,
    ) -> Records<'a> {
        Records { tx, state, boot, logged: false, lock_context, bases: RefCell::default() }
    }

    /// Ends the transaction: its transno (0 if it changed nothing), and whether a destroy log was
    /// written.
    pub fn finish(self) -> (Transno, bool) {
        (self.tx.finish(), self.logged)
    }

    /// Attributes only: nothing else is decoded.
    ///
    /// # Errors
    /// EIO: the record is damaged.
    pub fn entry(&self, fid: Fid) -> Result<Option<Entry>, Errno> {
        self.look(fid, Look::Attr);
        let decode = |bytes: &[u8]| {
            let record = inode::decode(fid, bytes).map_err(|e| damaged(fid, &e))?;
            self.lock_context.asked.realm.admits(fid, record.flags, record.tail)?;
            self.depend(record.base);
            self.show_names(fid, ALL_NAMES);
            Ok(entry_with(record.attr, InodeFlags::from_bits_retain(record.flags), record.tail))
        };
        let entry = self.tx.get(&key::inode(fid), decode)?.transpose();
        if matches!(entry, Ok(None)) {
            self.depend_on_end(fid);
        }
        entry
    }

    /// The client is going to see this, directly or indirectly.
    pub(crate) fn look(&self, fid: Fid, look: Look<'_>) {
        self.state.acks.unacked().look(self.lock_context.asked.client, fid, look);
    }

    /// An inode that a client knows by its FID.
    ///
    /// # Errors
    /// ESTALE: its name was found, and it was removed before this operation. The kernel then looks
    /// the name up again, because another file may have it by now; ENOENT would go to the program.
    /// EIO: its record is damaged.
    pub fn there(&self, fid: Fid) -> Result<Inode, Errno> {
        self.inode(fid)?.ok_or(Errno::ESTALE)
    }

    /// Succeeds if a client may begin to write a file, or change its size. Ask before anything is
    /// changed.
    ///
    /// # Errors
    /// EBUSY while its objects are being cut; the operation is run again when that is over.
    pub fn may_write(&mut self, fid: Fid) -> Result<(), Errno> {
        if self.state.cutting.contains(&fid) {
            self.lock_context.outcome.obstacle = Some(Obstacle::Cut(fid));
            return Err(Errno::EBUSY);
        }
        Ok(())
    }

    /// Marks the inode as written, so that its size is settled after a crash; `cut`: its objects
    /// must be cut first.
    pub fn mark_writer(&mut self, fid: Fid, cut: bool) {
        self.tx.put(&key::writer(fid), &mark::encode(Mark { boot: self.boot, cut }));
    }

    /// True if a writer mark says that the objects must be cut. A damaged one (which is logged)
    /// does not: nothing is lost.
    pub fn marked_cut(&self, fid: Fid) -> bool {
        let decode = |bytes: &[u8]| mark::decode(bytes).map_err(|e| damaged(fid, &e));
        matches!(self.tx.get(&key::writer(fid), decode), Ok(Some(Ok(Mark { cut: true, .. }))))
    }

    /// All writers closed in order, or the file was settled. Another client may bring this change
    /// back; so it must also bring the size that was told before. The change does not say that it
    /// found the inode so: an operation over several MDTs may change that later, and is done again
    /// before what clients bring (docs/recovery.md).
    pub fn unmark_writer(&mut self, fid: Fid) {
        self.build_on(fid);
        self.tx.delete(&key::writer(fid));
    }

    /// A client opened it for writing, or got a layout for writing: objects may exist from now on.
    pub fn note_data(&mut self, inode: &mut Inode) {
        if inode.file_type() == FileType::Regular && !inode.flags.contains(InodeFlags::HAS_DATA) {
            inode.flags.insert(InodeFlags::HAS_DATA);
            self.put_inode(inode);
        }
    }

    /// Removes an inode without names, its extended attributes and marks, and logs its objects.
    pub fn destroy(&mut self, inode: &Inode) {
        let fid = inode.fid();
        self.note_found(fid);
        self.lock_context.outcome.untouch(fid);
        let show = self.state.acks.destroyed(self.tx.transno(), fid);
        self.state.locks.destroyed(fid, &show);
        self.tx.delete(&key::inode(fid));
        if inode.flags.contains(InodeFlags::HAS_XATTR) {
            self.delete_xattrs(fid);
        }
        if inode.flags.contains(InodeFlags::STRIPED) {
            self.names_move(fid, false);
        }
        if inode.flags.contains(InodeFlags::HAS_DATA) {
            self.tx.delete(&key::writer(fid));
            self.log_objects(inode);
        }
    }

    /// An inode is another MDT's now, with all that belongs to it. No client has it open.
    ///
    /// # Errors
    /// ESTALE, EIO: it is not there, or damaged.
    pub(crate) fn gone_elsewhere(&mut self, fid: Fid) -> Result<(), Errno> {
        let mut inode = self.there(fid)?;
        if inode.flags.contains(InodeFlags::HAS_DATA) {
            self.tx.delete(&key::writer(fid));
            if let Some(layout) = tail::layout(fid, &inode.tail, ItemTag::Layout)? {
                self.delete_chunks(Part::of(&layout, fid));
                if layout.owner != Fid::NONE {
                    self.tx.delete(&key::objects_at(layout.owner));
                }
            }
            // Its objects stay.
            inode.flags.remove(InodeFlags::HAS_DATA);
        }
        self.destroy(&inode);
        Ok(())
    }

    /// An inode without a name is kept while it is open.
    pub(crate) fn keep_orphan(&mut self, fid: Fid) {
        self.state.orphans.insert(fid);
        self.tx.put(&key::orphan(fid), &mark::encode(Mark { boot: self.boot, cut: false }));
    }

    /// The names of a directory begin to move between its stripes, or do not any more.
    pub(crate) fn names_move(&mut self, fid: Fid, moves: bool) {
        if moves {
            self.state.moving.insert(fid);
            self.tx.put(&key::moving(fid), &mark::encode(Mark { boot: self.boot, cut: false }));
        } else if self.state.moving.remove(&fid) {
            self.tx.delete(&key::moving(fid));
        }
    }

    /// Succeeds if an inode is no stripe of a directory.
    ///
    /// # Errors
    /// EREMOTE: it is one, so all stripes change; EIO.
    pub(crate) fn is_whole(&self, fid: Fid) -> Result<(), Errno> {
        match self.entry(fid)?.is_some_and(|entry| entry.striped != 0) {
            true => Err(Errno::EREMOTE),
            false => Ok(()),
        }
    }

    /// An inode whose extended attributes a client asks for.
    ///
    /// # Errors
    /// As [`Records::there`]; EREMCHG: it is a stripe of a directory beside the directory itself,
    /// which has the attributes.
    pub(crate) fn attributed(&self, fid: Fid) -> Result<Inode, Errno> {
        let inode = self.there(fid)?;
        let striped = inode.flags.contains(InodeFlags::STRIPED);
        if striped && tail::stripes(&inode)?.master() != fid {
            return Err(Errno::EREMCHG);
        }
        Ok(inode)
    }

    /// A client is shown names of a directory, or that there are none: it must know whether the
    /// directory has other stripes, too.
    pub(crate) fn touch_stripe(&mut self, entry: Entry) {
        if entry.striped != 0 && !is_mutant(Mutant::GenerationHidden) {
            self.lock_context.outcome.touch(entry);
        }
    }

    /// A client let go of an inode: if it has no name and is not open any more, it is destroyed.
    pub(crate) fn end_orphan(&mut self, fid: Fid) -> bool {
        // Before recovery is over it is unknown which clients have it open.
        if self.is_used(fid) || self.state.recovering || !self.state.orphans.remove(&fid) {
            return false;
        }
        match self.inode(fid) {
            Ok(Some(inode)) => self.destroy(&inode),
            Ok(None) => tracing::error!(%fid, "orphan has no inode"),
            Err(errno) => tracing::error!(%fid, %errno, "orphan stays behind"),
        }
        self.tx.delete(&key::orphan(fid));
        true
    }

    /// True if it is open: by a handle, under OPEN, or by an answer that was lost with an earlier
    /// life.
    pub(crate) fn is_used(&self, fid: Fid) -> bool {
        let State { opens, locks, acks, .. } = &*self.state;
        opens.is_open(fid) || locks.table.is_held(fid, InodeBits::OPEN) || acks.may_be_open(fid)
    }

    /// Runs `f` as if its client were in no realm.
    pub(crate) fn anywhere<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        let realm = std::mem::take(&mut self.lock_context.asked.realm);
        let result = f(self);
        self.lock_context.asked.realm = realm;
        result
    }

    /// A repair puts a record, or removes it.
    pub(crate) fn mend(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.bases.get_mut().clear();
        if let Some((dir, name)) = key::entry_of(key) {
            self.name_changes(dir, name);
        }
        let inode = key::inode_of(key).inspect(|fid| self.note_found(*fid));
        let new = inode.zip(value).and_then(|(fid, value)| inode::decode(fid, value).ok());
        match (new, value) {
            (Some(new), Some(value)) => {
                let transno = self.tx.transno().0;
                let delta = self
                    .attr_and_base(new.attr.fid)
                    .filter(|(old, _)| old.is_dir() && new.attr.is_dir())
                    .map(|(old, _)| Delta::between(&old, &new.attr, transno));
                put_whole(&mut self.tx, delta, &new, value);
            }
            (None, Some(value)) => self.tx.put(key, value),
            (_, None) => self.tx.delete(key),
        }
    }

    fn delete_xattrs(&mut self, fid: Fid) {
        self.look(fid, Look::Xattr);
        self.delete_all(fid, &key::xattr(fid, b""), &key::xattrs_end(fid));
    }

    /// Removes all records of a removed inode from `start` to `end` (exclusive), readable or not.
    pub(crate) fn delete_all(&mut self, fid: Fid, start: &[u8], end: &[u8]) {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let scanned = self.tx.scan(start, end, |key, _| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        });
        if let Err(error) = scanned {
            // They stay behind unreachable; the removal itself must not fail half-way.
            tracing::error!(%fid, %error, "records of a removed inode stay behind");
        }
        keys.iter().for_each(|key| self.tx.delete(key));
    }

    /// The objects of this layout of a file are removed when this is durable.
    pub(crate) fn log_destroyed(&mut self, fid: Fid, layout: &Layout) {
        let mut objects = layout.objects(fid).peekable();
        if objects.peek().is_some() {
            let mut log = Vec::new();
            destroy_log::encode(layout.names(fid), objects, &mut log);
            self.tx.put(&key::destroy(self.tx.transno(), fid), &log);
            self.logged = true;
        }
    }

    fn log_objects(&mut self, inode: &Inode) {
        let fid = inode.fid();
        match tail::layout(fid, &inode.tail, ItemTag::Layout) {
            Ok(Some(layout)) => {
                self.delete_chunks(Part::of(&layout, fid));
                self.log_destroyed(fid, &layout);
                if layout.owner != Fid::NONE {
                    self.tx.delete(&key::objects_at(layout.owner));
                }
            }
            Ok(None) => {}
            Err(errno) => tracing::error!(%fid, %errno, "objects of a removed inode stay behind"),
        }
    }
}
