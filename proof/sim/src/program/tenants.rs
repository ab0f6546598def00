//! Programs where two tenants have a fileset each: where they work, and what they try that they
//! must not.
//!
//! Programs on a tenant's mount have its fileset as their root, and ask for inodes of others by
//! number, as a client that keeps to no rule does. Those of the administrator work in one of the
//! filesets, or outside of both, and try to give an inode a name elsewhere.

use super::{DIRS, FILES, Held, Program, name};
use crate::history::{Answer, Ino, Kind, is_unknown};
use crate::realms_seen::Owner;
use client::caller::Caller;
use client::node::NodeId;
use rpc::error::RpcError;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::object::ObjectId;
use wire::mds::{
    AskTickets, CreateKind, GetLayout, GetParent, Getattr, Link, Lock, Lookup, MdsOp, MdsReply,
    Open, OpenFlags, Read, RenameFlags, Setattr, Unlink,
};
use wire::message::{Op, OpReply};
use wire::ost::{ObjectGetattr, OstOp};

/// Names of the tenants' filesets in the root.
pub const HOMES: [&str; 2] = ["t0", "t1"];
/// Clients at the beginning.
pub const CLIENTS: usize = 4;
/// A first client of each tenant.
pub const OF_TENANTS: [usize; 2] = [1, 2];
/// The tenant of each client that is not the administrator's.
pub const TENANTS: [(usize, usize); 3] = [(1, 0), (2, 1), (3, 0)];
/// In so many of 1000 cases a tenant asks for what is another one's before it does something else.
const PRIES: u64 = 250;
/// In so many of 1000 cases the administrator tries to give an inode a name in another fileset.
const CROSSES: u64 = 150;

/// Where a program works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Its mount shows the whole file system, and it works everywhere.
    Whole,
    /// Its mount shows the fileset of this tenant, which is this directory.
    Fileset(usize, Ino),
    /// Its mount shows the whole, in which tenants have filesets: it works in that of one of them,
    /// or outside.
    Among(Owner),
}

impl Place {
    /// Whose inodes and data it may see; `None`: those of all.
    pub(super) fn sees(self) -> Option<Owner> {
        match self {
            Place::Whole => None,
            Place::Fileset(tenant, _) => Some(Some(tenant)),
            Place::Among(owner) => Some(owner),
        }
    }

    /// The inode of the root of the mount.
    fn root_of_mount(self) -> Ino {
        if let Place::Fileset(_, home) = self { home } else { Fid::ROOT.ino() }
    }
}

/// The inode with this number, if it is one of an MDT's sequences.
fn fid_of(ino: Ino) -> Option<Fid> {
    let fid = Fid { seq: ino >> 24, oid: ino as u32 & 0xff_ffff, ver: 0 };
    let known = if ino == Fid::ROOT.ino() { Fid::ROOT } else { fid };
    (known.ino() == ino).then_some(known)
}

impl Program {
    /// The root of its mount.
    pub(super) fn root_of_mount(&self) -> Held {
        Held { node: NodeId::ROOT, ino: self.place.root_of_mount() }
    }

    /// The directory in which it works, which is not forgotten; `None`: it cannot be found now.
    pub(super) async fn find_root(&mut self) -> Option<Held> {
        let root = self.root_of_mount();
        let Place::Among(Some(tenant)) = self.place else { return Some(root) };
        // Of all that it finds in the root, only this is not outside.
        self.place = Place::Among(None);
        let found = self.lookup(root, HOMES[tenant]).await;
        self.place = Place::Among(Some(tenant));
        found.map(|(held, _)| held)
    }

    /// Makes the directories that become filesets, with something in each.
    pub async fn found(mut self) {
        let root = self.root_of_mount();
        for (tenant, text) in HOMES.into_iter().enumerate() {
            let Some(home) = self.make(root, text, Kind::Dir).await else { return };
            self.place = Place::Among(Some(tenant));
            for text in DIRS {
                let Some(dir) = self.make(home, text, Kind::Dir).await else { return };
                self.make(dir, FILES[0], Kind::File).await;
                self.make(dir, "s", Kind::Symlink).await;
            }
            for text in FILES {
                if let Some((file, handle)) = self.create_open(home, text).await {
                    self.write(file, handle).await;
                    self.close(handle).await;
                }
            }
        }
    }

    /// An answer shows these inodes.
    pub(super) fn look_at(&self, answer: &Answer) {
        let Some(owner) = self.place.sees() else { return };
        let seen = match answer {
            Answer::Inode { ino, .. } => vec![*ino],
            Answer::Names(names) => names.values().copied().collect(),
            Answer::Done | Answer::Refused(_) => Vec::new(),
        };
        let wrong = seen.into_iter().filter_map(|ino| self.recorder.realms.shown(owner, ino).err());
        self.recorder.found.lock().extend(wrong);
    }

    /// It writes this value.
    pub(super) fn marks(&self, value: u64) {
        if let Some(owner) = self.place.sees() {
            self.recorder.realms.writes(owner, value);
        }
    }

    /// It has read this value.
    pub(super) fn sees_value(&self, value: u64) {
        let seen = self.place.sees().map(|owner| self.recorder.realms.read(owner, value));
        self.recorder.found.lock().extend(seen.and_then(Result::err));
    }

    /// Tries what it must not, if it likes.
    pub(super) async fn trespass(&mut self) {
        match self.place {
            Place::Whole => {}
            Place::Fileset(tenant, home) => {
                if self.rng.chance(PRIES) {
                    self.pry(tenant, home).await;
                }
            }
            Place::Among(_) => {
                if self.rng.chance(CROSSES) {
                    self.cross().await;
                }
            }
        }
    }

    /// Asks for what is not in the fileset, by number.
    async fn pry(&mut self, tenant: usize, home: Ino) {
        let foreign = self.recorder.realms.foreign(tenant);
        let ino = *self.rng.pick(&foreign);
        let (Some(fid), Some(home)) = (fid_of(ino), fid_of(home)) else { return };
        let result = if self.rng.chance(250) {
            self.pry_at_an_ost(fid).await
        } else {
            self.pry_at_the_mdt(fid, home).await
        };
        let Some((asked, result)) = result else { return };
        match result {
            Ok(answer) => {
                let what =
                    format!("tenant {tenant} asked {asked} of inode {ino:x} and got {answer}");
                self.recorder.found.lock().push(what);
                self.recorder.realms.tried(false);
            }
            Err(errno) => self.recorder.realms.tried(!is_unknown(errno)),
        }
    }

    /// What it asked, and the answer.
    async fn pry_at_the_mdt(
        &mut self,
        fid: Fid,
        home: Fid,
    ) -> Option<(String, Result<String, Errno>)> {
        let text = || name(FILES[0]);
        let flags =
            |write| OpenFlags { read: true, write, exec: false, append: false, lasting: false };
        let mut all = vec![
            MdsOp::Getattr(Getattr::of(fid)),
            MdsOp::GetParent(GetParent { fid }),
            MdsOp::Lookup(Lookup { parent: fid, name: text() }),
            MdsOp::Open(Open { fid, flags: flags(false) }),
            MdsOp::Open(Open { fid, flags: flags(true) }),
            MdsOp::Lock(Lock { fid, bits: InodeBits::DATA, needs: None }),
            MdsOp::GetLayout(GetLayout { fid, write: false, start: 0, end: u64::MAX }),
            MdsOp::Read(Read { fid, offset: 0, len: 100 }),
            MdsOp::AskTickets(AskTickets { fids: vec![fid], of_objects: true, had: Vec::new() }),
            MdsOp::Unlink(Unlink { parent: fid, name: text() }),
            MdsOp::Link(Link { fid, new_parent: home, new_name: name("stolen") }),
            MdsOp::Setattr(Setattr { fid, set: types::attr::SetAttr::default() }),
            MdsOp::Create(wire::mds::Create {
                parent: fid,
                name: name("planted"),
                kind: CreateKind::Regular(None),
                mode: 0o644,
                umask: 0,
                exclusive: true,
            }),
        ];
        let op = all.swap_remove(self.rng.below(all.len() as u64) as usize);
        let asked = format!("{op:?}");
        let mdc = self.client.session().mdc(fid).ok()?;
        let result = mdc.import().one(&Credentials::root(), Op::Mds(op)).await;
        let result = match result {
            // It says of each inode by itself.
            Ok(OpReply::Mds(MdsReply::Tickets { tickets, .. })) => {
                tickets.into_iter().next()?.map(|_| "a ticket".to_owned())
            }
            other => other.map(|reply| format!("{reply:?}")).map_err(|error| error.errno()),
        };
        Some((asked, result))
    }

    async fn pry_at_an_ost(&mut self, fid: Fid) -> Option<(String, Result<String, Errno>)> {
        let (instance, stripe) = (self.rng.below(2) as u32, self.rng.below(2) as u32);
        let object = ObjectId { fid, instance, stripe };
        let oscs = self.client.session().osts();
        let osc = oscs.get(self.rng.below(oscs.len().max(1) as u64) as usize)?;
        // With the ticket that the MDT gives, if it gives one, or without any.
        let result: Result<String, RpcError> = if self.rng.chance(500) {
            osc.getattr(object).await.map(|sizes| format!("{sizes:?}"))
        } else {
            let op = Op::Ost(OstOp::Getattr(ObjectGetattr { object }));
            let answer = osc.import().one(&Credentials::root(), op).await;
            answer.map(|reply| format!("{reply:?}"))
        };
        Some((format!("the size of {object}"), result.map_err(|error| error.errno())))
    }

    /// Tries to give what is in one fileset, or outside, a name elsewhere.
    async fn cross(&mut self) {
        let root = self.root_of_mount();
        let (mut places, mut homes) = (vec![root], Vec::new());
        let before = std::mem::replace(&mut self.place, Place::Among(None));
        for home in HOMES {
            homes.extend(self.lookup(root, home).await.map(|(held, _)| held));
        }
        self.place = before;
        places.extend(&homes);
        let from = places.swap_remove(self.rng.below(places.len() as u64) as usize);
        if !places.is_empty() {
            let to = *self.rng.pick(&places);
            self.cross_over(from, to).await;
        }
        homes.iter().for_each(|home| self.client.forget(home.node, 1));
    }

    /// Nothing of it may be done, so it is in no history.
    async fn cross_over(&mut self, from: Held, to: Held) {
        let (caller, client) = (Caller::root(), self.client.clone());
        let is_dir = self.rng.chance(300);
        let text = if is_dir { *self.rng.pick(&DIRS) } else { *self.rng.pick(&FILES) };
        let _changing = self.directories.change(vec![from.ino, to.ino]).await;
        let (what, result) = if is_dir || self.rng.chance(500) {
            let (old, new) = ((from.node, name(text)), (to.node, name("crossed")));
            ("renamed", client.rename(caller, old, new, RenameFlags::default()).await)
        } else {
            let Ok(file) = client.clone().lookup(caller.clone(), from.node, name(text)).await
            else {
                return;
            };
            let link = client.clone().link(caller, file.node, to.node, name("crossed")).await;
            client.forget(file.node, 1 + u64::from(link.is_ok()));
            ("linked", link.map(drop))
        };
        match result {
            Ok(()) => self.recorder.found.lock().push(format!(
                "{text} in {:x} was {what} into {:x}, which is another fileset",
                from.ino, to.ino
            )),
            Err(error) => self.recorder.realms.tried(!is_unknown(error.errno())),
        }
    }
}
