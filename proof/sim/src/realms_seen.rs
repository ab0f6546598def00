//! What belongs to which tenant: inodes and values of data. Each answer is looked at when a program
//! gets it. A program of a tenant that gets what is another one's has seen too much.

use crate::history::Ino;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::fid::Fid;

/// Where something belongs: the number of a tenant, or nothing if it is in no fileset.
pub type Owner = Option<usize>;

/// See the module; shared by all programs.
#[derive(Clone, Default)]
pub struct RealmsSeen(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// The topmost directories of the tenants, in their order.
    homes: Vec<Ino>,
    inodes: BTreeMap<Ino, Owner>,
    values: BTreeMap<u64, Owner>,
    /// Requests for what is another one's, and those of them that were refused for that.
    tried: u64,
    refused: u64,
}

impl RealmsSeen {
    /// These directories are the filesets of the tenants.
    pub fn divide(&self, homes: Vec<Ino>) {
        let mut inner = self.0.lock();
        inner.inodes.extend(homes.iter().enumerate().map(|(tenant, home)| (*home, Some(tenant))));
        inner.inodes.insert(Fid::ROOT.ino(), None);
        inner.homes = homes;
    }

    /// The topmost directories of the tenants; empty: there are none.
    pub fn homes(&self) -> Vec<Ino> {
        self.0.lock().homes.clone()
    }

    /// A program that works in what is `owner`'s was shown this inode.
    ///
    /// # Errors
    /// It is another one's.
    pub fn shown(&self, owner: Owner, ino: Ino) -> Result<(), String> {
        let mut inner = self.0.lock();
        if inner.homes.is_empty() || owner.is_none() && inner.homes.contains(&ino) {
            return Ok(());
        }
        match *inner.inodes.entry(ino).or_insert(owner) {
            known if known == owner => Ok(()),
            other => Err(format!("{} saw inode {ino:x} of {}", text(owner), text(other))),
        }
    }

    /// A program there writes this value.
    pub fn writes(&self, owner: Owner, value: u64) {
        self.0.lock().values.insert(value, owner);
    }

    /// A program there has read this value.
    ///
    /// # Errors
    /// It was written by another one.
    pub fn read(&self, owner: Owner, value: u64) -> Result<(), String> {
        match self.0.lock().values.get(&value) {
            Some(other) if *other != owner => {
                Err(format!("{} read {value:x}, which is of {}", text(owner), text(*other)))
            }
            _ => Ok(()),
        }
    }

    /// Inodes that are not this tenant's.
    pub fn foreign(&self, tenant: usize) -> Vec<Ino> {
        let inner = self.0.lock();
        let foreign = inner.inodes.iter().filter(|(_, owner)| **owner != Some(tenant));
        foreign.map(|(ino, _)| *ino).collect()
    }

    /// A tenant has asked for what is another one's.
    pub fn tried(&self, is_refused: bool) {
        let mut inner = self.0.lock();
        inner.tried += 1;
        inner.refused += u64::from(is_refused);
    }

    /// How often a tenant asked for what is another one's, and how often it was refused for that.
    pub fn tries(&self) -> (u64, u64) {
        let inner = self.0.lock();
        (inner.tried, inner.refused)
    }
}

fn text(owner: Owner) -> String {
    owner.map_or_else(|| "no tenant".to_owned(), |tenant| format!("tenant {tenant}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_another_one_s_is_noticed() {
        let realms = RealmsSeen::default();
        assert_eq!(realms.shown(None, 10), Ok(()), "there are no tenants");
        realms.divide(vec![10, 20]);
        assert_eq!(realms.shown(None, 10), Ok(()), "the home is a name outside");
        assert_eq!(realms.shown(Some(0), 11), Ok(()));
        assert_eq!(realms.shown(Some(0), 11), Ok(()));
        assert!(realms.shown(Some(1), 11).is_err());
        assert!(realms.shown(None, 11).is_err());
        assert!(realms.shown(Some(0), 20).is_err());
        assert!(realms.shown(Some(0), Fid::ROOT.ino()).is_err());
        assert_eq!(realms.foreign(0), [20, Fid::ROOT.ino()].map(|ino: Ino| ino));
        realms.writes(Some(0), 7);
        assert_eq!((realms.read(Some(0), 7), realms.read(Some(1), 8)), (Ok(()), Ok(())));
        assert!(realms.read(Some(1), 7).is_err() && realms.read(None, 7).is_err());
    }
}
