//! Random operations on the real functions and on a simple tree in memory: same answers, same tree.
//!
//! The model knows nothing of records: a node has children by name or is a file; links are shared
//! ids. Directory parents, link counts and emptiness are computed from the tree when they are
//! needed.

mod common;

use common::{Memory, context, fid, plain};
use namespace::create::{Made, New, create};
use namespace::rename::{Flags, Place, rename};
use namespace::{link, rmdir, unlink};
use proptest::prelude::*;
use std::collections::BTreeMap;
use types::attr::FileType;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;

type Id = u32;

/// The inodes that exist, by number; 0 is the root.
#[derive(Debug, Default)]
struct Model {
    nodes: BTreeMap<Id, Option<BTreeMap<String, Id>>>,
}

impl Model {
    fn new() -> Model {
        Model { nodes: BTreeMap::from([(0, Some(BTreeMap::new()))]) }
    }

    fn dir(&self, id: Id) -> Result<&BTreeMap<String, Id>, Errno> {
        self.nodes.get(&id).ok_or(Errno::ENOENT)?.as_ref().ok_or(Errno::ENOTDIR)
    }

    fn dir_mut(&mut self, id: Id) -> &mut BTreeMap<String, Id> {
        self.nodes.get_mut(&id).unwrap().as_mut().unwrap()
    }

    fn is_dir(&self, id: Id) -> bool {
        self.nodes[&id].is_some()
    }

    fn names(&self, id: Id) -> u32 {
        self.nodes.values().flatten().flat_map(|d| d.values()).filter(|child| **child == id).count()
            as u32
    }

    /// True if `id` equals `top` or lies below it.
    fn within(&self, id: Id, top: Id) -> bool {
        id == top
            || self.nodes[&top]
                .iter()
                .flat_map(|d| d.values())
                .any(|child| self.is_dir(*child) && self.within(id, *child))
    }

    fn sweep(&mut self, id: Id) {
        if self.names(id) == 0 {
            self.nodes.remove(&id);
        }
    }

    fn create(&mut self, id: Id, parent: Id, name: &str, dir: bool) -> Result<(), Errno> {
        if self.dir(parent)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        self.nodes.insert(id, dir.then(BTreeMap::new));
        self.dir_mut(parent).insert(name.to_owned(), id);
        Ok(())
    }

    fn remove(&mut self, parent: Id, name: &str, dir: bool) -> Result<(), Errno> {
        let id = *self.dir(parent)?.get(name).ok_or(Errno::ENOENT)?;
        match (dir, self.is_dir(id)) {
            (true, false) => return Err(Errno::ENOTDIR),
            (false, true) => return Err(Errno::EISDIR),
            (true, true) if !self.dir(id)?.is_empty() => return Err(Errno::ENOTEMPTY),
            _ => {}
        }
        self.dir_mut(parent).remove(name);
        self.sweep(id);
        Ok(())
    }

    fn link(&mut self, id: Id, parent: Id, name: &str) -> Result<(), Errno> {
        if !self.nodes.contains_key(&id) {
            return Err(Errno::ENOENT);
        }
        if self.dir(parent)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        if self.is_dir(id) {
            return Err(Errno::EPERM);
        }
        self.dir_mut(parent).insert(name.to_owned(), id);
        Ok(())
    }

    fn rename(&mut self, a: (Id, &str), b: (Id, &str), flags: Flags) -> Result<(), Errno> {
        let dirs = (self.dir(a.0)?.clone(), self.dir(b.0)?.clone());
        let source = *dirs.0.get(a.1).ok_or(Errno::ENOENT)?;
        let target = dirs.1.get(b.1).copied();
        if flags.no_replace && target.is_some() {
            return Err(Errno::EEXIST);
        }
        if flags.exchange && target.is_none() {
            return Err(Errno::ENOENT);
        }
        if self.is_dir(source) && self.within(b.0, source) {
            return Err(Errno::EINVAL);
        }
        if let Some(t) = target.filter(|t| a.0 != b.0 && self.is_dir(*t) && self.within(a.0, *t)) {
            assert!(self.is_dir(t));
            return Err(if flags.exchange { Errno::EINVAL } else { Errno::ENOTEMPTY });
        }
        if target == Some(source) {
            return Ok(());
        }
        if let (Some(t), false) = (target, flags.exchange) {
            match (self.is_dir(source), self.is_dir(t)) {
                (true, false) => return Err(Errno::ENOTDIR),
                (false, true) => return Err(Errno::EISDIR),
                (true, true) if !self.dir(t)?.is_empty() => return Err(Errno::ENOTEMPTY),
                _ => {}
            }
        }
        self.dir_mut(a.0).remove(a.1);
        self.dir_mut(b.0).insert(b.1.to_owned(), source);
        match target {
            Some(t) if flags.exchange => {
                self.dir_mut(a.0).insert(a.1.to_owned(), t);
            }
            Some(t) => self.sweep(t),
            None => {}
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Step {
    Create { parent: usize, name: String, dir: bool },
    Remove { parent: usize, name: String, dir: bool },
    Link { of: usize, parent: usize, name: String },
    Rename { from: (usize, String), to: (usize, String), flags: u8 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = || "[ab]{1,2}";
    let at = || 0usize..8;
    let step = prop_oneof![
        4 => (at(), name(), any::<bool>()).prop_map(|(parent, name, dir)| Step::Create { parent, name, dir }),
        2 => (at(), name(), any::<bool>()).prop_map(|(parent, name, dir)| Step::Remove { parent, name, dir }),
        1 => (at(), at(), name()).prop_map(|(of, parent, name)| Step::Link { of, parent, name }),
        4 => ((at(), name()), (at(), name()), 0u8..4).prop_map(|(from, to, flags)| Step::Rename { from, to, flags }),
    ];
    proptest::collection::vec(step, 1..60)
}

/// Ids of the model and FIDs of the real thing go hand in hand: the root is 0, others are numbered
/// as they are made.
fn fid_of(id: Id) -> Fid {
    if id == 0 { Fid::ROOT } else { fid(id) }
}

fn compare(model: &Model, memory: &Memory) {
    let mut entries = BTreeMap::new();
    for (id, node) in &model.nodes {
        let inode = memory.inodes.get(&fid_of(*id)).expect("inode exists");
        match node {
            Some(children) => {
                let subdirs = children.values().filter(|c| model.is_dir(**c)).count() as u32;
                assert_eq!(inode.attr.nlink, 2 + subdirs, "links of directory {id}");
                for (name, child) in children {
                    entries.insert((fid_of(*id), name.clone().into_bytes()), fid_of(*child));
                    if model.is_dir(*child) {
                        assert_eq!(memory.inodes[&fid_of(*child)].parent, fid_of(*id));
                    }
                }
            }
            None => assert_eq!(inode.attr.nlink, model.names(*id), "links of file {id}"),
        }
        assert_eq!(inode.is_dir(), node.is_some());
    }
    assert_eq!(model.nodes.len(), memory.inodes.len(), "no inode too many");
    let real: BTreeMap<_, _> = memory.dirents.iter().map(|(k, d)| (k.clone(), d.fid)).collect();
    assert_eq!(entries, real);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn same_answers_and_same_tree(steps in steps()) {
        let (mut model, mut memory) = (Model::new(), Memory::new());
        let root = Credentials::root();
        let mut made = 1;
        for (n, step) in (1u64..).zip(steps) {
            let ctx = context(&root, n);
            // Also numbers of what was never made, or is gone.
            let pick = |i: usize| i as Id % (made + 1);
            let before = memory.clone();
            let (expected, found) = match &step {
                Step::Create { parent, name, dir } => {
                    let id = made;
                    let file_type = if *dir { FileType::Directory } else { FileType::Regular };
                    let new = New { fid: fid_of(id), file_type, mode: 0o755, umask: 0, rdev: 0, size: 0 };
                    let expected = model.create(id, pick(*parent), name, *dir);
                    let found = create(&mut memory, &ctx, fid_of(pick(*parent)), name.as_bytes(), new, plain);
                    let found = found.and_then(|m| match m {
                        Made::Created(_) => Ok(()),
                        Made::Found(_) | Made::Elsewhere(_) => Err(Errno::EEXIST),
                    });
                    made += u32::from(expected.is_ok());
                    (expected, found)
                }
                Step::Remove { parent, name, dir } => {
                    let expected = model.remove(pick(*parent), name, *dir);
                    let (parent, name) = (fid_of(pick(*parent)), name.as_bytes());
                    let found = if *dir { rmdir::rmdir(&mut memory, &ctx, parent, name) } else { unlink::unlink(&mut memory, &ctx, parent, name) };
                    (expected, found.map(|_| ()))
                }
                Step::Link { of, parent, name } => {
                    let expected = model.link(pick(*of), pick(*parent), name);
                    (expected, link::link(&mut memory, &ctx, fid_of(pick(*of)), fid_of(pick(*parent)), name.as_bytes(), false).map(|_| ()))
                }
                Step::Rename { from, to, flags } => {
                    let flags = Flags { no_replace: *flags == 1, exchange: *flags == 2 };
                    let expected = model.rename((pick(from.0), &from.1), (pick(to.0), &to.1), flags);
                    let a = Place { parent: fid_of(pick(from.0)), name: from.1.as_bytes() };
                    let b = Place { parent: fid_of(pick(to.0)), name: to.1.as_bytes() };
                    (expected, rename(&mut memory, &ctx, a, b, flags).map(|_| ()))
                }
            };
            // The directory is gone: its client asks where it went, and says ENOENT then.
            let found = found.map_err(|errno| match errno {
                Errno::EREMCHG => Errno::ENOENT,
                errno => errno,
            });
            prop_assert_eq!(expected, found, "{:?}", step);
            if found.is_err() {
                prop_assert_eq!(&before, &memory, "an error changes nothing");
            }
            compare(&model, &memory);
        }
    }
}
