//! New inodes: mknod, mkdir, symlink, create.

use crate::caller::{Caller, Found};
use crate::client::Client;
use crate::counters::Operation;
use crate::open::{FileHandle, OpenMode};
use bytes::Bytes;
use data::finish::Finish;
use data::node::NodeId;
use session::error::ClientError;
use std::sync::Arc;
use stubs::mdc::{Located, Opened};
use types::attr::{Attr, FileType, SetAttr};
use types::credentials::Credentials;
use types::dir_stripes::DirSpec;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::SYMLINK_BYTES_MAX;
use types::mkdir_at::MkdirAt;
use types::name::Name;
use types::target::TargetIndex;
use wire::mds::{Create, CreateKind, Tmpfile};

/// How often a file is created, or opened, that goes each time before its MDT is asked.
const REMOTE_TRIES: usize = 8;

impl Client {
    /// Creates and opens a regular file (or opens the existing one, unless `open.exclusive`). 1
    /// round trip.
    pub async fn create(
        self: Arc<Self>,
        caller: Caller,
        parent: NodeId,
        name: Name,
        mode: u32,
        open: OpenMode,
    ) -> Result<(Found, FileHandle), ClientError> {
        let _timed = self.timed(Operation::Create);
        let send = |[dir]: [Fid; 1]| {
            self.clone().create_sent(caller.clone(), dir, name.clone(), mode, open)
        };
        let (found, handle) = self.at_stripes(caller.pid, [parent], send).await?;
        self.changed_in(parent, Some(&name)).await;
        Ok((self.found_in(parent, found), handle))
    }

    async fn create_sent(
        self: Arc<Self>,
        caller: Caller,
        parent: Fid,
        name: Name,
        mode: u32,
        open: OpenMode,
    ) -> Result<(Found, FileHandle), ClientError> {
        let parent = self.place(parent, &name).await?;
        let tasks = self.session.env.tasks.clone();
        let (opener, closer) = (self.clone(), self.clone());
        let abandoned = self.if_abandoned(parent, &name);
        let work = async move { opener.create_opened(caller, parent, name, mode, open).await };
        let close = |result: Result<(Found, FileHandle), ClientError>| async move {
            if let Ok((found, handle)) = &result {
                closer.forget(found.node, 1);
                closer.close(*handle).await;
            }
            abandoned(result).await;
        };
        Finish::new("create", &tasks, work).or_else(close).await
    }

    async fn create_opened(
        self: Arc<Self>,
        caller: Caller,
        parent: Fid,
        name: Name,
        mode: u32,
        open: OpenMode,
    ) -> Result<(Found, FileHandle), ClientError> {
        let kind = CreateKind::Regular(Some(open.flags));
        let (who, umask) = (caller.credentials.clone(), caller.umask);
        let create = Create { parent, name, kind, mode, umask, exclusive: open.exclusive };
        let _in_dir = self.locks.enter_dir(parent);
        let mdc = self.session.mdc(parent)?;
        let attempt = || async {
            for _ in 0..REMOTE_TRIES {
                match mdc.create(&who, create.clone()).await {
                    // The name leads to a file of another MDT.
                    Err(error) if error.errno() == Errno::EREMOTE => {}
                    opened => return Ok(opened?),
                }
                if let Some(opened) = self.open_elsewhere(&who, &create, open).await? {
                    return Ok(opened);
                }
            }
            Err(Errno::ESTALE.into())
        };
        let opened = self.if_not_executed(None, attempt).await?;
        let (attr, created) = (opened.entry.attr, opened.created);
        let handle = self.opened(&caller, opened, open);
        if open.truncate && !created {
            let set = SetAttr { size: Some(0), ..SetAttr::default() };
            match self.clone().truncate(who, attr.fid, set).await {
                Ok(stat) => {
                    return Ok((self.changed_found(parent, &create.name, &stat.attr), handle));
                }
                Err(error) => {
                    self.close(handle).await;
                    return Err(error);
                }
            }
        }
        let found = match created {
            true => self.made(parent, Some(&create.name), &attr),
            false => self.changed_found(parent, &create.name, &attr),
        };
        Ok((found, handle))
    }

    /// Opens a file that another MDT has. `None`: the name has gone, or leads elsewhere by now.
    async fn open_elsewhere(
        &self,
        who: &Credentials,
        create: &Create,
        open: OpenMode,
    ) -> Result<Option<Opened>, ClientError> {
        let mdc = self.session.mdc(create.parent)?;
        let fid = match mdc.lookup(who, create.parent, create.name.clone()).await {
            Ok(Located::Elsewhere(fid)) => fid,
            Ok(Located::Here(_)) => return Ok(None),
            Err(error) if matches!(error.errno(), Errno::ENOENT | Errno::EAGAIN) => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        match self.session.mdc(fid)?.open(who, fid, open.flags).await {
            // It has lost its last name since, and lives on because it is open.
            Ok(opened) if opened.entry.attr.nlink == 0 => {
                self.session.mdc(fid)?.close(who, fid, opened.handle).await?;
                Ok(None)
            }
            Ok(opened) => Ok(Some(opened)),
            // It was removed since its name was found.
            Err(error) if error.errno() == Errno::ESTALE => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a regular file, FIFO, socket or device. `mode` with type bits, `rdev` in
    /// `huge_encode_dev` form.
    pub async fn mknod(
        self: Arc<Self>,
        caller: Caller,
        parent: NodeId,
        name: Name,
        mode: u32,
        rdev: u32,
    ) -> Result<Found, ClientError> {
        let _timed = self.timed(Operation::Mknod);
        // As mknod(2): no type bits mean a regular file.
        let file_type = match mode & libc::S_IFMT {
            0 => Some(FileType::Regular),
            _ => FileType::from_mode(mode),
        };
        let kind = match file_type {
            Some(FileType::Regular) => CreateKind::Regular(None),
            Some(device @ (FileType::CharDevice | FileType::BlockDevice)) => {
                CreateKind::Special(device, rdev)
            }
            Some(other @ (FileType::Fifo | FileType::Socket)) => CreateKind::Special(other, 0),
            Some(FileType::Directory) => return Err(Errno::EPERM.into()),
            Some(FileType::Symlink) | None => return Err(Errno::EINVAL.into()),
        };
        self.make(caller, parent, name, kind, mode & !libc::S_IFMT).await
    }

    /// Makes a directory, on the MDT of its parent. 1 round trip.
    pub async fn mkdir(
        self: Arc<Self>,
        caller: Caller,
        parent: NodeId,
        name: Name,
        mode: u32,
    ) -> Result<Found, ClientError> {
        let _timed = self.timed(Operation::Mkdir);
        self.make(caller, parent, name, CreateKind::Directory { mdt: None }, mode & !libc::S_IFMT)
            .await
    }

    /// Makes a directory on an MDT of choice. 1 round trip.
    ///
    /// # Errors
    /// ERANGE: the file system has no such MDT. EREMOTE: the MDT of the parent cannot reach it.
    pub async fn mkdir_at(
        self: Arc<Self>,
        caller: Caller,
        parent: NodeId,
        name: Name,
        mode: u32,
        mdt: TargetIndex,
    ) -> Result<Found, ClientError> {
        let _timed = self.timed(Operation::Mkdir);
        self.session.targets.mdc_of_config(mdt)?;
        self.make(
            caller,
            parent,
            name,
            CreateKind::Directory { mdt: Some(mdt) },
            mode & !libc::S_IFMT,
        )
        .await
    }

    /// Makes a directory on MDTs of choice. 1 round trip.
    ///
    /// # Errors
    /// ERANGE: the file system has no such MDT. E2BIG: more stripes than MDTs.
    pub async fn mkdir_placed(
        self: Arc<Self>,
        caller: Caller,
        parent: NodeId,
        name: Name,
        mode: u32,
        spec: DirSpec,
    ) -> Result<Found, ClientError> {
        let _timed = self.timed(Operation::Mkdir);
        for mdt in &spec.mdts {
            self.session.targets.mdc_of_config(*mdt)?;
        }
        let kind = match spec.mdts[..] {
            [mdt] if spec.stripes() == 1 => CreateKind::Directory { mdt: Some(mdt) },
            _ => CreateKind::Placed(spec),
        };
        self.make(caller, parent, name, kind, mode & !libc::S_IFMT).await
    }

    /// As [`Client::mkdir_placed`], for a program that does not ask by mkdir(2): the kernel, which
    /// may know that there is no such name, and the directory's attributes, must ask again.
    ///
    /// # Errors
    /// As [`Client::mkdir_placed`].
    pub async fn mkdir_unseen(
        self: Arc<Self>,
        caller: Caller,
        parent: NodeId,
        MkdirAt { spec, mode, umask, name }: MkdirAt,
    ) -> Result<(), ClientError> {
        let dir = self.fid(parent)?;
        let caller = Caller { umask, ..caller };
        let found = self.clone().mkdir_placed(caller, parent, name.clone(), mode, spec).await?;
        self.locks.abandoned(dir, &name).await;
        self.locks.hide_attr(dir).await;
        self.forget(found.node, 1);
        Ok(())
    }

    /// Makes a symbolic link to `target` (1..=4095 bytes).
    pub async fn symlink(
        self: Arc<Self>,
        caller: Caller,
        parent: NodeId,
        name: Name,
        target: Bytes,
    ) -> Result<Found, ClientError> {
        let _timed = self.timed(Operation::Symlink);
        if target.is_empty() {
            return Err(Errno::ENOENT.into());
        }
        if target.len() > SYMLINK_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG.into());
        }
        self.make(caller, parent, name, CreateKind::Symlink(target), 0o777).await
    }

    /// O_TMPFILE: an open file without a name, made in a directory. Without `open.exclusive` a link
    /// may give it a name; else it is gone after its last close. 1 round trip.
    pub async fn tmpfile(
        self: Arc<Self>,
        caller: Caller,
        parent: NodeId,
        mode: u32,
        open: OpenMode,
    ) -> Result<(Found, FileHandle), ClientError> {
        let _timed = self.timed(Operation::Create);
        let parent = self.fid(parent)?;
        let tasks = self.session.env.tasks.clone();
        let (opener, closer) = (self.clone(), self.clone());
        let work = async move {
            let (mode, umask, linkable) = (mode & !libc::S_IFMT, caller.umask, !open.exclusive);
            let tmpfile = Tmpfile { parent, mode, umask, flags: open.flags, linkable };
            let opened = opener.session.mdc(parent)?.tmpfile(&caller.credentials, tmpfile).await?;
            let attr = opened.entry.attr;
            let handle = opener.opened(&caller, opened, open);
            Ok((opener.made(parent, None, &attr), handle))
        };
        let close = |result: Result<(Found, FileHandle), ClientError>| async move {
            if let Ok((found, handle)) = result {
                closer.forget(found.node, 1);
                closer.close(handle).await;
            }
        };
        Finish::new("create", &tasks, work).or_else(close).await
    }

    async fn make(
        &self,
        caller: Caller,
        parent: NodeId,
        name: Name,
        kind: CreateKind,
        mode: u32,
    ) -> Result<Found, ClientError> {
        let send =
            |[dir]: [Fid; 1]| self.make_sent(caller.clone(), dir, name.clone(), kind.clone(), mode);
        let (placed, attr) = self.at_stripes(caller.pid, [parent], send).await?;
        self.changed_in(parent, Some(&name)).await;
        Ok(self.found_in(parent, self.made(placed, Some(&name), &attr)))
    }

    /// Also returns the stripe that has the name.
    async fn make_sent(
        &self,
        caller: Caller,
        parent: Fid,
        name: Name,
        kind: CreateKind,
        mode: u32,
    ) -> Result<(Fid, Attr), ClientError> {
        let parent = self.place(parent, &name).await?;
        let in_dir = self.locks.enter_dir(parent);
        let mdc = self.session.mdc(parent)?;
        let create =
            Create { parent, name: name.clone(), kind, mode, umask: caller.umask, exclusive: true };
        let work = async move {
            let _in_dir = in_dir;
            Ok(mdc.make(&caller.credentials, create).await?.attr)
        };
        let abandoned = self.if_abandoned(parent, &name);
        let made: Result<Attr, ClientError> =
            Finish::new("make", &self.session.env.tasks, work).or_else(abandoned).await;
        Ok((parent, made?))
    }
}
