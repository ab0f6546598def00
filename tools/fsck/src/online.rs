//! A cluster at work, over the network. The check has sessions of its own while it runs. Targets
//! show their records to servers only, so it works with the key of the servers, which a daemon of
//! this host tells its owner.

use crate::error::FsckError;
use crate::page::{OBJECTS_PER_PAGE, PAGE_BYTES, Page, behind};
use ask::socket::TIMEOUT;
use ask::together;
use bytes::Bytes;
use check::judge::{Change, Mend};
use env::Env;
use lnet::nets::Route;
use node::config::client_file::{self, ClientFile};
use node::config::mount_source::MountSource;
use node::config::settings::Settings;
use node::home::Home;
use node::host::keys;
use node::local;
use node::manage::control::{self, Answer, Request};
use node::manage::lnet::{LnetAnswer, LnetAsked};
use rpc::error::RpcError;
use rpc::{Rpc, RpcConfig};
use seal::keys::Keys;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use stubs::mdc::Mdc;
use stubs::mgc::Mgc;
use stubs::osc::{Listed, Osc};
use types::credentials::Credentials;
use types::errno::Errno;
use types::net::Net;
use types::nid::Nid;
use types::object::ObjectId;
use types::principal::Role;
use types::proof::ServerKey;
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
    /// Asks the MGS at these NIDs for the targets. `home`: that of a node of the cluster on this
    /// host, if it is known.
    ///
    /// # Errors
    /// The MGS does not answer, or there is no such file system, or no server of it on this host.
    pub(crate) async fn connect(
        env: &Env,
        MountSource { mgs, fsname, .. }: MountSource,
        home: Option<PathBuf>,
    ) -> Result<Online, FsckError> {
        let rpc = Rpc::new(env.clone(), RpcConfig { cluster: ClusterId(0), checksums: true });
        if let Some(keys) = host_key(env, &mgs, home.clone())? {
            rpc.set_seal(keys);
        }
        set_networks(&rpc, &mgs, home.clone())?;
        rpc.set_local(Some(node::local::socket_dir()));
        let uuid = ClientUuid(env.random.next_u128());
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let description = format!("{host}:fsck {}", std::process::id());
        let nids: Vec<String> = mgs.iter().map(Nid::to_string).collect();
        let what = format!("{}:/{fsname}", nids.join(","));
        let mgc = Mgc::new(rpc.import(TargetName::mgs(), mgs, uuid, description.clone(), None));
        let config = mgc.config(fsname.to_string(), 0, 0).await;
        let config = config.map_err(|source| asked(TargetName::mgs(), source))?;
        rpc.set_cluster(ClusterId(config.cluster));
        let Some(key) = server_key(ClusterId(config.cluster), home) else {
            rpc.shutdown().await;
            return Err(FsckError::NoServer(what));
        };
        rpc.set_server_key(key);
        let (mut mdts, mut osts) = (BTreeMap::new(), BTreeMap::new());
        for info in &config.targets {
            let name: TargetName =
                info.name.parse().map_err(|_| FsckError::Config(info.name.clone()))?;
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
        let records =
            records.into_iter().filter_map(|r| Some((r.key.to_vec(), r.value?.to_vec()))).collect();
        Ok(Page { records, next })
    }

    pub(crate) async fn objects(
        &self,
        ost: TargetIndex,
        after: Option<ObjectId>,
    ) -> Result<Listed, FsckError> {
        let (osc, fail) = self.ost(ost);
        osc.list(after, OBJECTS_PER_PAGE).await.map_err(fail)
    }

    pub(crate) async fn has_object(
        &self,
        ost: TargetIndex,
        object: ObjectId,
    ) -> Result<bool, FsckError> {
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

    pub(crate) async fn destroy(
        &self,
        ost: TargetIndex,
        object: ObjectId,
    ) -> Result<(), FsckError> {
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

/// The key of this host for the cluster with this MGS: that of one of its daemons, or the one that
/// is installed. `None`: it has none.
fn host_key(env: &Env, mgs: &[Nid], home: Option<PathBuf>) -> Result<Option<Arc<Keys>>, FsckError> {
    let of_daemons = told(home, &Request::Settings).into_iter().filter_map(|answer| match answer {
        Answer::Settings { settings } => Some(*settings),
        _ => None,
    });
    let of_host = Settings { mgs: mgs.to_vec(), ..Settings::default() };
    let mut other = None;
    for settings in of_daemons.chain([of_host]) {
        if let Some((_, key)) = keys::of(&settings)?
            && key.mgs().iter().any(|nid| mgs.contains(nid))
        {
            // A host may mount, too: records are shown to servers only.
            if key.principal().role == Role::Server {
                return Ok(Some(Keys::new(&key, env.clock.clone())?));
            }
            other.get_or_insert(key);
        }
    }
    Ok(other.map(|key| Keys::new(&key, env.clock.clone())).transpose()?)
}

/// The check is on the networks of the daemons of this host, and has their routes. Without a daemon
/// it has those of `/etc/sheen/client.toml`. Where nothing is said, it tries what is named.
fn set_networks(rpc: &Rpc, mgs: &[Nid], home: Option<PathBuf>) -> Result<(), FsckError> {
    let asked = Request::Lnet { lnet: LnetAsked::Show };
    let answers = told(home, &asked).into_iter().filter_map(|answer| match answer {
        Answer::Lnet { lnet } => Some(*lnet),
        _ => None,
    });
    let (mut nets, mut routes) = (Vec::new(), Vec::new());
    for LnetAnswer { nets: on, routes: by, .. } in answers {
        nets.extend(on.iter().filter_map(|net| net.net.parse::<Net>().ok()));
        routes.extend(by.iter().filter_map(|route| {
            let (net, gateway) = (route.net.parse().ok()?, route.gateway.parse().ok()?);
            Some(Route { net, gateway, hops: route.hops, priority: route.priority })
        }));
    }
    if nets.is_empty() {
        let ClientFile { networks, routes: by, .. } = client_file::read(None)?;
        routes.extend(by.each());
        nets = match networks.is_empty() && routes.is_empty() {
            true => mgs.iter().filter_map(|nid| nid.net()).collect(),
            false => networks.names(),
        };
    }
    rpc.set_nets(&nets);
    for route in routes {
        if !rpc.add_route(route) {
            // Daemons of one host with more than ROUTES_MAX together: the first ones do.
            break;
        }
    }
    Ok(())
}

/// The key of the servers of a cluster, from a daemon of this host. The time-out of the socket
/// bounds it.
fn server_key(cluster: ClusterId, home: Option<PathBuf>) -> Option<ServerKey> {
    told(home, &Request::ServerKey).into_iter().find_map(|answer| match answer {
        Answer::ServerKey { cluster: of, key } if of == cluster.to_string() => {
            u128::from_str_radix(&key, 16).ok().map(ServerKey)
        }
        // A daemon of another cluster, or one that serves no target.
        _ => None,
    })
}

/// Answers of the node of `home` and of the daemons of this host, in this order. All are asked at
/// once: those that hang cost one time-out together.
fn told(home: Option<PathBuf>, request: &Request) -> Vec<Answer> {
    let homes = home.map(Home::new).into_iter().chain(local::daemons()).collect();
    let request = request.clone();
    let answers = together::ask(homes, TIMEOUT, move |home| control::ask(&home, &request));
    // A daemon that ends, that hangs, or that is not this user's, tells nothing.
    answers.in_turn().into_iter().flatten().flatten().map(|(answer, _)| answer).collect()
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
