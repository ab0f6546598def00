//! Authorities of a site whose keys the cluster takes (docs/security.md, "Authorities of a site"):
//! `sites.json` beside the authority.
//!
//! Bounds: those of [`seal::sites`], and [`BARRED_MAX`] names.

use super::{AuthorityDir, AuthorityError};
use crate::host::secret_file;
use seal::credentials::ClusterText;
use seal::fingerprint::Fingerprint;
use seal::sites::{Mapping, Site, Sites};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;
use types::principal::KeyName;

/// Names of keys of sites that may be revoked.
pub const BARRED_MAX: usize = 1_000;

const SITES: &str = "sites.json";

/// One of them, in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// PEM.
    certificate: String,
    maps: Vec<String>,
}

/// The file.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptList {
    sites: Vec<Kept>,
    #[serde(default)]
    barred: Vec<String>,
}

/// What a cluster takes of sites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteList {
    /// Their authorities.
    pub sites: Sites,
    /// Names that are revoked.
    pub barred: Vec<KeyName>,
}

/// What is to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The mapping with this label.
    Label(KeyName),
    /// An authority with all its mappings.
    Authority(Fingerprint),
}

impl AuthorityDir {
    /// The file with the authorities of sites.
    pub fn sites_path(&self) -> PathBuf {
        self.0.join(SITES)
    }

    /// What is taken of sites; `None`: nothing ever was.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn sites(&self) -> Result<Option<SiteList>, AuthorityError> {
        let path = self.sites_path();
        let text = match secret_file::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(self.at(SITES))?,
        };
        let damaged = |reason: String| AuthorityError::List { path: path.clone(), reason };
        let kept: KeptList =
            serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        let site = |Kept { certificate, maps }: Kept| {
            let maps = maps.iter().map(|map| map.parse()).collect::<Result<_, _>>()?;
            Site::new(Site::certificate_of(&certificate)?, maps)
        };
        let sites = kept.sites.into_iter().map(site).collect::<Result<_, _>>();
        let sites = sites.and_then(Sites::new).map_err(|error| damaged(error.to_string()))?;
        let barred = kept.barred.iter().map(|name| KeyName::of_any(name)).collect::<Result<_, _>>();
        let barred = barred.map_err(|error| damaged(error.to_string()))?;
        Ok(Some(SiteList { sites, barred }))
    }

    fn write_sites(&self, list: &SiteList) -> Result<(), AuthorityError> {
        let kept = |site: &Site| Kept {
            certificate: site.pem(),
            maps: site.maps().iter().map(Mapping::to_string).collect(),
        };
        let list = KeptList {
            sites: list.sites.all().iter().map(kept).collect(),
            barred: list.barred.iter().map(KeyName::to_string).collect(),
        };
        let text = serde_json::to_string_pretty(&list).expect("plain values");
        secret_file::write(&self.sites_path(), &(text + "\n")).map_err(self.at(SITES))
    }

    /// Takes keys of this authority (PEM) as these mappings say, too.
    ///
    /// # Errors
    /// There is no authority of the cluster, a mapping does not go with others, or the list cannot
    /// be written.
    pub fn trust(&self, certificate: &str, maps: Vec<Mapping>) -> Result<Site, AuthorityError> {
        let _locked = self.locked()?;
        let list = self.sites()?.unwrap_or_default();
        let site = Site::certificate_of(certificate)?;
        let mut sites = list.sites.all().to_vec();
        let known = sites.iter().position(|one| *one.certificate() == site);
        let before = known.map(|at| sites.remove(at));
        let maps = before.iter().flat_map(|one| one.maps()).cloned().chain(maps).collect();
        let site = Site::new(site, maps)?;
        sites.push(site.clone());
        let sites = Sites::new(sites)?;
        self.write_sites(&SiteList { sites, ..list })?;
        Ok(site)
    }

    /// Takes less; returns the number of mappings that are gone. Revoked names of a label that is
    /// gone are forgotten.
    ///
    /// # Errors
    /// There is none such, or the list cannot be written.
    pub fn distrust(&self, what: &Removed) -> Result<usize, AuthorityError> {
        let _locked = self.locked()?;
        let list = self.sites()?.unwrap_or_default();
        let (mut left, mut gone) = (Vec::new(), Vec::new());
        for site in list.sites.all() {
            let stays = |map: &&Mapping| match what {
                Removed::Label(label) => map.label() != label,
                Removed::Authority(one) => site.fingerprint() != *one,
            };
            let (maps, removed): (Vec<_>, Vec<_>) = site.maps().iter().partition(stays);
            gone.extend(removed.into_iter().map(|map| map.label().clone()));
            if !maps.is_empty() {
                let maps = maps.into_iter().cloned().collect();
                left.push(Site::new(site.certificate().clone(), maps)?);
            }
        }
        if gone.is_empty() {
            return Err(AuthorityError::NoSite);
        }
        let sites = Sites::new(left)?;
        let is_gone = |name: &KeyName| gone.iter().any(|one| name.label() == Some(one.as_str()));
        let barred = list.barred.into_iter().filter(|name| !is_gone(name)).collect();
        self.write_sites(&SiteList { sites, barred })?;
        Ok(gone.len())
    }

    /// Revokes the name of a key of a site, whether such a key was ever seen. The list is locked.
    pub(super) fn bar(&self, name: &KeyName) -> Result<usize, AuthorityError> {
        let mut list = self.sites()?.unwrap_or_default();
        let mut maps = list.sites.all().iter().flat_map(Site::maps);
        if list.barred.contains(name) || !maps.any(|map| name.label() == Some(map.label().as_str()))
        {
            return Err(AuthorityError::NoName(name.clone()));
        }
        if list.barred.len() >= BARRED_MAX {
            return Err(AuthorityError::Full);
        }
        list.barred.push(name.clone());
        self.write_sites(&list)?;
        Ok(1)
    }

    /// What hosts with keys of a site need to know servers.
    ///
    /// # Errors
    /// There is no authority.
    pub fn export(&self) -> Result<ClusterText, AuthorityError> {
        let (_lock, authority) = self.locked()?;
        let mgs = self.list()?.mgs.iter().filter_map(|nid| nid.parse().ok()).collect();
        Ok(authority.public(mgs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seal::https;
    use std::net::Ipv4Addr;
    use types::session::ClusterId;

    /// A certificate with CA:TRUE that openssl made for this test; it signs nothing here.
    const CA: &str = include_str!("site_ca.pem");

    fn name(text: &str) -> KeyName {
        KeyName::of_any(text).unwrap()
    }

    fn maps(all: &[&str]) -> Vec<Mapping> {
        all.iter().map(|map| map.parse().unwrap()).collect()
    }

    #[test]
    fn sites_are_trusted_revoked_and_removed() {
        let mgt = tempfile::tempdir().unwrap();
        let dir = AuthorityDir::of(mgt.path());
        let one = maps(&["spiffe://a/x/*=client:one"]);
        assert!(matches!(dir.trust(CA, one.clone()), Err(AuthorityError::None(_))));
        let nids = ["10.0.0.1@tcp".parse().unwrap()];
        dir.make(ClusterId(7), &nids, &name("mgs"), 60).unwrap();
        assert_eq!(dir.sites().unwrap(), None);
        dir.trust(CA, one.clone()).unwrap();
        dir.trust(CA, maps(&["spiffe://a/y=admin:two"])).unwrap();
        // What does not go with these, and what is no authority.
        for bad in ["spiffe://a/*/z=client:one", "spiffe://a/x/q=client:three"] {
            assert!(matches!(dir.trust(CA, maps(&[bad])), Err(AuthorityError::Site(_))), "{bad}");
        }
        let ip = Ipv4Addr::LOCALHOST.into();
        let no_authority = https::self_signed(ip, "host", super::super::now()).unwrap();
        assert!(dir.trust(&no_authority, maps(&["spiffe://b/c=client:three"])).is_err());
        assert!(dir.trust("x", one).is_err());
        let list = dir.sites().unwrap().unwrap();
        let labels = |list: &SiteList| {
            let all = list.sites.all().iter().flat_map(Site::maps);
            all.map(|map| map.label().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(labels(&list), ["one", "two"]);
        // Names of these labels are revoked, once, and no others; keys of the cluster are not.
        assert_eq!(dir.revoke(&name("one+a")).unwrap(), 1);
        assert_eq!(dir.revoke(&name("two+y")).unwrap(), 1);
        for none in ["one+a", "three+a", "one"] {
            assert!(matches!(dir.revoke(&name(none)), Err(AuthorityError::NoName(_))), "{none}");
        }
        assert_eq!(dir.sites().unwrap().unwrap().barred, [name("one+a"), name("two+y")]);
        let none = Removed::Label(name("three"));
        assert!(matches!(dir.distrust(&none), Err(AuthorityError::NoSite)));
        assert_eq!(dir.distrust(&Removed::Label(name("one"))).unwrap(), 1);
        let list = dir.sites().unwrap().unwrap();
        assert_eq!(
            (labels(&list), &list.barred[..]),
            (vec!["two".to_owned()], &[name("two+y")][..])
        );
        let site = list.sites.all()[0].fingerprint();
        assert_eq!(dir.distrust(&Removed::Authority(site)).unwrap(), 1);
        assert_eq!(dir.sites().unwrap(), Some(SiteList::default()), "it says that there are none");
        // What hosts need has no key in it.
        let text = dir.export().unwrap().to_text();
        assert!(text.contains("# mgs 10.0.0.1@tcp") && !text.contains("PRIVATE"), "{text}");
        assert_eq!(ClusterText::from_text(&text).unwrap().to_text(), text);
        // No key of the cluster can have the name of one of a site.
        let name = name("one+a");
        let role = types::principal::Role::Client;
        let subject = seal::authority::Subject { role, name: &name, nids: &[] };
        assert!(matches!(dir.issue(subject, 60), Err(AuthorityError::Seal(_))));
        std::fs::write(dir.sites_path(), "{").unwrap();
        assert!(matches!(dir.sites(), Err(AuthorityError::List { .. })));
    }
}
