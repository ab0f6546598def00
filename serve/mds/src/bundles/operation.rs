//! The operations on names over several MDTs: what they look at, and what they do.

use super::facts::Facts;
use crate::expected::Expected;
use crate::held_names::Attempt;
use crate::records::entry_of;
use disk::bundle::Step;
use namespace::context::Context;
use namespace::inode::{Dirent, Inode};
use namespace::rename::{Flags, Place};
use namespace::view::View;
use namespace::{link, rename, rmdir, unlink};
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use wire::mds::{Link, MdsReply, PeerFind, Removed, Rename, Rmdir, Unlink};

/// An operation that another MDT takes part in.
#[derive(Clone, Copy)]
pub(crate) enum NameOperation<'a> {
    Rename(&'a Rename),
    Link(&'a Link),
    Unlink(&'a Unlink),
    Rmdir(&'a Rmdir),
}

use NameOperation as Op;

/// What an operation does, after all checks.
pub(super) struct Planned {
    /// At all MDTs; none: nothing.
    pub(super) steps: Vec<Step>,
    pub(super) reply: MdsReply,
}

impl NameOperation<'_> {
    /// The directory whose MDT coordinates.
    pub(super) fn dir(&self) -> Fid {
        match self {
            Op::Rename(op) => op.new_parent,
            Op::Link(op) => op.new_parent,
            Op::Unlink(Unlink { parent, .. }) | Op::Rmdir(Rmdir { parent, .. }) => *parent,
        }
    }

    /// True if it needs space in the stores.
    pub(super) fn takes_space(&self) -> bool {
        matches!(self, Op::Rename(_) | Op::Link(_))
    }

    /// Its names, and whether the inode that each leads to loses it and gets no other.
    fn names(&self) -> Vec<(Fid, &Name, bool)> {
        match self {
            Op::Rename(op) => vec![
                (op.parent, &op.name, false),
                (op.new_parent, &op.new_name, !op.flags.exchange),
            ],
            Op::Link(op) => vec![(op.new_parent, &op.new_name, false)],
            Op::Unlink(Unlink { parent, name }) | Op::Rmdir(Rmdir { parent, name }) => {
                vec![(*parent, name, true)]
            }
        }
    }

    /// What it looks at in any case.
    pub(super) fn finds(&self) -> Vec<PeerFind> {
        let name = |(dir, name, loses): (Fid, &Name, bool)| PeerFind::Name {
            dir,
            name: name.clone(),
            loses,
        };
        let mut finds: Vec<PeerFind> = self.names().into_iter().map(name).collect();
        if let Op::Link(op) = self {
            finds.push(PeerFind::Inode { fid: op.fid, loses: false });
        }
        finds
    }

    /// True if a kernel that finds its names as they are tries again.
    pub(super) fn comes_again(&self, facts: &Facts) -> bool {
        let attempt = match self {
            Op::Rename(op) => Attempt::Rename(op),
            Op::Unlink(op) => Attempt::Unlink(op),
            Op::Rmdir(op) => Attempt::Rmdir(op),
            Op::Link(_) => return false,
        };
        let leads = |(dir, name): &(Fid, &Name)| facts.leads(*dir, name);
        let found: Vec<Option<FileType>> =
            attempt.names().iter().map(|name| leads(name).map(|to| to.file_type)).collect();
        attempt.comes_again(&found)
    }

    /// The inodes that its names lead to, as far as nothing is known of them.
    /// Of a directory that goes, also its stripes.
    ///
    /// # Errors
    /// EIO: a record is damaged.
    pub(super) fn unknown_inodes(&self, facts: &Facts) -> Result<Vec<PeerFind>, Errno> {
        let mut unknown = Vec::new();
        if matches!(self, Op::Link(_)) {
            // A second name for an inode is refused if there is one already.
            return Ok(unknown);
        }
        for (dir, name, loses) in self.names() {
            let Some(Dirent { fid, .. }) = facts.leads(dir, name) else { continue };
            let all = match facts.has_inode(fid) {
                false => vec![fid],
                true if loses => facts.stripes_of(fid)?,
                true => Vec::new(),
            };
            let finds = all.into_iter().filter(|fid| !facts.has_inode(*fid));
            unknown.extend(finds.map(|fid| PeerFind::Inode { fid, loses }));
        }
        Ok(unknown)
    }

    /// Checks it, and says what it does. `is_squashed`: the caller's kernel has made sure of
    /// nothing. EREMOTE: something is not known yet ([`Facts::take_missing`]).
    ///
    /// # Errors
    /// Those of the system call.
    pub(super) fn plan(
        &self,
        facts: &mut Facts,
        ctx: &Context<'_>,
        expected: &Expected,
        is_squashed: bool,
    ) -> Result<Planned, Errno> {
        match self {
            Op::Rename(op) => plan_rename(op, facts, ctx, expected),
            Op::Link(op) => plan_link(op, facts, ctx, is_squashed),
            Op::Unlink(Unlink { parent, name }) => {
                expected.taken(facts, *parent, name)?;
                let inode = unlink::unlink(facts, ctx, *parent, name)?;
                removal(facts, &inode, (*parent, name), ctx)
            }
            Op::Rmdir(Rmdir { parent, name }) => {
                expected.taken(facts, *parent, name)?;
                let inode = rmdir::rmdir(facts, ctx, *parent, name)?;
                removal(facts, &inode, (*parent, name), ctx)
            }
        }
    }
}

/// An inode loses this name. A directory goes with all of its stripes.
fn loses(
    facts: &Facts,
    inode: &Inode,
    (dir, name): (Fid, &Name),
    ctx: &Context<'_>,
) -> Result<Vec<Step>, Errno> {
    let (fid, file_type, time) = (inode.fid(), inode.file_type(), ctx.now);
    if !inode.is_dir() {
        let dir = facts.home(dir, name)?;
        return Ok(vec![Step::Drop { fid, dir, name: name.clone(), file_type, time }]);
    }
    let shards = facts.stripes_of(fid)?.into_iter().filter(|stripe| *stripe != fid);
    Ok([fid].into_iter().chain(shards).map(|fid| Step::Remove { fid, time }).collect())
}

fn leave((dir, name): (Fid, &Name), file_type: FileType, ctx: &Context<'_>) -> Step {
    Step::Leave { dir, name: name.clone(), file_type, time: ctx.now }
}

fn enter((dir, name): (Fid, &Name), inode: &Inode, ctx: &Context<'_>) -> Step {
    let (fid, file_type) = (inode.fid(), inode.file_type());
    Step::Enter { dir, name: name.clone(), fid, file_type, time: ctx.now }
}

fn removal(
    facts: &Facts,
    inode: &Inode,
    place: (Fid, &Name),
    ctx: &Context<'_>,
) -> Result<Planned, Errno> {
    let mut steps = loses(facts, inode, place, ctx)?;
    steps.push(leave(place, inode.file_type(), ctx));
    let removed = Removed { fid: inode.fid(), nlink: inode.attr.nlink };
    Ok(Planned { steps, reply: MdsReply::Removed(removed) })
}

fn plan_link(
    op: &Link,
    facts: &mut Facts,
    ctx: &Context<'_>,
    is_squashed: bool,
) -> Result<Planned, Errno> {
    let Link { fid, new_parent, new_name } = op;
    if facts.inode(*fid)?.is_none() {
        // As `Records::there`.
        return Err(Errno::ESTALE);
    }
    let inode = link::link(facts, ctx, *fid, *new_parent, new_name, is_squashed)?;
    let (name, time) = (new_name.clone(), ctx.now);
    let (dir, file_type) = (facts.home(*new_parent, new_name)?, inode.file_type());
    let steps = vec![
        Step::Link { fid: *fid, dir, name, file_type, time },
        enter((*new_parent, new_name), &inode, ctx),
    ];
    Ok(Planned { steps, reply: MdsReply::Entry(Box::new(entry_of(&inode))) })
}

fn plan_rename(
    op: &Rename,
    facts: &mut Facts,
    ctx: &Context<'_>,
    expected: &Expected,
) -> Result<Planned, Errno> {
    let Rename { parent, name, new_parent, new_name, flags } = op;
    expected.taken(facts, *parent, name)?;
    expected.replaced(facts, *new_parent, new_name)?;
    let (from, to) = ((*parent, name), (*new_parent, new_name));
    let old = (facts.home(*parent, name)?, name.clone());
    let new = (facts.home(*new_parent, new_name)?, new_name.clone());
    let flags = Flags { no_replace: flags.no_replace, exchange: flags.exchange };
    let places = [
        Place { parent: *parent, name: name.as_bytes() },
        Place { parent: *new_parent, name: new_name.as_bytes() },
    ];
    let renamed = rename::rename(facts, ctx, places[0], places[1], flags)?;
    let none = MdsReply::Removed(Removed { fid: Fid::NONE, nlink: 0 });
    let lead = |to: Option<Dirent>| to.map(|to| to.fid);
    if lead(facts.leads(*parent, name)) == lead(facts.leads(*new_parent, new_name)) {
        // Two names of one inode: nothing happens.
        return Ok(Planned { steps: Vec::new(), reply: none });
    }
    let time = ctx.now;
    let moves = |inode: &Inode, from: &(Fid, Name), to: &(Fid, Name)| Step::Move {
        fid: inode.fid(),
        from: from.clone(),
        to: to.clone(),
        file_type: inode.file_type(),
        time,
    };
    let moved = &renamed.moved;
    let mut steps = vec![leave(from, moved.file_type(), ctx)];
    steps.extend(renamed.replaced.iter().map(|other| leave(to, other.file_type(), ctx)));
    steps.push(enter(to, moved, ctx));
    steps.push(moves(moved, &old, &new));
    let reply = match &renamed.replaced {
        None => none,
        Some(other) if flags.exchange => {
            steps.push(enter(from, other, ctx));
            steps.push(moves(other, &new, &old));
            none
        }
        Some(other) => {
            steps.extend(loses(facts, other, to, ctx)?);
            MdsReply::Removed(Removed { fid: other.fid(), nlink: other.attr.nlink })
        }
    };
    Ok(Planned { steps, reply })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundles::find::record_without_rest;
    use crate::realm::Realm;
    use crate::records::tail;
    use bytes::Bytes;
    use namespace::create;
    use namespace::inode::InodeFlags;
    use types::attr::Attr;
    use types::credentials::Credentials;
    use types::project::REALM_FIRST;
    use types::time::Timestamp;
    use wire::mds::{PeerFacts, PeerInode, PeerName};

    /// How many steps the plan has of a link to `file` in `dir`, which other MDTs have, by a caller
    /// of a client that reaches this.
    fn link(
        [dir, file]: [&Inode; 2],
        who: &Credentials,
        is_squashed: bool,
        realm: Realm,
    ) -> Result<usize, Errno> {
        let inode = |inode: &Inode| PeerInode {
            fid: inode.fid(),
            record: record_without_rest(inode).unwrap().into(),
            acl: Bytes::new(),
            is_empty: true,
        };
        let name = Name::new(b"more").unwrap();
        let names = vec![PeerName { dir: dir.fid(), name: name.clone(), to: None }];
        let inodes = vec![inode(dir), inode(file)];
        let mut facts = Facts::default();
        facts.realm = realm;
        facts.learn(PeerFacts { inodes, names, ..PeerFacts::default() }).unwrap();
        let link = Link { fid: file.fid(), new_parent: dir.fid(), new_name: name };
        let ctx = Context { credentials: who, now: Timestamp::default(), version: 0 };
        let planned = Op::Link(&link).plan(&mut facts, &ctx, &Expected::default(), is_squashed);
        planned.map(|planned| planned.steps.len())
    }

    /// A root directory, and a file of this mode on another MDT, of root.
    fn dir_and_file(mode: u32) -> [Inode; 2] {
        let root = Credentials::root();
        let dir =
            create::root(&Context { credentials: &root, now: Timestamp::default(), version: 0 });
        let fid = Fid { seq: Fid::SEQ_NORMAL + Fid::SEQ_WIDTH, oid: 1, ver: 0 };
        let attr = Attr { fid, mode: FileType::Regular.mode_bits() | mode, nlink: 1, ..dir.attr };
        let (parent, flags, tail) = (Fid::NONE, InodeFlags::empty(), Default::default());
        [dir, Inode { attr, parent, flags, tail }]
    }

    #[test]
    fn a_squashed_caller_gives_no_name_to_what_it_may_not_read_and_write_on_another_mdt() {
        let user = Credentials { uid: 1000, gid: 1000, ..Credentials::default() };
        let plan = |mode, is_squashed| {
            let [mut dir, file] = dir_and_file(mode);
            dir.attr.mode |= 0o777;
            link([&dir, &file], &user, is_squashed, Realm::ALL)
        };
        assert_eq!(plan(0o644, false), Ok(2));
        assert_eq!(plan(0o644, true), Err(Errno::EPERM));
        assert_eq!(plan(0o666, true), Ok(2));
    }

    #[test]
    fn a_client_gives_no_name_to_what_is_outside_of_its_realm_on_another_mdt() {
        let number = REALM_FIRST + 1;
        let plan = |realm: Realm, projects: [u32; 2]| {
            let mut both = dir_and_file(0o644);
            for (inode, project) in both.iter_mut().zip(projects) {
                tail::set_project(inode, project).unwrap();
                inode.flags.set(InodeFlags::HAS_PROJECT, project != 0);
                inode.flags.set(InodeFlags::PROJECT_INHERIT, project != 0 && inode.is_dir());
            }
            let [dir, file] = &both;
            link([dir, file], &Credentials::root(), false, realm)
        };
        let realm = Realm::of(Some(number));
        assert_eq!(plan(realm, [number, number]), Ok(2));
        assert_eq!(plan(realm, [number, 0]), Err(Errno::ESTALE));
        assert_eq!(plan(realm, [0, number]), Err(Errno::ESTALE));
        assert_eq!(plan(realm, [number, number + 1]), Err(Errno::ESTALE));
        assert_eq!(plan(Realm::of(Some(0)), [0, 0]), Err(Errno::ESTALE));
        // For all others the rules of projects hold.
        assert_eq!(plan(Realm::ALL, [number, 0]), Err(Errno::EXDEV));
        assert_eq!(plan(Realm::ALL, [0, number]), Err(Errno::EXDEV));
        assert_eq!(plan(Realm::ALL, [0, 7]), Ok(2));
    }
}
