//! What the fake servers have, and how it changes.

use super::*;

impl State {
    pub(super) fn entry(&self, fid: Fid) -> Result<Box<Entry>, Errno> {
        let inode = self.inodes.get(&fid).ok_or(Errno::ESTALE)?;
        let stripes = self.striped.values().find(|stripes| stripes.all().contains(&fid));
        let striped = stripes.map_or(0, DirStripes::generation);
        Ok(Box::new(Entry { attr: inode.attr, has_xattr: false, noatime: false, striped }))
    }

    pub(super) fn inode(&mut self, fid: Fid) -> Result<&mut Inode, Errno> {
        self.inodes.get_mut(&fid).ok_or(Errno::ESTALE)
    }

    /// A directory gets other stripes; `None`: it is removed.
    pub fn stripe(&mut self, fid: Fid, stripes: Option<DirStripes>) {
        for stripe in self.striped.remove(&fid).iter().flat_map(|stripes| &stripes.all()[1..]) {
            self.inodes.remove(stripe);
        }
        let Some(stripes) = stripes else {
            self.inodes.remove(&fid);
            return;
        };
        for stripe in &stripes.all()[1..] {
            let attr = Attr { fid: *stripe, ..self.inodes[&fid].attr };
            let (names, layout) = (BTreeMap::new(), self.inodes[&fid].layout.clone());
            self.inodes.insert(*stripe, Inode { attr, names, layout });
        }
        self.striped.insert(fid, stripes);
    }

    pub(super) fn open(&mut self, fid: Fid, created: bool) -> Result<MdsReply, Errno> {
        let (entry, layout) = (self.entry(fid)?, self.inode(fid)?.layout.clone());
        self.next += 1;
        self.open.insert(u64::from(self.next), fid);
        Ok(MdsReply::Opened {
            entry,
            created,
            handle: OpenHandle(u64::from(self.next)),
            layout: Some(layout),
        })
    }

    /// What was expected of these names must be so.
    pub(super) fn expect<const N: usize>(
        &mut self,
        places: [(Fid, &Name); N],
    ) -> Result<(), Errno> {
        let expected = std::mem::take(&mut self.expected);
        let is_so = |expect: &Expect| {
            let asked = places.contains(&(expect.parent, &expect.name));
            let found = self.inodes.get(&expect.parent).and_then(|dir| dir.names.get(&expect.name));
            asked && found == Some(&expect.inode)
        };
        if expected.iter().all(is_so) { Ok(()) } else { Err(Errno::ESTALE) }
    }

    pub(super) fn mds(&mut self, op: MdsOp) -> Result<MdsReply, Errno> {
        Ok(match op {
            MdsOp::Lookup(Lookup { parent, name }) => {
                let fid = *self.inode(parent)?.names.get(&name).ok_or(Errno::ENOENT)?;
                if fid.mdt() != parent.mdt() {
                    return Ok(MdsReply::Remote { fid, file_type: FileType::Directory });
                }
                MdsReply::Entry(self.entry(fid)?)
            }
            MdsOp::GetParent(GetParent { fid }) if fid.mdt() != 0 => {
                MdsReply::Remote { fid: Fid::ROOT, file_type: FileType::Directory }
            }
            MdsOp::GetParent(_) => MdsReply::Entry(self.entry(Fid::ROOT)?),
            MdsOp::Root(Root { path, from, walked, .. }) => {
                let mut fid = if from == Fid::NONE { Fid::ROOT } else { from };
                let (here, mut end) = (fid.mdt(), walked as usize);
                while end < path.names().len() && fid.mdt() == here {
                    let found = self.inode(fid)?.names.get(&path.names()[end]);
                    (fid, end) = (*found.ok_or(Errno::ENOENT)?, end + 1);
                }
                MdsReply::Root {
                    fid,
                    walked: end as u32,
                    fileset: 0,
                    is_root: end == path.names().len(),
                    read_only: false,
                }
            }
            MdsOp::Getattr(Getattr { fid, stored }) => {
                self.to_store.extend(stored.then_some(fid));
                MdsReply::Entry(self.entry(fid)?)
            }
            MdsOp::Lock(lock) => {
                let entry = self.entry(lock.fid)?;
                self.locks.push(lock);
                MdsReply::Entry(entry)
            }
            MdsOp::Setattr(Setattr { fid, set }) => {
                let inode = self.inode(fid)?;
                if inode.attr.is_dir() && set.size.is_some() {
                    return Err(Errno::EISDIR);
                }
                inode.attr.size = set.size.unwrap_or(inode.attr.size);
                inode.attr.version += 1;
                self.changes = Transno(self.changes.0 + 1);
                if !self.commits_late {
                    self.durable = self.changes;
                }
                MdsReply::Entry(self.entry(fid)?)
            }
            MdsOp::Create(Create { parent, name, kind, mode, exclusive, .. }) => {
                if let Some(fid) = self.inode(parent)?.names.get(&name).copied() {
                    return if exclusive { Err(Errno::EEXIST) } else { self.open(fid, false) };
                }
                self.next += 1;
                let mdt = match &kind {
                    CreateKind::Directory { mdt: Some(mdt) } => mdt.0,
                    _ => parent.mdt(),
                };
                let seq = Fid::SEQ_NORMAL + u64::from(mdt) * Fid::SEQ_WIDTH;
                let fid = Fid { seq, oid: self.next, ver: 0 };
                let file_type = match kind {
                    CreateKind::Regular(_) => FileType::Regular,
                    CreateKind::Directory { .. } | CreateKind::Placed(_) => FileType::Directory,
                    CreateKind::Symlink(_) => FileType::Symlink,
                    CreateKind::Special(file_type, _) => file_type,
                };
                let layout = layout(self.stripes, !self.lazy_layout);
                let attr = attr(fid, file_type.mode_bits() | mode);
                self.inodes.insert(fid, Inode { attr, names: BTreeMap::new(), layout });
                self.inode(parent)?.names.insert(name, fid);
                match kind {
                    CreateKind::Regular(Some(_)) => self.open(fid, true)?,
                    _ => MdsReply::Opened {
                        entry: self.entry(fid)?,
                        created: true,
                        handle: OpenHandle(0),
                        layout: None,
                    },
                }
            }
            MdsOp::GetattrMany(GetattrMany { fids, .. }) => MdsReply::Attrs(
                fids.iter().map(|fid| self.entry(*fid).ok().map(|entry| *entry)).collect(),
            ),
            MdsOp::Open(Open { fid, .. }) => self.open(fid, false)?,
            MdsOp::Close(Close { handle, .. }) => {
                self.open.remove(&handle.0).ok_or(Errno::EBADF)?;
                MdsReply::Done
            }
            MdsOp::Accessed(_) => MdsReply::Done,
            MdsOp::Expect(expect) => {
                self.expected.push(expect);
                MdsReply::Done
            }
            MdsOp::Rmdir(Rmdir { parent, name }) => {
                self.expect([(parent, &name)])?;
                let fid = self.inode(parent)?.names.remove(&name).ok_or(Errno::ENOENT)?;
                self.inodes.remove(&fid);
                MdsReply::Removed(Removed { fid, nlink: 0 })
            }
            MdsOp::Unlink(Unlink { parent, name }) => {
                self.expect([(parent, &name)])?;
                let fid = self.inode(parent)?.names.remove(&name).ok_or(Errno::ENOENT)?;
                if !self.open_elsewhere {
                    self.inodes.remove(&fid);
                }
                MdsReply::Removed(Removed { fid, nlink: 0 })
            }
            MdsOp::Rename(Rename { parent, name, new_parent, new_name, .. }) => {
                self.expect([(parent, &name), (new_parent, &new_name)])?;
                let fid = self.inode(parent)?.names.remove(&name).ok_or(Errno::ENOENT)?;
                let replaced = self.inode(new_parent)?.names.insert(new_name, fid);
                if let Some(replaced) = replaced {
                    self.inodes.remove(&replaced);
                }
                MdsReply::Removed(Removed { fid: replaced.unwrap_or(Fid::NONE), nlink: 0 })
            }
            MdsOp::Link(Link { fid, new_parent, new_name }) => {
                let attr = &mut self.inode(fid)?.attr;
                attr.nlink += 1;
                attr.version += 1;
                self.inode(new_parent)?.names.insert(new_name, fid);
                MdsReply::Entry(self.entry(fid)?)
            }
            MdsOp::Readdir(Readdir { fid, after, limit, with_attr, with_layout, .. }) => {
                let names = self.inode(fid)?.names.clone();
                let mut rest =
                    names.into_iter().filter(|(name, _)| after.as_ref().is_none_or(|a| name > a));
                let mut entries = Vec::new();
                for (name, to) in rest.by_ref().take(limit as usize) {
                    let entry = *self.entry(to)?;
                    let file_type = entry.attr.file_type();
                    let entry = (with_attr && to.mdt() == fid.mdt()).then_some(entry);
                    let layout = self.inode(to)?.layout.clone();
                    let layout = (with_layout && file_type == FileType::Regular).then_some(layout);
                    entries.push(DirEntry { name, fid: to, file_type, entry, layout });
                }
                MdsReply::Entries { entries, more: rest.next().is_some() }
            }
            MdsOp::Read(Read { fid, offset, len }) => {
                if self.inode(fid)?.layout.mdt_bytes() == 0 {
                    return Err(Errno(libc::EREMCHG));
                }
                let (entry, all) = (self.entry(fid)?, self.small.get(&fid).ok_or(Errno::EIO)?);
                let end = all.len().min(offset as usize + len as usize);
                MdsReply::Data { entry, data: all.slice((offset as usize).min(end)..end) }
            }
            MdsOp::GetLayout(GetLayout { fid, write, .. }) => {
                let stripes = self.stripes;
                let inode = self.inode(fid)?;
                if write {
                    inode.layout = layout(stripes, true);
                }
                MdsReply::Layout(inode.layout.clone())
            }
            MdsOp::Wrote(Wrote { fid, end, blocks_delta, .. }) => {
                let attr = &mut self.inode(fid)?.attr;
                attr.size = attr.size.max(end);
                attr.version += 1;
                attr.blocks = attr.blocks.saturating_add_signed(blocks_delta);
                MdsReply::Entry(self.entry(fid)?)
            }
            MdsOp::Getxattr(Getxattr { fid, name }) => {
                let to = self.gone_on.get(&fid);
                match (&name[..], to) {
                    (RECORD_XATTR, Some(to)) => {
                        let record = DirStripes::going(fid, None, DirHash::Crush, vec![*to]);
                        MdsReply::Bytes(record.expect("one MDT to another").encode().into())
                    }
                    (RECORD_XATTR, None) => {
                        self.inode(fid)?;
                        let told = self.striped.get(&fid).ok_or(Errno::ENODATA)?.encode();
                        if let Some(next) = self.next_stripes.pop_front() {
                            self.stripe(fid, next);
                        }
                        MdsReply::Bytes(told.into())
                    }
                    (name, Some(_)) if name == LINKS.as_bytes() => return Err(Errno::EREMCHG),
                    (name, None) if name == LINKS.as_bytes() => {
                        MdsReply::Bytes(format!("{}/d\0", Fid::ROOT).into())
                    }
                    _ => return Err(Errno::ENODATA),
                }
            }
            MdsOp::Listxattr(_) => MdsReply::Bytes(Bytes::new()),
            MdsOp::Readlink(_) => MdsReply::Bytes(Bytes::from_static(b"target")),
            MdsOp::Unlock(_) => MdsReply::Done,
            MdsOp::Statfs => {
                MdsReply::Statfs(Statfs { files_total: 100, files_free: 90, ..Statfs::default() })
            }
            MdsOp::Sync => {
                self.durable = self.changes;
                MdsReply::Done
            }
            MdsOp::FlockTest(_) => MdsReply::Flock(self.lock),
            MdsOp::FlockCancel(FlockCancel { lock, .. }) => {
                let waiting = std::mem::take(&mut self.waiting);
                for (wanted, sender) in waiting {
                    if wanted.owner == lock.owner {
                        let _ = sender.send(Err(Errno::EINTR));
                    } else {
                        self.waiting.push((wanted, sender));
                    }
                }
                MdsReply::Done
            }
            MdsOp::Lease(Lease { fid, owner, act }) => MdsReply::Lease(match act {
                LeaseAct::Acquire(mode) => {
                    self.leases.insert((fid, owner), mode);
                    Some(mode)
                }
                LeaseAct::Check => self.leases.get(&(fid, owner)).copied(),
                LeaseAct::Release => self.leases.remove(&(fid, owner)),
            }),
            other => panic!("the fake MDT does not know {other:?}"),
        })
    }

    /// `Err` carries what to wait for.
    pub(super) fn flock(
        &mut self,
        lock: Flock,
        wait: bool,
    ) -> Result<Result<(), Errno>, oneshot::Receiver<Result<(), Errno>>> {
        match (lock.kind, self.lock) {
            (FlockKind::Unlock, held) => {
                if held.is_some_and(|held| held.owner == lock.owner) {
                    self.lock = None;
                    if !self.waiting.is_empty() {
                        let (next, sender) = self.waiting.remove(0);
                        self.lock = Some(next);
                        let _ = sender.send(Ok(()));
                    }
                }
                Ok(Ok(()))
            }
            (_, Some(held)) if held.owner != lock.owner => {
                if !wait {
                    return Ok(Err(Errno::EAGAIN));
                }
                let (sender, receiver) = oneshot::channel();
                self.waiting.push((lock, sender));
                Err(receiver)
            }
            _ => {
                self.lock = Some(lock);
                Ok(Ok(()))
            }
        }
    }

    pub(super) fn ost(&mut self, index: u16, op: OstOp) -> Result<OstReply, Errno> {
        if let Some((_, errno)) = self.broken_ost.filter(|(broken, _)| *broken == index)
            && matches!(op, OstOp::Write(_) | OstOp::Punch(_))
        {
            return Err(errno);
        }
        let blocks = |object: Option<&Vec<u8>>| object.map_or(0, |o| o.len().div_ceil(512)) as i64;
        Ok(match op {
            OstOp::Read(ObjectRead { object, offset, len }) => {
                let bytes = self.objects.get(&object).map_or(&[][..], |o| o);
                let from = (offset.0 as usize).min(bytes.len());
                let to = (from + len as usize).min(bytes.len());
                OstReply::Data(Bytes::copy_from_slice(&bytes[from..to]))
            }
            OstOp::Write(ObjectWrite { object, offset, data, .. }) => {
                let before = blocks(self.objects.get(&object));
                let bytes = self.objects.entry(object).or_default();
                let (from, to) = (offset.0 as usize, offset.0 as usize + data.len());
                bytes.resize(bytes.len().max(to), 0);
                bytes[from..to].copy_from_slice(&data);
                let grown = blocks(self.objects.get(&object)) - before;
                OstReply::Changed { blocks_delta: if self.answers_again { 0 } else { grown } }
            }
            OstOp::Punch(ObjectPunch { object, start, end, kind }) => {
                let before = blocks(self.objects.get(&object));
                let (start, end) = (start.0 as usize, end.0 as usize);
                match kind {
                    PunchKind::Truncate => {
                        if let Some(bytes) = self.objects.get_mut(&object) {
                            bytes.truncate(start);
                        }
                    }
                    PunchKind::Hole => {
                        if let Some(bytes) = self.objects.get_mut(&object) {
                            let end = end.min(bytes.len());
                            bytes[start.min(end)..end].fill(0);
                        }
                    }
                    PunchKind::Zero | PunchKind::Allocate => {
                        let bytes = self.objects.entry(object).or_default();
                        bytes.resize(bytes.len().max(end), 0);
                        if kind == PunchKind::Zero {
                            bytes[start..end].fill(0);
                        }
                    }
                }
                OstReply::Changed { blocks_delta: blocks(self.objects.get(&object)) - before }
            }
            // Objects without holes.
            OstOp::Seek(ObjectSeek { object, offset, hole }) => {
                let len = self.objects.get(&object).map_or(0, |o| o.len() as u64);
                let found = if hole { len.max(offset.0) } else { offset.0 };
                OstReply::Offset((offset.0 < len).then_some(types::object::ObjectOffset(found)))
            }
            OstOp::Getattr(ObjectGetattr { object }) => {
                let object = self.objects.get(&object);
                OstReply::Attr {
                    size: object.map_or(0, |o| o.len() as u64),
                    blocks: blocks(object) as u64,
                }
            }
            OstOp::Sync(_) => OstReply::Done,
            OstOp::Grant(GrantSpace { spend, want, .. }) => {
                OstReply::Granted { more: if self.stingy { 0 } else { want }, paid: spend }
            }
            OstOp::Statfs => {
                OstReply::Statfs(Statfs { bytes_total: 1000, bytes_free: 500, ..Statfs::default() })
            }
            other => panic!("the fake OST does not know {other:?}"),
        })
    }

    /// Size and blocks of a file, as the MDT was told.
    pub fn size_and_blocks(&self, fid: Fid) -> (u64, u64) {
        self.inodes.get(&fid).map_or((0, 0), |inode| (inode.attr.size, inode.attr.blocks))
    }

    /// Blocks of a file by its objects.
    pub fn blocks(&self, fid: Fid) -> u64 {
        let of_file = self.objects.iter().filter(|(object, _)| object.fid == fid);
        of_file.map(|(_, bytes)| bytes.len().div_ceil(512) as u64).sum()
    }

    /// Another client changed every byte of a file.
    pub fn invert_bytes(&mut self, fid: Fid) {
        let of_file = self.objects.iter_mut().filter(|(object, _)| object.fid == fid);
        of_file.for_each(|(_, bytes)| bytes.iter_mut().for_each(|byte| *byte = !*byte));
    }

    /// Bytes of a file by its objects.
    pub fn bytes(&self, fid: Fid) -> usize {
        self.objects
            .iter()
            .filter(|(object, _)| object.fid == fid)
            .map(|(_, bytes)| bytes.len())
            .sum()
    }
}
