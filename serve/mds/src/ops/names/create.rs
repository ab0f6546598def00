//! Create: inode, name, layout and open handle in one transaction.

use crate::mds::{Mds, RequestContext};
use crate::ops::files::open::wanted;
use crate::ops::names::lookup::{SHOWN, entry};
use crate::records::Records;
use crate::records::tail;
use disk::inode::ItemTag;
use dlm::leases::OpenBy;
use layout::dir_stripes::encode_default;
use namespace::access::permission;
use namespace::create::{Made, New, create, create_unnamed};
use namespace::inode::{Inode, InodeFlags, Tail};
use namespace::open;
use observe::mutant::{Mutant, is_mutant};
use std::sync::Arc;
use types::attr::FileType;
use types::dir_stripes::DirDefault;
use types::errno::Errno;
use types::lock::InodeBits;
use types::session::{ClientUuid, OpenHandle};
use wire::mds::{Create, CreateKind, MdsReply, OpenFlags, Tmpfile};

/// Bits that a client may be granted for a file that it created.
const MADE: InodeBits = InodeBits::LOOKUP.union(InodeBits::UPDATE).union(InodeBits::LAYOUT);
/// For a file that it opened for writing: it may cache its writes, if no other client uses the
/// file.
const WRITTEN: InodeBits = MADE.union(InodeBits::DATA).union(InodeBits::WRITE);
/// Of a file that it opened to read.
const READ: InodeBits = MADE.union(InodeBits::OPEN).union(InodeBits::DATA);

impl Mds {
    /// # Errors
    /// Those of the system call; EREMOTE: the name leads to a file of another MDT, or, of a
    /// directory for which no MDT is named, the directory above says where it goes.
    pub(crate) fn create(
        &self,
        request: &mut RequestContext<'_>,
        op: &Create,
    ) -> Result<MdsReply, Errno> {
        let &Create { parent, ref name, ref kind, mode, umask, exclusive } = op;
        self.ours(parent)?;
        let (file_type, rdev, size, flags) = match kind {
            CreateKind::Regular(flags) => (FileType::Regular, 0, 0, *flags),
            CreateKind::Directory { .. } | CreateKind::Placed(_) => {
                (FileType::Directory, 0, 0, None)
            }
            CreateKind::Symlink(target) => (FileType::Symlink, 0, target.len() as u64, None),
            CreateKind::Special(FileType::Regular | FileType::Directory | FileType::Symlink, _) => {
                return Err(Errno::EINVAL);
            }
            CreateKind::Special(FileType::CharDevice | FileType::BlockDevice, 1..)
                if request.is_squashed && request.credentials.uid != 0 =>
            {
                return Err(Errno::EPERM);
            }
            CreateKind::Special(file_type, rdev) => (*file_type, *rdev, 0, None),
        };
        let may_exist = file_type == FileType::Regular && !exclusive;
        let last_committed = self.store.last_committed();
        let (export, is_squashed) = (request.export, request.is_squashed);
        self.change(request, |records, ctx| {
            records.settled_name(parent, name)?;
            if flags.is_some() {
                records.state.opens.admit(export.client())?;
            }
            let fid = {
                let Records { tx, state, .. } = &mut *records;
                state.fids.next(tx, last_committed)?
            };
            let new = New { fid, file_type, mode, umask, rdev, size };
            let write = flags.is_some_and(|f| f.write);
            let made = create(records, ctx, parent, name, new, |dir| match kind {
                CreateKind::Directory { mdt: None }
                    if dir.flags.contains(InodeFlags::HAS_DEFAULT_STRIPES) =>
                {
                    Err(Errno::EREMOTE)
                }
                _ => self.new_tail(dir, kind, write),
            })?;
            match made {
                Made::Found(_) | Made::Elsewhere(_) if !may_exist => Err(Errno::EEXIST),
                Made::Elsewhere(dirent) => as_file(dirent.file_type).and(Err(Errno::EREMOTE)),
                Made::Found(inode) => {
                    as_file(inode.file_type())?;
                    if let Some(flags) = flags.filter(|_| is_squashed) {
                        permission(records, ctx, &inode, wanted(flags))?;
                    }
                    self.opened(records, export.client(), inode, flags, false)
                }
                Made::Created(inode) => {
                    self.has_grown(records.state, parent, export.client());
                    self.opened(records, export.client(), inode, flags, true)
                }
            }
        })
    }

    /// O_TMPFILE: a file that lives as long as it is open, or gets a name.
    pub(in crate::ops) fn tmpfile(
        &self,
        request: &mut RequestContext<'_>,
        op: &Tmpfile,
    ) -> Result<MdsReply, Errno> {
        let &Tmpfile { parent, mode, umask, flags, linkable } = op;
        self.ours(parent)?;
        let last_committed = self.store.last_committed();
        let export = request.export;
        self.change(request, |records, ctx| {
            records.state.opens.admit(export.client())?;
            let fid = {
                let Records { tx, state, .. } = &mut *records;
                state.fids.next(tx, last_committed)?
            };
            let new = New { fid, file_type: FileType::Regular, mode, umask, rdev: 0, size: 0 };
            let kind = CreateKind::Regular(Some(flags));
            let tail = |dir: &Inode| self.new_tail(dir, &kind, flags.write);
            let inode = create_unnamed(records, ctx, parent, new, linkable, tail)?;
            records.keep_orphan(fid);
            self.opened(records, export.client(), inode, Some(flags), true)
        })
    }

    /// Tail of a new inode, from its directory's.
    pub(crate) fn new_tail(
        &self,
        dir: &Inode,
        kind: &CreateKind,
        write: bool,
    ) -> Result<(Tail, InodeFlags), Errno> {
        let default = match dir.flags.contains(InodeFlags::HAS_DEFAULT_LAYOUT) {
            true => tail::layout(dir.fid(), &dir.tail, ItemTag::DefaultLayout)?,
            false => None,
        };
        Ok(match kind {
            CreateKind::Regular(_) => {
                let mut flags = InodeFlags::empty();
                flags.set(InodeFlags::HAS_DATA, write);
                flags.set(InodeFlags::OWN_LAYOUT, default.is_some());
                let layout = self.new_layout(default);
                (tail::with_layout(ItemTag::Layout, &layout), flags)
            }
            CreateKind::Directory { .. } | CreateKind::Placed(_) => {
                let (mut tail, mut flags) = match default {
                    Some(layout) => (
                        tail::with_layout(ItemTag::DefaultLayout, &layout),
                        InodeFlags::HAS_DEFAULT_LAYOUT,
                    ),
                    None => (Tail::new(), InodeFlags::empty()),
                };
                if let Some(below) = tail::default_stripes(dir)?.and_then(DirDefault::below) {
                    let (tag, bytes) = (ItemTag::DefaultStripes, encode_default(&below));
                    tail = tail::replace(dir.fid(), &tail, tag, Some(&bytes))?;
                    flags |= InodeFlags::HAS_DEFAULT_STRIPES;
                }
                (tail, flags)
            }
            CreateKind::Symlink(target) => {
                (tail::with(ItemTag::LinkTarget, target), InodeFlags::empty())
            }
            CreateKind::Special(..) => (Tail::new(), InodeFlags::empty()),
        })
    }

    /// Opens the created or found file, if opening was asked for.
    pub(in crate::ops) fn opened(
        &self,
        records: &mut Records<'_>,
        client: ClientUuid,
        mut inode: Inode,
        flags: Option<OpenFlags>,
        created: bool,
    ) -> Result<MdsReply, Errno> {
        records.settled(inode.fid())?;
        let Some(flags) = flags else {
            records.shown(inode.fid(), MADE);
            return Ok(MdsReply::Opened {
                entry: entry(&inode),
                created,
                handle: OpenHandle(0),
                layout: None,
            });
        };
        open::open(&inode, flags.write, flags.append || flags.lasting, flags.exec)?;
        let fid = inode.fid();
        if inode.file_type() == FileType::Regular {
            records.state.opens.may_open(client, fid, flags)?;
        }
        let layout = match inode.file_type() {
            FileType::Regular => {
                Some(Arc::new(tail::layout(fid, &inode.tail, ItemTag::Layout)?.ok_or(Errno::EIO)?))
            }
            _ => None,
        };
        let write = flags.write && inode.file_type() == FileType::Regular;
        if write {
            records.may_write(fid)?;
        }
        records.used(client, fid, write);
        let (handle, first_writer) =
            records.state.opens.open(client, fid, OpenFlags { write, ..flags });
        if first_writer {
            // An existing mark may say more.
            if !self.unsettled.lock().has(fid) {
                records.mark_writer(fid, false);
            }
            records.note_data(&mut inode);
        }
        let opens = &records.state.opens;
        let bits = match inode.file_type() {
            FileType::Regular if write => WRITTEN,
            // Usually the file has no writer. Only if it has one, check whether that is this client
            // itself.
            FileType::Regular
                if opens.is_written(fid) && opens.others(client, fid) == OpenBy::Writers =>
            {
                READ.difference(InodeBits::OPEN)
            }
            FileType::Regular => READ,
            _ => SHOWN.union(InodeBits::OPEN),
        };
        // OPEN of an inode without a name would never be called back, so its holder would keep it
        // for good.
        let nameless = inode.attr.nlink == 0 && !is_mutant(Mutant::OpenOfRemoved);
        records.shown(fid, if nameless { bits.difference(InodeBits::OPEN) } else { bits });
        Ok(MdsReply::Opened { entry: entry(&inode), created, handle, layout })
    }
}

/// The answer of O_CREAT if the name leads to something other than a file. The caller's kernel
/// found nothing there, so another client has made it since.
///
/// # Errors
/// EISDIR as open(2); ESTALE of links and devices: the kernel looks again and follows or opens them
/// itself.
const fn as_file(file_type: FileType) -> Result<(), Errno> {
    match file_type {
        FileType::Regular => Ok(()),
        FileType::Directory => Err(Errno::EISDIR),
        _ => Err(Errno::ESTALE),
    }
}
