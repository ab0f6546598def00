//! Root: the directory that a client mounts.

use crate::mds::{Mds, RequestContext};
use crate::realm::Realm;
use namespace::access::{EXECUTE, permission};
use namespace::context::Context;
use namespace::view::{directory, is_elsewhere};
use rpc::service::Export;
use types::dir_path::DirPath;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::STRIPES_ON_THE_WAY_MAX;
use wire::mds::{MdsReply, Root};

impl Mds {
    /// Walks as far as this MDT has the directories, and their stripes. The fileset is the
    /// administrator's, so its directories are not checked for the caller; those below it are.
    ///
    /// # Errors
    /// ENODEV: there is no such fileset; ENOENT, ENOTDIR: there is no such directory below it.
    /// ESTALE: the fileset changed while the client asked, here or at the MDT before. EAGAIN: its
    /// tree is not marked yet, or a directory on the way is being split.
    pub(in crate::ops) fn root(
        &self,
        request: &mut RequestContext<'_>,
        op: &Root,
    ) -> Result<MdsReply, Errno> {
        let fileset = self.fileset_of(request.export)?;
        let whole = fileset.join(&op.path);
        let from = if op.from == Fid::NONE { Fid::ROOT } else { op.from };
        self.ours(from)?;
        let walked = usize::try_from(op.walked).map_err(|_| Errno::EINVAL)?;
        if whole.names().len() < walked {
            return Err(Errno::ESTALE);
        }
        let of_fileset = fileset.names().len();
        let counted = u32::try_from(of_fileset).map_err(|_| Errno::EINVAL)?;
        if op.from != Fid::NONE && op.fileset != counted {
            return Err(Errno::ESTALE);
        }
        let realm = request.realm;
        // The first MDT that is asked has the root, and knows.
        let waits = op.from == Fid::NONE && !self.is_ready(realm);
        let (credentials, is_squashed) = (request.credentials, request.is_squashed);
        let (at, end) = self.show(request, |records| {
            let ctx = Context { credentials, now: Default::default(), version: 0 };
            let (mut at, mut end, mut asides) = (from, walked, 0);
            // The directories on the way to the fileset are not in its realm.
            records.lock_context.asked.realm = Realm::ALL;
            while end < whole.names().len() && !is_elsewhere(from, at) {
                let name = &whole.names()[end];
                if end >= of_fileset {
                    if waits {
                        return Err(Errno::EAGAIN);
                    }
                    records.lock_context.asked.realm = realm;
                }
                let next = directory(records, at).and_then(|dir| {
                    if is_squashed && end >= of_fileset {
                        permission(records, &ctx, &dir, EXECUTE)?;
                    }
                    records.next_on_the_way(&dir, name.as_bytes())
                });
                let (next, names) = match next {
                    Err(Errno::ENOENT | Errno::ENOTDIR) if end < of_fileset => {
                        return Err(Errno::ENODEV);
                    }
                    next => next?,
                };
                (at, end, asides) = (next, end + names, asides + usize::from(names == 0));
                if asides > STRIPES_ON_THE_WAY_MAX {
                    return Err(Errno::EAGAIN);
                }
            }
            if waits {
                return Err(Errno::EAGAIN);
            }
            if end >= of_fileset {
                records.lock_context.asked.realm = realm;
            }
            if !is_elsewhere(from, at) {
                records.settled(at)?;
                directory(records, at)?;
            }
            Ok((at, end))
        })?;
        let walked = u32::try_from(end).map_err(|_| Errno::EINVAL)?;
        let is_root = end == whole.names().len();
        let read_only = self.acting(request.export).is_some_and(|acting| acting.is_read_only());
        Ok(MdsReply::Root { fid: at, walked, fileset: counted, is_root, read_only })
    }

    /// The fileset of a client's nodemap; the root: it has none.
    fn fileset_of(&self, export: &Export) -> Result<DirPath, Errno> {
        let acting = self.acting(export);
        let nodemap = acting.as_ref().and_then(|acting| acting.nodemap.as_ref());
        let Some(nodemap) = nodemap else { return Ok(DirPath::ROOT) };
        // The MGS checked it.
        DirPath::parse(nodemap.fileset.as_bytes()).map_err(|_| Errno::ENODEV)
    }
}
