//! Pools: named sets of OSTs. A layout names its pool, so a pool may change while files use it;
//! their objects stay.

use super::{Change, Fs, POOLS_MAX, Refused, Registry};
use disk::config::{self, ConfigKey, PoolRecord};
use layout::layout::PoolName;
use types::target::{FsName, TargetName};
use wire::mgs::PoolChange;

impl Registry {
    /// Changes a pool. An empty change if nothing is different.
    ///
    /// # Errors
    /// [`Refused`]; nothing changed then.
    pub fn change_pool(
        &mut self,
        fsname: &str,
        pool: &str,
        change: &PoolChange,
    ) -> Result<Change, Refused> {
        let fsname = self.known(fsname)?;
        let PoolName(pool) = PoolName::new(pool).ok_or_else(|| Refused::Pool(pool.to_owned()))?;
        let fs = self.systems.get_mut(&fsname).expect("known");
        let old = fs.pools.get(&pool).cloned();
        let absent = || Refused::Unknown(format!("the pool {fsname}.{pool}"));
        let new = match (change, old) {
            (PoolChange::New, Some(_)) => return Err(Refused::PoolExists(pool)),
            (PoolChange::New, None) if fs.pools.len() >= POOLS_MAX => {
                return Err(Refused::Full("pools"));
            }
            (PoolChange::New, None) => Some(PoolRecord::default()),
            (PoolChange::Add(osts), Some(old)) => Some(added(fs, fsname, &old, osts)?),
            (PoolChange::Remove(osts), Some(old)) => Some(removed(&pool, &old, osts)?),
            (PoolChange::Destroy, Some(old)) if !old.osts.is_empty() => {
                return Err(Refused::PoolInUse(pool));
            }
            (PoolChange::Destroy, Some(_)) => None,
            (PoolChange::Add(_) | PoolChange::Remove(_) | PoolChange::Destroy, None) => {
                return Err(absent());
            }
        };
        if new.is_some() && fs.pools.get(&pool) == new.as_ref() {
            return Ok(Change::default());
        }
        let write =
            (ConfigKey::Pool(fsname, pool.clone()).encode(), new.as_ref().map(config::encode));
        match new {
            Some(record) => fs.pools.insert(pool, record),
            None => fs.pools.remove(&pool),
        };
        Ok(self.changed(fsname, write))
    }
}

/// Bounded by the OSTs of the file system.
fn added(fs: &Fs, fsname: FsName, old: &PoolRecord, osts: &[u16]) -> Result<PoolRecord, Refused> {
    let unknown = |ost: &&u16| !fs.targets.contains_key(&TargetName::ost(fsname, **ost));
    if let Some(ost) = osts.iter().find(unknown) {
        return Err(Refused::NoOst { ost: *ost, place: fsname.to_string() });
    }
    let mut all: Vec<u16> = old.osts.iter().chain(osts).copied().collect();
    all.sort_unstable();
    all.dedup();
    Ok(PoolRecord { osts: all })
}

fn removed(pool: &str, old: &PoolRecord, osts: &[u16]) -> Result<PoolRecord, Refused> {
    if let Some(ost) = osts.iter().find(|ost| !old.osts.contains(ost)) {
        return Err(Refused::NoOst { ost: *ost, place: format!("the pool {pool}") });
    }
    Ok(PoolRecord { osts: old.osts.iter().filter(|ost| !osts.contains(ost)).copied().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::serving::Serving;
    use types::errno::Errno;
    use wire::mgs::PoolInfo;

    fn registry() -> Registry {
        let mut r = Registry::default();
        for (store, name) in (1u128..).zip(["sheen-MDT", "sheen-OST", "sheen-OST", "sheen-OST"]) {
            r.register(name, store, Serving::at(&["10.0.0.1@tcp".into()], 1)).unwrap();
        }
        r
    }

    fn pools(r: &Registry) -> Vec<PoolInfo> {
        r.configs()[0].1.pools.clone()
    }

    #[test]
    fn a_pool_is_made_filled_emptied_and_destroyed() {
        let mut r = registry();
        let mut change =
            |change: PoolChange| r.change_pool("sheen", "flash", &change).map(|c| c.records.len());
        assert_eq!(change(PoolChange::New), Ok(2));
        assert_eq!(change(PoolChange::Add(vec![2, 0, 2])), Ok(2));
        assert_eq!(change(PoolChange::Add(vec![2])), Ok(0), "nothing new");
        assert_eq!(change(PoolChange::Remove(vec![0])), Ok(2));
        assert_eq!(pools(&r), [PoolInfo { name: "flash".into(), osts: vec![2] }]);
        let mut refused = |pool: &str, change: PoolChange| {
            r.change_pool("sheen", pool, &change).unwrap_err().errno()
        };
        assert_eq!(refused("flash", PoolChange::Destroy), Errno::ENOTEMPTY);
        assert_eq!(refused("flash", PoolChange::New), Errno::EEXIST);
        assert_eq!(refused("flash", PoolChange::Add(vec![1, 3])), Errno::ENOENT, "no such OST");
        assert_eq!(refused("flash", PoolChange::Remove(vec![0])), Errno::ENOENT, "not in it");
        assert_eq!(refused("tape", PoolChange::Destroy), Errno::ENOENT);
        assert_eq!(refused("tape", PoolChange::Add(vec![0])), Errno::ENOENT);
        assert_eq!(refused("much-too-long-for-it", PoolChange::New), Errno::EINVAL);
        assert_eq!(
            r.change_pool("nofs", "flash", &PoolChange::New).unwrap_err().errno(),
            Errno::ENOENT
        );
        assert_eq!(
            pools(&r),
            [PoolInfo { name: "flash".into(), osts: vec![2] }],
            "a refusal changes nothing"
        );
        r.change_pool("sheen", "flash", &PoolChange::Remove(vec![2])).unwrap();
        r.change_pool("sheen", "flash", &PoolChange::Destroy).unwrap();
        assert_eq!(pools(&r), []);
    }

    #[test]
    fn pools_are_bounded() {
        let mut r = registry();
        for n in 0..POOLS_MAX {
            r.change_pool("sheen", &format!("p{n}"), &PoolChange::New).unwrap();
        }
        assert_eq!(r.change_pool("sheen", "more", &PoolChange::New), Err(Refused::Full("pools")));
    }
}
