//! What OSTs have answered and may lose in a power cut. The sessions keep it and bring it back (docs/recovery.md, section 4);
//! here is what the mount has to do with it.

use crate::client::{Client, UNMOUNT_FLUSH_WAIT};
use crate::fan_out::fan_out;
use crate::file::File;
use env::BoxFuture;
use rpc::import::ImportState;
use std::collections::BTreeSet;
use std::time::Duration;
use stubs::osc::Osc;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::CONNECT_TIMEOUT;
use types::object::ObjectId;
use wire::message::Op;
use wire::ost::OstOp;

/// An OST that has come back and is not in service yet.
const RECOVERS: [ImportState; 3] = [ImportState::Replay, ImportState::ReplayLocks, ImportState::ReplayWait];
/// How often it is looked for such ones.
const LOOK: Duration = Duration::from_millis(500);

impl Client {
    /// Nobody will be there to bring back what OSTs have answered: they are waited for that are there, and also for those that are being
    /// brought back what they lost.
    pub(crate) async fn make_kept_durable(&self) {
        let keeps: Vec<Osc> = self.targets.oscs().into_iter().filter(|osc| osc.import().kept_bytes() > 0).collect();
        let recovers = || keeps.iter().any(|osc| RECOVERS.contains(&osc.import().state()));
        let clock = &self.env.clock;
        let given_up = async {
            let began = clock.now();
            // It may have taken the whole of one attempt to find out that a machine was gone.
            clock.sleep(2 * CONNECT_TIMEOUT).await;
            while recovers() && clock.now() < began + UNMOUNT_FLUSH_WAIT {
                clock.sleep(LOOK).await;
            }
        };
        let sync = |osc: Osc| async move {
            if let Err(error) = osc.sync(Vec::new()).await {
                tracing::warn!(target = %osc.import().target(), %error, "unmounting: what was written may be lost in a power cut");
            }
        };
        let all = fan_out(keeps.iter().cloned().map(|osc| Box::pin(sync(osc)) as BoxFuture<'static, ()>).collect());
        tokio::select! {
            biased;
            _ = all => {}
            () = given_up => tracing::warn!("unmounting without a sync: what was written may be lost in a power cut"),
        }
    }

    /// What an OST had answered is lost: its files tell it ([`crate::writeback::failures`]).
    pub(crate) fn lost_objects(&self, lost: &[Op]) {
        let objects: BTreeSet<ObjectId> = lost.iter().filter_map(object_of).collect();
        let (mut closed, mut told) = (objects.clone(), BTreeSet::new());
        for open in self.files_open.all() {
            let file = &open.file;
            let hit: Vec<ObjectId> = match file.layout() {
                Some(layout) => {
                    layout.objects(file.fid).map(|(_, object)| object).filter(|o| objects.contains(o)).collect()
                }
                // It was called back: but for files that changed layouts with others, objects bear the name of their file.
                None => objects.iter().filter(|object| object.fid == file.fid).copied().collect(),
            };
            hit.iter().for_each(|object| _ = closed.remove(object));
            if !hit.is_empty() && told.insert(file.fid) {
                lost_of(file);
            }
        }
        let closed: BTreeSet<Fid> = closed.iter().map(|object| object.fid).filter(|fid| !told.contains(fid)).collect();
        closed.into_iter().for_each(|fid| lost_of(&self.files.get(fid)));
    }
}

fn lost_of(file: &File) {
    tracing::error!(fid = %file.fid, "what was written is lost; the next fsync or write says so");
    file.dirty.lock().fail(Errno::EIO);
}

fn object_of(op: &Op) -> Option<ObjectId> {
    match op {
        Op::Ost(OstOp::Write { object, .. } | OstOp::Punch { object, .. }) => Some(*object),
        _ => None,
    }
}
