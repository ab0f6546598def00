//! The records as the rules of the name space see them.

use super::{ALL_NAMES, Records, entry_of, put_whole, record_of, tail};
use crate::acks::unacked::Look;
use crate::records::tail::damaged;
use disk::damaged::Damaged;
use disk::inode::Delta;
use disk::{dirent, inode, key, links, xattr};
use namespace::inode::{Dirent, Inode, InodeFlags, Tail};
use namespace::view::{Change, EachEntry, EachName, View};
use observe::mutant::{Mutant, is_mutant};
use std::ops::{Bound, ControlFlow};
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;

impl View for Records<'_> {
    fn inode(&self, fid: Fid) -> Result<Option<Inode>, Errno> {
        self.look(fid, Look::Inode);
        let decode = |bytes: &[u8]| {
            let record = inode::decode(fid, bytes).map_err(|e| damaged(fid, &e))?;
            self.lock_context.asked.realm.admits(fid, record.flags, record.tail)?;
            self.depend(record.base);
            if record.attr.is_dir() {
                self.note_base(fid, record.base);
                self.has_found(fid, record.base);
            }
            Ok(Inode {
                attr: record.attr,
                parent: record.parent,
                flags: InodeFlags::from_bits_retain(record.flags),
                tail: Tail::from_slice(record.tail),
            })
        };
        let inode = self.tx.get(&key::inode(fid), decode)?.transpose();
        if matches!(inode, Ok(None)) {
            self.depend_on_end(fid);
        }
        inode
    }

    fn dirent(&self, parent: Fid, name: &[u8]) -> Result<Option<Dirent>, Errno> {
        self.look(parent, Look::Name(name));
        let decode = |bytes: &[u8]| match dirent::decode(bytes) {
            Ok((fid, file_type)) => Ok(Dirent { fid, file_type }),
            Err(e) => Err(damaged(parent, &e)),
        };
        let to = self.tx.get(&key::dirent(parent, name), decode)?.transpose()?;
        if !is_mutant(Mutant::NameNotFound) {
            self.depend_on(self.state.acks.volatile().named_by(parent, name));
        }
        Ok(to)
    }

    fn entries(
        &self,
        dir: Fid,
        after: Option<&[u8]>,
        each: &mut EachEntry<'_>,
    ) -> Result<(), Errno> {
        self.look(dir, Look::Names);
        let mut start = key::dirent(dir, after.unwrap_or_default()).to_vec();
        if after.is_some() {
            // The smallest key after it.
            start.push(0);
        }
        self.depend_on_names(
            dir,
            (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded),
        );
        let (mut damage, mut empty) = (None, after.is_none());
        self.tx.scan(&start, &key::dirents_end(dir), |key, value| {
            empty = false;
            match (key::name_of(key), dirent::decode(value)) {
                (Some(name), Ok((fid, file_type))) => each(name, Dirent { fid, file_type }),
                (_, Err(e)) => {
                    damage = Some(damaged(dir, &e));
                    ControlFlow::Break(())
                }
                (None, _) => {
                    damage = Some(damaged(dir, &Damaged::key("entry", key)));
                    ControlFlow::Break(())
                }
            }
        })?;
        if empty && self.tx.keeps_log() {
            self.lock_context.durability.found.borrow_mut().empty.push(dir);
        }
        damage.map_or(Ok(()), Err)
    }

    fn xattr(&self, fid: Fid, name: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
        self.look(fid, Look::Xattr);
        let decode =
            |bytes: &[u8]| xattr::decode(bytes).map(<[u8]>::to_vec).map_err(|e| damaged(fid, &e));
        self.tx.get(&key::xattr(fid, name), decode)?.transpose()
    }

    fn xattr_names(&self, fid: Fid, each: &mut EachName<'_>) -> Result<(), Errno> {
        self.look(fid, Look::Xattr);
        let mut damage = None;
        self.tx.scan(
            &key::xattr(fid, b""),
            &key::xattrs_end(fid),
            |key, _| match key::name_of(key) {
                Some(name) => each(name),
                None => {
                    damage = Some(damaged(fid, &Damaged::key("xattr", key)));
                    ControlFlow::Break(())
                }
            },
        )?;
        damage.map_or(Ok(()), Err)
    }

    fn before(&mut self, changes: &[Change<'_>]) -> Result<(), Errno> {
        self.holders_know(changes)?;
        self.end_leases(changes);
        Ok(())
    }

    fn stripes(&self, dir: &Inode) -> Result<Vec<Fid>, Errno> {
        Ok(tail::stripes(dir)?.all().to_vec())
    }

    fn place(&self, dir: &Inode, name: &[u8]) -> Result<Fid, Errno> {
        if is_mutant(Mutant::StripeUnchecked) {
            return Ok(dir.fid());
        }
        Ok(tail::stripes(dir)?.place(name))
    }

    fn home_of(&self, dir: &Inode, name: &[u8]) -> Result<Fid, Errno> {
        Ok(tail::stripes(dir)?.home(name))
    }

    fn project(&self, inode: &Inode) -> Result<u32, Errno> {
        tail::project(inode.fid(), &inode.tail)
    }

    fn set_project(&self, inode: &mut Inode, project: u32) -> Result<(), Errno> {
        tail::set_project(inode, project)
    }

    fn above(&mut self, fid: Fid) -> Result<Fid, Errno> {
        self.parent_of(fid)
    }

    fn named(&self, inode: &mut Inode, parent: Fid, name: &[u8]) {
        tail::change_links(inode, |list| links::with(list, parent, name));
    }

    fn unnamed(&self, inode: &mut Inode, parent: Fid, name: &[u8]) {
        tail::change_links(inode, |list| links::without(list, parent, name));
    }

    fn put_inode(&mut self, inode: &Inode) {
        self.put(inode, false);
    }

    fn put_inode_with_mtime(&mut self, inode: &Inode) {
        self.put(inode, true);
    }

    fn put_names_changed(&mut self, dir: &Inode, nlink: i32) {
        let fid = dir.fid();
        if self.grant(fid, InodeBits::UPDATE).contains(InodeBits::UPDATE) {
            self.show_names(fid, ALL_NAMES);
            self.lock_context.outcome.touch(entry_of(dir));
        }
        let base = self.base_of(fid).unwrap_or(dir.attr.version);
        let delta = Delta::of_names(nlink, dir.attr.ctime);
        let bytes = &mut self.state.scratch;
        inode::encode(&record_of(dir, base), bytes);
        self.tx.put_as(&key::inode(fid), bytes, |log| log.note_delta(fid, &delta));
    }

    fn last_name_gone(&mut self, inode: &Inode) {
        let fid = inode.fid();
        // A client that was asked for OPEN and still has it answered `Kept`. The author was not
        // asked, and may use it, too.
        if self.is_used(fid) {
            self.tell_author_of_open(fid);
            self.put_inode(inode);
            self.keep_orphan(fid);
        } else {
            self.destroy(inode);
        }
    }

    fn first_name(&mut self, fid: Fid) {
        self.state.orphans.remove(&fid);
        self.tx.delete(&key::orphan(fid));
    }

    fn put_dirent(&mut self, parent: Fid, name: &[u8], entry: Dirent) {
        self.name_changes(parent, name);
        self.tx.put(&key::dirent(parent, name), &dirent::encode(entry.fid, entry.file_type));
    }

    fn delete_dirent(&mut self, parent: Fid, name: &[u8]) {
        self.name_changes(parent, name);
        self.tx.delete(&key::dirent(parent, name));
    }

    fn put_xattr(&mut self, fid: Fid, name: &[u8], value: &[u8]) {
        let bytes = &mut self.state.scratch;
        xattr::encode(value, bytes);
        self.tx.put(&key::xattr(fid, name), bytes);
    }

    fn delete_xattr(&mut self, fid: Fid, name: &[u8]) {
        self.tx.delete(&key::xattr(fid, name));
    }
}

impl Records<'_> {
    /// Puts an inode. Of a directory that was there before, the journal says what has changed:
    /// `mtime_set` tells a time of modification that was set to what it was from one that was left
    /// alone. After a crash the change that gave the directory that time may not come back.
    fn put(&mut self, inode: &Inode, mtime_set: bool) {
        let fid = inode.fid();
        self.note_found(fid);
        if inode.is_dir() {
            // The answer may show it.
            self.show_names(fid, ALL_NAMES);
        }
        if !self.lock_context.asked.mask.is_empty() {
            self.lock_context.outcome.touch(entry_of(inode));
            self.grant(fid, InodeBits::UPDATE);
        }
        let transno = self.tx.transno().0;
        let old = if inode.is_dir() { self.attr_and_base(fid) } else { None };
        let base = match old {
            Some((_, base)) if inode.attr.version != transno => base,
            _ => inode.attr.version,
        };
        if inode.is_dir() {
            self.note_base(fid, base);
        }
        let bytes = &mut self.state.scratch;
        let record = record_of(inode, base);
        inode::encode(&record, bytes);
        let delta = old.map(|(old, _)| {
            let delta = Delta::between(&old, &inode.attr, transno);
            Delta { mtime: mtime_set.then_some(inode.attr.mtime).or(delta.mtime), ..delta }
        });
        put_whole(&mut self.tx, delta, &record, bytes);
    }
}
