//! Directories over several MDTs (docs/dne.md, section 10): the stripe of each name, and the
//! attributes of the whole.
//!
//! To the kernel such a directory is one inode. Everything about a name in it (requests, locks,
//! what is known) is about the stripe that has the name. Callbacks name stripes, which the kernel
//! does not know, so it is told to trust neither names in such a directory nor its attributes. It
//! asks each time, and locks answer.

use crate::client::Client;
use data::locks::Locks;
use data::locks::stripes::Striped;
use data::node::NodeId;
use env::BoxFuture;
use layout::dir_stripes::{DirStripes, RECORD_XATTR};
use session::error::ClientError;
use session::fan_out::fan_out;
use session::session::Session;
use std::sync::Arc;
use std::time::Duration;
use types::attr::Attr;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use wire::mds::Entry;

/// How often the stripes of a directory are asked for that change each time.
const ASKED_MAX: usize = 8;
/// How often something is asked of stripes that change each time: for about 50 s.
const TRIES_MAX: u32 = 64;
/// How long a lookup waits for the MDT of an inode that the directory may have left.
const LEFT_WAIT: Duration = Duration::from_secs(1);
/// How often an inode is asked that the directory has left each time: for about 0.5 s.
const WENT_MAX: u32 = 16;
/// How often it is asked again without a pause.
const AT_ONCE_MAX: u32 = 8;
/// Pause before it is asked again: doubled each time, up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The stripes of which this inode is one; `None`: it is none. No request if they are known; 1
/// round trip for each directory in the life of a mount, and whenever a reply shows that they have
/// changed.
///
/// # Errors
/// Those of the MDT.
pub(crate) async fn stripes_of(
    session: &Session,
    locks: &Locks,
    fid: Fid,
) -> Result<Option<Arc<DirStripes>>, ClientError> {
    let mut newest = None;
    for _ in 0..ASKED_MAX {
        match locks.striped(fid) {
            Striped::No => return Ok(None),
            Striped::Of(stripes) => return Ok(Some(stripes)),
            Striped::Unknown => {}
        }
        // An inode that the directory has left may be gone.
        let fid = locks.table.lock().stripes.master(fid);
        let mdc = session.mdc(fid)?;
        let value = match mdc.getxattr(&Credentials::root(), fid, RECORD_XATTR.into()).await {
            Err(error) if error.errno() == Errno::ENODATA => {
                locks.table.lock().stripes.is_whole(fid);
                return Ok(None);
            }
            Err(error) if error.errno() == Errno::ESTALE => {
                // It was removed, and a program may have it open. Its stripes are not asked for
                // with each operation on it.
                locks.table.lock().stripes.is_whole(fid);
                return Err(error.into());
            }
            value => value?,
        };
        let stripes = DirStripes::decode(&value).map_err(|error| {
            tracing::error!(%fid, %error, "the MDT tells stripes of a directory that cannot be");
            Errno::EPROTO
        })?;
        let stripes = Arc::new(stripes);
        locks.learn_stripes(fid, &stripes);
        newest = Some(stripes);
    }
    Ok(newest)
}

/// What is asked of all stripes of a directory at once, until these do not change meanwhile: names
/// may have passed from a stripe that was asked to one that had been, and a stripe may be gone
/// because the directory has left it. Whether the directory itself is gone its MDT says, when it is
/// asked for the stripes ([`stripes_of`]). A change of its stripes is rare and short, so it is
/// asked again at once, [`AT_ONCE_MAX`] times, and then with pauses.
#[derive(Default)]
pub(crate) struct AskedAll {
    times: u32,
}

impl AskedAll {
    /// True if these are still the stripes of an inode, as far as replies have shown. Else all are
    /// to be asked again, and this has paused for that.
    ///
    /// # Errors
    /// EIO: the stripes have changed [`TRIES_MAX`] times, in about 50 s: MDTs do not agree
    /// about them.
    pub(crate) async fn still(
        &mut self,
        session: &Session,
        locks: &Locks,
        (fid, stripes): (Fid, Option<&DirStripes>),
    ) -> Result<bool, ClientError> {
        let unchanged = match (locks.striped(fid), stripes) {
            (Striped::No, None) => true,
            (Striped::Of(now), Some(then)) => now.generation() == then.generation(),
            _ => false,
        };
        if !unchanged {
            self.again(session, fid).await?;
        }
        Ok(unchanged)
    }

    /// An inode of a directory answered with an error. If the directory may have left it, what is
    /// known of its stripes is too old, and all are to be asked again. This has paused for that.
    ///
    /// # Errors
    /// The same error, if it says something else. As [`AskedAll::still`].
    pub(crate) async fn left(
        &mut self,
        session: &Session,
        locks: &Locks,
        fid: Fid,
        error: ClientError,
    ) -> Result<(), ClientError> {
        if ![Errno::ESTALE, Errno::ENOENT].contains(&error.errno()) {
            return Err(error);
        }
        locks.table.lock().stripes.outdated(fid);
        self.again(session, fid).await
    }

    async fn again(&mut self, session: &Session, fid: Fid) -> Result<(), ClientError> {
        self.times += 1;
        if self.times == TRIES_MAX {
            tracing::error!(%fid, "MDTs do not agree about the stripes of a directory: sheen fsck finds out");
            return Err(Errno::EIO.into());
        }
        pause(session, self.times).await;
        Ok(())
    }
}

/// Lets a change end, after this many of them.
async fn pause(session: &Session, times: u32) {
    if let Some(pause) = pause_after(times) {
        session.env.clock.sleep(pause).await;
    }
}

/// The pause after this many changes: none at first.
fn pause_after(times: u32) -> Option<Duration> {
    let doublings = times.checked_sub(AT_ONCE_MAX)?;
    Some(PAUSE_MIN.saturating_mul(1 << doublings.min(16)).min(PAUSE_MAX))
}

/// The directory that programs know, of one that an MDT named: a stripe may be the one above.
///
/// # Errors
/// Those of the MDT.
pub(crate) async fn whole(
    session: &Session,
    locks: &Locks,
    who: &Credentials,
    fid: Fid,
) -> Result<Fid, ClientError> {
    // The kernel knows no shards.
    if locks.striped(fid) == Striped::No && locks.nodes.node(fid).is_none() {
        let entry = session.mdc(fid)?.getattr(who, fid).await?;
        if entry.striped == 0 {
            return Ok(fid);
        }
        locks.table.lock().stripes.note(fid, entry.striped);
    }
    Ok(stripes_of(session, locks, fid).await?.map_or(fid, |stripes| stripes.master()))
}

impl Client {
    /// The stripes of which this inode is one, if it is one.
    pub(crate) async fn stripes(&self, fid: Fid) -> Result<Option<Arc<DirStripes>>, ClientError> {
        stripes_of(&self.session, &self.locks, fid).await
    }

    /// The inode that has, or would have, a name of this directory: itself, or one of its stripes.
    pub(crate) async fn place(&self, dir: Fid, name: &Name) -> Result<Fid, ClientError> {
        Ok(self.stripes(dir).await?.map_or(dir, |stripes| stripes.place(name.as_bytes())))
    }

    /// Runs an operation on names of these directories for a thread, which sends it to the stripes
    /// that it finds ([`Client::place`]). If a name is not there, what is known of the stripes is
    /// too old: they are asked for, and it is sent again, at first at once, later after pauses.
    ///
    /// # Errors
    /// Those of the operation; ESTALE, ENOENT: no MDT knows such a directory ([`NotKnown`]).
    ///
    /// [`NotKnown`]: crate::not_known::NotKnown
    pub(crate) async fn at_stripes<
        const N: usize,
        R,
        F: Future<Output = Result<R, ClientError>>,
    >(
        &self,
        thread: u32,
        dirs: [NodeId; N],
        mut op: impl FnMut([Fid; N]) -> F,
    ) -> Result<R, ClientError> {
        for times in 1..=TRIES_MAX {
            let mut fids = [Fid::ROOT; N];
            for (fid, dir) in fids.iter_mut().zip(dirs) {
                *fid = self.fid(dir)?;
            }
            match op(fids).await {
                Err(error) if error.errno() == Errno::EREMCHG => self.outdated(&fids),
                result => return result,
            }
            pause(&self.session, times).await;
            for (fid, dir) in fids.into_iter().zip(dirs) {
                match self.stripes(fid).await {
                    Err(error) if error.errno() == Errno::ESTALE => {
                        return Err(self.not_known.errno(thread, dir).into());
                    }
                    stripes => drop(stripes?),
                }
            }
        }
        Err(Errno::ESTALE.into())
    }

    /// What is known of the stripes of these directories is too old: the next use asks for them.
    pub(crate) fn outdated(&self, dirs: &[Fid]) {
        let stripes = &mut self.locks.table.lock().stripes;
        dirs.iter().for_each(|dir| stripes.outdated(*dir));
    }

    /// Runs an operation on an inode, which fails with EREMCHG if it has learned that the directory
    /// has another one by now ([`Client::went`]). It is run again then, and may find that the
    /// directory has gone on meanwhile.
    ///
    /// # Errors
    /// Those of the operation; ESTALE: the directory went on each time.
    pub(crate) async fn where_it_is<R, F: Future<Output = Result<R, ClientError>>>(
        &self,
        mut op: impl FnMut() -> F,
    ) -> Result<R, ClientError> {
        for times in 1..=WENT_MAX {
            match op().await {
                Err(error) if error.errno() == Errno::EREMCHG => {
                    pause(&self.session, times).await;
                }
                result => return result,
            }
        }
        Err(Errno::ESTALE.into())
    }

    /// An operation on an inode failed: true if that is because a directory has another inode by
    /// now, which is known then ([`Client::fid`]).
    pub(crate) async fn went(&self, fid: Fid, errno: Errno) -> bool {
        if ![Errno::EREMCHG, Errno::ESTALE].contains(&errno) {
            return false;
        }
        self.outdated(&[fid]);
        // If its MDT does not say, it is as it was.
        let _ = self.stripes(fid).await;
        self.locks.inode_now(fid) != fid
    }

    /// The kernel is about to be shown a directory under a name that led to `before`. If this is
    /// that directory with another inode, it is known then, and the node stays: else the kernel
    /// would have what is below it in two places. No request unless both are directories over
    /// MDTs; 1 or 2 round trips once the directory has gone, and [`LEFT_WAIT`] at most for an
    /// inode that it may have left. What cannot be asked gets a node of its own
    /// (docs/locks/kernel.md, R48).
    pub(crate) async fn keep_node(&self, before: Option<Fid>, entry: &Entry) {
        let fid = entry.attr.fid;
        let is_new = || self.locks.nodes.node(fid).is_none();
        if !entry.attr.is_dir() || entry.striped == 0 || !is_new() {
            return;
        }
        let before = before.filter(|fid| self.locks.nodes.node(*fid).is_some());
        let Some(before) = before else { return };
        // While names move, the record says which inodes the directory leaves.
        let _ = self.stripes(fid).await;
        if is_new() && self.session.has_lease(before) {
            tokio::select! {
                biased;
                _ = self.went(before, Errno::EREMCHG) => {}
                () = self.session.env.clock.sleep(LEFT_WAIT) => {}
            }
        }
    }

    /// As [`Client::place`], if that is known.
    pub(crate) fn place_known(&self, dir: Fid, name: &Name) -> Option<Fid> {
        match self.locks.striped(dir) {
            Striped::No => Some(dir),
            Striped::Of(stripes) => Some(stripes.place(name.as_bytes())),
            Striped::Unknown => None,
        }
    }

    /// True if this inode is a stripe of a directory.
    pub(crate) fn is_stripe(&self, fid: Fid) -> bool {
        self.locks.striped(fid) != Striped::No
    }

    /// The attributes of a directory, of which those of this inode are a part. No request for
    /// stripes whose attributes are covered; else 1 round trip.
    ///
    /// # Errors
    /// ESTALE: it was removed meanwhile. Those of the MDTs.
    pub(crate) async fn whole_attr(
        &self,
        who: &Credentials,
        attr: Attr,
    ) -> Result<Attr, ClientError> {
        let mut asked = AskedAll::default();
        loop {
            let stripes = match self.stripes(attr.fid).await {
                Ok(Some(stripes)) => stripes,
                Ok(None) => return Ok(attr),
                // It was removed, and a program has it open.
                Err(error) if error.errno() == Errno::ENOENT => return Ok(attr),
                Err(error) => return Err(error),
            };
            let whole = match self.attr_of_all(who, attr, &stripes).await {
                Ok(whole) => whole,
                Err(error) => {
                    asked.left(&self.session, &self.locks, attr.fid, error).await?;
                    continue;
                }
            };
            if asked.still(&self.session, &self.locks, (attr.fid, Some(&stripes))).await? {
                return Ok(whole);
            }
        }
    }

    async fn attr_of_all(
        &self,
        who: &Credentials,
        attr: Attr,
        stripes: &DirStripes,
    ) -> Result<Attr, ClientError> {
        let mut work: Vec<BoxFuture<'static, Result<Attr, ClientError>>> = Vec::new();
        let mut all = vec![attr];
        for stripe in stripes.all().iter().copied().filter(|stripe| *stripe != attr.fid) {
            match self.attr_of_stripe(stripe) {
                Some(attr) => all.push(attr),
                None => {
                    let (mdc, who) = (self.session.mdc(stripe)?, who.clone());
                    work.push(Box::pin(async move { Ok(mdc.getattr(&who, stripe).await?.attr) }));
                }
            }
        }
        for answer in fan_out(work).await {
            all.push(answer?);
        }
        Ok(merged(stripes.master(), &all))
    }

    /// As [`Client::whole_attr`], if all stripes are covered.
    pub(crate) fn whole_attr_known(&self, attr: Attr) -> Option<Attr> {
        match self.locks.striped(attr.fid) {
            Striped::No => Some(attr),
            Striped::Unknown => None,
            Striped::Of(stripes) => {
                let all: Option<Vec<Attr>> =
                    stripes.all().iter().map(|stripe| self.attr_of_stripe(*stripe)).collect();
                Some(merged(stripes.master(), &all?))
            }
        }
    }

    fn attr_of_stripe(&self, stripe: Fid) -> Option<Attr> {
        Some(self.locks.attr(stripe).filter(|_| self.session.has_lease(stripe))?.attr)
    }
}

/// The attributes of a directory from those of its stripes. Mode and owner are those of all.
fn merged(master: Fid, all: &[Attr]) -> Attr {
    let mut whole = all.iter().find(|attr| attr.fid == master).copied().unwrap_or(all[0]);
    whole.fid = master;
    // Each stripe counts its own `.` and its name.
    let subdirectories: u32 = all.iter().map(|attr| attr.nlink.saturating_sub(2)).sum();
    // One that was removed has none.
    whole.nlink = if whole.nlink == 0 { 0 } else { subdirectories.saturating_add(2) };
    for attr in all {
        whole.atime = whole.atime.max(attr.atime);
        whole.mtime = whole.mtime.max(attr.mtime);
        whole.ctime = whole.ctime.max(attr.ctime);
        whole.version = whole.version.max(attr.version);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::time::Timestamp;

    #[test]
    fn stripes_that_do_not_agree_are_asked_for_less_than_a_minute() {
        let pauses: Vec<_> = (1..TRIES_MAX).map(pause_after).collect();
        assert!(pauses[..7].iter().all(Option::is_none) && pauses[7] == Some(PAUSE_MIN));
        assert!(pauses.is_sorted() && pauses.last() == Some(&Some(PAUSE_MAX)));
        let whole: Duration = pauses.into_iter().flatten().sum();
        assert!((Duration::from_secs(40)..Duration::from_secs(60)).contains(&whole), "{whole:?}");
    }

    #[test]
    fn a_directory_is_as_new_as_its_newest_stripe_and_has_all_subdirectories() {
        let time = |sec| Timestamp { sec, nsec: 0 };
        let stripe = |oid, nlink, at| Attr {
            fid: Fid { oid, ..Fid::ROOT },
            mode: libc::S_IFDIR | 0o750,
            uid: 1,
            gid: 2,
            nlink,
            rdev: 0,
            size: 4096,
            blocks: 8,
            atime: time(at),
            mtime: time(at + 1),
            ctime: time(at + 2),
            btime: time(0),
            version: 1,
        };
        let all = [stripe(2, 5, 30), stripe(1, 3, 10), stripe(3, 2, 20)];
        let whole = merged(all[1].fid, &all);
        assert_eq!((whole.fid.oid, whole.nlink, whole.size, whole.btime), (1, 6, 4096, time(0)));
        assert_eq!([whole.atime, whole.mtime, whole.ctime], [time(30), time(31), time(32)]);
        assert_eq!(merged(all[1].fid, &[stripe(1, 0, 1), stripe(2, 2, 2)]).nlink, 0, "removed");
    }
}
