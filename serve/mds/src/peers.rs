//! The other MDTs of the file system, to which this one is a client.
//!
//! A session is made when the configuration names an MDT, connected with the first request, and the
//! same one in each life of this MDT: its client is made from the UUID of the store, its proof from
//! the key of the servers. An MDT that is away delays only requests to it.

use parking_lot::RwLock;
use rpc::Rpc;
use rpc::import::Import;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stubs::mdc::Mdc;
use target::Target;
use types::nid::Nid;
use types::proof::peer_of_store;
use types::session::ClientUuid;
use types::target::{TargetIndex, TargetName};

/// The other MDTs, as one MDT sees them. They come and go with the configuration.
pub struct Peers {
    own: Option<Own>,
    mdts: RwLock<BTreeMap<TargetIndex, (Vec<Nid>, Mdc)>>,
    /// A configuration has named them.
    named: AtomicBool,
}

/// The MDT itself.
struct Own {
    rpc: Arc<Rpc>,
    name: TargetName,
    client: ClientUuid,
    boot: u64,
}

impl Peers {
    /// Those of a target that the MGS has named; none is known yet.
    pub fn of(rpc: &Arc<Rpc>, name: TargetName, target: &Target) -> Arc<Peers> {
        let own = Own {
            rpc: rpc.clone(),
            name,
            client: peer_of_store(target.store_uuid()),
            boot: target.boot(),
        };
        Arc::new(Peers { own: Some(own), mdts: RwLock::default(), named: AtomicBool::new(false) })
    }

    /// Of an MDT that is alone, whatever the configuration says.
    pub fn none() -> Arc<Peers> {
        Arc::new(Peers { own: None, mdts: RwLock::default(), named: AtomicBool::new(false) })
    }

    /// What this MDT is to its peers, in all of its lives; `None`: it is alone.
    pub fn client(&self) -> Option<ClientUuid> {
        self.own.as_ref().map(|own| own.client)
    }

    /// An MDT, to send it requests; `None`: this MDT itself, or the configuration does not name it.
    pub fn get(&self, mdt: TargetIndex) -> Option<Mdc> {
        self.mdts.read().get(&mdt).map(|(_, mdc)| mdc.clone())
    }

    /// True if the configuration does not name an MDT that this one has worked with: it was
    /// removed, and never comes back.
    pub fn is_removed(&self, mdt: TargetIndex) -> bool {
        let own = self.own.as_ref().is_some_and(|own| own.name.index == mdt);
        self.named.load(Ordering::Acquire) && !own && !self.mdts.read().contains_key(&mdt)
    }

    /// True if no other one is known.
    pub fn is_empty(&self) -> bool {
        self.mdts.read().is_empty()
    }

    /// All that are known now, ascending.
    pub fn list(&self) -> Vec<TargetIndex> {
        self.mdts.read().keys().copied().collect()
    }

    /// The configuration names these MDTs: takes in new ones, and moves those that moved. Returns
    /// the sessions with those that were removed, for their end.
    pub fn follow(&self, named: &BTreeMap<TargetIndex, Vec<Nid>>) -> Vec<Arc<Import>> {
        let Some(Own { rpc, name, client, boot }) = &self.own else { return Vec::new() };
        let mut mdts = self.mdts.write();
        let mut removed = Vec::new();
        mdts.retain(|index, (_, mdc)| {
            let stays = named.contains_key(index);
            if !stays {
                mdc.import().remove();
                removed.push(mdc.import().clone());
            }
            stays
        });
        for (index, nids) in named.iter().filter(|(index, _)| **index != name.index) {
            match mdts.get_mut(index) {
                Some((known, _)) if known == nids => {}
                Some((known, mdc)) => {
                    mdc.import().set_nids(nids.clone());
                    known.clone_from(nids);
                }
                None => {
                    let peer = TargetName::mdt(name.fsname, index.0);
                    let import =
                        rpc.peer_import(peer, nids.clone(), (*client, *boot), name.to_string());
                    mdts.insert(*index, (nids.clone(), Mdc::new(import)));
                }
            }
        }
        self.named.store(true, Ordering::Release);
        removed
    }
}
