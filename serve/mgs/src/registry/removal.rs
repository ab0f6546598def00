//! Targets that will never come back: they leave the configuration, their pools, and the file
//! system.
//!
//! The name of a removed target stays taken, and its store stays out. Layouts of files go on naming
//! it: another store under that name would show holes where their data was.

use super::{Change, Refused, Registry, Wanted};
use disk::config::{self, ConfigKey, RemovedRecord};
use types::target::{TargetKind, TargetName};

impl Registry {
    /// Removes a target. `in_service`: clients may be working with it now. An empty change if it
    /// was removed already.
    ///
    /// # Errors
    /// [`Refused`]; nothing changed then.
    pub fn remove(&mut self, name: &str, in_service: bool, force: bool) -> Result<Change, Refused> {
        let Some((name, store)) = self.can_remove(name, in_service, force)? else {
            return Ok(Change::default());
        };
        let record = RemovedRecord { store };
        let fs = self.systems.get_mut(&name.fsname).expect("it has this target");
        fs.targets.remove(&name);
        fs.removed.insert(name, record);
        let mut pools = Vec::new();
        if name.kind == TargetKind::Ost {
            for (pool, record) in
                fs.pools.iter_mut().filter(|(_, pool)| pool.osts.contains(&name.index.0))
            {
                record.osts.retain(|ost| *ost != name.index.0);
                pools.push((
                    ConfigKey::Pool(name.fsname, pool.clone()).encode(),
                    Some(config::encode(record)),
                ));
            }
        }
        let mut change = self.changed(name.fsname, (ConfigKey::Target(name).encode(), None));
        change.records.push((ConfigKey::Removed(name).encode(), Some(config::encode(&record))));
        change.records.extend(pools);
        Ok(change)
    }

    /// The target that [`Registry::remove`] would remove, and its store; `None`: it was removed
    /// already.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn can_remove(
        &self,
        name: &str,
        in_service: bool,
        force: bool,
    ) -> Result<Option<(TargetName, u128)>, Refused> {
        let Wanted::This(name) = Wanted::parse(name)? else {
            return Err(Refused::Name(name.to_owned()));
        };
        if self.is_removed(name) {
            return Ok(None);
        }
        let store = self.target(name).ok_or_else(|| Refused::Unknown(name.to_string()))?.store;
        if name == TargetName::mdt(name.fsname, 0) {
            return Err(Refused::Root(name));
        }
        if in_service && !force {
            return Err(Refused::InService(name));
        }
        Ok(Some((name, store)))
    }

    pub(super) fn is_removed(&self, name: TargetName) -> bool {
        self.systems.get(&name.fsname).is_some_and(|fs| fs.removed.contains_key(&name))
    }

    /// Neither the store nor the name comes back.
    pub(super) fn refuse_removed(&self, wanted: &Wanted, store: u128) -> Result<(), Refused> {
        if let Wanted::This(name) = wanted
            && self.is_removed(*name)
        {
            return Err(Refused::Removed(*name));
        }
        let mut removed = self.systems.values().flat_map(|fs| &fs.removed);
        removed
            .find(|(_, record)| record.store == store)
            .map_or(Ok(()), |(name, _)| Err(Refused::Removed(*name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::serving::Serving;
    use types::errno::Errno;
    use wire::mgs::PoolChange;

    fn registry() -> Registry {
        let mut r = Registry::default();
        for (store, name) in (1u128..).zip(["sheen-MDT", "sheen-MDT", "sheen-OST", "sheen-OST"]) {
            r.register(name, store, Serving::at(&["10.0.0.1@tcp".into()], 1)).unwrap();
        }
        r
    }

    fn names(r: &Registry) -> Vec<String> {
        r.configs()[0].1.targets.iter().map(|target| target.name.clone()).collect()
    }

    #[test]
    fn a_removed_target_is_gone_for_good() {
        let mut r = registry();
        for change in [PoolChange::New, PoolChange::Add(vec![0, 1])] {
            r.change_pool("sheen", "flash", &change).unwrap();
        }
        let change = r.remove("sheen-OST0001", false, false).unwrap();
        assert_eq!(names(&r), ["sheen-MDT0000", "sheen-MDT0001", "sheen-OST0000"]);
        assert_eq!(r.configs()[0].1.pools[0].osts, [0], "pools forget it");
        assert_eq!(change.records.len(), 4, "version, target, its tombstone, the pool");
        assert_eq!(r.remove("sheen-OST0001", true, false), Ok(Change::default()), "again");
        let mut register = |name: &str, store| {
            r.register(name, store, Serving::at(&["10.0.0.1@tcp".into()], 1)).map(|(name, ..)| name)
        };
        for (name, store) in [("sheen-OST0001", 4), ("sheen-OST", 4), ("sheen-OST0001", 9)] {
            assert_eq!(
                register(name, store).unwrap_err().errno(),
                Errno::ESHUTDOWN,
                "{name} {store}"
            );
        }
        assert_eq!(
            register("sheen-OST", 9).unwrap().to_string(),
            "sheen-OST0002",
            "its number is not given again"
        );
        r.remove("sheen-MDT0001", false, false).unwrap();
        assert_eq!(names(&r), ["sheen-MDT0000", "sheen-OST0000", "sheen-OST0002"]);
    }

    #[test]
    fn what_is_needed_stays() {
        let mut r = registry();
        let before = r.configs();
        let mut refused =
            |name: &str, serving, force| r.remove(name, serving, force).unwrap_err().errno();
        assert_eq!(refused("sheen-OST0000", true, false), Errno::EBUSY);
        assert_eq!(refused("sheen-MDT0000", false, true), Errno::EPERM);
        assert_eq!(refused("sheen-OST0007", false, true), Errno::ENOENT);
        assert_eq!(refused("sheen-OST", false, true), Errno::EINVAL);
        assert_eq!(refused("MGS", false, true), Errno::EINVAL);
        assert_eq!(r.configs(), before);
        r.remove("sheen-OST0000", true, true).unwrap();
    }
}
