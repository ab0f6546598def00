//! The ids as which the callers of one client act: what its nodemap says, and then what the
//! parameters of the MDT say ([`crate::rules`]).

use crate::nodemap::{Caller, IdKind, Nodemap};
use crate::property::MapMode;
use std::sync::Arc;
use types::credentials::{Callers, Credentials, Ids, KnownUsers, Squash};

/// The caller is refused, whatever it asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Denied;

/// What an MDT does with the callers of one client. By default: nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Acting {
    /// By parameters, in ids of the file system.
    pub squash: Squash,
    /// The client's nodemap; `None`: no nodemap holds.
    pub nodemap: Option<Arc<Nodemap>>,
}

impl Acting {
    /// Makes a caller the one that it acts as. `true`: its own kernel made sure of nothing that
    /// counts here, so permission is to be checked.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn caller(&self, caller: &mut Credentials) -> Result<bool, Denied> {
        let by_nodemap = match &self.nodemap {
            None => Caller::Itself,
            Some(nodemap) => nodemap.caller(caller),
        };
        match by_nodemap {
            Caller::Denied => Err(Denied),
            Caller::Squashed => Ok(true),
            Caller::Itself => {
                // A client that knows sends the ids as which its root acts; the kernel has checked
                // root's.
                let is_root = self.squash.root == Some(Ids { uid: caller.uid, gid: caller.gid });
                Ok(self.squash.apply(caller) || is_root)
            }
            Caller::Mapped => {
                self.squash.apply(caller);
                Ok(true)
            }
        }
    }

    /// The nodemap, if the client sees ids as others than the file system has.
    pub fn mapping(&self) -> Option<&Nodemap> {
        self.nodemap.as_deref().filter(|nodemap| !nodemap.trusted)
    }

    /// The realm outside of which the client reaches nothing, if its nodemap says which directory
    /// it mounts. 0: it reaches nothing at all.
    pub fn realm(&self) -> Option<u32> {
        let nodemap = self.nodemap.as_ref().filter(|nodemap| !nodemap.fileset.is_empty());
        nodemap.map(|nodemap| nodemap.realm)
    }

    /// True if its nodemap lets the client change nothing.
    pub fn is_read_only(&self) -> bool {
        self.nodemap.as_ref().is_some_and(|nodemap| nodemap.readonly)
    }

    /// True if its callers may not do everything: OSTs ask for tickets.
    pub fn is_restricted(&self) -> bool {
        self.squash != Squash::OFF || self.nodemap.as_ref().is_some_and(|map| map.is_restricted())
    }

    /// True if its nodemap has it written down what the client changes.
    pub fn is_audited(&self) -> bool {
        self.nodemap.as_ref().is_some_and(|nodemap| nodemap.audit)
    }

    /// True if the client mounts what it did under `before`, and may change it as then.
    pub fn mounts_as(&self, before: &Acting) -> bool {
        let mounts = |acting: &Acting| {
            let fileset =
                acting.nodemap.as_ref().map(|nodemap| (nodemap.fileset.clone(), nodemap.realm));
            (fileset.unwrap_or_default(), acting.is_read_only())
        };
        mounts(self) == mounts(before)
    }

    /// True if the client sees ids as it did under `before`.
    pub fn shows_as(&self, before: &Acting) -> bool {
        let shown = |acting: &Acting| acting.mapping().cloned().map(|nodemap| nodemap.of_ids());
        shown(self) == shown(before)
    }

    /// What the client is told, in its own ids.
    pub fn callers(&self) -> Callers {
        let Some(nodemap) = &self.nodemap else { return self.squash.into() };
        let shown = |ids: Option<Ids>| {
            ids.map(|Ids { uid, gid }| Ids {
                uid: nodemap.to_client(IdKind::Uid, uid),
                gid: nodemap.to_client(IdKind::Gid, gid),
            })
        };
        let squash = Squash { root: shown(self.squash.root), others: shown(self.squash.others) };
        let mut users: Vec<(u32, u32)> = if nodemap.admin { vec![(0, 0)] } else { Vec::new() };
        if nodemap.trusted || nodemap.map_mode == MapMode::Gid {
            users.push((1, u32::MAX - 1));
        } else {
            users.extend(nodemap.uids.spans().iter().map(|span| (span.client(), span.count() - 1)));
        }
        let merged = users.into_iter().fold(Vec::<(u32, u32)>::new(), |mut all, (first, more)| {
            match all.last_mut() {
                Some((start, length)) if *start + *length + 1 == first => *length += more + 1,
                _ => all.push((first, more)),
            }
            all
        });
        let all_known = merged == [(0, u32::MAX)];
        let known = (!all_known).then(|| {
            let (others, denies) = (nodemap.squash(), nodemap.deny_unknown);
            Arc::new(KnownUsers { users: merged, others, denies })
        });
        Callers { squash, known }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodemap::IdKind;
    use crate::property::Property;
    use proptest::prelude::*;
    use types::credentials::ActsAs;

    const NOBODY: Ids = Ids { uid: 65_534, gid: 65_534 };

    fn nodemap(properties: &[Property]) -> Nodemap {
        let mut nodemap = Nodemap::default();
        nodemap.add_ids(IdKind::Uid, "1000-1009:5000".parse().unwrap()).unwrap();
        nodemap.add_ids(IdKind::Gid, "100:6000".parse().unwrap()).unwrap();
        properties.iter().for_each(|property| nodemap.set(*property).unwrap());
        nodemap
    }

    fn acts(
        nodemap: Nodemap,
        uid: u32,
        gid: u32,
        groups: &[u32],
    ) -> Result<(Credentials, bool), Denied> {
        let mut caller = Credentials { uid, gid, groups: groups.iter().copied().collect() };
        let acting = Acting { squash: Squash::OFF, nodemap: Some(Arc::new(nodemap)) };
        acting.caller(&mut caller).map(|checked| (caller, checked))
    }

    fn ids(uid: u32, gid: u32, groups: &[u32]) -> Credentials {
        Credentials { uid, gid, groups: groups.iter().copied().collect() }
    }

    #[test]
    fn callers_become_the_ids_of_the_maps_or_are_squashed() {
        let map = || nodemap(&[]);
        assert_eq!(acts(map(), 1005, 100, &[100, 7]), Ok((ids(5005, 6000, &[6000]), true)));
        assert_eq!(acts(map(), 1005, 7, &[]), Ok((ids(5005, NOBODY.gid, &[]), true)));
        assert_eq!(acts(map(), 7, 100, &[100]), Ok((NOBODY.into(), true)));
        assert_eq!(acts(map(), 0, 0, &[0]), Ok((NOBODY.into(), true)));
        assert_eq!(acts(map(), 1005, 0, &[0]), Ok((ids(5005, NOBODY.gid, &[]), true)), "group 0");
        let admin = || nodemap(&[Property::Admin(true)]);
        assert_eq!(acts(admin(), 0, 0, &[0, 100, 7]), Ok((ids(0, 0, &[0, 6000]), true)));
        let deny = || nodemap(&[Property::DenyUnknown(true)]);
        assert_eq!(
            [0, 7, NOBODY.uid].map(|uid| acts(deny(), uid, 100, &[])),
            [const { Err(Denied) }; 3]
        );
        assert!(acts(deny(), 1000, 100, &[]).is_ok());
        let uid = || nodemap(&[Property::MapMode(MapMode::Uid)]);
        assert_eq!(acts(uid(), 1005, 7, &[8]), Ok((ids(5005, 7, &[8]), true)));
        let gid = || nodemap(&[Property::MapMode(MapMode::Gid)]);
        assert_eq!(acts(gid(), 7, 100, &[8]), Ok((ids(7, 6000, &[]), true)));
    }

    #[test]
    fn a_trusted_client_s_ids_are_its_own() {
        let trusted = || nodemap(&[Property::Trusted(true)]);
        assert_eq!(acts(trusted(), 1005, 100, &[7]), Ok((ids(1005, 100, &[7]), false)));
        assert_eq!(acts(trusted(), 0, 0, &[0]), Ok((NOBODY.into(), true)));
        // As a client sends it that knows.
        assert_eq!(acts(trusted(), NOBODY.uid, NOBODY.gid, &[]), Ok((NOBODY.into(), true)));
        let admin = || nodemap(&[Property::Trusted(true), Property::Admin(true)]);
        assert_eq!(acts(admin(), 0, 0, &[0]), Ok((ids(0, 0, &[0]), false)));
        assert_eq!(acts(admin(), NOBODY.uid, 1, &[]), Ok((ids(NOBODY.uid, 1, &[]), false)));
    }

    #[test]
    fn the_parameters_of_the_mdt_come_after_the_nodemap() {
        let guest = Ids { uid: 5001, gid: 6000 };
        let of = |squash, properties: &[Property], uid| {
            let nodemap = Some(Arc::new(nodemap(properties)));
            let acting = Acting { squash, nodemap };
            let mut caller = ids(uid, 100, &[]);
            (acting.caller(&mut caller).map(|_| caller), acting.callers().of(uid))
        };
        let root = Squash { root: Some(guest), others: None };
        let told = Ids { uid: 1001, gid: 100 };
        assert_eq!(of(root, &[Property::Admin(true)], 0), (Ok(guest.into()), ActsAs::Ids(told)));
        assert_eq!(
            of(root, &[], 0),
            (Ok(NOBODY.into()), ActsAs::Ids(NOBODY)),
            "it was root no more"
        );
        assert_eq!(of(root, &[], 1000), (Ok(ids(5000, 6000, &[])), ActsAs::Itself));
        let all = Squash { root: Some(guest), others: Some(guest) };
        assert_eq!(of(all, &[], 1000), (Ok(guest.into()), ActsAs::Ids(told)));
    }

    #[test]
    fn a_caller_that_comes_as_root_acts_is_checked_as_root() {
        let acting = Acting { squash: Squash { root: Some(NOBODY), others: None }, nodemap: None };
        let acts = |uid, gid| {
            let mut caller = ids(uid, gid, &[7]);
            acting.caller(&mut caller).map(|checked| (caller, checked))
        };
        assert_eq!(acts(0, 0), Ok((NOBODY.into(), true)));
        // As a client sends it that knows; or it is that user, whose groups stay.
        assert_eq!(acts(NOBODY.uid, NOBODY.gid), Ok((ids(NOBODY.uid, NOBODY.gid, &[7]), true)));
        assert_eq!(acts(NOBODY.uid, 1), Ok((ids(NOBODY.uid, 1, &[7]), false)));
        assert_eq!(acts(1005, 100), Ok((ids(1005, 100, &[7]), false)));
    }

    #[test]
    fn only_who_may_do_everything_is_not_restricted() {
        let of = |properties: &[Property]| Acting {
            squash: Squash::OFF,
            nodemap: Some(Arc::new(nodemap(properties))),
        };
        let all = [Property::Trusted(true), Property::Admin(true)];
        assert!(!Acting::default().is_restricted() && !of(&all).is_restricted());
        let with = |property| [&all[..], &[property]].concat();
        assert!(!of(&with(Property::Audit(true))).is_restricted());
        for property in [Property::Trusted(false), Property::Admin(false), Property::ReadOnly(true)]
        {
            assert!(of(&with(property)).is_restricted(), "{property:?}");
        }
        let mut fileset = nodemap(&all);
        fileset.set_fileset("/tenants/a", 1 << 31).unwrap();
        assert!(Acting { nodemap: Some(Arc::new(fileset)), ..of(&all) }.is_restricted());
        let squash = Squash { root: Some(NOBODY), others: None };
        assert!(Acting { squash, ..of(&all) }.is_restricted());
    }

    #[test]
    fn a_client_of_a_read_only_nodemap_mounts_something_else() {
        let acting = |properties: &[Property]| Acting {
            squash: Squash::OFF,
            nodemap: Some(Arc::new(nodemap(properties))),
        };
        let (free, kept) = (acting(&[]), acting(&[Property::ReadOnly(true)]));
        assert!(kept.is_read_only() && !free.is_read_only() && !Acting::default().is_read_only());
        assert!(!kept.mounts_as(&free) && kept.shows_as(&free), "it gives back its locks");
        let audited = acting(&[Property::Audit(true)]);
        assert!(audited.is_audited() && audited.mounts_as(&free) && audited.shows_as(&free));
    }

    proptest! {
        /// What a client believes of its callers is what the MDT makes of them.
        #[test]
        fn a_client_that_knows_sends_what_the_mdt_makes_of_it(
            (trusted, admin, deny, mode) in (any::<bool>(), any::<bool>(), any::<bool>(), 0..3_u8),
            uid in prop_oneof![Just(0_u32), 995..1015_u32, Just(65_534), any::<u32>()],
            gid in prop_oneof![Just(0_u32), 98..103_u32, Just(65_534)],
        ) {
            let mode = [MapMode::Both, MapMode::Uid, MapMode::Gid][usize::from(mode)];
            let properties = [
                Property::Trusted(trusted),
                Property::Admin(admin),
                Property::DenyUnknown(deny),
                Property::MapMode(mode),
            ];
            let acting = Acting { squash: Squash::OFF, nodemap: Some(Arc::new(nodemap(&properties))) };
            let mut caller = ids(uid, gid, &[]);
            let decided = acting.caller(&mut caller);
            match acting.callers().of(uid) {
                ActsAs::Nobody => prop_assert_eq!(decided, Err(Denied)),
                ActsAs::Ids(told) => {
                    let mut again = Credentials::from(told);
                    prop_assert_eq!(acting.caller(&mut again), Ok(true));
                    prop_assert_eq!(&again, &caller, "the ids that it sends are taken for the same");
                }
                // Then its kernel's own check is good: the ids that it sees are the ids that count.
                ActsAs::Itself => {
                    let nodemap = acting.nodemap.as_ref().unwrap();
                    prop_assert!(decided.is_ok());
                    prop_assert_eq!(nodemap.to_client(IdKind::Uid, caller.uid), uid);
                }
            }
            // What a client sees is not another user's.
            prop_assert!(caller.uid != crate::nodemap::FOREIGN || uid == caller.uid);
            let nodemap = acting.nodemap.as_ref().unwrap();
            if let Some(fs) = nodemap.known(IdKind::Uid, uid) && (uid != 0 || admin) {
                prop_assert_eq!(nodemap.to_client(IdKind::Uid, fs), uid);
            }
        }
    }
}
