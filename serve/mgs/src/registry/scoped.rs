//! Persistent parameters that are kept for a scope.

use super::{Change, Refused, Registry, params};
use disk::config::{self, ConfigKey, ParamRecord, ScopesRecord};
use idmap::rules::is_of_access;
use idmap::scope::{Full, Scope, Scoped};
use observe::catalog;
use std::sync::Arc;

impl From<Full> for Refused {
    fn from(_: Full) -> Refused {
        Refused::Full("parameters of scopes")
    }
}

impl Registry {
    /// All parameters that are kept for scopes.
    pub fn scoped(&self) -> &Scoped {
        &self.scoped
    }

    /// Sets or removes a parameter of a scope. An empty change if nothing is different. The scope
    /// need not have any process in it.
    ///
    /// # Errors
    /// [`Refused`]; nothing changed then.
    pub fn set_scoped(
        &mut self,
        scope: &Scope,
        name: &str,
        value: Option<&str>,
    ) -> Result<Change, Refused> {
        params::refuse_bad(name, value)?;
        let mut settable = catalog::settable(name).map_err(|_| Refused::Param)?;
        if value.is_some() && settable.any(|param| is_of_access(param.name())) {
            let why = "what decides about access holds for all";
            return Err(Refused::NotKept { name: name.to_owned(), why });
        }
        let Some(order) = self.scoped.set(scope, name, value)? else {
            return Ok(Change::default());
        };
        let all = ScopesRecord { version: self.scoped.version };
        let record =
            value.map(|value| config::encode(&ParamRecord { order, value: value.to_owned() }));
        let records = vec![
            (ConfigKey::Scopes.encode(), Some(config::encode(&all))),
            (ConfigKey::Scoped(scope.clone(), name.to_owned()).encode(), record),
        ];
        Ok(Change { records, scoped: Some(Arc::new(self.scoped.clone())), ..Change::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::errno::Errno;

    #[test]
    fn parameters_of_scopes_are_records_of_their_own() {
        let mut r = Registry::default();
        let scope: Scope = "nid:10.1.0.0/16@tcp".parse().unwrap();
        let set = |r: &mut Registry, value| r.set_scoped(&scope, "osc.*.checksums", value);
        let changes = [set(&mut r, Some("0")).unwrap(), set(&mut r, Some("1")).unwrap()];
        assert_eq!(changes[1].scoped.as_deref(), Some(r.scoped()));
        assert_eq!(set(&mut r, Some("1")), Ok(Change::default()));
        let mut restarted = Registry::default();
        for (key, value) in changes.iter().flat_map(|change| &change.records) {
            restarted.take(key, value.as_ref().unwrap()).unwrap();
        }
        assert_eq!(restarted, r);
        let gone = set(&mut r, None).unwrap();
        assert_eq!(gone.records[1].1, None, "its record goes");
        assert_eq!(set(&mut r, None), Ok(Change::default()));
        assert_eq!((r.scoped().all(), r.scoped().version), (Vec::new(), 3));
    }

    #[test]
    fn what_cannot_be_kept_for_all_is_not_kept_for_a_scope() {
        let mut r = Registry::default();
        let scope: Scope = "host:a".parse().unwrap();
        let mut refused = |name: &str, value: &str| {
            r.set_scoped(&scope, name, Some(value)).expect_err(name).errno()
        };
        assert_eq!(refused("fault", "mds_reint_net=crash"), Errno::EOPNOTSUPP);
        assert_eq!(refused("mdt.*.root_squash", "99:99"), Errno::EOPNOTSUPP);
        assert_eq!(refused("mdt.*.*_nids", "NONE"), Errno::EOPNOTSUPP);
        assert_eq!(refused("", "1"), Errno::EINVAL);
        assert_eq!(refused("lod.[", "1"), Errno::EINVAL);
        assert_eq!(refused("osc.*.checksums", &"x".repeat(5000)), Errno::EINVAL);
        assert_eq!(r.scoped().version, 0);
    }
}
