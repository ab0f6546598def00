//! The ids as which callers act, as the administrator said last: nodemaps, and the parameters of
//! this MDT.

use idmap::acting::Acting;
use idmap::rules::Rules;
use idmap::set::Nodemaps;
use parking_lot::{Mutex, RwLock};
use rpc::service::Export;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use types::limits::CLIENTS_MAX;
use types::nid::Nid;
use types::principal::{KeyName, Role};
use types::session::ClientUuid;

/// What was said, and what follows from it for each client.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) rules: Rules,
    pub(crate) nodemaps: Arc<Nodemaps>,
    /// As found before. Bound: [`CLIENTS_MAX`].
    found: Mutex<HashMap<ClientUuid, Found>>,
}

struct Found {
    nid: Nid,
    key: Option<KeyName>,
    acting: Arc<Acting>,
}

impl Said {
    fn is_off(&self) -> bool {
        self.rules.are_off() && !self.nodemaps.active
    }

    /// What becomes of the callers of a client. Never changed are those of processes that serve a
    /// target, and of clients that come to the MDT over loopback.
    pub(crate) fn of(&self, export: &Export) -> Arc<Acting> {
        let (nid, is_server) = (export.nid(), export.role() == Role::Server);
        if self.is_off() || is_server || nid.is_loopback() {
            return Arc::default();
        }
        let key = export.principal().map(|principal| principal.name.clone());
        let mut found = self.found.lock();
        if let Some(known) =
            found.get(&export.client()).filter(|known| known.nid == nid && known.key == key)
        {
            return known.acting.clone();
        }
        let nodemap = match self.nodemaps.active {
            true => Some(self.nodemaps.of(nid, key.as_ref()).1.clone()),
            false => None,
        };
        let acting = Arc::new(Acting { squash: self.rules.of(nid, is_server), nodemap });
        if found.len() >= CLIENTS_MAX {
            found.clear();
        }
        found.insert(export.client(), Found { nid, key, acting: acting.clone() });
        acting
    }
}

/// See the module. Read by every request.
#[derive(Default)]
pub(crate) struct Squashing {
    now: RwLock<(Arc<Said>, u32)>,
    /// Some callers may act as others.
    on: AtomicBool,
}

impl Squashing {
    /// What holds; `None`: all act as themselves.
    pub(crate) fn in_use(&self) -> Option<Arc<Said>> {
        self.on.load(Ordering::Acquire).then(|| self.now().0)
    }

    /// What holds, and how often it changed in this life of the MDT.
    pub(crate) fn now(&self) -> (Arc<Said>, u32) {
        self.now.read().clone()
    }

    /// Changes it; returns what held before, `None` if that is the same.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&mut Rules, &mut Arc<Nodemaps>),
    ) -> Option<Arc<Said>> {
        let mut now = self.now.write();
        let (mut rules, mut nodemaps) = (now.0.rules.clone(), now.0.nodemaps.clone());
        change(&mut rules, &mut nodemaps);
        if rules == now.0.rules && nodemaps == now.0.nodemaps {
            return None;
        }
        let said = Arc::new(Said { rules, nodemaps, found: Mutex::default() });
        self.on.store(!said.is_off(), Ordering::Release);
        let changes = now.1 + 1;
        Some(std::mem::replace(&mut *now, (said, changes)).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idmap::set::NodemapChange;
    use types::credentials::Ids;

    #[test]
    fn only_changes_count() {
        let squashing = Squashing::default();
        assert!(squashing.in_use().is_none());
        assert!(squashing.change(|rules, _| rules.root = None).is_none());
        let ids = Some(Ids { uid: 99, gid: 99 });
        let before = squashing.change(|rules, _| rules.root = ids).unwrap();
        assert_eq!(before.rules, Rules::default());
        assert_eq!(squashing.in_use().unwrap().rules.root, ids);
        assert!(squashing.change(|rules, _| rules.root = ids).is_none());
        assert!(squashing.change(|rules, _| rules.root = None).is_some());
        assert!(squashing.in_use().is_none());
        assert_eq!(squashing.now().1, 2);
        let mut nodemaps = Nodemaps::default();
        nodemaps.change(&NodemapChange::Activate(true)).unwrap();
        let set = || squashing.change(|_, known| *known = Arc::new(nodemaps.clone()));
        assert!(set().is_some() && set().is_none());
        assert!(squashing.in_use().unwrap().nodemaps.active);
    }
}
