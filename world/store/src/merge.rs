//! Scans over layers: newer batches hide the older ones' records of the same key, and those of the
//! tree below them.

use crate::batch::{Batch, Range};
use crate::engine::Visit;
use crate::error::StoreError;
use smallvec::SmallVec;
use std::iter::Peekable;
use std::ops::ControlFlow;

/// Batches merged in key order, newest first.
pub struct Layers<'a> {
    ranges: SmallVec<[Peekable<Range<'a>>; 4]>,
}

impl<'a> Layers<'a> {
    /// The part of each batch from `start` (inclusive) to `end` (exclusive); `batches` newest
    /// first.
    pub fn new(batches: impl Iterator<Item = &'a Batch>, start: &[u8], end: &[u8]) -> Layers<'a> {
        let mut ranges: SmallVec<[Peekable<Range<'a>>; 4]> =
            batches.map(|b| b.range(start, end).peekable()).collect();
        ranges.retain(|r| r.peek().is_some());
        Layers { ranges }
    }

    /// The smallest key left.
    fn peek_key(&mut self) -> Option<&'a [u8]> {
        self.ranges.iter_mut().filter_map(|r| r.peek().map(|(key, _)| *key)).min()
    }

    /// The newest layer's answer about `key`; all layers move past that key.
    fn pass(&mut self, key: &[u8]) -> Option<Option<&'a [u8]>> {
        let mut newest = None;
        for range in &mut self.ranges {
            if let Some((_, value)) = range.next_if(|(k, _)| *k == key) {
                newest.get_or_insert(value);
            }
        }
        newest
    }

    /// Visits the layers' records merged over those of `base`, in key order, until `visit` breaks.
    ///
    /// # Errors
    /// Errors of `base`.
    pub fn scan_over(
        mut self,
        base: impl FnOnce(&mut Visit<'_>) -> Result<(), StoreError>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        if self.ranges.is_empty() {
            return base(visit);
        }
        let mut stopped = false;
        base(&mut |key, value| {
            let flow = self.visit_through(key, value, visit);
            stopped = flow.is_break();
            flow
        })?;
        if !stopped {
            // Whether the last visit broke no longer matters: there is nothing after it.
            let _ = self.visit_rest(visit);
        }
        Ok(())
    }

    /// Everything below `key`, then `key` itself as the newest layer (or the base) has it.
    fn visit_through(&mut self, key: &[u8], base: &[u8], visit: &mut Visit<'_>) -> ControlFlow<()> {
        while let Some(next) = self.peek_key().filter(|next| *next < key) {
            if let Some(Some(value)) = self.pass(next) {
                visit(next, value)?;
            }
        }
        match self.pass(key) {
            None => visit(key, base),
            Some(Some(value)) => visit(key, value),
            Some(None) => ControlFlow::Continue(()),
        }
    }

    fn visit_rest(&mut self, visit: &mut Visit<'_>) -> ControlFlow<()> {
        for (key, value) in self.by_ref() {
            if let Some(value) = value {
                visit(key, value)?;
            }
        }
        ControlFlow::Continue(())
    }
}

impl<'a> Iterator for Layers<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        if let [only] = &mut self.ranges[..] {
            return only.next();
        }
        let key = self.peek_key()?;
        Some((key, self.pass(key).expect("the key was just seen in a layer")))
    }
}
