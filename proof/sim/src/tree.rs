//! The POSIX model of the name space: what each operation must answer in a given state.
//!
//! Written from the standard, not from the code under test. Where POSIX leaves a choice, or where
//! an inode is gone but may still be held open, every permitted answer fits.

mod nodes;

use crate::history::{ANY_NLINK, Answer, Call, Ino, Kind, mdt_of};
use nodes::Nodes;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::errno::Errno;

/// Inodes above this number were made by an operation that was never answered: their numbers are
/// not known.
pub const SYNTHETIC: Ino = 1 << 63;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node {
    kind: Kind,
    /// The MDT that has it.
    mdt: u16,
    /// Names of a file; for a directory 1 while it exists.
    links: u32,
    parent: Ino,
    names: BTreeMap<String, Ino>,
}

/// Numbers that were seen, by the synthetic ones in whose place they stand from then on.
pub type Bound = Vec<(Ino, Ino)>;

/// A set of MDTs, a bit for each.
pub type MdtSet = u64;

/// The set of this MDT.
pub fn only(mdt: u16) -> MdtSet {
    1 << mdt
}

/// A state of the name space.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    root: Ino,
    nodes: Nodes,
}

impl Tree {
    /// Only an empty root.
    pub fn new(root: Ino) -> Tree {
        let node = Node {
            kind: Kind::Dir,
            mdt: mdt_of(root),
            links: 1,
            parent: root,
            names: BTreeMap::new(),
        };
        let mut nodes = Nodes::new();
        nodes.insert(root, Arc::new(node));
        Tree { root, nodes }
    }

    /// All inodes that have a name: (number, kind).
    pub fn living(&self) -> impl Iterator<Item = (Ino, Kind)> + '_ {
        self.nodes.iter().filter(|(_, node)| node.links > 0).map(|(ino, node)| (ino, node.kind))
    }

    /// True if this inode has a name.
    pub fn has(&self, ino: Ino) -> bool {
        self.node(ino).is_some_and(|node| node.links > 0)
    }

    /// The MDTs whose records the call changes, if it is done.
    pub fn changed_mdts(&self, call: &Call) -> MdtSet {
        let of = |ino: &Ino| self.nodes.get(*ino).map_or(0, |node| only(node.mdt));
        let behind = |parent: &Ino, name: &String| {
            self.nodes.get(*parent).and_then(|dir| dir.names.get(name)).map_or(0, of)
        };
        match call {
            Call::Lookup { .. } | Call::Getattr { .. } | Call::Readdir { .. } => 0,
            Call::Make { parent, name, mdt, .. } => match behind(parent, name) {
                0 => of(parent) | only(*mdt),
                // It is there.
                _ => 0,
            },
            Call::Unlink { parent, name } | Call::Rmdir { parent, name } => {
                of(parent) | behind(parent, name)
            }
            Call::Link { ino, parent, .. } => of(ino) | of(parent),
            Call::Rename { parent, name, new_parent, new_name } => {
                let changed = of(parent)
                    | of(new_parent)
                    | behind(parent, name)
                    | behind(new_parent, new_name);
                let moved = self.nodes.get(*parent).and_then(|dir| dir.names.get(name));
                let moved = moved.and_then(|ino| self.nodes.get(*ino));
                match moved.is_some_and(|node| node.kind == Kind::Dir) && parent != new_parent {
                    true => changed | self.pinned_above(*parent, *new_parent, changed),
                    false => changed,
                }
            }
        }
    }

    /// The MDTs that take part in a move of a directory because they have one above its new place
    /// (docs/dne.md, section 9): none, if all up to a common one of both parents are of the only
    /// MDT that is `changed`.
    fn pinned_above(&self, parent: Ino, new_parent: Ino, changed: MdtSet) -> MdtSet {
        let up = |from: Ino| {
            std::iter::successors(Some(from), |at| {
                self.nodes.get(*at).map(|node| node.parent).filter(|above| above != at)
            })
        };
        let of = |ino: Ino| self.nodes.get(ino).map_or(0, |node| only(node.mdt));
        let is_common = |dir: Ino| up(parent).any(|above| above == dir);
        let to_common = up(new_parent).take_while(|dir| !is_common(*dir));
        let common = up(new_parent).find(|dir| is_common(*dir));
        let local = to_common.chain(common).fold(changed, |all, dir| all | of(dir));
        match local.count_ones() {
            1 => 0,
            // The token is at MDT 0.
            _ => up(new_parent).fold(only(0), |all, dir| all | of(dir)),
        }
    }

    /// True if the directories of this MDT may be those that were seen: by number, with their
    /// names.
    pub fn may_be_seen_at(&self, mdt: u16, seen: &BTreeMap<Ino, BTreeMap<String, Ino>>) -> bool {
        let own = self.nodes.iter().filter(|(_, node)| node.mdt == mdt && node.links > 0);
        own.into_iter().all(|(ino, node)| {
            seen.get(&ino).is_none_or(|seen| {
                let same = |(name, child): (&String, &Ino)| {
                    seen.get(name).is_some_and(|seen| seen == child || *child >= SYNTHETIC)
                };
                seen.len() == node.names.len() && node.names.iter().all(same)
            })
        })
    }

    fn nlink(&self, ino: Ino) -> u32 {
        let node = &self.nodes[ino];
        match node.kind {
            Kind::Dir if node.links == 0 => 0,
            Kind::Dir => {
                2 + node
                    .names
                    .values()
                    .filter(|child| self.nodes[**child].kind == Kind::Dir)
                    .count() as u32
            }
            Kind::File | Kind::Symlink => node.links,
        }
    }

    fn node(&self, ino: Ino) -> Option<&Node> {
        self.nodes.get(ino).map(Arc::as_ref)
    }

    /// A directory that can be used as a parent.
    fn dir(&self, ino: Ino) -> Option<&Node> {
        self.node(ino).filter(|node| node.kind == Kind::Dir && node.links > 0)
    }

    /// True if an inode is this directory, or somewhere below it.
    pub fn is_below(&self, mut ino: Ino, above: Ino) -> bool {
        loop {
            if ino == above {
                return true;
            }
            match self.nodes.get(ino) {
                Some(node) if ino != self.root => ino = node.parent,
                _ => return false,
            }
        }
    }

    /// Gives an inode with an unknown number the number that was seen now.
    pub fn bind(&mut self, synthetic: Ino, ino: Ino) {
        if let Some(node) = self.nodes.remove(synthetic) {
            self.nodes.insert(ino, node);
        }
        let names = |node: &Node| node.names.values().any(|child| *child == synthetic);
        let with_it = self.nodes.iter().filter(|(_, node)| node.parent == synthetic || names(node));
        let with_it: Vec<Ino> = with_it.map(|(ino, _)| ino).collect();
        for with_it in with_it {
            self.nodes.change(with_it, |node| {
                if node.parent == synthetic {
                    node.parent = ino;
                }
                let children = node.names.values_mut().filter(|child| **child == synthetic);
                children.for_each(|child| *child = ino);
            });
        }
    }

    /// True if `seen` may be the number of `ino`. Binds it if so.
    fn identify(&mut self, ino: Ino, seen: Ino, bound: &mut Bound) -> bool {
        if ino == seen {
            return true;
        }
        let free = ino >= SYNTHETIC && self.nodes.get(seen).is_none();
        if free {
            self.bind(ino, seen);
            bound.push((ino, seen));
        }
        free
    }

    fn fits_inode(&mut self, ino: Ino, answer: Option<&Answer>, bound: &mut Bound) -> bool {
        match answer {
            None => true,
            Some(Answer::Inode { ino: seen, kind, nlink }) => {
                self.identify(ino, *seen, bound)
                    && self.nodes[*seen].kind == *kind
                    && (*nlink == ANY_NLINK || self.nlink(*seen) == *nlink)
            }
            Some(_) => false,
        }
    }

    /// The state after `call`, if this answer is possible. `answer` `None`: there was none, so
    /// anything fits. `number`: the operation, to name what it makes if it was not answered.
    pub fn apply(&self, call: &Call, answer: Option<&Answer>, number: usize) -> Option<Tree> {
        self.apply_and_bind(call, answer, number, &mut Bound::new())
    }

    /// As [`Tree::apply`], also telling which numbers became known by the answer.
    pub fn apply_and_bind(
        &self,
        call: &Call,
        answer: Option<&Answer>,
        number: usize,
        bound: &mut Bound,
    ) -> Option<Tree> {
        let errors = self.errors(call);
        match answer {
            Some(Answer::Refused(errno)) => {
                return errors.contains(errno).then(|| self.clone());
            }
            _ if errors.is_empty() => {}
            None => return Some(self.clone()),
            // Refusal is optional for what is gone but may be held open.
            Some(_) if self.may_be_held(call) => {}
            Some(_) => return None,
        }
        let mut after = self.clone();
        after.change(call, answer, number, bound).then_some(after)
    }

    /// The state in which this name leads to this inode, if it may be this one.
    pub fn leads(&self, dir: Ino, name: &str, seen: Ino, bound: &mut Bound) -> Option<Tree> {
        let mut after = self.clone();
        let ino = *self.dir(dir)?.names.get(name)?;
        after.identify(ino, seen, bound).then_some(after)
    }

    /// The inode was removed, and the operation looks at the inode itself.
    fn may_be_held(&self, call: &Call) -> bool {
        matches!(call, Call::Getattr { ino } | Call::Readdir { ino } if self.nodes.get(*ino).is_some())
    }

    /// Why it must be refused; empty: it must not.
    fn errors(&self, call: &Call) -> Vec<Errno> {
        let mut errors = Vec::new();
        let mut need = |dir: Ino| {
            if self.dir(dir).is_none() {
                errors.extend([Errno::ENOENT, Errno::ESTALE]);
            }
        };
        match call {
            Call::Lookup { parent, .. }
            | Call::Make { parent, .. }
            | Call::Unlink { parent, .. }
            | Call::Rmdir { parent, .. }
            | Call::Link { parent, .. } => need(*parent),
            Call::Rename { parent, new_parent, .. } => {
                need(*parent);
                need(*new_parent);
            }
            Call::Getattr { .. } | Call::Readdir { .. } => {}
        }
        let find = |parent: &Ino, name: &String| {
            let ino = self.dir(*parent).and_then(|dir| dir.names.get(name))?;
            Some((*ino, &self.nodes[*ino]))
        };
        match call {
            Call::Lookup { parent, name } => {
                if find(parent, name).is_none() {
                    errors.push(Errno::ENOENT);
                }
            }
            Call::Getattr { ino } | Call::Readdir { ino } => {
                if self.nodes.get(*ino).is_none_or(|node| node.links == 0) {
                    errors.extend([Errno::ENOENT, Errno::ESTALE]);
                }
            }
            Call::Make { parent, name, kind, exclusive, .. } => {
                if let Some((_, node)) = find(parent, name)
                    && (*exclusive || *kind != Kind::File || node.kind != Kind::File)
                {
                    errors.push(Errno::EEXIST);
                }
            }
            Call::Unlink { parent, name } => match find(parent, name) {
                None => errors.push(Errno::ENOENT),
                Some((_, node)) if node.kind == Kind::Dir => errors.push(Errno::EISDIR),
                Some(_) => {}
            },
            Call::Rmdir { parent, name } => match find(parent, name) {
                None => errors.push(Errno::ENOENT),
                Some((_, node)) if node.kind != Kind::Dir => errors.push(Errno::ENOTDIR),
                Some((_, node)) if !node.names.is_empty() => errors.push(Errno::ENOTEMPTY),
                Some(_) => {}
            },
            Call::Rename { parent, name, new_parent, new_name } => {
                let (from, to) = (find(parent, name), find(new_parent, new_name));
                match from {
                    None => errors.push(Errno::ENOENT),
                    Some((ino, node)) => {
                        if node.kind == Kind::Dir && self.is_below(*new_parent, ino) {
                            errors.push(Errno::EINVAL);
                        }
                        if let Some((over, there)) = to
                            && over != ino
                        {
                            match (node.kind, there.kind) {
                                (Kind::Dir, Kind::Dir) if !there.names.is_empty() => {
                                    errors.extend([Errno::ENOTEMPTY, Errno::EEXIST]);
                                }
                                (Kind::Dir, Kind::Dir) => {}
                                (Kind::Dir, _) => errors.push(Errno::ENOTDIR),
                                (_, Kind::Dir) => errors.push(Errno::EISDIR),
                                _ => {}
                            }
                        }
                    }
                }
                // A directory above it is never empty.
                if to.is_some_and(|(over, there)| {
                    there.kind == Kind::Dir && self.is_below(*parent, over)
                }) {
                    errors.push(Errno::ENOTEMPTY);
                }
            }
            Call::Link { ino, parent, name } => {
                if find(parent, name).is_some() {
                    errors.push(Errno::EEXIST);
                }
                if self.nodes.get(*ino).is_none_or(|node| node.links == 0) {
                    errors.extend([Errno::ENOENT, Errno::ESTALE]);
                }
            }
        }
        errors
    }

    /// Makes the change, after all checks; `false`: the answer does not fit.
    fn change(
        &mut self,
        call: &Call,
        answer: Option<&Answer>,
        number: usize,
        bound: &mut Bound,
    ) -> bool {
        match call {
            Call::Lookup { parent, name } => {
                let ino = self.nodes[*parent].names[name];
                self.fits_inode(ino, answer, bound)
            }
            Call::Getattr { ino } => self.fits_inode(*ino, answer, bound),
            Call::Make { parent, name, kind, mdt, .. } => {
                if let Some(there) = self.nodes[*parent].names.get(name).copied() {
                    return self.fits_inode(there, answer, bound);
                }
                let ino = match answer {
                    Some(Answer::Inode { ino, .. }) => *ino,
                    _ => SYNTHETIC + number as Ino,
                };
                if self.nodes.get(ino).is_some() {
                    return false;
                }
                let names = BTreeMap::new();
                let node = Node { kind: *kind, mdt: *mdt, links: 1, parent: *parent, names };
                self.nodes.insert(ino, Arc::new(node));
                self.name(*parent, name, ino);
                self.fits_inode(ino, answer, bound)
            }
            Call::Unlink { parent, name } | Call::Rmdir { parent, name } => {
                self.remove(*parent, name);
                matches!(answer, None | Some(Answer::Done))
            }
            Call::Rename { parent, name, new_parent, new_name } => {
                let ino = self.nodes[*parent].names[name];
                let over = self.nodes[*new_parent].names.get(new_name).copied();
                if over != Some(ino) {
                    if over.is_some() {
                        self.remove(*new_parent, new_name);
                    }
                    self.nodes.change(*parent, |parent| parent.names.remove(name));
                    self.name(*new_parent, new_name, ino);
                }
                matches!(answer, None | Some(Answer::Done))
            }
            Call::Link { ino, parent, name } => {
                self.nodes.change(*ino, |node| node.links += 1);
                self.name(*parent, name, *ino);
                self.fits_inode(*ino, answer, bound)
            }
            Call::Readdir { ino } => match answer {
                None => true,
                Some(Answer::Names(seen)) => {
                    let Some(dir) = self.nodes.get(*ino).cloned() else { return false };
                    let names = &dir.names;
                    names.len() == seen.len()
                        && names.iter().all(|(name, child)| {
                            seen.get(name).is_some_and(|s| self.identify(*child, *s, bound))
                        })
                }
                Some(_) => false,
            },
        }
    }

    fn name(&mut self, parent: Ino, name: &str, ino: Ino) {
        self.nodes.change(parent, |dir| dir.names.insert(name.to_owned(), ino));
        self.nodes.change(ino, |node| node.parent = parent);
    }

    fn remove(&mut self, parent: Ino, name: &str) {
        let removed = self.nodes.change(parent, |dir| dir.names.remove(name)).flatten();
        if let Some(ino) = removed {
            self.nodes.change(ino, |node| node.links -= 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Ino = 1;

    fn make(parent: Ino, name: &str, kind: Kind) -> Call {
        Call::Make { parent, name: name.to_owned(), kind, exclusive: true, mdt: 0 }
    }

    fn inode(ino: Ino, kind: Kind, nlink: u32) -> Answer {
        Answer::Inode { ino, kind, nlink }
    }

    fn done(tree: &Tree, call: Call, answer: Answer) -> Tree {
        tree.apply(&call, Some(&answer), 0).unwrap_or_else(|| panic!("{call:?} {answer:?}"))
    }

    fn refused(tree: &Tree, call: &Call, errno: Errno) {
        assert_eq!(
            tree.apply(call, Some(&Answer::Refused(errno)), 0).as_ref(),
            Some(tree),
            "{call:?}"
        );
        assert_eq!(tree.apply(call, Some(&Answer::Done), 0), None, "{call:?}");
        assert_eq!(tree.apply(call, Some(&Answer::Refused(Errno::EPERM)), 0), None, "{call:?}");
    }

    #[test]
    fn names_links_and_directories() {
        let tree = Tree::new(ROOT);
        let tree = done(&tree, make(ROOT, "d", Kind::Dir), inode(2, Kind::Dir, 2));
        assert_eq!(done(&tree, Call::Getattr { ino: ROOT }, inode(ROOT, Kind::Dir, 3)), tree);
        let tree = done(&tree, make(2, "f", Kind::File), inode(3, Kind::File, 1));
        refused(&tree, &make(2, "f", Kind::File), Errno::EEXIST);
        refused(&tree, &Call::Rmdir { parent: ROOT, name: "d".into() }, Errno::ENOTEMPTY);
        let link = Call::Link { ino: 3, parent: ROOT, name: "g".into() };
        let tree = done(&tree, link, inode(3, Kind::File, 2));
        let onto_itself =
            Call::Rename { parent: ROOT, name: "g".into(), new_parent: 2, new_name: "f".into() };
        assert_eq!(
            done(&tree, onto_itself, Answer::Done),
            tree,
            "two names of one inode: nothing happens"
        );
        let into_itself =
            Call::Rename { parent: ROOT, name: "d".into(), new_parent: 2, new_name: "x".into() };
        refused(&tree, &into_itself, Errno::EINVAL);
        let tree = done(&tree, Call::Unlink { parent: 2, name: "f".into() }, Answer::Done);
        let tree = done(&tree, Call::Rmdir { parent: ROOT, name: "d".into() }, Answer::Done);
        refused(&tree, &make(2, "x", Kind::File), Errno::ENOENT);
        let names = Answer::Names(BTreeMap::from([("g".to_owned(), 3)]));
        done(&tree, Call::Readdir { ino: ROOT }, names);
    }

    #[test]
    fn a_wrong_answer_does_not_fit() {
        let tree = done(&Tree::new(ROOT), make(ROOT, "f", Kind::File), inode(2, Kind::File, 1));
        let lookup = Call::Lookup { parent: ROOT, name: "f".into() };
        for wrong in
            [inode(3, Kind::File, 1), inode(2, Kind::Dir, 1), inode(2, Kind::File, 2), Answer::Done]
        {
            assert_eq!(tree.apply(&lookup, Some(&wrong), 0), None, "{wrong:?}");
        }
        assert_eq!(tree.apply(&lookup, Some(&Answer::Refused(Errno::ENOENT)), 0), None);
        let used = make(ROOT, "g", Kind::File);
        assert_eq!(
            tree.apply(&used, Some(&inode(2, Kind::File, 1)), 0),
            None,
            "an inode number is never given twice"
        );
    }

    #[test]
    fn what_nobody_was_told_gets_its_number_when_it_is_seen() {
        let tree = Tree::new(ROOT).apply(&make(ROOT, "f", Kind::File), None, 7).unwrap();
        let lookup = Call::Lookup { parent: ROOT, name: "f".into() };
        let seen = done(&tree, lookup.clone(), inode(55, Kind::File, 1));
        assert_eq!(seen.apply(&lookup, Some(&inode(56, Kind::File, 1)), 0), None);
        assert_eq!(seen.living().collect::<Vec<_>>(), [(ROOT, Kind::Dir), (55, Kind::File)]);
    }

    #[test]
    fn what_is_removed_may_still_be_held() {
        let tree = done(&Tree::new(ROOT), make(ROOT, "f", Kind::File), inode(2, Kind::File, 1));
        let tree = done(&tree, Call::Unlink { parent: ROOT, name: "f".into() }, Answer::Done);
        let look = Call::Getattr { ino: 2 };
        assert!(tree.apply(&look, Some(&inode(2, Kind::File, 0)), 0).is_some());
        assert!(tree.apply(&look, Some(&Answer::Refused(Errno::ENOENT)), 0).is_some());
        assert!(tree.apply(&look, Some(&inode(2, Kind::File, 1)), 0).is_none());
    }
}
