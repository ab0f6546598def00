//! Names to inodes.

use crate::caller::{Caller, Found};
use crate::client::Client;
use crate::counters::Operation;
use data::kernel_view::given_back::GivenBack;
use data::kernel_view::recent::Asked;
use data::locks::table::Known;
use data::node::NodeId;
use session::error::ClientError;
use std::sync::Arc;
use std::time::Duration;
use stubs::mdc::Located;
use types::attr::{Attr, FileType};
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use wire::mds::Entry;

/// Result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Looked {
    /// An inode.
    Found(Found),
    /// No inode, which may be trusted for this long.
    Absent(Duration),
}

impl Looked {
    /// The inode, and its type, if there is one.
    fn inode(self) -> Option<(Fid, FileType)> {
        match self {
            Looked::Found(found) => Some((found.attr.fid, found.attr.file_type())),
            Looked::Absent(_) => None,
        }
    }
}

/// How often a name is looked up whose file goes each time before it can be held.
const PIN_TRIES: usize = 8;
/// How often a name is looked up whose inode goes each time before its MDT, or its writer, is
/// asked.
const REMOTE_TRIES: usize = 8;

impl Client {
    /// Finds a name in a directory. 1 round trip, none if it is covered; 1 more if another MDT has
    /// the inode.
    ///
    /// # Errors
    /// ENOENT, and those of the MDT.
    pub async fn lookup(
        self: Arc<Self>,
        caller: Caller,
        parent: NodeId,
        name: Name,
    ) -> Result<Found, ClientError> {
        match self.lookup_name(caller, parent, name).await? {
            Looked::Found(found) => Ok(found),
            Looked::Absent(_) => Err(Errno::ENOENT.into()),
        }
    }

    /// As [`Client::lookup`], also returning how long the absence of such a name may be trusted.
    ///
    /// # Errors
    /// Those of the MDT, but not ENOENT.
    pub async fn lookup_name(
        self: Arc<Self>,
        caller: Caller,
        parent: NodeId,
        name: Name,
    ) -> Result<Looked, ClientError> {
        let thread = caller.pid;
        if let Some(known) = self.lookup_known(thread, parent, &name) {
            return Ok(known);
        }
        let look_up = |[dir]: [Fid; 1]| self.look_up(caller.clone(), dir, name.clone());
        let looked = self.at_stripes(thread, [parent], look_up).await?;
        self.kernel_looked(thread, parent, &name, looked.inode());
        Ok(self.as_seen_from(parent, looked))
    }

    /// Names in a mirror of a directory are asked for each time: callbacks name the directory
    /// itself.
    fn as_seen_from(&self, parent: NodeId, looked: Looked) -> Looked {
        match looked {
            Looked::Found(found) => Looked::Found(self.found_in(parent, found)),
            Looked::Absent(valid) => Looked::Absent(self.unless_mirror(parent, valid)),
        }
    }

    async fn look_up(
        &self,
        caller: Caller,
        parent: Fid,
        name: Name,
    ) -> Result<Looked, ClientError> {
        if parent == Fid::BY_FID {
            return self.lookup_by_fid(&caller, &name).await;
        }
        let _timed = self.timed(Operation::Lookup);
        let dir = parent;
        let parent = self.place(dir, &name).await?;
        self.locks.name_unchanging(parent, &name).await;
        let _in_dir = self.locks.enter_dir(parent);
        let mdc = self.session.mdc(parent)?;
        // What came while this waited may show that the directory was split.
        let is_here = || self.place_known(dir, &name) == Some(parent);
        if self.open_ahead(&caller.credentials, parent, &name).await
            && is_here()
            && let Some(known) = self.look_up_in_table(parent, &name)
        {
            return Ok(known);
        }
        if self.stat_ahead(&caller.credentials, &mdc, parent, &name).await
            && is_here()
            && let Some(known) = self.look_up_in_table(parent, &name)
        {
            return Ok(known);
        }
        if self.list_names(&caller.credentials, parent).await
            && is_here()
            && let Some(known) = self.look_up_in_table(parent, &name)
        {
            return Ok(known);
        }
        let before = self.locks.expected(parent, &name);
        for _ in 0..PIN_TRIES {
            let looked = self.look_up_entry(&caller.credentials, parent, &name).await;
            if let Ok(entry) = &looked {
                self.data.show_eof(entry.attr.fid, self.locks.with_dirty(entry.attr).size).await;
            }
            match looked {
                Ok(entry) if self.is_careful() && entry.attr.file_type() == FileType::Regular => {
                    if self.pin(entry.attr.fid).await? {
                        return Ok(Looked::Found(self.found(parent, Some(&name), &entry.attr)));
                    }
                }
                Ok(entry) => {
                    self.keep_node(before, &entry).await;
                    self.found_name(&caller.credentials, parent);
                    self.note_found(parent, &entry.attr);
                    return Ok(Looked::Found(self.found(parent, Some(&name), &entry.attr)));
                }
                Err(error) if error.errno() == Errno::ENOENT => {
                    self.missed_name(parent);
                    return Ok(self.absent(parent, &name));
                }
                Err(error) => return Err(error),
            }
        }
        Err(Errno::ESTALE.into())
    }

    /// Where a name leads. If that is to another MDT, that one is asked for the inode: 2 round
    /// trips, 1 if a lock covers the name.
    ///
    /// # Errors
    /// ESTALE: each time the inode went before its MDT was asked. Those of the MDTs.
    async fn look_up_entry(
        &self,
        who: &Credentials,
        parent: Fid,
        name: &Name,
    ) -> Result<Entry, ClientError> {
        let mdc = self.session.mdc(parent)?;
        let mut known = match self.locks.looked_up(parent, name) {
            Known::To(fid) if fid.mdt() != parent.mdt() && self.session.has_lease(parent) => {
                Some(fid)
            }
            _ => None,
        };
        for _ in 0..REMOTE_TRIES {
            let fid = match known.take() {
                Some(fid) => fid,
                None => match mdc.lookup(who, parent, name.clone()).await {
                    Ok(Located::Here(entry)) => return Ok(entry),
                    Ok(Located::Elsewhere(fid)) => fid,
                    // It was removed while its writer was asked for its size. ESTALE would reach a
                    // program that wants to make something of this name.
                    Err(error) if error.errno() == Errno::EAGAIN => continue,
                    Err(error) => return Err(error.into()),
                },
            };
            match self.session.mdc(fid)?.getattr(who, fid).await {
                // It was removed since its name was found.
                Err(error) if error.errno() == Errno::ESTALE => {}
                // Its last name, and it lives on because it is open.
                Ok(entry) if entry.attr.nlink == 0 => {}
                answer => return Ok(answer?),
            }
        }
        Err(Errno::ESTALE.into())
    }

    /// A name, if locks cover it: no request, no waiting. The kernel checks the permission of the
    /// thread to search the directory.
    pub fn lookup_known(&self, thread: u32, parent: NodeId, name: &Name) -> Option<Looked> {
        if let Some(shown) = self.lookup_shown(parent, name) {
            return Some(shown);
        }
        if self.is_careful() {
            return None;
        }
        let begun = self.session.env.clock.now();
        let dir = self.place_known(self.nodes.fid(parent)?, name)?;
        let known = self.look_up_in_table(dir, name)?;
        if self.statahead.lock().hit(dir) {
            self.stat_rest(dir, name);
        }
        self.was_known([Operation::Lookup, Operation::LookupHit], begun);
        self.kernel_looked(thread, parent, name, known.inode());
        Some(self.as_seen_from(parent, known))
    }

    /// A name, if locks cover it and what it leads to.
    fn look_up_in_table(&self, dir: Fid, name: &Name) -> Option<Looked> {
        if !self.session.has_lease(dir) {
            return None;
        }
        match self.locks.looked_up(dir, name) {
            Known::To(fid) => {
                let attr = self.locks.attr(fid)?.attr;
                if self.data.writeback.kernel_eof.is_behind(fid, attr.size) {
                    return None;
                }
                self.note_found(dir, &attr);
                Some(Looked::Found(self.found(dir, Some(name), &attr)))
            }
            Known::Absent => Some(self.absent(dir, name)),
            Known::Nothing => None,
        }
    }

    /// A program finds a directory, which it may be about to list, or a file that it may be about
    /// to open.
    fn note_found(&self, parent: Fid, attr: &Attr) {
        match attr.file_type() {
            FileType::Directory => self.dir_ahead.lock().found(attr.fid, parent),
            FileType::Regular => self.found_in.note(attr.fid, parent),
            _ => {}
        }
    }

    /// The kernel asks for an absent name only under its directory's lock.
    fn absent(&self, parent: Fid, name: &Name) -> Looked {
        if self.is_stripe(parent) {
            self.locks.show_name(parent, name, None);
            return Looked::Absent(Duration::ZERO);
        }
        Looked::Absent(
            self.session.valid(parent, self.locks.trust_name(parent, name, None, Asked::First)),
        )
    }

    /// `.`: the inode itself, counted once more.
    pub async fn lookup_self(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
    ) -> Result<Found, ClientError> {
        let _timed = self.timed(Operation::Lookup);
        let fid = self.fid(node)?;
        let entry = self.session.mdc(fid)?.getattr(&caller.credentials, fid).await?;
        Ok(self.found(fid, None, &entry.attr))
    }

    /// `..`: the parent of a directory; that of the root of the mount is the root itself.
    ///
    /// # Errors
    /// ESTALE: the parent is not below the root of the mount. Those of the MDTs.
    pub async fn lookup_parent(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
    ) -> Result<Found, ClientError> {
        let _timed = self.timed(Operation::Lookup);
        let fid = self.fid(node)?;
        if fid == self.nodes.root() {
            let entry = self.session.mdc(fid)?.getattr(&caller.credentials, fid).await?;
            return Ok(self.found(fid, None, &entry.attr));
        }
        let entry = match self.session.mdc(fid)?.get_parent(&caller.credentials, fid).await? {
            Located::Here(entry) => entry,
            Located::Elsewhere(parent) => {
                self.session.mdc(parent)?.getattr(&caller.credentials, parent).await?
            }
        };
        let entry = match self.stripes(entry.attr.fid).await? {
            Some(stripes) if stripes.master() != entry.attr.fid => {
                let (who, above) = (&caller.credentials, stripes.master());
                self.session.mdc(above)?.getattr(who, above).await?
            }
            _ => entry,
        };
        if !self.is_below(&caller.credentials, entry.attr.fid).await? {
            return Err(Errno::ESTALE.into());
        }
        Ok(self.found(fid, None, &entry.attr))
    }

    /// The kernel gives back `count` lookups of a node.
    pub fn forget(&self, node: NodeId, count: u64) {
        let pages = |fid| self.data.writeback.forget_pages(fid);
        let given_back = self.locks.given_back(node, count, pages);
        let Some(GivenBack { fid, removed }) = given_back else { return };
        self.removed.forget(fid);
        if self.locks.no_open() {
            self.forgotten(fid);
        }
        if removed {
            self.locks.bury(fid);
        }
    }
}
