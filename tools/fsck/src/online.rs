//! A cluster at work, over the network. The check is an ordinary client, with sessions of its own
//! while it runs.

use crate::error::FsckError;
use crate::source::{OBJECTS_PER_PAGE, PAGE_BYTES, Page, behind};
use bytes::Bytes;
use check::judge::{Change, Mend};
use env::Env;
use rpc::error::RpcError;
use rpc::{Rpc, RpcConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use stubs::mdc::Mdc;
use stubs::mgc::Mgc;
use stubs::osc::{Listed, Osc};
use types::credentials::Credentials;
use types::errno::Errno;
use types::nid::Nid;
use types::object::ObjectId;
use types::session::{ClientUuid, ClusterId};
use types::target::{FsName, TargetIndex, TargetKind, TargetName};
use wire::mds::Record;

/// See the module.
pub struct Online {
    what: String,
    rpc: Arc<Rpc>,
    fsname: FsName,
    mdts: BTreeMap<u16, Mdc>,
    osts: BTreeMap<TargetIndex, Osc>,
}

impl Online {
    /// Asks the MGS at these NIDs for the targets.
    ///
    /// # Errors
    /// The MGS does not answer, or there is no such file system.
    pub(crate) async fn connect(env: &Env, mgs: Vec<Nid>, fsname: FsName) -> Result<Online, FsckError> {
        let rpc = Rpc::new(env.clone(), RpcConfig { cluster: ClusterId(0), checksums: true });
        let uuid = ClientUuid(env.random.next_u128());
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let description = format!("{host}:fsck {}", std::process::id());
        let nids: Vec<String> = mgs.iter().map(Nid::to_string).collect();
        let what = format!("{}:/{fsname}", nids.join(","));
        let mgc = Mgc::new(rpc.import(TargetName::mgs(), mgs, uuid, description.clone(), None));
        let config = mgc.config(fsname.to_string(), 0, 0).await;
        let config = config.map_err(|source| asked(TargetName::mgs(), source))?;
        rpc.set_cluster(ClusterId(config.cluster));
        let (mut mdts, mut osts) = (BTreeMap::new(), BTreeMap::new());
        for info in &config.targets {
            let name: TargetName = info.name.parse().map_err(|_| FsckError::Config(info.name.clone()))?;
            let nids: Result<Vec<Nid>, _> = info.nids.iter().map(|nid| nid.parse()).collect();
            let nids = nids.map_err(|bad| FsckError::Config(format!("{name}, {bad}")))?;
            let import = || rpc.import(name, nids, uuid, description.clone(), None);
            match name.kind {
                TargetKind::Mgt => {}
                TargetKind::Mdt => drop(mdts.insert(name.index.0, Mdc::new(import()))),
                TargetKind::Ost => drop(osts.insert(name.index, Osc::new(import()))),
            }
        }
        if mdts.is_empty() {
            rpc.shutdown().await;
            return Err(FsckError::NoFileSystem(fsname.to_string()));
        }
        Ok(Online { what, rpc, fsname, mdts, osts })
    }

    pub(crate) fn describe(&self) -> String {
        format!("{} (at work)", self.what)
    }

    pub(crate) fn mdts(&self) -> Vec<u16> {
        self.mdts.keys().copied().collect()
    }

    pub(crate) fn osts(&self) -> Vec<TargetIndex> {
        self.osts.keys().copied().collect()
    }

    fn mdt(&self, mdt: u16) -> Result<(&Mdc, impl Fn(RpcError) -> FsckError + use<>), FsckError> {
        let name = TargetName::mdt(self.fsname, mdt);
        let mdc = self.mdts.get(&mdt).ok_or_else(|| FsckError::Config(name.to_string()))?;
        Ok((mdc, move |source| asked(name, source)))
    }

    fn ost(&self, ost: TargetIndex) -> (&Osc, impl Fn(RpcError) -> FsckError + use<>) {
        let name = TargetName::ost(self.fsname, ost.0);
        (&self.osts[&ost], move |source| asked(name, source))
    }

    pub(crate) async fn scan(&self, mdt: u16, start: &[u8], end: &[u8]) -> Result<Page, FsckError> {
        let (mdc, fail) = self.mdt(mdt)?;
        let (start, end) = (Bytes::copy_from_slice(start), Bytes::copy_from_slice(end));
        let (records, more) = mdc.scan(start, end, PAGE_BYTES).await.map_err(fail)?;
        let next = records.last().filter(|_| more).map(|record| behind(&record.key));
        let records = records.into_iter().filter_map(|r| Some((r.key.to_vec(), r.value?.to_vec()))).collect();
        Ok(Page { records, next })
    }

    pub(crate) async fn objects(&self, ost: TargetIndex, after: Option<ObjectId>) -> Result<Listed, FsckError> {
        let (osc, fail) = self.ost(ost);
        osc.list(after, OBJECTS_PER_PAGE).await.map_err(fail)
    }

    pub(crate) async fn has_object(&self, ost: TargetIndex, object: ObjectId) -> Result<bool, FsckError> {
        let (osc, fail) = self.ost(ost);
        // An empty one and none are the same to a file.
        Ok(osc.getattr(object).await.map_err(fail)? != (0, 0))
    }

    pub(crate) async fn mend(&self, mdt: u16, mend: &Mend) -> Result<bool, FsckError> {
        let (mdc, fail) = self.mdt(mdt)?;
        match mdc.mend(records(&mend.expect), records(&mend.put)).await {
            Ok(()) => Ok(true),
            Err(RpcError::Errno(Errno::ESTALE)) => Ok(false),
            Err(error) => Err(fail(error)),
        }
    }

    pub(crate) async fn destroy(&self, ost: TargetIndex, object: ObjectId) -> Result<(), FsckError> {
        let (osc, fail) = self.ost(ost);
        osc.destroy(vec![object]).await.map_err(fail)
    }

    pub(crate) async fn close(self, repaired: bool) -> Result<(), FsckError> {
        let mut result = Ok(());
        if repaired {
            for mdt in self.mdts() {
                let (mdc, fail) = self.mdt(mdt)?;
                result = result.and(mdc.sync(&Credentials::root()).await.map_err(fail));
            }
        }
        self.rpc.shutdown().await;
        result
    }
}

fn records(changes: &[Change]) -> Vec<Record> {
    let record = |change: &Change| Record {
        key: Bytes::copy_from_slice(&change.key),
        value: change.value.as_deref().map(Bytes::copy_from_slice),
    };
    changes.iter().map(record).collect()
}

fn asked(target: TargetName, source: RpcError) -> FsckError {
    FsckError::Asked { target, source: Box::new(source) }
}
