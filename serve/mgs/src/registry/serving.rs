//! Where a target is served, as it registers, or as an administrator says.

use super::{Change, Refused, Registry, Wanted, refuse_bad};
use disk::config::{self, ConfigKey};

/// Where and how a target is served.
#[derive(Clone, Copy, Debug)]
pub struct Serving<'a> {
    /// NIDs at which it is reached, then those at which it may be served later.
    pub nids: &'a [String],
    /// Boot number: the epoch of its owner.
    pub boot: u64,
    /// The epoch comes from a log that all owners share: a newer one proves that no older owner can
    /// write.
    pub shared: bool,
    /// Another process registered the target before, and is there.
    pub other_owner_lives: bool,
}

impl<'a> Serving<'a> {
    /// At these NIDs; it has a log of its own, and no other process serves it.
    pub fn at(nids: &'a [String], boot: u64) -> Serving<'a> {
        Serving { nids, boot, shared: false, other_owner_lives: false }
    }
}

impl Registry {
    /// A target is, or will be, at other NIDs: clients look for it there. What it registers next
    /// counts again. An empty change if they are the same.
    ///
    /// # Errors
    /// [`Refused`]; nothing changed then.
    pub fn replace_nids(&mut self, name: &str, nids: &[String]) -> Result<Change, Refused> {
        refuse_bad(nids)?;
        let Wanted::This(name) = Wanted::parse(name)? else {
            return Err(Refused::Name(name.to_owned()));
        };
        let targets = self.systems.get_mut(&name.fsname).map(|fs| &mut fs.targets);
        let target = targets
            .and_then(|targets| targets.get_mut(&name))
            .ok_or_else(|| Refused::Unknown(name.to_string()))?;
        if target.nids == nids {
            return Ok(Change::default());
        }
        target.nids = nids.to_vec();
        let write = (ConfigKey::Target(name).encode(), Some(config::encode(target)));
        Ok(self.changed(name.fsname, write))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::errno::Errno;

    fn nids() -> Vec<String> {
        vec!["10.0.0.1:7988@tcp".to_owned()]
    }

    #[test]
    fn a_copy_of_a_folder_is_refused_while_its_owner_lives() {
        let mut r = Registry::default();
        let (here, there) = (nids(), vec!["10.0.0.2:7988@tcp".to_owned()]);
        let boot = |r: &Registry| r.configs()[0].1.targets[0].boot;
        r.register("sheen-OST0000", 1, Serving::at(&here, 5)).unwrap();
        let lives = |nids, boot| Serving { other_owner_lives: true, ..Serving::at(nids, boot) };
        let refused = r.register("sheen-OST0000", 1, lives(&there, 6)).unwrap_err();
        assert_eq!(refused.errno(), Errno::EBUSY);
        assert_eq!(boot(&r), 5, "a refusal changes nothing");
        // The earlier process at the same NIDs cannot be there any more.
        r.register("sheen-OST0000", 1, lives(&here, 6)).unwrap();
        // It is gone, and the disk is elsewhere; even one of an older day.
        r.register("sheen-OST0000", 1, Serving::at(&there, 7)).unwrap();
        r.register("sheen-OST0000", 1, Serving::at(&here, 3)).unwrap();
        // It stopped in order, its process goes on with other targets.
        r.unregister("sheen-OST0000", 1).unwrap();
        r.register("sheen-OST0000", 1, lives(&there, 4)).unwrap();
        assert_eq!(boot(&r), 4);
    }

    #[test]
    fn an_administrator_names_other_nids() {
        let mut r = Registry::default();
        let (here, there) = (nids(), vec!["10.0.0.2:7988@tcp".to_owned()]);
        r.register("sheen-OST0000", 1, Serving::at(&here, 5)).unwrap();
        let change = r.replace_nids("sheen-OST0000", &there).unwrap();
        assert_eq!(
            (change.published[0].1.targets[0].nids.clone(), change.records.len()),
            (there.clone(), 2)
        );
        assert_eq!(r.replace_nids("sheen-OST0000", &there), Ok(Change::default()));
        for (name, nids, errno) in [
            ("sheen-OST0001", &there, Errno::ENOENT),
            ("other-OST0000", &there, Errno::ENOENT),
            ("sheen-OST", &there, Errno::EINVAL),
            ("sheen-OST0000", &vec!["x".to_owned()], Errno::EINVAL),
            ("sheen-OST0000", &vec![], Errno::EINVAL),
        ] {
            assert_eq!(r.replace_nids(name, nids).unwrap_err().errno(), errno, "{name} {nids:?}");
        }
        // What it says itself counts.
        r.register("sheen-OST0000", 1, Serving::at(&here, 6)).unwrap();
        assert_eq!(r.configs()[0].1.targets[0].nids, here);
    }

    #[test]
    fn the_newest_epoch_of_a_shared_log_is_the_owner() {
        let mut r = Registry::default();
        let (here, there) = (nids(), vec!["10.0.0.2:7988@tcp".to_owned()]);
        let shared = |nids, boot| Serving { nids, boot, shared: true, other_owner_lives: true };
        r.register("sheen-MDT0000", 1, shared(&here, 5)).unwrap();
        r.register("sheen-MDT0000", 1, shared(&there, 6)).unwrap();
        let late = r.register("sheen-MDT0000", 1, shared(&here, 5)).unwrap_err();
        assert_eq!(late.errno(), Errno::ESTALE);
        let target = &r.configs()[0].1.targets[0];
        assert_eq!((target.boot, &target.nids), (6, &there));
    }
}
