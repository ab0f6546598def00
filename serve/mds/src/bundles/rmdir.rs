//! A directory is removed whose inode another MDT has. Its name is here.

use super::coordinate::{Plan, TRIES_MAX};
use crate::mds::{Mds, RequestContext};
use disk::bundle::Step;
use namespace::rmdir::plan_elsewhere;
use replay::bundle::Other;
use types::attr::FileType;
use types::errno::Errno;
use types::target::TargetIndex;
use wire::mds::{MdsReply, Removed, Rmdir};

impl Mds {
    /// Waits while the other MDT is away.
    ///
    /// # Errors
    /// Those of rmdir(2).
    pub(crate) async fn remote_rmdir(
        &self,
        request: &mut RequestContext<'_>,
        op: &Rmdir,
    ) -> Result<MdsReply, Errno> {
        self.ours(op.parent)?;
        for _ in 0..TRIES_MAX {
            let plan = self.in_turn(request, |request| self.plan_rmdir(request, op)).await?;
            let Some(plan) = plan else {
                self.pause(request.export).await?;
                continue;
            };
            if let Some(reply) = self.carry_through(request, plan).await? {
                return Ok(reply);
            }
        }
        Err(Errno::EBUSY)
    }

    /// Checks what can be checked here, and pins the name. `None`: too many bundles are not
    /// finished.
    fn plan_rmdir(
        &self,
        request: &mut RequestContext<'_>,
        op: &Rmdir,
    ) -> Result<Option<Plan>, Errno> {
        let Rmdir { parent, name } = op;
        let expected = request.expected.clone();
        self.plan(request, |records, ctx| {
            expected.taken(records, *parent, name)?;
            let fid = plan_elsewhere(records, ctx, *parent, name.as_bytes())?;
            if fid.mdt() == self.name().index.0 {
                // It was removed, and another one made here.
                return Err(Errno::ENOENT);
            }
            let (file_type, time) = (FileType::Directory, ctx.now);
            let steps = vec![
                Step::Remove { fid, time },
                Step::Leave { dir: *parent, name: name.clone(), file_type, time },
            ];
            let other = Other { mdt: TargetIndex(fid.mdt()), prepares: true };
            let reply = MdsReply::Removed(Removed { fid, nlink: 0 });
            Ok(self.begin(records, other, (*parent, name), steps, reply))
        })
    }
}
