//! Persistent parameters of file systems.

use super::{Change, EVERY_FILE_SYSTEM, Fs, PARAM_VALUE_BYTES_MAX, PARAMS_MAX, Refused, Registry};
use disk::config::{self, ConfigKey, PARAM_NAME_BYTES_MAX, ParamRecord};
use idmap::rules::check_param;
use observe::catalog;
use types::target::FsName;

impl Registry {
    /// Sets or removes a persistent parameter, of every file system if `fsname` is
    /// [`EVERY_FILE_SYSTEM`]. An empty change if nothing is different.
    ///
    /// # Errors
    /// [`Refused`]; nothing changed then.
    pub fn set_param(
        &mut self,
        fsname: &str,
        name: &str,
        value: Option<&str>,
    ) -> Result<Change, Refused> {
        refuse_bad(name, value)?;
        let systems: Vec<FsName> = match fsname {
            EVERY_FILE_SYSTEM => self.systems.keys().copied().collect(),
            one => vec![self.known(one)?],
        };
        let full = |fs: &Fs| !fs.params.contains_key(name) && fs.params.len() >= PARAMS_MAX;
        if value.is_some() && systems.iter().any(|fsname| full(&self.systems[fsname])) {
            return Err(Refused::Full("parameters"));
        }
        let mut all = Change::default();
        for fsname in systems {
            let change = self.set_param_of(fsname, name, value);
            all.records.extend(change.records);
            all.published.extend(change.published);
        }
        Ok(all)
    }

    fn set_param_of(&mut self, fsname: FsName, name: &str, value: Option<&str>) -> Change {
        let fs = self.systems.get_mut(&fsname).expect("known");
        let key = ConfigKey::Param(fsname, name.to_owned()).encode();
        let old = fs.params.get(name);
        if old.map(|p| &p.value[..]) == value {
            return Change::default();
        }
        let write = match value {
            None => {
                fs.params.remove(name);
                None
            }
            Some(value) => {
                // A new value keeps its place in the order.
                let order = old.map_or(fs.version + 1, |p| p.order);
                let record = ParamRecord { order, value: value.to_owned() };
                let bytes = config::encode(&record);
                fs.params.insert(name.to_owned(), record);
                Some(bytes)
            }
        };
        self.changed(fsname, (key, write))
    }
}

/// Refuses a parameter that cannot be kept, or not with this value (`None` = it is to be removed).
///
/// # Errors
/// [`Refused`].
pub(super) fn refuse_bad(name: &str, value: Option<&str>) -> Result<(), Refused> {
    let good_name = (1..=PARAM_NAME_BYTES_MAX).contains(&name.len());
    if !good_name || value.is_some_and(|v| v.len() > PARAM_VALUE_BYTES_MAX) {
        return Err(Refused::Param);
    }
    // What was kept by an earlier version can be removed.
    let Some(value) = value else { return Ok(()) };
    if let Some(why) = catalog::pattern_not_kept(name, value).map_err(|_| Refused::Param)? {
        return Err(Refused::NotKept { name: name.to_owned(), why });
    }
    check_value(name, value)
}

/// Succeeds if every parameter that the name can mean can have this value, as far as that is known
/// here: of what decides about access, a daemon must not find out later that it cannot.
fn check_value(name: &str, value: &str) -> Result<(), Refused> {
    for param in catalog::settable(name).map_err(|_| Refused::Param)? {
        check_param(param.name(), value).map_err(|cause| Refused::Value {
            name: name.to_owned(),
            value: value.to_owned(),
            cause,
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::register;
    use super::*;
    use types::errno::Errno;

    #[test]
    fn parameters_keep_their_order() {
        let mut r = Registry::default();
        register(&mut r, "sheen-MDT", 1).unwrap();
        for (name, value) in [("b", "1"), ("a", "2"), ("b", "3")] {
            r.set_param("sheen", name, Some(value)).unwrap();
        }
        let pair = |n: &str, v: &str| (n.to_owned(), v.to_owned());
        assert_eq!(r.configs()[0].1.params, [pair("b", "3"), pair("a", "2")]);
        r.set_param("sheen", "b", None).unwrap();
        assert_eq!(r.set_param("sheen", "b", None), Ok(Change::default()));
        assert_eq!(r.set_param("sheen", "a", Some("2")), Ok(Change::default()));
        assert_eq!(r.configs()[0].1.params, [pair("a", "2")]);
        register(&mut r, "other-MDT", 2).unwrap();
        r.set_param(EVERY_FILE_SYSTEM, "c", Some("4")).unwrap();
        assert_eq!(
            [0, 1].map(|n| r.configs()[n].1.params.last().cloned()),
            [0, 1].map(|_| Some(pair("c", "4")))
        );
        r.set_param(EVERY_FILE_SYSTEM, "c", None).unwrap();
        assert_eq!(r.set_param("nofs", "a", Some("2")).unwrap_err().errno(), Errno::ENOENT);
        assert_eq!(r.set_param("sheen", "", Some("2")).unwrap_err().errno(), Errno::EINVAL);
        for n in 0..PARAMS_MAX - 1 {
            r.set_param("sheen", &n.to_string(), Some("")).unwrap();
        }
        assert_eq!(r.set_param("sheen", "one more", Some("")).unwrap_err().errno(), Errno::ENOSPC);
    }

    #[test]
    fn whom_clients_act_as_is_kept_only_in_good_words() {
        let mut r = Registry::default();
        register(&mut r, "sheen-MDT", 1).unwrap();
        for (name, value) in [
            ("mdt.*.root_squash", "0:99"),
            ("mdt.*.root_squash", "nobody"),
            ("mdt.*.*_squash", "99"),
            ("mdt.sheen-MDT0000.nosquash_nids", "10.0.0.1"),
        ] {
            let refused = r.set_param("sheen", name, Some(value)).unwrap_err();
            assert_eq!(refused.errno(), Errno::EINVAL, "{refused}");
        }
        for (name, value) in [
            ("mdt.*.root_squash", "99:99"),
            ("mdt.*.all_squash", "0:0"),
            ("mdt.*.nosquash_nids", "clear"),
        ] {
            r.set_param("sheen", name, Some(value)).unwrap();
        }
    }

    #[test]
    fn a7_what_is_done_at_once_is_not_kept() {
        let mut r = Registry::default();
        register(&mut r, "sheen-MDT", 1).unwrap();
        let before = r.configs();
        for (name, value) in [
            ("fault", "mds_reint_net=crash"),
            ("osd-lmdb.*.notransno", "1"),
            ("mdt.*.*_client", "nid:x"),
        ] {
            for fsname in ["sheen", EVERY_FILE_SYSTEM] {
                let refused = r.set_param(fsname, name, Some(value)).unwrap_err();
                assert_eq!(refused.errno(), Errno::EOPNOTSUPP, "{refused}");
            }
            // What an earlier version kept is forgotten.
            assert_eq!(r.set_param("sheen", name, None), Ok(Change::default()));
        }
        assert_eq!(r.set_param("sheen", "lod.[", Some("1")).unwrap_err().errno(), Errno::EINVAL);
        assert_eq!(r.configs(), before);
    }
}
