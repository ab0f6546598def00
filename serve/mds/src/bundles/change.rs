//! A change of a striped directory that is none of its names: mode, owner, times, ACLs, flags,
//! defaults.
//!
//! Each stripe has a copy of all that its MDT needs to check an operation on a name, and to hand on
//! to what is made. So such a change is one bundle over all stripes. It is drafted over the
//! directory itself, by the rules of one MDT, and each stripe gets the result. The directory's own
//! MDT coordinates.

use super::coordinate::Working;
use super::gather::{Gathering, Hindrance, Preparing};
use super::steps::record_of_inode;
use crate::mds::{Mds, RequestContext};
use crate::records::{Records, entry_of, tail};
use disk::bundle::Step;
use disk::inode::ItemTag;
use layout::dir_stripes::{DirStripes, encode_default};
use layout::layout::Layout;
use namespace::acl::{ACL_ACCESS, ACL_DEFAULT};
use namespace::context::Context;
use namespace::inode::{Dirent, Inode, InodeFlags};
use namespace::project;
use namespace::view::{Change, EachEntry, EachName, View};
use namespace::xattr::SetFlags;
use namespace::{flags, setattr, xattr};
use std::collections::BTreeMap;
use types::attr::SetAttr;
use types::bundle::BundleId;
use types::dir_stripes::DirDefault;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::project::Project;
use wire::mds::{MdsReply, PeerFind};

/// What changes of a directory.
#[derive(Clone, Copy)]
pub(crate) enum DirChange<'a> {
    /// Mode, owner, times.
    Attributes(&'a SetAttr),
    /// An ACL.
    SetAcl(&'a [u8], &'a [u8], SetFlags),
    /// An ACL goes.
    RemoveAcl(&'a [u8]),
    /// chattr(1)
    Flags(u32),
    /// `lfs project`
    Project(Project),
    /// The layout of files that are made in it.
    DefaultLayout(Option<&'a Layout>),
    /// Where directories go that are made in it.
    DefaultStripes(Option<&'a DirDefault>),
}

impl Mds {
    /// Makes a change of a directory. The view shows it.
    ///
    /// # Errors
    /// Those of the system call.
    pub(crate) fn make_dir_change(
        &self,
        view: &mut impl View,
        ctx: &Context<'_>,
        fid: Fid,
        change: DirChange<'_>,
    ) -> Result<(), Errno> {
        match change {
            DirChange::Attributes(set) => setattr::setattr(view, ctx, fid, set).map(drop),
            DirChange::SetAcl(name, value, flags) => {
                xattr::set(view, ctx, fid, name, value, flags).map(drop)
            }
            DirChange::RemoveAcl(name) => xattr::remove(view, ctx, fid, name).map(drop),
            DirChange::Flags(wanted) => flags::set_flags(view, ctx, fid, wanted).map(drop),
            DirChange::Project(wanted) => project::set_project(view, ctx, fid, wanted).map(drop),
            DirChange::DefaultLayout(_) | DirChange::DefaultStripes(_) => {
                let mut inode = view.inode(fid)?.ok_or(Errno::ESTALE)?;
                if !ctx.owns(inode.attr.uid) {
                    return Err(Errno::EPERM);
                }
                if !inode.is_dir() {
                    return Err(Errno::ENOTDIR);
                }
                match change {
                    DirChange::DefaultStripes(default) => {
                        let bytes = default.map(encode_default);
                        let bytes = bytes.as_ref().map(|bytes| &bytes[..]);
                        let tag = ItemTag::DefaultStripes;
                        inode.tail = tail::replace(fid, &inode.tail, tag, bytes)?;
                        inode.flags.set(InodeFlags::HAS_DEFAULT_STRIPES, default.is_some());
                    }
                    DirChange::DefaultLayout(layout) => self.set_default(&mut inode, layout)?,
                    _ => {}
                }
                // Lists of attributes show whether a directory has one.
                let bits = InodeBits::LAYOUT.union(InodeBits::UPDATE).union(InodeBits::XATTR);
                view.before(&[Change::of(fid, bits)])?;
                inode.attr.ctime = ctx.now;
                inode.attr.version = ctx.version;
                view.put_inode(&inode);
                Ok(())
            }
        }
    }

    /// A change of a striped directory, at all stripes. Answers `Entry` to one of its attributes,
    /// else `Done`. Waits while an MDT is away.
    ///
    /// # Errors
    /// Those of the system call; EREMCHG: `fid` is a shard.
    pub(crate) async fn change_stripes(
        &self,
        request: &mut RequestContext<'_>,
        fid: Fid,
        change: DirChange<'_>,
    ) -> Result<MdsReply, Errno> {
        self.ours(fid)?;
        let mut busy = 0;
        let _trying = self.trying();
        loop {
            let stripes = self.read(|records| tail::stripes(&records.there(fid)?))?;
            if stripes.master() != fid {
                return Err(Errno::EREMCHG);
            }
            match self.attempt_change(request, &stripes, change).await? {
                Ok(reply) => return Ok(reply),
                Err(Hindrance::Busy) => {
                    self.back_off(request.export, busy).await?;
                    busy += 1;
                }
                Err(Hindrance::Away) => self.pause(request.export).await?,
            }
        }
    }

    async fn attempt_change(
        &self,
        request: &mut RequestContext<'_>,
        stripes: &DirStripes,
        change: DirChange<'_>,
    ) -> Result<Result<MdsReply, Hindrance>, Errno> {
        let begun = self.state.lock().bundles.coordinator.begin(Vec::new());
        let Some(id) = begun else { return Ok(Err(Hindrance::Away)) };
        let _working = Working::on(self, id);
        let all: Vec<PeerFind> = stripes.all().iter().copied().map(PeerFind::Stripe).collect();
        let asked = Preparing::of(id, request.client(), true);
        let pinned = self.pin_all(request, &mut Gathering::new(asked), &all, true).await?;
        if let Err(hindrance) = pinned {
            return Ok(Err(hindrance));
        }
        let drafted = self.draft_change(request, id, stripes, change)?;
        let Some((steps, reply)) = drafted else { return Ok(Err(Hindrance::Busy)) };
        if steps.is_empty() {
            return Ok(Ok(reply));
        }
        let done = self.decide_and_apply(request, id, steps, reply).await?;
        Ok(done.ok_or(Hindrance::Away))
    }

    /// `None`: its stripes have changed since they were pinned.
    fn draft_change(
        &self,
        request: &mut RequestContext<'_>,
        id: BundleId,
        stripes: &DirStripes,
        change: DirChange<'_>,
    ) -> Result<Option<(Vec<Step>, MdsReply)>, Errno> {
        let fid = stripes.master();
        request.lock_context.asked.bundle = Some(id);
        let drafted = self.plan(request, |records, ctx| {
            let before = records.there(fid)?;
            if tail::stripes(&before)? != *stripes {
                return Ok(None);
            }
            let mut draft = Draft { records, inode: None, xattrs: BTreeMap::new() };
            self.make_dir_change(&mut draft, ctx, fid, change)?;
            let Draft { inode, xattrs, .. } = draft;
            let steps = match &inode {
                Some(after) => changes(&before, after, &xattrs, stripes)?,
                None => Vec::new(),
            };
            let reply = match change {
                DirChange::Attributes(_) => {
                    MdsReply::Entry(Box::new(entry_of(inode.as_ref().unwrap_or(&before))))
                }
                _ => MdsReply::Done,
            };
            Ok(Some((steps, reply)))
        });
        request.lock_context.asked.bundle = None;
        drafted
    }
}

/// A stripe beside the directory itself has all of its record but what tells its name, and no
/// extended attributes but the ACLs.
pub(super) fn as_shard(shard: &mut Inode) -> Result<(), Errno> {
    let acls = InodeFlags::HAS_ACL | InodeFlags::HAS_DEFAULT_ACL;
    shard.tail = tail::replace(shard.fid(), &shard.tail, ItemTag::Links, None)?;
    shard.flags.set(InodeFlags::HAS_XATTR, shard.flags.intersects(acls));
    Ok(())
}

/// One step for each stripe.
fn changes(
    before: &Inode,
    after: &Inode,
    xattrs: &BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    stripes: &DirStripes,
) -> Result<Vec<Step>, Errno> {
    let atime = before.attr.atime != after.attr.atime;
    let mtime = before.attr.mtime != after.attr.mtime;
    let change = |fid: &Fid| {
        let mut stripe = after.clone();
        if *fid != stripes.master() {
            as_shard(&mut stripe)?;
        }
        (stripe.attr.fid, stripe.attr.version) = (*fid, 0);
        let xattrs = xattrs.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        Ok(Step::Change { fid: *fid, atime, mtime, record: record_of_inode(&stripe), xattrs })
    };
    stripes.all().iter().map(change).collect()
}

/// True if it is one of the attributes that each stripe has a copy of.
pub(crate) fn is_acl(name: &[u8]) -> bool {
    [ACL_ACCESS, ACL_DEFAULT].contains(&name)
}

/// The records with a change of one inode on top, which is in no record.
struct Draft<'a, 'b> {
    records: &'a Records<'b>,
    inode: Option<Inode>,
    xattrs: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl View for Draft<'_, '_> {
    fn inode(&self, fid: Fid) -> Result<Option<Inode>, Errno> {
        match &self.inode {
            Some(inode) if inode.fid() == fid => Ok(Some(inode.clone())),
            _ => self.records.inode(fid),
        }
    }

    fn dirent(&self, parent: Fid, name: &[u8]) -> Result<Option<Dirent>, Errno> {
        self.records.dirent(parent, name)
    }

    fn entries(
        &self,
        dir: Fid,
        after: Option<&[u8]>,
        each: &mut EachEntry<'_>,
    ) -> Result<(), Errno> {
        self.records.entries(dir, after, each)
    }

    fn xattr(&self, fid: Fid, name: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
        match self.xattrs.get(name) {
            Some(value) => Ok(value.clone()),
            None => self.records.xattr(fid, name),
        }
    }

    fn xattr_names(&self, fid: Fid, each: &mut EachName<'_>) -> Result<(), Errno> {
        // Operations ask before they change.
        self.records.xattr_names(fid, each)
    }

    fn project(&self, inode: &Inode) -> Result<u32, Errno> {
        self.records.project(inode)
    }

    fn set_project(&self, inode: &mut Inode, project: u32) -> Result<(), Errno> {
        self.records.set_project(inode, project)
    }

    fn put_inode(&mut self, inode: &Inode) {
        self.inode = Some(inode.clone());
    }

    fn last_name_gone(&mut self, _: &Inode) {}

    fn put_dirent(&mut self, _: Fid, _: &[u8], _: Dirent) {}

    fn delete_dirent(&mut self, _: Fid, _: &[u8]) {}

    fn put_xattr(&mut self, _: Fid, name: &[u8], value: &[u8]) {
        self.xattrs.insert(name.to_vec(), Some(value.to_vec()));
    }

    fn delete_xattr(&mut self, _: Fid, name: &[u8]) {
        self.xattrs.insert(name.to_vec(), None);
    }
}
