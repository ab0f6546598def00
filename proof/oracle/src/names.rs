//! All names of one run as one object: the inode of each name.
//!
//! They are one object, and not one for each name, so that a half-done rename, or a link count that
//! fits no moment, is found. mkdir(2) does not tell the inode number of a directory, so a directory
//! is known by the operation that made it.

use crate::history::Place;
use judge::{DONE, Model, Phase, START};
use std::collections::BTreeMap;

/// The inode that a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    File(u64),
    /// The directory that the operation `made` made, and its number once that was seen.
    Dir {
        made: u64,
        ino: Option<u64>,
    },
}

/// What was seen at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Nothing,
    Something,
    SomeFile,
    SomeDir,
    /// A directory with a file in it.
    FullDir,
    File(u64),
    Dir(u64),
}

/// Operations on names. Without another word they are those that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameOp {
    Is(Place, Seen),
    Make(Place, u64),
    /// `O_CREAT` without `O_EXCL`: what was there is opened.
    OpenOrMake(Place, u64),
    /// `op`: tells this directory from others.
    MakeDir(Place, u64),
    Unlink(Place),
    RemoveDir(Place),
    Rename(Place, Place),
    Link(Place, Place),
    /// A link that failed with ENOENT: nothing at the name, or what was there was gone when it
    /// should get its new name.
    LinkGone(Place),
    MakeIn {
        dir: u64,
        ino: u64,
    },
    UnlinkIn {
        dir: u64,
    },
    /// The directory has its file.
    Full {
        dir: u64,
    },
    /// The directory has no file, whether it has a name or not.
    Empty {
        dir: u64,
    },
    /// The directory has a name.
    Alive {
        dir: u64,
    },
    Gone {
        dir: u64,
    },
    /// One of two names (or the one, twice) leads to a directory.
    AnyDir(Place, Place),
    /// A file has so many names.
    Links {
        ino: u64,
        links: u32,
    },
}

/// The inode of each name, and the directories that have their file `x`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tree {
    pub names: BTreeMap<Place, Target>,
    pub inside: BTreeMap<u64, u64>,
}

impl Tree {
    fn links(&self, ino: u64) -> usize {
        self.names.values().filter(|t| **t == Target::File(ino)).count()
            + self.inside.values().filter(|i| **i == ino).count()
    }

    fn alive(&self, dir: u64) -> bool {
        self.names.values().any(|t| matches!(t, Target::Dir { ino, .. } if *ino == Some(dir)))
    }

    fn full(&self, target: Target) -> bool {
        matches!(target, Target::Dir { ino: Some(dir), .. } if self.inside.contains_key(&dir))
    }

    fn sees(&self, at: Place, seen: Seen) -> bool {
        let target = self.names.get(&at).copied();
        match (seen, target) {
            (Seen::Nothing, None) | (Seen::Something, Some(_)) => true,
            (Seen::SomeFile, Some(Target::File(_))) | (Seen::SomeDir, Some(Target::Dir { .. })) => {
                true
            }
            (Seen::FullDir, Some(target)) => self.full(target),
            (Seen::File(ino), Some(target)) => target == Target::File(ino),
            (Seen::Dir(dir), Some(target)) => {
                matches!(target, Target::Dir { ino, .. } if ino == Some(dir))
            }
            _ => false,
        }
    }

    fn with(&self, at: Place, target: Option<Target>) -> Tree {
        let mut tree = self.clone();
        match target {
            Some(target) => tree.names.insert(at, target),
            None => tree.names.remove(&at),
        };
        tree
    }
}

/// A number for what a name leads to, never 0.
fn number(target: Target) -> u64 {
    match target {
        Target::File(ino) => ino << 1 | 1,
        Target::Dir { made, .. } => (made + 1) << 1,
    }
}

/// The model.
pub struct Names;

impl Names {
    fn rename(tree: &Tree, from: Place, to: Place, phase: Phase, out: &mut Vec<(Tree, Phase)>) {
        let (source, target) = (tree.names.get(&from).copied(), tree.names.get(&to).copied());
        // Two names of one inode: nothing happens. Linux looks at both itself before it asks the
        // file system, one after the other. So the second may be the one to which another client
        // has just renamed the first. The phase holds what the first look found, and which name
        // that was.
        if phase != START {
            let second = if phase & 1 == 0 { target } else { source };
            if second.is_some_and(|target| number(target) == phase >> 1) {
                out.push((tree.clone(), DONE));
            }
            return;
        }
        out.extend(source.map(|target| (tree.clone(), number(target) << 1)));
        out.extend(target.map(|target| (tree.clone(), number(target) << 1 | 1)));
        let Some(source) = source else { return };
        let fits = match (source, target) {
            (_, None) => true,
            (Target::File(_), Some(target)) => {
                matches!(target, Target::File(_)) && source != target
            }
            (Target::Dir { .. }, Some(target)) => {
                matches!(target, Target::Dir { .. }) && !tree.full(target)
            }
        };
        if fits {
            out.push((tree.with(from, None).with(to, Some(source)), DONE));
        }
    }

    fn link(
        tree: &Tree,
        from: Place,
        to: Option<Place>,
        phase: Phase,
        out: &mut Vec<(Tree, Phase)>,
    ) {
        // The file is looked up first, and gets its name later: phase = inode + 1.
        match (phase, tree.names.get(&from), to) {
            (START, Some(Target::File(ino)), _) => out.push((tree.clone(), ino + 1)),
            (START, None, None) => out.push((tree.clone(), DONE)),
            (START, ..) => {}
            (_, _, Some(to)) if tree.links(phase - 1) > 0 && !tree.names.contains_key(&to) => {
                out.push((tree.with(to, Some(Target::File(phase - 1))), DONE));
            }
            (_, _, None) if tree.links(phase - 1) == 0 => out.push((tree.clone(), DONE)),
            _ => {}
        }
    }
}

impl Model for Names {
    type State = Tree;
    type Op = NameOp;

    fn steps(&self, op: &NameOp, phase: Phase, tree: &Tree, out: &mut Vec<(Tree, Phase)>) {
        let there = |at: Place| tree.names.get(&at).copied();
        match *op {
            NameOp::Is(at, Seen::Dir(dir)) => match there(at) {
                // Its number is known from here on; no other directory has it.
                Some(Target::Dir { made, ino: None }) if !tree.alive(dir) => {
                    out.push((tree.with(at, Some(Target::Dir { made, ino: Some(dir) })), DONE));
                }
                Some(Target::Dir { ino, .. }) if ino == Some(dir) => out.push((tree.clone(), DONE)),
                _ => {}
            },
            NameOp::Make(at, ino) if there(at).is_none() => {
                out.push((tree.with(at, Some(Target::File(ino))), DONE));
            }
            NameOp::OpenOrMake(at, ino) => match there(at) {
                None => out.push((tree.with(at, Some(Target::File(ino))), DONE)),
                Some(Target::File(there)) if there == ino => out.push((tree.clone(), DONE)),
                Some(_) => {}
            },
            NameOp::MakeDir(at, made) if there(at).is_none() => {
                out.push((tree.with(at, Some(Target::Dir { made, ino: None })), DONE));
            }
            NameOp::Unlink(at) if tree.sees(at, Seen::SomeFile) => {
                out.push((tree.with(at, None), DONE))
            }
            NameOp::RemoveDir(at)
                if tree.sees(at, Seen::SomeDir) && !tree.sees(at, Seen::FullDir) =>
            {
                out.push((tree.with(at, None), DONE));
            }
            NameOp::Rename(from, to) => Names::rename(tree, from, to, phase, out),
            NameOp::Link(from, to) => Names::link(tree, from, Some(to), phase, out),
            NameOp::LinkGone(from) => Names::link(tree, from, None, phase, out),
            NameOp::MakeIn { dir, ino } if tree.alive(dir) && !tree.inside.contains_key(&dir) => {
                let mut next = tree.clone();
                next.inside.insert(dir, ino);
                out.push((next, DONE));
            }
            NameOp::UnlinkIn { dir } if tree.inside.contains_key(&dir) => {
                let mut next = tree.clone();
                next.inside.remove(&dir);
                out.push((next, DONE));
            }
            _ => {
                if self.holds(op, tree) {
                    out.push((tree.clone(), DONE));
                }
            }
        }
    }

    fn looks(&self, op: &NameOp) -> bool {
        match op {
            // It gives a directory that was made its number, and others use that number.
            NameOp::Is(_, Seen::Dir(_)) => false,
            NameOp::Is(..)
            | NameOp::Full { .. }
            | NameOp::Empty { .. }
            | NameOp::Alive { .. }
            | NameOp::Gone { .. }
            | NameOp::AnyDir(..)
            | NameOp::Links { .. } => true,
            NameOp::Make(..)
            | NameOp::OpenOrMake(..)
            | NameOp::MakeDir(..)
            | NameOp::Unlink(_)
            | NameOp::RemoveDir(_)
            | NameOp::Rename(..)
            | NameOp::Link(..)
            | NameOp::LinkGone(_)
            | NameOp::MakeIn { .. }
            | NameOp::UnlinkIn { .. } => false,
        }
    }

    fn holds(&self, op: &NameOp, tree: &Tree) -> bool {
        match *op {
            NameOp::Is(at, seen) => tree.sees(at, seen),
            NameOp::Full { dir } => tree.inside.contains_key(&dir),
            NameOp::Empty { dir } => !tree.inside.contains_key(&dir),
            NameOp::Alive { dir } => tree.alive(dir),
            NameOp::Gone { dir } => !tree.alive(dir),
            NameOp::AnyDir(one, two) => {
                tree.sees(one, Seen::SomeDir) || tree.sees(two, Seen::SomeDir)
            }
            NameOp::Links { ino, links } => tree.links(ino) == links as usize,
            _ => false,
        }
    }
}
