//! Durability: fsync, fsyncdir, syncfs. All targets are asked at once.

use crate::caller::Caller;
use crate::client::Client;
use crate::counters::Operation;
use crate::open::{DirHandle, FileHandle};
use env::BoxFuture;
use session::error::ClientError;
use session::fan_out::fan_out;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::object::ObjectId;
use types::target::TargetIndex;

type Sync = BoxFuture<'static, Result<(), ClientError>>;

impl Client {
    /// Data and attributes of a file are durable when this returns. 1 round trip, 1 more if
    /// something was not stored in objects, 1 more if the layout is not known. The MDT is told what
    /// is stored in the request that makes it durable, while the OSTs make the objects durable.
    /// Everything of a file that is needed to read its data back is in the MDT's records (size,
    /// layout), so `datasync` makes no difference.
    pub async fn fsync(
        self: Arc<Self>,
        caller: Caller,
        handle: FileHandle,
        _datasync: bool,
    ) -> Result<(), ClientError> {
        let _timed = self.timed(Operation::Fsync);
        let open = self.files_open.get(handle)?;
        open.check()?;
        let fid = open.file.fid;
        let stored = self.data.store_file(&open.file).await;
        // A loss is reported first: an error that comes along with it is covered by that report.
        open.failed_at_sync(caller.pid)?;
        // The lock is held until the MDT knows what is stored.
        let (_guard, is_told) = stored?;
        // It may have been called back since the last write.
        let layout = self.data.layout_for(&caller.credentials, &open.file, false, 0, 0).await?;
        let mut work: Vec<Sync> = Vec::new();
        let (me, file, thread) = (self.clone(), open.file.clone(), caller.pid);
        if !is_told {
            work.push(Box::pin(
                async move { me.data.report_durably(&file, &caller.credentials).await },
            ));
        }
        let mut by_ost: BTreeMap<TargetIndex, Vec<ObjectId>> = BTreeMap::new();
        for (ost, object) in layout.objects(fid) {
            by_ost.entry(ost).or_default().push(object);
        }
        for (ost, objects) in by_ost {
            let osc = self.session.targets.osc(ost)?;
            work.push(Box::pin(async move { Ok(osc.sync(objects).await?) }));
        }
        let synced = fan_out(work).await.into_iter().collect::<Result<(), ClientError>>();
        // An OST may have come back meanwhile without changes that it had answered.
        open.failed_at_sync(thread)?;
        synced
    }

    /// The names in a directory are durable when this returns.
    pub async fn fsyncdir(
        self: Arc<Self>,
        caller: Caller,
        handle: DirHandle,
    ) -> Result<(), ClientError> {
        let _timed = self.timed(Operation::Fsync);
        let open = self.dirs_open.get(handle)?;
        let stripes = self.stripes(open.fid).await?;
        let whole = [open.fid];
        let all = stripes.as_ref().map_or(&whole[..], |stripes| stripes.all());
        let mut work: Vec<Sync> = Vec::new();
        for stripe in all {
            let (mdc, credentials) = (self.session.mdc(*stripe)?, caller.credentials.clone());
            work.push(Box::pin(async move { Ok(mdc.sync(&credentials).await?) }));
        }
        fan_out(work).await.into_iter().collect()
    }

    /// Everything of this file system is durable when this returns.
    pub async fn syncfs(self: Arc<Self>, caller: Caller) -> Result<(), ClientError> {
        let _timed = self.timed(Operation::Syncfs);
        self.data.flush_all().await?;
        let mut work: Vec<Sync> = Vec::new();
        for mdc in self.session.targets.mdcs() {
            let credentials = caller.credentials.clone();
            work.push(Box::pin(async move { Ok(mdc.sync(&credentials).await?) }));
        }
        for osc in self.session.targets.oscs() {
            work.push(Box::pin(async move { Ok(osc.sync(Vec::new()).await?) }));
        }
        fan_out(work).await.into_iter().collect()
    }
}
