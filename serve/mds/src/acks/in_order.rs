//! Values by transno, in a queue. Changes come nearly always in the order of their numbers, and go
//! in that order, too: a queue takes them with less work than a tree. Any other order is served as
//! well.

use std::collections::VecDeque;
use types::session::Transno;

/// See the module.
#[derive(Clone)]
pub(super) struct InOrder<T>(VecDeque<(Transno, T)>);

impl<T> Default for InOrder<T> {
    fn default() -> InOrder<T> {
        InOrder(VecDeque::new())
    }
}

impl<T> InOrder<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The newest number.
    pub(super) fn last(&self) -> Option<Transno> {
        self.0.back().map(|(transno, _)| *transno)
    }

    pub(super) fn get(&self, transno: Transno) -> Option<&T> {
        let at = self.find(transno).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, transno: Transno) -> Option<&mut T> {
        let at = self.find(transno).ok()?;
        self.0.get_mut(at).map(|(_, value)| value)
    }

    /// Takes the place of an earlier value.
    pub(super) fn insert(&mut self, transno: Transno, value: T) {
        if self.last().is_none_or(|last| last < transno) {
            return self.0.push_back((transno, value));
        }
        match self.find(transno) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (transno, value)),
        }
    }

    pub(super) fn remove(&mut self, transno: Transno) -> Option<T> {
        let at = self.find(transno).ok()?;
        self.0.remove(at).map(|(_, value)| value)
    }

    /// Takes the oldest one, if its number is not above `last`.
    pub(super) fn pop_up_to(&mut self, last: Transno) -> Option<(Transno, T)> {
        self.0.front().filter(|(transno, _)| *transno <= last)?;
        self.0.pop_front()
    }

    /// The place of a number, or where it would be.
    fn find(&self, transno: Transno) -> Result<usize, usize> {
        // Most often no number is missing: then it is as far from the first as the numbers say.
        let first = self.0.front().map_or(0, |(first, _)| first.0);
        let guess = transno.0.wrapping_sub(first) as usize;
        match self.0.get(guess) {
            Some((found, _)) if *found == transno => Ok(guess),
            _ => self.0.binary_search_by_key(&transno, |(transno, _)| *transno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_holds_what_a_tree_holds(
            steps in prop::collection::vec((0_u8..4, 1_u64..40, any::<u8>()), 0..200)
        ) {
            let (mut queue, mut tree) = (InOrder::default(), BTreeMap::new());
            for (step, number, value) in steps {
                let transno = Transno(number);
                match step {
                    0 => {
                        queue.insert(transno, value);
                        tree.insert(transno, value);
                    }
                    1 => prop_assert_eq!(queue.remove(transno), tree.remove(&transno)),
                    2 => {
                        let first = tree.first_entry().filter(|first| *first.key() <= transno);
                        let first = first.map(|first| first.remove_entry());
                        prop_assert_eq!(queue.pop_up_to(transno), first);
                    }
                    _ => {
                        prop_assert_eq!(queue.get(transno), tree.get(&transno));
                        prop_assert_eq!(queue.get_mut(transno), tree.get_mut(&transno));
                    }
                }
                prop_assert_eq!(queue.last(), tree.keys().next_back().copied());
                prop_assert_eq!(queue.is_empty(), tree.is_empty());
            }
        }
    }
}
